"""Steps of decoders whose keys and values lie in caches of a fixed length: a step writes one row of each.

An open length is the caches'; the tests tie the caches that come out to those that go in (--state), and play several
steps.
"""
import numpy as np

from .kit import F32, I64, I8, model

WIDTH, HEADS, EACH = 16, 2, 8


def projections(net, x):
    """Query, key and value of one token: [1, HEADS, 1, EACH] each."""
    def one():
        y = net.op("Reshape", net.linear(x, WIDTH, WIDTH), [1, 1, HEADS, EACH])
        return net.op("Transpose", y, perm=[0, 2, 1, 3])

    return one(), one(), one()


def attend(net, x, q, keys, values, pos):
    """The token looks at the rows 0..pos of caches of [1, HEADS, L, EACH]."""
    length = net.op("Gather", net.op("Shape", keys), np.int64(2), axis=0)
    places = net.op("Range", np.int64(0), length, np.int64(1))
    seen = net.op("LessOrEqual", places, pos)
    s = net.op("MatMul", q, net.op("Transpose", keys, perm=[0, 1, 3, 2]))
    s = net.op("Where", seen, net.op("Mul", s, np.float32(EACH**-0.5)), np.float32(-1e9))
    y = net.op("MatMul", net.op("Softmax", s, axis=-1), values)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [1, 1, WIDTH])
    net.op("Add", x, net.linear(y, WIDTH, WIDTH), out="y")
    net.output("y", F32, 1, 1, WIDTH)


def steps(net, *shape):
    """Variants: the length, and where the step writes."""
    def cache(length):
        return net.uniform(-1, 1, *(length if n == "L" else n for n in shape))

    return [[net.uniform(-1, 1, 1, 1, WIDTH), np.array([pos]), cache(length), cache(length)]
            for length, pos in ((12, 0), (12, 11), (5, 3))]


@model("step of a decoder with a cache of keys and one of values, written by TensorScatter; symbolic length", opset=24)
def cache_tensor_scatter(net):
    x, pos = net.input("x", F32, 1, 1, WIDTH), net.input("pos", I64, 1)
    shape = (1, HEADS, "L", EACH)
    old = net.input("past_keys", F32, *shape), net.input("past_values", F32, *shape)
    q, k, v = projections(net, x)
    keys = net.op("TensorScatter", old[0], k, pos, out="keys")
    values = net.op("TensorScatter", old[1], v, pos, out="values")
    attend(net, x, q, keys, values, pos)
    net.output("keys", F32, *shape)
    net.output("values", F32, *shape)
    return steps(net, *shape)


@model("step of a decoder with caches whose rows lie outermost: ScatterND for the keys, ScatterElements for the "
       "values; symbolic length", opset=18)
def cache_scatter_rows(net):
    x, pos = net.input("x", F32, 1, 1, WIDTH), net.input("pos", I64, 1)
    shape = ("L", HEADS, EACH)
    old = net.input("past_keys", F32, *shape), net.input("past_values", F32, *shape)
    q, k, v = projections(net, x)
    k, v = (net.op("Reshape", r, [1, HEADS, EACH]) for r in (k, v))
    keys = net.op("ScatterND", old[0], net.op("Unsqueeze", pos, [1]), k, out="keys")
    place = net.op("Expand", net.op("Unsqueeze", pos, [1, 2]), [1, HEADS, EACH])
    values = net.op("ScatterElements", old[1], place, v, axis=0, out="values")
    whole = [net.op("Unsqueeze", net.op("Transpose", c, perm=[1, 0, 2]), [0]) for c in (keys, values)]
    attend(net, x, q, *whole, pos)
    net.output("keys", F32, *shape)
    net.output("values", F32, *shape)
    return steps(net, *shape)


@model("step of a decoder with caches as PyTorch's exporter writes them: ScatterND between two Transpose; symbolic "
       "length", opset=18)
def cache_scatter_turned(net):
    x, pos = net.input("x", F32, 1, 1, WIDTH), net.input("pos", I64, 1)
    shape = (1, HEADS, "L", EACH)
    old = net.input("past_keys", F32, *shape), net.input("past_values", F32, *shape)
    q, k, v = projections(net, x)
    place = net.op("Unsqueeze", pos, [1])
    new = []
    for cache, row, name in ((old[0], k, "keys"), (old[1], v, "values")):
        turned, rows = (net.op("Transpose", t, perm=[2, 0, 1, 3]) for t in (cache, row))
        new.append(net.op("Transpose", net.op("ScatterND", turned, place, rows), perm=[1, 2, 0, 3], out=name))
    attend(net, x, q, *new, pos)
    net.output("keys", F32, *shape)
    net.output("values", F32, *shape)
    return steps(net, *shape)


@model("step of a decoder with caches in bytes: QuantizeLinear, TensorScatter, DequantizeLinear; keys with one scale, "
       "values with one for each channel; symbolic length", opset=24)
def cache_in_bytes(net):
    x, pos = net.input("x", F32, 1, 1, WIDTH), net.input("pos", I64, 1)
    shape = (1, HEADS, "L", EACH)
    q = projections(net, x)[0]
    row = net.op("Reshape", x, [1, HEADS, 1, EACH])  # no product: what is rounded to a code is the same everywhere
    whole = []
    for name, scale in (("keys", np.float32(0.01)), ("values", net.uniform(0.005, 0.01, EACH))):
        numbers = scale, np.zeros(np.shape(scale), np.int8)
        codes = net.op("QuantizeLinear", row, *numbers, axis=3)
        new = net.op("TensorScatter", net.input("past_" + name, I8, *shape), codes, pos, out=name)
        net.output(name, I8, *shape)
        whole.append(net.op("DequantizeLinear", new, *numbers, axis=3))
    attend(net, x, q, *whole, pos)
    return [[x, pos, *(net.ints(-128, 128, *c.shape, dtype=np.int8) for c in caches)]
            for x, pos, *caches in steps(net, *shape)]


@model("step of a decoder with caches in bytes that are written as floats: QuantizeLinear of all that "
       "DequantizeLinear, TensorScatter (keys) and ScatterND (values) give; keys are read behind it, values before; "
       "symbolic length", opset=24)
def cache_requantized(net):
    x, pos = net.input("x", F32, 1, 1, WIDTH), net.input("pos", I64, 1)
    shape = (1, HEADS, "L", EACH)
    q = projections(net, x)[0]
    row = net.op("Reshape", x, [1, HEADS, 1, EACH])
    scale, zero = np.float32(0.01), np.int8(3)
    old = net.op("DequantizeLinear", net.input("past_keys", I8, *shape), scale, zero)
    new = net.op("QuantizeLinear", net.op("TensorScatter", old, row, pos), scale, zero, out="keys")
    keys = net.op("DequantizeLinear", new, scale, zero)
    numbers = net.uniform(0.005, 0.01, EACH), net.ints(-8, 9, EACH, dtype=np.int8)
    old = net.op("DequantizeLinear", net.input("past_values", I8, *shape), *numbers, axis=3)
    rows = net.op("Reshape", x, [1, HEADS, EACH])
    turned = net.op("ScatterND", net.op("Transpose", old, perm=[2, 0, 1, 3]), net.op("Unsqueeze", pos, [1]),
                    net.op("Unsqueeze", rows, [0]))
    values = net.op("Transpose", turned, perm=[1, 2, 0, 3])
    net.op("QuantizeLinear", values, *numbers, axis=3, out="values")
    net.output("keys", I8, *shape)
    net.output("values", I8, *shape)
    attend(net, x, q, keys, values, pos)
    return [[x, pos, *(net.ints(-128, 128, *c.shape, dtype=np.int8) for c in caches)]
            for x, pos, *caches in steps(net, *shape)]
