/* Are constants of few bits unpacked once for all rows? Where there are many, the schedule computes panels of floats,
 * and says so; where there are few, or the floats lie near enough, it does not. What unpacks codes, a lookup, stands
 * before all multiply-adds then, and not among them. */
#include "pass_check.h"
#include "schedule/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

typedef enum { NOWHERE, BEFORE, AMONG } place; /* of lookups, to the multiply-adds */
enum { SMALL = 64 << 10 /* bytes of caches that do not hold the constants */, LARGE = 1 << 20 };
/* Rows by codes of 4 bits in blocks of 32; `@`: numbers for the shape before it. */
#define CODES(rows, codes)                                                                                             \
  "tensor x: f32[" rows ", 128] input \"x\"\ntensor w: u8[128, 144] const @\ntensor z: u8[4, 144] const @\n"           \
  "tensor s: f32[4, 144] const @\ntensor g: f32[128] const @\n"                                                        \
  "stage d: f32[k<128, n<144] = (" codes ") * s[k//32, n]\n"
#define FOUR "f32(band(i32(w[k, n]), 15i32))"
#define PRODUCT(rows, x) "stage y: f32[r<" rows ", j<144] out = sum[i<128] " x " * d[i, j]\noutput y \"y\"\n"
typedef struct row {
  const char *formulas, *stated; /* the line of nest y that is stated; NULL: none */
  uint64_t l2;                   /* bytes of the second and the third-level cache */
  const char *lines[3];          /* in the schedule; NULL: nothing else */
  place lookups;
} row;
static const row rows[] = {
    {CODES("64", FOUR " - 8.0") PRODUCT("64", "x[r, i]"), NULL, SMALL, {"pack c bits 4\n", "buffer panel\n"}, BEFORE},
    {CODES("64", FOUR " - f32(z[k//32, n])") PRODUCT("64", "x[r, i]"),
     NULL,
     SMALL,
     {"bits 4\n", "buffer panel\n"},
     BEFORE},
    {CODES("64", "f32(w[k, n]) - f32(z[k//32, n])") PRODUCT("64", "x[r, i]"),
     NULL,
     SMALL,
     {"bits 8\n", "buffer panel\n"},
     NOWHERE},
    {CODES("64", FOUR " - 8.0") PRODUCT("64", "x[r, i] * g[i]"),
     NULL,
     SMALL,
     {"bits 4\n", "buffer panel rows\n"},
     BEFORE},
    {CODES("5", FOUR " - 8.0") PRODUCT("5", "x[r, i]"), NULL, SMALL, {"bits 4\n", "buffer none\n"}, AMONG},
    {CODES("40", FOUR " - 8.0") PRODUCT("40", "x[r, i]"), NULL, SMALL, {"buffer none\n"}, NOWHERE},
    {CODES("64", FOUR " - 8.0") PRODUCT("64", "x[r, i]"), NULL, LARGE, {"buffer none\n"}, NOWHERE},
    {CODES("64", FOUR " - 8.0") PRODUCT("64", "x[r, i]"), "buffer none", SMALL, {"bits 4\n", "buffer none\n"}, AMONG},
    {CODES("5", FOUR " - 8.0") PRODUCT("5", "x[r, i]"), "buffer panel", SMALL, {"bits 4\n", "buffer panel\n"}, BEFORE},
    {CODES("66", FOUR " - 8.0") "stage y: f32[r<64, j<144] out = sum[q<3, i<42] x[r + q, 3*i + q] * d[3*i + q, j]\n"
                                "output y \"y\"\n",
     NULL,
     SMALL,
     {"buffer none\n"},
     NOWHERE},
};
static place lookups_of(const char *loops) {
  const char *first = strstr(loops, " = fma "), *lookup = strstr(loops, " = lookup ");
  if (!lookup) return NOWHERE;
  return first && strstr(first, " = lookup ") ? AMONG : BEFORE;
}
/* The record and the loops of all kernels. */
static void scheduled(ctx *c, const row *r, sbuf *record, sbuf *loops) {
  target t = *target_get(c, "zen5");
  emodule *m = expr_parse(c, pc_constants(ctx_arena(c), r->formulas), "formulas");
  if (!m) ctx_unwind(c);
  t.l1 = r->l2 / 2, t.l2 = r->l2, t.l3 = r->l2;
  expr_optimise(m, 3, &(expr_observer){.t = &t});
  const char *text = arena_fmt(ctx_arena(c), "schedules 1\nkernel k0 {\n nest y {\n %s\n}\n}\n", r->stated);
  schedules *given = r->stated ? schedules_parse(c, "given", (bytes){(const uint8_t *)text, strlen(text)}) : NULL;
  const splan *s = schedule_module(m, &t, (schedule_opts){.level = 3, .record = true, .stated = given});
  for (uint32_t i = 0; i < s->launches.n; i++) record_print(s->launches.v[i].record, record);
  loop_print(s->l, loops, NULL);
}
static void check(const row *r) {
  ctx *c = ctx_new();
  sbuf record = sbuf_new(ctx_arena(c)), loops = record;
  CTX_TRY(c) { scheduled(c, r, &record, &loops); }
  CTX_CATCH fail_msg("%s: %s", r->formulas, diag_first(c) ? diag_first(c)->text : "failed");
  for (const char *const *line = r->lines; *line; line++)
    if (!strstr(record.s, *line)) fail_msg("%s: `%s` is not in the schedule:\n%s", r->formulas, *line, record.s);
  if (lookups_of(loops.s) != r->lookups) fail_msg("%s: codes are unpacked elsewhere:\n%s", r->formulas, loops.s);
  ctx_free(c);
}
static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i]);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
