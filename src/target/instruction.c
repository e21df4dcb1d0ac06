/* How is an instruction read from a target file, checked and printed? See instruction.h. */
#include "target/instruction.h"
#include "runtime/cpu.h"
#include "target/fields.h"
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *key;   /* key in a target file */
  bool must;         /* it must be given */
  const char *about; /* meaning */
} keys[IK_COUNT] = {
#define X(id, key, must, about) {key, must, about},
    INSTRUCTION_KEYS(X)
#undef X
};
int instruction_key(const char *key) {
  for (int i = 0; i < IK_COUNT; i++)
    if (!strcmp(keys[i].key, key)) return i;
  return -1;
}
void instruction_key_names(const char *names[IK_COUNT]) {
  for (int i = 0; i < IK_COUNT; i++) names[i] = keys[i].key;
}

/* ---- words ------------------------------------------------------------------------------------- */
static void blanks(const char **s) { *s += strspn(*s, " \t"); }
static bool accept(const char **s, char c) {
  blanks(s);
  return **s == c ? (++*s, true) : false;
}
static const char *word(arena *a, const char **s, const char *stop) {
  blanks(s);
  const size_t n = strcspn(*s, stop);
  const char *w = arena_strndup(a, *s, n);
  *s += n;
  return w;
}
static bool number(const char **s, uint32_t most, uint32_t *n) {
  char *end;
  blanks(s);
  const unsigned long v = **s >= '0' && **s <= '9' ? strtoul(*s, &end, 10) : 0;
  if (!v || v > most) return false;
  *s = end, *n = (uint32_t)v;
  return true;
}
static uint32_t operand_named(const instruction *k, const char *name) {
  uint32_t i = 0;
  while (i < k->noperands && strcmp(k->operands[i].name, name)) i++;
  return i;
}

/* ---- one key each: NULL, or what is wrong with the text ------------------------------------------- */
enum { MAX_LANES = 64, MAX_GROUP = 8, MAX_WORD = 8 };
static bool power_of_two(uint32_t n) { return !(n & (n - 1)); }
static bool identifier(const char *s) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return *s && strspn(s, letters) &&
         strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(s);
}
static const char *read_operands(arena *a, instruction *k) {
  static const char form[] = "expected operands as in `c: i32[16], a: u8[16, 4], b: i8[16, 4]`";
  const char *s = k->text[IK_OPERANDS];
  for (;;) {
    uint32_t lanes, group = 1;
    if (k->noperands == INSTRUCTION_OPERANDS) return arena_fmt(a, "more than %d operands", INSTRUCTION_OPERANDS);
    const instruction_operand o = {.name = word(a, &s, " :,["),
                                   .type = accept(&s, ':') ? et_parse(word(a, &s, " :,[")) : ET_NONE};
    if (!identifier(o.name) || operand_named(k, o.name) < k->noperands || !o.type || !et_bytes(o.type) ||
        et_bits(o.type) < 8 || !accept(&s, '[') || !number(&s, MAX_LANES, &lanes))
      return form;
    if (accept(&s, ',') && !number(&s, MAX_GROUP, &group)) return form;
    if (!accept(&s, ']')) return form;
    if (!power_of_two(lanes) || lanes < 2)
      return arena_fmt(a, "lanes: expected a power of two from 2 to %d", MAX_LANES);
    if (!k->noperands) k->lanes = lanes;
    if (k->noperands < 2) k->group = group;
    if (!k->noperands && group > 1) return "the first operand, the accumulator, has one element in each lane";
    if (lanes != k->lanes || group != k->group)
      return "all operands have equal lanes, and all but the first equal groups";
    if (!power_of_two(group) || group * et_bytes(o.type) > MAX_WORD)
      return arena_fmt(a, "groups: expected a power of two, of %d bytes at most", MAX_WORD);
    k->operands[k->noperands++] = o;
    blanks(&s);
    if (!*s) return k->noperands > 1 ? NULL : form;
    if (!accept(&s, ',')) return form;
  }
}
static const char *read_costs(ctx *c, instruction *k) {
  char *end;
  const char *s = k->text[IK_LATENCY];
  k->per_cycle = num_parse(c, k->text[IK_PER_CYCLE], &end);
  if (*end || !(k->per_cycle > 0 && k->per_cycle <= MAX_LANES)) return "per_cycle: expected a number above 0, up to 64";
  return !number(&s, MAX_LANES, &k->latency) || *s ? "latency: expected 1 to 64" : NULL;
}
/* Is one of the words of s, which end at a blank or a slash, the accumulator? */
static bool names_accumulator(arena *a, const instruction *k, const char *s) {
  bool found = false;
  for (blanks(&s); *s && !found; s += *s == '/', blanks(&s)) found = !strcmp(word(a, &s, " \t/"), k->operands[0].name);
  return found;
}
/* The operands behind a name: each of them once. */
static const char *read_order(arena *a, const instruction *k, const char **s, uint8_t *order, uint32_t n) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t o = operand_named(k, word(a, s, " \t/"));
    if (o == k->noperands || (seen >> o & 1)) return "expected each operand once behind it";
    seen |= 1u << o, order[i] = (uint8_t)o;
  }
  return NULL;
}
static const char *read_llvm(arena *a, instruction *k) {
  const char *s = k->text[IK_LLVM];
  if (!s || !*s) return NULL;
  k->llvm = word(a, &s, " \t");
  if (strncmp(k->llvm, "llvm.", 5)) return "expected an intrinsic, as in `llvm.x86.avx512.vpdpbusd.512 c a b`";
  k->nllvm = k->noperands - !names_accumulator(a, k, s);
  const char *why = read_order(a, k, &s, k->llvm_order, k->nllvm);
  blanks(&s);
  return why ? why : *s ? "there is more behind the operands" : NULL;
}
/* Which of these words, with | between, is w; -1: none. */
static int which(const char *words, const char *w) {
  const size_t n = strlen(w);
  for (int i = 0; n && *words; i++) {
    const size_t m = strcspn(words, "|");
    if (m == n && !memcmp(words, w, n)) return i;
    words += m + (words[m] == '|');
  }
  return -1;
}
static const char *read_x86(arena *a, const target *t, instruction *k) {
  static const char form[] = "expected an encoding as in `EVEX.512.66.0F38.W0 50 /r c a b`";
  static const uint8_t maps[] = {1, 2, 3, 5, 6};
  const char *s = k->text[IK_X86];
  instruction_encoding x = {0};
  if (!s || !*s) return NULL;
  const int kind = which("EVEX|VEX", word(a, &s, ".")),
            bits = accept(&s, '.') ? which("128|256|512", word(a, &s, ".")) : -1,
            prefix = accept(&s, '.') ? which("NP|66|F3|F2", word(a, &s, ".")) : -1,
            map = accept(&s, '.') ? which("0F|0F38|0F3A|MAP5|MAP6", word(a, &s, ".")) : -1,
            w = accept(&s, '.') ? which("W0|W1|WIG", word(a, &s, " \t")) : -1;
  const char *opcode = word(a, &s, " \t"), *slash = word(a, &s, " \t");
  char *end;
  x.opcode = (uint8_t)strtoul(opcode, &end, 16);
  if (kind < 0 || bits < 0 || prefix < 0 || map < 0 || w < 0 || strlen(opcode) != 2 || *end || strcmp(slash, "/r"))
    return form;
  x.bits = 128u << bits, x.vex = kind == 1, x.prefix = (uint8_t)prefix, x.map = maps[map], x.w = w == 1;
  if (k->noperands != 3) return "an encoding has three operands";
  x.added = !names_accumulator(a, k, s);
  const char *why = read_order(a, k, &s, x.order + x.added, 3u - x.added);
  if (why) return why;
  if (x.order[0]) return "ModRM.reg is the accumulator, the first operand";
  if (accept(&s, '/')) {
    const int word_bits = which("m32bcst|m64bcst", word(a, &s, " \t"));
    x.broadcast = (uint8_t)(word_bits < 0 ? 0 : 4 << word_bits);
    if (!x.broadcast || x.vex || x.broadcast != 4 << x.w || x.broadcast != instruction_word(k, x.order[2]))
      return "a word for all lanes is /m32bcst with EVEX and W0, /m64bcst with W1, of as many bytes as a lane";
  }
  blanks(&s);
  if (*s) return "there is more behind the operands";
  if (x.vex && (x.bits == 512 || x.map > 3)) return "VEX has vectors of 128 and 256 bits, and the maps 0F, 0F38, 0F3A";
  if (x.vex && t->vector_registers > 16)
    return "VEX reaches 16 vector registers, and this target has more: expected EVEX";
  for (uint32_t i = 0; i < 3; i++)
    if (instruction_word(k, i) * 8 * k->lanes != x.bits)
      return arena_fmt(a, "operand %s fills %u bits, and the encoding has %u", k->operands[i].name,
                       instruction_word(k, i) * 8 * k->lanes, x.bits);
  k->x86 = x;
  return NULL;
}
static const char *read_needs(arena *a, const target *t, instruction *k) {
  const char *names[EK_RT_CPU_FLAGS];
  unsigned char has[EK_RT_CPU_FLAGS];
  sbuf known = sbuf_new(a);
  const int n = ek_rt_cpu_flags(names, has);
  for (int i = 0; i < n; i++) sb_fmt(&known, " %s", names[i]);
  const char *flags = k->text[IK_NEEDS] ? k->text[IK_NEEDS] : "",
             *flag = cpu_flag_lacking(a, flags, known.n ? known.s : "");
  if (flag && n && !strncmp(t->triple, "x86_64", 6)) return arena_fmt(a, "no CPU flag `%s` is known", flag);
  k->usable = !cpu_flag_lacking(a, flags, t->required) || EK_PLANTED("target-needs");
  return NULL;
}
/* Reports what is wrong with a key; IK_COUNT: with the name. False: nothing is. */
static bool complain(ctx *c, const target *t, const instruction *k, int key, const char *why) {
  srcpos at = k->pos;
  if (key < IK_COUNT && k->line[key]) at.line = k->line[key];
  if (why)
    diag_add(c, D_ERROR, E_TARGET, at, NULL, "target %s: instruction %s: %s: %s", t->name, k->name,
             key < IK_COUNT ? keys[key].key : "name", why);
  return why != NULL;
}
static bool check(ctx *c, const target *t, instruction *k) {
  arena *a = ctx_arena(c);
  if (!identifier(k->name)) return !complain(c, t, k, IK_COUNT, "expected a word of letters, digits and _");
  for (int i = 0; i < IK_COUNT; i++)
    if (keys[i].must && !k->text[i]) return !complain(c, t, k, i, "it is missing");
  return !complain(c, t, k, IK_OPERANDS, read_operands(a, k)) && !complain(c, t, k, IK_NEEDS, read_needs(a, t, k)) &&
         !complain(c, t, k, IK_PER_CYCLE, read_costs(c, k)) && !complain(c, t, k, IK_LLVM, read_llvm(a, k)) &&
         !complain(c, t, k, IK_X86, read_x86(a, t, k)) && !complain(c, t, k, IK_FORMULA, instruction_formula(a, k));
}
bool instructions_check(ctx *c, target *t) {
  bool good = true;
  for (uint32_t i = 0; i < t->instructions.n; i++) good &= check(c, t, &t->instructions.v[i]);
  return good;
}

/* ---- asking and printing -------------------------------------------------------------------------- */
const instruction *target_instruction(const target *t, const char *name) {
  for (uint32_t i = 0; i < t->instructions.n; i++)
    if (!strcmp(t->instructions.v[i].name, name)) return &t->instructions.v[i];
  return NULL;
}
bool instruction_multiplies(const instruction *k, etype sum) {
  const instruction_node *term = &k->nodes[k->nnodes - 1];
  if (!k->usable || k->noperands != 3 || k->operands[0].type != sum || term->kind != IN_OP || term->op != OP_MUL)
    return false;
  for (uint32_t i = 0; i < 2; i++) { /* of the operands, converted at most */
    const instruction_node *n = &k->nodes[term->args[i]];
    while (n->kind == IN_OP && n->op == OP_CAST) n = &k->nodes[n->args[0]];
    if (n->kind != IN_OPERAND) return false;
  }
  return true;
}
const instruction *target_products(const target *t, etype sum, etype a, etype b) {
  for (uint32_t i = 0; i < t->instructions.n; i++) {
    const instruction *k = &t->instructions.v[i];
    const instruction_operand *o = k->operands;
    if (instruction_multiplies(k, sum) && ((o[1].type == a && o[2].type == b) || (o[1].type == b && o[2].type == a)))
      return k;
  }
  return NULL;
}
bool instruction_beats_fma(const target *t, const instruction *k) {
  return instruction_speed(k) > (double)t->fma_per_cycle * target_lanes(t, ET_F32);
}
void instructions_print(const target *t, sbuf *b) {
  for (uint32_t i = 0; i < t->instructions.n; i++) {
    const instruction *k = &t->instructions.v[i];
    sb_fmt(b, "\n# An instruction%s\ninstruction = %s\n", k->usable ? "" : ", whose flags the target has not", k->name);
    for (int j = 0; j < IK_COUNT; j++)
      if (k->text[j]) sb_fmt(b, "%s = %s\n", keys[j].key, k->text[j]);
  }
}
void instructions_fields(sbuf *b) {
  sb_put(
      b,
      "\n## Instructions\n\nA line `instruction = NAME` begins one; the next keys belong to it. One that is declared "
      "again, in a file that\n`extends` another, replaces the first one. [A new "
      "instruction](adding-a-target.md#a-new-instruction) shows how.\n\n| key | must be given | meaning "
      "|\n|---|---|---|\n");
  for (int j = 0; j < IK_COUNT; j++)
    sb_fmt(b, "| `%s` | %s | %s |\n", keys[j].key, keys[j].must ? "yes" : "no", keys[j].about);
}
