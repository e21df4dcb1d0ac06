/* Entries of the cache, changed by their fields. The first case compiles a small model with a cache, which gives the
 * entry that all others change: a case is a byte that says what is wrong about it as a whole, then changes of
 * eight bytes each. Digests are made to agree again, so that what stands behind them reads what was changed. An
 * entry that is accepted has all that a module needs; its code is not run. */
#include "codegen/image/image.h"
#include "driver/cache.h"
#include "fuzz.h"
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum { GOOD, DAMAGED, WEIGHTS_DAMAGED, OTHER_KEY, OTHER_MODEL, NO_KEY, GONE, TRUNCATED, WHOLES } whole;
typedef enum { HEAD, DESCRIPTION, DESCRIPTION_END, IMAGE_HEAD, IMAGE_END, ANYWHERE, PARTS } part;
typedef struct change {
  uint8_t part, bytes; /* how many bytes of v: 1, 2, 4 or 8, by its two lowest bits */
  uint16_t at;
  int32_t v; /* added to what is there when bytes & 4 is set */
} change;
typedef struct head { /* layout of an entry's head, as in driver/cache_entry.c */
  char magic[8];
  uint8_t digest[32], key[32], weights_digest[32];
  uint64_t described, code, weights;
} head;
static struct {
  uint8_t *p;
  size_t n;
  char folder[64], name[256];
} entry;

static const char model[] = "graph \"saved\" ir 10 opset 21 {\n"
                            "  input x: f32[N, 4]\n"
                            "  const w: f32[4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
                            "  const e: f64[1] = [1.5]\n"
                            "  y: f32[N, 4] = MatMul(x, w) \"product\"\n"
                            "  d: f64[N, 4] = Cast(y) {to = 11} \"wide\"\n"
                            "  z: f64[N, 4] = Pow(d, e) \"power\"\n"
                            "  output z\n"
                            "}\n";
static void made(void) {
  static bool tried;
  if (tried) return;
  tried = true;
  snprintf(entry.folder, sizeof entry.folder, "/tmp/fuzz_saved_XXXXXX");
  if (!mkdtemp(entry.folder)) return perror(entry.folder), exit(1);
  ek_session *s = ek_session_create();
  ek_model *m = NULL;
  ek_module *code = NULL;
  ek_options o;
  ek_options_init(&o);
  o.compile_threads = 1, o.cache = entry.folder;
  if (ek_load_memory(s, model, sizeof model - 1, "saved.graph", &m) || ek_compile(m, &o, &code))
    fprintf(stderr, "%s\n", ek_message(s)), exit(1);
  ek_session_destroy(s);
  DIR *d = opendir(entry.folder);
  for (const struct dirent *e; d && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (n < 3 || strcmp(e->d_name + n - 3, ".ek")) continue;
    char path[512];
    memcpy(entry.name, e->d_name, n + 1);
    snprintf(path, sizeof path, "%s/%s", entry.folder, entry.name);
    FILE *f = fopen(path, "rbe");
    entry.p = malloc(1 << 20);
    if (f && entry.p) entry.n = fread(entry.p, 1, 1 << 20, f);
    if (f) fclose(f);
    unlink(path);
  }
  if (d) closedir(d);
}
static void cleared(void) { rmdir(entry.folder); }

static void apply(uint8_t *p, size_t n, const head *h, change k) {
  uint64_t pages = (sizeof *h + h->described + 4095) / 4096 * 4096, end = pages + h->code;
  uint64_t from[PARTS] = {offsetof(head, described),
                          sizeof *h,
                          sizeof *h + h->described - (h->described < 256 ? h->described : 256),
                          pages,
                          end - 256,
                          0};
  uint64_t room[PARTS] = {24, h->described, h->described < 256 ? h->described : 256, 32, 256, n};
  size_t w = (size_t)1 << (k.bytes & 3);
  uint64_t at = from[k.part % PARTS] + (room[k.part % PARTS] ? k.at / w * w % room[k.part % PARTS] : 0), v = 0;
  if (at + w > n) return;
  if (k.bytes & 4) memcpy(&v, p + at, w);
  v += (uint64_t)(int64_t)k.v;
  memcpy(p + at, &v, w);
}
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  whole what = in->n ? in->p[0] % 16 : GOOD;
  size_t n = entry.n;
  uint8_t *p = arena_dup(ctx_arena(c), entry.p, n);
  head h, now;
  memcpy(&h, p, sizeof h);
  for (size_t i = 1; i + sizeof(change) <= in->n; i += sizeof(change)) {
    change k;
    memcpy(&k, in->p + i, sizeof k);
    apply(p, n, &h, k);
  }
  memcpy(&now, p, sizeof now);
  size_t front = n - (h.weights + 4095) / 4096 * 4096, first = offsetof(head, key);
  if (now.weights <= n - front) content_digest(p + front, now.weights, now.weights_digest);
  if (what == WEIGHTS_DAMAGED) now.weights_digest[3] ^= 1;
  memcpy(p, &now, sizeof now);
  content_digest(p + first, front - first, now.digest);
  if (what == DAMAGED) now.digest[5] ^= 1;
  memcpy(p, &now, sizeof now);
  if (what == TRUNCATED) n = in->n > 1 ? in->p[1] * n / 256 : 0;
  const char *why;
  cache k = {.c = c, .model = c, .text = "einkorn other\n", .name = entry.name};
  memcpy(k.key, h.key, sizeof k.key);
  if (!folder_open(c, entry.folder, 1 << 30, &k.f, &why)) ctx_bug(c, "%s", why);
  int fd = what == GONE
               ? -1
               : openat(k.f.fd, entry.name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, what == NO_KEY ? 0666 : 0600);
  if (fd >= 0 && ((what == NO_KEY && fchmod(fd, 0666)) || write(fd, p, n) != (ssize_t)n))
    ctx_bug(c, "the entry cannot be written");
  if (fd >= 0) close(fd);
  if (what == OTHER_KEY) k.key[0] ^= 1;
  if (what == OTHER_MODEL || what == WHOLES) { /* another entry of this model is there, or of another */
    char *name = arena_strdup(ctx_arena(c), entry.name);
    name[what == OTHER_MODEL ? 20 : 3] ^= 1;
    k.name = name;
  }
  ek_module m = {0};
  bool ok = cache_load(&k, &m);
  unlinkat(k.f.fd, entry.name, 0);
  folder_close(&k.f);
  volatile uint64_t sum = 0;
  if (ok) {
    const ek_rt_model *d = m.d;
    if (!d->plan || !d->run) ctx_bug(c, "an accepted entry without functions");
    for (int64_t i = 0; i < d->inputs; i++) sum += strlen(d->in[i].name);
    for (int64_t i = 0; i < d->outputs; i++)
      for (int32_t r = 0; r < d->out[i].rank; r++)
        sum += (uint64_t)d->out[i].dims[r] + (d->out[i].dim_names[r] ? strlen(d->out[i].dim_names[r]) : 0);
    for (int64_t i = 0; i < d->weight_bytes; i++) sum += d->weights[i];
    sum += image_bytes(m.code);
  }
  image_free(m.code);
  if (m.mapped.n) munmap((void *)(uintptr_t)m.mapped.p, m.mapped.n);
  return true; /* an entry that is not used is no error */
}
void fuzz_one(const uint8_t *p, size_t n) {
  made();
  if (entry.n) fuzz_case(try_one, &(input){p, n}, NULL); /* none: there is no image for this processor */
  static bool told;
  if (!told) told = !atexit(cleared);
}
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) {
  dice d = {seed};
  change k = {.part = (uint8_t)roll(&d, PARTS),
              .bytes = (uint8_t)roll(&d, 8),
              .at = (uint16_t)(8 * roll(&d, 64) + (roll(&d, 4) ? 0 : roll(&d, 8))),
              .v = (int32_t)odd_number(&d)};
  if (!roll(&d, 8) || !n) {
    p[0] = (uint8_t)roll(&d, 16);
    return n ? n : 1;
  }
  size_t have = (n - 1) / sizeof k, at = roll(&d, have + (have < 8));
  if (1 + (at + 1) * sizeof k > cap) return n;
  memcpy(p + 1 + at * sizeof k, &k, sizeof k);
  return at < have ? n : 1 + (at + 1) * sizeof k;
}
