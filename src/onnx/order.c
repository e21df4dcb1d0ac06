/* In which order can the nodes be built? ONNX asks for dependence order in the file, writers do not always keep to it.
 * The edges: a node's inputs, and the names that its regions use and do not define. The file's order is taken when it
 * is one; else nodes become ready in file order (Kahn). What never becomes ready lies behind a cycle, which is looked
 * for and named. */
#include "onnx/order.h"
#include <string.h>

typedef struct locals {     /* names defined in the regions around the place we are at, innermost first */
  const struct locals *out; /* names of the region around it; NULL: none */
  map *names;               /* the names */
} locals;

typedef struct deps {
  arena *a;      /* memory */
  map *producer; /* name to node + 1 */
  u32vec *of;    /* per node: what it waits for, with repetitions */
  uint32_t node; /* the node that is looked at */
} deps;

/* A name as seen from inside l: one defined there is none of ours. */
static void use(deps *d, bytes name, const locals *l) {
  uint64_t p;
  while (l && !map_get(l->names, name.p, name.n, NULL)) l = l->out;
  if (!l && name.n && map_get(d->producer, name.p, name.n, &p)) vec_push(d->a, d->of[d->node], (uint32_t)(p - 1));
}

static void use_region(deps *d, const pb_graph *g, const locals *out);

static void use_node(deps *d, const pb_node *n, const locals *l) {
  for (uint32_t i = 0; i < n->input.n; i++) use(d, n->input.v[i], l);
  for (uint32_t i = 0; i < n->attr.n; i++) {
    if (n->attr.v[i].g) use_region(d, n->attr.v[i].g, l);
    for (uint32_t k = 0; k < n->attr.v[i].graphs.n; k++) use_region(d, &n->attr.v[i].graphs.v[k], l);
  }
}

static void define(map *m, bytes name) {
  if (name.n) map_put(m, name.p, name.n, 1);
}

static void use_region(deps *d, const pb_graph *g, const locals *out) {
  locals l = {out, map_new(d->a)};
  for (uint32_t i = 0; i < g->input.n; i++) define(l.names, g->input.v[i].name);
  for (uint32_t i = 0; i < g->init.n; i++) define(l.names, g->init.v[i].name);
  for (uint32_t i = 0; i < g->sparse_init.n; i++)
    if (g->sparse_init.v[i].values) define(l.names, g->sparse_init.v[i].values->name);
  for (uint32_t i = 0; i < g->node.n; i++)
    for (uint32_t k = 0; k < g->node.v[i].output.n; k++) define(l.names, g->node.v[i].output.v[k]);
  for (uint32_t i = 0; i < g->node.n; i++) use_node(d, &g->node.v[i], &l);
  for (uint32_t i = 0; i < g->output.n; i++) use(d, g->output.v[i].name, &l);
}

static const char *node_text(arena *a, const pb_node *n) {
  bytes b = n->name.n ? n->name : n->output.n ? n->output.v[0] : n->op;
  return arena_strndup(a, (const char *)b.p, b.n < 200 ? b.n : 200);
}

/* Among the nodes that never became ready each waits for another such; following that must come back. */
static void report_cycle(arena *a, const pb_nodes *nodes, const deps *d, const uint32_t *waits) {
  uint32_t n = nodes->n, at = 0;
  while (!waits[at]) at++;
  for (uint32_t step = 0; step < n; step++)
    for (uint32_t k = 0; k < d->of[at].n; k++)
      if (waits[d->of[at].v[k]]) {
        at = d->of[at].v[k];
        break;
      }
  sbuf b = sbuf_new(a);
  uint32_t first = at, shown = 0;
  do {
    if (shown++ < 8) sb_fmt(&b, "'%s' needs ", node_text(a, &nodes->v[at]));
    uint32_t next = at;
    for (uint32_t k = 0; k < d->of[at].n && next == at; k++)
      if (waits[d->of[at].v[k]] && (d->of[at].v[k] != at || d->of[at].n == 1)) next = d->of[at].v[k];
    at = next;
  } while (at != first && shown <= n);
  sb_fmt(&b, "%s'%s'", shown > 8 ? "... needs " : "", node_text(a, &nodes->v[first]));
  diag_error(arena_ctx(a), E_MODEL, node_text(a, &nodes->v[first]), "the model has a cycle: %s", b.s);
}

const uint32_t *order_nodes(arena *a, const pb_nodes *nodes) {
  uint32_t n = nodes->n;
  deps d = {.a = a, .producer = map_new(a), .of = NEWN(a, u32vec, n)};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < nodes->v[i].output.n; k++) {
      bytes b = nodes->v[i].output.v[k];
      if (b.n && !map_get(d.producer, b.p, b.n, NULL)) map_put(d.producer, b.p, b.n, (uint64_t)i + 1);
    }
  bool sorted = true;
  uint32_t *waits = NEWN(a, uint32_t, n), *order = NEWN(a, uint32_t, n);
  u32vec *users = NEWN(a, u32vec, n);
  for (uint32_t i = 0; i < n; i++) {
    d.node = i;
    use_node(&d, &nodes->v[i], NULL);
    for (uint32_t k = 0; k < d.of[i].n; k++) sorted &= d.of[i].v[k] < i;
    order[i] = i;
  }
  if (sorted) return order;
  uint32_t done = 0;
  for (uint32_t i = 0; i < n; i++) {
    waits[i] = d.of[i].n;
    for (uint32_t k = 0; k < d.of[i].n; k++) vec_push(a, users[d.of[i].v[k]], i);
  }
  for (uint32_t i = 0; i < n; i++)
    if (!waits[i]) order[done++] = i;
  for (uint32_t i = 0; i < done; i++)
    for (uint32_t k = 0; k < users[order[i]].n; k++)
      if (--waits[users[order[i]].v[k]] == 0) order[done++] = users[order[i]].v[k];
  if (done == n) return order;
  report_cycle(a, nodes, &d, waits);
  return NULL;
}
