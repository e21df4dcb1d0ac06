/* The notation: the library loads, prints and reads back; the checker's messages (tests/notation); elaboration to
 * stages, sizes, guards and values; broken text never breaks the program. */
#include "notation/notation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static oplib *library(ctx *c) {
  oplib *l = notation_lib(c);
  bool ok = notation_add_builtin(l);
  for (const diag *d = diag_first(c); d; d = d->next)
    print_message("%s:%u:%u: %s\n", d->pos.file ? d->pos.file : "", d->pos.line, d->pos.col, d->text);
  assert_true(ok);
  return l;
}
static const char *message(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) return d->text;
  return "";
}

/* ---- the library ----------------------------------------------------------------------------- */
static void test_library(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    oplib *l = library(c);
    assert_true(notation_count(l) > 170);
    const opdef *d = notation_find(l, "", "Softmax");
    assert_non_null(d);
    assert_ptr_equal(d, notation_find(l, "ai.onnx", "Softmax"));
    assert_null(notation_find(l, "other", "Softmax"));
    assert_string_equal(opdef_name(d), "Softmax");
    /* what is printed parses back to the same text */
    sbuf a = sbuf_new(ctx_arena(c)), b = sbuf_new(ctx_arena(c));
    for (uint32_t i = 0; i < notation_count(l); i++) opdef_print(notation_nth(l, i), &a);
    oplib *again = notation_lib(c);
    notation_add_builtin(again); /* the library has the shared functions */
    assert_true(notation_add(again, a.s, a.n, "printed.ek"));
    for (uint32_t i = 0; i < notation_count(again); i++) opdef_print(notation_nth(again, i), &b);
    assert_string_equal(a.s, b.s);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
/* A source that is read when its operators are asked for gives what one gives that is read at once. */
static void test_later(void **state) {
  (void)state;
  static const char text[] = "# two\nfn twice(x) = 2*x\n\"\"\"Of two lines:\nop None is no operator.\"\"\"\nop Two<T: "
                             "num>(X: T[a...]) -> Y: T[a...] {\n  Y[i...] = twice(X[i...])\n}\nop \"my.own::Three\"<T: "
                             "num>(X: T[a...]) -> Y: T[a...] { Y[i...] = X[i...] + twice(X[i...]) }\n"
                             "op Four(X: f32[n]) -> Y: f32[n] { Y[n] = X[n] }\n";
  static const char mine[] = "op Four(X: f32[n]) -> Y: f32[n] { Y[n] = 4*X[n] }\n";
  ctx *c = ctx_new();
  CTX_TRY(c) {
    oplib *l[2] = {notation_lib(c), notation_lib(c)};
    assert_true(notation_add(l[0], text, strlen(text), "t.ek") && notation_add_later(l[1], text, strlen(text), "t.ek"));
    for (int k = 0; k < 2; k++) {
      const opdef *two = notation_find(l[k], "", "Two"), *three = notation_find(l[k], "my.own", "Three");
      assert_true(two && three && notation_find(l[k], "", "Two") == two);
      assert_string_equal(opdef_doc(two), "Of two lines:\nop None is no operator.");
      assert_int_equal(opdef_pos(two).line, 5);
      assert_int_equal(opdef_pos(three).line, 8);
      assert_null(notation_find(l[k], "", "None"));
      assert_null(notation_find(l[k], "", "Three"));
      assert_true(notation_add(l[k], mine, strlen(mine), "mine.ek"));
      assert_int_equal(notation_count(l[k]), 3);
      assert_string_equal(opdef_pos(notation_find(l[k], "", "Four")).file, "mine.ek");
    }
    sbuf a = sbuf_new(ctx_arena(c)), b = sbuf_new(ctx_arena(c));
    for (uint32_t i = 0; i < 3; i++) opdef_print(notation_nth(l[0], i), &a), opdef_print(notation_nth(l[1], i), &b);
    assert_string_equal(a.s, b.s);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
/* A user's definition replaces one of the library; a user's function does not change the library's. */
static void test_override(void **state) {
  (void)state;
  static const char text[] = "fn sigmoid(x) = x\nop Relu<T: num>(X: T[a...]) -> Y: T[a...] { Y[i...] = "
                             "sigmoid(X[i...]) }\nop Broken(X: f32[n]) -> Y: f32[n] { Y[n] = Q[n] }\n";
  ctx *c = ctx_new();
  CTX_TRY(c) {
    oplib *l = library(c);
    const opdef *before = notation_find(l, "", "Relu");
    assert_false(notation_add(l, text, strlen(text), "mine.ek"));
    const opdef *d = notation_find(l, "", "Relu");
    assert_ptr_not_equal(d, before);
    assert_string_equal(opdef_pos(d).file, "mine.ek");
    assert_int_equal(opdef_pos(d).line, 2);
    assert_null(notation_find(l, "", "Broken"));
    emodule *m = expr_module(c);
    sz shape[1] = {sym_int(c, 4)};
    arg in = {.present = true,
              .type = ET_F32,
              .rank = 1,
              .shape = shape,
              .t = expr_tensor(m, TK_INPUT, ET_F32, shape, 1, "x", NULL)},
        out = {.want = true};
    assert_true(notation_elaborate(l, notation_find(l, "", "Sigmoid"), m, 0, "s", &in, 1, NULL, 0, &out, 1));
    sbuf b = sbuf_new(m->a);
    expr_print(m, &b, (print_opts){0});
    assert_non_null(strstr(b.s, "exp(")); /* still the library's own sigmoid */
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}

/* ---- messages -------------------------------------------------------------------------------- */
static void one_file(const char *name) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bytes f;
    const char *path = arena_fmt(ctx_arena(c), "%s/tests/notation/%s", EK_SOURCE_DIR, name);
    assert_true(file_map(c, path, &f));
    char *text = arena_strndup(ctx_arena(c), (const char *)f.p, f.n);
    oplib *l = library(c);
    bool ok = notation_add(l, text, f.n, name);
    const diag *d = diag_first(c);
    uint32_t wanted = 0;
    for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
      if (strncmp(line, "#! ", 3)) continue;
      unsigned ln, col;
      int used = 0;
      wanted++;
      assert_int_equal(sscanf(line + 3, "%u:%u: %n", &ln, &col, &used), 2);
      char want[400];
      size_t n = strcspn(line + 3 + used, "\n");
      snprintf(want, sizeof want, "%.*s", (int)n, line + 3 + used);
      if (!d) fail_msg("%s: message %u is missing: %s", name, wanted, want);
      if (d->pos.line != ln || d->pos.col != col || !strstr(d->text, want))
        fail_msg("%s: message %u is\n  %u:%u: %s\nbut\n  %u:%u: %s\nis expected", name, wanted, d->pos.line, d->pos.col,
                 d->text, ln, col, want);
      d = d->next;
    }
    if (d) fail_msg("%s: unexpected message %u:%u: %s", name, d->pos.line, d->pos.col, d->text);
    assert_int_equal(ok, wanted == 0);
  }
  CTX_CATCH { fail_msg("%s: %s", name, message(c)); }
  ctx_free(c);
}
static void test_messages(void **state) {
  (void)state;
  DIR *dir = opendir(EK_SOURCE_DIR "/tests/notation");
  assert_non_null(dir);
  uint32_t n = 0;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    size_t k = strlen(e->d_name);
    if (k < 4 || strcmp(e->d_name + k - 3, ".ek")) continue;
    one_file(e->d_name);
    n++;
  }
  closedir(dir);
  assert_true(n >= 6);
}

/* ---- elaboration ----------------------------------------------------------------------------- */
typedef struct bench {
  ctx *c;
  oplib *l;
  emodule *m;
  arg in[8], out[4];
  uint32_t nin;
} bench;
static void input(bench *b, etype t, uint32_t rank, ...) { /* sizes as text: a number or a symbol */
  va_list ap;
  va_start(ap, rank);
  sz *s = NEWN(b->m->a, sz, rank + 1);
  for (uint32_t i = 0; i < rank; i++) {
    const char *q = va_arg(ap, const char *);
    s[i] = *q >= '0' && *q <= '9' ? sym_int(b->c, atoi(q)) : sym_symbol(b->c, q, 1, 1000000000);
  }
  va_end(ap);
  b->in[b->nin] = (arg){.present = true, .type = t, .rank = rank, .shape = s};
  b->in[b->nin].t = expr_tensor(b->m, TK_INPUT, t, s, rank, "x", NULL);
  b->nin++;
}
static void value_input(bench *b, uint32_t n, ...) { /* a 1-D i64 input of known contents */
  va_list ap;
  va_start(ap, n);
  sz *v = NEWN(b->m->a, sz, n + 1), *s = NEWN(b->m->a, sz, 1);
  for (uint32_t i = 0; i < n; i++) v[i] = sym_int(b->c, va_arg(ap, int));
  va_end(ap);
  s[0] = sym_int(b->c, n);
  b->in[b->nin++] = (arg){.present = true,
                          .type = ET_I64,
                          .rank = 1,
                          .shape = s,
                          .values = v,
                          .t = expr_tensor(b->m, TK_INPUT, ET_I64, s, 1, "v", NULL)};
}
static bool run(bench *b, const char *op, const sattr *at, uint32_t nat, uint32_t nout) {
  for (uint32_t i = 0; i < nout; i++) b->out[i] = (arg){.want = true};
  bool ok =
      notation_elaborate(b->l, notation_find(b->l, "", op), b->m, 0, "node", b->in, b->nin, at, nat, b->out, nout);
  if (ok) assert_true(expr_verify(b->m, "test"));
  b->nin = 0;
  return ok;
}
static const char *shape(bench *b, uint32_t i) {
  sbuf s = sbuf_new(b->m->a);
  sb_put(&s, et_name(b->out[i].type));
  for (uint32_t k = 0; k < b->out[i].rank; k++) sb_fmt(&s, "%s%s", k ? ", " : "[", sym_str(b->c, b->out[i].shape[k]));
  sb_put(&s, b->out[i].rank ? "]" : "[]");
  return s.s;
}
static void test_shapes(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    int64_t strides[] = {2, 2}, pads[] = {1, 1, 1, 1};
    sattr conv[] = {{.name = "strides", .kind = SK_INTS, .n = 2, .ints = strides},
                    {.name = "pads", .kind = SK_INTS, .n = 4, .ints = pads}};
    input(&b, ET_F32, 4, "N", "3", "H", "W"), input(&b, ET_F32, 4, "8", "3", "3", "3");
    assert_true(run(&b, "Conv", conv, 2, 1));
    assert_string_equal(shape(&b, 0), "f32[N, 8, (H + 1)//2, (W + 1)//2]");
    input(&b, ET_F32, 3, "B", "S", "64"), input(&b, ET_F32, 2, "64", "10");
    assert_true(run(&b, "MatMul", NULL, 0, 1));
    assert_string_equal(shape(&b, 0), "f32[B, S, 10]");
    input(&b, ET_F32, 1, "64"), input(&b, ET_F32, 1, "64");
    assert_true(run(&b, "MatMul", NULL, 0, 1));
    assert_string_equal(shape(&b, 0), "f32[]");
    input(&b, ET_F32, 3, "B", "S", "384"), value_input(&b, 4, 0, 0, 12, -1);
    assert_true(run(&b, "Reshape", NULL, 0, 1));
    assert_string_equal(shape(&b, 0), "f32[B, S, 12, 32]");
    input(&b, ET_F16, 3, "B", "S", "384");
    assert_true(run(&b, "Shape", NULL, 0, 1));
    assert_string_equal(shape(&b, 0), "i64[3]");
    assert_string_equal(sym_str(c, b.out[0].values[1]), "S");
    assert_int_equal(b.m->guards.n, 0);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
static void test_guards(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    input(&b, ET_F32, 2, "P", "4"), input(&b, ET_F32, 2, "Q", "1");
    assert_true(run(&b, "Add", NULL, 0, 1)); /* two unknown dims: assumed equal */
    assert_int_equal(b.m->guards.n, 1);
    assert_true(b.m->guards.v[0].assumption && b.m->guards.v[0].is_eq);
    input(&b, ET_F32, 2, "P", "R"), input(&b, ET_F32, 1, "V");
    assert_true(run(&b, "LayerNormalization", NULL, 0, 1)); /* the scale has as many places as the axis: a contract */
    assert_int_equal(b.m->guards.n, 2);
    assert_false(b.m->guards.v[1].assumption);
    /* sizes that cannot fit are errors, with the place in the definition and the node */
    input(&b, ET_F32, 2, "4", "5"), input(&b, ET_F32, 2, "6", "7");
    assert_false(run(&b, "MatMul", NULL, 0, 1));
    assert_non_null(strstr(message(c), "5 and 6 differ"));
    input(&b, ET_F32, 1, "4"), input(&b, ET_I64, 1, "4");
    uint32_t mark = diag_mark(c);
    assert_false(run(&b, "Add", NULL, 0, 1));
    diag_reset(c, mark);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
static void test_late(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    input(&b, ET_F32, 2, "N", "4");
    assert_true(run(&b, "NonZero", NULL, 0, 1));
    assert_int_equal(b.m->lates.n, 1);
    assert_string_equal(sym_str(c, b.m->lates.v[0].bound), "4*N");
    assert_string_equal(shape(&b, 0), "i64[2, node.m]");
    /* a rank from data is refused */
    input(&b, ET_F32, 1, "8"), input(&b, ET_I64, 1, "K");
    assert_false(run(&b, "Reshape", NULL, 0, 1));
    assert_int_equal(diag_code(c), E_UNSUPPORTED);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
/* Contents are found when somebody asks: floats' only behind a question for whole numbers. */
static void test_contents(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    input(&b, ET_F32, 2, "1", "4"), input(&b, ET_F32, 2, "4", "4");
    assert_true(run(&b, "MatMul", NULL, 0, 1));
    assert_null(b.m->contents);
    input(&b, ET_F32, 2, "B", "S");
    assert_true(run(&b, "Shape", NULL, 0, 1));
    arg t = b.out[0];
    sattr to = {.name = "to", .kind = SK_INT, .i = 1}, back = {.name = "to", .kind = SK_INT, .i = 7};
    b.in[0] = t, b.nin = 1;
    assert_true(run(&b, "Cast", &to, 1, 1));
    for (int i = 0; i < 601; i++) { /* more than a recursion might follow */
      t = b.out[0];
      assert_null(t.values);
      assert_null(t.floats);
      b.in[0] = b.in[1] = t, b.nin = i == 300 ? 2 : 1;
      assert_true(run(&b, i == 300 ? "Add" : "Neg", NULL, 0, 1));
    }
    t = b.out[0];
    b.in[0] = t, b.nin = 1;
    assert_true(run(&b, "Cast", &back, 1, 1));
    assert_string_equal(sym_str(c, b.out[0].values[1]), "2*S");
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
/* The values that come out of small integer operators, by their own definitions. */
static void test_values(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    input(&b, ET_F32, 3, "B", "S", "8");
    assert_true(run(&b, "Shape", NULL, 0, 1));
    arg dims = b.out[0];
    value_input(&b, 2, 1, -1);
    b.in[1] = b.in[0], b.in[0] = dims, b.nin = 2;
    assert_true(run(&b, "Gather", NULL, 0, 1));
    arg picked = b.out[0];
    assert_string_equal(sym_str(c, picked.values[0]), "S");
    b.in[0] = picked, b.nin = 1;
    value_input(&b, 2, 2, 3);
    assert_true(run(&b, "Mul", NULL, 0, 1));
    assert_string_equal(sym_str(c, b.out[0].values[0]), "2*S");
    assert_string_equal(sym_str(c, b.out[0].values[1]), "24");
    arg mul = b.out[0];
    sattr axis = {.name = "axis", .kind = SK_INT, .i = 0};
    b.in[0] = dims, b.in[1] = mul, b.nin = 2;
    assert_true(run(&b, "Concat", &axis, 1, 1));
    assert_string_equal(sym_str(c, b.out[0].values[3]), "2*S");
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
/* Updates that write every place once tile their stage, the module's first one, too. */
static void test_tiled(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    sattr axis = {.name = "axis", .kind = SK_INT, .i = 1};
    input(&b, ET_F32, 2, "N", "4");
    input(&b, ET_F32, 2, "N", "3");
    assert_true(run(&b, "Concat", &axis, 1, 1));
    assert_int_equal(b.m->stages.n, 1);
    assert_true(b.m->stages.v[0].tiled);
    assert_int_equal(b.m->stages.v[0].updates.n, 2);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}
static void test_stop(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    input(&b, ET_F32, 2, "N", "4");
    assert_true(run(&b, "Softmax", NULL, 0, 1));
    assert_true(b.m->stages.v[0].stop);
    assert_false(b.m->stages.v[1].stop);
    assert_string_equal(b.m->stages.v[0].region, "Softmax");
    assert_string_equal(xt(b.m, b.out[0].t)->origin, "node");
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}

static void test_gradient(void **state) {
  (void)state;
  static const char text[] = "op Square<T: float>(X: T[a...], c: T[]) -> Y: T[a...] {\n  Y[i...] = c[] * X[i...]**2\n  "
                             "grad(X) { dX[a...] = 2.0*c[]*X[a...]*dY[a...] }\n}\n";
  ctx *c = ctx_new();
  CTX_TRY(c) {
    bench b = {.c = c, .l = library(c), .m = expr_module(c)};
    assert_true(notation_add(b.l, text, strlen(text), "mine.ek"));
    const opdef *d = notation_find(b.l, "", "Square");
    assert_true(notation_stated_gradient(b.l, d, "X"));
    assert_false(notation_stated_gradient(b.l, d, "c"));
    input(&b, ET_F32, 2, "N", "4"), input(&b, ET_F32, 0), input(&b, ET_F32, 2, "N", "4");
    arg grads[2] = {{.want = true}, {.want = false}};
    assert_true(notation_elaborate_gradient(b.l, d, b.m, 0, "g", b.in, 2, NULL, 0, &b.in[2], 1, grads));
    assert_int_equal(grads[0].rank, 2);
    assert_string_equal(sym_str(c, grads[0].shape[0]), "N");
    assert_true(expr_verify(b.m, "test"));
    grads[1].want = true;
    assert_false(notation_elaborate_gradient(b.l, d, b.m, 0, "g", b.in, 2, NULL, 0, &b.in[2], 1, grads));
    assert_int_equal(diag_errors(c), 0);
  }
  CTX_CATCH { fail_msg("%s", message(c)); }
  ctx_free(c);
}

/* ---- broken text: messages, never a crash ---------------------------------------------------- */
static char *some_text(size_t *n) {
  static const char *const ops[] = {"Conv", "LSTM", "Slice", "TopK", "Resize", "Einsum", "NonZero"};
  char *volatile text = NULL;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    oplib *l = library(c);
    sbuf b = sbuf_new(ctx_arena(c));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) opdef_print(notation_find(l, "", ops[i]), &b);
    text = strdup(b.s);
    *n = b.n;
  }
  CTX_CATCH { fail(); }
  ctx_free(c);
  return text;
}
static void read_broken(const char *s, size_t len) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    if (!notation_add(notation_lib(c), s, len, "broken.ek")) assert_true(diag_errors(c) > 0);
  }
  CTX_CATCH { assert_true(diag_errors(c) > 0); }
  ctx_free(c);
}
static void test_mutations(void **state) {
  (void)state;
  static const char *const bits[] = {"(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "...",
                                     "~",
                                     "@",
                                     "\"",
                                     "\"\"\"",
                                     ";",
                                     ",",
                                     "=",
                                     "op ",
                                     "fn f(",
                                     " for ",
                                     " where ",
                                     "sum[",
                                     "0...",
                                     "-",
                                     "1e999",
                                     "99999999999999999999",
                                     "\x80",
                                     "\n"};
  size_t n = 0;
  char *text = some_text(&n), *s = malloc(2 * n + 64);
  uint32_t seed = 12345;
  for (int i = 0; i < 400; i++) {
    size_t len = n;
    memcpy(s, text, n);
    for (int k = 0; k < 1 + i % 4; k++) {
      seed = seed * 1664525u + 1013904223u;
      size_t at = seed % len;
      const char *bit = bits[(seed >> 16) % (sizeof bits / sizeof *bits)];
      size_t m = strlen(bit), cut = (seed >> 8) % 5;
      if (at + cut > len) cut = len - at;
      memmove(s + at + m, s + at + cut, len - at - cut);
      memcpy(s + at, bit, m);
      len = len - cut + m;
    }
    read_broken(s, len);
  }
  free(s);
  free(text);
}
static void test_end(void **state) { /* a text that ends within a definition, after every number of words */
  (void)state;
  char s[600] = "fn f(x) = x";
  for (size_t n = strlen(s); n + 4 < sizeof s; n += 4) {
    memcpy(s + n, " + x", 4);
    read_broken(s, n + 2);
  }
}
static void test_depth(void **state) { /* nesting without end */
  (void)state;
  char *deep = malloc(100000);
  memset(deep, '(', 99999);
  memcpy(deep, "fn f(x) = ", 10);
  ctx *c = ctx_new();
  CTX_TRY(c)
  assert_false(notation_add(notation_lib(c), deep, 99999, "deep.ek"));
  CTX_CATCH { fail(); }
  assert_non_null(strstr(message(c), "levels of nesting"));
  ctx_free(c);
  free(deep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library),   cmocka_unit_test(test_later),  cmocka_unit_test(test_override),
      cmocka_unit_test(test_messages),  cmocka_unit_test(test_shapes), cmocka_unit_test(test_guards),
      cmocka_unit_test(test_late),      cmocka_unit_test(test_values), cmocka_unit_test(test_contents),
      cmocka_unit_test(test_tiled),     cmocka_unit_test(test_stop),   cmocka_unit_test(test_gradient),
      cmocka_unit_test(test_mutations), cmocka_unit_test(test_depth),  cmocka_unit_test(test_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
