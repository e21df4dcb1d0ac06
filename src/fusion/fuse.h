/* Private to the grouping of stages into kernels.
 *
 * A node is a kernel in the making, a placement (virtual), or a branch or loop of the block (opaque). anc holds, as
 * bits, the nodes a node depends on, directly or not: every question about cycles is one look. canon maps every output
 * variable of a member of a kernel to the canonical variable; a variable belongs to one stage, so one map serves all
 * kernels.
 */
#ifndef EK_FUSE_H
#define EK_FUSE_H
#include "cost/cost.h"
#include "fusion/fusion.h"
#include "rewrite/rewrite.h"

enum { FUSE_MEMBERS = 160 }; /* stages of a kernel */
typedef struct fnode {
  /* class of the kernel */
  kernel_class cls;
  /* the node is in use; false: its members went to another node */
  bool alive;
  /* its stages are computed where they are read: it becomes no kernel */
  bool virt;
  /* it stands for an item that is no kernel, such as a branch or a loop */
  bool opaque;
  /* some node may depend on it; false: none does */
  bool needed;
  /* stages, in order of position */
  u32vec st;
  /* canonical variables that all its stages share */
  u32vec outer;
  /* nodes that it depends on, as bits */
  uint64_t *anc;
  /* index of an opaque node's item in the block */
  uint32_t item;
  /* remarks on how it came about; NULL: none */
  const char *note;
} fnode;
typedef struct fuser {
  /* the state of the run of passes */
  pw *p;
  /* the module */
  emodule *m;
  /* the context */
  ctx *c;
  /* an arena for the time of the pass */
  arena *a;
  /* the block whose stages are fused */
  uint32_t block;
  /* words of fnode.anc */
  uint32_t words;
  /* the nodes of the block */
  VEC(fnode) k;
  /* per stage: 1 + its node; 0: it is not in this block, or has no node so far */
  uint32_t *where;
  /* per stage of those that the pass began with: its variable that runs along the lanes (expr_lanes) */
  const atom *lane;
  /* number of elements of `lane` */
  uint32_t nlane;
  /* number of elements of `where` */
  uint32_t nwhere;
  /* tensors of branches and loops -> node */
  map *result;
  /* variable -> the name by which stages share it */
  map *canon;
  /* per stage: its position in the block */
  uint32_t *pos;
  /* per stage: 1 + the placement that it stands in; 0: none */
  uint32_t *placed;
  /* per stage: its class; 0: not determined so far */
  kernel_class *cls;
} fuser;

typedef struct joint {
  /* the stage may join the node */
  bool ok;
  /* why it may not; NULL: there is no reason */
  const char *why;
  /* variables of the stage */
  atom *var;
  /* for each of `var`: the variable of the node that it becomes; itself where there is none */
  atom *to;
  /* number of variables of the stage */
  uint32_t n;
  /* number of them that become a variable of the node */
  uint32_t mapped;
  /* variables that node and stage share */
  u32vec outer;
  /* each index at which the stage reads a tensor of the node is one variable of the stage */
  bool identity;
} joint;

static inline bool heavy(kernel_class k) { return k == KC_CONTRACTION || k == KC_STENCIL || k == KC_MATVEC; }
static inline bool light(kernel_class k) {
  return k == KC_ROW || k == KC_ELEMENTWISE || k == KC_GATHER || k == KC_COPY;
}
static inline bool depends(const fuser *f, uint32_t k, uint32_t on) { return bitset_has(f->k.v[k].anc, on); }
uint32_t fuse_node(fuser *f, kernel_class cls);
uint32_t fuse_open(fuser *f, uint32_t s, kernel_class cls); /* makes a kernel of stage s alone; its node */
void fuse_add(fuser *f, uint32_t k, uint32_t s);            /* s becomes a member of k: dependences, position */
void fuse_depend(fuser *f, uint32_t k, uint32_t d);         /* k comes after d */
void fuse_late(fuser *f, uint32_t s, u32vec *out);          /* nodes that compute a size the stage uses, each once */
void fuse_merge(fuser *f, uint32_t k, uint32_t q);          /* q's members go to k; q dies */
void fuse_deps(fuser *f, uint32_t s, u32vec *out);          /* nodes of this block that s depends on, each once */
/* sizes that its values use; out may get one several times */
void fuse_symbols(fuser *f, uint32_t s, u32vec *out);
void fuse_users(fuser *f, uint32_t k, u32vec *out); /* nodes that read k's members */
kernel_class fuse_class(fuser *f, uint32_t s);
atom fuse_canon(fuser *f, atom v);
joint fuse_try(fuser *f, uint32_t s, uint32_t k);           /* index analysis of joining s to k */
void fuse_stage(fuser *f, uint32_t s);                      /* puts an ordinary stage into a kernel (fuse_join.c) */
void fuse_placement(fuser *f, uint32_t s);                  /* fuse_place.c */
void fuse_prologues(fuser *f);                              /* fuse_prologue.c */
void fuse_composites(fuser *f);                             /* fuse_composite.c */
void fuse_blocks(fuser *f);                                 /* fuse_blocks.c */
void fuse_rolling_buffers(fuser *f);                        /* fuse_rolling.c */
void fuse_rename(fuser *f, uint32_t k, atom from, atom to); /* renames a variable that k's members share */
void fuse_note(fuser *f, uint32_t k, const char *note);
/* typical product of the variables' extents (expr_typical) */
int64_t fuse_extent(fuser *f, const u32vec *vars);
/* bytes of stage s for all values of these variables, by typical sizes */
int64_t fuse_bytes(fuser *f, uint32_t s, const u32vec *vars);
/* bytes of those that stage s reads (fuse_blocks.c) */
int64_t fuse_constants(fuser *f, uint32_t s);
/* does kernel k compute nothing for others but the operand, or pieces of it? (fuse_blocks.c) */
bool fuse_only_for(fuser *f, uint32_t k, uint32_t operand, bool pieces);
/* the digits d of stage s, nd of them, and what they are at idx; false: not separable */
bool fuse_digits(fuser *f, uint32_t s, const sz *idx, sz **by, digit **d, uint32_t *nd);
#endif
