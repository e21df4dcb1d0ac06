/* index_view (private to schedule): what the variables of formulas are at a place, and where their tensors lie there.
 *
 * A view answers questions about accesses: which address does a load have, is it certain to be inside, is it linear in
 * a variable. Choices (layouts, lanes, tiles, orders of loops, packing) ask it; no code is needed for that. An emitter
 * has one, too (emit.h), whose variables also have values in the code that is made.
 */
#ifndef EK_SCHEDULE_INDEX_VIEW_H
#define EK_SCHEDULE_INDEX_VIEW_H
#include "schedule/schedule.h"

/* What a variable of a formula is: see the three ways in emit.h. */
typedef struct binding {
  atom var; /* the variable */
  /* value of the variable at copy (0, 0); 0: it is the constant 0 */
  lv base;
  /* added to base for each row of the tile */
  int64_t row_step;
  /* added to base for each vector of the tile */
  int64_t vec_step;
  /* row_step counts the row's number modulo this; 0: the number itself */
  uint32_t row_mod;
  /* row_step counts the row's number divided by this, where row_mod is 0; 0: the number itself */
  uint32_t row_div;
  /* the value for each row of the tile, instead of base and row_step; NULL: these hold */
  const lv *rows;
  /* it is the lane variable: lane l has l added */
  bool lane;
  /* it is this size over other variables; 0: it is no substitution */
  sz subst;
  /* index + 1 of the binding of the same variable that this one hides; 0: none */
  uint32_t hides;
  /* index_view.resolving before this binding */
  uint32_t resolving;
} binding;
/* Where a tensor lives while its kernel runs, instead of its global layout: in registers or in scratch. */
typedef struct local {
  tid t; /* the tensor */
  /* values in registers, regs[r * TILE_V + v], read only at the point that is being computed; NULL: it is in scratch */
  lv *regs;
  /* the values in registers are vectors */
  bool regs_vec;
  /* regs[0] is the value of all copies */
  bool single;
  /* pointer to the tensor's scratch; 0: it is in registers */
  lv ptr;
  /* its layout in scratch; NULL: it is in registers */
  const layout *lay;
} local;
typedef struct index_view {
  /* the plan that the formulas belong to */
  splan *p;
  /* the module of the stages */
  emodule *m;
  /* the context */
  ctx *c;
  /* memory of what is found out */
  arena *a;
  /* what the variables are; a later binding hides an earlier one of the same variable */
  VEC(binding) binds;
  /* variable -> 1 + index of its last binding, or 0 */
  map *bind_of;
  /* number of bindings that substitute */
  uint32_t substs;
  /* identifies the set of these bindings, see splan.resolved */
  uint32_t resolving;
  /* tensors that live in registers or in scratch */
  VEC(local) locals;
  /* sizes are simplified under facts that hold in the current branch only */
  bool assumed;
} index_view;

/* a: memory that is needed as long as the view is asked */
void view_begin(index_view *iv, splan *p, arena *a);
void view_bind(index_view *iv, binding b);
void view_unbind(index_view *iv, uint32_t n);        /* drops all bindings but the first n */
binding *view_bound(const index_view *iv, atom var); /* NULL: the variable has no binding */
sz view_resolve(index_view *iv, sz x);               /* applies the substitutions */
/* the same value with the substitutions applied: equal values of different stages become equal nodes */
ex view_canonical(index_view *iv, ex x);
const local *view_local(const index_view *iv, tid t); /* NULL: the tensor lies where its global layout says */
/* where it lies in scratch, whether its values are in registers as well or not; NULL: where its global layout says */
const local *view_scratch(const index_view *iv, tid t);
const layout *view_layout(const index_view *iv, tid t);    /* in scratch, or the global one */
sz view_address(ctx *c, const layout *lay, const sz *idx); /* offset within the buffer */
/* is the index proved to be inside, halo included? lay NULL: without one */
bool view_in_range(ctx *c, const layout *lay, uint32_t axis, sz idx, sz size);
/* where the tensor of a load lies, if the halo there holds what is read outside; NULL */
const layout *view_halo(const index_view *iv, ex load);
/* Resolves the indices of a load; which of them are certain to be inside, the halo included where it holds what is
 * read outside. True: all are. */
bool view_inside(index_view *iv, ex load, sz *idx, bool *safe);
/* the load reads memory and needs no guard; its resolved indices */
bool view_plain(index_view *iv, ex load, sz *idx);
/* What an extent is, if it is known: at most SAT64, so that what is computed of it does not overflow. */
static inline int64_t view_extent(ctx *c, sz extent, int64_t otherwise) {
  return min64(sym_int_or(c, extent, otherwise), SAT64);
}
#endif
