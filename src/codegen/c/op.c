/* Which C expression does each scalar operation become? c_native says what C has an operator (or a helper function)
 * for; loop_expand has replaced the rest. */
#include "codegen/c/emit.h"
#include <math.h>
#include <string.h>

bool c_native(void *env, sop op, etype t) {
  (void)env;
  if (et_kind(t) == K_FLOAT) {
    if (t != ET_F32 && t != ET_F64) return false;
    switch (op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_FMOD:
    case OP_NEG:
    case OP_ABS:
    case OP_SQRT:
    case OP_MIN:
    case OP_MAX:
    case OP_ISNAN:
    case OP_ISINF:
    case OP_SIGNBIT:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_SEL:
    case OP_CAST:
    case OP_BITCAST:
      return true;
    default:
      return false;
    }
  }
  return et_bits(t) >= 8 && op != OP_POW && op != OP_RAND && op != OP_SAT && op != OP_SATF && op != OP_SIGN &&
         (et_kind(t) != K_BOOL || (op != OP_ADD && op != OP_MUL));
}
const char *c_type(etype t) {
  switch (t) {
  case ET_F64:
    return "f64";
  case ET_F32:
    return "f32";
  case ET_F16:
  case ET_BF16:
  case ET_U16:
    return "u16";
  case ET_I64:
    return "i64";
  case ET_U64:
    return "u64";
  case ET_I32:
    return "i32";
  case ET_U32:
    return "u32";
  case ET_I16:
    return "i16";
  case ET_I8:
  case ET_I4:
  case ET_I2:
    return "i8";
  default:
    return "u8";
  }
}
static void use(cem *e, c_helper h) { *e->helpers |= (uint64_t)1 << h; }
static const char *unsigned_of(etype t) {
  return et_bits(t) == 64 ? "u64" : "u32";
} /* arithmetic of narrower types is in 32 bits, then cut */

static void float_literal(cem *e, sbuf *b, etype t, double x) {
  if (isnan(x) || isinf(x)) {
    use(e, C_HELPER_BITS);
    const char *s = t == ET_F32 ? (isnan(x) ? "f32_bits(0x7fc00000u)"
                                   : x > 0  ? "f32_bits(0x7f800000u)"
                                            : "f32_bits(0xff800000u)")
                                : (isnan(x) ? "f64_bits(0x7ff8000000000000u)"
                                   : x > 0  ? "f64_bits(0x7ff0000000000000u)"
                                            : "f64_bits(0xfff0000000000000u)");
    sb_put(b, s);
    return;
  }
  size_t at = b->n;
  bool neg = signbit(x);
  if (neg) sb_put(b, "(");
  if (t == ET_F32)
    sb_float(b, (float)x);
  else
    sb_double(b, x);
  if (!strpbrk(b->s + at, ".e")) sb_put(b, ".0");
  if (t == ET_F32) sb_putc(b, 'f');
  if (neg) sb_put(b, ")");
}
void c_const(cem *e, sbuf *b, etype t, scalar k) {
  if (t == ET_F32 || t == ET_F64) {
    float_literal(e, b, t, k.f);
  } else if (et_kind(t) == K_FLOAT) {
    uint64_t code = 0;
    et_store(t, &code, k);
    sb_fmt(b, "%u", (unsigned)code);
  } else if (et_kind(t) == K_UINT) {
    sb_fmt(b, "%lluu", (unsigned long long)k.i);
  } else if (k.i == INT64_MIN) {
    sb_put(b, "(-9223372036854775807 - 1)");
  } else if (k.i == INT32_MIN) {
    sb_put(b, "(-2147483647 - 1)");
  } else if (k.i < 0) {
    sb_fmt(b, "(%lld)", (long long)k.i);
  } else {
    sb_fmt(b, "%lld", (long long)k.i);
  }
}
/* Template: %a %b %c are operands, %t the result's type, %u the unsigned type to calculate in, %o the operands'
 * type. */
static void put(cem *e, const linst *i, const char *lane, const char *form) {
  for (; *form; form++) {
    if (*form != '%') {
      sb_putc(e->b, *form);
      continue;
    }
    switch (*++form) {
    case 'a':
      c_expr(e, i->a, lane);
      break;
    case 'b':
      c_expr(e, i->b, lane);
      break;
    case 'c':
      c_expr(e, i->c, lane);
      break;
    case 't':
      sb_put(e->b, c_type((etype)i->type.elem));
      break;
    case 'o':
      sb_put(e->b, c_type((etype)li(e->f, i->a)->type.elem));
      break;
    case 'u':
      sb_put(e->b, unsigned_of((etype)i->type.elem));
      break;
    default:
      sb_putc(e->b, *form);
    }
  }
}
static const char *compare(sop op) {
  switch (op) {
  case OP_EQ:
    return "(u8)(%a == %b)";
  case OP_NE:
    return "(u8)(%a != %b)";
  case OP_LT:
    return "(u8)(%a < %b)";
  case OP_LE:
    return "(u8)(%a <= %b)";
  case OP_GT:
    return "(u8)(%a > %b)";
  case OP_GE:
    return "(u8)(%a >= %b)";
  default:
    return NULL;
  }
}
static const char *float_form(cem *e, sop op, etype t) {
  bool d = t == ET_F64;
  switch (op) {
  case OP_ADD:
    return "%a + %b";
  case OP_SUB:
    return "%a - %b";
  case OP_MUL:
    return "%a * %b";
  case OP_DIV:
    return "%a / %b";
  case OP_NEG:
    return "-%a";
  case OP_MIN:
    return "%a < %b || %a != %a ? %a : %b";
  case OP_MAX:
    return "%a > %b || %a != %a ? %a : %b";
  case OP_ISNAN:
    return "(u8)(%a != %a)";
  case OP_ABS:
    return use(e, d ? C_HELPER_ABS_F64 : C_HELPER_ABS_F32), use(e, C_HELPER_BITS), "abs_%o(%a)";
  case OP_SQRT:
    return use(e, d ? C_HELPER_SQRT_F64 : C_HELPER_SQRT_F32), use(e, C_HELPER_BITS), "sqrt_%o(%a)";
  case OP_FMOD:
    return use(e, d ? C_HELPER_FMOD_F64 : C_HELPER_FMOD_F32), use(e, C_HELPER_BITS), "fmod_%o(%a, %b)";
  case OP_ISINF:
    return use(e, C_HELPER_BITS), d ? "(u8)((bits_f64(%a) & 0x7fffffffffffffffu) == 0x7ff0000000000000u)"
                                    : "(u8)((bits_f32(%a) & 0x7fffffffu) == 0x7f800000u)";
  case OP_SIGNBIT:
    return use(e, C_HELPER_BITS), d ? "(u8)(bits_f64(%a) >> 63)" : "(u8)(bits_f32(%a) >> 31)";
  default:
    return compare(op);
  }
}
static bool known(cem *e, lv v, scalar *k) { return v && loop_const(e->f, v, k); }
static const char *shift_form(cem *e, const linst *i, etype t) {
  bool arith = i->op == OP_SHR && et_kind(t) == K_INT, wide = et_bits(t) == 64;
  unsigned bits = et_bits(t);
  scalar k;
  const char *guard = arena_fmt(e->a, "(%s)%%b < %u", wide ? "u64" : "u32", bits);
  bool ok = known(e, i->b, &k) && k.i >= 0 && k.i < (int64_t)bits;
  if (arith) return ok ? "(%t)(%a >> %b)" : arena_fmt(e->a, "(%%t)(%%a >> (%s ? %%b : %u))", guard, bits - 1);
  const char *r = i->op == OP_SHL ? "(%t)((%u)%a << %b)" : "(%t)(%a >> %b)";
  return ok ? r : arena_fmt(e->a, "%s ? %s : (%%t)0", guard, r);
}
static const char *int_form(cem *e, const linst *i, etype t) {
  bool s = et_kind(t) == K_INT, wide = et_bits(t) == 64;
  switch ((sop)i->op) {
  case OP_ADD:
    return "(%t)((%u)%a + (%u)%b)";
  case OP_SUB:
    return "(%t)((%u)%a - (%u)%b)";
  case OP_MUL:
    return "(%t)((%u)%a * (%u)%b)";
  case OP_FMA:
    return "(%t)((%u)%a * (%u)%b + (%u)%c)";
  case OP_NEG:
    return "(%t)((%u)0 - (%u)%a)";
  case OP_ABS:
    return s ? "(%t)(%a < 0 ? (%u)0 - (%u)%a : (%u)%a)" : "%a";
  case OP_MIN:
    return "%a < %b ? %a : %b";
  case OP_MAX:
    return "%a > %b ? %a : %b";
  case OP_IDIV:
    return s && !EK_PLANTED("emit-c") ? (wide ? (use(e, C_HELPER_DIV_I64), "div_i64(%a, %b)")
                                              : (use(e, C_HELPER_DIV_I32), "(%t)div_i32(%a, %b)"))
                                      : (use(e, C_HELPER_DIV_U64), "(%t)div_u64(%a, %b)");
  case OP_MOD:
    return s ? (wide ? (use(e, C_HELPER_MOD_I64), "mod_i64(%a, %b)")
                     : (use(e, C_HELPER_MOD_I32), "(%t)mod_i32(%a, %b)"))
             : (use(e, C_HELPER_MOD_U64), "(%t)mod_u64(%a, %b)");
  case OP_FMOD:
    return s ? (wide ? (use(e, C_HELPER_REM_I64), "rem_i64(%a, %b)")
                     : (use(e, C_HELPER_REM_I32), "(%t)rem_i32(%a, %b)"))
             : (use(e, C_HELPER_MOD_U64), "(%t)mod_u64(%a, %b)");
  case OP_AND:
  case OP_BAND:
    return "(%t)(%a & %b)";
  case OP_OR:
  case OP_BOR:
    return "(%t)(%a | %b)";
  case OP_BXOR:
    return "(%t)(%a ^ %b)";
  case OP_NOT:
    return "(u8)!%a";
  case OP_BNOT:
    return t == ET_BOOL ? "(u8)!%a" : "(%t)~%a";
  case OP_SHL:
  case OP_SHR:
    return shift_form(e, i, t);
  default:
    return compare((sop)i->op);
  }
}
static const char *cast_form(cem *e, etype to, etype from) {
  bool d = from == ET_F64;
  if (to == ET_BOOL) return "(u8)(%a != 0)";
  if (et_kind(from) != K_FLOAT || et_kind(to) == K_FLOAT) return "(%t)%a";
  if (to == ET_U64)
    return use(e, d ? C_HELPER_TOUINT_F64 : C_HELPER_TOUINT_F32), use(e, d ? C_HELPER_TOINT_F64 : C_HELPER_TOINT_F32),
           "touint_%o(%a)";
  return use(e, d ? C_HELPER_TOINT_F64 : C_HELPER_TOINT_F32), "(%t)toint_%o(%a)";
}
static const char *bitcast_form(cem *e, etype to, etype from) {
  bool f32 = from == ET_F32 || to == ET_F32, fl = f32 || from == ET_F64 || to == ET_F64;
  if (to == ET_BOOL) return "(u8)(%a != 0)";
  if (!fl || to == from) return "(%t)%a";
  use(e, C_HELPER_BITS);
  if (from == ET_F32 || from == ET_F64) return f32 ? "(%t)bits_f32(%a)" : "(%t)bits_f64(%a)";
  return f32 ? "f32_bits((u32)%a)" : "f64_bits((u64)%a)";
}
void c_op(cem *e, const linst *i, const char *lane) {
  etype from = (etype)li(e->f, i->a)->type.elem, to = (etype)i->type.elem;
  const char *form;
  switch ((sop)i->op) {
  case OP_SEL:
    form = "%a ? %b : %c";
    break;
  case OP_CAST:
    form = cast_form(e, to, from);
    break;
  case OP_BITCAST:
    form = bitcast_form(e, to, from);
    break;
  default:
    form = et_kind(from) == K_FLOAT ? float_form(e, (sop)i->op, from) : int_form(e, i, from);
  }
  if (!form)
    ctx_bug(e->c, "codegen/c: operation %u of %s in function %s was not expanded", i->op, et_name(from), e->f->name);
  put(e, i, lane, form);
}
void c_combine(cem *e, rop op, etype t, const char *x, const char *y) {
  const char *form, *u = unsigned_of(t), *n = c_type(t);
  bool fl = et_kind(t) == K_FLOAT;
  switch (op) {
  case RED_SUM:
    form = fl ? "%1$s + %2$s" : "(%3$s)((%4$s)%1$s + (%4$s)%2$s)";
    break;
  case RED_PROD:
    form = fl ? "%1$s * %2$s" : "(%3$s)((%4$s)%1$s * (%4$s)%2$s)";
    break;
  case RED_MAX:
    form = fl ? "%1$s > %2$s || %1$s != %1$s ? %1$s : %2$s" : "%1$s > %2$s ? %1$s : %2$s";
    break;
  case RED_MIN:
    form = fl ? "%1$s < %2$s || %1$s != %1$s ? %1$s : %2$s" : "%1$s < %2$s ? %1$s : %2$s";
    break;
  case RED_ANY:
    form = "(u8)(%1$s | %2$s)";
    break;
  case RED_ALL:
    form = "(u8)(%1$s & %2$s)";
    break;
  default:
    ctx_bug(e->c, "codegen/c: no horizontal reduction %u", op);
  }
  for (const char *s = form; *s; s++) {
    if (*s != '%') {
      sb_putc(e->b, *s);
      continue;
    }
    const char *arg[] = {x, y, n, u};
    sb_put(e->b, arg[s[1] - '1']);
    s += 3;
  }
}
