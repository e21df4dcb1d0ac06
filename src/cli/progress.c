/* A bar on the terminal when a step takes over a second; nothing when stderr is no terminal. The state is the terminal's, so there is one of it. */
#include "cli/cli.h"
#include <string.h>
#include <unistd.h>

static struct { double since; bool drawn, on; } bar;

static int step(void *user, const char *phase, double done) {
  (void)user;
  if (!bar.on || now_ms() - bar.since < 1000) return 0;
  char fill[31];
  int n = (int)(done * 30 + 0.5);
  memset(fill, ' ', 30);
  if (n > 0) memset(fill, '=', n > 30 ? 30 : (size_t)n);
  fill[30] = 0;
  fprintf(stderr, "\r\033[K[%s] %s", fill, phase);
  bar.drawn = true;
  return 0;
}
void progress_begin(cli *k) {
  bar.on = isatty(2) && !k->quiet;
  bar.since = now_ms();
  ek_set_progress(k->s, step, NULL);
}
void progress_clear(void) {
  if (bar.drawn) fputs("\r\033[K", stderr);
  bar.drawn = false;
}
