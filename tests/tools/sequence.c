/* sequence: recurrent models frame by frame through the C API, the state carried from one run to the next by hand, as a
 * JIT module and as a saved library; then inside, tied by ek_options.states, also interpreted, compiled as simply as
 * possible, and saved as C source. With 1 and 2 threads.
 *
 *   sequence MODEL.onnx SEQ.npz IN OUT [FINAL [REF.npz]]
 *
 * Input 0 takes the steps of array IN of SEQ.npz (first axis: time), output 0 must give those of OUT; output 1
 * goes to input 1, which begins with zeros, and must end as array FINAL ("-": not given). Further inputs
 * come from REF.npz. Every step must agree to 1e-3. Where the state is inside, the frames are played twice, with a
 * reset between. One line per failure, then `N passed, N failed, N skipped`. */
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
/* Sizes and data of the inputs but the first. state: memory for the one that is carried by hand; NULL: it is inside. */
static bool give(stream *x, ek_module *code, ek_run *r, bool inside, uint8_t **state, char *why, size_t room) {
  arena *a = ctx_arena(x->c);
  ek_tensor_info t;
  for (int32_t i = 1; i < ek_module_inputs(code); i++) {
    ek_module_input(code, i, &t);
    if (i == 1 && !inside) { /* the batch is 1 */
      int64_t bytes = (int64_t)ek_type_bytes(t.type);
      for (int32_t k = 0; k < t.rank; k++) {
        if (t.dims[k] < 0) t.dims[k] = 1;
        bytes *= t.dims[k];
      }
      *state = arena_alloc(a, (size_t)bytes);
      ek_run_bind_input(r, 1, *state);
      if (ek_run_shape(r, 1, t.dims, t.rank)) return fail(r, why, room);
      continue;
    }
    const ndarray *d = npz_find(&x->ref, "in_", t.name, i + inside);
    if (!d) return snprintf(why, room, "input %s is not given", t.name), false;
    if (ek_run_shape(r, i, d->dims, (int32_t)d->rank)) return fail(r, why, room);
    ek_run_bind_input(r, i, memcpy(arena_alloc(a, d->bytes + 1), d->data, d->bytes));
  }
  return true;
}
static bool frames(stream *x, ek_module *code, ek_run *r, uint8_t *state, char *why, size_t room) {
  tolerance tol = {1e-3, 1e-3};
  uint8_t *frame = arena_alloc(ctx_arena(x->c), x->in->bytes / (size_t)x->in->dims[0] + 64);
  ek_run_bind_input(r, 0, frame);
  for (int64_t step = 0; step < x->in->dims[0]; step++) {
    ndarray in = step_of(x->in, step), want = step_of(x->out, step);
    memcpy(frame, in.data, in.bytes);
    if (ek_run_execute(r)) return fail(r, why, room);
    ndarray got = output(code, r, 0);
    char what[200];
    if (differs(what, sizeof what, "output 0", &got, &want, tol))
      return snprintf(why, room, "step %lld: %s", (long long)step, what), false;
    if (!state) continue;
    ndarray next = output(code, r, 1);
    memcpy(state, next.data, next.bytes);
  }
  return true;
}
static bool ended(stream *x, const ndarray *end, char *why, size_t room) {
  tolerance tol = {1e-3, 1e-3};
  return !x->final || !differs(why, room, "the last state", end, x->final, tol);
}
static bool play_inside(stream *x, ek_module *code, ek_run *r, char *why, size_t room) {
  ek_tensor_info t;
  ek_array a;
  if (ek_module_states(code) != 1 || ek_module_state(code, 0, &t)) return snprintf(why, room, "no state"), false;
  for (int turn = 0; turn < 2; turn++) {
    if (!frames(x, code, r, NULL, why, room)) return false;
    if (ek_run_snapshot(r, t.name, &a)) return fail(r, why, room);
    ndarray end = {.type = et_from_onnx((int)a.type), .rank = (uint32_t)a.rank, .data = a.data, .bytes = a.bytes};
    memcpy(end.dims, a.dims, end.rank * sizeof *end.dims);
    if (!ended(x, &end, why, room)) return false;
    if (ek_run_reset(r, NULL)) return fail(r, why, room);
  }
  return true;
}
static bool play(stream *x, ek_module *code, ek_run *r, bool inside, char *why, size_t room) {
  uint8_t *state = NULL;
  ndarray first = step_of(x->in, 0);
  if (ek_run_shape(r, 0, first.dims, (int32_t)first.rank)) return fail(r, why, room);
  if (!give(x, code, r, inside, &state, why, room)) return false;
  if (inside) return play_inside(x, code, r, why, room);
  if (!frames(x, code, r, state, why, room)) return false;
  ndarray end = output(code, r, 1);
  return ended(x, &end, why, room);
}
static void verdict(bool ok, const char *kind, int threads, const char *why) {
  if (ok)
    passed++;
  else
    failed++, printf("FAIL %s, %d threads: %s\n", kind, threads, why);
}
static void plays(stream *x, const char *kind, ek_module *code, bool inside, int most) {
  char why[600] = "";
  for (int threads = 1; threads <= most; threads++) {
    ek_run *r;
    bool ok = !ek_run_create(code, threads, &r);
    if (!ok)
      snprintf(why, sizeof why, "%s", ek_message(x->s));
    else
      ok = play(x, code, r, inside, why, sizeof why);
    verdict(ok, kind, threads, why);
  }
}
/* A module of every kind. o: with states, or without. */
static ek_code every(stream *x, ek_model *m, ek_options *o, const char *folder) {
  const bool inside = o->states != NULL;
  arena *a = ctx_arena(x->c);
  const char *base = path_join(a, folder, inside ? "inside" : "plain"); /* the loader knows a library by its path */
  const char *so = arena_fmt(a, "%s.so", base), *c = arena_fmt(a, "%s.c", base), *header = arena_fmt(a, "%s.h", base),
             *of_c = arena_fmt(a, "%s_c.so", base);
  ek_module *code;
  ek_code e = EK_OK;
  for (int level = inside ? 0 : 3; level <= 3 && !e; level += 3) {
    o->optimize = level;
    if (!(e = ek_compile(m, o, &code)))
      plays(x, inside ? level ? "jit, inside" : "O0, inside" : "jit", code, inside, 2);
  }
  o->evaluate = 1;
  if (!e && inside && !(e = ek_compile(m, o, &code))) plays(x, "eval, inside", code, true, 1);
  o->evaluate = 0;
  if (!e) e = ek_save(m, o, so, NULL);
  if (!e) e = ek_module_load(x->s, so, &code);
  if (!e) plays(x, inside ? "so, inside" : "so", code, inside, 2);
  if (!e && inside && !(e = ek_save(m, o, c, NULL))) {
    const char *build = arena_fmt(a, "${CC:-gcc} -std=c17 -O1 -fPIC -shared -o '%s' '%s'", of_c, c);
    if (system(build)) verdict(false, "c, inside", 1, "its C source does not compile");
    if (!(e = ek_module_load(x->s, of_c, &code))) plays(x, "c, inside", code, true, 1);
  }
  unlink(so), unlink(c), unlink(header), unlink(of_c);
  return e;
}
/* Open sizes of the state that no other input has are 1. */
static const char *const *batch(stream *x, ek_model *m, const ek_tensor_info *state) {
  VEC(const char *) dims = {0};
  for (int32_t k = 0; k < state->rank; k++) {
    bool given = !state->dim_names[k];
    for (int32_t i = 0; i < ek_model_inputs(m); i++) {
      ek_tensor_info t;
      ek_model_input(m, i, &t);
      for (int32_t d = 0; i != 1 && d < t.rank && !given; d++)
        given = t.dim_names[d] && !strcmp(t.dim_names[d], state->dim_names[k]);
    }
    if (!given) vec_push(ctx_arena(x->c), dims, (const char *)arena_fmt(ctx_arena(x->c), "%s=1", state->dim_names[k]));
  }
  vec_push(ctx_arena(x->c), dims, NULL);
  return dims.v;
}
static void run(stream *x, const char *path) {
  ek_model *m;
  ek_options o;
  ek_tensor_info in = {0}, out = {0};
  char folder[] = "/tmp/einkorn_sequence_XXXXXX";
  if (!mkdtemp(folder)) perror(folder);
  ek_options_init(&o);
  ek_code e = ek_load(x->s, path, &m);
  if (!e) e = every(x, m, &o, folder);
  if (!e) e = ek_model_input(m, 1, &in);
  if (!e) e = ek_model_output(m, 1, &out);
  if (!e) {
    const char *tied[] = {arena_fmt(ctx_arena(x->c), "%s=%s", out.name, in.name), NULL};
    o.states = tied, o.dims = batch(x, m, &in);
    e = every(x, m, &o, folder);
  }
  if (e) failed++, printf("FAIL %s\n", ek_message(x->s));
  rmdir(folder);
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
