/* How are loop programs made? One call per instruction; equal pure values within a scope are one value, and what
 * folds is folded (fold.c).
 *
 * Each open block has a scope: a hash table of the pure values made in it. A value is looked up from the
 * innermost scope outwards, so whatever is found is visible. Constants, parameters and the function's own values
 * (lo, hi, worker) do not depend on their place: they are put at the head of the body, where every block sees them.
 */
#include "loop/build.h"
#include <string.h>

struct lb_scope {
  uint32_t block;      /* the block this scope fills */
  lv owner;            /* FOR or IF; 0: the body, or an inlined loop */
  bool inlined;        /* a loop of one iteration: its contents go to the block outside */
  lv first;            /* values before this one were there before the scope was */
  uint32_t head;       /* body: how many place-independent instructions stand at its head */
  uint32_t n;          /* entries of tab in use */
  uint32_t cap;        /* size of tab, a power of two */
  lv *tab;             /* hash table of values, open addressing; 0: free */
  struct lb_scope *up; /* scope around it; NULL: none */
};

lmodule *loop_module(ctx *c, arena *a) {
  lmodule *m = NEW(a, lmodule);
  m->c = c;
  m->a = a;
  return m;
}
lfunc *loop_func(lmodule *m, lfunc_kind k, const char *name, const char *note) {
  lfunc *f = NEW(m->a, lfunc);
  f->kind = k;
  f->name = arena_strdup(m->a, name);
  f->note = note ? arena_strdup(m->a, note) : NULL;
  f->a = m->a;
  vec_push(f->a, f->insts, (linst){0});
  vec_push(f->a, f->blocks, (lblock){0});
  vec_push(f->a, f->blocks, (lblock){0});
  vec_push(m->a, m->funcs, f);
  return f;
}
void loop_settle(lfunc *f, arena *a) {
  f->a = a;
  f->params.v = arena_dup(a, f->params.v, f->params.n * sizeof *f->params.v), f->params.cap = f->params.n;
  f->insts.v = arena_dup(a, f->insts.v, f->insts.n * sizeof *f->insts.v), f->insts.cap = f->insts.n;
  f->blocks.v = arena_dup(a, f->blocks.v, f->blocks.n * sizeof *f->blocks.v), f->blocks.cap = f->blocks.n;
  for (uint32_t i = 0; i < f->params.n; i++) f->params.v[i].name = arena_strdup(a, f->params.v[i].name);
  for (uint32_t i = 0; i < f->insts.n; i++) {
    linst *x = li(f, i);
    if (x->name) x->name = arena_strdup(a, x->name);
    if (x->nargs) x->args = arena_dup(a, x->args, x->nargs * sizeof *x->args);
  }
  for (uint32_t i = 0; i < f->blocks.n; i++) {
    lblock *b = &f->blocks.v[i];
    b->insts.v = arena_dup(a, b->insts.v, b->insts.n * sizeof *b->insts.v), b->insts.cap = b->insts.n;
  }
}
static bool at_head(lkind k) { return k == L_CONST || k == L_LO || k == L_HI || k == L_WORKER || k == L_PARAM; }
static struct lb_scope *open_scope(lbuild *b, uint32_t block, lv owner) {
  struct lb_scope *s = NEW(b->f->a, struct lb_scope);
  s->block = block;
  s->owner = owner;
  s->first = owner ? owner : b->f->insts.n; /* the index of a loop belongs to its scope */
  s->up = b->scope;
  b->scope = s;
  b->block = block;
  return s;
}
lbuild loop_builder(lfunc *f) {
  lbuild b = {.f = f};
  struct lb_scope *s = open_scope(&b, 1, 0);
  const lblock *body = &f->blocks.v[1];
  while (s->head < body->insts.n && at_head((lkind)li(f, body->insts.v[s->head])->kind)) s->head++;
  return b;
}
static struct lb_scope *body_scope(lbuild *b) {
  struct lb_scope *s = b->scope;
  while (s->up) s = s->up;
  return s;
}

/* ---- sharing --------------------------------------------------------------------------------- */
static uint64_t inst_hash(const linst *i) {
  uint64_t k[6] = {(uint64_t)i->kind | (uint64_t)i->op << 8 | (uint64_t)i->align << 16,
                   0,
                   (uint64_t)i->a << 32 | i->b,
                   (uint64_t)i->c << 32 | i->nargs,
                   0,
                   0};
  memcpy(&k[1], &i->type, sizeof i->type);
  memcpy(&k[4], &i->k, sizeof i->k);
  if (i->nargs) k[5] = hash_bytes(i->args, i->nargs * sizeof *i->args, 0);
  return hash_bytes(k, sizeof k, 1);
}
static bool inst_equal(const linst *x, const linst *y) {
  return x->kind == y->kind && x->op == y->op && x->align == y->align && !memcmp(&x->type, &y->type, sizeof x->type) &&
         x->a == y->a && x->b == y->b && x->c == y->c && !memcmp(&x->k, &y->k, sizeof x->k) && x->nargs == y->nargs &&
         (!x->nargs || !memcmp(x->args, y->args, x->nargs * sizeof *x->args)) &&
         (x->name == y->name || (x->name && y->name && !strcmp(x->name, y->name)));
}
static void scope_put(lbuild *b, struct lb_scope *s, lv v) {
  if (s->n * 4 >= s->cap * 3) {
    uint32_t old = s->cap;
    lv *t = s->tab;
    s->cap = old ? old * 2 : 32;
    s->tab = NEWN(b->f->a, lv, s->cap);
    for (uint32_t i = 0; i < old; i++)
      if (t[i]) {
        uint32_t h = (uint32_t)inst_hash(li(b->f, t[i])) & (s->cap - 1);
        while (s->tab[h]) h = (h + 1) & (s->cap - 1);
        s->tab[h] = t[i];
      }
  }
  uint32_t h = (uint32_t)inst_hash(li(b->f, v)) & (s->cap - 1);
  while (s->tab[h]) h = (h + 1) & (s->cap - 1);
  s->tab[h] = v;
  s->n++;
}
static lv append(lbuild *b, uint32_t block, linst i) {
  lv v = b->f->insts.n;
  vec_push(b->f->a, b->f->insts, i);
  vec_push(b->f->a, b->f->blocks.v[block].insts, v);
  return v;
}
lv lb_effect(lbuild *b, linst i) { return append(b, b->block, i); }
/* The equal value in this scope or further out; 0: there is none. */
static lv find(lbuild *b, const struct lb_scope *s, const linst *i) {
  uint64_t h = inst_hash(i);
  for (; s; s = s->up) {
    if (!s->cap) continue;
    for (uint32_t k = (uint32_t)h & (s->cap - 1); s->tab[k]; k = (k + 1) & (s->cap - 1))
      if (inst_equal(li(b->f, s->tab[k]), i)) return s->tab[k];
  }
  return 0;
}
static bool outside(lbuild *b, const struct lb_scope *s, lv x) {
  return x < s->first || at_head((lkind)li(b->f, x)->kind) || find(b, s->up, li(b->f, x)) == x;
}
/* A division takes as long as twenty other operations: it is put as far out as its operands are known, and found
 * there by whoever else needs it. */
static struct lb_scope *place_of(lbuild *b, const linst *i) {
  struct lb_scope *s = b->scope;
  if (i->kind != L_OP || (i->op != OP_IDIV && i->op != OP_MOD) || i->type.lanes != 1) return s;
  while (s->up && outside(b, s, i->a) && outside(b, s, i->b)) s = s->up;
  return s;
}
lv lb_pure(lbuild *b, linst i) {
  bool head = at_head((lkind)i.kind);
  lv known = find(b, head ? body_scope(b) : b->scope, &i);
  if (known) return known;
  if (!head) {
    struct lb_scope *s = place_of(b, &i);
    lv v = append(b, s->block, i);
    lblock *in = &b->f->blocks.v[s->block];
    /* puts it before what is open in the outer block */
    if (s->block != b->block)
      in->insts.v[in->insts.n - 1] = in->insts.v[in->insts.n - 2], in->insts.v[in->insts.n - 2] = v;
    scope_put(b, s, v);
    return v;
  }
  struct lb_scope *s = body_scope(b);
  lv v = append(b, 1, i);
  lblock *body = &b->f->blocks.v[1];
  memmove(body->insts.v + s->head + 1, body->insts.v + s->head, (body->insts.n - 1 - s->head) * sizeof(uint32_t));
  body->insts.v[s->head++] = v;
  scope_put(b, s, v);
  return v;
}

/* ---- values of the function ------------------------------------------------------------------ */
lv lb_param(lbuild *b, const char *name, ltype t, unsigned flags, unsigned align) {
  lfunc *f = b->f;
  name = arena_strdup(f->a, name);
  lv v = lb_pure(b, (linst){.kind = L_PARAM, .type = t, .k = {.i = (int64_t)f->params.n}, .name = name});
  vec_push(f->a, f->params,
           ((lparam){.name = name, .type = t, .flags = (uint8_t)flags, .align = (uint16_t)align, .value = v}));
  return v;
}
lv lb_const(lbuild *b, ltype t, scalar k) {
  if (t.elem == ET_BOOL)
    k.i = k.i != 0;
  else
    k = et_round((etype)t.elem, k);
  return lb_pure(b, (linst){.kind = L_CONST, .type = t, .k = k});
}
lv lb_int(lbuild *b, int64_t v) { return lb_const(b, lt(ET_I64, 1), (scalar){.i = v}); }
lv lb_lo(lbuild *b) { return lb_pure(b, (linst){.kind = L_LO, .type = lt(ET_I64, 1)}); }
lv lb_hi(lbuild *b) { return lb_pure(b, (linst){.kind = L_HI, .type = lt(ET_I64, 1)}); }
lv lb_worker(lbuild *b) { return lb_pure(b, (linst){.kind = L_WORKER, .type = lt(ET_I64, 1)}); }

/* ---- vectors --------------------------------------------------------------------------------- */
lv lb_splat(lbuild *b, uint16_t lanes, lv x) {
  ltype t = li(b->f, x)->type;
  if (t.lanes == lanes || t.ptr) return x;
  t.lanes = lanes;
  scalar k;
  if (loop_const(b->f, x, &k)) return lb_const(b, t, k);
  return lb_pure(b, (linst){.kind = L_SPLAT, .type = t, .a = x});
}
lv lb_iota(lbuild *b, ltype t) {
  return t.lanes == 1 ? lb_const(b, t, (scalar){.i = 0}) : lb_pure(b, (linst){.kind = L_IOTA, .type = t});
}
lv lb_hreduce(lbuild *b, rop op, lv v) {
  ltype t = li(b->f, v)->type;
  if (t.lanes == 1) return v;
  t.lanes = 1;
  return lb_pure(b, (linst){.kind = L_HREDUCE, .op = (uint8_t)op, .type = t, .a = v});
}
lv lb_extract(lbuild *b, lv v, uint32_t lane) {
  const linst *i = li(b->f, v);
  ltype t = i->type;
  if (t.lanes == 1) return v;
  if (i->kind == L_SPLAT) return i->a;
  t.lanes = 1;
  if (i->kind == L_CONST) return lb_const(b, t, i->k);
  if (i->kind == L_IOTA) return lb_const(b, t, (scalar){.i = (int64_t)lane});
  return lb_pure(b, (linst){.kind = L_EXTRACT, .type = t, .a = v, .k = {.i = (int64_t)lane}});
}
lv lb_shuffle(lbuild *b, lv x, lv y, const int32_t *lanes, uint16_t n) {
  ltype t = li(b->f, x)->type;
  t.lanes = n;
  return lb_pure(b, (linst){.kind = L_SHUFFLE,
                            .type = t,
                            .a = x,
                            .b = y,
                            .nargs = n,
                            .args = arena_dup(b->f->a, lanes, n * sizeof *lanes)});
}
lv lb_lookup(lbuild *b, ltype t, lv i, const uint32_t *bits, uint16_t n) {
  scalar k;
  if (loop_const(b->f, i, &k)) return lb_const(b, t, et_load((etype)t.elem, &bits[k.i & (n - 1)]));
  return lb_pure(
      b, (linst){.kind = L_LOOKUP, .type = t, .a = i, .nargs = n, .args = arena_dup(b->f->a, bits, n * sizeof *bits)});
}

/* ---- memory ---------------------------------------------------------------------------------- */
/* The mask; 0: it is known, to be all true, or all false (*never). */
static lv access_mask(lbuild *b, lv mask, bool *never) {
  scalar k;
  *never = false;
  if (!mask || !loop_const(b->f, mask, &k)) return mask;
  *never = !k.i;
  return 0;
}
static linst access(lbuild *b, lkind kind, ltype t, lv p, lv i, lv mask, lv count, lv stride, unsigned align) {
  scalar k;
  if (count && loop_const(b->f, count, &k) && k.i >= t.lanes) count = 0;
  if (stride && (t.lanes == 1 || (loop_const(b->f, stride, &k) && k.i == 1))) stride = 0;
  return (linst){.kind = (uint8_t)kind,
                 .type = t,
                 .a = p,
                 .b = i,
                 .mask = mask,
                 .count = count,
                 .stride = stride,
                 .align = (uint16_t)align};
}
lv lb_load_ex(lbuild *b, ltype t, lv p, lv i, lv mask, lv count, lv stride, unsigned align) {
  bool never;
  mask = access_mask(b, mask, &never);
  if (never) return lb_const(b, t, (scalar){.i = 0});
  return lb_effect(b, access(b, L_LOAD, t, p, i, mask, count, stride, align));
}
lv lb_load(lbuild *b, ltype t, lv p, lv i) { return lb_load_ex(b, t, p, i, 0, 0, 0, 0); }
lv lb_gather(lbuild *b, ltype t, lv p, lv ivec, lv mask) {
  bool never;
  mask = access_mask(b, mask, &never);
  if (never) return lb_const(b, t, (scalar){.i = 0});
  if (t.lanes == 1) return lb_load_ex(b, t, p, ivec, mask, 0, 0, 0);
  return lb_effect(b, (linst){.kind = L_GATHER, .type = t, .a = p, .b = ivec, .mask = mask});
}
void lb_store_ex(lbuild *b, lv p, lv i, lv v, lv mask, lv count, lv stride, unsigned align) {
  bool never;
  mask = access_mask(b, mask, &never);
  if (never) return;
  linst s = access(b, L_STORE, li(b->f, v)->type, p, i, mask, count, stride, align);
  s.c = v;
  lb_effect(b, s);
}
void lb_store(lbuild *b, lv p, lv i, lv v) { lb_store_ex(b, p, i, v, 0, 0, 0, 0); }
void lb_prefetch(lbuild *b, lv p, lv i) {
  lb_effect(b, (linst){.kind = L_PREFETCH, .type = li(b->f, p)->type, .a = p, .b = i});
}
void lb_scatter(lbuild *b, lv p, lv ivec, lv v, lv mask) {
  bool never;
  mask = access_mask(b, mask, &never);
  if (never) return;
  ltype t = li(b->f, v)->type;
  if (t.lanes == 1)
    lb_store_ex(b, p, ivec, v, mask, 0, 0, 0);
  else
    lb_effect(b, (linst){.kind = L_SCATTER, .type = t, .a = p, .b = ivec, .c = v, .mask = mask});
}
static lv offset(lbuild *b, etype elem, lv p, lv i) {
  return lb_pure(b, (linst){.kind = L_OFFSET, .type = lptr(elem), .a = p, .b = i});
}
lv lb_offset(lbuild *b, lv p, lv i) {
  scalar k;
  if (loop_const(b->f, i, &k) && k.i == 0) return p;
  return offset(b, (etype)li(b->f, p)->type.elem, p, i);
}
lv lb_ptrcast(lbuild *b, etype elem, lv p) {
  return li(b->f, p)->type.elem == elem ? p : offset(b, elem, p, lb_int(b, 0));
}
lv lb_alloc(lbuild *b, etype t, uint64_t n) {
  return lb_effect(b, (linst){.kind = L_ALLOC, .type = lptr(t), .k = {.i = (int64_t)n}});
}
lv lb_scratch(lbuild *b, etype t, uint64_t byte_offset) {
  return lb_pure(b, (linst){.kind = L_SCRATCH, .type = lptr(t), .k = {.i = (int64_t)byte_offset}});
}
lv lb_reg(lbuild *b, lv init) { return lb_effect(b, (linst){.kind = L_REG, .type = li(b->f, init)->type, .a = init}); }
lv lb_get(lbuild *b, lv reg) { return lb_effect(b, (linst){.kind = L_GET, .type = li(b->f, reg)->type, .a = reg}); }
void lb_set(lbuild *b, lv reg, lv v) {
  lb_effect(b, (linst){.kind = L_SET, .type = li(b->f, v)->type, .a = reg, .b = v});
}

/* ---- structure ------------------------------------------------------------------------------- */
static uint32_t new_block(lbuild *b) {
  vec_push(b->f->a, b->f->blocks, (lblock){0});
  return b->f->blocks.n - 1;
}
void lb_for(lbuild *b, const char *name, lv lo, lv hi, lv step, unsigned unroll, lv *index) {
  scalar l, h, s;
  if (loop_const(b->f, lo, &l) && loop_const(b->f, hi, &h) && loop_const(b->f, step, &s) && l.i < h.i &&
      (uint64_t)h.i - (uint64_t)l.i <= (uint64_t)s.i) {
    *index = lo;
    struct lb_scope *in = open_scope(b, b->block, 0);
    in->inlined = true;
    return;
  }
  uint32_t body = new_block(b);
  *index = lb_effect(b, (linst){.kind = L_FOR,
                                .type = lt(ET_I64, 1),
                                .a = lo,
                                .b = hi,
                                .c = step,
                                .k = {.i = (int64_t)unroll},
                                .body = body,
                                .name = name ? arena_strdup(b->f->a, name) : NULL});
  open_scope(b, body, *index);
}
void lb_while(lbuild *b, lv index, lv reg) {
  linst *i = li(b->f, index);
  if (i->kind == L_FOR && b->scope->owner == index) i->mask = reg, i->k.i = 0;
}
void lb_if(lbuild *b, lv cond) {
  uint32_t body = new_block(b);
  lv v = lb_effect(b, (linst){.kind = L_IF, .a = cond, .body = body});
  open_scope(b, body, v);
}
static void close_scope(lbuild *b) {
  b->scope = b->scope->up;
  b->block = b->scope->block;
}
void lb_else(lbuild *b) {
  lv v = b->scope->owner;
  CTX_ASSERT(arena_ctx(b->f->a), v && li(b->f, v)->kind == L_IF && !li(b->f, v)->other);
  uint32_t other = new_block(b);
  li(b->f, v)->other = other;
  close_scope(b);
  open_scope(b, other, v);
}
void lb_end(lbuild *b) {
  CTX_ASSERT(arena_ctx(b->f->a), b->scope->up);
  close_scope(b);
}
void lb_call(lbuild *b, bool parallel, const char *kernel, lv n, const lv *args, uint32_t nargs) {
  lb_effect(b, (linst){.kind = parallel ? L_PARALLEL : L_CALL,
                       .a = n,
                       .name = arena_strdup(b->f->a, kernel),
                       .nargs = nargs,
                       .args = nargs ? arena_dup(b->f->a, args, nargs * sizeof *args) : NULL});
}
void lb_fail(lbuild *b, lv cond, int code, const char *text) {
  scalar k;
  if (loop_const(b->f, cond, &k) && !k.i) return;
  lb_effect(b, (linst){.kind = L_FAIL, .a = cond, .k = {.i = code}, .name = arena_strdup(b->f->a, text)});
}
void lb_fail_with(lbuild *b, int code, lv text) {
  lv yes = lb_const(b, lt(ET_BOOL, 1), (scalar){.i = 1});
  lb_effect(b, (linst){.kind = L_FAIL, .a = yes, .b = text, .k = {.i = code}, .name = ""});
}
lv lb_intrin(lbuild *b, const char *name, ltype t, const lv *args, uint32_t n) {
  return lb_pure(b, (linst){.kind = L_INTRIN,
                            .type = t,
                            .name = arena_strdup(b->f->a, name),
                            .nargs = n,
                            .args = n ? arena_dup(b->f->a, args, n * sizeof *args) : NULL});
}
void lb_comment(lbuild *b, const char *text) {
  lb_effect(b, (linst){.kind = L_COMMENT, .name = arena_strdup(b->f->a, text)});
}
