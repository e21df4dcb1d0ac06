/* When is it better that stages run together?
 *
 * Apart, each value is written once and read once: from the caches near a core where all of them fit there, else from
 * farther. Together, an element-wise stage may be computed several times, constants may be read again for each point,
 * and loops may be left that few threads can share.
 */
#include "cost/cost.h"

enum {
  COLUMN_TILE = 64,      /* columns for which a value is computed once where it is read */
  MAX_REPEATED = 12,     /* operations of a value, all repetitions together, that cost no more than its way out */
  NEAR_COLUMN_TILE = 48, /* the same two where all values stay near the core: their way out is short */
  MAX_NEAR_REPEATED = 5,
  RECURRENCE_OPERATIONS = 16, /* operations of a value that a step of a recurrence does besides */
  MIN_ROWS_JOINED = 64,       /* rows that run along the lanes, apart, in an order that suits them */
  BLOCK_ROWS = 12,            /* rows of a contraction that fill tiles */
  ROLLING_CONSTANTS = 4,      /* rows that are kept, against constants that are read again for every few rows */
  HANDED_CONSTANTS = 2,       /* all that is handed over, against the constants */
  REREAD_CONSTANTS = 8,       /* constants that are read again, against what is handed over at a point */
  /* lines that move for one that is read when it has left a core's caches: fetched, written, fetched again, and another
   * one leaves for it */
  FAR_TRANSFERS = 4,
  SHARED_COPY = 1 << 15 /* elements of a copy that threads share where it stands alone */
};

static bool stays_near(const target *t, int64_t elements, int64_t size) {
  return elements <= (int64_t)t->near_cache / max64(1, size);
}
int64_t cost_repeated_columns(const target *t, bool window, int64_t elements, int64_t size) {
  return !window && stays_near(t, elements, size) ? NEAR_COLUMN_TILE : COLUMN_TILE;
}
bool cost_repeats(const target *t, bool window, int64_t elements, int64_t size, int64_t repeated_operations) {
  return EK_PLANTED("cost-fusion") ||
         repeated_operations <= (!window && stays_near(t, elements, size) ? MAX_NEAR_REPEATED : MAX_REPEATED);
}
bool cost_repeats_far(const target *t, int64_t between, int64_t size, double cycles) {
  const double from = between > (int64_t)t->l3 ? t->dram_bandwidth : t->l3_bandwidth;
  return (between > (int64_t)t->l2 || EK_PLANTED("cost-far")) && cycles <= FAR_TRANSFERS * (double)size / from;
}
bool cost_joins_recurrence(int64_t operations) { return operations <= RECURRENCE_OPERATIONS; }
bool cost_looks_up_alone(int64_t rows) { return rows >= MIN_ROWS_JOINED; }

int64_t cost_point_bytes(const target *t) { return (int64_t)t->near_cache / 4 * 3; }
bool cost_blocks_fuse(const target *t, int64_t all, int64_t constants) {
  return all >= 2 * (int64_t)t->near_cache && constants <= all / HANDED_CONSTANTS;
}
bool cost_rows_for_tile(int64_t rows) { return rows >= BLOCK_ROWS; }
bool cost_rereads_constants(int64_t constants, int64_t point) { return constants <= REREAD_CONSTANTS * point; }
bool cost_rolling_pays(const target *t, int64_t all, int64_t constants, int64_t kept) {
  const int64_t near = (int64_t)t->near_cache;
  return all >= near && constants * ROLLING_CONSTANTS <= near / 2 && kept <= near / 2;
}
bool cost_copy_alone(int64_t elements) { return elements >= SHARED_COPY; }
