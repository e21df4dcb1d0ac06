/* Private to sym: the table.
 *
 *   sz      number of a polynomial: an array of terms (monomial, coefficient), by monomial number: the constant first
 *   mono    number of a monomial: an array of (atom, exponent), by atom number; 0 is the empty one
 *   atom    number of an atom: kind and parts. Parts are polynomials of lower atoms.
 * All three are interned by content in open-addressing tables. Objects never move (chunks), so pointers to them
 * stay good.
 *
 * State. `state` names what is assumed at the moment: permanent knowledge plus the facts on the stack, interned,
 * so that pushing the same facts again gives the same number. Whatever depends on facts (ranges,
 * sample values, remembered constructions and proofs) is stored with the state it was computed in.
 * Trials. A proof builds polynomials that nobody needs afterwards: table_trial .. table_undo drops all that came
 * in between (no atom is made in a trial). In a trial (`soft`) an overflow does not unwind
 * but sets `overflowed`.
 */
#ifndef EK_SYM_IN_H
#define EK_SYM_IN_H
#include "sym/sym.h"

enum { SAMPLES = 8, CHUNK = 1024, SMALL_LO = -64, SMALL_HI = 1024, MAX_FACTORS = 64, MAX_TERMS = 4096 };

typedef struct satom {
  uint8_t kind, depth;
  uint8_t kinds;       /* bit per atom_kind anywhere inside, its own included */
  uint8_t known;       /* samples with a value */
  uint32_t data, mono; /* mono: the monomial that is just this atom */
  sz self, arg[3];     /* VAR: arg[0] is the extent */
  sz def, subst;       /* SYMBOL: what it stands for; permanent substitution; 0 none */
  const char *name;
  const char *hint; /* SYMBOL: the name that sym_fresh was asked for; NULL: it is not from there */
  int64_t lo, hi;   /* SYMBOL, DATA: declared; any: narrowed for good */
  int64_t flo, fhi; /* narrowed by the facts on the stack */
  int64_t rlo, rhi; /* range in state rstate */
  uint64_t bloom;   /* one bit per atom inside, by number modulo 64 */
  uint64_t content; /* hash of kind, names, numbers: the same in every context */
  int64_t *val;     /* sample values in state vstate */
  uint32_t rstate, vstate;
} satom;
typedef struct smono {
  uint32_t n, deg;
  const atom *a;
  const uint8_t *e;
} smono;
typedef struct sterm {
  uint32_t mono;
  int64_t k; /* not 0 */
} sterm;
typedef struct spoly {
  uint32_t n, hash;
  const sterm *t;
  uint8_t depth, kinds, known;
  bool box;     /* sum of multiples of different leaves with constant ranges: its interval is exact */
  uint32_t deg; /* of the highest monomial */
  uint32_t rstate, vstate, cstate;
  sz canon;       /* after permanent substitutions, in state cstate */
  int64_t lo, hi; /* in state rstate */
  uint64_t bloom, content;
  int64_t *val;
} spoly;
typedef struct fact {
  sz p;             /* >= 0 */
  uint32_t number;  /* of this fact alone, as long as the context lives */
  uint32_t before;  /* state without it */
  atom bound;       /* p bounds this atom alone: kept as its range, not as a fact to search; else 0 */
  int64_t flo, fhi; /* the atom's narrowing before */
} fact;
typedef struct hashslot {
  uint32_t id, tag;
} hashslot; /* of an object: its number, 0 empty, and its hash (the object itself would often be far away) */
typedef struct hashset {
  hashslot *slot;
  uint32_t cap, n;
} hashset;
typedef struct memo_row {
  uint32_t key[4];
  uint32_t value;
} memo_row; /* key[0] 0: empty */
typedef struct memo {
  memo_row *row;
  uint32_t cap, n;
} memo;
typedef struct bump {
  uint8_t **block;
  size_t *size;
  uint32_t n, cap, at;
  size_t used;
} bump;

typedef struct symtab {
  ctx *c;
  arena *a;
  satom **atom_chunks;
  spoly **poly_chunks;
  smono **mono_chunks;
  uint32_t natoms, npolys, nmonos, atom_cap, poly_cap, mono_cap; /* caps in chunks */
  hashset atoms, polys, monos;
  bump terms;
  sz ints[SMALL_HI - SMALL_LO + 1];
  map *symbols, *states, *hidden;
  memo built, proofs;
  VEC(fact) facts;
  VEC(sz) perm;                  /* permanent facts that are no ranges and no substitutions */
  uint32_t nfacts;               /* how many were ever pushed */
  uint32_t state, root, nstates; /* root: state of the empty stack; a new one whenever permanent knowledge changes */
  uint8_t mask;                  /* samples that satisfy the facts of mask_state */
  uint32_t mask_state;
  uint32_t fresh;
  size_t text_limit;   /* printing stops there: shared parts are written out each time, which may be long */
  uint32_t loose_vars; /* variables whose extent is not known to be positive */
  bool substituted;    /* some atom has a permanent substitution */
  bool soft, overflowed;
  uint32_t trial; /* polynomials from this number on are dropped by table_undo; 0: no trial */
} symtab;

/* table.c */
symtab *sym_tab_new(ctx *c);
static inline symtab *sym_tab(ctx *c) {
  symtab *s = *ctx_slot(c, SLOT_SYM);
  return s ? s : sym_tab_new(c);
}
void sym_overflow(symtab *s);                /* unwinds, or marks the trial under way as failed */
void sym_limit(symtab *s, const char *what); /* the same for other limits */
static inline satom *sa(symtab *s, atom a) { return &s->atom_chunks[a / CHUNK][a % CHUNK]; }
static inline spoly *sp(symtab *s, sz e) { return &s->poly_chunks[e / CHUNK][e % CHUNK]; }
static inline smono *sm(symtab *s, uint32_t m) { return &s->mono_chunks[m / CHUNK][m % CHUNK]; }
static inline bool sym_const(symtab *s, sz e, int64_t *v) {
  const spoly *p = sp(s, e);
  if (p->n == 0) return *v = 0, true;
  if (p->n == 1 && p->t[0].mono == 0) return *v = p->t[0].k, true;
  return false;
}
static inline bool sym_single(symtab *s, sz e, atom *a) {
  const spoly *p = sp(s, e);
  if (p->n != 1 || p->t[0].k != 1) return false;
  const smono *m = sm(s, p->t[0].mono);
  return m->deg == 1 ? *a = m->a[0], true : false;
}
static inline uint32_t sym_nargs(uint8_t kind) {
  return kind == AT_SEL ? 3 : kind == AT_DIV || kind == AT_MIN || kind == AT_MAX ? 2 : 0;
}
sz sym_num(symtab *s, int64_t v);
sz sym_poly(symtab *s, sterm *t, uint32_t n); /* sorts, merges, interns; t is scratch */
sz sym_poly_sorted(symtab *s, const sterm *t, uint32_t n);
sterm *sym_scratch(symtab *s, uint32_t n); /* n terms; lives as long as the context */
/* interns by content (vars and symbols excepted); parts, range and def from *a */
atom sym_atom(symtab *s, const satom *a);
uint32_t mono_mul(symtab *s, uint32_t a, uint32_t b);
bool mono_div(symtab *s, uint32_t a, uint32_t b, uint32_t *q); /* a / b when it divides */
uint32_t mono_gcd(symtab *s, uint32_t a, uint32_t b);
/* an order that products respect: degree, then lexicographic by atom number */
int mono_cmp(symtab *s, uint32_t a, uint32_t b);
void *table_bytes(symtab *s, size_t n); /* memory of polynomials: dropped with them */
typedef struct trial {
  uint32_t polys, at;
  size_t used;
} trial;
trial table_trial(symtab *s);
void table_undo(symtab *s, trial t);
bool memo_get(memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t *v);
void memo_put(symtab *s, memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t v);
int sym_order(symtab *s, sz a, sz b); /* by content, the same in every context (but for variables of one name) */
int sym_order_atom(symtab *s, atom a, atom b);

/* poly.c */
void poly_divide(symtab *s, sz a, sz b, sz *q, sz *r); /* a = b*q + r */
uint64_t sym_gcd(uint64_t a, uint64_t b);
static inline uint64_t sym_mag(int64_t k) { return k < 0 ? 0 - (uint64_t)k : (uint64_t)k; }
sz sym_primitive(symtab *s, sz e); /* e >= 0 iff this >= 0: the common factor of the non-constant terms taken out */
/* pick.c */
sz sym_compound(symtab *s, atom_kind kind, sz a, sz b, sz d); /* an atom with these parts */
/* remembered constructions, by state */
enum { M_MUL = 1, M_DIV, M_MIN, M_MAX, M_SEL };
static inline bool built_get(symtab *s, uint32_t op, sz a, sz b, sz d, sz *r) {
  return memo_get(&s->built, s->state << 3 | op, a, b, d, r);
}
static inline sz built_put(symtab *s, uint32_t op, sz a, sz b, sz d, sz r) {
  if (!s->soft) memo_put(s, &s->built, s->state << 3 | op, a, b, d, r);
  return r;
}
/* prove.c */
bool sym_hopeless(symtab *s, sz e); /* e >= 0 follows from its interval or not at all */
/* proved e >= 1, where context is evaluated: the ranges of its variables are not empty */
bool sym_positive(symtab *s, sz e, sz context);
bool sym_within(symtab *s, sz r, sz d); /* proved 0 <= r < d */
/* range.c */
void sym_interval(symtab *s, sz e, int64_t *lo, int64_t *hi);
/* values at the sample points of this state; a bit for each that is known */
uint8_t sym_samples(symtab *s, sz e, const int64_t **val);
uint8_t sym_sample_mask(symtab *s); /* sample points that satisfy the facts */
/* facts.c */
void sym_learned(symtab *s);                 /* permanent knowledge has changed */
fact *facts_suspend(symtab *s, uint32_t *n); /* takes the facts off the stack for a moment */
void facts_resume(symtab *s, const fact *saved, uint32_t n);
#endif
