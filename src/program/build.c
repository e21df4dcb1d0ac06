/* How does the plan of the schedule become a program? The blocks of the module, with the launches that belong to their
 * items, become the tree of steps; the plan's buffers that are in use become the program's, numbered anew without gaps,
 * each with its place in memory. After this nothing looks at the levels above any more. */
#include "program/build.h"

typedef struct bd {
  program *p;         /* program that is made */
  splan *s;           /* the schedule */
  emodule *m;         /* the module */
  ctx *c;             /* context */
  arena *a;           /* memory */
  uint32_t *buffer;   /* the plan's number -> the program's */
  const memplan *mem; /* the memory plan */
  map *met;           /* symbols */
  map *simple;        /* atoms, for program_simplest */
  u32vec known;       /* sizes with a value at this point */
  bool *checked;      /* per guard: its step or entry check is there */
  bool *roomed;       /* per output, and behind them per room of the memory plan: its step is there */
} bd;

/* Conditions and the inputs' dimensions are left as they are: what is known of the sizes may be known because of
 * them. */
static sz simplest(bd *k, sz e) { return program_simplest(k->p, k->simple, e); }

/* ---- all sizes that occur -------------------------------------------------------------------- */
static void collect_size(bd *k, sz e) {
  if (!e || sym_is_int(k->c, e, NULL)) return;
  u32vec atoms = {0};
  uint64_t had;
  sym_atoms(k->c, e, AT_SYMBOL, k->a, &atoms);
  for (uint32_t i = 0; i < atoms.n; i++) {
    atom a = atoms.v[i];
    if (map_getu(k->met, a, &had)) continue;
    map_putu(k->met, a, 1);
    psize s = {.symbol = a};
    sym_range(k->c, sym_of_atom(k->c, a), &s.lo, &s.hi);
    if (!sym_definition(k->c, a, &s.def)) s.def = 0;
    for (uint32_t j = 0; j < k->m->lates.n && !s.bound; j++) {
      const late *l = &k->m->lates.v[j];
      const tensor *t = xt(k->m, l->tensor);
      if (l->symbol != a) continue;
      if (t->kind == TK_CONST) /* the size was folded: a number after all */
        s.def = sym_int(k->c, et_load(t->type, t->data.data).i);
      else if (!k->mem->open[j])
        s.bound = simplest(k, l->bound);
    }
    for (uint32_t j = 0; j < k->m->loops.n && !s.bound; j++)
      if (k->m->loops.v[j].counter == a) s.bound = simplest(k, program_last_trip(k->m, &k->m->loops.v[j]));
    sz def = simplest(k, s.def);
    if (!def || !sym_uses(k->c, def, a)) s.def = def; /* a formula so deep that it is that symbol again stays */
    collect_size(k, s.def);
    collect_size(k, s.bound);
    vec_push(k->a, k->p->sizes, s);
  }
}
static void collect_place(bd *k, place at) {
  if (at.buffer) collect_size(k, at.at);
}
static void collect_steps(bd *k, const steps *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    for (uint32_t j = 0; j < s->nargs; j++)
      if (!s->args[j].is_buffer) collect_size(k, s->args[j].size);
    collect_size(k, s->value.lo), collect_size(k, s->value.hi);
    for (uint32_t j = 0; j < s->value.ndims; j++) collect_size(k, s->value.dims[j]);
    collect_place(k, s->value.at), collect_place(k, s->value.value);
    collect_size(k, s->chunks), collect_size(k, s->where), collect_size(k, s->scratch), collect_size(k, s->trips),
        collect_size(k, s->check.ge0);
    collect_place(k, s->from), collect_place(k, s->first), collect_place(k, s->again);
    if (s->symbol) collect_size(k, sym_of_atom(k->c, s->symbol));
    collect_steps(k, &s->body), collect_steps(k, &s->other);
  }
}

/* ---- inputs, outputs, buffers ---------------------------------------------------------------- */
/* shape: the tensor that it has its sizes from */
static pio in_out(bd *k, const io *x, tid shape, bool out) {
  const tensor *t = xt(k->m, shape);
  sz *dims = NEWN(k->a, sz, t->rank + 1);
  for (uint32_t i = 0; i < t->rank; i++) collect_size(k, dims[i] = out ? simplest(k, t->shape[i]) : t->shape[i]);
  return (pio){x->name, t->type, t->rank, dims};
}
static void buffers(bd *k, const memplan *mem) {
  program *p = k->p;
  vec_push(k->a, p->buffers, ((pbuffer){0}));
  for (uint32_t i = 1; i < k->s->buffers.n; i++) {
    const buffer *b = &k->s->buffers.v[i];
    const membuf *m = &mem->mem[i];
    if (!m->used && (b->kind == BUF_ARENA || b->kind == BUF_WEIGHTS)) continue;
    pbuffer q = {.kind = b->kind,
                 .type = b->type,
                 .name = b->name,
                 .elems = simplest(k, b->elems),
                 .halo = b->halo,
                 .fill = b->fill};
    if (b->kind == BUF_INPUT || b->kind == BUF_OUTPUT) q.number = b->index;
    if (b->kind == BUF_WEIGHTS) q.weight_offset = m->weight_offset, q.from = b->from;
    if (b->kind == BUF_WEIGHTS || b->kind == BUF_ARENA) q.bytes = simplest(k, m->bytes);
    if (b->kind == BUF_ARENA) q.offset = simplest(k, m->offset), q.first = m->first, q.last = m->last, q.late = m->late;
    collect_size(k, q.elems), collect_size(k, q.bytes), collect_size(k, q.offset);
    if (b->kind == BUF_WEIGHTS) weights_measure(k->c, &q);
    k->buffer[i] = p->buffers.n;
    vec_push(k->a, p->buffers, q);
  }
}

/* ---- steps ----------------------------------------------------------------------------------- */
static place scalar_of(bd *k, tid t) {
  if (!t) return (place){0};
  const layout *l = &k->s->layouts[t];
  uint32_t n = l->buffer ? k->buffer[l->buffer] : 0;
  if (!n) ctx_bug(k->c, "program: %s has no memory", xt(k->m, t)->name);
  return (place){n, l->base ? simplest(k, l->base) : sym_int(k->c, 0)};
}
static pcheck check_of(const guard *g) { return (pcheck){g->ge0, g->is_eq, g->text ? g->text : "", g->node}; }
static void launch_step(bd *k, const launch *l, steps *to) {
  step s = {.kind = ST_LAUNCH,
            .kernel = l->code->name,
            .func = l->code,
            .nargs = l->args.n,
            .chunks = simplest(k, l->chunks),
            .scratch = simplest(k, l->scratch),
            .parallel = l->parallel,
            .where = l->parallel && l->where ? simplest(k, l->where) : 0,
            .launch = (uint32_t)(l - k->s->launches.v) + 1};
  if (l->scratch && sym_int_or(k->c, l->scratch, 1) == 0) s.scratch = 0;
  kargs *args = arena_dup(k->a, l->args.v, l->args.n * sizeof *args);
  for (uint32_t i = 0; i < l->args.n; i++) {
    if (!args[i].is_buffer) args[i].size = simplest(k, args[i].size);
    if (!args[i].is_buffer || !args[i].buffer) continue;
    if (l->moved && i < l->func->params.n) args[i].moved = l->moved[i];
    args[i].buffer = k->buffer[args[i].buffer];
    if (!args[i].buffer) ctx_bug(k->c, "program: argument %u of %s has no memory", i, l->name);
  }
  s.args = args;
  vec_push(k->a, *to, s);
}
/* Conditions of the root block are checked before anything runs, those of a branch or body where that begins; where
 * a late size occurs, as soon as it is known. */
static void check_steps(bd *k, uint32_t block, steps *to) {
  emodule *m = k->m;
  for (uint32_t i = 0; i < m->guards.n; i++) {
    if (m->guards.v[i].block != block || k->checked[i]) continue;
    collect_size(k, m->guards.v[i].ge0); /* so that definitions are there to be looked at */
    if (!program_known(k->p, &k->known, m->guards.v[i].ge0) || EK_PLANTED("program-check")) continue;
    k->checked[i] = true;
    vec_push(k->a, *to, ((step){.kind = ST_CHECK, .check = check_of(&m->guards.v[i])}));
  }
}
/* Room steps of what has its size from here on. */
static void room_steps(bd *k, steps *to) {
  program *p = k->p;
  sz room = 0;
  for (uint32_t i = 0; i < k->mem->rooms.n; i++) {
    collect_size(k, k->mem->rooms.v[i]);
    if (k->roomed[p->outputs.n + i] || !program_known(p, &k->known, k->mem->rooms.v[i])) continue;
    k->roomed[p->outputs.n + i] = true;
    room = simplest(k, k->mem->rooms.v[i]);
  }
  if (room) collect_size(k, room), vec_push(k->a, *to, ((step){.kind = ST_ROOM, .room = room}));
  for (uint32_t i = 0; i < p->outputs.n; i++) {
    bool *done = &k->roomed[i], open = false, known = true;
    for (uint32_t d = 0; d < p->outputs.v[i].rank; d++)
      open |= program_open(p, p->outputs.v[i].dims[d]), known &= program_known(p, &k->known, p->outputs.v[i].dims[d]);
    if (!open || !known || *done) continue;
    *done = true;
    vec_push(k->a, *to, ((step){.kind = ST_ROOM, .output = i}));
  }
}
static void value_steps(bd *k, tid t, steps *to) {
  emodule *m = k->m;
  for (uint32_t i = 0; i < m->checks.n; i++) {
    const value_check *q = &m->checks.v[i];
    if (q->value != t || EK_PLANTED("program-value")) continue;
    sz *dims = NEWN(k->a, sz, q->ndims + 1);
    for (uint32_t j = 0; j < q->ndims; j++) dims[j] = simplest(k, q->dims[j]);
    pvalue v = {.at = scalar_of(k, q->at), .value = scalar_of(k, q->value), .ndims = q->ndims, .dims = dims};
    v.lo = simplest(k, q->lo), v.hi = simplest(k, q->hi), v.text = q->text, v.node = q->node;
    vec_push(k->a, *to, ((step){.kind = ST_VALUE, .value = v}));
  }
}
static void late_steps(bd *k, tid t, uint32_t block, steps *to) {
  emodule *m = k->m;
  for (uint32_t j = 0; t && j < m->lates.n; j++) {
    if (m->lates.v[j].tensor != t) continue;
    collect_size(k, sym_of_atom(k->c, m->lates.v[j].symbol));
    step s = {.kind = ST_LATE, .symbol = m->lates.v[j].symbol, .from = scalar_of(k, t), .node = xt(m, t)->origin};
    vec_push(k->a, *to, s);
    vec_push(k->a, k->known, m->lates.v[j].symbol);
    check_steps(k, block, to);
    room_steps(k, to);
  }
}
static void block_steps(bd *k, uint32_t block, steps *to) {
  emodule *m = k->m;
  uint32_t outside = k->known.n;
  for (uint32_t i = 0; block && i < m->loops.n; i++)
    if (m->loops.v[i].body == block)
      for (uint32_t j = 0; j < m->loops.v[i].ncarried; j++) late_steps(k, m->loops.v[i].inner[j], block, to);
  if (block) check_steps(k, block, to);
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    item it = m->blocks.v[block].items.v[i];
    if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      step s = {.kind = ST_IF, .from = scalar_of(k, x->cond)};
      block_steps(k, x->then_block, &s.body);
      block_steps(k, x->else_block, &s.other);
      vec_push(k->a, *to, s);
      for (uint32_t j = 0; j < x->n; j++) late_steps(k, x->results[j], block, to);
    }
    if (it.kind == IT_LOOP) {
      const xloop *x = &m->loops.v[it.index];
      step s = {.kind = ST_LOOP,
                .symbol = x->counter,
                .trips = simplest(k, x->trips),
                .first = scalar_of(k, x->cond0),
                .again = scalar_of(k, x->cond)};
      if (!x->trips) s.from = scalar_of(k, x->trip_tensor);
      vec_push(k->a, k->known, x->counter);
      block_steps(k, x->body, &s.body);
      k->known.n--;
      vec_push(k->a, *to, s);
      for (uint32_t j = 0; j < x->ncarried; j++) late_steps(k, x->final[j], block, to);
    }
    for (uint32_t j = memory_launches(k->s, block, i); memory_launched(k->s, j, block, i); j++) {
      const launch *l = &k->s->launches.v[j];
      if (!l->step) {
        launch_step(k, l, to);
        continue;
      }
      step s = {.kind = ST_LOOP, .symbol = l->step, .trips = simplest(k, l->steps)};
      vec_push(k->a, k->known, l->step);
      for (; j < k->s->launches.n && k->s->launches.v[j].step == l->step; j++)
        launch_step(k, &k->s->launches.v[j], &s.body);
      k->known.n--, j--;
      vec_push(k->a, *to, s);
    }
    if (it.kind == IT_STAGE && !(EK_PLANTED("program-late") && block))
      late_steps(k, xs(m, it.index)->tensor, block, to);
    if (it.kind == IT_STAGE) value_steps(k, xs(m, it.index)->tensor, to);
  }
  k->known.n = outside;
}

/* The arena has room for each message, which is put together where it begins. */
static void room_for_message(program *p) {
  int64_t text = (program_message_bytes(p) + 63) / 64 * 64, have;
  if (sym_is_int(p->c, p->arena_bytes, &have))
    p->arena_bytes = sym_int(p->c, max64(text, have));
  else if (!sym_ge0(p->c, sym_addi(p->c, p->arena_bytes, -text)))
    p->arena_bytes = sym_addi(p->c, p->arena_bytes, text);
}
program *program_build(splan *s, const char *name) {
  arena *a = s->l->a;
  memplan mem = {.plan = s};
  program_share(s, a);
  if (s->level > 0) program_order(s);
  if (s->threads) sym_is_atom(s->m->c, s->threads, &mem.threads);
  memory_plan(&mem);
  if (schedule_repeats(s)) program_recompute(&mem);
  program *p = NEW(a, program);
  *p = (program){.c = s->m->c,
                 .a = a,
                 .l = s->l,
                 .name = name ? name : "",
                 .weight_bytes = mem.weight_bytes,
                 .first_bytes = mem.first_bytes,
                 .timed = s->timed};
  bd k = {.p = p,
          .s = s,
          .m = s->m,
          .c = p->c,
          .a = a,
          .buffer = NEWN(a, uint32_t, s->buffers.n),
          .mem = &mem,
          .met = map_new(a),
          .simple = map_new(a)};
  p->threads = mem.threads;
  p->arena_bytes = simplest(&k, mem.arena_bytes), p->scratch_bytes = simplest(&k, mem.scratch_bytes),
  p->live_bound = simplest(&k, mem.live_bound);
  const uint32_t plain = k.m->outputs.n - k.m->states.n;
  for (uint32_t i = 0; i < k.m->inputs.n; i++)
    vec_push(a, p->inputs, in_out(&k, &k.m->inputs.v[i], k.m->inputs.v[i].t, false));
  for (uint32_t i = 0; i < k.m->outputs.n; i++) {
    const io *x = &k.m->outputs.v[i];
    vec_push(a, p->outputs, in_out(&k, x, i < plain ? x->t : expr_state_in(k.m, i - plain), true));
  }
  program_entry_sizes(p, &k.known, a);
  k.checked = NEWN(a, bool, k.m->guards.n + 1);
  for (uint32_t i = 0; i < k.m->guards.n; i++) {
    const guard *g = &k.m->guards.v[i];
    if (g->block) continue;
    collect_size(&k, g->ge0);
    if ((k.checked[i] = program_known(p, &k.known, g->ge0))) vec_push(a, p->checks, check_of(g));
  }
  buffers(&k, &mem);
  for (uint32_t i = 0; i < k.m->states.n; i++) {
    const state_plan *x = &s->states[i];
    vec_push(a, p->states, ((pstate){.first = k.buffer[x->first], .in_place = x->in_place, .order = x->order}));
  }
  k.roomed = NEWN(a, bool, p->outputs.n + mem.rooms.n + 1);
  block_steps(&k, 0, &p->steps);
  room_for_message(p);
  collect_steps(&k, &p->steps);
  collect_size(&k, p->arena_bytes), collect_size(&k, p->scratch_bytes), collect_size(&k, p->live_bound);
  program_functions(p);
  return p;
}
const char *program_memory(const program *p) {
  bool late = false;
  for (uint32_t i = 1; i < p->buffers.n; i++) late |= p->buffers.v[i].late;
  const char *more = late ? " + what sizes found at run time need" : "";
  if (sym_int_or(p->c, p->scratch_bytes, -1) == 0) return arena_fmt(p->a, "%s%s", sym_str(p->c, p->arena_bytes), more);
  return arena_fmt(p->a, "%s + threads*(%s)%s", sym_str(p->c, p->arena_bytes), sym_str(p->c, p->scratch_bytes), more);
}
