/* Is this the fault that was asked for? Only in builds that plant faults; see base.h. */
#include "base/base.h"
#ifdef EK_PLANTS
#include <stdlib.h>
#include <string.h>
bool ek_planted(const char *name) {
  const char *wanted = getenv("EK_PLANT");
  return wanted && !strcmp(wanted, name);
}
#endif
