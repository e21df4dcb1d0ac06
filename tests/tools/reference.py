"""Does the reference of docs/accuracy.md, `einkorn run --eval --promote f64`, agree with onnx.reference?

    reference.py EINKORN MODEL.onnx...       the inputs are those of MODEL.npz

The model is rewritten so that its f32 are f64, and onnx.reference computes it with the operators of
tests/models/gen/reference_ops.py where it has gaps. Some of its operators round to f32 all the same (Erf), as do some
constants of definitions, so that results need only agree within 1e-6 of an output's largest value. The last line counts
models.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from gen import kit, reference_ops  # noqa: E402

MOST = 1e-6


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen(graph):
    """f32 becomes f64: of constants, of declared types, and where Cast goes to."""
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen_tensor(attribute.t)
            if attribute.HasField("g"):
                widen(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def by_reference(path, arrays):
    proto = onnx.load(path)
    widen(proto.graph)
    initial = {t.name for t in proto.graph.initializer}
    names = [v.name for v in proto.graph.input if v.name not in initial]
    given = [arrays[f"in_{i}"] for i in range(len(names))]
    given = [x.astype(np.float64) if x.dtype == np.float32 else x for x in given]
    opset = max(o.version for o in proto.opset_import if o.domain == "")
    evaluator = ReferenceEvaluator(kit.with_defaults(proto), new_ops=reference_ops.for_opset(opset))
    with np.errstate(all="ignore"):
        return dict(zip((v.name for v in proto.graph.output), evaluator.run(None, dict(zip(names, given)))))


def by_einkorn(einkorn, path, npz, work):
    out = os.path.join(work, "out.npz")
    subprocess.run([einkorn, "run", path, "--inputs", npz, "--eval", "--promote", "f64", "-q", "-o", out], check=True)
    return np.load(out)


def largest_error(want, got):
    """Relative to the largest finite value; where one of them is infinite or NaN the other must be the same."""
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape:
        return np.inf
    if want.dtype.kind != "f":
        return 0 if np.array_equal(want, got) else np.inf
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True):
        return np.inf
    error = np.abs(want[finite] - got[finite]).max(initial=0)
    return error / (np.abs(want[finite]).max(initial=0) or 1)


def main(einkorn, *paths):
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for path in paths:
            npz = path.removesuffix(".onnx") + ".npz"
            try:
                want, got = by_reference(path, np.load(npz)), by_einkorn(einkorn, path, npz, work)
                error = max(largest_error(want[name], got[name]) for name in want)
            except Exception as e:  # whatever onnx.reference raises
                print(f"FAIL {path}: {e!r}"[:300])
                failed += 1
                continue
            if not error <= MOST:
                print(f"FAIL {path}: the reference in f64 differs from onnx.reference by {error:.3g}")
                failed += 1
    print(f"{len(paths) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


sys.exit(main(*sys.argv[1:]))
