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


@model(
    "com.microsoft: LinearAttention (all rules, shared heads, a past), GatedDeltaNet (uniform, ragged, computed gates, "
    "packed), LinearAttentionGate, CausalConvWithState (both layouts, dilated), VarlenCausalConvWithState"
)
def contrib_states(net):
    u = net.uniform
    q, k, v = net.input("q", F32, 2, "t", 8), net.input("k", F32, 2, "t", 4), net.input("v", F32, 2, "t", 6)
    past, gate, rate = (
        net.input("past", F32, 2, 2, 2, 3),
        net.input("gate", F32, 2, "t", 2),
        net.input("rate", F32, 2, "t", 2),
    )
    for rule, decay, beta in (
        ("linear", "", ""),
        ("gated", gate, ""),
        ("delta", "", rate),
        ("gated_delta", gate, rate),
    ):
        before = past if rule != "delta" else ""
        contrib(
            net, "LinearAttention", q, k, v, before, decay, beta, n=2, q_num_heads=4, kv_num_heads=2, update_rule=rule
        )
    contrib(net, "LinearAttentionGate", gate, u(-1, 1, 2), u(-1, 0, 2), rate, n=2)
    tokens, state, cu = (
        net.input("tokens", F32, "n", 4, 3),
        net.input("state", F32, 2, 4, 3, 3),
        net.input("cu", I32, 3),
    )
    two = net.op("Slice", tokens, np.array([0]), np.array([2]), np.array([1]))
    g, b = net.op("ReduceMean", tokens, axes=[2], keepdims=0), net.op("ReduceMax", tokens, axes=[2], keepdims=0)
    log, shift = u(-1, 1, 4), u(-1, 1, 4)
    contrib(
        net,
        "GatedDeltaNet",
        two,
        two,
        tokens,
        cu,
        g,
        b,
        state,
        log,
        shift,
        n=2,
        qk_l2_norm=1,
        gate_activation="softplus",
        beta_activation="sigmoid",
    )
    contrib(
        net, "GatedDeltaNet", two, two, tokens, cu, g, b, "", log, shift, n=2, qk_l2_norm=1, gate_activation="sigmoid"
    )
    flat = net.op("Reshape", net.op("Concat", two, two, tokens, axis=1), np.array([0, 24]))
    contrib(net, "GatedDeltaNet", flat, "", "", "", g, b, state, n=2, qk_l2_norm=1, beta_activation="sigmoid")
    x, w = net.input("x", F32, 2, 3, "l"), u(-1, 1, 3, 1, 4)
    turned = net.op("Transpose", x, perm=[0, 2, 1])
    contrib(net, "CausalConvWithState", x, w, u(-1, 1, 3), u(-1, 1, 2, 3, 3), n=2, activation="silu")
    contrib(net, "CausalConvWithState", turned, w, "", u(-1, 1, 2, 6, 3), n=2, dilation=2, channels_last=1)
    rows = net.op("Reshape", tokens, np.array([0, 12]))
    contrib(net, "VarlenCausalConvWithState", rows, u(-1, 1, 12, 1, 3), cu, u(-1, 1, 12), u(-1, 1, 2, 12, 2), n=2)
    variants = []
    for t, n, l in ((3, 4, 5), (1, 6, 2)):
        arrays = [u(-1, 1, 2, t, 8), u(-1, 1, 2, t, 4), u(-1, 1, 2, t, 6), u(-1, 1, 2, 2, 2, 3), u(-1, 0, 2, t, 2)]
        arrays += [u(0, 1, 2, t, 2), u(-1, 1, n, 4, 3), u(-1, 1, 2, 4, 3, 3), np.array([0, 1, n], np.int32)]
        variants.append(arrays + [u(-1, 1, 2, 3, l)])
    return variants


@model(
    "com.microsoft: GatedAdd, GatedRMSNorm, BranchwiseRMSNorm, ScaledSiLU, HyperConnectionPreMix, "
    "HyperConnectionPostMix, EngramGate, MoEGroupRouter (chosen experts, all scores)"
)
def contrib_gates(net):
    u = net.uniform
    x, y, g, s = (net.input(name, F32, 2, "l", size) for name, size in (("x", 12), ("y", 12), ("g", 1), ("s", 4)))
    contrib(net, "GatedAdd", x, y, g)
    contrib(net, "GatedRMSNorm", x, u(0.5, 1, 4), y)
    contrib(net, "BranchwiseRMSNorm", x, u(0.5, 1, 3, 4), num_branches=3)
    contrib(net, "ScaledSiLU", x, f(1.5))
    contrib(net, "HyperConnectionPreMix", x, s, num_branches=4, reduction_scale=0.5)
    part = net.op("Slice", x, np.array([0]), np.array([3]), np.array([2]))
    mix = net.op("Reshape", net.op("Concat", x, s, axis=2), np.array([0, 0, 4, 4]))
    contrib(net, "HyperConnectionPostMix", x, part, s, mix, num_branches=4)
    contrib(net, "HyperConnectionPostMix", x, part, s, num_branches=4)
    heads, others = (net.op("Reshape", v, np.array([0, 0, 3, 4])) for v in (x, y))
    contrib(net, "EngramGate", heads, others, s, u(0.5, 1, 3, 4), u(0.5, 1, 3, 4), u(0.5, 1, 3, 4), n=2)
    contrib(net, "MoEGroupRouter", x, u(-1, 1, 12), top_k=3, n_group=4, topk_group=2)
    net.domains["com.microsoft"] = 1
    net.open_outputs += list(
        net.op("MoEGroupRouter", x, u(-1, 1, 12), out=["", "all", "own"], domain="com.microsoft", top_k=1)
    )[1:]
    return [[u(-1, 1, 2, l, size) for size in (12, 12, 1, 4)] for l in (3, 1)]


@model(
    "com.microsoft: MRotaryEmbedding (both layouts), DecoderMaskedMultiHeadAttention (a buffer, beams, other text), "
    "MatMulBnb4 (both tables), MatMulFpQ4 (with and without zero points), ConvTransposeWithDynamicPads, SampleOp"
)
def contrib_decoder(net):
    u = net.uniform
    x, ids, token, old = (
        net.input("x", F32, 2, "l", 16),
        net.input("ids", I64, 3, 2, "l"),
        net.input("token", F32, 4, 1, 6),
        net.input("old", F32, 4, 2, "p", 3),
    )
    at, beams = net.input("at", I32), net.input("beams", I32, 2, 2, "p")
    contrib(net, "MRotaryEmbedding", x, ids, u(-1, 1, 9, 4), u(-1, 1, 9, 4), mrope_section=[2, 1, 1], num_heads=2)
    contrib(
        net,
        "MRotaryEmbedding",
        x,
        ids,
        u(-1, 1, 9, 4),
        u(-1, 1, 9, 4),
        mrope_section=[2, 1, 1],
        num_heads=2,
        mrope_layout=1,
        interleaved=1,
    )
    kind = "DecoderMaskedMultiHeadAttention"
    contrib(
        net,
        kind,
        token,
        token,
        token,
        "",
        "",
        old,
        old,
        at,
        "",
        "",
        u(-1, 1, 18),
        n=3,
        num_heads=2,
        past_present_share_buffer=1,
    )
    contrib(
        net,
        kind,
        token,
        token,
        token,
        "",
        "",
        old,
        old,
        at,
        np.int32(2),
        beams,
        n=3,
        num_heads=2,
        past_present_share_buffer=1,
    )
    contrib(net, kind, token, old, old, num_heads=2)
    for table in (0, 1):
        contrib(net, "MatMulBnb4", x, byte(net, 40), u(0.5, 1, 5), K=16, N=5, block_size=16, quant_type=table)
    for zero in (0, 1):
        scale = u(0.5, 1, 3, 1, 1).view(np.uint8).reshape(3, 1, 4)
        blob = np.concatenate([scale, net.ints(0, 16, 3, 1, zero, dtype=np.uint8), byte(net, 3, 1, 16)], 2).ravel()
        contrib(net, "MatMulFpQ4", x, blob, np.array([16, 3]), blk_quant_type=zero)
    picture = net.op("Reshape", old, np.array([4, 2, 3, -1]))
    contrib(
        net,
        "ConvTransposeWithDynamicPads",
        picture,
        u(-1, 1, 2, 3, 3, 2),
        np.array([1, 0, 0, 1]),
        u(-1, 1, 3),
        kernel_shape=[3, 2],
        strides=[2, 1],
    )
    contrib(net, "SampleOp", x)
    return [
        [
            u(-1, 1, 2, l, 16),
            net.ints(0, 9, 3, 2, l),
            u(-1, 1, 4, 1, 6),
            u(-1, 1, 4, 2, p, 3),
            np.array(p - 2, np.int32),
            net.ints(0, 2, 2, 2, p, dtype=np.int32),
        ]
        for l, p in ((3, 4), (1, 5))
    ]


@model(
    "ai.onnx.ml: CastMap (all values, by place, whole numbers) and DictVectorizer on maps, which are two inputs each"
)
def maps(net):
    net.domains["ai.onnx.ml"] = 3
    x, y = net.map_input("x", F32), net.map_input("y", F32)
    for attributes in ({}, dict(map_form="SPARSE", max_map=6), dict(cast_to="TO_INT64")):
        net.open_outputs.append(net.op("CastMap", x, domain="ai.onnx.ml", **attributes))
    net.open_outputs.append(net.op("DictVectorizer", y, domain="ai.onnx.ml", int64_vocabulary=[7, -2, 4, 0]))
    return [[{3: 1.5, 1: -2.5, 4: 7.0}, {4: 1.0, 7: 2.0}], [{9: 0.5}, {-2: 3.0, 1: 5.0, 0: 4.0}]]
