/* How is a size or a value read back? Recursive descent over tokens; the grammar is at the head of parse.c. The
 * first error unwinds: expr_parse has a frame open. */
#include "expr/parse.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 1000 };

/* ---- tokens ---------------------------------------------------------------------------------- */
void rd_fail(reader *r, const char *fmt, ...) {
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  diag_add(r->c, D_ERROR, E_MODEL, (srcpos){r->file, r->t.line, r->t.col}, NULL, "%s", text);
  ctx_unwind(r->c);
}
static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool digit_(char c) { return c >= '0' && c <= '9'; }

static void read_string(reader *r) {
  sbuf b = sbuf_new(r->a);
  const char *p = r->p + 1;
  for (; *p && *p != '"' && *p != '\n'; p++) {
    if (*p != '\\') {
      sb_putc(&b, *p);
      continue;
    }
    p++;
    if (*p == 'n')
      sb_putc(&b, '\n');
    else if (*p == 't')
      sb_putc(&b, '\t');
    else if (*p == 'x') {
      char hex[3] = {0};
      for (int i = 0; i < 2 && p[1] && strchr("0123456789abcdefABCDEF", p[1]); i++) hex[i] = *++p;
      if (!hex[1]) rd_fail(r, "\\x needs two hexadecimal digits");
      sb_putc(&b, (char)strtol(hex, NULL, 16));
    } else if (*p == '"' || *p == '\\')
      sb_putc(&b, *p);
    else
      rd_fail(r, "unknown escape in a string");
  }
  if (*p != '"') rd_fail(r, "the string does not end");
  r->p = p + 1;
  r->t.s = b.n ? arena_strndup(r->a, b.s, b.n) : "";
}
static void read_number(reader *r) {
  const char *p = r->p;
  while (digit_(*p)) p++;
  if (*p == '.' && digit_(p[1]))
    for (r->t.real = true, p++; digit_(*p);) p++;
  if ((*p == 'e' || *p == 'E') && (digit_(p[1]) || ((p[1] == '+' || p[1] == '-') && digit_(p[2]))))
    for (r->t.real = true, p += 2; digit_(*p);) p++;
  r->t.digits = arena_strndup(r->a, r->p, (size_t)(p - r->p));
  const char *s = p;
  while (letter(*p) || digit_(*p)) p++;
  r->t.suffix = p > s ? arena_strndup(r->a, s, (size_t)(p - s)) : NULL;
  r->p = p;
}
void rd_next(reader *r) {
  static const char *const signs[] = {":=", "+=", "*=", "//", "==", "!=", "<=", ">=", "->", "..", "max=", "min="};
  for (;;) {
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\r' || *r->p == '\n')
      if (*r->p++ == '\n') r->line++, r->line_start = r->p;
    /* `#` opens an index when a name or a parenthesis follows at once, else a comment to the end of the line */
    if (*r->p != '#' || letter(r->p[1]) || r->p[1] == '(' || r->p[1] == '`') break;
    while (*r->p && *r->p != '\n') r->p++;
  }
  const char *p = r->p;
  r->t = (token){.at = p, .line = r->line, .col = (uint32_t)(p - r->line_start) + 1};
  if (!*p) return;
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    size_t n = strlen(signs[i]);
    if (strncmp(p, signs[i], n) || (letter(*p) && p[n] == '=')) continue;
    r->t.kind = T_PUNCT, r->t.s = signs[i], r->p = p + n;
    return;
  }
  if (letter(*p)) {
    while (letter(*p) || digit_(*p) || (*p == '.' && p[1] != '.')) p++;
    r->t.kind = T_NAME, r->t.s = intern_n(r->c, r->p, (size_t)(p - r->p));
    r->p = p;
  } else if (*p == '`') {
    const char *e = strpbrk(p + 1, "`\n");
    if (!e || *e != '`') rd_fail(r, "the name in backquotes does not end");
    r->t.kind = T_QUOTED, r->t.s = intern_n(r->c, p + 1, (size_t)(e - p - 1));
    r->p = e + 1;
  } else if (*p == '"')
    r->t.kind = T_STRING, read_string(r);
  else if (digit_(*p))
    r->t.kind = T_NUMBER, read_number(r);
  else {
    r->t.kind = T_PUNCT, r->t.s = intern_n(r->c, p, 1);
    r->p = p + 1;
  }
}
bool rd_is(reader *r, const char *s) { return (r->t.kind == T_NAME || r->t.kind == T_PUNCT) && !strcmp(r->t.s, s); }
bool rd_take(reader *r, const char *s) {
  if (!rd_is(r, s)) return false;
  rd_next(r);
  return true;
}
static const char *shown(reader *r) {
  if (r->t.kind == T_END) return "the end";
  size_t n = strcspn(r->t.at, "\n");
  return arena_fmt(r->a, "`%.*s`", (int)(n > 24 ? 24 : n), r->t.at);
}
void rd_expect(reader *r, const char *s) {
  if (!rd_take(r, s)) rd_fail(r, "expected `%s`, found %s", s, shown(r));
}
const char *rd_name(reader *r, const char *what) {
  if (r->t.kind != T_NAME && r->t.kind != T_QUOTED) rd_fail(r, "expected %s, found %s", what, shown(r));
  const char *s = r->t.s;
  rd_next(r);
  return s;
}
const char *rd_string(reader *r) {
  if (r->t.kind != T_STRING) rd_fail(r, "expected a string, found %s", shown(r));
  const char *s = r->t.s;
  rd_next(r);
  return s;
}
static bool magnitude(const token *t, uint64_t *x) {
  errno = 0;
  *x = strtoull(t->digits, NULL, 10);
  return !t->real && !errno;
}
int64_t rd_int(reader *r) {
  bool neg = rd_take(r, "-");
  uint64_t x;
  if (r->t.kind != T_NUMBER || r->t.suffix || !magnitude(&r->t, &x))
    rd_fail(r, "expected an integer, found %s", shown(r));
  if (x > (uint64_t)INT64_MAX + neg) rd_fail(r, "the integer does not fit in 64 bits");
  rd_next(r);
  return neg ? (int64_t)(0 - x) : (int64_t)x;
}
etype rd_type(reader *r) {
  etype t = r->t.kind == T_NAME ? et_parse(r->t.s) : ET_NONE;
  if (t == ET_NONE) rd_fail(r, "expected an element type, found %s", shown(r));
  rd_next(r);
  return t;
}
tid rd_tensor(reader *r) {
  uint64_t t;
  token was = r->t;
  const char *name = rd_name(r, "a tensor");
  if (map_gets(r->tensors, name, &t)) return (tid)t;
  r->t = was;
  rd_fail(r, "there is no tensor %s", name);
}
void rd_enter(reader *r) {
  if (++r->depth > MAX_NESTING) rd_fail(r, "nested too deeply");
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static sz size_factor(reader *r) {
  ctx *c = r->c;
  sz s;
  uint64_t known;
  rd_enter(r);
  if (r->t.kind == T_NUMBER)
    s = sym_int(c, rd_int(r));
  else if (rd_take(r, "-"))
    s = r->t.kind == T_NUMBER && strcmp(r->t.digits, "9223372036854775808") == 0 ? (rd_next(r), sym_int(c, INT64_MIN))
                                                                                 : sym_neg(c, size_factor(r));
  else if (rd_take(r, "{")) {
    ex e = rd_value(r);
    if (exn(r->m, e)->type != ET_I64)
      rd_fail(r, "a value used as a size must be i64, not %s", et_name(exn(r->m, e)->type));
    s = exn(r->m, e)->kind == EX_CONST || exn(r->m, e)->kind == EX_INDEX ? expr_as_size(r->m, e)
                                                                         : expr_data_size(r->m, e);
    rd_expect(r, "}");
  } else if (rd_take(r, "(")) {
    s = rd_size(r);
    if (rd_take(r, ">=")) {
      if (rd_int(r) != 0) rd_fail(r, "a condition in a size compares with 0");
      rd_expect(r, "?");
      sz yes = rd_size(r);
      rd_expect(r, ":");
      s = sym_sel(c, s, yes, rd_size(r));
    }
    rd_expect(r, ")");
  } else {
    token was = r->t;
    const char *name = rd_name(r, "a size");
    bool min = !strcmp(name, "min"), max = !strcmp(name, "max");
    if ((min || max) && was.kind == T_NAME && rd_take(r, "(")) {
      s = rd_size(r);
      while (rd_take(r, ",")) {
        sz b = rd_size(r);
        s = min ? sym_min(c, s, b) : sym_max(c, s, b);
      }
      rd_expect(r, ")");
    } else if (map_gets(r->sizes, name, &known))
      s = (sz)known;
    else {
      r->t = was;
      rd_fail(r, "there is no size or variable %s here", name);
    }
  }
  r->depth--;
  return s;
}
static sz size_times(reader *r, sz s) {
  for (;;) {
    if (rd_take(r, "*"))
      s = sym_mul(r->c, s, size_factor(r));
    else if (rd_take(r, "//")) {
      sz d = size_factor(r);
      if (sym_int_or(r->c, d, 1) == 0) rd_fail(r, "division by 0");
      s = sym_div(r->c, s, d);
    } else
      return s;
  }
}
static sz size_product(reader *r) { return size_times(r, size_factor(r)); }
static sz size_minus(reader *r) { /* a product after its minus sign: the least number has no positive one */
  if (r->t.kind == T_NUMBER && !strcmp(r->t.digits, "9223372036854775808"))
    return rd_next(r), size_times(r, sym_int(r->c, INT64_MIN));
  return sym_neg(r->c, size_product(r));
}
sz rd_size(reader *r) {
  sz s = rd_take(r, "-") ? size_minus(r) : size_product(r);
  for (;;) {
    if (rd_take(r, "+"))
      s = sym_add(r->c, s, size_product(r));
    else if (rd_take(r, "-"))
      s = sym_add(r->c, s, size_minus(r));
    else
      return s;
  }
}
sz rd_declare_var(reader *r, atom *var) {
  uint64_t known;
  token was = r->t;
  const char *name = rd_name(r, "a variable");
  rd_expect(r, "<");
  sz extent = rd_size(r), s;
  *var = 0;
  if (map_gets(r->sizes, name, &known)) { /* the same variable again: in a second reduction of the stage */
    if (!sym_is_atom(r->c, (sz)known, var) || sym_kind(r->c, *var) != AT_VAR || sym_extent(r->c, *var) != extent) {
      if (sym_int_or(r->c, (sz)known, 1) == 0 && sym_int_or(r->c, extent, 0) == 1) return (sz)known;
      r->t = was;
      rd_fail(r, "the name %s is already taken", name);
    }
    return (sz)known;
  }
  s = sym_var(r->c, name, extent);
  if (!sym_is_atom(r->c, s, var)) *var = 0;
  map_puts(r->sizes, name, s);
  return s;
}

void rd_range(reader *r, atom var) {
  xrange x = {0};
  if (!rd_take(r, "in")) return;
  x.lo = rd_size(r), rd_expect(r, ".."), x.hi = rd_size(r);
  if (rd_take(r, "or")) rd_expect(r, "all"), x.all = true;
  if (var) expr_set_range(r->m, var, x);
}

/* ---- constants ------------------------------------------------------------------------------- */
double rd_number(const token *t) { return strtod(t->digits, NULL); }
scalar rd_scalar(reader *r, etype t) {
  bool neg = rd_take(r, "-"), fl = et_kind(t) == K_FLOAT;
  scalar k;
  uint64_t x;
  if (fl && (rd_is(r, "inf") || rd_is(r, "nan")))
    k.f = rd_is(r, "inf") ? (neg ? -INFINITY : INFINITY) : NAN;
  else if (r->t.kind != T_NUMBER || r->t.suffix)
    rd_fail(r, "expected a number, found %s", shown(r));
  else if (fl)
    k.f = neg ? -rd_number(&r->t) : rd_number(&r->t);
  else if (magnitude(&r->t, &x))
    k.i = neg ? (int64_t)(0 - x) : (int64_t)x;
  else
    rd_fail(r, "expected an integer, found %s", shown(r));
  rd_next(r);
  return k;
}
static ex number(reader *r, bool neg) {
  etype t = r->t.suffix ? et_parse(r->t.suffix) : r->t.real ? ET_F32 : ET_I64;
  scalar k;
  uint64_t x;
  if (t == ET_NONE || t == ET_STR || t == ET_BOOL) rd_fail(r, "%s is no numeric type", r->t.suffix);
  if (et_kind(t) == K_FLOAT)
    k.f = t == ET_F32 ? (double)strtof(r->t.digits, NULL) : rd_number(&r->t), k.f = neg ? -k.f : k.f;
  else if (magnitude(&r->t, &x))
    k.i = neg ? (int64_t)(0 - x) : (int64_t)x;
  else
    rd_fail(r, "the integer %s has a fraction or more than 64 bits", r->t.digits);
  rd_next(r);
  return expr_const(r->m, t, k);
}
/* inf, nan, inf_f64 ...; 0 if it is none */
static ex special(reader *r, bool neg) {
  if (r->t.kind != T_NAME || (strncmp(r->t.s, "inf", 3) && strncmp(r->t.s, "nan", 3))) return 0;
  double x = r->t.s[0] == 'n' ? NAN : neg ? -INFINITY : INFINITY;
  etype t = r->t.s[3] == 0 ? ET_F32 : r->t.s[3] == '_' ? et_parse(r->t.s + 4) : ET_NONE;
  if (t == ET_NONE || et_kind(t) != K_FLOAT) return 0;
  rd_next(r);
  return expr_f(r->m, t, x);
}

/* ---- values ---------------------------------------------------------------------------------- */
static ex make_op(reader *r, const token *at, sop op, etype t, const ex *args, uint32_t n) {
  etype types[3] = {0};
  for (uint32_t i = 0; i < n; i++) types[i] = exn(r->m, args[i])->type;
  etype result = t;
  const char *why = op_type_error(op, types, n, &result);
  if (why) {
    r->t = *at;
    rd_fail(r, "%s: %s", op_name(op), why);
  }
  return expr_op(r->m, op, t, args, n);
}
static ex reduction(reader *r, rop op) {
  token at = r->t;
  u32vec vars = {0};
  ex where = 0, payload = 0;
  etype acc = ET_NONE, result = ET_NONE;
  rd_expect(r, "[");
  while (!rd_is(r, "]") && !rd_is(r, "acc") && !rd_is(r, "to") && !rd_is(r, "where") && !rd_is(r, "payload")) {
    atom v;
    rd_declare_var(r, &v);
    rd_range(r, v);
    if (v) vec_push(r->a, vars, v);
    if (!rd_take(r, ",")) break;
  }
  if (rd_take(r, "acc")) acc = rd_type(r);
  if (rd_take(r, "to")) result = rd_type(r);
  if (rd_take(r, "where")) where = rd_value(r);
  if (rd_take(r, "payload")) payload = rd_value(r);
  rd_expect(r, "]");
  ex body = rd_value(r);
  etype bt = exn(r->m, body)->type;
  const char *why = NULL;
  if (vars.n > 255)
    why = "too many variables";
  else if (where && exn(r->m, where)->type != ET_BOOL)
    why = "where must be bool";
  else if ((op == RED_ANY || op == RED_ALL) && bt != ET_BOOL)
    why = "the body must be bool";
  else if (payload && (!red_is_arg(op) || exn(r->m, payload)->type != ET_I64))
    why = "a payload is an i64 and belongs to an arg-reduction";
  else if (red_is_arg(op) && result != ET_NONE && result != ET_I64)
    why = "the result is i64";
  if (why) {
    r->t = at;
    rd_fail(r, "%s: %s", red_name(op), why);
  }
  return expr_reduce(r->m, op, vars.v, vars.n, where, body, payload, acc, result);
}
static ex load(reader *r, bool with_else) {
  token at = r->t;
  tid t = rd_tensor(r);
  u32vec idx = {0};
  ex other = 0;
  rd_expect(r, "[");
  while (!rd_is(r, "]")) {
    vec_push(r->a, idx, rd_size(r));
    if (!rd_take(r, ",")) break;
  }
  rd_expect(r, "]");
  if (with_else) rd_expect(r, "else"), other = rd_value(r);
  const tensor *x = xt(r->m, t);
  if (idx.n != x->rank || (other && exn(r->m, other)->type != x->type)) {
    r->t = at;
    if (idx.n != x->rank) rd_fail(r, "%s has %u axes, not %u", x->name, x->rank, idx.n);
    rd_fail(r, "the else value is %s, %s is %s", et_name(exn(r->m, other)->type), x->name, et_name(x->type));
  }
  return expr_load(r->m, t, idx.v, idx.n, other);
}
static ex call(reader *r, const char *name, const token *at) {
  etype to = et_parse(name);
  ex args[3] = {0};
  sop op = to != ET_NONE ? OP_CAST : op_find(name, strlen(name));
  uint32_t n = 0;
  if (op == OP_NONE) {
    r->t = *at;
    rd_fail(r, "there is no operation %s", name);
  }
  rd_expect(r, "(");
  if (op == OP_SAT || op == OP_SATF || op == OP_BITCAST) to = rd_type(r), rd_expect(r, ",");
  do {
    if (n == 3) rd_fail(r, "%s: too many operands", name);
    args[n++] = rd_value(r);
  } while (rd_take(r, ","));
  rd_expect(r, ")");
  return make_op(r, at, op, to, args, n);
}
static ex primary(reader *r) {
  token at = r->t;
  uint64_t known;
  ex e;
  if (rd_take(r, "(")) {
    if (rd_is(r, "load"))
      rd_next(r), e = load(r, true);
    else if (rd_take(r, "$")) {
      int64_t k = rd_int(r);
      if (rd_take(r, ":=")) {
        e = rd_value(r);
        map_putu(r->lets, (uint64_t)k, e);
      } else { /* a parenthesis that begins with a use: back to its dollar */
        r->p = at.at + 1, r->line = at.line, r->line_start = at.at - (at.col - 1);
        rd_next(r);
        e = rd_value(r);
      }
    } else
      e = rd_value(r);
    rd_expect(r, ")");
    return e;
  }
  if (rd_take(r, "$")) {
    int64_t k = rd_int(r);
    if (!map_getu(r->lets, (uint64_t)k, &known)) rd_fail(r, "$%lld has no value yet", (long long)k);
    return (ex)known;
  }
  if (rd_take(r, "#")) {
    if (!rd_take(r, "(")) return expr_index(r->m, size_factor(r));
    sz s = rd_size(r);
    rd_expect(r, ")");
    return expr_index(r->m, s);
  }
  bool neg = rd_take(r, "-");
  if (r->t.kind == T_NUMBER) return number(r, neg);
  if ((e = special(r, neg))) return e;
  bool in_quotes = r->t.kind == T_QUOTED && *r->p == '[';
  if (neg || (r->t.kind != T_NAME && !in_quotes)) rd_fail(r, "expected a value, found %s", shown(r));
  if (*r->p == '[') {
    rop red = in_quotes ? RED_NONE : red_find(r->t.s, strlen(r->t.s));
    if (red == RED_NONE) return load(r, false);
    rd_next(r);
    return reduction(r, red);
  }
  if (rd_take(r, "true")) return expr_bool(r->m, true);
  if (rd_take(r, "false")) return expr_bool(r->m, false);
  const char *name = rd_name(r, "a value");
  if (!rd_is(r, "(")) {
    r->t = at;
    rd_fail(r, "expected a value, found %s", shown(r));
  }
  return call(r, name, &at);
}
static const struct {
  const char *sign; /* the operator in the text */
  sop op;           /* the operation */
  int level;        /* precedence; higher binds tighter */
} binary[] = {{"or", OP_OR, 0}, {"and", OP_AND, 1}, {"==", OP_EQ, 2},   {"!=", OP_NE, 2}, {"<=", OP_LE, 2},
              {">=", OP_GE, 2}, {"<", OP_LT, 2},    {">", OP_GT, 2},    {"+", OP_ADD, 3}, {"-", OP_SUB, 3},
              {"*", OP_MUL, 4}, {"/", OP_DIV, 4},   {"//", OP_IDIV, 4}, {"%", OP_MOD, 4}};
static ex climb(reader *r, int level) {
  if (level > 4) return primary(r);
  ex a = climb(r, level + 1);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < sizeof binary / sizeof *binary && !more; i++) {
      token at = r->t;
      if (binary[i].level != level || !rd_take(r, binary[i].sign)) continue;
      ex b = climb(r, level + 1);
      a = make_op(r, &at, binary[i].op, ET_NONE, (ex[]){a, b}, 2);
      more = level != 2;
      break;
    }
  }
  return a;
}
ex rd_value(reader *r) {
  rd_enter(r);
  token at = r->t;
  ex a = climb(r, 0);
  if (rd_take(r, "?")) {
    ex yes = climb(r, 0);
    rd_expect(r, ":");
    ex no = rd_value(r);
    a = make_op(r, &at, OP_SEL, ET_NONE, (ex[]){a, yes, no}, 3);
  }
  r->depth--;
  return a;
}
