/* codegen/llvm: loop programs to machine code through LLVM's C API. The only room that knows LLVM.
 *
 * JIT. Every function becomes an LLVM module and an object of its own; functions with equal text (loop_hash) are
 * compiled once; modules are built and compiled on several threads, each with a context of its own, and
 * linked by ORC. A function's symbol is made of its hash, so that callers find callees by name.
 * AOT. The same objects (those of codegen/x86, too), for a linker: position-independent, everything hidden but
 * NAME_run and NAME_info. Weights are reached through the call record, so they need no relocation.
 *
 * Pipeline: sroa, early-cse, instcombine, simplifycfg, licm, and code generation level 2. That is as good as -O2
 * for loops whose vectors are explicit, at a tenth of its time. Level 0: no passes, level 0.
 */
#ifndef EK_LLVM_H
#define EK_LLVM_H
#include "loop/loop.h"
#include "runtime/runtime.h"
#include "target/target.h"

enum { EK_CODE_AUTO, EK_CODE_LLVM, EK_CODE_OWN };
typedef struct llvm_opts {
  int level;        /* 0: fast compile, slow code; else full */
  uint32_t threads; /* that compile; 0 or 1: this one */
  /* who compiles a function: EK_CODE_AUTO: codegen/x86 where it can, else LLVM; EK_CODE_LLVM: LLVM; EK_CODE_OWN:
   * codegen/x86, or it is an error */
  int codegen;
  /* Cache of objects, or NULL. Keys are 64 hexadecimal digits: function text, target, version. `get` may be called
   * from several threads; what it gives must live as long as the context. put alone: gets all objects; key is NULL. */
  bool (*cache_get)(void *env, const char *key, bytes *obj);
  void (*cache_put)(void *env, const char *key, bytes obj);
  void *cache;
} llvm_opts;

/* For loop_expand: the operations that this room has an instruction for, and codegen/x86 with it. env: const target
 * *. */
bool llvm_native(void *env, sop op, etype t);

/* ---- in this process ------------------------------------------------------------------------- */
typedef struct jit jit;
typedef struct jit_stats {
  uint32_t functions, compiled, cached, own /* of those compiled, by codegen/x86 */;
  uint64_t code_bytes;
  double emit_ms, pass_ms, code_ms, link_ms; /* summed over threads, but link */
} jit_stats;
jit *jit_new(ctx *c, const target *t, const llvm_opts *o); /* unwinds on failure, as all functions here */
/* compiles and links all its functions. Several modules may be added; a name means the last one added */
void jit_add(jit *j, const lmodule *m);
/* what a function is called in its object; NULL when there is none */
const char *jit_symbol(jit *j, const char *function);
/* address: an ek_rt_kernel or ek_rt_main; NULL when there is none */
void *jit_find(jit *j, const char *function);
jit_stats jit_get_stats(const jit *j);
void jit_free(jit *j); /* the code goes with it; to be called before the context goes */

/* ---- objects --------------------------------------------------------------------------------- */
/* What the object of a model tells about itself. plan, run in `model` are ignored: the module's main functions named
 * `plan` and `run` are meant. */
typedef struct llvm_export {
  const char *name; /* NAME of NAME_run and NAME_info */
  const ek_rt_model *model;
  /* packed constants; put into the object when embed is set; else the object refers to the hidden symbol
   * NAME_weights */
  bytes weights;
  bool embed;
  /* NAME_run uses the pool's function ek_rt_parallel when the call has none (link runtime/pool.c too); else chunks
   * run one after the other */
  bool pool;
} llvm_export;
/* NAME_run(call): fills in weights and parallel where the caller left NULL, then runs. NAME_info(): the descriptor. */
/* One object per different function and, first, one with the descriptor: to be linked into one library or object.
 * Compiled on o->threads threads. Hidden symbols begin with ek_NAME_. */
uint32_t llvm_objects(ctx *c, const lmodule *m, const target *t, const llvm_opts *o, const llvm_export *x,
                      const bytes **objs);
/* ---- for reading ----------------------------------------------------------------------------- */
void llvm_text(ctx *c, const lmodule *m, const target *t, const llvm_opts *o, const char *only, bool optimized,
               sbuf *b);
/* As the JIT would make it: by codegen/x86 where it can and is not forbidden, read back by LLVM; the rest by LLVM. */
void llvm_asm(ctx *c, const lmodule *m, const target *t, const llvm_opts *o, const char *only, sbuf *b);
const char *llvm_identity(ctx *c); /* differs between versions of LLVM; does not load it (lib.h) */
const char *llvm_host(ctx *c);     /* "CPU features" of this machine, part of cache keys */
#endif
