"""Quantised models against onnxruntime.
    quantized_peer.py same EINKORN MODEL.onnx DATA.npz      both engines give the same outputs
    quantized_peer.py digits EINKORN MODELS                 accuracy and error on real digits, by every method, against
                                                            the f32 model and onnxruntime's own quantiser
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


{"same": same, "digits": digits}[sys.argv[1]](*sys.argv[2:])
