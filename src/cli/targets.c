/* einkorn targets: what machines there are to compile for, and what is known about each. */
#include "cli/cli.h"
#include "target/target.h"

/* A size as a short text, such as 48K. */
static const char *bytes_text(cli *k, uint64_t n) {
  int unit = 0;
  for (; n && n % 1024 == 0 && unit < 4; unit++) n /= 1024;
  return arena_fmt(k->a, "%llu%.1s", (unsigned long long)n, &"\0KMGT"[unit]);
}
int cmd_targets(cli *k) {
  sbuf b = sbuf_new(k->a);
  if (k->table) {
    target_fields(&b);
    fputs(b.s, stdout);
    return EXIT_DONE;
  }
  if (k->args.n) {
    const target *t = target_get(k->c, k->args.v[0]);
    if (!t) ctx_unwind(k->c);
    target_print(t, &b);
    fputs(b.s, stdout);
    return EXIT_DONE;
  }
  const char **names;
  uint32_t n = target_names(k->c, &names);
  for (uint32_t i = 0; i < n; i++) {
    const target *t = target_get(k->c, names[i]);
    if (!t) ctx_unwind(k->c);
    const char *vectors =
        t->vector_bits ? arena_fmt(k->a, "%u registers of %u bits", t->vector_registers, t->vector_bits) : "no vectors";
    printf("%-12s %-24s caches %s, %s, %s%s%s%s\n", names[i], vectors, bytes_text(k, t->l1), bytes_text(k, t->l2),
           bytes_text(k, t->l3), t->like ? "; as " : "", t->like ? t->like : "", t->here ? "" : " (does not run here)");
  }
  say(k, "%u targets; `einkorn targets NAME` prints one\n", n);
  return EXIT_DONE;
}
