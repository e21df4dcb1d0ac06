/* Where does a wrong result begin?
 *
 *   1. All tensors of the model are listed, with their sizes for these inputs.
 *   2. Some at a time, so that memory is bounded, they become outputs of the compiled model, which is run. Each is
 *      compared with what the definitions give for the tensors that its node has read in that run (diff_truth.c).
 *   3. If none is wrong, the model's outputs are compared as they are without that: nodes that run together only when
 *      nobody looks between them may be wrong together. Then the shortest beginning of the model with a wrong end is
 *      looked for.
 *   4. If the code is right, a reference is judged by the same measure, from its own values.
 *   5. The part that shows the difference is made small (diff_part.c), and the pass is looked for (diff_pass.c).
 */
#include "driver/diff.h"
#include <math.h>
#include <string.h>

enum { AT_A_TIME = 16 << 20 /* bytes of tensors that are compared at a time; one may be larger */ };

/* ---- 1. the tensors -------------------------------------------------------------------------- */
static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }
static bool plain(const value *v) {
  return v->kind == VALUE_TENSOR && !v->text && v->type && v->type != ET_STR && v->ranked && v->rank <= EK_MAX_RANK;
}
static void list_tensors(diff *d, const map *known) {
  const map *needed = graph_needed(d->g);
  for (uint32_t i = 0; i < d->g->nodes.n; i++) {
    const node *n = d->g->nodes.v[i];
    map_putu(d->node_of, key(n), i + 1);
    for (uint32_t k = 0; k < n->out.n; k++) {
      const value *v = n->out.v[k];
      if (!graph_needs(needed, v) || !plain(v) || (known && !map_gets(known, v->source, NULL))) continue;
      map_putu(d->of, key(v), d->t.n + 1);
      vec_push(ctx_arena(d->c), d->t, ((tensor_node){.name = v->source, .v = v, .node = i, .given = !v->values}));
    }
  }
}
/* The names that the file itself has: only these can be asked for, and be the ends of a part that is saved. */
static ek_code names_of_file(pipeline *p, void *env) {
  diff *d = env;
  map *known = map_new(d->a);
  for (uint32_t i = 0; i < p->g->nodes.n; i++)
    for (uint32_t k = 0; k < p->g->nodes.v[i]->out.n; k++)
      if (p->g->nodes.v[i]->out.v[k]) map_puts(known, arena_strdup(d->a, p->g->nodes.v[i]->out.v[k]->source), 1);
  list_tensors(d, known);
  return EK_OK;
}
static void as_in_file(pipeline *p, void *env) {
  (void)env;
  p->standard = true;
}
static ek_code keep_graph(pipeline *p, void *env) {
  ((diff *)env)->g = p->g;
  return EK_OK;
}
static const char *const *all_names(diff *d) {
  const char **n = NEWN(d->a, const char *, d->t.n + 1);
  for (uint32_t i = 0; i < d->t.n; i++) n[i] = d->t.v[i].name;
  return n;
}
static const ek_array *array_named(const diff *d, const char *name) {
  for (size_t i = 0; i < d->want.input_count; i++)
    if (d->want.inputs[i].name && !strcmp(d->want.inputs[i].name, name)) return &d->want.inputs[i];
  return NULL;
}
/* The array as it is used here; data NULL: it has none, or its dims do not make its bytes. */
static ndarray array_of(const ek_array *x) {
  int64_t n;
  if (x->rank < 0 || x->rank > EK_MAX_RANK || (!x->data && x->bytes) || !ek_type_bytes(x->type)) return (ndarray){0};
  ndarray r = {.type = et_from_onnx((int)x->type), .rank = (uint32_t)x->rank, .data = x->data, .bytes = x->bytes};
  if (!r.data) r.data = ""; /* no elements */
  memcpy(r.dims, x->dims, r.rank * sizeof *x->dims);
  if (!nd_count(&r, &n) || (uint64_t)n > SIZE_MAX / 8 || (size_t)n * ek_type_bytes(x->type) != x->bytes) r.data = NULL;
  return r;
}
static ek_code take_inputs(diff *d) {
  const ek_rt_model *m = d->sizes->d;
  d->nin = (uint32_t)m->inputs;
  d->in = NEWN(d->a, graph_given, d->nin + 1);
  for (uint32_t i = 0; i < d->nin; i++) {
    const ek_array *x = array_named(d, m->in[i].name);
    if (!x) return session_fail(d->m->s, EK_USAGE, "ek_diff: there is no array for input %s", m->in[i].name);
    if ((int)x->type != m->in[i].type || x->rank != m->in[i].rank)
      return session_fail(d->m->s, EK_SHAPE, "ek_diff: input %s is %s of rank %d, the array is %s of rank %d",
                          m->in[i].name, ek_type_name((ek_type)m->in[i].type), m->in[i].rank, ek_type_name(x->type),
                          (int)x->rank);
    d->in[i] = (graph_given){.name = m->in[i].name, .data = array_of(x), .names = m->in[i].dim_names};
    if (!d->in[i].data.data)
      return session_fail(d->m->s, EK_SHAPE, "ek_diff: input %s: its dims do not make %zu bytes of data", m->in[i].name,
                          x->bytes);
  }
  return EK_OK;
}
/* How many bytes does each tensor take with these inputs? */
static ek_code find_sizes(diff *d) {
  const ek_rt_model *m = d->sizes->d;
  size_t ni = 1, no = 1;
  for (int64_t i = 0; i < m->inputs; i++) ni += (size_t)m->in[i].rank;
  for (int64_t i = 0; i < m->outputs; i++) no += (size_t)m->out[i].rank;
  int64_t *in = NEWN(d->a, int64_t, ni), *out = NEWN(d->a, int64_t, no), *at = in;
  for (uint32_t i = 0; i < d->nin; i++)
    for (uint32_t k = 0; k < d->in[i].data.rank; k++) *at++ = d->in[i].data.dims[k];
  ek_rt_call call = {.in_dims = in, .out_dims = out, .threads = 1};
  text why = {.mem = &d->m->s->mem};
  ek_code code = eval_plan(d->sizes, &call, &why);
  if (code) session_fail(d->m->s, code, "%s", why.s ? why.s : "the inputs' sizes do not fit together");
  text_free(&why);
  map *by_name = map_new(d->a);
  for (int64_t i = 0; i < m->outputs; out += m->out[i++].rank) {
    uint64_t n = ek_type_bytes((ek_type)m->out[i].type);
    for (int32_t k = 0; k < m->out[i].rank; k++) n *= (uint64_t)out[k];
    map_puts(by_name, m->out[i].name, ((uint64_t)i << 40) | (n < (1ull << 40) ? n : (1ull << 40) - 1));
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < d->t.n; i++) {
    uint64_t x;
    tensor_node t = d->t.v[i];
    map_putu(d->of, key(t.v), 0);
    if (!map_gets(by_name, t.name, &x)) continue; /* a sequence, which has no output of this name */
    t.info = &m->out[x >> 40], t.bytes = (size_t)(x & ((1ull << 40) - 1));
    d->t.v[kept++] = t;
    map_putu(d->of, key(t.v), kept);
  }
  d->t.n = kept;
  return code;
}
static ek_code survey(diff *d) {
  ek_options o = d->o;
  ek_code code = in_pipe(d->m, &o, NULL, keep_graph, d, &d->graph_ctx);
  if (!code) code = in_pipe(d->m, &o, as_in_file, names_of_file, d, NULL);
  if (code) return code;
  d->looked_at = NEWN(d->a, bool, d->t.n + 1);
  d->seen_tensor = NEWN(d->a, uint32_t, d->t.n + 1), d->seen_node = NEWN(d->a, uint32_t, d->g->nodes.n + 1);
  o.evaluate = 1, o.watch = all_names(d);
  code = ek_compile(d->m, &o, &d->sizes);
  if (!code) code = take_inputs(d);
  return code ? code : find_sizes(d);
}

/* ---- which tensors is a tensor made of? ------------------------------------------------------ */
typedef struct walk {
  diff *d;
  const bool *stop;   /* tensors that are given */
  sources found;      /* what was reached */
  uint32_t looked_at; /* nodes of `found` whose inputs were followed */
} walk;
static bool first_time(uint32_t *seen, uint32_t walk) {
  const bool first = *seen != walk;
  *seen = walk;
  return first;
}
static void reach(walk *w, const value *v) {
  diff *d = w->d;
  uint64_t x;
  if (!v || v->data || !v->def) return;
  if (map_getu(d->of, key(v), &x) && x && w->stop[x - 1]) {
    if (first_time(&d->seen_tensor[x - 1], d->walk)) vec_push(d->a, w->found.tensors, (uint32_t)x - 1);
  } else if (map_getu(d->node_of, key(v->def), &x) && first_time(&d->seen_node[x - 1], d->walk))
    vec_push(d->a, w->found.nodes, (uint32_t)x - 1);
}
static void reach_inputs(walk *w, const node *n) {
  for (uint32_t i = 0; i < n->in.n; i++) reach(w, n->in.v[i]);
  for (uint32_t k = 0; k < n->attrs.n; k++) {
    const graph *g = n->attrs.v[k].g;
    for (uint32_t i = 0; g && i < g->nodes.n; i++) reach_inputs(w, g->nodes.v[i]);
    for (uint32_t i = 0; g && i < g->outputs.n; i++) reach(w, g->outputs.v[i]);
  }
}
sources diff_sources(diff *d, uint32_t t, const bool *stop) {
  walk w = {.d = d, .stop = stop};
  d->walk++;
  d->seen_node[d->t.v[t].node] = d->walk;
  vec_push(d->a, w.found.nodes, d->t.v[t].node);
  while (w.looked_at < w.found.nodes.n) reach_inputs(&w, d->g->nodes.v[w.found.nodes.v[w.looked_at++]]);
  return w.found;
}

/* ---- running --------------------------------------------------------------------------------- */
void diff_end_run(diff *d) {
  ek_module_close(d->code); /* with its run */
  d->code = NULL, d->run = NULL;
}
const graph_given *diff_given(const graph_part *p, const char *name) {
  for (uint32_t i = 0; i < p->n; i++)
    if (!strcmp(p->given[i].name, name)) return &p->given[i];
  return NULL;
}
static ek_code bind(diff *d, const graph_part *part) {
  for (int64_t i = 0; i < d->code->d->inputs; i++) {
    const char *name = d->code->d->in[i].name;
    const graph_given *x = diff_given(part, name);
    if (!x) return session_fail(d->m->s, EK_USAGE, "ek_diff: there is no array for input %s", name);
    const ek_code code = ek_run_set_input(d->run, name, x->data.data, x->data.bytes, x->data.dims, (int)x->data.rank);
    if (code) return session_fail(d->m->s, code, "%s", ek_run_message(d->run));
  }
  return EK_OK;
}
ek_code diff_run(diff *d, const ek_options *given, const inner_options *x, const char *const *watch) {
  const graph_part whole = {.given = d->in, .n = d->nin};
  ek_options o = *given;
  diff_end_run(d);
  o.watch = watch;
  ek_code code = compile_inner(d->m, &o, x, &d->code);
  if (!code) code = ek_run_create(d->code, o.threads, &d->run);
  if (!code) run_mark_memory(d->run);
  if (!code) code = bind(d, x && x->part ? x->part : &whole);
  if (!code && (code = ek_run_execute(d->run)) != EK_OK) session_fail(d->m->s, code, "%s", ek_run_message(d->run));
  return code;
}
ndarray diff_result(diff *d, const char *name) {
  ek_array x;
  if (!d->run || ek_module_find_output(d->code, name) < 0 || ek_run_get_output(d->run, name, &x)) return (ndarray){0};
  return array_of(&x);
}
graph_part diff_part(diff *d, const graph_given *given, uint32_t n, const char *const *outputs) {
  graph_given *all = NEWN(d->a, graph_given, n + d->nin + 1);
  if (n) memcpy(all, given, n * sizeof *given);
  memcpy(all + n, d->in, d->nin * sizeof *d->in);
  return (graph_part){all, n + d->nin, outputs, false};
}

/* ---- 2. tensor by tensor --------------------------------------------------------------------- */
typedef struct portion { /* tensors that are compared together */
  diff *d;
  graph_part part;       /* each computed from the others' values */
  const u32vec *tensors; /* the part's outputs */
  ndarray *got;          /* the values of each that are judged */
  uint32_t wrong;        /* place in `tensors` of the first wrong one; UINT32_MAX: none */
  judgement j;           /* of that one */
  bool tells;            /* the caller is told of each */
  uint32_t done;         /* how many were compared */
} portion;
/* What was found out about the tensors compared last is no longer needed. */
static void diff_clear(diff *d) {
  if (d->a != ctx_arena(d->c)) arena_free(d->a);
  d->a = arena_new(d->c);
}
static void tell(diff *d, uint32_t t, double error, bool wrong, const char *skipped) {
  const node *n = d->g->nodes.v[d->t.v[t].node];
  const ek_checked x = {d->t.v[t].name, n->name, n->op, error, skipped, wrong};
  *(skipped ? &d->r->skipped : &d->r->checked) += 1;
  if (d->want.checked) d->want.checked(d->want.checked_user, &x);
}
static bool judge_one(void *env, uint32_t i, const ndarray *x) {
  portion *k = env;
  truth t = {*x, NULL, &k->part, k->part.outputs[i]};
  if (k->got[i].data) {
    judgement j = diff_judge(k->d, &t, &k->got[i]);
    mem_put(NULL, t.slack);
    if (k->tells) tell(k->d, k->tensors->v[i], j.error, j.wrong, NULL);
    if (j.wrong) k->wrong = i, k->j = j;
  }
  k->done = i + 1;
  return k->wrong == UINT32_MAX;
}
static const char *const *names_of(diff *d, const u32vec *t) {
  const char **n = NEWN(d->a, const char *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) n[i] = d->t.v[t->v[i]].name;
  return n;
}
/* Integers that are few may be sizes, positions or choices: they are constants of the part, as the definitions of some
 * operators want. all: so may floats be. */
static bool as_constant(const ndarray *x, bool all) {
  int64_t n;
  return (all || et_kind(x->type) != K_FLOAT) && nd_count(x, &n) && n <= 64;
}
/* Values of the tensors that others are made of. */
typedef struct values {
  ndarray (*of)(void *env, const char *name);
  void *env;
} values;
typedef struct results { /* copies of a run's results */
  map *at;               /* name -> its place in v, plus one */
  ndarray *v;            /* the values */
} results;
static ndarray of_results(void *env, const char *name) {
  const results *r = env;
  uint64_t i;
  return map_gets(r->at, name, &i) ? r->v[i - 1] : (ndarray){0};
}
/* The results of the last run; its module gives its memory back, so that there is room for the constants once more. */
static results copied(diff *d, const char *const *names) {
  uint32_t n = 0;
  while (names[n]) n++;
  results r = {map_new(d->a), NEWN(d->a, ndarray, n + 1)};
  for (uint32_t i = 0; i < n; i++) {
    ndarray x = diff_result(d, names[i]);
    if (!x.data) continue;
    x.data = memcpy(arena_alloc(d->a, x.bytes + 1), x.data, x.bytes);
    r.v[i] = x;
    map_puts(r.at, names[i], i + 1);
  }
  diff_end_run(d);
  return r;
}
static graph_part part_from(diff *d, const u32vec *sources, const values *v, const u32vec *outputs, bool constants) {
  graph_given *given = NEWN(d->a, graph_given, sources->n + 1);
  for (uint32_t i = 0; i < sources->n; i++) {
    const char *name = d->t.v[sources->v[i]].name;
    const ndarray x = v->of(v->env, name);
    given[i] = (graph_given){.name = name, .data = x, .constant = as_constant(&x, constants)};
  }
  return diff_part(d, given, sources->n, names_of(d, outputs));
}
static bool *given_tensors(diff *d) {
  bool *stop = NEWN(d->a, bool, d->t.n + 1);
  for (uint32_t i = 0; i < d->t.n; i++) stop[i] = d->t.v[i].given;
  return stop;
}
static void add_once(diff *d, u32vec *v, bool *has, uint32_t x) {
  if (!has[x]) vec_push(d->a, *v, x);
  has[x] = true;
}
static u32vec sources_of_all(diff *d, const u32vec *tensors, const bool *stop) {
  u32vec all = {0};
  bool *has = NEWN(d->a, bool, d->t.n + 1);
  for (uint32_t i = 0; i < tensors->n; i++) {
    const u32vec s = diff_sources(d, tensors->v[i], stop).tensors;
    for (uint32_t k = 0; k < s.n; k++) add_once(d, &all, has, s.v[k]);
  }
  return all;
}
/* Judges values of tensors by values of those that they are made of. Where the definitions refuse, which may be because
 * of one of them, each half is tried by itself. True: one is wrong; k tells which. */
static bool judge(portion *k, const u32vec *tensors, const values *from, bool constants) {
  diff *d = k->d;
  const u32vec sources = sources_of_all(d, tensors, given_tensors(d));
  ndarray *got = NEWN(d->a, ndarray, tensors->n + 1);
  for (uint32_t i = 0; i < tensors->n; i++) got[i] = from->of(from->env, d->t.v[tensors->v[i]].name);
  k->part = part_from(d, &sources, from, tensors, constants);
  k->tensors = tensors, k->got = got, k->wrong = UINT32_MAX, k->done = 0;
  const ek_code code = diff_truth(d, &k->part, IN_F64, &(truth_reader){judge_one, k});
  if (k->wrong != UINT32_MAX) return true;
  if (!code || k->done == tensors->n) return false;
  const uint32_t done = k->done, n = tensors->n - done;
  if (n > 1) {
    const u32vec first = {.v = tensors->v + done, .n = n / 2}, rest = {.v = tensors->v + done + n / 2, .n = n - n / 2};
    return judge(k, &first, from, constants) || judge(k, &rest, from, constants);
  }
  const u32vec last = {.v = tensors->v + done, .n = 1};
  if (!constants) return judge(k, &last, from, true);
  if (k->tells) tell(d, last.v[0], 0, false, arena_strdup(d->a, ek_message(d->m->s)));
  return false;
}
static void found(diff *d, ek_verdict who, uint32_t t, const judgement *j, const ndarray *x) {
  const node *n = d->g->nodes.v[d->t.v[t].node];
  arena *a = ctx_arena(d->c);
  ek_difference *r = d->r;
  r->verdict = who, r->tensor = arena_strdup(a, d->t.v[t].name), r->node = arena_strdup(a, n->name);
  r->op = arena_strdup(a, n->op), r->why = j->why ? arena_strdup(a, j->why) : NULL;
  r->count = j->count, r->wrong = j->bad, r->got = j->got, r->want = j->want, r->allowed = j->allowed;
  r->type = (ek_type)et_to_onnx(x->type), r->rank = (int32_t)x->rank;
  memcpy(r->dims, x->dims, x->rank * sizeof *x->dims);
  int64_t at = j->worst < 0 ? 0 : j->worst;
  for (uint32_t i = x->rank; i-- > 0;) {
    const int64_t n = x->dims[i] ? x->dims[i] : 1;
    r->place[i] = at % n, at /= n;
  }
}
/* The next tensors that fit into memory together with what they are made of. */
static u32vec next_tensors(diff *d, uint32_t *at, u32vec *all) {
  const bool *stop = given_tensors(d);
  bool *has = NEWN(d->a, bool, d->t.n + 1);
  u32vec some = {0};
  size_t bytes = 0;
  *all = (u32vec){0};
  for (; *at < d->t.n; ++*at) {
    const u32vec from = diff_sources(d, *at, stop).tensors;
    size_t more = has[*at] ? 0 : d->t.v[*at].bytes;
    for (uint32_t i = 0; i < from.n; i++) more += has[from.v[i]] ? 0 : d->t.v[from.v[i]].bytes;
    if (some.n && bytes + more > AT_A_TIME) break;
    bytes += more;
    vec_push(d->a, some, *at);
    add_once(d, all, has, *at);
    for (uint32_t i = 0; i < from.n; i++) add_once(d, all, has, from.v[i]);
  }
  return some;
}
static bool stopped(diff *d, double done) {
  d->done = done;
  return d->progress && d->progress(d->progress_user, "comparing tensors", done);
}
static uint32_t tensor_of(const diff *d, const value *v) {
  uint64_t x;
  return map_getu(d->of, key(v), &x) && x ? (uint32_t)x - 1 : UINT32_MAX;
}
/* A module gives these tensors, and the model's outputs. */
static void remember_outputs(diff *d, const u32vec *tensors) {
  for (uint32_t i = 0; i < tensors->n; i++) d->looked_at[tensors->v[i]] = true;
  for (uint32_t i = 0; i < d->g->outputs.n; i++) {
    const uint32_t t = tensor_of(d, d->g->outputs.v[i]);
    if (t != UINT32_MAX) d->looked_at[t] = true;
  }
}
/* Those whose values say whether they are right. A derivative follows from how its node's inputs were computed, not
 * from their values: it is judged among the model's outputs alone. */
static u32vec judged_by_values(diff *d, const u32vec *tensors, bool tells) {
  u32vec out = {0};
  for (uint32_t i = 0; i < tensors->n; i++) {
    const node *n = d->g->nodes.v[d->t.v[tensors->v[i]].node];
    if (strcmp(n->op, "Gradient") != 0 || strcmp(n->domain, "ai.onnx.preview.training") != 0)
      vec_push(d->a, out, tensors->v[i]);
    else if (tells)
      tell(d, tensors->v[i], 0, false, "a derivative follows from how its node's inputs were computed");
  }
  return out;
}
static ek_code compare_next(diff *d, uint32_t *at, uint32_t *wrong) {
  u32vec all;
  const u32vec some = next_tensors(d, at, &all);
  const char *const *names = names_of(d, &all);
  const ek_code code = diff_run(d, &d->o, NULL, names);
  if (code) return code;
  results r = copied(d, names);
  portion k = {.d = d, .tells = true};
  const u32vec judged = judged_by_values(d, &some, true);
  if (!judge(&k, &judged, &(values){of_results, &r}, false)) return EK_OK;
  *wrong = k.tensors->v[k.wrong];
  found(d, EK_VERDICT_CODE, *wrong, &k.j, &k.got[k.wrong]);
  remember_outputs(d, &all);
  return EK_OK;
}
static ek_code search_code(diff *d, uint32_t *wrong) {
  ek_code code = EK_OK;
  for (uint32_t at = 0; at < d->t.n && *wrong == UINT32_MAX && !code;) {
    diff_clear(d);
    code = compare_next(d, &at, wrong);
    if (!code && stopped(d, 0.9 * at / d->t.n))
      code = session_fail(d->m->s, EK_CANCELLED, "cancelled while comparing tensors");
  }
  return code;
}

/* ---- 3. the outputs, with nobody looking between --------------------------------------------- */
/* The model ended at tensor t is wrong there: told. */
static void found_end(diff *d, uint32_t t) {
  const char *const end[] = {d->t.v[t].name, NULL};
  const graph_part p = diff_part(d, NULL, 0, end);
  const ek_options o = diff_part_options(d);
  truth x;
  if (truth_of(d, &p, &x) && !diff_run(d, &o, &(inner_options){.part = &p}, NULL)) {
    const ndarray got = diff_result(d, end[0]);
    const judgement j = diff_judge(d, &x, &got);
    if (j.wrong) found(d, EK_VERDICT_CODE, t, &j, &got);
  }
  truth_end(&x);
}
static ek_code search_outputs(diff *d, uint32_t *wrong) {
  u32vec outputs = {0};
  diff_clear(d);
  for (uint32_t i = 0; i < d->g->outputs.n; i++) {
    const uint32_t t = tensor_of(d, d->g->outputs.v[i]);
    if (t != UINT32_MAX) vec_push(d->a, outputs, t);
  }
  ek_code code = diff_run(d, &d->o, NULL, NULL);
  if (code || !outputs.n) return code;
  const char *const *names = names_of(d, &outputs);
  results r = copied(d, names);
  portion k = {.d = d, .tensors = &outputs, .got = NEWN(d->a, ndarray, outputs.n), .wrong = UINT32_MAX};
  for (uint32_t i = 0; i < outputs.n; i++) k.got[i] = of_results(&r, names[i]);
  k.part = diff_part(d, NULL, 0, names);
  diff_truth(d, &k.part, IN_F64, &(truth_reader){judge_one, &k});
  if (k.wrong == UINT32_MAX) return EK_OK;
  *wrong = outputs.v[k.wrong];
  found(d, EK_VERDICT_CODE, *wrong, &k.j, &k.got[k.wrong]);
  const uint32_t end = diff_first_end(d, *wrong);
  if (end != *wrong) found_end(d, *wrong = end);
  return EK_OK;
}

/* ---- 4. a reference -------------------------------------------------------------------------- */
typedef struct reference {
  diff *d;
  map *at;      /* name -> its place in v, plus one */
  ek_array *v;  /* values; data NULL: not known */
  bool gave_up; /* the caller's function has failed */
} reference;
static ndarray of_reference(void *env, const char *name) {
  const reference *r = env;
  uint64_t i;
  return map_gets(r->at, name, &i) && r->v[i - 1].data ? array_of(&r->v[i - 1]) : (ndarray){0};
}
static void ask(reference *r, const u32vec *all) {
  r->at = map_new(r->d->a), r->v = NEWN(r->d->a, ek_array, all->n + 1);
  for (uint32_t i = 0; i < all->n; i++) map_puts(r->at, r->d->t.v[all->v[i]].name, i + 1);
  r->gave_up = r->d->want.reference(r->d->want.reference_user, names_of(r->d, all), all->n, r->v) != 0;
}
/* Asks for these tensors and those that they are made of; what the reference does not know is computed from what it
 * knows. */
static void ask_for_sources(reference *r, const u32vec *some) {
  diff *d = r->d;
  bool again = true;
  while (again && !r->gave_up) {
    u32vec all = sources_of_all(d, some, given_tensors(d));
    bool *has = NEWN(d->a, bool, d->t.n + 1);
    for (uint32_t i = 0; i < all.n; i++) has[all.v[i]] = true;
    for (uint32_t i = 0; i < some->n; i++) add_once(d, &all, has, some->v[i]);
    ask(r, &all);
    again = false;
    for (uint32_t i = 0; i < all.n; i++) {
      tensor_node *t = &d->t.v[all.v[i]];
      if (t->given && !of_reference(r, t->name).data) t->given = false, again = true;
    }
  }
}
static ek_code search_reference(diff *d, shown *part) {
  reference r = {.d = d};
  for (uint32_t at = 0; at < d->t.n;) {
    u32vec all;
    diff_clear(d);
    const u32vec some = next_tensors(d, &at, &all);
    ask_for_sources(&r, &some);
    if (r.gave_up) return session_fail(d->m->s, EK_FAILED, "the reference gives no values");
    portion k = {.d = d};
    const u32vec judged = judged_by_values(d, &some, false);
    if (!judge(&k, &judged, &(values){of_reference, &r}, false)) continue;
    found(d, EK_VERDICT_REFERENCE, k.tensors->v[k.wrong], &k.j, &k.got[k.wrong]);
    return diff_reference_part(d, &k.part, k.tensors->v[k.wrong], part);
  }
  return EK_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */
static ek_code search(diff *d) {
  uint32_t wrong = UINT32_MAX;
  shown part = {0};
  ek_code code = survey(d);
  if (!code) code = search_code(d, &wrong);
  if (!code && wrong == UINT32_MAX) code = search_outputs(d, &wrong);
  if (code) return code;
  if (wrong != UINT32_MAX) {
    diff_clear(d);
    code = diff_find_part(d, wrong, &part);
    if (!code && d->want.passes && part.any) diff_find_pass(d, &part);
  } else if (d->want.reference)
    code = search_reference(d, &part);
  truth_end(&part.truth);
  return code;
}
static ek_code guarded(diff *d) {
  volatile ek_code code = EK_FAILED;
  CTX_TRY(d->c) {
    d->a = ctx_arena(d->c), d->of = map_new(d->a), d->node_of = map_new(d->a);
    code = search(d);
  }
  CTX_CATCH { code = session_done(d->m->s, d->c, EK_FAILED); }
  return code;
}
static int inner_progress(void *user, const char *phase, double done) {
  const diff *d = user;
  (void)phase, (void)done;
  return d->progress ? d->progress(d->progress_user, "comparing tensors", d->done) : 0;
}
static void silent(void *user, int level, const char *text) { (void)user, (void)level, (void)text; }
/* The compilations inside tell nothing but how far the whole is. */
static ek_code quietly(diff *d) {
  ek_session *s = d->m->s;
  void (*log)(void *user, int level, const char *text) = s->log;
  d->progress = s->progress, d->progress_user = s->progress_user;
  s->progress = inner_progress, s->progress_user = d, s->log = silent;
  const ek_code code = guarded(d);
  s->progress = d->progress, s->progress_user = d->progress_user, s->log = log;
  return code;
}
ek_code ek_diff(ek_model *m, const ek_diff_options *given, ek_difference *out) {
  if (out) *out = (ek_difference){0};
  if (!m || !out || !given) return session_null(m ? m->s : NULL);
  diff d = {.m = m, .r = out, .c = session_ctx(m->s)};
  ek_diff_options_init(&d.want), ek_options_init(&d.o);
  if (!d.c) return session_fail(m->s, EK_MEMORY, "out of memory");
  ek_code code = EK_OK;
  if (!struct_read(given, &d.want, sizeof d.want))
    code = session_fail(m->s, EK_USAGE, STRUCT_UNKNOWN("ek_diff_options"), given->size, sizeof d.want);
  else if (d.want.options && !struct_read(d.want.options, &d.o, sizeof d.o))
    code = session_fail(m->s, EK_USAGE, STRUCT_UNKNOWN("ek_options"), d.want.options->size, sizeof d.o);
  const size_t n = d.want.save ? strlen(d.want.save) : 0;
  if (!code && d.want.save && (n < 6 || strcmp(d.want.save + n - 5, ".onnx")))
    code = session_fail(m->s, EK_USAGE, "%s: the part is written as NAME.onnx", d.want.save);
  d.o.cache = NULL, d.o.watch = NULL, d.o.states = NULL, d.o.profile = 0, d.o.evaluate = 0, d.o.stop_after = NULL,
  d.o.pass = NULL;
  if (!code) code = quietly(&d);
  diff_end_run(&d);
  ek_module_close(d.sizes);
  ctx_free(d.graph_ctx);
  ctx_free(m->s->scratch);
  m->s->scratch = d.c; /* the result's texts */
  if (!code)
    text_set(&m->s->message, "");
  else
    *out = (ek_difference){0};
  return code;
}
