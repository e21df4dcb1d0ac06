/* What can this processor do, as texts: from the runtime's table (runtime/cpu.c) come what a target file `requires`,
 * what compiled code needs of the machine that loads it, and a text that differs between machines for which
 * code may differ. */
#include "runtime/cpu.h"
#include "target/target.h"
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

const char *cpu_flags(arena *a) {
  const char *names[EK_RT_CPU_FLAGS];
  unsigned char has[EK_RT_CPU_FLAGS];
  int n = ek_rt_cpu_flags(names, has);
  sbuf b = sbuf_new(a);
  for (int i = 0; i < n; i++)
    if (has[i]) sb_fmt(&b, "%s%s", b.n ? " " : "", names[i]);
  return b.s ? b.s : "";
}
const char *cpu_identity(arena *a) {
#if defined(__x86_64__)
  uint32_t v[4] = {0}, model = 0, unused;
  __get_cpuid(0, &unused, &v[0], &v[2], &v[1]);
  __get_cpuid(1, &model, &unused, &unused, &unused);
  return arena_fmt(a, "x86-64 %.12s %x: %s", (const char *)v, model, cpu_flags(a));
#else
  return arena_fmt(a, "not known: %s", cpu_flags(a));
#endif
}
uint32_t cpu_datapath(void) {
#if defined(__x86_64__)
  uint32_t can, unused; /* AMD's "performance optimization identifiers": FP128, MOVU, FP256, FP512 */
  if (__get_cpuid(0x8000001a, &can, &unused, &unused, &unused))
    return can & 8 ? 512 : can & 4 ? 256 : can & 1 ? 128 : 0;
#endif
  return 0;
}
bool cpu_meets(const char *requires, const char **missing, size_t *n) {
  const char *names[EK_RT_CPU_FLAGS];
  unsigned char has[EK_RT_CPU_FLAGS];
  int all = ek_rt_cpu_flags(names, has);
  for (const char *s = requires; *(s += strspn(s, " ")); s += *n) {
    *missing = s, *n = strcspn(s, " ");
    int i = 0;
    while (i < all && !(has[i] && strlen(names[i]) == *n && !memcmp(names[i], s, *n))) i++;
    if (i == all) return false;
  }
  return true;
}
