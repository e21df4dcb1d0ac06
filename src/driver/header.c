/* The header that is written beside saved code: what the model is, as a comment and as constants (ranks,
 * dimensions, bytes, the arena's size where it is a number), the call record, and typed functions on top of it. */
#include "driver/driver.h"
#include <ctype.h>
#include <string.h>

typedef struct writing {
  arena *a;             /* memory */
  sbuf b;               /* the text */
  const char *name;     /* NAME of the model */
  const ek_rt_model *d; /* description of the model */
  strvec open;          /* names of the open dimensions, each once: the parameters d0, d1, .. */
} writing;

static const char *element(etype t) { /* The name of an element type in C. */
  switch (t) {
  case ET_F32:
    return "float";
  case ET_F64:
    return "double";
  default:
    /* C has no such type: the number's bits */
    if (et_kind(t) == K_FLOAT) return et_bytes(t) == 2 ? "uint16_t" : "uint8_t";
    if (et_kind(t) == K_BOOL) return "uint8_t";
    return t == ET_I64                                         ? "int64_t"
           : t == ET_I32                                       ? "int32_t"
           : t == ET_I16                                       ? "int16_t"
           : t == ET_U64                                       ? "uint64_t"
           : t == ET_U32                                       ? "uint32_t"
           : t == ET_U16                                       ? "uint16_t"
           : et_kind(t) == K_INT && (t == ET_I8 || t == ET_I4) ? "int8_t"
                                                               : "uint8_t";
  }
}
static const char *in_comment(arena *a, const char *s) { /* A name as text that cannot end a comment. */
  char *r = arena_strdup(a, s);
  for (char *p = r; (p = strstr(p, "*/")) != NULL;) *p = '+';
  for (char *p = r; *p; p++)
    if (*p == '\n' || *p == '\r' || *p == '\\') *p = ' ';
  return r;
}
static bool fixed(const ek_rt_tensor *t, int64_t *bytes) {
  *bytes = (int64_t)ek_type_bytes((ek_type)t->type);
  for (int32_t k = 0; k < t->rank; k++)
    if (t->dims[k] < 0 || !mul64(*bytes, t->dims[k], bytes)) return false;
  return true;
}
static const char *shape_text(writing *w, const ek_rt_tensor *t) {
  sbuf b = sbuf_new(w->a);
  sb_fmt(&b, "%s[", ek_type_name((ek_type)t->type));
  for (int32_t k = 0; k < t->rank; k++) {
    sb_put(&b, k ? ", " : "");
    if (t->dims[k] >= 0)
      sb_fmt(&b, "%lld", (long long)t->dims[k]);
    else
      sb_put(&b, t->dim_names[k] ? t->dim_names[k] : "?");
  }
  sb_putc(&b, ']');
  return in_comment(w->a, b.s);
}

/* ---- constants ------------------------------------------------------------------------------- */
static void tensor_constants(writing *w, const char *what, int64_t i, const ek_rt_tensor *t) {
  int64_t bytes;
  const char *pre = arena_fmt(w->a, "%s_%s%lld", w->name, what, (long long)i);
  sb_fmt(&w->b, "#define %s_RANK %d\n", pre, (int)t->rank);
  for (int32_t k = 0; k < t->rank; k++)
    if (t->dims[k] >= 0) sb_fmt(&w->b, "#define %s_DIM%d %lld\n", pre, (int)k, (long long)t->dims[k]);
  if (fixed(t, &bytes)) sb_fmt(&w->b, "#define %s_BYTES %lld\n", pre, (long long)bytes);
}
/* The formula of the working memory, if it is C: no symbols but threads, sums and products only. */
static bool is_number(const char *formula) {
  for (const char *p = formula; *p;) {
    size_t n = strspn(p, "0123456789+*() ");
    p += n;
    if (!strncmp(p, "threads", 7))
      p += 7;
    else if (*p)
      return false;
  }
  return *formula != 0;
}
/* The memory of all states, where their sizes are fixed. */
static void state_room(writing *w) {
  int64_t all = 0, bytes;
  for (int64_t i = 0; i < w->d->states; i++) {
    if (!fixed(&w->d->state[i], &bytes)) return;
    all += (bytes + 63) / 64 * 64 * w->d->between[i].places;
  }
  sb_fmt(&w->b, "#define %s_STATES_BYTES %lld\n", w->name, (long long)all);
}
static void constants(writing *w) {
  const ek_rt_model *d = w->d;
  sb_fmt(&w->b, "\n#define %s_INPUTS %lld\n#define %s_OUTPUTS %lld\n", w->name, (long long)d->inputs, w->name,
         (long long)d->outputs);
  for (int64_t i = 0; i < d->inputs; i++) tensor_constants(w, "IN", i, &d->in[i]);
  for (int64_t i = 0; i < d->outputs; i++) tensor_constants(w, "OUT", i, &d->out[i]);
  if (model_states(d)) sb_fmt(&w->b, "#define %s_STATES %lld\n", w->name, (long long)d->states);
  for (int64_t i = 0; i < model_states(d); i++) tensor_constants(w, "STATE", i, &d->state[i]);
  if (model_states(d)) state_room(w);
  sb_fmt(&w->b, "#define %s_ARENA_ALIGN 64\n", w->name);
  if (!is_number(d->memory)) return;
  sb_fmt(&w->b, "#define %s_ARENA_BYTES(threads) (", w->name);
  for (const char *p = d->memory; *p;) {
    bool is = !strncmp(p, "threads", 7);
    sb_putn(&w->b, is ? "(threads)" : p, is ? 9 : 1);
    p += is ? 7 : 1;
  }
  sb_put(&w->b, ")\n");
}

/* ---- typed functions: in one thread, without a record ---------------------------------------- */
static uint32_t open_number(writing *w, const char *name) {
  uint32_t i = 0;
  while (i < w->open.n && strcmp(w->open.v[i], name) != 0) i++;
  if (i == w->open.n) vec_push(w->a, w->open, name);
  return i;
}
/* The open dimensions of the inputs as parameters d0, d1, .. */
static const char *sizes(writing *w, bool declared) {
  sbuf b = sbuf_new(w->a);
  sb_put(&b, "");
  for (uint32_t i = 0; i < w->open.n; i++)
    if (declared)
      sb_fmt(&b, "int64_t d%u /* %s */, ", i, in_comment(w->a, w->open.v[i]));
    else
      sb_fmt(&b, "d%u, ", i);
  return b.s;
}
static void in_dims(writing *w) {
  sb_put(&w->b, "  const int64_t in_dims[] = {");
  for (int64_t i = 0; i < w->d->inputs; i++)
    for (int32_t k = 0; k < w->d->in[i].rank; k++) {
      const ek_rt_tensor *t = &w->d->in[i];
      if (t->dims[k] >= 0)
        sb_fmt(&w->b, "%lld, ", (long long)t->dims[k]);
      else
        sb_fmt(&w->b, "d%u, ", open_number(w, t->dim_names[k] ? t->dim_names[k] : "?"));
    }
  sb_put(&w->b, "0};\n");
}
/* A state's elements out of the model's order and into it; most: axes of a state, at most. */
static void state_copies(writing *w, int most) {
  const char *name = w->name;
  sb_fmt(
      &w->b,
      "static inline void %s_copy_state(const %s_states *s, int64_t i, unsigned char *to, const unsigned char *from, "
      "int back) {\n  const ek_rt_model *m = %s_info();\n  const int64_t *dims = s->dims[i], *order = m->version >= 4 "
      "? m->orders : NULL;\n  const int32_t rank = m->state[i].rank;\n  int64_t at[%d] = {0}, step[%d] = {0}, n = 1;\n"
      "  for (int64_t j = 0; j < i && order; j++) order += m->state[j].rank;\n"
      "  for (int32_t k = rank; k-- > 0; n *= dims[k]) step[k] = n;\n  if (n <= 0) return;\n"
      "  const size_t size = s->bytes[i] / (size_t)n;\n  for (int64_t kept = 0; kept < n; kept++) {\n"
      "    int64_t row = 0;\n    for (int32_t k = 0; k < rank; k++) row += at[k] * step[k];\n"
      "    for (size_t k = 0; k < size; k++)\n"
      "      to[(size_t)(back ? kept : row) * size + k] = from[(size_t)(back ? row : kept) * size + k];\n"
      "    for (int32_t k = rank; k-- > 0;) {\n      const int64_t axis = order ? order[k] : k;\n"
      "      if (++at[axis] < dims[axis]) break;\n      at[axis] = 0;\n    }\n  }\n}\n",
      name, name, name, most, most);
  sb_fmt(&w->b,
         "/* The elements of state i, row-major: bytes[i] bytes */\n"
         "static inline void %s_snapshot(const %s_states *s, int64_t i, void *to) {\n"
         "  %s_copy_state(s, i, (unsigned char *)to, (const unsigned char *)s->now[i], 0);\n}\n"
         "/* State i gets these elements, row-major: bytes[i] bytes */\n"
         "static inline void %s_restore(%s_states *s, int64_t i, const void *from) {\n"
         "  %s_copy_state(s, i, (unsigned char *)s->now[i], (const unsigned char *)from, 1);\n}\n",
         name, name, name, name, name, name);
}
/* The states of one instance, on memory of the caller. */
static void state_functions(writing *w, int64_t plain_dims, int64_t dims) {
  const ek_rt_model *d = w->d;
  const char *name = w->name;
  sbuf *b = &w->b;
  int most = 1; /* axes */
  for (int64_t i = 0; i < d->states; i++) most = d->state[i].rank > most ? d->state[i].rank : most;
  sb_fmt(b,
         "\n/* The states of one instance of the model: what a run leaves for the next one. %s_snapshot and %s_restore "
         "copy "
         "\n * their elements. */\n"
         "typedef struct %s_states {\n  void *now[%lld];    /* their values, as the model keeps them */\n  void "
         "*next[%lld]; "
         "  /* where a run puts the next ones; now[i] itself where it changes them in place */\n"
         "  size_t bytes[%lld]; /* of each value */\n  int64_t dims[%lld][%d]; /* the sizes of each */\n} %s_states;\n",
         name, name, name, (long long)d->states, (long long)d->states, (long long)d->states, (long long)d->states, most,
         name);
  sb_fmt(b,
         "static inline int64_t %s_lay_out(%s_states *s, unsigned char *memory, const int64_t *dims) {\n"
         "  static const int64_t unit[] = {",
         name, name);
  for (int64_t i = 0; i < d->states; i++) sb_fmt(b, "%s%zu", i ? ", " : "", ek_type_bytes((ek_type)d->state[i].type));
  sb_fmt(b,
         "};\n  const ek_rt_model *m = %s_info();\n  int64_t all = 0;\n  for (int64_t i = 0; i < m->states; i++) {\n"
         "    int64_t bytes = unit[i], room;\n    for (int32_t k = 0; k < m->state[i].rank; k++) {\n"
         "      if (s) s->dims[i][k] = *dims;\n      bytes *= *dims++;\n    }\n"
         "    room = (bytes + 63) / 64 * 64;\n    if (s) {\n      s->bytes[i] = (size_t)bytes;\n      s->now[i] = "
         "memory + "
         "all;\n      s->next[i] = memory + all + (m->between[i].places == 2 ? room : 0);\n    }\n    all += room * "
         "m->between[i].places;\n  }\n  return all;\n}\n"
         "/* All states get their first values. */\n"
         "static inline void %s_reset(%s_states *s) {\n  const ek_rt_model *m = %s_info();\n"
         "  for (int64_t i = 0; i < m->states; i++) {\n    unsigned char *to = (unsigned char *)s->now[i];\n"
         "    const uint8_t *from = m->between[i].first < 0 ? NULL : m->weights + m->between[i].first;\n"
         "    for (size_t k = 0; k < s->bytes[i]; k++) to[k] = from ? from[k] : 0;\n  }\n}\n",
         name, name, name, name);
  state_copies(w, most);
  sb_fmt(
      b,
      "/* Begins an instance: its states in `memory`, at a multiple of 64, with their first values. Gives the bytes of "
      "memory\n * that it takes, and does no more where s is NULL; below 0: an error code, negated: -2 the memory is "
      "too "
      "small; .. */\n"
      "static inline int64_t %s_begin(%s%s_states *s, void *memory, size_t bytes) {\n",
      name, sizes(w, true), name);
  in_dims(w);
  sb_fmt(b,
         "  int64_t dims[%lld], code, all;\n  ek_rt_call call = EK_RT_EMPTY;\n  call.in_dims = in_dims;\n"
         "  call.out_dims = dims;\n  call.threads = 1;\n  code = %s_info()->plan(&call);\n  if (code) return -code;\n"
         "  all = %s_lay_out(NULL, NULL, dims + %lld);\n  if (!s) return all;\n"
         "  if (!memory || bytes < (size_t)all) return -2;\n  %s_lay_out(s, (unsigned char *)memory, dims + %lld);\n"
         "  %s_reset(s);\n  return all;\n}\n",
         (long long)dims, name, name, (long long)plain_dims, name, (long long)plain_dims, name);
}
static void functions(writing *w) {
  const ek_rt_model *d = w->d;
  sbuf *b = &w->b, data = sbuf_new(w->a), in = sbuf_new(w->a), out = sbuf_new(w->a);
  const int64_t states = model_states(d);
  int64_t dims = 1;
  for (int64_t i = 0; i < d->inputs; i++)
    for (int32_t k = 0; k < d->in[i].rank; k++)
      if (d->in[i].dims[k] < 0) open_number(w, d->in[i].dim_names[k] ? d->in[i].dim_names[k] : "?");
  for (int64_t i = 0; i < d->inputs; i++) {
    sb_fmt(&data, "const %s *in%lld /* %s */, ", element(et_from_onnx(d->in[i].type)), (long long)i,
           in_comment(w->a, d->in[i].name));
    sb_fmt(&in, "in%lld, ", (long long)i);
  }
  for (int64_t i = 0; i < d->outputs; i++) {
    dims += d->out[i].rank;
    sb_fmt(&data, "%s *out%lld /* %s */, ", element(et_from_onnx(d->out[i].type)), (long long)i,
           in_comment(w->a, d->out[i].name));
    sb_fmt(&out, "out%lld, ", (long long)i);
  }
  const int64_t plain_dims = dims - 1;
  for (int64_t i = 0; i < states; i++) {
    dims += d->state[i].rank;
    sb_fmt(&in, "states->now[%lld], ", (long long)i);
    sb_fmt(&out, "states->next[%lld], ", (long long)i);
  }
  if (states) sb_fmt(&data, "%s_states *states, ", w->name);
  sb_fmt(b,
         "\n/* Bytes of the arena that %s_call needs with these sizes; below 0: an error code, negated. */\n"
         "static inline int64_t %s_arena(%sint64_t *out_dims /* %lld of them, or NULL */) {\n",
         w->name, w->name, sizes(w, true), (long long)(dims - 1));
  in_dims(w);
  sb_fmt(b,
         "  int64_t dims[%lld];\n  ek_rt_call call = EK_RT_EMPTY;\n  int64_t code;\n  call.in_dims = in_dims;\n"
         "  call.out_dims = out_dims ? out_dims : dims;\n  call.threads = 1;\n  code = %s_info()->plan(&call);\n"
         "  return code ? -code : call.arena_bytes;\n}\n",
         (long long)dims, w->name);
  if (states) state_functions(w, plain_dims, dims);
  sb_fmt(
      b,
      "/* One run in this thread. out: room for what the sizes make. arena: memory at a multiple of %s_ARENA_ALIGN.\n"
      " * 0, or an error code: 2 there is no arena, or it is too small; 5 sizes do not fit; .. */\n"
      "static inline int64_t %s_call(%s%svoid *arena, size_t arena_bytes) {\n",
      w->name, w->name, sizes(w, true), data.n ? data.s : "");
  in_dims(w);
  sb_fmt(b,
         "  int64_t dims[%lld];\n  const void *in[] = {%sNULL};\n  void *out[] = {%sNULL};\n  ek_rt_call call = "
         "EK_RT_EMPTY;\n"
         "  int64_t code;\n  call.in = in;\n  call.out = out;\n  call.in_dims = in_dims;\n  call.out_dims = dims;\n"
         "  call.threads = 1;\n  code = %s_info()->plan(&call);\n  if (code) return code;\n"
         "  if ((!arena && call.arena_bytes) || arena_bytes < (size_t)call.arena_bytes) return 2;\n"
         "  call.arena = (uint8_t *)arena;\n  ",
         (long long)dims, in.n ? in.s : "", out.n ? out.s : "", w->name);
  if (states)
    sb_fmt(
        b,
        "code = %s_run(&call);\n  for (int64_t i = 0; i < %s_STATES && !code; i++) {\n    void *old = states->now[i];\n"
        "    states->now[i] = states->next[i];\n    states->next[i] = old;\n  }\n  return code;\n}\n",
        w->name, w->name);
  else
    sb_fmt(b, "return %s_run(&call);\n}\n", w->name);
}

const char *model_header(ctx *c, const char *name, const ek_rt_model *d) {
  writing w = {.a = ctx_arena(c), .b = sbuf_new(ctx_arena(c)), .name = name, .d = d};
  sbuf *b = &w.b;
  sb_fmt(b, "/* Model %s, compiled by Einkorn %s. Elements are dense and row-major.\n", in_comment(w.a, d->name),
         EK_VERSION);
  for (int64_t i = 0; i < d->inputs; i++)
    sb_fmt(b, " *   in[%lld]  %s: %s\n", (long long)i, in_comment(w.a, d->in[i].name), shape_text(&w, &d->in[i]));
  for (int64_t i = 0; i < d->outputs; i++)
    sb_fmt(b, " *   out[%lld]  %s: %s\n", (long long)i, in_comment(w.a, d->out[i].name), shape_text(&w, &d->out[i]));
  for (int64_t i = 0, axis = 0; i < model_states(d); i++) {
    sb_fmt(b, " *   state[%lld] %s: %s, %s", (long long)i, in_comment(w.a, d->state[i].name),
           shape_text(&w, &d->state[i]),
           d->between[i].places == 1 ? "changed in place" : "two places, exchanged after each run");
    if (model_orders(d)) sb_put(b, ", axes in the order");
    for (int32_t k = 0; k < d->state[i].rank && model_orders(d); k++) sb_fmt(b, " %lld", (long long)d->orders[axis++]);
    sb_putc(b, '\n');
  }
  if (model_states(d))
    sb_fmt(
        b,
        " * States stay from run to run: behind the inputs, in[inputs + i] is the value before a run, out[outputs + i] "
        "the place for the one after it; out_dims\n * has their sizes behind those of the outputs. %s_begin and "
        "%s_call "
        "see to that. A run that fails may have changed those that are changed in place.\n",
        name, name);
  if (d->cpu) sb_fmt(b, " * Processor: one with %s\n", d->cpu);
  sb_fmt(
      b,
      " * Working memory in bytes: %s\n * The short way: %s_call, in one thread. In several, or to cancel: fill in in, "
      "in_dims, out_dims and threads of a call record; %s_info()->plan gives the sizes of\n * the outputs and of the "
      "arena; fill in out and arena; %s_run, as often as wanted.\n */\n",
      d->memory, name, name, name);
  sb_fmt(b, "#ifndef EINKORN_MODEL_%s\n#define EINKORN_MODEL_%s\n", name, name);
  sb_putn(b, (const char *)driver_runtime_header, (size_t)(driver_runtime_header_end - driver_runtime_header));
  sb_fmt(b,
         "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nint64_t %s_run(ek_rt_call *call); /* 0, or an error code with "
         "call->message set */\nconst ek_rt_model *%s_info(void);\n",
         name, name);
  constants(&w);
  functions(&w);
  sb_put(b, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
  return b->s;
}
