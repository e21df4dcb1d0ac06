#!/usr/bin/env python3
"""Is einkorn's quantiser as exact as onnxruntime's?

  bench/quantize.py agree --models FOLDER --minilm MODEL.onnx [--write docs/quantization.md]

agree: SQNR of the outputs of the digit classifier (FOLDER/mnist_cnn, on FOLDER/data_mnist) and of MiniLM (ids of text in
FOLDER/data_text), quantised by each method of einkorn and by onnxruntime's static quantiser, both to QuantizeLinear and
DequantizeLinear around convolutions and matrix products. Ranges are of some samples; the error is that of others, run by
onnxruntime. Fails where einkorn is more than 0.3 dB below, or mse below minmax.
Needs numpy, onnx and onnxruntime. --einkorn: the program (default build/einkorn). --write puts the table into a page."""
import argparse
import contextlib
import gzip
import io
import logging
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime

onnxruntime.set_default_logger_severity(4)
logging.disable(logging.WARNING)
here = os.path.dirname(os.path.abspath(__file__))
METHODS = ("minmax", "percentile", "entropy", "mse")
BELOW = 0.3  # dB that einkorn may be below onnxruntime


def decibels(want, got):
    error = np.square(want.astype(np.float64) - got).sum()
    return np.inf if error == 0 else 10 * np.log10(np.square(want.astype(np.float64)).sum() / error)


def outputs(path, samples):
    s = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.stack([s.run(None, x)[0] for x in samples])


# ---- data ------------------------------------------------------------------------------------------
def digits(folder):
    with gzip.open(os.path.join(folder, "data_mnist", "t10k-images-idx3-ubyte.gz")) as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 1, 28, 28).astype(np.float32)
    return [{"Input3": one} for one in x]


def pieces(text, vocabulary):
    """WordPiece: the longest pieces of each word, from its beginning."""
    for word in text.lower().split():
        at = 0
        while at < len(word):
            end = next((e for e in range(len(word), at, -1) if ("##" if at else "") + word[at:e] in vocabulary), None)
            if end is None:
                yield vocabulary["[UNK]"]
                break
            yield vocabulary[("##" if at else "") + word[at:end]]
            at = end


def sentences(folder, model):
    with open(os.path.join(folder, "minilm", "vocab.txt")) as f:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(f)}
    with open(os.path.join(folder, "data_text", "tinyshakespeare.txt")) as f:
        ids = list(pieces(f.read()[:40000], vocabulary))
    ports = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
    n, first, last = ports[0].shape[1], vocabulary["[CLS]"], vocabulary["[SEP]"]
    rows = [[first] + ids[i:i + n - 2] + [last] for i in range(0, len(ids) - n, n - 2)]
    return [{ports[0].name: np.array([row], np.int64), ports[1].name: np.ones((1, n), np.int64)} for row in rows]


# ---- quantisers ------------------------------------------------------------------------------------
def save(samples, path):
    np.savez(path, **{name: np.stack([x[name] for x in samples]) for name in samples[0]})


def ours(einkorn, model, method, channels, samples, out, *more):
    data = out + ".npz"
    save(samples, data)
    command = [einkorn, "quantize", model, "--data", data, "--method", method, "-q", "-o", out, *more]
    subprocess.run(command + ["--per-channel"] * channels, check=True)


def theirs(model, method, channels, samples, out):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(samples)

        def get_next(self):
            return next(self.left, None)
    how = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile,
           "entropy": CalibrationMethod.Entropy}[method]
    with contextlib.redirect_stdout(io.StringIO()):
        quantize_static(model, out, Reader(), quant_format=QuantFormat.QDQ, calibrate_method=how, per_channel=channels,
                        op_types_to_quantize=["Conv", "MatMul", "Gemm"])


def with_axes(model, out):
    """The model in a version of the standard in which scales may stand along an axis."""
    m = onnx.load(model)
    if max(x.version for x in m.opset_import if not x.domain) >= 13:
        return model
    onnx.save(onnx.version_converter.convert_version(m, 13), out)
    return out


# ---- agreement -------------------------------------------------------------------------------------
def agree(a):
    models = [("digit classifier", os.path.join(a.models, "mnist_cnn", "mnist.onnx"), digits(a.models), 200, 500)]
    if a.minilm:
        models.append(("MiniLM", a.minilm, sentences(a.models, a.minilm), 32, 32))
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "q.onnx")
        for name, model, samples, some, unseen in models:
            model = with_axes(model, os.path.join(work, "m.onnx"))
            some, test = samples[:some], samples[len(samples) - unseen:]
            want = outputs(model, test)
            for channels in (False, True):
                found = {}
                for method in METHODS:
                    # of five samples einkorn takes ranges from four
                    ours(a.einkorn, model, method, channels, some + some[:len(some) // 4], out)
                    found[method] = decibels(want, outputs(out, test))
                    peer = None
                    if method != "mse":
                        theirs(model, method, channels, some, out)
                        peer = decibels(want, outputs(out, test))
                    least = found["minmax"] if peer is None else peer - BELOW
                    if found[method] < least:
                        wrong.append(f"{name}, {method}: {found[method]:.1f} dB, at least {least:.1f} are expected")
                    rows.append(f"| {name} | {'channel' if channels else 'tensor'} | `{method}` | {found[method]:.1f} | "
                                f"{'' if peer is None else f'{peer:.1f}'} |")
                    print(rows[-1], flush=True)
    return ["| model | scales for each | method | Einkorn, dB | onnxruntime, dB |", "|---|---|---|---|---|"] + rows, wrong


def write(page, key, lines):
    with open(page) as f:
        text = f.read()
    begin, end = f"<!-- {key}: bench/quantize.py -->\n", f"<!-- {key} end -->"
    if begin not in text:
        sys.exit(f"{page} has no place for the table: {begin}")
    head, rest = text.split(begin)
    with open(page, "w") as f:
        f.write(head + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["agree"]), p.add_argument("--models", required=True)
    p.add_argument("--minilm"), p.add_argument("--write")
    p.add_argument("--einkorn", default=os.path.join(here, "..", "build", "einkorn"))
    a = p.parse_args()
    lines, wrong = agree(a)
    if a.write:
        write(a.write, a.what, lines)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
