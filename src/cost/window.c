/* Reductions over windows, one axis at a time; the few largest of many places.
 *
 * A window of q x k places takes k*q steps for each result; one axis after the other, k for each place of a row and
 * then q for each result. Of ordered floats a step also looks for NaN. A vector whose lanes lie apart takes longer to
 * load. All is counted in vector operations, of which one starts in a cycle.
 */
#include "cost/cost.h"

enum {
  ORDERED_STEP = 3, /* cycles of a step that looks for NaN, besides its load */
  STRIDED_LOAD = 3, /* cycles of a vector whose elements lie in steps apart */
  FEWER_STEPS = 2,  /* times as few steps, for an operand that another kernel makes in any order */
  PERCENT = 100,
  LANES_USED = 60,        /* percent of the vectors' lanes that hold values, at least */
  FOLDED_LANES_USED = 25, /* the same where fewer steps are left, too */
  SORTED_PLACE = 25,      /* cycles of a place that is sorted, whatever its number */
  SORTED_ALL = 2000,      /* cycles of the buckets of a sort */
  SLOT = 10,              /* cycles of a slot, for each place that is taken in; a vector looks at `lanes` of them */
  SLOT_PLACE = 75,        /* cycles of a place that is taken in */
  MOST_FIRST = 1024,      /* places that are ever chosen so */
  SHORT_SORT = 48,        /* so few places are compared one with another faster than they are sorted */
  SHORT_SCAN = 8          /* so few terms are added up anew for each place */
};

bool cost_separate_window(const window_reduction *w) {
  const double step = w->ordered ? ORDERED_STEP : 1, load = w->places * 2 > w->lanes * 3 ? STRIDED_LOAD : 1;
  return !EK_PLANTED("cost-window") && w->places * (w->outer * (1 + step) + 1) + w->lanes * w->inner * (load + step) <
                                           w->lanes * w->outer * w->inner * (load + step);
}
bool cost_separate_by_rows(const window_reduction *w) {
  return FEWER_STEPS * (w->places * w->outer + w->lanes * w->inner) <= w->lanes * w->outer * w->inner;
}
bool cost_window_lanes(int64_t extent, int64_t lanes, bool folded) {
  return sat_mul64(extent, PERCENT) >=
         sat_mul64((extent + lanes - 1) / lanes * lanes, folded ? FOLDED_LANES_USED : LANES_USED);
}

bool cost_few_first(int64_t first, int64_t places, uint32_t lanes) {
  return first > 0 && first <= MOST_FIRST &&
         first * (first * SLOT / lanes + SLOT_PLACE) <= min64(places, INT32_MAX) * SORTED_PLACE + SORTED_ALL;
}
bool cost_sort_pays(int64_t places) { return places > SHORT_SORT; }
bool cost_prefix_scan_pays(int64_t places) { return places > SHORT_SCAN; }
