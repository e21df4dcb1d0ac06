/* Writes a compiled step of training as FOLDER/step.c, step.o, step.so, and its evaluation as FOLDER/check.c; then
 * tells the losses of the same steps by the trainer.   make FOLDER */
#include <einkorn/einkorn.h>
#include <stdio.h>
#include "data.h"

static const char net[] = "graph \"net\" ir 8 opset 17 {\n"
                          "  input x: f64[N, 4]\n"
                          "  const w1: f64[4, 6] = [0.5, -1, 0.25, 1, -0.5, 0.75, 0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, "
                          "0.8, 0.9, -1, 0.3, 0.2, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]\n"
                          "  const g: f64[6] = [1, 2, 1, 0.5, 1, 1]\n"
                          "  const o: f64[6] = [0, 0, 1, 0, 0.5, 0]\n"
                          "  const mean: f64[6] = [0, 0, 0, 0, 0, 0]\n"
                          "  const var: f64[6] = [1, 1, 1, 1, 1, 1]\n"
                          "  const w2: f64[6, 3] = [0.5, -1, 0.25, 1, -0.5, 0.75, 0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, "
                          "0.8, 0.9, -1, 0.3, 0.2]\n"
                          "  h: f64[N, 6] = MatMul(x, w1) \"first\"\n"
                          "  n: f64[N, 6] = BatchNormalization(h, g, o, mean, var) \"norm\"\n"
                          "  r: f64[N, 6] = Relu(n) \"relu\"\n"
                          "  y: f64[N, 3] = MatMul(r, w2) \"second\"\n"
                          "  output y\n}\n";
static int failed(ek_session *s) {
  printf("%s\n", ek_message(s));
  ek_session_destroy(s);
  return 1;
}
int main(int argc, char **argv) {
  static const char *const files[] = {"step.c", "step.o", "step.so", "check.c"};
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_trainer *t;
  char path[4096];
  double x[ROWS][4], loss;
  int64_t target[ROWS];
  ek_array batch[] = {{"x", EK_DOUBLE, 2, {ROWS, 4}, x, sizeof x},
                      {"target", EK_INT64, 1, {ROWS}, target, sizeof target}};
  ek_train_options o;
  ek_train_options_init(&o);
  o.loss = "cross_entropy", o.batch = batch, o.batch_count = 2, o.clip_norm = 1;
  if (argc != 2 || ek_load_memory(s, net, sizeof net - 1, "net", &m) || ek_trainer_create(m, &o, &t)) return failed(s);
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", argv[1], files[i]);
    if (ek_trainer_compile(t, path, i == 3, NULL)) return failed(s);
  }
  for (int k = 0; k < STEPS; k++) {
    fill(k, x, target);
    if (ek_trainer_step(t, batch, 2, 0.01, &loss)) return failed(s);
    printf("%.17g\n", loss);
  }
  if (ek_trainer_evaluate(t, batch, 2, &loss)) return failed(s);
  printf("evaluation %.17g\n", loss);
  ek_session_destroy(s);
  return 0;
}
