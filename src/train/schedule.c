/* Learning-rate schedules: which rate has a step? Host code, a function of the schedule's text, the step and, for
 * plateau, the validation losses so far; nothing is kept from call to call, so that a training that is resumed goes on
 * as if it had not stopped. Formulas and defaults are those of torch.optim.lr_scheduler. */
#include "train/train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 7 }; /* attributes of a schedule at most */
typedef struct at {
  double base;             /* the rate that schedules start from, or (one_cycle) reach */
  double step;             /* steps so far, behind the warm-up */
  double total;            /* steps in all, behind the warm-up */
  const double *losses;    /* validation losses so far */
  size_t nlosses;          /* how many */
  const double *attribute; /* values, in the order of the table */
} at;

static double constant(const at *x) { return x->base; }
static double falling(const at *x) { return x->base * pow(x->attribute[1], floor(x->step / x->attribute[0])); }
static double exponential(const at *x) { return x->base * pow(x->attribute[0], x->step); }
static double between(double from, double to, double part) { return to + (from - to) * (1 + cos(M_PI * part)) / 2; }
static double cosine(const at *x) {
  const double end = x->attribute[1] > 0 ? x->attribute[1] : x->total;
  return between(x->base, x->attribute[0], x->step < end ? x->step / end : 1);
}
static double one_cycle(const at *x) {
  const double top = x->attribute[0] * x->total - 1, end = x->total - 1, first = x->base / x->attribute[1];
  if (x->step <= top) return between(first, x->base, top > 0 ? x->step / top : 1);
  return between(x->base, first / x->attribute[2], x->step < end ? (x->step - top) / (end - top) : 1);
}
static double plateau(const at *x) {
  const double factor = x->attribute[0], patience = x->attribute[1], threshold = x->attribute[2];
  double rate = x->base, best = INFINITY, bad = 0, rest = 0;
  for (size_t i = 0; i < x->nlosses; i++) {
    const bool better = x->losses[i] < best * (1 - threshold);
    if (better) best = x->losses[i];
    bad = better ? 0 : bad + 1;
    if (rest > 0) rest--, bad = 0;
    if (bad <= patience) continue;
    rate = fmax(rate * factor, fmin(x->attribute[4], rate)), rest = x->attribute[3], bad = 0;
  }
  return rate;
}

static const struct {
  const char *name;               /* name of the schedule */
  double (*rate)(const at *x);    /* its rate */
  const char *attributes[MOST];   /* names, NULL-terminated */
  double least[MOST], most[MOST]; /* values that they may have */
  double value[MOST];             /* defaults; NAN: it must be given */
} schedules[] = {
    {"constant", constant, {NULL}, {0}, {0}, {0}},
    {"step", falling, {"step_size", "gamma"}, {1, 0}, {INFINITY, INFINITY}, {NAN, 0.1}},
    {"exponential", exponential, {"gamma"}, {0}, {INFINITY}, {NAN}},
    {"cosine", cosine, {"eta_min", "T_max"}, {0, 0}, {INFINITY, INFINITY}, {0, 0}},
    {"one_cycle",
     one_cycle,
     {"pct_start", "div_factor", "final_div_factor"},
     {0, 1, 1},
     {1, INFINITY, INFINITY},
     {0.3, 25, 10000}},
    {"plateau",
     plateau,
     {"factor", "patience", "threshold", "cooldown", "min_lr"},
     {0, 0, 0, 0, 0},
     {1, INFINITY, 1, INFINITY, INFINITY},
     {0.1, 10, 0.0001, 0, 0}},
};
enum { COUNT = sizeof schedules / sizeof *schedules };

static uint32_t find(ctx *c, const char *name) {
  const char *names[COUNT];
  sbuf b = sbuf_new(ctx_arena(c));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (!strcmp(schedules[i].name, name)) return i;
    names[i] = schedules[i].name;
    sb_fmt(&b, "%s%s", i ? ", " : "", names[i]);
  }
  ctx_fail(c, E_USAGE, "there is no schedule of the name '%s'%s; there are %s", name,
           did_you_mean(ctx_arena(c), name, names, COUNT), b.s);
}
/* "ATTRIBUTE=NUMBER,..": values[] and *warmup are set. */
static void read_attributes(ctx *c, uint32_t k, const char *text, double *values, double *warmup) {
  while (*text) {
    const size_t n = strcspn(text, ",");
    const char *eq = memchr(text, '=', n), *const *names = schedules[k].attributes;
    const char *part = arena_strndup(ctx_arena(c), text, n);
    uint32_t i = 0;
    char *end;
    if (!eq) ctx_fail(c, E_USAGE, "schedule %s:%s: ATTRIBUTE=NUMBER is expected", schedules[k].name, part);
    const size_t m = (size_t)(eq - text);
    while (i < MOST && names[i] && (strlen(names[i]) != m || memcmp(names[i], text, m) != 0)) i++;
    const bool known = i < MOST && names[i], warms = m == 6 && !memcmp(text, "warmup", 6);
    const double v = strtod(eq + 1, &end), least = known ? schedules[k].least[i] : 0;
    if (!known && !warms) {
      const char *all[MOST + 1] = {"warmup"};
      uint32_t nall = 1;
      for (uint32_t j = 0; j < MOST && names[j]; j++) all[nall++] = names[j];
      ctx_fail(c, E_USAGE, "schedule %s has no attribute '%.*s'%s", schedules[k].name, (int)m, text,
               did_you_mean(ctx_arena(c), arena_strndup(ctx_arena(c), text, m), all, nall));
    }
    if (end == eq + 1 || end != text + n || !(v >= least) || (known && !(v <= schedules[k].most[i])))
      ctx_fail(c, E_USAGE, "schedule %s: %s: a number from %g on is expected%s", schedules[k].name, part, least,
               known && schedules[k].most[i] == 1 ? ", of at most 1" : "");
    if (known)
      values[i] = v;
    else
      *warmup = floor(v);
    text += n + (text[n] == ',');
  }
}
double train_schedule_rate(ctx *c, const char *text, const train_moment *m) {
  const size_t n = strcspn(text, ":");
  const uint32_t k = find(c, arena_strndup(ctx_arena(c), text, n));
  double values[MOST], warmup = 0;
  memcpy(values, schedules[k].value, sizeof values);
  read_attributes(c, k, text + n + (text[n] == ':'), values, &warmup);
  for (uint32_t i = 0; i < MOST && schedules[k].attributes[i]; i++)
    if (isnan(values[i]))
      ctx_fail(c, E_USAGE, "schedule %s: the attribute %s is needed", schedules[k].name, schedules[k].attributes[i]);
  const double step = (double)m->step, total = (double)m->total;
  if (step < warmup && !EK_PLANTED("warmup")) return m->base * (step + 1) / warmup;
  return schedules[k].rate(&(at){.base = m->base,
                                 .step = step - warmup,
                                 .total = total - warmup,
                                 .losses = m->losses,
                                 .nlosses = m->nlosses,
                                 .attribute = values});
}
