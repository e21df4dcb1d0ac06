/* How is a text of schedules read? See record.h for its form: a directive a line, # begins a comment. */
#include "schedule/record.h"
#include <ctype.h>
#include <string.h>

enum { MAX_DEPTH = 8 };
typedef struct reader {
  ctx *c;           /* context */
  arena *a;         /* memory of the result */
  const char *file; /* name for messages */
  const char *s;    /* next character */
  const char *end;  /* end of the text */
  const char *from; /* first character of the line */
  uint32_t line;    /* number of the line, from 1 */
} reader;

static srcpos here(const reader *r) { return (srcpos){r->file, r->line, (uint32_t)(r->s - r->from) + 1}; }
static _Noreturn void error(reader *r, srcpos at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static _Noreturn void error(reader *r, srcpos at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vfmt(r->a, fmt, ap);
  va_end(ap);
  diag_add(r->c, D_ERROR, E_USAGE, at, NULL, "schedule: %s", text);
  ctx_unwind(r->c);
}
static char next(const reader *r) { return r->s < r->end ? *r->s : 0; }
static bool at_end(const reader *r) { return r->s >= r->end; }
/* Goes over blanks and a comment; lines: over ends of lines, too. */
static void blanks(reader *r, bool lines) {
  for (; !at_end(r); r->s++) {
    if (*r->s == '#')
      while (r->s + 1 < r->end && r->s[1] != '\n') r->s++;
    else if (*r->s == '\n') {
      if (!lines) return;
      r->line++, r->from = r->s + 1;
    } else if (*r->s != ' ' && *r->s != '\t' && *r->s != '\r')
      return;
  }
}
static bool accept(reader *r, char ch) {
  if (next(r) != ch || at_end(r)) return false;
  r->s++;
  return true;
}
static void expect(reader *r, char ch, bool lines) {
  blanks(r, lines);
  if (accept(r, ch)) return;
  if (at_end(r)) error(r, here(r), "expected `%c`, found the end of the text", ch);
  error(r, here(r), "expected `%c`, found `%c`", ch, isprint((unsigned char)next(r)) ? next(r) : '?');
}
static const char *bare(reader *r) {
  const char *s = r->s;
  while (!at_end(r) && *r->s && strchr(RECORD_BARE, *r->s)) r->s++;
  if (r->s == s) {
    if (at_end(r) || *s == '\n') error(r, here(r), "expected a word, found the end of the line");
    error(r, here(r), "expected a word, found `%c`", isprint((unsigned char)*s) ? *s : '?');
  }
  return arena_strndup(r->a, s, (size_t)(r->s - s));
}
static int hex(reader *r) {
  const int digit = hex_digit(next(r));
  if (digit < 0) error(r, here(r), "expected a hexadecimal digit");
  r->s++;
  return digit;
}
static const char *quoted(reader *r) { /* Behind the opening quote. */
  sbuf b = sbuf_new(r->a);
  sb_put(&b, "");
  while (!accept(r, '"')) {
    if (at_end(r) || next(r) == '\n') error(r, here(r), "the quotes are not closed");
    if (!accept(r, '\\')) {
      sb_putc(&b, *r->s++);
      continue;
    }
    if (accept(r, 'n'))
      sb_putc(&b, '\n');
    else if (accept(r, 'x')) {
      const int high = hex(r), code = high << 4 | hex(r);
      if (!code) error(r, here(r), "a name has no character \\x00");
      sb_putc(&b, (char)code);
    } else if (at_end(r))
      error(r, here(r), "the quotes are not closed");
    else
      sb_putc(&b, *r->s++);
  }
  return b.s;
}
/* A list in parentheses, behind the opening one, as one word with single blanks. */
static const char *list(reader *r, int depth) {
  sbuf b = sbuf_new(r->a);
  if (depth == MAX_DEPTH) error(r, here(r), "lists in more than %d parentheses", MAX_DEPTH);
  sb_putc(&b, '(');
  for (bool first = true;; first = false) {
    blanks(r, false);
    if (accept(r, ')')) break;
    if (!first) sb_putc(&b, ' ');
    sb_put(&b, accept(r, '(') ? list(r, depth + 1) : bare(r));
  }
  sb_putc(&b, ')');
  if (next(r) == '/' || next(r) == '%') sb_put(&b, bare(r)); /* a part of it: (a b)/4 */
  return b.s;
}
static const char *word(reader *r) { return accept(r, '(') ? list(r, 0) : accept(r, '"') ? quoted(r) : bare(r); }

static void check_words(reader *r, const directive *d) {
  const primitive_form *f = &primitive_forms[d->is];
  if (d->words.n < f->least || d->words.n > f->most) error(r, d->pos, "%s: expected %s", f->name, f->words);
}
/* A directive of a kernel, a nest or a tensor, whose name was read. */
static directive read_directive(reader *r, srcpos at, const char *name, record_of of) {
  static const char *const owners[] = {"to the kernel, outside of its nests", "into a nest", "to a tensor"};
  directive d = {.is = P_COUNT, .pos = at};
  const char *names[P_COUNT];
  for (uint32_t i = 0; i < P_COUNT; i++) {
    names[i] = primitive_forms[i].name;
    if (!strcmp(name, names[i])) d.is = (primitive)i;
  }
  if (d.is == P_COUNT) error(r, at, "there is no primitive %s%s", name, did_you_mean(r->a, name, names, P_COUNT));
  if (primitive_forms[d.is].of != of) error(r, at, "%s belongs %s", name, owners[primitive_forms[d.is].of]);
  for (;;) {
    blanks(r, false);
    if (at_end(r) || next(r) == '\n' || next(r) == '}') break;
    vec_push(r->a, d.words, word(r));
  }
  check_words(r, &d);
  return d;
}
static nest_record read_nest(reader *r, srcpos at) {
  blanks(r, false);
  nest_record n = {.name = word(r), .pos = at};
  expect(r, '{', true);
  for (;;) {
    blanks(r, true);
    if (accept(r, '}')) return n;
    const srcpos pos = here(r);
    if (at_end(r)) error(r, pos, "nest %s is not closed: expected `}`", n.name);
    const directive d = read_directive(r, pos, bare(r), OF_NEST);
    for (uint32_t i = 0; i < n.directives.n; i++)
      if (n.directives.v[i].is == d.is && !primitive_forms[d.is].repeats)
        error(r, pos, "%s is stated twice", primitive_forms[d.is].name);
    if (d.is != P_PREFETCH || !EK_PLANTED("schedule-parse")) vec_push(r->a, n.directives, d);
  }
}
static tensor_record read_tensor(reader *r, srcpos at) {
  blanks(r, false);
  tensor_record t = {.name = word(r), .pos = at};
  expect(r, '{', true);
  for (;;) {
    blanks(r, true);
    if (accept(r, '}')) return t;
    const srcpos pos = here(r);
    if (at_end(r)) error(r, pos, "tensor %s is not closed: expected `}`", t.name);
    const directive d = read_directive(r, pos, bare(r), OF_TENSOR);
    if (record_find_tensor(&t, d.is)) error(r, pos, "%s is stated twice", primitive_forms[d.is].name);
    vec_push(r->a, t.directives, d);
  }
}
static uint32_t count_of(reader *r, srcpos at, const char *digits, const char *what) {
  char *end;
  const int64_t n = int_parse(digits, &end);
  if (!isdigit((unsigned char)*digits) || *end || n >= UINT32_MAX)
    error(r, at, "expected %s; found `%s`", what, digits);
  return (uint32_t)n;
}
static void read_name(reader *r, kernel_record *k) { /* The number and the hash. */
  k->number = UINT32_MAX;
  for (;;) {
    blanks(r, false);
    const srcpos at = here(r);
    if (next(r) == '{' || at_end(r)) break;
    if (accept(r, '@')) {
      if (k->hashed) error(r, at, "a kernel has one hash");
      k->hashed = true;
      for (size_t i = 0; i < 2 * sizeof k->hash; i++) k->hash = k->hash << 4 | (uint64_t)hex(r);
      if (accept(r, ':')) k->nth = count_of(r, at, bare(r), "which one of the kernels with this hash, from 1");
      continue;
    }
    const char *name = bare(r);
    if (*name != 'k' || k->number != UINT32_MAX)
      error(r, at, "expected a kernel as k3, or the hash of one as @ and 16 digits; found `%s`", name);
    k->number = count_of(r, at, name + 1, "a kernel as k3");
  }
  if (!k->hashed && k->number == UINT32_MAX) error(r, k->pos, "expected which kernel: k3, or @ and its hash");
}
static kernel_record read_kernel(reader *r, srcpos at) {
  kernel_record k = {.pos = at};
  read_name(r, &k);
  expect(r, '{', true);
  for (;;) {
    blanks(r, true);
    if (accept(r, '}')) return k;
    const srcpos pos = here(r);
    if (at_end(r)) error(r, pos, "the kernel is not closed: expected `}`");
    const char *name = bare(r);
    if (!strcmp(name, "nest")) {
      const nest_record n = read_nest(r, pos);
      if (record_nest_named(&k, n.name)) error(r, pos, "nest %s is there twice", n.name);
      vec_push(r->a, k.nests, n);
      continue;
    }
    const directive d = read_directive(r, pos, name, OF_KERNEL);
    if (!primitive_forms[d.is].repeats && record_find(&k, NULL, d.is))
      error(r, pos, "%s is stated twice", primitive_forms[d.is].name);
    vec_push(r->a, k.directives, d);
  }
}
schedules *schedules_parse(ctx *c, const char *file, bytes text) {
  arena *a = ctx_arena(c);
  const char *s = (const char *)text.p;
  reader r = {.c = c, .a = a, .file = file, .s = s, .end = s + text.n, .from = s, .line = 1};
  schedules *out = NEW(a, schedules);
  blanks(&r, true);
  srcpos at = here(&r);
  if (at_end(&r) || strcmp(bare(&r), "schedules")) error(&r, at, "expected the version, as in `schedules 1`");
  blanks(&r, false);
  at = here(&r);
  const char *version = bare(&r);
  if (strcmp(version, "1")) error(&r, at, "version %s is not known: this compiler reads version 1", version);
  for (;;) {
    blanks(&r, true);
    if (at_end(&r)) return out;
    at = here(&r);
    const char *name = bare(&r);
    if (!strcmp(name, "kernel"))
      vec_push(a, out->kernels, read_kernel(&r, at));
    else if (!strcmp(name, "tensor")) {
      const tensor_record t = read_tensor(&r, at);
      if (record_tensor_named(out, t.name)) error(&r, at, "tensor %s is there twice", t.name);
      vec_push(a, out->tensors, t);
    } else
      error(&r, at, "expected `tensor` or `kernel`, found `%s`", name);
  }
}
