/* Structs of the public header that begin with their size. A program may have been built against an older header, whose
 * struct is shorter: what we write stays within its size, and what it does not have is the default. A longer struct, of
 * a newer header, may ask for what this library does not know: it is refused. */
#include "driver/driver.h"
#include <string.h>

void struct_init(void *to, size_t bytes, const void *defaults, size_t own) {
  if (!to || bytes < sizeof(size_t)) return;
  memset(to, 0, bytes);
  memcpy(to, defaults, bytes < own && !EK_PLANTED("struct-init") ? bytes : own);
  memcpy(to, &bytes, sizeof bytes);
}
bool struct_read(const void *given, void *to, size_t own) {
  size_t bytes;
  memcpy(&bytes, given, sizeof bytes);
  if (bytes < sizeof(size_t) || bytes > own) return false;
  memcpy(to, given, bytes);
  memcpy(to, &own, sizeof own);
  return true;
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */
static const ek_session_options session_defaults = {0};
static const ek_options options_defaults = {.optimize = 3};
static const ek_run_options run_defaults = {0};
static const ek_show_options show_defaults = {.stage = "graph"};
static const ek_diff_options diff_defaults = {0};
static const ek_quantize_options quantize_defaults = {
    .percentile = 99.999, .most_changed = -1, .smooth = -1, .bits = 4, .block_size = 32, .correct_bias = 1};
static const ek_train_options train_defaults = {
    .optimizer = "adamw", .accumulate = 1, .loss_scale = 65536, .loss_scale_interval = 2000};
#define INIT(name, defaults)                                                                                           \
  void name##_init_sized(name *o, size_t bytes) { struct_init(o, bytes, &defaults, sizeof defaults); }
INIT(ek_session_options, session_defaults)
INIT(ek_options, options_defaults)
INIT(ek_run_options, run_defaults)
INIT(ek_show_options, show_defaults)
INIT(ek_diff_options, diff_defaults)
INIT(ek_quantize_options, quantize_defaults)
INIT(ek_train_options, train_defaults)

/* ---- programs of older headers call these: the first header of this soname had so much --------------------------- */
#undef ek_session_options_init
#undef ek_options_init
#undef ek_run_options_init
#undef ek_show_options_init
#undef ek_diff_options_init
#undef ek_quantize_options_init
#undef ek_train_options_init
void ek_session_options_init(ek_session_options *o) {
  ek_session_options_init_sized(o, offsetof(ek_session_options, compile_memory) + sizeof o->compile_memory);
}
void ek_options_init(ek_options *o) {
  ek_options_init_sized(o, offsetof(ek_options, cache_bytes) + sizeof o->cache_bytes);
}
void ek_run_options_init(ek_run_options *o) {
  ek_run_options_init_sized(o, offsetof(ek_run_options, parallel_user) + sizeof o->parallel_user);
}
void ek_show_options_init(ek_show_options *o) {
  ek_show_options_init_sized(o, offsetof(ek_show_options, weights_inline) + sizeof(size_t));
}

void ek_diff_options_init(ek_diff_options *o) {
  ek_diff_options_init_sized(o, offsetof(ek_diff_options, checked_user) + sizeof o->checked_user);
}

void ek_quantize_options_init(ek_quantize_options *o) {
  ek_quantize_options_init_sized(o, offsetof(ek_quantize_options, only_faster) + sizeof(size_t));
}

void ek_train_options_init(ek_train_options *o) {
  ek_train_options_init_sized(o, offsetof(ek_train_options, seed) + sizeof o->seed);
}

/* Structs that we fill, and that say no size: a change here breaks programs, and needs another soname. */
_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(ek_report) == 112 && sizeof(ek_tensor_info) == 272 && sizeof(ek_model_info) == 200 &&
                    sizeof(ek_layer) == 160 && sizeof(ek_kernel) == 96 && sizeof(ek_machine) == 80 &&
                    sizeof(ek_op_info) == 40 && sizeof(ek_pass_info) == 32 && sizeof(ek_checked) == 48 &&
                    sizeof(ek_difference) == 392 && sizeof(ek_quantized) == 120 && sizeof(ek_quantized_layer) == 80 &&
                    sizeof(ek_quantized_output) == 32),
               "structs without a size field never grow within a soname");
