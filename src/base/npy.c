/* How do numpy's array files come in and go out?
 *
 * .npy: a header written as a Python dictionary, then the elements. Little-endian C order is used where it lies when it
 * is aligned; everything else (big-endian, Fortran order, text, misaligned) is brought into that form in the arena.
 * Types numpy does not know by name arrive as raw bytes of their width ('V1', 'V2'): two bytes are taken for bf16, one
 * for u8, which the reader may call otherwise. .npz: a zip of them. The central directory is walked here (stored
 * members stay in the mapping, deflated ones are inflated by zlib); written members are stored, with 64-bit sizes where
 * needed.
 */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- little-endian fields -------------------------------------------------------------------- */
static uint64_t get(const uint8_t *p, int n) {
  uint64_t x = 0;
  while (n--) x = x << 8 | p[n];
  return x;
}

static void put(sbuf *b, uint64_t x, int n) {
  for (int i = 0; i < n; i++) sb_putc(b, (char)(x >> (8 * i)));
}

/* ---- .npy header ----------------------------------------------------------------------------- */
typedef struct header {
  char descr[32];         /* element type, as numpy writes it */
  bool fortran;           /* column-major order */
  uint32_t rank;          /* number of axes */
  int64_t dims[MAX_RANK]; /* size of each axis */
} header;

typedef struct cursor {
  const char *p;   /* next character */
  const char *end; /* end of the text */
} cursor;

static void blanks(cursor *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t')) s->p++;
}

static bool accept(cursor *s, const char *word) {
  size_t n = strlen(word);
  blanks(s);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

static bool quoted(cursor *s, char *out, size_t cap) {
  blanks(s);
  if (s->p >= s->end || (*s->p != '\'' && *s->p != '"')) return false;
  char q = *s->p++;
  size_t n = 0;
  while (s->p < s->end && *s->p != q) {
    if (n + 1 >= cap) return false;
    out[n++] = *s->p++;
  }
  out[n] = 0;
  return s->p++ < s->end;
}

static bool number(cursor *s, int64_t *out) {
  blanks(s);
  if (s->p >= s->end || *s->p < '0' || *s->p > '9') return false;
  int64_t x = 0;
  while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
    if (!mul64(x, 10, &x) || !add64(x, *s->p++ - '0', &x)) return false;
  (void)accept(s, "L"); /* integers of Python 2 */
  *out = x;
  return true;
}

static const char *parse_header(cursor s, header *h) {
  int seen = 0;
  if (!accept(&s, "{")) return "no dictionary";
  while (!accept(&s, "}")) {
    char key[32];
    if (!quoted(&s, key, sizeof key) || !accept(&s, ":")) return "a key is malformed";
    if (strcmp(key, "descr") == 0) {
      if (!quoted(&s, h->descr, sizeof h->descr)) return "structured element types are not supported";
      seen |= 1;
    } else if (strcmp(key, "fortran_order") == 0) {
      h->fortran = accept(&s, "True");
      if (!h->fortran && !accept(&s, "False")) return "fortran_order is neither True nor False";
      seen |= 2;
    } else if (strcmp(key, "shape") == 0) {
      if (!accept(&s, "(")) return "the shape is malformed";
      for (h->rank = 0; !accept(&s, ")"); h->rank++) {
        if (h->rank == MAX_RANK) return "more than 16 dimensions";
        if (!number(&s, &h->dims[h->rank]) || (!accept(&s, ",") && (s.p >= s.end || *s.p != ')')))
          return "the shape is malformed";
      }
      seen |= 4;
    } else {
      return "an unknown key";
    }
    (void)accept(&s, ",");
  }
  return seen == 7 ? NULL : "descr, fortran_order or shape is missing";
}

/* ---- element types --------------------------------------------------------------------------- */
static const struct {
  const char *descr; /* element type, as numpy writes it */
  etype type;        /* our type */
} kinds[] = {
    {"f8", ET_F64}, {"f4", ET_F32}, {"f2", ET_F16},  {"f1", ET_F8E5M2}, {"i8", ET_I64},
    {"i4", ET_I32}, {"i2", ET_I16}, {"i1", ET_I8},   {"u8", ET_U64},    {"u4", ET_U32},
    {"u2", ET_U16}, {"u1", ET_U8},  {"b1", ET_BOOL}, {"V2", ET_BF16},   {"V1", ET_U8},
};

static etype kind_of(const char *descr) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(descr, kinds[i].descr) == 0) return kinds[i].type;
  return ET_NONE;
}

/* Fortran order to C order: walks the source in its own order and steps through the target by its strides. */
static void transpose(const ndarray *t, const uint8_t *src, uint8_t *dst, size_t esize, int64_t count) {
  int64_t stride[MAX_RANK], at[MAX_RANK] = {0}, pos = 0, s = 1;
  for (uint32_t d = t->rank; d-- > 0; s *= t->dims[d]) stride[d] = s;
  for (int64_t i = 0; i < count; i++) {
    memcpy(dst + (size_t)pos * esize, src + (size_t)i * esize, esize);
    for (uint32_t d = 0; d < t->rank; d++) {
      pos += stride[d];
      if (++at[d] < t->dims[d]) break;
      pos -= stride[d] * t->dims[d];
      at[d] = 0;
    }
  }
}

static size_t put_utf8(char *out, uint32_t u) {
  if (u > 0x10ffff || (u >= 0xd800 && u < 0xe000)) u = 0xfffd;
  if (u < 0x80) return out[0] = (char)u, 1;
  size_t n = u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, u >>= 6) out[i] = (char)(0x80 | (u & 0x3f));
  out[0] = (char)((0xf00u >> n & 0xf0) | u);
  return n;
}

/* 'U' (UTF-32, padded by NULs) or 'S' (bytes, the same) to an array of `bytes`. */
static void strings(arena *a, const uint8_t *src, bool wide, bool big, size_t width, int64_t count, bytes *out) {
  for (int64_t i = 0; i < count; i++, src += width * (wide ? 4 : 1)) {
    size_t n = 0, len = width;
    char *s = arena_alloc(a, (wide ? 4 : 1) * width + 1);
    if (!wide) {
      while (len && src[len - 1] == 0) len--;
      memcpy(s, src, len);
      n = len;
    } else {
      uint32_t u[1];
      for (size_t k = 0, keep = 0; k < width; k++) {
        memcpy(u, src + 4 * k, 4);
        n += put_utf8(s + n, big ? __builtin_bswap32(*u) : *u);
        if (*u) keep = n;
        if (k + 1 == width) n = keep;
      }
    }
    s[n] = 0;
    out[i] = (bytes){(const uint8_t *)s, n};
  }
}

static bool bad(ctx *c, const char *name, const char *why) {
  diag_error(c, E_IO, NULL, "array file '%s': %s", name, why);
  return false;
}

bool npy_read(ctx *c, bytes file, const char *name, ndarray *out) {
  memset(out, 0, sizeof *out);
  if (file.n < 10 || memcmp(file.p, "\x93NUMPY", 6) != 0) return bad(c, name, "not a .npy file");
  unsigned major = file.p[6];
  if (major < 1 || major > 3) return bad(c, name, "unknown version of the .npy format (1 to 3 are known)");
  size_t at = major == 1 ? 10 : 12;
  if (file.n < at) return bad(c, name, "truncated in the header");
  size_t hlen = (size_t)get(file.p + 8, major == 1 ? 2 : 4);
  if (hlen > file.n - at) return bad(c, name, "truncated in the header");
  header h = {0};
  const char *why = parse_header((cursor){(const char *)file.p + at, (const char *)file.p + at + hlen}, &h);
  if (why) return bad(c, name, arena_fmt(ctx_arena(c), "malformed header: %s", why));
  at += hlen;

  const char *descr = h.descr;
  bool big = *descr == '>';
  if (*descr == '<' || *descr == '>' || *descr == '|' || *descr == '=') descr++;
  out->rank = h.rank;
  memcpy(out->dims, h.dims, sizeof out->dims);
  int64_t count;
  if (!nd_count(out, &count)) return bad(c, name, "the number of elements overflows");

  bool text = *descr == 'U' || *descr == 'S';
  size_t esize, total, width = 0;
  if (text) {
    char *end;
    width = (size_t)strtoul(descr + 1, &end, 10);
    if (*end || width > (1u << 20)) return bad(c, name, "text elements of an unreasonable width");
    out->type = ET_STR;
    esize = *descr == 'U' ? 4 * width : width;
  } else {
    out->type = kind_of(descr);
    if (out->type == ET_NONE)
      return bad(c, name,
                 arena_fmt(ctx_arena(c), "element type '%s' is not supported%s", h.descr,
                           *descr == 'O' ? " (pickled objects are never loaded)" : ""));
    esize = et_bytes(out->type);
  }
  if (__builtin_mul_overflow((size_t)count, esize, &total) || total > file.n - at)
    return bad(c, name, "truncated: fewer bytes than the shape says");
  const uint8_t *src = file.p + at;

  arena *a = ctx_arena(c);
  if (text) {
    bytes *s = NEWN(a, bytes, (size_t)count);
    strings(a, src, *descr == 'U', big, width, count, s);
    src = (const uint8_t *)s;
    esize = sizeof(bytes);
    total = (size_t)count * esize;
  } else if (big && esize > 1) {
    uint8_t *copy = arena_alloc(a, total);
    for (size_t i = 0; i < total; i++) copy[i] = src[i / esize * esize + (esize - 1 - i % esize)];
    src = copy;
  }
  if (h.fortran && h.rank > 1) {
    uint8_t *copy = arena_alloc(a, total);
    transpose(out, src, copy, esize, count);
    src = copy;
  } else if ((uintptr_t)src % (esize < 8 ? esize ? esize : 1 : 8) != 0) {
    src = arena_dup(a, src, total);
  }
  if (out->type == ET_BOOL) /* a byte that is neither 0 nor 1 would be seen differently by different readers */
    for (size_t i = 0; i < total; i++)
      if (src[i] > 1) return bad(c, name, "a bool element is neither 0 nor 1");
  out->data = src;
  out->bytes = total;
  return true;
}

/* ---- .npz: reading --------------------------------------------------------------------------- */
typedef struct member {
  const char *name; /* name of the file in the archive */
  unsigned method;  /* 0: stored, 8: deflated */
  uint64_t packed;  /* bytes in the archive */
  uint64_t size;    /* bytes of the file */
  uint64_t offset;  /* offset of the local header */
  uint32_t crc;     /* CRC-32 of the file */
} member;

/* Sizes that do not fit 32 bits stand in the extra field 1, in this order, only those that are 0xffffffff. */
static bool zip64_extra(const uint8_t *x, size_t n, member *m) {
  while (n >= 4) {
    size_t id = get(x, 2), len = get(x + 2, 2);
    x += 4;
    n -= 4;
    if (len > n) return false;
    if (id == 1) {
      uint64_t *field[3] = {&m->size, &m->packed, &m->offset};
      for (int i = 0; i < 3; i++)
        if (*field[i] == UINT32_MAX) {
          if (len < 8) return false;
          *field[i] = get(x, 8);
          x += 8;
          n -= 8;
          len -= 8;
        }
    }
    x += len;
    n -= len;
  }
  return true;
}

/* Where the central directory starts, and how many members it has. */
static bool find_directory(bytes f, uint64_t *start, uint64_t *count) {
  if (f.n < 22) return false;
  size_t lowest = f.n > 22 + 65535 ? f.n - 22 - 65535 : 0;
  for (size_t i = f.n - 22 + 1; i-- > lowest;) {
    const uint8_t *e = f.p + i;
    if (get(e, 4) != 0x06054b50) continue;
    *count = get(e + 10, 2);
    *start = get(e + 16, 4);
    if ((*count == UINT16_MAX || *start == UINT32_MAX) && i >= 20 && get(e - 20, 4) == 0x07064b50) {
      uint64_t at = get(e - 20 + 8, 8);
      if (at > f.n || f.n - at < 56 || get(f.p + at, 4) != 0x06064b50) return false;
      *count = get(f.p + at + 32, 8);
      *start = get(f.p + at + 48, 8);
    }
    return *start <= f.n;
  }
  return false;
}

/* The member's bytes, inflated where needed. */
static const char *member_bytes(ctx *c, bytes f, const member *m, bytes *out) {
  if (m->offset > f.n || f.n - m->offset < 30 || get(f.p + m->offset, 4) != 0x04034b50)
    return "a member's header is missing";
  const uint8_t *l = f.p + m->offset;
  uint64_t skip = 30 + get(l + 26, 2) + get(l + 28, 2), left = f.n - m->offset;
  if (skip > left || m->packed > left - skip) return "truncated";
  const uint8_t *src = l + skip;
  if (m->method == 0) {
    if (m->size != m->packed) return "a stored member with two sizes";
    *out = (bytes){src, (size_t)m->size};
  } else if (m->method == 8) {
    if (m->size / 1100 > m->packed) /* deflate cannot do better than 1032 to 1 */
      return "a member claims an impossible size";
    uint8_t *dst = arena_alloc(ctx_arena(c), (size_t)m->size);
    z_stream z = {0};
    if (inflateInit2(&z, -15) != Z_OK) return "zlib has no memory";
    uint64_t in = 0, done = 0;
    int rc = Z_OK;
    while (rc == Z_OK) {
      uint64_t a = m->packed - in, b = m->size - done;
      uInt ia = a > (1u << 30) ? 1u << 30 : (uInt)a, ob = b > (1u << 30) ? 1u << 30 : (uInt)b;
      z.next_in = (Bytef *)(uintptr_t)(src + in);
      z.avail_in = ia;
      z.next_out = dst + done;
      z.avail_out = ob;
      rc = inflate(&z, Z_NO_FLUSH);
      in += ia - z.avail_in;
      done += ob - z.avail_out;
      if (rc == Z_OK && ia == z.avail_in && ob == z.avail_out) rc = Z_BUF_ERROR;
    }
    inflateEnd(&z);
    if (rc != Z_STREAM_END || done != m->size) return "a compressed member is damaged";
    *out = (bytes){dst, (size_t)m->size};
  } else {
    return "a member is packed by a method other than deflate";
  }
  if ((uint32_t)crc32_z(0, out->p, out->n) != m->crc) return "a member's checksum is wrong";
  return NULL;
}

bool npz_read(ctx *c, const char *path, npz *out) {
  arena *a = ctx_arena(c);
  bytes f;
  *out = (npz){0};
  if (!file_map(c, path, &f)) return false;
  uint64_t at, count;
  if (!find_directory(f, &at, &count) || count > f.n / 46) return bad(c, path, "not a .npz file (no zip directory)");
  out->names = NEWN(a, const char *, (size_t)count);
  out->arrays = NEWN(a, ndarray, (size_t)count);
  for (uint64_t i = 0; i < count; i++) {
    if (at > f.n || f.n - at < 46 || get(f.p + at, 4) != 0x02014b50)
      return bad(c, path, "the zip directory is damaged");
    const uint8_t *d = f.p + at;
    uint64_t nlen = get(d + 28, 2), xlen = get(d + 30, 2), clen = get(d + 32, 2);
    if (nlen + xlen + clen > f.n - at - 46) return bad(c, path, "the zip directory is damaged");
    member m = {.method = (unsigned)get(d + 10, 2),
                .packed = get(d + 20, 4),
                .size = get(d + 24, 4),
                .offset = get(d + 42, 4),
                .crc = (uint32_t)get(d + 16, 4)};
    if ((get(d + 8, 2) & 1) != 0) return bad(c, path, "encrypted members are not supported");
    if (!zip64_extra(d + 46 + nlen, (size_t)xlen, &m)) return bad(c, path, "the zip directory is damaged");
    at += 46 + nlen + xlen + clen;
    size_t keep = (size_t)nlen;
    if (keep < 4 || memcmp(d + 46 + keep - 4, ".npy", 4) != 0) continue; /* somebody else's file in the archive */
    m.name = arena_strndup(a, (const char *)d + 46, keep - 4);
    bytes b;
    const char *why = member_bytes(c, f, &m, &b);
    if (why) return bad(c, path, arena_fmt(a, "'%s': %s", m.name, why));
    ndarray *t = &out->arrays[out->n];
    if (!npy_read(c, b, m.name, t)) return false;
    if ((const uint8_t *)t->data >= f.p && (const uint8_t *)t->data < f.p + f.n) {
      t->file = path;
      t->offset = (uint64_t)((const uint8_t *)t->data - f.p);
    }
    out->names[out->n++] = m.name;
  }
  return true;
}

/* ---- .npz: writing --------------------------------------------------------------------------- */
static const char *descr_of(etype t) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].type == t) return kinds[i].descr;
  switch (t) { /* types that numpy does not have are stored as integers of their width */
  case ET_I4:
  case ET_I2:
    return "i1";
  case ET_U4:
  case ET_U2:
    return "u1";
  default:
    return "V1";
  }
}

/* Text goes out as UTF-32 of the widest element. */
static const uint8_t *wide_text(arena *a, const ndarray *t, int64_t count, size_t *width, size_t *total) {
  const bytes *s = t->data;
  *width = 1;
  for (int64_t i = 0; i < count; i++)
    if (s[i].n > *width) *width = s[i].n; /* bytes: at least the number of characters */
  if (__builtin_mul_overflow((size_t)count, *width * 4, total)) return NULL;
  uint8_t *out = arena_alloc(a, *total);
  for (int64_t i = 0; i < count; i++) {
    uint8_t *o = out + (size_t)i * *width * 4;
    for (size_t k = 0; k < s[i].n; o += 4) {
      const uint8_t *p = s[i].p + k;
      size_t len = utf8_len(p, s[i].n - k);
      uint32_t u = len <= 1 ? (len ? *p : 0xfffd) : *p & (0x7fu >> len);
      for (size_t j = 1; j < len; j++) u = u << 6 | (p[j] & 0x3f);
      memcpy(o, &u, 4);
      k += len ? len : 1;
    }
  }
  return out;
}

static void npy_header(arena *a, sbuf *b, const ndarray *t, size_t width) {
  sbuf d = sbuf_new(a);
  if (t->type == ET_STR)
    sb_fmt(&d, "{'descr': '<U%zu', ", width);
  else
    sb_fmt(&d, "{'descr': '%c%s', ", et_bytes(t->type) > 1 ? '<' : '|', descr_of(t->type));
  sb_put(&d, "'fortran_order': False, 'shape': (");
  for (uint32_t i = 0; i < t->rank; i++)
    sb_fmt(&d, "%lld%s", (long long)t->dims[i], t->rank == 1 || i + 1 < t->rank ? ", " : "");
  sb_put(&d, "), }");
  while ((10 + d.n + 1) % 64) sb_putc(&d, ' ');
  sb_putc(&d, '\n');
  sb_putn(b, "\x93NUMPY\x01\x00", 8);
  put(b, d.n, 2);
  sb_putn(b, d.s, d.n);
}

bool npz_write(ctx *c, const char *path, const npz *z) {
  arena *a = arena_new(c);
  sbuf b = sbuf_new(a), dir = sbuf_new(a);
  for (uint32_t i = 0; i < z->n; i++) {
    const ndarray *t = &z->arrays[i];
    const uint8_t *data = t->data;
    size_t n = t->bytes, width = 0, nlen = strlen(z->names[i]) + 4;
    int64_t count;
    if (!nd_count(t, &count) || nlen > 60000 || (t->type == ET_STR && !(data = wide_text(a, t, count, &width, &n)))) {
      arena_free(a);
      return bad(c, path, arena_fmt(ctx_arena(c), "'%.100s' cannot be written: unreasonable size", z->names[i]));
    }
    if (n == 0) data = (const uint8_t *)""; /* zlib takes NULL for a new start of the checksum */
    sbuf h = sbuf_new(a);
    npy_header(a, &h, t, width);
    uint64_t size = (uint64_t)h.n + n, at = b.n;
    uint32_t crc = (uint32_t)crc32_z(crc32_z(0, (const Bytef *)h.s, h.n), data, n);
    bool big = size >= UINT32_MAX || at >= UINT32_MAX;
    sbuf x = sbuf_new(a); /* the fields both headers share: version needed .. name length, extra length */
    put(&x, big ? 45 : 20, 2), put(&x, 0x800, 2), put(&x, 0, 2), put(&x, 0x00210000, 4), put(&x, crc, 4);
    put(&x, big ? UINT32_MAX : size, 4), put(&x, big ? UINT32_MAX : size, 4), put(&x, nlen, 2);
    /* a field of its own brings the data to a multiple of 64 bytes */
    size_t extra = big ? 20 : 0, fill = 4 + (size_t)(-(at + 30 + nlen + extra + 4) & 63);
    put(&b, 0x04034b50, 4), sb_putn(&b, x.s, x.n), put(&b, extra + fill, 2);
    sb_put(&b, z->names[i]), sb_put(&b, ".npy");
    if (big) put(&b, 1, 2), put(&b, 16, 2), put(&b, size, 8), put(&b, size, 8);
    put(&b, 0xd935, 2), put(&b, fill - 4, 2);
    for (size_t k = 4; k < fill; k++) sb_putc(&b, 0);
    sb_putn(&b, h.s, h.n), sb_putn(&b, (const char *)data, n);
    put(&dir, 0x02014b50, 4), put(&dir, big ? 45 : 20, 2), sb_putn(&dir, x.s, x.n), put(&dir, big ? 28 : 0, 2);
    put(&dir, 0, 2), put(&dir, 0, 4), put(&dir, 0, 4), put(&dir, big ? UINT32_MAX : at, 4);
    sb_put(&dir, z->names[i]), sb_put(&dir, ".npy");
    if (big) put(&dir, 1, 2), put(&dir, 24, 2), put(&dir, size, 8), put(&dir, size, 8), put(&dir, at, 8);
  }
  uint64_t start = b.n, end;
  sb_putn(&b, dir.s, dir.n);
  end = b.n;
  if (start >= UINT32_MAX || z->n >= UINT16_MAX) {
    put(&b, 0x06064b50, 4), put(&b, 44, 8), put(&b, 45, 2), put(&b, 45, 2), put(&b, 0, 8);
    put(&b, z->n, 8), put(&b, z->n, 8), put(&b, end - start, 8), put(&b, start, 8);
    put(&b, 0x07064b50, 4), put(&b, 0, 4), put(&b, end, 8), put(&b, 1, 4);
  }
  uint64_t n16 = z->n < UINT16_MAX ? z->n : UINT16_MAX;
  put(&b, 0x06054b50, 4), put(&b, 0, 4), put(&b, n16, 2), put(&b, n16, 2);
  put(&b, end - start < UINT32_MAX ? end - start : UINT32_MAX, 4), put(&b, start < UINT32_MAX ? start : UINT32_MAX, 4),
      put(&b, 0, 2);
  bool ok = file_write(c, path, b.s, b.n);
  arena_free(a);
  return ok;
}
