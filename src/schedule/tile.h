/* tile (private to schedule): which variable runs over the lanes, which over the rows of the register tile, and how
 * large the tile is. Decided from where the variables occur in the addresses; nothing else. */
#ifndef EK_SCHEDULE_TILE_H
#define EK_SCHEDULE_TILE_H
#include "schedule/nest.h"

/* One access of a group: a load of its values, or the store of a member. coefs are looked up by variable. */
typedef struct access {
  ex load;
  tid t;
  uint32_t stage; /* index into the group */
  sz address;
  bool constant;
  bool known;  /* a constant, at places that data do not choose: it can be packed when compiling */
  bool leader; /* read by a reduction */
  bool place;  /* it only says where another one reads */
  bool store, guarded;
  uint32_t bytes;
} access;
typedef VEC(access) accesses;
/* the distinct loads of its value */
u32vec schedule_loads(splan *p, uint32_t stage);
/* is every access linear in var, and unguarded? */
bool group_linear(ectx *e, const u32vec *stages, const map *stored, atom var);
/* addresses resolved under the current bindings; register-held members left out */
void group_accesses(ectx *e, const u32vec *stages, const map *stored, accesses *out);
/* coefficient of var in an address: 0 absent, 1.., or INT64_MIN when not linear or not constant */
int64_t address_coef(ectx *e, sz address, atom var);
enum { WINDOW_STEPS = 16 };
/* a step of row is a step of red, or a few: a window that slides, of `most` places at most */
bool address_windowed(ectx *e, sz address, atom row, atom red, int64_t most);
bool value_uses(ectx *e, ex x, atom var);
bool value_reduces(ectx *e, ex x);                /* is there a reduction in it? */
bool address_uses(ectx *e, sz address, atom var); /* also inside the data it reads */

typedef struct choice {
  atom lane, row, row2; /* a tile has all values of row, for several of row2; 0: none */
  bool lane_reduced, lane_outer;
  uint32_t mr, nv, l2_mr, l2_nv; /* l2_: the tile for rows that stay in the L2 cache; 0: none */
  atom collapsed[2];
  uint32_t collapsed_mr, collapsed_nv;
  /* the tile whose rows are the points of two variables, one after the other, where the first has few values; 0:
   * none; partitioned, outer: see nest.partitioned, nest.rows_outer */
  bool collapsed_partitioned, collapsed_outer;
  uint32_t lanes; /* of a vector: nest_lanes, or half of these */
  ex lane_load;   /* the operand that follows the lane */
  double score;   /* of the lane: how well the accesses suit it, the more the better */
} choice;
enum { MAX_COLLAPSED = 8 }; /* values of a variable that would not fill tiles */
choice tile_choose(ectx *e, const u32vec *stages, const accesses *acc, const u32vec *domain, const u32vec *red);
/* pack.c: what shall lie beside access `at`, which the sum reads; false: it lies beside another one */
bool pack_interleaved(ectx *e, const accesses *acc, uint32_t at, ex sum, interleaved *out);
/* do registers of half the width do as much as those of so many floats? */
bool tile_halves(const target *t, uint32_t lanes);
/* Where the number of rows is open there are micro-kernels of each height up to this; so many rows also have registers
 * for their places. */
enum { TILE_EACH = 9 };
/* the next smaller one; 0: none. If the highest is no higher, what is more than a tile and less than two is halved:
 * a tile of few rows takes as long as one of some more */
uint32_t tile_fewer(uint32_t mr);
#endif
