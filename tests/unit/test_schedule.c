/* Does every family of schedules compute what its formula says, whatever the sizes? Small expr texts, at least one
 * for each family, at sizes that leave rests everywhere: compiled for every x86 target this machine can run,
 * simply and in full, and run in one piece and chunk by chunk in the wrong order, against the evaluator. Memory
 * ends where nobody may touch it, and is full of NaN before. */
#include "codegen/emit/emit.h"
#include "pass_check.h"
#include <math.h>
#include "program/program.h"
#include <setjmp.h>
#include <stdlib.h>
/* after loop.h, whose L_SET <fcntl.h> has as a macro */
#include "../tools/check.h"
#include "../tools/draw_schedule.h"
#include <cmocka.h>

enum { WORKERS = 3, MOST = 32 };
/* `@` is a list of numbers for the shape before it. sizes: "N=1 M=7; N=33 M=2": one run each. What follows `reference:`
 * is what the evaluator gets instead; what follows `schedule:` is a schedule that is given; what follows `refused:` is
 * what a run must say (`other`: the last input comes with one place more). The rows "schedules" of `machines` do so
 * with random schedules around the default one, among those that candidates.h enumerates: EK_SCHEDULES of them for each
 * size, 1 if it is not set. A table says how many were legal. */
typedef struct example {
  const char *name, *sizes, *text;
} example;
/* A product over what rows of a window make: enough that one kernel computes both, a row at a time. */
#define HANDED_ROWS                                                                                                    \
  "size N\n"                                                                                                           \
  "tensor x: f32[N, 160, 96, 32] input \"x\"\n"                                                                        \
  "tensor w: f32[3, 32] const @\n"                                                                                     \
  "tensor u: f32[32, 8] const @\n"                                                                                     \
  "stage v: f32[n<N, y<160, h<96, c<32] = sum[p<3] (load x[n, y + p - 1, h, c] else 0.0) * w[p, c]\n"                  \
  "stage m: f32[n1<N, y1<160, h1<96, k<8] = sum[c1<32] v[n1, y1, h1, c1] * u[c1, k]\n"
static const example examples[] = {
    {"product, constant operand: packed panels; edge tiles of rows and lanes; epilogue", "",
     "tensor x: f32[29, 23] input \"x\"\n"
     "tensor w: f32[23, 37] const @\n"
     "tensor v: f32[37] input \"v\"\n"
     "stage p: f32[a<29, c<37] = sum[k<23] x[a, k] * w[k, c]\n"
     "stage y: f32[d<29, e<37] out = max(p[d, e] + v[e], 0.0)\n"
     "output y \"y\"\n"},
    {"product of many rows, constant operand: in blocks, the sum in parts where caches are small; edges of rows, lanes "
     "and parts; epilogue",
     "",
     "tensor x: f32[1031, 61] input \"x\"\n"
     "tensor w: f32[61, 340] const @\n"
     "tensor v: f32[340] input \"v\"\n"
     "stage p: f32[a<1031, c<340] = sum[k<61] x[a, k] * w[k, c]\n"
     "stage y: f32[d<1031, e<340] out = max(p[d, e] + v[e], 0.0)\n"
     "output y \"y\"\n"},
    {"columns that are one and a half vectors, two and a half, and a few more: registers of half the width where wide "
     "ones take twice as long; a row operand that is more than a load, an operand of the run",
     "",
     "tensor x: f32[1031, 8] input \"x\"\n"
     "tensor s: f32[8] input \"s\"\n"
     "tensor w: f32[8, 24] const @\n"
     "tensor u: f32[5, 40] const @\n"
     "tensor z: f32[1031, 40] input \"z\"\n"
     "tensor q: f32[4, 37] input \"q\"\n"
     "stage h: f32[a<1031, c<24] out = sum[k<8] (x[a, k] * s[k]) * w[k, c]\n"
     "stage g: f32[b<1031, d<40] = sum[k1<5] z[b, k1 + 7] * u[k1, d]\n"
     "stage y: f32[e<1031, f<40] out = max(g[e, f] + z[e, f], 0.0)\n"
     "stage v: f32[i<1031, j<37] out = sum[k2<4] z[i, k2] * q[k2, j]\n"
     "output h \"h\"\noutput y \"y\"\noutput v \"v\"\n"},
    {"rows a way of the nearest cache apart, with a line between them; what reads them without a sum; a border", "",
     "tensor x: f32[5, 2048] input \"x\"\n"
     "tensor w: f32[2048, 3] const @\n"
     "tensor u: f32[3, 1024, 3] const @\n"
     "stage h: f32[a<5, b<2048] = exp(x[a, b])\n"
     "stage y: f32[c<5, d<3] out = sum[k<2048] h[c, k] * w[k, d]\n"
     "stage z: f32[e<2048, f<5] out = h[f, e] + 1.0\n"
     "stage g: f32[i<5, j<1024] = tanh(x[i, j])\n"
     "stage v: f32[l<5, m<3] out = sum[o<3, q<1024] (load g[l + o - 1, q] else 0.0) * u[o, q, m]\n"
     "output y \"y\"\noutput z \"z\"\noutput v \"v\"\n"},
    {"a sum over two variables, of rows that lie apart, in parts", "",
     "tensor x: f32[3, 70, 20] input \"x\"\n"
     "tensor w: f32[3, 20, 340] const @\n"
     "stage y: f32[a<70, c<340] out = sum[p<3, k<20] x[p, a, k] * w[p, k, c]\n"
     "output y \"y\"\n"},
    {"a row times the lines of a run-time operand, which lie far apart: a few lines after the other; an edge of lines "
     "and lanes; epilogue",
     "",
     "tensor x: f32[43] input \"x\"\n"
     "tensor w: f32[43, 1100] input \"w\"\n"
     "tensor v: f32[1100] input \"v\"\n"
     "stage p: f32[c<1100] = sum[k<43] x[k] * w[k, c]\n"
     "stage y: f32[e<1100] out = max(p[e] + v[e], 0.0)\n"
     "output y \"y\"\n"},
    {"the same with rows in several tiles, and an open number of lines", "K=7;K=43;K=128",
     "size K in 1..1000000000\n"
     "tensor x: f32[17, K] input \"x\"\n"
     "tensor w: f32[K, 1100] input \"w\"\n"
     "stage y: f32[a<17, c<1100] out = sum[k<K] x[a, k] * w[k, c]\n"
     "output y \"y\"\n"},
    {"sums of lines far apart, in the order of their neighbours; the largest of them", "",
     "tensor x: f32[2, 43, 1100] input \"x\"\n"
     "stage s: f32[c<1100] out = sum[k<43] x[1, k, c]\n"
     "stage m: f32[d<1100] out = max[k1<43] x[0, k1, d]\n"
     "output s \"s\"\noutput m \"m\"\n"},
    {"product of two run-time operands in blocks: panels are made for each part of a block; edges of rows, lanes and "
     "parts; epilogue",
     "",
     "tensor x: f32[1031, 61] input \"x\"\n"
     "tensor w: f32[61, 340] input \"w\"\n"
     "tensor v: f32[340] input \"v\"\n"
     "stage p: f32[a<1031, c<340] = sum[k<61] x[a, k] * w[k, c]\n"
     "stage y: f32[d<1031, e<340] out = max(p[d, e] + v[e], 0.0)\n"
     "output y \"y\"\n"},
    {"the same, with panels made in squares", "",
     "tensor x: f32[600, 61] input \"x\"\n"
     "tensor w: f32[340, 61] input \"w\"\n"
     "stage y: f32[a<600, c<340] out = sum[k<61] x[a, k] * w[c, k]\n"
     "output y \"y\"\n"},
    {"the same, a sum over two variables", "",
     "tensor x: f32[7, 600, 20] input \"x\"\n"
     "tensor w: f32[7, 20, 340] input \"w\"\n"
     "stage y: f32[a<600, c<340] out = sum[p<7, k<20] x[p, a, k] * w[p, k, c]\n"
     "output y \"y\"\n"},
    {"a large product of nothing", "",
     "tensor x: f32[9000, 0] input \"x\"\n"
     "tensor w: f32[0, 80] input \"w\"\n"
     "stage y: f32[a<9000, c<80] out = sum[k<0] x[a, k] * w[k, c]\n"
     "output y \"y\"\n"},
    {"short rows of a window that reads outside, of a machine with few lanes: some rows together, whose border is not "
     "one place",
     "",
     "tensor x: f64[2, 16, 22] input \"x\"\n"
     "stage y: f64[n<2, c<16, o<8] out = sqrt(sum[k<3] abs((load x[n, c, k + 3*o] else 0f64)) * abs((load x[n, c, k + "
     "3*o] else 0f64)))\n"
     "output y \"y\"\n"},
    {"a block whose rows are wide: some of them at a time", "",
     "tensor x: f32[7, 900, 240] input \"x\"\n"
     "tensor w: f32[3, 240] const @\n"
     "tensor u: f32[240, 8] const @\n"
     "stage v: f32[y<5, h<900, c<240] = sum[p<3] x[y + p, h, c] * w[p, c]\n"
     "stage m: f32[y1<5, h1<900, k<8] out = sum[c1<240] v[y1, h1, c1] * u[c1, k]\n"
     "output m \"m\"\n"},
    {"a block of tiles in wide rows: what pieces put together, some columns at a time", "",
     "tensor x: f32[6, 910, 120] input \"x\"\n"
     "tensor u: f32[2, 120, 8] const @\n"
     "stage a: f32[y<5, h<900, c<120] = 0.125 * (x[y, h, c] - x[y + 1, h, c])\n"
     "stage b: f32[y1<5, h1<900, c1<120] = 0.125 * (x[y1, h1, c1] + x[y1, h1 + 3, c1])\n"
     "stage v: f32[s<2, t<5, r<900, c2<120] tiled\n"
     "  update [y2<5, h2<900, c3<120] v[0, y2, h2, c3] := a[y2, h2, c3]\n"
     "  update [y3<5, h3<900, c4<120] v[1, y3, h3, c4] := b[y3, h3, c4]\n"
     "stage m: f32[s1<2, t1<5, r1<900, k<8] = sum[c5<120] v[s1, t1, r1, c5] * u[s1, c5, k]\n"
     "stage y: f32[k1<8, t2<5, r2<900] out = m[0, t2, r2, k1] - m[1, t2, r2, k1]\n"
     "output y \"y\"\n"},
    {"few columns: lanes along the sum, rows of a tile, packed constants; rows and places of the sum that are left "
     "over",
     "",
     "tensor x: f32[9, 27, 37] input \"x\"\n"
     "tensor w: f32[3, 37, 4] const @\n"
     "tensor b: f32[3] input \"b\"\n"
     "stage p: f32[m<3, h<9, o<24] = sum[k<4, c<37] x[h, o + k, c] * w[m, c, k]\n"
     "stage y: f32[m1<3, h1<9, o1<24] out = max(p[m1, h1, o1] + b[m1], 0.0)\n"
     "output y \"y\"\n"},
    {"few columns, the places of the sum side by side in both operands; each result of more rows", "",
     "tensor x: f32[50, 100] input \"x\"\n"
     "tensor w: f32[2, 100] const @\n"
     "stage y: f32[a<50, m<2] out = sum[c<100] x[a, c] * w[m, c]\n"
     "output y \"y\"\n"},
    {"groups of few columns share the lanes: as many channels a group as columns, more, one; what follows names group "
     "and column",
     "",
     "tensor x: f32[5, 7, 32] input \"x\"\n"
     "tensor w: f32[8, 4, 4, 3] const @\n"
     "tensor b: f32[32] input \"b\"\n"
     "stage p: f32[a<5, o<7, g<8, m<4] = sum[c<4, k<3] (load x[a, o + k - 1, 4*g + c] else 0.0) * w[g, m, c, k]\n"
     "stage y: f32[i<5, j<7, d<8, e<4] out = max(p[i, j, d, e] + b[4*d + e], 0.0)\n"
     "output y \"y\"\n"},
    {"groups of few columns share the lanes: more channels than columns, places in steps", "",
     "tensor x: f32[5, 15, 64] input \"x\"\n"
     "tensor w: f32[8, 4, 8, 3] const @\n"
     "stage y: f32[a<5, o<7, g<8, m<4] out = sum[c<8, k<3] x[a, 2*o + k, 8*g + c] * w[g, m, c, k]\n"
     "output y \"y\"\n"},
    {"groups of few columns share the lanes: several columns of each channel alone", "",
     "tensor x: f32[5, 15, 32] input \"x\"\n"
     "tensor w: f32[32, 2, 3] const @\n"
     "stage y: f32[a<5, o<13, g<32, m<2] out = sum[k<3] x[a, o + k, g] * w[g, m, k]\n"
     "output y \"y\"\n"},
    {"groups of half as many columns as there are lanes, an odd number of them: stored with the groups' columns side "
     "by side, and apart",
     "",
     "tensor x: f32[5, 9, 56] input \"x\"\n"
     "tensor w: f32[7, 8, 8, 3] const @\n"
     "stage y: f32[a<5, o<9, g<7, m<8] out = sum[c<8, k<3] (load x[a, o + k - 1, 8*g + c] else 0.0) * w[g, m, c, k]\n"
     "stage z: f32[g1<7, m1<8, a1<5, o1<9] out = sum[c1<8, k1<3] (load x[a1, o1 + k1 - 1, 8*g1 + c1] else 0.0) * w[g1, "
     "m1, c1, k1]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"no columns to share the lanes", "",
     "tensor x: f32[2, 3] input \"x\"\n"
     "stage y: f32[r<2, p<0, q<0] out = max[k<3 where #(k + p) < #(r + q)] x[r, k]\n"
     "output y \"y\"\n"},
    {"products of groups of channels: the constants of a group are packed, whichever point of a chunk it is", "",
     "tensor x: f32[6, 9, 48] input \"x\"\n"
     "tensor w: f32[3, 16, 16, 3] const @\n"
     "stage y: f32[g<3, h<6, o<7, m<16] out = sum[c<16, k<3] x[h, o + k, c + 16*g] * w[g, m, c, k]\n"
     "output y \"y\"\n"},
    {"products of two directions, rows of an open number: the constants of a direction are chosen by a quotient by an "
     "open size",
     "N=1; N=5; N=40",
     "size N\n"
     "tensor x: f32[N, 3, 9] input \"x\"\n"
     "tensor w: f32[2, 20, 9] const @\n"
     "stage y: f32[d<2, n<N, m<20] out = sum[k<9] x[n, d, k] * w[d, m, k]\n"
     "output y \"y\"\n"},
    {"products chosen by a quotient by an open size, the last ones of a constant: the pack ends with it", "N=1; N=3",
     "size N\n"
     "tensor x: f32[7, 10, N, 24] input \"x\"\n"
     "tensor w: f32[14, 24, 32] const @\n"
     "stage y: f32[a<7, n<N, t<10, m<32] out = sum[c<24] x[a, t, n, c] * w[a + 7, c, m]\n"
     "output y \"y\"\n"},
    {"a product whose columns are taken apart behind it: rows and lanes in blocks, parts of blocks", "",
     "tensor x: f32[130, 24] input \"x\"\n"
     "tensor w: f32[24, 3, 300] const @\n"
     "stage p: f32[m<130, n<3, d<300] = sum[k<24] x[m, k] * w[k, n, d]\n"
     "stage y: f32[m1<130, d1<300] out = p[m1, 0, d1] * max(p[m1, 1, d1], 0.0)\n"
     "stage z: f32[d2<300, m2<130] out = p[m2, 2, d2] * 2.0\n"
     "output y \"y\"\n"
     "output z \"z\"\n"},
    {"products whose columns are taken apart by heads, which choose among the constants: alone, and beside a batch", "",
     "tensor x: f32[3, 10, 24] input \"x\"\n"
     "tensor w: f32[24, 3, 4, 40] const @\n"
     "stage p: f32[b<3, i<10, n<3, h<4, d<40] = sum[k<24] x[b, i, k] * w[k, n, h, d]\n"
     "stage q: f32[b1<3, h1<4, i1<10, d1<40] out = p[b1, i1, 0, h1, d1] * 0.5\n"
     "stage r: f32[b2<3, h2<4, d2<40, i2<10] out = p[b2, i2, 1, h2, d2] * 2.0\n"
     "stage s: f32[b3<3, h3<4, i3<10, d3<40] out = max(p[b3, i3, 2, h3, d3], 0.0)\n"
     "stage p1: f32[j<10, n1<3, h4<4, d4<40] = sum[k1<24] x[1, j, k1] * w[k1, n1, h4, d4]\n"
     "stage q1: f32[h5<4, j1<10, d5<40] out = p1[j1, 0, h5, d5] * 0.5\n"
     "stage r1: f32[h6<4, d6<40, j2<10] out = p1[j2, 1, h6, d6] * 2.0\n"
     "stage s1: f32[h7<4, j3<10, d7<40] out = max(p1[j3, 2, h7, d7], 0.0)\n"
     "output q \"q\"\noutput r \"r\"\noutput s \"s\"\noutput q1 \"q1\"\noutput r1 \"r1\"\noutput s1 \"s1\"\n"},
    {"heads of an open number of rows, turned by halves: blocks of rows and heads choose among the constants",
     "N=1; N=70; N=130",
     "size N\n"
     "tensor x: f32[N, 24] input \"x\"\n"
     "tensor c: f32[N, 64] input \"c\"\n"
     "tensor s: f32[N, 64] input \"s\"\n"
     "tensor w: f32[24, 192] const @\n"
     "stage p: f32[m<N, (n<3, h<2, d<32)] = sum[k<24] x[m, k] * w[k, 64*n + 32*h + d]\n"
     "stage q: f32[a<3, b<N, (e<2, f<32)] = p[b, 64*a + 32*e + f] * c[b, 32*e + f]\n"
     "stage y: f32[a1<3, b1<N, f1<32] out = q[a1, b1, f1] + neg(p[b1, 64*a1 + f1 + 32]) * s[b1, f1]\n"
     "stage z: f32[a2<3, b2<N, f2<32] out = q[a2, b2, f2 + 32] + p[b2, 64*a2 + f2] * s[b2, f2 + 32]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"a wide window: a border as wide as what it is around, rows of taps outside of it left out", "",
     "tensor x: f32[12, 10, 20] input \"x\"\n"
     "tensor w: f32[3, 3, 20, 24] const @\n"
     "stage v: f32[h<12, o<10, c<20] = max(x[h, o, c], 0.25)\n"
     "stage y: f32[h1<12, o1<10, m<24] out = sum[k0<3, k1<3, c1<20] (load v[9*k0 + h1 - 9, 7*k1 + o1 - 7, c1] else "
     "0.0) * w[k0, k1, c1, m]\n"
     "output y \"y\"\n"},
    {"what follows a product gathers", "",
     "tensor x: f32[30, 40] input \"x\"\n"
     "tensor w: f32[33, 40] input \"w\"\n"
     "tensor t: f32[30, 8] input \"t\"\n"
     "tensor r: i64[30, 33] input \"r\"\n"
     "stage p: f32[a<30, c<33] = sum[k<40] x[a, k] * w[c, k]\n"
     "stage y: f32[a1<30, c1<33] out = p[a1, c1] + t[a1, min(max({i64(r[a1, c1])}, 0), 7)]\n"
     "output y \"y\"\n"},
    {"product of run-time operands: panels packed on the way; open rows and lanes",
     "N=1 M=1 K=1; N=133 M=37 K=9; N=3 M=130 K=2; N=150 M=64 K=5; N=0 M=4 K=3",
     "size N\nsize M\nsize K\n"
     "tensor x: f32[N, K] input \"x\"\n"
     "tensor w: f32[M, K] input \"w\"\n"
     "stage y: f32[a<N, c<M] out = sum[k<K] x[a, k] * w[c, k]\n"
     "output y \"y\"\n"},
    {"product of run-time operands, one whose rows lie side by side: panels that are not full are packed lane by lane",
     "N=1 M=1; N=3 M=7; N=9 M=23; N=2 M=100",
     "size N\nsize M\n"
     "tensor x: f32[N, 2, 32] input \"x\"\n"
     "tensor w: f32[M, 2, 32] input \"w\"\n"
     "stage y: f32[a<N, c<M] out = sum[p<2, k<32] x[a, p, k] * w[c, p, k]\n"
     "output y \"y\"\n"},
    {"product with open rows: every number of them; chunks that are blocks of lanes, and of rows in each",
     "N=1; N=2; N=3; N=4; N=7; N=14; N=0; N=100; N=300",
     "size N\n"
     "tensor x: f32[N, 19] input \"x\"\n"
     "tensor w: f32[19, 130] const @\n"
     "stage y: f32[a<N, c<130] out = sum[k<19] x[a, k] * w[k, c]\n"
     "output y \"y\"\n"},
    {"rows that are points of two open variables, the first of few values: a border left out of whole tiles, or of "
     "none; several groups; more points than one chunk has",
     "N=1 F=1; N=2 F=8; N=3 F=3; N=17 F=2; N=5 F=5; N=150 F=3; N=0 F=2",
     "size N\nsize F in 1..8\n"
     "tensor x: f32[N, F, 20] input \"x\"\n"
     "tensor w: f32[3, 20, 40] const @\n"
     "tensor u: f32[20, 66] const @\n"
     "stage v: f32[n<N, f<F, c<20] = max(x[n, f, c], 0.25)\n"
     "stage y: f32[n1<N, o<F, m<40] = sum[k0<3, c1<20] (load v[n1, k0 + o - 1, c1] else 0.0) * w[k0, c1, m]\n"
     "stage z: f32[n2<N, o2<F, m2<40] out = sum[k2<3, c2<40] (load y[n2, k2 + o2 - 1, m2] else 0.0) * 0.5\n"
     "stage p: f32[n3<N, g<F, (h<2, m3<33)] = sum[c3<20] x[n3, g, c3] * u[c3, 33*h + m3]\n"
     "stage q: f32[n4<N, g4<F, m4<33] out = max(p[n4, g4, m4], p[n4, g4, m4 + 33])\n"
     "output z \"z\"\noutput q \"q\"\n"},
    {"so of one open and one known variable, of which the known one has the border; panels that fill the nearest cache "
     "pass over the rows, of an odd number, too",
     "N=1; N=2; N=5; N=9; N=0",
     "size N\n"
     "tensor x: f32[N, 2, 20] input \"x\"\n"
     "tensor w: f32[3, 20, 300] const @\n"
     "tensor u: f32[300, 200] const @\n"
     "stage y: f32[n<N, o<2, m<300] = sum[k0<3, c<20] (load x[n, k0 + o - 1, c] else 0.0) * w[k0, c, m]\n"
     "stage z: f32[n1<N, o1<2, m1<200] = sum[c1<300] y[n1, o1, c1] * u[c1, m1]\n"
     "stage r: f32[n2<N, o2<2, m2<200] out = z[n2, o2, m2] + 100.0\n"
     "output r \"r\"\n"},
    {"rows that are points of two open variables, where panels that fill the nearest cache pass over them",
     "N=1 F=2; N=5 F=1; N=2 F=3; N=0 F=1",
     "size N\nsize F in 1..8\n"
     "tensor x: f32[F, N, 300] input \"x\"\n"
     "tensor w: f32[300, 200] const @\n"
     "stage y: f32[n<N, o<F, m<200] = sum[c<300] x[o, n, c] * w[c, m]\n"
     "stage r: f32[n1<N, o1<F, m1<200] out = y[n1, o1, m1] + 100.0\n"
     "output r \"r\"\n"},
    {"a factor of each column, read by quotient and rest of an open number: it waits in a register, and is not in two "
     "versions",
     "A=1 D=9; A=2 D=3; A=6 D=17; A=4 D=0",
     "size A in 1..1000\nsize D\n"
     "tensor x: f32[6, A] input \"x\"\n"
     "tensor z: f32[D] input \"z\"\n"
     "tensor c: f32[3] input \"c\"\n"
     "stage w: f32[n<3] = c[n] * x[(2*n + 1)//A, 2*n + 1 - ((2*n + 1)//A)*A]\n"
     "stage y: f32[a<D, m<3] out = z[a] * w[m]\n"
     "output y \"y\"\n"},
    {"neighbours of the result lie apart in what is read: squares turned in registers, in every size of element; rests "
     "of rows and lanes",
     "N=1 M=1; N=16 M=32; N=37 M=29; N=5 M=40; N=70 M=3; N=0 M=2",
     "size N\nsize M\n"
     "tensor a: f32[N, M] input \"a\"\n"
     "tensor b: i64[N, M] input \"b\"\n"
     "tensor c: i16[N, M] input \"c\"\n"
     "tensor d: u8[N, M] input \"d\"\n"
     "tensor e: bool[N, M] input \"e\"\n"
     "stage p: f32[i<M, j<N] out = a[j, i] * 2.0\n"
     "stage q: i64[i1<M, j1<N] out = b[j1, i1]\n"
     "stage r: i16[i2<M, j2<N] out = c[j2, i2]\n"
     "stage s: u8[i3<M, j3<N] out = d[j3, i3]\n"
     "stage t: bool[i4<M, j4<N] out = e[j4, i4]\n"
     "output p \"p\"\noutput q \"q\"\noutput r \"r\"\noutput s \"s\"\noutput t \"t\"\n"},
    {"squares: known sizes, three axes, a border that is tested, two operands one of which lies across", "",
     "tensor a: f32[3, 21, 35] input \"a\"\n"
     "tensor b: f32[35, 3, 21] input \"b\"\n"
     "tensor c: f32[6, 16] input \"c\"\n"
     "stage p: f32[i<35, j<3, k<21] out = a[j, k, i] + b[i, j, k]\n"
     "stage q: f32[i1<36, j1<23, k1<3] out = (load a[k1, j1 - 1, i1 - 1] else 7.0)\n"
     "stage r: f32[i2<16, j2<6] out = max(c[j2, i2], 0.0)\n"
     "output p \"p\"\noutput q \"q\"\noutput r \"r\"\n"},
    {"neighbours of the result lie near each other in what is read: vectors of neighbours, shuffled; nothing behind "
     "the last one is read",
     "N=1; N=3; N=20",
     "size N\n"
     "tensor a: f32[N, 101] input \"a\"\n"
     "tensor b: i64[N, 60] input \"b\"\n"
     "tensor c: f32[201] input \"c\"\n"
     "stage p: f32[n<N, i<51] out = a[n, 2 * i]\n"
     "stage q: f32[n1<N, i1<33] out = a[n1, 3 * i1 + 2]\n"
     "stage r: f32[n2<N, i2<101] out = a[n2, 100 - i2]\n"
     "stage s: f32[n3<N, i3<90] out = a[n3, i3 // 2]\n"
     "stage t: f32[n4<N, i4<71] out = a[n4, i4 // 3 + 77]\n"
     "stage u: i64[n5<N, i5<30] out = b[n5, 2 * i5 + 1]\n"
     "stage v: f32[n6<N, i6<49] out = max[k<3] a[n6, 2 * i6 + k]\n"
     "stage w: f32[n7<N, i7<44] out = c[4 * i7 + 3] + a[n7, 4 * (i7 // 2)]\n"
     "stage x: f32[n8<N, i8<48] out = a[n8, i8 - 4 * (i8 // 4)]\n"
     "output p \"p\"\noutput q \"q\"\noutput r \"r\"\noutput s \"s\"\noutput t \"t\"\noutput u \"u\"\noutput v "
     "\"v\"\noutput w \"w\"\noutput x \"x\"\n"},
    {"pieces of one tensor in turns, and lanes that lie apart in it: what is stored side by side are different results "
     "of a tile",
     "N=1; N=6; N=0",
     "size N\n"
     "tensor x: f32[N, 11, 37] input \"x\"\n"
     "stage p0: f32[a0<N, b0<11, c0<37] = max(x[a0, b0, c0], 0.0) * 1.0\n"
     "stage p1: f32[a1<N, b1<11, c1<37] = max(x[a1, b1, c1], 1.0) * 2.0\n"
     "stage p2: f32[a2<N, b2<11, c2<37] = max(x[a2, b2, c2], 2.0) * 3.0\n"
     "stage p3: f32[a3<N, b3<11, c3<37] = max(x[a3, b3, c3], 3.0) * 4.0\n"
     "stage y: f32[n<37, m<N, l<44] out tiled\n  update [a4<N, b4<11, c4<37] y[c4, a4, 4 * b4] := p0[a4, b4, c4]\n  "
     "update [a5<N, b5<11, c5<37] y[c5, a5, 4 * b5 + 1] := p1[a5, b5, c5]\n"
     "  update [a6<N, b6<11, c6<37] y[c6, a6, 4 * b6 + 2] := p2[a6, b6, c6]\n  update [a7<N, b7<11, c7<37] y[c7, a7, 4 "
     "* b7 + 3] := p3[a7, b7, c7]\n"
     "output y \"y\"\n"},
    {"a product whose neighbouring results come from different constants", "N=1; N=5; N=40",
     "size N\n"
     "tensor x: f32[19, N] input \"x\"\n"
     "tensor w: f32[19, 21, 2] const @\n"
     "stage r: f32[m<21, (o<N, p<2)] = sum[c<19] x[c, o] * w[c, m, p]\n"
     "stage y: f32[m1<21, (o1<N, p1<2)] out = max(r[m1, 2 * o1 + p1], 0.0)\n"
     "output y \"y\"\n"},
    {"constants chosen by a digit of the chunk's number: packed for each", "",
     "tensor x: f32[19, 9, 29] input \"x\"\n"
     "tensor w: f32[19, 21, 2, 2] const @\n"
     "stage r: f32[m<21, (o<9, p<2), (q<29, s<2)] = sum[c<19] x[c, o, q] * w[c, m, p, s]\n"
     "stage y: f32[m1<21, (o1<9, p1<2), (q1<29, s1<2)] out = max(r[m1, 2 * o1 + p1, 2 * q1 + s1], 0.0)\n"
     "output y \"y\"\n"},
    {"a sum of computed weights over a variable without values, where lanes would run", "",
     "tensor x: f32[6, 6, 4] input \"x\"\n"
     "tensor r: i32[1] input \"r\"\n"
     "stage w: f32[p<0, g<2] = x[0, 0, 1] * f32(#p) + f32(#g)\n"
     "stage y: f32[c<6, q<0] out = (sum[h<2, d<2] x[min(max({i64(r[0])}, 0), 5), c, min(max({i64(r[0])} + d, 0), 3)] * "
     "w[q, h]) / 4.0\n"
     "output y \"y\"\n"},
    {"a window's sums without a product, read from an input with its border: copied with the channels innermost, for "
     "few places",
     "",
     "tensor x: f32[37, 7, 3] input \"x\"\n"
     "stage y: f32[h<4, c<37] = (load x[c, 2*h - 1, 0] else 0.5) + (load x[c, 2*h, 0] else 0.5) * (load x[c, 2*h + 1, "
     "2] else 0.5)\n"
     "stage z: f32[h1<4, c1<37] = (load x[c1, 2*h1 - 1, 0] else 0.5) - (load x[c1, 2*h1 + 1, 2] else 0.5) * x[c1, 3, "
     "1]\n"
     "stage u: f32[h2<4, c2<37] = (load x[c2, 2*h2 - 1, 1] else 0.5) - (load x[c2, 2*h2 + 1, 2] else 0.5) * x[c2, 3, "
     "2]\n"
     "stage v: f32[h3<4, c3<37] = (load x[c3, 2*h3 - 1, 2] else 0.5) - (load x[c3, 2*h3 + 1, 0] else 0.5) * x[c3, 6, "
     "1]\n"
     "stage w: f32[t<4, h4<4, c4<37] out tiled\n"
     "  update [h5<4, c5<37] w[0, h5, c5] := y[h5, c5]\n"
     "  update [h6<4, c6<37] w[1, h6, c6] := z[h6, c6]\n"
     "  update [h7<4, c7<37] w[2, h7, c7] := u[h7, c7]\n"
     "  update [h8<4, c8<37] w[3, h8, c8] := v[h8, c8]\n"
     "output w \"w\"\n"},
    {"two results in turns, each of the other's lanes only: no rows", "",
     "tensor x: f32[128] input \"x\"\n"
     "stage p: f32[h<128] = x[h] * 2.0\n"
     "stage q: f32[i<128] = x[i] + 3.0\n"
     "stage y: f32[j<128, k<2] out tiled\n"
     "  update [h1<128] y[h1, 0] := p[h1]\n"
     "  update [i1<128] y[i1, 1] := q[i1]\n"
     "output y \"y\"\n"},
    {"reflected behind its end: rows longer than that, and others",
     "N=1 L=2; N=3 L=3; N=1 L=1; N=2 L=40; N=1 L=8; N=0 L=3",
     "size N\nsize L\n"
     "tensor x: f32[N, L] input \"x\"\n"
     "stage y: f32[n<N, o<L + 7] out = x[n, (min(1 - L, L - 1) >= 0 ? 0 : L - max((o//max(1, 2*L - 2))*max(1, 2*L - 2) "
     "+ L - o - 1, o + 1 - (o//max(1, 2*L - 2))*max(1, 2*L - 2) - L) - 1)]\n"
     "output y \"y\"\n"},
    {"products of bf16: two points at a time where the machine can, one where their number is odd", "N=1; N=3",
     "size N\n"
     "tensor x: bf16[N, 29, 24] input \"x\"\n"
     "tensor w: bf16[24, 37] const @\n"
     "tensor v: bf16[29, 23] input \"v\"\n"
     "tensor u: bf16[23, 37] const @\n"
     "stage y: f32[n<N, a<29, c<37] out = max(sum[k<24] f32(x[n, a, k]) * f32(w[k, c]), 0.5)\n"
     "stage z: f32[d<29, e<37] out = sum[l<23] f32(v[d, l]) * f32(u[l, e])\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"products of bf16 with an operand of the run: packed in groups where the machine multiplies these", "N=2; N=70",
     "size N\n"
     "tensor x: bf16[N, 24] input \"x\"\n"
     "tensor w: bf16[24, 37] input \"w\"\n"
     "stage y: f32[a<N, c<37] out = sum[k<24] f32(x[a, k]) * f32(w[k, c])\n"
     "output y \"y\"\n"},
    {"products of narrow values, both of the run, whose points lie side by side: panels made in squares of groups",
     "N=3 M=37; N=40 M=70",
     "size N\nsize M\n"
     "tensor x: bf16[N, 40] input \"x\"\n"
     "tensor w: bf16[M, 40] input \"w\"\n"
     "tensor v: u8[N, 5, 72] input \"v\"\n"
     "tensor u: i8[M, 5, 72] input \"u\"\n"
     "tensor s: u8[N, 32] input \"s\"\n"
     "tensor t: i8[M, 32] input \"t\"\n"
     "stage y: f32[a<N, c<M] out = sum[k<40] f32(x[a, k]) * f32(w[c, k])\n"
     "stage r: i32[e<N, f<M] out = sum[l<32] i32(s[e, l]) * i32(t[f, l])\n"
     "stage z: i32[b<N, d<M] out = sum[i<5, j<72] i32(v[b, i, j]) * i32(u[d, i, j])\n"
     "output y \"y\"\noutput z \"z\"\noutput r \"r\"\n"},
    {"pairs of 16 bits that alternate along the lanes: stored as words", "N=1; N=35",
     "size N\n"
     "tensor x: f32[8, N] input \"x\"\n"
     "tensor v: f16[6, 21] input \"v\"\n"
     "stage y: bf16[a<4, c<N, b<2] out = bf16(x[2*a + b, c])\n"
     "stage z: f16[i<3, j<21, k<2] out = v[2*i + k, j]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"products of bf16 whose pairs are the innermost axis of both: words of all lanes are read where they lie", "",
     "tensor x: f32[24, 37] input \"x\"\n"
     "tensor w: f32[24, 53] input \"w\"\n"
     "stage p: bf16[i<12, a<37, b<2] = bf16(x[2*i + b, a])\n"
     "stage q: bf16[j<12, c<53, d<2] = bf16(w[2*j + d, c])\n"
     "stage y: f32[e<37, f<53] out = sum[k<12, l<2] f32(p[k, e, l]) * f32(q[k, f, l])\n"
     "output y \"y\"\n"},
    {"products of bytes, signed and not: groups of points, the last one not whole, where the machine multiplies these",
     "N=3; N=34",
     "size N\n"
     "tensor x: u8[N, 51] input \"x\"\n"
     "tensor w: i8[51, 37] const @\n"
     "tensor v: i8[N, 4, 9] input \"v\"\n"
     "tensor u: u8[9, 3, 20, 4] const @\n"
     "stage y: i32[a<N, c<37] out = sum[k<51] i32(x[a, k]) * i32(w[k, c])\n"
     "stage z: i32[b<N, t<3, d<20] out = sum[i<4, j<9] i32(u[j, t, d, i]) * i32(v[b, i, j])\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"products of bytes that are taken as signed ones before: no formula of unsigned by signed", "N=3; N=34",
     "size N\n"
     "tensor x: u8[N, 48] input \"x\"\n"
     "tensor w: i8[48, 37] const @\n"
     "stage y: i32[a<N, c<37] out = sum[k<48] i32(i8(x[a, k])) * i32(w[k, c])\n"
     "output y \"y\"\n"},
    {"products of bytes, both of the run, of any sizes", "N=1 K=3 M=5; N=9 K=8 M=40; N=35 K=51 M=70; N=4 K=0 M=3",
     "size N\nsize K\nsize M\n"
     "tensor x: u8[N, K] input \"x\"\n"
     "tensor w: i8[K, M] input \"w\"\n"
     "tensor v: i8[N, K] input \"v\"\n"
     "tensor u: u8[K, M] input \"u\"\n"
     "stage y: i32[a<N, c<M] out = sum[k<K] i32(x[a, k]) * i32(w[k, c])\n"
     "stage z: i32[b<N, d<M] out = sum[j<K] i32(i16(v[b, j])) * i32(i16(u[j, d]))\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"products of bf16 with a constant without elements, of which nothing is packed", "",
     "tensor x: bf16[2, 3, 20] input \"x\"\n"
     "tensor z: bf16[2, 32, 4] input \"z\"\n"
     "tensor q: bf16[32, 0, 4] input \"q\"\n"
     "tensor w: bf16[32, 0, 20] const @\n"
     "tensor c: bool[3, 2] const [0, 1, 0, 0, 0, 0]\n"
     "stage s: f32[d1<32, n1<2, h1<0] = sum[k1<4] f32(z[n1, d1, k1]) * f32(q[d1, h1, k1])\n"
     "stage r: f32[t<3, d<32, n<2, h<0] = sum[k<20] f32(x[n, t, k]) * f32(w[d, h, k])\n"
     "stage y: bf16[n2<2, t2<3, d2<32, h2<0] out = bf16(c[t2, n2] ? r[t2, d2, n2, h2] + s[d2, n2, h2] : 0.0)\n"
     "output y \"y\"\n"},
    {"a product without elements, whose outermost loop has no values", "",
     "tensor x: f32[2, 3, 20] input \"x\"\n"
     "tensor z: f32[2, 32, 4] input \"z\"\n"
     "tensor q: f32[32, 0, 4] input \"q\"\n"
     "tensor w: f32[32, 0, 20] input \"w\"\n"
     "stage s: f32[d1<32, n1<2, h1<0] = sum[k1<4] z[n1, d1, k1] * q[d1, h1, k1]\n"
     "stage y: f32[t<3, d<32, n<2, h<0] out = s[d, n, h] + sum[k<20] x[n, t, k] * w[d, h, k]\n"
     "output y \"y\"\n"
     "schedule:schedules 1\nkernel k0 {\n  nest s {\n    order h1 d1 n1\n  }\n}\n"},
    {"convolution of bf16 with a border, its result in bf16", "N=1; N=2",
     "size N\n"
     "tensor x: bf16[N, 11, 9, 6] input \"x\"\n"
     "tensor w: bf16[40, 3, 3, 6] const @\n"
     "stage r: bf16[n<N, h<11, v<9, k<6] = bf16(exp(f32(x[n, h, v, k]) * -1.0))\n"
     "stage c: f32[n1<N, h1<11, v1<9, m<40] = sum[p<3, q<3, k1<6] f32((load r[n1, h1 + p - 1, v1 + q - 1, k1] else "
     "0.0bf16)) * f32(w[m, p, q, k1])\n"
     "stage y: bf16[n2<N, h2<11, v2<9, m2<40] out = bf16(max(c[n2, h2, v2, m2], 0.0))\n"
     "output y \"y\"\n"},
    {"two products that are added, with a scale and what comes of it; four more rows than tiles", "",
     "tensor x: f32[18, 12] input \"x\"\n"
     "tensor h: f32[18, 9] input \"h\"\n"
     "tensor w: f32[12, 40] const @\n"
     "tensor u: f32[9, 40] const @\n"
     "stage y: f32[a<18, c<40] out = tanh((sum[k<12] x[a, k] * w[k, c]) + 0.5 + (sum[j<9] h[a, j] * u[j, c])) * 2.0\n"
     "output y \"y\"\n"},
    {"batched product of three operands with another type of sum", "B=1 N=5; B=3 N=18",
     "size B\nsize N\n"
     "tensor x: f32[B, N, 6] input \"x\"\n"
     "tensor w: f32[B, 6, 21] input \"w\"\n"
     "tensor s: f32[6] input \"s\"\n"
     "stage y: f64[b<B, a<N, c<21] out = f64(sum[k<6] x[b, a, k] * s[k] * w[b, k, c])\n"
     "output y \"y\"\n"},
    {"convolution with stride and a border, two of them: halos, epilogue", "N=1; N=3",
     "size N\n"
     "tensor x: f32[N, 5, 11, 9] input \"x\"\n"
     "tensor w: f32[12, 5, 3, 3] const @\n"
     "tensor u: f32[7, 12, 3, 2] const @\n"
     "stage c: f32[n<N, m<12, h<11, v<9] = sum[k<5, p<3, q<3] (load x[n, k, h + p - 1, v + q - 1] else 0.0) * w[m, k, "
     "p, q]\n"
     "stage r: f32[n1<N, m1<12, h1<11, v1<9] = max(c[n1, m1, h1, v1], 0.0)\n"
     "stage y: f32[n2<N, m2<7, h2<6, v2<5] out = sum[k2<12, p2<3, q2<2] (load r[n2, k2, 2*h2 + p2 - 1, 2*v2 + q2] else "
     "0.0) * u[m2, k2, p2, q2]\n"
     "output y \"y\"\n"},
    {"a border that is no zero", "",
     "tensor x: f32[3, 17] input \"x\"\n"
     "stage r: f32[a<3, b<17] = exp(x[a, b])\n"
     "stage y: f32[c<3, d<17] out = max[p<5] (load r[c, d + p - 2] else 0.75)\n"
     "output y \"y\"\n"},
    {"depthwise stencil", "H=1 W=1; H=7 W=35",
     "size H\nsize W\n"
     "tensor x: f32[6, H, W] input \"x\"\n"
     "tensor w: f32[6, 3, 3] const @\n"
     "stage y: f32[c<6, h<H, v<W] out = sum[p<3, q<3] (load x[c, h + p - 1, v + q - 1] else 0.0) * w[c, p, q]\n"
     "output y \"y\"\n"},
    {"reductions over the lanes: sum, product, largest, with a rest and with several sums in flight",
     "N=1 L=1; N=2 L=77; N=3 L=16; N=1 L=31",
     "size N\nsize L\n"
     "tensor x: f32[N, L] input \"x\"\n"
     "tensor b: bool[N, L] input \"b\"\n"
     "stage s: f32[a<N] out = sum[k<L] x[a, k] * x[a, k]\n"
     "stage p: f32[a1<N] out = prod[k1<L] x[a1, k1] + 1.5\n"
     "stage m: f32[a2<N] out = min[k2<L] x[a2, k2] - 3.0\n"
     "stage q: f32[a3<N] out = sum[k3<L where b[a3, k3]] x[a3, k3]\n"
     "stage z: bool[a4<N] out = any[k4<L] x[a4, k4] > 0.9\n"
     "output s \"s\"\noutput p \"p\"\noutput m \"m\"\noutput q \"q\"\noutput z \"z\"\n"},
    {"reductions over the lanes, known sizes", "",
     "tensor x: f32[3, 77] input \"x\"\n"
     "stage s: f32[a<3] out = sum[k<77] x[a, k] * x[a, k]\n"
     "stage p: f32[a1<3] out = prod[k1<77] x[a1, k1] + 1.5\n"
     "stage m: f32[a2<3] out = max[k2<77] x[a2, k2] - 3.0\n"
     "output s \"s\"\noutput p \"p\"\noutput m \"m\"\n"},
    {"sums over an outer axis: four neighbours first", "N=1 L=3; N=7 L=18; N=11 L=40",
     "size N\nsize L\n"
     "tensor x: f32[3, N, L] input \"x\"\n"
     "stage s: f32[a<3, c<L] out = sum[k<N] x[a, k, c]\n"
     "output s \"s\"\n"},
    {"where the largest stands, and the last of equal ones", "L=1 M=3; L=21 M=19",
     "size L\nsize M\n"
     "tensor x: f32[L, M] input \"x\"\n"
     "tensor i: i64[L, M] input \"i\"\n"
     "stage a: i64[c<M] out = argmax[k<L] x[k, c] - 5.0\n"
     "stage b: i64[c1<M] out = argmin_last[k1<L] i[k1, c1]\n"
     "stage d: i64[c2<L] out = argmax[k2<M where x[c2, k2] < 0.5] x[c2, k2]\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\n"},
    {"where the largest stands, among infinities, NaN and equal ones", "L=1 M=3; L=7 M=19; L=9 M=150",
     "size L\nsize M\n"
     "tensor x: f32[L, M] input \"x\"\n"
     "stage a: i64[c<M] out = argmax[k<L payload 2*#k + 3] (x[k, c] * x[k, c] + 1.0) / (0.0 - max(x[0, c], 0.0))\n"
     "stage b: i64[c1<M] out = argmax[k1<L] floor(x[k1, c1] * 2.0) / max(x[0, c1], 0.0)\n"
     "stage d: i64[c2<M] out = argmax_last[k2<L] floor(x[k2, c2] * 2.0) / max(x[0, c2], 0.0)\n"
     "stage e: i64[c3<M] out = argmin[k3<L] floor(x[k3, c3] * 2.0) / max(x[0, c3], 0.0)\n"
     "stage f: i64[c4<L] out = argmin_last[k4<M] floor(x[c4, k4] * 2.0) / max(x[c4, 0], 0.0)\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\noutput e \"e\"\noutput f \"f\"\n"},
    {"a softmax of rows that see the places up to their own", "L=70 S=70; L=33 S=150; L=131 S=40; L=1 S=1; L=300 S=300",
     "size L\nsize S\n"
     "tensor q: f32[3, L, 20] input \"q\"\n"
     "tensor k: f32[3, S, 20] input \"k\"\n"
     "tensor v: f32[3, S, 24] input \"v\"\n"
     "stage s: f32[h<3, l<L, t<S] = sum[d<20] q[h, l, d] * k[h, t, d]\n"
     "stage g: f32[h5<3, l5<L, t5<S] = #(l5 - t5) >= 0 ? s[h5, l5, t5] : -inf\n"
     "stage m: f32[h1<3, l1<L] = max[t1<S] g[h1, l1, t1]\n"
     "stage e: f32[h2<3, l2<L, t2<S] = exp(g[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<3, l3<L] = sum[t3<S] e[h3, l3, t3]\n"
     "stage y: f32[h4<3, l4<L, d4<24] out = sum[t4<S] e[h4, l4, t4] / z[h4, l4] * v[h4, t4, d4]\n"
     "output y \"y\"\n"},
    {"a softmax of rows that see a window, of which some see nothing: NaN, as with all places",
     "L=70 S=70; L=33 S=150; L=131 S=40; L=1 S=1; L=300 S=300",
     "size L\nsize S\n"
     "tensor q: f32[3, L, 20] input \"q\"\n"
     "tensor k: f32[3, S, 20] input \"k\"\n"
     "tensor v: f32[3, S, 24] input \"v\"\n"
     "stage s: f32[h<3, l<L, t<S] = sum[d<20] q[h, l, d] * k[h, t, d]\n"
     "stage g: f32[h5<3, l5<L, t5<S] = s[h5, l5, t5] + (#(l5 - t5) >= 0 and #(t5 + 6 - l5) >= 0 ? 0.0 : -inf)\n"
     "stage m: f32[h1<3, l1<L] = max[t1<S] g[h1, l1, t1]\n"
     "stage e: f32[h2<3, l2<L, t2<S] = exp(g[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<3, l3<L] = sum[t3<S] e[h3, l3, t3]\n"
     "stage y: f32[h4<3, l4<L, d4<24] out = sum[t4<S] e[h4, l4, t4] / z[h4, l4] * v[h4, t4, d4]\n"
     "output y \"y\"\n"},
    {"a softmax over as many places as data say, for some rows none; and behind places of before",
     "L=70 S=70; L=33 S=150; L=131 S=40; L=1 S=1; L=300 S=300",
     "size L\nsize S\n"
     "tensor q: f32[3, L, 20] input \"q\"\n"
     "tensor k: f32[3, S, 20] input \"k\"\n"
     "tensor v: f32[3, S, 24] input \"v\"\n"
     "tensor n: i64[3] input \"n\"\n"
     "stage s: f32[h<3, l<L, t<S] = sum[d<20] q[h, l, d] * k[h, t, d]\n"
     "stage g: f32[h5<3, l5<L, t5<S] = #t5 < n[h5] * 12 and #(l5 + 5 - t5) >= 0 ? s[h5, l5, t5] : -inf\n"
     "stage m: f32[h1<3, l1<L] = max[t1<S] g[h1, l1, t1]\n"
     "stage e: f32[h2<3, l2<L, t2<S] = exp(g[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<3, l3<L] = sum[t3<S] e[h3, l3, t3]\n"
     "stage y: f32[h4<3, l4<L, d4<24] out = sum[t4<S] e[h4, l4, t4] / z[h4, l4] * v[h4, t4, d4]\n"
     "output y \"y\"\n"},
    {"a softmax with a finite number below all scores", "L=70 S=70; L=33 S=150; L=131 S=40; L=1 S=1; L=300 S=300",
     "size L\nsize S\n"
     "tensor q: f32[3, L, 20] input \"q\"\n"
     "tensor k: f32[3, S, 20] input \"k\"\n"
     "tensor v: f32[3, S, 24] input \"v\"\n"
     "stage s: f32[h<3, l<L, t<S] = sum[d<20] q[h, l, d] * k[h, t, d]\n"
     "stage g: f32[h5<3, l5<L, t5<S] = #(l5 - t5) >= 0 ? s[h5, l5, t5] : -3e+38\n"
     "stage m: f32[h1<3, l1<L] = max[t1<S] g[h1, l1, t1]\n"
     "stage e: f32[h2<3, l2<L, t2<S] = exp(g[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<3, l3<L] = sum[t3<S] e[h3, l3, t3]\n"
     "stage y: f32[h4<3, l4<L, d4<24] out = sum[t4<S] e[h4, l4, t4] / z[h4, l4] * v[h4, t4, d4]\n"
     "output y \"y\"\n"},
    {"a softmax down columns, of which each sees the places up to its own: rows of scores lie along the lanes",
     "L=70 S=70; L=33 S=150; L=131 S=40; L=20 S=300",
     "size L\nsize S\n"
     "tensor q: f32[20, L] input \"q\"\n"
     "tensor k: f32[S, 20] input \"k\"\n"
     "tensor x: f32[S, L] input \"x\"\n"
     "tensor v: f32[S, 24] input \"v\"\n"
     "stage s: f32[t<S, l<L] = sum[d<20] k[t, d] * q[d, l]\n"
     "stage g: f32[t5<S, l5<L] = #(l5 + 3 - t5) >= 0 ? s[t5, l5] : -inf\n"
     "stage m: f32[l1<L] = max[t1<S] g[t1, l1]\n"
     "stage e: f32[t2<S, l2<L] = exp(g[t2, l2] - m[l2])\n"
     "stage z: f32[l3<L] = sum[t3<S] e[t3, l3]\n"
     "stage y: f32[l4<L, d4<24] out = sum[t4<S] e[t4, l4] / z[l4] * v[t4, d4]\n"
     "stage g1: f32[t6<S, l6<L] = #(l6 + 3 - t6) >= 0 and #(t6 + 40 - l6) >= 0 ? x[t6, l6] : -inf\n"
     "stage m1: f32[l7<L] = max[t7<S] g1[t7, l7]\n"
     "stage e1: f32[t8<S, l8<L] = exp(g1[t8, l8] - m1[l8])\n"
     "stage z1: f32[l9<L] = sum[t9<S] e1[t9, l9]\n"
     "stage u: f32[la<L] out = (sum[ta<S] e1[ta, la] * v[ta, 0]) / z1[la]\n"
     "output y \"y\"\noutput u \"u\"\n"},
    {"products of triangles, on either side, and of a band; a sum up to the row's place", "N=1; N=40; N=131",
     "size N\n"
     "tensor a: f32[N, N] input \"a\"\n"
     "tensor b: f32[N, 37] input \"b\"\n"
     "tensor c: f32[50, N] input \"c\"\n"
     "tensor w: f32[70, 70] const @\n"
     "tensor x: f32[90, 70] input \"x\"\n"
     "stage l: f32[i<N, j<N] = #(i - j) >= 0 ? a[i, j] : 0.0\n"
     "stage y: f32[i1<N, j1<37] out = sum[k1<N] l[i1, k1] * b[k1, j1]\n"
     "stage u: f32[i2<50, j2<N] out = sum[k2<N] c[i2, k2] * (#(j2 - k2) >= 0 ? a[k2, j2] : 0.0)\n"
     "stage v: f32[i3<90, j3<70] out = sum[k3<70] x[i3, k3] * (#(k3 + 9 - j3) >= 0 and #(j3 + 8 - k3) >= 0 ? w[k3, j3] "
     ": 0.0)\n"
     "stage z: f32[i4<N] out = sum[k4<N] (#(i4 - k4) >= 0 ? a[i4, k4] : 0.0)\n"
     "output y \"y\"\noutput u \"u\"\noutput v \"v\"\noutput z \"z\"\n"},
    {"rows of as many places as data say: sums, the largest, products", "N=1 M=40; N=9 M=33; N=21 M=200",
     "size N\nsize M\n"
     "tensor x: f32[N, M, 5] input \"x\"\n"
     "tensor n: i64[N] input \"n\"\n"
     "tensor w: f32[M, 18] input \"w\"\n"
     "stage a: f32[i<N, c<5] out = sum[k<M] (#k < n[i] * 7 ? x[i, k, c] : 0.0)\n"
     "stage b: f32[i1<N] out = max[k1<M] (#k1 < n[i1] * 7 and #k1 >= n[i1] ? x[i1, k1, 0] : -inf)\n"
     "stage d: f32[i2<N, j2<18] out = sum[k2<M] (#k2 < n[i2] * 7 ? x[i2, k2, 1] : 0.0) * w[k2, j2]\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\n"},
    {"rows handed over: softmax, then a norm with a scale", "N=1 L=1; N=5 L=37",
     "size N\nsize L\n"
     "tensor x: f32[N, L] input \"x\"\n"
     "tensor g: f32[L] input \"g\"\n"
     "stage m: f32[a<N] = max[k<L] x[a, k]\n"
     "stage e: f32[b<N, c<L] = exp(x[b, c] - m[b])\n"
     "stage z: f32[d<N] = sum[k1<L] e[d, k1]\n"
     "stage p: f32[f<N, h<L] = e[f, h] / z[f]\n"
     "stage q: f32[i<N] = sum[k2<L] p[i, k2] * p[i, k2]\n"
     "stage y: f32[j<N, l<L] out = p[j, l] * g[l] / sqrt(q[j] + 0.1)\n"
     "output y \"y\"\n"},
    {"rows handed over, read backwards", "N=1; N=5",
     "size N\n"
     "tensor x: f32[N, 37] input \"x\"\n"
     "stage m: f32[a<N] = max[k<37] x[a, k]\n"
     "stage e: f32[b<N, c<37] = exp(x[b, c] - m[b])\n"
     "stage z: f32[d<N] = sum[k1<37] e[d, k1]\n"
     "stage y: f32[f<N, h<37] out = e[f, h] * e[f, 36 - h] / z[f]\n"
     "output y \"y\"\n"},
    {"products with matrices chosen by data", "B=1 N=5; B=3 N=40",
     "size B\nsize N\n"
     "tensor x: f32[N, 6] input \"x\"\n"
     "tensor w: f32[9, 21, 6] input \"w\"\n"
     "tensor i: i64[B] input \"i\"\n"
     "stage y: f32[b<B, a<N, c<21] out = sum[k<6] x[a, k] * w[{i[b]}, c, k]\n"
     "output y \"y\"\n"},
    {"products with matrices and an addend chosen by data that run along the lanes", "B=1; B=7",
     "size B\n"
     "tensor x: f32[B, 3] input \"x\"\n"
     "tensor i: i64[10] const [0, 3, 8, 1, 1, 5, 7, 2, 4, 6]\n"
     "tensor w: f32[9, 3] const @\n"
     "tensor v: f32[9] const @\n"
     "stage s: f32[a<B, c<10] = sum[k<3] x[a, k] * (load w[{i[c]}, k] else 0.5)\n"
     "stage y: f32[b<B, d<10] out = s[b, d] + (load v[{i[d]}] else 0.5)\n"
     "output y \"y\"\n"},
    {"a constant in a sum that its steps share, and that is added to the sum", "B=1; B=7",
     "size B\n"
     "tensor x: f32[B, 3] input \"x\"\n"
     "tensor w: f32[3, 10] const @\n"
     "tensor v: f32[10] const @\n"
     "stage s: f32[a<B, c<10] = sum[k<3] max(x[a, k], v[c]) * w[k, c]\n"
     "stage y: f32[b<B, d<10] out = s[b, d] + v[d]\n"
     "output y \"y\"\n"},
    {"an operand of the run in a sum that its steps share, and that is added to the sum", "B=1; B=150",
     "size B\n"
     "tensor x: f32[B, 3] input \"x\"\n"
     "tensor w: f32[3, 10] input \"w\"\n"
     "tensor v: f32[10, 2] input \"v\"\n"
     "stage s: f32[a<B, c<10] = sum[k<3] max(x[a, k], v[c, 1]) * w[k, c]\n"
     "stage y: f32[b<B, d<10] out = s[b, d] + v[d, 1]\n"
     "output y \"y\"\n"},
    {"columns handed over in strips", "N=4 M=1; N=9 M=530; N=3 M=77",
     "size N\nsize M\n"
     "tensor x: f32[N, M] input \"x\"\n"
     "stage m: f32[a<M] = max[k<N] x[k, a]\n"
     "stage e: f32[b<N, c<M] = exp(x[b, c] - m[c])\n"
     "stage z: f32[d<M] = sum[k1<N] e[k1, d]\n"
     "stage y: f32[f<N, h<M] out = e[f, h] / z[h]\n"
     "output y \"y\"\n"},
    {"rows handed to a product and by it, one reader has fewer of them", "N=1",
     HANDED_ROWS "stage a: f32[n2<N, y2<157, h2<96, k2<8] out = exp(m[n2, y2, h2, k2])\n"
                 "stage r: f32[n3<N, y3<160, k3<8] out = max[h3<96] m[n3, y3, h3, k3]\n"
                 "output a \"a\"\noutput r \"r\"\n"},
    {"a sum of loads whose steps are written out", "",
     "tensor x: f32[3, 12, 40] input \"x\"\n"
     "stage y: f32[n<3, t<40] out = sum[r<12] x[n, r, t]\noutput y \"y\"\n"
     "schedule:schedules 1\nkernel k0 {\n  nest y {\n    rows n\n    tile 3 1\n    unroll r\n  }\n}\n"},
    {"arms that a variable of few values decides: its loop is written out, with lanes and rows", "N=1; N=21",
     "size N\n"
     "tensor x: f32[N, 40] input \"x\"\n"
     "stage y: f32[n<N, q<4, h<40] out = (#q == 0 ? exp(x[n, h]) : 0.5) + (#(q - 2) >= 0 ? tanh(x[n, h]) : 0.25)\n"
     "output y \"y\"\n"},
    {"a product in blocks, whose rows lie side by side and are counted by two variables, the sum by two", "",
     "tensor x: f32[22, 32, 96] input \"x\"\ntensor d: f32[22, 32, 2, 56] input \"d\"\n"
     "stage y: f32[q<2, h<56, i<96] out = sum[t<22, n<32] d[t, n, q, h] * x[t, n, i]\noutput y \"y\"\n"
     "schedule:schedules 1\nkernel k0 {\n  nest y {\n    rows (q h)\n    tile 6 1\n"
     "    block t 4 panels 2 rows 54\n  }\n}\n"},
    {"steps of a recurrence that read this step and the one before; a matrix with its columns along the sum", "",
     "recurrence s1 t<5\n"
     "tensor x: f32[5, 16, 40] input \"x\"\ntensor r: f32[40, 40] input \"r\"\n"
     "declare h: f32[5, 16, 40]\n"
     "stage p: f32[t, n<16, j<40] recurrence s1 = sum[k<40] (load h[t - 1, n, k] else 0.25) * r[j, k]\n"
     "stage c: f32[t, n1<16, j1<40] recurrence s1 = 0.5 * p[t, n1, j1] + x[t, n1, j1]\n"
     "stage h: f32[t, n2<16, j2<40] recurrence s1 = tanh(c[t, n2, j2])\n"
     "stage y: f32[n3<16, j3<40] out = h[4, n3, j3] + c[2, n3, j3]\n"
     "output y \"y\"\n"},
    {"a placement whose axis has two digits, in another one: its pieces count through both", "",
     "tensor x: f32[6, 5] input \"x\"\ntensor u: f32[6, 5] input \"u\"\ntensor t: f32[4, 2, 5, 3] input \"t\"\n"
     "stage p: f32[i<6, c<5] = exp(x[i, c])\n"
     "stage q: f32[i1<6, c1<5] = exp(u[i1, c1])\n"
     "stage r: f32[r0<4, r1<2, r2<5, r3<3] = exp(t[r0, r1, r2, r3])\n"
     "stage w: f32[(a<4, b<3), c2<5] tiled\n"
     "  update [k<6, l<5] w[k, l] := p[k, l]\n  update [k1<6, l1<5] w[k1 + 6, l1] := q[k1, l1]\n"
     "stage z: f32[z0<4, z1<3, z2<5, z3<3] out tiled\n"
     "  update [f<4, g<5, h<3] z[f, 0, g, h] := w[3*f + h, g]\n"
     "  update [f1<4, f2<2, g1<5, h1<3] z[f1, 1 + f2, g1, h1] := r[f1, f2, g1, h1]\n"
     "output z \"z\"\n"},
    {"rows handed on, of an input whose copy lies in another order", "N=1",
     HANDED_ROWS "stage a: f32[n2<N, y2<157, h2<96, k2<8] out = exp(m[n2, y2, h2, k2])\n"
                 "stage r: f32[n3<N, y3<160, k3<8] out = max[h3<96] m[n3, y3, h3, k3]\n"
                 "output a \"a\"\noutput r \"r\"\n"
                 "schedule:schedules 1\ntensor x.padded {\nlayout p3 p0 p1 p2\n}\n"},
    {"rows handed on, the first of the readers looks along them", "N=1",
     HANDED_ROWS "stage r: f32[n3<N, y3<160, k3<8] out = max[h3<96] m[n3, y3, h3, k3]\n"
                 "stage a: f32[n2<N, y2<157, h2<96, k2<8] out = exp(m[n2, y2, h2, k2])\n"
                 "output r \"r\"\noutput a \"a\"\n"},
    {"rows handed to a product, whose result is read at two of them", "N=1",
     HANDED_ROWS "stage a: f32[n2<N, y2<160, z<6, h2<96, k2<8] out = max(m[n2, y2, h2, k2], m[n2, z, h2, k2])\n"
                 "output a \"a\"\n"},
    {"two products and a row between them, in one kernel", "L=1 S=1; L=70 S=19; L=5 S=66",
     "size L\nsize S\n"
     "tensor q: f32[2, L, 4] input \"q\"\n"
     "tensor k: f32[2, S, 4] input \"k\"\n"
     "tensor v: f32[2, S, 20] input \"v\"\n"
     "stage s: f32[h<2, l<L, t<S] = sum[d<4] q[h, l, d] * k[h, t, d]\n"
     "stage m: f32[h1<2, l1<L] = max[t1<S] s[h1, l1, t1]\n"
     "stage e: f32[h2<2, l2<L, t2<S] = exp(s[h2, l2, t2] - m[h2, l2])\n"
     "stage y: f32[h3<2, l3<L, d3<20] out = (sum[t3<S] e[h3, l3, t3] * v[h3, t3, d3]) / (sum[t4<S] e[h3, l3, t4])\n"
     "output y \"y\"\n"},
    {"element by element: axes that count on, axes that repeat", "N=1 M=1; N=5 M=33",
     "size N\nsize M\n"
     "tensor x: f32[3, N, M] input \"x\"\n"
     "tensor r: f32[N, M] input \"r\"\n"
     "tensor c: f32[3, N] input \"c\"\n"
     "stage y: f32[a<3, b<N, d<M] out = x[a, b, d] * r[b, d] + c[a, b]\n"
     "stage z: f32[a1<3, b1<N, d1<M] out = x[a1, b1, d1] < 0.0 ? tanh(x[a1, b1, d1]) : f32(#a1 * 2 - #d1 // 3)\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"narrow and wide types side by side", "N=1; N=70",
     "size N\n"
     "tensor x: f16[N] input \"x\"\n"
     "tensor b: bf16[N] input \"b\"\n"
     "tensor i: i8[N] input \"i\"\n"
     "tensor d: f64[N] input \"d\"\n"
     "stage y: f64[a<N] out = f64(x[a]) * d[a] + f64(b[a])\n"
     "stage z: i8[a1<N] out = i[a1] * 3i8 - i8(sat(i8, x[a1] * 100f16))\n"
     "stage u: f16[a2<N] out = f16(f32(b[a2]) + f32(i[a2]))\n"
     "stage s: f32[] out = sum[k<N to f32] f32(x[k])\n"
     "stage r: i64[a3<N] out = i64(i[a3]) % 4 - i64(i[a3]) // 2\n"
     "output y \"y\"\noutput z \"z\"\noutput u \"u\"\noutput s \"s\"\noutput r \"r\"\n"},
    {"movement: turned, backwards, with steps, spread, at a digit's places", "N=1; N=19",
     "size N\n"
     "tensor x: f32[5, N, 12] input \"x\"\n"
     "stage t: f32[a<12, b<5, c<N] out = x[b, c, a]\n"
     "stage r: f32[a1<5, b1<N, c1<6] out = x[4 - a1, N - 1 - b1, 2*c1 + 1]\n"
     "stage w: f32[a2<5, b2<N, (p<3, q<4)] out = x[a2, b2, 3*q + p]\n"
     "output t \"t\"\noutput r \"r\"\noutput w \"w\"\n"},
    {"pieces stored where they belong, of computed ones and of others", "N=1; N=9",
     "size N\n"
     "tensor x: f32[N, 6] input \"x\"\n"
     "tensor w: f32[6, 5] input \"w\"\n"
     "stage y: f32[a<N, c<5] = max(sum[k<6] x[a, k] * w[k, c], 0.0)\n"
     "stage z: f32[b<N, d<3] = exp(x[b, 2*d])\n"
     "stage c: f32[e<N, f<14] out tiled\n  update [g<N, h<5] c[g, h] := y[g, h]\n  update [i<N, l<3] c[i, 5 + l] := "
     "z[i, l]\n  update [o<N, p<6] c[o, 8 + p] := x[o, p]\n"
     "output c \"c\"\n"},
    {"pieces of different sizes, and a part of a piece", "",
     "tensor x: f32[5, 4] input \"x\"\n"
     "tensor u: f32[5, 5] input \"u\"\n"
     "stage p: f32[e<5, f<3] = exp(u[e, f])\n"
     "stage q: f32[g<5, h<5] = tanh(u[g, h])\n"
     "stage y: f32[a<5, c<4] = exp(x[a, c])\n"
     "stage t: f32[b<5, d<4] out = y[b, 3 - d] * 2.0\n"
     "stage z: f32[m<5, n<10] out tiled\n  update [i<5, j<3] z[i, j] := p[i, j]\n  update [k<5, l<5] z[k, 3 + l] := "
     "q[k, l]\n  update [o<5, r<2] z[o, 8 + r] := y[o, r]\n"
     "output t \"t\"\noutput z \"z\"\n"},
    {"guarded reads where nothing is proved: indices from data, on both sides", "N=1; N=37",
     "size N\n"
     "tensor x: f32[9, 4] input \"x\"\n"
     "tensor i: i64[N] input \"far\"\n"
     "stage y: f32[a<N, b<4] out = (load x[{i[a]}, b] else 7.5)\n"
     "stage z: f32[b1<4, a1<N] out = (load x[{i[a1]} - 1, b1] else f32(#b1))\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"updates: in order, under a condition, added up", "N=1; N=23",
     "size N\n"
     "tensor x: f32[N] input \"x\"\n"
     "tensor i: i64[N] input \"i\"\n"
     "stage y: f32[a<9] out = 0.5 * f32(#a)\n  update [q<N] y[{i[q]}] := x[q] if x[q] > 0.0\n"
     "stage z: f32[b<9] out = 1.0\n  update [q1<N] z[{i[q1]}] += x[q1]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"updates at places outside are dropped", "N=1; N=23",
     "size N\n"
     "tensor x: f32[N] input \"x\"\n"
     "tensor i: i64[N] input \"far\"\n"
     "stage z: f32[b<9] out = 1.0\n  update [q1<N] z[{i[q1]}] += x[q1]\n"
     "output z \"z\"\n"
     "reference:size N\n"
     "tensor x: f32[N] input \"x\"\n"
     "tensor i: i64[N] input \"far\"\n"
     "stage z: f32[b<9] out = 1.0\n  update [q1<N] z[{i[q1]}] += x[q1] if i[q1] >= 0 and i[q1] < 9\n"
     "output z \"z\"\n"},
    {"recurrence of few operations: one launch", "T=1; T=7",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 3, 5] input \"x\"\n"
     "tensor r: f32[5, 5] input \"r\"\n"
     "declare z: f32[T, 3, 5]\n"
     "stage h: f32 [t, b<3, j<5] recurrence s1 out = tanh(x[t, b, j] + (sum[k<5] (load h[t - 1, b, k] else 0.25) * "
     "r[k, j]) "
     "+ (load z[t - 1, b, j] else 0.5))\n"
     "stage z: f32 [t, b1<3, j1<5] recurrence s1 = 0.5 * h[t, b1, j1]\n"
     "output h \"h\"\n"},
    {"recurrence of many operations: launches for parts of a step", "T=3",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 3, 280] input \"x\"\n"
     "tensor r: f32[280, 280] const @\n"
     "declare h: f32[T, 3, 280]\n"
     "stage p: f32 [t, b<3, j<280] recurrence s1 = sum[k<280] (load h[t - 1, b, k] else 0.0) * r[k, j]\n"
     "stage h: f32 [t, b1<3, j1<280] recurrence s1 out = tanh(x[t, b1, j1] + 0.1 * p[t, b1, j1])\n"
     "output h \"h\"\n"},
    {"recurrence: chunks of lanes are whole tiles of each nest, also of a tile that is stated", "T=3",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 3, 280] input \"x\"\n"
     "tensor r: f32[280, 280] const @\n"
     "declare h: f32[T, 3, 280]\n"
     "stage p: f32 [t, b<3, j<280] recurrence s1 = sum[k<280] (load h[t - 1, b, k] else 0.0) * r[k, j]\n"
     "stage h: f32 [t, b1<3, j1<280] recurrence s1 out = tanh(x[t, b1, j1] + 0.1 * p[t, b1, j1])\n"
     "output h \"h\"\n"
     "schedule:schedules 1\nkernel k0 {\n  nest p {\n    tile 3 3\n  }\n  nest h {\n    tile 1 4\n  }\n}\n"},
    {"recurrence in two launches a step: the first reads what the second wrote the step before", "T=3",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 512] input \"x\"\n"
     "tensor r: f32[512, 512] const @\n"
     "declare z: f32[T, 512]\n"
     "stage h: f32 [t, j<512] recurrence s1 out = tanh(x[t, j] + (load z[t - 1, j] else 0.5))\n"
     "stage z: f32 [t, j1<512] recurrence s1 = sum[k<512] 0.01 * h[t, k] * r[k, j1]\n"
     "output h \"h\"\n"},
    {"walks: each point on its own, until nothing moves any more; only the last step has room", "N=1; N=8; N=43; N=0",
     "size N\n"
     "recurrence s1 d<5\n"
     "tensor x: f32[N, 4] input \"x\"\n"
     "tensor start: i64[11] const [0, 6, 1, 2, 4, 3, 0, 5, 6, 1, 0]\n"
     "tensor column: i64[7] const [0, 3, 2, 1, 0, 0, 0]\n"
     "tensor yes: i64[7] const [1, 3, 5, 4, 4, 5, 6]\n"
     "tensor no: i64[7] const [2, 4, 6, 6, 4, 5, 6]\n"
     "stage k: i64 [d, n<N, r<11] recurrence s1 = x[n, {column[{(load k[d - 1, n, r] else start[r])}]}] > 0.1 ? "
     "yes[{(load "
     "k[d - 1, n, r] else start[r])}] : no[{(load k[d - 1, n, r] else start[r])}]\n"
     "stage y: i64[n1<N, r1<11] out = k[4, n1, r1] * 2\n"
     "output y \"y\"\n"},
    {"walks that never rest: each step looks elsewhere; one point, of one variable, of none", "",
     "recurrence s1 d<6\nrecurrence s2 e<3\n"
     "tensor t: i64[6, 9] const [3, 1, 4, 1, 5, 8, 2, 6, 5, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, "
     "1, 2, 3, 5, 8, 0, 2, 4, 2, 7, 1, 8, 2, 8, 1, 8, 2, 0, 0, 1, 1, 2, 2, 3, 3, 4]\n"
     "tensor i: i64[13] const [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 2, 4, 6]\n"
     "stage k: i64 [d, a<13] recurrence s1 = t[d, {(load k[d - 1, a] else i[a])}]\n"
     "stage l: i64 [e] recurrence s2 = t[e, {(load l[e - 1] else 3)}]\n"
     "stage y: i64[b<13] out = k[5, b]\n"
     "stage z: i64[] out = l[2]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"the largest and the least along lanes: NaN wins, wherever it stands; rows without one; open and known lengths",
     "N=1; N=16; N=70; N=133",
     "size N\n"
     "tensor u: f32[5, N] input \"u\"\n"
     "tensor v: f64[3, 97] input \"v\"\n"
     "stage x: f32[p<5, q<N] out = #p == 1 and #q == #(N - 1) or #p == 2 and #q == 0 or #p == 4 and #q == 7 ? nan : "
     "u[p, q]\n"
     "stage y: f32[a<5] out = max[k<N] x[a, k]\n"
     "stage z: f32[b<5] out = min[l<N where #l != 3] x[b, l] * 2.0\n"
     "stage w: f64[c<3] out = max[h<97] (#c == 1 and #h == 60 ? f64(nan) : v[c, h])\n"
     "stage e: f32[d<5, f<N] out = exp(x[d, f])\n"
     "output x \"x\"\noutput y \"y\"\noutput z \"z\"\noutput w \"w\"\noutput e \"e\"\n"},
    {"windows over what a product makes just ahead of them: steps of one and two, a border on all sides, on one, none; "
     "of an open batch, along the second axis",
     "N=1; N=2; N=0",
     "size N\n"
     "tensor x: f32[N, 66, 50, 6] input \"x\"\n"
     "tensor a: f32[6, 96] const @\n"
     "tensor b: f32[6, 88] const @\n"
     "tensor w: f32[3, 3, 96] const @\n"
     "tensor u: f32[3, 2, 88] const @\n"
     "tensor q: f32[40, 97, 5] input \"q\"\n"
     "tensor d: f32[5, 80] const @\n"
     "tensor v: f32[5, 80] const @\n"
     "stage e: f32[n<N, h<65, o<50, c<96] = sum[k<6] x[n, h, o, k] * a[k, c]\n"
     "stage e1: f32[n1<N, h1<65, o1<50, c1<96] = max(e[n1, h1, o1, c1], -0.5)\n"
     "stage y: f32[n2<N, h2<33, o2<25, c2<96] out = sum[i<3, j<3] (load e1[n2, 2*h2 + i - 1, 2*o2 + j - 1, c2] else "
     "0.0) * w[i, j, c2]\n"
     "stage f: f32[n3<N, h3<66, o3<50, c3<88] = sum[k3<6] x[n3, h3, o3, k3] * b[k3, c3]\n"
     "stage z: f32[n4<N, h4<65, o4<49, c4<88] out = sum[i4<3, j4<2] (load f[n4, h4 + 2*i4 - 3, o4 + j4, c4] else 0.25) "
     "* u[i4, j4, c4]\n"
     "stage g: f32[r<40, s<97, c5<80] = sum[k5<5] q[r, s, k5] * d[k5, c5]\n"
     "stage t: f32[r1<40, s1<31, c6<80] out = sum[l<5] g[r1, 3*s1 + l, c6] * v[l, c6]\n"
     "output y \"y\"\noutput z \"z\"\noutput t \"t\"\n"},
    {"windows that slide: rows share vectors, whatever the stride; along the lines of a picture where lanes are",
     "N=1 H=9; N=2 H=4",
     "size N\nsize H\n"
     "tensor x: f32[N, H, 19, 40] input \"x\"\n"
     "tensor q: f32[6, 21, 37] input \"q\"\n"
     "tensor w: f32[3, 3, 40] const @\n"
     "tensor u: f32[6, 5, 2] const @\n"
     "stage y: f32[n<N, o<H, p<19, c<40] out = sum[k<3, l<3] (load x[n, o + k - 1, p + l - 1, c] else 0.0) * w[k, l, "
     "c]\n"
     "stage z: f32[n1<N, o1<H, p1<9, c1<40] out = sum[k1<3, l1<3] (load x[n1, o1 + k1 - 1, 2*p1 + l1, c1] else 0.0) * "
     "w[k1, l1, c1]\n"
     "stage v: f32[a<6, b<21, d<37] out = sum[e<5, f<2] (load q[a, b + e - 2, d + 2*f - 1] else 0.0) * u[a, e, f]\n"
     "stage m: f32[g<6, h<10, i<18] out = max[r<3, s<3] q[g, 2*h + r, 2*i + s]\n"
     "output y \"y\"\noutput z \"z\"\noutput v \"v\"\noutput m \"m\"\n"},
    {"windows along one axis: long rows of channels in strips, neighbours and some places apart; of an open number of "
     "rows; groups of columns that cannot share a vector",
     "N=1 M=70; N=2 M=5; N=0 M=3",
     "size N\nsize M\n"
     "tensor x: f32[N, 301, 96] input \"x\"\n"
     "tensor q: f32[M, 96] input \"q\"\n"
     "tensor w: f32[3, 96] const @\n"
     "tensor g: f32[7, 72, 8] const @\n"
     "tensor p: f32[N, 9, 56] input \"p\"\n"
     "stage y: f32[n<N, o<301, c<96] out = sum[k<3] (load x[n, o + k - 1, c] else 0.0) * w[k, c]\n"
     "stage y1: f32[n1<N, o1<301, c1<96] out = max(y[n1, o1, c1], 0.5)\n"
     "stage z: f32[n2<N, o2<301, c2<96] out = sum[k2<3] (load x[n2, o2 + 32*k2 - 32, c2] else 0.0) * w[k2, c2]\n"
     "stage v: f32[m<M, c3<96] out = sum[k3<3] (load q[m + k3 - 1, c3] else 0.0) * w[k3, c3]\n"
     "stage u: f32[n4<N, r<9, (g4<7, f<8)] out = sum[l<9, e<8] (load p[n4, r + l - 4, 8*g4 + e] else 0.0) * g[g4, 8*l "
     "+ e, f]\n"
     "output y \"y\"\noutput y1 \"y1\"\noutput z \"z\"\noutput v \"v\"\noutput u \"u\"\n"},
    {"windows over inputs, which fall apart by axes: rows first, then along them; of few channels a row at a time; "
     "edges in every direction",
     "",
     "tensor x: f32[17, 13, 37] input \"x\"\n"
     "tensor q: f32[2, 19, 45] input \"q\"\n"
     "tensor r: f32[3, 7, 9, 40] input \"r\"\n"
     "tensor i: i32[18, 9, 30] input \"i\"\n"
     "tensor p: f32[21, 64] input \"p\"\n"
     "stage y: f32[c<17, a<7, b<19] out = max[k<3, l<3] (load x[c, 2*a + k - 1, 2*b + l - 1] else -inf)\n"
     "stage z: f32[c1<2, a1<19, b1<45] out = sum[k1<5, l1<3] (load q[c1, a1 + k1 - 2, b1 + l1 - 1] else 0.0)\n"
     "stage v: f32[c2<3, d2<4, a2<4, b2<20] out = min[j2<3, k2<3, l2<2] (load r[c2, 2*d2 + j2 - 1, 3*a2 + k2 - 2, 2*b2 "
     "+ l2 - 1] else inf)\n"
     "stage u: i32[c3<18, a3<9, b3<30] out = max[k3<2, l3<4] (load i[c3, a3 + 2*k3 - 1, b3 + l3 - 2] else "
     "-2147483648i32)\n"
     "stage w: f32[c4<2, a4<9, b4<22] out = max[k4<3, l4<3] q[c4, 2*a4 + k4, 2*b4 + l4 - 0]\n"
     "stage t: f32[c5<21, b5<64] out = max[l5<5] (load p[c5, b5 + l5 - 2] else -inf)\n"
     "output y \"y\"\noutput z \"z\"\noutput v \"v\"\noutput u \"u\"\noutput w \"w\"\noutput t \"t\"\n"},
    {"large windows over what is computed: by rows, with all channels", "N=1; N=3",
     "size N\n"
     "tensor x: f32[N, 37, 11, 13] input \"x\"\n"
     "tensor q: f32[9, 12, 10, 14] input \"q\"\n"
     "tensor w: f32[37, 37] const @\n"
     "stage v: f32[n<N, c<37, h<11, i<13] = sum[p<37] x[n, p, h, i] * w[c, p]\n"
     "stage y: f32[n1<N, c1<37, a<11, b<13] = max[k<5, l<5] (load v[n1, c1, a + k - 2, b + l - 2] else -inf)\n"
     "stage y1: f32[n2<N, c2<37, a1<11, b1<13] out = y[n2, c2, a1, b1] + v[n2, c2, a1, b1]\n"
     "stage u: f32[d<9, e<12, f<10, g<14] = q[d, e, f, g] * 0.5 + 1.0\n"
     "stage z: f32[d1<9, e1<12, f1<10, g1<14] out = sum[r<5, s<3, t<5] (load u[d1, e1 + r - 2, f1 + s - 1, g1 + t - 2] "
     "else 0.0)\n"
     "output y1 \"y\"\noutput z \"z\"\n"},
    {"windows over inputs, outside of which something counts: more than the least, and a number for each tap", "",
     "tensor x: f32[17, 13, 37] input \"x\"\n"
     "stage y: f32[c<17, a<13, b<37] out = max[k<3, l<3] (load x[c, a + k - 1, b + l - 1] else 0.25)\n"
     "stage z: f32[c1<17, a1<13, b1<37] out = sum[k1<3, l1<3] (load x[c1, a1 + k1 - 1, b1 + l1 - 1] else 0.25)\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"windows with constants over inputs: a plane at a time, with its border; lanes in steps of a stride by turns; "
     "epilogue",
     "N=1; N=2",
     "size N\n"
     "tensor x: f32[N, 17, 12, 44] input \"x\"\n"
     "tensor q: f32[18, 10, 66] input \"q\"\n"
     "tensor p: f32[19, 95] input \"p\"\n"
     "tensor w: f32[17, 3, 3] const @\n"
     "tensor u: f32[18, 5, 4] const @\n"
     "tensor v: f32[19, 7] const @\n"
     "stage y: f32[n<N, c<17, a<6, b<22] = sum[k<3, l<3] (load x[n, c, 2*a + k - 1, 2*b + l - 1] else 0.0) * w[c, k, "
     "l]\n"
     "stage y1: f32[n1<N, c1<17, a1<6, b1<22] out = max(y[n1, c1, a1, b1] + w[c1, 0, 0], 0.0)\n"
     "stage z: f32[c2<18, a2<10, b2<22] out = sum[k2<5, l2<4] (load q[c2, a2 + k2 - 2, 3*b2 + l2 - 2] else 0.0) * "
     "u[c2, k2, l2]\n"
     "stage t: f32[c3<19, b3<48] out = sum[l3<7] (load p[c3, 2*b3 + l3 - 3] else 0.0) * v[c3, l3]\n"
     "output y1 \"y\"\noutput z \"z\"\noutput t \"t\"\n"},
    {"lanes apart, and the rows of a tile the places between", "",
     "tensor x: f32[5, 70] input \"x\"\n"
     "tensor q: f32[5, 111] input \"q\"\n"
     "stage y: f32[a<5, r<2, b<35] out = x[a, 2*b + r] * 2.0\n"
     "stage z: f32[a1<5, r1<3, b1<37] out = q[a1, 3*b1 + r1]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"places looked up along the last axis of what is computed: another one runs along the lanes", "",
     "tensor x: f32[3, 23, 13] input \"x\"\n"
     "tensor t: i64[21] const [0, 0, 1, 2, 2, 3, 4, 4, 5, 5, 6, 7, 7, 8, 9, 9, 10, 11, 12, 12, 12]\n"
     "stage v: f32[a<3, c<23, j<13] = exp(x[a, c, j])\n"
     "stage y: f32[a1<3, c1<23, m<21] out = v[a1, c1, {t[m]}] * 0.5 + v[a1, c1, min({t[m]} + 1, 12)]\n"
     "output y \"y\"\n"},
    {"so far: sums, products backwards, without the place itself", "N=5; N=40",
     "size N\n"
     "tensor x: f32[3, N] input \"x\"\n"
     "stage y: f32[a<3, b<N] out = sum[k<N where #k <= #b] x[a, k]\n"
     "stage z: f32[a1<3, b1<N] out = prod[k1<N where #k1 > #b1] x[a1, k1] + 1.0\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"places after sorting", "N=3; N=60",
     "size N\n"
     "tensor u: f32[2, N] input \"u\"\n"
     "stage x: f32[p<2, q<N] out = u[p, q] < -0.7 ? nan : u[p, q]\n"
     "tensor i: i64[N] input \"i\"\n"
     "stage y: i64[a<2, b<N] out = sum[k<N] i64(x[a, k] > x[a, b] or (x[a, k] == x[a, b] and #k < #b))\n"
     "stage z: i64[b1<N] out = sum[k1<N] i64(i[k1] < i[b1] or (i[k1] == i[b1] and #k1 < #b1))\n"
     "output x \"x\"\noutput y \"y\"\noutput z \"z\"\n"},
    {"few rows, and an open number of others beside them in a tile: one group, two of them", "N=1; N=2; N=5; N=11",
     "size N\n"
     "tensor x: f32[N, 110] input \"x\"\n"
     "tensor u: f32[50, 70] const @\n"
     "tensor w: f32[2, 35, 70] const @\n"
     "stage v: f32[n<N, o<3, c<50] out = sum[k<70] x[n, k + 20*o] * u[c, k]\n"
     "stage y: f32[n1<N, (m<2, q<35), o1<3] = sum[k1<70] x[n1, k1 + 20*o1] * w[m, q, k1]\n"
     "stage z: f32[n2<N, o2<3, q2<35] out = y[n2, q2, o2] * y[n2, q2 + 35, o2]\n"
     "output v \"v\"\noutput z \"z\"\n"},
    {"few rows, and lines of a picture beside them, some of them outside of it", "",
     "tensor x: f32[6, 8, 8] input \"x\"\n"
     "tensor w: f32[40, 6, 3, 3] const @\n"
     "stage y: f32[o<4, q<4, m<40] out = sum[c<6, k<3, l<3] (load x[c, 2*o + k - 1, 2*q + l - 1] else 0.0) * w[m, c, "
     "k, l]\n"
     "output y \"y\"\n"},
    {"the first few places after sorting, and all: written where they are found; equal values, NaN, nothing better "
     "than the worst, fewer places than are wanted",
     "N=3; N=50; N=70; N=300; N=1031",
     "size N\n"
     "tensor u: f32[4, N] input \"u\"\n"
     "tensor i: i32[4, N] input \"i\"\n"
     "stage x: f32[p<4, q<N] out = #p == 0 ? f32(i[p, q]) : #p == 1 ? (u[p, q] < -0.7 ? nan : u[p, q]) : #p == 2 ? "
     "(u[p, q] < 0.97 ? -inf : u[p, q]) : u[p, q]\n"
     "stage r: i64[a<4, b<N] = sum[k<N] i64(x[a, k] > x[a, b] or (x[a, k] == x[a, b] and #k < #b))\n"
     "stage f: i64[a1<4, b1<5] out = 77\n  update [p1<4, q1<N] f[p1, {r[p1, q1]}] := #q1 if r[p1, q1] < 5\n"
     "stage v: f32[a2<4, b2<21] out = f32(#(a2 - b2))\n  update [p2<4, q2<N] v[p2, {r[p2, q2]}] := x[p2, q2] * 2.0 if "
     "r[p2, q2] < 21\n"
     "stage s: i64[a3<4, b3<N] = sum[k3<N] i64(x[a3, k3] < x[a3, b3] or (x[a3, k3] == x[a3, b3] and #k3 < #b3))\n"
     "stage w: f32[b4<N, a4<4] out = 0.5\n  update [p4<4, q4<N] w[{s[p4, q4]}, p4] := x[p4, q4]\n"
     "output x \"x\"\noutput f \"f\"\noutput v \"v\"\noutput w \"w\"\n"},
    {"the first few of other types, of rows that do not lie side by side, of one place each", "N=60; N=257",
     "size N\n"
     "tensor d: f64[N, 3] input \"d\"\n"
     "tensor i: i32[N] input \"i\"\n"
     "tensor n: u8[2, N] input \"n\"\n"
     "stage e: i64[N0<N, c<3] = sum[k<N] i64(d[k, c] < d[N0, c] or (d[k, c] == d[N0, c] and #k < #N0))\n"
     "stage y: f64[a<3, b<7, 1] out = f64(1.0)\n  update [q<N, p<3] y[p, {e[q, p]}, 0] := d[q, p] if e[q, p] < 7\n"
     "stage j: i64[l<N] = sum[k1<N] i64(neg(i[k1]) > neg(i[l]) or (neg(i[k1]) == neg(i[l]) and #k1 < #l))\n"
     "stage z: i64[b1<40] out = 0\n  update [q1<N] z[{j[q1]}] := #q1 if j[q1] < 40\n"
     "stage o: i64[g<2, h<N] = sum[k2<N] i64(n[g, k2] > n[g, h] or (n[g, k2] == n[g, h] and #k2 < #h))\n"
     "stage t: u8[b2<2, 1] out = u8(3)\n  update [p2<2, q2<N] t[p2, 0] := n[p2, q2] if o[p2, q2] < 1\n"
     "output y \"y\"\noutput z \"z\"\noutput t \"t\"\n"},
    {"inputs of one size that come with two", "N=3",
     "size N\n"
     "tensor x: f32[2, N] input \"x\"\n"
     "tensor z: f32[N] input \"z\"\n"
     "stage y: f32[a<2, b<N] out = x[a, b] + z[b]\n"
     "output y \"y\"\n"
     "refused:other input z: dimension 0 must be N"},
    {"a size found on the way that is not as required", "N=9",
     "size N\n"
     "size P in 0..1000000000\n"
     "tensor x: f32[N] input \"x\"\n"
     "stage count: i64[] = sum[k<N] i64(x[k] > 5.0)\n"
     "stage y: i64[p<P] out = #p\n"
     "output y \"y\"\n"
     "late P = count <= N\n"
     "require P - 1 >= 0 \"none is found\"\n"
     "refused:none is found"},
    {"a size found on the way, beside what says it", "N=9; N=1",
     "size N\n"
     "size P in 0..1000000000\n"
     "tensor x: f32[N] input \"x\"\n"
     "stage count: i64[] = sum[k<N] i64(x[k] > 0.0)\n"
     "stage y: i64[p<P] out = #p * 3 + count[]\n"
     "late P = count <= N\n"
     "output y \"y\"\n"},
    {"a place of its own in front of loops that read it, some lanes at a time", "N=2 M=37; N=1 M=16",
     "size N\nsize M\n"
     "tensor w: f32[1] input \"w\"\n"
     "tensor t: i64[N, M] input \"t\"\n"
     "tensor x: f32[9, N, M] input \"x\"\n"
     "stage v: f32[1] out = neg(w[0])\n"
     "stage l: f32[a<N, b<M] = x[{t[a, b]}, a, b] * v[{min(t[a, b], 0)}]\n"
     "stage k: f32[c<N, d<M] = t[c, d] != 1 ? v[{min(t[c, d], 0)}] : 0.0\n"
     "stage y: f32[] out = (sum[e<N, f<M] l[e, f]) / (sum[g<N, h<M] k[g, h])\n"
     "output v \"v\"\noutput y \"y\"\n"},
    {"loops that nobody reads", "N=9; N=1",
     "size N\nsize i in 0..inf\nsize j in 0..inf\n"
     "tensor x: f32[N] input \"x\"\n"
     "loop trips 3 counter i {\n  carry c: f32[N] = x\n"
     "  stage p: f32[b<N] = c[b] + x[N - 1 - b]\n"
     "  next c = p -> last: f32[N]\n}\n"
     "loop trips 4 counter j {\n  carry d: f32[N] = x\n"
     "  stage q: f32[e<N] = d[e] * x[N - 1 - e]\n"
     "  next d = q -> end: f32[N]\n}\n"
     "stage y: f32[a<N] out = x[a] + x[N - 1 - a]\n"
     "output y \"y\"\n"},
    {"what comes from outside a loop is read in every trip, before others need room", "N=40; N=3",
     "size N\nsize i in 0..inf\n"
     "tensor x: f32[N] input \"x\"\n"
     "stage t: f32[a<N] = x[a] + x[N - 1 - a]\n"
     "loop trips 3 counter i {\n  carry c: f32[N] = x\n"
     "  stage p: f32[b<N] = c[b] * t[b] + t[N - 1 - b]\n"
     "  stage q: f32[d<N] = p[d] + p[N - 1 - d]\n"
     "  stage r: f32[e<N] = q[N - 1 - e] * 0.25 + q[e]\n"
     "  next c = r -> last: f32[N] out\n}\n"
     "output last \"last\"\n"},
    {"a sum that ends at its row, all lanes at the same place", "N=9",
     "size N\n"
     "tensor x: f32[N, 20] input \"x\"\n"
     "stage y: f32[a<N, b<20] out = sum[k<N where #(a - k) >= 0] max(x[k, b], x[a, b])\n"
     "output y \"y\"\n"},
    {"a sum that ends at its batch", "",
     "tensor w: f32[3, 16, 9] input \"w\"\n"
     "tensor x: f32[9, 32] input \"x\"\n"
     "stage y: f32[p<3, q<16, c<32] out = sum[k<9 where #(p + 5 - k) >= 0] w[p, q, k] * x[k, c]\n"
     "output y \"y\"\n"},
    {"the mirror image of a row beside the row", "",
     "tensor x: f32[8, 20] input \"x\"\n"
     "stage m: f32[i<8] = max[j<20] x[i, j]\n"
     "stage s: f32[i1<8, j1<20] = exp(x[i1, j1] - m[i1])\n"
     "stage y: f32[i2<8, j2<20] out = s[i2, j2] * s[i2, 19 - j2] - m[i2]\n"
     "output y \"y\"\n"},
    {"a row carried on by another one: steps of the window past the end of the tensor, each lane in a row of its own",
     "",
     "tensor p: f32[24, 28, 5] input \"p\"\n"
     "tensor x: f32[24, 28, 2] input \"x\"\n"
     "tensor w: f32[28, 6] input \"w\"\n"
     "stage y: f32[b<24, c<28, l<2] out = sum[k<6] (#(4 - k - l) >= 0 ? p[b, c, k + l] : x[b, c, k + l - 5]) * w[c, "
     "k]\n"
     "output y \"y\"\n"},
    {"nothing, with a border around it", "",
     "tensor x: f32[0, 12, 8] input \"x\"\n"
     "stage r: f32[a<0, b<12, c<8] = exp(x[a, b, c])\n"
     "stage y: f32[d<8, e<12, g<8] out = (load r[d - 4, e, g] else 0.5)\n"
     "output y \"y\"\n"},
    {"the first of equal places, over two axes of which the first one lies innermost", "",
     "tensor x: i32[3, 2, 37] input \"x\"\n"
     "stage t: i32[a<3, b<2, c<37] = x[a, b, c] > 5i32 ? 1i32 : 0i32\n"
     "stage y: i64[c1<37] out = argmax[b1<2, a1<3 payload #(3*b1 + a1)] t[a1, b1, c1]\n"
     "stage z: i64[c2<37] out = argmin_last[b2<2, a2<3 payload #(3*b2 + a2)] t[a2, b2, c2]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"constants of one factor side by side; a last panel that is not full", "",
     "tensor x: f32[7, 23] input \"x\"\n"
     "tensor v: f32[23] input \"v\"\n"
     "tensor w: f32[2, 23, 37] const @\n"
     "stage y: f32[a<7, c<37] out = sum[k<23] x[a, k] * max(w[0, k, c] * v[k], w[1, k, c])\n"
     "output y \"y\"\n"},
    {"constants in fixed point: a few rows or an open number of them, panels that are not whole, columns of zeros, a "
     "batch of constants",
     "N=1; N=11",
     "size N\n"
     "tensor x: f32[N, 211] input \"x\"\n"
     "tensor u: f32[2, 3, 64] input \"u\"\n"
     "tensor w: f32[211, 712] const @\n"
     "tensor v: f32[2, 64, 1100] const @\n"
     "stage y: f32[n<N, c<712] out = max(sum[k<211] x[n, k] * w[k, c], 0.0)\n"
     "stage z: f32[b<2, r<3, c1<1100] out = (sum[k1<64] u[b, r, k1] * v[b, k1, c1]) + 0.5\n"
     "stage s: f32[r1<3] out = sum[k2<712] (#k2 < 3 ? 0.0 : w[0, k2]) * w[r1, k2]\n"
     "output y \"y\"\noutput z \"z\"\noutput s \"s\"\n"},
    {"constants of 4, 2 and 8 bits with a scale, and a zero point, for each block of terms; open rows, three of them; "
     "a "
     "last panel that is not full",
     "N=1; N=5",
     "size N\n"
     "tensor x: f32[N, 128] input \"x\"\n"
     "tensor w: u8[128, 177] const @\n"
     "tensor z: u8[4, 177] const @\n"
     "tensor s: f32[4, 177] const @\n"
     "stage a: f32[k<128, n<177] = (f32(band(i32(w[k, n]), 15i32)) - f32(band(i32(z[k//32, n]), 15i32))) * s[k//32, "
     "n]\n"
     "stage b: f32[k1<128, n1<177] = (f32(band(shr(i32(w[k1, n1]), 4i32), 3i32)) - 2.0) * s[k1//32, n1]\n"
     "stage c: f32[k2<128, n2<177] = (f32(w[k2, n2]) - 128.0) * s[k2//32, n2]\n"
     "stage p: f32[r<N, j<177] out = 3000.0 + (sum[i<128] x[r, i] * a[i, j])\n"
     "stage q: f32[r1<N, j1<177] out = 3000.0 + (sum[i1<128] x[r1, i1] * b[i1, j1])\n"
     "stage y: f32[j2<177] out = 3000.0 + (sum[i2<128] x[0, i2] * c[i2, j2])\n"
     "tensor g: f32[177] const @\n"
     "tensor h: u8[177] const @\n"
     "stage e: f32[k3<128, n3<177] = (f32(w[k3, n3]) - f32(h[n3])) * g[n3]\n"
     "stage t: f32[r3<N, j3<177] out = 3000.0 + (sum[i3<128] x[r3, i3] * e[i3, j3]) * 0.5\n"
     "output p \"p\"\noutput q \"q\"\noutput y \"y\"\noutput t \"t\"\n"},
    {"constants of floats of one byte with a scale for each column, or for each block of terms; codes of all kinds but "
     "NaN",
     "N=1; N=5",
     "size N\n"
     "tensor x: f32[N, 128] input \"x\"\n"
     "tensor w: u8[128, 177] const @\n"
     "tensor g: f32[177] const @\n"
     "tensor s: f32[4, 177] const @\n"
     "stage a: f8e4m3fn[k<128, n<177] = bitcast(f8e4m3fn, band(w[k, n], 190u8))\n"
     "stage b: f8e5m2[k1<128, n1<177] = bitcast(f8e5m2, band(w[k1, n1], 187u8))\n"
     "stage e: f32[k2<128, n2<177] = f32(a[k2, n2]) * g[n2]\n"
     "stage h: f32[k3<128, n3<177] = f32(b[k3, n3]) * s[k3//32, n3]\n"
     "stage p: f32[r<N, j<177] out = 3000.0 + (sum[i<128] x[r, i] * e[i, j])\n"
     "stage q: f32[r1<N, j1<177] out = 3000.0 + (sum[i1<128] x[r1, i1] * h[i1, j1])\n"
     "output p \"p\"\noutput q \"q\"\n"},
    {"two equal kernels with constants of 4 bits each", "",
     "tensor x: f32[1, 128] input \"x\"\n"
     "tensor w: u8[128, 176] const @\n"
     "tensor v: u8[128, 176] const @\n"
     "tensor s: f32[4, 176] const @\n"
     "tensor u: f32[4, 176] const @\n"
     "stage a: f32[k<128, n<176] = (f32(band(i32(w[k, n]), 15i32)) - 8.0) * s[k//32, n]\n"
     "stage b: f32[k1<128, n1<176] = (f32(band(i32(v[k1, n1]), 15i32)) - 8.0) * u[k1//32, n1]\n"
     "stage p: f32[j<176] out = sum[i<128] x[0, i] * a[i, j]\n"
     "stage q: f32[j1<176] out = sum[i1<128] x[0, i1] * b[i1, j1]\n"
     "output p \"p\"\noutput q \"q\"\n"},
    {"constants of few bits along rows of columns, whose blocks are shorter than a word", "",
     "tensor x: f32[3, 132] input \"x\"\n"
     "tensor w: u8[136, 132] const @\n"
     "tensor s: f32[136, 33] const @\n"
     "stage a: f32[n<136, k<132] = (f32(band(i32(w[n, k]), 15i32)) - 8.0) * s[n, k//4]\n"
     "stage y: f32[r<3, j<136] out = 3000.0 + (sum[i<132] x[r, i] * a[j, i])\n"
     "output y \"y\"\n"},
    {"sums of integers in a sum of floats: bytes times codes of 4 and 2 bits, and of bytes, with scales on both sides "
     "for "
     "each block; open rows, one row, blocks of less than a word",
     "N=1; N=5",
     "size N\n"
     "tensor x: i8[N, 4, 32] input \"x\"\n"
     "tensor r: f32[N, 4] input \"r\"\n"
     "tensor w: u8[177, 4, 32] const @\n"
     "tensor s: f32[177, 4] const @\n"
     "stage a: u8[n<177, q<4, j<32] = u8(band(i32(w[n, q, j]), 15i32))\n"
     "stage b: u8[n1<177, q1<4, j1<32] = u8(band(i32(w[n1, q1, j1]), 3i32))\n"
     "stage e: u8[n2<177, q2<16, j2<8] = u8(band(i32(w[n2, q2//4, j2 + 8*(q2 - 4*(q2//4))]), 3i32))\n"
     "stage p: f32[i<N, m<177] out = 1000000.0 + (sum[q3<4, j3<32] f32(i32(x[i, q3, j3]) * i32(a[m, q3, j3])) * r[i, "
     "q3] * s[m, q3])\n"
     "stage o: f32[i1<N, m1<177] out = 1000000.0 + (sum[q4<4, j4<32] f32(i32(x[i1, q4, j4]) * i32(b[m1, q4, j4])) * "
     "s[m1, q4])\n"
     "stage t: f32[i2<N, m2<177] out = 1000000.0 + (sum[q5<4, j5<32] f32(i32(x[i2, q5, j5]) * i32(w[m2, q5, j5])) * "
     "r[i2, q5])\n"
     "stage y: f32[m3<177] out = 1000000.0 + (sum[q6<16, j6<8] f32(i32(x[0, q6//4, j6 + 8*(q6 - 4*(q6//4))]) * "
     "i32(e[m3, q6, j6])) * s[m3, q6//4])\n"
     "output p \"p\"\noutput o \"o\"\noutput t \"t\"\noutput y \"y\"\n"},
    {"many rows times constants of 4, 2 and 8 bits, and of floats of one byte: panels are computed once for all rows, "
     "whole ones and a part of the sum at a time; zero points; rows that are computed, too",
     "",
     "tensor x: f32[71, 128] input \"x\"\n"
     "tensor w: u8[128, 177] const @\n"
     "tensor z: u8[4, 177] const @\n"
     "tensor s: f32[4, 177] const @\n"
     "tensor g: f32[128] const @\n"
     "stage a: f32[k<128, n<177] = (f32(band(i32(w[k, n]), 15i32)) - f32(band(i32(z[k//32, n]), 15i32))) * s[k//32, "
     "n]\n"
     "stage b: f32[k1<128, n1<177] = (f32(band(shr(i32(w[k1, n1]), 4i32), 3i32)) - 2.0) * s[k1//32, n1]\n"
     "stage c: f32[k2<128, n2<177] = (f32(w[k2, n2]) - f32(z[k2//32, n2])) * s[k2//32, n2]\n"
     "stage d: f32[k3<128, n3<177] = f32(bitcast(f8e4m3fn, band(w[k3, n3], 190u8))) * s[k3//32, n3]\n"
     "stage e: f32[k4<128, n4<177] = f32(w[k4, n4]) - 128.0\n"
     "stage p: f32[r<71, j<177] out = 3000.0 + (sum[i<128] x[r, i] * a[i, j])\n"
     "stage q: f32[r1<71, j1<177] out = 3000.0 + (sum[i1<128] x[r1, i1] * g[i1] * b[i1, j1])\n"
     "stage y: f32[r2<71, j2<177] out = 3000.0 + (sum[i2<128] x[r2, i2] * c[i2, j2])\n"
     "stage t: f32[r3<71, j3<177] out = 3000.0 + (sum[i3<128] x[r3, i3] * d[i3, j3])\n"
     "stage u: f32[r4<71, j4<177] out = 3000.0 + (sum[i4<128] x[r4, i4] * e[i4, j4])\n"
     "output p \"p\"\noutput q \"q\"\noutput y \"y\"\noutput t \"t\"\noutput u \"u\"\n"},
    {"constants in fixed point at every step of a recurrence", "",
     "recurrence s1 t<4\n"
     "tensor x: f32[4, 200] input \"x\"\n"
     "tensor r: f32[200, 200] const @\n"
     "tensor q: f32[200, 200] const @\n"
     "declare h: f32[4, 200]\n"
     "stage p: f32 [t, j<200] recurrence s1 = sum[k<200] (load h[t - 1, k] else 0.0) * r[k, j]\n"
     "stage g: f32 [t, j2<200] recurrence s1 = sum[k2<200] (load h[t - 1, k2] else 0.0) * q[k2, j2]\n"
     "stage h: f32 [t, j1<200] recurrence s1 out = tanh(x[t, j1] + 0.1 * p[t, j1] + 0.01 * g[t, j1])\n"
     "output h \"h\"\n"},
    {"long sums of equal terms, whose roundings add up in one register: down columns, of an open number and a known "
     "one, "
     "along the lanes, over an outer variable and the lanes, in a value, running forwards and backwards",
     "N=21; N=1",
     "size N\n"
     "tensor u: f32[N] input \"u\"\n"
     "tensor v: f32[3000] input \"v\"\n"
     "tensor w: f32[37] input \"w\"\n"
     "tensor l: f32[2500000] input \"l\"\n"
     "stage a: f32[c<37] out = sum[i<N, j<3000] max(u[i] * v[j] * w[c], 1.0009765625)\n"
     "stage b: f32[c1<5] out = sum[i1<70000] max(l[i1] * w[c1], 1.0009765625)\n"
     "stage d: f32[] out = sum[i2<2500000] max(l[i2], 1.0009765625)\n"
     "stage e: f32[c3<2] out = sum[i3<37, j3<70000] max(l[j3] * w[i3] * w[c3], 1.0009765625)\n"
     "stage f: f32[c4<5] out = w[c4] * 0.0 + 2.0 * sum[i4<N, j4<3000] max(u[i4] * v[j4], 1.0009765625)\n"
     "stage g: f32[p<450*N] out = sum[k<450*N where #(p - k) >= 0] max(l[k], 1.0009765625)\n"
     "stage h: f32[q<450*N] out = sum[m<450*N where #(m - q - 1) >= 0] max(l[m], 1.0009765625)\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\noutput e \"e\"\noutput f \"f\"\noutput g \"g\"\noutput h \"h\"\n"
     "reference:"
     "size N\n"
     "tensor u: f32[N] input \"u\"\n"
     "tensor v: f32[3000] input \"v\"\n"
     "tensor w: f32[37] input \"w\"\n"
     "tensor l: f32[2500000] input \"l\"\n"
     "stage a: f32[c<37] out = f32(#(N * 3000)) * 1.0009765625\n"
     "stage b: f32[c1<5] out = 70068.359375\n"
     "stage d: f32[] out = 2502441.40625\n"
     "stage e: f32[c3<2] out = 2592529.296875\n"
     "stage f: f32[c4<5] out = f32(#(N * 6000)) * 1.0009765625\n"
     "stage g: f32[p<450*N] out = f32(#(p + 1)) * 1.0009765625\n"
     "stage h: f32[q<450*N] out = f32(#(450*N - 1 - q)) * 1.0009765625\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\noutput e \"e\"\noutput f \"f\"\noutput g \"g\"\noutput h "
     "\"h\"\n"},
    {"sums of some thousand terms, as statistics of a batch: in short blocks where registers are left; down columns, "
     "along the lanes, of rows",
     "",
     "tensor l: f32[600000] input \"l\"\n"
     "tensor x: f32[30000, 21] input \"x\"\n"
     "tensor w: f32[5] input \"w\"\n"
     "stage a: f32[c<21] out = sum[i<30000] max(x[i, c] * 0.125, 1.1)\n"
     "stage b: f32[] out = sum[i1<600000] max(l[i1], 1.1)\n"
     "stage d: f32[c2<5] out = sum[i2<600000] max(l[i2] * w[c2], 1.1)\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\n"
     "reference:"
     "tensor l: f32[600000] input \"l\"\n"
     "tensor x: f32[30000, 21] input \"x\"\n"
     "tensor w: f32[5] input \"w\"\n"
     "stage a: f32[c<21] out = 33000.0\n"
     "stage b: f32[] out = 660000.0\n"
     "stage d: f32[c2<5] out = 660000.0\n"
     "output a \"a\"\noutput b \"b\"\noutput d \"d\"\n"},
    {"an output with no places", "",
     "tensor x: f32[6, 2] input \"x\"\n"
     "tensor k: f32[2, 2] input \"k\"\n"
     "tensor v: f32[2, 0] input \"v\"\n"
     "stage p: f32[h<6, 1] = sum[d<2] x[h, d] * k[h//3, d]\n"
     "stage m: f32[h2<6] = p[h2, 0]\n"
     "stage e: f32[h3<6, 1] = exp(p[h3, 0] - m[h3])\n"
     "stage a: f32[h4<6, 1] = e[h4, 0] / e[h4, 0]\n"
     "stage y: f32[1, (h5<6, e<0)] out = a[h5, 0] * v[h5//3, e]\n"
     "output y \"y\"\n"},
    {"one value under two names, an input passed on", "N=4",
     "size N\n"
     "tensor x: f32[N] input \"x\"\n"
     "stage y: f32[a<N] out = x[a] * 2.0\n"
     "output y \"y\"\noutput y \"again\"\noutput x \"same\"\n"},
};

/* ---- texts ----------------------------------------------------------------------------------- */
static void numbers(pass_check *p) { /* integers: indices, those of `far` also outside of what they are for */
  for (uint32_t k = 0; k < p->m->inputs.n; k++) {
    ndarray *x = &p->in[k];
    uint32_t size = et_bytes(x->type);
    int far = !strcmp(p->m->inputs.v[k].name, "far") ? 3 : 0;
    if (x->type == ET_U8 || x->type == ET_I8)
      for (size_t i = 0; i < x->bytes; i++) ((uint8_t *)(uintptr_t)x->data)[i] = (uint8_t)(pc_random(p) * 256);
    else if (et_kind(x->type) == K_INT)
      for (size_t i = 0; i < x->bytes / size; i++)
        et_store(x->type, (uint8_t *)x->data + i * size, (scalar){.i = (int64_t)(pc_random(p) * (9 + 2 * far)) - far});
  }
}

/* A random schedule of one kernel: what is changed, and why it was refused. */
static struct {
  uint32_t changed; /* bits of the primitives; 0: the default schedules hold */
  drawable of;
  const char *text;
} schedule_at_work;

/* ---- running --------------------------------------------------------------------------------- */
static void in_one_piece(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks) {
  (void)call, k(args, 0, chunks, 0);
}
static void chunk_by_chunk(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks) {
  (void)call;
  for (int64_t i = chunks; i-- > 0;) k(args, i, i + 1, i % WORKERS);
}
static void in_thirds(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks) {
  (void)call;
  for (int64_t i = WORKERS; i-- > 0;) k(args, chunks * i / WORKERS, chunks * (i + 1) / WORKERS, i);
}
static uint32_t run(const char *what, const char *refusal, const pass_check *p, const program *q, jit *j,
                    const uint8_t *weights, void (*parallel)(ek_rt_call *, ek_rt_kernel, const int64_t *, int64_t)) {
  emodule *m = p->m;
  uint8_t *mem[2 * MOST + 1];
  const void *in[MOST];
  void *out[MOST];
  int64_t in_dims[MOST * MAX_RANK], out_dims[MOST * MAX_RANK];
  uint32_t n = 0, at = 0, bad = 0;
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    in[i] = mem[n++] = guarded(p->in[i].bytes);
    if (p->in[i].bytes) memcpy(mem[n - 1], p->in[i].data, p->in[i].bytes);
    for (uint32_t d = 0; d < p->in[i].rank; d++) in_dims[at++] = p->in[i].dims[d];
  }
  bool other = refusal && !strncmp(refusal, "other ", 6);
  if (other) in_dims[at - 1]++, refusal += 6;
  ek_rt_call call = {.in = in,
                     .out = out,
                     .in_dims = in_dims,
                     .out_dims = out_dims,
                     .weights = weights,
                     .threads = WORKERS,
                     .parallel = parallel};
  int64_t code = ((ek_rt_main)jit_find(j, q->plan_fn->name))(&call);
  uint32_t inputs = n;
  for (bool more = !code; more; more = code == EK_RT_ROOM) {
    while (n > inputs) unguard(mem[--n]);
    at = 0;
    for (uint32_t i = 0; i < q->outputs.n; i++) {
      size_t bytes = et_bytes(q->outputs.v[i].type);
      for (uint32_t d = 0; d < q->outputs.v[i].rank; d++) bytes *= (size_t)out_dims[at++];
      out[i] = mem[n++] = guarded(bytes);
      memset(out[i], 0xff, bytes);
    }
    size_t bytes = ((size_t)call.arena_bytes + 63) / 64 * 64;
    call.arena = mem[n++] = guarded(bytes);
    memset(call.arena, 0xff, bytes);
    code = ((ek_rt_main)jit_find(j, q->run_fn->name))(&call);
  }
  if (refusal ? !code || !strstr(call.message, refusal) : code != 0)
    bad++, printf("%s: %s\n", what, code ? call.message : "is not refused");
  at = 0;
  for (uint32_t i = 0; !code && !refusal && i < q->outputs.n; i++) {
    char why[256];
    etype t = q->outputs.v[i].type;
    ndarray got = {.type = t, .rank = q->outputs.v[i].rank, .data = out[i]};
    for (uint32_t d = 0; d < got.rank; d++) got.dims[d] = out_dims[at++];
    bool fixed = false; /* then constants are off by parts of the largest */
    double most = 1;
    for (uint32_t b = 1; b < q->buffers.n; b++)
      fixed |= q->buffers.v[b].from.pack && q->buffers.v[b].from.pack->fixed_point;
    int64_t elems;
    for (int64_t k = 0; fixed && t == ET_F32 && nd_count(p->ref[i], &elems) && k < elems; k++) {
      double x = fabs(et_load(p->ref[i]->type, (const uint8_t *)p->ref[i]->data + k * et_bytes(p->ref[i]->type)).f);
      if (isfinite(x)) most = fmax(most, x);
    }
    tolerance close = t == ET_F64 || t == ET_F32 ? (tolerance){2e-5, 8e-6} : (tolerance){2e-3, 1e-3};
    if (schedule_at_work.changed) close = (tolerance){fmax(close.rtol, 1e-3), fmax(close.atol, 1e-4)}; /* other sums */
    close.atol *= most;
    if (differs(why, sizeof why, q->outputs.v[i].name, &got, p->ref[i], close)) bad++, printf("%s: %s\n", what, why);
  }
  while (n) unguard(mem[--n]);
  return bad;
}
/* "small": this machine with caches so small that products run in blocks, their sums in parts, and with multipliers
 * that take its registers in two halves */
static const target *machine(ctx *c, const char *name) {
  if (strcmp(name, "small")) return target_get(c, name);
  target *t = NEW(ctx_arena(c), target);
  *t = *target_get(c, "host");
  t->l1 = 1 << 10, t->l2 = 4 << 10, t->l3 = 16 << 10, t->fma_per_cycle = 1, t->fma_bits = t->vector_bits / 2;
  return t;
}
/* Packs that are made of more than their constant. */
static uint32_t reads_beyond(const char *what, const program *q) {
  uint32_t bad = 0;
  for (uint32_t b = 1; b < q->buffers.n; b++) {
    const contents *f = &q->buffers.v[b].from;
    if (!f->pack || f->transform || f->narrow) continue;
    bytes r = packing_reads(f->pack, f->source.p, (pack_piece){0, packing_items(f->pack), 0, f->pack->depth});
    if (r.p < f->source.p || r.p + r.n > f->source.p + f->source.n)
      bad++, printf("%s: %s reads beyond its constant\n", what, q->buffers.v[b].name);
  }
  return bad;
}
typedef struct on_machine {
  const char *name, *target;
  int level;
  bool schedules; /* with random schedules instead of the default ones */
} on_machine;
/* The example's formulas, optimised for a machine (NULL: none in particular). */
static emodule *optimised(ctx *c, const char *text, int level, const target *t) {
  static const char *const sections[] = {"reference:", "refused:", "schedule:"};
  const char *end = text + strlen(text);
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    const char *at = strstr(text, sections[i]);
    if (at && at < end) end = at;
  }
  emodule *m = expr_parse(c, arena_strndup(ctx_arena(c), text, (size_t)(end - text)), "example");
  if (!m) ctx_unwind(c);
  expr_optimise(m, level, &(expr_observer){.skip = "widen", .t = t}); /* roundings stay where they are written */
  return m;
}
/* Of a random primitive that some kernel can change; NULL: there is none. */
static schedules *random_schedule(ctx *c, const char *text, const on_machine *on, uint64_t seed) {
  const target *t = machine(c, on->target);
  const splan *s =
      schedule_module(optimised(c, text, on->level, t), t, (schedule_opts){.level = on->level, .record = true});
  drawables all = {0};
  const drawable *of = NULL;
  sbuf b = sbuf_new(ctx_arena(c));
  drawn = seed;
  note_plan(ctx_arena(c), &all, s);
  draw_schedule(ctx_arena(c), &all, t, -1, &of, &schedule_at_work.changed, &b);
  if (!of) return NULL;
  schedule_at_work.of = *of, schedule_at_work.text = b.s;
  return schedules_parse(c, "random", (bytes){(const uint8_t *)b.s, b.n});
}
/* Was the random schedule refused, with a reason? It is noted. */
static bool is_refused(ctx *c) {
  const diag *d = diag_first(c);
  const char *colon = d ? strchr(d->text, ':') : NULL;
  char why[400];
  if (!schedule_at_work.changed || !colon || d->code != E_USAGE ||
      strncmp(d->text, schedule_at_work.of.k ? "kernel k" : "tensor ", 7) || !d->pos.line)
    return false;
  general_reason(&schedule_at_work.of, colon + 2, why, sizeof why);
  note_schedule(schedule_at_work.changed, why);
  return true;
}
static void set_sizes(ctx *c, const char *sizes) {
  memset(pc_dim, 0, sizeof pc_dim);
  for (uint32_t k = 0; *sizes && *sizes != ';'; k++) {
    size_t n = strcspn(sizes, "=");
    char *end;
    pc_dim[k].name = arena_strndup(ctx_arena(c), sizes, n);
    pc_dim[k].value = strtoll(sizes + n + 1, &end, 10);
    sizes = end + strspn(end, " ");
  }
}
/* seed: of a random schedule; 0: the default ones */
static uint32_t check_sizes(const example *x, const on_machine *on, const char *sizes, uint64_t seed) {
  ctx *c = ctx_new();
  volatile uint32_t bad = 1;
  jit *volatile j = NULL;
  uint8_t *volatile weights = NULL;
  const char *what =
      arena_fmt(ctx_arena(c), "%s (%s, -O%d, %.*s)", x->name, on->target, on->level, (int)strcspn(sizes, ";"), sizes);
  set_sizes(c, sizes);
  schedule_at_work.changed = 0;
  CTX_TRY(c) {
    const char *text = pc_constants(ctx_arena(c), x->text), *other = strstr(text, "reference:"),
               *refusal = strstr(text, "refused:");
    const char *given = on->level ? strstr(text, "schedule:") : NULL;
    if (given) given += strlen("schedule:");
    schedules *stated = seed    ? random_schedule(c, text, on, seed)
                        : given ? schedules_parse(c, "given", (bytes){(const uint8_t *)given, strlen(given)})
                                : NULL;
    emodule *ref = other ? expr_parse(c, other + strlen("reference:"), "reference") : optimised(c, text, 0, NULL);
    if (!ref) ctx_unwind(c);
    pass_check p = {.m = ref, .seed = 88172645463325252u};
    pc_inputs(&p, ctx_arena(c));
    numbers(&p);
    if (refusal)
      refusal += strlen("refused:");
    else
      pc_reference(&p, ctx_arena(c));
    const target *t = machine(c, on->target);
    p.m = optimised(c, text, on->level, t);
    splan *s = schedule_module(p.m, t, (schedule_opts){.level = on->level, .stated = stated});
    for (uint32_t i = 0; i < s->launches.n; i++) s->launches.v[i].parallel = true; /* however little they do */
    program *q = program_build(s, "example");
    j = jit_new(c, t, &(code_opts){.level = on->level});
    jit_add(j, q->l);
    weights = aligned_alloc(64, ((size_t)q->weight_bytes + 64) / 64 * 64);
    program_weights(q, q->weight_bytes, 1, weights, NULL);
    bad = !program_verify(q, "test") + reads_beyond(what, q) + run(what, refusal, &p, q, j, weights, in_one_piece) +
          run(what, refusal, &p, q, j, weights, chunk_by_chunk) + run(what, refusal, &p, q, j, weights, in_thirds);
  }
  CTX_CATCH bad = !is_refused(c);
  for (const diag *d = diag_first(c); d && bad; d = d->next)
    if (d->level == D_ERROR) printf("%s: %s\n", what, d->text);
  if (schedule_at_work.changed && bad)
    printf("%s: seed %llu\n%s\n", what, (unsigned long long)seed, schedule_at_work.text);
  if (schedule_at_work.changed && j) note_schedule(schedule_at_work.changed, NULL);
  jit_free(j);
  free(weights);
  ctx_free(c);
  return bad;
}
/* A size that turns out to be nothing once the stages are written (a model would be lowered anew): the number of a
 * chunk is no multiple of it. */
static void nothing(void **state) {
  (void)state;
  ctx *c = ctx_new();
  volatile bool made = false;
  CTX_TRY(c) {
    emodule *m = expr_parse(c,
                            "size S in 1..9\ntensor x: f32[S, S] input \"x\"\nstage y: f32[a<4, l<S, d<S//5] out = "
                            "x[l, (S//5)*a + d]\noutput y \"y\"\n",
                            "nothing");
    sym_assume_eq(c, sym_symbol(c, "S", 1, 9), sym_int(c, 3));
    made = program_build(schedule_module(m, machine(c, "host"), (schedule_opts){.level = 0}), "nothing") != NULL;
  }
  CTX_CATCH {}
  ctx_free(c);
  assert_true(made);
}

/* A window's sum by products at many places (winograd): columns lie side by side, though places fill vectors better. No
 * two places share an element. */
static void columns(void **state) {
  (void)state;
  ctx *c = ctx_new();
  volatile int64_t place = 0, column = 0;
  CTX_TRY(c) {
    const char *text = "size N\ntensor x: f32[N, 28, 28, 24] input \"x\"\ntensor w: f32[24, 24, 7, 7] const @\n"
                       "stage v: f32[n1<N, y1<28, x1<28, c1<24] = max(x[n1, y1, x1, c1], 0.0)\n"
                       "stage y: f32[n<N, y<28, z<28, m<24] out = sum[c<24, i<7, k<7] (load v[n, y + i - 3, z + k - 3, "
                       "c] else 0.0) * w[m, c, i, k]\noutput y \"y\"\n";
    const target *t = target_get(c, "x86-64-v4");
    emodule *m = optimised(c, pc_constants(ctx_arena(c), text), 3, t);
    splan *s = schedule_module(m, t, (schedule_opts){.level = 3});
    for (uint32_t i = 1; i < m->tensors.n; i++) {
      const layout *l = &s->layouts[i];
      if (strcmp(xt(m, i)->name, "products") || !l->known) continue;
      place = sym_int_or(c, l->axes[0].d[0].stride, 0), column = sym_int_or(c, l->axes[l->rank - 1].d[0].stride, 0);
    }
  }
  CTX_CATCH {}
  ctx_free(c);
  assert_int_equal(column, 1);
  assert_true(place != 1);
}

/* What follows a long sum of what is computed, once for each result, does not decide where its lanes run: along the
 * terms that lie side by side. */
static void long_sums(void **state) {
  (void)state;
  ctx *c = ctx_new();
  sbuf record = sbuf_new(ctx_arena(c));
  CTX_TRY(c) {
    const char *text = "tensor x: f32[64, 32, 64] input \"x\"\ntensor a: f32[64] input \"a\"\n"
                       "tensor b: f32[64] input \"b\"\n"
                       "stage v: f32[c<64] = sum[h<32, w<64] (x[c, h, w] - a[c]) * (x[c, h, w] - a[c])\n"
                       "stage y: f32[d<64] out = a[d] * 0.9 + v[d] * 0.1\n"
                       "stage z: f32[e<64] out = b[e] * 0.9 + v[e] * 0.1\noutput y \"y\"\noutput z \"z\"\n";
    const target *t = target_get(c, "x86-64-v4");
    const splan *s = schedule_module(optimised(c, text, 3, t), t, (schedule_opts){.level = 3, .record = true});
    record_print(s->launches.v[0].record, &record);
  }
  CTX_CATCH fail();
  if (!strstr(record.s, "lanes w 16")) fail_msg("%s", record.s);
  ctx_free(c);
}

/* A step of a recurrence is computed before the next one is: what lies side by side is never its steps, also where a
 * stage has no other variable. */
static void step_axes(void **state) {
  (void)state;
  ctx *c = ctx_new();
  volatile uint32_t tensors = 0, wrong = 0;
  CTX_TRY(c) {
    const char *text = "recurrence s1 t<50\ntensor x: f32[50, 64] input \"x\"\ndeclare H: f32[50, 64]\n"
                       "stage top: f32[t, 1] recurrence s1 = max[k<64] abs((load H[t - 1, k] else 1.0))\n"
                       "stage q: f32[t, j<64] recurrence s1 = (load H[t - 1, j] else 0.0) / (1.0 + top[t, 0])\n"
                       "stage H: f32[t, h<64] recurrence s1 = x[t, h] + q[t, 63 - h]\n"
                       "stage y: f32[a<50, b<64] out = exp(H[a, b])\noutput y \"y\"\n";
    const target *t = target_get(c, "x86-64-v4");
    emodule *m = optimised(c, pc_constants(ctx_arena(c), text), 3, t);
    splan *s = schedule_module(m, t, (schedule_opts){.level = 3});
    for (uint32_t i = 0; i < m->stages.n; i++) {
      const layout *l = &s->layouts[xs(m, i)->tensor];
      if (xs(m, i)->dead || !xs(m, i)->recurrence || !l->known || l->rank < 2 || !l->axes[1].n) continue;
      const int64_t step = sym_int_or(c, l->axes[0].d[0].stride, 0); /* 0: memory for one step */
      tensors++;
      wrong += step && step < sym_int_or(c, l->axes[1].d[0].stride, 0);
    }
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("steps:%u: %s\n", d->pos.line, d->text);
  ctx_free(c);
  assert_true(tensors >= 2);
  assert_int_equal(wrong, 0);
}

/* Outputs of which the last tiles have fewer make pieces of two kinds, one after the other in turns: a loop for each
 * kind, whose outputs share their sums, not one for each row of outputs. */
static void kinds_of_tiles(void **state) {
  (void)state;
  ctx *c = ctx_new();
  volatile uint32_t loops = 0, kernels = 0;
  CTX_TRY(c) {
    const char *text = "size N\ntensor x: f32[N, 903, 163, 64] input \"x\"\ntensor w: f32[64, 64, 3, 3] const @\n"
                       "stage v: f32[n1<N, y1<903, x1<163, c1<64] = max(x[n1, y1, x1, c1], 0.0)\n"
                       "stage r: f32[n<N, y<901, column<161, m<64] = sum[c<64, i<3, k<3] v[n, y + i, column + k, c] * "
                       "w[m, c, i, k]\n"
                       "stage o: f32[n2<N, y2<901, z2<161, m2<64] out = max(r[n2, y2, z2, m2], 0.0)\noutput o \"o\"\n";
    const target *t = target_get(c, "x86-64-v4");
    emodule *m = optimised(c, pc_constants(ctx_arena(c), text), 3, t);
    splan *s = schedule_module(m, t, (schedule_opts){.level = 3});
    sbuf b = sbuf_new(ctx_arena(c));
    loop_print(s->l, &b, NULL);
    for (uint32_t i = 0; i < s->launches.n; i++) {
      const uint32_t k = s->launches.v[i].kernel;
      kernels += k != UINT32_MAX && m->kernels.v[k].cls == KC_BLOCKS;
    }
    for (const char *at = b.s; (at = strstr(at, "\"column\" {")); at++) loops++;
  }
  CTX_CATCH {}
  ctx_free(c);
  assert_int_equal(kernels, 1);
  assert_int_equal(loops, 2);
}

/* ---- a test for each machine and example ----------------------------------------------------- */
static const on_machine machines[] = {{"host", "host", 3, false},     {"small", "small", 3, false},
                                      {"plain", "x86-64", 3, false},  {"simple", "host", 0, false},
                                      {"schedules", "host", 3, true}, {"small schedules", "small", 3, true}};
typedef struct job {
  const on_machine *on;
  const example *x;
} job;
static void check(void **state) {
  const job *j = *state;
  uint32_t bad = 0;
  ctx *c = ctx_new();
  const target *t = machine(c, j->on->target);
  bool here = t && t->here;
  ctx_free(c);
  if (!here) skip();
  const char *asked = getenv("EK_SCHEDULES");
  const uint64_t schedules = asked ? strtoull(asked, NULL, 10) : 1,
                 seed = hash_bytes(j->x->name, strlen(j->x->name), j->on->target[0]);
  for (const char *s = j->x->sizes;; s += strspn(s, "; ")) {
    if (!j->on->schedules) bad += check_sizes(j->x, j->on, s, 0);
    for (uint64_t i = 0; i < schedules && j->on->schedules; i++)
      bad += check_sizes(j->x, j->on, s, (seed ^ (uint64_t)(s - j->x->sizes)) + i + 1);
    s += strcspn(s, ";");
    if (!*s) break;
  }
  assert_int_equal(bad, 0);
}
#define COUNT(x) (sizeof(x) / sizeof *(x))
int main(void) {
  static job jobs[COUNT(machines) * COUNT(examples)];
  static struct CMUnitTest tests[COUNT(jobs) + 5];
  size_t n = 0;
  ctx *c = ctx_new();
  for (size_t k = 0; k < COUNT(machines); k++)
    for (size_t i = 0; i < COUNT(examples); i++, n++) {
      jobs[n] = (job){&machines[k], &examples[i]};
      tests[n] = (struct CMUnitTest){.name = arena_fmt(ctx_arena(c), "%s: %s", machines[k].name, examples[i].name),
                                     .test_func = check,
                                     .initial_state = &jobs[n]};
    }
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(columns);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_sums);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(step_axes);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(kinds_of_tiles);
  int r = _cmocka_run_group_tests("schedule", tests, n, NULL, NULL);
  ctx_free(c);
  return r + (int)tell_schedules(0);
}
