/* Where does training stand? A checkpoint is a safetensors file: the trainer's tensors (parameters, running statistics,
 * moments), and as texts the number of the update, the place in the data, the sums of the epoch so far and the best
 * loss. A digest over all of it tells a damaged file. Files appear whole and stay through a crash, so that at any
 * moment the newest one continues the training bit for bit. */
#include "cli/train.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGEST = 32 };
static const char format[] = "einkorn.train.2", suffix[] = ".safetensors", prefix[] = "step-";

/* ---- contents -------------------------------------------------------------------------------- */
static void put_digest(sbuf *to, const void *data, size_t n) {
  uint8_t digest[DIGEST];
  content_digest(data, n, digest);
  for (int i = 0; i < DIGEST; i++) sb_fmt(to, "%02x", digest[i]);
}
/* The digest of everything but the entry "digest". */
static const char *digest_of(cli *k, const safetensors *s) {
  sbuf all = sbuf_new(k->a);
  uint8_t out[DIGEST];
  for (uint32_t i = 0; i < s->notes; i++)
    if (strcmp(s->keys[i], "digest") != 0) sb_fmt(&all, "%s=%s\n", s->keys[i], s->values[i]);
  for (uint32_t i = 0; i < s->n; i++) {
    const ndarray *x = &s->arrays[i];
    sb_fmt(&all, "%s %d %u", s->names[i], (int)x->type, x->rank);
    for (uint32_t d = 0; d < x->rank; d++) sb_fmt(&all, " %lld", (long long)x->dims[d]);
    content_digest(x->data, x->bytes, out);
    sb_putn(&all, (const char *)out, sizeof out);
  }
  sbuf text = sbuf_new(k->a);
  put_digest(&text, all.s, all.n);
  return text.s;
}
typedef struct notes {
  cli *k;        /* the program */
  strvec keys;   /* keys */
  strvec values; /* texts */
} notes;
static void note(notes *n, const char *key, const char *text) {
  vec_push(n->k->a, n->keys, key);
  vec_push(n->k->a, n->values, text);
}
static void note_int(notes *n, const char *key, int64_t x) { note(n, key, arena_fmt(n->k->a, "%lld", (long long)x)); }
static void note_real(notes *n, const char *key, double x) { note(n, key, arena_fmt(n->k->a, "%a", x)); }
static void note_reals(notes *n, const char *key, const doubles *x) {
  sbuf b = sbuf_new(n->k->a);
  sb_put(&b, "");
  for (uint32_t i = 0; i < x->n; i++) sb_fmt(&b, "%s%a", i ? " " : "", x->v[i]);
  note(n, key, b.s);
}
/* Which inputs are standardized, and a digest of the numbers. */
static void note_standards(notes *n, const feed *f) {
  sbuf b = sbuf_new(n->k->a);
  for (size_t i = 0; i < f->nstandards; i++) {
    const ek_standardization *s = &f->standards[i];
    sb_fmt(&b, "%s%s: ", i ? ", " : "", s->input);
    put_digest(&b, s->mean, s->count * sizeof *s->mean), put_digest(&b, s->deviation, s->count * sizeof *s->deviation);
  }
  note(n, "standardize", b.n ? b.s : "no");
}
static void note_metrics(notes *n, const training *r) {
  sbuf b = sbuf_new(n->k->a);
  for (uint32_t i = 0; i < r->nmetrics; i++) sb_fmt(&b, "%s%s", i ? " " : "", n->k->train.metrics.v[i]);
  note(n, "metric", b.n ? b.s : "none");
}
static void note_classes(notes *n, const feed *f) {
  const strvec v = class_metadata(n->k, f);
  sbuf b = sbuf_new(n->k->a);
  sb_put(&b, "");
  for (uint32_t i = 0; v.v[i]; i++) sb_fmt(&b, "%s%s", i ? "\n" : "", v.v[i]);
  note(n, "classes", b.s);
}
/* What a training must have in common with the one that wrote the checkpoint, so that it is the same. */
static void note_training(notes *n, const training *r) {
  const cli *k = r->k;
  note(n, "format", format);
  note(n, "seed", arena_fmt(k->a, "%llu", (unsigned long long)k->seed));
  note_int(n, "batch", r->train.rows);
  note_int(n, "samples", r->train.source.part.n);
  note_int(n, "accumulate", k->train.accumulate);
  note(n, "loss", k->train.loss);
  note(n, "optimizer", k->train.optimizer);
  note_real(n, "ema", k->train.ema);
  note_metrics(n, r);
  note_standards(n, &r->train);
  note_classes(n, &r->train);
}
void checkpoint_write(training *r, const char *name) {
  cli *k = r->k;
  const size_t n = ek_trainer_tensors(r->t);
  notes notes = {.k = k};
  safetensors s = {.n = (uint32_t)n, .names = NEWN(k->a, const char *, n + 1), .arrays = NEWN(k->a, ndarray, n + 1)};
  note_training(&notes, r);
  note_int(&notes, "step", ek_trainer_steps(r->t));
  note_int(&notes, "epoch", r->epoch);
  note_int(&notes, "position", r->done);
  note_real(&notes, "best", r->best);
  note_int(&notes, "best_epoch", r->best_epoch);
  note_real(&notes, "sum", r->sum.loss);
  note_real(&notes, "summed", r->sum.samples);
  for (uint32_t i = 0; i < r->nmetrics; i++) note_reals(&notes, arena_fmt(k->a, "metric.%u", i), &r->sum.metrics[i]);
  note_reals(&notes, "losses", &r->losses);
  for (size_t i = 0; i < n; i++) {
    ek_array x;
    if (ek_trainer_tensor(r->t, i, &x)) ctx_fail(k->c, E_FAILED, "%s", session_text(k));
    s.names[i] = arena_strdup(k->a, x.name);
    s.arrays[i] = (ndarray){.type = et_from_onnx((int)x.type), .rank = (uint32_t)x.rank, .bytes = x.bytes};
    memcpy(s.arrays[i].dims, x.dims, (size_t)x.rank * sizeof *x.dims);
    s.arrays[i].data = arena_dup(k->a, x.data, x.bytes); /* the trainer's is valid until the next tensor is asked for */
  }
  note(&notes, "digest", "");
  s.notes = notes.keys.n, s.keys = notes.keys.v, s.values = notes.values.v;
  s.values[s.notes - 1] = digest_of(k, &s);
  const char *path = path_join(k->a, k->train.checkpoints, name);
  if (!safetensors_write(k->c, path, &s)) ctx_unwind(k->c);
  for (size_t i = 0; i < n; i++) arena_drop(k->a, (void *)(uintptr_t)s.arrays[i].data, s.arrays[i].bytes);
}

/* ---- reading --------------------------------------------------------------------------------- */
static const char *text_of(cli *k, const char *path, const safetensors *s, const char *key) {
  const char *text = safetensors_note(s, key);
  if (!text) ctx_fail(k->c, E_IO, "%s is no checkpoint of a training: its __metadata__ has no '%s'", path, key);
  return text;
}
static int64_t int_of(cli *k, const char *path, const safetensors *s, const char *key) {
  return int_parse(text_of(k, path, s, key), NULL);
}
static double real_of(cli *k, const char *path, const safetensors *s, const char *key) {
  return num_parse(k->c, text_of(k, path, s, key), NULL);
}
static doubles reals_of(cli *k, const char *path, const safetensors *s, const char *key) {
  doubles out = {0};
  for (const char *p = text_of(k, path, s, key); *p; p += *p == ' ') {
    char *end;
    const double x = num_parse(k->c, p, &end);
    if (end == p) break;
    vec_push(k->a, out, x);
    p = end;
  }
  return out;
}
static void check_same(training *r, const char *path, const safetensors *s) {
  notes want = {.k = r->k};
  note_training(&want, r);
  for (uint32_t i = 0; i < want.keys.n; i++) {
    const char *got = text_of(r->k, path, s, want.keys.v[i]);
    if (strcmp(got, want.values.v[i]) != 0)
      ctx_fail(r->k->c, E_USAGE,
               "%s is of another training: its %s is %s, now it is %s; with --resume these stay the same", path,
               want.keys.v[i], got, want.values.v[i]);
  }
  text_of(r->k, path, s, "digest");
  if (strcmp(safetensors_note(s, "digest"), digest_of(r->k, s)) != 0)
    ctx_fail(r->k->c, E_IO,
             "the checkpoint %s is damaged: its contents and its digest do not fit. Without this file, "
             "--resume continues with the one before it",
             path);
}
static void set_tensors(training *r, const char *path, const safetensors *s) {
  cli *k = r->k;
  const size_t n = ek_trainer_tensors(r->t);
  map *names = map_new(k->a);
  for (size_t i = 0; i < n; i++) {
    ek_array x;
    if (ek_trainer_tensor(r->t, i, &x)) ctx_fail(k->c, E_FAILED, "%s", session_text(k));
    map_puts(names, x.name, i);
  }
  for (uint32_t i = 0; i < s->n; i++) {
    const ndarray *d = &s->arrays[i];
    ek_array x = {.name = s->names[i], .type = (ek_type)et_to_onnx(d->type), .data = d->data, .bytes = d->bytes};
    x.rank = (int32_t)d->rank;
    memcpy(x.dims, d->dims, d->rank * sizeof *d->dims);
    if (!map_gets(names, x.name, NULL) || s->n != n)
      ctx_fail(
          k->c, E_USAGE,
          "%s is of another training: its tensors (%u, with %s) are not those of this one (%zu); with --resume the "
          "model, --freeze and --precision stay the same",
          path, s->n, x.name, n);
    if (ek_trainer_set_tensor(r->t, &x)) ctx_fail(k->c, E_SHAPE, "%s: %s", path, session_text(k));
  }
}
void checkpoint_read(training *r, const char *path) {
  cli *k = r->k;
  safetensors s;
  if (!safetensors_read(k->c, path, &s)) ctx_unwind(k->c);
  check_same(r, path, &s);
  set_tensors(r, path, &s);
  if (ek_trainer_set_steps(r->t, int_of(k, path, &s, "step"))) ctx_fail(k->c, E_IO, "%s", session_text(k));
  r->epoch = int_of(k, path, &s, "epoch"), r->done = int_of(k, path, &s, "position");
  r->best = real_of(k, path, &s, "best"), r->best_epoch = int_of(k, path, &s, "best_epoch");
  r->sum.loss = real_of(k, path, &s, "sum"), r->sum.samples = real_of(k, path, &s, "summed");
  for (uint32_t i = 0; i < r->nmetrics; i++) r->sum.metrics[i] = reals_of(k, path, &s, arena_fmt(k->a, "metric.%u", i));
  r->losses = reals_of(k, path, &s, "losses");
}

/* ---- the folder ------------------------------------------------------------------------------ */
static bool is_numbered(const char *name) { return !strncmp(name, prefix, strlen(prefix)) && ends_in(name, suffix); }
static strvec numbered(cli *k, const char *folder) {
  strvec all, found = {0};
  if (!folder_names(k->c, folder, &all)) ctx_unwind(k->c);
  for (uint32_t i = 0; i < all.n; i++)
    if (is_numbered(all.v[i])) vec_push(k->a, found, all.v[i]);
  return found; /* sorted: numbers have the same length */
}
const char *checkpoint_newest(cli *k, const char *folder) {
  if (!is_folder(folder)) return NULL;
  const strvec v = numbered(k, folder);
  return v.n ? path_join(k->a, folder, v.v[v.n - 1]) : NULL;
}
void checkpoint_step(training *r) {
  cli *k = r->k;
  checkpoint_write(r, arena_fmt(k->a, "%s%012lld%s", prefix, (long long)ek_trainer_steps(r->t), suffix));
  const strvec v = numbered(k, k->train.checkpoints);
  for (uint32_t i = 0; i + (uint32_t)k->train.keep < v.n; i++) unlink(path_join(k->a, k->train.checkpoints, v.v[i]));
}
void checkpoint_folder(cli *k) {
  strvec all;
  const char *folder = k->train.checkpoints;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    ctx_fail(k->c, E_IO, "cannot make the folder %s for checkpoints: %s", folder, strerror(errno));
  if (!folder_names(k->c, folder, &all)) ctx_unwind(k->c);
  for (uint32_t i = 0; i < all.n; i++)
    if (strstr(all.v[i], ".safetensors.") && ends_in(all.v[i], ".tmp")) unlink(path_join(k->a, folder, all.v[i]));
}
