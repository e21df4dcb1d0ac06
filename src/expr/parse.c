/* How is a module read back from its text?
 *
 *   module   { statement }                         `# ...` to the end of the line is a comment (unless a name or
 *            `(` follows at once: an index)
 *   statement
 *     size N [in lo..hi] | size N = SIZE           a symbol (1..10^9 by default), or a name for a size
 *     recurrence s1 t<SIZE                               a recurrence and its variable
 *     tensor DECL input "name" | tensor DECL const DATA      DATA: [numbers], hex"bytes", @"file"+offset:bytes
 *     sha256:digest
 *     declare DECL                                 a stage's tensor that is read before its stage (in a recurrence)
 *     stage x: type [AXIS, ...] [as [SIZE, ...]] [recurrence s1] [out] [tiled] [for v RANGE, ...] [= VALUE] {
 *     update [v<SIZE, ...] x[SIZE, ...] (:=|+=|*=|max=|min=) VALUE [if VALUE] }
 *     if x { ... } else { ... } { result DECL = x | y }
 *     loop [trips SIZE] [times x] [counter i] [while x] { { carry DECL = x } ... { next inner = x [-> DECL] }
 *     [while x] { collect x -> DECL } }
 *     output x "name" [state h [first c]] | late N = x [<= SIZE]
 *     require SIZE (>=|==) 0 "text" [node "n"] | assume ...
 *     kernel CLASS outer [v, w<SIZE, ...] [note "..."] { x: v=o, ... }
 *     check x = x in SIZE .. SIZE over [SIZE, ...] "text" [node "n"]
 *   A guard or check inside a block counts where that block runs.
 *   DECL     x: type[SIZE, ...] [out]              AXIS: v<SIZE, or (v<SIZE, w<SIZE) outer to inner, or 1, or the
 *            recurrence's variable alone
 *   RANGE    in SIZE .. SIZE [or all]
 *   Stages and declarations may end with  origin "node"  region "definition".
 *   SIZE     integers, symbols, variables, + - *, a//b, min(..), max(..), (a >= 0 ? b : c), {VALUE} for an
 *            integer from a tensor
 *   VALUE    1.5 (f32), 3 (i64), true, 2.0f16, inf, nan_f64; #v and #(SIZE): an index as i64; x[SIZE, ...]; (load
 *            x[SIZE, ...] else VALUE); or and == != < <= > >= + - * / // % c ? a : b;
 *            type(VALUE) converts; sat(type, v), bitcast(type, v), name(v, ...); ($1 := VALUE) names a sub-value
 *            and $1 is it again;
 *            sum[v<SIZE [RANGE], ... [acc type] [to type] [where VALUE] [payload VALUE]] VALUE   as far to the right as
 *            possible
 *
 * Everything is checked here before it reaches the builder, whose complaints are about us, not about the text.
 */
#include "expr/parse.h"
#include <string.h>

static void block_items(reader *r, uint32_t blk);

/* ---- declarations ---------------------------------------------------------------------------- */
static uint32_t shape(reader *r, sz *out) {
  uint32_t n = 0;
  rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    if (n == MAX_RANK) rd_fail(r, "more than %d axes", MAX_RANK);
    out[n++] = rd_size(r);
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  return n;
}
static tid new_tensor(reader *r, const char *name, tkind k, etype t, const sz *dims, uint32_t n) {
  uint64_t known;
  if (map_gets(r->tensors, name, &known)) rd_fail(r, "tensor %s exists already", name);
  tid x = expr_tensor(r->m, k, t, dims, n, name, NULL);
  if (strcmp(xt(r->m, x)->name, name)) rd_fail(r, "%s cannot be the name of a tensor", name);
  map_puts(r->tensors, name, x);
  return x;
}
static tid declaration(reader *r, tkind k) {
  sz dims[MAX_RANK];
  const char *name = rd_name(r, "a tensor's name");
  rd_expect(r, ":");
  etype t = rd_type(r);
  uint32_t n = shape(r, dims);
  tid x = new_tensor(r, name, k, t, dims, n);
  xt(r->m, x)->output = rd_take(r, "out");
  return x;
}
static void origin(reader *r, tid x) {
  if (rd_take(r, "origin")) xt(r->m, x)->origin = arena_strdup(r->m->a, rd_string(r));
}

/* ---- constants ------------------------------------------------------------------------------- */
static void hex_data(reader *r, uint8_t *to, size_t bytes) {
  const char *p = r->t.s;
  if (strlen(p) != 2 * bytes) rd_fail(r, "%zu hexadecimal digits, the shape needs %zu", strlen(p), 2 * bytes);
  for (size_t i = 0; i < bytes; i++) {
    int h = hex_digit(p[2 * i]), l = hex_digit(p[2 * i + 1]);
    if (h < 0 || l < 0) rd_fail(r, "not a hexadecimal digit");
    to[i] = (uint8_t)(h << 4 | l);
  }
  rd_next(r);
}
static const char *digest(reader *r) {
  if (!rd_is(r, "sha256")) rd_fail(r, "expected sha256:digest");
  const char *p = r->p;
  if (*p++ != ':') rd_fail(r, "expected sha256:digest");
  size_t n = strspn(p, "0123456789abcdef");
  const char *s = arena_strndup(r->a, p, n);
  r->p = p + n;
  rd_next(r);
  return s;
}
static void const_data(reader *r, tid x) {
  const tensor *t = xt(r->m, x);
  ndarray nd = {.type = t->type, .rank = t->rank};
  int64_t n;
  size_t bytes;
  for (uint32_t i = 0; i < t->rank; i++) {
    nd.dims[i] = sym_int_or(r->c, t->shape[i], -1);
    if (nd.dims[i] < 0) rd_fail(r, "a constant's sizes are numbers");
  }
  uint32_t w = et_bytes(t->type);
  if (!w || !nd_count(&nd, &n) || __builtin_mul_overflow((size_t)n, (size_t)w, &bytes))
    rd_fail(r, "the constant is too large");
  nd.bytes = bytes;
  if (rd_take(r, "@")) {
    const char *file = rd_string(r);
    struct bytes map = {0};
    rd_expect(r, "+");
    int64_t off = rd_int(r);
    rd_expect(r, ":");
    if (rd_int(r) != (int64_t)bytes) rd_fail(r, "the shape needs %zu bytes", bytes);
    if (!file_map(r->c, file, &map)) rd_fail(r, "the constant's file cannot be read");
    if (off < 0 || (uint64_t)off > map.n || map.n - (size_t)off < bytes)
      rd_fail(r, "%s ends before the constant does", file);
    nd.data = map.p + off, nd.file = arena_strdup(r->m->a, file), nd.offset = (uint64_t)off;
    if (strcmp(digest(r), sha256_hex(r->a, nd.data, bytes)))
      rd_fail(r, "%s does not hold the constant's bytes any more (SHA-256 differs)", file);
  } else if (rd_is(r, "sha256"))
    rd_fail(r, "the constant's bytes are not in this text; print with weights inline");
  else if (rd_take(r, "hex")) {
    if (r->t.kind != T_STRING) rd_fail(r, "expected a string");
    uint8_t *to = arena_alloc(r->m->a, bytes + 8);
    hex_data(r, to, bytes);
    nd.data = to;
  } else {
    if (bytes > 1 << 20) rd_fail(r, "so large a constant must be hex or in a file");
    uint8_t *to = arena_alloc(r->m->a, bytes + 8);
    rd_expect(r, "[");
    for (int64_t i = 0; i < n; i++) {
      if (i) rd_expect(r, ",");
      et_store(t->type, to + i * w, rd_scalar(r, t->type));
    }
    rd_expect(r, "]");
    nd.data = to;
  }
  xt(r->m, x)->data = nd;
}
static void tensor_statement(reader *r) {
  tid x = declaration(r, TK_INPUT);
  if (rd_take(r, "const")) {
    xt(r->m, x)->kind = TK_CONST;
    const_data(r, x);
  } else if (rd_take(r, "input"))
    vec_push(r->m->a, r->m->inputs, ((io){x, arena_strdup(r->m->a, rd_string(r))}));
  origin(r, x);
}

/* ---- stages ---------------------------------------------------------------------------------- */
static digit one_digit(reader *r, bool *none) {
  uint64_t known;
  atom v;
  *none = false;
  const char *p = r->p;
  while (*p == ' ') p++;
  if (r->t.kind == T_NAME && *p != '<') { /* a variable declared before: a recurrence's */
    if (!map_gets(r->sizes, r->t.s, &known) || !sym_is_atom(r->c, (sz)known, &v) || sym_kind(r->c, v) != AT_VAR)
      rd_fail(r, "%s is no variable of a recurrence", r->t.s);
    rd_next(r);
    return (digit){v, sym_extent(r->c, v)};
  }
  if (r->t.kind == T_NAME && map_gets(r->sizes, r->t.s, &known)) rd_fail(r, "the name %s is already taken", r->t.s);
  rd_declare_var(r, &v);
  *none = !v;
  return v ? (digit){v, sym_extent(r->c, v)} : (digit){0};
}
static axis one_axis(reader *r) {
  VEC(digit) d = {0};
  bool none;
  if (r->t.kind == T_NUMBER) {
    if (rd_int(r) != 1) rd_fail(r, "an axis without a variable has size 1");
    return (axis){0};
  }
  bool many = rd_take(r, "(");
  do {
    digit x = one_digit(r, &none);
    if (!none) vec_push(r->m->a, d, x);
  } while (many && rd_take(r, ","));
  if (many) rd_expect(r, ")");
  return (axis){d.n, d.v};
}
static void axis_range(reader *r) {
  uint64_t known;
  atom v;
  const char *name = rd_name(r, "a variable");
  if (!map_gets(r->sizes, name, &known) || !sym_is_atom(r->c, (sz)known, &v) || sym_kind(r->c, v) != AT_VAR)
    rd_fail(r, "%s is no variable", name);
  rd_range(r, v);
}
static void one_update(reader *r, uint32_t s) {
  update u = {0};
  u32vec vars = {0}, idx = {0};
  tid x = xs(r->m, s)->tensor;
  rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    atom v;
    rd_declare_var(r, &v);
    if (v) vec_push(r->m->a, vars, v);
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  if (rd_tensor(r) != x) rd_fail(r, "a stage updates its own tensor");
  rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    vec_push(r->m->a, idx, rd_size(r));
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  if (idx.n != xt(r->m, x)->rank) rd_fail(r, "%s has %u axes, not %u", xt(r->m, x)->name, xt(r->m, x)->rank, idx.n);
  if (rd_take(r, "+="))
    u.op = OP_ADD;
  else if (rd_take(r, "*="))
    u.op = OP_MUL;
  else if (rd_take(r, "max="))
    u.op = OP_MAX;
  else if (rd_take(r, "min="))
    u.op = OP_MIN;
  else
    rd_expect(r, ":=");
  u.value = rd_value(r);
  if (exn(r->m, u.value)->type != xt(r->m, x)->type)
    rd_fail(r, "the update is %s, the stage %s", et_name(exn(r->m, u.value)->type), et_name(xt(r->m, x)->type));
  if (rd_take(r, "if")) {
    u.cond = rd_value(r);
    if (exn(r->m, u.cond)->type != ET_BOOL) rd_fail(r, "an update's condition is bool");
  }
  u.vars = vars.v, u.nvars = vars.n, u.idx = idx.v, u.nidx = idx.n;
  vec_push(r->m->a, xs(r->m, s)->updates, u);
}
static void stage_statement(reader *r, uint32_t blk) {
  emodule *m = r->m;
  axis axes[MAX_RANK];
  sz dims[MAX_RANK];
  uint32_t n = 0, recurrence = 0;
  uint64_t known;
  r->lets = map_new(r->a);
  token at = r->t;
  const char *name = rd_name(r, "a tensor's name");
  rd_expect(r, ":");
  etype t = rd_type(r);
  rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    if (n == MAX_RANK) rd_fail(r, "more than %d axes", MAX_RANK);
    axes[n] = one_axis(r);
    dims[n] = sym_int(r->c, 1);
    for (uint32_t k = 0; k < axes[n].n; k++) dims[n] = sym_mul(r->c, dims[n], axes[n].d[k].extent);
    n++;
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  if (rd_take(r, "as") && shape(r, dims) != n) rd_fail(r, "the shape has another number of axes than the stage");
  if (rd_take(r, "recurrence")) {
    const char *s = rd_name(r, "a recurrence's name");
    if (!map_gets(r->recurrences, s, &known)) rd_fail(r, "there is no recurrence %s", s);
    recurrence = (uint32_t)known;
  }
  tid x;
  if (map_gets(r->tensors, name, &known)) {
    x = (tid)known;
    const tensor *d = xt(m, x);
    if (d->kind != TK_STAGE || d->stage != UINT32_MAX || d->type != t || d->rank != n) {
      r->t = at;
      rd_fail(r, "%s exists already, or was declared differently", name);
    }
  } else
    x = new_tensor(r, name, TK_STAGE, t, dims, n);
  xt(m, x)->stage = UINT32_MAX;
  uint32_t s = expr_stage(m, blk, x, axes, n, 0);
  xs(m, s)->recurrence = recurrence;
  xt(m, x)->output = rd_take(r, "out");
  xs(m, s)->tiled = rd_take(r, "tiled");
  for (bool more = rd_take(r, "for"); more; more = rd_take(r, ",")) axis_range(r);
  if (rd_take(r, "=")) {
    token here = r->t;
    ex v = rd_value(r);
    if (exn(m, v)->type != t) {
      r->t = here;
      rd_fail(r, "the value is %s, the stage %s", et_name(exn(m, v)->type), et_name(t));
    }
    xs(m, s)->value = v;
  }
  while (rd_take(r, "update")) one_update(r, s);
  origin(r, x);
  if (rd_take(r, "region")) xs(m, s)->region = arena_strdup(m->a, rd_string(r));
}

/* ---- control flow ---------------------------------------------------------------------------- */
static uint32_t new_block(reader *r, uint32_t parent) {
  vec_push(r->m->a, r->m->blocks, ((block){.parent = parent}));
  return r->m->blocks.n - 1;
}
static void if_statement(reader *r, uint32_t blk) {
  emodule *m = r->m;
  xif f = {.block = blk};
  u32vec res = {0}, a = {0}, b = {0};
  f.cond = rd_tensor(r);
  if (rd_take(r, "origin")) f.origin = arena_strdup(m->a, rd_string(r));
  f.then_block = new_block(r, blk), f.else_block = new_block(r, blk);
  rd_expect(r, "{"), block_items(r, f.then_block), rd_expect(r, "}");
  rd_expect(r, "else"), rd_expect(r, "{"), block_items(r, f.else_block), rd_expect(r, "}");
  while (rd_take(r, "result")) {
    tid x = declaration(r, TK_RESULT);
    vec_push(m->a, res, x);
    rd_expect(r, "="), vec_push(m->a, a, rd_tensor(r));
    rd_expect(r, "|"), vec_push(m->a, b, rd_tensor(r));
    origin(r, x);
  }
  f.n = res.n, f.results = res.v, f.then_vals = a.v, f.else_vals = b.v;
  vec_push(m->a, m->ifs, f);
  vec_push(m->a, m->blocks.v[blk].items, ((item){IT_IF, m->ifs.n - 1}));
}
static void loop_statement(reader *r, uint32_t blk) {
  emodule *m = r->m;
  xloop l = {.block = blk};
  u32vec init = {0}, inner = {0}, next = {0}, fin = {0}, slice = {0}, all = {0};
  if (rd_take(r, "trips")) l.trips = rd_size(r);
  if (rd_take(r, "times")) l.trip_tensor = rd_tensor(r);
  if (rd_take(r, "counter")) {
    sz s = rd_size(r);
    if (!sym_is_atom(r->c, s, &l.counter) || sym_kind(r->c, l.counter) != AT_SYMBOL)
      rd_fail(r, "a counter is a symbol");
  }
  if (rd_take(r, "while")) l.cond0 = rd_tensor(r);
  if (rd_take(r, "origin")) l.origin = arena_strdup(m->a, rd_string(r));
  rd_expect(r, "{");
  while (rd_take(r, "carry")) {
    tid x = declaration(r, TK_RESULT);
    vec_push(m->a, inner, x);
    rd_expect(r, "="), vec_push(m->a, init, rd_tensor(r));
    origin(r, x);
  }
  l.body = new_block(r, blk);
  block_items(r, l.body);
  while (rd_take(r, "next")) {
    if (next.n >= inner.n || rd_tensor(r) != inner.v[next.n]) rd_fail(r, "`next` lines follow the order of `carry`");
    rd_expect(r, "="), vec_push(m->a, next, rd_tensor(r));
    tid x = 0;
    if (rd_take(r, "->")) x = declaration(r, TK_RESULT), origin(r, x);
    vec_push(m->a, fin, x);
  }
  if (next.n != inner.n) rd_fail(r, "a carried value has no `next`");
  if (rd_take(r, "while")) l.cond = rd_tensor(r);
  while (rd_take(r, "collect")) {
    vec_push(m->a, slice, rd_tensor(r));
    rd_expect(r, "->");
    tid x = declaration(r, TK_RESULT);
    vec_push(m->a, all, x), origin(r, x);
  }
  rd_expect(r, "}");
  l.ncarried = inner.n, l.init = init.v, l.inner = inner.v, l.next = next.v, l.final = fin.v;
  l.ncollected = all.n, l.slice = slice.v, l.collected = all.v;
  vec_push(m->a, m->loops, l);
  vec_push(m->a, m->blocks.v[blk].items, ((item){IT_LOOP, m->loops.n - 1}));
}
static void guard_statement(reader *r, bool assumption, uint32_t blk) {
  guard g = {.assumption = assumption, .ge0 = rd_size(r), .block = blk};
  g.is_eq = rd_take(r, "==");
  if (!g.is_eq) rd_expect(r, ">=");
  if (rd_int(r) != 0) rd_fail(r, "a guard compares with 0");
  g.text = arena_strdup(r->m->a, rd_string(r));
  if (rd_take(r, "node")) g.node = arena_strdup(r->m->a, rd_string(r));
  vec_push(r->m->a, r->m->guards, g);
}
static void check_statement(reader *r, uint32_t blk) {
  VEC(sz) dims = {0};
  value_check k = {.block = blk, .at = rd_tensor(r)};
  rd_expect(r, "="), k.value = rd_tensor(r);
  rd_expect(r, "in"), k.lo = rd_size(r);
  rd_expect(r, ".."), k.hi = rd_size(r);
  rd_expect(r, "over"), rd_expect(r, "[");
  while (!rd_take(r, "]")) {
    if (dims.n) rd_expect(r, ",");
    if (dims.n == MAX_RANK) rd_fail(r, "at most %d axes", MAX_RANK);
    vec_push(r->m->a, dims, rd_size(r));
  }
  k.ndims = dims.n, k.dims = dims.v;
  k.text = arena_strdup(r->m->a, rd_string(r));
  if (rd_take(r, "node")) k.node = arena_strdup(r->m->a, rd_string(r));
  vec_push(r->m->a, r->m->checks, k);
}
static bool block_item(reader *r, uint32_t blk) {
  if (rd_take(r, "stage"))
    stage_statement(r, blk);
  else if (rd_take(r, "declare")) {
    tid x = declaration(r, TK_STAGE);
    xt(r->m, x)->stage = UINT32_MAX;
  } else if (rd_take(r, "if"))
    if_statement(r, blk);
  else if (rd_take(r, "loop"))
    loop_statement(r, blk);
  else if (rd_take(r, "require"))
    guard_statement(r, false, blk);
  else if (rd_take(r, "assume"))
    guard_statement(r, true, blk);
  else if (rd_take(r, "check"))
    check_statement(r, blk);
  else
    return false;
  return true;
}
static void block_items(reader *r, uint32_t blk) {
  rd_enter(r);
  while (block_item(r, blk)) {}
  r->depth--;
}

/* ---- the rest -------------------------------------------------------------------------------- */
static void size_statement(reader *r) {
  uint64_t known;
  const char *name = rd_name(r, "a size's name");
  if (map_gets(r->sizes, name, &known)) rd_fail(r, "the name %s is already taken", name);
  sz s;
  if (rd_take(r, "="))
    s = rd_size(r);
  else {
    int64_t lo = 1, hi = 1000000000;
    if (rd_take(r, "in")) {
      if (rd_is(r, "-") && !strncmp(r->p, "inf", 3))
        rd_next(r), rd_next(r), lo = -SYM_INF;
      else
        lo = rd_int(r);
      rd_expect(r, "..");
      if (rd_take(r, "inf"))
        hi = SYM_INF;
      else
        hi = rd_int(r);
      if (lo > hi) rd_fail(r, "the range of the size %s is empty", name);
    }
    s = sym_symbol(r->c, name, lo, hi);
  }
  map_puts(r->sizes, name, s);
}
static void recurrence_statement(reader *r) {
  uint64_t known;
  atom v;
  const char *name = rd_name(r, "a recurrence's name");
  if (map_gets(r->recurrences, name, &known)) rd_fail(r, "recurrence %s exists already", name);
  rd_declare_var(r, &v);
  if (!v) rd_fail(r, "a recurrence has more than one step");
  vec_push(r->m->a, r->m->recurrences, ((recurrence){v, sym_extent(r->c, v)}));
  map_puts(r->recurrences, name, r->m->recurrences.n - 1);
}
static void late_statement(reader *r) {
  late l = {0};
  sz s = rd_size(r);
  if (!sym_is_atom(r->c, s, &l.symbol) || sym_kind(r->c, l.symbol) != AT_SYMBOL) rd_fail(r, "a late size is a symbol");
  rd_expect(r, "=");
  l.tensor = rd_tensor(r);
  if (rd_take(r, "<=")) l.bound = rd_size(r);
  vec_push(r->m->a, r->m->lates, l);
}
static atom known_var(reader *r) {
  atom v;
  uint64_t known;
  const char *p = r->p;
  while (*p == ' ') p++;
  if (*p == '<') {
    rd_declare_var(r, &v);
    if (!v) rd_fail(r, "a loop has more than one trip");
    return v;
  }
  const char *name = rd_name(r, "a variable");
  if (!map_gets(r->sizes, name, &known) || !sym_is_atom(r->c, (sz)known, &v) || sym_kind(r->c, v) != AT_VAR)
    rd_fail(r, "there is no variable %s", name);
  return v;
}
static void kernel_statement(reader *r) {
  emodule *m = r->m;
  kernel k = {.canon = map_new(m->a)};
  const char *cls = rd_name(r, "a kernel's class");
  for (int i = KC_ELEMENTWISE; i <= KC_BLOCKS; i++)
    if (!strcmp(kernel_class_name((kernel_class)i), cls)) k.cls = (kernel_class)i;
  rd_expect(r, "outer"), rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    vec_push(m->a, k.outer, known_var(r));
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  if (rd_take(r, "note")) k.note = arena_strdup(m->a, rd_string(r));
  rd_expect(r, "{");
  while (!rd_is(r, "}")) {
    tid x = rd_tensor(r);
    if (xt(m, x)->kind != TK_STAGE || xt(m, x)->stage == UINT32_MAX) rd_fail(r, "%s is no stage", xt(m, x)->name);
    vec_push(m->a, k.stages, xt(m, x)->stage);
    xs(m, xt(m, x)->stage)->kernel = m->kernels.n + 1;
    if (k.stages.n == 1) k.block = xs(m, xt(m, x)->stage)->block;
    if (rd_take(r, ":")) do {
        atom v = known_var(r);
        rd_expect(r, "=");
        map_putu(k.canon, v, known_var(r));
      } while (rd_take(r, ","));
  }
  rd_expect(r, "}");
  vec_push(m->a, m->kernels, k);
}
/* The inputs of states are the last ones, in the order of the outputs. */
static void state_of_output(reader *r) {
  emodule *m = r->m;
  tid in = rd_tensor(r), first = rd_take(r, "first") ? rd_tensor(r) : 0;
  uint32_t at = 0;
  while (at < m->inputs.n && m->inputs.v[at].t != in) at++;
  if (m->states.n == 0) r->first_state = at;
  if (at == m->inputs.n || at != r->first_state + m->states.n)
    rd_fail(r, "%s is not the next of the last inputs, which are those of states", xt(m, in)->name);
  vec_push(m->a, m->states, first);
}
static void statement(reader *r) {
  if (block_item(r, 0)) return;
  if (rd_take(r, "size"))
    size_statement(r);
  else if (rd_take(r, "recurrence"))
    recurrence_statement(r);
  else if (rd_take(r, "tensor"))
    tensor_statement(r);
  else if (rd_take(r, "output")) {
    tid x = rd_tensor(r);
    vec_push(r->m->a, r->m->outputs, ((io){x, arena_strdup(r->m->a, rd_string(r))}));
    if (rd_take(r, "state"))
      state_of_output(r);
    else if (r->m->states.n)
      rd_fail(r, "the outputs of states are the last ones");
  } else if (rd_take(r, "late"))
    late_statement(r);
  else if (rd_take(r, "kernel"))
    kernel_statement(r);
  else
    rd_fail(r, "expected a statement (size, tensor, stage, output, ...)");
}
static void whole(reader *r) {
  rd_next(r);
  while (r->t.kind != T_END) statement(r);
  for (tid t = 1; t < r->m->tensors.n; t++)
    if (xt(r->m, t)->kind == TK_STAGE && xt(r->m, t)->stage == UINT32_MAX)
      rd_fail(r, "%s was declared but has no stage", xt(r->m, t)->name);
  if (r->m->states.n && r->first_state + r->m->states.n != r->m->inputs.n)
    rd_fail(r, "the inputs of states are the last ones");
}
/* Its own function: nothing here is changed between the jump's two ends. */
static bool guarded(reader *r) {
  volatile bool ok = false;
  CTX_TRY(r->c) {
    whole(r);
    ok = true;
  }
  CTX_CATCH { ok = false; }
  return ok;
}
emodule *expr_parse(ctx *c, const char *text, const char *file) {
  arena *a = arena_new(c);
  reader r = {.c = c,
              .m = expr_module(c),
              .a = a,
              .file = file ? intern(c, file) : NULL,
              .p = text,
              .line_start = text,
              .line = 1};
  r.sizes = map_new(a), r.tensors = map_new(a), r.recurrences = map_new(a), r.lets = map_new(a);
  emodule *m = r.m;
  bool ok = guarded(&r);
  arena_free(a);
  return ok ? m : NULL;
}
