"""A decoder with seeded weights as an ONNX file, in the two forms in which exporters write its cache.

    python make_decoder.py grow.onnx                                        small: 2 layers of width 32
    python make_decoder.py shared4.onnx --form shared --bits 4
    python make_decoder.py big.onnx --form shared --layers 12 --width 768 --heads 12 --vocabulary 32000
    python make_decoder.py grow8.onnx --cache 8

The network is that of Llama and its like: root mean square normalisation, rotary positions, gated dense layers. Its
weights come from a random generator, so what it writes has no meaning, but every program that runs it must write the
same.

grow     Keys and values of the past are inputs, and Concat puts the new ones behind them: what comes out is longer than
         what went in. So torch.onnx and Optimum write decoders, in the operators of the standard.
shared   com.microsoft's GroupQueryAttention, as onnxruntime-genai's model builder writes it: the caches have room for
         all tokens, and what comes out is as long as what went in.

--bits 4 (or 8) stores the weights of dense layers in so many bits, as com.microsoft's MatMulNBits in blocks of 32.

--cache 8 stores keys and values as whole numbers of eight bits times a scale: a quarter of the memory of f32. In the form
grow QuantizeLinear stands in front of Concat, and DequantizeLinear behind it. In the form shared GroupQueryAttention has
the scales; there 4 bits are possible as well. Keys and values of these weights have a standard deviation of about 1, and
the scale leaves room for 5. `einkorn quantize --scheme caches` measures the scales of a trained decoder.

Needs the packages numpy and onnx.
"""
import argparse

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64, I32, I8, U8 = (getattr(TensorProto, t) for t in ("FLOAT", "INT64", "INT32", "INT8", "UINT8"))
PEER = "com.microsoft"
BLOCK = 32
GREATEST = 5.0  # magnitude of keys and values that a cache of whole numbers has room for


class Writer:
    """Collects nodes and constants. Each value has the name of its node."""

    def __init__(self, seed, bits):
        self.random, self.bits = np.random.default_rng(seed), bits
        self.nodes, self.constants, self.numbers = [], [], {}

    def const(self, name, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value, dtype=np.int64):
        """A constant of the shapes of nodes; equal ones are one."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.numbers:
            self.numbers[key] = self.const("constant_%d" % len(self.numbers), array)
        return self.numbers[key]

    def op(self, kind, name, *inputs, n=1, domain=None, **attributes):
        outputs = [name] if n == 1 else ["%s_%d" % (name, i) for i in range(n)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, domain=domain, **attributes))
        return outputs[0] if n == 1 else outputs

    def normal(self, *shape, scale):
        return self.random.normal(0, scale, shape).astype(np.float32)

    def linear(self, name, x, inner, outer, scale=1.0):
        """x times a matrix of random weights."""
        weights = self.normal(inner, outer, scale=scale * inner**-0.5)
        if self.bits == 32:
            return self.op("MatMul", name, x, self.const(name + ".weight", weights))
        packed, scales = quantize(weights.T, self.bits)
        return self.op("MatMulNBits", name, x, self.const(name + ".weight", packed),
                       self.const(name + ".scales", scales), domain=PEER, K=inner, N=outer, bits=self.bits,
                       block_size=BLOCK, accuracy_level=4)

    def norm(self, name, x, width):
        """x / sqrt(mean(x^2) + epsilon) * gain, node by node as exporters write it."""
        gain = self.const(name + ".gain", 1 + self.normal(width, scale=0.1))
        mean = self.op("ReduceMean", name + ".mean", self.op("Mul", name + ".square", x, x), self.number([-1]))
        root = self.op("Sqrt", name + ".root", self.op("Add", name + ".floor", mean, self.number(1e-5, np.float32)))
        return self.op("Mul", name, self.op("Div", name + ".unit", x, root), gain)


def quantize(rows, bits):
    """Rows of weights as MatMulNBits takes them: blocks of 32 with a scale, the middle of all codes for zero."""
    n, k = rows.shape
    zero = 1 << bits - 1
    blocks = rows.reshape(n, k // BLOCK, BLOCK)
    ends = np.take_along_axis(blocks, np.abs(blocks).argmax(2)[..., None], 2)
    scales = (ends / -zero).astype(np.float32)
    codes = np.clip(np.round(blocks / scales) + zero, 0, 2 * zero - 1).astype(np.uint8)
    return codes if bits == 8 else codes[..., ::2] | codes[..., 1::2] << 4, scales[..., 0]


def rotary_tables(longest, each):
    """Cosines and sines of all positions, one column for each pair of a head."""
    angles = np.arange(longest)[:, None] * 10000.0**(-np.arange(0, each, 2) / each)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Growing:
    """Attention in the operators of the standard. The cache grows by Concat."""

    def __init__(self, w, o):
        self.w, self.o, self.each = w, o, o.width // o.heads
        cos, sin = rotary_tables(o.longest, self.each)
        pos = self.pos = "position_ids"
        self.tables = [w.op("Unsqueeze", name, w.op("Gather", name + ".rows", w.const(name + ".table",
                            np.concatenate([t, t], 1)), pos), w.number([1])) for name, t in (("cos", cos), ("sin", sin))]
        # a query sees the keys of its own position and those before, where the mask of padding is 1
        length = w.op("Gather", "length", w.op("Shape", "mask.shape", "attention_mask"), w.number(1))
        places = w.op("Range", "places", w.number(0), length, w.number(1))
        before = w.op("LessOrEqual", "before", places, w.op("Unsqueeze", "own", pos, w.number([1, 3])))
        real = w.op("Unsqueeze", "real", w.op("Cast", "real.cast", "attention_mask", to=TensorProto.BOOL),
                    w.number([1, 2]))
        self.bias = w.op("Where", "bias", w.op("And", "seen", before, real), w.number(0, np.float32),
                         w.number(np.finfo(np.float32).min, np.float32))

    def heads(self, name, x, heads):
        """[batch, length, heads * each] as [batch, heads, length, each]."""
        w = self.w
        rows = w.op("Reshape", name + ".heads", x, w.number([0, -1, heads, self.each]))
        return w.op("Transpose", name + ".transposed", rows, perm=[0, 2, 1, 3])

    def rotated(self, name, x):
        w, half = self.w, self.each // 2
        low = w.op("Slice", name + ".low", x, w.number([0]), w.number([half]), w.number([3]))
        high = w.op("Slice", name + ".high", x, w.number([half]), w.number([2**62]), w.number([3]))
        turned = w.op("Concat", name + ".turned", w.op("Neg", name + ".minus", high), low, axis=-1)
        return w.op("Add", name + ".rotated", w.op("Mul", name + ".cos", x, self.tables[0]),
                    w.op("Mul", name + ".sin", turned, self.tables[1]))

    def repeated(self, name, x):
        """Each head of keys or values as often as queries share it."""
        w, o = self.w, self.o
        times = o.heads // o.kv_heads
        if times == 1:
            return x
        shape = w.op("Shape", name + ".shape", x)
        length = w.op("Slice", name + ".rows", shape, w.number([2]), w.number([3]), w.number([0]))
        batch = w.op("Slice", name + ".batch", shape, w.number([0]), w.number([1]), w.number([0]))
        wide = w.op("Concat", name + ".wide", batch, w.number([o.kv_heads, times]), length, w.number([self.each]),
                    axis=0)
        all_of = w.op("Concat", name + ".all", batch, w.number([o.heads]), length, w.number([self.each]), axis=0)
        spread = w.op("Expand", name + ".spread", w.op("Unsqueeze", name + ".one", x, w.number([2])), wide)
        return w.op("Reshape", name + ".repeated", spread, all_of)

    def cached(self, name, new):
        """All keys or values: those of the past and the new ones behind them."""
        w = self.w
        past, present = "past_key_values." + name, "present." + name
        if self.o.cache == 32:
            return w.op("Concat", present, past, new, axis=2)
        scale = w.number(GREATEST / 127, np.float32), w.number(0, np.int8)
        codes = w.op("QuantizeLinear", name + ".codes", new, *scale)
        return w.op("DequantizeLinear", name + ".numbers", w.op("Concat", present, past, codes, axis=2), *scale)

    def attention(self, layer, name, x):
        w, o = self.w, self.o
        kv = o.kv_heads * self.each
        q, k, v = (w.linear("%s.%s" % (name, part), x, o.width, n) for part, n in (("q", o.width), ("k", kv), ("v", kv)))
        q, k = self.rotated(name + ".q", self.heads(name + ".q", q, o.heads)), self.rotated(
            name + ".k", self.heads(name + ".k", k, o.kv_heads))
        v = self.heads(name + ".v", v, o.kv_heads)
        k, v = (self.cached("%d.%s" % (layer, part), new) for part, new in (("key", k), ("value", v)))
        k, v = self.repeated(name + ".keys", k), self.repeated(name + ".values", v)
        scores = w.op("MatMul", name + ".scores", q, w.op("Transpose", name + ".columns", k, perm=[0, 1, 3, 2]))
        scores = w.op("Mul", name + ".scaled", scores, w.number(self.each**-0.5, np.float32))
        weights = w.op("Softmax", name + ".weights", w.op("Add", name + ".masked", scores, self.bias), axis=-1)
        y = w.op("Transpose", name + ".rows", w.op("MatMul", name + ".sums", weights, v), perm=[0, 2, 1, 3])
        return w.op("Reshape", name + ".joined", y, w.number([0, -1, o.width]))


class Shared:
    """Attention as one operator. The cache has room for all tokens."""

    def __init__(self, w, o):
        self.w, self.o = w, o
        self.tables = [w.const(name + ".table", t)
                       for name, t in zip(("cos", "sin"), rotary_tables(o.longest, o.width // o.heads))]
        count = w.op("ReduceSum", "count", "attention_mask", w.number([1]), keepdims=0)
        self.ends = w.op("Cast", "ends", w.op("Sub", "last", count, w.number(1)), to=I32)
        length = w.op("Gather", "length", w.op("Shape", "mask.shape", "attention_mask"), w.number(1))
        self.total = w.op("Cast", "total", length, to=I32)

    def attention(self, layer, name, x):
        w, o = self.w, self.o
        kv = o.kv_heads * (o.width // o.heads)
        q, k, v = (w.linear("%s.%s" % (name, part), x, o.width, n) for part, n in (("q", o.width), ("k", kv), ("v", kv)))
        cache = ["%s.%d.%s" % (s, layer, part) for s in ("past_key_values", "present") for part in ("key", "value")]
        scales, whole = [], {}
        if o.cache < 32:
            scales = [""] * 3 + [w.number([GREATEST / (2**(o.cache - 1) - 1)], np.float32)] * 2
            whole = dict(k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=o.cache)
        w.nodes.append(helper.make_node(
            "GroupQueryAttention", [q, k, v] + cache[:2] + [self.ends, self.total] + self.tables + scales,
            [name + ".joined"] + cache[2:], name=name + ".joined", domain=PEER, num_heads=o.heads,
            kv_num_heads=o.kv_heads, do_rotary=1, **whole))
        return name + ".joined"


def decoder(o):
    """The model of options o."""
    w = Writer(o.seed, o.bits)
    attend = (Growing if o.form == "grow" else Shared)(w, o)
    x = w.op("Gather", "embedding", w.const("embedding.table", w.normal(o.vocabulary, o.width, scale=1.0)), "input_ids")
    inner = o.inner or (o.width * 8 // 3 + 31) // 32 * 32
    for layer in range(o.layers):
        name = "layer.%d" % layer
        y = attend.attention(layer, name, w.norm(name + ".norm", x, o.width))
        x = w.op("Add", name + ".attended", x, w.linear(name + ".out", y, o.width, o.width))
        y = w.norm(name + ".dense.norm", x, o.width)
        gate = w.linear(name + ".gate", y, o.width, inner)
        gate = w.op("Mul", name + ".swish", gate, w.op("Sigmoid", name + ".sigmoid", gate))
        y = w.op("Mul", name + ".gated", gate, w.linear(name + ".up", y, o.width, inner))
        x = w.op("Add", name, x, w.linear(name + ".down", y, inner, o.width))
    w.linear("logits", w.norm("norm", x, o.width), o.width, o.vocabulary, scale=3.0)
    kind = {32: F32, 8: I8, 4: U8}[o.cache]
    each = o.width // o.heads // (2 if o.cache == 4 else 1)
    past, total = "past_sequence_length", "total_sequence_length"
    inputs = [("input_ids", I64, ["batch_size", "sequence_length"]), ("attention_mask", I64, ["batch_size", total])]
    if o.form == "grow":
        inputs.append(("position_ids", I64, ["batch_size", "sequence_length"]))
    outputs = [("logits", F32, ["batch_size", "sequence_length", o.vocabulary])]
    for layer in range(o.layers):
        for part in ("key", "value"):
            shape = ["batch_size", o.kv_heads, None, each]
            inputs.append(("past_key_values.%d.%s" % (layer, part), kind, shape[:2] + [past, each]))
            outputs.append(("present.%d.%s" % (layer, part), kind,
                            shape[:2] + [total if o.form == "grow" else past, each]))
    graph = helper.make_graph(w.nodes, "decoder", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*i) for i in outputs], w.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(PEER, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="make_decoder")


def main(words=None):
    p = argparse.ArgumentParser(description="Writes a decoder with seeded weights as an ONNX file.")
    p.add_argument("file")
    p.add_argument("--form", choices=("grow", "shared"), default="grow")
    p.add_argument("--bits", type=int, choices=(32, 8, 4), default=32, help="of the weights of dense layers")
    p.add_argument("--cache", type=int, choices=(32, 8, 4), default=32, help="bits of the caches of keys and values")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--kv-heads", type=int, help="heads of keys and values; as many as of queries if not given")
    p.add_argument("--inner", type=int, help="width between the dense layers; 8/3 of the width if not given")
    p.add_argument("--vocabulary", type=int, default=128)
    p.add_argument("--longest", type=int, default=2048, help="positions that the rotary tables have")
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args(words)
    o.kv_heads = o.kv_heads or o.heads
    if o.cache == 4 and o.form == "grow":
        p.error("--cache 4 needs --form shared")
    with open(o.file, "wb") as f:
        f.write(decoder(o).SerializeToString())


if __name__ == "__main__":
    main()
