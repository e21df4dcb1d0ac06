/* Which machine register holds which value, and when? One walk over the code with an interval of life per value.
 *
 * Values that live in one straight piece of code (`local`) are evicted where registers run out: the one whose next use
 * is furthest, into a stack slot, from which it comes back at that use. A value that lives across branches keeps one
 * register, or lives in memory altogether: which, is decided by the sum of its uses, each counted ten times more per
 * loop around it (as often as the loop is known to turn, if that is more); the walk then begins anew. Constants come
 * back from where they came from; so does what was loaded, where nothing can have been stored there since. In memory, a
 * value is an operand of the instruction that uses it where that has room. */
#include "codegen/x86/build.h"
#include <string.h>

enum { NEVER = 0x7fffffff };
typedef struct life {
  uint32_t start;     /* 2i: before instruction i; 2i + 1: its results */
  uint32_t end;       /* last place where it is needed, counted like start */
  uint32_t block;     /* block of its first place */
  uint32_t uses;      /* where its uses begin in ra.use; while counting, their number */
  uint32_t use_at;    /* place of the walk among its uses */
  uint32_t defs;      /* instructions that set it */
  uint32_t forbidden; /* registers that it must not have, as bits */
  uint32_t slot;      /* 1 + stack slot; 0: none */
  uint32_t made;      /* 1 + the last instruction that made it */
  uint32_t load;      /* 1 + the load that can be repeated wherever it is used; 0: none */
  int8_t reg;         /* register that has it now; -1: none */
  bool local;         /* lives in one block and is set once */
  bool spilled;       /* lives in memory */
  bool stored;        /* its slot has the value */
  bool unread;        /* nothing uses it */
  uint8_t deep;       /* loops around its innermost use */
  double weight;      /* its uses, each counted as often as it runs */
  double blame;       /* what evictions during its life have cost in this walk */
} life;
typedef struct ra {
  x86_code *x;             /* the code */
  life *l;                 /* life of each value */
  uint32_t *use;           /* positions of instructions, by value; NEVER ends each list */
  vr owner[CLASSES][32];   /* value in each register; 0: none */
  uint32_t taken[CLASSES]; /* registers that have an owner, as bits */
  vr *ends;                /* the values in the order of the ends of their lives */
  uint32_t ended;          /* how many of them are over */
  mis out;                 /* the new code */
  vr victim;               /* to be spilled before the next walk; 0: none */
  uint8_t *depth;          /* per instruction: loops around it */
  double *often;           /* per instruction: how often it runs */
  uint32_t used;           /* registers for integers that were used, as bits */
} ra;

static void each(const mi *i, void (*fn)(void *env, vr v, const mi *i), void *env) {
  vr all[10] = {i->a, i->b, i->c, i->k, i->m.kind == AM_ADDR ? i->m.base : 0, i->m.kind == AM_ADDR ? i->m.index : 0};
  memcpy(all + 6, i->args, sizeof i->args);
  for (int n = 0; n < 10; n++)
    if (all[n] && !(i->op == G_LABEL)) fn(env, all[n], i);
}
static uint32_t clobbers(const mi *i) { /* Integer registers that an instruction overwrites, as bits. */
  if (i->op == G_CALL) return 1u << 0 | 1u << 1 | 1u << 2 | 1u << 6 | 1u << 7 | 0xF00;
  if (i->op == G_DIV || i->op == G_IDIV || i->op == G_MULH) return 1u << 0 | 1u << 2;
  return 0;
}
static bool stores(const mi *i) {
  return i->op == G_CALL || (i->op >= G_STORE8 && i->op <= G_STORE64) ||
         (i->op < V_COUNT && i->m.kind == AM_ADDR && (x86_vops[i->op].shape == S_ST || x86_vops[i->op].shape == S_STI));
}
static bool ends_block(const mi *i) { return i->op == G_LABEL || i->op == G_JMP || i->op == G_JCC; }

/* ---- lives ----------------------------------------------------------------------------------- */
typedef struct loop {
  uint32_t from; /* instruction that begins it */
  uint32_t to;   /* instruction that ends it */
  double turns;  /* how often it runs its body */
} loop;
typedef struct look {
  ra *r;                  /* allocation */
  uint32_t stored[ROOTS]; /* 1 + the last instruction that stored there */
  uint32_t i;             /* the instruction */
  uint32_t block;         /* number of the block */
  loop *stack;            /* loops around the instruction */
  uint32_t n;             /* number of loops on the stack */
  uint8_t deep;           /* number of loops on the stack, at most 8 */
  double w;               /* how often the instruction runs */
} look;
/* What a load has found may no longer be there, or its address not be at hand. */
static bool stale(const look *k, uint32_t load) {
  const amem *m = &k->r->x->code.v[load - 1].m;
  const life *l = k->r->l;
  return k->stored[0] > load || k->stored[m->root] > load || (m->base && l[m->base].made > load) ||
         (m->index && l[m->index].made > load);
}
static void touch(look *k, vr v, bool def, bool early) {
  life *l = &k->r->l[v];
  uint32_t at = 2 * k->i + (def ? 1 : early ? 2 : 1);
  if (l->start == NEVER) l->start = at, l->block = k->block, l->local = true;
  if (def)
    l->defs++, l->made = k->i + 1;
  else
    l->uses++;
  if (!def && l->load && !EK_PLANTED("x86-again") && stale(k, l->load)) l->load = 0;
  if (l->block != k->block || l->defs > 1) l->local = false;
  if (at + def > l->end) l->end = at + def;
  l->weight += k->w;
  if (k->deep > l->deep) l->deep = k->deep;
  for (uint32_t q = 0; q < k->n; q++)
    if (k->stack[q].from * 2 > l->start) {
      if (2 * k->stack[q].to + 2 > l->end) l->end = 2 * k->stack[q].to + 2;
      break;
    }
}
static bool lasts(const ra *r, vr v, uint32_t end) { return !v || (!r->l[v].local && r->l[v].end >= end); }
static void use_fn(void *env, vr v, const mi *i) { touch(env, v, false, i->flags & F_EARLY); }
static void list_fn(void *env, vr v, const mi *i) {
  look *k = env;
  (void)i;
  life *l = &k->r->l[v];
  k->r->use[l->use_at++] = k->i;
}
static void lives(ra *r) {
  x86_code *x = r->x;
  uint32_t n = x->code.n, deep = 0;
  for (uint32_t v = 0; v < x->v.n; v++) r->l[v] = (life){.start = NEVER, .reg = -1};
  uint32_t *label = NEWN(x->a, uint32_t, x->labels + 1), *last = NEWN(x->a, uint32_t, x->labels + 1);
  for (uint32_t i = 0; i < n; i++) {
    const mi *k = &x->code.v[i];
    if (k->op == G_LABEL)
      label[k->imm] = i + 1;
    else if ((k->op == G_JMP || k->op == G_JCC) && label[k->imm])
      last[k->imm] = i;
  }
  look k_ = {.r = r, .stack = NEWN(x->a, loop, x->labels + 1), .w = 1}, *k = &k_;
  r->depth = NEWN(x->a, uint8_t, n + 1), r->often = NEWN(x->a, double, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    const mi *m = &x->code.v[i];
    k->i = i;
    if (ends_block(m)) k->block++;
    if (m->op == G_LABEL && last[m->imm]) {
      loop l = {i, last[m->imm], ++deep >= 8 ? 1 : m->c > 10 ? m->c : 10};
      k->stack[k->n++] = l, k->w *= l.turns;
    }
    r->often[i] = k->w, k->deep = r->depth[i] = (uint8_t)(deep < 8 ? deep : 8);
    each(m, use_fn, k);
    if (m->d && (m->flags & F_RMW)) touch(k, m->d, false, m->flags & F_EARLY);
    if (m->d) touch(k, m->d, true, false);
    if (m->op == V_LD && m->m.kind == AM_ADDR && m->m.root && !m->k) r->l[m->d].load = i + 1;
    if (stores(m)) k->stored[m->m.root] = i + 1;
    while (k->n && k->stack[k->n - 1].to == i) { k->w /= k->stack[--k->n].turns, deep--; }
    if (ends_block(m)) k->block++;
  }
  uint32_t all = 0;
  for (uint32_t v = 1; v < x->v.n; v++) {
    life *l = &r->l[v];
    uint32_t u = l->uses;
    if (l->load && !(l->local && lasts(r, x->code.v[l->load - 1].m.base, l->end) &&
                     lasts(r, x->code.v[l->load - 1].m.index, l->end)))
      l->load = 0;
    l->unread = !u;
    l->uses = l->use_at = all;
    all += u + 1;
    if (x->v.v[v].pool || x->v.v[v].is_imm || x->v.v[v].zero) l->weight *= 0.25; /* an operand in memory costs little */
    l->weight *= 1 + 1e-7 * (double)l->start;
  }
  r->use = NEWN(x->a, uint32_t, all + 1);
  for (uint32_t i = 0; i < n; i++) {
    const mi *m = &x->code.v[i];
    k->i = i;
    each(m, list_fn, k);
    if (m->d && (m->flags & F_RMW)) list_fn(k, m->d, m);
  }
  for (uint32_t v = 1; v < x->v.n; v++) r->use[r->l[v].use_at] = NEVER, r->l[v].use_at = r->l[v].uses;
  for (uint32_t i = 0; i < n; i++) { /* values that live across an instruction that overwrites registers */
    uint32_t c = clobbers(&x->code.v[i]);
    if (!c) continue;
    for (vr v = 1; v < x->v.n; v++) {
      life *l = &r->l[v];
      if (l->start < 2 * i + 1 && l->end > 2 * i + 1)
        l->forbidden |= x->v.v[v].cls == RG ? c : x->code.v[i].op == G_CALL ? UINT32_MAX : 0;
    }
  }
}

static void order_ends(ra *r) { /* Orders the values by the ends of their lives, by counting sort. */
  uint32_t last = 2 * r->x->code.n + 3, n = r->x->v.n;
  uint32_t *at = NEWN(r->x->a, uint32_t, last + 2);
  r->ends = NEWN(r->x->a, vr, n + 1);
  for (vr v = 0; v < n; v++) at[r->l[v].end + 1]++;
  for (uint32_t i = 0; i <= last; i++) at[i + 1] += at[i];
  for (vr v = 0; v < n; v++) r->ends[at[r->l[v].end]++] = v;
}

/* ---- registers ------------------------------------------------------------------------------- */
static uint32_t next_use(const ra *r, vr v, uint32_t i) {
  life *l = &r->l[v];
  uint32_t at = l->use_at;
  while (r->use[at] < i) at++;
  l->use_at = at;
  return r->use[at];
}
static uint32_t next_after(const ra *r, vr v, uint32_t i) {
  uint32_t at = r->l[v].use_at;
  while (r->use[at] <= i) at++;
  return r->use[at];
}
static bool constant(const ra *r, vr v) { return r->x->v.v[v].pool || r->x->v.v[v].is_imm || r->x->v.v[v].zero; }
static bool in_register(const ra *r, vr v) { return !v || (!r->l[v].spilled && r->l[v].reg >= 0); }
static bool loaded(const ra *r, vr v, amem *at) { /* Does v still lie in the memory that it was loaded from? */
  const life *l = &r->l[v];
  if (!l->load || l->spilled) return false;
  amem m = r->x->code.v[l->load - 1].m;
  if (!in_register(r, m.base) || !in_register(r, m.index)) return false;
  if (m.base) m.base = (vr)r->l[m.base].reg + 1;
  if (m.index) m.index = (vr)r->l[m.index].reg + 1;
  *at = m;
  return true;
}
/* It can be had again without being stored first. */
static bool elsewhere(const ra *r, vr v) {
  amem at;
  return r->l[v].spilled || r->l[v].stored || constant(r, v) || loaded(r, v, &at);
}
static amem slot_of(ra *r, vr v) {
  life *l = &r->l[v];
  if (!l->slot) {
    const vinfo *i = &r->x->v.v[v];
    vec_push(r->x->a, r->x->slots, i->cls == RV ? 16u << i->vl : 8);
    l->slot = r->x->slots.n;
  }
  return (amem){.kind = AM_SLOT, .disp = (int32_t)l->slot - 1};
}
static void put(ra *r, mi i) { vec_push(r->x->a, r->out, i); }
static void store(ra *r, vr v) {
  static const uint16_t op[] = {G_STORE64, V_ST, V_KSTQ};
  const vinfo *i = &r->x->v.v[v];
  put(r, (mi){.op = op[i->cls], .vl = i->vl, .a = (vr)r->l[v].reg + 1, .m = slot_of(r, v)});
}
static void reload(ra *r, vr v, int reg) {
  static const uint16_t op[] = {G_LOAD64, V_LD, V_KMOVQ};
  const vinfo *i = &r->x->v.v[v];
  vr d = (vr)reg + 1;
  amem at;
  if (loaded(r, v, &at))
    put(r, (mi){.op = V_LD, .vl = i->vl, .d = d, .m = at});
  else if (i->zero)
    put(r, (mi){.op = V_PXORD, .d = d, .a = d, .b = d});
  else if (i->is_imm)
    put(r, (mi){.op = G_MOV, .d = d, .imm = i->imm});
  else if (i->pool)
    put(r, (mi){.op = (uint16_t)(i->pool_bcast == 4   ? V_BCSS
                                 : i->pool_bcast == 8 ? (i->vl ? V_BCSD : V_MOVDDUP)
                                                      : V_LD),
                .vl = i->vl,
                .d = d,
                .m = {.kind = AM_POOL, .disp = (int32_t)i->pool - 1}});
  else
    put(r, (mi){.op = op[i->cls], .vl = i->vl, .d = d, .m = slot_of(r, v)});
}
static uint32_t registers(const ra *r, unsigned cls) {
  return cls == RG ? 0xFFEF : cls == RK ? 0xFE : r->x->avx512 ? UINT32_MAX : 0xFFFF;
}
static void drop(ra *r, unsigned cls, int reg) {
  vr v = r->owner[cls][reg];
  if (v) r->l[v].reg = -1;
  r->owner[cls][reg] = 0;
  r->taken[cls] &= ~(1u << reg);
}
static bool full(const ra *r, vr v, uint32_t busy) {
  unsigned cls = r->x->v.v[v].cls;
  return !(registers(r, cls) & ~busy & ~r->taken[cls]);
}
/* A register for v at instruction i, none of `busy`; -1: the walk begins anew. */
static int take(ra *r, vr v, uint32_t i, uint32_t busy, int hint) {
  static const uint8_t order[16] = {0, 1, 2, 6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15, 4};
  unsigned cls = r->x->v.v[v].cls;
  uint32_t can = registers(r, cls) & ~(r->l[v].spilled ? 0 : r->l[v].forbidden) & ~busy;
  uint32_t idle = can & ~r->taken[cls];
  if (hint >= 0 && (idle >> hint & 1)) goto found;
  for (int k = 0; k < 16 && cls == RG && idle; k++)
    if (idle >> (hint = order[k]) & 1) goto found;
  if (idle) {
    hint = __builtin_ctz(idle);
    goto found;
  }
  int best = -1;
  uint32_t far = 0;
  vr cheap = 0;
  for (int k = 0; k < 32; k++) {
    vr o = can >> k & 1 ? r->owner[cls][k] : 0;
    if (!o) continue;
    const life *l = &r->l[o];
    if (l->spilled || l->local) {
      uint32_t n = next_use(r, o, i);
      if (n == NEVER && !l->spilled) n = NEVER - 1; /* cannot be, but for values nobody uses */
      if (best < 0 || n > far) best = k, far = n;
    } else if (!cheap || l->weight - l->blame < r->l[cheap].weight - r->l[cheap].blame)
      cheap = o;
  }
  double w = r->often[i];
  if (best >= 0) w *= far >= NEVER - 1 ? 0 : elsewhere(r, r->owner[cls][best]) ? 1 : 2;
  if (!r->l[v].spilled && !r->l[v].local && (!cheap || r->l[v].weight < r->l[cheap].weight - r->l[cheap].blame))
    cheap = v;
  if (cheap && r->l[cheap].deep <= r->depth[i]) r->l[cheap].blame += w;
  if (best < 0 || (cheap && (r->l[cheap].weight < r->l[cheap].blame || r->l[cheap].weight < w))) {
    r->victim = cheap ? cheap : v;
    return -1;
  }
  vr o = r->owner[cls][best];
  if (!elsewhere(r, o) && far < NEVER - 1) store(r, o), r->l[o].stored = true;
  drop(r, cls, best);
  hint = best;
found:
  if (!EK_PLANTED("x86-allocate")) r->owner[cls][hint] = v, r->taken[cls] |= 1u << hint;
  r->l[v].reg = (int8_t)hint;
  if (cls == RG) r->used |= 1u << hint;
  return hint;
}

/* ---- memory in place of a register ----------------------------------------------------------- */
bool xg_can_broadcast(const x86_code *x, unsigned op, unsigned bytes) {
  if (op >= X_DECLARED) return x->declared.v[op - X_DECLARED].by->x86.broadcast == bytes;
  switch (op) {
  case V_ADDPS:
  case V_SUBPS:
  case V_MULPS:
  case V_DIVPS:
  case V_MINPS:
  case V_MAXPS:
  case V_FMAPS:
  case V_FNMAPS:
  case V_CMPPSK:
  case V_PADDD:
  case V_PSUBD:
  case V_PMULD:
  case V_PANDD:
  case V_PORD:
  case V_PXORD:
  case V_PMINSD:
  case V_PMAXSD:
  case V_PMINUD:
  case V_PMAXUD:
  case V_SCALEFPS:
  case V_ANDPS:
  case V_ANDNPS:
  case V_ORPS:
  case V_XORPS:
  case V_BLENDMD:
  case V_CMPDK:
  case V_CMPUDK:
    return bytes == 4;
  case V_ADDPD:
  case V_SUBPD:
  case V_MULPD:
  case V_DIVPD:
  case V_MINPD:
  case V_MAXPD:
  case V_FMAPD:
  case V_FNMAPD:
  case V_CMPPDK:
  case V_PADDQ:
  case V_PSUBQ:
  case V_PMULQ:
  case V_PANDQ:
  case V_PMINSQ:
  case V_PMAXSQ:
  case V_SCALEFPD:
  case V_BLENDMQ:
  case V_CMPQK:
  case V_CMPUQK:
    return bytes == 8;
  default:
    return false;
  }
}
static bool fold(ra *r, mi *i, vr *at) { /* *at: one of i's operands */
  vr v = *at;
  const vinfo *f = &r->x->v.v[v];
  if (i->m.kind != AM_NONE || f->is_imm || f->zero) return false;
  if (f->cls == RG) {
    if (i->op == G_MOV) {
      i->op = G_LOAD64, i->m = slot_of(r, v), *at = 0;
      return true;
    }
    if (at != &i->b || !((i->op >= G_ADD && i->op <= G_IMUL) || i->op == G_CMP)) return false;
    i->m = slot_of(r, v), *at = 0;
    return true;
  }
  if (f->cls != RV || !x86_is_vector(i->op)) return false;
  const vdesc *o = x86_vop(r->x, i->op);
  bool fits = (o->shape == S_FMA && (at == &i->b || at == &i->c)) ||
              ((o->shape == S_3 || o->shape == S_3I || o->shape == S_2 || o->shape == S_2I || o->shape == S_CMP) &&
               at == &i->b);
  if (!fits || (o->tuple != T_FULL && o->tuple != T_N4 && o->tuple != T_N8) || i->vl > f->vl) return false;
  if (i->op == V_MOVQ || i->op == V_MOVD || i->op == V_KMOVQ || i->op == V_KMOVGQ || (i->flags & F_VINDEX))
    return false;
  if (i->op == V_MOVV || i->op == V_LD) return false;
  if (f->pool && f->pool_bcast) {
    if (o->tuple == T_FULL && (!r->x->avx512 || !xg_can_broadcast(r->x, i->op, f->pool_bcast))) return false;
    if (o->tuple == T_FULL) i->flags |= F_BCAST;
  }
  if (!loaded(r, v, &i->m)) i->m = f->pool ? (amem){.kind = AM_POOL, .disp = (int32_t)f->pool - 1} : slot_of(r, v);
  *at = 0;
  return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */
static void pin(ra *r, uint32_t busy[CLASSES], vr v) { busy[r->x->v.v[v].cls] |= 1u << r->l[v].reg; }
static void leave_block(ra *r) {
  for (unsigned c = 0; c < CLASSES; c++)
    for (uint32_t left = r->taken[c]; left; left &= left - 1) {
      int k = __builtin_ctz(left);
      if (r->l[r->owner[c][k]].spilled) drop(r, c, k);
    }
}
static void expire(ra *r, uint32_t pos) {
  for (; r->ended < r->x->v.n && r->l[r->ends[r->ended]].end <= pos; r->ended++) {
    vr v = r->ends[r->ended];
    if (r->l[v].reg >= 0) drop(r, r->x->v.v[v].cls, r->l[v].reg);
  }
}
static bool one(ra *r, uint32_t n) {
  mi i = r->x->code.v[n];
  uint32_t busy[CLASSES] = {0};
  vr d = i.d, *at[10], src[10];
  uint32_t k = 0;
  vr *all[10] = {&i.a, &i.b, &i.c, &i.k, &i.m.base, &i.m.index, &i.args[0], &i.args[1], &i.args[2], &i.args[3]};
  uint32_t lost = clobbers(&i);
  if (d && r->l[d].unread &&
      (i.op == G_MOV || i.op == G_LEA || i.op == G_LOAD64 || i.op == V_LD || i.op == V_BCSS || i.op == V_PXORD))
    return true;
  if (d && r->l[d].spilled && constant(r, d)) return true; /* a spilled constant is loaded where it is used */
  if (ends_block(&i)) leave_block(r);
  if (i.op == G_ARG) busy[RG] = 0xC6 & ~(1u << i.imm); /* arguments that are still to be read */
  busy[RG] |= lost;
  if (i.op != G_LABEL)
    for (int q = 0; q < 10; q++) {
      if (!*all[q] || ((q == 4 || q == 5) && i.m.kind != AM_ADDR)) continue;
      at[k] = all[q], src[k++] = *all[q];
    }
  bool rmw = d && (i.flags & F_RMW);
  if (rmw) at[k] = NULL, src[k++] = d;
  /* a copy of what is in memory may be in a register that is lost: it is wanted in another */
  for (uint32_t q = 0; q < k && lost; q++) {
    vr v = src[q];
    if (r->x->v.v[v].cls == RG && r->l[v].reg >= 0 && (lost >> r->l[v].reg & 1)) drop(r, RG, r->l[v].reg);
  }
  for (uint32_t q = 0; q < k; q++)
    if (r->l[src[q]].reg >= 0) pin(r, busy, src[q]);
  for (uint32_t q = k; q-- > 0;) { /* later operands first: b and c may be memory */
    vr v = src[q];
    if (r->l[v].reg >= 0) continue;
    bool twice = false;
    for (uint32_t p = 0; p < k; p++) twice |= p != q && src[p] == v;
    uint32_t after = next_after(r, v, n);
    if (at[q] && !twice && after == NEVER && fold(r, &i, at[q])) {
      src[q] = 0;
      continue;
    }
    if (at[q] && !twice &&
        (full(r, v, busy[r->x->v.v[v].cls]) || i.op == G_MOV || (r->l[v].spilled && after > n + 40)) &&
        fold(r, &i, at[q])) {
      src[q] = 0;
      continue;
    }
    int reg = take(r, v, n, busy[r->x->v.v[v].cls], -1);
    if (reg < 0) return false;
    reload(r, v, reg);
    pin(r, busy, v);
  }
  for (uint32_t q = 0; q < k; q++)
    if (src[q] && at[q]) *at[q] = (vr)r->l[src[q]].reg + 1;
  int hint = -1;
  if (i.op == G_ARG) hint = (int)i.imm;
  /* takes the register of an operand whose life ends here */
  else if (d && i.op < V_COUNT && x86_vops[i.op].shape == S_FMA) {
    vr order[3] = {r->x->code.v[n].c, r->x->code.v[n].a, r->x->code.v[n].b};
    for (int q = 2; q >= 0; q--)
      if (order[q] && r->l[order[q]].reg >= 0 && r->l[order[q]].end <= 2 * n + 1) hint = r->l[order[q]].reg;
  } else if (d && (i.op == G_MOV || i.op == V_MOVV) && i.b)
    hint = (int)i.b - 1;
  else if (d && i.op > G_MOV && i.op < X_DECLARED && i.a)
    hint = (int)i.a - 1;
  expire(r, 2 * n + 1);
  for (int q = 0; q < 32 && lost; q++) {
    /* the registers that are lost hold copies of what is in memory */
    if ((lost >> q & 1) && r->owner[RG][q]) drop(r, RG, q);
    if (i.op == G_CALL && r->owner[RV][q]) drop(r, RV, q);
    if (i.op == G_CALL && r->owner[RK][q]) drop(r, RK, q);
  }
  if (d) {
    unsigned c = r->x->v.v[d].cls;
    if (r->l[d].reg < 0) {
      /* sources that live on may not be evicted: they are still to be read */
      uint32_t held = i.op == G_ARG ? busy[c] : 0;
      for (uint32_t q = 0; q < k; q++)
        if (src[q] && r->x->v.v[src[q]].cls == c && r->l[src[q]].reg >= 0) held |= 1u << r->l[src[q]].reg;
      if ((i.flags & F_EARLY)) held |= busy[c];
      if (take(r, d, n, held, hint) < 0) return false;
    }
    i.d = (vr)r->l[d].reg + 1;
  }
  put(r, i);
  if (d) {
    if (r->l[d].spilled && !constant(r, d)) store(r, d);
    r->l[d].stored = false;
    if (r->l[d].end <= 2 * n + 2) drop(r, r->x->v.v[d].cls, r->l[d].reg);
  }
  expire(r, 2 * n + 2);
  if (ends_block(&i)) leave_block(r);
  return true;
}
/* turns after which a walk goes on behind the first value that it finds for memory, to find others; what it writes
 * does not count */
enum { MAX_ONE_BY_ONE = 48 };
bool x86_allocate(x86_code *x) {
  ra r_ = {.x = x, .l = NEWN(x->a, life, x->v.n + 1)}, *r = &r_;
  lives(r);
  order_ends(r);
  /* a walk that runs out of registers decides that one value or several live in memory; then the next one begins */
  for (uint32_t turn = 0; turn <= x->v.n; turn++) {
    memset(r->owner, 0, sizeof r->owner), memset(r->taken, 0, sizeof r->taken);
    r->ended = 0;
    r->out.n = 0, r->victim = 0, r->used = 0;
    for (vr v = 1; v < x->v.n; v++) {
      life *l = &r->l[v];
      l->reg = -1, l->stored = false, l->blame = 0, l->use_at = l->uses;
      if (l->start != NEVER && !l->spilled && !(registers(r, x->v.v[v].cls) & ~l->forbidden))
        l->spilled = true, l->local = false;
    }
    bool anew = false;
    for (uint32_t n = 0; n < x->code.n;) {
      if (one(r, n)) {
        n++;
        continue;
      }
      vr v = r->victim;
      if (!v || r->l[v].spilled) return false;
      r->l[v].spilled = true, r->l[v].local = false, anew = true;
      if (turn < MAX_ONE_BY_ONE) break;
      if (r->l[v].reg >= 0) drop(r, x->v.v[v].cls, r->l[v].reg);
    }
    if (anew) continue;
    x->code.n = 0;
    for (uint32_t i = 0; i < r->out.n; i++) vec_push(x->a, x->code, r->out.v[i]);
    x->saved = r->used & (1u << 3 | 1u << 5 | 0xF000);
    return true;
  }
  return false;
}
