/* ek_schedule_rate: learning-rate schedules for programs. */
#include "driver/driver.h"
#include "train/train.h"

ek_code ek_schedule_rate(ek_session *s, const char *text, const ek_schedule_point *at, double *rate) {
  if (!s || !text || !at || !rate || (at->loss_count && !at->losses)) return session_null(s);
  if (at->step < 0 || at->total < 1) return session_fail(s, EK_USAGE, "ek_schedule_rate: step from 0, total from 1 on");
  ctx *c = session_ctx(s);
  if (!c) return session_fail(s, EK_MEMORY, "out of memory");
  volatile ek_code e = EK_FAILED;
  const train_moment m = {at->base, at->step, at->total, at->losses, at->loss_count};
  CTX_TRY(c) {
    *rate = train_schedule_rate(c, text, &m);
    e = EK_OK;
  }
  CTX_CATCH {}
  e = session_done(s, c, e);
  ctx_free(c);
  return e;
}
