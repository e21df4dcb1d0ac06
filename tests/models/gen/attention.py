"""Models of attention: encoders, decoders, masks, and the same formulas as operators."""
import numpy as np

from .kit import BOOL, F32, I64, model


def heads(net, x, width, count, shape=(0, 0)):
    """[N, T, width] -> [N, count, T, width / count]"""
    y = net.op("Reshape", x, [*shape, count, width // count])
    return net.op("Transpose", y, perm=[0, 2, 1, 3])


def attend(net, x, width, count, mask=None, memory=None):
    """Multi-head attention as exporters write it; `mask` is added to the scaled products."""
    memory = memory or x
    q, k, v = (heads(net, net.linear(s, width, width), width, count) for s in (x, memory, memory))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Div", scores, np.float32(np.sqrt(width // count)))
    if mask:
        scores = net.op("Add", scores, mask)
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, width])
    return net.linear(y, width, width)


def encoder_layer(net, x, width, count, mask=None):
    x = net.layer_norm(net.op("Add", x, attend(net, x, width, count, mask)), width)
    y = net.linear(net.gelu(net.linear(x, width, 2 * width)), 2 * width, width)
    return net.layer_norm(net.op("Add", x, y), width)


def padding_mask(net, mask):
    """int64 [N, T], 1 = keep -> additive float [N, 1, 1, T]"""
    m = net.op("Cast", net.op("Unsqueeze", mask, [1, 2]), to=F32)
    return net.op("Mul", net.op("Sub", np.float32(1), m), np.float32(-10000))


@model("BERT-like encoder, two layers: Gather embeddings, positions by Shape and Range, additive padding mask, "
       "decomposed LayerNorm and Gelu, pooled; symbolic batch and length")
def transformer_encoder(net):
    ids, mask = net.input("input_ids", I64, "batch", "length"), net.input("attention_mask", I64, "batch", "length")
    length = net.op("Gather", net.op("Shape", ids), np.int64(1), axis=0)
    places = net.op("Gather", net.weight(16, 16, fan=4), net.op("Range", np.int64(0), length, np.int64(1)), axis=0)
    x = net.op("Add", net.op("Gather", net.weight(30, 16, fan=4), ids, axis=0), places)
    x = net.layer_norm(x, 16)
    added = padding_mask(net, mask)
    for _ in range(2):
        x = encoder_layer(net, x, 16, 2, added)
    net.op("Identity", x, out="hidden")
    weights = net.op("Cast", net.op("Unsqueeze", mask, [2]), to=F32)
    total = net.op("ReduceSum", net.op("Mul", x, weights), [1], keepdims=0)
    net.op("Div", total, net.op("ReduceSum", weights, [1], keepdims=0), out="pooled")
    net.output("hidden", F32, "batch", "length", 16)
    net.output("pooled", F32, "batch", 16)
    runs = []
    for lengths, size in (([8], 8), ([5, 11, 2], 11), ([1], 1), ([4, 3], 6)):
        keep = (np.arange(size)[None] < np.array(lengths)[:, None]).astype(np.int64)
        runs.append([net.ints(0, 30, len(lengths), size), keep])
    return runs


@model("encoder layer with a boolean padding mask through Where and minus infinity; fixed sizes")
def transformer_where_mask(net):
    x, mask = net.input("x", F32, 2, 6, 12), net.input("keep", BOOL, 2, 6)
    seen = net.op("Unsqueeze", mask, [1, 2])
    q, k, v = (heads(net, net.linear(x, 12, 12), 12, 3) for _ in range(3))
    s = net.op("Mul", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2])), np.float32(0.5))
    s = net.op("Where", seen, s, np.float32(-np.inf))
    y = net.op("MatMul", net.op("Softmax", s, axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [2, 6, 12])
    net.op("Add", net.linear(y, 12, 12), x, out="y")
    net.output("y", F32, 2, 6, 12)
    keep = np.arange(6)[None] < np.array([[4], [6]])
    return [[net.uniform(-1, 1, 2, 6, 12), keep], [net.uniform(-1, 1, 2, 6, 12), keep[::-1].copy()]]


@model("GPT-like decoder layer: causal mask by Trilu over a symbolic length, fused q, k, v by one MatMul and Split, "
       "tied output embedding")
def attention_causal(net):
    ids = net.input("tokens", I64, 1, "T")
    table = net.weight(24, 16, fan=4, name="table")
    x = net.op("Gather", table, ids, axis=0)
    y = net.layer_norm(x, 16)
    qkv = net.op("Split", net.linear(y, 16, 48), [16, 16, 16], n=3, axis=2)
    q, k, v = (heads(net, p, 16, 4) for p in qkv)
    s = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    s = net.op("Mul", s, np.float32(0.5))
    length = net.op("Shape", ids, start=1, end=2)
    square = net.op("Concat", length, length, axis=0)
    ones = net.op("Expand", np.float32(1), square)
    future = net.op("Cast", net.op("Trilu", ones, np.int64(1), upper=1), to=BOOL)
    s = net.op("Where", future, np.float32(-1e9), s)
    y = net.op("MatMul", net.op("Softmax", s, axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, 16])
    x = net.op("Add", x, net.linear(y, 16, 16))
    y = net.linear(net.gelu(net.linear(net.layer_norm(x, 16), 16, 32)), 32, 16)
    x = net.layer_norm(net.op("Add", x, y), 16)
    net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0]), out="logits")
    net.output("logits", F32, 1, "T", 24)
    return [[net.ints(0, 24, 1, t)] for t in (7, 12, 1)]


@model("encoder-decoder: cross attention between two symbolic lengths")
def attention_cross(net):
    x, memory = net.input("x", F32, "N", "T", 12), net.input("memory", F32, "N", "S", 12)
    y = net.layer_norm(net.op("Add", x, attend(net, x, 12, 2, memory=memory)), 12)
    net.linear(y, 12, 5, out="y")
    net.output("y", F32, "N", "T", 5)
    return [[net.uniform(-1, 1, n, t, 12), net.uniform(-1, 1, n, s, 12)] for n, t, s in ((1, 4, 9), (2, 7, 3))]


@model("llama-like step: RMS norm by hand, rotary embedding by Slice, Neg, Concat, grouped keys by Expand, cache that "
       "grows by Concat (symbolic past length), SiLU gate")
def decoder_cache(net):
    x = net.input("x", F32, 1, "T", 16)
    past_k, past_v = net.input("past_k", F32, 1, 2, "P", 4), net.input("past_v", F32, 1, 2, "P", 4)
    cos, sin = net.input("cos", F32, "T", 4), net.input("sin", F32, "T", 4)

    def rms(v):
        mean = net.op("ReduceMean", net.op("Mul", v, v), axes=[-1])
        root = net.op("Sqrt", net.op("Add", mean, np.float32(1e-5)))
        return net.op("Mul", net.op("Mul", v, net.op("Reciprocal", root)), net.uniform(0.7, 1.3, 16))

    def turn(v):
        low, high = net.op("Slice", v, [0], [2], [3]), net.op("Slice", v, [2], [4], [3])
        swapped = net.op("Concat", net.op("Neg", high), low, axis=3)
        return net.op("Add", net.op("Mul", v, cos), net.op("Mul", swapped, sin))

    h = rms(x)
    q = turn(heads(net, net.op("MatMul", h, net.weight(16, 16, fan=16)), 16, 4))
    k = turn(heads(net, net.op("MatMul", h, net.weight(16, 8, fan=16)), 8, 2))
    v = heads(net, net.op("MatMul", h, net.weight(16, 8, fan=16)), 8, 2)
    k, v = net.op("Concat", past_k, k, out="new_k", axis=2), net.op("Concat", past_v, v, out="new_v", axis=2)

    def repeat(part):
        length = net.op("Shape", part, start=2, end=3)
        wide = net.op("Concat", [1, 2, 2], length, [4], axis=0)
        whole = net.op("Concat", [1, 4], length, [4], axis=0)
        return net.op("Reshape", net.op("Expand", net.op("Unsqueeze", part, [2]), wide), whole)

    s = net.op("MatMul", q, net.op("Transpose", repeat(k), perm=[0, 1, 3, 2]))
    y = net.op("MatMul", net.op("Softmax", net.op("Mul", s, np.float32(0.5)), axis=-1), repeat(v))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, 16])
    x = net.op("Add", x, net.op("MatMul", y, net.weight(16, 16, fan=16)))
    h = rms(x)
    gate, up = (net.op("MatMul", h, net.weight(16, 24, fan=16)) for _ in range(2))
    silu = net.op("Mul", gate, net.op("Sigmoid", gate))
    down = net.op("MatMul", net.op("Mul", silu, up), net.weight(24, 16, fan=24))
    net.op("Add", x, down, out="y")
    net.output("y", F32, 1, "T", 16)
    net.output("new_k", F32, 1, 2, "L", 4)
    net.output("new_v", F32, 1, 2, "L", 4)
    runs = []
    for t, p in ((1, 5), (3, 0), (2, 9)):
        angle = np.round(net.random.uniform(-3, 3, (t, 4)), 3)
        runs.append([net.uniform(-1, 1, 1, t, 16), net.uniform(-1, 1, 1, 2, p, 4), net.uniform(-1, 1, 1, 2, p, 4),
                     np.round(np.cos(angle), 4).astype(np.float32), np.round(np.sin(angle), 4).astype(np.float32)])
    return runs


@model("vision transformer: patches by Conv, class token by Expand and Concat, learned positions, LayerNormalization "
       "as operator; symbolic batch")
def vision_transformer(net):
    x = net.input("image", F32, "N", 3, 12, 12)
    y = net.conv(x, 3, 12, [4, 4], strides=[4, 4])
    y = net.op("Transpose", net.op("Reshape", y, [0, 12, 9]), perm=[0, 2, 1])
    batch = net.op("Shape", x, start=0, end=1)
    token = net.op("Expand", net.uniform(-1, 1, 1, 1, 12), net.op("Concat", batch, [1, 12], axis=0))
    y = net.op("Add", net.op("Concat", token, y, axis=1), net.uniform(-0.5, 0.5, 1, 10, 12))

    def norm(v):
        return net.op("LayerNormalization", v, net.uniform(0.7, 1.3, 12), net.uniform(-0.2, 0.2, 12), epsilon=1e-5)

    y = net.op("Add", y, attend(net, norm(y), 12, 3))
    y = net.op("Add", y, net.linear(net.gelu(net.linear(norm(y), 12, 24)), 24, 12))
    net.linear(net.op("Gather", norm(y), np.int64(0), axis=1), 12, 6, out="scores")
    net.output("scores", F32, "N", 6)
    return [[net.uniform(-1, 1, n, 3, 12, 12)] for n in (1, 2)]


@model("feed-forward block with LayerNorm and Gelu written out (Mean, Sub, Pow, Sqrt, Div, Erf), opset 13", opset=13)
def layernorm_gelu(net):
    x = net.input("x", F32, 3, 5, 20)
    y = net.linear(net.gelu(net.linear(net.layer_norm(x, 20), 20, 32)), 32, 20)
    net.op("Identity", net.layer_norm(net.op("Add", x, y), 20), out="y")
    net.output("y", F32, 3, 5, 20)
    return [[net.uniform(-2, 2, 3, 5, 20)]]


@model("the same normalisations as operators and by hand: LayerNormalization over two axes with Mean and InvStdDev, "
       "Gelu (both forms), Softmax along a middle axis against Exp and Sum", opset=20)
def norms_both_ways(net):
    x = net.input("x", F32, 2, 6, 4, 5)
    net.op("LayerNormalization", x, net.uniform(0.7, 1.3, 4, 5), net.uniform(-0.2, 0.2, 4, 5),
           out=["normed", "mean", "inverse"], axis=2, epsilon=1e-4)
    exact, rough = net.op("Gelu", "normed"), net.op("Gelu", "normed", approximate="tanh")
    net.op("Sub", exact, rough, out="gap")
    net.op("Softmax", x, out="soft", axis=1)
    top = net.op("ReduceMax", x, [1])
    e = net.op("Exp", net.op("Sub", x, top))
    net.op("Div", e, net.op("ReduceSum", e, [1]), out="by_hand")
    net.op("LogSoftmax", x, out="logs", axis=2)
    for name in ("normed", "gap", "soft", "by_hand", "logs"):
        net.output(name, F32, 2, 6, 4, 5)
    net.output("mean", F32, 2, 6, 1, 1)
    net.output("inverse", F32, 2, 6, 1, 1)
    return [[net.uniform(-2, 2, 2, 6, 4, 5)]]


@model("Attention, RMSNormalization and RotaryEmbedding as operators of opset 23: grouped heads, causal, with a mask",
       opset=23)
def attention_operator(net):
    x, mask = net.input("x", F32, 2, 5, 16), net.input("mask", BOOL, 5, 5)
    h = net.op("RMSNormalization", x, net.uniform(0.7, 1.3, 16), axis=-1, epsilon=1e-5)
    q = net.op("MatMul", h, net.weight(16, 16, fan=16))
    k, v = (net.op("MatMul", h, net.weight(16, 8, fan=16)) for _ in range(2))
    angle = net.random.uniform(-3, 3, (5, 2))
    cos, sin = (net.init(np.round(f(angle), 4).astype(np.float32)) for f in (np.cos, np.sin))
    place = net.init(np.array([np.arange(5)] * 2, np.int64))
    q = net.op("RotaryEmbedding", q, cos, sin, place, num_heads=4)
    k = net.op("RotaryEmbedding", k, cos, sin, place, num_heads=2)
    net.op("Attention", q, k, v, mask, out="masked", q_num_heads=4, kv_num_heads=2)
    net.op("Attention", q, k, v, out="causal", q_num_heads=4, kv_num_heads=2, is_causal=1, softcap=5.0)
    net.output("masked", F32, 2, 5, 16)
    net.output("causal", F32, 2, 5, 16)
    keep = net.ints(0, 2, 5, 5).astype(bool) | np.eye(5, dtype=bool)
    return [[net.uniform(-1, 1, 2, 5, 16), keep]]


@model("Attention and a product of two inputs, larger than a block of rows and than a panel: what a block hands on in "
       "scratch, panels packed when the model runs")
def larger_than_blocks(net):
    q, k, v = net.input("q", F32, 1, 150, 8), net.input("k", F32, 1, 8, 150), net.input("v", F32, 1, 150, 8)
    a, b = net.input("a", F32, 20, 24), net.input("b", F32, 60, 24)
    net.op("MatMul", net.op("Softmax", net.op("MatMul", q, k), axis=-1), v, out="attended")
    net.op("MatMul", a, net.op("Transpose", b, perm=[1, 0]), out="product")
    net.output("attended", F32, 1, 150, 8)
    net.output("product", F32, 20, 60)
    return [[net.uniform(-1, 1, *s) for s in ((1, 150, 8), (1, 8, 150), (1, 150, 8), (20, 24), (60, 24))]]


def shares(net, q, k, v, mask, out, where=None):
    """Softmax of products with a mask added (or with -inf where a condition does not hold), times values."""
    scores = net.op("Mul", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1])), np.float32(0.4))
    scores = net.op("Where", where, scores, np.float32(-np.inf)) if where else net.op("Add", scores, mask)
    net.op("MatMul", net.op("Softmax", scores, axis=-1), v, out=out)


@model("masks that are tables over enough places to be skipped by tiles: a causal one of booleans, of 0 and the least "
       "float, a band of 0 and -inf, a padding; a causal one that leaves one row out entirely (uniform)", opset=18)
def masks_tables(net):
    t = 52
    q, k, v = (net.input(name, F32, 2, t, 4) for name in "qkv")
    i, j = np.arange(t)[:, None], np.arange(t)[None]
    table = lambda keep, low=-np.inf: np.where(keep, 0, low).astype(np.float32)
    shares(net, q, k, v, None, "bools", where=net.const(j <= i))
    shares(net, q, k, v, table(j <= i, np.finfo(np.float32).min), "least")
    shares(net, q, k, v, table((j <= i + 2) & (i - j < 9)), "band")
    shares(net, q, k, v, table(j < 21)[0][None], "padded")
    shares(net, q, k, v, table((j <= i) & (i != 33), np.finfo(np.float32).min), "uniform")
    for name in ("bools", "least", "band", "padded", "uniform"):
        net.output(name, F32, 2, t, 4)
    return [[net.uniform(-2, 2, 2, t, 4) for _ in "qkv"]]


@model("masks computed from places: causal by Range, LessOrEqual and Where, by Trilu of ConstantOfShape, by a product "
       "with -1e9, a window, as many places as an input says; products with triangles; symbolic length", opset=18)
def masks_places(net):
    q, k, v = (net.input(name, F32, 2, "T", 4) for name in "qkv")
    lengths = net.input("lengths", I64, 2)
    length = net.op("Gather", net.op("Shape", q), np.int64(1), axis=0)
    places = net.op("Range", np.int64(0), length, np.int64(1))
    across, down = net.op("Unsqueeze", places, [0]), net.op("Unsqueeze", places, [1])
    seen = net.op("LessOrEqual", across, down)
    shares(net, q, k, v, net.op("Where", seen, np.float32(0), np.float32(-np.inf)), "causal")
    square = net.op("Concat", net.op("Unsqueeze", length, [0]), net.op("Unsqueeze", length, [0]), axis=0)
    full = net.op("Expand", np.float32(-np.inf), square)
    shares(net, q, k, v, net.op("Trilu", full, np.int64(1), upper=1), "trilu")
    hidden = net.op("Sub", np.float32(1), net.op("Cast", seen, to=F32))
    shares(net, q, k, v, net.op("Mul", hidden, np.float32(-1e9)), "product")
    near = net.op("Less", net.op("Sub", down, across), np.int64(7))
    shares(net, q, k, v, None, "window", where=net.op("And", seen, near))
    kept = net.op("Unsqueeze", net.op("Less", across, net.op("Unsqueeze", lengths, [1])), [1])
    shares(net, q, k, v, None, "padded", where=kept)
    square = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1]))
    net.op("MatMul", net.op("Trilu", square, upper=0), v, out="lower")
    net.op("MatMul", net.op("Trilu", square, np.int64(-2), upper=1), v, out="upper")
    for name in ("causal", "trilu", "product", "window", "padded", "lower", "upper"):
        net.output(name, F32, 2, "T", 4)
    return [[*(net.uniform(-2, 2, 2, t, 4) for _ in "qkv"), np.array(n)] for t,
            n in ((70, (70, 9)), (33, (1, 17)), (3, (3, 2)))]
