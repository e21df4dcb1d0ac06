/* einkorn run --frames: the model runs once for each frame, and keeps its states (--state) from one to the next. An
 * array of an input, and one that is expected, may have one axis more than the tensor, in front: its frames. An array
 * without that axis is the same in each. What comes out is put together in the same way. */
#include "cli/cli.h"
#include <string.h>

/* The array's first frame, and how many it has; false: it has the tensor's own rank. */
bool frames_of(cli *k, host_tensor *t) {
  ndarray *d = &t->d;
  if (!k->frames || (int32_t)d->rank != t->info.rank + 1) return false;
  t->frames = d->dims[0];
  if (!t->frames) ctx_fail(k->c, E_SHAPE, "input %s: its array has no frame", t->info.name);
  d->rank--;
  memmove(d->dims, d->dims + 1, d->rank * sizeof *d->dims);
  d->bytes /= (size_t)t->frames;
  return true;
}
static int64_t count(cli *k, const host_tensor *in, int32_t n) {
  const host_tensor *first = NULL;
  for (int32_t i = 0; i < n; i++) {
    if (!in[i].frames) continue;
    if (!first) first = &in[i];
    if (in[i].frames != first->frames)
      ctx_fail(k->c, E_SHAPE, "--frames: input %s has %lld frames, input %s has %lld", first->info.name,
               (long long)first->frames, in[i].info.name, (long long)in[i].frames);
  }
  if (!first)
    ctx_fail(k->c, E_USAGE,
             "--frames: no input has frames: the array of one must have one axis more than the input, in "
             "front");
  return first->frames;
}
/* Takes the outputs of a frame into the arrays of all. */
static void keep(cli *k, ek_module *m, ek_run *r, ndarray *stacked, int64_t frame, int64_t frames) {
  for (int32_t i = 0; i < ek_module_outputs(m); i++) {
    ek_tensor_info t;
    ndarray one = output_array(m, r, i, &t), *all = &stacked[i];
    if (frame == 0) {
      if (one.rank == MAX_RANK) ctx_fail(k->c, E_SHAPE, "--frames: output %s has too many axes", t.name);
      *all = one;
      all->rank++;
      memmove(all->dims + 1, one.dims, one.rank * sizeof *one.dims);
      all->dims[0] = frames;
      all->bytes = one.bytes * (size_t)frames;
      all->data = arena_array(k->a, (size_t)frames, one.bytes ? one.bytes : 1);
    }
    if (one.rank + 1 != all->rank || memcmp(one.dims, all->dims + 1, one.rank * sizeof *one.dims) != 0)
      ctx_fail(k->c, E_SHAPE, "--frames: output %s has other sizes in frame %lld than in the first", t.name,
               (long long)frame);
    memcpy((uint8_t *)(uintptr_t)all->data + (size_t)frame * one.bytes, one.data, one.bytes);
  }
}
ndarray result_array(cli *k, ek_module *m, ek_run *r, int32_t i, ek_tensor_info *info) {
  const ndarray own = output_array(m, r, i, info);
  return k->stacked ? k->stacked[i] : own;
}
ek_code frames_run(cli *k, ek_module *m, ek_run *r, host_tensor *in) {
  const int32_t n = ek_module_inputs(m);
  const int64_t frames = count(k, in, n);
  ndarray *stacked = NEWN(k->a, ndarray, ek_module_outputs(m) + 1);
  ek_code e = EK_OK;
  for (int64_t f = 0; f < frames && !e; f++) {
    for (int32_t i = 0; i < n && !e; i++)
      if (in[i].frames) e = ek_run_bind_input(r, i, (const uint8_t *)in[i].d.data + (size_t)f * in[i].d.bytes);
    if (!e) e = ek_run_execute(r);
    if (!e) keep(k, m, r, stacked, f, frames);
  }
  k->stacked = stacked;
  return e;
}
