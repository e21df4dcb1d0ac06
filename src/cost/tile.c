/* How long do register tiles of some shape take?
 *
 * In each step of the sum a tile of m rows and v vectors does m*v multiply-adds and loads v vectors of the panel and m
 * values of rows. These run side by side, so the longest counts; a step is no shorter than a multiply-add takes. On top
 * come vectors of panels that do not stay in the first-level cache, and values of rows that come from the third-level
 * cache or memory again for each panel. Tiles that are cut at the edges of a product count as they are. All is for one
 * step of the sum.
 */
#include "cost/cost.h"
#include <math.h>

/* Vector multiply-adds that start in a cycle: shapes are chosen for two, whatever the target. (Where one starts, tiles
 * of the same shapes are as good: they hide latency and loads as well.) */
enum { MULTIPLIERS = 2 };
/* cycles of a tile whose rows are points of two variables, besides its sum: where they lie, what is stored there, in
 * which loop (Zen 5: silero) */
static const double COLLAPSED_TILE = 600;
/* part of the cost that the code of another micro-kernel, for an edge, adds */
static const double EDGE_CODE = 1.02;
/* part of the cost up to which half the register width pays: less gain is not worth twice the instructions */
static const double HALF_WIDTH_GAIN = 0.92;
/* costs are equal that differ by less, in cycles; those in a range of this share are as good: larger tiles win */
static const double TIE = 5e-10, AS_GOOD = 1.0001;
enum {
  UNPACKING = 2,         /* instructions that make a vector of codes: a shift and a lookup */
  MAX_ROWS = 14,         /* rows of a tile: more were never better */
  MAX_VECTORS = 6,       /* vectors of a tile, the same */
  MAX_SHARED_WINDOW = 8, /* rows of a tile of a window, beside a vector that all share */
  SAMPLES = 24,          /* numbers of rows and vectors that stand for all, where they are open */
  SAMPLED_ROWS = 1024,   /* the largest of them */
  SAMPLED_VECTORS = 64,
  L2_VECTOR_BITS = 512 /* width that target.l2_load_cost is of */
};

uint32_t tile_fewer(uint32_t mr) { return mr <= TILE_EACH ? mr - 1 : (uint32_t)max64((mr + 1) / 2, TILE_EACH); }
/* Number of tiles of m rows, of those that larger ones left. */
static int64_t open_tiles(int64_t left, uint32_t m, uint32_t most) {
  int64_t rest = left % most;
  if (most > TILE_EACH) return left / m;
  if (m < most) return left == 2 * m ? 2 : left == 2 * m - 1 || left == m;
  return rest == 0 || rest == m - 1 || left < m ? left / m : left / m - 1;
}
/* Cycles of a step. (Measured on Zen 4 and 5 with tiles of 7 to 14 ymm: of twelve, 4 rows of 3 vectors take 4 % less
 * than 6 of 2.) */
static double step_cycles(const tile_costs *k, double rows, double vectors) {
  const double fma = (rows + k->unpacking) * vectors / k->multipliers,
               loads = (rows * k->row_loads + vectors + 1) / k->t->loads_per_cycle;
  return fmax(fma, fmax(loads, k->latency)) + k->t->step_overhead;
}
/* Cycles of all tiles of that shape. */
static double all_tiles(const tile_costs *k, int64_t rows, int64_t vecs, bool open_rows, bool open_lanes, uint32_t mr,
                        uint32_t nv) {
  const double fold = k->row_fold,
               value = rows * k->row_fold >= k->rows_l3   ? k->t->memory_value_cost
                       : rows * k->row_fold >= k->rows_l2 ? k->t->l3_value_cost
                                                          : 0,
               far = nv > k->l1_vectors ? k->l2_vector : 0;
  double cost = fold * value * (double)rows * (double)((vecs + nv - 1) / nv);
  bool first = true;
  for (uint32_t m = mr; m && rows; m = open_rows ? tile_fewer(m) : (uint32_t)rows) {
    int64_t left = vecs, tr = open_rows ? open_tiles(rows, m, mr) : rows / m;
    rows -= tr * m;
    for (uint32_t v = nv; v && left; left %= v, v = open_lanes ? v > 1 : (uint32_t)left) {
      const double step = step_cycles(k, fold * (double)m, (double)v), each = step / (double)v;
      cost += (double)(tr * (left / v)) * (step + far * (double)v + k->tile_overhead);
      if (open_rows && first && tr && each < k->t->load_wait) cost += (double)(left / v * v) * (k->t->load_wait - each);
    }
    first &= !tr;
  }
  return vecs % nv ? cost * EDGE_CODE : cost;
}
static int64_t next_sample(int64_t i, bool coarse) {
  return coarse ? i * 4 : i == 1 ? 2 : (i & (i - 1)) ? (i * 4 + 2) / 3 : i / 2 * 3;
} /* 1, 4, 16, ..; or 1, 2, 3, 4, 6, 8, 12, .. */
static double cheapest(const tile_costs *k, size_range rows, size_range vecs, tile_shape *shape) {
  double lowest = INFINITY, best[SAMPLES];
  int64_t r[SAMPLES] = {max64(rows.lo, 1)}, l[SAMPLES] = {max64(vecs.lo, 1)}, most = r[0];
  const bool open_rows = rows.lo < rows.hi, open_lanes = vecs.lo < vecs.hi, both = open_rows && open_lanes;
  uint32_t n = 0;
  tile_shape any;
  for (int64_t i = open_rows ? 1 : r[0]; i <= min64(max64(r[0], SAMPLED_ROWS), rows.hi); i = next_sample(i, both))
    for (int64_t j = open_lanes ? 1 : l[0];
         j <= min64(max64(l[0], SAMPLED_VECTORS), vecs.hi) && n < SAMPLES && (open_rows || open_lanes);
         j = next_sample(j, both))
      if ((i >= rows.lo || next_sample(i, both) > rows.hi) && (j >= vecs.lo || next_sample(j, both) > vecs.hi))
        r[n] = most = i, l[n] = j, best[n] = cheapest(k, (size_range){i, i}, (size_range){j, j}, &any), n++;
  *shape = (tile_shape){1, 1};
  for (uint32_t mr = 1; mr <= k->max_rows; mr++)
    for (uint32_t nv = 1; nv <= k->max_vectors; nv++) {
      if (mr * k->row_fold * nv + nv + 1 > k->registers || mr > most || nv > l[n ? n - 1 : 0] ||
          (nv % k->vectors_by && nv < l[0]))
        continue;
      double cost = n ? 0 : all_tiles(k, r[0], l[0], false, false, mr, nv) * (r[0] % mr ? EDGE_CODE : 1);
      for (uint32_t i = 0; i < n; i++) cost += all_tiles(k, r[i], l[i], open_rows, open_lanes, mr, nv) / best[i];
      if (cost < lowest - TIE || (cost < lowest * AS_GOOD && mr * nv > shape->rows * shape->vectors))
        lowest = cost, *shape = (tile_shape){mr, nv};
    }
  return lowest;
}
tile_shape cost_tile_shape(const tile_costs *k, size_range rows, size_range vectors) {
  tile_shape best;
  cheapest(k, rows, vectors, &best);
  if (EK_PLANTED("cost-tile")) best.vectors = 1;
  return best;
}

/* Do the rows lie side by side, so that each step of the sum has a line of its own, which leaves the first-level cache
 * before the next tile has its part of it? */
static bool late_rows(const target *t, const tile_operands *o) {
  return o->row_stride == o->row_bytes && sat_mul64(o->steps, t->line) > (int64_t)t->l1 / 2;
}
tile_costs cost_tiles(const target *t, const tile_operands *o) {
  const uint32_t R = o->registers;
  tile_costs k = {.t = t,
                  .registers = o->fixed_vectors ? R - 2 : R,
                  .vectors_by = o->fixed_vectors && !o->window ? o->fixed_vectors : 1,
                  .row_fold = 1,
                  .max_rows = MAX_ROWS,
                  .max_vectors = o->window ? 1 : MAX_VECTORS,
                  .l2_vector = t->l2_load_cost * t->vector_bits / L2_VECTOR_BITS,
                  .multipliers = o->by ? o->by->per_cycle : MULTIPLIERS,
                  .latency = o->by ? o->by->latency : t->fma_latency,
                  .unpacking = o->codes ? UNPACKING : 0,
                  .row_loads = late_rows(t, o) ? t->late_loads : 1,
                  .l1_vectors = MAX_VECTORS,
                  .rows_l2 = INT64_MAX,
                  .rows_l3 = INT64_MAX};
  if (t->l1) k.l1_vectors = (int64_t)t->l1 / max64(1, o->steps * o->lanes * o->panel_bytes);
  if (t->l2) k.rows_l2 = (int64_t)t->l2 / max64(1, o->steps * o->row_bytes);
  if (t->l3) k.rows_l3 = (int64_t)t->l3 / 2 / max64(1, o->steps * o->row_bytes);
  /* such rows fall on one set of the cache; those that come from far as panels do have half of it */
  if (o->row_stride % target_l1_way(t) == 0 && t->l1_ways)
    k.max_rows = t->l1_ways / (o->rows >= k.rows_l2 && !o->computed ? 2 : 1);
  if (o->computed) { /* in half of the second-level cache */
    const int64_t vector = max64(1, o->steps * o->lanes * o->panel_bytes);
    k.max_vectors = (uint32_t)max64(1, min64(k.max_vectors, (int64_t)t->l2 / 2 / vector));
  }
  if (o->window)
    k.max_rows = (uint32_t)min64(k.max_rows, o->shared ? MAX_SHARED_WINDOW : max64(R / 4, (R - 2) / (1 + o->window)));
  return k;
}
tile_costs cost_collapsed_tiles(const tile_costs *k, int64_t steps) {
  tile_costs c = *k;
  c.row_fold = 1, c.max_rows = TILE_EACH, c.tile_overhead = COLLAPSED_TILE / (double)steps;
  return c;
}
bool tile_halves(const target *t, uint32_t lanes) {
  return t->fma_bits && t->fma_bits * 2 == t->vector_bits && lanes == target_lanes(t, ET_F32);
}
bool cost_half_width(const tile_costs *k, size_range rows, size_range vectors, int64_t half_vectors, tile_shape full,
                     tile_costs *half, tile_shape *best) {
  const size_range n = {half_vectors, half_vectors};
  tile_costs h = *k, w = *k;
  h.l1_vectors *= 2, h.l2_vector /= 2;
  w.multipliers /= 2, w.l2_vector *= 2; /* a whole register takes both twice the time */
  const tile_shape shape = cost_tile_shape(&h, rows, n);
  /* a narrow tile has fewer rows for each vector of a panel that comes from the second cache */
  if (shape.vectors > h.l1_vectors) return false;
  *half = h, *best = shape;
  /* what rows from the L3 cache or memory cost is not halved */
  h.rows_l2 = h.rows_l3 = w.rows_l2 = w.rows_l3 = INT64_MAX;
  return all_tiles(&h, rows.lo, half_vectors, false, false, shape.rows, shape.vectors) <
         HALF_WIDTH_GAIN * all_tiles(&w, rows.lo, vectors.lo, false, false, full.rows, full.vectors);
}
uint32_t cost_sums_in_flight(const target *t, bool single, bool far) {
  return far ? t->vector_registers / 2
             : (uint32_t)min64((single ? 1 : MULTIPLIERS) * t->fma_latency, t->vector_registers / 2);
}
int64_t cost_prefetch_sums(const target *t) { return max64(1, (int64_t)ceil(t->prefetch_work * MULTIPLIERS)); }
