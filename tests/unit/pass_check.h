/* How a run of the passes is checked: the module is evaluated after every pass on the same random inputs, and at the
 * end every kernel is evaluated again with all its members poisoned outside one point of its outer variables (the
 * tile-local property of passes.h). */
#ifndef EK_TEST_PASS_CHECK_H
#define EK_TEST_PASS_CHECK_H
#include "eval/eval.h"
#include "passes/passes.h"
#include "expr/build.h"
#include "expr/expr.h"
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

typedef struct pass_check {
  emodule *m;
  ndarray *in;
  const ndarray **ref;
  uint64_t seed;
  double tolerance; /* allowed difference, as a part of the largest value */
  const char *show; /* print the module after this pass */
  bool talk, only_end;
  bool bytes;   /* inputs of u8 and i8 have any values, not 0 and 1 */
  uint32_t bad; /* complaints so far */
  double ms, worst;
  uint32_t points, skipped; /* points of the tile-local check, and those left out */
} pass_check;

static inline double pc_random(pass_check *p) { /* 0..1 */
  p->seed ^= p->seed << 13, p->seed ^= p->seed >> 7, p->seed ^= p->seed << 17;
  return (double)(p->seed >> 11) / 9007199254740992.0;
}
static struct {
  const char *name;
  int64_t value;
} pc_dim[8]; /* sizes that the caller wants */
/* A size for every symbol: small, different, inside its range. */
static inline bool pc_symbol(void *env, atom a, int64_t *v) {
  ctx *c = env;
  int64_t lo, hi;
  if (sym_kind(c, a) != AT_SYMBOL) return false;
  sym_range(c, sym_of_atom(c, a), &lo, &hi);
  *v = 3 + a % 4;
  for (int i = 0; i < 8 && pc_dim[i].name; i++)
    if (!strcmp(pc_dim[i].name, sym_name(c, a))) *v = pc_dim[i].value;
  if (*v < lo) *v = lo;
  if (hi != SYM_INF && *v > hi) *v = hi;
  return true;
}
static inline void pc_inputs(pass_check *p, arena *a) {
  emodule *m = p->m;
  p->in = NEWN(a, ndarray, m->inputs.n + 1);
  for (uint32_t k = 0; k < m->inputs.n; k++) {
    const tensor *t = xt(m, m->inputs.v[k].t);
    ndarray *x = &p->in[k];
    int64_t n = 1;
    *x = (ndarray){.type = t->type, .rank = t->rank};
    for (uint32_t d = 0; d < t->rank; d++) {
      if (!sym_eval(m->c, t->shape[d], pc_symbol, m->c, &x->dims[d])) x->dims[d] = 1;
      n *= x->dims[d];
    }
    uint8_t *q = arena_alloc(a, (size_t)n * et_bytes(t->type) + 1);
    for (int64_t e = 0; e < n; e++)
      et_store(t->type, q + e * et_bytes(t->type),
               et_kind(t->type) == K_FLOAT ? (scalar){.f = pc_random(p) * 2 - 1}
               : p->bytes && et_bits(t->type) == 8
                   ? (scalar){.i = (int64_t)(pc_random(p) * 256) - (t->type == ET_I8 ? 128 : 0)}
                   : (scalar){.i = (int64_t)(pc_random(p) * 2)});
    x->data = q, x->bytes = (size_t)n * et_bytes(t->type);
  }
}
/* The text with numbers for each @, as many as the shape before it says. */
static inline const char *pc_constants(arena *a, const char *text) {
  sbuf b = sbuf_new(a);
  uint32_t salt = 1;
  for (const char *s = text; *s; s++) {
    if (*s != '@') {
      sb_putc(&b, *s);
      continue;
    }
    long n = 1;
    const char *d = s;
    while (*d != '[') d--;
    const bool bytes = d[-1] == '8' && (d[-2] == 'i' || d[-2] == 'u'), sign = bytes && d[-2] == 'i';
    while (*d != ']') n *= strtol(d + 1, (char **)&d, 10);
    sb_putc(&b, '[');
    for (long i = 0; i < n; i++, salt = salt * 1664525 + 1013904223)
      if (bytes)
        sb_fmt(&b, "%s%d", i ? ", " : "", (int)(salt >> 16 & 255) - 128 * sign);
      else
        sb_fmt(&b, "%s%d.%02d", i ? ", " : "", 0, (int)(salt >> 16) % 50 * 2 + 1);
    sb_putc(&b, ']');
  }
  return b.s;
}
static inline evaluation *pc_evaluation(pass_check *p, arena *a) {
  evaluation *v = expr_eval_new(p->m, a, 1);
  for (uint32_t i = 0; i < p->m->inputs.n; i++) expr_eval_input(v, p->m->inputs.v[i].t, &p->in[i]);
  return v;
}
static inline double pc_value(const ndarray *x, int64_t i) {
  scalar v = et_load(x->type, (const char *)x->data + i * et_bytes(x->type));
  return et_kind(x->type) == K_FLOAT ? v.f : (double)v.i;
}
/* The largest difference over the largest value; inf when one is NaN or shapes differ. */
static inline double pc_difference(const ndarray *a, const ndarray *b) {
  int64_t n, k;
  double worst = 0, big = 1e-9;
  if (!nd_count(a, &n) || !nd_count(b, &k) || n != k || a->type != b->type || a->rank != b->rank) return INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double x = pc_value(a, i), y = pc_value(b, i);
    if (isnan(x) != isnan(y)) return INFINITY;
    if (isnan(x) || x == y) continue;
    if (fabs(y) > big && !isinf(y)) big = fabs(y);
    if (fabs(x - y) > worst) worst = fabs(x - y);
  }
  return worst / big;
}
static inline void pc_reference(pass_check *p, arena *a) {
  evaluation *v = pc_evaluation(p, a);
  p->ref = NEWN(a, const ndarray *, p->m->outputs.n + 1);
  expr_eval_run(v);
  for (uint32_t i = 0; i < p->m->outputs.n; i++) p->ref[i] = expr_eval_get(v, p->m->outputs.v[i].t);
}
static inline bool pc_after(void *env, emodule *m, const char *pass, bool changed, double ms) {
  pass_check *p = env;
  uint32_t live = 0;
  p->ms += ms;
  for (uint32_t i = 0; i < m->stages.n; i++) live += !m->stages.v[i].dead;
  if (p->talk) printf("  %-9s %s %7.2f ms, %u stages", pass, changed ? "changed  " : "unchanged", ms, live);
  if (p->show && !strcmp(p->show, pass)) {
    sbuf b = sbuf_new(m->a);
    expr_print(m, &b, (print_opts){.kernels = true});
    printf("\n%s\n", b.s);
  }
  if (!expr_verify(m, pass)) {
    p->bad++;
    printf("  the module is not valid after %s\n", pass);
    for (const diag *d = diag_first(m->c); d; d = d->next) printf("    %s\n", d->text);
    diag_reset(m->c, 0);
    return false;
  }
  if (p->ref && changed && (!p->only_end || !strcmp(pass, "kernels"))) {
    arena *a = arena_new(m->c);
    evaluation *v = pc_evaluation(p, a);
    double w = 0;
    expr_eval_run(v);
    for (uint32_t i = 0; i < m->outputs.n; i++)
      w = fmax(w, pc_difference(expr_eval_get(v, m->outputs.v[i].t), p->ref[i]));
    p->worst = fmax(p->worst, w);
    if (p->talk) printf(", difference %.2g", w);
    if (!(w <= p->tolerance)) p->bad++, printf("  wrong after %s: %g\n", pass, w);
    arena_free(a);
  }
  if (p->talk) printf("\n");
  return true;
}

/* ---- tile-local: every member of a kernel is only defined at one point of the outer variables; there nothing else
 * may have been needed ---- */
static inline ex pc_poison(emodule *m, etype t) {
  return et_kind(t) == K_FLOAT ? expr_f(m, t, NAN) : t == ET_BOOL ? 0 : expr_i(m, t, et_bits(t) < 32 ? 77 : -123456789);
}
static inline void pc_tile(pass_check *p, uint32_t ki, const evaluation *good) {
  emodule *m = p->m;
  ctx *c = m->c;
  kernel *k = &m->kernels.v[ki];
  arena *a = arena_new(c);
  int64_t *at = NEWN(a, int64_t, k->outer.n + 1), ext;
  ex *old = NEWN(a, ex, k->stages.n + 1);
  const ndarray **want = NEWN(a, const ndarray *, k->stages.n + 1);
  bool empty = false;
  for (uint32_t i = 0; i < k->outer.n; i++) {
    if (!sym_eval(c, sym_extent(c, k->outer.v[i]), pc_symbol, c, &ext) || ext < 1)
      empty = true;
    else
      at[i] = (int64_t)(pc_random(p) * (double)ext) % ext;
  }
  for (uint32_t i = 0; i < k->stages.n; i++) want[i] = expr_eval_get((evaluation *)good, xs(m, k->stages.v[i])->tensor);
  for (uint32_t i = 0; i < k->stages.n; i++) {
    stage *s = xs(m, k->stages.v[i]);
    old[i] = s->value;
    ex bad = pc_poison(m, xt(m, s->tensor)->type), cond = 0;
    uint32_t nd = expr_ndigits(s);
    digit *d = NEWN(a, digit, nd + 1);
    expr_digits(s, d);
    for (uint32_t j = 0; j < nd; j++) {
      uint64_t cv;
      if (!map_getu(k->canon, d[j].var, &cv))
        p->bad++, printf("  kernel %u: variable %s of %s has no canonical name\n", ki, sym_name(c, d[j].var),
                         xt(m, s->tensor)->name);
      else
        for (uint32_t o = 0; o < k->outer.n; o++)
          if (k->outer.v[o] == cv) {
            ex q = expr_op2(m, OP_EQ, expr_index(m, sym_of_atom(c, d[j].var)), expr_i(m, ET_I64, at[o]));
            cond = cond ? expr_op2(m, OP_AND, cond, q) : q;
          }
    }
    if (bad && cond) xs(m, k->stages.v[i])->value = expr_sel(m, cond, old[i], bad);
  }
  evaluation *v = pc_evaluation(p, a);
  for (uint32_t i = 0; i < k->stages.n && !empty; i++) {
    const stage *s = xs(m, k->stages.v[i]);
    const ndarray *got = expr_eval_get(v, s->tensor);
    uint32_t nd = expr_ndigits(s);
    digit *d = NEWN(a, digit, nd + 1);
    int64_t n, *de = NEWN(a, int64_t, nd + 1);
    double big = 1e-6;
    expr_digits(s, d);
    nd_count(got, &n);
    for (uint32_t j = 0; j < nd; j++) sym_eval(c, d[j].extent, pc_symbol, c, &de[j]);
    for (int64_t e = 0; e < n; e++)
      if (isfinite(pc_value(want[i], e))) big = fmax(big, fabs(pc_value(want[i], e)));
    for (int64_t e = 0; e < n; e++) {
      int64_t rest = e;
      bool here = true;
      for (uint32_t j = nd; j-- > 0; rest /= de[j]) {
        uint64_t cv = 0;
        map_getu(k->canon, d[j].var, &cv);
        for (uint32_t o = 0; o < k->outer.n; o++)
          if (k->outer.v[o] == cv) here &= rest % de[j] == at[o];
      }
      if (!here) continue;
      double x = pc_value(got, e), y = pc_value(want[i], e);
      if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-4 * big) continue;
      p->bad++;
      printf("  kernel %u is not tile-local: %s[%lld] is %g, should be %g\n", ki, xt(m, s->tensor)->name, (long long)e,
             x, y);
      break;
    }
  }
  for (uint32_t i = 0; i < k->stages.n; i++) xs(m, k->stages.v[i])->value = old[i];
  p->points++;
  arena_free(a);
}
static inline void pc_tiles(pass_check *p, uint32_t samples) {
  emodule *m = p->m;
  arena *a = arena_new(m->c);
  evaluation *good = pc_evaluation(p, a);
  expr_eval_run(good);
  for (uint32_t i = 0; i < m->kernels.n; i++) {
    const kernel *k = &m->kernels.v[i];
    if (k->stages.n < 2 || !k->outer.n || k->block || k->cls == KC_RECURRENCE || k->cls == KC_UPDATE ||
        k->cls == KC_COPY) {
      p->skipped++;
      continue;
    }
    for (uint32_t j = 0; j < samples; j++) pc_tile(p, i, good);
  }
  arena_free(a);
}
static inline void pc_summary(const emodule *m, sbuf *b) { /* "contraction 3, row 1" */
  uint32_t n[KC_BLOCKS + 1] = {0}, any = 0;
  for (uint32_t i = 0; i < m->kernels.n; i++) n[m->kernels.v[i].cls]++;
  for (int i = 1; i <= KC_BLOCKS; i++)
    if (n[i]) sb_fmt(b, "%s%s %u", any++ ? ", " : "", kernel_class_name((kernel_class)i), n[i]);
}
#endif
