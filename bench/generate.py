#!/usr/bin/env python3
"""How many tokens a second does a decoder read and write, beside onnxruntime?

    PYTHONPATH=build/python ~/peers/onnxruntime/bin/python bench/generate.py [MODEL.onnx ..] [--prompt 128]
        [--tokens 128] [--turns 5] [--threads 1] [--room 1024] [--precision bf16] [--write docs/benchmarks.md]

Needs the packages einkorn and onnxruntime. A MODEL is a decoder as examples/generate/make_decoder.py writes it; without
one, 12 layers of 768 are made in both forms of the cache, and with weights of 4 bits. Both engines read the same prompt
and write the same number of tokens, the likeliest ones, in turns. onnxruntime's inputs and outputs are bound; where the
cache has room for all tokens, the past and the present are one piece of memory. The median turn counts: tokens a second
of the prompt, of what comes behind it, and of both together, each over onnxruntime's; and how many of the tokens are
the same from the first one on. --write puts the table into that page."""
import argparse
import math
import os
import statistics
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "examples", "generate"))

import tables  # noqa: E402

COLUMNS = ("model", "prompt: Einkorn", "onnxruntime", "ratio", "then: Einkorn", "onnxruntime", "ratio",
           "all: Einkorn", "onnxruntime", "ratio", "same tokens")


class Einkorn:
    def __init__(self, path, o):
        import generate
        self.decoder = generate.Decoder(path, o.room, precision=o.precision, threads=o.threads)
        self.vocabulary = self.decoder.vocabulary

    def reset(self):
        self.decoder.reset()

    def step(self, tokens):
        return self.decoder(tokens)


class Onnxruntime:
    def __init__(self, path, o):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = o.threads, 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.value, self.room = onnxruntime.OrtValue.ortvalue_from_numpy, o.room
        self.inputs = {x.name: x for x in self.session.get_inputs()}
        self.outputs = [x.name for x in self.session.get_outputs()]
        self.vocabulary = self.session.get_outputs()[0].shape[2]
        self.grows = "position_ids" in self.inputs

    def reset(self):
        self.length = 0
        kinds = {"tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(float)": np.float32}
        self.caches = {n: self.value(np.zeros((1, x.shape[1], 0 if self.grows else self.room, x.shape[3]), kinds[x.type]))
                       for n, x in self.inputs.items() if n.startswith("past")}

    def step(self, tokens):
        binding, start = self.session.io_binding(), self.length
        self.length += len(tokens)
        scores = np.empty((1, len(tokens), self.vocabulary), np.float32)
        binding.bind_cpu_input("input_ids", np.array([tokens], np.int64))
        binding.bind_cpu_input("attention_mask", np.ones((1, self.length), np.int64))
        if self.grows:
            binding.bind_cpu_input("position_ids", np.arange(start, self.length)[None])
        binding.bind_output("logits", "cpu", 0, np.float32, scores.shape, scores.ctypes.data)
        for name, cache in self.caches.items():
            present = name.replace("past_key_values", "present")
            binding.bind_ortvalue_input(name, cache)
            binding.bind_output(present) if self.grows else binding.bind_ortvalue_output(present, cache)
        self.session.run_with_iobinding(binding)
        if self.grows:
            made = dict(zip(self.outputs, binding.get_outputs()))
            self.caches = {n: made[n.replace("past_key_values", "present")] for n in self.caches}
        return scores[0, -1]


def play(engine, prompt, count):
    """Seconds of the prompt, seconds of the other tokens, and all tokens."""
    engine.reset()
    times, tokens, last = [time.perf_counter()], [], prompt
    for _ in range(count):
        last = [int(engine.step(last).argmax())]
        tokens += last
        times.append(time.perf_counter())
    return times[1] - times[0], times[-1] - times[1], tokens


def same(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))


def compare(path, o):
    engines = Einkorn(path, o), Onnxruntime(path, o)
    prompt = np.random.default_rng(5).integers(0, engines[0].vocabulary, o.prompt).tolist()
    for e in engines:
        play(e, prompt, 2)
    runs = [[play(e, prompt, o.tokens) for e in engines] for _ in range(o.turns)]
    counts = o.prompt, o.tokens - 1, o.prompt + o.tokens - 1
    seconds = [[[r[k][0], r[k][1], r[k][0] + r[k][1]] for k in range(2)] for r in runs]
    rates = [[c / statistics.median(s[k][i] for s in seconds) for k in range(2)] for i, c in enumerate(counts)]
    ratios = [statistics.median(s[1][i] / s[0][i] for s in seconds) for i in range(3)]
    line = "| %s | %s | %d |" % (os.path.splitext(os.path.basename(path))[0], " | ".join(
        "%.1f | %.1f | %.2f" % (*rate, ratio) for rate, ratio in zip(rates, ratios)), same(runs[0][0][2], runs[0][1][2]))
    print(line, flush=True)
    return ratios, line


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    for name, value in (("prompt", 128), ("tokens", 128), ("turns", 5), ("threads", 1), ("room", 1024)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--precision", default="model")
    p.add_argument("--write", metavar="PAGE", help="put the table into this page")
    o = p.parse_args()
    lines = tables.head(COLUMNS)
    print("\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        ratios, rows = zip(*[compare(m, o) for m in o.models or made_models(folder)])
    means = "Geometric means: " + ", ".join("%.2f" % math.exp(statistics.fmean(math.log(r[i]) for r in ratios))
                                            for i in range(3)) + "."
    print(means)
    if o.write:
        tables.write(o.write, "bench/generate.py", [*lines, *rows, "", means])


def made_models(folder):
    import make_decoder
    size = "--layers 12 --width 768 --heads 12 --vocabulary 32000".split()
    for form, bits in (("grow", "32"), ("shared", "32"), ("shared", "4")):
        path = os.path.join(folder, "%s%s.onnx" % (form, bits))
        make_decoder.main([path, "--form", form, "--bits", bits, *size])
        yield path


if __name__ == "__main__":
    main()
