/* How is text built, and how are numbers written so that they read back the same?
 *
 * The builder's buffer doubles inside its arena. Numbers: %.15g (float: %.6g) is the shortest form of every
 * number that has a form that short; else one or two more digits are tried. Subnormal numbers
 * have fewer digits, there every length is tried. All of it under the C locale, whatever the process has set.
 */
#include "base/ctx.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sbuf sbuf_new(arena *a) { return (sbuf){.a = a}; }

/* Room for n more bytes and the NUL. */
static void room(sbuf *b, size_t n) {
  size_t need;
  if (__builtin_add_overflow(b->n, n, &need) || __builtin_add_overflow(need, 1, &need))
    ctx_out_of_memory(arena_ctx(b->a), SIZE_MAX);
  if (need <= b->cap) return;
  size_t cap = b->cap > SIZE_MAX / 2 ? SIZE_MAX : b->cap * 2;
  if (cap < 64) cap = 64;
  if (cap < need) cap = need;
  b->s = arena_grow(b->a, b->s, b->cap, cap);
  b->cap = cap;
}

void sb_putn(sbuf *b, const char *s, size_t n) {
  room(b, n);
  if (n) memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = 0;
}

void sb_put(sbuf *b, const char *s) { sb_putn(b, s, strlen(s)); }
void sb_putc(sbuf *b, char ch) { sb_putn(b, &ch, 1); }

void sb_fmt(sbuf *b, const char *fmt, ...) {
  locale_t c_locale = arena_ctx(b->a)->c_locale;
  room(b, 80);
  va_list ap;
  for (int tries = 0; tries < 2; tries++) {
    size_t have = b->cap - b->n;
    locale_t old = uselocale(c_locale);
    va_start(ap, fmt);
    int n = vsnprintf(b->s + b->n, have, fmt, ap);
    va_end(ap);
    uselocale(old);
    if (n < 0) break;
    if ((size_t)n < have) {
      b->n += (size_t)n;
      return;
    }
    room(b, (size_t)n);
  }
  b->s[b->n] = 0;
}

double num_parse(ctx *c, const char *s, char **end) {
  locale_t old = uselocale(c->c_locale);
  double x = strtod(s, end);
  uselocale(old);
  return x;
}

float num_parsef(ctx *c, const char *s, char **end) {
  locale_t old = uselocale(c->c_locale);
  float x = strtof(s, end);
  uselocale(old);
  return x;
}

static bool put_special(sbuf *b, double x) {
  if (isfinite(x)) return false;
  sb_put(b, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
  return true;
}

void sb_double(sbuf *b, double x) {
  if (put_special(b, x)) return;
  char s[40];
  locale_t old = uselocale(arena_ctx(b->a)->c_locale);
  for (int digits = fabs(x) < DBL_MIN && x != 0 ? 1 : 15; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, x);
    if (strtod(s, NULL) == x) break;
  }
  uselocale(old);
  sb_put(b, s);
}

void sb_float(sbuf *b, float x) {
  if (put_special(b, x)) return;
  char s[40];
  locale_t old = uselocale(arena_ctx(b->a)->c_locale);
  for (int digits = fabsf(x) < FLT_MIN && x != 0 ? 1 : 6; digits <= 9; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, (double)x);
    if (strtof(s, NULL) == x) break;
  }
  uselocale(old);
  sb_put(b, s);
}

size_t utf8_len(const void *p, size_t n) {
  const uint8_t *s = p;
  if (n == 0) return 0;
  if (s[0] < 0x80) return 1;
  size_t len = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  if (len == 0 || len > n) return 0;
  for (size_t i = 1; i < len; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  /* overlong forms, surrogates, beyond U+10FFFF */
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
      (s[0] == 0xf4 && s[1] >= 0x90))
    return 0;
  return len;
}

void sb_quoted(sbuf *b, const char *s, size_t n) {
  sb_putc(b, '"');
  for (size_t i = 0; i < n;) {
    size_t len = utf8_len(s + i, n - i);
    uint8_t ch = (uint8_t)s[i];
    if (ch == '\n')
      sb_put(b, "\\n");
    else if (ch == '"' || ch == '\\')
      sb_putn(b, (char[]){'\\', (char)ch}, 2);
    else if (len == 0 || ch < 0x20 || ch == 0x7f)
      sb_fmt(b, "\\x%02x", ch);
    else
      sb_putn(b, s + i, len);
    i += len ? len : 1;
  }
  sb_putc(b, '"');
}
