/* Which primitives are there, and how is a schedule printed? See record.h. */
#include "schedule/record.h"
#include <string.h>

enum { ANY = UINT16_MAX };
const primitive_form primitive_forms[P_COUNT] = {
    [P_THREADS] = {"threads", OF_KERNEL, false, 1, 1, "always, never or enough",
                   "are the chunks run by several threads? enough: where open sizes give enough work"},
    [P_CHUNKS] = {"chunks", OF_KERNEL, false, 1, 6, "whole, blocks, points VARIABLES, rows N, lanes N",
                  "what threads take: points of outer variables, blocks of rows or lanes, or blocks for a cache"},
    [P_SPLIT] = {"split", OF_KERNEL, true, 1, 2, "VARIABLE N, or none",
                 "the nests of a chunk compute N values of a variable that they share"},
    [P_ROLL] = {"roll", OF_KERNEL, false, 2, 2, "VARIABLE N",
                "a tensor is computed N rows at a time just ahead of the window that reads it"},
    [P_ORDER] = {"order", OF_NEST, false, 0, ANY, "VARIABLE.. or (VARIABLE VARIABLE ..)",
                 "the variables of the loops, outermost first; in parentheses: collapsed into one loop"},
    [P_LANES] = {"lanes", OF_NEST, false, 1, 2, "VARIABLE N, or none", "the variable along the N lanes of a vector"},
    [P_ROWS] = {"rows", OF_NEST, false, 1, 2, "VARIABLE, VARIABLE VARIABLE, (VARIABLE VARIABLE) or none",
                "the variable that the rows of a tile run along; two: all values of the first for some of the second"},
    [P_TILE] = {"tile", OF_NEST, false, 2, 2, "ROWS VECTORS",
                "size of a register tile: rows, and vectors along the lanes"},
    [P_PANELS] = {"panels", OF_NEST, false, 1, 1, "outside or inside",
                  "the loop over panels of lanes stands outside or inside the loop over rows"},
    [P_STRIP] = {"strip", OF_NEST, false, 1, 1, "N", "rows over which all panels pass before the next rows"},
    [P_EDGE] = {"edge", OF_NEST, false, 1, 1, "masked or own",
                "the last lanes, fewer than a vector, run as a panel like the others, or have code of their own"},
    [P_REDUCE] = {"reduce", OF_NEST, true, 0, ANY, "VARIABLE..", "the variables of a sum, outermost first"},
    [P_UNROLL] = {"unroll", OF_NEST, true, 1, 1, "VARIABLE or none",
                  "the steps of a sum's last variable are written out"},
    [P_ACCUMULATORS] = {"accumulators", OF_NEST, false, 1, 2, "1, or 2 SUMS",
                        "tiles of so many sums at most have two accumulators for each, of every second point"},
    [P_INSTRUCTION] = {"instruction", OF_NEST, true, 1, 1, "NAME or none",
                       "the instruction of the target that computes the innermost part of a sum"},
    [P_PACK] = {"pack", OF_NEST, true, 1, 4, "OPERAND, OPERAND groups of N, OPERAND fixed, or none",
                "an operand lies in panels in the order of reading; in groups of points; in fixed point"},
    [P_BUFFER] = {"buffer", OF_NEST, false, 1, 1, "rows or none", "what a tile's rows read is computed before its sum"},
    [P_BLOCK] = {"block", OF_NEST, false, 1, 6, "VARIABLE N panels N rows N, VARIABLE N panels N streamed, or none",
                 "parts of the sum, panels and rows that stay in a cache"},
    [P_BOUND] = {"bound", OF_NEST, false, 1, ANY, "VARIABLE.. or none",
                 "loops of a sum that leave out places outside of a tensor, although a halo holds what counts nothing"},
    [P_VERSION] = {"version", OF_NEST, true, 1, 1, "CONDITION or none",
                   "there is a copy of the nest for sizes for which this is at least 0, so that a quotient is 0"},
    [P_PREFETCH] = {"prefetch", OF_NEST, true, 1, 4,
                    "panel OPERAND rows N, rows TENSOR sums N, places TENSOR, block, or none",
                    "what is fetched ahead while a tile runs"},
    [P_LAYOUT] = {"layout", OF_TENSOR, false, 0, ANY, "AXIS..", "the axes, outermost first"},
    [P_HALO] = {"halo", OF_TENSOR, false, 1, ANY, "AXIS BEFORE AFTER .. fill VALUE, or none",
                "places around an axis that hold what is read outside of the tensor"},
    [P_PAD] = {"pad", OF_TENSOR, false, 1, ANY, "AXIS N .., or none", "elements left free between places of an axis"},
    [P_IN] = {"in", OF_TENSOR, false, 1, ANY, "TENSOR at AXIS PLACE .., or none",
              "it is stored as a part of another tensor"},
};

directive *record_add(arena *a, kernel_record *k, nest_record *n, primitive is) {
  if (n) {
    vec_push(a, n->directives, ((directive){.is = is}));
    return &n->directives.v[n->directives.n - 1];
  }
  vec_push(a, k->directives, ((directive){.is = is}));
  return &k->directives.v[k->directives.n - 1];
}
directive *record_add_tensor(arena *a, tensor_record *t, primitive is) {
  vec_push(a, t->directives, ((directive){.is = is}));
  return &t->directives.v[t->directives.n - 1];
}
void record_word(arena *a, directive *d, const char *word) { vec_push(a, d->words, word); }
void record_number(arena *a, directive *d, int64_t n) { record_word(a, d, arena_fmt(a, "%lld", (long long)n)); }
directive *record_find(const kernel_record *k, const nest_record *n, primitive is) {
  const uint32_t count = n ? n->directives.n : k->directives.n;
  directive *all = n ? n->directives.v : k->directives.v;
  for (uint32_t i = 0; i < count; i++)
    if (all[i].is == is) return &all[i];
  return NULL;
}
directive *record_find_tensor(const tensor_record *t, primitive is) {
  for (uint32_t i = 0; i < t->directives.n; i++)
    if (t->directives.v[i].is == is) return &t->directives.v[i];
  return NULL;
}
tensor_record *record_tensor_named(const schedules *s, const char *name) {
  for (uint32_t i = 0; i < s->tensors.n; i++)
    if (!strcmp(s->tensors.v[i].name, name)) return &s->tensors.v[i];
  return NULL;
}
nest_record *record_nest_named(const kernel_record *k, const char *name) {
  for (uint32_t i = 0; i < k->nests.n; i++)
    if (!strcmp(k->nests.v[i].name, name)) return &k->nests.v[i];
  return NULL;
}

/* ---- printing --------------------------------------------------------------------------------- */
/* lists: a word in parentheses is a list; else a name. */
static void put_word(sbuf *out, const char *word, bool lists) {
  const size_t n = strlen(word);
  if (n && ((lists && word[0] == '(') || strspn(word, RECORD_BARE) == n))
    sb_put(out, word);
  else
    sb_quoted(out, word, n);
}
/* May the word be a list? Names of tensors and sizes are in quotes where they look like one. */
static bool is_list(primitive is, uint32_t word) {
  return is != P_PACK && is != P_VERSION && is != P_PREFETCH && (is != P_IN || (word && word % 2 == 0));
}
static void put_directives(sbuf *out, const directive *all, uint32_t n, const char *indent) {
  for (uint32_t is = 0; is < P_COUNT; is++)
    for (uint32_t i = 0; i < n; i++) {
      if (all[i].is != is) continue;
      sb_fmt(out, "%s%s", indent, primitive_forms[is].name);
      for (uint32_t w = 0; w < all[i].words.n; w++)
        sb_putc(out, EK_PLANTED("schedule-print") ? '_' : ' '),
            put_word(out, all[i].words.v[w], is_list((primitive)is, w));
      sb_putc(out, '\n');
    }
}
void record_print(const kernel_record *k, sbuf *out) {
  sb_put(out, "\nkernel");
  if (k->number != UINT32_MAX) sb_fmt(out, " k%u", k->number);
  if (k->hashed) sb_fmt(out, " @%016llx", (unsigned long long)k->hash);
  if (k->nth) sb_fmt(out, ":%u", k->nth);
  sb_put(out, " {\n");
  put_directives(out, k->directives.v, k->directives.n, "  ");
  for (uint32_t i = 0; i < k->nests.n; i++) {
    sb_put(out, "  nest "), put_word(out, k->nests.v[i].name, false), sb_put(out, " {\n");
    put_directives(out, k->nests.v[i].directives.v, k->nests.v[i].directives.n, "    ");
    sb_put(out, "  }\n");
  }
  sb_put(out, "}\n");
}
void record_print_tensor(const tensor_record *t, sbuf *out) {
  sb_put(out, "\ntensor "), put_word(out, t->name, false), sb_put(out, " {\n");
  put_directives(out, t->directives.v, t->directives.n, "  ");
  sb_put(out, "}\n");
}
void schedules_print_head(sbuf *out) { sb_fmt(out, "schedules %d\n", SCHEDULES_VERSION); }
void schedules_print(const schedules *s, sbuf *out) {
  schedules_print_head(out);
  for (uint32_t i = 0; i < s->tensors.n; i++) record_print_tensor(&s->tensors.v[i], out);
  for (uint32_t i = 0; i < s->kernels.n; i++) record_print(&s->kernels.v[i], out);
}
