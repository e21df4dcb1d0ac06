/* How does an array come out of an IDX file, the format of MNIST? Two zero bytes, the element type, the rank, the sizes
 * and the elements, all big-endian (http://yann.lecun.com/exdb/mnist); often packed by gzip. */
#include "base/base.h"
#include <string.h>
#include <zlib.h>

/* ---- gzip ------------------------------------------------------------------------------------ */
bool is_gzip(bytes file) { return file.n >= 18 && file.p[0] == 0x1f && file.p[1] == 0x8b && file.p[2] == 8; }

enum { MEGABYTE = 1 << 20 };
/* Unpacks all that there is into b, which grows. Z_OK: all of it was good. */
static int inflate_all(z_stream *z, bytes file, sbuf *b) {
  size_t in = 0;
  int rc = Z_OK;
  while (rc == Z_OK) {
    if (b->cap - b->n < MEGABYTE) {
      const size_t cap = b->cap ? 2 * b->cap : 4 * MEGABYTE;
      b->s = arena_grow(b->a, b->s, b->cap, cap), b->cap = cap;
    }
    const size_t left = file.n - in < MEGABYTE ? file.n - in : MEGABYTE, room = b->cap - b->n;
    const uInt to = room < INT32_MAX ? (uInt)room : INT32_MAX;
    z->next_in = (Bytef *)(uintptr_t)(file.p + in), z->avail_in = (uInt)left;
    z->next_out = (Bytef *)b->s + b->n, z->avail_out = to;
    rc = inflate(z, Z_NO_FLUSH);
    in += left - z->avail_in, b->n += to - z->avail_out;
    if (rc == Z_STREAM_END && in < file.n) rc = inflateReset(z); /* members may follow each other */
  }
  return rc == Z_STREAM_END ? Z_OK : rc;
}
bytes gzip_read(ctx *c, const char *path, bytes file) {
  sbuf b = sbuf_new(ctx_arena(c));
  z_stream z = {0};
  volatile int rc = Z_MEM_ERROR;
  volatile bool unwound = false;
  if (inflateInit2(&z, 15 + 16) == Z_OK) { /* with gzip's header and checksum */
    CTX_TRY(c) { rc = inflate_all(&z, file, &b); }
    CTX_CATCH { unwound = true; }
    inflateEnd(&z);
  }
  if (unwound) ctx_unwind(c);
  if (rc != Z_OK)
    ctx_fail(c, rc == Z_MEM_ERROR ? E_MEMORY : E_IO, "%s: the gzip file is damaged or truncated (zlib's error %d)",
             path, (int)rc);
  return (bytes){(const uint8_t *)b.s, b.n};
}

/* ---- IDX ------------------------------------------------------------------------------------- */
static etype type_of(uint8_t code) {
  switch (code) {
  case 0x08:
    return ET_U8;
  case 0x09:
    return ET_I8;
  case 0x0b:
    return ET_I16;
  case 0x0c:
    return ET_I32;
  case 0x0d:
    return ET_F32;
  case 0x0e:
    return ET_F64;
  default:
    return ET_NONE;
  }
}
bool is_idx(bytes f) { return f.n >= 4 && !f.p[0] && !f.p[1] && type_of(f.p[2]) != ET_NONE && f.p[3] > 0; }

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
ndarray idx_read(ctx *c, const char *path, bytes f) {
  ndarray x = {.type = type_of(f.p[2]), .rank = f.p[3]};
  if (x.rank > MAX_RANK) ctx_fail(c, E_UNSUPPORTED, "%s: an IDX file of %u axes; 16 are possible", path, x.rank);
  const size_t head = 4 + 4 * (size_t)x.rank, width = et_bytes(x.type);
  if (f.n < head) ctx_fail(c, E_IO, "%s: the IDX file is truncated in its header", path);
  for (uint32_t i = 0; i < x.rank; i++) x.dims[i] = big_endian(f.p + 4 + 4 * (size_t)i);
  int64_t count;
  if (!nd_count(&x, &count) || __builtin_mul_overflow((size_t)count, width, &x.bytes))
    ctx_fail(c, E_IO, "%s: the IDX file's sizes overflow", path);
  if (x.bytes != f.n - head)
    ctx_fail(c, E_IO, "%s: the IDX file's sizes ask for %zu bytes of elements; %zu are there", path, x.bytes,
             f.n - head);
  x.data = f.p + head;
  if (width > 1) {
    uint8_t *copy = arena_alloc(ctx_arena(c), x.bytes);
    for (size_t i = 0; i < x.bytes; i++) copy[i] = f.p[head + (i ^ (width - 1))];
    x.data = copy;
  }
  return x;
}
