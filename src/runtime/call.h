/* The call of a compiled model: what goes in, what comes out, and what the model is. This text also stands in the
 * header that is written beside a saved model. Depends on nothing. */
#ifndef EK_RUNTIME_H
#define EK_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

/* A kernel: does the chunks lo..hi-1; args are its parameters, one slot each; worker: 0 is the caller, 1.. the
 * pool's. */
typedef void (*ek_rt_kernel)(const int64_t *args, int64_t lo, int64_t hi, int64_t worker);

/* What one run of a compiled model gets. Compiled main functions read and write exactly this record. All fields are
 * 64 bits wide, in this order. */
typedef struct ek_rt_call {
  /* one pointer per input, in the model's order, then one per state: its old value. Elements are dense and
   * row-major, those of states in their order (ek_rt_model.orders) */
  const void *const *in;
  /* one pointer per output, then one per state: where its new value goes; room for the largest size that plan() gave */
  void *const *out;
  const int64_t *in_dims; /* dims of all inputs, one after the other; not those of states */
  /* dims of all outputs, one after the other, then of all states. plan writes what there must be room for at first;
   * run begins with what there is room for, and writes what they are */
  int64_t *out_dims;
  uint8_t *arena;         /* scratch memory, 64-aligned, arena_bytes; NULL in plan. NULL in run is an error code */
  const uint8_t *weights; /* packed constants, 64-aligned */
  /* runs the chunks 0..chunks-1 of a kernel, on several threads where there are any, and returns when all are done */
  void (*parallel)(struct ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks);
  void *pool;          /* what `parallel` uses */
  int64_t threads;     /* workers that may run at once, the caller included; scratch areas are laid out for this many */
  int64_t scratch;     /* written by plan and read by kernels: not used directly by callers */
  int64_t arena_bytes; /* written by plan: size of the arena; run begins with what the arena has */
  const char *message; /* written on failure: static text */
  int64_t cancel;      /* 0; other threads may set it: run ends with E_CANCELLED before its next kernel */
} ek_rt_call;
#ifdef __cplusplus
#define EK_RT_EMPTY                                                                                                    \
  {} /* a record with nothing in it yet */
#else
#define EK_RT_EMPTY {0}
#endif
typedef int64_t (*ek_rt_main)(ek_rt_call *call); /* 0, or an error code (ecode) with call->message set */
/* Returned by run, of models with sizes that only a run finds and that have no bound: it has written into
 * arena_bytes and out_dims how much it needs. With so much it is called again, and begins at its beginning. */
enum { EK_RT_ROOM = 100 };

typedef struct ek_rt_tensor {
  const char *name;             /* name in the model */
  int32_t type;                 /* ONNX element type code */
  int32_t rank;                 /* number of axes */
  const int64_t *dims;          /* fixed sizes, or -1 */
  const char *const *dim_names; /* symbol or formula of the -1 ones */
} ek_rt_tensor;
/* What stays from run to run. Before each run in[inputs + i] is what out[outputs + i] was after the one before; before
 * the first one the first value. */
typedef struct ek_rt_state {
  int64_t first;  /* offset of its first value in the weights; -1: zeros */
  int64_t places; /* 1: both pointers are the same memory; 2: they differ, and are exchanged after each run */
} ek_rt_state;
typedef struct ek_rt_pool ek_rt_pool;
/* Descriptor of a compiled model: what NAME_info() returns. */
typedef struct ek_rt_model {
  int64_t version;         /* version of this layout: 2; 3 where there are states; 4 where they have `orders` */
  const char *name;        /* NAME of the functions NAME_run and NAME_info */
  int64_t inputs;          /* number of inputs */
  int64_t outputs;         /* number of outputs */
  const ek_rt_tensor *in;  /* the inputs */
  const ek_rt_tensor *out; /* the outputs */
  ek_rt_main plan;         /* sizes: reads in_dims, threads; writes out_dims, arena_bytes; checks guards */
  ek_rt_main run;          /* computes the outputs; plan must have been called with the same sizes */
  const uint8_t *weights;  /* packed constants, 64-aligned */
  int64_t weight_bytes;    /* bytes of weights */
  const char *memory;      /* the arena's size as a formula in the symbols */
  /* threads for call->pool, of this model's own runtime; NULL when it has none */
  ek_rt_pool *(*pool_create)(int64_t threads);
  void (*pool_destroy)(ek_rt_pool *p); /* ends the threads of pool_create; NULL when it has none */
  /* instruction sets that the code may use (avx2 fma ..), spaces between; plan fails where they are missing. NULL:
   * none beyond the architecture's */
  const char *cpu;
  int64_t states;             /* version 3: number of states */
  const ek_rt_tensor *state;  /* version 3: what they are, under the names of their inputs */
  const ek_rt_state *between; /* version 3: what becomes of them between runs */
  /* version 4: how they lie in memory: the axes of each, outermost first, those of one state behind those of another;
   * NULL: row-major */
  const int64_t *orders;
} ek_rt_model;
#endif
