/* Training in C: the digit classifier learns again, from random weights, by a step that is compiled as a whole.
 *
 *   train MODEL.onnx FOLDER OUT.onnx [STEPS]        FOLDER: train-images.idx, train-labels.idx, test-..
 *
 * Build against an installed Einkorn:  cc train.c -leinkorn -o train */
#include <einkorn/einkorn.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIXELS = 64, BATCH = 32, MOST = 1000 };
static float image[MOST][PIXELS]; /* a batch: pictures, and the digits on them */
static int64_t digit[MOST];
static ek_array batch[] = {{.name = "image", .type = EK_FLOAT, .rank = 4, .dims = {BATCH, 1, 8, 8}, .data = image},
                           {.name = "target", .type = EK_INT64, .rank = 1, .dims = {BATCH}, .data = digit}};
static ek_code load(ek_session *s, const char *folder, const char *file, ek_array *out) {
  char path[1024];
  ek_arrays *a;
  snprintf(path, sizeof path, "%s/%s.idx", folder, file);
  const ek_code e = ek_arrays_load(s, path, &a);
  return e ? e : ek_arrays_get(a, 0, out);
}
static void fill(const ek_array *images, const ek_array *labels, int64_t first, int64_t n) {
  for (int64_t k = 0; k < n; k++) { /* 769 is prime: all samples come before one of them comes again */
    const int64_t from = (first + k) * 769 % labels->dims[0];
    for (int p = 0; p < PIXELS; p++) image[k][p] = ((const unsigned char *)images->data)[from * PIXELS + p];
    digit[k] = ((const unsigned char *)labels->data)[from];
  }
  batch[0].dims[0] = batch[1].dims[0] = n;
  batch[0].bytes = sizeof *image * (size_t)n, batch[1].bytes = sizeof *digit * (size_t)n;
}
int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: train MODEL.onnx FOLDER OUT.onnx [STEPS]\n"), 2;
  const char *const metrics[] = {"accuracy", NULL};
  const int steps = argc > 4 ? atoi(argv[4]) : 800;
  ek_session *s = ek_session_create();
  ek_array x, y, test_x, test_y;
  ek_model *m;
  ek_trainer *t = NULL;
  ek_train_options o;
  double loss;
  const double *right;
  size_t sums;
  ek_train_options_init(&o);
  o.loss = "cross_entropy", o.metrics = metrics, o.init = "he", o.batch = batch, o.batch_count = 2;
  int bad = load(s, argv[2], "train-images", &x) || load(s, argv[2], "train-labels", &y) ||
            load(s, argv[2], "test-images", &test_x) || load(s, argv[2], "test-labels", &test_y) ||
            ek_load(s, argv[1], &m) || ek_trainer_create(m, &o, &t);
  for (int i = 0; !bad && i < steps; i++) {
    fill(&x, &y, (int64_t)i * BATCH, BATCH);
    bad = ek_trainer_step(t, batch, 2, i < steps / 2 ? 4e-3 : 4e-4, &loss);
    if (!bad && i % 100 == 99) printf("step %d: loss %.4f\n", i + 1, loss);
  }
  if (!bad) fill(&test_x, &test_y, 0, test_y.dims[0] < MOST ? test_y.dims[0] : MOST);
  bad = bad || ek_trainer_evaluate(t, batch, 2, &loss) || ek_trainer_metric(t, 0, &right, &sums);
  if (!bad) printf("held out: loss %.4f, %.0f of %.0f are right\n", loss, right[0], right[1]);
  if (bad || ek_trainer_save(t, argv[3])) bad = fprintf(stderr, "%s\n", ek_message(s));
  ek_trainer_close(t);
  ek_session_destroy(s);
  return bad != 0;
}
