/* Which variable becomes the lane, which the row, and how large is the tile?
 *
 * Lane: the variable for which most accesses are contiguous or invariant. A constant operand counts as contiguous for
 * any variable, since it is packed at compile time; a run-time operand that would be gathered but is reused by a row
 * variable is packed into scratch and costs little. Row: a variable the lane operand does not depend on, so that its
 * vectors are reused from registers. Size: registers mr*nv + nv + 1 <= R (accumulators, one vector of each lane
 * operand, one broadcast), the shape with the best ratio of multiply-adds to loads over the actual extents, edges
 * included (the rule and the shapes were measured: at 98% of peak from 8 accumulators up, spill-free up to R). Rows
 * whose stride is a multiple of a way's bytes fall on one set of the cache: then at most l1_ways rows, half of these
 * where they come from far. What large products in blocks (blocking.c) take is chosen beside it: there rows come from
 * near. Rows may also be the points of two variables, one after the other: all values of one that has few for each of
 * another (beside), or, where their number is open, any points (collapsible). Few columns would leave most lanes empty:
 * then a variable of the sum runs along the lanes, rows share the vectors of the other operand, and each row is added
 * up across the lanes once, at the end.
 */
#include "expr/expr.h"
#include "schedule/tile.h"
#include <math.h>

static bool uses_inside(index_view *iv, sz x, atom var, map *seen);
static bool uses_below(index_view *iv, ex x, atom var, map *seen) {
  uint64_t had;
  if (!x || map_getu(seen, x, &had)) return false;
  map_putu(seen, x, 1);
  const ex_node *n = exn(iv->m, x);
  bool uses = false;
  if (n->kind == EX_INDEX) return uses_inside(iv, view_resolve(iv, n->index), var, seen);
  for (uint32_t i = 0; i < n->nargs && !uses; i++) {
    if (n->kind == EX_LOAD) uses = uses_inside(iv, view_resolve(iv, n->args[i]), var, seen);
    if (n->kind == EX_OP) uses = uses_below(iv, n->args[i], var, seen);
  }
  if (n->kind == EX_LOAD) return uses || uses_below(iv, n->otherwise, var, seen);
  if (n->kind == EX_REDUCE)
    return uses_below(iv, n->body, var, seen) || uses_below(iv, n->where, var, seen) ||
           uses_below(iv, n->payload, var, seen);
  return uses;
}
static bool uses_inside(index_view *iv, sz x, atom var, map *seen) {
  if (sym_uses(iv->c, x, var)) return true;
  if (!sym_uses_kind(iv->c, x, AT_DATA)) return false;
  u32vec data = {0};
  bool uses = false;
  sym_atoms(iv->c, x, AT_DATA, iv->a, &data);
  for (uint32_t i = 0; i < data.n && !uses; i++) uses = uses_below(iv, sym_data_id(iv->c, data.v[i]), var, seen);
  return uses;
}
bool value_uses(index_view *iv, ex x, atom var) { return uses_below(iv, x, var, map_new(iv->a)); }
static bool reduces_below(index_view *iv, ex x, map *seen) {
  const ex_node *n = exn(iv->m, x);
  uint64_t had;
  if (n->kind == EX_REDUCE) return true;
  if (n->kind == EX_LOAD) return n->otherwise && reduces_below(iv, n->otherwise, seen);
  if (n->kind != EX_OP || map_getu(seen, x, &had)) return false;
  map_putu(seen, x, 1);
  for (uint32_t i = 0; i < n->nargs; i++)
    if (reduces_below(iv, n->args[i], seen)) return true;
  return false;
}
/* The nodes that the value itself comes from, not only places that it says. */
static void come_from(const emodule *m, ex x, map *seen) {
  const ex_node *n = exn(m, x);
  uint64_t had;
  if (!x || map_getu(seen, x, &had)) return;
  map_putu(seen, x, 1);
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++) come_from(m, n->args[i], seen);
  if (n->kind == EX_LOAD) come_from(m, n->otherwise, seen);
  if (n->kind == EX_REDUCE) come_from(m, n->body, seen), come_from(m, n->where, seen), come_from(m, n->payload, seen);
}
bool value_reduces(index_view *iv, ex x) { return reduces_below(iv, x, map_new(iv->a)); }
bool address_uses(index_view *iv, sz address, atom var) {
  if (!sym_uses_kind(iv->c, address, AT_DATA)) return sym_uses(iv->c, address, var);
  return EK_PLANTED("schedule-tile") ? sym_uses(iv->c, address, var) : uses_inside(iv, address, var, map_new(iv->a));
}
int64_t address_coef(index_view *iv, sz address, atom var) {
  sz coef;
  int64_t k;
  if (sym_plain_coef(iv->c, address, var, &k)) return k;
  if (!sym_uses(iv->c, address, var)) return address_uses(iv, address, var) ? INT64_MIN : 0;
  if (!sym_linear(iv->c, address, var, &coef, NULL)) return INT64_MIN;
  return sym_is_int(iv->c, coef, &k) ? k : INT64_MIN + 1; /* linear, symbolic stride */
}
static struct known_loads *loads_of(splan *p, uint32_t stage) {
  while (p->loads.n <= stage) vec_push(p->l->a, p->loads, (struct known_loads){0});
  struct known_loads *known = &p->loads.v[stage];
  if (!known->all.v) {
    vec_reserve(p->l->a, known->all, 1);
    expr_loads(p->m, xs(p->m, stage)->value, p->l->a, &known->all);
  }
  return known;
}
/* Of each of these loads: does it only say a place? */
static const bool *places_of(splan *p, uint32_t stage, struct known_loads *known) {
  if (known->place) return known->place;
  arena *a = arena_new(p->m->c);
  map *from = map_new(a);
  come_from(p->m, xs(p->m, stage)->value, from);
  bool *place = NEWN(p->l->a, bool, known->all.n + 1);
  for (uint32_t i = 0; i < known->all.n; i++) place[i] = !map_getu(from, known->all.v[i], &(uint64_t){0});
  arena_free(a);
  return known->place = place;
}
u32vec schedule_loads(splan *p, uint32_t stage) { return loads_of(p, stage)->all; }
/* Each access to `take`, until it says no. */
static bool each_access(index_view *iv, const u32vec *stages, const map *stored,
                        bool (*take)(void *env, index_view *iv, const access *x), void *env) {
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(iv->m, stages->v[i]);
    struct known_loads *known = loads_of(iv->p, stages->v[i]);
    const u32vec loads = known->all;
    const bool *place = places_of(iv->p, stages->v[i], known);
    bool leader = exn(iv->m, s->value)->kind == EX_REDUCE;
    uint64_t dummy;
    sz idx[MAX_RANK];
    for (uint32_t k = 0; k < loads.n; k++) {
      const ex_node *n = exn(iv->m, loads.v[k]);
      tensor *t = xt(iv->m, n->tensor);
      const layout *lay = view_layout(iv, n->tensor);
      bool member = false;
      for (uint32_t j = 0; j < i && t->kind == TK_STAGE && !member; j++) member = stages->v[j] == t->stage;
      if (member || !lay->known) continue;
      for (uint32_t j = 0; j < n->nargs; j++) idx[j] = view_resolve(iv, n->args[j]);
      sz address = view_address(iv->c, lay, idx);
      access x = {.load = loads.v[k],
                  .t = n->tensor,
                  .stage = i,
                  .address = address,
                  .constant = t->kind == TK_CONST,
                  .known = t->kind == TK_CONST && !sym_uses_kind(iv->c, address, AT_DATA),
                  .leader = leader,
                  .place = place[k],
                  .guarded = n->otherwise != 0,
                  .bytes = et_bytes(t->type)};
      if (!take(env, iv, &x)) return false;
    }
    if (!map_getu(stored, s->tensor, &dummy)) continue;
    for (uint32_t j = 0; j < s->naxes; j++) idx[j] = view_resolve(iv, expr_axis_index(iv->m, &s->axes[j]));
    access x = {.t = s->tensor,
                .address = view_address(iv->c, view_layout(iv, s->tensor), idx),
                .store = true,
                .bytes = et_bytes(xt(iv->m, s->tensor)->type)};
    if (!take(env, iv, &x)) return false;
  }
  return true;
}
static bool keep_access(void *env, index_view *iv, const access *x) {
  vec_push(iv->a, *(accesses *)env, *x);
  return true;
}
void group_accesses(index_view *iv, const u32vec *stages, const map *stored, accesses *out) {
  each_access(iv, stages, stored, keep_access, out);
}
static bool is_linear(void *env, index_view *iv, const access *x) {
  return (address_coef(iv, x->address, *(const atom *)env) != INT64_MIN || EK_PLANTED("schedule-elementwise")) &&
         !x->guarded;
}
bool group_linear(index_view *iv, const u32vec *stages, const map *stored, atom var) {
  return each_access(iv, stages, stored, is_linear, &var);
}

/* where values are equal, the first (last) is the one with the least (greatest) payload */
static bool places_in_order(index_view *iv, const ex_node *red) {
  sz coef, rest, p = red->nargs == 1 ? sym_of_atom(iv->c, red->args[0]) : 0;
  if (p && red->payload) p = exn(iv->m, red->payload)->kind == EX_INDEX ? exn(iv->m, red->payload)->index : 0;
  return p && sym_linear(iv->c, p, red->args[0], &coef, &rest) && sym_ge0(iv->c, sym_addi(iv->c, coef, -1)) &&
         !address_uses(iv, rest, red->args[0]);
}

/* Do the values of two rows, of 16 bits each, alternate along the lanes? They are stored as words (lanes.c). */
static bool stores_pairs(index_view *iv, const access *a, int64_t q, atom lane, atom row) {
  return a->store && q == PAIR_ROWS && a->bytes == 2 && row != lane && address_coef(iv, a->address, row) == 1 &&
         sym_int_or(iv->c, sym_extent(iv->c, row), 0) == PAIR_ROWS;
}
/* The rows of a tile of values that are not sums: where an access lies apart along the lanes, what lies side by side
 * in it; it is then read or written in squares (lanes.c). */
static bool lies_strided(index_view *iv, const access *a, int64_t q, atom lane,
                         atom row) { /* q: address_coef of the lane */
  if (q == 0 || q == 1 || q == INT64_MIN || row == lane || address_coef(iv, a->address, row) != 1) return false;
  int64_t ext = sym_int_or(iv->c, sym_extent(iv->c, row), EXCHANGE_ROWS);
  return ext >= EXCHANGE_ROWS || (ext == q && !a->store);
}
/* Of results whose lanes lie apart: how many lie between this one's neighbouring rows, so that they fill the room: 1
 * for one alone whose rows lie side by side; 0: not all of it is filled. */
static int64_t woven_with(index_view *iv, const accesses *acc, const access *a, atom lane, atom row) {
  int64_t q = address_coef(iv, a->address, row), n = 0, d;
  if (!a->store || row == lane || q < 1 || q > 8) return 0;
  for (uint32_t i = 0; i < acc->n; i++)
    if (acc->v[i].store && iv->p->layouts[acc->v[i].t].buffer == iv->p->layouts[a->t].buffer &&
        sym_is_int(iv->c, sym_sub(iv->c, acc->v[i].address, a->address), &d))
      n += d >= 0 && d < q;
  return n == q ? n : 0;
}
static atom row_of_strided_lanes(index_view *iv, const accesses *acc, const u32vec *domain, atom lane,
                                 uint32_t *together) {
  uint32_t most = 0;
  atom row = 0;
  int64_t *q = NEWN(iv->a, int64_t, acc->n + 1u);
  for (uint32_t i = 0; i < acc->n; i++) q[i] = address_coef(iv, acc->v[i].address, lane);
  for (uint32_t d = 0; d < domain->n; d++) {
    uint32_t n = 0;
    int64_t w = 0;
    for (uint32_t i = 0; i < acc->n; i++) {
      n += lies_strided(iv, &acc->v[i], q[i], lane, domain->v[d]) ||
           stores_pairs(iv, &acc->v[i], q[i], lane, domain->v[d]);
      int64_t k = q[i] < 2 ? 0 : woven_with(iv, acc, &acc->v[i], lane, domain->v[d]);
      if (k > 1) n += (uint32_t)k, w = max64(w, k);
    }
    if (n > most) most = n, row = domain->v[d], *together = (uint32_t)max64(w, 1);
  }
  return row;
}
bool address_windowed(index_view *iv, sz address, atom row, atom red, int64_t most) {
  int64_t step = address_coef(iv, address, row), q = address_coef(iv, address, red),
          ext = view_extent(iv->c, sym_extent(iv->c, red), INT64_MAX);
  return step > 0 && q > 0 && step % q == 0 && step / q < ext && ext <= most;
}
/* For each row of a tile, how many vectors wait to be read again by another one, where a window slides along the
 * rows? It takes `step` places from row to row, and those of its taps that are not the last ones at their place
 * wait. */
static int64_t window_vectors(index_view *iv, const accesses *acc, const choice *ch, const u32vec *red) {
  int64_t most = 1;
  for (uint32_t i = 0; i < acc->n; i++)
    for (uint32_t r = 0;
         r < red->n && acc->v[i].leader && !acc->v[i].store && address_coef(iv, acc->v[i].address, ch->lane) != 0;
         r++) {
      if (!address_windowed(iv, acc->v[i].address, ch->row, red->v[r], WINDOW_STEPS)) continue;
      int64_t step = address_coef(iv, acc->v[i].address, ch->row) / address_coef(iv, acc->v[i].address, red->v[r]);
      most = max64(most, min64(step, sym_int_or(iv->c, sym_extent(iv->c, red->v[r]), 1) - step));
    }
  return most;
}
/* Does what a row of results reads and writes, over all lanes, stay in the nearest cache until the next row? A window's
 * lines are read again there; a panel at a time they would lie on few of its sets. True, too, where no other row reads
 * them. */
static bool row_stays(index_view *iv, const accesses *acc, const choice *ch, const u32vec *red, int64_t lanes,
                      int64_t rows) {
  int64_t bytes = 0;
  bool again = false;
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    int64_t lines = 1, row = address_coef(iv, a->address, ch->row);
    if ((!a->leader && !a->store) || row == 0 || address_coef(iv, a->address, ch->lane) == 0) continue;
    for (uint32_t r = 0; r < red->n && !a->store; r++)
      if (address_coef(iv, a->address, red->v[r]) > row &&
          !address_windowed(iv, a->address, red->v[r], ch->row, INT64_MAX))
        lines = sat_mul64(lines, view_extent(iv->c, sym_extent(iv->c, red->v[r]), 1));
    again |= lines > 1;
    bytes += lines * a->bytes;
  }
  return !again || (lanes > 0 && cost_fits_l1(iv->p->t, sat_mul64(sat_mul64(bytes, rows), lanes)));
}
/* Do the vectors that all rows share, of all panels, stay there too? */
static bool shared_stays(index_view *iv, const accesses *acc, const choice *ch, const u32vec *domain,
                         const u32vec *red) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    int64_t n = a->bytes;
    if (!a->leader || a->store || address_coef(iv, a->address, ch->lane) == 0 ||
        address_coef(iv, a->address, ch->row) != 0)
      continue;
    for (uint32_t k = 0; k < domain->n + red->n; k++) {
      atom v = k < domain->n ? domain->v[k] : red->v[k - domain->n];
      if (address_uses(iv, a->address, v)) n = sat_mul64(n, max64(1, view_extent(iv->c, sym_extent(iv->c, v), 1)));
    }
    bytes += n;
  }
  return cost_fits_half_l1(iv->p->t, bytes);
}
/* Elements that all results read of the operands, tiles of rows together. */
static double read_by_rows(index_view *iv, const accesses *acc, const u32vec *domain, atom row) {
  double sum = 0;
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    if (!a->leader || a->store) continue;
    const tensor *t = xt(iv->m, a->t);
    double n = 1;
    for (uint32_t d = 0; d < t->rank; d++) n *= (double)sym_int_or(iv->c, t->shape[d], TYPICAL_EXTENT);
    for (uint32_t d = 0; d < domain->n; d++) {
      const double ext = (double)view_extent(iv->c, sym_extent(iv->c, domain->v[d]), TYPICAL_EXTENT);
      if (!address_uses(iv, a->address, domain->v[d])) n *= domain->v[d] == row ? ceil(ext / HORIZONTAL_ROWS) : ext;
    }
    sum += n;
  }
  return sum;
}
/* The variable of the rows, and the number of its values: the longest beside constants, else the one with which least
 * is read. */
static int64_t horizontal_rows(index_view *iv, const accesses *acc, const u32vec *domain, bool constants, atom *row) {
  int64_t rows = HORIZONTAL_ROWS / 2;
  double least = INFINITY;
  for (uint32_t d = 0; d < domain->n; d++) {
    bool shares = false, reads = false, bad = false;
    const int64_t ext = view_extent(iv->c, sym_extent(iv->c, domain->v[d]), -1);
    for (uint32_t i = 0; i < acc->n; i++) {
      const access *a = &acc->v[i];
      int64_t q = a->leader && !a->store ? address_coef(iv, a->address, domain->v[d]) : 0;
      if (!a->leader || a->store) continue;
      shares |= a->constant == constants && q == 0, reads |= !a->constant && q > 0;
      bad |= a->constant ? q != 0 : q < 0;
    }
    if (!shares || !reads || bad || ext <= (constants ? rows : HORIZONTAL_ROWS / 2)) continue;
    const double all = constants ? 0 : read_by_rows(iv, acc, domain, domain->v[d]);
    if (constants || all < least) *row = domain->v[d], rows = ext, least = all;
  }
  return rows;
}
/* A variable of the sum along the lanes, where what is computed lies in steps of one, and rows that share what is
 * constant; with `idle` lanes otherwise, also another operand. */
static bool choose_horizontal(index_view *iv, const accesses *acc, const u32vec *domain, const u32vec *red, uint32_t L,
                              bool idle, choice *ch) {
  choice to = {.mr = 1, .nv = 1, .lane_reduced = true, .saved = ch->saved, .lanes = ch->lanes};
  int64_t longest = L - 1, rows = 0;
  for (uint32_t r = 0; r < red->n; r++) {
    int64_t ext = view_extent(iv->c, sym_extent(iv->c, red->v[r]), -1);
    bool ok = ext > longest;
    for (uint32_t i = 0; i < acc->n && ok; i++) {
      const access *a = &acc->v[i];
      int64_t q = a->leader && !a->store ? address_coef(iv, a->address, red->v[r]) : 1;
      sz idx[MAX_RANK];
      ok = (a->constant ? q > 0 : q == 1) && (!a->leader || !a->guarded || view_plain(iv, a->load, idx));
    }
    if (ok) to.lane = red->v[r], longest = ext;
  }
  if (to.lane) rows = horizontal_rows(iv, acc, domain, !idle, &to.row);
  if (!to.row) return false;
  to.mr = (uint32_t)min64(HORIZONTAL_ROWS, rows);
  *ch = to;
  return true;
}
/* Would the lanes take elements that lie apart, for few results each? */
static bool gathers(index_view *iv, const accesses *acc, const u32vec *domain, const choice *ch) {
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    int64_t q = a->leader && !a->store && !a->constant ? address_coef(iv, a->address, ch->lane) : 0, reuse = 1;
    if (q >= -1 && q <= 1) continue;
    for (uint32_t d = 0; d < domain->n && reuse <= HORIZONTAL_REUSE; d++)
      if (!address_uses(iv, a->address, domain->v[d]))
        reuse *= max64(1, view_extent(iv->c, sym_extent(iv->c, domain->v[d]), HORIZONTAL_REUSE + 1));
    if (reuse <= HORIZONTAL_REUSE) return true;
  }
  return false;
}
/* Will the operand along the lanes be in fixed point? */
static bool is_fixed(index_view *iv, const accesses *acc, const u32vec *domain, const choice *ch, uint32_t stage,
                     const ex_node *root) {
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    int64_t uses = 1;
    if (!a->leader || a->store || a->load != ch->lane_load || !a->constant) continue;
    for (uint32_t d = 0; d < domain->n; d++)
      if (!address_uses(iv, a->address, domain->v[d]))
        uses = fixed_point_uses(iv->p, uses, sym_extent(iv->c, domain->v[d]));
    interleaved all;
    return pack_interleaved(iv, acc, i, xs(iv->m, stage)->value, &all) && all.all &&
           fixed_point_pays(iv, a->load, root, uses / all.n);
  }
  return false;
}
/* The variable whose values have factors of their own, made of the same constants: a tile has all of its values,
 * written out. */
static atom factors_of(index_view *iv, const u32vec *domain, const choice *ch, const ex_node *root) {
  enum { MOST = 8 };
  ex f = ch->lane_load ? factor_of(iv, root, ch->lane_load) : 0;
  u32vec loads = {0};
  if (!f || f == ch->lane_load) return 0;
  expr_loads(iv->m, f, iv->a, &loads);
  for (uint32_t d = 0; d < domain->n; d++) {
    bool ok = value_uses(iv, f, domain->v[d]) && view_extent(iv->c, sym_extent(iv->c, domain->v[d]), MOST + 1) <= MOST;
    for (uint32_t i = 0; i < loads.n && ok; i++)
      ok = xt(iv->m, exn(iv->m, loads.v[i])->tensor)->kind == TK_CONST && !value_uses(iv, loads.v[i], domain->v[d]);
    if (ok) return domain->v[d];
  }
  return 0;
}
/* Does an operand's address say which panel it is? */
static bool states_panel(index_view *iv, const accesses *acc, const choice *ch, atom v) {
  bool panel = false;
  for (uint32_t i = 0; i < acc->n; i++)
    panel |= acc->v[i].load == ch->lane_load && address_uses(iv, acc->v[i].address, v);
  return panel;
}
/* Few rows, so that each panel of constants serves few sums: is there one other variable whose neighbours have as
 * many more? */
static atom choose_row2(index_view *iv, const accesses *acc, const u32vec *domain, const choice *ch, int64_t rows,
                        int64_t few, int64_t most) {
  atom v = 0;
  if (rows < 2 || rows > few || 2 * rows > most || !sym_is_int(iv->c, sym_extent(iv->c, ch->row), NULL)) return 0;
  for (uint32_t d = 0; d < domain->n; d++) {
    if (domain->v[d] == ch->lane || domain->v[d] == ch->row || states_panel(iv, acc, ch, domain->v[d])) continue;
    if (v) return 0;
    v = domain->v[d];
  }
  for (uint32_t i = 0; i < acc->n && v; i++) {
    const access *a = &acc->v[i];
    int64_t lane = address_coef(iv, a->address, ch->lane), row = address_coef(iv, a->address, ch->row),
            q = address_coef(iv, a->address, v);
    if (a->store ? lane != 1 : a->leader && (lane ? !a->constant || row || q : !a->load || row <= 0 || q == INT64_MIN))
      return 0;
  }
  return v;
}
/* The two variables whose points, one after the other, may be the rows: the first has an open number of values, few
 * as a rule, so that tiles of only these would not be full, and neither would those of the second, which may have
 * as few; or a known one, if it decides what a sum leaves out. The second counts fastest: places that the first
 * one leaves out are then left out for whole tiles (condition.c). A row's place is a register's. */
static bool collapsible(index_view *iv, const accesses *acc, const u32vec *domain, const choice *ch, atom *two,
                        bool *partitioned) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < domain->n; d++)
    if (domain->v[d] != ch->lane && !states_panel(iv, acc, ch, domain->v[d])) {
      if (n == 2) return false;
      two[n++] = domain->v[d];
    }
  for (uint32_t i = 0; i < 2 && n == 2; i++) {
    atom first = two[1 - i], second = two[i];
    bool known = sym_is_int(iv->c, sym_extent(iv->c, first), NULL);
    if (known && sym_is_int(iv->c, sym_extent(iv->c, second), NULL)) return false;
    if (expr_typical(iv->m, sym_extent(iv->c, first)) > MAX_COLLAPSED ||
        view_extent(iv->c, sym_extent(iv->c, second), 0) >= MAX_COLLAPSED)
      continue;
    two[0] = first, two[1] = second, *partitioned = false;
    for (uint32_t k = 0; k < acc->n; k++) {
      const access *a = &acc->v[k];
      int64_t lane = address_coef(iv, a->address, ch->lane),
              q[2] = {address_coef(iv, a->address, first), address_coef(iv, a->address, second)};
      if (a->store ? lane != 1
                   : a->leader && (lane ? !a->constant || q[0] || q[1] : q[0] == INT64_MIN || q[1] == INT64_MIN))
        return false;
      *partitioned |= a->guarded && a->leader && q[0] != 0;
    }
    if (!known || *partitioned) return true;
  }
  return false;
}
/* What the tile of a group is chosen from. */
typedef struct tiling {
  index_view *iv;          /* the kernel */
  const u32vec *stages;    /* the group */
  const accesses *acc;     /* what it reads and writes */
  const u32vec *domain;    /* variables of its index space */
  const u32vec *red;       /* variables of the leader's reduction */
  const tile_given *given; /* what is decided already */
  const ex_node *root;     /* the leader's value */
  uint32_t lanes;          /* lanes of a vector */
  uint32_t registers;      /* vector registers */
  uint32_t leaders;        /* reductions: two products in one tile have no variable of these in common */
  bool reduces;            /* the leader is a reduction */
  bool arg;                /* and asks for a place */
  /* a contraction proper: each of two operands has an output variable of its own, so that a register tile pays more
   * than horizontal sums */
  bool contraction;
  bool computed;         /* the leader adds up floats that are computed in each run, no constants, which are packed */
  bool codes;            /* the operand along the lanes has codes of few bits (bit_pack.c) */
  int64_t steps;         /* terms of the sum; of many, MAX_SUM_STEPS or more */
  const instruction *by; /* may compute the innermost part of the leader's sum; NULL: it goes term by term */
} tiling;

static bool reads_value(const access *a) { return a->leader && !a->store && !a->place; }
/* Places that variables of the results count in one access and not in another one: 1 where there are none. */
static int64_t own_places(const tiling *w, const access *a, const access * not) {
  int64_t n = 1;
  for (uint32_t d = 0; d < w->domain->n; d++) {
    const atom v = w->domain->v[d];
    if (address_uses(w->iv, a->address, v) && !address_uses(w->iv, not->address, v))
      n = sat_mul64(n, sym_int_or(w->iv->c, sym_extent(w->iv->c, v), TYPICAL_EXTENT));
  }
  return n;
}
static bool has_places_of_its_own(const tiling *w, const access *a, const access *b) {
  enum { MIN_PLACES = 4, MIN_PACKED = 2 }; /* few rows pay, too, where what runs along the lanes can be packed */
  return reads_value(a) && reads_value(b) &&
         own_places(w, a, b) >= (b->known && !a->constant ? MIN_PACKED : MIN_PLACES);
}
static bool is_contraction(const tiling *w) {
  bool product = false;
  for (uint32_t i = 0; i < w->acc->n && w->reduces; i++)
    for (uint32_t j = 0; j < i && !product; j++)
      product = has_places_of_its_own(w, &w->acc->v[i], &w->acc->v[j]) &&
                has_places_of_its_own(w, &w->acc->v[j], &w->acc->v[i]);
  return product;
}
/* Is a factor of the sum a constant of few bits, with another factor for blocks of terms? */
static bool reads_codes(const tiling *w) {
  factored f;
  for (uint32_t i = 0; i < w->acc->n; i++) {
    const access *a = &w->acc->v[i];
    if (!a->leader || a->store || xt(w->iv->m, a->t)->narrow.type == ET_NONE) continue;
    for (uint32_t r = 0; r < w->red->n; r++)
      if (sum_factors(w->iv, w->root, w->red->v[r], &f) && f.outer) return true;
  }
  return false;
}
static tiling tiling_of(index_view *iv, const u32vec *stages, const accesses *acc, const u32vec *domain,
                        const u32vec *red, const tile_given *given) {
  /* a copy: looking for factors makes nodes, which moves all of them */
  const ex_node *root = arena_dup(iv->a, exn(iv->m, xs(iv->m, stages->v[0])->value), sizeof *root);
  tiling w = {.iv = iv,
              .stages = stages,
              .acc = acc,
              .domain = domain,
              .red = red,
              .given = given,
              .root = root,
              .lanes = nest_lanes(iv, stages),
              .registers = iv->p->t->vector_registers,
              .reduces = root->kind == EX_REDUCE,
              .steps = 1};
  w.arg = w.reduces && red_is_arg((rop)root->op);
  for (uint32_t i = 0; i < stages->n; i++) w.leaders += exn(iv->m, xs(iv->m, stages->v[i])->value)->kind == EX_REDUCE;
  w.contraction = is_contraction(&w);
  w.computed = w.reduces && root->op == RED_SUM && et_kind((etype)root->acc) == K_FLOAT;
  for (uint32_t i = 0; i < acc->n; i++) w.computed &= !acc->v[i].leader || !acc->v[i].known;
  for (uint32_t i = 0; i < red->n && w.steps < MAX_SUM_STEPS; i++)
    w.steps *= max64(0, min64(sym_int_or(iv->c, sym_extent(iv->c, red->v[i]), TYPICAL_EXTENT), MAX_SUM_STEPS));
  if (!w.reduces) return w;
  factored room;
  const ex_node *sum = sum_of_integers(iv, root, 0, &room);
  if (!given->no_instruction) w.by = instruction_of_sum(iv->p, sum, w.lanes, NULL);
  if (w.by) w.registers -= instruction_scratch(w.by);
  w.codes = sum == root && reads_codes(&w);
  /* what the innermost loop adds up has registers of its own (sum_factors.c) */
  if (sum != root || w.codes) w.registers /= 2;
  return w;
}

/* ---- lanes ------------------------------------------------------------------------------------- */
/* A variable that may run along the lanes. */
typedef struct lane_candidate {
  atom var;     /* the variable */
  bool reduced; /* it is a variable of the reduction */
  int64_t ext;  /* number of its values; -1: not known */
  bool batched; /* no two lanes share an element of any operand */
} lane_candidate;

/* Do neighbours of v begin where the values of `inner` end, in all that the leader reads? Then both are counted by one
 * loop. Not beside constants, which are packed for any lanes. One value goes on nowhere, nor does what nothing reads:
 * else two variables could go on in each other. */
static bool goes_on(const tiling *w, atom inner, atom v) {
  const int64_t n = sym_int_or(w->iv->c, sym_extent(w->iv->c, inner), 0);
  bool on = n > 1 && inner != v, used = false;
  for (uint32_t i = 0; i < w->acc->n && on; i++) {
    const access *a = &w->acc->v[i];
    if (!a->leader || a->store) continue;
    const int64_t q = address_coef(w->iv, a->address, inner), k = address_coef(w->iv, a->address, v);
    on = !a->constant && q >= 0 && k == sat_mul64(q, n);
    used |= q > 0;
  }
  return on && used;
}
/* Values of v, and of the variables that go on where it ends. */
static int64_t rows_along(const tiling *w, atom v, atom lane) {
  int64_t rows = sym_int_or(w->iv->c, sym_extent(w->iv->c, v), TYPICAL_EXTENT);
  for (uint32_t d = 0; d < w->domain->n; d++)
    if (w->domain->v[d] != lane && goes_on(w, v, w->domain->v[d])) {
      v = w->domain->v[d];
      rows = sat_mul64(rows, sym_int_or(w->iv->c, sym_extent(w->iv->c, v), TYPICAL_EXTENT));
      d = UINT32_MAX;
    }
  return rows;
}
/* How many results, of those with the same value of x, use an element again: an operand of a sum that lies in steps
 * along the lanes is then packed into scratch. In a short sum only those of one loop count: the rows of a tile. */
static int64_t reuse_of(const tiling *w, const access *a, const lane_candidate *x) {
  int64_t reuse = 1;
  if (!w->reduces || !a->leader || x->reduced || a->store) return 0;
  for (uint32_t d = 0; d < w->domain->n; d++) {
    const atom v = w->domain->v[d];
    if (v == x->var || address_uses(w->iv, a->address, v)) continue;
    if (cost_hides_store(w->steps))
      reuse = sat_mul64(reuse, sym_int_or(w->iv->c, sym_extent(w->iv->c, v), TYPICAL_EXTENT));
    else
      reuse = max64(reuse, rows_along(w, v, x->var));
  }
  return reuse;
}
/* Do terms of the sum lie side by side in this access, as many as an instruction that may compute it takes at once? */
static bool lies_in_groups(const tiling *w, const access *a) {
  const uint32_t group = w->by && w->contraction ? w->by->group : 1;
  bool grouped = group == 1 || !reads_value(a);
  for (uint32_t r = 0; r < w->red->n && !grouped; r++)
    grouped = address_coef(w->iv, a->address, w->red->v[r]) == 1 &&
              sym_int_or(w->iv->c, sym_extent(w->iv->c, w->red->v[r]), group) >= group;
  return grouped;
}
/* Do the groups of neighbouring lanes lie side by side? */
static bool lies_in_words(const tiling *w, const access *a, int64_t q) {
  return w->by && w->contraction && q > 1 && q == w->by->group && reads_value(a) && lies_in_groups(w, a);
}
/* How do the elements of neighbouring lanes lie, in an access whose address has coefficient q of the variable? */
static lane_pattern pattern_of(const tiling *w, const access *a, const lane_candidate *x, int64_t q) {
  if (q == 1 || lies_in_words(w, a, q)) return LANE_CONTIGUOUS;
  if (q == 0) return lies_in_groups(w, a) ? LANE_INVARIANT : LANE_UNGROUPED;
  if (a->constant && w->reduces && a->leader && !x->reduced && (a->known || q == INT64_MIN))
    return x->batched ? LANE_PACKED_ONE : LANE_PACKED;
  if (!a->store && lanes_strided(w->iv->c, a->address, x->var, w->lanes)) return LANE_SHUFFLED;
  if (q == INT64_MIN && !a->store && w->reduces && a->leader && !sym_uses(w->iv->c, a->address, x->var))
    return LANE_GATHERED;
  if (q == INT64_MIN) return LANE_UNKNOWN;
  for (uint32_t d = 0; d < w->domain->n && !w->reduces; d++)
    if (stores_pairs(w->iv, a, q, x->var, w->domain->v[d])) return LANE_SHUFFLED;
  for (uint32_t d = 0; d < w->domain->n && !w->reduces; d++)
    if (lies_strided(w->iv, a, q, x->var, w->domain->v[d])) return LANE_EXCHANGED;
  return LANE_STRIDED;
}
/* What the access saves where the variable runs along the lanes, in cycles. */
static double access_saves(const tiling *w, const access *a, const lane_candidate *x, int64_t q) {
  lane_access at = {.store = a->store,
                    .after_sum = (w->contraction || w->computed) && !a->leader,
                    .in_sum = a->store && !x->reduced,
                    .steps = w->steps};
  /* read or stored once after many steps: how it is strided counts little */
  at.pattern = at.after_sum && cost_hides_store(w->steps) && q != INT64_MIN ? (q == 1   ? LANE_CONTIGUOUS
                                                                               : q == 0 ? LANE_INVARIANT
                                                                                        : LANE_STRIDED)
                                                                            : pattern_of(w, a, x, q);
  if (at.pattern == LANE_STRIDED) at.reuse = reuse_of(w, a, x);
  return cost_lane_access(w->iv->p->t, &at);
}
/* Lanes of which no part is idle: half registers serve as well where every run-time operand lies for it
 * (cost_half_width). */
static uint32_t least_lanes(const tiling *w, const lane_candidate *x) {
  bool halves = w->contraction && w->leaders == 1 && !x->reduced && tile_halves(w->iv->p->t, w->lanes);
  for (uint32_t i = 0; i < w->acc->n && halves; i++) {
    const access *a = &w->acc->v[i];
    halves = !a->leader || a->store || a->constant || address_coef(w->iv, a->address, x->var) == 0;
  }
  return halves ? w->lanes / 2 : w->lanes;
}
/* *follows: some access depends on the variable. */
static double lane_saves(const tiling *w, lane_candidate *x, bool *follows) {
  double saved = 0;
  uint32_t aligned = 0;
  x->batched = w->contraction, *follows = false;
  for (uint32_t i = 0; i < w->acc->n; i++)
    x->batched &= !reads_value(&w->acc->v[i]) || address_uses(w->iv, w->acc->v[i].address, x->var);
  for (uint32_t i = 0; i < w->acc->n; i++) {
    const access *a = &w->acc->v[i];
    if (x->reduced && !a->leader) continue;
    const int64_t q = address_coef(w->iv, a->address, x->var);
    saved += access_saves(w, a, x, q);
    *follows |= q != 0;
  }
  for (uint32_t i = 0; i < w->acc->n && w->contraction; i++)
    aligned += w->acc->v[i].constant && w->acc->v[i].leader && address_uses(w->iv, w->acc->v[i].address, x->var);
  return cost_lane(saved, x->ext, least_lanes(w, x), x->reduced, aligned);
}
static void choose_lane(const tiling *w, choice *ch) {
  ctx *c = w->iv->c;
  const tile_given *given = w->given;
  /* a lane that only gathers is worse than none, but for a long sum of products */
  const bool any = given->lane_given || (w->contraction && cost_hides_store(w->steps));
  double best = any ? -HUGE_VAL : LANE_MIN_SAVED;
  /* a reduction's variable may run along the lanes */
  const bool horizontal =
      w->reduces && w->leaders == 1 && !w->contraction && (!w->arg || places_in_order(w->iv, w->root));
  for (uint32_t k = 0; k < w->domain->n + (horizontal ? w->red->n : 0); k++) {
    const bool reduced = k >= w->domain->n;
    lane_candidate x = {.var = reduced ? w->red->v[k - w->domain->n] : w->domain->v[k], .reduced = reduced};
    bool follows;
    if (given->lane_given && x.var != given->lane) continue;
    x.ext = view_extent(c, sym_extent(c, x.var), -1);
    const double saved = lane_saves(w, &x, &follows);
    if (!follows && !given->lane_given) continue;
    const int64_t had = ch->lane ? sym_int_or(c, sym_extent(c, ch->lane), 0) : 0;
    /* between equal ones: the longer, then the inner one */
    if (saved > best + LANE_TIE || (saved > best - LANE_TIE && (reduced ? x.ext > had : max64(x.ext, 0) >= had)))
      best = saved, ch->lane = x.var, ch->lane_reduced = reduced;
  }
  ch->saved = ch->lane ? best : 0;
}
/* Would half of the lanes be idle, in a product of what is computed in each run? */
static bool half_idle(const tiling *w, int64_t lane_ext) {
  for (uint32_t i = 0; i < w->acc->n; i++)
    if (w->acc->v[i].leader && !w->acc->v[i].store && w->acc->v[i].constant) return false;
  return w->contraction && cost_half_idle(lane_ext, w->lanes);
}
/* May a variable of the sum run along the lanes of a tile with rows? Not if other lanes or no rows are decided; where
 * the lanes would not be full (`idle`: by half), or gather, and the sum is long. */
static bool may_be_horizontal(const tiling *w, const choice *ch, int64_t lane_ext, bool idle) {
  const tile_given *given = w->given;
  if ((given->lane_given && !vec_has(w->red, given->lane)) || (given->row_given && !given->row)) return false;
  const bool few = !ch->lane || ch->lane_reduced || (w->contraction && cost_few_lanes(lane_ext, w->lanes)) || idle ||
                   gathers(w->iv, w->acc, w->domain, ch);
  return few && w->reduces && w->root->op == RED_SUM && et_kind((etype)w->root->acc) == K_FLOAT && !w->root->where &&
         w->leaders == 1 && w->steps >= HORIZONTAL_STEPS * w->lanes;
}

/* ---- rows -------------------------------------------------------------------------------------- */
/* A variable that may run along the rows. */
typedef struct row_candidate {
  int64_t ext;    /* values, as far as is known */
  int64_t gain;   /* values that are certain to be rows */
  int64_t stride; /* bytes from row to row in the operand that is read for them */
  bool far;       /* an open number of bytes */
  bool fits;      /* rows may run along it */
} row_candidate;
/* Does the access follow a variable of the sum? What does not waits in a register while it runs. */
static bool follows_sum(const tiling *w, const access *a) {
  for (uint32_t r = 0; r < w->red->n; r++)
    if (address_coef(w->iv, a->address, w->red->v[r])) return true;
  return false;
}
/* windows: neighbouring rows may share a factor of all lanes, and in a window vectors, instead of what follows the
 * lanes. */
static row_candidate row_of(const tiling *w, const choice *ch, atom v, bool windows) {
  index_view *iv = w->iv;
  row_candidate x = {.ext = view_extent(iv->c, sym_extent(iv->c, v), 1)};
  bool shares = false, bad = false, slides = false, factor = false;
  for (uint32_t i = 0; i < w->acc->n; i++) {
    const access *a = &w->acc->v[i];
    if (!a->leader) continue;
    const int64_t q = address_coef(iv, a->address, v), lane = address_coef(iv, a->address, ch->lane);
    shares |= lane != 0 && q == 0 && follows_sum(w, a);
    factor |= lane == 0 && q == 0 && a->load;
    for (uint32_t r = 0; r < w->red->n && windows && lane > 0; r++)
      slides |= address_windowed(iv, a->address, v, w->red->v[r], WINDOW_STEPS);
    bad |= q == INT64_MIN;
    if (q > 0) x.stride = sat_mul64(q, a->bytes);
    x.far |= q == INT64_MIN + 1;
  }
  x.fits = (shares || (slides && factor) || w->given->row_given) && !bad;
  int64_t least, most;
  sym_range(iv->c, sym_extent(iv->c, v), &least, &most);
  /* an open size may be 1: a known one is better, and one that is 2 at most worse */
  x.gain = x.ext > 1 || most > 2 ? x.ext : 0;
  return x;
}
/* The operand along the lanes must not depend on the rows. */
static row_candidate choose_row(const tiling *w, choice *ch) {
  ctx *c = w->iv->c;
  row_candidate best = {0};
  for (int windows = 0; windows < 2 && w->reduces && !ch->row; windows++)
    for (uint32_t d = 0; d < w->domain->n; d++) {
      const atom v = w->domain->v[d];
      if (v == ch->lane || (w->given->row_given && v != w->given->row)) continue;
      const row_candidate x = row_of(w, ch, v, windows);
      if (!x.fits) continue;
      /* the largest; of equals the one with the smaller stride */
      if (!ch->row || x.gain > best.gain ||
          (x.gain == best.gain && (x.far ? INT64_MAX : x.stride) < (best.far ? INT64_MAX : best.stride)))
        ch->row = v, best = x;
    }
  if (ch->row && !sym_is_int(c, sym_extent(c, ch->row), NULL)) best.ext = TYPICAL_ROWS;
  return best;
}

/* Are the constants that the rows share computed into panels? Tiles read floats then. */
static void choose_panel_values(tiling *w, choice *ch) {
  const tile_given *given = w->given;
  bool pays;
  const ex shared = w->by || ch->lane_reduced ? 0 : panel_value(w->iv, w->root, ch->lane, ch->row, w->domain, &pays);
  ch->may_share = shared != 0;
  if (!shared || !(given->panels_given ? given->computes_panels : pays)) return;
  ch->shared = shared;
  w->codes = false, w->registers = w->iv->p->t->vector_registers;
}
/* ---- the tile ---------------------------------------------------------------------------------- */
/* A load that follows the lanes, if `rows`, one that all rows share; 0: none. */
static ex lane_load_of(const tiling *w, const choice *ch, bool rows) {
  ex load = 0;
  for (uint32_t i = 0; i < w->acc->n; i++) {
    const access *a = &w->acc->v[i];
    if (a->leader && !a->store && address_coef(w->iv, a->address, ch->lane) != 0 &&
        (!rows || address_coef(w->iv, a->address, ch->row) == 0))
      load = a->load;
  }
  return load;
}
/* One vector, whose factors of `made` wait in registers, too. */
static void tile_of_factors(const tiling *w, atom made, choice *ch) {
  ctx *c = w->iv->c;
  ch->row = made, ch->lane_outer = true, ch->nv = 1;
  const int64_t n = sym_int_or(c, sym_extent(c, made), 1), most = max64(1, (w->registers - 1) / n - 1);
  ch->row2 = choose_row2(w->iv, w->acc, w->domain, ch, n, n, 2 * n);
  const int64_t ext = ch->row2 ? max64(1, view_extent(c, sym_extent(c, ch->row2), most)) : 1,
                times = (ext + most - 1) / most;
  ch->mr = (uint32_t)(n * ((ext + times - 1) / times));
}
/* Values that are no sums: rows only where what lies apart along the lanes lies side by side along them. */
static void tile_of_values(const tiling *w, int64_t vecs, choice *ch) {
  ctx *c = w->iv->c;
  uint32_t together = 1;
  ch->row = row_of_strided_lanes(w->iv, w->acc, w->domain, ch->lane, &together);
  if (w->given->row_given && ch->row != w->given->row)
    ch->row = w->given->row == ch->lane ? 0 : w->given->row, together = 1;
  ch->mr =
      ch->row ? (uint32_t)max64(1, min64(w->lanes / together, view_extent(c, sym_extent(c, ch->row), w->lanes))) : 1;
  ch->nv = ch->row || vecs < 2 || w->stages->n > 8 ? 1 : 2; /* many values live together fill the registers alone */
}
/* Vectors enough to hide how long each step waits for the one before; more where each step is in other pages, which the
 * cache does not foresee (a row of 2048 floats and its next one, summed on Zen 4: 16 vectors of each take two thirds of
 * the time that 8 take). */
static void tile_of_vectors(const tiling *w, int64_t vecs, bool open, bool fixed, choice *ch) {
  const target *t = w->iv->p->t;
  bool far = false;
  for (uint32_t i = 0; i < w->acc->n && !w->arg; i++) {
    const access *a = &w->acc->v[i];
    if (!a->leader || a->constant || address_coef(w->iv, a->address, ch->lane) != 1) continue;
    for (uint32_t r = 0; r < w->red->n; r++)
      if (address_coef(w->iv, a->address, w->red->v[r]) >= (int64_t)t->prefetch_stride / a->bytes) far = true;
  }
  uint32_t m = cost_sums_in_flight(t, w->arg, far);
  if (fixed) m = 2 * FIXED_POINT_VECTORS;
  ch->nv = vecs < m ? (uint32_t)vecs : m;
  if (!open && !fixed)
    while (ch->nv > 1 && vecs % ch->nv && vecs % ch->nv < ch->nv / 2) ch->nv--;
}
/* The operands of a tile with rows. */
typedef struct operands {
  bool stencil;   /* a row operand follows the lanes, too: each copy loads a vector of its own */
  bool shared;    /* another vector is the same for all rows */
  bool floats;    /* all are of 4 bytes */
  uint32_t panel; /* bytes of those that run along the lanes, an element of each */
  uint32_t row;   /* the same of those that do not */
} operands;
static operands operands_of(const tiling *w, const choice *ch) {
  operands o = {.floats = true};
  for (uint32_t i = 0; i < w->acc->n; i++) {
    const access *a = &w->acc->v[i];
    if (!a->leader || a->store) continue;
    const bool lane = address_coef(w->iv, a->address, ch->lane) != 0;
    if (lane && ch->shared) continue;
    if (lane) *(address_coef(w->iv, a->address, ch->row) != 0 ? &o.stencil : &o.shared) = true;
    *(lane ? &o.panel : &o.row) += a->bytes;
    o.floats &= a->bytes == sizeof(float);
  }
  if (ch->shared) o.shared = true, o.panel = et_bytes(ET_F32);
  return o;
}
static tile_costs costs_of(const tiling *w, const operands *o, const row_candidate *row, bool fixed, const choice *ch) {
  const int64_t window = !o->stencil ? 0 : o->shared ? 1 : window_vectors(w->iv, w->acc, ch, w->red);
  return cost_tiles(w->iv->p->t, &(tile_operands){.registers = w->registers,
                                                  .lanes = w->lanes,
                                                  .steps = w->steps,
                                                  .panel_bytes = o->panel,
                                                  .row_bytes = o->row,
                                                  .row_stride = row->stride,
                                                  .rows = row->ext,
                                                  .by = w->by,
                                                  .window = window,
                                                  .shared = o->shared,
                                                  .codes = w->codes,
                                                  .computed = ch->shared != 0,
                                                  .fixed_vectors = fixed ? FIXED_POINT_VECTORS : 0});
}
/* Another tile, for rows that are the points of two variables, one after the other. */
static void collapsed_tile(const tiling *w, const tile_costs *k, const operands *o, int64_t lane_ext, size_range vecs,
                           choice *ch) {
  ctx *c = w->iv->c;
  size_range rows;
  if (o->stencil || !collapsible(w->iv, w->acc, w->domain, ch, ch->collapsed, &ch->collapsed_partitioned)) return;
  sym_range(c, sym_mul(c, sym_extent(c, ch->collapsed[0]), sym_extent(c, ch->collapsed[1])), &rows.lo, &rows.hi);
  const tile_costs flat = cost_collapsed_tiles(k, max64(1, w->steps / (w->by ? w->by->group : 1)));
  const tile_shape shape = cost_tile_shape(&flat, rows, vecs);
  ch->collapsed_mr = shape.rows, ch->collapsed_nv = shape.vectors;
  /* panels, which fill the nearest cache, come from the second one for each tile anyway, and where rows lie is
   * worked out once */
  ch->collapsed_outer = shape.vectors >= k->l1_vectors && lane_ext > 0 &&
                        cost_fits_half_l2(w->iv->p->t, (double)w->steps * (double)lane_ext * o->panel);
}
/* The shape for so many rows and vectors; *vecs: in registers of half the width, if these are better. */
static void choose_shape(const tiling *w, const operands *o, bool fixed, size_range rows, size_range *vecs,
                         int64_t lane_ext, tile_costs *k, choice *ch) {
  tile_shape shape = cost_tile_shape(k, rows, *vecs), half;
  const int64_t halves = (lane_ext + ch->lanes / 2 - 1) / max64(1, ch->lanes / 2);
  tile_costs of_half;
  /* 24 floats are one and a half vectors of 16; of an even number of halves no lane less would be idle */
  if (!o->stencil && !fixed && !ch->row2 && w->leaders == 1 && rows.lo == rows.hi && lane_ext > 0 && o->floats &&
      tile_halves(k->t, ch->lanes) && halves % 2 && cost_half_width(k, rows, *vecs, halves, shape, &of_half, &half))
    shape = half, *k = of_half, ch->lanes /= 2, *vecs = (size_range){halves, halves};
  ch->mr = shape.rows, ch->nv = shape.vectors;
}
static void tile_of_rows(const tiling *w, const row_candidate *row, int64_t lane_ext, bool fixed, choice *ch) {
  ctx *c = w->iv->c;
  const target *t = w->iv->p->t;
  const operands o = operands_of(w, ch);
  const int64_t vecs = lane_ext < 0 ? TYPICAL_EXTENT : max64(1, (lane_ext + w->lanes - 1) / w->lanes);
  tile_costs k = costs_of(w, &o, row, fixed, ch);
  size_range rs = {row->ext, row->ext}, vs = {vecs, vecs};
  if (!sym_is_int(c, sym_extent(c, ch->row), NULL)) sym_range(c, sym_extent(c, ch->row), &rs.lo, &rs.hi);
  if (lane_ext < 0) sym_range(c, sym_ceildiv(c, sym_extent(c, ch->lane), sym_int(c, w->lanes)), &vs.lo, &vs.hi);
  ch->row2 = o.stencil ? 0 : choose_row2(w->iv, w->acc, w->domain, ch, row->ext, SMALL_TILE_ROWS, k.max_rows);
  if (ch->row2) {
    k.row_fold = (uint32_t)row->ext, k.max_rows /= k.row_fold;
    sym_range(c, sym_extent(c, ch->row2), &rs.lo, &rs.hi);
  }
  choose_shape(w, &o, fixed, rs, &vs, lane_ext, &k, ch);
  if (ch->mr < 2) ch->row2 = 0;
  ch->mr *= k.row_fold;
  if (k.row_fold == 1) {
    choice parts = *ch;
    parts.shared = 0; /* of a part a panel is short */
    if (ch->shared) k = costs_of(w, &o, row, fixed, &parts);
    k.rows_l2 = k.rows_l3 = INT64_MAX;
    const tile_shape near = cost_tile_shape(&k, rs, vs);
    ch->l2_mr = near.rows, ch->l2_nv = near.vectors;
  }
  collapsed_tile(w, &k, &o, lane_ext, vs, ch);
  /* of panels narrower than a line each would fetch the lines of another one */
  ch->lane_outer = !o.stencil || (w->lanes * et_bytes((etype)w->root->acc) >= t->line &&
                                  !(row_stays(w->iv, w->acc, ch, w->red, lane_ext, row->ext) &&
                                    shared_stays(w->iv, w->acc, ch, w->domain, w->red)));
  /* what stays in cache while the rows of a panel pass is what they share, and of what they do not the lines that
   * several rows read */
  const ex shared = o.stencil ? lane_load_of(w, ch, true) : 0;
  if (shared) ch->lane_load = shared;
}
choice tile_choose(index_view *iv, const u32vec *stages, const accesses *acc, const u32vec *domain, const u32vec *red,
                   const tile_given *given) {
  tiling w = tiling_of(iv, stages, acc, domain, red, given);
  choice ch = {.mr = 1, .nv = 1, .lanes = w.lanes};
  if ((w.lanes <= 1 && !w.reduces) || (given->lane_given && !given->lane)) return ch;
  choose_lane(&w, &ch);
  const int64_t lane_ext = ch.lane ? view_extent(iv->c, sym_extent(iv->c, ch.lane), -1) : 0,
                vecs = lane_ext < 0 ? TYPICAL_EXTENT : max64(1, (lane_ext + w.lanes - 1) / w.lanes);
  const bool idle = half_idle(&w, lane_ext);
  if (may_be_horizontal(&w, &ch, lane_ext, idle) && choose_horizontal(iv, acc, domain, red, w.lanes, idle, &ch))
    return ch;
  if (!ch.lane) return ch;
  if (ch.lane_reduced) {
    ch.nv = vecs >= 4 ? 4 : vecs >= 2 ? 2 : 1;
    return ch;
  }
  const row_candidate row = choose_row(&w, &ch);
  ch.lane_load = lane_load_of(&w, &ch, false);
  const atom made = ch.row && w.leaders == 1 && w.root->op == RED_SUM ? factors_of(iv, domain, &ch, w.root) : 0;
  if (!made) choose_panel_values(&w, &ch);
  if (w.arg) ch.row = 0;
  const bool fixed = w.reduces && w.lanes > 1 && w.leaders == 1 && is_fixed(iv, acc, domain, &ch, stages->v[0], w.root);
  if (made && (!given->row_given || given->row == made))
    tile_of_factors(&w, made, &ch);
  else if (!w.reduces)
    tile_of_values(&w, vecs, &ch);
  else if (!ch.row)
    tile_of_vectors(&w, vecs, lane_ext <= 0, fixed, &ch);
  else
    tile_of_rows(&w, &row, lane_ext, fixed, &ch);
  return ch;
}
