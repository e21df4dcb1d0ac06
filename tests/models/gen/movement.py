"""Models of places: gathers, scatters, shapes, joins, selections."""
import numpy as np

from .kit import BOOL, F32, I32, I64, model


@model("Gather (negative indices, rank 0 and 2, axis 1 and -1) on embeddings, GatherElements, GatherND with batch_dims")
def embedding_gather(net):
    ids = net.input("ids", I64, 2, 3)
    table = net.weight(9, 6, fan=3, name="table")
    net.op("Gather", table, ids, out="rows", axis=0)
    net.op("Gather", "rows", np.int32(-1), out="last", axis=1)
    net.op("Gather", "rows", np.array([[0, -2], [5, -6]], np.int32), out="columns", axis=-1)
    net.op("GatherElements", "rows", np.array([[[1, -1, 0, 2, -3, 1]], [[0, 0, -2, 1, 1, 2]]]), out="elements", axis=1)
    net.op("GatherND", "rows", np.array([[0, -1], [2, 3], [-2, 0]]).reshape(3, 2)[:2].reshape(2, 1, 2), out="batched",
           batch_dims=1)
    net.op("GatherND", "rows", [[1], [-2]], out="slices")
    for name, shape in (("rows", (2, 3, 6)), ("last", (2, 6)), ("columns", (2, 3, 2, 2)), ("elements", (2, 1, 6)),
                        ("batched", (2, 1)), ("slices", (2, 3, 6))):
        net.output(name, F32, *shape)
    return [[np.array(v, np.int64)] for v in ([[0, 8, -1], [-9, 3, 3]], [[-2, -3, 4], [1, 7, -5]])]


@model("ScatterND (replace, add, max) and ScatterElements (replace, add, mul) with negative and repeated indices",
       opset=18)
def scatter(net):
    x, places = net.input("x", F32, 5, 4), net.input("places", I64, 3, 1)
    rows = net.input("rows", F32, 3, 4)
    net.op("ScatterND", x, np.array([[4, -1], [0, 2]]), [9.0, -9.0], out="points")
    net.op("ScatterND", x, places, rows, out="added", reduction="add")
    net.op("ScatterND", x, places, rows, out="highest", reduction="max")
    at = np.array([[0, -1, 2, 0], [3, 1, -3, 4]])
    net.op("ScatterElements", x, at, net.uniform(-1, 1, 2, 4), out="elements", axis=0)
    net.op("ScatterElements", x, np.array([[1, 1], [0, -1], [2, 2], [3, 0], [1, -3]]), net.uniform(-1, 1, 5, 2),
           out="summed", axis=1, reduction="add")
    net.op("ScatterElements", x, at, net.uniform(-2, 2, 2, 4), out="product", axis=0, reduction="mul")
    for name in ("points", "added", "highest", "elements", "summed", "product"):
        net.output(name, F32, 5, 4)
    return [[net.uniform(-1, 1, 5, 4), np.array(p, np.int64).reshape(3, 1), net.uniform(-1, 1, 3, 4)]
            for p in ([0, -1, 2], [3, 3, -2])]


@model("TopK largest and smallest along two axes, k as an input with a symbolic result, ArgMax and ArgMin (both ends), "
       "GatherElements by the found places")
def topk(net):
    x, k = net.input("x", F32, 4, 9), net.input("k", I64, 1)
    y = net.op("Tanh", x)
    net.op("TopK", y, k, out=["high", "high_at"], axis=-1)
    net.op("TopK", y, [2], out=["low", "low_at"], axis=0, largest=0)
    net.op("GatherElements", x, "high_at", out="picked", axis=1)
    net.op("ArgMax", y, out="arg_max", axis=1, keepdims=0)
    net.op("ArgMin", net.op("Round", x), out="arg_min", axis=0, select_last_index=1)
    net.output("high", F32, 4, "k")
    net.output("high_at", I64, 4, "k")
    net.output("low", F32, 2, 9)
    net.output("low_at", I64, 2, 9)
    net.output("picked", F32, 4, "k")
    net.output("arg_max", I64, 4)
    net.output("arg_min", I64, 1, 9)
    return [[net.uniform(-2, 2, 4, 9), np.array([k], np.int64)] for k in (3, 1, 9)]


@model("comparisons, And, Or, Xor, Not, Where with three-way broadcasting, masks as inputs and outputs")
def where_masks(net):
    x, y = net.input("x", F32, 4, 1, 5), net.input("y", F32, 3, 1)
    mask = net.input("mask", BOOL, 5)
    above, same = net.op("Greater", x, y), net.op("GreaterOrEqual", x, np.float32(0))
    below = net.op("LessOrEqual", x, net.op("Neg", y))
    both = net.op("And", above, mask)
    either = net.op("Or", both, net.op("Xor", below, same), out="either")
    net.op("Where", either, x, y, out="chosen")
    net.op("Where", net.op("Not", mask), np.float32(-1), "chosen", out="filled")
    net.op("ReduceSum", net.op("Cast", either, to=I32), [0, 2], out="counts", keepdims=0)
    net.output("either", BOOL, 4, 3, 5)
    net.output("chosen", F32, 4, 3, 5)
    net.output("filled", F32, 4, 3, 5)
    net.output("counts", I32, 3)
    return [[net.uniform(-1, 1, 4, 1, 5), net.uniform(-1, 1, 3, 1), np.array([1, 0, 1, 1, 0], bool)]]


@model("int64 shape arithmetic: Shape, Gather, Mul, Add, Div, Sub, Concat, Reshape, ConstantOfShape, Range, Expand, "
       "Tile, Slice at computed ends; symbolic N and T")
def shape_arithmetic(net):
    x = net.input("x", F32, "N", "T", 6)
    shape = net.op("Shape", x)
    n, t, c = (net.op("Gather", shape, np.int64(i), axis=0) for i in range(3))

    def row(*parts):
        return net.op("Concat", *[p if p.startswith("const") else net.op("Unsqueeze", p, [0]) for p in parts], axis=0)

    half = net.op("Div", c, np.int64(2))
    net.op("Reshape", x, row(net.op("Mul", n, t), half, net.init([-1])), out="folded")
    ramp = net.op("Cast", net.op("Range", np.int64(0), t, np.int64(1)), to=F32)
    ramp = net.op("Unsqueeze", ramp, [0, 2])
    net.op("Add", x, net.op("Expand", ramp, row(n, t, c)), out="ramped")
    middle = net.op("Div", net.op("Add", t, np.int64(1)), np.int64(2))
    net.op("Slice", x, net.init([0]), net.op("Unsqueeze", middle, [0]), [1], out="front")
    fill = net.op("ConstantOfShape", row(n, net.op("Sub", t, middle), c))
    net.op("Concat", "front", fill, out="padded", axis=1)
    net.op("Tile", net.op("ReduceMean", x, axes=[1]), row(net.init([1]), middle, net.init([1])), out="tiled")
    net.op("Size", x, out="size")
    net.output("folded", F32, "NT", 3, 2)
    net.output("ramped", F32, "N", "T", 6)
    net.output("front", F32, "N", "M", 6)
    net.output("padded", F32, "N", "T", 6)
    net.output("tiled", F32, "N", "M", 6)
    net.output("size", I64)
    return [[net.uniform(-1, 1, n, t, 6)] for n, t in ((2, 5), (1, 8), (3, 1))]


@model("zero-size tensors: an input with no rows, Concat with nothing, sums and products over nothing, MatMul with an "
       "inner size of 0")
def zero_size(net):
    x, y = net.input("x", F32, "N", 4), net.input("y", F32, 3, 4)
    net.op("Concat", x, y, out="joined", axis=0)
    net.op("ReduceSum", x, [0], out="sums", keepdims=0)
    net.op("ReduceProd", x, out="products", axes=[0], keepdims=0)
    net.op("MatMul", net.op("Transpose", x, perm=[1, 0]), x, out="gram")
    net.op("Relu", net.linear(x, 4, 3), out="mapped")
    net.op("Slice", y, [2], [1], [0], out="none")
    net.op("Shape", "none", out="shape")
    net.output("joined", F32, "M", 4)
    net.output("sums", F32, 4)
    net.output("products", F32, 4)
    net.output("gram", F32, 4, 4)
    net.output("mapped", F32, "N", 3)
    net.output("none", F32, 0, 4)
    net.output("shape", I64, 2)
    return [[net.uniform(-1, 1, n, 4), net.uniform(-1, 1, 3, 4)] for n in (0, 2)]


@model("borders around an input that has no columns: every element comes from outside", opset=18)
def borders_of_nothing(net):
    x = net.input("x", F32, 2, "H", "W")
    net.op("Pad", x, [0, 1, 1, 0, 1, 2], np.float32(2), out="constant")
    net.op("Neg", net.op("CenterCropPad", x, [2, 5], axes=[1, 2]), out="cropped")
    net.output("constant", F32, 2, "H2", "W3")
    net.output("cropped", F32, 2, 2, 5)
    return [[net.uniform(-1, 1, 2, h, w)] for h, w in ((3, 0), (0, 0), (3, 4))]


@model("Reshape of a tensor without elements to sizes that only a run knows, and Tile of it")
def nothing_reshaped(net):
    x, s = net.input("x", F32, 2, 0, "B"), net.input("s", I64, 3)
    y = net.op("Reshape", x, s, allowzero=1)
    net.op("Tile", y, [2, 1, 3], out="tiled")
    net.op("Softmax", y, out="shares")
    net.output("tiled", F32, "T0", "T1", "T2")
    net.output("shares", F32, "S0", "S1", "S2")
    return [[net.uniform(-1, 1, 2, 0, b), np.array(z, np.int64)] for b, z in ((3, (0, 4, 5)), (1, (3, 0, 2)))]


@model("inputs of rank 0 (float, int64, bool), scalar arithmetic, broadcast into a vector, Range with scalar ends")
def scalar_inputs(net):
    a, n, flag = net.input("a", F32), net.input("n", I64), net.input("flag", BOOL)
    x = net.input("x", F32, 5)
    square = net.op("Mul", a, a, out="square")
    net.op("Add", net.op("Mul", x, a), square, out="line")
    net.op("Range", np.int64(0), n, np.int64(2), out="steps")
    net.op("Where", flag, net.op("Neg", a), a, out="signed")
    net.op("ReduceMax", x, out="peak", keepdims=0)
    net.output("square", F32)
    net.output("line", F32, 5)
    net.output("steps", I64, "S")
    net.output("signed", F32)
    net.output("peak", F32)
    return [[np.array(a, np.float32), np.array(n, np.int64), np.array(f), net.uniform(-1, 1, 5)]
            for a, n, f in ((1.5, 7, True), (-0.25, 2, False))]


@model("CumSum: forward, exclusive, reverse, both; axis negative and as an input; int64; after a mask")
def cumsum(net):
    x, axis = net.input("x", F32, 3, 6), net.input("axis", I32)
    net.op("CumSum", x, np.int32(1), out="plain")
    net.op("CumSum", x, np.int64(0), out="exclusive", exclusive=1)
    net.op("CumSum", x, np.int32(-1), out="reverse", reverse=1)
    net.op("CumSum", x, axis, out="both", exclusive=1, reverse=1)
    positive = net.op("Cast", net.op("Greater", x, np.float32(0)), to=I64)
    net.op("Mul", net.op("CumSum", positive, np.int32(1)), positive, out="positions")
    for name in ("plain", "exclusive", "reverse", "both"):
        net.output(name, F32, 3, 6)
    net.output("positions", I64, 3, 6)
    return [[net.uniform(-1, 1, 3, 6), np.array(a, np.int32)] for a in (0, 1)]


@model("Slice with negative and huge bounds and negative steps, Transpose, Flatten, Tile, Expand, Reshape with 0 and "
       "-1, ReverseSequence, Unsqueeze and Squeeze at negative axes")
def views(net):
    x = net.input("x", F32, 4, 3, 6)
    net.op("Slice", x, [-1, 5], [-(2**63), 0], [0, 2], [-1, -2], out="backwards")
    net.op("Slice", x, [1], [2**62], [-1], [2], out="strided")
    net.op("Slice", x, [-100], [-2], [0], out="clamped")
    net.op("Flatten", net.op("Transpose", x, perm=[2, 0, 1]), out="flat", axis=-1)
    net.op("Tile", net.op("Unsqueeze", "clamped", [-2]), [1, 1, 2, 1], out="tiled")
    net.op("Expand", net.op("Slice", x, [0], [1], [1]), [1, 3, 1], out="expanded")
    net.op("Reshape", x, [0, -1, 2], out="folded")
    net.op("ReverseSequence", x, [2, 3, 1], out="reversed", batch_axis=1, time_axis=0)
    net.op("Squeeze", net.op("Unsqueeze", x, [0, -1]), [-1], out="boxed")
    for name, shape in (("backwards", (4, 3, 3)), ("strided", (4, 3, 3)), ("clamped", (2, 3, 6)), ("flat", (24, 3)),
                        ("tiled", (2, 3, 2, 6)), ("expanded", (4, 3, 6)), ("folded", (4, 9, 2)),
                        ("reversed", (4, 3, 6)), ("boxed", (1, 4, 3, 6))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, 4, 3, 6)]]


@model("Pad: constant, reflect, edge, wrap; chosen axes; negative amounts that cut; value from an input", opset=19)
def pad_modes(net):
    x, value = net.input("x", F32, 2, 4, 5), net.input("value", F32)
    net.op("Pad", x, [0, 1, 2, 1, 0, 3], value, out="constant")
    net.op("Pad", x, [2, 3, 1, 4], "", [-2, -1], out="reflect", mode="reflect")
    net.op("Pad", x, [1, 0, 3, 0, 2, 2], out="edge", mode="edge")
    net.op("Pad", x, [3, 2], "", [2], out="wrap", mode="wrap")
    net.op("Pad", x, [0, -1, 1, 0, 2, -3], out="cut")
    for name, shape in (("constant", (3, 5, 10)), ("reflect", (2, 7, 12)), ("edge", (3, 6, 10)), ("wrap", (2, 4, 10)),
                        ("cut", (2, 5, 3))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, 2, 4, 5), np.array(0.5, np.float32)]]


@model("OneHot, EyeLike, Trilu, Range, NonZero (data-dependent size), Compress, Unique")
def index_makers(net):
    x, ids = net.input("x", F32, 4, 5), net.input("ids", I64, 6)
    net.op("OneHot", ids, np.int64(5), [-1.0, 2.0], out="hot", axis=0)
    net.op("Add", x, net.op("EyeLike", x, k=1), out="eye")
    net.op("Trilu", x, np.int64(-1), out="lower", upper=0)
    net.op("NonZero", net.op("Relu", x), out="found")
    net.op("Compress", x, np.array([True, False, True, True]), out="kept", axis=0)
    net.op("Unique", ids, out=["values", "first", "inverse", "counts"], sorted=1)
    net.output("hot", F32, 5, 6)
    net.output("eye", F32, 4, 5)
    net.output("lower", F32, 4, 5)
    net.output("found", I64, 2, "Z")
    net.output("kept", F32, 3, 5)
    for name, shape in (("values", ("U",)), ("first", ("U",)), ("inverse", (6,)), ("counts", ("U",))):
        net.output(name, I64, *shape)
    return [[net.uniform(-1, 1, 4, 5), np.array(i, np.int64)] for i in ([0, 4, -1, 2, 2, 0], [3, 3, 3, 1, -5, 3])]


@model("Einsum: product, batch product with implied order, diagonal, trace, outer, ellipsis, sum, three operands")
def einsum(net):
    a, b, c = net.input("a", F32, 2, 3, 4), net.input("b", F32, 2, 4, 5), net.input("c", F32, 4, 4)
    net.op("Einsum", a, b, out="batch", equation="bij,bjk->bik")
    net.op("Einsum", a, c, out="ellipsis", equation="...ij,jk->...ik")
    net.op("Einsum", c, out="diagonal", equation="ii->i")
    net.op("Einsum", a, out="summed", equation="bij->jb")
    net.op("Einsum", "summed", "diagonal", out="outer", equation="jb,k->bkj")
    net.op("Einsum", a, c, b, out="chain", equation="bij,jm,bmk->ik")
    net.op("Einsum", a, a, out="dot", equation="bij,bij->b")
    net.op("Einsum", c, c, out="implied", equation="ij,jk")
    for name, shape in (("batch", (2, 3, 5)), ("ellipsis", (2, 3, 4)), ("diagonal", (4,)), ("summed", (4, 2)),
                        ("outer", (2, 4, 4)), ("chain", (3, 5)), ("dot", (2,)), ("implied", (4, 4))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, *s) for s in ((2, 3, 4), (2, 4, 5), (4, 4))]]


@model("MatMul of ranks 1x1, 1x2, 2x1, 1x3, 3x1, 4x2, broadcast batches both ways; Gemm with alpha, beta, both "
       "transposes and each shape of C")
def matmul_ranks(net):
    v, m = net.input("v", F32, 4), net.input("m", F32, 4, 3)
    t, b = net.input("t", F32, 2, 1, 5, 4), net.input("b", F32, 3, 4, 6)
    net.op("MatMul", v, v, out="dot")
    net.op("MatMul", v, m, out="row")
    net.op("MatMul", net.op("Transpose", m, perm=[1, 0]), v, out="column")
    net.op("MatMul", v, b, out="rows")
    net.op("MatMul", net.op("Transpose", b, perm=[0, 2, 1]), v, out="columns")
    net.op("MatMul", t, m, out="shared")
    net.op("MatMul", t, b, out="broadcast")
    flipped = net.op("Transpose", m, perm=[1, 0])
    net.op("Gemm", m, flipped, net.uniform(-1, 1, 4, 1), out="gemm_column", alpha=0.5, beta=2.0)
    net.op("Gemm", m, m, np.float32(3), out="gemm_scalar", transA=1)
    net.op("Gemm", flipped, flipped, out="gemm_plain", transB=1)
    net.op("Gemm", m, net.weight(5, 4, fan=4), net.uniform(-1, 1, 5), out="gemm_both", transA=1, transB=1, beta=0.25)
    for name, shape in (("dot", ()), ("row", (3,)), ("column", (3,)), ("rows", (3, 6)), ("columns", (3, 6)),
                        ("shared", (2, 1, 5, 3)), ("broadcast", (2, 3, 5, 6)), ("gemm_column", (4, 4)),
                        ("gemm_scalar", (3, 3)), ("gemm_plain", (3, 3)), ("gemm_both", (3, 5))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, *s) for s in ((4,), (4, 3), (2, 1, 5, 4), (3, 4, 6))]]


@model("RoiAlign, avg and max, as many samples as a region needs: loops whose length comes from data, reads at places "
       "from data")
def roi_align(net):
    x, rois = net.input("x", F32, 2, 3, 9, 8), net.input("rois", F32, 3, 4)
    which = net.init(np.array([1, 0, 1], np.int64))
    for mode in ("avg", "max"):
        net.op("RoiAlign", x, rois, which, out=mode, mode=mode, output_height=2, output_width=3, spatial_scale=0.5,
               coordinate_transformation_mode="half_pixel")
        net.output(mode, F32, 3, 3, 2, 3)
    return [[net.uniform(-1, 1, 2, 3, 9, 8), np.array([[0, 0, 15, 17], [3, 2, 9, 6], [1, 8, 14, 16]], np.float32)]]
