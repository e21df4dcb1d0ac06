/* Which values leave a loop that they do not depend on? (Loop-invariant code motion.)
 *
 * Divisions, square roots and functions of floats, with what they are computed of: each takes as long as ten other
 * operations. What is cheaper stays where it is used, so that no register waits for it. A load moves too, where nothing
 * writes to its buffer and the loop has at least one trip: then it was done anyway. Inner loops first, so that a value
 * leaves all that it can.
 */
#include "loop/loop.h"
#include <string.h>

typedef struct hoist {
  lfunc *f;        /* the function */
  uint32_t *level; /* per value: loops and conditions around it, its own loop included where it is an index */
  uint8_t *moves;  /* per value of the body that is looked at: INVARIANT, WANTED */
} hoist;
enum { INVARIANT = 1, WANTED = 2 };

static bool is_costly(const linst *i) {
  return i->kind == L_OP && et_kind((etype)i->type.elem) == K_FLOAT && op_cost((sop)i->op) >= op_cost(OP_DIV);
}
static bool reads_only(const lfunc *f, lv pointer) {
  for (uint32_t i = 0; i < f->params.n; i++)
    if (f->params.v[i].value == pointer) return f->params.v[i].flags == (LP_READ | LP_NOALIAS);
  return false;
}
/* May the instruction move, if its operands do? runs: the loop has a trip. */
static bool may_move(const lfunc *f, const linst *i, bool runs) {
  if (i->kind == L_LOAD) return runs && !i->mask && !i->count && !i->stride && reads_only(f, i->a);
  return i->kind == L_SPLAT || (i->kind == L_OP && i->op != OP_IDIV && i->op != OP_MOD);
}
/* Marks the body's operations that depend on nothing in it, and of these the costly ones with what they need; level is
 * that of the body. false: there are none. */
static bool find_moves(hoist *h, const lblock *body, uint32_t level, bool runs) {
  const lfunc *f = h->f;
  bool any = false;
  for (uint32_t k = 0; k < body->insts.n; k++) {
    const lv v = body->insts.v[k];
    const linst *i = li(f, v);
    const lv of[] = {i->a, i->b, i->c};
    bool free = may_move(f, i, runs);
    for (uint32_t j = EK_PLANTED("loop-hoist"); j < 3 && free; j++)
      free = !of[j] || h->level[of[j]] < level || h->moves[of[j]] & INVARIANT;
    h->moves[v] = free ? INVARIANT : 0;
  }
  for (uint32_t k = body->insts.n; k-- > 0;) {
    const lv v = body->insts.v[k];
    const linst *i = li(f, v);
    if (!(h->moves[v] & INVARIANT) || (!is_costly(i) && !(h->moves[v] & WANTED))) continue;
    const lv of[] = {i->a, i->b, i->c};
    for (uint32_t j = 0; j < 3; j++) h->moves[of[j]] |= WANTED;
    h->moves[v] |= WANTED, any = true;
  }
  return any;
}
/* What is wanted of a body stands in front of its loop, the k-th instruction of `block`; how many these are. */
static uint32_t move(hoist *h, uint32_t block, uint32_t k, uint32_t body, uint32_t level) {
  lfunc *f = h->f;
  lblock *from = &f->blocks.v[body], *to = &f->blocks.v[block];
  uint32_t stay = 0, moved = 0;
  for (uint32_t i = 0; i < from->insts.n; i++) {
    const lv v = from->insts.v[i];
    if (!(h->moves[v] & WANTED) || !(h->moves[v] & INVARIANT)) {
      from->insts.v[stay++] = v;
      continue;
    }
    vec_push(f->a, to->insts, 0);
    memmove(to->insts.v + k + moved + 1, to->insts.v + k + moved, (to->insts.n - 1 - k - moved) * sizeof(uint32_t));
    to->insts.v[k + moved++] = v, h->level[v] = level;
  }
  from->insts.n = stay;
  return moved;
}
static bool has_trip(const lfunc *f, const linst *loop) {
  scalar from, to;
  return !loop->mask && loop_const(f, loop->a, &from) && loop_const(f, loop->b, &to) && from.i < to.i;
}
static void set_levels(hoist *h, uint32_t block, uint32_t level) {
  const lfunc *f = h->f;
  for (uint32_t k = 0; block && k < f->blocks.v[block].insts.n; k++) {
    const lv v = f->blocks.v[block].insts.v[k];
    const linst *i = li(f, v);
    h->level[v] = level + (i->kind == L_FOR);
    if (i->kind == L_FOR || i->kind == L_IF) set_levels(h, i->body, level + 1);
    if (i->kind == L_IF) set_levels(h, i->other, level + 1);
  }
}
static void out_of_loops(hoist *h, uint32_t block, uint32_t level) {
  const lfunc *f = h->f;
  for (uint32_t k = 0; block && k < f->blocks.v[block].insts.n; k++) {
    const linst i = *li(f, f->blocks.v[block].insts.v[k]);
    if (i.kind == L_FOR || i.kind == L_IF) out_of_loops(h, i.body, level + 1);
    if (i.kind == L_IF) out_of_loops(h, i.other, level + 1);
    if (i.kind == L_FOR && find_moves(h, &f->blocks.v[i.body], level + 1, has_trip(f, &i)))
      k += move(h, block, k, i.body, level);
  }
}
void loop_hoist(lfunc *f) {
  arena *a = arena_new(arena_ctx(f->a));
  hoist h = {f, NEWN(a, uint32_t, f->insts.n), NEWN(a, uint8_t, f->insts.n)};
  bool any = false;
  for (uint32_t i = 1; i < f->insts.n && !any; i++) any = is_costly(li(f, i));
  if (any) set_levels(&h, 1, 0), out_of_loops(&h, 1, 0);
  arena_free(a);
}
