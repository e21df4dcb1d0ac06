"""Models of images, sound and volumes: what networks of convolutions look like."""
import numpy as np

from .kit import F32, I64, U8, model


@model("Conv + BatchNormalization + Relu + Add: two residual blocks, one with a strided 1x1 shortcut, global "
       "pooling, Gemm")
def residual_cnn(net):
    x = net.input("image", F32, 1, 3, 16, 16)

    def unit(x, cin, cout, k=3, stride=1, relu=True):
        y = net.batch_norm(net.same(x, cin, cout, k, bias=False, strides=[stride, stride]), cout)
        return net.op("Relu", y) if relu else y

    x = unit(x, 3, 8)
    x = net.op("Relu", net.op("Add", unit(unit(x, 8, 8), 8, 8, relu=False), x))
    short = unit(x, 8, 12, k=1, stride=2, relu=False)
    x = net.op("Relu", net.op("Add", unit(unit(x, 8, 12, stride=2), 12, 12, relu=False), short))
    net.gemm(net.op("Flatten", net.op("GlobalAveragePool", x), axis=1), 12, 10, out="scores")
    net.output("scores", F32, 1, 10)
    return [[net.uniform(-1, 1, 1, 3, 16, 16)]]


@model("wide 3x3 windows of stride 1, which become products with fewer multiplications: with and without padding, "
       "residual; extents that their tiles do not divide; symbolic batch")
def wide_windows(net):
    x = net.input("image", F32, "N", 2, 15, 14)
    a = net.op("Relu", net.same(x, 2, 20, 3))
    b = net.op("Relu", net.op("Add", net.same(a, 20, 20, 3), a))
    net.conv(net.op("Relu", net.conv(b, 20, 20, [3, 3])), 20, 3, [1, 1], out="y")
    net.output("y", F32, "N", 3, 13, 12)
    return [[net.uniform(-1, 1, n, 2, 15, 14)] for n in (1, 3)]


@model("wide windows in groups, and 2x4 ones")
def wide_windows_groups(net):
    x = net.input("image", F32, 1, 2, 13, 12)
    a = net.op("Relu", net.conv(x, 2, 32, [1, 1]))
    b = net.op("Tanh", net.same(a, 32, 32, 3, group=2))
    net.conv(net.conv(b, 32, 16, [2, 4], pads=[0, 2, 1, 1]), 16, 3, [1, 1], out="y")
    net.output("y", F32, 1, 3, 13, 12)
    return [[net.uniform(-1, 1, 1, 2, 13, 12)]]


@model("wide windows of one dimension, and one axis of a 5x3")
def wide_windows_line(net):
    x = net.input("signal", F32, 2, 2, 180)
    a = net.op("Relu", net.conv(x, 2, 48, [1]))
    b = net.op("Relu", net.conv(a, 48, 48, [3], pads=[1, 1]))
    c = net.op("Reshape", net.conv(b, 48, 16, [1]), np.array([2, 16, 15, 12], np.int64))
    net.conv(net.conv(c, 16, 16, [5, 3], pads=[2, 1, 2, 1]), 16, 3, [1, 1], out="y")
    net.output("y", F32, 2, 3, 15, 12)
    return [[net.uniform(-1, 1, 2, 2, 180)]]


@model("wide windows with a stride of 2 on one axis, whose extents their tiles do not divide")
def wide_windows_strided(net):
    x = net.input("image", F32, "N", 2, 33, 19)
    a = net.op("Relu", net.conv(x, 2, 20, [1, 1]))
    b = net.op("Relu", net.conv(a, 20, 20, [4, 1], strides=[2, 1], pads=[1, 0, 2, 0]))
    net.conv(net.conv(b, 20, 20, [3, 4], strides=[1, 2], pads=[1, 1, 1, 1]), 20, 3, [1, 1], out="y")
    net.output("y", F32, "N", 3, 17, 9)
    return [[net.uniform(-1, 1, n, 2, 33, 19)] for n in (1, 2)]


def large(net, cin, cout, *taps):
    """Weights of large windows from few numbers: products of two tensors."""
    return net.op("Mul", net.weight(cout, cin, *[1] * len(taps)), net.uniform(-0.3, 0.3, 1, 1, *taps))


@model("windows of many taps: 9x7 over many channels with a residual, one channel each 19x41; extents that their "
       "tiles do not divide; symbolic batch")
def large_windows(net):
    x = net.input("image", F32, "N", 2, 17, 44)
    a = net.op("Relu", net.conv(x, 2, 24, [1, 1]))
    b = net.op("Relu", net.op("Add", net.op("Conv", a, large(net, 24, 24, 9, 7), pads=[4, 3, 4, 3]), a))
    c = net.op("Tanh", net.op("Conv", b, large(net, 1, 24, 19, 41), pads=[9, 20, 9, 20], group=24))
    net.conv(c, 24, 3, [1, 1], out="y")
    net.output("y", F32, "N", 3, 17, 44)
    return [[net.uniform(-1, 1, n, 2, 17, 44)] for n in (1, 2)]


@model("windows over axes of open size: 3x3 with a residual, 5x5 with a stride of 2, 31 taps of one channel each; "
       "sizes that are not whole tiles, and smaller than one")
def open_windows(net):
    x = net.input("image", F32, "N", 3, "H", "W")
    a = net.op("Relu", net.op("Conv", x, large(net, 3, 32, 3, 3), pads=[1, 1, 1, 1]))
    b = net.op("Relu", net.op("Add", net.op("Conv", a, large(net, 32, 32, 3, 3), pads=[1, 1, 1, 1]), a))
    net.op("Conv", b, large(net, 32, 8, 5, 5), pads=[2, 2, 2, 2], strides=[2, 2], out="y")
    net.op("Conv", b, large(net, 1, 32, 31, 1), pads=[15, 0, 15, 0], group=32, out="z")
    net.output("y", F32, "N", 8, "Hy", "Wy")
    net.output("z", F32, "N", 32, "H", "W")
    return [[net.uniform(-1, 1, 1, 3, h, w)] for h, w in ((13, 18), (4, 1), (8, 11))]


@model("a CNN's first layers: 7x7 with a stride of 2 from three channels, which reads nothing outside; 3x3 at 14x12 "
       "and 5x5 at 13x26 over many channels, with a residual; symbolic batch")
def first_layers(net):
    x = net.input("image", F32, "N", 3, 34, 57)
    a = net.op("Relu", net.op("Conv", x, large(net, 3, 32, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2]))
    b = net.op("MaxPool", a, kernel_shape=[4, 18])
    c = net.op("Relu", net.op("Add", net.op("Conv", b, large(net, 32, 32, 3, 3), pads=[1, 1, 1, 1]), b))
    net.conv(c, 32, 3, [1, 1], out="y")
    net.conv(net.op("Conv", net.op("MaxPool", a, kernel_shape=[5, 4]), large(net, 32, 32, 5, 5), pads=[2, 2, 2, 2]), 32,
             3, [1, 1], out="z")
    net.output("y", F32, "N", 3, 14, 12)
    net.output("z", F32, "N", 3, 13, 26)
    return [[net.uniform(-1, 1, 1, 3, 34, 57)]]


@model("strided windows of many taps: 9x8 by 3 with extents that strides and tiles do not divide, 8x8 by 4 "
       "whose places outside have a value of their own; symbolic batch")
def strided_windows(net):
    x = net.input("image", F32, "N", 1, 32, 44)
    a = net.op("Relu", net.conv(x, 1, 32, [1, 1]))
    net.conv(net.op("Conv", a, large(net, 32, 32, 9, 8), pads=[4, 3, 4, 3], strides=[3, 3]), 32, 3, [1, 1], out="y")
    b = net.op("Pad", a, np.array([0, 0, 2, 2, 0, 0, 2, 2], np.int64), np.array(0.5, np.float32))
    net.conv(net.op("Conv", b, large(net, 32, 32, 8, 8), strides=[4, 4]), 32, 3, [1, 1], out="z")
    net.output("y", F32, "N", 3, 11, 15)
    net.output("z", F32, "N", 3, 8, 11)
    return [[net.uniform(-1, 1, n, 1, 32, 44)] for n in (1, 2)]


@model("3x3 windows over small pictures, whose forms make factors of kept taps: 7x7, 4x7 with one tile on an axis, "
       "9x5 of two groups")
def small_windows(net):
    for name, out, h, w, group in (("a", "y", 7, 7, 1), ("b", "z", 4, 7, 1), ("c", "t", 9, 5, 2)):
        x = net.op("Conv", net.input(name, F32, 1, 32, h, w), large(net, 32 // group, 40, 3, 3), pads=[1, 1, 1, 1],
                   group=group)
        net.conv(net.op("Relu", x), 40, 3, [1, 1], out=out)
        net.output(out, F32, 1, 3, h, w)
    return [[net.uniform(-1, 1, 1, 32, h, w) for h, w in ((7, 7), (4, 7), (9, 5))]]


@model("windows over places that no tile divides, so that the last one lacks outputs: alone behind the first, one of "
       "several, of two pictures, with kept taps")
def short_tiles(net):
    sizes = (("a", "y", 1, 11, 10, (3, 2)), ("b", "z", 2, 11, 11, (3, 3)), ("c", "t", 1, 14, 14, (3, 3)),
             ("d", "u", 2, 9, 9, (2, 3)))
    for name, out, n, h, w, k in sizes:
        x = net.op("Relu", net.conv(net.input(name, F32, n, 2, h, w), 2, 32, [1, 1]))
        x = net.op("Conv", x, large(net, 32, 40, *k), pads=[1, 1, k[0] - 2, k[1] - 2])
        net.conv(net.op("Relu", x), 40, 3, [1, 1], out=out)
        net.output(out, F32, n, 3, h, w)
    return [[net.uniform(-1, 1, n, 2, h, w) for _, _, n, h, w, _ in sizes]]


@model("windows over an open number of places of an open batch: many rows take other forms than few, the last tile "
       "may lack outputs")
def many_rows(net):
    x = net.op("Relu", net.conv(net.input("samples", F32, "N", 1, "S"), 1, 32, [64], strides=[64]))
    x = net.op("Relu", net.op("Conv", x, large(net, 32, 64, 3), pads=[1, 1]))
    net.conv(x, 64, 3, [1], out="y")
    net.output("y", F32, "N", 3, "T")
    return [[net.uniform(-1, 1, n, 1, 64 * t)] for n, t in ((9, 4), (3, 3), (4, 1), (5, 11))]


@model("expansions larger than a cache, of which a depthwise window keeps a few rows at a time: with a step of two "
       "and of one, dilated, of an open batch")
def sliding_rows(net):
    x = net.input("image", F32, "N", 1, 45, 44)
    y = net.op("Clip", net.conv(x, 1, 136, [1, 2]), np.float32(0), np.float32(6))
    y = net.op("Relu", net.conv(y, 136, 136, [3, 3], group=136, strides=[2, 2], pads=[1, 1, 1, 1]))
    net.conv(y, 136, 2, [1, 1], out="halved")
    y = net.op("HardSwish", net.conv(x, 1, 136, [2, 1], pads=[0, 0, 1, 0]))
    y = net.conv(net.conv(y, 136, 136, [3, 2], group=136, dilations=[2, 1], pads=[4, 0, 1, 2]), 136, 2, [1, 1])
    net.op("AveragePool", y, kernel_shape=[5, 5], strides=[5, 5], out="dilated")
    net.output("halved", F32, "N", 2, 23, 22)
    net.output("dilated", F32, "N", 2, 9, 9)
    return [[net.uniform(-1, 1, n, 1, 45, 44)] for n in (1, 2)]


@model("windows of many taps of one dimension: 67 taps, which are divided, and 32 with a stride of 2")
def large_windows_line(net):
    x = net.input("signal", F32, 2, 2, 300)
    a = net.op("Relu", net.conv(x, 2, 24, [1]))
    b = net.op("Relu", net.op("Conv", a, large(net, 24, 24, 67), pads=[33, 33]))
    net.conv(net.op("Conv", b, large(net, 24, 24, 32), strides=[2]), 24, 3, [1], out="y")
    net.output("y", F32, 2, 3, 135)
    return [[net.uniform(-1, 1, 2, 2, 300)]]


@model("MobileNet-like: depthwise 3x3 and 5x5, pointwise expansion and projection, Relu6 as Clip, residual Add")
def depthwise_separable(net):
    x = net.input("image", F32, 1, 3, 20, 20)

    def unit(x, cin, cout, k=1, group=1, stride=1, act=True):
        y = net.same(x, cin, cout, k, group=group, bias=False, strides=[stride, stride])
        y = net.batch_norm(y, cout)
        return net.op("Clip", y, np.float32(0), np.float32(6)) if act else y

    def block(x, cin, cout, k, stride):
        wide = cin * 3
        y = unit(unit(x, cin, wide), wide, wide, k, wide, stride)
        y = unit(y, wide, cout, act=False)
        return net.op("Add", y, x) if cin == cout and stride == 1 else y

    x = unit(x, 3, 8, 3, stride=2)
    x = block(block(block(x, 8, 8, 3, 1), 8, 12, 5, 2), 12, 12, 3, 1)
    x = net.op("GlobalAveragePool", unit(x, 12, 24))
    net.same(x, 24, 6, 1, out="scores")
    net.output("scores", F32, 1, 6, 1, 1)
    return [[net.uniform(-1, 1, 1, 3, 20, 20)]]


@model("Conv with 2, 3 and 4 groups, several filters for each input channel (depth multiplier 2), 1x1 groups")
def grouped_conv(net):
    x = net.input("image", F32, 2, 12, 9, 7)
    a = net.op("Relu", net.same(x, 12, 16, 3, group=4))
    b = net.op("Relu", net.same(a, 16, 12, 1, group=2))
    c = net.same(b, 12, 24, 3, group=12, strides=[2, 1])
    net.same(net.op("Tanh", c), 24, 9, 3, group=3, out="y")
    net.output("y", F32, 2, 9, 5, 7)
    return [[net.uniform(-1, 1, 2, 12, 9, 7)]]


@model("Conv: strides, dilations, asymmetric kernels and pads, auto_pad SAME_UPPER, SAME_LOWER and VALID, five outputs")
def conv_geometry(net):
    x = net.input("x", F32, 1, 4, 13, 11)
    net.conv(x, 4, 5, [3, 5], out="strided", strides=[2, 3], pads=[1, 2, 1, 2])
    net.conv(x, 4, 5, [3, 3], out="dilated", dilations=[2, 3], pads=[0, 1, 3, 2])
    net.conv(x, 4, 3, [4, 3], out="same_upper", strides=[2, 2], auto_pad="SAME_UPPER")
    net.conv(x, 4, 3, [4, 2], out="same_lower", strides=[2, 2], auto_pad="SAME_LOWER")
    net.conv(x, 4, 3, [1, 7], out="valid", auto_pad="VALID", bias=False)
    for name, shape in (("strided", (1, 5, 7, 4)), ("dilated", (1, 5, 12, 8)), ("same_upper", (1, 3, 7, 6)),
                        ("same_lower", (1, 3, 7, 6)), ("valid", (1, 3, 13, 5))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, 1, 4, 13, 11)]]


@model("temporal network: one-dimensional causal Conv with dilations 1, 2, 4, gates, symbolic batch and length")
def conv1d_tcn(net):
    x = net.input("signal", F32, "N", 4, "T")
    h = net.conv(x, 4, 8, [1])
    for d in (1, 2, 4):
        wide = net.conv(h, 8, 16, [3], pads=[2 * d, 0], dilations=[d])
        a, b = net.op("Split", wide, [8, 8], n=2, axis=1)
        h = net.op("Add", h, net.op("Mul", net.op("Tanh", a), net.op("Sigmoid", b)))
    net.conv(h, 8, 3, [1], out="y")
    net.output("y", F32, "N", 3, "T")
    return [[net.uniform(-1, 1, n, 4, t)] for n, t in ((1, 20), (3, 7), (2, 1))]


@model("Conv, MaxPool, AveragePool and BatchNormalization over volumes")
def conv3d_net(net):
    x = net.input("volume", F32, 1, 2, 6, 10, 8)
    x = net.op("Relu", net.batch_norm(net.conv(x, 2, 6, [3, 3, 3], pads=[1] * 6), 6))
    x = net.op("MaxPool", x, kernel_shape=[2, 2, 2], strides=[1, 2, 2])
    x = net.op("Relu", net.conv(x, 6, 8, [2, 3, 3], strides=[1, 2, 1], pads=[0, 1, 1, 0, 1, 1], group=2))
    x = net.op("AveragePool", x, kernel_shape=[2, 1, 2], strides=[2, 1, 2], pads=[0, 0, 1, 0, 0, 1])
    net.reduce("ReduceMean", x, [2, 3, 4], 0, out="y")
    net.op("Identity", x, out="maps")
    net.output("y", F32, 1, 8)
    net.output("maps", F32, 1, 8, 2, 3, 3)
    return [[net.uniform(-1, 1, 1, 2, 6, 10, 8)]]


@model("ConvTranspose: strides over and under the kernel, output_padding, dilations, groups, output_shape, one- and "
       "two-dimensional")
def conv_transpose(net):
    x = net.input("x", F32, 2, 6, 5, 4)
    line = net.input("line", F32, 1, 3, 7)

    def up(x, cin, cout, kernel, out, group=1, **attributes):
        w = net.weight(cin, cout // group, *kernel, fan=cin * int(np.prod(kernel)) // group)
        return net.op("ConvTranspose", x, w, net.uniform(-0.2, 0.2, cout), out=out, group=group, **attributes)

    up(x, 6, 4, [4, 4], "double", strides=[2, 2], pads=[1, 1, 1, 1])
    up(x, 6, 4, [2, 2], "gaps", strides=[3, 3], output_padding=[1, 0])
    up(x, 6, 8, [3, 3], "grouped", group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 0, 1])
    up(x, 6, 6, [3, 3], "shaped", group=6, strides=[2, 2], output_shape=[10, 8])
    up(line, 3, 2, [5], "stretched", strides=[2], pads=[2, 2], output_padding=[1])
    for name, shape in (("double", (2, 4, 10, 8)), ("gaps", (2, 4, 15, 11)), ("grouped", (2, 8, 10, 7)),
                        ("shaped", (2, 6, 10, 8)), ("stretched", (1, 2, 14))):
        net.output(name, F32, *shape)
    return [[net.uniform(-1, 1, 2, 6, 5, 4), net.uniform(-1, 1, 1, 3, 7)]]


@model("U-Net: encoder with MaxPool, decoder with ConvTranspose and Resize, skip connections by Concat, symbolic H "
       "and W")
def unet(net):
    x = net.input("image", F32, 1, 2, "H", "W")

    def unit(x, cin, cout):
        return net.op("Relu", net.same(x, cin, cout))

    a = unit(x, 2, 6)
    b = unit(net.op("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 6, 8)
    c = unit(net.op("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]), 8, 10)
    up = net.op("ConvTranspose", c, net.weight(10, 8, 2, 2, fan=10), net.uniform(-0.1, 0.1, 8), strides=[2, 2])
    b = unit(net.op("Concat", up, b, axis=1), 16, 8)
    up = net.op("Resize", b, "", [1.0, 1.0, 2.0, 2.0], mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")
    a = unit(net.op("Concat", up, a, axis=1), 14, 6)
    net.op("Sigmoid", net.same(a, 6, 1, 1), out="mask")
    net.output("mask", F32, 1, 1, "H", "W")
    return [[net.uniform(-1, 1, 1, 2, 16, 12)], [net.uniform(-1, 1, 1, 2, 8, 20)]]


@model("fully convolutional: symbolic N, H and W, Resize back to the size taken by Shape, Slice and Concat")
def fully_conv(net):
    x = net.input("image", F32, "N", 3, "H", "W")
    y = net.op("Relu", net.same(x, 3, 8, strides=[2, 2]))
    y = net.op("Relu", net.same(y, 8, 8, group=8, dilations=[1, 1]))
    y = net.same(y, 8, 2, 1)
    size = net.op("Slice", net.op("Shape", x), [2], [4])
    head = net.op("Slice", net.op("Shape", y), [0], [2])
    net.op("Resize", y, "", "", net.op("Concat", head, size, axis=0), out="map", mode="linear",
           coordinate_transformation_mode="half_pixel")
    net.output("map", F32, "N", 2, "H", "W")
    return [[net.uniform(-1, 1, n, 3, h, w)] for n, h, w in ((1, 12, 16), (2, 9, 7))]


@model("YOLO-like heads at two scales: Conv, Sigmoid, Slice, grid and anchors, Exp, Reshape, Transpose, Concat")
def detector_head(net):
    x = net.input("image", F32, 1, 3, 32, 32)
    x = net.op("LeakyRelu", net.same(x, 3, 8, strides=[2, 2]), alpha=0.1)
    x = net.op("LeakyRelu", net.same(x, 8, 12, strides=[2, 2]), alpha=0.1)
    near = net.op("LeakyRelu", net.same(x, 12, 16, strides=[2, 2]), alpha=0.1)
    far = net.op("LeakyRelu", net.same(near, 16, 16, strides=[2, 2]), alpha=0.1)
    parts = []
    for maps, size, stride, anchors in ((near, 4, 8, [[4, 5], [8, 6]]), (far, 2, 16, [[12, 14], [20, 16]])):
        y = net.op("Reshape", net.same(maps, 16, 2 * 8, 1), [1, 2, 8, size, size])
        y = net.op("Transpose", y, perm=[0, 1, 3, 4, 2])
        grid = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1).reshape(1, 1, size, size, 2)
        xy = net.op("Sigmoid", net.op("Slice", y, [0], [2], [4]))
        xy = net.op("Mul", net.op("Add", xy, grid.astype(np.float32)), np.float32(stride))
        wh = net.op("Exp", net.op("Slice", y, [2], [4], [-1]))
        wh = net.op("Mul", wh, np.array(anchors, np.float32).reshape(1, 2, 1, 1, 2))
        rest = net.op("Sigmoid", net.op("Slice", y, [4], [2**63 - 1], [-1]))
        parts.append(net.op("Reshape", net.op("Concat", xy, wh, rest, axis=-1), [1, -1, 8]))
    net.op("Concat", *parts, out="boxes", axis=1)
    net.output("boxes", F32, 1, 40, 8)
    return [[net.uniform(-1, 1, 1, 3, 32, 32)]]


@model("boxes and scores from a small network, NonMaxSuppression for 2 images and 3 classes, Gather of the boxes: "
       "data-dependent count")
def detector_nms(net):
    x = net.input("features", F32, 2, 20, 6)
    limit = net.input("score_limit", F32, 1)
    centre = net.op("Mul", net.op("Sigmoid", net.linear(x, 6, 2)), np.float32(20))
    half = net.op("Add", net.op("Mul", net.op("Sigmoid", net.linear(x, 6, 2)), np.float32(5)), np.float32(2))
    boxes = net.op("Concat", net.op("Sub", centre, half), net.op("Add", centre, half), out="boxes", axis=2)
    scores = net.op("Transpose", net.op("Softmax", net.linear(x, 6, 3), axis=-1), perm=[0, 2, 1])
    net.op("NonMaxSuppression", boxes, scores, [4], [0.4], limit, out="selected")
    pairs = net.op("Gather", "selected", [0, 2], axis=1)
    net.op("GatherND", "boxes", pairs, out="kept")
    net.output("selected", I64, "M", 3)
    net.output("kept", F32, "M", 4)
    net.output("boxes", F32, 2, 20, 4)
    return [[net.uniform(-2, 2, 2, 20, 6), np.array([limit], np.float32)] for limit in (0.3, 0.5, 2.0)]


@model("detector on a picture resized by a scale that is computed from its sizes (floats: no bound on the new ones), "
       "two levels, what "
       "each finds (NonZero) side by side, all pairs of them; outputs whose sizes nothing bounds", opset=18)
def detector_scaled(net):
    x = net.input("image", F32, 3, "h", "w")
    sides = net.op("Cast", net.op("Slice", net.op("Shape", x), [1], [3]), to=F32)
    scale = net.op("Div", np.float32(8), net.op("ReduceMin", sides, keepdims=0))
    sizes = net.op("Cast", net.op("Floor", net.op("Mul", sides, scale)), to=I64)
    net.op("Resize", x, "", "", net.op("Concat", [3], sizes, axis=0), out="resized", mode="linear")
    first = net.op("Relu", net.conv(net.op("Unsqueeze", "resized", [0]), 3, 4, [3, 3], strides=[2, 2],
                                    pads=[1, 1, 1, 1]))
    second = net.op("Relu", net.conv(first, 4, 4, [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    found = []
    for level in (first, second):
        score = net.op("Reshape", net.op("Softmax", net.conv(level, 4, 2, [1, 1]), axis=3), [-1])
        at = net.op("Squeeze", net.op("NonZero", net.op("Greater", score, net.op("ReduceMean", score))), [0])
        rows = [net.op("Gather", score, at), net.op("Mul", net.op("Cast", at, to=F32), np.float32(0.01))]
        found.append(net.op("Concat", *[net.op("Unsqueeze", r, [0]) for r in rows], axis=0))
    net.op("Concat", *found, out="found", axis=1)
    pairs = net.op("MatMul", net.op("Transpose", "found", perm=[1, 0]), "found")
    net.op("Softmax", pairs, out="alike", axis=1)
    net.op("ReduceMax", pairs, [0], out="most", keepdims=0)
    net.output("resized", F32, 3, "H", "W")
    net.output("found", F32, 2, "n")
    net.output("alike", F32, "n", "n")
    net.output("most", F32, "n")
    return [[net.uniform(-1, 1, 3, h, w)] for h, w in ((20, 30), (9, 13), (22, 10))]


@model("MaxPool, AveragePool, LpPool and their Global forms: ceil_mode, count_include_pad, dilations, auto_pad, "
       "asymmetric pads", opset=19)
def pooling(net):
    x = net.input("x", F32, 2, 3, 11, 14)
    k3, s2 = [3, 3], [2, 2]
    net.op("MaxPool", x, out="max_ceil", kernel_shape=k3, strides=s2, ceil_mode=1)
    net.op("MaxPool", x, out="max_dilated", kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 1, 0, 1])
    net.op("MaxPool", x, out="max_same", kernel_shape=[3, 2], strides=s2, auto_pad="SAME_UPPER")
    net.op("AveragePool", x, out="mean_inner", kernel_shape=k3, strides=s2, pads=[1, 1, 1, 1])
    net.op("AveragePool", x, out="mean_all", kernel_shape=k3, strides=s2, pads=[1, 0, 1, 2], count_include_pad=1)
    net.op("AveragePool", x, out="mean_ceil", kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    net.op("AveragePool", x, out="mean_dilated", kernel_shape=k3, dilations=[2, 2])
    net.op("LpPool", x, out="lp", kernel_shape=[2, 2], strides=s2, p=2)
    net.op("GlobalAveragePool", x, out="global_mean")
    net.op("GlobalMaxPool", x, out="global_max")
    for name, h, w in (("max_ceil", 5, 7), ("max_dilated", 9, 12), ("max_same", 6, 7), ("mean_inner", 6, 7),
                       ("mean_all", 6, 7), ("mean_ceil", 4, 5), ("mean_dilated", 7, 10), ("lp", 5, 7),
                       ("global_mean", 1, 1), ("global_max", 1, 1)):
        net.output(name, F32, 2, 3, h, w)
    return [[net.uniform(-1, 1, 2, 3, 11, 14)]]


@model("MaxPool with its indices as second output, then MaxUnpool: an autoencoder of places")
def max_unpool(net):
    x = net.input("x", F32, 1, 2, 8, 6)
    small, places = net.op("MaxPool", x, n=2, kernel_shape=[2, 2], strides=[2, 2])
    net.op("MaxUnpool", net.op("Tanh", small), places, out="y", kernel_shape=[2, 2], strides=[2, 2])
    net.op("Identity", places, out="places")
    net.output("y", F32, 1, 2, 8, 6)
    net.output("places", I64, 1, 2, 4, 3)
    return [[net.uniform(-1, 1, 1, 2, 8, 6)]]


@model("InstanceNormalization, GroupNormalization, LRN, LpNormalization, MeanVarianceNormalization after one another",
       opset=21)
def normalisations(net):
    x = net.input("x", F32, 2, 6, 5, 7)
    x = net.op("InstanceNormalization", x, net.uniform(0.5, 1.5, 6), net.uniform(-0.3, 0.3, 6), epsilon=1e-4)
    x = net.op("GroupNormalization", net.same(x, 6, 6), net.uniform(0.5, 1.5, 6), net.uniform(-0.3, 0.3, 6),
               num_groups=3, epsilon=1e-4)
    x = net.op("LRN", x, size=3, alpha=0.3, beta=0.6, bias=1.2)
    net.op("LpNormalization", net.op("Add", x, np.float32(2)), out="unit", axis=1, p=2)
    net.op("MeanVarianceNormalization", x, out="standard", axes=[0, 2, 3])
    net.output("unit", F32, 2, 6, 5, 7)
    net.output("standard", F32, 2, 6, 5, 7)
    return [[net.uniform(-1, 1, 2, 6, 5, 7)]]


@model("GroupNorm as exporters write it: Reshape, InstanceNormalization, Reshape by Shape, Mul, Add; symbolic batch",
       opset=13)
def group_norm_decomposed(net):
    x = net.input("x", F32, "N", 8, 6, 5)
    y = net.same(x, 8, 8)
    flat = net.op("Reshape", y, [0, 4, -1])
    norm = net.op("InstanceNormalization", flat, np.ones(4, np.float32), np.zeros(4, np.float32), epsilon=1e-5)
    norm = net.op("Reshape", norm, net.op("Shape", y))
    y = net.op("Mul", norm, net.uniform(0.5, 1.5, 8, 1, 1))
    y = net.op("Add", y, net.uniform(-0.3, 0.3, 8, 1, 1))
    net.op("Mul", y, net.op("Sigmoid", y), out="y")
    net.output("y", F32, "N", 8, 6, 5)
    return [[net.uniform(-1, 1, n, 8, 6, 5)] for n in (1, 3)]


@model("squeeze-and-excitation with HardSigmoid; hard-swish as operator and as Add, Clip, Mul, Div")
def squeeze_excite(net):
    x = net.input("image", F32, 1, 4, 12, 12)
    x = net.op("HardSwish", net.same(x, 4, 12, strides=[2, 2]))
    gate = net.op("Relu", net.same(net.op("GlobalAveragePool", x), 12, 4, 1))
    gate = net.op("HardSigmoid", net.same(gate, 4, 12, 1), alpha=1 / 6, beta=0.5)
    x = net.same(net.op("Mul", x, gate), 12, 8, 1)
    clipped = net.op("Clip", net.op("Add", x, np.float32(3)), np.float32(0), np.float32(6))
    net.op("Div", net.op("Mul", x, clipped), np.float32(6), out="y")
    net.output("y", F32, 1, 8, 6, 6)
    return [[net.uniform(-2, 2, 1, 4, 12, 12)]]


@model("PRelu with slopes per channel, shared and of full rank, between convolutions")
def prelu_net(net):
    x = net.input("x", F32, 2, 3, 8, 8)
    x = net.op("PRelu", net.same(x, 3, 6), net.uniform(0.05, 0.4, 6, 1, 1))
    x = net.op("PRelu", net.same(x, 6, 6, strides=[2, 2]), net.uniform(0.1, 0.3, 1))
    x = net.op("Reshape", x, [2, -1])
    net.op("PRelu", net.linear(x, 96, 10), net.uniform(0.1, 0.3, 10), out="y")
    net.output("y", F32, 2, 10)
    return [[net.uniform(-1, 1, 2, 3, 8, 8)]]


@model("super-resolution: DepthToSpace in CRD and DCR order, the same as Reshape + Transpose, SpaceToDepth; symbolic "
       "height and width")
def pixel_shuffle(net):
    x = net.input("image", F32, 1, 1, "H", "W")
    y = net.op("Relu", net.same(x, 1, 8, 5))
    y = net.op("Tanh", net.same(y, 8, 8))
    net.op("DepthToSpace", y, out="crd", blocksize=2, mode="CRD")
    net.op("DepthToSpace", y, out="dcr", blocksize=2, mode="DCR")
    shape = net.op("Shape", y)
    h, w = (net.op("Gather", shape, [i], axis=0) for i in (2, 3))
    split = net.op("Reshape", y, net.op("Concat", [1, 2, 2, 2], h, w, axis=0))
    mixed = net.op("Transpose", split, perm=[0, 1, 4, 2, 5, 3])
    twice = [net.op("Mul", v, [2]) for v in (h, w)]
    net.op("Reshape", mixed, net.op("Concat", [1, 2], *twice, axis=0), out="by_hand")
    net.op("SpaceToDepth", "crd", out="back", blocksize=2)
    for name in ("crd", "dcr", "by_hand"):
        net.output(name, F32, 1, 2, "H2", "W2")
    net.output("back", F32, 1, 8, "H", "W")
    return [[net.uniform(0, 1, 1, 1, h, w)] for h, w in ((6, 5), (3, 9))]


@model("ShuffleNet unit: Split of channels, depthwise branch, Concat, channel shuffle by Reshape and Transpose; "
       "symbolic batch")
def channel_shuffle(net):
    x = net.input("image", F32, "N", 8, 10, 10)
    for _ in range(2):
        left, right = net.op("Split", x, [4, 4], n=2, axis=1)
        right = net.op("Relu", net.batch_norm(net.same(right, 4, 4, 1, bias=False), 4))
        right = net.batch_norm(net.same(right, 4, 4, 3, group=4, bias=False), 4)
        right = net.op("Relu", net.same(right, 4, 4, 1))
        x = net.op("Concat", left, right, axis=1)
        x = net.op("Reshape", x, [-1, 2, 4, 10, 10])
        x = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1, 3, 4]), [-1, 8, 10, 10])
    net.op("Identity", x, out="y")
    net.output("y", F32, "N", 8, 10, 10)
    return [[net.uniform(-1, 1, n, 8, 10, 10)] for n in (1, 2)]


@model("Resize: nearest, linear and cubic, up and down, six ways to place coordinates, by scales and by sizes, "
       "antialias, excluded outside", opset=18)
def resize_modes(net):
    x = net.input("x", F32, 1, 2, 7, 6)

    def resize(out, mode, place, scales=None, sizes=None, **attributes):
        scales = "" if scales is None else scales
        inputs = [x, "", scales] + ([] if sizes is None else [sizes])
        net.op("Resize", *inputs, out=out, mode=mode, coordinate_transformation_mode=place, **attributes)

    resize("nearest_floor", "nearest", "asymmetric", [1.0, 1.0, 2.0, 3.0], nearest_mode="floor")
    resize("nearest_half", "nearest", "half_pixel", [1.0, 1.0, 1.6, 0.8], nearest_mode="round_prefer_floor")
    resize("nearest_ceil", "nearest", "align_corners", sizes=[1, 2, 4, 11], nearest_mode="ceil")
    resize("linear_half", "linear", "half_pixel", [1.0, 1.0, 2.0, 2.0])
    resize("linear_corners", "linear", "align_corners", sizes=[1, 2, 10, 4])
    resize("linear_torch", "linear", "pytorch_half_pixel", sizes=[1, 2, 1, 9])
    resize("linear_antialias", "linear", "half_pixel", [1.0, 1.0, 0.5, 0.5], antialias=1)
    resize("cubic_half", "cubic", "half_pixel", [1.0, 1.0, 1.5, 2.0], cubic_coeff_a=-0.75)
    resize("cubic_exclude", "cubic", "half_pixel", [1.0, 1.0, 0.8, 0.8], exclude_outside=1, cubic_coeff_a=-0.5)
    for name, h, w in (("nearest_floor", 14, 18), ("nearest_half", 11, 4), ("nearest_ceil", 4, 11),
                       ("linear_half", 14, 12), ("linear_corners", 10, 4), ("linear_torch", 1, 9),
                       ("linear_antialias", 3, 3), ("cubic_half", 10, 12), ("cubic_exclude", 5, 4)):
        net.output(name, F32, 1, 2, h, w)
    return [[net.uniform(-1, 1, 1, 2, 7, 6)]]


@model("dense block: every layer reads the Concat of all before; then Split into unequal parts and a tree of Concats")
def split_concat_tree(net):
    x = net.input("x", F32, 1, 6, 8, 8)
    maps = [x]
    for _ in range(3):
        joined = maps[0] if len(maps) == 1 else net.op("Concat", *maps, axis=1)
        maps.append(net.op("Relu", net.same(joined, 6 + 4 * (len(maps) - 1), 4)))
    whole = net.op("Concat", *maps, axis=1)
    a, b, c, d = net.op("Split", whole, [1, 6, 3, 8], n=4, axis=1)
    left = net.op("Concat", net.op("Neg", c), a, axis=1)
    right = net.op("Concat", b, net.op("Tanh", d), axis=1)
    net.op("Concat", left, right, left, out="y", axis=1)
    p, q = net.op("Split", right, [3, 5], n=2, axis=2)
    net.op("Concat", q, p, q, out="turned", axis=2)
    net.output("y", F32, 1, 22, 8, 8)
    net.output("turned", F32, 1, 14, 13, 8)
    return [[net.uniform(-1, 1, 1, 6, 8, 8)]]


@model("speech front end: reflect Pad, DFT as strided Conv with sine and cosine kernels, power, mel MatMul, Log; "
       "symbolic number of samples")
def audio_frontend(net):
    x = net.input("samples", F32, "N", "S")
    size, bins = 32, 17
    angle = 2 * np.pi * np.arange(bins)[:, None] * np.arange(size)[None] / size
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    kernel = np.concatenate([np.cos(angle), -np.sin(angle)]) * window
    kernel = np.round(kernel * 65536) / 65536  # the same bytes whatever the libm
    mel = np.maximum(0, 1 - np.abs(np.arange(bins)[:, None] - np.linspace(1, 15, 8)[None]) / 2.5)
    y = net.op("Pad", net.op("Unsqueeze", x, [1]), [0, 0, 16, 0, 0, 16], mode="reflect")
    y = net.op("Conv", y, kernel[:, None].astype(np.float32), strides=[8], kernel_shape=[size])
    re, im = net.op("Split", y, [bins, bins], n=2, axis=1)
    power = net.op("Add", net.op("Mul", re, re), net.op("Mul", im, im))
    power = net.op("MatMul", net.op("Transpose", power, perm=[0, 2, 1]), mel.astype(np.float32))
    feats = net.op("Log", net.op("Add", power, np.float32(0.01)))
    net.op("Sub", feats, net.reduce("ReduceMean", feats, [1]), out="features")
    net.output("features", F32, "N", "F", 8)
    return [[net.uniform(-1, 1, n, s)] for n, s in ((1, 160), (2, 64))]


@model("Conv whose weights and bias are computed from an input, and one whose weights are an input: no constant "
       "to pack")
def conv_dynamic_weights(net):
    x = net.input("x", F32, 1, 4, 8, 8)
    w = net.input("w", F32, 6, 4, 3, 3)
    code = net.input("code", F32, 1, 5)
    y = net.op("Relu", net.op("Conv", x, w, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    made = net.op("Reshape", net.linear(code, 5, 3 * 6), [3, 6, 1, 1])
    bias = net.op("Reshape", net.linear(code, 5, 3), [3])
    net.op("Conv", y, made, bias, out="y", kernel_shape=[1, 1])
    net.output("y", F32, 1, 3, 8, 8)
    return [[net.uniform(-1, 1, 1, 4, 8, 8), net.uniform(-0.3, 0.3, 6, 4, 3, 3), net.uniform(-1, 1, 1, 5)]]


@model("Conv whose input and weights are computed and take more than a cache: with fewer multiplications, and, of "
       "every second place of two images, the sum over the channels in parts")
def conv_in_parts(net):
    code, x = net.input("code", F32, 96, 4), net.input("x", F32, 4, 2 * 144)
    w = net.op("Reshape", net.op("MatMul", code, net.const(net.uniform(-1, 1, 4, 128 * 9))), [96, 128, 3, 3])
    maps = net.op("MatMul", net.const(net.uniform(-1, 1, 128, 4)), x)
    maps = net.op("Transpose", net.op("Reshape", maps, [128, 2, 12, 12]), perm=[1, 0, 2, 3])
    y = net.op("Conv", maps, w, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    z = net.op("Conv", maps, w, kernel_shape=[3, 3], strides=[2, 2])
    net.reduce("ReduceMax", net.op("Relu", y), [2], 0, out="y")
    net.reduce("ReduceMin", z, [2], 0, out="z")
    net.output("y", F32, 2, 96, 12)
    net.output("z", F32, 2, 96, 5)
    return [[net.uniform(-1, 1, 96, 4), net.uniform(-1, 1, 4, 2 * 144)]]


@model("products of something computed: channels scaled by a gate that looks at all of them before a 1x1 Conv, scaled "
       "rows before a MatMul, bytes as a MatMul's rows; symbolic batch")
def computed_rows(net):
    x, rows, codes = net.input("x", F32, "batch", 3, 6, 7), net.input("rows", F32, "batch", 9, 37), net.input("bytes",
            U8, "batch", 11, 37)
    x = net.op("Relu", net.same(x, 3, 20))
    gate = net.op("Unsqueeze", net.op("Sigmoid", net.gemm(net.reduce("ReduceMean", x, [2, 3], 0), 20, 20)),
                  net.const([2, 3]))
    x = net.op("Relu", net.conv(net.op("Mul", x, gate), 20, 36, [1, 1]))
    net.reduce("ReduceMax", x, [2, 3], 0, out="gated")
    net.op("MatMul", net.op("Mul", rows, net.reduce("ReduceMax", rows, [2])), net.weight(37, 50), out="scaled")
    net.op("MatMul", net.op("Cast", codes, to=F32), net.weight(37, 18), out="converted")
    net.output("gated", F32, "batch", 36)
    net.output("scaled", F32, "batch", 9, 50)
    net.output("converted", F32, "batch", 11, 18)
    return [[net.uniform(-1, 1, n, 3, 6, 7), net.uniform(-1, 1, n, 9, 37),
             np.rint(net.uniform(0, 9, n, 11, 37)).astype(np.uint8)] for n in (1, 2)]


@model("large maps between small kernels: 3x3 Conv over tiles that overhang on both sides, another that reads its "
       "result, "
       "depthwise then pointwise; the rows between them are handed over a block at a time")
def handed_over(net):
    a, b = net.input("a", F32, "batch", 4, 62, 1), net.input("b", F32, "batch", 4, 1, 61)
    x = net.op("Relu", net.conv(net.op("Mul", a, b), 4, 32, [1, 1]))

    def window(x, count):
        w = net.op("Mul", net.uniform(-0.3, 0.3, count, 1, 3, 3), net.uniform(-1, 1, 1, 32, 3, 3))
        return net.op("Relu", net.op("Conv", x, w, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))

    x = window(x, 32)
    net.reduce("ReduceMax", x, [2], 0, out="columns")
    y = window(x, 8)
    net.reduce("ReduceMax", y, [3], 0, out="rows")
    wide = net.conv(net.op("Concat", x, x, x, x, y, axis=1), 136, 136, [3, 3], pads=[1, 1, 1, 1], group=136)
    net.reduce("ReduceMean", net.op("Clip", net.conv(net.op("Relu", wide), 136, 8, [1, 1]), np.float32(-1),
                                    np.float32(6)), [3], 0, out="projected")
    net.output("columns", F32, "batch", 32, 61)
    net.output("rows", F32, "batch", 8, 62)
    net.output("projected", F32, "batch", 8, 62)
    return [[net.uniform(-1, 1, n, 4, 62, 1), net.uniform(-1, 1, n, 4, 1, 61)] for n in (1, 2)]


@model("Conv, MaxPool, flatten by Shape-Gather-Unsqueeze-Concat-Reshape, two Gemm, Softmax; symbolic batch", opset=13)
def dynamic_batch_cnn(net):
    x = net.input("image", F32, "batch", 1, 12, 12)
    y = net.op("MaxPool", net.op("Relu", net.same(x, 1, 6)), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("MaxPool", net.op("Relu", net.same(y, 6, 8)), kernel_shape=[2, 2], strides=[2, 2])
    batch = net.op("Gather", net.op("Shape", y), net.const(np.int64(0)), axis=0)
    batch = net.op("Unsqueeze", batch, net.const([0]))
    y = net.op("Reshape", y, net.op("Concat", batch, net.const([-1]), axis=0))
    y = net.gemm(net.op("Relu", net.gemm(y, 72, 16)), 16, 10)
    net.op("Softmax", y, out="probabilities", axis=1)
    net.output("probabilities", F32, "batch", 10)
    return [[net.uniform(-1, 1, n, 1, 12, 12)] for n in (1, 4, 7)]


@model("keyword spotting over frames: strided one-dimensional Conv, mean and maximum over a symbolic length")
def dynamic_length_conv(net):
    x = net.input("frames", F32, 1, "T", 10)
    y = net.op("Transpose", x, perm=[0, 2, 1])
    y = net.op("Relu", net.conv(y, 10, 12, [5], strides=[2], pads=[2, 2]))
    y = net.op("Relu", net.conv(y, 12, 12, [3], pads=[1, 1]))
    mean, top = net.reduce("ReduceMean", y, [2], 0), net.reduce("ReduceMax", y, [2], 0)
    net.gemm(net.op("Concat", mean, top, axis=1), 24, 5, out="scores")
    net.output("scores", F32, 1, 5)
    return [[net.uniform(-1, 1, 1, t, 10)] for t in (25, 8, 1)]
