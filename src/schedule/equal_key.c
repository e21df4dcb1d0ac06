/* On what does the schedule of a kernel depend? On its formulas, and on where its tensors lie; not on which tensors
 * these are, nor on the values of constants.
 *
 * The key of a kernel is a list of words: its stages, their values, sizes and layouts, with all variables, nodes,
 * tensors and buffers numbered by first use. Symbols count as themselves, since a launch has sizes over them. Where a
 * tensor begins in its buffer counts from the first tensor there, so that kernels that write parts of one buffer are
 * equal; only whether that begins at 0 is told, for then addresses have no constant. What other kernels have to do
 * with it is in the key as far as a schedule looks at it: who reads a reduction (idle.c), who else writes to a buffer
 * with a halo (halo.c). The order of the terms of an index follows from the order of their atoms, so that is told, too.
 *
 * There is no key of recurrences and updates, which are rarely equal, nor of an index that data bring: its range is a
 * fact about other tensors.
 */
#include "schedule/equal.h"
#include "schedule/halo.h"
#include "schedule/kernel_in.h"
#include <stdlib.h>
#include <string.h>

typedef struct writer {
  splan *p;                   /* the plan */
  emodule *m;                 /* its module */
  const kernel_ref *k;        /* the kernel */
  arena *a;                   /* memory of the key */
  equal_key *key;             /* gets the words */
  uint32_t next[EQUAL_KINDS]; /* per kind of thing: how many have a number */
  u32vec atoms;               /* atoms by number */
  bool fails;                 /* there is no key */
  bool formulas;              /* only what is computed is written, not where it lies (kernel_hash) */
} writer;

static void word(writer *w, uint64_t x) { vec_push(w->a, w->key->words, x); }
/* Writes the number of a thing; true: it is a new one, and is to be described. */
static bool is_new(writer *w, equal_kind kind, uint32_t id) {
  struct equal_kernels *e = w->p->equal;
  equal_numbers *all = &e->numbers[kind];
  while (all->n <= id) vec_push(e->a, *all, (equal_number){0});
  equal_number *x = &all->v[id];
  const bool had = x->key == e->keys;
  if (!had) *x = (equal_number){e->keys, w->next[kind]++};
  word(w, x->number);
  return !had;
}
static uint32_t number_of(const writer *w, equal_kind kind, uint32_t id) {
  return w->p->equal->numbers[kind].v[id].number;
}
static void size(writer *w, sz x);
static void variable(writer *w, atom v);
static void atom_word(writer *w, atom v) {
  if (!v || !is_new(w, EQUAL_ATOM, v)) return;
  const atom_kind kind = sym_kind(w->m->c, v);
  sz args[3];
  vec_push(w->a, w->atoms, v);
  word(w, kind);
  if (kind == AT_SYMBOL && w->formulas)
    word(w, hash_bytes(sym_name(w->m->c, v), strlen(sym_name(w->m->c, v)), 0));
  else if (kind == AT_SYMBOL)
    word(w, v);
  else if (kind == AT_VAR)
    variable(w, v);
  else if (kind == AT_DATA)
    w->fails = true;
  else
    for (uint32_t i = 0, n = sym_args(w->m->c, v, args); i < n; i++) size(w, args[i]);
}
static void variable(writer *w, atom v) {
  const xrange *r = expr_range(w->m, v);
  uint64_t canon = v;
  size(w, sym_extent(w->m->c, v));
  word(w, r ? 1 + r->all : 0);
  if (r) size(w, r->lo), size(w, r->hi);
  if (w->k->canon) map_getu(w->k->canon, v, &canon);
  atom_word(w, (atom)canon);
}
static void size(writer *w, sz x) {
  if (!is_new(w, EQUAL_SIZE, x) || !x) return;
  const uint32_t n = sym_nterms(w->m->c, x);
  word(w, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t natoms;
    const atom *atoms;
    const uint8_t *exps;
    word(w, (uint64_t)sym_term(w->m->c, x, i, &natoms, &atoms, &exps));
    word(w, natoms);
    for (uint32_t j = 0; j < natoms; j++) word(w, exps[j]), atom_word(w, atoms[j]);
  }
}

/* ---- tensors ---------------------------------------------------------------------------------- */
/* Where it begins: from the first tensor in the buffer. Where that is not a number no pointer may move, so that the
 * first one's beginning is told, too. */
static void begins(writer *w, const layout *l, bool first) {
  const uint32_t b = number_of(w, EQUAL_BUFFER, l->buffer);
  int64_t at = 0;
  const bool known = sym_is_int(w->m->c, l->base, &at);
  if (first) vec_push(w->a, w->key->begins, known ? at : 0);
  word(w, (uint64_t)known << 1 | (known && at == 0));
  if (known)
    word(w, (uint64_t)(at - w->key->begins.v[b]));
  else
    size(w, l->base), word(w, (uint64_t)w->key->begins.v[b]);
}
static void buffer_words(writer *w, uint32_t number) {
  const buffer *b = &w->p->buffers.v[number];
  vec_push(w->a, w->key->buffers, number);
  word(w, key_four(0, b->kind, b->type, (uint16_t)(b->halo << 1 | b->filled)));
  if (b->halo) word(w, (uint64_t)b->fill.i);
}
static void layout_words(writer *w, const layout *l) {
  word(w, l->known);
  if (!l->known) return;
  const bool first = is_new(w, EQUAL_BUFFER, l->buffer);
  if (first) buffer_words(w, l->buffer);
  begins(w, l, first);
  for (uint32_t i = 0; i < l->rank; i++) {
    const laxis *x = &l->axes[i];
    word(w, x->n);
    for (uint32_t d = 0; d < x->n; d++)
      size(w, x->d[d].extent), size(w, EK_PLANTED("schedule-equal-key") ? 0 : x->d[d].stride);
    size(w, x->lo), size(w, x->hi);
  }
  word(w, l->fill != NULL);
  if (l->fill) word(w, (uint64_t)l->fill->i);
  word(w, l->pieces), word(w, (uint64_t)l->together);
}
static void tensor_words(writer *w, tid t) {
  if (!is_new(w, EQUAL_TENSOR, t)) return;
  const tensor *x = xt(w->m, t);
  vec_push(w->a, w->key->tensors, t);
  word(w, key_four(0, x->kind, x->type, (uint16_t)x->rank));
  for (uint32_t i = 0; i < x->rank; i++) size(w, x->shape[i]);
  if (x->kind == TK_CONST) word(w, (uint64_t)x->narrow.type << 8 | (uint64_t)(x->transform ? x->transform->size : 0));
  if (!w->formulas) layout_words(w, &w->p->layouts[t]);
}

/* ---- values ----------------------------------------------------------------------------------- */
static void value(writer *w, ex e) {
  word(w, e != 0);
  if (!e || !is_new(w, EQUAL_NODE, e)) return;
  const ex_node n = *exn(w->m, e);
  word(w, key_four(0, n.kind, (uint16_t)(n.type << 8 | n.op), (uint16_t)(n.acc << 8 | n.nargs)));
  if (n.kind == EX_CONST) word(w, (uint64_t)n.k.i);
  if (n.kind == EX_INDEX) size(w, n.index);
  if (n.kind == EX_LOAD) tensor_words(w, n.tensor);
  for (uint32_t i = 0; i < n.nargs; i++)
    if (n.kind == EX_LOAD)
      size(w, n.args[i]);
    else if (n.kind == EX_OP)
      value(w, n.args[i]);
    else
      atom_word(w, n.args[i]);
  if (n.kind == EX_LOAD) value(w, n.otherwise);
  if (n.kind == EX_REDUCE) value(w, n.where), value(w, n.body), value(w, n.payload);
}
/* What idle.c looks at: where a reduction is read. */
static void readers(writer *w, tid t) {
  const readings *r = &w->p->readers[t];
  word(w, w->p->named[t]);
  if (w->p->named[t]) return;
  word(w, r->n);
  for (uint32_t i = 0; i < r->n; i++)
    for (uint32_t j = 0; j < exn(w->m, r->v[i].load)->nargs; j++) size(w, exn(w->m, r->v[i].load)->args[j]);
}
static void update_words(writer *w, const update *u) {
  word(w, key_pair(u->op, u->nvars));
  for (uint32_t i = 0; i < u->nvars; i++) atom_word(w, u->vars[i]);
  for (uint32_t i = 0; i < u->nidx; i++) size(w, u->idx[i]);
  value(w, u->value), value(w, u->cond);
}
static void axes_words(writer *w, const stage *s) {
  word(w, s->naxes);
  for (uint32_t i = 0; i < s->naxes; i++) {
    word(w, s->axes[i].n);
    for (uint32_t d = 0; d < s->axes[i].n; d++) atom_word(w, s->axes[i].d[d].var), size(w, s->axes[i].d[d].extent);
  }
}
static void stage_words(writer *w, uint32_t index) {
  const stage *s = xs(w->m, index);
  const layout *l = &w->p->layouts[s->tensor];
  w->fails |= s->updates.n || s->recurrence || !s->value;
  if (w->fails) return;
  axes_words(w, s);
  tensor_words(w, s->tensor);
  value(w, s->value);
  word(w, (uint64_t)layout_materialised(w->p, s->tensor) << 1 | layout_inside(w->m, s));
  const buffer *b = &w->p->buffers.v[l->known ? l->buffer : 0];
  word(w, b->halo && !b->filled && halo_only_writer(w->p, l->buffer, s->tensor));
  if (exn(w->m, s->value)->kind == EX_REDUCE) readers(w, s->tensor);
}
static int ascending(const void *x, const void *y) {
  const atom a = *(const atom *)x, b = *(const atom *)y;
  return (a > b) - (a < b);
}
static void order_of_atoms(writer *w) {
  if (w->atoms.n) qsort(w->atoms.v, w->atoms.n, sizeof *w->atoms.v, ascending);
  for (uint32_t i = 0; i < w->atoms.n; i++) word(w, number_of(w, EQUAL_ATOM, w->atoms.v[i]));
}
bool equal_key_of(splan *p, const kernel_ref *k, arena *a, equal_key *out) {
  writer w = {.p = p, .m = p->m, .k = k, .a = a, .key = out};
  *out = (equal_key){0};
  if (!p->level || p->no_reuse || p->record) return false;
  if (!p->equal) equal_begin(p);
  p->equal->keys++;
  word(&w, k->kernel == UINT32_MAX ? 0 : p->m->kernels.v[k->kernel].cls);
  word(&w, (uintptr_t)k->stated), word(&w, k->block), word(&w, k->stages->n), word(&w, k->outer ? 1u + k->outer->n : 0);
  for (uint32_t i = 0; k->outer && i < k->outer->n; i++) atom_word(&w, k->outer->v[i]);
  for (uint32_t i = 0; i < k->stages->n && !w.fails; i++) stage_words(&w, k->stages->v[i]);
  if (w.fails) return false;
  order_of_atoms(&w);
  return true;
}
uint64_t kernel_hash(splan *p, const kernel_ref *k, arena *a) {
  equal_key out = {0};
  writer w = {.p = p, .m = p->m, .k = k, .a = a, .key = &out, .formulas = true};
  if (!p->equal) equal_begin(p);
  p->equal->keys++;
  for (uint32_t i = 0; i < k->stages->n; i++) {
    const stage *s = xs(w.m, k->stages->v[i]);
    word(&w, s->recurrence != 0);
    axes_words(&w, s);
    tensor_words(&w, s->tensor);
    value(&w, s->value);
    for (uint32_t u = 0; u < s->updates.n; u++) update_words(&w, &s->updates.v[u]);
  }
  return hash_bytes(out.words.v, out.words.n * sizeof *out.words.v, 0);
}
