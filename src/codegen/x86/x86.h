/* codegen/x86: loop programs to machine code for x86-64 with AVX2 and FMA, or AVX-512, without LLVM: a fiftieth of
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
#include "codegen/codegen.h"

bool x86_target(const target *t); /* is there code for this machine here? */
/* Instruction sets, as bits: what code needs of a processor beyond the base of x86-64. */
enum {
  IS_AVX = 1,
  IS_AVX2 = 2,
  IS_FMA = 4,
  IS_F16C = 8,
  IS_BMI2 = 16,
  IS_AVX512F = 32,
  IS_AVX512VL = 64,
  IS_AVX512BW = 128,
  IS_AVX512DQ = 256,
  IS_AVX512VBMI = 512,
  IS_AVX512BF16 = 1024
};
const char *x86_flags(arena *a, uint32_t needs); /* their names as CPU flags, spaces between; "": none */
/* The function, after loop_expand, as an object with one symbol, whose size is that of the instructions (constants
 * stand behind them), in a's memory. False: out->refused says what there is no code for. */
bool x86_object(ctx *c, arena *a, const code_function *f, emitted *out);

/* The object with NAME_run and NAME_info of a saved model that uses the runtime's threads and whose weights are the
 * hidden symbol NAME_weights. */
bytes x86_descriptor(arena *a, const code_model *x);
#endif
