/* What is a character in upper or lower case? Unicode's full case mapping, which asks for no language: a character
 * becomes one or some others. `case_plan("UPPER")` or `("LOWER")` gives it to a definition as tables of two steps:
 * character c is entry pages[c // 64]*64 + c % 64, or stays as it is where c // 64 is beyond the pages. An entry is 256
 * times what is added to c, plus the number of the characters that follow: second[..] and third[..], 0 for none. */
#include "notation/elab.h"
#include <string.h>

typedef struct case_run {
  int32_t first; /* first character */
  int32_t last;  /* last character */
  int32_t step;  /* distance of two characters */
  int32_t delta; /* added to each */
} case_run;
typedef struct case_more {
  int32_t at, then[2]; /* what follows the first one; 0: nothing */
} case_more;
#include "notation/case_runs.h"

enum { PAGE = 64, LAST = 0x20000, MORE = 256 };

static void fill(int32_t *entry, const case_run *r, size_t n, const case_more *more, size_t nmore) {
  for (size_t i = 0; i < n; i++)
    for (int32_t c = r[i].first; c <= r[i].last; c += r[i].step)
      entry[c] = (r[i].delta + (EK_PLANTED("notation-case") && r[i].step > 1)) * MORE;
  for (size_t i = 0; i < nmore; i++) entry[more[i].at] += (int32_t)i + 1;
}
static val list_of(el *x, const valvec *v) {
  val l = v_list(x, v->n);
  if (v->n) memcpy(l.p.l->v, v->v, v->n * sizeof *v->v);
  return l;
}
val case_plan(el *x, bool upper) {
  int32_t *entry = NEWN(x->a, int32_t, LAST);
  const case_more *more = upper ? upper_more : lower_more;
  const size_t nmore = upper ? sizeof upper_more / sizeof *more : sizeof lower_more / sizeof *more;
  if (upper)
    fill(entry, upper_runs, sizeof upper_runs / sizeof *upper_runs, more, nmore);
  else
    fill(entry, lower_runs, sizeof lower_runs / sizeof *lower_runs, more, nmore);
  valvec parts[4] = {{0}}; /* pages, entries, second, third */
  map *known = map_new(x->a);
  for (int32_t c = 0; c < LAST; c += PAGE) {
    uint64_t at;
    if (!map_get(known, entry + c, PAGE * sizeof *entry, &at)) {
      at = map_count(known);
      map_put(known, entry + c, PAGE * sizeof *entry, at);
      for (int32_t k = 0; k < PAGE; k++) vec_push(x->a, parts[1], v_int(x, entry[c + k]));
    }
    vec_push(x->a, parts[0], v_int(x, (int64_t)at));
  }
  for (int k = 0; k < 2; k++) {
    vec_push(x->a, parts[2 + k], v_int(x, 0));
    for (size_t i = 0; i < nmore; i++) vec_push(x->a, parts[2 + k], v_int(x, more[i].then[k]));
  }
  val all = v_list(x, 4);
  for (int k = 0; k < 4; k++) all.p.l->v[k] = list_of(x, &parts[k]);
  return all;
}
