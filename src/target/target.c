/* What machine is code made for? Target files (built in, or by path) and the machine this runs on.
 *
 * `host` is the built-in file that names this CPU, else the widest one whose `requires` it meets, with the CPU's own
 * name for LLVM and the caches that the system reports.
 */
#include "target/fields.h"
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

static bool parse(ctx *c, const char *name, const char *text, size_t n, target *t) {
  *t = target_defaults();
  t->name = name;
  return target_read(c, name, name, (bytes){(const uint8_t *)text, n}, t);
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
/* Does file a fit this machine better than b? One that names its processor does, then the one with wider registers. */
static bool fits_better(const target *a, const target *b) {
  bool named = *a->processors != 0;
  if (!b->name) return true;
  if (named != (*b->processors != 0)) return named;
  return a->vector_bits > b->vector_bits;
}
static bool host(ctx *c, target *t) {
  enum { LEAST_PART = 256 }; /* bits: whether tiles of narrower vectors are faster (Zen 1) was not measured */
  *t = (target){0};
  for (int i = 0; i < BUILTINS; i++) {
    target q;
    bool good;
    if (!parse(c, builtin[i].name, builtin[i].text, strlen(builtin[i].text), &q)) return false;
    if (strncmp(q.triple, ARCH, strlen(ARCH)) || !meets(q.required)) continue;
    if (*q.processors && !cpu_is(q.processors, &good)) continue;
    if (fits_better(&q, t)) *t = q;
  }
  const char *like = t->name;
  if (!like) { /* a machine without a file: what every 64-bit CPU has */
    *t = target_defaults();
    t->vector_bits = 128;
  }
  t->name = "host", t->like = like;
  t->host = t->here = true;
  t->cpu = "host";
  t->features = t->processors = "";
  t->required = cpu_flags(ctx_arena(c));
  uint32_t bits = cpu_datapath();
  if (bits && bits < t->vector_bits) {
    if (t->fma_bits != bits && t->fma_per_cycle > 1) t->fma_per_cycle /= 2;
    if (bits >= LEAST_PART) t->fma_bits = bits;
  }
  caches(t);
  return instructions_check(c, t);
}

bool target_text(const char *name, bytes *text) {
  int i = 0;
  while (i < BUILTINS && strcmp(builtin[i].name, name)) i++;
  if (i == BUILTINS) return false;
  *text = (bytes){(const uint8_t *)builtin[i].text, strlen(builtin[i].text)};
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
  target *t = NEW(ctx_arena(c), target);
  if (!parse(c, name, text, n, t) || !instructions_check(c, t)) return NULL;
  t->here = !strncmp(t->triple, ARCH, strlen(ARCH)) && meets(t->required);
  return t;
}
const target *target_get(ctx *c, const char *name) {
  if (!strcmp(name, "host")) {
    target *t = NEW(ctx_arena(c), target);
    return host(c, t) ? t : NULL;
  }
  bytes text;
  if (target_text(name, &text)) return named(c, arena_strdup(ctx_arena(c), name), (const char *)text.p, text.n);
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
int64_t target_l1_way(const target *t) {
  enum { PAGE = 4096 }; /* of a cache whose ways are not known: most are indexed by the place in a page */
  return t->l1_ways && t->l1 >= t->l1_ways ? (int64_t)(t->l1 / t->l1_ways) : PAGE;
}
uint32_t target_lanes(const target *t, etype e) {
  uint32_t bits = et_bytes(e) * 8;
  return !bits || t->vector_bits < bits ? 1 : t->vector_bits / bits;
}
