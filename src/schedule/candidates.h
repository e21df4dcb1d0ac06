/* candidates: schedules around the one that is recorded of a kernel.
 *
 * A change replaces the directives of one primitive, and leaves those that hang on it to the compiler. The candidates
 * of a kernel are its recorded schedule with each change alone, and with each other tile together with each change of
 * another primitive that leaves the tile. A candidate is a record, and its text is one that --schedule takes. It comes
 * from the record and from facts about the kernel alone: no code is emitted, and the same kernel has the same
 * candidates in the same order. Most are legal; whether one is, the compiler says when it follows it. */
#ifndef EK_SCHEDULE_CANDIDATES_H
#define EK_SCHEDULE_CANDIDATES_H
#include "schedule/record.h"
#include "target/target.h"

/* A loop of a nest, or a variable of its sum. */
typedef struct loop_facts {
  const char *name; /* its text in schedules */
  int64_t extent;   /* number of its values; -1: open */
  bool reduced;     /* it is a variable of the sum */
  bool unrolls;     /* its steps may be written out */
  bool lanes;       /* it may run along the lanes */
  uint64_t rows;    /* bit i: where loop i runs along the lanes, this one may run along the rows */
} loop_facts;
typedef struct operand_facts {
  const char *name; /* the tensor that the sum reads */
  bool constant;    /* it is a constant */
} operand_facts;
typedef struct nest_facts {
  const char *name;            /* as in the record */
  uint32_t lanes;              /* lanes of a vector */
  bool half_lanes;             /* vectors of half the width are as fast */
  bool sum;                    /* its first stage is a reduction */
  bool in_order;               /* the reduction keeps the order of the formula */
  VEC(loop_facts) loops;       /* outermost first, then the variables of the sum */
  VEC(operand_facts) operands; /* what the sum reads */
  int64_t block_steps;   /* values of the sum's outermost variable, parts of which may be blocks; 0: they may not */
  bool packs_blocks;     /* panels of a block are packed of a run-time operand */
  bool panel_values;     /* what its rows share may be computed into panels */
  strvec bounds;         /* variables of sums whose loops can leave out places outside of a tensor */
  strvec versions;       /* conditions of sizes for which there can be a copy */
  directives prefetches; /* what can be fetched ahead, as it would be stated */
  bool streams;          /* it may be streamed: parts of a few steps, all panels of which are a block */
} nest_facts;
/* What the changes of a kernel's schedule are made of, besides the schedule. */
typedef struct kernel_facts {
  VEC(nest_facts) nests;  /* in the order of execution */
  VEC(loop_facts) shared; /* variables that all nests share, and that can be split */
  bool open_work;         /* an open size decides whether the work is worth threads */
} kernel_facts;
/* An axis of a tensor. */
typedef struct axis_facts {
  const char *name; /* its text in schedules */
  int64_t extent;   /* number of its places; -1: open */
  bool grows;       /* its places may lie farther apart than what is inside of them takes, in the order that is there */
} axis_facts;
/* What the changes of how a tensor is stored are made of, besides that. */
typedef struct tensor_facts {
  VEC(axis_facts) axes; /* in the order of its index */
  directive halo;       /* the widest halo that its readers have a use for, as it would be stated; no words: none has */
  int64_t line;         /* elements in a cache line */
} tensor_facts;
/* the facts about a nest of that name; NULL: there are none */
const nest_facts *facts_of_nest(const kernel_facts *f, const char *name);

/* A change of a schedule. */
typedef struct schedule_change {
  primitive is;  /* what is changed */
  uint32_t nest; /* number of the nest that is changed; UINT32_MAX: the kernel */
  directives to; /* what is stated then, instead of all directives of the same primitives */
} schedule_change;
typedef VEC(schedule_change) changes;
/* The single changes of a schedule, which may be one that was changed before. */
void candidate_changes(arena *a, const kernel_record *k, const kernel_facts *f, const target *t, changes *out);
/* the schedule with the change, and without what hangs on it */
kernel_record candidate_changed(arena *a, const kernel_record *k, const kernel_facts *f, const schedule_change *c);

typedef struct candidate {
  const schedule_change *first, *second; /* what is changed; second NULL: only one thing is */
} candidate;
typedef struct candidates {
  const kernel_record *k; /* the recorded schedule */
  const kernel_facts *f;  /* facts about the kernel */
  VEC(candidate) all;     /* every candidate */
} candidates;
/* All candidates of a kernel. a, k and f live as long as they do. */
candidates candidates_of(arena *a, const kernel_record *k, const kernel_facts *f, const target *t);
/* the i-th schedule, 0 <= i < c->all.n */
kernel_record candidates_nth(arena *a, const candidates *c, uint32_t i);
/* prints all of them, each as a text of its own, behind a comment that says what is changed */
void candidates_print(arena *a, const candidates *c, sbuf *out);

/* candidates_tensor.c: the single changes of how a tensor is stored, which is recorded with facts, or was changed */
void tensor_changes(arena *a, const tensor_record *r, changes *out);
/* how it is stored with the change, and without what hangs on it */
tensor_record tensor_changed(arena *a, const tensor_record *r, const schedule_change *c);
void candidates_print_tensor(arena *a, const tensor_record *r, sbuf *out); /* like candidates_print */
/* candidates.c: between the two files */
bool change_is_new(const changes *all, const directives *stated, const schedule_change *c);
void change_keep(arena *a, const directives *from, uint32_t but, directives *out); /* but: bits of primitives */
void change_print(const schedule_change *c, sbuf *out);
#endif
