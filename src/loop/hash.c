/* Which functions do the same? Those whose instructions are equal, whatever the function, its parameters and loops are
 * called and its comments say. The hash is over words that say all of an instruction but that, with values numbered in
 * the order of the text (print.c), so that a function and what its text reads back as have the same hash. */
#include "loop/ops.h"
#include <string.h>

typedef struct hasher {
  const lfunc *f;      /* the function */
  const uint32_t *num; /* number of each value in the text */
  VEC(uint64_t) words; /* its instructions so far */
  arena *a;            /* memory of these */
} hasher;
static void word(hasher *h, uint64_t x) { vec_push(h->a, h->words, x); }
static void text(hasher *h, const char *s) { word(h, s ? hash_bytes(s, strlen(s), 0) : 0); }
static void type(hasher *h, ltype t) { word(h, (uint64_t)t.elem << 32 | (uint64_t)t.ptr << 16 | t.lanes); }
static void operand(hasher *h, lv v) {
  const linst *i = li(h->f, v);
  word(h, !v ? 0 : loop_in_place(i) ? 1 : (uint64_t)h->num[v] << 1);
  if (v && loop_in_place(i)) word(h, (uint64_t)i->k.i);
}
/* Does its name say what it does? */
static bool named(const hasher *h, const linst *i) {
  switch ((lkind)i->kind) {
  case L_CALL:
  case L_PARALLEL:
  case L_INTRIN:
  case L_FAIL:
    return true;
  case L_PARAM:
    return h->f->kind == LF_MAIN;
  default:
    return false;
  }
}
static void block(hasher *h, uint32_t n);
static void inst(hasher *h, lv v) {
  const linst *i = li(h->f, v);
  const bool loop = i->kind == L_FOR;
  if (i->kind == L_COMMENT || loop_in_place(i)) return;
  word(h, (uint64_t)i->kind << 32 | (uint64_t)i->op << 16 | i->align);
  type(h, i->type);
  const lv of[] = {i->a, i->b, i->c, i->mask, i->count, i->stride};
  for (size_t k = 0; k < sizeof of / sizeof *of; k++) operand(h, of[k]);
  uint64_t bits;
  memcpy(&bits, &i->k, sizeof bits);
  word(h, (loop && i->k.i <= 1) || EK_PLANTED("loop-hash") ? 0 : bits);
  word(h, i->nargs);
  for (uint32_t k = 0; k < i->nargs; k++)
    if (li_lists_values(i))
      operand(h, i->args[k]);
    else
      word(h, i->args[k]);
  if (named(h, i)) text(h, i->name);
  word(h, (uint64_t)(i->body != 0) << 1 | (i->other != 0));
  if (i->body) block(h, i->body);
  if (i->other) block(h, i->other);
}
static void block(hasher *h, uint32_t n) {
  const lblock *k = &h->f->blocks.v[n];
  for (uint32_t j = 0; j < k->insts.n; j++) inst(h, k->insts.v[j]);
  word(h, UINT64_MAX);
}
uint64_t loop_hash(const lfunc *f) {
  arena *a = arena_new(arena_ctx(f->a));
  hasher h = {.f = f, .num = loop_numbers(f, a), .a = a};
  word(&h, f->kind), word(&h, f->scratch_bytes);
  for (uint32_t i = 0; i < f->params.n; i++) {
    const lparam *q = &f->params.v[i];
    type(&h, q->type);
    word(&h, (uint64_t)q->flags << 32 | q->align);
    if (f->kind == LF_MAIN) text(&h, q->name);
  }
  block(&h, 1);
  const uint64_t hash = hash_bytes(h.words.v, h.words.n * sizeof *h.words.v, 0);
  arena_free(a);
  return hash;
}
