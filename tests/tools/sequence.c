/* sequence: recurrent models frame by frame, the state carried from one run to the next, through the C API, as a JIT
 * module and as a saved library, with 1 and 2 threads.
 *
 *   sequence MODEL.onnx SEQ.npz IN OUT [FINAL [REF.npz]]
 *
 * Input 0 takes the steps of array IN of SEQ.npz (first axis: time), output 0 must give those of OUT; output 1
 * goes to input 1, which begins with zeros, and must end as array FINAL ("-": not given). Further inputs
 * come from REF.npz. Every step must agree to 1e-3. One line per failure, then `N passed, N failed, N skipped`. */
#include "check.h"

enum { MAX_IN = 8 };
typedef struct stream {
  ctx *c;
  npz seq, ref;
  const ndarray *in, *out, *final;
  ek_session *s;
} stream;
static uint32_t passed, failed;

static const ndarray *array(const npz *z, const char *name) {
  for (uint32_t i = 0; i < z->n; i++)
    if (!strcmp(z->names[i], name)) return &z->arrays[i];
  return NULL;
}
static ndarray step_of(const ndarray *all, int64_t t) {
  ndarray d = *all;
  d.rank--;
  for (uint32_t i = 0; i < d.rank; i++) d.dims[i] = all->dims[i + 1];
  d.bytes = all->bytes / (size_t)all->dims[0];
  d.data = (const uint8_t *)all->data + (size_t)t * d.bytes;
  return d;
}
static bool fail(ek_run *r, char *why, size_t room) {
  snprintf(why, room, "%s", ek_run_message(r));
  return false;
}
static ndarray output(ek_module *code, ek_run *r, int32_t i) {
  ek_tensor_info t;
  int32_t rank;
  ek_module_output(code, i, &t);
  ndarray d = {.type = et_from_onnx((int)t.type), .data = ek_run_output_data(r, i)};
  ek_run_output_dims(r, i, d.dims, &rank);
  d.rank = (uint32_t)rank;
  int64_t n = 0;
  if (nd_count(&d, &n)) d.bytes = (size_t)n * et_bytes(d.type);
  return d;
}
static bool play(stream *x, ek_module *code, ek_run *r, char *why, size_t room) {
  tolerance tol = {1e-3, 1e-3};
  arena *a = ctx_arena(x->c);
  uint8_t *state = NULL, *frame = arena_alloc(a, x->in->bytes / (size_t)x->in->dims[0] + 64);
  ek_tensor_info t;
  ndarray first = step_of(x->in, 0);
  if (ek_run_shape(r, 0, first.dims, (int32_t)first.rank)) return fail(r, why, room);
  for (int32_t i = 1; i < ek_module_inputs(code); i++) {
    ek_module_input(code, i, &t);
    if (i == 1) { /* the batch is 1 */
      int64_t bytes = (int64_t)ek_type_bytes(t.type);
      for (int32_t k = 0; k < t.rank; k++) {
        if (t.dims[k] < 0) t.dims[k] = 1;
        bytes *= t.dims[k];
      }
      state = arena_alloc(a, (size_t)bytes);
      ek_run_bind_input(r, 1, state);
      if (ek_run_shape(r, 1, t.dims, t.rank)) return fail(r, why, room);
      continue;
    }
    const ndarray *d = npz_find(&x->ref, "in_", t.name, i);
    if (!d) return snprintf(why, room, "input %s is not given", t.name), false;
    if (ek_run_shape(r, i, d->dims, (int32_t)d->rank)) return fail(r, why, room);
    ek_run_bind_input(r, i, memcpy(arena_alloc(a, d->bytes + 1), d->data, d->bytes));
  }
  ek_run_bind_input(r, 0, frame);
  for (int64_t step = 0; step < x->in->dims[0]; step++) {
    ndarray in = step_of(x->in, step), want = step_of(x->out, step);
    memcpy(frame, in.data, in.bytes);
    if (ek_run_execute(r)) return fail(r, why, room);
    ndarray got = output(code, r, 0), next = output(code, r, 1);
    char what[200];
    if (differs(what, sizeof what, "output 0", &got, &want, tol))
      return snprintf(why, room, "step %lld: %s", (long long)step, what), false;
    memcpy(state, next.data, next.bytes);
  }
  ndarray end = output(code, r, 1);
  return !x->final || !differs(why, room, "the last state", &end, x->final, tol);
}
static void plays(stream *x, const char *kind, ek_module *code) {
  char why[600];
  for (int threads = 1; threads <= 2; threads++) {
    ek_run *r;
    bool ok = !ek_run_create(code, threads, &r);
    if (!ok)
      snprintf(why, sizeof why, "%s", ek_message(x->s));
    else
      ok = play(x, code, r, why, sizeof why);
    if (ok)
      passed++;
    else
      failed++, printf("FAIL %s, %d threads: %s\n", kind, threads, why);
  }
}
static void run(stream *x, const char *path) {
  ek_model *m;
  ek_module *code;
  char so[] = "/tmp/einkorn_sequence_XXXXXX";
  if (!mkdtemp(so)) perror(so);
  const char *file = path_join(ctx_arena(x->c), so, "m.so");
  ek_code e = ek_load(x->s, path, &m);
  if (!e) e = ek_compile(m, NULL, &code);
  if (!e) plays(x, "jit", code), e = ek_save(m, NULL, file, NULL);
  if (!e) e = ek_module_load(x->s, file, &code);
  if (!e) plays(x, "so", code);
  if (e) failed++, printf("FAIL %s\n", ek_message(x->s));
  unlink(file);
  rmdir(so);
}
int main(int argc, char **argv) {
  stream x = {.c = ctx_new(), .s = ek_session_create()};
  if (argc < 5) return fputs("usage: sequence MODEL.onnx SEQ.npz IN OUT [FINAL [REF.npz]]\n", stderr), 2;
  if (!npz_read(x.c, argv[2], &x.seq) || (argc > 6 && !npz_read(x.c, argv[6], &x.ref)) ||
      !(x.in = array(&x.seq, argv[3])) || !(x.out = array(&x.seq, argv[4]))) {
    printf("FAIL %s: cannot be read, or lacks %s or %s\n0 passed, 1 failed, 0 skipped\n", argv[2], argv[3], argv[4]);
    return 1;
  }
  if (argc > 5) x.final = array(&x.seq, argv[5]);
  run(&x, argv[1]);
  printf("%u passed, %u failed, 0 skipped\n", passed, failed);
  ek_session_destroy(x.s);
  ctx_free(x.c);
  return failed != 0;
}
