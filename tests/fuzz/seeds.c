/* seeds: what corpora are made of. Standard input: a text or model; pieces of it become files PREFIX.N.
 *   seeds loop PREFIX      a loop text: each function alone
 *   seeds tensors PREFIX   an ONNX file: each tensor in it
 *   seeds opset N PREFIX   an ONNX file: said to be of operator set N
 *   seeds deflate PREFIX   a .npy file, deflated in a .npz */
#include "proto.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

size_t mutate_bytes(uint8_t *p, size_t n, size_t cap, dice *d) { return (void)p, (void)cap, (void)d, n; }
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
static uint8_t *le(uint8_t *p, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) *p++ = i < 8 ? (uint8_t)(v >> 8 * i) : 0;
  return p;
}
static void deflated(const uint8_t *in, size_t n, const char *prefix) {
  static uint8_t out[1 << 16];
  static const char name[] = "x.npy";
  uint8_t *p = out, packed[1 << 14];
  z_stream z = {.next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)n, .next_out = packed, .avail_out = sizeof packed};
  if (n > 8192 || deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
  deflate(&z, Z_FINISH);
  size_t m = sizeof packed - z.avail_out, at;
  deflateEnd(&z);
  uint32_t crc = (uint32_t)crc32(0, in, (uInt)n);
  p = le(le(le(le(p, 0x04034b50, 4), 20, 2), 0, 2), 8, 2);
  p = le(le(le(le(le(le(p, 0, 4), crc, 4), m, 4), n, 4), sizeof name - 1, 2), 0, 2);
  memcpy(p, name, sizeof name - 1), p += sizeof name - 1;
  memcpy(p, packed, m), p += m;
  at = (size_t)(p - out);
  p = le(le(le(le(le(p, 0x02014b50, 4), 20, 2), 20, 2), 0, 2), 8, 2);
  p = le(le(le(le(le(le(p, 0, 4), crc, 4), m, 4), n, 4), sizeof name - 1, 2), 0, 2);
  p = le(p, 0, 14); /* no comment; disk, attributes and offset are 0 */
  memcpy(p, name, sizeof name - 1), p += sizeof name - 1;
  size_t size = (size_t)(p - out) - at;
  p = le(le(le(le(le(le(le(p, 0x06054b50, 4), 0, 4), 1, 2), 1, 2), size, 4), at, 4), 0, 2);
  keep(prefix, out, (size_t)(p - out));
}
static void set_opset(pfield *f, uint64_t n) {
  if (f->in == M_OPSET && f->no == 2) f->v = n;
  for (uint32_t i = 0; i < f->nkids; i++) set_opset(f->kids[i], n);
}
int main(int argc, char **argv) {
  static uint8_t in[4 << 20];
  bool opset = argc == 4 && !strcmp(argv[1], "opset");
  if (argc != 3 && !opset) return fputs("usage: seeds loop|tensors|deflate|opset N PREFIX < FILE\n", stderr), 2;
  size_t n = fread(in, 1, sizeof in - 1, stdin);
  if (opset) {
    static uint8_t out[16384];
    pfield *root = proto_read(in, n, M_MODEL, true);
    if (!root) return 1;
    set_opset(root, strtoull(argv[2], NULL, 10));
    keep(argv[3], out, proto_write(root, out, sizeof out));
    return 0;
  }
  if (!strcmp(argv[1], "tensors")) {
    const pfield *root = proto_read(in, n, M_MODEL, true);
    if (root) tensors(root, argv[2]);
    return 0;
  }
  if (!strcmp(argv[1], "deflate")) {
    deflated(in, n, argv[2]);
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
