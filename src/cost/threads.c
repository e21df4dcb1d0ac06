/* How much work is it, from how much on do several threads share it, and into which pieces is it divided?
 *
 * A fork and join takes as long as so much work of one thread (target.fork_join_cost); less is done alone. Pieces are
 * several for each thread, so that all are done at one time, and no smaller than what a cache line, a tile or a loop
 * needs to be worth its start.
 */
#include "cost/cost.h"

/* operations, and loads and stores, of elements that vectors do in a cycle */
static const double VECTOR_OPERATIONS = 16;
enum {
  PRODUCT_LANES = 8,      /* lanes up to which products take as long as other work; wider ones take less */
  SERIAL_POINTS = 64,     /* points that are enough for all threads */
  DIVIDED_STEP = 32,      /* values of a variable of a recurrence's step that are worth dividing */
  STEP_BLOCKS = 8,        /* blocks of a step */
  STEP_SUMS = 4,          /* vectors in flight, at least, where a step has no rows; 2 where it has */
  ROW_BLOCKS = 12,        /* blocks that rows are divided into */
  POINTWISE_LANES = 4096, /* lanes of a block where every lane is one value */
  STREAMED_LANES = 1024,  /* lanes of a block where rows are streamed, at least */
  SHARED_ROWS = 64,       /* rows of a block that nests share */
  SHARED_LANES = 128,     /* lanes of a block that nests share */
  SHARED_VALUES = 256,    /* values of one where there is neither, if there are more than twice as many */
  TWO_ROWS = 4,           /* rows of the second of two variables: several chunks where there are more than two tiles */
  ENOUGH_BLOCKS = 4,      /* blocks of columns that keep a machine's threads busy */
  ROW_PARTS = 16,         /* parts of a long sum that has fewer */
  LANE_PARTS = 8,         /* parts that its lanes are divided into otherwise */
  LANE_VECTORS = 4        /* vectors of a part, at least: enough sums in flight */
};

double cost_work(const target *t, work_kind kind, double operations, double moved) {
  const uint32_t lanes = target_lanes(t, ET_F32);
  const double by = kind == WORK_SERIAL                             ? VECTOR_OPERATIONS
                    : kind == WORK_PRODUCT && lanes > PRODUCT_LANES ? (double)PRODUCT_LANES / lanes
                                                                    : 1;
  return (operations * by + moved) / VECTOR_OPERATIONS;
}
bool cost_serial_too_long(const target *t, int64_t points, int64_t operations) {
  return points > SERIAL_POINTS && cost_work(t, WORK_VECTORS, (double)operations, 0) > t->serial_work;
}
bool cost_barrier_pays(const target *t, double operations) {
  return cost_work(t, WORK_VECTORS, operations, 0) >= t->barrier_cost;
}
bool cost_divides_step(int64_t extent) { return extent >= DIVIDED_STEP; }

int64_t cost_chunk_rows(int64_t rows, int64_t tile_rows) {
  return max64((rows / (EK_PLANTED("cost-threads") ? 1 : ROW_BLOCKS) + tile_rows - 1) / tile_rows * tile_rows,
               tile_rows);
}
int64_t cost_chunk_lanes(int64_t tile_lanes) { return (POINTWISE_LANES + tile_lanes - 1) / tile_lanes * tile_lanes; }
int64_t cost_streamed_chunk_lanes(int64_t lanes, int64_t tile_lanes) {
  int64_t even = 1; /* parts that a row is divided into, a power of two */
  while (even < lanes / STREAMED_LANES) even *= 2;
  return (lanes / even + tile_lanes - 1) / tile_lanes * tile_lanes;
}
int64_t cost_step_vectors(int64_t lanes, uint32_t vector, bool rows) {
  return max64(rows ? STEP_SUMS / 2 : STEP_SUMS, lanes / vector / STEP_BLOCKS);
}
int64_t cost_shared_rows(int64_t rows, int64_t tile_rows) {
  return rows <= SHARED_ROWS ? rows : SHARED_ROWS / tile_rows * tile_rows;
}
int64_t cost_shared_points(int64_t rows) { return min64(rows, TWO_ROWS); }
int64_t cost_shared_lanes(int64_t lanes, int64_t tile_lanes) {
  return min64(max64(tile_lanes, SHARED_LANES / tile_lanes * tile_lanes), lanes);
}
int64_t cost_shared_values(int64_t extent) { return extent > 2 * SHARED_VALUES ? SHARED_VALUES : extent; }
int64_t cost_lane_part(int64_t lanes, uint32_t vector, int64_t blocks, int64_t whole) {
  const int64_t part = max64(LANE_VECTORS, lanes / LANE_PARTS / vector) * vector;
  return cost_enough_blocks(blocks) || part >= whole ? whole : part;
}
bool cost_enough_blocks(int64_t blocks) { return blocks >= ENOUGH_BLOCKS; }
int64_t cost_row_sum_parts(const target *t, int64_t blocks, int64_t steps, int64_t points) {
  const bool few = !cost_enough_blocks(blocks) && cost_serial_too_long(t, steps, sat_mul64(steps, points));
  return few && !EK_PLANTED("cost-row-parts") ? ROW_PARTS : 1;
}
int64_t cost_blocks_of_rows(int64_t rows) { return rows / SHARED_ROWS; }
int64_t cost_handed_rows(const target *t, int64_t bytes, int64_t tile_rows) {
  return max64((int64_t)t->l2 / 4 / max64(1, bytes) / tile_rows * tile_rows, tile_rows);
}
