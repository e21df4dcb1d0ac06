/* Einkorn: compile deep-learning models to native code, and run them.
 *
 *   ek_session *s = ek_session_create();
 *   ek_model *m; ek_module *code; ek_run *run;
 *   if (ek_load(s, "model.onnx", &m) || ek_compile(m, NULL, &code) || ek_run_create(code, 0, &run)) { puts(ek_message(s)); ... }
 *   ek_run_bind_input(run, 0, x);
 *   if (ek_run_execute(run)) puts(ek_run_message(run));
 *   const float *y = ek_run_output_data(run, 0);
 *   ek_session_destroy(s);
 *
 * examples/classify.c is a complete program. C99, usable from C++. Handles are opaque. Every function that can fail returns an ek_code; the text of the last failure of a session is ek_message(), of a run
 * ek_run_message(). Ownership is in the verb: create/destroy, load/close, compile/close make and end a handle; everything a handle gives out is borrowed: valid as long as the handle. No global state: two sessions
 * never share anything. The library never exits, aborts, prints, or opens a network connection.
 * Threads: a session, with its models and modules, is used by one thread at a time. Runs are the exception: several runs of one module may work at once, each in its own thread.
 * Sizes: dims are numbers of elements; memory is in bytes; times are in milliseconds.
 */
#ifndef EINKORN_H
#define EINKORN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define EK_API __attribute__((visibility("default")))
#define EK_VERSION "0.1.0"

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
  EK_CANCELLED    /* by the progress function */
} ek_code;

/* Element types: ONNX TensorProto.DataType codes. Elements narrower than a byte take a byte each. */
typedef enum ek_type {
  EK_FLOAT = 1, EK_UINT8 = 2, EK_INT8 = 3, EK_UINT16 = 4, EK_INT16 = 5, EK_INT32 = 6, EK_INT64 = 7, EK_STRING = 8, EK_BOOL = 9, EK_FLOAT16 = 10, EK_DOUBLE = 11, EK_UINT32 = 12, EK_UINT64 = 13,
  EK_BFLOAT16 = 16, EK_FLOAT8E4M3FN = 17, EK_FLOAT8E4M3FNUZ = 18, EK_FLOAT8E5M2 = 19, EK_FLOAT8E5M2FNUZ = 20, EK_UINT4 = 21, EK_INT4 = 22, EK_FLOAT4E2M1 = 23, EK_FLOAT8E8M0 = 24, EK_UINT2 = 25, EK_INT2 = 26
} ek_type;
EK_API const char *ek_type_name(ek_type t);  /* "f32", "i64", ...; "?" if unknown */
EK_API size_t ek_type_bytes(ek_type t);      /* of one element; 0 for strings */
#define EK_MAX_RANK 16

typedef struct ek_session ek_session; /* options, diagnostics and everything made from them, of one user */
typedef struct ek_model ek_model;     /* a model as a graph: inspected, compiled, not run */
typedef struct ek_module ek_module;   /* compiled code */
typedef struct ek_run ek_run;         /* a place to run a module: its memory and threads */

/* ---- sessions ---- */
EK_API const char *ek_version(void);
EK_API ek_session *ek_session_create(void);         /* NULL when out of memory */
EK_API void ek_session_destroy(ek_session *s);      /* ends everything that was made with it */
EK_API const char *ek_message(const ek_session *s); /* all diagnostics of the last failing call, one a line, "" if none; valid until the next call on s */
/* Each diagnostic of a call, also warnings; level 0 error, 1 warning, 2 note, 3 info. */
EK_API void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user);
/* Progress of long steps: phase and 0..1; return non-zero to cancel. */
EK_API void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user);
/* Operator definitions of the user (.ek), for models loaded afterwards. */
EK_API ek_code ek_load_ops(ek_session *s, const char *path);

/* ---- models ---- */
EK_API ek_code ek_load(ek_session *s, const char *path, ek_model **out);                                        /* .onnx or graph text, by content */
EK_API ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out); /* data must stay as long as the model and what is compiled from it */
EK_API void ek_model_close(ek_model *m);                                                                        /* modules compiled from it live on */
typedef struct ek_tensor_info {
  const char *name;
  ek_type type;
  int32_t rank;                       /* -1: not known without running the model */
  int64_t dims[EK_MAX_RANK];          /* -1: known only at run time */
  const char *dim_names[EK_MAX_RANK]; /* of the -1 ones: a symbol or a formula; NULL otherwise */
} ek_tensor_info;
EK_API int32_t ek_model_inputs(const ek_model *m); /* how many (initialisers do not count) */
EK_API int32_t ek_model_outputs(const ek_model *m);
EK_API ek_code ek_model_input(ek_model *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_model_output(ek_model *m, int32_t i, ek_tensor_info *out); /* the first call infers all shapes */

/* ---- compiling ---- */
typedef struct ek_options {
  size_t size;               /* sizeof(ek_options): set by ek_options_init */
  int optimize;              /* 0..3; default 3. 0: as simple as possible, for comparison */
  int threads;               /* threads that runs use by default; 0: what the process may use */
  int compile_threads;       /* 0: what the process may use */
  const char *target;        /* NULL: this machine; else a target's name or file */
  const char *const *dims;   /* "N=8": fixes a symbolic dimension; NULL-terminated, or NULL */
  uint64_t fuel;             /* rewrites allowed before passes stop; 0: no limit (to find a bad one by bisection) */
  int verify;                /* check the program after every pass */
  int evaluate;              /* no code: runs interpret the definitions, slow and obvious (to compare with); 2: what the passes made of them */
  const char *stop_after;    /* a pass ("inline", or "inline#2" for its second turn) after which compilation ends (ek_compile and ek_save then give EK_CANCELLED); NULL */
  /* Called after every pass. NULL: nobody looks. */
  void (*pass)(void *user, const char *level, const char *pass, int changed, double ms);
  void *pass_user;
} ek_options;
EK_API void ek_options_init(ek_options *o);
typedef struct ek_report {   /* what compilation came to; strings as long as the handle it came from (ek_save: until the next call on the session) */
  const char *memory;        /* working memory in bytes: a number, or a formula in the symbolic dimensions and `threads` */
  const char *least_memory;  /* most bytes live at one time: no order of memory can be below it; NULL if not known */
  uint64_t weight_bytes, code_bytes, file_bytes; /* file_bytes: ek_save */
  uint32_t kernels, functions, compiled; /* kernels launched in one run; functions of the program, and how many different ones */
  uint64_t rewrites;         /* made by passes: what `fuel` counts */
  double total_ms, load_ms, passes_ms, schedule_ms, code_ms;
} ek_report;
/* o: NULL for the defaults */
EK_API ek_code ek_compile(ek_model *m, const ek_options *o, ek_module **out); /* to code in this process */
/* Saves compiled code: by the suffix of path .so or .o (both need a linker), or .c; a header .h is written beside it. The symbols are NAME_run and NAME_info; NAME is the file's name made an identifier. report may be NULL. */
EK_API ek_code ek_save(ek_model *m, const ek_options *o, const char *path, ek_report *report);
EK_API ek_code ek_module_load(ek_session *s, const char *path, ek_module **out); /* a saved .so */
EK_API void ek_module_close(ek_module *m);                                       /* ends its runs, too */
EK_API int32_t ek_module_inputs(const ek_module *m);
EK_API int32_t ek_module_outputs(const ek_module *m);
EK_API ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API void ek_module_report(const ek_module *m, ek_report *out);

/* ---- running ---- */
EK_API ek_code ek_run_create(ek_module *m, int threads, ek_run **out); /* threads 0: as compiled */
EK_API void ek_run_destroy(ek_run *r);
/* Sizes of input i, where the model leaves them open (fixed ones may be said again). */
EK_API ek_code ek_run_shape(ek_run *r, int32_t i, const int64_t *dims, int32_t rank);
EK_API ek_code ek_run_prepare(ek_run *r);                                /* optional: what the first execute with new sizes would do: checks sizes, allocates */
EK_API ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data); /* dense, row-major; borrowed until the next bind; may be NULL when the tensor is empty */
EK_API ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data);      /* room for ek_run_output_bytes(); unbound (or NULL): memory of the run */
EK_API ek_code ek_run_execute(ek_run *r);                                /* allocates nothing after the first call with the same sizes */
EK_API size_t ek_run_output_bytes(const ek_run *r, int32_t i);           /* after prepare: most bytes the output can take with these sizes */
EK_API ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank); /* after execute: actual; after prepare: upper bounds. dims: room for EK_MAX_RANK */
EK_API const void *ek_run_output_data(const ek_run *r, int32_t i);       /* bound or own memory */
EK_API int64_t ek_run_memory(const ek_run *r);                           /* bytes of working memory: the value of the report's formula */
EK_API int ek_run_threads(const ek_run *r);
EK_API const char *ek_run_message(const ek_run *r);                      /* text of the last failure of this run */

/* ---- looking inside: texts and figures for people. Everything given out lives until the next call on the session ---- */
EK_API ek_code ek_check(ek_model *m, const ek_options *o); /* everything short of code; ek_message() has all problems at once */
typedef struct ek_show_options {
  size_t size;        /* sizeof(ek_show_options): set by ek_show_options_init */
  const char *stage;  /* graph, expr, loop, program, llvm, asm */
  const char *after;  /* the text after this pass rather than at the stage's end; NULL */
  const char *node;   /* only what comes from this node of the model; NULL */
  int weights_inline; /* constants in full */
} ek_show_options;
EK_API void ek_show_options_init(ek_show_options *w);
EK_API ek_code ek_show(ek_model *m, const ek_options *o, const ek_show_options *w, const char **text);
typedef struct ek_pass_info { const char *level, *name, *doc; int optimize; /* runs at this level of optimisation and above */ } ek_pass_info;
EK_API ek_code ek_passes(ek_session *s, const ek_pass_info **passes, size_t *n); /* all passes over all levels, in the order of running */

/* Work is counted in the definitions of the operators, before anything is rewritten. A count is -1 where it depends on open dimensions; then the formula says how. */
typedef struct ek_count { int64_t value; const char *formula; } ek_count;
typedef struct ek_work { ek_count macs, additions, multiplications, divisions, functions, comparisons, activations, activation_bytes; } ek_work;
typedef struct ek_layer { const char *name, *op, *output; ek_work work; int64_t parameters; } ek_layer;
typedef struct ek_model_info {
  const char *name, *producer;
  int64_t ir_version, opset, nodes, parameters, parameter_bytes;
  ek_work work;
  size_t layer_count;
  const ek_layer *layers;
} ek_model_info;
EK_API ek_code ek_model_describe(ek_model *m, const ek_options *o, ek_model_info *out);

typedef struct ek_op_info { const char *name, *signature, *doc, *file; uint32_t line; } ek_op_info;
EK_API ek_code ek_ops(ek_session *s, const ek_op_info **ops, size_t *n);            /* all defined operators, by name */
EK_API ek_code ek_op_source(ek_session *s, const char *name, const char **text);    /* definition of one */
EK_API ek_code ek_targets(ek_session *s, const char *const **names, size_t *n);
/* GFLOP/s of fused multiply-adds on f32 that this machine does now, on so many threads. Takes about `ms` milliseconds. */
EK_API ek_code ek_measure_peak(ek_session *s, const char *target, int threads, double ms, double *gflops);
#ifdef __cplusplus
}
#endif
#endif
