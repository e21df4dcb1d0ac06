/* hostile: damaged input must give an error in words, never a crash, a hang or an internal error.
 *
 *   hostile [-n CASES] [-f FIRST] [-j JOBS] [-t SECONDS] [-w FILE] FILE...
 *
 * Case i takes FILE number i modulo their count (.onnx, .graph, .expr, .ek, .npz) and damages it by the random
 * numbers of seed i: cut off, bits flipped, bytes overwritten, pieces repeated, removed or exchanged, and
 * in texts numbers replaced by extreme ones and words by others of the same text. Models are then loaded and
 * checked (all that compilation does short of code), definitions parsed and checked, arrays read. A case
 * passes when the damaged input is still accepted, or refused with a message and a code other than `internal`. -w
 * writes case FIRST to a file instead, to look at it. Each case has SECONDS (default 10) and 4 GiB.
 * One line per failure, then `N passed, N failed, N skipped`. */
#include "driver/pipeline.h"
#include "einkorn/einkorn.h"
#include "expr/parse.h"
#include <ctype.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct blob {
  uint8_t *p;
  size_t n;
} blob;
typedef enum { NOT_RUN, ACCEPTED, REFUSED, BAD } verdict;
typedef struct outcome {
  verdict v;
  char text[240];
} outcome;
typedef struct board {
  atomic_uint next;
  outcome all[];
} board;

/* ---- damage ---------------------------------------------------------------------------------- */
static uint64_t seed;
static uint64_t rnd(uint64_t below) { /* splitmix64 */
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return below ? (z ^ (z >> 31)) % below : 0;
}
static void splice(blob *b, size_t at, size_t remove, const uint8_t *with, size_t n) {
  uint8_t *copy = malloc(b->n - remove + n + 1);
  if (!copy) return;
  memcpy(copy, b->p, at);
  memcpy(copy + at, with, n);
  memcpy(copy + at + n, b->p + at + remove, b->n - at - remove);
  free(b->p);
  b->p = copy, b->n = b->n - remove + n;
}
static bool word_at(const blob *b, size_t from, bool (*is)(int ch), size_t *at, size_t *n) { /* the next one */
  while (from < b->n && !is(b->p[from])) from++;
  for (*at = from, *n = 0; from + *n < b->n && is(b->p[from + *n]);) ++*n;
  return *n > 0;
}
static bool is_digit(int ch) { return isdigit(ch) != 0; }
static bool is_word(int ch) { return isalnum(ch) || ch == '_' || ch == '.'; }
static bool is_mark(int ch) { return ispunct(ch) && ch != '_'; }
static void damage_text(blob *b) {
  static const char *const numbers[] = {"0",
                                        "-1",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551616",
                                        "1e400",
                                        "4294967296",
                                        "2147483648",
                                        "17",
                                        "1000000007",
                                        "nan"};
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
                                      "((((((((((((((((((((((((((((((((",
                                      "-",
                                      "if",
                                      "\n"};
  size_t at, n, at2, n2;
  uint64_t kind = rnd(4);
  if (kind == 0 && word_at(b, rnd(b->n), is_digit, &at, &n)) {
    const char *s = numbers[rnd(sizeof numbers / sizeof *numbers)];
    splice(b, at, n, (const uint8_t *)s, strlen(s));
  } else if (kind == 1 && word_at(b, rnd(b->n), is_word, &at, &n) && word_at(b, rnd(b->n), is_word, &at2, &n2)) {
    uint8_t other[64];
    if (n2 > sizeof other) n2 = sizeof other;
    memcpy(other, b->p + at2, n2);
    splice(b, at, n, other, n2);
  } else if (kind == 2 && word_at(b, rnd(b->n), is_mark, &at, &n)) {
    const char *s = marks[rnd(sizeof marks / sizeof *marks)];
    splice(b, at, 1, (const uint8_t *)s, strlen(s));
  } else if (b->n) { /* a line is removed or repeated */
    for (at = rnd(b->n); at && b->p[at - 1] != '\n';) at--;
    for (n = 0; at + n < b->n && b->p[at + n] != '\n';) n++;
    uint8_t *line = malloc(n + 2);
    if (!line) return;
    memcpy(line, b->p + at, n);
    line[n] = '\n';
    if (rnd(2))
      splice(b, at, n, line, 0);
    else
      splice(b, at, 0, line, n + 1);
    free(line);
  }
}
static void damage_bytes(blob *b) {
  if (!b->n) return;
  size_t at = rnd(b->n), n = rnd(16) + 1;
  uint64_t head = b->n > 4096 && rnd(4) ? 4096 : b->n; /* mostly where the structure is: weights are long */
  at %= head;
  if (n > b->n - at) n = b->n - at;
  uint8_t piece[16];
  memcpy(piece, b->p + at, n);
  switch (rnd(6)) {
  case 0:
    b->n = rnd(b->n);
    break;
  case 1:
    b->p[at] ^= (uint8_t)(1u << rnd(8));
    break;
  case 2:
    b->p[at] = (uint8_t)(rnd(2) ? 0xff : rnd(256));
    break;
  case 3:
    splice(b, at, n, piece, 0);
    break;
  case 4:
    splice(b, at, 0, piece, n);
    break;
  default: {
    size_t to = rnd(b->n - n + 1) % head;
    if (to + n <= b->n) memmove(b->p + to, piece, n);
  }
  }
}
static bool ends_in(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && !strcmp(s + n - m, suffix);
}
static blob damaged(const char *path, const blob *whole, uint32_t number) {
  blob b = {malloc(whole->n + 1), whole->n};
  memcpy(b.p, whole->p, whole->n);
  seed = number * 0x2545f4914f6cdd1du + 1;
  bool is_text = !ends_in(path, ".onnx") && !ends_in(path, ".npz");
  for (uint64_t times = rnd(4) + 1; times; times--)
    if (is_text && rnd(5))
      damage_text(&b);
    else
      damage_bytes(&b);
  return b;
}

/* ---- trying ---------------------------------------------------------------------------------- */
static void judge(outcome *o, bool good, ecode code, const char *message) {
  o->v = good ? ACCEPTED : code == E_INTERNAL || !message || !*message ? BAD : REFUSED;
  snprintf(o->text, sizeof o->text, "%s",
           good                                          ? ""
           : code == E_INTERNAL || (message && *message) ? message
                                                         : "refused without a word");
}
static void try_model(const blob *b, const char *name, outcome *o) {
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_options opt;
  ek_options_init(&opt);
  opt.verify = 1;
  ek_code e = ek_load_memory(s, b->p, b->n, name, &m);
  if (!e) e = ek_check(m, &opt);
  judge(o, !e, (ecode)e, ek_message(s));
  ek_session_destroy(s);
}
static void try_text(ctx *c, const blob *b, const char *path, volatile bool *good) {
  char *text = arena_strndup(ctx_arena(c), (const char *)b->p, b->n);
  if (ends_in(path, ".ek")) {
    oplib *lib = notation_lib(c);
    *good = notation_add(lib, text, strlen(text), "damaged.ek");
  } else if (ends_in(path, ".expr")) {
    emodule *m = expr_parse(c, text, "damaged.expr");
    *good = m && expr_verify(m, NULL);
  } else {
    npz z;
    const char *file = arena_fmt(ctx_arena(c), "/tmp/einkorn_hostile_%d.npz", (int)getpid());
    *good = file_write(c, file, b->p, b->n) && npz_read(c, file, &z);
    unlink(file);
  }
}
static void try_one(const blob *b, const char *path, outcome *o) {
  if (ends_in(path, ".onnx") || ends_in(path, ".graph")) {
    try_model(b, "damaged", o);
    return;
  }
  ctx *c = ctx_new();
  volatile bool good = false;
  CTX_TRY(c)
  try_text(c, b, path, &good);
  CTX_CATCH {}
  const diag *d = diag_first(c);
  while (d && d->level != D_ERROR) d = d->next;
  judge(o, good, d ? d->code : E_OK, d ? d->text : NULL);
  ctx_free(c);
}

/* ---- sharing out ----------------------------------------------------------------------------- */
static blob whole_file(const char *path) {
  blob b = {0};
  FILE *f = fopen(path, "rbe");
  if (f && !fseek(f, 0, SEEK_END)) {
    b.n = (size_t)ftell(f);
    rewind(f);
    b.p = malloc(b.n + 1);
    if (fread(b.p, 1, b.n, f) != b.n) b.n = 0;
  }
  if (f) fclose(f);
  return b;
}
static void work(board *b, char **files, const blob *all, uint32_t nfiles, uint32_t first, uint32_t n, unsigned limit,
                 atomic_uint *mine) {
#if !defined(__SANITIZE_ADDRESS__)
  struct rlimit r = {4ll << 30, 4ll << 30};
  setrlimit(RLIMIT_AS, &r);
#endif
  for (uint32_t i; (i = atomic_fetch_add(&b->next, 1)) < n;) {
    uint32_t number = first + i, f = number % nfiles;
    atomic_store(mine, i);
    alarm(limit);
    blob x = damaged(files[f], &all[f], number);
    try_one(&x, files[f], &b->all[i]);
    free(x.p);
  }
  atomic_store(mine, n);
}
int main(int argc, char **argv) {
  uint32_t n = 300, first = 0;
  int opt, jobs = 2;
  unsigned limit = 10;
  const char *write_to = NULL;
  while ((opt = getopt(argc, argv, "n:f:j:t:w:")) != -1) {
    if (opt == 'n')
      n = (uint32_t)atoi(optarg);
    else if (opt == 'f')
      first = (uint32_t)atoi(optarg);
    else if (opt == 'j')
      jobs = atoi(optarg);
    else if (opt == 't')
      limit = (unsigned)atoi(optarg);
    else if (opt == 'w')
      write_to = optarg;
    else
      return 2;
  }
  uint32_t nfiles = (uint32_t)(argc - optind);
  if (!nfiles) return fputs("no files\n", stderr), 2;
  if (jobs < 1 || jobs > 64) jobs = 1;
  char **files = argv + optind;
  blob *all = calloc(nfiles, sizeof *all);
  for (uint32_t i = 0; i < nfiles; i++)
    if (!(all[i] = whole_file(files[i])).p) return perror(files[i]), 2;
  if (write_to) {
    blob x = damaged(files[first % nfiles], &all[first % nfiles], first);
    FILE *f = fopen(write_to, "wbe");
    if (!f || fwrite(x.p, 1, x.n, f) != x.n || fclose(f)) return perror(write_to), 2;
    return 0;
  }
  board *b =
      mmap(NULL, sizeof *b + (n + 1) * sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  atomic_uint *at = mmap(NULL, 64 * sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED || at == MAP_FAILED) return perror("mmap"), 2;
  pid_t pid[64] = {0};
  for (int live = 0, k = 0; k < jobs || live;) {
    if (k < jobs) {
      fflush(NULL);
      if (!(pid[k] = fork())) {
        work(b, files, all, nfiles, first, n, limit, &at[k]);
        _exit(0);
      }
      live++;
      for (k++; k < jobs && pid[k]; k++) continue;
      continue;
    }
    int status;
    pid_t p = wait(&status);
    for (int i = 0; i < jobs; i++) {
      if (pid[i] != p) continue;
      pid[i] = 0, live--;
      uint32_t mine = atomic_load(&at[i]);
      if (mine >= n || (WIFEXITED(status) && !WEXITSTATUS(status))) continue;
      outcome *o = &b->all[mine];
      o->v = BAD;
      snprintf(o->text, sizeof o->text, "%s",
               !WIFSIGNALED(status)          ? "the process ended"
               : WTERMSIG(status) == SIGALRM ? "takes too long"
                                             : strsignal(WTERMSIG(status)));
      k = i; /* again */
    }
  }
  uint32_t count[4] = {0};
  for (uint32_t i = 0; i < n; i++) {
    count[b->all[i].v]++;
    if (b->all[i].v != BAD) continue;
    printf("FAIL case %u of %s: %s\n", first + i, files[(first + i) % nfiles], b->all[i].text);
  }
  printf("%u cases: %u still accepted, %u refused with a reason\n", n, count[ACCEPTED], count[REFUSED]);
  printf("%u passed, %u failed, 0 skipped\n", count[ACCEPTED] + count[REFUSED], count[BAD] + count[NOT_RUN]);
  for (uint32_t i = 0; i < nfiles; i++) free(all[i].p);
  free(all);
  return count[BAD] + count[NOT_RUN] != 0;
}
