#!/usr/bin/env python3
"""How fast are products by weights of few bits, beside weights in f32 and beside onnxruntime?

    PYTHONPATH=build/python ~/peers/onnxruntime/bin/python bench/weights.py [--rows 1,128] [--size 4096] [--turns 9]
        [--threads 1] [--only TEXT] [--write docs/benchmarks.md]

Needs the packages einkorn and onnxruntime, and PyPI's onnx, numpy and ml_dtypes. Each form of FORMS is a product of some
rows of floats and a square matrix of weights: MatMulNBits, and DequantizeLinear before MatMul. The same product with its
weights in f32, and onnxruntime where it takes the form, are timed in turns with it. Told are the median of Einkorn's
milliseconds, the medians of the others' times over it in the same turn, and the largest difference between its result,
and onnxruntime's, and that of the same formula in f64, over the largest result. Where the rows are rounded to bytes
(accuracy_level 4; DequantizeLinear of 4 and 8 bits in onnxruntime, whose own default it is), that rounding is in it.
--layers N multiplies by N different matrices one after the other, more than the caches hold. --write puts the table
into that page."""
import argparse
import collections
import statistics
import time

import numpy as np
from ml_dtypes import float8_e4m3fn, float8_e5m2
from onnx import TensorProto, helper

import tables

PEER = "com.microsoft"
Form = collections.namedtuple("Form", "kind bits block zero level", defaults=(None, 0))
FORMS = {
    "MatMulNBits, 4 bits by 32, level 4": Form("nbits", 4, 32, None, 4),
    "MatMulNBits, 4 bits by 32, zero points, level 4": Form("nbits", 4, 32, "packed", 4),
    "MatMulNBits, 4 bits by 32": Form("nbits", 4, 32),
    "MatMulNBits, 4 bits by 32, zero points": Form("nbits", 4, 32, "packed"),
    "MatMulNBits, 4 bits by 32, zero points in f32": Form("nbits", 4, 32, "float"),
    "MatMulNBits, 4 bits by 16": Form("nbits", 4, 16),
    "MatMulNBits, 4 bits by 128": Form("nbits", 4, 128),
    "MatMulNBits, 4 bits by 256": Form("nbits", 4, 256),
    "MatMulNBits, 8 bits by 32": Form("nbits", 8, 32),
    "MatMulNBits, 8 bits by 32, zero points": Form("nbits", 8, 32, "packed"),
    "MatMulNBits, 8 bits by 32, level 4": Form("nbits", 8, 32, None, 4),
    "MatMulNBits, 3 bits by 32": Form("nbits", 3, 32),
    "MatMulNBits, 3 bits by 32, zero points": Form("nbits", 3, 32, "packed"),
    "MatMulNBits, 3 bits by 32, level 4": Form("nbits", 3, 32, None, 4),
    "MatMulNBits, 2 bits by 32": Form("nbits", 2, 32),
    "MatMulNBits, 2 bits by 32, zero points": Form("nbits", 2, 32, "packed"),
    "DequantizeLinear, i4 by 32": Form("dequantize", "INT4", 32),
    "DequantizeLinear, u4 by 32, zero points": Form("dequantize", "UINT4", 32, "packed"),
    "DequantizeLinear, i8 by 32": Form("dequantize", "INT8", 32),
    "DequantizeLinear, u8 by 128, zero points": Form("dequantize", "UINT8", 128, "packed"),
    "DequantizeLinear, i8 by column": Form("dequantize", "INT8", 0),
    "DequantizeLinear, float8 E4M3FN by column": Form("dequantize", "FLOAT8E4M3FN", 0),
    "DequantizeLinear, float8 E4M3FN by 32": Form("dequantize", "FLOAT8E4M3FN", 32),
    "DequantizeLinear, float8 E5M2 by column": Form("dequantize", "FLOAT8E5M2", 0),
}
SMALL_FLOATS = {"FLOAT8E4M3FN": float8_e4m3fn, "FLOAT8E5M2": float8_e5m2}


def packed(codes, bits):
    """The last axis as bytes, the first code lowest."""
    each = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    return np.packbits(each.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


class Layers:
    """A model of several products in a row, and what it computes in f64."""

    def __init__(self, form, size, layers):
        self.form, self.size, self.random = form, size, np.random.default_rng(11)
        self.nodes, self.constants, self.weights = [], [], []
        for layer in range(layers):
            x, y, tag = ("x" if layer == 0 else "y%d" % layer), "y%d" % (layer + 1), "%d" % layer
            {"f32": self.plain, "nbits": self.nbits, "dequantize": self.dequantize}[form.kind](x, y, tag)
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", size]) for n in ("x", "y%d" % layers))
        graph = helper.make_graph(self.nodes, "layers", [x], [y], self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(PEER, 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def constant(self, name, array, kind=None):
        kind = kind or helper.np_dtype_to_tensor_dtype(array.dtype)
        data = packed(array.astype(np.uint8).reshape(-1) & 15, 4) if "INT4" in TensorProto.DataType.Name(kind) else array
        self.constants.append(helper.make_tensor(name, kind, array.shape, data.tobytes(), raw=True))
        return name

    def scales(self, *shape, top):
        """Scales for codes as large as top, so that results stay as large as rows."""
        return (self.random.uniform(0.5, 1.5, shape) * 1.7 / top * self.size**-0.5).astype(np.float32)

    def plain(self, x, y, tag):
        self.weights.append(self.scales(self.size, self.size, top=1) * self.random.choice([-1, 1], self.size))
        w = self.constant("w" + tag, self.weights[-1].astype(np.float32))
        self.nodes.append(helper.make_node("MatMul", [x, w], [y]))

    def nbits(self, x, y, tag):
        bits, n = self.form.bits, self.size // self.form.block
        codes = self.random.integers(0, 1 << bits, (self.size, n, self.form.block)).astype(np.uint8)
        scales = self.scales(self.size, n, top=1 << bits - 1)
        zeros = np.full((self.size, n), 1 << bits - 1, np.float32)
        inputs = [x, self.constant("w" + tag, packed(codes, bits)), self.constant("s" + tag, scales)]
        if self.form.zero:
            zeros = self.random.integers((1 << bits) // 4, (1 << bits) * 3 // 4 + 1, zeros.shape).astype(np.float32)
            inputs.append(self.constant("z" + tag, packed(zeros.astype(np.uint8), bits) if self.form.zero == "packed"
                                        else zeros))
        self.nodes.append(helper.make_node("MatMulNBits", inputs, [y], domain=PEER, K=self.size, N=self.size, bits=bits,
                                           block_size=self.form.block, accuracy_level=self.form.level))
        self.weights.append(((codes - zeros[..., None]) * scales[..., None].astype(float)).reshape(self.size, -1).T)

    def dequantize(self, x, y, tag):
        """Weights [in, out], blocks along `in` or a scale for each column."""
        kind, block, small = getattr(TensorProto, self.form.bits), self.form.block, SMALL_FLOATS.get(self.form.bits)
        shape = (self.size // block, self.size) if block else (self.size,)
        bits = 4 if "INT4" in self.form.bits else 8
        low, high = (0, 1 << bits) if self.form.bits[0] == "U" else (-(1 << bits - 1), 1 << bits - 1)
        if small:
            codes = self.random.normal(0, 1, (self.size, self.size)).astype(small)
        else:
            codes = self.random.integers(low, high, (self.size, self.size))
            codes = codes.astype(np.uint8 if self.form.bits[0] == "U" else np.int8)
        scales = self.scales(*shape, top=1 if small else high / (2 if low == 0 else 1))
        inputs = [self.constant("w" + tag, codes, kind), self.constant("s" + tag, scales)]
        zeros = np.zeros(shape)
        if self.form.zero:
            zeros = self.random.integers(high // 4, high * 3 // 4, shape).astype(np.uint8)
            inputs.append(self.constant("z" + tag, zeros, kind))
        attributes = {"axis": 0, "block_size": block} if block else {"axis": 1}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, ["d" + tag], **attributes))
        self.nodes.append(helper.make_node("MatMul", [x, "d" + tag], [y]))
        every = lambda a: np.repeat(a, block, 0) if block else a
        self.weights.append((codes.astype(float) - every(zeros)) * every(scales))

    def result(self, x):
        for w in self.weights:
            x = x @ w
        return x


def einkorn_of(model, rows, threads):
    import einkorn
    return einkorn.compile(model, dims={"rows": rows}, threads=threads)


def onnxruntime_of(model, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, {"x": np.zeros((1, session.get_inputs()[0].shape[1]), np.float32)})
    except Exception:
        return None
    return lambda x: session.run(None, {"x": x})[0]


def milliseconds(run, x):
    """The least of some calls, for at least 30 ms."""
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < 0.03 or best == float("inf"):
        t = time.perf_counter()
        run(x)
        best = min(best, time.perf_counter() - t)
    return 1e3 * best


def measured(form, rows, o, f32):
    made = Layers(form, o.size, o.layers)
    start = time.perf_counter()
    mine, peer = einkorn_of(made.model, rows, o.threads), onnxruntime_of(made.model, o.threads)
    x = np.random.default_rng(3).normal(size=(rows, o.size)).astype(np.float32)
    want = made.result(x.astype(float))
    runs = [r for r in (mine, f32, peer) if r]
    errors = [np.abs(r(x) - want).max() / np.abs(want).max() for r in (mine, peer) if r]
    turns = [[milliseconds(r, x) for r in runs] for _ in range(o.turns)]
    ratio = lambda i: statistics.median(t[i] / t[0] for t in turns)
    return statistics.median(t[0] for t in turns), ratio(1), ratio(2) if peer else None, errors


COLUMNS = ("weights", "rows", "Einkorn, ms", "f32", "onnxruntime", "error", "onnxruntime's")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="1,128")
    for name, value in (("size", 4096), ("turns", 9), ("threads", 1), ("layers", 1)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--only", default="", metavar="TEXT", help="forms whose name contains it")
    p.add_argument("--write", metavar="PAGE", help="put the table into this page")
    o = p.parse_args()
    lines = tables.head(COLUMNS)
    print("\n".join(lines), flush=True)
    for rows in map(int, o.rows.split(",")):
        f32 = einkorn_of(Layers(Form("f32", 32, 0), o.size, o.layers).model, rows, o.threads)
        for name, form in FORMS.items():
            if o.only not in name:
                continue
            ms, by_f32, by_peer, errors = measured(form, rows, o, f32)
            lines.append("| %s | %d | %.3g | %.2f | %s | %.0e | %s |"
                         % (name, rows, ms, by_f32, "%.2f" % by_peer if by_peer else "–", errors[0],
                            "%.0e" % errors[1] if by_peer else "–"))
            print(lines[-1], flush=True)
    if o.write:
        tables.write(o.write, "bench/weights.py", lines)


if __name__ == "__main__":
    main()
