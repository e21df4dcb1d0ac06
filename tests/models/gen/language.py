"""Models with onnxruntime's operators for language models: experts, quantised tables, state.

What it computes is the reference.
"""

import numpy as np

from .contrib import byte, contrib, f, signed
from .kit import F32, I8, I32, I64, U8, model


def bits(net, n, *shape):
    """Codes of n bits side by side in bytes."""
    return byte(net, *shape[:-1], shape[-1] * n // 8)


@model(
    "com.microsoft: MoE (one expert, several, biases, swiglu with its halves in turn), QMoE (4 bits in blocks with "
    "zero points, 8 and 2 bits by row, shares given), GatherBlockQuantized (4, 2, 8 bits, an index out of range)"
)
def contrib_experts(net):
    x, r, three = net.input("x", F32, "n", 32), net.input("r", F32, "n", 4), net.input("three", F32, 2, "l", 8)
    choice, shares, ids = net.input("choice", F32, "m", 3), net.input("shares", F32, "n", 4), net.input("ids", I64, "n")
    u = net.uniform
    contrib(
        net,
        "MoE",
        three,
        choice,
        u(-1, 1, 3, 5, 8),
        u(-1, 1, 3, 5),
        u(-1, 1, 3, 8, 5),
        u(-1, 1, 3, 8),
        activation_type="gelu",
        k=2,
        normalize_routing_weights=1,
    )
    contrib(
        net,
        "MoE",
        three,
        choice,
        u(-1, 1, 3, 12, 8),
        u(-1, 1, 3, 12),
        u(-1, 1, 3, 8, 6),
        activation_type="swiglu",
        swiglu_fusion=1,
        activation_alpha=1.7,
        activation_beta=1.0,
        swiglu_limit=0.7,
        k=1,
    )
    contrib(
        net,
        "QMoE",
        x,
        r,
        bits(net, 4, 4, 32, 32),
        u(0.01, 0.1, 4, 32, 2),
        u(-1, 1, 4, 32),
        bits(net, 4, 4, 32, 32),
        u(0.01, 0.1, 4, 32, 2),
        u(-1, 1, 4, 32),
        "",
        "",
        "",
        bits(net, 4, 4, 32, 2),
        bits(net, 4, 4, 32, 2),
        activation_type="silu",
        expert_weight_bits=4,
        block_size=16,
        k=2,
        weights_prepacked=0,
    )
    contrib(
        net,
        "QMoE",
        x,
        r,
        bits(net, 8, 4, 64, 32),
        u(0.001, 0.01, 4, 64),
        "",
        bits(net, 8, 4, 32, 32),
        u(0.001, 0.01, 4, 32),
        activation_type="swiglu",
        swiglu_fusion=1,
        expert_weight_bits=8,
        k=3,
        weights_prepacked=0,
    )
    contrib(
        net,
        "QMoE",
        x,
        r,
        bits(net, 2, 4, 16, 32),
        u(0.1, 0.2, 4, 16),
        "",
        bits(net, 2, 4, 32, 16),
        u(0.1, 0.2, 4, 32),
        "",
        "",
        "",
        "",
        bits(net, 2, 4, 16),
        bits(net, 2, 4, 32),
        "",
        shares,
        activation_type="relu",
        normalize_routing_weights=1,
        expert_weight_bits=2,
        k=2,
        weights_prepacked=0,
    )
    for n, zeros in ((4, byte(net, 5, 3, 1)), (2, ""), (8, byte(net, 5, 3, 2))):
        contrib(
            net,
            "GatherBlockQuantized",
            bits(net, n, 5, 3, 32),
            ids,
            u(0.01, 0.1, 5, 3, 2),
            zeros,
            bits=n,
            block_size=16,
            quantize_axis=2,
        )
    return [
        [u(-1, 1, n, 32), u(-1, 1, n, 4), u(-1, 1, 2, l, 8), 2 * u(-1, 1, 2 * l, 3), u(0, 1, n, 4), net.ints(-6, 6, n)]
        for n, l in ((3, 2), (6, 5))
    ]


@model(
    "com.microsoft: QLinearConcat, QAttention (a mask by ends, causal, past, scales by column), "
    "QEmbedLayerNormalization (with and without segments)"
)
def contrib_quantized_bert(net):
    a, b, c, x, past, ids = (
        net.input("a", U8, "n", 3, 4),
        net.input("b", U8, "n", 2, 4),
        net.input("c", I8, "n", 3),
        net.input("x", U8, 2, "l", 6),
        net.input("past", F32, 2, 2, 2, 3, 4),
        net.input("ids", I32, 2, "l"),
    )
    u = net.uniform
    contrib(net, "QLinearConcat", f(0.03), np.uint8(120), a, f(0.02), np.uint8(100), b, f(0.05), np.uint8(130), axis=1)
    contrib(
        net,
        "QLinearConcat",
        u(0.02, 0.03, 1),
        np.array([-5], np.int8),
        c,
        u(0.02, 0.03, 1),
        np.array([3], np.int8),
        c,
        u(0.02, 0.03, 1),
        np.array([-5], np.int8),
        axis=-1,
    )
    w, bias = signed(net, 6, 24), u(-1, 1, 24)
    contrib(
        net,
        "QAttention",
        x,
        w,
        bias,
        f(0.02),
        f(0.01),
        np.array([2, 1], np.int32),
        np.uint8(120),
        np.int8(3),
        num_heads=2,
    )
    contrib(
        net,
        "QAttention",
        x,
        w,
        bias,
        f(0.02),
        u(0.005, 0.01, 24),
        "",
        np.uint8(120),
        signed(net, 24),
        num_heads=2,
        unidirectional=1,
    )
    contrib(net, "QAttention", x, w, bias, f(0.02), f(0.01), "", "", "", past, n=2, num_heads=2, unidirectional=1)
    tables = [byte(net, 9, 8), byte(net, 7, 8), byte(net, 2, 8), byte(net, 8), byte(net, 8)]
    scales, zeros = [f(s) for s in (0.02, 0.01, 0.03, 0.01, 0.02)], [np.uint8(z) for z in (120, 130, 110, 20, 128)]
    contrib(net, "QEmbedLayerNormalization", ids, ids, *tables, ids, *scales, *zeros, n=2)
    contrib(
        net,
        "QEmbedLayerNormalization",
        ids,
        "",
        *tables[:2],
        "",
        *tables[3:],
        "",
        *scales[:2],
        "",
        *scales[3:],
        *zeros[:2],
        "",
        *zeros[3:],
        n=2
    )
    return [
        [
            byte(net, n, 3, 4),
            byte(net, n, 2, 4),
            signed(net, n, 3),
            byte(net, 2, l, 6),
            u(-1, 1, 2, 2, 2, 3, 4),
            net.ints(0, 2, 2, l, dtype=np.int32),
        ]
        for n, l in ((2, 4), (5, 2))
    ]
