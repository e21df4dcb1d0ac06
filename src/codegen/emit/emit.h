/* codegen/emit: which emitter makes which code? The table of emitters, and the three ways its objects are used:
 *
 * JIT. Functions with equal text are compiled once, on several threads, and become callable in this process.
 * AOT. The same objects, for a linker: position-independent, everything hidden but NAME_run and NAME_info. Weights
 * are reached through the call record, so they need no relocation.
 * Reading. The instructions as text.
 *
 * A function's symbol is made of its hash, so that callers find callees by name. All functions here unwind on failure.
 */
#ifndef EK_EMIT_H
#define EK_EMIT_H
#include "codegen/codegen.h"

enum { EMIT_X86, EMIT_LLVM, EMIT_C, EMITTERS };
extern const emitter emit_table[EMITTERS];
/* the row that `emitter` of the target names; NULL there: LLVM's; unwinds when there is no such row */
const emitter *emit_of(ctx *c, const target *t);

/* Who compiles a function. */
enum {
  EK_CODE_AUTO, /* codegen/x86 where it can, else LLVM */
  EK_CODE_LLVM, /* LLVM */
  EK_CODE_OWN   /* codegen/x86; a function that it refuses is an error */
};
typedef struct code_opts {
  int level;                          /* 0: fast compilation, slow code; 1 and above: full optimisation */
  uint32_t threads;                   /* threads that compile; 0 or 1: the calling thread alone */
  int codegen;                        /* EK_CODE_AUTO, EK_CODE_LLVM or EK_CODE_OWN */
  void (*keep)(void *env, bytes obj); /* is given each object, on any thread; NULL: nobody wants them */
  void *keep_env;                     /* first argument of keep */
} code_opts;

/* ---- in this process ------------------------------------------------------------------------- */
typedef struct jit jit;
typedef struct jit_stats {
  uint32_t functions;  /* number of functions in all modules added */
  uint32_t compiled;   /* different functions compiled */
  uint32_t own;        /* number of functions compiled by codegen/x86 */
  uint64_t code_bytes; /* size of all objects */
  double emit_ms;      /* milliseconds to the emitter's first form, summed over threads */
  double pass_ms;      /* milliseconds in LLVM's passes, summed over threads */
  double code_ms;      /* milliseconds from there to objects, summed over threads */
  double link_ms;      /* milliseconds of linking; wall clock */
} jit_stats;
jit *jit_new(ctx *c, const target *t, const code_opts *o);
/* compiles and links all functions of m. Several modules may be added; a name means the last one added */
void jit_add(jit *j, const lmodule *m);
/* name of the function in its object; NULL when there is no such function */
const char *jit_symbol(jit *j, const char *function);
/* address: an ek_rt_kernel or ek_rt_main; NULL when there is no such function */
void *jit_find(jit *j, const char *function);
jit_stats jit_get_stats(const jit *j);
void jit_free(jit *j); /* the code goes with it; to be called before the context goes */

/* ---- objects --------------------------------------------------------------------------------- */
/* The objects of a model: first one with the descriptor, NAME_info and NAME_run, then one per different function; to
 * be linked into one library or object. NAME_run(call) fills in weights and parallel where the caller left NULL, then
 * runs. Hidden symbols begin with ek_NAME_. Gives the number of objects. */
uint32_t emit_objects(ctx *c, const lmodule *m, const target *t, const code_opts *o, const code_model *x,
                      const bytes **objs);

/* ---- for reading ----------------------------------------------------------------------------- */
/* Appends the instructions of the function named `only` (NULL: of all), from the emitter that the JIT would choose. */
void emit_asm(ctx *c, const lmodule *m, const target *t, const code_opts *o, const char *only, sbuf *b);
#endif
