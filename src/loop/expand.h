/* Between the files of loop_expand (private). */
#ifndef EK_LOOP_EXPAND_H
#define EK_LOOP_EXPAND_H
#include "loop/build.h"

typedef struct xp {
  ctx *c;                                     /* context */
  lbuild *b;                                  /* gets the instructions */
  bool (*native)(void *env, sop op, etype t); /* what the emitter has (loop_expand) */
  void *env;                                  /* handed to native */
  bool fast;                                  /* lmodule.fast */
  bool flush;                                 /* lmodule.flush */
} xp;
/* The operation in what the emitter has; may emit loops and branches. t: type of the result. */
lv x_op(xp *p, sop op, ltype t, lv x, lv y, lv z);
/* small.c: conversions with narrow floats and integers under 8 bits. */
bool x_cast_direct(const xp *p, etype to, etype from);
lv x_cast(xp *p, etype to, lv x);
bool x_narrow(etype t);   /* a float under 32 bits */
etype x_carrier(etype t); /* the integer type that holds the code of a narrow float */
/* math.c: a function of f32 or f64; 0: none. */
lv x_math(xp *p, sop op, lv x, lv y);

/* ---- short forms: operands decide the type --------------------------------------------------- */
static inline ltype x_type(const xp *p, lv x) { return li(p->b->f, x)->type; }
static inline lv x1(xp *p, sop op, lv x) { return x_op(p, op, x_type(p, x), x, 0, 0); }
static inline lv x2(xp *p, sop op, lv x, lv y) { return x_op(p, op, x_type(p, x), x, y, 0); }
static inline lv xfma(xp *p, lv x, lv y, lv z) { return x_op(p, OP_FMA, x_type(p, x), x, y, z); }
static inline lv xcmp(xp *p, sop op, lv x, lv y) { return x_op(p, op, lt(ET_BOOL, x_type(p, x).lanes), x, y, 0); }
static inline lv xtest(xp *p, sop op, lv x) { return x_op(p, op, lt(ET_BOOL, x_type(p, x).lanes), x, 0, 0); }
static inline lv xsel(xp *p, lv c, lv x, lv y) { return x_op(p, OP_SEL, x_type(p, x), c, x, y); }
static inline lv xbits(xp *p, etype t, lv x) { return x_op(p, OP_BITCAST, lt(t, x_type(p, x).lanes), x, 0, 0); }
static inline lv xf(xp *p, lv like, double k) {
  return lb_const(p->b, x_type(p, like), (scalar){.f = k});
} /* a float constant of this type */
static inline lv xi(xp *p, lv like, int64_t k) { return lb_const(p->b, x_type(p, like), (scalar){.i = k}); }
#endif
