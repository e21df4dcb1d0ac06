/* Which numbers does a tensor of the file hold?
 *
 * Four places: raw_data (used where it lies), external data (the same, in another file), typed fields (decoded into the
 * arena), strings. Sub-byte types are packed from the low bits up and are spread to one element a byte. The number of
 * elements must be exactly what the dims say. Sparse tensors become dense, up to a stated size.
 */
#include "onnx/tensor.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { KEEP_ALIGNED = 64 << 10 }; /* tensors up to this size are copied when the file has them misaligned */
#define MAX_DENSE ((int64_t)1 << 31)

#define FAIL(s, code, ...) return diag_error((s)->c, code, NULL, __VA_ARGS__), false

/* ---- type and shape -------------------------------------------------------------------------- */
static bool shape_of(const tensor_source *s, const i64vec *dims, const char *who, ndarray *out, int64_t *count) {
  if (dims->n > MAX_RANK)
    FAIL(s, E_UNSUPPORTED, "%s has %u dimensions, at most %d are supported", who, dims->n, MAX_RANK);
  out->rank = dims->n;
  for (uint32_t i = 0; i < dims->n; i++) {
    if (dims->v[i] < 0) FAIL(s, E_MODEL, "%s has a negative dimension (%" PRId64 " at axis %u)", who, dims->v[i], i);
    out->dims[i] = dims->v[i];
  }
  if (!nd_count(out, count) || *count > INT64_MAX / 64) FAIL(s, E_MODEL, "%s: the number of elements overflows", who);
  return true;
}

/* ---- bytes that lie in a file ---------------------------------------------------------------- */
/* `have` bytes hold exactly `count` elements of the type, packed when it is narrower than a byte. */
static bool from_bytes(const tensor_source *s, bytes have, const char *path, const uint8_t *file_start, int64_t count,
                       const char *who, ndarray *out) {
  uint32_t bits = et_bits(out->type), esize = et_bytes(out->type);
  size_t want = bits < 8 ? ((size_t)count * bits + 7) / 8 : (size_t)count * esize;
  if (have.n != want) FAIL(s, E_MODEL, "%s has %zu bytes of data, its shape and type need %zu", who, have.n, want);
  arena *a = ctx_arena(s->c);
  out->bytes = (size_t)count * esize;
  if (bits < 8) {
    uint8_t *d = arena_alloc(a, out->bytes);
    unsigned mask = (1u << bits) - 1, sign = et_kind(out->type) == K_INT ? 1u << (bits - 1) : 0;
    for (size_t i = 0, bit = 0; i < out->bytes; i++, bit += bits) {
      unsigned v = have.p[bit / 8] >> bit % 8 & mask;
      d[i] = (uint8_t)((v ^ sign) - sign);
    }
    out->data = d;
    return true;
  }
  out->data = have.p;
  if (path) {
    out->file = path;
    out->offset = (uint64_t)(have.p - file_start);
  }
  bool copy = (uintptr_t)have.p % (esize ? esize : 1) != 0 && have.n <= KEEP_ALIGNED, odd = false;
  if (out->type == ET_BOOL)
    for (size_t i = 0; i < have.n; i++) odd |= have.p[i] > 1;
  if (copy || odd) {
    uint8_t *d = arena_dup(a, have.p, have.n);
    for (size_t i = 0; odd && i < have.n; i++) d[i] = d[i] != 0;
    out->data = d;
    if (odd) /* such bytes are no longer those of the file */
      out->file = NULL, out->offset = 0;
  }
  return true;
}

/* ---- external data --------------------------------------------------------------------------- */
static bool is(bytes b, const char *word) { return b.n == strlen(word) && memcmp(b.p, word, b.n) == 0; }

static bool decimal(bytes b, uint64_t *out) {
  uint64_t v = 0;
  for (size_t i = 0; i < b.n; i++)
    if (b.p[i] < '0' || b.p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(b.p[i] - '0'), &v))
      return false;
  *out = v;
  return b.n > 0;
}

static bool external(const tensor_source *s, const pb_tensor *t, int64_t count, const char *who, ndarray *out) {
  arena *a = ctx_arena(s->c);
  const char *location = NULL;
  uint64_t offset = 0, length = 0;
  bool has_length = false;
  for (uint32_t i = 0; i < t->external.n; i++) {
    pb_pair p = t->external.v[i];
    if (is(p.key, "location")) {
      if (p.value.n == 0 || p.value.n > 4096 || memchr(p.value.p, 0, p.value.n))
        FAIL(s, E_MODEL, "%s: the file name of its external data is malformed", who);
      location = arena_strndup(a, (const char *)p.value.p, p.value.n);
    } else if (is(p.key, "offset")) {
      if (!decimal(p.value, &offset)) FAIL(s, E_MODEL, "%s: the offset of its external data is not a number", who);
    } else if (is(p.key, "length")) {
      if (!decimal(p.value, &length)) FAIL(s, E_MODEL, "%s: the length of its external data is not a number", who);
      has_length = true;
    }
  }
  if (!location) FAIL(s, E_MODEL, "%s keeps its data in another file but does not name it", who);
  while (location[0] == '.' && location[1] == '/') location += 2;
  if (!path_inside(location))
    FAIL(s, E_MODEL, "%s keeps its data in '%s', outside the model's folder; this is refused", who, location);
  if (!s->folder)
    FAIL(s, E_IO, "%s keeps its data in '%s', but the model was loaded from memory: load it from its file", who,
         location);
  if (out->type == ET_STR) FAIL(s, E_MODEL, "%s: strings cannot be kept in external data", who);
  const char *path = path_join(a, s->folder, location);
  bytes f;
  if (access(path, F_OK))
    FAIL(s, E_IO,
         "%s has its data in the file '%s', which is not there: put it into the model's folder under this name "
         "(download "
         "tools often leave it out: fetch it separately)",
         who, path);
  if (!file_map(s->c, path, &f)) FAIL(s, E_IO, "%s needs '%s', its external data", who, path);
  uint32_t bits = et_bits(out->type);
  uint64_t want = bits < 8 ? ((uint64_t)count * bits + 7) / 8 : (uint64_t)count * et_bytes(out->type);
  if (!has_length) length = want;
  if (offset > f.n || length > f.n - offset)
    FAIL(s, E_IO, "%s: its external data '%s' is too short (%" PRIu64 " bytes at %" PRIu64 " wanted, the file has %zu)",
         who, path, length, offset, f.n);
  return from_bytes(s, (bytes){f.p + offset, (size_t)length}, path, f.p, count, who, out);
}

/* ---- typed fields ---------------------------------------------------------------------------- */
static bool short_of(const tensor_source *s, const char *who, size_t have, int64_t want) {
  FAIL(s, E_MODEL, "%s has %zu values, its shape needs %" PRId64, who, have, want);
}

/* int32_data, int64_data, uint64_data: one varint an element, except that sub-byte elements come packed by the byte. */
static bool from_varints(const tensor_source *s, const pb_tensor *t, const pb_packed *p, uint32_t no, int64_t count,
                         const char *who, ndarray *out) {
  arena *a = ctx_arena(s->c);
  uint32_t bits = et_bits(out->type), esize = et_bytes(out->type);
  int64_t n = bits < 8 ? (count * bits + (EK_PLANTED("onnx-tensor") ? 0 : 7)) / 8 : count;
  if ((uint64_t)n > t->self.n) /* a varint takes a byte at least: refuse before making room */
    return short_of(s, who, pb_numbers(a, t, p, no, 0, NULL, 0, s->name), n);
  int64_t *v = NEWN(a, int64_t, (size_t)n);
  size_t have = pb_numbers(a, t, p, no, 0, v, (size_t)n, s->name);
  if (have != (size_t)n) return short_of(s, who, have, n);
  uint8_t *d = arena_alloc(a, (size_t)(bits < 8 ? n : count * esize));
  for (int64_t i = 0; i < n; i++) { /* the low bytes are the element: floats come as their bits, bool as 0 or 1 */
    uint64_t x = out->type == ET_BOOL ? v[i] != 0 : (uint64_t)v[i];
    memcpy(d + (size_t)i * esize, &x, esize);
  }
  if (bits < 8) return from_bytes(s, (bytes){d, (size_t)n}, NULL, NULL, count, who, out);
  out->data = d;
  out->bytes = (size_t)(count * esize);
  return true;
}

static bool from_fixed(const tensor_source *s, const pb_tensor *t, const pb_packed *p, uint32_t no, int64_t count,
                       const char *who, ndarray *out) {
  uint32_t width = et_bytes(out->type);
  if (p->times == 1 && p->wire == 2 && p->first.n == (size_t)count * width)
    return from_bytes(s, p->first, s->path, s->file.p, count, who, out);
  arena *a = ctx_arena(s->c);
  if ((uint64_t)count * width > t->self.n)
    return short_of(s, who, pb_numbers(a, t, p, no, width, NULL, 0, s->name), count);
  void *d = arena_array(a, (size_t)count, width);
  size_t have = pb_numbers(a, t, p, no, width, d, (size_t)count, s->name);
  if (have != (size_t)count) return short_of(s, who, have, count);
  out->data = d;
  out->bytes = (size_t)count * width;
  return true;
}

static bool from_strings(const tensor_source *s, const pb_tensor *t, int64_t count, const char *who, ndarray *out) {
  arena *a = ctx_arena(s->c);
  if (t->string_data.n != (uint64_t)count) return short_of(s, who, t->string_data.n, count);
  bytes *d = NEWN(a, bytes, (size_t)count);
  for (int64_t i = 0; i < count; i++) {
    bytes b = t->string_data.v[i];
    d[i] = (bytes){(const uint8_t *)arena_strndup(a, (const char *)b.p, b.n), b.n};
  }
  out->data = d;
  out->bytes = (size_t)count * sizeof *d;
  return true;
}

bool tensor_read(const tensor_source *s, const pb_tensor *t, const char *who, ndarray *out) {
  *out = (ndarray){0};
  int64_t count;
  out->type = et_from_onnx((int)(t->data_type.v & 0xffff));
  if (out->type == ET_NONE || t->data_type.v < 0 || t->data_type.v > 0xffff)
    FAIL(s, E_UNSUPPORTED, "%s has element type %" PRId64 "%s, which is not supported", who, t->data_type.v,
         t->data_type.v == 14 || t->data_type.v == 15 ? " (complex)"
         : t->data_type.v == 0                        ? " (undefined)"
                                                      : "");
  if (!shape_of(s, &t->dims, who, out, &count)) return false;
  if (t->segment.p) FAIL(s, E_UNSUPPORTED, "%s is stored in segments, which is not supported", who);
  if (t->location.v == 1) return external(s, t, count, who, out);
  if (t->raw.p && out->type == ET_STR) FAIL(s, E_MODEL, "%s: strings cannot be raw data", who);
  if (t->raw.p && (t->raw.n > 0 || count == 0)) return from_bytes(s, t->raw, s->path, s->file.p, count, who, out);
  switch (out->type) {
  case ET_STR:
    return from_strings(s, t, count, who, out);
  case ET_F32:
    return from_fixed(s, t, &t->float_data, PB_FLOAT_DATA, count, who, out);
  case ET_F64:
    return from_fixed(s, t, &t->double_data, PB_DOUBLE_DATA, count, who, out);
  case ET_I64:
    return from_varints(s, t, &t->int64_data, PB_INT64_DATA, count, who, out);
  case ET_U32:
  case ET_U64:
    return from_varints(s, t, &t->uint64_data, PB_UINT64_DATA, count, who, out);
  default:
    return from_varints(s, t, &t->int32_data, PB_INT32_DATA, count, who, out);
  }
}

/* ---- sparse ---------------------------------------------------------------------------------- */
bool tensor_read_sparse(const tensor_source *s, const pb_sparse *t, const char *who, ndarray *out) {
  ndarray values, index;
  *out = (ndarray){0};
  if (!t->values || !t->indices) FAIL(s, E_MODEL, "%s is sparse, but its values or indices are missing", who);
  if (!tensor_read(s, t->values, who, &values) || !tensor_read(s, t->indices, who, &index)) return false;
  int64_t count;
  if (!shape_of(s, &t->dims, who, out, &count)) return false;
  out->type = values.type;
  uint32_t esize = et_bytes(out->type);
  if (values.rank != 1 || index.type != ET_I64 || esize == 0)
    FAIL(s, E_MODEL, "%s is sparse: values must be a vector of numbers, indices i64", who);
  if (count > MAX_DENSE / esize)
    FAIL(s, E_UNSUPPORTED, "%s is sparse and would take more than 2 GiB when dense, which is not supported", who);
  int64_t n = values.dims[0], per = index.rank == 2 ? index.dims[1] : 1;
  if (index.rank < 1 || index.rank > 2 || index.dims[0] != n || (index.rank == 2 && per != out->rank))
    FAIL(s, E_MODEL, "%s is sparse: its indices do not fit its values and dimensions", who);
  uint8_t *d = arena_array(ctx_arena(s->c), (size_t)count, esize);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int64_t k = 0; k < per; k++) {
      int64_t x, limit = index.rank == 2 ? out->dims[k] : count;
      memcpy(&x, (const char *)index.data + 8 * (i * per + k), 8);
      if (x < 0 || x >= limit)
        FAIL(s, E_MODEL, "%s is sparse: index %" PRId64 " of value %" PRId64 " is out of range", who, x, i);
      at = at * (index.rank == 2 ? out->dims[k] : 1) + x;
    }
    memcpy(d + at * esize, (const char *)values.data + i * esize, esize);
  }
  out->data = d;
  out->bytes = (size_t)count * esize;
  return true;
}
