/* Between the files that decide where tensors lie: what they know of the module, and what is decided of a tensor. */
#ifndef EK_SCHEDULE_LAYOUT_IN_H
#define EK_SCHEDULE_LAYOUT_IN_H
#include "schedule/layout.h"

/* A constant around a tensor. */
typedef struct halo_room {
  bool any;                           /* there is a halo */
  scalar fill;                        /* value of the halo */
  int64_t lo[MAX_RANK], hi[MAX_RANK]; /* per axis: elements before and after */
} halo_room;
typedef struct place {
  uint32_t stage;  /* stage + 1 of the placement; 0: none */
  uint32_t update; /* number of its update */
} place;
typedef struct lay {
  splan *p;         /* the plan */
  emodule *m;       /* the module */
  ctx *c;           /* context */
  arena *a;         /* memory */
  bool *mat;        /* per tensor: it has memory */
  halo_room *halo;  /* per tensor: the one that spares its readers their guards */
  place *in;        /* per tensor: placement that it stands in */
  uint32_t *leaps;  /* per tensor: axes in which its readers go on by whole vectors, or more */
  u32vec *readers;  /* per tensor: the stages whose values load it, in order; NULL: not asked for yet */
  uint32_t **state; /* per state: its axes, outermost first; NULL: not chosen, row-major. NULL: there are no states */
} lay;
/* How a tensor lies in memory of its own: all that is decided of it. */
typedef struct storage {
  uint32_t order[MAX_RANK]; /* its axes, outermost first */
  halo_room halo;           /* the constant around it */
  int64_t pad[MAX_RANK];    /* per axis: elements by which its places lie farther apart than what is inside of it */
  uint32_t pieces;          /* see layout.pieces */
  int64_t together;         /* see layout.together */
} storage;

/* layout_order.c: the order of a tensor's axes, outermost first */
void order_preferred(lay *L, uint32_t stage, uint32_t *order); /* as its stage and its readers want it most */
/* axes over which all readers sum lie innermost, if the innermost is one */
void order_sums_last(lay *L, tid t, uint32_t rank, uint32_t *order);
/* a placement whose readers would gather along its innermost axis gets another one */
void order_no_leaps(lay *L, tid t, uint32_t *order);
/* cycles that a vector of the stage saves against single lanes, as the tensors lie now; stored: it stores its own */
double order_saves(lay *L, uint32_t stage, bool stored);
u32vec order_readers(lay *L, tid t);         /* the stages whose values load the tensor, in order */
void order_leaps_of(lay *L, uint32_t stage); /* notes lay.leaps of what the stage reads; readers come before */

/* layout_room.c: the room around axes and between their places */
/* notes lay.halo of what a value reads */
void room_halo_of(lay *L, ex e, uint32_t kernel, uint32_t recurrence);
/* how far outside of its tensor a load reads: a halo of that width spares its guard; false: not known */
bool room_outside(lay *L, const ex_node *load, int64_t *lo, int64_t *hi);
/* is a tensor with such a halo at most SUM_GROWTH times as large? */
bool room_fits(lay *L, tid t, const int64_t *lo, const int64_t *hi);
/* may places of axis order[at] lie farther apart than what is inside of them takes? */
bool room_may_grow(lay *L, tid t, const uint32_t *order, uint32_t at);
/* pads, so that what is wanted together falls on different sets of the nearest cache; shape: what has memory */
void room_pads(lay *L, tid t, const sz *shape, storage *s);

/* layout_state.c: how states lie. Inputs, constants and what passes through control flow have their layouts. */
void state_layouts(lay *L);
/* the axes, outermost first, of the state whose new value the tensor is; NULL: it is none, or its order not chosen */
const uint32_t *state_order(const lay *L, tid t);

/* storage.c: what a text states of a tensor's storage, and what is recorded of it. Each keeps what is not stated, and
 * refuses what cannot be. */
void storage_separate(splan *p); /* before layouts: copies to their places the parts that a text keeps apart */
void storage_follow_place(lay *L, tid t);
void storage_follow_order(lay *L, tid t, storage *s);
void storage_follow_halo(lay *L, tid t, storage *s);
void storage_follow_state(lay *L, tid t); /* of a state, whose order is followed: it has no room for more */
/* steps: the tensor has memory for one step of a recurrence */
void storage_follow_pads(lay *L, tid t, storage *s, bool steps);
/* halo: it may have one; lines: its places may lie farther apart */
void storage_record(lay *L, tid t, const storage *s, bool halo, bool lines);
/* the tensor is update `update` of the placement, in the memory of that one */
void storage_record_piece(lay *L, tid t, uint32_t stage, uint32_t update);
void storage_check_used(splan *p); /* refuses what is stated of no tensor, or does not apply to it */
/* what placement `stage` writes by its update, or else by its value: where, and the load of it */
const sz *layout_placement(lay *L, const stage *s, uint32_t update, uint32_t *n, ex *value);
#endif
