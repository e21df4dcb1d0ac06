/* Private to the driver: what the handles of einkorn.h are, and how its files share them.
 *
 *   session ── models ── (loaded graph, only to be looked at)
 *           └─ modules ── runs
 *
 * Every compilation has a context of its own, which its module owns: closing the module gives all its memory
 * back. A model keeps its source, and is read again for each compilation (reading is cheap:
 * weights are mapped). Handles come from memory.c, so that they outlive contexts; runs use no context at all, so
 * that they may work in any thread.
 */
#ifndef EK_DRIVER_DRIVER_H
#define EK_DRIVER_DRIVER_H
#include "driver/pipeline.h"
#include "einkorn/einkorn.h"
#include <pthread.h>

/* ---- memory.c -------------------------------------------------------------------------------- */
typedef struct memory { /* where memory comes from; NULL, or alloc NULL: the C library */
  /* gives `bytes` bytes with this alignment, or NULL; NULL: the C library's */
  void *(*alloc)(void *user, size_t bytes, size_t align);
  void (*free)(void *user, void *p, size_t bytes); /* takes them back */
  void *user;                                      /* handed to both */
  size_t compile_limit;                            /* most bytes of one compilation; 0: no limit */
} memory;
void *mem_get(const memory *m, size_t bytes); /* any contents, 64-aligned; NULL: none */
void *mem_zero(const memory *m, size_t bytes);
void mem_put(const memory *m, void *p);
char *mem_str(const memory *m, const char *s);
/* A piece of `room` bytes of which a thread touches the first `likely` ones until the end, so that they are there.
 * NULL: not worth it, or not possible. Its end gives the piece, of which `bytes` are wanted; NULL (and the piece
 * is given back): none are, or they are more than there is room for, or h is NULL. */
typedef struct ahead ahead;
ahead *mem_ahead(const memory *m, size_t likely, size_t room);
/* the number of bytes that are likely has become known; h may be NULL */
void mem_ahead_more(ahead *h, size_t likely);
void *mem_ahead_end(ahead *h, size_t bytes);
/* A text that is kept between calls; its memory is reused. */
typedef struct text {
  char *s;           /* NUL-terminated once anything was put; NULL before */
  size_t n;          /* bytes in use, without the NUL */
  size_t cap;        /* bytes allocated */
  const memory *mem; /* where its memory comes from */
} text;
bool text_put(text *t, const char *s, size_t n); /* false: no memory */
bool text_set(text *t, const char *s);
void text_free(text *t);
/* ---- user_ops.c: operator definitions of the user ---------------------------------------------- */
typedef struct own_ops {
  char *name;   /* name for messages; the file, where there is no text */
  char *text;   /* definitions handed over in memory; NULL: the file is read by each compilation */
  size_t bytes; /* bytes at text */
} own_ops;
/* puts a copy of `o` behind the `*n` definitions of *list; false: no memory */
bool own_ops_add(const memory *m, own_ops **list, uint32_t *n, const own_ops *o);
void own_ops_free(const memory *m, own_ops *list, uint32_t n);
ops_source own_ops_source(const own_ops *o); /* as compiling reads it */
ops_sources own_ops_sources(ctx *c, const own_ops *list, uint32_t n);

ctx *session_ctx(ek_session *s); /* a context with the session's memory; NULL when there is none */

struct ek_session {
  memory mem;           /* where memory comes from */
  pthread_mutex_t lock; /* guards message and pool, which several threads may use through modules */
  ek_rt_pool *pool;     /* pool of all runs that name none; NULL until first needed */
  int pool_threads;     /* threads of pool */
  text message;         /* text of the last failure */
  text result;          /* the text that a call gave out */
  void (*log)(void *user, int level, const char *text); /* gets diagnostics; NULL: env_levels decides */
  void *log_user;                                       /* handed to log */
  int env_levels; /* diagnostics below this level go to stderr when there is no log; 0: none */
  /* is told how far a long step is, and may cancel it by a result other than 0; NULL: nobody is */
  int (*progress)(void *user, const char *phase, double done);
  void *progress_user; /* handed to progress */
  own_ops *ops;        /* the user's definitions */
  uint32_t nops;       /* number of entries in `ops` */
  ek_model *models;    /* open models, the latest first */
  ek_module *modules;  /* open modules, the latest first */
  ek_arrays *arrays;   /* open archives of arrays, the latest first */
  ctx *scratch;        /* context of the last call that gave out more than a text; NULL: none */
};
struct ek_model {
  ek_session *s;      /* session that it belongs to */
  ek_model *next;     /* opened before it; NULL: the first */
  char *path;         /* file of the model; NULL: it is in memory */
  char *name;         /* name for messages */
  const void *data;   /* bytes of a model in memory; the caller's */
  size_t bytes;       /* number of bytes at `data` */
  own_ops *ops;       /* the session's definitions when the model was loaded */
  uint32_t nops;      /* number of entries in `ops` */
  ctx *c;             /* context of p */
  pipeline *p;        /* loaded; lowered on demand */
  bool lowered;       /* lowering was tried */
  ek_code lower_code; /* what lowering ended with */
};
typedef enum { MODULE_JIT = 1, MODULE_SAVED, MODULE_EVAL } module_kind;
struct ek_module {
  ek_session *s;         /* session that it belongs to */
  ek_module *next;       /* made before it; NULL: the first */
  module_kind kind;      /* how it runs */
  const ek_rt_model *d;  /* descriptor of the model: inputs, outputs, plan, run */
  uint8_t *weights;      /* JIT: own, 64-aligned; NULL when they are in `mapped` */
  ahead *room;           /* JIT: memory for the weights until they are written; NULL: none */
  struct image *code;    /* JIT, from the cache: instead of j */
  bytes mapped;          /* the mapped entry of the cache; empty: none */
  ctx *c;                /* context of the compilation; NULL: saved */
  pipeline *p;           /* the compilation; NULL: saved */
  jit *j;                /* JIT: the code; NULL: none */
  void *lib;             /* saved model: handle of dlopen; NULL: none */
  pthread_mutex_t lock;  /* EVAL: one run at a time; profiles: one at a time uses the context */
  pthread_mutex_t list;  /* guards runs */
  ek_run *runs;          /* open runs, the latest first */
  int threads;           /* default of runs */
  uint64_t memory_limit; /* bytes, for runs that state none; 0: no limit */
  bool timed;            /* JIT: its runs have a profile */
  bool traced;           /* JIT: the profile records each thread */
  ek_report report;      /* facts about the compilation */
  ek_memory_use use;     /* its states, and what runs again */
};

/* ---- structs.c ------------------------------------------------------------------------------- */
/* Writes the defaults, of which this library knows `own` bytes, into a caller's struct of `bytes` bytes, and its
 * size. */
void struct_init(void *to, size_t bytes, const void *defaults, size_t own);
/* Reads a caller's struct over the defaults in *to, which has `own` bytes. False: its size is none, or larger
 * than this library knows. */
bool struct_read(const void *given, void *to, size_t own);
#define STRUCT_UNKNOWN(name)                                                                                           \
  name ".size is %zu, this library's has %zu bytes: set it up by " name "_init, or use a library as new as the header"
/* ---- api.c ----------------------------------------------------------------------------------- */
/* copies the diagnostics of c to the session; the code of the first error, else `otherwise` */
ek_code session_done(ek_session *s, ctx *c, ek_code otherwise);
ek_code session_fail(ek_session *s, ek_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* a pointer that is needed is NULL; s may be it */
ek_code session_null(ek_session *s);
void diag_print(const diag *d, sbuf *b); /* appends a diagnostic as one line, without a newline */
/* the options given, and the defaults for the rest. A wrong size is told by options_read */
ek_options all_options(const ek_options *given);
/* false: an error was recorded */
bool options_read(ctx *c, const ek_session *s, const ek_options *o, pipe_opts *out);
source model_source(const ek_model *m);
bool model_lowered(ek_model *m, ek_code *code); /* lowers the model if it was not; its shapes are known then */
/* Makes a context, and calls fn in it with a fresh pipeline whose model is loaded and lowered (setup, if any, sees it
 * before). The context is handed to the caller (by *keep) when fn gives EK_OK, and freed otherwise. */
ek_code in_pipe(ek_model *m, const ek_options *o, void (*setup)(pipeline *p, void *env),
                ek_code (*fn)(pipeline *p, void *env), void *env, ctx **keep);
void fill_tensor(ek_tensor_info *out, const char *name, etype t, uint32_t rank, ctx *c, const sz *shape);
void tie_states(graph *g, const char *const *states); /* of ek_options.states; NULL: none */
/* ---- watch.c: values that become outputs: those of these names, or "*"; unwinds where there is none ---- */
void watch_values(graph *g, const char *const *names);
/* ---- save_onnx.c ----------------------------------------------------------------------------- */
/* p is loaded, its nodes being the standard's: decides what is told in save_onnx.c; types and sizes are known then */
void simplify_graph(pipeline *p, const ops_sources *ops);
void save_as_onnx(pipeline *p, const ops_sources *ops, const char *path, ek_report *report);
/* ---- module.c -------------------------------------------------------------------------------- */
/* What no option of the header asks for. */
typedef struct inner_options {
  const graph_part *part; /* only this part of the model; NULL: all of it */
  const char *skip;       /* expr passes left out, with spaces between; NULL: none */
  bool plain;             /* kernels are scheduled as at level 0 */
  /* changes the graph before it is lowered, by operators that `edit_ops` defines; NULL: nothing does */
  void (*edit)(graph *g, void *env);
  void *edit_env;       /* handed to edit */
  const char *edit_ops; /* definitions of operators; NULL: none */
  bool no_sharing;      /* buffers share no memory */
  uint64_t memory;      /* bytes that a run may take, states and constants included; 0: no limit */
  pass_ref after;       /* with evaluate 2: what there is after this pass is interpreted; name NULL: after all */
} inner_options;
void inner_apply(pipeline *p, const inner_options *x); /* x NULL: nothing */
/* ek_show with more options; x NULL: without */
ek_code show_inner(ek_model *m, const ek_options *o, const inner_options *x, const ek_show_options *w,
                   const char **text);
/* ek_compile with more options; x NULL: without. The cache is not asked with them */
ek_code compile_inner(ek_model *model, const ek_options *given, const inner_options *x, ek_module **out);
void module_free(ek_module *m);
/* the descriptor of a module, in which plan, run and weights are still missing; p: NULL where there is no code */
ek_rt_model *describe(ctx *c, emodule *m, const program *p, const char *name, const char *memory);
static inline int64_t model_states(const ek_rt_model *d) { return d->version >= 3 ? d->states : 0; }
static inline const int64_t *model_orders(const ek_rt_model *d) { return d->version >= 4 ? d->orders : NULL; }
/* what is known of it before there is code, then how long everything took */
void report_program(pipeline *p, ek_report *r);
void report_times(pipeline *p, ek_report *r);
uint32_t program_kernels(const program *p);
/* ---- state.c: what stays from run to run, of one run object ---- */
typedef struct run_states run_states;
run_states *states_new(const ek_module *m, bool *ok); /* NULL: there are none, or no memory: *ok */
void states_free(run_states *s);
/* The sizes of the states are known: dims of all, one after the other. Those that were not begun get their first value.
 * EK_SHAPE: one was begun with other sizes; EK_MEMORY. The text of a failure goes to `why`. */
ek_code states_size(run_states *s, const int64_t *dims, text *why);
int64_t states_bytes(const run_states *s); /* that they take */
/* where the next run finds the old values and puts the new ones; EK_USAGE: one was lost (states_after) */
ek_code states_before(run_states *s, const void **in, void **out, text *why);
void states_after(run_states *s, bool good); /* the run is done; not good: those in place are lost */
void states_mark(run_states *s);             /* see run_mark_memory */
/* The API's functions of the same names; name NULL: all. s NULL: there are no states. */
ek_code states_reset(run_states *s, const char *name, text *why);
ek_code states_snapshot(run_states *s, const char *name, ek_array *out, text *why);
ek_code states_restore(run_states *s, const ek_array *from, text *why);
/* ---- run.c ----------------------------------------------------------------------------------- */
/* Before the first prepare: memory that the run gets is filled with ones, so that no element that is not written has
 * the right value by chance. */
void run_mark_memory(ek_run *r);
bool tensor_bytes(const ek_rt_tensor *t, const int64_t *dims, int64_t *bytes); /* false: too many */
/* working memory, if the sizes of all inputs are fixed */
bool run_need(const ek_rt_model *d, int threads, int64_t *bytes);
/* ---- threads.c ------------------------------------------------------------------------------- */
int default_threads(int asked);                       /* number of threads: asked, or ek_threads() for 0 */
ek_rt_pool *session_pool(ek_session *s, int threads); /* the session's, if it is for so many threads; else NULL */
ek_rt_pool *pool_of(ek_pool *p);
typedef struct borrowed { /* The caller's own threads, lent to a run. */
  /* the caller's function that runs n tasks */
  void (*parallel_for)(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
  void *user; /* handed to it */
} borrowed;
/* call->pool: a `borrowed` */
void borrowed_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks);
/* ---- info.c ---------------------------------------------------------------------------------- */
/* additions, multiplications, ... of one computation of a stage, as it stands */
sz info_stage_ops(ctx *c, emodule *m, const stage *s);
/* ---- trace.c: when each launch, and each piece of it, ran in which thread ---- */
typedef struct trace trace;
trace *trace_new(const memory *mem); /* NULL: no memory */
void trace_free(trace *t);
void trace_begin(trace *t, int64_t now); /* an execute begins: what the last one recorded is forgotten */
void trace_add(trace *t, uint32_t launch, int64_t thread, bool part, int64_t from, int64_t to); /* times in ns */
/* starts a launch by `parallel`, with a clock around each piece that a thread takes */
void trace_launch(trace *t, uint32_t launch, ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks,
                  void (*parallel)(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks));
const ek_event *trace_events(const trace *t, size_t *n);
/* ---- profile.c: the clock of a run whose program tells where each launch begins and ends (program.timed) ---- */
typedef struct profile profile;
profile *profile_new(const ek_module *m); /* NULL: no memory */
int64_t clock_ns(void);                   /* monotonic clock, nanoseconds */
/* the trace, and the launch that is going on; NULL: there is no trace */
trace *profile_trace(const profile *p, uint32_t *launch);
void profile_free(profile *p);
void profile_begin(profile *p);                                /* forgets the last execute */
bool profile_tick(profile *p, ek_rt_kernel k, int64_t number); /* false: k is no tick */
/* fills p's table: what each launch is and does, with these sizes (sized: the same as before), and how long it took;
 * in the module's context */
void profile_kernels(profile *p, const int64_t *in_dims, bool sized);
const ek_kernel *profile_table(const profile *p, size_t *n);
/* ---- eval.c: a module without code. Both fill the call record as compiled functions do; text of failures goes to
 * `why` ---- */
ek_code eval_plan(ek_module *m, ek_rt_call *call, text *why);
/* an ek_code, or EK_RT_ROOM as code does */
int eval_run(ek_module *m, ek_rt_call *call, const int64_t *out_room, text *why);
/* ---- header.c: the text of the header beside saved code ---- */
const char *model_header(ctx *c, const char *name, const ek_rt_model *d);
/* ek_save with more options; x NULL: without */
ek_code save_inner(ek_model *m, const ek_options *o, const inner_options *x, const char *path, ek_report *report);
/* ---- save.c, link.c -------------------------------------------------------------------------- */
/* embed.c */
extern const uint8_t driver_runtime_object[], driver_runtime_object_end[], driver_runtime_header[],
    driver_runtime_header_end[];
/* One link: object files in a folder of their own beside the result, which appears whole or not at all. */
typedef struct linking linking;
/* a shared library, else one relocatable object */
linking *link_begin(ctx *c, const char *out, bool shared);
/* the object's bytes stay the caller's; name: of its file, if one is written */
void link_add(linking *k, const char *name, bytes object);
/* room for n read-only bytes under a hidden symbol, of which only pointers know; for the machine that the object
 * `like` is for */
void link_reserve(linking *k, const char *symbol, size_t n, bytes like);
/* name: of the model, whose functions NAME_run and NAME_info are what others see. native: for this machine, so that its
 * libc is named. Unwinds with E_TARGET when a linker is needed and there is none */
void link_run(linking *k, const char *name, bool native);
/* the reserved bytes, to be written after link_run */
uint8_t *link_room(linking *k);
/* so many of them are written: from time to time they leave memory for the file */
void link_wrote(linking *k, size_t n);
uint64_t link_end(linking *k); /* writes the file to its place; its size in bytes */
/* removes what is left of the folder; also after link_end */
void link_drop(linking *k);
/* ---- ops_table.c: every operator with versions, types, gradient and cost, in Markdown -------- */
/* make: the definitions, in any context */
void ops_table(ctx *c, oplib *(*make)(ctx *c, void *env), void *env, sbuf *b);
#endif
