#!/usr/bin/env python3
"""References for gradients of operators: writes tests/gradients/references.dat.

  gradient_references.py > tests/gradients/references.dat      (needs PyTorch and numpy)

A case is one of the standard's operators with attributes (or several, where torch has them as one function) and inputs
of random contents. Its results are weighted with random numbers and summed; the derivatives of the sum by the inputs
are computed by torch.autograd in f64. Inputs and weights are drawn from seeds (`element`), in the same way by
tests/unit/test_gradients.c; the file holds results alone. A case is

  case NAME
  in NAME SIZES LOW HIGH SEED    an input of f64: element i is LOW + (HIGH - LOW)*element(SEED, i)
  text ..                        a statement of a graph in Einkorn's text form, between inputs and results
  out NAME SIZES SEED            a result; its weights are -1 + 2*element(SEED, i)
  grad NAME ..                   the derivative by an input
"""
import itertools
import re
import sys
import numpy as np
import torch
import torch.nn.functional as F

SEED = 37
DIGITS = 12
cases, operators = 0, set()


def element(seed, i):
    """A number in [0, 1) with 20 bits: the finaliser of splitmix64."""
    m = 2**64 - 1
    z = (seed * 1000003 + i + 1) * 0x9E3779B97F4A7C15 & m
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & m
    z = (z ^ z >> 27) * 0x94D049BB133111EB & m
    return ((z ^ z >> 31) >> 44) / 2**20


def filled(sizes, low, high, seed):
    v = [low + (high - low) * element(seed, i) for i in range(int(np.prod(sizes)))]
    return torch.tensor(v, dtype=torch.float64).reshape(sizes)


def attributes(a):

    def form(v):
        if isinstance(v, float): return "float %r" % v
        if isinstance(v, str): return '"%s"' % v
        if isinstance(v, (list, tuple)) and v and isinstance(v[0], str):
            return "strings [%s]" % ", ".join('"%s"' % x for x in v)
        if isinstance(v, (list, tuple)): return "[%s]" % ", ".join(map(str, v))
        return str(v)

    return " {%s}" % ", ".join("%s = %s" % (k, form(v)) for k, v in a.items()) if a else ""


def whole(name, values, kind="i64"):
    """A constant of integers, as a statement."""
    a = np.array(values)
    return "const %s: %s[%s] = [%s]" % (name, kind, ", ".join(map(str, a.shape)), ", ".join(map(str, a.flatten())))


def case(op, ins, f, attrs=None, args=None, consts=(), outs="Y", text=None):
    """ins: NAME -> sizes, or (sizes, low, high); args: what stands between the brackets, where that is not ins; f: the
    function of torch, of the inputs by name, which gives one result or several."""
    global cases
    lines, t = [], {}
    for name, spec in ins.items():
        sizes, low, high = spec if spec and isinstance(spec[0], tuple) else (spec, -1, 1)
        seed = SEED + cases * 16 + len(t)
        t[name] = filled(sizes, low, high, seed).requires_grad_()
        lines.append("in %s %s %r %r %d" % (name, "x".join(map(str, sizes)) or "-", low, high, seed))
    lines += ["text " + c for c in consts]
    lines.append("text " + (text or "%s = %s(%s)%s" % (outs, op, args or ", ".join(ins), attributes(attrs))))
    y = f(**t)
    y = y if isinstance(y, (list, tuple)) else [y]
    total = torch.zeros((), dtype=torch.float64)
    for name, v in zip([o.strip() for o in outs.split(",") if o.strip() != "_"], y):
        seed = SEED + cases * 16 + 8 + len(lines) % 8
        total = total + (v * filled(v.shape, -1, 1, seed)).sum()
        lines.append("out %s %s %d" % (name, "x".join(map(str, v.shape)) or "-", seed))
    g = torch.autograd.grad(total, list(t.values()), allow_unused=True)
    for name, d in zip(t, g):
        d = torch.zeros_like(t[name]) if d is None else d
        assert torch.isfinite(d).all(), (op, name)
        lines.append("grad %s %s" % (name, " ".join("%.*g" % (DIGITS, v) for v in d.flatten().tolist())))
    print("case " + op + attributes(attrs), *lines, sep="\n")
    cases += 1
    operators.update(re.findall(r"(\w+)\(", text) if text else [op])


# ---- elements ----
def unary():
    t, one = torch, lambda op, f, low=-2, high=2, **a: case(op, {"X": ((3, 5), low, high)}, lambda X: f(X), a)
    for op, f in (("Abs", t.abs), ("Asinh", t.asinh), ("Atan", t.atan), ("Ceil", t.ceil), ("Cos", t.cos),
                  ("Cosh", t.cosh), ("Erf", t.erf), ("Exp", t.exp), ("Floor", t.floor), ("Identity", t.clone),
                  ("Mish", F.mish), ("Neg", t.neg), ("Relu", t.relu), ("Round", t.round), ("Sigmoid", t.sigmoid),
                  ("Sign", t.sign), ("Sin", t.sin), ("Sinh", t.sinh), ("Softplus", F.softplus), ("Softsign",
                                                                                                 F.softsign),
                  ("Tanh", t.tanh), ("HardSwish", F.hardswish), ("Celu", F.celu), ("Elu", F.elu), ("LeakyRelu",
                                                                                                   F.leaky_relu),
                  ("Gelu", F.gelu), ("HardSigmoid", lambda x: t.clamp(0.2 * x + 0.5, 0, 1)), ("Swish", F.silu)):
        one(op, f)
    for op, f, low, high in (("Acos", t.acos, -0.9, 0.9), ("Asin", t.asin, -0.9, 0.9), ("Atanh", t.atanh, -0.9, 0.9),
                             ("Acosh", t.acosh, 1.1, 3), ("Log", t.log, 0.1, 3), ("Sqrt", t.sqrt, 0.1, 3),
                             ("Reciprocal", t.reciprocal, 0.2, 2), ("Tan", t.tan, -1.2, 1.2)):
        one(op, f, low, high)
    one("Celu", lambda x: F.celu(x, 0.5), alpha=0.5)
    one("Elu", lambda x: F.elu(x, 0.25), alpha=0.25)
    one("LeakyRelu", lambda x: F.leaky_relu(x, 0.125), alpha=0.125)
    one("Gelu", lambda x: F.gelu(x, approximate="tanh"), approximate="tanh")
    one("HardSigmoid", lambda x: t.clamp(0.25 * x + 0.75, 0, 1), alpha=0.25, beta=0.75)
    selu = 1.67326319217681884765625, 1.05070102214813232421875  # the standard's constants, which are rounded to f32
    one("Selu", lambda x: selu[1] * t.where(x > 0, x, selu[0] * (t.exp(x) - 1)))
    one("Selu", lambda x: 0.5 * t.where(x > 0, x, 2 * (t.exp(x) - 1)), alpha=2.0, gamma=0.5)
    one("Shrink", lambda x: F.softshrink(x, 0.5), lambd=0.5, bias=0.5)
    one("Shrink", lambda x: F.hardshrink(x, 0.75), lambd=0.75)
    one("Swish", lambda x: x * t.sigmoid(1.5 * x), alpha=1.5)
    one("ThresholdedRelu", lambda x: F.threshold(x, 1, 0))
    one("ThresholdedRelu", lambda x: F.threshold(x, 0.25, 0), alpha=0.25)


def binary():
    for op, f in (("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul)):
        for a, b in (((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((4, ), (2, 1, 4))):
            case(op, {"A": a, "B": b}, lambda A, B: f(A, B))
    for a, b in (((2, 3), (2, 3)), ((2, 1), (3, ))):
        case("Div", {"A": a, "B": (b, 0.5, 2)}, lambda A, B: A / B)
        case("Pow", {"A": (a, 0.2, 2), "B": b}, lambda A, B: A**B)
        case("Max", {"A": a, "B": b}, lambda A, B: torch.maximum(A, B))
        case("Min", {"A": a, "B": b}, lambda A, B: torch.minimum(A, B))
    case("Mod", {"A": ((3, 4), -5, 5), "B": ((4, ), 0.7, 1.4)}, lambda A, B: torch.fmod(A, B), {"fmod": 1})
    three = {"A": (2, 3), "B": (3, ), "C": (2, 1)}
    case("Sum", three, lambda A, B, C: A + B + C)
    case("Mean", three, lambda A, B, C: (A + B + C) / 3)
    case("Max", three, lambda A, B, C: torch.maximum(torch.maximum(A, B), C))
    case("Min", three, lambda A, B, C: torch.minimum(torch.minimum(A, B), C))
    case("PRelu", {"X": (2, 3, 4), "S": (3, 1)}, lambda X, S: F.prelu(X, S.reshape(3)))
    case("PRelu", {"X": (2, 3), "S": (1, )}, lambda X, S: F.prelu(X, S))
    yes = np.arange(6).reshape(2, 3) % 3 == 1
    case("Where", {"A": (2, 3), "B": (3, )},
         lambda A, B: torch.where(torch.tensor(yes), A, B),
         args="c, A, B",
         consts=[whole("c", yes.astype(int), "bool")])
    case("Clip", {"X": ((3, 4), -2, 2)},
         lambda X: X.clamp(-0.5, 0.75),
         args="X, lo, hi",
         consts=["const lo: f64[] = [-0.5]", "const hi: f64[] = [0.75]"])
    case("Clip", {"X": ((3, 4), -2, 2)},
         lambda X: X.clamp(max=0.5),
         args="X, _, hi",
         consts=["const hi: f64[] = [0.5]"])
    case("Clip", {"X": ((3, 4), -2, 2), "L": ((), -1, 0), "H": ((), 0, 1)}, lambda X, L, H: torch.clamp(X, L, H))


# ---- reductions ----
def reductions():

    def lse(x, axes, keep):
        return torch.logsumexp(x, axes, keep)

    table = {
        "ReduceSum": lambda x, d, k: x.sum(d, k), "ReduceMean": lambda x, d, k: x.mean(d, k), "ReduceL1":
        lambda x, d, k: x.abs().sum(d, k), "ReduceL2": lambda x, d, k: (x * x).sum(d, k).sqrt(), "ReduceLogSum":
        lambda x, d, k: x.sum(d, k).log(), "ReduceLogSumExp": lse, "ReduceSumSquare": lambda x, d, k:
        (x * x).sum(d, k), "ReduceMax": lambda x, d, k: x.amax(d, k), "ReduceMin": lambda x, d, k: x.amin(d, k)
    }
    for op, f in table.items():
        for axes, keep in (([1], 1), ([0, -1], 0), ([0, 1, 2], 1)):
            case(op, {"X": ((2, 3, 4), 0.1, 2)}, lambda X: f(X, axes, bool(keep)), {"keepdims": keep}, "X, axes",
                 [whole("axes", axes)])
    for axis, keep in ((1, 1), (-1, 0)):
        case("ReduceProd", {"X": ((2, 3, 4), 0.3, 2)}, lambda X: X.prod(axis, bool(keep)), {"keepdims": keep},
             "X, axes", [whole("axes", [axis])])
    for axis, exclusive, reverse in itertools.product((0, 1), (0, 1), (0, 1)):
        attrs = {"exclusive": exclusive, "reverse": reverse}

        def running(X, f, empty):
            x = X.flip(axis) if reverse else X
            y = f(x, axis)
            if exclusive:
                y = torch.cat([torch.full_like(y.narrow(axis, 0, 1), empty),
                               y.narrow(axis, 0, y.shape[axis] - 1)], axis)
            return y.flip(axis) if reverse else y

        case("CumSum", {"X": (3, 4)}, lambda X: running(X, torch.cumsum, 0), attrs, "X, axis", [whole("axis", axis)])
        case("CumProd", {"X": ((3, 4), 0.3, 2)}, lambda X: running(X, torch.cumprod, 1), attrs, "X, axis",
             [whole("axis", axis)])
    for axis in (0, 1, -1):
        case("Softmax", {"X": ((2, 3, 4), -2, 2)}, lambda X: F.softmax(X, axis), {"axis": axis})
        case("LogSoftmax", {"X": ((2, 3, 4), -2, 2)}, lambda X: F.log_softmax(X, axis), {"axis": axis})
    for axis, p in ((1, 1), (1, 2), (-1, 2)):
        case("LpNormalization", {"X": (2, 3, 4)}, lambda X: F.normalize(X, p, axis), {"axis": axis, "p": p})
    for axis, largest, k in ((-1, 1, 2), (0, 0, 2), (1, 1, 3)):
        case("TopK", {"X": (3, 5)},
             lambda X: torch.topk(X, k, axis, bool(largest)).values, {"axis": axis, "largest": largest},
             "X, k", [whole("k", [k])],
             outs="Y, _")


# ---- products ----
def products():
    for a, b in (((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (3, 4, 2)), ((4, ), (4, 3)), ((3, 4), (4, ))):
        case("MatMul", {"A": a, "B": b}, lambda A, B: A @ B)
    for ta, tb, alpha, beta, c in ((0, 0, 1.0, 1.0, (3, 2)), (1, 0, 0.5, 1.0, (2, )), (0, 1, 1.0, 2.0, (3, 1)),
                                   (1, 1, 0.5, 0.25, (1, ))):
        case("Gemm", {"A": (4, 3) if ta else (3, 4), "B": (2, 4) if tb else (4, 2), "C": c}, lambda A, B, C: alpha *
             ((A.T
               if ta else A) @ (B.T
                                if tb else B)) + beta * C, {"transA": ta, "transB": tb, "alpha": alpha, "beta": beta})
    for eq, *sizes in (("ij,jk->ik", (2, 3), (3, 4)), ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 2, 4)),
                       ("ii->i", (4, 4)), ("ij->ji", (2, 3)), ("i,j,k->ijk", (2, ), (3, ), (2, )),
                       ("...ij,...jk->...ik", (2, 2, 3), (3, 2)), ("bij,bjk,kl->bl", (2, 2, 3), (2, 3, 2),
                                                                   (2, 2)), ("ij->", (3, 4)), ("ii", (3, 3))):
        case("Einsum", {"ABC"[i]: s
                        for i, s in enumerate(sizes)}, lambda **t: torch.einsum(eq, *t.values()), {"equation": eq})
    case("Det", {"X": (3, 3)}, lambda X: torch.linalg.det(X))
    case("Det", {"X": (2, 4, 4)}, lambda X: torch.linalg.det(X))


def convolutions():
    conv, back = (F.conv1d, F.conv2d, F.conv3d), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)

    def padded(x, pads):
        n = len(pads) // 2
        return F.pad(x, [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])])

    for x, w, b, s, d, p, g in (((2, 2, 7), (3, 2, 3), 1, [1], [1], [0, 0], 1), ((1, 2, 8), (2, 2, 3), 0, [2], [1], [
            1, 1
    ], 1), ((1, 4, 9), (4, 2, 2), 1, [1], [3], [2, 0], 2), ((1, 3, 7), (3, 1, 3), 1, [3], [1], [1, 2], 3),
                                ((1, 2, 5, 4), (2, 2, 3, 2), 1, [1, 1], [1, 1], [0, 0, 0, 0],
                                 1), ((1, 2, 6, 5), (2, 2, 3, 3), 1, [2, 1], [1, 2], [1, 0, 2, 1],
                                      1), ((1, 2, 5, 5), (4, 1, 3, 3), 0, [1, 1], [1, 1], [1, 1, 1, 1],
                                           2), ((1, 2, 6, 6), (2, 2, 1, 1), 1, [2, 2], [1, 1], [0, 0, 0, 0],
                                                1), ((1, 2, 6, 6), (2, 2, 2, 2), 0, [3, 2], [2, 1], [0, 1, 1, 0], 1),
                                ((1, 1, 3, 4, 3), (2, 1, 2, 2, 2), 1, [1, 1, 1], [1, 1, 1], [0] * 6,
                                 1), ((1, 2, 4, 4, 3), (2, 1, 2, 3, 2), 0, [2, 1, 1], [1, 1, 2], [1, 0, 1, 0, 1,
                                                                                                  1], 2)):
        n = len(s)
        ins = {"X": x, "W": w, **({"B": (w[0], )} if b else {})}
        case("Conv",
             ins,
             lambda X, W, B=None: conv[n - 1](padded(X, p), W, B, s, 0, d, g),
             {"strides": s, "dilations": d, "pads": p, "group": g})
    for x, w, b, s, d, p, o, g in (((1, 2, 4), (2, 3, 3), 1, [1], [1], [0, 0], [0],
                                    1), ((1, 2, 4), (2, 2, 3), 0, [2], [1], [1, 1], [1],
                                         1), ((1, 4, 3), (4, 1, 2), 1, [3], [2], [1, 1], [0], 2),
                                   ((1, 2, 3, 3), (2, 2, 3, 3), 1, [2, 2], [1, 1], [1, 1, 1, 1], [1, 1],
                                    1), ((1, 2, 3, 2), (2, 1, 2, 3), 1, [1, 3], [2, 1], [0, 1, 0, 1], [0, 2],
                                         2), ((1, 2, 2, 3), (2, 2, 2, 2), 0, [2, 1], [1, 2], [0, 0, 0, 0], [0, 0], 1),
                                   ((1, 1, 2, 2, 3), (1, 2, 2, 2, 2), 1, [2, 1, 1], [1, 1, 1], [0, 1, 0, 0, 1,
                                                                                                0], [1, 0, 0], 1)):
        n = len(s)
        ins = {"X": x, "W": w, **({"B": (w[1] * g, )} if b else {})}
        case("ConvTranspose",
             ins,
             lambda X, W, B=None: back[n - 1](X, W, B, s, p[:n], o, g, d),
             {"strides": s, "dilations": d, "pads": p, "output_padding": o, "group": g})
    case("Col2Im", {"X": (1, 8, 4)}, lambda X: F.fold(X, (3, 3), (2, 2)), None, "X, size, block",
         [whole("size", [3, 3]), whole("block", [2, 2])])
    case("Col2Im", {"X": (1, 4, 9)}, lambda X: F.fold(X, (5, 6), (2, 2), dilation=(2, 1), padding=(1, 0), stride=2),
         {"dilations": [2, 1], "pads": [1, 0, 1, 0], "strides": [2, 2]}, "X, size, block",
         [whole("size", [5, 6]), whole("block", [2, 2])])


def pools():
    average, most = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d), (F.max_pool1d, F.max_pool2d, F.max_pool3d)
    for x, k, s, p, inside, ceil in (((1, 2, 7), [3], [2], [0], 0, 0), ((1, 2, 7), [3], [2], [1], 0, 0),
                                     ((1, 2, 8), [3], [2], [1], 1, 1), ((1, 2, 5, 6), [2, 3], [1, 2], [0, 0], 0, 0),
                                     ((1, 1, 5, 5), [3, 3], [2, 2], [1, 1], 0,
                                      1), ((1, 1, 5, 6), [3, 2], [1, 2], [1, 1], 1,
                                           0), ((1, 1, 6, 6), [3, 3], [2, 2], [1, 0], 1,
                                                1), ((1, 1, 3, 4, 4), [2, 2, 2], [1, 2, 1], [0, 1, 0], 0, 0)):
        case("AveragePool", {"X": x}, lambda X: average[len(k) - 1](X, k, s, p, bool(ceil), bool(inside)),
             {"kernel_shape": k, "strides": s, "pads": p * 2, "count_include_pad": inside, "ceil_mode": ceil})
    for x, k, s, p, d, ceil in (((1, 2, 7), [3], [2], [0], [1], 0), ((1, 2, 8), [3], [2], [1], [1], 1),
                                ((1, 1, 9), [2], [1], [1], [3], 0), ((1, 2, 5, 6), [2, 3], [1, 2], [0, 0], [1, 1], 0),
                                ((1, 1, 5, 5), [3, 3], [2, 2], [1, 1], [1, 1],
                                 1), ((1, 1, 6, 6), [2, 2], [2, 1], [0, 1], [2, 2],
                                      0), ((1, 1, 3, 4, 4), [2, 2, 2], [1, 2, 1], [0, 1, 0], [1, 1, 1], 0)):
        case("MaxPool", {"X": x}, lambda X: most[len(k) - 1](X, k, s, p, d, bool(ceil)),
             {"kernel_shape": k, "strides": s, "pads": p * 2, "dilations": d, "ceil_mode": ceil})
    for x, k, s, q in (((1, 2, 7), [3], [2], 2), ((1, 1, 5, 5), [2, 2], [1, 2], 3), ((1, 1, 4, 5), [2, 3], [2,
                                                                                                            1], 1)):
        case("LpPool", {"X": (x, 0.1, 1)}, lambda X: F.lp_pool1d(X, q, *k, *s)
             if len(k) == 1 else F.lp_pool2d(X, q, k, s), {"kernel_shape": k, "strides": s, "p": q})
    for x in ((2, 2, 5), (1, 2, 3, 4)):
        case("GlobalAveragePool", {"X": x}, lambda X: X.flatten(2).mean(2).reshape(*x[:2], *[1] * len(x[2:])))
        case("GlobalMaxPool", {"X": x}, lambda X: X.flatten(2).amax(2).reshape(*x[:2], *[1] * len(x[2:])))
        for p in (2, 3):
            case("GlobalLpPool", {"X": (x, 0.1, 1)},
                 lambda X: X.flatten(2).norm(p, 2).reshape(*x[:2], *[1] * len(x[2:])), {"p": p})


def normalisations():
    half = 0.0009765625  # f32 has it exactly
    for x in ((4, 3), (2, 3, 4), (2, 2, 3, 2)):
        c = (x[1], )
        ins = {"X": x, "S": c, "B": c, "M": c, "V": (c, 0.5, 2)}
        case("BatchNormalization", ins, lambda X, S, B, M, V: batch_norm(X, S, B, M, V, half), {"epsilon": half})
        case("BatchNormalization",
             ins,
             lambda X, S, B, M, V: F.batch_norm(X, None, None, S, B, True, eps=half),
             {"epsilon": half, "training_mode": 1},
             outs="Y, _, _")
    for axis, x in ((-1, (2, 3, 4)), (1, (2, 3, 4)), (2, (1, 2, 3, 2))):
        s = x[axis:] if axis > 0 else x[-1:]
        case("LayerNormalization", {"X": x, "S": s, "B": s}, lambda X, S, B: F.layer_norm(X, s, S, B, half),
             {"axis": axis, "epsilon": half})
        case("RMSNormalization", {"X": x, "S": s}, lambda X, S: F.rms_norm(X, s, S, half),
             {"axis": axis, "epsilon": half})
    for x in ((2, 3, 5), (1, 2, 3, 4)):
        c = (x[1], )
        case("InstanceNormalization", {"X": x, "S": c, "B": c},
             lambda X, S, B: F.instance_norm(X, None, None, S, B, True, eps=half), {"epsilon": half})
    for x, g in (((2, 4, 3), 2), ((1, 6, 2, 2), 3), ((2, 2, 4), 1)):
        c = (x[1], )
        case("GroupNormalization", {"X": x, "S": c, "B": c}, lambda X, S, B: F.group_norm(X, g, S, B, half),
             {"num_groups": g, "epsilon": half})
    for size, alpha, beta, k in ((3, 0.5, 0.75, 1.0), (5, 0.25, 0.5, 2.0)):
        case("LRN", {"X": (1, 6, 2, 2)}, lambda X: F.local_response_norm(X, size, alpha, beta, k),
             {"size": size, "alpha": alpha, "beta": beta, "bias": k})
    for axes in ([0, 2, 3], [1]):
        case("MeanVarianceNormalization", {"X": (2, 2, 3, 2)}, lambda X: (X - X.mean(axes, True)) /
             (X.var(axes, correction=0, keepdim=True).sqrt() + 1e-9), {"axes": axes})


def batch_norm(X, S, B, M, V, eps):
    """torch has no gradient with respect to the running statistics."""
    c = (1, -1) + (1, ) * (X.dim() - 2)
    return (X - M.view(c)) / (V.view(c) + eps).sqrt() * S.view(c) + B.view(c)


# ---- images ----
def resizes():

    def resize(x, to, mode, f, **attrs):
        case("Resize", {"X": x}, f, {"mode": mode, **attrs}, "X, _, _, sizes", [whole("sizes", list(x[:2]) + to)])

    for x, to in (((1, 2, 5), [8]), ((1, 1, 3, 4), [5, 3]), ((1, 1, 2, 3, 2), [3, 2, 4])):
        resize(x,
               to,
               "nearest",
               lambda X: F.interpolate(X, to, mode="nearest"),
               nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")
        resize(x,
               to,
               "nearest",
               lambda X: F.interpolate(X, to, mode="nearest-exact"),
               nearest_mode="round_prefer_ceil",
               coordinate_transformation_mode="half_pixel")
        m = ("linear", "bilinear", "trilinear")[len(to) - 1]
        for align, mode in ((False, "half_pixel"), (True, "align_corners")):
            resize(x,
                   to,
                   "linear",
                   lambda X: F.interpolate(X, to, mode=m, align_corners=align),
                   coordinate_transformation_mode=mode)
    for x, to in (((1, 1, 4, 5), [6, 3]), ((1, 1, 5, 4), [9, 8])):
        for align, mode in ((False, "half_pixel"), (True, "align_corners")):
            resize(x,
                   to,
                   "cubic",
                   lambda X: F.interpolate(X, to, mode="bicubic", align_corners=align),
                   coordinate_transformation_mode=mode)
    for x, to in (((1, 1, 7, 6), [3, 4]), ((1, 1, 9, 5), [4, 3])):
        resize(x,
               to,
               "linear",
               lambda X: F.interpolate(X, to, mode="bilinear", antialias=True),
               antialias=1,
               exclude_outside=1)
        resize(x,
               to,
               "cubic",
               lambda X: F.interpolate(X, to, mode="bicubic", antialias=True),
               antialias=1,
               exclude_outside=1,
               cubic_coeff_a=-0.5)


def grids():
    kinds = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    for mode, padding, align in itertools.product(kinds, ("zeros", "border", "reflection"), (0, 1)):
        case("GridSample", {"X": (1, 1, 4, 5), "G": ((1, 2, 3, 2), -1.3, 1.3)},
             lambda X, G: F.grid_sample(X, G, kinds[mode], padding, bool(align)),
             {"mode": mode, "padding_mode": padding, "align_corners": align})
    case("GridSample", {"X": (1, 1, 3, 2, 3), "G": ((1, 2, 1, 2, 3), -1.2, 1.2)},
         lambda X, G: F.grid_sample(X, G, "bilinear", "zeros", False), {"mode": "linear"})
    for align in (0, 1):
        case("AffineGrid", {"T": (2, 2, 3)}, lambda T: F.affine_grid(T, [2, 1, 3, 4], bool(align)),
             {"align_corners": align}, "T, size", [whole("size", [2, 1, 3, 4])])
        case("AffineGrid", {"T": (1, 3, 4)}, lambda T: F.affine_grid(T, [1, 1, 2, 3, 2], bool(align)),
             {"align_corners": align}, "T, size", [whole("size", [1, 1, 2, 3, 2])])


# ---- movement ----
def gathers():
    for axis, idx in ((0, [[0, 2], [1, 2]]), (1, [3, 0, 0, -1]), (-1, [[1]])):
        case(
            "Gather", {"X": (3, 4)}, lambda X: X.index_select(axis,
                                                              torch.tensor(idx).flatten() % X.shape[axis]).
            reshape(X.shape[:axis % 2] + torch.tensor(idx).shape + X.shape[axis % 2 + 1:]), {"axis": axis}, "X, i",
            [whole("i", idx)])
    for axis, idx in ((0, [[0, 2, 1, 0], [1, 2, 2, 0]]), (1, [[3, 0], [1, 1], [2, 0]])):
        case("GatherElements", {"X": (3, 4)}, lambda X: X.gather(axis, torch.tensor(idx)), {"axis": axis}, "X, i",
             [whole("i", idx)])
    case("GatherND", {"X": (3, 4)}, lambda X: X[[0, 2, 0], [1, 3, 1]], None, "X, i",
         [whole("i", [[0, 1], [2, 3], [0, 1]])])
    case("GatherND", {"X": (3, 4, 2)}, lambda X: X[[2, 0, 2]], None, "X, i", [whole("i", [[2], [0], [2]])])
    case("GatherND", {"X": (2, 3, 2)}, lambda X: torch.stack([X[0, 2], X[1, 0]]), {"batch_dims": 1}, "X, i",
         [whole("i", [[2], [0]])])
    kinds = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    for axis, idx in ((0, [[0, 2, 1], [2, 2, 0]]), (1, [[2, 0], [1, 1], [0, 2]])):
        i = torch.tensor(idx)
        size = tuple(i.shape)
        for k, r in kinds.items():
            case("ScatterElements", {"X": ((3, 3), 0.2, 2), "U":
                                     (size, 0.2, 2)}, lambda X, U: X.scatter_reduce(axis, i, U, r),
                 {"axis": axis, "reduction": k}, "X, i, U", [whole("i", idx)])
    case("ScatterElements", {"X": (3, 3), "U":
                             (2, 3)}, lambda X, U: X.scatter(0, torch.tensor([[0, 2, 1], [2, 1, 0]]), U), {"axis": 0},
         "X, i, U", [whole("i", [[0, 2, 1], [2, 1, 0]])])
    for k, r in (("none", None), *kinds.items()):
        idx = [[1], [3]] if k == "none" else [[1], [3], [1]]

        def nd(X, U):
            i = torch.tensor(idx).expand(len(idx), 3)
            return X.scatter_reduce(0, i, U, r) if r else X.scatter(0, i, U)

        case("ScatterND", {"X": ((4, 3), 0.2, 2), "U": ((len(idx), 3), 0.2, 2)}, nd, {"reduction": k}, "X, i, U",
             [whole("i", idx)])
    case("Compress", {"X": (3, 4)}, lambda X: X[:, [0, 2, 3]], {"axis": 1}, "X, c",
         [whole("c", [1, 0, 1, 1], "bool")])
    case("Compress", {"X": (2, 3)}, lambda X: X.flatten()[[1, 4]], None, "X, c",
         [whole("c", [0, 1, 0, 0, 1], "bool")])


def movement():
    for mode, pads in (("constant", [1, 0, 2, 3]), ("constant", [-1, 1, 0, -1]), ("reflect", [1, 2, 2, 0]),
                       ("edge", [2, 0, 1, 3]), ("wrap", [1, 2, 0, 1])):
        name = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)

        def pad(X):
            p = [pads[1], pads[3], pads[0], pads[2]]
            return F.pad(X, p) if mode == "constant" else F.pad(X[None, None], p, name)[0, 0]

        case("Pad", {"X": (4, 5)}, pad, {"mode": mode}, "X, pads", [whole("pads", pads)])
    case("Pad", {"X": (2, 3), "V": ()}, lambda X, V: torch.cat([V.expand(2, 2), X], 1), None, "X, pads, V",
         [whole("pads", [0, 2, 0, 0])])
    for starts, ends, axes, steps, f in (([1], [4], [0], [2], lambda X: X[1:4:2]), ([-1], [-6], [1], [-2],
                                                                                    lambda X: X.flip(1)[:, ::2]),
                                         ([0, 1], [3, 100], [0, 1], [1, 3], lambda X: X[:3, 1::3])):
        case("Slice", {"X": (5, 5)}, f, None, "X, s, e, a, t",
             [whole("s", starts), whole("e", ends),
              whole("a", axes), whole("t", steps)])
    case("Concat", {"A": (2, 3), "B": (2, 1), "C": (2, 2)}, lambda A, B, C: torch.cat([A, B, C], 1), {"axis": 1})
    case("Concat", {"A": (2, 3), "B": (1, 3)}, lambda A, B: torch.cat([A, B]), {"axis": -2})
    case("Split", {"X": (2, 6)},
         lambda X: X.split([1, 3, 2], 1), {"axis": 1},
         "X, n", [whole("n", [1, 3, 2])],
         outs="Y, Z, W")
    case("Split", {"X": (5, 2)}, lambda X: X.split(3), {"num_outputs": 2}, outs="Y, Z")
    case("Transpose", {"X": (2, 3, 4)}, lambda X: X.permute(2, 0, 1), {"perm": [2, 0, 1]})
    case("Transpose", {"X": (2, 3)}, lambda X: X.T)
    case("Expand", {"X": (3, 1)}, lambda X: X.expand(2, 3, 4), None, "X, n", [whole("n", [2, 1, 4])])
    case("Tile", {"X": (2, 3)}, lambda X: X.repeat(3, 2), None, "X, n", [whole("n", [3, 2])])
    case("Reshape", {"X": (2, 6)}, lambda X: X.reshape(3, 4), None, "X, n", [whole("n", [3, -1])])
    case("Flatten", {"X": (2, 3, 4)}, lambda X: X.reshape(6, 4), {"axis": 2})
    case("Squeeze", {"X": (2, 1, 3)}, lambda X: X.squeeze(1), None, "X, a", [whole("a", [1])])
    case("Unsqueeze", {"X": (2, 3)}, lambda X: X[:, None, :, None], None, "X, a", [whole("a", [1, 3])])
    for upper, k in ((0, 0), (1, 1), (0, -1), (1, -1)):
        case("Trilu", {"X": (2, 3, 4)}, lambda X: torch.triu(X, k)
             if upper else torch.tril(X, k), {"upper": upper}, "X, k", [whole("k", k)])
    case("DepthToSpace", {"X": (1, 8, 2, 2)}, lambda X: F.pixel_shuffle(X, 2), {"blocksize": 2, "mode": "CRD"})
    case("DepthToSpace", {"X": (1, 8, 2, 2)},
         lambda X: X.reshape(1, 2, 2, 2, 2, 2).permute(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 4), {"blocksize": 2})
    case("SpaceToDepth", {"X": (1, 2, 4, 4)},
         lambda X: X.reshape(1, 2, 2, 2, 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 2), {"blocksize": 2})
    case("ReverseSequence", {"X": (4, 2)}, lambda X: torch.stack([X[[2, 1, 0, 3], 0], X[[1, 0, 2, 3], 1]], 1), None,
         "X, n", [whole("n", [3, 2])])
    case("CenterCropPad", {"X": (3, 5)}, lambda X: F.pad(X[:, 1:4], (0, 0, 1, 1)), None, "X, n", [whole("n", [5, 3])])
    case("OneHot", {"V": (2, )}, lambda V: torch.where(F.one_hot(torch.tensor([0, 2, 1]), 3) == 1, V[1], V[0]), None,
         "i, n, V", [whole("i", [0, 2, 1]), whole("n", 3)])


# ---- sequences ----
def recurrent():

    def weights(torch_layer, order, W, R, B):
        h = torch_layer.hidden_size
        rows = lambda m: torch.cat([m[k * h:(k + 1) * h] for k in order])
        given = {}
        for d in range(W.shape[0]):
            s = "_l0" + ("_reverse" if d else "")
            half = B.shape[1] // 2
            given.update({
                "weight_ih" + s: rows(W[d]), "weight_hh" + s: rows(R[d]), "bias_ih" + s: rows(B[d][:half]),
                "bias_hh" + s: rows(B[d][half:])
            })
        return given

    def layer(kind, gates, order, direction, linear=0, f="tanh", cell=False, mirrored=False):
        D, T, N, I, H = (2 if direction == "bidirectional" else 1), 3, 2, 2, 2
        net = getattr(torch.nn, kind)(I, H, bidirectional=D == 2,
                                      **({"nonlinearity": f} if kind == "RNN" else {})).double()
        ins = {
            "X": (T, N, I), "W": (D, gates * H, I), "R": (D, gates * H, H), "B": (D, 2 * gates * H), "H": (D, N, H),
            **({"C": (D, N, H)} if cell else {})
        }

        def run(X, W, R, B, H, C=None):
            x = X.flip(0) if direction == "reverse" else X
            y, last = torch.func.functional_call(net, weights(net, order, W, R, B), (x, (H, C) if cell else H))
            y = y.reshape(T, N, D, H.shape[2]).permute(0, 2, 1, 3)
            return [y.flip(0) if direction == "reverse" else y, *(last if cell else [last])]

        attrs = {"hidden_size": H, "direction": direction}
        if kind == "GRU": attrs["linear_before_reset"] = 1
        if kind == "RNN": attrs["activations"] = [f.capitalize()] * D
        case(kind,
             ins,
             run,
             attrs,
             "X, W, R, B, _, H" + (", C" if cell else ""),
             outs="Y, Y_h" + (", Y_c" if cell else ""))

    for direction in ("forward", "reverse", "bidirectional"):
        layer("LSTM", 4, (0, 2, 3, 1), direction, cell=True)  # iofc of ONNX, ifgo of torch
        layer("GRU", 3, (1, 0, 2), direction)  # zrh of ONNX, rzn of torch
        layer("RNN", 1, (0, ), direction)
        layer("RNN", 1, (0, ), direction, f="relu")


def attention():
    q = {"Q": (1, 2, 3, 4), "K": (1, 2, 5, 4), "V": (1, 2, 5, 2)}
    sdpa = F.scaled_dot_product_attention
    case("Attention", q, lambda Q, K, V: sdpa(Q, K, V))
    case("Attention", q, lambda Q, K, V: sdpa(Q, K, V, scale=0.25), {"scale": 0.25})
    case("Attention", {**q, "M": (3, 5)}, lambda Q, K, V, M: sdpa(Q, K, V, M))
    square = {"Q": (1, 2, 4, 4), "K": (1, 2, 4, 4), "V": (1, 2, 4, 2)}
    case("Attention", square, lambda Q, K, V: sdpa(Q, K, V, is_causal=True), {"is_causal": 1})
    case("Attention", {"Q": (1, 4, 3, 2), "K": (1, 2, 3, 2), "V": (1, 2, 3, 2)},
         lambda Q, K, V: sdpa(Q, K, V, enable_gqa=True))
    case("Attention", q, lambda Q, K, V: (2 * torch.tanh(Q @ K.transpose(2, 3) / 2 / 2)).softmax(3) @ V,
         {"softcap": 2.0})
    case(
        "Attention", {"Q": (1, 3, 8), "K": (1, 5, 8), "V": (1, 5, 4)},
        lambda Q, K, V: sdpa(*(t.reshape(1, t.shape[1], 2, -1).transpose(1, 2) for t in
                               (Q, K, V))).transpose(1, 2).reshape(1, 3, 4), {"q_num_heads": 2, "kv_num_heads": 2})
    cos, sin = "const c: f64[1, 2, 2] = [0.5, 0.25, 0.75, 1]", "const s: f64[1, 2, 2] = [0.25, 1, 0.5, -0.5]"
    C = torch.tensor([[0.5, 0.25], [0.75, 1]], dtype=torch.float64)
    S = torch.tensor([[0.25, 1], [0.5, -0.5]], dtype=torch.float64)

    def rotated(X, split, join):
        a, b = split(X)
        return join(C * a - S * b, S * a + C * b)

    case("RotaryEmbedding", {"X": (1, 2, 2, 4)},
         lambda X: rotated(X, lambda x:
                           (x[..., :2], x[..., 2:]), lambda a, b: torch.cat([a, b], -1)), None, "X, c, s", [cos, sin])
    case(
        "RotaryEmbedding", {"X": (1, 2, 2, 4)},
        lambda X: rotated(X, lambda x: (x[..., ::2], x[..., 1::2]), lambda a, b: torch.stack([a, b], -1).flatten(-2)),
        {"interleaved": 1}, "X, c, s", [cos, sin])


def spectra():
    real = torch.view_as_real
    for inverse, onesided, n in ((0, 0, None), (0, 1, None), (1, 0, None), (0, 0, 8), (0, 1, 4)):
        x = (2, 6, 1) if onesided else (2, 6, 2)

        def transform(X):
            z = X[..., 0] if onesided else torch.view_as_complex(X)
            return real((torch.fft.rfft if onesided else torch.fft.ifft if inverse else torch.fft.fft)(z, n, 1))

        case("DFT", {"X": x}, transform, {"inverse": inverse, "onesided": onesided}, "X, n, a" if n else "X, _, a",
             [whole("a", 1)] + ([whole("n", n)] if n else []))
    for step, onesided in ((2, 1), (3, 0)):
        case(
            "STFT", {"X": (1, 10, 1), "W": (4, )}, lambda X, W: real(
                torch.stft(X[..., 0], 4, step, window=W, center=False, onesided=bool(onesided), return_complex=True)).
            transpose(1, 2), {"onesided": onesided}, "X, step, W", [whole("step", step)])


# ---- losses ----
def losses():
    maps, t2 = ((2, 3, 2, 2), [[[0, 2], [1, 1]], [[2, 0], [0, 1]]]), [1, 0, 2, 2]
    for op, f in (("SoftmaxCrossEntropyLoss", F.cross_entropy), ("NegativeLogLikelihoodLoss", F.nll_loss)):
        for reduction in ("mean", "sum", "none"):
            for x, t in (((4, 3), t2), maps):
                case(op, {"X": x}, lambda X: f(X, torch.tensor(t), reduction=reduction), {"reduction": reduction},
                     "X, t", [whole("t", t)])
            w = torch.tensor([0.5, 2, 0.25], dtype=torch.float64)
            case(op, {"X": (4, 3)}, lambda X: f(X, torch.tensor(t2), w, ignore_index=0, reduction=reduction),
                 {"reduction": reduction, "ignore_index": 0}, "X, t, w",
                 [whole("t", t2), "const w: f64[3] = [0.5, 2, 0.25]"])


# ---- chains ----
def chains():
    """Several operators, where torch's function is one."""
    case("MatMul, Softmax", {"Q": (3, 4), "K": (4, 5), "V": (5, 2)},
         lambda Q, K, V: (Q @ K).softmax(1) @ V,
         text="a = MatMul(Q, K)\ntext b = Softmax(a)\ntext Y = MatMul(b, V)")
    case("Cholesky-free covariance", {"X": (4, 3)},
         lambda X: torch.cov(X.T),
         consts=[whole("a", [0]), "const d: f64[] = [3]"],
         text=
         "m = ReduceMean(X, a)\ntext z = Sub(X, m)\ntext t = Transpose(z)\ntext c = MatMul(t, z)\ntext Y = Div(c, d)")
    case("cosine similarity", {"A": (3, 4), "B": (3, 4)},
         lambda A, B: F.cosine_similarity(A, B),
         consts=[whole("a", [1])],
         text="p = Mul(A, B)\ntext n = ReduceSum(p, a) {keepdims = 0}\ntext u = ReduceL2(A, a) {keepdims = 0}\n"
         "text v = ReduceL2(B, a) {keepdims = 0}\ntext w = Mul(u, v)\ntext Y = Div(n, w)")


print("# Written by tests/tools/gradient_references.py; do not edit. torch %s, numpy %s, first seed %d" %
      (torch.__version__, np.__version__, SEED))
for group in (unary, binary, reductions, products, convolutions, pools, normalisations, resizes, grids, gathers,
              movement, recurrent, attention, spectra, losses, chains):
    group()
print("%d cases of %d operators" % (cases, len(operators)), file=sys.stderr)
