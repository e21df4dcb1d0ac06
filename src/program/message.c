/* How does a run say what only it knows? The text of a message is put together where its arena begins: the run is over
 * then, and what lay there is not needed any more.
 *
 * The parts of a message, texts and numbers, are stored one behind the other, each in whole words with zeros behind it.
 * Two small kernels do the rest: `digits` writes a number in decimal at the end of its place, `pack` moves all bytes
 * that are not 0 together. */
#include "program/build.h"
#include <string.h>

enum { WORD = 8, NUMBER = 3 * WORD /* bytes: a sign, 19 digits and some zeros */ };

uint32_t message_bytes(const message_part *parts, uint32_t n) {
  size_t all = WORD; /* the end of the text */
  for (uint32_t i = 0; i < n; i++) all += parts[i].text ? (strlen(parts[i].text) + WORD - 1) / WORD * WORD : NUMBER;
  return (uint32_t)all;
}

/* to[0..NUMBER-1] = v. All is done with -|v|, for which there is always room. */
static void digits_kernel(lmodule *l) {
  const ltype i64 = lt(ET_I64, 1), u8 = lt(ET_U8, 1);
  lfunc *f = loop_func(l, LF_KERNEL, "digits", "a number in decimal");
  lbuild b = loop_builder(f);
  lv to = lb_param(&b, "to", lptr(ET_U8), LP_WRITE, 0), v = lb_param(&b, "v", i64, 0, 0), k;
  lv zero = lb_int(&b, 0), none = lb_const(&b, u8, (scalar){.i = 0}), below = lb_cmp(&b, OP_LT, v, zero);
  lv rest = lb_reg(&b, lb_op(&b, OP_SEL, i64, below, v, lb_sub(&b, zero, v)));
  lb_for(&b, "k", zero, lb_int(&b, NUMBER), lb_int(&b, 1), 0, &k);
  lv n = lb_get(&b, rest), q = lb_op(&b, OP_IDIV, i64, lb_addi(&b, n, 9), lb_int(&b, 10), 0); /* n/10, towards 0 */
  if (EK_PLANTED("message")) n = lb_addi(&b, n, -1);
  lv digit = lb_op(&b, OP_CAST, u8, lb_addi(&b, lb_sub(&b, lb_muli(&b, q, 10), n), '0'), 0, 0);
  lv some = lb_op(&b, OP_OR, lt(ET_BOOL, 1), lb_cmp(&b, OP_NE, n, zero), lb_cmp(&b, OP_EQ, k, zero), 0);
  lb_store(&b, to, lb_sub(&b, lb_int(&b, NUMBER - 1), k), lb_op(&b, OP_SEL, u8, some, digit, none));
  lb_set(&b, rest, q);
  lb_end(&b);
  lb_store(&b, to, zero, lb_op(&b, OP_SEL, u8, below, lb_const(&b, u8, (scalar){.i = '-'}), none));
}
/* the bytes of to[0..n-1] that are not 0, and a 0 */
static void pack_kernel(lmodule *l) {
  const ltype i64 = lt(ET_I64, 1), u8 = lt(ET_U8, 1);
  lfunc *f = loop_func(l, LF_KERNEL, "pack", "a text without its gaps");
  lbuild b = loop_builder(f);
  lv to = lb_param(&b, "to", lptr(ET_U8), LP_READ | LP_WRITE, 0), n = lb_param(&b, "n", i64, 0, 0), i;
  lv end = lb_reg(&b, lb_int(&b, 0)), none = lb_const(&b, u8, (scalar){.i = 0});
  lb_for(&b, "i", lb_int(&b, 0), n, lb_int(&b, 1), 0, &i);
  lv ch = lb_load(&b, u8, to, i), at = lb_get(&b, end);
  lb_store(&b, to, at, ch);
  lv one = lb_op(&b, OP_SEL, i64, lb_cmp(&b, OP_NE, ch, none), lb_int(&b, 1), lb_int(&b, 0));
  lb_set(&b, end, lb_add(&b, at, one));
  lb_end(&b);
  lb_store(&b, to, lb_get(&b, end), none);
}
void message_kernels(lmodule *l) {
  for (uint32_t i = 0; i < l->funcs.n; i++)
    if (!strcmp(l->funcs.v[i]->name, "digits")) return; /* read from text */
  digits_kernel(l);
  pack_kernel(l);
}

void message_fail(lbuild *b, lv to, int code, const message_part *parts, uint32_t n) {
  lv words = lb_ptrcast(b, ET_I64, to), one = lb_int(b, 1);
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!parts[i].text) {
      lb_call(b, false, "digits", one, (lv[]){lb_offset(b, to, lb_int(b, at * WORD)), parts[i].number}, 2);
      at += NUMBER / WORD;
      continue;
    }
    for (size_t len = strlen(parts[i].text), k = 0; k < len; k += WORD, at++) {
      int64_t w = 0;
      memcpy(&w, parts[i].text + k, len - k < WORD ? len - k : WORD);
      lb_store(b, words, lb_int(b, at), lb_int(b, w));
    }
  }
  lb_call(b, false, "pack", one, (lv[]){to, lb_int(b, at * WORD)}, 2);
  lb_fail_with(b, code, to);
}
