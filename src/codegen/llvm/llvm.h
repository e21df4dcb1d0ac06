/* codegen/llvm: loop programs to machine code through LLVM's C API. The only room that knows LLVM, which is loaded when
 * it is first needed (lib.h).
 *
 * Pipeline: sroa, early-cse, instcombine, simplifycfg, licm, and code generation level 2. That is as good as -O2
 * for loops whose vectors are explicit, at a tenth of its time. Level 0: no passes, level 0.
 */
#ifndef EK_LLVM_H
#define EK_LLVM_H
#include "codegen/codegen.h"

/* For loop_expand: the operations that LLVM has an instruction for, and codegen/x86 with it. env: const target *. */
bool llvm_native(void *env, sop op, etype t);

/* Loads LLVM. The target with its triple normalised and, for the host, the names that LLVM has for this machine. */
target llvm_ready(ctx *c, const target *t);
/* ---- objects; f->t and t are as llvm_ready gives them ------------------------------------------ */
/* compiles a function to an object; never refuses */
bool llvm_object(ctx *c, arena *a, const code_function *f, emitted *out);
/* the object with NAME_info and NAME_run of x */
bytes llvm_descriptor(ctx *c, const target *t, int level, const code_model *x);
/* ---- in this process --------------------------------------------------------------------------- */
typedef struct orc orc; /* LLVM's linker in memory */
orc *orc_open(ctx *c, const target *t, int level);
void orc_add(orc *o, const char *symbol, bytes obj); /* symbol: for messages */
void *orc_find(orc *o, const char *symbol);          /* unwinds where there is no such symbol */
void orc_close(orc *o);                              /* NULL: nothing happens; the code goes with it */
/* ---- for reading: of the function named `only`, or NULL: of all --------------------------------- */
/* appends LLVM IR */
void llvm_text(ctx *c, const lmodule *m, const target *t, int level, const char *only, sbuf *b);
void llvm_asm(ctx *c, const lmodule *m, const target *t, int level, const char *only, sbuf *b);
/* the instructions of the one function in an x86-64 object; t: as llvm_ready gives it */
void llvm_disassemble(ctx *c, const target *t, bytes obj, sbuf *b);
bool llvm_file(char *path,
               size_t room);       /* the library that would be loaded; false: there is none in the usual folders */
const char *llvm_identity(ctx *c); /* differs between versions of LLVM; does not load it (lib.h) */
const char *llvm_host(ctx *c);     /* "CPU features" of this machine, part of cache keys */
#endif
