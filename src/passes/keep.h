/* Tensors that are kept in a smaller element type than their values have (private to the passes; keep.c).
 *
 * What is stored instead of a value is its code: in bf16 or f16 the value rounded; in an integer type a whole number
 * less `zero`.
 * Whoever reads the tensor reads the code and gets the value of it. A stage stores codes itself, as do the pieces of a
 * placement; of what must keep its type (inputs, outputs, values of branches and recurrences) a copy in codes is made.
 * */
#ifndef EK_PASSES_KEEP_H
#define EK_PASSES_KEEP_H
#include "fusion/fusion.h"
#include "passes/interval.h"
#include "passes/pass.h"

/* A form of codes. */
typedef struct coding {
  etype type;   /* of the codes: bf16, f16, or an integer type of at most 16 bits */
  int64_t zero; /* whole numbers: what code 0 stands for */
} coding;
typedef struct keeper {
  pw *p;              /* the run of passes */
  emodule *m;         /* the module */
  map *to;            /* tensor -> the one that is kept instead */
  map *stages;        /* that store codes -> coding */
  map *copies;        /* tensor << 32 | block -> the copy there, by coding */
  u32vec copy_stages; /* stages that make the copies */
  VEC(coding) forms;  /* per kept tensor, see form_of */
  map *form_of;       /* kept tensor -> index into forms */
} keeper;
keeper keep_begin(pw *p);
/* Can groups of elements of what a sum reads lie side by side? Along an axis that a variable of the sum counts alone,
 * or along the last one, where a window does; whole: all its values are in groups. *last: along the last axis. */
bool keep_groups(pw *p, const roles *r, ex load, uint32_t group, bool whole, bool *last);
/* Does the sum go along the axis that will be the innermost one of what the load reads? */
bool keep_sum_innermost(pw *p, const roles *r, ex load);
/* A variable of the sum whose values are whole groups, and which counts an axis of both loads alone; 0: there is none.
 */
atom keep_groups_along(pw *p, const roles *r, const ex load[2], uint32_t group);
/* The sum of stage s, a reduction of products of what is loaded, reads copies in which groups of values of the variable
 * lie side by side (keep_groups.c); after all that is kept is known. */
void keep_sum_in_groups(keeper *k, uint32_t s, const ex load[2], atom along, uint32_t group);
tid kept(const keeper *k, tid t);                           /* what is kept instead of t; 0: t itself */
coding kept_form(const keeper *k, tid t);                   /* form of a kept tensor */
bool keep_can(const keeper *k, tid t, coding as);           /* may the stage that makes t store codes? */
void keep_stage(keeper *k, tid t, coding as);               /* it will */
void keep_constant(keeper *k, tid t, tid codes, coding as); /* the constant `codes` is kept beside t */
/* A copy of t in codes, in the block of its reader, in front of it. */
tid keep_copy(keeper *k, uint32_t reader, tid t, coding as);
/* The value that the load of t has, read from its codes `of`. */
ex keep_read(const keeper *k, ex load, tid of);
ex keep_value(emodule *m, ex code, etype t, coding as); /* the value, of type t, that a code stands for */
ex whole_as_i32(emodule *m, ex value);                  /* a whole number as an i32 */
interval keep_interval(coding as);                      /* the values that whole numbers kept so may have */
int64_t code_first(etype t);                            /* the least integer code of a type */
int64_t code_last(etype t);                             /* the greatest one */
/* The code of a value. */
ex keep_code(pw *p, ex value, coding as);
/* The stages of `order`, all that there are, read what is kept and store what they shall. */
void keep_end(keeper *k, const u32vec *order);
/* The greatest and least of values that may be kept in bytes are found among the bytes (extremes.c); true: some are. */
bool extremes_kept(keeper *k, const u32vec *order);
/* Simplifies what is computed with whole numbers in the stages of `order` (whole_values.c). */
void whole_values(pw *p, const u32vec *order);
#endif
