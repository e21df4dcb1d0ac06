#!/usr/bin/env python3
"""Trains the digit classifier of the demo; writes digits.onnx, digit_0.pgm ... digit_9.pgm, all.npz, and all pictures as
IDX files beside itself.

Data: the 1,797 pictures of 8x8 that come with scikit-learn, three quarters for training, one quarter held out.
Network: Conv 3x3 to 8 - Relu - Conv 3x3 to 16 - Relu - MaxPool 2x2 - Conv 3x3 to 24 - Relu - Gemm - Softmax, all in
numpy: a convolution is a product with the matrix of all windows, its gradient the transpose of that product.
Training pictures are shifted by up to one pixel.  The seed is fixed; another BLAS may still change the last digits.

Needs numpy, scikit-learn and onnx; `make demo` needs none of them, since the files written here are committed.
"""
import io
import pathlib
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
EPOCHS, BATCH, RATE, DECAY = 60, 64, 2e-3, 1e-4


def windows(x):
    """[N, C, H, W] -> [N, H, W, C * 9]: every 3x3 window of the picture with a border of zeros."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(len(x), x.shape[2] - 2, x.shape[3] - 2, -1)


def conv(x, w, b):
    columns = windows(x)
    return (columns @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2), columns


def conv_back(dy, w, columns):
    """Gradients for the input, the weights and the bias."""
    flat = dy.transpose(0, 2, 3, 1)
    dw = np.einsum("nhwo,nhwk->ok", flat, columns, optimize=True).reshape(w.shape)
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return conv(dy, np.ascontiguousarray(flipped), 0)[0], dw, flat.sum((0, 1, 2))


def pool(x):
    """2x2 maxima, and the mask of the places they came from."""
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // 2, 2, w // 2, 2)
    top = y.max((3, 5), keepdims=True)
    return top[:, :, :, 0, :, 0], (y == top)


def forward(p, x):
    a, ca = conv(x / 16, p["w1"], p["b1"])
    b, cb = conv(np.maximum(a, 0), p["w2"], p["b2"])
    m, mask = pool(np.maximum(b, 0))
    c, cc = conv(m, p["w3"], p["b3"])
    flat = np.maximum(c, 0).reshape(len(x), -1)
    return flat @ p["w4"].T + p["b4"], (a, ca, b, cb, mask, c, cc, flat)


def gradients(p, x, labels):
    logits, (a, ca, b, cb, mask, c, cc, flat) = forward(p, x)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(x)), labels] -= 1
    d /= len(x)
    g = {"w4": d.T @ flat, "b4": d.sum(0)}
    d = (d @ p["w4"]).reshape(c.shape) * (c > 0)
    d, g["w3"], g["b3"] = conv_back(d, p["w3"], cc)
    d = (d[:, :, :, None, :, None] * mask).reshape(b.shape) * (b > 0)
    d, g["w2"], g["b2"] = conv_back(d, p["w2"], cb)
    _, g["w1"], g["b1"] = conv_back(d * (a > 0), p["w1"], ca)
    return g


def shifted(x, random):
    """Every picture moved by -1, 0 or 1 pixel in each direction, zeros moving in."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = random.randint(0, 3, (len(x), 2))
    return np.stack([padded[i, :, r : r + 8, c : c + 8] for i, (r, c) in enumerate(moves)])


def train(x, labels):
    random = np.random.RandomState(7)
    shapes = {"w1": (8, 1, 3, 3), "w2": (16, 8, 3, 3), "w3": (24, 16, 3, 3), "w4": (10, 24 * 16)}
    p = {}
    for name, shape in shapes.items():
        p[name] = (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
        p["b" + name[1]] = np.zeros(shape[0], np.float32)
    mean, square = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
    step, total = 0, EPOCHS * (len(x) // BATCH)
    for _ in range(EPOCHS):
        order = random.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[start : start + BATCH]
            g = gradients(p, shifted(x[pick], random), labels[pick])
            step += 1
            rate = RATE * (1 + np.cos(np.pi * step / total)) / 2
            for k in p:  # Adam with decoupled decay
                mean[k] += 0.1 * (g[k] - mean[k])
                square[k] += 0.001 * (g[k] ** 2 - square[k])
                update = mean[k] / (1 - 0.9**step) / (np.sqrt(square[k] / (1 - 0.999**step)) + 1e-8)
                p[k] -= np.float32(rate) * (update + np.float32(DECAY) * p[k]).astype(np.float32)
    return p


def as_model(p):
    weights = [numpy_helper.from_array(np.ascontiguousarray(p[k], np.float32), k) for k in sorted(p)]
    weights += [numpy_helper.from_array(np.float32(1 / 16), "scale")]
    node, same = helper.make_node, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Mul", ["image", "scale"], ["scaled"], "scale_input"),
        node("Conv", ["scaled", "w1", "b1"], ["a"], "conv1", **same),
        node("Relu", ["a"], ["a_relu"], "relu1"),
        node("Conv", ["a_relu", "w2", "b2"], ["b"], "conv2", **same),
        node("Relu", ["b"], ["b_relu"], "relu2"),
        node("MaxPool", ["b_relu"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["pooled", "w3", "b3"], ["c"], "conv3", **same),
        node("Relu", ["c"], ["c_relu"], "relu3"),
        node("Flatten", ["c_relu"], ["flat"], "flatten", axis=1),
        node("Gemm", ["flat", "w4", "b4"], ["logits"], "classify", transB=1),
        node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="einkorn-examples")
    onnx.checker.check_model(model, full_check=True)
    return model


def write_npz(path, arrays):
    """Stored and dated 1980, so that the bytes depend on the arrays alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), version=(1, 0))
            archive.writestr(zipfile.ZipInfo(key + ".npy", (1980, 1, 1, 0, 0, 0)), member.getvalue())


def write_idx(path, array):
    """Bytes in the format of the MNIST files: a zero, a zero, 8 (bytes), the rank; each size in 4 bytes; the elements."""
    array = np.asarray(array).astype(np.uint8)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes())


def main():
    data = load_digits()
    images = data.images.astype(np.float32)[:, None]
    x, held, y, held_y = train_test_split(images, data.target, test_size=0.25, random_state=1, stratify=data.target)
    for name, images_of, labels in (("train", x, y), ("test", held, held_y)):
        write_idx(HERE / f"{name}-images.idx", images_of[:, 0])
        write_idx(HERE / f"{name}-labels.idx", labels)
    model = as_model(train(x, y))
    (HERE / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    evaluator = ReferenceEvaluator(model)
    scores = evaluator.run(None, {"image": held})[0]
    right = scores.argmax(1) == held_y
    print(f"held out: {right.sum()} of {len(held)} right ({100 * right.mean():.1f} %), "
          f"{sum(int(np.prod(t.dims)) for t in model.graph.initializer) - 1} parameters")
    for digit in range(10):
        at = int(np.flatnonzero(held_y == digit)[0])  # the first one, whatever the answer
        rows = "\n".join(" ".join(f"{int(v):2d}" for v in row) for row in held[at, 0])
        (HERE / f"digit_{digit}.pgm").write_text(f"P2\n8 8\n16\n{rows}\n")
        print(f"digit_{digit}.pgm: {scores[at].argmax()} ({100 * scores[at].max():.1f} %)")
    write_npz(HERE / "all.npz", {"in_0": held[:32], "out_0": scores[:32]})


if __name__ == "__main__":
    main()
