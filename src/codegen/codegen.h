/* codegen: what an emitter takes and gives. The rooms below this folder are emitters (x86, llvm, c), the one that
 * chooses among them (emit), and the joining of objects into callable memory (image). */
#ifndef EK_CODEGEN_H
#define EK_CODEGEN_H
#include "loop/loop.h"
#include "runtime/runtime.h"
#include "target/target.h"

/* Writes the instructions of the target that f takes (`intrin`) as operations, but for those that the emitter writes
 * itself (writes; NULL: none). Unwinds where the target does not declare one, or its operands are others. */
void code_spell(ctx *c, lfunc *f, const target *t, bool (*writes)(const instruction *k));

/* One function to be emitted as an object file. */
typedef struct code_function {
  const lmodule *m;   /* the module of the function */
  const lfunc *f;     /* the function; emitters expand a copy of it (loop_expand) */
  const target *t;    /* the machine; the emitter's `ready` has filled in what the host decides */
  int level;          /* 0: fast compilation, slow code; 1 and above: full optimisation */
  const char *symbol; /* name of the function in the object */
  bool hidden;        /* the symbol is visible to the linker only */
  const char *(*callee)(void *env, const char *func); /* symbol of the function that f calls by the name `func` */
  void *env;                                          /* first argument of callee */
} code_function;

/* What became of a function. */
typedef struct emitted {
  bytes obj;           /* object file, in the arena that the emitter was given; n 0: refused */
  const char *refused; /* what the emitter has no code for; NULL: nothing */
  uint32_t needs;      /* x86: instruction sets of the code, bits IS_* of codegen/x86 */
  strvec also;         /* x86: texts of further CPU flags: those of instructions that the target declares */
  double emit_ms;      /* milliseconds to the emitter's first form (LLVM: IR; x86: the expanded function) */
  double pass_ms;      /* milliseconds in optimisation passes; 0 where there are none */
  double code_ms;      /* milliseconds from there to the object */
} emitted;

/* A whole model to be saved: what its object or source tells about itself. */
typedef struct code_model {
  const char *name;   /* NAME of the functions NAME_run and NAME_info */
  const char *plan;   /* symbol of the main function that plans; NULL: emit_objects and c_source look it up */
  const char *run;    /* symbol of the main function that runs; NULL: emit_objects and c_source look it up */
  ek_rt_model *model; /* inputs, outputs, memory; its plan, run and weights are ignored; emit_objects sets its cpu */
  bytes weights;      /* packed constants; p NULL: only their number of bytes is known (C source) */
  bool embed;         /* objects: the weights are put inside; false: they are the hidden symbol NAME_weights */
  bool pool;          /* objects: NAME_run falls back on ek_rt_parallel of runtime/pool.c; false: on one thread */
} code_model;

/* the version of a model's descriptor: see ek_rt_model */
static inline int64_t model_version(const ek_rt_model *d) { return d->orders ? 4 : d->states ? 3 : 2; }

/* A row of the table of emitters (codegen/emit). */
typedef struct emitter {
  const char *name;                         /* short name; `emitter` of a target is the name of a row */
  const char *makes;                        /* what comes out, for messages */
  bool (*has)(const target *t);             /* it has code for that target; NULL: for every target */
  target (*ready)(ctx *c, const target *t); /* loads what the emitter needs, gives the resolved target; or NULL */
  bool (*object)(ctx *c, arena *a, const code_function *f, emitted *out); /* false: refused. NULL: makes no objects */
  /* appends the source of a model, gives the place where the weights' text belongs. NULL: makes no source */
  size_t (*source)(ctx *c, const lmodule *m, const target *t, const code_model *x, sbuf *b);
} emitter;
#endif
