/* The functions of a module as separately compiled objects (private; unit.c). */
#ifndef EK_LLVM_UNIT_H
#define EK_LLVM_UNIT_H
#include "codegen/llvm/emit.h"

typedef struct unit {
  const lfunc *f;
  const char *symbol;
  bytes obj;
  bool cached;
  bool own;                /* made by codegen/x86; obj is in the context's memory */
  const char *refused;     /* why it is not */
  LLVMMemoryBufferRef buf; /* holds obj's bytes unless cached; the taker disposes of it and leaves NULL */
  LLVMContextRef lc;       /* while it is compiled */
  LLVMModuleRef mod;
  LLVMTargetMachineRef tm;
  double emit_ms, pass_ms, code_ms;
} unit;
typedef struct batch {
  ctx *c;
  target t; /* resolved by em_target */
  llvm_opts o;
  const char *key; /* of target and options, for cache keys; its first number is the version of this room's output */
  const lmodule *m;
  map *by_name; /* function name -> unit */
  VEC(unit) units;
  u32vec todo; /* units that unit_compile compiles */
  bool hidden; /* symbols are not exported */
} batch;
batch *unit_batch(ctx *c, const lmodule *m, const target *t, const llvm_opts *o, const char *prefix);
void unit_own(batch *b); /* compiles what codegen/x86 can of todo, which keeps the rest; does not need LLVM */
void unit_compile(batch *b);
void unit_drop(batch *b); /* the buffers that nobody took */
unit *unit_of(batch *b, const char *func);
#endif
