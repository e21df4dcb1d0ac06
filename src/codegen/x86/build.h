/* Between the files that choose instructions (private). */
#ifndef EK_X86_BUILD_H
#define EK_X86_BUILD_H
#include "codegen/x86/in.h"

/* ---- whole numbers and pointers: a constant and multiples of registers. Sums cost nothing until one is an address
 * or a value in a register ---- */
enum { TERMS = 10 };
typedef struct term {
  vr v;      /* the register */
  int64_t c; /* what it is multiplied by; not 0 */
} term;
typedef struct form {
  int64_t k;     /* the constant */
  uint32_t n;    /* number of terms */
  term t[TERMS]; /* the terms, sorted by v */
} form;

/* ---- regions: the function, bodies of loops, what stands before a loop that may not run, branches. Code goes to
 * the innermost; what a loop does not change goes in front of it ---- */
enum { R_FUNC, R_LOOP, R_GUARD, R_IF };
typedef struct memo {
  uint8_t kind;  /* MEMO_* (build.c): what was made */
  uint8_t vl;    /* VL* of a vector */
  form f;        /* the sum, where it is one */
  uint64_t bits; /* the constant, or the factor of MEMO_STEP */
  vr v;          /* the register that has it */
} memo;
typedef struct region {
  uint8_t kind;    /* R_* */
  bool inner;      /* a loop without loops in it */
  bool seldom;     /* R_GUARD: of a loop that often has nothing to do */
  uint32_t stamp;  /* differs between copies of a body */
  mis code;        /* its instructions so far */
  mis latch;       /* R_LOOP: instructions at the end of each round */
  vr iv;           /* R_LOOP: register of the index */
  form from;       /* R_LOOP: first value of the index */
  form step;       /* R_LOOP: what the index grows by in a round */
  VEC(memo) memos; /* what was made in it and can be used again */
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
  uint8_t kind;   /* VAL_* */
  uint8_t n;      /* number of registers */
  uint16_t depth; /* number of the region that it is made in */
  uint32_t stamp; /* stamp of that region */
  uint64_t from;  /* hash of what it was made from */
  vr p[PARTS];    /* VAL_REGS: the registers; VAL_COND: [0] is a hash of the operands */
  form f;         /* VAL_FORM: the sum; VAL_LOAD, VAL_SPLAT: the address */
} val;
/* How values of a type are held in registers. */
typedef struct shp {
  uint8_t n;      /* number of registers */
  uint8_t vl;     /* VL* of each */
  uint8_t bytes;  /* bytes of an element */
  uint8_t cls;    /* RG, RV or RK */
  bool fp;        /* f32 or f64 */
  uint16_t lanes; /* number of lanes */
  uint16_t per;   /* lanes of one register */
} shp;

typedef struct sel {
  ctx *c;             /* context */
  arena *a;           /* memory */
  const lfunc *f;     /* the function, after loop_expand */
  x86_code *x;        /* the code that is made */
  const target *t;    /* the machine */
  bool avx512;        /* the target has AVX-512 */
  bool vbmi;          /* it permutes bytes, too */
  unsigned vb;        /* bytes of a vector register */
  region *r[NEST];    /* open regions, outer to inner */
  uint32_t cur;       /* innermost region */
  uint32_t at;        /* region that code goes to now */
  uint32_t stamps;    /* stamps given so far */
  val *val;           /* per value of the function: how it is held */
  bool *dead;         /* per value: nothing reads it, so it is not made */
  bool *later;        /* per value: a load or a comparison that its one use can do */
  bool *shared;       /* per `get`: the register itself will do, it is not set before the last use */
  lv *into;           /* per value: the register variable that it is made in, as its only use is a set; 0: none */
  vr args;            /* kernel: pointer to the arguments; main: to the call */
  vr lo;              /* kernel: first chunk */
  vr hi;              /* kernel: end of the chunks */
  vr worker;          /* number of the worker */
  vr scratch;         /* pointer to this worker's scratch; 0: none */
  uint32_t call_slot; /* 1 + stack slot of the arguments of calls; 0: none */
  map *pooled;        /* bytes of a constant -> place in the pool */
  const char *(*symbol)(void *env, const char *func); /* name of the symbol for a function that is called */
  void *env;                                          /* handed to symbol */
  const char *why;                                    /* what there is no code for; NULL: nothing so far */
} sel;

static inline const linst *xg_origin(const sel *e, lv p) { /* the pointer that p is an offset of */
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
vr xg_count_mask(sel *e, lv count, unsigned lanes); /* a mask of the first `count` lanes, for AVX-512 */
/* value.c */
shp xg_shape(sel *e, ltype t);
vr xg_part(sel *e, lv v, unsigned q);
vr xg_gpr(sel *e, lv v);
form xg_form(sel *e, lv v);
/* part q of a value as operand b of an instruction, which may be memory */
void xg_operand(sel *e, mi *i, lv v, unsigned q);
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
/* instruction for the minimum or maximum of whole numbers */
unsigned xg_minmax_of(unsigned bytes, bool max, bool u);
/* minimum or maximum of floats, NaN wins; y 0: the second operand is part q of `from`, which may be in memory */
void xg_minmax_to(sel *e, const shp *s, bool max, vr d, vr x, vr y, lv from, unsigned q);
/* scalar.c */
/* emits an operation on a whole number; false: it has no code here */
bool xg_scalar_int(sel *e, lv v, const linst *i, etype t);
vr xg_gop(sel *e, unsigned op, vr a, vr b);
vr xg_gopi(sel *e, unsigned op, vr a, int64_t k);
vr xg_g1(sel *e, unsigned op, vr b);
vr xg_choose(sel *e, vr a, vr b, unsigned cc, vr yes, vr no); /* a cc b ? yes : no; b 0: a compared with 0 */
vr xg_wrapped(sel *e, etype t, vr v); /* a whole number, extended to 64 bits again after an operation */
/* select.c */
void xg_value(sel *e, lv v, const linst *i);
unsigned xg_condition(sel *e, lv c); /* sets flags: under which condition is the bool true? */
/* each.c */
typedef struct undo {
  uint32_t code[NEST];  /* per region: number of instructions at the mark */
  uint32_t latch[NEST]; /* per region: number of instructions in the latch at the mark */
  uint32_t memos[NEST]; /* per region: number of memos at the mark */
  lv x[6];              /* operands of the instruction; 0: none */
  uint8_t kind[6];      /* kind of each operand at the mark */
} undo;
void xg_mark(sel *e, const linst *i, undo *u);
void xg_undo(sel *e, const undo *u);        /* takes back all since the mark, and the refusal */
void xg_each(sel *e, lv v, const linst *i); /* emits an instruction lane by lane */
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
/* What a saturating conversion rounds itself: the operand of the rounding that is its own operand; 0: there is none. */
lv xg_rounded(const sel *e, const linst *i);
/* memory.c */
void xg_load(sel *e, lv v, const linst *i);
/* The places in a table of bytes as i32, which are read instead of their conversion to u8; 0: they are not. */
lv xg_places(const sel *e, const linst *i);
void xg_store(sel *e, const linst *i);
void xg_prefetch(sel *e, const linst *i);
bool xg_can_broadcast(const x86_code *x, unsigned op, unsigned bytes); /* allocate.c */
#endif
