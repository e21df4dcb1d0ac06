/* array_file: a second door of the driver, for the program: arrays in files of any form that can be read. */
#ifndef EK_DRIVER_ARRAY_FILE_H
#define EK_DRIVER_ARRAY_FILE_H
#include "base/base.h"

/* one array: a tensor of ONNX (*.pb), or else .npy; false: diagnostics tell why */
bool array_file(ctx *c, const char *path, ndarray *out);
#endif
