/* Random convolutional networks as graph text, for accuracy.c: a network is a function of its number.
 *
 * Of 10 to 60 layers on a line or in a plane, with 16 to 512 channels. In half of the networks each layer is a
 * convolution with a window, dense or of each channel alone; in the others also of 4 groups, dilated, strided,
 * transposed, of windows of 1. Each network has a share of its own of layers with a bias and with a batch
 * normalisation, and activations of one kind, of two or of many. Behind a layer there may be the sum with an earlier
 * tensor, a concatenation with one, or pooling.
 *
 * Constants are multiples of powers of two, so that f32 holds them exactly and a reference in f64 has the same ones.
 * Weights keep the size of values about as it is where every activation is Relu, and a normalisation has about the
 * variance of what it gets, as in a network that was trained. */
#ifndef EK_TESTS_NETWORKS_H
#define EK_TESTS_NETWORKS_H
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { NETWORK_TEXT = 1 << 17, MAX_CHANNELS = 512, LINE_PLACES = 128, PLANE_SIDE = 16, EARLIER = 6 };
typedef struct feature_map {
  char name[12];
  int channels, side; /* 0 channels: there is none */
  double power;       /* about the mean of its values' squares */
} feature_map;
typedef struct network {
  int number, layers, base; /* base: channels that it comes back to */
  bool plane, only_windows;
  int biases, normalisations, activations; /* one layer of so many has one, 0: none; how many kinds */
  double work;                             /* most multiplications of a layer */
  double scale; /* log2 of how much larger values are than the weights were meant to make them */
  uint64_t seed;
  feature_map last, earlier[EARLIER]; /* earlier: a ring */
  int n_earlier, constants;
  char text[NETWORK_TEXT], input[60]; /* input: its dimensions */
  int n;
} network;
static int below(network *g, int n) {
  g->seed = g->seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((g->seed >> 33) % (uint64_t)n);
}
static bool one_in(network *g, int n) { return n && below(g, n) == 0; }
static void put(network *g, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  g->n += vsnprintf(g->text + g->n, (size_t)(NETWORK_TEXT - g->n), fmt, ap);
  va_end(ap);
}
/* n once an axis: "3" or "3, 3" */
static const char *each(const network *g, int n, char out[40]) {
  snprintf(out, 40, g->plane ? "%d, %d" : "%d", n, n);
  return out;
}
static int constant(network *g, const char *shape, double low, double high) {
  const int k = ++g->constants;
  put(g,
      "  k%d: f32[%s] = RandomUniform() {shape = [%s], seed = float %d.0, low = float %.9f, high = float %.9f} "
      "\"k%d\"\n",
      k, shape, shape, 1000 * g->number + k, low, high, k);
  return k;
}
/* A node whose result is the network's last tensor: OPERATOR(operands) {attributes}. */
static void node(network *g, int channels, int side, double power, const char *fmt, ...) {
  const int number = g->n; /* of the text so far: no other node has it */
  char place[40];
  va_list ap;
  put(g, "  t%d: f32[1, %d, %s] = ", number, channels, each(g, side, place));
  va_start(ap, fmt);
  g->n += vsnprintf(g->text + g->n, (size_t)(NETWORK_TEXT - g->n), fmt, ap);
  va_end(ap);
  put(g, " \"t%d\"\n", number);
  g->last = (feature_map){.channels = channels, .side = side, .power = power};
  snprintf(g->last.name, sizeof g->last.name, "t%d", number);
}
/* Half the width of weights for so many factors: the power of two that brings values nearest to their size. */
static double width(network *g, double factors) {
  const double exact = log2(sqrt(6 / factors)) - g->scale, whole = floor(exact + 0.5);
  g->scale = whole - exact;
  return ldexp(1, (int)whole);
}
static double places(const network *g, int side) { return g->plane ? (double)side * side : side; }
/* The most channels, as a power of two, that keep a layer's work within bounds. */
static int most_channels(const network *g, int in, double taps, int side) {
  int c = 16;
  while (c < MAX_CHANNELS && 2.0 * c * in * taps * places(g, side) <= g->work) c *= 2;
  return c;
}
static void convolution(network *g) {
  static const int lines[] = {1, 3, 3, 5, 7, 9, 15}, planes[] = {1, 3, 3, 3, 5, 7};
  const feature_map x = g->last;
  const int whole = g->plane ? PLANE_SIDE : LINE_PLACES, kind = below(g, g->only_windows ? 8 : 12);
  const int window = g->only_windows + below(g, (g->plane ? 6 : 7) - g->only_windows);
  int w = g->plane ? planes[window] : lines[window], group = 1, stride = 1, dilation = 1, out = g->base;
  if (kind < 2) group = x.channels, out = x.channels;
  if (kind == 8 && x.channels % 4 == 0) group = 4;
  if (kind == 9 && w > 1) dilation = 1 << below(g, g->plane ? 2 : 4);
  const bool shorter = kind == 10 && x.side >= whole / 2, transposed = kind == 11 && x.side < whole;
  if (shorter) stride = 2, w = w > 1 ? w : 3;
  if (transposed) stride = 2, w = 4;
  if (!g->only_windows && kind == 7) out = 16 << below(g, 6);
  const double taps = g->plane ? w * w : w;
  const int most = most_channels(g, x.channels / group, taps, x.side), side = shorter ? x.side / 2 : x.side;
  if (group != x.channels && out > most) out = most;
  const int pad = transposed ? 1 : dilation * (w / 2), in = x.channels / group;
  char shape[60], win[40], pads[40], strides[40], dilations[40], bias[20] = "";
  if (transposed)
    snprintf(shape, sizeof shape, "%d, %d, %s", x.channels, out / group, each(g, w, win));
  else
    snprintf(shape, sizeof shape, "%d, %d, %s", out, in, each(g, w, win));
  /* a transposed window of stride 2 adds one of 2 taps an axis */
  const double factors = transposed ? in * taps / (g->plane ? 4 : 2) : in * taps, b = width(g, factors);
  const int k = constant(g, shape, -b, b);
  if (one_in(g, g->biases)) {
    snprintf(shape, sizeof shape, "%d", out);
    snprintf(bias, sizeof bias, ", k%d", constant(g, shape, -0.125, 0.125));
  }
  snprintf(pads, sizeof pads, g->plane ? "%d, %d, %d, %d" : "%d, %d", pad, pad, pad, pad);
  node(g, out, transposed ? 2 * side : side, x.power * factors * b * b / 3,
       "%s(%s, k%d%s) {pads = [%s], strides = [%s], dilations = [%s], group = %d}",
       transposed ? "ConvTranspose" : "Conv", x.name, k, bias, pads, each(g, stride, strides),
       each(g, dilation, dilations), group);
}
static void normalisation(network *g) {
  char shape[20];
  const feature_map x = g->last;
  snprintf(shape, sizeof shape, "%d", x.channels);
  const double size = ldexp(1, (int)floor(log2(fmax(x.power, 0x1p-40)) / 2 + 0.5)), var = size * size;
  const int scale = constant(g, shape, 0.5, 1), bias = constant(g, shape, -0.125, 0.125),
            mean = constant(g, shape, -0.125 * size, 0.125 * size), variance = constant(g, shape, 0.5 * var, var);
  node(g, x.channels, x.side, 0.78 * x.power / var, "BatchNormalization(%s, k%d, k%d, k%d, k%d)", x.name, scale, bias,
       mean, variance);
}
static void activation(network *g) {
  enum { NAMED = 7, LEAKY = NAMED, SILU };
  static const char *const some[NAMED] = {"Relu", "Relu", "Tanh", "Sigmoid", "Gelu", "HardSwish", "Elu"};
  const feature_map x = g->last;
  const double p = x.power, power[NAMED] = {p / 2, p / 2, p / (1 + p), 0.3, p / 2, p / 2, p / 2};
  const int kind = below(g, g->activations);
  if (kind < NAMED)
    node(g, x.channels, x.side, power[kind], "%s(%s)", some[kind], x.name);
  else if (kind == LEAKY)
    node(g, x.channels, x.side, p / 2, "LeakyRelu(%s) {alpha = float 0.125}", x.name);
  else if (kind == SILU) {
    node(g, x.channels, x.side, 0.3, "Sigmoid(%s)", x.name);
    const feature_map s = g->last;
    node(g, x.channels, x.side, p / 2, "Mul(%s, %s)", x.name, s.name);
  }
}
static void remember(network *g) { g->earlier[g->n_earlier++ % EARLIER] = g->last; }
static void earlier_tensors(network *g) {
  const feature_map x = g->last, e = g->earlier[below(g, EARLIER)];
  const int kind = below(g, 12);
  if (!e.channels || e.side != x.side) return;
  if (kind < 5 && e.channels == x.channels)
    node(g, x.channels, x.side, x.power + e.power, "Add(%s, %s)", x.name, e.name);
  else if (kind == 5 && e.channels + x.channels <= 2 * g->base)
    node(g, x.channels + e.channels, x.side, (x.power + e.power) / 2, "Concat(%s, %s) {axis = 1}", x.name, e.name);
}
static void layer(network *g) {
  convolution(g);
  if (one_in(g, g->normalisations)) normalisation(g);
  activation(g);
  earlier_tensors(g);
  if (!g->only_windows && one_in(g, 20)) {
    char win[40];
    node(g, g->last.channels, g->last.side, g->last.power, "%s(%s) {kernel_shape = [%s], pads = [%s]}",
         one_in(g, 2) ? "MaxPool" : "AveragePool", g->last.name, each(g, 3, win), g->plane ? "1, 1, 1, 1" : "1, 1");
  }
  remember(g);
}
/* Makes the network of that number: two of eight are large. */
static void random_network(network *g, int number) {
  char place[40];
  *g = (network){.number = number, .plane = number % 2, .seed = (uint64_t)number * 0x9E3779B97F4A7C15u};
  const int side = g->plane ? PLANE_SIDE : LINE_PLACES;
  below(g, 2);
  g->layers = 10 + below(g, 51), g->only_windows = one_in(g, 2), g->work = number % 8 < 6 ? 0x1p21 : 0x1p25;
  g->biases = below(g, 3), g->normalisations = below(g, 4), g->activations = one_in(g, 3) ? 1 : one_in(g, 2) ? 3 : 10;
  g->base = 16 << below(g, 6);
  const int most = most_channels(g, g->base, g->plane ? 9 : 3, side);
  if (g->base > most) g->base = most;
  snprintf(g->input, sizeof g->input, "1, %d, %s", g->base, each(g, side, place));
  put(g, "graph \"n\" ir 8 opset 20 {\n  input x: f32[%s]\n", g->input);
  g->last = (feature_map){"x", g->base, side, 1.0 / 3};
  for (int l = 0; l < g->layers; l++) layer(g);
  if (one_in(g, 6)) node(g, g->last.channels, 1, g->last.power, "GlobalAveragePool(%s)", g->last.name);
  put(g, "  output %s\n}\n", g->last.name);
}
#endif
