/* Which pass changed the values? A part of the model whose output is wrong is compiled again and again.
 *
 *   What the passes have made is interpreted. Is that wrong, then it is interpreted after fewer of them: the first
 *   after which it is wrong is the one. If bisection of the rewrites by fuel comes to the same pass, it tells which.
 *   Else the passes are right. It is `program` if it is right where buffers share no memory, `code` if LLVM's code is
 *   right and only Einkorn's own is wrong, `schedule` if it is right with the schedules of level 0.
 *   Else fuel is bisected with compiled code; then one pass after the other is left out, the last first. What is wrong
 *   without any of them is `program`. */
#include "driver/diff.h"
#include "passes/passes.h"
#include <string.h>

/* ---- which pass made a rewrite? -------------------------------------------------------------- */
typedef struct spy {
  const graph_part *part; /* what is compiled */
  arena *a;               /* memory of `runs` */
  pipeline *p;            /* the compilation; NULL: not begun */
  uint64_t made;          /* rewrites so far */
  const char *last;       /* the last pass that made one */
  VEC(pass_ref) runs;     /* the passes that ran, each with its number */
} spy;
static void after_pass(void *user, const char *level, const char *pass, int changed, double ms) {
  spy *s = user;
  (void)changed, (void)ms;
  if (!s->p || strcmp(level, "expr") || !strcmp(pass, "lower")) return;
  if (s->p->rewrites > s->made) s->last = pass;
  s->made = s->p->rewrites;
  uint64_t nth = 0;
  map_gets(s->p->runs_of, pass, &nth);
  vec_push(s->a, s->runs, ((pass_ref){arena_strdup(s->a, pass), (uint32_t)nth}));
}
static void begin_spying(pipeline *p, void *env) {
  spy *s = env;
  p->o.part = s->part, p->o.pass = after_pass, p->o.pass_user = s;
  s->p = p;
}
static ek_code only_passes(pipeline *p, void *env) {
  (void)env;
  pipe_optimise(p);
  return EK_OK;
}
/* The passes, with so much fuel: each has a place in runs, the last that made a rewrite is last. */
static spy watch_passes(diff *d, const shown *s, uint64_t fuel) {
  spy k = {.part = &s->part, .a = d->a};
  ek_options o = diff_part_options(d);
  ctx *c = NULL;
  o.fuel = fuel;
  in_pipe(d->m, &o, begin_spying, only_passes, &k, &c);
  k.last = k.last ? arena_strdup(d->a, k.last) : NULL;
  ctx_free(c);
  k.p = NULL;
  return k;
}

/* ---- bisection ------------------------------------------------------------------------------- */
static outcome with(diff *d, shown *s, const ek_options *o, inner_options x) {
  x.part = &s->part;
  return diff_shows(d, o, &x, &s->truth);
}
static const inner_options nothing;
/* The number of the first rewrite with which the values are wrong; 0: not found. */
static uint64_t bisect_fuel(diff *d, shown *s, int evaluate, const char **pass) {
  ek_options o = diff_part_options(d);
  uint64_t low = 1, high = watch_passes(d, s, UINT64_MAX).made;
  o.evaluate = evaluate, o.fuel = 1;
  if (high < 2 || with(d, s, &o, nothing) != RUN_RIGHT) return 0;
  o.fuel = high;
  if (with(d, s, &o, nothing) != RUN_WRONG) return 0;
  while (high - low > 1) {
    o.fuel = low + (high - low) / 2;
    *(with(d, s, &o, nothing) == RUN_RIGHT ? &low : &high) = o.fuel;
  }
  *pass = watch_passes(d, s, high).last;
  return *pass ? high : 0;
}
static outcome after(diff *d, shown *s, pass_ref pass) {
  ek_options o = diff_part_options(d);
  o.evaluate = 2;
  return with(d, s, &o, (inner_options){.after = pass});
}
/* The first pass after which what is interpreted is wrong, or cannot be interpreted. */
static bool bisect_passes(diff *d, shown *s) {
  const spy all = watch_passes(d, s, 0);
  uint32_t low = 0, high = all.runs.n; /* after `low` passes it is right, after `high` it is not */
  if (!high || after(d, s, all.runs.v[high - 1]) == RUN_RIGHT) return false;
  while (high - low > 1) {
    const uint32_t mid = low + (high - low) / 2;
    *(after(d, s, all.runs.v[mid - 1]) == RUN_RIGHT ? &low : &high) = mid;
  }
  const char *by_fuel = NULL;
  const uint64_t rewrite = bisect_fuel(d, s, 2, &by_fuel);
  d->r->pass = all.runs.v[high - 1].name;
  if (rewrite && !strcmp(by_fuel, d->r->pass)) d->r->rewrite = rewrite;
  return true;
}
static const char *left_out(diff *d, shown *s) {
  const ek_options o = diff_part_options(d);
  const char *last = NULL;
  for (const expr_pass *e = expr_passes; e->name; e++)
    if (e->level <= o.optimize && (!last || strcmp(last, e->name)) &&
        with(d, s, &o, (inner_options){.skip = e->name}) == RUN_RIGHT)
      last = e->name;
  return last;
}
static const char *behind_passes(diff *d, shown *s) {
  ek_options o = diff_part_options(d);
  if (with(d, s, &o, (inner_options){.no_sharing = true}) == RUN_RIGHT) return "program";
  o.codegen = EK_CODEGEN_LLVM;
  if (d->o.codegen == EK_CODEGEN_AUTO && with(d, s, &o, nothing) == RUN_RIGHT) return "code";
  o.codegen = d->o.codegen;
  return with(d, s, &o, (inner_options){.plain = true}) == RUN_RIGHT ? "schedule" : NULL;
}
static void find_pass(diff *d, shown *s) {
  if (bisect_passes(d, s) || (d->r->pass = behind_passes(d, s))) return;
  d->r->rewrite = bisect_fuel(d, s, 0, &d->r->pass);
  if (!d->r->rewrite) d->r->pass = left_out(d, s);
  if (!d->r->pass) d->r->pass = "program";
}
void diff_find_pass(diff *d, shown *s) {
  find_pass(d, s);
  d->r->pass = arena_strdup(ctx_arena(d->c), d->r->pass);
}
