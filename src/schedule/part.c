/* Which part of a kernel can be computed alone, from what is stored?
 *
 * An element-wise stage of a kernel (the activation behind a product, a row that is normalized) may be read much later.
 * Who does not want to keep it has it computed again: not by the whole kernel, but by a launch of that stage, and of
 * those that it reads and that are stored nowhere. What it computes is the same as in the kernel: the formulas and the
 * places of the tensors are.
 */
#include "fusion/fusion.h"
#include "schedule/halo.h"
#include "schedule/kernel.h"
#include "schedule/layout.h"

typedef struct part {
  splan *p;       /* the schedule */
  emodule *m;     /* the module */
  const stage *s; /* the stage that is wanted */
  u32vec vars;    /* its variables, as its kernel names them */
  u32vec stages;  /* that stage, and what is computed on the way */
} part;

static atom named(const part *k, atom v) {
  const map *canon = k->m->kernels.v[k->s->kernel - 1].canon;
  uint64_t to;
  return canon && map_getu(canon, v, &to) ? (atom)to : v;
}
/* Element-wise, at points of the stage that is wanted? */
static bool plain(const part *k, uint32_t s) {
  const stage *x = xs(k->m, s);
  if (x->dead || x->recurrence || x->updates.n || !x->value || x->kernel != k->s->kernel) return false;
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t j = 0; j < x->axes[i].n; j++)
      if (!vec_has(&k->vars, named(k, x->axes[i].d[j].var))) return false;
  return expr_class(k->m, s) == KC_ELEMENTWISE;
}
/* Adds the stage, and those that it reads and that are not stored. */
static bool add(part *k, uint32_t s) {
  u32vec loads = {0};
  if (vec_has(&k->stages, s)) return true;
  if (!plain(k, s)) return false;
  vec_push(k->m->a, k->stages, s);
  expr_stage_loads(k->m, s, k->m->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const tid t = exn(k->m, loads.v[i])->tensor;
    if (xt(k->m, t)->kind == TK_STAGE && !layout_materialised(k->p, t) && !add(k, xt(k->m, t)->stage)) return false;
  }
  return true;
}
/* Is the tensor alone in its buffer, without a border? */
static bool alone(const splan *p, tid t) {
  const buffer *b = &p->buffers.v[p->layouts[t].buffer];
  return b->kind == BUF_ARENA && !b->halo && halo_only_writer(p, p->layouts[t].buffer, t);
}
bool schedule_part(splan *p, tid t) {
  emodule *m = p->m;
  if (!t || xt(m, t)->kind != TK_STAGE || !p->level || !alone(p, t) || EK_PLANTED("schedule-part")) return false;
  part k = {.p = p, .m = m, .s = xs(m, xt(m, t)->stage)};
  if (!k.s->kernel || k.s->block || k.s->recurrence) return false;
  const kernel *whole = &m->kernels.v[k.s->kernel - 1];
  for (uint32_t i = 0; i < k.s->naxes; i++)
    for (uint32_t j = 0; j < k.s->axes[i].n; j++) vec_once(m->a, &k.vars, named(&k, k.s->axes[i].d[j].var));
  if (!add(&k, xt(m, t)->stage) || k.stages.n == whole->stages.n) return false;
  kernel new = {.cls = KC_ELEMENTWISE, .outer = k.vars, .canon = whole->canon, .block = whole->block};
  for (uint32_t i = 0; i < whole->stages.n; i++) /* in their order */
    if (vec_has(&k.stages, whole->stages.v[i])) vec_push(m->a, new.stages, whole->stages.v[i]);
  vec_push(m->a, m->kernels, new);
  u32vec stages = {0};
  for (uint32_t i = 0; i < new.stages.n; i++) vec_push(m->a, stages, new.stages.v[i]);
  const bool record = p->record;
  schedules *stated = p->stated;
  p->record = false, p->stated = NULL; /* nobody asks for the schedule of a part, and none is given */
  kernel_schedule(p, &(kernel_ref){&stages, &k.vars, new.canon, m->kernels.n - 1, 0, NULL}, 0);
  p->record = record, p->stated = stated;
  p->launches.v[p->launches.n - 1].code = p->launches.v[p->launches.n - 1].func;
  return true;
}
