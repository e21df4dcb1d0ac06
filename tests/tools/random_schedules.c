/* random_schedules: random schedules of the kernels and tensors of models. What is legal must give the values of the
 * evaluator, and the same bits with 1, 2 and 3 threads (--reproducible); what is refused must say why, at the line that
 * asked for it.
 *
 *   random_schedules [-j JOBS] [-n TRIALS] [-s SEED] [-p PRIMITIVE] [-t TARGET] [-l PERCENT] [-v] MODEL.onnx...
 *
 * TRIALS a model: each takes the recorded schedule of one kernel, or of how one tensor is stored, and changes it once
 * or up to three times, by changes that candidates.h enumerates: the first of a primitive drawn among all (or of
 * PRIMITIVE). The model is compiled with that, and run on the inputs of NAME.npz or NAME.ref.npz, beside NAME.onnx, in
 * memory that ends at forbidden pages. A model is a process of its own, and so is each of its trials: a crash is one
 * failure. -v: what each trial is. At the end a table: trials in which each primitive was changed, how many of these
 * were legal, and the reasons of refusals by how often they were given. With -l, less than PERCENT of legal trials of a
 * primitive (of 50 or more) are a failure. Then `N passed, N failed, N skipped`, counted by trial; skipped are those of
 * a model without inputs, that cannot be compiled, that would take the evaluator long, or whose default schedule is not
 * as exact as is asked for.
 */
#include "driver/pipeline.h"
#include <signal.h>
#include <sys/wait.h>
/* after loop.h, whose L_SET <fcntl.h> has as a macro */
#include "check.h"
#include "draw_schedule.h"

enum { MAX_JOBS = 64, SECONDS = 60, MODEL_SECONDS = 3600, MOST_PORTS = 256, MOST_THREADS = 3 };
static const int64_t eval_limit = 50 * 1000 * 1000;
static int only = -1;
static const char *machine;
static bool verbose;

/* ---- a model: its kernels, and the values that are right -------------------------------------- */
typedef struct buffers {
  int32_t ni, no;
  void *in[MOST_PORTS], *out[MOST_PORTS];
  size_t room[MOST_PORTS];
} buffers;
/* Runs the module on the inputs; false: why. */
static bool run_on(arena *a, ek_run *r, ek_module *code, const npz *z, buffers *b, char *why, size_t room) {
  *b = (buffers){.ni = ek_module_inputs(code), .no = ek_module_outputs(code)};
  if (b->ni > MOST_PORTS || b->no > MOST_PORTS) return snprintf(why, room, "too many inputs or outputs"), false;
  for (int32_t i = 0; i < b->ni; i++) {
    ek_tensor_info t;
    ek_module_input(code, i, &t);
    const ndarray *d = as_bytes(a, npz_find(z, "in_", t.name, i), NULL);
    if (!d || ek_run_shape(r, i, d->dims, (int32_t)d->rank))
      return snprintf(why, room, "input %s cannot be bound", t.name), false;
    b->in[i] = guarded(d->bytes);
    memcpy(b->in[i], d->data, d->bytes);
    ek_run_bind_input(r, i, b->in[i]);
  }
  atomic_store(&guarding, CHECK_OWN_MALLOC);
  ek_code e = ek_run_prepare(r);
  atomic_store(&guarding, false);
  for (int32_t i = 0; i < b->no && !e; i++) {
    b->room[i] = ek_run_output_bytes(r, i);
    b->out[i] = guarded(b->room[i]);
    ek_run_bind_output(r, i, b->out[i]);
  }
  for (int more = 0; !e && more < 64; more++) {
    e = ek_run_execute(r);
    if (e != EK_MEMORY) break;
    e = EK_OK;
    for (int32_t i = 0; i < b->no; i++) {
      const size_t need = ek_run_output_bytes(r, i);
      if (need > b->room[i]) b->out[i] = guarded(need), b->room[i] = need, ek_run_bind_output(r, i, b->out[i]);
    }
  }
  if (e) snprintf(why, room, "%s", ek_run_message(r));
  return !e;
}
typedef struct subject {
  const char *path; /* the model */
  ctx *c;           /* memory of the kernels */
  const target *t;  /* the machine */
  drawables all;
  ek_session *s;
  ek_model *m;
  npz inputs;
  buffers want; /* values of the evaluator */
  ek_module *reference;
  ek_run *run; /* of the evaluator */
} subject;

/* How far an output may be off: what other orders of sums and the default forms of products do, a few roundings of its
 * type, and what the model's file allows for roundings on the way (tol_NAME). */
static tolerance allowed(const subject *u, const char *name, int32_t i, const ndarray *want) {
  const ndarray *own = npz_find(&u->inputs, "tol_", name, i);
  const double step = want->type == ET_BF16  ? 0x1p-8
                      : want->type == ET_F16 ? 0x1p-11
                                             : 0,
               more = own && own->type == ET_F64 && own->rank == 0 ? *(const double *)own->data : 0;
  double largest = 0;
  int64_t n = 0;
  nd_count(want, &n);
  for (int64_t q = 0; q < n && et_kind(want->type) == K_FLOAT; q++) {
    const double v = et_load(want->type, (const uint8_t *)want->data + q * et_bytes(want->type)).f;
    if (isfinite(v)) largest = fmax(largest, fabs(v));
  }
  return (tolerance){fmax(1e-3, 4 * step), fmax(1e-4, 4 * step) * fmax(1, 4 * largest) + 4 * more};
}
static bool same_values(const subject *u, ek_module *code, ek_run *r, const buffers *b, char *why, size_t room) {
  for (int32_t i = 0; i < b->no; i++) {
    ek_tensor_info t;
    ek_module_output(code, i, &t);
    int32_t rank[2] = {0};
    ndarray x = {.type = et_from_onnx((int)t.type), .data = b->out[i]}, y = x;
    y.data = u->want.out[i];
    ek_run_output_dims(r, i, x.dims, &rank[0]), ek_run_output_dims(u->run, i, y.dims, &rank[1]);
    x.rank = (uint32_t)rank[0], y.rank = (uint32_t)rank[1];
    if (differs(why, room, t.name, &x, &y, allowed(u, t.name, i, &y))) return false;
  }
  return true;
}
static bool compile(subject *u, int threads, int evaluate, const char *text, ek_module **code) {
  ek_options o;
  ek_options_init(&o);
  o.threads = threads, o.compile_threads = 1, o.target = machine, o.schedule = text, o.evaluate = evaluate;
  o.reproducible = 1;
  return !ek_compile(u->m, &o, code);
}
static bool same_bits(ek_run *r, const buffers *b, const buffers *first, char *why, size_t room) {
  for (int32_t i = 0; i < b->no; i++)
    if (memcmp(b->out[i], first->out[i], ek_run_output_bytes(r, i)) != 0)
      return snprintf(why, room, "output %d has other bits than with 1 thread", i), false;
  return true;
}
/* Compiled with a text (NULL: the default schedule) it gives the right values, with 1 to `most` threads the same bits;
 * else why not. */
static bool is_right(subject *u, const char *text, int most, bool *compiled, char *why, size_t room) {
  ek_module *code = NULL;
  buffers first = {0};
  *compiled = compile(u, most, 0, text, &code);
  if (!*compiled) return snprintf(why, room, "%s", ek_message(u->s)), false;
  for (int threads = 1; threads <= most; threads++) {
    ek_run *r = NULL;
    buffers got;
    const int n = snprintf(why, room, "%d threads: ", threads);
    if (ek_run_create(code, threads, &r) ||
        !run_on(ctx_arena(u->c), r, code, &u->inputs, &got, why + n, room - (size_t)n))
      return false;
    if (threads == 1) first = got;
    if (!(threads == 1 ? same_values(u, code, r, &got, why + n, room - (size_t)n)
                       : same_bits(r, &got, &first, why + n, room - (size_t)n)))
      return false;
  }
  return true;
}
static void load_kernels(subject *u) {
  pipeline *p = pipe_new(u->c, &(pipe_opts){.level = 3, .compile_threads = 1, .target = machine, .record = true});
  if (!pipe_load(p, &(source){.path = u->path, .name = u->path}) || !pipe_lower(p, NULL) || !pipe_optimise(p) ||
      !pipe_program(p))
    return;
  u->t = p->t;
  note_plan(ctx_arena(u->c), &u->all, p->s);
}
/* Is all there that trials need? why: else what is missing. */
static bool open_subject(subject *u, const char *path, char *why, size_t room) {
  bool compiled;
  *u = (subject){.path = path, .c = ctx_new(), .s = ek_session_create()};
  volatile bool ok = false;
  CTX_TRY(u->c) {
    arena *a = ctx_arena(u->c);
    const int stem = (int)(strlen(path) - strlen(".onnx"));
    const char *inputs = arena_fmt(a, "%.*s.npz", stem, path);
    if (!file_exists(inputs)) inputs = arena_fmt(a, "%.*s.ref.npz", stem, path);
    load_kernels(u);
    ok = u->all.n && file_exists(inputs) && npz_read(u->c, inputs, &u->inputs);
  }
  CTX_CATCH {}
  if (!ok) return snprintf(why, room, "it cannot be scheduled, or has no inputs"), false;
  ek_model_info info;
  if (ek_load(u->s, path, &u->m) || ek_model_describe(u->m, NULL, &info) || !compile(u, 1, 1, NULL, &u->reference) ||
      ek_run_create(u->reference, 1, &u->run))
    return snprintf(why, room, "%s", ek_message(u->s)), false;
  if (info.work.macs.value > eval_limit) return snprintf(why, room, "the evaluator would take long"), false;
  return run_on(ctx_arena(u->c), u->run, u->reference, &u->inputs, &u->want, why, room) &&
         is_right(u, NULL, 1, &compiled, why, room);
}

/* ---- one trial -------------------------------------------------------------------------------- */
typedef struct verdict {
  bool talk;        /* the model's last word: there is no trial */
  uint32_t changed; /* bits of the primitives that were changed */
  int code;         /* 0: legal and right; 1: refused; 2: wrong; 3: there was no change to try */
  uint64_t seed;    /* of the trial */
  char why[400];    /* the reason of a refusal, or what is wrong */
} verdict;
static void judge(subject *u, verdict *v) {
  sbuf text = sbuf_new(ctx_arena(u->c));
  const drawable *of = NULL;
  drawn = hash_bytes(&v->seed, sizeof v->seed, hash_bytes(u->path, strlen(u->path), 0));
  draw(2);
  v->code = 3;
  draw_schedule(ctx_arena(u->c), &u->all, u->t, only, &of, &v->changed, &text);
  if (!v->changed) return;
  v->code = 2;
  if (verbose) printf("%s seed %llu:\n%s", u->path, (unsigned long long)v->seed, text.s), fflush(stdout);
  char why[400] = "";
  bool compiled;
  if (is_right(u, text.s, MOST_THREADS, &compiled, why, sizeof why)) {
    v->code = 0;
    return;
  }
  const char *at = strstr(why, of->k ? "error: kernel " : "error: tensor "), *colon = at ? strstr(at + 7, ": ") : NULL;
  if (!compiled && colon && !strncmp(why, "schedule:", 9)) {
    v->code = 1;
    general_reason(of, colon + 2, v->why, sizeof v->why);
  } else
    snprintf(v->why, sizeof v->why, "%s", why);
}

/* ---- all trials -------------------------------------------------------------------------------- */
static uint32_t passed, failed, skipped;
static void note(const char *path, const verdict *v, uint32_t n) {
  if (v->talk) { /* what there was instead of n trials */
    if (verbose) printf("skipped %s: %s\n", path, v->why);
    skipped += n;
    return;
  }
  if (v->code == 2) printf("FAIL %s -s %llu -n 1: %s\n", path, (unsigned long long)v->seed, v->why);
  *(v->code == 2 ? &failed : v->code == 3 ? &skipped : &passed) += 1;
  if (v->code < 2) note_schedule(v->changed, v->code ? v->why : NULL);
}
/* What a process of its own says of the trial. */
static verdict tried(subject *u, uint64_t seed) {
  verdict v = {.code = 2, .seed = seed};
  int ends[2], status = 0;
  if (pipe(ends)) return v;
  fflush(stdout);
  const pid_t child = fork();
  if (!child) {
    alarm(SECONDS);
    judge(u, &v);
    _exit(write(ends[1], &v, sizeof v) != (ssize_t)sizeof v);
  }
  close(ends[1]);
  verdict said;
  const ssize_t got = read(ends[0], &said, sizeof said);
  close(ends[0]);
  waitpid(child, &status, 0);
  if (got == (ssize_t)sizeof said) return said;
  snprintf(v.why, sizeof v.why, "ended by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return v;
}
typedef struct running {
  const char *path; /* the model */
  pid_t child;      /* 0: none */
  int from;         /* its verdicts come from here */
} running;
static bool begin(running *r, const char *path, uint64_t seed, uint32_t n) {
  int ends[2];
  if (pipe(ends)) return false;
  fflush(stdout);
  *r = (running){.path = path, .child = fork(), .from = ends[0]};
  if (!r->child) {
    subject u;
    verdict v = {.talk = true};
    alarm(MODEL_SECONDS);
    if (!open_subject(&u, path, v.why, sizeof v.why)) _exit(write(ends[1], &v, sizeof v) != (ssize_t)sizeof v);
    for (uint32_t i = 0; i < n; i++) {
      v = tried(&u, seed + i);
      if (write(ends[1], &v, sizeof v) != (ssize_t)sizeof v) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  return r->child > 0;
}
static void end(running *r, uint32_t n) {
  verdict v;
  uint32_t said = 0;
  int status = 0;
  bool talked = false;
  while (read(r->from, &v, sizeof v) == (ssize_t)sizeof v) note(r->path, &v, n), said++, talked |= v.talk;
  close(r->from);
  waitpid(r->child, &status, 0);
  r->child = 0;
  if (talked || said == n) return;
  printf("FAIL %s: its process ended after %u trials\n", r->path, said);
  failed++;
}
int main(int argc, char **argv) {
  uint32_t n = 20, jobs = 1;
  uint64_t seed = 1;
  double least = 0;
  for (int o; (o = getopt(argc, argv, "j:n:s:p:t:l:v")) > 0;) {
    if (o == 'j') jobs = (uint32_t)min64(MAX_JOBS, max64(1, strtol(optarg, NULL, 10)));
    if (o == 'n') n = (uint32_t)strtoul(optarg, NULL, 10);
    if (o == 's') seed = strtoull(optarg, NULL, 10);
    if (o == 't') machine = optarg;
    if (o == 'l') least = strtod(optarg, NULL);
    if (o == 'v') verbose = true;
    for (int i = 0; o == 'p' && i < P_COUNT; i++)
      if (!strcmp(optarg, primitive_forms[i].name)) only = i;
    if (o == '?') return 2;
  }
  running all[MAX_JOBS] = {0};
  for (uint32_t i = 0; i < (uint32_t)(argc - optind) + jobs; i++) { /* in turns: what is told keeps its order */
    running *r = &all[i % jobs];
    if (r->child) end(r, n);
    if (i < (uint32_t)(argc - optind) && !begin(r, argv[optind + (int)i], seed, n)) return 1;
  }
  failed += tell_schedules(least);
  printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
  return failed != 0;
}
