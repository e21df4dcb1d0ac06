/* Training in C: the digit classifier learns again, from random weights, by a step that is compiled as a whole.
 *
 *   train MODEL.onnx FOLDER OUT.onnx [STEPS]        FOLDER: train-images.idx, train-labels.idx, test-..
 *
 * Build against an installed Einkorn:  cc train.c -leinkorn -lm -o train
 */
#include <einkorn/einkorn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 64, BATCH = 32, MOST = 2000 };
typedef struct set { /* pictures and the digits on them */
  float x[MOST][PIXELS];
  int64_t digit[MOST];
} set;
static set all, batch;

static int read_set(const char *folder, const char *name, set *s) { /* how many pictures; 0: there is no such set */
  static unsigned char pixels[MOST * PIXELS], digits[MOST];
  char images[1024], labels[1024];
  snprintf(images, sizeof images, "%s/%s-images.idx", folder, name);
  snprintf(labels, sizeof labels, "%s/%s-labels.idx", folder, name);
  FILE *f = fopen(images, "rb"), *g = fopen(labels, "rb");
  int n = f && g && !fseek(f, 16, SEEK_SET) && !fseek(g, 8, SEEK_SET) ? (int)fread(digits, 1, MOST, g) : 0;
  if (n && (int)fread(pixels, PIXELS, MOST, f) != n) n = 0;
  for (int i = 0; i < n * PIXELS; i++) s->x[i / PIXELS][i % PIXELS] = pixels[i];
  for (int i = 0; i < n; i++) s->digit[i] = digits[i];
  if (f) fclose(f);
  if (g) fclose(g);
  return n;
}
static unsigned random_below(unsigned n) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % n;
}
/* Weights become random, as large as He et al. (2015) say; biases become 0. */
static ek_code forget(ek_trainer *t) {
  ek_code e = EK_OK;
  ek_array a;
  for (size_t i = 0; !e && i < ek_trainer_tensors(t); i++) {
    if (ek_trainer_tensor_kind(t, i) != EK_TRAINED_PARAMETER || (e = ek_trainer_tensor(t, i, &a))) continue;
    const int n = (int)(a.bytes / sizeof(float));
    float *w = calloc((size_t)n, sizeof *w), most = sqrtf(6 * (float)a.dims[0] / (float)n);
    for (int k = 0; w && k < n && a.rank > 1; k++) w[k] = ((float)random_below(1u << 24) / (1 << 23) - 1) * most;
    a.data = w;
    e = w ? ek_trainer_set_tensor(t, &a) : EK_MEMORY;
    free(w);
  }
  return e;
}
static ek_code learn(ek_trainer *t, const ek_array *arrays, int n, int steps) {
  ek_code e = forget(t);
  double loss = 0, mean = 0;
  for (int i = 0; !e && i < steps; i++) {
    for (int k = 0; k < BATCH; k++) {
      const unsigned from = random_below((unsigned)n);
      for (int p = 0; p < PIXELS; p++) batch.x[k][p] = all.x[from][p];
      batch.digit[k] = all.digit[from];
    }
    e = ek_trainer_step(t, arrays, 2, 2e-3 * (1 + cos(3.14159265 * i / steps)), &loss);
    mean += loss / 100;
    if (i % 100 == 99) printf("step %d: loss %.4f\n", i + 1, mean), mean = 0;
  }
  return e;
}
static ek_code examine(ek_trainer *t, ek_array *arrays, int n) {
  const double *right;
  double loss;
  size_t sums;
  arrays[0].data = all.x, arrays[0].dims[0] = n, arrays[0].bytes = sizeof *all.x * (size_t)n;
  arrays[1].data = all.digit, arrays[1].dims[0] = n, arrays[1].bytes = sizeof *all.digit * (size_t)n;
  ek_code e = ek_trainer_evaluate(t, arrays, 2, &loss);
  if (!e) e = ek_trainer_metric(t, 0, &right, &sums);
  if (!e) printf("held out: loss %.4f, %.0f of %.0f are right\n", loss, right[0], right[1]);
  return e;
}
int main(int argc, char **argv) {
  const char *const metrics[] = {"accuracy", NULL};
  ek_array arrays[] = {{.name = "image", .type = EK_FLOAT, .rank = 4, .dims = {BATCH, 1, 8, 8}, .data = batch.x},
                       {.name = "target", .type = EK_INT64, .rank = 1, .dims = {BATCH}, .data = batch.digit}};
  arrays[0].bytes = sizeof *batch.x * BATCH, arrays[1].bytes = sizeof *batch.digit * BATCH;
  int n = argc < 4 ? 0 : read_set(argv[2], "train", &all);
  if (!n) return fprintf(stderr, "usage: train MODEL.onnx FOLDER OUT.onnx [STEPS]\n"), 2;
  ek_session *s = ek_session_create();
  ek_train_options o;
  ek_model *m;
  ek_trainer *t = NULL;
  if (!s) return 1;
  ek_train_options_init(&o);
  o.loss = "cross_entropy", o.output = "logits", o.metrics = metrics, o.batch = arrays, o.batch_count = 2;
  ek_code e = ek_load(s, argv[1], &m);
  if (!e) e = ek_trainer_create(m, &o, &t);
  if (!e) e = learn(t, arrays, n, argc > 4 ? atoi(argv[4]) : 800);
  n = read_set(argv[2], "test", &all);
  if (!e && n) e = examine(t, arrays, n);
  if (!e) e = ek_trainer_save(t, argv[3]);
  if (e) fprintf(stderr, "%s\n", ek_message(s));
  ek_trainer_close(t);
  ek_session_destroy(s);
  return e != EK_OK;
}
