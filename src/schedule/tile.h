/* tile (private to schedule): which variable runs over the lanes, which over the rows of the register tile, and how
 * large the tile is. Decided from where the variables occur in the addresses; nothing else. */
#ifndef EK_SCHEDULE_TILE_H
#define EK_SCHEDULE_TILE_H
#include "schedule/nest.h"

/* One access of a group: a load of its values, or the store of a member. coefs are looked up by variable. */
typedef struct access {
  /* the load; 0: a store */
  ex load;
  /* the tensor that is read or written */
  tid t;
  /* index into the group's stages */
  uint32_t stage;
  /* offset in the tensor's memory, in elements, over the variables of the nest */
  sz address;
  /* the tensor is a constant */
  bool constant;
  /* a constant whose places do not depend on data: it can be packed when compiling */
  bool known;
  /* a reduction reads it */
  bool leader;
  /* an index of another load: it only says where that one reads */
  bool place;
  /* it is the store of a member */
  bool store;
  /* a load with another value for places outside the tensor (ex_node.otherwise) */
  bool guarded;
  /* bytes of an element */
  uint32_t bytes;
} access;
typedef VEC(access) accesses;
/* the distinct loads of its value */
u32vec schedule_loads(splan *p, uint32_t stage);
/* is every access linear in var, and unguarded? */
bool group_linear(index_view *iv, const u32vec *stages, const map *stored, atom var);
/* addresses resolved under the current bindings; register-held members left out */
void group_accesses(index_view *iv, const u32vec *stages, const map *stored, accesses *out);
/* coefficient of var in an address: 0 absent, 1.., or INT64_MIN when not linear or not constant */
int64_t address_coef(index_view *iv, sz address, atom var);
/* a step of row is a step of red, or a few: a window that slides, of `most` places at most */
bool address_windowed(index_view *iv, sz address, atom row, atom red, int64_t most);
bool value_uses(index_view *iv, ex x, atom var);
bool value_reduces(index_view *iv, ex x);                /* is there a reduction in it? */
bool address_uses(index_view *iv, sz address, atom var); /* does an address use the variable, or data in it? */

enum { MAX_TILE = 256 }; /* registers of a tile that is stated, beyond which its code is absurdly long */
typedef struct choice {
  /* the variable on the vector lanes; 0: none */
  atom lane;
  /* the variable on the rows of the tile; 0: none */
  atom row;
  /* second variable on the rows: a tile has all values of row, for several values of row2; 0: none */
  atom row2;
  /* lane is a variable of the reduction */
  bool lane_reduced;
  /* the loop over panels of lanes is outside the loop over rows */
  bool lane_outer;
  /* rows of the tile */
  uint32_t mr;
  /* vectors of the tile along the lanes */
  uint32_t nv;
  /* rows of the tile for rows that stay in the L2 cache; 0: there is no such tile */
  uint32_t l2_mr;
  /* vectors of the tile for rows that stay in the L2 cache; 0: there is no such tile */
  uint32_t l2_nv;
  /* two variables whose points, one after the other, are the rows of another tile; the first has few values; 0: none */
  atom collapsed[2];
  /* rows of the tile over `collapsed`; 0: there is no such tile */
  uint32_t collapsed_mr;
  /* vectors of the tile over `collapsed`; 0: there is no such tile */
  uint32_t collapsed_nv;
  /* nest.partitioned of the tile over `collapsed` */
  bool collapsed_partitioned;
  /* nest.rows_outer of the tile over `collapsed` */
  bool collapsed_outer;
  /* lanes of a vector: nest_lanes, or half of these */
  uint32_t lanes;
  /* the load whose address follows the lane; 0: none */
  ex lane_load;
  /* the factor of the sum that is computed a panel at a time; 0: none is */
  ex shared;
  /* there is such a factor, computed or not */
  bool may_share;
  /* what a vector of the lane saves against single lanes, in cycles (cost_lane) */
  double saved;
} choice;
enum { MAX_COLLAPSED = 8 }; /* values of a variable that would not fill tiles */
/* What is decided already: the tile is chosen for it. */
typedef struct tile_given {
  /* `lane` is decided */
  bool lane_given;
  /* `row` is decided */
  bool row_given;
  /* the variable on the lanes; 0: none */
  atom lane;
  /* the variable on the rows; 0: none */
  atom row;
  /* no instruction of the target may compute the sum's innermost part */
  bool no_instruction;
  /* it is decided whether panels are computed (`computes_panels`), if the sum can have such */
  bool panels_given;
  /* they are */
  bool computes_panels;
} tile_given;
choice tile_choose(index_view *iv, const u32vec *stages, const accesses *acc, const u32vec *domain, const u32vec *red,
                   const tile_given *given);
/* pack.c: what shall lie beside access `at`, which the sum reads; false: it lies beside another one */
bool pack_interleaved(index_view *iv, const accesses *acc, uint32_t at, ex sum, interleaved *out);
/* pack.c: a buffer with the constant's elements in this order of its axes, outermost first; its number */
uint32_t pack_permuted(splan *p, tid t, const uint32_t *order);
#endif
