/* Which instruction sets does this processor have? One table of those that a code generator uses of its own accord,
 * with the bit that announces each; the system must also save the registers that it needs. Saved models ask here
 * before their code runs, so that one made for another processor says so. */
#include "runtime/cpu.h"
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
enum { AX, BX, CX, DX };
enum { PLAIN, YMM, ZMM, APX }; /* what the system must save at a task switch */
enum { L1, L7, L7_1, LX, LEAVES };
static const uint32_t leaves[LEAVES][2] = {{1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}};
static const struct {
  const char *name;  /* name of the instruction set */
  const char *lacks; /* the message where a processor does not have it */
  uint32_t leaf;     /* index into LEAVES of the CPUID leaf */
  uint32_t reg;      /* register of that leaf */
  uint32_t bit;      /* bit of that register */
  uint32_t state;    /* what the system must save for it: PLAIN, YMM, ZMM or APX */
} flags[] = {
#define F(name, leaf, reg, bit, state)                                                                                 \
  {name, "the model was compiled for processors with " name ", which this one does not have", leaf, reg, bit, state}
    F("sse2", L1, DX, 26, PLAIN),
    F("sse3", L1, CX, 0, PLAIN),
    F("ssse3", L1, CX, 9, PLAIN),
    F("sse4.1", L1, CX, 19, PLAIN),
    F("sse4.2", L1, CX, 20, PLAIN),
    F("popcnt", L1, CX, 23, PLAIN),
    F("movbe", L1, CX, 22, PLAIN),
    F("avx", L1, CX, 28, YMM),
    F("fma", L1, CX, 12, YMM),
    F("f16c", L1, CX, 29, YMM),
    F("avx2", L7, BX, 5, YMM),
    F("bmi", L7, BX, 3, PLAIN),
    F("bmi2", L7, BX, 8, PLAIN),
    F("lzcnt", LX, CX, 5, PLAIN),
    F("xop", LX, CX, 11, YMM),
    F("fma4", LX, CX, 16, YMM),
    F("tbm", LX, CX, 21, PLAIN),
    F("gfni", L7, CX, 8, PLAIN),
    F("avx512f", L7, BX, 16, ZMM),
    F("avx512dq", L7, BX, 17, ZMM),
    F("avx512ifma", L7, BX, 21, ZMM),
    F("avx512cd", L7, BX, 28, ZMM),
    F("avx512bw", L7, BX, 30, ZMM),
    F("avx512vl", L7, BX, 31, ZMM),
    F("avx512vbmi", L7, CX, 1, ZMM),
    F("avx512vbmi2", L7, CX, 6, ZMM),
    F("avx512vnni", L7, CX, 11, ZMM),
    F("avx512bitalg", L7, CX, 12, ZMM),
    F("avx512vpopcntdq", L7, CX, 14, ZMM),
    F("avx512fp16", L7, DX, 23, ZMM),
    F("avx512bf16", L7_1, AX, 5, ZMM),
    F("avxvnni", L7_1, AX, 4, YMM),
    F("avxvnniint8", L7_1, DX, 4, YMM),
    F("avxvnniint16", L7_1, DX, 10, YMM),
    F("avx10.1", L7_1, DX, 19, ZMM),
    F("apxf", L7_1, DX, 21, APX),
#undef F
};
typedef struct cpu {
  uint32_t r[LEAVES][4]; /* registers of each CPUID leaf */
  uint64_t saved;        /* XCR0: what the system saves */
} cpu;
static cpu this_cpu(void) {
  cpu c = {0};
  for (int i = 0; i < LEAVES; i++)
    if (!__get_cpuid_count(leaves[i][0], leaves[i][1], &c.r[i][AX], &c.r[i][BX], &c.r[i][CX], &c.r[i][DX]))
      memset(c.r[i], 0, sizeof c.r[i]);
  if (c.r[L1][CX] >> 27 & 1) {
    uint32_t lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    c.saved = (uint64_t)hi << 32 | lo;
  }
  return c;
}
static int has(const cpu *c, int i) {
  static const uint64_t needs[] = {0, 6, 0xe6, 1u << 19};
  uint64_t need = needs[flags[i].state];
  return (c->r[flags[i].leaf][flags[i].reg] >> flags[i].bit & 1) && (c->saved & need) == need;
}
int ek_rt_cpu_flags(const char *names[EK_RT_CPU_FLAGS], unsigned char out[EK_RT_CPU_FLAGS]) {
  enum { N = sizeof flags / sizeof *flags };
  _Static_assert((int)N <= (int)EK_RT_CPU_FLAGS, "there is room for all");
  cpu c = this_cpu();
  for (int i = 0; i < N; i++) names[i] = flags[i].name, out[i] = (unsigned char)has(&c, i);
  return N;
}
static const char *lacks(const cpu *c, const char *flag, size_t n) {
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (strlen(flags[i].name) == n && !memcmp(flags[i].name, flag, n)) return has(c, (int)i) ? NULL : flags[i].lacks;
  return "the model was compiled for processors with instructions that are not known here";
}
#else
typedef int cpu;
static cpu this_cpu(void) { return 0; }
int ek_rt_cpu_flags(const char *names[EK_RT_CPU_FLAGS], unsigned char out[EK_RT_CPU_FLAGS]) {
  return (void)names, (void)out, 0;
}
static const char *lacks(const cpu *c, const char *flag, size_t n) {
  return (void)c, (void)flag, (void)n,
         "the model was compiled for processors with instructions that are not known here";
}
#endif
const char *ek_rt_cpu_lacks(const char *needed) {
  cpu c = this_cpu();
  for (const char *s = needed; *(s += strspn(s, " ")); s += strcspn(s, " ")) {
    const char *why = lacks(&c, s, strcspn(s, " "));
    if (why) return why;
  }
  return NULL;
}
