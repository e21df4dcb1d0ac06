/* How does a block become callable? Its memory image is copied to pages of its own, the pointer slots are filled in,
 * and then code may only be executed, data only read. */
#include "codegen/image/block.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const image_extern image_externs[] = {
#define D1(f) {#f, (void *)(double (*)(double))f, true}
    D1(exp),
    D1(log),
    D1(sin),
    D1(cos),
    D1(tan),
    D1(asin),
    D1(acos),
    D1(atan),
    D1(sinh),
    D1(cosh),
    D1(asinh),
    D1(acosh),
    D1(atanh),
    D1(tanh),
    D1(erf),
#undef D1
    {"pow", (void *)(double (*)(double, double))pow, true},
    {"fmod", (void *)(double (*)(double, double))fmod, true},
    {"fmodf", (void *)(float (*)(float, float))fmodf, true},
    {"memset", (void *)memset, false},
    {"memcpy", (void *)memcpy, false},
    {"memmove", (void *)memmove, false},
    {NULL, NULL, false}};

struct image {
  uint8_t *mem;     /* pages of the code and data */
  size_t bytes;     /* number of their bytes */
  uint32_t n;       /* number of entries */
  uint32_t entry[]; /* offset of each entry in mem */
};
const image_extern *image_extern_of(const char *name) {
  for (const image_extern *e = image_externs; e->name; e++)
    if (!strcmp(e->name, name)) return e;
  return NULL;
}
static bool fix(uint8_t *mem, const image_head *h, const uint8_t *fixups, const char *names) {
  for (uint32_t i = 0; i < h->fixups; i++) {
    image_fixup f;
    memcpy(&f, fixups + i * sizeof f, sizeof f);
    if (f.at > h->code + h->data - 8) return false;
    uint64_t v = (uint64_t)(uintptr_t)mem;
    if (f.from) {
      if (f.from > h->names) return false;
      const image_extern *e = image_extern_of(names + f.from - 1);
      if (!e) return false;
      v = (uint64_t)(uintptr_t)e->address;
    } else if (f.add < 0 || f.add > (int64_t)h->code + h->data)
      return false;
    v += (uint64_t)f.add;
    memcpy(mem + f.at, &v, 8);
  }
  return true;
}
image *image_load(bytes b, const char **why) {
  image_head h;
  *why = "it is damaged";
  if (b.n < sizeof h) return NULL;
  memcpy(&h, b.p, sizeof h);
  uint64_t mem = (uint64_t)h.code + h.data,
           all = sizeof h + mem + (uint64_t)h.fixups * sizeof(image_fixup) + (uint64_t)h.entries * 4 + h.names;
  if (h.magic != IMAGE_MAGIC || !h.code || h.code % IMAGE_PAGE || h.data % IMAGE_PAGE || h.code > 1u << 30 ||
      h.data > 1u << 30 || all != b.n)
    return NULL;
  const uint8_t *fixups = b.p + sizeof h + mem, *entries = fixups + (size_t)h.fixups * sizeof(image_fixup);
  const char *names = (const char *)entries + (size_t)h.entries * 4;
  if (h.names && names[h.names - 1]) return NULL;
  image *i = malloc(sizeof *i + (size_t)h.entries * 4);
  uint8_t *p = i ? mmap(NULL, mem, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (p == MAP_FAILED) {
    *why = "there is no memory for its code";
    free(i);
    return NULL;
  }
  *i = (image){.mem = p, .bytes = mem, .n = h.entries};
  memcpy(p, b.p + sizeof h, mem);
  memcpy(i->entry, entries, (size_t)h.entries * 4);
  bool good = fix(p, &h, fixups, names);
  for (uint32_t e = 0; e < h.entries; e++) good = good && i->entry[e] < h.code;
  if (good && (mprotect(p, h.code, PROT_READ | PROT_EXEC) || (h.data && mprotect(p + h.code, h.data, PROT_READ)))) {
    *why = "this process may not make memory executable";
    good = false;
  }
  if (good) {
    __builtin___clear_cache((char *)p, (char *)p + h.code);
    return i;
  }
  image_free(i);
  return NULL;
}
void *image_entry(const image *i, uint32_t entry) { return entry < i->n ? i->mem + i->entry[entry] : NULL; }
size_t image_bytes(const image *i) { return i->bytes; }
void image_free(image *i) {
  if (!i) return;
  munmap(i->mem, i->bytes);
  free(i);
}
