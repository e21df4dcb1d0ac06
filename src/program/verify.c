/* Is a program legal? One walk over the steps, in their order, with the sizes that have a value at each point and
 * what was written so far; then the memory, pair by pair.
 *
 * Conditions over symbolic sizes are refuted by example and proved by sym: a few choices of values for the sizes, in
 * their ranges and satisfying the conditions at entry, are tried; an example against it is an error, and without one
 * sym looks for a proof. What is neither refuted nor proved is only counted (program_verify_memory). Numbers are always
 * decided. */
#include "program/build.h"
#include <stdio.h>
#include <string.h>

enum { EXAMPLES = 4 };
typedef struct vf {
  const program *p;     /* the program */
  ctx *c;               /* context */
  arena *a;             /* memory */
  const char *when;     /* NULL: count, report nothing */
  sbuf *out;            /* gets a line for each condition that is not proved; NULL: nobody asks */
  uint32_t errors;      /* number of errors */
  uint32_t unproved;    /* conditions neither proved nor disproved */
  uint32_t pos;         /* number of the current step */
  uint32_t example;     /* which example of sizes is tried */
  u32vec known;         /* sizes with a value here */
  u32vec rooms;         /* ends of the late part for which there is room here, in bytes */
  bool legal[EXAMPLES]; /* per example: it satisfies the conditions */
  bool *written;        /* per buffer: something was written to it */
  bool *open;           /* per output: it hangs on a late size without bound */
  bool *grown;          /* per output: a step has made room for it */
  uint32_t *last_use;   /* per buffer: last step that uses it */
  uint32_t *last_read;  /* per buffer: last step that only reads it, or the end of the loop that does; 0: none */
  uint32_t *wrote;      /* per buffer: first step that writes to it; 0: none */
} vf;

static void err(vf *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void err(vf *k, const char *fmt, ...) {
  char text[600];
  va_list ap;
  k->errors++;
  if (!k->when || k->errors > 20) return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  diag_error(k->c, E_INTERNAL, NULL, "program verifier (%s): %s", k->when, text);
}
static const char *str(vf *k, sz e) { return e ? sym_str(k->c, e) : "nothing"; }
static const char *ref(vf *k, uint32_t n) {
  const char *name = n < k->p->buffers.n ? k->p->buffers.v[n].name : NULL;
  return arena_fmt(k->a, "%%%u%s%s", n, name && *name ? "." : "", name ? name : "");
}

/* ---- conditions on sizes --------------------------------------------------------------------- */
typedef enum { NO, YES, UNSURE } answer;
static bool example_value(void *env, atom a, int64_t *v) {
  static const int64_t base[EXAMPLES] = {1, 2, 7, 64}, more[EXAMPLES] = {0, 1, 3, -5};
  vf *k = env;
  for (uint32_t i = 0; i < k->p->sizes.n; i++) {
    const psize *s = &k->p->sizes.v[i];
    if (s->symbol != a) continue;
    if (s->def) return sym_eval(k->c, s->def, example_value, env, v);
    *v = max64(s->lo, min64(s->hi, base[k->example] + more[k->example] * (int64_t)(i % 8)));
    return true;
  }
  return false;
}
static bool at_example(vf *k, uint32_t i, sz e, int64_t *v) {
  k->example = i;
  return sym_eval(k->c, e, example_value, k, v);
}
static void choose_examples(vf *k) {
  for (uint32_t i = 0; i < EXAMPLES; i++) {
    k->legal[i] = true;
    for (uint32_t j = 0; j < k->p->checks.n && k->legal[i]; j++) {
      int64_t v;
      k->legal[i] = at_example(k, i, k->p->checks.v[j].ge0, &v) && (k->p->checks.v[j].is_eq ? v == 0 : v >= 0);
    }
  }
}
static answer le(vf *k, sz x, sz y) {
  int64_t a, b;
  if (x == y) return YES;
  if (sym_is_int(k->c, x, &a) && sym_is_int(k->c, y, &b)) return a <= b ? YES : NO;
  for (uint32_t i = 0; i < EXAMPLES; i++)
    if (k->legal[i] && at_example(k, i, x, &a) && at_example(k, i, y, &b) && a > b) return NO;
  return sym_le(k->c, x, y) ? YES : UNSURE;
}
/* The room of two buffers has nothing in common. */
static answer apart(vf *k, const pbuffer *x, const pbuffer *y) {
  sz xe = sym_add(k->c, x->offset, x->bytes), ye = sym_add(k->c, y->offset, y->bytes);
  int64_t a, b, ae, be;
  if (sym_is_int(k->c, x->offset, &a) && sym_is_int(k->c, y->offset, &b) && sym_is_int(k->c, xe, &ae) &&
      sym_is_int(k->c, ye, &be))
    return ae <= b || be <= a || a == ae || b == be ? YES : NO;
  for (uint32_t i = 0; i < EXAMPLES; i++)
    if (k->legal[i] && at_example(k, i, x->offset, &a) && at_example(k, i, y->offset, &b) &&
        at_example(k, i, xe, &ae) && at_example(k, i, ye, &be) && a < be && b < ae && a < ae && b < be)
      return NO;
  return sym_le(k->c, xe, y->offset) || sym_le(k->c, ye, x->offset) ? YES : UNSURE;
}
static void settle(vf *k, answer is, const char *what) {
  if (is == NO) err(k, "%s", what);
  if (is != UNSURE) return;
  k->unproved++;
  if (k->out) sb_fmt(k->out, "not proved false: %s\n", what);
}
static bool known(vf *k, sz e, const char *what) {
  if (!e)
    err(k, "%s is missing", what);
  else if (!program_known(k->p, &k->known, e))
    err(k, "%s, %s, depends on a size that has no value here", what, str(k, e));
  else
    return true;
  return false;
}

/* ---- what a step uses ------------------------------------------------------------------------ */
static bool roomy(vf *k, const pbuffer *b);
static bool use(vf *k, uint32_t n, bool write, const char *who) {
  if (!n || n >= k->p->buffers.n) return err(k, "%s uses buffer %%%u, which does not exist", who, n), false;
  const pbuffer *b = &k->p->buffers.v[n];
  if (write && (b->kind == BUF_INPUT || b->kind == BUF_WEIGHTS))
    err(k, "%s writes to %s, which is constant", who, ref(k, n));
  if (b->kind == BUF_ARENA && (k->pos < b->first || k->pos > b->last))
    err(k, "%s is step %u, but %s lives in the steps %u..%u", who, k->pos, ref(k, n), b->first, b->last);
  const bool empty = b->elems && sym_int_or(k->c, b->elems, 1) == 0; /* then no kernel may write to it */
  if (!write && (b->kind == BUF_ARENA || b->kind == BUF_OUTPUT) && !k->written[n] && !empty)
    err(k, "%s reads %s before anything is written there", who, ref(k, n));
  if (b->kind == BUF_ARENA && b->late && b->offset && b->bytes) {
    if (known(k, b->offset, "the offset of a late buffer") && !roomy(k, b))
      err(k, "%s uses %s before there is room for it", who, ref(k, n));
  } else if (b->kind == BUF_OUTPUT && b->number < k->p->outputs.n && k->open[b->number] && !k->grown[b->number])
    err(k, "%s uses %s before there is room for it", who, ref(k, n));
  k->last_use[n] = k->pos;
  if (!write) k->last_read[n] = k->pos;
  if (write && !k->wrote[n]) k->wrote[n] = k->pos;
  return true;
}
static void element(vf *k, place at, ekind kind, ekind or, const char *who) {
  if (!use(k, at.buffer, false, who)) return;
  const pbuffer *b = &k->p->buffers.v[at.buffer];
  if (et_kind(b->type) != kind && et_kind(b->type) != or)
    err(k, "%s cannot be of type %s, as %s is", who, et_name(b->type), ref(k, at.buffer));
  known(k, at.at, who);
  if (!at.at) return;
  settle(k, le(k, sym_int(k->c, 0), at.at),
         arena_fmt(k->a, "%s is element %s of %s", who, str(k, at.at), ref(k, at.buffer)));
  settle(k, le(k, sym_addi(k->c, program_bounded(k->p, at.at), 1), program_bounded(k->p, b->elems)),
         arena_fmt(k->a, "%s is element %s of the %s of %s", who, str(k, at.at), str(k, b->elems), ref(k, at.buffer)));
}
static bool uses_scratch(const lfunc *f) {
  for (uint32_t i = 1; i < f->insts.n; i++)
    if (f->insts.v[i].kind == L_SCRATCH) return true;
  return false;
}
/* Is it among the weights that no kernel may read? */
static bool only_begins(const program *p, const pbuffer *b) {
  return b->kind == BUF_WEIGHTS && b->weight_bytes && b->weight_offset >= p->weight_bytes - p->first_bytes;
}
static void argument(vf *k, const step *s, uint32_t i, const lparam *q) {
  const kargs *a = &s->args[i];
  const char *who = arena_fmt(k->a, "argument %u of %s", i, s->kernel);
  if (a->is_buffer != (q->type.ptr != 0)) {
    err(k, "%s is a %s, the kernel's parameter %s a %s", who, a->is_buffer ? "buffer" : "size", q->name,
        q->type.ptr ? "pointer" : "number");
    return;
  }
  if (!a->is_buffer) {
    known(k, a->size, who);
    return;
  }
  etype type = !a->buffer ? ET_U8 : a->buffer < k->p->buffers.n ? k->p->buffers.v[a->buffer].type : ET_NONE;
  if (type && type != (etype)q->type.elem)
    err(k, "%s is of type %s, the kernel's parameter %s of type %s", who, et_name(type), q->name,
        et_name((etype)q->type.elem));
  if (q->flags & LP_WRITE && !a->write) err(k, "%s is written by the kernel, but not marked out", who);
  if (a->buffer) use(k, a->buffer, a->write, who);
  if (a->buffer && a->buffer < k->p->buffers.n && only_begins(k->p, &k->p->buffers.v[a->buffer]))
    err(k, "%s is among the first values of states, which need not be in memory", who);
  if (a->moved < 0) err(k, "%s begins before its buffer", who);
  if (a->moved && a->buffer && a->buffer < k->p->buffers.n)
    settle(k, le(k, sym_int(k->c, a->moved), program_bounded(k->p, k->p->buffers.v[a->buffer].elems)),
           arena_fmt(k->a, "%s is moved by %lld elements", who, (long long)a->moved));
}
/* ---- a launch that reads the old value of a state and writes the new one ---------------------- */
static bool same_lanes(const linst *x, const linst *y) {
  return x->b == y->b && x->mask == y->mask && x->count == y->count && x->stride == y->stride &&
         x->type.lanes == y->type.lanes;
}
/* The elements of a load or store whose number of lanes is known: first, first + step, .., from where `base` points. */
typedef struct elements {
  lv base; /* 0: the index is a number */
  int64_t first, step, count;
} elements;
static bool elements_of(const lfunc *f, const linst *x, elements *e) {
  scalar k, n = {.i = x->type.lanes}, step = {.i = 1};
  if (x->mask || (x->count && !loop_const(f, x->count, &n)) || (x->stride && !loop_const(f, x->stride, &step)))
    return false;
  *e = (elements){.base = x->b, .step = step.i, .count = min64(n.i, x->type.lanes)};
  const linst *at = li(f, x->b);
  if (loop_const(f, x->b, &k))
    e->base = 0, e->first = k.i;
  else if (at->kind == L_OP && at->op == OP_ADD && loop_const(f, at->b, &k))
    e->base = at->a, e->first = k.i;
  else if (at->kind == L_OP && at->op == OP_ADD && loop_const(f, at->a, &k))
    e->base = at->b, e->first = k.i;
  return e->step > 0;
}
static bool includes(const elements *e, lv base, int64_t at) {
  const int64_t far = at - e->first;
  return base == e->base && far >= 0 && far % e->step == 0 && far / e->step < e->count;
}
/* The block of an instruction, and its place there. */
static const lblock *block_of(const lfunc *f, lv v, uint32_t *at) {
  for (uint32_t b = 1; b < f->blocks.n; b++)
    for (*at = 0; *at < f->blocks.v[b].insts.n; ++*at)
      if (f->blocks.v[b].insts.v[*at] == v) return &f->blocks.v[b];
  return NULL;
}
/* Do stores to `new` that follow in the same block write each element of a load? Rows of a few columns are loaded side
 * by side, and exchanged between the lanes. */
static bool written_by_block(const lfunc *f, lv load, lv new) {
  elements read, write;
  uint32_t from;
  const lblock *block = block_of(f, load, &from);
  bool all = block && elements_of(f, li(f, load), &read);
  for (int64_t i = 0; all && i < read.count; i++) {
    bool found = false;
    for (uint32_t at = from + 1; at < block->insts.n && !found; at++) {
      const linst *y = li(f, block->insts.v[at]);
      found = y->kind == L_STORE && y->a == new && elements_of(f, y, &write) &&
              includes(&write, read.base, read.first + i * read.step);
    }
    all = found;
  }
  return all;
}
/* Does the kernel read parameter `old` only where it writes to `new` afterwards? */
static bool reads_where_it_writes(const lfunc *f, lv old, lv new) {
  for (uint32_t v = 1; v < f->insts.n; v++) {
    const linst *x = &f->insts.v[v];
    bool written = x->kind != L_LOAD;
    if (x->kind == L_PREFETCH || (x->a != old && x->b != old && x->c != old)) continue;
    for (uint32_t w = v + 1; w < f->insts.n && !written; w++) {
      const linst *y = &f->insts.v[w];
      written = y->kind == L_STORE && y->a == new && same_lanes(x, y);
    }
    if (x->kind != L_LOAD || x->a != old || !(written || written_by_block(f, v, new))) return false;
  }
  return true;
}
/* The states' old values that such a launch reads are not read after it has written. */
static void own_places(vf *k, const step *s, const uint32_t *read_before) {
  const program *p = k->p;
  for (uint32_t i = 0; i < p->states.n; i++) {
    uint32_t old = UINT32_MAX, new = UINT32_MAX;
    for (uint32_t a = 0; a < s->nargs && a < s->func->params.n; a++) {
      const kargs *q = &s->args[a];
      if (!q->is_buffer || !q->buffer || q->buffer >= p->buffers.n || q->moved) continue;
      const pbuffer *b = &p->buffers.v[q->buffer];
      if (b->kind == BUF_INPUT && b->number == p->inputs.n - p->states.n + i) old = a;
      if (b->kind == BUF_OUTPUT && b->number == p->outputs.n - p->states.n + i) new = a;
    }
    if (old == UINT32_MAX || new == UINT32_MAX) continue;
    const lparam *x = &s->func->params.v[old], *y = &s->func->params.v[new];
    const uint32_t buffer = s->args[old].buffer;
    if (reads_where_it_writes(s->func, x->value, y->value)) k->last_read[buffer] = read_before[buffer];
  }
}
static void launch_step(vf *k, const step *s) {
  const lfunc *f = NULL;
  const bool states = k->p->states.n > 0;
  const uint32_t *read_before = states ? arena_dup(k->a, k->last_read, k->p->buffers.n * sizeof *k->last_read) : NULL;
  k->pos++;
  for (uint32_t i = 0; i < k->p->l->funcs.n && !f; i++)
    if (k->p->l->funcs.v[i] == s->func) f = s->func;
  if (!f || f->kind != LF_KERNEL || !s->kernel || strcmp(f->name, s->kernel)) {
    err(k, "step %u launches %s, which is no kernel of this program", k->pos, s->kernel ? s->kernel : "nothing");
    return;
  }
  bool more = uses_scratch(f), area = false;
  uint32_t n = f->params.n + (more ? 2 : 0);
  if (s->nargs != n) err(k, "%s takes %u arguments, not %u", s->kernel, n, s->nargs);
  lparam extra[2] = {{.name = "scratch", .type = lptr(ET_U8)}, {.name = "bytes", .type = lt(ET_I64, 1)}};
  for (uint32_t i = 0; i < s->nargs && i < n; i++)
    argument(k, s, i, i < f->params.n ? &f->params.v[i] : &extra[i - f->params.n]);
  for (uint32_t i = 0; i < s->nargs; i++) {
    area |= s->args[i].is_buffer && !s->args[i].buffer;
    if (s->args[i].is_buffer && s->args[i].write && s->args[i].buffer < k->p->buffers.n)
      k->written[s->args[i].buffer] = true;
  }
  if (states) own_places(k, s, read_before);
  known(k, s->chunks, arena_fmt(k->a, "the number of chunks of %s", s->kernel));
  if (sym_int_or(k->c, s->chunks, 0) < 0) err(k, "%s has %s chunks", s->kernel, str(k, s->chunks));
  if (s->where) known(k, s->where, arena_fmt(k->a, "where %s is for several threads", s->kernel));
  if (s->scratch && !area) err(k, "%s needs scratch, but does not get the area", s->kernel);
  if (s->scratch)
    settle(k, le(k, program_bounded(k->p, s->scratch), k->p->scratch_bytes),
           arena_fmt(k->a, "%s needs %s bytes of scratch, the area has %s", s->kernel, str(k, s->scratch),
                     str(k, k->p->scratch_bytes)));
}
static void set(vf *k, atom symbol, const char *what) { /* The size has a value from here on. */
  const psize *s = symbol ? program_size(k->p, symbol) : NULL;
  if (!s) err(k, "%s is no size of this program", what);
  for (uint32_t i = 0; i < k->known.n; i++)
    if (k->known.v[i] == symbol) err(k, "%s, %s, has a value already", what, sym_name(k->c, symbol));
  vec_push(k->a, k->known, symbol);
}
static void outgrow(vf *k, uint32_t output) {
  const pio *o = &k->p->outputs.v[output];
  for (uint32_t d = 0; d < o->rank; d++) known(k, o->dims[d], arena_fmt(k->a, "dimension %u of output %s", d, o->name));
  k->grown[output] = true;
}
/* Late buffers and outputs are used when room for them was asked for: a room that is not below their end in any
 * example. */
static bool roomy(vf *k, const pbuffer *b) {
  sz end = sym_add(k->c, b->offset, b->bytes);
  for (uint32_t i = 0; i < k->rooms.n; i++) {
    bool below = false;
    int64_t x, y;
    for (uint32_t e = 0; e < EXAMPLES && !below && k->rooms.v[i] != end; e++)
      below = k->legal[e] && at_example(k, e, end, &x) && at_example(k, e, k->rooms.v[i], &y) && x > y;
    if (!below) return true;
  }
  return false;
}
static void walk(vf *k, const steps *list, uint32_t depth);
/* The steps of a recurrence, a loop of launches alone: what lives all through it and is written by one launch holds
 * for all of them what earlier turns wrote. */
static void earlier_turns(vf *k, const steps *body, uint32_t from) {
  for (uint32_t i = 0; i < body->n; i++)
    if (body->v[i].kind != ST_LAUNCH) return;
  for (uint32_t i = 0; i < body->n; i++)
    for (uint32_t j = 0; j < body->v[i].nargs; j++) {
      const kargs *a = &body->v[i].args[j];
      if (!a->is_buffer || !a->write || a->buffer >= k->p->buffers.n) continue;
      const pbuffer *b = &k->p->buffers.v[a->buffer];
      if (b->kind == BUF_OUTPUT || (b->first <= from && b->last > from + body->n)) k->written[a->buffer] = true;
    }
}
static void loop(vf *k, const step *s, uint32_t depth) {
  uint32_t from = ++k->pos, outside = k->known.n;
  if (s->trips)
    known(k, s->trips, "the number of trips");
  else
    element(k, s->from, K_INT, K_UINT, "the number of trips");
  if (s->first.buffer) element(k, s->first, K_BOOL, K_BOOL, "the first condition of a loop");
  set(k, s->symbol, "a loop's counter");
  earlier_turns(k, &s->body, from);
  walk(k, &s->body, depth + 1);
  k->pos++;
  if (s->again.buffer) element(k, s->again, K_BOOL, K_BOOL, "the condition of a loop");
  k->known.n = outside;
  for (uint32_t i = 1; i < k->p->buffers.n; i++) {
    const pbuffer *b = &k->p->buffers.v[i];
    if (k->last_read[i] >= from) k->last_read[i] = k->pos;
    if (b->kind == BUF_ARENA && k->last_use[i] >= from && (b->first < from || b->last > k->pos) &&
        (b->first > from || b->last < k->pos))
      err(k,
          "%s lives in the steps %u..%u; the loop of the steps %u..%u uses it, and it lives outside too, so it must "
          "live all through the loop",
          ref(k, i), b->first, b->last, from, k->pos);
  }
}
static void walk(vf *k, const steps *list, uint32_t depth) {
  if (depth > 200) {
    err(k, "steps are nested more than 200 deep");
    return;
  }
  uint32_t outside = k->known.n, rooms = k->rooms.n;
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    switch (s->kind) {
    case ST_LAUNCH:
      launch_step(k, s);
      break;
    case ST_LATE: {
      element(k, s->from, K_INT, K_UINT, "a late size");
      set(k, s->symbol, "a late size");
      break;
    }
    case ST_CHECK:
      known(k, s->check.ge0, "a condition");
      break;
    case ST_VALUE:
      element(k, s->value.at, K_INT, K_INT, "a check's place");
      element(k, s->value.value, K_INT, K_INT, "a check's value");
      known(k, s->value.lo, "a check's bound"), known(k, s->value.hi, "a check's bound");
      for (uint32_t j = 0; j < s->value.ndims; j++) known(k, s->value.dims[j], "a check's size");
      break;
    case ST_ROOM:
      if (!s->room && s->output >= k->p->outputs.n)
        err(k, "a room step for output %u of %u", s->output, k->p->outputs.n);
      else if (s->room)
        known(k, s->room, "the room");
      else
        outgrow(k, s->output);
      if (s->room) vec_push(k->a, k->rooms, s->room);
      break;
    case ST_IF:
      k->pos++;
      element(k, s->from, K_BOOL, K_BOOL, "the condition of an if");
      walk(k, &s->body, depth + 1);
      walk(k, &s->other, depth + 1);
      k->pos++;
      break;
    case ST_LOOP:
      loop(k, s, depth);
      break;
    default:
      err(k, "no such step: %d", (int)s->kind);
    }
  }
  if (depth) k->known.n = outside, k->rooms.n = rooms;
}

/* ---- memory ---------------------------------------------------------------------------------- */
static sz product(vf *k, const pio *x) {
  sz n = sym_int(k->c, 1);
  for (uint32_t i = 0; i < x->rank; i++) n = sym_mul(k->c, n, x->dims[i]);
  return n;
}
static void buffers(vf *k) {
  const program *p = k->p;
  sz zero = sym_int(k->c, 0);
  for (uint32_t i = 1; i < p->buffers.n; i++) {
    const pbuffer *b = &p->buffers.v[i];
    const char *who = ref(k, i);
    if (!b->elems || b->type <= ET_NONE || b->type >= ET_COUNT || b->type == ET_STR) {
      err(k, "%s has no size or an impossible type", who);
      continue;
    }
    sz need = sym_muli(k->c, program_bounded(p, b->elems), et_bytes(b->type));
    if (b->kind == BUF_INPUT || b->kind == BUF_OUTPUT) {
      const pio *all = b->kind == BUF_INPUT ? p->inputs.v : p->outputs.v;
      if (b->number >= (b->kind == BUF_INPUT ? p->inputs.n : p->outputs.n))
        err(k, "%s is number %u of too few", who, b->number);
      else if (all[b->number].type != b->type)
        err(k, "%s is of type %s, the model's %s of type %s", who, et_name(b->type), all[b->number].name,
            et_name(all[b->number].type));
      else
        settle(k, le(k, need, sym_muli(k->c, program_bounded(p, product(k, &all[b->number])), et_bytes(b->type))),
               arena_fmt(k->a, "%s has %s elements, more than the model's %s", who, str(k, b->elems),
                         all[b->number].name));
      continue;
    }
    if (b->kind != BUF_WEIGHTS && b->kind != BUF_ARENA) {
      err(k, "%s is of no kind", who);
      continue;
    }
    if (!b->bytes || (b->kind == BUF_ARENA && !b->offset)) {
      err(k, "%s has no place", who);
      continue;
    }
    settle(k, le(k, need, b->bytes),
           arena_fmt(k->a, "%s has %s bytes in a room of %s", who, str(k, need), str(k, b->bytes)));
    if (b->kind == BUF_WEIGHTS) {
      int64_t n = sym_int_or(k->c, b->bytes, -1);
      if (n < 0 || (uint64_t)n > p->weight_bytes || b->weight_offset > p->weight_bytes - (uint64_t)n)
        err(k, "%s: %s bytes at %llu are not inside the weights, %llu bytes", who, str(k, b->bytes),
            (unsigned long long)b->weight_offset, (unsigned long long)p->weight_bytes);
      if (b->weight_offset % 64)
        err(k, "%s: offset %llu is not a multiple of 64", who, (unsigned long long)b->weight_offset);
      continue;
    }
    if (!b->late) known(k, b->offset, arena_fmt(k->a, "the offset of %s", who));
    settle(k, le(k, zero, b->offset), arena_fmt(k->a, "the offset of %s, %s, is negative", who, str(k, b->offset)));
    if (!b->late)
      settle(k, le(k, sym_add(k->c, b->offset, b->bytes), p->arena_bytes),
             arena_fmt(k->a, "%s: %s bytes at %s are not inside the arena, %s bytes", who, str(k, b->bytes),
                       str(k, b->offset), str(k, p->arena_bytes)));
    if (sym_int_or(k->c, b->offset, 0) % 64) err(k, "%s: offset %s is not a multiple of 64", who, str(k, b->offset));
    if (b->first > b->last) err(k, "%s lives in no step: %u..%u", who, b->first, b->last);
  }
}
static void overlaps(vf *k) {
  const program *p = k->p;
  for (uint32_t i = 1; i < p->buffers.n; i++)
    for (uint32_t j = 1; j < i; j++) {
      const pbuffer *x = &p->buffers.v[i], *y = &p->buffers.v[j];
      if (x->kind == BUF_WEIGHTS && y->kind == BUF_WEIGHTS) {
        uint64_t xn = (uint64_t)sym_int_or(k->c, x->bytes, 0), yn = (uint64_t)sym_int_or(k->c, y->bytes, 0);
        bool same = x->weight_offset == y->weight_offset && xn == yn && x->type == y->type &&
                    (!x->from.source.p || !y->from.source.p || weights_equal(k->c, &x->from, &y->from));
        if (!same && x->weight_offset < y->weight_offset + yn && y->weight_offset < x->weight_offset + xn)
          err(k, "the weights %s and %s overlap", ref(k, j), ref(k, i));
      }
      if (x->kind != BUF_ARENA || y->kind != BUF_ARENA || x->first > y->last || y->first > x->last ||
          x->late != y->late || !x->bytes || !y->bytes || !x->offset || !y->offset)
        continue;
      answer is = apart(k, x, y);
      if (is != YES)
        settle(k, is,
               arena_fmt(k->a, "%s and %s overlap: %s bytes at %s and %s bytes at %s, both live in step %u", ref(k, j),
                         ref(k, i), str(k, y->bytes), str(k, y->offset), str(k, x->bytes), str(k, x->offset),
                         x->first > y->first ? x->first : y->first));
    }
}
/* ---- states ---------------------------------------------------------------------------------- */
static bool is_permutation(const uint32_t *order, uint32_t rank) {
  uint32_t had = 0;
  for (uint32_t i = 0; i < rank; i++) {
    if (order[i] >= rank || had >> order[i] & 1) return false;
    had |= 1u << order[i];
  }
  return true;
}
static void states(vf *k) {
  const program *p = k->p;
  for (uint32_t i = 0; i < p->states.n; i++) {
    const pio *in = &p->inputs.v[p->inputs.n - p->states.n + i], *out = &p->outputs.v[p->outputs.n - p->states.n + i];
    const pstate *s = &p->states.v[i];
    if (in->type != out->type || in->rank != out->rank)
      err(k, "state %s: old and new value have different types or ranks", in->name);
    const pbuffer *b = s->first < p->buffers.n ? &p->buffers.v[s->first] : NULL;
    if (!b || (s->first && (b->kind != BUF_WEIGHTS || b->type != in->type || !sym_eq(k->c, b->elems, product(k, in)))))
      err(k, "state %s: %%%u cannot be its first value", in->name, s->first);
    if (s->order && !is_permutation(s->order, in->rank)) err(k, "state %s: its order has not each axis once", in->name);
  }
}
/* After the walk: one memory is read as the old value only before it is written as the new one. */
static void states_in_place(vf *k) {
  const program *p = k->p;
  for (uint32_t i = 0; i < p->states.n; i++) {
    const uint32_t in = p->inputs.n - p->states.n + i, out = p->outputs.n - p->states.n + i;
    uint32_t read = 0, wrote = UINT32_MAX;
    for (uint32_t b = 1; b < p->buffers.n; b++) {
      const pbuffer *x = &p->buffers.v[b];
      if (x->kind == BUF_INPUT && x->number == in && k->last_read[b] > read) read = k->last_read[b];
      if (x->kind == BUF_OUTPUT && x->number == out && k->wrote[b] && k->wrote[b] < wrote) wrote = k->wrote[b];
    }
    if (p->states.v[i].in_place && read >= wrote)
      err(k, "state %s is in place: step %u reads its old value, and step %u wrote to the new one",
          p->inputs.v[in].name, read, wrote);
  }
}
static void check(vf *k) {
  const program *p = k->p;
  k->written = NEWN(k->a, bool, p->buffers.n), k->last_use = NEWN(k->a, uint32_t, p->buffers.n);
  k->last_read = NEWN(k->a, uint32_t, p->buffers.n), k->wrote = NEWN(k->a, uint32_t, p->buffers.n);
  k->open = NEWN(k->a, bool, p->outputs.n + 1), k->grown = NEWN(k->a, bool, p->outputs.n + 1);
  if (!p->l || !p->arena_bytes || !p->scratch_bytes) {
    err(k, "the kernels, the arena's size or that of the scratch area is missing");
    return;
  }
  if (p->states.n > p->inputs.n || p->states.n > p->outputs.n) {
    err(k, "there are more states than inputs or outputs");
    return;
  }
  if (p->first_bytes > p->weight_bytes) {
    err(k, "there are more bytes of first values than of weights");
    return;
  }
  states(k);
  choose_examples(k);
  program_entry_sizes(p, &k->known, k->a);
  for (uint32_t i = 0; i < p->inputs.n; i++)
    for (uint32_t d = 0; d < p->inputs.v[i].rank; d++)
      known(k, p->inputs.v[i].dims[d], arena_fmt(k->a, "dimension %u of input %s", d, p->inputs.v[i].name));
  for (uint32_t i = 0; i < p->checks.n; i++) known(k, p->checks.v[i].ge0, "a condition at entry");
  known(k, p->arena_bytes, "the size of the arena"), known(k, p->scratch_bytes, "the size of the scratch area");
  if (sym_int_or(k->c, p->arena_bytes, 0) % 64 || sym_int_or(k->c, p->scratch_bytes, 0) % 64)
    err(k, "arena and scratch area are not multiples of 64 bytes");
  settle(k, le(k, sym_int(k->c, 0), p->scratch_bytes), "the scratch area has a negative size");
  if (p->live_bound)
    settle(k, le(k, p->live_bound, p->arena_bytes), "the arena is smaller than what lives in it at one step");
  buffers(k);
  overlaps(k);
  for (uint32_t i = 0; i < p->outputs.n; i++)
    for (uint32_t d = 0; d < p->outputs.v[i].rank; d++) {
      if (program_open(p, p->outputs.v[i].dims[d]))
        k->open[i] = true;
      else
        known(k, program_bounded(p, p->outputs.v[i].dims[d]),
              arena_fmt(k->a, "the bound of dimension %u of output %s", d, p->outputs.v[i].name));
    }
  walk(k, &p->steps, 0);
  states_in_place(k);
  for (uint32_t i = 0; i < p->outputs.n; i++)
    for (uint32_t d = 0; d < p->outputs.v[i].rank; d++)
      known(k, p->outputs.v[i].dims[d], arena_fmt(k->a, "dimension %u of output %s", d, p->outputs.v[i].name));
}
bool program_verify(const program *p, const char *when) {
  arena *a = arena_new(p->c);
  vf k = {.p = p, .c = p->c, .a = a, .when = when ? when : "check"};
  check(&k);
  arena_free(a);
  return k.errors == 0;
}
uint32_t program_verify_memory(const program *p, sbuf *out) {
  arena *a = arena_new(p->c);
  vf k = {.p = p, .c = p->c, .a = a, .out = out};
  check(&k);
  arena_free(a);
  return k.unproved;
}
