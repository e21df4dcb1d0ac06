/* How do named tensors come from and go to a .safetensors file?
 *
 * The file: eight bytes, little-endian: the length of the header; the header, a JSON object; the data. The header maps
 * each name to its element type, sizes and the range of its bytes in the data, and "__metadata__" to texts. Ranges
 * follow each other without gaps and cover the data. Nothing else is accepted: a header is hostile until it is read.
 * Arrays that lie aligned stay in the mapped file, others are copied.
 */
#include "base/base.h"
#include "base/json.h"
#include <string.h>

enum { HEADER_AT = 8, MAX_HEADER = 100 << 20 }; /* the format's own limit on headers */

static const struct {
  etype type;       /* element type */
  const char *name; /* its name in the format */
} types[] = {{ET_F64, "F64"},        {ET_F32, "F32"}, {ET_F16, "F16"}, {ET_BF16, "BF16"}, {ET_F8E4M3FN, "F8_E4M3"},
             {ET_F8E5M2, "F8_E5M2"}, {ET_I64, "I64"}, {ET_I32, "I32"}, {ET_I16, "I16"},   {ET_I8, "I8"},
             {ET_U64, "U64"},        {ET_U32, "U32"}, {ET_U16, "U16"}, {ET_U8, "U8"},     {ET_BOOL, "BOOL"}};
enum { TYPES = sizeof types / sizeof *types };

/* ---- reading --------------------------------------------------------------------------------- */
typedef struct reader {
  ctx *c;              /* context */
  const char *path;    /* the file, for messages */
  const char *p;       /* next character of the header */
  const char *from;    /* its first character */
  const char *end;     /* its end */
  bytes data;          /* what follows the header */
  strvec names;        /* names of the tensors */
  VEC(ndarray) arrays; /* the tensors; offset: in the data */
  strvec keys;         /* keys of __metadata__ */
  strvec values;       /* its texts */
  map *seen;           /* names that were read */
} reader;

static _Noreturn void damaged(const reader *r, const char *what) {
  ctx_fail(r->c, E_IO, "%s is no intact safetensors file: %s (at byte %zu)", r->path, what,
           (size_t)(r->p - r->from) + HEADER_AT);
}
static void blanks(reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\r' || *r->p == '\n')) r->p++;
}
static bool accept(reader *r, char ch) {
  blanks(r);
  if (r->p >= r->end || *r->p != ch) return false;
  r->p++;
  return true;
}
static void need(reader *r, char ch) {
  if (!accept(r, ch)) damaged(r, arena_fmt(ctx_arena(r->c), "'%c' is expected", ch));
}
static const char *read_string(reader *r) {
  const char *wrong, *text;
  need(r, '"');
  r->p--;
  text = json_read_string(ctx_arena(r->c), &r->p, r->end, &wrong);
  if (!text) damaged(r, wrong);
  return text;
}
static int64_t read_count(reader *r) {
  int64_t x = 0;
  blanks(r);
  const char *from = r->p;
  for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
    if (!mul64(x, 10, &x) || !add64(x, *r->p - '0', &x)) damaged(r, "a number is too large");
  if (r->p == from) damaged(r, "a number is expected");
  return x;
}
/* [1, 2, ..]: at most `most` numbers */
static uint32_t read_list(reader *r, int64_t *to, uint32_t most) {
  uint32_t n = 0;
  need(r, '[');
  if (accept(r, ']')) return 0;
  do {
    if (n == most) damaged(r, "a list is too long");
    to[n++] = read_count(r);
  } while (accept(r, ','));
  need(r, ']');
  return n;
}
static void read_notes(reader *r) {
  arena *a = ctx_arena(r->c);
  if (r->keys.n) damaged(r, "__metadata__ stands there twice");
  need(r, '{');
  if (accept(r, '}')) return;
  do {
    const char *key = read_string(r);
    need(r, ':');
    const char *text = read_string(r);
    vec_push(a, r->keys, key);
    vec_push(a, r->values, text);
  } while (accept(r, ','));
  need(r, '}');
}
static void read_field(reader *r, ndarray *x, int64_t range[2], unsigned *seen) {
  static const char *const fields[] = {"dtype", "shape", "data_offsets"};
  const char *key = read_string(r);
  unsigned k = 0;
  while (k < 3 && strcmp(key, fields[k]) != 0) k++;
  if (k == 3 || *seen >> k & 1) damaged(r, arena_fmt(ctx_arena(r->c), "'%s' is not expected here", key));
  *seen |= 1u << k;
  need(r, ':');
  if (k == 0) {
    const char *name = read_string(r);
    for (uint32_t i = 0; i < TYPES; i++)
      if (!strcmp(types[i].name, name)) x->type = types[i].type;
    if (!x->type) damaged(r, arena_fmt(ctx_arena(r->c), "element type '%s' is not known", name));
  } else if (k == 1)
    x->rank = read_list(r, x->dims, MAX_RANK);
  else if (read_list(r, range, 2) != 2)
    damaged(r, "data_offsets has two numbers");
}
static void read_tensor(reader *r, const char *name) {
  ndarray x = {.file = r->path};
  int64_t range[2] = {0, 0}, count = 0, size = 0;
  unsigned seen = 0;
  need(r, '{');
  do read_field(r, &x, range, &seen);
  while (accept(r, ','));
  need(r, '}');
  if (seen != 7) damaged(r, arena_fmt(ctx_arena(r->c), "tensor '%s' lacks its type, sizes or place", name));
  if (map_gets(r->seen, name, NULL)) damaged(r, arena_fmt(ctx_arena(r->c), "tensor '%s' stands there twice", name));
  map_puts(r->seen, name, 1);
  if (!nd_count(&x, &count) || !mul64(count, et_bytes(x.type), &size) || range[0] > range[1] ||
      range[1] - range[0] != size || (uint64_t)range[1] > r->data.n)
    damaged(r, arena_fmt(ctx_arena(r->c), "tensor '%s': its sizes and its place in the file do not fit", name));
  x.data = r->data.p + range[0], x.bytes = (size_t)size, x.offset = (uint64_t)range[0];
  vec_push(ctx_arena(r->c), r->names, name);
  vec_push(ctx_arena(r->c), r->arrays, x);
}
/* Each byte of the data belongs to one tensor. */
static void check_places(reader *r) {
  uint64_t sum = 0, at = 0, i;
  map *starts = map_new(ctx_arena(r->c));
  for (uint32_t k = 0; k < r->arrays.n; k++) {
    const ndarray *x = &r->arrays.v[k];
    if (!x->bytes) continue;
    if (map_getu(starts, x->offset, NULL)) damaged(r, "two tensors have the same bytes");
    map_putu(starts, x->offset, k);
    sum += x->bytes;
  }
  while (at < r->data.n && map_getu(starts, at, &i)) at += r->arrays.v[i].bytes;
  if (at != r->data.n || sum != r->data.n)
    damaged(r, arena_fmt(ctx_arena(r->c), "the tensors need %llu bytes of data, it has %zu", (unsigned long long)sum,
                         r->data.n));
}
static void read_header(reader *r) {
  need(r, '{');
  if (!accept(r, '}')) {
    do {
      const char *name = read_string(r);
      need(r, ':');
      if (!strcmp(name, "__metadata__"))
        read_notes(r);
      else
        read_tensor(r, name);
    } while (accept(r, ','));
    need(r, '}');
  }
  blanks(r);
  if (r->p != r->end) damaged(r, "the header goes on behind its end");
}
static void read_file(reader *r, bytes file) {
  uint64_t length = 0;
  r->p = r->from = r->end = (const char *)file.p;
  if (file.n < HEADER_AT) damaged(r, "it is shorter than eight bytes");
  for (int i = HEADER_AT; i-- > 0;) length = length << 8 | file.p[i];
  if (length > MAX_HEADER || length > file.n - HEADER_AT) damaged(r, "it ends within its header");
  r->p = r->from = (const char *)file.p + HEADER_AT, r->end = r->p + length;
  r->data = (bytes){file.p + HEADER_AT + length, file.n - HEADER_AT - (size_t)length};
  read_header(r);
  check_places(r);
  for (uint32_t i = 0; i < r->arrays.n; i++) {
    ndarray *x = &r->arrays.v[i];
    x->offset += HEADER_AT + length;
    if ((uintptr_t)x->data % et_bytes(x->type)) x->data = arena_dup(ctx_arena(r->c), x->data, x->bytes), x->file = NULL;
  }
}
bool safetensors_read(ctx *c, const char *path, safetensors *out) {
  bytes file;
  volatile bool good = false;
  *out = (safetensors){0};
  if (!file_map(c, path, &file)) return false;
  CTX_TRY(c) {
    reader *r = NEW(ctx_arena(c), reader);
    *r = (reader){.c = c, .path = path, .seen = map_new(ctx_arena(c))};
    read_file(r, file);
    *out = (safetensors){.n = r->arrays.n,
                         .names = r->names.v,
                         .arrays = r->arrays.v,
                         .notes = r->keys.n,
                         .keys = r->keys.v,
                         .values = r->values.v};
    good = true;
  }
  CTX_CATCH {}
  return good;
}
const char *safetensors_note(const safetensors *s, const char *key) {
  for (uint32_t i = 0; i < s->notes; i++)
    if (!strcmp(s->keys[i], key)) return s->values[i];
  return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */
static const char *name_of(ctx *c, const char *path, const char *tensor, etype t) {
  for (uint32_t i = 0; i < TYPES; i++)
    if (types[i].type == t) return types[i].name;
  ctx_fail(c, E_UNSUPPORTED, "%s: tensor %s is of %s, which safetensors files do not have", path, tensor, et_name(t));
}
static sbuf make_header(ctx *c, const char *path, const safetensors *s) {
  sbuf b = sbuf_new(ctx_arena(c));
  json j = json_new(&b, false);
  int64_t at = 0;
  json_obj(&j, NULL);
  json_obj(&j, "__metadata__");
  for (uint32_t i = 0; i < s->notes; i++) json_str(&j, s->keys[i], s->values[i]);
  json_end(&j);
  for (uint32_t i = 0; i < s->n; i++) {
    const ndarray *x = &s->arrays[i];
    json_obj(&j, s->names[i]);
    json_str(&j, "dtype", name_of(c, path, s->names[i], x->type));
    json_arr(&j, "shape");
    for (uint32_t k = 0; k < x->rank; k++) json_int(&j, NULL, x->dims[k]);
    json_end(&j);
    json_arr(&j, "data_offsets");
    json_int(&j, NULL, at);
    json_int(&j, NULL, at += (int64_t)x->bytes);
    json_end(&j);
    json_end(&j);
  }
  json_end(&j);
  while (b.n % HEADER_AT) sb_putc(&b, ' '); /* so that the data are aligned */
  return b;
}
typedef struct writing {
  const safetensors *s; /* what is written */
  sbuf header;          /* its header */
} writing;
static void put_file(void *env, file_out *f) {
  const writing *w = env;
  uint8_t length[HEADER_AT];
  for (int i = 0; i < HEADER_AT; i++) length[i] = (uint8_t)((uint64_t)w->header.n >> (8 * i));
  file_put(f, length, sizeof length);
  file_put(f, w->header.s, w->header.n);
  for (uint32_t i = 0; i < w->s->n; i++) file_put(f, w->s->arrays[i].data, w->s->arrays[i].bytes);
}
bool safetensors_write(ctx *c, const char *path, const safetensors *s) {
  writing w = {s, make_header(c, path, s)};
  return file_write_durably(c, path, put_file, &w);
}
