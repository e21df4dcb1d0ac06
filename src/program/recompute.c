/* Rematerialisation: which launches are repeated, so that what they compute need not be kept?
 *
 * Where more memory is live than is allowed, some tensors wait there for a later use (in training: what the forward
 * pass computes, for the gradient). The memory of one of them is free meanwhile if the launches that compute it run
 * again, just before that use. What these read must be there then: it is live anyway, or is kept longer, or is computed
 * again, too, so that a chain is repeated from what is kept (Chen et al., "Training deep nets with sublinear memory
 * cost", 2016). A launch that runs again is the same code on the same values: the results are equal bit for bit. It
 * writes to memory of its own, also in the place of outputs and states: those are written once.
 *
 * The choice is greedy, as in Kirisame et al., "Dynamic tensor rematerialization" (2021), but with what is known
 * beforehand: of all tensors, their gaps between two uses, and lengths of the chain, the one that takes away most of
 * what lies over the limit (summed over the launches), for the estimated cycles of what is repeated. Each step makes
 * that sum smaller. Then the arena is planned; where its buffers do not fit together as closely as the sum of their
 * bytes says, the choice goes on with a lower limit.
 *
 * An element-wise stage of a kernel need not be repeated with the whole kernel (the activation behind a product, the
 * rows behind their means): a launch computes it alone from what is stored (schedule/part.c).
 *
 * Where there are derivatives and nobody states a limit, memory is lowered as long as that costs almost no time: the
 * lowest limit for which what is repeated is worth it is found by bisection. A limit that is stated may be used up. */
#include "program/build.h"
#include "program/usage.h"
#include <stdlib.h>
#include <string.h>

enum {
  DEPTH = 10,        /* longest chain, in tensors */
  NEAR_DEPTH = 2,    /* the same where there is no limit */
  BISECTIONS = 7,    /* limits that are tried there */
  TRIES = 12,        /* choices that are looked at closely, at least */
  ROUNDS = 8,        /* limits that are tried, until the arena fits */
  SMALL = 16,        /* an input of a sixteenth of the bytes is kept, and not computed again */
  PART_GAP = 8,      /* a tensor waits where so many units do not use it: a part of its kernel may compute it again */
  PART_SHARE = 1024, /* then; it takes a thousandth of the working memory at least */
  NONE = -1
};
/* A unit at its place, or once more. */
typedef struct node {
  uint32_t unit;           /* number of the unit */
  bool again;              /* it is repeated here */
  const uint32_t *version; /* for each of the unit's uses: which version of the memory */
} node;
typedef VEC(node) nodes;
typedef struct version {
  uint32_t root; /* the buffer whose contents it has */
  int64_t bytes; /* bytes in the arena */
  bool partial;  /* nobody may read it: not all of the contents are computed, or others */
} version;
/* When a version is used, in a list of nodes. */
typedef struct life {
  uint32_t first, last; /* first and last node that uses it; first > last: none does */
  uint32_t written;     /* last node that writes it */
} life;
typedef struct choice {
  uint32_t version; /* what is computed again */
  uint32_t from;    /* the last node that uses it before */
  uint32_t to;      /* the next one, before which it is computed again */
  uint32_t depth;   /* length of the chain */
  double most;      /* at most so much of the excess goes, for each cycle; once it was looked at: what goes */
} choice;
typedef VEC(choice) choices;
typedef struct numbers { /* a set, in the order in which they came */
  u32vec v;              /* the numbers */
  uint32_t *at;          /* per number: where it is in v, if it is */
} numbers;
/* What a choice could not repeat. */
typedef struct failure {
  uint32_t choice; /* number of the choice */
  uint32_t depth;  /* length of the chain */
} failure;
/* part of the estimated time that all of the working memory would be worth: a tenth of it is worth 0.35 % */
static const double PRICE = 0.035;
typedef struct state {
  usage u;                /* which launches use which memory, as things were */
  const launch *launches; /* the launches, as they were, then those that compute a part of a kernel */
  uint32_t nlaunches;     /* how many there were */
  uint32_t nparts;        /* launches of parts */
  uint32_t nunits;        /* units of the launches that there were; then come those of parts */
  uint32_t depth;         /* longest chain that is repeated, in tensors */
  uint32_t nbuffers;      /* how many buffers there were */
  arena *a;               /* memory */
  u32vec *writers;        /* per buffer: units that write it */
  uint32_t *part;         /* per buffer: the unit that computes it alone; 0: there is none */
  bool *plain;            /* per buffer: in the arena, and complete before anything else reads it */
  double *cycles;         /* per unit: estimated cycles */
  nodes list;             /* what runs, in order */
  VEC(version) versions;  /* the buffers, and behind them what is computed again */
  life *lives;            /* per version, of list */
  int64_t *live;          /* per node: bytes live */
  double *over;           /* per node: sum of the bytes over the limit, of those before it */
  uint32_t *wrote;        /* per buffer: the first node that writes it */
  uint32_t **stale;       /* per buffer, and per writer of it: the node from which on repeats fails; 0: not known yet */
  int64_t limit;          /* bytes */
  double excess;          /* bytes over the limit, summed over the nodes */
  map *from;              /* unit, buffer, memory -> computed_from */
  /* what the choice at hand repeats */
  uint32_t at;     /* node before which this happens */
  uint32_t choice; /* number of the choice */
  numbers units;   /* units */
  numbers roots;   /* buffers of which there are new versions */
  failure *failed; /* per buffer */
} state;

/* ---- what there is ----------------------------------------------------------------------------- */
static const unit *unit_at(const state *k, uint32_t i) { return &k->u.units.v[i]; }
static bool has(const numbers *set, uint32_t x) { return set->at[x] < set->v.n && set->v.v[set->at[x]] == x; }
static void put(const state *k, numbers *set, uint32_t x) {
  if (has(set, x)) return;
  set->at[x] = set->v.n;
  vec_push(k->a, set->v, x);
}
static bool single(const unit *u, const state *k) { return u->n == 1 && !k->launches[u->first].step; }
static void find_plain(state *k) {
  const uint32_t n = k->u.s->buffers.n;
  bool *read = NEWN(k->a, bool, n);
  k->writers = NEWN(k->a, u32vec, n), k->plain = NEWN(k->a, bool, n);
  for (uint32_t b = 1; b < n; b++) k->plain[b] = k->u.bytes[b] && !k->u.pinned[b];
  for (uint32_t i = 0; i < k->nunits; i++)
    for (uint32_t j = 0; j < unit_at(k, i)->uses.n; j++) {
      const use *x = &unit_at(k, i)->uses.v[j];
      if (x->write) {
        vec_push(k->a, k->writers[x->memory], i);
        k->plain[x->memory] &= !read[x->memory] && single(unit_at(k, i), k);
      } else
        read[x->memory] = true;
    }
}
/* The units of parts. */
static void add_parts(state *k) {
  k->part = NEWN(k->a, uint32_t, k->u.s->buffers.n);
  for (uint32_t i = k->nlaunches; i < k->nlaunches + k->nparts; i++) {
    unit x = {.first = i, .n = 1};
    usage_add(&k->u, &k->launches[i], &x.uses);
    for (uint32_t j = 0; j < x.uses.n; j++)
      if (x.uses.v[j].write) k->part[x.uses.v[j].memory] = k->u.units.n;
    vec_push(k->a, k->u.units, x);
  }
}
static void begin(state *k) {
  const splan *s = k->u.s;
  k->from = map_new(k->a);
  for (uint32_t b = 0; b < s->buffers.n; b++) vec_push(k->a, k->versions, ((version){b, k->u.bytes[b], false}));
  k->nunits = k->u.units.n;
  add_parts(k);
  k->cycles = NEWN(k->a, double, k->u.units.n + 1);
  k->units.at = NEWN(k->a, uint32_t, k->u.units.n + 1), k->roots.at = NEWN(k->a, uint32_t, s->buffers.n);
  k->failed = NEWN(k->a, failure, s->buffers.n);
  for (uint32_t i = 0; i < k->u.units.n; i++) {
    const unit *u = unit_at(k, i);
    uint32_t *v = NEWN(k->a, uint32_t, u->uses.n + 1);
    for (uint32_t j = 0; j < u->uses.n; j++) v[j] = u->uses.v[j].memory;
    if (i < k->nunits) vec_push(k->a, k->list, ((node){i, false, v}));
    if (single(u, k)) k->cycles[i] = launch_cost(s, &k->launches[u->first]).cycles + 1;
  }
}
/* Lives of all versions; gives the bytes over the limit, summed over the nodes. */
static double survey(const state *k, const nodes *list, life *lives, int64_t *live, double *over) {
  int64_t now = 0;
  double sum = 0;
  for (uint32_t v = 0; v < k->versions.n; v++) lives[v] = (life){UINT32_MAX, 0, 0};
  for (uint32_t i = 0; i < list->n; i++) {
    const unit *u = unit_at(k, list->v[i].unit);
    for (uint32_t j = 0; j < u->uses.n; j++) {
      life *x = &lives[list->v[i].version[j]];
      if (x->first == UINT32_MAX) x->first = i;
      x->last = i;
      if (u->uses.v[j].write) x->written = i;
    }
  }
  memset(live, 0, (list->n + 1) * sizeof *live);
  for (uint32_t v = 1; v < k->versions.n; v++) {
    if (lives[v].first == UINT32_MAX) continue;
    live[lives[v].first] += k->versions.v[v].bytes;
    if (!k->u.pinned[k->versions.v[v].root]) live[lives[v].last + 1] -= k->versions.v[v].bytes;
  }
  for (uint32_t i = 0; i < list->n; i++) {
    live[i] = now += live[i];
    over[i] = sum;
    sum += (double)max64(0, now - k->limit);
  }
  return over[list->n] = sum;
}
static void look(state *k, arena *t) {
  k->lives = NEWN(t, life, k->versions.n), k->live = NEWN(t, int64_t, k->list.n + 1);
  k->over = NEWN(t, double, k->list.n + 1), k->wrote = NEWN(t, uint32_t, k->u.s->buffers.n);
  k->stale = NEWN(t, uint32_t *, k->nbuffers);
  memset(k->wrote, 0xff, k->u.s->buffers.n * sizeof *k->wrote);
  for (uint32_t i = k->list.n; i-- > 0;) {
    const unit *u = unit_at(k, k->list.v[i].unit);
    for (uint32_t j = 0; j < u->uses.n && !k->list.v[i].again; j++)
      if (u->uses.v[j].write) k->wrote[u->uses.v[j].memory] = i;
  }
  for (uint32_t b = 0; b < k->nbuffers; b++) k->stale[b] = NEWN(t, uint32_t, k->writers[b].n + 1);
  k->excess = survey(k, &k->list, k->lives, k->live, k->over);
}

/* ---- what must be repeated --------------------------------------------------------------------- */
static bool stages_load(const state *k, const launch *l, uint32_t of, uint32_t x) {
  const splan *s = k->u.s;
  u32vec todo = {0};
  for (uint32_t i = 0; i < l->stages.n; i++)
    if (k->u.memory[s->layouts[xs(s->m, l->stages.v[i])->tensor].buffer] == of) vec_push(k->a, todo, l->stages.v[i]);
  for (uint32_t i = 0; i < todo.n; i++) {
    u32vec loads = {0};
    expr_stage_loads(s->m, todo.v[i], k->a, &loads);
    for (uint32_t j = 0; j < loads.n; j++) {
      const tid t = exn(s->m, loads.v[j])->tensor;
      if (k->u.memory[s->layouts[t].buffer] == x) return true;
      if (xt(s->m, t)->kind == TK_STAGE && vec_has(&l->stages, xt(s->m, t)->stage))
        vec_once(k->a, &todo, xt(s->m, t)->stage);
    }
  }
  return !todo.n;
}
/* Does what the unit's launch computes in memory `of` come from memory x? By its stages. */
static bool computed_from(const state *k, uint32_t unit, uint32_t of, uint32_t x) {
  const uint32_t key[3] = {unit, of, x};
  uint64_t known;
  if (!map_get(k->from, key, sizeof key, &known)) {
    known = stages_load(k, &k->launches[unit_at(k, unit)->first], of, x);
    map_put(k->from, key, sizeof key, known);
  }
  return known != 0;
}
/* The first node that gives a new value to a state from which the unit computes memory `of`; at least 1. */
static uint32_t first_stale(const state *k, uint32_t i, uint32_t of) {
  const unit *u = unit_at(k, i);
  uint32_t first = UINT32_MAX;
  for (uint32_t j = 0; j < u->uses.n; j++) {
    const uint32_t x = u->uses.v[j].memory;
    if (k->u.bytes[x] || k->wrote[x] >= first || k->u.s->buffers.v[x].kind == BUF_OUTPUT) continue;
    if (computed_from(k, i, of, x) && !EK_PLANTED("program-recompute")) first = k->wrote[x];
  }
  return first ? first : 1;
}
/* Would a writer of the buffer that is repeated write the same? Not if that comes from a state that has its new value
 * by now. */
static bool repeats(const state *k, uint32_t root, uint32_t writer) {
  uint32_t *stale = &k->stale[root][writer];
  if (!*stale) *stale = first_stale(k, writer < k->writers[root].n ? k->writers[root].v[writer] : k->part[root], root);
  return *stale >= k->at;
}
/* Are all of a buffer's writers among the first n units that are repeated, with the same result? */
static bool complete(const state *k, uint32_t root, uint32_t n) {
  const u32vec *w = &k->writers[root];
  const uint32_t part = k->part[root];
  if (!has(&k->roots, root)) return false;
  if (part && has(&k->units, part)) return k->units.at[part] < n;
  for (uint32_t i = 0; i < w->n; i++)
    if (!has(&k->units, w->v[i]) || k->units.at[w->v[i]] >= n || !repeats(k, root, i)) return false;
  return true;
}
/* The version to look at behind v, for those of one buffer: the first is the buffer itself, then come those that are
 * computed again. */
static uint32_t next_version(const state *k, uint32_t v) { return v < k->nbuffers ? k->nbuffers : v + 1; }
/* The version of a buffer's contents to read: one that is there, or that is kept longest; NONE: none is complete. */
static int64_t version_at(const state *k, uint32_t root) {
  int64_t best = NONE;
  for (uint32_t v = root; v < k->versions.n; v = next_version(k, v)) {
    const life *x = &k->lives[v];
    if (k->versions.v[v].root != root || k->versions.v[v].partial) continue;
    if (x->first == UINT32_MAX || x->written >= k->at) continue;
    if (best == NONE || x->last > k->lives[best].last) best = v;
  }
  return best;
}
static bool repeat_writers(state *k, uint32_t root, uint32_t until, uint32_t depth, int64_t bytes);
/* Can a repeated unit read the contents of this buffer? */
static bool there(state *k, uint32_t root, uint32_t depth, int64_t bytes) {
  if (complete(k, root, k->units.v.n)) return true;
  const int64_t v = version_at(k, root);
  if (v != NONE && (k->lives[v].last >= k->at || k->u.bytes[root] <= bytes / SMALL)) return true;
  failure *f = &k->failed[root];
  if (!depth || (f->choice == k->choice && f->depth >= depth)) return v != NONE;
  const uint32_t units = k->units.v.n, roots = k->roots.v.n;
  if (repeat_writers(k, root, UINT32_MAX, depth - 1, bytes)) return true;
  k->units.v.n = units, k->roots.v.n = roots;
  *f = (failure){k->choice, depth};
  return v != NONE;
}
/* A unit is repeated, with what it needs. */
static bool repeat_unit(state *k, uint32_t i, uint32_t depth, int64_t bytes) {
  const unit *u = unit_at(k, i);
  if (has(&k->units, i)) return true;
  if (!single(u, k)) return false;
  for (uint32_t j = 0; j < u->uses.n; j++) {
    const use *x = &u->uses.v[j];
    if (k->u.bytes[x->memory] && !k->plain[x->memory]) return false;
    if (x->write && !k->u.bytes[x->memory] && k->writers[x->memory].n > 1) return false;
    if (x->write) put(k, &k->roots, x->memory);
    /* it may go on from what others wrote */
    if (x->write && i < k->nunits && k->u.bytes[x->memory] && !repeat_writers(k, x->memory, i, depth, bytes))
      return false;
    if (!x->write && k->u.bytes[x->memory] && !there(k, x->memory, depth, bytes)) return false;
  }
  put(k, &k->units, i);
  return true;
}
/* The units before `until` that write the buffer are repeated. */
static bool repeat_writers(state *k, uint32_t root, uint32_t until, uint32_t depth, int64_t bytes) {
  const u32vec *w = &k->writers[root];
  const uint32_t units = k->units.v.n, roots = k->roots.v.n;
  if (k->part[root] && until == UINT32_MAX && repeats(k, root, w->n)) {
    if (repeat_unit(k, k->part[root], depth, bytes)) return true;
    k->units.v.n = units, k->roots.v.n = roots;
  }
  put(k, &k->roots, root);
  for (uint32_t j = 0; j < w->n && w->v[j] < until; j++)
    if (!repeat_unit(k, w->v[j], depth, bytes) || !repeats(k, root, j)) return false;
  return true;
}
static bool repeat_for(state *k, const choice *x) {
  const uint32_t root = k->versions.v[x->version].root;
  k->at = x->to, k->choice++, k->units.v.n = k->roots.v.n = 0;
  return repeat_writers(k, root, UINT32_MAX, x->depth, k->u.bytes[root]);
}

/* ---- choices ----------------------------------------------------------------------------------- */
/* Bytes over the limit that go where so many are not live behind node `from` and before node `to`. */
static double relief(const state *k, int64_t bytes, uint32_t from, uint32_t to) {
  double sum = 0;
  if (from + 1 >= to || k->over[to] <= k->over[from + 1]) return 0;
  for (uint32_t i = from + 1; i < to; i++) sum += (double)max64(0, min64(bytes, k->live[i] - k->limit));
  return sum;
}
/* The last node before `at` that uses the version; UINT32_MAX: it has no gap there. */
static uint32_t used_before(const state *k, uint32_t v, uint32_t at) {
  if (k->lives[v].first >= at || k->lives[v].last < at) return UINT32_MAX;
  for (uint32_t i = at; i-- > 0;) {
    const unit *u = unit_at(k, k->list.v[i].unit);
    for (uint32_t j = 0; j < u->uses.n; j++)
      if (k->list.v[i].version[j] == v) return i;
  }
  return UINT32_MAX;
}
static double cycles_of(const state *k) {
  double sum = 0;
  for (uint32_t i = 0; i < k->units.v.n; i++) sum += k->cycles[k->units.v.v[i]];
  return sum;
}
/* What the choice may take away at most, all that is computed on the way included. */
static double most_relief(const state *k) {
  double sum = 0;
  for (uint32_t i = 0; i < k->roots.v.n; i++) {
    const uint32_t root = k->roots.v.v[i];
    if (!k->u.bytes[root] || !complete(k, root, k->units.v.n)) continue;
    for (uint32_t v = root; v < k->versions.n; v = next_version(k, v)) {
      if (k->versions.v[v].root != root || k->lives[v].first == UINT32_MAX) continue;
      const uint32_t from = used_before(k, v, k->at);
      if (from != UINT32_MAX) sum += relief(k, k->versions.v[v].bytes, from, k->at);
    }
  }
  return sum;
}
static void add_choices(state *k, uint32_t v, uint32_t from, uint32_t to, arena *t, choices *all) {
  if (from < k->lives[v].written || relief(k, k->versions.v[v].bytes, from, to) <= 0) return;
  for (uint32_t depth = 0, units = 0; depth <= k->depth; depth++) {
    choice x = {.version = v, .from = from, .to = to, .depth = depth};
    if (!repeat_for(k, &x)) continue;
    if (k->units.v.n == units) break; /* there is nothing more to be repeated */
    units = k->units.v.n;
    x.most = most_relief(k) / cycles_of(k);
    vec_push(t, *all, x);
  }
}
static choices find_choices(state *k, arena *t) {
  choices all = {0};
  uint32_t *last = NEWN(t, uint32_t, k->versions.n); /* per version: 1 + the last node that used it */
  for (uint32_t i = 0; i < k->list.n; i++) {
    const unit *u = unit_at(k, k->list.v[i].unit);
    for (uint32_t j = 0; j < u->uses.n; j++) {
      const uint32_t v = k->list.v[i].version[j];
      if (last[v] && k->plain[k->versions.v[v].root] && k->versions.v[v].bytes)
        add_choices(k, v, last[v] - 1, i, t, &all);
      last[v] = i + 1;
    }
  }
  return all;
}

/* ---- repeating --------------------------------------------------------------------------------- */
/* The list with what repeat_for found. New versions are added. */
static nodes repeated(state *k, arena *a) {
  nodes out = {0};
  map *new = map_new(a);
  for (uint32_t i = 0; i < k->roots.v.n; i++) {
    const uint32_t root = k->roots.v.v[i];
    map_putu(new, root, k->versions.n);
    vec_push(k->a, k->versions, ((version){root, usage_bytes(k->u.s, root), !complete(k, root, k->units.v.n)}));
  }
  vec_reserve(a, out, k->list.n + k->units.v.n);
  for (uint32_t i = 0; i < k->at; i++) out.v[out.n++] = k->list.v[i];
  for (uint32_t i = 0; i < k->units.v.n; i++) {
    const unit *u = unit_at(k, k->units.v.v[i]);
    uint32_t *v = NEWN(a, uint32_t, u->uses.n + 1);
    for (uint32_t j = 0; j < u->uses.n; j++) {
      const use *x = &u->uses.v[j];
      uint64_t has;
      v[j] = x->memory;
      if (map_getu(new, x->memory, &has) && (x->write || complete(k, x->memory, i)))
        v[j] = (uint32_t)has;
      else if (k->u.bytes[x->memory])
        v[j] = (uint32_t)version_at(k, x->memory);
    }
    out.v[out.n++] = (node){k->units.v.v[i], true, v};
  }
  for (uint32_t i = k->at; i < k->list.n; i++) {
    node n = k->list.v[i];
    const unit *u = unit_at(k, n.unit);
    uint32_t *v = arena_dup(a, n.version, (u->uses.n + 1) * sizeof *v);
    for (uint32_t j = 0; j < u->uses.n; j++) {
      uint64_t has;
      const uint32_t root = u->uses.v[j].memory;
      if (k->u.bytes[root] && !u->uses.v[j].write && map_getu(new, root, &has) && !k->versions.v[has].partial)
        v[j] = (uint32_t)has;
    }
    n.version = v;
    out.v[out.n++] = n;
  }
  return out;
}
/* What the choice takes away, for each cycle. */
static double try_choice(state *k, const choice *x) {
  arena *t = arena_new(k->u.s->m->c);
  const uint32_t versions = k->versions.n;
  double gain = 0;
  if (repeat_for(k, x)) {
    const nodes list = repeated(k, t);
    const double excess =
        survey(k, &list, NEWN(t, life, k->versions.n), NEWN(t, int64_t, list.n + 1), NEWN(t, double, list.n + 1));
    gain = (k->excess - excess) / cycles_of(k);
  }
  k->versions.n = versions;
  arena_free(t);
  return gain;
}
static int by_most(const void *a, const void *b) {
  const choice *x = a, *y = b;
  if (x->most != y->most) return x->most > y->most ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  if (x->version != y->version) return x->version < y->version ? -1 : 1;
  return x->depth < y->depth ? -1 : x->depth > y->depth;
}
/* One more tensor is computed again. False: there is none that helps. */
static bool improve(state *k) {
  arena *t = arena_new(k->u.s->m->c);
  const choice *best = NULL;
  double gain = 0;
  look(k, t);
  choices all = {0};
  if (k->excess > 0) all = find_choices(k, t);
  if (all.n) qsort(all.v, all.n, sizeof *all.v, by_most);
  for (uint32_t i = 0; i < all.n && !(best && (i >= TRIES || all.v[i].most <= gain)); i++) {
    const double g = try_choice(k, &all.v[i]);
    if (g > gain) gain = g, best = &all.v[i];
  }
  if (best) {
    repeat_for(k, best);
    k->list = repeated(k, k->a);
  }
  arena_free(t);
  return best != NULL;
}

/* ---- the result -------------------------------------------------------------------------------- */
/* The buffer of the new value that is in the memory of this old one. */
static uint32_t new_of(const state *k, uint32_t old) {
  uint32_t b = k->nbuffers - 1;
  while (b && (k->u.memory[b] != old || k->u.s->buffers.v[b].kind != BUF_OUTPUT)) b--;
  return b;
}
/* A state that has its new value by now is read by stages whose results nobody wants: that will do. */
static void put_launch(const state *k, uint32_t at, const launch *l, const uint32_t *buffers, arena *a, launch *to) {
  const node *n = &k->list.v[at];
  const unit *u = unit_at(k, n->unit);
  *to = *l;
  to->args.v = NEWN(a, kargs, l->args.n + 1), to->args.cap = l->args.n;
  memcpy(to->args.v, l->args.v, l->args.n * sizeof *l->args.v);
  for (uint32_t i = 0; i < l->args.n; i++) {
    kargs *x = &to->args.v[i];
    const buffer *b = x->is_buffer ? &k->u.s->buffers.v[x->buffer] : NULL;
    if (!x->is_buffer || !x->buffer || b->kind == BUF_WEIGHTS) continue;
    if (b->kind == BUF_INPUT) {
      if (n->again && k->wrote[x->buffer] < at) x->buffer = new_of(k, x->buffer);
      continue;
    }
    const uint32_t v = n->version[usage_of(&u->uses, k->u.memory[x->buffer])];
    if (v != k->u.memory[x->buffer]) x->buffer = buffers[v];
  }
  if (n->again) to->note = arena_fmt(a, "again: %s", l->note ? l->note : l->name);
}
/* The launches and buffers of the schedule are those of the list. */
static void apply(state *k) {
  splan *s = k->u.s;
  look(k, k->a);
  arena *a = s->l->a;
  uint32_t *buffers = NEWN(k->a, uint32_t, k->versions.n), *items = NEWN(k->a, uint32_t, k->list.n + 1), item = 0;
  s->buffers.n = k->nbuffers;
  for (uint32_t v = k->nbuffers; v < k->versions.n; v++) {
    buffer b = s->buffers.v[k->versions.v[v].root];
    b.kind = BUF_ARENA, b.index = 0;
    buffers[v] = s->buffers.n;
    vec_push(a, s->buffers, b);
  }
  for (uint32_t i = k->list.n; i-- > 0;) { /* what is repeated belongs to the item that follows */
    if (!k->list.v[i].again) item = k->launches[unit_at(k, k->list.v[i].unit)->first].item;
    items[i] = item;
  }
  uint32_t rest = 0;
  s->launches.n = 0;
  for (uint32_t i = 0; i < k->list.n; i++) {
    const node *n = &k->list.v[i];
    const unit *u = unit_at(k, n->unit);
    for (uint32_t j = 0; j < u->n; j++) {
      launch l;
      put_launch(k, i, &k->launches[u->first + j], buffers, a, &l);
      l.item = items[i];
      vec_push(a, s->launches, l);
    }
    rest += n->again ? 0 : u->n;
  }
  for (uint32_t i = rest; i < k->nlaunches; i++) vec_push(a, s->launches, k->launches[i]);
}
/* Bytes of the arena that are allowed; less than 0: none are. */
static int64_t allowed(const splan *s, const memplan *p) {
  const memory_bound *b = &s->bound;
  int64_t scratch = 0, all = (int64_t)b->bytes;
  if (!sym_is_int(s->m->c, p->scratch_bytes, &scratch)) return INT64_MAX;
  all -= scratch * b->threads;
  all -= schedule_state_bytes(s);
  return all - (b->whole ? (int64_t)(p->weight_bytes - p->first_bytes) : schedule_output_bytes(s));
}
static memplan plan_again(const memplan *p) {
  memplan new = {.plan = p->plan, .threads = p->threads};
  memory_plan(&new);
  return new;
}
/* Estimated cycles of all launches, and of those that run again. */
static void cycles_of_list(const state *k, double *all, double *again) {
  *all = *again = 0;
  for (uint32_t i = 0; i < k->list.n; i++) {
    const node *n = &k->list.v[i];
    const unit *u = unit_at(k, n->unit);
    *again += n->again ? k->cycles[n->unit] : 0;
    for (uint32_t j = 0; j < u->n && !n->again; j++) {
      const launch *l = &k->launches[u->first + j];
      *all += single(u, k) ? k->cycles[n->unit]
                           : launch_cost(k->u.s, l).cycles * (double)(l->step ? expr_typical(k->u.s->m, l->steps) : 1);
    }
  }
}
static void count(const state *k) {
  recomputation *r = &k->u.s->again;
  double all, again;
  *r = (recomputation){0};
  for (uint32_t i = 0; i < k->list.n; i++) r->launches += k->list.v[i].again;
  cycles_of_list(k, &all, &again);
  r->cost = all > 0 ? again / all : 0;
}
/* The kernels that run again, for who wants to know. */
static void tell(const state *k, int64_t before, int64_t now) {
  enum { NAMED = 40 };
  const recomputation *r = &k->u.s->again;
  ctx *c = k->u.s->m->c;
  sbuf b = sbuf_new(ctx_arena(c));
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->list.n && n < NAMED; i++)
    if (k->list.v[i].again) sb_fmt(&b, "%s%s", n++ ? ", " : "", k->launches[unit_at(k, k->list.v[i].unit)->first].name);
  diag_add(c, D_INFO, E_OK, (srcpos){0}, NULL,
           "memory: %lld bytes in the arena instead of %lld: %u kernels run again, %.1f %% of the estimated time: %s%s",
           (long long)now, (long long)before, r->launches, 100 * r->cost, b.s, r->launches > n ? ", .." : "");
}

/* ---- parts of kernels -------------------------------------------------------------------------- */
/* Is a tensor not used for a while? units: those that use it */
static bool waits(const u32vec *units) {
  bool long_gap = false;
  for (uint32_t i = 1; i < units->n; i++) long_gap |= units->v[i] - units->v[i - 1] >= PART_GAP;
  return long_gap;
}
/* Launches that compute a part of a kernel, behind the others, of tensors that only one launch writes and that wait. */
static void make_parts(state *k) {
  splan *s = k->u.s;
  int64_t all = 0;
  u32vec *units = NEWN(k->a, u32vec, s->buffers.n), *writers = NEWN(k->a, u32vec, s->buffers.n);
  const uint32_t buffers = s->buffers.n;
  for (uint32_t i = 0; i < k->u.units.n; i++)
    for (uint32_t j = 0; j < unit_at(k, i)->uses.n; j++) {
      const use *x = &unit_at(k, i)->uses.v[j];
      vec_push(k->a, units[x->memory], i);
      if (x->write) vec_push(k->a, writers[x->memory], i);
    }
  for (uint32_t b = 1; b < buffers; b++) all += k->u.bytes[b];
  for (uint32_t b = 1; b < buffers; b++)
    if (k->u.bytes[b] && !k->u.pinned[b] && k->u.bytes[b] >= all / PART_SHARE && writers[b].n == 1 && waits(&units[b]))
      k->nparts += schedule_part(s, s->buffers.v[b].tensor);
}
/* Functions of parts that are not launched leave the module. */
static void drop_functions(const splan *s, uint32_t n) {
  lmodule *l = s->l;
  map *used = map_new(l->a);
  uint64_t any;
  for (uint32_t i = 0; i < s->launches.n; i++) map_putu(used, (uint64_t)(uintptr_t)s->launches.v[i].code, 1);
  uint32_t end = n;
  for (uint32_t i = n; i < l->funcs.n; i++)
    if (map_getu(used, (uint64_t)(uintptr_t)l->funcs.v[i], &any)) l->funcs.v[end++] = l->funcs.v[i];
  l->funcs.n = end;
}

/* ---- how far ----------------------------------------------------------------------------------- */
static int64_t highest(state *k) {
  arena *t = arena_new(k->u.s->m->c);
  int64_t most = 0;
  look(k, t);
  for (uint32_t i = 0; i < k->list.n; i++) most = max64(most, k->live[i]);
  arena_free(t);
  return most;
}
/* Does what is repeated cost no more than this part of the time? */
static bool costs_at_most(const state *k, double part) {
  double all, again;
  cycles_of_list(k, &all, &again);
  return again <= part * all;
}
/* What is repeated. */
typedef struct outcome {
  nodes list;              /* what runs, in order */
  const version *versions; /* the versions that it uses */
  uint32_t nversions;      /* how many */
} outcome;
static outcome outcome_of(state *k) {
  return (outcome){k->list, arena_dup(k->a, k->versions.v, k->versions.n * sizeof *k->versions.v), k->versions.n};
}
static void restore(state *k, const outcome *x) {
  k->list = x->list, k->versions.n = 0;
  for (uint32_t i = 0; i < x->nversions; i++) vec_push(k->a, k->versions, x->versions[i]);
}
/* Can no more than `limit` be live, for that part of the time? Then that is what runs. */
static bool reaches(state *k, const outcome *from, int64_t limit, double part) {
  restore(k, from);
  k->limit = limit;
  while (costs_at_most(k, part) && improve(k)) {}
  return costs_at_most(k, part) && !k->excess;
}
/* As little memory as can be had for almost no time, by bisection. */
static int64_t lower(state *k, memplan *p) {
  const outcome before = outcome_of(k);
  outcome best = before;
  const int64_t all = highest(k);
  int64_t was, now, low = 0, most = all;
  sym_is_int(k->u.s->m->c, p->arena_bytes, &was);
  k->depth = NEAR_DEPTH;
  for (int i = 0; i < BISECTIONS; i++) {
    const int64_t limit = low + (most - low) / 2;
    if (reaches(k, &before, limit, PRICE * (double)(all - limit) / (double)all))
      best = outcome_of(k), most = highest(k);
    else
      low = limit;
  }
  restore(k, &best);
  k->depth = DEPTH;
  if (k->list.n == before.list.n) return was;
  apply(k);
  *p = plan_again(p);
  if (sym_is_int(k->u.s->m->c, p->arena_bytes, &now) && now < was) return now;
  restore(k, &before);
  apply(k);
  *p = plan_again(p);
  return was;
}
static int64_t keep_within(state *k, memplan *p, int64_t arena_bytes) {
  splan *s = p->plan;
  k->limit = allowed(s, p);
  for (int round = 0; round < ROUNDS && k->limit > 0; round++) {
    while (improve(k)) {}
    if (k->list.n == k->nunits) break; /* nothing helps */
    apply(k);
    *p = plan_again(p);
    if (!sym_is_int(s->m->c, p->arena_bytes, &arena_bytes)) break;
    const int64_t over = arena_bytes - allowed(s, p);
    if (over <= 0 || k->excess > 0) break;
    k->limit -= over;
  }
  return arena_bytes;
}
void program_recompute(memplan *p) {
  splan *s = p->plan;
  int64_t before;
  if (!sym_is_int(s->m->c, p->arena_bytes, &before)) return;
  const bool lowers = !s->bound.bytes && before > (int64_t)s->t->l2 && !EK_PLANTED("program-lower"),
             bound = s->bound.bytes && before > allowed(s, p);
  if (!lowers && !bound) return;
  state k = {.a = arena_new(s->m->c), .depth = DEPTH, .nlaunches = s->launches.n};
  const uint32_t functions = s->l->funcs.n;
  usage_find(s, k.a, &k.u);
  make_parts(&k);
  k.launches = arena_dup(k.a, s->launches.v, s->launches.n * sizeof *k.launches);
  s->launches.n = k.nlaunches, k.nbuffers = s->buffers.n;
  usage_find(s, k.a, &k.u);
  begin(&k);
  find_plain(&k);
  const int64_t now = bound ? keep_within(&k, p, before) : lower(&k, p);
  count(&k);
  if (s->again.launches) tell(&k, before, now);
  drop_functions(s, functions);
  arena_free(k.a);
}
