/* base: what every room stands on. Memory, strings, containers, element types, diagnostics, files.
 *
 * One object carries everything that lives as long as one compilation: the context `ctx`. There is no global
 * state; two contexts never share anything.
 *
 * Memory. Everything the compiler builds lives in arenas that belong to the context and go with it. Nothing is
 * freed piece by piece. Arena memory is zeroed, aligned to 16 bytes.
 *   Allocation never returns NULL: out of memory unwinds (below). Sizes are checked for overflow.
 * Errors. Three classes.
 *   1. The model or the user is wrong: `diag_error(...)` records a diagnostic; the room goes on if it can
 *     (several are collected), or calls `ctx_fail` to unwind.
 *   2. The world is wrong (memory, files): the same channel.
 *   3. We are wrong: `ctx_bug(c, ...)` records an internal error naming the pass and unwinds.
 *   Unwinding is a longjmp to the innermost `CTX_TRY` of this thread's frame; since all memory is in arenas and
 *   files are closed by the mapping table, nothing leaks.
 *   Worker threads open their own frame (CTX_TRY in the thread function) and hand the failure over.
 * Public API functions open the outermost frame and turn the diagnostics into a status.
 */
#ifndef EK_BASE_H
#define EK_BASE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ctx ctx;
typedef struct arena arena;

/* ---- status codes: also the public ones (ek_code in einkorn.h has the same values) ----------- */
typedef enum {
  E_OK = 0,
  E_FAILED,      /* anything without a better name */
  E_USAGE,       /* wrong option, wrong call */
  E_UNSUPPORTED, /* legal, but not built yet, or refused by design */
  E_MODEL,       /* the model is malformed */
  E_SHAPE,       /* shapes or types do not fit */
  E_IO,          /* file missing, unreadable, truncated */
  E_MEMORY,      /* out of memory or over a stated limit */
  E_TARGET,      /* code generation, linker */
  E_INTERNAL,    /* we are wrong */
  E_CANCELLED
} ecode;

/* ---- context --------------------------------------------------------------------------------- */
ctx *ctx_new(void); /* NULL only when out of memory */
/* Where a context's memory comes from: the context itself and all blocks of its arenas. alloc gives `bytes` bytes,
 * 16-aligned, with any contents, or NULL; NULL as alloc is the C library. Both are called from any thread
 * that works in the context. limit: most bytes at one time, 0 is none; a request beyond it fails as `out of
 * memory` does (E_MEMORY) and the message names the limit. Mapped files do not count. */
typedef struct ctx_memory {
  void *(*alloc)(void *user, size_t bytes);        /* gives `bytes` bytes, or NULL; NULL: the C library's */
  void (*free)(void *user, void *p, size_t bytes); /* takes them back */
  void *user;                                      /* handed to both */
  size_t limit;                                    /* most bytes at one time; 0: no limit */
  /* each piece of an arena is asked for alone, so that any one of them can fail: for tests, slow */
  bool separate;
} ctx_memory;
ctx *ctx_new_with(const ctx_memory *m); /* m NULL: as ctx_new */
size_t ctx_used(const ctx *c);          /* bytes of memory that the context has taken and not given back */
void ctx_free(ctx *c);                  /* unmaps files, frees arenas */
/* the arena that lives as long as the context. Thread-safe: each arena function locks only its own arena; give
 * worker threads arenas of their own. */
arena *ctx_arena(ctx *c);

/* What a room hangs off the context (its table), made on first use: NULL at first. The context does not look at it.
 * Not locked: set it before worker threads run. */
typedef enum { SLOT_SYM, SLOT_EXPR, SLOT_NOTATION, SLOT_GRAPH, SLOT_SPARE, SLOT_COUNT } ctx_room;
static inline void **ctx_slot(ctx *c, ctx_room room) {
  return &((void **)c)[room];
} /* a context begins with its slots: they are asked for millions of times */

/* A frame: `CTX_TRY(c) { ... } CTX_CATCH { ... }`. Inside the first block ctx_fail jumps to the second. Leave
 * neither block by return/goto/break out of it.
 * Locals changed in the try block and read in the catch block must be volatile. A failure inside the catch block
 * goes to the next frame outside.
 * A failure without any frame cannot return and aborts the process: every entry from outside (public API, thread
 * function, test) opens one. A frame needs no memory, but in the ninth and later threads of one context. */
typedef struct frame {
  jmp_buf jb;         /* where ctx_unwind jumps to */
  struct frame *prev; /* next frame outside; NULL: this is the outermost */
} frame;
/* this thread's innermost frame of this context; kept in the context, found by the thread's id */
frame **ctx_frame_slot(ctx *c);
#define CTX_TRY(c)                                                                                                     \
  for (frame f_, **fs_ = ctx_frame_slot(c), *once_ = (f_.prev = *fs_, *fs_ = &f_, &f_); once_;                         \
       *fs_ = f_.prev, once_ = NULL)                                                                                   \
    if (!setjmp(f_.jb))
#define CTX_CATCH else
/* jumps to the innermost frame; diagnostics are recorded before */
_Noreturn void ctx_unwind(ctx *c);
/* what is being worked on, or NULL: ctx_fail names it. Borrowed; forgotten on unwinding */
void ctx_about(ctx *c, const char *node);
/* records a diagnostic, then unwinds */
_Noreturn void ctx_fail(ctx *c, ecode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* an error of ours (class 3): records it, then unwinds */
_Noreturn void ctx_bug(ctx *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define CTX_ASSERT(c, x) ((x) ? (void)0 : ctx_bug(c, "%s:%d: %s", __FILE__, __LINE__, #x))

/* ---- diagnostics ----------------------------------------------------------------------------- */
typedef enum { D_ERROR, D_WARNING, D_NOTE, D_INFO } dlevel;
/* A position in a source. */
typedef struct srcpos {
  const char *file;   /* NULL: no position */
  uint32_t line, col; /* position in the file, from 1 */
} srcpos;
typedef struct diag {
  dlevel level;      /* how serious it is */
  ecode code;        /* status of the call where it is the first error */
  srcpos pos;        /* where in a source; file NULL: nowhere */
  const char *node;  /* name of the model's node; NULL: none */
  const char *text;  /* the message, without a newline */
  struct diag *next; /* recorded after it; NULL: the last */
} diag;
void diag_add(ctx *c, dlevel l, ecode code, srcpos pos, const char *node, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
void diag_error(ctx *c, ecode code, const char *node, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_warn(ctx *c, const char *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const diag *diag_first(const ctx *c);   /* the first diagnostic; the others follow in the order of recording */
uint32_t diag_errors(const ctx *c);     /* how many D_ERROR so far; more than 100 unwinds by itself */
ecode diag_code(const ctx *c);          /* code of the first error, E_OK if none */
uint32_t diag_mark(const ctx *c);       /* number of diagnostics so far */
void diag_reset(ctx *c, uint32_t mark); /* forget those recorded since mark (speculative work) */

/* ---- arenas ---------------------------------------------------------------------------------- */
arena *arena_new(ctx *c); /* belongs to c; freed with it or by arena_free */
void arena_free(arena *a);
void *arena_alloc(arena *a, size_t bytes);          /* zeroed, 16-aligned */
void *arena_array(arena *a, size_t n, size_t elem); /* memory for n elements; the product is checked */
/* extends in place when last; else moves, and the old place is gone */
void *arena_grow(arena *a, void *old, size_t old_bytes, size_t new_bytes);
/* p is not read any more: its memory goes back if it is so large that it lies alone, and waits for the arena's end
 * otherwise. NULL: nothing */
void arena_drop(arena *a, void *p, size_t bytes);
void *arena_dup(arena *a, const void *p, size_t bytes);
char *arena_strdup(arena *a, const char *s);
char *arena_strndup(arena *a, const char *s, size_t n);
char *arena_fmt(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vfmt(arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
size_t arena_bytes(const arena *a);
ctx *arena_ctx(const arena *a);
/* These bytes will not be read again: their whole pages go back to the system (and read as 0). Only memory of the
 * context's arenas is touched; other pointers are left alone. Not while other threads allocate. */
void ctx_release(ctx *c, const void *p, size_t n);
#define NEW(a, T) ((T *)arena_alloc(a, sizeof(T)))
#define NEWN(a, T, n) ((T *)arena_array(a, n, sizeof(T)))

/* ---- growing arrays in an arena: `VEC(int) v = {0}; vec_push(a, v, 7); v.v[0]; v.n` ---------- */
#define VEC(T)                                                                                                         \
  struct {                                                                                                             \
    T *v;                                                                                                              \
    uint32_t n, cap;                                                                                                   \
  }
/* v: address of the pointer, of whatever element type */
void vec_reserve_(arena *a, void *v, uint32_t *cap, size_t need, size_t elem);
#define vec_reserve(a, x, need) vec_reserve_(a, &(x).v, &(x).cap, need, sizeof *(x).v)
#define vec_push(a, x, val) ((x).n < (x).cap ? (void)0 : vec_reserve(a, x, (size_t)(x).n + 1), (x).v[(x).n++] = (val))
typedef VEC(uint32_t) u32vec;
static inline bool vec_has(const u32vec *v, uint32_t x) {
  for (uint32_t i = 0; i < v->n; i++)
    if (v->v[i] == x) return true;
  return false;
}
static inline void vec_once(arena *a, u32vec *v, uint32_t x) { /* appends x unless it is there */
  if (!vec_has(v, x)) vec_push(a, *v, x);
}
/* An empty vector whose first elements lie on the stack: most are as short, and cost no memory of an arena. */
enum { STACK_VEC = 32 };
#define STACK_U32VEC(name)                                                                                             \
  uint32_t name##_first[STACK_VEC];                                                                                    \
  u32vec name = {name##_first, 0, STACK_VEC}
typedef VEC(int64_t) i64vec;
typedef VEC(const char *) strvec;

/* ---- maps ------------------------------------------------------------------------------------ */
/* byte-string or u64 keys to u64 values; insertion-ordered iteration. Bytes and numbers are different keys */
typedef struct map map;
map *map_new(arena *a);
bool map_get(const map *m, const void *key, size_t n, uint64_t *val);
/* copies the key; replaces the value of an equal key */
void map_put(map *m, const void *key, size_t n, uint64_t val);
bool map_gets(const map *m, const char *key, uint64_t *val);
void map_puts(map *m, const char *key, uint64_t val);
bool map_getu(const map *m, uint64_t key, uint64_t *val);
void map_putu(map *m, uint64_t key, uint64_t val);
uint32_t map_count(const map *m);
/* i-th inserted; a NUL follows a string, it stays where it is as long as the arena; a number stays until the next
 * put */
const void *map_key(const map *m, uint32_t i, size_t *n, uint64_t *val);
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
/* word i of a stream of random ones: splitmix64 (Steele, Lea, Flood 2014). Streams and words of different numbers have
 * nothing in common */
uint64_t random_word(uint64_t stream, uint64_t i);
const char *intern(ctx *c, const char *s); /* equal strings, equal pointers, for the context's life */
const char *intern_n(ctx *c, const char *s, size_t n);

/* ---- string builder -------------------------------------------------------------------------- */
/* A growing text. */
typedef struct sbuf {
  arena *a;   /* arena of the text */
  char *s;    /* the text, NUL-terminated once anything was put; NULL before */
  size_t n;   /* bytes in use, without the NUL */
  size_t cap; /* bytes allocated */
} sbuf;
sbuf sbuf_new(arena *a);
void sb_put(sbuf *b, const char *s);
void sb_putn(sbuf *b, const char *s, size_t n);
void sb_putc(sbuf *b, char ch);
/* The one of n words that was probably meant by `word`: it differs in case, or in few letters (one in three, at most
 * three; two neighbours that changed places count once). NULL: none of them. */
const char *closest_word(const char *word, const char *const *words, uint32_t n);
/* The same for messages: "; did you mean X?", or "" */
const char *did_you_mean(arena *a, const char *word, const char *const *words, uint32_t n);
void sb_fmt(sbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sb_double(sbuf *b, double x); /* shortest decimal that reads back to the same double; inf, -inf, nan */
void sb_float(sbuf *b, float x);
void sb_quoted(sbuf *b, const char *s, size_t n); /* "..." with escapes \n \" \\ \xHH; valid UTF-8 stays as it is */
/* strtod, whatever the process's locale says */
double num_parse(ctx *c, const char *s, char **end);
float num_parsef(ctx *c, const char *s, char **end);
int64_t int_parse(const char *s, char **end); /* strtoll of a decimal number */
int hex_digit(char ch);                       /* -1: it is none */
/* bytes of the well-formed UTF-8 sequence that starts at p; 0 if there is none */
size_t utf8_len(const void *p, size_t n);

/* ---- checked arithmetic ---------------------------------------------------------------------- */
static inline bool add64(int64_t a, int64_t b, int64_t *r) { return !__builtin_add_overflow(a, b, r); }
static inline bool mul64(int64_t a, int64_t b, int64_t *r) { return !__builtin_mul_overflow(a, b, r); }
static inline int64_t floordiv64(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
static inline int64_t floormod64(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
/* the greatest common divisor, never negative; of 0 and 0: 0 */
static inline int64_t gcd64(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b, b = r;
  }
  return a < 0 ? -a : a;
}
/* Numbers that are only compared, such as products of sizes: what is larger counts as this. Sums of many do not
 * overflow. */
#define SAT64 (INT64_C(1) << 40)
/* a * b, at most SAT64; neither is negative */
static inline int64_t sat_mul64(int64_t a, int64_t b) {
  int64_t r;
  return mul64(a, b, &r) ? min64(r, SAT64) : SAT64;
}

/* ---- bit sets: words of BITSET_WORD bits, zeros at first --------------------------------------- */
enum { BITSET_WORD = 64 };
static inline uint32_t bitset_words(uint32_t n) { return n / BITSET_WORD + 1; } /* words for members below n, and n */
static inline bool bitset_has(const uint64_t *s, uint32_t i) { return s[i / BITSET_WORD] >> (i % BITSET_WORD) & 1; }
static inline void bitset_add(uint64_t *s, uint32_t i) { s[i / BITSET_WORD] |= UINT64_C(1) << (i % BITSET_WORD); }
static inline void bitset_remove(uint64_t *s, uint32_t i) { s[i / BITSET_WORD] &= ~(UINT64_C(1) << (i % BITSET_WORD)); }
/* the least member of word w, whose bits these are: not 0 */
static inline uint32_t bitset_first(uint64_t bits, uint32_t w) {
  return w * BITSET_WORD + (uint32_t)__builtin_ctzll(bits);
}

/* ---- keys of maps: small numbers side by side -------------------------------------------------- */
static inline uint64_t key_pair(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }
static inline uint32_t key_high(uint64_t key) { return (uint32_t)(key >> 32); }
static inline uint32_t key_low(uint64_t key) { return (uint32_t)key; }
static inline uint64_t key_four(uint16_t a, uint16_t b, uint16_t c, uint16_t d) {
  return key_pair((uint32_t)a << 16 | b, (uint32_t)c << 16 | d);
}
/* the key with x < 2^20 behind it; three fit behind a number of four bits */
static inline uint64_t key_join(uint64_t key, uint32_t x) { return key << 20 ^ x; }
/* for tables of a power of two: numbers that follow each other are spread (Knuth's multiplicative hash, by the golden
 * ratio) */
static inline uint32_t hash_u32(uint32_t x) { return x * UINT32_C(2654435769) >> 16; }

/* ---- element types: one table. name, bits, kind, ONNX TensorProto.DataType code ---- */
/* In memory every element takes max(1, bits/8) whole bytes: sub-byte types are stored one element a byte (sign-
 * or zero-extended for integers, the code for floats).
 * A tensor of strings is an array of `bytes` (pointer and length, UTF-8, a NUL follows); its et_bytes is 0. */
// clang-format off
#define ETYPES(X) \
  X(F64, "f64", 64, K_FLOAT, 11) \
  X(F32, "f32", 32, K_FLOAT, 1) \
  X(F16, "f16", 16, K_FLOAT, 10) \
  X(BF16, "bf16", 16, K_FLOAT, 16) \
  X(F8E4M3FN, "f8e4m3fn", 8, K_FLOAT, 17) \
  X(F8E4M3FNUZ, "f8e4m3fnuz", 8, K_FLOAT, 18) \
  X(F8E5M2, "f8e5m2", 8, K_FLOAT, 19) \
  X(F8E5M2FNUZ, "f8e5m2fnuz", 8, K_FLOAT, 20) \
  X(F8E8M0, "f8e8m0", 8, K_FLOAT, 24) \
  X(F4E2M1, "f4e2m1", 4, K_FLOAT, 23) \
  X(I64, "i64", 64, K_INT, 7) \
  X(I32, "i32", 32, K_INT, 6) \
  X(I16, "i16", 16, K_INT, 5) \
  X(I8, "i8", 8, K_INT, 3) \
  X(I4, "i4", 4, K_INT, 22) \
  X(I2, "i2", 2, K_INT, 26) \
  X(U64, "u64", 64, K_UINT, 13) \
  X(U32, "u32", 32, K_UINT, 12) \
  X(U16, "u16", 16, K_UINT, 4) \
  X(U8, "u8", 8, K_UINT, 2) \
  X(U4, "u4", 4, K_UINT, 21) \
  X(U2, "u2", 2, K_UINT, 25) \
  X(BOOL, "bool", 8, K_BOOL, 9) \
  X(STR, "str", 0, K_STR, 8)
// clang-format on
typedef enum { K_FLOAT, K_INT, K_UINT, K_BOOL, K_STR } ekind;
typedef enum {
  ET_NONE = 0,
#define X(id, name, bits, kind, onnx) ET_##id,
  ETYPES(X)
#undef X
      ET_COUNT
} etype;
const char *et_name(etype t);
etype et_parse(const char *name); /* ET_NONE if unknown */
etype et_from_onnx(int code);     /* ET_NONE if unknown */
int et_to_onnx(etype t);
uint32_t et_bits(etype t);
uint32_t et_bytes(etype t); /* bytes of one element in memory: >= 1; 0 for str */
ekind et_kind(etype t);

/* A scalar value of any numeric type: floats as double, integers as int64 (u64 as its bits). Which one is live
 * follows from the element type. */
typedef union scalar {
  double f;  /* value of a float type */
  int64_t i; /* value of an integer type or bool; u64 as its bits */
} scalar;
scalar et_load(etype t, const void *p);   /* one element from memory */
double et_number(etype t, const void *p); /* the same as a number, whatever its kind */
/* rounds to nearest even (floats of any width, saturation as IEEE: to inf, or NaN where the type has no inf);
 * integers wrap */
void et_store(etype t, void *p, scalar v);
scalar et_round(etype t, scalar v); /* value after storing in t and loading back */
/* cast: float to int truncates (NaN, inf: 0; beyond int64: its minimum, which then wraps), to bool is != 0; the
 * result is a value of `to` */
scalar et_convert(etype to, etype from, scalar v);
double et_lowest(etype t); /* most negative finite (floats), minimum (integers) */
double et_highest(etype t);
/* what no value is beyond: inf or -inf where the type has them, else its highest or lowest value; exact for 64-bit
 * integers, too */
scalar et_bound(etype t, bool high);

/* ---- files ----------------------------------------------------------------------------------- */
typedef struct bytes {
  const uint8_t *p; /* first byte; NULL: none */
  size_t n;         /* number of bytes */
} bytes;
/* read-only mapping that lives as long as c; error recorded on failure */
bool file_map(ctx *c, const char *path, bytes *out);
/* pages of the mapped files leave memory; they come back when read */
void file_cool(ctx *c);
/* gives the memory of the whole pages among these bytes back; nothing happens to bytes that are of no mapped file */
void file_done(ctx *c, const void *p, size_t n);
/* is all of it in a mapped file? */
bool file_holds(ctx *c, bytes b);
/* the name of the mapped file that p points into, if that file was changed since; else NULL. Any thread */
const char *file_changed(ctx *c, const void *p);
/* digest of the contents of all files mapped so far, and of which call of file_map was for which of them */
void file_digest(ctx *c, uint8_t out[32]);
/* every file mapped in `was` is mapped in `is` too, and was not changed in between */
bool file_same(ctx *was, ctx *is);
/* whole file through a temporary name and rename: never a partial file */
bool file_write(ctx *c, const char *path, const void *p, size_t n);
typedef struct file_out file_out;
/* writes a file as file_write does, but fill hands it over in pieces; fill may unwind */
bool file_write_by(ctx *c, const char *path, void (*fill)(void *env, file_out *f), void *env);
/* the same, and the file stays through a crash of the system: it and its folder are synchronised with the disk */
bool file_write_durably(ctx *c, const char *path, void (*fill)(void *env, file_out *f), void *env);
/* hands n bytes over; file_write_by reports what goes wrong */
void file_put(file_out *f, const void *p, size_t n);
bool file_exists(const char *path);
bool is_folder(const char *path);
/* names in a folder, sorted by their bytes, without those that begin with a dot; error recorded on failure */
bool folder_names(ctx *c, const char *path, strvec *out);
const char *path_dir(arena *a, const char *path); /* "." when there is none */
const char *path_join(arena *a, const char *dir, const char *rel);
/* relative, no "..", no NUL: may be joined to a model's folder */
bool path_inside(const char *rel);
const char *sha256_hex(arena *a, const void *p, size_t n); /* bytes of mapped files do not stay in memory for it */
typedef struct sha256_state sha256_state;                  /* SHA-256 of bytes that come piece by piece */
sha256_state *sha256_begin(arena *a);
void sha256_add(sha256_state *k, const void *p, size_t n);
const char *sha256_end(sha256_state *k);
/* BLAKE3 of n bytes: as strong as SHA-256, and about ten times as fast on large pieces */
void content_digest(const void *p, size_t n, uint8_t out[32]);

/* ---- a tensor's bytes: constants of models, test data. Element bytes as in memory (see ETYPES) ---- */
#define MAX_RANK 16
typedef struct ndarray {
  etype type;             /* element type */
  uint32_t rank;          /* number of axes, at most MAX_RANK */
  int64_t dims[MAX_RANK]; /* size of each axis, outer to inner */
  const void *data;       /* elements, row-major; not owned */
  size_t bytes;           /* bytes at data */
  const char *file;       /* where the bytes are mapped from; NULL: from no file */
  uint64_t offset;        /* first byte of the data in `file` */
} ndarray;
bool nd_count(const ndarray *t, int64_t *n); /* elements; false on overflow */
/* An array of strings as one of u8 with one axis more, as long as the longest string, whose end is filled up with
 * zeros. False: it is none of strings, or too large */
bool nd_bytes(arena *a, const ndarray *strings, ndarray *out);
/* .npy in memory; C order (Fortran order is transposed); arrays point into `file` where possible */
bool npy_read(ctx *c, bytes file, const char *name, ndarray *out);
typedef struct npz {
  uint32_t n;         /* number of arrays */
  const char **names; /* name of each array, without .npy */
  ndarray *arrays;    /* the arrays */
} npz;
bool npz_read(ctx *c, const char *path, npz *out); /* reads members that are stored or deflated */
bool npz_write(ctx *c, const char *path, const npz *z);

/* ---- IDX, the format of MNIST, and gzip (idx.c): by content; what is damaged unwinds (E_IO) ---- */
bool is_gzip(bytes file);
bytes gzip_read(ctx *c, const char *path, bytes file); /* what is packed in it */
bool is_idx(bytes file);
ndarray idx_read(ctx *c, const char *path, bytes file); /* points into `file` where possible */

/* ---- .safetensors (safetensors.c) ------------------------------------------------------------ */
typedef struct safetensors {
  uint32_t n;          /* number of arrays */
  const char **names;  /* name of each */
  ndarray *arrays;     /* the arrays */
  uint32_t notes;      /* number of entries of __metadata__ */
  const char **keys;   /* key of each entry */
  const char **values; /* its text */
} safetensors;
/* Arrays point into the mapped file where they are aligned. Error recorded on failure: not readable, or damaged. */
bool safetensors_read(ctx *c, const char *path, safetensors *out);
/* The file appears whole, and stays through a crash of the system once this returns. Types without a name in the format
 * are an error. */
bool safetensors_write(ctx *c, const char *path, const safetensors *s);
const char *safetensors_note(const safetensors *s, const char *key); /* text of an entry; NULL: there is none */

/* ---- small parallel for of the compiler itself (not the runtime's pool) ---------------------- */
/* Calls fn(c, arg, i) for i in 0..n-1 on up to `threads` threads, each inside its own frame. If any fails, the
 * others finish their current item and this unwinds. */
void par_for(ctx *c, uint32_t threads, uint32_t n, void (*fn)(ctx *c, void *arg, uint32_t i), void *arg);
/* threads that a compilation or a run may be told to take, at most (those of the pool, runtime/pool.c) */
enum { MAX_RUN_THREADS = 1024 };
uint32_t cpu_count(void);  /* processors that this process may use, by its affinity mask and cgroup quota */
uint32_t ctx_cpus(ctx *c); /* cpu_count, looked up once for a context: it takes many system calls */
double now_ms(void);       /* monotonic clock */

/* ---- planted faults (planted.c) -------------------------------------------------------------- */
/* Where EK_PLANTED(NAME) stands, a build with -DEK_PLANTS=ON goes wrong on purpose if the environment's EK_PLANT
 * is NAME: tests/planted.sh shows that some test sees it. Elsewhere it is false, and nothing is left of
 * it. */
#ifdef EK_PLANTS
bool ek_planted(const char *name);
#define EK_PLANTED(name) ek_planted(name)
#else
#define EK_PLANTED(name) false
#endif
#endif
