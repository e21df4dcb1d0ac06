/* The program: finds the subcommand, runs it, and turns its end into an exit code. */
#include "cli/cli.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const command commands[] = {
    {CMD_RUN, "run", "MODEL [options]", "runs a model on given or random data", cmd_run, 1, 1,
     "Compiles the model, or loads a compiled one, runs it once and tells of each output its type, sizes, range and "
     "first values; or writes the outputs to a file, or compares them with expected ones. Data that are "
     "named must be there and fit; without any the inputs are random. Open sizes of made-up data that --dim does not "
     "fix are the least that run.",
     "model.onnx --inputs in.npz --output out.npz"},
    {CMD_COMPILE, "compile", "MODEL -o OUT [options]", "compiles a model for use without Einkorn", cmd_compile, 1, 1,
     "Saves a model as a library (.so), an object (.o) or freestanding C source (.c), and a header (.h) beside it that "
     "declares NAME_run and NAME_info. The result needs libc, libm and threads at most. Tells the working memory "
     "of a run, as a number or as a formula in the open dimensions. As .onnx the model itself is saved, for other "
     "programs: functions inlined, operators in their newest form, constants and decided branches computed.",
     "model.onnx -o model.so"},
    {CMD_SHOW, "show", "MODEL [--stage STAGE] [options]", "prints a model at any level of the compiler", cmd_show, 1, 1,
     "Prints the model as text: as it was read, as formulas, as loops, as a program of kernels, as LLVM code or as "
     "assembly; at the end of that stage or after one of its passes.",
     "model.onnx --stage expr --after inline --node conv1"},
    {CMD_CHECK, "check", "MODEL [options]", "tells all problems of a model at once", cmd_check, 1, 1,
     "Does everything short of generating code, and tells every problem with the node's name and what would help.",
     "model.onnx --dim N=8"},
    {CMD_INFO, "info", "MODEL [--layers] [options]", "inputs, outputs, parameters, work", cmd_info, 1, 1,
     "Tells the inputs and outputs, the number of parameters, and the work of one run counted in the operators' "
     "definitions: as numbers, or as formulas where they depend on open dimensions.",
     "model.onnx --layers --dim N=1"},
    {CMD_BENCH, "bench", "MODEL [--seconds S] [options]", "measures the speed of a model", cmd_bench, 1, 1,
     "Runs the model for some seconds and tells the median, the 10th, 90th and 99th percentile, runs and items a "
     "second, compile time, memory, "
     "and the share of the multiply-adds per second that the machine reaches in the same minute. With --against other "
     "engines run the same model on the same inputs in turns, each "
     "in a process of its own; told are the ratios, the difference of the results, the time from nothing to the first "
     "result, and memory.",
     "model.onnx --threads 1 --against onnxruntime,openvino --peers ~/peers"},
    {CMD_EXPLAIN, "explain", "MODEL [options]", "tells where the time of a run goes, kernel by kernel", cmd_explain, 1,
     1,
     "Runs the model for some seconds with a clock around each kernel, and tells of each: its time, the nodes of the "
     "model that it computes, its operations and bytes per second, the least time that the machine allows for them, "
     "and why it "
     "is not one kernel with those that it reads from. What the machine can do is measured in the same minute.",
     "model.onnx --threads 1 --sort time"},
    {CMD_DIFF, "diff", "MODEL [--inputs FILE.npz] [options]", "tells which tensor is wrong first, and why", cmd_diff, 1,
     1,
     "Compares every tensor on the way with what the definition of its operator gives in f64 for the inputs that its "
     "node really had, and tells the first whose error is larger than rounding explains; then the smallest part of "
     "the model that still shows it, which -o writes as a model with inputs, and with --passes the pass of the "
     "compiler that changed the values. With --against the values of somebody else are judged in the same way. "
     "Memory is bounded: tensors are compared some at a time. Exit code 0: nothing differs; 1: something does.",
     "model.onnx --inputs in.npz --passes -o wrong.onnx"},
    {CMD_QUANTIZE, "quantize", "MODEL --data F -o OUT.onnx [options]",
     "makes a model of int8, or of weights of a few bits, of an f32 one", cmd_quantize, 1, 1,
     "Quantises the convolutions, matrix products and other sums of products of a model to eight-bit integers. The "
     "model runs on samples of data, which tell the ranges of its tensors; with five samples or more the last fifth "
     "only measures the error. The result is the same model with QuantizeLinear and DequantizeLinear of the ONNX "
     "standard, for any engine. With --scheme int4 constant matrices alone become codes of a few bits, with "
     "onnxruntime's MatMulNBits; then data are needed for --method gptq and budgets only. With --scheme caches the "
     "states that --state names, such as "
     "the caches of keys and values of a decoder, are kept in int8, and its products stay as they are. Tells the error "
     "of the "
     "outputs and of each layer as signal to noise (SQNR), the size, "
     "and which layers stay as they are and why.",
     "model.onnx --data samples.npz --per-channel -o model.int8.onnx"},
    {CMD_TRAIN, "train", "MODEL --data F --loss L -o OUT.onnx [options]", "trains a model on a data set", cmd_train, 1,
     1,
     "Trains the model: forward pass, loss, gradient and update are one compiled program. Samples come in a new order "
     "in "
     "each epoch; those that fill no batch are left out in that epoch. After each epoch the loss and the metrics are "
     "told, a checkpoint is written, and with --validate the model is evaluated; then the result has the parameters of "
     "the epoch with the least loss there. Ctrl-C or SIGTERM ends with a checkpoint and exit code 130; --resume "
     "continues a training bit for bit, also one that was killed.",
     "model.onnx --data train.csv --loss cross_entropy --metric accuracy --validate 0.2 -o trained.onnx"},
    {CMD_EVALUATE, "evaluate", "MODEL --data F [options]", "measures a model's loss and metrics on a data set",
     cmd_evaluate, 1, 1, "Runs the model on all samples, and tells the mean loss and the metrics.",
     "model.onnx --data test.csv --metric accuracy"},
    {CMD_OPS, "ops", "[NAME] [options]", "lists the operators, or prints the definition of one", cmd_ops, 0, 1,
     "Lists the signatures of all operators that are defined, those of --ops included, or prints the definition of "
     "one.",
     "Softmax"},
    {CMD_TARGETS, "targets", "[NAME] [options]", "lists the machines to compile for, or describes one", cmd_targets, 0,
     1,
     "Lists the targets that --target may name; host is this machine. With a name, or the path of a target file, "
     "prints "
     "all fields of that target, as a target file.",
     "host"},
    {CMD_HELP, "help", "[COMMAND]", "tells what a command does, and its options", cmd_help, 0, 1,
     "Tells the commands, or what one of them does and its options.", "run"},
    /* for the build of manual pages and completions */
    {CMD_DESCRIBE, "describe", "man [COMMAND] | bash | zsh | fish", "prints the manual or a shell's completions",
     cmd_describe, 1, 2, NULL, NULL},
    {0, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL},
};

bool colors(int fd) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}
int exit_of(ek_code code) {
  return code == EK_OK            ? EXIT_DONE
         : code == EK_USAGE       ? EXIT_USAGE
         : code == EK_UNSUPPORTED ? EXIT_UNSUPPORTED
                                  : EXIT_FAILED;
}
static void print_message(const char *text) { /* a line may begin with a position: color the word only */
  bool c = colors(2);
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, "\n");
    const char *e = memmem(p, n, "error: ", 7);
    if (c && e)
      fprintf(stderr, "%.*s\033[31merror:\033[0m %.*s\n", (int)(e - p), p, (int)(n - (size_t)(e - p) - 7), e + 7);
    else
      fprintf(stderr, "%.*s\n", (int)n, p);
    p += n + (p[n] == '\n');
  }
}
int fail_text(cli *k, ek_code code, const char *text) {
  (void)k;
  progress_clear();
  print_message(*text ? text : "error: failed");
  return exit_of(code);
}
const char *session_text(cli *k) {
  const char *text = ek_message(k->s);
  return text + (strncmp(text, "error: ", 7) ? 0 : 7);
}
int fail(cli *k, ek_code code) { return fail_text(k, code, ek_message(k->s)); }
void check_writable(cli *k, const char *option, const char *path) {
  const char *folder = path ? path_dir(k->a, path) : NULL;
  if (folder && access(folder, W_OK))
    ctx_fail(k->c, E_IO, "%s %s: cannot write to the folder %s: %s", option, path, folder, strerror(errno));
}
void say(cli *k, const char *fmt, ...) {
  if (k->quiet) return;
  progress_clear();
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
}
void print_json(const sbuf *b) { puts(b->s ? b->s : "null"); }
static void on_log(void *user, int level, const char *text) {
  cli *k = user;
  if (level == 0 || level > k->log_level) return; /* errors are printed when the call fails */
  progress_clear();
  fprintf(stderr, "%s\n", text);
}

/* ---- passes ---------------------------------------------------------------------------------- */
static void on_pass(void *user, const char *level, const char *pass, int changed, double ms) {
  cli *k = user;
  vec_push(k->a, k->times, ((pass_time){intern(k->c, level), intern(k->c, pass), changed != 0, ms}));
}
ek_options compile_options(cli *k) {
  ek_options o;
  ek_options_init(&o);
  vec_push(k->a, k->dims, NULL);
  k->dims.n--;
  vec_push(k->a, k->states, NULL);
  k->states.n--;
  o.optimize = k->optimize, o.threads = k->threads, o.compile_threads = k->compile_threads, o.target = k->target,
  o.states = k->states.v;
  o.dims = k->dims.v, o.fuel = k->fuel, o.verify = k->verify, o.stop_after = k->stop_after;
  o.memory_limit = k->memory_limit;
  o.accuracy = (ek_accuracy)k->accuracy;
  o.precision = (ek_precision)k->precision;
  o.codegen = (ek_codegen)k->codegen;
  o.evaluate = k->passes_eval ? 2 : k->promote ? 3 : k->eval;
  o.unchecked = k->unchecked, o.reproducible = k->reproducible;
  if (k->schedule) {
    bytes text;
    if (!file_map(k->c, k->schedule, &text)) ctx_unwind(k->c);
    o.schedule = arena_strndup(k->a, (const char *)text.p, text.n), o.schedule_name = k->schedule;
  }
  if (!k->no_cache) o.cache = "";
  if (k->timing) o.pass = on_pass, o.pass_user = k;
  return o;
}
ek_code make_run(cli *k, ek_module *m, ek_run **r) {
  ek_run_options o;
  ek_run_options_init(&o);
  o.threads = k->threads, o.memory_limit = k->memory_limit;
  return ek_run_create_with(m, &o, r);
}
void print_times(cli *k) {
  if (!k->timing || k->json) return;
  double sum = 0;
  for (uint32_t i = 0; i < k->times.n; i++) sum += k->times.v[i].ms;
  for (uint32_t i = 0; i < k->times.n; i++) {
    const pass_time *t = &k->times.v[i];
    fprintf(stderr, "%10.2f ms %5.1f%%  %-8s %s%s\n", t->ms, sum > 0 ? 100 * t->ms / sum : 0, t->level, t->pass,
            t->changed ? "" : "  (unchanged)");
  }
  fprintf(stderr, "%10.2f ms\n", sum);
}
void json_times(cli *k, json *j) {
  if (!k->timing) return;
  json_arr(j, "passes");
  for (uint32_t i = 0; i < k->times.n; i++) {
    const pass_time *t = &k->times.v[i];
    json_obj(j, NULL);
    json_str(j, "level", t->level);
    json_str(j, "pass", t->pass);
    json_bool(j, "changed", t->changed);
    json_num(j, "ms", t->ms);
    json_end(j);
  }
  json_end(j);
}

/* ---- start and end --------------------------------------------------------------------------- */
static bool log_level(cli *k) { /* Sets the log level by -v, -q or else EINKORN_LOG. */
  static const char *const names[] = {"error", "warning", "note", "info"};
  const char *e = getenv("EINKORN_LOG");
  k->log_level = k->quiet ? 0 : k->verbose ? 3 : 1;
  if (k->quiet || k->verbose || !e || !*e) return true;
  for (int i = 0; i < 4; i++)
    if (!strcmp(e, names[i])) return k->log_level = i, true;
  fprintf(stderr, "einkorn: EINKORN_LOG is %s: error, warning, note or info is expected\n", e);
  return false;
}
static int command_run(cli *k, int argc, char **argv) {
  int code;
  if (!options_parse(k, argc, argv, &code)) return code;
  if (!log_level(k)) return EXIT_USAGE;
  ek_set_log(k->s, on_log, k);
  progress_begin(k);
  for (uint32_t i = 0; i < k->ops.n; i++) {
    ek_code e = ek_load_ops(k->s, k->ops.v[i]);
    if (e) return fail(k, e);
  }
  return k->cmd->fn(k);
}
static int guarded(ctx *c, ek_session *s, int argc, char **argv) {
  volatile int code = EXIT_FAILED;
  CTX_TRY(c) {
    cli *k = NEW(ctx_arena(c), cli);
    *k = (cli){.c = c,
               .a = ctx_arena(c),
               .s = s,
               .optimize = 3,
               .rtol = 1e-3,
               .atol = 1e-4,
               .seconds = 3,
               .warmup = 1,
               .percentile = NAN,
               .train = {.optimizer = "adamw",
                         .schedule = "constant",
                         .lr = 0.001,
                         .epochs = 10,
                         .batch = 32,
                         .accumulate = 1,
                         .keep = 3}};
    code = command_run(k, argc, argv);
  }
  CTX_CATCH { /* files that the program itself reads */
    progress_clear();
    for (const diag *d = diag_first(c); d; d = d->next)
      if (d->level == D_ERROR && d->pos.file)
        fprintf(stderr, "%s:%u:%u: error: %s\n", d->pos.file, d->pos.line, d->pos.col, d->text);
      else if (d->level == D_ERROR)
        fprintf(stderr, "error: %s\n", d->text);
    code = exit_of((ek_code)diag_code(c));
  }
  return code;
}
int main(int argc, char **argv) {
  ctx *c = ctx_new();
  ek_session *s = ek_session_create();
  int code = EXIT_FAILED;
  if (c && s)
    code = guarded(c, s, argc, argv);
  else
    fputs("error: out of memory\n", stderr);
  progress_end();
  ek_session_destroy(s);
  ctx_free(c);
  if (fflush(stdout) || ferror(stdout)) {
    fputs("error: cannot write the results\n", stderr);
    return EXIT_FAILED;
  }
  return code;
}
