/* What does compiled code depend on? All of it is written into one text, whose digest names the entry: what is not
 * in this text must not change the code.
 *
 * The compiler is known by the identifier that the linker gave its file, so that every change of it makes a new key,
 * LLVM by its file's size and time (it is not loaded); files of the model by their contents (a hundred megabytes take a
 * few tens of milliseconds), which holds whatever happened to their names and times. Numbers of threads are not in it:
 * they do not change code. */
#include "codegen/llvm/llvm.h"
#include "driver/cache.h"
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Whoever adds an option decides here whether it changes code. (Where `watch` is set, or an inner option, the cache is
 * not asked.) */
_Static_assert(sizeof(pipe_opts) == 232 && sizeof(dimfix) == 40,
               "is the new field part of the key (below), or does it not change the code? Then change these numbers");

/* ---- builds ---------------------------------------------------------------------------------- */
typedef struct built {
  const void *at; /* an address inside */
  sbuf *out;      /* gets the build's identity */
  bool found;     /* the file with the address was found */
} built;
static bool note_id(const uint8_t *p, size_t n, sbuf *out) {
  while (n >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) h;
    memcpy(&h, p, sizeof h);
    size_t name = (h.n_namesz + 3u) & ~3u, desc = (h.n_descsz + 3u) & ~3u;
    if (name > n - sizeof h || desc > n - sizeof h - name) return false;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(p + sizeof h, "GNU", 4)) {
      for (uint32_t i = 0; i < h.n_descsz; i++) sb_fmt(out, "%02x", p[sizeof h + name + i]);
      return true;
    }
    p += sizeof h + name + desc, n -= sizeof h + name + desc;
  }
  return false;
}
static int look(struct dl_phdr_info *i, size_t size, void *env) {
  (void)size;
  built *b = env;
  bool mine = false;
  for (int k = 0; !mine && k < i->dlpi_phnum; k++) {
    uintptr_t from = i->dlpi_addr + i->dlpi_phdr[k].p_vaddr;
    mine = i->dlpi_phdr[k].p_type == PT_LOAD && (uintptr_t)b->at >= from &&
           (uintptr_t)b->at - from < i->dlpi_phdr[k].p_memsz;
  }
  if (!mine) return 0;
  b->found = true;
  for (int k = 0; k < i->dlpi_phnum; k++)
    if (i->dlpi_phdr[k].p_type == PT_NOTE &&
        note_id((const uint8_t *)i->dlpi_addr + i->dlpi_phdr[k].p_vaddr, i->dlpi_phdr[k].p_memsz, b->out))
      return 1;
  for (int k = 0; k < i->dlpi_phnum; k++) { /* no identifier: what it is made of */
    const ElfW(Phdr) *h = &i->dlpi_phdr[k];
    if (h->p_type != PT_LOAD || (h->p_flags & PF_W) || !(h->p_flags & PF_R)) continue;
    uint8_t d[32];
    content_digest((const uint8_t *)i->dlpi_addr + h->p_vaddr, h->p_memsz, d);
    for (int q = 0; q < 32; q++) sb_fmt(b->out, "%02x", d[q]);
  }
  return 1;
}
static bool put_build(sbuf *b, const void *at) {
  built k = {.at = at, .out = b};
  sb_put(b, "\nbuild ");
  dl_iterate_phdr(look, &k);
  return k.found;
}

/* ---- the text -------------------------------------------------------------------------------- */
/* Puts a text behind its length, which keeps texts apart. */
static void put_text(sbuf *b, const char *what, const char *s) {
  if (s)
    sb_fmt(b, "\n%s %zu %s", what, strlen(s), s);
  else
    sb_fmt(b, "\n%s -", what);
}
static void put_digest(sbuf *b, const char *what, const uint8_t d[32]) {
  sb_fmt(b, "\n%s ", what);
  for (int i = 0; i < 32; i++) sb_fmt(b, "%02x", d[i]);
}
/* A target changes code by its fields, all in one line here; its name is in error messages, and `host` decides who
 * makes the code. */
static void put_target(sbuf *b, const target *t) {
  sbuf fields = sbuf_new(b->a);
  target_print(t, &fields);
  for (size_t i = 0; i < fields.n; i++)
    if (fields.s[i] == '\n') fields.s[i] = ';';
  put_text(b, "target", t->name);
  put_text(b, t->host ? "machine here" : "machine", fields.s);
}
const char *cache_key(ctx *c, const ek_model *m, const pipe_opts *o, uint8_t model[32]) {
  arena *a = ctx_arena(c);
  sbuf b = sbuf_new(a);
  uint8_t d[32];
  sb_fmt(&b, "einkorn %s", EK_VERSION);
  if (!put_build(&b, (const void *)(uintptr_t)&cache_key)) return NULL;
  put_text(&b, "llvm", llvm_identity(c));
  put_text(&b, "processor", cpu_identity(a));
  const target *t = target_get(c, o->target ? o->target : "host");
  if (!t || !t->here) return NULL;
  put_target(&b, t);
  sb_fmt(&b, "\noptimise %d%s%s%s %s%s", o->level, o->unchecked ? " unchecked" : "",
         o->reproducible ? " reproducible" : "",
         o->strict ? " strict"
         : o->fast ? " fast"
                   : "",
         o->narrow ? et_name(o->narrow) : "", o->only_llvm ? " llvm" : "");
  if (o->bound.bytes) sb_fmt(&b, "\nmemory %llu in %d threads", (unsigned long long)o->bound.bytes, o->bound.threads);
  put_text(&b, "skip", o->skip);
  put_text(&b, "schedules", o->schedules);
#ifdef EK_PLANTS
  put_text(&b, "planted", getenv("EK_PLANT"));
#endif
  for (uint32_t i = 0; i < o->ndims; i++) {
    if (EK_PLANTED("cache-key")) break;
    put_text(&b, "dim", o->dims[i].name);
    sb_fmt(&b, " %lld:%lld:%lld", (long long)o->dims[i].lo, (long long)o->dims[i].value, (long long)o->dims[i].hi);
  }
  for (const char *const *s = o->states; s && *s; s++) put_text(&b, "state", *s);
  for (uint32_t i = 0; i < m->nops; i++) {
    bytes f;
    const ops_source s = own_ops_source(&m->ops[i]);
    if (!ops_text(c, &s, &f)) return NULL;
    content_digest(f.p, f.n, d);
    put_digest(&b, "operators", d);
  }
  size_t before = b.n;
  put_text(&b, "model", m->path ? "file" : "memory");
  if (!m->path) {
    content_digest(m->data, m->bytes, d);
    put_digest(&b, "memory", d);
  }
  file_digest(m->c, d);
  file_cool(m->c);
  put_digest(&b, "files", d);
  content_digest(b.s + before, b.n - before, model);
  return b.s;
}
