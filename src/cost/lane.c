/* What does a variable along the vector lanes save?
 *
 * For each access of a kernel: cycles that one vector saves against an access for each lane, which is what scalar code
 * does. Only the order of the sums matters, and which of them are below 0; so the numbers are those of a vector of
 * about eight lanes, whatever the target.
 */
#include "cost/cost.h"

static const double LOAD = 1, STORE = 1.25, /* neighbouring elements */
    INVARIANT = 0.5,                        /* loaded once anyway */
    UNGROUPED = -8,                         /* the sum goes term by term, without the instruction */
    PACKED = 1, PACKED_ONE = 0.25,          /* read as neighbours; made for one row alone */
    SHUFFLED = 0.25,                        /* a few loads and shuffles */
    EXCHANGED = -1,                         /* shuffles for each register of a square */
    COPIED = 0.25, COPIED_SOME = -0.5,      /* into a panel that many, or a few rows use again */
    STRIDED = -1.25,                        /* lane by lane */
    GATHERED = -4, UNKNOWN = -1.5,          /* an address for each lane */
    UNKNOWN_AFTER_SUM = -24,                /* once for all steps of a sum */
    RESULT = 0.125;                         /* a result after a long sum, besides what a strided store takes */
static const double ACROSS = 0.375;         /* adding up across the lanes, with no tile */
static const double ALIGNED = 0.25;         /* between equal ones: vectors that lie packed, and aligned */
static const double ROW_COPY = 0.5;         /* a copy of whole rows, against one by elements */
static const double STATE_GAIN = 1000;      /* of a run: what starting a kernel or two takes */
static const double SHORT_EXTENT = 2;       /* fewer than MIN_VALUES lanes are used */
/* part of the lanes that is used: where the number of values is open; at least */
static const double OPEN_USE = 0.9, LEAST_USE = 0.05;
enum {
  LONG_SUM = 64, /* steps from which how the result is stored counts little */
  SHORT_SUM =
      16, /* steps up to which a result counts as much as what they read; WINDOW_STEPS of them are written out */
  COPY_ROWS = 16, /* rows for which a copy into a panel pays */
  SOME_ROWS = 8,  /* rows for which it costs less than lane by lane */
  MIN_VALUES = 4, /* values of a variable that lanes are worth */
  SHORT_ROW = 32
};

bool cost_hides_store(int64_t steps) { return steps >= LONG_SUM; }
static double strided(const lane_access *a) {
  if (a->reuse >= COPY_ROWS) return COPIED;
  if (a->reuse >= SOME_ROWS) return COPIED_SOME;
  return STRIDED / (a->in_sum && a->steps <= WINDOW_STEPS ? (double)max64(a->steps, 1) : 1);
}
double cost_lane_access(const target *t, const lane_access *a) {
  const bool steady = a->pattern == LANE_CONTIGUOUS || a->pattern == LANE_INVARIANT || a->pattern == LANE_STRIDED;
  if (a->after_sum && cost_hides_store(a->steps) && steady)
    return a->pattern == LANE_CONTIGUOUS || (a->pattern == LANE_INVARIANT && !a->store)
               ? RESULT + t->strided_store_cost / (double)a->steps
               : 0;
  switch (a->pattern) {
  case LANE_CONTIGUOUS:
    return EK_PLANTED("cost-lane") ? UNKNOWN : a->store ? STORE : LOAD;
  case LANE_INVARIANT:
    return INVARIANT;
  case LANE_UNGROUPED:
    return UNGROUPED;
  case LANE_PACKED:
    return PACKED;
  case LANE_PACKED_ONE:
    return PACKED_ONE;
  case LANE_SHUFFLED:
    return SHUFFLED;
  case LANE_EXCHANGED:
    return EXCHANGED;
  case LANE_GATHERED:
    return GATHERED;
  case LANE_UNKNOWN:
    return a->after_sum && a->steps > SHORT_SUM ? UNKNOWN_AFTER_SUM / (double)a->steps : UNKNOWN;
  case LANE_STRIDED:
    return strided(a);
  }
  return 0;
}
double cost_lane(double saved, int64_t extent, uint32_t lanes, bool reduced, uint32_t aligned) {
  const double used = extent < 0 ? OPEN_USE : (double)extent / (double)((extent + lanes - 1) / lanes * lanes);
  double all = saved;
  if (reduced) all -= ACROSS;
  for (uint32_t i = 0; i < aligned; i++) all += ALIGNED;
  all = all > 0 ? all * used : all / (used > LEAST_USE ? used : LEAST_USE);
  return extent >= 0 && extent < MIN_VALUES ? all - SHORT_EXTENT : all;
}
bool cost_copy_by_elements(double saved, double by_rows) { return saved > by_rows + ROW_COPY; }
bool cost_state_order_pays(double saved, double vectors) {
  /* a copy into a panel counts for each of the rows that share it, which it does not cost */
  return saved - (LOAD - COPIED) * vectors > STATE_GAIN;
}
bool cost_transposes_once(int64_t rows, int64_t steps) {
  return rows >= SOME_ROWS && steps > 1 && !EK_PLANTED("cost-transposes");
}
bool cost_few_lanes(int64_t extent, uint32_t lanes) { return extent >= 0 && extent * 4 <= lanes; }
bool cost_half_idle(int64_t extent, uint32_t lanes) { return extent >= 0 && extent * 2 <= lanes; }
bool cost_short_row(int64_t extent) { return extent < SHORT_ROW; }
