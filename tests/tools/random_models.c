/* random_models: random models of 5 to 60 nodes, compiled, against the evaluator.
 *
 *   random_models [-n MODELS] [-s FIRST] [-j JOBS] [-t SECONDS] [-o FOLDER] [-c] [-v]
 *
 * A model is named by its seed: FIRST, FIRST + 1, .. Each is checked in a process of its own, so that a crash is one
 * failure. One that fails shrinks by itself; what is left is written to FOLDER (default: .) as SEED.onnx and SEED.npz,
 * so that `einkorn check SEED.onnx` and `einkorn run SEED.onnx --inputs SEED.npz --expect SEED.npz` show the failure
 * without this program. One line per failure, and at the end `N passed, N failed, N skipped`; skipped are seeds that
 * no model comes of, and models that compiling refuses since memory for sizes found at run time has no bound.
 * -c prints how often every definition occurred, and which families of definitions (files of the library) read each
 * other's results; -t ends the tries after so many seconds; -v prints each seed. */
#include "random_models.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 32, TEXT = 600, LIMIT = 60 };
typedef struct board { /* shared with the children */
  coverage c;
  uint32_t next, end, passed, failed, skipped;
  char text[JOBS][TEXT];
} board;
typedef struct worker {
  board *b;
  uint32_t job;
  char folder[64];
} worker;
static bool verbose;
static const char *out_folder = ".";

/* ---- one model in a process of its own ------------------------------------------------------- */
static verdict judge(worker *w, model *m) {
  char *text = w->b->text[w->job];
  int status;
  snprintf(text, TEXT, "the process ended");
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    alarm(LIMIT);
    _exit((int)model_check(m, w->folder, text, TEXT));
  }
  if (waitpid(pid, &status, 0) != pid) return ALIKE;
  if (WIFSIGNALED(status))
    snprintf(text, TEXT, "%s", WTERMSIG(status) == SIGALRM ? "takes too long" : strsignal(WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) <= REFUSED ? (verdict)WEXITSTATUS(status) : DIFFERS;
}
static bool fails(void *env, model *m) { return judge(env, m) == DIFFERS; }
static void report(worker *w, model *m, unsigned long long seed) {
  char first[TEXT], way[TEXT];
  uint32_t nodes = 0;
  snprintf(first, TEXT, "%s", w->b->text[w->job]);
  model_shrink(m, fails, w);
  bool again = fails(w, m);
  snprintf(way, TEXT, "%s", again ? w->b->text[w->job] : "not the second time");
  for (uint32_t i = 0; i < m->nodes.n; i++) nodes += !m->nodes.v[i].gone;
  model_write(m, arena_fmt(ctx_arena(m->c), "%s/%llu.onnx", out_folder, seed));
  model_arrays(m, arena_fmt(ctx_arena(m->c), "%s/%llu.npz", out_folder, seed));
  printf("FAIL seed %llu: %s; %u nodes are left (%s/%llu.onnx, .npz): %s\n", seed, first, nodes, out_folder, seed, way);
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    static const char *const flow[] = {"", "If", "Loop", "Scan"};
    if (n->gone) continue;
    sbuf s = sbuf_new(ctx_arena(m->c));
    if (n->kind == NODE_CALL) opinst_print(m->c, notation_nth(m->lib, n->op), n->i, &s);
    printf("  %s%s%s\n", n->scope ? "  in a body: " : "", flow[n->kind], n->kind == NODE_CALL ? s.s : "");
  }
}
static void one(worker *w, ctx *c, const oplib *lib, uint64_t seed) {
  model m = {.c = c, .lib = lib, .seed = seed};
  volatile bool made = false;
  CTX_TRY(c) { made = model_make(&m); }
  CTX_CATCH {}
  if (!made) {
    __atomic_fetch_add(&w->b->skipped, 1, __ATOMIC_RELAXED);
    printf("no model comes of seed %llu\n", (unsigned long long)seed);
    return;
  }
  model_count(&m, &w->b->c);
  verdict v = judge(w, &m);
  __atomic_fetch_add(v == DIFFERS ? &w->b->failed : v == REFUSED ? &w->b->skipped : &w->b->passed, 1, __ATOMIC_RELAXED);
  if (v == DIFFERS) report(w, &m, seed);
  if (verbose) printf("seed %llu: %u nodes\n", (unsigned long long)seed, m.nodes.n);
}
/* A process for each model: what it needs is gone with it. */
static void work(worker *w, ctx *c, const oplib *lib, uint64_t first, double end) {
  snprintf(w->folder, sizeof w->folder, "%.30s/random_models_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(w->folder)) return perror(w->folder);
  while (now_ms() < end) {
    uint32_t i = __atomic_fetch_add(&w->b->next, 1, __ATOMIC_RELAXED);
    if (i >= w->b->end) break;
    fflush(NULL);
    pid_t pid = fork();
    int status = 0;
    if (!pid) {
      one(w, c, lib, first + i);
      fflush(NULL);
      _exit(0);
    }
    if (waitpid(pid, &status, 0) == pid && status) {
      __atomic_fetch_add(&w->b->failed, 1, __ATOMIC_RELAXED);
      printf("FAIL seed %llu: the process that makes it ended (status %d)\n", (unsigned long long)(first + i), status);
    }
  }
  static const char *const files[] = {"m.onnx", "m.so", "m.c", "c.so"};
  for (int i = 0; i < 4; i++) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s", w->folder, files[i]);
    unlink(path);
  }
  rmdir(w->folder);
}

/* ---- what was covered ------------------------------------------------------------------------ */
static void print_coverage(const oplib *lib, const coverage *c) {
  const char *names[FAMILIES] = {0};
  printf("%u models, %u nodes; %u models have open sizes, %u an If, %u a Loop, %u a Scan\n", c->models, c->nodes,
         c->open, c->flow[NODE_IF], c->flow[NODE_LOOP], c->flow[NODE_SCAN]);
  for (uint32_t q = 0; q < notation_count(lib); q++) {
    const opdef *d = notation_nth(lib, q);
    const char *name;
    uint32_t f = model_family(d, &name);
    names[f] = name;
    printf("%7u %s%s%s\n", c->ops[q], opdef_domain(d), *opdef_domain(d) ? "::" : "", opdef_name(d));
  }
  const char *flow;
  names[model_family(NULL, &flow)] = "flow";
  printf("reads results of:");
  for (uint32_t i = 0; i < FAMILIES; i++)
    if (names[i]) printf(" %s", names[i]);
  for (uint32_t i = 0; i < FAMILIES; i++) {
    if (!names[i]) continue;
    printf("\n%-12s", names[i]);
    for (uint32_t k = 0; k < FAMILIES; k++)
      if (names[k]) printf(" %7u", c->pairs[k][i]);
  }
  puts("");
}
static const oplib *library(ctx *c) {
  oplib *volatile lib = NULL;
  CTX_TRY(c) {
    lib = notation_lib(c);
    if (!notation_add_builtin(lib)) lib = NULL;
  }
  CTX_CATCH { lib = NULL; }
  return lib;
}
int main(int argc, char **argv) {
  uint64_t first = 0;
  uint32_t n = 300, jobs = 2;
  double limit = 1e18;
  bool table = false;
  int opt;
  while ((opt = getopt(argc, argv, "n:s:j:t:o:cv")) != -1) switch (opt) {
    case 'n':
      n = (uint32_t)strtoul(optarg, NULL, 10);
      break;
    case 's':
      first = strtoull(optarg, NULL, 10);
      break;
    case 'j':
      jobs = (uint32_t)atoi(optarg);
      break;
    case 't':
      limit = now_ms() + 1e3 * atof(optarg);
      break;
    case 'o':
      out_folder = optarg;
      break;
    case 'c':
      table = true;
      break;
    case 'v':
      verbose = true;
      break;
    default:
      return fputs("usage: random_models [-n MODELS] [-s FIRST] [-j JOBS] [-t SECONDS] [-o FOLDER] [-c] [-v]\n",
                   stderr),
             2;
    }
  if (!jobs || jobs > JOBS) jobs = 1;
  ctx *c = ctx_new();
  const oplib *lib = library(c);
  if (!lib) return puts("the library does not load"), 1;
  notation_nth(lib, 0);
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return perror("mmap"), 2;
  b->end = n;
  fflush(NULL);
  for (uint32_t i = 0; i < jobs; i++)
    if (!fork()) {
      work(&(worker){.b = b, .job = i}, c, lib, first, limit);
      fflush(NULL);
      _exit(0);
    }
  for (int status; wait(&status) > 0 || errno == EINTR;) continue;
  if (table) print_coverage(lib, &b->c);
  printf("%u passed, %u failed, %u skipped\n", b->passed, b->failed, b->skipped);
  ctx_free(c);
  return b->failed != 0;
}
