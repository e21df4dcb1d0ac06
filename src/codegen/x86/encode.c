/* How do machine instructions become bytes? Vector instructions by one table (in.h): VEX where it reaches, EVEX where a
 * register above 15, a mask, a broadcast or 512 bits need it. The constants follow the code and are reached from the
 * instruction pointer, so that an object needs no relocation but for calls. */
#include "codegen/x86/in.h"
#include <string.h>

const vdesc x86_vops[V_COUNT] = {{0},
#define X(name, map, pp, op, w, shape, tuple, flags, needs)                                                            \
  {map, pp, op, w, shape, tuple, (uint8_t)(flags), N_##needs, #name},
                                 VOPS(X)
#undef X
};
static const vneeds needs[] = {
#define X(name, xmm, ymm, evex, one) {xmm, ymm, evex, one},
    NEEDS(X)
#undef X
};
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };
/* 32-bit distance to a label, or to a place in the pool; what follows it in the instruction is in the text already */
typedef struct patch {
  uint32_t at;   /* offset of the distance in the text */
  uint32_t what; /* number of the label, or place in the pool */
} patch;
typedef struct asmb {
  const x86_code *x; /* the code */
  sbuf *t;           /* gets the bytes */
  x86_text *out;     /* the result */
  int32_t *label;    /* offset of each label in the text; -1: not placed yet */
  VEC(patch) jumps;  /* distances to labels */
  VEC(patch) pools;  /* distances to constants */
  uint32_t *slot;    /* offsets from rsp */
  uint32_t frame;    /* bytes of the stack frame */
  bool realign;      /* the frame is aligned for vectors */
} asmb;
static void u8(asmb *s, unsigned v) { sb_putc(s->t, (char)v); }
static void u32(asmb *s, uint32_t v) { sb_putn(s->t, (const char *)&v, 4); }
static void set32(asmb *s, uint32_t at, int64_t v) {
  int32_t w = (int32_t)v;
  memcpy(s->t->s + at, &w, 4);
}

/* ---- operands -------------------------------------------------------------------------------- */
typedef struct rm {
  bool mem;     /* it is in memory */
  unsigned reg; /* number of the register */
  amem m;       /* the place in memory */
} rm;
static rm in_reg(vr r) { return (rm){.reg = r - 1}; }
static rm in_mem(amem m) { return (rm){.mem = true, .m = m}; }
static rm of(vr r, amem m) { return r ? in_reg(r) : in_mem(m); }
static unsigned base_high(const rm *r) {
  return !r->mem ? r->reg >> 3 & 1 : r->m.kind == AM_ADDR && r->m.base ? (r->m.base - 1) >> 3 & 1 : 0;
}
static unsigned index_high(const rm *r) {
  return r->mem && r->m.kind == AM_ADDR && r->m.index ? (r->m.index - 1) >> 3 & 1 : 0;
}
/* ModRM, SIB, displacement; unit: what a byte counts in; tail: bytes of the instruction behind it. */
static void modrm(asmb *s, unsigned reg, const rm *r, unsigned unit, unsigned tail) {
  unsigned g = (reg & 7) << 3;
  if (!r->mem) {
    u8(s, 0xC0 | g | (r->reg & 7));
    return;
  }
  amem m = r->m;
  if (m.kind == AM_POOL) {
    u8(s, g | 5);
    vec_push(s->x->a, s->pools, ((patch){(uint32_t)s->t->n, (uint32_t)m.disp}));
    u32(s, tail);
    return;
  }
  if (m.kind == AM_SLOT)
    m = (amem){.kind = AM_ADDR, .base = RSP + 1, .disp = (int32_t)s->slot[m.disp] + (int32_t)m.scale * 8, .scale = 1};
  unsigned b = m.base ? (m.base - 1) & 7 : 5;
  bool sib = m.index || !m.base || b == 4;
  int32_t d = m.disp;
  bool small = d % (int32_t)unit == 0 && d / (int32_t)unit >= -128 && d / (int32_t)unit <= 127;
  unsigned mod = !m.base ? 0 : d == 0 && b != 5 ? 0 : small ? 1 : 2;
  u8(s, mod << 6 | g | (sib ? 4 : b));
  if (sib)
    u8(s, (m.scale == 8   ? 3u
           : m.scale == 4 ? 2u
           : m.scale == 2 ? 1u
                          : 0u)
                  << 6 |
              (m.index ? (m.index - 1) & 7 : 4) << 3 | b);
  if (mod == 1)
    u8(s, (unsigned)(d / (int32_t)unit) & 255);
  else if (mod == 2 || !m.base)
    u32(s, (uint32_t)d);
}

/* ---- vectors --------------------------------------------------------------------------------- */
static void vex(asmb *s, unsigned map, unsigned pp, unsigned op, unsigned w, unsigned l, unsigned reg, unsigned v,
                const rm *r, unsigned tail) {
  unsigned R = reg >> 3 & 1, X = index_high(r), B = base_high(r);
  if (map == 1 && !w && !X && !B) {
    u8(s, 0xC5);
    u8(s, (R ^ 1) << 7 | (~v & 15) << 3 | l << 2 | pp);
  } else {
    u8(s, 0xC4);
    u8(s, (R ^ 1) << 7 | (X ^ 1) << 6 | (B ^ 1) << 5 | map);
    u8(s, w << 7 | (~v & 15) << 3 | l << 2 | pp);
  }
  u8(s, op);
  modrm(s, reg, r, 1, tail);
}
static void evex(asmb *s, const vdesc *o, unsigned op, unsigned l, unsigned reg, unsigned v, const rm *r, unsigned k,
                 bool z, bool bcast, bool vindex, unsigned tail) {
  unsigned R = reg >> 3 & 1, R2 = reg >> 4 & 1, X = r->mem ? index_high(r) : r->reg >> 4 & 1, B = base_high(r),
           V2 = vindex ? (r->m.index - 1) >> 4 & 1 : v >> 4 & 1;
  static const unsigned div[] = {1, 2, 4, 8};
  unsigned unit = o->tuple >= T_N1 ? 1u << (o->tuple - T_N1)
                  : bcast          ? (o->w || (o->flags & SD) ? 8 : 4)
                                   : (16u << l) / div[o->tuple];
  if (EK_PLANTED("x86-encode")) unit = 1;
  u8(s, 0x62);
  u8(s, (R ^ 1) << 7 | (X ^ 1) << 6 | (B ^ 1) << 5 | (R2 ^ 1) << 4 | o->map);
  u8(s, (unsigned)o->w << 7 | (~v & 15) << 3 | 4 | o->pp);
  u8(s, (z ? 0x80u : 0) | l << 5 | (bcast ? 0x10u : 0) | (V2 ^ 1) << 3 | k);
  u8(s, op);
  modrm(s, reg, r, unit, tail);
}
static void vector(asmb *s, const vdesc *o, unsigned op, const mi *i, unsigned reg, unsigned v, rm r, bool imm) {
  unsigned k = i->k ? i->k - 1 : 0, tail = imm;
  bool bc = r.mem && (i->flags & F_BCAST);
  bool low = reg < 16 && v < 16 && (r.mem || r.reg < 16);
  if ((o->flags & NX) && !low) ctx_bug(s->x->c, "x86: instruction %u has no form for the upper registers", i->op);
  const vneeds *n = &needs[o->needs];
  if ((o->flags & NX) || (!(o->flags & E) && i->vl < VL512 && low && !k && !bc)) {
    s->out->needs |= i->vl == VL256 ? n->ymm : n->xmm;
    vex(s, o->map, o->pp, op, (o->flags & W) != 0, i->vl == VL256 || (o->flags & L1), reg, v, &r, tail);
  } else {
    s->out->needs |= n->evex | (i->vl < VL512 && !n->one ? IS_AVX512VL : 0);
    evex(s, o, op, i->vl, reg, v, &r, k, i->flags & F_ZERO, bc, i->flags & F_VINDEX, tail);
  }
  if (imm) u8(s, (unsigned)i->imm & 255);
}
static void move_v(asmb *s, unsigned vl, vr d, vr b) {
  if (d == b) return;
  mi i = {.vl = (uint8_t)vl};
  vector(s, &x86_vops[V_MOVV], x86_vops[V_MOVV].op, &i, d - 1, 0, in_reg(b), false);
}
static void fused(asmb *s, const vdesc *o, const mi *i) {
  vr a = i->a, b = i->b, c = i->c, d = i->d;
  unsigned op = o->op, lane = o->tuple == T_N4       ? V_LDSS
                              : o->tuple == T_N8     ? V_LDSD
                              : (i->flags & F_BCAST) ? (o->w ? V_BCSD : V_BCSS)
                                                     : V_LD;
  if (!c) {
    if (d == a || d == b) {
      vector(s, o, op - 0x10, i, d - 1, (d == a ? b : a) - 1, in_mem(i->m), false);
      return;
    }
    mi l = {.vl = i->vl};
    vector(s, &x86_vops[lane], x86_vops[lane].op, &l, d - 1, 0, in_mem(i->m), false);
    vector(s, o, op, i, d - 1, a - 1, in_reg(b), false);
  } else if (d == c) {
    vector(s, o, op, i, d - 1, a - 1, of(b, i->m), false);
  } else if (!b) {
    if (d == a) {
      vector(s, o, op - 0x20, i, d - 1, c - 1, in_mem(i->m), false);
      return;
    }
    move_v(s, i->vl, d, c);
    vector(s, o, op, i, d - 1, a - 1, in_mem(i->m), false);
  } else if (d == a || d == b) {
    vector(s, o, op - 0x10, i, d - 1, (d == a ? b : a) - 1, in_reg(c), false);
  } else {
    move_v(s, i->vl, d, c);
    vector(s, o, op, i, d - 1, a - 1, in_reg(b), false);
  }
}
static void vector_inst(asmb *s, const mi *i) {
  const vdesc *o = x86_vop(s->x, i->op);
  mi blend;
  /* the result is all zeros or all ones: the operands do not matter */
  if ((i->op == V_PXORD || i->op == V_KXNOR) && !i->a) blend = *i, blend.a = blend.b = i->d, i = &blend;
  if (i->op == V_BLENDVPS) blend = *i, blend.imm = (int64_t)(i->c - 1) << 4, i = &blend;
  switch (o->shape) {
  case S_3:
  case S_3I:
    vector(s, o, o->op, i, i->d - 1, i->a ? i->a - 1 : 0, of(i->b, i->m), o->shape == S_3I);
    return;
  case S_2:
  case S_2I:
    if ((i->op == V_MOVV || i->op == V_KMOVQ) && i->d == i->b && !i->k) return;
    vector(s, o, o->op, i, i->d - 1, 0, of(i->b, i->m), o->shape == S_2I);
    return;
  case S_ST:
  case S_STI:
    vector(s, o, o->op, i, i->a - 1, i->b ? i->b - 1 : 0, of(i->d, i->m), o->shape == S_STI);
    return;
  case S_CMP:
    vector(s, o, o->op, i, i->a - 1, 0, of(i->b, i->m), false);
    return;
  case S_SHI:
    vector(s, o, o->op, i, o->flags >> DIGIT & 7, i->d - 1, of(i->b, i->m), true);
    return;
  default:
    fused(s, o, i);
  }
}

/* ---- whole registers ------------------------------------------------------------------------- */
static void rex_op(asmb *s, bool w, unsigned op, unsigned reg, rm r, unsigned tail, bool byte) {
  unsigned x = 0x40 | (w ? 8 : 0) | (reg >> 3 & 1) << 2 | index_high(&r) << 1 | base_high(&r);
  if (x != 0x40 || byte) u8(s, x);
  if (op > 255) u8(s, 0x0F);
  u8(s, op & 255);
  modrm(s, reg, &r, 1, tail);
}
static void mov(asmb *s, vr d, vr b) {
  if (d != b) rex_op(s, true, 0x8B, d - 1, in_reg(b), 0, false);
}
static void mov_imm(asmb *s, vr d, int64_t v) {
  if (v >= 0 && v <= UINT32_MAX) {
    if ((d - 1) >> 3) u8(s, 0x41);
    u8(s, 0xB8 | ((d - 1) & 7));
    u32(s, (uint32_t)v);
  } else if (v == (int32_t)v) {
    rex_op(s, true, 0xC7, 0, in_reg(d), 4, false);
    u32(s, (uint32_t)v);
  } else {
    u8(s, 0x48 | (d - 1) >> 3);
    u8(s, 0xB8 | ((d - 1) & 7));
    sb_putn(s->t, (const char *)&v, 8);
  }
}
static void lea(asmb *s, vr d, amem m) {
  if (m.kind == AM_ADDR && m.base && !m.index && !m.disp)
    mov(s, d, m.base);
  else
    rex_op(s, true, 0x8D, d - 1, in_mem(m), 0, false);
}
static void group1(asmb *s, unsigned digit, vr d, int64_t v) { /* add or and sub xor cmp with an immediate */
  bool small = v >= -128 && v <= 127;
  rex_op(s, true, small ? 0x83 : 0x81, digit, in_reg(d), small ? 1 : 4, false);
  if (small)
    u8(s, (unsigned)v & 255);
  else
    u32(s, (uint32_t)v);
}
static void binary(asmb *s, const mi *i) {
  static const struct {
    uint8_t op;    /* opcode */
    uint8_t digit; /* digit of the opcode where an immediate follows */
  } t[] = {[G_ADD - G_ADD] = {0x03, 0},
           [G_SUB - G_ADD] = {0x2B, 5},
           [G_AND - G_ADD] = {0x23, 4},
           [G_OR - G_ADD] = {0x0B, 1},
           [G_EOR - G_ADD] = {0x33, 6}};
  vr d = i->d, a = i->a, b = i->b;
  if (i->op == G_IMUL) {
    if (!b && i->m.kind == AM_NONE) {
      bool small = i->imm >= -128 && i->imm <= 127;
      rex_op(s, true, small ? 0x6B : 0x69, d - 1, in_reg(a), small ? 1 : 4, false);
      if (small)
        u8(s, (unsigned)i->imm & 255);
      else
        u32(s, (uint32_t)i->imm);
      return;
    }
    if (d == b) b = a, a = d;
    mov(s, d, a);
    rex_op(s, true, 0x1AF, d - 1, of(b, i->m), 0, false);
    return;
  }
  bool imm = !b && i->m.kind == AM_NONE;
  if (imm && d != a && (i->op == G_ADD || i->op == G_SUB)) {
    lea(s, d, (amem){.kind = AM_ADDR, .scale = 1, .base = a, .disp = (int32_t)(i->op == G_ADD ? i->imm : -i->imm)});
    return;
  }
  if (imm) {
    mov(s, d, a);
    group1(s, t[i->op - G_ADD].digit, d, i->imm);
    return;
  }
  if (b && d == b && d != a && i->op != G_SUB) b = a, a = d;
  if (b && d != a && i->op == G_ADD) {
    lea(s, d, (amem){.kind = AM_ADDR, .scale = 1, .base = a, .index = b});
    return;
  }
  mov(s, d, a);
  rex_op(s, true, t[i->op - G_ADD].op, d - 1, of(b, i->m), 0, false);
}
static void jump(asmb *s, unsigned cc, uint32_t label) { /* cc 16: always */
  int64_t back = s->label[label] < 0 ? 1 : s->label[label] - (int64_t)s->t->n - 2;
  if (back < 0 && back >= -128) {
    u8(s, cc == 16 ? 0xEB : 0x70 | cc);
    u8(s, (unsigned)back & 255);
    return;
  }
  if (cc != 16) u8(s, 0x0F);
  u8(s, cc == 16 ? 0xE9 : 0x80 | cc);
  vec_push(s->x->a, s->jumps, ((patch){(uint32_t)s->t->n, label}));
  u32(s, 0);
}
static void symbol(asmb *s, int64_t id, bool call) {
  vec_push(s->x->a, s->out->relocs, ((x86_reloc){(uint32_t)s->t->n, (uint32_t)id, call}));
  u32(s, 0);
}
static const uint8_t saved[] = {RBX, RBP, 12, 13, 14, 15};
static void push(asmb *s, unsigned r, bool pop) {
  if (r >> 3) u8(s, 0x41);
  u8(s, (pop ? 0x58u : 0x50u) | (r & 7));
}
static void enter(asmb *s) {
  uint32_t n = 0, align = 16, size = 0;
  for (size_t i = 0; i < sizeof saved; i++)
    if (s->x->saved >> saved[i] & 1) push(s, saved[i], false), n++;
  s->slot = NEWN(s->x->a, uint32_t, s->x->slots.n + 1);
  for (uint32_t pass = 64; pass >= 8; pass /= 2) /* the largest first: no holes */
    for (uint32_t i = 0; i < s->x->slots.n; i++) {
      uint32_t b = s->x->slots.v[i], al = b >= 64 ? 64 : b >= 32 ? 32 : b >= 16 ? 16 : 8;
      if (al != pass) continue;
      if (al > align) align = al;
      s->slot[i] = size;
      size += (b + al - 1) / al * al;
    }
  s->realign = align > 16;
  s->frame = size;
  if (s->realign) {
    s->frame = (size + 8 + align - 1) / align * align;
    mov(s, RAX + 1, RSP + 1);
    group1(s, 5, RSP + 1, s->frame);
    group1(s, 4, RSP + 1, -(int64_t)align);
    rex_op(s, true, 0x89, RAX,
           in_mem((amem){.kind = AM_ADDR, .base = RSP + 1, .scale = 1, .disp = (int32_t)s->frame - 8}), 0, false);
    return;
  }
  if (size || s->x->calls) s->frame = (size + 15) / 16 * 16 + (n % 2 ? 0 : 8);
  if (s->frame) group1(s, 5, RSP + 1, s->frame);
}
static void zero_upper(asmb *s) {
  s->out->needs |= IS_AVX;
  u8(s, 0xC5), u8(s, 0xF8), u8(s, 0x77);
}
static void leave(asmb *s) {
  if (s->realign)
    rex_op(s, true, 0x8B, RSP,
           in_mem((amem){.kind = AM_ADDR, .base = RSP + 1, .scale = 1, .disp = (int32_t)s->frame - 8}), 0, false);
  else if (s->frame)
    group1(s, 0, RSP + 1, s->frame);
  for (size_t i = sizeof saved; i-- > 0;)
    if (s->x->saved >> saved[i] & 1) push(s, saved[i], true);
  if (s->x->wide) zero_upper(s);
  u8(s, 0xC3);
}
static void align_loop(asmb *s) {
  static const uint8_t nop[8][8] = {{0x90},
                                    {0x66, 0x90},
                                    {0x0F, 0x1F, 0},
                                    {0x0F, 0x1F, 0x40, 0},
                                    {0x0F, 0x1F, 0x44, 0, 0},
                                    {0x66, 0x0F, 0x1F, 0x44, 0, 0},
                                    {0x0F, 0x1F, 0x80, 0, 0, 0, 0},
                                    {0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0}};
  while (s->t->n % 16) {
    size_t n = 16 - s->t->n % 16;
    if (n > 8) n = 8;
    sb_putn(s->t, (const char *)nop[n - 1], n);
  }
}
static void call(asmb *s, const mi *i) {
  static const uint8_t reg[4] = {RDI, RSI, RDX, RCX};
  for (int k = 0; k < 4; k++)
    if (i->args[k]) mov(s, reg[k] + 1u, i->args[k]);
  if (s->x->wide) zero_upper(s);
  if (i->b) {
    rex_op(s, false, 0xFF, 2, in_reg(i->b), 0, false);
    return;
  }
  u8(s, 0xE8);
  symbol(s, i->imm, true);
}
/* FPREM gives the exact remainder, of as much of the quotient as it can take at a time: bit C2 of the status says that
 * more is left (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). */
static void fmod_x87(asmb *s, const mi *i) {
  bool wide = i->imm == 8;
  amem slot = i->m, status = i->m;
  status.scale = 1;
  unsigned real = wide ? 0xDD : 0xD9;
  for (int k = 0; k < 2; k++) { /* the divisor, then the dividend */
    vector_inst(s, &(mi){.op = wide ? V_STSD : V_STSS, .a = k ? i->a : i->b, .m = slot});
    rex_op(s, false, real, 0, in_mem(slot), 0, false);
  }
  size_t again = s->t->n;
  u8(s, 0xD9), u8(s, 0xF8);                                         /* fprem */
  rex_op(s, false, 0xDD, 7, in_mem(status), 0, false);              /* fnstsw [status] */
  u8(s, 0x66), rex_op(s, false, 0xF7, 0, in_mem(status), 2, false); /* test word [status], C2 */
  u8(s, 0), u8(s, 4);
  u8(s, 0x75), u8(s, (unsigned)(again - s->t->n - 1) & 255);                   /* jnz again */
  u8(s, 0xDD), u8(s, 0xD9), rex_op(s, false, real, 3, in_mem(slot), 0, false); /* fstp st(1); fstp [slot] */
  vector_inst(s, &(mi){.op = wide ? V_LDSD : V_LDSS, .d = i->d, .m = slot});
}
static void inst(asmb *s, const mi *i) {
  vr d = i->d, a = i->a, b = i->b;
  rm m = in_mem(i->m);
  switch ((unsigned)i->op) {
  case G_MOV:
    if (b)
      mov(s, d, b);
    else
      mov_imm(s, d, i->imm);
    return;
  case G_LEA:
    lea(s, d, i->m);
    return;
  case G_LOAD8U:
    rex_op(s, false, 0x1B6, d - 1, m, 0, false);
    return;
  case G_LOAD8S:
    rex_op(s, true, 0x1BE, d - 1, m, 0, false);
    return;
  case G_LOAD16U:
    rex_op(s, false, 0x1B7, d - 1, m, 0, false);
    return;
  case G_LOAD16S:
    rex_op(s, true, 0x1BF, d - 1, m, 0, false);
    return;
  case G_LOAD32U:
    rex_op(s, false, 0x8B, d - 1, m, 0, false);
    return;
  case G_LOAD32S:
    rex_op(s, true, 0x63, d - 1, m, 0, false);
    return;
  case G_LOAD64:
    rex_op(s, true, 0x8B, d - 1, m, 0, false);
    return;
  case G_STORE8:
    rex_op(s, false, 0x88, a - 1, m, 0, true);
    return;
  case G_STORE16:
    u8(s, 0x66), rex_op(s, false, 0x89, a - 1, m, 0, false);
    return;
  case G_STORE32:
    rex_op(s, false, 0x89, a - 1, m, 0, false);
    return;
  case G_STORE64:
    rex_op(s, true, 0x89, a - 1, m, 0, false);
    return;
  case G_SX8:
    rex_op(s, true, 0x1BE, d - 1, in_reg(b), 0, false);
    return;
  case G_SX16:
    rex_op(s, true, 0x1BF, d - 1, in_reg(b), 0, false);
    return;
  case G_SX32:
    rex_op(s, true, 0x63, d - 1, in_reg(b), 0, false);
    return;
  case G_ZX8:
    rex_op(s, false, 0x1B6, d - 1, in_reg(b), 0, true);
    return;
  case G_ZX16:
    rex_op(s, false, 0x1B7, d - 1, in_reg(b), 0, false);
    return;
  case G_ZX32:
    rex_op(s, false, 0x8B, d - 1, in_reg(b), 0, false);
    return;
  case G_ADD:
  case G_SUB:
  case G_AND:
  case G_OR:
  case G_EOR:
  case G_IMUL:
    binary(s, i);
    return;
  case G_NEG:
  case G_NOT:
    mov(s, d, b);
    rex_op(s, true, 0xF7, i->op == G_NEG ? 3 : 2, in_reg(d), 0, false);
    return;
  case G_SHL:
  case G_SHR:
  case G_SAR:
    mov(s, d, a);
    rex_op(s, true, 0xC1, i->op == G_SHL ? 4 : i->op == G_SHR ? 5 : 7, in_reg(d), 1, false);
    u8(s, (unsigned)i->imm & 63);
    return;
  case G_SHLX:
  case G_SHRX:
  case G_SARX:
  case G_BZHI: {
    rm r = in_reg(a);
    s->out->needs |= IS_BMI2;
    vex(s, 2,
        i->op == G_SHLX   ? 1
        : i->op == G_SARX ? 2
        : i->op == G_SHRX ? 3
                          : 0,
        i->op == G_BZHI ? 0xF5 : 0xF7, 1, 0, d - 1, b - 1, &r, 0);
    return;
  }
  case G_CMP:
    if (b)
      rex_op(s, true, 0x3B, a - 1, in_reg(b), 0, false);
    else if (i->m.kind != AM_NONE)
      rex_op(s, true, 0x3B, a - 1, m, 0, false);
    else
      group1(s, 7, a, i->imm);
    return;
  case G_TEST:
    rex_op(s, true, 0x85, b - 1, in_reg(a), 0, false);
    return;
  case G_SETCC:
    rex_op(s, false, 0x190 | i->cc, 0, in_reg(d), 0, true);
    rex_op(s, false, 0x1B6, d - 1, in_reg(d), 0, true);
    return;
  case G_CMOV:
    if (d == b) {
      rex_op(s, true, 0x140 | (i->cc ^ 1), d - 1, in_reg(a), 0, false);
      return;
    }
    mov(s, d, a);
    rex_op(s, true, 0x140 | i->cc, d - 1, in_reg(b), 0, false);
    return;
  case G_DIV:
  case G_IDIV:
    mov(s, RAX + 1, a);
    if (i->op == G_DIV)
      u8(s, 0x31), u8(s, 0xD2);
    else
      u8(s, 0x48), u8(s, 0x99);
    rex_op(s, true, 0xF7, i->op == G_DIV ? 6 : 7, in_reg(b), 0, false);
    mov(s, d, i->imm ? RDX + 1 : RAX + 1);
    return;
  case G_MULH:
    mov(s, RAX + 1, a);
    rex_op(s, true, 0xF7, 5, in_reg(b), 0, false);
    mov(s, d, RDX + 1);
    return;
  case G_FMOD:
    fmod_x87(s, i);
    return;
  case G_PREFETCH:
    rex_op(s, false, 0x118, 2, m, 0, false);
    return;
  case G_LABEL:
    if (i->b) align_loop(s); /* b: an inner loop begins */
    s->label[i->imm] = (int32_t)s->t->n;
    return;
  case G_JMP:
    jump(s, 16, (uint32_t)i->imm);
    return;
  case G_JCC:
    jump(s, i->cc, (uint32_t)i->imm);
    return;
  case G_CALL:
    call(s, i);
    return;
  case G_SYMBOL:
    u8(s, 0x48 | ((d - 1) >> 3) << 2), u8(s, 0x8D), u8(s, 5 | ((d - 1) & 7) << 3);
    symbol(s, i->imm, false);
    return;
  case G_ARG:
    mov(s, d, (vr)i->imm + 1);
    return;
  case G_RESULT:
    mov_imm(s, RAX + 1, i->imm);
    return;
  case G_RET:
    leave(s);
    return;
  case G_DEPTH:
    return;
  default:
    ctx_bug(s->x->c, "x86: instruction %u cannot be written", i->op);
  }
}
void x86_encode(const x86_code *x, x86_text *out) {
  out->text = sbuf_new(x->a);
  asmb s_ = {.x = x, .t = &out->text, .out = out, .label = NEWN(x->a, int32_t, x->labels + 1)}, *s = &s_;
  for (uint32_t i = 0; i <= x->labels; i++) s->label[i] = -1;
  enter(s);
  for (uint32_t i = 0; i < x->code.n; i++) {
    const mi *k = &x->code.v[i];
    if (x86_is_vector(k->op))
      vector_inst(s, k);
    else
      inst(s, k);
  }
  for (uint32_t i = 0; i < s->jumps.n; i++)
    set32(s, s->jumps.v[i].at, s->label[s->jumps.v[i].what] - (int64_t)s->jumps.v[i].at - 4);
  out->code = (uint32_t)s->t->n;
  while (s->t->n % 64) u8(s, 0xCC);
  int64_t pool = (int64_t)s->t->n;
  sb_putn(s->t, x->pool.s ? x->pool.s : "", x->pool.n);
  for (uint32_t i = 0; i < s->pools.n; i++) {
    uint32_t at = s->pools.v[i].at, tail;
    memcpy(&tail, s->t->s + at, 4);
    set32(s, at, pool + s->pools.v[i].what - (int64_t)at - 4 - tail);
  }
}
