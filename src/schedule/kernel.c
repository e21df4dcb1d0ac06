/* How is a kernel's work divided: which loops are chunks for the threads, which run inside, what is kept in scratch?
 *
 * A kernel's stages fall into groups: a leader and the element-wise stages after it over the same index space
 * (its epilogue), which read the group's values at the very point being computed.
 *   one group     the chunk loop is inside the group's nest: chunks are ranges of a flattened outer variable, or
 *                 of rows, or of lane panels
 *   more groups   the chunks are points of the shared outer variables (or blocks of `block` consecutive values of
 *                 one of them, so that contractions inside have rows); the groups' nests follow one another
 *                 in each; what they hand over lies in registers (a scalar), in scratch (a row, a block of rows),
 *                 or in the arena
 *   recurrence    one chunk; the step loop outside, the groups' nests inside
 */
#include "schedule/kernel_in.h"
#include "schedule/halo.h"
#include <math.h>
#include <string.h>

/* digits of a chunk number; an index space with an empty axis has no chunks, so that anything serves */
sz kernel_quot(ctx *c, sz a, sz b) { return sym_int_or(c, sym_canon(c, b), 1) == 0 ? sym_int(c, 0) : sym_div(c, a, b); }
sz kernel_rem(ctx *c, sz a, sz b) { return sym_int_or(c, sym_canon(c, b), 1) == 0 ? sym_int(c, 0) : sym_mod(c, a, b); }
atom kernel_canon(kctx *k, atom v) {
  uint64_t got;
  return k->canon && map_getu(k->canon, v, &got) ? (atom)got : v;
}
void kernel_domain(kctx *k, uint32_t si, u32vec *out) {
  stage *s = xs(k->m, si);
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) vec_push(k->a, *out, kernel_canon(k, s->axes[i].d[j].var));
}
static bool same_set(const u32vec *a, const u32vec *b) {
  if (a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!vec_has(b, a->v[i])) return false;
  return true;
}
/* every read of a tensor of the group is at the point being computed */
static bool reads_at_point(kctx *k, uint32_t si, const u32vec *group) {
  u32vec loads = schedule_loads(k->p, si);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(k->m, loads.v[i]);
    for (uint32_t g = 0; g < group->n; g++) {
      stage *q = xs(k->m, group->v[g]);
      if (q->tensor != n->tensor) continue;
      for (uint32_t j = 0; j < n->nargs; j++)
        if (view_resolve(&k->e.view, n->args[j]) != view_resolve(&k->e.view, expr_axis_index(k->m, &q->axes[j])) &&
            !EK_PLANTED("schedule-epilogue"))
          return false;
      if (n->otherwise) return false;
    }
  }
  return true;
}

void kernel_runs(kctx *k, const u32vec *vars) {
  for (uint32_t i = 0; i < vars->n; i++) sym_push(k->c, sym_addi(k->c, sym_extent(k->c, vars->v[i]), -1));
}

/* ---- scratch --------------------------------------------------------------------------------- */
static lv scratch_base(kctx *k) {
  if (k->scratch_ptr) return k->scratch_ptr;
  lv p = lb_param(&k->e.b, "scratch", lptr(ET_U8), LP_READ | LP_WRITE | LP_NOALIAS, BUFFER_ALIGN);
  vec_push(k->p->l->a, k->l.args, ((kargs){.is_buffer = true, .buffer = 0, .write = true}));
  lv per = lb_param(&k->e.b, "scratch_bytes", lt(ET_I64, 1), 0, 0);
  vec_push(k->p->l->a, k->l.args, ((kargs){.size = 0}));
  k->scratch_arg = k->l.args.n - 1;
  k->scratch_ptr = lb_offset(&k->e.b, p, lb_mul(&k->e.b, lb_worker(&k->e.b), per));
  return k->scratch_ptr;
}
lv kernel_scratch(kctx *k, etype t, sz elems) {
  lv base = scratch_base(k);
  lv p = lb_ptrcast(&k->e.b, t, lb_offset(&k->e.b, base, emit_size(&k->e, k->scratch)));
  sz bytes =
      sym_muli(k->c, sym_ceildiv(k->c, sym_muli(k->c, elems, et_bytes(t)), sym_int(k->c, BUFFER_ALIGN)), BUFFER_ALIGN);
  k->scratch = EK_PLANTED("schedule-scratch") ? bytes : sym_add(k->c, k->scratch, bytes);
  return p;
}

/* ---- operands packed for a nest -------------------------------------------------------------- */
int64_t kernel_extent(kctx *k, atom v, int64_t otherwise) { return view_extent(k->c, sym_extent(k->c, v), otherwise); }
/* Is a load one value for all steps of its stage's sum? Then it is read once, where it lies: a pack would have a copy
 * for each step. Stages that follow the sum may read it as well, where no step is bound. */
static bool one_for_all_steps(ectx *e, const nest *n, const access *a) {
  const u32vec *steps = &n->reds[a->stage];
  for (uint32_t i = 0; i < steps->n; i++)
    if (value_uses(&e->view, a->load, steps->v[i])) return false;
  return true;
}
/* Does what is stated allow to pack the tensor? */
static bool may_pack(kctx *k, const nest *n, tid t) {
  uint32_t at = 0;
  const directive *d = stated_next(k, &n->stages, P_PACK, &at);
  bool may = !d || EK_PLANTED("follow-pack");
  for (; d; d = stated_next(k, &n->stages, P_PACK, &at)) may |= directive_is(d, 0, xt(k->m, t)->name);
  return may;
}
/* What is stated is packed, and in that format. */
static void check_packs(kctx *k, const nest *n) {
  uint32_t at = 0;
  for (const directive *d; (d = stated_next(k, &n->stages, P_PACK, &at));) {
    const packload *of = NULL;
    for (uint32_t i = 0; i < n->packs.n && !of; i++)
      if (!n->packs.v[i].computed && directive_is(d, 0, xt(k->m, exn(k->m, n->packs.v[i].load)->tensor)->name))
        of = &n->packs.v[i];
    if (!of && directive_is(d, 0, "none")) continue;
    if (!of) kernel_refuse(k, d, "%s is no operand that can be packed along these lanes", d->words.v[0]);
    const char *format[PACK_FORMAT];
    const uint32_t words = kernel_pack_format(k, of, format);
    bool same = d->words.n == 1 + words;
    for (uint32_t i = 0; i < words && same; i++) same = directive_is(d, 1 + i, format[i]);
    sbuf is = sbuf_new(k->a);
    for (uint32_t i = 0; i < words; i++) sb_fmt(&is, "%s%s", i ? " " : "", format[i]);
    if (!same) kernel_refuse(k, d, "%s is packed %s here", d->words.v[0], words ? is.s : "as it is");
  }
}
uint32_t kernel_pack_format(kctx *k, const packload *p, const char *words[PACK_FORMAT]) {
  words[0] = p->fixed_point ? "fixed" : p->few.bits ? "bits" : "groups";
  words[1] = p->few.bits ? arena_fmt(k->a, "%u", p->few.bits) : "of", words[2] = arena_fmt(k->a, "%u", p->group);
  return p->fixed_point ? 1 : p->few.bits ? 2 : p->group ? 3 : 0;
}
/* Room in scratch for the panel of an operand, or of a value, in groups of g points; g 0: as they come. */
static packload *run_time_panel(kctx *k, nest *n, ex load, uint32_t stage, int64_t g) {
  const cache_blocking *p = n->blocking.first ? &n->blocking : NULL;
  sz red = sym_int(k->c, 1), off = sym_int(k->c, 0);
  const u32vec vars = nest_pack_vars(&k->e.view, n, stage, load), *rv = &vars;
  for (uint32_t r = 0; r < rv->n; r++) {
    sz ext = sym_extent(k->c, rv->v[r]);
    if (g > 1 && r + 1 == rv->n) ext = sym_muli(k->c, sym_ceildiv(k->c, ext, sym_int(k->c, g)), g);
    off = sym_add(k->c, sym_mul(k->c, off, ext), sym_of_atom(k->c, rv->v[r]));
    red = sym_mul(k->c, red, ext);
  }
  int64_t nr = (int64_t)n->nv * n->lanes;
  if (p) { /* the panels of a block, of a part; a last panel that is not full lies there whole */
    sz inner = red, before = sym_sub(k->c, sym_of_atom(k->c, n->panel), sym_of_atom(k->c, p->first));
    sym_exact_div(k->c, red, sym_extent(k->c, p->var), &inner);
    sz part = sym_muli(k->c, inner, p->step);
    off =
        sym_add(k->c, sym_sub(k->c, off, sym_mul(k->c, sym_of_atom(k->c, p->at), inner)), sym_mul(k->c, before, part));
    red = sym_max(k->c, red, sym_muli(k->c, part, p->panels));
  }
  packload pl = {.load = load,
                 .stage = stage,
                 .off = sym_muli(k->c, off, nr),
                 .elems = sym_muli(k->c, red, nr),
                 .nr = nr,
                 .group = (uint32_t)g};
  pl.ptr = kernel_scratch(k, (etype)exn(k->m, load)->type, pl.elems);
  vec_push(k->a, n->packs, pl);
  return &n->packs.v[n->packs.n - 1];
}
/* Rows that read a panel before the next one comes: the loops between panels and tiles repeat those of a tile. */
static int64_t panel_rows(kctx *k, const nest *n, const choice *ch) {
  int64_t rows = kernel_extent(k, ch->row, 0);
  for (uint32_t v = 0; v < n->inner.n; v++) rows = sat_mul64(rows, kernel_extent(k, n->inner.v[v].var, 1));
  return rows;
}
/* Packs a run-time operand, or a constant of which data choose a part, if that is better than to read it where it lies:
 * it is copied, one panel at a time, when it is not contiguous, when enough rows reuse the copy (a panel read in place
 * strides over the whole operand, on few cache sets), or when an instruction wants it in groups. */
static void pack_at_run_time(kctx *k, nest *n, const access *a, const choice *ch) {
  const cache_blocking *p = n->blocking.first ? &n->blocking : NULL;
  const tensorised *by = instruction_of(n, a->stage, a->load);
  const bool words = instruction_reads_words(n, a->stage, a->load),
             contiguous = words || address_coef(&k->e.view, a->address, ch->lane) == 1;
  const bool copied = !words && (by ? cost_copy_groups(kernel_extent(k, ch->row, TYPICAL_ROWS))
                                    : !n->row.lo && cost_copy_panel(panel_rows(k, n, ch)));
  if (!ch->row || !ch->lane_outer || a->known || (contiguous && !p && !copied)) return;
  /* a panel is packed outside the inner loops; a guard may look at them where the address does not */
  bool inside = value_uses(&k->e.view, a->load, ch->row);
  for (uint32_t v = 0; v < n->inner.n; v++) inside |= value_uses(&k->e.view, a->load, n->inner.v[v].var);
  if (inside) return;
  run_time_panel(k, n, a->load, a->stage, by ? by->by->group : 0);
}
/* Packs a constant, with those that lie beside it; false: it is not of that kind. */
static bool pack_when_compiling(kctx *k, nest *n, const accesses *acc, uint32_t at) {
  const access *a = &acc->v[at];
  packload pl = {0};
  interleaved all = {.n = 1, .all = true};
  if (!a->constant || !n->reds[a->stage].n) return false;
  if (!pack_interleaved(&k->e.view, acc, at, xs(k->m, n->stages.v[a->stage])->value, &all)) return true;
  const bool packed = pack_constant(&k->e.view, n, a->load, a->stage, &all, &pl);
  for (int64_t j = 0; j < all.n && packed; j++, pl.first += (int64_t)n->nv * n->lanes) {
    if (j) pl.load = all.loads[j];
    vec_push(k->a, n->packs, pl);
  }
  return packed;
}
/* What tiles read is computed into panels, of what has been packed. */
static void compute_panels(kctx *k, nest *n) {
  for (uint32_t i = 0; i < n->packs.n; i++)
    n->packs.v[i].source = !n->packs.v[i].stage && panel_value_reads(&k->e.view, n->shared, n->packs.v[i].load);
  run_time_panel(k, n, n->shared, 0, 0)->computed = true;
}
void kernel_packs(kctx *k, nest *n, const accesses *acc, const choice *ch) {
  ectx *e = &k->e;
  const bool sum = exn(k->m, xs(k->m, n->stages.v[0])->value)->kind == EX_REDUCE;
  if (sum) kernel_instructions(k, n);
  for (uint32_t i = 0; i < acc->n && sum && ch->lane && (!ch->lane_reduced || ch->row); i++) {
    const access *a = &acc->v[i];
    if (!a->leader || a->store || !a->load || !may_pack(k, n, a->t)) continue;
    int64_t q = address_coef(&e->view, a->address, ch->lane);
    if (q == 0 || (ch->row && address_coef(&e->view, a->address, ch->row) != 0)) continue;
    if (ch->lane_reduced) {
      packload pl = {0};
      const interleaved alone = {.n = 1, .all = true};
      if (q != 1 && a->constant && pack_constant(&e->view, n, a->load, a->stage, &alone, &pl))
        vec_push(k->a, n->packs, pl);
    } else if (!one_for_all_steps(e, n, a) && !pack_when_compiling(k, n, acc, i))
      pack_at_run_time(k, n, a, ch);
  }
  if (n->shared) compute_panels(k, n);
  kernel_instructions_packed(k, n);
  check_packs(k, n);
}
static u32vec red_order(kctx *k, uint32_t stage, const accesses *acc, atom lane) {
  /* the variable with the smallest stride in the operands innermost */
  u32vec out = {0};
  const ex_node *root = exn(k->m, xs(k->m, stage)->value);
  if (root->kind != EX_REDUCE) return out;
  for (uint32_t i = 0; i < root->nargs; i++)
    if (root->args[i] != lane) vec_push(k->a, out, root->args[i]);
  /* where places are equal the first one counts, in the order of the text */
  if (red_is_arg((rop)root->op)) return out;
  int64_t *st = NEWN(k->a, int64_t, out.n + 1);
  for (uint32_t i = 0; i < out.n; i++) {
    st[i] = INT64_MAX;
    for (uint32_t j = 0; j < acc->n; j++) {
      access *a = &acc->v[j];
      if (!a->leader || a->store || a->constant) continue;
      int64_t q = address_coef(&k->e.view, a->address, out.v[i]);
      if (q > 0 && q < st[i]) st[i] = q;
    }
  }
  for (uint32_t i = 1; i < out.n; i++)
    for (uint32_t j = i; j > 0 && st[j - 1] < st[j]; j--) {
      int64_t s = st[j];
      st[j] = st[j - 1], st[j - 1] = s;
      atom v = out.v[j];
      out.v[j] = out.v[j - 1], out.v[j - 1] = v;
    }
  return out;
}
/* The variable whose steps stand one after the other, put innermost, 0: none. Along it neighbouring rows of a tile
 * read vectors that overlap, as a window slides; or each step takes other elements of the same vectors. */
static atom window_of(kctx *k, uint32_t at, const accesses *acc, const choice *ch, u32vec *red) {
  for (uint32_t i = 0; i < acc->n && ch->row && !ch->lane_reduced; i++) {
    const access *a = &acc->v[i];
    if (!a->leader || a->store || a->stage != at) continue;
    bool side = address_coef(&k->e.view, a->address, ch->lane) > 0,
         spread = address_coef(&k->e.view, a->address, ch->lane) == INT64_MIN && !a->constant;
    for (uint32_t r = 0; r < red->n && (side || spread); r++) {
      atom v = red->v[r];
      if (side ? !address_windowed(&k->e.view, a->address, ch->row, v, WINDOW_STEPS)
               : address_coef(&k->e.view, a->address, v) != 1 || kernel_extent(k, v, INT64_MAX) > WINDOW_STEPS)
        continue;
      for (; r + 1 < red->n; r++) red->v[r] = red->v[r + 1];
      return red->v[r] = v;
    }
  }
  return 0;
}
void kernel_reduced(kctx *k, uint32_t si, u32vec *red) {
  const ex_node *root = exn(k->m, xs(k->m, si)->value);
  if (root->kind == EX_REDUCE)
    for (uint32_t i = 0; i < root->nargs; i++) vec_push(k->a, *red, root->args[i]);
}
/* The variables of a sum in the order that is stated. */
static void follow_reduce(kctx *k, const directive *d, uint32_t stage, u32vec *red) {
  u32vec order = {0};
  for (uint32_t i = 0; i < d->words.n; i++) {
    const atom v = kernel_var(k, d, d->words.v[i], red);
    if (vec_has(&order, v)) kernel_refuse(k, d, "%s is there twice", d->words.v[i]);
    vec_push(k->a, order, v);
  }
  for (uint32_t i = 0; i < red->n; i++)
    if (!vec_has(&order, red->v[i])) kernel_refuse(k, d, "%s is missing", kernel_var_text(k, red->v[i]));
  for (uint32_t i = 0; i < red->n; i++)
    if (order.v[i] != red->v[i] && red_is_arg((rop)exn(k->m, xs(k->m, stage)->value)->op))
      kernel_refuse(k, d, "of equal values the first one counts, in the order of the formula");
  if (!EK_PLANTED("follow-reduce")) *red = order;
}
static atom stated_window(kctx *k, const directive *d, const choice *ch, const u32vec *red) {
  if (directive_is(d, 0, "none") || EK_PLANTED("follow-unroll")) return 0;
  const atom v = kernel_var(k, d, d->words.v[0], red);
  if (v != red->v[red->n - 1]) kernel_refuse(k, d, "%s is not the innermost variable of the sum", d->words.v[0]);
  if (!ch->row || ch->lane_reduced) kernel_refuse(k, d, "only tiles with rows have their steps written out");
  if (kernel_extent(k, v, INT64_MAX) > WINDOW_STEPS)
    kernel_refuse(k, d, "%s has more than %d steps, or an open number of them", d->words.v[0], WINDOW_STEPS);
  return v;
}
nest kernel_nest(kctx *k, const u32vec *group, const u32vec *domain, choice ch, const accesses *acc) {
  nest n = {.mr = ch.mr,
            .nv = ch.nv,
            .lanes = ch.lanes,
            .lane_reduced = ch.lane_reduced,
            .lane_outer = ch.lane_outer,
            .stored = k->stored};
  n.stages = *group;
  if (ch.lane) n.lane = (nvar){.var = ch.lane, .extent = sym_extent(k->c, ch.lane)};
  if (ch.row) n.row = (nvar){.var = ch.row, .extent = sym_extent(k->c, ch.row)};
  const access *op = NULL;
  for (uint32_t i = 0; i < acc->n; i++)
    if (acc->v[i].load == ch.lane_load && ch.lane_load) op = &acc->v[i];
  for (uint32_t i = 0; i < domain->n; i++) {
    atom v = domain->v[i];
    if (v == ch.lane || v == ch.row) continue;
    nvar x = {.var = v, .extent = sym_extent(k->c, v)};
    if (ch.lane_outer && op && address_uses(&k->e.view, op->address, v))
      vec_push(k->a, n.outer, x);
    else
      vec_push(k->a, n.inner, x);
  }
  n.shared = ch.lane_outer && !ch.lane_reduced ? ch.shared : 0;
  for (uint32_t i = 0; i < n.inner.n && n.shared; i++) /* a panel is computed outside of these loops */
    if (value_uses(&k->e.view, n.shared, n.inner.v[i].var)) n.shared = 0;
  uint32_t reduce = 0, unroll = 0;
  n.reds = NEWN(k->a, u32vec, group->n);
  n.windows = NEWN(k->a, atom, group->n);
  for (uint32_t i = 0; i < group->n; i++) {
    const bool sum = exn(k->m, xs(k->m, group->v[i])->value)->kind == EX_REDUCE;
    n.reds[i] = red_order(k, group->v[i], acc, ch.lane_reduced ? ch.lane : 0);
    const directive *order = sum ? stated_next(k, group, P_REDUCE, &reduce) : NULL,
                    *steps = sum ? stated_next(k, group, P_UNROLL, &unroll) : NULL;
    if (order) follow_reduce(k, order, group->v[i], &n.reds[i]);
    if (steps)
      n.windows[i] = stated_window(k, steps, &ch, &n.reds[i]);
    else if (!order)
      n.windows[i] = window_of(k, i, acc, &ch, &n.reds[i]);
  }
  if (ch.lane && !ch.lane_reduced) {
    n.npanels = sym_ceildiv(k->c, n.lane.extent, sym_int(k->c, (int64_t)n.nv * n.lanes));
    sz pv = sym_var(k->c, "panel", n.npanels);
    if (!sym_is_atom(k->c, pv, &n.panel)) n.panel = 0;
  }
  return n;
}

int64_t kernel_row2_block(kctx *k, const choice *ch) {
  enum { TILES = 2 };
  return TILES * ch->mr / max64(1, kernel_extent(k, ch->row, 1));
}
bool kernel_may_fold_rows(const nest *n, const choice *ch) {
  return ch->row2 && n->inner.n == 1 && n->inner.v[0].var == ch->row2;
}
void kernel_fold_rows(kctx *k, nest *n, const choice *ch) {
  if (ch->collapsed_mr || !kernel_may_fold_rows(n, ch) || n->row.lo || ch->mr % (uint32_t)kernel_extent(k, ch->row, 1))
    return;
  n->row2 = n->inner.v[0];
  n->inner.n = 0;
}

void kernel_collapse_rows(choice *ch) {
  if (ch->collapsed_mr)
    ch->row = ch->collapsed[1], ch->row2 = ch->collapsed[0], ch->mr = ch->collapsed_mr, ch->nv = ch->collapsed_nv;
}
void kernel_collapsed_rows(kctx *k, nest *n, const choice *ch) {
  if (!ch->collapsed_mr) return;
  n->row2 = n->inner.v[0];
  n->inner.n = 0;
  n->partitioned = ch->collapsed_partitioned, n->rows_outer = ch->collapsed_outer;
  n->collapsed = (nvar){.var = n->row.var, .extent = sym_mul(k->c, n->row2.extent, n->row.extent)};
  sym_is_atom(k->c, sym_var(k->c, "row", n->collapsed.extent), &n->collapsed.var);
}

/* A group's values in the order in which what is stored needs them: few wait for others in registers. */
static void in_order_of_need(kctx *k, const u32vec *of, uint32_t i, u32vec *out) {
  u32vec loads = {0};
  if (vec_has(out, of->v[i])) return;
  expr_loads(k->m, xs(k->m, of->v[i])->value, k->a, &loads);
  for (uint32_t q = 0; q < loads.n; q++)
    for (uint32_t j = 0; j < i; j++) /* a step of a recurrence also reads what comes behind */
      if (xs(k->m, of->v[j])->tensor == exn(k->m, loads.v[q])->tensor) in_order_of_need(k, of, j, out);
  vec_push(k->a, *out, of->v[i]);
}
static void order_group(kctx *k, grp *g) {
  u32vec out = {0};
  uint64_t stored;
  for (uint32_t i = 0; i < g->stages.n; i++)
    if (!xs(k->m, g->stages.v[i])->value || exn(k->m, xs(k->m, g->stages.v[i])->value)->kind == EX_REDUCE) return;
  for (int all = 0; all < 2; all++)
    for (uint32_t i = 0; i < g->stages.n; i++)
      if (all || map_getu(k->stored, xs(k->m, g->stages.v[i])->tensor, &stored))
        in_order_of_need(k, &g->stages, i, &out);
  g->stages = out;
}
/* Do the two have as many points of the variables that all stages share? */
static bool same_points(kctx *k, uint32_t si, uint32_t leader) {
  const stage *s = xs(k->m, si), *q = xs(k->m, leader);
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      const atom v = kernel_canon(k, s->axes[i].d[j].var);
      for (uint32_t x = 0; x < q->naxes && vec_has(&k->outer, v); x++)
        for (uint32_t y = 0; y < q->axes[x].n; y++)
          if (kernel_canon(k, q->axes[x].d[y].var) == v &&
              !sym_eq(k->c, s->axes[i].d[j].extent, q->axes[x].d[y].extent))
            return false;
    }
  return true;
}
static bool reads_group(kctx *k, uint32_t si, const grp *g) {
  u32vec loads = schedule_loads(k->p, si);
  for (uint32_t i = 0; i < loads.n; i++)
    for (uint32_t j = 0; j < g->stages.n; j++)
      if (xs(k->m, g->stages.v[j])->tensor == exn(k->m, loads.v[i])->tensor) return true;
  return false;
}
/* The latest group whose nest may compute the stage with its own values: the last one, or one before groups that the
 * stage does not read. Not one before a sum, during which the value would have to be kept; a step of a recurrence keeps
 * its order. out->n: none. */
static uint32_t group_to_join(kctx *k, uint32_t si, const u32vec *domain, const grps *out) {
  for (uint32_t i = out->n; i-- > 0;) {
    const grp *g = &out->v[i];
    const uint32_t leader = g->stages.v[0];
    const bool last = i + 1 == out->n;
    if (!last && (g->red.n || value_reduces(&k->e.view, xs(k->m, si)->value))) break;
    if (!xs(k->m, leader)->updates.n && same_set(&g->domain, domain) && same_points(k, si, leader) &&
        reads_at_point(k, si, &g->stages))
      return i;
    if (g->red.n || xs(k->m, si)->recurrence || xs(k->m, leader)->updates.n || reads_group(k, si, g)) break;
  }
  return out->n;
}
void kernel_groups(kctx *k, const u32vec *stages, grps *out) {
  for (uint32_t i = 0; i < stages->n; i++) {
    uint32_t si = stages->v[i];
    stage *s = xs(k->m, si);
    u32vec dom = {0};
    if (layout_inside(k->m, s)) continue;
    kernel_domain(k, si, &dom);
    /* two products into one accumulator: both are leaders */
    bool tile = k->cls == KC_CONTRACTION || k->cls == KC_STENCIL || k->cls == KC_MATVEC;
    const ex_node *root = s->value ? exn(k->m, s->value) : NULL;
    const bool may_join =
        k->p->level > 0 && !s->updates.n &&
        (!value_reduces(&k->e.view, s->value) || (tile && root->kind == EX_REDUCE && !red_is_arg((rop)root->op)));
    uint32_t joined = may_join ? group_to_join(k, si, &dom, out) : out->n;
    if (joined < out->n) {
      vec_push(k->a, out->v[joined].stages, si);
      continue;
    }
    grp g = {0};
    vec_push(k->a, g.stages, si);
    g.domain = dom;
    kernel_reduced(k, si, &g.red);
    vec_push(k->a, *out, g);
  }
  for (uint32_t i = 0; i < out->n && k->p->level > 0; i++) order_group(k, &out->v[i]);
}

static double ops_of(emodule *m, ex x, double *loads) { /* Scalar operations of one point. */
  u32vec at = {0};
  arena *a = arena_new(m->c);
  expr_loads(m, x, a, &at);
  *loads = at.n;
  arena_free(a);
  return (double)(expr_cost(m, x) - at.n);
}
static void times(emodule *m, amount *a, sz extent) {
  a->number *= (double)max64(0, sym_int_or(m->c, extent, TYPICAL_EXTENT));
  if (!sym_is_int(m->c, extent, NULL) && !sym_uses_kind(m->c, extent, AT_VAR) && !sym_uses_kind(m->c, extent, AT_DATA))
    a->open = a->open ? sym_mul(m->c, a->open, extent) : extent, a->opened *= TYPICAL_EXTENT;
}
work kernel_work(emodule *m, const u32vec *stages, atom step) {
  work w = {0};
  double most = -1;
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(m, stages->v[i]);
    const ex_node *n = s->value ? exn(m, s->value) : NULL;
    bool reduces = n && n->kind == EX_REDUCE;
    double loads = 0, ops = 0, moved = 0;
    amount pts = {1, 0, 1};
    for (uint32_t j = 0; j < s->naxes; j++)
      for (uint32_t d = 0; d < s->axes[j].n; d++)
        if (!step || s->axes[j].d[d].var != step) times(m, &pts, s->axes[j].d[d].extent);
    amount trips = pts;
    for (uint32_t j = 0; reduces && j < n->nargs; j++) times(m, &trips, sym_extent(m->c, n->args[j]));
    if (n) {
      ops = trips.number * (ops_of(m, reduces ? n->body : s->value, &loads) + reduces);
      moved = pts.number * (reduces ? 1 : loads + 1);
    }
    for (uint32_t u = 0; u < s->updates.n; u++) {
      amount q = {1, 0, 1};
      for (uint32_t j = 0; j < s->updates.v[u].nvars; j++) times(m, &q, sym_extent(m->c, s->updates.v[u].vars[j]));
      ops += q.number * 4;
      if (q.number > trips.number) trips = q;
    }
    w.ops += ops, w.moved += moved;
    if (ops + moved > most) most = ops + moved, w.points = trips;
  }
  return w;
}

/* Is a fork and join of threads worth while? Where sizes are open it may be so only where `where` is at least 0. */
static bool parallel_threshold(kctx *k, const work *w, sz *where) {
  const bool serial = k->cls == KC_RECURRENCE || k->cls == KC_GATHER || k->cls == KC_UPDATE || k->cls == KC_RANKING ||
                      k->cls == KC_PREFIX_SCAN,
             product = k->cls == KC_CONTRACTION || k->cls == KC_STENCIL;
  const work_kind kind = serial ? WORK_SERIAL : product ? WORK_PRODUCT : WORK_VECTORS;
  const double all = cost_work(k->p->t, kind, w->ops, w->moved),
               points = ceil(k->p->t->fork_join_cost / all * w->points.opened);
  int64_t lo, hi;
  *where = 0;
  if (!w->points.open) return all > k->p->t->fork_join_cost;
  sym_range(k->c, w->points.open, &lo, &hi);
  if (!(points <= (double)hi)) return false; /* the comparison also holds where there is no work at all */
  if (points > (double)max64(lo, 1)) *where = sym_addi(k->c, w->points.open, -(int64_t)points);
  return true;
}
/* Fills the halos that no kernel fills by itself. */
static void fill_first(splan *p, const u32vec *stages, uint32_t block, uint32_t item) {
  for (uint32_t i = 0; i < stages->n; i++) {
    uint32_t buf = p->layouts[xs(p->m, stages->v[i])->tensor].buffer;
    if (!p->buffers.v[buf].halo || p->buffers.v[buf].filled) continue;
    p->buffers.v[buf].filled = true;
    halo_launch(p, buf, block, item);
  }
}
/* What a kernel computes, for readers. */
static const char *tensor_names(splan *p, const u32vec *stages) {
  sbuf b = sbuf_new(p->l->a);
  for (uint32_t i = 0; i < stages->n; i++)
    sb_fmt(&b, "%s%s", i ? " " : "", xt(p->m, xs(p->m, stages->v[i])->tensor)->name);
  return b.s ? b.s : "";
}
/* Are the chunks run by several threads? */
static void decide_threads(kctx *k) {
  const directive *d = stated(k, NULL, P_THREADS);
  if (k->facts) k->facts->open_work = k->l.where != 0;
  if (directive_is(d, 0, "never"))
    k->parallel = EK_PLANTED("follow-threads"), k->l.where = 0;
  else if (directive_is(d, 0, "always"))
    k->parallel = true, k->l.where = 0;
  else if (d && !directive_is(d, 0, "enough"))
    kernel_refuse(k, d, "expected %s", primitive_forms[P_THREADS].words);
  else if (d && !k->l.where)
    kernel_refuse(k, d, "no open size decides it here; expected always or never");
  kernel_record_word(k, kernel_record_new(k, NULL, P_THREADS),
                     !k->parallel ? "never"
                     : k->l.where ? "enough"
                                  : "always");
}
/* Every nest that is stated is there. */
static void check_nests(kctx *k, const grps *gs) {
  for (uint32_t i = 0; k->stated && i < k->stated->nests.n; i++) {
    const nest_record *n = &k->stated->nests.v[i];
    strvec names = {0};
    bool there = false;
    for (uint32_t g = 0; g < gs->n; g++) {
      vec_push(k->a, names, kernel_nest_name(k, &gs->v[g].stages));
      there |= !strcmp(names.v[g], n->name);
    }
    if (there) continue;
    diag_add(k->c, D_ERROR, E_USAGE, n->pos, NULL, "kernel %s has no nest %s%s", k->l.name, n->name,
             did_you_mean(k->a, n->name, names.v, names.n));
    ctx_unwind(k->c);
  }
}
/* Emits the kernel's function, the launch's own; part: it is a step of a recurrence, or NULL. */
static void emit_kernel(splan *p, const kernel_ref *q, const recurrence_launch *part, launch *l) {
  const u32vec *stages = q->stages;
  kctx k = {.p = p,
            .m = p->m,
            .c = p->m->c,
            .a = arena_new(p->m->c),
            .canon = q->canon,
            .l = *l,
            .stated = q->stated,
            .made = l->record,
            .facts = l->facts};
  lfunc *f = k.l.func = loop_func(p->l, LF_KERNEL, l->name, l->note);
  f->a = k.a;
  k.cls = q->kernel != UINT32_MAX ? p->m->kernels.v[q->kernel].cls : 0;
  emit_begin(&k.e, p, f, &k.l, k.a);
  k.scratch = sym_int(k.c, 0);
  k.stored = map_new(k.a);
  if (q->outer)
    for (uint32_t i = 0; i < q->outer->n; i++) vec_push(k.a, k.outer, q->outer->v[i]);
  uint32_t recurrence = 0;
  bool updates = false;
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(p->m, stages->v[i]);
    if (layout_materialised(p, s->tensor)) map_putu(k.stored, s->tensor, 1);
    if (s->recurrence) recurrence = s->recurrence;
    updates |= s->updates.n > 0 && !layout_inside(p->m, s);
    for (uint32_t j = 0; q->canon && j < s->naxes; j++)
      for (uint32_t d = 0; d < s->axes[j].n; d++) {
        atom v = s->axes[j].d[d].var, cv = kernel_canon(&k, v);
        if (v != cv) view_bind(&k.e.view, (binding){.var = v, .subst = sym_of_atom(k.c, cv)});
      }
  }
  grps gs = {0};
  kernel_groups(&k, stages, &gs);
  work w = kernel_work(k.m, stages, part ? k.m->recurrences.v[part->recurrence].var : 0);
  k.parallel = parallel_threshold(&k, &w, &k.l.where);
  kernel_name_vars(&k, stages);
  decide_threads(&k);
  check_nests(&k, &gs);
  if (part)
    kernel_recurrence_step(&k, &gs, part);
  else if (recurrence) {
    if (!kernel_point_recurrence(&k, stages->v[0])) kernel_recurrence(&k, &gs, recurrence);
  } else if (k.cls == KC_PREFIX_SCAN)
    kernel_prefix_scan(&k, stages->v[0]);
  else if (k.cls == KC_RANKING)
    kernel_ranking(&k, stages);
  else if (gs.n == 1 && !updates)
    kernel_one(&k, &gs.v[0].stages);
  else if (updates) {
    k.outer.n = 0;
    kernel_multi(&k, &gs);
  } else
    kernel_multi(&k, &gs);
  kernel_check_used(&k);
  if (k.scratch_ptr) k.l.args.v[k.scratch_arg].size = k.scratch;
  k.l.scratch = k.scratch;
  /* so many chunks of several groups are worth threads, however little is computed in each */
  if (k.l.where && gs.n > 1) k.l.where = sym_max(k.c, k.l.where, sym_addi(k.c, k.l.chunks, -(int64_t)p->t->chunks));
  k.l.parallel = k.parallel && sym_int_or(k.c, k.l.chunks, 2) > 1;
  loop_hoist(f);
  loop_settle(f, p->l->a);
  arena_free(k.a);
  *l = k.l;
}
/* The schedule that is given for a kernel: of its hash and place among those with this hash, of its hash alone, of its
 * number; NULL: there is none. */
static const kernel_record *stated_for(splan *p, const kernel_record *which) {
  kernel_record *found = NULL;
  for (uint32_t i = 0; i < p->stated->kernels.n; i++) {
    kernel_record *k = &p->stated->kernels.v[i];
    if (k->hashed ? k->hash == which->hash && (!k->nth || k->nth == which->nth) : k->number == which->number && !found)
      found = !found || k->nth ? k : found, k->used = true;
  }
  return found;
}
/* The kernel's hash, and which one it is among those that have it. */
static kernel_record named(splan *p, const kernel_ref *q, arena *a) {
  kernel_record k = {.number = p->launches.n, .hashed = true, .hash = kernel_hash(p, q, a)};
  uint64_t before = 0;
  if (!p->hashes) p->hashes = map_new(p->l->a);
  map_getu(p->hashes, k.hash, &before);
  map_putu(p->hashes, k.hash, before + 1);
  k.nth = (uint32_t)before + 1;
  return k;
}
/* One launch: of the function of an equal kernel, if there is one. */
static void one_launch(splan *p, const kernel_ref *q, const recurrence_launch *part, uint32_t item) {
  launch l = {.name = arena_fmt(p->l->a, "k%u", p->launches.n),
              .note = tensor_names(p, q->stages),
              .kernel = q->kernel,
              .block = q->block,
              .item = item,
              .chunks = sym_int(p->m->c, 1),
              .stages = *q->stages};
  arena *a = arena_new(p->m->c);
  equal_key key;
  kernel_ref stated = *q;
  kernel_record name = {0};
  if (p->record || p->stated) name = named(p, q, a);
  if (p->stated) stated.stated = stated_for(p, &name), q = &stated;
  if (p->record) l.record = arena_dup(p->l->a, &name, sizeof name);
  if (p->record && p->level > 0) l.facts = NEW(p->l->a, kernel_facts);
  const bool keyed = !part && equal_key_of(p, q, a, &key);
  if (!keyed || !equal_launch(p, &key, &l)) {
    const uint32_t mark = expr_enter(p->m, q->block), packs = p->buffers.n;
    if (q->stages->n) ctx_about(p->m->c, xt(p->m, xs(p->m, q->stages->v[0])->tensor)->name);
    emit_kernel(p, q, part, &l);
    if (keyed) equal_keep(p, &key, &l, packs);
    ctx_about(p->m->c, NULL);
    sym_pop(p->m->c, mark);
  }
  arena_free(a);
  fill_first(p, q->stages, q->block, item);
  vec_push(p->l->a, p->launches, l);
}

void kernel_schedule(splan *p, const kernel_ref *k, uint32_t item) {
  recurrence_launches parts = {0};
  uint32_t recurrence = xs(p->m, k->stages->v[0])->recurrence;
  if (!recurrence || p->level == 0 || kernel_is_point_recurrence(p, k->stages->v[0], NULL, NULL) ||
      !kernel_recurrence_launches(p, k->stages, recurrence, &parts)) {
    one_launch(p, k, NULL, item);
    return;
  }
  fill_first(p, k->stages, k->block, item); /* halos are not filled between the parts of a step */
  atom counter;
  sym_is_atom(p->m->c, sym_symbol(p->m->c, arena_fmt(p->l->a, "step.%u", p->launches.n), 0, INT32_MAX), &counter);
  for (uint32_t i = 0; i < parts.n; i++) {
    parts.v[i].recurrence = recurrence, parts.v[i].counter = counter;
    const kernel_ref step = {&parts.v[i].stages, NULL, parts.v[i].canon, k->kernel, k->block, NULL};
    one_launch(p, &step, &parts.v[i], item);
  }
}
