/* Instructions as data: what a target file declares of each, read and checked (instruction.c, formula.c).
 *
 * An instruction adds to each lane of a vector, the accumulator, one term, or the sum of a group of terms:
 *   c[i] + sum[k] f(a[i, k], b[i, k], ..)           i: the lane; k: the place in the group
 * Each operand but the accumulator has a group of elements in each lane, side by side, so that a lane is one word of
 * `group` elements. f is a formula of scalar operations, in the notation. Schedules find the sums that an instruction
 * computes by the formula (schedule/instruction.c); an emitter writes it by the name that LLVM has for it, by its
 * encoding for x86, or spells the formula (codegen/spell.c). */
#ifndef EK_TARGET_INSTRUCTION_H
#define EK_TARGET_INSTRUCTION_H
#include "base/base.h"
#include "expr/ops.h"

/* The keys of an instruction in a target file, in the order in which they are printed.
 * X(id, key, must it be given, meaning) */
#define INSTRUCTION_KEYS(X)                                                                                            \
  X(OPERANDS, "operands", true,                                                                                        \
    "names, element types and sizes: `c: i32[16], a: u8[16, 4], b: i8[16, 4]`. The first one is read and written: "    \
    "the "                                                                                                             \
    "accumulator, with one element in each lane. Each of the others has a group of elements in each lane, side by "    \
    "side "                                                                                                            \
    "(`[16]`: one)")                                                                                                   \
  X(FORMULA, "formula", true,                                                                                          \
    "what lane `i` of the accumulator becomes, in the [notation](notation.md): `c[i] + sum[k] i32(a[i, k]) * "         \
    "i32(b[i, k])`")                                                                                                   \
  X(NEEDS, "needs", false, "CPU flags that it takes; it is used where `requires` of the target has all of them")       \
  X(PER_CYCLE, "per_cycle", true, "how many start in a cycle")                                                         \
  X(LATENCY, "latency", true, "cycles until the next one can add to the same accumulator")                             \
  X(LLVM, "llvm", false,                                                                                               \
    "LLVM's intrinsic, and the operands in its order: `llvm.x86.avx512.vpdpbusd.512 c a b`. Of an intrinsic for "      \
    "several types the name says which. Without the accumulator: what it gives is added to it. Empty: LLVM gets the "  \
    "formula")                                                                                                         \
  X(X86, "x86", false,                                                                                                 \
    "the encoding as the processor's manual has it, and the operands of ModRM.reg (the accumulator), VEX.vvvv and "    \
    "ModRM.r/m: `EVEX.512.66.0F38.W0 50 /r c a b/m32bcst`; `/m32bcst`, `/m64bcst`: it may be a word in memory for "    \
    "all "                                                                                                             \
    "lanes. `VEX.256.66.0F.WIG F5 /r a b`, without the accumulator: what it gives is added to it. Empty: left to "     \
    "LLVM")
enum {
#define X(id, key, must, about) IK_##id,
  INSTRUCTION_KEYS(X)
#undef X
      IK_COUNT
};

enum { INSTRUCTION_OPERANDS = 4 };
typedef struct instruction_operand {
  const char *name; /* name in the formula */
  etype type;       /* type of its elements */
} instruction_operand;
typedef enum { IN_OPERAND = 1, IN_CONST, IN_OP } instruction_kind;
/* A value of the formula, at one lane and one place of the group. */
typedef struct instruction_node {
  instruction_kind kind;
  etype type;       /* type of the value */
  sop op;           /* IN_OP: the operation */
  uint32_t operand; /* IN_OPERAND: which one */
  scalar k;         /* IN_CONST: the constant */
  uint32_t args[3]; /* IN_OP: values that come before this one */
} instruction_node;
/* How x86-64 writes it. */
typedef struct instruction_encoding {
  uint32_t bits;     /* of a vector; 0: there is no encoding */
  bool vex;          /* VEX; else EVEX */
  uint8_t prefix;    /* 0: none, 1: 66, 2: F3, 3: F2 */
  uint8_t map;       /* opcode map: 1: 0F, 2: 0F38, 3: 0F3A, 5, 6 */
  uint8_t w;         /* W */
  uint8_t opcode;    /* the byte */
  uint8_t broadcast; /* bytes of a word of the last operand that may be read for all lanes; 0: it may not */
  bool added;        /* the accumulator is left out: what it gives is added to it */
  uint8_t order[3];  /* operands: the accumulator, VEX.vvvv, ModRM.r/m */
} instruction_encoding;
typedef struct instruction {
  const char *name;           /* name in the target file */
  const char *text[IK_COUNT]; /* the values of its keys; NULL: not given */
  uint32_t line[IK_COUNT];    /* the lines of these in their file */
  srcpos pos;                 /* where it begins */
  bool usable;                /* the target has the CPU flags that it needs */
  uint32_t lanes;             /* lanes of the accumulator */
  uint32_t group;             /* terms that it adds to each of them */
  uint32_t noperands;         /* number of operands; number 0 is the accumulator */
  instruction_operand operands[INSTRUCTION_OPERANDS];
  uint32_t nnodes;                          /* values of the formula */
  const instruction_node *nodes;            /* each after those that it is made of; the last one is the term */
  bool symmetric;                           /* the term is the same with the last two of three operands exchanged */
  double per_cycle;                         /* how many start in a cycle */
  uint32_t latency;                         /* cycles */
  const char *llvm;                         /* name of LLVM's intrinsic; NULL: there is none */
  uint32_t nllvm;                           /* operands of that: perhaps without the accumulator */
  uint8_t llvm_order[INSTRUCTION_OPERANDS]; /* its operands */
  instruction_encoding x86;                 /* encoding for x86-64 */
} instruction;
struct emodule;
/* formula.c: the formula as a module of its own: inputs in[noperands], of which the stage of *out is made. false:
 * diagnostics say why not */
bool instruction_stage(struct emodule *m, const instruction *k, uint32_t *in, uint32_t *out);
/* may the operands of an operation change places? */
static inline bool instruction_commutes(sop op) {
  return op == OP_ADD || op == OP_MUL || op == OP_MIN || op == OP_MAX || op == OP_BAND || op == OP_BOR || op == OP_BXOR;
}
/* bytes of a lane of an operand: one element of the accumulator, a group of another one */
static inline uint32_t instruction_word(const instruction *k, uint32_t operand) {
  const uint32_t bytes = et_bytes(k->operands[operand].type);
  return !operand ? bytes : bytes * k->group;
}
/* registers that it takes beyond its operands: for the terms, where another instruction adds them */
static inline uint32_t instruction_scratch(const instruction *k) {
  return k->x86.bits ? k->x86.added : k->llvm && k->nllvm < k->noperands;
}
/* terms that start in a cycle */
static inline double instruction_speed(const instruction *k) { return k->per_cycle * k->lanes * k->group; }
#endif
