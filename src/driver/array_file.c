/* Which reader does a file with one array need? Its name tells. */
#include "driver/array_file.h"
#include "onnx/onnx.h"
#include <string.h>

bool array_file(ctx *c, const char *path, ndarray *out) {
  size_t n = strlen(path);
  const char *name;
  bytes b;
  if (n >= 3 && !strcmp(path + n - 3, ".pb")) return onnx_tensor_file(c, path, out, &name);
  return file_map(c, path, &b) && npy_read(c, b, path, out);
}
