/* What becomes of an instruction on vectors that the processor does not have? One lane after the other, as scalars:
 * slow, but always there, so that a function is not left to LLVM for one of them.
 *
 * An instruction is tried first; if it was refused, what it left is taken back (xg_mark, xg_undo) and its lanes
 * are made. Operands and result of a lane are values beyond those of the function:
 * x86_select leaves room for them. */
#include "codegen/x86/build.h"
#include <string.h>

/* ---- trying ---------------------------------------------------------------------------------- */
static void operands_of(const linst *i, lv x[6]) {
  x[0] = i->a, x[1] = i->b, x[2] = i->c, x[3] = i->mask, x[4] = i->count, x[5] = i->stride;
}
void xg_mark(sel *e, const linst *i, undo *u) {
  for (uint32_t k = 0; k <= e->cur; k++)
    u->code[k] = e->r[k]->code.n, u->latch[k] = e->r[k]->latch.n, u->memos[k] = e->r[k]->memos.n;
  operands_of(i, u->x);
  for (int k = 0; k < 6; k++)
    if (u->x[k]) u->kind[k] = e->val[u->x[k]].kind;
}
void xg_undo(sel *e, const undo *u) {
  for (uint32_t k = 0; k <= e->cur; k++)
    e->r[k]->code.n = u->code[k], e->r[k]->latch.n = u->latch[k], e->r[k]->memos.n = u->memos[k];
  for (int k = 0; k < 6; k++)
    if (u->x[k]) e->val[u->x[k]].kind = u->kind[k]; /* a load left for later is so again: its address is still there */
  e->why = NULL, e->at = e->cur;
}

/* ---- lanes of values, and values of lanes ---------------------------------------------------- */
static lv spare(const sel *e, unsigned k) { return e->f->insts.n - SPARE + k; }
/* Spare value k is lane l of x. */
static lv lane(sel *e, unsigned k, lv x, unsigned l) {
  lv v = spare(e, k);
  linst *o = li(e->f, v);
  ltype t = li(e->f, x)->type;
  etype et = (etype)t.elem;
  shp s = xg_shape(e, t);
  val *r = &e->val[v];
  vr g, p;
  *o = *li(e->f, x), o->type.lanes = 1;
  if (t.lanes == 1 || o->kind == L_CONST) {
    *r = e->val[x];
    if (o->kind == L_CONST && et == ET_I64) r->kind = VAL_FORM, r->f = xg_const(o->k.i);
    return v;
  }
  o->kind = L_OP;
  *r = (val){.kind = VAL_REGS, .n = 1, .depth = (uint16_t)e->cur, .stamp = e->r[e->cur]->stamp};
  if (s.cls == RK) {
    xg_emit(e, (mi){.op = V_KMOVQG, .d = g = xg_new(e, RG, 0), .b = xg_part(e, x, 0)});
    r->p[0] = xg_gopi(e, G_AND, l ? xg_gopi(e, G_SHR, g, l) : g, 1);
    return v;
  }
  unsigned at = l % s.per * s.bytes, word = s.bytes < 4 ? at % 4 : 0;
  p = xg_sub(e, xg_part(e, x, l / s.per), s.vl, at - word, s.bytes == 8 ? 8 : 4);
  if (s.fp) {
    r->p[0] = p;
    return v;
  }
  xg_emit(e, (mi){.op = s.bytes == 8 ? V_MOVQG : V_MOVDG, .d = g = xg_new(e, RG, 0), .a = p});
  if (word) g = xg_gopi(e, G_SHR, g, 8 * word);
  r->p[0] = et == ET_BOOL ? xg_gopi(e, G_AND, g, 1) : xg_wrapped(e, et_kind(et) == K_FLOAT ? ET_U16 : et, g);
  if (et == ET_I64) r->kind = VAL_FORM, r->f = xg_var(r->p[0]);
  return v;
}
/* v of these lanes, each in a register. */
static void gathered(sel *e, lv v, ltype t, const vr *g) {
  shp s = xg_shape(e, t);
  vr p[PARTS], part[64];
  bool flags = t.elem == ET_BOOL;
  if (s.cls == RK) {
    vr all = g[0], k = xg_new(e, RK, 0);
    for (unsigned l = 1; l < t.lanes; l++) all = xg_gop(e, G_OR, all, xg_gopi(e, G_SHL, g[l], l));
    xg_emit(e, (mi){.op = V_KMOVGQ, .d = k, .b = all});
    xg_result(e, v, 1, &k);
    return;
  }
  for (unsigned q = 0; q < s.n; q++) {
    /* lanes narrower than 32 bits come together in a whole register */
    unsigned n = 0, piece = s.bytes < 4 ? 8 : s.bytes, in = piece / s.bytes;
    for (unsigned l = 0; l < s.per; l += in) {
      vr x = g[q * s.per + l];
      if (s.bytes < 4) {
        vr all = 0;
        for (unsigned k = 0; k < in && l + k < s.per; k++) {
          vr one = xg_g1(e, s.bytes == 1 ? G_ZX8 : G_ZX16, g[q * s.per + l + k]);
          one = k ? xg_gopi(e, G_SHL, one, 8 * s.bytes * k) : one;
          all = all ? xg_gop(e, G_OR, all, one) : one;
        }
        x = all;
      } else if (flags)
        x = xg_g1(e, G_NEG, x);
      part[n] = x;
      if (!s.fp) xg_emit(e, (mi){.op = piece == 8 ? V_MOVQ : V_MOVD, .d = part[n] = xg_new(e, RV, 0), .b = x});
      n++;
    }
    p[q] = xg_join(e, part, n, piece);
  }
  xg_result(e, v, s.n, p);
}
static vr in_register(sel *e, lv v) { /* The value of one lane in a register. */
  return xg_shape(e, li(e->f, v)->type).fp ? xg_part(e, v, 0) : xg_gpr(e, v);
}
static lv result(sel *e, const linst *i, ltype t) { /* the instruction on one lane, with spare operands */
  lv v = spare(e, 3);
  linst *o = li(e->f, v);
  *o = *i;
  o->type = t;
  e->val[v] = (val){0};
  xg_value(e, v, o);
  return v;
}

/* ---- instructions ---------------------------------------------------------------------------- */
static void operation(sel *e, lv v, const linst *i) {
  vr g[64];
  for (unsigned l = 0; l < i->type.lanes; l++) {
    linst one = *i;
    one.a = lane(e, 0, i->a, l);
    if (i->b) one.b = lane(e, 1, i->b, l);
    if (i->c) one.c = lane(e, 2, i->c, l);
    g[l] = in_register(e, result(e, &one, lt(i->type.elem, 1)));
    if (e->why) return;
  }
  gathered(e, v, i->type, g);
}
static void shuffled(sel *e, lv v, const linst *i) {
  vr g[64];
  unsigned n = li(e->f, i->a)->type.lanes;
  for (unsigned l = 0; l < i->type.lanes; l++) {
    unsigned at = (int32_t)i->args[l] < 0 ? 0 : i->args[l];
    g[l] = in_register(e, lane(e, 0, at < n ? i->a : i->b, at % n));
  }
  if (i->type.lanes > 1) {
    gathered(e, v, i->type, g);
    return;
  }
  xg_result(e, v, 1, g);
  if (i->type.elem == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(g[0]);
}
static void reduced(sel *e, lv v, const linst *i) { /* A reduction of all lanes, in the order of a tree. */
  static const uint8_t op[RED_COUNT] = {[RED_SUM] = OP_ADD, [RED_PROD] = OP_MUL, [RED_MAX] = OP_MAX,
                                        [RED_MIN] = OP_MIN, [RED_ANY] = OP_OR,   [RED_ALL] = OP_AND};
  val x[64];
  unsigned n = li(e->f, i->a)->type.lanes;
  if (li(e->f, i->a)->kind == L_CONST) { /* all lanes equal */
    if (i->op == RED_SUM || i->op == RED_PROD) xg_refuse(e, "a sum of equal lanes");
    vr r = in_register(e, lane(e, 0, i->a, 0));
    xg_result(e, v, 1, &r);
    if (i->type.elem == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
    return;
  }
  for (unsigned l = 0; l < n; l++) x[l] = e->val[lane(e, 0, i->a, l)];
  lane(e, 1, i->a, 0);
  for (; n > 1; n /= 2)
    for (unsigned l = 0; l < n / 2; l++) {
      linst one = {.kind = L_OP, .op = op[i->op], .a = spare(e, 0), .b = spare(e, 1)};
      e->val[one.a] = x[l], e->val[one.b] = x[l + n / 2];
      x[l] = e->val[result(e, &one, i->type)];
    }
  e->val[v] = x[0];
}
static void access(sel *e, lv v, const linst *i) {
  if ((i->kind == L_GATHER || i->kind == L_SCATTER) && li(e->f, i->b)->type.elem == ET_I32) {
    xg_refuse(e, "an index of i32");
    return;
  }
  vr g[64];
  scalar k;
  bool store = i->kind == L_STORE || i->kind == L_SCATTER, scattered = i->kind == L_GATHER || i->kind == L_SCATTER,
       known = i->count && loop_const(e->f, i->count, &k);
  unsigned lanes = i->type.lanes;
  form at = scattered ? xg_const(0) : xg_form(e, i->b), step = i->stride ? xg_form(e, i->stride) : xg_const(1);
  vr n = i->count && !known ? xg_gpr(e, i->count) : 0;
  e->at = e->cur;
  for (unsigned l = 0; l < lanes; l++) {
    linst one = *i;
    lv index = spare(e, 1), mask = spare(e, 2);
    if (scattered) {
      vr x = xg_gpr(e, lane(e, 1, i->b, l));
      at = xg_var(x);
    }
    *li(e->f, index) = (linst){.kind = L_OP, .type = lt(ET_I64, 1)};
    e->val[index] = (val){.kind = VAL_FORM, .f = scattered ? at : xg_add(e, &at, &step, l), .depth = (uint16_t)e->cur};
    one.kind = store ? L_STORE : L_LOAD, one.b = index, one.stride = one.count = one.mask = 0, one.align = 0;
    vr on = i->mask ? xg_gpr(e, lane(e, 2, i->mask, l)) : 0;
    if (n) {
      vr below = xg_new(e, RG, 0);
      xg_emit(e, (mi){.op = G_CMP, .a = n, .imm = l});
      xg_emit(e, (mi){.op = G_SETCC, .cc = CC_G, .d = below});
      on = on ? xg_gop(e, G_AND, on, below) : below;
    } else if (known && l >= k.i)
      on = xg_imm(e, 0);
    if (on) {
      *li(e->f, mask) = (linst){.kind = L_OP, .type = lt(ET_BOOL, 1)};
      e->val[mask] =
          (val){.kind = VAL_REGS, .n = 1, .p = {on}, .depth = (uint16_t)e->cur, .stamp = e->r[e->cur]->stamp};
      one.mask = mask;
    }
    if (store) {
      one.c = lane(e, 0, i->c, l), one.type.lanes = 1;
      xg_store(e, &one);
    } else
      g[l] = in_register(e, result(e, &one, lt(i->type.elem, 1)));
    if (e->why) return;
  }
  if (!store) gathered(e, v, i->type, g);
}
void xg_each(sel *e, lv v, const linst *i) {
  unsigned lanes = i->kind == L_HREDUCE || i->kind == L_EXTRACT ? li(e->f, i->a)->type.lanes : i->type.lanes;
  const char *why = e->why;
  e->why = NULL;
  if (v) e->into[v] = 0;
  if (lanes > 64 || (lanes & (lanes - 1)) || lanes * et_bytes((etype)i->type.elem) > PARTS * e->vb) {
    xg_refuse(e, why);
    return;
  }
  switch ((lkind)i->kind) {
  case L_OP:
    operation(e, v, i);
    return;
  case L_SHUFFLE:
    shuffled(e, v, i);
    return;
  case L_EXTRACT:
    e->val[v] = e->val[lane(e, 0, i->a, (unsigned)i->k.i)];
    return;
  case L_HREDUCE:
    reduced(e, v, i);
    return;
  case L_LOAD:
  case L_GATHER:
  case L_STORE:
  case L_SCATTER:
    access(e, v, i);
    return;
  default:
    xg_refuse(e, why);
  }
}
