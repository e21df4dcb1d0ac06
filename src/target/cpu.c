/* What can this processor do, as texts: from the runtime's table (runtime/cpu.c) come what a target file `requires`,
 * what compiled code needs of the machine that loads it, and a text that differs between machines for which
 * code may differ. */
#include "runtime/cpu.h"
#include "target/target.h"
#include <stdlib.h>
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
/* This processor's vendor, family and model, as its maker numbers them; false: not known. */
static bool this_cpu(char vendor[13], uint32_t *family, uint32_t *model) {
#if defined(__x86_64__)
  uint32_t v[3], id, unused;
  if (!__get_cpuid(0, &unused, &v[0], &v[2], &v[1]) || !__get_cpuid(1, &id, &unused, &unused, &unused)) return false;
  memcpy(vendor, v, 12);
  vendor[12] = 0;
  *family = id >> 8 & 15, *model = id >> 4 & 15;
  if (*family == 15 || *family == 6) *model |= id >> 12 & 0xf0;
  if (*family == 15) *family += id >> 20 & 0xff;
  return true;
#else
  return (void)vendor, (void)family, (void)model, false;
#endif
}
/* The number at *s, decimal or 0x.., and what follows it; false: there is none. */
static bool number(const char **s, uint32_t *n) {
  enum { MOST = 1 << 16 };
  char *end;
  if (**s < '0' || **s > '9') return false;
  unsigned long v = strtoul(*s, &end, 0);
  *s = end, *n = (uint32_t)v;
  return v < MOST;
}
bool cpu_is(const char *processors, bool *good) {
  char vendor[13] = "";
  uint32_t family = 0, model = 0, of, from, to;
  bool known = this_cpu(vendor, &family, &model), found = false, any = false;
  size_t n = strcspn(processors, " ");
  const char *s = processors + n + strspn(processors + n, " ");
  *good = true;
  if (!n) return false;
  if (!number(&s, &of) || (*s && *s != ' ')) return *good = false;
  known = known && of == family && strlen(vendor) == n && !memcmp(vendor, processors, n);
  while (*(s += strspn(s, " "))) {
    any = true;
    if (!number(&s, &from)) return *good = false;
    to = from;
    if (*s == '-' && (s++, !number(&s, &to))) return *good = false;
    if ((*s && *s != ' ') || to < from) return *good = false;
    found |= from <= model && model <= to;
  }
  return known && (found || !any || EK_PLANTED("target-processors"));
}
uint32_t cpu_datapath(void) {
#if defined(__x86_64__)
  uint32_t can, unused; /* AMD's "performance optimization identifiers": FP128, MOVU, FP256, FP512 */
  if (__get_cpuid(0x8000001a, &can, &unused, &unused, &unused))
    return can & 8 ? 512 : can & 4 ? 256 : can & 1 ? 128 : 0;
#endif
  return 0;
}
const char *cpu_flag_lacking(arena *a, const char *flags, const char *among) {
  for (size_t n; *(flags += strspn(flags, " ")); flags += n) {
    const char *at = among;
    size_t m;
    n = strcspn(flags, " ");
    for (; *(at += strspn(at, " ")); at += m) {
      m = strcspn(at, " ");
      if (m == n && !memcmp(at, flags, n)) break;
    }
    if (!*at) return arena_strndup(a, flags, n);
  }
  return NULL;
}
const char *cpu_flags_joined(arena *a, const char *x, const char *y) {
  for (const char *flag; (flag = cpu_flag_lacking(a, y, x));) x = arena_fmt(a, "%s%s%s", x, *x ? " " : "", flag);
  return x;
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
