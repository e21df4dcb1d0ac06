/* In which order do the launches of the root block run, so that less memory is live at one time?
 *
 * The order that comes from the levels above is kept, but for two things. What reads no tensor of this run (constants
 * and parameters that are packed or padded) runs when its result is first needed. And what frees more memory than it
 * takes runs as soon as it can: a launch, or a short chain of launches of which each reads what the one before wrote,
 * such as the gradient of a parameter and its update, which the levels above put at the end, where the derivatives of
 * all layers are still there. Such a chain may take more memory on its way than there is at the highest point; then it
 * waits. How high that may be is tried: each round allows less than the round before reached.
 *
 * Launches keep their order where one writes memory that the other uses. Greedy list scheduling; the best order is hard
 * to find (Sethi, "Complete register allocation problems", 1975). */
#include "program/build.h"
#include "program/usage.h"
#include <string.h>

enum {
  CHAIN = 3,      /* longest chain, in units */
  ROUNDS = 12,    /* orders that are tried */
  MOST = 6000,    /* units: the time grows with their square */
  LEAST_GAIN = 32 /* an order is taken for a gain of a thirty-second part */
};
typedef struct order {
  usage u;          /* which launches use which memory */
  arena *a;         /* memory */
  u32vec *before;   /* per unit: units that must run before it */
  u32vec *after;    /* per unit: units that must run after it */
  uint32_t *waits;  /* per unit: how many of `before` have not run */
  bool *done;       /* per unit: it has run */
  uint32_t *users;  /* per memory: how many units use it */
  uint32_t *left;   /* per memory: how many of them have not run */
  u32vec open;      /* units that may have become ready; also some that are not, and some twice */
  u32vec out;       /* units in their new order */
  int64_t live;     /* bytes live behind the last unit that has run */
  int64_t peak;     /* most bytes live so far */
  double sum;       /* bytes live, summed over the units so far */
  int64_t most;     /* what runs earlier than it must may not take more than this */
  uint32_t segment; /* of the units that may run now */
} order;

/* ---- what must run before what ----------------------------------------------------------------- */
static void add_pair(order *k, uint32_t before, uint32_t after) {
  if (before == after || vec_has(&k->before[after], before)) return;
  vec_push(k->a, k->before[after], before);
  vec_push(k->a, k->after[before], after);
}
static void find_pairs(order *k) {
  const uint32_t n = k->u.s->buffers.n;
  uint32_t *writer = NEWN(k->a, uint32_t, n); /* per memory: 1 + the last unit that wrote it */
  u32vec *readers = NEWN(k->a, u32vec, n);    /* per memory: units that read it since then */
  for (uint32_t i = 0; i < k->u.units.n; i++)
    for (uint32_t j = 0; j < k->u.units.v[i].uses.n; j++) {
      const use *x = &k->u.units.v[i].uses.v[j];
      u32vec *r = &readers[x->memory];
      if (writer[x->memory]) add_pair(k, writer[x->memory] - 1, i);
      for (uint32_t q = 0; x->write && q < r->n && !EK_PLANTED("program-order"); q++) add_pair(k, r->v[q], i);
      if (x->write)
        writer[x->memory] = i + 1, r->n = 0;
      else
        vec_push(k->a, *r, i);
    }
}

/* ---- running, and taking back ------------------------------------------------------------------ */
static void run(order *k, uint32_t i) {
  const unit *u = &k->u.units.v[i];
  for (uint32_t j = 0; j < u->uses.n; j++) {
    const uint32_t m = u->uses.v[j].memory;
    if (k->left[m]-- == k->users[m]) k->live += k->u.bytes[m];
  }
  k->peak = max64(k->peak, k->live), k->sum += (double)k->live;
  for (uint32_t j = 0; j < u->uses.n; j++) {
    const uint32_t m = u->uses.v[j].memory;
    if (!k->left[m] && !k->u.pinned[m]) k->live -= k->u.bytes[m];
  }
  k->done[i] = true;
  for (uint32_t j = 0; j < k->after[i].n; j++)
    if (!--k->waits[k->after[i].v[j]]) vec_push(k->a, k->open, k->after[i].v[j]);
  vec_push(k->a, k->out, i);
}
/* The unit that ran last has not run. live, peak and sum are the caller's business. */
static void take_back(order *k) {
  const uint32_t i = k->out.v[--k->out.n];
  const unit *u = &k->u.units.v[i];
  for (uint32_t j = 0; j < u->uses.n; j++) k->left[u->uses.v[j].memory]++;
  k->done[i] = false;
  for (uint32_t j = 0; j < k->after[i].n; j++) k->waits[k->after[i].v[j]]++;
}
static bool ready(const order *k, uint32_t i) {
  return !k->done[i] && !k->waits[i] && k->u.units.v[i].segment == k->segment;
}
static uint32_t next_in_chain(const order *k, uint32_t i) {
  for (uint32_t j = 0; j < k->after[i].n; j++)
    if (ready(k, k->after[i].v[j])) return k->after[i].v[j];
  return UINT32_MAX;
}
/* Runs a chain that begins with this unit, if that frees memory. */
static bool run_chain(order *k, uint32_t first) {
  const int64_t live = k->live, peak = k->peak;
  const double sum = k->sum;
  uint32_t n = 0;
  for (uint32_t i = first; i != UINT32_MAX && n < CHAIN; i = next_in_chain(k, i)) {
    run(k, i), n++;
    if (k->peak > max64(peak, k->most)) break;
    if (k->live < live) return true;
  }
  while (n--) take_back(k);
  k->live = live, k->peak = peak, k->sum = sum;
  return false;
}
static void free_early(order *k) {
  for (bool more = true; more;) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->open.n; i++)
      if (!k->done[k->open.v[i]] && !k->waits[k->open.v[i]]) k->open.v[n++] = k->open.v[i];
    k->open.n = n, more = false;
    for (uint32_t i = 0; i < n && !more; i++) more = ready(k, k->open.v[i]) && run_chain(k, k->open.v[i]);
  }
}

/* ---- the order --------------------------------------------------------------------------------- */
static bool uses_arena(const order *k, const unit *u, bool write) {
  for (uint32_t i = 0; i < u->uses.n; i++)
    if (u->uses.v[i].write == write && k->u.bytes[u->uses.v[i].memory]) return true;
  return false;
}
static void run_needed(order *k, uint32_t i) {
  if (k->done[i]) return;
  for (uint32_t j = 0; j < k->before[i].n; j++) run_needed(k, k->before[i].v[j]);
  if (k->done[i]) return; /* that freed memory, behind one of those */
  run(k, i);
  free_early(k);
}
static void begin(order *k) { /* nothing has run */
  const uint32_t n = k->u.units.n;
  k->out.n = k->open.n = 0, k->live = k->peak = 0, k->sum = 0;
  memset(k->done, 0, n * sizeof *k->done);
  memcpy(k->left, k->users, k->u.s->buffers.n * sizeof *k->left);
  for (uint32_t i = 0; i < n; i++)
    if (!(k->waits[i] = k->before[i].n)) vec_push(k->a, k->open, i);
}
/* One order; nothing that need not run now takes more than `most` bytes. */
static void try_order(order *k, int64_t most) {
  const uint32_t n = k->u.units.n;
  begin(k);
  k->most = most;
  for (uint32_t from = 0, to = 0; from < n; from = to) {
    k->segment = k->u.units.v[from].segment;
    while (to < n && k->u.units.v[to].segment == k->segment) to++;
    for (uint32_t i = from; i < to; i++)
      if (uses_arena(k, &k->u.units.v[i], false) || !uses_arena(k, &k->u.units.v[i], true)) run_needed(k, i);
    for (uint32_t i = from; i < to; i++) run_needed(k, i);
  }
}
static void keep_order(order *k) { /* the order that there is */
  begin(k);
  for (uint32_t i = 0; i < k->u.units.n; i++) run(k, i);
}
/* An item of a launch may be a later one than it was, but no later than those that it stands before. */
static void reorder(const order *k, const u32vec *to) {
  splan *s = k->u.s;
  uint32_t n = 0, item = 0, all = 0;
  for (uint32_t i = 0; i < k->u.units.n; i++) all += k->u.units.v[i].n;
  launch *old = arena_dup(k->a, s->launches.v, all * sizeof *old);
  for (uint32_t i = 0; i < to->n; i++)
    for (uint32_t j = 0; j < k->u.units.v[to->v[i]].n; j++) {
      launch *l = &s->launches.v[n++];
      *l = old[k->u.units.v[to->v[i]].first + j];
      if (l->item < item) l->item = item;
      item = l->item;
    }
}
/* The order with the lowest peak, of these the one with the least memory in all; none where the gain is little. */
static void find_best(order *k, u32vec *best) {
  keep_order(k);
  const int64_t now = k->peak;
  const double sum_now = k->sum;
  int64_t least = now;
  double sum = sum_now;
  for (int round = 0; round < ROUNDS; round++) {
    try_order(k, least - 1);
    if (k->peak > least || (k->peak == least && k->sum >= sum)) break;
    const bool last = k->peak == least; /* what must run reaches so high */
    least = k->peak, sum = k->sum, best->n = 0;
    for (uint32_t i = 0; i < k->out.n; i++) vec_push(k->a, *best, k->out.v[i]);
    if (last) break;
  }
  if (now - least < now / LEAST_GAIN && sum_now - sum < sum_now / LEAST_GAIN) best->n = 0;
}
void program_order(splan *s) {
  arena *a = arena_new(s->m->c);
  order k = {.a = a};
  usage_find(s, a, &k.u);
  const uint32_t n = k.u.units.n, buffers = s->buffers.n;
  u32vec best = {0};
  if (n > 2 && n <= MOST) {
    k.before = NEWN(a, u32vec, n), k.after = NEWN(a, u32vec, n);
    k.waits = NEWN(a, uint32_t, n), k.done = NEWN(a, bool, n);
    k.users = NEWN(a, uint32_t, buffers), k.left = NEWN(a, uint32_t, buffers);
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t j = 0; j < k.u.units.v[i].uses.n; j++) k.users[k.u.units.v[i].uses.v[j].memory]++;
    find_pairs(&k);
    find_best(&k, &best);
    if (best.n) reorder(&k, &best);
  }
  arena_free(a);
}
