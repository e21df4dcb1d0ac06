/* out_of_memory: what happens when memory ends? Every allocation of Einkorn's own fails once, on import, compile and
 * run.
 *
 *   out_of_memory [-p PIECES] [-n MOST] MODEL...
 *
 * 1. The session's allocator fails its Nth call, for N = 1, 2, .. until a whole round (load, compile, make a run,
 *   execute) gets through: each time a call must return EK_MEMORY (or there is no session), with a message;
 *    nothing crashes; after the end of the session nothing is left allocated. Odd rounds fail once, and then the
 *    failed call is tried again, which must work; even rounds fail from N on.
 * 2. The same inside: contexts whose arenas ask for every piece alone. There are hundreds of thousands of pieces,
 *   so PIECES of them (default 250, spread over all), from the file to machine code.
 * What LLVM allocates is not Einkorn's: it ends the process by itself when there is no memory. One line per
 * failure, then `N passed, N failed, N skipped`. */
#include "driver/pipeline.h"
#include "einkorn/einkorn.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_ullong calls, live, fail_at;
static atomic_bool fail_on;
static uint64_t passed, failed;

static bool refuse(void) {
  unsigned long long n = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&fail_at);
  return at && (atomic_load(&fail_on) ? n >= at : n == at);
}
static void *take(void *user, size_t bytes, size_t align) {
  (void)user;
  if (refuse()) return NULL;
  void *p = aligned_alloc(align < 16 ? 16 : align, (bytes + 63) / 64 * 64);
  if (p) atomic_fetch_add(&live, bytes);
  return p;
}
static void give(void *user, void *p, size_t bytes) {
  (void)user;
  if (p) atomic_fetch_sub(&live, bytes);
  free(p);
}
static void *take_piece(void *user, size_t bytes) { return take(user, bytes, 16); }
static void arm(uint64_t n, bool on) {
  atomic_store(&calls, 0);
  atomic_store(&fail_on, on);
  atomic_store(&fail_at, n);
}
static void bad(const char *model, const char *what, uint64_t n, bool on, const char *text) {
  printf("FAIL %s: allocation %llu%s fails: %s%s%s\n", model, (unsigned long long)n, on ? " and all after it" : "",
         what, text && *text ? ": " : "", text ? text : "");
  failed++;
}

/* ---- 1. the API ------------------------------------------------------------------------------ */
typedef enum { LOAD, COMPILE, CREATE, EXECUTE, END } act;
typedef struct round {
  ek_session *s;
  ek_model *m;
  ek_module *code;
  ek_run *r;
  void *in[16];
  const char *model;
} round;
static ek_code do_step(round *k, act s) {
  ek_code e = EK_OK;
  switch (s) {
  case LOAD:
    return ek_load(k->s, k->model, &k->m);
  case COMPILE: {
    ek_options o;
    ek_options_init(&o);
    o.compile_threads = 2, o.threads = 2;
    return ek_compile(k->m, &o, &k->code);
  }
  case CREATE:
    return ek_run_create(k->code, 2, &k->r);
  default:
    for (int32_t i = 0; !e && i < ek_module_inputs(k->code) && i < 16; i++) {
      ek_tensor_info t;
      ek_module_input(k->code, i, &t);
      size_t bytes = ek_type_bytes(t.type);
      for (int32_t d = 0; d < t.rank; d++) bytes *= (size_t)(t.dims[d] = t.dims[d] < 0 ? 2 : t.dims[d]);
      e = ek_run_shape(k->r, i, t.dims, t.rank);
      if (!k->in[i]) k->in[i] = calloc(1, bytes + 64);
      if (!e) e = ek_run_bind_input(k->r, i, k->in[i]);
    }
    return e ? e : ek_run_execute(k->r);
  }
}
/* True when nothing failed any more. */
static bool one_round(const char *model, uint64_t n, bool on) {
  ek_session_options so;
  ek_session_options_init(&so);
  so.alloc = take, so.free = give;
  arm(n, on);
  round k = {.model = model, .s = ek_session_create_with(&so)};
  bool through = false, good = true;
  if (k.s)
    for (act s = LOAD; s < END; s++) {
      ek_code e = do_step(&k, s);
      if (e) {
        const char *text = s == EXECUTE ? ek_run_message(k.r) : ek_message(k.s);
        if (e != EK_MEMORY)
          good = false, bad(model, "another error than EK_MEMORY", n, on, text);
        else if (!*text && !on)
          good = false, bad(model, "no message", n, on, NULL);
        if (on) break;
        if ((e = do_step(&k, s)) != EK_OK) { /* memory is there again */
          if (good) bad(model, "the call does not work the second time", n, on, ek_message(k.s));
          good = false;
          break;
        }
      }
      through = s == EXECUTE;
    }
  bool hit = atomic_load(&calls) >= n;
  ek_session_destroy(k.s);
  for (int i = 0; i < 16; i++) free(k.in[i]);
  if (atomic_load(&live)) {
    if (good) bad(model, "memory is left", n, on, NULL);
    good = false;
    atomic_store(&live, 0);
  }
  passed += good;
  return through && !hit;
}

/* ---- 2. inside ------------------------------------------------------------------------------- */
static bool compile_in(ctx *c, const char *model) {
  volatile bool ok = false;
  CTX_TRY(c) {
    pipe_opts o = {.level = 3, .compile_threads = 1};
    pipeline *p = pipe_new(c, &o);
    source s = {.path = model, .name = model};
    jit *j = NULL;
    if (pipe_load(p, &s) && pipe_lower(p, NULL) && pipe_optimise(p) && pipe_program(p)) j = pipe_jit(p);
    jit_free(j);
    ok = true;
  }
  CTX_CATCH { ok = false; }
  return ok;
}
static uint64_t pieces_round(const char *model, uint64_t n, bool on) {
  arm(n, on);
  ctx *c = ctx_new_with(&(ctx_memory){.alloc = take_piece, .free = give, .separate = true});
  if (c) {
    bool ok = compile_in(c, model);
    uint64_t all = atomic_load(&calls);
    if (!ok && diag_code(c) != E_MEMORY) {
      const diag *d = diag_first(c);
      while (d && d->level != D_ERROR) d = d->next;
      bad(model, "another error than out of memory", n, on, d ? d->text : "none");
    } else if (n) {
      passed++;
    }
    if (ok && n && all >= n && on) bad(model, "the failure was not noticed", n, on, NULL);
  } else if (n) {
    passed++;
  }
  uint64_t all = atomic_load(&calls);
  ctx_free(c);
  if (atomic_load(&live)) {
    bad(model, "memory is left", n, on, NULL);
    atomic_store(&live, 0);
  }
  return all;
}
int main(int argc, char **argv) {
  uint64_t pieces = 250, most = UINT64_MAX;
  int opt;
  while ((opt = getopt(argc, argv, "p:n:")) != -1)
    if (opt == 'p')
      pieces = strtoull(optarg, NULL, 10);
    else if (opt == 'n')
      most = strtoull(optarg, NULL, 10);
    else
      return fputs("usage: out_of_memory [-p PIECES] [-n MOST] MODEL...\n", stderr), 2;
  for (int i = optind; i < argc; i++) {
    const char *base = strrchr(argv[i], '/');
    uint64_t n = 1;
    base = base ? base + 1 : argv[i];
    while (n <= most && failed < 20 && !one_round(argv[i], n, n % 2 == 0)) n++;
    uint64_t all = pieces ? pieces_round(argv[i], 0, false) : 0;
    for (uint64_t k = 0; k < pieces && failed < 20; k++) pieces_round(argv[i], 1 + k * all / pieces, k % 2 == 0);
    printf("%s: %llu allocations of the session, %llu pieces of arenas\n", base, (unsigned long long)n - 1,
           (unsigned long long)all);
    fflush(stdout);
  }
  printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)passed, (unsigned long long)failed);
  return failed != 0;
}
