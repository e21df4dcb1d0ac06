/* Definitions (.ek): parsed and checked; what is accepted prints as text that is accepted. Then each operator is
 * called with a few arguments: elaboration must refuse or give well-formed stages. */
#include "fuzz.h"
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool elaborate(ctx *c, const oplib *lib, const opdef *d, uint32_t nin, uint32_t rank, etype t) {
  emodule *m = expr_module(c);
  arg in[4] = {0}, out[2] = {0};
  for (uint32_t i = 0; i < nin; i++) {
    sz *dims = NEWN(ctx_arena(c), sz, rank + 1);
    for (uint32_t k = 0; k < rank; k++) dims[k] = k % 2 ? sym_int(c, 3) : sym_symbol(c, "N", 1, 1000);
    in[i] = (arg){.present = true,
                  .type = t,
                  .rank = rank,
                  .shape = dims,
                  .t = expr_tensor(m, TK_INPUT, t, dims, rank, "x", NULL)};
  }
  out[0].want = true;
  uint32_t before = diag_mark(c);
  volatile bool ok = false;
  CTX_TRY(c) { ok = notation_elaborate(lib, d, m, 0, "node", in, nin, NULL, 0, out, 1); }
  CTX_CATCH { ok = false; }
  if (ok && diag_errors(c) == 0 && !expr_verify(m, "elaboration")) return false;
  for (const diag *e = diag_first(c); e; e = e->next)
    if (e->code == E_INTERNAL) return false;
  diag_reset(c, before);
  return true;
}
static bool try_one(ctx *c, void *env) {
  input *in = env;
  oplib *lib = notation_lib(c);
  if (!notation_add(lib, (const char *)in->p, in->n, "fuzz.ek")) return false;
  for (uint32_t i = 0; i < notation_count(lib) && i < 8; i++) {
    const opdef *d = notation_nth(lib, i);
    for (uint32_t k = 0; k < 4; k++)
      if (!elaborate(c, lib, d, k % 4, (k + (uint32_t)in->n) % 4, in->n & 1 ? ET_F32 : ET_I64)) return false;
  }
  return true;
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
