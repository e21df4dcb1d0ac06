/* What machine is code made for? Target files (built in, or by path) and the machine this runs on.
 *
 * A file is lines `key = value`, # starts a comment. `host` is the widest built-in x86 file whose `requires` the
 * CPU meets, with the CPU's own name for LLVM and the caches the system reports.
 */
#include "target/target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name; /* name of the target */
  const char *text; /* contents of its file */
} builtin[] = {
#include "targets.inc"
};
enum { BUILTINS = sizeof builtin / sizeof *builtin };

/* ---- the file -------------------------------------------------------------------------------- */
static bool yes(const char *v, bool *ok) {
  *ok = *ok && (!strcmp(v, "yes") || !strcmp(v, "no"));
  return !strcmp(v, "yes");
}
static uint64_t number(const char *v, bool *ok) {
  char *end;
  uint64_t n = strtoull(v, &end, 10);
  *ok = *ok && end != v && !*end && *v != '-';
  return n;
}
typedef struct parsed {
  target t;             /* the target */
  const char *required; /* CPU flags that `host` detection needs */
} parsed;
/* One line; false: the key is unknown. *ok: the value is good. */
static bool set(parsed *p, const char *k, const char *v, bool *ok) {
  target *t = &p->t;
#define KEY(name) else if (!strcmp(k, #name))
  if (!strcmp(k, "requires")) p->required = v;
  KEY(triple)
  t->triple = v;
  KEY(cpu)
  t->cpu = v;
  KEY(features)
  t->features = v;
  KEY(emitter) {
    t->emitter = v;
    *ok = !strcmp(v, "llvm") || !strcmp(v, "c");
  }
  KEY(vector_bits) {
    t->vector_bits = (uint32_t)number(v, ok);
    *ok = *ok && t->vector_bits <= 4096 && !(t->vector_bits & (t->vector_bits - 1));
  }
  KEY(vector_registers) {
    t->vector_registers = (uint32_t)number(v, ok);
    *ok = *ok && t->vector_registers >= 4 && t->vector_registers <= 1024;
  }
  KEY(fma_per_cycle)
  t->fma_per_cycle = (uint32_t)number(v, ok);
  KEY(fma)
  t->fma = yes(v, ok);
  KEY(masks)
  t->masks = yes(v, ok);
  KEY(gather)
  t->gather = yes(v, ok);
  KEY(f16c)
  t->f16c = yes(v, ok);
  KEY(bf16dot)
  t->bf16dot = yes(v, ok);
  KEY(l1)
  t->l1 = number(v, ok);
  KEY(l2)
  t->l2 = number(v, ok);
  KEY(l3)
  t->l3 = number(v, ok);
  KEY(line)
  t->line = number(v, ok);
  KEY(l1_ways)
  t->l1_ways = (uint32_t)number(v, ok);
  else return false;
#undef KEY
  return true;
}
static bool parse(ctx *c, const char *name, const char *file, const char *text, size_t n, parsed *p) {
  arena *a = ctx_arena(c);
  *p = (parsed){.t = {.name = name,
                      .triple = "",
                      .cpu = "",
                      .features = "",
                      .emitter = "llvm",
                      .vector_registers = 16,
                      .fma_per_cycle = 1,
                      .l1 = 32768,
                      .l1_ways = 8,
                      .l2 = 262144,
                      .l3 = 4194304,
                      .line = 64},
                .required = ""};
  bool good = true;
  uint32_t line = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && text[end] != '\n') end++;
    char *s = arena_strndup(a, text + i, end - i), *hash = strchr(s, '#');
    i = end + 1;
    line++;
    if (hash) *hash = 0;
    char *key = s + strspn(s, " \t\r"), *eq = strchr(key, '=');
    if (!*key) continue;
    srcpos pos = {file, line, 1};
    if (!eq) {
      diag_add(c, D_ERROR, E_TARGET, pos, NULL, "target %s: expected `key = value`", name);
      good = false;
      continue;
    }
    char *v = eq + 1 + strspn(eq + 1, " \t\r"), *stop = eq;
    while (stop > key && strchr(" \t", stop[-1])) stop--;
    *stop = 0;
    size_t m = strlen(v);
    while (m && strchr(" \t\r", v[m - 1])) v[--m] = 0;
    bool ok = true;
    if (!set(p, key, v, &ok))
      diag_add(c, D_ERROR, E_TARGET, pos, NULL, "target %s: unknown key `%s`", name, key), good = false;
    else if (!ok)
      diag_add(c, D_ERROR, E_TARGET, pos, NULL, "target %s: `%s` is no value for %s", name, v, key), good = false;
  }
  if (good && !*p->t.triple)
    diag_add(c, D_ERROR, E_TARGET, (srcpos){file, 1, 1}, NULL, "target %s: no triple", name), good = false;
  return good;
}

/* ---- this machine ---------------------------------------------------------------------------- */
#if defined(__x86_64__)
#define ARCH "x86_64"
#else
#define ARCH "?"
#endif
static bool meets(const char *requires) {
  const char *missing;
  size_t n;
  return cpu_meets(requires, &missing, &n);
}
/* One value of /sys/devices/system/cpu/cpu0/cache; 0 when it is not there. */
static uint64_t cache_field(int index, const char *name, char *type) {
  char path[128], text[64] = "";
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  if (type) *type = text[0];
  char *unit;
  uint64_t v = strtoull(text, &unit, 10);
  return *unit == 'K' ? v << 10 : *unit == 'M' ? v << 20 : v;
}
static void caches(target *t) {
  for (int i = 0; i < 8; i++) {
    char type = 0;
    uint64_t level = cache_field(i, "level", NULL), size = cache_field(i, "size", NULL),
             ways = cache_field(i, "ways_of_associativity", NULL), line = cache_field(i, "coherency_line_size", NULL);
    cache_field(i, "type", &type);
    if (!level || !size || type == 'I') continue;
    if (level == 1) {
      t->l1 = size;
      if (ways) t->l1_ways = (uint32_t)ways;
      if (line) t->line = line;
    } else if (level == 2) {
      t->l2 = size;
    } else if (level == 3) {
      t->l3 = size;
    }
  }
}
static bool host(ctx *c, parsed *p) {
  parsed best = {0};
  for (int i = 0; i < BUILTINS; i++) {
    parsed q;
    if (!parse(c, builtin[i].name, builtin[i].name, builtin[i].text, strlen(builtin[i].text), &q)) return false;
    if (strncmp(q.t.triple, ARCH, strlen(ARCH)) || !meets(q.required)) continue;
    if (!best.t.name || q.t.vector_bits > best.t.vector_bits) best = q;
  }
  if (!best.t.name) /* a machine without a file: what every 64-bit CPU has */
    best.t = (target){.emitter = "llvm",
                      .triple = "",
                      .vector_bits = 128,
                      .vector_registers = 16,
                      .fma_per_cycle = 1,
                      .l1 = 32768,
                      .l1_ways = 8,
                      .l2 = 262144,
                      .l3 = 4194304,
                      .line = 64};
  best.t.name = "host";
  best.t.host = best.t.here = true;
  best.t.cpu = "host";
  best.t.features = "";
  best.t.bf16dot = meets("avx512bf16");
  best.t.required = cpu_flags(ctx_arena(c));
  uint32_t bits = cpu_datapath();
  if (bits && bits < best.t.vector_bits && best.t.fma_per_cycle > 1) best.t.fma_per_cycle /= 2;
  caches(&best.t);
  *p = best;
  return true;
}

uint32_t target_names(ctx *c, const char ***names) {
  const char **n = NEWN(ctx_arena(c), const char *, BUILTINS + 1);
  n[0] = "host";
  for (int i = 0; i < BUILTINS; i++) n[i + 1] = builtin[i].name;
  *names = n;
  return BUILTINS + 1;
}
/* Reads a target's text, and finds out whether its code runs here. */
static const target *named(ctx *c, const char *name, const char *text, size_t n) {
  parsed *p = NEW(ctx_arena(c), parsed);
  if (!parse(c, name, name, text, n, p)) return NULL;
  p->t.required = p->required;
  p->t.here = !strncmp(p->t.triple, ARCH, strlen(ARCH)) && meets(p->required);
  return &p->t;
}
const target *target_get(ctx *c, const char *name) {
  parsed *p = NEW(ctx_arena(c), parsed);
  if (!strcmp(name, "host")) return host(c, p) ? &p->t : NULL;
  for (int i = 0; i < BUILTINS; i++)
    if (!strcmp(name, builtin[i].name)) return named(c, builtin[i].name, builtin[i].text, strlen(builtin[i].text));
  size_t n = strlen(name);
  if (strchr(name, '/') || (n > 7 && !strcmp(name + n - 7, ".target"))) {
    bytes f;
    name = arena_strdup(ctx_arena(c), name);
    return file_map(c, name, &f) ? named(c, name, (const char *)f.p, f.n) : NULL;
  }
  sbuf s = sbuf_new(ctx_arena(c));
  for (int i = 0; i < BUILTINS; i++) sb_fmt(&s, ", %s", builtin[i].name);
  diag_error(c, E_TARGET, NULL, "unknown target `%s`; known are host%s, or the path of a .target file", name,
             s.s ? s.s : "");
  return NULL;
}
uint32_t target_lanes(const target *t, etype e) {
  uint32_t bits = et_bytes(e) * 8;
  return !bits || t->vector_bits < bits ? 1 : t->vector_bits / bits;
}
