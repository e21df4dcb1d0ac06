/* What a schedule is refused for. Each message in the source that refuses a directive is met by a row of the table: the
 * list of messages is read from the source. What is refused names its line and column. */
#include "driver/pipeline.h"
#include "pass_check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS EK_SOURCE_DIR "/tests/models/"
/* Formulas; a model's name stands for the model. `@`: numbers for the shape before it. */
#define PRODUCT                                                                                                        \
  "tensor x: f32[64, 32] input \"x\"\ntensor w: f32[32, 96] const @\n"                                                 \
  "stage y: f32[a<64, c<96] out = sum[k<32] x[a, k] * w[k, c]\noutput y \"y\"\n"
#define MADE                                                                                                           \
  "tensor x: f32[64, 32] input \"x\"\ntensor w: f32[32, 96] input \"w\"\n"                                             \
  "stage y: f32[a<64, c<96] out = sum[k<32] x[a, k] * w[k, c]\noutput y \"y\"\n"
#define MADE_ACROSS                                                                                                    \
  "tensor x: f32[20, 24] input \"x\"\ntensor w: f32[60, 24] input \"w\"\n"                                             \
  "stage y: f32[a<20, c<60] out = sum[k<24] x[a, k] * w[c, k]\noutput y \"y\"\n"
#define BATCH                                                                                                          \
  "tensor x: f32[4, 64, 32] input \"x\"\ntensor w: f32[4, 32, 96] input \"w\"\n"                                       \
  "stage y: f32[n<4, a<64, c<96] out = sum[k<32] x[n, a, k] * w[n, k, c]\noutput y \"y\"\n"
#define WINDOW                                                                                                         \
  "tensor x: f32[70, 66] input \"x\"\ntensor w: f32[3, 5, 96] const @\n"                                               \
  "stage y: f32[a<64, c<96] out = sum[p<3, k<5] x[a + p, k] * w[p, k, c]\noutput y \"y\"\n"
#define FEW                                                                                                            \
  "tensor x: f32[64, 64] input \"x\"\ntensor w: f32[64, 3] const @\n"                                                  \
  "stage y: f32[a<64, c<3] out = sum[k<64] x[a, k] * w[k, c]\noutput y \"y\"\n"
#define ADD                                                                                                            \
  "tensor x: f32[64, 96] input \"x\"\ntensor z: f32[96, 64] input \"z\"\n"                                             \
  "stage y: f32[a<64, c<96] out = x[a, c] + z[c, a]\noutput y \"y\"\n"
#define PLACE                                                                                                          \
  "tensor x: f32[8, 8, 96] input \"x\"\n"                                                                              \
  "stage y: i64[c<96] out = argmax[i<8, j<8 payload #i] x[i, j, c]\noutput y \"y\"\n"
#define SUMS                                                                                                           \
  "tensor x: f32[40, 64] input \"x\"\n"                                                                                \
  "stage m: f32[a<40] = max[k<64] x[a, k]\n"                                                                           \
  "stage e: f32[a1<40, c<64] = exp(x[a1, c] - m[a1])\n"                                                                \
  "stage s: f32[a2<40] = sum[k2<64] e[a2, k2]\n"                                                                       \
  "stage y: f32[a3<40, c3<64] out = e[a3, c3] / s[a3]\noutput y \"y\"\n"
#define ROLLS                                                                                                          \
  "tensor x: f32[2, 66, 50, 6] input \"x\"\ntensor a: f32[6, 96] const @\ntensor w: f32[3, 3, 96] const @\n"           \
  "stage e: f32[n<2, h<65, o<50, c<96] = sum[k<6] x[n, h, o, k] * a[k, c]\n"                                           \
  "stage y: f32[n2<2, h2<33, o2<25, c2<96] out = sum[i<3, j<3] (load e[n2, 2*h2 + i - 1, 2*o2 + j - 1, c2] else 0.0) " \
  "* w[i, j, c2]\noutput y \"y\"\n"
#define STATE                                                                                                          \
  "tensor x: f32[8, 12] input \"x\"\ntensor s: f32[8, 12] input \"s\"\n"                                               \
  "stage v: f32[a<8, b<12] out = x[a, b] - s[a, b]\nstage y: f32[c<8] out = sum[k<12] s[c, k]\n"                       \
  "output y \"y\"\noutput v \"v\" state s\n"
#define FOLD                                                                                                           \
  "tensor x: f32[4, 4, 32] input \"x\"\ntensor w: f32[32, 8] const @\n"                                                \
  "stage y: f32[b<4, r<4, c<8] out = sum[k<32] x[r, b, k] * w[k, c]\noutput y \"y\"\n"
#define FAR                                                                                                            \
  "tensor x: f32[8, 64] input \"x\"\ntensor w: f32[64, 32] const @\n"                                                  \
  "stage v: f32[a<8, c<32] = sum[k<64] x[a, k] * w[k, c]\n"                                                            \
  "stage y: f32[a1<300, c1<32] out = sum[j<3] (load v[a1 - 100 + j, c1] else 0.0)\noutput y \"y\"\n"
#define STEPS                                                                                                          \
  "recurrence s1 d<6\ntensor t: i64[6, 9] input \"t\"\ntensor i: i64[13] input \"i\"\n"                                \
  "stage k: i64 [d, a<13] recurrence s1 = t[d, {(load k[d - 1, a] else i[a])}]\n"                                      \
  "stage y: i64[b<13] out = k[5, b]\noutput y \"y\"\n"
#define PARTS                                                                                                          \
  "tensor x: f32[3, 64, 32] input \"x\"\ntensor w: f32[3, 32, 96] const @\n"                                           \
  "stage y: f32[a<64, c<96] out = sum[p<3, k<32] x[p, a, k] * w[p, k, c]\noutput y \"y\"\n"
#define MANY                                                                                                           \
  "tensor x: f32[5, 4, 3, 4, 64] input \"x\"\n"                                                                        \
  "stage m: f32[a<5, b<4, d<3, e<4] = max[k<64] x[a, b, d, e, k]\n"                                                    \
  "stage y: f32[a1<5, b1<4, d1<3, e1<4, c<64] out = exp(x[a1, b1, d1, e1, c] - m[a1, b1, d1, e1])\noutput y \"y\"\n"
#define NARROW                                                                                                         \
  "tensor x: bf16[64, 32] input \"x\"\ntensor w: bf16[32, 96] const @\n"                                               \
  "stage y: f32[a<64, c<96] out = sum[k<32] f32(x[a, k]) * f32(w[k, c])\noutput y \"y\"\n"
#define K0 "schedules 1\nkernel k0 {\n"
#define NEST K0 "  nest y {\n    "
#define LANES_BY_DATA                                                                                                  \
  "tensor x: f32[8, 4, 96] input \"x\"\ntensor i: i64[96] input \"i\"\n"                                               \
  "stage y: f32[a<8, c<96] out = x[a, {i[c]}, c]\noutput y \"y\"\n"
typedef struct row {
  const char *formulas, *target, *schedule, *error;
} row;
static const row rows[] = {
    {"float64_net", "x86-64-v3", "", "given:1:1: schedule: expected the version"},
    {"float64_net", "x86-64-v3", "schedules 2\n", "given:1:11: schedule: version 2 is not known"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel {}\n", "given:2:1: schedule: expected which kernel"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n  tile 2 2\n}\n",
     "given:3:3: schedule: tile belongs into a nest"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n  pad none\n}\n",
     "given:3:3: schedule: pad belongs to a tensor"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n  thread always\n}\n",
     "given:3:3: schedule: there is no primitive thread; did you mean threads?"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n  threads always always\n}\n",
     "given:3:3: schedule: threads: expected always, never or enough"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n", "given:3:1: schedule: the kernel is not closed"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel @123 {}\n", "given:2:12: schedule: expected a hexadecimal digit"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k2 {\n  nest \"a\n",
     "given:3:10: schedule: the quotes are not closed"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k999 {\n}\n",
     "given:2:1: no kernel of the model has this number"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel @0000000000000001 {\n}\n",
     "given:2:1: no kernel of the model has this hash"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    lanes n.2 4\n    rows n.2\n  }\n}\n",
     "given:5:5: kernel k0: rows: the rows of a tile cannot run along n.2"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    order n n.2\n  }\n}\n",
     "given:4:5: kernel k0: order: m is missing"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    order (m n)%4 n.2\n  }\n}\n",
     "given:4:5: kernel k0: order: (m n)%4: a part stands alone"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    order (m (n n.2)/4)\n  }\n}\n",
     "given:4:5: kernel k0: order: (n n.2)/4: a part stands alone"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    tile 5 1\n    strip 4\n  }\n}\n",
     "given:5:5: kernel k0: strip: the nest has no panels inside its rows"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  chunks rows 4\n  nest Gemm_0.P {\n    tile 3 1\n  }\n}\n",
     "given:3:3: kernel k0: chunks: 4 rows: expected a multiple of the tile's 3"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    pack weight_0 fixed\n  }\n}\n",
     "given:4:5: kernel k0: pack: weight_0 is packed as it is here"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    reduce q\n  }\n}\n",
     "given:4:5: kernel k0: reduce: there is no variable q here; there are: k"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    accumulators 3\n  }\n}\n",
     "given:4:5: kernel k0: accumulators: 3: expected a number from 1 to 2"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    accumulators 2\n  }\n}\n",
     "given:4:5: kernel k0: accumulators: expected 1, or 2 and the most sums"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    version N\n  }\n}\n",
     "given:4:5: kernel k0: version: N: no quotient of the nest is 0"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest Gemm_0.P {\n    edge own\n  }\n}\n",
     "given:4:5: kernel k0: edge: it does not apply to this nest"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  split n 4\n}\n",
     "given:3:3: kernel k0: split: it does not apply to this kernel"},
    {"float64_net", "x86-64-v3", "schedules 1\nkernel k0 {\n  nest nothing {\n  }\n}\n",
     "given:3:3: kernel k0 has no nest nothing"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor a {\n  tile 1 1\n}\n",
     "given:3:3: schedule: tile belongs into a nest"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor a {\n  pad none\n  pad none\n}\n",
     "given:4:3: schedule: pad is stated twice"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor a {\n}\ntensor a {\n}\n",
     "given:4:1: schedule: tensor a is there twice"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor a {\n", "given:3:1: schedule: tensor a is not closed"},
    {"float64_net", "x86-64-v3", "schedules 1\nnest a {\n}\n",
     "given:2:1: schedule: expected `tensor` or `kernel`, found `nest`"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.X {\n}\n",
     "given:2:1: there is no tensor Tanh_0.X whose storage is chosen; did you mean Tanh_0.Y?"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  layout i0\n}\n",
     "given:3:3: tensor Tanh_0.Y: layout: (i1 i1) is missing"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  layout i0 i1\n}\n",
     "given:3:3: tensor Tanh_0.Y: layout: there is no axis i1; there are: i0, (i1 i1)"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  layout i0 i0\n}\n",
     "given:3:3: tensor Tanh_0.Y: layout: i0 is there twice"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  halo i0 1 1\n}\n",
     "given:3:3: tensor Tanh_0.Y: halo: nothing is read outside of the tensor"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  pad (i1 i1) 8\n}\n",
     "given:3:3: tensor Tanh_0.Y: pad: (i1 i1) is the innermost axis"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  pad i0 99999\n}\n",
     "given:3:3: tensor Tanh_0.Y: pad: 99999: expected a number from 0 to 512"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Tanh_0.Y {\n  in Gemm_1.Y\n}\n",
     "given:3:3: tensor Tanh_0.Y: in: the tensor is no part of another one"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Reshape_0.Y {\n  halo r.2 2 1\n}\n",
     "given:3:3: tensor Reshape_0.Y: halo: 2: expected a number from 0 to 1"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Reshape_0.Y {\n  halo r.2 1\n}\n",
     "given:3:3: tensor Reshape_0.Y: halo: expected a number, found the end of the line"},
    {"float64_net", "x86-64-v3", "schedules 1\ntensor Reshape_0.Y {\n  halo r.2 1 1 fill 1\n}\n",
     "given:3:3: tensor Reshape_0.Y: halo: nothing is read outside of the tensor that counts as 1"},
    {"unet", "x86-64-v3", "schedules 1\ntensor Relu_0.Y {\n  layout axis0 c i i.2\n}\n",
     "given:3:3: tensor Relu_0.Y: layout: it does not apply to this tensor"},
    {"unet", "x86-64-v3", "schedules 1\ntensor Relu_0.Y {\n  in Concat_0.Y\n}\n",
     "given:3:3: tensor Relu_0.Y: in: Concat_0.Y: the tensor is a part of Concat_1.Y"},
    {"unet", "x86-64-v3", "schedules 1\ntensor Relu_0.Y {\n  in Concat_1.Y at i1 4\n}\n",
     "given:3:3: tensor Relu_0.Y: in: the formula puts it in Concat_1.Y at i1 8"},

    {"pixel_shuffle", "x86-64-v3", "schedules 1\nkernel k2 {\n  split tile 8\n}\n",
     "given:3:3: kernel k2: split: nest gather.1 has fewer values of tile than others"},
    {MADE_ACROSS, "x86-64", NEST "tile 4 3\n    block k 4 panels 5 streamed\n}\n}\n",
     "given:5:5: kernel k0: block: the nest is no product whose panels"},
    {PRODUCT, "zen4", NEST "instruction vfoo\n}\n}\n",
     "given:4:5: kernel k0: instruction: the target has no instruction vfoo"},
    {PRODUCT, "zen4", NEST "instruction vdpbf16ps\n}\n}\n",
     "given:4:5: kernel k0: instruction: vdpbf16ps does not compute this sum with 16 lanes"},
    {NARROW, "zen4", NEST "instruction vdpbf16ps\n    pack none\n}\n}\n",
     "given:4:5: kernel k0: instruction: vdpbf16ps: an operand along the lanes is not packed"},
    {PRODUCT, "x86-64-v3", NEST "lanes c\n}\n}\n", "given:4:5: kernel k0: lanes: expected the number of lanes after c"},
    {PRODUCT, "x86-64-v3", NEST "lanes c 4\n}\n}\n",
     "given:4:5: kernel k0: lanes: 4 lanes: a vector of this nest has 8 lanes"},
    {PRODUCT, "zen4", NEST "lanes c 4\n}\n}\n",
     "given:4:5: kernel k0: lanes: 4 lanes: a vector of this nest has 16 lanes, or half"},
    {PLACE, "x86-64-v3", NEST "lanes j 8\n}\n}\n",
     "given:4:5: kernel k0: lanes: j cannot run along the lanes: its sum has"},
    {PRODUCT, "x86-64-v3", NEST "rows a c\n}\n}\n",
     "given:4:5: kernel k0: rows: the rows of a tile cannot have several values of c"},
    {PRODUCT, "x86-64-v3", NEST "rows (a c)\n}\n}\n", "given:4:5: kernel k0: rows: (a c) cannot be the rows of a tile"},
    {PRODUCT, "x86-64-v3", NEST "rows none\n    tile 2 1\n}\n}\n",
     "given:5:5: kernel k0: tile: 2 rows: the nest has no rows"},
    {PRODUCT, "x86-64-v3", NEST "lanes none\n    tile 1 2\n}\n}\n",
     "given:5:5: kernel k0: tile: 2 vectors: the nest has no lanes"},
    {PRODUCT, "x86-64-v3", NEST "tile 64 64\n}\n}\n",
     "given:4:5: kernel k0: tile: 4096 registers: a tile has at most 256"},
    {PRODUCT, "x86-64-v3", NEST "tile x 1\n}\n}\n", "given:4:5: kernel k0: tile: expected a number, found x"},
    {PRODUCT, "x86-64-v3", NEST "tile 0 1\n}\n}\n", "given:4:5: kernel k0: tile: 0: expected a number from 1 to 64"},
    {FEW, "x86-64-v3", NEST "tile 2 2\n}\n}\n",
     "given:4:5: kernel k0: tile: 2 vectors: a tile of rows has one where the lanes"},
    {"many_rows", "x86-64-v3", "schedules 1\nkernel k1 {\n  nest r {\n    tile 10 1\n}\n}\n",
     "given:4:5: kernel k1: tile: 10 rows: at most 9 of collapsed variables"},
    {FAR, "x86-64-v3", "schedules 1\ntensor v {\n  halo a 100 100\n}\n",
     "given:3:3: tensor v: halo: the tensor would be many times as large"},
    {STEPS, "x86-64-v3", "schedules 1\ntensor k {\n  pad d 4\n}\n",
     "given:3:3: tensor k: pad: only one step of the tensor is in memory"},
    {STATE, "x86-64-v3", "schedules 1\ntensor v {\n  pad a 8\n}\n",
     "given:3:3: tensor v: pad: the tensor is a state: it has memory for its elements only"},
    {STATE, "x86-64-v3", "schedules 1\ntensor v {\n  halo a 1 1 fill 0\n}\n",
     "given:3:3: tensor v: halo: the tensor is a state: it has memory for its elements only"},
    {STATE, "x86-64-v3", "schedules 1\ntensor v {\n  layout a\n}\n", "given:3:3: tensor v: layout: b is missing"},
    {"crnn", "x86-64-v3", "schedules 1\ntensor GRU_0.GX {\n  pad t 8\n}\n",
     "given:3:3: tensor GRU_0.GX: pad: a variable counts t together with what is inside of it"},
    {"unet", "x86-64-v3", "schedules 1\ntensor piece {\n  in Relu_1.Y at i2 1\n}\n",
     "given:3:3: tensor piece: in: the formula puts it in Relu_1.Y, at its beginning"},
    {FOLD, "x86-64-v3", NEST "tile 5 1\n}\n}\n",
     "given:4:5: kernel k0: tile: 5 rows: expected whole multiples of the 4 values of "},
    {ADD, "x86-64-v3", NEST "rows none\n    panels inside\n}\n}\n",
     "given:5:5: kernel k0: panels: the nest has no panels"},
    {PRODUCT, "x86-64-v3", NEST "panels around\n}\n}\n",
     "given:4:5: kernel k0: panels: expected outside or inside, found around"},
    {PRODUCT, "x86-64-v3", K0 "  chunks points a\n}\n",
     "given:3:3: kernel k0: chunks: the nest has no loops outside of its tiles"},
    {BATCH, "x86-64-v3", K0 "  chunks points a\n}\n",
     "given:3:3: kernel k0: chunks: a are not the first loops outside of the tiles; these are n"},
    {ADD, "x86-64-v3", K0 "  chunks rows 4\n  nest y {\n    rows none\n}\n}\n",
     "given:3:3: kernel k0: chunks: the nest has no rows that can be divided"},
    {PRODUCT, "x86-64-v3", K0 "  chunks lanes 8\n  nest y {\n    lanes none\n}\n}\n",
     "given:3:3: kernel k0: chunks: the nest has no lanes that can be divided"},
    {PRODUCT, "x86-64-v3", K0 "  chunks lanes 12\n}\n",
     "given:3:3: kernel k0: chunks: 12 lanes: expected a multiple of the tile's "},
    {PRODUCT, "x86-64-v3", K0 "  chunks blocks\n}\n",
     "given:3:3: kernel k0: chunks: the nest has no blocks that stay in a cache"},
    {PRODUCT, "x86-64-v3", K0 "  chunks whole\n  nest y {\n    tile 4 2\n    block k 16 panels 2 rows 8\n}\n}\n",
     "given:3:3: kernel k0: chunks: chunks are the blocks that stay in a cache"},
    {PRODUCT, "x86-64-v3", K0 "  chunks rows\n}\n",
     "given:3:3: kernel k0: chunks: expected whole, blocks, points VARIABLES, rows N, lanes N"},
    {BATCH, "x86-64-v3", K0 "  chunks rows 4 lanes 16\n  nest y {\n    tile 4 2\n}\n}\n",
     "given:3:3: kernel k0: chunks: blocks of rows and lanes need a nest without"},
    {PRODUCT, "x86-64-v3", NEST "pack x\n}\n}\n",
     "given:4:5: kernel k0: pack: x is no operand that can be packed along these lanes"},
    {WINDOW, "x86-64-v3", NEST "reduce p\n}\n}\n", "given:4:5: kernel k0: reduce: k is missing"},
    {WINDOW, "x86-64-v3", NEST "reduce p p\n}\n}\n", "given:4:5: kernel k0: reduce: p is there twice"},
    {WINDOW, "x86-64-v3", NEST "reduce p k\n    unroll p\n}\n}\n",
     "given:5:5: kernel k0: unroll: p is not the innermost variable of the sum"},
    {WINDOW, "x86-64-v3", NEST "rows none\n    unroll k\n}\n}\n",
     "given:5:5: kernel k0: unroll: only tiles with rows have their steps"},
    {PRODUCT, "x86-64-v3", NEST "unroll k\n}\n}\n", "given:4:5: kernel k0: unroll: k has more than 16 steps"},
    {PLACE, "x86-64-v3", NEST "reduce j i\n}\n}\n",
     "given:4:5: kernel k0: reduce: of equal values the first one counts"},
    {PRODUCT, "x86-64-v3", K0 "  threads maybe\n}\n",
     "given:3:3: kernel k0: threads: expected always, never or enough"},
    {PRODUCT, "x86-64-v3", K0 "  threads enough\n}\n", "given:3:3: kernel k0: threads: no open size decides it here"},
    {PRODUCT, "x86-64-v3", NEST "tile 4 2\n    panels inside\n    strip 5\n}\n}\n",
     "given:6:5: kernel k0: strip: 5 rows: expected a multiple of the tile's 4"},
    {ADD, "x86-64-v3", NEST "tile 1 1\n    block c 4 panels 1 rows 1\n}\n}\n",
     "given:5:5: kernel k0: block: the nest is no product whose panels"},
    {PRODUCT, "x86-64-v3", NEST "block k\n}\n}\n", "given:4:5: kernel k0: block: expected VARIABLE N panels N rows N"},
    {PRODUCT, "x86-64-v3", NEST "tile 4 2\n    block k 16 panels 2 rows 5\n}\n}\n",
     "given:5:5: kernel k0: block: expected rows, and a multiple of the tile's 4"},
    {PARTS, "x86-64-v3", NEST "tile 4 2\n    block k 4 panels 2 rows 4\n}\n}\n",
     "given:5:5: kernel k0: block: k is not the outermost variable of the sum"},
    {MADE, "x86-64-v3", NEST "tile 4 2\n    block k 5 panels 2 rows 4\n}\n}\n",
     "given:5:5: kernel k0: block: 5: expected a multiple of 8 steps"},
    {MADE, "x86-64-v3", NEST "tile 4 2\n    block k 8 panels 1 streamed\n}\n}\n",
     "given:5:5: kernel k0: block: expected all 6 panels"},
    {MADE, "x86-64-v3", NEST "tile 4 2\n    block k 6 panels 6 streamed\n}\n}\n",
     "given:5:5: kernel k0: block: 6: expected a multiple of 4"},
    {PRODUCT, "x86-64-v3", NEST "order ()\n}\n}\n", "given:4:5: kernel k0: order: (): a list of no variables"},
    {PRODUCT, "x86-64-v3", NEST "order a/2 (a%2 c)/2\n}\n}\n",
     "given:4:5: kernel k0: order: (a%2 c)/2: one variable can be split"},
    {PRODUCT, "x86-64-v3", NEST "order a/2 c/2\n}\n}\n", "given:4:5: kernel k0: order: c/2: one variable can be split"},
    {BATCH, "x86-64-v3", NEST "order a/2 n (a%2 c)\n}\n}\n",
     "given:4:5: kernel k0: order: (a%2 c): expected a/2 before it"},
    {PRODUCT, "x86-64-v3", NEST "order c a/2\n}\n}\n", "given:4:5: kernel k0: order: expected (a%2 ..) after a/2"},
    {PRODUCT, "x86-64-v3", NEST "order a/2 (a%2 c)\n}\n}\n",
     "given:4:5: kernel k0: order: a: groups of 2 do not fill vectors of 8 lanes"},
    {PRODUCT, "x86-64-v3", NEST "order (c a)\n}\n}\n", "given:4:5: kernel k0: order: c and a cannot be one loop"},
    {PRODUCT, "x86-64-v3", NEST "buffer panel\n}\n}\n",
     "given:4:5: kernel k0: buffer: the sum has no constants of few bits along its lanes that rows share"},
    {PRODUCT, "x86-64-v3", NEST "buffer rows panel\n}\n}\n",
     "given:4:5: kernel k0: buffer: expected panel, rows, panel rows, or none"},
    {PRODUCT, "x86-64-v3", NEST "buffer rows\n}\n}\n",
     "given:4:5: kernel k0: buffer: the rows of this sum are not computed values"},
    {ADD, "x86-64-v3", NEST "reduce c\n}\n}\n", "given:4:5: kernel k0: reduce: it does not apply to this nest"},
    {PRODUCT, "x86-64-v3", NEST "prefetch on\n}\n}\n",
     "given:4:5: kernel k0: prefetch: expected panel OPERAND rows N, rows TENSOR sums N, places TENSOR, block, or "
     "none"},
    {PRODUCT, "x86-64-v3", NEST "prefetch places x sums 4\n}\n}\n",
     "given:4:5: kernel k0: prefetch: expected panel OPERAND"},
    {PRODUCT, "x86-64-v3", NEST "prefetch panel x\n}\n}\n",
     "given:4:5: kernel k0: prefetch: no sum reads x in panels, of which the next one can be fetched"},
    {PRODUCT, "x86-64-v3", NEST "pack none\n    prefetch panel w\n}\n}\n",
     "given:5:5: kernel k0: prefetch: no sum reads w in panels"},
    {PRODUCT, "x86-64-v3", NEST "prefetch rows w\n}\n}\n",
     "given:4:5: kernel k0: prefetch: no sum runs during which rows of w can be fetched"},
    {PRODUCT, "x86-64-v3", NEST "prefetch places x\n}\n}\n",
     "given:4:5: kernel k0: prefetch: the loop around the lanes does not read x at places that it moves on"},
    {LANES_BY_DATA, "x86-64-v3", NEST "order a c\n    lanes c 8\n    rows none\n    prefetch places x\n}\n}\n",
     "given:7:5: kernel k0: prefetch: the loop around the lanes does not read x at places"},
    {PRODUCT, "x86-64-v3", NEST "prefetch block\n}\n}\n",
     "given:4:5: kernel k0: prefetch: no blocks of the nest stay in a cache"},
    {PRODUCT, "x86-64-v3", NEST "prefetch panel w\n    prefetch panel w rows 5\n}\n}\n",
     "given:5:5: kernel k0: prefetch: w is fetched twice"},
    {PRODUCT, "x86-64-v3", NEST "prefetch panel w rows 999\n}\n}\n",
     "given:4:5: kernel k0: prefetch: 999: expected a number from 1 to 256"},
    {SUMS, "x86-64-v3", K0 "  nest e {\n    block c 4 panels 1 rows 4\n}\n}\n",
     "given:4:5: kernel k0: block: only a kernel of one nest has blocks"},
    {SUMS, "x86-64-v3", K0 "  nest e {\n    strip 4\n}\n}\n",
     "given:4:5: kernel k0: strip: only a kernel of one nest has strips"},
    {SUMS, "x86-64-v3", K0 "  split a\n}\n", "given:3:3: kernel k0: split: expected VARIABLE N, or none"},
    {SUMS, "x86-64-v3", K0 "  split a 4\n  split a 2\n}\n", "given:4:3: kernel k0: split: a is split twice"},
    {SUMS, "x86-64-v3", K0 "  roll a 3\n}\n", "given:3:3: kernel k0: roll: no window slides along a by 3 rows"},
    {SUMS, "x86-64-v3", K0 "  nest e {\n    order (c a)\n}\n}\n",
     "given:4:5: kernel k0: order: the loops of a kernel of several nests"},
    {MANY, "x86-64-v3", K0 "  split a 4\n  split b 2\n  split d 2\n  split e 2\n}\n",
     "given:6:3: kernel k0: split: at most 3 variables are split"},
    {"scan_lstm", "x86-64-v3", "schedules 1\nkernel k6 {\n  split n.2 3\n}\n",
     "given:3:3: kernel k6: split: 3: expected a multiple of the "},
    {ROLLS, "x86-64-v3", K0 "  nest e {\n    rows h\n    accumulators 2 6\n  }\n}\n",
     "given:5:5: kernel k0: accumulators: the number of threads decides where tiles of rows begin, and reproducible "
     "bits "
     "are asked for"},
    {ROLLS, "x86-64-v3", K0 "  split none\n  roll h2 6\n}\n",
     "given:4:3: kernel k0: roll: a kernel that rolls is not split"},
    {PRODUCT, "x86-64-v3", K0 "  nest y", "given:3:9: schedule: expected `{`, found the end of the text"},
    {PRODUCT, "x86-64-v3", K0 "  threads never # none\n  chunks (a\n}\n",
     "given:4:12: schedule: expected a word, found the end of the line"},
    {PRODUCT, "x86-64-v3", K0 "  chunks (a {\n}\n", "given:3:13: schedule: expected a word, found `{`"},
    {PRODUCT, "x86-64-v3", K0 "  nest \"a\\x00\" {\n", "given:3:14: schedule: a name has no character \\x00"},
    {PRODUCT, "x86-64-v3", NEST "order (((((((((a)))))))))\n}\n}\n",
     "given:4:20: schedule: lists in more than 8 parentheses"},
    {PRODUCT, "x86-64-v3", NEST "tile 1 1\n", "given:5:1: schedule: nest y is not closed"},
    {PRODUCT, "x86-64-v3", "schedules 1\nkernel kx {\n}\n", "given:2:8: schedule: expected a kernel as k3; found `x`"},
    {PRODUCT, "x86-64-v3", "schedules 1\nkernel @0000000000000001:x {\n}\n",
     "given:2:8: schedule: expected which one of the kernels with this hash, from 1; found `x`"},
    {PRODUCT, "x86-64-v3", "schedules 1\nkernel @0000000000000001 @0000000000000001 {\n}\n",
     "given:2:26: schedule: a kernel has one hash"},
    {PRODUCT, "x86-64-v3", "schedules 1\nkernel y {\n}\n", "given:2:8: schedule: expected a kernel as k3, or the hash"},
    {PRODUCT, "x86-64-v3", NEST "tile 1 1\n  }\n  nest y {\n  }\n}\n", "given:6:3: schedule: nest y is there twice"},
    {PRODUCT, "x86-64-v3", NEST "tile 1 1\n    tile 1 1\n  }\n}\n", "given:5:5: schedule: tile is stated twice"},
    {PRODUCT, "x86-64-v3", K0 "  threads never\n  threads never\n}\n", "given:4:3: schedule: threads is stated twice"},
};

/* ---- one row ----------------------------------------------------------------------------------- */
/* The first error as FILE:LINE:COLUMN: TEXT; NULL: the schedule is followed. */
static const char *error_of(const row *r, arena *to) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    schedules *const given = schedules_parse(c, "given", (bytes){(const uint8_t *)r->schedule, strlen(r->schedule)});
    if (!strchr(r->formulas, '\n')) {
      const char *path = arena_fmt(ctx_arena(c), MODELS "%s.onnx", r->formulas);
      pipeline *p = pipe_new(c, &(pipe_opts){.level = 3,
                                             .compile_threads = 1,
                                             .target = r->target,
                                             .schedules = r->schedule,
                                             .schedules_name = "given"});
      if (pipe_load(p, &(source){.path = path, .name = path}) && pipe_lower(p, NULL) && pipe_optimise(p))
        pipe_program(p);
    } else {
      emodule *m = expr_parse(c, pc_constants(ctx_arena(c), r->formulas), "formulas");
      if (!m) ctx_unwind(c);
      expr_optimise(m, 3, &(expr_observer){.skip = "widen"});
      const schedule_opts o = {.level = 3, .record = true, .reproducible = true, .stated = given};
      const splan *s = schedule_module(m, target_get(c, r->target), o);
      if (getenv("EK_SHOW"))
        for (uint32_t i = 0; i < s->launches.n; i++) {
          sbuf b = sbuf_new(ctx_arena(c));
          if (s->launches.v[i].record) record_print(s->launches.v[i].record, &b);
          if (b.s) printf("%s", b.s);
        }
    }
  }
  CTX_CATCH {}
  const char *error = NULL;
  for (const diag *d = diag_first(c); d && !error; d = d->next)
    if (d->level == D_ERROR)
      error = arena_fmt(to, "%s:%u:%u: %s", d->pos.file ? d->pos.file : "", d->pos.line, d->pos.col, d->text);
  ctx_free(c);
  return error;
}

/* ---- messages in the source --------------------------------------------------------------------- */
/* The literals that stand side by side from s on, joined; *end: behind them. */
static const char *literals(arena *a, const char *s, const char **end) {
  sbuf b = sbuf_new(a);
  sb_put(&b, "");
  while (*s == '"') {
    for (s++; *s && *s != '"'; s++) {
      if (*s == '\\') s++;
      sb_putc(&b, *s);
    }
    *end = ++s;
    s += strspn(s, " \n");
  }
  return b.s;
}
/* Is it what the format prints, somewhere in the text? */
static bool printed(const char *text, const char *format) {
  if (!*format) return true;
  if (*format != '%') {
    for (; *text; text++) {
      const char *t = text, *f = format;
      while (*f && *f != '%' && *t == *f) t++, f++;
      if ((!*f || *f == '%') && printed(t, f)) return true;
    }
    return false;
  }
  if (format[1] == '%') return *text == '%' && printed(text + 1, format + 2);
  for (format++; *format && !strchr("diuscx", *format);) format++;
  for (format++;; text++) {
    const size_t n = strcspn(format, "%");
    if (!*format || (!strncmp(text, format, n) && printed(text + n, format + n))) return true;
    if (!*text) return false;
  }
}
static void find_messages(arena *a, const char *text, strvec *out) {
  static const char *const calls[] = {"refuse(", "error(r, ", "error(&r, ", "D_ERROR, E_USAGE, "};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (const char *at = text; (at = strstr(at, calls[i]));) {
      at += strlen(calls[i]);
      int depth = 1;
      for (const char *s = at; *s && depth; s++) {
        depth += (*s == '(') - (*s == ')');
        if (*s == '\'') s += s[1] == '\\' ? 3 : 2;
        if (*s != '"') continue;
        const char *end = s, *m = literals(a, s, &end);
        s = end - 1;
        if (strchr(m, ' ') && strlen(m) > 3 && strcmp(m, "%s") && strncmp(m, "kernel %s: %s", 13) &&
            strncmp(m, "tensor %s: %s", 13) && strcmp(m, "schedule: %s"))
          vec_push(a, *out, m);
      }
    }
}
static strvec all_messages(arena *a) {
  const char *folder = EK_SOURCE_DIR "/src/schedule";
  strvec out = {0};
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (const struct dirent *f; (f = readdir(d));) {
    const size_t n = strlen(f->d_name);
    if (n < 3 || strcmp(f->d_name + n - 2, ".c")) continue;
    FILE *in = fopen(arena_fmt(a, "%s/%s", folder, f->d_name), "re");
    assert_non_null(in);
    char *text = arena_alloc(a, 1 << 20);
    text[fread(text, 1, (1 << 20) - 1, in)] = 0;
    fclose(in);
    find_messages(a, text, &out);
  }
  closedir(d);
  return out;
}
static void test_all(void **state) {
  (void)state;
  enum { ROWS = sizeof rows / sizeof *rows };
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  const char *errors[ROWS];
  uint32_t bad = 0;
  for (int i = 0; i < ROWS; i++) {
    errors[i] = error_of(&rows[i], a);
    if (errors[i] && !strncmp(errors[i], rows[i].error, strlen(rows[i].error))) continue;
    bad++,
        printf("%s\n  expected: %s\n  got: %s\n", rows[i].schedule, rows[i].error, errors[i] ? errors[i] : "nothing");
  }
  const strvec all = all_messages(a);
  assert_true(all.n > 80);
  for (uint32_t m = 0; m < all.n; m++) {
    bool met = false;
    for (int i = 0; i < ROWS && !met; i++) met = errors[i] && printed(errors[i], all.v[m]);
    if (!met) bad++, printf("no row meets: %s\n", all.v[m]);
  }
  ctx_free(c);
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
