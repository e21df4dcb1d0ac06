/* What do a kernel's instructions take, and which memory do they touch? One walk over the loop program with numbers. */
#include "cost/loop_walk.h"
#include <math.h>
#include <string.h>

/* trips of a loop whose bounds come from data */
enum { TRIPS_FROM_DATA = 16 };

/* What an integer or a pointer is in the iteration that is looked at. */
typedef struct number {
  bool known;               /* it is one; else it comes from data */
  lv base;                  /* a pointer: what it points into */
  int64_t v;                /* the value; a pointer: bytes from its base */
  int64_t step[LOOPS_DEEP]; /* change from one iteration of a loop to the next, by depth - 1 */
  int64_t lane;             /* change from one lane to the next */
} number;
/* Amounts of work that a core does side by side. */
typedef struct work {
  double arithmetic; /* operations on registers */
  double loads;      /* registers loaded from the first cache */
  double stores;     /* registers stored to it */
  double issued;     /* instructions */
} work;
/* What a piece of the program takes. */
typedef struct taken {
  double cycles; /* cycles */
  double issued; /* instructions */
} taken;
typedef struct walker {
  const lfunc *f;
  const int64_t *args;
  int64_t chunks;
  const target *t;
  arena *a;
  accesses *found;
  number *numbers;    /* per value */
  double *latest;     /* per value: cycles after which it is there; a register: its last value */
  uint32_t *born;     /* per register: depth of the loop that makes it anew in each iteration */
  u32vec **sets;      /* per loop: the registers that it sets, once they were asked for */
  walked_loop *inner; /* innermost open loop */
  bool recorded;      /* accesses of this iteration are looked at; else they are like those of another one */
} walker;
static taken block_cost(walker *w, uint32_t block);

/* ---- numbers --------------------------------------------------------------------------------- */
static number unknown(void) { return (number){0}; }
static number plain(int64_t v) { return (number){.known = true, .v = v}; }
static number scaled(number x, int64_t by) {
  x.v *= by, x.lane *= by;
  for (uint32_t i = 0; i < LOOPS_DEEP; i++) x.step[i] *= by;
  return x;
}
static bool fixed(const number *x) {
  for (uint32_t i = 0; i < LOOPS_DEEP; i++)
    if (x->step[i]) return false;
  return !x->lane;
}
static number sum(number x, const number *y, int64_t by) {
  x.v += by * y->v, x.lane += by * y->lane;
  for (uint32_t i = 0; i < LOOPS_DEEP; i++) x.step[i] += by * y->step[i];
  return x;
}
/* A quotient's steps are those of the dividend divided, where they go even: a step that only sometimes changes the
 * quotient is taken to be none. */
static number quotient(number x, int64_t by) {
  x.v = floordiv64(x.v, by);
  for (uint32_t i = 0; i < LOOPS_DEEP; i++) x.step[i] = x.step[i] % by ? 0 : x.step[i] / by;
  x.lane = x.lane % by ? 0 : x.lane / by;
  return x;
}
static number remainder_of(number x, int64_t by) {
  x.v = floormod64(x.v, by);
  for (uint32_t i = 0; i < LOOPS_DEEP; i++)
    if (x.step[i] % by == 0) x.step[i] = 0;
  return x;
}
static number computed(walker *w, const linst *i) {
  static const number none;
  const number *x = i->a ? &w->numbers[i->a] : &none, *y = i->b ? &w->numbers[i->b] : &none,
               *z = i->c ? &w->numbers[i->c] : &none;
  int64_t v;
  if (!x->known || (i->b && !y->known && i->op != OP_SEL)) return unknown();
  switch ((sop)i->op) {
  case OP_ADD:
    return sum(*x, y, 1);
  case OP_SUB:
    return sum(*x, y, -1);
  case OP_NEG:
    return sum(plain(0), x, -1);
  case OP_MUL:
    return fixed(y) ? scaled(*x, y->v) : fixed(x) ? scaled(*y, x->v) : plain(x->v * y->v);
  case OP_IDIV:
    return y->v > 0 ? quotient(*x, y->v) : unknown();
  case OP_MOD:
    return y->v > 0 ? remainder_of(*x, y->v) : unknown();
  case OP_SHL:
    return scaled(*x, INT64_C(1) << (y->v & 31));
  case OP_SHR:
    return quotient(*x, INT64_C(1) << (y->v & 31));
  case OP_MIN:
    return x->v < y->v ? *x : *y;
  case OP_MAX:
    return x->v > y->v ? *x : *y;
  case OP_SEL:
    return x->v ? *y : *z;
  case OP_CAST:
    return *x;
  default: /* conditions, and bits: they do not go on by steps */
    return loop_eval_int((sop)i->op, (etype)li(w->f, i->a)->type.elem, x->v, y->v, &v) ? plain(v) : unknown();
  }
}

/* ---- instructions ---------------------------------------------------------------------------- */
static double parts_of(const walker *w, ltype t) { /* registers that a value takes */
  const double bits = (double)et_bits((etype)t.elem) * t.lanes;
  return t.lanes > 1 && w->t->vector_bits && bits > w->t->vector_bits ? bits / w->t->vector_bits : 1;
}
static bool is_index(ltype t) { return t.lanes == 1 && (t.elem == ET_I64 || t.elem == ET_BOOL); }
static double ready(const walker *w, lv v) { return v ? w->latest[v] : 0; }
/* An instruction on values of so many parts, and its latency. */
static void operate(walker *w, work *k, lv v, const linst *i, double amount, double parts) {
  double from = fmax(fmax(ready(w, i->a), ready(w, i->b)), ready(w, i->c));
  k->arithmetic += amount * parts, k->issued += amount * parts;
  w->latest[v] = from + amount * w->t->fma_latency;
}
/* An instruction that the target declares, with the costs that it declares. */
static void declared(walker *w, work *k, lv v, const linst *i) {
  const instruction *by = target_instruction(w->t, i->name);
  double from = 0;
  for (uint32_t j = 0; j < i->nargs; j++) from = fmax(from, ready(w, i->args[j]));
  k->arithmetic += by ? w->t->fma_per_cycle / by->per_cycle : 1, k->issued++;
  w->latest[v] = from + (by ? by->latency : w->t->fma_latency); /* NULL: a text for another target */
}
static void record(walker *w, const linst *i, int64_t lane_step, int64_t lanes) {
  const number *p = &w->numbers[i->a], *at = &w->numbers[i->b];
  const int64_t size = et_bytes((etype)i->type.elem);
  if (!w->recorded || !p->known || !at->known) return;
  const bool beside = lane_step == 1;
  access x = {.in = w->inner,
              .base = p->base,
              .at = p->v + at->v * size,
              .bytes = beside ? lanes * size : size,
              .lanes = beside || !lane_step ? 1 : lanes,
              .lane_step = beside ? 0 : (lane_step < 0 ? -lane_step : lane_step) * size,
              .write = i->kind == L_STORE || i->kind == L_SCATTER};
  for (uint32_t j = 0; j < LOOPS_DEEP; j++) x.step[j] = p->step[j] + at->step[j] * size;
  vec_push(w->a, w->found->all, x);
}
/* Loads of the first cache that an access of neighbouring lanes is: two where it lies in two lines. */
static double lines_touched(const walker *w, const linst *i, int64_t lanes) {
  const number *p = &w->numbers[i->a], *at = &w->numbers[i->b];
  const int64_t size = et_bytes((etype)i->type.elem), bytes = lanes * size, line = (int64_t)w->t->line;
  if (!line || bytes <= size || !p->known || !at->known) return 1;
  bool aligned = (p->v + at->v * size) % bytes == 0;
  for (uint32_t j = 0; j < LOOPS_DEEP; j++) aligned &= (p->step[j] + at->step[j] * size) % bytes == 0;
  return aligned ? 1 : 1 + (double)(bytes < line ? bytes : line) / (double)line;
}
static void touch(walker *w, work *k, const linst *i) {
  const number *stride = &w->numbers[i->stride], *count = &w->numbers[i->count];
  const bool gather = i->kind == L_GATHER || i->kind == L_SCATTER, write = i->kind == L_STORE || i->kind == L_SCATTER;
  const int64_t all = i->type.lanes, lanes = i->count && count->known ? max64(0, min64(count->v, all)) : all;
  const int64_t step = gather ? w->numbers[i->b].lane : i->stride ? stride->v : 1;
  if (!lanes) return;
  const double times = gather || i->stride ? (double)lanes : parts_of(w, i->type) * lines_touched(w, i, lanes);
  *(write ? &k->stores : &k->loads) += times;
  k->issued += times;
  record(w, i, step, lanes);
}
static void vector_op(walker *w, work *k, lv v, const linst *i) {
  const bool compares = i->type.elem == ET_BOOL && i->a;
  const ltype t = compares ? li(w->f, i->a)->type : i->type;
  if (!is_index(t)) {
    operate(w, k, v, i, op_cost((sop)i->op), parts_of(w, t));
  } else if (i->op == OP_IDIV || i->op == OP_MOD) {
    if (!fixed(&w->numbers[v]) || !w->numbers[v].known) k->issued += op_cost((sop)i->op);
  }
}
static int log2_of(int64_t n) {
  int r = 0;
  while (n > 1) n = (n + 1) / 2, r++;
  return r;
}
static number offset_of(walker *w, const linst *i) {
  number r = w->numbers[i->a];
  const number *by = &w->numbers[i->b];
  if (!r.known || !by->known) return unknown();
  const lv base = r.base;
  r = sum(r, by, et_bytes((etype)i->type.elem));
  r.base = base;
  return r;
}

/* ---- loops ----------------------------------------------------------------------------------- */
static double cycles_of(const walker *w, const work *k) {
  double r = k->arithmetic / w->t->fma_per_cycle;
  if (w->t->fma_bits && w->t->fma_bits < w->t->vector_bits) r *= (double)w->t->vector_bits / w->t->fma_bits;
  r = fmax(r, k->loads / w->t->loads_per_cycle);
  r = fmax(r, k->stores / w->t->stores_per_cycle);
  return fmax(r, k->issued / w->t->issue_width);
}
static void find_sets(const walker *w, uint32_t block, u32vec *regs) {
  const lblock *b = &w->f->blocks.v[block];
  for (uint32_t j = 0; j < b->insts.n; j++) {
    const linst *i = li(w->f, b->insts.v[j]);
    if (i->kind == L_SET) vec_once(w->a, regs, i->a);
    if (i->body) find_sets(w, i->body, regs);
    if (i->other) find_sets(w, i->other, regs);
  }
}
static const u32vec *sets_of(walker *w, lv loop) {
  if (!w->sets[loop]) {
    w->sets[loop] = NEW(w->a, u32vec);
    find_sets(w, li(w->f, loop)->body, w->sets[loop]);
  }
  return w->sets[loop];
}
static taken iteration(walker *w, lv loop, int64_t at, int64_t step, bool recorded) {
  const bool was = w->recorded;
  number *n = &w->numbers[loop];
  *n = plain(at);
  if (w->inner->depth <= LOOPS_DEEP) n->step[w->inner->depth - 1] = step;
  w->recorded = was && recorded;
  taken r = block_cost(w, li(w->f, loop)->body);
  w->recorded = was;
  r.cycles += w->t->step_overhead, r.issued += 1;
  return r;
}
/* All iterations of the loop that was just opened: one stands for all but the last one. A register whose value goes
 * from iteration to iteration is there after as many times the latency. */
static taken iterations(walker *w, lv loop, int64_t lo, int64_t step) {
  const u32vec *sets = sets_of(w, loop);
  const int64_t trips = w->inner->trips;
  double *before = NEWN(w->a, double, sets->n + 1), longest = 0;
  for (uint32_t k = 0; k < sets->n; k++) before[k] = w->latest[sets->v[k]];
  taken r = iteration(w, loop, lo + (trips - 1) / 2 * step, step, true);
  if (trips > 1) {
    for (uint32_t k = 0; k < sets->n; k++)
      w->latest[sets->v[k]] = before[k] + (w->latest[sets->v[k]] - before[k]) * (double)(trips - 1);
    const taken last = iteration(w, loop, lo + (trips - 1) * step, step, false);
    r.cycles = r.cycles * (double)(trips - 1) + last.cycles;
    r.issued = r.issued * (double)(trips - 1) + last.issued;
  }
  for (uint32_t k = 0; k < sets->n; k++)
    if (w->born[sets->v[k]] == w->inner->outer->depth) longest = fmax(longest, w->latest[sets->v[k]] - before[k]);
  /* the processor begins with what follows the loop before its chains end, as far as it looks ahead */
  r.cycles = fmax(r.cycles, longest / (1 + w->t->reorder_window / fmax(r.issued, 1)));
  return r;
}
static taken loop_cost_of(walker *w, lv loop) {
  const linst *i = li(w->f, loop);
  const number *from = &w->numbers[i->a], *to = &w->numbers[i->b], *by = &w->numbers[i->c];
  const bool counted = from->known && to->known && by->known && by->v > 0 && !i->mask;
  const int64_t lo = from->known ? from->v : 0, step = by->known && by->v > 0 ? by->v : 1,
                trips = counted ? (to->v - lo + step - 1) / step : TRIPS_FROM_DATA;
  if (trips <= 0) return (taken){0};
  walked_loop *l = NEW(w->a, walked_loop);
  *l = (walked_loop){.outer = w->inner, .depth = w->inner->depth + 1, .trips = trips};
  if (w->recorded) vec_push(w->a, w->found->loops, l);
  w->inner = l;
  const taken r = iterations(w, loop, lo, step);
  w->inner = l->outer;
  return r;
}
static taken if_cost(walker *w, const linst *i) {
  const number *c = &w->numbers[i->a];
  if (c->known) return c->v ? block_cost(w, i->body) : i->other ? block_cost(w, i->other) : (taken){0};
  const taken yes = block_cost(w, i->body), no = i->other ? block_cost(w, i->other) : (taken){0};
  return yes.cycles > no.cycles ? yes : no;
}
/* What an instruction's value is, and its share of the block's work; returns what is taken beside that. */
static taken walk_instruction(walker *w, work *k, lv v) {
  const linst *i = li(w->f, v);
  number *n = &w->numbers[v];
  w->latest[v] = 0;
  switch ((lkind)i->kind) {
  case L_CONST:
    *n = et_kind((etype)i->type.elem) == K_FLOAT ? unknown() : plain(i->k.i);
    break;
  case L_HI:
    *n = plain(w->chunks);
    break;
  case L_LO:
  case L_WORKER:
    *n = plain(0);
    break;
  case L_PARAM:
    break; /* set before the walk */
  case L_OP:
    *n = et_kind((etype)i->type.elem) == K_FLOAT ? unknown() : computed(w, i);
    vector_op(w, k, v, i);
    break;
  case L_SPLAT:
    *n = w->numbers[i->a], w->latest[v] = ready(w, i->a);
    break;
  case L_IOTA:
    *n = plain(0), n->lane = 1;
    break;
  case L_LOAD:
  case L_GATHER:
    touch(w, k, i);
    break;
  case L_STORE:
  case L_SCATTER:
    touch(w, k, i);
    break;
  case L_PREFETCH:
    k->issued++, k->loads++;
    w->inner->prefetches = true;
    break;
  case L_HREDUCE:
    operate(w, k, v, i, 2.0 * log2_of(li(w->f, i->a)->type.lanes), 1);
    break;
  case L_EXTRACT:
  case L_SHUFFLE:
  case L_LOOKUP:
    operate(w, k, v, i, 1, parts_of(w, i->type));
    break;
  case L_INTRIN:
    declared(w, k, v, i);
    break;
  case L_OFFSET:
    *n = offset_of(w, i);
    break;
  case L_ALLOC:
  case L_SCRATCH:
    *n = plain(0), n->base = v;
    break;
  case L_REG:
    w->born[v] = w->inner->depth;
    break;
  case L_GET:
    *n = w->numbers[i->a], w->latest[v] = w->latest[i->a];
    break;
  case L_SET:
    w->numbers[i->a] = unknown(), w->latest[i->a] = ready(w, i->b);
    break;
  case L_FOR:
    return loop_cost_of(w, v);
  case L_IF:
    return if_cost(w, i);
  case L_CALL:
  case L_PARALLEL:
  case L_FAIL:
  case L_COMMENT:
    break;
  }
  return (taken){0};
}
static taken block_cost(walker *w, uint32_t block) {
  const lblock *b = &w->f->blocks.v[block];
  work k = {0};
  taken r = {0};
  for (uint32_t j = 0; j < b->insts.n; j++) {
    const taken beside = walk_instruction(w, &k, b->insts.v[j]);
    r.cycles += beside.cycles, r.issued += beside.issued;
  }
  r.cycles += cycles_of(w, &k), r.issued += k.issued;
  return r;
}
double walk_loops(const lfunc *f, const int64_t *args, int64_t chunks, const target *t, arena *a, accesses *found) {
  walked_loop *whole = NEW(a, walked_loop);
  whole->trips = 1;
  vec_push(a, found->loops, whole);
  const uint32_t n = f->insts.n;
  walker w = {f,
              args,
              chunks,
              t,
              a,
              found,
              NEWN(a, number, n),
              NEWN(a, double, n),
              NEWN(a, uint32_t, n),
              NEWN(a, u32vec *, n),
              whole,
              true};
  for (uint32_t i = 0; i < f->params.n; i++) {
    const lparam *p = &f->params.v[i];
    if (!p->value) continue;
    w.numbers[p->value] = plain(p->type.ptr ? 0 : args[i]);
    if (p->type.ptr) w.numbers[p->value].base = p->value;
  }
  return block_cost(&w, 1).cycles;
}
