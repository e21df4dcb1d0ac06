/* Sequences, optionals and strings: what is resolved while compiling, on graphs in text form, evaluated. */
#include "lowerkit.h"

static void test_lists(void **state) {
  (void)state;
#define PARTS "input x: f32[3]\nconst a: f32[2] = [7, 8]\n" NUMBER("one", 1) NUMBER("last", -1) NUMBER("far", 5)
  gives(G(PARTS "s = SequenceConstruct(x, a) \"c\"\nt = SequenceInsert(s, x, one) \"i\"\nu = SequenceErase(t, last) "
                "\"e\"\nn = SequenceLength(t) \"n\"\nm = SequenceAt(t, last) \"m\"\noutput n\noutput m\noutput u\n"),
        NULL, 0, "n: 3 m: 7 8 u.0: 0 1 2 u.1: 0 1 2");
  gives(G(PARTS "s = SequenceEmpty() \"c\"\nt = SequenceInsert(s, x) \"i\"\nu = SequenceInsert(t, x) \"j\"\ny = "
                "ConcatFromSequence(u) {axis = 0, new_axis = 1} \"k\"\nz = ConcatFromSequence(u) {axis = 0} "
                "\"l\"\noutput y\noutput z\n"),
        NULL, 0, "y: 0 1 2 0 1 2 z: 0 1 2 0 1 2");
  gives(
      G("input x: f32[2, 5]\n" NUMBER("two", 2) "s = SplitToSequence(x, two) {axis = 1} \"s\"\nt = SplitToSequence(x) "
                                                "{axis = 0, keepdims = 0} \"t\"\noutput s\noutput t\n"),
      NULL, 0, "s.0: 0 1 5 6 s.1: 2 3 7 8 s.2: 4 9 t.0: 0 1 2 3 4 t.1: 5 6 7 8 9");
  refused(G(PARTS "s = SequenceConstruct(x, a) \"c\"\ny = SequenceAt(s, far) \"at\"\noutput y\n"), NULL, 0,
          "no such position in a sequence of 2");
  /* a position, or how many there are, that only the run knows */
  gives(
      G("input p: i64[]\ninput x: f32[3]\ns = SequenceConstruct(x, x) \"c\"\ny = SequenceAt(s, p) \"at\"\noutput y\n"),
      NULL, 0, "y: 0 1 2");
  gives(G("input x: f32[n, 2]\n" NUMBER("two", 2)
              NUMBER("last", -1) "s = SplitToSequence(x, two) {axis = 0} \"s\"\nn = "
                                 "SequenceLength(s) \"n\"\ny = SequenceAt(s, last) \"at\"\noutput n\noutput y\n"),
        NULL, 0, "n: 2 y: 4 5");
  refused(G("input x: f32[n, 2]\ns = SplitToSequence(x) {axis = 0} \"s\"\noutput s\n"), NULL, 0,
          "only the run knows how many tensors");
  refused(
      G("input x: f32[n]\ninput z: i64[n]\ns = SplitToSequence(x) {axis = 0} \"s\"\nt = SequenceInsert(s, z) \"i\"\n"
        "y = SequenceLength(t) \"n\"\noutput y\n"),
      NULL, 0, "one type and rank");
  refused(G(PARTS "y = SequenceLength(x) \"n\"\noutput y\n"), NULL, 0, "a sequence is needed");
  refused(G(PARTS "s = SequenceConstruct(x, a) \"c\"\ny = Neg(s) \"n\"\noutput y\n"), NULL, 0, "a tensor is needed");
}
static void test_ports(void **state) {
  (void)state;
  static const dimfix two[] = {{"s", 2, 2, 2, 0}}, none[] = {{"s", 0, 0, 0, 0}}, one[] = {{"s", 1, 1, 1, 0}},
                      much[] = {{"s", 2, 2, 2, 0}};
#define SUM G("input s: list f32[3]\ny = SequenceLength(s) \"n\"\noutput y\noutput s\n")
  gives(SUM, two, 1, "y: 2 s.0: 0 1 2 s.1: 0 1 2");
  gives(SUM, none, 1, "y: 0");
  refused(SUM, NULL, 0, "--dim s=N");
#define MAYBE G("input s: optional f32[2]\ny = OptionalHasElement(s) \"n\"\noutput y\noutput s\n")
  gives(MAYBE, one, 1, "y: 1 s: 0 1");
  gives(MAYBE, none, 1, "y: 0");
  refused(MAYBE, much, 1, "from 0 to 1");
}
static void test_flow(void **state) {
  (void)state;
  static const char grow[] = G(NUMBER("four", 4) NUMBER(
      "one", 1) "const yes: bool[] = [1]\ninput x: f32[4]\ne = SequenceEmpty() \"e\"\ns, c = Loop(four, yes, e) {body "
                "= graph \"b\" {\n"
                "  input i\n  input go\n  input l\n  const zero: i64[1] = [0]\n  const ax: i64[1] = [0]\n  k = Add(i, "
                "one) \"a\"\n  k1 = Unsqueeze(k, ax) \"u\"\n  p = Slice(x, zero, k1) \"sl\"\n"
                "  m = SequenceInsert(l, p) \"in\"\n  two = Add(k, k) \"d\"\n  const three: i64[] = [3]\n  more = "
                "Less(k, three) \"le\"\n  output more\n  output m\n  output two\n}} \"loop\"\noutput s\noutput c\n");
  gives(grow, NULL, 0, "s.0: 0 s.1: 0 1 s.2: 0 1 2 c: 2 4 6"); /* the condition ends it */
  gives(G("input x: f32[2]\nconst a: f32[1] = [9]\ns = SequenceConstruct(x, a) \"c\"\nt = SequenceMap(s, a) {body = "
          "graph \"b\" {\n  input p\n  input q\n  y = Add(p, q) \"add\"\n  output y\n}} \"map\"\noutput t\n"),
        NULL, 0, "t.0: 9 10 t.1: 18");
  gives(G("input x: f32[2]\nconst c: bool[] = [0]\ny = If(c) {then_branch = graph \"t\" {\n  s = SequenceConstruct(x) "
          "\"a\"\n  output s\n}, else_branch = graph \"e\" {\n  t = SequenceConstruct(x, x) \"b\"\n  output t\n}} "
          "\"if\"\noutput y\n"),
        NULL, 0, "y.0: 0 1 y.1: 0 1");
  refused(G("input x: f32[2]\ninput c: bool[]\ny = If(c) {then_branch = graph \"t\" {\n  s = SequenceConstruct(x) "
            "\"a\"\n  output s\n}, else_branch = graph \"e\" {\n  t = SequenceConstruct(x, x) \"b\"\n  output t\n}} "
            "\"if\"\noutput y\n"),
          NULL, 0, "condition must be known");
  /* a branch that cannot fit these sizes is an error only when it is taken */
#define UNFIT(wrong, right)                                                                                            \
  G("input x: f32[2]\ninput c: bool[]\nconst n: i64[1] = [3]\ny = If(c) {then_branch = graph \"t\" {\n  a = " right    \
    " \"a\"\n  output a\n}, else_branch = graph \"e\" {\n  b = " wrong " \"b\"\n  output b\n}} \"if\"\noutput y\n")
  gives(UNFIT("Neg(x)", "Reshape(x, n)"), NULL, 0, "y: -0 -1");
  refused(UNFIT("Reshape(x, n)", "Neg(x)"), NULL, 0, "else branch of this If does not fit these sizes: b: ");
  refused(UNFIT("Unheard(x)", "Neg(x)"), NULL, 0, "Unheard is not defined");
}

/* ---- strings --------------------------------------------------------------------------------- */
static void test_strings(void **state) {
  (void)state;
#define WORDS                                                                                                          \
  "const x: str[4] = [\"ab\", \"\", \"Abc\", \"b\"]\nconst y: str[2] = [\"long word\", \"b\"]\nconst at: i64[3] = "    \
  "[2, 0, 1]\n"
  gives(G(WORDS "z = Gather(x, at) \"g\"\noutput z\n"), NULL, 0, "z:Abcab||||");
  gives(G(WORDS "const s: i64[2] = [3, 2]\nz = Concat(y, x) {axis = 0} \"c\"\nw = Reshape(z, s) \"r\"\noutput w\n"),
        NULL, 0, "w:long wordb||||||||ab||||||||||||||||Abc||||||b||||||||");
  gives(G(WORDS "const c: bool[2] = [1, 0]\nconst b: str[1] = [\"b\"]\nz = Where(c, b, y) \"w\"\ne = Equal(z, y) "
                "\"e\"\noutput z\noutput e\n"),
        NULL, 0, "z:b||||||||b|||||||| e: 0 1");
  gives(G(WORDS "const b: str[1] = [\"b\"]\nz = StringConcat(x, b) \"w\"\noutput z\n"), NULL, 0, "z:abb|b|||Abcbbb||");
  gives(G("const x: str[3] = [\"Ab c\", \"no\", \"ab C\"]\nz = StringNormalizer(x) {stopwords = strings [\"NO\"], "
          "case_change_action = \"LOWER\"} \"n\"\noutput z\n"),
        NULL, 0, "z:ab c||ab c||");
  /* the case of all alphabets, by character: some become several, or take more bytes, or have none */
#define CASE(words, action)                                                                                            \
  G("const x: str[3] = [" words "]\nz = StringNormalizer(x) {case_change_action = \"" action "\"} \"n\"\noutput z\n")
  gives(CASE("\"Été\", \"ΟΔΟΣ\", \"Ⱥ\"", "LOWER"), NULL, 0, "z:été|||||||οδος||||ⱥ|||||||||");
  gives(CASE("\"straße\", \"ﬃ\", \"中\\xff\"", "UPPER"), NULL, 0,
        "z:STRASSE||||||||||||||FFI||||||||||||||||||中\xff|||||||||||||||||");
  gives(CASE("\"Ā\", \"Ĕ\", \"b\"", "LOWER"), NULL, 0, "z:ā|ĕ|b||"); /* capitals and small letters alternate */
  gives(G("const x: str[3] = [\"Über\", \"b\", \"üBER\"]\nz = StringNormalizer(x) {stopwords = strings [\"über\"]} "
          "\"n\"\noutput z\n"),
        NULL, 0, "z:b||||");
#define GRAMS(x, pool, more)                                                                                           \
  G("const x: " x                                                                                                      \
    "\nz = TfIdfVectorizer(x) {mode = \"TF\", min_gram_length = 1, max_gram_length = 2, max_skip_count = " more        \
    ", ngram_counts = [0, 2], ngram_indexes = [1, 0, 2], " pool "} \"n\"\noutput z\n")
  gives(GRAMS("str[2, 3] = [\"a\", \"bc\", \"a\", \"b\", \"a\", \"bc\"]",
              "pool_strings = strings [\"a\", \"bc\", \"a\", \"bc\"]", "0"),
        NULL, 0, "z: 1 2 1 1 1 1");
  gives(GRAMS("str[3] = [\"a\", \"\", \"bc\"]", "pool_strings = strings [\"a\", \"bc\", \"a\", \"bc\"]", "1"), NULL, 0,
        "z: 1 1 1");
  gives(GRAMS("i64[3] = [4, 5, 4]", "pool_int64s = [4, 5, 4, 5]", "0"), NULL, 0, "z: 1 2 1");
  gives(G("const x: str[2] = [\" a  bb c \", \"\"]\nz, n = StringSplit(x) {maxsplit = 1} \"n\"\noutput z\noutput n\n"),
        NULL, 0, "z:a||||||||bb c |||||||||||||||||||||| n: 2 0");
  gives(G("const x: str[2] = [\"a,,b\", \"\"]\nz, n = StringSplit(x) {delimiter = \",\"} \"n\"\noutput z\noutput n\n"),
        NULL, 0, "z:a|||||||b||||||||||||||| n: 3 1");
  gives(G("const x: str[3] = [\"b\", \"zz\", \"a\"]\nz = \"ai.onnx.ml\"::LabelEncoder(x) {keys_strings = strings "
          "[\"a\", \"b\"], values_int64s = [5, 6]} \"l\"\noutput z\n"),
        NULL, 0, "z: 6 -1 5");
  gives(G("const x: i64[3] = [2, 9, 1]\nz = \"ai.onnx.ml\"::LabelEncoder(x) {keys_int64s = [1, 2], values_strings = "
          "strings [\"one\", \"two\"], default_string = \"?\"} \"l\"\noutput z\n"),
        NULL, 0, "z:two?||one");
  refused(G(WORDS "z = Add(y, y) \"a\"\noutput z\n"), NULL, 0, "num");
  refused(G(WORDS "z = Less(y, y) \"a\"\noutput z\n"), NULL, 0, "strings");
}
/* ---- classical machine learning -------------------------------------------------------------- */
static void test_ml(void **state) {
  (void)state;
#define ROWS "const x: f32[3, 2] = [3, 1, 3, 5, 4, 2]\n"
  gives(G(ROWS "const r: i64[1] = [0]\nconst f: i64[5] = [1, 0, 0, 0, 0]\nconst s: f32[5] = [2, 3, 0, 0, 0]\nconst m: "
               "i64[5] = [1, 0, 0, 0, 0]\nconst yes: i64[5] = [2, 3, 2, 3, 4]\nconst no: i64[5] = [1, 4, 2, 3, "
               "4]\nconst q: i64[5] = [0, 0, 0, 0, 0]\n"
               "const w: f32[3, 1] = [10, 20, 30]\nconst b: f32[1] = [0.5]\ny = einkorn::TreeScores(x, r, f, s, m, "
               "yes, no, q, w, b) {depth = 2} \"t\"\noutput y\n"),
        NULL, 0, "y: 10.5 20.5 30.5");
  gives(G(ROWS "y, z = \"ai.onnx.ml\"::LinearClassifier(x) {coefficients = floats [1, 0, 0, 1], classlabels_strings = "
               "strings [\"left\", \"right\"]} \"l\"\noutput y\noutput z\n"),
        NULL, 0, "y:left|rightleft| z: 3 1 3 5 4 2");
  gives(G(ROWS "y, z = \"ai.onnx.ml\"::LinearClassifier(x) {coefficients = floats [1, -1], intercepts = floats [-1], "
               "classlabels_ints = [7, 8]} \"l\"\noutput y\noutput z\n"),
        NULL, 0, "y: 8 7 8 z: 0 1 4 -3 0 1");
  gives(G(ROWS "y = \"ai.onnx.ml\"::SVMRegressor(x) {kernel_type = \"RBF\", kernel_params = floats [0.5, 0, 3], "
               "n_supports = 2, coefficients = floats [2, -1], rho = floats [0.25], support_vectors = floats [3, 1, 4, "
               "2]} \"s\"\noutput y\n"),
        NULL, 0, "y: 1.88212 0.243933 -0.0142411");
  gives(G(ROWS "y, z = \"ai.onnx.ml\"::SVMClassifier(x) {classlabels_ints = [5, 6, 7], vectors_per_class = [1, 1, 1], "
               "coefficients = floats [1, -1, -1, 1, 1, -1], rho = floats [0, 0, 0], "
               "support_vectors = floats [3, 1, 3, 5, 4, 0]} \"s\"\noutput y\noutput z\n"),
        NULL, 0, "y: 6 6 6 z: -4 -2 2 -20 2 22 -8 -2 6");
  gives(G(ROWS "y = \"ai.onnx.ml\"::Scaler(x) {offset = floats [1, 2], scale = floats [2]} \"l\"\nz = "
               "\"ai.onnx.ml\"::Normalizer(x) {norm = \"L1\"} \"n\"\noutput y\noutput z\n"),
        NULL, 0, "y: 4 -2 4 6 6 0 z: 0.75 0.25 0.375 0.625 0.666667 0.333333");
  gives(G("const x: str[3] = [\"b\", \"a\", \"c\"]\ny = \"ai.onnx.ml\"::OneHotEncoder(x) {cats_strings = strings "
          "[\"a\", \"b\"]} \"o\"\n"
          "z = \"ai.onnx.ml\"::CategoryMapper(x) {cats_strings = strings [\"a\", \"b\"], cats_int64s = [4, 5]} "
          "\"m\"\noutput y\noutput z\n"),
        NULL, 0, "y: 0 1 1 0 0 0 z: 5 4 -1");
}
/* Sizes that the model computes from sizes. */
static void test_sizes(void **state) {
  (void)state;
  gives(G("input x: f32[2, 1]\nconst b: f32[3] = [10, 20, 30]\ny = Add(x, b) \"a\"\noutput y\n"), NULL, 0,
        "y: 10 20 30 11 21 31");
#define CHOSEN(op)                                                                                                     \
  G("input x: f32[N]\nconst a: i64[1] = [2]\nconst b: i64[1] = [4]\ns = Shape(x) \"s\"\nc = " op                       \
    "(s, s) \"c\"\nw = Where(c, a, b) \"w\"\ny = ConstantOfShape(w) \"y\"\noutput y\n")
  gives(CHOSEN("Less"), NULL, 0, "y: 0 0 0 0");
  gives(CHOSEN("LessOrEqual"), NULL, 0, "y: 0 0");
  refused(G("input x: f32[N]\nconst five: i64[1] = [5]\ns = Shape(x) \"s\"\nc = Greater(s, five) \"c\"\n"
            "y = If(c) {then_branch = graph \"t\" {\n  a = Flatten(x) \"f\"\n  output a\n}, else_branch = graph \"e\" "
            "{\n  b = Identity(x) \"i\"\n  output b\n}} \"if\"\noutput y\n"),
          NULL, 0, "N must lie in 6");
  /* what a later node asks simplifies those before, and is checked all the same */
  refused(G("input x: f32[1, 2, N]\nconst four: i64[1] = [4]\np = MaxPool(x) {kernel_shape = [2], strides = [2]} "
            "\"p\"\ny = Reshape(p, four) \"y\"\noutput y\n"),
          NULL, 0, "N must lie in 4..5");
}
static void test_regex(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *text;
    bool match;
  } cases[] = {
      {"a*b", "aaab", 1},
      {"a*b", "aaa", 0},
      {"a|bc", "bc", 1},
      {"a|bc", "ac", 0},
      {"(ab)+", "abab", 1},
      {"(ab)+", "", 0},
      {"[a-c]{2,3}", "abc", 1},
      {"[a-c]{2,3}", "a", 0},
      {"[a-c]{2,3}", "abca", 0},
      {"x{2}", "xx", 1},
      {"x{2,}", "xxxxx", 1},
      {"x{2,}", "x", 0},
      {"[^a-c]", "d", 1},
      {"[^a-c]", "b", 0},
      {"[^a]", "é", 1},
      {".", "é", 1},
      {".", "中", 1},
      {"..", "中", 0},
      {".", "\xf0\x9f\x98\x80", 1},
      {"é?", "é", 1},
      {"é?", "", 1},
      {"\\d+\\.\\d*", "3.14", 1},
      {"\\d+\\.\\d*", "3x14", 0},
      {"\\w+\\s\\W", "ab -", 1},
      {"[\\w.-]+", "a.b-c", 1},
      {"[[:alpha:]]+", "abC", 1},
      {"[[:alpha:]]+", "ab1", 0},
      {"\\bfoo\\b", "foo", 1},
      {"foo\\Bbar", "foobar", 1},
      {"foo\\bbar", "foobar", 0},
      {"foo\\b bar", "foo bar", 1},
      {"^a$", "a", 1},
      {"a^", "a", 0},
      {"(^|x)a", "xa", 1},
      {"(?i)aBc", "AbC", 1},
      {"(?:ab)?c", "c", 1},
      {"", "", 1},
      {"", "a", 0},
      {"a*?b", "aab", 1},
      {"(a|b)*abb", "abaabb", 1},
      {"(a|b)*abb", "abaab", 0},
      {"\\x41", "A", 1},
      {"\\x{41}", "A", 1},
      {"[]a]+", "]a", 1},
      {"a{,2}", "a{,2}", 1},
      {"((a{0,3}){0,3}b)?", "aaaaaab", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[600];
    sbuf b;
    ctx *c = ctx_new();
    b = sbuf_new(ctx_arena(c));
    sb_quoted(&b, cases[i].pattern, strlen(cases[i].pattern));
    sbuf t = sbuf_new(ctx_arena(c));
    sb_quoted(&t, cases[i].text, strlen(cases[i].text));
    snprintf(text, sizeof text, G("const x: str[1] = [%s]\nz = RegexFullMatch(x) {pattern = %s} \"n\"\noutput z\n"),
             t.s, b.s);
    ctx_free(c);
    gives(text, NULL, 0, cases[i].match ? "z: 1" : "z: 0");
  }
  static const char *const broken[] = {
      "(a",       "a)",    "[a",    "*",       "a**",
      "\\\\p{L}", "[b-a]", "(?s)a", "a{2000}", "((((((((a{9}){9}){9}){9}){9}){9}){9}){9})"};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    char text[600];
    snprintf(text, sizeof text,
             G("const x: str[1] = [\"a\"]\nz = RegexFullMatch(x) {pattern = \"%s\"} \"n\"\noutput z\n"), broken[i]);
    refused(text, NULL, 0, "the pattern");
  }
}
/* Pieces of texts; what they must be was asked of onnxruntime. Short ones have zeros (|) behind them. */
static void test_tokens(void **state) {
  (void)state;
  static const struct {
    const char *texts, *how, *tokens;
  } cases[] = {
      {"str[1] = [\"a1b-c2\"]", "separators = strings [\"-\", \"^[a-z]\"]", "z:1b||||2|||||"},
      {"str[1] = [\"aXYb\"]", "separators = strings [\"X\", \"XY\"]", "z:a|||Yb||"},
      {"str[2] = [\"a  b\", \"\"]", "separators = strings [\" \"], mark = 1",
       "z:\002|||a|||b|||\003|||\002|||\003|||#|||#|||"},
      {"str[1] = [\"aé b\"]", "separators = strings [\"é?\"], mark = 1", "z:"},
      {"str[2] = [\"hél\", \"ab\"]", "separators = strings [\"\"]", "z:h|||\303\251||l|||a|||b|||#|||"},
      {"str[1] = [\"abcab\"]", "tokenexp = \"a|ab\"", "z:ab|||ab|||"},
      {"str[2] = [\"ab c\", \"abc\"]", "tokenexp = \"[a-z]+\", mincharnum = 2", "z:ab||abc|"},
      {"str[2] = [\"ab cd\", \"x ab\"]", "tokenexp = \"\\\\b[a-z]+$\"", "z:cd|||ab|||"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[600];
    snprintf(text, sizeof text,
             G("const x: %s\nz = \"com.microsoft\"::Tokenizer(x) {pad_value = \"#\", %s%s%s} \"n\"\noutput z\n"),
             cases[i].texts, cases[i].how, strstr(cases[i].how, "mark") ? "" : ", mark = 0",
             strstr(cases[i].how, "mincharnum") ? "" : ", mincharnum = 1");
    gives(text, NULL, 0, cases[i].tokens);
  }
  refused(G("const x: str[1] = [\"a\"]\nz = \"com.microsoft\"::Tokenizer(x) {pad_value = \"#\", mark = 0, mincharnum "
            "= 1} \"n\"\noutput z\n"),
          NULL, 0, "either separators or tokenexp");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists),   cmocka_unit_test(test_ports),  cmocka_unit_test(test_flow),
      cmocka_unit_test(test_strings), cmocka_unit_test(test_ml),     cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_regex),   cmocka_unit_test(test_tokens),
  };
  return cmocka_run_group_tests_name("lists", tests, NULL, NULL);
}
