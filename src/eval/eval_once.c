/* Which reductions are computed once for many points?
 *
 * In E[i, n] / sum[m] E[i, m] the sum depends on i alone. A reduction that does not depend on all output variables is
 * remembered for each value of the variables that it does depend on (its key): lane variables and those of loops
 * around it. What is missing is computed by another worker on the same plan, whose lanes are the missing keys, each
 * with the variables of the first point that asked. So only what somebody asks for is computed, and an error names
 * that point.
 */
#include "eval/eval_in.h"
#include <string.h>

enum { MOST_KEYS = 1 << 20 }; /* a tensor with more rows has short ones */

/* How many different values has the reduction? 0: they are not remembered, being asked for once or too many. */
uint32_t plan_keys(const plan *p, const pnode *n) {
  int64_t keys = 1, points = 1;
  for (uint32_t i = 0; i < p->lane_extents.n; i++)
    if (!mul64(points, p->lane_extents.v[i], &points)) points = INT64_MAX;
  for (uint32_t i = 0; i < n->nlane_deps; i++)
    if (!mul64(keys, p->lane_extents.v[n->lane_deps[i]], &keys)) return 0;
  if (keys == points || (!n->lanes && !n->ndeps)) return 0;
  for (uint32_t i = 0; i < n->ndeps; i++)
    if (!mul64(keys, p->loop_extents.v[n->deps[i]], &keys)) return 0;
  return keys <= MOST_KEYS ? (uint32_t)keys : 0;
}

static uint32_t key_at(const worker *w, const pnode *p, uint32_t lane) {
  int64_t key = 0;
  for (uint32_t i = EK_PLANTED("once"); i < p->nlane_deps; i++)
    key = key * w->p->lane_extents.v[p->lane_deps[i]] + w->lane[p->lane_deps[i]].i[lane];
  for (uint32_t i = 0; i < p->ndeps; i++) {
    int64_t extent = w->p->loop_extents.v[p->deps[i]];
    if (extent > 1) key = key * extent + w->loop[p->deps[i]];
  }
  return (uint32_t)key;
}
/* The node's values at n of the lanes of w. */
static const strip *compute_at(worker *w, uint32_t id, const uint32_t *lanes, uint32_t n) {
  if (!w->other) {
    w->other = NEW(w->a, worker);
    worker_init(w->other, w->v, w->p, w->a);
  }
  worker *o = w->other;
  for (uint32_t k = 0; k < w->p->lane_names.n; k++)
    for (uint32_t i = 0; i < n; i++) o->lane[k].i[i] = w->lane[k].i[lanes[i]];
  for (uint32_t k = 0; k < w->p->loop_names.n; k++)
    if (w->loop_tick[k]) worker_loop(o, k, w->loop[k]);
  worker_strip(o, n);
  o->asked = id;
  return worker_value(o, id, NULL, n);
}
void reduce_once(worker *w, uint32_t id, strip *r, const mask *mk, uint32_t n) {
  const pnode *p = &w->p->nodes.v[id];
  node_state *st = &w->st[id];
  uint32_t key[LANES], missing[LANES], nmissing = 0;
  if (!st->known) {
    st->values = NEWN(w->a, scalar, p->keys), st->known = NEWN(w->a, bool, p->keys);
  } else if (st->known_floor != w->floor)
    memset(st->known, 0, p->keys * sizeof *st->known);
  st->known_floor = w->floor;
  for (uint32_t i = 0; i < n; i++) {
    if (mk && !mk->on[i]) continue;
    key[i] = key_at(w, p, i);
    if (st->known[key[i]]) continue;
    st->known[key[i]] = true, missing[nmissing++] = i;
  }
  if (nmissing) {
    const strip *v = compute_at(w, id, missing, nmissing);
    for (uint32_t i = 0; i < nmissing; i++) st->values[key[missing[i]]] = lanes_get(p->type, v, i);
  }
  for (uint32_t i = 0; i < n; i++)
    if (!mk || mk->on[i]) lanes_put(p->type, r, i, st->values[key[i]]);
}
