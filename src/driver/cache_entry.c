/* What is in an entry, and how does it become a module? One file of three parts, each from a page's beginning on:
 *
 *   head, description | image of the code | packed weights
 *
 * The head holds the key and digests of everything else; nothing of an entry is used before they agree, so that a
 * truncated, damaged or foreign file is no more than a missing one. Weights stay where they are in the file's
 * mapping. Texts are kept with their length and a NUL, and are used in place. */
#include "codegen/image/image.h"
#include "driver/cache.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PLAN = 0, RUN = 1 };
typedef struct head {
  char magic[8];              /* what kind of file it is */
  uint8_t digest[32];         /* digest of what follows in the first two parts, up to the weights */
  uint8_t key[32];            /* digest of cache_key's text */
  uint8_t weights_digest[32]; /* digest of the weights */
  uint64_t described;         /* bytes of the description, which stands behind the head */
  uint64_t code;              /* bytes of the image */
  uint64_t weights;           /* bytes of the weights */
} head;
static const char magic[8] = "EKCACHE1";
static uint64_t padded(uint64_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

/* ---- description: numbers and texts one after the other -------------------------------------- */
static void put_u64(sbuf *b, uint64_t v) { sb_putn(b, (const char *)&v, 8); }
static void put_double(sbuf *b, double v) { sb_putn(b, (const char *)&v, 8); }
static void put_text(sbuf *b, const char *s) {
  put_u64(b, s ? strlen(s) + 1 : 0);
  if (s) sb_putn(b, s, strlen(s) + 1);
}
static void put_tensors(sbuf *b, const ek_rt_tensor *t, int64_t n) {
  put_u64(b, (uint64_t)n);
  for (int64_t i = 0; i < n; i++) {
    put_text(b, t[i].name);
    put_u64(b, (uint64_t)t[i].type);
    put_u64(b, (uint64_t)t[i].rank);
    for (int32_t d = 0; d < t[i].rank; d++) {
      put_u64(b, (uint64_t)t[i].dims[d]);
      put_text(b, t[i].dim_names ? t[i].dim_names[d] : NULL);
    }
  }
}
static void put_warnings(sbuf *b, ctx *c) { /* Writes the warnings, which are reported at every start. */
  uint64_t n = 0;
  for (const diag *d = diag_first(c); d; d = d->next) n += d->level == D_WARNING;
  put_u64(b, n);
  for (const diag *d = diag_first(c); d; d = d->next) {
    if (d->level != D_WARNING) continue;
    put_text(b, d->pos.file);
    put_u64(b, (uint64_t)d->pos.line << 32 | d->pos.col);
    put_text(b, d->node);
    put_text(b, d->text);
  }
}
static void describe_module(sbuf *b, ctx *c, const ek_module *m, const char *key) {
  const ek_report *r = &m->report;
  put_text(b, key);
  put_text(b, m->d->name);
  put_text(b, m->d->memory);
  put_text(b, r->least_memory);
  put_u64(b, r->code_bytes);
  put_u64(b, r->kernels);
  put_u64(b, r->functions);
  put_u64(b, r->compiled);
  put_u64(b, r->rewrites);
  put_u64(b, m->use.state_bytes);
  put_u64(b, m->use.repeated);
  put_double(b, m->use.repeated_cost);
  put_double(b, r->total_ms);
  put_tensors(b, m->d->in, m->d->inputs);
  put_tensors(b, m->d->out, m->d->outputs);
  put_tensors(b, m->d->state, m->d->states);
  for (int64_t i = 0; i < m->d->states; i++)
    put_u64(b, (uint64_t)m->d->between[i].first), put_u64(b, (uint64_t)m->d->between[i].places);
  put_u64(b, m->d->orders != NULL);
  for (int64_t i = 0, at = 0; i < m->d->states && m->d->orders; i++)
    for (int32_t k = 0; k < m->d->state[i].rank; k++) put_u64(b, (uint64_t)m->d->orders[at++]);
  put_warnings(b, c);
}
typedef struct reader {
  arena *a;         /* memory of what is read */
  const uint8_t *p; /* next byte */
  size_t n;         /* bytes left */
  bool bad;         /* the entry ends too early */
} reader;
static uint64_t get_u64(reader *r) {
  uint64_t v = 0;
  if (r->n < 8) {
    r->bad = true;
    r->n = 0;
    return 0;
  }
  memcpy(&v, r->p, 8);
  r->p += 8, r->n -= 8;
  return v;
}
static double get_double(reader *r) {
  uint64_t v = get_u64(r);
  double d;
  memcpy(&d, &v, 8);
  return d;
}
static const char *get_text(reader *r) {
  uint64_t n = get_u64(r);
  if (!n) return NULL;
  if (n > r->n || r->p[n - 1]) {
    r->bad = true;
    r->n = 0;
    return NULL;
  }
  const char *s = (const char *)r->p;
  r->p += n, r->n -= n;
  return s;
}
static const char *get_name(reader *r) {
  const char *s = get_text(r);
  if (!s) r->bad = true;
  return s ? s : "";
}
static const ek_rt_tensor *get_tensors(reader *r, int64_t *count) {
  uint64_t n = get_u64(r);
  if (n > r->n / 24) r->bad = true, n = 0;
  ek_rt_tensor *t = NEWN(r->a, ek_rt_tensor, n + 1);
  for (uint64_t i = 0; i < n && !r->bad; i++) {
    t[i].name = get_name(r);
    t[i].type = (int32_t)get_u64(r);
    uint64_t rank = get_u64(r);
    if (rank > MAX_RANK || !et_from_onnx(t[i].type)) r->bad = true, rank = 0;
    int64_t *dims = NEWN(r->a, int64_t, rank + 1);
    const char **names = NEWN(r->a, const char *, rank + 1);
    for (uint64_t d = 0; d < rank; d++) dims[d] = (int64_t)get_u64(r), names[d] = get_text(r);
    t[i].rank = (int32_t)rank, t[i].dims = dims, t[i].dim_names = names;
  }
  *count = (int64_t)n;
  return t;
}
static const int64_t *get_orders(reader *r, const ek_rt_model *d) {
  VEC(int64_t) axes = {0};
  if (!get_u64(r)) return NULL;
  for (int64_t i = 0; i < d->states; i++) {
    uint32_t had = 0;
    for (int32_t k = 0; k < d->state[i].rank && !r->bad; k++) {
      const uint64_t axis = get_u64(r);
      if (axis >= (uint64_t)d->state[i].rank || had >> axis & 1) r->bad = true;
      had |= r->bad ? 0 : 1u << axis;
      vec_push(r->a, axes, (int64_t)axis);
    }
  }
  return axes.v;
}
static ek_rt_model *read_module(reader *r, ctx *c, ek_report *rep, ek_memory_use *use) {
  ek_rt_model *d = NEW(r->a, ek_rt_model);
  d->version = 2;
  get_name(r); /* skips the key's text: see difference() */
  d->name = get_name(r);
  d->memory = get_name(r);
  rep->memory = d->memory;
  rep->least_memory = get_text(r);
  rep->code_bytes = get_u64(r);
  rep->kernels = (uint32_t)get_u64(r), rep->functions = (uint32_t)get_u64(r), rep->compiled = (uint32_t)get_u64(r);
  rep->rewrites = get_u64(r);
  use->state_bytes = get_u64(r), use->repeated = get_u64(r), use->repeated_cost = get_double(r);
  rep->code_ms = get_double(r); /* time of the compilation, only to tell how much was saved; see adopt */
  d->in = get_tensors(r, &d->inputs);
  d->out = get_tensors(r, &d->outputs);
  d->state = get_tensors(r, &d->states);
  ek_rt_state *between = NEWN(r->a, ek_rt_state, d->states + 1);
  for (int64_t i = 0; i < d->states; i++)
    between[i].first = (int64_t)get_u64(r), between[i].places = (int64_t)get_u64(r);
  d->between = between, d->orders = get_orders(r, d), d->version = model_version(d);
  uint64_t warnings = get_u64(r);
  for (uint64_t i = 0; i < warnings && !r->bad; i++) {
    srcpos pos = {.file = get_text(r)};
    uint64_t at = get_u64(r);
    pos.line = (uint32_t)(at >> 32), pos.col = (uint32_t)at;
    const char *node = get_text(r), *text = get_name(r);
    if (!r->bad) diag_add(c, D_WARNING, E_OK, pos, node, "%s", text);
  }
  return r->bad || r->n ? NULL : d;
}

/* ---- reading an entry ------------------------------------------------------------------------ */
static const char *check_front(bytes f, head *h, size_t *front) {
  uint8_t d[32];
  if (f.n < sizeof *h) return "it is truncated";
  memcpy(h, f.p, sizeof *h);
  if (memcmp(h->magic, magic, sizeof magic)) return "it is not an entry of this version";
  if (h->described > f.n || h->code > f.n || h->weights > f.n ||
      padded(sizeof *h + h->described) + padded(h->code) + padded(h->weights) != f.n)
    return "it is truncated";
  size_t first = offsetof(head, key);
  *front = padded(sizeof *h + h->described) + padded(h->code);
  content_digest(f.p + first, *front - first, d);
  return memcmp(d, h->digest, 32) ? "it is damaged" : NULL;
}
static const char *check(const cache *k, bytes f, head *h) {
  uint8_t d[32];
  size_t front;
  const char *why = check_front(f, h, &front);
  if (why) return why;
  if (memcmp(h->key, k->key, 32)) return "it is for something else";
  content_digest(f.p + front, h->weights, d);
  return memcmp(d, h->weights_digest, 32) && !EK_PLANTED("cache-damaged") ? "its weights are damaged" : NULL;
}
static const char *adopt(cache *k, ek_module *m, bytes f) {
  head h;
  const char *why = check(k, f, &h);
  if (why) return why;
  uint64_t code = padded(sizeof h + h.described), weights = code + padded(h.code);
  image *i = m->code = image_load((bytes){f.p + code, h.code}, &why); /* m's from here on, should memory run out */
  if (!i) return why;
  reader r = {ctx_arena(k->c), f.p + sizeof h, h.described, false};
  ek_report rep = {.cached = 1, .weight_bytes = h.weights, .file_bytes = f.n};
  ek_memory_use use = {0};
  ek_rt_model *d = read_module(&r, k->c, &rep, &use);
  if (d) d->plan = (ek_rt_main)image_entry(i, PLAN), d->run = (ek_rt_main)image_entry(i, RUN);
  if (!d || !d->plan || !d->run) {
    image_free(i);
    m->code = NULL;
    return "its description is damaged";
  }
  double saved = rep.code_ms;
  rep.code_ms = 0;
  d->weights = h.weights ? f.p + weights : (const uint8_t *)"";
  d->weight_bytes = (int64_t)h.weights;
  m->d = d, m->report = rep, m->use = use;
  diag_add(k->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: %s/%s: compiled earlier in %.0f ms; nothing is compiled now",
           k->f.path, k->name, saved);
  return NULL;
}
/* What two keys differ in, in words. */
static const char *difference(const char *a, const char *b) {
  static const char *const words[][2] = {{"einkorn", "another version of Einkorn"},
                                         {"build", "another build of Einkorn"},
                                         {"llvm", "another version of LLVM"},
                                         {"processor", "another processor"},
                                         {"target", "another target"},
                                         {"machine", "a target with other fields"},
                                         {"optimise", "another level of optimisation"},
                                         {"dim", "other sizes (--dim)"},
                                         {"operators", "other operators (--ops)"}};
  while (*a && *b) {
    size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
    if (n != m || memcmp(a, b, n)) break;
    a += n + (a[n] == '\n'), b += m + (b[m] == '\n');
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i][0]);
    if ((!strncmp(a, words[i][0], n) && a[n] == ' ') || (!strncmp(b, words[i][0], n) && b[n] == ' '))
      return words[i][1];
  }
  return "other options";
}
static const char *why_missing(cache *k) {
  bytes f;
  head h;
  size_t front;
  const char *why, *like = folder_like(k->c, &k->f, k->name, 16), *text = NULL;
  if (!like || !folder_map(k->c, &k->f, like, false, &f, &why)) return "does not have this model yet";
  if (!check_front(f, &h, &front)) {
    reader r = {ctx_arena(k->c), f.p + sizeof h, h.described, false};
    text = get_text(&r);
  }
  why = text ? arena_fmt(ctx_arena(k->c), "has this model for %s", difference(text, k->text))
             : "does not have this model yet";
  munmap((void *)(uintptr_t)f.p, f.n);
  return why;
}
bool cache_load(cache *k, ek_module *m) {
  const char *why;
  bytes f;
  if (!folder_map(k->c, &k->f, k->name, true, &f, &why)) {
    if (why)
      diag_add(k->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: %s/%s is not used: %s", k->f.path, k->name, why);
    else
      diag_add(k->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: %s %s", k->f.path, why_missing(k));
    return false;
  }
  m->mapped = f;
  why = adopt(k, m, f);
  if (!why) return true;
  m->mapped = (bytes){0};
  munmap((void *)(uintptr_t)f.p, f.n);
  diag_add(k->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: %s/%s is not used: %s", k->f.path, k->name, why);
  return false;
}

/* ---- writing one ----------------------------------------------------------------------------- */
void cache_keep(void *env, bytes object) {
  cache *k = env;
  pthread_mutex_lock(&k->lock);
  if (k->n == k->cap) {
    uint32_t cap = k->cap ? 2 * k->cap : 64;
    bytes *v = realloc(k->objects, cap * sizeof *v);
    if (v) k->objects = v, k->cap = cap;
  }
  uint8_t *p = k->n < k->cap ? malloc(object.n + 1) : NULL;
  if (p) {
    memcpy(p, object.p, object.n);
    k->objects[k->n++] = (bytes){p, object.n};
  } else
    k->incomplete = true;
  pthread_mutex_unlock(&k->lock);
}
static bool write_entry(cache *k, pipeline *p, ek_module *m, const char **why) {
  ctx *c = p->c;
  arena *a = ctx_arena(c);
  bytes code, map;
  const char *entries[2];
  entries[PLAN] = jit_symbol(m->j, p->p->plan_fn->name), entries[RUN] = jit_symbol(m->j, p->p->run_fn->name);
  *why = "there was no memory to keep its code";
  if (k->incomplete || !image_link(c, (image_parts){k->objects, k->n, entries, 2}, &code, why)) return false;
  sbuf b = sbuf_new(a);
  head h = {.code = code.n, .weights = (uint64_t)m->d->weight_bytes};
  memcpy(h.magic, magic, sizeof magic);
  memcpy(h.key, k->key, 32);
  content_digest(m->d->weights, h.weights, h.weights_digest);
  sb_putn(&b, (const char *)&h, sizeof h);
  describe_module(&b, c, m, k->text);
  h.described = b.n - sizeof h;
  size_t first = padded(b.n), all = first + padded(code.n);
  uint8_t *front = arena_alloc(a, all);
  memcpy(front, b.s, b.n);
  memcpy(front + first, code.p, code.n);
  memcpy(front, &h, sizeof h);
  content_digest(front + offsetof(head, key), all - offsetof(head, key), h.digest);
  memcpy(front, &h, sizeof h);
  bytes parts[2] = {{front, all}, {m->d->weights, h.weights}};
  if (!folder_write(c, &k->f, k->name, parts, 2, PAGE, &map, why)) return false;
  /* the pages of the file are there anyway: no second copy of the weights in memory */
  ek_rt_model *d = (ek_rt_model *)(uintptr_t)m->d;
  d->weights = map.p + all;
  m->mapped = map;
  m->report.file_bytes = map.n;
  return true;
}
bool cache_store(cache *k, pipeline *p, ek_module *m) {
  const char *volatile why = NULL;
  if (!file_same(k->model, p->c) || !file_same(k->c, p->c)) {
    diag_add(p->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: not kept: a file of the model was changed meanwhile");
    return false;
  }
  uint32_t mark = diag_mark(p->c);
  CTX_TRY(p->c) {
    const char *w = NULL;
    why = write_entry(k, p, m, &w) ? NULL : w;
  }
  CTX_CATCH {
    diag_reset(p->c, mark);
    why = "there was no memory";
  }
  if (why)
    diag_add(p->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: %s: not kept: %s", k->f.path, why);
  else
    diag_add(p->c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: kept as %s/%s, %llu bytes", k->f.path, k->name,
             (unsigned long long)m->mapped.n);
  return !why;
}

/* ---- begin and end --------------------------------------------------------------------------- */
cache *cache_begin(ctx *c, const ek_model *model, const ek_options *o, const pipe_opts *po) {
  if (!o->cache || o->watch || o->evaluate || o->profile || o->verify || o->fuel || o->stop_after) return NULL;
  cache *k = NEW(ctx_arena(c), cache);
  const char *why = "";
  *k = (cache){.c = c, .model = model->c, .f.fd = -1};
  if (!folder_open(c, o->cache, o->cache_bytes, &k->f, &why)) {
    diag_add(c, D_INFO, E_OK, (srcpos){0}, NULL, "cache: not used: %s", why);
    return NULL;
  }
  uint32_t mark = diag_mark(c);
  volatile bool good = false;
  CTX_TRY(c) {
    uint8_t d[32];
    k->text = cache_key(c, model, po, d);
    if (k->text) {
      content_digest(k->text, strlen(k->text), k->key);
      sbuf b = sbuf_new(ctx_arena(c));
      for (int i = 0; i < 32; i++) sb_fmt(&b, "%02x", i < 8 ? d[i] : k->key[i]);
      sb_put(&b, ".ek");
      k->name = b.s;
      good = true;
    }
  }
  CTX_CATCH { good = false; }
  if (good && !pthread_mutex_init(&k->lock, NULL)) return k;
  diag_reset(c, mark); /* compiling will report the same problem */
  folder_close(&k->f);
  return NULL;
}
void cache_end(cache *k) {
  if (!k) return;
  for (uint32_t i = 0; i < k->n; i++) free((void *)(uintptr_t)k->objects[i].p);
  free(k->objects);
  pthread_mutex_destroy(&k->lock);
  folder_close(&k->f);
}
