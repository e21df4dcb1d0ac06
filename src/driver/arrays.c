/* Arrays of numpy's and of IDX files for programs: read into a context of their own, which lives as long as the
 * handle; written from what the caller has. */
#include "driver/driver.h"
#include <string.h>

struct ek_arrays {
  ek_session *s;   /* session that it belongs to */
  ek_arrays *next; /* opened before it; NULL: the first */
  ctx *c;          /* context of the arrays */
  npz z;           /* the arrays */
};

static ndarray *only_array(ctx *c, npz *z) { /* one, without a name */
  *z = (npz){1, NEWN(ctx_arena(c), const char *, 1), NEWN(ctx_arena(c), ndarray, 1)};
  z->names[0] = "";
  return z->arrays;
}
static void read_arrays(ctx *c, const char *path, npz *z) {
  CTX_TRY(c) {
    bytes b;
    if (!file_map(c, path, &b)) ctx_unwind(c);
    if (b.n >= 6 && !memcmp(b.p, "\x93NUMPY", 6))
      npy_read(c, b, path, only_array(c, z));
    else if (is_gzip(b) || is_idx(b)) {
      if (is_gzip(b)) b = gzip_read(c, path, b);
      if (!is_idx(b)) ctx_fail(c, E_MODEL, "%s: packed by gzip, and what is packed is no IDX file", path);
      *only_array(c, z) = idx_read(c, path, b);
    } else
      npz_read(c, path, z);
    for (uint32_t i = 0; !diag_errors(c) && i < z->n; i++) {
      const ndarray text = z->arrays[i];
      if (text.type == ET_STR && !nd_bytes(ctx_arena(c), &text, &z->arrays[i]))
        ctx_fail(c, E_MEMORY, "%s: array '%s': too many strings", path, z->names[i]);
    }
  }
  CTX_CATCH {}
}
ek_code ek_arrays_load(ek_session *s, const char *path, ek_arrays **out) {
  if (out) *out = NULL;
  if (!s || !path || !out) return session_null(s);
  ek_arrays *a = mem_zero(&s->mem, sizeof *a);
  if (!a) return session_fail(s, EK_MEMORY, "out of memory");
  a->s = s, a->c = session_ctx(s);
  if (a->c) read_arrays(a->c, path, &a->z);
  ek_code code = session_done(s, a->c, EK_OK);
  a->next = s->arrays, s->arrays = a;
  if (code)
    ek_arrays_close(a);
  else
    *out = a;
  return code;
}
void ek_arrays_close(ek_arrays *a) {
  if (!a) return;
  for (ek_arrays **p = &a->s->arrays; *p; p = &(*p)->next)
    if (*p == a) {
      *p = a->next;
      break;
    }
  ctx_free(a->c);
  mem_put(&a->s->mem, a);
}
size_t ek_arrays_count(const ek_arrays *a) { return a ? a->z.n : 0; }
ek_code ek_arrays_get(const ek_arrays *a, size_t i, ek_array *out) {
  if (!a || !out) return session_null(a ? a->s : NULL);
  if (i >= a->z.n) return session_fail(a->s, EK_USAGE, "array %zu of a file with %u arrays", i, a->z.n);
  const ndarray *d = &a->z.arrays[i];
  *out = (ek_array){.name = a->z.names[i],
                    .type = (ek_type)et_to_onnx(d->type),
                    .rank = (int32_t)d->rank,
                    .data = d->data,
                    .bytes = d->bytes};
  memcpy(out->dims, d->dims, d->rank * sizeof *d->dims);
  return EK_OK;
}
ek_code ek_arrays_find(const ek_arrays *a, const char *name, ek_array *out) {
  if (!a || !name || !out) return session_null(a ? a->s : NULL);
  for (uint32_t i = 0; i < a->z.n; i++)
    if (!strcmp(a->z.names[i], name)) return ek_arrays_get(a, i, out);
  const char *near = closest_word(name, a->z.names, a->z.n);
  return session_fail(a->s, EK_USAGE, "there is no array '%s' in the file%s%s%s", name, near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "");
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static void write_arrays(ctx *c, const char *path, const ek_array *arrays, size_t n) {
  CTX_TRY(c) {
    npz z = {(uint32_t)n, NEWN(ctx_arena(c), const char *, n + 1), NEWN(ctx_arena(c), ndarray, n + 1)};
    for (size_t i = 0; i < n; i++) {
      const ek_array *a = &arrays[i];
      ndarray d = {.type = et_from_onnx((int)a->type), .rank = (uint32_t)a->rank, .data = a->data, .bytes = a->bytes};
      int64_t count;
      if (!a->name || !et_bytes(d.type) || a->rank < 0 || a->rank > EK_MAX_RANK || (!a->data && a->bytes))
        ctx_fail(c, E_USAGE, "array %zu: a name, a type that is no string, a rank of 0 to 16 and data are needed", i);
      memcpy(d.dims, a->dims, d.rank * sizeof *d.dims);
      if (!nd_count(&d, &count) || (uint64_t)count > SIZE_MAX / 8 || (size_t)count * et_bytes(d.type) != a->bytes)
        ctx_fail(c, E_SHAPE, "array '%s': its dims do not make %zu bytes", a->name, a->bytes);
      z.names[i] = a->name, z.arrays[i] = d;
    }
    if (!npz_write(c, path, &z)) ctx_unwind(c);
  }
  CTX_CATCH {}
}
ek_code ek_arrays_save(ek_session *s, const char *path, const ek_array *arrays, size_t n) {
  if (!s || !path || (!arrays && n)) return session_null(s);
  if (n > UINT32_MAX / 2) return session_fail(s, EK_USAGE, "%zu arrays: too many", n);
  ctx *c = session_ctx(s);
  if (c) write_arrays(c, path, arrays, n);
  ek_code code = session_done(s, c, EK_OK);
  ctx_free(c);
  return code;
}
