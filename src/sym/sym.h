/* sym: symbolic integers. Sizes of tensors, bounds of loops, index expressions, memory formulas: all are values of
 * one type, `sz`.
 *
 * Meaning. An sz denotes a mathematical integer (not a machine word): an integer constant or a polynomial with
 * integer coefficients over *atoms*:
 *   symbol   a size known at run time (`N`), with a range [lo, hi] from the start (inputs: 1 .. 10^9)
 *   var      an index variable with extent e: its range is 0 .. e-1
 *   data     an integer read from a tensor: an opaque id of the expr room, with a range if one is known
 *   a // b   floor division            min(a, b), max(a, b)            c >= 0 ? a : b
 * `a % b` is a - b*(a//b), ceil division two negations: they are no atoms.
 *
 * Normal form. Everything is interned: equal normal forms have equal ids, so `==` on sz is equality of normal
 * forms (sound, not complete; sym_eq proves more). An atom is always numbered after the atoms inside it.
 * Construction applies (and only applies):
 *   a // b   terms divisible by b leave (also for symbolic b, by exact polynomial division), so does the multiple
 *            of b in the constant; what provably lies between two multiples of b is a number (0 <= r < b gives
 *            0);
 *            common factors cancel, and (g*y + r)//(g*b) = y//b for 0 <= r < g; (x//a + k)//b = (x + k*a)//(a*b);
 *            a dividend with mostly negative terms turns its sign, so that ceil has one form
 *   min max  flatten, drop duplicates and provably dominated arms        ?:  decided, equal-armed: vanishes; a -
 *            b >= 0 ? a : b is max(a, b)
 * An atom of extent 1 never arises: sym_var of extent 1 gives the constant 0. What is built while facts are
 * pushed may be simplified by them: use it only where they hold.
 * Overflow of a coefficient is an error (ctx_fail E_SHAPE), never a wrap; in a question (ranges and proofs) it
 * means "not proved". An expression of more than SYM_MAX_DEPTH nested atoms is replaced by a fresh symbol
 * `t` with its definition kept beside it (sym_definition), so that sizes of hostile models cannot blow up; over
 * variables or data, where no symbol can stand for it, four times that depth is E_UNSUPPORTED.
 *
 * Facts. A stack of polynomials known to be >= 0 (guards, where-conditions, branches). The prover (goal-directed
 * Fourier-Motzkin with exact floors, see the study it came from) answers true only if it has a proof under the current
 * facts; false means "not proved". Ranges of vars, symbols and data are always facts; active index ranges are
 * non-empty. Whoever catches a failure pops to its own mark.
 *
 * One table per context, created on first use. Not thread-safe, questions included (they keep what they found):
 * worker threads call only sym_is_int, sym_int_or, sym_is_atom, sym_of_atom, sym_kind, sym_name,
 * sym_extent, sym_data_id, sym_args, sym_definition, sym_nterms, sym_term and sym_eval, and only while no other
 * thread calls anything else.
 */
#ifndef EK_SYM_H
#define EK_SYM_H
#include "base/base.h"

typedef uint32_t sz;   /* 0 = none; ids are meaningful within one ctx */
typedef uint32_t atom; /* 0 = none */
typedef enum { AT_SYMBOL = 1, AT_VAR, AT_DATA, AT_DIV, AT_MIN, AT_MAX, AT_SEL } atom_kind;
#define SYM_INF INT64_MAX
#define SYM_MAX_DEPTH 24

/* ---- construction ---------------------------------------------------------------------------- */
sz sym_int(ctx *c, int64_t v);
sz sym_symbol(ctx *c, const char *name, int64_t lo, int64_t hi); /* same name: same symbol (range intersected) */
sz sym_fresh(ctx *c, const char *hint, int64_t lo, int64_t hi);  /* a new symbol whose name starts with hint */
/* From now on sym_fresh may give the names that it gave before anew: for a text in which the symbols it made so far
 * do not occur. */
void sym_renew(ctx *c);
/* a new variable each time, 0..extent-1; extent 1: the constant 0 */
sz sym_var(ctx *c, const char *name, sz extent);
/* same id and range: same atom; lo > hi means unknown range */
sz sym_data(ctx *c, uint32_t id, int64_t lo, int64_t hi);
sz sym_add(ctx *c, sz a, sz b);
sz sym_sub(ctx *c, sz a, sz b);
sz sym_mul(ctx *c, sz a, sz b);
sz sym_neg(ctx *c, sz a);
sz sym_muli(ctx *c, sz a, int64_t k);
/* base + sum of x[i]*k[i]; the parts of the sum are not kept */
sz sym_dot(ctx *c, sz base, const sz *x, const sz *k, uint32_t n);
sz sym_addi(ctx *c, sz a, int64_t k);
sz sym_div(ctx *c, sz a, sz b); /* floor; b == 0 constant fails with E_SHAPE */
sz sym_mod(ctx *c, sz a, sz b); /* the result has the sign of b */
sz sym_ceildiv(ctx *c, sz a, sz b);
sz sym_min(ctx *c, sz a, sz b);
sz sym_max(ctx *c, sz a, sz b);
sz sym_sel(ctx *c, sz cond, sz a, sz b); /* cond >= 0 ? a : b */

/* ---- inspection ------------------------------------------------------------------------------ */
bool sym_is_int(ctx *c, sz e, int64_t *v); /* constant? v may be NULL */
int64_t sym_int_or(ctx *c, sz e, int64_t otherwise);
bool sym_is_atom(ctx *c, sz e, atom *a); /* e is exactly one atom */
sz sym_of_atom(ctx *c, atom a);
atom_kind sym_kind(ctx *c, atom a);
const char *sym_name(ctx *c, atom a); /* symbols and vars; "" otherwise */
/* is that its name, or the one that sym_fresh was asked for? */
bool sym_named(ctx *c, atom a, const char *name);
sz sym_extent(ctx *c, atom var); /* extent of a var */
uint32_t sym_data_id(ctx *c, atom a);
/* DIV: a, b; MIN/MAX: two; SEL: cond, a, b; returns how many */
uint32_t sym_args(ctx *c, atom a, sz out[3]);
/* a symbol that stands for an over-large expression, or a late size given one */
bool sym_definition(ctx *c, atom symbol, sz *def);
/* terms of the polynomial; the constant term counts if it is not 0, and comes first */
uint32_t sym_nterms(ctx *c, sz e);
/* coefficient; natoms 0: the constant term */
int64_t sym_term(ctx *c, sz e, uint32_t i, uint32_t *natoms, const atom **atoms, const uint8_t **exps);
/* e = coef*a + rest with a in neither coef nor rest. False if a occurs inside another atom or with exponent > 1.
 * coef is 0 if a does not occur. */
bool sym_linear(ctx *c, sz e, atom a, sz *coef, sz *rest);
/* as sym_linear, but quickly, for an e of variables and sizes alone and a coefficient that is a number; false:
 * another kind of e */
bool sym_plain_coef(ctx *c, sz e, atom a, int64_t *k);
bool sym_uses(ctx *c, sz e, atom a);           /* anywhere, also inside other atoms */
bool sym_uses_kind(ctx *c, sz e, atom_kind k); /* e.g. AT_DATA anywhere inside */
/* distinct atoms of that kind anywhere inside, appended once each, ascending */
void sym_atoms(ctx *c, sz e, atom_kind k, arena *a, u32vec *out);

/* ---- substitution and evaluation ------------------------------------------------------------- */
typedef sz (*sym_fn)(ctx *c, void *env, atom a); /* what replaces an atom; 0: it stays */
/* simultaneous; rebuilds (and so re-simplifies) bottom-up; memoised within one call */
sz sym_subst(ctx *c, sz e, sym_fn f, void *env);
sz sym_subst_atoms(ctx *c, sz e, const atom *atoms, const sz *by, uint32_t n); /* by[i] for atoms[i] */
sz sym_replace(ctx *c, sz e, atom a, sz by);
typedef bool (*sym_valuefn)(void *env, atom a, int64_t *v); /* value of a symbol, var or data atom */
/* false: an atom without a value, division by zero, overflow */
bool sym_eval(ctx *c, sz e, sym_valuefn f, void *env, int64_t *v);
/* Some symbols are only known to lie between two sizes (f says which, and between which; those may name others of
 * the kind): between which sizes does e lie then? Sound, not tight. Fails where bounds go round in a circle. */
typedef bool (*sym_betweenfn)(void *env, atom symbol, sz *lo, sz *hi);
void sym_between(ctx *c, sz e, sym_betweenfn f, void *env, sz *lo, sz *hi);

/* ---- ranges and proofs (under the current facts) --------------------------------------------- */
void sym_range(ctx *c, sz e, int64_t *lo, int64_t *hi); /* interval; -SYM_INF / SYM_INF when unbounded */
bool sym_ge0(ctx *c, sz e);                             /* proved e >= 0 */
bool sym_lt(ctx *c, sz a, sz b);                        /* proved a < b */
bool sym_le(ctx *c, sz a, sz b);
bool sym_eq(ctx *c, sz a, sz b);   /* proved equal */
bool sym_ne(ctx *c, sz a, sz b);   /* proved different */
uint32_t sym_push(ctx *c, sz ge0); /* assume e >= 0; returns the mark to pop to */
/* assume a != b: with a known order one more than the other; else nothing is learnt. Returns the mark to pop to */
uint32_t sym_push_ne(ctx *c, sz a, sz b);
void sym_pop(ctx *c, uint32_t mark);
uint32_t sym_mark(ctx *c);
/* The number of the fact on top of the stack, which no other fact ever has; 0: there is none. Are all facts that
 * were assumed at that time, when the mark was `mark`, assumed still? (Permanent knowledge only grows.) */
uint32_t sym_newest(ctx *c);
bool sym_still(ctx *c, uint32_t mark, uint32_t newest);
/* names what is assumed at the moment: where it is the same, the same expressions are built */
uint32_t sym_state(ctx *c);
/* Permanent equality a == b learnt at entry (a guard): orients it into a substitution when one side is a symbol
 * alone, else keeps two facts. */
void sym_assume_eq(ctx *c, sz a, sz b);
sz sym_canon(ctx *c, sz e); /* apply permanent substitutions */

/* ---- digits: the arithmetic of mixed radix, the heart of view analysis ----
 * e = d*q + r with 0 <= r < d proved (r == 0: d > 0 is taken for granted) and q, r without new // atoms: terms
 * divisible by d go to q, the others must have their interval inside [0, d).
 * On failure, if splitting a variable v (v = inner*v1 + v0, extent(v) a multiple of inner) would make it succeed,
 * *split_var and *split_inner say which; else *split_var is 0. */
bool sym_divmod(ctx *c, sz e, sz d, sz *q, sz *r, atom *split_var, sz *split_inner);
bool sym_exact_div(ctx *c, sz e, sz d, sz *q); /* e == d*q as polynomials */

/* What is built between the two is given back, unless an atom was among it: nobody may keep it, or assume facts in
 * between. What does not fit into 64 bits there is no error, but wrong. */
typedef struct sym_draft {
  uint32_t polys;  /* polynomials before it */
  uint32_t atoms;  /* atoms before it */
  uint32_t block;  /* block of their memory in use before it */
  size_t used;     /* bytes in use of that block */
  bool soft;       /* it was begun in a question */
  bool overflowed; /* something had overflowed before it */
} sym_draft;
sym_draft sym_draft_begin(ctx *c);
void sym_draft_end(ctx *c, const sym_draft *d);
/* Gives the memory of remembered proofs and constructions back: they are made anew where they are asked for. */
void sym_forget_memos(ctx *c);
/* Gives all memory of this context's sizes back: none may be asked about any more. */
void sym_forget(ctx *c);

/* ---- text ------------------------------------------------------------------------------------ */
/* e.g. `2*N + 3`, `(S + 64)//128`, `min(512, S)`, `x >= 0 ? a : b`, `data(7, 0, 9)`; vars by name, odd names between
 * backticks. Depends on content only */
void sym_print(ctx *c, sz e, sbuf *b);
/* its text in the context's arena; for messages: cut off with ... when very long */
const char *sym_str(ctx *c, sz e);
/* Reads what sym_print wrote (and % and unary minus anywhere). names resolves identifiers (vars, symbols) to sz;
 * returns 0 and records an error at pos on bad text. *s is advanced past the expression. */
sz sym_parse(ctx *c, const char **s, sz (*names)(void *env, const char *name, size_t n), void *env, srcpos pos);
#endif
