/* Einkorn: compile deep-learning models to native code, and run them.
 *
 * C99, usable from C++. Handles are opaque. Every function that can fail returns an ek_code; the text of the last failure of a session is ek_message(). Ownership is in the verb: create/destroy, load/close make and
 * end a handle; get_ borrows (valid as long as the handle it came from). No global state: two sessions never share anything. The library never exits, aborts, prints, or opens a network connection.
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
  EK_CANCELLED
} ek_code;

/* Element types: ONNX TensorProto.DataType codes. */
typedef enum ek_type { EK_FLOAT = 1, EK_UINT8 = 2, EK_INT8 = 3, EK_UINT16 = 4, EK_INT16 = 5, EK_INT32 = 6, EK_INT64 = 7, EK_STRING = 8, EK_BOOL = 9, EK_FLOAT16 = 10, EK_DOUBLE = 11, EK_UINT32 = 12, EK_UINT64 = 13, EK_BFLOAT16 = 16 } ek_type;
#define EK_MAX_RANK 16

typedef struct ek_session ek_session; /* options, diagnostics, loaded models of one user; not for several threads at once */
typedef struct ek_model ek_model;     /* a model as a graph: inspected, not run */
typedef struct ek_module ek_module;   /* compiled code */
typedef struct ek_run ek_run;         /* one thread's place to run a module: its memory */

EK_API const char *ek_version(void);
EK_API ek_session *ek_session_create(void); /* NULL when out of memory */
EK_API void ek_session_destroy(ek_session *s); /* ends everything that was made with it */
EK_API const char *ek_message(const ek_session *s); /* all diagnostics of the last failing call, one a line, "" if none; valid until the next call on s */
/* Each diagnostic as it is made (also warnings); level 0 error, 1 warning, 2 note, 3 info. */
EK_API void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user);
/* Progress of long steps: phase name and 0..1; return non-zero to cancel. */
EK_API void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user);
/* Operator definitions of the user (.ek), for models loaded afterwards. */
EK_API ek_code ek_load_ops(ek_session *s, const char *path);

/* ---- models ---- */
EK_API ek_code ek_load(ek_session *s, const char *path, ek_model **out);                           /* .onnx or graph text, by content */
EK_API ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out); /* data must stay until the model is closed */
EK_API void ek_model_close(ek_model *m);
typedef struct ek_tensor_info {
  const char *name;
  ek_type type;
  int32_t rank;
  int64_t dims[EK_MAX_RANK];          /* -1: known only at run time */
  const char *dim_names[EK_MAX_RANK]; /* of the -1 ones: a symbol or a formula; NULL otherwise */
} ek_tensor_info;
EK_API int32_t ek_model_inputs(const ek_model *m);  /* how many (initialisers do not count) */
EK_API int32_t ek_model_outputs(const ek_model *m);
EK_API ek_code ek_model_input(const ek_model *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_model_output(const ek_model *m, int32_t i, ek_tensor_info *out);

/* ---- compiling ---- */
typedef struct ek_options {
  size_t size;               /* sizeof(ek_options): set by ek_options_init */
  int optimize;              /* 0..3; default 3 */
  int threads;               /* threads that run() will use; 0: what the process may use */
  int compile_threads;       /* 0: what the process may use */
  const char *target;        /* NULL: this machine; else a target's name or file */
  const char *const *dims;   /* "N=8": fixes a symbolic dimension; NULL-terminated or NULL */
  uint64_t fuel;             /* rewrites allowed before passes stop; 0: no limit (for bisecting) */
  int verify;                /* verify after every pass */
} ek_options;
EK_API void ek_options_init(ek_options *o);
EK_API ek_code ek_compile(ek_model *m, const ek_options *o, ek_module **out); /* to code in this process */
/* Saves compiled code: by the suffix of path .so (needs a linker), .o (+ .h), .c (+ .h). For another target or the same. */
EK_API ek_code ek_save(ek_model *m, const ek_options *o, const char *path);
EK_API ek_code ek_module_load(ek_session *s, const char *path, ek_module **out); /* a saved .so */
EK_API void ek_module_close(ek_module *m);
EK_API int32_t ek_module_inputs(const ek_module *m);
EK_API int32_t ek_module_outputs(const ek_module *m);
EK_API ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API const char *ek_module_memory(const ek_module *m); /* bytes of working memory as a formula in the symbolic dimensions */
EK_API double ek_module_compile_ms(const ek_module *m);

/* ---- running: several ek_run of one module may be used from several threads at once, each from one ---- */
EK_API ek_code ek_run_create(ek_module *m, int threads, ek_run **out); /* threads 0: as compiled */
EK_API void ek_run_destroy(ek_run *r);
/* Sizes of the inputs: dims of input i. Computes all sizes, allocates working memory if more is needed than before. Only this function allocates. */
EK_API ek_code ek_run_shape(ek_run *r, int32_t input, const int64_t *dims, int32_t rank);
EK_API ek_code ek_run_prepare(ek_run *r);                       /* optional: does what the first execute would do: checks sizes, allocates */
EK_API ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data);  /* dense, row-major; borrowed until the next bind */
EK_API ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data);       /* room for ek_run_output_bound() elements; unbound outputs go to memory of the run */
EK_API ek_code ek_run_execute(ek_run *r);                       /* allocates nothing after the first call with the same sizes */
EK_API ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank); /* after execute: actual; after prepare: upper bounds */
EK_API const void *ek_run_output_data(const ek_run *r, int32_t i);
EK_API int64_t ek_run_memory(const ek_run *r);                  /* bytes of working memory in use: the formula's value */
EK_API const char *ek_run_message(const ek_run *r);             /* text of the last failure of this run */
#ifdef __cplusplus
}
#endif
#endif
