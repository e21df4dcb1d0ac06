#!/usr/bin/env python3
"""Trains the network of this example, which reads a picture of a digit row by row, and writes rows.onnx beside itself.

Data: the 1,797 pictures of 8x8 that come with scikit-learn, three quarters for training, one quarter held out.
Network: a GRU with a state of 32 numbers, and a Gemm with Softmax that gives scores after every row. It is trained in
numpy, by going back through the eight rows; later rows count more, since early ones cannot know. Pictures are shifted
by up to one pixel to the side. The seed is fixed; another BLAS may still change the last digits.

    python train.py [ROWS.onnx]

Needs numpy, scikit-learn and onnx; stream.py needs none but numpy, since rows.onnx is committed.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
STATE, EPOCHS, BATCH, RATE, DECAY = 32, 120, 64, 4e-3, 1e-3
IMPORTANCE = np.array([0, 0, 1, 2, 4, 8, 16, 32], np.float32) / 63  # of the scores after each row


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(p, row, state):
    """One row: the new state, and what the way back needs. Columns of the matrices: update, reset, new value."""
    a, b = row / 16 @ p["w"] + p["wb"], state @ p["r"] + p["rb"]
    z = sigmoid(a[:, :STATE] + b[:, :STATE])
    r = sigmoid(a[:, STATE:2 * STATE] + b[:, STATE:2 * STATE])
    n = np.tanh(a[:, 2 * STATE:] + r * b[:, 2 * STATE:])
    return (1 - z) * n + z * state, (row, state, z, r, n, b)


def step_back(p, g, d, kept):
    """Adds to the gradients g of the parameters; d is the gradient for the new state. Returns that for the old one."""
    row, state, z, r, n, b = kept
    dn = d * (1 - z) * (1 - n * n)
    dr = dn * b[:, 2 * STATE:] * r * (1 - r)
    dz = d * (state - n) * z * (1 - z)
    da, db = np.concatenate([dz, dr, dn], 1), np.concatenate([dz, dr, dn * r], 1)
    g["w"] += (row / 16).T @ da
    g["wb"] += da.sum(0)
    g["r"] += state.T @ db
    g["rb"] += db.sum(0)
    return d * z + db @ p["r"].T


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def gradients(p, pictures, labels):
    g = {k: np.zeros_like(v) for k, v in p.items()}
    state, steps = np.zeros((len(pictures), STATE), np.float32), []
    for row in pictures.transpose(1, 0, 2):
        state, kept = step(p, row, state)
        steps.append((state, kept))
    d = np.zeros_like(state)
    for (state, kept), weight in zip(steps[::-1], IMPORTANCE[::-1]):
        e = softmax(state @ p["v"] + p["vb"])
        e[np.arange(len(e)), labels] -= 1
        e *= weight / len(e)
        g["v"] += state.T @ e
        g["vb"] += e.sum(0)
        d = step_back(p, g, d + e @ p["v"].T, kept)
    return g


def shifted(x, random):
    """Every picture moved by -1, 0 or 1 pixel to the side, zeros moving in."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    return np.stack([padded[i, :, c:c + 8] for i, c in enumerate(random.randint(0, 3, len(x)))])


def train(x, labels):
    random = np.random.RandomState(7)
    p = {}
    for name, rows, columns in (("w", 8, 3 * STATE), ("r", STATE, 3 * STATE), ("v", STATE, 10)):
        p[name] = (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        p[name + "b"] = np.zeros(columns, np.float32)
    mean, square = ({k: np.zeros_like(v) for k, v in p.items()} for _ in range(2))
    at, total = 0, EPOCHS * (len(x) // BATCH)
    for _ in range(EPOCHS):
        order = random.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[start:start + BATCH]
            g = gradients(p, shifted(x[pick], random), labels[pick])
            at += 1
            rate = RATE * (1 + np.cos(np.pi * at / total)) / 2
            for k in p:  # Adam with decoupled decay
                mean[k] += 0.1 * (g[k] - mean[k])
                square[k] += 0.001 * (g[k] ** 2 - square[k])
                update = mean[k] / (1 - 0.9**at) / (np.sqrt(square[k] / (1 - 0.999**at)) + 1e-8)
                p[k] -= (rate * (update + DECAY * p[k])).astype(np.float32)
    return p


def as_model(p):
    """One step: a row and the state go in, scores and the next state come out; N pictures at a time."""
    constants = {"scale": np.float32(1 / 16), "time": np.array([0], np.int64), "W": p["w"].T[None], "R": p["r"].T[None],
                 "B": np.concatenate([p["wb"], p["rb"]])[None], "V": p["v"], "C": p["vb"]}
    node = helper.make_node
    nodes = [
        node("Mul", ["row", "scale"], ["scaled"], "scale_input"),
        node("Unsqueeze", ["scaled", "time"], ["sequence"], "one_step"),
        node("Unsqueeze", ["state", "time"], ["state_before"], "one_direction"),
        node("GRU", ["sequence", "W", "R", "B", "", "state_before"], ["", "state_after"], "gru", hidden_size=STATE,
             linear_before_reset=1),
        node("Squeeze", ["state_after", "time"], ["next_state"], "state_out"),
        node("Gemm", ["next_state", "V", "C"], ["logits"], "classify"),
        node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "rows", [value("row", TensorProto.FLOAT, ["N", 8]), value("state", TensorProto.FLOAT, ["N", STATE])],
        [value("scores", TensorProto.FLOAT, ["N", 10]), value("next_state", TensorProto.FLOAT, ["N", STATE])],
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="einkorn-examples")
    onnx.checker.check_model(model, full_check=True)
    return model


def main(words):
    path = pathlib.Path(words[0]) if words else HERE / "rows.onnx"
    data = load_digits()
    images = data.images.astype(np.float32)
    x, held, y, held_y = train_test_split(images, data.target, test_size=0.25, random_state=1, stratify=data.target)
    p = train(x, y)
    path.write_bytes(as_model(p).SerializeToString(deterministic=True))
    state = np.zeros((len(held), STATE), np.float32)
    for i in range(8):
        state, _ = step(p, held[:, i], state)
        right = (softmax(state @ p["v"] + p["vb"]).argmax(1) == held_y).sum()
        print("after %d rows: %d of %d held out are right (%.1f %%)" % (i + 1, right, len(held), 100 * right / len(held)))


if __name__ == "__main__":
    main(sys.argv[1:])
