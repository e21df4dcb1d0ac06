/* The runtime as one translation unit: the object that goes into saved models is made of this
 * (cmake/embed_runtime.cmake). Not part of the library, which has the files by themselves. */
#include "runtime/cpu.c"
#include "runtime/place.c"
#include "runtime/pool.c"
