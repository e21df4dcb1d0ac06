"""The same network in many opsets: what is an attribute in one and an input in another gives the same answer.

One stream of weights for all; `cnn` and `mlp` are written once and ask for the opset where the forms part.
"""
import numpy as np

from .kit import BOOL, F32, I64, model


def clip(net, x, low, high):
    if net.opset < 11:
        return net.op("Clip", x, min=float(low), max=float(high))
    return net.op("Clip", x, np.float32(low), np.float32(high))


def pad(net, x, amounts, value):
    if net.opset < 11:
        return net.op("Pad", x, pads=amounts, value=float(value))
    return net.op("Pad", x, np.array(amounts), np.float32(value))


def cut(net, x, starts, ends, axes):
    if net.opset < 10:
        return net.op("Slice", x, starts=starts, ends=ends, axes=axes)
    return net.op("Slice", x, np.array(starts), np.array(ends), np.array(axes))


def dropout(net, x):
    if net.opset < 12:
        return net.op("Dropout", x, ratio=0.4)
    return net.op("Dropout", x, np.float32(0.4))


def axes_op(net, kind, x, axes):
    return net.op(kind, x, np.array(axes)) if net.opset >= 13 else net.op(kind, x, axes=axes)


def split(net, x, parts, axis):
    if net.opset < 13:
        return net.op("Split", x, n=len(parts), axis=axis, split=parts)
    if net.opset >= 18 and len(set(parts)) == 1:
        return net.op("Split", x, n=len(parts), axis=axis, num_outputs=len(parts))
    return net.op("Split", x, np.array(parts), n=len(parts), axis=axis)


def double(net, x):
    """Twice the height and width by repeating pixels."""
    scales = [1.0, 1.0, 2.0, 2.0]
    if net.opset < 9:
        return net.op("Upsample", x, scales=scales, mode="nearest")
    if net.opset < 10:
        return net.op("Upsample", x, scales, mode="nearest")
    if net.opset < 11:
        return net.op("Resize", x, scales, mode="nearest")
    roi = "" if net.opset >= 13 else np.zeros(0, np.float32)
    return net.op("Resize", x, roi, scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")


def softmax(net, x, shape, out):
    """Over all axes but the first: one operator before opset 13, flattened by hand since."""
    if net.opset < 13:
        return net.op("Softmax", x, out=out, axis=1)
    flat = net.op("Softmax", net.op("Flatten", x, axis=1), axis=-1)
    return net.op("Reshape", flat, np.array(shape), out=out)


def cnn(net):
    x = net.input("image", F32, 2, 3, 8, 8)
    y = pad(net, x, [0, 0, 1, 1, 0, 0, 1, 1], 0.25)
    y = net.op("Relu", net.batch_norm(net.conv(y, 3, 6, [3, 3]), 6))
    y = clip(net, net.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.1, 1.5)
    y = double(net, y)
    y = cut(net, y, [0, -7], [2**31 - 1, -1], [2, 3])
    y = dropout(net, net.same(y, 6, 8, strides=[2, 2]))
    sums = net.reduce("ReduceSum", y, [2], 0)
    tops = axes_op(net, "Squeeze", net.reduce("ReduceMax", y, [2]), [2])
    a, b = split(net, net.op("Concat", sums, tops, axis=1), [8, 8], 1)
    y = axes_op(net, "Unsqueeze", net.op("Mul", net.op("Tanh", a), b), [3])
    softmax(net, y, [2, 8, 3, 1], "p")
    net.output("p", F32, 2, 8, 3, 1)
    return [[net.uniform(-1, 1, 2, 3, 8, 8)]]


def mlp(net):
    x = net.input("x", F32, "N", 10)
    y = net.op("Relu", net.batch_norm(net.gemm(x, 10, 16), 16))
    y = dropout(net, y)
    y = net.op("Sum", net.op("Elu", y, alpha=0.5), net.op("Sigmoid", y))
    y = net.gemm(cut(net, y, [-12], [16], [1]), 12, 9)
    a, b, c = split(net, y, [2, 3, 4], 1)
    y = net.op("Concat", c, net.op("Exp", a), b, axis=1)
    low = net.reduce("ReduceMean", net.op("Sub", y, net.reduce("ReduceMin", y, [1])), [1])
    y = net.op("LogSoftmax", net.op("Div", y, low), out="logs", axis=1)
    if net.opset < 10:
        net.op("TopK", y, out=["top", "places"], axis=1, k=3)
    else:
        net.op("TopK", y, [3], out=["top", "places"], axis=1)
    net.op("Cast", net.op("Greater", y, np.float32(-2)), out="mask", to=F32)
    net.output("logs", F32, "N", 9)
    net.output("top", F32, "N", 3)
    net.output("places", I64, "N", 3)
    net.output("mask", F32, "N", 9)
    return [[net.uniform(-1, 1, n, 10)] for n in (4, 1)]


NEWS = {
    7: "IR 3; attributes for Slice, Clip, Pad, Squeeze, ReduceSum, Upsample; old Softmax; initialisers are inputs too",
    9: "Upsample with scales as input",
    11: "inputs for Slice, Clip, Pad; Resize with a region",
    13: "inputs for Squeeze, ReduceSum, Split; Softmax along one axis",
    17: "the last with axes of ReduceMax as attribute",
    21: "ReduceMax axes as input, Split num_outputs",
}
for _opset, _news in NEWS.items():
    model(f"one CNN in every opset, here {_opset}: {_news}", _opset, name=f"cnn_opset{_opset}", stream="cnn")(cnn)

for _opset in (8, 10, 12, 15, 18, 20, 24):
    model(f"one MLP in every opset, here {_opset}: Gemm, BatchNormalization, Dropout, Slice, Split, Sum, reductions, "
          "LogSoftmax, TopK, comparison; symbolic batch", _opset, name=f"mlp_opset{_opset}", stream="mlp")(mlp)


def scaled(net):
    x = net.input("x", F32, 1, 2, 4, 5)

    def grow(out, mode, scales):
        net.op("Upsample" if net.opset < 10 else "Resize", x, scales, out=out, mode=mode)

    grow("near", "nearest", [1.0, 1.0, 2.0, 3.0])
    grow("line", "linear", [1.0, 1.0, 2.0, 2.0])
    net.output("near", F32, 1, 2, 8, 15)
    net.output("line", F32, 1, 2, 8, 10)
    return [[net.uniform(-1, 1, 1, 2, 4, 5)]]


model("Upsample of opset 9, nearest and linear", 9, name="upsample_opset9", stream="scaled")(scaled)
model("Resize of opset 10 (asymmetric by definition), nearest and linear", 10, name="resize_opset10",
      stream="scaled")(scaled)


@model("Dropout with its mask as output (all true) and as the identity in the middle of a chain", opset=13)
def dropout_mask(net):
    x = net.input("x", F32, 3, 4)
    net.op("Dropout", net.op("Relu", x), np.float32(0.5), np.array(False), out=["y", "mask"])
    net.output("y", F32, 3, 4)
    net.output("mask", BOOL, 3, 4)
    return [[net.uniform(-1, 1, 3, 4)]]


@model("Softmax and LogSoftmax before opset 13 at axes 0, 1 and 2: flattened to two dimensions there", opset=11)
def softmax_opset11(net):
    x = net.input("x", F32, 2, 3, 4)
    for axis in (0, 1, 2):
        net.op("Softmax", x, out=f"soft_{axis}", axis=axis)
        net.op("LogSoftmax", x, out=f"log_{axis}", axis=axis)
        net.output(f"soft_{axis}", F32, 2, 3, 4)
        net.output(f"log_{axis}", F32, 2, 3, 4)
    return [[net.uniform(-2, 2, 2, 3, 4)]]
