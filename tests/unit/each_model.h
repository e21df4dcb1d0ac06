/* each_model: calls a function with the path of every model of tests/models, in the order of their names. */
#ifndef EACH_MODEL_H
#define EACH_MODEL_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* how many there are */
static inline int each_model(void (*fn)(void *env, const char *path), void *env) {
  struct dirent **all;
  int n = scandir(EK_SOURCE_DIR "/tests/models", &all, NULL, alphasort), models = 0;
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(all[i]->d_name, '.');
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/models/%s", EK_SOURCE_DIR, all[i]->d_name);
    if (dot && !strcmp(dot, ".onnx")) models++, fn(env, path);
    free(all[i]);
  }
  if (n >= 0) free(all);
  return models;
}
#endif
