#!/usr/bin/env python3
"""How good are the default schedules? Tries others around the default of one kernel, and ranks them.

    PYTHONPATH=build/python bench/schedules.py [--threads N] [--bursts 15] [--markdown] [NAME...]

Needs the package einkorn and PyPI's onnx and numpy. Each NAME (default: all of KERNELS) is a model of one operator. Its
slowest kernel is varied: size of the tile, variable on the lanes, order of the loops and of the sum, panels outside or
inside, packing, blocks, unrolling, prefetch, chunks; one of these at a time, and each tile with each of the others. All
that are legal are measured once, the ten best and the default again in turns. Told are how many there were, how many
were refused, how much slower the slowest tenth is than the best, and which part of the best's speed the default has."""
import argparse
import itertools
import math
import statistics
import time

import einkorn
import numpy
import onnx
from onnx import TensorProto, helper

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
DROPPED = { # what hangs on a primitive, and is left to the compiler when that is changed
    "lanes": "rows tile panels strip block unroll pack buffer reduce",
    "rows": "tile panels strip block unroll pack buffer",
    "tile": "strip block", "panels": "strip block buffer", "reduce": "unroll block buffer", "order": "tile strip block",
    "pack": "block", "unroll": "", "block": "", "prefetch": "",
}


class Kernel:
    """A kernel's block of a text of schedules: its lines, by nest."""

    def __init__(self, text):
        self.head, *lines = text.split("\n")
        self.own, self.nests, at = [], [], None
        for line in lines:
            words = line.split()
            if words[:1] == ["nest"]:
                at = (line, [])
                self.nests.append(at)
            elif words == ["}"]:
                at = None
            elif words:
                (at[1] if at else self.own).append(words)

    def with_changes(self, nest, changes):
        """Its text, where in that nest each {primitive: words} is changed, and what hangs on it is left out."""
        out = [self.head] + ["  " + " ".join(w) for w in self.own if w[0] not in ("chunks",)]
        for i, (line, directives) in enumerate(self.nests):
            dropped = " ".join(DROPPED[p] for p in changes).split() if i == nest else []
            out.append(line)
            for words in directives:
                if i != nest or (words[0] not in changes and words[0] not in dropped):
                    out.append("    " + " ".join(words))
            out += ["    %s %s" % (p, words) for p, words in changes.items() if i == nest]
            out.append("  }")
        return "schedules 1\n" + "\n".join(out) + "\n}\n"


def alternatives(directives):
    """{primitive: other words} of a nest, one change each; the sizes of tiles apart."""
    has = {}
    for words in directives:
        has.setdefault(words[0], words[1:])
    order, reduced = has.get("order", []), has.get("reduce", [])
    lanes = has["lanes"][-1] if len(has["lanes"]) > 1 else "16"
    out = [{"lanes": "%s %s" % (v, lanes)} for v in order + reduced if v != has["lanes"][0]]
    out += [{"rows": v} for v in order if v not in (has["lanes"][0], has["rows"][0])]
    if "panels" in has:
        out.append({"panels": "inside" if has["panels"] == ["outside"] else "outside"})
    out += [{"reduce": " ".join(p)} for p in itertools.permutations(reduced) if list(p) != reduced]
    if has.get("pack", ["none"]) != ["none"]:
        out.append({"pack": "none"})
    if reduced:
        out.append({"unroll": reduced[-1] if has.get("unroll") == ["none"] else "none"})
        out += [{"block": "%s %d panels %d rows 96" % (reduced[0], n, p)} for n in (64, 128, 256) for p in (2, 4)]
    out.append({"prefetch": "off" if has.get("prefetch") == ["on"] else "on"})
    tiles = [(m, v) for m in (1, 2, 3, 4, 6, 8, 10, 12, 14) for v in (1, 2, 3, 4, 6) if m * v <= 30]
    if has["rows"] == ["none"]:
        tiles = [(1, v) for v in (1, 2, 3, 4, 6, 8, 12)]
    return out, [{"tile": "%d %d" % t} for t in tiles]


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
    """The block of the kernel that takes most time, of a text with all."""
    blocks = [b for b in text.split("\n\n") if b.startswith("kernel")]
    random = {p.name: RANDOM.standard_normal(p.shape, dtype=numpy.float32) for p in module.inputs}
    times = {k["name"]: k["ms"] for k in module.kernels(random)} if len(blocks) > 1 else {}
    return max(blocks, key=lambda b: (times.get(b.split()[1], 0), "reduce" in b))


def tried(name, threads, bursts):
    source = KERNELS[name]().SerializeToString()
    default = Candidate(source, None, threads)
    text = einkorn.compile(source, threads=threads, accuracy="strict").show("schedule")
    kernel = Kernel(slowest(default.module, text))
    made, refused = [default], 0
    for nest, (_, directives) in enumerate(kernel.nests):
        single, tiles = alternatives(directives)
        both = [dict(t, **s) for t in tiles for s in single if "tile" not in DROPPED[next(iter(s))]]
        for changes in single + tiles + both:
            try:
                made.append(Candidate(source, kernel.with_changes(nest, changes), threads))
            except einkorn.EinkornError:
                refused += 1
    for c in made:
        c.burst(), c.burst()
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
    return len(made), refused, slow / fastest, fastest / statistics.median(default.times), ranked[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels of the list; default: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bursts", type=int, default=15, help="turns of the ten best and the default")
    parser.add_argument("--markdown", action="store_true", help="a table for the documents")
    parser.add_argument("--show", action="store_true", help="print the best schedule of each kernel")
    o = parser.parse_args()
    form = "%-42s %5d tried %4d refused  slowest tenth %5.2f  default %4.0f %%"
    if o.markdown:
        form = "| %s | %d | %d | %.2f | %.0f %% |"
    parts = []
    for name in o.names or KERNELS:
        tries, refused, slow, part, best = tried(name, o.threads, o.bursts)
        parts.append(part)
        print(form % (name, tries, refused, slow, 100 * part), flush=True)
        if o.show and best.text:
            print(best.text)
    print("geometric mean of the default's part: %.0f %%" % (100 * math.exp(sum(map(math.log, parts)) / len(parts))))


if __name__ == "__main__":
    main()
