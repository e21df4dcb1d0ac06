/* How does a CSV file become columns? RFC 4180: a header line with names, then one line a sample; fields may stand in
 * double quotes, in which "" is a quote and line breaks are text. The delimiter is a comma, or a semicolon or tab where
 * the header has no comma. The target is a column of its own: integers, floats or, if its first value is no number,
 * texts that are classes. All other columns together are the column "x" of floats. A value that is missing, or is no
 * number, is an error at its place. */
#include "data/data_in.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader {
  ctx *c;
  const char *file;    /* for messages */
  const uint8_t *p;    /* next byte */
  const uint8_t *end;  /* end of the text */
  const uint8_t *line; /* where the line begins */
  uint64_t row;        /* number of the line, from 1 */
  uint8_t delimiter;
} reader;
typedef struct field {
  bytes text;        /* without quotes; not NUL-terminated */
  uint64_t row, col; /* where it begins, from 1 */
  bool last;         /* of its line */
} field;
typedef struct table {
  strvec names;    /* of the header */
  uint32_t target; /* column of the target */
  int64_t rows;    /* samples so far */
  double *x;       /* values of the columns that are no target, row by row */
  bytes *texts;    /* of the target */
  double *numbers; /* targets; NULL: they are texts */
  int64_t *ints;   /* targets, as long as all are integers; NULL: they are texts */
  bool all_ints;   /* all targets so far are integers */
} table;

static uint64_t col_of(const reader *r) { return (uint64_t)(r->p - r->line) + 1; }

/* ---- fields ---------------------------------------------------------------------------------- */
static void new_line(reader *r) { r->row++, r->line = r->p; }
/* The text between quotes; p is behind the first. */
static bytes quoted(reader *r, const field *f) {
  const uint8_t *from = r->p;
  size_t pairs = 0;
  for (; r->p < r->end; r->p++) {
    if (*r->p == '\n') {
      r->p++, new_line(r), r->p--;
    } else if (*r->p == '"') {
      if (r->p + 1 == r->end || r->p[1] != '"') break;
      pairs++, r->p++;
    }
  }
  if (r->p >= r->end) fail_at(r->c, r->file, f->row, f->col, "a quote that is not closed");
  bytes text = {from, (size_t)(r->p++ - from)};
  if (!pairs) return text;
  uint8_t *copy = arena_alloc(ctx_arena(r->c), text.n - pairs + 1);
  for (size_t i = 0, n = 0; i < text.n; i++) copy[n++] = text.p[i], i += text.p[i] == '"';
  return (bytes){copy, text.n - pairs};
}
static bool ends_field(const reader *r) {
  return r->p == r->end || *r->p == r->delimiter || *r->p == '\n' ||
         (*r->p == '\r' && (r->p + 1 == r->end || r->p[1] == '\n'));
}
static field next_field(reader *r) {
  field f = {.row = r->row, .col = col_of(r)};
  if (r->p < r->end && *r->p == '"') {
    r->p++;
    f.text = quoted(r, &f);
    if (!ends_field(r)) fail_at(r->c, r->file, r->row, col_of(r), "text behind a quoted field");
  } else {
    const uint8_t *from = r->p;
    while (!ends_field(r)) r->p++;
    f.text = (bytes){from, (size_t)(r->p - from)};
  }
  f.last = r->p == r->end || *r->p != r->delimiter;
  if (r->p < r->end && *r->p == '\r' && f.last) r->p++;
  if (r->p < r->end) r->p++;
  if (f.last) new_line(r);
  return f;
}
/* Skips lines that have nothing; false: the file ends. */
static bool more_lines(reader *r) {
  while (r->p < r->end && (*r->p == '\n' || (*r->p == '\r' && r->p + 1 < r->end && r->p[1] == '\n'))) {
    r->p += *r->p == '\r' ? 2 : 1;
    new_line(r);
  }
  return r->p < r->end;
}

/* ---- values ---------------------------------------------------------------------------------- */
static bytes trimmed(bytes b) {
  while (b.n && (*b.p == ' ' || *b.p == '\t')) b.p++, b.n--;
  while (b.n && (b.p[b.n - 1] == ' ' || b.p[b.n - 1] == '\t')) b.n--;
  return b;
}
static bool is_missing(bytes b) {
  static const char *const words[] = {"", "?", "NA", "N/A", "NaN", "null"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (b.n == strlen(words[i]) && !strncasecmp((const char *)b.p, words[i], b.n)) return true;
  return false;
}
enum { LONGEST_NUMBER = 400 };
static bool is_number(ctx *c, bytes b, double *x) {
  char text[LONGEST_NUMBER + 1], *end;
  if (!b.n || b.n > LONGEST_NUMBER) return false;
  memcpy(text, b.p, b.n), text[b.n] = 0;
  if (strspn(text, "0123456789+-.eE") != b.n) return false; /* no inf, no hexadecimal numbers */
  *x = num_parse(c, text, &end);
  return *end == 0;
}
static bool is_integer(bytes b, int64_t *x) {
  const bool negative = b.n && *b.p == '-';
  *x = 0;
  if (b.n && (*b.p == '-' || *b.p == '+')) b.p++, b.n--;
  for (size_t i = 0; i < b.n; i++) {
    const int digit = b.p[i] - '0';
    if (digit < 0 || digit > 9 || !mul64(*x, 10, x) || !add64(*x, negative ? -digit : digit, x)) return false;
  }
  return b.n > 0;
}
static _Noreturn void no_number(const reader *r, const table *t, const field *f, uint32_t column, const char *more) {
  const bytes b = trimmed(f->text);
  sbuf text = sbuf_new(ctx_arena(r->c));
  if (is_missing(b))
    fail_at(r->c, r->file, f->row, f->col, "the value of column '%s' is missing%s%.*s%s", t->names.v[column],
            b.n ? " (" : "", (int)b.n, (const char *)b.p, b.n ? ")" : "");
  sb_quoted(&text, (const char *)b.p, b.n < 40 ? b.n : 40);
  fail_at(r->c, r->file, f->row, f->col, "column '%s': %s is no number%s", t->names.v[column], text.s, more);
}
static void take_target(const reader *r, table *t, const field *f) {
  const bytes b = trimmed(f->text);
  double x;
  if (is_missing(b)) no_number(r, t, f, t->target, "");
  const bool number = is_number(r->c, b, &x);
  if (t->rows == 0 && !number) t->numbers = NULL;
  if (t->numbers) {
    if (!number) no_number(r, t, f, t->target, "; the first value of the target is one, so that all must be");
    t->numbers[t->rows] = x;
    t->all_ints = t->all_ints && is_integer(b, &t->ints[t->rows]);
  } else {
    t->texts[t->rows] = b;
  }
}

/* Names of columns may be their numbers; other numbers are samples. */
static bool is_measured(ctx *c, bytes b) {
  double x;
  int64_t i;
  return is_number(c, b, &x) && (!is_integer(b, &i) || i < 0);
}

/* ---- the table ------------------------------------------------------------------------------- */
static void read_header(reader *r, table *t) {
  bool words = false, measured = false;
  field f;
  if (!more_lines(r)) ctx_fail(r->c, E_IO, "%s: the CSV file has no header", r->file);
  do {
    double x;
    f = next_field(r);
    const bytes b = trimmed(f.text);
    words = words || !is_number(r->c, b, &x);
    measured = measured || is_measured(r->c, b);
    const char *name = arena_strndup(ctx_arena(r->c), (const char *)b.p, b.n);
    vec_push(ctx_arena(r->c), t->names, name);
  } while (!f.last);
  if (!words || measured)
    fail_at(r->c, r->file, f.row, 1,
            "the header of the CSV file has numbers; the first line must have the columns' "
            "names");
  if (t->names.n < 2) fail_at(r->c, r->file, f.row, 1, "the CSV file has one column; a target and others are needed");
}
static uint32_t find_target(const reader *r, const table *t, const char *name) {
  uint32_t found = t->names.n;
  if (!name) return t->names.n - 1;
  for (uint32_t i = 0; i < t->names.n; i++) {
    if (strcmp(t->names.v[i], name)) continue;
    if (found < t->names.n) ctx_fail(r->c, E_USAGE, "%s: two columns have the target's name, '%s'", r->file, name);
    found = i;
  }
  if (found == t->names.n)
    ctx_fail(r->c, E_USAGE, "%s: the header has no column '%s' for the target%s", r->file, name,
             did_you_mean(ctx_arena(r->c), name, t->names.v, t->names.n));
  return found;
}
static void read_row(reader *r, table *t) {
  double *x = t->x + (size_t)t->rows * (t->names.n - 1);
  for (uint32_t i = 0;; i++) {
    const field f = next_field(r);
    if (i == t->names.n || (f.last && i + 1 < t->names.n))
      fail_at(r->c, r->file, f.row, f.col, "the line has %s fields than the header, which has %u",
              i == t->names.n ? "more" : "fewer", t->names.n);
    if (i == t->target)
      take_target(r, t, &f);
    else if (!is_number(r->c, trimmed(f.text), x++))
      no_number(r, t, &f, i, "; texts are possible in the target only");
    if (f.last) break;
  }
  t->rows++;
}
static int64_t count_lines(bytes b) {
  int64_t n = 1;
  for (const uint8_t *p = b.p, *end = b.p + b.n; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++) n++;
  return n;
}
/* The names of "x" are those of the data set that this one goes with. */
static void check_like(const reader *r, const dataset *d, const strvec *names) {
  const int32_t k = d->like ? dataset_find(d->like, "x") : -1;
  const dataset_column *x = k < 0 ? NULL : dataset_column_at(d->like, (uint32_t)k);
  if (!x || !x->components) return;
  for (uint32_t i = 0; i < names->n || i < x->elements; i++)
    if (i >= names->n || i >= x->elements || strcmp(names->v[i], x->components[i]))
      ctx_fail(r->c, E_SHAPE, "%s: column %u is %s; in %s it is %s", r->file, i + 1,
               i < names->n ? names->v[i] : "missing", d->like->path, i < x->elements ? x->components[i] : "missing");
}
static void add_columns(const reader *r, dataset *d, const data_source *s, const table *t) {
  arena *a = ctx_arena(r->c);
  const char *target = t->names.v[t->target];
  strvec names = {0};
  for (uint32_t i = 0; i < t->names.n; i++)
    if (i != t->target) vec_push(a, names, t->names.v[i]);
  check_like(r, d, &names);
  ndarray x = {.type = ET_F64, .rank = 2, .dims = {t->rows, names.n}, .data = t->x};
  dataset_add(r->c, d, s->path, s->name ? s->name : strcmp(target, "x") ? "x" : "inputs", &x);
  d->columns.v[d->columns.n - 1].shown.components = names.v;
  if (!t->numbers) {
    dataset_add_texts(r->c, d, s->path, target, t->texts, t->rows);
    return;
  }
  ndarray y = {.type = t->all_ints ? ET_I64 : ET_F64, .rank = 1, .dims = {t->rows}};
  y.data = t->all_ints ? (const void *)t->ints : t->numbers;
  dataset_add(r->c, d, s->path, target, &y);
}
void read_csv(ctx *c, dataset *d, const data_source *s) {
  arena *a = ctx_arena(c);
  reader r = {.c = c, .file = s->path, .p = s->content.p, .end = s->content.p + s->content.n, .row = 1};
  if (s->content.n >= 3 && !memcmp(r.p, "\xef\xbb\xbf", 3)) r.p += 3; /* a byte order mark */
  r.line = r.p;
  const uint8_t *end = memchr(r.p, '\n', (size_t)(r.end - r.p));
  const size_t header = (size_t)((end ? end : r.end) - r.p);
  r.delimiter = memchr(r.p, ',', header)    ? ','
                : memchr(r.p, ';', header)  ? ';'
                : memchr(r.p, '\t', header) ? '\t'
                                            : ',';
  table t = {.all_ints = true};
  read_header(&r, &t);
  t.target = find_target(&r, &t, d->o.target);
  const size_t most = (size_t)count_lines((bytes){r.p, (size_t)(r.end - r.p)});
  size_t values;
  if (__builtin_mul_overflow(most, t.names.n - 1, &values)) ctx_fail(c, E_MEMORY, "%s: too many values", s->path);
  t.x = NEWN(a, double, values), t.texts = NEWN(a, bytes, most);
  t.numbers = NEWN(a, double, most), t.ints = NEWN(a, int64_t, most);
  while (more_lines(&r)) read_row(&r, &t);
  if (!t.rows) ctx_fail(c, E_IO, "%s: the CSV file has a header and no samples", s->path);
  add_columns(&r, d, s, &t);
}
bool is_csv(const data_source *s) {
  const size_t n = strlen(s->path);
  const bool packed = n > 3 && !strcmp(s->path + n - 3, ".gz");
  const char *end = s->path + n - (packed ? 3 : 0);
  return end - s->path > 4 && (!strncasecmp(end - 4, ".csv", 4) || !strncasecmp(end - 4, ".tsv", 4));
}
