/* The loop of training: epochs of batches in an order that is a function of seed, epoch and position, validation after
 * each, and checkpoints. Training is stopped (Ctrl-C, SIGTERM) between two updates only, so that a checkpoint is always
 * whole. The last samples of an epoch that fill no batch are left out in that epoch; evaluation takes all. */
#include "cli/train.h"
#include <math.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t asked_to_stop;
static void on_signal(int number) {
  (void)number;
  asked_to_stop = 1;
}
static void catch_signals(void) { /* the second one ends the program */
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
}

/* ---- sums ------------------------------------------------------------------------------------ */
tally tally_new(cli *k, uint32_t nmetrics) { return (tally){.metrics = NEWN(k->a, doubles, nmetrics + 1)}; }
static void tally_clear(tally *s, uint32_t n) {
  s->loss = s->samples = 0;
  for (uint32_t i = 0; i < n; i++) s->metrics[i].n = 0;
}
ek_code tally_add(training *r, tally *s, double loss, int64_t samples) {
  s->loss += loss * (double)samples, s->samples += (double)samples;
  for (uint32_t i = 0; i < r->nmetrics; i++) {
    const double *sums;
    size_t n;
    const ek_code e = ek_trainer_metric(r->t, i, &sums, &n);
    if (e) return e;
    while (s->metrics[i].n < n) vec_push(r->k->a, s->metrics[i], 0);
    for (size_t j = 0; j < n; j++) s->metrics[i].v[j] += sums[j];
  }
  return EK_OK;
}
double tally_loss(const tally *s) { return s->loss / s->samples; }
double tally_metric(const training *r, const tally *s, uint32_t i) {
  double x = NAN;
  const ek_code e = ek_trainer_metric_value(r->t, i, s->metrics[i].v, s->metrics[i].n, &x);
  if (e) ctx_fail(r->k->c, (ecode)e, "%s", session_text(r->k));
  return x;
}
ek_code evaluate_all(training *r, feed *f, tally *out) {
  *out = tally_new(r->k, r->nmetrics);
  const int64_t n = dataset_batch_count(&f->source);
  for (int64_t i = 0; i < n; i++) {
    double loss;
    const int64_t rows = feed_read(r->k, f, i);
    ek_code e = ek_trainer_evaluate(r->t, f->batch, f->n, &loss);
    if (!e) e = tally_add(r, out, loss, rows);
    if (e) return e;
  }
  return EK_OK;
}

/* ---- telling --------------------------------------------------------------------------------- */
static const char *metric_name(const training *r, uint32_t i) {
  const char *text = r->k->train.metrics.v[i];
  return arena_strndup(r->k->a, text, strcspn(text, ":"));
}
static const char *tally_text(const training *r, const tally *s) {
  sbuf b = sbuf_new(r->k->a);
  sb_fmt(&b, "loss %.5g", tally_loss(s));
  for (uint32_t i = 0; i < r->nmetrics; i++) sb_fmt(&b, ", %s %.5g", metric_name(r, i), tally_metric(r, s, i));
  return b.s;
}
static void tell_epoch(training *r, const tally *check, double ms) {
  cli *k = r->k;
  say(k, "epoch %lld/%d: %s%s%s (%.0f samples/s)\n", (long long)r->epoch + 1, k->train.epochs, tally_text(r, &r->sum),
      check ? "; validation: " : "", check ? tally_text(r, check) : "", ms > 0 ? 1000 * r->sum.samples / ms : 0);
}
static void log_tally(training *r, const tally *s) {
  sb_putc(&r->log, ',');
  if (s) sb_double(&r->log, tally_loss(s));
  for (uint32_t i = 0; i < r->nmetrics; i++) {
    sb_putc(&r->log, ',');
    if (s) sb_double(&r->log, tally_metric(r, s, i));
  }
}
static void log_header(training *r) {
  static const char *const sets[] = {"", "validation_"};
  sb_put(&r->log, "epoch,step,lr");
  for (int v = 0; v < 2; v++) {
    sb_fmt(&r->log, ",%sloss", sets[v]);
    for (uint32_t i = 0; i < r->nmetrics; i++) sb_fmt(&r->log, ",%s%s", sets[v], metric_name(r, i));
  }
  sb_putc(&r->log, '\n');
}
/* The lines of the epochs that are done stay. */
static void log_open(training *r) {
  const cli *k = r->k;
  bytes old;
  r->log = sbuf_new(k->a);
  log_header(r);
  if (!k->train.log || !r->epoch || !file_exists(k->train.log)) return;
  if (!file_map(k->c, k->train.log, &old)) ctx_unwind(k->c);
  const char *text = arena_strndup(k->a, (const char *)old.p, old.n);
  for (const char *p = strchr(text, '\n'); p && p[1];) {
    const size_t n = strcspn(++p, "\n");
    if (p[n] && int_parse(p, NULL) >= 1 && int_parse(p, NULL) <= r->epoch) sb_putn(&r->log, p, n + 1);
    p += n;
    if (!*p) break;
  }
}
static void log_epoch(training *r, const tally *check) {
  const cli *k = r->k;
  sb_fmt(&r->log, "%lld,%lld,", (long long)r->epoch + 1, (long long)ek_trainer_steps(r->t));
  sb_double(&r->log, r->rate);
  log_tally(r, &r->sum), log_tally(r, check);
  sb_putc(&r->log, '\n');
  if (k->train.log && !file_write(k->c, k->train.log, r->log.s, r->log.n)) ctx_unwind(k->c);
}

/* The same numbers as events: loss/training, loss/validation, .. */
static void add_events(training *r, sbuf *to, const char *set, const tally *s) {
  cli *k = r->k;
  events_add(k, to, arena_fmt(k->a, "loss/%s", set), tally_loss(s));
  for (uint32_t i = 0; i < r->nmetrics; i++)
    events_add(k, to, arena_fmt(k->a, "%s/%s", metric_name(r, i), set), tally_metric(r, s, i));
}
static void write_events(training *r, const tally *check) {
  sbuf summary = sbuf_new(r->k->a);
  if (!r->events) return;
  add_events(r, &summary, "training", &r->sum);
  if (check) add_events(r, &summary, "validation", check);
  events_add(r->k, &summary, "lr", r->rate);
  events_write(r->k, r->events, ek_trainer_steps(r->t), &summary);
}

/* ---- one epoch ------------------------------------------------------------------------------- */
/* Batches of an epoch: as many as make whole updates. */
static int64_t batches(const training *r) {
  const int64_t n = r->train.source.part.n / r->train.rows;
  return n - n % r->k->train.accumulate;
}
static void show_progress(const training *r, double since, int64_t first) {
  const int64_t n = batches(r), all = n * r->k->train.epochs, now = r->epoch * n + r->done;
  const double ms = now_ms() - since, each = ms / (double)(now - first);
  progress_detail("training",
                  arena_fmt(r->k->a, "epoch %lld/%d, %s, %.0f samples/s, %.0f s left", (long long)r->epoch + 1,
                            r->k->train.epochs, tally_text(r, &r->sum), 1000 * (double)r->train.rows / each,
                            each * (double)(all - now) / 1000),
                  (double)now / (double)all);
}
static ek_code next_rate(training *r) {
  const cli *k = r->k;
  const ek_schedule_point at = {.base = k->train.lr,
                                .step = ek_trainer_steps(r->t),
                                .total = batches(r) / k->train.accumulate * k->train.epochs,
                                .losses = r->losses.v,
                                .loss_count = r->losses.n};
  return ek_schedule_rate(k->s, k->train.schedule, &at, &r->rate);
}
/* The loader goes through all batches; those that make no whole update are passed over. */
static void next_batch(training *r) {
  const dataset_batch *b = dataset_loader_next(r->loader);
  while (b->index != r->done) b = dataset_loader_next(r->loader);
  feed_use(&r->train, b->data, b->n);
  if (ek_trainer_set_samples(r->t, (int64_t)b->epoch, b->samples, (size_t)b->n))
    ctx_fail(r->k->c, E_USAGE, "%s", session_text(r->k));
}
static bool is_update(const training *r) { return r->done % r->k->train.accumulate == 0; }
static ek_code run_batches(training *r) {
  cli *k = r->k;
  const int64_t n = batches(r), first = r->epoch * n + r->done, every = k->train.every;
  const double since = now_ms();
  double shown = since;
  while (r->done < n) {
    double loss;
    next_batch(r);
    ek_code e = next_rate(r);
    if (!e) e = ek_trainer_step(r->t, r->train.batch, r->train.n, r->rate, &loss);
    if (!e) e = tally_add(r, &r->sum, loss, r->train.rows);
    if (e) return e;
    r->done++;
    if (now_ms() - shown > 200) show_progress(r, since, first), shown = now_ms();
    if (!is_update(r)) continue;
    if (asked_to_stop) {
      checkpoint_step(r);
      r->stopped = true;
      return EK_OK;
    }
    if (every && r->done < n && ek_trainer_steps(r->t) % every == 0) checkpoint_step(r);
  }
  return EK_OK;
}
static ek_code end_epoch(training *r, double ms) {
  tally check = {0};
  const ek_code e = r->check.n ? evaluate_all(r, &r->check, &check) : EK_OK;
  if (e) return e;
  tell_epoch(r, r->check.n ? &check : NULL, ms);
  log_epoch(r, r->check.n ? &check : NULL);
  write_events(r, r->check.n ? &check : NULL);
  const double loss = tally_loss(r->check.n ? &check : &r->sum);
  const bool best = loss < r->best;
  vec_push(r->k->a, r->losses, loss);
  if (best) r->best = loss, r->best_epoch = r->epoch + 1;
  r->epoch++, r->done = 0;
  tally_clear(&r->sum, r->nmetrics);
  if (best) checkpoint_write(r, CHECKPOINT_BEST);
  checkpoint_step(r);
  return EK_OK;
}
static ek_code run_epochs(training *r) {
  const cli *k = r->k;
  while (r->epoch < k->train.epochs) {
    if (k->train.patience && r->best_epoch && r->epoch - r->best_epoch >= k->train.patience) {
      say(r->k, "no better loss in %d epochs: training ends\n", k->train.patience);
      break;
    }
    const double since = now_ms();
    ek_code e = run_batches(r);
    if (e || r->stopped) return e;
    e = end_epoch(r, now_ms() - since);
    if (e) return e;
  }
  return EK_OK;
}
enum { LOADED_BATCHES = 4 };
ek_code train_epochs(training *r) {
  cli *k = r->k;
  volatile ek_code e = EK_OK;
  volatile bool unwound = false;
  if (!batches(r))
    ctx_fail(k->c, E_USAGE, "--batch %d, --accumulate %d: %lld samples make no update", k->train.batch,
             k->train.accumulate, (long long)r->train.source.part.n);
  log_open(r);
  if (k->train.tensorboard) r->events = events_open(k, k->train.tensorboard, ek_trainer_steps(r->t));
  catch_signals();
  const bool whole = r->done == batches(r); /* such a checkpoint stands at the end of its epoch */
  r->loader =
      dataset_loader_open(k->c, &r->train.source, LOADED_BATCHES, (uint64_t)r->epoch + whole, whole ? 0 : r->done);
  CTX_TRY(k->c) { e = run_epochs(r); }
  CTX_CATCH { unwound = true; }
  dataset_loader_close(r->loader);
  if (unwound) ctx_unwind(k->c);
  return e;
}
