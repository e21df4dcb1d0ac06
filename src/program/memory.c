/* Where in the arena does every buffer lie? Buffers are placed largest first at the lowest offset where they overlap no buffer that is live at the same time (greedy by size: Pisarchyk and Lee, "Efficient memory management
 * for deep neural net inference", 2020). With symbolic sizes: if all sizes are multiples of one common polynomial (a batch size), the same search on the factors; otherwise a buffer is put above all it conflicts with.
 * Late sizes count with their bounds. */
#include "program/build.h"
#include "expr/passes.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, SMALL = 1 << 16 };
typedef struct mp { memplan *p; emodule *m; ctx *c; uint32_t pos; } mp;

static bool late_between(void *env, atom a, sz *lo, sz *hi) {
  mp *k = env;
  for (uint32_t i = 0; i < k->m->loops.n; i++)
    if (k->m->loops.v[i].counter == a) {
      *lo = sym_int(k->c, 0), *hi = program_last_trip(k->m, &k->m->loops.v[i]);
      return true;
    }
  for (uint32_t i = 0; i < k->m->lates.n; i++)
    if (k->m->lates.v[i].symbol == a) {
      int64_t least, most;
      sym_range(k->c, sym_of_atom(k->c, a), &least, &most);
      *lo = sym_int(k->c, least), *hi = k->m->lates.v[i].bound;
      return true;
    }
  return false;
}
sz program_last_trip(emodule *m, const xloop *x) {
  int64_t lo, hi;
  sym_range(m->c, sym_of_atom(m->c, x->counter), &lo, &hi);
  return x->trips ? sym_max(m->c, sym_min(m->c, sym_addi(m->c, x->trips, -1), sym_int(m->c, hi)), sym_int(m->c, 0)) : sym_int(m->c, hi);
}
static sz bounded(mp *k, sz e) {
  sz lo, hi;
  sym_between(k->c, e, late_between, k, &lo, &hi);
  return hi;
}
/* elems * size, rounded up to ALIGN: term by term when all coefficients are positive, so that N*c stays a multiple of N */
static sz round_bytes(ctx *c, sz elems, uint32_t size) {
  sz r = sym_int(c, 0);
  uint32_t n = sym_nterms(c, elems);
  bool simple = true;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t k = sym_term(c, elems, i, &na, &as, &ex), b;
    if (k < 0) simple = false;
    if (!simple) break;
    if (!mul64(k, size, &b) || !add64(b, ALIGN - 1, &b)) ctx_fail(c, E_MEMORY, "the memory of one tensor overflows: %s elements (a size that is found at run time counts with its bound: bound it by --dim SIZE=MOST; for the trips of a loop, --dim NODE.trips=MOST)", sym_str(c, elems));
    sz mono = sym_int(c, b / ALIGN * ALIGN);
    for (uint32_t j = 0; j < na; j++)
      for (uint8_t q = 0; q < ex[j]; q++) mono = sym_mul(c, mono, sym_of_atom(c, as[j]));
    r = sym_add(c, r, mono);
  }
  if (simple) return r;
  return sym_muli(c, sym_ceildiv(c, sym_muli(c, elems, size), sym_int(c, ALIGN)), ALIGN);
}
static void touch(mp *k, uint32_t buf, uint32_t from, uint32_t to) {
  membuf *b = &k->p->mem[buf];
  if (!b->used || from < b->first) b->first = from;
  if (!b->used || to > b->last) b->last = to;
  b->used = true;
}
static void touch_tensor(mp *k, tid t) {
  if (t && k->p->plan->layouts[t].buffer) touch(k, k->p->plan->layouts[t].buffer, k->pos, k->pos);
}
static bool inside(emodule *m, uint32_t block, uint32_t of) { /* block is `of` or lies in it */
  while (block != of) {
    if (block == 0) return false;
    block = m->blocks.v[block].parent;
  }
  return true;
}
static void walk(mp *k, uint32_t block) {
  splan *p = k->p->plan;
  emodule *m = k->m;
  uint32_t li = 0;
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    item it = m->blocks.v[block].items.v[i];
    for (li = 0; li < p->launches.n; li++) {
      launch *l = &p->launches.v[li];
      if (l->block != block || l->item != i) continue;
      uint32_t n = 1, from = ++k->pos; /* repeated ones: what they touch is live all through their loop */
      while (l->step && li + n < p->launches.n && p->launches.v[li + n].step == l->step) n++;
      if (l->step) k->pos += n + 1;
      for (uint32_t r = 0; r < n; r++)
        for (uint32_t a = 0; a < l[r].args.n; a++)
          if (l[r].args.v[a].is_buffer && l[r].args.v[a].buffer) touch(k, l[r].args.v[a].buffer, from, k->pos);
      li += n - 1;
    }
    if (it.kind == IT_IF) {
      xif *x = &m->ifs.v[it.index];
      k->pos++;
      touch_tensor(k, x->cond);
      walk(k, x->then_block);
      walk(k, x->else_block);
      k->pos++;
      for (uint32_t j = 0; j < x->n; j++) touch_tensor(k, x->results[j]);
    } else if (it.kind == IT_LOOP) {
      xloop *x = &m->loops.v[it.index];
      uint32_t from = ++k->pos;
      touch_tensor(k, x->trip_tensor), touch_tensor(k, x->cond0);
      for (uint32_t j = 0; j < x->ncarried; j++) touch_tensor(k, x->init[j]), touch_tensor(k, x->inner[j]);
      for (uint32_t j = 0; j < x->ncollected; j++) touch_tensor(k, x->collected[j]);
      walk(k, x->body);
      k->pos++;
      touch_tensor(k, x->cond);
      for (uint32_t j = 0; j < x->ncarried; j++) touch_tensor(k, x->next[j]), touch_tensor(k, x->inner[j]), touch_tensor(k, x->final[j]);
      for (uint32_t j = 0; j < x->ncollected; j++) touch_tensor(k, x->collected[j]);
      /* what was touched inside but lives outside is live all through the loop */
      for (uint32_t b = 1; b < p->buffers.n; b++) {
        membuf *q = &k->p->mem[b];
        if (q->used && q->last >= from && !EK_PLANTED("memory-loop") && !inside(m, p->buffers.v[b].block, x->body)) touch(k, b, q->first < from ? q->first : from, k->pos);
      }
    }
  }
}

typedef struct ent { uint32_t buf; int64_t size; } ent;
static int by_size(const void *a, const void *b) {
  const ent *x = a, *y = b;
  if (x->size != y->size) return x->size < y->size ? 1 : -1;
  return x->buf < y->buf ? -1 : 1;
}
static bool overlap(const membuf *a, const membuf *b) { return a->first + EK_PLANTED("memory") <= b->last && b->first + EK_PLANTED("memory") <= a->last; }

/* sizes = factor * common? */
static bool common_factor(mp *k, const ent *es, uint32_t n, sz *common, int64_t *factors) {
  *common = 0;
  for (uint32_t i = 0; i < n; i++) {
    sz s = k->p->mem[es[i].buf].bytes;
    int64_t g = 0;
    for (uint32_t t = 0; t < sym_nterms(k->c, s); t++) {
      uint32_t na;
      const atom *as;
      const uint8_t *ex;
      int64_t q = sym_term(k->c, s, t, &na, &as, &ex);
      q = q < 0 ? -q : q;
      while (q) {
        int64_t r = g % q;
        g = q, q = r;
      }
    }
    if (g == 0) {
      factors[i] = 0;
      continue;
    }
    sz prim;
    if (!sym_exact_div(k->c, s, sym_int(k->c, g), &prim)) return false;
    if (!*common) *common = prim;
    if (prim != *common) return false;
    factors[i] = g;
  }
  if (!*common) *common = sym_int(k->c, 1);
  return true;
}

/* An earlier buffer of weights with the same contents (the variants of a model pack many weights alike); 0: none. */
static uint32_t equal_weights(const mp *k, uint32_t i) {
  const splan *s = k->p->plan;
  const buffer *b = &s->buffers.v[i];
  for (uint32_t j = 1; j < i; j++) {
    const buffer *o = &s->buffers.v[j];
    if (o->kind != BUF_WEIGHTS || !k->p->mem[j].used || o->type != b->type || o->source.n != b->source.n || !sym_eq(k->c, o->elems, b->elems)) continue;
    if (s->unread && b->source.n > SMALL && o->source.p != b->source.p) continue;
    if (weights_equal(k->c, o->source, o->pack, b->source, b->pack)) return j;
  }
  return 0;
}
void memory_plan(memplan *p) {
  splan *s = p->plan;
  mp k = {p, s->m, s->m->c, 0};
  arena *a = s->l->a;
  p->mem = NEWN(a, membuf, s->buffers.n);
  walk(&k, 0);
  uint32_t n = 0;
  ent *es = NEWN(a, ent, s->buffers.n);
  p->scratch_bytes = sym_int(k.c, 0);
  for (uint32_t i = 0; i < s->launches.n; i++) p->scratch_bytes = (EK_PLANTED("memory-scratch") ? sym_min : sym_max)(k.c, p->scratch_bytes, bounded(&k, s->launches.v[i].scratch ? s->launches.v[i].scratch : sym_int(k.c, 0)));
  for (uint32_t i = 1; i < s->buffers.n; i++) {
    buffer *b = &s->buffers.v[i];
    p->mem[i].bytes = round_bytes(k.c, bounded(&k, b->elems), et_bytes(b->type));
    if (b->kind == BUF_WEIGHTS && p->mem[i].used) {
      int64_t bytes;
      if (!sym_is_int(k.c, p->mem[i].bytes, &bytes)) ctx_bug(k.c, "program: weights of symbolic size");
      uint32_t twin = equal_weights(&k, i);
      p->mem[i].weight_offset = twin ? p->mem[twin].weight_offset : p->weight_bytes;
      if (!twin) p->weight_bytes += (uint64_t)bytes - (EK_PLANTED("memory-weights") && bytes > 64 ? 64 : 0);
    }
    if (b->kind == BUF_ARENA && p->mem[i].used) es[n++] = (ent){i, 0};
  }
  int64_t *factors = NEWN(a, int64_t, n + 1);
  sz common;
  bool gaps = common_factor(&k, es, n, &common, factors);
  for (uint32_t i = 0; i < n; i++) {
    es[i].size = gaps ? factors[i] : expr_typical(s->m, p->mem[es[i].buf].bytes);
  }
  qsort(es, n, sizeof *es, by_size);
  p->arena_bytes = sym_int(k.c, 0);
  int64_t *at = NEWN(a, int64_t, n + 1), top = 0;
  for (uint32_t i = 0; i < n; i++) {
    membuf *b = &p->mem[es[i].buf];
    if (gaps) {
      int64_t pos = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t j = 0; j < i; j++)
          if (overlap(b, &p->mem[es[j].buf]) && pos < at[j] + es[j].size && at[j] < pos + es[i].size) pos = at[j] + es[j].size, moved = true;
      }
      at[i] = pos;
      if (pos + es[i].size > top) top = pos + es[i].size;
      b->offset = sym_muli(k.c, common, pos);
    } else {
      sz off = sym_int(k.c, 0);
      for (uint32_t j = 0; j < i; j++)
        if (overlap(b, &p->mem[es[j].buf]) && !(EK_PLANTED("memory-open") && j + 1 == i)) off = sym_max(k.c, off, sym_add(k.c, p->mem[es[j].buf].offset, p->mem[es[j].buf].bytes));
      b->offset = off;
      p->arena_bytes = sym_max(k.c, p->arena_bytes, sym_add(k.c, off, b->bytes));
    }
  }
  if (gaps) p->arena_bytes = sym_muli(k.c, common, top);
  int64_t most = 0; /* the bound, where sizes are comparable */
  if (gaps)
    for (uint32_t t = 0; t <= k.pos; t++) {
      int64_t live = 0;
      for (uint32_t i = 0; i < n; i++)
        if (p->mem[es[i].buf].first <= t && t <= p->mem[es[i].buf].last) live += es[i].size;
      if (live > most) most = live;
    }
  p->live_bound = gaps ? sym_muli(k.c, common, most) : 0;
}
