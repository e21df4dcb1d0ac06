"""Models of element types and scalar functions: float64, float16, integers, casts, quantised values, reductions."""
import numpy as np

from .kit import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, model


@model("float64 throughout: Gemm, Tanh, Softmax, Conv; agrees to far more digits than float32 has")
def float64_net(net):
    x = net.input("x", F64, 3, 8)

    def dense(v, cin, cout, out=None):
        return net.op("Gemm", v, net.uniform(-0.6, 0.6, cin, cout, dtype=np.float64),
                      net.uniform(-0.2, 0.2, cout, dtype=np.float64), out=out)

    y = net.op("Tanh", dense(x, 8, 12))
    net.op("Softmax", dense(y, 12, 5), out="p", axis=-1)
    maps = net.op("Reshape", y, [3, 1, 3, 4])
    net.op("Conv", maps, net.uniform(-0.5, 0.5, 2, 1, 3, 3, dtype=np.float64), out="c", kernel_shape=[3, 3],
           pads=[1, 1, 1, 1])
    net.output("p", F64, 3, 5)
    net.output("c", F64, 3, 2, 3, 4)
    return [[net.uniform(-1, 1, 3, 8, dtype=np.float64)]]


@model("float16: Conv, Relu, MaxPool, Gemm on values that are exact in float16 in any order; Cast to float32, Softmax")
def float16_net(net):
    x = net.input("x", F16, 2, 2, 6, 6)

    def eighths(*shape):
        return (net.ints(-8, 9, *shape) / 8).astype(np.float16)

    y = net.op("Conv", x, eighths(4, 2, 3, 3), eighths(4), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = net.op("MaxPool", net.op("Relu", y), kernel_shape=[2, 2], strides=[2, 2])
    net.op("Identity", y, out="maps")
    y = net.op("Mul", net.op("Reshape", net.op("Cast", y, to=F32), [2, 36]), np.float32(0.25))
    y = net.op("Softmax", net.gemm(y, 36, 5), axis=1)
    net.op("Cast", y, out="p", to=F16)
    net.op("Add", x, net.op("Sqrt", net.op("Mul", x, x)), out="positive")
    net.output("maps", F16, 2, 4, 3, 3)
    net.output("p", F16, 2, 5)
    net.output("positive", F16, 2, 2, 6, 6)
    return [[(net.ints(-4, 5, 2, 2, 6, 6) / 4).astype(np.float16)]]


@model("Cast between float32, float16, float64, bfloat16, every integer width and bool; CastLike", opset=19)
def cast_types(net):
    x, i = net.input("x", F32, 3, 5), net.input("i", I64, 6)
    for name, kind in (("half", F16), ("double", F64), ("int8", I8), ("int16", I16), ("int32", I32), ("bool", BOOL)):
        net.op("Cast", x, out=name, to=kind)
        net.output(name, kind, 3, 5)
    net.op("Cast", net.op("Abs", x), out="uint8", to=U8)
    net.output("uint8", U8, 3, 5)
    net.op("Cast", net.op("Cast", x, to=BF16), out="short", to=F32)
    net.output("short", F32, 3, 5)
    net.op("Cast", i, out="small", to=I32)
    net.output("small", I32, 6)
    net.op("CastLike", i, x, out="like")
    net.output("like", F32, 6)
    net.op("Cast", net.op("Greater", i, np.int64(0)), out="flags", to=F32)
    net.output("flags", F32, 6)
    return [[net.uniform(-90, 90, 3, 5), np.array([0, 1, -1, 2**24 + 1, -(2**31), 2**31 - 1], np.int64)]]


@model("integers: Add, Mul that wraps, Div to zero, Mod with both signs, fmod, BitShift, bitwise, Min, Max, Abs, Sign, "
       "Pow, Clip, ReduceSum, MatMul", opset=18)
def integers(net):
    a, b = net.input("a", I32, 2, 6), net.input("b", I32, 6)
    u, f = net.input("u", U8, 6), net.input("f", F32, 6)
    net.op("Mul", net.op("Add", a, b), np.int32(1000003), out="wrapped")
    net.op("Div", a, b, out="quotient")
    net.op("Mod", a, b, out="modulus")
    net.op("Mod", a, b, out="remainder", fmod=1)
    net.op("Mod", f, np.float32(0.7), out="float_remainder", fmod=1)
    net.op("BitShift", u, np.array([1, 2, 0, 3, 1, 7], np.uint8), out="left", direction="LEFT")
    net.op("BitwiseXor", net.op("BitwiseAnd", a, b), net.op("BitwiseNot", b), out="bits")
    net.op("Sub", net.op("Max", a, b), net.op("Min", a, b), out="spread")
    net.op("Mul", net.op("Sign", a), net.op("Abs", a), out="again")
    net.op("Clip", a, np.int32(-5), np.int32(4), out="clipped")
    net.op("ReduceSum", a, [1], out="sum", keepdims=0)
    net.op("MatMul", a, net.op("Reshape", b, [6, 1]), out="product")
    net.op("Pow", f, np.int32(3), out="cube")
    for name in ("wrapped", "quotient", "modulus", "remainder", "bits", "spread", "again", "clipped"):
        net.output(name, I32, 2, 6)
    net.output("float_remainder", F32, 6)
    net.output("left", U8, 6)
    net.output("sum", I32, 2)
    net.output("product", I32, 2, 1)
    net.output("cube", F32, 6)
    a = np.array([[7, -7, 9, -9, 2000, 0], [-1, 5, -8, 8, -2001, 123456]], np.int32)
    b = np.array([3, 3, -4, -4, 7, -11], np.int32)
    return [[a, b, np.array([1, 200, 255, 17, 128, 3], np.uint8), net.uniform(-3, 3, 6)]]


@model("activations: Sigmoid, Tanh, Relu, LeakyRelu, Elu, Selu, Celu, ThresholdedRelu, Softplus, Softsign, "
       "HardSigmoid, HardSwish, Mish, Gelu, Shrink", opset=20)
def activations(net):
    x = net.input("x", F32, 3, 8)
    kinds = [("Sigmoid", {}), ("Tanh", {}), ("Relu", {}), ("LeakyRelu", {"alpha": 0.2}), ("Elu", {"alpha": 0.7}),
             ("Selu", {}), ("Celu", {"alpha": 1.3}), ("ThresholdedRelu", {"alpha": 0.5}), ("Softplus", {}),
             ("Softsign", {}), ("HardSigmoid", {}), ("HardSwish", {}), ("Mish", {}), ("Gelu", {}),
             ("Shrink", {"lambd": 0.4, "bias": 0.1})]
    for kind, attributes in kinds:
        net.op(kind, x, out=kind.lower(), **attributes)
        net.output(kind.lower(), F32, 3, 8)
    return [[net.uniform(-4, 4, 3, 8)]]


@model("Exp, Log, Sqrt, Reciprocal, Pow, Erf, all trigonometric and hyperbolic functions and inverses, Floor, Ceil, "
       "Round (half to even), Sign, Mean, Sum, Min, Max of many")
def functions(net):
    x = net.input("x", F32, 16)  # within -1..1
    y = net.op("Add", net.op("Abs", x), np.float32(1.25), out="y")
    for kind in ("Exp", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Sign"):
        net.op(kind, x, out=kind.lower())
        net.output(kind.lower(), F32, 16)
    for kind in ("Log", "Sqrt", "Reciprocal", "Acosh"):
        net.op(kind, y, out=kind.lower())
        net.output(kind.lower(), F32, 16)
    net.op("Pow", y, x, out="pow")
    halves = net.op("Mul", net.op("Floor", net.op("Mul", x, np.float32(9))), np.float32(0.5), out="halves")
    net.op("Round", halves, out="round")
    net.op("Ceil", halves, out="ceil")
    for kind in ("Mean", "Sum", "Min", "Max"):
        net.op(kind, x, y, "halves", np.float32(0.3), out=kind.lower())
        net.output(kind.lower(), F32, 16)
    for name in ("pow", "halves", "round", "ceil"):
        net.output(name, F32, 16)
    return [[net.uniform(-0.97, 0.97, 16)]]


@model("infinities and NaN through IsNaN, IsInf, Max, Min, Where, Relu, Clip, Exp, Softmax, ReduceMax, Cast")
def special_values(net):
    x = net.input("x", F32, 2, 6)
    net.op("IsNaN", x, out="nan")
    net.op("IsInf", x, out="inf")
    net.op("IsInf", x, out="minus", detect_positive=0)
    clean = net.op("Where", "nan", np.float32(0), x, out="clean")
    net.op("Max", clean, np.float32(-1), out="max")
    net.op("Clip", clean, np.float32(-2), np.float32(2), out="clip")
    net.op("Exp", net.op("Neg", clean), out="exp")
    net.op("Add", x, np.float32(1), out="carried")
    net.op("Softmax", net.op("Min", clean, np.float32(30)), out="soft", axis=1)
    net.op("ReduceMax", clean, out="top", axes=[1], keepdims=0)
    for name in ("nan", "inf", "minus"):
        net.output(name, BOOL, 2, 6)
    for name in ("clean", "max", "clip", "exp", "carried", "soft"):
        net.output(name, F32, 2, 6)
    net.output("top", F32, 2)
    inf, nan = np.inf, np.nan
    return [[np.array([[inf, 1, -inf, nan, 0.5, -2], [0, -1, nan, 3, -inf, 2]], np.float32)]]


@model("ReduceSum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp: axes as inputs, none, all, empty with "
       "noop, negative, keepdims", opset=18)
def reductions(net):
    x = net.input("x", F32, 3, 4, 5)
    positive = net.op("Abs", x)
    net.op("ReduceSum", x, [1], out="sum")
    net.op("ReduceMean", x, [0, -1], out="mean", keepdims=0)
    net.op("ReduceMax", x, [2], out="max", keepdims=0)
    net.op("ReduceMin", x, out="min", keepdims=0)
    net.op("ReduceProd", x, [0], out="prod")
    net.op("ReduceL1", x, [1, 2], out="l1", keepdims=0)
    net.op("ReduceL2", x, [-2], out="l2", keepdims=0)
    net.op("ReduceSumSquare", x, [0, 1, 2], out="sum_square")
    net.op("ReduceLogSum", positive, [2], out="log_sum", keepdims=0)
    net.op("ReduceLogSumExp", x, [0, 2], out="log_sum_exp", keepdims=0)
    net.op("ReduceSum", x, np.zeros(0, np.int64), out="noop", noop_with_empty_axes=1)
    net.op("ReduceSum", x, np.zeros(0, np.int64), out="all", keepdims=0)
    for name, shape in (("sum", (3, 1, 5)), ("mean", (4,)), ("max", (3, 4)), ("min", ()), ("prod", (1, 4, 5)),
                        ("l1", (3,)), ("l2", (3, 5)), ("sum_square", (1, 1, 1)), ("log_sum", (3, 4)),
                        ("log_sum_exp", (4,)), ("noop", (3, 4, 5)), ("all", ())):
        net.output(name, F32, *shape)
    return [[net.uniform(-1.5, 1.5, 3, 4, 5)]]


@model("QuantizeLinear and DequantizeLinear pairs around Conv and Gemm: per tensor and per channel, uint8 and int8, "
       "scales that are powers of two, so that every sum is exact", opset=13)
def quantize_pair(net):
    x = net.input("x", F32, 1, 3, 8, 8)
    scale, zero = np.float32(1 / 64), np.uint8(128)
    fine = net.op("DequantizeLinear", net.op("QuantizeLinear", x, scale, zero, out="q"), scale, zero)
    w = net.op("DequantizeLinear", net.ints(-40, 41, 4, 3, 3, 3).astype(np.int8),
               np.array([1 / 64, 1 / 32, 1 / 128, 1 / 64], np.float32), np.zeros(4, np.int8), axis=0)
    b = net.op("DequantizeLinear", net.ints(-3000, 3000, 4, dtype=np.int32),
               np.array([1 / 4096, 1 / 2048, 1 / 8192, 1 / 4096], np.float32), axis=0)
    y = net.op("Relu", net.op("Conv", fine, w, b, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    small = np.float32(1 / 32)
    y = net.op("QuantizeLinear", y, small, np.uint8(0), out="codes")
    y = net.op("Reshape", net.op("DequantizeLinear", y, small, np.uint8(0)), [1, 64])
    v = net.op("DequantizeLinear", net.ints(-60, 61, 64, 5).astype(np.int8), np.float32(1 / 128), np.int8(3))
    net.op("Gemm", y, v, out="scores")
    net.output("q", U8, 1, 3, 8, 8)
    net.output("codes", U8, 1, 4, 4, 4)
    net.output("scores", F32, 1, 5)
    return [[net.uniform(-2.2, 2.2, 1, 3, 8, 8)]]


@model("integer products: MatMulInteger and ConvInteger with zero points, DynamicQuantizeLinear, QLinearMatMul")
def quantize_integer(net):
    a, b = net.input("a", U8, 4, 6), net.input("b", I8, 6, 3)
    x = net.input("x", F32, 2, 5)
    maps = net.input("maps", U8, 1, 2, 5, 5)
    net.op("MatMulInteger", a, b, np.uint8(12), np.int8(-3), out="sums")
    net.op("ConvInteger", maps, net.ints(0, 256, 3, 2, 3, 3).astype(np.uint8), np.uint8(100), np.uint8(120),
           out="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.op("DynamicQuantizeLinear", x, out=["code", "scale", "zero"])
    net.op("QLinearMatMul", a, np.float32(1 / 64), np.uint8(12), b, np.float32(1 / 32), np.int8(-3), np.float32(0.25),
           np.uint8(90), out="requantised")
    net.output("sums", I32, 4, 3)
    net.output("conv", I32, 1, 3, 5, 5)
    net.output("code", U8, 2, 5)
    net.output("scale", F32)
    net.output("zero", U8)
    net.output("requantised", U8, 4, 3)
    return [[net.ints(0, 256, 4, 6).astype(np.uint8), net.ints(-128, 128, 6, 3).astype(np.int8),
             net.uniform(-1.3, 2.1, 2, 5), net.ints(0, 256, 1, 2, 5, 5).astype(np.uint8)]]


@model("Softmax, LogSoftmax and Hardmax along first, middle and last axes; large and equal values")
def softmax_axes(net):
    x = net.input("x", F32, 3, 4, 6)
    for axis, name in ((0, "first"), (1, "middle"), (-1, "last")):
        net.op("Softmax", x, out=f"soft_{name}", axis=axis)
        net.op("LogSoftmax", x, out=f"log_{name}", axis=axis)
        net.output(f"soft_{name}", F32, 3, 4, 6)
        net.output(f"log_{name}", F32, 3, 4, 6)
    net.op("Hardmax", x, out="hard", axis=1)
    net.output("hard", F32, 3, 4, 6)
    x = net.uniform(-3, 3, 3, 4, 6)
    x[0, 0] = 80
    x[1, :, 2] = -90
    return [[x]]


@model("products of bytes without zero points, and with ones of 0: unsigned by signed and signed by unsigned, a "
       "constant or not, odd lengths, an open length; ConvInteger of 1x1 and of 3x3")
def byte_products(net):
    a, b = net.input("a", U8, "m", "k"), net.input("b", I8, "k", "n")
    c, maps = net.input("c", I8, "m", 51), net.input("maps", U8, 1, 12, 6, 7)
    net.op("MatMulInteger", a, b, out="inputs")
    net.op("MatMulInteger", c, net.ints(0, 256, 51, 19).astype(np.uint8), out="constant")
    net.op("MatMulInteger", a, b, np.uint8(0), np.int8(0), out="zeros")
    net.op("ConvInteger", maps, net.ints(-128, 128, 20, 12, 1, 1).astype(np.int8), out="points")
    net.op("ConvInteger", maps, net.ints(-128, 128, 9, 12, 3, 3).astype(np.int8), out="window", pads=[1, 1, 1, 1])
    net.output("inputs", I32, "m", "n")
    net.output("constant", I32, "m", 19)
    net.output("zeros", I32, "m", "n")
    net.output("points", I32, 1, 20, 6, 7)
    net.output("window", I32, 1, 9, 6, 7)
    runs = []
    for m, k, n in ((5, 7, 18), (17, 64, 40), (33, 1, 3)):
        x, y = net.ints(0, 256, m, k).astype(np.uint8), net.ints(-128, 128, k, n).astype(np.int8)
        if m == 17:  # the sums farthest from 0
            x[0], y[:, 0] = 255, -128
        runs.append([x, y, net.ints(-128, 128, m, 51).astype(np.int8), net.ints(0, 256, 1, 12, 6, 7).astype(np.uint8)])
    return runs


@model("Gelu in three forms, tanh and erf far from 0: 0 far below, x far above; GridSample and DeformConv at places "
       "from "
       "1e6 to 3e38, infinity and NaN, as inputs and as constants", opset=20)
def far_values(net):
    x, image, grid = net.input("x", F32, 40), net.input("image", F32, 1, 2, 3, 4), net.input("grid", F32, 1, 6, 4, 2)
    net.op("Gelu", x, out="gelu")
    net.op("Gelu", x, out="short", approximate="tanh")
    erf = net.op("Add", net.op("Erf", net.op("Div", x, np.float32(np.sqrt(2)))), np.float32(1))
    net.op("Mul", net.op("Mul", x, erf), np.float32(0.5), out="written")
    net.op("Erf", x, out="erf")
    net.op("Tanh", x, out="tanh")
    far = [1e6, 3e9, 1e12, 1e20, 3e38, np.inf]
    places = np.array([0.3, -0.7, np.nan, 1.5, *far, *(-f for f in far)], np.float32)
    places = places[net.ints(0, len(places), 1, 6, 4, 2)]
    for name in ("gelu", "short", "written", "erf", "tanh"):
        net.output(name, F32, 40)
    for at in (grid, places):
        for mode, padding, corners in (("linear", "border", 0), ("linear", "zeros", 1), ("nearest", "border", 1),
                                       ("nearest", "zeros", 0), ("cubic", "border", 0), ("cubic", "zeros", 1)):
            name = f"{mode}_{padding}" + ("" if at is grid else "_constant")
            net.op("GridSample", image, at, out=name, mode=mode, padding_mode=padding, align_corners=corners)
            net.output(name, F32, 1, 2, 6, 4)
    offset = net.input("offset", F32, 1, 8, 2, 3)
    net.op("DeformConv", image, net.weight(2, 2, 2, 2), offset, out="deformed", kernel_shape=[2, 2])
    net.output("deformed", F32, 1, 2, 2, 3)
    values = np.array([s * v for v in (6, 9.5, 13, 100, 1e4, 65504, 1e9, 1e19, 2e37, 1e38) for s in (-1, 1)])
    values = np.concatenate([values, net.uniform(-6, 6, 20)]).astype(np.float32)
    shifts = np.concatenate([net.uniform(-1.5, 1.5, 30), [f * s for f in far for s in (-1, 1)], net.uniform(-3, 3, 6)])
    return [[values, net.uniform(-1, 1, 1, 2, 3, 4), places[..., ::-1].copy(),
             shifts.astype(np.float32)[net.ints(0, 48, 1, 8, 2, 3)]]]
