/* Weights: a packing and a linear map written in pieces are what their definitions say, whatever the pieces; a
 * program's weights are the same bytes however they are asked for; equal constants are there once. */
#include "driver/driver.h"
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

/* ---- packings -------------------------------------------------------------------------------- */
static uint64_t state_ = 1;
static int64_t rnd(int64_t n) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(state_ >> 33) % n;
}
/* A random tensor whose axes are divided among lanes, selecting variables and reductions, some of them run
 * backwards. Gives the source's number of elements. */
static int64_t random_packing(packing *k) {
  int64_t axes = 1 + rnd(5), lane = rnd(axes), total = 1, extent[5], step[5], nsel = 0, sel[5], red[5], nred = 0;
  memset(k, 0, sizeof *k);
  for (int64_t i = axes; i-- > 0;)
    extent[i] = 1 + rnd(i == lane ? 40 : rnd(3) ? 5 : 40), step[i] = total, total *= extent[i];
  k->size = (int64_t[]){1, 2, 4, 8}[rnd(4)];
  for (int64_t i = 0; i < axes; i++) {
    if (rnd(6) == 0) k->base += (extent[i] - 1) * step[i], step[i] = -step[i];
    if (i != lane && rnd(3) == 0)
      sel[nsel++] = i;
    else if (i != lane)
      red[nred++] = i;
  }
  k->lane_step = step[lane], k->lanes = extent[lane], k->nr = 1 + rnd(20), k->panels = (k->lanes + k->nr - 1) / k->nr,
  k->depth = 1, k->nsel = nsel, k->nred = nred;
  for (int64_t i = 0; i < nsel; i++) k->count[i] = extent[sel[i]], k->step[i] = step[sel[i]];
  for (int64_t i = 0; i < nred; i++)
    k->count[nsel + i] = extent[red[i]], k->step[nsel + i] = step[red[i]], k->depth *= extent[red[i]];
  return total;
}
/* The definition: element by element. Notes which elements of the source are read. */
static void define(const packing *k, const uint8_t *src, uint8_t *to, pack_piece w, int64_t *lo, int64_t *hi) {
  *lo = INT64_MAX, *hi = -1;
  for (int64_t item = w.first; item < w.last; item++)
    for (int64_t p = w.from; p < w.to; p++)
      for (int64_t i = 0; i < k->nr; i++) {
        int64_t lane = item % k->panels * k->nr + i, at = k->base + lane * k->lane_step, sel = item / k->panels,
                red = p;
        uint8_t *e = to + ((item * k->depth + p) * k->nr + i) * k->size;
        for (int64_t d = k->nsel; d-- > 0; sel /= k->count[d]) at += sel % k->count[d] * k->step[d];
        for (int64_t d = k->nsel + k->nred; d-- > k->nsel; red /= k->count[d]) at += red % k->count[d] * k->step[d];
        memset(e, 0, (size_t)k->size);
        if (lane >= k->lanes) continue;
        memcpy(e, src + at * k->size, (size_t)k->size);
        if (at < *lo) *lo = at;
        if (at > *hi) *hi = at;
      }
}
/* Codes of few bits: eight points of a lane in a word, or sixteen. */
static void few_bits_packed(void **state) {
  (void)state;
  for (int turn = 0; turn < 200; turn++) {
    packing k;
    const int64_t elems = random_packing(&k), bits = INT64_C(2) << rnd(2), each = 32 / bits, items = packing_items(&k);
    k.size = 1, k.low = (int64_t)rnd(20), k.bits = 0;
    if (k.depth % each) continue;
    uint8_t *src = malloc((size_t)elems), *want = malloc((size_t)packing_bytes(&k));
    for (int64_t i = 0; i < elems; i++) src[i] = (uint8_t)(k.low + rnd(1 << bits));
    packing_write(&k, src, (pack_piece){0, items, 0, k.depth}, want);
    k.bits = bits;
    uint32_t *is = malloc((size_t)packing_bytes(&k));
    for (int64_t item = 0; item < items; item++)
      packing_write(&k, src, (pack_piece){item, item + 1, 0, k.depth}, (uint8_t *)is + item * packing_item(&k));
    for (int64_t i = 0; i < items * k.depth * k.nr; i++) {
      const int64_t lane = i % k.nr, p = i / k.nr % k.depth, item = i / k.nr / k.depth;
      const bool there = item % k.panels * k.nr + lane < k.lanes;
      const uint32_t word = is[(item * k.depth + p) / each * k.nr + lane],
                     code = word >> (p % each * bits) & ((1u << bits) - 1);
      assert_int_equal(code, there ? want[i] - k.low : 0);
    }
    free(src), free(want), free(is);
  }
}
static void packings(void **state) {
  (void)state;
  for (int turn = 0; turn < 400; turn++) {
    packing k;
    int64_t elems = random_packing(&k), items = packing_items(&k), lo, hi, cut_items = 1 + rnd(items),
            cut_points = 1 + rnd(k.depth);
    size_t n = (size_t)packing_bytes(&k);
    uint8_t *src = malloc((size_t)(elems * k.size)), *is = malloc(n), *want = malloc(n);
    for (int64_t i = 0; i < elems * k.size; i++) src[i] = (uint8_t)(1 + rnd(255));
    memset(is, 0xee, n);
    define(&k, src, want, (pack_piece){0, items, 0, k.depth}, &lo, &hi);
    for (int64_t a = 0; a < items; a += cut_items)
      for (int64_t b = 0; b < k.depth; b += cut_points) {
        pack_piece w = {a, min64(items, a + cut_items), b, min64(k.depth, b + cut_points)};
        packing_write(&k, src, w, is + a * k.depth * k.nr * k.size);
        define(&k, src, want, w, &lo, &hi);
        bytes read = packing_reads(&k, src, w);
        assert_true(read.p >= src && read.p + read.n <= src + elems * k.size);
        assert_true(read.p <= src + lo * k.size && read.p + read.n >= src + (hi + 1) * k.size);
      }
    assert_memory_equal(is, want, n);
    free(src), free(is), free(want);
  }
}

/* ---- fixed point ----------------------------------------------------------------------------- */
/* The definition: what stands for the value of a lane, in its steps. */
static double in_steps(const packing *k, const int32_t *words, int64_t lane) {
  int64_t L = k->fixed_point, v = lane / L, threes = k->nr / L / 3, l = lane % L;
  if (v >= 3 * threes) {
    float left;
    memcpy(&left, words + (v - threes) * L + l, sizeof left);
    return (double)left;
  }
  const int32_t *u = words + 2 * (v / 3) * L + l;
  return v % 3 < 2 ? u[v % 3 * L] : (int32_t)(((uint32_t)u[0] << 21) + ((uint32_t)u[L] << 11));
}
static void fixed_points(void **state) {
  (void)state;
  for (int turn = 0; turn < 300; turn++) {
    packing k = {.size = 4, .lanes = 1, .panels = 1, .depth = 1 + rnd(40), .fixed_point = INT64_C(2) << rnd(4)};
    k.nr = k.fixed_point * (1 + rnd(9));
    float *x = malloc((size_t)(k.depth * k.nr) * 4), *most = calloc((size_t)k.nr, 4);
    uint8_t *to = malloc((size_t)packing_item(&k));
    for (int64_t l = 0; l < k.nr; l++) {
      float size = rnd(5) ? (float)exp2((double)(rnd(40) - 20)) : 0; /* size of a column; some are empty */
      for (int64_t p = 0; p < k.depth; p++) {
        float *e = &x[p * k.nr + l];
        *e = size * (rnd(9) ? (float)(rnd(2000001) - 1000000) / 1e6f : (float)(rnd(3) - 1));
        most[l] = fmaxf(most[l], fabsf(*e));
      }
    }
    fixed_point_write(&k, x, to);
    for (int64_t l = 0; l < k.nr; l++)
      for (int64_t p = 0; p < k.depth; p++) {
        const int32_t *words = (const int32_t *)(const void *)to + k.nr + p * (packing_item(&k) / 4 - k.nr) / k.depth;
        double is = in_steps(&k, words, l) * ((const float *)(const void *)to)[l];
        /* half a step, and the roundings of floats on the way there */
        assert_true(fabs(is - x[p * k.nr + l]) <= most[l] * 0x1.6p-21);
      }
    free(x), free(most), free(to);
  }
}

/* ---- linear maps ----------------------------------------------------------------------------- */
static double element(const uint8_t *p, int64_t size, int64_t at) {
  float f;
  double d;
  if (size == 8) return memcpy(&d, p + at * 8, 8), d;
  return memcpy(&f, p + at * 4, 4), (double)f;
}
static void maps(void **state) {
  (void)state;
  for (int turn = 0; turn < 200; turn++) {
    linmap l = {.size = rnd(2) ? 4 : 8, .nx = 1 + rnd(3)};
    int64_t total = 1, most[] = {5, 6, 40};
    double g[LINMAP_AXES][20 * 21];
    for (int i = 0; i < LINMAP_AXES; i++) { /* taps innermost, now and then backwards */
      int64_t tap = total;
      l.n[i] = 1 + rnd(rnd(3) ? 6 : 20), l.r[i] = 1 + rnd(rnd(3) ? 3 : 20), l.spacing[i] = 1;
      if (rnd(3) == 0 && l.nx > 1 && !(i && l.all[0])) {
        l.part[i] = l.nx - 2, l.all[i] = l.r[i] * (1 + rnd(3)) + 1 + rnd(l.r[i]), l.begin[i] = l.r[i];
        if (rnd(2)) { /* phases */
          l.begin[i] = 1, l.spacing[i] = 2 + rnd(3), l.lead[i] = rnd(l.spacing[i]);
          l.all[i] = 1 + rnd(l.r[i] * l.spacing[i]), l.r[i] = (l.all[i] + l.lead[i] + l.spacing[i] - 1) / l.spacing[i];
        }
      }
      total *= l.all[i] ? l.all[i] : l.r[i];
      if (rnd(4) == 0) l.base += ((l.all[i] ? l.all[i] : l.r[i]) - 1) * tap, tap = -tap;
      l.tap[i] = tap * l.spacing[i];
      l.g[i] = g[i];
      for (int a = 0; a < l.n[i]; a++)
        for (int j = 0; j < l.r[i]; j++) g[i][a * l.r[i] + j] = (double)(rnd(9) - 4) / 4;
    }
    for (int64_t v = 0; v < l.nx; v++) {
      int parts = l.all[0] && l.part[0] == v ? 0 : l.all[1] && l.part[1] == v ? 1 : -1;
      l.ext[v] = parts < 0              ? 1 + rnd(most[v])
                 : l.spacing[parts] > 1 ? l.spacing[parts]
                                        : (l.all[parts] + l.r[parts] - 1) / l.r[parts];
      l.step[v] = parts < 0 ? total : l.begin[parts] * l.tap[parts] / l.spacing[parts];
      if (parts < 0) total *= l.ext[v];
    }
    uint8_t *src = malloc((size_t)(total * l.size));
    for (int64_t i = 0; i < total; i++) {
      double d = (double)(rnd(2001) - 1000) / 64;
      float f = (float)d;
      memcpy(src + i * l.size, l.size == 8 ? (void *)&d : (void *)&f, (size_t)l.size);
    }
    l.from = (bytes){src, (size_t)(total * l.size)};
    int64_t rows = linmap_rows(&l), cols = linmap_cols(&l), places = linmap_places(&l), row_step = cols + rnd(5),
            place_step = rows * row_step, cut_rows = 1 + rnd(rows), cut_cols = 1 + rnd(cols);
    const bool turned = rnd(2);
    const int64_t step[LINMAP_AXES] = {turned ? place_step : l.n[1] * place_step,
                                       turned ? l.n[0] * place_step : place_step};
    uint8_t *to = malloc((size_t)(places * place_step * l.size));
    for (int64_t r = 0; r < rows; r += cut_rows)
      for (int64_t k = 0; k < cols; k += cut_cols) {
        linmap_piece w = {r, min64(rows, r + cut_rows), k, min64(cols, k + cut_cols)};
        linmap_write(&l, w, to + (r * row_step + k) * l.size, step, row_step);
        bytes read = linmap_reads(&l, w);
        assert_true(read.p >= src && read.p + read.n <= src + l.from.n);
      }
    for (int64_t a = 0; a < places; a++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++) {
          double sum = 0;
          int64_t at = l.base + k * l.step[l.nx - 1], rest = r;
          int64_t first[LINMAP_AXES] = {0};
          for (int64_t v = l.nx - 1; v-- > 0; rest /= l.ext[v]) {
            at += rest % l.ext[v] * l.step[v];
            for (int i = 0; i < LINMAP_AXES; i++)
              if (l.all[i] && l.part[i] == v)
                first[i] = rest % l.ext[v] * l.begin[i] - l.lead[i], at -= l.lead[i] * l.tap[i] / l.spacing[i];
          }
          for (int64_t i = 0; i < l.r[0]; i++)
            for (int64_t j = 0; j < l.r[1]; j++) {
              bool there = true;
              for (int x = 0; x < LINMAP_AXES && there; x++) {
                int64_t element = first[x] + (x ? j : i) * l.spacing[x];
                there = !l.all[x] || (element >= 0 && element < l.all[x]);
              }
              if (there)
                sum += g[0][a / l.n[1] * l.r[0] + i] * g[1][a % l.n[1] * l.r[1] + j] *
                       element(src, l.size, at + i * l.tap[0] + j * l.tap[1]);
            }
          /* all numbers here are exact */
          assert_true(element(to, l.size, a / l.n[1] * step[0] + a % l.n[1] * step[1] + r * row_step + k) == sum);
        }
    free(src), free(to);
  }
}

/* ---- programs -------------------------------------------------------------------------------- */
static void gather(void *env, bytes piece) {
  uint8_t **at = env;
  memcpy(*at, piece.p, piece.n);
  *at += piece.n;
}
static void giving(void *env, bytes source) { *(size_t *)env += source.n; }
/* Numbers of buffers that are linear maps, are kept in fewer bytes, lie in fixed point. */
static void one_model(const char *name, bytes text, int level, const char *target, uint32_t made, uint32_t kept,
                      uint32_t fixed) {
  ctx *c = ctx_new();
  bool ok = false;
  CTX_TRY(c) {
    pipe_opts o = {.level = level, .compile_threads = 3, .target = target};
    pipeline *p = pipe_new(c, &o);
    const char *path = arena_fmt(ctx_arena(c), "%s/tests/models/%s.onnx", EK_SOURCE_DIR, name);
    pipe_load(p, &(source){.path = text.n ? NULL : path, .data = text, .name = path});
    pipe_lower(p, NULL), pipe_optimise(p), pipe_program(p);
    size_t n = (size_t)p->p->weight_bytes, given_up = 0, all = 0;
    uint32_t maps_there = 0, narrow_there = 0, fixed_there = 0;
    uint8_t *a = malloc(n + 64), *b = malloc(n + 64), *d = malloc(n + 64), *end = b;
    memset(a, 1, n), memset(b, 2, n), memset(d, 3, n);
    program_weights(p->p, n, 3, a, &(weights_watch){.done = giving, .env = &given_up});
    program_weights_stream(p->p, gather, &end);
    assert_ptr_equal(end, b + n);
    program_weights(p->p, n, 1, d, NULL);
    assert_memory_equal(a, b, n);
    assert_memory_equal(a, d, n);
    /* each buffer is there, whole; what it is made of is given up at most once */
    for (uint32_t i = 1; i < p->p->buffers.n; i++) {
      const pbuffer *q = &p->p->buffers.v[i];
      if (q->kind != BUF_WEIGHTS) continue;
      all += q->from.source.n;
      maps_there += q->from.transform != NULL, narrow_there += q->from.narrow != 0;
      size_t bytes = (size_t)sym_int_or(c, q->elems, 0) * et_bytes(q->type);
      uint8_t *own = malloc(bytes + 1);
      contents f = q->from;
      if (f.transform) {
        int64_t rows = linmap_rows(f.transform), cols = linmap_cols(f.transform);
        uint8_t *plain =
            arena_alloc(ctx_arena(c), (size_t)(linmap_places(f.transform) * rows * cols * f.transform->size));
        const int64_t step[LINMAP_AXES] = {f.transform->n[1] * rows * cols, rows * cols};
        linmap_write(f.transform, (linmap_piece){0, rows, 0, cols}, plain, step, cols);
        f.source.p = plain;
      }
      if (f.narrow) {
        float *plain = arena_alloc(ctx_arena(c), f.source.n * 4);
        for (size_t k = 0; k < f.source.n; k++)
          plain[k] = f.narrow == ET_I8 ? (float)(int8_t)f.source.p[k] : (float)f.source.p[k];
        f.source.p = (const uint8_t *)plain;
      }
      if (f.pack && f.pack->fixed_point) {
        packing k = *f.pack;
        k.fixed_point = 0, fixed_there++;
        float *plain = arena_alloc(ctx_arena(c), (size_t)packing_bytes(&k));
        packing_write(&k, f.source.p, (pack_piece){0, packing_items(&k), 0, k.depth}, (uint8_t *)plain);
        for (int64_t item = 0; item < packing_items(&k); item++)
          fixed_point_write(f.pack, plain + item * k.depth * k.nr, own + item * packing_item(f.pack));
      } else if (f.pack)
        packing_write(f.pack, f.source.p, (pack_piece){0, packing_items(f.pack), 0, f.pack->depth}, own);
      else
        memcpy(own, f.source.p, bytes);
      assert_memory_equal(a + q->weight_offset, own, bytes);
      free(own);
    }
    assert_true(given_up <= all && (given_up > 0) == (n > 0));
    assert_int_equal(maps_there, made);
    assert_int_equal(narrow_there, kept);
    assert_int_equal(fixed_there, fixed);
    free(a), free(b), free(d);
    ok = true;
  }
  CTX_CATCH {}
  ctx_free(c);
  assert_true(ok);
}
static void programs(void **state) {
  static const char *const models[] = {"cnn_opset11",      "mlp_opset12",   "lstm_forward",
                                       "attention_causal", "quantize_pair", "external_data"};
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    for (int level = 0; level < 3; level += 2) one_model(models[i], (bytes){0}, level, "x86-64-v3", 0, 0, 0);
  char *s;
  size_t n;
  /* a window that becomes products: its constants, packed, are a map of what stands here */
  FILE *f = open_memstream(&s, &n);
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input x: f32[1, 36, 24, 24]\n  const w: f32[40, 36, 3, 3] = [");
  for (int i = 0; i < 40 * 36 * 9; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 7 + 1) % 11 - 5);
  fprintf(f, "]\n  y: f32[1, 40, 24, 24] = Conv(x, w) {pads = [1, 1, 1, 1]}\n  output y\n}\n");
  fclose(f);
  for (int level = 0; level < 3; level += 2)
    one_model("window", (bytes){(const uint8_t *)s, n}, level, "x86-64-v3", level ? 1 : 0, 0, 0);
  one_model("window of kept taps", (bytes){(const uint8_t *)s, n}, 2, "x86-64-v4", 1, 0, 0);
  free(s);
  f = open_memstream(&s, &n); /* whole numbers, packed and as they are */
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input a: f32[150, 150]\n  const s: f32[] = [1.0]\n "
             " const w: u8[150, 170] = [");
  for (int i = 0; i < 150 * 170; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 7 + 1) % 251);
  fprintf(f, "]\n  const v: i8[150, 170] = [");
  for (int i = 0; i < 150 * 170; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 7 + 1) % 256 - 128);
  fprintf(
      f, "]\n  b: f32[150, 170] = DequantizeLinear(w, s)\n  p: f32[150, "
         "170] = MatMul(a, b)\n  q: f32[150, 170] = Cast(v) {to = 1}\n  y: f32[150, 170] = Add(p, q)\n  output y\n}\n");
  fclose(f);
  for (int level = 0; level < 3; level += 2)
    one_model("bytes", (bytes){(const uint8_t *)s, n}, level, "x86-64-v3", 0, level ? 2 : 0, 0);
  free(s);
  /* constants for few rows, one of them made of another; one with a value that stands out */
  f = open_memstream(&s, &n);
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input x: f32[1, 64, 8, 8]\n  input a: f32[3, 130]\n  const w: f32[96, 64, "
             "3, 3] = [");
  for (int i = 0; i < 96 * 64 * 9; i++) fprintf(f, "%s%d.5", i ? ", " : "", (i * 7 + 1) % 11 - 5);
  for (int which = 0; which < 2; which++) {
    fprintf(f, "]\n  const %c: f32[130, 704] = [", 'u' + which);
    for (int i = 0; i < 130 * 704; i++)
      fprintf(f, "%s%d.25", i ? ", " : "", which && i == 7000 ? 50000 : (i * 7 + 1) % 19 - 9);
  }
  fprintf(f, "]\n  y: f32[1, 96, 8, 8] = Conv(x, w) {pads = [1, 1, 1, 1]}\n  z: f32[3, 704] = MatMul(a, u)\n  t: "
             "f32[3, 704] = MatMul(a, v)\n  output y\n  output z\n  output t\n}\n");
  fclose(f);
  for (int level = 0; level < 3; level += 2)
    one_model("few rows", (bytes){(const uint8_t *)s, n}, level, "x86-64-v3", level ? 1 : 0, 0, level ? 2 : 0);
  free(s);
  f = open_memstream(&s, &n); /* taps of which tiles make their factors lie side by side, in fixed point */
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input x: f32[1, 64, 8, 4]\n  const w: f32[250, 64, 3, 3] = [");
  for (int i = 0; i < 250 * 64 * 9; i++) fprintf(f, "%s%d.5", i ? ", " : "", (i * 7 + 1) % 11 - 5);
  fprintf(f, "]\n  y: f32[1, 250, 8, 4] = Conv(x, w) {pads = [1, 1, 1, 1]}\n  output y\n}\n");
  fclose(f);
  one_model("kept taps", (bytes){(const uint8_t *)s, n}, 2, "x86-64-v4", 1, 0, 1);
  free(s);
}

/* ---- constants in fewer bytes ---------------------------------------------------------------- */
static etype narrow_as(emodule *m, float *x, size_t n, float other) { /* x with `other` in the middle */
  float was = x[n / 2];
  x[n / 2] = other;
  float *copy = arena_dup(m->a, x, n * 4);
  x[n / 2] = was;
  tid t = expr_const_tensor(m, &(ndarray){.type = ET_F32, .rank = 1, .dims = {(int64_t)n}, .data = copy}, "x");
  expr_narrow(m, t);
  etype k = xt(m, t)->narrow.type;
  const ndarray *d = expr_data(m, t);
  assert_true(!xt(m, t)->narrow.type && d->bytes == n * 4);
  for (size_t i = 0; i < n; i++) {
    float want = i == n / 2 ? other : x[i];
    assert_memory_equal((const uint8_t *)d->data + 4 * i, &want, 4);
  }
  return k;
}
static void fewer_bytes(void **state) {
  enum { N = 20000 };
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    emodule *m = expr_module(c);
    float *x = arena_array(ctx_arena(c), N, 4);
    for (int i = 0; i < N; i++) x[i] = (float)(i % 128);
    assert_int_equal(narrow_as(m, x, N, 127), ET_I8);
    assert_int_equal(narrow_as(m, x, N, -128), ET_I8);
    assert_int_equal(narrow_as(m, x, N, 255), ET_U8);
    assert_int_equal(narrow_as(m, x, 1000, 1), 0); /* not worth it */
    static const float others[] = {-129, 256, -0.0f, 0.5f, __builtin_nanf(""), __builtin_inff(), 1e30f};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_int_equal(narrow_as(m, x, N, others[i]), 0);
    x[3] = -1;
    assert_int_equal(narrow_as(m, x, N, 128), 0);
    for (int i = 0; i < N; i++) x[i] = 5;
    assert_int_equal(narrow_as(m, x, N, 5), 0); /* one number */
    assert_int_equal(narrow_as(m, x, N, 6), ET_I8);
  }
  CTX_CATCH { fail(); }
  ctx_free(c);
}

/* ---- equal constants ------------------------------------------------------------------------- */
typedef struct written {
  char *s;
  size_t n;
} written;
static void matrix(FILE *f, const char *name, int seed) {
  fprintf(f, "  const %s: f32[40, 40] = [", name);
  for (int i = 0; i < 1600; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 7 + seed) % 5 - 2);
  fprintf(f, "]\n");
}
static written model(int seed) { /* The weights of the second matrix. */
  written t;
  FILE *f = open_memstream(&t.s, &t.n);
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 40]\n");
  matrix(f, "w", 1), matrix(f, "v", seed);
  fprintf(f,
          "  a: f32[N, 40] = MatMul(x, w)\n  b: f32[N, 40] = Relu(a)\n  y: f32[N, 40] = MatMul(b, v)\n  output y\n}\n");
  fclose(f);
  return t;
}
static size_t weights_of(int seed, const char *dim, float *y) {
  written t = model(seed);
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_options o;
  ek_report report;
  float x[80];
  const char *dims[] = {dim, NULL};
  ek_options_init(&o);
  o.dims = dims;
  for (int i = 0; i < 80; i++) x[i] = (float)(i % 7);
  assert_int_equal(ek_load_memory(s, t.s, t.n, "equal", &m), EK_OK);
  assert_int_equal(ek_compile(m, &o, &code), EK_OK);
  ek_module_report(code, &report);
  assert_int_equal(ek_run_create(code, 1, &r), EK_OK);
  assert_int_equal(ek_run_shape(r, 0, (int64_t[]){2, 40}, 2), EK_OK);
  assert_int_equal(ek_run_bind_input(r, 0, x), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  memcpy(y, ek_run_output_data(r, 0), 80 * sizeof *y);
  assert_int_equal(ek_check(m, &o), EK_OK);
  ek_session_destroy(s);
  free(t.s);
  return (size_t)report.weight_bytes;
}
static void equal_constants(void **state) {
  float one[80], two[80], variants[80];
  (void)state;
  size_t same = weights_of(1, NULL, one), apart = weights_of(2, NULL, two), both = weights_of(2, "N=1:2:64", variants),
         fixed = weights_of(2, "N=2", one);
  assert_int_equal(apart, 2 * same);
  assert_memory_equal(two, one, sizeof two);
  assert_true(both <= apart + fixed); /* a variant may be packed otherwise */
  for (int i = 0; i < 80; i++) assert_true(two[i] == variants[i]);
}
/* Who makes a constant need not say how many bytes it has: two of one size are not equal for that. */
static void sizes_of_constants(void **state) {
  (void)state;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    static const float x[6] = {1};
    emodule *m = expr_module(c);
    tid t = expr_const_tensor(m, &(ndarray){.type = ET_F32, .rank = 2, .dims = {2, 3}, .data = x}, "x");
    assert_int_equal(xt(m, t)->data.bytes, sizeof x);
  }
  CTX_CATCH { fail(); }
  ctx_free(c);
}
/* Room that a thread touches meanwhile is a piece like any other: all of it can be written, what is not wanted or
 * too small is given back. */
static void no_alloc(void *user, void *p, size_t bytes) { (void)user, (void)p, (void)bytes; }
static void *count_alloc(void *user, size_t bytes, size_t align) {
  (void)bytes, (void)align;
  ++*(int *)user;
  return NULL;
}
static void room_ahead(void **state) {
  (void)state;
  const size_t mb = 1 << 20;
  int asked = 0;
  memory plain = {0}, own = {.alloc = count_alloc, .free = no_alloc, .user = &asked};
  assert_null(mem_ahead(&plain, mb, 4 * mb)); /* not worth a thread */
  assert_null(mem_ahead(&own, 64 * mb, 64 * mb));
  assert_int_equal(asked, 0); /* the caller's allocator gives what is needed, nothing else */
  for (int wait = 0; wait < 2; wait++)
    for (size_t want = 0; want <= 48 * mb; want += 12 * mb) {
      ahead *h = mem_ahead(&plain, 12 * mb, 36 * mb);
      assert_non_null(h);
      mem_ahead_more(h, 24 * mb);
      mem_ahead_more(h, 64 * mb); /* more than there is room for */
      if (wait) nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
      uint8_t *p = mem_ahead_end(h, want);
      if (!want || want > 36 * mb) {
        assert_null(p);
        continue;
      }
      assert_int_equal((uintptr_t)p % 64, 0);
      memset(p, 1, want);
      assert_int_equal(p[0] + p[want - 1], 2);
      mem_put(&plain, p);
    }
  mem_ahead_more(NULL, 10);
  assert_null(mem_ahead_end(NULL, 10));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_bits_packed), cmocka_unit_test(packings),
                                     cmocka_unit_test(fixed_points),    cmocka_unit_test(maps),
                                     cmocka_unit_test(programs),        cmocka_unit_test(fewer_bytes),
                                     cmocka_unit_test(equal_constants), cmocka_unit_test(sizes_of_constants),
                                     cmocka_unit_test(room_ahead)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
