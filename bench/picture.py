#!/usr/bin/env python3
"""Draws docs/speed.svg from the tables of docs/benchmarks.md: for each model, how many times as fast Einkorn is as the
best of the other engines, in 1 and 2 threads; also where it is slower. Python's standard library only.

    bench/picture.py [--check]          --check: exit 1 where the file is not what would be written
"""
import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = {"bert12x384_s128": "BERT, 12 layers, 128 tokens", "efficientnet_b0": "EfficientNet-B0",
         "light_inception_v1": "Inception v1", "light_squeezenet": "SqueezeNet", "lstm100x256": "LSTM, 100 steps",
         "minilm_s128": "MiniLM, 128 tokens", "minilm_s32": "MiniLM, 32 tokens", "mobilenet_v2": "MobileNet v2",
         "resnet18": "ResNet-18", "resnet50": "ResNet-50", "vgg16": "VGG-16"}
BAR, GAP, LEFT, WIDTH, HEAD = 9, 9, 190, 440, 54


def table(part, threads, rows, engines):
    """Adds to {model: {threads: ratio}} and to the other engines' names what a table says."""
    for name, ratio, engine in re.findall(r"^\| (\w+) \|.*\| ([\d.]+) \((\w+)\) \|$", part, re.M):
        rows.setdefault(name.removesuffix("_int8"), {})[threads] = float(ratio)
    engines.update(c.strip() for c in re.search(r"^\|.*of peak \|(.*)\| best", part, re.M)[1].split("|"))


def tables(text):
    """{title: (machine, rows, engines)}, rows and engines as table() fills them: of whole f32 models, and of int8."""
    f32, int8 = ({}, set()), ({}, set())
    parts = {"f32": text.split("<!-- tables: written by bench/run -->", 1)[1],
             "int8": text.split("<!-- int8 tables: written by bench/run -->", 1)[1]}
    for threads in (1, 2):
        table(parts["f32"].split("### Whole models, %d thread" % threads, 1)[1].split("###", 1)[0], threads, *f32)
        table("| %d thread" % threads + parts["int8"].split("\n| %d thread" % threads, 1)[1].split("\n\n", 1)[0],
              threads, *int8)
    return {"f32": (machine(parts["f32"]), *f32), "int8": (machine(parts["int8"]), *int8)}


def machine(text):
    return " ".join(re.search(r"Machine: (.*?),? *\d* processors?;", text, re.S)[1].split())


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def bars(out, y, title, on, rows, engines, scale):
    """Appends a heading and two bars for each model, from y on; returns where they end."""
    out.append('<text x="10" y="%d" font-size="15" font-weight="600">Speed in %s: times that of the best of %s</text>'
               % (y + 20, title, ", ".join(sorted(engines))))
    out.append('<text x="10" y="%d" fill="#555">%s; dark 1 thread, light 2; geometric means %.2f and %.2f</text>'
               % (y + 38, on, *(mean([r[t] for r in rows.values()]) for t in (1, 2))))
    top = y = y + HEAD
    for name, ratios in sorted(rows.items(), key=lambda r: -r[1][1]):
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (LEFT - 8, y + BAR + 4, NAMES.get(name, name)))
        for threads, color in ((1, "#2b6cb0"), (2, "#90bfe8")):
            ratio = ratios[threads]
            out.append('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>' % (LEFT, y, ratio * scale, BAR, color))
            out.append('<text x="%.1f" y="%d" font-size="10" fill="#333">%.2f</text>'
                       % (LEFT + ratio * scale + 4, y + BAR - 1, ratio))
            y += BAR
        y += GAP
    out.append('<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" stroke="#c53030" stroke-dasharray="4 3"/>'
               .format(LEFT + scale, top - 6, y))
    out.append('<text x="%.1f" y="%d" fill="#c53030" font-size="10">as fast as the best other engine</text>'
               % (LEFT + scale + 4, y + 4))
    return y + 18


def picture(text):
    groups = tables(text)
    most = max(max(r.values()) for _, rows, _ in groups.values() for r in rows.values())
    scale = WIDTH / (math.ceil(most * 4) / 4)
    out, y = [], 0
    for title, group in groups.items():
        y = bars(out, y, title, *group, scale)
    height = y
    return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 %d" width="700" height="%d" '
                      'font-family="system-ui, sans-serif" font-size="12">' % (height, height),
                      '<rect width="700" height="%d" fill="white"/>' % height] + out + ["</svg>"]) + "\n"


def main(words):
    with open(os.path.join(ROOT, "docs/benchmarks.md"), encoding="utf-8") as f:
        drawn = picture(f.read())
    path = os.path.join(ROOT, "docs/speed.svg")
    if words == ["--check"]:
        with open(path, encoding="utf-8") as f:
            return f.read() != drawn
    with open(path, "w", encoding="utf-8") as f:
        f.write(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
