/* LLVM, loaded when it is first needed: a start that compiles nothing (from the cache, a saved library, --help)
 * neither maps its hundred megabytes nor runs its initialisers, and needs no LLVM on the machine.
 * The functions in use are listed in functions.def; llvm_names.h, which the build makes of that list, lets their
 * names mean members of the table below. A function that is missing in the list does not link. */
#ifndef EK_LLVM_LIB_H
#define EK_LLVM_LIB_H
#include "base/base.h"
#include "codegen/llvm/api.h"

typedef struct llvm_functions {
#define F(type, name, arguments) type(*name) arguments;
#include "codegen/llvm/functions.def"
#undef F
} llvm_functions;
extern llvm_functions ek_llvm; /* filled once per process, as LLVM's own registry of targets is */
void llvm_need(ctx *c);        /* to be called before any function of LLVM; unwinds when LLVM cannot be loaded */
#include "llvm_names.h"
#endif
