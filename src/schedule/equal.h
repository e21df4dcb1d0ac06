/* equal (private to schedule): kernels that are equal but for their buffers, of which one is scheduled. */
#ifndef EK_SCHEDULE_EQUAL_H
#define EK_SCHEDULE_EQUAL_H
#include "schedule/schedule.h"

/* A kernel as kernel_schedule has it. */
typedef struct kernel_ref {
  const u32vec *stages; /* its stages in order */
  const u32vec *outer;  /* variables that they share; NULL: none are known */
  const map *canon;     /* variable -> the name by which the stages share it; NULL: its own */
  uint32_t kernel;      /* index into the module's kernels; UINT32_MAX: none */
  uint32_t block;       /* the block that it stands in */
  /* the schedule that is given for it; NULL: none */
  const kernel_record *stated;
} kernel_ref;
/* All that the schedule of a kernel depends on, as words that are the same for equal kernels. */
typedef struct equal_key {
  VEC(uint64_t) words; /* the kernel, with its variables, values, tensors and buffers numbered by first use */
  u32vec tensors;      /* its tensors, by number */
  u32vec buffers;      /* the buffers that these lie in, by number */
  VEC(int64_t) begins; /* per buffer: element at which the first tensor in it begins */
} equal_key;
/* Numbers of things by first use, anew for each key. */
typedef enum { EQUAL_ATOM, EQUAL_SIZE, EQUAL_NODE, EQUAL_TENSOR, EQUAL_BUFFER, EQUAL_KINDS } equal_kind;
typedef struct equal_number {
  uint32_t key;    /* the key that this number is of */
  uint32_t number; /* the number */
} equal_number;
typedef VEC(equal_number) equal_numbers;
typedef struct scheduled {
  equal_key key;  /* the kernel */
  launch l;       /* its launch */
  uint32_t packs; /* first buffer that its schedule made */
  uint32_t end;   /* end of these */
  bool *filled;   /* per buffer of the key: its halo is filled when the kernel has run */
  uint32_t next;  /* 1 + index of another kernel with the same hash; 0: there is none */
} scheduled;
struct equal_kernels {
  arena *a;                           /* memory of what is kept */
  equal_numbers numbers[EQUAL_KINDS]; /* per kind of thing and thing: its number */
  uint32_t keys;                      /* keys so far */
  VEC(scheduled) all;                 /* kernels with a key */
  map *of;                            /* hash of a key's words -> 1 + index of the last kernel */
};
void equal_begin(splan *p); /* makes plan.equal */
/* hash of what a kernel computes: its formulas, wherever its tensors lie and however things are numbered */
uint64_t kernel_hash(splan *p, const kernel_ref *k, arena *a);
/* equal_key.c. a: memory of the key. False: the kernel depends on more than a key tells */
bool equal_key_of(splan *p, const kernel_ref *k, arena *a, equal_key *out);
/* equal.c: l gets what is launched, from an equal kernel that was kept, and the plan what its schedule did there.
 * False: there is none, and nothing was done. l has the kernel's stages */
bool equal_launch(splan *p, const equal_key *key, launch *l);
/* Remembers the launch of a kernel that was scheduled; `packs`: where the buffers that its schedule made begin. Its
 * halos are filled only as far as the kernel does it. */
void equal_keep(splan *p, const equal_key *key, const launch *l, uint32_t packs);
void equal_end(splan *p); /* nothing more is scheduled: what was kept is given up */
#endif
