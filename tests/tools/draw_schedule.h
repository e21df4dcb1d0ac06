/* draw_schedule: random schedules among those that schedule/candidates.h enumerates, and how many of each primitive
 * were legal. For tools and unit tests: a header of static functions. */
#ifndef EK_TESTS_DRAW_SCHEDULE_H
#define EK_TESTS_DRAW_SCHEDULE_H
#include "schedule/schedule.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* MOST_CHANGES: of one schedule; LEAST: trials of a primitive before its share of legal ones counts */
enum { MOST_REASONS = 256, MOST_CHANGES = 3, LEAST = 50 };
static uint64_t drawn;
static inline uint32_t draw(uint32_t n) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(drawn >> 33) % n : 0;
}
/* A kernel or a tensor, and the single changes of its schedule. */
typedef struct drawable {
  const kernel_record *k; /* NULL: it is a tensor */
  const kernel_facts *f;
  const tensor_record *t; /* NULL: it is a kernel */
  changes single;
} drawable;
typedef VEC(drawable) drawables;
static inline void note_launch(arena *a, drawables *all, const launch *l, const target *t) {
  drawable x = {.k = l->record, .f = l->facts};
  if (!x.k || !x.f) return;
  candidate_changes(a, x.k, x.f, t, &x.single);
  vec_push(a, *all, x);
}
/* The kernels and tensors of a module whose schedule was recorded. */
static inline void note_plan(arena *a, drawables *all, const splan *p) {
  storages tensors = {0};
  for (uint32_t i = 0; i < p->launches.n; i++) {
    note_launch(a, all, &p->launches.v[i], p->t);
    schedule_storages(p, &p->launches.v[i], &tensors);
  }
  for (uint32_t i = 0; i < tensors.n; i++) {
    drawable x = {.t = tensors.v[i]};
    tensor_changes(a, x.t, &x.single);
    if (x.single.n) vec_push(a, *all, x);
  }
}
/* One of these changes, of that primitive (P_COUNT: of any); NULL: there is none. */
static inline const schedule_change *draw_change(const changes *all, primitive is) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->n; i++) n += is == P_COUNT || all->v[i].is == is;
  uint32_t nth = draw(n);
  for (uint32_t i = 0; i < all->n; i++)
    if ((is == P_COUNT || all->v[i].is == is) && !nth--) return &all->v[i];
  return NULL;
}
/* A change of a primitive that some kernel or tensor offers, each as likely as the others, or of `only`; NULL: there is
 * none. */
static inline const schedule_change *draw_first(const drawables *all, int only, const drawable **of) {
  uint32_t offers[P_COUNT] = {0}, n = 0, is = 0; /* kernels or tensors */
  for (uint32_t i = 0; i < all->n; i++) {
    uint32_t has = 0;
    for (uint32_t q = 0; q < all->v[i].single.n; q++) has |= UINT32_C(1) << all->v[i].single.v[q].is;
    for (uint32_t p = 0; p < P_COUNT; p++) offers[p] += (only < 0 || (int)p == only) && (has >> p & 1);
  }
  for (uint32_t p = 0; p < P_COUNT; p++) n += offers[p] > 0;
  if (!n) return NULL;
  for (uint32_t nth = draw(n); !offers[is] || nth--;) is++;
  uint32_t owner = draw(offers[is]);
  for (uint32_t i = 0; i < all->n; i++) {
    bool has = false;
    for (uint32_t q = 0; q < all->v[i].single.n && !has; q++) has = all->v[i].single.v[q].is == is;
    if (!has || owner--) continue;
    *of = &all->v[i];
    return draw_change(&all->v[i].single, (primitive)is);
  }
  return NULL;
}
/* The text of a schedule that was changed once by a change of `only` (-1: of any primitive), and up to twice more;
 * *changed: bits of the primitives; 0: nothing offers a change. */
static inline void draw_schedule(arena *a, const drawables *all, const target *t, int only, const drawable **of,
                                 uint32_t *changed, sbuf *text) {
  const schedule_change *c = draw_first(all, only, of);
  kernel_record k = {0};
  tensor_record x = {0};
  *changed = 0;
  if (c && (*of)->k) k = *(*of)->k;
  if (c && (*of)->t) x = *(*of)->t;
  for (uint32_t more = draw(2) ? 0 : 1 + draw(MOST_CHANGES - 1);; more--) {
    changes next = {0};
    if (!c) break;
    *changed |= UINT32_C(1) << c->is;
    if ((*of)->k)
      k = candidate_changed(a, &k, (*of)->f, c), candidate_changes(a, &k, (*of)->f, t, &next);
    else
      x = tensor_changed(a, &x, c), tensor_changes(a, &x, &next);
    c = more ? draw_change(&next, P_COUNT) : NULL;
  }
  schedules_print_head(text);
  if (*changed && (*of)->k) record_print(&k, text);
  if (*changed && (*of)->t) record_print_tensor(&x, text);
}

/* ---- reasons of refusals ----------------------------------------------------------------------- */
static inline bool is_part_of(const char *name, const char *word, size_t n) { /* of a list of names */
  for (const char *s = name; *s; s += *s != 0) {
    if (!strncmp(s, word, n) && (!s[n] || strchr(" ()", s[n]))) return true;
    s += strcspn(s, " ()");
  }
  return false;
}
static inline bool is_name(const drawable *of, const char *word, size_t n) {
  for (uint32_t i = 0; of->t && of->t->facts && i < of->t->facts->axes.n; i++)
    if (is_part_of(of->t->facts->axes.v[i].name, word, n)) return true;
  if (of->t) return !strncmp(of->t->name, word, n) && !of->t->name[n];
  const kernel_facts *f = of->f;
  for (uint32_t i = 0; i <= f->nests.n; i++) {
    const nest_facts *x = i < f->nests.n ? &f->nests.v[i] : NULL;
    if (x && !strncmp(x->name, word, n) && !x->name[n]) return true;
    for (uint32_t q = 0; x && q < x->operands.n; q++)
      if (!strncmp(x->operands.v[q].name, word, n) && !x->operands.v[q].name[n]) return true;
    const uint32_t loops = x ? x->loops.n : f->shared.n;
    for (uint32_t q = 0; q < loops; q++)
      if (is_part_of(x ? x->loops.v[q].name : f->shared.v[q].name, word, n)) return true;
  }
  return false;
}
/* A reason without what is particular in it: numbers, and the names of variables and tensors. */
static inline void general_reason(const drawable *of, const char *why, char *text, size_t room) {
  size_t n = 0;
  for (const char *s = why; *s && *s != '\n' && n + 2 < room;) {
    const size_t word = strspn(s, RECORD_BARE),
                 name = word && (s[word - 1] == ':' || s[word - 1] == '.') ? word - 1 : word;
    if (*s == '(')
      text[n++] = '_', s += strcspn(s, ")"), s += *s == ')';
    else if (!word)
      text[n++] = *s++;
    else if (name && (is_name(of, s, name) || strspn(s, "0123456789") == name))
      text[n++] = '_', s += name;
    else
      for (size_t i = 0; i < word && n + 2 < room; i++) text[n++] = *s++;
    while (n > 3 && !strncmp(text + n - 4, "_, _", 4)) n -= 3;
  }
  text[n] = 0;
}

/* ---- how many were legal ----------------------------------------------------------------------- */
static struct {
  uint32_t trials, legal;
} of_primitive[P_COUNT];
static struct {
  char text[200];
  uint32_t n;
} reasons[MOST_REASONS];
/* why: the reason of a refusal; NULL: the schedule was legal */
static inline void note_schedule(uint32_t changed, const char *why) {
  for (uint32_t i = 0; i < P_COUNT; i++)
    if (changed >> i & 1) of_primitive[i].trials++, of_primitive[i].legal += !why;
  for (int i = 0; why && i < MOST_REASONS; i++) {
    if (reasons[i].n && strncmp(reasons[i].text, why, sizeof reasons[i].text - 1) != 0) continue;
    snprintf(reasons[i].text, sizeof reasons[i].text, "%.*s", (int)sizeof reasons[i].text - 1, why);
    reasons[i].n++;
    return;
  }
}
/* Prints the table; returns how many primitives have less than `least` % legal trials. */
static inline uint32_t tell_schedules(double least) {
  uint32_t bad = 0;
  for (int i = 0; i < P_COUNT; i++) {
    const uint32_t n = of_primitive[i].trials;
    const double share = n ? 100.0 * of_primitive[i].legal / n : 100;
    if (n) printf("%-11s %6u trials, %3.0f %% legal\n", primitive_forms[i].name, n, share);
    if (n < LEAST || share >= least) continue;
    printf("FAIL %s: less than %g %% are legal\n", primitive_forms[i].name, least);
    bad++;
  }
  for (int i = 0; i < MOST_REASONS && reasons[i].n; i++) printf("%6u  %s\n", reasons[i].n, reasons[i].text);
  return bad;
}
#endif
