/* elab: the elaborator's own types. Private to notation.
 *
 * One walker evaluates every expression of a definition, whatever world it belongs to. Its values (`val`):
 *   none, bool, string, element type, list (pack), tensor                          static things
 *   size    an sz. `idx` is false for sizes (literals and shapes: they take the type of the other side) and true
 *           once an index took part: then it is an i64 like any other and needs a cast
 *   ratio   num / den of two sizes, exact; only floor, ceil and conversion to a float element consume it
 *   float   a double known now; a literal that takes the other side's type
 *   ex      a typed element value of the module. `str`: a string, of which this is one byte, the one at x->chr
 *           (see text.c). `weak`: built of literals and sizes only, still without a type of its own (`c ? 1.0 :
 *           0.0`). `b`: the default of an omitted input
 * A condition on sizes or indices that is not decided is an `ex` of type bool; cond_sz turns it into a
 * polynomial, where that is possible.
 *
 * Names live in two chains: locals (indices and parameters; fresh for each function call) and globals (of the
 * definition: dims, attributes, lets, tensors, functions).
 */
#ifndef EK_NOTATION_ELAB_H
#define EK_NOTATION_ELAB_H
#include "notation/ast.h"

typedef struct nten nten;
typedef struct vlist vlist;
typedef enum vkind { V_NONE = 1, V_BOOL, V_SIZE, V_RAT, V_FLOAT, V_STR, V_TYPE, V_LIST, V_TEN, V_EX } vkind;
typedef struct val {
  uint8_t kind; /* vkind */
  uint8_t type; /* V_TYPE: the element type */
  bool idx;     /* V_SIZE: an index took part */
  bool weak;    /* V_EX: built of literals and sizes only, still without a type of its own */
  bool b;       /* V_BOOL: the value; V_EX: the default of an omitted input */
  bool str;     /* V_EX: one byte of a string */
  sz s;         /* V_SIZE: the size; V_RAT: numerator */
  sz den;       /* V_RAT: denominator */
  ex e;         /* V_EX: the value in the module */
  double f;     /* V_FLOAT: the number */
  union {
    const char *str; /* V_EX: one byte of a string */
    vlist *l;        /* V_LIST: the values */
    nten *t;         /* V_TEN: the tensor */
  } p;
} val;
struct vlist {
  uint32_t n; /* number of values */
  val *v;     /* the values */
};

typedef VEC(val) valvec;

typedef struct seg { /* one element of the bracket a tensor was declared with: a dim or a pack */
  bool splat;        /* declared with `...`: a pack */
  uint32_t n;        /* number of axes: 1 without splat */
  const sz *d;       /* their sizes */
} seg;
struct nten {
  const char *name; /* its name in the definition */
  etype type;       /* element type */
  uint32_t rank;    /* number of axes */
  const sz *shape;  /* a size for each axis */
  tid t;        /* 0: never materialised (a default, or a list of sizes). Strings: u8 with one axis more, the bytes */
  bool uniform; /* every element is `fill` */
  val fill;     /* the element of a uniform tensor */
  const sz *values;     /* contents as sizes, row-major; NULL: not known */
  const double *floats; /* contents as floats, row-major; NULL: not known */
  const seg *segs;      /* dims and packs that it was declared with; NULL: not known */
  uint32_t nsegs;       /* number of segs */
  sz lo;                /* contract: lower bound of the elements */
  sz hi;                /* contract: exclusive upper bound of the elements; 0: there is no contract */
  uint32_t stage;       /* index + 1 of the stage that an update may extend; 0: none */
  bool read;            /* something loads it: an update must copy */
};

typedef enum role { R_STATIC = 1, R_INDEX, R_PARAM, R_TENSOR, R_FN } role;
typedef struct binding {
  const char *name;     /* what the definition calls it */
  uint8_t role;         /* role */
  val v;                /* its value */
  val range;            /* R_INDEX: its exclusive upper bound (a size, or a list of them); of no kind: none */
  const fndef *fn;      /* R_FN: the function */
  struct binding *next; /* the binding made before; NULL: the first */
} binding;

struct gradient;
typedef struct el {
  ctx *c;                      /* context */
  arena *a;                    /* memory of the elaboration */
  emodule *m;                  /* module that gets the stages */
  const oplib *lib;            /* operators that calls are looked up in */
  const opdef *d;              /* the definition that is elaborated */
  const char *node;            /* name of the model's node, for messages; NULL: none */
  const char *file;            /* source of the definition or function that is evaluated, for messages */
  const char *path;            /* names the call within the node, for late sizes */
  const char *op;              /* name of the definition that the node calls */
  uint32_t blk;                /* block of the module that gets the stages */
  binding *locals;             /* indices and parameters, innermost first */
  binding *globals;            /* names of the definition, youngest first */
  bool stat;                   /* the current expression is static: indices are not visible */
  uint32_t depth;              /* nested calls of operators */
  uint32_t steps;              /* expressions evaluated so far; bounded by MAX_STEPS */
  uint32_t soft;               /* depth of conditions that could not be turned into facts */
  VEC(sz) facts;               /* the conditions around the current point, each >= 0 */
  VEC(sz) extents;             /* extents of the indices bound around the current point */
  const char *recurrence_name; /* name of the step's index; NULL: not inside a recurrence */
  val recurrence_index;        /* value of the step's index */
  sz recurrence_extent;        /* number of steps */
  atom recurrence_var;         /* variable of the step; 0: the extent is 1, so there is none */
  uint32_t recurrence_id;      /* index into the module's recurrences */
  /* first pass over the body: makes its tensors only, so that its stages may name each other */
  bool recurrence_alloc;
  uint32_t nout;         /* number of outputs that the caller takes */
  map *variadic;         /* name of a variadic output -> valvec * being collected */
  map *skip;             /* names of outputs that nobody uses */
  struct gradient *grad; /* root: the stated gradient that is wanted; NULL: none */
  map *known;            /* tid -> known_values *: contents known from outside */
  struct elframe *frame; /* shared by nested calls (contents.c) */
  VEC(nten *) tiles;     /* outputs that updates alone write */
  uint32_t *serial;      /* shared by nested calls: numbers late sizes */
  bool unchecked;        /* no checks of values: nobody wants them, or they are there already */
  /* shared by nested calls: set where a stated gradient needs the arena later; NULL: no gradients are wanted */
  bool *keep;
  sz chr;        /* position in the strings of the current statement; 0: none read yet */
  sz chr_extent; /* number of positions: bytes of the longest string */
} el;
typedef struct gradient { /* a stated gradient is wanted: adjoints of the outputs in, of the inputs out */
  const val *adjoints;    /* per output: its adjoint */
  const val *results; /* per output: what the call gave, to be read in place of what is computed again; NULL: none */
  uint32_t nout;      /* number of outputs */
  uint32_t nin;       /* number of inputs */
  const arg *want;    /* per input: is its adjoint wanted? */
  val *out;           /* per input: its adjoint, where wanted */
} gradient;
typedef struct known_values {
  const sz *values;            /* the elements as sizes, row-major; 0: not known; NULL: use floats */
  const double *floats;        /* the elements as floats, row-major */
  const struct pval *elements; /* the contents as elements; NULL until first asked for */
} known_values;
typedef struct elframe {
  uint32_t mark;       /* sym_mark when the call began */
  uint32_t newest;     /* sym_newest when the call began */
  uint32_t conditions; /* number assumed around the current point (cond_push) */
  uint32_t stages;     /* stages up to this index will not change any more */
  map *passing;        /* contents found for one question alone; NULL: none */
} elframe;

/* ---- value.c: values and their arithmetic ---------------------------------------------------- */
_Noreturn void el_fail(el *x, ecode code, uint32_t line, uint32_t col, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static inline val v_none(void) { return (val){.kind = V_NONE}; }
static inline val v_bool(bool b) { return (val){.kind = V_BOOL, .b = b}; }
static inline val v_size(sz s) { return (val){.kind = V_SIZE, .s = s}; }
static inline val v_index(sz s) { return (val){.kind = V_SIZE, .s = s, .idx = true}; }
static inline val v_float(double f) { return (val){.kind = V_FLOAT, .f = f}; }
static inline val v_str(const char *s) { return (val){.kind = V_STR, .p.str = s}; }
static inline val v_type(etype t) { return (val){.kind = V_TYPE, .type = (uint8_t)t}; }
static inline val v_ten(nten *t) { return (val){.kind = V_TEN, .p.t = t}; }
static inline val v_ex(ex e) { return (val){.kind = V_EX, .e = e}; }
static inline val v_weak(ex e) { return (val){.kind = V_EX, .e = e, .weak = true}; }
val v_int(el *x, int64_t i);
val v_list(el *x, uint32_t n);                   /* n empty places */
const char *v_describe(el *x, val v);            /* for messages: "a pack of 3", "f32 element", "size 2*N" */
ex v_lift(el *x, val v, etype t, const ast *at); /* v as an element of type t, or an error at `at` */
etype v_etype(el *x, val v);                     /* type of an element value; ET_NONE if it has none of its own */
val v_cast(el *x, val v, etype t, const ast *at);
val v_binary(el *x, binop o, val a, val b, const ast *at);
val v_neg(el *x, val a, const ast *at);
val v_not(el *x, val a, const ast *at);
val v_and(el *x, val a, val b, const ast *at);
sz v_need_size(el *x, val v, const ast *at, const char *what);
int64_t v_need_int(el *x, val v, const ast *at, const char *what); /* a number known now, or a refusal */
bool v_is_int(el *x, val v, int64_t *i);
bool fraction(double f, int64_t *num, int64_t *den); /* nearby exact fraction with a denominator up to 2^20 */
val v_ratio(el *x, sz num, sz den);
/* Conditions */
bool cond_sz(el *x, ex cond, sz *c); /* cond <=> c >= 0, when cond compares sizes and indices only */
typedef struct condmark {
  uint32_t sym;   /* sym_mark before the condition */
  uint32_t facts; /* number of facts before the condition */
  bool lost;      /* a part of the condition could not be turned into facts */
} condmark;
/* its consequences are facts until cond_pop; counts x->soft when something is lost */
condmark cond_push(el *x, ex cond, bool truth);
void cond_pop(el *x, condmark k);
bool decide(el *x, val c, const ast *at, const char *what); /* a choice of structure: decided, or assumed and guarded */
val v_select(el *x, val c, val a, val b, const ast *at);
void guard_eq(el *x, sz a, sz b, bool assumption, const char *text);
void guard_ge0(el *x, sz a, bool assumption, const char *text);
/* equal, or a guard, or an error */
void need_equal(el *x, sz a, sz b, bool assumption, uint32_t line, uint32_t col, const char *what);

/* ---- names ----------------------------------------------------------------------------------- */
binding *find(el *x, const char *name);
binding *find_global(el *x, const char *name);
binding *bind_local(el *x, const char *name, role r, val v);
binding *bind_global(el *x, const char *name, role r, val v);

/* ---- walk.c: expressions --------------------------------------------------------------------- */
val ev(el *x, const ast *e);
val ev_static(el *x, const ast *e);               /* the value of a static expression */
val ev_elems(el *x, const elem *el_, uint32_t n); /* a list, packs spliced */
val ev_fn(el *x, const fndef *f, val *args, uint32_t n, const ast *at);
typedef struct bound {
  u32vec vars;      /* variables of the indices */
  binding *saved;   /* locals before the indices were bound */
  uint32_t extents; /* number of extents before the indices were bound */
} bound;
void bind_all(el *x, const binder *b, uint32_t n, const ast **exprs, uint32_t nexprs, bound *out);
void unbind(el *x, bound *b);
void bind_index(el *x, const char *name, bool splat, val lo, val hi, u32vec *vars, uint32_t line, uint32_t col);
bool range_from_accesses(el *x, const char *name, bool splat, const ast **exprs, uint32_t n, val *out);
bool range_at(el *x, const elem *lhs, uint32_t nlhs, const sz *dims, uint32_t ndims, const seg *segs, uint32_t nsegs,
              const char *name, bool splat, val *out);
val access_tensor(el *x, nten *t, const ast *e);
val load_at(el *x, nten *t, const sz *idx, ex otherwise);

/* ---- text.c: strings ------------------------------------------------------------------------- */
sz text_position(el *x); /* the index of the current byte; made when first needed */
ex text_load(el *x, nten *t, const sz *idx, ex otherwise);
ex text_literal(el *x, const char *s, const ast *at);
val text_equal(el *x, val a, val b, binop o, const ast *at);
nten *text_const(el *x, const ndarray *strings, const char *name);
nten *text_list(el *x, vlist *l, const ast *at);                   /* tensor(strings) */
bool text_call(el *x, const ast *e, const char *name, nten **out); /* bytes(X), text(B): false if e is neither */

/* ---- regex.c --------------------------------------------------------------------------------- */
val regex_plan(el *x, const char *pattern, const ast *at);
val regex_search(el *x, const char *pattern, const ast *at);

/* ---- cases.c --------------------------------------------------------------------------------- */
val case_plan(el *x, bool upper);

/* ---- builtin.c ------------------------------------------------------------------------------- */
bool builtin_call(el *x, const ast *e, val *args, uint32_t n, val *out); /* false: no such function */

/* ---- shapes.c -------------------------------------------------------------------------------- */
val broadcast_dims(el *x, val *packs, uint32_t n, const ast *at);
sz product_of(el *x, val list, const ast *at);
bool at_most_one(el *x, sz d); /* is d 0 or 1, whatever the symbols are? */
nten *reshape_tensor(el *x, nten *t, const sz *dims, uint32_t rank, const char *name, const ast *at);

/* ---- stmts.c --------------------------------------------------------------------------------- */
void run_block(el *x, const blk *b);
nten *new_tensor(el *x, const char *name, etype t, const sz *shape, uint32_t rank);
tid materialise(el *x, nten *t); /* makes sure that the tensor exists in the module */
uint32_t add_stage(el *x, nten *t, const axis *axes, uint32_t n, ex value);
void settle_tiles(el *x, nten *t);                /* checks a tensor's updates once all of them are there */
nten *const_list(el *x, val list, const ast *at); /* tensor(...) */
val late_size(el *x, ex value, const char *name);
sz bounded_size(el *x, sz s);
val known_list(el *x, nten *t, const ast *at); /* values(t) */

/* ---- domain.c: which values data may have ---------------------------------------------------- */
void require_contract(el *x, nten *t);     /* checks all elements of t, by its lo and hi */
void require_values(el *x, const stmt *s); /* checks `require e in lo .. hi for ..` */

/* ---- elab.c ---------------------------------------------------------------------------------- */
uint32_t elaborate(el *parent, const opdef *d, val *args, uint32_t nargs, const kwarg *kw, const val *kwv, uint32_t nkw,
                   uint32_t nout, const arg *want, val *out, const ast *at);
bool dims_known(el *x, const elem *dims, uint32_t n);
bool out_dims(el *x, const param *o, sz **dims, uint32_t *n, seg **segs, uint32_t *nsegs);
const param *out_param(el *x, const char *name);
etype elem_type(el *x, const char *name, uint32_t line, uint32_t col);

/* ---- gradient.c: stated gradients ------------------------------------------------------------ */
bool has_gradient(const opdef *d);
/* args, with copies of those whose gradient is stated */
val *stated_inputs(el *parent, const opdef *d, const val *args, uint32_t n);
void stated_outputs(el *parent, const opdef *d, val *args, uint32_t nargs, const kwarg *kw, const val *kwv,
                    uint32_t nkw, const val *out, uint32_t nout, uint32_t asked, const ast *at);
void run_gradients(el *x, gradient *g); /* stages of the stated gradients, behind those of the definition */

/* ---- point.c --------------------------------------------------------------------------------- */
typedef struct pval {
  enum { PV_UNKNOWN, PV_INT, PV_NUM, PV_RATIO, PV_BOOL, PV_COND /* s >= 0 */ } kind;
  sz s;     /* PV_INT: the number; PV_RATIO: numerator; PV_COND: the condition is s >= 0 */
  sz den;   /* PV_RATIO: denominator */
  double f; /* PV_NUM: the number */
  bool b;   /* PV_BOOL: the value */
} pval;
enum { POINT_PLACES = 1024 }; /* contents are found of tensors up to this many elements */
/* value of a closed element expression, if known */
pval point_ex(el *x, ex e);
/* an integer element or, of a bool tensor, one that is 1 or 0 */
pval point_size(el *x, etype t, sz s);
/* the n elements of a stage's result, where everything small that it reads is settled */
void point_stage(el *x, const stage *s, pval *out, int64_t n);
bool point_values(el *x, tid t, const sz **ints, const double **floats); /* contents of a small tensor, if known */

/* ---- contents.c ------------------------------------------------------------------------------ */
void contents_frame(el *x); /* a call begins: what is assumed now holds for all that it makes */
void contents_whole(el *x); /* the call has made all its stages: contents of any of them last */
/* finds the contents of the tensor, or of all that the value reads, and of whatever those follow from */
void contents_settle_tensor(el *x, tid t);
void contents_settle(el *x, ex e);
/* what was found: count elements; NULL: nothing is known about them */
const pval *contents_found(el *x, tid t, int64_t *count);
#endif
