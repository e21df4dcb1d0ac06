/* What surrounds the functions of a C source: types, helpers, constants, the descriptor. */
#include "codegen/c/emit.h"
#include <string.h>

static const char types[] =
    "#include <stddef.h>\n#include <stdint.h>\n"
    "typedef float f32;\ntypedef double f64;\ntypedef int8_t i8;\ntypedef uint8_t u8;\ntypedef int16_t i16;\ntypedef "
    "uint16_t u16;\ntypedef int32_t i32;\ntypedef uint32_t u32;\ntypedef int64_t i64;\ntypedef uint64_t u64;\n"
    "/* the same in memory, where one place may hold values of several types over time */\n"
    "#if defined(__GNUC__)\n#define MEMORY __attribute__((may_alias))\n#else\n#define MEMORY\n#endif\n"
    "typedef f32 MEMORY m_f32;\ntypedef f64 MEMORY m_f64;\ntypedef i8 MEMORY m_i8;\ntypedef u8 MEMORY m_u8;\ntypedef "
    "i16 MEMORY m_i16;\ntypedef u16 MEMORY m_u16;\ntypedef i32 MEMORY m_i32;\ntypedef u32 MEMORY m_u32;\n"
    "typedef i64 MEMORY m_i64;\ntypedef u64 MEMORY m_u64;\n\n";
static const char records[] =
    "#ifndef EK_RUNTIME_H\n#define EK_RUNTIME_H\n"
    "typedef void (*ek_rt_kernel)(const int64_t *args, int64_t lo, int64_t hi, int64_t worker);\n"
    "typedef struct ek_rt_call {\n"
    "  const void *const *in;   /* one pointer per input, then one per state: its old value */\n"
    "  void *const *out;        /* one pointer per output, then one per state: for its new value */\n "
    " const int64_t *in_dims;  /* dims of all inputs, one after the other */\n"
    "  int64_t *out_dims;       /* dims of all outputs and states: what there is room for, then what they are */\n  "
    "uint8_t "
    "*arena;          /* arena_bytes of memory, 64-aligned */\n  const uint8_t *weights;  /* NULL: the model's own */\n"
    "  void (*parallel)(struct ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks); /* runs the "
    "chunks 0..chunks-1 of k, in any threads, and returns when all are done; NULL: they run one after the other */\n"
    "  void *pool;              /* for parallel */\n"
    "  int64_t threads;         /* that parallel uses at most; 1 without it */\n  int64_t scratch;         /* the "
    "model's own */\n  int64_t arena_bytes;     /* written by plan */\n  const char *message;     /* written on "
    "failure */\n  int64_t cancel;          /* 0; other threads may set it: run ends before its next kernel */\n} "
    "ek_rt_call;\n"
    "typedef int64_t (*ek_rt_main)(ek_rt_call *call);\n"
    "/* returned by run, of models with sizes that only a run finds: arena_bytes and out_dims say what it needs; call "
    "it again with so much */\nenum { EK_RT_ROOM = 100 };\n"
    "typedef struct ek_rt_tensor {\n  const char *name;\n  int32_t type; /* ONNX element type code */\n  int32_t "
    "rank;\n  const int64_t *dims; /* fixed sizes, or -1 */\n  const char *const *dim_names;\n} ek_rt_tensor;\n"
    "typedef struct ek_rt_state {\n  int64_t first;  /* offset of its first value in the weights; -1: zeros */\n"
    "  int64_t places; /* 1: both pointers are the same; 2: they are exchanged after each run */\n} ek_rt_state;\n"
    "typedef struct ek_rt_pool ek_rt_pool;\n"
    "typedef struct ek_rt_model {\n  int64_t version;\n  const char *name;\n  int64_t inputs, outputs;\n  const "
    "ek_rt_tensor *in, *out;\n  ek_rt_main plan; /* reads in_dims, threads; writes out_dims, arena_bytes */\n  "
    "ek_rt_main run;\n"
    "  const uint8_t *weights;\n  int64_t weight_bytes;\n  const char *memory;\n  ek_rt_pool *(*pool_create)(int64_t "
    "threads);\n  void (*pool_destroy)(ek_rt_pool *p);\n  const char *cpu;\n  int64_t states;\n  "
    "const ek_rt_tensor *state;\n  const ek_rt_state *between;\n  const int64_t *orders; /* axes of each state as they "
    "lie, outermost first; NULL: row-major */\n} ek_rt_model;\n#endif\n\n";

/* f(x mod y) of floats by their bits: long division, one bit a step, exact. */
#define FMOD(F, U, MANT, TOP, EXPMASK)                                                                                 \
  "static " F " fmod_" F "(" F " x, " F " y) {\n"                                                                      \
  "  " U " a = bits_" F "(x), b = bits_" F "(y), sign = a & (" U ")1 << " TOP ", ma, mb;\n"                            \
  "  a ^= sign;\n  b &= ~((" U ")1 << " TOP ");\n"                                                                     \
  "  if (b == 0 || a >= (" U ")" EXPMASK " << " MANT " || b > (" U ")" EXPMASK " << " MANT                             \
  ") return (x * y) / (x * y);\n"                                                                                      \
  "  if (a < b) return x;\n"                                                                                           \
  "  int ea = (int)(a >> " MANT "), eb = (int)(b >> " MANT ");\n"                                                      \
  "  ma = a & (((" U ")1 << " MANT ") - 1);\n  mb = b & (((" U ")1 << " MANT ") - 1);\n"                               \
  "  if (ea) ma |= (" U ")1 << " MANT ";\n  else ea = 1;\n  if (eb) mb |= (" U ")1 << " MANT ";\n  else eb = 1;\n"     \
  "  while (!(mb >> " MANT ")) mb <<= 1, eb--;\n"                                                                      \
  "  while (!(ma >> " MANT ")) ma <<= 1, ea--;\n"                                                                      \
  "  for (; ea > eb; ea--) {\n    if (ma >= mb) ma -= mb;\n    ma <<= 1;\n  }\n  if (ma >= mb) ma -= mb;\n"            \
  "  if (ma == 0) return " F "_bits(sign);\n"                                                                          \
  "  while (!(ma >> " MANT ")) ma <<= 1, ea--;\n"                                                                      \
  "  if (ea > 0) ma = (ma & (((" U ")1 << " MANT ") - 1)) | (" U ")ea << " MANT ";\n  else ma >>= 1 - ea;\n"           \
  "  return " F "_bits(sign | ma);\n}\n"
static const char *const texts[C_HELPER_COUNT] = {
    [C_HELPER_BITS] = "static inline u32 bits_f32(f32 x) {\n  union { f32 f; u32 u; } b = {x};\n  return b.u;\n}\n"
                      "static inline u64 bits_f64(f64 x) {\n  union { f64 f; u64 u; } b = {x};\n  return b.u;\n}\n"
                      "static inline f32 f32_bits(u32 x) {\n  union { u32 u; f32 f; } b = {x};\n  return b.f;\n}\n"
                      "static inline f64 f64_bits(u64 x) {\n  union { u64 u; f64 f; } b = {x};\n  return b.f;\n}\n",
    [C_HELPER_ABS_F32] = "static inline f32 abs_f32(f32 x) { return f32_bits(bits_f32(x) & 0x7fffffffu); }\n",
    [C_HELPER_ABS_F64] = "static inline f64 abs_f64(f64 x) { return f64_bits(bits_f64(x) & 0x7fffffffffffffffu); }\n",
    [C_HELPER_SQRT_F32] =
        "static f32 sqrt_f32(f32 x) { /* Newton's steps for 1/sqrt in f64, whose rounding to f32 is right */\n"
        "  if (!(x > 0)) return x == 0 ? x : f32_bits(0x7fc00000u);\n  if (x > 3.40282347e38f) return x;\n"
        "  f64 d = x, y = f64_bits(0x5fe6eb50c7b537a9u - (bits_f64(d) >> 1));\n"
        "  for (int i = 0; i < 4; i++) y = y * (1.5 - 0.5 * d * y * y);\n  f64 s = d * y;\n  return (f32)(s + 0.5 * y "
        "* (d - s * s));\n}\n",
    [C_HELPER_SQRT_F64] = "static f64 sqrt_f64(f64 x) { /* Newton's steps, then one with the exact residue */\n"
                          "  if (!(x > 0)) return x == 0 ? x : f64_bits(0x7ff8000000000000u);\n  if (x > "
                          "1.7976931348623157e308) return x;\n"
                          "  f64 scale = 1;\n  if (x < 1e-290) x *= 0x1p108, scale = 0x1p-54;\n  else if (x > 1e290) x "
                          "*= 0x1p-108, scale = 0x1p54;\n"
                          "  f64 y = f64_bits(0x5fe6eb50c7b537a9u - (bits_f64(x) >> 1));\n  for (int i = 0; i < 5; "
                          "i++) y = y * (1.5 - 0.5 * x * y * y);\n  f64 s = x * y;\n"
                          "  f64 h = f64_bits(bits_f64(s) & 0xfffffffff8000000u), t = s - h, r = ((x - h * h) - 2 * h "
                          "* t) - t * t;\n  return (s + 0.5 * y * r) * scale;\n}\n",
    [C_HELPER_FMOD_F32] = FMOD("f32", "u32", "23", "31", "0xff"),
    [C_HELPER_FMOD_F64] = FMOD("f64", "u64", "52", "63", "0x7ff"),
    [C_HELPER_TOINT_F32] = "static inline i64 toint_f32(f32 x) { /* NaN and infinity give 0, other values outside i64 "
                           "its lowest */\n  if (x > -9.2233720e18f && x < 9.2233720e18f) return (i64)x;\n"
                           "  return x - x == 0 ? (-9223372036854775807 - 1) : 0;\n}\n",
    [C_HELPER_TOINT_F64] =
        "static inline i64 toint_f64(f64 x) { /* NaN and infinity give 0, other values outside i64 its lowest */\n  if "
        "(x >= -9223372036854775808.0 && x < 9223372036854775808.0) return (i64)x;\n"
        "  return x - x == 0 ? (-9223372036854775807 - 1) : 0;\n}\n",
    [C_HELPER_TOUINT_F32] = "static inline u64 touint_f32(f32 x) { return x >= 9223372036854775808.0f && x < "
                            "18446744073709551616.0f ? (u64)x : (u64)toint_f32(x); }\n",
    [C_HELPER_TOUINT_F64] = "static inline u64 touint_f64(f64 x) { return x >= 9223372036854775808.0 && x < "
                            "18446744073709551616.0 ? (u64)x : (u64)toint_f64(x); }\n",
    [C_HELPER_DIV_I64] = "static inline i64 div_i64(i64 x, i64 y) {\n  if (y == 0) return 0;\n  if (y == -1) return "
                         "(i64)((u64)0 - (u64)x);\n  return x / y - (x % y != 0 && (x < 0) != (y < 0));\n}\n",
    [C_HELPER_MOD_I64] = "static inline i64 mod_i64(i64 x, i64 y) {\n  if (y == 0 || y == -1) return 0;\n  i64 r = x % "
                         "y;\n  return r != 0 && (r < 0) != (y < 0) ? r + y : r;\n}\n",
    [C_HELPER_REM_I64] = "static inline i64 rem_i64(i64 x, i64 y) { return y == 0 || y == -1 ? 0 : x % y; }\n",
    [C_HELPER_DIV_U64] = "static inline u64 div_u64(u64 x, u64 y) { return y == 0 ? 0 : x / y; }\n",
    [C_HELPER_MOD_U64] = "static inline u64 mod_u64(u64 x, u64 y) { return y == 0 ? 0 : x % y; }\n",
    [C_HELPER_DIV_I32] = "static inline i32 div_i32(i32 x, i32 y) {\n  if (y == 0) return 0;\n  if (y == -1) return "
                         "(i32)((u32)0 - (u32)x);\n  return x / y - (x % y != 0 && (x < 0) != (y < 0));\n}\n",
    [C_HELPER_MOD_I32] = "static inline i32 mod_i32(i32 x, i32 y) {\n  if (y == 0 || y == -1) return 0;\n  i32 r = x % "
                         "y;\n  return r != 0 && (r < 0) != (y < 0) ? r + y : r;\n}\n",
    [C_HELPER_REM_I32] = "static inline i32 rem_i32(i32 x, i32 y) { return y == 0 || y == -1 ? 0 : x % y; }\n",
};
void c_helpers(sbuf *b, uint64_t used) {
  for (int i = 0; i < C_HELPER_COUNT; i++)
    if (used >> i & 1) sb_put(b, texts[i]);
  if (used) sb_putc(b, '\n');
}
void c_string(sbuf *b, const char *s) {
  if (!s) {
    sb_put(b, "NULL");
    return;
  }
  sb_putc(b, '"');
  for (; *s; s++) {
    uint8_t ch = (uint8_t)*s;
    if (ch == '"' || ch == '\\' || ch == '?')
      sb_fmt(b, "\\%c", ch);
    else if (ch >= 0x20 && ch < 0x7f)
      sb_putc(b, (char)ch);
    else
      sb_fmt(b, "\\%03o", ch);
  }
  sb_putc(b, '"');
}
/* A C identifier from any name, unlike all others of the module. */
static const char *ident(cem *e, map *taken, const char *name, uint32_t index) {
  sbuf s = sbuf_new(e->a);
  sb_put(&s, "f_");
  for (; *name; name++) {
    bool ok = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
              *name == '_';
    sb_putc(&s, ok ? *name : '_');
  }
  uint64_t k;
  if (map_gets(taken, s.s, &k)) sb_fmt(&s, "__%u", index);
  map_puts(taken, s.s, index);
  return s.s;
}
static void put_word(c_words *w, size_t i, sbuf *b) {
  static const char hex[] = "0123456789abcdef";
  const uint8_t *q = w->word;
  uint32_t u = q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 | (uint32_t)q[3] << 24;
  char t[16];
  size_t k = 0;
  if (i % 12 == 0) sb_put(b, "\n  ");
  if (u < 10)
    t[k++] = (char)('0' + u);
  else {
    t[k++] = '0', t[k++] = 'x';
    int s = 28;
    while (!(u >> s & 15)) s -= 4;
    for (; s >= 0; s -= 4) t[k++] = hex[u >> s & 15];
  }
  t[k++] = ',';
  sb_putn(b, t, k);
  memset(w->word, 0, 4);
}
void c_weights(c_words *w, bytes piece, sbuf *b) {
  if (!w->at)
    sb_fmt(b,
           "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"constants are "
           "little-endian\"\n#endif\nstatic const _Alignas(64) u32 weights[%zu] = {",
           (w->n + 3) / 4);
  for (size_t i = 0; i < piece.n; i++) {
    w->word[w->at++ % 4] = piece.p[i];
    if (w->at % 4 == 0 || w->at == w->n) put_word(w, (w->at - 1) / 4, b);
  }
  if (w->at == w->n) sb_put(b, "\n};\n\n");
}
static void tensor_parts(sbuf *b, const char *what, const ek_rt_tensor *t, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!t[i].rank) continue;
    sb_fmt(b, "static const int64_t %s_dims_%lld[] = {", what, (long long)i);
    for (int32_t d = 0; d < t[i].rank; d++) sb_fmt(b, "%s%lld", d ? ", " : "", (long long)t[i].dims[d]);
    sb_fmt(b, "};\nstatic const char *const %s_names_%lld[] = {", what, (long long)i);
    for (int32_t d = 0; d < t[i].rank; d++) {
      if (d) sb_put(b, ", ");
      c_string(b, t[i].dim_names ? t[i].dim_names[d] : NULL);
    }
    sb_put(b, "};\n");
  }
  if (!n) return;
  sb_fmt(b, "static const ek_rt_tensor %s_tensors[] = {\n", what);
  for (int64_t i = 0; i < n; i++) {
    sb_put(b, "  {");
    c_string(b, t[i].name);
    sb_fmt(b, ", %d, %d, ", (int)t[i].type, (int)t[i].rank);
    if (t[i].rank)
      sb_fmt(b, "%s_dims_%lld, %s_names_%lld},\n", what, (long long)i, what, (long long)i);
    else
      sb_put(b, "NULL, NULL},\n");
  }
  sb_put(b, "};\n");
}
static void descriptor(cem *e, sbuf *b, const code_model *x) {
  const ek_rt_model *d = x->model;
  uint64_t plan, run;
  if (!map_gets(e->names, "plan", &plan) || !map_gets(e->names, "run", &run))
    ctx_bug(e->c, "codegen/c: the module of %s has no functions plan and run", x->name);
  tensor_parts(b, "in", d->in, d->inputs);
  tensor_parts(b, "out", d->out, d->outputs);
  tensor_parts(b, "state", d->state, d->states);
  if (d->states) sb_put(b, "static const ek_rt_state between[] = {\n");
  for (int64_t i = 0; i < d->states; i++)
    sb_fmt(b, "  {%lld, %lld},\n", (long long)d->between[i].first, (long long)d->between[i].places);
  if (d->states) sb_put(b, "};\n");
  if (d->orders) sb_put(b, "static const int64_t orders[] = {");
  for (int64_t i = 0, at = 0; i < d->states && d->orders; i++)
    for (int32_t k = 0; k < d->state[i].rank; k++) sb_fmt(b, "%s%lld", at ? ", " : "", (long long)d->orders[at]), at++;
  if (d->orders) sb_put(b, "};\n");
  sb_fmt(b, "int64_t %s_run(ek_rt_call *call);\nint64_t %s_run(ek_rt_call *call) {\n", x->name, x->name);
  if (x->weights.n) sb_put(b, "  if (!call->weights) call->weights = (const uint8_t *)weights;\n");
  if (strcmp(d->memory, "0") != 0)
    sb_fmt(b, "  if (!call->arena) return call->message = \"%s\", %d;\n", EK_RT_NO_ARENA, E_USAGE);
  sb_fmt(b, "  return %s(call);\n}\n", e->idents[run]);
  sb_fmt(
      b,
      "const ek_rt_model *%s_info(void);\nconst ek_rt_model *%s_info(void) {\n  static const ek_rt_model model = {%d, ",
      x->name, x->name, (int)model_version(d));
  c_string(b, x->name);
  sb_fmt(b, ", %lld, %lld, %s, %s, %s, %s_run, %s, %lld, ", (long long)d->inputs, (long long)d->outputs,
         d->inputs ? "in_tensors" : "NULL", d->outputs ? "out_tensors" : "NULL", e->idents[plan], x->name,
         x->weights.n ? "(const uint8_t *)weights" : "NULL", (long long)x->weights.n);
  c_string(b, d->memory);
  sb_fmt(b, ", NULL, NULL, NULL, %lld, %s, %s, %s};\n  return &model;\n}\n", (long long)d->states,
         d->states ? "state_tensors" : "NULL", d->states ? "between" : "NULL", d->orders ? "orders" : "NULL");
}
size_t c_source(ctx *c, const lmodule *m, const target *t, const code_model *x, sbuf *b) {
  arena *a = arena_new(c);
  uint64_t used = 0;
  sbuf body = sbuf_new(a);
  cem e = {.c = c,
           .t = t,
           .a = a,
           .m = m,
           .b = &body,
           .helpers = &used,
           .names = map_new(a),
           .idents = NEWN(a, const char *, m->funcs.n + 1)};
  map *first = map_new(a), *taken = map_new(a); /* equal kernels become one function */
  uint32_t *same = NEWN(a, uint32_t, m->funcs.n);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    uint64_t h = loop_hash(f), k;
    same[i] = i;
    if (x && f->kind == LF_KERNEL && map_getu(first, EK_PLANTED("emit-c-same") ? h = f->params.n : h, &k))
      same[i] = (uint32_t)k;
    else
      map_putu(first, h, i);
    e.idents[i] = same[i] == i ? (x ? ident(&e, taken, f->name, i) : f->name) : e.idents[same[i]];
    map_puts(e.names, f->name, i);
  }
  for (uint32_t i = 0; i < m->funcs.n; i++) /* callees may come later */
    if (same[i] == i)
      sb_fmt(&body,
             m->funcs.v[i]->kind == LF_KERNEL
                 ? "%svoid %s(const int64_t *args, int64_t lo, int64_t hi, int64_t worker);\n"
                 : "%sint64_t %s(ek_rt_call *call);\n",
             x ? "static " : "", e.idents[i]);
  sb_putc(&body, '\n');
  for (uint32_t i = 0; i < m->funcs.n; i++)
    if (same[i] == i) c_function(&e, m->funcs.v[i], e.idents[i], x != NULL);
  sb_fmt(b, "/* %s: made by Einkorn. C17, needs no library. */\n", x ? x->name : "functions");
  sb_put(b, types);
  sb_put(b, records);
  c_helpers(b, used);
  size_t at = b->n;
  if (x && x->weights.p && x->weights.n) c_weights(&(c_words){.n = x->weights.n}, x->weights, b);
  sb_putn(b, body.s, body.n);
  if (x) descriptor(&e, b, x);
  arena_free(a);
  return at;
}
