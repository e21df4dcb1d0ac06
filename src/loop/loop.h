/* loop: explicit programs over memory. Loop nests, buffers, vector values, calls. Every emitter (LLVM, C, ...) reads
 * only this level.
 *
 * A loop module is a list of functions. In the text words may stand before the first one: `fast`, then exp, tanh and
 * erf of f32 may err by 6e-5 of their value; `flush`, then a subnormal number may become 0 where it is rounded to
 * bf16. A *kernel* has the fixed C signature `void k(const int64_t *args,
 * int64_t lo, int64_t hi, int64_t worker)`: it does the chunks lo..hi-1 of its parallel range; its parameters
 * are read from args (one 64-bit slot each: a pointer or an integer). *main* functions run the program: they
 * compute sizes, then call kernels; their signature is in runtime.h (`ek_rt_call`).
 * A kernel that uses `scratch` takes two more arguments after its parameters: the scratch area (ptr u8,
 * 64-aligned) and the bytes per worker (a multiple of 64); worker w's part begins at area + w*bytes.
 * The parameters of a main function are fields of its call record, found by name: in.K and out.K (pointer to
 * input or output K), in_dims, out_dims (ptr i64), arena, weights (ptr u8), threads, scratch, arena_bytes (i64),
 * and call (ptr i64: the record itself, slot by slot, to write scratch [9] and arena_bytes [10]).
 *
 * A function is a structured list of instructions. An instruction that yields a value is referred to by its
 * number (`%7`), is defined once, and is visible in its block after it and in blocks inside.
 * In the text an integer in place of a value is that i64 constant.
 * Types: element type x lanes (lanes 1: scalar), or a pointer to elements (`ptr f32`). bool values are one bit in
 * registers and one byte (0/1) in memory. Sub-32-bit floats are converted by cast.
 * Indices are i64, in elements, never negative offsets out of the buffer. Vector accesses need only element
 * alignment unless the instruction carries `align` (bytes).
 *
 *   const T k | lo | hi | worker | param NAME            constants and the function's own values
 *   op SOP T a b c                                        scalar operations of expr/ops.h, lane by lane; sel
 *   evaluates both sides (no laziness here); operands have equal lanes
 *   splat T a      iota T                                 all lanes equal; 0, 1, 2, ... (integer type)
 *   load T p i [mask m] [n count] [stride s]              lanes elements from p[i], p[i+1], ... (stride s: p[i],
 *   p[i+s], ...; s is a value); mask: a bool vector, inactive lanes give 0 and touch no memory;
 *                                                         count: the first n lanes are active
 *   gather T p ivec [mask m]                              lanes elements p[ivec[l]]; ivec of u8: p has 256
 *   store p i v [mask m] [n count] [stride s]    scatter p ivec v [mask m]      (scatter in lane order: last wins)
 *   prefetch p i                                          a hint that p[i] will be read soon; it touches nothing,
 *   and may lie outside of the buffer
 *   hreduce ROP v                                         all lanes to a scalar; sum/prod/max/min/any/all, tree order
 *   extract v LANE      shuffle a b [lanes...]            one lane; lanes of the concatenation of a and b (-1: any)
 *   lookup T i [k ...]                                    lane l: the constant number i[l] mod n of the n listed
 *   (a power of two, 16 at most), whose bits the list gives; T has 32 bits, i is of i32
 *   offset p i                                            pointer to p[i]
 *   alloc T n                                             n elements of stack memory, 64-aligned (n a
 *   compile-time constant); uninitialised
 *   scratch T bytes_offset                                this worker's scratch area (program level sizes it):
 *   pointer at that byte offset
 *   reg T a  /  get r  /  set r a                         a mutable register (accumulator) with its initial
 *            value; reading; writing
 *   for i = a to b step s [while r] [unroll n] { ... }    s > 0; i is the block's value; trip count may be 0;
 *   while: the register r (bool) is looked at before every trip, the loop ends when it is false
 *   if c { ... } else { ... }
 *   call K n [args...]                                    runs the chunks 0..n-1 of kernel K here and now;
 *   parallel K n [args...] hands them to the pool (main functions only)
 *   fail c CODE "text"      fail c CODE at p              if c: return CODE from main (main functions only), with
 *   the text, or the one that p (ptr u8) points to
 *   intrin NAME T [args...]                               an instruction that the target declares, with its
 *   operands in the order of the declaration: the accumulator, then unsigned integers, each a lane's group of elements
 *   comment "text"                                        where the next instructions come from
 *
 * Every access must be in bounds of its buffer; the verifier checks types and visibility, not bounds.
 * Floating point is IEEE, not reassociated or contracted by emitters: what is wanted is said (fma). min/max: NaN wins.
 */
#ifndef EK_LOOP_H
#define EK_LOOP_H
#include "base/base.h"
#include "expr/ops.h"

typedef uint32_t lv; /* value: an instruction of this function; 0 = none */
typedef struct ltype {
  uint8_t elem;   /* etype */
  uint8_t ptr;    /* 1: a pointer to elem */
  uint16_t lanes; /* number of lanes; 1: a scalar */
} ltype;

typedef enum {
  L_CONST = 1,
  L_LO,
  L_HI,
  L_WORKER,
  L_PARAM,
  L_OP,
  L_SPLAT,
  L_IOTA,
  L_LOAD,
  L_GATHER,
  L_STORE,
  L_SCATTER,
  L_PREFETCH,
  L_HREDUCE,
  L_EXTRACT,
  L_SHUFFLE,
  L_LOOKUP,
  L_OFFSET,
  L_ALLOC,
  L_SCRATCH,
  L_REG,
  L_GET,
  L_SET,
  L_FOR,
  L_IF,
  L_CALL,
  L_PARALLEL,
  L_FAIL,
  L_INTRIN,
  L_COMMENT
} lkind;

typedef struct linst {
  uint8_t kind;   /* lkind */
  uint8_t op;     /* sop or rop */
  uint16_t align; /* load/store: known alignment in bytes, 0 = element */
  ltype type;     /* type of the value; stores: of what is stored; FOR: of the index */
  lv a;           /* LOAD, STORE: pointer. FOR: from. IF: condition */
  lv b;           /* LOAD, STORE: index. FOR: to */
  lv c;           /* STORE: value. FOR: step */
  lv mask;        /* bool vector of active lanes; FOR: register of `while`; 0: none */
  lv count;       /* number of active lanes; 0: all */
  lv stride;      /* elements between two lanes; 0: 1 */
  /* CONST; EXTRACT lane in k.i; ALLOC elements; SCRATCH byte offset; FOR unroll hint; FAIL code */
  scalar k;
  uint32_t body;        /* FOR: the body; IF: then-block */
  uint32_t other;       /* IF: else-block; 0: none */
  uint32_t nargs;       /* number of args */
  const uint32_t *args; /* CALL/PARALLEL/INTRIN: values; SHUFFLE: lanes (as int32); LOOKUP: bits of constants */
  const char *name;     /* PARAM, CALL/PARALLEL: kernel; INTRIN; FAIL, COMMENT: text; FOR: index name (for reading) */
} linst;

typedef enum { LP_READ = 1, LP_WRITE = 2, LP_NOALIAS = 4 } lparam_flags;
typedef struct lparam {
  const char *name; /* name of the parameter */
  ltype type;       /* its type */
  uint8_t flags;    /* lparam_flags */
  uint16_t align;   /* alignment of a pointer in bytes; 0: that of an element */
  lv value;         /* the value that it is in the function */
} lparam;
typedef enum { LF_KERNEL = 1, LF_MAIN } lfunc_kind;
typedef struct lblock {
  VEC(uint32_t) insts; /* instructions, in order */
} lblock;
typedef struct lfunc {
  lfunc_kind kind;        /* kernel or main function */
  const char *name;       /* unique in the module */
  const char *note;       /* what it computes, one line, for readers */
  VEC(lparam) params;     /* parameters, in the order of the args slots */
  VEC(linst) insts;       /* [0] unused */
  VEC(lblock) blocks;     /* [0] unused, [1] the body */
  arena *a;               /* memory of the function */
  uint64_t scratch_bytes; /* per worker, when known at compile time */
} lfunc;
typedef struct lmodule {
  ctx *c;             /* context */
  arena *a;           /* memory of the module */
  VEC(lfunc *) funcs; /* the functions */
  bool fast;          /* functions of f32 may err by 6e-5 of their value */
  bool flush;         /* subnormal numbers may become 0 where they are rounded to bf16 */
} lmodule;

/* ---- builder: appends to the current block; pure values are shared within their block scope (structural hashing)
 * and simplified: constants fold, x+0, x*1, x*0 on integers ---- */
typedef struct lbuild {
  lfunc *f;               /* function that gets the instructions */
  uint32_t block;         /* block that gets them */
  struct lb_scope *scope; /* innermost open block */
} lbuild;
lmodule *loop_module(ctx *c, arena *a);
lfunc *loop_func(lmodule *m, lfunc_kind k, const char *name, const char *note);
/* moves all that f has from its arena to this one, without the room it grew by: nothing is built any more */
void loop_settle(lfunc *f, arena *a);
lbuild loop_builder(lfunc *f);
/* bytes: where the buffers of a program begin, and what kernels keep in scratch, at least */
enum { BUFFER_ALIGN = 64 };
/* a parameter: the next slot of args; align: bytes to a multiple of which it points, 0: of its element */
lv lb_param(lbuild *b, const char *name, ltype t, unsigned flags, unsigned align);
lv lb_int(lbuild *b, int64_t v);           /* i64 */
lv lb_const(lbuild *b, ltype t, scalar k); /* splat when lanes > 1 */
lv lb_lo(lbuild *b);
lv lb_hi(lbuild *b);
lv lb_worker(lbuild *b);
lv lb_op(lbuild *b, sop op, ltype t, lv x, lv y, lv z); /* t: result type (bool lanes for comparisons) */
lv lb_add(lbuild *b, lv x, lv y);
lv lb_sub(lbuild *b, lv x, lv y);
lv lb_mul(lbuild *b, lv x, lv y);
lv lb_muli(lbuild *b, lv x, int64_t k);
lv lb_addi(lbuild *b, lv x, int64_t k); /* i64 */
lv lb_cmp(lbuild *b, sop op, lv x, lv y);
lv lb_splat(lbuild *b, uint16_t lanes, lv x); /* x itself when lanes == 1 */
lv lb_iota(lbuild *b, ltype t);
lv lb_load(lbuild *b, ltype t, lv p, lv i);
lv lb_load_ex(lbuild *b, ltype t, lv p, lv i, lv mask, lv count, lv stride, unsigned align);
lv lb_gather(lbuild *b, ltype t, lv p, lv ivec, lv mask);
void lb_store(lbuild *b, lv p, lv i, lv v);
void lb_store_ex(lbuild *b, lv p, lv i, lv v, lv mask, lv count, lv stride, unsigned align);
void lb_scatter(lbuild *b, lv p, lv ivec, lv v, lv mask);
void lb_prefetch(lbuild *b, lv p, lv i);
lv lb_hreduce(lbuild *b, rop op, lv v);
lv lb_extract(lbuild *b, lv v, uint32_t lane);
lv lb_shuffle(lbuild *b, lv x, lv y, const int32_t *lanes, uint16_t n);
lv lb_lookup(lbuild *b, ltype t, lv i, const uint32_t *bits, uint16_t n);
lv lb_offset(lbuild *b, lv p, lv i);
/* same address, other element type (L_OFFSET with index 0 and another type; index counts the new type) */
lv lb_ptrcast(lbuild *b, etype elem, lv p);
lv lb_alloc(lbuild *b, etype t, uint64_t n);
lv lb_scratch(lbuild *b, etype t, uint64_t byte_offset);
lv lb_reg(lbuild *b, lv init);
lv lb_get(lbuild *b, lv reg);
void lb_set(lbuild *b, lv reg, lv v);
/* Loops: `lv i; lb_for(b, "i", lo, hi, step, &i); ... lb_end(b);` */
void lb_for(lbuild *b, const char *name, lv lo, lv hi, lv step, unsigned unroll, lv *index);
/* the loop just opened ends when reg is false; its body may run once nevertheless where it is known to have one
 * trip: test reg inside, too */
void lb_while(lbuild *b, lv index, lv reg);
void lb_if(lbuild *b, lv cond);
void lb_else(lbuild *b);
void lb_end(lbuild *b);
void lb_call(lbuild *b, bool parallel, const char *kernel, lv n, const lv *args, uint32_t nargs);
void lb_fail(lbuild *b, lv cond, int code, const char *text);
void lb_fail_with(lbuild *b, int code, lv text); /* text: a pointer to it, in memory that lives as long as the call's */
lv lb_intrin(lbuild *b, const char *name, ltype t, const lv *args, uint32_t n);
void lb_comment(lbuild *b, const char *text);
static inline linst *li(const lfunc *f, lv v) { return &f->insts.v[v]; }
static inline ltype lt(etype e, unsigned lanes) { return (ltype){(uint8_t)e, 0, (uint16_t)lanes}; }
static inline bool li_lists_values(const linst *i) { return i->kind != L_SHUFFLE && i->kind != L_LOOKUP; }
static inline ltype lptr(etype e) { return (ltype){(uint8_t)e, 1, 1}; }

bool loop_const(const lfunc *f, lv v, scalar *k); /* v is a constant (all lanes equal): its value */
/* the value of an operation on integers or bools, which have type t; false: it has none here */
bool loop_eval_int(sop op, etype t, int64_t x, int64_t y, int64_t *r);

/* ---- passes on loop programs ----------------------------------------------------------------- */
/* math.c: replaces exp, log, tanh, erf, sin, cos, pow, ... of floats by vector polynomials in the operations an
 * emitter has natively (fma, round, bit casts, sel), with the error in ulp stated per function;
 * f16/bf16 arithmetic by f32 arithmetic with rounding; integer idiv/mod by flooring sequences. `native(env, op,
 * t)` says what the emitter has; OP_NONE: that a lookup among 16 constants of type t is an instruction; OP_CAST of f16:
 * conversions between it and f32; of bf16: that of f32 to it, with 0 for subnormal numbers. */
void loop_expand(lmodule *m, lfunc *f, bool (*native)(void *env, sop op, etype t), void *env);
/* hoist.c: divisions and functions of floats leave the loops that they do not depend on. */
void loop_hoist(lfunc *f);
/* expand.c: replaces each `intrin` by what `spell` makes of it with its operands in the new function, `args`; where
 * that gives 0 the instruction stays. */
void loop_spell(lfunc *f, lv (*spell)(void *env, lbuild *b, const linst *i, const lv *args), void *env);
/* ---- text, verifier, sharing ----------------------------------------------------------------- */
void loop_print(const lmodule *m, sbuf *b, const char *only); /* only: one function's name, or NULL */
void loop_print_func(const lfunc *f, sbuf *b);
lmodule *loop_parse(ctx *c, const char *text, const char *file);
bool loop_verify(const lmodule *m, const char *when);
/* Hash of the function but for names, note and comments: functions with equal hashes are compiled once. */
uint64_t loop_hash(const lfunc *f);
#endif
