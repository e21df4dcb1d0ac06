"""Models that sort, select and accumulate over enough places that comparing all pairs of them is not the way; and
Fourier transforms."""
import numpy as np

from .kit import F32, F64, I32, I64, U8, model


def steps(net, low, high, *shape, dtype=np.float32):
    """Few different values, so that there are ties."""
    return (np.floor(net.uniform(low, high, *shape) * 8) / 8).astype(dtype)


@model("TopK: many places with ties; along both axes, smallest, all of them (a sort); signed and unsigned integers, "
       "float64; symbolic length")
def sort_places(net):
    x, i, u, d = net.input("x", F32, 3, "N"), net.input("i", I64, "N"), net.input("u", U8, "N", 2), net.input("d", F64,
            "N")
    k = net.op("Shape", i)
    net.op("TopK", x, [7], out=["best", "best_at"], axis=1)
    net.op("TopK", x, [2], out=["rows", "rows_at"], axis=0, largest=0)
    net.op("TopK", x, k, out=["falling", "falling_at"], axis=-1)
    net.op("TopK", i, k, out=["rising", "rising_at"], axis=0, largest=0)
    net.op("TopK", u, [60], out=["bytes", "bytes_at"], axis=0)
    net.op("TopK", d, [9], out=["wide", "wide_at"], axis=0, largest=0)
    net.op("TopK", net.op("Cast", i, to=I32), [50], out=["narrow", "narrow_at"], axis=0)
    for name, dtype, shape in (("best", F32, (3, 7)), ("rows", F32, (2, "N")), ("falling", F32, (3, "N")),
                               ("rising", I64, ("N",)), ("bytes", U8, (60, 2)), ("wide", F64, (9,)),
                               ("narrow", I32, (50,))):
        net.output(name, dtype, *shape)
        net.output(name + "_at", I64, *shape)
    runs = []
    for n in (200, 61):
        f = steps(net, -2, 2, 3, n)
        f[0, 5], f[1, 7], f[2, 3] = 3e38, -3e38, -0.0
        runs.append([f, net.ints(-300, 300, n), net.ints(0, 256, n, 2, dtype=np.uint8),
                     steps(net, -90, 90, n, dtype=np.float64)])
    return runs


@model("sums over all places before: CumSum forward, exclusive, reverse, along either axis; NonZero, Compress and "
       "boolean masks over many places")
def running_sums(net):
    x, keep, i = net.input("x", F32, "N", 40), net.input("keep", 9, "N"), net.input("i", I64, "N")
    net.op("CumSum", x, np.int64(0), out="down")
    net.op("CumSum", x, np.int64(1), out="across", reverse=1)
    net.op("CumSum", x, np.int64(1), out="before", exclusive=1)
    net.op("CumSum", i, np.int64(0), out="after", exclusive=1, reverse=1)
    net.op("NonZero", net.op("Greater", x, np.float32(0.5)), out="places")
    net.op("Compress", x, keep, out="kept", axis=0)
    for name in ("down", "across", "before"):
        net.output(name, F32, "N", 40)
    net.output("after", I64, "N")
    net.output("places", I64, 2, "places_n")
    net.output("kept", F32, "kept_n", 40)
    return [[net.uniform(-1, 1, n, 40), net.uniform(0, 1, n) < 0.4, net.ints(-9, 9, n)] for n in (50, 3)]


@model("Unique: sorted and by first occurrence, floats and integers, of many places; rows")
def unique_values(net):
    x, i, r = net.input("x", F32, "N", 4), net.input("i", I64, "N"), net.input("r", I32, "N", 3)
    net.op("Unique", x, out=["xs", "xs_first", "xs_which", "xs_count"], sorted=1)
    net.op("Unique", i, out=["is", "is_first", "is_which", "is_count"], sorted=0)
    net.op("Unique", r, out=["rs", "rs_first", "rs_which", "rs_count"], axis=0)
    for name, dtype, rest in (("xs", F32, ()), ("is", I64, ()), ("rs", I32, (3,))):
        net.output(name, dtype, name + "_n", *rest)
        net.output(name + "_first", I64, name + "_n")
        net.output(name + "_which", I64, name + "_all")
        net.output(name + "_count", I64, name + "_n")
    return [[steps(net, -3, 3, n, 4), net.ints(-20, 20, n), net.ints(0, 2, n, 3, dtype=np.int32)] for n in (70, 9)]


@model("NonMaxSuppression among many boxes: two images, three classes, few allowed and all allowed")
def many_boxes(net):
    corner, size, scores = net.input("corner", F32, 2, "N", 2), net.input("size", F32, 2, "N", 2), net.input("scores",
            F32, 2, 3, "N")
    boxes = net.op("Concat", corner, net.op("Add", corner, size), axis=2)
    net.op("NonMaxSuppression", boxes, scores, [6], np.array([0.4], np.float32), np.array([0.2], np.float32), out="few")
    net.op("NonMaxSuppression", boxes, scores, [100000], np.array([0.6], np.float32), np.array([0.5], np.float32),
           out="all")
    net.output("few", I64, "few_n", 3)
    net.output("all", I64, "all_n", 3)
    return [[net.uniform(0, 1, 2, n, 2), net.uniform(0.05, 0.3, 2, n, 2), net.uniform(0, 1, 2, 3, n)]
            for n in (120, 10)]


@model("Fourier transforms: a size with divisors, a prime one, complex and inverse, half spectra, along another axis; "
       "frames of sound", opset=20)
def fourier(net):
    x, z, y = net.input("x", F32, 2, 600, 1), net.input("z", F32, 520, 2, 2), net.input("y", F32, 1, 601, 1)
    net.op("DFT", x, "", np.int64(1), out="spectrum")
    net.op("DFT", x, "", np.int64(1), out="half", onesided=1)
    net.op("DFT", z, "", np.int64(0), out="back", inverse=1)
    net.op("DFT", y, "", np.int64(1), out="prime")
    net.op("DFT", y, np.int64(528), np.int64(1), out="cut", onesided=1)
    net.op("STFT", x, np.int64(50), np.hanning(128).astype(np.float32), out="frames", onesided=1)
    net.output("spectrum", F32, 2, 600, 2)
    net.output("half", F32, 2, 301, 2)
    net.output("back", F32, 520, 2, 2)
    net.output("prime", F32, 1, 601, 2)
    net.output("cut", F32, 1, 265, 2)
    net.output("frames", F32, 2, 10, 65, 2)
    return [[net.uniform(-1, 1, 2, 600, 1), net.uniform(-1, 1, 520, 2, 2), net.uniform(-1, 1, 1, 601, 1)]]


@model("ArgMax, ArgMin, Hardmax along rows with ties, first and last; TopK of few in rows that rise, fall and stay; "
       "ScatterND of whole rows (replace, add, max); Trilu of long rows; symbolic length")
def rows_in_lanes(net):
    x, i, u, at = net.input("x", F32, 3, "N"), net.input("i", I64, 2, "N"), net.input("u", F32, 4, 37), net.input("at",
            I64, 4, 1)
    outs = [net.op("ArgMax", x, axis=1), net.op("ArgMax", x, axis=1, select_last_index=1),
            net.op("ArgMin", x, axis=-1, keepdims=0), net.op("ArgMin", i, axis=1, select_last_index=1),
            net.op("ArgMax", i, axis=1)]
    for name, shape in zip(outs, ((3, 1), (3, 1), (3,), (2, 1), (2, 1))):
        net.output(name, I64, *shape)
    net.output(net.op("Hardmax", x, axis=1), F32, 3, "N")
    ramp = net.op("CumSum", net.op("Sub", x, x), np.int64(1))
    rows = net.op("Add", net.op("Mul", net.op("CumSum", net.op("Add", ramp, np.float32(1)), np.int64(1)),
                                np.array([[1], [-1], [0]], np.float32)), np.float32(0.5))
    for name, largest in (("best", 1), ("worst", 0)):
        net.op("TopK", rows, [5], out=[name, name + "_at"], axis=1, largest=largest)
        net.output(name, F32, 3, 5)
        net.output(name + "_at", I64, 3, 5)
    base = net.uniform(-1, 1, 6, 37)
    for reduction in (None, "add", "max"):
        net.output(net.op("ScatterND", base, at, u, reduction=reduction), F32, 6, 37)
    net.output(net.op("Trilu", net.op("Concat", u, base, axis=0), np.int64(3), upper=1), F32, 10, 37)
    runs = []
    for n in (150, 67):
        f = steps(net, -2, 2, 3, n)
        f[2] = -3e38
        runs.append([f, net.ints(-9, 9, 2, n), net.uniform(-1, 1, 4, 37), np.array([[1], [3], [-1], [3]], np.int64)])
    return runs


@model("mixture of experts: a matrix for each token, gathered from weights and from an input, times a vector and "
       "times some rows; rows of an embedding before products with few and many columns; symbolic number of tokens")
def experts(net):
    e, x = net.input("e", I64, "N"), net.input("x", F32, "N", 24)
    given, ids = net.input("given", F32, 4, 24, 18), net.input("ids", I64, "N")
    net.op("MatMul", net.op("Gather", net.weight(3, 40, 24), e, axis=0), net.op("Unsqueeze", x, [2]), out="vectors")
    net.op("MatMul", net.op("Unsqueeze", x, [1]), net.op("Gather", given, e, axis=0), out="turned")
    rows = net.op("Reshape", net.op("Concat", x, net.op("Neg", x), x, axis=1), [0, 3, 24])
    net.op("MatMul", rows, net.op("Gather", net.weight(3, 24, 17), e, axis=0), out="rows")
    words = net.op("Gather", net.weight(11, 32), ids, axis=0)
    net.op("MatMul", words, net.weight(32, 16), out="few")
    net.op("MatMul", net.op("Gather", net.weight(11, 32), ids, axis=0), net.weight(32, 72), out="many")
    for name, shape in (("vectors", (40, 1)), ("turned", (1, 18)), ("rows", (3, 17)), ("few", (16,)), ("many", (72,))):
        net.output(name, F32, "N", *shape)
    return [[net.ints(-3, 3, n), net.uniform(-1, 1, n, 24), net.uniform(-1, 1, 4, 24, 18), net.ints(-11, 11, n)]
            for n in (9, 1)]
