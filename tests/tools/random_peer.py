#!/usr/bin/env python3
"""Does onnxruntime compute what Einkorn's definitions say for random models?

  random_peer.py --operators        prints the operators that it has a kernel for, and element types that most of them
                                    take, as a list for random_models -l
  random_peer.py FOLDER             runs each SEED.onnx of random_models -w on the inputs in SEED.npz

Nodes that it does not take are taken out: what others read of them is an input, with the definition's result. A node
whose result differs by itself, from the definition's inputs, is counted and taken out, too: tests/peers.sh and the
standard's node tests are about single operators, this is about how they are joined. A result may be off by what
SEED.npz allows it (tol_NAME), which follows from how far rounding moves it, and by a few roundings of each element; a
peer adds in another order and has other approximations, so it may be off by twice as much as compiled code. The reasons
why nodes are refused are counted. The last line is `N passed, N failed, N skipped`; skipped are models of which nothing
is left, or that it refuses as a whole. Needs onnx, onnxruntime and numpy.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

DOMAINS = ("", "com.microsoft", "ai.onnx.ml")
TYPES = ("f32", "f64", "f16", "i64", "i32", "i8", "u8", "bool", "str")
# One and the same rounding of an element, or two, by its type.
STEPS = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-6, np.dtype(np.float16): 2.0**-10}


def operators():
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    kernels = {(d.domain, d.op_name) for d in get_all_opkernel_def() if d.provider == "CPUExecutionProvider"}
    return sorted(f"{domain}::{name}" if domain else name for domain, name in kernels if domain in DOMAINS)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def newest_opset():
    """The newest opset of the standard that it takes."""
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "probe", [port], [result])
    for version in range(onnx.defs.onnx_opset_version(), 0, -1):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
        try:
            session(model)
            return version
        except Exception:
            continue
    raise SystemExit("onnxruntime takes no opset")


def difference(got, want, limit):
    """What differs, in words; None: nothing."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype.kind in "OUS":
        wrong = got.astype(str) != want.astype(str)
    elif got.dtype != want.dtype:
        return f"{got.dtype}, not {want.dtype}"
    elif got.dtype.kind == "f":
        g, w = got.astype(np.float64), want.astype(np.float64)
        allowed = 2 * (limit + 16 * STEPS[got.dtype] * np.abs(w))
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(g - w) <= allowed) | (g == w) | (np.isnan(g) & np.isnan(w)))
    else:
        wrong = got != want
    if not wrong.any():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return f"{int(wrong.sum())} of {wrong.size} differ, first at {list(at)}: {got[at]}, expected {want[at]}"


def port(name, array):
    """A graph's input; None where numpy does not have the element type."""
    if array.dtype.kind == "V":
        return None
    kind = TensorProto.STRING if array.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def reads(node):
    """The values that a node and its bodies read."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    return [i for i in node.input if i] + [i for b in bodies for n in b.node for i in reads(n)]


class Part:
    """Some nodes of a model as a model: what they read of others is an input."""

    def __init__(self, model, values, nodes):
        constants = {c.name: c for c in model.graph.initializer}
        made = {o for n in nodes for o in n.output}
        read = list(dict.fromkeys(i for n in nodes for i in reads(n)))
        self.inputs = {i: values[i] for i in read if i in values and i not in made}
        self.results = [o for n in nodes for o in n.output if o]
        ports = [port(name, array) for name, array in self.inputs.items()]
        if None in ports:
            raise ValueError("an element type that numpy does not have")
        outputs = [onnx.ValueInfoProto(name=o) for o in self.results]
        graph = helper.make_graph(nodes, "part", ports, outputs, [constants[i] for i in read if i in constants])
        self.model = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)

    def run(self):
        return dict(zip(self.results, session(self.model).run(self.results, self.inputs)))


def compare(path, opset):
    """What is found out about a model: a word, what it is about, and what differs."""
    model = onnx.load(path)
    for entry in model.opset_import:
        if entry.domain == "":
            entry.version = min(entry.version, opset)
    model.ir_version = min(model.ir_version, 10)
    arrays = np.load(path.with_suffix(".npz"))
    values = {name.split("_", 1)[1]: arrays[name] for name in arrays.files if not name.startswith("tol_")}
    taken = []
    for node in model.graph.node:
        try:
            alone = Part(model, values, [node]).run()
        except Exception as error:
            yield "refused", node.op_type, reason(str(error))
            continue
        wrong = first_difference(alone, values, arrays)
        if wrong:
            yield "operator", node.op_type, wrong
        else:
            taken.append(node)
    yield "nodes", len(taken), ""
    if not taken:
        yield "skipped", "", ""
        return
    try:
        wrong = first_difference(Part(model, values, taken).run(), values, arrays)
    except Exception as error:
        yield "skipped", "", f"{len(taken)} nodes run one by one, but not together: {reason(str(error))}"
        return
    yield "failed" if wrong else "passed", "", wrong


def first_difference(results, values, arrays):
    for name, got in results.items():
        limit = arrays["tol_" + name] if "tol_" + name in arrays.files else 0
        wrong = difference(np.asarray(got), values[name], limit)
        if wrong:
            return f"{name}: {wrong}"
    return None


def apart(path, opset):
    """compare() in a process of its own: a crash of onnxruntime is one of this model."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "w") as out:
            for line in compare(path, opset):
                out.write(json.dumps(line) + "\n")
                out.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as lines:
        findings = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    return findings + ([("crashed", "", f"status {status}")] if status else [])


def reason(text):
    """Without names and numbers, so that equal reasons can be counted."""
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : ", "", text.split("\n")[0])
    return re.sub(r"[xtwn]?\d+", "N", text)[:100]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--reasons", type=int, default=0, help="how many reasons to print")
    arguments = parser.parse_args()
    if arguments.operators:
        print("\n".join([f"type {t}" for t in TYPES] + operators()))
        return 0
    counts, reasons, operators_off = collections.Counter(), collections.Counter(), {}
    opset = newest_opset()
    for path in sorted(arguments.folder.glob("*.onnx"), key=lambda p: int(p.stem)):
        for what, about, text in apart(path, opset):
            counts[what] += about if what == "nodes" else 1
            if what == "refused":
                reasons[about, text] += 1
            elif what == "operator":
                operators_off.setdefault(about, []).append(f"seed {path.stem}: {text}")
            elif text:
                print(f"{'FAIL ' if what == 'failed' else ''}seed {path.stem}: {text}", flush=True)
    print(f"{counts['nodes']} nodes agree, {counts['refused']} refused, {counts['operator']} differ by themselves, "
          f"{counts['crashed']} crashes")
    for operator, cases in sorted(operators_off.items()):
        print(f"{len(cases):6} of {operator}, {cases[0]}")
    for (operator, text), n in reasons.most_common(arguments.reasons):
        print(f"{n:6} of {operator}: {text}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return counts["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
