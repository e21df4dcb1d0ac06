"""Quantised models against onnxruntime.
    quantized_peer.py same EINKORN MODEL.onnx DATA.npz      both engines give the same outputs
    quantized_peer.py digits EINKORN MODELS                 accuracy and error on real digits, by every method, against
                                                            the f32 model and onnxruntime's own quantiser
    quantized_peer.py outliers EINKORN                      an encoder with channels of large magnitude: --smooth
Exit code 1, and a line that says what is wrong, where something is."""
import contextlib
import gzip
import io
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(4)
SAME = 35  # dB: a value near the middle between two codes may be rounded to either


def decibels(want, got):
    error = np.square(want.astype(np.float64) - got).sum()
    return np.inf if error == 0 else 10 * np.log10(np.square(want.astype(np.float64)).sum() / error)


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def same(einkorn, model, data):
    onnx.checker.check_model(onnx.load(model))
    arrays, peer, inputs = dict(np.load(data)), session(model), {}
    for i, x in enumerate(peer.get_inputs()):
        name = next(n for n in (x.name, "in_" + x.name, f"in_{i}") if n in arrays)
        inputs[x.name] = arrays[name]
    with tempfile.TemporaryDirectory() as folder:
        given, results = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        np.savez(given, **inputs)
        subprocess.run([einkorn, "run", model, "--inputs", given, "--output", results, "-q"], check=True)
        got = np.load(results)
        for x, want in zip(peer.get_outputs(), peer.run(None, inputs)):
            if want.dtype.kind == "f" and want.size and decibels(want, got[x.name]) < SAME:
                sys.exit(f"{model}: {x.name}: {decibels(want, got[x.name]):.1f} dB from onnxruntime's")


def images(folder):
    def read(name, offset):
        with gzip.open(os.path.join(folder, "data_mnist", name)) as f:
            return np.frombuffer(f.read(), np.uint8, offset=offset)
    x = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32)
    return x, read("t10k-labels-idx1-ubyte.gz", 8)


def scores(path, x):
    s = session(path)
    return np.concatenate([s.run(None, {s.get_inputs()[0].name: one[None]})[0] for one in x])


def onnxruntime_quantised(model, method, x, out):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(x)

        def get_next(self):
            one = next(self.left, None)
            return None if one is None else {session(model).get_inputs()[0].name: one[None]}
    method = {"minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy,
              "percentile": CalibrationMethod.Percentile}[method]
    with contextlib.redirect_stdout(io.StringIO()):
        quantize_static(model, out, Reader(), quant_format=QuantFormat.QDQ, calibrate_method=method)


def digits(einkorn, folder):
    model, wrong, least = os.path.join(folder, "mnist_cnn", "mnist.onnx"), [], 39
    x, labels = images(folder)
    some, test, labels = x[:250], x[500:1500], labels[500:1500]
    want = scores(model, test)
    right = (want.argmax(1) == labels).mean()
    with tempfile.TemporaryDirectory() as work:
        data, out = os.path.join(work, "data.npz"), os.path.join(work, "q.onnx")
        np.savez(data, Input3=some)
        minmax = 0
        for method in ("minmax", "percentile", "entropy", "mse"):
            command = [einkorn, "quantize", model, "--data", data, "--method", method, "-q", "-o", out]
            subprocess.run(command, check=True)
            got = scores(out, test)
            ours, accuracy = decibels(want, got), (got.argmax(1) == labels).mean()
            minmax = ours if method == "minmax" else minmax
            theirs = minmax
            if method != "mse":
                onnxruntime_quantised(model, method, some[:200], out)
                theirs = decibels(want, scores(out, test))
            print(f"{method}: {ours:.1f} dB, onnxruntime's quantiser (mse: minmax) {theirs:.1f}; "
                  f"accuracy {accuracy:.4f}, f32 {right:.4f}")
            if ours < least or accuracy < right - 0.003 or ours < theirs - (0 if method == "mse" else 0.3):
                wrong.append(method)
    if wrong:
        sys.exit("not good enough: " + ", ".join(wrong))


def encoder(path, normalised_first, width=64, heads=4, tokens=16):
    """Two layers of a transformer, seeded; each normalisation has 3 channels 50 to 100 times as large as the others,
    the weights that read them are as much smaller."""
    from onnx import TensorProto, helper, numpy_helper
    random, nodes, constants, gain = np.random.default_rng(0), [], [], {}

    def constant(x):
        constants.append(numpy_helper.from_array(np.asarray(x), f"c{len(constants)}"))
        return constants[-1].name

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, list(inputs), [f"t{len(nodes)}"], name=f"{op}_{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def linear(x, n, m):
        w = random.normal(size=(n, m)) / np.sqrt(n) / gain.get(x, np.ones(n))[:, None]
        y = node("MatMul", x, constant(w.astype(np.float32)))
        return node("Add", y, constant(random.normal(size=m).astype(np.float32) * 0.1))

    def normalise(x):
        k = np.ones(width)
        k[random.choice(width, 3, replace=False)] = random.uniform(50, 100, 3)
        y = node("LayerNormalization", x, constant((random.uniform(0.5, 1.5, width) * k).astype(np.float32)),
                 constant((random.normal(size=width) * 0.1 * k).astype(np.float32)), axis=-1)
        gain[y] = k
        return y

    def head(x, perm):
        shape = constant(np.array([0, 0, heads, width // heads], np.int64))
        return node("Transpose", node("Reshape", linear(x, width, width), shape), perm=perm)

    def attention(x):
        q, k, v = head(x, [0, 2, 1, 3]), head(x, [0, 2, 3, 1]), head(x, [0, 2, 1, 3])
        scale = constant(np.float32((width // heads)**-0.5))
        p = node("Softmax", node("Mul", node("MatMul", q, k), scale), axis=-1)
        y = node("Transpose", node("MatMul", p, v), perm=[0, 2, 1, 3])
        return linear(node("Reshape", y, constant(np.array([0, 0, width], np.int64))), width, width)

    def feed_forward(x):
        return linear(node("Gelu", linear(x, width, 4 * width)), 4 * width, width)
    x = "x"
    for part in (attention, feed_forward, attention, feed_forward):
        x = node("Add", x, part(normalise(x))) if normalised_first else normalise(node("Add", x, part(x)))
    linear(x, width, 8)
    nodes[-1].output[0] = "y"
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", tokens, c]) for n, c in (("x", width), ("y", 8))]
    graph = helper.make_graph(nodes, "encoder", ports[:1], ports[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return random.normal(size=(50, tokens, width)).astype(np.float32)


def outliers(einkorn):
    with tempfile.TemporaryDirectory() as work:
        model, data, out = (os.path.join(work, n) for n in ("m.onnx", "data.npz", "q.onnx"))
        for first in (True, False):
            x = encoder(model, first)
            np.savez(data, x=x[:40])
            want, found = scores(model, x[40:]), []
            for smooth in ([], ["--smooth", "auto"]):
                command = [einkorn, "quantize", model, "--data", data, "--per-channel", "-q", "-o", out]
                subprocess.run(command + smooth, check=True)
                found.append(decibels(want, scores(out, x[40:])))
            print(f"normalised {'before' if first else 'behind'}: {found[0]:.1f} dB, smoothed {found[1]:.1f}")
            if found[1] < found[0] + 10:
                sys.exit("smoothing gains less than 10 dB")


{"same": same, "digits": digits, "outliers": outliers}[sys.argv[1]](*sys.argv[2:])
