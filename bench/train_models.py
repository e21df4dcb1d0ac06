"""Models to train: each as ONNX, as an exporter writes it for inference, and as functions of the same weights in
PyTorch and in JAX. `build(name, type, seed, ..)` gives (ONNX model, weights by name, batch), the same of every type:
values of f32. Further arguments are the model's sizes."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

NAMES = ("mlp", "lenet", "cnn", "resnet18", "lstm", "transformer", "unet")


class Net:
    """An ONNX graph that grows, with weights from a seed."""

    def __init__(self, dtype, seed=0):
        self.nodes, self.weights, self.dtype, self.random = [], {}, dtype, np.random.default_rng(10 * seed + 7)

    def weight(self, name, *shape, fan=None, value=None):
        x = np.full(shape, value) if fan is None else self.random.standard_normal(shape) * (2 / fan) ** 0.5
        self.weights[name] = x.astype(np.float32).astype(self.dtype)
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = ["%s_%d_%d" % (kind, len(self.nodes), i) for i in range(outputs)]
        name = "%s_%d" % (kind, len(self.nodes))
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, x):
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(x)))

    def conv(self, name, x, i, o, k, stride=1, pad=0, bias=False):
        w = [self.weight(name + ".weight", o, i, k, k, fan=i * k * k)]
        w += [self.weight(name + ".bias", o, value=0)] if bias else []
        return self.op("Conv", x, *w, strides=[stride] * 2, pads=[pad] * 4, kernel_shape=[k, k])

    def norm(self, name, x, c):
        w = [self.weight(name + "." + n, c, value=v) for n, v in (("weight", 1), ("bias", 0), ("mean", 0), ("var", 1))]
        return self.op("BatchNormalization", x, *w)

    def linear(self, name, x, i, o):
        return self.op("Add", self.op("MatMul", x, self.weight(name + ".weight", i, o, fan=2 * i)),
                       self.weight(name + ".bias", o, value=0))

    def layer_norm(self, name, x, c):
        w, b = self.weight(name + ".weight", c, value=1), self.weight(name + ".bias", c, value=0)
        return self.op("LayerNormalization", x, w, b, axis=-1)


def mlp(n):
    x = n.op("Relu", n.linear("l0", "x", 784, 512))
    return n.linear("l2", n.op("Relu", n.linear("l1", x, 512, 512)), 512, 10), (64, 784), (64,), 10


def lenet(n):
    x = n.op("MaxPool", n.op("Relu", n.conv("c0", "x", 1, 6, 5, 1, 2, True)), kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("MaxPool", n.op("Relu", n.conv("c1", x, 6, 16, 5, 1, 0, True)), kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Relu", n.linear("l0", n.op("Flatten", x), 400, 120))
    return n.linear("l2", n.op("Relu", n.linear("l1", x, 120, 84)), 84, 10), (64, 1, 28, 28), (64,), 10


WIDTHS = (32, 64, 128)


def cnn(n, batch=32):
    x, i = "x", 3
    for k, o in enumerate(WIDTHS):
        x, i = n.op("Relu", n.norm("n%d" % k, n.conv("c%d" % k, x, i, o, 3, 1, 1), o)), o
        x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return n.linear("fc", n.op("Flatten", x), WIDTHS[-1] * 16, 10), (batch, 3, 32, 32), (batch,), 10


STAGES = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))


def resnet18(n, batch=32):
    x, i = n.op("Relu", n.norm("stem.n", n.conv("stem.c", "x", 3, 64, 3, 1, 1), 64)), 64
    for k, (o, s) in enumerate(STAGES):
        b = "b%d." % k
        y = n.op("Relu", n.norm(b + "n0", n.conv(b + "c0", x, i, o, 3, s, 1), o))
        y = n.norm(b + "n1", n.conv(b + "c1", y, o, o, 3, 1, 1), o)
        x = n.norm(b + "nd", n.conv(b + "cd", x, i, o, 1, s, 0), o) if s > 1 else x
        x, i = n.op("Relu", n.op("Add", y, x)), o
    return n.linear("fc", n.op("Flatten", n.op("GlobalAveragePool", x)), 512, 10), (batch, 3, 32, 32), (batch,), 10


def lstm(n, steps=100, batch=32, size=256):
    for name, shape in (("W", (1, 4 * size, size)), ("R", (1, 4 * size, size)), ("B", (1, 8 * size))):
        n.weight(name, *shape, fan=6 * size)
    y = n.op("LSTM", "x", "W", "R", "B", outputs=3, hidden_size=size)[1]
    return n.linear("fc", n.op("Squeeze", y, n.constant(np.array([0]))), size, 10), (steps, batch, size), (batch,), 10


def transformer(n, layers=6, width=384, steps=64, batch=8, vocabulary=256, heads=6):
    n.weight("token", vocabulary, width, fan=2 * width ** 2), n.weight("place", steps, width, fan=2 * width ** 2)
    x = n.op("Add", n.op("Gather", "token", "x"), "place")
    split, join = n.constant(np.array([0, 0, heads, width // heads])), n.constant(np.array([0, 0, width]))
    mask = n.constant(np.triu(np.full((steps, steps), -1e9, n.dtype), 1))
    scale, half, one = [n.constant(np.asarray(v, n.dtype)) for v in ((width // heads) ** -0.5, 0.5, 1)]
    root = n.constant(np.asarray(0.5 ** 0.5, n.dtype))
    for k in range(layers):
        b = "b%d." % k
        y = n.layer_norm(b + "n0", x, width)
        q, k, v = [n.op("Transpose", n.op("Reshape", n.linear(b + name, y, width, width), split), perm=perm)
                   for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))]
        y = n.op("Softmax", n.op("Add", n.op("Mul", n.op("MatMul", q, k), scale), mask), axis=-1)
        y = n.op("Reshape", n.op("Transpose", n.op("MatMul", y, v), perm=[0, 2, 1, 3]), join)
        x = n.op("Add", x, n.linear(b + "o", y, width, width))
        y = n.linear(b + "f0", n.layer_norm(b + "n1", x, width), width, 4 * width)
        y = n.op("Mul", n.op("Mul", y, half), n.op("Add", n.op("Erf", n.op("Mul", y, root)), one))
        x = n.op("Add", x, n.linear(b + "f1", y, 4 * width, width))
    x = n.linear("head", n.layer_norm("n", x, width), width, vocabulary)
    return (n.op("Reshape", x, n.constant(np.array([-1, vocabulary]))), (batch, steps), (batch * steps,), vocabulary)


def unet(n, size=32):
    def block(name, x, i, o):
        x = n.op("Relu", n.norm(name + ".n0", n.conv(name + ".c0", x, i, o, 3, 1, 1), o))
        return n.op("Relu", n.norm(name + ".n1", n.conv(name + ".c1", x, o, o, 3, 1, 1), o))

    def up(name, x, i, o):
        w = n.weight(name + ".weight", i, o, 2, 2, fan=i)
        return n.op("ConvTranspose", x, w, strides=[2, 2], kernel_shape=[2, 2])

    a = block("a", "x", 3, 16)
    b = block("b", n.op("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 16, 32)
    c = block("c", n.op("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]), 32, 64)
    b = block("d", n.op("Concat", up("ub", c, 64, 32), b, axis=1), 64, 32)
    a = block("e", n.op("Concat", up("ua", b, 32, 16), a, axis=1), 32, 16)
    return n.conv("out", a, 16, 5, 1, bias=True), (8, 3, size, size), (8, size, size), 5


def build(name, dtype=np.float32, seed=0, **sizes):
    n = Net(dtype, seed)
    out, shape, labels, classes = globals()[name](n, **sizes)
    random = np.random.default_rng(10 * seed + 1)
    words = name == "transformer"
    x = random.integers(0, classes, shape) if words else random.standard_normal(shape).astype(np.float32).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        n.nodes, name, [helper.make_tensor_value_info("x", TensorProto.INT64 if words else kind, shape)],
        [helper.make_tensor_value_info(out, kind, None)], [numpy_helper.from_array(v, k) for k, v in n.weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, n.weights, {"x": x, "target": random.integers(0, classes, labels)}


# ---- the same in PyTorch: functions of the input and of the weights by name; statistics are not kept ----
def torch_function(name):
    import torch
    import torch.nn.functional as F

    def linear(x, p, n):
        return x @ p[n + ".weight"] + p[n + ".bias"]

    def conv(x, p, n, stride=1, pad=0):
        return F.conv2d(x, p[n + ".weight"], p.get(n + ".bias"), stride, pad)

    def norm(x, p, n):
        return F.batch_norm(x, None, None, p[n + ".weight"], p[n + ".bias"], True)

    def mlp(x, p):
        return linear(F.relu(linear(F.relu(linear(x, p, "l0")), p, "l1")), p, "l2")

    def lenet(x, p):
        x = F.max_pool2d(F.relu(conv(x, p, "c0", 1, 2)), 2)
        return mlp(F.max_pool2d(F.relu(conv(x, p, "c1")), 2).flatten(1), p)

    def cnn(x, p):
        for k in range(len(WIDTHS)):
            x = F.max_pool2d(F.relu(norm(conv(x, p, "c%d" % k, 1, 1), p, "n%d" % k)), 2)
        return linear(x.flatten(1), p, "fc")

    def resnet18(x, p):
        x = F.relu(norm(conv(x, p, "stem.c", 1, 1), p, "stem.n"))
        for k, (_, s) in enumerate(STAGES):
            b = "b%d." % k
            y = F.relu(norm(conv(x, p, b + "c0", s, 1), p, b + "n0"))
            y = norm(conv(y, p, b + "c1", 1, 1), p, b + "n1")
            x = F.relu(y + (norm(conv(x, p, b + "cd", s), p, b + "nd") if s > 1 else x))
        return linear(x.mean((2, 3)), p, "fc")

    def lstm(x, p):
        size = p["R"].shape[2]
        order = [0, 2, 3, 1]  # ONNX has the gates i, o, f, c; PyTorch i, f, c, o
        w, r = [p[n][0].view(4, size, -1)[order].reshape(4 * size, -1) for n in ("W", "R")]
        b, c = [v.view(4, size)[order].reshape(-1) for v in p["B"][0].chunk(2)]
        zero = x.new_zeros(1, x.shape[1], size)
        return linear(torch.lstm(x, (zero, zero), [w, r, b, c], True, 1, 0.0, True, False, False)[1][0], p, "fc")

    def transformer(x, p, heads=6):
        x = p["token"][x] + p["place"]
        batch, steps, width = x.shape
        for k in range(sum(1 for n in p if n.endswith(".q.weight"))):
            b = "b%d." % k
            y = F.layer_norm(x, (width,), p[b + "n0.weight"], p[b + "n0.bias"])
            q, k, v = [linear(y, p, b + n).view(batch, steps, heads, -1).transpose(1, 2) for n in "qkv"]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, steps, width)
            x = x + linear(y, p, b + "o")
            y = F.layer_norm(x, (width,), p[b + "n1.weight"], p[b + "n1.bias"])
            x = x + linear(F.gelu(linear(y, p, b + "f0")), p, b + "f1")
        return linear(F.layer_norm(x, (width,), p["n.weight"], p["n.bias"]), p, "head").flatten(0, 1)

    def unet(x, p):
        def block(x, n):
            x = F.relu(norm(conv(x, p, n + ".c0", 1, 1), p, n + ".n0"))
            return F.relu(norm(conv(x, p, n + ".c1", 1, 1), p, n + ".n1"))

        def joined(x, weight, other):
            return torch.cat((F.conv_transpose2d(x, weight, stride=2), other), 1)

        a = block(x, "a")
        b = block(F.max_pool2d(a, 2), "b")
        c = block(F.max_pool2d(b, 2), "c")
        b = block(joined(c, p["ub.weight"], b), "d")
        return conv(block(joined(b, p["ua.weight"], a), "e"), p, "out")

    return locals()[name]


# ---- and in JAX ----
def jax_function(name):
    import jax
    from jax import lax, nn
    from jax import numpy as jnp

    def linear(x, p, n):
        return x @ p[n + ".weight"] + p[n + ".bias"]

    def conv(x, p, n, stride=1, pad=0):
        y = lax.conv_general_dilated(x, p[n + ".weight"], (stride, stride), [(pad, pad)] * 2)
        return y + p[n + ".bias"][:, None, None] if n + ".bias" in p else y

    def norm(x, p, n):
        m = x.mean((0, 2, 3))
        s = p[n + ".weight"] * lax.rsqrt(x.var((0, 2, 3)) + 1e-5)
        return x * s[:, None, None] + (p[n + ".bias"] - m * s)[:, None, None]

    def layer_norm(x, p, n):
        y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * p[n + ".weight"] + p[n + ".bias"]

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def mlp(x, p):
        return linear(nn.relu(linear(nn.relu(linear(x, p, "l0")), p, "l1")), p, "l2")

    def lenet(x, p):
        x = pool(nn.relu(conv(pool(nn.relu(conv(x, p, "c0", 1, 2))), p, "c1")))
        return mlp(x.reshape(x.shape[0], -1), p)

    def cnn(x, p):
        for k in range(len(WIDTHS)):
            x = pool(nn.relu(norm(conv(x, p, "c%d" % k, 1, 1), p, "n%d" % k)))
        return linear(x.reshape(x.shape[0], -1), p, "fc")

    def resnet18(x, p):
        x = nn.relu(norm(conv(x, p, "stem.c", 1, 1), p, "stem.n"))
        for k, (_, s) in enumerate(STAGES):
            b = "b%d." % k
            y = nn.relu(norm(conv(x, p, b + "c0", s, 1), p, b + "n0"))
            y = norm(conv(y, p, b + "c1", 1, 1), p, b + "n1")
            x = nn.relu(y + (norm(conv(x, p, b + "cd", s), p, b + "nd") if s > 1 else x))
        return linear(x.mean((2, 3)), p, "fc")

    def lstm(x, p):
        w, r, size = p["W"][0], p["R"][0], p["R"].shape[2]
        inputs = x @ w.T + p["B"][0].reshape(2, -1).sum(0)

        def cell(state, g):
            h, c = state
            i, o, f, u = jnp.split(g + h @ r.T, 4, -1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(u)
            return (nn.sigmoid(o) * jnp.tanh(c), c), None
        zero = jnp.zeros((x.shape[1], size), x.dtype)
        return linear(lax.scan(cell, (zero, zero), inputs)[0][0], p, "fc")

    def transformer(x, p, heads=6):
        x = p["token"][x] + p["place"]
        batch, steps, width = x.shape
        mask = jnp.tril(jnp.ones((steps, steps), bool))
        for k in range(sum(1 for n in p if n.endswith(".q.weight"))):
            b = "b%d." % k
            y = layer_norm(x, p, b + "n0")
            q, k, v = [linear(y, p, b + n).reshape(batch, steps, heads, -1).transpose(0, 2, 1, 3) for n in "qkv"]
            a = jnp.where(mask, q @ k.transpose(0, 1, 3, 2) * (width // heads) ** -0.5, -jnp.inf)
            x = x + linear((nn.softmax(a) @ v).transpose(0, 2, 1, 3).reshape(batch, steps, width), p, b + "o")
            y = linear(layer_norm(x, p, b + "n1"), p, b + "f0")
            x = x + linear(nn.gelu(y, approximate=False), p, b + "f1")
        return linear(layer_norm(x, p, "n"), p, "head").reshape(-1, p["head.weight"].shape[1])

    def unet(x, p):
        def block(x, n):
            x = nn.relu(norm(conv(x, p, n + ".c0", 1, 1), p, n + ".n0"))
            return nn.relu(norm(conv(x, p, n + ".c1", 1, 1), p, n + ".n1"))

        def joined(x, w, other):
            y = jnp.einsum("nihw,ioab->nohawb", x, w).reshape(other.shape[0], -1, *other.shape[2:])
            return jnp.concatenate((y, other), 1)

        a = block(x, "a")
        b = block(pool(a), "b")
        b = block(joined(block(pool(b), "c"), p["ub.weight"], b), "d")
        return conv(block(joined(b, p["ua.weight"], a), "e"), p, "out")

    function = locals()[name]

    def loss(p, x, target):
        y = jnp.moveaxis(function(x, p), 1, -1)
        return -jnp.take_along_axis(nn.log_softmax(y), target[..., None], -1).mean()

    return jax.value_and_grad(loss)
