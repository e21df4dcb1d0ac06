"""How many steps of a quantised output's scale lie between onnxruntime and Einkorn?
    quantized_steps.py EINKORN MODEL.onnx... [FOLDER...]

Each model that has integer products or QuantizeLinear runs in both engines on the arrays of NAME.npz or NAME.ref.npz
beside it, where these are, else on random ones of a fixed seed. A line for each model: the greatest difference of an
output in steps, of its type where it is of integers, else of the scale behind it: of the DequantizeLinear that makes
it, or, where a float operator does, of the last QuantizeLinear before it. `own` is the same figure for onnxruntime
with its optimisations off against itself with them: where it is as large, the difference is one of order or rounding
that the model does not fix. Where an output is off by more than one step, the first tensors of integers in the order
of the model that differ are told, with onnxruntime's optimisations off: how many of their elements, by how much, and
whether these lie at a tie: how far from the middle between two codes the value was at the nearest.
Exit code 1 where an output is off by more than one step while onnxruntime agrees with itself."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
QUANTISED = ("QuantizeLinear", "QLinear", "Integer", "QGemm", "QAttention", "DynamicQuantize")


def run_peer(model, inputs, names=None, plain=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # with more, DynamicQuantizeLSTM has a scale for the rows of each thread
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = names or [x.name for x in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def data_of(path, session):
    base = path.removesuffix(".onnx")
    file = next((f for f in (base + ".npz", base + ".ref.npz") if os.path.exists(f)), None)
    arrays, given, rng = dict(np.load(file)) if file else {}, {}, np.random.default_rng(7)
    for i, x in enumerate(session.get_inputs()):
        name = next((n for n in (x.name, "in_" + x.name, f"in_{i}") if n in arrays), None)
        sizes = [s if isinstance(s, int) else 4 for s in x.shape]
        kind = x.type[7:-1]
        made = (rng.standard_normal(sizes).astype(np.float32) if kind == "float"
                else rng.integers(0, 100, sizes).astype({"bool": bool}.get(kind, kind)))
        given[x.name] = arrays[name] if name else made
    return given


def run_einkorn(einkorn, path, inputs, dump=False):
    with tempfile.TemporaryDirectory() as folder:
        given, out = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        np.savez(given, **{"in_" + k: v for k, v in inputs.items()})
        asked = ["--dump", "all", out] if dump else ["--output", out]
        subprocess.run([einkorn, "run", path, "--inputs", given, "-q", *asked], check=True, stdout=subprocess.DEVNULL)
        return dict(np.load(out))


class Graph:
    """Who makes which tensor, and the constants"""
    def __init__(self, path):
        self.model = onnx.load(path)
        nodes = self.model.graph.node
        self.maker = {o: n for n in nodes for o in n.output}
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer
                          if t.data_location != onnx.TensorProto.EXTERNAL}
        for n in nodes:
            if n.op_type == "Constant" and n.attribute[0].name == "value":
                self.constants[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)

    def step(self, name, seen=None):
        """The scale of the nearest quantisation before a float tensor; None: there is none of a constant scale"""
        queue, seen = [name], set()
        while queue:
            name = queue.pop(0)
            node = self.maker.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if "Dynamic" in node.op_type:
                return None
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[0] not in self.constants:
                scale = self.constants.get(node.input[1])
                if scale is not None:
                    return float(np.max(scale))
            queue += node.input
        return None


def steps(graph, name, want, got):
    """Greatest difference in steps; what a step is"""
    if want.dtype.kind not in "fiub" or not want.size:
        return 0.0, "code"
    most = np.abs(want.astype(np.float64) - got.astype(np.float64))
    most = np.nanmax(most) if not np.isnan(most).all() else 0.0
    if want.dtype.kind != "f":
        return most, "code"
    step = graph.step(name)
    if step is None:
        return most / (np.abs(want).max() / 127 or 1), "127th of the largest value"
    return most / step, "scale"


def trace(einkorn, path, graph, inputs):
    """The first tensors of integers that differ, of models whose tensors onnxruntime and Einkorn both show"""
    model = onnx.load(path)
    model = onnx.shape_inference.infer_shapes(model)
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    whole = {onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16, onnx.TensorProto.INT16,
             onnx.TensorProto.INT32}
    names = [o for n in model.graph.node for o in n.output if kinds.get(o) in whole]
    quantise = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DynamicQuantizeLinear")
                and n.output[0] in names]
    asked = names + [n.input[0] for n in quantise if n.input[0] in graph.maker]
    asked += [n.output[1] for n in quantise if n.op_type[0] == "D"]
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in dict.fromkeys(asked) if n not in known)
    ours = run_einkorn(einkorn, path, inputs, dump=True)
    with tempfile.TemporaryDirectory() as folder:
        all_path = os.path.join(folder, "all.onnx")
        onnx.save(model, all_path, save_as_external_data=True, location="all.data")
        theirs = run_peer(all_path, inputs, list(dict.fromkeys(asked)), plain=True)
    told = 0
    for name in names:
        if name not in ours or np.array_equal(theirs[name], ours[name]):
            continue
        off = np.abs(theirs[name].astype(np.int64) - ours[name].astype(np.int64))
        node, tie = graph.maker[name], ""
        scale = (theirs.get(node.output[1]) if node.op_type == "DynamicQuantizeLinear"
                 else graph.constants.get(node.input[1]) if node.op_type == "QuantizeLinear" else None)
        if scale is not None and node.input[0] in theirs:
            scaled = theirs[node.input[0]].astype(np.float64) / scale
            tie = f", {np.abs(np.abs(scaled - np.floor(scaled)) - 0.5)[off > 0].max():.2g} steps from a tie at most"
        print(f"    {name} ({node.op_type}): {np.count_nonzero(off)} of {off.size} by at most {off.max()}{tie}")
        told += 1
        if told == 3:
            return
    if not told:
        print("    no tensor of integers differs from onnxruntime's with its optimisations off")


def compare(einkorn, path):
    graph = Graph(path)
    if not any(q in n.op_type for n in graph.model.graph.node for q in QUANTISED):
        return False
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        inputs = data_of(path, session)
        want = run_peer(path, inputs)
    except Exception as e:  # noqa: BLE001: the classes of onnxruntime's errors are its own
        print(f"{os.path.basename(path)}: onnxruntime does not run it: {str(e).splitlines()[0][:100]}")
        return False
    plain = run_peer(path, inputs, plain=True)
    got = run_einkorn(einkorn, path, inputs)
    found = [(*steps(graph, name, w, got[name]), steps(graph, name, w, plain[name])[0],
              steps(graph, name, plain[name], got[name])[0], name) for name, w in want.items()]
    most, kind, own, of_plain, name = max(found)
    print(f"{os.path.basename(path)}: {most:.3g} steps ({kind}) at {name}; own {own:.3g}; "
          f"optimisations off {of_plain:.3g}", flush=True)
    if most > 1.001:
        trace(einkorn, path, graph, inputs)
    return most > 1.001 and own < most / 4


def main(einkorn, *paths):
    models = [os.path.join(d, f) for p in paths for d, _, files in os.walk(p) for f in sorted(files)
              if f.endswith(".onnx")] + [p for p in paths if p.endswith(".onnx")]
    wrong = [m for m in models if compare(einkorn, m)]
    if wrong:
        sys.exit("off by more than a step: " + ", ".join(map(os.path.basename, wrong)))


main(*sys.argv[1:])
