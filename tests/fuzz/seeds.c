/* seeds: what corpora are made of. Standard input: a text or model; pieces of it become files PREFIX.N.
 *   seeds loop PREFIX      a loop text: each function alone
 *   seeds tensors PREFIX   an ONNX file: each tensor in it */
#include "proto.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t cap) { return (void)p, (void)cap, n; }
static int count;
static void keep(const char *prefix, const void *p, size_t n) {
  char path[4096];
  if (!n || n > 16384 || count >= 40) return;
  snprintf(path, sizeof path, "%s.%d", prefix, count++);
  FILE *f = fopen(path, "wbe");
  if (!f || fwrite(p, 1, n, f) != n || fclose(f)) perror(path), exit(1);
}
static void tensors(const pfield *f, const char *prefix) {
  static uint8_t out[16384];
  if (f->sub == M_TENSOR && f->kind == F_MSG) {
    size_t n = proto_write(f, out, sizeof out);
    keep(prefix, out, n);
  }
  for (uint32_t i = 0; i < f->nkids; i++) tensors(f->kids[i], prefix);
}
int main(int argc, char **argv) {
  static uint8_t in[4 << 20];
  if (argc != 3) return fputs("usage: seeds loop|tensors PREFIX < FILE\n", stderr), 2;
  size_t n = fread(in, 1, sizeof in - 1, stdin);
  if (!strcmp(argv[1], "tensors")) {
    const pfield *root = proto_read(in, n, M_MODEL, true);
    if (root) tensors(root, argv[2]);
    return 0;
  }
  for (char *s = (char *)in, *e; *s; s = e) {
    e = s;
    do {
      e = strchr(e, '\n');
      e = e ? e + 1 : s + strlen(s);
    } while (*e && strncmp(e, "kernel ", 7) != 0 && strncmp(e, "main ", 5) != 0);
    keep(argv[2], s, (size_t)(e - s));
  }
  return 0;
}
