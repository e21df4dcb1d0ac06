#!/usr/bin/env python3
"""Makes the models beside this file and their inputs and results (.npz, by plain numpy, not by the definitions in .ek).

Each own operator stands in a model of the domain `example`. For attention and normalisation there is a second model, NAME_builtin.onnx, that says the same with
ONNX's own operator: to compare the speed.   python3 make_models.py   (needs numpy and onnx)
"""
import os
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
value = lambda name, shape, type=T.FLOAT: h.make_tensor_value_info(name, type, shape)


def save(name, nodes, inputs, outputs, initialisers=(), standard=21):
    opsets = [h.make_opsetid("", standard), h.make_opsetid("example", 1)]
    graph = h.make_graph(nodes, name, inputs, outputs, [onnx.numpy_helper.from_array(a, n) for n, a in initialisers])
    model = h.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="einkorn examples")
    onnx.save(model, os.path.join(here, name + ".onnx"))


def data(name, ins, outs):
    arrays = {f"in_{i}": a for i, a in enumerate(ins)} | {f"out_{i}": a for i, a in enumerate(outs)}
    np.savez_compressed(os.path.join(here, name + ".npz"), **arrays)


# ---- attention over a window: batch B and length L are open; 4 heads of 32
WINDOW = 16
qkv = [value(n, ["B", 4, "L", 32]) for n in "qkv"]
out = [value("y", ["B", 4, "L", 32])]
save("local_attention", [h.make_node("LocalAttention", ["q", "k", "v"], ["y"], "attention", domain="example", window=WINDOW)], qkv, out)
save("local_attention_builtin", [h.make_node("Attention", ["q", "k", "v"], ["y"], "attention", is_causal=1, left_window_size=WINDOW - 1)], qkv, out,
     standard=onnx.defs.onnx_opset_version())
q, k, v = (rng.standard_normal((2, 4, 40, 32)).astype(np.float32) for _ in range(3))
y = np.zeros_like(v)
for t in range(q.shape[2]):
    a = max(0, t - WINDOW + 1)
    s = np.einsum("nhd,nhsd->nhs", q[:, :, t].astype(np.float64), k[:, :, a:t + 1]) / np.sqrt(32)
    p = np.exp(s - s.max(-1, keepdims=True))
    y[:, :, t] = np.einsum("nhs,nhsd->nhd", p / p.sum(-1, keepdims=True), v[:, :, a:t + 1])
data("local_attention", [q, k, v], [y])

# ---- normalisation: two of them around a product, p = 2 and p = 3; and one alone, for the comparison
D = 64
w1, w2 = (0.1 * rng.standard_normal(D).astype(np.float32) for _ in range(2))
m = (rng.standard_normal((D, D)) / 8).astype(np.float32)
save("power_norm", [
    h.make_node("PowerNorm", ["x", "w1"], ["a"], "norm1", domain="example"),
    h.make_node("MatMul", ["a", "m"], ["b"], "product"),
    h.make_node("PowerNorm", ["b", "w2"], ["y"], "norm2", domain="example", p=3.0),
], [value("x", ["B", "L", D])], [value("y", ["B", "L", D])], [("w1", w1), ("w2", w2), ("m", m)])


def norm(x, w, p):
    x = x.astype(np.float64)
    return x / ((np.abs(x) ** p).mean(-1, keepdims=True) + 1e-5) ** (1 / p) * (1 + w)


x = rng.standard_normal((2, 9, D)).astype(np.float32)
data("power_norm", [x], [norm(norm(x, w1, 2) @ m, w2, 3).astype(np.float32)])

D = 768
w = 0.1 * rng.standard_normal(D).astype(np.float32)
one = [value("x", ["L", D])], [value("y", ["L", D])]
save("power_norm_alone", [h.make_node("PowerNorm", ["x", "w"], ["y"], "norm", domain="example")], *one, [("w", w)])
save("power_norm_builtin", [h.make_node("RMSNormalization", ["x", "w"], ["y"], "norm", epsilon=1e-5)], *one, [("w", 1 + w)], standard=23)

# ---- Matrix NMS: clusters of boxes, 3 classes; the reference sorts, as the paper's code does
save("matrix_nms", [h.make_node("MatrixNms", ["boxes", "scores"], ["rows", "index"], "nms", domain="example")],
     [value("boxes", ["N", 4]), value("scores", [3, "N"])], [value("rows", ["M", 6]), value("index", ["M"], T.INT64)])


def matrix_nms(boxes, scores, sigma=2.0, low=0.05, post=0.05):
    found = []
    for c, s in enumerate(scores.astype(np.float64)):
        order = [i for i in np.argsort(-s, kind="stable") if s[i] > low]
        b, s = boxes[order].astype(np.float64), s[order]
        wh = np.maximum(np.minimum(b[:, None, 2:], b[None, :, 2:]) - np.maximum(b[:, None, :2], b[None, :, :2]), 0)
        inter, area = wh.prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
        iou = np.triu(inter / (area[:, None] + area[None, :] - inter), 1)          # row: the better box
        cover = iou.max(0)
        decay = np.exp(-sigma * (iou ** 2 - cover[:, None] ** 2))
        s = s * np.where(np.triu(np.ones_like(iou), 1) > 0, decay, 1).min(0)
        found += [(-s[j], c, i) for j, i in enumerate(order) if s[j] > post]
    found.sort()
    rows = np.array([[c, -s, *boxes[i]] for s, c, i in found], np.float32).reshape(-1, 6)
    return rows, np.array([i for _, _, i in found], np.int64)


def scene(n, objects):
    centre = rng.uniform(0, 200, (objects, 2))[rng.integers(0, objects, n)] + rng.normal(0, 4, (n, 2))
    size = rng.uniform(15, 40, (n, 2))
    boxes = np.concatenate([centre - size / 2, centre + size / 2], 1).astype(np.float32)
    return boxes, (rng.uniform(0, 1, (3, n)) ** 4).astype(np.float32)


for name, n in (("matrix_nms", 60), ("matrix_nms.large", 300)):
    ins = scene(n, 1 + n // 8)
    data(name, ins, matrix_nms(*ins))
