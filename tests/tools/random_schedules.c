/* random_schedules: random schedules of the kernels of models. What is legal must give the same values as the default
 * schedule and as the reference; what is refused must say why, at the line that asked for it.
 *
 *   random_schedules [-j JOBS] [-n TRIALS] [-s SEED] [-p PRIMITIVE] [-t TARGET] [-v] MODEL.onnx...
 *
 * TRIALS a model: each takes the recorded schedule of one kernel, changes one primitive at random (or only PRIMITIVE),
 * leaves out what hangs on it, compiles the model with that, and runs it with 1 and 2 threads on the inputs of NAME.npz
 * or NAME.ref.npz, beside NAME.onnx. A trial is a process of its own, so that a crash is one failure. -v: what each
 * trial is. At the end a table: trials of each primitive, how many were legal, and the reasons of refusals by how often
 * they were given; then `N passed, N failed, N skipped`, counted by trial (those of a model without inputs are
 * skipped).
 */
#include "check.h"
#include "schedule/record.h"
#include <signal.h>
#include <sys/wait.h>

enum { MAX_REASONS = 256, MAX_JOBS = 64, SECONDS = 60 };
static uint64_t state;
static int only = -1;
static const char *target;
static bool verbose;
static uint32_t draw(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(state >> 33) % n : 0;
}

/* ---- one change ------------------------------------------------------------------------------- */
typedef struct change {
  arena *a;         /* memory */
  kernel_record *k; /* the kernel */
  nest_record *n;   /* the nest that is changed; NULL: the kernel itself */
  primitive is;     /* what is changed */
} change;
static directive *find(change *c, primitive is) {
  return record_find(c->k, primitive_forms[is].of == OF_NEST ? c->n : NULL, is);
}
static void drop(change *c, primitive is) {
  nest_record *n = primitive_forms[is].of == OF_NEST ? c->n : NULL;
  directive *all = n ? n->directives.v : c->k->directives.v;
  uint32_t *count = n ? &n->directives.n : &c->k->directives.n, kept = 0;
  for (uint32_t i = 0; i < *count; i++)
    if (all[i].is != is) all[kept++] = all[i];
  *count = kept;
}
static directive *anew(change *c, primitive is) {
  drop(c, is);
  return record_add(c->a, c->k, primitive_forms[is].of == OF_NEST ? c->n : NULL, is);
}
static void word(change *c, directive *d, const char *s) { record_word(c->a, d, s); }
static void number(change *c, directive *d, int64_t n) { record_number(c->a, d, n); }
static int64_t number_at(const directive *d, uint32_t i) {
  return d && i < d->words.n ? strtoll(d->words.v[i], NULL, 10) : 0;
}
/* Some variable of the nest's loops or sums; NULL: there is none. */
static const char *some_variable(change *c, bool sums) {
  const directive *order = find(c, P_ORDER), *reduce = find(c, P_REDUCE);
  const uint32_t loops = order ? order->words.n : 0, all = loops + (sums && reduce ? reduce->words.n : 0);
  const uint32_t i = draw(all);
  return !all ? NULL : i < loops ? order->words.v[i] : reduce->words.v[i - loops];
}
static bool is_word(const directive *d, uint32_t i, const char *text) {
  return d && i < d->words.n && !strcmp(d->words.v[i], text);
}
static bool has_rows(change *c) { return find(c, P_ROWS) && !is_word(find(c, P_ROWS), 0, "none"); }
static bool has_lanes(change *c) { return find(c, P_LANES) && !is_word(find(c, P_LANES), 0, "none"); }
/* Do the lanes count results, and not terms of a sum? */
static bool lanes_of_results(change *c) {
  const directive *order = find(c, P_ORDER), *lanes = find(c, P_LANES);
  bool found = false;
  for (uint32_t i = 0; order && lanes && i < order->words.n; i++) found |= is_word(lanes, 0, order->words.v[i]);
  return found;
}
static void drop_all(change *c, const primitive *these) {
  for (; *these != P_COUNT; these++) drop(c, *these);
}
static bool change_order(change *c) {
  directive *d = find(c, P_ORDER);
  if (!d || d->words.n < 2) return false;
  const uint32_t i = draw(d->words.n - 1);
  const char *first = d->words.v[i];
  if (draw(8) == 0 && c->k->nests.n == 1 && !strpbrk(first, "(/%") && !strpbrk(d->words.v[i + 1], "(/%")) {
    d->words.v[i] = arena_fmt(c->a, "(%s %s)", first, d->words.v[i + 1]);
    memmove(d->words.v + i + 1, d->words.v + i + 2, (d->words.n - i - 2) * sizeof *d->words.v);
    d->words.n--;
  } else {
    const uint32_t j = draw(d->words.n);
    d->words.v[i] = d->words.v[j], d->words.v[j] = first;
  }
  drop_all(c, (primitive[]){P_LANES, P_ROWS, P_TILE, P_PANELS, P_STRIP, P_BLOCK, P_UNROLL, P_PACK, P_CHUNKS, P_BUFFER,
                            P_REDUCE, P_COUNT});
  return true;
}
static bool change_lanes(change *c) {
  const directive *d = find(c, P_LANES);
  const char *v = draw(6) ? some_variable(c, true) : NULL;
  const int64_t lanes = number_at(d, 1);
  drop_all(c, (primitive[]){P_ROWS, P_TILE, P_PANELS, P_STRIP, P_BLOCK, P_UNROLL, P_PACK, P_CHUNKS, P_BUFFER, P_REDUCE,
                            P_COUNT});
  directive *to = anew(c, P_LANES);
  word(c, to, v ? v : "none");
  if (v) number(c, to, lanes ? lanes : 8);
  return true;
}
static bool change_rows(change *c) {
  const char *v = draw(6) ? some_variable(c, false) : "none";
  if (!v) return false;
  drop_all(c, (primitive[]){P_TILE, P_PANELS, P_STRIP, P_BLOCK, P_UNROLL, P_PACK, P_CHUNKS, P_BUFFER, P_COUNT});
  word(c, anew(c, P_ROWS), v);
  return true;
}
static bool change_tile(change *c) {
  const bool none = !has_rows(c), vectors = has_lanes(c);
  drop_all(c, (primitive[]){P_STRIP, P_BLOCK, P_CHUNKS, P_PACK, P_COUNT});
  directive *d = anew(c, P_TILE);
  number(c, d, none && draw(8) ? 1 : 1 + draw(12)), number(c, d, vectors || !draw(8) ? 1 + draw(4) : 1);
  return true;
}
static bool change_panels(change *c) {
  const directive *d = find(c, P_PANELS);
  if (!d) return false;
  const bool outside = !strcmp(d->words.v[0], "outside");
  drop_all(c, (primitive[]){P_STRIP, P_BLOCK, P_CHUNKS, P_BUFFER, P_PACK, P_COUNT});
  word(c, anew(c, P_PANELS), outside ? "inside" : "outside");
  return true;
}
static bool change_strip(change *c) {
  const directive *panels = find(c, P_PANELS), *tile = find(c, P_TILE);
  if (!panels || c->k->nests.n > 1 || !find(c, P_REDUCE)) return false;
  if (is_word(panels, 0, "outside")) change_panels(c);
  number(c, anew(c, P_STRIP), max64(1, number_at(tile, 0)) * (1 + draw(6)));
  return true;
}
static bool change_reduce(change *c) {
  directive *d = find(c, P_REDUCE);
  if (!d || d->words.n < 2) return false;
  const uint32_t i = draw(d->words.n), j = draw(d->words.n);
  const char *w = d->words.v[i];
  d->words.v[i] = d->words.v[j], d->words.v[j] = w;
  drop_all(c, (primitive[]){P_UNROLL, P_PACK, P_BLOCK, P_CHUNKS, P_BUFFER, P_COUNT});
  return true;
}
static bool change_unroll(change *c) {
  const directive *d = find(c, P_UNROLL), *reduce = find(c, P_REDUCE);
  if (!d || !reduce || !reduce->words.n) return false;
  const bool none = !strcmp(d->words.v[0], "none");
  if (none && draw(8) && (!has_rows(c) || !lanes_of_results(c))) return false;
  drop_all(c, (primitive[]){P_PACK, P_COUNT});
  word(c, anew(c, P_UNROLL), none ? reduce->words.v[reduce->words.n - 1] : "none");
  return true;
}
static bool change_pack(change *c) {
  const directive *d = find(c, P_PACK);
  if (!d || !strcmp(d->words.v[0], "none")) return false;
  drop_all(c, (primitive[]){P_BLOCK, P_CHUNKS, P_COUNT});
  word(c, anew(c, P_PACK), "none");
  return true;
}
static bool change_buffer(change *c) {
  const directive *d = find(c, P_BUFFER);
  if (!d) return false;
  const bool none = !strcmp(d->words.v[0], "none");
  if (none && draw(4)) return false;
  word(c, anew(c, P_BUFFER), none ? "rows" : "none");
  return true;
}
static bool change_block(change *c) {
  const directive *reduce = find(c, P_REDUCE), *tile = find(c, P_TILE);
  directive *d = find(c, P_BLOCK);
  if (!d || !reduce || !reduce->words.n || c->k->nests.n > 1 || !is_word(find(c, P_PANELS), 0, "outside")) return false;
  if (draw(8) && (find(c, P_ORDER)->words.n != 2 || is_word(find(c, P_PACK), 0, "none"))) return false;
  const bool none = !strcmp(d->words.v[0], "none");
  drop_all(c, (primitive[]){P_CHUNKS, P_PACK, P_COUNT});
  d = anew(c, P_BLOCK);
  if (!none && draw(3) == 0) {
    word(c, d, "none");
    return true;
  }
  word(c, d, reduce->words.v[0]), number(c, d, 4 * (1 + draw(8)));
  word(c, d, "panels"), number(c, d, 1 + draw(3));
  if (draw(4))
    word(c, d, "rows"), number(c, d, max64(1, number_at(tile, 0)) * (1 + draw(8)));
  else
    word(c, d, "streamed");
  return true;
}
static bool change_prefetch(change *c) {
  const directive *d = find(c, P_PREFETCH);
  if (!d) return false;
  const bool on = !strcmp(d->words.v[0], "on");
  word(c, anew(c, P_PREFETCH), on ? "off" : "on");
  return true;
}
static bool change_chunks(change *c) {
  if (!find(c, P_CHUNKS)) return false;
  c->n = c->k->nests.n ? &c->k->nests.v[0] : NULL;
  if (!c->n) return false;
  const directive *order = find(c, P_ORDER), *tile = find(c, P_TILE), *lanes = find(c, P_LANES);
  const uint32_t what = draw(4);
  if (what == 1 && (!order || !order->words.n)) return false;
  if (draw(8) && ((what == 2 && !has_rows(c)) || (what == 3 && !lanes_of_results(c)))) return false;
  if (draw(8) && what == 1 && (is_word(lanes, 0, order->words.v[0]) || is_word(find(c, P_ROWS), 0, order->words.v[0])))
    return false;
  directive *d = anew(c, P_CHUNKS);
  switch (what) {
  case 0:
    word(c, d, "whole");
    break;
  case 1:
    word(c, d, "points"), word(c, d, order->words.v[0]);
    if (!has_rows(c) || draw(2)) break;
    /* fallthrough */
  case 2:
    word(c, d, "rows"), number(c, d, max64(1, number_at(tile, 0)) * (1 + draw(5)));
    break;
  default:
    word(c, d, "lanes"), number(c, d, max64(1, number_at(tile, 1) * number_at(lanes, 1)) * (1 + draw(5)));
  }
  return true;
}
static bool change_split(change *c) {
  directive *d = find(c, P_SPLIT);
  if (!d) return false;
  if (d->words.n == 2) {
    d->words.v[1] = arena_fmt(c->a, "%u", 1 + draw(40));
    if (draw(4) == 0) word(c, anew(c, P_SPLIT), "none");
  } else {
    const char *v = c->k->nests.n ? (c->n = &c->k->nests.v[0], some_variable(c, false)) : NULL;
    for (uint32_t i = 1; v && i < c->k->nests.n; i++) { /* all nests have it */
      const directive *order = record_find(c->k, &c->k->nests.v[i], P_ORDER);
      bool has = false;
      for (uint32_t w = 0; order && w < order->words.n; w++) has |= is_word(order, w, v);
      if (!has && draw(16)) v = NULL;
    }
    if (!v) return false;
    directive *to = anew(c, P_SPLIT);
    word(c, to, v), number(c, to, 1 + draw(40));
  }
  for (uint32_t i = 0; i < c->k->nests.n; i++) c->k->nests.v[i].directives.n = 0;
  return true;
}
static bool change_threads(change *c) {
  const directive *d = find(c, P_THREADS);
  if (!d) return false;
  const bool never = !strcmp(d->words.v[0], "never");
  word(c, anew(c, P_THREADS), never ? "always" : "never");
  return true;
}
static bool (*const changes[P_COUNT])(change *) = {
    [P_THREADS] = change_threads, [P_CHUNKS] = change_chunks, [P_SPLIT] = change_split,
    [P_ORDER] = change_order,     [P_LANES] = change_lanes,   [P_ROWS] = change_rows,
    [P_TILE] = change_tile,       [P_PANELS] = change_panels, [P_STRIP] = change_strip,
    [P_REDUCE] = change_reduce,   [P_UNROLL] = change_unroll, [P_PACK] = change_pack,
    [P_BUFFER] = change_buffer,   [P_BLOCK] = change_block,   [P_PREFETCH] = change_prefetch,
};
/* Draws a kernel and a primitive until a change of it makes sense; false: none was found. */
static bool draw_change(ctx *cx, schedules *all, change *c, sbuf *text) {
  arena *a = ctx_arena(cx);
  for (int tries = 0; tries < 200 && all->kernels.n; tries++) {
    *c = (change){.a = a, .k = &all->kernels.v[draw(all->kernels.n)], .is = (primitive)draw(P_COUNT)};
    if (only >= 0) c->is = (primitive)only;
    if (!changes[c->is]) continue;
    if (primitive_forms[c->is].of == OF_NEST) {
      if (!c->k->nests.n) continue;
      c->n = &c->k->nests.v[draw(c->k->nests.n)];
    }
    sbuf before = sbuf_new(a);
    record_print(c->k, &before);
    if (!changes[c->is](c)) continue;
    *text = sbuf_new(a);
    schedules_print_head(text);
    record_print(c->k, text);
    if (!strstr(text->s, before.s)) return true;
  }
  return false;
}

/* ---- one trial: what a child does -------------------------------------------------------------- */
typedef struct trial {
  const char *path; /* the model */
  uint64_t seed;    /* of the change */
} trial;
typedef struct verdict {
  int is;        /* the primitive; -1: no change was found */
  int code;      /* 0: legal and right; 1: refused; 2: wrong; 3: the model cannot be compiled at all */
  char why[400]; /* the reason of a refusal, or what is wrong */
} verdict;
static bool compile(ek_session *s, const char *path, int threads, const char *text, ek_model **m, ek_module **code) {
  ek_options o;
  ek_options_init(&o);
  o.threads = threads, o.compile_threads = 1, o.target = target, o.schedule = text;
  return (*m || !ek_load(s, path, m)) && !ek_compile(*m, &o, code);
}
typedef struct buffers {
  int32_t ni, no;
  void *in[64], *out[64];
  size_t room[64];
} buffers;
/* Runs the module on the inputs; false: why. */
static bool run_on(ek_run *r, ek_module *code, const npz *z, buffers *b, char *why, size_t room) {
  *b = (buffers){.ni = ek_module_inputs(code), .no = ek_module_outputs(code)};
  if (b->ni > 64 || b->no > 64) return snprintf(why, room, "too many inputs or outputs"), false;
  for (int32_t i = 0; i < b->ni; i++) {
    ek_tensor_info t;
    ek_module_input(code, i, &t);
    const ndarray *d = npz_find(z, "in_", t.name, i);
    if (!d || d->type == ET_STR || ek_run_shape(r, i, d->dims, (int32_t)d->rank))
      return snprintf(why, room, "input %s cannot be bound", t.name), false;
    b->in[i] = guarded(d->bytes);
    memcpy(b->in[i], d->data, d->bytes);
    ek_run_bind_input(r, i, b->in[i]);
  }
  atomic_store(&guarding, CHECK_OWN_MALLOC);
  ek_code e = ek_run_prepare(r);
  atomic_store(&guarding, false);
  for (int32_t i = 0; i < b->no && !e; i++) {
    b->room[i] = ek_run_output_bytes(r, i);
    b->out[i] = guarded(b->room[i]);
    ek_run_bind_output(r, i, b->out[i]);
  }
  for (int more = 0; !e && more < 64; more++) {
    e = ek_run_execute(r);
    if (e != EK_MEMORY) break;
    e = EK_OK;
    for (int32_t i = 0; i < b->no; i++) {
      const size_t need = ek_run_output_bytes(r, i);
      if (need > b->room[i]) b->out[i] = guarded(need), b->room[i] = need, ek_run_bind_output(r, i, b->out[i]);
    }
  }
  if (e) snprintf(why, room, "%s", ek_run_message(r));
  return !e;
}
/* The outputs against those of the default schedule: floats within what other orders of sums may give. */
static bool same_values(ek_module *code, ek_run *r, const buffers *b, ek_run *by_default, const buffers *want,
                        char *why, size_t room) {
  for (int32_t i = 0; i < b->no; i++) {
    ek_tensor_info t;
    ek_module_output(code, i, &t);
    int32_t rank[2] = {0};
    ndarray x = {.type = et_from_onnx((int)t.type), .data = b->out[i]}, y = x;
    y.data = want->out[i];
    ek_run_output_dims(r, i, x.dims, &rank[0]), ek_run_output_dims(by_default, i, y.dims, &rank[1]);
    x.rank = (uint32_t)rank[0], y.rank = (uint32_t)rank[1];
    if (differs(why, room, t.name, &x, &y, (tolerance){1e-3, 1e-4})) return false;
  }
  return true;
}
static void judge(const trial *t, verdict *v) {
  ek_session *s = ek_session_create();
  ctx *c = ctx_new();
  const char *text = NULL;
  ek_model *m = NULL;
  ek_module *plain = NULL;
  ek_options o;
  ek_show_options w;
  ek_options_init(&o);
  ek_show_options_init(&w);
  o.target = target, w.stage = "schedule";
  v->is = -1, v->code = 3;
  if (!s || !c || ek_load(s, t->path, &m) || ek_show(m, &o, &w, &text)) {
    snprintf(v->why, sizeof v->why, "%s", s ? ek_message(s) : "no memory");
    return;
  }
  CTX_TRY(c) {
    change how;
    sbuf changed;
    npz z;
    state = hash_bytes(&t->seed, sizeof t->seed, hash_bytes(t->path, strlen(t->path), 0));
    draw(2);
    schedules *all = schedules_parse(c, "recorded", (bytes){(const uint8_t *)text, strlen(text)});
    const int stem = (int)(strlen(t->path) - strlen(".onnx"));
    const char *inputs = arena_fmt(ctx_arena(c), "%.*s.npz", stem, t->path);
    if (!file_exists(inputs)) inputs = arena_fmt(ctx_arena(c), "%.*s.ref.npz", stem, t->path);
    if (!draw_change(c, all, &how, &changed)) {
      v->code = 0;
    } else if (npz_read(c, inputs, &z) && compile(s, t->path, 1, NULL, &m, &plain)) {
      v->is = how.is;
      if (verbose)
        printf("%s seed %llu: %s\n%s", t->path, (unsigned long long)t->seed, primitive_forms[how.is].name, changed.s),
            fflush(stdout);
      buffers want, got;
      ek_run *r = NULL, *q = NULL;
      if (ek_run_create(plain, 1, &r) || !run_on(r, plain, &z, &want, v->why, sizeof v->why)) {
        v->is = -1, v->code = 3;
      } else
        for (int threads = 1; threads <= 2; threads++) {
          ek_module *code = NULL;
          v->code = 2;
          if (!compile(s, t->path, threads, changed.s, &m, &code)) {
            const char *message = ek_message(s), *at = strstr(message, "error: kernel "),
                       *colon = at ? strchr(at + 7, ':') : NULL;
            snprintf(v->why, sizeof v->why, "%s", colon ? colon + 2 : message);
            if (colon && !strncmp(message, "schedule:", 9)) v->code = 1;
            break;
          }
          if (ek_run_create(code, threads, &q) || !run_on(q, code, &z, &got, v->why, sizeof v->why) ||
              !same_values(code, q, &got, r, &want, v->why, sizeof v->why))
            break;
          v->code = 0;
        }
    }
  }
  CTX_CATCH { snprintf(v->why, sizeof v->why, "%s", diag_first(c) ? diag_first(c)->text : "failed"); }
}

/* ---- all trials -------------------------------------------------------------------------------- */
static struct {
  uint32_t trials, legal;
} counts[P_COUNT];
static struct {
  char text[200];
  uint32_t n;
} reasons[MAX_REASONS];
/* A reason without what is particular in it: numbers and names. */
static void note_reason(const char *why) {
  char text[200];
  size_t n = 0;
  for (const char *s = why; *s && *s != '\n' && n + 2 < sizeof text; s++) {
    if (isdigit((unsigned char)*s)) {
      if (!n || text[n - 1] != '#') text[n++] = '#';
    } else
      text[n++] = *s;
  }
  text[n] = 0;
  for (int i = 0; i < MAX_REASONS; i++) {
    if (reasons[i].n && strcmp(reasons[i].text, text) != 0) continue;
    strcpy(reasons[i].text, text);
    reasons[i].n++;
    return;
  }
}
typedef struct running {
  trial t;
  pid_t child; /* 0: none */
  int from;    /* the child's verdict comes from here */
} running;
static bool begin(running *r, trial t) {
  int ends[2];
  if (pipe(ends)) return false;
  fflush(stdout);
  *r = (running){.t = t, .child = fork(), .from = ends[0]};
  if (!r->child) {
    verdict v = {.is = -1, .code = 2};
    alarm(SECONDS);
    judge(&t, &v);
    _exit(write(ends[1], &v, sizeof v) != (ssize_t)sizeof v);
  }
  close(ends[1]);
  return r->child > 0;
}
static verdict end(running *r) {
  verdict v;
  int status = 0;
  const ssize_t got = read(r->from, &v, sizeof v);
  close(r->from);
  waitpid(r->child, &status, 0);
  r->child = 0;
  if (got == (ssize_t)sizeof v) return v;
  v = (verdict){.is = -1, .code = 2};
  snprintf(v.why, sizeof v.why, "ended by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return v;
}
static uint32_t passed, failed, skipped;
static void note(const trial *t, const verdict *v) {
  const char *what = v->is < 0 ? "" : primitive_forms[v->is].name;
  if (v->code == 2) printf("FAIL %s -s %llu -n 1: %s: %s\n", t->path, (unsigned long long)t->seed, what, v->why);
  *(v->code == 2 ? &failed : v->code == 3 ? &skipped : &passed) += 1;
  if (v->is < 0) return;
  counts[v->is].trials++, counts[v->is].legal += v->code == 0;
  if (v->code == 1) note_reason(v->why);
}
int main(int argc, char **argv) {
  uint32_t n = 20, jobs = 1;
  uint64_t seed = 1;
  for (int o; (o = getopt(argc, argv, "j:n:s:p:t:v")) > 0;) {
    if (o == 'j') jobs = (uint32_t)min64(MAX_JOBS, max64(1, strtol(optarg, NULL, 10)));
    if (o == 'n') n = (uint32_t)strtoul(optarg, NULL, 10);
    if (o == 's') seed = strtoull(optarg, NULL, 10);
    if (o == 't') target = optarg;
    if (o == 'v') verbose = true;
    for (int i = 0; o == 'p' && i < P_COUNT; i++)
      if (!strcmp(optarg, primitive_forms[i].name)) only = i;
    if (o == '?') return 2;
  }
  running all[MAX_JOBS] = {0};
  const uint64_t trials = (uint64_t)n * (uint64_t)(argc - optind);
  for (uint64_t i = 0; i < trials + jobs; i++) { /* in turns, so that the order of what is told is the same */
    running *r = &all[i % jobs];
    if (r->child) {
      const verdict v = end(r);
      note(&r->t, &v);
    }
    if (i < trials && !begin(r, (trial){argv[optind + (int)(i / n)], seed + i % n})) return 1;
  }
  for (int i = 0; i < P_COUNT; i++)
    if (counts[i].trials)
      printf("%-9s %6u trials, %3.0f %% legal\n", primitive_forms[i].name, counts[i].trials,
             100.0 * counts[i].legal / counts[i].trials);
  for (int i = 0; i < MAX_REASONS && reasons[i].n; i++) printf("%6u  %s\n", reasons[i].n, reasons[i].text);
  printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
  return failed != 0;
}
