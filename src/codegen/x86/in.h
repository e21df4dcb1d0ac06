/* Between the files of the room (private). */
#ifndef EK_X86_IN_H
#define EK_X86_IN_H
#include "codegen/x86/x86.h"

typedef uint32_t vr; /* virtual register, 0: none. After allocation: 1 + the machine's number */
enum { RG, RV, RK, CLASSES };
enum { VL128, VL256, VL512 };

/* ---- machine instructions -------------------------------------------------------------------- */
/* Vector and mask instructions. X(name, map, prefix, opcode, W of EVEX, shape, tuple, flags, needs)
 * Shapes: 3: d = a op (b|memory). 2: d = op (b|memory). ST: (d|memory) = a. CMP: flags of a and (b|memory). SH: d
 * = b shifted by imm, the opcode's digit in the flags. FMA: d = +-a*b + c, b or c may be memory. An I takes an
 * immediate.
 * Tuples: what a displacement of one byte counts in: FULL, HALF, ... of the vector; N1.. bytes.
 * Needs: a row of x86_needs, the instruction sets that its forms belong to. */
enum { S_3, S_3I, S_2, S_2I, S_ST, S_STI, S_SHI, S_FMA, S_CMP };
enum { T_FULL, T_HALF, T_QUARTER, T_EIGHTH, T_N1, T_N2, T_N4, T_N8, T_N16, T_N32 };
enum {
  E = 1,
  W = 2 /* W of VEX is 1 */,
  NX = 4 /* VEX only */,
  L1 = 8 /* VEX.L is 1 */,
  DIGIT = 4 /* shift of the digit */,
  SD = 1 << 7 /* elements of 8 bytes in memory (broadcast) */
};
// clang-format off
/* Which instruction sets? Of the form in VEX with 128 bits, with 256 bits, and in EVEX; with less than 512 bits EVEX
 * takes IS_AVX512VL as well, but for instructions on one element. AVX2: in VEX at least from a register.
 * X(name, 128 bits, 256 bits, EVEX, one element) */
#define NEEDS(X) \
  X(FLOAT, IS_AVX, IS_AVX, IS_AVX512F, false) \
  X(FLOATDQ, IS_AVX, IS_AVX, IS_AVX512F | IS_AVX512DQ, false) \
  X(SCALAR, IS_AVX, IS_AVX, IS_AVX512F, true) \
  X(LANE, IS_AVX, IS_AVX, IS_AVX512F | IS_AVX512BW, true) \
  X(LANEDQ, IS_AVX, IS_AVX, IS_AVX512F | IS_AVX512DQ, true) \
  X(FMA, IS_AVX | IS_FMA, IS_AVX | IS_FMA, IS_AVX512F, false) \
  X(FMA1, IS_AVX | IS_FMA, IS_AVX | IS_FMA, IS_AVX512F, true) \
  X(F16C, IS_AVX | IS_F16C, IS_AVX | IS_F16C, IS_AVX512F, false) \
  X(INT, IS_AVX, IS_AVX | IS_AVX2, IS_AVX512F, false) \
  X(INTBW, IS_AVX, IS_AVX | IS_AVX2, IS_AVX512F | IS_AVX512BW, false) \
  X(AVX2, IS_AVX | IS_AVX2, IS_AVX | IS_AVX2, IS_AVX512F, false) \
  X(AVX2BW, IS_AVX | IS_AVX2, IS_AVX | IS_AVX2, IS_AVX512F | IS_AVX512BW, false) \
  X(DQ, 0, 0, IS_AVX512F | IS_AVX512DQ, false) \
  X(VBMI, 0, 0, IS_AVX512F | IS_AVX512VBMI, false) \
  X(BF16, 0, 0, IS_AVX512F | IS_AVX512BF16, false) \
  X(NONE, 0, 0, 0, true) \
  X(MASK, IS_AVX512F | IS_AVX512BW, IS_AVX512F | IS_AVX512BW, 0, false)
#define VOPS(X) \
  X(ADDPS, 1, 0, 0x58, 0, S_3, T_FULL, 0, FLOAT) \
  X(MULPS, 1, 0, 0x59, 0, S_3, T_FULL, 0, FLOAT) \
  X(SUBPS, 1, 0, 0x5C, 0, S_3, T_FULL, 0, FLOAT) \
  X(MINPS, 1, 0, 0x5D, 0, S_3, T_FULL, 0, FLOAT) \
  X(DIVPS, 1, 0, 0x5E, 0, S_3, T_FULL, 0, FLOAT) \
  X(MAXPS, 1, 0, 0x5F, 0, S_3, T_FULL, 0, FLOAT) \
  X(SQRTPS, 1, 0, 0x51, 0, S_2, T_FULL, 0, FLOAT) \
  X(ADDPD, 1, 1, 0x58, 1, S_3, T_FULL, 0, FLOAT) \
  X(MULPD, 1, 1, 0x59, 1, S_3, T_FULL, 0, FLOAT) \
  X(SUBPD, 1, 1, 0x5C, 1, S_3, T_FULL, 0, FLOAT) \
  X(MINPD, 1, 1, 0x5D, 1, S_3, T_FULL, 0, FLOAT) \
  X(DIVPD, 1, 1, 0x5E, 1, S_3, T_FULL, 0, FLOAT) \
  X(MAXPD, 1, 1, 0x5F, 1, S_3, T_FULL, 0, FLOAT) \
  X(SQRTPD, 1, 1, 0x51, 1, S_2, T_FULL, 0, FLOAT) \
  X(ADDSS, 1, 2, 0x58, 0, S_3, T_N4, 0, SCALAR) \
  X(MULSS, 1, 2, 0x59, 0, S_3, T_N4, 0, SCALAR) \
  X(SUBSS, 1, 2, 0x5C, 0, S_3, T_N4, 0, SCALAR) \
  X(MINSS, 1, 2, 0x5D, 0, S_3, T_N4, 0, SCALAR) \
  X(DIVSS, 1, 2, 0x5E, 0, S_3, T_N4, 0, SCALAR) \
  X(MAXSS, 1, 2, 0x5F, 0, S_3, T_N4, 0, SCALAR) \
  X(SQRTSS, 1, 2, 0x51, 0, S_3, T_N4, 0, SCALAR) \
  X(ADDSD, 1, 3, 0x58, 1, S_3, T_N8, 0, SCALAR) \
  X(MULSD, 1, 3, 0x59, 1, S_3, T_N8, 0, SCALAR) \
  X(SUBSD, 1, 3, 0x5C, 1, S_3, T_N8, 0, SCALAR) \
  X(MINSD, 1, 3, 0x5D, 1, S_3, T_N8, 0, SCALAR) \
  X(DIVSD, 1, 3, 0x5E, 1, S_3, T_N8, 0, SCALAR) \
  X(MAXSD, 1, 3, 0x5F, 1, S_3, T_N8, 0, SCALAR) \
  X(SQRTSD, 1, 3, 0x51, 1, S_3, T_N8, 0, SCALAR) \
  X(FMAPS, 2, 1, 0xB8, 0, S_FMA, T_FULL, 0, FMA) \
  X(FMAPD, 2, 1, 0xB8, 1, S_FMA, T_FULL, W, FMA) \
  X(FMASS, 2, 1, 0xB9, 0, S_FMA, T_N4, 0, FMA1) \
  X(FMASD, 2, 1, 0xB9, 1, S_FMA, T_N8, W, FMA1) \
  X(FNMAPS, 2, 1, 0xBC, 0, S_FMA, T_FULL, 0, FMA) \
  X(FNMAPD, 2, 1, 0xBC, 1, S_FMA, T_FULL, W, FMA) \
  X(FNMASS, 2, 1, 0xBD, 0, S_FMA, T_N4, 0, FMA1) \
  X(FNMASD, 2, 1, 0xBD, 1, S_FMA, T_N8, W, FMA1) \
  X(CMPPSK, 1, 0, 0xC2, 0, S_3I, T_FULL, E, FLOAT) \
  X(CMPPDK, 1, 1, 0xC2, 1, S_3I, T_FULL, E, FLOAT) \
  X(CMPPSV, 1, 0, 0xC2, 0, S_3I, T_FULL, NX, FLOAT) \
  X(CMPPDV, 1, 1, 0xC2, 0, S_3I, T_FULL, NX, FLOAT) \
  X(UCOMISS, 1, 0, 0x2E, 0, S_CMP, T_N4, 0, SCALAR) \
  X(UCOMISD, 1, 1, 0x2E, 1, S_CMP, T_N8, 0, SCALAR) \
  X(ANDPS, 1, 0, 0x54, 0, S_3, T_FULL, 0, FLOATDQ) \
  X(ANDNPS, 1, 0, 0x55, 0, S_3, T_FULL, 0, FLOATDQ) \
  X(ORPS, 1, 0, 0x56, 0, S_3, T_FULL, 0, FLOATDQ) \
  X(XORPS, 1, 0, 0x57, 0, S_3, T_FULL, 0, FLOATDQ) \
  X(RNDPS, 3, 1, 0x08, 0, S_2I, T_FULL, 0, FLOAT) \
  X(RNDPD, 3, 1, 0x09, 1, S_2I, T_FULL, 0, FLOAT) \
  X(SCALEFPS, 2, 1, 0x2C, 0, S_3, T_FULL, E, FLOAT) \
  X(SCALEFPD, 2, 1, 0x2C, 1, S_3, T_FULL, E, FLOAT) \
  X(LD, 1, 0, 0x10, 0, S_2, T_FULL, 0, FLOAT) \
  X(ST, 1, 0, 0x11, 0, S_ST, T_FULL, 0, FLOAT) \
  X(LDD, 1, 1, 0x10, 1, S_2, T_FULL, E, FLOAT) \
  X(STD, 1, 1, 0x11, 1, S_ST, T_FULL, E, FLOAT) \
  X(MOVV, 1, 0, 0x28, 0, S_2, T_FULL, 0, FLOAT) \
  X(LDB, 1, 3, 0x6F, 0, S_2, T_FULL, E, INTBW) \
  X(STB, 1, 3, 0x7F, 0, S_ST, T_FULL, E, INTBW) \
  X(LDW, 1, 3, 0x6F, 1, S_2, T_FULL, E, INTBW) \
  X(STW, 1, 3, 0x7F, 1, S_ST, T_FULL, E, INTBW) \
  X(LDSS, 1, 2, 0x10, 0, S_2, T_N4, 0, SCALAR) \
  X(STSS, 1, 2, 0x11, 0, S_ST, T_N4, 0, SCALAR) \
  X(LDSD, 1, 3, 0x10, 1, S_2, T_N8, 0, SCALAR) \
  X(STSD, 1, 3, 0x11, 1, S_ST, T_N8, 0, SCALAR) \
  X(MASKLDD, 2, 1, 0x2C, 0, S_3, T_FULL, NX, FLOAT) \
  X(MASKSTD, 2, 1, 0x2E, 0, S_ST, T_FULL, NX, FLOAT) \
  X(MASKLDQ, 2, 1, 0x8C, 0, S_3, T_FULL, NX | W, AVX2) \
  X(MOVD, 1, 1, 0x6E, 0, S_2, T_N4, 0, SCALAR) \
  X(MOVQ, 1, 1, 0x6E, 1, S_2, T_N8, W, SCALAR) \
  X(MOVDG, 1, 1, 0x7E, 0, S_ST, T_N4, 0, SCALAR) \
  X(MOVQG, 1, 1, 0x7E, 1, S_ST, T_N8, W, SCALAR) \
  X(PINSRB, 3, 1, 0x20, 0, S_3I, T_N1, 0, LANE) \
  X(PINSRW, 1, 1, 0xC4, 0, S_3I, T_N2, 0, LANE) \
  X(PINSRD, 3, 1, 0x22, 0, S_3I, T_N4, 0, LANEDQ) \
  X(PEXTRB, 3, 1, 0x14, 0, S_STI, T_N1, 0, LANE) \
  X(PEXTRW, 3, 1, 0x15, 0, S_STI, T_N2, 0, LANE) \
  X(BCSS, 2, 1, 0x18, 0, S_2, T_N4, 0, AVX2) \
  X(BCSD, 2, 1, 0x19, 1, S_2, T_N8, 0, AVX2) \
  X(MOVDDUP, 1, 3, 0x12, 1, S_2, T_N8, 0, FLOAT) \
  X(BCB, 2, 1, 0x78, 0, S_2, T_N1, 0, AVX2BW) \
  X(BCW, 2, 1, 0x79, 0, S_2, T_N2, 0, AVX2BW) \
  X(BCD, 2, 1, 0x58, 0, S_2, T_N4, 0, AVX2) \
  X(BCQ, 2, 1, 0x59, 1, S_2, T_N8, 0, AVX2) \
  X(BCGB, 2, 1, 0x7A, 0, S_2, T_N1, E, INTBW) \
  X(BCGW, 2, 1, 0x7B, 0, S_2, T_N2, E, INTBW) \
  X(BCGD, 2, 1, 0x7C, 0, S_2, T_N4, E, FLOAT) \
  X(BCGQ, 2, 1, 0x7C, 1, S_2, T_N8, E, FLOAT) \
  X(PADDB, 1, 1, 0xFC, 0, S_3, T_FULL, 0, INTBW) \
  X(PADDW, 1, 1, 0xFD, 0, S_3, T_FULL, 0, INTBW) \
  X(PADDD, 1, 1, 0xFE, 0, S_3, T_FULL, 0, INT) \
  X(PADDQ, 1, 1, 0xD4, 1, S_3, T_FULL, 0, INT) \
  X(PSUBB, 1, 1, 0xF8, 0, S_3, T_FULL, 0, INTBW) \
  X(PSUBW, 1, 1, 0xF9, 0, S_3, T_FULL, 0, INTBW) \
  X(PSUBD, 1, 1, 0xFA, 0, S_3, T_FULL, 0, INT) \
  X(PSUBQ, 1, 1, 0xFB, 1, S_3, T_FULL, 0, INT) \
  X(PMULW, 1, 1, 0xD5, 0, S_3, T_FULL, 0, INTBW) \
  X(PMULD, 2, 1, 0x40, 0, S_3, T_FULL, 0, INT) \
  X(PMULQ, 2, 1, 0x40, 1, S_3, T_FULL, E, DQ) \
  X(PMULUDQ, 1, 1, 0xF4, 1, S_3, T_FULL, 0, INT) \
  X(PANDD, 1, 1, 0xDB, 0, S_3, T_FULL, 0, INT) \
  X(PORD, 1, 1, 0xEB, 0, S_3, T_FULL, 0, INT) \
  X(PXORD, 1, 1, 0xEF, 0, S_3, T_FULL, 0, INT) \
  X(PANDND, 1, 1, 0xDF, 0, S_3, T_FULL, 0, INT) \
  X(PANDQ, 1, 1, 0xDB, 1, S_3, T_FULL, 0, INT) \
  X(PMINSB, 2, 1, 0x38, 0, S_3, T_FULL, 0, INTBW) \
  X(PMINSW, 1, 1, 0xEA, 0, S_3, T_FULL, 0, INTBW) \
  X(PMINSD, 2, 1, 0x39, 0, S_3, T_FULL, 0, INT) \
  X(PMINSQ, 2, 1, 0x39, 1, S_3, T_FULL, E, INT) \
  X(PMAXSB, 2, 1, 0x3C, 0, S_3, T_FULL, 0, INTBW) \
  X(PMAXSW, 1, 1, 0xEE, 0, S_3, T_FULL, 0, INTBW) \
  X(PMAXSD, 2, 1, 0x3D, 0, S_3, T_FULL, 0, INT) \
  X(PMAXSQ, 2, 1, 0x3D, 1, S_3, T_FULL, E, INT) \
  X(PMINUB, 1, 1, 0xDA, 0, S_3, T_FULL, 0, INTBW) \
  X(PMINUW, 2, 1, 0x3A, 0, S_3, T_FULL, 0, INTBW) \
  X(PMINUD, 2, 1, 0x3B, 0, S_3, T_FULL, 0, INT) \
  X(PMINUQ, 2, 1, 0x3B, 1, S_3, T_FULL, E, INT) \
  X(PMAXUB, 1, 1, 0xDE, 0, S_3, T_FULL, 0, INTBW) \
  X(PMAXUW, 2, 1, 0x3E, 0, S_3, T_FULL, 0, INTBW) \
  X(PMAXUD, 2, 1, 0x3F, 0, S_3, T_FULL, 0, INT) \
  X(PMAXUQ, 2, 1, 0x3F, 1, S_3, T_FULL, E, INT) \
  X(PABSB, 2, 1, 0x1C, 0, S_2, T_FULL, 0, INTBW) \
  X(PABSW, 2, 1, 0x1D, 0, S_2, T_FULL, 0, INTBW) \
  X(PABSD, 2, 1, 0x1E, 0, S_2, T_FULL, 0, INT) \
  X(PABSQ, 2, 1, 0x1F, 1, S_2, T_FULL, E, INT) \
  X(SRLW, 1, 1, 0x71, 0, S_SHI, T_FULL, 2 << DIGIT, INTBW) \
  X(SRAW, 1, 1, 0x71, 0, S_SHI, T_FULL, 4 << DIGIT, INTBW) \
  X(SLLW, 1, 1, 0x71, 0, S_SHI, T_FULL, 6 << DIGIT, INTBW) \
  X(SRLD, 1, 1, 0x72, 0, S_SHI, T_FULL, 2 << DIGIT, INT) \
  X(SRAD, 1, 1, 0x72, 0, S_SHI, T_FULL, 4 << DIGIT, INT) \
  X(SLLD, 1, 1, 0x72, 0, S_SHI, T_FULL, 6 << DIGIT, INT) \
  X(SRLQ, 1, 1, 0x73, 1, S_SHI, T_FULL, 2 << DIGIT, INT) \
  X(SRAQ, 1, 1, 0x72, 1, S_SHI, T_FULL, E | 4 << DIGIT, INT) \
  X(SLLQ, 1, 1, 0x73, 1, S_SHI, T_FULL, 6 << DIGIT, INT) \
  X(SLLVW, 2, 1, 0x12, 1, S_3, T_FULL, E, INTBW) \
  X(SLLVD, 2, 1, 0x47, 0, S_3, T_FULL, 0, AVX2) \
  X(SLLVQ, 2, 1, 0x47, 1, S_3, T_FULL, W, AVX2) \
  X(SRLVW, 2, 1, 0x10, 1, S_3, T_FULL, E, INTBW) \
  X(SRLVD, 2, 1, 0x45, 0, S_3, T_FULL, 0, AVX2) \
  X(SRLVQ, 2, 1, 0x45, 1, S_3, T_FULL, W, AVX2) \
  X(RORVD, 2, 1, 0x14, 0, S_3, T_FULL, E, FLOAT) \
  X(SRAVW, 2, 1, 0x11, 1, S_3, T_FULL, E, INTBW) \
  X(SRAVD, 2, 1, 0x46, 0, S_3, T_FULL, 0, AVX2) \
  X(SRAVQ, 2, 1, 0x46, 1, S_3, T_FULL, E, INT) \
  X(CMPBK, 3, 1, 0x3F, 0, S_3I, T_FULL, E, INTBW) \
  X(CMPWK, 3, 1, 0x3F, 1, S_3I, T_FULL, E, INTBW) \
  X(CMPDK, 3, 1, 0x1F, 0, S_3I, T_FULL, E, INT) \
  X(CMPQK, 3, 1, 0x1F, 1, S_3I, T_FULL, E, INT) \
  X(CMPUBK, 3, 1, 0x3E, 0, S_3I, T_FULL, E, INTBW) \
  X(CMPUWK, 3, 1, 0x3E, 1, S_3I, T_FULL, E, INTBW) \
  X(CMPUDK, 3, 1, 0x1E, 0, S_3I, T_FULL, E, INT) \
  X(CMPUQK, 3, 1, 0x1E, 1, S_3I, T_FULL, E, INT) \
  X(CMPEQB, 1, 1, 0x74, 0, S_3, T_FULL, NX, INT) \
  X(CMPEQW, 1, 1, 0x75, 0, S_3, T_FULL, NX, INT) \
  X(CMPEQD, 1, 1, 0x76, 0, S_3, T_FULL, NX, INT) \
  X(CMPEQQ, 2, 1, 0x29, 0, S_3, T_FULL, NX, INT) \
  X(CMPGTB, 1, 1, 0x64, 0, S_3, T_FULL, NX, INT) \
  X(CMPGTW, 1, 1, 0x65, 0, S_3, T_FULL, NX, INT) \
  X(CMPGTD, 1, 1, 0x66, 0, S_3, T_FULL, NX, INT) \
  X(CMPGTQ, 2, 1, 0x37, 0, S_3, T_FULL, NX, INT) \
  X(PACKSSDW, 1, 1, 0x6B, 0, S_3, T_FULL, NX, INT) \
  X(PACKSSWB, 1, 1, 0x63, 0, S_3, T_FULL, NX, INT) \
  X(PACKUSDW, 2, 1, 0x2B, 0, S_3, T_FULL, NX, INT) \
  X(PACKUSWB, 1, 1, 0x67, 0, S_3, T_FULL, NX, INT) \
  X(SHUFPS, 1, 0, 0xC6, 0, S_3I, T_FULL, 0, FLOAT) \
  X(BLENDMB, 2, 1, 0x66, 0, S_3, T_FULL, E, INTBW) \
  X(BLENDMW, 2, 1, 0x66, 1, S_3, T_FULL, E, INTBW) \
  X(BLENDMD, 2, 1, 0x64, 0, S_3, T_FULL, E, FLOAT) \
  X(BLENDMQ, 2, 1, 0x64, 1, S_3, T_FULL, E, FLOAT) \
  X(BLENDVPS, 3, 1, 0x4A, 0, S_3I, T_FULL, NX, FLOAT) \
  X(TESTMB, 2, 1, 0x26, 0, S_3, T_FULL, E, INTBW) \
  X(TESTMD, 2, 1, 0x27, 0, S_3, T_FULL, E, FLOAT) \
  X(MOVM2B, 2, 2, 0x28, 0, S_2, T_FULL, E, INTBW) \
  X(MOVM2W, 2, 2, 0x28, 1, S_2, T_FULL, E, INTBW) \
  X(MOVM2D, 2, 2, 0x38, 0, S_2, T_FULL, E, DQ) \
  X(MOVM2Q, 2, 2, 0x38, 1, S_2, T_FULL, E, DQ) \
  X(ZXBW, 2, 1, 0x30, 0, S_2, T_HALF, 0, INTBW) \
  X(ZXBD, 2, 1, 0x31, 0, S_2, T_QUARTER, 0, INT) \
  X(ZXBQ, 2, 1, 0x32, 0, S_2, T_EIGHTH, 0, INT) \
  X(ZXWD, 2, 1, 0x33, 0, S_2, T_HALF, 0, INT) \
  X(ZXWQ, 2, 1, 0x34, 0, S_2, T_QUARTER, 0, INT) \
  X(ZXDQ, 2, 1, 0x35, 0, S_2, T_HALF, 0, INT) \
  X(SXBW, 2, 1, 0x20, 0, S_2, T_HALF, 0, INTBW) \
  X(SXBD, 2, 1, 0x21, 0, S_2, T_QUARTER, 0, INT) \
  X(SXBQ, 2, 1, 0x22, 0, S_2, T_EIGHTH, 0, INT) \
  X(SXWD, 2, 1, 0x23, 0, S_2, T_HALF, 0, INT) \
  X(SXWQ, 2, 1, 0x24, 0, S_2, T_QUARTER, 0, INT) \
  X(SXDQ, 2, 1, 0x25, 0, S_2, T_HALF, 0, INT) \
  X(MOVDB, 2, 2, 0x31, 0, S_ST, T_QUARTER, E, FLOAT) \
  X(MOVDW, 2, 2, 0x33, 0, S_ST, T_HALF, E, FLOAT) \
  X(MOVQD, 2, 2, 0x35, 0, S_ST, T_HALF, E, FLOAT) \
  X(MOVQW, 2, 2, 0x34, 0, S_ST, T_QUARTER, E, FLOAT) \
  X(MOVQB, 2, 2, 0x32, 0, S_ST, T_EIGHTH, E, FLOAT) \
  X(MOVWB, 2, 2, 0x30, 0, S_ST, T_HALF, E, INTBW) \
  X(MOVUSDB, 2, 2, 0x11, 0, S_ST, T_QUARTER, E, FLOAT) \
  X(MOVUSDW, 2, 2, 0x13, 0, S_ST, T_HALF, E, FLOAT) \
  X(MOVSDB, 2, 2, 0x21, 0, S_ST, T_QUARTER, E, FLOAT) \
  X(MOVSDW, 2, 2, 0x23, 0, S_ST, T_HALF, E, FLOAT) \
  X(DQ2PS, 1, 0, 0x5B, 0, S_2, T_FULL, 0, FLOAT) \
  X(QQ2PS, 1, 0, 0x5B, 1, S_2, T_FULL, E, DQ) \
  X(TPS2DQ, 1, 2, 0x5B, 0, S_2, T_FULL, 0, FLOAT) \
  X(PS2DQ, 1, 1, 0x5B, 0, S_2, T_FULL, 0, FLOAT) \
  X(TPS2QQ, 1, 1, 0x7A, 0, S_2, T_HALF, E, DQ) \
  X(TPD2QQ, 1, 1, 0x7A, 1, S_2, T_FULL, E, DQ) \
  X(TPD2DQ, 1, 1, 0xE6, 1, S_2, T_FULL, 0, FLOAT) \
  X(PS2PD, 1, 0, 0x5A, 0, S_2, T_HALF, 0, FLOAT) \
  X(PD2PS, 1, 1, 0x5A, 1, S_2, T_FULL, 0, FLOAT) \
  X(QQ2PD, 1, 2, 0xE6, 1, S_2, T_FULL, E, DQ) \
  X(DQ2PD, 1, 2, 0xE6, 0, S_2, T_HALF, 0, FLOAT) \
  X(UQQ2PS, 1, 3, 0x7A, 1, S_2, T_FULL, E, DQ) \
  X(UDQ2PS, 1, 3, 0x7A, 0, S_2, T_FULL, E, FLOAT) \
  X(UQQ2PD, 1, 2, 0x7A, 1, S_2, T_FULL, E, DQ) \
  X(UDQ2PD, 1, 2, 0x7A, 0, S_2, T_HALF, E, FLOAT) \
  X(TPS2UDQ, 1, 0, 0x78, 0, S_2, T_FULL, E, FLOAT) \
  X(TPS2UQQ, 1, 1, 0x78, 0, S_2, T_HALF, E, DQ) \
  X(TPD2UQQ, 1, 1, 0x78, 1, S_2, T_FULL, E, DQ) \
  X(TPD2UDQ, 1, 0, 0x78, 1, S_2, T_FULL, E, FLOAT) \
  X(PH2PS, 2, 1, 0x13, 0, S_2, T_HALF, 0, F16C) \
  X(PS2PH, 3, 1, 0x1D, 0, S_STI, T_HALF, 0, F16C) \
  X(PS2BF, 2, 2, 0x72, 0, S_2, T_FULL, E, BF16) \
  X(TSS2SI, 1, 2, 0x2C, 1, S_2, T_N4, W, SCALAR) \
  X(TSD2SI, 1, 3, 0x2C, 1, S_2, T_N8, W, SCALAR) \
  X(SI2SS, 1, 2, 0x2A, 1, S_3, T_N8, W, SCALAR) \
  X(SI2SD, 1, 3, 0x2A, 1, S_3, T_N8, W, SCALAR) \
  X(SS2SD, 1, 2, 0x5A, 0, S_3, T_N4, 0, SCALAR) \
  X(SD2SS, 1, 3, 0x5A, 1, S_3, T_N8, 0, SCALAR) \
  X(EXTF128, 3, 1, 0x19, 0, S_STI, T_N16, 0, FLOAT) \
  X(EXTF64X4, 3, 1, 0x1B, 1, S_STI, T_N32, E, FLOAT) \
  X(INSF128, 3, 1, 0x18, 0, S_3I, T_N16, 0, FLOAT) \
  X(INSF64X4, 3, 1, 0x1A, 1, S_3I, T_N32, E, FLOAT) \
  X(UNPCKLQ, 1, 1, 0x6C, 1, S_3, T_FULL, 0, INT) \
  X(UNPCKLD, 1, 1, 0x62, 0, S_3, T_FULL, 0, INT) \
  X(PERMILPS, 3, 1, 0x04, 0, S_2I, T_FULL, 0, FLOAT) \
  X(UNPCKHQ, 1, 1, 0x6D, 1, S_3, T_FULL, 0, INT) \
  X(UNPCKHD, 1, 1, 0x6A, 0, S_3, T_FULL, 0, INT) \
  X(UNPCKLW, 1, 1, 0x61, 0, S_3, T_FULL, 0, INTBW) \
  X(UNPCKHW, 1, 1, 0x69, 0, S_3, T_FULL, 0, INTBW) \
  X(UNPCKLB, 1, 1, 0x60, 0, S_3, T_FULL, 0, INTBW) \
  X(UNPCKHB, 1, 1, 0x68, 0, S_3, T_FULL, 0, INTBW) \
  X(SHUFF128, 3, 1, 0x23, 0, S_3I, T_FULL, E, FLOAT) \
  X(PERM2F128, 3, 1, 0x06, 0, S_3I, T_FULL, NX, FLOAT) \
  X(PERMD, 2, 1, 0x36, 0, S_3, T_FULL, 0, AVX2) \
  X(PERMQ, 2, 1, 0x36, 1, S_3, T_FULL, E, FLOAT) \
  X(PERMW, 2, 1, 0x8D, 1, S_3, T_FULL, E, INTBW) \
  X(PERMI2D, 2, 1, 0x76, 0, S_3, T_FULL, E, FLOAT) \
  X(PERMI2Q, 2, 1, 0x76, 1, S_3, T_FULL, E, FLOAT) \
  X(PERMI2W, 2, 1, 0x75, 1, S_3, T_FULL, E, INTBW) \
  X(PERMI2B, 2, 1, 0x75, 0, S_3, T_FULL, E, VBMI) \
  X(GATHERDPS, 2, 1, 0x92, 0, S_2, T_N4, E, FLOAT) \
  X(GATHERDPD, 2, 1, 0x92, 1, S_2, T_N8, E, FLOAT) \
  X(GATHERQPS, 2, 1, 0x93, 0, S_2, T_N4, E, FLOAT) \
  X(GATHERQPD, 2, 1, 0x93, 1, S_2, T_N8, E, FLOAT) \
  X(SCATDPS, 2, 1, 0xA2, 0, S_ST, T_N4, E, FLOAT) \
  X(SCATDPD, 2, 1, 0xA2, 1, S_ST, T_N8, E, FLOAT) \
  X(SCATQPS, 2, 1, 0xA3, 0, S_ST, T_N4, E, FLOAT) \
  X(SCATQPD, 2, 1, 0xA3, 1, S_ST, T_N8, E, FLOAT) \
  X(KMOVQ, 1, 0, 0x90, 0, S_2, T_N8, NX | W, MASK) \
  X(KSTQ, 1, 0, 0x91, 0, S_ST, T_N8, NX | W, MASK) \
  X(KMOVGQ, 1, 3, 0x92, 0, S_2, T_N8, NX | W, MASK) \
  X(KMOVQG, 1, 3, 0x93, 0, S_2, T_N8, NX | W, MASK) \
  X(KAND, 1, 0, 0x41, 0, S_3, T_N8, NX | W | L1, MASK) \
  X(KANDN, 1, 0, 0x42, 0, S_3, T_N8, NX | W | L1, MASK) \
  X(KOR, 1, 0, 0x45, 0, S_3, T_N8, NX | W | L1, MASK) \
  X(KXNOR, 1, 0, 0x46, 0, S_3, T_N8, NX | W | L1, MASK) \
  X(KXOR, 1, 0, 0x47, 0, S_3, T_N8, NX | W | L1, MASK) \
  X(KNOT, 1, 0, 0x44, 0, S_2, T_N8, NX | W, MASK) \
  X(KSHR, 3, 1, 0x31, 0, S_2I, T_N8, NX | W, MASK) \
  X(KSHL, 3, 1, 0x33, 0, S_2I, T_N8, NX | W, MASK)
// clang-format on

enum {
#define X(name, xmm, ymm, evex, one) N_##name,
  NEEDS(X)
#undef X
};
typedef struct vneeds {
  uint32_t xmm;  /* bits IS_* of VEX with 128 bits; 0: there is no such form */
  uint32_t ymm;  /* bits IS_* of VEX with 256 bits; 0: there is no such form */
  uint32_t evex; /* bits IS_* of EVEX with 512 bits; 0: there is no such form */
  bool one;      /* works on one element: EVEX needs no IS_AVX512VL */
} vneeds;
typedef enum mop {
  M_NONE = 0,
#define X(name, map, pp, op, w, shape, tuple, flags, needs) V_##name,
  VOPS(X)
#undef X
      V_COUNT,
  /* Whole registers. LEA, LOAD* and STORE* have memory; the others registers or, where b is 0, an immediate */
  G_MOV = V_COUNT,
  G_LEA,
  G_LOAD8U,
  G_LOAD8S,
  G_LOAD16U,
  G_LOAD16S,
  G_LOAD32U,
  G_LOAD32S,
  G_LOAD64,
  G_STORE8,
  G_STORE16,
  G_STORE32,
  G_STORE64,
  G_SX8,
  G_SX16,
  G_SX32,
  G_ZX8,
  G_ZX16,
  G_ZX32, /* d = b extended */
  G_ADD,
  G_SUB,
  G_AND,
  G_OR,
  G_EOR,
  G_IMUL,
  G_NEG,
  G_NOT,
  G_SHL,
  G_SHR,
  G_SAR /* by the immediate */,
  G_SHLX,
  G_SHRX,
  G_SARX,
  G_BZHI,
  G_CMP,
  G_TEST,
  G_SETCC,
  G_CMOV /* d = cc ? b : a */,
  G_DIV,
  G_IDIV /* rdx:rax by b; imm 1: the remainder */,
  G_MULH /* the upper half of a signed product */,
  G_FMOD /* d = remainder of a by b in x87 registers; imm: bytes of an element; m: a slot of 16 bytes */,
  G_PREFETCH,
  G_LABEL,
  G_JMP,
  G_JCC,
  G_CALL,
  G_SYMBOL /* d = address of the symbol imm */,
  G_ARG /* d comes in the register imm */,
  G_RESULT /* the result is a or imm */,
  G_RET,
  G_DEPTH /* imm: loops around from here on */,
  X_DECLARED /* and from here on: x86_code.declared */
} mop;
typedef struct vdesc {
  uint8_t map;      /* opcode map: 1: 0F, 2: 0F38, 3: 0F3A */
  uint8_t pp;       /* prefix: 0: none, 1: 66, 2: F3, 3: F2 */
  uint8_t op;       /* opcode */
  uint8_t w;        /* W of EVEX */
  uint8_t shape;    /* S_*: which operands it has */
  uint8_t tuple;    /* T_*: the unit of a displacement of one byte */
  uint8_t flags;    /* E, W, NX, L1, SD, and the digit shifted by DIGIT */
  uint8_t needs;    /* N_*: a row of NEEDS */
  const char *name; /* for messages */
} vdesc;
extern const vdesc x86_vops[V_COUNT];
/* An instruction that the target declares. */
typedef struct x86_declared {
  vdesc desc;            /* its encoding, with the vneeds NONE */
  const instruction *by; /* the declaration */
} x86_declared;
/* a vector or mask instruction */
static inline bool x86_is_vector(unsigned op) { return op < V_COUNT || op >= X_DECLARED; }
enum { CC_B = 2, CC_AE, CC_E, CC_NE, CC_BE, CC_A, CC_S, CC_NS, CC_P, CC_NP, CC_L, CC_GE, CC_LE, CC_G };

enum { AM_NONE, AM_ADDR, AM_POOL /* disp: where in the pool */, AM_SLOT /* disp: which slot */ };
/* An operand in memory. */
typedef struct amem {
  uint8_t kind;  /* AM_* */
  uint8_t scale; /* factor of index: 1, 2, 4 or 8; AM_SLOT: which 8 bytes of the slot */
  uint8_t root;  /* accesses with different ones do not meet; 0: not known */
  vr base;       /* address register; 0: none */
  vr index;      /* index register; 0: none */
  int32_t disp;  /* bytes added; AM_POOL: place in the pool; AM_SLOT: number of the slot */
} amem;
enum { ROOTS = 64 };
enum {
  F_BCAST = 1,
  F_ZERO = 2 /* masked lanes become 0 */,
  F_EARLY = 4 /* d must differ from the sources */,
  F_RMW = 8 /* d is read, too */,
  F_VINDEX = 16 /* m.index is a vector */
};
typedef struct mi {
  uint16_t op;   /* mop */
  uint8_t vl;    /* VL* */
  uint8_t flags; /* F_* */
  uint8_t cc;    /* CC_*, of SETCC, CMOV and JCC */
  vr d;          /* result; 0: none */
  vr a;          /* first operand; 0: none */
  vr b;          /* second operand; 0: none or in memory */
  vr c;          /* third operand; 0: none */
  vr k;          /* mask register; 0: all lanes */
  amem m;        /* operand in memory */
  /* immediate; labels (b: of an inner loop, c: its rounds, if known); calls: the symbol */
  int64_t imm;
  vr args[4]; /* G_CALL: its arguments */
} mi;
typedef VEC(mi) mis;

/* ---- one function ---------------------------------------------------------------------------- */
typedef struct vinfo {
  uint8_t cls;        /* RG, RV or RK */
  uint8_t vl;         /* VL*, where cls is RV */
  uint16_t depth;     /* region that it is made in */
  uint32_t pool;      /* 1 + place in the pool that it was loaded from; 0: not from there */
  uint8_t pool_bcast; /* bytes of the element there; 0: all */
  bool zero;          /* it is 0 in all lanes */
  int64_t imm;        /* the value, where is_imm */
  bool is_imm;        /* it is a constant */
} vinfo;
typedef struct x86_code {
  ctx *c;                     /* context */
  arena *a;                   /* memory of the code */
  mis code;                   /* the instructions, in order */
  VEC(vinfo) v;               /* the virtual registers; [0] unused */
  sbuf pool;                  /* constants, which stand behind the code */
  strvec symbols;             /* names of functions that are called or whose address is taken */
  uint32_t labels;            /* number of labels */
  VEC(x86_declared) declared; /* instructions of the target that the code takes */
  VEC(uint32_t) slots;        /* bytes of each stack slot; they come before those of the allocator */
  bool wide;                  /* uses vectors of 256 bits or more */
  bool avx512;                /* the target has AVX-512 */
  bool calls;                 /* there are calls */
  uint32_t saved;             /* callee-saved registers to keep, as bits */
} x86_code;
static inline const vdesc *x86_vop(const x86_code *x, unsigned op) {
  return op < V_COUNT ? &x86_vops[op] : &x->declared.v[op - X_DECLARED].desc;
}
/* allocate.c: registers of the machine in place of virtual ones. False: cannot. */
bool x86_allocate(x86_code *x);
/* encode.c */
typedef struct x86_reloc {
  uint32_t at;     /* offset in the text of the 4 bytes that are filled in */
  uint32_t symbol; /* index into the symbols */
  bool call;       /* the place belongs to a call; else to an address */
} x86_reloc;
typedef struct x86_text {
  sbuf text;             /* the machine code, and the constants behind it */
  uint32_t code;         /* bytes of the machine code */
  uint32_t needs;        /* instruction sets of what was written: bits IS_* */
  VEC(x86_reloc) relocs; /* places that the linker fills in */
} x86_text;
void x86_encode(const x86_code *x, x86_text *out);
/* select.c: false: *why says what is not known. */
bool x86_select(ctx *c, arena *a, const lfunc *f, const target *t, const char *(*symbol)(void *env, const char *func),
                void *env, x86_code *out, const char **why);
#endif
