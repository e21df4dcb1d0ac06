/* What does a text state of how a tensor is stored, and what is recorded of it?
 *
 * Any order of the axes is legal. A halo is as wide as what is read outside of the tensor, or narrower: then these
 * reads keep their guards. Places may lie farther apart where no variable counts them together with what is inside of
 * them. A part that is stored in place can be kept apart: then it is copied to its place (storage_separate).
 */
#include "schedule/layout_in.h"
#include <string.h>

/* ---- names and messages ------------------------------------------------------------------------ */
static _Noreturn void refuse(ctx *c, const char *tensor, const directive *d, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static _Noreturn void refuse(ctx *c, const char *tensor, const directive *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vfmt(ctx_arena(c), fmt, ap);
  va_end(ap);
  diag_add(c, D_ERROR, E_USAGE, d->pos, NULL, "tensor %s: %s: %s", tensor, primitive_forms[d->is].name, text);
  ctx_unwind(c);
}
/* An axis is named like its variable: several in parentheses, none (one place) by its number. A name that is taken gets
 * a number behind it. */
static void name_axes(const emodule *m, tid t, const char **names) {
  const stage *s = xs(m, xt(m, t)->stage);
  for (uint32_t i = 0; i < s->naxes; i++) {
    sbuf b = sbuf_new(m->a);
    if (!s->axes[i].n) sb_fmt(&b, "axis%u", i);
    for (uint32_t j = 0; j < s->axes[i].n; j++) sb_fmt(&b, "%s%s", j ? " " : "", sym_name(m->c, s->axes[i].d[j].var));
    names[i] = s->axes[i].n > 1 ? arena_fmt(m->a, "(%s)", b.s) : b.s;
    uint32_t number = 2;
    for (uint32_t k = 0; k < i; k++)
      if (!strcmp(names[k], names[i]))
        names[i] = arena_fmt(m->a, "%s.%u", b.s, number++), k = UINT32_MAX; /* once more from the first */
  }
}
static uint32_t axis_named(lay *L, tid t, const directive *d, const char *word) {
  const char *names[MAX_RANK];
  const uint32_t rank = xt(L->m, t)->rank;
  sbuf all = sbuf_new(L->a);
  name_axes(L->m, t, names);
  for (uint32_t i = 0; i < rank; i++) {
    if (!strcmp(names[i], word)) return i;
    sb_fmt(&all, "%s%s", i ? ", " : "", names[i]);
  }
  refuse(L->c, xt(L->m, t)->name, d, "there is no axis %s%s; there are: %s", word,
         did_you_mean(L->a, word, names, rank), rank ? all.s : "none");
}
static const directive *stated(splan *p, tid t, primitive is) {
  tensor_record *r = p->stated ? record_tensor_named(p->stated, xt(p->m, t)->name) : NULL;
  directive *d = r ? record_find_tensor(r, is) : NULL;
  if (r) r->used = true;
  if (d) d->used = true;
  return d;
}
static bool is_none(const directive *d) { return d->words.n == 1 && !strcmp(d->words.v[0], "none"); }
/* The number of elements that word i is, 0 to most. */
static int64_t number(lay *L, tid t, const directive *d, uint32_t i, int64_t most) {
  const char *const word = i < d->words.n ? d->words.v[i] : "the end of the line", *name = xt(L->m, t)->name;
  char *end;
  const int64_t n = int_parse(word, &end);
  if (end == word || *end) refuse(L->c, name, d, "expected a number, found %s", word);
  if (n < 0 || n > most) refuse(L->c, name, d, "%s: expected a number from 0 to %lld", word, (long long)most);
  return n;
}

/* ---- what is stated ---------------------------------------------------------------------------- */
void storage_separate(splan *p) {
  emodule *m = p->m;
  for (uint32_t i = 0; p->stated && i < p->stated->tensors.n; i++) {
    const tensor_record *r = &p->stated->tensors.v[i];
    const directive *d = record_find_tensor(r, P_IN);
    if (!d || !is_none(d) || EK_PLANTED("follow-in")) continue;
    for (uint32_t s = 0; s < m->stages.n; s++) {
      if (xs(m, s)->dead || xs(m, s)->kernel) continue; /* only what has no kernel stores its parts in place */
      for (uint32_t u = 0; u < max64(1, xs(m, s)->updates.n); u++) {
        const bool update = xs(m, s)->updates.n > 0;
        const ex_node n = *exn(m, update ? xs(m, s)->updates.v[u].value : xs(m, s)->value);
        if (n.kind != EX_LOAD || xt(m, n.tensor)->kind != TK_STAGE || strcmp(xt(m, n.tensor)->name, r->name)) continue;
        const uint32_t b = xs(m, s)->block;
        const tid copy = xs(m, expr_copy_stage(m, b, n.tensor, "copy"))->tensor;
        const ex value = expr_load(m, copy, n.args, n.nargs, n.otherwise);
        uint32_t at = 0;
        while (m->blocks.v[b].items.v[at].kind != IT_STAGE || m->blocks.v[b].items.v[at].index != s) at++;
        expr_move_item(m, b, m->blocks.v[b].items.n - 1, at);
        if (update)
          xs(m, s)->updates.v[u].value = value;
        else
          xs(m, s)->value = value;
      }
    }
  }
}
void storage_follow_place(lay *L, tid t) {
  const directive *d = stated(L->p, t, P_IN);
  if (d && !is_none(d))
    refuse(L->c, xt(L->m, t)->name, d, "the tensor is no part of another one that is stored in place");
}
void storage_follow_order(lay *L, tid t, storage *s) {
  const directive *d = stated(L->p, t, P_LAYOUT);
  const uint32_t rank = xt(L->m, t)->rank;
  bool had[MAX_RANK] = {0};
  if (!d) return;
  for (uint32_t i = 0; i < d->words.n; i++) {
    const uint32_t axis = axis_named(L, t, d, d->words.v[i]);
    if (had[axis]) refuse(L->c, xt(L->m, t)->name, d, "%s is there twice", d->words.v[i]);
    had[axis] = true;
    if (!EK_PLANTED("follow-layout")) s->order[i] = axis;
  }
  const char *names[MAX_RANK];
  name_axes(L->m, t, names);
  for (uint32_t i = 0; i < rank; i++)
    if (!had[i]) refuse(L->c, xt(L->m, t)->name, d, "%s is missing", names[i]);
}
static const char *fill_text(lay *L, etype type, scalar fill) {
  sbuf b = sbuf_new(L->a);
  expr_print_scalar(type, fill, &b);
  return b.s;
}
/* The widest halo that a read of the tensor has a use for, of the constant that is stated, or else of the one that
 * `like` has; any = false: nothing is read outside of it with such a constant, as far as that is known. */
static halo_room widest(lay *L, tid t, const char *fill, const halo_room *like) {
  halo_room all = {0};
  const readings *rs = &L->p->readers[t];
  for (uint32_t i = 0; i < rs->n; i++) {
    const ex_node *n = exn(L->m, rs->v[i].load), *o = n->otherwise ? exn(L->m, n->otherwise) : NULL;
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (!o || o->kind != EX_CONST) continue;
    const scalar *want = all.any ? &all.fill : like->any && !fill ? &like->fill : NULL;
    if (want ? memcmp(want, &o->k, sizeof *want) : fill && strcmp(fill, fill_text(L, (etype)n->type, o->k))) continue;
    if (!room_outside(L, n, lo, hi)) continue;
    all.any = true, all.fill = o->k;
    for (uint32_t j = 0; j < n->nargs; j++) all.lo[j] = max64(all.lo[j], lo[j]), all.hi[j] = max64(all.hi[j], hi[j]);
  }
  return all;
}
void storage_follow_halo(lay *L, tid t, storage *s) {
  const directive *d = stated(L->p, t, P_HALO);
  if (!d || EK_PLANTED("follow-halo")) return;
  if (is_none(d)) {
    s->halo = (halo_room){0};
    return;
  }
  const char *name = xt(L->m, t)->name, *fill = NULL;
  uint32_t n = d->words.n;
  if (n >= 2 && !strcmp(d->words.v[n - 2], "fill")) n -= 2, fill = d->words.v[n + 1];
  const halo_room most = widest(L, t, fill, &s->halo);
  if (!most.any)
    refuse(L->c, name, d, "nothing is read outside of the tensor%s%s", fill ? " that counts as " : "",
           fill ? fill : "");
  s->halo = (halo_room){.any = true, .fill = most.fill};
  for (uint32_t i = 0; i < n; i += 3) {
    const uint32_t axis = axis_named(L, t, d, d->words.v[i]);
    s->halo.lo[axis] = number(L, t, d, i + 1, most.lo[axis]);
    s->halo.hi[axis] = number(L, t, d, i + 2, most.hi[axis]);
  }
  if (!room_fits(L, t, s->halo.lo, s->halo.hi)) refuse(L->c, name, d, "the tensor would be many times as large");
}
void storage_follow_pads(lay *L, tid t, storage *s, bool steps) {
  const directive *d = stated(L->p, t, P_PAD);
  const tensor *x = xt(L->m, t);
  if (!d) return;
  memset(s->pad, 0, sizeof s->pad);
  for (uint32_t i = 0; i < d->words.n && !is_none(d); i += 2) {
    const uint32_t axis = axis_named(L, t, d, d->words.v[i]);
    uint32_t at = 0;
    while (s->order[at] != axis) at++;
    if (steps) refuse(L->c, x->name, d, "only one step of the tensor is in memory");
    if (at + 1 == x->rank) refuse(L->c, x->name, d, "%s is the innermost axis", d->words.v[i]);
    if (!room_may_grow(L, t, s->order, at))
      refuse(L->c, x->name, d, "a variable counts %s together with what is inside of it", d->words.v[i]);
    /* beyond a way of the nearest cache the same of its sets come again */
    s->pad[axis] = EK_PLANTED("follow-pad") +
                   number(L, t, d, i + 1, (int64_t)(L->p->t->l1 / max64(1, L->p->t->l1_ways) / et_bytes(x->type)));
  }
}
void storage_follow_state(lay *L, tid t) {
  for (primitive is = P_HALO; is <= P_PAD; is++) {
    const directive *d = stated(L->p, t, is);
    if (d && !is_none(d))
      refuse(L->c, xt(L->m, t)->name, d, "the tensor is a state: it has memory for its elements only");
  }
}
void storage_check_used(splan *p) {
  for (uint32_t i = 0; p->stated && i < p->stated->tensors.n; i++) {
    const tensor_record *r = &p->stated->tensors.v[i];
    strvec names = {0};
    for (uint32_t k = 0; k < r->directives.n && r->used; k++)
      if (!r->directives.v[k].used) refuse(p->m->c, r->name, &r->directives.v[k], "it does not apply to this tensor");
    if (r->used) continue;
    for (uint32_t t = 1; t < p->m->tensors.n; t++)
      if (xt(p->m, t)->kind == TK_STAGE && layout_materialised(p, t)) vec_push(p->m->a, names, xt(p->m, t)->name);
    diag_add(p->m->c, D_ERROR, E_USAGE, r->pos, NULL, "there is no tensor %s whose storage is chosen%s", r->name,
             did_you_mean(p->m->a, r->name, names.v, names.n));
    ctx_unwind(p->m->c);
  }
}

/* ---- parts of other tensors -------------------------------------------------------------------- */
/* Where the part begins: `at`, and axis and place of each axis where that is not 0. */
static void begin_words(lay *L, uint32_t si, uint32_t update, strvec *out) {
  const stage *s = xs(L->m, si);
  uint32_t n;
  ex value;
  const sz *idx = layout_placement(L, s, update, &n, &value);
  const char *names[MAX_RANK];
  name_axes(L->m, s->tensor, names);
  for (uint32_t i = 0; i < n; i++) {
    u32vec vars = {0};
    sz at = idx[i];
    sym_atoms(L->c, at, AT_VAR, L->a, &vars);
    for (uint32_t v = 0; v < vars.n; v++) at = sym_replace(L->c, at, vars.v[v], sym_int(L->c, 0));
    if (sym_int_or(L->c, at, 1) == 0) continue;
    sbuf b = sbuf_new(L->p->l->a);
    sym_print(L->c, at, &b);
    if (!out->n) vec_push(L->a, *out, "at");
    vec_push(L->a, *out, names[i]);
    vec_push(L->a, *out, b.s);
  }
}
/* What is stated of the part says where it is. */
static void check_piece(lay *L, tid t, tid whole, const strvec *begin) {
  const directive *d = stated(L->p, t, P_IN);
  const char *name = xt(L->m, whole)->name;
  if (!d) return;
  bool same = d->words.n == 1 || d->words.n == begin->n + 1;
  for (uint32_t i = 0; i + 1 < d->words.n && same; i++) same = !strcmp(d->words.v[i + 1], begin->v[i]);
  if (strcmp(d->words.v[0], name))
    refuse(L->c, xt(L->m, t)->name, d, "%s: the tensor is a part of %s", d->words.v[0], name);
  if (same) return;
  sbuf b = sbuf_new(L->a);
  for (uint32_t i = 0; i < begin->n; i++) sb_fmt(&b, " %s", begin->v[i]);
  refuse(L->c, xt(L->m, t)->name, d, "the formula puts it in %s%s", name, begin->n ? b.s : ", at its beginning");
}

/* ---- what is recorded -------------------------------------------------------------------------- */
static tensor_record *new_record(lay *L, tid t) {
  arena *a = L->p->l->a;
  tensor_record *r = NEW(a, tensor_record);
  r->name = xt(L->m, t)->name;
  L->p->storages[t] = r;
  return r;
}
static void record_words(lay *L, tensor_record *r, primitive is, const strvec *words) {
  directive *d = record_add_tensor(L->p->l->a, r, is);
  for (uint32_t i = 0; i < words->n; i++) record_word(L->p->l->a, d, words->v[i]);
}
static const char *decimal(lay *L, int64_t n) { return arena_fmt(L->p->l->a, "%lld", (long long)n); }
/* The words of a halo, or `none`. */
static strvec halo_words(lay *L, tid t, const halo_room *h) {
  const tensor *x = xt(L->m, t);
  const char *names[MAX_RANK];
  strvec words = {0};
  name_axes(L->m, t, names);
  for (uint32_t i = 0; i < x->rank && h->any; i++) {
    if (!h->lo[i] && !h->hi[i]) continue;
    vec_push(L->a, words, names[i]);
    vec_push(L->a, words, decimal(L, h->lo[i])), vec_push(L->a, words, decimal(L, h->hi[i]));
  }
  if (h->any) vec_push(L->a, words, "fill"), vec_push(L->a, words, fill_text(L, x->type, h->fill));
  if (!words.n) vec_push(L->a, words, "none");
  return words;
}
/* What other ways to store it are made of. halo, lines: see storage_record */
static const tensor_facts *facts_of(lay *L, tid t, const storage *s, bool halo, bool lines) {
  arena *a = L->p->l->a;
  const tensor *x = xt(L->m, t);
  tensor_facts *f = NEW(a, tensor_facts);
  const char *names[MAX_RANK];
  const halo_room most = widest(L, t, NULL, &L->halo[t]);
  name_axes(L->m, t, names);
  for (uint32_t i = 0; i < x->rank; i++)
    vec_push(a, f->axes, ((axis_facts){.name = names[i], .extent = view_extent(L->c, x->shape[i], -1)}));
  for (uint32_t at = 0; at + 1 < x->rank && lines; at++)
    f->axes.v[s->order[at]].grows = room_may_grow(L, t, s->order, at);
  f->line = max64(1, (int64_t)L->p->t->line / et_bytes(x->type));
  if (!halo || !most.any || !room_fits(L, t, most.lo, most.hi)) return f;
  const strvec words = halo_words(L, t, &most);
  for (uint32_t i = 0; i < words.n; i++) record_word(a, &f->halo, words.v[i]);
  return f;
}
void storage_record(lay *L, tid t, const storage *s, bool halo, bool lines) {
  if (!L->p->storages) return;
  const tensor *x = xt(L->m, t);
  tensor_record *r = new_record(L, t);
  const char *names[MAX_RANK];
  strvec order = {0}, pad = {0};
  const strvec around = halo_words(L, t, &s->halo);
  name_axes(L->m, t, names);
  for (uint32_t i = 0; i < x->rank; i++) {
    const uint32_t axis = s->order[EK_PLANTED("schedule-storage") ? x->rank - 1 - i : i];
    vec_push(L->a, order, names[axis]);
  }
  for (uint32_t i = 0; i < x->rank; i++)
    if (s->pad[i]) vec_push(L->a, pad, names[i]), vec_push(L->a, pad, decimal(L, s->pad[i]));
  if (!pad.n) vec_push(L->a, pad, "none");
  record_words(L, r, P_LAYOUT, &order), record_words(L, r, P_HALO, &around), record_words(L, r, P_PAD, &pad);
  const directive *none = stated(L->p, t, P_IN);
  if (none) record_words(L, r, P_IN, &none->words);
  r->facts = facts_of(L, t, s, halo, lines);
}
void storage_record_piece(lay *L, tid t, uint32_t stage, uint32_t update) {
  const tid whole = xs(L->m, stage)->tensor;
  strvec words = {0}, begin = {0};
  if (!layout_materialised(L->p, t) || (!L->p->storages && !L->p->stated)) return;
  begin_words(L, stage, update, &begin);
  check_piece(L, t, whole, &begin);
  if (!L->p->storages) return;
  vec_push(L->a, words, xt(L->m, whole)->name);
  for (uint32_t i = 0; i < begin.n; i++) vec_push(L->a, words, begin.v[i]);
  tensor_record *r = new_record(L, t);
  r->whole = L->p->storages[whole];
  record_words(L, r, P_IN, &words);
}
