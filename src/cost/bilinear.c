/* What does a form of a window sum take: fewer multiplications, but sums around them?
 *
 * Its parts are counted in multiply-adds of one lane, as the kernel of the products does them, and become cycles at the
 * end: a core does lanes * fma of them in a cycle. Arithmetic and the reading of constants from memory run side by
 * side.
 */
#include "cost/cost.h"
#include <math.h>

/* ---- multiply-adds of one lane ---- */
static const double ALONE = 8;       /* a product that shares no factor with its neighbours */
static const double FACTOR = 0.4;    /* a factor that is computed from kept taps, for each tile */
static const double TERM = 1.4;      /* a term of a transform whose values are in registers */
static const double MEMORY_TERM = 2; /* one whose values pass through memory */
static const double STENCIL = 1.5;   /* a tap of a window without columns */
/* ---- shares ---- */
/* of outputs, for each kind of tiles but one: axes whose last tile has fewer outputs make two kinds of each, which are
 * computed separately, from the same products */
static const double UNEVEN = 0.3;
static const double GAIN = 0.9;         /* most of the cost that is left: less gain is not worth more code */
static const double VARIANT_GAIN = 0.9; /* the same of all window sums, for the model's code twice */
static const double NARROW = 0.5;       /* of products and bytes, where they may become bf16 */
static const double TRANSFERS = 2;      /* of a line that is written, and read again, behind all caches */
static const double SHOWN = 4;          /* one part in so many of the shorter of arithmetic and memory shows */
/* Added by each operation in the code of transforms on a circle. They are written out, up to a thousand of each, which
 * the compiler has to keep while it works, and a run reads for a few lines; those on a line are ten times shorter. */
static const double CODE = 1e-4;

double cost_places_together(uint32_t registers, double n) {
  return registers ? floor((double)(registers - 1) / n) - 1 : 0;
}
/* Tiles of an axis. */
static double tiles(const bilinear_axis *x) { return floor((x->outputs + x->m - 1) / x->m); }
/* What the counts of all axes come to. */
typedef struct counts {
  double rows;     /* tiles, and outputs of axes that stay sums */
  double taps;     /* products of a tile */
  double places;   /* the same of axes that are transformed */
  double parts;    /* parts that taps are divided into */
  double repeated; /* times as many elements of transformed inputs as there are places */
  double moved;    /* inputs that are copied by phases; 0: none are */
  double uneven;   /* kinds of tiles */
  bool any;        /* some axis is transformed */
  bool circles;    /* by a Fourier form: one axis after another */
} counts;
static counts count(const bilinear_product *q) {
  counts c = {.rows = q->rows, .taps = 1, .places = 1, .parts = 1, .repeated = 1, .uneven = 1};
  double moved = q->rows;
  bool phases = false;
  for (uint32_t i = 0; i < q->axes; i++) {
    const bilinear_axis *x = &q->axis[i];
    c.any |= x->m > 1, c.circles |= x->circle, phases |= x->phases > 1;
    c.rows *= tiles(x), c.taps *= x->n; /* a tap that stays is one more place of the inputs */
    moved *= x->outputs * x->stride / x->phases + (x->phases > 1 ? x->r : x->taps) - 1;
    c.parts *= x->parts;
    if (x->m == 1) c.repeated *= q->by_axis ? 1 + x->taps / x->outputs : x->n;
    if (x->m == 1) continue;
    c.places *= x->n;
    if (fmod(x->outputs, x->m) != 0) c.uneven *= 2;
  }
  c.moved = phases ? moved : 0;
  return c;
}
/* The sums around products of one of a batch; in, out: elements of transformed inputs, and of products. */
static double sums(const target *t, const bilinear_product *q, const counts *c, double in, double out) {
  const double handover = t->handover_cost * q->fma;
  double value = sizeof(float) / t->l1_bandwidth * q->lanes * q->fma, all = 0;
  for (uint32_t i = 0; i < q->axes && c->circles; i++) { /* the lines of an axis: of places transformed, or not yet */
    const bilinear_axis *x = &q->axis[i];
    double before = in, behind = out;
    if (x->m == 1) continue;
    for (uint32_t j = i + 1; j < q->axes; j++)
      if (q->axis[j].m > 1) before *= q->axis[j].m / q->axis[j].n, behind *= q->axis[j].m / q->axis[j].n;
    all += before * (handover + MEMORY_TERM * x->in) + behind * (handover + MEMORY_TERM * x->out_each);
  }
  if (c->any && !c->circles) {
    for (uint32_t i = 0; i < q->axes; i++)
      if (q->axis[i].m > 1) value += TERM * (q->axis[i].in + q->axis[i].out) / 2;
    all = value * (in + out * (1 + UNEVEN * (c->uneven - 1)));
  }
  return all;
}
/* The sums that make the factors of one of a batch in each run, one axis after another; *written: of the factors. */
static double computed_factors(const bilinear_product *q, double channels, double *written) {
  double each = q->columns * channels, all = 0;
  for (uint32_t i = 0; i < q->axes && q->computed; i++)
    if (q->axis[i].m > 1) each *= q->axis[i].r;
  *written = 0;
  for (uint32_t i = 0; i < q->axes && q->computed; i++) {
    const bilinear_axis *x = &q->axis[i];
    if (x->m == 1) continue;
    each *= x->n / x->r, all += MEMORY_TERM * x->r * each, *written = sizeof(float) * each;
  }
  return all;
}
/* Cycles for what a kernel makes in each run and another one reads, where the last cache does not keep it until then:
 * it is written, and read again. Only against a plain sum of bf16, which takes half as long as one of f32 and has none
 * of it: among forms of f32 it would prefer smaller ones, which are no faster (ResNet-18's step would take 2 % longer).
 */
static double through_memory(const target *t, const bilinear_product *q, double elements) {
  const double bytes = q->batch * elements * sizeof(float);
  return q->computed && q->narrow && bytes > (double)t->l3 ? TRANSFERS * bytes / t->memory_bandwidth : 0;
}
double cost_bilinear(const target *t, const bilinear_product *q) {
  const counts c = count(q);
  double channels = q->channels, made = 1, stored = 1;
  for (uint32_t i = 0; i < q->axes; i++) channels *= q->axis[i].phases;
  const double in = c.rows * c.places * c.repeated * channels, out = c.rows * c.places * q->columns;
  double around = sums(t, q, &c, in, out);
  if (c.moved > 0) around += c.moved * channels * (t->copy_cost * q->fma);
  for (uint32_t i = 0; i < q->axes; i++) {
    if (!q->axis[i].keeps) continue;
    const double tile = cost_places_together(q->registers, q->axis[i].n), each = floor((c.rows + tile - 1) / tile);
    made += FACTOR * each / (c.rows > 1 ? c.rows : 1), stored = q->axis[i].r / q->axis[i].n;
  }
  const double narrow = !c.any && q->narrow && fmod(channels, 2) == 0 ? NARROW : 1;
  /* few columns: the plain sum's lanes run along the window */
  const double empty = c.any && q->has_columns && q->columns < q->lanes ? q->lanes / q->columns : 1;
  double written = 0;
  const double factors = computed_factors(q, channels, &written);
  const double products = made * narrow * empty * q->batch * c.rows * c.taps * c.parts * q->columns * channels,
               bytes = stored * narrow * sizeof(float) * q->batch * c.taps * c.parts * q->columns * channels,
               each = q->has_columns ? 1
                      : c.circles    ? ALONE
                                     : STENCIL,
               in_a_cycle = (double)q->lanes * q->fma;
  const double arithmetic = (products * each + q->batch * (around + factors)) / in_a_cycle,
               memory = (bytes + q->batch * written) / (c.circles ? t->dram_bandwidth : t->memory_bandwidth);
  const double far =
      c.any ? through_memory(t, q, in) + through_memory(t, q, out) + through_memory(t, q, written / sizeof(float)) : 0;
  return far + (arithmetic > memory ? arithmetic + memory / SHOWN : memory + arithmetic / SHOWN);
}
double cost_bilinear_compared(const target *t, const bilinear_product *q, bool plain) {
  double code = 0;
  for (uint32_t i = 0; i < q->axes; i++)
    if (q->axis[i].circle) code += q->axis[i].n * (q->axis[i].in + q->axis[i].out_each);
  return EK_PLANTED("cost-bilinear") && plain ? 0 : cost_bilinear(t, q) * (plain ? GAIN : 1 + CODE * code);
}
bool cost_variant_pays(double better, double before) { return better <= VARIANT_GAIN * before; }
