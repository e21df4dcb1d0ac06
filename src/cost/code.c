/* How much code is worth what it saves? Code that is written out runs without a loop's counting, and is compiled and
 * read once for each copy. */
#include "cost/cost.h"

#define ENTRY_READ 1.5 /* operations for an index, and for each entry, which leaves a vector and enters another one */
enum {
  OPERATIONS = 32,  /* operations of all steps of a loop that is written out */
  DECIDED_CODE = 2, /* code that may come of a loop's body that is written out, of that of the loop */
  DECIDED_GAIN = 2, /* part of its operations that is left at most: one of so many */
  EDGE_STAGES = 32, /* stages of a tile whose edge has no code of its own */
  OUTSIDE_PART = 16 /* part of the places, on the mean, that is worth a bound that is not a number */
};
bool cost_written_out(int64_t steps, uint64_t operations) {
  return !EK_PLANTED("cost-code") && steps <= MAX_WRITTEN_OUT && operations * (uint64_t)steps <= OPERATIONS;
}
bool cost_decided_pays(int64_t steps, uint64_t whole, uint64_t taken) {
  return !EK_PLANTED("cost-decided") && taken <= whole * DECIDED_CODE &&
         taken * DECIDED_GAIN <= whole * (uint64_t)steps;
}
bool cost_table_pays(const target *t, uint64_t operations) {
  const double lanes = t->vector_bits ? target_lanes(t, ET_F32) : 1;
  return (double)operations > (t->table_cost > 0 ? t->table_cost : ENTRY_READ * (1 + lanes));
}
bool cost_table_in_bytes(const target *t) { return t->table_cost > 0; }
bool cost_shares_edge_code(uint32_t stages) { return stages >= EDGE_STAGES; }
bool cost_bound_pays(int64_t outside, int64_t size) { return sat_mul64(outside, OUTSIDE_PART) >= size; }
