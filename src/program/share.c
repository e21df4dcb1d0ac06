/* share: which kernels are the same but for where in their buffers they begin?
 *
 * A network that is written out step by step has a kernel for each step, and often these differ in one number only:
 * where in a tensor of all steps theirs begins. That number stands in the address of every access to the tensor, as
 * the constant added last. Two kernels with equal code but for such constants, which differ by the same amount in all
 * accesses to a parameter, are one: it is launched with the parameter's pointer moved by that amount. No instruction
 * is added by it, and every address stays what it was.
 *
 * A kernel's skeleton is its instructions as a list of words, without those constants; these are listed apart, one
 * for each access to a parameter in the order of the code (0: it has none).
 */
#include "program/build.h"
#include <stdlib.h>
#include <string.h>

typedef struct move {
  uint32_t param; /* number of the parameter */
  int64_t by;     /* elements that its pointer moves */
} move;
typedef struct skeleton {
  lfunc *f;        /* the kernel */
  VEC(move) moves; /* how far its pointers are moved */
  uint64_t hash;   /* hash of the words */
  uint64_t sum;    /* sum of the moves */
  uint32_t index;  /* number of the kernel */
  lfunc *same;     /* kernel that does the same with pointers moved; NULL: this one is kept */
  int64_t *by;     /* per parameter of `same`: elements that its pointer moves */
} skeleton;
typedef VEC(uint64_t) wordvec;
typedef struct reader {
  const lfunc *f;   /* the kernel */
  wordvec *words;   /* get the code */
  arena *a;         /* memory */
  skeleton *s;      /* the kernel's skeleton */
  uint32_t *number; /* per value: its number in the order of the code */
  uint32_t numbers; /* numbers given so far */
  bool *address;    /* a sum whose constant is part of addresses, and of nothing else */
} reader;

static const linst *at(const reader *r, lv v) { return &r->f->insts.v[v]; }
static bool in_place(const linst *i) { return i->kind == L_CONST && i->type.elem == ET_I64 && i->type.lanes == 1; }
static bool adds(const reader *r, const linst *i) {
  return i->kind == L_OP && i->op == OP_ADD && i->type.elem == ET_I64 && i->type.lanes == 1 && in_place(at(r, i->b));
}
/* An access at an index of a parameter, counted in the parameter's elements? */
static bool accesses(const reader *r, const linst *i) {
  if (i->kind != L_LOAD && i->kind != L_STORE && i->kind != L_PREFETCH && i->kind != L_OFFSET) return false;
  const linst *p = at(r, i->a);
  return p->kind == L_PARAM && (i->kind == L_PREFETCH || i->type.elem == p->type.elem);
}
/* Operands but for the index of such an access: b, where c follows it. */
static void each_operand(const reader *r, const linst *i, void (*fn)(const reader *r, lv v)) {
  const lv all[6] = {i->a, accesses(r, i) ? 0 : i->b, i->c, i->mask, i->count, i->stride};
  for (int k = 0; k < 6; k++)
    if (all[k]) fn(r, all[k]);
  for (uint32_t k = 0; k < i->nargs && li_lists_values(i); k++) fn(r, i->args[k]);
}
static void no_address(const reader *r, lv v) { r->address[v] = false; }
static void find_addresses(reader *r) {
  for (uint32_t v = 1; v < r->f->insts.n; v++) r->address[v] = adds(r, at(r, v));
  for (uint32_t v = 1; v < r->f->insts.n; v++) each_operand(r, at(r, v), no_address);
}
static void word(const reader *r, uint64_t w) { vec_push(r->a, *r->words, w); }
static void operand(const reader *r, lv v) {
  const linst *i = at(r, v);
  word(r, in_place(i) ? 1 : (uint64_t)r->number[v] << 1);
  if (in_place(i)) word(r, (uint64_t)i->k.i);
}
static void text_word(const reader *r, const char *s) { word(r, s ? hash_bytes(s, strlen(s), 0) : 0); }
static void index_of(const reader *r, const linst *i) {
  const linst *p = at(r, i->a), *x = at(r, i->b);
  move m = {.param = (uint32_t)p->k.i};
  if (in_place(x)) {
    m.by = x->k.i;
    word(r, 1);
  } else {
    if (r->address[i->b]) m.by = at(r, x->b)->k.i;
    word(r, (uint64_t)r->number[i->b] << 1);
  }
  vec_push(r->a, r->s->moves, m);
}
static void read_block(reader *r, uint32_t block);
static void read_inst(reader *r, lv v) {
  const linst *i = at(r, v);
  if (in_place(i) || i->kind == L_COMMENT) return;
  r->number[v] = ++r->numbers;
  word(r, (uint64_t)i->kind << 56 | (uint64_t)i->op << 48 | (uint64_t)i->type.elem << 40 | (uint64_t)i->type.ptr << 32 |
              (uint64_t)i->type.lanes << 16 | i->align);
  if (adds(r, i) && r->address[v])
    operand(r, i->a);
  else
    each_operand(r, i, operand);
  if (accesses(r, i)) index_of(r, i);
  word(r, i->kind == L_CONST && et_kind((etype)i->type.elem) == K_FLOAT ? hash_bytes(&i->k, sizeof i->k, 0)
                                                                        : (uint64_t)i->k.i);
  for (uint32_t k = 0; k < i->nargs && !li_lists_values(i); k++) word(r, i->args[k]);
  word(r, (uint64_t)i->nargs << 32 | (uint32_t)(i->mask > 0) << 2 | (uint32_t)(i->count > 0) << 1 | (i->stride > 0));
  if (i->kind == L_INTRIN || i->kind == L_FAIL || i->kind == L_CALL || i->kind == L_PARALLEL) text_word(r, i->name);
  if (i->body) read_block(r, i->body);
  if (i->other) read_block(r, i->other);
}
static void read_block(reader *r, uint32_t block) {
  const lblock *k = &r->f->blocks.v[block];
  for (uint32_t j = 0; j < k->insts.n; j++) read_inst(r, k->insts.v[j]);
  word(r, 0);
}
static void read_kernel(lfunc *f, arena *a, wordvec *words, skeleton *s) {
  arena *t = arena_new(arena_ctx(a));
  reader r = {.f = f, .words = words, .a = a, .s = s};
  r.number = NEWN(t, uint32_t, f->insts.n), r.address = NEWN(t, bool, f->insts.n);
  s->f = f, words->n = 0;
  find_addresses(&r);
  word(&r, f->scratch_bytes);
  for (uint32_t i = 0; i < f->params.n; i++) {
    const lparam *q = &f->params.v[i];
    word(&r, (uint64_t)q->type.elem << 40 | (uint64_t)q->type.ptr << 32 | (uint64_t)q->flags << 16 | q->align);
  }
  read_block(&r, 1);
  s->hash = hash_bytes(words->v, words->n * sizeof *words->v, 0);
  for (uint32_t j = 0; j < s->moves.n; j++) s->sum += (uint64_t)s->moves.v[j].by;
  arena_free(t);
}

/* ---- which are one --------------------------------------------------------------------------- */
/* Is s the kernel `of`, which has the same hash, with pointers moved? by: per parameter, in elements. */
static bool moved(const skeleton *s, const skeleton *of, bool *known, int64_t *by) {
  const lfunc *f = of->f;
  if (s->moves.n != of->moves.n) return false;
  for (uint32_t i = 0; i < s->moves.n; i++) {
    const uint32_t p = of->moves.v[i].param;
    const int64_t d = s->moves.v[i].by - of->moves.v[i].by, unit = et_bytes((etype)f->params.v[p].type.elem);
    if (EK_PLANTED("program-share") && known[p]) continue;
    if (d < 0 || (known[p] && by[p] != d) || (f->params.v[p].align && d * unit % f->params.v[p].align != 0))
      return false;
    known[p] = true, by[p] = d;
  }
  return true;
}
static int by_place(const void *x, const void *y) { /* the one that begins first is the one to be kept */
  const skeleton *a = *(skeleton *const *)x, *b = *(skeleton *const *)y;
  if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
  if (a->sum != b->sum) return a->sum < b->sum ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}
static const int64_t *both(arena *a, const int64_t *x, const int64_t *y, uint32_t n) {
  int64_t *by = NEWN(a, int64_t, n + 1);
  for (uint32_t i = 0; i < n; i++) by[i] = x[i] + y[i];
  return by;
}
void program_share(splan *plan, arena *a) {
  enum { MOST_TRIED = 4 }; /* most kernels of one skeleton that another one is compared with */
  lmodule *l = plan->l;
  const uint32_t n = l->funcs.n;
  arena *t = arena_new(l->c);
  skeleton *all = NEWN(t, skeleton, n + 1), **order = NEWN(t, skeleton *, n + 1);
  map *of = map_new(t);
  wordvec words = {0};
  for (uint32_t i = 0; i < n; i++) {
    skeleton *s = order[i] = &all[i];
    s->index = i;
    read_kernel(l->funcs.v[i], t, &words, s);
    map_putu(of, (uint64_t)(uintptr_t)s->f, i);
  }
  qsort(order, n, sizeof *order, by_place);
  for (uint32_t i = 0, from = 0; i < n; i++) {
    skeleton *s = order[i];
    if (s->hash != order[from]->hash) from = i;
    for (uint32_t j = from, tried = 0; j < i && !s->same && tried < MOST_TRIED; j++) {
      if (order[j]->same) continue;
      tried++;
      const size_t bytes = (s->f->params.n + 1) * sizeof(int64_t);
      int64_t *by = arena_alloc(t, bytes);
      if (moved(s, order[j], NEWN(t, bool, s->f->params.n + 1), by))
        s->same = order[j]->f, s->by = arena_dup(a, by, bytes);
    }
  }
  for (uint32_t i = 0; i < plan->launches.n; i++) {
    launch *k = &plan->launches.v[i];
    uint64_t at;
    k->code = k->func;
    if (!map_getu(of, (uint64_t)(uintptr_t)k->func, &at) || !all[at].same) continue;
    k->code = all[at].same;
    k->moved = k->moved ? both(a, k->moved, all[at].by, k->func->params.n) : all[at].by;
  }
  l->funcs.n = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!all[i].same) l->funcs.v[l->funcs.n++] = all[i].f;
  arena_free(t);
}
