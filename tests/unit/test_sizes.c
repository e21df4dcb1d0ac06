/* Names of sizes, and sizes that only a run knows: what --dim may name, whenever a model is lowered; broadcasts against
 * a size that is 0 or 1; one number given as a tensor of one element; axes that Squeeze drops. */
#include "lowerkit.h"

/* ---- names ----------------------------------------------------------------------------------- */
/* The graph is lowered twice with the same --dim, as for a variant: what it names is known both times. */
static void twice(const char *text, dimfix dim, const char *const *late, uint32_t nlate) {
  ctx *c = ctx_new();
  const char *volatile first = NULL, *volatile second = NULL;
  volatile bool named = true;
  CTX_TRY(c) {
    graph *g = graph_parse(c, text, "test");
    oplib *l = notation_lib(c);
    assert_true(g && notation_add_builtin(l));
    for (int turn = 0; turn < 2; turn++) {
      emodule *m = lower_graph(g, l, &dim, 1);
      if (!m) break;
      sbuf b = sbuf_new(ctx_arena(c));
      expr_print(m, &b, (print_opts){.weights_inline = true});
      *(turn ? &second : &first) = b.s;
      for (uint32_t i = 0; i < nlate; i++) named = named && i < m->lates.n;
      for (uint32_t i = 0; named && i < nlate; i++) named = !strcmp(sym_name(c, m->lates.v[i].symbol), late[i]);
    }
  }
  CTX_CATCH {}
  if (!first || !second || strcmp(first, second) || !named)
    fail_msg("--dim %s: %s\n%s\n----\n%s", dim.name, message(c), first ? first : "", second ? second : "");
  ctx_free(c);
}
static void test_names(void **state) {
  (void)state;
#define PAIR G("input x: f32[b, t]\ninput y: f32[b, 2*t]\nz = Concat(x, y) {axis = 1} \"c\"\noutput z\n")
  twice(PAIR, (dimfix){"t", 4, 4, 4, 0}, NULL, 0);
  twice(PAIR, (dimfix){"t", -1, 2, 4, 0}, NULL, 0);
  twice(PAIR, (dimfix){"t", 4, 1, 8, 0}, NULL, 0);
  twice(G("input y: f32[3*w]\nz = Neg(y) \"c\"\noutput z\n"), (dimfix){"w", 4, 4, 4, 0}, NULL, 0);
  twice(G("input s: str[2]\nz = Identity(s) \"c\"\noutput z\n"), (dimfix){"s.bytes", 4, 4, 4, 0}, NULL, 0);
  twice(G("input s: list f32[2]\nz = ConcatFromSequence(s) {axis = 0} \"c\"\noutput z\n"), (dimfix){"s", 2, 2, 2, 0},
        NULL, 0);
  static const char *const found[] = {"nz.m"};
  twice(G("input x: f32[b]\nz = NonZero(x) \"nz\"\noutput z\n"), (dimfix){"nz.m", -1, 0, 2, 0}, found, 1);
  twice(G("input x: f32[b]\nz = NonZero(x) \"nz\"\noutput z\n"), (dimfix){"b", -1, 0, 5, 0}, found, 1);
  static const dimfix wrong = {"q", 4, 4, 4, 0};
  refused(PAIR, &wrong, 1, "no input has a dimension of that name; open are b, t");
}

/* ---- sizes that are 0 or 1 ------------------------------------------------------------------- */
#define FIRST "const z: i64[1] = [0]\nconst o: i64[1] = [1]\ns = Slice(x, z, o, z) \"s\"\n" /* min(1, n) of them */
static void test_at_most_one(void **state) {
  (void)state;
  gives(G("input x: f32[n]\ninput u: f32[m]\n" FIRST "h = Shape(s) \"h\"\ny = Expand(u, h) \"e\"\noutput y\n"), NULL, 0,
        "y: 0 1 2");
  gives(G("input x: f32[n]\ninput u: f32[m]\n" FIRST "y = Add(u, s) \"e\"\noutput y\n"), NULL, 0, "y: 0 1 2");
  gives(G("input x: f32[n]\nconst u: f32[2] = [5, 6]\n" FIRST "y = Sub(u, s) \"e\"\noutput y\n"), NULL, 0, "y: 5 6");
  gives(G("input x: f32[n]\nconst u: f32[2] = [5, 6]\nconst c: bool[] = [1]\n" FIRST
          "y = Where(c, s, u) \"e\"\noutput y\n"),
        NULL, 0, "y: 0 0");
  gives(G("input x: f32[n, 2]\ninput w: f32[m]\nconst z: i64[1] = [0]\nconst o: i64[1] = [1]\ns = Slice(x, z, o, z) "
          "\"s\"\nt = Slice(w, z, o, z) \"t\"\ny = Mul(s, t) \"e\"\noutput y\n"),
        NULL, 0, "y: 0 0");
  /* at most 2, and beside 3 */
  gives(G("input x: f32[2]\ninput m: bool[2]\nconst u: f32[3] = [5, 6, 7]\nc = Compress(x, m) {axis = 0} \"c\"\n"
          "y = Add(c, u) \"e\"\nz = Sub(u, c) \"f\"\noutput y\noutput z\n"),
        NULL, 0, "y: 6 7 8 z: 4 5 6");
  static const dimfix empty[] = {{"n", 0, 0, 0, 0}};
  gives(G("input x: f32[n]\ninput u: f32[1]\n" FIRST "h = Shape(s) \"h\"\ny = Expand(u, h) \"e\"\noutput y\n"), empty,
        1, "y:");
  refused(G("input x: f32[n]\ninput u: f32[2]\n" FIRST "y = Add(u, s) \"e\"\noutput y\n"), empty, 1, "broadcast");
}
/* An axis of size 0: an index that is divided by it is never computed; -1 beside it stands for no size. */
static void test_nothing(void **state) {
  (void)state;
  gives(G("input x: f32[0]\nconst r: i64[1] = [4]\ny = Tile(x, r) \"t\"\noutput y\n"), NULL, 0, "y:");
  gives(G("input x: f32[0, 3]\nconst r: i64[2] = [2, 2]\ny = Tile(x, r) \"t\"\nh = Shape(y) \"h\"\noutput h\n"), NULL,
        0, "h: 0 6");
  refused(G("input x: f32[0]\nconst r: i64[2] = [0, -1]\ny = Reshape(x, r) \"r\"\noutput y\n"), NULL, 0,
          "beside a size of 0, -1 stands for no size in particular");
}

/* ---- one number ------------------------------------------------------------------------------ */
static void test_one_number(void **state) {
  (void)state;
#define QUANT(shape)                                                                                                   \
  G("const x: i8[2] = [10, 20]\nconst s: f32" shape " = [0.5]\nconst z: i8" shape                                      \
    " = [4]\ny = \"com.microsoft\"::QLinearAdd(x, s, z, x, s, z, s, z) \"q\"\noutput y\n")
  gives(QUANT("[]"), NULL, 0, "y: 16 36");
  gives(QUANT("[1]"), NULL, 0, "y: 16 36");
  gives(QUANT("[1, 1]"), NULL, 0, "y: 16 36");
  refused(G("const x: i8[2] = [10, 20]\nconst s: f32[2] = [1, 2]\nconst z: i8[] = [4]\n"
            "y = \"com.microsoft\"::QLinearAdd(x, s, z, x, s, z, s, z) \"q\"\noutput y\n"),
          NULL, 0, "input as must be one number; axis 0 of what is given has size 2");
  gives(G("const two: i64[1] = [3]\nconst one: i64[1] = [1]\ninput x: i64[1]\ny = Range(x, two, one) \"r\"\n"
          "output y\n"),
        NULL, 0, "y: 0 1 2");
  gives(G("const x: i8[2] = [10, 20]\nconst z: i8[1] = [4]\nconst two: i64[1] = [2]\nconst r: i64[1] = [1]\nconst h: "
          "f32[2] = [0.5, 0.5]\nconst a: i64[1] = [0]\ns = Slice(h, a, r, a) \"s\"\n"
          "y = \"com.microsoft\"::QLinearAdd(x, s, z, x, s, z, s, z) \"q\"\noutput y\n"),
        NULL, 0, "y: 16 36");
}

/* ---- axes that are dropped ------------------------------------------------------------------- */
/* Squeeze of what is `in` here; then, in node order, `more`, whose result z has the declared type. */
static void squeezed(const char *in, const char *sizes, const char *more, const char *z, const char *want) {
  ctx *c = ctx_new();
  const char *volatile got = NULL;
  CTX_TRY(c) {
    graph *g = graph_parse(
        c,
        arena_fmt(ctx_arena(c),
                  "graph \"g\" ir 10 opset 20 {\ninput x: %s\nconst k: f32[] = [2]\ny = Squeeze(x) \"s\"\nz%s = %s "
                  "\"m\"\noutput z\n}\n",
                  in, z, more),
        "test");
    oplib *l = notation_lib(c);
    assert_true(g && notation_add_builtin(l));
    g->outputs.v[0]->declared = z[0] != 0;
    emodule *m = lower_graph(g, l, NULL, 0);
    sbuf b = sbuf_new(ctx_arena(c));
    for (uint32_t i = 0; m && i < m->guards.n; i++)
      sb_fmt(&b, "%s%s %s 0", i ? ", " : "", sym_str(c, m->guards.v[i].ge0), m->guards.v[i].is_eq ? "==" : ">=");
    sb_fmt(&b, "%s -> [", sizes);
    const tensor *t = m ? xt(m, m->outputs.v[0].t) : NULL;
    for (uint32_t d = 0; t && d < t->rank; d++) sb_fmt(&b, "%s%s", d ? ", " : "", sym_str(c, t->shape[d]));
    sb_put(&b, "]");
    if (m) got = b.s;
  }
  CTX_CATCH {}
  if (!got || strcmp(got, want)) fail_msg("Squeeze of %s: %s, not %s (%s)", in, got ? got : "", want, message(c));
  ctx_free(c);
}
static void test_squeeze(void **state) {
  (void)state;
  squeezed("f32[a, 3, b]", "", "Neg(y)", ": f32[3]", "a - 1 == 0, b - 1 == 0 -> [3]");
  squeezed("f32[a, 1, b]", "", "Relu(y)", ": f32[a, b]",
           "-min(a - 1, -a + 1) - 1 >= 0, -min(-b + 1, b - 1) - 1 >= 0 -> [a, b]");
  squeezed("f32[a, b]", "", "Relu(y)", ": f32[b]", "-min(-b + 1, b - 1) - 1 >= 0, a - 1 == 0 -> [b]");
  squeezed("f32[1, a, 5]", "", "Neg(y)", ": f32[5]", "a - 1 == 0 -> [5]");
  squeezed("f32[1, 4, 5]", "", "Neg(y)", ": f32[4, 5]", " -> [4, 5]");
  squeezed("f32[a, 3, b]", "", "Mul(k, y)", ": f32[3]", "a - 1 == 0, b - 1 == 0 -> [3]");
  squeezed("f32[a, 3]", "", "Neg(y)", "", "-min(a - 1, -a + 1) - 1 >= 0 -> [a, 3]");
}
/* ---- sizes that follow from floats ------------------------------------------------------------ */
/* A size that is known when compiling is what a run would find, also where floats are of 16 bits: 1.0009 is more than
 * one sample. */
static void test_of_floats(void **state) {
  (void)state;
  gives(G("const x: bf16[1, 1, 2, 1] = [0, 100]\nconst r: bf16[1, 4] = [0, -0.1298828125, 1, 0.87109375]\n"
          "const b: i64[1] = [0]\ny = RoiAlign(x, r, b) \"e\"\noutput y\n"),
        NULL, 0, "y: 6.03125");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),   cmocka_unit_test(test_at_most_one),
                                     cmocka_unit_test(test_nothing), cmocka_unit_test(test_one_number),
                                     cmocka_unit_test(test_squeeze), cmocka_unit_test(test_of_floats)};
  return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
