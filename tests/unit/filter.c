/* Which tests of a program run? With EK_TEST=PATTERN in the environment those whose names match it (`*` any
 * characters, `?` one); without it all. It is linked to every unit test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

__attribute__((constructor)) static void filter(void) {
  const char *pattern = getenv("EK_TEST");
  if (pattern) cmocka_set_test_filter(pattern);
}
