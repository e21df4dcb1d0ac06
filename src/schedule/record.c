/* Which primitives are there, and how is a schedule printed? See record.h. */
#include "schedule/record.h"
#include <string.h>

enum { ANY = UINT16_MAX };
const primitive_form primitive_forms[P_COUNT] = {
#define PRIMITIVE(ID, ...) [P_##ID] = {__VA_ARGS__},
#include "schedule/primitives.def"
};
bool record_either(arena *a, primitive is, const char *words[2]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  const char *all = primitive_forms[is].words, *or = strstr(all, " or ");
  if (!or || strspn(all, letters) != (size_t)(or -all) || strspn(or +4, letters) != strlen(or +4)) return false;
  words[0] = arena_strndup(a, all, (size_t)(or -all)), words[1] = or + 4;
  return true;
}

directive *record_add(arena *a, kernel_record *k, nest_record *n, primitive is) {
  if (n) {
    vec_push(a, n->directives, ((directive){.is = is}));
    return &n->directives.v[n->directives.n - 1];
  }
  vec_push(a, k->directives, ((directive){.is = is}));
  return &k->directives.v[k->directives.n - 1];
}
directive *record_add_tensor(arena *a, tensor_record *t, primitive is) {
  vec_push(a, t->directives, ((directive){.is = is}));
  return &t->directives.v[t->directives.n - 1];
}
void record_word(arena *a, directive *d, const char *word) { vec_push(a, d->words, word); }
void record_number(arena *a, directive *d, int64_t n) { record_word(a, d, arena_fmt(a, "%lld", (long long)n)); }
directive *record_find(const kernel_record *k, const nest_record *n, primitive is) {
  const uint32_t count = n ? n->directives.n : k->directives.n;
  directive *all = n ? n->directives.v : k->directives.v;
  for (uint32_t i = 0; i < count; i++)
    if (all[i].is == is) return &all[i];
  return NULL;
}
directive *record_find_tensor(const tensor_record *t, primitive is) {
  for (uint32_t i = 0; i < t->directives.n; i++)
    if (t->directives.v[i].is == is) return &t->directives.v[i];
  return NULL;
}
tensor_record *record_tensor_named(const schedules *s, const char *name) {
  for (uint32_t i = 0; i < s->tensors.n; i++)
    if (!strcmp(s->tensors.v[i].name, name)) return &s->tensors.v[i];
  return NULL;
}
nest_record *record_nest_named(const kernel_record *k, const char *name) {
  for (uint32_t i = 0; i < k->nests.n; i++)
    if (!strcmp(k->nests.v[i].name, name)) return &k->nests.v[i];
  return NULL;
}

/* ---- printing --------------------------------------------------------------------------------- */
/* lists: a word in parentheses is a list; else a name. */
static void put_word(sbuf *out, const char *word, bool lists) {
  const size_t n = strlen(word);
  if (n && ((lists && word[0] == '(') || strspn(word, RECORD_BARE) == n))
    sb_put(out, word);
  else
    sb_quoted(out, word, n);
}
/* May the word be a list? Names of tensors and sizes are in quotes where they look like one. */
static bool is_list(primitive is, uint32_t word) {
  return is != P_PACK && is != P_VERSION && is != P_PREFETCH && (is != P_IN || (word && word % 2 == 0));
}
static void put_directives(sbuf *out, const directive *all, uint32_t n, const char *indent) {
  for (uint32_t is = 0; is < P_COUNT; is++)
    for (uint32_t i = 0; i < n; i++) {
      if (all[i].is != is) continue;
      sb_fmt(out, "%s%s", indent, primitive_forms[is].name);
      for (uint32_t w = 0; w < all[i].words.n; w++)
        sb_putc(out, EK_PLANTED("schedule-print") ? '_' : ' '),
            put_word(out, all[i].words.v[w], is_list((primitive)is, w));
      sb_putc(out, '\n');
    }
}
void record_print(const kernel_record *k, sbuf *out) {
  sb_put(out, "\nkernel");
  if (k->number != UINT32_MAX) sb_fmt(out, " k%u", k->number);
  if (k->hashed) sb_fmt(out, " @%016llx", (unsigned long long)k->hash);
  if (k->nth) sb_fmt(out, ":%u", k->nth);
  sb_put(out, " {\n");
  put_directives(out, k->directives.v, k->directives.n, "  ");
  for (uint32_t i = 0; i < k->nests.n; i++) {
    sb_put(out, "  nest "), put_word(out, k->nests.v[i].name, false), sb_put(out, " {\n");
    put_directives(out, k->nests.v[i].directives.v, k->nests.v[i].directives.n, "    ");
    sb_put(out, "  }\n");
  }
  sb_put(out, "}\n");
}
void record_print_tensor(const tensor_record *t, sbuf *out) {
  sb_put(out, "\ntensor "), put_word(out, t->name, false), sb_put(out, " {\n");
  put_directives(out, t->directives.v, t->directives.n, "  ");
  sb_put(out, "}\n");
}
void schedules_print_head(sbuf *out) { sb_fmt(out, "schedules %d\n", SCHEDULES_VERSION); }
void schedules_print(const schedules *s, sbuf *out) {
  schedules_print_head(out);
  for (uint32_t i = 0; i < s->tensors.n; i++) record_print_tensor(&s->tensors.v[i], out);
  for (uint32_t i = 0; i < s->kernels.n; i++) record_print(&s->kernels.v[i], out);
}
