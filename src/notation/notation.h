/* notation: the language of .ek files, in which operators are defined. Lexer, parser, static checker, elaboration to
 * expr.
 *
 * The manual is docs/notation.md. Three worlds, kept apart: *static* values (sizes, packs, attributes, element
 * types, strings; evaluated in the compiler), *indices* (sz over variables), *elements* (typed scalars
 * of tensors). Elaboration of one definition for given argument types and attributes runs the static world and
 * appends raw stages to an expr module: packs expanded, functions inlined, static branches decided, calls
 * of other operators inlined. It does not simplify (that is expr's), so that the evaluator can contradict the passes.
 * Shape inference is elaboration into a scratch module: output types are the declared ones with the solved sizes;
 * for integer outputs of at most 64 places whose inputs' values are known, the values too, found by
 * running the stages over symbolic sizes (point.c, contents.c).
 */
#ifndef EK_NOTATION_H
#define EK_NOTATION_H
#include "expr/expr.h"

typedef struct oplib oplib; /* a set of definitions; later sources override earlier ones of the same name */
typedef struct opdef opdef;

oplib *notation_lib(ctx *c);
/* Parses and checks one source. Errors are recorded with file, line and column; returns false if there was any (good
 * definitions of the file are still added). `file` is used in messages. */
bool notation_add(oplib *lib, const char *text, size_t n, const char *file);
/* adds a source that is known to be right, and whose text stays: an operator is read when it is asked for.
 * Definitions begin in column 1 */
bool notation_add_later(oplib *lib, const char *text, size_t n, const char *file);
/* the operator library linked into the program */
bool notation_add_builtin(oplib *lib);
/* what definitions ask of the values of data (`in lo .. hi`) is not checked from now on */
void notation_unchecked(oplib *lib);
/* its files one by one; false: there are not so many */
bool notation_builtin(uint32_t i, bytes *text, const char **file);
/* NULL if not defined; definitions are named NAME or "domain::NAME" */
const opdef *notation_find(const oplib *lib, const char *domain, const char *name);

/* "; did you mean X?" where there is an operator of that name in another domain, or of a similar name in the same
 * domain; else "" */
const char *notation_meant(const oplib *lib, arena *a, const char *domain, const char *name);

/* About a definition (for `ops`, `info`, docs) */
uint32_t notation_count(const oplib *lib);
const opdef *notation_nth(const oplib *lib, uint32_t i); /* sorted by name */
const char *opdef_name(const opdef *d);
srcpos opdef_pos(const opdef *d);
const char *opdef_domain(const opdef *d); /* "" is the standard's */
uint32_t opdef_inputs(const opdef *d);
const char *opdef_input(const opdef *d, uint32_t i);
bool opdef_input_is_static(const opdef *d, uint32_t i);      /* are its values needed when compiling (`dims`)? */
bool opdef_input_is_optional(const opdef *d, uint32_t i);    /* may it be left out? */
bool opdef_input_takes(const opdef *d, uint32_t i, etype t); /* may its elements be of this type? */
uint32_t opdef_outputs(const opdef *d);
uint32_t opdef_attrs(const opdef *d);
void opdef_types(const opdef *d, sbuf *b); /* `T: float; X: T, I: i64 -> Y: T`: element types only */
/* do the types say that this output has the shape of this input? */
bool opdef_keeps_shape(const opdef *d, uint32_t input, uint32_t output);
/* do the types say that this output has the shape that this input is broadcast to, with others? */
bool opdef_broadcasts(const opdef *d, uint32_t input, uint32_t output);
const char *opdef_doc(const opdef *d);     /* "" if none */
void opdef_print(const opdef *d, sbuf *b); /* canonical source text; parses back to the same definition */
void opdef_signature(const opdef *d, sbuf *b);
void opdef_attributes(const opdef *d, sbuf *b); /* `axis: int = 1, mode: str`: as in the signature */

typedef enum { SK_NONE, SK_INT, SK_FLOAT, SK_STRING, SK_INTS, SK_FLOATS, SK_STRINGS, SK_TENSOR } skind;
typedef struct sattr {
  const char *name;           /* name of the attribute */
  skind kind;                 /* which of the fields have a meaning */
  uint32_t n;                 /* lists: number of elements */
  int64_t i;                  /* SK_INT */
  double f;                   /* SK_FLOAT */
  const char *s;              /* SK_STRING */
  const int64_t *ints;        /* SK_INTS */
  const double *floats;       /* SK_FLOATS */
  const char *const *strings; /* SK_STRINGS */
  const ndarray *tensor;      /* SK_TENSOR */
} sattr;
/* Name and type of an attribute; SK_NONE: a type that has no name here, or i is too large. */
const char *opdef_attr(const opdef *d, uint32_t i, skind *kind);
typedef struct arg {
  bool present;    /* false: omitted optional */
  etype type;      /* element type */
  uint32_t rank;   /* number of axes */
  const sz *shape; /* size of each axis */
  tid t;           /* tensor of the module the stages go to */
  /* contents as symbolic sizes, row-major; NULL if not known. Integer tensors of at most 64 elements */
  const sz *values;
  const double *floats; /* contents of a small constant float tensor (Resize scales ...), else NULL */
  bool want;            /* outputs: somebody uses it */
} arg;

/* Elaborates `d` into block `block` of m. in[nin] are the arguments in order (variadic ones spread out); out[nout]
 * are filled: the call says by `want` which of its nout outputs are used (nout decides a variadic output's count).
 * node: the model's node name, for messages; becomes the origin of every tensor made. Records diagnostics and
 * returns false when the arguments do not fit (types, sizes, failed require) or a rank, axis or pack length
 * would depend on data. Conditions on sizes that must hold are added to m->guards. */
/* Strings: a tensor of strings is a tensor u8 with one axis more, the bytes, behind whose end are zeros (a string
 * holds no byte 0). An arg of type ET_STR has the rank of the strings; its `t` is that u8 tensor. */
bool notation_elaborate(const oplib *lib, const opdef *d, emodule *m, uint32_t block, const char *node, const arg *in,
                        uint32_t nin, const sattr *attrs, uint32_t nattrs, arg *out, uint32_t nout);

/* Assumes that a bool known as a size (`values` of a bool tensor: 1 or 0, possibly `c >= 0 ? 1 : 0`) is true or
 * false: a guard in its simplest form, and a fact for everything lowered after it. For conditions of If.
 * Guards of a block other than 0 are facts of that block alone: whoever lowers a branch takes sym_mark before it
 * and sym_pop after it. */
void notation_assume(emodule *m, uint32_t block, sz flag, bool truth, const char *node, const char *text);
sz notation_upper(emodule *m, ex value); /* an upper bound of an i64 value, from what computes it; 0: none known */

/* Does the definition state its gradient for this input (`grad(X) ..` at the top of its block)? */
bool notation_stated_gradient(const oplib *lib, const opdef *d, const char *input);
/* Elaborates stated gradients: the definition's own stages (they are merged with the forward pass where those are in
 * the same module), then those of grad(X) for every input with grads[i].want; adjoints[nout] are the
 * adjoints of the outputs. False without a diagnostic if a wanted one is not stated. */
bool notation_elaborate_gradient(const oplib *lib, const opdef *d, emodule *m, uint32_t block, const char *node,
                                 const arg *in, uint32_t nin, const sattr *attrs, uint32_t nattrs, const arg *adjoints,
                                 uint32_t nout, arg *grads);
#endif
