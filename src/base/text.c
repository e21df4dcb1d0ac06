/* How is text built, and how are numbers written so that they read back the same?
 *
 * The builder's buffer doubles inside its arena. Numbers: %.15g (float: %.6g) is the shortest form of every number that
 * has a form that short; else one or two more digits are tried. Subnormal numbers have fewer digits, there every length
 * is tried. All of it under the C locale, whatever the process has set.
 */
#include "base/ctx.h"
#include <ctype.h>
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

/* ---- what was meant? --------------------------------------------------------------------------------------------- */
enum { WORD = 64 }; /* longer words are only compared as a whole */
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
/* Letters to change, put in, take out or exchange with their neighbour to come from a to b, whatever their case. */
static uint32_t edits(const char *a, const char *b) {
  uint32_t rows[3][WORD + 1], na = (uint32_t)strlen(a), nb = (uint32_t)strlen(b);
  if (na > WORD || nb > WORD) return strcasecmp(a, b) ? UINT32_MAX : 0;
  for (uint32_t j = 0; j <= nb; j++) rows[0][j] = j;
  for (uint32_t i = 1; i <= na; i++) {
    uint32_t *row = rows[i % 3], *before = rows[(i - 1) % 3], *two = rows[(i + 1) % 3];
    row[0] = i;
    for (uint32_t j = 1; j <= nb; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      row[j] = least(least(row[j - 1], before[j]) + 1, before[j - 1] + (x != y));
      if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
        row[j] = least(row[j], two[j - 2] + 1);
    }
  }
  return rows[na % 3][nb];
}
const char *closest_word(const char *word, const char *const *words, uint32_t n) {
  uint32_t most = least(3, (uint32_t)strlen(word) / 3), best = most + 1;
  const char *found = NULL;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d = edits(word, words[i]);
    if (d < best && d < strlen(words[i])) best = d, found = words[i];
  }
  return found;
}
const char *did_you_mean(arena *a, const char *word, const char *const *words, uint32_t n) {
  const char *w = closest_word(word, words, n);
  return w ? arena_fmt(a, "; did you mean %s?", w) : "";
}

double num_parse(ctx *c, const char *s, char **end) {
  locale_t old = uselocale(c->c_locale);
  double x = strtod(s, end);
  uselocale(old);
  return x;
}

int64_t int_parse(const char *s, char **end) { return strtoll(s, end, 10); }

int hex_digit(char ch) {
  return ch >= '0' && ch <= '9'   ? ch - '0'
         : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
         : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                                  : -1;
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
