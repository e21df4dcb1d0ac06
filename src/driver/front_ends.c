/* Which front end reads a model? The first of the table that recognises its bytes. A further format costs a row here
 * and a room that makes a graph of it. Compiled code and formats that nothing here reads (formats.c) have rows, too,
 * which say what the file is. */
#include "driver/pipeline.h"
#include "onnx/onnx.h"
#include <string.h>

static bool is_code(bytes b) { return b.n >= 4 && !memcmp(b.p, "\177ELF", 4); }
static graph *refuse_code(ctx *c, const source *s, bytes b, bool standard) {
  (void)b, (void)standard;
  ctx_fail(c, E_USAGE, "%s is compiled code, not a model", s->name);
}
static bool is_text(bytes b) {
  size_t n = b.n < 512 ? b.n : 512;
  for (size_t i = 0; i < n; i++)
    if (b.p[i] < 0x20 && !(b.p[i] == '\n' || b.p[i] == '\r' || b.p[i] == '\t')) return false;
  return n > 0;
}
static graph *load_text(ctx *c, const source *s, bytes b, bool standard) {
  (void)standard;
  return graph_parse(c, arena_strndup(ctx_arena(c), (const char *)b.p, b.n), s->name);
}
static bool is_onnx(bytes b) { /* protobuf has no mark: the reader says what is wrong with other bytes */
  (void)b;
  return true;
}
static graph *load_onnx(ctx *c, const source *s, bytes b, bool standard) {
  if (standard) return onnx_load_standard(c, s->path, b, s->path ? s->path : s->name);
  return s->path ? onnx_load_file(c, s->path) : onnx_load_bytes(c, b, s->name, NULL);
}
static const front_end front_ends[] = {
    {"compiled code", is_code, refuse_code},
    {"another format", foreign_file, refuse_foreign},
    {"graph text", is_text, load_text},
    {"ONNX", is_onnx, load_onnx}, /* the last one: it takes everything */
};
const front_end *front_end_of(bytes b) {
  const front_end *f = front_ends;
  while (!f->recognises(b)) f++;
  return f;
}
