"""Legal models whose shape or value is easily got wrong: broadcasts against at most one row, one number as a tensor of
one
element, a division by zero that nobody reads, halves that are compared, a clip in a recurrence."""
import numpy as np
from onnx import helper

from .contrib import byte, f, signed
from .kit import BOOL, F16, F32, I64, model

PEER = "com.microsoft"


@model("Expand, Add, Where and Concat against a slice of at most one row: sizes that are 0 or 1; an empty batch",
       opset=17)
def at_most_one(net):
    x, u = net.input("x", F32, "n", 4), net.input("u", F32, "m", 4)
    first = net.op("Slice", x, [0], [1], [0])
    net.op("Expand", u, net.op("Shape", first), out="expanded")
    net.op("Add", u, first, out="added")
    net.op("Where", net.op("Greater", first, f(0)), u, first, out="chosen")
    net.op("Concat", net.op("Mul", first, first), u, out="joined", axis=0)
    column = net.op("Slice", u, [0], [1], [1])
    net.op("Sub", net.op("Mul", column, first), u, out="rows")
    for name in ("expanded", "added", "chosen", "rows"):
        net.output(name, F32, name + "_rows", 4)
    net.output("joined", F32, "joined_rows", 4)
    return [[net.uniform(-1, 1, n, 4), net.uniform(-1, 1, m, 4)] for n, m in ((5, 3), (1, 1), (0, 1))]


@model("integer division and remainder by zero in constant lanes that a Where leaves out, in a shape and in values",
       opset=18)
def folded_zeros(net):
    x = net.input("x", I64, "n", 3)
    a, d, safe = np.array([7, 9, 8]), np.array([2, 0, 3]), net.op("Equal", np.array([2, 0, 3]), np.int64(0))
    q = net.op("Where", safe, np.int64(-1), net.op("Div", a, d))
    r = net.op("Where", safe, np.int64(5), net.op("Mod", a, d))
    net.op("Add", net.op("Add", q, r), x, out="y")
    lanes = net.op("Where", safe, np.int64(1), net.op("Div", np.array([4, 3, 6]), d))
    net.op("ConstantOfShape", lanes, out="shaped")
    net.output("y", I64, "n", 3)
    net.output("shaped", F32, 2, 1, 2)
    return [[net.ints(-5, 5, 2, 3)]]


@model("halves that are outputs and are compared, counted, made integers: all see the rounded values", opset=17)
def halves_compared(net):
    a, b = net.input("a", F16, 3, 1), net.input("b", F16, "n")
    d = net.op("Div", b, a, out="d")
    net.op("Equal", net.op("Mul", d, a), b, out="equal")
    net.op("Greater", b, d, out="greater")
    e = net.op("Expand", d, [1, 3, 1])
    net.op("Max", e, b, out="most")
    net.op("ArgMax", net.op("Mul", d, np.float16(0.01)), out="place", axis=1, keepdims=0)
    net.op("Cast", net.op("Mul", d, np.float16(3.3)), out="whole", to=I64)
    net.output("d", F16, 3, "n")
    net.output("equal", BOOL, 3, "n")
    net.output("greater", BOOL, 3, "n")
    net.output("most", F16, 1, 3, "n")
    net.output("place", I64, 3)
    net.output("whole", I64, 3, "n")
    half = np.float16
    return [[np.array([[3], [7], [0.3]], half), net.uniform(-40, 40, n, dtype=half)] for n in (57, 8)]


@model("scales and zero points of shape [1] in quantised operators: QLinearConv, QLinearMatMul, ConvInteger, "
       "MatMulInteger, QuantizeLinear; com.microsoft: QGemm, "
       "QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax, QLinearGlobalAveragePool")
def quantised_ones(net):
    net.domains[PEER] = 1
    x, m = net.input("x", F32, "n", 4, 6, 6), net.input("m", F32, 5, 8)
    s, z, t = np.array([0.05], np.float32), np.array([128], np.uint8), np.array([0.01], np.float32)
    none, out = np.array([0], np.int8), net.open_outputs
    q, w = net.op("QuantizeLinear", x, s, z), signed(net, 3, 4, 3, 3)
    out.append(net.op("QLinearConv", q, s, z, w, t, none, s, z))
    out.append(net.op("ConvInteger", q, w, z, none))
    r = net.op("QuantizeLinear", m, s, z)
    out.append(net.op("QLinearMatMul", r, s, z, byte(net, 8, 3), t, z, s, z))
    out.append(net.op("MatMulInteger", r, byte(net, 8, 3), z, z))
    out.append(net.op("QGemm", r, s, z, byte(net, 8, 3), t, z, net.ints(-99, 99, 3, dtype=np.int32), s, z, domain=PEER))
    out.append(net.op("QLinearSigmoid", q, s, z, t, z, domain=PEER))
    out.append(net.op("QLinearLeakyRelu", q, s, z, t, z, alpha=0.2, domain=PEER))
    out.append(net.op("QLinearSoftmax", r, s, z, t, z, axis=1, opset=13, domain=PEER))
    out.append(net.op("QLinearGlobalAveragePool", q, s, z, t, z, channels_last=0, domain=PEER))
    return [[net.uniform(-3, 3, n, 4, 6, 6), net.uniform(-3, 3, 5, 8)] for n in (2, 1)]


@model("clip of LSTM (peepholes, input_forget), GRU and RNN: it bounds what the gates get, not the cell before its "
       "last activation", opset=14)
def recurrent_clip(net):
    x = net.input("x", F32, "t", 2, 4)
    state = net.uniform(-1, 1, 1, 2, 3)
    for kind, gates in (("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        parts = [net.uniform(-1, 1, 1, gates * 3, 4), net.uniform(-1, 1, 1, gates * 3, 3),
                 net.uniform(-1, 1, 1, gates * 6), "", state]
        lstm = kind == "LSTM"
        made = net.op(kind, x, *parts, *([3 * state, net.uniform(-1, 1, 1, 9)] if lstm else []), n=3 if lstm else 2,
                      hidden_size=3, clip=0.5,
                      input_forget=net.counts.get("LSTM", 0) % 2 if lstm else None)
        net.open_outputs += list(made)
    return [[net.uniform(-2, 2, t, 2, 4)] for t in (5, 1)]


@model("BatchNormalization of opset 7 with spatial = 0 and one number for each channel, as MXNet wrote it", opset=7)
def batchnorm_spatial(net):
    x = net.input("x", F32, "n", 3, 2, 2)
    y = net.batch_norm(x, 3)
    net.nodes[-1].attribute.append(helper.make_attribute("spatial", 0))
    net.op("Relu", y, out="y")
    net.output("y", F32, "n", 3, 2, 2)
    return [[net.uniform(-1, 1, 2, 3, 2, 2)]]


@model("a wide convolution whose batch and length are open, for --dim on one of the two", opset=13)
def two_open_sizes(net):
    x = net.input("x", F32, "batch", 48, "length")
    net.op("Relu", net.conv(x, 48, 48, [3], pads=[1, 1]), out="y")
    net.output("y", F32, "batch", 48, "length")
    return [[net.uniform(-1, 1, n, 48, l)] for n, l in ((2, 9), (3, 9))]


@model("BatchNormalization of opset 8 with spatial = 0 and statistics for every position, of rows and of images",
       opset=8)
def batchnorm_positions(net):
    for name, dims in (("rows", [6]), ("images", [3, 2, 4])):
        x = net.input(name, F32, "n", *dims)
        low = {"scale": 0.6, "bias": -0.3, "mean": -0.3, "var": 0.5}
        y = net.op("BatchNormalization", x, *(net.uniform(l, l + 1, *dims) for l in low.values()), epsilon=1e-3,
                   spatial=0)
        net.op("Relu", y, out=f"{name}_out")
        net.output(f"{name}_out", F32, "n", *dims)
    return [[net.uniform(-1, 1, n, 6), net.uniform(-1, 1, n, 3, 2, 4)] for n in (2, 1)]


@model("BatchNormalization of opset 6 (is_test), behind a Conv and of rows", opset=6)
def batchnorm_is_test(net):
    x, rows = net.input("x", F32, 2, 3, 5, 5), net.input("rows", F32, 4, 6)
    net.op("Relu", net.batch_norm(net.same(x, 3, 4), 4), out="y")
    net.nodes[-2].attribute.append(helper.make_attribute("is_test", 1))
    net.op("Tanh", net.batch_norm(rows, 6), out="z")
    net.nodes[-2].attribute.append(helper.make_attribute("is_test", 1))
    net.output("y", F32, 2, 4, 5, 5)
    net.output("z", F32, 4, 6)
    return [[net.uniform(-1, 1, 2, 3, 5, 5), net.uniform(-1, 1, 4, 6)]]


@model("BatchNormalization with training_mode (statistics of the batch, running ones as outputs), of rows, sequences "
       "and volumes; f16 with statistics of f32", opset=15)
def batchnorm_training(net):
    def stats(c):
        return [net.uniform(0.5, 1.5, c), net.uniform(-1, 1, c), net.uniform(-1, 1, c), net.uniform(0.5, 1.5, c)]

    inputs = []
    for name, dims in (("rows", [6]), ("lines", [3, 7]), ("volumes", [2, 2, 3, 2])):
        x = net.input(name, F32, "n", *dims)
        outs = [f"{name}_out", f"{name}_mean", f"{name}_var"]
        net.op("BatchNormalization", x, *stats(dims[0]), out=outs, training_mode=1, momentum=0.7)
        net.output(outs[0], F32, "n", *dims)
        net.output(outs[1], F32, dims[0])
        net.output(outs[2], F32, dims[0])
        inputs.append(dims)
    half = net.input("half", F16, "n", 3, 4)
    net.op("BatchNormalization", half, *stats(3), out="half_out", epsilon=1e-2)
    net.output("half_out", F16, "n", 3, 4)
    return [[*(net.uniform(-2, 2, n, *d) for d in inputs), net.uniform(-2, 2, n, 3, 4, dtype=np.float16)]
            for n in (4, 2)]


@model("Squeeze without axes of open sizes: what the declared output and the operator behind say about its rank, one "
       "of each row, and one in which every size is known", opset=13)
def squeeze_open(net):
    one, kept, row = net.input("one", F32, "a", 3, "b"), net.input("kept", F32, "c", 1, "d"), net.input(
        "row", F32, "e", "f")
    net.op("Squeeze", one, out="one_out")
    net.output("one_out", F32, 3)
    net.op("Relu", net.op("Squeeze", kept), out="kept_out")
    net.output("kept_out", F32, "c", "d")
    net.op("Neg", net.op("Squeeze", row), out="row_out")
    net.output("row_out", F32, "f")
    known = net.input("known", F32, 1, 2, 1, 3)
    net.op("Squeeze", known, out="known_out")
    net.output("known_out", F32, 2, 3)
    return [[net.uniform(-1, 1, 1, 3, 1), net.uniform(-1, 1, c, 1, d), net.uniform(-1, 1, 1, f),
             net.uniform(-1, 1, 1, 2, 1, 3)] for c, d, f in ((4, 2, 5), (2, 3, 2))]
