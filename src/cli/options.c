/* All options of all subcommands, in one table: the parser and --help read it. GNU style: --name VALUE or
 * --name=VALUE, -x VALUE; -- ends the options. */
#include "cli/cli.h"
#include "target/target.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "commit.h" /* made by the build: EK_COMMIT */

#define AT(f) offsetof(cli, f)
const option options[] = {
    {"input", 'i', "NAME=SPEC", O_LIST, AT(input), CMD_RUN | CMD_BENCH | CMD_EXPLAIN | CMD_DIFF,
     "data of one input: FILE.npy, FILE.pb, random, zeros or ones; without NAME= the only input's, or made-up data for "
     "all that have none"},
    {"inputs", 0, "FILE.npz", O_TEXT, AT(inputs), CMD_RUN | CMD_BENCH | CMD_EXPLAIN | CMD_DIFF,
     "data of inputs: arrays NAME, in_NAME, or in_0, in_1, ... in the model's order; all must be inputs, or results "
     "(out_..)"},
    {"output", 'o', "FILE.npz", O_TEXT, AT(output), CMD_RUN, "writes all outputs, under their names"},
    {"output", 'o', "FILE", O_TEXT, AT(output), CMD_COMPILE,
     "what to make: NAME.so, NAME.o or NAME.c, and NAME.h beside it; or NAME.onnx, the simplified model"},
    {"expect", 0, "FILE.npz", O_TEXT, AT(expect), CMD_RUN,
     "compares the outputs with arrays NAME, out_NAME, or out_0, out_1, ..., and what is computed on the way with "
     "arrays "
     "of these names; fails on a difference, and tells the first in the model's order"},
    {"dump", 0, "NODE|all FILE.npz", O_PAIR, AT(dump), CMD_RUN,
     "writes the tensors that this node computes, or that tensor, or all on the way, under their names; may be given "
     "again"},
    {"rtol", 0, "R", O_DOUBLE, AT(rtol), CMD_RUN,
     "allowed difference: atol + rtol * |expected| (default 1e-3; integers must be equal unless said)"},
    {"atol", 0, "A", O_DOUBLE, AT(atol), CMD_RUN, "(default 1e-4)"},
    {"against", 0, "eval|onnxruntime|FILE.npz", O_TEXT, AT(against), CMD_DIFF,
     "whose values: those of the operators' definitions (eval, the default); also those of onnxruntime, or of arrays "
     "with the tensors' names"},
    {"output", 'o', "NAME.onnx", O_TEXT, AT(output), CMD_DIFF,
     "writes the smallest part of the model that shows the difference, and NAME.npz: its inputs, and right results"},
    {"passes", 0, NULL, O_FLAG, AT(passes), CMD_DIFF, "also finds the pass of the compiler that changed the values"},
    {"rtol", 0, "R", O_DOUBLE, AT(rtol), CMD_DIFF,
     "allowed difference, beside what rounding explains: atol + rtol * |right value| (default: a share of the tensor's "
     "largest value, by --accuracy and type)"},
    {"atol", 0, "A", O_DOUBLE, AT(atol), CMD_DIFF, "(default 0 where --rtol is given)"},
    {"train", 0, "LOSS", O_TEXT, AT(train.loss), CMD_SHOW | CMD_EXPLAIN,
     "a step of training with this loss instead, for batches of --data, whose last column is the target; "
     "docs/training.md"},
    {"data", 0, "FILE|FOLDER", O_LIST, AT(data), CMD_QUANTIZE,
     "samples of the inputs: .npz with arrays NAME, in_NAME or in_0, in_1, .., or .npy of the only input, whose first "
     "axis counts samples; .pb; a folder of these, or of folders with input_0.pb, ..; may be given again"},
    {"scheme", 0, "int8|int4|bf16|caches", O_CHOICE, AT(scheme), CMD_QUANTIZE,
     "int8: both factors of products (default); int4: constant matrices alone, in blocks with a scale each, as "
     "com.microsoft's MatMulNBits; bf16: both factors are rounded to bf16, for --precision bf16; caches: what --state "
     "ties, such as caches of keys and values, in int8"},
    {"bits", 0, "2|3|4|8", O_INT, AT(bits), CMD_QUANTIZE,
     "with --scheme int4: of a weight (default 4); 3 are stored in 4"},
    {"block-size", 0, "N", O_INT, AT(block_size), CMD_QUANTIZE,
     "with --scheme int4: weights that share a scale: 16, 32 (default), 64, 128 or 256"},
    {"zero-points", 0, NULL, O_FLAG, AT(zero_points), CMD_QUANTIZE,
     "with --scheme int4: each block has a zero point, too"},
    {"accuracy-level", 0, "0..4", O_INT, AT(accuracy_level), CMD_QUANTIZE,
     "with --scheme int4: 4: the other factor may be rounded to eight bits, which is faster; 0: not (default)"},
    {"method", 0, "minmax|percentile|entropy|mse|gptq", O_CHOICE, AT(method), CMD_QUANTIZE,
     "how a tensor's range follows from its values: all are within (default); all but the largest; what loses least "
     "information; what makes the square of the error least. With --scheme int4: minmax, mse, or gptq: codes that make "
     "the error of products with the data least"},
    {"percentile", 0, "P", O_DOUBLE, AT(percentile), CMD_QUANTIZE,
     "with --method percentile: so many of a hundred absolute values are within (default 99.999)"},
    {"per-channel", 0, NULL, O_FLAG, AT(per_channel), CMD_QUANTIZE,
     "constants have a scale for each output channel: smaller errors, the same speed"},
    {"no-bias-correction", 0, NULL, O_FLAG, AT(keep_bias), CMD_QUANTIZE,
     "otherwise the mean error of each channel of a layer, over the data, is subtracted from its bias"},
    {"smooth", 0, "auto|ALPHA", O_TEXT, AT(smooth), CMD_QUANTIZE,
     "SmoothQuant: so much (above 0, at most 1) of the magnitudes of a layer's input moves, channel by channel, into "
     "its "
     "weights; auto: for each input what makes the error least"},
    {"accuracy-budget", 0, "0.5%|40dB", O_TEXT, AT(budget), CMD_QUANTIZE,
     "layers that cost the outputs most, by measurement, stay f32 until at most so many of a hundred rows of the "
     "outputs have another greatest element, or until the SQNR of each output is at least so many dB; with probability "
     "0.99 on other data, by how much the half of the samples varies that ranges were not taken from"},
    {"only-faster", 0, NULL, O_FLAG, AT(only_faster), CMD_QUANTIZE,
     "layers that take longer in int8 than in f32, measured on this machine, stay f32"},
    {"exclude", 0, "PATTERN", O_LIST, AT(exclude), CMD_QUANTIZE,
     "nodes that stay as they are, by name; * is any text, ? one character; may be given again"},
    {"report", 0, "FILE.json", O_TEXT, AT(report), CMD_QUANTIZE, "writes the report as JSON"},
    {"output", 'o', "OUT.onnx", O_TEXT, AT(output), CMD_QUANTIZE, "where the quantised model is written"},
    {"train", 0, "LOSS", O_TEXT, AT(train.loss), CMD_COMPILE,
     "saves a step of training with this loss instead (.so, .o, .c), for batches of --data, whose last column is the "
     "target; docs/training.md"},
    {"evaluation", 0, "FILE", O_TEXT, AT(train.evaluation), CMD_COMPILE,
     "with --train: also saves the evaluation, whose inputs are the batch and the parameters"},
    {"data", 0, "FILE|FOLDER", O_LIST, AT(data), CMD_BOTH | CMD_STEP,
     "the samples: .npz, .npy, CSV with a header, IDX, or several with commas between them, as [NAME=]FILE[:ARRAY]; an "
     "input of the model takes the column of its name, or the only one that is no target"},
    {"target", 0, "COLUMN", O_TEXT, AT(train.target), CMD_BOTH, "what is to be predicted (default: the last column)"},
    {"loss", 0, "LOSS", O_TEXT, AT(train.loss), CMD_BOTH,
     "what becomes small, such as cross_entropy or mse:.. (`einkorn ops` lists einkorn.loss)"},
    {"metric", 0, "METRIC", O_LIST, AT(train.metrics), CMD_BOTH | CMD_STEP,
     "what is told beside the loss, such as accuracy; may be given again"},
    {"of", 0, "TENSOR", O_TEXT, AT(train.of), CMD_BOTH | CMD_STEP | RARE,
     "the tensor that loss and metrics are of (default: the model's first output)"},
    {"batch", 0, "N", O_COUNT, AT(train.batch), CMD_BOTH | CMD_STEP, "samples of a step (default 32)"},
    {"standardize", 0, NULL, O_FLAG, AT(train.standardize), CMD_TRAIN | CMD_STEP,
     "the model standardizes its inputs of floats, by mean and deviation of the training set: it takes raw values"},
    {"augment", 0, "flip,crop:4,noise:0.1", O_TEXT, AT(train.augment), CMD_TRAIN,
     "changes inputs of floats by chance: mirror images, moves by up to so many places, normal noise"},
    {"image-size", 0, "HxWxC", O_TEXT, AT(train.image_size), CMD_BOTH | CMD_STEP | RARE,
     "size of the images of a folder (default: that of the first one); C is 1 for gray, 3 for RGB"},
    {"sequence", 0, "N", O_TEXT, AT(train.sequence), CMD_BOTH | CMD_STEP | RARE,
     "the file is a text, and a sample so many tokens of it"},
    {"vocabulary", 0, "FILE", O_TEXT, AT(train.vocabulary), CMD_BOTH | CMD_STEP | RARE,
     "tokens of a text, one in each line (default: bytes)"},
    {"optimizer", 0, "OPTIMIZER", O_TEXT, AT(train.optimizer), CMD_TRAIN | CMD_STEP,
     "such as adamw:weight_decay=0.1 (the default is adamw)"},
    {"lr", 0, "R", O_DOUBLE, AT(train.lr), CMD_TRAIN, "learning rate (default 0.001)"},
    {"schedule", 0, "SCHEDULE", O_TEXT, AT(train.schedule), CMD_TRAIN,
     "how it changes: constant (default), step, exponential, cosine, one_cycle, plateau, as in cosine:warmup=100"},
    {"ema", 0, "D", O_DOUBLE, AT(train.ema), CMD_TRAIN | RARE,
     "evaluates and writes averages of the parameters over the updates, with this decay, such as 0.999"},
    {"loss-scale", 0, "X", O_DOUBLE, AT(train.loss_scale), CMD_TRAIN | CMD_STEP | RARE,
     "with --precision f16: the first scale of the loss (default 65536); it halves where a gradient is not finite"},
    {"epochs", 0, "N", O_COUNT, AT(train.epochs), CMD_TRAIN, "how often all samples are seen (default 10)"},
    {"validate", 0, "FRACTION|FILE", O_TEXT, AT(train.validate), CMD_TRAIN,
     "evaluates after each epoch: on this part of the samples, which is not trained on, or on other data"},
    {"patience", 0, "N", O_COUNT, AT(train.patience), CMD_TRAIN,
     "ends when the loss (that of validation, where there is one) was not the least so far for N epochs"},
    {"freeze", 0, "PATTERN", O_LIST, AT(train.freeze), CMD_TRAIN | CMD_STEP,
     "parameters that stay as they are, by name; * is any text, ? one character; may be given again"},
    {"group", 0, "PATTERN:A=V,..", O_LIST, AT(train.groups), CMD_TRAIN | CMD_STEP | RARE,
     "parameters that the optimizer treats in another way, such as '*bias:weight_decay=0'; may be given again"},
    {"init", 0, "keep|he|xavier", O_CHOICE, AT(train.init), CMD_TRAIN,
     "first values of parameters: the model's (default), or by their use and the seed: he (normal), xavier (uniform)"},
    {"clip-norm", 0, "X", O_DOUBLE, AT(train.clip_norm), CMD_TRAIN | CMD_STEP,
     "gradients are scaled to at most this norm"},
    {"clip-value", 0, "X", O_DOUBLE, AT(train.clip_value), CMD_TRAIN | CMD_STEP | RARE,
     "elements of gradients are cut to at most this absolute value"},
    {"accumulate", 0, "N", O_COUNT, AT(train.accumulate), CMD_TRAIN | CMD_STEP,
     "the mean gradient of N batches makes one update (default 1)"},
    {"checkpoints", 0, "FOLDER", O_TEXT, AT(train.checkpoints), CMD_TRAIN,
     "where checkpoints are written, as safetensors (default: OUT.checkpoints)"},
    {"checkpoint-every", 0, "N", O_U64, AT(train.every), CMD_TRAIN,
     "also writes one after every N updates, not only after epochs"},
    {"keep", 0, "N", O_COUNT, AT(train.keep), CMD_TRAIN, "so many checkpoints stay, beside the best (default 3)"},
    {"resume", 0, "FOLDER|FILE", O_TEXT, AT(train.resume), CMD_TRAIN,
     "continues with the newest checkpoint of a folder, or with this one; begins where the folder has none"},
    {"log", 0, "FILE.csv", O_TEXT, AT(train.log), CMD_TRAIN, "writes loss and metrics of each epoch as CSV"},
    {"tensorboard", 0, "FOLDER", O_TEXT, AT(train.tensorboard), CMD_TRAIN,
     "writes loss and metrics of each epoch as event files of TensorBoard"},
    {"memory", 0, "BYTES", O_BYTES, AT(train.memory), CMD_TRAIN,
     "most memory of a step, with parameters and moments: what the forward pass computes is computed again for the "
     "gradient, as far as that is needed, and kept where it fits (default: computed again where that costs almost no "
     "time); values stay the same; 500M and 2G, too"},
    {"output", 'o', "OUT.onnx", O_TEXT, AT(output), CMD_TRAIN, "where the trained model is written"},
    {"seed", 0, "S", O_U64, AT(seed), CMD_TRAIN,
     "of the order of samples, of the part for validation, of --init and of dropout (default 0)"},
    {"seed", 0, "S", O_U64, AT(seed), CMD_RUN | CMD_BENCH | CMD_EXPLAIN | CMD_DIFF | RARE,
     "of random data (default 0)"},
    {"eval", 0, NULL, O_FLAG, AT(eval), CMD_RUN,
     "interprets the operators' definitions, without compiling: slow, to compare with"},
    {"promote", 0, "f64", O_TEXT, AT(promote), CMD_RUN | RARE,
     "with --eval: every float is f64, outputs too; to measure errors by"},
    {"eval-passes", 0, NULL, O_FLAG, AT(passes_eval), CMD_RUN | RARE, "interprets what the passes made of them"},
    {"stage", 0, "graph|expr|schedule|candidates|loop|cost|program|llvm|asm", O_TEXT, AT(stage), CMD_SHOW,
     "which level of the compiler (default graph); candidates: other schedules of each kernel, each a text for "
     "--schedule"},
    {"after", 0, "PASS", O_TEXT, AT(after), CMD_SHOW | RARE,
     "the text after that pass (inline#2: after its second turn); `show --help` lists the passes"},
    {"node", 0, "NAME", O_TEXT, AT(node), CMD_SHOW, "only what comes from this node of the model"},
    {"grad", 0, NULL, O_FLAG, AT(grad), CMD_SHOW,
     "also the derivatives of the sum of the first output (of --of TENSOR) by all inputs of floats and all parameters, "
     "as outputs gradient.NAME"},
    {"weights", 0, "inline", O_TEXT, AT(weights), CMD_SHOW | RARE, "constants in full instead of by reference"},
    {"layers", 0, NULL, O_FLAG, AT(layers), CMD_INFO, "also for each node"},
    {"seconds", 0, "S", O_DOUBLE, AT(seconds), CMD_BENCH | CMD_EXPLAIN, "how long to measure (default 3)"},
    {"iterations", 0, "N", O_U64, AT(iterations), CMD_BENCH, "how many runs to measure, instead of how long"},
    {"warmup", 0, "N", O_U64, AT(warmup), CMD_BENCH, "runs before those that are measured (default 1)"},
    {"against", 0, "ENGINE,..", O_TEXT, AT(against), CMD_BENCH,
     "compares with other engines, taking turns: onnxruntime, openvino, openvino-bf16, torch, torch.compile, jax, "
     "ncnn, iree, iree-nhwc"},
    {"peers", 0, "FOLDER", O_TEXT, AT(peers), CMD_BENCH | CMD_DIFF | RARE,
     "where the engines' python is: a virtual environment, or a folder of them (default: python3)"},
    {"slices", 0, "N", O_INT, AT(slices), CMD_BENCH | RARE,
     "with --against: turns that each engine gets in these seconds (default 5)"},
    {"peak", 0, "GFLOPS:GBS", O_TEXT, AT(peak), CMD_EXPLAIN | RARE,
     "what the machine can do: 10^9 operations a second in f32 and 10^9 bytes a second from memory (default: both are "
     "measured)"},
    {"trace", 0, "FILE.json", O_TEXT, AT(trace), CMD_EXPLAIN,
     "writes when each kernel of one run ran, and in which thread, for chrome://tracing and ui.perfetto.dev"},
    {"sort", 0, "order|time", O_CHOICE, AT(sort), CMD_EXPLAIN | RARE,
     "kernels in the order in which they run (default), or the longest first"},
    {"ops", 0, "FILE.ek", O_LIST, AT(ops), CMD_ALL, "operator definitions of your own; may be given again"},
    {"optimize", 'O', "0|1|2|3", O_LEVEL, AT(optimize), CMD_CODE | CMD_BOTH | RARE,
     "level of optimisation (default 3)"},
    {"accuracy", 0, "default|strict|fast", O_CHOICE, AT(accuracy), CMD_CODE | CMD_BOTH,
     "strict: sums of floats are only reordered; default: also forms with fewer multiplications, and large constants "
     "of products with few rows in fixed point of 21 bits, within 1e-4 of an output's largest value; fast: also "
     "shorter approximations of functions, within 1e-3"},
    {"precision", 0, "model|bf16|f16", O_CHOICE, AT(precision), CMD_CODE | CMD_BOTH | RARE,
     "bf16: the factors of products may be kept in bf16, where the machine multiplies pairs of these; f16: in f16 "
     "(default: the model's types)"},
    {"codegen", 0, "auto|llvm", O_CHOICE, AT(codegen),
     CMD_RUN | CMD_BENCH | CMD_EXPLAIN | CMD_COMPILE | CMD_SHOW | CMD_DIFF | RARE,
     "who makes the machine code: llvm, or Einkorn itself wherever it can (default), in a fiftieth of the time"},
    {"unchecked", 0, NULL, O_FLAG, AT(unchecked), CMD_CODE,
     "indices that data bring are not checked: one that is out of range gives some values instead of an error"},
    {"reproducible", 0, NULL, O_FLAG, AT(reproducible), CMD_CODE | CMD_BOTH,
     "the same bits with any number of threads"},
    {"schedule", 0, "FILE", O_TEXT, AT(schedule), CMD_CODE | RARE,
     "schedules of kernels, as `einkorn show MODEL --stage schedule` prints them: what the file states replaces what "
     "the compiler would decide"},
    {"target", 0, "TARGET", O_TEXT, AT(target), CMD_CODE,
     "machine to compile for: a name, or a file that describes it (default: this one)"},
    {"threads", 0, "N", O_INT, AT(threads), CMD_MODEL, "threads of a run (default: all the process may use)"},
    {"compile-threads", 0, "N", O_INT, AT(compile_threads), CMD_MODEL | RARE,
     "threads of the compiler (default: all the process may use)"},
    {"memory-limit", 0, "BYTES", O_BYTES, AT(memory_limit),
     CMD_RUN | CMD_COMPILE | CMD_BENCH | CMD_DIFF | CMD_QUANTIZE | CMD_EXPLAIN,
     "a model whose run takes more working memory and states, although kernels run again instead of their results "
     "being kept, is refused; saved ones with the largest sizes that they permit; 500M and 2G, too"},
    {"dim", 0, "N=8,..", O_LIST, AT(dims), CMD_MODEL,
     "fixes a symbolic dimension, or with N=1:8:64 bounds it: the least, the likely and the most; may be given again"},
    {"state", 0, "OUTPUT=INPUT", O_LIST, AT(states), CMD_MODEL & ~CMD_DIFF,
     "ties an output to an input: the tensor stays inside, and what the output is in one run, the input is in the next "
     "(at first zeros, or the initialiser of that name); a * in both names stands for the same text, as in "
     "'present.*=past_key_values.*'; may be given again"},
    {"frames", 0, NULL, O_FLAG, AT(frames), CMD_RUN,
     "one run after the other: arrays of inputs, and those that are expected, may have one axis more, in front, for "
     "the runs"},
    {"no-cache", 0, NULL, O_FLAG, AT(no_cache), CMD_RUN | CMD_BENCH | RARE,
     "compiles anew, and keeps nothing on disk (see EINKORN_CACHE_DIR)"},
    {"timing", 0, NULL, O_FLAG, AT(timing), CMD_CODE | RARE, "time of each pass"},
    {"verify", 0, NULL, O_FLAG, AT(verify), CMD_CODE | RARE, "checks the program after each pass"},
    {"stop-after", 0, "PASS", O_TEXT, AT(stop_after), CMD_CODE | RARE, "ends compilation after that pass"},
    {"fuel", 0, "N", O_U64, AT(fuel), CMD_CODE | RARE,
     "rewrites allowed before passes stop (to find a bad one by bisection)"},
    {"table", 0, NULL, O_FLAG, AT(table), CMD_OPS,
     "all operators with versions, types, gradient and cost, as Markdown"},
    {"table", 0, NULL, O_FLAG, AT(table), CMD_TARGETS, "what a target file can say, as Markdown"},
    {"json", 0, NULL, O_FLAG, AT(json), CMD_ALL, "the report as JSON"},
    {"verbose", 'v', NULL, O_FLAG, AT(verbose), CMD_ALL | CMD_HELP, "says more"},
    {"quiet", 'q', NULL, O_FLAG, AT(quiet), CMD_ALL | CMD_TARGETS,
     "says nothing but errors, and the results that were asked for"},
    {"version", 0, NULL, O_FLAG, AT(version), CMD_ALL | CMD_TARGETS | CMD_DESCRIBE | CMD_HELP,
     "prints the version; with -v also of which commit, and what the processor has"},
    {"help", 'h', NULL, O_FLAG, AT(help), CMD_ALL | CMD_TARGETS | CMD_DESCRIBE | CMD_HELP, "prints this text"},
    {NULL, 0, NULL, O_FLAG, 0, 0, NULL},
};
const variable variables[] = {
    {"EINKORN_LOG", "error|warning|note|info",
     "what is told on stderr beside errors, by the program and by programs that use the library without a log function "
     "of their own (the program's default: warning; -v is info, --quiet is error)"},
    {"EINKORN_NUM_THREADS", "N",
     "threads of runs and of the compiler where nothing else says how many (default: what the process may use)"},
    {"EINKORN_CACHE_DIR", "FOLDER",
     "where `run` and `bench` keep compiled code and packed weights (default: $XDG_CACHE_HOME/einkorn, else "
     "~/.cache/einkorn); used only if it belongs to you and nobody else may write there"},
    {"EINKORN_CACHE_SIZE", "BYTES",
     "most that the cache takes, such as 500M or 2G (default 2G); what was used longest ago goes first; 0: no cache"},
    {"NO_COLOR", "1", "no colors on the terminal"},
    {NULL, NULL, NULL},
};

/* ---- --help ------------------------------------------------------------------------------------------------------ */
enum { LEAST_WIDE = 60, MOST_WIDE = 100, TEXT_AT = 26 };
static int width_of(FILE *f) {
  struct winsize w;
  const char *columns = getenv("COLUMNS");
  int n = columns ? atoi(columns) : 0;
  if (n <= 0) n = !ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
  return n < LEAST_WIDE ? LEAST_WIDE : n > MOST_WIDE ? MOST_WIDE : n;
}
/* Text that begins in column `at`, broken at blanks; further lines begin in column `left`. */
static void wrapped(FILE *f, const char *text, int at, int left) {
  int width = width_of(f);
  for (const char *p = text; *p;) {
    int n = (int)strcspn(p, " ");
    if (p != text && at + 1 + n > width)
      fprintf(f, "\n%*s", left, ""), at = left;
    else if (p != text)
      fputc(' ', f), at++;
    fwrite(p, 1, (size_t)n, f);
    at += n, p += n;
    while (*p == ' ') p++;
  }
  fputc('\n', f);
}
static void option_help(FILE *f, const option *o) {
  char head[128];
  if (o->letter)
    snprintf(head, sizeof head, "-%c%s%s, --%s", o->letter, o->value ? " " : "", o->value ? o->value : "", o->name);
  else
    snprintf(head, sizeof head, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
  int n = fprintf(f, "  %s", head);
  if (n + 2 > TEXT_AT)
    fprintf(f, "\n%*s", TEXT_AT, "");
  else
    fprintf(f, "%*s", TEXT_AT - n, "");
  wrapped(f, o->what, TEXT_AT, TEXT_AT);
}
static void options_help(FILE *f, const command *c, bool rare) {
  bool any = false;
  for (const option *o = options; o->name; o++) {
    if (!(o->commands & c->bit) || ((o->commands & RARE) != 0) != rare) continue;
    if (!any) fputs(rare ? "\nRarely needed:\n" : "\nOptions:\n", f);
    any = true;
    option_help(f, o);
  }
}
void usage(FILE *f, const command *c) {
  if (!c) {
    fprintf(f, "einkorn %s: compiles deep-learning models to native code, and runs them\n\n", ek_version());
    for (const command *d = commands; d->name; d++)
      if (d->about) fprintf(f, "  einkorn %-8s %-34s %s\n", d->name, d->synopsis, d->what);
    fputs("\nMODEL is an ONNX file, a graph as text, or (to run) a compiled .so. `einkorn help COMMAND` tells the "
          "options.\nExit codes: 0 done, 1 failed, 2 usage, 3 unsupported, 130 a training was stopped.\n",
          f);
    return;
  }
  fprintf(f, "einkorn %s %s\n\n", c->name, c->synopsis);
  wrapped(f, c->about ? c->about : c->what, 0, 0);
  options_help(f, c, false);
  options_help(f, c, true);
  if (c->example) fprintf(f, "\nExample:\n  einkorn %s %s\n", c->name, c->example);
}
static void print_help(cli *k) {
  usage(stdout, k->cmd);
  size_t n = 0;
  const ek_pass_info *p;
  if (!k->cmd || k->cmd->bit != CMD_SHOW || ek_passes(k->s, &p, &n) != EK_OK) return;
  puts("\nPasses, in the order of running:");
  for (size_t i = 0; i < n; i++) {
    int at = printf("  %-8s %-10s ", p[i].level, p[i].name);
    wrapped(stdout, p[i].doc, at, at);
  }
}
static const char *meant_command(cli *k, const char *word) {
  strvec names = {0};
  for (const command *c = commands; c->name; c++)
    if (c->about) vec_push(k->a, names, c->name);
  return did_you_mean(k->a, word, names.v, names.n);
}
const command *find_command(const char *name) {
  for (const command *c = commands; c->name; c++)
    if (!strcmp(c->name, name)) return c;
  return NULL;
}
int cmd_help(cli *k) {
  const char *of = k->args.n ? k->args.v[0] : NULL;
  if (of && !(k->cmd = find_command(of)))
    return fail_text(k, EK_USAGE, arena_fmt(k->a, "error: there is no command %s%s", of, meant_command(k, of)));
  if (!of) k->cmd = NULL;
  print_help(k);
  return EXIT_DONE;
}

/* ---- --version --------------------------------------------------------------------------------------------------- */
static void print_version(cli *k) {
  printf("einkorn %s\n", ek_version());
  if (!k->verbose) return;
  const target *t = target_get(k->c, "host");
  printf("commit: %s\nLLVM: %s\n", EK_COMMIT,
         *ek_llvm_path() ? ek_llvm_path() : "none on this machine (Debian package libllvm19)");
  printf("processor: %s\ntarget: %s%s%s\nthreads: %d\n", cpu_identity(k->a), t ? t->name : "none",
         t && t->like ? ", as " : "", t && t->like ? t->like : "", ek_threads());
}

/* ---- the command line -------------------------------------------------------------------------------------------- */
static bool bad(cli *k, int *code, const char *what, const char *arg, const char *more) {
  const char *of = k->cmd && k->cmd->about ? k->cmd->name : NULL;
  fprintf(stderr, "einkorn%s%s: %s %s%s; see `einkorn help%s%s`\n", of ? " " : "", of ? of : "", what, arg, more,
          of ? " " : "", of ? of : "");
  *code = EXIT_USAGE;
  return false;
}
/* N=8, or several: N=8,M=1:4:64. A comma within a name is one without '=' behind it. */
static bool add_dims(cli *k, const char *v, int *code) {
  for (const char *p = v; *p;) {
    const char *end = p + strlen(p);
    for (const char *comma = strchr(p, ','); comma; comma = strchr(comma + 1, ','))
      if (memchr(p, '=', (size_t)(comma - p)) && strchr(comma, '=')) {
        end = comma;
        break;
      }
    const char *dim = arena_strndup(k->a, p, (size_t)(end - p));
    if (!strchr(dim, '='))
      return bad(k, code, "bad value for", "--dim",
                 ": NAME=NUMBER is expected, such as N=8, or NAME=LEAST:LIKELY:MOST");
    vec_push(k->a, k->dims, dim);
    p = end + (*end == ',');
  }
  return true;
}
/* 1000, 500M, 2G, 2GiB */
static bool read_bytes(const char *v, uint64_t *out) {
  static const char units[] = "KMGT";
  char *end = NULL;
  errno = 0;
  unsigned long long n = strtoull(v, &end, 10);
  if (end == v || errno || *v == '-') return false;
  const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
  int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  if (unit) end++;
  if (*end == 'i' && shift) end++;
  if (*end == 'B' || (*end == 'b' && shift)) end++;
  if (*end || (shift && n >> (64 - shift))) return false;
  *out = (uint64_t)n << shift;
  return true;
}
static bool set(cli *k, const option *o, const char *v, int *code) {
  const char *name = arena_fmt(k->a, "--%s", o->name);
  void *at = (char *)k + o->at;
  char *end = NULL;
  errno = 0;
  switch (o->kind) {
  case O_FLAG:
    *(bool *)at = true;
    return true;
  case O_TEXT:
    *(const char **)at = v;
    return true;
  case O_PAIR:
  case O_LIST:
    if (o->at == AT(dims)) return add_dims(k, v, code);
    vec_push(k->a, *(strvec *)at, v);
    return true;
  case O_LEVEL:
  case O_INT: {
    long n = strtol(v, &end, 10);
    if (end == v || *end || errno || n < 0 || n > 1024 || (o->kind == O_LEVEL && n > 3))
      return bad(k, code, "bad number for", name, o->kind == O_LEVEL ? " (0 to 3)" : " (0 to 1024)");
    *(int *)at = (int)n;
    return true;
  }
  case O_COUNT: {
    long n = strtol(v, &end, 10);
    if (end == v || *end || errno || n < 0 || n > INT_MAX) return bad(k, code, "bad number for", name, "");
    *(int *)at = (int)n;
    return true;
  }
  case O_CHOICE: {
    int n = 0;
    for (const char *w = o->value; w; w = strchr(w, '|'), w += w != NULL, n++) {
      size_t l = strcspn(w, "|");
      if (strlen(v) != l || strncmp(v, w, l)) continue;
      *(int *)at = n;
      return true;
    }
    return bad(k, code, "bad value for", name, arena_fmt(k->a, ": %s is expected, not %s", o->value, v));
  }
  case O_U64: {
    unsigned long long n = strtoull(v, &end, 10);
    if (end == v || *end || errno || *v == '-') return bad(k, code, "bad number for", name, "");
    *(uint64_t *)at = n;
    return true;
  }
  case O_BYTES:
    if (!read_bytes(v, at))
      return bad(k, code, "bad number for", name, ": bytes are expected, such as 1000, 500M or 2G");
    return true;
  case O_DOUBLE: {
    double x = num_parse(k->c, v, &end);
    if (end == v || *end || !(x >= 0)) return bad(k, code, "bad number for", name, "");
    *(double *)at = x;
    if (o->at == AT(rtol) || o->at == AT(atol)) k->tolerances = true;
    return true;
  }
  }
  return false;
}
static const option *find(const cli *k, const char *name, size_t n, char letter) {
  uint32_t bit = k->cmd ? k->cmd->bit : CMD_ALL;
  for (const option *o = options; o->name; o++)
    if ((o->commands & bit) && (letter ? o->letter == letter : strlen(o->name) == n && !strncmp(o->name, name, n)))
      return o;
  return NULL;
}
/* Of another command, before the command, or misspelt? */
static bool unknown(cli *k, const char *arg, int *code) {
  size_t n = strcspn(arg, "=");
  strvec known = {0};
  sbuf others = sbuf_new(k->a);
  for (const option *o = options; o->name; o++) {
    const char *name = arena_fmt(k->a, "--%s", o->name);
    bool same = strlen(name) == n && !strncmp(name, arg, n);
    if (!k->cmd || (o->commands & k->cmd->bit)) vec_push(k->a, known, name);
    for (const command *c = commands; same && c->name; c++)
      if (c->about && (o->commands & c->bit)) sb_fmt(&others, "%s%s", others.n ? ", " : "", c->name);
  }
  const char *meant = did_you_mean(k->a, arena_strndup(k->a, arg, n), known.v, known.n);
  if (!k->cmd) return bad(k, code, "unknown option", arg, arena_fmt(k->a, " before the command%s", meant));
  if (others.n) return bad(k, code, "unknown option", arg, arena_fmt(k->a, " (it belongs to %s)", others.s));
  return bad(k, code, "unknown option", arg, meant);
}
bool options_parse(cli *k, int argc, char **argv, int *code) {
  bool ended = false;
  for (int i = 1; i < argc; i++) {
    char *arg = argv[i];
    if (ended || arg[0] != '-' || !arg[1]) {
      if (!k->cmd && !ended) {
        k->cmd = find_command(arg);
        if (!k->cmd) return bad(k, code, "there is no command", arg, meant_command(k, arg));
      } else
        vec_push(k->a, k->args, (const char *)arg);
      continue;
    }
    if (!strcmp(arg, "--")) {
      ended = true;
      continue;
    }
    bool is_long = arg[1] == '-';
    const char *name = arg + 2, *eq = is_long ? strchr(name, '=') : NULL,
               *value = eq                   ? eq + 1
                        : !is_long && arg[2] ? arg + 2
                                             : NULL;
    const option *o = find(k, name, eq ? (size_t)(eq - name) : strlen(name), is_long ? 0 : arg[1]);
    if (!o) return unknown(k, arg, code);
    if (!o->value && value) return bad(k, code, "no value is expected for", arg, "");
    if (o->value && !value) {
      if (i + 1 >= argc) return bad(k, code, "a value is missing for", arg, "");
      value = argv[++i];
    }
    if (!set(k, o, value, code)) return false;
    if (o->kind != O_PAIR) continue;
    if (i + 1 >= argc) return bad(k, code, "a file is missing for", arg, ": --dump NODE FILE.npz");
    set(k, o, argv[++i], code);
  }
  if (k->version)
    print_version(k);
  else if (k->help)
    print_help(k);
  *code = EXIT_DONE;
  if (k->version || k->help) return false;
  if (!k->cmd) {
    usage(stderr, NULL);
    *code = EXIT_USAGE;
    return false;
  }
  if (k->args.n < k->cmd->min_args) return bad(k, code, "something is missing:", k->cmd->synopsis, "");
  if (k->cmd->bit == CMD_COMPILE && !k->output && !k->stop_after)
    return bad(k, code, "-o OUT is missing:", "NAME.so, NAME.o, NAME.c or NAME.onnx is to be made", "");
  if (k->cmd->bit == CMD_QUANTIZE && !k->output)
    return bad(k, code, "-o OUT.onnx is missing:", "the quantised model is written there", "");
  if (k->cmd->bit == CMD_TRAIN && !k->output)
    return bad(k, code, "-o OUT.onnx is missing:", "the trained model is written there", "");
  if (k->args.n > k->cmd->max_args) return bad(k, code, "too much was given:", k->args.v[k->cmd->max_args], "");
  return true;
}
