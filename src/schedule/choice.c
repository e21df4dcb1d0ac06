/* The register tile of a nest: what is stated of it, and what tile.c chooses for what is stated. */
#include "schedule/kernel_in.h"
#include <string.h>

static bool is_none(const directive *d) { return d->words.n == 1 && !strcmp(d->words.v[0], "none"); }
/* The variable of a directive; *given: there is one, or none is wanted. Among fewer variables than the nest will have
 * (probe) it may be missing. */
static atom given_var(kctx *k, const directive *d, const u32vec *domain, const u32vec *red, bool probe, bool *given) {
  u32vec all = {0};
  *given = d && (!probe || is_none(d));
  if (!d || is_none(d)) return 0;
  for (uint32_t i = 0; i < domain->n; i++) vec_push(k->a, all, domain->v[i]);
  for (uint32_t i = 0; i < red->n; i++) vec_push(k->a, all, red->v[i]);
  if (!probe) return kernel_var(k, d, d->words.v[0], &all);
  const atom v = kernel_var_named(k, d->words.v[0], &all);
  *given = v != 0;
  return v;
}
/* Rows that are the points of two variables, as in (a b)? */
static bool is_collapsed(kctx *k, const directive *d, const choice *ch) {
  return ch->collapsed_mr && !strcmp(d->words.v[0], arena_fmt(k->a, "(%s %s)", kernel_var_text(k, ch->collapsed[0]),
                                                              kernel_var_text(k, ch->collapsed[1])));
}
static void follow_lanes(kctx *k, const directive *d, uint32_t L, choice *ch) {
  if (is_none(d)) return;
  if (d->words.n < 2) kernel_refuse(k, d, "expected the number of lanes after %s", d->words.v[0]);
  ch->lanes = (uint32_t)kernel_number(k, d, d->words.v[1], 1, L);
  if (ch->lanes != L && !(ch->lanes * 2 == L && tile_halves(k->p->t, L)))
    kernel_refuse(k, d, "%u lanes: a vector of this nest has %u lanes%s", ch->lanes, L,
                  tile_halves(k->p->t, L) ? ", or half of them" : "");
}
static void follow_rows(kctx *k, const directive *d, choice *ch) {
  if (is_collapsed(k, d, ch)) {
    ch->l2_mr = 0;
    return;
  }
  ch->collapsed_mr = 0;
  if (d->words.n < 2) {
    ch->row2 = 0;
    return;
  }
  if (!ch->row2 || strcmp(d->words.v[1], kernel_var_text(k, ch->row2)))
    kernel_refuse(k, d, "the rows of a tile cannot have several values of %s besides", d->words.v[1]);
}
static void follow_tile(kctx *k, const directive *d, choice *ch) {
  const uint32_t mr = (uint32_t)kernel_number(k, d, d->words.v[0], 1, TILE_V),
                 nv = (uint32_t)kernel_number(k, d, d->words.v[1], 1, TILE_V);
  const bool rows = ch->row || ch->collapsed_mr;
  if (mr > 1 && (!rows || !ch->lane)) kernel_refuse(k, d, "%u rows: the nest has no %s", mr, rows ? "lanes" : "rows");
  if (nv > 1 && !ch->lane) kernel_refuse(k, d, "%u vectors: the nest has no lanes", nv);
  if (nv > 1 && rows && ch->lane_reduced)
    kernel_refuse(k, d, "%u vectors: a tile of rows has one where the lanes are part of the sum", nv);
  if (mr * nv > MAX_TILE) kernel_refuse(k, d, "%u registers: a tile has at most %d", mr * nv, MAX_TILE);
  if (ch->collapsed_mr) {
    if (mr > TILE_EACH) kernel_refuse(k, d, "%u rows: at most %d of collapsed variables", mr, TILE_EACH);
    ch->collapsed_mr = mr, ch->collapsed_nv = nv;
    return;
  }
  if (ch->row2 && mr % (uint32_t)kernel_extent(k, ch->row, 1))
    kernel_refuse(k, d, "%u rows: expected whole multiples of the %lld values of %s", mr,
                  (long long)kernel_extent(k, ch->row, 1), kernel_var_text(k, ch->row));
  ch->mr = mr, ch->nv = EK_PLANTED("follow-tile") ? 1 : nv;
  if (ch->l2_mr) ch->l2_mr = mr, ch->l2_nv = nv;
}
static void follow_panels(kctx *k, const directive *d, bool outside, choice *ch) {
  if (ch->collapsed_mr)
    ch->collapsed_outer = !outside;
  else if (!ch->lane || !ch->row || ch->lane_reduced)
    kernel_refuse(k, d, "the nest has no panels: these are of lanes and rows of a sum");
  else
    ch->lane_outer = outside != EK_PLANTED("follow-panels");
}
static void follow(kctx *k, const u32vec *group, const tile_given *g, choice *ch) {
  const directive *lanes = stated(k, group, P_LANES), *rows = stated(k, group, P_ROWS),
                  *tile = stated(k, group, P_TILE), *panels = stated(k, group, P_PANELS);
  if (g->lane_given && ch->lane != g->lane)
    kernel_refuse(k, lanes, "%s cannot run along the lanes: its sum has several leaders or an order of its own",
                  lanes->words.v[0]);
  if (lanes) follow_lanes(k, lanes, nest_lanes(&k->e.view, group), ch);
  if (g->row_given && !ch->lane) ch->row = g->row;
  if (g->row_given && ch->row != g->row)
    kernel_refuse(k, rows, "the rows of a tile cannot run along %s", rows->words.v[0]);
  if (rows) follow_rows(k, rows, ch);
  if (tile) follow_tile(k, tile, ch);
  if (panels) follow_panels(k, panels, stated_either(k, group, P_PANELS, "outside", "inside"), ch);
}
static choice choose(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red,
                     bool probe) {
  if (!k->p->level) return (choice){.mr = 1, .nv = 1, .lanes = nest_lanes(&k->e.view, group)};
  tile_given g = {0};
  const directive *rows = stated(k, group, P_ROWS);
  const bool list = rows && *rows->words.v[0] == '('; /* one collapsed variable, or two that the tile collapses */
  g.lane = given_var(k, stated(k, group, P_LANES), domain, red, probe, &g.lane_given);
  g.row = given_var(k, rows, domain, red, probe || list, &g.row_given);
  g.lane_given &= !EK_PLANTED("follow-lanes"), g.row_given &= !EK_PLANTED("follow-rows");
  g.no_instruction = directive_is(stated(k, group, P_INSTRUCTION), 0, "none");
  const directive *buffer = stated(k, group, P_BUFFER);
  g.panels_given = buffer && !EK_PLANTED("follow-buffer-panel");
  g.computes_panels = buffer && buffer_has(k, buffer, "panel");
  choice ch = tile_choose(&k->e.view, group, acc, domain, red, &g);
  if (probe) return ch;
  nest_facts *facts = kernel_nest_facts(k, group);
  if (facts) facts->panel_values = ch.may_share;
  if (list && !g.row_given && !is_collapsed(k, rows, &ch))
    kernel_refuse(k, rows, "%s cannot be the rows of a tile", rows->words.v[0]);
  if (k->stated) follow(k, group, &g, &ch);
  if (g.computes_panels && !ch.shared)
    kernel_refuse(k, buffer, "the sum has no constants of few bits along its lanes that rows share");
  return ch;
}
choice kernel_choice(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red) {
  kernel_note_nest(k, group, acc, domain, red);
  return choose(k, group, acc, domain, red, false);
}
choice kernel_choice_among(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red) {
  return choose(k, group, acc, domain, red, true);
}
