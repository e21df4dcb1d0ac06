#!/usr/bin/env python3
"""Random one-node models of onnxruntime's own operators (com.microsoft, ai.onnx.ml) and what it computes for them.

  make_peer_ops.py FOLDER [-n COUNT] [-s SEED] [OPERATOR...]     COUNT (8) models of each operator, from seed SEED (1)
  make_peer_ops.py --kernels                                     prints the operators that have a CPU kernel

Writes FOLDER/OPERATOR_SEED.onnx and .npz for tests/tools/models.c, and FOLDER/tolerances; those with strings, which
that program cannot compare, into FOLDER/texts. An operator is a function
of this file (domain `ml` or `com`), which draws attributes, types and sizes from `r` and returns a case. A case that
onnxruntime refuses is drawn anew; an operator of which it takes none is an error. Needs onnx, onnxruntime and numpy.
"""

import argparse
import pathlib
import sys
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F32, F16, U8, I8, I32, I64 = np.float32, np.float16, np.uint8, np.int8, np.int32, np.int64
GENERATORS = {}  # operator -> (domain, function, rtol, atol)
TRIES = 12  # draws for each model before it is given up


def operator(domain, rtol=1e-3, atol=1e-4):
    """Registers a generator; the tolerance is that of its float results (integers must be equal)."""

    def register(function):
        GENERATORS[function.__name__] = (domain, function, rtol, atol)
        return function

    return register


com, ml = "com.microsoft", "ai.onnx.ml"


class Fixed:
    """An input that is a constant of the model."""

    def __init__(self, array, kind=None):
        self.array, self.kind = array, kind


class Map:
    """An input that is a map; for Einkorn it is two tensors."""

    def __init__(self, keys, values):
        self.keys, self.values = np.array(keys), np.array(values)

    def port(self, name):
        port = onnx.ValueInfoProto(name=name)
        text = self.keys.dtype.kind == "U"
        port.type.map_type.key_type = TensorProto.STRING if text else TensorProto.INT64
        port.type.map_type.value_type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(self.values.dtype)
        return port


class Random:
    """All that a generator draws from: a stream that depends on the operator and the seed alone."""

    def __init__(self, key):
        self.rng = np.random.default_rng(zlib.crc32(key.encode()))

    def int(self, low, high):
        """low..high, both included"""
        return int(self.rng.integers(low, high + 1))

    def one(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def maybe(self, value):
        """The value, or an omitted input."""
        return value() if self.int(0, 1) else None

    def sizes(self, count, low=1, high=5):
        return [self.int(low, high) for _ in range(count)]

    def uniform(self, low, high, *shape, dtype=F32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def f(self, *shape, dtype=F32):
        return self.uniform(-1, 1, *shape, dtype=dtype)

    def ints(self, low, high, *shape, dtype=I64):
        """low..high, both included"""
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def quanta(self, dtype, *shape):
        info = np.iinfo(dtype)
        return self.ints(info.min, info.max, *shape, dtype=dtype)

    def scale(self, *shape):
        return self.uniform(0.01, 0.1, *shape)

    def zero(self, dtype, *shape):
        """A zero point somewhere in the middle."""
        return (
            self.ints(-30, 30, *shape, dtype=I32).astype(dtype)
            if dtype == I8
            else self.ints(98, 158, *shape, dtype=dtype)
        )

    def shuffled(self, items):
        return [items[i] for i in self.rng.permutation(len(items))]


def packed(codes, bits):
    """Codes of a few bits side by side in bytes, the first one lowest."""
    share = 8 // bits
    room = np.zeros(codes.shape[:-1] + (-(-codes.shape[-1] // share) * share,), np.int64)
    room[..., : codes.shape[-1]] = codes
    return sum(room[..., i::share] << bits * i for i in range(share)).astype(U8)


# ---- quantised ----------------------------------------------------------------------------------
@operator(com)
def QLinearConcat(r):
    t, rank = r.one(U8, I8), r.int(1, 4)
    axis, shape, one = r.int(-rank, rank - 1), r.sizes(rank), r.one((), (1,))
    parts = [r.scale(*one), r.zero(t, *one)]
    for _ in range(r.int(1, 4)):
        shape[axis] = r.int(1, 5)
        parts += [r.quanta(t, *shape), r.scale(*one), r.zero(t, *one)]
    return parts, dict(axis=axis)


@operator(com)
def GatherBlockQuantized(r):
    block, places = r.one(16, 32), tuple(r.sizes(r.int(0, 2), 1, 4))
    out, index = r.one(F32, F16), r.one(I32, I64)
    if r.int(0, 1):
        bits, shape = r.one(2, 4, 8), r.sizes(r.int(1, 2), 2, 4) + [r.one(16, 64)]
        gather, blocks, axis = 0, -(-shape[-1] // block), len(shape) - 1
        data = packed(r.ints(0, 2**bits - 1, *shape), bits)
        zero = r.maybe(lambda: packed(r.ints(0, 2**bits - 1, *shape[:-1], blocks), bits))
        kind = None
    else:
        bits, rank = 4, r.int(1, 3)
        gather, axis, shape = r.int(0, rank - 1), r.int(0, rank - 1), r.sizes(rank, 2, 40)
        kind, dtype, low = r.one((TensorProto.INT4, ml_dtypes.int4, -8), (TensorProto.UINT4, ml_dtypes.uint4, 0))
        blocks = -(-shape[axis] // block)
        data = r.ints(low, low + 15, *shape).astype(dtype)
        zero = r.maybe(
            lambda: r.ints(low, low + 15, *[blocks if i == axis else n for i, n in enumerate(shape)]).astype(dtype)
        )
    scales = r.scale(*[blocks if i == axis else n for i, n in enumerate(shape)]).astype(out)
    places = r.ints(-shape[gather] - 1, shape[gather], *places, dtype=index)
    zero = None if zero is None else Fixed(zero, kind)
    return [Fixed(data, kind), places, Fixed(scales), zero], dict(
        bits=bits, block_size=block, gather_axis=gather, quantize_axis=axis
    )


@operator(com)
def QAttention(r):
    b, l, i, heads, d, t = r.int(1, 3), r.int(1, 5), r.int(1, 9), r.int(1, 3), r.one(2, 4), r.one(U8, I8)
    w, columns = 3 * heads * d, r.int(0, 1)
    by = (w,) if columns else ()
    p = r.int(0, 3)
    mask = r.one(None, "ends", "rows", "bounds") if not p else None
    mask = {
        None: None,
        "ends": r.ints(1, l, b, dtype=I32),
        "rows": r.ints(0, 1, b, l, dtype=I32),
        "bounds": np.concatenate([r.ints(1, l, b, dtype=I32), np.zeros(b, I32)]),
    }[mask]
    past = r.f(2, b, heads, p, d) if p else None
    inputs = [
        r.quanta(U8, b, l, i),
        r.quanta(t, i, w),
        r.f(w),
        r.scale(),
        r.scale(*by) / 10,
        mask,
        r.maybe(lambda: r.zero(U8)),
        r.maybe(lambda: r.zero(t, *by)),
        past,
    ]
    return inputs, dict(num_heads=heads, unidirectional=r.int(0, 1)), (1, 1 if p else r.int(0, 1))


@operator(com)
def QEmbedLayerNormalization(r):
    b, l, h, t, kinds = r.int(1, 3), r.int(1, 5), r.int(2, 9), r.one(U8, I8), r.int(0, 1)
    v, p = r.int(2, 9), l + r.int(0, 2)
    tables = [(v, h), (p, h), (2, h), (h,), (h,)]
    quanta, scales, zeros = (
        [make(t, *s) if kinds or i != 2 else None for i, s in enumerate(tables)]
        for make in (r.quanta, lambda t, *s: r.scale(), lambda t, *s: r.zero(t))
    )
    ids, segments, mask = (
        r.ints(0, v - 1, b, l, dtype=I32),
        r.maybe(lambda: r.ints(0, 1, b, l, dtype=I32)) if kinds else None,
        r.maybe(lambda: r.ints(0, 2, b, l, dtype=I32)),
    )
    return [ids, segments, *quanta, mask, *scales, *zeros], dict(epsilon=r.one(1e-12, 1e-5)), (1, 1)


# ---- mixtures of experts ------------------------------------------------------------------------
@operator(com)
def MoE(r):
    e, h, i = r.int(2, 6), r.int(1, 9), r.int(1, 9)
    tokens = tuple(r.sizes(r.int(1, 2), 1, 4))
    act = r.one("relu", "gelu", "silu", "identity", "swiglu")
    f = 2 * i if act == "swiglu" else i
    more = (
        dict(swiglu_fusion=1, activation_alpha=r.one(1.0, 1.7), activation_beta=r.one(0.0, 1.0))
        if act == "swiglu"
        else {}
    )
    if act == "swiglu" and r.int(0, 1):
        more["swiglu_limit"] = 0.5
    inputs = [
        r.f(*tokens, h),
        3 * r.f(int(np.prod(tokens)), e),
        r.f(e, f, h),
        r.maybe(lambda: r.f(e, f)),
        r.f(e, h, i),
        r.maybe(lambda: r.f(e, h)),
    ]
    return inputs, dict(k=r.int(1, e), activation_type=act, normalize_routing_weights=r.int(0, 1), **more)


@operator(com, 2e-3, 2e-3)
def QMoE(r):
    e, t, h, i = r.int(2, 5), r.int(1, 4), r.one(16, 32, 64), r.one(16, 32, 64)
    act = r.one("relu", "gelu", "silu", "identity", "swiglu")
    f, bits = 2 * i if act == "swiglu" else i, r.one(2, 4, 8)
    block = 0 if bits == 8 else r.one(0, 16)  # 8 bits in blocks: onnxruntime rounds the activations to bytes
    zeros = r.int(0, 1)

    def weights(n, m):
        by = (e, n, m // block) if block else (e, n)
        zero = packed(r.ints(0, 2**bits - 1, *by), bits) if zeros else None
        return (
            Fixed(packed(r.ints(0, 2**bits - 1, e, n, m), bits)),
            Fixed(r.scale(*by)),
            zero if zero is None else Fixed(zero),
        )

    (w1, s1, z1), (w2, s2, z2) = weights(f, h), weights(h, i)
    bias = [None if r.int(0, 1) else Fixed(r.f(e, n)) for n in (f, h)]
    more = dict(swiglu_fusion=1, swiglu_limit=2.0, activation_alpha=1.7, activation_beta=1.0) if act == "swiglu" else {}
    if block:
        more["block_size"] = block
    inputs = [
        r.f(t, h),
        r.f(t, e),
        w1,
        s1,
        bias[0],
        w2,
        s2,
        bias[1],
        None,
        None,
        None,
        z1,
        z2,
        None,
        r.maybe(lambda: r.uniform(0, 1, t, e)),
    ]
    return inputs, dict(
        k=r.int(1, e),
        expert_weight_bits=bits,
        activation_type=act,
        weights_prepacked=0,
        normalize_routing_weights=r.int(0, 1),
        **more,
    )


# ---- state from token to token ------------------------------------------------------------------
def unit(array):
    return array / np.sqrt((array**2).sum(-1, keepdims=True) + 1e-6)


@operator(com)
def LinearAttention(r):
    b, t, dk, dv, h, times = r.int(1, 3), r.int(1, 6), r.int(1, 4), r.int(1, 4), r.int(1, 3), r.int(1, 3)
    hq, hk = r.one((h, h), (h * times, h), (h, h * times))
    rule = r.one("linear", "gated", "delta", "gated_delta")
    decay = -r.uniform(0, 1, b, t, hk * r.one(1, dk)) if "gated" in rule else None
    beta = r.uniform(0, 1, b, t, r.one(1, hk)) if "delta" in rule else None
    keys = unit(r.f(b, t, hk, dk)).astype(F32).reshape(b, t, -1)
    past = r.maybe(lambda: r.f(b, hk, dk, dv))
    inputs = [r.f(b, t, hq * dk), keys, r.f(b, t, hk * dv), past, decay, beta]
    return inputs, dict(q_num_heads=hq, kv_num_heads=hk, scale=r.one(0.0, 0.3), update_rule=rule), (1, 1)


@operator(com)
def GatedDeltaNet(r):
    n, t, dk, dv, hq = r.int(1, 3), r.int(1, 5), r.int(1, 4), r.int(1, 4), r.int(1, 3)
    hv, rule = hq * r.int(1, 2), r.one("linear", "gated", "delta", "gated_delta")
    form = r.one("uniform", "ragged", "batch", "packed")
    lengths = r.sizes(n, 1, 5) if form == "ragged" else [t] * n
    lead = (n, t) if form == "batch" else (sum(lengths),)
    q, k, v = r.f(*lead, hq, dk), unit(r.f(*lead, hq, dk)).astype(F32), r.f(*lead, hv, dv)
    gate = r.one("none", "softplus", "sigmoid")
    dim = r.one((), (dk,))
    decay, beta, log, shift = (
        -r.uniform(0, 1, *lead, hv, *dim) if "gated" in rule else None,
        r.uniform(0, 1, *lead, hv) if "delta" in rule else None,
        r.f(hv) if "gated" in rule and gate != "none" else None,
        r.f(hv) if "gated" in rule and gate != "none" else None,
    )
    init = r.f(n, hv, dv, dk) if form != "ragged" or r.int(0, 1) else None
    cu = np.cumsum([0] + lengths).astype(I32) if form == "ragged" else None
    if form == "packed":
        q, k, v = np.concatenate([x.reshape(*lead, -1) for x in (q, k, v)], -1), None, None
    more = dict(gate_activation=gate) if log is not None else {}
    more.update(qk_l2_norm=r.int(0, 1), beta_activation=r.one("none", "sigmoid"), update_rule=rule)
    return [q, k, v, cu, decay, beta, init, log, shift], more, (1, 1)


@operator(com)
def LinearAttentionGate(r):
    shape, h = r.sizes(2), r.int(1, 5)
    t = r.one(F32, F16)
    b = r.maybe(lambda: r.f(*shape, h, dtype=t))
    return [2 * r.f(*shape, h, dtype=t), r.f(h), -r.uniform(0, 2, h), b], {}, (1,) if b is None else (1, 1)


@operator(com)
def CausalConvWithState(r):
    b, c, l, k, dilation = r.int(1, 3), r.sizes(r.int(1, 2)), r.int(1, 6), r.int(1, 4), r.int(1, 2)
    last, channels = r.int(0, 1), int(np.prod(c))
    s = (k - 1) * dilation
    shape, state = ((b, l, *c), (b, s, *c)) if last else ((b, channels, l), (b, channels, s))
    past = r.maybe(lambda: r.f(*state))
    inputs = [r.f(*shape), r.f(channels, 1, k), r.maybe(lambda: r.f(channels)), past]
    return inputs, dict(activation=r.one("none", "silu", "swish"), dilation=dilation, channels_last=last), (1, 1)


@operator(com)
def VarlenCausalConvWithState(r):
    n, c, k, dilation = r.int(1, 3), r.int(1, 5), r.int(1, 4), r.int(1, 2)
    lengths = r.sizes(n)
    cu = np.cumsum([0] + lengths).astype(I32)
    inputs = [r.f(sum(lengths), c), r.f(c, 1, k), cu, r.maybe(lambda: r.f(c)), r.f(n, c, (k - 1) * dilation)]
    return inputs, dict(activation=r.one("none", "silu"), dilation=dilation), (1, 1)


@operator(com, 2e-3, 2e-3)
def GatedAdd(r):
    shape, c, t = r.sizes(r.int(1, 3)), r.int(1, 9), r.one(F32, F16)
    return [r.f(*shape, c, dtype=t), r.f(*shape, c, dtype=t), r.f(*shape, 1, dtype=t)], {}


@operator(com, 2e-3, 2e-3)
def GatedRMSNorm(r):
    shape, c, g, t = r.sizes(r.int(1, 3)), r.int(1, 9), r.int(1, 3), r.one(F32, F16)
    inputs = [r.f(*shape, g * c, dtype=t), r.f(c, dtype=t), r.f(*shape, g * c, dtype=t)]
    return inputs, dict(activation=r.one("silu", "swish", "sigmoid"), epsilon=r.one(1e-5, 1e-3))


def branches(r, lead, c, h):
    """Grouped, or in one axis; and the attribute that says so."""
    return ((*lead, c, h), {}) if r.int(0, 1) else ((*lead, c * h), dict(num_branches=c))


@operator(com, 2e-3, 2e-3)
def BranchwiseRMSNorm(r):
    c, h, t = r.int(1, 4), r.int(1, 9), r.one(F32, F16)
    shape, more = branches(r, r.sizes(r.int(1, 2)), c, h)
    scale = r.one((c * h,), (c, h), (h,), None)
    return [r.f(*shape, dtype=t), None if scale is None else r.f(*scale)], more


@operator(com, 2e-3, 2e-3)
def ScaledSiLU(r):
    t = r.one(F32, F16)
    return [r.f(*r.sizes(r.int(1, 3)), dtype=t), r.maybe(lambda: r.f())], dict(alpha=r.one(1.0, 1.7))


@operator(com, 2e-3, 2e-3)
def HyperConnectionPreMix(r):
    lead, c, h, t = r.sizes(r.int(1, 2)), r.int(1, 4), r.int(2, 9), r.one(F32, F16)
    shape, more = branches(r, lead, c, h)
    gates = r.one((*lead, c), (*lead, c, 1), (*lead, c, h))
    return [r.f(*shape, dtype=t), r.f(*gates)], dict(reduction_scale=r.one(1.0, 0.5), **more)


@operator(com, 2e-3, 2e-3)
def HyperConnectionPostMix(r):
    lead, c, h, t = r.sizes(r.int(1, 2)), r.int(1, 4), r.int(2, 9), r.one(F32, F16)
    shape, more = branches(r, lead, c, h)
    gates = r.one((*lead, c), (*lead, c, 1), (*lead, c, h))
    return [r.f(*shape, dtype=t), r.f(*lead, h, dtype=t), r.f(*gates), r.maybe(lambda: r.f(*lead, c, c))], more


@operator(com, 2e-3, 2e-3)
def EngramGate(r):
    b, s, m, h, t = r.int(1, 2), r.int(1, 3), r.int(1, 3), r.int(1, 9), r.one(F32, F16)
    cn = r.maybe(lambda: r.f(m, h, dtype=t))
    pair, norms = [r.f(b, s, m, h, dtype=t) for _ in range(2)], [r.f(m, h, dtype=t) for _ in range(2)]
    return [*pair, r.f(b, s, h, dtype=t), *norms, cn], dict(epsilon=r.one(1e-5, 1e-3)), (1,) if cn is None else (1, 1)


@operator(com, 2e-3, 2e-3)
def MoEGroupRouter(r):
    g, m, t = r.int(1, 4), r.int(1, 4), r.one(F32, F16)
    inputs = [2 * r.f(*r.sizes(r.int(1, 2)), g * m, dtype=t), r.f(g * m)]
    if r.int(0, 2) == 0:
        return inputs, dict(top_k=1), (0, 1, 1)
    chosen = r.int(1, g)
    return inputs, dict(top_k=r.int(1, chosen * m), n_group=g, topk_group=chosen, group_topk=r.int(1, 3))


@operator(com)
def MRotaryEmbedding(r):
    b, l, h, half, m = r.int(1, 3), r.int(1, 5), r.int(1, 3), r.one(2, 4, 8), r.int(5, 9)
    cut = sorted(r.sizes(2, 0, half))
    section = [cut[0], cut[1] - cut[0], half - cut[1]]
    layout = r.int(0, 1)
    more = dict(num_heads=h) if r.int(0, 1) else {}
    x = r.f(b, l, h * 2 * half) if more or r.int(0, 1) else r.f(b, h, l, 2 * half)
    tables = [r.f(m, half), r.f(m, half)]
    more.update(mrope_section=section, mrope_layout=layout, interleaved=r.int(0, 1))
    return [x, r.ints(0, m - 1, 3, b, l), *tables], more


@operator(com)
def DecoderMaskedMultiHeadAttention(r):
    b, h, d, cross = r.int(1, 3), r.int(1, 3), r.int(1, 4), r.int(0, 2) == 0
    w, room, beams = h * d, r.int(2, 6), None
    bias = r.maybe(lambda: r.f(3 * w))
    if cross:
        mask = r.maybe(lambda: np.maximum(r.ints(0, 1, b, room, dtype=I32), np.eye(1, room, dtype=I32)))
        inputs = [r.f(b, 1, w), r.f(b, h, room, d), r.f(b, h, room, d), mask, None, None, None, None, None, None, bias]
        return inputs, dict(num_heads=h, scale=r.one(0.0, 0.4))
    past = r.int(0, room - 1)
    mask = r.maybe(lambda: np.maximum(r.ints(0, 1, b, past + 1, dtype=I32), np.eye(1, past + 1, dtype=I32)))
    width = r.one(1, b)
    if r.int(0, 1):
        beams = r.ints(0, width - 1, b // width, width, room, dtype=I32)
    # with beams, onnxruntime reads a bias at wrong places from the second row on
    extra = r.maybe(lambda: r.f(1, h, 1, past + 1)) if beams is None else None
    inputs = [r.f(b, 1, w), r.f(b, 1, w), r.f(b, 1, w), mask, extra]
    inputs += [
        r.f(b, h, room, d),
        r.f(b, h, room, d),
        np.array(past, I32),
        None if beams is None else np.array(width, I32),
    ]
    return inputs + [beams, bias], dict(num_heads=h, past_present_share_buffer=1, scale=r.one(0.0, 0.4)), (1, 1, 1)


@operator(com)
def SparseAttention(r):
    b, kh, times, block, room, layouts = r.int(1, 2), r.int(1, 2), r.int(1, 2), 16, 64, r.int(1, 2)
    h, d, n = kh * times * layouts, 16, room // block
    l, past = r.one((r.int(1, 40), 0), (1, r.int(1, room - 1)))
    seen = np.maximum(np.tril(r.ints(0, 1, layouts, n, n)), np.eye(n, dtype=np.int64))
    rows = np.concatenate([np.zeros((layouts, 1)), seen.sum(2).cumsum(1)], 1).astype(I32)
    columns = np.full((layouts, rows.max()), -1, I32)
    for i in range(layouts):
        columns[i, : rows[i, -1]] = np.nonzero(seen[i])[1]
    turned = r.int(0, 1)
    tables = [r.f(room, d // 2), r.f(room, d // 2)] if turned else [None, None]
    parts = [r.f(b, l, h * d), r.f(b, l, kh * d), r.f(b, l, kh * d)]
    if r.int(0, 1):
        parts = [np.concatenate(parts, -1), None, None]
    # rows of different lengths: onnxruntime mixes up their weights
    inputs = parts + [r.f(b, kh, room, d), r.f(b, kh, room, d), rows, columns, np.array(past + l, I32)]
    more = dict(num_heads=h, kv_num_heads=kh, sparse_block_size=block, do_rotary=turned, rotary_interleaved=r.int(0, 1))
    return inputs + [np.full(b, past + l, I32), *tables], more, (1, 1, 1), {1: 3, 2: 4}


@operator(com)
def ConvTransposeWithDynamicPads(r):
    n, c, m, rank = r.int(1, 2), r.int(1, 3), r.int(1, 3), 2
    kernel, size = r.sizes(rank, 2, 3), r.sizes(rank, 3, 5)
    pads = Fixed(r.ints(0, 1, 2 * rank))
    inputs = [r.f(n, c, *size), r.f(c, m, *kernel), pads, r.maybe(lambda: r.f(m))]
    return inputs, dict(kernel_shape=kernel, strides=r.sizes(rank, 1, 2))


@operator(com)
def SampleOp(r):
    return [r.f(*r.sizes(r.int(0, 3)))], {}


# ---- floats of few bits -------------------------------------------------------------------------
@operator(com)
def MatMulBnb4(r):
    n, k, block = r.int(1, 6), r.one(16, 24, 32), r.one(16, 32)
    inputs = [
        r.f(*r.sizes(r.int(1, 2)), k),
        Fixed(r.quanta(U8, (n * k + 1) // 2)),
        Fixed(r.uniform(0.1, 1, -(-n * k // block))),
    ]
    return inputs, dict(K=k, N=n, block_size=block, quant_type=r.int(0, 1))


@operator(com)
def MatMulFpQ4(r):
    n, k, kind = r.int(1, 5), r.one(20, 32, 64, 70), r.int(0, 1)
    blocks = -(-k // 32)
    scale = r.uniform(0.1, 1, n, blocks, 1).view(U8).reshape(n, blocks, 4)
    zero = r.ints(0, 15, n, blocks, kind, dtype=U8)
    blob = np.concatenate([scale, zero, r.quanta(U8, n, blocks, 16)], -1).ravel()
    return [r.f(*r.sizes(r.int(1, 2)), k), Fixed(blob), Fixed(np.array([k, n]))], dict(blk_quant_type=kind)


# ---- texts --------------------------------------------------------------------------------------
LETTERS = ["a", "b", "c", "A", "1", " ", "-", "é", "日", "_", "."]


def words(r, shape, letters, longest):
    texts = ["".join(r.one(*letters) for _ in range(r.int(0, longest))) for _ in range(int(np.prod(shape)))]
    return np.array(texts, dtype=object).reshape(shape)


@operator(com)
def Tokenizer(r):
    x = words(r, r.sizes(r.int(1, 2), 1, 4), LETTERS, r.int(1, 16))
    more = dict(mark=r.int(0, 1), mincharnum=r.int(1, 3), pad_value=r.one("#", "", "pad"))
    if r.int(0, 3) == 0:
        more.update(r.one(dict(separators=[""]), dict(tokenexp=".")), mincharnum=1)
    elif r.int(0, 1):
        parts = [
            " ",
            "-",
            "[^a-z]+",
            "[0-9]",
            "é",
            "a|ab",
            "b?",
            "\\s+",
            "^a",
            "c$",
            "\\b",
            "bc",
            "[ab]c?",
            "(?:ab)+",
            ".",
        ]
        more["separators"] = r.shuffled(parts)[: r.int(1, 3)]
    else:
        more["tokenexp"] = r.one(
            "[a-z]+", "\\w+", "a|ab|abc-", "[^ ]+", "..", "a*", "ab?c?", "\\b\\w", "^.", "[abc]+$", "\\w\\w+", "日.?"
        )
    return [x], more


# ---- maps ---------------------------------------------------------------------------------------
@operator(ml)
def CastMap(r):
    keys = r.shuffled(range(12))[: r.int(1, 6)]
    more = dict(map_form="SPARSE", max_map=r.int(1, 14)) if r.int(0, 1) else {}
    return [Map(keys, 9 * r.f(len(keys)))], dict(cast_to=r.one("TO_FLOAT", "TO_INT64"), **more)


@operator(ml)
def DictVectorizer(r):
    names = r.shuffled(["a", "bc", "", "é", "b", "d"])
    n = r.int(1, 6)
    if r.int(0, 1):
        return [Map(names[:n], r.f(n))], dict(string_vocabulary=r.shuffled(names)[: r.int(1, 6)])
    keys = r.shuffled(range(-3, 9))
    return [Map(keys[:n], r.f(n))], dict(int64_vocabulary=r.shuffled(keys)[: r.int(1, 9)])


# ---- fused -------------------------------------------------------------------------------------
def elementwise(name, **choices):
    """One input of floats, and attributes that are drawn from the given values."""

    def draw(r):
        attributes = {key: r.one(*values) for key, values in choices.items()}
        return [2 * r.f(*r.sizes(r.int(0, 3)))], {k: v for k, v in attributes.items() if v is not None}

    draw.__name__ = name
    operator(com)(draw)


elementwise("Gelu")
elementwise("QuickGelu", alpha=(None, 1.0, 2.0))


@operator(com)
def FastGelu(r):
    shape, n = r.sizes(r.int(0, 2)), r.int(1, 9)
    return [2 * r.f(*shape, n), r.maybe(lambda: r.f(n))], {}


@operator(com)
def BiasGelu(r):
    n = r.int(1, 9)
    return [2 * r.f(*r.sizes(r.int(0, 2)), n), r.f(n)], {}


@operator(com)
def CDist(r):
    k = r.int(1, 9)
    return [r.f(r.int(1, 5), k), r.f(r.int(1, 5), k)], dict(metric=r.one("euclidean", "sqeuclidean"))


@operator(com)
def FusedConv(r):
    rank, group, c, m = r.int(1, 2), r.int(1, 2), r.int(1, 3), r.int(1, 3)
    kernel, size = r.sizes(rank, 1, 3), r.sizes(rank, 4, 7)
    act = r.one(
        dict(activation="Relu"),
        dict(activation="Tanh"),
        dict(activation="Sigmoid"),
        dict(activation="LeakyRelu", activation_params=[0.2]),
        dict(activation="Clip", activation_params=[-0.5, 0.5]),
        dict(activation="HardSigmoid", activation_params=[0.3, 0.4]),
    )
    more = dict(pads=r.sizes(2 * rank, 0, 1), strides=r.sizes(rank, 1, 2), kernel_shape=kernel, group=group)
    inputs = [r.f(r.int(1, 2), group * c, *size), r.f(group * m, c, *kernel), r.maybe(lambda: r.f(group * m))]
    return inputs, dict(**more, **act)


@operator(com)
def FusedGemm(r):
    m, k, n, ta, tb = r.int(1, 5), r.int(1, 5), r.int(1, 5), r.int(0, 1), r.int(0, 1)
    c = r.one(None, (n,), (m, n), (m, 1), (1, n), ())
    act = r.one(dict(activation="Relu"), dict(activation="LeakyRelu", activation_alpha=0.2), dict(activation="Tanh"))
    inputs = [r.f(*((k, m) if ta else (m, k))), r.f(*((n, k) if tb else (k, n))), None if c is None else r.f(*c)]
    return inputs, dict(transA=ta, transB=tb, alpha=r.one(1.0, 0.5), beta=r.one(1.0, 2.0), **act)


def product(r, batches):
    """Operands of a product, each of its sides turned or not."""
    lead, m, k, n = r.sizes(r.int(0, 2), 1, 3), r.int(1, 4), r.int(1, 4), r.int(1, 4)
    ta, tb = r.int(0, 1), r.int(0, 1)
    ba, bb = (r.int(0, 1), r.int(0, 1)) if batches and len(lead) else (0, 0)

    def shaped(rows, columns, turned, batch):
        if batch:  # the rows stand in front of the batch
            return (columns, *lead, rows) if turned else (rows, *lead, columns)
        return (*lead, columns, rows) if turned else (*lead, rows, columns)

    more = dict(transA=ta, transB=tb, alpha=r.one(1.0, 0.5))
    if batches:
        more.update(transBatchA=ba, transBatchB=bb)
    return [r.f(*shaped(m, k, ta, ba)), r.f(*shaped(k, n, tb, bb))], more


@operator(com)
def FusedMatMul(r):
    return product(r, True)


@operator(com)
def TransposeMatMul(r):
    return product(r, False)


@operator(com)
def Inverse(r):
    n = r.int(1, 5)
    return [r.f(*r.sizes(r.int(0, 2), 1, 3), n, n) + 3 * np.eye(n, dtype=F32)], {}


@operator(com)
def SkipLayerNormalization(r):
    b, l, n = r.int(1, 3), r.int(1, 4), r.int(1, 9)
    skip = r.one((b, l, n), (1, l, n), (l, n))
    inputs = [r.f(b, l, n), r.f(*skip), r.f(n), r.maybe(lambda: r.f(n)), r.maybe(lambda: r.f(n))]
    return inputs, dict(epsilon=r.one(1e-12, 1e-5)), (1, 0, 0, r.int(0, 1))


@operator(com)
def SkipSimplifiedLayerNormalization(r):
    b, l, n = r.int(1, 3), r.int(1, 4), r.int(1, 9)
    skip = r.one((b, l, n), (1, l, n), (l, n))
    inputs = [r.f(b, l, n), r.f(*skip), r.f(n), r.maybe(lambda: r.f(n))]
    return inputs, dict(epsilon=r.one(1e-6, 1e-5)), (1, 0, 0, r.int(0, 1))


@operator(com)
def EmbedLayerNormalization(r):
    b, l, h, v, kinds = r.int(1, 3), r.int(1, 5), r.int(2, 9), r.int(2, 9), r.int(0, 1)
    p = l + r.int(0, 2)
    mask, places = r.maybe(lambda: r.ints(0, 2, b, l, dtype=I32)), r.maybe(
        lambda: r.ints(0, p - 1, r.one(1, b), l, dtype=I32)
    )
    segments = r.maybe(lambda: r.ints(0, 1, b, l, dtype=I32)) if kinds else None
    inputs = [r.ints(0, v - 1, b, l, dtype=I32), segments, r.f(v, h), r.f(p, h)]
    inputs += [r.f(2, h) if kinds else None, r.f(h), r.f(h), mask, places]
    return inputs, dict(epsilon=r.one(1e-12, 1e-5)), (1, 1, r.int(0, 1))


# ---- attention ----------------------------------------------------------------------------------
@operator(com)
def Attention(r):
    b, l, i, heads, d = r.int(1, 3), r.int(1, 5), r.int(1, 9), r.int(1, 3), r.int(1, 4)
    p, w = r.int(0, 3), 3 * heads * d
    s = p + l
    mask = r.one(None, r.ints(1, s, b, dtype=I32), np.maximum(r.ints(0, 1, b, s, dtype=I32), np.eye(1, s, dtype=I32)))
    past = r.f(2, b, heads, p, d) if p else None
    bias = r.maybe(lambda: r.f(r.one(1, b), r.one(1, heads), l, s))
    more = dict(num_heads=heads, unidirectional=r.int(0, 1))
    if r.int(0, 1):
        more["scale"] = 0.4
    return [r.f(b, l, i), r.f(i, w), r.f(w), mask, past, bias], more, (1, 1 if p else r.int(0, 1))


@operator(com)
def MultiHeadAttention(r):
    b, l, s, heads, d, e = r.int(1, 3), r.int(1, 5), r.int(1, 5), r.int(1, 3), r.int(1, 4), r.int(1, 4)
    form = r.one("three", "pair", "heads", "packed", "past")
    q = r.f(b, l, heads * d)
    bias, p = None, 0
    if form == "packed":
        inputs, s = [r.f(b, l, heads, 3, d), None, None, None], l
    elif form == "pair":
        inputs = [q, r.f(b, s, heads, 2, d), None, None]
    elif form == "heads":
        inputs = [q, r.f(b, heads, s, d), r.f(b, heads, s, e), None]
    else:
        bias = r.maybe(lambda: r.f(heads * (2 * d + e)))
        inputs = [q, r.f(b, s, heads * d), r.f(b, s, heads * e), bias]
        p = r.int(1, 3) if form == "past" else 0
    total = s + p
    mask = r.one(None, np.maximum(r.ints(0, 1, b, total, dtype=I32), np.eye(1, total, dtype=I32)))
    extra = r.maybe(lambda: r.f(r.one(1, b), r.one(1, heads), l, total))
    old = [r.f(b, heads, p, d), r.f(b, heads, p, e)] if p else [None, None]
    more = dict(num_heads=heads, unidirectional=r.int(0, 1) if s == l else 0)
    if r.int(0, 1):
        more["scale"] = 0.4
    return [*inputs, mask, extra, *old], more, (1, 1, 1) if p else (1,)


@operator(com)
def RotaryEmbedding(r):
    b, l, h, half, m = r.int(1, 3), r.int(1, 5), r.int(1, 3), r.one(2, 4, 8), r.int(9, 12)
    x = r.f(b, l, h * 2 * half) if r.int(0, 1) else r.f(b, h, l, 2 * half)
    ids = r.ints(0, 4, 1) if r.int(0, 1) else r.ints(0, m - 1, b, l)
    more = dict(num_heads=h) if x.ndim == 3 and r.int(0, 1) else {}
    return [x, ids, r.f(m, half), r.f(m, half)], dict(interleaved=r.int(0, 1), **more)


@operator(com)
def GroupQueryAttention(r):
    b, kh, times, d = r.int(1, 3), r.int(1, 2), r.int(1, 3), r.one(8, 16)
    h, room = kh * times, r.int(2, 8)
    first = r.int(0, 1)
    l = r.int(1, room) if first else 1
    total = l if first else room
    lengths = np.full(b, total - 1, I32)  # behind a shorter row onnxruntime writes zeros over the past
    turned = r.int(0, 1)
    tables = [r.f(room, d // 2), r.f(room, d // 2)] if turned else [None, None]
    parts = [r.f(b, l, h * d), r.f(b, l, kh * d), r.f(b, l, kh * d)]
    if r.int(0, 1):
        parts = [np.concatenate(parts, -1), None, None]
    old = [r.f(b, kh, room - 1, d), r.f(b, kh, room - 1, d)] if not first else [None, None]
    scales, whole = [], {}
    if not first and r.int(0, 1):  # onnxruntime takes caches of whole numbers from a past alone
        bits, kind = r.one(8, 4), r.one("PER_TENSOR", "PER_CHANNEL")
        old = [r.ints(-128, 127, b, kh, room - 1, d, dtype=np.int8) if bits == 8
               else r.ints(0, 255, b, kh, room - 1, d // 2, dtype=np.uint8) for _ in old]
        scales = [None] * 3 + [np.abs(r.f(kh * d if kind == "PER_CHANNEL" else 1)) + np.float32(0.1) for _ in old]
        whole = dict(k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits)
    more = dict(
        num_heads=h,
        kv_num_heads=kh,
        do_rotary=turned,
        rotary_interleaved=r.int(0, 1),
        local_window_size=r.one(-1, 2, 4),
    )
    more.update(r.one({}, dict(softcap=0.5), dict(scale=0.3), dict(smooth_softmax=1)))
    more.update(whole)
    return [*parts, *old, lengths, np.array(total, I32), *tables, *scales], more, (1, 1, 1)


# ---- places -------------------------------------------------------------------------------------
@operator(com)
def Trilu(r):
    k = r.maybe(lambda: Fixed(np.array(r.int(-3, 3))))
    return [r.f(*r.sizes(r.int(2, 3))), k], dict(upper=r.int(0, 1))


@operator(com)
def Pad(r):
    shape = r.sizes(r.int(1, 3), 2, 5)
    mode = r.one("constant", "reflect", "edge")
    low = -1 if mode == "constant" else 0
    return [
        r.f(*shape),
        Fixed(r.ints(low, 1, 2 * len(shape))),
        r.maybe(lambda: r.f()) if mode == "constant" else None,
    ], dict(mode=mode)


@operator(com)
def Range(r):
    t = r.one(F32, np.float64, I32, I64)
    start, step = r.int(-3, 3), r.one(-2, -1, 1, 2)
    return [Fixed(np.array(v, t)) for v in (start, start + step * r.int(0, 6), step)], {}


@operator(com)
def ExpandDims(r):
    rank = r.int(0, 3)
    return [r.f(*r.sizes(rank)), Fixed(np.array(r.int(-rank - 1, rank), I32))], {}


@operator(com)
def GatherND(r):
    shape = r.sizes(r.int(1, 3))
    n = r.int(1, len(shape))
    index = np.stack([r.ints(-s, s - 1, *[2, 3][: r.int(1, 1)]) for s in shape[:n]], -1)
    return [r.f(*shape), Fixed(index.astype(r.one(I32, I64)))], {}


@operator(com)
def GridSample(r):
    n, c = r.int(1, 2), r.int(1, 2)
    more = dict(mode=r.one("bilinear", "nearest", "bicubic"), padding_mode=r.one("zeros", "border", "reflection"))
    return [r.f(n, c, *r.sizes(2, 2, 5)), 1.3 * r.f(n, *r.sizes(2, 1, 4), 2)], dict(align_corners=r.int(0, 1), **more)


@operator(com)
def Unique(r):
    return [r.ints(0, 6, r.int(1, 20), dtype=F32)], {}, (1, 1, 1)


@operator(com)
def UnfoldTensor(r):
    shape = r.sizes(r.int(1, 3), 3, 6)
    axis = r.int(-len(shape), len(shape) - 1)
    t = r.one(F32, U8, I64)
    return [r.ints(0, 99, *shape, dtype=t)], dict(dim=axis, size=r.int(1, shape[axis]), step=r.int(1, 3))


@operator(com)
def CropAndResize(r):
    n, c, k = r.int(1, 2), r.int(1, 2), r.int(1, 3)
    more = dict(mode=r.one("bilinear", "nearest"), extrapolation_value=r.one(0.0, 2.0))
    rois = r.uniform(-0.2, 1.2, k, 4)
    return [
        r.f(n, c, *r.sizes(2, 2, 6)),
        rois,
        r.ints(0, n - 1, k, dtype=I32),
        Fixed(np.array(r.sizes(2, 1, 4), I32)),
    ], more


@operator(com)
def NGramRepeatBlock(r):
    b, l, v = r.int(1, 3), r.int(2, 9), r.int(2, 4)
    return [r.ints(0, v - 1, b, l), r.f(b, v)], dict(ngram_size=r.int(1, min(4, l)))


# ---- quantised, the rest ------------------------------------------------------------------------
def parameters(r, t, shape=()):
    return [r.scale(*shape), r.zero(t, *shape)]


def quantised_pair(name):
    def draw(r):
        t, shape = r.one(U8, I8), r.sizes(r.int(1, 3))
        other = r.one(shape, shape[-1:], [1] * len(shape), [1])
        return [r.quanta(t, *shape), *parameters(r, t), r.quanta(t, *other), *parameters(r, t), *parameters(r, t)], {}

    draw.__name__ = name
    operator(com)(draw)


quantised_pair("QLinearAdd")
quantised_pair("QLinearMul")


@operator(com)
def QLinearLeakyRelu(r):
    t = r.one(U8, I8)
    return [r.quanta(t, *r.sizes(r.int(1, 3))), *parameters(r, t), *parameters(r, t)], dict(alpha=r.one(0.01, 0.3))


@operator(com)
def QLinearSigmoid(r):
    t = r.one(U8, I8)
    return [r.quanta(t, *r.sizes(r.int(1, 3))), *parameters(r, t), np.array(1 / 256, F32), r.zero(t)], {}


@operator(com)
def QLinearWhere(r):
    t, shape = r.one(U8, I8), r.sizes(r.int(1, 3))
    other = r.one(shape, shape[-1:])
    inputs = [
        r.ints(0, 1, *shape).astype(bool),
        r.quanta(t, *shape),
        *parameters(r, t),
        r.quanta(t, *other),
        *parameters(r, t),
    ]
    return inputs + parameters(r, t), {}


@operator(com)
def QLinearGlobalAveragePool(r):
    t = r.one(U8, I8)
    return [r.quanta(t, *r.sizes(2, 1, 4), *r.sizes(2)), *parameters(r, t), *parameters(r, t)], dict(
        channels_last=r.int(0, 1)
    )


@operator(com)
def QLinearAveragePool(r):
    t = r.one(U8, I8)
    shape = [r.int(1, 2), *r.sizes(3, 4, 6)]
    more = dict(
        kernel_shape=r.sizes(2, 1, 3),
        strides=r.sizes(2, 1, 2),
        channels_last=r.int(0, 1),
        count_include_pad=r.int(0, 1),
    )
    if min(more["kernel_shape"]) > 1:
        more["pads"] = r.sizes(4, 0, 1)
    return [r.quanta(t, *shape), *parameters(r, t), *parameters(r, t)], more


@operator(com)
def QLinearConv(r):
    t, w, c, m = r.one((U8, U8), (U8, I8), (I8, I8)) + (r.int(1, 4), r.int(1, 4))
    group, last, rank = r.int(1, 2), r.int(0, 1), r.int(1, 2)
    kernel, size = r.sizes(rank, 1, 3), r.sizes(rank, 4, 6)
    x = (r.int(1, 2), *size, group * c) if last else (r.int(1, 2), group * c, *size)
    by = r.one((), (group * m,))
    weights = [r.quanta(w, group * m, c, *kernel), r.scale(*by), np.zeros(by, w)]
    bias = r.maybe(lambda: r.ints(-999, 999, group * m, dtype=I32))
    more = dict(
        group=group, channels_last=last, pads=r.sizes(2 * rank, 0, 1), strides=r.sizes(rank, 1, 2), kernel_shape=kernel
    )
    return [r.quanta(t, *x), *parameters(r, t), *map(Fixed, weights), np.array(0.9, F32), r.zero(t), bias], more


@operator(com)
def NhwcMaxPool(r):
    more = dict(kernel_shape=r.sizes(2, 2, 3), strides=r.sizes(2, 1, 2), pads=r.sizes(4, 0, 1), ceil_mode=r.int(0, 1))
    return [r.quanta(r.one(U8, I8), r.int(1, 2), *r.sizes(2, 4, 7), r.int(1, 5))], more


@operator(com)
def QGemm(r):
    m, k, n, ta, tb, t = r.int(1, 4), r.int(1, 6), r.int(1, 4), r.int(0, 1), r.int(0, 1), r.one(U8, I8)
    w = r.one(U8, I8) if t == U8 else I8
    by = r.one((), (n,))
    a, b = r.quanta(t, *((k, m) if ta else (m, k))), r.quanta(w, *((n, k) if tb else (k, n)))
    out = [np.array(0.9, F32), r.zero(t)] if r.int(0, 1) else [None, None]
    inputs = [
        a,
        *parameters(r, t),
        b,
        r.scale(*by),
        r.zero(w, *by),
        r.maybe(lambda: r.ints(-99, 99, n, dtype=I32)),
        *out,
    ]
    return inputs, dict(transA=ta, transB=tb, alpha=r.one(1.0, 0.5))


@operator(com)
def MatMulInteger16(r):
    k = r.int(1, 6)
    lead = r.sizes(r.int(0, 1), 1, 3)
    return [r.quanta(np.int16, *lead, r.int(1, 4), k), r.quanta(np.int16, k, r.int(1, 4))], {}


@operator(com)
def MatMulIntegerToFloat(r):
    m, k, n, t = r.int(1, 4), r.int(1, 6), r.int(1, 4), r.one(U8, I8)
    w = r.one(U8, I8)
    by = r.one((), (n,))
    inputs = [r.quanta(t, *r.sizes(r.int(0, 1), 1, 3), m, k), r.quanta(w, k, n), r.scale(), r.scale(*by)]
    return inputs + [r.maybe(lambda: r.zero(t)), r.maybe(lambda: r.zero(w, *by)), r.maybe(lambda: r.f(n))], {}


@operator(com)
def DynamicQuantizeMatMul(r):
    m, k, n, w = r.int(1, 4), r.int(1, 6), r.int(1, 4), r.one(U8, I8)
    by = r.one((), (n,))
    inputs = [r.f(*r.sizes(r.int(0, 1), 1, 3), m, k), r.quanta(w, k, n), r.scale(*by), r.maybe(lambda: r.zero(w, *by))]
    return inputs + [r.maybe(lambda: r.f(n))], {}


@operator(com)
def MatMulNBits(r):
    bits, block, n = r.one(2, 4, 8), r.one(16, 32), r.int(1, 6)
    k = block * r.int(1, 3)
    blocks = k // block
    zero = r.maybe(lambda: packed(r.ints(0, 2**bits - 1, n, blocks), bits))
    inputs = [
        r.f(*r.sizes(r.int(0, 1), 1, 3), r.int(1, 3), k),
        Fixed(packed(r.ints(0, 2**bits - 1, n, blocks, block), bits)),
    ]
    inputs += [Fixed(r.scale(n, blocks)), zero if zero is None else Fixed(zero), None, r.maybe(lambda: r.f(n))]
    return inputs, dict(K=k, N=n, bits=bits, block_size=block)


@operator(com)
def QuantizeLinear(r):
    shape, t = r.sizes(r.int(1, 3)), r.one(U8, I8, np.int16, np.uint16)
    axis = r.int(0, len(shape) - 1)
    by = r.one((), (shape[axis],))
    return [20 * r.f(*shape), r.scale(*by), r.zero(t if t in (U8, I8) else U8, *by).astype(t)], dict(axis=axis)


@operator(com)
def DequantizeLinear(r):
    shape, t = r.sizes(r.int(1, 3)), r.one(U8, I8, np.int16, np.uint16, I32)
    axis = r.int(0, len(shape) - 1)
    by = r.one((), (shape[axis],))
    zero = r.zero(U8, *by).astype(t) if t != I32 else None
    return [r.ints(-99 if np.iinfo(t).min else 0, 99, *shape).astype(t), r.scale(*by), zero], dict(axis=axis)


@operator(com, 1e-2, 1e-2)
def DynamicQuantizeLSTM(r):
    t, n, i, h, d = r.int(1, 4), r.int(1, 2), r.int(1, 5), r.int(2, 5), r.int(1, 2)
    way = "bidirectional" if d == 2 else r.one("forward", "reverse")
    by = r.one((d,), (d, 4 * h))
    weights = [Fixed(r.quanta(I8, d, size, 4 * h)) for size in (i, h)]
    lens = r.maybe(lambda: r.ints(1, t, n, dtype=I32))
    state = [r.f(d, n, h), r.f(d, n, h)] if r.int(0, 1) else [None, None]
    scales = [v for _ in range(2) for v in (Fixed(r.uniform(0.003, 0.01, *by)), Fixed(np.zeros(by, I8)))]
    bias = r.maybe(lambda: Fixed(r.f(d, 8 * h)))
    return [r.f(t, n, i), *weights, bias, lens, *state, None, *scales], dict(hidden_size=h, direction=way), (1, 1, 1)


# ---- classical machine learning -----------------------------------------------------------------
def table(r, *types):
    t = r.one(*types)
    shape = (r.int(1, 4), r.int(1, 5))
    return r.ints(-5, 5, *shape).astype(t) if np.dtype(t).kind == "i" else (3 * r.f(*shape)).astype(t)


ANY = (F32, np.float64, I32, I64)


@operator(ml)
def ArrayFeatureExtractor(r):
    x = table(r, *ANY)
    return [x, r.ints(0, x.shape[1] - 1, 1, r.int(1, 5))], {}


@operator(ml)
def Binarizer(r):
    return [table(r, F32)], dict(threshold=r.one(0.0, 0.5))


@operator(ml)
def CategoryMapper(r):
    names, numbers = r.shuffled(["a", "bc", "é", "d"]), r.shuffled(range(4))
    more = dict(cats_strings=names, cats_int64s=numbers, default_int64=-7, default_string="none")
    shape = r.sizes(r.int(1, 2))
    return [r.ints(-1, 4, *shape) if r.int(0, 1) else words(r, shape, ["a", "bc", "é", "d", "x"], 1)], more


@operator(ml)
def FeatureVectorizer(r):
    n, t = r.int(1, 3), r.one(*ANY)
    sizes = r.sizes(r.int(1, 3))
    return [r.ints(-9, 9, n, s).astype(t) for s in sizes], dict(inputdimensions=sizes)


@operator(ml)
def Imputer(r):
    x = table(r, F32, I64)
    n = r.one(1, x.shape[1])
    if x.dtype == F32:
        bad = r.one(float("nan"), 0.0)
        x[r.ints(0, 2, *x.shape) == 0] = bad
        return [x], dict(imputed_value_floats=r.f(n).tolist(), replaced_value_float=bad)
    return [x], dict(imputed_value_int64s=r.ints(50, 60, n).tolist(), replaced_value_int64=2)


@operator(ml)
def LabelEncoder(r):
    names, numbers, floats = r.shuffled(["a", "bc", "é", "d"]), r.shuffled(range(4)), [0.5, 1.5, 2.5, float("nan")]
    keys = r.one(("strings", names), ("int64s", numbers), ("floats", floats))
    values = r.one(("strings", names), ("int64s", numbers), ("floats", [0.25, 1.0, 2.0, 4.0]))
    shape = r.sizes(r.int(1, 2))
    if keys[0] == "strings":
        x = words(r, shape, ["a", "bc", "é", "d", "x"], 1)
    else:
        x = r.ints(-1, 4, *shape) if keys[0] == "int64s" else np.array(floats + [9], F32)[r.ints(0, 4, *shape)]
    return [x], {
        f"keys_{keys[0]}": keys[1],
        f"values_{values[0]}": values[1],
        "default_int64": -7,
        "default_string": "none",
    }


@operator(ml)
def LinearClassifier(r):
    x = table(r, *ANY)
    c = r.int(2, 4)
    labels = dict(classlabels_ints=r.shuffled(range(c))) if r.int(0, 1) else dict(classlabels_strings=list("abcd")[:c])
    more = dict(post_transform=r.one("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"), multi_class=r.int(0, 1))
    return [x], dict(coefficients=r.f(c * x.shape[1]).tolist(), intercepts=r.f(c).tolist(), **labels, **more), (1, 1)


@operator(ml)
def LinearRegressor(r):
    x, e = table(r, F32), r.int(1, 3)
    more = dict(intercepts=r.f(e).tolist()) if r.int(0, 1) else {}
    more["post_transform"] = r.one("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    return [x], dict(coefficients=r.f(e * x.shape[1]).tolist(), targets=e, **more)


@operator(ml)
def Normalizer(r):
    return [table(r, *ANY)], dict(norm=r.one("MAX", "L1", "L2"))


@operator(ml)
def OneHotEncoder(r):
    shape = r.sizes(r.int(1, 2))
    if r.int(0, 1):
        return [words(r, shape, ["a", "bc", "é"], 1)], dict(cats_strings=["a", "bc", "é", "d"][: r.int(1, 4)])
    return [r.ints(0, 4, *shape).astype(r.one(*ANY))], dict(cats_int64s=r.shuffled(range(5))[: r.int(1, 5)])


@operator(ml)
def Scaler(r):
    x = table(r, *ANY)
    n = r.one(1, x.shape[1])
    return [x], dict(offset=r.f(n).tolist(), scale=r.f(n).tolist())


def kernel(r):
    kind = r.one("LINEAR", "POLY", "RBF", "SIGMOID")
    return dict(kernel_type=kind, kernel_params=[0.3, 0.2, float(r.int(1, 3))])


@operator(ml)
def SVMRegressor(r):
    x, v = table(r, F32), r.int(1, 4)
    more = dict(n_supports=v, coefficients=r.f(v).tolist(), support_vectors=r.f(v * x.shape[1]).tolist(), **kernel(r))
    return [x], dict(rho=[0.3], one_class=r.int(0, 1), **more)


@operator(ml)
def SVMClassifier(r):
    x, c = table(r, *ANY), r.int(2, 4)
    per = r.sizes(c, 1, 3)
    v, pairs = sum(per), c * (c - 1) // 2
    labels = dict(classlabels_ints=r.shuffled(range(c))) if r.int(0, 1) else dict(classlabels_strings=list("abcd")[:c])
    more = dict(prob_a=(-r.uniform(0.5, 1.5, pairs)).tolist(), prob_b=r.f(pairs).tolist()) if r.int(0, 1) else {}
    more.update(
        vectors_per_class=per, coefficients=r.f((c - 1) * v).tolist(), support_vectors=r.f(v * x.shape[1]).tolist()
    )
    return [x], dict(rho=r.f(pairs).tolist(), **labels, **more, **kernel(r)), (1, 1)


def trees(r, features, leaves):
    """Columns of attributes: trees of random splits; `leaves` gives those of the leaves."""
    nodes = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    ends = []

    def grow(tree, depth):
        me = count[0]
        count[0] += 1
        at = len(nodes["nodeids"])
        for key, value in zip(nodes, (tree, me, 0, 0.0, "LEAF", 0, 0)):
            nodes[key].append(value)
        if depth and r.int(0, 3):
            mode = r.one("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE")
            nodes["featureids"][at], nodes["values"][at], nodes["modes"][at] = (
                r.int(0, features - 1),
                float(r.f()),
                mode,
            )
            nodes["truenodeids"][at] = grow(tree, depth - 1)
            nodes["falsenodeids"][at] = grow(tree, depth - 1)
        else:
            ends.append((tree, me))
        return me

    for tree in range(r.int(1, 4)):
        count = [0]
        grow(tree, 3)
    return {f"nodes_{k}": v for k, v in nodes.items()} | leaves(ends)


@operator(ml)
def TreeEnsembleRegressor(r):
    x, n = table(r, F32), r.int(1, 3)

    def leaves(ends):
        rows = [(t, i, k, float(r.f())) for t, i in ends for k in range(n)]
        return {f"target_{k}": [row[i] for row in rows] for i, k in enumerate(("treeids", "nodeids", "ids", "weights"))}

    more = dict(aggregate_function=r.one("SUM", "AVERAGE", "MIN", "MAX"), n_targets=n)
    if r.int(0, 1):
        more["base_values"] = r.f(n).tolist()
    return [x], trees(r, x.shape[1], leaves) | more


@operator(ml)
def TreeEnsembleClassifier(r):
    x, n = table(r, *ANY), r.int(3, 4)  # of two, onnxruntime takes the second where its score is positive

    def leaves(ends):
        rows = [(t, i, k, float(r.uniform(0, 1))) for t, i in ends for k in range(n)]
        return {f"class_{k}": [row[i] for row in rows] for i, k in enumerate(("treeids", "nodeids", "ids", "weights"))}

    labels = dict(classlabels_int64s=list(range(n))) if r.int(0, 1) else dict(classlabels_strings=list("abcd")[:n])
    return [x], trees(r, x.shape[1], leaves) | labels | dict(post_transform=r.one("NONE", "SOFTMAX")), (1, 1)


# ---- models and references ----------------------------------------------------------------------
def tensor(array, name, kind):
    if kind is None:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, kind, array.shape, [int(v) for v in np.asarray(array, np.int64).ravel()])


def build(name, domain, inputs, attributes, outputs, is_open):
    """The model and its feeds; with `is_open` no size of an input but 1 is known, and no two are known to be equal."""
    names, ports, constants, feeds = [], [], [], {}
    for i, value in enumerate(inputs):
        names.append("" if value is None else f"x{i}")
        if isinstance(value, Fixed):
            constants.append(tensor(value.array, names[-1], value.kind))
        elif isinstance(value, Map):
            ports.append(value.port(names[-1]))
            feeds[names[-1]] = dict(zip(value.keys.tolist(), value.values.tolist()))
        elif value is not None:
            value = np.asarray(value)
            kind = TensorProto.STRING if value.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(value.dtype)
            sizes = [f"n{i}_{d}" if is_open and n != 1 else n for d, n in enumerate(value.shape)]
            ports.append(helper.make_tensor_value_info(names[-1], kind, sizes))
            feeds[names[-1]] = value
    while names and not names[-1]:
        names.pop()
    results = [f"y{i}" if take else "" for i, take in enumerate(outputs)]
    node = helper.make_node(name, names, results, name="node", domain=domain, **attributes)
    graph = helper.make_graph(
        [node], name, ports, [helper.make_empty_tensor_value_info(o) for o in results if o], constants
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(domain, ml_version(name) if domain == ml else 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def ml_version(name):
    return {"LabelEncoder": 4, "TreeEnsemble": 5}.get(name, 3)


def reference(model, feeds, shared):
    """What onnxruntime computes. `shared`: outputs that must lie in the memory of an input, by their positions."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    if shared:
        memory = {name: np.array(array) for name, array in feeds.items()}
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in memory.items()}
        binding = session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for i, port in enumerate(session.get_outputs()):
            if i in shared:
                binding.bind_ortvalue_output(port.name, values[f"x{shared[i]}"])
            else:
                binding.bind_output(port.name)
        session.run_with_iobinding(binding)
        results = [value.numpy().copy() for value in binding.get_outputs()]
    else:
        results = session.run(None, feeds)
    del model.graph.output[:]
    for port, array in zip(session.get_outputs(), results):
        kind = TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.output.append(
            helper.make_tensor_value_info(port.name, kind, [f"{port.name}_{d}" for d in range(array.ndim)])
        )
    return results


def write(folder, name, count, seed, refused):
    domain, function, rtol, atol = GENERATORS[name]
    written = 0
    for number in range(seed, seed + count):
        for attempt in range(TRIES):
            inputs, attributes, *rest = function(Random(f"{name} {number} {attempt}"))
            model, feeds = build(
                name, domain, inputs, attributes, rest[0] if rest else (1,), number % 3 == 0 and attempt < TRIES // 2
            )
            try:
                results = reference(model, feeds, rest[1] if len(rest) > 1 else None)
            except Exception as error:  # noqa: BLE001: whatever onnxruntime refuses is drawn anew
                refused[name] = str(error)
                continue
            given = [v for v in inputs if v is not None and not isinstance(v, Fixed)]
            given = [np.asarray(t) for v in given for t in ((v.values, v.keys) if isinstance(v, Map) else (v,))]
            arrays = {f"in_{i}": a for i, a in enumerate(given)}
            arrays |= {f"out_{i}": a for i, a in enumerate(results)}
            texts = any(a.dtype.kind in "OU" for a in arrays.values())
            arrays = {key: a.astype(str) if a.dtype.kind == "O" else a for key, a in arrays.items()}
            place = folder / "texts" if texts else folder
            onnx.save(model, place / f"{name}_{number}.onnx")
            np.savez(place / f"{name}_{number}.npz", **arrays)
            written += 1
            yield f"{name}_{number}.npz {rtol} {atol} {domain}\n"
            break
    if 2 * written < count:
        print(f"{name}: onnxruntime took {written} of {count} models: {refused[name][:300]}", file=sys.stderr)
    if not written:
        sys.exit(f"onnxruntime takes none of the cases of {name}: {refused[name][:400]}")


def kernels():
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    return sorted(
        {
            f"{d.domain}::{d.op_name}"
            for d in get_all_opkernel_def()
            if d.provider == "CPUExecutionProvider" and d.domain in (com, ml)
        }
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=pathlib.Path, nargs="?")
    options.add_argument("operators", nargs="*")
    options.add_argument("-n", type=int, default=8)
    options.add_argument("-s", type=int, default=1)
    options.add_argument("--kernels", action="store_true")
    chosen = options.parse_intermixed_args()
    if chosen.kernels:
        print("\n".join(kernels()))
        return
    onnxruntime.set_default_logger_severity(4)
    (chosen.folder / "texts").mkdir(parents=True, exist_ok=True)
    refused = {}
    with open(chosen.folder / "tolerances", "w", encoding="utf-8") as lines:
        for name in chosen.operators or GENERATORS:
            lines.writelines(write(chosen.folder, name, chosen.n, chosen.s, refused))


if __name__ == "__main__":
    main()
