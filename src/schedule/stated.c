/* What does a text state of a kernel's schedule, and what is recorded of the schedule that is made? */
#include "schedule/kernel_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of variables ----------------------------------------------------------------------- */
static const char *text_of(kctx *k, atom v) {
  for (uint32_t i = 0; i < k->names.n; i++)
    if (k->names.v[i].var == v) return k->names.v[i].text;
  return NULL;
}
static void give_name(kctx *k, atom v, const char *text) { vec_push(k->a, k->names, ((var_name){v, text})); }
const char *kernel_var_text(kctx *k, atom v) {
  const char *had = text_of(k, v), *base = sym_name(k->c, v), *name = base;
  if (had) return had;
  for (uint32_t n = 2;; n++) { /* variables of different stages may have one name */
    bool taken = false;
    for (uint32_t i = 0; i < k->names.n; i++) taken |= !strcmp(k->names.v[i].text, name);
    if (!taken) break;
    name = arena_fmt(k->a, "%s.%u", base, n);
  }
  give_name(k, v, name);
  return name;
}
void kernel_name_vars(kctx *k, const u32vec *stages) {
  if (!k->stated && !k->made) return;
  for (uint32_t i = 0; i < stages->n; i++) {
    const stage *s = xs(k->m, stages->v[i]);
    u32vec vars = {0};
    kernel_domain(k, stages->v[i], &vars);
    if (s->value) kernel_reduced(k, stages->v[i], &vars);
    for (uint32_t q = 0; q < vars.n; q++) kernel_var_text(k, vars.v[q]);
  }
}
const char *kernel_size_text(kctx *k, sz size) {
  sbuf b = sbuf_new(k->a);
  sym_print(k->c, size, &b);
  return b.s;
}
/* The same without the parentheses. */
const char *kernel_inside(kctx *k, const char *list) {
  const size_t n = strlen(list);
  return *list == '(' && list[n - 1] == ')' ? arena_strndup(k->a, list + 1, n - 2) : list;
}
void kernel_name_joined(kctx *k, atom w, atom u, atom v) {
  if (!k->stated && !k->made) return;
  give_name(
      k, w,
      arena_fmt(k->a, "(%s %s)", kernel_inside(k, kernel_var_text(k, u)), kernel_inside(k, kernel_var_text(k, v))));
}
void kernel_name_split(kctx *k, const atom uv[2], int64_t n, atom quotient, atom w) {
  if (!k->stated && !k->made) return;
  const char *u = kernel_var_text(k, uv[0]), *v = kernel_inside(k, kernel_var_text(k, uv[1]));
  if (quotient) give_name(k, quotient, arena_fmt(k->a, "%s/%lld", u, (long long)n));
  give_name(k, w, arena_fmt(k->a, "(%s%%%lld %s)", u, (long long)n, v));
}

/* ---- what is stated ---------------------------------------------------------------------------- */
const char *kernel_nest_name(const kctx *k, const u32vec *group) {
  return xt(k->m, xs(k->m, group->v[0])->tensor)->name;
}
const directive *stated_next(kctx *k, const u32vec *group, primitive is, uint32_t *at) {
  const nest_record *n = k->stated && group ? record_nest_named(k->stated, kernel_nest_name(k, group)) : NULL;
  if (!k->stated || (group && !n)) return NULL;
  directive *all = n ? n->directives.v : k->stated->directives.v;
  for (const uint32_t count = n ? n->directives.n : k->stated->directives.n; *at < count; ++*at)
    if (all[*at].is == is) {
      all[*at].used = true;
      return &all[(*at)++];
    }
  return NULL;
}
const directive *stated(kctx *k, const u32vec *group, primitive is) {
  uint32_t at = 0;
  return stated_next(k, group, is, &at);
}
bool stated_either(kctx *k, const u32vec *group, primitive is, const char *word, const char *other) {
  const directive *d = stated(k, group, is);
  if (d && !directive_is(d, 0, word) && !directive_is(d, 0, other))
    kernel_refuse(k, d, "expected %s, found %s", primitive_forms[is].words, d->words.v[0]);
  return directive_is(d, 0, word);
}
static void check_used(kctx *k, const directive *all, uint32_t n, const char *what) {
  for (uint32_t i = 0; i < n; i++)
    if (!all[i].used) kernel_refuse(k, &all[i], "it does not apply to this %s", what);
}
void kernel_check_used(kctx *k) {
  if (!k->stated) return;
  check_used(k, k->stated->directives.v, k->stated->directives.n, "kernel");
  for (uint32_t i = 0; i < k->stated->nests.n; i++)
    check_used(k, k->stated->nests.v[i].directives.v, k->stated->nests.v[i].directives.n, "nest");
}
void kernel_refuse(kctx *k, const directive *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vfmt(k->a, fmt, ap);
  va_end(ap);
  diag_add(k->c, D_ERROR, E_USAGE, d->pos, NULL, "kernel %s: %s: %s", k->l.name, primitive_forms[d->is].name, text);
  ctx_unwind(k->c);
}
int64_t kernel_number(kctx *k, const directive *d, const char *word, int64_t least, int64_t most) {
  char *end;
  const int64_t n = int_parse(word, &end);
  if (end == word || *end) kernel_refuse(k, d, "expected a number, found %s", word);
  if (n < least || n > most)
    kernel_refuse(k, d, "%s: expected a number from %lld to %lld", word, (long long)least, (long long)most);
  return n;
}
atom kernel_var_named(kctx *k, const char *word, const u32vec *among) {
  for (uint32_t i = 0; i < among->n; i++)
    if (!strcmp(kernel_var_text(k, among->v[i]), word)) return among->v[i];
  return 0;
}
atom kernel_var(kctx *k, const directive *d, const char *word, const u32vec *among) {
  const atom found = kernel_var_named(k, word, among);
  strvec names = {0};
  if (found) return found;
  for (uint32_t i = 0; i < among->n; i++) vec_push(k->a, names, kernel_var_text(k, among->v[i]));
  sbuf all = sbuf_new(k->a);
  for (uint32_t i = 0; i < names.n; i++) sb_fmt(&all, "%s%s", i ? ", " : "", names.v[i]);
  kernel_refuse(k, d, "there is no variable %s here%s; there are: %s", word, did_you_mean(k->a, word, names.v, names.n),
                names.n ? all.s : "none");
}
bool directive_is(const directive *d, uint32_t word, const char *text) {
  return d && word < d->words.n && !strcmp(d->words.v[word], text);
}

/* ---- what is recorded -------------------------------------------------------------------------- */
directive *kernel_record_new(kctx *k, const u32vec *group, primitive is) {
  if (!k->made) return NULL;
  arena *a = k->p->l->a;
  nest_record *n = group ? record_nest_named(k->made, kernel_nest_name(k, group)) : NULL;
  if (group && !n) {
    vec_push(a, k->made->nests, ((nest_record){.name = kernel_nest_name(k, group)}));
    n = &k->made->nests.v[k->made->nests.n - 1];
  }
  return record_add(a, k->made, n, is);
}
void kernel_record_word(kctx *k, directive *d, const char *word) {
  if (d) record_word(k->p->l->a, d, arena_strdup(k->p->l->a, word));
}
void kernel_record_number(kctx *k, directive *d, int64_t n) {
  if (d) record_number(k->p->l->a, d, n);
}
void kernel_record_vars(kctx *k, const u32vec *group, primitive is, const u32vec *vars) {
  directive *d = kernel_record_new(k, group, is);
  for (uint32_t i = 0; d && i < vars->n; i++) kernel_record_word(k, d, kernel_var_text(k, vars->v[i]));
}
static void one_word(kctx *k, const u32vec *group, primitive is, const char *word) {
  kernel_record_word(k, kernel_record_new(k, group, is), word);
}
static void record_tile(kctx *k, const nest *n) {
  directive *d = kernel_record_new(k, &n->stages, P_LANES);
  kernel_record_word(k, d, n->lane.var ? kernel_var_text(k, n->lane.var) : "none");
  if (n->lane.var) kernel_record_number(k, d, n->lanes);
  d = kernel_record_new(k, &n->stages, P_ROWS);
  if (n->collapsed.var)
    kernel_record_word(k, d,
                       arena_fmt(k->a, "(%s %s)", kernel_var_text(k, n->row2.var), kernel_var_text(k, n->row.var)));
  else {
    kernel_record_word(k, d, n->row.var ? kernel_var_text(k, n->row.var) : "none");
    if (n->row2.var) kernel_record_word(k, d, kernel_var_text(k, n->row2.var));
  }
  d = kernel_record_new(k, &n->stages, P_TILE);
  kernel_record_number(k, d, n->mr + EK_PLANTED("schedule-record")), kernel_record_number(k, d, n->nv);
  if (n->lane.var && n->row.var && !n->lane_reduced)
    one_word(k, &n->stages, P_PANELS, n->lane_outer && !n->rows_outer ? "outside" : "inside");
  if (n->strip_mine) kernel_record_number(k, kernel_record_new(k, &n->stages, P_STRIP), n->strip_mine);
}
static void record_packs(kctx *k, const nest *n) {
  strvec done = {0};
  for (uint32_t i = 0; i < n->packs.n; i++) {
    const packload *p = &n->packs.v[i];
    if (p->computed) continue;
    const char *name = xt(k->m, exn(k->m, p->load)->tensor)->name, *format[PACK_FORMAT];
    bool had = false;
    for (uint32_t j = 0; j < done.n; j++) had |= !strcmp(done.v[j], name);
    if (had) continue;
    vec_push(k->a, done, name);
    directive *d = kernel_record_new(k, &n->stages, P_PACK);
    kernel_record_word(k, d, name);
    for (uint32_t j = 0, words = kernel_pack_format(k, p, format); j < words; j++) kernel_record_word(k, d, format[j]);
  }
  if (!done.n) one_word(k, &n->stages, P_PACK, "none");
}
static void record_block(kctx *k, const nest *n) {
  const cache_blocking *b = &n->blocking;
  directive *d = kernel_record_new(k, &n->stages, P_BLOCK);
  kernel_record_word(k, d, b->panels ? kernel_var_text(k, b->var) : "none");
  if (!b->panels) return;
  kernel_record_number(k, d, b->step);
  kernel_record_word(k, d, "panels"), kernel_record_number(k, d, b->panels);
  if (b->row_streaming)
    kernel_record_word(k, d, "streamed");
  else
    kernel_record_word(k, d, "rows"), kernel_record_number(k, d, b->rows);
}
void kernel_record_nest(kctx *k, const nest *n) {
  if (!k->made) return;
  bool sums = false;
  record_tile(k, n);
  for (uint32_t i = 0; i < n->stages.n; i++) {
    if (exn(k->m, xs(k->m, n->stages.v[i])->value)->kind != EX_REDUCE) continue;
    sums = true;
    kernel_record_vars(k, &n->stages, P_REDUCE, &n->reds[i]);
    if (n->computable && n->computable[i]) {
      const tensorised *t = instruction_of(n, i, 0);
      one_word(k, &n->stages, P_INSTRUCTION, t ? t->by->name : "none");
    }
    one_word(k, &n->stages, P_UNROLL, n->windows[i] ? kernel_var_text(k, n->windows[i]) : "none");
  }
  if (!sums) return;
  record_packs(k, n);
  directive *buffer = kernel_record_new(k, &n->stages, P_BUFFER);
  if (n->shared) kernel_record_word(k, buffer, "panel");
  if (n->rows.n || !n->shared) kernel_record_word(k, buffer, n->rows.n ? "rows" : "none");
  record_block(k, n);
}
