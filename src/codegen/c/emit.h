/* Between the files of the room (private). */
#ifndef EK_C_EMIT_H
#define EK_C_EMIT_H
#include "codegen/c/c.h"

/* Helper functions of the text: C_HELPER_x is put in when something uses it (model.c has the texts). */
// clang-format off
#define C_HELPERS(X) \
  X(BITS) X(ABS_F32) X(ABS_F64) X(SQRT_F32) X(SQRT_F64) X(FMOD_F32) X(FMOD_F64) X(TOINT_F32) \
  X(TOINT_F64) X(TOUINT_F32) X(TOUINT_F64) X(DIV_I64) X(MOD_I64) X(REM_I64) X(DIV_U64) X(MOD_U64) \
  X(DIV_I32) X(MOD_I32) X(REM_I32)
// clang-format on
typedef enum c_helper {
#define X(n) C_HELPER_##n,
  C_HELPERS(X)
#undef X
      C_HELPER_COUNT
} c_helper;

typedef struct cem {
  ctx *c;              /* context */
  arena *a;            /* memory */
  const lmodule *m;    /* module of the function */
  const target *t;     /* the machine */
  const lfunc *f;      /* the function, after loop_expand */
  sbuf *b;             /* gets the text */
  int depth;           /* levels of indentation */
  bool *need;          /* per instruction: its value is used */
  uint32_t *num;       /* names of values: v1, v2, ... */
  uint64_t *helpers;   /* bit set of those used */
  map *names;          /* function name -> index into idents */
  const char **idents; /* names of functions in the text */
} cem;
const char *c_type(etype t);                 /* name of a type in the text: f32, i64, ... */
void c_expr(cem *e, lv v, const char *lane); /* a value; lane: index of a vector's lane, or NULL */
void c_op(cem *e, const linst *i, const char *lane);
void c_combine(cem *e, rop op, etype t, const char *x, const char *y);
void c_const(cem *e, sbuf *b, etype t, scalar k);
bool c_native(void *env, sop op, etype t);
void c_function(cem *e, const lfunc *f, const char *ident, bool is_static);
void c_helpers(sbuf *b, uint64_t used);
void c_string(sbuf *b, const char *s); /* a C string literal, or NULL */
#endif
