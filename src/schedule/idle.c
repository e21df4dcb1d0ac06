/* Which results of a tile does nobody read? Where the rows of a tile count two variables (nest.h: row2), the last
 * products of a form whose last tile is smaller, for one: the rest of a tile goes on without them, and the stage
 * says how many they are (for reports). That follows from the formulas and the tile; nothing is chosen here. */
#include "schedule/nest.h"

enum { VALUES = BITSET_WORD };
static uint64_t bits(int64_t n) { return n < VALUES ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0); }
/* The values that x may have modulo n, as bits. */
static uint64_t residues(index_view *iv, sz x, int64_t n) {
  const uint64_t all = bits(n);
  u32vec vars = {0};
  int64_t k, ext;
  sz coef;
  if (sym_uses_kind(iv->c, x, AT_DATA)) return all;
  sym_atoms(iv->c, x, AT_VAR, iv->a, &vars);
  if (!vars.n) return sym_is_int(iv->c, x, &k) ? UINT64_C(1) << floormod64(k, n) : all;
  const sz at0 = sym_replace(iv->c, x, vars.v[0], sym_int(iv->c, 0));
  if (!sym_linear(iv->c, x, vars.v[0], &coef, NULL) || !sym_is_int(iv->c, coef, &k) ||
      !sym_is_int(iv->c, sym_extent(iv->c, vars.v[0]), &ext))
    return all;
  const uint64_t rest = residues(iv, at0, n);
  uint64_t found = 0;
  for (int64_t v = 0, by = 0; v < min64(ext, n); v++, by = (by + floormod64(k, n)) % n)
    found |= (rest << by | (by ? rest >> (n - by) : 0)) & all;
  return found;
}
/* The axis of a stage that one variable counts alone; naxes: none. */
static uint32_t axis_of(const stage *s, atom v) {
  uint32_t x = 0;
  while (x < s->naxes && (s->axes[x].n != 1 || s->axes[x].d[0].var != v)) x++;
  return x;
}
uint64_t idle_rows(index_view *iv, const nest *n, uint32_t most) {
  stage *s = xs(iv->m, n->stages.v[0]);
  const uint32_t fold = nest_row_fold(iv->c, n), row = axis_of(s, n->row.var), second = axis_of(s, n->row2.var);
  const readings *rs = &iv->p->readers[s->tensor];
  uint64_t read = 0;
  if (n->stages.n > 1 || n->tensorised.n || row == s->naxes || second == s->naxes || fold * most > VALUES ||
      iv->p->named[s->tensor])
    return 0;
  for (uint32_t i = 0; i < rs->n; i++) {
    const ex_node *l = exn(iv->m, rs->v[i].load);
    uint64_t at = residues(iv, l->args[row], VALUES), by = residues(iv, l->args[second], most);
    for (uint32_t k = 0; k < most; k++)
      if (by >> k & 1) read |= (at & bits(fold)) << k * fold;
  }
  const uint64_t idle = ~read & bits(fold * most);
  s->idle = (double)__builtin_popcountll(idle) / (fold * most);
  return EK_PLANTED("schedule-idle") ? bits(fold * most) : idle;
}
