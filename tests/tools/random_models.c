/* random_models: random models of 5 to 60 nodes, compiled, against the evaluator.
 *
 *   random_models [-n MODELS] [-s FIRST] [-j JOBS] [-t SECONDS] [-o FOLDER] [-p OPERATOR] [-l FILE] [-z SIZE] [-w]
 *                 [-f] [-c] [-v]
 *
 * A model is named by its seed: FIRST, FIRST + 1, .. Each is checked in a process of its own, so that a crash is one
 * failure. One that fails shrinks by itself; what is left is written to FOLDER (default: .) as SEED.onnx and SEED.npz,
 * so that `einkorn check SEED.onnx` and `einkorn run SEED.onnx --inputs SEED.npz --expect SEED.npz` show the failure
 * without this program. One line per failure, and at the end `N passed, N failed, N skipped`; skipped are seeds that
 * no model comes of, and models that compiling refuses since memory for sizes found at run time has no bound.
 *   -p  each model has this operator (DOMAIN::NAME, or NAME of the standard's) where one comes of it; else the
 *       operators take turns
 *   -l  only the operators that the file lists, one a line, of element types that it lists as `type f32`
 *   -z  sizes of axes up to this, half of them; else all are small. With 24 there is more than the lanes of a vector
 *       and the rows of a tile
 *   -w  writes the models to FOLDER and checks nothing; SEED.npz also has the results on the way, and how
 *       far each may be off
 *   -f  ends at the first failure, which does not shrink
 *   -c  prints how often every definition occurred, and which families of definitions (files of the library) read each
 *       other's results. What occurs too rarely is a failure: of 20000 models, a definition in less than 50 nodes, a
 *       family that reads another one's results less than 5 times; of fewer models, that share
 *   -t  ends the tries after so many seconds
 *   -v  prints each seed */
#include "random_models.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* LIMIT: seconds for the check of a model; LARGEST: bytes at once; MEMORY: bytes of a process that makes a model */
enum { JOBS = 32, TEXT = 600, LIMIT = 60, LARGEST = 1 << 24, MEMORY = 1 << 30 };
typedef struct board { /* shared with the children */
  coverage c;
  uint32_t next, end, passed, failed, skipped;
  char text[JOBS][TEXT];
} board;
typedef struct worker {
  board *b;
  uint32_t job, kind; /* kind: of the failure that is looked for */
  char folder[64];
} worker;
static struct options {
  uint64_t first;
  uint32_t n, jobs;
  double end;         /* time at which the tries end, in ms */
  const char *folder; /* for what is written */
  const char *op;     /* -p; NULL: none */
  const char *list;   /* -l; NULL: none */
  bool write, first_only, table, verbose;
} options = {.n = 300, .jobs = 2, .end = 1e18, .folder = "."};
static drawing from; /* what models are drawn from */

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
/* What kind of failure is it? While a model shrinks it stays the same. */
static uint32_t kind_of(const char *text) {
  static const char *const kinds[] = {"elements differ", "has shape", "internal error", "error"};
  uint32_t i = 0;
  while (i < sizeof kinds / sizeof *kinds && !strstr(text, kinds[i])) i++;
  return i;
}
static bool fails(void *env, model *m) {
  worker *w = env;
  return judge(w, m) == DIFFERS && kind_of(w->b->text[w->job]) == w->kind;
}
static bool write_model(model *m) {
  const char *name = arena_fmt(ctx_arena(m->c), "%s/%llu", options.folder, (unsigned long long)m->seed);
  return model_write(m, arena_fmt(ctx_arena(m->c), "%s.onnx", name)) &&
         model_arrays(m, arena_fmt(ctx_arena(m->c), "%s.npz", name), options.write);
}
static void report(worker *w, model *m, unsigned long long seed) {
  char first[TEXT], way[TEXT];
  if (options.first_only) {
    __atomic_store_n(&w->b->next, w->b->end, __ATOMIC_RELAXED);
    printf("FAIL seed %llu: %s\n", seed, w->b->text[w->job]);
    return;
  }
  uint32_t nodes = 0;
  snprintf(first, TEXT, "%s", w->b->text[w->job]);
  w->kind = kind_of(first);
  model_shrink(m, fails, w);
  bool again = fails(w, m);
  snprintf(way, TEXT, "%s", again ? w->b->text[w->job] : "not the second time");
  for (uint32_t i = 0; i < m->nodes.n; i++) nodes += !m->nodes.v[i].gone;
  write_model(m);
  printf("FAIL seed %llu: %s; %u nodes are left (%s/%llu.onnx, .npz): %s\n", seed, first, nodes, options.folder, seed,
         way);
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
  model m = {.c = c, .lib = lib, .seed = seed, .from = &from};
  volatile bool made = false;
  CTX_TRY(c) { made = model_make(&m); }
  CTX_CATCH {}
  if (!made) {
    __atomic_fetch_add(&w->b->skipped, 1, __ATOMIC_RELAXED);
    printf("no model comes of seed %llu\n", (unsigned long long)seed);
    return;
  }
  model_count(&m, &w->b->c);
  verdict v = ALIKE;
  if (!options.write)
    v = judge(w, &m);
  else if (!write_model(&m))
    v = REFUSED;
  __atomic_fetch_add(v == DIFFERS ? &w->b->failed : v == REFUSED ? &w->b->skipped : &w->b->passed, 1, __ATOMIC_RELAXED);
  if (v == DIFFERS) report(w, &m, seed);
  if (options.verbose) printf("seed %llu: %u nodes\n", (unsigned long long)seed, m.nodes.n);
}
/* A process for each model: what it needs is gone with it. */
static void work(worker *w, ctx *c, const oplib *lib) {
  const uint64_t first = options.first;
  snprintf(w->folder, sizeof w->folder, "%.30s/random_models_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(w->folder)) return perror(w->folder);
  while (now_ms() < options.end) {
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
      if (options.first_only) __atomic_store_n(&w->b->next, w->b->end, __ATOMIC_RELAXED);
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
enum { OF_MODELS = 20000, LEAST_NODES = 50, LEAST_PAIRS = 5 };
static uint32_t least(const coverage *c, uint32_t of_all) {
  return (uint32_t)((uint64_t)of_all * c->models / OF_MODELS);
}
static const char *full_name(ctx *c, const opdef *d) {
  return arena_fmt(ctx_arena(c), "%s%s%s", opdef_domain(d), *opdef_domain(d) ? "::" : "", opdef_name(d));
}
static uint32_t print_operators(ctx *c, const oplib *lib, const coverage *v) {
  enum { COLUMNS = 3 };
  const uint32_t n = notation_count(lib), rows = (n + COLUMNS - 1) / COLUMNS;
  uint32_t missed = 0;
  for (uint32_t i = 0; i < rows; i++, puts(""))
    for (uint32_t k = i; k < n; k += rows) printf("%6u %-42s", v->ops[k], full_name(c, notation_nth(lib, k)));
  for (uint32_t q = 0; q < n; q++) {
    if (v->ops[q] >= least(v, LEAST_NODES)) continue;
    printf("FAIL coverage: %u nodes of %s, at least %u expected\n", v->ops[q], full_name(c, notation_nth(lib, q)),
           least(v, LEAST_NODES));
    missed++;
  }
  return missed;
}
static uint32_t print_families(const oplib *lib, const coverage *v) {
  const char *names[FAMILIES] = {0}, *name;
  uint32_t missed = 0;
  for (uint32_t q = 0; q <= notation_count(lib); q++) {
    const uint32_t f = model_family(q < notation_count(lib) ? notation_nth(lib, q) : NULL, &name);
    names[f] = name;
  }
  printf("%-12s", "reads of");
  for (uint32_t i = 0; i < FAMILIES; i++)
    if (names[i]) printf(" %9s", names[i]);
  puts("");
  for (uint32_t i = 0; i < FAMILIES; i++) {
    if (!names[i]) continue;
    printf("%-12s", names[i]);
    for (uint32_t k = 0; k < FAMILIES; k++)
      if (names[k]) printf(" %9u", v->pairs[k][i]);
    puts("");
  }
  for (uint32_t i = 0; i < FAMILIES; i++)
    for (uint32_t k = 0; k < FAMILIES; k++) {
      if (!names[i] || !names[k] || v->pairs[k][i] >= least(v, LEAST_PAIRS)) continue;
      printf("FAIL coverage: %s reads results of %s %u times, at least %u expected\n", names[i], names[k],
             v->pairs[k][i], least(v, LEAST_PAIRS));
      missed++;
    }
  return missed;
}
/* How much is missing. */
static uint32_t print_coverage(ctx *c, const oplib *lib, const coverage *v) {
  printf("%u models, %u nodes; %u models have open sizes, %u an If, %u a Loop, %u a Scan\n", v->models, v->nodes,
         v->open, v->flow[NODE_IF], v->flow[NODE_LOOP], v->flow[NODE_SCAN]);
  const uint32_t missed = print_operators(c, lib, v);
  return missed + print_families(lib, v);
}

/* ---- options --------------------------------------------------------------------------------- */
/* A definition may make large tensors of what it reads (OneHot of a depth): then it is none for a model. */
static void *alloc_small(void *user, size_t n) { return (void)user, n > LARGEST ? NULL : malloc(n); }
static void free_small(void *user, void *p, size_t n) { (void)user, (void)n, free(p); }
static const oplib *library(ctx *c) {
  oplib *volatile lib = NULL;
  CTX_TRY(c) {
    lib = notation_lib(c);
    if (!notation_add_builtin(lib)) lib = NULL;
  }
  CTX_CATCH { lib = NULL; }
  return lib;
}
/* The number of a definition, from 1; 0: there is none. */
static uint32_t find_op(const oplib *lib, const char *name) {
  const char *colons = strstr(name, "::");
  char domain[100];
  snprintf(domain, sizeof domain, "%.*s", colons ? (int)(colons - name) : 0, name);
  const opdef *d = notation_find(lib, domain, colons ? colons + 2 : name);
  for (uint32_t i = 0; d && i < notation_count(lib); i++)
    if (notation_nth(lib, i) == d) return i + 1;
  return 0;
}
/* Names that the library does not have are no error: others have more operators. */
static bool read_list(ctx *c, const oplib *lib, const char *path) {
  FILE *file = fopen(path, "r");
  char line[200];
  if (!file) return perror(path), false;
  while (fscanf(file, "%199s", line) == 1) {
    uint32_t op = find_op(lib, line);
    if (!strcmp(line, "type")) {
      if (fscanf(file, "%199s", line) == 1) from.types |= 1u << et_parse(line);
    } else if (op)
      vec_push(ctx_arena(c), from.ops, op - 1);
  }
  fclose(file);
  return from.ops.n > 0;
}
static void sort_families(ctx *c, const oplib *lib) {
  const char *name;
  for (uint32_t i = 0; i < from.ops.n; i++)
    vec_push(ctx_arena(c), from.of[model_family(notation_nth(lib, from.ops.v[i]), &name)], from.ops.v[i]);
}
static bool read_options(int argc, char **argv) {
  int opt;
  while ((opt = getopt(argc, argv, "n:s:j:t:o:p:l:z:wfcv")) != -1) {
    if (opt == 'n') options.n = (uint32_t)strtoul(optarg, NULL, 10);
    if (opt == 's') options.first = strtoull(optarg, NULL, 10);
    if (opt == 'j') options.jobs = (uint32_t)atoi(optarg);
    if (opt == 't') options.end = now_ms() + 1e3 * atof(optarg);
    if (opt == 'o') options.folder = optarg;
    if (opt == 'p') options.op = optarg;
    if (opt == 'l') options.list = optarg;
    if (opt == 'z') from.sizes = (uint32_t)atoi(optarg);
    if (opt == 'w') options.write = true;
    if (opt == 'f') options.first_only = true;
    if (opt == 'c') options.table = true;
    if (opt == 'v') options.verbose = true;
    if (opt == '?') {
      fputs("usage: random_models [-n MODELS] [-s FIRST] [-j JOBS] [-t SECONDS] [-o FOLDER] [-p OPERATOR] [-l FILE] "
            "[-z SIZE] [-w] [-f] [-c] [-v]\n",
            stderr);
      return false;
    }
  }
  if (!options.jobs || options.jobs > JOBS) options.jobs = 1;
  return true;
}
int main(int argc, char **argv) {
  if (!read_options(argc, argv)) return 2;
  ctx *c = ctx_new_with(&(ctx_memory){.alloc = alloc_small, .free = free_small, .limit = MEMORY});
  const oplib *lib = library(c);
  if (!lib) return puts("the library does not load"), 1;
  if (options.op && !(from.asked = find_op(lib, options.op))) return printf("there is no operator %s\n", options.op), 2;
  if (options.list && !read_list(c, lib, options.list)) return printf("%s lists no operator\n", options.list), 2;
  for (uint32_t i = 0; !options.list && i < notation_count(lib); i++) vec_push(ctx_arena(c), from.ops, i);
  sort_families(c, lib);
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return perror("mmap"), 2;
  b->end = options.n;
  fflush(NULL);
  for (uint32_t i = 0; i < options.jobs; i++)
    if (!fork()) {
      work(&(worker){.b = b, .job = i}, c, lib);
      fflush(NULL);
      _exit(0);
    }
  for (int status; wait(&status) > 0 || errno == EINTR;) continue;
  if (options.table) b->failed += print_coverage(c, lib, &b->c);
  printf("%u passed, %u failed, %u skipped\n", b->passed, b->failed, b->skipped);
  ctx_free(c);
  return b->failed != 0;
}
