/* Where in the arena does every buffer lie? Buffers are placed largest first at the lowest offset where they overlap no
 * buffer that is live at the same time (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural
 * net inference", 2020). With symbolic sizes: those that are multiples of one form (a batch, a batch times a length)
 * are placed so by their factors, in an area for each form; or buffers that are not live at the same time share slots,
 * whichever is less at typical sizes. Late sizes count with their bounds. Where a late size has none (its bound is
 * EXPR_NO_BOUND or more), and nothing whose size hangs on it lives before it is known, the formulas hold the late size
 * itself: such buffers lie in a part of their own, in the order in which their sizes are known, so that no offset needs
 * a size before its time. */
#include "program/build.h"
#include "expr/expr.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = BUFFER_ALIGN, SMALL = 1 << 16 };
/* The steps in which a late size has its value. */
typedef struct span {
  uint32_t after; /* step that gives the late size its value */
  uint32_t last;  /* last step in which it has this value */
} span;
typedef struct mp {
  memplan *p;   /* the plan */
  emodule *m;   /* the module */
  ctx *c;       /* context */
  uint32_t pos; /* number of the current step */
  span *known;  /* per late size: when it has its value */
  sz as;        /* late sizes without a bound count as at most this; 0: they stay in the formulas */
  sz any;       /* a symbol to see by whether late sizes matter */
} mp;

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
      if (k->p->open[i] && !k->as) return false;
      sym_range(k->c, sym_of_atom(k->c, a), &least, &most);
      *lo = sym_int(k->c, least), *hi = k->p->open[i] ? k->as : k->m->lates.v[i].bound;
      return true;
    }
  return false;
}
sz program_last_trip(emodule *m, const xloop *x) {
  int64_t lo, hi;
  sym_range(m->c, sym_of_atom(m->c, x->counter), &lo, &hi);
  return x->trips ? sym_max(m->c, sym_min(m->c, sym_addi(m->c, x->trips, -1), sym_int(m->c, hi)), sym_int(m->c, 0))
                  : sym_int(m->c, hi);
}
static sz bounded(mp *k, sz e) {
  sz lo, hi;
  atom any;
  k->as = k->any;
  sym_between(k->c, e, late_between, k, &lo, &hi);
  k->as = 0;
  if (k->any && sym_is_atom(k->c, k->any, &any) && sym_uses(k->c, hi, any))
    sym_between(k->c, e, late_between, k, &lo, &hi);
  return hi;
}
/* elems * size, rounded up to ALIGN: term by term when all coefficients are positive, so that N*c stays a multiple
 * of N; but not where that is more than an eighth too much and `tight` is wanted. */
static sz round_bytes(mp *k, sz elems, const buffer *of, bool tight) {
  ctx *c = k->c;
  sz r = sym_int(c, 0);
  uint32_t n = sym_nterms(c, elems), size = et_bytes(of->type);
  bool simple = true, much = false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t q = sym_term(c, elems, i, &na, &as, &ex), b;
    if (q < 0) simple = false;
    if (!simple) break;
    if (!mul64(q, size, &b) || !add64(b, ALIGN - 1, &b))
      ctx_fail(c, E_MEMORY,
               "the memory of %s overflows: %s elements (a size that is found at run time counts with its bound: bound "
               "it by --dim SIZE=MOST; for the trips of a loop, --dim NODE.trips=MOST)",
               of->name && *of->name ? of->name : "one tensor", sym_str(c, elems));
    much |= na && b / ALIGN * ALIGN - q * size > q * size / 8;
    sz mono = sym_int(c, b / ALIGN * ALIGN);
    for (uint32_t j = 0; j < na; j++)
      for (uint8_t z = 0; z < ex[j]; z++) mono = sym_mul(c, mono, sym_of_atom(c, as[j]));
    r = sym_add(c, r, mono);
  }
  if (simple && !(much && tight)) return r;
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
/* t is computed: late sizes are read from it now, behind all launches of its item, and are known from here to the end
 * of the block (`last` is set there) */
static void computed(mp *k, tid t) {
  for (uint32_t j = 0; t && j < k->m->checks.n; j++) /* checks of t are computed now */
    if (k->m->checks.v[j].value == t) touch_tensor(k, k->m->checks.v[j].at), touch_tensor(k, t);
  for (uint32_t j = 0; t && j < k->m->lates.n; j++)
    if (k->m->lates.v[j].tensor == t) touch_tensor(k, t), k->known[j] = (span){k->pos, 0};
}
uint32_t memory_launches(const splan *p, uint32_t block, uint32_t item) {
  uint32_t lo = 0, hi = p->launches.n;
  while (lo < hi) {
    const uint32_t i = lo + (hi - lo) / 2;
    const launch *l = &p->launches.v[i];
    if (l->block < block || (l->block == block && l->item < item))
      lo = i + 1;
    else
      hi = i;
  }
  return lo;
}
bool memory_launched(const splan *p, uint32_t i, uint32_t block, uint32_t item) {
  return i < p->launches.n && p->launches.v[i].block == block && p->launches.v[i].item == item;
}
static void walk(mp *k, uint32_t block) {
  splan *p = k->p->plan;
  emodule *m = k->m;
  const uint32_t began = k->pos;
  for (uint32_t i = 0; block && i < m->loops.n; i++)
    for (uint32_t j = 0; m->loops.v[i].body == block && j < m->loops.v[i].ncarried; j++)
      computed(k, m->loops.v[i].inner[j]);
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    item it = m->blocks.v[block].items.v[i];
    for (uint32_t li = memory_launches(p, block, i); memory_launched(p, li, block, i); li++) {
      launch *l = &p->launches.v[li];
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
      for (uint32_t j = 0; j < x->n; j++) touch_tensor(k, x->results[j]), computed(k, x->results[j]);
    } else if (it.kind == IT_LOOP) {
      xloop *x = &m->loops.v[it.index];
      uint32_t from = ++k->pos;
      touch_tensor(k, x->trip_tensor), touch_tensor(k, x->cond0);
      for (uint32_t j = 0; j < x->ncarried; j++) touch_tensor(k, x->init[j]), touch_tensor(k, x->inner[j]);
      for (uint32_t j = 0; j < x->ncollected; j++) touch_tensor(k, x->collected[j]);
      walk(k, x->body);
      k->pos++;
      touch_tensor(k, x->cond);
      for (uint32_t j = 0; j < x->ncarried; j++)
        touch_tensor(k, x->next[j]), touch_tensor(k, x->inner[j]), touch_tensor(k, x->final[j]),
            computed(k, x->final[j]);
      for (uint32_t j = 0; j < x->ncollected; j++) touch_tensor(k, x->collected[j]);
      /* what was touched inside but lives outside is live all through the loop */
      for (uint32_t b = 1; b < p->buffers.n; b++) {
        membuf *q = &k->p->mem[b];
        if (q->used && q->last >= from && !EK_PLANTED("memory-loop") && !inside(m, p->buffers.v[b].block, x->body))
          touch(k, b, q->first < from ? q->first : from, k->pos);
      }
    } else
      computed(k, xs(m, it.index)->tensor);
  }
  for (uint32_t j = 0; j < m->lates.n; j++)
    if (k->known[j].after >= began && !k->known[j].last) k->known[j].last = block ? k->pos : UINT32_MAX;
}
/* ---- late sizes without a bound -------------------------------------------------------------- */
/* Are there late sizes without a bound in e, and when are all of them known? One that is not known in the steps
 * first..last gets its bound after all. */
static bool open_in(mp *k, sz e, uint32_t first, uint32_t last, bool *closed, span *when) {
  bool any = false;
  u32vec at = {0};
  sz def;
  sym_atoms(k->c, e, AT_SYMBOL, k->p->plan->l->a, &at);
  for (uint32_t i = 0; i < at.n; i++) {
    if (sym_definition(k->c, at.v[i], &def)) any |= open_in(k, def, first, last, closed, when);
    for (uint32_t j = 0; j < k->m->lates.n; j++) {
      if (k->m->lates.v[j].symbol != at.v[i] || !k->p->open[j]) continue;
      if (first <= k->known[j].after || last > k->known[j].last) k->p->open[j] = false, *closed = true;
      any = true;
      if (when->after < k->known[j].after) when->after = k->known[j].after;
      if (when->last > k->known[j].last) when->last = k->known[j].last;
    }
  }
  return any;
}
static bool unbounded(mp *k, const late *l) {
  int64_t least, most;
  if (xt(k->m, l->tensor)->kind == TK_CONST) return false;
  sym_range(k->c, l->bound, &least, &most);
  return least >= EXPR_NO_BOUND;
}
static void open_lates(mp *k) {
  splan *s = k->p->plan;
  bool any = false, closed = true;
  for (uint32_t j = 0; j < k->m->lates.n; j++) any |= k->p->open[j] = unbounded(k, &k->m->lates.v[j]);
  if (any) k->any = sym_fresh(k->c, "unbounded", EXPR_NO_BOUND, 2 * EXPR_NO_BOUND);
  while (any && closed) {
    closed = false;
    for (uint32_t i = 1; i < s->buffers.n; i++) {
      const membuf *b = &k->p->mem[i];
      span unused = {0};
      ctx_about(k->c, s->buffers.v[i].name);
      if (b->used) open_in(k, bounded(k, s->buffers.v[i].elems), b->first, b->last, &closed, &unused);
    }
  }
}
/* Scratch areas that hang on such sizes are buffers of their launch. */
static void late_scratch(mp *k) {
  splan *s = k->p->plan;
  bool closed = false;
  for (uint32_t i = 0; i < s->launches.n; i++) {
    launch *l = &s->launches.v[i];
    span unused = {0};
    if (!l->scratch || !open_in(k, bounded(k, l->scratch), UINT32_MAX, 0, &closed, &unused)) continue;
    atom t;
    sz threads = k->p->threads ? sym_of_atom(k->c, k->p->threads) : sym_fresh(k->c, "threads", 1, 1024);
    if (sym_is_atom(k->c, threads, &t)) k->p->threads = t;
    for (uint32_t a = 0; a < l->args.n; a++)
      if (l->args.v[a].is_buffer && !l->args.v[a].buffer) l->args.v[a].buffer = s->buffers.n;
    vec_push(s->l->a, s->buffers,
             ((buffer){.kind = BUF_ARENA,
                       .type = ET_U8,
                       .name = "scratch",
                       .elems = sym_mul(k->c, l->scratch, threads),
                       .block = l->block}));
    l->scratch = 0;
  }
}

typedef struct ent {
  uint32_t buf; /* number of the buffer */
  int64_t size; /* bytes, by typical sizes */
  span known;   /* in the late part: when its size is known */
} ent;
static int by_size(const void *a, const void *b) {
  const ent *x = a, *y = b;
  if (x->known.after != y->known.after) return x->known.after < y->known.after ? -1 : 1;
  if (x->known.last != y->known.last) return x->known.last > y->known.last ? -1 : 1;
  if (x->size != y->size) return x->size < y->size ? 1 : -1;
  return x->buf < y->buf ? -1 : 1;
}
static int by_factor(const void *a, const void *b) {
  const ent *x = a, *y = b;
  if (x->size != y->size) return x->size < y->size ? 1 : -1;
  return x->buf < y->buf ? -1 : 1;
}
static bool overlap(const membuf *a, const membuf *b) {
  return a->first + EK_PLANTED("memory") <= b->last && b->first + EK_PLANTED("memory") <= a->last;
}

/* size = factor * form, the factor as large as can be; a number is a multiple of 1 */
static int64_t factor_of(mp *k, sz size, sz *form) {
  int64_t g = 0;
  for (uint32_t t = 0; t < sym_nterms(k->c, size); t++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t q = sym_term(k->c, size, t, &na, &as, &ex);
    q = q < 0 ? -q : q;
    while (q) {
      int64_t r = g % q;
      g = q, q = r;
    }
  }
  *form = sym_int(k->c, 1);
  if (g && !sym_exact_div(k->c, size, sym_int(k->c, g), form)) ctx_bug(k->c, "program: a factor of a size");
  return g;
}
/* Places entries largest first, each at the lowest place where it overlaps none that is live at its time; then,
 * while that is more than must be live at one time, again with the one that stuck out placed before the others.
 * es is in the order of sizes; at: where each lies, in the order of es. */
static int64_t place_factors(mp *k, const ent *es, uint32_t n, int64_t *at, int64_t *live) {
  enum { ROUNDS = 24, MAX_RETRIED = 400 };
  arena *a = k->p->plan->l->a;
  const membuf *mem = k->p->mem;
  uint32_t *order = NEWN(a, uint32_t, n + 1);
  int64_t *now = NEWN(a, int64_t, n + 1), best = -1;
  *live = 0;
  for (uint32_t t = 0; t <= k->pos; t++) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
      if (mem[es[i].buf].first <= t && t <= mem[es[i].buf].last) sum += es[i].size;
    *live = max64(*live, sum);
  }
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t round = 0; round < (n > MAX_RETRIED ? 1 : ROUNDS) && (best < 0 || best > *live); round++) {
    int64_t top = 0;
    uint32_t out = 0;
    for (uint32_t q = 0; q < n; q++) {
      uint32_t i = order[q];
      int64_t pos = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t z = 0; z < q; z++) {
          uint32_t j = order[z];
          if (overlap(&mem[es[i].buf], &mem[es[j].buf]) && pos < now[j] + es[j].size && now[j] < pos + es[i].size)
            pos = now[j] + es[j].size, moved = true;
        }
      }
      now[i] = pos;
      if (pos + es[i].size > top) top = pos + es[i].size, out = q;
    }
    if (best < 0 || top < best) best = top, memcpy(at, now, n * sizeof *at);
    uint32_t first = order[out];
    memmove(order + 1, order, out * sizeof *order);
    order[0] = first;
  }
  return best < 0 ? 0 : best;
}
/* Sizes that are multiples of one form (a batch, a batch times a length) share an area; the areas lie one above the
 * other. es: by size; *forms: how many areas, *live: what must be live at one time, where that is one. */
static sz place_forms(mp *k, const ent *es, uint32_t n, sz *offset, uint32_t *forms, sz *live) {
  arena *a = k->p->plan->l->a;
  sz top = sym_int(k->c, 0), *form = NEWN(a, sz, n + 1);
  int64_t *factor = NEWN(a, int64_t, n + 1), *at = NEWN(a, int64_t, n + 1), most;
  ent *in = NEWN(a, ent, n + 1);
  bool *done = NEWN(a, bool, n + 1);
  for (uint32_t i = 0; i < n; i++) factor[i] = factor_of(k, k->p->mem[es[i].buf].bytes, &form[i]);
  *forms = 0, *live = top;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t m = 0;
    if (done[i]) continue;
    for (uint32_t j = i; j < n; j++)
      if (form[j] == form[i] || !factor[j])
        in[m] = es[j], in[m].size = factor[j], in[m++].known.last = j, done[j] = true;
    qsort(in, m, sizeof *in, by_factor);
    int64_t size = place_factors(k, in, m, at, &most);
    for (uint32_t j = 0; j < m; j++) offset[in[j].known.last] = sym_add(k->c, top, sym_muli(k->c, form[i], at[j]));
    top = sym_add(k->c, top, sym_muli(k->c, form[i], size));
    *live = sym_muli(k->c, form[i], most), *forms += 1;
  }
  return top;
}

/* A buffer of weights that has its place, with the same contents (the variants of a model pack many weights alike); 0:
 * none. */
static uint32_t equal_weights(const mp *k, uint32_t i, const bool *placed) {
  const splan *s = k->p->plan;
  const buffer *b = &s->buffers.v[i];
  for (uint32_t j = 1; j < s->buffers.n; j++) {
    const buffer *o = &s->buffers.v[j];
    if (!placed[j] || o->type != b->type || o->from.source.n != b->from.source.n || !sym_eq(k->c, o->elems, b->elems))
      continue;
    if (s->unread && b->from.source.n > SMALL && o->from.source.p != b->from.source.p) continue;
    if (weights_equal(k->c, &o->from, &b->from)) return j;
  }
  return 0;
}
/* A value that states begin with, and no launch reads, need not be in memory where a mapped file has it: packed at
 * most, and long enough to be worth it. */
static bool read_at_begin(const mp *k, uint32_t i) {
  const contents *f = &k->p->plan->buffers.v[i].from;
  return !k->p->mem[i].last && f->source.n > SMALL && !f->transform && !f->narrow &&
         !(f->pack && (f->pack->fixed_point || f->pack->bits)) && file_holds(k->c, f->source);
}
static void place_weights(mp *k) {
  const splan *s = k->p->plan;
  bool *placed = NEWN(s->l->a, bool, s->buffers.n);
  for (int first = 0; first < 2; first++)
    for (uint32_t i = 1; i < s->buffers.n; i++) {
      membuf *b = &k->p->mem[i];
      int64_t bytes;
      if (s->buffers.v[i].kind != BUF_WEIGHTS || !b->used || read_at_begin(k, i) != first) continue;
      if (!sym_is_int(k->c, b->bytes, &bytes)) ctx_bug(k->c, "program: weights of symbolic size");
      const uint32_t twin = equal_weights(k, i, placed);
      if (EK_PLANTED("memory-weights") && bytes > 64) bytes -= 64;
      b->weight_offset = twin ? k->p->mem[twin].weight_offset : k->p->weight_bytes;
      placed[i] = true;
      if (!twin) k->p->weight_bytes += (uint64_t)bytes, k->p->first_bytes += first ? (uint64_t)bytes : 0;
    }
}
/* Offsets when sizes are not comparable: slots, one above the other. A buffer goes into a slot of which nothing is
 * live at its time: one of its size, else the one that is least too large by typical values, and else a new one.
 * es is in the order of sizes; what shares a slot is known at the same time. In the late part slots lie above
 * those whose sizes are known by then, and still are. */
typedef struct slot {
  sz bytes;        /* bytes of the slot */
  sz offset;       /* offset in the arena */
  int64_t typical; /* bytes, by typical sizes */
  span known;      /* when its size is known */
  uint32_t last;   /* its entry placed last */
} slot;
static bool together(span a, span b) { return a.after == b.after && a.last == b.last; }
static sz place_open(mp *k, const ent *es, uint32_t n, bool late) {
  arena *a = k->p->plan->l->a;
  VEC(slot) slots = {0};
  /* before: 1 + the entry placed in the same slot before; in: which */
  uint32_t *before = NEWN(a, uint32_t, n + 1), *in = NEWN(a, uint32_t, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    const membuf *b = &k->p->mem[es[i].buf];
    uint32_t best = slots.n;
    for (uint32_t j = 0; j < slots.n; j++) {
      const slot *o = &slots.v[j];
      bool taken = !together(o->known, es[i].known);
      for (uint32_t at = EK_PLANTED("memory-open") ? before[o->last - 1] : o->last; at && !taken; at = before[at - 1])
        taken = overlap(b, &k->p->mem[es[at - 1].buf]);
      if (taken || (best < slots.n &&
                    (slots.v[best].bytes == b->bytes || (o->bytes != b->bytes && o->typical >= slots.v[best].typical))))
        continue;
      best = j;
    }
    if (best == slots.n) vec_push(a, slots, ((slot){.bytes = b->bytes, .typical = es[i].size, .known = es[i].known}));
    slot *o = &slots.v[best];
    if (o->bytes != b->bytes) o->bytes = sym_max(k->c, o->bytes, b->bytes);
    before[i] = o->last, o->last = i + 1, in[i] = best;
  }
  sz top = sym_int(k->c, 0);
  for (uint32_t j = 0; j < slots.n; j++) {
    if (j && !together(slots.v[j].known, slots.v[j - 1].known)) {
      top = sym_int(k->c, 0);
      for (uint32_t i = 0; i < j; i++)
        if (slots.v[i].known.last > slots.v[j].known.after) top = sym_add(k->c, top, slots.v[i].bytes);
    }
    slots.v[j].offset = top, top = sym_add(k->c, top, slots.v[j].bytes);
    if (late && (j + 1 == slots.n || !together(slots.v[j + 1].known, slots.v[j].known))) vec_push(a, k->p->rooms, top);
  }
  for (uint32_t i = 0; i < n; i++) k->p->mem[es[i].buf].offset = slots.v[in[i]].offset;
  return top;
}
/* What a state begins with is among the weights. */
static void use_states(mp *k) {
  for (uint32_t i = 0; i < k->m->states.n; i++)
    if (k->p->plan->states[i].first) touch(k, k->p->plan->states[i].first, k->pos, k->pos);
}
void memory_plan(memplan *p) {
  splan *s = p->plan;
  arena *a = s->l->a;
  mp k = {.p = p, .m = s->m, .c = s->m->c, .known = NEWN(a, span, s->m->lates.n + 1)};
  p->mem = NEWN(a, membuf, s->buffers.n);
  p->open = NEWN(a, bool, s->m->lates.n + 1);
  use_states(&k);
  walk(&k, 0);
  open_lates(&k);
  uint32_t n = 0, nlate = 0, had = s->buffers.n;
  late_scratch(&k);
  if (s->buffers.n > had) { /* plans again, with the new buffers */
    p->mem = NEWN(a, membuf, s->buffers.n);
    memset(k.known, 0, s->m->lates.n * sizeof *k.known);
    k.pos = 0;
    use_states(&k);
    walk(&k, 0);
  }
  ent *es = NEWN(a, ent, s->buffers.n), *late = NEWN(a, ent, s->buffers.n);
  p->scratch_bytes = sym_int(k.c, 0);
  for (uint32_t i = 0; i < s->launches.n; i++)
    p->scratch_bytes = (EK_PLANTED("memory-scratch") ? sym_min : sym_max)(
        k.c, p->scratch_bytes, bounded(&k, s->launches.v[i].scratch ? s->launches.v[i].scratch : sym_int(k.c, 0)));
  for (uint32_t i = 1; i < s->buffers.n; i++) {
    buffer *b = &s->buffers.v[i];
    bool closed = false;
    ctx_about(k.c, b->name);
    sz elems = bounded(&k, b->elems);
    p->mem[i].bytes = b->kind == BUF_INPUT || b->kind == BUF_OUTPUT ? 0 : round_bytes(&k, elems, b, false);
    if (b->kind != BUF_ARENA || !p->mem[i].used) continue;
    span when = {0, UINT32_MAX};
    if ((p->mem[i].late = open_in(&k, elems, p->mem[i].first, p->mem[i].last, &closed, &when)))
      late[nlate++] = (ent){i, expr_typical(s->m, p->mem[i].bytes), when};
    else
      es[n++] = (ent){i, 0, {0}};
    if (s->no_sharing && !p->mem[i].late) p->mem[i].first = 0, p->mem[i].last = UINT32_MAX - 1;
  }
  place_weights(&k);
  qsort(late, nlate, sizeof *late, by_size);
  ctx_about(k.c, "the plan of the working memory");
  place_open(&k, late, nlate, true);
  sz *offset = NEWN(a, sz, n + 1);
  p->arena_bytes = sym_int(k.c, 0);
  /* rounded so that a common form is kept, if there is one and it costs little */
  for (int tight = 0; tight < 2; tight++) {
    uint32_t forms;
    sz live;
    int64_t wanted = 0, taken = 0;
    for (uint32_t i = 0; i < n; i++) {
      const buffer *b = &s->buffers.v[es[i].buf];
      sz elems = bounded(&k, b->elems);
      p->mem[es[i].buf].bytes = round_bytes(&k, elems, b, tight);
      es[i].size = expr_typical(s->m, p->mem[es[i].buf].bytes);
      int64_t least = expr_typical(s->m, sym_muli(k.c, elems, et_bytes(b->type)));
      if (es[i].size > 64 * ALIGN && !add64(wanted, least, &wanted)) wanted = INT64_MAX;
      if (es[i].size > 64 * ALIGN && !add64(taken, es[i].size, &taken)) taken = INT64_MAX;
    }
    qsort(es, n, sizeof *es, by_size);
    sz bytes = place_forms(&k, es, n, offset, &forms, &live);
    if (!tight && (forms > 1 || taken / 9 > wanted / 8)) continue;
    p->arena_bytes = bytes;
    for (uint32_t i = 0; i < n; i++) p->mem[es[i].buf].offset = offset[i];
    if (forms < 2)
      p->live_bound = live;
    else {
      sz slots = place_open(&k, es, n, false);
      if (expr_typical(s->m, slots) < expr_typical(s->m, bytes))
        p->arena_bytes = slots;
      else
        for (uint32_t i = 0; i < n; i++) p->mem[es[i].buf].offset = offset[i];
    }
    break;
  }
  ctx_about(k.c, NULL);
}
