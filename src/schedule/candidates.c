/* Which schedules lie around the one that is recorded? One function for each primitive proposes changes that make sense
 * for what is stated so far; what a change leaves without meaning is dropped, and decided by the compiler. */
#include "schedule/candidates.h"
#include <string.h>

enum { KERNEL = UINT32_MAX, MOST_PERMUTED = 3 /* words of which all orders are tried */ };
/* What changes are proposed for. */
typedef struct proposer {
  arena *a;               /* memory of the changes */
  const kernel_record *k; /* the schedule so far */
  const kernel_facts *f;  /* facts about the kernel */
  const target *t;        /* the machine */
  bool few;               /* one or two values of each primitive are enough */
  uint32_t nest;          /* number of the nest at work */
  const nest_record *n;   /* its schedule so far; NULL: the kernel is at work */
  const nest_facts *nf;   /* facts about it */
  changes *out;           /* gets the changes */
} proposer;

/* ---- what is stated so far --------------------------------------------------------------------- */
static const directive *has(const proposer *p, primitive is) {
  return record_find(p->k, primitive_forms[is].of == OF_NEST ? p->n : NULL, is);
}
static const char *word_of(const directive *d, uint32_t i) { return d && i < d->words.n ? d->words.v[i] : ""; }
static bool is_word(const directive *d, uint32_t i, const char *text) { return !strcmp(word_of(d, i), text); }
static int64_t number_of(const directive *d, uint32_t i) { return int_parse(word_of(d, i), NULL); }
static bool any(const directive *d) { return d && !is_word(d, 0, "none"); }
static const loop_facts *loop_named(const proposer *p, const char *name, uint32_t *at) {
  for (uint32_t i = 0; i < p->nf->loops.n; i++)
    if (!strcmp(p->nf->loops.v[i].name, name)) {
      if (at) *at = i;
      return &p->nf->loops.v[i];
    }
  return NULL;
}
static int64_t extent_of(const proposer *p, const char *name) {
  const loop_facts *l = loop_named(p, name, NULL);
  return l ? l->extent : -1;
}
/* Do the lanes count results, and not terms of a sum? */
static const loop_facts *lane_of_results(const proposer *p) {
  const loop_facts *l = loop_named(p, word_of(has(p, P_LANES), 0), NULL);
  return l && !l->reduced ? l : NULL;
}
static bool panels_are(const proposer *p, const char *where) { return is_word(has(p, P_PANELS), 0, where); }
static bool alone(const proposer *p) { return p->k->nests.n == 1 && record_find(p->k, NULL, P_CHUNKS); }
static int64_t tile_rows(const proposer *p) { return max64(1, number_of(has(p, P_TILE), 0)); }
static int64_t tile_width(const proposer *p) {
  return max64(1, number_of(has(p, P_TILE), 1) * number_of(has(p, P_LANES), 1));
}
/* Number of values of the rows, -1: open, 0: there are no rows. */
static int64_t rows_extent(const proposer *p) {
  const directive *rows = has(p, P_ROWS);
  if (!any(rows)) return 0;
  if (rows->words.n > 1 || *word_of(rows, 0) == '(') {
    const int64_t whole = extent_of(p, word_of(rows, 0));
    return whole > 0 && rows->words.n == 1 ? whole : -1;
  }
  return extent_of(p, word_of(rows, 0));
}
/* 1, 2, 3, 4, 6, 8, 12, 16, .. */
static int64_t next_size(int64_t n) { return n == 1 ? 2 : (n & (n - 1)) ? n / 3 * 4 : n / 2 * 3; }
static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

/* ---- making changes ---------------------------------------------------------------------------- */
static schedule_change begin(const proposer *p, primitive is) {
  return (schedule_change){.is = is, .nest = p->n ? p->nest : KERNEL};
}
static directive *state(const proposer *p, schedule_change *c, primitive is) {
  vec_push(p->a, c->to, ((directive){.is = is}));
  return &c->to.v[c->to.n - 1];
}
static bool same_words(const directive *x, const directive *y) {
  bool same = x->is == y->is && x->words.n == y->words.n;
  for (uint32_t i = 0; same && i < x->words.n; i++) same = is_word(x, i, y->words.v[i]);
  return same;
}
static bool same_directives(const directives *x, const directives *y) {
  bool same = x->n == y->n;
  for (uint32_t i = 0; same && i < x->n; i++) same = same_words(&x->v[i], &y->v[i]);
  return same;
}
/* Do the directives state that already? */
static bool is_stated(const directives *from, const directives *to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < from->n; i++) {
    bool of = false;
    for (uint32_t k = 0; k < to->n; k++) of |= to->v[k].is == from->v[i].is;
    if (of && (n == to->n || !same_words(&from->v[i], &to->v[n++]))) return false;
  }
  return n == to->n;
}
bool change_is_new(const changes *all, const directives *stated, const schedule_change *c) {
  bool had = is_stated(stated, &c->to);
  for (uint32_t i = all->n; i-- > 0 && !had && all->v[i].nest == c->nest;) had = same_directives(&all->v[i].to, &c->to);
  return !had;
}
/* The change is made: one that changes something, and was not proposed before. */
static void end(const proposer *p, const schedule_change *c) {
  if (change_is_new(p->out, p->n ? &p->n->directives : &p->k->directives, c)) vec_push(p->a, *p->out, *c);
}
static void one_word(const proposer *p, primitive is, const char *word) {
  schedule_change c = begin(p, is);
  record_word(p->a, state(p, &c, is), word);
  end(p, &c);
}
static void copy_words(const proposer *p, directive *to, const directive *from) {
  for (uint32_t i = 0; i < from->words.n; i++) record_word(p->a, to, from->words.v[i]);
}
/* The words of a directive in every other order, or where there are many each two neighbours exchanged. which: it is
 * that one, from 0, of its primitive's directives, and the others stay. */
static void permutation(const proposer *p, const directive *d, const uint32_t *order, uint32_t which) {
  schedule_change c = begin(p, d->is);
  uint32_t nth = 0;
  const uint32_t n = p->n->directives.n;
  for (uint32_t i = 0; i < n; i++) {
    const directive *x = &p->n->directives.v[i];
    if (x->is != d->is) continue;
    directive *to = state(p, &c, x->is);
    if (nth++ != which)
      copy_words(p, to, x);
    else
      for (uint32_t w = 0; w < x->words.n; w++) record_word(p->a, to, x->words.v[order[w]]);
  }
  end(p, &c);
}
static void permutations(const proposer *p, const directive *d, uint32_t which) {
  const uint32_t n = d->words.n;
  uint32_t *order = NEWN(p->a, uint32_t, n + 1);
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  if (n == MOST_PERMUTED && !p->few) {
    static const uint32_t all[][MOST_PERMUTED] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) permutation(p, d, all[i], which);
    return;
  }
  for (uint32_t i = 0; i + 1 < n; i++) {
    order[i] = i + 1, order[i + 1] = i;
    permutation(p, d, order, which);
    order[i] = i, order[i + 1] = i + 1;
  }
}

/* ---- changes of the kernel --------------------------------------------------------------------- */
static void thread_changes(const proposer *p) {
  const directive *d = has(p, P_THREADS);
  if (!d) return;
  one_word(p, P_THREADS, "always");
  one_word(p, P_THREADS, "never");
  if (p->f->open_work) one_word(p, P_THREADS, "enough");
}
/* Blocks of rows or lanes: several times the tile's, for some numbers of chunks. */
static void chunks_of(const proposer *p, const char *points, const char *what, int64_t each, int64_t extent) {
  const int64_t most = p->t->chunks;
  for (int64_t parts = 2; parts <= most; parts *= 2) {
    const int64_t size = extent > 0 ? round_up((extent + parts - 1) / parts, each) : each * most / parts;
    schedule_change c = begin(p, P_CHUNKS);
    directive *d = state(p, &c, P_CHUNKS);
    if (points) record_word(p->a, d, "points"), record_word(p->a, d, points);
    record_word(p->a, d, what), record_number(p->a, d, size);
    end(p, &c);
    if (p->few || points) return;
  }
}
/* The first points of loops outside of the tile, as a word: what the schedule has, or its first loop where that is the
 * first one whatever the operands are. NULL: none is known. */
static const char *points_of(proposer *p, const nest_record *n) {
  p->n = n;
  const directive *order = has(p, P_ORDER), *was = record_find(p->k, NULL, P_CHUNKS);
  const char *first = NULL;
  if (is_word(was, 0, "points")) return word_of(was, 1);
  uint32_t loops = 0;
  for (uint32_t i = 0; order && i < order->words.n; i++) {
    const char *v = order->words.v[i];
    if (is_word(has(p, P_LANES), 0, v) || is_word(has(p, P_ROWS), 0, v) || is_word(has(p, P_ROWS), 1, v)) continue;
    if (!first) first = v;
    loops++;
  }
  if (is_word(has(p, P_ROWS), 0, first ? first : "") || (any(has(p, P_ROWS)) && has(p, P_ROWS)->words.n > 1))
    return NULL;
  return loops == 1 || (loops && !panels_are(p, "outside")) ? first : NULL;
}
static void chunk_changes(proposer *p) {
  if (!alone(p)) return;
  const nest_record *n = &p->k->nests.v[0];
  p->n = n, p->nf = facts_of_nest(p->f, n->name);
  const directive *block = has(p, P_BLOCK), *rows = has(p, P_ROWS), *tile = has(p, P_TILE);
  const bool blocked = any(block), streamed = block && is_word(block, block->words.n - 1, "streamed");
  const loop_facts *lane = p->nf && tile ? lane_of_results(p) : NULL;
  const int64_t each = tile_rows(p), width = tile_width(p), of_rows = p->nf ? rows_extent(p) : 0;
  const char *points = points_of(p, n);
  p->n = NULL;
  if (!tile || (blocked && !streamed)) return;
  one_word(p, P_CHUNKS, "whole");
  if (points) {
    schedule_change c = begin(p, P_CHUNKS);
    directive *d = state(p, &c, P_CHUNKS);
    record_word(p->a, d, "points"), record_word(p->a, d, points);
    end(p, &c);
  }
  const bool divided = any(rows) && rows->words.n == 1 && !streamed;
  if (divided) chunks_of(p, NULL, "rows", each, of_rows);
  if (lane) chunks_of(p, NULL, "lanes", width, lane->extent);
  if (divided && points && !p->few) chunks_of(p, points, "rows", each, of_rows);
  if (lane && points && !p->few) chunks_of(p, points, "lanes", width, lane->extent);
}
/* Values of a split variable that the lanes of some nest run along must be whole tiles. */
static int64_t split_unit(const proposer *p, const char *name) {
  int64_t unit = 1;
  for (uint32_t i = 0; i < p->k->nests.n; i++) {
    const nest_record *n = &p->k->nests.v[i];
    const directive *lanes = record_find(p->k, n, P_LANES), *tile = record_find(p->k, n, P_TILE);
    if (is_word(lanes, 0, name)) unit = max64(unit, number_of(lanes, 1) * max64(1, number_of(tile, 1)));
  }
  return unit;
}
static void split_changes(const proposer *p) {
  const directive *was = has(p, P_SPLIT), *roll = has(p, P_ROLL);
  if (!was && !roll) return;
  if (was || roll) {
    schedule_change c = begin(p, roll ? P_ROLL : P_SPLIT);
    record_word(p->a, state(p, &c, P_SPLIT), "none");
    end(p, &c);
  }
  for (uint32_t v = 0; v < p->f->shared.n; v++) {
    const loop_facts *l = &p->f->shared.v[v];
    const int64_t unit = split_unit(p, l->name), most = l->extent > 0 ? l->extent : unit * p->t->chunks;
    if (roll && !is_word(roll, 0, l->name)) continue;
    for (int64_t parts = 1; parts <= p->t->chunks && most > 1; parts *= 2) {
      const int64_t size = round_up((most + parts - 1) / parts, unit);
      if (size > most) continue;
      schedule_change c = begin(p, roll ? P_ROLL : P_SPLIT);
      directive *d = state(p, &c, P_SPLIT);
      record_word(p->a, d, l->name), record_number(p->a, d, size);
      end(p, &c);
    }
  }
}

/* ---- changes of a nest ------------------------------------------------------------------------- */
/* The variables of a word that are collapsed in it, each a loop of its own. */
static void expand_word(const proposer *p, directive *d, const char *word) {
  const char *s = word + 1, *from = s, *end_of = word + strlen(word) - 1;
  for (int depth = 0; s <= end_of; s++) {
    if (s == end_of || (*s == ' ' && !depth)) {
      if (s > from) record_word(p->a, d, arena_strndup(p->a, from, (size_t)(s - from)));
      from = s + 1;
    } else
      depth += (*s == '(') - (*s == ')');
  }
}
static bool is_collapsed(const char *word) { return *word == '(' && word[strlen(word) - 1] == ')'; }
static bool is_part(const char *word) { return strpbrk(word, "/%") != NULL; }
static void order_changes(const proposer *p) {
  const directive *d = has(p, P_ORDER);
  bool split = false;
  for (uint32_t i = 0; d && i < d->words.n; i++) split |= is_part(d->words.v[i]);
  if (!d || split) return;
  permutations(p, d, 0);
  for (uint32_t w = 0; w < d->words.n && !p->few; w++) {
    if (!is_collapsed(d->words.v[w])) continue;
    schedule_change c = begin(p, P_ORDER);
    directive *to = state(p, &c, P_ORDER);
    for (uint32_t i = 0; i < d->words.n; i++)
      if (i == w)
        expand_word(p, to, d->words.v[i]);
      else
        record_word(p->a, to, d->words.v[i]);
    end(p, &c);
  }
}
static void lane_changes(const proposer *p) {
  const directive *d = has(p, P_LANES);
  if (!d) return;
  const uint32_t L = p->nf->lanes;
  for (uint32_t i = 0; i < p->nf->loops.n; i++) {
    const loop_facts *l = &p->nf->loops.v[i];
    for (uint32_t lanes = L; lanes && lanes * 2 >= L; lanes /= 2) {
      if (!l->lanes || l->extent == 1 || (lanes < L && (!p->nf->half_lanes || l->reduced))) continue;
      schedule_change c = begin(p, P_LANES);
      directive *to = state(p, &c, P_LANES);
      record_word(p->a, to, l->name), record_number(p->a, to, lanes);
      end(p, &c);
    }
  }
  one_word(p, P_LANES, "none");
}
static void row_changes(const proposer *p) {
  const directive *d = has(p, P_ROWS);
  uint32_t lane;
  if (!d || !loop_named(p, word_of(has(p, P_LANES), 0), &lane)) return;
  for (uint32_t i = 0; i < p->nf->loops.n; i++) {
    const loop_facts *l = &p->nf->loops.v[i];
    if ((l->rows >> lane & 1) && l->extent != 1) one_word(p, P_ROWS, l->name);
  }
  one_word(p, P_ROWS, "none");
}
static void tile_change(const proposer *p, int64_t rows, int64_t vectors) {
  schedule_change c = begin(p, P_TILE);
  directive *d = state(p, &c, P_TILE);
  record_number(p->a, d, rows), record_number(p->a, d, vectors);
  end(p, &c);
}
/* A split variable along the lanes has whole tiles in each block. */
static bool fits_split(const proposer *p, int64_t vectors) {
  const directive *split = record_find(p->k, NULL, P_SPLIT), *lanes = has(p, P_LANES);
  return !any(split) || !is_word(split, 0, word_of(lanes, 0)) ||
         number_of(split, 1) % (vectors * number_of(lanes, 1)) == 0;
}
/* Are so many rows of the tile's a change that makes sense: the sizes, and the neighbours of what is stated? */
static bool is_size(int64_t n, int64_t stated) {
  int64_t size = 1;
  while (size < n) size = next_size(size);
  return size == n || n == stated + 1 || n == stated - 1;
}
static void tile_changes(const proposer *p) {
  const directive *was = has(p, P_TILE), *rows = has(p, P_ROWS), *lanes = has(p, P_LANES);
  if (!was || !rows || !any(lanes)) return;
  const loop_facts *lane = lane_of_results(p);
  const int64_t of_rows = rows_extent(p), lane_extent = extent_of(p, word_of(lanes, 0)), L = number_of(lanes, 1),
                R = p->t->vector_registers, had = number_of(was, 0);
  const int64_t fold = rows->words.n > 1 ? max64(1, extent_of(p, word_of(rows, 0))) : 1,
                collapsed = *word_of(rows, 0) == '(';
  const int64_t most_rows = !any(rows)    ? 1
                            : of_rows > 0 ? of_rows
                                          : R,
                most_vectors = any(rows) && !lane ? 1
                               : lane_extent < 0  ? R
                                                  : (lane_extent + L - 1) / max64(1, L);
  for (int64_t mr = fold; mr <= min64(most_rows * fold, collapsed ? 8 : R); mr += fold)
    for (int64_t nv = 1; nv <= most_vectors && mr * nv + nv < R; nv = next_size(nv))
      if (is_size(mr / fold, had / fold) && fits_split(p, nv)) tile_change(p, mr, nv);
}
static void panel_changes(const proposer *p) {
  if (has(p, P_PANELS)) one_word(p, P_PANELS, panels_are(p, "outside") ? "inside" : "outside");
}
static void strip_changes(const proposer *p) {
  const int64_t rows = rows_extent(p), each = tile_rows(p);
  if (!has(p, P_PANELS) || !has(p, P_TILE) || !alone(p) || !p->nf->sum || !rows) return;
  for (int64_t times = 1; times <= 8 && (rows < 0 || times * each < rows); times *= 2) {
    schedule_change c = begin(p, P_STRIP);
    if (!panels_are(p, "inside")) record_word(p->a, state(p, &c, P_PANELS), "inside");
    record_number(p->a, state(p, &c, P_STRIP), times * each);
    end(p, &c);
    if (p->few) return;
  }
}
static void reduce_changes(const proposer *p) {
  if (p->nf->in_order) return;
  for (uint32_t i = 0, which = 0; i < p->n->directives.n; i++)
    if (p->n->directives.v[i].is == P_REDUCE) permutations(p, &p->n->directives.v[i], which++);
}
static void unroll_changes(const proposer *p) {
  const directive *d = has(p, P_UNROLL), *reduce = has(p, P_REDUCE);
  if (!d || !reduce || !reduce->words.n) return;
  const char *last = reduce->words.v[reduce->words.n - 1];
  const loop_facts *steps = loop_named(p, last, NULL);
  if (!any(d) && (!any(has(p, P_ROWS)) || !lane_of_results(p) || !steps || !steps->unrolls)) return;
  schedule_change c = begin(p, P_UNROLL);
  record_word(p->a, state(p, &c, P_UNROLL), any(d) ? "none" : last);
  for (uint32_t i = 0, nth = 0; i < p->n->directives.n; i++) /* of further sums: as they are */
    if (p->n->directives.v[i].is == P_UNROLL && nth++) copy_words(p, state(p, &c, P_UNROLL), &p->n->directives.v[i]);
  end(p, &c);
}
/* Without instructions of the target. */
static void instruction_changes(const proposer *p) {
  schedule_change c = begin(p, P_INSTRUCTION);
  for (uint32_t i = 0; i < p->n->directives.n; i++)
    if (p->n->directives.v[i].is == P_INSTRUCTION) record_word(p->a, state(p, &c, P_INSTRUCTION), "none");
  if (c.to.n) end(p, &c);
}
/* Each operand unpacked, and all. */
static void pack_changes(const proposer *p) {
  uint32_t packs = 0;
  if (!any(has(p, P_PACK))) return;
  for (uint32_t i = 0; i < p->n->directives.n; i++) packs += p->n->directives.v[i].is == P_PACK;
  one_word(p, P_PACK, "none");
  for (uint32_t but = 0; packs > 1 && but < packs; but++) {
    schedule_change c = begin(p, P_PACK);
    for (uint32_t i = 0, nth = 0; i < p->n->directives.n; i++)
      if (p->n->directives.v[i].is == P_PACK && nth++ != but)
        copy_words(p, state(p, &c, P_PACK), &p->n->directives.v[i]);
    end(p, &c);
  }
}
static void buffer_changes(const proposer *p) {
  const directive *d = has(p, P_BUFFER);
  if (any(d)) one_word(p, P_BUFFER, "none");
  if (d && p->nf->panel_values && !is_word(d, 0, "panel")) one_word(p, P_BUFFER, "panel");
}
static void block_change(const proposer *p, const char *var, int64_t steps, int64_t panels, int64_t rows) {
  schedule_change c = begin(p, P_BLOCK);
  directive *d = state(p, &c, P_BLOCK);
  record_word(p->a, d, var), record_number(p->a, d, steps);
  record_word(p->a, d, "panels"), record_number(p->a, d, panels);
  if (rows)
    record_word(p->a, d, "rows"), record_number(p->a, d, rows);
  else
    record_word(p->a, d, "streamed");
  end(p, &c);
}
static void block_changes(const proposer *p) {
  const directive *d = has(p, P_BLOCK), *reduce = has(p, P_REDUCE);
  const loop_facts *lane = lane_of_results(p);
  if (d) one_word(p, P_BLOCK, "none");
  if (!alone(p) || !reduce || !reduce->words.n || !has(p, P_TILE) || !lane || lane->extent < 0) return;
  const char *var = reduce->words.v[0];
  const int64_t panels = lane->extent / tile_width(p), rows = rows_extent(p), steps = extent_of(p, var),
                each = tile_rows(p), L = p->nf->packs_blocks ? number_of(has(p, P_LANES), 1) : 1;
  if (p->nf->streams && panels > 1)
    for (int64_t n = 4; n <= 8; n *= 2) block_change(p, var, n, panels, 0);
  if (!p->nf->block_steps || panels < 2 || rows < 1 || steps < 2 || !panels_are(p, "outside")) return;
  for (int64_t parts = 1; parts <= 8; parts *= p->few ? 4 : 2) {
    const int64_t step = min64(steps, round_up((steps + parts - 1) / parts, L));
    if (step * parts >= steps + step) continue;
    for (int64_t n = p->few ? 2 : 1; n <= min64(panels, 4); n *= 2) {
      block_change(p, var, step, n, round_up(min64(rows, each * 8), each));
      if (p->few) break;
      if (rows > each * 8) block_change(p, var, step, n, round_up(rows, each));
    }
  }
}
/* One for each sum, or two where the tile is as it is stated, and in tiles of less. */
static void accumulator_changes(const proposer *p) {
  const int64_t sums = tile_rows(p) * max64(1, number_of(has(p, P_TILE), 1));
  if (!has(p, P_ACCUMULATORS)) return;
  one_word(p, P_ACCUMULATORS, "1");
  for (int64_t n = sums; n; n /= p->few ? sums + 1 : 2) {
    schedule_change c = begin(p, P_ACCUMULATORS);
    directive *d = state(p, &c, P_ACCUMULATORS);
    record_number(p->a, d, 2), record_number(p->a, d, n);
    end(p, &c);
  }
}
/* None of these words, all, and where there are several each alone: in one directive, or in one each. */
static void subset_changes(const proposer *p, primitive is, const strvec *words, bool each) {
  if (!has(p, is)) return;
  one_word(p, is, "none");
  for (uint32_t only = 0; only <= (words->n > 1 ? words->n : 0); only++) {
    schedule_change c = begin(p, is);
    directive *d = NULL;
    for (uint32_t i = 0; i < words->n; i++) {
      if (only && only - 1 != i) continue;
      if (!d || each) d = state(p, &c, is);
      record_word(p->a, d, words->v[i]);
    }
    if (d) end(p, &c);
  }
}
static void bound_changes(const proposer *p) { subset_changes(p, P_BOUND, &p->nf->bounds, false); }
static void version_changes(const proposer *p) { subset_changes(p, P_VERSION, &p->nf->versions, true); }
/* What is fetched ahead, but for one thing (`but`, NULL: all of it), and one thing more (`and`, or NULL). */
static void prefetch_change(const proposer *p, const directive *but, const directive *and) {
  schedule_change c = begin(p, P_PREFETCH);
  for (uint32_t i = 0; i < p->n->directives.n; i++) {
    const directive *d = &p->n->directives.v[i];
    if (d->is == P_PREFETCH && any(d) && d != but) copy_words(p, state(p, &c, P_PREFETCH), d);
  }
  if (and) copy_words(p, state(p, &c, P_PREFETCH), and);
  if (!c.to.n) record_word(p->a, state(p, &c, P_PREFETCH), "none");
  end(p, &c);
}
static void prefetch_changes(const proposer *p) {
  if (any(has(p, P_PREFETCH))) one_word(p, P_PREFETCH, "none");
  for (uint32_t i = 0; i < p->n->directives.n && !p->few; i++)
    if (p->n->directives.v[i].is == P_PREFETCH) prefetch_change(p, &p->n->directives.v[i], NULL);
  for (uint32_t i = 0; has(p, P_PREFETCH) && i < p->nf->prefetches.n; i++) {
    const directive *x = &p->nf->prefetches.v[i];
    bool had = false;
    for (uint32_t k = 0; k < p->n->directives.n && !had; k++) {
      const directive *d = &p->n->directives.v[k];
      had = d->is == P_PREFETCH && is_word(d, 0, word_of(x, 0)) && is_word(d, 1, word_of(x, 1));
    }
    if (!had) prefetch_change(p, NULL, x);
    if (!had && p->few) return;
  }
}
/* The other one of two words. */
static void other_word(const proposer *p, primitive is) {
  const char *words[2];
  const directive *d = has(p, is);
  if (d && record_either(p->a, is, words)) one_word(p, is, words[is_word(d, 0, words[0])]);
}
/* Proposes changes of each primitive of a nest; NULL: the other word, where it takes one of two. */
static void (*const of_nests[P_COUNT])(const proposer *) = {
    [P_ORDER] = order_changes,
    [P_LANES] = lane_changes,
    [P_ROWS] = row_changes,
    [P_TILE] = tile_changes,
    [P_PANELS] = panel_changes,
    [P_STRIP] = strip_changes,
    [P_REDUCE] = reduce_changes,
    [P_UNROLL] = unroll_changes,
    [P_INSTRUCTION] = instruction_changes,
    [P_PACK] = pack_changes,
    [P_BUFFER] = buffer_changes,
    [P_BLOCK] = block_changes,
    [P_ACCUMULATORS] = accumulator_changes,
    [P_BOUND] = bound_changes,
    [P_VERSION] = version_changes,
    [P_PREFETCH] = prefetch_changes,
};

/* ---- a changed schedule ------------------------------------------------------------------------ */
#define BIT(is) (UINT32_C(1) << (is))
static uint32_t decided_last(void) {
  uint32_t all = 0;
  for (uint32_t i = 0; i < P_COUNT; i++)
    if (primitive_forms[i].last) all |= BIT(i);
  return all;
}
/* What hangs on a primitive, and means nothing once that is changed. */
static uint32_t dropped_by(const kernel_record *k, const nest_record *n, const nest_facts *f,
                           const schedule_change *c) {
  enum {
    ON_TILE = BIT(P_STRIP) | BIT(P_BLOCK) | BIT(P_CHUNKS),
    PACKS = BIT(P_PACK) | BIT(P_INSTRUCTION),
    ON_ROWS = ON_TILE | BIT(P_TILE) | BIT(P_PANELS) | BIT(P_UNROLL) | PACKS | BIT(P_BUFFER)
  };
  const uint32_t finish = decided_last();
  switch (c->is) {
  case P_ORDER: { /* other loops, or the same ones in another order? */
    const directive *was = record_find(k, n, P_ORDER);
    const uint32_t last = record_find(k, n, P_REDUCE) ? 0 : BIT(P_UNROLL); /* the innermost loop is another one */
    return was && was->words.n == c->to.v[0].words.n ? BIT(P_CHUNKS) | BIT(P_BLOCK) | last | finish
                                                     : finish | ON_ROWS | BIT(P_LANES) | BIT(P_ROWS) | BIT(P_REDUCE);
  }
  case P_LANES:
    return EK_PLANTED("schedule-candidates") ? 0 : finish | ON_ROWS | BIT(P_ROWS) | BIT(P_REDUCE);
  case P_ROWS:
    return finish | ON_ROWS;
  case P_TILE:
    return finish | ON_TILE | PACKS;
  case P_PANELS:
  case P_STRIP: {
    bool copies = false;
    for (uint32_t i = 0; f && i < f->operands.n; i++) copies |= !f->operands.v[i].constant;
    return finish | ON_TILE | BIT(P_BUFFER) | (copies ? PACKS : 0);
  }
  case P_REDUCE:
    return finish | BIT(P_UNROLL) | BIT(P_BLOCK) | BIT(P_BUFFER) | PACKS | BIT(P_CHUNKS);
  case P_CHUNKS:
    return BIT(P_EDGE) | BIT(P_PREFETCH);
  case P_VERSION:
    return BIT(P_PREFETCH);
  case P_UNROLL:
    return PACKS | BIT(P_PREFETCH);
  case P_INSTRUCTION:
  case P_PACK:
    return finish | PACKS | BIT(P_BLOCK) | BIT(P_CHUNKS);
  case P_BLOCK:
    return finish | BIT(P_CHUNKS) | PACKS | BIT(P_STRIP);
  case P_BUFFER:
    return is_word(&c->to.v[0], 0, "panel") || is_word(record_find(k, n, P_BUFFER), 0, "panel")
               ? finish | ON_TILE | PACKS
               : 0;
  case P_SPLIT:
  case P_ROLL:
    return BIT(P_ROLL) | BIT(P_SPLIT);
  default:
    return 0;
  }
}
static uint32_t set_by(const schedule_change *c) {
  uint32_t all = 0;
  for (uint32_t i = 0; i < c->to.n; i++) all |= BIT(c->to.v[i].is);
  return all;
}
void change_keep(arena *a, const directives *from, uint32_t but, directives *out) {
  for (uint32_t i = 0; i < from->n; i++) {
    directive d = {.is = from->v[i].is};
    if (but & BIT(d.is)) continue;
    for (uint32_t w = 0; w < from->v[i].words.n; w++) record_word(a, &d, from->v[i].words.v[w]);
    vec_push(a, *out, d);
  }
}
kernel_record candidate_changed(arena *a, const kernel_record *k, const kernel_facts *f, const schedule_change *c) {
  kernel_record out = *k;
  const nest_record *n = c->nest < k->nests.n ? &k->nests.v[c->nest] : NULL;
  const uint32_t but = dropped_by(k, n, n ? facts_of_nest(f, n->name) : NULL, c) | set_by(c);
  const bool others = c->is == P_SPLIT || c->is == P_ROLL; /* the nests are others then */
  directives own = {0};
  change_keep(a, &k->directives, but, &own);
  if (!n) change_keep(a, &c->to, 0, &own);
  out.directives = own;
  memset(&out.nests, 0, sizeof out.nests);
  for (uint32_t i = 0; i < k->nests.n; i++) {
    const nest_record *was = &k->nests.v[i];
    nest_record to = {.name = was->name};
    if (!others) change_keep(a, &was->directives, was == n || !n ? but : 0, &to.directives);
    if (was == n) change_keep(a, &c->to, 0, &to.directives);
    vec_push(a, out.nests, to);
  }
  return out;
}

/* ---- all candidates ---------------------------------------------------------------------------- */
static void propose_for_kernel(proposer *p) {
  p->n = NULL, p->nf = NULL;
  thread_changes(p);
  chunk_changes(p);
  p->n = NULL, p->nf = NULL;
  split_changes(p);
}
/* but: bits of primitives that are left out */
static void propose_for_nest(proposer *p, uint32_t nest, uint32_t but) {
  p->nest = nest, p->n = &p->k->nests.v[nest], p->nf = facts_of_nest(p->f, p->n->name);
  for (uint32_t i = 0; i < P_COUNT && p->nf; i++) {
    if (but & BIT(i)) continue;
    if (of_nests[i])
      of_nests[i](p);
    else if (primitive_forms[i].of == OF_NEST)
      other_word(p, (primitive)i);
  }
}
void candidate_changes(arena *a, const kernel_record *k, const kernel_facts *f, const target *t, changes *out) {
  proposer p = {.a = a, .k = k, .f = f, .t = t, .out = out};
  propose_for_kernel(&p);
  for (uint32_t i = 0; i < k->nests.n; i++) propose_for_nest(&p, i, 0);
}
candidates candidates_of(arena *a, const kernel_record *k, const kernel_facts *f, const target *t) {
  candidates out = {.k = k, .f = f};
  changes *single = NEW(a, changes);
  candidate_changes(a, k, f, t, single);
  for (uint32_t i = 0; i < single->n; i++) vec_push(a, out.all, ((candidate){&single->v[i], NULL}));
  for (uint32_t i = 0; i < single->n; i++) { /* each other tile with what leaves it */
    const schedule_change *c = &single->v[i];
    if (c->is != P_TILE) continue;
    kernel_record *tiled = NEW(a, kernel_record);
    changes *more = NEW(a, changes);
    *tiled = candidate_changed(a, k, f, c);
    proposer p = {.a = a, .k = tiled, .f = f, .t = t, .few = true, .out = more};
    propose_for_nest(&p, c->nest, BIT(P_TILE) | BIT(P_LANES) | BIT(P_ROWS));
    for (uint32_t j = 0; j < more->n; j++) vec_push(a, out.all, ((candidate){c, &more->v[j]}));
  }
  return out;
}
kernel_record candidates_nth(arena *a, const candidates *c, uint32_t i) {
  const candidate *x = &c->all.v[i];
  const kernel_record first = candidate_changed(a, c->k, c->f, x->first);
  return x->second ? candidate_changed(a, &first, c->f, x->second) : first;
}
static void print_word(const char *word, sbuf *out) {
  const size_t n = strlen(word);
  sb_putc(out, ' ');
  if (strspn(word, RECORD_BARE " ()") == n)
    sb_put(out, word);
  else
    sb_quoted(out, word, n);
}
void change_print(const schedule_change *c, sbuf *out) {
  for (uint32_t i = 0; i < c->to.n; i++) {
    sb_fmt(out, " %s", primitive_forms[c->to.v[i].is].name);
    for (uint32_t w = 0; w < c->to.v[i].words.n; w++) print_word(c->to.v[i].words.v[w], out);
  }
}
static void print_change(const kernel_record *k, const schedule_change *c, sbuf *out) {
  if (c->nest != KERNEL && k->nests.n > 1) sb_put(out, " nest"), print_word(k->nests.v[c->nest].name, out);
  change_print(c, out);
}
void candidates_print(arena *a, const candidates *c, sbuf *out) {
  for (uint32_t i = 0; i < c->all.n; i++) {
    const kernel_record k = candidates_nth(a, c, i);
    schedules_print_head(out);
    sb_fmt(out, "# k%u, %u of %u:", k.number, i + 1, c->all.n);
    print_change(c->k, c->all.v[i].first, out);
    if (c->all.v[i].second) sb_putc(out, ';'), print_change(c->k, c->all.v[i].second, out);
    record_print(&k, out);
  }
}
