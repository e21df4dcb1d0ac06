"""Einkorn's Python interface from start to end: compiles an ONNX model and asks it which digits are on pictures.

    python classify.py [MODEL.onnx PICTURE.pgm...]          without arguments: the project's own

Needs the packages einkorn and numpy.
"""
import glob
import os
import sys
import time

import einkorn
import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")


def read_pgm(path):
    """A grey picture in the plain or the binary form of PGM, as numbers from 0 to 16."""
    with open(path, "rb") as f:
        data = f.read()
    words, at = [], 0
    while len(words) < 4:  # the kind, width, height, the number for white; "#" begins a comment
        line_end = data.index(b"\n", at)
        words += data[at:line_end].split(b"#")[0].split()
        at = line_end + 1
    kind, width, height, white = words[0], int(words[1]), int(words[2]), int(words[3])
    values = words[4:] + data[at:].split() if kind == b"P2" else data[at:at + width * height]
    pixels = np.array([int(v) for v in values], np.float32).reshape(height, width)
    return pixels * (16 / white)


def main(words):
    model_path = words[0] if words else os.path.join(HERE, "digits.onnx")
    paths = words[1:] or sorted(glob.glob(os.path.join(HERE, "digit_*.pgm")))
    start = time.perf_counter()
    model = einkorn.compile(model_path)
    print("compiled in %.0f ms: %s" % ((time.perf_counter() - start) * 1e3, model))
    scores = model(np.stack([read_pgm(p) for p in paths])[:, None])
    for path, row in zip(paths, scores):
        print("%s: %d (%.1f %%)" % (os.path.basename(path), row.argmax(), 100 * row.max()))


if __name__ == "__main__":
    main(sys.argv[1:])
