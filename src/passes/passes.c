/* Which passes run, in which order?
 *
 * One table. A pass that stands twice runs again because an earlier one made new work for it. To add a pass: a
 * file with its function, a line here, a line in pass.h.
 */
#include "passes/passes.h"
#include "fusion/fusion.h"
#include "passes/pass.h"
#include <string.h>

static bool last_fold(pw *p) {
  p->last_round = true;
  bool r = pass_fold(p);
  p->last_round = false;
  return r;
}

const expr_pass expr_passes[] = {
    {"widen", pass_widen, 1, false,
     "arithmetic of f16 and bf16 is done in f32, what comes of it is kept in f32. Needs stages as they were written"},
    {"simplify", pass_simplify, 1, false,
     "sizes and guards by proof, scalar algebra, conditions, constants. Needs nothing"},
    {"factor", pass_factor, 1, false, "scales of whole numbers leave sums. Needs simplify"},
    {"blocks", pass_blocks, 1, false,
     "sums whose constants have a scale for each block of terms go block by block. Needs factor"},
    {"dce", pass_dce, 0, false, "what no output needs goes. Needs nothing"},
    {"fold", pass_fold, 1, false, "stages and sub-expressions of constants are computed. Needs simplify"},
    {"dce", pass_dce, 1, false, "again: what was read for it"},
    {"state", pass_state, 1, false,
     "where a state keeps what it was in most places by a condition, the others are an update. Needs simplify"},
    {"pieces", pass_pieces, 1, false,
     "parts of placements that compute something become stages; see also its second turn"},
    {"hoist", pass_hoist, 1, false,
     "every reduction becomes a stage; what does not depend on a recurrence leaves it. Needs simplify"},
    {"views", pass_views, 1, false, "stages that only move data are read through. Needs hoist (cheaper) and simplify"},
    {"dce", pass_dce, 1, false, "views nobody reads go"},
    {"inline", pass_inline, 1, false, "element-wise stages with one reader become part of it. Needs hoist"},
    {"invariant", pass_invariant, 1, true,
     "factors that stay the same while a sum runs leave it; deviations from an average add up to 0. Needs inline"},
    {"cse", pass_cse, 1, false, "equal stages become one"},
    {"scale", pass_scale, 1, false, "constant factors go into weights. Needs inline"},
    {"fold", pass_fold, 1, false, "what became constant is computed"},
    {"integer", pass_integer, 1, false,
     "sums of products of whole numbers of few bits are computed in integers, where the target multiplies these. "
     "Needs scale"},
    {"inline", pass_inline, 1, false, "again, after scale and cse"},
    {"permute", pass_permute, 1, false,
     "a table that is updated has its axes in the order in which it leaves the module. Needs views"},
    {"axes", pass_axes, 1, false, "axes of several digits become several axes. Needs views"},
    {"strided", pass_strided, 1, false, "sums that skip places fall apart into pieces that do not. Needs simplify"},
    {"piecewise", pass_piecewise, 1, false,
     "stages whose reads turn or stop somewhere fall apart into pieces that read straight on. Needs inline"},
    {"direction", pass_direction, 1, false,
     "what is computed from rows alone is computed in their order, whoever reads them backwards. Needs views"},
    {"winograd", pass_winograd, 2, false,
     "windows become products with fewer multiplications where that pays; with `strict` those of whole numbers, which "
     "are exact. Needs roles"},
    {"pieces", pass_pieces, 1, false, "element-wise work on a placement moves to its pieces"},
    {"views", pass_views, 1, false, "again, for what became a view"},
    {"trim", pass_trim, 1, false, "what nobody reads of a stage is not computed. Needs views"},
    {"pieces", pass_pieces, 1, false,
     "placements read through a renaming only are made in the reader's axes. Needs views"},
    {"fold", last_fold, 1, false, "constant movement that was left to the views"},
    {"cse", pass_cse, 1, false, "again"},
    {"dce", pass_dce, 1, false, "again"},
    {"table", pass_table, 1, false,
     "what is computed from one value of eight bits and rounded to eight bits is looked up. Needs integer, inline"},
    {"quotient", pass_quotient, 2, true,
     "division by what many values share becomes a product, and x * (1 / d) a division. Needs inline"},
    {"narrow", pass_narrow, 1, false,
     "where the user allows it, what products read is kept in bf16 or f16. Needs inline, fold"},
    {"parts", pass_parts, 1, true,
     "sums whose operands stay in no cache are computed in parts, which are added up at the end. Needs inline"},
    {"columns", pass_columns, 1, false,
     "matrices that every step of a recurrence multiplies lie as the steps read them. Needs views"},
    {"align", pass_align, 1, false, "producers and readers get the same digits. Needs views"},
    {"kernels", pass_kernels, 1, false,
     "stages are grouped into kernels; a block's items come in execution order. Needs align"},
    {"ranges", pass_ranges, 1, false,
     "terms of reductions that conditions leave out are told apart by a range of the variable. Needs kernels"},
    {"results", pass_results, 0, false,
     "results of the module, of branches and of loops become tensors of their own. Needs kernels"},
    {"stored", pass_stored, 1, false,
     "where the user allows bf16, large values of a training step that other kernels read are stored in it. Needs "
     "kernels"},
    {"windows", pass_windows, 1, false,
     "rows or a copy of what a window reads several times, also outside of a tensor. Needs kernels"},
    {NULL, NULL, 0, false, NULL},
};

static bool left_out(const expr_observer *o, const expr_pass *q) {
  size_t n = strlen(q->name);
  if (q->fn == pass_dce || q->fn == pass_kernels || q->fn == pass_results) return false;
  if (q->loose && o && o->strict) return true;
  for (const char *s = o && o->skip ? o->skip : ""; *s; s += strcspn(s, " "), s += strspn(s, " "))
    if (!strncmp(s, q->name, n) && (!s[n] || s[n] == ' ')) return true;
  return false;
}
/* What is asked of a target; where it has no vectors, 16 lanes and 2 multiply-adds a cycle keep constants small. */
static void set_machine(pw *p, const target *t, const target *plain) {
  bool vectors = t && target_lanes(t, ET_F32) > 1;
  p->t = t ? t : plain;
  p->cache_bytes = t && t->l2 / 4 ? t->l2 / 4 : 256 * 1024;
  p->lanes = vectors ? target_lanes(t, ET_F32) : 16;
  p->fma = vectors ? t->fma_per_cycle : 2;
  p->registers = t ? t->vector_registers : 0;
  const instruction *by = target_products(p->t, ET_F32, p->narrow, p->narrow);
  p->pairs_faster = by && instruction_beats_fma(p->t, by);
}
bool expr_optimise(emodule *m, int level, const expr_observer *o) {
  pw p = {.m = m, .c = m->c, .a = arena_new(m->c), .keep = arena_new(m->c), .const_epoch = 1};
  target plain = target_defaults();
  bool any = false;
  m->stated.n = 0;
  p.fuel = o ? o->fuel : 0;
  p.narrow = o ? o->narrow : ET_NONE;
  set_machine(&p, o ? o->t : NULL, &plain);
  p.convert = o && o->convert;
  p.strict = o && o->strict;
  p.variant_sizes = o ? o->variant_sizes : NULL;
  p.widen = UINT64_C(1) << ET_F16 | UINT64_C(1) << ET_BF16;
  p.lates = map_new(p.keep);
  p.exact = map_new(p.keep);
  p.parts = map_new(p.keep);
  p.codes = map_new(p.keep);
  p.canon_vars = map_new(p.keep);
  pass_index(&p);
  for (const expr_pass *q = expr_passes; q->name; q++) {
    if (q->level > level || left_out(o, q)) continue;
    double t0 = now_ms();
    bool changed = q->fn(&p);
    pass_enter(&p, 0);
    arena_free(p.a);
    p.a = arena_new(m->c);
    any |= changed;
    if (o && o->variant_sizes && o->variant_sizes->n) break;
    if (o && o->after && !o->after(o->env, m, q->name, changed, now_ms() - t0)) break;
  }
  pass_keep_remarks(&p);
  if (o && o->spent) *o->spent = p.spent;
  arena_free(p.a), arena_free(p.keep);
  return any;
}
