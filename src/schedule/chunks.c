/* How is the work of one nest divided into chunks for the threads?
 *
 * Chunks are points of outer variables: of as few as have enough points. Else they are blocks of rows, or of lanes,
 * whichever are known to be more (an open size may be 1). Where neither gives enough alone, chunks are points and
 * blocks together. Work that is worth threads and has an open number of rows is divided into blocks of both.
 */
#include "schedule/kernel_in.h"
#include <string.h>

/* The blocks that a nest may be divided into. */
typedef struct chunk_sizes {
  int64_t rows;        /* rows of a block */
  int64_t row_blocks;  /* number of blocks of rows; 0: there are no rows */
  int64_t lanes;       /* lanes of a block */
  int64_t lane_blocks; /* number of blocks of lanes; 0: lanes are not divided */
} chunk_sizes;

static int64_t enough_chunks(const kctx *k) { return k->p->t->chunks; }
static int64_t few_chunks(const kctx *k) { return enough_chunks(k) / 2; }
/* How many variables from the front have together as many points as the target wants chunks, as far as is known;
 * *known: how many they have for certain. */
static uint32_t points_enough(kctx *k, const nvars *vars, int64_t *known) {
  uint32_t take = 0;
  *known = 1;
  while (take < vars->n && *known < enough_chunks(k)) *known *= max64(1, view_extent(k->c, vars->v[take++].extent, 1));
  return take;
}
nvars kernel_loop_vars(kctx *k, const nest *n) {
  nvars all = {0};
  for (uint32_t i = 0; i < n->outer.n; i++) vec_push(k->a, all, n->outer.v[i]);
  for (uint32_t i = 0; i < n->inner.n; i++) vec_push(k->a, all, n->inner.v[i]);
  return all;
}
static chunk_sizes sizes_of(kctx *k, nest *n, bool reduces) {
  const int64_t mr = n->mr, width = (int64_t)n->nv * n->lanes,
                lanes = n->lane.var && !n->lane_reduced ? kernel_extent(k, n->lane.var, TYPICAL_LONG_ROW) : 0;
  chunk_sizes s = {.rows = mr, .lanes = width};
  if (n->row.var) {
    const int64_t rows = view_extent(k->c, nest_rows(n)->extent, TYPICAL_POINTS);
    s.rows = cost_chunk_rows(rows, mr);
    s.row_blocks = (rows + s.rows - 1) / s.rows;
  }
  if (!reduces && lanes) s.lanes = cost_chunk_lanes(width);
  if (n->blocking.row_streaming) s.lanes = cost_streamed_chunk_lanes(lanes, width);
  if (lanes) s.lane_blocks = (lanes + s.lanes - 1) / s.lanes;
  return s;
}
/* Panels of a run-time operand are packed where they are used: a thread should own whole panels. */
static bool owns_panels(const kctx *k, const nest *n, const accesses *acc, ex lane_load, int64_t lane_blocks) {
  if (!n->row.var || !n->lane_outer || lane_blocks < few_chunks(k)) return false;
  if (n->shared) return true;
  for (uint32_t i = 0; i < acc->n; i++)
    if (acc->v[i].load == lane_load && !acc->v[i].constant) return true;
  return false;
}
static chunking default_chunking(kctx *k, nest *n, const accesses *acc, ex lane_load) {
  if (n->blocking.panels && !n->blocking.row_streaming) return (chunking){.cache_blocks = true};
  const bool reduces = exn(k->m, xs(k->m, n->stages.v[0])->value)->kind == EX_REDUCE;
  const chunk_sizes s = sizes_of(k, n, reduces);
  const int64_t worth = reduces && !n->lane_outer ? min64(few_chunks(k), s.lane_blocks) : s.lane_blocks;
  const bool rows = s.row_blocks > 1 && !n->blocking.row_streaming && s.row_blocks >= worth,
             lanes = !rows && s.lane_blocks > 1;
  const chunking blocks = {.rows = rows ? s.rows : 0, .lanes = lanes ? s.lanes : 0};
  if (owns_panels(k, n, acc, lane_load, s.lane_blocks)) return (chunking){.lanes = s.lane_blocks > 1 ? s.lanes : 0};
  int64_t points, nblocks = rows ? s.row_blocks : lanes ? s.lane_blocks : 1;
  uint32_t take = points_enough(k, &n->inner, &points);
  if (n->outer.n || (points < few_chunks(k) && nblocks < few_chunks(k))) {
    const nvars all = kernel_loop_vars(k, n);
    int64_t all_points;
    const uint32_t take_all = points_enough(k, &all, &all_points);
    if (take_all && (n->outer.n || nblocks > 1))
      return (chunking){.points = take_all, .rows = blocks.rows, .lanes = blocks.lanes};
  }
  /* not known to be worth a chunk each: digits of a number of a point cost divisions */
  if (k->p->level > 0 && points < enough_chunks(k) && !n->lane.var && !n->row.var && take == n->inner.n && take > 1)
    take--;
  if (take && points >= nblocks) return (chunking){.points = take};
  /* there may be few rows */
  if (k->parallel && reduces && rows && s.lane_blocks > 1 && n->lane_outer && !n->inner.n && !n->outer.n &&
      !sym_is_int(k->c, nest_rows(n)->extent, NULL))
    return (chunking){.rows = s.rows, .lanes = s.lanes};
  return blocks;
}

/* ---- what is stated ---------------------------------------------------------------------------- */
/* The first `n` loop variables, as one word. */
static const char *points_text(kctx *k, const nvars *vars, uint32_t n) {
  sbuf b = sbuf_new(k->a);
  for (uint32_t i = 0; i < n; i++)
    sb_fmt(&b, "%s%s",
           i       ? " "
           : n > 1 ? "("
                   : "",
           n > 1 ? kernel_inside(k, kernel_var_text(k, vars->v[i].var)) : kernel_var_text(k, vars->v[i].var));
  if (n > 1) sb_putc(&b, ')');
  return b.s;
}
static uint32_t stated_points(kctx *k, const directive *d, const nest *n, const char *word) {
  const nvars all = kernel_loop_vars(k, n);
  for (uint32_t i = 1; i <= all.n; i++)
    if (!strcmp(word, points_text(k, &all, i))) return i;
  if (!all.n) kernel_refuse(k, d, "the nest has no loops outside of its tiles");
  kernel_refuse(k, d, "%s are not the first loops outside of the tiles; these are %s", word,
                points_text(k, &all, all.n));
}
static int64_t stated_rows(kctx *k, const directive *d, nest *n, const char *word) {
  const int64_t rows = kernel_number(k, d, word, 1, INT32_MAX);
  if (!n->row.var || (n->row2.var && !n->collapsed.var) || n->blocking.row_streaming)
    kernel_refuse(k, d, "the nest has no rows that can be divided");
  if (rows % n->mr) kernel_refuse(k, d, "%s rows: expected a multiple of the tile's %u", word, n->mr);
  return rows;
}
static int64_t stated_lanes(kctx *k, const directive *d, const nest *n, const char *word) {
  const int64_t lanes = kernel_number(k, d, word, 1, INT32_MAX), width = (int64_t)n->nv * n->lanes;
  if (!n->lane.var || n->lane_reduced) kernel_refuse(k, d, "the nest has no lanes that can be divided");
  if (lanes % width) kernel_refuse(k, d, "%s lanes: expected a multiple of the tile's %lld", word, (long long)width);
  return lanes;
}
static chunking follow_chunks(kctx *k, const directive *d, nest *n) {
  const bool cache_blocks = n->blocking.panels && !n->blocking.row_streaming;
  chunking c = {.cache_blocks = directive_is(d, 0, "blocks")};
  if (cache_blocks != c.cache_blocks)
    kernel_refuse(k, d,
                  cache_blocks ? "chunks are the blocks that stay in a cache; expected blocks"
                               : "the nest has no blocks that stay in a cache");
  if (c.cache_blocks || directive_is(d, 0, "whole")) return c;
  for (uint32_t i = 0; i < d->words.n; i += 2) {
    const char *next = i + 1 < d->words.n ? d->words.v[i + 1] : NULL;
    if (next && directive_is(d, i, "points") && !i)
      c.points = stated_points(k, d, n, next);
    else if (next && directive_is(d, i, "rows") && !c.rows && !c.lanes)
      c.rows = stated_rows(k, d, n, next);
    else if (next && directive_is(d, i, "lanes") && !c.lanes)
      c.lanes = stated_lanes(k, d, n, next);
    else
      kernel_refuse(k, d, "expected %s", primitive_forms[P_CHUNKS].words);
  }
  if (c.rows && c.lanes && kernel_loop_vars(k, n).n)
    kernel_refuse(k, d, "blocks of rows and lanes need a nest without other loops");
  return c;
}
static void record_chunks(kctx *k, const nest *n, const chunking *c) {
  directive *d = kernel_record_new(k, NULL, P_CHUNKS);
  if (!d) return;
  const nvars all = kernel_loop_vars(k, n);
  if (c->points) kernel_record_word(k, d, "points"), kernel_record_word(k, d, points_text(k, &all, c->points));
  if (c->rows)
    kernel_record_word(k, d, "rows"), kernel_record_number(k, d, c->rows + EK_PLANTED("schedule-record-chunks"));
  if (c->lanes) kernel_record_word(k, d, "lanes"), kernel_record_number(k, d, c->lanes);
  if (!d->words.n) kernel_record_word(k, d, c->cache_blocks ? "blocks" : "whole");
}
chunking kernel_chunking(kctx *k, nest *n, const accesses *acc, ex lane_load) {
  const directive *d = stated(k, NULL, P_CHUNKS);
  const chunking c =
      d && !EK_PLANTED("follow-chunks") ? follow_chunks(k, d, n) : default_chunking(k, n, acc, lane_load);
  record_chunks(k, n, &c);
  return c;
}
