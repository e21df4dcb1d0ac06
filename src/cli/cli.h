/* cli: the program `einkorn`. One file per subcommand, one table of options (options.c) that --help, the manual and
 * the completions (describe.c) share. It uses the library by its public header, and base for files and texts.
 * Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 usage, 3 unsupported,
 * 130 a training was stopped. */
#ifndef EK_CLI_H
#define EK_CLI_H
#include "base/base.h"
#include "base/json.h"
#include "einkorn/einkorn.h"
#include <stdio.h>

enum {
  CMD_RUN = 1,
  CMD_COMPILE = 2,
  CMD_SHOW = 4,
  CMD_CHECK = 8,
  CMD_INFO = 16,
  CMD_BENCH = 32,
  CMD_OPS = 64,
  CMD_EXPLAIN = 128,
  CMD_DIFF = 256,
  CMD_QUANTIZE = 4096,
  CMD_TRAIN = 8192,
  CMD_EVALUATE = 16384,
  CMD_BOTH = CMD_TRAIN | CMD_EVALUATE,
  CMD_STEP = CMD_COMPILE | CMD_SHOW | CMD_EXPLAIN, /* those that take a step of training (--train) */
  CMD_ALL = 511 | CMD_QUANTIZE | CMD_BOTH,
  CMD_MODEL = CMD_ALL & ~CMD_OPS,
  CMD_CODE = CMD_MODEL & ~CMD_QUANTIZE & ~CMD_BOTH, /* those whose purpose is the compiled code */
  CMD_DESCRIBE = 512,                               /* hidden */
  CMD_HELP = 1024,
  CMD_TARGETS = 2048,
  RARE = 1 << 30 /* in an option's commands: --help tells it behind the others */
};
typedef enum { EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_UNSUPPORTED, EXIT_STOPPED = 130 } exit_code;

typedef struct pass_time {
  const char *level; /* level of the compiler */
  const char *pass;  /* name of the pass */
  bool changed;      /* it did at least one rewrite */
  double ms;         /* time it took, milliseconds */
} pass_time;
typedef struct train_args { /* options of train and evaluate */
  const char *loss;         /* --loss; NULL: not given */
  const char *evaluation;   /* --evaluation: a file; NULL: none */
  const char *optimizer;    /* --optimizer */
  const char *schedule;     /* --schedule */
  const char *of;           /* --of: a tensor; NULL: the first output */
  const char *image_size;   /* --image-size; NULL: not given */
  const char *augment;      /* --augment; NULL: none */
  const char *sequence;     /* --sequence; NULL: the file is no text */
  const char *vocabulary;   /* --vocabulary: a file; NULL: bytes */
  const char *target;       /* --target: a column; NULL: the last */
  const char *validate;     /* --validate: a fraction or files; NULL: nothing */
  const char *resume;       /* --resume: a folder or a file; NULL: not given */
  const char *checkpoints;  /* --checkpoints: a folder; NULL: beside the result */
  const char *log;          /* --log: a file; NULL: none */
  const char *tensorboard;  /* --tensorboard: a folder; NULL: none */
  strvec metrics;           /* --metric */
  strvec freeze;            /* --freeze: patterns */
  strvec groups;            /* --group: PATTERN:attribute=value,.. */
  double ema;               /* --ema; 0: none */
  double loss_scale;        /* --loss-scale; 0: the default */
  uint64_t memory;          /* --memory: bytes; 0: no limit */
  double lr;                /* --lr */
  double clip_norm;         /* --clip-norm; 0: none */
  double clip_value;        /* --clip-value; 0: none */
  int epochs;               /* --epochs */
  int batch;                /* --batch */
  int accumulate;           /* --accumulate */
  int keep;                 /* --keep */
  int init;                 /* --init: 0 keep, 1 he, 2 xavier */
  int patience;             /* --patience; 0: no end before the last epoch */
  uint64_t every;           /* --checkpoint-every: updates; 0: after epochs alone */
  bool standardize;         /* --standardize */
} train_args;
typedef struct cli {
  ctx *c;                    /* context of what the program itself allocates */
  arena *a;                  /* its arena */
  ek_session *s;             /* session that everything runs in */
  const struct command *cmd; /* subcommand; NULL: not known yet */
  strvec args;               /* arguments that are no options */
  strvec ops;                /* --ops: files of definitions */
  strvec states;             /* --state: OUTPUT=INPUT */
  ndarray *stacked;          /* --frames: the outputs of all frames, once they are there */
  strvec dims;               /* --dim: NAME=SIZE or NAME=LEAST:LIKELY:MOST */
  strvec input;              /* --input: NAME=SPEC */
  strvec dump;               /* --dump: what and the file, in turn */
  strvec data;               /* --data: files and folders */
  strvec exclude;            /* --exclude: patterns of names of nodes */
  strvec watch;              /* names of intermediate values that become outputs (watch.c) */
  int optimize;              /* --optimize: 0..3 */
  int threads;               /* --threads; 0: the library's choice */
  int compile_threads;       /* --compile-threads; 0: the library's choice */
  int log_level;             /* level of the messages that are shown, from -v and -q */
  int accuracy;              /* --accuracy: number of the word */
  int precision;             /* --precision: number of the word */
  int codegen;               /* --codegen: number of the word */
  int sort;                  /* --sort: number of the word */
  int slices;                /* --slices: turns of each engine */
  int method;                /* --method: number of the word */
  int scheme;                /* --scheme: number of the word */
  int bits;                  /* --bits; 0: the default */
  int block_size;            /* --block-size; 0: the default */
  int accuracy_level;        /* --accuracy-level */
  const char *target;        /* --target; NULL: this machine */
  const char *inputs;        /* --inputs: a file; NULL: not given */
  const char *output;        /* --output: a file; NULL: not given */
  const char *expect;        /* --expect: a file; NULL: not given */
  const char *stage;         /* --stage; NULL: not given */
  const char *after;         /* --after: a pass; NULL: not given */
  const char *node;          /* --node: a name; NULL: not given */
  const char *weights;       /* --weights; NULL: not given */
  bool grad;                 /* --grad */
  const char *stop_after;    /* --stop-after: a pass; NULL: not given */
  const char *peak;          /* --peak: GFLOPS:GBS; NULL: measured */
  const char *trace;         /* --trace: a file; NULL: not given */
  const char *against;       /* --against: engines, or what diff compares with; NULL: none */
  const char *peers;         /* --peers: a folder; NULL: not given */
  const char *budget;        /* --accuracy-budget: 0.5% or 40dB; NULL: not given */
  const char *report;        /* --report: a file; NULL: not given */
  const char *promote;       /* --promote: an element type; NULL: not given */
  double rtol;               /* --rtol: allowed relative difference */
  double atol;               /* --atol: allowed absolute difference */
  double seconds;            /* --seconds: time to measure */
  double percentile;         /* --percentile: 0 to 100; NAN: not given */
  bool tolerances;           /* --rtol or --atol was given */
  bool eval;                 /* --eval */
  bool passes_eval;          /* --eval-passes */
  bool layers;               /* --layers */
  bool per_channel;          /* --per-channel */
  bool only_faster;          /* --only-faster */
  bool zero_points;          /* --zero-points */
  bool keep_bias;            /* --no-bias-correction */
  const char *smooth;        /* --smooth: auto, or a number; NULL */
  bool table;                /* --table */
  bool json;                 /* --json */
  bool verbose;              /* --verbose */
  bool quiet;                /* --quiet */
  bool timing;               /* --timing */
  bool verify;               /* --verify */
  bool no_cache;             /* --no-cache */
  bool unchecked;            /* --unchecked */
  bool reproducible;         /* --reproducible */
  const char *schedule;      /* --schedule; NULL: none */
  bool frames;               /* --frames */
  bool passes;               /* --passes */
  bool help;                 /* --help */
  bool version;              /* --version */
  uint64_t seed;             /* --seed: of random data */
  uint64_t fuel;             /* --fuel: rewrites allowed */
  uint64_t memory_limit;     /* --memory-limit: bytes; 0: none */
  uint64_t iterations;       /* --iterations: runs to measure; 0: by --seconds */
  uint64_t warmup;           /* --warmup: runs before those that are measured */
  train_args train;          /* options of train and evaluate */
  VEC(pass_time) times;      /* time of each pass, as the library reports it */
} cli;
typedef struct command {
  uint32_t bit;         /* CMD_* */
  const char *name;     /* the word on the command line; NULL: end of the table */
  const char *synopsis; /* its arguments */
  const char *what;     /* one line for the list of commands */
  int (*fn)(cli *k);    /* does it; the exit code */
  uint32_t min_args;    /* least number of arguments */
  uint32_t max_args;    /* greatest number of arguments */
  const char *about;    /* text for the manual; NULL: the command is hidden */
  const char *example;  /* arguments of an example for the manual */
} command;
extern const command commands[]; /* ends with a NULL name */

/* ---- options.c ------------------------------------------------------------------------------- */
typedef enum {
  O_FLAG,
  O_TEXT,
  O_LIST,
  O_INT,
  O_COUNT, /* any number that an int holds */
  O_U64,
  O_BYTES, /* a number, or one with K, M, G or T behind it: 1024 and its powers */
  O_DOUBLE,
  O_LEVEL,
  O_PAIR,  /* two values, added to a list */
  O_CHOICE /* the number of the word among the option's values */
} option_kind;
typedef struct option {
  const char *name;  /* without the two dashes; NULL: end of the table */
  char letter;       /* short form; 0: none */
  const char *value; /* what the value is called: FILE.. a file, A|B one of these, PASS, TARGET; NULL: none */
  option_kind kind;  /* how the value is read */
  size_t at;         /* offset in cli of the field that it sets */
  uint32_t commands; /* CMD_* of the commands that take it, and RARE */
  const char *what;  /* what the option does, for --help */
} option;
extern const option options[]; /* ends with a NULL name */
typedef struct variable {
  const char *name;  /* name of the variable; NULL: end of the table */
  const char *value; /* what the value is called */
  const char *what;  /* what the variable does, for the manual */
} variable;
extern const variable variables[]; /* variables of the environment; ends with a NULL name */
/* false: the program is done, with exit code *code */
bool options_parse(cli *k, int argc, char **argv, int *code);
void usage(FILE *f, const command *c);         /* c NULL: of the whole program */
const command *find_command(const char *name); /* NULL: there is none */
ek_options compile_options(cli *k);
ek_code make_run(cli *k, ek_module *m, ek_run **r);
/* ---- main.c ---------------------------------------------------------------------------------- */
int fail(cli *k, ek_code code);   /* says what the session has to say; the exit code */
const char *session_text(cli *k); /* the same without the word "error", for ctx_fail */
int fail_text(cli *k, ek_code code, const char *text);
int exit_of(ek_code code);
/* Unwinds where the folder of a file that is to be written is not there, or cannot be written to. path NULL: no file */
void check_writable(cli *k, const char *option, const char *path);
/* prints to stderr, unless --quiet */
void say(cli *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void print_json(const sbuf *b); /* prints to stdout, with a newline */
bool colors(int fd);
void print_times(cli *k);
void json_times(cli *k, json *j);
/* ---- progress.c ------------------------------------------------------------------------------ */
void progress_begin(cli *k);
void progress_phase(const char *phase, double done);                      /* a long step of the program itself */
void progress_detail(const char *phase, const char *detail, double done); /* the same, with a text that changes */
void progress_clear(void); /* to be called before anything else is printed */
void progress_end(void);
/* ---- tensors.c ------------------------------------------------------------------------------- */
typedef struct host_tensor {
  ek_tensor_info info; /* what the module states about it */
  ndarray d;           /* its data; owned by the program's arena */
  bool made;           /* not given: random */
  int64_t frames;      /* frames of the array, the first of which is d; 0: it has none, and is the same in each */
} host_tensor;
/* a tensor's type and sizes as text, such as f32[N, 3] */
const char *tensor_text(arena *a, etype t, uint32_t rank, const int64_t *dims, const char *const *names);
bool is_library(const char *path);
bool ends_in(const char *s, const char *suffix);
double array_number(const ndarray *d, int64_t i); /* element i */
/* The model as a module (compiled, or a saved library). model: NULL when it is a library. False: said why, *code is
 * the exit code. */
bool open_module(cli *k, const char *path, ek_model **model, ek_module **module, int *code);
ndarray output_array(ek_module *m, ek_run *r, int32_t i, ek_tensor_info *info);
typedef struct comparison {
  bool fits;       /* types and sizes can be compared */
  bool same;       /* no element is wrong */
  int64_t count;   /* number of elements */
  int64_t wrong;   /* number of elements beyond the tolerance */
  int64_t first;   /* index of the first wrong element, row-major; -1: none */
  double max_abs;  /* greatest absolute difference */
  double max_rel;  /* greatest relative difference */
  const char *why; /* what does not fit; NULL: it fits */
  double got;      /* the first wrong element */
  double want;     /* what it should be */
} comparison;
comparison compare(cli *k, const ndarray *got, const ndarray *want);
bool type_fits(etype want, etype got); /* an array of type got may be given for one of type want */
/* ---- inputs.c -------------------------------------------------------------------------------- */
/* The arrays for all inputs by the options; their sizes are told to the run, their data bound. */
bool bind_inputs(cli *k, ek_module *m, ek_run *r, host_tensor **in, int *code);
/* Which of n tensors is an array of a file for? By its name, by PREFIX and its name, or by PREFIX and its number; -1:
 * none. */
int32_t array_of(cli *k, const char *array, const char *prefix, const ek_tensor_info *t, int32_t n);
/* names, types and sizes of tensors as text, such as x: f32[N, 3], y: i64[2] */
const char *tensor_list(cli *k, const ek_tensor_info *t, int32_t n);
/* ---- data.c ---------------------------------------------------------------------------------- */
typedef struct data_set data_set; /* samples of a model's inputs */
/* The files and folders of --data; unwinds where one cannot be read, or does not fit the n inputs. */
data_set *data_read(cli *k, const ek_tensor_info *in, int32_t n);
size_t data_samples(const data_set *d); /* at least 1 */
/* sample i for ek_quantize_options.sample; user: the data_set */
int data_sample(void *user, size_t i, ek_array *inputs, size_t n);
/* ---- expect.c -------------------------------------------------------------------------------- */
/* The arrays of --expect, each for an output of the module, values on the way included; unwinds where one is for none.
 * of: of each output its array, or NULL. */
typedef struct expected {
  npz file;           /* the arrays of --expect */
  const ndarray **of; /* the array of --expect for each output; NULL: there is none */
} expected;
void read_expected(cli *k, ek_module *m, expected *e);
/* Compares an output with what is expected of it, and prints how they differ. True: they agree. */
const char *place_text(arena *a, uint32_t rank, const int64_t *at); /* an element's index, such as [0, 3] */
bool tell_comparison(cli *k, const ndarray *d, const char *name, const ndarray *want, json *j);
/* ---- frames.c: run --frames ------------------------------------------------------------------ */
/* The array of t has an axis more: t->d becomes its first frame. False: it has not, or --frames was not given. */
bool frames_of(cli *k, host_tensor *t);
/* executes once for each frame; the outputs of all are in k->stacked then */
ek_code frames_run(cli *k, ek_module *m, ek_run *r, host_tensor *in);
/* output_array, but of all frames where there are any */
ndarray result_array(cli *k, ek_module *m, ek_run *r, int32_t i, ek_tensor_info *info);
/* ---- watch.c --------------------------------------------------------------------------------- */
/* Values on the way that --dump and --expect ask for; NULL: none. False: said why. */
bool watched(cli *k, ek_model *model, const char *const **names, int *code);
bool is_watched(const cli *k, const char *name); /* an output of the module that is none of the model's own */
/* Of the outputs whose result is false in same[]: tells which the model computes first, and by which node. */
void tell_first(cli *k, ek_model *model, ek_module *m, const bool *same, json *j);
void write_dumps(cli *k, ek_model *model, ek_module *m, ek_run *r);
/* ---- bench.c --------------------------------------------------------------------------------- */
enum {
  /* milliseconds of measuring the machine's peak after each slice: right after a model has run, so that the clock is
   * the same */
  PEAK_MS = 40
};
double process_peak(int pid);                     /* most bytes that the process had resident so far; 0: not known */
double quantile(double *v, uint32_t n, double q); /* the q-quantile, 0..1; sorts v; 0 where n is 0 */
/* Numbers that a quantile is taken of: all while they are few, then every second, fourth, ... one. */
typedef struct sample {
  double *v;      /* the numbers kept */
  uint32_t n;     /* how many are kept */
  uint32_t cap;   /* places at v */
  uint32_t every; /* one of so many numbers is kept */
  uint32_t seen;  /* how many were added */
} sample;
void sample_add(arena *a, sample *s, double x);
/* MACs of one run with the sizes it had; -1: not known */
double model_macs(cli *k, ek_model *model, const host_tensor *in, int32_t n);

/* ---- peer.c: other engines, each a python with bench/peer.py ---------------------------------- */
const char *peer_script(cli *k); /* the file peer.py; NULL: it is not there */
/* a python that has the engine: one in --peers, or python3; NULL: there is none */
const char *peer_python(cli *k, const char *script, const char *engine);
int peer_start(char *const *argv, int in, int out); /* starts a program; in, out: its pipes, -1: none. Its process */
int peer_ended(int pid);                            /* waits for its end; the exit code */
const char *peer_folder(cli *k);                    /* a new folder for files that engines read; unwinds on failure */
void peer_remove(const char *folder);
typedef struct peer_question { /* what has a model computed? */
  const ek_array *inputs;      /* data of its inputs, with their names */
  size_t n;                    /* number of inputs */
  const char *const *names;    /* tensors that are asked for */
  size_t wanted;               /* how many */
} peer_question;
/* The values that an engine computes for these tensors, under their names. NULL, or why there are none. */
const char *peer_values(cli *k, const char *engine, peer_question q, npz *out);

/* ---- against.c ------------------------------------------------------------------------------- */
/* runs the comparison; returns the exit code */
int bench_against(cli *k, ek_model *model, ek_module *m, ek_run *r, host_tensor *in);

int cmd_run(cli *k);
int cmd_compile(cli *k);
int cmd_show(cli *k);
int cmd_check(cli *k);
int cmd_info(cli *k);
int cmd_bench(cli *k);
int cmd_explain(cli *k);
int cmd_ops(cli *k);
int cmd_targets(cli *k);
int cmd_diff(cli *k);
int cmd_quantize(cli *k);
int cmd_train(cli *k);
int cmd_evaluate(cli *k);
/* --train: a trainer for batches of --data, and the first of these; options: how it is compiled. EXIT_DONE, or said
 * why. */
int open_step(cli *k, const ek_options *options, ek_trainer **t, ek_array **batch, size_t *n);
int compile_step(cli *k, ek_report *r); /* compile --train: EXIT_DONE, or said why */
int cmd_describe(cli *k);
int cmd_help(cli *k);
#endif
