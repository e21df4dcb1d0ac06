/* codegen/x86: loop programs to machine code for x86-64 with AVX2 and FMA, or AVX-512, without LLVM: a hundredth of
 * its time for code that is as fast where vectors are explicit.
 *
 *   lfunc (after loop_expand) -> select: machine instructions over virtual registers -> allocate: registers and
 *   stack slots -> encode: bytes -> object: ELF
 *
 * What it does not know (an operation in some type, a number of lanes) it refuses, function by function, and LLVM
 * does it. Results are those of codegen/llvm bit for bit; the exceptions are what that leaves open, too:
 * payloads of NaNs, and the sign of the zero that min and max of two zeros give. */
#ifndef EK_X86_H
#define EK_X86_H
#include "loop/loop.h"
#include "runtime/runtime.h"
#include "target/target.h"

bool x86_target(const target *t); /* code for it can be made here */
/* The function as an object with one symbol (hidden: for the linker alone), whose size is that of the instructions
 * (constants stand behind them), in a's memory; false, with the reason: it has something unknown. symbol(env, name):
 * what to call for a kernel. */
bool x86_object(ctx *c, arena *a, const lfunc *f, const target *t, const char *name, bool hidden,
                const char *(*symbol)(void *env, const char *func), void *env, bytes *obj, const char **why);

/* The object with NAME_run and NAME_info of a saved model whose threads are the runtime's. Its code is in the
 * functions plan and run; plan, run in `model` are ignored. */
typedef struct x86_model {
  const char *name, *plan, *run;
  const ek_rt_model *model;
  size_t weight_bytes; /* of the symbol NAME_weights */
} x86_model;
bytes x86_descriptor(arena *a, const x86_model *x);
#endif
