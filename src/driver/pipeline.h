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
  plevel level;
  const char *name, *doc;
  int from; /* optimisation level */
} pipe_pass;
const pipe_pass *pipe_passes(arena *a, uint32_t *n); /* in the order of running */
const char *plevel_name(plevel l);

/* Where a model comes from. */
typedef struct source {
  const char *path; /* NULL: data */
  bytes data;
  const char *name; /* for messages */
} source;
typedef struct pass_ref {
  const char *name;
  uint32_t nth;
} pass_ref; /* turn 0: any; 1: the first time it runs, ... */

typedef struct pipe_opts {
  int level;                /* of optimisation, 0..3 */
  uint32_t compile_threads; /* not 0 */
  const char *target;       /* NULL: host */
  const dimfix *dims;
  uint32_t ndims;
  uint64_t fuel;
  const char *skip; /* expr passes left out, by name, with spaces between */
  bool verify;
  bool unchecked; /* no checks of the indices that data bring */
  bool strict;    /* no pass that regroups sums beyond reassociation */
  bool fast;      /* an error of 1e-3 of a tensor's largest value is as good */
  bool narrow;    /* products with constants may be of bf16 */
  bool only_llvm; /* makes the code in this process */
  pass_ref stop_after, show_after;
  void (*pass)(void *user, const char *level, const char *pass, int changed, double ms);
  void *pass_user;
  int (*progress)(void *user, const char *phase, double done);
  void *progress_user;
  const char *show_node;
  const char *const *watch; /* NULL-terminated: what else becomes an output (watch.c); NULL */
  bool weights_inline;
} pipe_opts;

typedef struct pipeline {
  ctx *c;
  arena *a;
  pipe_opts o;
  const target *t;
  graph *g;
  oplib *lib;
  emodule *m;
  splan *s;
  program *p;
  sbuf shown;       /* what --after collected */
  bool stopped;     /* by stop_after */
  bool standard;    /* set before pipe_load: operators stay those of ONNX, and pipe_lower does nothing */
  bool timed;       /* set before pipe_program: launches are timed (profile.c) */
  bool bound;       /* set before pipe_weights: nobody will ask for sizes any more */
  bool unread;      /* set before pipe_program: nobody will ask for the weights */
  uint32_t lowered; /* what was said before lowering */
  plevel at;        /* the last level reached */
  map *runs_of;     /* pass name -> how often it ran */
  double began, load_ms, passes_ms, schedule_ms, code_ms;
  uint64_t rewrites;
  /* gets every object that pipe_jit makes, from several threads; NULL */
  void (*keep)(void *env, bytes object);
  void *keep_env;
} pipeline;

/* Each does all that stands before it and was not done yet; they unwind on errors (all diagnostics recorded), and
 * return false when stop_after ended the compilation. */
pipeline *pipe_new(ctx *c, const pipe_opts *o);
oplib *pipe_library(ctx *c, const strvec *user_files); /* the built-in operators and the user's */
/* A format of models (front_ends.c). */
typedef struct front_end {
  const char *name;
  bool (*recognises)(bytes b); /* by the first bytes */
  /* NULL, with diagnostics: it cannot be read. standard: operators stay those of the format's own standard */
  graph *(*load)(ctx *c, const source *s, bytes b, bool standard);
} front_end;
const front_end *front_end_of(bytes b); /* never NULL */

bool pipe_load(pipeline *p, const source *s); /* graph */
/* expr as the definitions say, unoptimised: what the evaluator runs */
bool pipe_lower(pipeline *p, const strvec *user_files);
bool pipe_optimise(pipeline *p); /* expr, all passes */
bool pipe_program(pipeline *p);  /* loop and program */
/* after pipe_program: constants from which no weights come give their memory back; nothing reads the expr level's
 * constants any more */
void pipe_release_constants(pipeline *p);
/* The program's constants, packed; what they were packed from gives its memory back: once only. wrote (may be NULL):
 * see program_weights. */
void pipe_weights(pipeline *p, uint8_t *to, void (*wrote)(void *env, size_t n), void *env);
/* the same, piece by piece, as often as wanted */
void pipe_weights_stream(pipeline *p, void (*put)(void *env, bytes piece), void *env);
jit *pipe_jit(pipeline *p); /* NULL: stopped */
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
