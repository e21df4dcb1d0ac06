/* How does a constant operand get the storage its tile wants? As a weights buffer of its own: [selecting variables..., panel, reduction variables..., lane within the panel], the last panel filled up with zeros, so that
 * the inner loop reads whole aligned vectors one after the other (the packed B of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). Packed at compile time. */
#include "schedule/nest.h"
#include <string.h>

typedef struct strided { uint32_t n; int64_t count[MAX_RANK + 4], src[MAX_RANK + 4]; } strided;

static void copy_elems(uint32_t size, uint8_t *dst, const uint8_t *src, int64_t n, int64_t stride) {
  if (stride == 1) memcpy(dst, src, (size_t)n * size);
  else if (size == 4)
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * 4, src + i * stride * 4, 4); /* mapped constants may be misaligned */
  else
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * size, src + i * stride * size, size);
}

typedef struct packjob { const strided *s; uint32_t size; const uint8_t *src; uint8_t *dst; int64_t base, lane_stride, lanes, nr, npanels, inner; } packjob;
/* item i: one (selection, panel); s->count[0] = selections */
static void pack_item(ctx *c, void *arg, uint32_t item) {
  (void)c;
  packjob *j = arg;
  const strided *s = j->s;
  int64_t sel = item / j->npanels, panel = item % j->npanels, at = j->base;
  uint32_t first = 0;
  int64_t rem = sel;
  for (uint32_t d = s->n; d-- > 0;) /* trailing dims are reductions; leading ones selections, marked by negative count */
    if (s->count[d] < 0) {
      at += rem % -s->count[d] * s->src[d];
      rem /= -s->count[d];
      if (!first) first = d + 1;
    }
  int64_t n = min64(j->nr, j->lanes - panel * j->nr - EK_PLANTED("schedule-pack"));
  uint8_t *dst = j->dst + (size_t)item * j->inner * j->nr * j->size;
  int64_t k[MAX_RANK + 4] = {0};
  for (int64_t p = 0; p < j->inner; p++) {
    int64_t o = at + panel * j->nr * j->lane_stride;
    for (uint32_t d = first; d < s->n; d++) o += k[d] * s->src[d];
    copy_elems(j->size, dst + (size_t)p * j->nr * j->size, j->src + o * j->size, n, j->lane_stride);
    for (uint32_t d = s->n; d-- > first;) {
      if (++k[d] < s->count[d]) break;
      k[d] = 0;
    }
  }
}

bool pack_constant(ectx *e, nest *n, ex load, uint32_t stage, packload *out) {
  ctx *c = e->c;
  const u32vec *reds = &n->reds[stage];
  const ex_node *ln = exn(e->m, load);
  tensor *t = xt(e->m, ln->tensor);
  if (t->kind != TK_CONST || ln->otherwise || !n->lane.var || n->lane_reduced) return false;
  sz at = sym_int(c, 0);
  for (uint32_t i = 0; i < ln->nargs; i++) {
    sz idx = emit_resolve(e, ln->args[i]);
    if (!emit_in_range(e, NULL, i, idx, t->shape[i])) return false;
    at = sym_add(c, sym_mul(c, at, t->shape[i]), idx);
  }
  int64_t lanes, lane_stride, base, k;
  sz coef, rest;
  if (!sym_is_int(c, n->lane.extent, &lanes) || !sym_linear(c, at, n->lane.var, &coef, &rest) || !sym_is_int(c, coef, &lane_stride) || lane_stride == 0) return false;
  strided s = {0};
  int64_t sel = 1, inner = 1;
  uint32_t L = nest_lanes(e, &n->stages);
  int64_t nr = (int64_t)n->nv * L, npanels = (lanes + nr - 1) / nr;
  sz off = sym_int(c, 0), pan = n->panel ? sym_of_atom(c, n->panel) : sym_int(c, 0), r;
  nvar vars[MAX_RANK * 2];
  uint32_t nvars = 0;
  for (uint32_t i = 0; i < n->outer.n && nvars < MAX_RANK; i++) vars[nvars++] = n->outer.v[i];
  uint32_t nsel = nvars;
  if (n->point.var) vars[nvars++] = n->point;
  for (uint32_t i = 0; i < n->inner.n && nvars < MAX_RANK; i++) vars[nvars++] = n->inner.v[i];
  nsel = nvars;
  for (uint32_t i = 0; i < reds->n && nvars < 2 * MAX_RANK; i++) vars[nvars++] = (nvar){.var = reds->v[i], .extent = sym_extent(c, reds->v[i])};
  for (uint32_t i = 0; i < nvars; i++) {
    int64_t ext, st;
    if (!sym_linear(c, rest, vars[i].var, &coef, &r) || !sym_is_int(c, coef, &st)) return false;
    if (i < nsel && st == 0) continue; /* does not select */
    if (!sym_is_int(c, vars[i].extent, &ext)) return false;
    rest = r;
    if (s.n >= MAX_RANK + 4) return false;
    s.src[s.n] = st;
    s.count[s.n++] = i < nsel ? -ext : ext;
    if (i < nsel) {
      sel *= ext;
      off = sym_add(c, sym_muli(c, off, ext), sym_of_atom(c, vars[i].var));
    } else inner *= ext;
  }
  if (!sym_is_int(c, rest, &base)) return false;
  off = sym_add(c, sym_muli(c, off, npanels), pan);
  sz red = sym_int(c, 0);
  for (uint32_t i = nsel; i < nvars; i++) {
    if (!sym_is_int(c, vars[i].extent, &k)) return false;
    red = sym_add(c, sym_muli(c, red, k), sym_of_atom(c, vars[i].var));
  }
  off = sym_muli(c, sym_add(c, sym_muli(c, off, inner), red), nr);
  uint32_t size = et_bytes(t->type);
  int64_t total;
  if (!mul64(sel * npanels * inner, nr, &total)) return false;
  uint8_t *dst = arena_array(e->a, (size_t)total, size);
  packjob job = {&s, size, t->data.data, dst, base, lane_stride, lanes, nr, npanels, inner};
  par_for(c, cpu_count(), (uint32_t)(sel * npanels), pack_item, &job);
  buffer b = {.kind = BUF_WEIGHTS, .type = t->type, .name = arena_fmt(e->a, "%s.packed", t->name), .elems = sym_int(c, total), .bytes = dst};
  vec_push(e->a, e->p->buffers, b);
  *out = (packload){.load = load, .stage = stage, .constant = true, .buffer = e->p->buffers.n - 1, .off = off};
  return true;
}
