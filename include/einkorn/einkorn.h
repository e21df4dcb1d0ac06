/* Einkorn: compile deep-learning models to native code, and run them.
 *
 *   ek_session *s = ek_session_create();
 *   ek_model *m; ek_module *code; ek_run *run;
 *   if (ek_load(s, "model.onnx", &m) || ek_compile(m, NULL, &code) || ek_run_create(code, 0, &run)) {
 *   puts(ek_message(s)); ... }
 *   ek_run_bind_input(run, 0, x);
 *   if (ek_run_execute(run)) puts(ek_run_message(run));
 *   const float *y = ek_run_output_data(run, 0);
 *   ek_session_destroy(s);
 *
 * examples/classify.c is a complete program. C99, usable from C++. Handles are opaque. The library never exits,
 * aborts or opens a network connection, and prints only where EINKORN_LOG asks for it. No global state: two
 * sessions never share anything.
 *
 * Conventions, which hold where a function does not say otherwise:
 * Errors     Every function that can fail returns an ek_code. The text of the last failure of a session is
 *            ek_message(), of a run ek_run_message(). After a failure the handle is as before the call, output
 *            parameters
 *            that are handles are NULL. Out of memory is EK_MEMORY everywhere.
 * NULL       where a handle, a text, an array or a place for a result is needed is EK_USAGE; functions that
 *            return a number give 0 for it, those that return a text "", others do nothing.
 * Ownership  is in the verb: create/destroy, load/close, compile/close make and end a handle; ending NULL does
 *            nothing; ending a handle ends what was made from it. Everything a handle gives out (strings,
 *            tensors) is
 *            borrowed: valid as long as the handle. What the caller hands in is copied, unless the function says
 *            that it is borrowed.
 * Threads    A session, with its models, is used by one thread at a time. A module is different: after it was
 *            compiled or loaded, any number of threads may make runs of it, ask about it and execute, each with a
 *            run of
 *            its own, at the same time; also while other threads use the session (ek_module_close and
 *            ek_session_destroy only when nobody uses the module any more). A run is used by one thread at a
 *            time, but for
 *            ek_run_cancel. Callbacks are called in the thread that called the library, unless they say
 *            otherwise; they must not call functions of the same session or run, and must return (no longjmp, no
 *            exception).
 * Fork       A child of fork() may go on with modules, runs and pools that no other thread of the parent was
 *            inside of at that moment; it gets threads of its own.
 * Shapes     dims are numbers of elements, outermost first; tensors are dense and row-major, aligned as their
 *            element type; ranks are at most EK_MAX_RANK. Memory is in bytes, times are in milliseconds.
 * Structs    whose first field is `size` are set up by their _init function, which is told how large the caller's
 *            struct is: it writes no byte beyond, and fields that the caller's header does not have yet are the
 *            defaults. So programs compiled against an older header go on working. (By name, as dlsym finds them, the
 *            _init functions write what the first header of this soname declared, and everything after that is the
 *            default: callers without this header set fields by NAME_init_sized.) Structs without `size` never
 *            grow within a soname.
 * Environment EINKORN_LOG=error, warning, note or info: sessions without a log function write diagnostics up to
 * that level to stderr, each one line `einkorn: TEXT`. EINKORN_NUM_THREADS: threads to use where 0 (the default)
 * is asked for, instead of what the process may use by its affinity and the quota of its control group.
 */
#ifndef EINKORN_H
#define EINKORN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define EK_API __attribute__((visibility("default")))
#define EK_VERSION "0.1.0" /* of this header; ek_version() is that of the library */

typedef enum ek_code {
  EK_OK = 0,
  EK_FAILED,      /* anything without a better name */
  EK_USAGE,       /* wrong option or call */
  EK_UNSUPPORTED, /* legal, but not supported (yet) */
  EK_MODEL,       /* the model is malformed */
  EK_SHAPE,       /* shapes or types do not fit */
  EK_IO,          /* file missing, unreadable, truncated */
  EK_MEMORY,      /* out of memory, or a stated limit */
  EK_TARGET,      /* code generation, linker */
  EK_INTERNAL,    /* a bug in Einkorn; please report */
  EK_CANCELLED    /* by the progress function, by ek_run_cancel, or as ek_options.stop_after asked */
} ek_code;

/* Element types: ONNX TensorProto.DataType codes. Elements narrower than a byte take a byte each. */
typedef enum ek_type {
  EK_FLOAT = 1,
  EK_UINT8 = 2,
  EK_INT8 = 3,
  EK_UINT16 = 4,
  EK_INT16 = 5,
  EK_INT32 = 6,
  EK_INT64 = 7,
  EK_STRING = 8,
  EK_BOOL = 9,
  EK_FLOAT16 = 10,
  EK_DOUBLE = 11,
  EK_UINT32 = 12,
  EK_UINT64 = 13,
  EK_BFLOAT16 = 16,
  EK_FLOAT8E4M3FN = 17,
  EK_FLOAT8E4M3FNUZ = 18,
  EK_FLOAT8E5M2 = 19,
  EK_FLOAT8E5M2FNUZ = 20,
  EK_UINT4 = 21,
  EK_INT4 = 22,
  EK_FLOAT4E2M1 = 23,
  EK_FLOAT8E8M0 = 24,
  EK_UINT2 = 25,
  EK_INT2 = 26
} ek_type;
EK_API const char *ek_type_name(ek_type t); /* "f32", "i64", ...; "?" if unknown. Static text, any thread */
/* bytes of one element in memory; 0 for strings and unknown types. Any thread */
EK_API size_t ek_type_bytes(ek_type t);
/* "out of memory", ...: a few words for messages. Static text, any thread */
EK_API const char *ek_code_name(ek_code code);
#define EK_MAX_RANK 16

typedef struct ek_session ek_session; /* options, diagnostics and everything made from them, of one user */
typedef struct ek_model ek_model;     /* a model as a graph: inspected, compiled, not run */
typedef struct ek_module ek_module;   /* compiled code; constant after it was made */
typedef struct ek_run ek_run;         /* a context to run a module in: sizes, working memory, outputs */
typedef struct ek_pool ek_pool;       /* threads for runs */

/* ---- the library ----------------------------------------------------------------------------- */
EK_API const char *ek_version(void); /* "MAJOR.MINOR.PATCH" of the library that is loaded. Static text, any thread */
/* File of the LLVM library that would be loaded for other targets than x86-64, --codegen llvm and disassembly; "": none
 * is in the usual folders. Static text, any thread */
EK_API const char *ek_llvm_path(void);
/* Threads that this process may use now: EINKORN_NUM_THREADS if that is a number from 1 to 1024, else the processors
 * of the calling thread's affinity, or fewer where a control group (version 1 or 2) has a smaller quota
 * (rounded up). At least 1. Any thread. Reads the environment: not while another thread changes it. */
EK_API int ek_threads(void);

/* ---- sessions -------------------------------------------------------------------------------- */
typedef struct ek_session_options {
  size_t size; /* sizeof(ek_session_options): set by ek_session_options_init */
  /* The caller's allocator, for the session, its models and modules, the compiler's own data, packed constants,
   * working memory and outputs of runs. alloc: `bytes` bytes (at least 1) with any contents at a multiple of
   * `align` (a power of two, at most 64), or NULL when there are none; free: p of alloc, with the bytes asked for
   * then. Both may be called by several threads at once. Both NULL: the C library. Not through these: code
   * and what LLVM needs to make it, threads, mapped files. */
  void *(*alloc)(void *user, size_t bytes, size_t align);
  void (*free)(void *user, void *p, size_t bytes); /* takes p of alloc back, with the bytes asked for then */
  void *alloc_user;                                /* handed to alloc and free */
  /* most bytes that the compiler's own data may take in one call (LLVM's memory and mapped files do not count);
   * beyond: EK_MEMORY. 0: no limit */
  uint64_t compile_memory;
} ek_session_options;
/* the defaults. Any thread, as all _init functions */
EK_API void ek_session_options_init(ek_session_options *o); /* the defaults */
EK_API void ek_session_options_init_sized(ek_session_options *o,
                                          size_t bytes); /* the same of a struct of so many bytes */
#define ek_session_options_init(o) ek_session_options_init_sized((o), sizeof(ek_session_options))
EK_API ek_session *ek_session_create(void); /* a new session; NULL: out of memory. Any thread */
/* a new session with these options; NULL when out of memory, or when o is not right: a wrong size, or only one of alloc
 * and free. Any thread */
EK_API ek_session *ek_session_create_with(const ek_session_options *o);
EK_API void ek_session_destroy(ek_session *s); /* ends everything that was made with it */
/* all diagnostics of the last failing call, one a line, "" if none; valid until the next call on s or on one of its
 * modules */
EK_API const char *ek_message(const ek_session *s);
/* Each diagnostic of a call, also warnings, before that call returns; level 0 error, 1 warning, 2 note, 3 info;
 * text: one line, valid during the call. NULL: nobody listens. user: handed back. */
EK_API void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user);
/* Progress of long steps (loading, compiling, saving): phase (static text) and the part of it that is done, 0..1;
 * return non-zero to cancel: the step fails with EK_CANCELLED. NULL: nobody looks. For models loaded
 * afterwards too. */
EK_API void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user);
/* Operator definitions of the user (.ek), for models loaded afterwards. The file is read again by each compilation.
 * EK_IO, EK_MODEL (with file:line:column). */
EK_API ek_code ek_load_ops(ek_session *s, const char *path);
/* The same from memory: `bytes` bytes of text, which are copied. name: for messages; NULL: "operators". EK_MODEL (with
 * name:line:column). */
EK_API ek_code ek_load_ops_memory(ek_session *s, const void *text, size_t bytes, const char *name);

/* ---- models ---------------------------------------------------------------------------------- */
/* Loads a model: .onnx or graph text, by content. The file and its external data stay mapped; they must not change as
 * long as the model is used, or a module from it that has states. EK_IO, EK_MODEL, EK_UNSUPPORTED. */
EK_API ek_code ek_load(ek_session *s, const char *path, ek_model **out);
/* Loads a model from memory: borrowed, and unchanged, as long as the model and what is compiled from it. name: for
 * messages; NULL: "model". External data has no folder here: EK_IO when the model has any. */
EK_API ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out);
EK_API void ek_model_close(ek_model *m); /* modules compiled from it live on */
typedef struct ek_tensor_info {
  const char *name;                   /* name in the model */
  ek_type type;                       /* element type */
  int32_t rank;                       /* -1: not known without running the model */
  int64_t dims[EK_MAX_RANK];          /* -1: known only at run time */
  const char *dim_names[EK_MAX_RANK]; /* for each dim of -1: a symbol or a formula; NULL for the others */
} ek_tensor_info;
EK_API int32_t ek_model_inputs(const ek_model *m);  /* how many (initialisers do not count) */
EK_API int32_t ek_model_outputs(const ek_model *m); /* how many */
/* what input i is, from 0; EK_USAGE: there is none */
EK_API ek_code ek_model_input(ek_model *m, int32_t i, ek_tensor_info *out);
/* what output i is; the first call infers all shapes, and may fail as ek_compile does */
EK_API ek_code ek_model_output(ek_model *m, int32_t i, ek_tensor_info *out);
/* What the file says beside the model (metadata_props); a trained model's say which class each text of its data is
 * (docs/training.md) */
typedef struct ek_metadata {
  const char *key;  /* what it is about */
  const char *text; /* what it says */
} ek_metadata;
/* all entries, in the file's order; they live as long as the model */
EK_API ek_code ek_model_metadata(ek_model *m, const ek_metadata **entries, size_t *n);
/* What the model computes: each tensor, in the order of the nodes, that its outputs need. */
typedef struct ek_value_info {
  const char *name; /* name of the tensor */
  const char *node; /* name of the node that computes it */
  const char *op;   /* name of the node's operator */
  int32_t output;   /* which output of the model it is; -1: none */
} ek_value_info;
/* all values that the model computes; they live as long as the model */
EK_API ek_code ek_model_values(ek_model *m, const ek_value_info **values, size_t *n);

/* ---- compiling ------------------------------------------------------------------------------- */
/* What becomes of sums of floats. STRICT: their terms are added in another order, nothing else. DEFAULT: also
 * algebraic forms with fewer multiplications (Winograd's), as long as the error stays within 1e-4 of an output's
 * largest value; and large constants that few rows are multiplied with in fixed point, 21 bits for each value of
 * a column, which come from memory in two thirds of the time. FAST: also shorter approximations of exp, tanh and
 * erf, within 1e-3. */
typedef enum ek_accuracy { EK_ACCURACY_DEFAULT, EK_ACCURACY_STRICT, EK_ACCURACY_FAST } ek_accuracy;
/* In what floats are kept between operations. MODEL: in the types that the model says. BF16: the factors of products
 * (matrix products, convolutions, attention) may be kept in bf16, so that each value has 8 bits of precision there;
 * sums stay in f32. Twice as fast where the machine multiplies pairs of bf16; elsewhere a warning tells
 * that it changes nothing. F16: the same factors in f16, 11 bits each, at most 65504; a step of training scales its
 * loss (ek_train_options.loss_scale). It halves memory, and computes as in f32. */
typedef enum ek_precision { EK_PRECISION_MODEL, EK_PRECISION_BF16, EK_PRECISION_F16 } ek_precision;
/* Who makes machine code, of a module and of what ek_save writes. AUTO: Einkorn itself, function by function, where
 * it can, in a fiftieth of LLVM's time; LLVM the rest. LLVM: all by LLVM. */
typedef enum ek_codegen { EK_CODEGEN_AUTO, EK_CODEGEN_LLVM } ek_codegen;
typedef struct ek_options {
  size_t size;         /* sizeof(ek_options): set by ek_options_init */
  int optimize;        /* 0..3; default 3. 0: as simple as possible, for comparison */
  int threads;         /* threads that runs use by default; 0: what the process may use */
  int compile_threads; /* 0: what the process may use */
  const char *target;  /* NULL: this machine; else a target's name or file */
  /* Symbolic dimensions, NULL-terminated, or NULL. "N=8": fixes one. "N=1:8:64": leaves it open between the least and
   * the most: sizes outside are refused with EK_SHAPE; for the likely size, 8 (all likely ones together, where there
   * are several), there is a variant of the code in which it is a number, beside the general one. "N=1::64": only the
   * bounds. */
  const char *const *dims;
  uint64_t fuel; /* rewrites allowed before passes stop; 0: no limit (to find a bad one by bisection) */
  int verify;    /* check the program after every pass */
  /* no code: runs interpret the definitions, slow and obvious (to compare with); 2: what the passes made of them;
   * 3: the definitions with every float in f64, outputs too (inputs have the model's types) */
  int evaluate;
  /* a pass ("inline", or "inline#2" for its second turn) after which compilation ends (ek_compile and ek_save then
   * give EK_CANCELLED); NULL */
  const char *stop_after;
  /* Called after every pass. NULL: nobody looks. */
  void (*pass)(void *user, const char *level, const char *pass, int changed, double ms);
  void *pass_user; /* handed to pass */
  /* bytes: ek_run_options.memory_limit of runs that say 0; a model whose working memory is known and with its states
   * larger is refused (EK_MEMORY). Where it is a number, and the limit below it, kernels run again instead of their
   * results being kept, as far as that helps (ek_memory_use.repeated); values stay as they are, bit for bit. ek_save
   * refuses a model of which some run could take more, with the sizes that it permits. 0: no limit */
  uint64_t memory_limit;
  /* Compiled code and packed weights kept on disk. The default is NULL: a library writes nothing that nobody asked for.
   * "": in $EINKORN_CACHE_DIR, else $XDG_CACHE_HOME/einkorn, else ~/.cache/einkorn (what the program einkorn does);
   * else a folder, which is made if it is missing. It must belong to the user and be writable for nobody else. If
   * ek_compile finds the model there, compiled with the same options by the same Einkorn for the same processor,
   * nothing is compiled, and its constants are mapped: processes share them, and the session's allocator has nothing to
   * do with them. A cache never makes a call fail: what is wrong with it is told to the log, as info. Not used with
   * evaluate, verify, fuel and stop_after. */
  const char *cache;
  /* most that all of it may take; what was used longest ago goes first. 0: $EINKORN_CACHE_SIZE (such as 500M), else
   * 2 GiB */
  uint64_t cache_bytes;
  ek_accuracy accuracy; /* default EK_ACCURACY_DEFAULT */
  /* runs look at the clock before and after each kernel, for ek_run_kernels; 2: in each thread, too, for ek_run_events;
   * such code is not kept in the cache */
  int profile;
  ek_precision precision; /* default EK_PRECISION_MODEL */
  ek_codegen codegen;     /* default EK_CODEGEN_AUTO */
  /* Values on the way, NULL-terminated, or NULL: names of tensors that the model computes, or of nodes, or "*" for all;
   * each becomes an output of the module, under its name, behind the model's own, in the order of the nodes. They are
   * kept in memory, and nodes that they stand between do not run together: slower. The cache is not used. */
  const char *const *watch;
  /* An index that data bring and that lies outside of what it chooses from ends a run with EK_SHAPE, which names the
   * node, the value, its place and the range. 1: nobody looks; such a run gives some values, never memory of others */
  int unchecked;
  /* States, NULL-terminated, or NULL: OUTPUT=INPUT ties an output to an input of the same type and sizes. Neither is
   * an output or input of the module any more. Each run keeps the tensor, under the input's name: what the output is in
   * one execute, the input is in the next. It begins with zeros, or, where INPUT is an initialiser, with its contents.
   * One '*' in each name stands for the same text: all outputs that fit are tied. An output that is longer than its
   * input along one axis, the input with something behind it (a cache that grows by Concat), makes a state of as many
   * places as `dims` bounds the input's size; how many of them hold something is said by the sizes of the other inputs.
   * Another size that no other input has is the most that `dims` allows.
   * EK_USAGE: no such name, or tied already; EK_SHAPE: types or sizes differ, or no bound. ek_save cannot write such a
   * model as .onnx; ek_diff compares one run, with the inputs that it is given. */
  const char *const *states;
  /* Schedules that kernels follow, as ek_show prints them ("schedule"), or NULL: what the text states replaces what
   * the compiler would decide for these kernels. EK_USAGE, with line and column: what cannot be followed */
  const char *schedule;
  const char *schedule_name; /* what messages call this text, such as a file; NULL: "schedule" */
  /* 1: the same bits with any number of threads, of runs and of training steps: sums whose order would follow from
   * where a thread's part begins have another one. EK_USAGE: `schedule` states such an order */
  int reproducible;
} ek_options;
EK_API void ek_options_init(ek_options *o);                     /* the defaults */
EK_API void ek_options_init_sized(ek_options *o, size_t bytes); /* the same of a struct of so many bytes */
#define ek_options_init(o) ek_options_init_sized((o), sizeof(ek_options))
/* what compilation came to; strings as long as the handle it came from (ek_save: until the next call on the session) */
typedef struct ek_report {
  /* working memory in bytes: a number, or a formula in the symbolic dimensions and `threads` */
  const char *memory;
  /* most bytes live at one time: no order of memory can be below it; NULL if not known */
  const char *least_memory;
  uint64_t weight_bytes; /* bytes of the packed constants */
  uint64_t code_bytes;   /* bytes of the machine code's objects */
  uint64_t file_bytes;   /* ek_save: bytes of the file; else 0 */
  uint32_t kernels;      /* kernels launched in one run */
  uint32_t functions;    /* functions of the program */
  uint32_t compiled;     /* how many of them are different */
  uint64_t rewrites;     /* made by passes: what `fuel` counts */
  double total_ms;       /* milliseconds of the whole call; of them: */
  double load_ms;        /* milliseconds of reading and lowering the model */
  double passes_ms;      /* milliseconds of passes over the formulas */
  double schedule_ms;    /* milliseconds of making loops, the plan of memory and the program */
  double code_ms;        /* milliseconds of generating machine code */
  int cached;            /* the code was not made by this call: it came from the cache (ek_options.cache) */
} ek_report;
/* Compiles a model to code in this process. o: NULL for the defaults; read during the call. EK_USAGE (options),
 * EK_UNSUPPORTED, EK_MODEL, EK_SHAPE, EK_TARGET, EK_CANCELLED. */
EK_API ek_code ek_compile(ek_model *m, const ek_options *o, ek_module **out);
/* Saves compiled code: by the suffix of path .so, .o or .c; a header .h is written beside it; or, as .onnx, the model
 * itself with all decided that constants and fixed dimensions decide (beyond 2 GiB with its constants beside it in
 * PATH.data; of report only file_bytes is set). A .o needs a linker on PATH, and so does a .so for another processor
 * than x86-64. The symbols are NAME_run and NAME_info; NAME is the file's name made an identifier. report may be NULL.
 * The files appear whole or not at all. Errors as ek_compile, and EK_IO. */
EK_API ek_code ek_save(ek_model *m, const ek_options *o, const char *path, ek_report *report);
/* What a run of a module takes. */
typedef struct ek_memory_use {
  size_t size;          /* sizeof(ek_memory_use): set by the caller; so much is written */
  uint64_t work_bytes;  /* working memory, in as many threads as it was compiled for; 0: not known before a run */
  uint64_t state_bytes; /* states: of a training step its parameters, statistics and moments */
  /* packed constants; with what states begin with, unless that is long and read from the model's file when they do */
  uint64_t constant_bytes;
  uint64_t repeated;    /* kernels that run again in each run, for less memory */
  double repeated_cost; /* their estimated time, as a part of that of the others */
} ek_memory_use;
/* of a module that was loaded from a file only the working memory is known. m NULL: zeros */
EK_API void ek_module_memory(const ek_module *m, ek_memory_use *out);
/* Loads a saved .so: runs its code as any library does, so load only what you trust. EK_IO, EK_MODEL (not made by
 * ek_save), EK_TARGET (other kind of processor), EK_UNSUPPORTED (made by a version that is too far away). */
EK_API ek_code ek_module_load(ek_session *s, const char *path, ek_module **out);
/* Loads a saved .so from memory, which is copied. name: for messages. Linux only */
EK_API ek_code ek_module_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_module **out);
/* ends its runs, too: none may be executing */
EK_API void ek_module_close(ek_module *m);
/* What a module has and what it is, any thread. i from 0; EK_USAGE: there is no such input or output. */
EK_API int32_t ek_module_inputs(const ek_module *m);
EK_API int32_t ek_module_outputs(const ek_module *m);
EK_API ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out);
/* The number of the input, or output, of that name; -1: there is none. */
EK_API int32_t ek_module_find_input(const ek_module *m, const char *name);
EK_API int32_t ek_module_find_output(const ek_module *m, const char *name);
/* Its states (ek_options.states), under the names of their inputs. EK_USAGE: there is no such state. */
EK_API int32_t ek_module_states(const ek_module *m);
EK_API ek_code ek_module_state(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API void ek_module_report(const ek_module *m, ek_report *out); /* what compiling it came to */

/* ---- threads for runs ----
 * Runs with more than one thread share the threads of a pool. By default that is one pool per session, made when
 * a run first needs it: however many runs there are, it has no more threads than one of them wants (a run that
 * wants more than ek_threads(), and more than the first such run wanted, gets a pool of its own), so that runs
 * side by side do not get into each other's way. A kernel of one run uses the pool at a time; a run that finds it
 * taken computes its kernel alone, without waiting. For several runs that shall each have threads of their
 * own at all times, make pools. A pool's threads look out for work for 0.3 ms after the last kernel, yielding the
 * processor to whoever wants it, and then sleep; they block all signals. */
/* A pool of so many threads, the caller of ek_run_execute included; 0: ek_threads(). NULL: out of memory, or not 0 to
 * 1024. Any thread */
EK_API ek_pool *ek_pool_create(int threads);
EK_API void ek_pool_destroy(ek_pool *p); /* to be called after all runs that use it. Any thread */

/* ---- arrays: numpy's files and IDX ----------------------------------------------------------- */
typedef struct ek_array {
  const char *name;          /* name in a .npz; "" of another file */
  ek_type type;              /* element type */
  int32_t rank;              /* number of axes */
  int64_t dims[EK_MAX_RANK]; /* size of each axis */
  const void *data;          /* dense and row-major */
  size_t bytes;              /* bytes at data */
} ek_array;
typedef struct ek_arrays ek_arrays; /* the arrays of one file */
/* Reads a .npz, .npy or IDX file (MNIST's format, also packed by gzip), by content. Texts become bytes: EK_UINT8 with
 * one axis more, as models take them. EK_IO, EK_MODEL. */
EK_API ek_code ek_arrays_load(ek_session *s, const char *path, ek_arrays **out);
EK_API void ek_arrays_close(ek_arrays *a);         /* ends what was given out of it, too */
EK_API size_t ek_arrays_count(const ek_arrays *a); /* how many */
/* i from 0; EK_USAGE: there is no such array. What is given out lives as long as `a` */
EK_API ek_code ek_arrays_get(const ek_arrays *a, size_t i, ek_array *out);
/* finds an array by its name; EK_USAGE: there is none */
EK_API ek_code ek_arrays_find(const ek_arrays *a, const char *name, ek_array *out);
/* Writes n arrays as a .npz, which appears whole or not at all. EK_IO. */
EK_API ek_code ek_arrays_save(ek_session *s, const char *path, const ek_array *arrays, size_t n);

/* ---- running --------------------------------------------------------------------------------- */
typedef struct ek_run_options {
  size_t size; /* sizeof(ek_run_options): set by ek_run_options_init */
  /* 1 to 1024: computes in so many at most, the caller of ek_run_execute included; 0: as compiled. Working memory
   * may grow with it (ek_report.memory) */
  int threads;
  /* most bytes for working memory, states and outputs that are not bound; beyond, sizes are refused (EK_MEMORY) before
   * anything is allocated for them. 0: ek_options.memory_limit */
  uint64_t memory_limit;
  ek_pool *pool; /* borrowed as long as the run; NULL: the session's */
  /* The caller's own threads instead of a pool: calls task(arg, 0) .. task(arg, n - 1), in any order, in any threads
   * (also all of them in this one), and returns when all have returned. n is at most `threads`. Called in
   * the thread of ek_run_execute, once per kernel that is worth it. */
  void (*parallel_for)(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
  void *parallel_user; /* handed to parallel_for */
} ek_run_options;
EK_API void ek_run_options_init(ek_run_options *o);                     /* the defaults */
EK_API void ek_run_options_init_sized(ek_run_options *o, size_t bytes); /* the same of a struct of so many bytes */
#define ek_run_options_init(o) ek_run_options_init_sized((o), sizeof(ek_run_options))
/* a run of a module, with so many threads (0: as compiled). Any thread */
EK_API ek_code ek_run_create(ek_module *m, int threads, ek_run **out);
/* a run with options; o NULL: the defaults. EK_USAGE: options. Any thread; the text of a failure is the session's, so
 * look at the code first */
EK_API ek_code ek_run_create_with(ek_module *m, const ek_run_options *o, ek_run **out);
/* any thread; not while it executes */
EK_API void ek_run_destroy(ek_run *r);
/* Sizes of input i, where the model leaves them open (fixed ones may be said again). dims: `rank` numbers, copied.
 * EK_USAGE: no such input; EK_SHAPE: rank, or a dimension that the model fixes. */
EK_API ek_code ek_run_shape(ek_run *r, int32_t i, const int64_t *dims, int32_t rank);
/* Optional: what the first execute with new sizes would do: checks that the sizes fit together, computes memory,
 * allocates. EK_SHAPE; EK_MEMORY: out of memory, or over the limit (the message says how much is needed and by
 * which formula, and ek_run_memory() gives it, too); the memory that the run has stays. */
EK_API ek_code ek_run_prepare(ek_run *r);
/* data of input i: as many elements as the shape says when executed; borrowed until the next bind; may be NULL when
 * the tensor is empty */
EK_API ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data);
/* memory for output i: room for ek_run_output_bytes(), borrowed until the next bind; unbound (or NULL): memory of the
 * run. May not overlap inputs or other outputs */
EK_API ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data);
/* ek_run_shape and ek_run_bind_input in one, by the input's name: `bytes` bytes at data, borrowed until the next time.
 * EK_USAGE: no such input (the message tells those there are); EK_SHAPE: rank, a dimension that the model fixes, or
 * bytes that are not what dims and the element type make. */
EK_API ek_code ek_run_set_input(ek_run *r, const char *name, const void *data, size_t bytes, const int64_t *dims,
                                int32_t rank);
/* ek_run_bind_output by name: room for `bytes` bytes at data. EK_USAGE: no such output. Where the output needs more,
 * ek_run_execute gives EK_MEMORY. */
EK_API ek_code ek_run_set_output(ek_run *r, const char *name, void *data, size_t bytes);
/* Computes the outputs. Allocates nothing after the first call with the same sizes (those found in the run included).
 * EK_USAGE: an input without data; EK_SHAPE: also sizes that come out of data; EK_MEMORY: also a bound output that
 * turns out to need more than ek_run_output_bytes() said: it says so now, bind and run again; EK_CANCELLED; else as
 * ek_run_prepare. After a failure outputs hold anything. */
EK_API ek_code ek_run_execute(ek_run *r);
/* Any thread, also a signal handler: an execute that is going on ends with EK_CANCELLED before its next kernel; if
 * none is, the next one does. Each call cancels one execute. */
EK_API void ek_run_cancel(ek_run *r);
/* after prepare: most bytes the output can take with these sizes; of one whose sizes only a run finds, and nothing
 * bounds, what the runs so far needed (at first 0). 0 if there is no such output */
EK_API size_t ek_run_output_bytes(const ek_run *r, int32_t i);
/* after execute: actual; after prepare: upper bounds. dims: room for EK_MAX_RANK */
EK_API ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank);
/* bound or own memory; valid until the next call of shape, bind or execute. NULL: no such output, or nothing
 * executed yet */
EK_API const void *ek_run_output_data(const ek_run *r, int32_t i);
/* After execute: the output of that name; data as ek_run_output_data. EK_USAGE: no such output, or nothing executed. */
EK_API ek_code ek_run_get_output(ek_run *r, const char *name, ek_array *out);
/* ---- states: what a run keeps from one execute to the next (ek_options.states). Each run has its own. An execute that
 * fails leaves them as they were, but for those that the program changes in place, which it may have begun to change:
 * until they are reset or restored, ek_run_execute gives EK_USAGE. ---- */
/* The state gets its first value; name NULL: all states do. Sizes may be others afterwards. EK_USAGE: no such state;
 * EK_IO: the model's file, which has that value, was changed. */
EK_API ek_code ek_run_reset(ek_run *r, const char *name);
/* What the state holds now, row-major, whatever the order in which the program keeps it: data is the run's own, valid
 * until its next execute, reset, restore or snapshot of this state; copy it to keep it. EK_USAGE: no such state; its
 * sizes are not known yet; a failed execute changed it. EK_MEMORY. */
EK_API ek_code ek_run_snapshot(ek_run *r, const char *name, ek_array *out);
/* The state becomes a copy of `bytes` bytes at data, row-major, of its element type. EK_USAGE: no such state; EK_SHAPE:
 * rank, a dimension that the model fixes, or bytes that are not what dims and the element type make. */
EK_API ek_code ek_run_restore(ek_run *r, const char *name, const void *data, size_t bytes, const int64_t *dims,
                              int32_t rank);
/* after prepare: bytes of working memory: the value of the report's formula */
EK_API int64_t ek_run_memory(const ek_run *r);
/* most threads it computes in */
EK_API int ek_run_threads(const ek_run *r);
/* text of the last failure of this run, "" if none; valid until the next call on it */
EK_API const char *ek_run_message(const ek_run *r);

/* Where the time of a run goes: each launch of a kernel in the program, in its order. Modules with
 * ek_options.profile only. */
typedef struct ek_kernel {
  const char *name;    /* its function, as ek_show prints it */
  const char *kind;    /* contraction, stencil, row, elementwise, copy, ... */
  const char *tensors; /* what it computes, as ek_show names it */
  /* of the model, which it computes wholly or in part; commas between them. [NAME]: nothing of that node is left by
   * itself; this kernel, or several, read what it read, and do its work if there is any */
  const char *nodes;
  const char *how;   /* what was special in putting it together; "" */
  const char *apart; /* why it is not one kernel with those that it reads from: `NAME: reason`, one a line; "" */
  int parallel;      /* its chunks go to several threads */
  /* arithmetic operations of one start, with the sizes of the run; sizes that come out of data count with their
   * bounds */
  double ops;
  double weight_bytes; /* constants that one start reads, */
  double bytes;        /* and everything else that it reads and writes, each byte once */
  uint64_t starts;     /* how often it ran in the last ek_run_execute */
  double ms;           /* which took so long together */
} ek_kernel;
/* after execute; valid until the next call on the run; texts as long as the module. EK_USAGE */
EK_API ek_code ek_run_kernels(ek_run *r, const ek_kernel **kernels, size_t *n);

/* When each launch ran, and which thread did which piece of it: of the last execute, at most 32768 events. Modules with
 * ek_options.profile 2 only. */
typedef struct ek_event {
  uint32_t kernel; /* the launch: its place in the table of ek_run_kernels */
  int32_t thread;  /* 0: the caller of ek_run_execute; 1, 2, ..: others of the pool */
  int32_t piece;   /* 0: the whole launch; 1: the part of its chunks that this thread took at a time */
  double start_ms; /* since ek_run_execute began to compute */
  double ms;       /* how long it took */
} ek_event;
/* after execute; valid until the next call on the run. EK_USAGE */
EK_API ek_code ek_run_events(ek_run *r, const ek_event **events, size_t *n);

/* ---- is it right? ------------------------------------------------------------------------------
 * Where does a wrong result begin? Every tensor on the way, in the order of the nodes, is compared with what the
 * definition of its operator gives in f64 for the inputs that the node really had: so an error that inputs brought
 * along is not counted again. The first tensor whose own error is larger than rounding explains is the one to look at.
 */
typedef struct ek_checked { /* a tensor that was compared */
  const char *name;         /* name of the tensor */
  const char *node;         /* name of the node that computes it */
  const char *op;           /* name of the node's operator */
  double error;             /* largest difference from the definition, divided by the largest value */
  const char *skipped;      /* why it was not compared; NULL: it was */
  int wrong;                /* the difference is more than rounding explains */
} ek_checked;
typedef struct ek_diff_options {
  size_t size;               /* sizeof(ek_diff_options): set by ek_diff_options_init */
  const ek_options *options; /* how the model is compiled; NULL: the defaults */
  const ek_array *inputs;    /* the model's inputs, by name; borrowed during the call */
  size_t input_count;        /* how many */
  /* Values of somebody else for tensors of these names: fills in values[i] (data NULL: not known), which must live
   * until the next call or the end of ek_diff; 0, or another number to give up. NULL: there are none. */
  int (*reference)(void *user, const char *const *names, size_t n, ek_array *values);
  void *reference_user; /* handed to reference */
  /* Allowed of an element, beside what the rounding of its inputs explains: atol + rtol times its value. Both 0: by
   * the options' accuracy and the element type: 1e-4 of the tensor's largest value, or 1e-5 (strict), 1e-3 (fast), or
   * four units in the last place of a narrower type. */
  double rtol, atol;
  /* NAME.onnx: the smallest part of the model that still shows the difference is written there, its inputs and right
   * outputs beside it as NAME.npz; NULL: nowhere */
  const char *save;
  int passes;                                            /* also finds the pass that changed the values */
  void (*checked)(void *user, const ek_checked *tensor); /* is told of each tensor; NULL: nobody is */
  void *checked_user;                                    /* handed to checked */
} ek_diff_options;
EK_API void ek_diff_options_init(ek_diff_options *o);                     /* the defaults */
EK_API void ek_diff_options_init_sized(ek_diff_options *o, size_t bytes); /* the same of a struct of so many bytes */
#define ek_diff_options_init(o) ek_diff_options_init_sized((o), sizeof(ek_diff_options))
/* SAME: no tensor differs. CODE: the compiled code does not compute what the definition says. REFERENCE: the code does;
 * the reference does not, for its own inputs of that node. */
typedef enum ek_verdict { EK_VERDICT_SAME, EK_VERDICT_CODE, EK_VERDICT_REFERENCE } ek_verdict;
typedef struct ek_difference {
  ek_verdict verdict;         /* whether anything differs, and whose values do */
  const char *tensor;         /* the first tensor that differs; NULL: none does. All others are about it */
  const char *node;           /* name of the node that computes it */
  const char *op;             /* name of the node's operator */
  const char *why;            /* type or sizes are other ones: which; NULL: values differ */
  ek_type type;               /* its element type */
  int32_t rank;               /* number of axes */
  int64_t dims[EK_MAX_RANK];  /* size of each axis */
  int64_t count;              /* number of elements */
  int64_t wrong;              /* number of elements that differ by more than is allowed */
  int64_t place[EK_MAX_RANK]; /* index of the element that differs most */
  double got;                 /* that element */
  double want;                /* what the definition gives */
  double allowed;             /* difference that rounding explains there */
  size_t checked;             /* tensors compared */
  size_t skipped;             /* tensors that could not be compared */
  size_t part_nodes;          /* nodes of the smallest part that shows it when compiled alone; 0: none does */
  const char *const *part;    /* their names */
  const char *pass;           /* the pass that changed the values; NULL: not asked for, or not found */
  uint64_t rewrite; /* number of the rewrite of that pass (ek_options.fuel: the last right one is one less); 0:
                               * none, the pass is wrong as a whole */
} ek_difference;
/* Runs the model on these inputs and looks for the first tensor that is wrong. Memory is bounded: tensors are compared
 * some at a time, so that the model is compiled several times where they are large. Texts live until the next call on
 * the session. EK_USAGE: an input is missing; EK_IO: `save`; else as ek_compile and ek_run_execute. */
EK_API ek_code ek_diff(ek_model *m, const ek_diff_options *o, ek_difference *out);

/* ---- quantisation ------------------------------------------------------------------------------
 * A model of f32 becomes one whose products are of eight-bit integers. Layers are nodes whose results are sums of
 * products of two tensors (convolutions, matrix products, ..), by the formulas of their operators. Which values the
 * tensors have is measured on samples of data. What is written is the same model with QuantizeLinear and
 * DequantizeLinear of the ONNX standard around the factors, which any engine runs.
 */
/* How the range of a tensor's codes follows from the values that were seen. MINMAX: all of them. PERCENTILE: all but
 * the largest absolute values, so many of a hundred being within. ENTROPY: the range that keeps most information
 * (Kullback-Leibler divergence of 128 bins). MSE: the range whose expected square of the error is least. Of INT4 the
 * ranges are those of blocks of weights: MINMAX, MSE, or GPTQ: with codes that make the error of the products with the
 * samples least (Frantar et al. 2022). */
typedef enum ek_quantize_method {
  EK_QUANTIZE_MINMAX,
  EK_QUANTIZE_PERCENTILE,
  EK_QUANTIZE_ENTROPY,
  EK_QUANTIZE_MSE,
  EK_QUANTIZE_GPTQ
} ek_quantize_method;
/* What is quantised. INT8: both factors of products. INT4: constant matrices that computed tensors are multiplied with,
 * as codes of a few bits, a scale for each block of them; in the file they are com.microsoft's MatMulNBits. BF16: both
 * factors are rounded to bf16, by Cast of the standard; sums and the rest stay f32. The times are those with
 * EK_PRECISION_BF16, which multiplies such factors in bf16. CACHES: the states of `options` (ek_options.states), such
 * as the caches of keys and values of a decoder, as i8 with one scale (per_channel: for each place of the last axis);
 * they stay inputs and outputs of the file. A sample has the other inputs, and begins with the states' first values. */
typedef enum ek_quantize_scheme {
  EK_QUANTIZE_INT8,
  EK_QUANTIZE_INT4,
  EK_QUANTIZE_BF16,
  EK_QUANTIZE_CACHES
} ek_quantize_scheme;
typedef struct ek_quantize_options {
  size_t size;               /* sizeof(ek_quantize_options): set by ek_quantize_options_init */
  const ek_options *options; /* how the model is compiled to be measured; NULL: the defaults */
  size_t samples; /* how many samples there are; with 5 or more the last fifth only measures the error, with a
                              * budget and 2 or more the last half, which also decides */
  /* Fills in sample number i, 0..samples-1: inputs[k], k < n, has the name of an input already; type, rank, dims, data
   * and bytes are wanted. data must live until the next call. 0, or another number to give up. */
  int (*sample)(void *user, size_t i, ek_array *inputs, size_t n);
  void *sample_user;         /* handed to sample */
  ek_quantize_method method; /* default EK_QUANTIZE_MINMAX */
  double percentile;         /* of EK_QUANTIZE_PERCENTILE, above 0, at most 100; default 99.999 */
  int per_channel;           /* constants have a scale for each output channel instead of one */
  /* Patterns of the names of nodes that stay as they are, NULL-terminated; NULL: none. * stands for any text, ? for one
   * character. */
  const char *const *exclude;
  /* Budgets: layers that cost the outputs most, by measurement, stay as they are until both hold, with probability
   * 0.99, on as many other samples as those that ranges were not taken from, by how much these vary. least_sqnr: dB,
   * of each output; 0 (default): any. most_changed: of a hundred rows of the outputs (along the last axis) so many may
   * have another greatest element; below 0 (default): any number. */
  double least_sqnr;
  double most_changed;
  int only_faster; /* layers that take longer in int8 than in f32, measured on this machine, stay as they are */
  ek_quantize_scheme scheme; /* default EK_QUANTIZE_INT8 */
  /* Of EK_QUANTIZE_INT4. Samples are needed for GPTQ, budgets and only_faster alone, as of EK_QUANTIZE_BF16; without
   * them no error and no time is measured (NaN). */
  int bits;           /* of a weight: 2, 3 (stored in 4), 4 (default) or 8 */
  int block_size;     /* weights that share a scale: 16, 32 (default), 64, 128 or 256 along the summed axis */
  int zero_points;    /* each block has a zero point, too */
  int accuracy_level; /* MatMulNBits's attribute: 4: engines may round the other factor to eight bits; default 0 */
  /* SmoothQuant: channels of a layer's input are divided by factors max|x|^smooth / max|w|^(1 - smooth), those of its
   * constant multiplied by them; above 0, at most 1. 0: for each tensor the best exponent, or none, by the expected
   * error. Below 0 (default): nothing is divided. */
  double smooth;
  /* Bias correction, of EK_QUANTIZE_INT8: the mean error of each layer by a constant, channel by channel, over the
   * samples that ranges are taken from, is subtracted from what the layer adds, or by an Add where it adds nothing.
   * Default 1; 0: not. */
  int correct_bias;
} ek_quantize_options;
EK_API void ek_quantize_options_init(ek_quantize_options *o);                     /* the defaults */
EK_API void ek_quantize_options_init_sized(ek_quantize_options *o, size_t bytes); /* the same of so many bytes */
#define ek_quantize_options_init(o) ek_quantize_options_init_sized((o), sizeof(ek_quantize_options))
typedef struct ek_quantized_layer {
  const char *name;   /* name of the node */
  const char *op;     /* name of its operator */
  const char *output; /* its result */
  const char *kept;   /* why it stays as it was; NULL: it is quantised */
  /* signal to noise of its result in the quantised model, in dB: squares of the values over squares of the differences
   * from the f32 model; infinity: there is no difference. NaN: not known */
  double sqnr;
  double alone; /* SQNR of the outputs where this layer alone is quantised; NaN: it was not measured */
  double macs;  /* multiplications of one run, open sizes being 512; 0: not known */
  /* Milliseconds of one run in the model as it was, and in the quantised one: of the kernels that compute it, shared
   * with other layers of these, and of those that quantise its inputs alone. */
  double ms_before;
  double ms_after;
  double
      corrected; /* what was subtracted from its results, channel by channel: the root of its mean square; 0: nothing */
} ek_quantized_layer;
typedef struct ek_quantized_output {
  const char *name; /* name of the output */
  double sqnr;      /* as of a layer */
  double
      changed; /* of a hundred rows (along the last axis): how many have another greatest element; NaN: none has two */
  /* What the SQNR of as many other samples is at least, with probability 0.99, by how much those that were compared
   * vary; NaN: there was one, or none. A budget of dB is held against it. */
  double least;
} ek_quantized_output;
typedef struct ek_smoothed { /* what `smooth` did */
  const char *tensor;        /* input of layers, whose channels were divided by factors */
  double alpha;              /* the exponent: how much of the magnitudes moved into the layers' constants */
  int multiplied;            /* 1: by a Mul that was added; 0: constants of what computes it were divided */
} ek_smoothed;
typedef struct ek_quantized {
  size_t layer_count;                 /* nodes with products; of EK_QUANTIZE_CACHES: states */
  const ek_quantized_layer *layers;   /* in the model's order */
  size_t quantized;                   /* how many of them are quantised */
  double share;                       /* of all layers' multiplications, the part in quantised ones: 0 to 1 */
  size_t output_count;                /* outputs of f32 */
  const ek_quantized_output *outputs; /* in the model's order */
  size_t samples;                     /* samples that there were */
  size_t observed;                    /* samples that ranges were taken from */
  size_t compared;                    /* samples that the errors were measured on */
  double ms_before;                   /* milliseconds that the kernels of one run took, */
  double ms_after;                    /* and those of the quantised model */
  uint64_t bytes_before;              /* size of the model as it was */
  uint64_t bytes_after;               /* size of what was written */
  size_t smoothed_count;              /* tensors that were smoothed */
  const ek_smoothed *smoothed;        /* in the order of the layers that read them */
} ek_quantized;
/* Quantises a model, and writes the result as path, NAME.onnx (as ek_save does). Texts of *out live until the next call
 * on the session. EK_USAGE: no samples where they are needed, options that do not go together, an unknown pattern,
 * nothing that can be quantised, a model that is quantised
 * already; EK_SHAPE: a sample does not fit; EK_FAILED: values that are no numbers, a budget that cannot be kept, or
 * `sample` gave up; else as ek_save
 * and ek_run_execute. */
EK_API ek_code ek_quantize(ek_model *m, const ek_quantize_options *o, const char *path, ek_quantized *out);

/* ---- training ----------------------------------------------------------------------------------
 * A model becomes a step of training: forward, loss, gradient, clipping and update are one compiled program, whose
 * states are the parameters, the optimiser's moments and running statistics. Parameters are the initialisers of floats
 * with an axis at least that the loss depends on. BatchNormalization and Dropout compute what they compute in training.
 * Losses, optimisers and metrics are definitions in the notation, named "NAME" or "NAME:attribute=value,..",
 * a list of numbers as 1/2/3: ek_load_ops adds others, in the domains einkorn.loss, einkorn.optimizer, einkorn.metric
 * and einkorn.metric_value (docs/training.md).
 */
typedef struct ek_trainer ek_trainer;
/* An input that the model standardizes: (x - mean)/deviation. There is one number of each for every place of the first
 * axes of a sample, so many axes that it is `count` places: of images [3, 32, 32] 1, 3, 96 or 3072. */
typedef struct ek_standardization {
  const char *input;       /* name of an input of floats, which the batch has */
  const double *mean;      /* in the units of the input */
  const double *deviation; /* in these units, above 0 */
  size_t count;            /* how many there are of each */
} ek_standardization;
typedef struct ek_train_options {
  size_t size;               /* sizeof(ek_train_options): set by ek_train_options_init */
  const ek_options *options; /* how the step is compiled; NULL: the defaults */
  const char *loss;          /* such as "cross_entropy" or "cross_entropy:ignore_index=0"; needed */
  /* such as "adamw:weight_decay=0.1"; default "adamw"; NULL: none, the trainer only evaluates: nothing is
   * differentiated, and with metrics no loss is needed */
  const char *optimizer;
  /* Metrics, NULL-terminated, such as "accuracy"; NULL: none */
  const char *const *metrics;
  /* The tensor that loss and metrics are of; NULL: the model's first output, or, where its last node computes what the
   * loss computes itself (Softmax before cross_entropy), the input of that node; a note says so */
  const char *output;
  /* What a step is given: names, types and sizes count, data is not read. The model's inputs, whose open sizes become
   * these, and the inputs of the loss and of metrics beside the model's result, under the names of their definitions,
   * such as "target". */
  const ek_array *batch;
  size_t batch_count; /* how many */
  /* Patterns of the names of parameters that stay as they are, NULL-terminated; NULL: none. * stands for any text, ?
   * for one character. */
  const char *const *freeze;
  /* "PATTERN:attribute=value,..": parameters that the optimiser treats in another way, such as "*bias:weight_decay=0";
   * the first pattern that fits counts. NULL-terminated; NULL: none */
  const char *const *groups;
  double clip_norm;  /* gradients are scaled so that all together have at most this norm; 0 (default): not */
  double clip_value; /* each element of a gradient is cut to at most this absolute value; 0 (default): not */
  int accumulate;    /* so many calls of ek_trainer_step make one update, by the mean of their gradients; default 1 */
  uint64_t seed;     /* of random masks, and of `init` */
  /* The decay of averages of the parameters, such as 0.999: in each update average = ema*average + (1 - ema)*parameter,
   * in the first one the parameter; evaluation and ek_trainer_save use the averages, which are the tensors
   * PARAMETER.ema. 0 (default): none */
  double ema;
  /* With EK_PRECISION_F16 the loss is multiplied by a scale before it is differentiated, so that small gradients are
   * not 0 in f16, and gradients are divided by it. A step whose gradients are not finite changes no parameter and
   * halves the scale; so many steps in a row that are double it. It is a state, train.loss_scale, as is the number of
   * these steps, train.finite_steps. Defaults as torch.amp.GradScaler: 65536, 2000 */
  double loss_scale;       /* the first scale, above 0 */
  int loss_scale_interval; /* steps until it doubles, at least 1 */
  /* "he" or "xavier": the parameters begin with values that follow from how they are used and from the seed, not with
   * those of the model: what is summed over is random (normal, He et al. 2015; or uniform, Glorot and Bengio 2010),
   * what is added is 0, what scales single elements is 1 (docs/training.md). "keep" or NULL (default): those of the
   * model */
  const char *init;
  /* Most bytes that a step may take: working memory, parameters and other states, and constants (the values that
   * parameters begin with included), in `options->threads` threads. What the forward pass computes is computed again
   * for the gradient, instead of being kept, as far as that is needed, what is cheapest for its bytes first
   * (ek_memory_use.repeated_cost); losses and parameters stay as they are, bit for bit. EK_MEMORY where the step cannot
   * keep within it: the message says what was reached. What fits is kept. 0 (default): no limit; what costs almost no
   * time is computed again */
  uint64_t memory;
  /* Inputs that are standardized. It becomes part of the model: a step, the evaluation and the model that is saved take
   * raw values. The metadata einkorn.standardized of what is saved name them; EK_USAGE where the model's do so
   * already. */
  const ek_standardization *standardize;
  size_t standardize_count; /* how many; 0 (default): none */
  /* "KEY=TEXT", NULL-terminated: metadata of the model that is saved, beside those that it has; NULL (default): none */
  const char *const *metadata;
} ek_train_options;
EK_API void ek_train_options_init(ek_train_options *o);                     /* the defaults */
EK_API void ek_train_options_init_sized(ek_train_options *o, size_t bytes); /* the same of a struct of so many bytes */
#define ek_train_options_init(o) ek_train_options_init_sized((o), sizeof(ek_train_options))
/* Compiles the step. The model must stay open as long as the trainer. EK_USAGE: options, or nothing that could be
 * trained; else as ek_compile. A trainer is used by one thread at a time, with its session. */
EK_API ek_code ek_trainer_create(ek_model *m, const ek_train_options *o, ek_trainer **out);
EK_API void ek_trainer_close(ek_trainer *t);
/* One step with these arrays, named and shaped as ek_train_options.batch. lr: the learning rate. loss: the loss before
 * the update; may be NULL. Where it is no finite number, parameters and moments stay as they were, and EK_FAILED names
 * the step. */
EK_API ek_code ek_trainer_step(ek_trainer *t, const ek_array *batch, size_t n, double lr, double *loss);
/* Which samples the next step's batch is made of, and those after it: random masks are a function of the seed, the
 * epoch, the number of the sample, the layer and the place in it, whatever the size of the batch and the sample's place
 * there. n: as many as a batch has, the least first size of ek_train_options.batch; 0: as at first, when samples are
 * numbered from batch to batch, in epoch 0. EK_USAGE */
EK_API ek_code ek_trainer_set_samples(ek_trainer *t, int64_t epoch, const int64_t *samples, size_t n);
/* The same model as it is for inference, with the parameters of now: the loss of these arrays, which changes nothing;
 * NaN where there is no loss. Their sizes may differ from those of a step, as those of the last batch of a set do: the
 * first call with some sizes compiles the model for them, and the last four are kept. */
EK_API ek_code ek_trainer_evaluate(ek_trainer *t, const ek_array *batch, size_t n, double *loss);
/* Sums of metric i (by its place in ek_train_options.metrics) of the last step or evaluation, as its definition says;
 * those of several batches add up. Valid until the next call on the trainer. EK_USAGE */
EK_API ek_code ek_trainer_metric(ek_trainer *t, size_t i, const double **sums, size_t *n);
/* The value that metric i has for these sums: what its definition in einkorn.metric_value computes of them, or the
 * first divided by the second. EK_USAGE; EK_SHAPE: it cannot be of so many sums */
EK_API ek_code ek_trainer_metric_value(ek_trainer *t, size_t i, const double *sums, size_t n, double *value);
/* The learning rate of a step, by a schedule: "NAME" or "NAME:attribute=number,..", such as "cosine:warmup=100"
 * (docs/training.md lists them). A function of its arguments alone, so that a training goes on where it stopped. */
typedef struct ek_schedule_point {
  double base;          /* the learning rate that the schedule changes */
  int64_t step;         /* updates so far: 0 for the first */
  int64_t total;        /* updates in all, at least 1 */
  const double *losses; /* validation losses so far, the oldest first: "plateau" asks for them; may be NULL */
  size_t loss_count;    /* how many */
} ek_schedule_point;
/* EK_USAGE: no such schedule or attribute, or a number outside of what it may be */
EK_API ek_code ek_schedule_rate(ek_session *s, const char *text, const ek_schedule_point *at, double *rate);
EK_API void ek_trainer_memory(const ek_trainer *t, ek_memory_use *out); /* as ek_module_memory, of the step */
/* The name of the tensor that loss and metrics are of, as long as the trainer lives; NULL: the model's first output. A
 * trainer without an optimizer knows it after its first evaluation. */
EK_API const char *ek_trainer_output(const ek_trainer *t);
EK_API int64_t ek_trainer_steps(const ek_trainer *t); /* updates so far; those that a loss scale left out not */
/* Everything that changes from step to step: parameters under the names of their initialisers, running statistics, and
 * the optimiser's states, named PARAMETER.STATE. */
typedef enum ek_trained_kind { EK_TRAINED_PARAMETER, EK_TRAINED_STATISTIC, EK_TRAINED_MOMENT } ek_trained_kind;
EK_API size_t ek_trainer_tensors(const ek_trainer *t); /* how many; parameters are the first, then statistics */
EK_API ek_trained_kind ek_trainer_tensor_kind(const ek_trainer *t, size_t i);
/* tensor i, from 0; data is valid until the next call on the trainer. EK_USAGE */
EK_API ek_code ek_trainer_tensor(ek_trainer *t, size_t i, ek_array *out);
/* the tensor x->name becomes a copy of x. EK_USAGE: no such tensor; EK_SHAPE */
EK_API ek_code ek_trainer_set_tensor(ek_trainer *t, const ek_array *x);
EK_API ek_code ek_trainer_set_steps(ek_trainer *t, int64_t steps); /* as if so many updates had been made */
/* Writes the model, with the parameters and running statistics of now, as NAME.onnx. EK_IO */
EK_API ek_code ek_trainer_save(ek_trainer *t, const char *path);
/* Saves the compiled step as a library, an object or C source, as ek_save does by the suffix of path (.so, .o, .c): the
 * header beside it has functions to begin, run, read and set its states, which begin with the parameters of now and
 * moments of zero. Its inputs are the batch, train.lr (f64[]), train.step (i64[], from 1) and, where the model needs
 * them, train.key (i64, a number for each sample of the batch: random masks) and train.last (bool[]: the last of the
 * batches that are added up); its first output is the loss. evaluate: not 0: the evaluation instead, whose parameters
 * are inputs under their names. report may be NULL. Errors as ek_save */
EK_API ek_code ek_trainer_compile(ek_trainer *t, const char *path, int evaluate, ek_report *report);
/* The run of the step, for what it tells (ek_run_kernels, ek_run_events, ek_run_memory, ek_run_threads): it is the
 * trainer's, and must not be bound or executed. NULL: the trainer only evaluates */
EK_API ek_run *ek_trainer_run(ek_trainer *t);
typedef struct ek_rule_input {
  const char *name; /* under which the batch has it */
  int integers;     /* its elements may be integers, such as labels */
  int floats;       /* they may be floats: of the type of the model's result */
  int optional;     /* it may be left out */
} ek_rule_input;
/* What a loss or a metric ("NAME" or "NAME:..", of the domain einkorn.loss or einkorn.metric) is given beside the
 * model's result. EK_USAGE: there is none of this name */
EK_API ek_code ek_rule_inputs(ek_session *s, const char *domain, const char *rule, const ek_rule_input **in, size_t *n);
EK_API void ek_trainer_report(const ek_trainer *t, ek_report *out); /* what compiling the step came to */

/* ---- looking inside: texts and figures for people. Everything given out lives until the next call on the session
 * ---- */
/* Checks a model: everything short of code; ek_message() has all problems at once. Errors as ek_compile */
EK_API ek_code ek_check(ek_model *m, const ek_options *o);
typedef struct ek_show_options {
  size_t size; /* sizeof(ek_show_options): set by ek_show_options_init */
  /* graph, expr, schedule, candidates (other schedules of each kernel, each a text for ek_options.schedule that begins
   * with its version), loop, cost, program, llvm, asm */
  const char *stage;
  const char *after;  /* the text after this pass rather than at the stage's end; NULL */
  const char *node;   /* only what comes from this node of the model; NULL */
  int weights_inline; /* constants in full */
  /* further outputs, gradient.NAME: the derivatives of the sum of this tensor ("": of the model's first output) by the
   * model's inputs of floats and its parameters; NULL: none. Not of ek_trainer_show */
  const char *grad;
} ek_show_options;
EK_API void ek_show_options_init(ek_show_options *o);                     /* the graph, in full */
EK_API void ek_show_options_init_sized(ek_show_options *o, size_t bytes); /* the same of a struct of so many bytes */
#define ek_show_options_init(o) ek_show_options_init_sized((o), sizeof(ek_show_options))
/* The text of a stage: compiles as far as that. o and w: NULL for the defaults. EK_USAGE: no such stage or pass;
 * else as ek_compile. */
EK_API ek_code ek_show(ek_model *m, const ek_options *o, const ek_show_options *w, const char **text);
/* the same of a step of training, or of the evaluation where the trainer has no step, as ek_trainer_compile makes it */
EK_API ek_code ek_trainer_show(ek_trainer *t, const ek_show_options *w, const char **text);
typedef struct ek_pass_info {
  const char *level; /* level of the compiler that it works on */
  const char *name;  /* name of the pass */
  const char *doc;   /* what it does */
  int optimize;      /* runs at this level of optimisation and above */
} ek_pass_info;
/* all passes over all levels, in the order of running */
EK_API ek_code ek_passes(ek_session *s, const ek_pass_info **passes, size_t *n);

/* Work is counted in the definitions of the operators, before anything is rewritten. A count is -1 where it depends
 * on open dimensions; then the formula says how. */
typedef struct ek_count {
  int64_t value;       /* the number; -1: it depends on open dimensions */
  const char *formula; /* the number as a formula */
} ek_count;
typedef struct ek_work {
  ek_count macs;             /* multiplications whose results are added */
  ek_count additions;        /* additions and subtractions */
  ek_count multiplications;  /* multiplications */
  ek_count divisions;        /* divisions and remainders */
  ek_count functions;        /* operations that take several instructions, such as exp */
  ek_count comparisons;      /* comparisons, min and max */
  ek_count activations;      /* elements of the tensors that the nodes compute */
  ek_count activation_bytes; /* bytes of these elements */
} ek_work;
typedef struct ek_layer {
  const char *name;   /* name of the node */
  const char *op;     /* name of its operator */
  const char *output; /* its first output */
  ek_work work;       /* work of the node */
  int64_t parameters; /* elements of the constants that it reads */
} ek_layer;
typedef struct ek_model_info {
  const char *name;        /* name of the model */
  const char *producer;    /* program that wrote the file */
  int64_t ir_version;      /* version of the file's format */
  int64_t opset;           /* version of the standard's operators */
  int64_t nodes;           /* number of nodes */
  int64_t parameters;      /* elements of all constants */
  int64_t parameter_bytes; /* bytes of all constants */
  ek_work work;            /* work of one run */
  size_t layer_count;      /* number of layers */
  const ek_layer *layers;  /* work of each node */
} ek_model_info;
/* What a model is and does, layer by layer; o: the fixed dimensions. Errors as ek_check. */
EK_API ek_code ek_model_describe(ek_model *m, const ek_options *o, ek_model_info *out);

typedef struct ek_op_info {
  const char *name;      /* name of the operator; of one that is not ONNX's own: DOMAIN::NAME */
  const char *signature; /* its inputs, attributes and outputs */
  const char *doc;       /* what the definition says about it */
  const char *file;      /* file of the definition */
  uint32_t line;         /* line of the definition, from 1 */
} ek_op_info;
EK_API ek_code ek_ops(ek_session *s, const ek_op_info **ops, size_t *n); /* all defined operators, by name */
/* definition of one; EK_USAGE: there is none of that name */
EK_API ek_code ek_op_source(ek_session *s, const char *name, const char **text);
/* a table of the operators in Markdown: versions, types, gradient, cost. Takes a few seconds */
EK_API ek_code ek_ops_table(ek_session *s, const char **text);
EK_API ek_code ek_targets(ek_session *s, const char *const **names, size_t *n); /* what ek_options.target may name */
/* GFLOP/s of fused multiply-adds on f32 that this machine does now, on so many threads (0: ek_threads()). Takes
 * about `ms` milliseconds. EK_USAGE, EK_TARGET. */
EK_API ek_code ek_measure_peak(ek_session *s, const char *target, int threads, double ms, double *gflops);
typedef struct ek_machine {
  double gflops; /* as ek_measure_peak */
  int levels;    /* levels of memory, 1 to 4 */
  /* the caches, and last the memory */
  struct {
    uint64_t bytes; /* what fits into the caches of this level, on so many threads; the memory: UINT64_MAX */
    double gbs;     /* GB/s read from there */
  } level[4];
} ek_machine;
/* The peak and the bandwidths of this machine now: `ms` for each of five figures */
EK_API ek_code ek_measure_machine(ek_session *s, const char *target, int threads, double ms, ek_machine *out);
#ifdef __cplusplus
}
#endif
#endif
