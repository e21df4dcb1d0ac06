/* Streaming in C: a network that keeps a state from call to call, without copying it.
 *
 *   stream rows.onnx PICTURE.pgm...          for example ../digits/digit_*.pgm
 *
 * The network reads a picture of a digit row by row and says after each row which digit it may be. An output may not
 * lie in the memory of an input, so there are two states: each step reads the one that the last step wrote, and writes
 * the other. A step allocates nothing.
 *
 * Build against an installed Einkorn:  cc stream.c -leinkorn -o stream
 */
#include <einkorn/einkorn.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 8, STATE = 32, DIGITS = 10 };

typedef struct {
  ek_run *run;
  float state[2][STATE]; /* state[turn] is the one to read */
  float scores[DIGITS];
  int turn;
} stream;

/* One more row; 0 on failure. The scores are in s->scores then. */
static int stream_push(stream *s, const float *row) {
  const float *before = s->state[s->turn];
  float *after = s->state[1 - s->turn];
  const int64_t row_dims[] = {1, SIDE}, state_dims[] = {1, STATE};
  if (ek_run_set_input(s->run, "row", row, SIDE * sizeof *row, row_dims, 2) ||
      ek_run_set_input(s->run, "state", before, sizeof s->state[0], state_dims, 2) ||
      ek_run_set_output(s->run, "scores", s->scores, sizeof s->scores) ||
      ek_run_set_output(s->run, "next_state", after, sizeof s->state[0]) || ek_run_execute(s->run)) {
    fprintf(stderr, "%s\n", ek_run_message(s->run));
    return 0;
  }
  s->turn = 1 - s->turn;
  return 1;
}
/* Forgets what was read: for another picture. */
static void stream_reset(stream *s) { memset(s->state, 0, sizeof s->state); }

/* A text PGM (P2) of 8x8 pixels, as those of examples/digits are. */
static int read_picture(const char *path, float pixels[SIDE][SIDE]) {
  int width = 0, height = 0, top = 0, ok = 0;
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  ok = fscanf(f, "P2 %d %d %d", &width, &height, &top) == 3 && width == SIDE && height == SIDE;
  for (int i = 0; ok && i < SIDE * SIDE; i++) ok = fscanf(f, "%f", &pixels[i / SIDE][i % SIDE]) == 1;
  fclose(f);
  return ok;
}
static int read_rows(stream *s, const char *path) {
  float pixels[SIDE][SIDE];
  if (!read_picture(path, pixels)) {
    fprintf(stderr, "%s is not a text PGM of 8x8 pixels\n", path);
    return 0;
  }
  const char *slash = strrchr(path, '/');
  printf("%s:", slash ? slash + 1 : path);
  stream_reset(s);
  for (int y = 0; y < SIDE; y++) {
    if (!stream_push(s, pixels[y])) return 0;
    int best = 0;
    for (int d = 1; d < DIGITS; d++)
      if (s->scores[d] > s->scores[best]) best = d;
    printf("%s%d %3.0f %%", y ? "   " : "  ", best, 100 * s->scores[best]);
  }
  putchar('\n');
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: stream rows.onnx PICTURE.pgm...\n");
    return 2;
  }
  ek_session *session = ek_session_create();
  ek_model *model;
  ek_module *module;
  stream s = {0};
  int failed = 0;
  if (ek_load(session, argv[1], &model) || ek_compile(model, NULL, &module) || ek_run_create(module, 0, &s.run)) {
    fprintf(stderr, "%s\n", ek_message(session));
    failed = 1;
  }
  for (int i = 2; !failed && i < argc; i++) failed = !read_rows(&s, argv[i]);
  ek_session_destroy(session);
  return failed;
}
