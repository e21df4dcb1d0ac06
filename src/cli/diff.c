/* einkorn diff: which tensor is wrong first, and why? The library does it (ek_diff); here the reference's values are
 * fetched, and the result is told. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

/* ---- a reference ------------------------------------------------------------------------------------------------- */
typedef struct reference {
  cli *k;                 /* the program */
  npz file;               /* arrays of --against FILE.npz, or of the last answer of an engine */
  const char *engine;     /* an engine that is asked; NULL: `file` has all */
  const ek_array *inputs; /* what it gets */
  size_t n;               /* number of inputs */
  const char *why;        /* why it has failed; NULL: it has not */
} reference;
static void fill(reference *r, const char *const *names, size_t n, ek_array *values) {
  for (size_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < r->file.n; j++) {
      const ndarray *d = &r->file.arrays[j];
      const char *name = r->file.names[j];
      if (strcmp(name, names[i]) && (strncmp(name, "out_", 4) || strcmp(name + 4, names[i]))) continue;
      if (!et_bytes(d->type)) continue;
      values[i] = (ek_array){.name = names[i],
                             .type = (ek_type)et_to_onnx(d->type),
                             .rank = (int32_t)d->rank,
                             .data = d->data,
                             .bytes = d->bytes};
      memcpy(values[i].dims, d->dims, d->rank * sizeof *d->dims);
    }
}
static int values_of(void *user, const char *const *names, size_t n, ek_array *values) {
  reference *r = user;
  if (r->engine && !(r->why = peer_values(r->k, r->engine, (peer_question){r->inputs, r->n, names, n}, &r->file)))
    fill(r, names, n, values);
  else if (!r->engine)
    fill(r, names, n, values);
  return r->why != NULL;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */
/* The module is compiled for its inputs' types and open sizes only. */
static bool read_inputs(cli *k, ek_model *model, ek_array **out, int32_t *n, int *code) {
  ek_options o = compile_options(k);
  ek_module *m;
  ek_run *r;
  host_tensor *in;
  o.evaluate = 1, o.cache = NULL;
  ek_code e = ek_compile(model, &o, &m);
  if (!e) e = make_run(k, m, &r);
  if (e) {
    *code = fail(k, e);
    return false;
  }
  if (!bind_inputs(k, m, r, &in, code)) return false;
  *n = ek_module_inputs(m);
  *out = NEWN(k->a, ek_array, *n + 1);
  for (int32_t i = 0; i < *n; i++) {
    const ndarray *d = &in[i].d;
    (*out)[i] = (ek_array){.name = arena_strdup(k->a, in[i].info.name),
                           .type = in[i].info.type,
                           .rank = (int32_t)d->rank,
                           .data = d->data,
                           .bytes = d->bytes};
    memcpy((*out)[i].dims, d->dims, d->rank * sizeof *d->dims);
  }
  ek_module_close(m);
  return true;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */
typedef struct listing {
  cli *k;  /* the program */
  json *j; /* with --json */
} listing;
static void tell_tensor(void *user, const ek_checked *x) {
  listing *l = user;
  if (l->k->json) {
    json_obj(l->j, NULL);
    json_str(l->j, "name", x->name);
    json_str(l->j, "node", x->node);
    json_str(l->j, "op", x->op);
    if (x->skipped)
      json_str(l->j, "skipped", x->skipped);
    else
      json_num(l->j, "error", x->error), json_bool(l->j, "wrong", x->wrong);
    json_end(l->j);
  } else if (x->skipped && !l->k->quiet) {
    progress_clear();
    printf("%s, which node %s (%s) computes, was not compared: %s\n", x->name, x->node, x->op, x->skipped);
  } else if (l->k->verbose) {
    progress_clear();
    printf("%s  %s (%s)  error %.2g%s\n", x->name, x->node, x->op, x->error, x->wrong ? "  WRONG" : "");
  }
}
static const char *type_text(cli *k, const ek_difference *d) {
  return tensor_text(k->a, et_from_onnx((int)d->type), (uint32_t)d->rank, d->dims, NULL);
}
static void tell_json(cli *k, const ek_difference *d, json *j) {
  static const char *const words[] = {"same", "code", "reference"};
  json_str(j, "verdict", words[d->verdict]);
  json_int(j, "checked", (int64_t)d->checked);
  json_int(j, "skipped", (int64_t)d->skipped);
  if (!d->tensor) return;
  json_str(j, "tensor", d->tensor);
  json_str(j, "node", d->node);
  json_str(j, "op", d->op);
  json_str(j, "type", type_text(k, d));
  if (d->why) json_str(j, "why", d->why);
  json_int(j, "count", d->count);
  json_int(j, "wrong", d->wrong);
  json_str(j, "place", place_text(k->a, (uint32_t)d->rank, d->place));
  json_num(j, "got", d->got);
  json_num(j, "want", d->want);
  json_num(j, "allowed", d->allowed);
  json_arr(j, "part");
  for (size_t i = 0; i < d->part_nodes; i++) json_str(j, NULL, d->part[i]);
  json_end(j);
  if (d->pass) json_str(j, "pass", d->pass);
  if (d->rewrite) json_int(j, "rewrite", (int64_t)d->rewrite);
}
static void tell_part(cli *k, const ek_difference *d) {
  if (!d->part_nodes) {
    printf("no part of the model shows it when it is compiled alone\n");
    return;
  }
  printf("the smallest part that shows it: %zu node%s:", d->part_nodes, d->part_nodes > 1 ? "s" : "");
  for (size_t i = 0; i < d->part_nodes && i < 8; i++) printf("%s %s", i ? "," : "", d->part[i]);
  printf("%s\n", d->part_nodes > 8 ? ", ..." : "");
  if (k->output) {
    const int stem = (int)strlen(k->output) - 5;
    printf("written: %s; to see it: einkorn run %s --inputs %.*s.npz --expect %.*s.npz\n", k->output, k->output, stem,
           k->output, stem, k->output);
  } else
    printf("(-o NAME.onnx writes it, with its inputs and right results)\n");
}
static void tell(cli *k, const ek_difference *d) {
  if (d->verdict == EK_VERDICT_SAME) {
    printf("%zu tensors compared: none differs by more than rounding explains%s\n", d->checked,
           k->against && strcmp(k->against, "eval") ? ", nor do those of the reference" : "");
    return;
  }
  printf("first wrong tensor: %s, which node %s (%s) computes\n", d->tensor, d->node, d->op);
  if (d->verdict == EK_VERDICT_REFERENCE)
    printf("the compiled code is right; %s is wrong: for its own inputs of %s, the definition%s another value\n",
           k->against, d->part_nodes > 1 ? "these nodes" : "this node", d->part_nodes > 1 ? "s give" : " gives");
  if (d->why)
    printf("  %s\n", d->why);
  else
    printf("  %s: %lld of %lld elements differ; most at %s: %.9g, right is %.9g, rounding explains %.2g\n",
           type_text(k, d), (long long)d->wrong, (long long)d->count, place_text(k->a, (uint32_t)d->rank, d->place),
           d->got, d->want, d->allowed);
  tell_part(k, d);
  if (d->pass && d->rewrite)
    printf("the values change with rewrite %llu, of pass %s: `--fuel %llu` is right, `--fuel %llu` is wrong\n",
           (unsigned long long)d->rewrite, d->pass, (unsigned long long)d->rewrite - 1, (unsigned long long)d->rewrite);
  else if (d->pass)
    printf("the values change in pass %s\n", d->pass);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */
static bool find_reference(cli *k, reference *r, int *code) {
  if (!k->against || !strcmp(k->against, "eval")) return false;
  if (!strcmp(k->against, "onnxruntime"))
    r->engine = k->against;
  else if (!ends_in(k->against, ".npz"))
    *code = fail_text(k, EK_USAGE,
                      arena_fmt(k->a, "error: --against %s: eval, onnxruntime or FILE.npz is expected", k->against));
  else if (!npz_read(k->c, k->against, &r->file))
    ctx_unwind(k->c);
  return *code == EXIT_DONE;
}
int cmd_diff(cli *k) {
  ek_model *model;
  ek_diff_options o;
  ek_difference d;
  int code = EXIT_DONE;
  int32_t n = 0;
  ek_array *inputs;
  reference r = {.k = k};
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  listing l = {k, &j};
  ek_options compile = compile_options(k);
  if (is_library(k->args.v[0]))
    return fail_text(k, EK_USAGE, "error: diff: a compiled library; take the model that it was made of");
  const bool others = find_reference(k, &r, &code);
  if (code) return code;
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (e) return fail(k, e);
  if (!read_inputs(k, model, &inputs, &n, &code)) return code;
  r.inputs = inputs, r.n = (size_t)n;
  ek_diff_options_init(&o);
  o.options = &compile, o.inputs = inputs, o.input_count = (size_t)n;
  o.save = k->output, o.passes = k->passes, o.checked = tell_tensor, o.checked_user = &l;
  if (k->tolerances) o.rtol = k->rtol, o.atol = k->atol;
  if (others) o.reference = values_of, o.reference_user = &r;
  if (k->json) json_obj(&j, NULL), json_arr(&j, "tensors");
  e = ek_diff(model, &o, &d);
  progress_clear();
  if (e && r.why) return fail_text(k, e, arena_fmt(k->a, "error: %s: %s", k->against, r.why));
  if (e) return fail(k, e);
  if (k->json) {
    json_end(&j);
    tell_json(k, &d, &j);
    json_end(&j);
    print_json(&text);
  } else
    tell(k, &d);
  return d.verdict == EK_VERDICT_SAME ? EXIT_DONE : EXIT_FAILED;
}
