/* How does a loop module become callable code in this process? Its functions are compiled (emit.c) and linked: by
 * codegen/image while LLVM has compiled none of them, so that LLVM need not be loaded; else by LLVM's ORC. Names lead
 * to symbols, symbols to addresses. */
#include "codegen/emit/batch.h"
#include "codegen/image/image.h"
#include "codegen/llvm/llvm.h"

typedef struct object {
  const char *symbol; /* symbol that it defines */
  bytes obj;          /* the object file */
} object;
struct jit {
  ctx *c;              /* context */
  arena *a;            /* the context's */
  target t;            /* the machine as given */
  code_opts o;         /* how code is made */
  orc *orc;            /* NULL: not needed so far */
  VEC(image *) images; /* one per module added before ORC was needed */
  VEC(object) objects; /* objects of all modules, in the order of compilation */
  map *symbols;        /* function name -> index into names */
  strvec names;        /* symbols of functions */
  map *defined;        /* symbol -> 1 + index into objects */
  map *placed;         /* symbol -> address, of those in images */
  jit_stats stats;     /* counts and times */
};

jit *jit_new(ctx *c, const target *t, const code_opts *o) {
  jit *j = NEW(ctx_arena(c), jit);
  *j = (jit){.c = c, .a = ctx_arena(c), .t = *t, .o = *o};
  j->symbols = map_new(j->a), j->defined = map_new(j->a), j->placed = map_new(j->a);
  return j;
}
static void add_object(jit *j, const object *k) { orc_add(j->orc, k->symbol, k->obj); }
/* ORC, with all objects before number `n`. */
static void open_orc(jit *j, uint32_t n) {
  j->orc = orc_open(j->c, &j->t, j->o.level);
  for (uint32_t i = 0; i < n; i++) add_object(j, &j->objects.v[i]);
}
void jit_free(jit *j) {
  if (!j) return;
  orc_close(j->orc);
  j->orc = NULL;
  for (uint32_t i = 0; i < j->images.n; i++) image_free(j->images.v[i]);
  j->images.n = 0;
}
jit_stats jit_get_stats(const jit *j) { return j->stats; }

/* The objects from number `first` on, and those that they call, as an image. False: it cannot be one. */
static bool in_image(jit *j, uint32_t first) {
  uint32_t n = j->objects.n - first;
  const char **entry = NEWN(j->a, const char *, n + 1), *why;
  bytes *obj = NEWN(j->a, bytes, j->objects.n + 1), block;
  for (uint32_t i = 0; i < j->objects.n; i++) obj[i] = j->objects.v[i].obj;
  for (uint32_t i = 0; i < n; i++) entry[i] = j->objects.v[first + i].symbol;
  if (!n) return true;
  if (!image_link(j->c, (image_parts){obj, j->objects.n, entry, n}, &block, &why)) return false;
  vec_reserve(j->a, j->images, j->images.n + 1); /* memory may end; not between the image and its place */
  image *k = image_load(block, &why);
  if (!k) return false;
  vec_push(j->a, j->images, k);
  for (uint32_t i = 0; i < n; i++) map_puts(j->placed, entry[i], (uint64_t)(uintptr_t)image_entry(k, i));
  return true;
}
static void account(jit *j, const unit *u) {
  j->stats.code_bytes += u->out.obj.n;
  j->stats.emit_ms += u->out.emit_ms, j->stats.pass_ms += u->out.pass_ms, j->stats.code_ms += u->out.code_ms;
  j->stats.compiled++;
  j->stats.own += u->by == &emit_table[EMIT_X86];
}
static void add_objects(jit *j, batch *b, const u32vec *all) {
  uint32_t first = j->objects.n;
  bool own = true; /* all units were compiled by codegen/x86 */
  for (uint32_t i = 0; i < all->n; i++) {
    unit *u = &b->units.v[all->v[i]];
    account(j, u);
    own = own && u->by == &emit_table[EMIT_X86];
    vec_push(j->a, j->objects, ((object){u->symbol, u->out.obj}));
    map_puts(j->defined, u->symbol, j->objects.n);
  }
  if (!j->orc && own && in_image(j, first)) return;
  if (!j->orc) open_orc(j, first);
  for (uint32_t i = first; i < j->objects.n; i++) add_object(j, &j->objects.v[i]);
}
void jit_add(jit *j, const lmodule *m) {
  ctx *c = j->c;
  batch *b = batch_new(c, m, &j->t, &j->o, "ek");
  u32vec all = {0};
  uint64_t one;
  for (uint32_t i = 0; i < b->units.n; i++) /* symbols that an earlier module brought are there already */
    if (!map_gets(j->defined, b->units.v[i].symbol, &one)) vec_push(j->a, b->todo, i), vec_push(j->a, all, i);
  emit_units(b);
  for (uint32_t i = 0; i < all.n; i++) {
    const unit *u = &b->units.v[all.v[i]];
    if (u->out.refused)
      diag_add(c, D_INFO, E_OK, (srcpos){0}, NULL, "code: function %s is left to LLVM: there is %s in it", u->f->name,
               u->out.refused);
  }
  double t0 = now_ms();
  add_objects(j, b, &all);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    map_puts(j->symbols, m->funcs.v[i]->name, j->names.n);
    vec_push(j->a, j->names, batch_unit(b, m->funcs.v[i]->name)->symbol);
    j->stats.functions++;
  }
  /* links now, so that the time of linking is counted here */
  if (m->funcs.n) jit_find(j, m->funcs.v[m->funcs.n - 1]->name);
  j->stats.link_ms += now_ms() - t0;
}
const char *jit_symbol(jit *j, const char *function) {
  uint64_t i;
  return map_gets(j->symbols, function, &i) ? j->names.v[i] : NULL;
}
void *jit_find(jit *j, const char *function) {
  uint64_t i, p;
  if (!map_gets(j->symbols, function, &i)) return NULL;
  if (map_gets(j->placed, j->names.v[i], &p)) return (void *)(uintptr_t)p;
  return orc_find(j->orc, j->names.v[i]);
}
