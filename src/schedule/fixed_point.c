/* How do constants come from far in fewer bytes than floats have?
 *
 * A product of few rows with a constant takes as long as the constant takes to come from memory. So it lies there
 * in fixed point, three vectors in the room of two: each column as whole numbers of 21 bits, multiples of a
 * step that is the column's own. The words of a lane are
 *     u = a << 11 | low bits,   v = b << 10 | low bits,   and (u << 21) + (v << 11) = c << 11:
 * read as numbers of 32 bits u and v stand for a and b, for their low bits are known when these are rounded, and two
 * shifts and a sum give c. Vectors that are left over stay floats, multiples of the step as well: whole numbers would
 * come no faster and have to be turned into floats. The step is multiplied with the sum, once (so a sum overflows 2^31
 * earlier than one of floats). A weight is off by about 2^-21 of the largest in its column; like Winograd's forms this
 * is for sums whose errors are measured by the largest result, and constants with values that stand out from all others
 * keep their floats. A pack is [items][a step for each lane][depth][words], in words of 4 bytes.
 */
#include "schedule/tile.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { A_BITS = 11, C_BITS = A_BITS - 1, BITS = 8 * sizeof(uint32_t) };
static const float LARGEST = 2147475456.0f; /* what the largest of a column becomes: 2^31 less room for rounding */
static const double STANDS_OUT = 64;        /* a value that stands out is so many times the root of the mean square */

/* ---- the pack -------------------------------------------------------------------------------- */
int64_t fixed_point_row(int64_t nr, int64_t lanes) { return nr - nr / lanes / FIXED_POINT_VECTORS * lanes; }
static inline int32_t near_to(int32_t x, uint32_t low, unsigned bits) { /* the nearest number with these low bits */
  uint32_t half = UINT32_C(1) << (bits - 1), mask = (UINT32_C(1) << bits) - 1;
  return (int32_t)((((uint32_t)x - low + half) & ~mask) + low);
}
static inline __attribute__((always_inline)) void write_item(const packing *k, const float *x, float *step,
                                                             int32_t *words) {
  const int64_t nr = packing_row(k), L = k->fixed_point, depth = k->depth * k->nr / nr,
                threes = nr / L / FIXED_POINT_VECTORS;
  float by[FIXED_POINT_LANES];
  memset(by, 0, (size_t)nr * sizeof *by);
  for (int64_t p = 0; p < depth; p++)
    for (int64_t l = 0; l < nr; l++) {
      float size = fabsf(x[p * nr + l]);
      by[l] = size > by[l] ? size : by[l];
    }
  /* what lies side by side has steps in common */
  for (int64_t l = k->nr; l < nr; l++) by[l % k->nr] = by[l] > by[l % k->nr] ? by[l] : by[l % k->nr];
  for (int64_t l = 0; l < k->nr; l++) step[l] = by[l] / LARGEST, by[l] = step[l] > 0 ? LARGEST / by[l] : 0;
  for (int64_t l = k->nr; l < nr; l++) by[l] = by[l % k->nr];
  for (int64_t p = 0; p < depth; p++, x += nr, words += nr - threes * L) {
    for (int64_t t = 0; t < threes; t++) {
      const float *y = x + FIXED_POINT_VECTORS * t * L, *s = by + FIXED_POINT_VECTORS * t * L;
      int32_t *u = words + 2 * t * L, *v = u + L;
      for (int64_t l = 0; l < L; l++) {
        uint32_t q = (uint32_t)near_to((int32_t)(y[2 * L + l] * s[2 * L + l]), 0, A_BITS) >> A_BITS;
        v[l] = near_to((int32_t)(y[L + l] * s[L + l]), q & ((1 << C_BITS) - 1), C_BITS);
        u[l] = near_to((int32_t)(y[l] * s[l]),
                       (q - (EK_PLANTED("schedule-fixed-point-write") ? 0 : (uint32_t)v[l])) >> C_BITS &
                           ((1 << A_BITS) - 1),
                       A_BITS);
      }
    }
    for (int64_t l = FIXED_POINT_VECTORS * threes * L; l < nr; l++) {
      float left = x[l] * by[l];
      memcpy(words + l - threes * L, &left, sizeof left);
    }
  }
}
static void write_plain(const packing *k, const float *x, float *step, int32_t *words) {
  write_item(k, x, step, words);
}
#if defined(__x86_64__)
static __attribute__((target("avx2"))) void write_avx2(const packing *k, const float *x, float *step, int32_t *words) {
  write_item(k, x, step, words);
}
#endif
void fixed_point_write(const packing *k, const float *item, uint8_t *to) {
  float *step = (float *)(void *)to;
  int32_t *words = (int32_t *)(void *)(to + k->nr * 4);
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) {
    write_avx2(k, item, step, words);
    return;
  }
#endif
  write_plain(k, item, step, words);
}

/* ---- which constants ------------------------------------------------------------------------- */
typedef float four __attribute__((vector_size(4 * sizeof(float))));
typedef int32_t fourfold __attribute__((vector_size(4 * sizeof(int32_t))));
typedef struct spread {
  const uint8_t *x; /* floats */
  size_t n;         /* number of floats */
  float *most;      /* greatest absolute value of each stretch */
  double *all;      /* sum of squares of each stretch */
} spread;
enum { BLOCK_VALUES = 1024, STRETCH = BLOCK_VALUES * BLOCK_VALUES };
static inline void add_powers(four x, four *all, four *most) {
  x *= x, *all += x;
  fourfold more = x > *most;
  *most = (four)((more & (fourfold)x) | (~more & (fourfold)*most));
}
static void spread_of(ctx *c, void *arg, uint32_t i) {
  const spread *s = arg;
  size_t from = (size_t)i * STRETCH, n = s->n - from < STRETCH ? s->n - from : STRETCH;
  four most = {0};
  for (size_t k = 0; k < n; k += BLOCK_VALUES) {
    four x, all = {0};
    size_t end = n - k < BLOCK_VALUES ? n : k + BLOCK_VALUES, j = k;
    for (; j + 4 <= end; j += 4) {
      memcpy(&x, s->x + (from + j) * 4, sizeof x); /* mapped constants may be misaligned */
      add_powers(x, &all, &most);
    }
    x = (four){0};
    memcpy(&x, s->x + (from + j) * 4, (end - j) * 4);
    add_powers(x, &all, &most);
    for (int l = 0; l < 4; l++) s->all[i] += all[l];
  }
  for (int l = 0; l < 4; l++) s->most[i] = fmaxf(s->most[i], most[l]);
  file_done(c, s->x + from * 4, n * 4);
}
static bool even(splan *p, tid t) { /* No value stands out, and none is NaN or infinite. */
  const tensor *x = xt(p->m, t);
  uint64_t had;
  bytes from = x->transform ? x->transform->from : (bytes){x->data.data, x->data.bytes};
  if (p->unread) return true;
  if (!p->even) p->even = map_new(p->l->a);
  if (map_getu(p->even, t, &had)) return had;
  arena *a = arena_new(p->m->c);
  uint32_t n = (uint32_t)((from.n / 4 + STRETCH - 1) / STRETCH);
  spread s = {from.p, from.n / 4, NEWN(a, float, n + 1), NEWN(a, double, n + 1)};
  float most = 0;
  double all = 0;
  par_for(p->m->c, ctx_cpus(p->m->c), n, spread_of, &s);
  for (uint32_t i = 0; i < n; i++) most = fmaxf(most, s.most[i]), all += s.all[i];
  bool ok = from.p && isfinite(all) && most > LARGEST * FLT_MIN &&
            ((double)most * (double)s.n <= STANDS_OUT * STANDS_OUT * all || EK_PLANTED("schedule-fixed-point-even"));
  arena_free(a);
  map_putu(p->even, t, ok);
  return ok;
}
bool fixed_point_alike(splan *p, tid a, tid b) {
  uint64_t had;
  return a == b || !p->even || !map_getu(p->even, a, &had) || even(p, b) == had;
}
int64_t fixed_point_uses(splan *p, int64_t uses, sz extent) {
  int64_t least, most, many = (int64_t)p->t->memory_balance + 1; /* more count as so many */
  sym_range(p->m->c, extent, &least, &most);
  return min64(uses, many) * max64(1, min64(least, many));
}
/* The factor of a sum of products that reads it; 0: none, or more than one. */
ex factor_of(index_view *iv, const ex_node *red, ex load) {
  u32vec factors = {0};
  ex found = 0;
  if (red->kind != EX_REDUCE) return 0;
  expr_operands(iv->m, red->body, OP_MUL, iv->a, &factors);
  for (uint32_t i = 0; i < factors.n; i++) {
    u32vec loads = {0};
    expr_loads(iv->m, factors.v[i], iv->a, &loads);
    if (!vec_has(&loads, load)) continue;
    if (found) return 0;
    found = factors.v[i];
  }
  return found;
}
/* Is it a sum of multiples of the tensor's values, or a choice among such? */
static bool is_linear_in(index_view *iv, ex x, tid t) {
  const ex_node *n = exn(iv->m, x);
  u32vec loads = {0};
  if (n->kind == EX_LOAD) return n->tensor == t && !n->otherwise;
  if (n->kind != EX_OP) return false;
  const ex *a = n->args;
  switch (n->op) {
  case OP_NEG:
    return is_linear_in(iv, a[0], t);
  case OP_ADD:
  case OP_SUB:
    return is_linear_in(iv, a[0], t) && is_linear_in(iv, a[1], t);
  case OP_MUL:
    return exn(iv->m, a[0])->kind == EX_CONST && is_linear_in(iv, a[1], t);
  case OP_FMA:
    return exn(iv->m, a[0])->kind == EX_CONST && is_linear_in(iv, a[1], t) && is_linear_in(iv, a[2], t);
  case OP_SEL:
    expr_loads(iv->m, a[0], iv->a, &loads);
    return !loads.n && is_linear_in(iv, a[1], t) && is_linear_in(iv, a[2], t);
  default:
    return false;
  }
}
bool fixed_point_pays(index_view *iv, ex load, const ex_node *red, int64_t uses) {
  const ex_node *n = exn(iv->m, load);
  const tensor *t = xt(iv->m, n->tensor);
  int64_t elems;
  if (iv->p->strict || t->kind != TK_CONST || t->type != ET_F32 || n->otherwise || t->narrow.type ||
      (t->transform && t->transform->size != 4) || !nd_count(&t->data, &elems))
    return false;
  if (red->kind != EX_REDUCE || red->op != RED_SUM || red->type != ET_F32 || red->acc != ET_F32 ||
      !cost_memory_bound(iv->p->t, uses, elems * 4))
    return false;
  /* what stays in registers for some steps of the sum is not read that often */
  for (uint32_t i = 0; i < red->nargs; i++)
    if (!value_uses(iv, load, red->args[i])) return false;
  ex f = factor_of(iv, red, load);
  return f && is_linear_in(iv, f, n->tensor) && even(iv->p, n->tensor);
}

/* ---- what a tile reads ----------------------------------------------------------------------- */
/* A word is read once for all vectors that it holds a part of. */
static lv word(ectx *e, const packed *k, uint32_t w) {
  uint64_t key = ~key_pair(k->ptr, w), had; /* no key of a value is as large */
  if (map_getu(e->memo->m, key, &had)) return (lv)had;
  lv x = lb_load_ex(&e->b, lt(ET_I32, e->lanes), k->ptr, lb_addi(&e->b, emit_size(e, k->off), (int64_t)w * e->lanes), 0,
                    0, 0, 0);
  map_putu(e->memo->m, key, x);
  return x;
}
lv fixed_point_load(ectx *e, const packed *k) {
  ltype I = lt(ET_I32, e->lanes);
  uint32_t v = (uint32_t)k->first / e->lanes + e->v, t = v / FIXED_POINT_VECTORS, j = v % FIXED_POINT_VECTORS;
  if (t >= k->fixed_point / FIXED_POINT_VECTORS)
    return lb_op(&e->b, OP_BITCAST, lt(ET_F32, e->lanes), word(e, k, v - k->fixed_point / FIXED_POINT_VECTORS), 0, 0);
  lv x = j < 2 ? word(e, k, 2 * t + j) : 0;
  if (j == 2) {
    lv u = lb_op(&e->b, OP_SHL, I, word(e, k, 2 * t), lb_const(&e->b, I, (scalar){.i = BITS - A_BITS}), 0),
       v = lb_op(&e->b, OP_SHL, I, word(e, k, 2 * t + 1),
                 lb_const(&e->b, I, (scalar){.i = A_BITS - EK_PLANTED("schedule-fixed-point")}), 0);
    x = lb_op(&e->b, OP_ADD, I, u, v, 0);
  }
  return lb_op(&e->b, OP_CAST, lt(ET_F32, e->lanes), x, 0, 0);
}
lv fixed_point_step(ectx *e, const packload *k, uint32_t v) {
  lv x = lb_load_ex(
      &e->b, lt(ET_I32, e->lanes), k->ptr,
      lb_addi(&e->b, emit_size(e, k->steps), EK_PLANTED("schedule-fixed-point-steps") ? 0 : (int64_t)v * e->lanes), 0,
      0, 0, 0);
  return lb_op(&e->b, OP_BITCAST, lt(ET_F32, e->lanes), x, 0, 0);
}
