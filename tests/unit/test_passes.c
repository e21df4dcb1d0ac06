/* The passes on expr modules: hand-written modules with the kernels they must end in, golden texts
 * (tests/golden/passes), and random modules. Everything is checked by difference: see pass_check.h. */
#include "pass_check.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct example {
  const char *name, *kernels, *text;
} example;
static const example examples[] = {
    {"softmax", "row 1",
     "size N\n"
     "tensor x: f32[N, 8] input \"x\"\n"
     "stage m: f32[a<N] = max[b<8] x[a, b]\n"
     "stage e: f32[c<N, d<8] = exp(x[c, d] - m[c])\n"
     "stage y: f32[f<N, g<8] out = e[f, g] / (sum[h<8] e[f, h])\n"
     "output y \"y\"\n"},
    {"normalisation over a symbolic row, written in one stage", "row 1",
     "size S\n"
     "tensor x: f32[4, S] input \"x\"\n"
     "tensor g: f32[S] input \"g\"\n"
     "stage mean: f32[a<4] = (sum[b<S] x[a, b]) / f32(#(S))\n"
     "stage y: f32[c<4, d<S] out = (x[c, d] - mean[c]) / sqrt((sum[k<S] (x[c, k] - mean[c]) * (x[c, k] - mean[c])) / "
     "f32(#(S)) + 0.001) * g[d]\n"
     "output y \"y\"\n"},
    {"product, bias, scale, activation, transposed output", "contraction 1",
     "size N\n"
     "tensor x: f32[N, 4] input \"x\"\n"
     "tensor w: f32[4, 3] const [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]\n"
     "tensor b: f32[3] const [1.0, 2.0, 3.0]\n"
     "tensor s: f32[3] const [0.5, 2.0, 4.0]\n"
     "stage y: f32[a<N, c<3] = b[c] + (sum[k<4] x[a, k] * w[k, c])\n"
     "stage z: f32[d<N, e<3] = max(y[d, e] * s[e] + 1.0, 0.0)\n"
     "stage t: f32[f<3, g<N] out = z[g, f]\n"
     "output t \"t\"\n"},
    {"two products in one accumulator", "contraction 1",
     "tensor x: f32[5, 4] input \"x\"\n"
     "tensor h: f32[5, 6] input \"h\"\n"
     "tensor w: f32[4, 3] input \"w\"\n"
     "tensor u: f32[6, 3] input \"u\"\n"
     "stage y: f32[a<5, c<3] out = tanh((sum[k<4] x[a, k] * w[k, c]) + (sum[j<6] h[a, j] * u[j, c]) + 0.5)\n"
     "output y \"y\"\n"},
    {"window with padding, shared by two readers", "contraction 1, copy 1",
     "tensor x: f32[2, 3, 8] input \"x\"\n"
     "tensor w: f32[4, 3, 3] input \"w\"\n"
     "stage p: f32[a<2, b<3, c<8] = x[a, b, c]\n"
     "stage y: f32[n<2, o<4, i<8] out = max(sum[q<3, k<3] (load p[n, q, i + k - 1] else 0.0) * w[o, q, k], 0.0)\n"
     "output y \"y\"\n"},
    {"a window over an axis of a reshaped tensor, its channels one of two digits", "elementwise 1, contraction 1",
     "tensor x: f32[6, 20] input \"x\"\n"
     "tensor w: f32[4, 6, 3] input \"w\"\n"
     "stage p: f32[(a<6, b<20)] = x[a, b]\n"
     "stage q: f32[(c<6, d<20)] = tanh(p[20*c + d])\n"
     "stage t: f32[e<6, f<20] = q[20*e + f]\n"
     "stage y: f32[o<4, i<20] out = sum[g<6, k<3] (load t[g, i + k - 1] else 0.0) * w[o, g, k]\n"
     "output y \"y\"\n"},
    {"depthwise", "stencil 1, copy 1",
     "tensor x: f32[2, 3, 8] input \"x\"\n"
     "tensor w: f32[3, 3] input \"w\"\n"
     "stage y: f32[n<2, o<3, i<8] out = max(sum[k<3] (load x[n, o, i + k - 1] else 0.0) * w[o, k], 0.0)\n"
     "output y \"y\"\n"},
    {"attention with heads inside the columns", "composite 1",
     "size L\nsize S\n"
     "tensor q: f32[L, 8] input \"q\"\n"
     "tensor k: f32[S, 8] input \"k\"\n"
     "tensor v: f32[S, 8] input \"v\"\n"
     "stage s: f32[h<2, l<L, t<S] = (sum[d<4] q[l, 4*h + d] * k[t, 4*h + d]) * 0.5\n"
     "stage m: f32[h1<2, l1<L] = max[t1<S] s[h1, l1, t1]\n"
     "stage e: f32[h2<2, l2<L, t2<S] = exp(s[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<2, l3<L] = sum[t3<S] e[h3, l3, t3]\n"
     "stage p: f32[h4<2, l4<L, t4<S] = e[h4, l4, t4] / z[h4, l4]\n"
     "stage o: f32[h5<2, l5<L, d5<4] = sum[t5<S] p[h5, l5, t5] * v[t5, 4*h5 + d5]\n"
     "stage y: f32[l6<L, (h6<2, d6<4)] out = o[h6, l6, d6]\n"
     "output y \"y\"\n"},
    {"attention that divides at the end", "composite 1",
     "size L\nsize S\n"
     "tensor q: f32[2, L, 4] input \"q\"\n"
     "tensor k: f32[2, S, 4] input \"k\"\n"
     "tensor v: f32[2, S, 4] input \"v\"\n"
     "stage s: f32[h<2, l<L, t<S] = sum[d<4] q[h, l, d] * k[h, t, d]\n"
     "stage m: f32[h1<2, l1<L] = max[t1<S] s[h1, l1, t1]\n"
     "stage e: f32[h2<2, l2<L, t2<S] = exp(s[h2, l2, t2] - m[h2, l2])\n"
     "stage y: f32[h3<2, l3<L, d3<4] out = (sum[t3<S] e[h3, l3, t3] * v[h3, t3, d3]) / (sum[t4<S] e[h3, l3, t4])\n"
     "output y \"y\"\n"},
    {"attention to a window around each position", "copy 2, composite 1",
     "size L\n"
     "tensor q: f32[2, L, 4] input \"q\"\n"
     "tensor k: f32[2, L, 4] input \"k\"\n"
     "tensor v: f32[2, L, 4] input \"v\"\n"
     "stage s: f32[h<2, l<L, w<5] = #l + #w >= 2 and #l + #w < #(L) + 2 ? (sum[d<4] q[h, l, d] * (load k[h, l + w - 2, "
     "d] else 0.0)) : -100.0\n"
     "stage m: f32[h1<2, l1<L] = max[w1<5] s[h1, l1, w1]\n"
     "stage e: f32[h2<2, l2<L, w2<5] = exp(s[h2, l2, w2] - m[h2, l2])\n"
     "stage z: f32[h3<2, l3<L] = sum[w3<5] e[h3, l3, w3]\n"
     "stage y: f32[h4<2, l4<L, d4<4] out = sum[w4<5] e[h4, l4, w4] / z[h4, l4] * (load v[h4, l4 + w4 - 2, d4] else "
     "0.0)\n"
     "output y \"y\"\n"},
    {"weights of another kind in front of a product", "composite 1",
     "tensor q: f32[2, 5, 4] input \"q\"\n"
     "tensor k: f32[2, 6, 4] input \"k\"\n"
     "tensor v: f32[2, 6, 4] input \"v\"\n"
     "stage s: f32[h<2, l<5, t<6] = tanh(sum[d<4] q[h, l, d] * k[h, t, d])\n"
     "stage z: f32[h1<2, l1<5] = sum[t1<6] s[h1, l1, t1] * s[h1, l1, t1]\n"
     "stage p: f32[h2<2, l2<5, t2<6] = s[h2, l2, t2] / (z[h2, l2] + 1.0)\n"
     "stage y: f32[h3<2, l3<5, d3<4] out = sum[t3<6] p[h3, l3, t3] * v[h3, t3, d3]\n"
     "output y \"y\"\n"},
    {"attention divided by another row's sum", "row 1, contraction 2",
     "tensor q: f32[2, 5, 4] input \"q\"\n"
     "tensor k: f32[2, 6, 4] input \"k\"\n"
     "tensor v: f32[2, 6, 4] input \"v\"\n"
     "stage s: f32[h<2, l<5, t<6] = sum[d<4] q[h, l, d] * k[h, t, d]\n"
     "stage m: f32[h1<2, l1<5] = max[t1<6] s[h1, l1, t1]\n"
     "stage e: f32[h2<2, l2<5, t2<6] = exp(s[h2, l2, t2] - m[h2, l2])\n"
     "stage z: f32[h3<2, l3<5] = sum[t3<6] e[h3, l3, t3]\n"
     "stage y: f32[h4<2, l4<5, d4<4] out = (sum[t4<6] e[h4, l4, t4] * v[h4, t4, d4]) / z[h4, 4 - l4]\n"
     "output y \"y\"\n"},
    {"each row's sum with every other's", "elementwise 1, row 1",
     "tensor x: f32[5, 4] input \"x\"\n"
     "stage r: f32[a<5] = sum[k<4] x[a, k]\n"
     "stage y: f32[b<5, c<5] out = r[b] * r[c] + r[b]\n"
     "output y \"y\"\n"},
    {"a condition inside itself", "elementwise 1",
     "tensor x: f32[4, 5] input \"x\"\n"
     "stage y: f32[a<4, b<5] out = #a == #b ? (#a == #b ? x[a, b] : 2.0) : 3.0\n"
     "output y \"y\"\n"},
    {"nothing times something, a remainder of constants", "elementwise 1, copy 1",
     "tensor i: i32[4] input \"i\"\n"
     "stage y: i32[a<4] out = (i[a] + 3i32) * 0i32 + 1i32\n"
     "stage z: i32[b<4] out = i[b] + (-7i32 % 4i32)\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"two reads under one condition", "row 1",
     "tensor x: f32[4, 3] input \"x\"\n"
     "tensor w: f32[4, 3] input \"w\"\n"
     "stage y: f32[a<3] out = sum[k<6 where #k >= 2] x[k - 2, a] * w[k - 2, a]\n"
     "output y \"y\"\n"},
    {"pieces of different sizes, and a part of a piece", "elementwise 3",
     "tensor x: f32[5, 4] input \"x\"\n"
     "tensor u: f32[5, 5] input \"u\"\n"
     "stage p: f32[e<5, f<3] = exp(u[e, f])\n"
     "stage q: f32[g<5, h<5] = tanh(u[g, h])\n"
     "stage y: f32[a<5, c<4] = exp(x[a, c])\n"
     "stage t: f32[b<5, d<4] out = y[b, 3 - d] * 2.0\n"
     "stage z: f32[m<5, n<10] out tiled\n  update [i<5, j<3] z[i, j] := p[i, j]\n  update [k<5, l<5] z[k, 3 + l] := "
     "q[k, l]\n  update [o<5, r<2] z[o, 8 + r] := y[o, r]\n"
     "output t \"t\"\noutput z \"z\"\n"},
    {"pieces that have loops in common, one with more inside: one kernel; not where an extent differs, or little is in "
     "common",
     "elementwise 6",
     "tensor x: f32[5, 7] input \"x\"\n"
     "tensor k: f32[3] input \"k\"\n"
     "stage p: f32[a<5, b<3, c<7] = exp(x[a, c] * k[b])\n"
     "stage q: f32[d<5, e<7] = tanh(x[d, e])\n"
     "stage r: f32[f<5, g<3, h<6] = exp(x[f, h] - k[g])\n"
     "stage s: f32[i<5, j<7] = tanh(x[i, 6 - j] * 2.0)\n"
     "stage v: f32[fv<5, gv<3] = exp(x[fv, gv])\n"
     "stage t: f32[l<5, m<30, n<7] = exp(x[l, n] / f32(#m + 1))\n"
     "stage u: f32[o<5, ov<7] = tanh(x[o, ov] * 3.0)\n"
     "stage y: f32[y0<5, y1<4, y2<7] out tiled\n  update [a0<5, b0<3, c0<7] y[a0, 1 + b0, c0] := p[a0, b0, c0]\n"
     "  update [d0<5, e0<7] y[d0, 0, e0] := q[d0, e0]\n"
     "stage z: f32[z0<5, z1<4, z2<7] out tiled\n  update [f0<5, g0<3, h0<6] z[f0, 1 + g0, h0] := r[f0, g0, h0]\n"
     "  update [i0<5, j0<7] z[i0, 0, j0] := s[i0, j0]\n  update [f1<5, g1<3] z[f1, 1 + g1, 6] := v[f1, g1]\n"
     "stage w: f32[w0<5, w1<31, w2<7] out tiled\n  update [l0<5, m0<30, n0<7] w[l0, m0, n0] := t[l0, m0, n0]\n"
     "  update [o0<5, v0<7] w[o0, 30, v0] := u[o0, v0]\n"
     "output y \"y\"\noutput z \"z\"\noutput w \"w\"\n"},
    {"concat stored in place, slices of it read the pieces", "contraction 2",
     "tensor x: f32[5, 4] input \"x\"\n"
     "tensor w: f32[4, 3] input \"w\"\n"
     "tensor u: f32[4, 2] input \"u\"\n"
     "stage y: f32[a<5, c<3] = sum[k<4] x[a, k] * w[k, c]\n"
     "stage z: f32[b<5, d<2] = sum[j<4] x[b, j] * u[j, d]\n"
     "stage c: f32[e<5, f<5] out tiled\n  update [g<5, h<3] c[g, h] := y[g, h]\n  update [i<5, l<2] c[i, 3 + l] := "
     "z[i, l]\n"
     "stage t: f32[m<5, n<3] out = max(c[m, n] + x[m, n], 0.0)\n"
     "output c \"c\"\noutput t \"t\"\n"},
    {"channel shuffle between two products", "contraction 2",
     "tensor x: f32[4, 5] input \"x\"\n"
     "tensor w: f32[6, 4] input \"w\"\n"
     "tensor u: f32[2, 6] input \"u\"\n"
     "stage y: f32[a<6, b<5] = max(sum[k<4] w[a, k] * x[k, b], 0.0)\n"
     "stage r: f32[g<2, c<3, d<5] = y[3*g + c, d]\n"
     "stage t: f32[c1<3, g1<2, d1<5] = r[g1, c1, d1]\n"
     "stage f: f32[(c2<3, g2<2), d2<5] = t[c2, g2, d2]\n"
     "stage o: f32[e<2, h<5] out = sum[j<6] u[e, j] * f[j, h]\n"
     "output o \"o\"\n"},
    {"recurrence: the input product leaves it", "contraction 1, recurrence 1",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 3] input \"x\"\n"
     "tensor w: f32[4, 3] input \"w\"\n"
     "tensor r: f32[4, 4] input \"r\"\n"
     "declare H: f32[T, 4]\n"
     "stage H: f32[t, h<4] recurrence s1 = tanh((sum[i<3] x[t, i] * w[h, i]) + (sum[k<4] (load H[t - 1, k] else 0.0) * "
     "r[h, "
     "k]))\n"
     "stage y: f32[a<T, 1, b<4] out = H[a, b]\n"
     "output y \"y\"\n"},
    {"recurrence: a stage that reads nothing of it, and is read of the step before in front of where it stands",
     "recurrence 1",
     "size T\n"
     "recurrence s1 t<T\n"
     "tensor x: f32[T, 3] input \"x\"\n"
     "declare z: f32[T, 3]\n"
     "stage H: f32[t, h<3] recurrence s1 out = tanh(x[t, h] + (load z[t - 1, h] else 1.0))\n"
     "stage z: f32[t, j<3] recurrence s1 = x[t, j] * 0.5\n"
     "output H \"H\"\n"},
    {"a one-hot product is a gather", "gather 1",
     "size N\n"
     "tensor i: i64[N] input \"i\"\n"
     "tensor w: f32[7, 3] input \"w\"\n"
     "stage h: f32[a<N, b<7] = #b == i[a] ? 1.0 : 0.0\n"
     "stage y: f32[c<N, d<3] out = sum[k<7] h[c, k] * w[k, d]\n"
     "output y \"y\"\n"},
    {"embedding, residual, normalisation", "row 1, copy 1",
     "size N\n"
     "tensor i: i64[N] input \"i\"\n"
     "tensor w: f32[2, 6] input \"w\"\n"
     "tensor q: f32[N, 6] input \"q\"\n"
     "stage e: f32[a<N, b<6] = (load w[{i[a]}, b] else 0.0) + q[a, b]\n"
     "stage m: f32[c<N] = sum[d<6] e[c, d]\n"
     "stage y: f32[f<N, g<6] out = e[f, g] - m[f]\n"
     "output y \"y\"\n"},
    {"quantised: a sum of whole numbers in front of its scale", "row 1, contraction 1",
     "size N\n"
     "tensor q: u8[N, 4] input \"q\"\n"
     "tensor w: i8[3, 4] const [1, -2, 3, 4, 5, -6, 7, 8, 0, 0, 9, 1]\n"
     "tensor s: f32[3] const [0.5, 0.3, 0.25]\n"
     "tensor b: i32[3] const [100, -50, 3]\n"
     "tensor u: f32[3] const [0.05, 0.030000001, 0.025]\n"
     "stage x: f32[a<N, c<4] = (f32(q[a, c]) - 3.0) * 0.1\n"
     "stage k: f32[f<3, g<4] = f32(w[f, g]) * s[f]\n"
     "stage c1: f32[i<3] = f32(b[i]) * u[i]\n"
     "stage y: f32[j<N, l<3] = c1[l] + (sum[m<4] x[j, m] * k[l, m])\n"
     "stage z: f32[n<N, o<3] out = y[n, o] / 0.7 + (sum[p<4] x[n, p] * 0.25)\n"
     "output z \"z\"\n"},
    {"scatter keeps its order", "contraction 1, update 1",
     "tensor x: f32[4, 4] input \"x\"\n"
     "tensor i: i64[3] input \"i\"\n"
     "stage y: f32[a<4, b<4] = sum[k<4] x[a, k] * x[k, b]\n"
     "stage z: f32[c<4, d<4] out = y[c, d]\n  update [e<3, f<4] z[{i[e]}, f] += y[e, f]\n"
     "output z \"z\"\n"},
    {"stored elsewhere too: the second place is a copy in the producer's kernel", "contraction 1",
     "tensor x: f32[5, 4] input \"x\"\n"
     "tensor w: f32[4, 3] input \"w\"\n"
     "stage y: f32[a<5, c<3] out = max(sum[k<4] x[a, k] * w[k, c], 0.0)\n"
     "stage z: f32[b<5, d<3] = y[b, d] * 2.0\n"
     "stage c: f32[e<5, f<6] out tiled\n  update [g<5, h<3] c[g, h] := y[g, h]\n  update [i<5, l<3] c[i, 3 + l] := "
     "z[i, l]\n"
     "output y \"y\"\noutput c \"c\"\n"},
    {"sums over what comes before, in one walk each; a few places are compared", "row 1, prefix_scan 2",
     "tensor x: f32[3, 40] input \"x\"\n"
     "stage y: f32[a<3, b<40] out = sum[k<40 where #(b - k - 1) >= 0 and x[a, k] > 0.5] x[a, k]\n"
     "stage z: f32[c<3, d<40] out = max[i<3, j<40 where #(40*i + j - 40*c - d) >= 0] x[i, j]\n"
     "stage s: f32[e<3, f<40] out = max[k.1<3 where #(e - k.1) >= 0] x[k.1, f]\n"
     "output y \"y\"\noutput z \"z\"\noutput s \"s\"\n"},
    {"no walk where the place itself takes part, in what is summed or in which", "row 2",
     "tensor x: f32[3, 40] input \"x\"\n"
     "stage y: f32[a<3, b<40] out = sum[k<40 where #(b - k) >= 0] max(x[a, k], x[a, b])\n"
     "stage z: f32[c<3, d<40] out = sum[j<40 where #(d - j) >= 0 and x[c, j] > x[c, d]] x[c, j]\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"a product whose rows are read as groups takes what follows with it", "contraction 1",
     "tensor x: f32[4, 5] input \"x\"\n"
     "tensor w: f32[6, 4] input \"w\"\n"
     "tensor z: f32[2, 3, 5] input \"z\"\n"
     "stage y: f32[a<6, b<5] = sum[k<4] w[a, k] * x[k, b]\n"
     "stage r: f32[g<2, c<3, d<5] out = max(y[3*g + c, d], 0.0) * z[g, c, d]\n"
     "output r \"r\"\n"},
    {"places in a total order by sorting; without the tie it is a count", "row 1, ranking 1",
     "tensor x: f32[2, 60] input \"x\"\n"
     "stage y: i64[a<2, b<60] out = sum[k<60] i64(x[a, k] > x[a, b] or x[a, k] == x[a, b] and #(b - k - 1) >= 0)\n"
     "stage z: i64[c<2, d<60] out = sum[l<60] i64(x[c, l] > x[c, d])\n"
     "output y \"y\"\noutput z \"z\"\n"},
    {"a size that is found there is none yet in the kernel that finds it", "elementwise 2, row 1",
     "size m in 0..9\n"
     "tensor x: i64[9] input \"x\"\n"
     "stage n: i64[] = sum[b<9] i64(x[b] > 0)\n"
     "stage p: i64[] = n[] < #(m + 1) ? 9223372036854775807 : 0\n"
     "stage v: i64[] = p[] == 9223372036854775807 ? 0 : n[]\n"
     "stage y: i64[i<m] out = #i\n"
     "late m = n <= 9\n"
     "check p = v in -m .. m + 1 over [] \"position\" node \"p\"\n"
     "output y \"y\"\n"},
    {"an output of a branch; stages stay in their blocks", "elementwise 3",
     "tensor x: f32[4] input \"x\"\n"
     "tensor b: bool[] input \"b\"\n"
     "stage p: f32[a<4] = x[a] * 2.0\n"
     "stage q: f32[c<4] = p[c] + p[3 - c]\n"
     "if b {\n  stage t: f32[d<4] out = q[d] + 1.0\n} else {\n  stage e: f32[f<4] out = q[f] - p[f]\n}\n  result r: "
     "f32[4] = t | e\n"
     "output r \"r\"\n"},
};

typedef struct outcome {
  uint32_t bad;
  const char *summary;
  uint64_t spent;
} outcome;
/* Runs in a context of its own; the summary is static storage. */
static void run(const expr_observer *how, const char *name, const char *text, bool tiles, outcome *o) {
  static char summary[256];
  ctx *c = ctx_new();
  *o = (outcome){.bad = 1, .summary = summary};
  summary[0] = 0;
  CTX_TRY(c) {
    emodule *m = expr_parse(c, text, name);
    if (!m) ctx_unwind(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 1e-5};
    expr_observer ob = *how;
    ob.after = pc_after, ob.env = &p, ob.spent = &o->spent;
    pc_inputs(&p, ctx_arena(c));
    pc_reference(&p, ctx_arena(c));
    expr_optimise(m, 3, &ob);
    if (tiles && !p.bad) pc_tiles(&p, 3);
    sbuf b = sbuf_new(m->a);
    pc_summary(m, &b);
    snprintf(summary, sizeof summary, "%s", b.s ? b.s : "");
    o->bad = p.bad;
  }
  CTX_CATCH { printf("%s: failed\n", name); }
  for (const diag *d = diag_first(c); d; d = d->next) printf("%s:%u: %s\n", name, d->pos.line, d->text);
  ctx_free(c);
}
static void run_text(const char *name, const char *text, uint64_t fuel, bool tiles, outcome *o) {
  run(&(expr_observer){.fuel = fuel}, name, text, tiles, o);
}
static void test_examples(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    outcome o;
    run_text(examples[i].name, examples[i].text, 0, true, &o);
    if (o.bad || strcmp(o.summary, examples[i].kernels))
      bad++, printf("%s: kernels are %s, expected %s\n", examples[i].name, o.summary, examples[i].kernels);
  }
  assert_int_equal(bad, 0);
}
/* A DAG that unfolds to 2^60 nodes: sums, products and conditions that share their halves. */
static void test_shared(void **state) {
  (void)state;
  static char text[1 << 15];
  size_t n = 0;
  n += (size_t)snprintf(text + n, sizeof text - n,
                        "tensor x: f32[4, 3] input \"x\"\ntensor w: f32[3, 2] input \"w\"\nstage s0: f32[a<4, b<2] = "
                        "sum[k<3] x[a, k] * w[k, b]\n");
  for (int i = 0; i < 60; i++)
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "stage s%d: f32[a%d<4, b%d<2]%s = (s%d[a%d, b%d] %c s%d[a%d, b%d]) * 0.5\n", i + 1, i, i,
                          i == 59 ? " out" : "", i, i, i, i % 2 ? '*' : '+', i, i, i);
  snprintf(text + n, sizeof text - n, "output s60 \"y\"\n");
  outcome o;
  run_text("shared halves", text, 0, false, &o);
  assert_int_equal(o.bad, 0);
  assert_string_equal(o.summary, "contraction 1");
}
/* The same below a sum: stages that square what the one before has, and a value that does. */
static void test_squares_below(void **state) {
  (void)state;
  static char text[1 << 15], value[1 << 12];
  enum { SQUARES = 60 };
  size_t n = 0, open = 0;
  outcome o;
  n += (size_t)snprintf(text, sizeof text, "tensor s0: f32[4, 3] input \"x\"\ntensor w: f32[3] input \"w\"\n");
  for (int i = 0; i < SQUARES; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "stage s%d: f32[a%d<4, b%d<3] = s%d[a%d, b%d] * s%d[a%d, b%d]\n",
                          i + 1, i, i, i, i, i, i, i, i);
  n += (size_t)snprintf(text + n, sizeof text - n, "stage y: f32[b<3] out = sum[a<4] s%d[a, b] * w[b]\n", SQUARES);
  for (int i = SQUARES; i > 0; i--) open += (size_t)snprintf(value + open, sizeof value - open, "($%d := ", i);
  open += (size_t)snprintf(value + open, sizeof value - open, "s0[i, j]");
  for (int i = 1; i <= SQUARES; i++) open += (size_t)snprintf(value + open, sizeof value - open, ") * $%d", i);
  snprintf(text + n, sizeof text - n, "stage z: f32[j<3] out = sum[i<4] %s * w[j]\noutput y \"y\"\noutput z \"z\"\n",
           value);
  run_text("squares below a sum", text, 0, false, &o);
  assert_int_equal(o.bad, 0);
}
/* A window with many channels becomes products of transformed tiles: one axis and two, extents that tiles divide and
 * that they don't, with and without an outside, a residual behind it; taps that lie apart; few taps and many, these
 * also in parts, backwards, with a stride; not in strict mode. */
static void test_windows(void **state) {
  (void)state;
  static const struct {
    const char *w, *x, *sum, *over, *again;
    uint32_t taps, rows;
  } shapes[] = {
      {"24, 24, 3, 3", "x: f32[24, 20, 18]",
       "q<24, k<3, l<3] (load x[q, i + k - 1, j + l - 1] else 0.0) * w[o, q, k, l]", "i<20, j<18", "b<20, c<18",
       24 * 24 * 9, 24},
      {"24, 24, 3, 3", "x: f32[24, 26, 25]", "q<24, k<3, l<3] x[q, i + 2 - k, j + l] * w[o, q, k, l]", "i<24, j<23",
       "b<24, c<23", 24 * 24 * 9, 24},
      {"64, 64, 3", "x: f32[64, 400, 1]", "q<64, k<3] (load x[q, i + k - 1, 0] else 0.0) * w[o, q, k]", "i<400, j<1",
       "b<400, c<1", 64 * 64 * 3, 64},
      {"24, 24, 3, 3", "x: f32[24, 20, 30]",
       "q<24, k<3, l<3] (load x[q, i + 2*k - 2, j + 3*l - 3] else 0.0) * w[o, q, k, l]", "i<20, j<30", "b<20, c<30",
       24 * 24 * 9, 24},
      {"24, 24, 3, 3", "x: f32[24, 28, 60]", "q<24, k<3, l<3] x[q, i + 4 - 2*k, 2*j + 4*l] * w[o, q, k, l]",
       "i<24, j<24", "b<24, c<24", 24 * 24 * 9, 24},
      {"20, 20, 9, 7", "x: f32[20, 28, 26]",
       "q<20, k<9, l<7] (load x[q, i + k - 4, j + l - 3] else 0.0) * w[o, q, k, l]", "i<28, j<26", "b<28, c<26",
       20 * 20 * 63, 20},
      {"20, 20, 9, 7", "x: f32[20, 36, 26]", "q<20, k<9, l<7] x[q, i - k + 8, j + l] * w[o, q, k, l]", "i<28, j<20",
       "b<28, c<20", 20 * 20 * 63, 20},
      {"12, 12, 67", "x: f32[12, 200, 1]", "q<12, k<67] (load x[q, i + k - 33, 0] else 0.0) * w[o, q, k]", "i<200, j<1",
       "b<200, c<1", 12 * 12 * 67, 12},
      {"12, 12, 67", "x: f32[12, 261, 1]", "q<12, k<67] x[q, i - k + 66, 0] * w[o, q, k]", "i<192, j<1", "b<192, c<1",
       12 * 12 * 67, 12},
      {"24, 24, 32", "x: f32[24, 600, 1]", "q<24, k<32] x[q, 2*i + k, 0] * w[o, q, k]", "i<285, j<1", "b<285, c<1",
       24 * 24 * 32, 24},
      {"12, 12, 8, 8", "x: f32[12, 40, 40]",
       "q<12, k<8, l<8] (load x[q, 2*i + k - 4, 2*j + l - 4] else 0.0) * w[o, q, k, l]", "i<20, j<20", "b<20, c<20",
       12 * 12 * 64, 12},
      {"8, 40, 33", "x: f32[8, 12, 96]", "k<40, l<33] (load x[o, i + k - 20, j + l - 16] else 0.0) * w[o, k, l]",
       "i<12, j<96", "b<12, c<96", 8 * 40 * 33, 8},
  };
  static char text[1 << 19];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int strict = 0; strict < 2; strict++) {
      size_t n = (size_t)snprintf(text, sizeof text, "tensor %s input \"x\"\ntensor w: f32[%s] const [", shapes[i].x,
                                  shapes[i].w);
      for (uint32_t k = 0; k < shapes[i].taps; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.3f", k ? ", " : "",
                              (double)(k * 2654435761u % 2001) / 1000 - 1);
      snprintf(
          text + n, sizeof text - n,
          "]\nstage y: f32[o<%u, %s] = sum[%s\nstage z: f32[a<%u, %s] out = max(y[a, b, c], 0.0)\noutput z \"z\"\n",
          shapes[i].rows, shapes[i].over, shapes[i].sum, shapes[i].rows, shapes[i].again);
      outcome o;
      run(&(expr_observer){.strict = strict, .skip = "windows"}, "window", text, true, &o);
      assert_int_equal(o.bad, 0);
      if (strict)
        assert_true(!strcmp(o.summary, "contraction 1") || !strcmp(o.summary, "stencil 1"));
      else
        assert_true((strstr(o.summary, "contraction 1") || strstr(o.summary, "stencil 1")) &&
                    strstr(o.summary, "elementwise"));
    }
}
/* A window whose factors are computed in each run becomes products, too, whichever operand comes first: one axis and
 * two, backwards, a last tile that lacks outputs, and a sum over places, as the gradient of a window's factors is one;
 * not in strict mode, nor where there are more taps. */
static void test_computed_windows(void **state) {
  (void)state;
  static const struct {
    const char *x, *w, *y, *sum;
    bool stays;
  } shapes[] = {
      {"64, 20, 18", "64, 64, 3, 3", "o<64, i<20, j<18",
       "q<64, k<3, l<3] (load x[q, i + k - 1, j + l - 1] else 0.0) * w[o, q, k, l]", false},
      {"64, 20, 18", "64, 64, 3, 3", "o<64, i<20, j<18",
       "q<64, k<3, l<3] w[q, o, k, l] * (load x[q, i + 1 - k, j + 1 - l] else 0.0)", false},
      {"64, 400, 1", "64, 64, 3", "o<64, i<400, j<1", "q<64, k<3] (load x[q, i + k - 1, 0] else 0.0) * w[o, q, k]",
       false},
      {"16, 64, 9, 9", "64, 64, 3, 3", "n<16, o<64, i<7, j<7", "q<64, k<3, l<3] x[n, q, i + k, j + l] * w[o, q, k, l]",
       false},
      {"32, 48, 4, 4", "32, 64, 4, 4", "o<64, p<48, k<3, l<3",
       "n<32, i<4, j<4] (load x[n, p, i + k - 1, j + l - 1] else 0.0) * w[n, o, i, j]", false},
      {"64, 40, 48", "64, 64, 9, 9", "o<64, i<32, j<40", "q<64, k<9, l<9] x[q, i + k, j + l] * w[o, q, k, l]", true},
  };
  char text[1024];
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int strict = 0; strict < 2; strict++) {
      snprintf(text, sizeof text,
               "tensor x: f32[%s] input \"x\"\ntensor w: f32[%s] input \"w\"\nstage y: f32[%s] out = sum[%s\n"
               "output y \"y\"\n",
               shapes[i].x, shapes[i].w, shapes[i].y, shapes[i].sum);
      outcome o;
      run(&(expr_observer){.strict = strict, .skip = "windows"}, "computed window", text, true, &o);
      assert_int_equal(o.bad, 0);
      assert_int_equal(strstr(o.summary, "elementwise") != NULL, !strict && !shapes[i].stays);
    }
}
/* Products of a tile of the windows y, where `rest` reads y. */
static int products_of_tile(const char *rest) {
  char text[1024];
  snprintf(text, sizeof text,
           "tensor x: f32[64, 24, 24] input \"x\"\ntensor w: f32[64, 64, 3, 3] input \"w\"\nstage y: f32[o<64, i<24, "
           "j<24] = sum[q<64, k<3, l<3] (load x[q, i + k - 1, j + l - 1] else 0.0) * "
           "w[o, q, k, l]\n%soutput z \"z\"\n",
           rest);
  ctx *c = ctx_new();
  int products = 0;
  CTX_TRY(c) {
    emodule *m = expr_parse(c, text, "decisions");
    if (!m) ctx_unwind(c);
    expr_optimise(m, 3, &(expr_observer){.t = target_get(c, "x86-64-v4")});
    sbuf b = sbuf_new(m->a);
    expr_print(m, &b, (print_opts){0});
    const char *at = strstr(b.s, "stage products: f32 [a");
    for (int axis = 0; at && axis < 2; axis++) at = strchr(at, '<') + 1, products = (axis ? products : 1) * atoi(at);
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("decisions:%u: %s\n", d->pos.line, d->text);
  ctx_free(c);
  return products;
}
/* Factors that a run computes take forms that magnify no error where a decision depends on the sum: a comparison,
 * through other stages as well, or the place of a maximum; not where what is compared is something else. */
static void test_decisions(void **state) {
  (void)state;
  static const struct {
    const char *rest;
    bool decides;
  } cases[] = {
      {"stage z: f32[a<64, b<24, c<24] out = max(y[a, b, c], 0.0)\n", false},
      {"stage z: f32[a<64, b<24, c<24] out = x[a, b, c] > 0.0 ? y[a, b, c] : 0.0\n", false},
      {"stage z: f32[a<64, b<24, c<24] out = y[a, b, c] > 0.0 ? x[a, b, c] : 0.0\n", true},
      {"stage r: f32[d<64] = sum[e<24, f<24] y[d, e, f]\n"
       "stage z: f32[a<64, b<24, c<24] out = max(r[a], 0.5) < x[a, b, c] ? 1.0 : 0.0\n",
       true},
      {"stage z: i64[a<24, b<24] out = argmax[c<64] y[c, a, b]\n", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int products = products_of_tile(cases[i].rest);
    if (products != (cases[i].decides ? 25 : 36)) printf("case %zu: %d products\n", i, products);
    assert_true(cases[i].decides ? products == 25 : products == 36);
  }
}
/* Stages of so many windows one after the other, behind each a tanh of `factor` times its values, when optimised. */
static int stages_of_windows(int depth, int factor) {
  static char text[1 << 16];
  int n = snprintf(text, sizeof text, "tensor y0: f32[24, 20, 18] input \"x\"\ntensor w: f32[24, 24, 3, 3] const [");
  for (uint32_t k = 0; k < 24 * 24 * 9; k++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%.3f", k ? ", " : "",
                  ((double)(k * 2654435761u % 2001) / 1000 - 1) / 8);
  n += snprintf(text + n, sizeof text - (size_t)n, "]\n");
  for (int l = 1; l <= depth; l++) {
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "stage x%d: f32[o%d<24, i%d<20, j%d<18] = sum[q%d<24, k%d<3, l%d<3] (load y%d[q%d, i%d + k%d - 1, "
                  "j%d + l%d - 1] else 0.0) * w[o%d, q%d, k%d, l%d]\n",
                  l, l, l, l, l, l, l, l - 1, l, l, l, l, l, l, l, l, l);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "stage y%d: f32[a%d<24, b%d<20, c%d<18]%s = tanh(%d.0 * x%d[a%d, b%d, c%d])\n", l, l, l, l,
                  l == depth ? " out" : "", factor, l, l, l, l);
  }
  snprintf(text + n, sizeof text - (size_t)n, "output y%d \"y\"\n", depth);
  ctx *c = ctx_new();
  volatile int live = 0;
  CTX_TRY(c) {
    emodule *m = expr_parse(c, text, "deep");
    assert_non_null(m);
    expr_optimise(m, 3, &(expr_observer){.skip = "windows"});
    for (uint32_t s = 0; s < m->stages.n; s++) live = live + !xs(m, s)->dead;
  }
  CTX_CATCH { printf("%s\n", diag_first(c) ? diag_first(c)->text : ""); }
  ctx_free(c);
  return live;
}
/* Windows take forms with fewer multiplications, of many stages each, unless errors add up too much: because there are
 * many windows, or because a tanh of large values magnifies errors. */
static void test_deep_windows(void **state) {
  (void)state;
  assert_true(stages_of_windows(1, 1) > 2);
  assert_true(stages_of_windows(8, 1) > 16);
  assert_int_equal(stages_of_windows(70, 3), 140);
  assert_int_equal(stages_of_windows(8, 40), 16);
}
/* A window over whole numbers becomes products with fewer multiplications where the target multiplies i16, in strict
 * mode, too: exact, whatever the values are. Not where the result, or what is multiplied, might not fit. */
static void whole_window(const char *x, const char *sum, bool strict, bool taken) {
  static char text[1 << 17];
  size_t n = (size_t)snprintf(text, sizeof text, "tensor x: %s input \"x\"\ntensor w: i8[32, 32, 3, 3] const [", x);
  for (uint32_t k = 0; k < 32 * 32 * 9; k++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", k ? ", " : "",
                          k % 5   ? (int)(k * 2654435761u % 256) - 128
                          : k % 2 ? 127
                                  : -128);
  snprintf(text + n, sizeof text - n,
           "]\nstage y: i32[o<32, i<13, j<14] = sum[q<32, k<3, l<3] %s * i32(w[o, q, k, l])\n"
           "stage z: i32[a<32, b<13, c<14] out = max(y[a, b, c], -1000i32)\noutput z \"z\"\n",
           sum);
  ctx *c = ctx_new();
  bool good = false;
  CTX_TRY(c) {
    emodule *m = expr_parse(c, text, "whole");
    if (!m) ctx_unwind(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 0, .bytes = true};
    pc_inputs(&p, ctx_arena(c));
    pc_reference(&p, ctx_arena(c));
    expr_optimise(m, 3,
                  &(expr_observer){.after = pc_after, .env = &p, .strict = strict, .t = target_get(c, "x86-64-v3")});
    sbuf b = sbuf_new(m->a);
    expr_print(m, &b, (print_opts){0});
    good = !p.bad && (strstr(b.s, "stage spread") != NULL) == taken;
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("whole window:%u: %s\n", d->pos.line, d->text);
  ctx_free(c);
  assert_true(good);
}
static void test_whole_windows(void **state) {
  (void)state;
  for (int strict = 0; strict < 2; strict++) {
    whole_window("u8[32, 13, 14]", "i32((load x[q, i + k - 1, j + l - 1] else 7u8))", strict, true);
    whole_window("i8[32, 15, 16]", "i32(x[q, i + k, j + l])", strict, true);
    whole_window("i16[32, 15, 16]", "i32(x[q, i + k, j + l])", strict, false);
  }
}
/* A window with many taps of which there is no output. */
static void test_empty_window(void **state) {
  (void)state;
  char text[1 << 12];
  size_t n = (size_t)snprintf(text, sizeof text, "tensor x: f32[2, 7] input \"x\"\ntensor w: f32[3, 2, 8] const [");
  for (uint32_t k = 0; k < 48; k++)
    n +=
        (size_t)snprintf(text + n, sizeof text - n, "%s%.2f", k ? ", " : "", (double)(k * 2654435761u % 201) / 100 - 1);
  snprintf(text + n, sizeof text - n,
           "]\nstage y: f32[o<3, i<0] out = sum[q<2, k<8] x[q, 2*i + k] * w[o, q, k]\noutput y \"y\"\n");
  outcome o;
  run(&(expr_observer){0}, "empty window", text, true, &o);
  assert_int_equal(o.bad, 0);
}
/* any amount of fuel gives a correct module */
static void test_fuel(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    outcome o;
    run_text(examples[i].name, examples[i].text, 0, false, &o);
    for (uint64_t f = 1; f <= o.spent; f++) {
      outcome q;
      run_text(examples[i].name, examples[i].text, f, true, &q);
      if (q.bad) bad++, printf("%s: wrong with fuel %llu\n", examples[i].name, (unsigned long long)f);
    }
  }
  assert_int_equal(bad, 0);
}

/* ---- narrow arithmetic: the same text with f64 for f16 says what is true; after `widen` every output is off by its
 * own rounding alone, which is 2^-11, however large or small the values between are ---- */
static const example narrow[] = {
    {"squares beyond f16's range", NULL,
     "tensor x: f16[4, 3] input \"x\"\n"
     "stage y: f16[a<4, b<3] = x[a, b] * 300.0f16\n"
     "stage z: f16[c<4, d<3] = y[c, d] * y[c, d]\n"
     "stage m: f16[e<4] = sum[k<3] z[e, k]\n"
     "stage r: f16[f<4] out = sqrt(m[f])\n"
     "output r \"r\"\n"},
    {"a recurrence with small steps", NULL,
     "tensor x: f16[50, 3] input \"x\"\n"
     "recurrence s1 t<50\n"
     "declare H: f16[50, 3]\n"
     "stage H: f16[t, a<3] recurrence s1 = (load H[t - 1, a] else 8.0f16) + abs(x[t, a]) * 0.001f16\n"
     "stage y: f16[b<50, c<3] out = (H[b, c] - 8.0f16) * 64.0f16\n"
     "output y \"y\"\n"},
    {"sums in place", NULL,
     "tensor x: f16[50, 2] input \"x\"\n"
     "stage y: f16[a<2] = 100.0f16\n  update [b<50, c<2] y[c] += x[b, c] * x[b, c] * 0.125f16\n"
     "stage z: f16[d<2] out = y[d] - 100.0f16\n"
     "output z \"z\"\n"},
    {"branches, borders, comparisons, conversions", NULL,
     "tensor x: f16[4] input \"x\"\n"
     "tensor b: bool[] input \"b\"\n"
     "stage p: f16[a<4] = x[a] * 0.0001f16\n"
     "stage s: f32[e<4] = f32(p[e]) * 10000.0\n"
     "stage q: f16[c<4] = f16(max(s[c], 1e-7)) + (load p[c - 1] else x[c] * 0.3f16)\n"
     "if b {\n  stage t: f16[d<4] out = sqrt(q[d] * q[d])\n} else {\n  stage e1: f16[f<4] out = sqrt(p[f] * p[f]) * "
     "10000.0f16\n}\n  result r: f16[4] = t | e1\n"
     "stage l: f16[g<4] out = log(f16(max(f32(p[g]), 1e-12)))\n"
     "stage m: i64[] out = argmax[h<4] p[h]\n"
     "output r \"r\"\noutput l \"l\"\noutput m \"m\"\n"},
};
/* ---- what is stored is what is read: an output, or what is compared or counted, has the values of its type for all
 * who read it, so that results with steps are those of the evaluator to the letter ---- */
static const example stored[] = {
    {"an output that is compared", NULL,
     "tensor x: f16[64] input \"x\"\ntensor y: f16[64] input \"y\"\n"
     "stage d: f16[a<64] out = x[a] / y[a]\n"
     "stage p: f16[b<64] = d[b] * y[b]\n"
     "stage g: bool[c<64] out = p[c] == x[c]\n"
     "stage h: bool[e<64] out = d[e] * d[e] > y[e]\n"
     "output d \"d\"\noutput g \"g\"\noutput h \"h\"\n"},
    {"places and conversions", NULL,
     "tensor x: f16[8, 64] input \"x\"\n"
     "stage d: f16[a<8, b<64] = x[a, b] * 1.01f16\n"
     "stage m: f16[c<8, e<64] = d[c, 63 - e]\n"
     "stage i: i64[f<8] out = argmax[g<64] m[f, g]\n"
     "stage p: f16[q<8, r<64] = m[q, r] * 99.0f16\n"
     "stage k: i32[h<8, j<64] out = i32(p[h, j])\n"
     "output i \"i\"\noutput k \"k\"\n"},
    {"sums in place and steps", NULL,
     "tensor x: f16[4] input \"x\"\n"
     "stage s: f16[a<4] out = 1.0f16\n  update [b<1, c<4] s[c] += x[c] * 0.001f16\n"
     "stage q: bool[e<4] out = s[e] == 1.0f16\n"
     "stage z: f16[i<4] = x[i] * 0.999f16\n"
     "recurrence s1 t<2\n"
     "declare H: f16[2, 4]\n"
     "stage H: f16[t, f<4] recurrence s1 out = (load H[t - 1, f] else x[f] * 0.999f16)\n"
     "stage r: bool[g<4] out = H[1, g] == z[g]\n"
     "output s \"s\"\noutput q \"q\"\noutput H \"H\"\noutput r \"r\"\n"},
};
static uint32_t stored_bad(const char *name, const char *text) {
  volatile uint32_t bad = 1;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    emodule *m = expr_parse(c, text, name);
    if (!m) ctx_unwind(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 1e-7};
    pc_inputs(&p, ctx_arena(c));
    pc_reference(&p, ctx_arena(c));
    expr_optimise(m, 3, &(expr_observer){.after = pc_after, .env = &p});
    bad = p.bad;
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("%s:%u: %s\n", name, d->pos.line, d->text);
  ctx_free(c);
  if (bad) printf("%s\n", name);
  return bad;
}
static void test_stored(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
    assert_int_equal(stored_bad(stored[i].name, stored[i].text), 0);
}
/* ---- factors kept in bf16: every pass gives what was there before but for that, and the tensors that are kept so
 * are counted ---- */
static const char kept_narrow[] =
    "tensor x: f32[2, 9, 7, 4] input \"x\"\n"
    "tensor w: f32[6, 3, 4] const @\n"
    "tensor u: f32[8, 6] const @\n"
    "tensor g: f32[16, 5] const @\n"
    "stage p: f32[n<2, h<9, v<7, m<6] = sum[q<3, k<4] (load x[n, h, v + q - 1, k] else 9.0) * w[m, q, k]\n"
    "stage r: f32[n1<2, h1<9, v1<7, m1<6] out = max(p[n1, h1, v1, m1], 0.0)\n"
    "stage s: f32[n2<2, h2<9, v2<7, j<8] = sum[i<6] r[n2, h2, v2, i] * u[j, i]\n"
    "stage t: f32[n3<2, h3<9, v3<7, j3<8] = tanh(s[n3, h3, v3, j3] * 0.1)\n"
    "stage e: f32[n4<2, h4<9, v4<7, j4<8] = exp(s[n4, h4, v4, j4] * -0.1)\n"
    "stage c: f32[n5<2, h5<9, v5<7, j5<16] tiled\n  update [a<2, b<9, d<7, f<8] c[a, b, d, f] := t[a, b, d, f]\n  "
    "update [a1<2, b1<9, d1<7, f1<8] c[a1, b1, d1, 8 + f1] := e[a1, b1, d1, f1]\n"
    "stage y: f32[n6<2, h6<9, v6<7, o<5] out = sum[l<16] c[n6, h6, v6, l] * g[l, o]\n"
    "stage z: f32[n7<2, h7<9, v7<7, j7<8] out = t[n7, h7, v7, j7] + 1.0\n"
    "output r \"r\"\noutput y \"y\"\noutput z \"z\"\n";
/* Both factors are values of the run: a column, counted by the sum's variable along an axis that it shares, and the
 * results of exp; few rows of the same stay f32. */
static const char kept_both[] = "tensor x: f32[20, 16] input \"x\"\n"
                                "tensor w: f32[24, 16] input \"w\"\n"
                                "tensor v: f32[24, 20] input \"v\"\n"
                                "tensor u: f32[4, 24] input \"u\"\n"
                                "stage p: f32[m<20, n<24] = sum[k<8] x[m, 8 + k] * w[n, 8 + k]\n"
                                "stage e: f32[m1<20, n1<24] = exp(p[m1, n1] * 0.1)\n"
                                "stage y: f32[m2<20, n2<20] out = sum[k2<24] e[m2, k2] * v[k2, n2]\n"
                                "stage z: f32[m3<4, n3<20] out = sum[k3<24] u[m3, k3] * v[k3, n3]\n"
                                "output y \"y\"\noutput z \"z\"\n";
/* The sum goes along the innermost axis of neither factor, one of which a window reads: of both a copy is made in which
 * pairs of its terms lie side by side. One variable has an odd number of values, and one is counted by the window. */
static const char kept_pairs[] =
    "tensor x: f32[4, 3, 9, 20] input \"x\"\n"
    "tensor d: f32[4, 3, 7, 24] input \"d\"\n"
    "stage r: f32[a<4, b<3, h<9, i<20] = max(x[a, b, h, i], 0.0)\n"
    "stage g: f32[i1<20, j<24, k<3] out = sum[b1<3, h1<7, n<4] (load r[n, b1, h1 + k, i1] else 0.0) * d[n, b1, h1, j]\n"
    "output g \"g\"\n";
/* The same where a factor is computed of integers, too, whose innermost axis is the sum's. */
static const char kept_beside_integers[] = "tensor x: f32[12, 20] input \"x\"\n"
                                           "tensor q: i64[20, 12] input \"q\"\n"
                                           "tensor d: f32[12, 24] input \"d\"\n"
                                           "stage r: f32[h<12, i<20] = f32(q[i, h] > 3) + x[h, i]\n"
                                           "stage e: f32[h2<12, i2<20] = exp(r[h2, i2] * 0.1)\n"
                                           "stage g: f32[i1<20, j<24] out = sum[h1<12] e[h1, i1] * d[h1, j]\n"
                                           "output g \"g\"\n";
static void kept_in_bf16(const char *text, const char *target, bool derived, uint32_t expected) {
  volatile uint32_t bad = 1, kept = 0;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    arena *a = ctx_arena(c);
    emodule *m = expr_parse(c, pc_constants(a, text), "kept");
    if (!m) ctx_unwind(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 0.01};
    pc_inputs(&p, a);
    pc_reference(&p, a);
    m->derived = derived;
    expr_optimise(m, 3, &(expr_observer){.after = pc_after, .env = &p, .narrow = ET_BF16, .t = target_get(c, target)});
    for (uint32_t i = 0; i < m->stages.n; i++)
      if (!xs(m, i)->dead) kept += xt(m, xs(m, i)->tensor)->type == ET_BF16;
    bad = p.bad + (expected && p.worst < 1e-5); /* nothing was rounded */
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("kept:%u: %s\n", d->pos.line, d->text);
  ctx_free(c);
  assert_int_equal(bad, 0);
  assert_int_equal(kept, expected);
}
static void write_target(const char *file, const char *text) {
  ctx *c = ctx_new();
  assert_true(file_write(c, file, text, strlen(text)));
  ctx_free(c);
}
static void test_kept_narrow(void **state) {
  (void)state;
  kept_in_bf16(kept_narrow, "zen5", false, 5); /* copies of x and r; t, e and c themselves */
}
static void test_kept_both(void **state) {
  (void)state;
  kept_in_bf16(kept_both, "zen5", false, 4); /* copies of x, w and v; e itself */
}
static void test_kept_pairs(void **state) {
  (void)state;
  kept_in_bf16(kept_pairs, "zen5", false, 3);           /* r; copies of r and d */
  kept_in_bf16(kept_beside_integers, "zen5", false, 3); /* e; copies of e and d */
}
/* Where pairs of bf16 are multiplied more slowly than floats, only a large constant that few rows use is kept in it. */
static void test_kept_slow_pairs(void **state) {
  (void)state;
  static const char few_rows[] = "tensor x: f32[2, 32] input \"x\"\n"
                                 "tensor w: f32[32, 32] const @\n"
                                 "stage y: f32[m<2, n<32] out = sum[k<32] x[m, k] * w[k, n]\n"
                                 "output y \"y\"\n",
                    file[] = EK_BINARY_DIR "/small.target";
  write_target(file, "extends = sapphire-rapids\nl2 = 4096\n");
  kept_in_bf16(kept_narrow, "sapphire-rapids", false, 0);
  kept_in_bf16(kept_both, "sapphire-rapids", false, 0);
  kept_in_bf16(kept_pairs, "sapphire-rapids", false, 0);
  kept_in_bf16(few_rows, "sapphire-rapids", false, 0);
  kept_in_bf16(few_rows, file, false, 1); /* a copy of x */
}
/* A large value of a training step that other kernels read is stored in bf16: y. Small ones, what is compared with a
 * value (w) and what an output is computed of (v) stay f32. */
static void test_stored_in_bf16(void **state) {
  (void)state;
  static const char text[] = "tensor x: f32[64, 6] input \"x\"\n"
                             "tensor c: f32[6, 48] const @\n"
                             "stage y: f32[m<64, n<48] = sum[k<6] x[m, k] * c[k, n]\n"
                             "stage s: f32[n1<48] = sum[m1<64] y[m1, n1]\n"
                             "stage v: f32[m2<64, n2<48] = abs(y[m2, n2] - s[n2])\n"
                             "stage q: f32[n3<48] = sum[m3<64] sqrt(v[m3, n3])\n"
                             "stage z: f32[m4<64] out = max[n4<48] v[m4, n4] + q[n4]\n"
                             "stage w: f32[m5<64, n5<48] = exp(y[m5, n5] * 0.01)\n"
                             "stage g: f32[n6<48] = max[m6<64] w[m6, n6]\n"
                             "stage b: bool[m7<64, n7<48] out = w[m7, n7] == g[n7]\n"
                             "output z \"z\"\noutput b \"b\"\n",
                    file[] = EK_BINARY_DIR "/stored.target";
  write_target(file, "extends = zen5\nl2 = 4096\n");
  kept_in_bf16(text, file, true, 2);   /* y, and a copy of x for the product */
  kept_in_bf16(text, file, false, 1);  /* read soon */
  kept_in_bf16(text, "zen5", true, 1); /* y stays in a core's caches */
}
/* ---- products of bytes (pass integer) --------------------------------------------------------- */
typedef struct bytes_example {
  const char *name;
  uint32_t found; /* sums of products of bytes, tables, or extremes of bytes that come of it */
  const char *text;
} bytes_example;
static const bytes_example in_bytes[] = {
    {"window, zero point, padding", 1,
     "tensor x: u8[1, 8, 5, 5] input \"x\"\ntensor w: i8[6, 8, 3, 3] input \"w\"\n"
     "stage d: f32[c<8, h<5, v<5] = f32(x[0, c, h, v]) - 121.0\n"
     "stage y: f32[m<6, a<5, b<5] out = sum[k<8, i<3, j<3] (load d[k, a + i - 1, b + j - 1] else 0.0) * f32(w[m, k, i, "
     "j])\n"
     "output y \"y\"\n"},
    {"both factors u8 with zero points", 1,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: u8[12, 9] input \"w\"\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] (f32(x[m, k]) - 121.0) * (f32(w[k, n]) - 130.0)\noutput y \"y\"\n"},
    {"integers, one i8 with a zero point", 1,
     "tensor x: i8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: i32[m<7, n<9] out = sum[k<12] (i32(x[m, k]) - 5i32) * (i32(w[k, n]) + 3i32)\noutput y \"y\"\n"},
    {"a constant of many whole numbers that moved by a zero point", 1,
     "tensor x: u8[2, 260] input \"x\"\ntensor w: i8[260, 256] const @\n"
     "stage v: i32[a<260, b<256] = i32(w[a, b]) - 5i32\n"
     "stage y: i32[m<2, n<256] out = sum[k<260] (i32(x[m, k]) - 3i32) * v[k, n]\noutput y \"y\"\n"},
    {"one tensor is both factors", 1,
     "tensor x: u8[8, 8] input \"x\"\n"
     "stage d: f32[a<8, b<8] = f32(x[a, b]) - 126.0\n"
     "stage y: f32[m<8, n<8] out = sum[k<8] d[m, k] * d[k, n]\noutput y \"y\"\n"},
    {"a zero point that comes from data", 1,
     "tensor x: u8[7, 12] input \"x\"\ntensor z: u8[7] input \"z\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: i32[m<7, n<9] out = sum[k<12] (i32(x[m, k]) - i32(z[m])) * i32(w[k, n])\noutput y \"y\"\n"},
    {"two layers, the first one rounded to i8, also read by another stage", 2,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 16] input \"w\"\ntensor u: i8[16, 9] input \"u\"\n"
     "stage p: f32[m<7, n<16] = sum[k<12] f32(x[m, k]) * f32(w[k, n])\n"
     "stage q: f32[a<7, b<16] = f32(sat(i8, round_even(p[a, b] * 0.01) + 7.0)) - 7.0\n"
     "stage r: f32[c<7, d<9] out = sum[e<16] q[c, e] * f32(u[e, d])\n"
     "stage s: f32[f<7, g<16] out = exp(q[f, g] * 0.01)\noutput r \"r\"\noutput s \"s\"\n"},
    {"a placement of bytes", 1,
     "tensor x: f32[7, 8] input \"x\"\ntensor z: f32[7, 8] input \"z\"\ntensor u: i8[16, 9] input \"u\"\n"
     "stage p: f32[m<7, n<8] = f32(sat(u8, round_even(x[m, n] * 99.0))) - 3.0\n"
     "stage q: f32[a<7, b<8] = f32(sat(u8, round_even(z[a, b] * 250.0))) - 3.0\n"
     "stage c: f32[i<7, j<16] tiled\n  update [a1<7, b1<8] c[a1, b1] := p[a1, b1]\n"
     "  update [a2<7, b2<8] c[a2, 8 + b2] := q[a2, b2]\n"
     "stage r: f32[e<7, d<9] out = sum[l<16] c[e, l] * f32(u[l, d])\noutput r \"r\"\n"},
    {"rounded twice in one scale, then in another one", 1,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage p: f32[m<7, n<9] = sum[k<12] f32(x[m, k]) * f32(w[k, n])\n"
     "stage q: f32[a<7, b<9] = f32(sat(i8, round_even(p[a, b] * 0.03) + 7.0)) - 7.0\n"
     "stage r: f32[c<7, d<9] = f32(sat(i8, round_even(q[c, d] * 0.3 / 0.3) + 7.0)) - 7.0\n"
     "stage t: f32[e<7, f<9] out = f32(sat(u8, round_even(r[e, f] * 0.3 / 0.2) + 3.0)) - 3.0\noutput t \"t\"\n"},
    {"a clamp that is needed", 1,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage q: f32[a<7, b<12] = min(f32(x[a, b]), 99.0)\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] q[m, k] * f32(w[k, n])\noutput y \"y\"\n"},
    {"what might be NaN is clamped before it is moved", 1,
     "tensor x: f32[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage q: f32[a<7, b<12] = f32(sat(i8, round_even(x[a, b] / (x[a, b] - x[a, b])) + 7.0))\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] q[m, k] * f32(w[k, n])\noutput y \"y\"\n"},
    {"more digits than a tensor may have axes", 1,
     "tensor x: u8[512, 4] input \"x\"\ntensor w: i8[4, 256] input \"w\"\n"
     "stage y: f32[(r0<2, r1<2, r2<2, r3<2, r4<2, r5<2, r6<2, r7<2, r8<2), (c0<2, c1<2, c2<2, c3<2, c4<2, c5<2, c6<2, "
     "c7<2)] out = sum[k<4] "
     "(f32(x[256*r0 + 128*r1 + 64*r2 + 32*r3 + 16*r4 + 8*r5 + 4*r6 + 2*r7 + r8, k]) - 7.0) * f32(w[k, 128*c0 + 64*c1 + "
     "32*c2 + 16*c3 + 8*c4 + 4*c5 + 2*c6 + c7])\noutput y \"y\"\n"},
    {"a step of a recurrence whose state is rounded with the step's own zero point", 1,
     "recurrence s1 t<5\ntensor x: f32[5, 16] input \"x\"\ntensor w: i8[16, 16] input \"w\"\n"
     "declare H: f32[5, 16]\n"
     "stage lo: f32[t] recurrence s1 = min[k<16] (load H[t - 1, k] else 0.0)\n"
     "stage q: u8[t, j<16] recurrence s1 = sat(u8, round_even(((load H[t - 1, j] else 0.0) - lo[t]) * 99.0))\n"
     "stage d: i32[t, h<16] recurrence s1 = sum[i<16] (i32(q[t, i]) - i32(sat(u8, lo[t] * -9.0))) * i32(w[i, h])\n"
     "stage H: f32[t, g<16] recurrence s1 out = tanh(x[t, g] + f32(d[t, g]) * 0.0001)\noutput H \"H\"\n"},
    {"a conversion that changes values", 0,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: i32[m<7, n<9] out = sum[k<12] i32(i8(x[m, k])) * i32(w[k, n])\noutput y \"y\"\n"},
    {"a sum that wraps", 0,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: i32[m<7, n<9] out = sum[k<12] i32(i16(x[m, k]) + 32700i16) * i32(w[k, n])\noutput y \"y\"\n"},
    {"16 bits", 0,
     "tensor x: u16[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] f32(x[m, k]) * f32(w[k, n])\noutput y \"y\"\n"},
    {"more than 256 values", 0,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] (f32(x[m, k]) * 2.0) * f32(w[k, n])\noutput y \"y\"\n"},
    {"numbers that are not whole", 0,
     "tensor x: u8[7, 12] input \"x\"\ntensor w: i8[12, 9] input \"w\"\n"
     "stage y: f32[m<7, n<9] out = sum[k<12] (f32(x[m, k]) - 0.5) * f32(w[k, n])\noutput y \"y\"\n"},
    {"a sum that might not fit 32 bits", 0,
     "tensor x: u8[2, 70000] input \"x\"\ntensor w: i8[70000, 3] input \"w\"\n"
     "stage y: f32[m<2, n<3] out = sum[k<70000] f32(x[m, k]) * f32(w[k, n])\noutput y \"y\"\n"},
};
static uint32_t sums_of_bytes(emodule *m, const stage *s, arena *a) {
  (void)a;
  if (exn(m, s->value)->kind != EX_REDUCE) return 0;
  const ex_node *body = exn(m, exn(m, s->value)->body);
  bool bytes = body->type == ET_I32 && body->kind == EX_OP && body->op == OP_MUL;
  for (int k = 0; k < 2 && bytes; k++) {
    const ex_node *w = exn(m, body->args[k]);
    bytes = w->kind == EX_OP && w->op == OP_CAST && exn(m, w->args[0])->kind == EX_LOAD &&
            et_bits((etype)exn(m, w->args[0])->type) == 8;
  }
  return bytes;
}
/* Does every pass keep the values, and are there as many of what is counted in the stages that are left? */
static uint32_t counted_wrong(const bytes_example *e, uint32_t (*count)(emodule *m, const stage *s, arena *a)) {
  volatile uint32_t bad = 1, found = 0;
  ctx *c = ctx_new();
  CTX_TRY(c) {
    arena *a = ctx_arena(c);
    emodule *m = expr_parse(c, pc_constants(a, e->text), e->name);
    if (!m) ctx_unwind(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 1e-6, .bytes = true};
    pc_inputs(&p, a);
    pc_reference(&p, a);
    expr_optimise(m, 3, &(expr_observer){.after = pc_after, .env = &p, .t = target_get(c, "zen4")});
    for (uint32_t i = 0; i < m->stages.n; i++)
      if (!xs(m, i)->dead && xs(m, i)->value) found += count(m, xs(m, i), a);
    bad = p.bad;
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("%s:%u: %s\n", e->name, d->pos.line, d->text);
  ctx_free(c);
  if (found != e->found) printf("%s: %u found, not %u\n", e->name, found, e->found);
  return bad + (found != e->found);
}
static void test_bytes(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof in_bytes / sizeof *in_bytes; i++) bad += counted_wrong(&in_bytes[i], sums_of_bytes);
  assert_int_equal(bad, 0);
}
/* ---- greatest and least values among bytes (pass integer, extremes.c) ---------------------------- */
#define ROUNDED(T) "stage q: f32[m<8, h<9, v<9] = f32(sat(" T ", round_even(x[m, h, v] * 40.0))) - 3.0\n"
static const bytes_example in_extremes[] = {
    {"a window that reaches beyond the tensor, of scaled values", 1,
     "tensor x: f32[8, 9, 9] input \"x\"\n" ROUNDED("u8") "stage p: f32[m1<8, h1<9, v1<9] = q[m1, h1, v1] * 0.05\n"
                                                          "stage y: f32[c<8, a<5, b<5] out = max[i<3, j<3] (load p[c, "
                                                          "i + 2*a - 1, j + 2*b - 1] else -inf)\noutput y \"y\"\n"},
    {"the least one, a scale for each channel", 1,
     "tensor x: f32[8, 9, 9] input \"x\"\ntensor s: f32[8] const @\n" ROUNDED(
         "i8") "stage p: f32[m1<8, h1<9, v1<9] = q[m1, h1, v1] * (abs(s[m1]) + 0.1)\n"
               "stage y: f32[c<8, a<9, b<9] out = min[i<3, j<3] (load p[c, i + a - 1, j + b - 1] else inf)\noutput y "
               "\"y\"\n"},
    {"along an axis", 1,
     "tensor x: f32[8, 9, 9] input \"x\"\n" ROUNDED(
         "u8") "stage y: f32[c<8, a<9] out = max[k<9] q[c, a, k]\noutput y \"y\"\n"},
    {"a window that may lie outside", 0,
     "tensor x: f32[8, 9, 9] input \"x\"\n" ROUNDED("u8") "stage y: f32[c<8, a<13, b<13] out = max[i<2, j<2] (load "
                                                          "q[c, i + a - 2, j + b - 2] else -inf)\noutput y \"y\"\n"},
    {"a negative scale", 0,
     "tensor x: f32[8, 9, 9] input \"x\"\n" ROUNDED(
         "u8") "stage p: f32[m1<8, h1<9, v1<9] = q[m1, h1, v1] * -0.05\n"
               "stage y: f32[c<8, a<7, b<7] out = max[i<3, j<3] p[c, i + a, j + b]\noutput y \"y\"\n"},
    {"what is not rounded", 0,
     "tensor x: f32[8, 9, 9] input \"x\"\n"
     "stage y: f32[c<8, a<7, b<7] out = max[i<3, j<3] x[c, i + a, j + b]\noutput y \"y\"\n"},
};
static uint32_t extremes_of_bytes(emodule *m, const stage *s, arena *a) {
  (void)a;
  const ex_node *r = exn(m, s->value);
  return r->kind == EX_REDUCE && (r->op == RED_MAX || r->op == RED_MIN) && et_bits((etype)r->type) == 8;
}
static void test_extremes(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof in_extremes / sizeof *in_extremes; i++)
    bad += counted_wrong(&in_extremes[i], extremes_of_bytes);
  assert_int_equal(bad, 0);
}
/* ---- values that are looked up (pass table) --------------------------------------------------- */
#define SIGMOID(x) "(1.0 / (1.0 + exp(neg(" x "))))"
static const bytes_example in_tables[] = {
    {"a function of a byte, rounded to a byte", 1,
     "tensor x: u8[7, 12] input \"x\"\n"
     "stage y: u8[a<7, b<12] out = sat(u8, round_even(" SIGMOID("(f32(x[a, b]) - 121.0) * 0.05") " / 0.0039) + 3.0)\n"
                                                                                                 "output y \"y\"\n"},
    {"signed bytes, a result that is a float", 1,
     "tensor x: i8[7, 12] input \"x\"\n"
     "stage y: f32[a<7, b<12] out = (f32(sat(i8, round_even(tanh(f32(x[a, b]) * 0.03) / 0.0079))) + 4.0) * 0.0079\n"
     "output y \"y\"\n"},
    {"two ways from one clamped value", 1,
     "tensor x: u8[7, 12] input \"x\"\ntensor z: u8[7, 12] input \"z\"\n"
     "stage p: f32[a<7, b<12] = min(max(round_even(f32(x[a, b]) * f32(z[a, b]) * 0.01) - 9.0, 0.0), 255.0) - 121.0\n"
     "stage y: u8[c<7, d<12] out = sat(u8, round_even((p[c, d] * 0.05) * " SIGMOID(
         "p[c, d] * 0.05") " / 0.02) + 14.0)\n"
                           "output y \"y\"\n"},
    {"terms of a sum", 1,
     "tensor x: u8[7, 12] input \"x\"\n"
     "stage y: f32[a<7] out = sum[k<12] f32(sat(u8, round_even(" SIGMOID(
         "f32(x[a, k]) * 0.02 - 2.0") " / 0.0039)))\n"
                                      "output y \"y\"\n"},
    {"a condition", 1,
     "tensor x: u8[7, 12] input \"x\"\n"
     "stage y: bool[a<7, b<12] out = tanh((f32(x[a, b]) - 99.0) * 0.02) > 0.5\noutput y \"y\"\n"},
    {"a whole number of 64 bits", 1,
     "tensor x: i8[7, 12] input \"x\"\n"
     "stage y: i64[a<7, b<12] out = i64(sat(i8, round_even(tanh(f32(x[a, b]) * 0.02) * 99.0))) - 5i64\n"
     "output y \"y\"\n"},
    {"of two values", 0,
     "tensor x: u8[7, 12] input \"x\"\ntensor z: u8[7, 12] input \"z\"\n"
     "stage y: u8[a<7, b<12] out = sat(u8, round_even(" SIGMOID(
         "f32(x[a, b]) * 0.05 - f32(z[a, b])") " / 0.0039))\n"
                                               "output y \"y\"\n"},
    {"not rounded", 0,
     "tensor x: u8[7, 12] input \"x\"\n"
     "stage y: f32[a<7, b<12] out = " SIGMOID("f32(x[a, b]) * 0.05") "\noutput y \"y\"\n"},
    {"of 16 bits", 0,
     "tensor x: u16[7, 12] input \"x\"\n"
     "stage y: u8[a<7, b<12] out = sat(u8, round_even(" SIGMOID("f32(x[a, b]) * 0.05") " / 0.0039))\noutput y \"y\"\n"},
    {"little work", 0,
     "tensor x: u8[7, 12] input \"x\"\n"
     "stage y: u8[a<7, b<12] out = sat(u8, f32(x[a, b]) + 3.0)\noutput y \"y\"\n"},
};
static uint32_t tables_read(emodule *m, const stage *s, arena *a) {
  u32vec loads = {0};
  uint32_t tables = 0;
  expr_loads(m, s->value, a, &loads);
  for (uint32_t k = 0; k < loads.n; k++) tables += expr_in_table(m, loads.v[k]) != 0;
  return tables;
}
static void test_tables(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof in_tables / sizeof *in_tables; i++) bad += counted_wrong(&in_tables[i], tables_read);
  assert_int_equal(bad, 0);
}
/* Each value is whole by the form of two that are: found without walking through all ways down. */
static void test_long_form(void **state) {
  (void)state;
  char text[4000];
  int at =
      snprintf(text, sizeof text, "tensor x: f32[4] input \"x\"\nstage y: f32[i<4] out = ($0 := round_even(x[i]))");
  for (int k = 1; k < 60; k++)
    at += snprintf(text + at, sizeof text - (size_t)at, " * 0.5 + ($%d := max(abs($%d), neg($%d)) - $%d)", k, k - 1,
                   k - 1, k - 1);
  snprintf(text + at, sizeof text - (size_t)at, "\noutput y \"y\"\n");
  assert_int_equal(counted_wrong(&(bytes_example){"a long chain", 0, text}, tables_read), 0);
}
static void in_f64(const char *text, char *out) {
  for (; *text; text++) {
    memcpy(out, text, strncmp(text, "f16", 3) ? 1 : 3);
    if (!strncmp(text, "f16", 3)) memcpy(out, "f64", 3), text += 2, out += 2;
    out++;
  }
  *out = 0;
}
static ndarray converted(arena *a, const ndarray *x, etype t) {
  int64_t n = 0;
  nd_count(x, &n);
  ndarray r = *x;
  uint8_t *q = arena_alloc(a, (size_t)n * et_bytes(t) + 1);
  for (int64_t i = 0; i < n; i++)
    et_store(t, q + i * et_bytes(t),
             et_convert(t, x->type, et_load(x->type, (const uint8_t *)x->data + i * et_bytes(x->type))));
  r.type = t, r.data = q, r.bytes = (size_t)n * et_bytes(t);
  return r;
}
static uint32_t widened(const example *e, uint64_t fuel, uint64_t *spent) {
  volatile uint32_t bad = 1;
  char truth[2000];
  ctx *c = ctx_new();
  in_f64(e->text, truth);
  CTX_TRY(c) {
    emodule *m = expr_parse(c, e->text, e->name), *t = expr_parse(c, truth, e->name);
    if (!m || !t) ctx_unwind(c);
    arena *a = ctx_arena(c);
    pass_check p = {.m = m, .seed = 88172645463325252u, .tolerance = 0x1p-10}, q = {.m = t};
    expr_observer ob = {.after = pc_after, .env = &p, .fuel = fuel, .spent = spent};
    pc_inputs(&p, a);
    q.in = NEWN(a, ndarray, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++) q.in[i] = converted(a, &p.in[i], xt(t, t->inputs.v[i].t)->type);
    pc_reference(&q, a);
    /* narrow arithmetic that is left may be wrong by any amount */
    p.ref = fuel ? NULL : NEWN(a, const ndarray *, m->outputs.n + 1);
    for (uint32_t i = 0; !fuel && i < m->outputs.n; i++) {
      ndarray *r = NEW(a, ndarray);
      *r = converted(a, q.ref[i], xt(m, m->outputs.v[i].t)->type);
      p.ref[i] = r;
    }
    expr_optimise(m, 3, &ob);
    bad = p.bad;
  }
  CTX_CATCH { printf("%s: failed\n", e->name); }
  for (const diag *d = diag_first(c); d; d = d->next) printf("%s:%u: %s\n", e->name, d->pos.line, d->text);
  ctx_free(c);
  if (bad) printf("%s: wrong with fuel %llu\n", e->name, (unsigned long long)fuel);
  return bad;
}
static void test_narrow(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
    uint64_t spent = 0, again;
    bad += widened(&narrow[i], 0, &spent);
    for (uint64_t f = 1; f <= spent; f++) bad += widened(&narrow[i], f, &again);
  }
  assert_int_equal(bad, 0);
}

/* ---- golden texts: a module, a line `=== PASS`, the module after that pass ------------------- */
typedef struct keep {
  const char *pass;
  uint32_t turn;
  char *text;
} keep;
static bool keep_after(void *env, emodule *m, const char *pass, bool changed, double ms) {
  keep *k = env;
  (void)changed, (void)ms;
  if (strcmp(pass, k->pass)) return true;
  sbuf b = sbuf_new(m->a);
  expr_print(m, &b, (print_opts){.kernels = true});
  free(k->text);
  k->text = strdup(b.s);
  return false;
}
static char *read_all(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *s = calloc(1, 1 << 20);
  size_t n = fread(s, 1, (1 << 20) - 1, f);
  s[n] = 0;
  fclose(f);
  return s;
}
static uint32_t golden(const char *path) {
  char *all = read_all(path);
  char *cut = all ? strstr(all, "\n=== ") : NULL;
  if (!cut) return printf("%s: no line `=== PASS`\n", path), free(all), 1;
  char *pass = cut + 5, *expected = strchr(pass, '\n');
  cut[1] = 0;
  if (expected) *expected++ = 0;
  char *target = strchr(pass, ' '); /* for that target; else for none */
  if (target) *target++ = 0;
  keep k = {.pass = pass};
  ctx *c = ctx_new();
  CTX_TRY(c) {
    emodule *m = expr_parse(c, all, path);
    if (!m) ctx_unwind(c);
    expr_observer o = {.after = keep_after, .env = &k, .t = target ? target_get(c, target) : NULL};
    expr_optimise(m, 3, &o);
  }
  CTX_CATCH { printf("%s: failed\n", path); }
  for (const diag *d = diag_first(c); d; d = d->next) printf("%s:%u: %s\n", path, d->pos.line, d->text);
  ctx_free(c);
  uint32_t bad = !k.text || !expected || strcmp(k.text, expected);
  if (bad && k.text && getenv("EK_UPDATE")) {
    FILE *f = fopen(path, "wb");
    fprintf(f, "%s=== %s%s%s\n%s", all, pass, target ? " " : "", target ? target : "", k.text);
    fclose(f);
    printf("%s: updated\n", path), bad = 0;
  } else if (bad)
    printf("%s: after %s the module is\n%s\n(EK_UPDATE=1 writes it)\n", path, pass, k.text ? k.text : "?");
  free(k.text), free(all);
  return bad;
}
static void test_golden(void **state) {
  (void)state;
  const char *dir = EK_SOURCE_DIR "/tests/golden/passes";
  uint32_t bad = 0, n = 0;
  DIR *d = opendir(dir);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    size_t len = strlen(e->d_name);
    char path[512];
    if (len < 5 || strcmp(e->d_name + len - 5, ".expr")) continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    bad += golden(path), n++;
  }
  closedir(d);
  assert_true(n > 0);
  assert_int_equal(bad, 0);
}

/* ---- random modules -------------------------------------------------------------------------- */
enum { MAX_T = 48 };
typedef struct gen {
  pass_check *p;
  emodule *m;
  ctx *c;
  tid t[MAX_T];
  uint32_t n;
  sz sym;
} gen;
static uint32_t pick(gen *g, uint32_t n) { return (uint32_t)(pc_random(g->p) * n) % n; }
static tid any_tensor(gen *g) { return g->t[g->n - 1 - pick(g, g->n < 6 ? g->n : pick(g, 3) ? 4 : g->n)]; }
static void stage_of(gen *g, const axis *ax, uint32_t n, ex v, const char *hint) {
  sz shape[MAX_RANK];
  for (uint32_t i = 0; i < n; i++) {
    shape[i] = sym_int(g->c, 1);
    for (uint32_t k = 0; k < ax[i].n; k++) shape[i] = sym_mul(g->c, shape[i], ax[i].d[k].extent);
  }
  tid t = expr_tensor(g->m, TK_STAGE, (etype)exn(g->m, v)->type, shape, n, hint, NULL);
  expr_stage(g->m, 0, t, ax, n, v);
  if (g->n < MAX_T) g->t[g->n++] = t;
}
/* fresh axes over the shape of t; idx are their values */
static uint32_t axes_like(gen *g, tid t, axis *ax, sz *idx) {
  const tensor *x = xt(g->m, t);
  for (uint32_t i = 0; i < x->rank; i++) ax[i] = expr_axis1(g->m, "i", x->shape[i], &idx[i]);
  return x->rank;
}
static ex rd(gen *g, tid t, const sz *idx) { return expr_load(g->m, t, idx, xt(g->m, t)->rank, 0); }
static bool same_shape(gen *g, tid a, tid b) {
  const tensor *x = xt(g->m, a), *y = xt(g->m, b);
  if (x->rank != y->rank) return false;
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->shape[i] != y->shape[i]) return false;
  return true;
}
static void gen_step(gen *g) {
  emodule *m = g->m;
  ctx *c = g->c;
  axis ax[MAX_RANK] = {{0}};
  sz idx[MAX_RANK] = {0};
  tid t = any_tensor(g);
  const tensor x = *xt(m, t);
  int64_t k;
  uint32_t d = x.rank ? pick(g, x.rank) : 0;
  switch (pick(g, 17)) {
  case 0: { /* one operand */
    uint32_t n = axes_like(g, t, ax, idx);
    ex v = rd(g, t, idx);
    static const sop ops[] = {OP_TANH, OP_NEG, OP_ABS, OP_SIN};
    stage_of(g, ax, n,
             pick(g, 2) ? expr_op1(m, ops[pick(g, 4)], v)
                        : expr_op2(m, OP_MAX, expr_op2(m, OP_MUL, v, expr_f(m, ET_F32, 0.5)), expr_f(m, ET_F32, 0)),
             "u");
    return;
  }
  case 1:
  case 2: { /* two operands: same shape, or the second reduced or reread along an axis */
    uint32_t n = axes_like(g, t, ax, idx);
    tid o = any_tensor(g);
    for (int tries = 0; tries < 8 && !same_shape(g, t, o); tries++) o = g->t[pick(g, g->n)];
    ex b = same_shape(g, t, o) ? rd(g, o, idx) : rd(g, t, idx);
    if (!same_shape(g, t, o) && xt(m, o)->rank == 1 && n && xt(m, o)->shape[0] == x.shape[n - 1])
      b = rd(g, o, &idx[n - 1]);
    stage_of(g, ax, n, expr_op2(m, pick(g, 2) ? OP_ADD : OP_MUL, rd(g, t, idx), b), "b");
    return;
  }
  case 3: { /* transposition */
    sz back[MAX_RANK];
    axis bx[MAX_RANK];
    uint32_t n = axes_like(g, t, ax, idx), s = n ? pick(g, n) : 0;
    for (uint32_t i = 0; i < n; i++) bx[i] = ax[(i + s) % n], back[i] = idx[i];
    stage_of(g, bx, n, rd(g, t, back), "t");
    return;
  }
  case 4: { /* one axis into two, or two into one */
    uint32_t n = axes_like(g, t, ax, idx);
    if (n >= 2 && pick(g, 2)) {
      digit *dg = NEWN(m->a, digit, ax[0].n + ax[1].n + 1);
      uint32_t q = 0;
      for (int a = 0; a < 2; a++)
        for (uint32_t i = 0; i < ax[a].n; i++) dg[q++] = ax[a].d[i];
      axis bx[MAX_RANK] = {{q, dg}};
      for (uint32_t i = 2; i < n; i++) bx[i - 1] = ax[i];
      stage_of(g, bx, n - 1, rd(g, t, idx), "j");
    } else if (n && n < 5 && sym_is_int(c, x.shape[0], &k) && k % 2 == 0 && k > 2) {
      axis bx[MAX_RANK];
      sz hi, lo;
      bx[0] = expr_axis1(m, "h", sym_int(c, k / 2), &hi), bx[1] = expr_axis1(m, "l", sym_int(c, 2), &lo);
      for (uint32_t i = 1; i < n; i++) bx[i + 1] = ax[i];
      idx[0] = sym_add(c, sym_muli(c, hi, 2), lo);
      stage_of(g, bx, n + 1, rd(g, t, idx), "s");
    }
    return;
  }
  case 5: { /* slice with a step, or reversed */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !sym_is_int(c, x.shape[d], &k) || k < 2) return;
    int64_t st = 1 + pick(g, 2), off = pick(g, (uint32_t)k), cnt = (k - off + st - 1) / st;
    ax[d] = expr_axis1(m, "w", sym_int(c, cnt), &idx[d]);
    idx[d] = pick(g, 4) ? sym_addi(c, sym_muli(c, idx[d], st), off) : sym_sub(c, sym_int(c, cnt - 1), idx[d]);
    stage_of(g, ax, n, rd(g, t, idx), "w");
    return;
  }
  case 6: { /* padding */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n) return;
    ax[d] = expr_axis1(m, "p", sym_addi(c, x.shape[d], 2), &idx[d]);
    idx[d] = sym_addi(c, idx[d], -1);
    stage_of(g, ax, n, expr_load(m, t, idx, n, expr_f(m, ET_F32, 0)), "p");
    return;
  }
  case 7: { /* pieces side by side */
    tid o = any_tensor(g);
    const tensor y = *xt(m, o);
    if (!x.rank || y.rank != x.rank) return;
    for (uint32_t i = 0; i < x.rank; i++)
      if (i != d && x.shape[i] != y.shape[i]) return;
    sz shape[MAX_RANK];
    for (uint32_t i = 0; i < x.rank; i++)
      shape[i] = i == d ? sym_add(c, x.shape[i], y.shape[i]) : x.shape[i],
      ax[i] = expr_axis1(m, "c", shape[i], &idx[i]);
    tid z = expr_tensor(m, TK_STAGE, ET_F32, shape, x.rank, "c", NULL);
    uint32_t s = expr_stage(m, 0, z, ax, x.rank, 0);
    xs(m, s)->tiled = true;
    for (int which = 0; which < 2; which++) {
      axis bx[MAX_RANK];
      sz at[MAX_RANK];
      uint32_t n = axes_like(g, which ? o : t, bx, at);
      update u = {.nidx = n, .idx = NEWN(m->a, sz, n + 1), .vars = NEWN(m->a, atom, n + 1)};
      for (uint32_t i = 0; i < n; i++) {
        u.idx[i] = which && i == d ? sym_add(c, at[i], x.shape[i]) : at[i];
        if (bx[i].n) u.vars[u.nvars++] = bx[i].d[0].var;
      }
      u.value = rd(g, which ? o : t, at);
      vec_push(m->a, xs(m, s)->updates, u);
    }
    if (g->n < MAX_T) g->t[g->n++] = z;
    return;
  }
  case 8: { /* reduction of an axis, perhaps of a prefix of it */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !ax[d].n) return;
    atom v = ax[d].d[0].var;
    axis bx[MAX_RANK];
    uint32_t q = 0;
    ex where = 0;
    for (uint32_t i = 0; i < n; i++)
      if (i != d) bx[q++] = ax[i];
    if (!pick(g, 3)) {
      sz o;
      bx[q++] = expr_axis1(m, "o", x.shape[d], &o);
      where = expr_op2(m, OP_LE, expr_index(m, idx[d]), expr_index(m, o));
    }
    ex r = expr_reduce(m, pick(g, 2) ? RED_SUM : RED_MAX, &v, 1, where, rd(g, t, idx), 0, ET_NONE, ET_NONE);
    stage_of(g, bx, q, pick(g, 2) ? expr_op2(m, OP_MUL, r, expr_f(m, ET_F32, 0.25)) : r, "r");
    return;
  }
  case 9: { /* softmax over an axis */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !ax[d].n || n > 4) return;
    axis bx[MAX_RANK], cx[MAX_RANK];
    sz at[MAX_RANK], mi[MAX_RANK];
    uint32_t q = 0;
    for (uint32_t i = 0; i < n; i++)
      if (i != d) bx[q++] = ax[i];
    ex r = expr_reduce(m, RED_MAX, &ax[d].d[0].var, 1, 0, rd(g, t, idx), 0, ET_NONE, ET_NONE);
    stage_of(g, bx, q, r, "m");
    tid mt = g->t[g->n - 1];
    if (xt(m, mt)->rank != n - 1) return; /* table full */
    axes_like(g, t, cx, at);
    q = 0;
    for (uint32_t i = 0; i < n; i++)
      if (i != d) mi[q++] = at[i];
    ex e = expr_op1(m, OP_EXP, expr_op2(m, OP_SUB, rd(g, t, at), rd(g, mt, mi)));
    sz ri, rx[MAX_RANK];
    axis ra = expr_axis1(m, "k", x.shape[d], &ri);
    for (uint32_t i = 0; i < n; i++) rx[i] = i == d ? ri : at[i];
    ex e2 = expr_op1(m, OP_EXP, expr_op2(m, OP_SUB, rd(g, t, rx), rd(g, mt, mi)));
    ex z = expr_reduce(m, RED_SUM, &ra.d[0].var, 1, 0, e2, 0, ET_NONE, ET_NONE);
    stage_of(g, cx, n, expr_op2(m, OP_DIV, e, z), "f");
    return;
  }
  case 10: { /* product with another tensor over the last axis */
    tid o = any_tensor(g);
    for (int tries = 0; tries < 8; tries++) {
      const tensor *y = xt(m, o);
      if (y->rank == 2 && x.rank && y->shape[0] == x.shape[x.rank - 1]) break;
      o = g->t[pick(g, g->n)];
    }
    const tensor y = *xt(m, o);
    if (y.rank != 2 || !x.rank || y.shape[0] != x.shape[x.rank - 1] || x.rank > 4) return;
    uint32_t n = axes_like(g, t, ax, idx);
    if (!ax[n - 1].n) return;
    atom v = ax[n - 1].d[0].var;
    sz bi[2] = {idx[n - 1], 0};
    ax[n - 1] = expr_axis1(m, "n", y.shape[1], &bi[1]);
    ex p = expr_reduce(m, RED_SUM, &v, 1, 0, expr_op2(m, OP_MUL, rd(g, t, idx), rd(g, o, bi)), 0, ET_NONE, ET_NONE);
    stage_of(g, ax, n, pick(g, 2) ? expr_op2(m, OP_MAX, p, expr_f(m, ET_F32, 0)) : p, "g");
    return;
  }
  case 11: { /* rows picked by a table */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !sym_is_int(c, x.shape[d], &k)) return;
    int64_t *q = arena_array(m->a, 3, sizeof *q);
    for (int i = 0; i < 3; i++) q[i] = pick(g, (uint32_t)k);
    ndarray nd = {.type = ET_I64, .rank = 1, .dims = {3}, .data = q, .bytes = 24};
    tid table = expr_const_tensor(m, &nd, "q");
    sz w;
    ax[d] = expr_axis1(m, "q", sym_int(c, 3), &w);
    idx[d] = expr_as_size(m, expr_load(m, table, &w, 1, 0));
    stage_of(g, ax, n, rd(g, t, idx), "q");
    return;
  }
  case 12: { /* a recurrence over an axis, with a product when there is another one */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !ax[d].n || n > 4) return;
    vec_push(m->a, m->recurrences, ((recurrence){ax[d].d[0].var, x.shape[d]}));
    uint32_t sc = m->recurrences.n - 1;
    tid h = expr_tensor(m, TK_STAGE, ET_F32, x.shape, n, "h", NULL);
    sz prev[MAX_RANK];
    for (uint32_t i = 0; i < n; i++) prev[i] = i == d ? sym_addi(c, idx[i], -1) : idx[i];
    xt(m, h)->stage = UINT32_MAX;
    ex last;
    uint32_t o = (d + 1) % n;
    if (n > 1 && ax[o].n && pick(g, 2)) {
      sz j;
      axis jx = expr_axis1(m, "j", x.shape[o], &j);
      prev[o] = j;
      last = expr_reduce(m, RED_SUM, &jx.d[0].var, 1, 0,
                         expr_op2(m, OP_MUL, expr_load(m, h, prev, n, expr_f(m, ET_F32, 0.5)), expr_f(m, ET_F32, 0.2)),
                         0, ET_NONE, ET_NONE);
    } else
      last = expr_load(m, h, prev, n, expr_f(m, ET_F32, 0.5));
    uint32_t s = expr_stage(m, 0, h, ax, n, expr_op1(m, OP_TANH, expr_op2(m, OP_ADD, rd(g, t, idx), last)));
    xs(m, s)->recurrence = sc;
    if (g->n < MAX_T) g->t[g->n++] = h;
    return;
  }
  case 13: { /* updates at places from a table */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !sym_is_int(c, x.shape[d], &k)) return;
    int64_t *q = arena_array(m->a, 3, sizeof *q);
    for (int i = 0; i < 3; i++) q[i] = pick(g, (uint32_t)k);
    ndarray nd = {.type = ET_I64, .rank = 1, .dims = {3}, .data = q, .bytes = 24};
    tid table = expr_const_tensor(m, &nd, "q");
    stage_of(g, ax, n, rd(g, t, idx), "z");
    tid z = g->t[g->n - 1];
    if (xt(m, z)->kind != TK_STAGE || xs(m, xt(m, z)->stage)->updates.n || xt(m, z)->rank != n) return;
    axis bx[MAX_RANK];
    sz at[MAX_RANK], w;
    axes_like(g, t, bx, at);
    bx[d] = expr_axis1(m, "q", sym_int(c, 3), &w);
    update u = {
        .nidx = n, .idx = NEWN(m->a, sz, n + 1), .vars = NEWN(m->a, atom, n + 1), .op = pick(g, 2) ? OP_ADD : OP_NONE};
    for (uint32_t i = 0; i < n; i++) {
      u.idx[i] = i == d ? expr_as_size(m, expr_load(m, table, &w, 1, 0)) : at[i];
      if (bx[i].n) u.vars[u.nvars++] = bx[i].d[0].var;
    }
    at[d] = sym_int(c, 0);
    u.value = expr_op2(m, OP_MUL, rd(g, t, at), expr_cast(m, ET_F32, expr_index(m, w)));
    vec_push(m->a, xs(m, xt(m, z)->stage)->updates, u);
    return;
  }
  case 14: { /* through a narrow type */
    uint32_t n = axes_like(g, t, ax, idx);
    stage_of(g, ax, n, expr_cast(m, ET_F32, expr_op1(m, OP_NEG, expr_cast(m, ET_F16, rd(g, t, idx)))), "n");
    return;
  }
  case 15: { /* a mask made of indices, and the place of the largest */
    uint32_t n = axes_like(g, t, ax, idx);
    if (n < 2 || !ax[d].n || !ax[(d + 1) % n].n) return;
    sz o = idx[(d + 1) % n];
    ex v =
        expr_sel(m, expr_op2(m, OP_LE, expr_index(m, idx[d]), expr_index(m, o)), rd(g, t, idx), expr_f(m, ET_F32, -2));
    if (pick(g, 2)) {
      axis bx[MAX_RANK];
      uint32_t q = 0;
      atom var = ax[d].d[0].var;
      for (uint32_t i = 0; i < n; i++)
        if (i != d) bx[q++] = ax[i];
      stage_of(g, bx, q, expr_cast(m, ET_F32, expr_reduce(m, RED_ARGMAX, &var, 1, 0, v, 0, ET_NONE, ET_NONE)), "a");
    } else
      stage_of(g, ax, n, v, "v");
    return;
  }
  default: { /* a window of three over an axis */
    uint32_t n = axes_like(g, t, ax, idx);
    if (!n || !ax[d].n) return;
    sz k3;
    axis kx = expr_axis1(m, "k", sym_int(c, 3), &k3);
    idx[d] = sym_addi(c, sym_add(c, idx[d], k3), -1);
    ex p = expr_reduce(m, pick(g, 2) ? RED_SUM : RED_MAX, &kx.d[0].var, 1, 0,
                       expr_load(m, t, idx, n, expr_f(m, ET_F32, 0)), 0, ET_NONE, ET_NONE);
    stage_of(g, ax, n, p, "k");
    return;
  }
  }
}
static tid gen_input(gen *g, const sz *shape, uint32_t n, bool constant) {
  tid t;
  char name[8];
  snprintf(name, sizeof name, "x%u", g->n);
  if (constant) {
    ndarray d = {.type = ET_F32, .rank = n};
    int64_t k = 1, v;
    for (uint32_t i = 0; i < n; i++) sym_is_int(g->c, shape[i], &v), d.dims[i] = v, k *= v;
    float *f = arena_array(g->m->a, (size_t)k, sizeof *f);
    for (int64_t i = 0; i < k; i++) f[i] = (float)(pc_random(g->p) * 2 - 1);
    d.data = f, d.bytes = (size_t)k * sizeof *f;
    t = expr_const_tensor(g->m, &d, name);
  } else {
    t = expr_tensor(g->m, TK_INPUT, ET_F32, shape, n, name, NULL);
    vec_push(g->m->a, g->m->inputs, ((io){t, arena_strdup(g->m->a, name)}));
  }
  return g->t[g->n++] = t;
}
static uint32_t random_module(uint64_t seed) {
  ctx *c = ctx_new();
  volatile uint32_t bad = 1;
  CTX_TRY(c) {
    emodule *m = expr_module(c);
    pass_check p = {.m = m, .seed = seed * 2654435761u + 88172645463325252u, .tolerance = 1e-4};
    gen g = {.p = &p, .m = m, .c = c};
    for (int i = 0; i < 8; i++) pc_random(&p);
    sz four = sym_int(c, 4), six = sym_int(c, 6), three = sym_int(c, 3),
       n = pick(&g, 2) ? sym_symbol(c, "N", 1, 1000000000) : sym_int(c, 5);
    gen_input(&g, (sz[]){n, four, six}, 3, false);
    gen_input(&g, (sz[]){four, six}, 2, false);
    gen_input(&g, (sz[]){six, four}, 2, true);
    gen_input(&g, (sz[]){six, three}, 2, true);
    gen_input(&g, (sz[]){six}, 1, true);
    uint32_t steps = 3 + pick(&g, 22);
    for (uint32_t i = 0; i < steps; i++) gen_step(&g);
    /* what nobody reads is an output, and now and then something else */
    bool *read = arena_array(m->a, m->tensors.n, sizeof *read);
    for (uint32_t i = 0; i < m->stages.n; i++) {
      u32vec l = {0};
      if (xs(m, i)->value) expr_loads(m, xs(m, i)->value, m->a, &l);
      for (uint32_t k = 0; k < xs(m, i)->updates.n; k++) expr_loads(m, xs(m, i)->updates.v[k].value, m->a, &l);
      for (uint32_t k = 0; k < l.n; k++)
        if (exn(m, l.v[k])->tensor != xs(m, i)->tensor) read[exn(m, l.v[k])->tensor] = true;
    }
    for (uint32_t i = 0; i < m->stages.n; i++) {
      tid t = xs(m, i)->tensor;
      char name[16];
      if (read[t] && pick(&g, 10)) continue;
      snprintf(name, sizeof name, "y%u", i);
      xt(m, t)->output = true;
      vec_push(m->a, m->outputs, ((io){t, arena_strdup(m->a, name)}));
    }
    sbuf before = sbuf_new(m->a);
    expr_print(m, &before, (print_opts){0});
    pc_inputs(&p, ctx_arena(c));
    pc_reference(&p, ctx_arena(c));
    expr_observer o = {.after = pc_after, .env = &p};
    expr_optimise(m, 3, &o);
    if (!p.bad) pc_tiles(&p, 2);
    bad = p.bad;
    if (getenv("EK_TALK")) {
      sbuf b = sbuf_new(m->a);
      pc_summary(m, &b);
      printf("module %llu: %u stages, %u points: %s\n", (unsigned long long)seed, m->stages.n, p.points,
             b.s ? b.s : "");
    }
    if (p.bad) {
      sbuf b = sbuf_new(m->a);
      expr_print(m, &b, (print_opts){.kernels = true});
      printf("random module %llu:\n%s\nafter the passes:\n%s\n", (unsigned long long)seed, before.s, b.s);
    }
  }
  CTX_CATCH { printf("random module %llu: failed\n", (unsigned long long)seed); }
  for (const diag *d = diag_first(c); d; d = d->next) printf("  %s\n", d->text);
  ctx_free(c);
  return bad;
}
static void test_random(void **state) {
  (void)state;
  const char *from = getenv("EK_SEED"), *count = getenv("EK_COUNT");
  uint64_t a = from ? strtoull(from, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : 400;
  uint32_t bad = 0;
  for (uint64_t s = a; s < a + n && bad < 3; s++) bad += random_module(s) != 0;
  assert_int_equal(bad, 0);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                     cmocka_unit_test(test_golden),
                                     cmocka_unit_test(test_shared),
                                     cmocka_unit_test(test_squares_below),
                                     cmocka_unit_test(test_windows),
                                     cmocka_unit_test(test_whole_windows),
                                     cmocka_unit_test(test_empty_window),
                                     cmocka_unit_test(test_deep_windows),
                                     cmocka_unit_test(test_computed_windows),
                                     cmocka_unit_test(test_decisions),
                                     cmocka_unit_test(test_fuel),
                                     cmocka_unit_test(test_narrow),
                                     cmocka_unit_test(test_stored),
                                     cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_long_form),
                                     cmocka_unit_test(test_extremes),
                                     cmocka_unit_test(test_kept_slow_pairs),
                                     cmocka_unit_test(test_stored_in_bf16),
                                     cmocka_unit_test(test_kept_narrow),
                                     cmocka_unit_test(test_kept_both),
                                     cmocka_unit_test(test_kept_pairs),
                                     cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
