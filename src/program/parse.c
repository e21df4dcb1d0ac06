/* How is a program read back from its text?
 *
 *   program    program "name" { line } kernels LOOPTEXT          `# ...` to the end of the line is a comment, up
 *              to the line `kernels`
 *   line       size N LO..HI [= SIZE] [at most SIZE] [threads]    = : what it stands for;  at most: a late size
 *              and its bound;  threads: the number of threads
 *              input "name": type[SIZE, ...] | output "name": type[SIZE, ...]
 *              arena SIZE bytes [, at least SIZE] | scratch SIZE bytes per worker | weights N bytes
 *              buffer %N[.name]: KIND type x SIZE PLACE [halo VALUE]     numbered from 1 without gaps
 *                  PLACE of input, output: number N;  weights: in SIZE at N sha256:digest;  arena: in SIZE [late]
 *                                                     at SIZE steps FIRST..LAST
 *              state "input" = "output" (in place | exchanged) [first %N[.name]] [order AXIS ..]     of the last
 *              inputs and outputs, in their order
 *              STEP
 *   STEP       launch K(ARG, ...) chunks SIZE [scratch SIZE] [parallel [where SIZE >= 0]]      ARG: SIZE,
 *              scratch, or [out] %N[.name] [+ NUMBER], a pointer to that element
 *              late N = AT [node "name"] | room SIZE | room output N | if AT { STEP } [else { STEP }]
 *              loop N = 0 .. (SIZE|AT) [if AT] [while AT] { STEP }        AT: %N[.name] [+ SIZE], an element of a
 *              buffer
 *              fail when not SIZE (>=|==) 0 "text" [node "name"]             those outside of all steps, before
 *              the first step: at entry
 *
 * Sizes are declared before they are used, and so are buffers. One error stops the reading: file, line, column,
 * what was expected. LOOPTEXT is read by the loop level, with the same lines and columns.
 */
#include "program/build.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 64 };
typedef struct rd {
  ctx *c;                 /* context */
  arena *a;               /* memory */
  program *p;             /* the program */
  const char *s;          /* next character */
  const char *line_start; /* first character of the line */
  srcpos pos;             /* position, for messages */
  map *sizes;             /* name -> atom */
  map *kernels;           /* name -> line where it is first launched */
  int depth;              /* nested blocks */
  uint32_t at_state;      /* index of the input of the first state, once one was read */
  uint32_t nstates;       /* number of states that there must be, once one was read */
} rd;

/* ---- tokens ---------------------------------------------------------------------------------- */
static _Noreturn void bad(rd *r, const char *expected) {
  r->pos.col = (uint32_t)(r->s - r->line_start) + 1;
  int n = 0;
  while (n < 20 && r->s[n] && r->s[n] != '\n') n++;
  diag_add(r->c, D_ERROR, E_MODEL, r->pos, NULL, "program text: expected %s, found '%.*s'", expected, n, r->s);
  ctx_unwind(r->c);
}
static void skip(rd *r) {
  for (;; r->s++) {
    if (*r->s == '\n') {
      r->pos.line++;
      r->line_start = r->s + 1;
    } else if (*r->s == '#') {
      while (r->s[1] && r->s[1] != '\n') r->s++;
    } else if (*r->s != ' ' && *r->s != '\t' && *r->s != '\r')
      return;
  }
}
static bool is(rd *r, const char *t) {
  skip(r);
  return !strncmp(r->s, t, strlen(t));
}
static bool eat(rd *r, const char *t) {
  if (!is(r, t)) return false;
  r->s += strlen(t);
  return true;
}
static void want(rd *r, const char *t) {
  if (!eat(r, t)) bad(r, arena_fmt(r->a, "'%s'", t));
}
static bool first_char(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_'; }
static bool name_char(char ch) { return first_char(ch) || (ch >= '0' && ch <= '9') || ch == '.'; }
static bool word(rd *r, const char *w) {
  size_t n = strlen(w);
  if (!is(r, w) || name_char(r->s[n])) return false;
  r->s += n;
  return true;
}
static void want_word(rd *r, const char *w) {
  if (!word(r, w)) bad(r, arena_fmt(r->a, "'%s'", w));
}
static char byte(rd *r) { /* Reads a byte after \x. */
  int hi = hex_digit(r->s[0]), lo = hi < 0 ? -1 : hex_digit(r->s[1]);
  if (hi < 0 || lo < 0 || !(hi | lo)) bad(r, "two hexadecimal digits, not 00");
  r->s += 2;
  return (char)(hi * 16 + lo);
}
static const char *quoted(rd *r) {
  want(r, "\"");
  sbuf b = sbuf_new(r->a);
  sb_put(&b, "");
  while (*r->s != '"') {
    if (!*r->s || *r->s == '\n') bad(r, "a closing quote");
    char ch = *r->s++;
    if (ch == '\\') {
      ch = *r->s;
      if (!ch || ch == '\n') bad(r, "a closing quote");
      r->s++;
      ch = ch == 'n' ? '\n' : ch == 't' ? '\t' : ch == 'x' ? byte(r) : ch;
    }
    sb_putc(&b, ch);
  }
  r->s++;
  return b.s;
}
static const char *name(rd *r, const char *what) {
  skip(r);
  const char *s = r->s;
  while (name_char(*r->s)) r->s++;
  if (r->s == s) bad(r, what);
  return arena_strndup(r->a, s, (size_t)(r->s - s));
}
static int64_t integer(rd *r) {
  skip(r);
  char *end;
  errno = 0;
  if (*r->s != '-' && !(*r->s >= '0' && *r->s <= '9')) bad(r, "an integer");
  long long v = strtoll(r->s, &end, 10);
  if (end == r->s || errno) bad(r, "an integer of 64 bits");
  r->s = end;
  return v;
}
static uint32_t count(rd *r) {
  const char *before = (skip(r), r->s);
  int64_t v = integer(r);
  if (v < 0 || v > UINT32_MAX) {
    r->s = before;
    bad(r, "a number from 0 to 4294967295");
  }
  return (uint32_t)v;
}
static etype element(rd *r) {
  const char *before = (skip(r), r->s);
  etype t = et_parse(name(r, "an element type"));
  if (!t || t == ET_STR) {
    r->s = before;
    bad(r, "an element type");
  }
  return t;
}
static scalar value(rd *r, etype t) {
  scalar v;
  char *end;
  skip(r);
  errno = 0;
  if (et_kind(t) == K_FLOAT)
    v.f = t == ET_F64 ? num_parse(r->c, r->s, &end) : (double)num_parsef(r->c, r->s, &end);
  else if (et_kind(t) == K_UINT)
    v.i = (int64_t)strtoull(r->s, &end, 10);
  else
    v.i = strtoll(r->s, &end, 10);
  if (end == r->s || name_char(*end)) bad(r, arena_fmt(r->a, "a value of type %s", et_name(t)));
  r->s = end;
  return v;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static sz known_name(void *env, const char *s, size_t n) {
  rd *r = env;
  uint64_t a;
  return map_get(r->sizes, s, n, &a) ? sym_of_atom(r->c, (atom)a) : 0;
}
static sz size(rd *r) {
  skip(r);
  const char *from = r->s;
  r->pos.col = (uint32_t)(from - r->line_start) + 1;
  sz e = sym_parse(r->c, &r->s, known_name, r, r->pos);
  if (!e) ctx_unwind(r->c);
  for (; from < r->s; from++)
    if (*from == '\n') r->pos.line++, r->line_start = from + 1;
  return e;
}
static const char *size_name(rd *r) { /* Reads the name of a size as sym prints it. */
  skip(r);
  sbuf b = sbuf_new(r->a);
  sb_put(&b, "");
  if (*r->s != '`') {
    if (!first_char(*r->s)) bad(r, "the name of a size");
    while (name_char(*r->s) || *r->s == '\'' || *r->s == '$') sb_putc(&b, *r->s++);
    return b.s;
  }
  for (r->s++; *r->s != '`';) {
    if (!*r->s || *r->s == '\n') bad(r, "a closing backtick");
    char ch = *r->s++;
    if (ch == '\\') {
      if (*r->s++ != 'x') r->s--, bad(r, "\\xHH");
      ch = byte(r);
    }
    sb_putc(&b, ch);
  }
  r->s++;
  return b.s;
}
static atom symbol(rd *r) { /* Reads a symbol that is declared. */
  const char *before = (skip(r), r->s);
  uint64_t a;
  if (map_gets(r->sizes, size_name(r), &a)) return (atom)a;
  r->s = before;
  bad(r, "a size that is declared above");
}
static void size_line(rd *r) {
  psize s = {0};
  uint64_t had;
  const char *before = (skip(r), r->s), *n = size_name(r);
  if (map_gets(r->sizes, n, &had)) {
    r->s = before;
    bad(r, "a size that is not declared above");
  }
  s.lo = integer(r);
  want(r, "..");
  s.hi = integer(r);
  if (s.lo > s.hi) bad(r, "a range whose end is not below its beginning");
  if (is(r, "=") && eat(r, "=")) s.def = size(r);
  if (word(r, "at")) want_word(r, "most"), s.bound = size(r);
  if (!sym_is_atom(r->c, sym_symbol(r->c, n, s.lo, s.hi), &s.symbol)) bad(r, "the range of a size");
  map_puts(r->sizes, n, s.symbol);
  if (word(r, "threads")) r->p->threads = s.symbol;
  vec_push(r->a, r->p->sizes, s);
}
static pio in_out(rd *r) {
  pio x = {.name = quoted(r)};
  sz dims[MAX_RANK];
  want(r, ":");
  x.type = element(r);
  want(r, "[");
  while (!eat(r, "]")) {
    if (x.rank) want(r, ",");
    if (x.rank == MAX_RANK) bad(r, "at most 16 dimensions");
    dims[x.rank++] = size(r);
  }
  x.dims = arena_dup(r->a, dims, x.rank * sizeof *dims);
  return x;
}

/* ---- buffers --------------------------------------------------------------------------------- */
static const char *buffer_name(rd *r) { /* Reads the name of a buffer after its number. */
  if (*r->s != '.') return NULL;
  r->s++;
  return *r->s == '"' ? quoted(r) : name(r, "a buffer's name");
}
static uint32_t buffer_ref(rd *r) {
  const char *before = (skip(r), r->s);
  want(r, "%");
  uint32_t n = count(r);
  bool good = n > 0 && n < r->p->buffers.n;
  const char *have = buffer_name(r), *its = good && r->p->buffers.v[n].name ? r->p->buffers.v[n].name : "";
  if (good && !strcmp(have ? have : "", its)) return n;
  r->s = before;
  bad(r, good ? arena_fmt(r->a, "%%%u%s%s", n, *its ? "." : "", its) : "a buffer that is declared above");
}
static place where(rd *r) {
  place at = {.buffer = buffer_ref(r)};
  at.at = eat(r, "+") ? size(r) : sym_int(r->c, 0);
  return at;
}
static void buffer_line(rd *r) {
  pbuffer b = {0};
  want(r, "%");
  const char *before = r->s;
  if (count(r) != r->p->buffers.n) {
    r->s = before;
    bad(r, arena_fmt(r->a, "the next buffer's number, %u", r->p->buffers.n));
  }
  b.name = buffer_name(r);
  want(r, ":");
  b.kind = word(r, "input")     ? BUF_INPUT
           : word(r, "output")  ? BUF_OUTPUT
           : word(r, "weights") ? BUF_WEIGHTS
           : word(r, "arena")   ? BUF_ARENA
                                : 0;
  if (!b.kind) bad(r, "input, output, weights or arena");
  b.type = element(r);
  want_word(r, "x");
  b.elems = size(r);
  if (b.kind == BUF_INPUT || b.kind == BUF_OUTPUT) {
    want_word(r, "number");
    b.number = count(r);
  } else {
    want_word(r, "in");
    b.bytes = size(r);
    b.late = b.kind == BUF_ARENA && word(r, "late");
    want_word(r, "at");
    if (b.kind == BUF_ARENA) {
      b.offset = size(r);
      want_word(r, "steps");
      b.first = count(r);
      want(r, "..");
      b.last = count(r);
    } else {
      const char *at = (skip(r), r->s);
      int64_t offset = integer(r);
      if (offset < 0) {
        r->s = at;
        bad(r, "an offset that is not negative");
      }
      b.weight_offset = (uint64_t)offset;
      weights_measure(r->c, &b);
      want(r, "sha256:");
      b.sha256 = name(r, "a SHA-256 digest");
      if (strlen(b.sha256) != 64 || strspn(b.sha256, "0123456789abcdef") != 64)
        bad(r, "64 hexadecimal digits before this");
    }
  }
  if (word(r, "halo")) b.halo = true, b.fill = value(r, b.type);
  vec_push(r->a, r->p->buffers, b);
}

/* ---- steps ----------------------------------------------------------------------------------- */
static void state_line(rd *r) {
  program *p = r->p;
  pstate s = {0};
  const char *at = (skip(r), r->s), *in = quoted(r);
  want(r, "=");
  const char *out = quoted(r);
  if (r->at_state == 0) { /* the first one: how many there are */
    while (r->at_state < p->inputs.n && strcmp(p->inputs.v[r->at_state].name, in) != 0) r->at_state++;
    r->nstates = p->inputs.n - r->at_state;
  }
  const uint32_t i = r->at_state + p->states.n, o = p->outputs.n + p->states.n - r->nstates;
  if (i >= p->inputs.n || r->nstates > p->outputs.n || strcmp(p->inputs.v[i].name, in) != 0 ||
      strcmp(p->outputs.v[o].name, out) != 0) {
    r->s = at;
    bad(r, "the states of the last inputs and outputs, in their order");
  }
  s.in_place = word(r, "in");
  want_word(r, s.in_place ? "place" : "exchanged");
  if (word(r, "first")) s.first = buffer_ref(r);
  if (word(r, "order")) {
    const uint32_t rank = p->inputs.v[i].rank;
    uint32_t *order = NEWN(r->a, uint32_t, rank + 1);
    for (uint32_t d = 0; d < rank; d++) order[d] = count(r);
    s.order = order;
  }
  vec_push(r->a, p->states, s);
}
static pcheck check(rd *r) { /* Reads a condition after `fail`. */
  want_word(r, "when");
  want_word(r, "not");
  pcheck g = {.ge0 = size(r)};
  g.is_eq = eat(r, "==");
  if (!g.is_eq) want(r, ">=");
  want_word(r, "0");
  g.text = quoted(r);
  if (word(r, "node")) g.node = quoted(r);
  return g;
}
static void launch_step(rd *r, step *s) {
  VEC(kargs) args = {0};
  uint64_t had;
  s->kind = ST_LAUNCH;
  s->kernel = name(r, "a kernel's name");
  if (!map_gets(r->kernels, s->kernel, &had)) map_puts(r->kernels, s->kernel, r->pos.line);
  want(r, "(");
  while (!eat(r, ")")) {
    if (args.n) want(r, ",");
    kargs a = {0};
    if (word(r, "scratch"))
      a.is_buffer = a.write = true;
    else if (word(r, "out"))
      a.is_buffer = a.write = true, a.buffer = buffer_ref(r);
    else if (is(r, "%"))
      a.is_buffer = true, a.buffer = buffer_ref(r);
    else
      a.size = size(r);
    if (a.buffer && eat(r, "+")) a.moved = integer(r);
    vec_push(r->a, args, a);
  }
  s->nargs = args.n, s->args = args.v;
  want_word(r, "chunks");
  s->chunks = size(r);
  if (word(r, "scratch")) s->scratch = size(r);
  s->parallel = word(r, "parallel");
  if (s->parallel && word(r, "where")) s->where = size(r), want(r, ">="), want_word(r, "0");
}
static void value_step(rd *r, step *s) {
  VEC(sz) dims = {0};
  pvalue *v = &s->value;
  s->kind = ST_VALUE;
  v->at = where(r);
  want(r, "="), v->value = where(r);
  want_word(r, "in"), v->lo = size(r);
  want(r, ".."), v->hi = size(r);
  want_word(r, "over"), want(r, "[");
  while (!eat(r, "]")) {
    if (dims.n) want(r, ",");
    if (dims.n == MAX_RANK) bad(r, "at most 16 axes");
    vec_push(r->a, dims, size(r));
  }
  v->ndims = dims.n, v->dims = dims.v;
  v->text = quoted(r);
  if (word(r, "node")) v->node = quoted(r);
}
static bool one_step(rd *r, steps *to);
static void braces(rd *r, steps *to) {
  if (++r->depth > MAX_NESTING) bad(r, "at most 64 nested blocks");
  want(r, "{");
  while (!eat(r, "}"))
    if (!one_step(r, to)) bad(r, "a step or '}'");
  r->depth--;
}
static bool one_step(rd *r, steps *to) {
  step s = {0};
  if (word(r, "launch"))
    launch_step(r, &s);
  else if (word(r, "late")) {
    s.kind = ST_LATE;
    s.symbol = symbol(r);
    want(r, "=");
    s.from = where(r);
    if (word(r, "node")) s.node = quoted(r);
  } else if (word(r, "room")) {
    s.kind = ST_ROOM;
    if (word(r, "output")) {
      const char *at = (skip(r), r->s);
      s.output = count(r);
      if (s.output >= r->p->outputs.n) r->s = at, bad(r, "an output's number");
    } else
      s.room = size(r);
  } else if (word(r, "check")) {
    value_step(r, &s);
  } else if (word(r, "fail")) {
    s.kind = ST_CHECK;
    s.check = check(r);
  } else if (word(r, "if")) {
    s.kind = ST_IF;
    s.from = where(r);
    braces(r, &s.body);
    if (word(r, "else")) braces(r, &s.other);
  } else if (word(r, "loop")) {
    s.kind = ST_LOOP;
    s.symbol = symbol(r);
    want(r, "=");
    want_word(r, "0");
    want(r, "..");
    if (is(r, "%"))
      s.from = where(r);
    else
      s.trips = size(r);
    if (word(r, "if")) s.first = where(r);
    if (word(r, "while")) s.again = where(r);
    braces(r, &s.body);
  } else
    return false;
  vec_push(r->a, *to, s);
  return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */
static void line(rd *r) {
  program *p = r->p;
  if (word(r, "size"))
    size_line(r);
  else if (word(r, "input"))
    vec_push(r->a, p->inputs, in_out(r));
  else if (word(r, "output"))
    vec_push(r->a, p->outputs, in_out(r));
  else if (word(r, "arena")) {
    p->arena_bytes = size(r);
    want_word(r, "bytes");
    if (eat(r, ",")) want_word(r, "at"), want_word(r, "least"), p->live_bound = size(r);
  } else if (word(r, "scratch")) {
    p->scratch_bytes = size(r);
    want_word(r, "bytes"), want_word(r, "per"), want_word(r, "worker");
  } else if (word(r, "weights")) {
    int64_t n = integer(r);
    if (n < 0) bad(r, "bytes that are not negative");
    p->weight_bytes = (uint64_t)n;
    want_word(r, "bytes");
    if (eat(r, ",")) {
      const int64_t first = integer(r);
      if (first < 0) bad(r, "bytes that are not negative");
      p->first_bytes = (uint64_t)first;
      want_word(r, "of"), want_word(r, "first"), want_word(r, "values");
    }
  } else if (word(r, "buffer"))
    buffer_line(r);
  else if (word(r, "state"))
    state_line(r);
  else if (!p->steps.n && word(r, "fail"))
    vec_push(r->a, p->checks, check(r));
  else if (!one_step(r, &p->steps))
    bad(r, "a size, input, output, arena, scratch, weights, buffer, step or 'kernels'");
}
static void resolve(rd *r, steps *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    step *s = &list->v[i];
    for (uint32_t j = 0; s->kind == ST_LAUNCH && j < r->p->l->funcs.n && !s->func; j++)
      if (!strcmp(r->p->l->funcs.v[j]->name, s->kernel)) s->func = r->p->l->funcs.v[j];
    if (s->kind == ST_LAUNCH && !s->func) {
      uint64_t at = 0;
      map_gets(r->kernels, s->kernel, &at);
      diag_add(r->c, D_ERROR, E_MODEL, (srcpos){r->pos.file, (uint32_t)at, 1}, NULL,
               "program text: kernel %s is launched here, but not among the kernels at the end", s->kernel);
      ctx_unwind(r->c);
    }
    resolve(r, &s->body), resolve(r, &s->other);
  }
}
static program *parse(ctx *c, const char *text, const char *file) {
  arena *a = ctx_arena(c);
  rd r = {.c = c,
          .a = a,
          .p = NEW(a, program),
          .s = text,
          .line_start = text,
          .pos = {file, 1, 1},
          .sizes = map_new(a),
          .kernels = map_new(a)};
  program *p = r.p;
  p->c = c, p->a = a;
  vec_push(a, p->buffers, ((pbuffer){0}));
  want_word(&r, "program");
  p->name = quoted(&r);
  while (!word(&r, "kernels")) line(&r);
  if (!p->arena_bytes || !p->scratch_bytes) bad(&r, "the sizes of the arena and of the scratch area above this");
  if (p->states.n != r.nstates) bad(&r, "a line for each state above this");
  char *rest = arena_strdup(a, text); /* blank up to here, so that the loop level tells the right lines and columns */
  for (char *s = rest; s < rest + (r.s - text); s++)
    if (*s != '\n') *s = ' ';
  p->l = loop_parse(c, rest, file);
  if (!p->l) ctx_unwind(c);
  for (uint32_t i = 0; i < p->l->funcs.n; i++)
    if (p->l->funcs.v[i]->kind != LF_KERNEL) bad(&r, "kernels only; the main functions follow from the program");
  resolve(&r, &p->steps);
  return p;
}
static void guarded(ctx *c, const char *text, const char *file, program **out) {
  CTX_TRY(c) { *out = parse(c, text, file); }
  CTX_CATCH { *out = NULL; }
}
program *program_parse(ctx *c, const char *text, const char *file) {
  program *p = NULL;
  guarded(c, text, file, &p);
  return p;
}
