/* What stands in the working memory where most of it is live? */
#include "program/build.h"

enum { NAMED = 3 /* buffers that are named */ };
typedef struct peak {
  uint32_t at;        /* step */
  int64_t live;       /* bytes that are live then */
  uint32_t pos;       /* number of the step that was visited last */
  const char *kernel; /* the kernel of the step; NULL: it is no launch */
} peak;

static int64_t bytes_at(const program *p, const pbuffer *b, uint32_t step) {
  if (b->kind != BUF_ARENA || b->late || step < b->first || step > b->last) return 0;
  return sym_int_or(p->c, b->bytes, 0);
}
static void find_kernel(peak *k, const steps *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    if (s->kind != ST_LAUNCH && s->kind != ST_IF && s->kind != ST_LOOP) continue;
    if (++k->pos == k->at && s->kind == ST_LAUNCH)
      k->kernel = s->func->note && *s->func->note ? s->func->note : s->kernel;
    if (s->kind == ST_LAUNCH) continue;
    find_kernel(k, &s->body), find_kernel(k, &s->other);
    k->pos++;
  }
}
const char *program_peak(const program *p) {
  peak k = {0};
  uint32_t last = 0, live = 0, n = 0;
  int64_t below = INT64_MAX;
  sbuf b = sbuf_new(p->a);
  if (!sym_is_int(p->c, p->arena_bytes, NULL)) return "";
  for (uint32_t i = 1; i < p->buffers.n; i++)
    if (p->buffers.v[i].kind == BUF_ARENA && p->buffers.v[i].last > last) last = p->buffers.v[i].last;
  for (uint32_t t = 1; t <= last; t++) {
    int64_t sum = 0;
    for (uint32_t i = 1; i < p->buffers.n; i++) sum += bytes_at(p, &p->buffers.v[i], t);
    if (sum > k.live) k.live = sum, k.at = t;
  }
  find_kernel(&k, &p->steps);
  for (uint32_t i = 1; i < p->buffers.n; i++) live += bytes_at(p, &p->buffers.v[i], k.at) > 0;
  sb_fmt(&b, "Most is live%s%s: %lld bytes in %u tensors", k.kernel ? " in " : "", k.kernel ? k.kernel : "",
         (long long)k.live, live);
  for (; n < NAMED && n < live; n++) { /* the largest, then the next ones */
    const pbuffer *most = NULL;
    for (uint32_t i = 1; i < p->buffers.n; i++) {
      const int64_t bytes = bytes_at(p, &p->buffers.v[i], k.at);
      if (bytes > 0 && bytes < below && (!most || bytes > bytes_at(p, most, k.at))) most = &p->buffers.v[i];
    }
    if (!most) break;
    below = bytes_at(p, most, k.at);
    sb_fmt(&b, "%s%s (%lld)", n ? ", " : ", among them ", most->name ? most->name : "a tensor", (long long)below);
  }
  return b.s;
}
