/* The different functions of a module, each compiled to an object (private; batch.c, emit.c). */
#ifndef EK_BATCH_H
#define EK_BATCH_H
#include "codegen/emit/emit.h"

typedef struct unit {
  const lfunc *f;     /* the first of the functions with this text */
  const char *symbol; /* name of the function in its object */
  const emitter *by;  /* who compiled it; NULL: nobody so far */
  emitted out;        /* the object, in the context's memory; refused: by the own emitter */
} unit;
typedef struct batch {
  ctx *c;           /* context */
  target t;         /* the machine as given; emitters resolve copies */
  code_opts o;      /* how code is made */
  const lmodule *m; /* module of the functions */
  map *by_name;     /* function name -> index into units */
  VEC(unit) units;  /* one per different function */
  u32vec todo;      /* indices of the units that are still to be compiled */
  bool hidden;      /* symbols are visible to the linker only */
} batch;
batch *batch_new(ctx *c, const lmodule *m, const target *t, const code_opts *o, const char *prefix);
unit *batch_unit(batch *b, const char *func);                    /* NULL: there is no such function */
void emit_units(batch *b);                                       /* compiles todo, which is empty afterwards */
bool emit_tries(const emitter *e, const target *t, int codegen); /* objects for t are asked of e, and it makes them */
#endif
