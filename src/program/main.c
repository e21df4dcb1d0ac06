/* The two functions of a compiled model, as loop programs. plan: sizes from the inputs' dims, checks, output bounds,
 * memory. run: the kernels in order, with control flow; all scalar size arithmetic of the model is here, once per run,
 * as native code. */
#include "program/build.h"

typedef struct mb {
  program *p;        /* the program */
  ctx *c;            /* context */
  arena *a;          /* memory */
  lbuild b;          /* builder of the function */
  bool plan;         /* it is plan; else run */
  map *syms;         /* atom -> value */
  map *made;         /* 2*size -> value, 2*size + 1 -> its width, in the blocks around this place; 0: not there */
  VEC(uint64_t) log; /* keys of made, in their order */
  lv arena_p;        /* pointer to the arena */
  lv weights_p;      /* pointer to the weights */
  lv scratch_p;      /* pointer to the scratch areas */
  lv late_p;         /* pointer to the late part of the arena */
  lv rec;            /* pointer to the call record */
  lv fixed;          /* bytes of the arena before its late part */
} mb;

static lv size(mb *k, sz e);
static lv atom_value(mb *k, atom a) {
  uint64_t got;
  if (map_getu(k->syms, a, &got)) return (lv)got;
  sz g[3];
  switch (sym_kind(k->c, a)) {
  case AT_SYMBOL: {
    const psize *s = program_size(k->p, a);
    if (s && s->def) return size(k, s->def);
    ctx_bug(k->c, "program: size %s is not known at this point", sym_name(k->c, a));
  }
  case AT_DIV: {
    sym_args(k->c, a, g);
    return lb_op(&k->b, OP_IDIV, lt(ET_I64, 1), size(k, g[0]), size(k, g[1]), 0);
  }
  case AT_MIN:
  case AT_MAX: {
    sym_args(k->c, a, g);
    lv x = size(k, g[0]), y = size(k, g[1]);
    return lb_op(&k->b, sym_kind(k->c, a) == AT_MIN ? OP_MIN : OP_MAX, lt(ET_I64, 1), x, y, 0);
  }
  case AT_SEL: {
    sym_args(k->c, a, g);
    lv x = size(k, g[1]), y = size(k, g[2]);
    return lb_op(&k->b, OP_SEL, lt(ET_I64, 1), lb_cmp(&k->b, OP_GE, size(k, g[0]), lb_int(&k->b, 0)), x, y);
  }
  default:
    ctx_bug(k->c, "program: %s in a size", sym_name(k->c, a));
  }
}
static lv new_size(mb *k, sz e) {
  int64_t konst;
  if (sym_is_int(k->c, e, &konst)) return lb_int(&k->b, konst);
  lv sum = 0;
  for (uint32_t i = 0; i < sym_nterms(k->c, e); i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t q = sym_term(k->c, e, i, &na, &as, &ex);
    lv t = lb_int(&k->b, q);
    for (uint32_t j = 0; j < na; j++)
      for (uint8_t z = 0; z < ex[j]; z++) t = lb_mul(&k->b, t, atom_value(k, as[j]));
    sum = sum ? lb_add(&k->b, sum, t) : t;
  }
  return sum ? sum : lb_int(&k->b, 0);
}
static void remember(mb *k, uint64_t key, lv v) {
  map_putu(k->made, key, v);
  vec_push(k->a, k->log, key);
}
static lv size(mb *k, sz e) {
  uint64_t got;
  if (map_getu(k->made, (uint64_t)e << 1, &got) && got) return (lv)got;
  lv v = new_size(k, e);
  remember(k, (uint64_t)e << 1, v);
  return v;
}
static void leave_block(mb *k, uint32_t began) {
  while (k->log.n > began) map_putu(k->made, k->log.v[--k->log.n], 0);
}
/* In f64: at least as much as all that comes up when e is computed. What does not fit into 64 bits is seen there. */
static lv wide(mb *k, sz e) {
  const ltype f = lt(ET_F64, 1);
  const uint64_t key = (uint64_t)e << 1 | 1;
  uint64_t got;
  if (map_getu(k->made, key, &got) && got) return (lv)got;
  lv sum = lb_const(&k->b, f, (scalar){.f = 0});
  for (uint32_t i = 0; i < sym_nterms(k->c, e); i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    double q = (double)sym_term(k->c, e, i, &na, &as, &ex);
    lv t = lb_const(&k->b, f, (scalar){.f = q < 0 ? -q : q});
    for (uint32_t j = 0; j < na; j++) {
      sz g[3];
      uint32_t n = sym_args(k->c, as[j], g);
      const psize *s = n ? NULL : program_size(k->p, as[j]);
      bool defined = s && s->def && !map_getu(k->syms, as[j], &got);
      lv x = n         ? wide(k, g[n - 1])
             : defined ? wide(k, s->def)
                       : lb_op(&k->b, OP_ABS, f, lb_op(&k->b, OP_CAST, f, atom_value(k, as[j]), 0, 0), 0, 0);
      while (n > 1) x = lb_op(&k->b, OP_MAX, f, x, wide(k, g[--n - 1]), 0);
      for (uint8_t z = 0; z < ex[j]; z++) t = lb_op(&k->b, OP_MUL, f, t, x, 0);
    }
    sum = lb_op(&k->b, OP_ADD, f, sum, t, 0);
  }
  remember(k, key, sum);
  return sum;
}
static lv field(mb *k, const char *name, ltype t) { return lb_param(&k->b, name, t, 0, 0); }

/* For messages: which node asks something of a size? */
static const char *asked_by(mb *k, atom s) {
  for (uint32_t i = 0; i < k->p->checks.n; i++) {
    const pcheck *q = &k->p->checks.v[i];
    if (sym_uses(k->c, q->ge0, s))
      return arena_fmt(k->a, " (%s%s%s)", q->node ? q->node : "", q->node ? ": " : "", q->text);
  }
  return "";
}
/* symbols from the inputs' dims (those of states are the run's own); in plan every other dim is checked */
static void bind_symbols(mb *k) {
  if (k->p->threads) map_putu(k->syms, k->p->threads, field(k, "threads", lt(ET_I64, 1)));
  lv dims = field(k, "in_dims", lptr(ET_I64));
  for (int pass = 0; pass < 2; pass++) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < k->p->inputs.n - k->p->states.n; i++) {
      const pio *t = &k->p->inputs.v[i];
      for (uint32_t d = 0; d < t->rank; d++, at++) {
        atom s;
        uint64_t have;
        bool symbol = sym_is_atom(k->c, t->dims[d], &s) && sym_kind(k->c, s) == AT_SYMBOL;
        if (pass == 0 && symbol && !map_getu(k->syms, s, &have))
          map_putu(k->syms, s, lb_load(&k->b, lt(ET_I64, 1), dims, lb_int(&k->b, at)));
        if (pass == 0 || !k->plan) continue;
        lv v = lb_load(&k->b, lt(ET_I64, 1), dims, lb_int(&k->b, at));
        if (!EK_PLANTED("program-dims"))
          lb_fail(&k->b, lb_cmp(&k->b, OP_NE, v, size(k, t->dims[d])), E_SHAPE,
                  arena_fmt(k->a, "input %s: dimension %u must be %s", t->name, d, sym_str(k->c, t->dims[d])));
        const psize *z = symbol ? program_size(k->p, s) : NULL;
        if (!z) continue;
        lv bad = lb_op(&k->b, OP_OR, lt(ET_BOOL, 1), lb_cmp(&k->b, OP_LT, v, lb_int(&k->b, z->lo)),
                       lb_cmp(&k->b, OP_GT, v, lb_int(&k->b, z->hi)), 0);
        lb_fail(&k->b, bad, E_SHAPE,
                arena_fmt(k->a, "input %s: dimension %u (%s) must be in %lld..%lld%s", t->name, d, sym_name(k->c, s),
                          (long long)z->lo, (long long)z->hi, asked_by(k, s)));
      }
    }
  }
}
/* In plan a bound; where there is none no room is made before the size is known. */
static lv dim_out(mb *k, sz e) {
  if (!k->plan || EK_PLANTED("program-outputs")) return size(k, e);
  return program_open(k->p, e) ? lb_int(&k->b, 0) : size(k, program_bounded(k->p, e));
}
static void write_out_dims(mb *k) {
  lv out = field(k, "out_dims", lptr(ET_I64));
  uint32_t at = 0;
  for (uint32_t i = 0; i < k->p->outputs.n; i++)
    for (uint32_t d = 0; d < k->p->outputs.v[i].rank; d++, at++)
      lb_store(&k->b, out, lb_int(&k->b, at), dim_out(k, k->p->outputs.v[i].dims[d]));
}

/* ---- steps ----------------------------------------------------------------------------------- */
static lv buffer_ptr(mb *k, uint32_t i) {
  const pbuffer *b = &k->p->buffers.v[i];
  switch (b->kind) {
  case BUF_INPUT:
    return field(k, arena_fmt(k->a, "in.%u", b->number), lptr(b->type));
  case BUF_OUTPUT:
    return field(k, arena_fmt(k->a, "out.%u", b->number), lptr(b->type));
  case BUF_WEIGHTS:
    return lb_ptrcast(&k->b, b->type, lb_offset(&k->b, k->weights_p, lb_int(&k->b, (int64_t)b->weight_offset)));
  default:
    return lb_ptrcast(&k->b, b->type, lb_offset(&k->b, b->late ? k->late_p : k->arena_p, size(k, b->offset)));
  }
}
/* Slot 12 of the call record: another thread wants the run to end. */
static void emit_cancel(mb *k) {
  lb_fail(&k->b, lb_cmp(&k->b, OP_NE, lb_load(&k->b, lt(ET_I64, 1), k->rec, lb_int(&k->b, 12)), lb_int(&k->b, 0)),
          E_CANCELLED, "cancelled");
}
static void emit_tick(mb *k, const step *s, int64_t end) {
  if (k->p->timed && s->launch) lb_call(&k->b, true, "tick", lb_int(&k->b, 2 * (int64_t)s->launch + end), NULL, 0);
}
static lv argument(mb *k, const kargs *a) {
  if (!a->is_buffer) return size(k, a->size);
  if (!a->buffer) return k->scratch_p;
  lv p = buffer_ptr(k, a->buffer);
  return a->moved ? lb_offset(&k->b, p, lb_int(&k->b, a->moved)) : p;
}
static void emit_launch(mb *k, const step *s) {
  lv *args = NEWN(k->a, lv, s->nargs + 1);
  for (uint32_t i = 0; i < s->nargs; i++) args[i] = argument(k, &s->args[i]);
  lv chunks = size(k, s->chunks);
  emit_tick(k, s, 0);
  if (s->where) lb_if(&k->b, lb_cmp(&k->b, OP_GE, size(k, s->where), lb_int(&k->b, 0)));
  if (s->parallel) emit_cancel(k); /* long launches may be cancelled */
  lb_call(&k->b, s->parallel, s->kernel,
          EK_PLANTED("program-chunks") && s->parallel ? lb_addi(&k->b, chunks, -1) : chunks, args, s->nargs);
  if (s->where) {
    lb_else(&k->b);
    lb_call(&k->b, false, s->kernel, chunks, args, s->nargs);
    lb_end(&k->b);
  }
  emit_tick(k, s, 1);
}
static lv read_scalar(mb *k, place at, etype as) {
  etype have = k->p->buffers.v[at.buffer].type;
  lv v = lb_load(&k->b, lt(have, 1), buffer_ptr(k, at.buffer), size(k, at.at));
  return have == as ? v : lb_op(&k->b, OP_CAST, lt(as, 1), v, 0, 0);
}
static void emit_check(mb *k, const pcheck *g) {
  lb_fail(&k->b, lb_cmp(&k->b, g->is_eq ? OP_NE : OP_LT, size(k, g->ge0), lb_int(&k->b, 0)), E_SHAPE,
          arena_fmt(k->a, "%s%s%s", g->node ? g->node : "", g->node ? ": " : "", g->text));
}
/* The parts of the message; k NULL: how long they are only. */
enum { VALUE_PARTS = 2 * MAX_RANK + 8 };
static uint32_t value_parts(mb *k, const pvalue *v, message_part *parts, arena *a) {
  uint32_t n = 0;
  lv rest = k ? read_scalar(k, v->at, ET_I64) : 0, places[MAX_RANK] = {0}, one = k ? lb_int(&k->b, 1) : 0;
  for (uint32_t i = v->ndims; k && i-- > 0;) {
    const ltype t = lt(ET_I64, 1);
    lv d = lb_op(&k->b, OP_MAX, t, size(k, v->dims[i]), one, 0);
    places[i] = i ? lb_op(&k->b, OP_MOD, t, rest, d, 0) : rest;
    if (i) rest = lb_op(&k->b, OP_IDIV, t, rest, d, 0);
  }
  parts[n++] = (message_part){arena_fmt(a, "%s%s%s ", v->node ? v->node : "", v->node ? ": " : "", v->text), 0};
  parts[n++] = (message_part){NULL, k ? read_scalar(k, v->value, ET_I64) : 0};
  for (uint32_t i = 0; i < v->ndims; i++) {
    parts[n++] = (message_part){i ? ", " : " at [", 0};
    parts[n++] = (message_part){NULL, places[i]};
  }
  parts[n++] = (message_part){v->ndims ? "] is out of range " : " is out of range ", 0};
  parts[n++] = (message_part){NULL, k ? size(k, v->lo) : 0};
  parts[n++] = (message_part){"..", 0};
  parts[n++] = (message_part){NULL, k ? lb_addi(&k->b, size(k, v->hi), -1) : 0};
  return n;
}
static void emit_value(mb *k, const pvalue *v) {
  message_part parts[VALUE_PARTS];
  uint32_t began = k->log.n;
  lb_if(&k->b, lb_cmp(&k->b, OP_NE, read_scalar(k, v->at, ET_I64), lb_int(&k->b, EXPR_NOWHERE)));
  message_fail(&k->b, k->arena_p, E_SHAPE, parts, value_parts(k, v, parts, k->a));
  leave_block(k, began);
  lb_end(&k->b);
}
enum { CHECK_PARTS = 3, LATE_PARTS = 5 };
static uint32_t check_parts(const program *p, mb *k, const pcheck *g, message_part *parts) {
  const char *text = arena_fmt(p->a, "%s%s%s", g->node ? g->node : "", g->node ? ": " : "", g->text);
  bool known = sym_is_int(p->c, g->ge0, NULL);
  uint32_t n = 0;
  if (!known) text = arena_fmt(p->a, "%s (%s = ", text, sym_str(p->c, g->ge0));
  parts[n++] = (message_part){text, 0};
  if (known) return n;
  parts[n++] = (message_part){NULL, k ? size(k, g->ge0) : 0};
  parts[n++] = (message_part){g->is_eq ? ", must be == 0)" : ", must be >= 0)", 0};
  return n;
}
static uint32_t late_parts(const program *p, mb *k, const step *s, message_part *parts) {
  const psize *z = program_size(p, s->symbol);
  const char *name = sym_name(p->c, s->symbol);
  uint32_t n = 0;
  parts[n++] = (message_part){
      arena_fmt(p->a, "%s%sthe size %s, found at run time, is ", s->node ? s->node : "", s->node ? ": " : "", name), 0};
  parts[n++] = (message_part){NULL, k ? size(k, sym_of_atom(p->c, s->symbol)) : 0};
  parts[n++] = (message_part){arena_fmt(p->a, ", not in %lld..", (long long)z->lo), 0};
  parts[n++] = (message_part){NULL, !k ? 0 : z->bound ? size(k, z->bound) : lb_int(&k->b, z->hi)};
  parts[n++] = (message_part){z->bound ? arena_fmt(p->a, ": give other data, or compile for more by --dim %s=N", name)
                                       : ": give other data",
                              0};
  return n;
}
static uint32_t bytes_of(const program *p, const steps *list) {
  message_part parts[VALUE_PARTS];
  uint32_t most = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    uint32_t n = 0;
    if (s->kind == ST_VALUE) n = message_bytes(parts, value_parts(NULL, &s->value, parts, p->a));
    if (s->kind == ST_CHECK) n = message_bytes(parts, check_parts(p, NULL, &s->check, parts));
    if (s->kind == ST_LATE) n = message_bytes(parts, late_parts(p, NULL, s, parts));
    if (s->kind == ST_IF || s->kind == ST_LOOP) n = bytes_of(p, &s->body);
    if (n > most) most = n;
    n = s->kind == ST_IF ? bytes_of(p, &s->other) : 0;
    if (n > most) most = n;
  }
  return most;
}
uint32_t program_message_bytes(const program *p) { return bytes_of(p, &p->steps); }
/* As emit_check, and how large the size is, which nobody knows before the run. */
static void emit_late_check(mb *k, const pcheck *g) {
  message_part parts[CHECK_PARTS];
  uint32_t began = k->log.n;
  lb_if(&k->b, lb_cmp(&k->b, g->is_eq ? OP_NE : OP_LT, size(k, g->ge0), lb_int(&k->b, 0)));
  message_fail(&k->b, k->arena_p, E_SHAPE, parts, check_parts(k->p, k, g, parts));
  leave_block(k, began);
  lb_end(&k->b);
}
/* Memory was planned for sizes up to the bound, and what was proved holds between the ends. The conditions that are
 * checked first say what the ends come from. */
static void emit_late(mb *k, const step *s) {
  message_part parts[LATE_PARTS];
  const psize *z = program_size(k->p, s->symbol);
  lv v = size(k, sym_of_atom(k->c, s->symbol)), end = z->bound ? size(k, z->bound) : lb_int(&k->b, z->hi);
  uint32_t began = k->log.n;
  lb_if(&k->b, lb_op(&k->b, OP_OR, lt(ET_BOOL, 1), lb_cmp(&k->b, OP_LT, v, lb_int(&k->b, z->lo)),
                     lb_cmp(&k->b, OP_GT, v, end), 0));
  message_fail(&k->b, k->arena_p, E_SHAPE, parts, late_parts(k->p, k, s, parts));
  leave_block(k, began);
  lb_end(&k->b);
}
/* Not enough: the caller gets to know how much is needed, and begins again. */
static void emit_room(mb *k, const step *s) {
  static const char again[] =
      "sizes found at run time need more memory: arena_bytes and out_dims say how much; run again with it",
                    large[] = "the memory for sizes found at run time does not fit into 64 bits";
  const lv yes = lb_const(&k->b, lt(ET_BOOL, 1), (scalar){.i = 1});
  const pio *o = s->room ? NULL : &k->p->outputs.v[s->output];
  sz need = s->room;
  uint32_t at = 0;
  if (o) {
    need = sym_int(k->c, 1);
    for (uint32_t i = 0; i < s->output; i++) at += k->p->outputs.v[i].rank;
    for (uint32_t d = 0; d < o->rank; d++) need = sym_mul(k->c, need, o->dims[d]);
  }
  lb_fail(&k->b, lb_cmp(&k->b, OP_GT, wide(k, need), lb_const(&k->b, lt(ET_F64, 1), (scalar){.f = 0x1p58})), E_MEMORY,
          large);
  lv n = size(k, need), have = o ? lb_int(&k->b, 1) : lb_load(&k->b, lt(ET_I64, 1), k->rec, lb_int(&k->b, 10)),
     out = o ? field(k, "out_dims", lptr(ET_I64)) : 0;
  if (!o) n = lb_add(&k->b, k->fixed, n);
  for (uint32_t d = 0; o && d < o->rank; d++)
    have = lb_mul(&k->b, have, lb_load(&k->b, lt(ET_I64, 1), out, lb_int(&k->b, at + d)));
  uint32_t began = k->log.n;
  lb_if(&k->b, lb_cmp(&k->b, OP_GT, n, have));
  if (!o) lb_store(&k->b, k->rec, lb_int(&k->b, 10), n);
  for (uint32_t d = 0; o && d < o->rank; d++) lb_store(&k->b, out, lb_int(&k->b, at + d), size(k, o->dims[d]));
  lb_fail(&k->b, yes, PROGRAM_ROOM, again);
  leave_block(k, began);
  lb_end(&k->b);
}
static void emit_steps(mb *k, const steps *list) {
  uint32_t began;
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    switch (s->kind) {
    case ST_LAUNCH:
      emit_launch(k, s);
      break;
    case ST_LATE:
      map_putu(k->syms, s->symbol, read_scalar(k, s->from, ET_I64));
      for (; i + 1 < list->n && list->v[i + 1].kind == ST_CHECK; i++) emit_late_check(k, &list->v[i + 1].check);
      emit_late(k, s);
      break;
    case ST_CHECK:
      emit_late_check(k, &s->check);
      break;
    case ST_VALUE:
      emit_value(k, &s->value);
      break;
    case ST_ROOM:
      emit_room(k, s);
      break;
    case ST_IF:
      lb_if(&k->b, read_scalar(k, s->from, ET_BOOL));
      began = k->log.n;
      emit_steps(k, &s->body);
      leave_block(k, began);
      lb_else(&k->b);
      emit_steps(k, &s->other);
      leave_block(k, began);
      lb_end(&k->b);
      break;
    case ST_LOOP: {
      lv n = s->trips ? size(k, s->trips) : read_scalar(k, s->from, ET_I64), counter;
      lv go = lb_reg(&k->b, s->first.buffer ? read_scalar(k, s->first, ET_BOOL)
                                            : lb_const(&k->b, lt(ET_BOOL, 1), (scalar){.i = 1}));
      began = k->log.n;
      lb_for(&k->b, "trip", lb_int(&k->b, 0), n, lb_int(&k->b, 1), 0, &counter);
      if (s->first.buffer || s->again.buffer) lb_while(&k->b, counter, go);
      lb_if(&k->b, lb_get(&k->b, go));
      map_putu(k->syms, s->symbol, counter);
      emit_cancel(k);
      emit_steps(k, &s->body);
      if (s->again.buffer && !EK_PLANTED("program-while")) lb_set(&k->b, go, read_scalar(k, s->again, ET_BOOL));
      leave_block(k, began);
      lb_end(&k->b);
      lb_end(&k->b);
      break;
    }
    }
  }
}
static mb begin(program *p, const char *name, bool plan) {
  mb k = {.p = p, .c = p->c, .a = p->a, .plan = plan};
  lfunc *f = loop_func(p->l, LF_MAIN, name, plan ? "sizes, checks, memory" : "the program");
  k.b = loop_builder(f);
  k.syms = map_new(k.a), k.made = map_new(k.a);
  if (plan)
    p->plan_fn = f;
  else
    p->run_fn = f;
  return k;
}
void program_functions(program *p) {
  if (p->timed) loop_func(p->l, LF_KERNEL, "tick", "nothing: the runtime looks at the clock");
  if (program_message_bytes(p)) message_kernels(p->l);
  mb k = begin(p, "plan", true);
  bind_symbols(&k);
  for (uint32_t i = 0; i < p->checks.n; i++) emit_check(&k, &p->checks.v[i]);
  write_out_dims(&k);
  lv rec = field(&k, "call", lptr(ET_I64)), threads = field(&k, "threads", lt(ET_I64, 1));
  lv per = size(&k, p->scratch_bytes);
  lb_store(&k.b, rec, lb_int(&k.b, 9), per);
  lb_store(&k.b, rec, lb_int(&k.b, 10), lb_add(&k.b, size(&k, p->arena_bytes), lb_mul(&k.b, per, threads)));

  k = begin(p, "run", false);
  k.arena_p = field(&k, "arena", lptr(ET_U8));
  k.weights_p = field(&k, "weights", lptr(ET_U8));
  k.rec = field(&k, "call", lptr(ET_I64));
  bind_symbols(&k);
  k.scratch_p = lb_offset(&k.b, k.arena_p, size(&k, p->arena_bytes));
  bool late = false;
  for (uint32_t i = 1; i < p->buffers.n; i++) late |= p->buffers.v[i].late;
  if (late) {
    k.fixed = lb_add(&k.b, size(&k, p->arena_bytes),
                     lb_mul(&k.b, size(&k, p->scratch_bytes), field(&k, "threads", lt(ET_I64, 1))));
    k.late_p = lb_offset(&k.b, k.arena_p, k.fixed);
  }
  emit_steps(&k, &p->steps);
  write_out_dims(&k);
}
