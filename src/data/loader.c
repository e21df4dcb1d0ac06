/* How are batches ready before they are needed? A thread fills a ring of buffers in the order of the batches; the
 * caller takes one, computes on it, and gives it back by asking for the next. What a batch holds is a function of its
 * number alone, so that timing changes nothing. The thread works in a context of its own; its first error waits until
 * the caller asks for the batch that has it. */
#include "data/data_in.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* ---- one batch ------------------------------------------------------------------------------- */
int64_t dataset_batch_count(const dataset_batches *b) {
  return b->part.n / b->batch + (b->keep_last && b->part.n % b->batch ? 1 : 0);
}
static int64_t size_of(const dataset_batches *b, int64_t index) {
  return min64(b->batch, b->part.n - index * b->batch);
}
/* The number in the data set of the sample at this place of the batch. */
static int64_t sample_at(const dataset_batches *b, uint64_t epoch, int64_t index, int64_t place) {
  const int64_t at = index * b->batch + place, k = b->shuffle ? dataset_shuffled(b->seed, epoch, b->part.n, at) : at;
  return b->part.samples ? b->part.samples[k] : k;
}
/* Sample by sample, and their numbers where there is room for them; *stop ends it early. */
static int64_t fill(ctx *c, const dataset_batches *b, const dataset_batch *to, const atomic_bool *stop) {
  const int64_t n = size_of(b, to->index);
  for (int64_t i = 0; i < n && !(stop && atomic_load(stop)); i++) {
    const dataset_draw draw = {b->seed, to->epoch, sample_at(b, to->epoch, to->index, i)};
    if (to->samples) to->samples[i] = draw.sample;
    for (uint32_t f = 0; f < b->nfields; f++) {
      const dataset_field *of = &b->fields[f];
      const dataset_column *s = dataset_column_at(b->set, of->column);
      const size_t bytes = (size_t)s->elements * et_bytes(of->how.type == ET_NONE ? s->type : of->how.type);
      dataset_read_augmented(c, b->set, of->column, &draw, &of->how, of->augmented ? &b->augment : NULL,
                             (uint8_t *)to->data[f] + (size_t)i * bytes);
    }
  }
  return n;
}
int64_t dataset_batch_read(ctx *c, const dataset_batches *b, uint64_t epoch, int64_t index, void *const *out) {
  return fill(c, b, &(dataset_batch){.epoch = epoch, .index = index, .data = out}, NULL);
}

/* ---- the thread ------------------------------------------------------------------------------ */
enum { ALIGNMENT = 64 }; /* bytes; of every buffer, for vector loads */
struct dataset_loader {
  ctx *c;            /* the caller's */
  ctx *own;          /* of the thread; all memory is in it */
  dataset_batches b; /* what to read */
  uint32_t buffers;  /* in the ring */
  dataset_batch *of; /* of each buffer */
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  uint64_t filled; /* batches that are ready, since the beginning */
  uint64_t taken;  /* batches that the caller asked for; the last one is still the caller's */
  bool failed;     /* the thread ended with an error, in `own` */
  atomic_bool closing;
};
static bool wait_for_room(dataset_loader *l) {
  pthread_mutex_lock(&l->lock);
  while (!atomic_load(&l->closing) && l->filled + 1 >= l->taken + l->buffers + (l->taken == 0))
    pthread_cond_wait(&l->changed, &l->lock);
  pthread_mutex_unlock(&l->lock);
  return !atomic_load(&l->closing);
}
static void report(dataset_loader *l, bool failed) {
  pthread_mutex_lock(&l->lock);
  l->failed = failed, l->filled += !failed;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}
static bool fill_one(dataset_loader *l, dataset_batch *b) {
  volatile bool good = true;
  CTX_TRY(l->own) { b->n = fill(l->own, &l->b, b, &l->closing); }
  CTX_CATCH { good = false; }
  return good;
}
static void *work(void *env) {
  dataset_loader *l = env;
  const int64_t count = dataset_batch_count(&l->b);
  uint64_t epoch = l->of[0].epoch;
  bool good = true;
  for (int64_t index = l->of[0].index, slot = 0; good && wait_for_room(l); slot = (slot + 1) % l->buffers) {
    dataset_batch *b = &l->of[slot];
    b->epoch = epoch, b->index = index;
    good = fill_one(l, b);
    report(l, !good);
    if (++index == count) index = 0, epoch++;
  }
  return NULL;
}

/* Signals are the program's: the thread gets none. */
static bool start(dataset_loader *l) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&l->thread, NULL, work, l) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* ---- the caller's side ----------------------------------------------------------------------- */
static dataset_loader *make(ctx *own, ctx *c, const dataset_batches *b, uint32_t buffers) {
  arena *a = ctx_arena(own);
  dataset_loader *l = NEW(a, dataset_loader);
  *l = (dataset_loader){.c = c, .own = own, .b = *b, .buffers = buffers, .of = NEWN(a, dataset_batch, buffers)};
  l->b.fields = arena_dup(a, b->fields, b->nfields * sizeof *b->fields);
  for (uint32_t i = 0; i < buffers; i++) {
    void **data = NEWN(a, void *, b->nfields);
    l->of[i].samples = NEWN(a, int64_t, b->batch);
    for (uint32_t f = 0; f < b->nfields; f++) {
      const dataset_column *s = dataset_column_at(b->set, b->fields[f].column);
      const etype type = b->fields[f].how.type == ET_NONE ? s->type : b->fields[f].how.type;
      int64_t n;
      if (!mul64(s->elements, b->batch, &n) || !mul64(n, et_bytes(type), &n) || !add64(n, ALIGNMENT, &n))
        ctx_fail(own, E_MEMORY, "a batch of '%s' is too large", s->name);
      const uintptr_t p = (uintptr_t)arena_alloc(a, (size_t)n);
      data[f] = (void *)((p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }
    l->of[i].data = data;
  }
  return l;
}
/* NULL: an error, in `own`. */
static dataset_loader *try_make(ctx *own, ctx *c, const dataset_batches *b, uint32_t buffers) {
  dataset_loader *volatile l = NULL;
  CTX_TRY(own) { l = make(own, c, b, buffers); }
  CTX_CATCH { l = NULL; }
  return l;
}
/* The errors of one context are recorded in another, in whose frame this then unwinds. */
static _Noreturn void hand_over(ctx *from, ctx *to) {
  for (const diag *d = diag_first(from); d; d = d->next)
    diag_add(to, d->level, d->code, d->pos, d->node, "%s", d->text);
  ctx_unwind(to);
}
dataset_loader *dataset_loader_open(ctx *c, const dataset_batches *b, uint32_t buffers, uint64_t epoch, int64_t index) {
  if (buffers < 2 || b->batch < 1) ctx_bug(c, "%u buffers for batches of %lld", buffers, (long long)b->batch);
  const int64_t count = dataset_batch_count(b);
  if (!count)
    ctx_fail(c, E_USAGE, "%s: %lld samples do not fill one batch of %lld", b->set->path, (long long)b->part.n,
             (long long)b->batch);
  if (index < 0 || index >= count) ctx_bug(c, "batch %lld of %lld is asked for", (long long)index, (long long)count);
  ctx *own = ctx_new();
  if (!own) ctx_fail(c, E_MEMORY, "out of memory for a loader of batches");
  dataset_loader *l = try_make(own, c, b, buffers);
  if (!l) {
    const diag *d = diag_first(own);
    diag_add(c, D_ERROR, d->code, d->pos, NULL, "%s", d->text);
    ctx_free(own);
    ctx_unwind(c);
  }
  l->of[0].epoch = epoch, l->of[0].index = index;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  if (!start(l)) {
    ctx_free(own);
    ctx_fail(c, E_FAILED, "the thread that loads batches cannot be started");
  }
  return l;
}
const dataset_batch *dataset_loader_next(dataset_loader *l) {
  pthread_mutex_lock(&l->lock);
  const uint64_t wanted = l->taken++;
  pthread_cond_broadcast(&l->changed); /* the batch before is free */
  while (l->filled <= wanted && !l->failed) pthread_cond_wait(&l->changed, &l->lock);
  const bool failed = l->filled <= wanted;
  pthread_mutex_unlock(&l->lock);
  if (failed) hand_over(l->own, l->c);
  return &l->of[wanted % l->buffers];
}
void dataset_loader_close(dataset_loader *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  atomic_store(&l->closing, true);
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->lock);
  ctx_free(l->own);
}
