/* Private to sym: the table.
 *
 *   sz      number of a polynomial: an array of terms (monomial, coefficient), by monomial number: the constant first
 *   mono    number of a monomial: an array of (atom, exponent), by atom number; 0 is the empty one
 *   atom    number of an atom: kind and parts. Parts are polynomials of lower atoms.
 * All three are interned by content in open-addressing tables. Objects never move (chunks), so pointers to them
 * stay good.
 *
 * State. `state` names what is assumed at the moment: permanent knowledge plus the facts on the stack, interned, so
 * that pushing the same facts again gives the same number. Whatever depends on facts (ranges, sample values, remembered
 * constructions and proofs) is stored with the state it was computed in. Trials. A proof builds polynomials that nobody
 * needs afterwards: table_trial .. table_undo drops all that came in between (no atom is made in a trial; where a draft
 * of sym.h makes one, nothing is dropped). In a trial (`soft`) an overflow does not unwind but sets `overflowed`.
 */
#ifndef EK_SYM_IN_H
#define EK_SYM_IN_H
#include "sym/sym.h"

enum { SAMPLES = 8, CHUNK = 1024, SMALL_LO = -64, SMALL_HI = 1024, MAX_FACTORS = 64, MAX_TERMS = 4096 };

typedef struct satom {
  uint8_t kind;     /* atom_kind */
  uint8_t depth;    /* nesting of atoms with parts; 0: a leaf (variable, symbol, data) */
  uint8_t kinds;    /* bit per atom_kind anywhere inside, its own included */
  uint8_t known;    /* bit per sample point with a value, in state vstate */
  uint32_t data;    /* DATA: the number that the caller gave it */
  uint32_t mono;    /* the monomial that is just this atom; 0: not asked for yet */
  sz self;          /* the polynomial that is just this atom */
  sz arg[3];        /* parts; VAR: arg[0] is the extent; 0: none */
  sz def;           /* SYMBOL: what it stands for; 0: nothing */
  sz subst;         /* SYMBOL: what replaces it for good (sym_canon); 0: nothing */
  const char *name; /* VAR, SYMBOL: its name */
  const char *hint; /* SYMBOL: the name that sym_fresh was called with; NULL: it is not from there */
  int64_t lo, hi;   /* SYMBOL, DATA: declared range; any: narrowed for good; inclusive */
  int64_t flo, fhi; /* range by the facts on the stack; inclusive */
  int64_t rlo, rhi; /* range in state rstate; inclusive */
  uint64_t bloom;   /* one bit per atom inside, by number modulo 64 */
  uint64_t content; /* hash of kind, names, numbers: the same in every context */
  int64_t *val;     /* SAMPLES values at the sample points, in state vstate; NULL: not computed yet */
  uint32_t rstate;  /* state that rlo and rhi are of; 0: none */
  uint32_t vstate;  /* state that val and known are of; 0: none */
} satom;
typedef struct smono {
  uint32_t n;       /* number of different atoms */
  uint32_t deg;     /* degree: sum of the exponents */
  const atom *a;    /* the atoms, ascending */
  const uint8_t *e; /* exponent of each, at least 1 */
} smono;
typedef struct sterm {
  uint32_t mono; /* the monomial */
  int64_t k;     /* coefficient, not 0 */
} sterm;
typedef struct spoly {
  uint32_t n;       /* number of terms; 0: the number 0 */
  uint32_t hash;    /* hash of the terms, in this context */
  const sterm *t;   /* the terms, by monomial number */
  uint8_t depth;    /* greatest depth of its atoms */
  uint8_t kinds;    /* bit per atom_kind anywhere inside */
  uint8_t known;    /* bit per sample point with a value, in state vstate */
  bool box;         /* sum of multiples of different leaves with constant ranges: its interval is exact */
  uint32_t deg;     /* degree of the highest monomial */
  uint32_t rstate;  /* state that lo and hi are of; 0: none */
  uint32_t vstate;  /* state that val and known are of; 0: none */
  uint32_t cstate;  /* state that canon is of; 0: none */
  sz canon;         /* this polynomial after permanent substitutions, in state cstate */
  int64_t lo, hi;   /* range in state rstate; inclusive */
  uint64_t bloom;   /* one bit per atom inside, by number modulo 64 */
  uint64_t content; /* hash of the terms by content: the same in every context */
  int64_t *val;     /* SAMPLES values at the sample points, in state vstate; NULL: not computed yet */
} spoly;
typedef struct fact {
  sz p;             /* the polynomial that is >= 0 */
  uint32_t number;  /* number of this fact alone, as long as the context lives */
  uint32_t before;  /* state without it */
  atom bound;       /* p bounds this atom alone: kept as its range, not as a fact to search; else 0 */
  int64_t flo, fhi; /* the atom's flo and fhi without it */
} fact;
/* A place of a hash set. */
typedef struct hashslot {
  uint32_t id;  /* number of the object; 0: empty */
  uint32_t tag; /* its hash (the object itself would often be far away) */
} hashslot;
typedef struct hashset {
  hashslot *slot; /* open addressing */
  uint32_t cap;   /* number of slots, a power of two; 0: none yet */
  uint32_t n;     /* slots in use */
} hashset;
/* A remembered answer. */
typedef struct memo_row {
  uint32_t key[4]; /* what was asked; key[0] 0: empty */
  uint32_t value;  /* the answer */
} memo_row;
typedef struct memo {
  memo_row *row; /* open addressing, by hash of the key */
  uint32_t cap;  /* number of rows, a power of two; 0: none yet */
  uint32_t n;    /* rows in use */
} memo;
typedef struct bump {
  uint8_t **block; /* the blocks of memory */
  size_t *size;    /* bytes of each block */
  uint32_t n;      /* number of blocks */
  uint32_t cap;    /* places for blocks */
  uint32_t at;     /* the block in use */
  size_t used;     /* bytes in use of that block */
} bump;

typedef struct symtab {
  ctx *c;                           /* context that owns the table */
  arena *a;                         /* its memory */
  satom **atom_chunks;              /* atoms by number, CHUNK in each chunk */
  spoly **poly_chunks;              /* polynomials by number, CHUNK in each chunk */
  smono **mono_chunks;              /* monomials by number, CHUNK in each chunk */
  uint32_t natoms;                  /* numbers of atoms in use, 0 included */
  uint32_t npolys;                  /* numbers of polynomials in use, 0 included */
  uint32_t nmonos;                  /* numbers of monomials in use, 0 included */
  uint32_t atom_cap;                /* chunks of atoms */
  uint32_t poly_cap;                /* chunks of polynomials */
  uint32_t mono_cap;                /* chunks of monomials */
  hashset atoms;                    /* atoms by content */
  hashset polys;                    /* polynomials by content */
  hashset monos;                    /* monomials by content */
  bump terms;                       /* memory of polynomials, which table_undo takes back */
  sz ints[SMALL_HI - SMALL_LO + 1]; /* polynomials of small constants; 0: not asked for yet */
  map *symbols;                     /* name -> atom */
  map *states;                      /* (state, fact) -> state after it */
  map *hidden;                      /* sz of a nested atom -> sz of the symbol that stands for it (pick.c) */
  memo built;                       /* constructions, by state */
  memo proofs;                      /* results of proofs, by state */
  VEC(fact) facts;                  /* the stack of facts */
  VEC(sz) perm;                     /* permanent facts that are no ranges and no substitutions */
  uint32_t nfacts;                  /* how many were ever pushed */
  uint32_t state;                   /* number of what is assumed now */
  uint32_t root;                    /* state of the empty stack; a new one whenever permanent knowledge changes */
  uint32_t nstates;                 /* highest number of a state */
  uint8_t mask;                     /* bit per sample point that satisfies the facts of mask_state */
  uint32_t mask_state;              /* state that mask is of; 0: none */
  uint32_t fresh;                   /* numbers of names made unique */
  size_t text_limit;   /* printing stops there: shared parts are written out each time, which may be long */
  uint32_t loose_vars; /* variables whose extent is not known to be positive */
  bool substituted;    /* some atom has a permanent substitution */
  bool soft;           /* an overflow sets `overflowed` instead of unwinding */
  bool overflowed;     /* an overflow or a limit was met while soft */
  uint32_t trial;      /* polynomials from this number on are dropped by table_undo; 0: no trial */
} symtab;

/* table.c */
symtab *sym_tab_new(ctx *c);
static inline symtab *sym_tab(ctx *c) {
  symtab *s = *ctx_slot(c, SLOT_SYM);
  return s ? s : sym_tab_new(c);
}
void sym_overflow(symtab *s);                /* unwinds, or marks the trial under way as failed */
void sym_limit(symtab *s, const char *what); /* other limits, treated as sym_overflow does */
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
  uint32_t polys; /* number of polynomials before it */
  uint32_t at;    /* block of bump.block in use before it */
  size_t used;    /* bytes in use of that block before it */
} trial;
trial table_trial(symtab *s);
void table_undo(symtab *s, trial t);
bool memo_get(memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t *v);
void memo_put(symtab *s, memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t v);
/* order by content, the same in every context (but for variables of one name) */
int sym_order(symtab *s, sz a, sz b);
int sym_order_atom(symtab *s, atom a, atom b);

/* poly.c */
void poly_divide(symtab *s, sz a, sz b, sz *q, sz *r); /* a = b*q + r */
uint64_t sym_gcd(uint64_t a, uint64_t b);
static inline uint64_t sym_mag(int64_t k) { return k < 0 ? 0 - (uint64_t)k : (uint64_t)k; }
sz sym_primitive(symtab *s, sz e); /* e >= 0 iff this >= 0: the common factor of the non-constant terms taken out */
/* pick.c */
sz sym_compound(symtab *s, atom_kind kind, sz a, sz b, sz d); /* interns an atom with these parts */
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
