/* What the fuzz targets share: cases and verdicts, the way behind the readers, damage to texts. See fuzz.h. */
#include "fuzz.h"
#include "einkorn/einkorn.h"
#include "expr/expr.h"
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- cases ----------------------------------------------------------------------------------- */
static bool in_frame(ctx *c, bool (*fn)(ctx *c, void *env), void *env, bool *unwound) {
  volatile bool ok = false, caught = false;
  CTX_TRY(c) { ok = fn(c, env); }
  CTX_CATCH { caught = true; }
  *unwound = caught;
  return ok;
}
static void finding(const char *what, const char *text) {
  fprintf(stderr, "FINDING: %s%s%s\n", what, text ? ": " : "", text ? text : "");
  abort();
}
static const char *last_error(ctx *c) {
  const char *text = NULL;
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) text = d->text;
  return text;
}
bool fuzz_case(bool (*fn)(ctx *c, void *env), void *env, const char *excused) {
  ctx *c = ctx_new_with(&(ctx_memory){.limit = CASE_BYTES});
  bool unwound, ok = in_frame(c, fn, env, &unwound), said = false;
  for (const diag *d = diag_first(c); d; d = d->next) {
    if (d->level != D_ERROR) continue;
    said = true;
    if (getenv("EK_FUZZ_SAY")) fprintf(stderr, "%u:%u: %s\n", d->pos.line, d->pos.col, d->text ? d->text : "");
    if (!d->text || !*d->text) finding("an error without a text", NULL);
    if (d->code == E_OK) finding("an error without a code", d->text);
    if (d->code == E_INTERNAL && !(excused && strstr(d->text, excused))) finding("internal error", d->text);
  }
  if ((unwound || !ok) && !said) finding("refused without a word", NULL);
  ctx_free(c);
  return ok && !unwound;
}
const char *fuzz_file(const uint8_t *p, size_t n) {
  static int fd = -1;
  static char path[64];
  if (fd >= 0) close(fd);
  fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || (n && write(fd, p, n) != (ssize_t)n)) {
    perror("memfd");
    exit(1);
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

/* ---- the library in pieces: every definition begins at the start of a line, and so does what is said about it ---- */
typedef struct piece {
  char *text;
  const char *name, *file;
  bool is_fn, wanted;
  uint32_t same; /* 1 + another piece that defines an operator of this name, in another domain; 0: none */
  u32vec uses;
} piece;
static struct {
  ctx *c;
  VEC(piece) v;
  map *by_name; /* operators only */
} lib;

static bool word_char(int ch) { return isalnum(ch) || ch == '_'; }
static bool begins(const char *s) { return !strncmp(s, "op ", 3) || !strncmp(s, "fn ", 3); }
static void cut(const char *file, const char *text) {
  arena *a = ctx_arena(lib.c);
  const char *s = text;
  while (*s) {
    const char *e = s;
    bool head = begins(s);
    do {
      e = strchr(e, '\n');
      e = e ? e + 1 : s + strlen(s);
    } while (*e && !begins(e) && (!head || strncmp(e, "\"\"\"", 3) != 0));
    if (head) {
      const char *n = s + 3;
      size_t k = 0;
      if (*n == '"' && strstr(n, "::")) n = strstr(n, "::") + 2; /* skips the domain */
      while (word_char((unsigned char)n[k])) k++;
      piece p = {.text = arena_strndup(a, s, (size_t)(e - s)),
                 .name = arena_strndup(a, n, k),
                 .file = file,
                 .is_fn = s[0] == 'f'};
      uint64_t q;
      if (!p.is_fn && map_gets(lib.by_name, p.name, &q)) p.same = (uint32_t)q;
      vec_push(a, lib.v, p);
      if (!p.is_fn) map_puts(lib.by_name, p.name, lib.v.n);
    }
    s = e;
  }
}
static void find_uses(piece *p) {
  for (const char *s = p->text; *s;) {
    size_t k = 0;
    while (word_char((unsigned char)s[k])) k++;
    uint64_t q;
    if (k && map_get(lib.by_name, s, k, &q)) vec_push(ctx_arena(lib.c), p->uses, (uint32_t)q - 1);
    s += k ? k : 1;
  }
}
static void make_library(void) {
  if (lib.c) return;
  lib.c = ctx_new();
  lib.by_name = map_new(ctx_arena(lib.c));
  bytes text;
  const char *file;
  for (uint32_t i = 0; notation_builtin(i, &text, &file); i++)
    cut(file, arena_strndup(ctx_arena(lib.c), (const char *)text.p, text.n));
  for (uint32_t i = 0; i < lib.v.n; i++) find_uses(&lib.v.v[i]);
}
static void want(uint32_t i) {
  if (lib.v.v[i].wanted) return;
  lib.v.v[i].wanted = true;
  for (uint32_t k = 0; k < lib.v.v[i].uses.n; k++) want(lib.v.v[i].uses.v[k]);
  if (lib.v.v[i].same) want(lib.v.v[i].same - 1);
}
static void want_graph(const graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    uint64_t q;
    if (map_gets(lib.by_name, g->nodes.v[i]->op, &q)) want((uint32_t)q - 1);
    for (uint32_t k = 0; k < g->nodes.v[i]->attrs.n; k++)
      if (g->nodes.v[i]->attrs.v[k].g) want_graph(g->nodes.v[i]->attrs.v[k].g);
  }
}
oplib *fuzz_library(ctx *c, const graph *g) {
  make_library();
  for (uint32_t i = 0; i < lib.v.n; i++) lib.v.v[i].wanted = lib.v.v[i].is_fn;
  /* lowering and elaboration may use these whatever the graph says */
  static const char *const always[] = {"Add",        "Cast",        "Concat",    "Identity",   "ListAt",
                                       "ListConcat", "ListCount",   "ListErase", "ListInsert", "ListPut",
                                       "ListSplit",  "ListSplitBy", "ListStack", "ListZeros",  "Reshape",
                                       "Shape",      "Split",       "Squeeze",   "Unsqueeze"};
  uint64_t q;
  for (size_t i = 0; i < sizeof always / sizeof *always; i++)
    if (map_gets(lib.by_name, always[i], &q)) want((uint32_t)q - 1);
  want_graph(g);
  oplib *l = notation_lib(c);
  for (uint32_t i = 0; i < lib.v.n;) {
    sbuf b = sbuf_new(ctx_arena(c));
    const char *file = lib.v.v[i].file;
    for (; i < lib.v.n && lib.v.v[i].file == file; i++)
      if (lib.v.v[i].wanted) sb_put(&b, lib.v.v[i].text);
    if (b.n && !notation_add(l, b.s, b.n, file))
      finding(arena_fmt(ctx_arena(c), "the library does not load in pieces: %s", file), last_error(c));
  }
  return l;
}
uint32_t fuzz_operators(void) {
  make_library();
  return map_count(lib.by_name);
}
const char *fuzz_operator(uint32_t i) {
  make_library();
  size_t n;
  uint64_t q;
  return map_key(lib.by_name, i % map_count(lib.by_name), &n, &q);
}

/* ---- behind a reader ------------------------------------------------------------------------- */
const char *fuzz_target(const uint8_t *p, size_t n) {
  static const char *const targets[] = {"x86-64-v3", "x86-64-v4", "x86-64", "x86-64-v3"};
  return targets[hash_bytes(p, n, 0) / 64 % 4];
}
bool fuzz_plan(ctx *c, pipeline *p) {
  p->lib = fuzz_library(c, p->g);
  p->m = lower_graph(p->g, p->lib, p->o.dims, p->o.ndims);
  if (!p->m || diag_errors(c)) return false;
  if (!expr_verify(p->m, "lower") || !expr_verify_whole(p->m, "lower")) return false;
  return pipe_optimise(p) && pipe_program(p);
}
bool fuzz_schedule(ctx *c, emodule *m, const char *target, const char *schedules) {
  pipe_opts o = {.level = 3,
                 .compile_threads = 1,
                 .verify = true,
                 .target = target,
                 .schedules = schedules,
                 .schedules_name = "given"};
  pipeline *p = pipe_new(c, &o);
  p->m = m;
  p->g = graph_new(c, NULL, "text");
  return pipe_optimise(p) && pipe_program(p);
}

/* ---- running: in a child, which says by this byte how far it is ------------------------------ */
typedef enum { COMPILING, RUNNING, DONE, SAID_INTERNAL, SAID_NOTHING } progress;
static volatile uint8_t *at;
static void time_is_up(int sig) {
  (void)sig;
  _exit(*at == COMPILING ? 7 : 0);
}
static void fill(uint8_t *p, size_t bytes, ek_type t, dice *d) {
  for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)roll(d, 256);
  if (t == EK_BOOL)
    for (size_t i = 0; i < bytes; i++) p[i] &= 1;
  if (t == EK_INT64)
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
      int64_t v = (int64_t)roll(d, 9) - 2;
      memcpy(p + i, &v, 8);
    }
  if (t == EK_FLOAT)
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      float v = roll(d, 50) ? (float)((double)roll(d, 4096) / 512 - 4) : 1.0f / 0.0f;
      memcpy(p + i, &v, 4);
    }
}
static void check_code(ek_session *s, ek_code e, const char *message) {
  (void)s;
  if (e != EK_INTERNAL && message && *message) return;
  fprintf(stderr, "FINDING: compile and run: code %d: %s\n", (int)e, message ? message : "");
  *at = e == EK_INTERNAL ? SAID_INTERNAL : SAID_NOTHING;
  _exit(8);
}
static void run_module(ek_session *s, ek_module *m, dice *d) {
  ek_run *r;
  ek_code e = ek_run_create(m, 1, &r);
  if (e) check_code(s, e, ek_message(s));
  size_t total = 0;
  for (int32_t i = 0; i < ek_module_inputs(m); i++) {
    ek_tensor_info t;
    ek_module_input(m, i, &t);
    int64_t n = (int64_t)ek_type_bytes(t.type);
    for (int32_t k = 0; k < t.rank; k++) {
      if (t.dims[k] < 0) t.dims[k] = 1 + (int64_t)roll(d, 4);
      if (!mul64(n, t.dims[k], &n)) return;
    }
    total += (size_t)n;
    if (n > RUN_BYTES || total > RUN_BYTES) return;
    if ((e = ek_run_shape(r, i, t.dims, t.rank)) != EK_OK) check_code(s, e, ek_run_message(r));
    uint8_t *p = aligned_alloc(64, ((size_t)n + 64) / 64 * 64);
    fill(p, (size_t)n, t.type, d);
    ek_run_bind_input(r, i, p);
  }
  e = ek_run_prepare(r);
  if (e) {
    check_code(s, e, ek_run_message(r));
    return;
  }
  if (ek_run_memory(r) > RUN_BYTES) return;
  for (int32_t i = 0; i < ek_module_outputs(m); i++)
    if (ek_run_output_bytes(r, i) > RUN_BYTES) return;
  *at = RUNNING;
  alarm(RUN_SECONDS);
  e = ek_run_execute(r);
  if (e) check_code(s, e, ek_run_message(r));
}
static void child(const uint8_t *p, size_t n) {
  signal(SIGALRM, time_is_up);
  dice d = {n};
  for (int level = 0; level <= 3; level += 3) {
    *at = COMPILING;
    alarm(COMPILE_SECONDS);
    ek_session *s = ek_session_create();
    ek_model *m;
    ek_module *code;
    ek_options o;
    ek_options_init(&o);
    o.optimize = level, o.compile_threads = 1, o.threads = 1, o.memory_limit = RUN_BYTES;
    ek_code e = ek_load_memory(s, p, n, "fuzz", &m);
    if (e) check_code(s, e, ek_message(s));
    if (!e && (e = ek_compile(m, &o, &code)) != EK_OK) check_code(s, e, ek_message(s));
    if (!e) run_module(s, code, &d);
    if (e) break;
  }
  *at = DONE;
}
void fuzz_run(const uint8_t *p, size_t n) {
  if (!at) at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(NULL);
  *at = COMPILING;
  pid_t pid = fork();
  if (pid < 0) return;
  if (!pid) {
    for (int sig = 1; sig < 32; sig++) signal(sig, SIG_DFL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    child(p, n);
    _exit(0);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
  const char *phase = *at == COMPILING ? "compiling" : *at == RUNNING ? "running" : "the end";
  if (WIFSIGNALED(status)) finding(phase, strsignal(WTERMSIG(status)));
  finding(phase, WEXITSTATUS(status) == 7 ? "takes too long" : "failed");
}

/* ---- random numbers and texts ---------------------------------------------------------------- */
uint64_t roll(dice *d, uint64_t below) { /* splitmix64 */
  uint64_t z = (d->s += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return below ? (z ^ (z >> 31)) % below : 0;
}
int64_t odd_number(dice *d) {
  static const int64_t edges[] = {
      INT64_MAX, INT64_MIN,  INT32_MAX, INT32_MIN, (int64_t)UINT32_MAX, 1ll << 32,  1ll << 31, 1 << 24, 1 << 16, 65535,
      32768,     1000000007, 4096,      1ll << 61, -(1ll << 61),        3037000500, 256,       255,     128};
  switch (roll(d, 4)) {
  case 0:
    return edges[roll(d, sizeof edges / sizeof *edges)] + (int64_t)roll(d, 1);
  case 1:
    return (int64_t)roll(d, 4);
  case 2:
    return -(int64_t)roll(d, 9);
  default:
    return (int64_t)roll(d, 70);
  }
}
typedef struct span {
  size_t at, n;
} span;
static bool is_digit(int ch) { return isdigit(ch) != 0; }
static bool is_word(int ch) { return isalnum(ch) || ch == '_' || ch == '.'; }
static bool is_mark(int ch) { return ispunct(ch) && ch != '_'; }
static bool next_span(const uint8_t *p, size_t n, size_t from, bool (*is)(int ch), span *s) {
  while (from < n && !is(p[from])) from++;
  *s = (span){from, 0};
  while (from + s->n < n && is(p[from + s->n])) s->n++;
  return s->n > 0;
}
static size_t splice(uint8_t *p, size_t n, size_t cap, size_t where, size_t remove, const uint8_t *with, size_t k) {
  if (n - remove + k > cap || k > 4096) return n;
  uint8_t copy[4096];
  if (k) memcpy(copy, with, k);
  memmove(p + where + k, p + where + remove, n - where - remove);
  if (k) memcpy(p + where, copy, k);
  return n - remove + k;
}
size_t mutate_text(uint8_t *p, size_t n, size_t cap, unsigned seed) {
  static const char *const marks[] = {"(",
                                      ")",
                                      "[",
                                      "]",
                                      "{",
                                      "}",
                                      ",",
                                      "\"",
                                      "=",
                                      "<",
                                      "*",
                                      "%",
                                      "//",
                                      ":",
                                      ";",
                                      "`",
                                      "(((((((((((((((((((((((((((((((((((",
                                      "-",
                                      " if ",
                                      "\n",
                                      "...",
                                      "~",
                                      "#",
                                      "?",
                                      "->",
                                      "$1",
                                      "'"};
  dice d = {seed};
  for (uint64_t times = 1 + roll(&d, 3); times; times--) {
    span s, t;
    char number[32];
    switch (n ? roll(&d, 8) : 7) {
    case 0:
    case 1:
      if (!next_span(p, n, roll(&d, n), is_digit, &s)) break;
      snprintf(number, sizeof number, "%lld", (long long)odd_number(&d));
      n = splice(p, n, cap, s.at, s.n, (const uint8_t *)number, strlen(number));
      break;
    case 2:
    case 3:
      if (next_span(p, n, roll(&d, n), is_word, &s) && next_span(p, n, roll(&d, n), is_word, &t))
        n = splice(p, n, cap, s.at, s.n, p + t.at, t.n);
      break;
    case 4: {
      if (!next_span(p, n, roll(&d, n), is_mark, &s)) break;
      const char *m = marks[roll(&d, sizeof marks / sizeof *marks)];
      n = splice(p, n, cap, s.at, roll(&d, 2), (const uint8_t *)m, strlen(m));
      break;
    }
    case 5:
    case 6: { /* a line goes, or comes twice, somewhere */
      size_t from = roll(&d, n), to = from, where = roll(&d, n);
      while (from && p[from - 1] != '\n') from--;
      while (to < n && p[to] != '\n') to++;
      if (to < n) to++;
      while (where && p[where - 1] != '\n') where--;
      n = roll(&d, 2) ? splice(p, n, cap, from, to - from, NULL, 0) : splice(p, n, cap, where, 0, p + from, to - from);
      break;
    }
    default:
      n = mutate_bytes(p, n, cap, &d);
    }
  }
  return n;
}
