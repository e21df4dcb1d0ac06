/* Private to sym: the table. Monomials and polynomials are interned arrays; an sz is the number of a polynomial. */
#ifndef EK_SYM_IN_H
#define EK_SYM_IN_H
#include "sym/sym.h"

typedef struct satom { uint8_t kind, depth; const char *name; sz arg[3]; uint32_t data; int64_t lo, hi; sz def, subst; } satom; /* VAR: arg[0] extent; subst: permanent substitution or 0 */
typedef struct smono { uint32_t n; const atom *a; const uint8_t *e; } smono; /* atoms ascending; [0] is the empty monomial */
typedef struct sterm { uint32_t mono; int64_t k; } sterm;                    /* k != 0 */
typedef struct spoly { uint32_t n; const sterm *t; uint8_t depth; } spoly;  /* monomials ascending: the constant first */
typedef struct symtab {
  ctx *c;
  arena *a;
  VEC(satom) atoms;
  VEC(smono) monos;
  VEC(spoly) polys;
  map *atom_ids, *mono_ids, *poly_ids, *symbols, *memo, *proofs;
  VEC(sz) facts;      /* each >= 0 */
  uint64_t facts_id;  /* identifies the fact stack's contents */
  VEC(uint64_t) facts_ids;
  bool substituted;   /* some atom has a permanent substitution */
  uint32_t fresh;
  bool soft, overflowed; /* inside a proof an overflow only means "not proved" */
} symtab;
symtab *sym_tab(ctx *c);
void sym_overflow(symtab *s); /* unwinds, or marks the proof under way as failed */
static inline satom *sa(symtab *s, atom a) { return &s->atoms.v[a]; }
static inline const spoly *sp(symtab *s, sz e) { return &s->polys.v[e]; }
static inline const smono *sm(symtab *s, uint32_t m) { return &s->monos.v[m]; }
sz sym_poly(symtab *s, sterm *t, uint32_t n);              /* sorts, merges, interns; t is scratch */
atom sym_atom(symtab *s, satom a);                         /* interns by content (vars and fresh symbols excepted) */
bool sym_const(symtab *s, sz e, int64_t *v);
uint32_t mono_mul(symtab *s, uint32_t a, uint32_t b);
bool mono_div(symtab *s, uint32_t a, uint32_t b, uint32_t *q); /* a / b when it divides */
uint32_t mono_atom(symtab *s, atom a);
#endif
