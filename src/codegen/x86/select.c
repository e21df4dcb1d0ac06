/* How does a loop function become machine instructions? One walk over its blocks, as in codegen/llvm/emit.c: the
 * same shapes of loops, the same copies of unrolled bodies.
 *
 * A register (`reg`) is one virtual register that is written more than once. Reading it gives that register itself
 * where it is not set before the last use of what was read; setting it to something made for this only makes that in
 * the register. So an accumulator costs no moves. */
#include "codegen/x86/build.h"
#include <stdlib.h>
#include <string.h>

/* ---- uses ------------------------------------------------------------------------------------ */
typedef struct spot {
  uint32_t block; /* the block */
  uint32_t at;    /* position in it */
} spot;
typedef struct survey {
  sel *e;          /* selection */
  uint32_t *uses;  /* per value: number of uses */
  uint32_t *block; /* per value: block that it is made in */
  uint32_t *at;    /* per value: position in that block */
  /* per value: position of the last use, seen from the value's own block; nested: 1 + position */
  uint32_t *last;
  uint32_t *user;        /* per value: the last user, when it is in the same block; 0: it is not */
  spot stack[NEST + 16]; /* blocks around the current instruction */
  uint32_t depth;        /* number of blocks on the stack */
  bool deep;             /* blocks nest too deeply: nothing can be said */
} survey;
/* The first operand as it is read: what is compared is read by the choice, what is rounded by the conversion. */
static lv first_operand(const sel *e, const linst *i) {
  const lv rounded = xg_rounded(e, i);
  return xg_extreme(e->f, i) ? 0 : rounded ? rounded : i->a;
}
/* The second one: what becomes a place in a table is read by the table. */
static lv second_operand(const sel *e, const linst *i) {
  const lv places = xg_places(e, i);
  return places ? places : i->b;
}
/* Values that nobody reads are not made. Operands have lower numbers than what is made from them. */
static void bury(sel *e) {
  const lfunc *f = e->f;
  uint32_t *n = NEWN(e->a, uint32_t, f->insts.n);
  for (int turn = 0; turn < 2; turn++)
    for (uint32_t v = f->insts.n; v-- > 1;) {
      const linst *i = li(f, v);
      bool pure = i->kind == L_OP || i->kind == L_SPLAT || i->kind == L_IOTA || i->kind == L_CONST ||
                  i->kind == L_LOAD || i->kind == L_GATHER || i->kind == L_GET || i->kind == L_SHUFFLE ||
                  i->kind == L_LOOKUP || i->kind == L_EXTRACT || i->kind == L_HREDUCE || i->kind == L_OFFSET;
      if (turn && pure && !n[v]) e->dead[v] = true;
      lv x[6] = {first_operand(e, i), second_operand(e, i), i->c, i->mask, i->count, i->stride};
      for (int k = 0; k < 6; k++)
        if (x[k] && (!turn || e->dead[v])) n[x[k]] += turn ? UINT32_MAX : 1;
      if (!turn && (i->kind == L_CALL || i->kind == L_PARALLEL || i->kind == L_INTRIN))
        for (uint32_t k = 0; k < i->nargs; k++) n[i->args[k]]++;
    }
}
static void used(survey *s, lv v, lv by) {
  if (!v) return;
  s->uses[v]++;
  for (uint32_t k = s->depth; k-- > 0;)
    if (s->stack[k].block == s->block[v]) {
      s->last[v] = s->stack[k].at;
      s->user[v] = k == s->depth - 1 ? by : 0;
      return;
    }
}
static void look(survey *s, uint32_t block) {
  const lfunc *f = s->e->f;
  const lblock *b = &f->blocks.v[block];
  if (s->depth >= NEST) {
    s->deep = true;
    return;
  }
  uint32_t d = s->depth++;
  for (uint32_t j = 0; j < b->insts.n; j++) {
    lv v = b->insts.v[j];
    const linst *i = li(f, v);
    s->stack[d] = (spot){block, j};
    s->block[v] = block, s->at[v] = j;
    if (s->e->dead[v]) continue;
    used(s, first_operand(s->e, i), v), used(s, second_operand(s->e, i), v), used(s, i->c, v), used(s, i->mask, v),
        used(s, i->count, v), used(s, i->stride, v);
    if (i->kind == L_CALL || i->kind == L_PARALLEL || i->kind == L_INTRIN)
      for (uint32_t k = 0; k < i->nargs; k++) used(s, i->args[k], v);
    if (i->body) look(s, i->body);
    if (i->other) look(s, i->other);
  }
  s->depth--;
}
static bool reads_only(const sel *e, lv p) {
  const linst *i = xg_origin(e, p);
  return i->kind == L_PARAM &&
         (e->f->params.v[i->k.i].flags & (LP_READ | LP_WRITE | LP_NOALIAS)) == (LP_READ | LP_NOALIAS);
}
/* Nothing between two places of a block can change memory. */
static bool quiet(const sel *e, uint32_t block, uint32_t from, uint32_t to) {
  const lblock *b = &e->f->blocks.v[block];
  for (uint32_t j = from + 1; j < to; j++) switch (li(e->f, b->insts.v[j])->kind) {
    case L_STORE:
    case L_SCATTER:
    case L_FOR:
    case L_IF:
    case L_CALL:
    case L_PARALLEL:
      return false;
    default:
      break;
    }
  return true;
}
static void defer(survey *s, lv v, const linst *i) {
  sel *e = s->e;
  lv by = s->user[v];
  etype t = (etype)i->type.elem;
  if (s->uses[v] != 1 || !by || (t != ET_F32 && t != ET_F64 && (et_bytes(t) < 4 || t == ET_BOOL))) return;
  const linst *u = li(e->f, by);
  /* whole numbers are in other registers */
  if (t != ET_F32 && t != ET_F64 && i->type.lanes == 1 && u->kind != L_SPLAT) return;
  if (i->kind == L_LOAD && (i->mask || i->count || i->stride)) return;
  if (u->kind != L_OP && u->kind != L_INTRIN && !(u->kind == L_SPLAT && i->kind == L_LOAD && i->type.lanes == 1))
    return;
  if (u->kind == L_OP && (u->op == OP_CAST || u->op == OP_BITCAST)) return;
  lv p = i->kind == L_SPLAT ? li(e->f, i->a)->kind == L_LOAD ? li(e->f, i->a)->a : 0 : i->a;
  if (!p || (!reads_only(e, p) && !quiet(e, s->block[v], s->at[v], s->at[by]))) return;
  e->later[v] = true;
}
/* A comparison of scalars for one choice or branch, where nothing between them changes its operands. */
static void defer_condition(survey *s, lv v, const linst *i) {
  sel *e = s->e;
  lv by = s->user[v];
  const linst *x = li(e->f, i->a), *u = by ? li(e->f, by) : NULL;
  etype t = (etype)x->type.elem;
  if (s->uses[v] != 1 || !u || x->type.lanes != 1 || u->a != v || i->op < OP_EQ || i->op > OP_GE) return;
  if (et_kind(t) == K_FLOAT && ((t != ET_F32 && t != ET_F64) || i->op == OP_EQ || i->op == OP_NE)) return;
  if (u->kind != L_IF && !(u->kind == L_OP && u->op == OP_SEL && u->type.elem != ET_F32 && u->type.elem != ET_F64))
    return;
  if (!quiet(e, s->block[v], s->at[v], s->at[by])) return;
  for (uint32_t j = s->at[v] + 1; j < s->at[by]; j++)
    if (li(e->f, e->f->blocks.v[s->block[v]].insts.v[j])->kind == L_SET) return;
  e->later[v] = true;
}
static void sets(survey *s, uint32_t block) {
  sel *e = s->e;
  const lblock *b = &e->f->blocks.v[block];
  for (uint32_t j = 0; j < b->insts.n; j++) {
    lv v = b->insts.v[j];
    const linst *i = li(e->f, v);
    if (e->dead[v]) continue;
    if (i->kind == L_LOAD || i->kind == L_SPLAT) defer(s, v, i);
    if (i->kind == L_OP) defer_condition(s, v, i);
    if (i->kind == L_GET) { /* until when does the register keep what was read? */
      uint32_t q = j + 1;
      for (; q < b->insts.n; q++) {
        const linst *o = li(e->f, b->insts.v[q]);
        if (o->kind == L_FOR || o->kind == L_IF) break; /* the block inside may set the register */
        if (o->kind == L_SET && o->a == i->a) break;
      }
      bool nested = q < b->insts.n && li(e->f, b->insts.v[q])->kind != L_SET;
      e->shared[v] = s->last[v] < q || (s->last[v] == q && !nested) || q == b->insts.n;
    }
    if (i->kind != L_SET) continue;
    lv w = i->b;
    const linst *o = li(e->f, w);
    if (s->uses[w] != 1 || s->block[w] != block || (o->kind != L_OP && o->kind != L_LOAD && o->kind != L_INTRIN))
      continue;
    bool good = true;
    for (uint32_t q = s->at[w] + 1; q < j && good; q++) {
      const linst *m = li(e->f, b->insts.v[q]);
      if (m->kind == L_FOR || m->kind == L_IF || ((m->kind == L_SET || m->kind == L_GET) && m->a == i->a)) good = false;
      lv x[6] = {m->a, m->b, m->c, m->mask, m->count, m->stride};
      for (int k = 0; k < 6; k++)
        if (x[k] && li(e->f, x[k])->kind == L_GET && li(e->f, x[k])->a == i->a) good = false;
      for (uint32_t k = 0; k < (m->kind == L_INTRIN ? m->nargs : 0); k++)
        if (li(e->f, m->args[k])->kind == L_GET && li(e->f, m->args[k])->a == i->a) good = false;
      if (m->kind == L_CALL || m->kind == L_PARALLEL) good = false;
    }
    if (good) e->into[w] = i->a;
  }
}

/* ---- structure ------------------------------------------------------------------------------- */
static void block(sel *e, uint32_t b);
static void label(sel *e, uint32_t l, bool inner) { xg_emit(e, (mi){.op = G_LABEL, .imm = l, .b = inner}); }
static void jump_if(sel *e, unsigned cc, uint32_t l) { xg_emit(e, (mi){.op = G_JCC, .cc = (uint8_t)cc, .imm = l}); }
static void compare(sel *e, vr a, const form *b) {
  if (!b->n && b->k == (int32_t)b->k)
    xg_emit(e, (mi){.op = G_CMP, .a = a, .imm = b->k});
  else
    xg_emit(e, (mi){.op = G_CMP, .a = a, .b = xg_reg(e, b)});
}
static uint32_t block_size(const lfunc *f, uint32_t b) {
  uint32_t n = 0;
  for (uint32_t j = 0; j < f->blocks.v[b].insts.n; j++) {
    const linst *i = li(f, f->blocks.v[b].insts.v[j]);
    n += 1 + (i->body ? block_size(f, i->body) * (i->kind == L_FOR && i->k.i > 1 ? (uint32_t)i->k.i : 1) : 0) +
         (i->other ? block_size(f, i->other) : 0);
  }
  return n;
}
static int64_t trips_of(const lfunc *f, const linst *i) { /* Number of trips of a loop; -1: not known. */
  scalar lo, hi, st;
  if (!loop_const(f, i->a, &lo) || !loop_const(f, i->b, &hi) || !loop_const(f, i->c, &st)) return -1;
  if (hi.i <= lo.i) return 0;
  uint64_t steps = ((uint64_t)hi.i - (uint64_t)lo.i - 1) / (uint64_t)st.i;
  return steps >= INT64_MAX ? INT64_MAX : (int64_t)steps + 1;
}
static bool has_loop(const lfunc *f, uint32_t b) {
  for (uint32_t j = 0; b && j < f->blocks.v[b].insts.n; j++) {
    const linst *i = li(f, f->blocks.v[b].insts.v[j]);
    int64_t n = i->kind == L_FOR ? trips_of(f, i) : 0;
    if (i->kind == L_FOR && n && !(n > 0 && n <= i->k.i)) return true;
    if (has_loop(f, i->body) || has_loop(f, i->other)) return true;
  }
  return false;
}
/* Registers that grow with the index (build.c) are added to a base at each access. One that is only ever added to
 * the same base becomes a pointer itself: one register less, and plain addresses. */
static void make_pointers(sel *e, region *r) {
  for (uint32_t k = 0; k < r->latch.n; k++) {
    mi *add = &r->latch.v[k];
    vr v = add->d, base = 0;
    bool good = true;
    for (uint32_t q = 0; q < r->code.n && good; q++) {
      const mi *i = &r->code.v[q];
      if (i->a == v || i->b == v || i->c == v) good = false;
      for (int n = 0; n < 4; n++) good &= i->args[n] != v;
      if (i->m.kind != AM_ADDR || (i->m.base != v && i->m.index != v)) continue;
      if (i->m.base == v || i->m.scale != 1 || !i->m.base || (base && base != i->m.base)) good = false;
      base = i->m.base;
    }
    if (!good || !base || e->x->v.v[base].depth >= e->cur) continue;
    e->at = e->cur - 1;
    vr p = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = G_LEA, .d = p, .m = {.kind = AM_ADDR, .scale = 1, .base = base, .index = v}});
    e->at = e->cur;
    e->x->v.v[p].depth = (uint16_t)e->cur;
    for (uint32_t q = 0; q < r->code.n; q++) {
      mi *i = &r->code.v[q];
      if (i->m.kind == AM_ADDR && i->m.index == v) i->m.base = p, i->m.index = 0;
    }
    add->d = add->a = p;
  }
}
enum { MOST_ROUNDS = 100 }; /* more count as so many, when registers are given */
/* `copies` bodies a round while index + (copies-1)*step < to; the index after it. */
static form rounds(sel *e, lv v, const linst *i, form from, int64_t copies, int64_t trips) {
  bool guard = trips < 0 || i->mask;
  form to = xg_form(e, i->b), step = xg_form(e, i->c), zero = xg_const(0), end = xg_add(e, &to, &step, -(copies - 1));
  uint32_t top = ++e->x->labels, out = ++e->x->labels;
  vr iv = xg_new(e, RG, 0), mask = i->mask ? e->val[i->mask].p[0] : 0;
  if (end.n) end = xg_var(xg_reg(e, &end));
  if (from.n)
    xg_emit(e, (mi){.op = G_MOV, .d = iv, .b = xg_reg(e, &from)});
  else
    xg_emit(e, (mi){.op = G_MOV, .d = iv, .imm = from.k});
  if (guard) {
    compare(e, iv, &end);
    jump_if(e, CC_GE, out);
    if (mask) {
      xg_emit(e, (mi){.op = G_TEST, .a = mask, .b = mask});
      jump_if(e, CC_E, out);
    }
    xg_open(e, R_GUARD);
    /* loops over tiles of several heights stand one after the other, and the later ones often have nothing to do */
    e->r[e->cur]->seldom = trips < 0 && !step.n && step.k > 1 && has_loop(e->f, i->body);
  }
  xg_open(e, R_LOOP);
  region *r = e->r[e->cur];
  e->x->v.v[iv].depth = (uint16_t)e->cur;
  r->iv = iv, r->from = from, r->step = xg_add(e, &zero, &step, copies), r->inner = !has_loop(e->f, i->body);
  for (int64_t k = 0; k < copies; k++) {
    form x = xg_var(iv);
    x = xg_add(e, &x, &step, k);
    r->stamp = ++e->stamps;
    e->val[v] = (val){.kind = VAL_FORM, .f = x};
    block(e, i->body);
  }
  form by = r->step;
  vr add = by.n || by.k != (int32_t)by.k ? xg_reg(e, &by) : 0;
  make_pointers(e, r);
  xg_append(e, &r->latch);
  if (add)
    xg_emit(e, (mi){.op = G_ADD, .d = iv, .a = iv, .b = add});
  else
    xg_emit(e, (mi){.op = G_ADD, .d = iv, .a = iv, .imm = by.k});
  compare(e, iv, &end);
  if (mask) {
    jump_if(e, CC_GE, out);
    xg_emit(e, (mi){.op = G_TEST, .a = mask, .b = mask});
    jump_if(e, CC_NE, top);
  } else
    jump_if(e, CC_L, top);
  xg_close(e);
  xg_emit(e, (mi){.op = G_LABEL,
                  .imm = top,
                  .b = r->inner,
                  .c = (vr)(trips / copies > MOST_ROUNDS ? MOST_ROUNDS
                            : trips > 0                  ? trips / copies
                                                         : 0)});
  xg_append(e, &r->code);
  if (guard) {
    region *g = xg_close(e);
    xg_append(e, &g->code);
  }
  label(e, out, false);
  e->x->v.v[iv].depth = (uint16_t)e->cur;
  return xg_var(iv);
}
static void emit_for(sel *e, lv v, const linst *i) {
  int64_t trips = trips_of(e->f, i), copies = i->k.i > 1 ? i->k.i : 1;
  scalar lo = {0}, st = {0};
  if (trips >= 0) loop_const(e->f, i->a, &lo), loop_const(e->f, i->c, &st);
  if (trips == 0) return;
  form from = xg_form(e, i->a);
  if (i->mask) {
    rounds(e, v, i, from, 1, trips);
    return;
  }
  if (copies > 1) {
    int64_t size = block_size(e->f, i->body);
    while (copies > 1 && copies * size > 4000) copies /= 2;
  }
  bool whole = trips > 0 && trips <= copies;
  int64_t done = whole ? 0 : trips / copies * copies + EK_PLANTED("x86-select");
  if (!whole && copies > 1) from = rounds(e, v, i, from, copies, trips);
  if (whole || (copies > 1 && trips > 0)) {
    for (int64_t k = done; k < trips; k++) {
      e->r[e->cur]->stamp = ++e->stamps;
      e->val[v] = (val){.kind = VAL_FORM, .f = xg_const(lo.i + k * st.i)};
      block(e, i->body);
    }
    return;
  }
  rounds(e, v, i, from, 1, trips);
}
static void emit_if(sel *e, const linst *i) {
  uint32_t other = ++e->x->labels, end = ++e->x->labels;
  jump_if(e, xg_condition(e, i->a) ^ 1, other);
  xg_open(e, R_IF);
  block(e, i->body);
  region *r = xg_close(e);
  xg_append(e, &r->code);
  if (i->other) {
    xg_emit(e, (mi){.op = G_JMP, .imm = end});
    label(e, other, false);
    xg_open(e, R_IF);
    block(e, i->other);
    r = xg_close(e);
    xg_append(e, &r->code);
    label(e, end, false);
  } else
    label(e, other, false);
}
static uint32_t symbol_of(sel *e, const char *name) {
  for (uint32_t k = 0; k < e->x->symbols.n; k++)
    if (!strcmp(e->x->symbols.v[k], name)) return k;
  vec_push(e->a, e->x->symbols, name);
  return e->x->symbols.n - 1;
}
static amem slot_field(const sel *e, uint32_t k) {
  return (amem){.kind = AM_SLOT, .disp = (int32_t)e->call_slot - 1, .scale = (uint8_t)k};
}
static void emit_call(sel *e, const linst *i) {
  const char *name = e->symbol(e->env, i->name);
  if (!name) ctx_bug(e->c, "x86: function %s calls %s, which is not in the module", e->f->name, i->name);
  if (i->nargs > 250) xg_refuse(e, "many arguments");
  uint32_t id = symbol_of(e, name);
  for (uint32_t k = 0; k < i->nargs; k++) {
    vr g = xg_gpr(e, i->args[k]);
    xg_emit(e, (mi){.op = G_STORE64, .a = g, .m = slot_field(e, k)});
  }
  vr n = xg_gpr(e, i->a), at = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = G_LEA, .d = at, .m = slot_field(e, 0)});
  scalar one;
  bool main = e->f->kind == LF_MAIN;
  e->x->calls = true;
  if (i->kind == L_PARALLEL && !(loop_const(e->f, i->a, &one) && one.i == 1)) {
    vr fn = xg_new(e, RG, 0), go = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = G_SYMBOL, .d = fn, .imm = id});
    xg_emit(e, (mi){.op = G_LOAD64, .d = go, .m = {.kind = AM_ADDR, .scale = 1, .base = e->args, .disp = 6 * 8}});
    xg_emit(e, (mi){.op = G_CALL, .b = go, .args = {e->args, fn, at, n}, .flags = F_EARLY});
    return;
  }
  vr zero = xg_imm(e, 0);
  xg_emit(e, (mi){.op = G_CALL, .imm = id, .args = {at, zero, n, main ? zero : e->worker}, .flags = F_EARLY});
}
static void emit_fail(sel *e, const linst *i) {
  uint32_t on = ++e->x->labels;
  vr c = xg_gpr(e, i->a);
  xg_emit(e, (mi){.op = G_TEST, .a = c, .b = c});
  jump_if(e, CC_E, on);
  vr p = i->b ? xg_gpr(e, i->b) : xg_new(e, RG, 0);
  if (!i->b) {
    int32_t text = (int32_t)xg_pool(e, i->name, strlen(i->name) + 1, 1);
    xg_emit(e, (mi){.op = G_LEA, .d = p, .m = {.kind = AM_POOL, .disp = text}});
  }
  xg_emit(e, (mi){.op = G_STORE64, .a = p, .m = {.kind = AM_ADDR, .scale = 1, .base = e->args, .disp = 11 * 8}});
  xg_emit(e, (mi){.op = G_RESULT, .imm = i->k.i});
  xg_emit(e, (mi){.op = G_RET});
  label(e, on, false);
}
static void move(sel *e, const shp *s, vr d, vr b) {
  if (d != b)
    xg_emit(e, (mi){.op = s->cls == RG ? G_MOV : s->cls == RK ? V_KMOVQ : V_MOVV, .vl = s->vl, .d = d, .b = b});
}
static void set(sel *e, lv reg, lv v) {
  shp s = xg_shape(e, li(e->f, reg)->type);
  val *r = &e->val[reg];
  if (v && e->into[v] == reg && e->val[v].kind == VAL_REGS && e->val[v].p[0] == r->p[0]) return;
  vr p[PARTS];
  for (unsigned q = 0; q < r->n; q++) p[q] = s.cls == RG ? xg_gpr(e, v) : xg_part(e, v, q);
  for (unsigned q = 0; q < r->n; q++) move(e, &s, r->p[q], p[q]);
}
/* What operands are now: copies of a body may have different ones. */
static uint64_t operands(const sel *e, const linst *i) {
  const lv rounded = xg_rounded(e, i);
  uint64_t h = 0;
  lv x[3] = {rounded ? rounded : i->a, i->b, i->c};
  for (int k = 0; k < 3 && x[k]; k++) {
    const val *o = &e->val[x[k]];
    h = (h ^ o->kind ^ o->p[0] * 0x100000001B3ull) * 0x9E3779B97F4A7C15ull;
    if (o->kind != VAL_FORM) continue;
    h ^= (uint64_t)o->f.k * 0xC2B2AE3D27D4EB4Full;
    for (uint32_t q = 0; q < o->f.n; q++) h = (h ^ o->f.t[q].v ^ (uint64_t)o->f.t[q].c << 32) * 0x9E3779B97F4A7C15ull;
  }
  return h;
}
/* Made earlier, in front of the loops around, for another copy of the body, from the same? */
static bool made(sel *e, lv v, const linst *i, uint64_t *from) {
  const val *x = &e->val[v];
  *from = operands(e, i);
  return x->kind == VAL_REGS && x->stamp && x->depth < e->cur && e->r[x->depth]->stamp == x->stamp && x->from == *from;
}
static void computed(sel *e, lv v, const linst *i) {
  uint64_t from;
  if (i->kind == L_OP && e->later[v]) {
    lv x[2] = {i->a, i->b};
    from = operands(e, i);
    xg_begin(e, v, x, 2);
    e->val[v] = (val){.kind = VAL_COND, .depth = (uint16_t)e->at, .p = {(vr)(from ^ from >> 32)}};
    e->at = e->cur;
    return;
  }
  if (made(e, v, i, &from)) return;
  switch ((lkind)i->kind) {
  case L_OP:
    xg_op(e, v, i);
    break;
  case L_SPLAT:
    xg_splat(e, v, i);
    break;
  case L_IOTA:
    xg_iota(e, v, i);
    break;
  case L_HREDUCE:
    xg_hreduce(e, v, i);
    break;
  case L_EXTRACT:
    xg_extract(e, v, i);
    break;
  case L_LOOKUP:
    xg_lookup(e, v, i);
    break;
  default:
    xg_shuffle(e, v, i);
    break;
  }
  e->val[v].from = from;
}
/* The machine instruction of one that the target declares. */
static uint16_t declared_op(sel *e, const instruction *k) {
  const instruction_encoding *x = &k->x86;
  uint32_t i = 0;
  while (i < e->x->declared.n && e->x->declared.v[i].by != k) i++;
  if (i == e->x->declared.n) {
    const vdesc d = {x->map, x->prefix, (uint8_t)(x->opcode + EK_PLANTED("x86-declared")), x->w,
                     S_3,    T_FULL,    (uint8_t)(x->vex ? NX | (x->w ? W : 0) : E),       N_NONE,
                     k->name};
    vec_push(e->a, e->x->declared, ((x86_declared){d, k}));
  }
  return (uint16_t)(X_DECLARED + i);
}
/* The instruction that adds elements of a type. */
static uint16_t adding(etype t) {
  if (et_kind(t) == K_FLOAT) return et_bytes(t) == 8 ? V_ADDPD : V_ADDPS;
  return (uint16_t)xg_by_size(et_bytes(t), V_PADDB, V_PADDW, V_PADDD, V_PADDQ);
}
/* An instruction of the target, which adds to its accumulator, or whose result is added to it. */
static void intrin(sel *e, lv v, const linst *i) {
  const instruction *k = target_instruction(e->t, i->name);
  if (!k->x86.bits) {
    xg_refuse(e, "an instruction of the target that has no encoding");
    return;
  }
  const lv x = i->args[k->x86.order[1]], y = i->args[k->x86.order[2]];
  const bool swap = k->symmetric && xg_lazy(e, x) && !xg_lazy(e, y);
  const uint8_t vl = k->x86.bits == 512 ? VL512 : k->x86.bits == 256 ? VL256 : VL128;
  const bool added = k->x86.added;
  const vr acc = xg_part(e, i->args[0], 0);
  vr d;
  mi m = {.op = declared_op(e, k), .vl = vl, .flags = added ? 0 : F_RMW, .a = xg_part(e, swap ? y : x, 0)};
  xg_operand(e, &m, swap ? x : y, 0);
  if (added) {
    m.d = xg_new(e, RV, vl);
    xg_emit(e, m);
    d = xg_out(e, v, 0);
    xg_emit(e, (mi){.op = adding((etype)i->type.elem), .vl = vl, .d = d, .a = acc, .b = m.d});
  } else {
    m.d = d = xg_out(e, v, 0);
    if (d != acc) xg_emit(e, (mi){.op = V_MOVV, .vl = vl, .d = d, .b = acc});
    xg_emit(e, m);
  }
  xg_result(e, v, 1, &d);
}
void xg_value(sel *e, lv v, const linst *i) {
  val *x = &e->val[v];
  shp s;
  vr p[PARTS];
  switch ((lkind)i->kind) {
  case L_CONST:
    *x = (val){.kind = VAL_CONST};
    if (i->type.elem == ET_I64 && i->type.lanes == 1) x->kind = VAL_FORM, x->f = xg_const(i->k.i);
    return;
  case L_LO:
    *x = (val){.kind = VAL_FORM, .f = xg_var(e->lo)};
    return;
  case L_HI:
    *x = (val){.kind = VAL_FORM, .f = xg_var(e->hi)};
    return;
  case L_WORKER:
    *x = (val){.kind = VAL_FORM, .f = xg_var(e->worker)};
    return;
  case L_PARAM:
    *x = e->val[e->f->params.v[i->k.i].value];
    return;
  case L_OP:
  case L_SPLAT:
  case L_IOTA:
  case L_HREDUCE:
  case L_EXTRACT:
  case L_SHUFFLE:
  case L_LOOKUP:
    computed(e, v, i);
    return;
  case L_LOAD:
    if (e->later[v]) {
      s = xg_shape(e, i->type);
      if (s.per * s.bytes >= 16 || s.lanes == 1) {
        form a = xg_form(e, i->a), k = xg_form(e, i->b);
        e->into[v] = 0;
        *x = (val){.kind = VAL_LOAD, .depth = (uint16_t)e->cur, .f = xg_add(e, &a, &k, et_bytes((etype)i->type.elem))};
        return;
      }
    }
    xg_load(e, v, i);
    return;
  case L_GATHER:
    xg_load(e, v, i);
    return;
  case L_OFFSET: {
    form a = xg_form(e, i->a), k = xg_form(e, i->b);
    *x = (val){.kind = VAL_FORM, .f = xg_add(e, &a, &k, et_bytes((etype)i->type.elem))};
    return;
  }
  case L_ALLOC: {
    uint64_t n = (uint64_t)i->k.i * et_bytes((etype)i->type.elem);
    if (n > 1 << 20) xg_refuse(e, "large memory on the stack"), n = 64;
    if (x->kind == VAL_FORM) return; /* in another copy of a body it is the same memory */
    vec_push(e->a, e->x->slots, n < 64 ? 64 : (uint32_t)((n + 63) / 64 * 64));
    e->at = 0;
    vr g = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = G_LEA, .d = g, .m = {.kind = AM_SLOT, .disp = (int32_t)e->x->slots.n - 1}});
    e->at = e->cur;
    *x = (val){.kind = VAL_FORM, .f = xg_var(g)};
    return;
  }
  case L_SCRATCH: {
    form f = xg_var(e->scratch);
    f.k = i->k.i;
    *x = (val){.kind = VAL_FORM, .f = f};
    return;
  }
  case L_REG: {
    s = xg_shape(e, i->type);
    val r = {.kind = VAL_REGS, .n = s.n, .depth = (uint16_t)e->cur};
    for (unsigned q = 0; q < s.n; q++)
      p[q] = s.cls == RG ? xg_gpr(e, i->a) : xg_part(e, i->a, q), r.p[q] = xg_new(e, s.cls, s.vl);
    for (unsigned q = 0; q < s.n; q++) {
      if (s.cls == RV && e->x->v.v[p[q]].zero)
        xg_emit(e, (mi){.op = V_PXORD, .d = r.p[q]});
      else
        move(e, &s, r.p[q], p[q]);
    }
    *x = r;
    return;
  }
  case L_GET: {
    s = xg_shape(e, i->type);
    const val *r = &e->val[i->a];
    val g = {.kind = VAL_REGS, .n = r->n, .depth = (uint16_t)e->cur};
    for (unsigned q = 0; q < r->n; q++) {
      g.p[q] = r->p[q];
      if (e->shared[v] && s.cls != RG) continue;
      g.p[q] = xg_new(e, s.cls, s.vl);
      move(e, &s, g.p[q], r->p[q]);
    }
    if (i->type.elem == ET_I64 && i->type.lanes == 1) g = (val){.kind = VAL_FORM, .f = xg_var(g.p[0])};
    *x = g;
    return;
  }
  case L_INTRIN:
    intrin(e, v, i);
    return;
  default:
    ctx_bug(e->c, "x86: instruction kind %u yields no value", i->kind);
  }
}
static void step(sel *e, lv v, const linst *i) {
  switch ((lkind)i->kind) {
  case L_STORE:
  case L_SCATTER:
    xg_store(e, i);
    break;
  case L_PREFETCH:
    xg_prefetch(e, i);
    break;
  case L_SET:
    set(e, i->a, i->b);
    break;
  case L_FOR:
    emit_for(e, v, i);
    break;
  case L_IF:
    emit_if(e, i);
    break;
  case L_CALL:
  case L_PARALLEL:
    emit_call(e, i);
    break;
  case L_FAIL:
    emit_fail(e, i);
    break;
  case L_COMMENT:
    break;
  default:
    xg_value(e, v, i);
  }
}
static void block(sel *e, uint32_t b) {
  const lblock *k = &e->f->blocks.v[b];
  for (uint32_t j = 0; j < k->insts.n && !e->why; j++) {
    lv v = k->insts.v[j];
    const linst *i = li(e->f, v);
    if (e->dead[v]) continue;
    e->at = e->cur;
    undo u;
    bool vectors = i->type.lanes > 1 || i->kind == L_HREDUCE || i->kind == L_EXTRACT || i->kind == L_SHUFFLE;
    if (vectors) xg_mark(e, i, &u);
    step(e, v, i);
    if (e->why && vectors) {
      const char *why = e->why;
      xg_undo(e, &u);
      e->why = why;
      xg_each(e, v, i);
    }
  }
}

/* ---- the function's own values --------------------------------------------------------------- */
static vr field(sel *e, vr p, int slot) {
  vr d = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = G_LOAD64, .d = d, .m = {.kind = AM_ADDR, .scale = 1, .base = p, .disp = slot * 8}});
  return d;
}
/* Slots of the call record (runtime.h) that have a name. */
static const struct {
  const char *name; /* name of the field */
  int slot;         /* number of its slot in the record */
} call_fields[] = {{"in_dims", 2}, {"out_dims", 3}, {"arena", 4},       {"weights", 5},
                   {"threads", 8}, {"scratch", 9},  {"arena_bytes", 10}};
static vr main_param(sel *e, const lparam *p) {
  if (!strcmp(p->name, "call")) return e->args;
  for (size_t i = 0; i < sizeof call_fields / sizeof *call_fields; i++)
    if (!strcmp(p->name, call_fields[i].name)) return field(e, e->args, call_fields[i].slot);
  bool in = !strncmp(p->name, "in.", 3), out = !strncmp(p->name, "out.", 4);
  if (!in && !out) ctx_bug(e->c, "x86: main function %s: no field %s in the call record", e->f->name, p->name);
  return field(e, field(e, e->args, in ? 0 : 1), atoi(p->name + (in ? 3 : 4)));
}
static void params(sel *e) {
  static const uint8_t reg[4] = {7, 6, 2, 1}; /* rdi rsi rdx rcx */
  vr *own[4] = {&e->args, &e->lo, &e->hi, &e->worker};
  for (int k = 0; k < (e->f->kind == LF_MAIN ? 1 : 4); k++) *own[k] = xg_new(e, RG, 0);
  for (int k = 0; k < (e->f->kind == LF_MAIN ? 1 : 4); k++) xg_emit(e, (mi){.op = G_ARG, .d = *own[k], .imm = reg[k]});
  for (uint32_t i = 0; i < e->f->params.n; i++) {
    const lparam *p = &e->f->params.v[i];
    if (!p->type.ptr && !(p->type.elem == ET_I64 && p->type.lanes == 1)) xg_refuse(e, "a parameter that is no i64");
    e->val[p->value] =
        (val){.kind = VAL_FORM, .f = xg_var(e->f->kind == LF_MAIN ? main_param(e, p) : field(e, e->args, (int)i))};
  }
  uint32_t most = 0;
  bool scratch = false;
  for (uint32_t i = 1; i < e->f->insts.n; i++) {
    const linst *k = &e->f->insts.v[i];
    scratch |= k->kind == L_SCRATCH;
    if ((k->kind == L_CALL || k->kind == L_PARALLEL) && k->nargs + 1 > most) most = k->nargs + 1;
  }
  if (most) {
    vec_push(e->a, e->x->slots, most * 8 < 16 ? 16 : most * 8);
    e->call_slot = e->x->slots.n;
  }
  if (!scratch) return;
  vr area = field(e, e->args, (int)e->f->params.n), size = field(e, e->args, (int)e->f->params.n + 1),
     off = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = G_IMUL, .d = off, .a = e->worker, .b = size});
  e->scratch = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = G_ADD, .d = e->scratch, .a = area, .b = off});
}
bool x86_select(ctx *c, arena *a, const lfunc *f, const target *t, const char *(*symbol)(void *env, const char *func),
                void *env, x86_code *out, const char **why) {
  sel *e = NEW(a, sel);
  uint32_t n = f->insts.n + SPARE;
  lfunc own = *f; /* the function with spare values */
  own.insts.v = NEWN(a, linst, n), own.insts.n = own.insts.cap = n;
  memcpy(own.insts.v, f->insts.v, f->insts.n * sizeof *f->insts.v);
  f = &own;
  *e = (sel){.c = c,
             .a = a,
             .f = f,
             .x = out,
             .t = t,
             .avx512 = t->vector_bits == 512,
             .vbmi = t->vector_bits == 512 && strstr(t->required, "avx512vbmi"),
             .vb = t->vector_bits / 8,
             .symbol = symbol,
             .env = env,
             .pooled = map_new(a)};
  out->avx512 = e->avx512;
  e->val = NEWN(a, val, n), e->into = NEWN(a, lv, n), e->later = NEWN(a, bool, n), e->shared = NEWN(a, bool, n),
  e->dead = NEWN(a, bool, n);
  bury(e);
  vec_push(a, out->v, (vinfo){0});
  survey *s = NEW(a, survey);
  *s = (survey){.e = e,
                .uses = NEWN(a, uint32_t, n),
                .block = NEWN(a, uint32_t, n),
                .at = NEWN(a, uint32_t, n),
                .last = NEWN(a, uint32_t, n),
                .user = NEWN(a, uint32_t, n)};
  look(s, 1);
  if (s->deep) {
    *why = "blocks nested too deeply";
    return false;
  }
  for (uint32_t b = 1; b < f->blocks.n; b++) sets(s, b);
  region *r = NEW(a, region);
  *r = (region){.kind = R_FUNC, .stamp = ++e->stamps};
  e->r[0] = r;
  params(e);
  block(e, 1);
  if (f->kind == LF_MAIN) xg_emit(e, (mi){.op = G_RESULT});
  xg_emit(e, (mi){.op = G_RET});
  *why = e->why;
  if (e->why) return false;
  vec_reserve(a, out->code, r->code.n + 1);
  for (uint32_t k = 0; k < r->code.n; k++) vec_push(a, out->code, r->code.v[k]);
  return true;
}
