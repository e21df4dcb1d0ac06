"""Models about the file rather than the mathematics: where weights lie, how they are stored, odd but legal graphs."""
import numpy as np
import onnx
from onnx import helper

from .kit import BOOL, F16, F32, F64, I8, I32, I64, U8, model


@model("external data: three weights in external_data.data at offsets of 64 bytes, one left inside; offset and length "
       "given")
def external_data(net):
    x = net.input("x", F32, "N", 3, 8, 8)
    net.init(net.uniform(-0.3, 0.3, 6, 3, 3, 3), "kernel")
    net.init(net.uniform(-0.2, 0.2, 6), "bias")
    net.init(net.uniform(-0.2, 0.2, 10, 6), "matrix")
    net.external.update({n: "external_data.data" for n in ("kernel", "bias", "matrix")})
    y = net.op("Relu", net.op("Conv", x, "kernel", "bias", kernel_shape=[3, 3], strides=[2, 2]))
    y = net.op("Flatten", net.op("GlobalMaxPool", y))
    net.op("Gemm", y, "matrix", net.uniform(-0.2, 0.2, 10), out="scores", transB=1)
    net.output("scores", F32, "N", 10)
    return [[net.uniform(-1, 1, n, 3, 8, 8)] for n in (1, 2)]


@model("IR 3: every initialiser is also listed as an input, before, between and after the real ones", opset=8, ir=3)
def initialisers_as_inputs(net):
    w, b = net.init(net.uniform(-0.5, 0.5, 6, 4), "w"), net.init(net.uniform(-0.2, 0.2, 4), "b")
    shape = net.init(np.array([2, 2, 3], np.int64), "shape")
    net.listed = False
    net.input("w", F32, 6, 4)
    x = net.input("x", F32, 2, 6)
    net.input("b", F32, 4)
    net.input("shape", I64, 3)
    z = net.input("z", F32, 2, 4)
    y = net.op("Add", net.op("Gemm", x, w, b), z)
    net.op("Tanh", y, out="y")
    net.op("Reshape", x, shape, out="r")
    net.output("y", F32, 2, 4)
    net.output("r", F32, 2, 2, 3)
    return [[net.uniform(-1, 1, 2, 6), net.uniform(-1, 1, 2, 4)]]


@model("initialisers in typed fields rather than raw bytes: float, double, int32 (also for float16, int8, uint8, "
       "bool), int64; one empty")
def typed_initialisers(net):
    x = net.input("x", F32, 3)

    def typed(name, kind, shape, values):
        net.initialisers.append(helper.make_tensor(name, kind, shape, values))
        return name

    total = net.op("Add", x, typed("float", F32, [3], [0.5, -1.25, 2.0]))
    for name, kind, values in (("double", F64, [1e-3, 2.5, -3.0]), ("int32", I32, [4, -5, 6]),
                               ("half", F16, [0.125, -2.0, 1.5]), ("int8", I8, [-128, 127, 3]),
                               ("uint8", U8, [255, 0, 17]), ("flag", BOOL, [1, 0, 1]), ("int64", I64, [-7, 8, 9])):
        total = net.op("Add", total, net.op("Cast", typed(name, kind, [3], values), to=F32))
    typed("empty", F32, [0], [])
    net.op("Concat", total, "empty", out="y", axis=0)
    net.output("y", F32, 3)
    return [[net.uniform(-1, 1, 3)]]


@model("odd but legal: an output that is an initialiser, one that only copies an input, an input nobody reads, dead "
       "nodes, the same expression twice, one value at two outputs' roots, nodes without names, metadata")
def graph_oddities(net):
    x, _ = net.input("x", F32, 2, 3), net.input("unread", F32, 7)
    net.init(net.uniform(-1, 1, 2, 2), "constant")
    net.op("Exp", net.op("Neg", x))  # nobody reads this
    first, second = net.op("Tanh", x, node=""), net.op("Tanh", x, node="")
    net.op("Sub", first, second, out="zero", node="")
    net.op("Identity", x, out="copy")
    net.op("Mul", first, np.float32(2), out="twice")
    net.op("Add", "twice", second, out="thrice")
    same = net.op("Transpose", net.op("Transpose", "thrice", perm=[1, 0]), perm=[1, 0])
    net.op("Add", net.op("Mul", same, np.float32(1)), np.float32(0), out="still")
    for name, shape in (("constant", (2, 2)), ("zero", (2, 3)), ("copy", (2, 3)), ("twice", (2, 3)),
                        ("thrice", (2, 3)), ("still", (2, 3))):
        net.output(name, F32, *shape)
    net.metadata.update({"author": "Einkorn", "note": "metadata stays readable: \u00e4\u00f6\u00fc"})
    return [[net.uniform(-1, 1, 2, 3), net.uniform(-1, 1, 7)]]


@model("Constant in every numeric form (value, value_float, value_floats, value_int, value_ints), ConstantOfShape with "
       "and without a value")
def constant_forms(net):
    x = net.input("x", F32, 4)
    y = net.op("Mul", x, net.op("Constant", value_float=1.5))
    y = net.op("Add", y, net.op("Constant", value_floats=[0.1, 0.2, 0.3, 0.4]))
    y = net.op("Reshape", y, net.op("Constant", value_ints=[2, 2]))
    y = net.op("Mul", y, net.op("Cast", net.op("Constant", value_int=3), to=F32))
    y = net.op("Sub", y, net.const(np.array([[1], [2]], np.float32)))
    ones = net.op("ConstantOfShape", [2, 2], value=helper.make_tensor("v", F32, [1], [0.75]))
    net.op("Concat", y, ones, net.op("ConstantOfShape", [2, 1]), out="y", axis=1)
    net.op("ConstantOfShape", np.zeros(0, np.int64), out="scalar", value=helper.make_tensor("w", I64, [1], [42]))
    net.output("y", F32, 2, 5)
    net.output("scalar", I64)
    return [[net.uniform(-1, 1, 4)]]


@model("functions in the model file: one with a default for its attribute, calling another that has no attribute; in a "
       "domain of their own", ir=10)
def model_functions(net):
    x = net.input("x", F32, 2, 5)
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("tests.own", 1)]
    swish = helper.make_function("tests.own", "Swish", ["v"], ["r"], [
        helper.make_node("Sigmoid", ["v"], ["s"]), helper.make_node("Mul", ["v", "s"], ["r"])], opset)
    product = helper.make_node("Gemm", ["t", "m"], ["r"])
    reference = product.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "factor", onnx.AttributeProto.FLOAT
    mix = helper.make_function("tests.own", "Mix", ["v", "w", "m"], ["r"], [
        helper.make_node("Swish", ["v"], ["s"], domain="tests.own"), helper.make_node("Add", ["s", "w"], ["t"]),
        product], opset, attribute_protos=[helper.make_attribute("factor", 0.5)])
    net.functions += [swish, mix]
    net.domains["tests.own"] = 1
    h = net.linear(x, 5, 4)
    y = net.op("Mix", h, net.uniform(-1, 1, 4), net.weight(4, 4, fan=4), domain="tests.own", factor=1.5)
    net.op("Mix", y, h, net.weight(4, 3, fan=4), out="y", domain="tests.own")
    net.output("y", F32, 2, 3)
    return [[net.uniform(-1, 1, 2, 5)]]


@model("a name shared by inner and outer graphs only through reading, names with slashes, dots, spaces, colons and "
       "letters beyond ASCII")
def strange_names(net):
    x = net.input("model/in.put:0", F32, 2, 3)
    net.init(net.uniform(-1, 1, 3, 4), "layer 1/w\u00e4ights")
    y = net.op("MatMul", x, "layer 1/w\u00e4ights", out="a.b.c/MatMul:0", node="a.b.c/MatMul")
    y = net.op("Relu", y, out="\u03b1 + \u03b2", node="say \"hello\"")
    net.op("Softplus", y, out="%4", node="123")
    net.output("%4", F32, 2, 4)
    return [[net.uniform(-1, 1, 2, 3)]]


@model("formulas a user writes by hand: softmax with temperature, RMS norm, a variance normalisation of its own, "
       "attention from these; nothing names the pattern")
def handmade_norms(net):
    x = net.input("x", F32, 2, 7, 12)
    hot = net.op("Mul", x, np.float32(1.7))
    e = net.op("Exp", net.op("Sub", hot, net.reduce("ReduceMax", hot, [-1])))
    soft = net.op("Mul", e, net.op("Reciprocal", net.reduce("ReduceSum", e, [-1])), out="soft")
    square = net.op("ReduceSumSquare", x, axes=[2])
    root = net.op("Pow", net.op("Add", net.op("Div", square, np.float32(12)), np.float32(1e-3)), np.float32(-0.5))
    rms = net.op("Mul", x, root, out="rms")
    spread = net.op("Sub", net.reduce("ReduceMax", x, [-1]), net.reduce("ReduceMin", x, [-1]))
    net.op("Div", net.op("Sub", x, net.reduce("ReduceMean", x, [-1])), spread, out="ranged")
    s = net.op("MatMul", rms, net.op("Transpose", soft, perm=[0, 2, 1]))
    e = net.op("Exp", net.op("Sub", s, net.reduce("ReduceMax", s, [-1])))
    p = net.op("MatMul", e, x)
    net.op("Div", p, net.reduce("ReduceSum", e, [-1]), out="attended")
    for name in ("soft", "rms", "ranged", "attended"):
        net.output(name, F32, 2, 7, 12)
    return [[net.uniform(-2, 2, 2, 7, 12)]]


@model("a residual chain 40 blocks deep on a tiny vector: many small kernels, long lifetimes")
def deep_chain(net):
    x = net.input("x", F32, 1, 6)
    y, early = x, None
    for i in range(40):
        y = net.op("Add", y, net.op("Mul", net.op("Tanh", net.gemm(y, 6, 6)), np.float32(0.2)))
        early = y if i == 3 else early
    net.op("Concat", y, early, out="y", axis=1)
    net.output("y", F32, 1, 12)
    return [[net.uniform(-1, 1, 1, 6)]]
