/* How does memory access look in LLVM? Plain, masked (mask, count), strided and indexed loads and stores, and what
 * may alias what.
 *
 * Aliasing. A parameter with `noalias` gets an alias scope; accesses through it are in that scope, and all
 * accesses through other pointers say that they are not. Pointers are followed from offset to offset back to
 * their parameter. Loads through read-only noalias parameters are invariant.
 *
 * Addresses. Where many accesses differ from one index by constants only, their common address is a value of its
 * own that LLVM does not look into (launder): the constants become displacements, and loop strength
 * reduction, whose time grows fast with the addresses of a loop, sees one.
 */
#include "codegen/llvm/emit.h"
#include <string.h>

static LLVMMetadataRef distinct(em *e, LLVMMetadataRef domain, const char *name) {
  LLVMMetadataRef tmp = LLVMTemporaryMDNode(e->lc, NULL, 0),
                  op[3] = {tmp, domain ? domain : LLVMMDStringInContext2(e->lc, name, strlen(name)),
                           LLVMMDStringInContext2(e->lc, name, strlen(name))};
  LLVMMetadataRef n = LLVMMDNodeInContext2(e->lc, op, domain ? 3 : 2);
  LLVMReplaceMDNodeOperandWith(LLVMMetadataAsValue(e->lc, n), 0, n);
  LLVMDisposeTemporaryMDNode(tmp);
  return n;
}
/* ---- common addresses ------------------------------------------------------------------------ */
enum { NEAR = 24 };
typedef struct near_base {
  lv index;        /* the index */
  lv p;            /* the pointer */
  etype t;         /* element type */
  uint32_t n;      /* accesses that share it */
  LLVMValueRef at; /* its address */
} near_base;
static near_base *near_of(const em *e, lv index, lv p) {
  uint64_t x;
  return map_getu(e->near, (uint64_t)index << 32 | p, &x) ? (near_base *)(uintptr_t)x : NULL;
}
/* Is index = *base + a constant? */
static bool displaced(const em *e, lv index, lv *base, int64_t *by) {
  const linst *i = li(e->f, index);
  scalar k;
  if (i->kind != L_OP || i->op != OP_ADD || i->type.elem != ET_I64 || i->type.lanes != 1 || !loop_const(e->f, i->b, &k))
    return false;
  *base = i->a, *by = k.i;
  return true;
}
static void find_near(em *e) {
  e->near = map_new(e->a);
  VEC(near_base *) all = {0};
  for (uint32_t v = 1; v < e->f->insts.n; v++) {
    const linst *i = li(e->f, v);
    lv base;
    int64_t by;
    if ((i->kind != L_LOAD && i->kind != L_STORE) || !displaced(e, i->b, &base, &by)) continue;
    near_base *b = near_of(e, base, i->a);
    if (!b) {
      b = NEW(e->a, near_base);
      *b = (near_base){.index = base, .p = i->a, .t = (etype)i->type.elem};
      map_putu(e->near, (uint64_t)base << 32 | i->a, (uintptr_t)b);
      vec_push(e->a, all, b);
    }
    b->n++;
  }
  for (uint32_t i = 0; i < all.n; i++) {
    near_base *b = all.v[i];
    if (b->n < NEAR) continue;
    u32vec *l = &e->nears[b->index];
    vec_push(e->a, *l, b->p);
  }
}
void em_near(em *e, lv index) {
  for (uint32_t k = 0; k < e->nears[index].n; k++) {
    near_base *b = near_of(e, index, e->nears[index].v[k]);
    LLVMValueRef p = LLVMBuildGEP2(e->b, em_mem(e, b->t), e->val[b->p], &e->val[index], 1, "");
    b->at = em_intrin(e, "llvm.launder.invariant.group", &e->ptr, 1, &p, 1);
  }
}
void em_alias(em *e) {
  uint32_t n = e->f->params.n, m = 0;
  e->md_scope = LLVMGetMDKindIDInContext(e->lc, "alias.scope", 11);
  e->md_noalias = LLVMGetMDKindIDInContext(e->lc, "noalias", 7);
  e->md_invariant = LLVMGetMDKindIDInContext(e->lc, "invariant.load", 14);
  e->scope = NEWN(e->a, LLVMMetadataRef, n + 1);
  e->others = NEWN(e->a, LLVMMetadataRef, n + 1);
  e->base = NEWN(e->a, uint32_t, e->f->insts.n);
  e->nears = NEWN(e->a, u32vec, e->f->insts.n);
  find_near(e);
  LLVMMetadataRef *all = NEWN(e->a, LLVMMetadataRef, n + 1), domain = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const lparam *p = &e->f->params.v[i];
    if (!p->type.ptr || !(p->flags & LP_NOALIAS)) continue;
    if (!domain) domain = distinct(e, NULL, e->f->name);
    all[m++] = e->scope[i] = distinct(e, domain, p->name);
  }
  if (!m) return;
  LLVMMetadataRef *rest = NEWN(e->a, LLVMMetadataRef, m);
  for (uint32_t i = 0; i <= n; i++) {
    uint32_t k = 0;
    for (uint32_t j = 0; j < m; j++)
      if (i == n || all[j] != e->scope[i]) rest[k++] = all[j];
    e->others[i] = k ? LLVMMDNodeInContext2(e->lc, rest, k) : NULL;
    if (i < n && e->scope[i]) e->scope[i] = LLVMMDNodeInContext2(e->lc, &e->scope[i], 1);
  }
}
uint32_t em_base_of(em *e, lv p) {
  const linst *i = li(e->f, p);
  switch (i->kind) {
  case L_PARAM:
    return (uint32_t)i->k.i + 1;
  case L_OFFSET:
    return em_base_of(e, i->a);
  case L_ALLOC:
    return BASE_LOCAL;
  default:
    return 0;
  }
}
static void tag(em *e, LLVMValueRef v, lv p, bool load) {
  uint32_t base = em_base_of(e, p), n = e->f->params.n, k = base && base != BASE_LOCAL ? base - 1 : n;
  if (base == BASE_LOCAL || e->f->kind == LF_MAIN) return;
  if (k < n && e->scope[k]) LLVMSetMetadata(v, e->md_scope, LLVMMetadataAsValue(e->lc, e->scope[k]));
  LLVMMetadataRef no = e->others[k < n && e->scope[k] ? k : n];
  if (no) LLVMSetMetadata(v, e->md_noalias, LLVMMetadataAsValue(e->lc, no));
  if (load && k < n && (e->f->params.v[k].flags & (LP_READ | LP_WRITE | LP_NOALIAS)) == (LP_READ | LP_NOALIAS))
    LLVMSetMetadata(v, e->md_invariant, LLVMMetadataAsValue(e->lc, LLVMMDNodeInContext2(e->lc, NULL, 0)));
}
/* The active lanes, or NULL for all. */
static LLVMValueRef active(em *e, const linst *i) {
  unsigned lanes = i->type.lanes;
  LLVMValueRef m = i->mask ? e->val[i->mask] : NULL;
  if (m && lanes == 1)
    m = LLVMBuildInsertElement(e->b, LLVMGetPoison(LLVMVectorType(e->i1, 1)), m, LLVMConstInt(e->i32, 0, 0), "");
  if (i->count) {
    LLVMTypeRef at = lanes > 64 ? e->i16 : e->i32;
    LLVMValueRef n = e->val[i->count], top = LLVMConstInt(e->i64, lanes, 0), *lane = NEWN(e->a, LLVMValueRef, lanes);
    LLVMValueRef a[2] = {n, top};
    n = em_intrin(e, "llvm.smin", &e->i64, 1, a, 2);
    a[0] = n, a[1] = LLVMConstNull(e->i64);
    n = LLVMBuildTrunc(e->b, em_intrin(e, "llvm.smax", &e->i64, 1, a, 2), at, "");
    for (unsigned l = 0; l < lanes; l++) lane[l] = LLVMConstInt(at, l, 0);
    LLVMValueRef nv = n;
    if (lanes > 1)
      nv = em_splat(e, n, lanes);
    else
      nv = LLVMBuildInsertElement(e->b, LLVMGetPoison(LLVMVectorType(at, 1)), n, LLVMConstInt(e->i32, 0, 0), "");
    LLVMValueRef c = LLVMBuildICmp(e->b, LLVMIntULT, LLVMConstVector(lane, lanes), nv, "");
    m = m && !EK_PLANTED("llvm-memory") ? LLVMBuildAnd(e->b, m, c, "") : c;
  }
  return m;
}
static LLVMValueRef address(em *e, etype t, lv p, lv index) {
  lv base;
  int64_t by;
  near_base *b = displaced(e, index, &base, &by) ? near_of(e, base, p) : NULL;
  LLVMValueRef at = b && b->at ? LLVMConstInt(e->i64, (unsigned long long)by, 1) : e->val[index];
  return LLVMBuildGEP2(e->b, em_mem(e, t), b && b->at ? b->at : e->val[p], &at, 1, "");
}
/* A pointer per lane, for strided and indexed access. */
static LLVMValueRef addresses(em *e, const linst *i, bool indexed) {
  etype t = (etype)i->type.elem;
  LLVMValueRef index;
  if (indexed) {
    index = e->val[i->b];
    if (li(e->f, i->b)->type.elem == ET_U8)
      index = LLVMBuildZExt(e->b, index, LLVMVectorType(e->i32, i->type.lanes), "");
    return LLVMBuildGEP2(e->b, em_mem(e, t), e->val[i->a], &index, 1, "");
  } else {
    unsigned lanes = i->type.lanes;
    LLVMValueRef *lane = NEWN(e->a, LLVMValueRef, lanes);
    for (unsigned l = 0; l < lanes; l++) lane[l] = LLVMConstInt(e->i64, l, 0);
    LLVMValueRef p = address(e, t, i->a, i->b);
    index = LLVMBuildMul(e->b, LLVMConstVector(lane, lanes), em_splat(e, e->val[i->stride], lanes), "");
    return LLVMBuildGEP2(e->b, em_mem(e, t), p, &index, 1, "");
  }
}
static LLVMValueRef all_lanes(em *e, unsigned lanes) {
  LLVMValueRef *one = NEWN(e->a, LLVMValueRef, lanes);
  for (unsigned l = 0; l < lanes; l++) one[l] = LLVMConstInt(e->i1, 1, 0);
  return LLVMConstVector(one, lanes);
}
/* Does i read bytes of a table of 256, at places that bytes say, by permutations of the table? */
static bool permutes(const em *e, const linst *i, LLVMValueRef mask) {
  return e->t->vector_bits == 512 && i->kind == L_GATHER && !mask && i->type.lanes > 1 && i->type.lanes <= 64 &&
         et_bytes((etype)i->type.elem) == 1 && li(e->f, i->b)->type.elem == ET_U8;
}
/* Bytes of a table of 256 at places that bytes say: a permutation of two halves of 64 bytes for each value of the
 * index' highest bit. */
static LLVMValueRef table_bytes(em *e, const linst *i) {
  const unsigned lanes = i->type.lanes;
  LLVMTypeRef all = LLVMVectorType(e->i8, 64);
  LLVMValueRef part[4], half[2], *lane = NEWN(e->a, LLVMValueRef, 64), at = e->val[i->b];
  for (unsigned k = 0; k < 4; k++) {
    LLVMValueRef off = LLVMConstInt(e->i64, k * 64, 0);
    part[k] = LLVMBuildLoad2(e->b, all, LLVMBuildGEP2(e->b, e->i8, e->val[i->a], &off, 1, ""), "");
    LLVMSetAlignment(part[k], 1);
    tag(e, part[k], i->a, true);
  }
  for (unsigned l = 0; l < 64; l++) lane[l] = LLVMConstInt(e->i32, l % lanes, 0);
  at = LLVMBuildShuffleVector(e->b, at, LLVMGetPoison(LLVMTypeOf(at)), LLVMConstVector(lane, 64), "");
  for (unsigned k = 0; k < 2; k++) {
    LLVMValueRef a[3] = {part[2 * k], at, part[2 * k + 1]};
    half[k] = em_intrin(e, "llvm.x86.avx512.vpermi2var.qi.512", NULL, 0, a, 3);
  }
  LLVMValueRef high = LLVMBuildICmp(e->b, LLVMIntSLT, at, LLVMConstNull(all), ""),
               r = LLVMBuildSelect(e->b, high, half[1], half[0], "");
  return LLVMBuildShuffleVector(e->b, r, LLVMGetPoison(all), LLVMConstVector(lane, lanes), "");
}
/* The same where 32 bits are permuted, not bytes, 16 places at a time: the word of a place is turned until its byte is
 * the lowest one. */
static LLVMValueRef table_words(em *e, const linst *i) {
  const unsigned lanes = i->type.lanes;
  LLVMTypeRef all = LLVMVectorType(e->i32, 16), bytes = LLVMVectorType(e->i8, 16);
  LLVMValueRef part[4], half[2], r = LLVMGetPoison(LLVMVectorType(e->i8, lanes)), none = LLVMGetPoison(bytes);
  for (unsigned k = 0; k < 4; k++) {
    LLVMValueRef off = LLVMConstInt(e->i64, k * 64, 0);
    part[k] = LLVMBuildLoad2(e->b, all, LLVMBuildGEP2(e->b, e->i8, e->val[i->a], &off, 1, ""), "");
    LLVMSetAlignment(part[k], 1);
    tag(e, part[k], i->a, true);
  }
  for (unsigned q = 0; q < lanes; q += 16) {
    LLVMValueRef lane[64], at = e->val[i->b];
    for (unsigned l = 0; l < 16; l++) lane[l] = LLVMConstInt(e->i32, (q + l) % lanes, 0);
    at = LLVMBuildShuffleVector(e->b, at, LLVMGetPoison(LLVMTypeOf(at)), LLVMConstVector(lane, 16), "");
    LLVMValueRef high = LLVMBuildICmp(e->b, LLVMIntSLT, at, LLVMConstNull(bytes), ""),
                 place = LLVMBuildZExt(e->b, at, all, ""),
                 word = LLVMBuildLShr(e->b, place, em_splat(e, LLVMConstInt(e->i32, 2, 0), 16), "");
    for (unsigned k = 0; k < 2; k++) {
      LLVMValueRef a[3] = {part[2 * k], word, part[2 * k + 1]};
      half[k] = em_intrin(e, "llvm.x86.avx512.vpermi2var.d.512", NULL, 0, a, 3);
    }
    LLVMValueRef both = LLVMBuildSelect(e->b, high, half[1], half[0], ""),
                 turn[3] = {both, both, LLVMBuildShl(e->b, place, em_splat(e, LLVMConstInt(e->i32, 3, 0), 16), "")},
                 found = LLVMBuildTrunc(e->b, em_intrin(e, "llvm.fshr", &all, 1, turn, 3), bytes, "");
    for (unsigned l = 0; l < 64; l++) lane[l] = LLVMConstInt(e->i32, l % 16, 0);
    found = LLVMBuildShuffleVector(e->b, found, none, LLVMConstVector(lane, lanes), "");
    for (unsigned l = 0; l < lanes; l++) lane[l] = LLVMConstInt(e->i32, l >= q && l < q + 16 ? lanes + l : l, 0);
    r = LLVMBuildShuffleVector(e->b, r, found, LLVMConstVector(lane, lanes), "");
  }
  return r;
}
LLVMValueRef em_load(em *e, const linst *i) {
  etype t = (etype)i->type.elem;
  unsigned lanes = i->type.lanes, align = i->align ? i->align : et_bytes(t);
  LLVMTypeRef mt = em_mem(e, t), vt = em_vec(mt, lanes);
  bool indexed = i->kind == L_GATHER;
  LLVMValueRef m = active(e, i), v;
  if (permutes(e, i, m)) return strstr(e->t->required, "avx512vbmi") ? table_bytes(e, i) : table_words(e, i);
  if (indexed || i->stride) {
    LLVMTypeRef over[2] = {vt, LLVMVectorType(e->ptr, lanes)};
    LLVMValueRef a[4] = {addresses(e, i, indexed), LLVMConstInt(e->i32, et_bytes(t), 0), m ? m : all_lanes(e, lanes),
                         m ? LLVMConstNull(vt) : LLVMGetPoison(vt)};
    v = em_intrin(e, "llvm.masked.gather", over, 2, a, 4);
    tag(e, v, i->a, true);
  } else if (m) {
    LLVMTypeRef v1 = LLVMVectorType(mt, lanes), over[2] = {v1, e->ptr};
    LLVMValueRef a[4] = {address(e, t, i->a, i->b), LLVMConstInt(e->i32, align, 0), m, LLVMConstNull(v1)};
    v = em_intrin(e, "llvm.masked.load", over, 2, a, 4);
    tag(e, v, i->a, true);
    if (lanes == 1) v = LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 0, 0), "");
  } else {
    v = LLVMBuildLoad2(e->b, vt, address(e, t, i->a, i->b), "");
    LLVMSetAlignment(v, align);
    tag(e, v, i->a, true);
  }
  return t == ET_BOOL ? LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(vt), "") : v;
}
void em_prefetch(em *e, const linst *i) {
  /* arguments: address; a read; into the second level; of data */
  LLVMValueRef a[4] = {address(e, (etype)li(e->f, i->a)->type.elem, i->a, i->b), LLVMConstInt(e->i32, 0, 0),
                       LLVMConstInt(e->i32, 2, 0), LLVMConstInt(e->i32, 1, 0)};
  em_intrin(e, "llvm.prefetch", &e->ptr, 1, a, 4);
}
void em_store(em *e, const linst *i) {
  etype t = (etype)i->type.elem;
  unsigned lanes = i->type.lanes, align = i->align ? i->align : et_bytes(t);
  LLVMTypeRef mt = em_mem(e, t), vt = em_vec(mt, lanes);
  bool indexed = i->kind == L_SCATTER;
  LLVMValueRef m = active(e, i), v = e->val[i->c], s;
  if (t == ET_BOOL) v = LLVMBuildZExt(e->b, v, vt, "");
  if (indexed || i->stride) {
    LLVMTypeRef over[2] = {vt, LLVMVectorType(e->ptr, lanes)};
    LLVMValueRef a[4] = {v, addresses(e, i, indexed), LLVMConstInt(e->i32, et_bytes(t), 0),
                         m ? m : all_lanes(e, lanes)};
    s = em_intrin(e, "llvm.masked.scatter", over, 2, a, 4);
  } else if (m) {
    LLVMTypeRef v1 = LLVMVectorType(mt, lanes), over[2] = {v1, e->ptr};
    if (lanes == 1) v = LLVMBuildInsertElement(e->b, LLVMGetPoison(v1), v, LLVMConstInt(e->i32, 0, 0), "");
    LLVMValueRef a[4] = {v, address(e, t, i->a, i->b), LLVMConstInt(e->i32, align, 0), m};
    s = em_intrin(e, "llvm.masked.store", over, 2, a, 4);
  } else {
    s = LLVMBuildStore(e->b, v, address(e, t, i->a, i->b));
    LLVMSetAlignment(s, align);
  }
  tag(e, s, i->a, false);
}
