/* Between the files that choose instructions (private). */
#ifndef EK_X86_BUILD_H
#define EK_X86_BUILD_H
#include "codegen/x86/in.h"

/* ---- whole numbers and pointers: a constant and multiples of registers. Sums cost nothing until one is an address
 * or a value in a register ---- */
enum { TERMS = 10 };
typedef struct term {
  vr v;
  int64_t c;
} term;
typedef struct form {
  int64_t k;
  uint32_t n;
  term t[TERMS];
} form; /* sorted by v */

/* ---- regions: the function, bodies of loops, what stands before a loop that may not run, branches. Code goes to
 * the innermost; what a loop does not change goes in front of it ---- */
enum { R_FUNC, R_LOOP, R_GUARD, R_IF };
typedef struct memo {
  uint8_t kind, vl;
  form f;
  uint64_t bits;
  vr v;
} memo;
typedef struct region {
  uint8_t kind;
  bool inner;     /* a loop without loops in it */
  bool seldom;    /* GUARD: of a loop that often has nothing to do */
  uint32_t stamp; /* differs between copies of a body */
  mis code, latch;
  vr iv;
  form from, step; /* LOOP: of a round */
  VEC(memo) memos;
} region;

enum {
  VAL_NONE,
  VAL_REGS,
  VAL_FORM,
  VAL_CONST,
  VAL_LOAD,
  VAL_SPLAT,
  VAL_COND /* a comparison that its one reader makes */
};
enum { PARTS = 8, NEST = 48, SPARE = 4 /* values beyond those of the function (each.c) */ };
typedef struct val {
  uint8_t kind, n;
  uint16_t depth; /* the region it is made in */
  uint32_t stamp; /* of that region */
  uint64_t from;  /* what it was made from */
  vr p[PARTS];
  form f; /* FORM: itself. LOAD, SPLAT: the address */
} val;
/* How a type is held. */
typedef struct shp {
  uint8_t n, vl, bytes, cls;
  bool fp;
  uint16_t lanes, per; /* lanes of a part */
} shp;

typedef struct sel {
  ctx *c;
  arena *a;
  const lfunc *f;
  const target *t;
  x86_code *x;
  bool avx512;
  unsigned vb; /* bytes of a register */
  region *r[NEST];
  uint32_t cur, at; /* innermost region; where code goes now */
  uint32_t stamps;
  val *val;
  bool *dead;
  bool *later;  /* per value: a load or a comparison that its one use can do */
  bool *shared; /* per `get`: the register itself will do, it is not set before the last use */
  lv *into;     /* the register that this value is made in: its only use is a set */
  vr args, lo, hi, worker, scratch;
  uint32_t call_slot; /* 1 + slot */
  map *pooled;
  const char *(*symbol)(void *env, const char *func);
  void *env;
  const char *why;
} sel;

static inline const linst *xg_origin(const sel *e, lv p) { /* what a pointer is an offset of */
  const linst *i = li(e->f, p);
  while (i->kind == L_OFFSET) i = li(e->f, i->a);
  return i;
}
/* build.c */
void xg_refuse(sel *e, const char *why);
vr xg_new(sel *e, unsigned cls, unsigned vl);
void xg_emit(sel *e, mi i);
/* the outermost region in which something that needs region `need` is as often made as there, or less; what only a
 * loop that seldom runs needs is made within its guard */
uint32_t xg_place(const sel *e, uint32_t need);
void xg_open(sel *e, unsigned kind);
region *xg_close(sel *e);
void xg_append(sel *e, const mis *code);
form xg_const(int64_t k);
form xg_var(vr v);
form xg_add(sel *e, const form *a, const form *b, int64_t times); /* a + times*b */
form xg_mul(sel *e, const form *a, const form *b);
vr xg_reg(sel *e, const form *f);
amem xg_address(sel *e, const form *f);
uint32_t xg_depth(const sel *e, const form *f);
vr xg_imm(sel *e, int64_t k);
vr xg_splat_bits(sel *e, uint64_t bits, unsigned bytes, unsigned vl); /* a constant in all elements */
uint32_t xg_pool(sel *e, const void *p, size_t n, unsigned align);
vr xg_pool_vector(sel *e, const void *p, unsigned vl);
vr xg_zero(sel *e);
vr xg_count_mask(sel *e, lv count, unsigned lanes); /* AVX-512 */
/* value.c */
shp xg_shape(sel *e, ltype t);
vr xg_part(sel *e, lv v, unsigned q);
vr xg_gpr(sel *e, lv v);
form xg_form(sel *e, lv v);
void xg_operand(sel *e, mi *i, lv v, unsigned q); /* as b, which may be memory */
bool xg_lazy(const sel *e, lv v);
vr xg_out(sel *e, lv v, unsigned q); /* where part q of the value goes */
void xg_result(sel *e, lv v, unsigned n, const vr *p);
/* operands are known: code goes where it is needed least often */
void xg_begin(sel *e, lv v, const lv *x, unsigned n);
/* bytes from place `at` of a register, at the front of another */
vr xg_sub(sel *e, vr v, unsigned vl, unsigned at, unsigned bytes);
/* n registers of `bytes` valid bytes, one after the other */
vr xg_join(sel *e, vr *p, unsigned n, unsigned bytes);
vr xg_mask(sel *e, lv v, unsigned q, unsigned per); /* lanes of part q of a bool vector */
vr xg_scalar_mask(sel *e, vr g);
/* op.c */
void xg_op(sel *e, lv v, const linst *i);
/* OP_MAX: i is x > y ? x : y, which the machine has, NaN and all; OP_MIN: x < y ? x : y; else OP_NONE */
sop xg_extreme(const lfunc *f, const linst *i);
static inline unsigned xg_by_size(unsigned bytes, unsigned b, unsigned w, unsigned d, unsigned q) {
  return bytes == 1 ? b : bytes == 2 ? w : bytes == 4 ? d : q;
}
unsigned xg_minmax_of(unsigned bytes, bool max, bool u); /* of whole numbers */
/* of floats, NaN wins; y 0: part q of that value, which may be in memory */
void xg_minmax_to(sel *e, const shp *s, bool max, vr d, vr x, vr y, lv from, unsigned q);
/* scalar.c */
bool xg_scalar_int(sel *e, lv v, const linst *i, etype t); /* false: not known */
vr xg_gop(sel *e, unsigned op, vr a, vr b);
vr xg_gopi(sel *e, unsigned op, vr a, int64_t k);
vr xg_g1(sel *e, unsigned op, vr b);
vr xg_choose(sel *e, vr a, vr b, unsigned cc, vr yes, vr no); /* a cc b ? yes : no; b 0: a compared with 0 */
vr xg_wrapped(sel *e, etype t, vr v);                         /* extended again after an operation */
/* select.c */
void xg_value(sel *e, lv v, const linst *i);
unsigned xg_condition(sel *e, lv c); /* sets flags: under which condition is the bool true? */
/* each.c */
typedef struct undo {
  uint32_t code[NEST], latch[NEST], memos[NEST];
  lv x[6];
  uint8_t kind[6];
} undo;
void xg_mark(sel *e, const linst *i, undo *u);
void xg_undo(sel *e, const undo *u);        /* takes back all since the mark, and the refusal */
void xg_each(sel *e, lv v, const linst *i); /* lane by lane */
/* lanes.c */
void xg_hreduce(sel *e, lv v, const linst *i);
void xg_extract(sel *e, lv v, const linst *i);
void xg_shuffle(sel *e, lv v, const linst *i);
void xg_lookup(sel *e, lv v, const linst *i);
void xg_splat(sel *e, lv v, const linst *i);
void xg_iota(sel *e, lv v, const linst *i);
/* cast.c */
void xg_cast(sel *e, lv v, const linst *i);
void xg_saturate(sel *e, lv v, const linst *i);
/* memory.c */
void xg_load(sel *e, lv v, const linst *i);
void xg_store(sel *e, const linst *i);
void xg_prefetch(sel *e, const linst *i);
bool xg_can_broadcast(unsigned op, unsigned bytes); /* allocate.c */
#endif
