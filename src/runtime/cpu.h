/* Private to the runtime, and to src/target: what can this processor do? */
#ifndef EK_RUNTIME_CPU_H
#define EK_RUNTIME_CPU_H
#include <stddef.h>
enum { EK_RT_CPU_FLAGS = 64 };
/* The instruction sets that a code generator uses of its own accord: their names, and whether this processor has
 * them and the system saves their registers. How many. */
int ek_rt_cpu_flags(const char *names[EK_RT_CPU_FLAGS], unsigned char has[EK_RT_CPU_FLAGS]);
/* needed: names, spaces between. NULL, or a text about one that is missing or not known. */
const char *ek_rt_cpu_lacks(const char *needed);
#endif
