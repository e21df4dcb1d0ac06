/* Private to grad: the state of one differentiation and what its parts hand each other. */
#ifndef EK_GRAD_IN_H
#define EK_GRAD_IN_H
#include "grad/grad.h"

/* A conjunction of conditions in the order in which they are evaluated (a later one may be readable only where the
 * earlier hold). n == 0: always. */
typedef struct lit {
  ex e;     /* a bool value */
  bool neg; /* holds where e is false */
} lit;
typedef struct mask {
  uint32_t n;   /* number of conditions; 0: always */
  const lit *v; /* the conditions */
} mask;

/* For all points of `vars` where `when` holds and idx lies in x:  adjoint of x[idx] += d * g. */
typedef struct contrib {
  tid x;              /* tensor whose adjoint it adds to */
  const sz *idx;      /* one per axis of x */
  bool guarded;       /* the read has an `else`: idx may lie outside */
  ex d;               /* adjoint of what was computed there: a read of its tensor, or a constant */
  ex g;               /* local derivative; of d's type or wider */
  mask when;          /* where it counts */
  const atom *vars;   /* variables that it runs over */
  uint32_t nvars;     /* number of variables */
  const char *origin; /* node of the model that it comes from */
} contrib;
typedef VEC(contrib) contribs;

/* The derivative of a value by one of its reads; for a constant `else` there is none. */
typedef struct local {
  ex load;   /* the read */
  mask when; /* where it counts */
  ex g;      /* d value / d load */
} local;
typedef VEC(local) locals;

/* The reverse of a recurrence that a contribution stays inside of: its step t is T-1-u, and the axis `axis` of x,
 * which carries t, is not solved for. */
typedef struct frame_u {
  atom t;        /* the recurrence's step */
  sz t_of_u;     /* t as a size over u */
  sz u;          /* the reverse step, as a size */
  uint32_t axis; /* axis of x that carries t */
} frame_u;

/* One contribution as a gather over the index space of x (variables given by the caller). */
typedef struct gathered {
  bool empty;          /* contributes nothing */
  bool plain;          /* every axis is the caller's variable */
  bool compact;        /* it has an index space of its own, to be read at `back` */
  bool reduce;         /* value holds a reduction */
  axis axes[MAX_RANK]; /* compact: axes of its own index space */
  sz shape[MAX_RANK];  /* compact: size of each axis */
  sz back[MAX_RANK];   /* where to read it, over the caller's variables */
  ex back_cond;        /* where it is read at all; 0: always */
  ex value;            /* the gather */
} gathered;

typedef struct gr {
  emodule *m;        /* module that gets the stages */
  ctx *c;            /* context */
  arena *a;          /* memory of the differentiation */
  uint32_t block;    /* block that is differentiated */
  uint32_t ntensors; /* forward tensors; those made later have no adjoint */
  uint8_t *active;   /* by tensor: it depends on what is differentiated by */
  uint8_t *wanted;   /* by tensor: its adjoint is asked for */
  contribs *into;    /* by tensor: contributions to its adjoint */
  tid *adj;          /* by tensor, once complete; 0: none */
  /* its adjoint comes from a stated gradient: read by the stages of that call alone, and not active to them */
  uint8_t *given;
  uint32_t *call_in;  /* by tensor: 1 + the stated call that it is a given argument of; 0: none */
  uint32_t *call_out; /* by tensor: 1 + the stated call that it is a result of; 0: none */
  tid **stated;       /* by stated call: the adjoints of its arguments, once asked for */
} gr;

/* ---- grad.c ---------------------------------------------------------------------------------- */
void grad_contribute(gr *g, contrib k); /* notes a contribution, to be finished later */
uint32_t grad_append(gr *g, tid t, const axis *axes, uint32_t naxes, ex value);
void grad_add(gr *g, tid t, tid adjoint); /* an adjoint of t, computed elsewhere, as a contribution */
void grad_finish_tensor(gr *g, tid t);    /* computes g->adj[t] from what was contributed */
void grad_stage_reads(gr *g, uint32_t s, u32vec *loads);
/* another block, which reads tensors of this one; unwinds where it is refused */
void grad_block(gr *outer, uint32_t block, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt,
                uint32_t nwrt, tid *adjoints);
_Noreturn void grad_refuse(gr *g, const char *origin, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- adjoint.c: contributions -> adjoint stage ----------------------------------------------- */
void grad_axes(gr *g, tid x, axis *axes, sz *idx); /* fresh variables, one per axis */
tid grad_zeros(gr *g, tid t);                      /* a stage of zeros, like t */
tid grad_finish(gr *g, tid x, const contribs *k);  /* the adjoint of x, 0 if there is no contribution */
/* a gather as a term of a sum: ref; t: the stage it reads, 0 for none */
typedef struct piece {
  ex ref;              /* the gather as a value over the axes given */
  tid t;               /* tensor of the stage that ref reads; 0: it needs none */
  axis axes[MAX_RANK]; /* axes of that stage */
  ex value;            /* value of that stage */
} piece;
/* p as a piece over the variables of axes; in a recurrence it is read `later` steps on */
piece grad_piece(gr *g, tid x, const gathered *p, const axis *axes, const frame_u *f, int64_t later);
/* appends its stage */
void grad_piece_emit(gr *g, const piece *p, uint32_t recurrence);
const char *grad_name(gr *g, tid x);

/* ---- value.c: what a stage's value contributes ----------------------------------------------- */
void grad_value(gr *g, uint32_t s, ex value, ex own, ex d, const atom *vars, uint32_t nvars, mask when, contribs *out);
/* to be called before anything else: splits updates so that a stage has at most one where one combines (*=, max=,
 * min=) */
void grad_split_updates(gr *g, uint32_t s);
/* all contributions of stage s, whose adjoint is dy; step: index of dy where s has its recurrence's step, 0: the
 * same */
void grad_stage_loads(gr *g, uint32_t s, tid dy, sz step, contribs *out);

/* ---- chain.c --------------------------------------------------------------------------------- */
/* does a gradient flow through e to an active tensor? */
bool grad_live(gr *g, map *memo, ex e);
/* own: 0, or a read of root's value where it is stored */
void grad_chain(gr *g, ex root, ex own, mask when, locals *out);
mask mask_with(gr *g, mask m, ex e, bool neg);
ex mask_ex(gr *g, mask m);        /* 0: always */
ex k_mul(emodule *m, ex a, ex b); /* a * b, wider type of the two; constants fold */
ex k_add(emodule *m, ex a, ex b);
ex k_and(emodule *m, ex a, ex b); /* either may be 0 */
etype wider(etype a, etype b);
ex in_range_cond(gr *g, ex load); /* 0: provably in range */

/* ---- invert.c -------------------------------------------------------------------------------- */
/* the contribution as a gather; false: it is better scattered */
bool grad_gather(gr *g, const contrib *k, const axis *axes, const sz *x, const frame_u *f, gathered *out);
/* an index with min, max, ?: as several contributions; false: no such index */
bool grad_split_cases(gr *g, const contrib *k, contribs *out);
/* free variables, also through data */
void size_free(gr *g, sz s, u32vec *vars);
sz size_subst(gr *g, sz s, const atom *vars, const sz *by, uint32_t n);

/* ---- stated.c: stated gradients -------------------------------------------------------------- */
void grad_stated_begin(gr *g);
bool grad_stated_live(gr *g, tid out); /* is it a result of a call, one of whose given arguments depends on wrt? */
tid grad_stated(gr *g, tid in);        /* the adjoint that the definition states; 0: none of the results has one */

/* ---- control.c: branches and loops ----------------------------------------------------------- */
void grad_captured(gr *g, item it, u32vec *out); /* active tensors of this block that the blocks inside read */
void grad_if(gr *g, uint32_t index);
void grad_loop(gr *g, uint32_t index);

/* ---- hoist.c, recurrence.c ------------------------------------------------------------------------- */
void grad_hoist(gr *g, uint32_t s);               /* reductions below the root of s become stages in front of it */
void grad_stand_before(gr *g, uint32_t s);        /* moves the stage appended last in front of s */
void grad_recurrence(gr *g, uint32_t recurrence); /* contributions of all members of a recurrence; their adjoints */
#endif
