/* The public header of a build of 0.1 (soname libeinkorn.so.0.1), without its comments: ek_options has 104 bytes. */
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
  EK_FAILED,
  EK_USAGE,
  EK_UNSUPPORTED,
  EK_MODEL,
  EK_SHAPE,
  EK_IO,
  EK_MEMORY,
  EK_TARGET,
  EK_INTERNAL,
  EK_CANCELLED
} ek_code;
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
EK_API const char *ek_type_name(ek_type t);
EK_API size_t ek_type_bytes(ek_type t);
EK_API const char *ek_code_name(ek_code code);
#define EK_MAX_RANK 16
typedef struct ek_session ek_session;
typedef struct ek_model ek_model;
typedef struct ek_module ek_module;
typedef struct ek_run ek_run;
typedef struct ek_pool ek_pool;
EK_API const char *ek_version(void);
EK_API int ek_threads(void);
typedef struct ek_session_options {
  size_t size;
  void *(*alloc)(void *user, size_t bytes, size_t align);
  void (*free)(void *user, void *p, size_t bytes);
  void *alloc_user;
  uint64_t compile_memory;
} ek_session_options;
EK_API void ek_session_options_init(ek_session_options *o);
EK_API ek_session *ek_session_create(void);
EK_API ek_session *ek_session_create_with(const ek_session_options *o);
EK_API void ek_session_destroy(ek_session *s);
EK_API const char *ek_message(const ek_session *s);
EK_API void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user);
EK_API void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user);
EK_API ek_code ek_load_ops(ek_session *s, const char *path);
EK_API ek_code ek_load(ek_session *s, const char *path, ek_model **out);
EK_API ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out);
EK_API void ek_model_close(ek_model *m);
typedef struct ek_tensor_info {
  const char *name;
  ek_type type;
  int32_t rank;
  int64_t dims[EK_MAX_RANK];
  const char *dim_names[EK_MAX_RANK];
} ek_tensor_info;
EK_API int32_t ek_model_inputs(const ek_model *m);
EK_API int32_t ek_model_outputs(const ek_model *m);
EK_API ek_code ek_model_input(ek_model *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_model_output(ek_model *m, int32_t i, ek_tensor_info *out);
typedef struct ek_options {
  size_t size;
  int optimize;
  int threads;
  int compile_threads;
  const char *target;
  const char *const *dims;
  uint64_t fuel;
  int verify;
  int evaluate;
  const char *stop_after;
  void (*pass)(void *user, const char *level, const char *pass, int changed, double ms);
  void *pass_user;
  uint64_t memory_limit;
  const char *cache;
  uint64_t cache_bytes;
} ek_options;
EK_API void ek_options_init(ek_options *o);
typedef struct ek_report {
  const char *memory;
  const char *least_memory;
  uint64_t weight_bytes, code_bytes, file_bytes;
  uint32_t kernels, functions, compiled;
  uint64_t rewrites;
  double total_ms, load_ms, passes_ms, schedule_ms, code_ms;
  int cached;
} ek_report;
EK_API ek_code ek_compile(ek_model *m, const ek_options *o, ek_module **out);
EK_API ek_code ek_save(ek_model *m, const ek_options *o, const char *path, ek_report *report);
EK_API ek_code ek_module_load(ek_session *s, const char *path, ek_module **out);
EK_API ek_code ek_module_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_module **out);
EK_API void ek_module_close(ek_module *m);
EK_API int32_t ek_module_inputs(const ek_module *m);
EK_API int32_t ek_module_outputs(const ek_module *m);
EK_API ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out);
EK_API void ek_module_report(const ek_module *m, ek_report *out);
EK_API ek_pool *ek_pool_create(int threads);
EK_API void ek_pool_destroy(ek_pool *p);
typedef struct ek_run_options {
  size_t size;
  int threads;
  uint64_t memory_limit;
  ek_pool *pool;
  void (*parallel_for)(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
  void *parallel_user;
} ek_run_options;
EK_API void ek_run_options_init(ek_run_options *o);
EK_API ek_code ek_run_create(ek_module *m, int threads, ek_run **out);
EK_API ek_code ek_run_create_with(ek_module *m, const ek_run_options *o, ek_run **out);
EK_API void ek_run_destroy(ek_run *r);
EK_API ek_code ek_run_shape(ek_run *r, int32_t i, const int64_t *dims, int32_t rank);
EK_API ek_code ek_run_prepare(ek_run *r);
EK_API ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data);
EK_API ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data);
EK_API ek_code ek_run_execute(ek_run *r);
EK_API void ek_run_cancel(ek_run *r);
EK_API size_t ek_run_output_bytes(const ek_run *r, int32_t i);
EK_API ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank);
EK_API const void *ek_run_output_data(const ek_run *r, int32_t i);
EK_API int64_t ek_run_memory(const ek_run *r);
EK_API int ek_run_threads(const ek_run *r);
EK_API const char *ek_run_message(const ek_run *r);
EK_API ek_code ek_check(ek_model *m, const ek_options *o);
typedef struct ek_show_options {
  size_t size;
  const char *stage;
  const char *after;
  const char *node;
  int weights_inline;
} ek_show_options;
EK_API void ek_show_options_init(ek_show_options *w);
EK_API ek_code ek_show(ek_model *m, const ek_options *o, const ek_show_options *w, const char **text);
typedef struct ek_pass_info {
  const char *level, *name, *doc;
  int optimize;
} ek_pass_info;
EK_API ek_code ek_passes(ek_session *s, const ek_pass_info **passes, size_t *n);
typedef struct ek_count {
  int64_t value;
  const char *formula;
} ek_count;
typedef struct ek_work {
  ek_count macs, additions, multiplications, divisions, functions, comparisons, activations, activation_bytes;
} ek_work;
typedef struct ek_layer {
  const char *name, *op, *output;
  ek_work work;
  int64_t parameters;
} ek_layer;
typedef struct ek_model_info {
  const char *name, *producer;
  int64_t ir_version, opset, nodes, parameters, parameter_bytes;
  ek_work work;
  size_t layer_count;
  const ek_layer *layers;
} ek_model_info;
EK_API ek_code ek_model_describe(ek_model *m, const ek_options *o, ek_model_info *out);
typedef struct ek_op_info {
  const char *name, *signature, *doc, *file;
  uint32_t line;
} ek_op_info;
EK_API ek_code ek_ops(ek_session *s, const ek_op_info **ops, size_t *n);
EK_API ek_code ek_op_source(ek_session *s, const char *name, const char **text);
EK_API ek_code ek_ops_table(ek_session *s, const char **text);
EK_API ek_code ek_targets(ek_session *s, const char *const **names, size_t *n);
EK_API ek_code ek_measure_peak(ek_session *s, const char *target, int threads, double ms, double *gflops);
#ifdef __cplusplus
}
#endif
#endif
