/* Where do the contents of the weights come from, and when? From the model's file or from folded constants, at the
 * end, straight to where they belong: a module's memory, a file, a digest. Until then a program knows of
 * them only what is read, what is made of it (a linear map, computed straight into the panels of its pack; wider
 * elements), and how that is packed.
 *
 * The work is cut into pieces of about a megabyte, such that a piece reads one stretch of its source as far as the
 * packing allows. What a piece has read of a mapped file leaves memory again; a source that is memory of the
 * compiler is given up after its last piece. So at any time there is little more than what is written plus what
 * is still to be read from such memory. */
#include "program/build.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20, COMPARE = 16 << 20 };

bool weights_equal(ctx *c, const contents *x, const contents *y) {
  bytes a = x->source, b = y->source;
  if (!a.n || a.n != b.n || x->narrow != y->narrow || !x->pack != !y->pack ||
      (x->pack && memcmp(x->pack, y->pack, sizeof *x->pack)) || !linmap_equal(x->transform, y->transform))
    return false;
  if (a.p == b.p) return true;
  bool same = true;
  for (size_t at = 0; at < a.n && same; at += COMPARE) {
    size_t n = a.n - at < COMPARE ? a.n - at : COMPARE;
    same = !memcmp(a.p + at, b.p + at, n) || EK_PLANTED("weights-equal");
    if (n == COMPARE) file_done(c, a.p + at, n), file_done(c, b.p + at, n);
  }
  return same;
}

void weights_measure(ctx *c, pbuffer *b) {
  b->weight_bytes = (uint64_t)sym_int_or(c, b->elems, 0) * et_bytes(b->type);
  b->weight_room = (uint64_t)sym_int_or(c, b->bytes, 0);
}

/* ---- pieces ---------------------------------------------------------------------------------- */
typedef struct piece {
  uint32_t buffer; /* number of the buffer */
  uint32_t group;  /* group of its source */
  /* the piece of a pack; else the bytes first..last-1, or of a transformed constant panels of columns and rows, at
   * all places */
  pack_piece at;
} piece;
/* Sources that overlap are given up together. */
typedef struct group {
  bytes source;  /* the bytes that overlap */
  uint32_t left; /* pieces that are still to be written */
} group;
typedef struct writing {
  const program *p;     /* the program */
  uint8_t *to;          /* gets the weights */
  VEC(piece) pieces;    /* the pieces to be written */
  VEC(group) groups;    /* sources that overlap */
  pthread_mutex_t lock; /* guards what is left of groups, and is held while others are told */
  weights_watch watch;  /* who is told */
} writing;
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* What is made lies in panels of columns: one, where it is not packed. */
typedef struct panels {
  int64_t rows;        /* number of rows */
  int64_t cols;        /* number of columns */
  int64_t nr;          /* columns of a panel */
  int64_t n;           /* number of panels */
  int64_t size;        /* bytes of an element */
  int64_t interleaved; /* places that lie side by side at a point */
} panels;
static panels panels_of(const contents *f) {
  int64_t cols = linmap_cols(f->transform);
  return (panels){linmap_rows(f->transform),    cols,
                  f->pack ? f->pack->nr : cols, f->pack ? f->pack->panels : 1,
                  f->transform->size,           f->pack ? max64(1, f->pack->interleaved) : 1};
}
static linmap_piece panel_piece(const panels *q, pack_piece at) {
  return (linmap_piece){at.from, at.to, at.first * q->nr, min64(at.last * q->nr, q->cols)};
}
/* to: its first point, at the first place */
static void make_panel(const contents *f, const panels *q, pack_piece at, uint8_t *to, int64_t place_step) {
  linmap_piece w = panel_piece(q, at);
  int64_t n = w.col_end - w.col;
  const bool first = (f->transform->n[1] == 1) != EK_PLANTED("schedule-interleaved"); /* axis that lies side by side */
  const int64_t row = q->nr * q->interleaved,
                side[LINMAP_AXES] = {first ? q->nr : place_step, first ? place_step : q->nr},
                plain[LINMAP_AXES] = {f->transform->n[1] * place_step, place_step};
  linmap_write(f->transform, w, to, q->interleaved > 1 ? side : plain, row);
  for (int64_t p = 0; n < q->nr && p < linmap_places(f->transform); p++)
    for (int64_t r = 0; r < at.to - at.from; r++)
      memset(to + (p / q->interleaved * place_step + p % q->interleaved * q->nr + r * row + n) * q->size, 0,
             (size_t)((q->nr - n) * q->size));
}
/* Writes whole panels in fixed point. */
static void make_fixed(ctx *c, const contents *f, pack_piece at, uint8_t *to) {
  panels q = panels_of(f);
  int64_t one = q.rows * q.nr * q.interleaved, places = linmap_places(f->transform) / q.interleaved;
  arena *mine = arena_new(c);
  float *floats = arena_array(mine, (size_t)(places * one), sizeof *floats);
  for (int64_t k = at.first; k < at.last; k++) {
    make_panel(f, &q, (pack_piece){k, k + 1, 0, q.rows}, (uint8_t *)floats, one);
    for (int64_t p = 0; p < places; p++)
      fixed_point_write(f->pack, floats + p * one, to + (p * q.n + k) * packing_item(f->pack));
  }
  arena_free(mine);
}
static void make_piece(ctx *c, const contents *f, pack_piece at, uint8_t *to) { /* to: where the buffer begins */
  panels q = panels_of(f);
  if (f->pack && f->pack->fixed_point)
    make_fixed(c, f, at, to);
  else
    for (int64_t k = at.first; k < at.last; k++)
      make_panel(f, &q, (pack_piece){k, k + 1, at.from, at.to},
                 to + (k * q.rows + at.from) * q.nr * q.interleaved * q.size, q.n * q.rows * q.nr * q.interleaved);
}
static void cut_made(writing *w, arena *a, uint32_t i) {
  const contents *f = &w->p->buffers.v[i].from;
  panels q = panels_of(f);
  int64_t row = linmap_places(f->transform) * q.nr * q.size, some = ceil_div(PIECE, row * q.rows),
          rows = min64(q.rows, ceil_div(PIECE, row));
  if (some > 1 || (f->pack && f->pack->fixed_point)) rows = q.rows;
  for (int64_t k = 0; k < q.n; k += some)
    for (int64_t r = 0; r < q.rows; r += rows)
      vec_push(a, w->pieces, ((piece){i, 0, {k, min64(q.n, k + some), r, min64(q.rows, r + rows)}}));
}
/* The pieces of a buffer in the order of the source: of points where these are further apart than lanes, of items
 * otherwise (which is also the order of the pack). */
static void cut(writing *w, arena *a, uint32_t i, bool in_order) {
  const pbuffer *b = &w->p->buffers.v[i];
  const packing *k = b->from.pack;
  int64_t n = (int64_t)b->weight_bytes;
  if (b->from.transform) {
    cut_made(w, a, i);
    return;
  }
  if (!k) {
    for (int64_t at = 0; at < n; at += PIECE) vec_push(a, w->pieces, ((piece){i, 0, {at, min64(n, at + PIECE), 0, 0}}));
    return;
  }
  int64_t items = packing_items(k), row = k->nr * k->size, group = max64(2, k->group);
  if (!in_order && !k->fixed_point && !k->bits && !k->nsel && k->nred && k->step[0] > k->lane_step) {
    int64_t points = ceil_div(ceil_div(PIECE, items * row), group) * group; /* groups stay together */
    for (int64_t p = 0; p < k->depth; p += points)
      vec_push(a, w->pieces, ((piece){i, 0, {0, items, p, min64(k->depth, p + points)}}));
    return;
  }
  int64_t some = ceil_div(PIECE, k->depth * row);
  for (int64_t p = 0; p < items; p += some)
    vec_push(a, w->pieces, ((piece){i, 0, {p, min64(items, p + some), 0, k->depth}}));
}
/* The pack of what is kept in fewer bytes: the same places. */
static packing pack_of(const contents *f) {
  packing k = *f->pack;
  if (f->narrow) k.size = et_bytes(f->narrow);
  return k;
}
static void write_wider(ctx *c, const contents *f, pack_piece at, uint8_t *to) {
  packing k = pack_of(f);
  arena *mine = arena_new(c);
  uint8_t *item = arena_alloc(mine, (size_t)(k.depth * k.nr * k.size));
  for (int64_t i = at.first; i < at.last; i++) {
    int64_t from = at.from * k.nr, n = (at.to - at.from) * k.nr;
    packing_write(&k, f->source.p, (pack_piece){i, i + 1, at.from, at.to}, item);
    narrow_write(f->narrow, item + from * k.size, (size_t)n,
                 to + ((i - at.first) * k.depth * k.nr + from) * f->pack->size);
  }
  arena_free(mine);
}
static void write_fixed(ctx *c, const contents *f, pack_piece at, uint8_t *to) {
  packing k = *f->pack;
  arena *mine = arena_new(c);
  float *floats = arena_array(mine, (size_t)(k.depth * k.nr), sizeof *floats);
  k.fixed_point = 0;
  for (int64_t i = at.first; i < at.last; i++, to += packing_item(f->pack)) {
    packing_write(&k, f->source.p, (pack_piece){i, i + 1, 0, k.depth}, (uint8_t *)floats);
    fixed_point_write(f->pack, floats, to);
  }
  arena_free(mine);
}
static bytes piece_source(const pbuffer *b, pack_piece at) {
  const contents *f = &b->from;
  int64_t ratio = f->narrow ? et_bytes(b->type) / et_bytes(f->narrow) : 1;
  if (f->transform) {
    panels q = panels_of(f);
    return linmap_reads(f->transform, panel_piece(&q, at));
  }
  if (!f->pack) return (bytes){f->source.p + at.first / ratio, (size_t)((at.last - at.first) / ratio)};
  packing k = pack_of(f);
  return packing_reads(&k, f->source.p, at);
}
/* Writes items of a pack whose constant is not transformed; to: where the piece's first item begins */
static void write_items(ctx *c, const pbuffer *b, pack_piece at, uint8_t *to) {
  const contents *f = &b->from;
  bytes from = piece_source(b, at);
  if (f->pack && f->pack->fixed_point)
    write_fixed(c, f, at, to);
  else if (f->pack && f->narrow)
    write_wider(c, f, at, to);
  else if (f->pack)
    packing_write(f->pack, f->source.p, at, to);
  else if (f->narrow)
    narrow_write(f->narrow, from.p, from.n, to);
  else
    memcpy(to, from.p, from.n);
}
static void write_piece(ctx *c, const pbuffer *b, pack_piece at, uint8_t *to) { /* to: where the buffer begins */
  const contents *f = &b->from;
  if (f->transform)
    make_piece(c, f, at, to);
  else
    write_items(c, b, at, to + at.first * (f->pack ? packing_item(f->pack) : 1));
}
static size_t piece_bytes(const pbuffer *b, pack_piece at) {
  const contents *f = &b->from;
  int64_t n = at.last - at.first;
  if (f->pack && f->pack->fixed_point)
    return (size_t)(n * packing_item(f->pack) *
                    (f->transform ? linmap_places(f->transform) / max64(1, f->pack->interleaved) : 1));
  if (f->transform) {
    panels q = panels_of(f);
    return (size_t)(n * (at.to - at.from) * q.nr * q.size * linmap_places(f->transform));
  }
  if (f->pack && f->pack->bits) return (size_t)(n * packing_item(f->pack));
  return (size_t)(f->pack ? n * (at.to - at.from) * f->pack->nr * f->pack->size : n);
}
static void one(ctx *c, void *arg, uint32_t i) {
  writing *w = arg;
  const piece *x = &w->pieces.v[i];
  const pbuffer *b = &w->p->buffers.v[x->buffer];
  write_piece(c, b, x->at, w->to + b->weight_offset);
  bytes read = piece_source(b, x->at);
  /* where the piece is a small part of these bytes, other pieces need them, too */
  if (read.n / 2 <= piece_bytes(b, x->at)) file_done(c, read.p, read.n);
  pthread_mutex_lock(&w->lock);
  group *g = &w->groups.v[x->group];
  if (!--g->left && w->watch.done) w->watch.done(w->watch.env, g->source);
  if (w->watch.wrote) w->watch.wrote(w->watch.env, piece_bytes(b, x->at));
  pthread_mutex_unlock(&w->lock);
}

/* ---- which buffers --------------------------------------------------------------------------- */
typedef struct at {
  uint64_t offset; /* bytes from the beginning of the weights */
  uint32_t buffer; /* number of the buffer */
} at;
static int by_offset(const void *a, const void *b) {
  const at *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}
/* Each place in the first n bytes of the weights once, in their order. */
static void places(const program *p, uint64_t n, arena *a, u32vec *out) {
  map *seen = map_new(a);
  VEC(at) all = {0};
  for (uint32_t i = 1; i < p->buffers.n; i++) {
    const pbuffer *b = &p->buffers.v[i];
    uint64_t had;
    if (b->kind != BUF_WEIGHTS || !b->weight_bytes || b->weight_offset >= n || map_getu(seen, b->weight_offset, &had))
      continue;
    if (!b->from.source.p)
      ctx_fail(p->c, E_USAGE,
               "program %s was read from text, which names the weights by their SHA-256 but does not hold them; build "
               "it from its model",
               p->name);
    map_putu(seen, b->weight_offset, 1);
    vec_push(a, all, ((at){b->weight_offset, i}));
  }
  if (all.n) qsort(all.v, all.n, sizeof *all.v, by_offset);
  for (uint32_t i = 0; i < all.n; i++) vec_push(a, *out, all.v[i].buffer);
}
typedef struct from {
  bytes source;    /* the source's bytes */
  uint32_t buffer; /* number of the buffer */
} from;
static int by_source(const void *a, const void *b) {
  const from *x = a, *y = b;
  return x->source.p < y->source.p ? -1 : x->source.p > y->source.p;
}
static void group_sources(writing *w, arena *a, const u32vec *list, uint32_t *group_of) {
  from *f = NEWN(a, from, list->n + 1);
  for (uint32_t i = 0; i < list->n; i++) f[i] = (from){w->p->buffers.v[list->v[i]].from.source, list->v[i]};
  if (list->n) qsort(f, list->n, sizeof *f, by_source);
  for (uint32_t i = 0; i < list->n; i++) {
    group *g = w->groups.n ? &w->groups.v[w->groups.n - 1] : NULL;
    if (g && f[i].source.p < g->source.p + g->source.n) {
      size_t n = (size_t)(f[i].source.p - g->source.p) + f[i].source.n;
      if (n > g->source.n) g->source.n = n;
    } else
      vec_push(a, w->groups, ((group){f[i].source, 0}));
    group_of[f[i].buffer] = w->groups.n - 1;
  }
}
/* What lies between the buffers is 0, so that equal programs have equal weights. */
static void fill_gap(const pbuffer *b, uint8_t *to) {
  size_t n = (size_t)b->weight_bytes, room = (size_t)b->weight_room;
  if (room > n) memset(to + b->weight_offset + n, 0, room - n);
}
void program_weights(const program *p, uint64_t n, uint32_t threads, uint8_t *to, const weights_watch *watch) {
  arena *a = p->a;
  u32vec list = {0};
  writing *w = NEW(a, writing);
  *w = (writing){.p = p, .to = to, .watch = watch ? *watch : (weights_watch){0}};
  places(p, n, a, &list);
  uint32_t *group_of = NEWN(a, uint32_t, p->buffers.n + 1), cuts = 0;
  group_sources(w, a, &list, group_of);
  for (uint32_t i = 0; i < list.n; i++) {
    fill_gap(&p->buffers.v[list.v[i]], to);
    cut(w, a, list.v[i], false);
    for (; cuts < w->pieces.n; cuts++) w->groups.v[w->pieces.v[cuts].group = group_of[list.v[i]]].left++;
  }
  if (pthread_mutex_init(&w->lock, NULL)) ctx_fail(p->c, E_MEMORY, "no memory for a lock");
  bool volatile failed = false;
  CTX_TRY(p->c) { par_for(p->c, threads, w->pieces.n, one, w); }
  CTX_CATCH { failed = true; }
  pthread_mutex_destroy(&w->lock);
  if (failed) ctx_unwind(p->c);
}

const char *program_first(const program *p, uint32_t state, uint8_t *to) {
  const pbuffer *b = &p->buffers.v[p->states.v[state].first];
  const packing *k = b->from.pack;
  const bytes source = b->from.source;
  const char *file = file_changed(p->c, source.p);
  if (file) return file;
  write_items(p->c, b, (pack_piece){0, k ? packing_items(k) : (int64_t)b->weight_bytes, 0, k ? k->depth : 0}, to);
  file_done(p->c, source.p, source.n);
  return NULL;
}

/* ---- one after the other --------------------------------------------------------------------- */
static void stream(const program *p, uint32_t i, arena *a, void (*put)(void *env, bytes piece), void *env) {
  const pbuffer *b = &p->buffers.v[i];
  const contents *f = &b->from;
  writing w = {.p = p};
  uint8_t *room = NULL;
  size_t most = 0, all = (size_t)b->weight_bytes;
  cut(&w, a, i, true);
  /* the pieces of a transformed constant do not lie side by side */
  if (f->transform) room = arena_alloc(a, all);
  for (uint32_t k = 0; k < w.pieces.n; k++) {
    pack_piece at = w.pieces.v[k].at;
    bytes read = piece_source(b, at);
    size_t n = piece_bytes(b, at);
    if (f->transform) {
      make_piece(p->c, f, at, room);
    } else if (f->pack || f->narrow) {
      if (n > most) room = arena_alloc(a, most = n);
      write_items(p->c, b, at, room);
      put(env, (bytes){room, n});
    } else {
      put(env, read);
    }
    if (read.n / 2 <= n) file_done(p->c, read.p, read.n);
  }
  if (f->transform) put(env, (bytes){room, all});
  file_done(p->c, f->source.p, f->source.n);
}
void program_weights_stream(const program *p, void (*put)(void *env, bytes piece), void *env) {
  static const uint8_t zeros[64];
  arena *a = arena_new(p->c);
  u32vec list = {0};
  places(p, p->weight_bytes, a, &list);
  for (uint32_t i = 0; i < list.n; i++) {
    const pbuffer *b = &p->buffers.v[list.v[i]];
    size_t n = (size_t)b->weight_bytes, room = (size_t)b->weight_room;
    arena *mine = arena_new(p->c);
    stream(p, list.v[i], mine, put, env);
    arena_free(mine);
    if (room > n) put(env, (bytes){zeros, room - n});
  }
  arena_free(a);
}
static void add(void *env, bytes piece) { sha256_add(env, piece.p, piece.n); }
const char *weights_digest(const program *p, const pbuffer *b, arena *a) {
  if (b->sha256) return b->sha256;
  sha256_state *k = sha256_begin(a);
  arena *mine = arena_new(p->c);
  if (b->weight_bytes) stream(p, (uint32_t)(b - p->buffers.v), mine, add, k);
  arena_free(mine);
  return sha256_end(k);
}
