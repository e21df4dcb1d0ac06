/* Where does code go, and what is an address? Regions, constants, and sums of registers that become addresses.
 *
 * An address is a constant and multiples of registers, each of which belongs to a region. The constant is the
 * displacement; the index of the loop around is the index register, itself where its factor is 1, 2, 4 or 8, else a
 * register that grows by factor * step a round; all the rest is one base register, made in front of the loop, by the
 * same rule there. Equal rests share a register. */
#include "codegen/x86/build.h"
#include <string.h>

void xg_refuse(sel *e, const char *why) {
  if (!e->why) e->why = why;
}
vr xg_new(sel *e, unsigned cls, unsigned vl) {
  vec_push(e->a, e->x->v, ((vinfo){.cls = (uint8_t)cls, .vl = (uint8_t)vl, .depth = (uint16_t)e->at}));
  if (vl) e->x->wide = true;
  return e->x->v.n - 1;
}
void xg_emit(sel *e, mi i) {
  if (!e->avx512 && x86_is_vector(i.op) && (x86_vop(e->x, i.op)->flags & E)) xg_refuse(e, x86_vop(e->x, i.op)->name);
  vec_push(e->a, e->r[e->at]->code, i);
}
void xg_append(sel *e, const mis *code) {
  for (uint32_t k = 0; k < code->n; k++) xg_emit(e, code->v[k]);
}
uint32_t xg_place(const sel *e, uint32_t need) {
  for (uint32_t k = e->cur; k > need; k--)
    if (e->r[k]->seldom) need = k;
  for (uint32_t k = need; k < e->cur; k++)
    if (e->r[k + 1]->kind == R_LOOP) return k;
  return e->cur;
}
void xg_open(sel *e, unsigned kind) {
  if (e->cur + 1 >= NEST) {
    xg_refuse(e, "blocks nested too deeply");
    ctx_bug(e->c, "x86: blocks nested too deeply"); /* LLVM would not be better off */
  }
  e->at = ++e->cur;
  region *r = NEW(e->a, region);
  *r = (region){.kind = (uint8_t)kind, .stamp = ++e->stamps};
  e->r[e->cur] = r;
}
region *xg_close(sel *e) {
  region *r = e->r[e->cur];
  e->at = --e->cur;
  return r;
}

/* ---- sums ------------------------------------------------------------------------------------ */
form xg_const(int64_t k) { return (form){.k = k}; }
form xg_var(vr v) { return (form){.n = 1, .t[0] = {v, 1}}; }
uint32_t xg_depth(const sel *e, const form *f) {
  uint32_t d = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (e->x->v.v[f->t[i].v].depth > d) d = e->x->v.v[f->t[i].v].depth;
  return d;
}
static void put_term(form *f, vr v, int64_t c) {
  uint32_t i = 0;
  while (i < f->n && f->t[i].v < v) i++;
  if (i < f->n && f->t[i].v == v) {
    f->t[i].c = (int64_t)((uint64_t)f->t[i].c + (uint64_t)c);
    if (f->t[i].c) return;
    for (f->n--; i < f->n; i++) f->t[i] = f->t[i + 1];
    return;
  }
  for (uint32_t k = f->n++; k > i; k--) f->t[k] = f->t[k - 1];
  f->t[i] = (term){v, c};
}
/* The terms of the outer regions become one. */
static void fewer_terms(sel *e, form *f) {
  uint32_t d = xg_depth(e, f);
  form low = {0}, high = {.k = f->k};
  for (uint32_t i = 0; i < f->n; i++) put_term(e->x->v.v[f->t[i].v].depth < d ? &low : &high, f->t[i].v, f->t[i].c);
  if (low.n > 1) {
    put_term(&high, xg_reg(e, &low), 1);
    *f = high;
  } else
    *f = xg_var(xg_reg(e, f));
}
form xg_add(sel *e, const form *a, const form *b, int64_t times) {
  form r = *a, o = *b;
  if (times == 0) return r;
  if (r.n + o.n > TERMS && r.n > 3) fewer_terms(e, &r);
  if (r.n + o.n > TERMS && o.n > 3) fewer_terms(e, &o);
  r.k = (int64_t)((uint64_t)r.k + (uint64_t)o.k * (uint64_t)times);
  if (r.n + o.n > TERMS) r = xg_var(xg_reg(e, &r));
  for (uint32_t i = 0; i < o.n; i++) put_term(&r, o.t[i].v, (int64_t)((uint64_t)o.t[i].c * (uint64_t)times));
  return r;
}

/* ---- what is there already ------------------------------------------------------------------- */
enum { MEMO_FORM, MEMO_PRODUCT, MEMO_CONST, MEMO_STEP, MEMO_MASK };
static bool same_terms(const form *a, const form *b) {
  if (a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->t[i].v != b->t[i].v || a->t[i].c != b->t[i].c) return false;
  return true;
}
static vr recall_at(const region *r, unsigned kind, const form *f, uint64_t bits, unsigned vl) {
  for (uint32_t i = r->memos.n; i-- > 0;) {
    const memo *m = &r->memos.v[i];
    if (m->kind == kind && m->bits == bits && m->vl == vl && (!f || same_terms(&m->f, f))) return m->v;
  }
  return 0;
}
static vr recall(const sel *e, unsigned kind, const form *f, uint64_t bits, unsigned vl) {
  for (uint32_t k = e->at + 1; k-- > 0;) {
    vr v = recall_at(e->r[k], kind, f, bits, vl);
    if (v) return v;
  }
  return 0;
}
static void remember(sel *e, unsigned kind, const form *f, uint64_t bits, unsigned vl, vr v) {
  memo m = {.kind = (uint8_t)kind, .vl = (uint8_t)vl, .bits = bits, .v = v};
  if (f) m.f = *f;
  vec_push(e->a, e->r[e->at]->memos, m);
}

/* ---- registers of sums ----------------------------------------------------------------------- */
static bool loop_index(const sel *e, vr v, uint32_t *depth) {
  *depth = e->x->v.v[v].depth;
  return *depth <= e->cur && e->r[*depth]->kind == R_LOOP && e->r[*depth]->iv == v;
}
static bool scales(int64_t c) { return c == 1 || c == 2 || c == 4 || c == 8; }
/* A register that is `c` (or, n given, n) times the index of loop d in every round. */
static vr follow(sel *e, uint32_t d, int64_t c, vr n) {
  region *r = e->r[d];
  form key = n ? xg_var(n) : xg_const(0);
  vr v = recall_at(r, MEMO_STEP, &key, (uint64_t)c, 0);
  if (v) return v;
  uint32_t at = e->at, cur = e->cur;
  e->at = e->cur = d - 1; /* what follows goes in front of the loop */
  form zero = xg_const(0), init, inc, times = n ? xg_var(n) : xg_const(c);
  init = n ? xg_mul(e, &r->from, &times) : xg_add(e, &zero, &r->from, c);
  inc = n ? xg_mul(e, &r->step, &times) : xg_add(e, &zero, &r->step, c);
  e->at = d - 1;
  v = xg_new(e, RG, 0);
  e->x->v.v[v].depth = (uint16_t)d;
  if (init.n)
    xg_emit(e, (mi){.op = G_MOV, .d = v, .b = xg_reg(e, &init)});
  else
    xg_emit(e, (mi){.op = G_MOV, .d = v, .imm = init.k});
  mi add = {.op = G_ADD, .d = v, .a = v, .imm = inc.k};
  if (inc.n || inc.k != (int32_t)inc.k) add.b = xg_reg(e, &inc), add.imm = 0;
  vec_push(e->a, r->latch, add);
  e->at = d;
  remember(e, MEMO_STEP, &key, (uint64_t)c, 0, v);
  e->at = at, e->cur = cur;
  return v;
}
vr xg_imm(sel *e, int64_t k) {
  vr v = xg_new(e, RG, 0);
  e->x->v.v[v].is_imm = true, e->x->v.v[v].imm = k;
  xg_emit(e, (mi){.op = G_MOV, .d = v, .imm = k});
  return v;
}
static vr times(sel *e, vr v, int64_t c) {
  if (c == 1) return v;
  vr d = xg_new(e, RG, 0);
  if (c > 0 && !(c & (c - 1)))
    xg_emit(e, (mi){.op = G_SHL, .d = d, .a = v, .imm = __builtin_ctzll((uint64_t)c)});
  else if (c == (int32_t)c)
    xg_emit(e, (mi){.op = G_IMUL, .d = d, .a = v, .imm = c});
  else
    xg_emit(e, (mi){.op = G_IMUL, .d = d, .a = v, .b = xg_imm(e, c)});
  return d;
}
/* The sum of the terms (without the constant). */
static vr sum(sel *e, const form *f) {
  if (f->n == 1 && f->t[0].c == 1) return f->t[0].v;
  vr v = recall(e, MEMO_FORM, f, 0, 0);
  if (v) return v;
  uint32_t d = xg_depth(e, f), at = e->at, i;
  form low = {0}, rest = {0};
  for (uint32_t k = 0; k < f->n; k++) put_term(e->x->v.v[f->t[k].v].depth < d ? &low : &rest, f->t[k].v, f->t[k].c);
  if (!low.n) { /* no terms of outer regions: a register with factor 1 becomes the base */
    for (uint32_t k = 0; k < rest.n; k++)
      if (rest.t[k].c == 1) {
        low = xg_var(rest.t[k].v);
        put_term(&rest, rest.t[k].v, -1);
        break;
      }
  }
  uint32_t here = xg_place(e, d);
  if (here < e->at) e->at = here;
  vr base = low.n ? sum(e, &low) : 0;
  for (uint32_t k = 0; k < rest.n; k++) {
    term t = rest.t[k];
    bool index = loop_index(e, t.v, &i);
    if (index && !scales(t.c)) t = (term){follow(e, i, t.c, 0), 1};
    form one = xg_var(t.v);
    one.t[0].c = t.c;
    if (!scales(t.c) || (!base && t.c != 1)) {
      vr p = recall(e, MEMO_FORM, &one, 0, 0);
      if (!p) {
        p = times(e, t.v, t.c);
        remember(e, MEMO_FORM, &one, 0, 0, p);
      }
      t = (term){p, 1};
    }
    if (!base) {
      base = t.v;
      continue;
    }
    vr s = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = G_LEA, .d = s, .m = {.kind = AM_ADDR, .scale = (uint8_t)t.c, .base = base, .index = t.v}});
    base = s;
  }
  if (f->n > 1) remember(e, MEMO_FORM, f, 0, 0, base);
  e->at = at;
  return base;
}
vr xg_reg(sel *e, const form *f) {
  if (!f->n) return xg_imm(e, f->k);
  form t = *f;
  t.k = 0;
  vr v = sum(e, &t);
  if (!f->k) return v;
  vr d = xg_new(e, RG, 0);
  if (f->k == (int32_t)f->k)
    xg_emit(e, (mi){.op = G_LEA, .d = d, .m = {.kind = AM_ADDR, .scale = 1, .base = v, .disp = (int32_t)f->k}});
  else
    xg_emit(e, (mi){.op = G_ADD, .d = d, .a = v, .b = xg_imm(e, f->k)});
  return d;
}
amem xg_address(sel *e, const form *f) {
  form g = *f;
  if (g.k != (int32_t)g.k) {
    vr k = xg_imm(e, g.k);
    g.k = 0;
    put_term(&g, k, 1);
  }
  amem m = {.kind = AM_ADDR, .scale = 1, .disp = (int32_t)g.k + 8 * EK_PLANTED("x86-build")};
  g.k = 0;
  uint32_t d = xg_depth(e, &g), at;
  if (g.n > 1 && d == e->cur) /* what changes in this region is the index */
    for (uint32_t i = 0; i < g.n; i++) {
      term t = g.t[i];
      if (e->x->v.v[t.v].depth != d) continue;
      bool index = loop_index(e, t.v, &at);
      if (scales(t.c))
        m.index = t.v, m.scale = (uint8_t)t.c;
      else if (index)
        m.index = follow(e, at, t.c, 0);
      else
        continue;
      put_term(&g, t.v, -t.c);
      break;
    }
  if (g.n) m.base = sum(e, &g);
  if (m.index && !m.base) { /* cheaper to write as a base */
    if (m.scale == 1) m.base = m.index, m.index = 0;
  }
  return m;
}
form xg_mul(sel *e, const form *a, const form *b) {
  if (!a->n || !b->n) {
    const form *f = a->n ? a : b, *k = a->n ? b : a;
    form zero = xg_const(0);
    return xg_add(e, &zero, f, k->k);
  }
  if (xg_depth(e, a) < xg_depth(e, b)) {
    const form *s = a;
    a = b, b = s;
  }
  vr n = xg_reg(e, b);
  uint32_t dn = e->x->v.v[n].depth, d;
  form r = xg_var(n), rest = {0};
  r.t[0].c = a->k;
  if (!a->k) r.n = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    if (loop_index(e, a->t[i].v, &d) && d > dn && e->r[d]->inner)
      put_term(&r, follow(e, d, 1, n), a->t[i].c);
    else
      put_term(&rest, a->t[i].v, a->t[i].c);
  }
  while (rest.n) { /* one region after the other, so that loops see what they do not change */
    form part = {0}, key = xg_var(n);
    uint32_t deep = xg_depth(e, &rest);
    for (uint32_t i = 0; i < rest.n; i++)
      if (e->x->v.v[rest.t[i].v].depth == deep) put_term(&part, rest.t[i].v, rest.t[i].c);
    for (uint32_t i = 0; i < part.n; i++) put_term(&rest, part.t[i].v, -part.t[i].c);
    vr p = sum(e, &part), v;
    uint64_t bits = p;
    v = recall(e, MEMO_PRODUCT, &key, bits, 0);
    if (!v) {
      uint32_t at = e->at, here = xg_place(e, deep > dn ? deep : dn);
      if (here < e->at) e->at = here;
      v = xg_new(e, RG, 0);
      xg_emit(e, (mi){.op = G_IMUL, .d = v, .a = p, .b = n});
      remember(e, MEMO_PRODUCT, &key, bits, 0, v);
      e->at = at;
    }
    put_term(&r, v, 1);
  }
  return r;
}

/* ---- constants ------------------------------------------------------------------------------- */
uint32_t xg_pool(sel *e, const void *p, size_t n, unsigned align) {
  uint64_t at;
  sbuf *b = &e->x->pool;
  if (map_get(e->pooled, p, n, &at)) return (uint32_t)at;
  while (b->n % align) sb_putc(b, 0);
  at = b->n;
  sb_putn(b, p, n);
  map_put(e->pooled, p, n, at);
  return (uint32_t)at;
}
/* Constants are loaded in front of the loops around, two at most: further out they would only be in the way. */
static uint32_t const_place(const sel *e) {
  uint32_t k = e->at, loops = 0;
  while (k > 0 && loops < 2 && e->r[k]->kind != R_IF) {
    if (e->r[k]->kind == R_LOOP) loops++;
    k--;
  }
  return loops ? xg_place(e, k) < e->at ? xg_place(e, k) : e->at : e->at;
}
vr xg_zero(sel *e) {
  uint32_t at = e->at;
  vr v = recall(e, MEMO_CONST, NULL, 0, 3);
  if (v) return v;
  e->at = const_place(e);
  v = xg_new(e, RV, e->vb == 64 ? VL512 : VL256);
  e->x->v.v[v].zero = true;
  xg_emit(e, (mi){.op = V_PXORD, .d = v});
  remember(e, MEMO_CONST, NULL, 0, 3, v);
  e->at = at;
  return v;
}
vr xg_splat_bits(sel *e, uint64_t bits, unsigned bytes, unsigned vl) {
  if (bytes == 1) bits = (bits & 255) * 0x01010101, bytes = 4;
  if (bytes == 2) bits = (bits & 65535) * 0x10001, bytes = 4;
  if (bytes == 4) bits &= UINT32_MAX;
  if (!bits) return xg_zero(e);
  uint64_t key = bits + (bytes == 8 ? 0x9E3779B97F4A7C15ull : 0);
  vr v = recall(e, MEMO_CONST, NULL, key, vl);
  if (v) return v;
  uint32_t at = e->at;
  e->at = const_place(e);
  v = xg_new(e, RV, vl);
  vinfo *i = &e->x->v.v[v];
  i->pool = 1 + xg_pool(e, &bits, bytes, bytes), i->pool_bcast = (uint8_t)bytes;
  xg_emit(e, (mi){.op = bytes == 4 ? V_BCSS
                        : vl       ? V_BCSD
                                   : V_MOVDDUP,
                  .vl = (uint8_t)vl,
                  .d = v,
                  .m = {.kind = AM_POOL, .disp = (int32_t)i->pool - 1}});
  remember(e, MEMO_CONST, NULL, key, vl, v);
  e->at = at;
  return v;
}
vr xg_pool_vector(sel *e, const void *p, unsigned vl) {
  size_t n = 16u << vl;
  uint64_t key = hash_bytes(p, n, 1) | 1;
  vr v = recall(e, MEMO_CONST, NULL, key, vl + 4);
  if (v) return v;
  uint32_t at = e->at;
  e->at = const_place(e);
  v = xg_new(e, RV, vl);
  vinfo *i = &e->x->v.v[v];
  i->pool = 1 + xg_pool(e, p, n, (unsigned)n);
  xg_emit(e, (mi){.op = V_LD, .vl = (uint8_t)vl, .d = v, .m = {.kind = AM_POOL, .disp = (int32_t)i->pool - 1}});
  remember(e, MEMO_CONST, NULL, key, vl + 4, v);
  e->at = at;
  return v;
}

/* ---- the first n lanes ----------------------------------------------------------------------- */
vr xg_count_mask(sel *e, lv count, unsigned lanes) {
  const linst *i = li(e->f, count);
  scalar k;
  bool known = loop_const(e->f, count, &k),
       cut = i->kind == L_OP && i->op == OP_MIN && loop_const(e->f, i->b, &k) && k.i >= 0 && k.i <= lanes;
  form f = known ? xg_const(k.i < 0 ? 0 : k.i) : xg_form(e, count);
  vr m = recall(e, MEMO_MASK, &f, (uint64_t)f.k, lanes), n = known ? 0 : xg_reg(e, &f);
  if (m) return m;
  uint32_t at = e->at, here = known ? const_place(e) : xg_place(e, e->x->v.v[n].depth);
  if (here < e->at) e->at = here;
  if (known)
    n = xg_imm(e, f.k >= 64 ? -1 : (int64_t)((1ull << f.k) - 1));
  else {
    vr zero = xg_imm(e, 0), b = xg_new(e, RG, 0), c = xg_new(e, RG, 0);
    if (!cut) {
      vr top = xg_imm(e, lanes), a = xg_new(e, RG, 0);
      xg_emit(e, (mi){.op = G_CMP, .a = n, .imm = lanes});
      xg_emit(e, (mi){.op = G_CMOV, .cc = CC_L, .d = a, .a = top, .b = n});
      n = a;
    }
    xg_emit(e, (mi){.op = G_TEST, .a = n, .b = n});
    xg_emit(e, (mi){.op = G_CMOV, .cc = CC_L, .d = b, .a = n, .b = zero});
    xg_emit(e, (mi){.op = G_BZHI, .d = c, .a = xg_imm(e, -1), .b = b});
    n = c;
  }
  m = xg_new(e, RK, 0);
  xg_emit(e, (mi){.op = V_KMOVGQ, .d = m, .b = n});
  remember(e, MEMO_MASK, &f, (uint64_t)f.k, lanes, m);
  e->at = at;
  return m;
}
