"""Models with operators of onnxruntime's own domain, as its optimisers and quantizers write them; what it computes is
the reference."""
import numpy as np

from .kit import BOOL, F32, I16, I32, I64, I8, U8, model

PEER = "com.microsoft"


def contrib(net, kind, *inputs, n=1, **attributes):
    """One node whose results are outputs of the model; their types come from the reference."""
    net.domains[PEER] = 1
    made = net.op(kind, *inputs, n=n, domain=PEER, **attributes)
    net.open_outputs += [made] if isinstance(made, str) else list(made)


def byte(net, *shape):
    return net.ints(0, 256, *shape, dtype=np.uint8)


def signed(net, *shape):
    return net.ints(-128, 128, *shape, dtype=np.int8)


def f(value):
    return np.float32(value)


@model("com.microsoft: Gelu, FastGelu, BiasGelu, QuickGelu, FusedConv, FusedGemm, FusedMatMul, TransposeMatMul, "
       "CDist, Inverse, SkipLayerNormalization, "
       "SkipSimplifiedLayerNormalization, EmbedLayerNormalization")
def contrib_fused(net):
    x, skip, image, square = net.input("x", F32, 2, 3, 8), net.input("skip", F32, 2, 3, 8), net.input("image", F32, 1,
            4, 6, 6), net.input("square", F32, 2, 4, 4)
    ids, places = net.input("ids", I32, 2, 5), net.input("places", I32, 2, 5)
    b, g = net.uniform(-1, 1, 8), net.uniform(0.5, 1.5, 8)
    contrib(net, "Gelu", x)
    contrib(net, "FastGelu", x, b)
    contrib(net, "BiasGelu", x, b)
    contrib(net, "QuickGelu", x, alpha=1.5)
    contrib(net, "FusedConv", image, net.uniform(-1, 1, 6, 4, 3, 3), net.uniform(-1, 1, 6),
            net.uniform(-1, 1, 1, 6, 6, 6), pads=[1, 1, 1, 1], activation="Relu")
    contrib(net, "FusedConv", image, net.uniform(-1, 1, 6, 2, 3, 3), group=2, strides=[2, 2], activation="HardSigmoid",
            activation_params=[0.3, 0.4])
    flat = net.op("Reshape", x, np.array([6, 8]))
    contrib(net, "FusedGemm", flat, net.uniform(-1, 1, 5, 8), net.uniform(-1, 1, 5), transB=1, beta=0.5,
            activation="LeakyRelu", activation_alpha=0.2)
    contrib(net, "FusedMatMul", x, skip, transA=1, alpha=0.5)
    contrib(net, "FusedMatMul", net.op("Transpose", x, perm=[1, 0, 2]), skip, transBatchA=1, transB=1)
    contrib(net, "TransposeMatMul", x, skip, transB=1)
    contrib(net, "CDist", flat, net.uniform(-1, 1, 4, 8), metric="euclidean")
    contrib(net, "Inverse", net.op("Add", square, 2 * np.eye(4, dtype=np.float32)))
    contrib(net, "SkipLayerNormalization", x, skip, g, b, b)
    contrib(net, "SkipSimplifiedLayerNormalization", x, skip, g, epsilon=1e-5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    contrib(net, "EmbedLayerNormalization", ids, np.array([[0, 0, 1, 1, 1]] * 2, np.int32), net.uniform(-1, 1, 10, 8),
            net.uniform(-1, 1, 7, 8), net.uniform(-1, 1, 2, 8), g, b, mask, places, n=3)
    u = net.uniform
    return [[u(-1, 1, 2, 3, 8), u(-1, 1, 2, 3, 8), u(-1, 1, 1, 4, 6, 6), u(-0.5, 0.5, 2, 4, 4),
             net.ints(0, 10, 2, 5, dtype=np.int32), net.ints(0, 7, 2, 5, dtype=np.int32)]]


@model("com.microsoft: Attention (causal, masks by length, by place and for each query, past), MultiHeadAttention, "
       "RotaryEmbedding, GroupQueryAttention (prompt, a token behind a past, window, sink)")
def contrib_attention(net):
    x, past = net.input("x", F32, 2, 5, 8), net.input("past", F32, 2, 2, 2, 3, 4)
    w, b = net.uniform(-1, 1, 8, 24), net.uniform(-1, 1, 24)
    rows, each = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32), net.ints(0, 2, 2, 5, 5, dtype=np.int32)
    contrib(net, "Attention", x, w, b, num_heads=2, unidirectional=1)
    for mask in (np.array([3, 5], np.int32), np.array([4, 5, 1, 0], np.int32), rows, each):
        contrib(net, "Attention", x, w, b, mask, num_heads=2)
    contrib(net, "Attention", x, w, b, "", past, n=2, num_heads=2, unidirectional=1, scale=0.4)
    contrib(net, "MultiHeadAttention", x, x, x, b, rows, net.uniform(-1, 1, 2, 2, 5, 5), num_heads=2)
    old = net.op("Squeeze", net.op("Slice", past, [0], [1], [0]), [0])
    contrib(net, "MultiHeadAttention", x, x, x, "", "", "", old, old, n=3, num_heads=2, unidirectional=1)
    contrib(net, "RotaryEmbedding", x, np.array([1]), net.uniform(-1, 1, 9, 2), net.uniform(-1, 1, 9, 2), interleaved=1)
    q, k, token, keys, before = (net.input(n, F32, *s) for n, s in (("q", (1, 5, 64)), ("k", (1, 5, 32)),
            ("token", (2, 1, 64)), ("keys", (2, 1, 32)), ("before", (2, 2, 3, 16))))
    cos, sin = net.uniform(-1, 1, 8, 8), net.uniform(-1, 1, 8, 8)
    lengths = np.array([3, 3], np.int32)
    contrib(net, "GroupQueryAttention", q, k, k, "", "", np.array([4], np.int32), np.int32(5), cos, sin, n=3,
            num_heads=4, kv_num_heads=2, do_rotary=1)
    contrib(net, "GroupQueryAttention", q, k, k, "", "", np.array([4], np.int32), np.int32(5), n=3, num_heads=4,
            kv_num_heads=2, local_window_size=2, softcap=0.5, smooth_softmax=1)
    contrib(net, "GroupQueryAttention", token, keys, keys, before, before, lengths, np.int32(4), cos, sin, n=3,
            num_heads=4, kv_num_heads=2, do_rotary=1, rotary_interleaved=1)
    u = net.uniform
    return [[u(-1, 1, 2, 5, 8), u(-1, 1, 2, 2, 2, 3, 4), u(-1, 1, 1, 5, 64), u(-1, 1, 1, 5, 32), u(-1, 1, 2, 1, 64),
             u(-1, 1, 2, 1, 32), u(-1, 1, 2, 2, 3, 16)]]


@model("com.microsoft: GroupQueryAttention with caches that have room for all tokens: a prompt, tokens behind a past, "
       "the last place; symbolic length")
def contrib_cache(net):
    x, mask = net.input("x", F32, 1, "S", 64), net.input("mask", I64, 1, "T")
    old = [net.input("past_" + name, F32, 1, 1, "L", 16) for name in ("keys", "values")]
    ends = net.op("Cast", net.op("Sub", net.op("ReduceSum", mask, [1], keepdims=0), np.int64(1)), to=I32)
    total = net.op("Cast", net.op("Gather", net.op("Shape", mask), np.int64(1), axis=0), to=I32)
    cos, sin = net.uniform(-1, 1, 12, 8), net.uniform(-1, 1, 12, 8)
    contrib(net, "GroupQueryAttention", x, "", "", *old, ends, total, cos, sin, n=3, num_heads=2, kv_num_heads=1,
            do_rotary=1)
    runs = []
    for new, past, room in ((4, 0, 12), (1, 7, 12), (2, 3, 5)):
        caches = [net.uniform(-1, 1, 1, 1, room, 16) for _ in old]
        for cache in caches:
            cache[:, :, past:] = 0
        runs.append([net.uniform(-1, 1, 1, new, 64), np.ones((1, past + new), np.int64), *caches])
    return runs


@model("com.microsoft: GroupQueryAttention with caches of whole numbers, of 8 and of 4 bits, with one scale and with "
       "one for each channel: a prompt, tokens behind a past; symbolic length")
def contrib_cache_bits(net):
    x, mask = net.input("x", F32, 1, "S", 64), net.input("mask", I64, 1, "T")
    ends = net.op("Cast", net.op("Sub", net.op("ReduceSum", mask, [1], keepdims=0), np.int64(1)), to=I32)
    total = net.op("Cast", net.op("Gather", net.op("Shape", mask), np.int64(1), axis=0), to=I32)
    forms = [(bits, kind) for bits in (8, 4) for kind in ("PER_TENSOR", "PER_CHANNEL")]
    for bits, kind in forms:
        name = "%d_%s" % (bits, kind[4:].lower())
        old = [net.input("past_%s_%s" % (part, name), I8 if bits == 8 else U8, 1, 2, "L", bits)
               for part in ("keys", "values")]
        # some keys and values lie outside of what the codes have room for
        top = 0.8 / (2**(bits - 1) - 1)
        scales = [net.uniform(top / 2, top, 16 if kind == "PER_CHANNEL" else 1) for _ in old]
        contrib(net, "GroupQueryAttention", x, "", "", *old, ends, total, *[""] * 5, *scales, n=3, num_heads=4,
                kv_num_heads=2, k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits)
    runs = []
    for new, past, room in ((4, 0, 12), (1, 7, 12), (2, 3, 5)):
        caches = [signed(net, 1, 2, room, 8) if bits == 8 else byte(net, 1, 2, room, 4)
                  for bits, _ in forms for _ in range(2)]
        for cache in caches:
            cache[:, :, past:] = 0
        runs.append([net.uniform(-1, 1, 1, new, 64), np.ones((1, past + new), np.int64), *caches])
    return runs


@model("com.microsoft: GroupQueryAttention over places enough to be skipped by tiles: causal, a window, tokens behind "
       "a past whose rows have different lengths; MultiHeadAttention, causal")
def contrib_windows(net):
    q, k, v = net.input("q", F32, 1, 50, 16), net.input("k", F32, 1, 50, 8), net.input("v", F32, 1, 50, 8)
    token, past = net.input("token", F32, 2, 1, 24), net.input("past", F32, 2, 1, 60, 8)
    ends = net.input("ends", 6, 2)
    for window in (-1, 9):
        contrib(net, "GroupQueryAttention", q, k, v, "", "", np.array([49], np.int32), np.int32(50), n=3, num_heads=2,
                kv_num_heads=1, local_window_size=window)
        contrib(net, "GroupQueryAttention", token, "", "", past, past, ends, np.int32(60), n=3, num_heads=1,
                kv_num_heads=1, local_window_size=window)
    contrib(net, "MultiHeadAttention", q, q, q, num_heads=2, unidirectional=1)
    before = net.uniform(-1, 1, 2, 1, 60, 8)
    before[0, :, 11:] = 0                                      # nothing is said about places behind a row's end
    u = net.uniform
    return [[u(-1, 1, 1, 50, 16), u(-1, 1, 1, 50, 8), u(-1, 1, 1, 50, 8), u(-1, 1, 2, 1, 24), before,
             np.array([11, 59], np.int32)]]


@model("com.microsoft: QLinearAdd, QLinearMul, QLinearLeakyRelu, QLinearSigmoid, QLinearSoftmax, QLinearWhere, "
       "QLinearGlobalAveragePool, QLinearAveragePool, QLinearConv with channels last, NhwcMaxPool, QGemm, "
       "MatMulIntegerToFloat, DynamicQuantizeMatMul, MatMulInteger16, QuantizeLinear to 16 bits, MatMulNBits (8, 4 "
       "and 2 bits; rows in i8)")
def contrib_quantized(net):
    a, b, c, x, s, w = net.input("a", U8, 1, 3, 4, 4), net.input("b", U8, 4), net.input("c", U8, 1, 6, 6,
            4), net.input("x", F32, 2, 32), net.input("s", I16, 3, 4), net.input("where", BOOL, 4, 4)
    az, bz, yz = np.uint8(100), np.uint8(90), np.uint8(110)
    for kind in ("QLinearAdd", "QLinearMul"):
        contrib(net, kind, a, f(0.02), az, b, f(0.03), bz, f(0.05), yz)
    contrib(net, "QLinearLeakyRelu", a, f(0.02), az, f(0.03), bz, alpha=0.1)
    contrib(net, "QLinearSigmoid", a, f(0.02), az, f(0.004), np.uint8(3))
    contrib(net, "QLinearSoftmax", a, f(0.02), az, f(1 / 256), np.uint8(0), axis=-1, opset=13)
    contrib(net, "QLinearWhere", w, a, f(0.02), az, b, f(0.03), bz, f(0.04), yz)
    contrib(net, "QLinearGlobalAveragePool", a, f(0.02), az, f(0.015), bz)
    contrib(net, "QLinearAveragePool", c, f(0.02), az, f(0.015), bz, kernel_shape=[3, 3], strides=[2, 2],
            channels_last=1)
    contrib(net, "QLinearConv", c, f(0.02), az, signed(net, 6, 4, 3, 3), f(0.01), np.int8(0), f(0.5), bz,
            net.ints(-99, 99, 6, dtype=np.int32), channels_last=1, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    contrib(net, "NhwcMaxPool", c, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    m = net.op("Reshape", a, np.array([6, 8]))
    contrib(net, "QGemm", m, f(0.02), az, signed(net, 8, 5), f(0.03), np.int8(2), net.ints(-99, 99, 5, dtype=np.int32),
            f(0.05), yz)
    contrib(net, "QGemm", m, f(0.02), az, signed(net, 5, 8), net.uniform(0.01, 0.03, 5), np.zeros(5, np.int8), transB=1,
            alpha=0.5)
    contrib(net, "MatMulIntegerToFloat", m, signed(net, 8, 5), f(0.02), net.uniform(0.01, 0.03, 5), az, signed(net, 5),
            net.uniform(-1, 1, 5))
    contrib(net, "DynamicQuantizeMatMul", x, signed(net, 32, 5), f(0.03), np.int8(0), net.uniform(-1, 1, 5))
    contrib(net, "MatMulInteger16", s, net.ints(-9000, 9000, 4, 5, dtype=np.int16))
    contrib(net, "QuantizeLinear", x, f(0.0001), np.int16(12))
    contrib(net, "DequantizeLinear", s, f(0.0001), np.int16(12))
    contrib(net, "MatMulNBits", x, byte(net, 5, 2, 8), net.uniform(-1, 1, 10), byte(net, 5), K=32, N=5, bits=4,
            block_size=16)
    contrib(net, "MatMulNBits", x, byte(net, 5, 1, 32), net.uniform(-0.1, 0.1, 5), K=32, N=5, bits=8, block_size=32)
    contrib(net, "MatMulNBits", x, byte(net, 5, 2, 4), net.uniform(-1, 1, 10), "", "", net.uniform(-1, 1, 5), K=32, N=5,
            bits=2, block_size=16)
    for bits, zero in ((4, False), (4, True), (8, True)):  # rows in i8, by blocks; the last block is not full
        packed = byte(net, 5, 2, 2*bits)
        contrib(net, "MatMulNBits", net.op("Slice", x, np.array([0]), np.array([26]), np.array([1])), packed,
                net.uniform(-1, 1, 10), *([byte(net, 5*bits // 4)] if zero else []), K=26, N=5, bits=bits,
                block_size=16, accuracy_level=4)
    return [[byte(net, 1, 3, 4, 4), byte(net, 4), byte(net, 1, 6, 6, 4), net.uniform(-1, 1, 2, 32),
             net.ints(-9000, 9000, 3, 4, dtype=np.int16), net.uniform(0, 1, 4, 4) < 0.5]]


@model("com.microsoft: MatMulNBits of 3, 5, 6 and 7 bits, whose codes cross bytes; zero points; a last block that is "
       "not full")
def odd_bits(net):
    x = net.input("x", F32, "n", 26)
    net.domains[PEER] = 1
    for bits, zeros in ((3, True), (3, False), (5, True), (6, True), (7, False)):
        y = "y%d%s" % (bits, "z" if zeros else "")
        rest = [byte(net, 5 * -(-2 * bits // 8))] if zeros else []
        net.op("MatMulNBits", x, byte(net, 5, 2, 2 * bits), net.uniform(-0.1, 0.1, 10), *rest, out=y, domain=PEER, K=26,
               N=5, bits=bits, block_size=16)
        net.output(y, F32, "n", 5)
    return [[net.uniform(-1, 1, n, 26)] for n in (1, 3)]


@model("com.microsoft: DynamicQuantizeLSTM: one row (no lane of the step's least and largest), two directions with "
       "sequence_lens, states, weights by channel")
def contrib_lstm(net):
    x, y, lens, h, c = net.input("x", F32, 4, 1, 5), net.input("y", F32, "T", 2, 5), net.input("lens", I32,
            2), net.input("h", F32, 1, 2, 6), net.input("c", F32, 1, 2, 6)

    def lstm(x, d, lens="", h="", c="", channels=False, **attributes):
        size = (d, 24) if channels else (d,)
        scale = [net.uniform(0.003, 0.01, *size) for _ in range(2)]
        contrib(net, "DynamicQuantizeLSTM", x, signed(net, d, 5, 24), signed(net, d, 6, 24),
                net.uniform(-0.3, 0.3, d, 48), lens, h, c, "", scale[0], np.zeros(size, np.int8), scale[1],
                np.zeros(size, np.int8), n=3, hidden_size=6,
                **attributes)

    lstm(x, 1)
    lstm(y, 2, lens, direction="bidirectional")
    lstm(y, 1, "", h, c, channels=True, direction="reverse")
    return [[net.uniform(-1, 1, 4, 1, 5), net.uniform(-1, 1, t, 2, 5), np.array([t, 2], np.int32),
             net.uniform(-1, 1, 1, 2, 6), net.uniform(-1, 1, 1, 2, 6)] for t in (3, 6)]


@model("com.microsoft: Trilu, Pad, Range, ExpandDims, GatherND, GridSample, Unique, UnfoldTensor, CropAndResize, "
       "NGramRepeatBlock")
def contrib_places(net):
    x, image, rois, grid, v, ids = (net.input(n, t, *s) for n, t, s in (("x", F32, (4, 4)),
            ("image", F32, (2, 3, 6, 7)), ("rois", F32, (2, 4)), ("grid", F32, (2, 3, 3, 2)), ("v", F32, (30,)),
            ("ids", I64, (2, 6))))
    contrib(net, "Trilu", x, np.int64(1), upper=0)
    contrib(net, "Pad", x, np.array([1, 0, 2, 1]), f(2))
    contrib(net, "Range", f(1), f(5), f(0.5))
    contrib(net, "ExpandDims", x, np.int32(-1))
    contrib(net, "GatherND", x, np.array([[0, 1], [3, -1]]))
    contrib(net, "GridSample", image, grid, mode="bicubic", padding_mode="border")
    contrib(net, "Unique", v, n=3)
    contrib(net, "UnfoldTensor", x, dim=0, size=2, step=2)
    contrib(net, "CropAndResize", image, rois, np.array([1, 0], np.int32), np.array([4, 3], np.int32))
    contrib(net, "CropAndResize", image, rois, np.array([1, 0], np.int32), np.array([1, 3], np.int32), mode="nearest",
            extrapolation_value=2.0)
    contrib(net, "NGramRepeatBlock", ids, net.uniform(-1, 1, 2, 3), ngram_size=2)
    rois = np.array([[0.1, 0.2, 0.8, 0.9], [-0.2, 0, 1.1, 1]], np.float32)
    return [[net.uniform(-1, 1, 4, 4), net.uniform(-1, 1, 2, 3, 6, 7), rois, net.uniform(-1, 1, 2, 3, 3, 2),
             net.ints(0, 9, 30, dtype=np.float32), net.ints(0, 3, 2, 6)]]
