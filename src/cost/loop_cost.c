/* How many bytes come from beyond a cache? Accesses that move alike are one stream; of each stream and each loop around
 * it, the bytes that one execution of the loop touches, and from these what stays in the cache until it is read again.
 */
#include "cost/loop_walk.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Accesses of one place in the nest that move by the same steps. */
typedef struct stream {
  const access *x; /* one of them */
  uint32_t pieces; /* pieces of memory that do not touch each other, in one iteration */
  double bytes;    /* mean bytes of a piece */
  int64_t apart;   /* bytes from one piece to the next, where that is the same for all; 0: it is not */
  bool foreseen;   /* the processor, or the program, fetches its lines ahead */
  /* of one iteration of the loop at a depth (0: of the kernel): bytes of the lines that it touches */
  double held[LOOPS_DEEP];
  double room[LOOPS_DEEP]; /* the same, with what they keep others from using of the first cache: pieces at steps of a
                              large power of two lie in the same few sets */
} stream;
typedef struct traffic {
  const accesses *w;
  const target *t;
  VEC(stream) streams;
  arena *a;
} traffic;

/* ---- streams --------------------------------------------------------------------------------- */
static int by_stream(const void *a, const void *b) {
  const access *x = *(access *const *)a, *y = *(access *const *)b;
  if (x->in != y->in) return x->in < y->in ? -1 : 1;
  if (x->base != y->base) return x->base < y->base ? -1 : 1;
  if (x->lane_step != y->lane_step) return x->lane_step < y->lane_step ? -1 : 1;
  const int r = memcmp(x->step, y->step, sizeof x->step);
  if (r) return r;
  return (x->at > y->at) - (x->at < y->at);
}
static bool together(const access *x, const access *y) {
  return x->in == y->in && x->base == y->base && x->lane_step == y->lane_step &&
         !memcmp(x->step, y->step, sizeof x->step);
}
/* the accesses all[from..to-1], in the order of their places, as a stream */
static stream stream_of(const traffic *k, access *const *all, uint32_t from, uint32_t to) {
  const int64_t line = (int64_t)k->t->line;
  stream s = {.x = all[from], .pieces = 1, .apart = -1};
  int64_t begin = all[from]->at, end = begin + all[from]->bytes;
  for (uint32_t i = from + 1; i < to; i++) {
    if (all[i]->at > end + line) {
      const int64_t d = all[i]->at - begin;
      s.bytes += (double)(end - begin), s.pieces++;
      s.apart = s.apart == -1 || s.apart == d ? d : 0;
      begin = all[i]->at, end = begin;
    }
    end = max64(end, all[i]->at + all[i]->bytes);
  }
  s.bytes = (s.bytes + (double)(end - begin)) / s.pieces;
  if (s.apart < 0) s.apart = 0;
  return s;
}
/* A direction in which a stream repeats. */
typedef struct direction {
  int64_t step;  /* bytes */
  int64_t times; /* how often */
} direction;
static int by_step(const void *a, const void *b) {
  const direction *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}
/* What pieces of so many bytes hold and take up at that depth when they are repeated in n directions: steps that are
 * shorter than a piece make it longer, others make more pieces; directions of equal steps overlap. */
static void spread(const traffic *k, stream *s, uint32_t depth, double pieces, const direction *given, uint32_t n) {
  direction d[LOOPS_DEEP + 2];
  const double line = (double)k->t->line, way = (double)target_l1_way(k->t);
  double bytes = s->bytes, apart = 0;
  memcpy(d, given, n * sizeof *d);
  qsort(d, n, sizeof *d, by_step);
  for (uint32_t i = 0; i < n;) {
    double times = (double)d[i].times;
    uint32_t j = i + 1;
    for (; j < n && d[j].step == d[i].step; j++) times += (double)d[j].times - 1;
    if ((double)d[i].step <= bytes + line) {
      bytes += (times - 1) * (double)d[i].step;
    } else {
      pieces *= times;
      const double sets = (double)gcd64(d[i].step, (int64_t)way);
      if (way > 0) apart = apart > 0 ? fmin(apart, sets) : sets;
    }
    i = j;
  }
  if (line > 0) bytes = fmax(line, ceil(bytes / line) * line);
  s->held[depth] = pieces * bytes;
  s->room[depth] = pieces * fmax(bytes, apart);
}
static void hold(const traffic *k, stream *s) {
  direction d[LOOPS_DEEP + 2];
  uint32_t n = 0;
  double pieces = s->pieces;
  bool moved = false;
  if (s->apart) d[n++] = (direction){s->apart, s->pieces}, pieces = 1;
  if (s->x->lanes > 1) d[n++] = (direction){s->x->lane_step, s->x->lanes};
  s->foreseen = true;
  for (const walked_loop *l = s->x->in;; l = l->outer) {
    if (l->depth < LOOPS_DEEP) spread(k, s, l->depth, pieces, d, n);
    if (!l->outer) break;
    if (l->depth > LOOPS_DEEP) continue;
    int64_t step = s->x->step[l->depth - 1];
    if (step < 0) step = -step;
    if (!moved) s->foreseen = l->prefetches || !step || step < (int64_t)k->t->prefetch_stride;
    moved |= step != 0;
    if (step && l->trips > 1) d[n++] = (direction){step, l->trips};
  }
}
static void find_streams(traffic *k) {
  const uint32_t n = k->w->all.n;
  access **all = NEWN(k->a, access *, n + 1);
  for (uint32_t i = 0; i < n; i++) all[i] = &k->w->all.v[i];
  qsort(all, n, sizeof *all, by_stream);
  for (uint32_t i = 0; i < n;) {
    uint32_t j = i + 1;
    while (j < n && together(all[i], all[j])) j++;
    stream s = stream_of(k, all, i, j);
    hold(k, &s);
    vec_push(k->a, k->streams, s);
    i = j;
  }
}

/* ---- reuse ----------------------------------------------------------------------------------- */
static bool inside(const walked_loop *l, const walked_loop *of) {
  while (l && l != of) l = l->outer;
  return l != NULL;
}
/* Bytes of a cache that one iteration of the loop takes up. */
static double touched(const traffic *k, const walked_loop *l, bool first) {
  double all = 0;
  for (uint32_t i = 0; l->depth < LOOPS_DEEP && i < k->streams.n; i++) {
    const stream *s = &k->streams.v[i];
    if (inside(s->x->in, l)) all += first ? s->room[l->depth] : s->held[l->depth];
  }
  return all;
}
/* Bytes of a stream that come from beyond the cache: what an iteration touched is still there in the next one, where
 * the cache holds it all. */
static double beyond(const traffic *k, const stream *s, uint64_t cache) {
  double r = s->held[s->x->in->depth < LOOPS_DEEP ? s->x->in->depth : LOOPS_DEEP - 1];
  for (const walked_loop *l = s->x->in; l->outer; l = l->outer) {
    if (l->depth >= LOOPS_DEEP) continue;
    const double one = s->held[l->depth], whole = s->held[l->depth - 1];
    r *= touched(k, l, cache == k->t->l1) <= (double)cache ? whole / one : (double)l->trips;
  }
  return r;
}
typedef struct fetched {
  double bytes; /* from beyond a cache */
  double waits; /* lines of them that nothing fetched ahead */
} fetched;
static fetched fetch(const traffic *k, uint64_t cache) {
  fetched r = {0};
  if (!cache || touched(k, k->w->loops.v[0], cache == k->t->l1) <= (double)cache) return r;
  for (uint32_t i = 0; i < k->streams.n; i++) {
    const stream *s = &k->streams.v[i];
    const double bytes = beyond(k, s, cache) * (s->x->write ? 2 : 1); /* a line that is written comes, and goes */
    r.bytes += bytes;
    if (!s->foreseen && k->t->line) r.waits += bytes / (double)k->t->line;
  }
  return r;
}
loop_cost cost_of_loops(const lfunc *f, const int64_t *args, int64_t chunks, const target *t, arena *a) {
  accesses found = {0};
  loop_cost r = {.core = walk_loops(f, args, chunks, t, a, &found)};
  traffic k = {.w = &found, .t = t, .a = a};
  find_streams(&k);
  const fetched l2 = fetch(&k, t->l1);
  r.l2 = l2.bytes / t->l2_bandwidth + l2.waits * t->load_wait / t->fma_per_cycle;
  r.l3 = fetch(&k, t->l2).bytes / t->l3_bandwidth;
  r.memory = fetch(&k, t->l3).bytes / t->dram_bandwidth;
  r.cycles = fmax(fmax(r.core, r.l2), fmax(r.l3, r.memory));
  return r;
}
