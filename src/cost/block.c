/* Which parts of the operands stay in which cache, and what is copied or fetched for it?
 *
 * With a part of d steps and l columns a multiply-add asks 1/l elements of a row and 2/d of a sum from the third-level
 * cache; with d*l given, half of the second-level cache, that is least for d = sqrt(2*d*l). ("Anatomy of
 * high-performance matrix multiplication", Goto and van de Geijn, 2008.)
 */
#include "cost/cost.h"
#include <math.h>

enum {
  ROWS_BY_ELEMENT = 2, /* elements of a sum that is read and written, for one of a row */
  CHUNK_ROWS = 512,    /* rows of a chunk, at least, that is divided for half of target.chunks */
  SMALL_CHUNK = 128,   /* rows of a chunk, at least, that is divided for a part of target.chunks: */
  DIVIDED_CHUNKS = 4,  /* one in so many */
  L3_SHARE = 6,        /* rows that take less than this part of a fast last cache come from there in time */
  COPY_GAIN = 2,       /* times what a copy takes that it must save: the first tile waits for it, and sums for parts */
  MADE_AGAIN = 4,      /* times as many sums wait where each cut of the rows makes the panels again */
  COPY_ROWS = 128,     /* rows that use a panel again, from which a copy of neighbouring elements pays */
  COPY_GROUP_ROWS = 3, /* the same of a copy in groups for an instruction: with 2 it loses 12 %, with 3 it gains 25 % */
  ROUNDED_USES = 16,   /* multiply-adds that use an element again, from which on it pays to round and store it first */
  PANEL_ROWS = 64, /* rows that share a panel, from which it is better computed once than in registers by each tile */
  PLACES = 16,     /* stages in one nest whose many places no cache foresees */
  MAX_STEP_LINES = 2,   /* lines of rows that a step of a sum fetches */
  SOURCE_BLOCKS = 2,    /* blocks of rows, at least, for each line of a run-time panel: they come late else */
  ALONE_ROWS = 5,       /* see cost_alone_rows */
  BLOCK_LINES = 4,      /* parts of a streamed operand, at least */
  CONTIGUOUS_LINES = 2, /* lines of a step, of the rows of a tile that lie side by side */
  ALONE_STREAMED = 3    /* most rows where the lines do not fall onto one another in the first-level cache */
};
/* the first line of a piece that is written waits for as long as so many that come in order */
static const double FAR_LINE = 16;
/* parts of a sum are longer than the best by this factor, at most, before they are one more */
static const double LONGER_PART = 1.25;
/* part of the second-level cache that a panel, or constants of a step, take for which they are too long: what passes
 * through takes the rest */
static const double LONG_PANEL = 0.625;
/* part of the second-level cache that a tensor takes, at most, which is read again from there beside another one */
static const double STAYING = 0.25;
/* results of a tile that an element of a tensor serves: between its rows and its lanes */
static const double SERVED = 16;
/* cycles of a vector of a panel that is computed from few bits: a shift, a lookup, a product, a store (2.5 on Zen 5);
 * part of the bytes of floats that few bits save, at least */
static const double PANEL_VECTOR = 3, FEWER_BYTES = 0.75;
/* part of the time of the multiply-adds that parts of a sum must save */
static const double PARTS_GAIN = 0.1;
/* part of the time of its multiply-adds that a row takes longer from the last cache than from the second one, at most,
 * where that cache is fast (Zen 5: 0.04; Sapphire Rapids: 0.16) */
static const double FAST_L3 = 0.1;

bool cost_blocks_possible(const target *t, const block_product *b) {
  return t->l2 && b->lanes / b->width >= 2 && b->rows <= INT32_MAX && b->lanes <= INT32_MAX && b->depth < SAT64;
}
/* Are panels that are made in the run read so often that they had better stay in the second-level cache, cut into
 * parts? Each tile of rows reads its panel again: whole ones from the third-level cache, where they are too long. What
 * that takes more, for a vector, against what it takes to make the vector; and there must be blocks enough for the
 * threads, as there would be panels. */
static bool long_panels(const target *t, const block_product *b) {
  const double tiles = (double)b->rows / (double)b->tile_rows, vector = (double)(b->vector * b->size),
               farther = vector / t->l3_bandwidth - vector / t->l2_bandwidth,
               panel = (double)b->depth * (double)(b->whole * b->size);
  return b->made && panel > LONG_PANEL * (double)t->l2 && tiles * farther >= COPY_GAIN * t->copy_cost &&
         b->lanes / b->width / cost_block(t, b).panels >= t->chunks / 2;
}
/* Bytes of rows that come in time from where they lie, for each panel again. None of rows that lie side by side, where
 * a machine loads again what comes late: only short parts of the sum keep their lines in the nearest cache. */
static int64_t near_rows(const target *t, const block_product *b) {
  if (b->contiguous && t->late_loads > 1) return 0;
  const double farther = (double)b->size / t->l3_bandwidth - (double)b->size / t->l2_bandwidth,
               work = (double)b->width / (double)(t->fma_per_cycle * max64(1, target_lanes(t, ET_F32)));
  return max64((int64_t)t->l2, farther <= FAST_L3 * work ? (int64_t)t->l3 / L3_SHARE : 0);
}
bool cost_blocks_pay(const target *t, const block_product *b) {
  const int64_t steps = sat_mul64(b->depth, b->size);
  return long_panels(t, b) ||
         (sat_mul64(steps, b->width) >= (int64_t)t->l1 && sat_mul64(steps, b->rows) >= near_rows(t, b));
}
/* Cuts of the rows, so that what waits for the next part of the sum stays near. */
static int64_t waiting_cuts(const target *t, const block_product *b, const block_shape *s) {
  const int64_t most = max64(1, (int64_t)t->near_cache * (b->made ? MADE_AGAIN : 1)),
                waits = sat_mul64(sat_mul64(b->rows, s->panels * b->width), b->size);
  return s->step * b->inner == b->depth || EK_PLANTED("cost-block") ? 1 : (waits + most - 1) / most;
}
/* Divides blocks of panels and cuts of rows further, until threads have chunks enough. A cut of the rows reads the
 * panels again, and copies them where they are made; one of the panels reads the rows again: whole lines for the rows
 * of a tile, where they lie side by side. */
static void divide_for_threads(const target *t, const block_product *b, int64_t blocks, int64_t cuts, block_shape *s) {
  const int64_t panels = b->lanes / b->width;
  const double size = (double)b->size, row = b->contiguous ? fmax(size, (double)t->line / (double)b->tile_rows) : size,
               copy = b->made ? t->copy_cost / (double)b->vector : 0,
               rows_again = (double)b->rows * row / t->l3_bandwidth,
               panels_again = (double)b->lanes * (size / t->l3_bandwidth + copy);
  while (blocks * cuts < t->chunks / 2 && b->rows / (2 * cuts) >= CHUNK_ROWS) cuts *= 2;
  while (blocks * cuts < t->chunks / DIVIDED_CHUNKS) {
    const bool rows_divide = b->rows / (2 * cuts) >= SMALL_CHUNK;
    if (blocks < panels && (!rows_divide || rows_again * (double)blocks <= panels_again * (double)cuts))
      blocks = min64(panels, 2 * blocks);
    else if (rows_divide)
      cuts *= 2;
    else
      break;
  }
  s->panels = (panels + blocks - 1) / blocks;
  s->rows = ((b->rows + cuts - 1) / cuts + b->tile_rows - 1) / b->tile_rows * b->tile_rows;
}
block_shape cost_block(const target *t, const block_product *b) {
  const int64_t budget = (int64_t)t->l2 / 2 / b->size, first = b->depth / b->inner, full = b->lanes / b->width;
  const double best = sqrt((double)ROWS_BY_ELEMENT * (double)budget);
  const int64_t parts = max64(1, (int64_t)ceil((double)b->depth / LONGER_PART / best));
  block_shape s = {.step = (first + parts - 1) / parts};
  if (b->contiguous && t->line) { /* lines of rows stay in the nearest cache, with a panel, while the panels pass */
    const int64_t bytes = b->width * b->size + CONTIGUOUS_LINES * (int64_t)t->line;
    s.step = min64(s.step, max64(1, (int64_t)t->l1 / bytes / b->inner));
  }
  s.step = min64(first, (s.step + b->unit - 1) / b->unit * b->unit);
  s.panels = max64(1, min64(full, budget / (s.step * b->inner * b->width)));
  const int64_t blocks = (full + s.panels - 1) / s.panels;
  s.panels = (full + blocks - 1) / blocks; /* as many blocks, of equal size */
  divide_for_threads(t, b, blocks, waiting_cuts(t, b, &s), &s);
  return s;
}
/* Measured on Zen 4; from fewer rows on panels are better where the lines do not fall onto one another in the
 * first-level cache: with 4 rows by 9 to 60 %, with 16 to 64 by 10 to 30 % (Zen 5, matrices of 3 to 30 MB). */
bool cost_streams_pay(const target *t, const line_stream *s) {
  const bool one_set = s->spacing % target_l1_way(t) == 0;
  return s->spacing >= max64((int64_t)t->stream_spacing, 2 * s->width) && s->spacing < SAT64 &&
         s->lines >= BLOCK_LINES * STREAMED_ROWS && s->lines > (int64_t)t->l2 / 2 / s->spacing &&
         (one_set || s->rows <= ALONE_STREAMED);
}
bool cost_streamed_sums_fit(const target *t, int64_t rows, int64_t lanes, int64_t size) {
  return sat_mul64(sat_mul64(rows, lanes), size) <= 2 * (int64_t)t->near_cache;
}
int64_t cost_sum_parts(const target *t, const summed_parts *s) {
  const double both = s->bytes[0] + s->bytes[1], l2 = (double)t->l2, points = s->steps * s->results,
               compute = points / (double)(t->fma_per_cycle * max64(1, target_lanes(t, ET_F32)));
  double read = 0; /* bytes from behind the second cache, as it is */
  if (!t->l2 || both <= l2) return 1;
  for (uint32_t i = 0; i < 2; i++)
    if (s->bytes[i] > l2 * STAYING) read += points / SERVED * (double)s->size;
  if (s->panels && s->bytes[s->in_panels] <= l2 * STAYING) /* all panels stay, while the other passes for each */
    read = fmin(read, both + s->bytes[!s->in_panels] * (double)(s->panels - 1));
  const double parts = ceil(both / (l2 / 2)), sums = parts * s->results * (double)s->size,
               rate =
                   sums <= (double)t->l3 ? t->l3_bandwidth : t->dram_bandwidth; /* sums are written, and read again */
  const bool pays = (read - both) / t->l3_bandwidth - 2 * sums / rate > PARTS_GAIN * compute;
  return pays && !EK_PLANTED("cost-parts") ? (int64_t)fmin(parts, (double)s->terms) : 1;
}
bool cost_copy_panel(int64_t rows) { return rows >= COPY_ROWS; }
bool cost_copy_groups(int64_t rows) { return rows >= COPY_GROUP_ROWS; }
bool cost_rounding_pays(int64_t rows, int64_t columns) { return rows >= ROUNDED_USES && columns >= ROUNDED_USES; }

bool cost_fits_l1(const target *t, int64_t bytes) { return t->l1 && bytes <= (int64_t)t->l1; }
bool cost_fits_half_l1(const target *t, int64_t bytes) { return bytes <= (int64_t)t->l1 / 2; }
bool cost_fits_half_l2(const target *t, double bytes) { return bytes <= (double)(t->l2 / 2); }
bool cost_fits_quarter_l2(const target *t, int64_t bytes) { return bytes <= (int64_t)t->l2 / 4; }
int64_t cost_strip_rows(const target *t, int64_t rows, int64_t bytes, int64_t tile_rows) {
  const int64_t l1 = (int64_t)t->l1;
  if (!l1 || sat_mul64(rows, bytes) <= l1) return 0;
  return max64(1, l1 / 4 / max64(1, bytes) / tile_rows) * tile_rows;
}

bool cost_prefetch_lines(int64_t lines, int64_t steps) { return lines <= MAX_STEP_LINES * steps; }
bool cost_prefetch_source(int64_t rows, int64_t tile_rows, int64_t lines) {
  return rows >= SOURCE_BLOCKS * lines * tile_rows;
}
int64_t cost_alone_rows(void) { return ALONE_ROWS; }
bool cost_one_set(const target *t, int64_t step, int64_t bytes) {
  return step % max64(1, target_l1_way(t) / bytes) == 0;
}
bool cost_prefetch_places(uint32_t places) { return places >= PLACES; }
bool cost_memory_bound(const target *t, int64_t uses, int64_t bytes) {
  return uses <= t->memory_balance && bytes > (int64_t)t->l2 / 2;
}
bool cost_keeps_few_bits(const target *t, int64_t uses, int64_t bytes, int64_t all) {
  if (bytes <= (int64_t)t->l2 / 2 || uses <= t->memory_balance) return bytes > (int64_t)t->l2 / 2;
  /* what a vector of floats takes from where they lie, once for all uses */
  const double from = all > (int64_t)t->l3 ? t->memory_bandwidth : t->l3_bandwidth, floats = t->vector_bits / 8 / from;
  return cost_computes_panels(t, uses) && floats * FEWER_BYTES > PANEL_VECTOR;
}
bool cost_computes_panels(const target *t, int64_t rows) { return rows >= PANEL_ROWS && target_lanes(t, ET_F32) > 1; }
double cost_written_runs(const target *t, double runs, double run, double bytes) {
  const double line = (double)max64(1, t->line), lines = runs * ceil(run / line),
               from = bytes <= (double)t->l2   ? t->l2_bandwidth
                      : bytes <= (double)t->l3 ? t->l3_bandwidth
                                               : t->memory_bandwidth;
  return line / from * (lines + runs * (FAR_LINE - 1));
}
bool cost_zigzag_pays(const target *t, double bytes) { return bytes > LONG_PANEL * (double)t->l2; }
