/* The smallest part of a model that still shows a difference, so that it can be looked at, or reported, by itself.
 *
 * The part begins as the node alone, with the values that it had in the whole model as inputs. Where that is right, it
 * grows backwards by one level of nodes, by three, by seven, ..., until the difference shows; then it is made smaller
 * again, by bisection over the levels and by leaving out node after node. If no part with one output shows it, the
 * part begins as the whole model, with the outputs that it had. */
#include "driver/diff.h"
#include <ctype.h>
#include <string.h>

enum { TRIES = 64 /* nodes that are tried to be left out */ };

/* ---- does a part show it? -------------------------------------------------------------------- */
outcome diff_shows(diff *d, const ek_options *o, const inner_options *x, truth *t) {
  if (diff_run(d, o, x, NULL)) return RUN_FAILED;
  const ndarray got = diff_result(d, x->part->outputs[0]);
  return !got.data ? RUN_FAILED : diff_judge(d, t, &got).wrong ? RUN_WRONG : RUN_RIGHT;
}
ek_options diff_part_options(const diff *d) { /* the sizes that they name may not be there */
  ek_options o = d->o;
  o.dims = NULL;
  return o;
}
static bool has_open_sizes(const diff *d) {
  for (int64_t i = 0; i < d->sizes->d->inputs; i++)
    for (int32_t k = 0; k < d->sizes->d->in[i].rank; k++)
      if (d->sizes->d->in[i].dims[k] < 0) return true;
  return false;
}
/* Open sizes stay open where that shows it. */
static bool shows(diff *d, graph_part *part, truth *t) {
  const ek_options o = diff_part_options(d);
  const inner_options x = {.part = part};
  if (!truth_of(d, part, t)) return false;
  part->open = (!d->o.dims || !d->o.dims[0]) && has_open_sizes(d);
  if (part->open && diff_shows(d, &o, &x, t) == RUN_WRONG) return true;
  part->open = false;
  return diff_shows(d, &o, &x, t) == RUN_WRONG;
}

/* ---- parts ----------------------------------------------------------------------------------- */
typedef struct growing {
  diff *d;
  uint32_t t;      /* the tensor that the part ends in */
  int32_t *level;  /* of each node: how many nodes it is away from the end, at least; -1: the end does not need it */
  ndarray *values; /* of each tensor its value in the whole model, where it was asked for */
  bool *looked_at; /* of each tensor: it is an output of the part, too, so that nodes do not run together there */
} growing;
static bool keep_values(growing *k, const u32vec *tensors) {
  diff *d = k->d;
  u32vec missing = {0};
  for (uint32_t i = 0; i < tensors->n; i++)
    if (!k->values[tensors->v[i]].data) vec_push(d->a, missing, tensors->v[i]);
  if (!missing.n) return true;
  const char **names = NEWN(d->a, const char *, missing.n + 1);
  for (uint32_t i = 0; i < missing.n; i++) names[i] = d->t.v[missing.v[i]].name;
  if (diff_run(d, &d->o, NULL, names)) return false;
  for (uint32_t i = 0; i < missing.n; i++) {
    ndarray x = diff_result(d, names[i]);
    if (!x.data) return false;
    uint8_t *copy = arena_alloc(d->a, x.bytes + 1);
    memcpy(copy, x.data, x.bytes);
    x.data = copy;
    k->values[missing.v[i]] = x;
  }
  return true;
}
/* The symbol of an axis in a part: that of the model, or one of its own for each formula. */
static const char *symbol_of(diff *d, const char *formula) {
  char *s = arena_strdup(d->a, formula);
  for (char *p = s; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.') *p = '_';
  return isdigit((unsigned char)*s) ? arena_fmt(d->a, "n%s", s) : s;
}
static graph_given given_tensor(diff *d, uint32_t t, const ndarray *x) {
  const ek_rt_tensor *info = d->t.v[t].info;
  const char **names = NEWN(d->a, const char *, x->rank + 1);
  for (uint32_t i = 0; i < x->rank && i < (uint32_t)info->rank; i++)
    if (info->dims[i] < 0 && info->dim_names[i]) names[i] = symbol_of(d, info->dim_names[i]);
  return (graph_given){.name = d->t.v[t].name, .data = *x, .names = names};
}
static void add_sources(growing *k, uint32_t t, const bool *stop, bool *nodes, bool *used, u32vec *read) {
  const sources s = diff_sources(k->d, t, stop);
  for (uint32_t i = 0; i < s.nodes.n; i++) nodes[s.nodes.v[i]] = true;
  for (uint32_t i = 0; i < s.tensors.n; i++) {
    if (!used[s.tensors.v[i]]) vec_push(k->d->a, *read, s.tensors.v[i]);
    used[s.tensors.v[i]] = true;
  }
}
/* The part of these nodes; more come in where what they read cannot be given, and those go that no output needs. nodes:
 * what the part has in the end. */
static bool part_of(growing *k, bool *nodes, graph_part *out) {
  diff *d = k->d;
  bool *stop = NEWN(d->a, bool, d->t.n + 1), *has = NEWN(d->a, bool, d->g->nodes.n + 1),
       *used = NEWN(d->a, bool, d->t.n + 1);
  const char **outputs = NEWN(d->a, const char *, d->t.n + 2);
  u32vec read = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->t.n; i++) stop[i] = d->t.v[i].given && !nodes[d->t.v[i].node];
  outputs[n++] = d->t.v[k->t].name;
  add_sources(k, k->t, stop, has, used, &read);
  for (uint32_t i = 0; i < d->t.n; i++) {
    if (!k->looked_at[i] || !nodes[d->t.v[i].node] || i == k->t) continue;
    outputs[n++] = d->t.v[i].name;
    add_sources(k, i, stop, has, used, &read);
  }
  if (!keep_values(k, &read)) return false;
  graph_given *given = NEWN(d->a, graph_given, read.n + 1);
  for (uint32_t i = 0; i < read.n; i++) given[i] = given_tensor(d, read.v[i], &k->values[read.v[i]]);
  *out = diff_part(d, given, read.n, outputs);
  memcpy(nodes, has, d->g->nodes.n * sizeof *nodes);
  return true;
}
static bool try_nodes(growing *k, bool *nodes, shown *out) {
  graph_part *p = NEW(k->d->a, graph_part);
  truth t = {0};
  if (!part_of(k, nodes, p) || !shows(k->d, p, &t)) {
    truth_end(&t);
    return false;
  }
  truth_end(&out->truth);
  out->part = *p, out->truth = t, out->any = true;
  return true;
}
/* How far is each node from the end? Level by level, backwards. */
static int32_t find_levels(growing *k) {
  diff *d = k->d;
  int32_t most = 0;
  const bool *all = memset(NEWN(d->a, bool, d->t.n + 1), 1, d->t.n);
  for (uint32_t i = 0; i < d->g->nodes.n; i++) k->level[i] = -1;
  u32vec now = {0};
  vec_push(d->a, now, k->t);
  k->level[d->t.v[k->t].node] = 0;
  for (int32_t l = 0; now.n; l++) {
    u32vec next = {0};
    for (uint32_t i = 0; i < now.n; i++) {
      const sources from = diff_sources(d, now.v[i], all);
      for (uint32_t j = 0; j < from.nodes.n; j++)
        if (k->level[from.nodes.v[j]] < 0) k->level[from.nodes.v[j]] = l;
      for (uint32_t j = 0; j < from.tensors.n; j++) {
        const uint32_t n = d->t.v[from.tensors.v[j]].node;
        if (k->level[n] >= 0) continue;
        k->level[n] = most = l + 1;
        vec_push(d->a, next, from.tensors.v[j]);
      }
    }
    now = next;
  }
  return most;
}
static bool *nodes_within(const growing *k, int32_t levels) {
  bool *nodes = NEWN(k->d->a, bool, k->d->g->nodes.n + 1);
  for (uint32_t i = 0; i < k->d->g->nodes.n; i++) nodes[i] = k->level[i] >= 0 && k->level[i] <= levels;
  return nodes;
}
static bool *smallest(growing *k, int32_t most, shown *out) {
  int32_t low = -1, high = 0; /* so many levels do not show it; so many are tried */
  bool *nodes = nodes_within(k, 0);
  while (!try_nodes(k, nodes, out)) {
    if (high >= most) return NULL;
    low = high, high = 2 * high + 1 < most ? 2 * high + 1 : most;
    nodes = nodes_within(k, high);
  }
  while (high - low > 1) {
    const int32_t mid = low + (high - low) / 2;
    bool *fewer = nodes_within(k, mid);
    if (try_nodes(k, fewer, out))
      high = mid, nodes = fewer;
    else
      low = mid;
  }
  return nodes;
}
static uint32_t count(const bool *nodes, uint32_t n) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++) k += nodes[i];
  return k;
}
static bool *leave_out(growing *k, bool *nodes, shown *out) {
  const uint32_t n = k->d->g->nodes.n;
  int tries = 0;
  for (uint32_t i = 0; i < n && tries < TRIES; i++) {
    if (!nodes[i] || k->level[i] == 0) continue;
    bool *fewer = arena_dup(k->d->a, nodes, n * sizeof *nodes + 1);
    fewer[i] = false;
    graph_part p;
    if (!part_of(k, fewer, &p) || count(fewer, n) >= count(nodes, n)) continue;
    tries++;
    if (try_nodes(k, fewer, out)) nodes = fewer;
  }
  return nodes;
}

/* Leaves out outputs, half of them at a time, a quarter, ...; with them go the nodes that only they need. (Zeller,
 * Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002) */
static bool *look_less(growing *k, bool *nodes, shown *out) {
  const uint32_t n = k->d->t.n, all = k->d->g->nodes.n;
  int tries = 0;
  for (uint32_t size = n; size && tries < TRIES; size /= 2)
    for (uint32_t from = 0; from < n && tries < TRIES; from += size) {
      bool *before = arena_dup(k->d->a, k->looked_at, n * sizeof *before + 1), any = false;
      for (uint32_t i = from; i < n && i < from + size; i++) any |= k->looked_at[i], k->looked_at[i] = false;
      if (!any) continue;
      bool *fewer = arena_dup(k->d->a, nodes, all * sizeof *nodes + 1);
      tries++;
      if (try_nodes(k, fewer, out))
        nodes = fewer;
      else
        memcpy(k->looked_at, before, n * sizeof *before);
    }
  return nodes;
}
/* The module in which the tensor was wrong: all of the model, with the same outputs. */
static bool *whole_model(growing *k, shown *out) {
  bool *nodes = memset(NEWN(k->d->a, bool, k->d->g->nodes.n + 1), 1, k->d->g->nodes.n);
  memcpy(k->looked_at, k->d->looked_at, k->d->t.n * sizeof *k->looked_at);
  return try_nodes(k, nodes, out) ? look_less(k, nodes, out) : NULL;
}

/* ---- telling and saving ---------------------------------------------------------------------- */
static void tell_nodes(diff *d, const bool *nodes) {
  arena *a = ctx_arena(d->c);
  const char **names = NEWN(a, const char *, d->g->nodes.n + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < d->g->nodes.n; i++)
    if (nodes[i]) names[n++] = arena_strdup(a, d->g->nodes.v[i]->name);
  d->r->part = names, d->r->part_nodes = n;
}
/* What the definition gives, in the type that the model has. */
static ndarray narrowed(diff *d, const ndarray *x, etype t) {
  ndarray y = *x;
  int64_t n = 0;
  if (y.type == t || !nd_count(x, &n)) return y;
  uint8_t *to = arena_array(d->a, (size_t)n + 1, et_bytes(t));
  for (int64_t i = 0; i < n; i++)
    et_store(t, to + i * et_bytes(t), et_load(x->type, (const uint8_t *)x->data + i * et_bytes(x->type)));
  y.type = t, y.data = to, y.bytes = (size_t)n * et_bytes(t);
  return y;
}
static void as_array(ek_array *to, const char *name, const ndarray *x) {
  *to = (ek_array){name, (ek_type)et_to_onnx(x->type), (int32_t)x->rank, {0}, x->data, x->bytes};
  memcpy(to->dims, x->dims, x->rank * sizeof *x->dims);
}
static ek_code save(diff *d, const shown *s) {
  const int stem = (int)(strlen(d->want.save) - strlen(".onnx"));
  const ek_options o = diff_part_options(d);
  const inner_options part = {.part = &s->part};
  ek_code code = save_inner(d->m, &o, &part, d->want.save, NULL);
  if (code) return code;
  ek_array *all = NEWN(d->a, ek_array, s->part.n + 2);
  size_t n = 0;
  for (uint32_t i = 0; i < s->part.n; i++)
    if (!s->part.given[i].constant) as_array(&all[n++], s->part.given[i].name, &s->part.given[i].data);
  const ndarray right = narrowed(d, &s->truth.x, et_from_onnx((int)d->r->type));
  as_array(&all[n++], s->part.outputs[0], &right);
  return ek_arrays_save(d->m->s, arena_fmt(d->a, "%.*s.npz", stem, d->want.save), all, n);
}
static bool reads(const node *n, const char *name) {
  for (uint32_t i = 0; i < n->in.n; i++)
    if (n->in.v[i] && !strcmp(n->in.v[i]->source, name)) return true;
  for (uint32_t k = 0; k < n->attrs.n; k++) {
    const graph *g = n->attrs.v[k].g;
    for (uint32_t i = 0; g && i < g->nodes.n; i++)
      if (reads(g->nodes.v[i], name)) return true;
    for (uint32_t i = 0; g && i < g->outputs.n; i++)
      if (!strcmp(g->outputs.v[i]->source, name)) return true;
  }
  return false;
}
/* Of what is given only what the part reads. */
static graph_part read_inputs(diff *d, const graph_part *p, const bool *nodes) {
  graph_given *given = NEWN(d->a, graph_given, p->n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    bool used = false;
    for (uint32_t k = 0; strcmp(p->given[i].name, p->outputs[0]) != 0 && !used && k < d->g->nodes.n; k++)
      used = nodes[k] && reads(d->g->nodes.v[k], p->given[i].name);
    if (used) given[n++] = p->given[i];
  }
  return (graph_part){given, n, p->outputs, p->open};
}
ek_code diff_find_part(diff *d, uint32_t t, shown *out) {
  growing k = {d, t, NEWN(d->a, int32_t, d->g->nodes.n + 1), NEWN(d->a, ndarray, d->t.n + 1),
               NEWN(d->a, bool, d->t.n + 1)};
  const int32_t most = find_levels(&k);
  bool *nodes = smallest(&k, most, out);
  if (!nodes) nodes = whole_model(&k, out);
  if (!nodes) return EK_OK;
  nodes = leave_out(&k, nodes, out);
  tell_nodes(d, nodes);
  out->part = read_inputs(d, &out->part, nodes);
  out->truth.part = &out->part;
  return d->want.save ? save(d, out) : EK_OK;
}
ek_code diff_reference_part(diff *d, const graph_part *part, uint32_t t, shown *out) {
  bool *nodes = NEWN(d->a, bool, d->g->nodes.n + 1), *stop = NEWN(d->a, bool, d->t.n + 1);
  const char **outputs = NEWN(d->a, const char *, 2);
  outputs[0] = d->t.v[t].name;
  for (uint32_t i = 0; i < d->t.n; i++)
    for (uint32_t k = 0; k < part->n; k++) stop[i] |= !strcmp(d->t.v[i].name, part->given[k].name);
  const u32vec between = diff_sources(d, t, stop).nodes;
  for (uint32_t i = 0; i < between.n; i++) nodes[between.v[i]] = true;
  tell_nodes(d, nodes);
  out->part = (graph_part){part->given, part->n, outputs, false};
  out->part = read_inputs(d, &out->part, nodes);
  if (!d->want.save) return EK_OK;
  if (!truth_of(d, &out->part, &out->truth)) return EK_FAILED;
  return save(d, out);
}

/* ---- where does a model begin to be wrong whose tensors are right when each is looked at? ---- */
uint32_t diff_first_end(diff *d, uint32_t t) {
  bool *stop = NEWN(d->a, bool, d->t.n + 1), *nodes = NEWN(d->a, bool, d->g->nodes.n + 1);
  u32vec ends = {0};
  const ek_options o = diff_part_options(d);
  const u32vec before = diff_sources(d, t, stop).nodes;
  for (uint32_t i = 0; i < before.n; i++) nodes[before.v[i]] = true;
  for (uint32_t i = 0; i < t; i++)
    if (d->t.v[i].given && nodes[d->t.v[i].node]) vec_push(d->a, ends, i);
  vec_push(d->a, ends, t);
  uint32_t low = 0, high = ends.n - 1; /* the model that ends at ends[high] is wrong */
  while (low < high) {
    const uint32_t mid = low + (high - low) / 2;
    const char *const outputs[] = {d->t.v[ends.v[mid]].name, NULL};
    const graph_part p = diff_part(d, NULL, 0, outputs);
    truth x;
    if (truth_of(d, &p, &x) && diff_shows(d, &o, &(inner_options){.part = &p}, &x) == RUN_WRONG)
      high = mid;
    else
      low = mid + 1;
    truth_end(&x);
  }
  return ends.v[high];
}
