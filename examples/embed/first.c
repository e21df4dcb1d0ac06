#include <einkorn/einkorn.h>
#include <stdio.h>
/* first MODEL: runs a model on zeros, with every open dimension 1, and prints the first values of its first output */
int main(int argc, char **argv) {
  ek_session *s = ek_session_create();
  ek_model *model;
  ek_module *code;
  ek_run *run;
  ek_tensor_info in;
  static float data[1 << 20];
  if (argc < 2 || ek_load(s, argv[1], &model) || ek_compile(model, NULL, &code) || ek_run_create(code, 0, &run) ||
      ek_model_input(model, 0, &in))
    return fputs(ek_message(s), stderr), 1;
  for (int d = 0; d < in.rank; d++)
    if (in.dims[d] < 0) in.dims[d] = 1;
  if (ek_run_shape(run, 0, in.dims, in.rank) || ek_run_bind_input(run, 0, data) || ek_run_execute(run))
    return fputs(ek_run_message(run), stderr), 1;
  for (size_t i = 0; i < 10 && i < ek_run_output_bytes(run, 0) / sizeof(float); i++)
    printf("%.4f\n", ((const float *)ek_run_output_data(run, 0))[i]);
}
