/* How are reports written for other programs? See json.h. */
#include "base/json.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

json json_new(sbuf *b, bool pretty) { return (json){.b = b, .pretty = pretty}; }

static void newline(json *j) {
  if (!j->pretty) return;
  sb_putc(j->b, '\n');
  for (uint32_t i = 0; i < j->depth; i++) sb_put(j->b, "  ");
}

static void text(json *j, const char *s, size_t n) {
  sb_putc(j->b, '"');
  for (size_t i = 0; i < n;) {
    size_t len = utf8_len(s + i, n - i);
    uint8_t ch = (uint8_t)s[i];
    if (len == 0)
      sb_put(j->b, "\xef\xbf\xbd");
    else if (ch == '"' || ch == '\\')
      sb_putn(j->b, (char[]){'\\', (char)ch}, 2);
    else if (ch == '\n')
      sb_put(j->b, "\\n");
    else if (ch < 0x20)
      sb_fmt(j->b, "\\u%04x", ch);
    else
      sb_putn(j->b, s + i, len);
    i += len ? len : 1;
  }
  sb_putc(j->b, '"');
}

/* What stands before every value: comma, line, key. */
static void lead(json *j, const char *key) {
  if (j->depth == 0) return;
  uint64_t bit = 1ull << (j->depth - 1);
  if (j->some & bit) sb_putc(j->b, ',');
  j->some |= bit;
  newline(j);
  if (j->array & bit) return;
  text(j, key ? key : "", key ? strlen(key) : 0);
  sb_put(j->b, j->pretty ? ": " : ":");
}

static void begin(json *j, const char *key, bool array) {
  lead(j, key);
  if (j->depth >= 64) ctx_bug(arena_ctx(j->b->a), "JSON nested deeper than 64");
  uint64_t bit = 1ull << j->depth++;
  j->some &= ~bit;
  j->array = array ? j->array | bit : j->array & ~bit;
  sb_putc(j->b, array ? '[' : '{');
}

void json_obj(json *j, const char *key) { begin(j, key, false); }
void json_arr(json *j, const char *key) { begin(j, key, true); }

void json_end(json *j) {
  if (j->depth == 0) ctx_bug(arena_ctx(j->b->a), "JSON closed once too often");
  uint64_t bit = 1ull << --j->depth;
  if (j->some & bit) newline(j);
  sb_putc(j->b, j->array & bit ? ']' : '}');
  if (j->depth == 0 && j->pretty) sb_putc(j->b, '\n');
}

void json_strn(json *j, const char *key, const char *s, size_t n) {
  lead(j, key);
  text(j, s, n);
}

void json_str(json *j, const char *key, const char *s) {
  if (s)
    json_strn(j, key, s, strlen(s));
  else
    json_null(j, key);
}

void json_num(json *j, const char *key, double x) {
  lead(j, key);
  if (isfinite(x))
    sb_double(j->b, x);
  else
    sb_put(j->b, "null");
}

void json_int(json *j, const char *key, int64_t x) {
  lead(j, key);
  sb_fmt(j->b, "%" PRId64, x);
}

void json_uint(json *j, const char *key, uint64_t x) {
  lead(j, key);
  sb_fmt(j->b, "%" PRIu64, x);
}

void json_bool(json *j, const char *key, bool x) {
  lead(j, key);
  sb_put(j->b, x ? "true" : "false");
}

void json_null(json *j, const char *key) {
  lead(j, key);
  sb_put(j->b, "null");
}

/* ---- reading --------------------------------------------------------------------------------- */
static void put_utf8(sbuf *b, uint32_t x) {
  if (x < 0x80) {
    sb_putc(b, (char)x);
    return;
  }
  if (x < 0x800)
    sb_putc(b, (char)(0xc0 | x >> 6));
  else {
    sb_putc(b, (char)(0xe0 | x >> 12));
    sb_putc(b, (char)(0x80 | (x >> 6 & 63)));
  }
  sb_putc(b, (char)(0x80 | (x & 63)));
}
/* What stands behind a backslash; NULL, or what is wrong. */
static const char *read_escape(const char **p, const char *end, sbuf *b) {
  static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  const char kind = *p < end ? **p : 0, *at = kind ? strchr(escapes, kind) : NULL;
  uint32_t x = 0;
  if (at) {
    sb_putc(b, meant[at - escapes]), ++*p;
    return NULL;
  }
  if (kind != 'u') return "an escape that JSON does not have";
  ++*p;
  for (int i = 0; i < 4; i++, ++*p) {
    const int digit = *p < end ? hex_digit(**p) : -1;
    if (digit < 0) return "four hexadecimal digits are expected";
    x = x << 4 | (uint32_t)digit;
  }
  if (!x || (x >= 0xd800 && x < 0xe000)) return "a character that no text here has";
  put_utf8(b, x);
  return NULL;
}
const char *json_read_string(arena *a, const char **p, const char *end, const char **wrong) {
  sbuf b = sbuf_new(a);
  *wrong = "'\"' is expected";
  if (*p >= end || **p != '"') return NULL;
  for (++*p; *p < end && **p != '"';) {
    if (!**p) {
      *wrong = "a text has a zero byte";
      return NULL;
    }
    if (**p != '\\') {
      sb_putc(&b, *(*p)++);
      continue;
    }
    ++*p;
    const char *bad = read_escape(p, end, &b);
    if (bad) {
      *wrong = bad;
      return NULL;
    }
  }
  if (*p >= end) return NULL;
  ++*p;
  sb_put(&b, "");
  return b.s;
}
static char next_mark(const char **p) { /* the next character that is no blank, which is passed over */
  while (**p == ' ' || **p == '\t' || **p == '\r' || **p == '\n') ++*p;
  return **p ? *(*p)++ : 0;
}
bool json_read_strings(arena *a, const char *text, strvec *out) {
  const char *p = text, *end = text + strlen(text), *wrong;
  *out = (strvec){0};
  if (next_mark(&p) != '[') return false;
  for (char mark = next_mark(&p); mark != ']'; mark = next_mark(&p)) {
    if (out->n && mark != ',') return false;
    if (out->n) mark = next_mark(&p);
    if (mark != '"') return false;
    p--;
    const char *one = json_read_string(a, &p, end, &wrong);
    if (!one) return false;
    vec_push(a, *out, one);
  }
  return !next_mark(&p);
}
