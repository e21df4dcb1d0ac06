/* What did this node mean in its own opset, said in the newest one?
 *
 * One table, a line per change of an operator that the standard made: operators, the version since which the new form
 * holds, what to do. All lines that match a node's operator and are newer than its version apply, from oldest to newest
 * (the table is in that order within an operator). Where a change moved an attribute to an input, a constant is made;
 * where its element type must be that of another input not known yet, the constant goes through CastLike, which folds
 * away. Changes of meaning that need several nodes build them. What is not here did not change, or has no operator any
 * more; the operator library will say that it does not know it.
 */
#include "onnx/upgrade.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct rule rule;
typedef struct up {
  ctx *c;          /* context */
  graph *g;        /* the graph */
  node *n;         /* the node */
  int64_t version; /* version that it is written for */
} up;
struct rule {
  const char *ops;                     /* separated by blanks; "*": any */
  int since;                           /* nodes of this version and newer are left alone */
  void (*apply)(up *u, const rule *r); /* what is done */
  const char *attr;                    /* attribute that it is about */
  int64_t arg;                         /* input position, or integer value */
  const char *text;                    /* text value */
  double number;                       /* float value */
};

/* ---- pieces ---------------------------------------------------------------------------------- */
static value *konst(up *u, const char *what, etype t, bool vector, const void *data, uint32_t n) {
  arena *a = ctx_arena(u->c);
  ndarray d = {.type = t, .rank = vector, .dims = {n}, .bytes = (size_t)n * et_bytes(t)};
  d.data = arena_dup(a, data, d.bytes);
  return graph_const(u->g, arena_fmt(a, "%s.%s", u->n->name, what), &d);
}

static value *ints(up *u, const char *what, const int64_t *v, uint32_t n) { return konst(u, what, ET_I64, true, v, n); }

/* A new node in front of u->n, which is and stays the last; or behind it. Returns its output. */
static value *put(up *u, bool in_front, const char *op, const char *what, value *const *in, uint32_t n_in,
                  node **made) {
  arena *a = ctx_arena(u->c);
  node *n = graph_node(u->g, op, "", arena_fmt(a, "%s.%s", u->n->name, what));
  for (uint32_t i = 0; i < n_in; i++) vec_push(a, n->in, in[i]);
  value *v = graph_result(u->g, n, n->name);
  if (in_front) {
    u->g->nodes.v[u->g->nodes.n - 2] = n;
    u->g->nodes.v[u->g->nodes.n - 1] = u->n;
  }
  if (made) *made = n;
  return v;
}
#define BEFORE(u, op, what, ...)                                                                                       \
  put(u, true, op, what, (value *const[]){__VA_ARGS__}, sizeof((value *const[]){__VA_ARGS__}) / sizeof(value *), NULL)

/* The node's output `i` becomes that of a new node behind it; in.v[0] of that node is a fresh value from u->n. */
static node *behind(up *u, const char *op, const char *what, value *second) {
  value *old = u->n->out.v[0];
  value *mid = graph_value(u->g, u->n->name);
  mid->def = u->n;
  u->n->out.v[0] = mid;
  node *n;
  put(u, false, op, what, (value *const[]){mid, second}, second ? 2 : 1, &n);
  n->out.v[0] = old;
  old->def = n;
  return n;
}

static value *input(const up *u, uint32_t i) { return i < u->n->in.n ? u->n->in.v[i] : NULL; }

static void set_input(up *u, uint32_t i, value *v) {
  while (u->n->in.n <= i) vec_push(ctx_arena(u->c), u->n->in, NULL);
  u->n->in.v[i] = v;
}

/* The attribute if it is there and of the kind; another kind is the model's error. */
static const attr *get(up *u, const char *name, attr_kind k) {
  const attr *a = node_attr(u->n, name);
  if (a && a->kind != k) {
    static const char *const words[] = {"",        "an integer", "a float", "a string", "integers", "floats",
                                        "strings", "a tensor",   "tensors", "a graph",  "a type"};
    diag_error(u->c, E_MODEL, u->n->name, "attribute '%s' of %s must be %s, not %s", name, u->n->op, words[k],
               words[a->kind]);
    return NULL;
  }
  return a;
}

/* A scalar of x's element type. */
static value *scalar_like(up *u, value *x, const char *what, double v) {
  if (x->type != ET_NONE) {
    uint64_t cell = 0;
    et_store(x->type, &cell, et_convert(x->type, ET_F64, (scalar){.f = v}));
    return konst(u, what, x->type, false, &cell, 1);
  }
  float f = (float)v;
  return BEFORE(u, "CastLike", arena_fmt(ctx_arena(u->c), "%s_as", what), konst(u, what, ET_F32, false, &f, 1), x);
}

static void refuse(up *u, const char *why) {
  diag_error(u->c, E_UNSUPPORTED, u->n->name, "%s as of opset %lld: %s", u->n->op, (long long)u->version, why);
}

/* ---- single steps ---------------------------------------------------------------------------- */
static void drop(up *u, const rule *r) { node_remove_attr(u->n, r->attr); }
static void rename_op(up *u, const rule *r) { u->n->op = r->text; }

static void default_int(up *u, const rule *r) {
  if (!node_attr(u->n, r->attr)) node_set_int(u->g, u->n, r->attr, r->arg);
}
static void default_float(up *u, const rule *r) {
  if (!node_attr(u->n, r->attr)) node_set_float(u->g, u->n, r->attr, r->number);
}
static void default_text(up *u, const rule *r) {
  if (!node_attr(u->n, r->attr)) node_set_string(u->g, u->n, r->attr, r->text);
}

/* text: "old=new old=new" */
static void respell(up *u, const rule *r) {
  const attr *a = get(u, r->attr, AK_STRING);
  if (!a) return;
  size_t n = strlen(a->s);
  for (const char *s = r->text; s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL)
    if (strncmp(s, a->s, n) == 0 && s[n] == '=') {
      const char *to = s + n + 1;
      node_set_string(u->g, u->n, r->attr, arena_strndup(ctx_arena(u->c), to, strcspn(to, " ")));
      return;
    }
}

static void float_to_int(up *u, const rule *r) {
  const attr *a = node_attr(u->n, r->attr);
  if (!a || a->kind != AK_FLOAT) return;
  if (fabs(a->f) < 0x1p62)
    node_set_int(u->g, u->n, r->attr, (int64_t)a->f);
  else
    diag_error(u->c, E_MODEL, u->n->name, "attribute '%s' of %s must be a whole number, not %g", r->attr, u->n->op,
               a->f);
}

static void ints_to_input(up *u, const rule *r) {
  const attr *a = get(u, r->attr, AK_INTS);
  if (a) set_input(u, (uint32_t)r->arg, ints(u, r->attr, a->ints, a->n));
  node_remove_attr(u->n, r->attr);
}

static void int_to_vector_input(up *u, const rule *r) {
  const attr *a = get(u, r->attr, AK_INT);
  if (a)
    set_input(u, (uint32_t)r->arg, ints(u, r->attr, &a->i, 1));
  else
    diag_error(u->c, E_MODEL, u->n->name, "%s needs attribute '%s'", u->n->op, r->attr);
  node_remove_attr(u->n, r->attr);
}

static void keep_outputs(up *u, const rule *r) {
  while (u->n->out.n > r->arg) u->n->out.v[--u->n->out.n] = NULL; /* whoever uses it is told that nothing produces it */
}

/* ---- changes of meaning ---------------------------------------------------------------------- */
/* Before 7, `axis` said where the second operand's dims lie in the first's; now they are aligned at the end: give it
 * the trailing ones. */
static void old_broadcast(up *u, const rule *r) {
  (void)r;
  const attr *b = get(u, "broadcast", AK_INT), *at = get(u, "axis", AK_INT);
  if (b && b->i && at) {
    value *x = input(u, 0), *y = input(u, 1);
    if (!x || !y || !x->ranked || !y->ranked) {
      refuse(u, "broadcasting along 'axis' needs the ranks of both operands; save the model with its shapes inferred, "
                "or with opset 7 or newer");
      return;
    }
    int64_t axis = at->i < 0 ? at->i + x->rank : at->i, trailing = x->rank - axis - y->rank;
    int64_t axes[MAX_RANK];
    if (axis < 0 || trailing < 0) {
      diag_error(u->c, E_SHAPE, u->n->name,
                 "the second operand of rank %u does not fit the first of rank %u at axis %lld", y->rank, x->rank,
                 (long long)at->i);
      return;
    }
    for (int64_t i = 0; i < trailing; i++) axes[i] = y->rank + i;
    if (trailing) set_input(u, 1, BEFORE(u, "Unsqueeze", "aligned", y, ints(u, "axes", axes, (uint32_t)trailing)));
  }
  node_remove_attr(u->n, "broadcast");
  node_remove_attr(u->n, "axis");
}

/* Before 7 a slope per channel was a vector. */
static void prelu_slope(up *u, const rule *r) {
  (void)r;
  value *x = input(u, 0), *s = input(u, 1);
  if (!x || !s) return;
  if (!x->ranked || !s->ranked) {
    refuse(u, "the slope's alignment needs the ranks of both inputs; save the model with its shapes inferred, or with "
              "opset 7 or newer");
    return;
  }
  int64_t axes[MAX_RANK];
  if (s->rank != 1 || x->rank <= 2) return;
  for (uint32_t i = 0; i + 2 < x->rank; i++) axes[i] = i + 1;
  set_input(u, 1, BEFORE(u, "Unsqueeze", "slope", s, ints(u, "axes", axes, x->rank - 2)));
}

/* Before 13: everything from `axis` on is one dimension. */
static void flat_softmax(up *u, const rule *r) {
  (void)r;
  const attr *a = get(u, "axis", AK_INT);
  int64_t axis = a ? a->i : 1;
  value *x = input(u, 0);
  if (!x || u->n->out.n == 0 || !u->n->out.v[0]) return;
  node_set_int(u->g, u->n, "axis", -1);
  if (axis == -1 || (x->ranked && axis == (int64_t)x->rank - 1)) return;
  value *shape = BEFORE(u, "Shape", "shape", x);
  node *flat;
  value *f = put(u, true, "Flatten", "flat", &x, 1, &flat);
  node_set_int(u->g, flat, "axis", axis);
  set_input(u, 0, f);
  behind(u, "Reshape", "back", shape);
}

static void clip_limits(up *u, const rule *r) {
  (void)r;
  value *x = input(u, 0);
  static const char *const names[] = {"min", "max"};
  for (uint32_t i = 0; i < 2 && x; i++) {
    const attr *a = get(u, names[i], AK_FLOAT);
    if (a && fabs(a->f) < FLT_MAX)
      set_input(u, EK_PLANTED("onnx-upgrade") ? 2 - i : i + 1, scalar_like(u, x, names[i], a->f));
    node_remove_attr(u->n, names[i]);
  }
}

static void pad_inputs(up *u, const rule *r) {
  (void)r;
  const char *name = node_attr(u->n, "pads") ? "pads" : "paddings";
  const attr *p = get(u, name, AK_INTS), *v = get(u, "value", AK_FLOAT);
  value *x = input(u, 0);
  if (!p || !x) {
    diag_error(u->c, E_MODEL, u->n->name, "Pad needs attribute 'pads'");
    return;
  }
  value *pads = ints(u, "pads", p->ints, p->n);
  value *fill = v && v->f != 0 ? scalar_like(u, x, "value", v->f) : NULL;
  set_input(u, 1, pads);
  if (fill) set_input(u, 2, fill);
  node_remove_attr(u->n, name);
  node_remove_attr(u->n, "value");
}

/* Before 10 the mask had the data's type. */
static void dropout_mask(up *u, const rule *r) {
  (void)r;
  if (u->n->out.n < 2 || !u->n->out.v[1] || !input(u, 0)) return;
  value *old = u->n->out.v[1], *mask = graph_value(u->g, old->name);
  mask->def = u->n;
  u->n->out.v[1] = mask;
  node *n;
  put(u, false, "CastLike", "mask", (value *const[]){mask, input(u, 0)}, 2, &n);
  n->out.v[0] = old;
  old->def = n;
}

static void resize_by_scales(up *u, value *scales) {
  value *x = input(u, 0);
  u->n->op = "Resize";
  u->n->in.n = 0;
  set_input(u, 0, x);
  set_input(u, 2, scales);
  node_set_string(u->g, u->n, "coordinate_transformation_mode", "asymmetric");
  node_set_string(u->g, u->n, "nearest_mode", "floor");
}

static void resize_from_10(up *u, const rule *r) {
  (void)r;
  resize_by_scales(u, input(u, 1));
}

/* Upsample became Resize: scales by two attributes in 1, by one in 7, by an input in 9. */
static void upsample(up *u, const rule *r) {
  (void)r;
  value *scales = input(u, 1);
  if (!scales) {
    const attr *s = get(u, "scales", AK_FLOATS), *h = get(u, "height_scale", AK_FLOAT),
               *w = get(u, "width_scale", AK_FLOAT);
    float f[MAX_RANK] = {1, 1, 0, 0};
    uint32_t n = 4;
    if (s && s->n <= MAX_RANK) {
      n = s->n;
      for (uint32_t i = 0; i < n; i++) f[i] = (float)s->floats[i];
    } else if (h && w) {
      f[2] = (float)h->f;
      f[3] = (float)w->f;
    } else {
      diag_error(u->c, E_MODEL, u->n->name, "Upsample has no scales");
      return;
    }
    scales = konst(u, "scales", ET_F32, true, f, n);
  }
  node_remove_attr(u->n, "scales");
  node_remove_attr(u->n, "height_scale");
  node_remove_attr(u->n, "width_scale");
  resize_by_scales(u, scales);
}

/* `spatial` = 0 (gone since 9): statistics for every position, not only every channel; they broadcast over the
 * batch. Some exporters (MXNet) wrote it beside one number for each channel: then the ordinary form is meant. */
static void batchnorm_everywhere(up *u, const rule *r) {
  (void)r;
  const attr *s = get(u, "spatial", AK_INT), *e = get(u, "epsilon", AK_FLOAT);
  bool each = s && s->i == 0;
  double epsilon = e ? e->f : 1e-5;
  node_remove_attr(u->n, "spatial");
  const value *scale = input(u, 1);
  if (!each || (scale && scale->ranked && scale->rank == 1)) return;
  value *in[5];
  for (uint32_t i = 0; i < 5; i++)
    if (!(in[i] = input(u, i))) return;
  value *eps = scalar_like(u, in[0], "epsilon", epsilon);
  value *var = BEFORE(u, "Add", "var", in[4], eps);
  value *dev = BEFORE(u, "Sqrt", "dev", var);
  value *mid = BEFORE(u, "Sub", "centred", in[0], in[3]);
  value *unit = BEFORE(u, "Div", "unit", mid, dev);
  value *scaled = BEFORE(u, "Mul", "scaled", unit, in[1]);
  u->n->op = "Add";
  u->n->attrs.n = 0;
  u->n->in.n = 0;
  set_input(u, 0, scaled);
  set_input(u, 1, in[2]);
}

/* Before 21 scale and bias were per group; each value is repeated over its group's channels. */
static void groupnorm_per_channel(up *u, const rule *r) {
  (void)r;
  const attr *g = get(u, "num_groups", AK_INT);
  value *x = input(u, 0);
  if (!g || !x) return;
  const int64_t one = 1, two = 2, minus = -1;
  value *c =
      BEFORE(u, "Slice", "channels", BEFORE(u, "Shape", "shape", x), ints(u, "from", &one, 1), ints(u, "to", &two, 1));
  value *per = BEFORE(u, "Div", "per_group", c, ints(u, "groups", &g->i, 1));
  node *cat;
  value *to = put(u, true, "Concat", "repeat", (value *const[]){ints(u, "one", &one, 1), per}, 2, &cat);
  node_set_int(u->g, cat, "axis", 0);
  static const char *const names[] = {"", "scale", "bias"};
  for (uint32_t i = 1; i < 3; i++) {
    if (!input(u, i)) continue;
    arena *a = ctx_arena(u->c);
    value *col = BEFORE(u, "Unsqueeze", arena_fmt(a, "%s_column", names[i]), input(u, i), ints(u, "axis", &one, 1));
    value *rep = BEFORE(u, "Expand", arena_fmt(a, "%s_repeated", names[i]), col, to);
    set_input(u, i, BEFORE(u, "Reshape", names[i], rep, ints(u, "all", &minus, 1)));
  }
}

/* Since 18 equal parts must be asked for. */
static void split_equally(up *u, const rule *r) {
  (void)r;
  if (!input(u, 1)) node_set_int(u->g, u->n, "num_outputs", u->n->out.n);
}

static void dft_axis(up *u, const rule *r) {
  (void)r;
  const attr *a = get(u, "axis", AK_INT);
  int64_t axis = a ? a->i : 1;
  set_input(u, 2, konst(u, "axis", ET_I64, false, &axis, 1));
  node_remove_attr(u->n, "axis");
}

/* Before 6 one axis was repeated: `tiles` times, along `axis`. */
static void tile_one_axis(up *u, const rule *r) {
  (void)r;
  value *x = input(u, 0), *tiles = input(u, 1), *axis = input(u, 2);
  if (!x || !tiles || !axis) return;
  const int64_t zero = 0, one = 1;
  value *like = konst(u, "zero", ET_I64, false, &zero, 1), *step = konst(u, "one", ET_I64, false, &one, 1);
  value *axes = BEFORE(u, "Range", "axes", like, BEFORE(u, "Size", "rank", BEFORE(u, "Shape", "shape", x)), step);
  value *here = BEFORE(u, "Equal", "here", axes, BEFORE(u, "CastLike", "axis_as", axis, like));
  value *repeats = BEFORE(u, "Where", "repeats", here, BEFORE(u, "CastLike", "tiles_as", tiles, like), step);
  u->n->in.n = 1;
  set_input(u, 1, repeats);
}

/* Before 6 the type was spelt out. */
static void cast_to(up *u, const rule *r) {
  (void)r;
  static const struct {
    const char *name; /* name of the type */
    int code;         /* ONNX's code of the type */
  } names[] = {
      {"FLOAT", 1},  {"UINT8", 2}, {"INT8", 3},     {"UINT16", 4},  {"INT16", 5},   {"INT32", 6},   {"INT64", 7},
      {"STRING", 8}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13},
  };
  const attr *a = node_attr(u->n, "to");
  if (!a || a->kind != AK_STRING) return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(a->s, names[i].name) == 0) {
      node_set_int(u->g, u->n, "to", names[i].code);
      return;
    }
  diag_error(u->c, E_MODEL, u->n->name, "Cast to unknown element type '%s'", a->s);
}

/* ---- the table ------------------------------------------------------------------------------- */
#define ARITHMETIC "Add Sub Mul Div And Or Xor Equal Less Greater Pow"
#define REDUCTIONS                                                                                                     \
  "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
#define NEVER INT32_MAX /* operators that left the standard: any version */
static const rule rules[] = {
    {"*", 7, drop, "consumed_inputs", 0, NULL, 0},
    {ARITHMETIC, 7, old_broadcast, NULL, 0, NULL, 0},
    {"BatchNormalization", 7, drop, "is_test", 0, NULL, 0},
    {"BatchNormalization", 9, batchnorm_everywhere, NULL, 0, NULL, 0},
    {"BatchNormalization", 14, keep_outputs, NULL, 1, NULL, 0},
    {"Cast", 6, cast_to, NULL, 0, NULL, 0},
    {"Clip", 11, clip_limits, NULL, 0, NULL, 0},
    {"Concat", 4, default_int, "axis", 1, NULL, 0},
    {"DFT", 20, dft_axis, NULL, 0, NULL, 0},
    {"Dropout", 7, drop, "is_test", 0, NULL, 0},
    {"Dropout", 10, dropout_mask, NULL, 0, NULL, 0},
    {"Dropout", 12, drop, "ratio", 0, NULL, 0},
    {"GRU LSTM RNN", 7, drop, "output_sequence", 0, NULL, 0},
    {"Gemm", 7, drop, "broadcast", 0, NULL, 0},
    {"GlobalLpPool LpPool", 2, float_to_int, "p", 0, NULL, 0},
    {"GridSample", 20, respell, "mode", 0, "bilinear=linear bicubic=cubic", 0},
    {"GroupNormalization", 21, groupnorm_per_channel, NULL, 0, NULL, 0},
    {"PRelu", 7, prelu_slope, NULL, 0, NULL, 0},
    {"Pad", 11, pad_inputs, NULL, 0, NULL, 0},
    {"ReduceSum", 13, ints_to_input, "axes", 1, NULL, 0},
    {REDUCTIONS, 18, ints_to_input, "axes", 1, NULL, 0},
    {"Reshape", 5, ints_to_input, "shape", 1, NULL, 0},
    {"Resize", 11, resize_from_10, NULL, 0, NULL, 0},
    {"RoiAlign", 16, default_text, "coordinate_transformation_mode", 0, "output_half_pixel", 0},
    {"Scatter", NEVER, rename_op, NULL, 0, "ScatterElements", 0},
    {"Selu", 6, default_float, "alpha", 0, NULL, 1.673200011253357},
    {"Selu", 6, default_float, "gamma", 0, NULL, 1.0506999492645264},
    {"Slice", 10, ints_to_input, "starts", 1, NULL, 0},
    {"Slice", 10, ints_to_input, "ends", 2, NULL, 0},
    {"Slice", 10, ints_to_input, "axes", 3, NULL, 0},
    {"Softmax LogSoftmax Hardmax", 13, flat_softmax, NULL, 0, NULL, 0},
    {"Split", 13, ints_to_input, "split", 1, NULL, 0},
    {"Split", 18, split_equally, NULL, 0, NULL, 0},
    {"Squeeze Unsqueeze", 13, ints_to_input, "axes", 1, NULL, 0},
    {"Tile", 6, tile_one_axis, NULL, 0, NULL, 0},
    {"TopK", 10, int_to_vector_input, "k", 1, NULL, 0},
    {"Upsample", NEVER, respell, "mode", 0, "bilinear=linear", 0},
    {"Upsample", NEVER, upsample, NULL, 0, NULL, 0},
};

static bool listed(const char *ops, const char *op) {
  size_t n = strlen(op);
  if (ops[0] == '*') return true;
  for (const char *s = ops; s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL)
    if (strncmp(s, op, n) == 0 && (s[n] == ' ' || s[n] == 0)) return true;
  return false;
}

void upgrade_node(graph *g, node *n, int64_t version) {
  up u = {g->c, g, n, version};
  /* the operator before any rule: a rule may rename the node, and rules for the new name are not for it */
  const char *op = n->op;
  if (n->domain[0]) return;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (version < rules[i].since && listed(rules[i].ops, op)) rules[i].apply(&u, &rules[i]);
}
uint32_t onnx_changes(const char *op, int *versions, uint32_t room) {
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (listed(rules[i].ops, op) && strcmp(rules[i].ops, "*") && rules[i].since != NEVER && n < room &&
        (!n || versions[n - 1] != rules[i].since))
      versions[n++] = rules[i].since;
  return n;
}
