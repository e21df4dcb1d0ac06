#!/usr/bin/env python3
"""How exact is einkorn's quantiser, and does it keep its word?

  bench/quantize.py agree --models FOLDER --zoo FOLDER [--write docs/quantization.md]
  bench/quantize.py budgets --models FOLDER --zoo FOLDER [--write docs/benchmarks.md]
  bench/quantize.py weights --models FOLDER --zoo FOLDER [--write docs/quantization.md]
  bench/quantize.py calibration --models FOLDER --zoo FOLDER

agree: SQNR of the outputs of the digit classifier (mnist_cnn of --models, on its data_mnist) and of MiniLM (minilm_s32
of --zoo, on ids of text in data_text), quantised by each method of einkorn and by onnxruntime's static quantiser, both
to QuantizeLinear and DequantizeLinear around convolutions and matrix products. Ranges are of some samples; the error is
that of others, run by onnxruntime. Fails where einkorn is more than 0.3 dB below, or mse below minmax.
budgets: --accuracy-budget on these and four image models of --zoo, whose weights are random, on random images; SQNR of
samples that einkorn was not given, run by onnxruntime. Fails where a budget does not hold, or where fewer than four
models have 80 % of their multiplications in int8.
weights: MiniLM's weights in 4 and 3 bits by rounding, by least squares and by GPTQ, on samples that GPTQ was not given.
Fails where GPTQ is less than 1.5 dB above rounding.
calibration: time that ranges of 100 images take for ResNet-50, over that of 100 runs in f32, in one thread. Fails above
1.3 for min/max, above 1.8 for histograms. Needs the package einkorn, too.
Without --zoo (what bench/zoo.py writes) only the digit classifier. Needs numpy, onnx and onnxruntime. --einkorn: the
program (default build/einkorn). --write puts the table into a page."""
import argparse
import contextlib
import gzip
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time

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


def images(model, n):
    """Smooth areas with noise, each image with mean 0 and variance 1."""
    port, random = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0], \
        np.random.default_rng(0)
    batch, channels, height, width = (d if isinstance(d, int) else 1 for d in port.shape)
    found = []
    for _ in range(n):
        x = random.normal(size=(batch, channels, 8, 8)).repeat(height // 8 + 1, 2).repeat(width // 8 + 1, 3)
        x = x[:, :, :height, :width] + 0.3 * random.normal(size=(batch, channels, height, width))
        x = (x - x.mean((2, 3), keepdims=True)) / x.std((2, 3), keepdims=True)
        found.append({port.name: x.astype(np.float32)})
    return found


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


def digit_classifier(a):
    return os.path.join(a.models, "mnist_cnn", "mnist.onnx")


def in_zoo(a, name):
    return os.path.join(a.zoo, name + ".onnx")


# ---- agreement -------------------------------------------------------------------------------------
def agree(a):
    models = [("digit classifier", digit_classifier(a), digits(a.models), 200, 500)]
    if a.zoo:
        models.append(("MiniLM", in_zoo(a, "minilm_s32"), sentences(a.models, in_zoo(a, "minilm_s32")), 32, 32))
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


# ---- budgets ---------------------------------------------------------------------------------------
BUDGETS = {"resnet18": 30, "resnet50": 30, "mobilenet_v2": 20, "efficientnet_b0": 15}  # dB
GIVEN, UNSEEN = 96, 48  # samples: of the given ones half decide
SHARE, MODELS = 0.8, 4  # of the multiplications, in so many models


def budgets(a):
    jobs = [("digit classifier", digit_classifier(a), lambda: digits(a.models)[::50], 40)]
    if a.zoo:
        mini = in_zoo(a, "minilm_s32")
        jobs.append(("MiniLM, 32 tokens", mini, lambda: sentences(a.models, mini), 15))
        jobs += [(name, in_zoo(a, name), lambda name=name: images(in_zoo(a, name), GIVEN + UNSEEN), budget)
                 for name, budget in BUDGETS.items()]
    rows, wrong, shares = [], [], []
    with tempfile.TemporaryDirectory() as work:
        out, report = os.path.join(work, "q.onnx"), os.path.join(work, "r.json")
        for name, model, samples, budget in jobs:
            samples, begun = samples(), time.monotonic()
            given, unseen = samples[:GIVEN], samples[GIVEN:GIVEN + UNSEEN]
            ours(a.einkorn, model, "mse", True, given, out, "--smooth", "auto", "--accuracy-budget", f"{budget}dB",
                 "--report", report)
            seconds = time.monotonic() - begun
            with open(report) as f:
                r = json.load(f)
            got = decibels(outputs(model, unseen), outputs(out, unseen))
            decided = r["outputs"][0]
            shares.append(r["share"])
            if got < budget:
                wrong.append(f"{name}: {got:.1f} dB on samples that were not seen, the budget is {budget}")
            rows.append(f"| {name} | {budget} | {decided['sqnr']:.1f} | {decided['least']:.1f} | {got:.1f} | "
                        f"{r['quantized']} of {len(r['layers'])} | {100 * r['share']:.0f} % | {seconds:.0f} s |")
            print(rows[-1], flush=True)
    if a.zoo and sum(x >= SHARE for x in shares) < MODELS:
        wrong.append(f"fewer than {MODELS} models have {100 * SHARE:.0f} % of their multiplications in int8")
    return ["| model | budget, dB | on the 48 that decided | of others at least | on 48 not seen | layers in int8 | "
            "of the multiplications | time |", "|---|---|---|---|---|---|---|---|"] + rows, wrong


# ---- weights of a few bits -------------------------------------------------------------------------
ABOVE = 1.5  # dB that GPTQ must be above rounding
FORMS = (("4 bits", ()), ("4, zero points", ("--zero-points",)), ("3 bits", ("--bits", "3")),
         ("3, zero points", ("--bits", "3", "--zero-points")))


def run_by(einkorn, model, samples, work):
    """The first output for each of the samples; onnxruntime takes no weights of three bits."""
    found = []
    for sample in samples:
        np.savez(os.path.join(work, "in.npz"), **sample)
        out = os.path.join(work, "out.npz")
        subprocess.run([einkorn, "run", model, "--inputs", os.path.join(work, "in.npz"), "-q", "-o", out], check=True)
        with np.load(out) as arrays:
            found.append(arrays[arrays.files[0]])
    return np.stack(found)


def weights(a):
    model = in_zoo(a, "minilm_s32")
    samples = sentences(a.models, model)
    given, unseen = samples[:48], samples[-12:]
    want, found, wrong = outputs(model, unseen), {}, []
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "q.onnx")
        for form, options in FORMS:
            for method in ("minmax", "mse", "gptq"):
                ours(a.einkorn, model, method, False, given, out, "--scheme", "int4", *options)
                found[method, form] = decibels(want, run_by(a.einkorn, out, unseen, work))
            gain = found["gptq", form] - found["minmax", form]
            if gain < ABOVE:
                wrong.append(f"{form}: GPTQ is {gain:.1f} dB above rounding, at least {ABOVE} are expected")
    rows = [f"| `{m}` | " + " | ".join(f"{found[m, form]:.1f}" for form, _ in FORMS) + " |"
            for m in ("minmax", "mse", "gptq")]
    lines = ["| method | " + " | ".join(form for form, _ in FORMS) + " |", "|---" * (len(FORMS) + 1) + "|"] + rows
    print("\n".join(lines))
    return lines, wrong


# ---- calibration -----------------------------------------------------------------------------------
IMAGES, TURNS = 100, 3
AT_MOST = {"minmax": 1.3, "percentile": 1.8, "entropy": 1.8, "mse": 1.8}  # of the f32 runs


def calibrating(einkorn, model, samples, method):
    """Seconds that one sample takes: all but the first, whose run begins after the model was compiled."""
    times = []

    def progress(phase, _):
        if phase == "calibrating":
            times.append(time.monotonic())
        return bool(times) and phase != "calibrating"  # what comes behind it is not run
    with contextlib.suppress(einkorn.CancelledError):
        einkorn.quantize(model, samples, "never.onnx", method=method, threads=1, progress=progress)
    return (times[-1] - times[0]) / (len(times) - 1)


def calibration(a):
    import einkorn
    model = in_zoo(a, "resnet50")
    samples = images(model, IMAGES * 5 // 4)  # the last fifth gives no ranges
    lines, wrong = ["| method | of the time in f32 |", "|---|---|"], []
    module = einkorn.compile(model, threads=1)
    for method, most in AT_MOST.items():
        ratios = []
        for _ in range(TURNS):
            took = calibrating(einkorn, model, samples, method)
            begun = time.monotonic()
            for sample in samples[:IMAGES]:
                module(**sample)
            ratios.append(took * IMAGES / (time.monotonic() - begun))
        ratio = float(np.median(ratios))
        lines.append(f"| `{method}` | {ratio:.2f} |")
        print(lines[-1], flush=True)
        if ratio > most:
            wrong.append(f"{method}: {ratio:.2f} times the time of the runs in f32, at most {most} are expected")
    return lines, wrong


def write(page, key, lines):
    with open(page) as f:
        text = f.read()
    begin, end = f"<!-- {key}: bench/quantize.py -->\n", f"<!-- {key} end -->"
    if begin not in text:
        sys.exit(f"{page} has no place for the table: {begin}")
    head, rest = text.split(begin)
    with open(page, "w") as f:
        f.write(head + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1])


TABLES = {"agree": agree, "budgets": budgets, "weights": weights, "calibration": calibration}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=list(TABLES)), p.add_argument("--models", required=True)
    p.add_argument("--zoo"), p.add_argument("--write")
    p.add_argument("--einkorn", default=os.path.join(here, "..", "build", "einkorn"))
    a = p.parse_args()
    lines, wrong = TABLES[a.what](a)
    if a.write:
        write(a.write, a.what, lines)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
