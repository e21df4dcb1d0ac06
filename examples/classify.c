/* Einkorn's C API from start to end: loads an ONNX model, compiles it in this process, and asks it which digits are
 * on pictures.
 *
 *   classify MODEL.onnx PICTURE.pgm...
 *
 * Build against an installed Einkorn:  cc classify.c -leinkorn -o classify
 * Exit code 0 when all pictures could be classified.
 */
#define _POSIX_C_SOURCE 199309L
#include <einkorn/einkorn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE };

static double milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* A text PGM (P2) of 8x8 pixels: 0 is paper. Returns 0 when the file is something else. */
static int next_number(FILE *f, int *n) {
  int c = fgetc(f);
  while (c == '#' || c == ' ' || c == '\n' || c == '\r' || c == '\t') {
    if (c == '#')
      while (c != '\n' && c != EOF) c = fgetc(f);
    c = fgetc(f);
  }
  ungetc(c, f);
  return fscanf(f, "%d", n) == 1;
}
static int read_picture(const char *path, float *pixels) {
  int width = 0, height = 0, top = 0, ok = 0;
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  if (fgetc(f) == 'P' && fgetc(f) == '2' && next_number(f, &width) && next_number(f, &height) && next_number(f, &top))
    ok = width == SIDE && height == SIDE && top > 0;
  for (int i = 0; ok && i < PIXELS; i++) {
    int v;
    ok = next_number(f, &v);
    if (ok) pixels[i] = (float)v;
  }
  fclose(f);
  return ok;
}
static void show_picture(const float *p) { /* two columns a pixel, five shades */
  static const char *const shades[] = {"  ", "\xe2\x96\x91\xe2\x96\x91", "\xe2\x96\x92\xe2\x96\x92",
                                       "\xe2\x96\x93\xe2\x96\x93", "\xe2\x96\x88\xe2\x96\x88"};
  for (int y = 0; y < SIDE; y++) {
    fputs("    ", stdout);
    for (int x = 0; x < SIDE; x++) {
      int s = (int)(p[y * SIDE + x] * 4 / 16 + 0.5f);
      fputs(shades[s < 0 ? 0 : s > 4 ? 4 : s], stdout);
    }
    putchar('\n');
  }
}

/* Runs the model on one picture; -1 and a message on failure. */
static int classify(ek_run *run, const float *pixels, float *sure) {
  if (ek_run_bind_input(run, 0, pixels) || ek_run_execute(run)) {
    fprintf(stderr, "%s\n", ek_run_message(run));
    return -1;
  }
  const float *scores = ek_run_output_data(run, 0);
  int best = 0;
  for (int i = 1; i < 10; i++)
    if (scores[i] > scores[best]) best = i;
  *sure = scores[best];
  return best;
}
static double time_of_a_run(ek_run *run) { /* the best of some rounds of 100 */
  double best = 1e9;
  for (int round = 0; round < 20; round++) {
    double t = milliseconds();
    for (int i = 0; i < 100; i++) ek_run_execute(run);
    t = (milliseconds() - t) / 100;
    if (t < best) best = t;
  }
  return best;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: classify MODEL.onnx PICTURE.pgm...\n");
    return 2;
  }
  /* 1. A session owns everything; ending it ends all handles. */
  ek_session *session = ek_session_create();
  if (!session) return 1;
  ek_model *model;
  ek_module *module;
  ek_run *run;

  /* 2. The model, compiled for this machine. One thread is best for something so small. */
  ek_options options;
  ek_options_init(&options);
  options.threads = 1;
  double t = milliseconds();
  if (ek_load(session, argv[1], &model) || ek_compile(model, &options, &module)) {
    fprintf(stderr, "%s\n", ek_message(session));
    ek_session_destroy(session);
    return 1;
  }
  double compile_ms = milliseconds() - t;

  /* 3. A run is the place where the module works. The model leaves the number of pictures open: one at a time here. */
  const int64_t dims[] = {1, 1, SIDE, SIDE};
  if (ek_run_create(module, 0, &run) || ek_run_shape(run, 0, dims, 4) || ek_run_prepare(run)) {
    fprintf(stderr, "%s\n", run ? ek_run_message(run) : ek_message(session));
    ek_session_destroy(session);
    return 1;
  }

  /* 4. Pictures in, digits out. */
  int bad = 0;
  for (int i = 2; i < argc; i++) {
    float pixels[PIXELS], sure;
    if (!read_picture(argv[i], pixels)) {
      fprintf(stderr, "%s is not a text PGM of 8x8 pixels\n", argv[i]);
      bad++;
      continue;
    }
    int digit = classify(run, pixels, &sure);
    if (digit < 0) {
      bad++;
      continue;
    }
    show_picture(pixels);
    printf("  %s: a %d, sure to %.1f%%\n\n", argv[i], digit, sure * 100);
  }

  /* 5. What it took. */
  ek_report report;
  ek_module_report(module, &report);
  printf("compiled in %.1f ms; %.4f ms a run; working memory %lld bytes (%s)\n", compile_ms, time_of_a_run(run),
         (long long)ek_run_memory(run), report.memory);
  ek_session_destroy(session);
  return bad ? 1 : 0;
}
