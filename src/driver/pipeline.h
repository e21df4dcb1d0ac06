/* pipeline: one compilation, from a file to native code. The order of everything is in pipeline.c, readable top to
 * bottom.
 *
 *   level    object                 made by
 *   graph    graph *                load (ONNX or graph text), typed by lower
 *   expr     emodule *              lower; then the passes of passes/passes.h
 *   loop     splan *, lmodule *     schedule
 *   program  program *              program (memory, plan and run functions)
 *   code     jit *, object, text    by the caller, from what is here
 *
 * All passes over all levels are one table (pipe_passes): after each of them its time is told, its result can be
 * verified and printed, and compilation can stop.
 */
#ifndef EK_DRIVER_PIPELINE_H
#define EK_DRIVER_PIPELINE_H
#include "codegen/emit/emit.h"
#include "driver/lower.h"
#include "program/program.h"

typedef enum { PL_NONE, PL_GRAPH, PL_EXPR, PL_LOOP, PL_PROGRAM, PL_CODE } plevel;
typedef struct pipe_pass {
  plevel level;     /* level that it works on */
  const char *name; /* name for --after and --stop-after */
  const char *doc;  /* what it does, in one line */
  int from;         /* optimisation level that it runs from */
} pipe_pass;
const pipe_pass *pipe_passes(arena *a, uint32_t *n); /* the passes in the order of running */
const char *plevel_name(plevel l);

/* Where a model comes from. */
typedef struct source {
  const char *path; /* file; NULL: the model is in data */
  bytes data;       /* bytes of the model, where path is NULL */
  const char *name; /* for messages */
} source;
/* One run of a pass: `inline`, or `inline#2` for its second one. */
typedef struct pass_ref {
  const char *name; /* NULL: no pass */
  uint32_t nth;     /* 0: any; 1: the first time it runs, ... */
} pass_ref;

typedef struct pipe_opts {
  int level;                  /* optimisation level, 0..3 */
  uint32_t compile_threads;   /* not 0 */
  const char *target;         /* name or file of the machine; NULL: host */
  const dimfix *dims;         /* sizes from --dim */
  uint32_t ndims;             /* number of entries in `dims` */
  uint64_t fuel;              /* rewrites allowed; 0: no limit */
  const char *skip;           /* expr passes left out, by name, with spaces between */
  bool verify;                /* every pass's result is verified */
  bool unchecked;             /* no checks of the indices that data bring */
  bool reproducible;          /* no order of a sum follows from the number of threads */
  bool strict;                /* no pass that regroups sums beyond reassociation */
  bool fast;                  /* an error of 1e-3 of a tensor's largest value is allowed */
  etype narrow;               /* factors of products may be kept in it: bf16, f16; ET_NONE: as they are */
  bool only_llvm;             /* all code comes from LLVM */
  bool plain;                 /* kernels are scheduled as at level 0, whatever the level */
  bool no_sharing;            /* buffers share no memory */
  bool no_reuse;              /* equal kernels are scheduled each for itself; for tests */
  bool record;                /* the schedules of the kernels are kept, to be printed */
  const char *schedules;      /* text of schedules that are followed; NULL: none */
  const char *schedules_name; /* the text's name for messages */
  memory_bound bound;         /* what a run may take */
  pass_ref stop_after;        /* compilation ends after it */
  pass_ref show_after;        /* the text of its result is collected in pipeline.shown */
  /* is told of each pass and its time; NULL: nobody is */
  void (*pass)(void *user, const char *level, const char *pass, int changed, double ms);
  void *pass_user; /* handed to pass */
  /* is told how far compilation is, and may cancel it by a result other than 0; NULL: nobody is */
  int (*progress)(void *user, const char *phase, double done);
  void *progress_user;      /* handed to progress */
  const char *show_node;    /* only what comes from this node is shown; NULL: all */
  const char *const *watch; /* NULL-terminated: values that become outputs, too (watch.c); NULL: none */
  /* NULL-terminated, OUTPUT=INPUT: what stays from run to run; not in a part. NULL: nothing does */
  const char *const *states;
  /* changes the graph before it is lowered, by operators that `edit_ops` defines; NULL: nothing does */
  void (*edit)(graph *g, void *env);
  void *edit_env;         /* handed to edit */
  const char *edit_ops;   /* definitions of operators; NULL: none */
  const graph_part *part; /* only this part of the model is compiled; NULL: all of it */
  bool weights_inline;    /* constants are shown in full */
} pipe_opts;

typedef struct pipeline {
  ctx *c;             /* context of the compilation */
  arena *a;           /* its memory */
  pipe_opts o;        /* options */
  const target *t;    /* the machine */
  graph *g;           /* graph level; NULL: not loaded */
  oplib *lib;         /* definitions of operators; NULL: not read */
  emodule *m;         /* expr level; NULL: not lowered */
  splan *s;           /* loop level; NULL: not scheduled */
  program *p;         /* program level; NULL: not made */
  sbuf shown;         /* what --after collected */
  bool stopped;       /* stop_after has ended it */
  bool standard;      /* set before pipe_load: operators stay those of ONNX, and pipe_lower does nothing */
  bool timed;         /* set before pipe_program: launches are timed (profile.c) */
  bool unread;        /* set before pipe_program: nobody will ask for the weights */
  uint32_t lowered;   /* number of diagnostics before lowering */
  plevel at;          /* the last level reached */
  map *runs_of;       /* pass name -> how often it ran */
  double began;       /* when the compilation began, milliseconds (now_ms) */
  double load_ms;     /* time of loading and lowering, milliseconds */
  double passes_ms;   /* time of the expr passes, milliseconds */
  double schedule_ms; /* time of scheduling and the program, milliseconds */
  double code_ms;     /* time of code generation, milliseconds */
  uint64_t rewrites;  /* rewrites done so far */
  void (*keep)(void *env, bytes object); /* gets every object that pipe_jit makes, from several threads; NULL */
  void *keep_env;                        /* handed to keep */
} pipeline;

/* Each does all that stands before it and was not done yet; they unwind on errors (all diagnostics recorded), and
 * return false when stop_after ended the compilation. */
pipeline *pipe_new(ctx *c, const pipe_opts *o);
typedef struct ops_source { /* operator definitions of the user */
  const char *name;         /* name for messages; the file, where there is no text */
  bytes text;               /* p NULL: what the file holds when it is read */
} ops_source;
typedef VEC(ops_source) ops_sources;
bool ops_text(ctx *c, const ops_source *s, bytes *out); /* the definitions' text; false: an error was recorded */
oplib *pipe_library(ctx *c, const ops_sources *user);   /* the built-in operators and the user's */
/* A format of models (front_ends.c). */
typedef struct front_end {
  const char *name;            /* name of the format */
  bool (*recognises)(bytes b); /* is it a file of this format, by its first bytes? */
  /* reads a model; NULL, with diagnostics: it cannot be read. standard: operators stay those of the format's own
   * standard */
  graph *(*load)(ctx *c, const source *s, bytes b, bool standard);
} front_end;
const front_end *front_end_of(bytes b); /* the format of a file; never NULL */

bool pipe_load(pipeline *p, const source *s); /* makes the graph */
/* expr as the definitions say, unoptimised: what the evaluator runs */
bool pipe_lower(pipeline *p, const ops_sources *user);
bool pipe_optimise(pipeline *p); /* makes the optimised expr module, by all passes */
/* makes loops and the program; between the two the values of the expr level give their memory back, unless the module
 * is to be profiled */
bool pipe_program(pipeline *p);
/* after pipe_program: what code is not made from gives its memory back. That is constants from which no weights come
 * and, unless the module is to be profiled, all that is known of sizes: describe and report_program come before it */
void pipe_release(pipeline *p);
/* The program's constants, packed; what they were packed from gives its memory back: once only. wrote (may be NULL):
 * see program_weights. n: of so many bytes. */
void pipe_weights(pipeline *p, uint64_t n, uint8_t *to, void (*wrote)(void *env, size_t n), void *env);
/* the bytes of pipe_weights, piece by piece, as often as wanted */
void pipe_weights_stream(pipeline *p, void (*put)(void *env, bytes piece), void *env);
jit *pipe_jit(pipeline *p); /* compiles the code for this process; NULL: stop_after ended the compilation */
code_opts pipe_code_opts(const pipeline *p);
void pipe_print(pipeline *p, plevel l, sbuf *b);  /* the object of a level as it is now */
pass_ref pipe_pass_ref(ctx *c, const char *text); /* "inline#2"; unwinds when there is no such pass */
/* formats.c: files of formats that are known and not read here; what refuses says what to do, and unwinds */
bool foreign_file(bytes b);
graph *refuse_foreign(ctx *c, const source *s, bytes b, bool standard);
void foreign_folder(ctx *c, const char *path); /* unwinds if it is a folder */
/* The name of a saved model's functions: the file's name without folder and suffix, made an identifier. */
const char *pipe_symbol(arena *a, const char *path);
#endif
