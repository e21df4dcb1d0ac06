/* random_integers: random products and convolutions of quantised values, compiled, against a plain loop.
 *
 *   random_integers [-n INSTANCES] [-s FIRST] [-j JOBS] [-t TARGET] [-v]
 *
 * An instance is a model of one contraction: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, the products of
 * com.microsoft, DequantizeLinear around MatMul or Conv, DynamicQuantizeLinear before a product. Its seed says the
 * form, types (u8 and i8 in all four pairs, 16 bits where the form has them), sizes with tails of every length, groups,
 * windows, strides, padding, zero points, constants and inputs, open sizes, the target and the number of threads.
 * Contents are random, or lie at the ends of their type over the whole length of a sum: there an instruction that
 * saturates pairs of products gives other sums.
 *
 * The right values come from loops in this file alone, which share nothing with the library. Integers must agree to the
 * bit. So must results of DequantizeLinear forms: scales are powers of two and sums stay below 2^24, so that f32 has
 * all of them exactly (they are compiled as `strict`, without bilinear forms). Floats behind exact sums may be off by a
 * few roundings of their multiplications. Inputs and outputs end at pages that nobody may touch. Targets that this
 * machine cannot run are skipped. One line for each failure; `random_integers -n 1 -s SEED -v` prints the model. At the
 * end `N passed, N failed, N skipped`. */
#include "check.h"
#include <sys/wait.h>

enum { MOST_VALUES = 1 << 16, MOST_CHANNELS = 640, MOST_TERMS = 3 << 20, MAX_JOBS = 32 };
typedef enum { INTEGER, LINEAR, DEQUANTIZED, DYNAMIC, DYNAMIC_ONE, TO_FLOAT, GEMM, WORDS, FORMS } form;
typedef struct factor {
  ek_type type;
  int32_t lo, hi;              /* least and greatest value of the type */
  int32_t rank;                /* number of axes */
  int64_t dims[4], n;          /* sizes; number of values */
  bool constant;               /* a constant of the model; else an input */
  uint32_t zeros, scales;      /* how many zero points (0: none is given) and scales there are: 1 or one a channel */
  int32_t zero[MOST_CHANNELS]; /* zero points */
  float scale[MOST_CHANNELS];  /* scales */
  int32_t value[MOST_VALUES];  /* contents */
} factor;
typedef struct window { /* of a convolution along one axis */
  int64_t size, kernel, stride, dilation, before, after, out;
} window;
typedef struct instance {
  uint64_t state; /* of the random numbers */
  form form;
  bool conv, open; /* open: rows of a product, images of a batch are a symbol */
  const char *target;
  int threads;
  factor x, w;
  int64_t batch, rows, depth, columns; /* x[batch, rows, depth] * w[depth, columns] */
  bool each;                           /* w[batch, depth, columns] */
  int64_t groups, channels, features;  /* channels and features: of each group */
  uint32_t axes;                       /* of the windows */
  window at[2];
  int64_t n;      /* number of results */
  ek_type result; /* their type */
  bool biased;
  int32_t bias[MOST_CHANNELS], y_zero;
  float y_scale;
  float floats[MOST_VALUES];                   /* x, before it is quantised */
  int32_t sum[MOST_VALUES], want[MOST_VALUES]; /* sums; whole results */
  float want_float[MOST_VALUES];
} instance;
static const char *asked_target;
static bool verbose;

/* ---- drawing --------------------------------------------------------------------------------- */
static int64_t draw(instance *q, int64_t lo, int64_t hi) {
  q->state = q->state * 6364136223846793005u + 1442695040888963407u;
  return lo + (int64_t)((q->state >> 33) % (uint64_t)(hi - lo + 1));
}
static bool one_in(instance *q, int n) { return draw(q, 1, n) == 1; }
static int64_t draw_size(instance *q) { return one_in(q, 3) ? draw(q, 1, 8) : draw(q, 1, 70); }
static void set_type(factor *f, ek_type t) {
  f->type = t;
  f->lo = t == EK_INT8 ? -128 : t == EK_INT16 ? -32768 : 0;
  f->hi = t == EK_INT8 ? 127 : t == EK_UINT8 ? 255 : t == EK_INT16 ? 32767 : 65535;
}
static void set_dims(factor *f, const int64_t *dims, int32_t rank) {
  f->rank = rank, f->n = 1;
  for (int32_t i = 0; i < rank; i++) f->dims[i] = dims[i], f->n *= dims[i];
}
static int32_t draw_zero(instance *q, const factor *f) {
  switch (draw(q, 0, 5)) {
  case 0:
    return f->lo;
  case 1:
    return f->hi;
  case 2:
    return f->lo + (f->hi - f->lo + 1) / 2;
  case 3:
    return f->lo < 0 ? 0 : (int32_t)draw(q, 1, 6);
  default:
    return (int32_t)draw(q, f->lo, f->hi);
  }
}
/* reach: how far values of 16 bits may be from their zero point */
static void draw_values(instance *q, factor *f, int32_t reach) {
  const int64_t way = draw(q, 0, 6), zero = f->zeros ? f->zero[0] : 0;
  const int64_t least = reach < f->hi && zero - reach > f->lo ? zero - reach : f->lo,
                most = reach < f->hi && zero + reach < f->hi ? zero + reach : f->hi;
  for (int64_t i = 0; i < f->n; i++)
    f->value[i] = (int32_t)(way == 0   ? least
                            : way == 1 ? most
                            : way == 2 ? (one_in(q, 2) ? least : most)
                            : way == 3 ? (one_in(q, 8) ? draw(q, least, most) : most)
                                       : draw(q, least, most));
}
static void draw_product(instance *q) {
  q->batch = one_in(q, 4) ? draw(q, 2, 4) : 1;
  q->each = q->batch > 1 && q->form != GEMM && one_in(q, 2);
  if (q->form == GEMM) q->batch = 1;
  q->rows = draw_size(q), q->columns = draw_size(q), q->depth = one_in(q, 4) ? draw(q, 64, 600) : draw_size(q);
  if (q->form == DEQUANTIZED && q->depth > 128) q->depth = draw(q, 1, 128);
  set_dims(&q->x, q->batch > 1 ? (int64_t[]){q->batch, q->rows, q->depth} : (int64_t[]){q->rows, q->depth},
           q->batch > 1 ? 3 : 2);
  set_dims(&q->w, q->each ? (int64_t[]){q->batch, q->depth, q->columns} : (int64_t[]){q->depth, q->columns},
           q->each ? 3 : 2);
  q->n = q->batch * q->rows * q->columns;
}
static void draw_window(instance *q, window *a) {
  a->kernel = one_in(q, 3) ? 1 : draw(q, 1, 5), a->stride = one_in(q, 3) ? draw(q, 2, 3) : 1;
  a->dilation = one_in(q, 4) ? draw(q, 2, 3) : 1;
  a->before = draw(q, 0, a->kernel - 1), a->after = draw(q, 0, a->kernel - 1);
  const int64_t reach = (a->kernel - 1) * a->dilation + 1;
  do a->size = draw(q, 1, 20);
  while (a->size + a->before + a->after < reach);
  a->out = (a->size + a->before + a->after - reach) / a->stride + 1;
}
/* A window of 3 x 3 of many channels, which may become products with fewer multiplications. */
static void draw_large_window(instance *q) {
  q->batch = q->groups = 1, q->axes = 2;
  q->channels = draw(q, 24, 48), q->features = draw(q, 24, 48);
  for (uint32_t i = 0; i < 2; i++) {
    const int64_t size = draw(q, 6, 14), around = draw(q, 0, 2);
    q->at[i] = (window){.size = size, .kernel = 3, .stride = 1, .dilation = 1, .before = around, .after = around};
    q->at[i].out = size + 2 * around - 2;
  }
}
static void draw_small_windows(instance *q) {
  const bool depthwise = one_in(q, 4);
  q->batch = one_in(q, 3) ? draw(q, 2, 3) : 1, q->axes = one_in(q, 4) ? 1 : 2;
  q->groups = depthwise ? draw_size(q) : one_in(q, 3) ? draw(q, 2, 6) : 1;
  q->channels = depthwise ? 1 : draw(q, 1, q->groups > 1 ? 20 : 70);
  q->features = depthwise ? draw(q, 1, 2) : draw(q, 1, q->groups > 1 ? 20 : 70);
  for (uint32_t i = 0; i < q->axes; i++) draw_window(q, &q->at[i]);
}
static void draw_conv(instance *q) {
  if (one_in(q, 6))
    draw_large_window(q);
  else
    draw_small_windows(q);
  int64_t in[4] = {q->batch, q->groups * q->channels}, weights[4] = {q->groups * q->features, q->channels};
  q->depth = q->channels, q->n = q->batch * q->groups * q->features;
  for (uint32_t i = 0; i < q->axes; i++) {
    in[2 + i] = q->at[i].size, weights[2 + i] = q->at[i].kernel;
    q->depth *= q->at[i].kernel, q->n *= q->at[i].out;
  }
  set_dims(&q->x, in, 2 + (int32_t)q->axes), set_dims(&q->w, weights, 2 + (int32_t)q->axes);
}
static bool fits(const instance *q) {
  return q->x.n <= MOST_VALUES && q->w.n <= MOST_VALUES && q->n <= MOST_VALUES && q->n * q->depth <= MOST_TERMS &&
         (q->form != DEQUANTIZED || q->depth <= 128);
}
static int64_t outputs_of(const instance *q) { return q->conv ? q->groups * q->features : q->columns; }
/* Zero points and scales. power: these are powers of two. */
static void draw_scales(instance *q, factor *f, bool channels, bool power) {
  f->scales = channels ? (uint32_t)outputs_of(q) : 1;
  for (uint32_t i = 0; i < f->scales; i++)
    f->scale[i] = power ? ldexpf(1, (int)draw(q, -8, 0)) : (float)draw(q, 1, 1 << 20) * 0x1p-24F;
  f->zeros = one_in(q, 5) ? 0 : one_in(q, 2) ? f->scales : 1;
  if (q->form == DEQUANTIZED && f->zeros) f->zeros = f->scales; /* the standard wants as many */
  if ((q->form == LINEAR || q->form == GEMM) && !f->zeros) f->zeros = 1;
  for (uint32_t i = 0; i < f->zeros; i++) f->zero[i] = draw_zero(q, f);
}
static bool is_dynamic(const instance *q) { return q->form == DYNAMIC || q->form == DYNAMIC_ONE; }
static void draw_types(instance *q) {
  const ek_type bytes[] = {EK_UINT8, EK_INT8};
  q->form = (form)draw(q, 0, FORMS - 1);
  q->conv = q->form <= DEQUANTIZED && one_in(q, 2);
  set_type(&q->x, bytes[draw(q, 0, 1)]), set_type(&q->w, bytes[draw(q, 0, 1)]);
  q->result = q->form == INTEGER || q->form == WORDS ? EK_INT32 : q->x.type;
  if (q->form == WORDS) set_type(&q->x, EK_INT16), set_type(&q->w, EK_INT16);
  if (is_dynamic(q)) set_type(&q->x, EK_UINT8);
  if (is_dynamic(q) || q->form == TO_FLOAT) q->result = EK_FLOAT;
  if (q->form == DEQUANTIZED && one_in(q, 3)) {
    set_type(&q->x, one_in(q, 2) ? EK_INT16 : EK_UINT16);
    q->result = one_in(q, 2) ? q->x.type : EK_INT8;
  }
}
static void draw_instance(instance *q, uint64_t seed) {
  static const char *const targets[] = {"host", "x86-64-v4", "x86-64-v3", "avxvnni", "x86-64"};
  q->state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 4; i++) draw(q, 0, 1);
  do {
    draw_types(q);
    if (q->conv)
      draw_conv(q);
    else
      draw_product(q);
  } while (!fits(q));
  q->target = targets[draw(q, 0, 4)], q->threads = (int)draw(q, 1, 2);
  if (asked_target) q->target = asked_target;
  q->w.constant = !one_in(q, 3), q->x.constant = false;
  q->open = one_in(q, 4);
  draw_scales(q, &q->x, false, q->form == DEQUANTIZED);
  draw_scales(q, &q->w, one_in(q, 2), q->form == DEQUANTIZED);
  if (q->form == WORDS) q->x.zeros = q->w.zeros = 0;
  if (q->form == INTEGER && q->conv) q->x.zeros = q->x.zeros > 0;
  /* f32 has all whole numbers up to 2^24, half of which is left to the bias */
  const int64_t reach = q->form == DEQUANTIZED && q->x.hi > 255 ? (1 << 23) / (255 * q->depth) : INT32_MAX;
  draw_values(q, &q->x, (int32_t)reach), draw_values(q, &q->w, INT32_MAX);
  q->biased = (q->form == TO_FLOAT || q->form == GEMM || q->form == LINEAR || q->form == DEQUANTIZED) && one_in(q, 2) &&
              (q->conv || q->form == TO_FLOAT || q->form == GEMM);
  for (int64_t i = 0; i < outputs_of(q); i++) q->bias[i] = (int32_t)draw(q, -(1 << 20), 1 << 20);
}

/* ---- what is right --------------------------------------------------------------------------- */
static int32_t of_channel(const int32_t *v, uint32_t n, int64_t i) { return n == 0 ? 0 : v[n > 1 ? i : 0]; }
static float scale_of(const factor *f, int64_t i) { return f->scale[f->scales > 1 ? i : 0]; }
static void add_term(int32_t *sum, int32_t x, int32_t w) {
  *sum = (int32_t)((uint32_t)*sum + (uint32_t)x * (uint32_t)w);
}
static void sum_product(instance *q) {
  for (int64_t b = 0, at = 0; b < q->batch; b++)
    for (int64_t i = 0; i < q->rows; i++)
      for (int64_t j = 0; j < q->columns; j++, at++) {
        q->sum[at] = 0;
        for (int64_t k = 0; k < q->depth; k++)
          add_term(&q->sum[at], q->x.value[(b * q->rows + i) * q->depth + k] - of_channel(q->x.zero, q->x.zeros, 0),
                   q->w.value[((q->each ? b : 0) * q->depth + k) * q->columns + j] -
                       of_channel(q->w.zero, q->w.zeros, j));
      }
}
/* The sum of one place of a convolution; line: of one axis, the other one has one place */
static int32_t sum_window(const instance *q, int64_t image, int64_t group, int64_t feature, int64_t y, int64_t x) {
  static const window line = {1, 1, 1, 1, 0, 0, 1};
  const window *a = q->axes == 2 ? &q->at[0] : &line, *b = &q->at[q->axes - 1];
  const int64_t f = group * q->features + feature;
  int32_t sum = 0;
  for (int64_t c = 0; c < q->channels; c++)
    for (int64_t i = 0; i < a->kernel; i++)
      for (int64_t j = 0; j < b->kernel; j++) {
        const int64_t r = y * a->stride + i * a->dilation - a->before, s = x * b->stride + j * b->dilation - b->before;
        if (r < 0 || r >= a->size || s < 0 || s >= b->size) continue;
        const int64_t from = ((image * q->groups + group) * q->channels + c) * a->size * b->size + r * b->size + s,
                      by = ((f * q->channels + c) * a->kernel + i) * b->kernel + j;
        add_term(&sum, q->x.value[from] - of_channel(q->x.zero, q->x.zeros, 0),
                 q->w.value[by] - of_channel(q->w.zero, q->w.zeros, f));
      }
  return sum;
}
static void sum_conv(instance *q) {
  const int64_t height = q->axes == 2 ? q->at[0].out : 1, width = q->at[q->axes - 1].out;
  for (int64_t image = 0, at = 0; image < q->batch; image++)
    for (int64_t f = 0; f < q->groups * q->features; f++)
      for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, at++)
          q->sum[at] = sum_window(q, image, f / q->features, f % q->features, y, x);
}
static int64_t channel_of(const instance *q, int64_t at) {
  const int64_t places = q->conv ? q->n / (q->batch * q->groups * q->features) : 1;
  return at / places % outputs_of(q);
}
static int32_t saturated(ek_type t, float v) {
  factor f;
  set_type(&f, t);
  return v <= (float)f.lo ? f.lo : v >= (float)f.hi ? f.hi : (int32_t)v;
}
/* DynamicQuantizeLinear, as the standard has it */
static void quantize_floats(instance *q) {
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < q->x.n; i++) {
    q->floats[i] = (float)draw(q, i ? -(1 << 20) : 1, 1 << 20) * 0x1p-17F;
    lo = fminf(lo, q->floats[i]), hi = fmaxf(hi, q->floats[i]);
  }
  q->x.scales = q->x.zeros = 1, q->x.scale[0] = (hi - lo) / 255,
  q->x.zero[0] = saturated(EK_UINT8, rintf(-lo / q->x.scale[0]));
  for (int64_t i = 0; i < q->x.n; i++)
    q->x.value[i] = saturated(EK_UINT8, rintf(q->floats[i] / q->x.scale[0]) + (float)q->x.zero[0]);
}
/* The scale of the results: some of them saturate, all codes occur. */
static void choose_scale(instance *q) {
  double most = 1;
  factor f;
  set_type(&f, q->result);
  for (int64_t i = 0; i < q->n; i++)
    most = fmax(most, fabs((double)q->sum[i] * q->x.scale[0] * scale_of(&q->w, channel_of(q, i))));
  most *= (double)draw(q, 1, 6) / 2 / (f.hi - f.lo);
  q->y_scale = q->form == DEQUANTIZED ? ldexpf(1, ilogb(most)) : (float)most;
  q->y_zero = draw_zero(q, &f);
}
static void right_values(instance *q) {
  if (is_dynamic(q)) quantize_floats(q);
  if (q->conv)
    sum_conv(q);
  else
    sum_product(q);
  if (q->result != EK_INT32 && q->result != EK_FLOAT) choose_scale(q);
  for (int64_t i = 0; i < q->n; i++) {
    const int64_t c = channel_of(q, i);
    const float scale = q->x.scale[0] * scale_of(&q->w, c);
    const int32_t sum = (int32_t)((uint32_t)q->sum[i] + (uint32_t)(q->biased && q->form != TO_FLOAT ? q->bias[c] : 0));
    q->want[i] = sum;
    if (q->result == EK_FLOAT)
      q->want_float[i] = (float)sum * scale + (q->biased ? (float)q->bias[c] : 0);
    else if (q->result != EK_INT32)
      q->want[i] = saturated(q->result, rintf((float)sum * (scale / q->y_scale)) + (float)q->y_zero);
  }
}

/* ---- the model as text ----------------------------------------------------------------------- */
static void put_dims(FILE *f, const factor *x, bool open) {
  for (int32_t i = 0; i < x->rank; i++)
    if (open && i == 0)
      fprintf(f, "%sN", i ? ", " : "");
    else
      fprintf(f, "%s%lld", i ? ", " : "", (long long)x->dims[i]);
}
static void put_whole(FILE *f, const char *name, ek_type t, const int32_t *v, int64_t n, bool scalar) {
  fprintf(f, "  const %s: %s[", name, ek_type_name(t));
  if (!scalar) fprintf(f, "%lld", (long long)n);
  fputs("] = [", f);
  for (int64_t i = 0; i < n; i++) fprintf(f, "%s%d", i ? ", " : "", v[i]);
  fputs("]\n", f);
}
static void put_floats(FILE *f, const char *name, const float *v, int64_t n, bool scalar) {
  fprintf(f, "  const %s: f32[", name);
  if (!scalar) fprintf(f, "%lld", (long long)n);
  fputs("] = [", f);
  for (int64_t i = 0; i < n; i++) fprintf(f, "%s%.9g", i ? ", " : "", (double)v[i]);
  fputs("]\n", f);
}
static void put_factor(const instance *q, FILE *f, const char *name, const factor *x) {
  char zero[8], scale[8];
  snprintf(zero, sizeof zero, "%sz", name), snprintf(scale, sizeof scale, "%ss", name);
  if (x->constant) {
    fprintf(f, "  const %s: %s[", name, ek_type_name(x->type));
    put_dims(f, x, false);
    fputs("] = [", f);
    for (int64_t i = 0; i < x->n; i++) fprintf(f, "%s%d", i ? ", " : "", x->value[i]);
    fputs("]\n", f);
  } else {
    fprintf(f, "  input %s: %s[", name, is_dynamic(q) && x == &q->x ? "f32" : ek_type_name(x->type));
    put_dims(f, x, q->open && x == &q->x);
    fputs("]\n", f);
  }
  if (x->zeros) put_whole(f, zero, x->type, x->zero, x->zeros, x->zeros == 1);
  put_floats(f, scale, x->scale, x->scales, x->scales == 1);
}
static void put_ints(FILE *f, const char *name, const int64_t *v, uint32_t n) {
  fprintf(f, ", %s = [", name);
  for (uint32_t i = 0; i < n; i++) fprintf(f, "%s%lld", i ? ", " : "", (long long)v[i]);
  fputs("]", f);
}
/* The attributes of a convolution */
static void put_windows(const instance *q, FILE *f) {
  int64_t strides[2], dilations[2], pads[4];
  for (uint32_t i = 0; i < q->axes; i++) {
    strides[i] = q->at[i].stride, dilations[i] = q->at[i].dilation;
    pads[i] = q->at[i].before, pads[q->axes + i] = q->at[i].after;
  }
  fprintf(f, " {group = %lld", (long long)q->groups);
  put_ints(f, "strides", strides, q->axes), put_ints(f, "dilations", dilations, q->axes);
  put_ints(f, "pads", pads, 2 * q->axes);
  fputs("}", f);
}
static void put_node(const instance *q, FILE *f) {
  const char *xz = q->x.zeros ? "xz" : "_", *wz = q->w.zeros ? "wz" : "_", *bias = q->biased ? "bias" : "_";
  switch (q->form) {
  case INTEGER:
    fprintf(f, "  y = %sInteger(x, w, %s, %s)", q->conv ? "Conv" : "MatMul", xz, wz);
    break;
  case LINEAR:
    fprintf(f, "  y = QLinear%s(x, xs, xz, w, ws, wz, ys, yz%s)", q->conv ? "Conv" : "MatMul",
            q->biased ? ", bias" : "");
    break;
  case GEMM:
    fprintf(f, "  y = \"com.microsoft\"::QGemm(x, xs, xz, w, ws, wz, %s, ys, yz)", bias);
    break;
  case DEQUANTIZED:
    fprintf(f, "  dx = DequantizeLinear(x, xs, %s) \"dx\"\n", xz);
    fprintf(f, "  dw = DequantizeLinear(w, ws, %s) {axis = %d} \"dw\"\n", wz, q->conv ? 0 : q->w.rank - 1);
    if (q->biased) fputs("  db = DequantizeLinear(bias, bs) {axis = 0} \"db\"\n", f);
    fprintf(f, "  p = %s(dx, dw%s)", q->conv ? "Conv" : "MatMul", q->biased ? ", db" : "");
    if (q->conv) put_windows(q, f);
    fputs(" \"p\"\n  y = QuantizeLinear(p, ys, yz)", f);
    break;
  case DYNAMIC:
    fprintf(f, "  c, s, z = DynamicQuantizeLinear(x) \"c\"\n  i = MatMulInteger(c, w, z, %s) \"i\"\n", wz);
    fputs("  v = Cast(i) {to = 1} \"v\"\n  t = Mul(s, ws) \"t\"\n  y = Mul(v, t)", f);
    break;
  case DYNAMIC_ONE:
    fprintf(f, "  y = \"com.microsoft\"::DynamicQuantizeMatMul(x, w, ws, %s)", wz);
    break;
  case TO_FLOAT:
    fprintf(f, "  y = \"com.microsoft\"::MatMulIntegerToFloat(x, w, xs, ws, %s, %s, %s)", xz, wz, bias);
    break;
  default:
    fputs("  y = \"com.microsoft\"::MatMulInteger16(x, w)", f);
  }
  if (q->conv && q->form != DEQUANTIZED) put_windows(q, f);
  fputs(" \"y\"\n  output y\n}\n", f);
}
static void put_model(const instance *q, FILE *f) {
  fputs("graph \"g\" ir 10 opset 21 {\n", f);
  put_factor(q, f, "x", &q->x), put_factor(q, f, "w", &q->w);
  if (q->biased && q->form == TO_FLOAT) {
    float b[MOST_CHANNELS];
    for (int64_t i = 0; i < outputs_of(q); i++) b[i] = (float)q->bias[i];
    put_floats(f, "bias", b, outputs_of(q), false);
  } else if (q->biased) {
    float b[MOST_CHANNELS];
    for (int64_t i = 0; i < outputs_of(q); i++) b[i] = q->x.scale[0] * scale_of(&q->w, i);
    put_whole(f, "bias", EK_INT32, q->bias, outputs_of(q), false);
    put_floats(f, "bs", b, outputs_of(q), false);
  }
  if (q->result != EK_INT32 && q->result != EK_FLOAT) {
    put_floats(f, "ys", &q->y_scale, 1, true);
    put_whole(f, "yz", q->result, &q->y_zero, 1, true);
  }
  put_node(q, f);
}

/* ---- what the compiled model gives ------------------------------------------------------------ */
static void *stored(const factor *x) {
  const size_t each = ek_type_bytes(x->type);
  uint8_t *to = guarded((size_t)x->n * each);
  for (int64_t i = 0; i < x->n; i++) memcpy(to + (size_t)i * each, &x->value[i], each); /* little-endian */
  return to;
}
static int32_t loaded(ek_type t, const void *p, int64_t i) {
  switch (t) {
  case EK_UINT8:
    return ((const uint8_t *)p)[i];
  case EK_INT8:
    return ((const int8_t *)p)[i];
  case EK_UINT16:
    return ((const uint16_t *)p)[i];
  case EK_INT16:
    return ((const int16_t *)p)[i];
  default:
    return ((const int32_t *)p)[i];
  }
}
static bool alike(const instance *q, const void *got, char *why, size_t room) {
  for (int64_t i = 0; i < q->n; i++) {
    if (q->result == EK_FLOAT) {
      const double g = (double)((const float *)got)[i], w = (double)q->want_float[i];
      const double bias = q->biased ? fabs((double)q->bias[channel_of(q, i)]) : 0;
      if (fabs(g - w) <= 0x1p-22 * (fabs(w) + bias)) continue;
      return snprintf(why, room, "element %lld is %.9g, %.9g is right", (long long)i, g, w), false;
    }
    const int32_t g = loaded(q->result, got, i);
    if (g == q->want[i]) continue;
    return snprintf(why, room, "element %lld is %d, %d is right", (long long)i, g, q->want[i]), false;
  }
  return true;
}
static bool run_it(const instance *q, ek_run *r, char *why, size_t room) {
  const size_t bytes = (size_t)q->n * ek_type_bytes(q->result);
  void *x, *w = stored(&q->w), *y = guarded(bytes);
  bool ok = false;
  if (is_dynamic(q)) {
    x = guarded((size_t)q->x.n * sizeof *q->floats);
    memcpy(x, q->floats, (size_t)q->x.n * sizeof *q->floats);
  } else
    x = stored(&q->x);
  const size_t xb = (size_t)q->x.n * (is_dynamic(q) ? sizeof *q->floats : ek_type_bytes(q->x.type));
  if (ek_run_set_input(r, "x", x, xb, q->x.dims, q->x.rank) ||
      (!q->w.constant &&
       ek_run_set_input(r, "w", w, (size_t)q->w.n * ek_type_bytes(q->w.type), q->w.dims, q->w.rank)) ||
      ek_run_set_output(r, "y", y, bytes) || ek_run_execute(r))
    snprintf(why, room, "%s", ek_run_message(r));
  else
    ok = alike(q, y, why, room);
  unguard(x), unguard(w), unguard(y);
  return ok;
}
/* 1: right; 0: wrong, why says how; -1: this machine cannot run the target */
static int check_instance(const instance *q, const char *vnni, char *why, size_t room) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  put_model(q, f);
  fclose(f);
  if (verbose) fputs(text, stdout);
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_options o;
  ek_options_init(&o);
  o.target = strcmp(q->target, "avxvnni") ? q->target : vnni;
  o.threads = q->threads, o.compile_threads = 1;
  if (q->form == DEQUANTIZED) o.accuracy = EK_ACCURACY_STRICT;
  int ok = 0;
  ek_code e = ek_load_memory(s, text, bytes, "model", &m);
  if (!e) e = ek_compile(m, &o, &code);
  if (!e) e = ek_run_create(code, q->threads, &r);
  if (e)
    snprintf(why, room, "%s", ek_message(s));
  else
    ok = run_it(q, r, why, room);
  if (e == EK_TARGET) ok = -1;
  ek_session_destroy(s);
  free(text);
  return ok;
}

/* ---- processes ------------------------------------------------------------------------------- */
typedef struct tally { /* shared with the children */
  uint64_t now;        /* the instance on its way */
  uint32_t passed, failed, skipped;
} tally;
static void tell(const instance *q, uint64_t seed, const char *why) {
  static const char *const names[] = {
      "Integer", "QLinear",        "DequantizeLinear", "dynamic", "DynamicQuantizeMatMul", "MatMulIntegerToFloat",
      "QGemm",   "MatMulInteger16"};
  printf("FAIL %s %s, %s by %s, depth %lld, %lld results, %s, %d threads: %s (random_integers -n 1 -s %llu -v)\n",
         names[q->form], q->conv ? "convolution" : "product", ek_type_name(q->x.type), ek_type_name(q->w.type),
         (long long)q->depth, (long long)q->n, q->target, q->threads, why, (unsigned long long)seed);
  fflush(stdout);
}
/* Every jobs-th instance from `from` on, until the child or all of them end. */
static void check_some(uint64_t from, uint64_t end, uint32_t jobs, const char *vnni, tally *t) {
  instance *q = calloc(1, sizeof *q);
  for (uint64_t seed = from; seed < end; seed += jobs) {
    char why[400] = "";
    t->now = seed;
    memset(q, 0, sizeof *q);
    draw_instance(q, seed);
    right_values(q);
    alarm(60);
    const int ok = check_instance(q, vnni, why, sizeof why);
    t->passed += ok == 1, t->failed += ok == 0, t->skipped += ok < 0;
    if (!ok) tell(q, seed, why);
  }
  t->now = end;
  free(q);
}
/* A child for every jobs-th instance; one that crashes has a successor behind that instance. */
static void supervise(uint64_t first, uint64_t end, uint32_t jobs, const char *vnni, tally *t) {
  pid_t child[MAX_JOBS];
  for (uint32_t left = jobs, j = 0; j < jobs && left; j++) {
    fflush(NULL);
    if (!(child[j] = fork())) check_some(first + j, end, jobs, vnni, &t[j]), fflush(NULL), _exit(0);
  }
  for (uint32_t left = jobs; left;) {
    int status;
    const pid_t ended = wait(&status);
    if (ended < 0) break;
    uint32_t j = 0;
    while (j < jobs && child[j] != ended) j++;
    if (j == jobs) continue;
    if (t[j].now >= end) {
      left--;
      continue;
    }
    const uint64_t crashed = t[j].now;
    t[j].failed++;
    printf("FAIL %s (random_integers -n 1 -s %llu -v)\n",
           WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended", (unsigned long long)crashed);
    fflush(NULL);
    if (!(child[j] = fork())) check_some(crashed + jobs, end, jobs, vnni, &t[j]), fflush(NULL), _exit(0);
  }
}
/* A target with AVX2 and AVX-VNNI */
static bool write_target(char *path) {
  const int fd = mkstemps(path, 7);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return false;
  fputs("extends = x86-64-v3\nrequires = avx2 fma f16c bmi2 avxvnni\n", f);
  return !fclose(f);
}
int main(int argc, char **argv) {
  uint64_t n = 1000, first = 1;
  uint32_t jobs = 1;
  char vnni[] = "/tmp/einkorn-XXXXXX.target";
  for (int c; (c = getopt(argc, argv, "n:s:j:t:v")) != -1;) {
    if (c == 'n')
      n = strtoull(optarg, NULL, 10);
    else if (c == 's')
      first = strtoull(optarg, NULL, 10);
    else if (c == 'j')
      jobs = (uint32_t)strtoul(optarg, NULL, 10);
    else if (c == 't')
      asked_target = optarg;
    else if (c == 'v')
      verbose = true;
    else
      return 2;
  }
  if (jobs < 1 || jobs > MAX_JOBS || !write_target(vnni)) return 2;
  tally *t = mmap(NULL, sizeof *t * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), all = {0};
  supervise(first, first + n, jobs, vnni, t);
  for (uint32_t j = 0; j < jobs; j++) all.passed += t[j].passed, all.failed += t[j].failed, all.skipped += t[j].skipped;
  unlink(vnni);
  printf("%u passed, %u failed, %u skipped\n", all.passed, all.failed, all.skipped);
  return all.failed > 0;
}
