#!/usr/bin/env python3
"""How good are the default schedules? Measures others around the default of one kernel, and ranks them.

    PYTHONPATH=build/python bench/schedules.py [--threads N] [--bursts 15] [--most 1000] [--write docs/scheduling.md]
        [NAME...]

Needs the package einkorn and PyPI's onnx and numpy. Each NAME (default: all of KERNELS) is a model of one operator. The
schedules of its slowest kernel, and of how its tensors are stored, are those that `einkorn show --stage candidates`
prints, or as many of them, evenly apart, as --most says. All that are legal are measured twice, the ten best and the default again in turns. Told are how
many there were, how many primitives they change, how many were refused, how much slower the slowest tenth is than the
best, which part of the best's speed the default has, and how well the ranks of the estimated cycles (--stage cost)
agree with those of the measured times (Spearman's correlation). --write puts the table into that page."""
import argparse
import math
import statistics
import time

import einkorn
import numpy
import onnx
from onnx import TensorProto, helper

import tables

RANDOM = numpy.random.default_rng(7)


def constant(name, *shape):
    values = RANDOM.standard_normal(shape, dtype=numpy.float32) / 8
    return helper.make_tensor(name, TensorProto.FLOAT, shape, values.tobytes(), raw=True)


def model(op, shapes, constants, attributes, output_rank):
    inputs = [helper.make_tensor_value_info("x%d" % i, TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    weights = [constant("w%d" % i, *s) for i, s in enumerate(constants)]
    names = ["x%d" % i for i in range(len(shapes))] + ["w%d" % i for i in range(len(constants))]
    node = helper.make_node(op, names, ["y"], "node", **attributes)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * output_rank)
    graph = helper.make_graph([node], "kernel", inputs, [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product(m, k, n):
    return model("MatMul", [[m, k]], [[k, n]], {}, 2)


def convolution(channels, size, outputs, window, stride=1, group=1):
    rank = len(window)
    pads = [w // 2 for w in window] * 2
    return model("Conv", [[1, channels] + size], [[outputs, channels // group] + window],
                 {"strides": [stride] * rank, "pads": pads, "group": group}, rank + 2)


KERNELS = {
    "product 384x384x384": lambda: product(384, 384, 384),
    "product 64x1024x1024": lambda: product(64, 1024, 1024),
    "product 8x768x3072": lambda: product(8, 768, 3072),
    "product 1024x256x256": lambda: product(1024, 256, 256),
    "convolution 3x3, 64 to 64, 56x56": lambda: convolution(64, [56, 56], 64, [3, 3]),
    "convolution 1x1, 256 to 64, 56x56": lambda: convolution(256, [56, 56], 64, [1, 1]),
    "convolution 7x7 by 2, 3 to 64, 112x112": lambda: convolution(3, [112, 112], 64, [7, 7], 2),
    "convolution 3x3 by 2, 128 to 128, 28x28": lambda: convolution(128, [28, 28], 128, [3, 3], 2),
    "convolution of 9, 64 to 64, 2000 places": lambda: convolution(64, [2000], 64, [9]),
    "depthwise 3x3, 144 channels, 56x56": lambda: convolution(144, [56, 56], 144, [3, 3], 1, 144),
    "softmax 512x1000": lambda: model("Softmax", [[512, 1000]], [], {"axis": -1}, 2),
    "LSTM, 32 steps of 256": lambda: model("LSTM", [[32, 1, 256]], [[1, 1024, 256], [1, 1024, 256]],
                                           {"hidden_size": 256}, 4),
}
class Candidate:
    def __init__(self, source, text, threads):
        self.text = text
        self.module = einkorn.compile(source, schedule=text, threads=threads, accuracy="strict")
        self.inputs = {p.name: RANDOM.standard_normal(p.shape, dtype=numpy.float32) for p in self.module.inputs}
        self.times = []

    def burst(self, seconds=0.01):
        run, inputs, best, end = self.module.run, self.inputs, math.inf, time.perf_counter() + seconds
        while True:
            begin = time.perf_counter()
            run(inputs)
            now = time.perf_counter()
            best = min(best, now - begin)
            if now > end:
                self.times.append(best)
                return


def slowest(module, text):
    """The name of the kernel that takes most time, as k3, and the line that names it in the text of all schedules."""
    blocks = [b for b in text.split("\n\n") if b.startswith("kernel")]
    random = {p.name: RANDOM.standard_normal(p.shape, dtype=numpy.float32) for p in module.inputs}
    times = {k["name"]: k["ms"] for k in module.kernels(random)} if len(blocks) > 1 else {}
    block = max(blocks, key=lambda b: (times.get(b.split()[1], 0), "reduce" in b))
    return block.split()[1], block.split("\n")[0]


def candidates(module, head, most):
    """Of the kernel that this line names, and of the tensors: texts, evenly apart, and how many primitives they change."""
    texts = ["schedules 1\n" + t for t in module.show("candidates").split("schedules 1\n")
             if "\n" + head in t or "\ntensor " in t]
    texts = texts[::max(1, math.ceil(len(texts) / most))]
    changed = set()
    for text in texts:
        for change in text.split("\n")[1].split(": ", 1)[1].split("; "):
            words = change.split()
            changed.add(words[2] if words[0] == "nest" else words[0])
    return texts, len(changed)


def estimated(module, kernel):
    for line in module.show("cost").split("\n"):
        words = line.split()
        if len(words) > 5 and words[5] == kernel + ":":
            return float(words[0])
    return math.nan


def ranks(values):
    """Ranks from 0; equal values share their mean rank."""
    order = numpy.argsort(values, kind="stable")
    out = numpy.empty(len(values))
    out[order] = numpy.arange(len(values))
    for value in set(values):
        same = [i for i, v in enumerate(values) if v == value]
        out[same] = numpy.mean(out[same])
    return out


def tried(name, threads, bursts, most):
    source = KERNELS[name]().SerializeToString()
    default = Candidate(source, None, threads)
    kernel, head = slowest(default.module, default.module.show("schedule"))
    texts, primitives = candidates(default.module, head, most)
    made, refused = [default], 0
    for text in texts:
        try:
            made.append(Candidate(source, text, threads))
        except einkorn.EinkornError:
            refused += 1
    for _ in range(2):
        for c in made:
            c.burst()
    measured = [min(c.times) for c in made]
    agree = numpy.corrcoef(ranks([estimated(c.module, kernel) for c in made]), ranks(measured))[0, 1]
    made.sort(key=lambda c: min(c.times))
    slow = statistics.median(min(c.times) for c in made[-max(1, len(made) // 10):])
    best = made[:10] + ([] if default in made[:10] else [default])
    for c in best:
        c.times = []
    for _ in range(bursts):
        for c in best:
            c.burst()
    ranked = sorted(best, key=lambda c: statistics.median(c.times))
    fastest = statistics.median(ranked[0].times)
    part = fastest / statistics.median(default.times)
    return (len(texts), primitives, refused, slow / fastest, 100 * part, agree), ranked[0]


COLUMNS = ("kernel", "tried", "primitives changed", "refused", "slowest tenth / best", "default, of the best's speed",
           "rank correlation of the estimate")


def write(path, rows, mean, agree):
    lines = tables.head(COLUMNS) + ["| %s | %d | %d | %d | %.2f | %.0f %% | %.2f |" % row for row in rows]
    lines += ["", "Default: %.0f %% of the best (geometric mean). Rank correlation: %.2f (mean)." % (mean, agree)]
    tables.write(path, "bench/schedules.py", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels of the list; default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bursts", type=int, default=15, help="turns of the ten best and the default")
    parser.add_argument("--most", type=int, default=1000, help="schedules of a kernel, at most")
    parser.add_argument("--write", metavar="PAGE", help="put the table into this page")
    parser.add_argument("--show", action="store_true", help="print the best schedule of each kernel")
    o = parser.parse_args()
    rows = []
    for name in o.names or KERNELS:
        row, best = tried(name, o.threads, o.bursts, o.most)
        rows.append((name,) + row)
        print("%-42s %4d tried, %2d primitives, %3d refused  slowest tenth %5.2f  default %4.0f %%  estimate %5.2f"
              % rows[-1], flush=True)
        if o.show and best.text:
            print(best.text)
    mean = math.exp(sum(math.log(r[5]) for r in rows) / len(rows))
    agree = sum(r[6] for r in rows) / len(rows)
    print("default: %.0f %% of the best (geometric mean); rank correlation of the estimate: %.2f (mean)"
          % (mean, agree))
    if o.write:
        write(o.write, rows, mean, agree)


if __name__ == "__main__":
    main()
