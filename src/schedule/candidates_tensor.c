/* In which other ways may a tensor be stored? From how it is recorded and facts about it, as candidates.c does it for
 * kernels: another order of the axes, another halo or none, lines between the places of an axis or none, and for a part
 * of another tensor memory of its own. */
#include "schedule/candidates.h"
#include <string.h>

enum { TENSOR = UINT32_MAX }; /* schedule_change.nest */
#define BIT(is) (UINT32_C(1) << (is))
static const axis_facts *axis_named(const tensor_record *r, const char *name) {
  for (uint32_t i = 0; i < r->facts->axes.n; i++)
    if (!strcmp(r->facts->axes.v[i].name, name)) return &r->facts->axes.v[i];
  return NULL;
}
static bool is_none(const directive *d) { return d->words.n == 1 && !strcmp(d->words.v[0], "none"); }
static void propose(arena *a, const tensor_record *r, primitive is, const strvec *words, changes *out) {
  schedule_change c = {.is = is, .nest = TENSOR};
  vec_push(a, c.to, ((directive){.is = is}));
  for (uint32_t i = 0; i < words->n; i++) record_word(a, &c.to.v[0], words->v[i]);
  if (words->n && change_is_new(out, &r->directives, &c)) vec_push(a, *out, c);
}
static void propose_none(arena *a, const tensor_record *r, primitive is, changes *out) {
  propose(a, r, is, &(strvec){.v = (const char *[]){"none"}, .n = 1}, out);
}
/* The axis at `from` goes to the place `to`. Those of one place may lie anywhere. */
static void propose_moved(arena *a, const tensor_record *r, const directive *d, uint32_t from, uint32_t to,
                          changes *out) {
  const axis_facts *x = axis_named(r, d->words.v[from]), *y = axis_named(r, d->words.v[to]);
  strvec words = {0};
  if (!x || !y || x->extent == 1 || y->extent == 1) return;
  for (uint32_t i = 0; i < d->words.n; i++)
    if (i != from) vec_push(a, words, d->words.v[i]);
  vec_push(a, words, d->words.v[from]);
  for (uint32_t i = words.n - 1; i > to; i--) words.v[i] = words.v[i - 1];
  words.v[to] = d->words.v[EK_PLANTED("schedule-candidates-tensor") ? to : from];
  propose(a, r, P_LAYOUT, &words, out);
}
/* Neighbours exchanged, and each axis innermost and outermost. */
static void layout_changes(arena *a, const tensor_record *r, changes *out) {
  const directive *d = record_find_tensor(r, P_LAYOUT);
  const uint32_t n = d ? d->words.n : 0;
  for (uint32_t i = 0; i + 1 < n; i++) propose_moved(a, r, d, i, i + 1, out);
  for (uint32_t i = 0; i < n; i++) {
    propose_moved(a, r, d, i, n - 1, out);
    propose_moved(a, r, d, i, 0, out);
  }
}
/* The halo without that axis (its place among the words). */
static void propose_narrower(arena *a, const tensor_record *r, const directive *d, uint32_t axis, changes *out) {
  strvec words = {0};
  for (uint32_t i = 0; i < d->words.n; i++)
    if (i < axis || i > axis + 2) vec_push(a, words, d->words.v[i]);
  propose(a, r, P_HALO, &words, out);
}
static void halo_changes(arena *a, const tensor_record *r, changes *out) {
  const directive *d = record_find_tensor(r, P_HALO), *widest = &r->facts->halo;
  if (!d || !widest->words.n) return;
  propose_none(a, r, P_HALO, out);
  propose(a, r, P_HALO, &widest->words, out);
  for (uint32_t i = 0; i + 5 < widest->words.n; i += 3) propose_narrower(a, r, widest, i, out);
}
static void pad_changes(arena *a, const tensor_record *r, changes *out) {
  const directive *d = record_find_tensor(r, P_PAD);
  if (!d) return;
  if (!is_none(d)) propose_none(a, r, P_PAD, out);
  for (uint32_t i = 0; i < r->facts->axes.n; i++) {
    const axis_facts *x = &r->facts->axes.v[i];
    strvec words = {0};
    if (!x->grows || x->extent == 1) continue;
    vec_push(a, words, x->name);
    vec_push(a, words, arena_fmt(a, "%lld", (long long)r->facts->line));
    propose(a, r, P_PAD, &words, out);
  }
}
void tensor_changes(arena *a, const tensor_record *r, changes *out) {
  if (r->facts) {
    layout_changes(a, r, out);
    halo_changes(a, r, out);
    pad_changes(a, r, out);
  }
  const directive *in = record_find_tensor(r, P_IN);
  if (in && !is_none(in)) propose_none(a, r, P_IN, out);
}
tensor_record tensor_changed(arena *a, const tensor_record *r, const schedule_change *c) {
  /* between which places there may be lines, and which are worth while, hangs on the order */
  const uint32_t but = BIT(c->is) | (c->is == P_LAYOUT || c->is == P_HALO ? BIT(P_PAD) : 0);
  tensor_record out = *r;
  directives all = {0};
  change_keep(a, &r->directives, c->is == P_IN ? UINT32_MAX : but, &all);
  change_keep(a, &c->to, 0, &all);
  out.directives = all;
  return out;
}
void candidates_print_tensor(arena *a, const tensor_record *r, sbuf *out) {
  changes all = {0};
  tensor_changes(a, r, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tensor_record changed = tensor_changed(a, r, &all.v[i]);
    schedules_print_head(out);
    sb_fmt(out, "# tensor, %u of %u:", i + 1, all.n);
    change_print(&all.v[i], out);
    record_print_tensor(&changed, out);
  }
}
