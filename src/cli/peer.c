/* Other engines: each is a child process, a python that has the engine's package, with bench/peer.py. Where these are,
 * how they are started, and what they compute for a model's tensors. */
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- where things are ------------------------------------------------------------------------ */
const char *peer_script(cli *k) {
  char exe[4096];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0) return NULL;
  exe[n] = 0;
  /* beside an installed program; in the folder where it was built */
  static const char *const from_here[] = {EK_BENCH_INSTALLED "/peer.py", "share/einkorn/bench/peer.py"};
  for (size_t i = 0; i < sizeof from_here / sizeof *from_here; i++) {
    const char *path = path_join(k->a, path_dir(k->a, exe), from_here[i]);
    if (file_exists(path)) return path;
  }
  return NULL;
}
const char *peer_folder(cli *k) {
  const char *tmp = getenv("TMPDIR");
  char *work = (char *)arena_fmt(k->a, "%s/einkorn-bench.XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(work)) ctx_fail(k->c, E_IO, "cannot make a folder %s", work);
  return work;
}
static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f) {
  (void)s, (void)kind, (void)f;
  return remove(path);
}
void peer_remove(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* ---- processes ------------------------------------------------------------------------------- */
int peer_start(char *const *argv, int in, int out) {
  pid_t parent = getpid(), pid = fork();
  if (pid) return pid;
  int null = open("/dev/null", O_RDWR);
  dup2(in >= 0 ? in : null, 0), dup2(out >= 0 ? out : null, 1), dup2(null, 2);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  execvp(argv[0], argv);
  _exit(127);
}
int peer_ended(int pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
static bool has_engine(const char *python, const char *script, const char *engine) {
  char *argv[] = {(char *)python, (char *)script, (char *)engine, "has", NULL};
  int pid = peer_start(argv, -1, -1);
  return pid > 0 && peer_ended(pid) == 0;
}
/* Of --peers: in the folder itself, in its folder of the engine's name, or in any of its folders. */
const char *peer_python(cli *k, const char *script, const char *engine) {
  strvec at = {0};
  if (!k->peers) {
    vec_push(k->a, at, "python3");
  } else {
    vec_push(k->a, at, path_join(k->a, k->peers, arena_fmt(k->a, "%s/bin/python", engine)));
    vec_push(k->a, at, path_join(k->a, k->peers, "bin/python"));
    strvec names = {0};
    if (is_folder(k->peers) && !folder_names(k->c, k->peers, &names)) ctx_unwind(k->c);
    for (uint32_t i = 0; i < names.n; i++)
      vec_push(k->a, at, path_join(k->a, k->peers, arena_fmt(k->a, "%s/bin/python", names.v[i])));
  }
  for (uint32_t i = 0; i < at.n; i++)
    if ((!k->peers || file_exists(at.v[i])) && has_engine(at.v[i], script, engine)) return at.v[i];
  return NULL;
}

/* ---- what an engine computes ----------------------------------------------------------------- */
static bool write_inputs(cli *k, const char *path, const peer_question *q) {
  npz z = {(uint32_t)q->n, NEWN(k->a, const char *, q->n + 1), NEWN(k->a, ndarray, q->n + 1)};
  for (size_t i = 0; i < q->n; i++) {
    const ek_array *x = &q->inputs[i];
    ndarray *d = &z.arrays[i];
    *d = (ndarray){.type = et_from_onnx((int)x->type), .rank = (uint32_t)x->rank, .data = x->data, .bytes = x->bytes};
    memcpy(d->dims, x->dims, d->rank * sizeof *d->dims);
    z.names[i] = x->name;
  }
  return npz_write(k->c, path, &z);
}
static bool write_names(cli *k, const char *path, const peer_question *q) {
  sbuf b = sbuf_new(k->a);
  for (size_t i = 0; i < q->wanted; i++) sb_fmt(&b, "%s\n", q->names[i]);
  return file_write(k->c, path, b.s, b.n);
}
static const char *text_of(cli *k, const char *path) {
  bytes b;
  return file_exists(path) && file_map(k->c, path, &b) ? arena_strndup(k->a, (const char *)b.p, b.n)
                                                       : "it ended without a word";
}
static const char *ask(cli *k, const char *work, const char *engine, const peer_question *q, npz *out) {
  const char *script = peer_script(k), *python = script ? peer_python(k, script, engine) : NULL;
  if (!script) return "peer.py is not there: install Einkorn whole, or run it where it was built";
  if (!python)
    return arena_fmt(k->a,
                     "%s does not have it: pip install %s, or --peers FOLDER with a virtual environment that has it",
                     k->peers ? k->peers : "python3", engine);
  const char *inputs = path_join(k->a, work, "inputs.npz"), *names = path_join(k->a, work, "names"),
             *results = path_join(k->a, work, "values.npz");
  if (!write_inputs(k, inputs, q) || !write_names(k, names, q)) ctx_unwind(k->c);
  char *argv[] = {(char *)python, (char *)script, (char *)engine,  "values", (char *)k->args.v[0],
                  (char *)inputs, (char *)names,  (char *)results, NULL};
  int pid = peer_start(argv, -1, -1);
  if (pid <= 0) return "no process";
  if (peer_ended(pid)) return text_of(k, arena_fmt(k->a, "%s.txt", results));
  if (!npz_read(k->c, results, out)) ctx_unwind(k->c);
  return NULL;
}
const char *peer_values(cli *k, const char *engine, peer_question q, npz *out) {
  const char *volatile why = NULL;
  const char *work = peer_folder(k);
  CTX_TRY(k->c) { why = ask(k, work, engine, &q, out); }
  CTX_CATCH {
    peer_remove(work);
    ctx_unwind(k->c);
  }
  peer_remove(work); /* what was read stays mapped */
  return why;
}
