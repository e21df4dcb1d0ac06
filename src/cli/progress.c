/* A bar on the terminal when a step takes over a second; nothing when stderr is no terminal. The library tells the
 * phases as it comes to them; a thread of ours draws, so that the bar also moves within a long phase. The state is the
 * terminal's, so there is one of it. */
#include "cli/cli.h"
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 30 };
static struct {
  pthread_mutex_t lock; /* guards all others */
  pthread_cond_t wake;  /* tells the thread to end */
  pthread_t thread;     /* draws the bar */
  bool on;              /* the thread runs */
  bool drawn;           /* the bar stands on the terminal */
  bool end;             /* the thread is to end */
  double since;         /* when the step began, milliseconds */
  double done;          /* part of the step that is done, 0..1 */
  char phase[64];       /* name of the step */
  char detail[256];     /* what is told of it */
} bar = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void draw(unsigned turn) { /* Draws the bar. The lock is held. */
  char fill[WIDTH + 1];
  int n = (int)(bar.done * WIDTH + 0.5);
  memset(fill, ' ', WIDTH);
  if (n > 0) memset(fill, '=', n > WIDTH ? WIDTH : (size_t)n);
  if (n < WIDTH) fill[n > 0 ? n : 0] = "|/-\\"[turn % 4];
  fill[WIDTH] = 0;
  fprintf(stderr, "\r\033[K[%s] %s %.0f s", fill, bar.detail[0] ? bar.detail : bar.phase,
          (now_ms() - bar.since) / 1000);
  bar.drawn = true;
}
static void *drawing(void *unused) {
  (void)unused;
  pthread_mutex_lock(&bar.lock);
  for (unsigned turn = 0; !bar.end; turn++) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 150000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&bar.wake, &bar.lock, &t);
    if (!bar.end && bar.phase[0] && now_ms() - bar.since > 1000) draw(turn);
  }
  pthread_mutex_unlock(&bar.lock);
  return NULL;
}
static void set(const char *phase, const char *detail, double done) {
  if (!bar.on) return;
  pthread_mutex_lock(&bar.lock);
  if (strncmp(bar.phase, phase, sizeof bar.phase - 1) != 0)
    snprintf(bar.phase, sizeof bar.phase, "%s", phase), bar.since = now_ms();
  snprintf(bar.detail, sizeof bar.detail, "%s", detail);
  bar.done = done;
  if (done >= 1) bar.phase[0] = 0;
  pthread_mutex_unlock(&bar.lock);
}
static int step(void *user, const char *phase, double done) {
  (void)user;
  set(phase, "", done);
  return 0;
}
static void clear(void) { /* Removes the bar. The lock is held. */
  if (bar.drawn) fputs("\r\033[K", stderr);
  bar.drawn = false;
}
void progress_begin(cli *k) {
  if (k->quiet || !isatty(2) || pthread_create(&bar.thread, NULL, drawing, NULL)) return;
  bar.on = true;
  ek_set_progress(k->s, step, NULL);
}
void progress_detail(const char *phase, const char *detail, double done) { set(phase, detail, done); }
void progress_phase(const char *phase, double done) { step(NULL, phase, done); }
void progress_clear(void) {
  if (!bar.on) return;
  pthread_mutex_lock(&bar.lock);
  clear();
  bar.phase[0] = 0;
  pthread_mutex_unlock(&bar.lock);
}
void progress_end(void) {
  if (!bar.on) return;
  pthread_mutex_lock(&bar.lock);
  clear();
  bar.end = true;
  pthread_cond_signal(&bar.wake);
  pthread_mutex_unlock(&bar.lock);
  pthread_join(bar.thread, NULL);
  bar.on = false;
}
