/* regex: a regular expression (RE2's syntax) as tables: the class of each byte, the next state for each state and
 * class, which states accept at the end of the text. `regex_plan(pattern)` gives them to a definition,
 * which runs them as a recurrence over the bytes: time linear in the text, whatever the pattern.
 * `regex_search(pattern)` gives what it takes to find matches within a text, too.
 *
 * Three steps. The parser makes a machine of states with byte sets, splits and assertions (Thompson); counted
 * repetition parses its operand again and again; a character outside ASCII is the sequence of its bytes, and a
 * set that reaches outside (`.`, \W, [^a]) takes any well-formed sequence. Then subsets are states: a subset is
 * what was reached before its empty moves are followed, together with what stood before (nothing, a word
 * character, another), since ^ $ \b \B are decided only when the next byte is known. Not supported, with an
 * error: \p{..}, named classes of Unicode, (?s) and other flags but (?i).
 */
#include "notation/elab.h"
#include <string.h>

enum { MAX_NFA = 20000, MAX_DFA = 2000, MAX_REPEAT = 1000, MAX_DEPTH = 100 };
enum { SPLIT, BYTE, ASSERT, MATCH };
enum { A_BEGIN_TEXT, A_END_TEXT, A_WORD, A_NOT_WORD };
/* A set of bytes. */
typedef struct set {
  uint64_t w[4]; /* a bit per byte */
} set;
typedef struct state {
  uint8_t kind; /* kind of the state */
  uint8_t what; /* which assertion it is; 0: it is none */
  set s;        /* bytes that it takes */
  int32_t out;  /* next state; -1: open */
  int32_t alt;  /* SPLIT: the other next state; -1: open */
} state;
typedef struct re {
  el *x;             /* the elaboration */
  const ast *at;     /* place of the call, for messages */
  const char *begin; /* first character of the expression */
  const char *p;     /* next character */
  VEC(state) n;      /* the states */
  bool fold;         /* (?i) */
  int depth;         /* nested groups */
} re;
/* A part of the automaton. */
typedef struct frag {
  int32_t in;  /* first state */
  int32_t out; /* a SPLIT state that stands at its end, its `out` still open */
} frag;

static void put(set *s, unsigned b) { s->w[b >> 6] |= (uint64_t)1 << (b & 63); }
static bool in(const set *s, unsigned b) { return s->w[b >> 6] >> (b & 63) & 1; }
static void range(set *s, unsigned lo, unsigned hi) {
  for (unsigned b = lo; b <= hi; b++) put(s, b);
}
static bool word(unsigned b) {
  return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || b == '_';
}

static _Noreturn void bad(re *r, const char *why) {
  el_fail(r->x, E_MODEL, r->at->line, r->at->col, "the pattern \"%.100s\" is not understood: %s at character %d",
          r->begin, why, (int)(r->p - r->begin) + 1);
}
static int32_t add(re *r, state s) {
  if (r->n.n >= MAX_NFA) bad(r, "it is too large");
  vec_push(r->x->a, r->n, s);
  return (int32_t)r->n.n - 1;
}
static int32_t empty(re *r) { return add(r, (state){.kind = SPLIT, .out = -1, .alt = -1}); }
static frag seq(re *r, frag a, frag b) {
  r->n.v[a.out].out = b.in;
  return (frag){a.in, b.out};
}
static frag alt(re *r, frag a, frag b) {
  int32_t s = empty(r), e = empty(r);
  r->n.v[s].out = a.in, r->n.v[s].alt = b.in;
  r->n.v[a.out].out = r->n.v[b.out].out = e;
  return (frag){s, e};
}
static frag nothing(re *r) {
  int32_t e = empty(r);
  return (frag){e, e};
}
static frag one_byte(re *r, const set *s) {
  int32_t e = empty(r), b = add(r, (state){.kind = BYTE, .s = *s, .out = e, .alt = -1});
  return (frag){b, e};
}
static frag byte_range(re *r, unsigned lo, unsigned hi) {
  set s = {0};
  range(&s, lo, hi);
  return one_byte(r, &s);
}
/* Any character beyond ASCII, as UTF-8. */
static frag beyond(re *r) {
  frag two = seq(r, byte_range(r, 0xc2, 0xdf), byte_range(r, 0x80, 0xbf));
  frag three = seq(r, seq(r, byte_range(r, 0xe0, 0xef), byte_range(r, 0x80, 0xbf)), byte_range(r, 0x80, 0xbf));
  frag four = seq(r, seq(r, seq(r, byte_range(r, 0xf0, 0xf4), byte_range(r, 0x80, 0xbf)), byte_range(r, 0x80, 0xbf)),
                  byte_range(r, 0x80, 0xbf));
  return alt(r, alt(r, two, three), four);
}
static frag ascii_set(re *r, set s, bool outside) {
  if (r->fold)
    for (unsigned b = 'a'; b <= 'z'; b++)
      if (in(&s, b) || in(&s, b - 32)) put(&s, b), put(&s, b - 32);
  frag f = one_byte(r, &s);
  return outside ? alt(r, f, beyond(r)) : f;
}
static frag assertion(re *r, int what) {
  int32_t e = empty(r), a = add(r, (state){.kind = ASSERT, .what = (uint8_t)what, .out = e, .alt = -1});
  return (frag){a, e};
}

/* ---- parsing --------------------------------------------------------------------------------- */
static frag either(re *r);

/* The set named by a letter behind a backslash (d w s and their complements). */
static bool shorthand(char ch, set *s, bool *outside) {
  char k = (char)(ch | 32);
  if (k != 'd' && k != 'w' && k != 's') return false;
  *outside = ch != k;
  for (unsigned b = 0; b < 128; b++) {
    bool has = k == 'd' ? b >= '0' && b <= '9' : k == 'w' ? word(b) : b == ' ' || (b >= 9 && b <= 13 && b != 11);
    if (has != *outside) put(s, b);
  }
  return true;
}
static unsigned escaped(re *r) { /* Reads what follows a backslash: one ASCII character. */
  char ch = *r->p++;
  static const char from[] = "ntrfva", to[] = "\n\t\r\f\v\a";
  const char *q = ch ? strchr(from, ch) : NULL;
  if (q) return (unsigned char)to[q - from];
  if (ch == 'x') {
    unsigned v = 0;
    int digits = 0;
    bool brace = *r->p == '{';
    for (r->p += brace; digits < (brace ? 8 : 2); r->p++, digits++) {
      char c = *r->p, l = (char)(c | 32);
      if (c >= '0' && c <= '9')
        v = v * 16 + (unsigned)(c - '0');
      else if (l >= 'a' && l <= 'f')
        v = v * 16 + (unsigned)(l - 'a' + 10);
      else
        break;
    }
    if (brace && *r->p++ != '}') bad(r, "a closing brace is missing");
    if (!digits || v > 127) bad(r, "only ASCII can be written as \\x");
    return v;
  }
  if (!ch || word((unsigned char)ch) || (unsigned char)ch > 127) r->p--, bad(r, "an escape that is not supported");
  return (unsigned char)ch;
}
static bool posix_class(re *r, set *s) { /* [:alpha:] */
  static const char *const names[] = {"alnum", "alpha", "digit",  "lower", "upper",
                                      "space", "punct", "xdigit", "word",  "blank"};
  for (unsigned k = 0; k < sizeof names / sizeof *names; k++) {
    size_t n = strlen(names[k]);
    if (strncmp(r->p, "[:", 2) || strncmp(r->p + 2, names[k], n) || strncmp(r->p + 2 + n, ":]", 2)) continue;
    r->p += n + 4;
    for (unsigned b = 0; b < 128; b++) {
      bool digit = b >= '0' && b <= '9', low = b >= 'a' && b <= 'z', up = b >= 'A' && b <= 'Z',
           punct = b > 32 && b < 127 && !digit && !low && !up;
      const bool has[] = {digit || low || up,
                          low || up,
                          digit,
                          low,
                          up,
                          b == ' ' || (b >= 9 && b <= 13),
                          punct,
                          digit || (low && b <= 'f') || (up && b <= 'F'),
                          word(b),
                          b == ' ' || b == 9};
      if (has[k]) put(s, b);
    }
    return true;
  }
  return false;
}
static frag bracket(re *r) { /* Reads what follows a [. */
  set s = {0};
  bool not = *r->p == '^', outside = false, o;
  r->p += not;
  for (bool first = true; first || *r->p != ']'; first = false) {
    if (!*r->p) bad(r, "a closing ] is missing");
    if (posix_class(r, &s)) continue;
    if (*r->p == '\\' && shorthand(r->p[1], &s, &o)) {
      outside |= o, r->p += 2;
      continue;
    }
    unsigned lo = (unsigned char)*r->p++, hi;
    if (lo == '\\') lo = escaped(r);
    if (lo > 127) bad(r, "characters beyond ASCII in [..] are not supported");
    hi = lo;
    if (*r->p == '-' && r->p[1] && r->p[1] != ']') {
      hi = (unsigned char)*++r->p;
      r->p++;
      if (hi == '\\') hi = escaped(r);
      if (hi > 127 || hi < lo) bad(r, "a range that is empty or leaves ASCII");
    }
    range(&s, lo, hi);
  }
  r->p++;
  if (r->fold)
    for (unsigned b = 'a'; b <= 'z'; b++)
      if (in(&s, b) || in(&s, b - 32)) put(&s, b), put(&s, b - 32);
  if (!not) return ascii_set(r, s, outside);
  set c = {0};
  for (unsigned b = 0; b < 128; b++)
    if (!in(&s, b)) put(&c, b);
  return ascii_set(r, c, !outside);
}
static frag atom_of(re *r) {
  set s = {0};
  bool outside;
  unsigned char ch = (unsigned char)*r->p++;
  switch (ch) {
  case '(': {
    if (++r->depth > MAX_DEPTH) bad(r, "groups are nested too deep");
    bool fold = r->fold;
    if (*r->p == '?') {
      if (!strncmp(r->p, "?:", 2))
        r->p += 2;
      else if (!strncmp(r->p, "?P<", 3) || !strncmp(r->p, "?<", 2)) {
        while (*r->p && *r->p != '>') r->p++;
        r->p += *r->p == '>';
      } else if (!strncmp(r->p, "?i)", 3)) {
        r->p += 3, r->depth--, r->fold = true;
        return nothing(r);
      } else
        bad(r, "a group of this kind is not supported");
    }
    frag f = either(r);
    if (*r->p != ')') bad(r, "a closing ) is missing");
    r->p++, r->depth--, r->fold = fold;
    return f;
  }
  case '[':
    return bracket(r);
  case '^':
    return assertion(r, A_BEGIN_TEXT);
  case '$':
    return assertion(r, A_END_TEXT);
  case '.':
    for (unsigned b = 0; b < 128; b++)
      if (b != '\n') put(&s, b);
    return ascii_set(r, s, true);
  case '\\':
    if (*r->p == 'b' || *r->p == 'B') return assertion(r, *r->p++ == 'b' ? A_WORD : A_NOT_WORD);
    if (*r->p == 'A' || *r->p == 'z') return assertion(r, *r->p++ == 'A' ? A_BEGIN_TEXT : A_END_TEXT);
    if (shorthand(*r->p, &s, &outside)) {
      r->p++;
      return ascii_set(r, s, outside);
    }
    put(&s, escaped(r));
    return ascii_set(r, s, false);
  case '*':
  case '+':
  case '?':
  case ')':
    r->p--;
    bad(r, "nothing to repeat, or a ) too many");
  default: {
    put(&s, ch);
    frag f = ch < 128 ? ascii_set(r, s, false) : one_byte(r, &s);
    while (ch > 127 && ((unsigned char)*r->p & 0xc0) == 0x80)
      f = seq(r, f, byte_range(r, (unsigned char)*r->p, (unsigned char)*r->p)), r->p++;
    return f;
  }
  }
}
static bool count(re *r, int *lo, int *hi) { /* {n} {n,} {n,m}; anything else is text */
  const char *q = r->p + 1;
  int v[2] = {0, -1}, k = 0;
  if (*r->p != '{' || *q < '0' || *q > '9') return false;
  for (; *q != '}'; q++) {
    if (*q == ',' && k == 0)
      k = 1;
    else if (*q >= '0' && *q <= '9' && v[k] < MAX_REPEAT)
      v[k] = (v[k] < 0 ? 0 : v[k]) * 10 + (*q - '0');
    else
      return false;
  }
  *lo = v[0], *hi = k ? v[1] : v[0];
  if (*lo > MAX_REPEAT || *hi > MAX_REPEAT || (*hi >= 0 && *hi < *lo))
    bad(r, "a repetition that is too large or empty");
  r->p = q + 1;
  return true;
}
/* The operand that stands from `from` on, again: counted repetition needs copies of its states. */
static frag again(re *r, const char *from) {
  const char *after = r->p;
  int depth = r->depth;
  r->p = from;
  frag f = atom_of(r);
  r->p = after, r->depth = depth;
  return f;
}
static frag star(re *r, frag f) {
  int32_t s = empty(r), e = empty(r);
  r->n.v[s].out = f.in, r->n.v[s].alt = e;
  r->n.v[f.out].out = s;
  return (frag){s, e};
}
static frag repeat(re *r) {
  const char *from = r->p;
  frag f = atom_of(r);
  for (bool more = true; more;) {
    int lo = 1, hi = 1;
    const char *end = r->p;
    more = true;
    if (*r->p == '*')
      lo = 0, hi = -1, r->p++;
    else if (*r->p == '+')
      hi = -1, r->p++;
    else if (*r->p == '?')
      lo = 0, r->p++;
    else
      more = count(r, &lo, &hi);
    if (!more) break;
    if (*r->p == '?') r->p++; /* `as few as possible` takes the same set of texts */
    frag all = nothing(r);
    const char *after = r->p;
    for (int k = 0; k < lo; k++) {
      frag g = k ? (r->p = end, again(r, from)) : f;
      all = seq(r, all, g);
    }
    if (hi < 0) all = seq(r, all, star(r, lo ? again(r, from) : f));
    for (int k = lo; k < hi; k++) all = seq(r, all, alt(r, k || lo ? again(r, from) : f, nothing(r)));
    r->p = after;
    f = all;
    if (*r->p == '*' || *r->p == '+' || *r->p == '?' || *r->p == '{')
      bad(r, "a repetition of a repetition; put it in (?: )");
  }
  return f;
}
static frag sequence(re *r) {
  frag f = nothing(r);
  while (*r->p && *r->p != '|' && *r->p != ')') f = seq(r, f, repeat(r));
  return f;
}
static frag either(re *r) {
  frag f = sequence(r);
  while (*r->p == '|') r->p++, f = alt(r, f, sequence(r));
  return f;
}

/* ---- subsets --------------------------------------------------------------------------------- */
enum { B_NOTHING, B_WORD, B_OTHER }; /* what stood before */
typedef struct subset {
  uint32_t n;       /* number of states */
  const int32_t *v; /* the states, ascending */
  uint8_t before;   /* B_*: what stood before */
} subset;
typedef VEC(subset) subsets;

static void follow(re *r, const subset *s, bool end, bool next_word, bool *seen) {
  int32_t *stack = NEWN(r->x->a, int32_t, r->n.n + 1);
  uint32_t top = 0;
  memset(seen, 0, r->n.n);
#define VISIT(k)                                                                                                       \
  if ((k) >= 0 && !seen[k]) seen[k] = true, stack[top++] = (k)
  for (uint32_t i = 0; i < s->n; i++) VISIT(s->v[i]);
  while (top) {
    const state *q = &r->n.v[stack[--top]];
    if (q->kind == ASSERT) {
      bool edge = (s->before == B_WORD) != (!end && next_word);
      bool holds = q->what == A_BEGIN_TEXT ? s->before == B_NOTHING
                   : q->what == A_END_TEXT ? end
                   : q->what == A_WORD     ? edge
                                           : !edge;
      if (!holds) continue;
    } else if (q->kind != SPLIT)
      continue;
    VISIT(q->out);
    VISIT(q->alt);
  }
#undef VISIT
}
/* Bytes that no state tells apart are one class. */
static uint32_t classes(re *r, uint8_t *class_of) {
  uint32_t n = 1;
  memset(class_of, 0, 256);
  for (uint32_t k = 0; k <= r->n.n; k++) {
    set words = {0};
    for (unsigned b = 0; b < 256; b++)
      if (word(b)) put(&words, b);
    const set *s = k == r->n.n ? &words : &r->n.v[k].s;
    if (k < r->n.n && r->n.v[k].kind != BYTE) continue;
    uint16_t to[256][2], fresh = 0;
    memset(to, 0xff, sizeof to);
    for (unsigned b = 0; b < 256; b++) {
      uint16_t *t = &to[class_of[b]][in(s, b)];
      if (*t == 0xffff) *t = fresh++;
      class_of[b] = (uint8_t)*t;
    }
    n = fresh;
  }
  return n;
}
static uint32_t find_subset(re *r, subsets *all, const bool *seen, uint8_t before) {
  arena *a = r->x->a;
  int32_t *v = NEWN(a, int32_t, r->n.n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n.n; i++)
    if (seen[i]) v[n++] = (int32_t)i;
  if (!n) before = B_OTHER; /* from this state nothing can match any more */
  for (uint32_t i = 0; i < all->n; i++)
    if (all->v[i].n == n && all->v[i].before == before && (!n || !memcmp(all->v[i].v, v, n * sizeof *v))) return i;
  if (all->n >= MAX_DFA)
    el_fail(r->x, E_UNSUPPORTED, r->at->line, r->at->col, "the pattern \"%.100s\" needs more than %d states", r->begin,
            MAX_DFA);
  subset s = {n, v, before};
  vec_push(a, *all, s);
  return all->n - 1;
}

static bool matches(const re *r, const bool *seen) {
  for (uint32_t i = 0; i < r->n.n; i++)
    if (seen[i] && r->n.v[i].kind == MATCH) return true;
  return false;
}
static val ints(el *x, const valvec *v) {
  val l = v_list(x, v->n);
  memcpy(l.p.l->v, v->v, v->n * sizeof *v->v);
  return l;
}
/* The tables. With `search` also: which states accept in front of each class, and the state of a match that begins
 * behind nothing, a word character, another one. */
static val tables(el *x, const char *pattern, const ast *at, bool search) {
  re r = {.x = x, .at = at, .begin = pattern, .p = pattern};
  frag f = either(&r);
  if (*r.p) bad(&r, "a ) too many");
  r.n.v[f.out].out = add(&r, (state){.kind = MATCH, .out = -1, .alt = -1});
  uint8_t class_of[256];
  uint32_t nc = classes(&r, class_of);
  subsets all = {0};
  bool *seen = NEWN(x->a, bool, r.n.n + 1), *reached = NEWN(x->a, bool, r.n.n + 1);
  valvec next = {0}, accept = {0}, inside = {0}, starts = {0};
  for (uint8_t before = B_NOTHING; before <= (search ? B_OTHER : B_NOTHING); before++) {
    memset(reached, 0, r.n.n);
    reached[f.in] = true;
    vec_push(x->a, starts, v_int(x, find_subset(&r, &all, reached, before)));
  }
  for (uint32_t k = 0; k < all.n; k++) {
    subset s = all.v[k];
    follow(&r, &s, true, false, seen);
    vec_push(x->a, accept, v_int(x, matches(&r, seen)));
    for (uint32_t c = 0; c < nc; c++) {
      unsigned b = 0;
      while (class_of[b] != c) b++;
      follow(&r, &s, false, word(b), seen);
      vec_push(x->a, inside, v_int(x, matches(&r, seen)));
      memset(reached, 0, r.n.n);
      for (uint32_t i = 0; i < r.n.n; i++)
        if (seen[i] && r.n.v[i].kind == BYTE && in(&r.n.v[i].s, b) && r.n.v[i].out >= 0) reached[r.n.v[i].out] = true;
      vec_push(x->a, next, v_int(x, find_subset(&r, &all, reached, word(b) ? B_WORD : B_OTHER)));
    }
  }
  val res = v_list(x, search ? 6 : 4), cls = v_list(x, 256);
  for (uint32_t b = 0; b < 256; b++) cls.p.l->v[b] = v_int(x, class_of[b]);
  res.p.l->v[0] = cls, res.p.l->v[1] = ints(x, &next), res.p.l->v[2] = ints(x, &accept), res.p.l->v[3] = v_int(x, nc);
  if (search) res.p.l->v[4] = ints(x, &inside), res.p.l->v[5] = ints(x, &starts);
  return res;
}
val regex_plan(el *x, const char *pattern, const ast *at) { return tables(x, pattern, at, false); }
val regex_search(el *x, const char *pattern, const ast *at) { return tables(x, pattern, at, true); }
