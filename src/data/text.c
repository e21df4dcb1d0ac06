/* How does a text become samples for a language model? It is a sequence of tokens: its bytes, or the tokens of a
 * vocabulary, each time the longest that matches. Sample i is the window of S tokens from token i S on; its target is
 * the same window one token later: for each token the next one. Windows of bytes lie in the mapped file. */
#include "data/data_in.h"
#include <string.h>

/* ---- vocabulary: a tree of bytes ------------------------------------------------------------- */
typedef struct vocabulary {
  map *edges;      /* node * 256 + byte: the node below */
  u32vec token_of; /* of each node: 1 + the token that ends there; 0: none. Node 0 is the root */
  uint32_t n;      /* number of tokens */
} vocabulary;
static void add_token(ctx *c, vocabulary *v, const char *path, bytes token) {
  uint64_t node = 0;
  for (size_t i = 0; i < token.n; i++) {
    const uint64_t key = node << 8 | token.p[i];
    if (map_getu(v->edges, key, &node)) continue;
    map_putu(v->edges, key, node = v->token_of.n);
    vec_push(ctx_arena(c), v->token_of, 0);
  }
  if (!token.n) fail_at(c, path, v->n + 1, 1, "an empty token");
  if (v->token_of.v[node]) fail_at(c, path, v->n + 1, 1, "the token is that of line %u, too", v->token_of.v[node]);
  v->token_of.v[node] = ++v->n;
}
/* The token of a line, with \n, \t, \r, \\ and \xHH for what cannot stand in one. */
static bytes unescaped(ctx *c, const char *path, uint64_t row, bytes line) {
  uint8_t *out = arena_alloc(ctx_arena(c), line.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < line.n; i++) {
    static const char from[] = "ntr\\", to[] = "\n\t\r\\";
    if (line.p[i] != '\\') {
      out[n++] = line.p[i];
      continue;
    }
    const char *at = i + 1 < line.n && line.p[i + 1] ? strchr(from, line.p[i + 1]) : NULL;
    const int high = i + 3 < line.n && line.p[i + 1] == 'x' ? hex_digit((char)line.p[i + 2]) : -1;
    const int low = high >= 0 ? hex_digit((char)line.p[i + 3]) : -1;
    if (!at && low < 0)
      fail_at(c, path, row, i + 1, "a backslash must begin \\n, \\t, \\r, \\\\ or \\xHH (two hexadecimal digits)");
    out[n++] = at ? (uint8_t)to[at - from] : (uint8_t)(high << 4 | low);
    i += at ? 1 : 3;
  }
  return (bytes){out, n};
}
static vocabulary read_vocabulary(ctx *c, const char *path) {
  vocabulary v = {.edges = map_new(ctx_arena(c))};
  bytes f;
  if (!file_map(c, path, &f)) ctx_unwind(c);
  vec_push(ctx_arena(c), v.token_of, 0);
  for (size_t at = 0; at < f.n;) {
    const uint8_t *end = memchr(f.p + at, '\n', f.n - at);
    bytes line = {f.p + at, end ? (size_t)(end - f.p) - at : f.n - at};
    at += line.n + 1;
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    add_token(c, &v, path, unescaped(c, path, v.n + 1, line));
  }
  if (!v.n) ctx_fail(c, E_IO, "%s: the vocabulary has no tokens", path);
  return v;
}
/* The longest token at p: its number, and *n its bytes; 0: there is none. */
static size_t longest(const vocabulary *v, const uint8_t *p, const uint8_t *end, uint32_t *token) {
  uint64_t node = 0;
  size_t best = 0;
  for (const uint8_t *q = p; q < end && map_getu(v->edges, node << 8 | *q, &node); q++)
    if (v->token_of.v[node] && !(best && EK_PLANTED("data-text")))
      *token = v->token_of.v[node] - 1, best = (size_t)(q + 1 - p);
  return best;
}
static _Noreturn void no_token(ctx *c, const data_source *s, const uint8_t *p) {
  uint64_t row = 1;
  const uint8_t *line = s->content.p;
  for (const uint8_t *q = s->content.p; q < p; q++)
    if (*q == '\n') row++, line = q + 1;
  fail_at(c, s->path, row, (uint64_t)(p - line) + 1, "no token of the vocabulary begins with the byte 0x%02x here", *p);
}
static uint32_t *tokens_of(ctx *c, const dataset *d, const data_source *s, size_t *count, uint32_t *classes) {
  const vocabulary v = read_vocabulary(c, d->o.vocabulary);
  uint32_t *tokens = NEWN(ctx_arena(c), uint32_t, s->content.n + 1);
  const uint8_t *end = s->content.p + s->content.n;
  size_t n = 0;
  for (const uint8_t *p = s->content.p; p < end; n++) {
    const size_t k = longest(&v, p, end, &tokens[n]);
    if (!k) no_token(c, s, p);
    p += k;
  }
  *count = n, *classes = v.n;
  return tokens;
}

/* ---- windows --------------------------------------------------------------------------------- */
void read_text(ctx *c, dataset *d, const data_source *s) {
  size_t count = s->content.n;
  uint32_t classes = 256;
  const uint8_t *tokens = s->content.p;
  const etype type = d->o.vocabulary ? ET_U32 : ET_U8;
  if (d->o.vocabulary) tokens = (const uint8_t *)tokens_of(c, d, s, &count, &classes);
  const int64_t windows = count ? ((int64_t)count - 1) / d->o.sequence : 0;
  if (!windows)
    ctx_fail(c, E_SHAPE, "%s: the text has %zu tokens; --sequence %lld needs one more than that, at least", s->path,
             count, (long long)d->o.sequence);
  for (int i = 0; i < 2; i++) {
    const ndarray x = {
        .type = type, .rank = 2, .dims = {windows, d->o.sequence}, .data = tokens + (size_t)i * et_bytes(type)};
    dataset_add(c, d, s->path, i ? "y" : s->name ? s->name : "x", &x);
    d->columns.v[d->columns.n - 1].shown.classes = classes;
  }
}
