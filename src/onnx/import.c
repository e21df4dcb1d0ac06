/* How does an ONNX model become a graph?
 *
 * Scope by scope. Entering a graph (or the body of a function that is inlined), first every value its nodes will
 * produce is made, so that the outermost graph keeps the model's own names and a name given twice is seen; Constant
 * nodes become constants at once. Then the nodes are built in dependence order, each with its inputs looked up from the
 * inside out, its regions imported, and brought to the newest form. Initialisers become constants when first used. A
 * call of one of the model's functions is replaced by its body: the values it returns are those of the call. Problems
 * are recorded and the import goes on with what is left, so that one run shows them all; the graph is returned only if
 * there were none.
 */
#include "onnx/import.h"
#include "onnx/expand.h"
#include "onnx/order.h"
#include "onnx/upgrade.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_NODES = 1 << 22, MAX_CALLS = 32 };

static scope scope_new(importer *im, const scope *outer, graph *g, const frame_fn *fn) {
  arena *a = im->scratch;
  return (scope){outer, g, map_new(a), map_new(a), map_new(a), map_new(a), map_new(a), fn};
}

static void *ptr(uint64_t x) { return (void *)(uintptr_t)x; }
static uint64_t num(const void *p) { return (uint64_t)(uintptr_t)p; }

/* ---- names to values ------------------------------------------------------------------------- */
static value *make_constant(importer *im, const scope *s, bytes name, const pb_tensor *t, const pb_sparse *sp) {
  ndarray d;
  const char *label = arena_fmt(im->a, "initialiser '%s'", name_shown(im, name));
  bool ok = t ? tensor_read(&im->src, t, label, &d) : tensor_read_sparse(&im->src, sp, label, &d);
  value *v = ok ? graph_const(s->g, name_text(im, name), &d) : graph_value(s->g, name_text(im, name));
  map_put(s->values, name.p, name.n, num(v));
  return v;
}

/* False: no such name. *out may be NULL: an input that a call left out. */
static bool find_value(importer *im, const scope *s, bytes name, value **out) {
  for (; s; s = s->outer) {
    uint64_t p;
    if (map_get(s->values, name.p, name.n, &p)) {
      *out = ptr(p);
      return true;
    }
    if (map_get(s->tensors, name.p, name.n, &p)) {
      *out = make_constant(im, s, name, ptr(p), NULL);
      return true;
    }
    if (map_get(s->sparse, name.p, name.n, &p)) {
      *out = make_constant(im, s, name, NULL, ptr(p));
      return true;
    }
  }
  return false;
}

static const char *made_name(importer *im, const frame_fn *fn, bytes name) {
  const char *s = name_text(im, name);
  return fn && s[0] ? arena_fmt(im->a, "%s/%s", fn->prefix, s) : s;
}

static bool is_constant(const pb_node *p) {
  return p->domain.n == 0 && p->op.n == 8 && memcmp(p->op.p, "Constant", 8) == 0;
}

/* Phase 1: all that the nodes produce. A value already there under the name is the caller's (a function's result)
 * when nobody made it here yet. */
static void make_values(importer *im, scope *s, const pb_nodes *nodes, const map *given) {
  for (uint32_t i = 0; i < nodes->n; i++) {
    const pb_node *p = &nodes->v[i];
    for (uint32_t k = 0; k < p->output.n; k++) {
      bytes name = p->output.v[k];
      uint64_t other;
      if (name.n == 0) continue;
      if (map_get(s->makers, name.p, name.n, &other)) {
        diag_error(im->c, E_MODEL, node_shown(im, p), "value '%s' is produced twice: by '%s' already",
                   name_shown(im, name), node_shown(im, ptr(other)));
        continue;
      }
      if (map_get(s->values, name.p, name.n, NULL) || map_get(s->tensors, name.p, name.n, NULL) ||
          map_get(s->sparse, name.p, name.n, NULL)) {
        diag_error(im->c, E_MODEL, node_shown(im, p),
                   "output '%s' has the name of an input or initialiser of the same graph", name_shown(im, name));
        continue;
      }
      map_put(s->makers, name.p, name.n, num(p));
      value *v;
      ndarray d;
      if (is_constant(p) && k == 0)
        v = constant_node(im, s, p, &d) ? graph_const(s->g, made_name(im, s->fn, name), &d)
                                        : graph_value(s->g, made_name(im, s->fn, name));
      else if (given && map_get(given, name.p, name.n, &other))
        v = ptr(other);
      else
        v = graph_value(s->g, made_name(im, s->fn, name));
      uint64_t t;
      if (!is_constant(p) && map_get(s->types, name.p, name.n, &t))
        declare_type(im, v, ptr(t), s->g->parent || s->fn ? TYPE_REGION_INPUT : TYPE_OTHER);
      v->literal = v->data != NULL;
      map_put(s->values, name.p, name.n, num(v));
    }
  }
}

static void build_nodes(importer *im, const scope *s, const pb_nodes *nodes);

/* ---- functions of the model ------------------------------------------------------------------ */
static const char *function_key(importer *im, bytes domain, bytes name, bytes overload) {
  return arena_fmt(im->scratch, "%s\n%s\n%s", domain_text(im, domain), name_text(im, name), name_text(im, overload));
}

static const pb_function *find_function(importer *im, const pb_node *p) {
  uint64_t f;
  return map_count(im->functions) && map_gets(im->functions, function_key(im, p->domain, p->op, p->overload), &f)
             ? ptr(f)
             : NULL;
}

static void inline_call(importer *im, const scope *s, const pb_node *p, const pb_function *f) {
  const char *who = node_shown(im, p);
  frame_fn fr = {f, map_new(im->scratch), NULL, s->fn ? s->fn->depth + 1 : 1};
  if (fr.depth > MAX_CALLS)
    ctx_fail(im->c, E_MODEL, "function '%s' calls itself, or calls are nested deeper than %d (at node '%s')",
             name_shown(im, f->name), MAX_CALLS, who);
  if (p->input.n > f->input.n || p->output.n > f->output.n) {
    diag_error(im->c, E_MODEL, who, "function '%s' takes %u inputs and gives %u outputs, the call has %u and %u",
               name_shown(im, f->name), f->input.n, f->output.n, p->input.n, p->output.n);
    return;
  }
  const char *base = made_name(im, s->fn, p->name.n ? p->name : p->output.n ? p->output.v[0] : p->op);
  fr.prefix = base;
  for (uint32_t i = 0; i < f->attr_default.n; i++)
    map_put(fr.attrs, f->attr_default.v[i].name.p, f->attr_default.v[i].name.n, num(&f->attr_default.v[i]));
  for (uint32_t i = 0; i < p->attr.n; i++) {
    const pb_attr *a = attr_resolve(s->fn, &p->attr.v[i]);
    if (a && a->g)
      diag_error(im->c, E_UNSUPPORTED, who, "a graph as an attribute of a function call is not supported");
    else if (a)
      map_put(fr.attrs, p->attr.v[i].name.p, p->attr.v[i].name.n, num(a));
  }
  scope in = scope_new(im, NULL, s->g, &fr);
  for (uint32_t i = 0; i < f->input.n; i++) {
    value *v = NULL;
    bytes given = i < p->input.n ? p->input.v[i] : (bytes){0};
    if (given.n && !find_value(im, s, given, &v))
      diag_error(im->c, E_MODEL, who, "input '%s' is produced by nothing", name_shown(im, given));
    map_put(in.values, f->input.v[i].p, f->input.v[i].n, num(v));
  }
  map *results = map_new(im->scratch); /* the function's name of a result to the caller's value */
  for (uint32_t i = 0; i < p->output.n; i++) {
    value *v = NULL;
    if (p->output.v[i].n && find_value(im, s, p->output.v[i], &v) && v &&
        !map_get(results, f->output.v[i].p, f->output.v[i].n, NULL))
      map_put(results, f->output.v[i].p, f->output.v[i].n, num(v));
  }
  make_values(im, &in, &f->node, results);
  build_nodes(im, &in, &f->node);
  /* Results that are an input, a constant, or another result: passed on by a node of their own. */
  for (uint32_t i = 0; i < p->output.n; i++) {
    value *to = NULL, *from = NULL;
    if (!p->output.v[i].n || !find_value(im, s, p->output.v[i], &to) || !to || to->def || to->data) continue;
    if (!find_value(im, &in, f->output.v[i], &from) || !from) {
      diag_error(im->c, E_MODEL, who, "function '%s' does not produce its output '%s'", name_shown(im, f->name),
                 name_shown(im, f->output.v[i]));
      continue;
    }
    if (from == to) continue;
    node *n = graph_node(s->g, "Identity", "", base);
    vec_push(im->a, n->in, from);
    vec_push(im->a, n->out, to);
    to->def = n;
  }
}

/* ---- nodes ----------------------------------------------------------------------------------- */
/* Gradient is told names: of the values to differentiate by (xs), of others that stay as they are (zs), and of the one
 * to differentiate (y). Its inputs are values for xs and zs: those of these names. y becomes the last input. */
static void read_gradient(importer *im, const scope *s, node *n) {
  const attr *names[] = {node_attr(n, "xs"), node_attr(n, "zs")}, *y = node_attr(n, "y");
  const char *of = y && y->kind == AK_STRING ? y->s : "";
  value *v = NULL;
  uint32_t at = 0;
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t i = 0; names[k] && names[k]->kind == AK_STRINGS && i < names[k]->n; i++, at++) {
      const char *name = names[k]->strings[i];
      const value *in = at < n->in.n ? n->in.v[at] : NULL;
      if (in && find_value(im, s, (bytes){(const uint8_t *)name, strlen(name)}, &v) && v == in) continue;
      diag_error(im->c, E_UNSUPPORTED, n->name,
                 "Gradient: input %u is '%s'; only the value that %s names, '%s', is supported there", at,
                 in ? in->source : "", k ? "zs" : "xs", name);
      return;
    }
  if (!find_value(im, s, (bytes){(const uint8_t *)of, strlen(of)}, &v) || !v || (!v->def && !v->data))
    diag_error(im->c, E_MODEL, n->name, "Gradient: y names '%s', and no node before this one computes that", of);
  else
    vec_push(im->a, n->in, v);
}
static void build_node(importer *im, const scope *s, const pb_node *p) {
  const pb_function *f = find_function(im, p);
  if (im->nodes++ >= MAX_NODES)
    ctx_fail(im->c, E_MEMORY, "'%s' has more than %d nodes (functions inlined), which is not supported", im->src.name,
             MAX_NODES);
  if (f) {
    inline_call(im, s, p, f);
    return;
  }
  const char *domain = domain_text(im, p->domain), *op = name_text(im, p->op);
  if (!op[0]) {
    diag_error(im->c, E_MODEL, node_shown(im, p), "the node has no operator");
    return;
  }
  int64_t version = opset_of(im, s->fn, domain);
  if (!version && !domain[0]) version = 1;
  const char *name = p->name.n ? made_name(im, s->fn, p->name)
                     : s->fn   ? arena_fmt(im->a, "%s/%s", s->fn->prefix, op)
                               : NULL;
  node *n = graph_node(s->g, op, domain, name);
  for (uint32_t i = 0; i < p->input.n; i++) {
    value *v = NULL;
    bytes in = p->input.v[i];
    if (in.n && !find_value(im, s, in, &v))
      diag_error(im->c, E_MODEL, node_shown(im, p),
                 "input %u of %s is '%s', which nothing produces: no node, input or initialiser has this name", i, op,
                 name_shown(im, in));
    vec_push(im->a, n->in, v);
  }
  while (n->in.n && !n->in.v[n->in.n - 1]) n->in.n--;
  for (uint32_t i = 0; i < p->output.n; i++) {
    value *v = NULL;
    uint64_t have, maker;
    bytes out = p->output.v[i];
    if (out.n && map_get(s->values, out.p, out.n, &have) && map_get(s->makers, out.p, out.n, &maker) &&
        ptr(maker) == p) {
      v = ptr(have);
      if (v->def || v->data)
        v = NULL; /* the same name twice in one node: reported already */
      else
        v->def = n;
    }
    vec_push(im->a, n->out, v);
  }
  import_attrs(im, s, p, n);
  if (!domain[0]) upgrade_node(s->g, n, version);
  expand_node(s->g, n, version, im->standard);
  if (!im->standard && !strcmp(domain, "ai.onnx.preview.training") && !strcmp(op, "Gradient")) read_gradient(im, s, n);
}

static void build_nodes(importer *im, const scope *s, const pb_nodes *nodes) {
  const uint32_t *order = order_nodes(im->scratch, nodes);
  for (uint32_t i = 0; order && i < nodes->n; i++)
    if (!is_constant(&nodes->v[order[i]])) build_node(im, s, &nodes->v[order[i]]);
}

/* A value somebody uses must come from somewhere; what does not is an output that was dropped (of a training form)
 * or whose node is broken. */
static void check_use(importer *im, value *v, const char *who, const map *entries) {
  if (v && !v->def && !v->data && !map_getu(entries, num(v), NULL) && diag_errors(im->c) == 0)
    diag_error(im->c, E_UNSUPPORTED, who, "'%s' is used, but its operator no longer gives such an output", v->source);
}

static void check_uses(importer *im, const graph *g, map *entries) {
  for (uint32_t i = 0; i < g->inputs.n; i++) map_putu(entries, num(g->inputs.v[i]), 1);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    n->id = i;
    for (uint32_t k = 0; k < n->in.n; k++) check_use(im, n->in.v[k], n->name, entries);
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g) check_uses(im, n->attrs.v[k].g, entries);
  }
  for (uint32_t i = 0; i < g->outputs.n; i++) check_use(im, g->outputs.v[i], g->name, entries);
}

/* ---- graphs ---------------------------------------------------------------------------------- */
static void import_graph(importer *im, scope *s, const pb_graph *p) {
  bool root = !s->g->parent;
  for (uint32_t i = 0; i < p->init.n; i++) {
    bytes name = p->init.v[i].name;
    if (map_get(s->tensors, name.p, name.n, NULL))
      diag_error(im->c, E_MODEL, NULL, "initialiser '%s' is there twice", name_shown(im, name));
    map_put(s->tensors, name.p, name.n, num(&p->init.v[i]));
  }
  for (uint32_t i = 0; i < p->sparse_init.n; i++)
    if (p->sparse_init.v[i].values)
      map_put(s->sparse, p->sparse_init.v[i].values->name.p, p->sparse_init.v[i].values->name.n,
              num(&p->sparse_init.v[i]));
  for (uint32_t i = 0; i < p->input.n; i++) {
    bytes name = p->input.v[i].name;
    /* a weight listed as an input, as old files do */
    if (map_get(s->tensors, name.p, name.n, NULL) || map_get(s->sparse, name.p, name.n, NULL)) continue;
    if (name.n == 0 || map_get(s->values, name.p, name.n, NULL)) {
      diag_error(im->c, E_MODEL, NULL, "graph '%s': input %u %s", s->g->name, i,
                 name.n ? arena_fmt(im->a, "'%s' is there twice", name_shown(im, name)) : "has no name");
      continue;
    }
    value *v = graph_value(s->g, name_text(im, name));
    if (!root || !declare_map(im, s->g, v, p->input.v[i].type)) {
      declare_type(im, v, p->input.v[i].type, root ? TYPE_INPUT : TYPE_REGION_INPUT);
      vec_push(im->a, s->g->inputs, v);
    }
    map_put(s->values, name.p, name.n, num(v));
  }
  for (uint32_t k = 0; k < 2; k++) {
    uint32_t n = k ? p->output.n : p->info.n;
    for (uint32_t i = 0; i < n; i++) {
      const pb_value *v = k ? &p->output.v[i] : &p->info.v[i];
      if (v->type && !v->type->map && !v->type->sparse)
        map_put(s->types, v->name.p, v->name.n, num(v->type));
      else if (k && root && v->type && (v->type->map || v->type->sparse))
        diag_error(im->c, E_UNSUPPORTED, name_shown(im, v->name),
                   "output '%s' is neither a tensor nor a sequence of tensors (maps and sparse tensors as outputs are "
                   "not supported)",
                   name_shown(im, v->name));
    }
  }
  make_values(im, s, &p->node, NULL);
  build_nodes(im, s, &p->node);
  for (uint32_t i = 0; i < p->output.n; i++) {
    value *v = NULL;
    if (!find_value(im, s, p->output.v[i].name, &v) || !v)
      diag_error(im->c, E_MODEL, name_shown(im, p->output.v[i].name),
                 "output '%s' of graph '%s' is produced by nothing", name_shown(im, p->output.v[i].name), s->g->name);
    else
      vec_push(im->a, s->g->outputs, v);
  }
}

graph *import_region(importer *im, const scope *outer, const pb_graph *p) {
  graph *g = graph_new(im->c, outer->g, name_text(im, p->name));
  scope s = scope_new(im, outer, g, outer->fn);
  import_graph(im, &s, p);
  return g;
}

/* ---- models ---------------------------------------------------------------------------------- */
static void check_versions(importer *im) {
  const pb_model *m = im->m;
  if (!m->graph && m->ir_version.v <= 0)
    ctx_fail(im->c, E_MODEL, "'%s' is not an ONNX model: it has neither a version nor a graph", im->src.name);
  if (!m->graph) ctx_fail(im->c, E_MODEL, "'%s' has no graph", im->src.name);
  if (m->ir_version.v <= 0) ctx_fail(im->c, E_MODEL, "'%s' has no IR version: is it an ONNX model?", im->src.name);
  if (m->ir_version.v > ONNX_NEWEST_IR)
    diag_warn(im->c, NULL,
              "'%s' is of IR version %" PRId64 ", newer than the newest known (%d); it is read as if it were that",
              im->src.name, m->ir_version.v, ONNX_NEWEST_IR);
  else if (m->ir_version.v < 3)
    diag_warn(im->c, NULL, "'%s' is of IR version %" PRId64 ", older than 3; it is read as well as possible",
              im->src.name, m->ir_version.v);
  int64_t v = opset_of(im, NULL, "");
  if (v == 0 && m->ir_version.v >= 3 && m->opset.n == 0)
    ctx_fail(im->c, E_MODEL, "'%s' does not say which operator set it is for (opset_import is empty)", im->src.name);
  if (v < 0) ctx_fail(im->c, E_MODEL, "'%s' is for the impossible opset %" PRId64, im->src.name, v);
  if (v > ONNX_NEWEST_OPSET)
    diag_warn(im->c, NULL,
              "'%s' is for opset %" PRId64 ", newer than the newest known (%d); its operators are read as of that",
              im->src.name, v, ONNX_NEWEST_OPSET);
  else if (v && v < 7)
    diag_warn(im->c, NULL, "'%s' is for opset %" PRId64 ", older than 7; it is converted as well as possible",
              im->src.name, v);
}

static graph *import_model(importer *im) {
  check_versions(im);
  for (uint32_t i = 0; i < im->m->function.n; i++) {
    const pb_function *f = &im->m->function.v[i];
    map_puts(im->functions, function_key(im, f->domain, f->name, f->overload), num(f));
  }
  graph *g = graph_new(im->c, NULL, name_text(im, im->m->graph->name));
  g->file = im->src.path;
  g->producer = arena_fmt(im->a, im->m->producer_version.n ? "%s %s" : "%s%s", name_shown(im, im->m->producer),
                          name_shown(im, im->m->producer_version));
  g->ir_version = im->m->ir_version.v;
  g->opset = opset_of(im, NULL, "");
  for (uint32_t i = 0; i < im->m->opset.n; i++) {
    attr a = {.name = domain_text(im, im->m->opset.v[i].domain), .kind = AK_INT, .i = im->m->opset.v[i].version.v};
    if (a.name[0]) vec_push(im->a, g->domains, a);
  }
  for (uint32_t i = 0; i < im->m->metadata.n; i++) {
    const pb_pair *p = &im->m->metadata.v[i];
    attr a = {.name = name_text(im, p->key),
              .kind = AK_STRING,
              .s = arena_strndup(im->a, (const char *)p->value.p, p->value.n)};
    vec_push(im->a, g->metadata, a);
  }
  scope s = scope_new(im, NULL, g, NULL);
  import_graph(im, &s, im->m->graph);
  check_uses(im, g, map_new(im->scratch));
  return g;
}

typedef struct request {
  bytes model;        /* bytes of the file */
  const char *path;   /* path of the file; NULL: in memory */
  const char *name;   /* name for messages */
  const char *folder; /* where external data lie; NULL: nowhere */
  bool standard;      /* operators stay those of the standard */
  bool ok;            /* the import succeeded */
  graph *g;           /* the result */
} request;

static void load(ctx *c, request *r, arena *scratch) {
  importer im = {.c = c,
                 .a = ctx_arena(c),
                 .scratch = scratch,
                 .src = {c, r->model, r->path, r->name, r->folder},
                 .standard = r->standard};
  im.functions = map_new(scratch);
  im.symbols = map_new(scratch);
  im.symbol_names = map_new(scratch);
  im.m = pb_read_model(scratch, r->model, r->name);
  r->g = import_model(&im);
  r->ok = true;
}

/* The outermost frame: nothing unwinds past it. */
static graph *load_in_frame(ctx *c, request *r) {
  uint32_t errors = diag_errors(c);
  arena *volatile scratch = NULL;
  CTX_TRY(c) {
    scratch = arena_new(c);
    if (r->path) {
      if (!file_map(c, r->path, &r->model)) ctx_unwind(c);
      r->folder = path_dir(ctx_arena(c), r->path);
    }
    load(c, r, scratch);
  }
  CTX_CATCH { r->ok = false; }
  arena_free(scratch);
  return r->ok && diag_errors(c) == errors ? r->g : NULL;
}

graph *onnx_load_standard(ctx *c, const char *path, bytes model, const char *name) {
  request r = {.path = path, .model = model, .name = name, .standard = true};
  return load_in_frame(c, &r);
}

graph *onnx_load_bytes(ctx *c, bytes model, const char *name, const char *folder) {
  request r = {.model = model, .name = name, .folder = folder};
  return load_in_frame(c, &r);
}

graph *onnx_load_file(ctx *c, const char *path) {
  request r = {.path = path, .name = path};
  return load_in_frame(c, &r);
}

static bool read_tensor_file(ctx *c, const char *path, ndarray *out, const char **name) {
  bytes f;
  if (!file_map(c, path, &f)) return false;
  const pb_tensor *t = pb_read_tensor(ctx_arena(c), f, path);
  tensor_source src = {c, f, path, path, path_dir(ctx_arena(c), path)};
  if (name) *name = arena_strndup(ctx_arena(c), (const char *)t->name.p, t->name.n);
  return tensor_read(&src, t, arena_fmt(ctx_arena(c), "tensor '%s'", path), out);
}

bool onnx_tensor_file(ctx *c, const char *path, ndarray *out, const char **name) {
  volatile bool ok = false;
  CTX_TRY(c) { ok = read_tensor_file(c, path, out, name); }
  CTX_CATCH { ok = false; }
  return ok;
}

static bool read_value_file(ctx *c, const char *path, value_kind kind, const ndarray **out, int64_t *n) {
  bytes f;
  if (!file_map(c, path, &f)) return false;
  arena *a = ctx_arena(c);
  bool optional = kind != VALUE_LIST, list = kind != VALUE_OPTIONAL;
  const pb_list *l = pb_read_list(a, f, optional, path), *from = optional && list ? l->inner : l;
  tensor_source src = {c, f, path, path, path_dir(a, path)};
  *n = from ? (int64_t)from->tensors.n : -1;
  if (!list && *n == 0) *n = -1;
  ndarray *made = NEWN(a, ndarray, *n > 0 ? *n : 1);
  for (int64_t i = 0; i < *n; i++)
    if (!tensor_read(&src, &from->tensors.v[i], arena_fmt(a, "tensor %lld of '%s'", (long long)i, path), &made[i]))
      return false;
  *out = made;
  return true;
}

bool onnx_value_file(ctx *c, const char *path, value_kind kind, const ndarray **out, int64_t *n) {
  volatile bool ok = false;
  if (kind == VALUE_TENSOR) {
    ndarray *one = NEW(ctx_arena(c), ndarray);
    *out = one, *n = 1;
    return onnx_tensor_file(c, path, one, NULL);
  }
  CTX_TRY(c) { ok = read_value_file(c, path, kind, out, n); }
  CTX_CATCH { ok = false; }
  return ok;
}
