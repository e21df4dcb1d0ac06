#!/usr/bin/env python3
"""Makes the small models of this folder: NAME.onnx, its references NAME.npz, NAME.v2.npz, ..., and README.md.

  make_models.py             write everything (the same bytes again on the same machine)
  make_models.py --check     write nothing; fail unless the committed files say the same: models and external data
                             byte for byte, inputs exactly, reference outputs up to rounding (rtol 1e-4, atol 1e-5)
  make_models.py --peer      also run every model in onnxruntime and print where it disagrees or cannot run it
  make_models.py NAME...     only these models

Needs onnx 1.23 and numpy; --peer and the models named contrib_* need onnxruntime.  The tests read the committed files
and need no Python.
"""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one order of summation

import argparse
import io
import pathlib
import sys
import tempfile
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Importing a family registers its models.
from gen import attention, caches, contrib, control, convolution, language, legal, movement  # noqa: E402,F401
from gen import opsets, recurrent, scalars, selection, sequences, structure, words  # noqa: E402,F401
from gen.kit import MODELS, make, npz_bytes  # noqa: E402

HEAD = """# Small models for tests

Made by `make_models.py` (onnx and numpy, fixed seeds); do not edit by hand, this page included. `NAME.onnx` is the
model; `NAME.npz` holds `in_0, in_1, ...` and `out_0, out_1, ...` in graph order (initialisers that are also inputs are
not counted), by `onnx.reference` and, where that lacks something, `gen/reference_ops.py`; for operators of the domain
com.microsoft by onnxruntime. `NAME.v2.npz`, `NAME.v3.npz`
are further variants: other sizes of symbolic dimensions, other branches. `NAME.data` is external data of a model.
All references hold at rtol 1e-3 + atol 1e-4; integer and bool outputs exactly. `make_models.py --check` compares the
committed files with what the script makes; `--peer` compares the references with onnxruntime.

| model | opset | references | covers |
|---|---|---|---|
"""


def files_of(name):
    """File name -> bytes for everything that belongs to one model; also the proto and the runs."""
    proto, runs, external = make(name)
    files = {f"{name}.onnx": proto.SerializeToString(deterministic=True), **external}
    for number, (inputs, outputs) in enumerate(runs):
        suffix = "" if number == 0 else f".v{number + 1}"
        arrays = {f"in_{i}": a for i, a in enumerate(inputs)}
        arrays.update({f"out_{i}": a for i, a in enumerate(outputs)})
        files[f"{name}{suffix}.npz"] = npz_bytes(arrays)
    return files, proto, runs


def same(path, data):
    """None when the committed file says the same as `data`, or else what differs."""
    if not path.exists():
        return "missing"
    if path.read_bytes() == data:
        return None
    if path.suffix != ".npz":
        return "bytes differ"
    new = np.load(io.BytesIO(data))
    try:
        old = dict(np.load(path))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return f"unreadable: {error}"
    if sorted(old) != sorted(new):
        return "other keys"
    for key in new:
        a, b = old[key], new[key]
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{key}: other type or shape"
        if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        rounded = key.startswith("out_") and a.dtype.kind == "f"
        if not rounded or not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{key}: other values"
    return None


def compare_with_peer(name, files, runs):
    """What onnxruntime says: agrees (with the largest share of the tolerance used), differs, or refuses."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        for file, data in files.items():
            (pathlib.Path(folder) / file).write_bytes(data)
        try:
            verdict = peer_verdict(onnxruntime.InferenceSession(f"{folder}/{name}.onnx", options), runs)
            if verdict.startswith("DIFFERS"):
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                plain = peer_verdict(onnxruntime.InferenceSession(f"{folder}/{name}.onnx", options), runs)
                verdict += f"; without its optimisations {plain}"
            return verdict
        except Exception as error:  # the peer may refuse anything: say so and go on
            return "REFUSES: " + str(error).splitlines()[0][:150]


def peer_verdict(session, runs):
    names, worst, bad = [i.name for i in session.get_inputs()], 0.0, []
    for number, (inputs, outputs) in enumerate(runs, 1):
        got = session.run(None, dict(zip(names, inputs)))
        for i, (a, b) in enumerate(zip(got, outputs)):
            a, where = np.asarray(a), f"variant {number} out_{i}"
            if a.shape != b.shape or a.dtype != b.dtype:
                bad.append(f"{where}: {a.dtype}{a.shape}, here {b.dtype}{b.shape}")
            elif b.dtype.kind != "f":
                if not np.array_equal(a, b):
                    bad.append(f"{where}: {int((a != b).sum())} of {a.size} values")
            elif not np.array_equal(a[~np.isfinite(a)], b[~np.isfinite(b)], equal_nan=True):
                bad.append(f"{where}: special values")
            else:
                ok = np.isfinite(b)
                a, b = a[ok].astype(np.float64), b[ok].astype(np.float64)
                share = float(np.max(np.abs(a - b) / (1e-4 + 1e-3 * np.abs(b)), initial=0))
                worst = max(worst, share)
                if share > 1:
                    bad.append(f"{where}: {share:.3g} times the tolerance")
    return "DIFFERS " + ", ".join(bad) if bad else f"agrees ({worst:.4f} of the tolerance)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    bad, rows, known, total = 0, [], {"README.md"}, 0
    for name in options.names or sorted(MODELS):
        files, proto, runs = files_of(name)
        known.update(files)
        total += sum(map(len, files.values()))
        if sum(map(len, files.values())) > 60000:
            print(f"{name}: over 60 KB")
            bad += 1
        rows.append(f"| {name} | {MODELS[name][1]} | {len(runs)} | {MODELS[name][0]} |\n")
        for file, data in files.items():
            if not options.check:
                (HERE / file).write_bytes(data)
            elif problem := same(HERE / file, data):
                print(f"{file}: {problem}")
                bad += 1
        if options.peer:
            print(f"{name}: {compare_with_peer(name, files, runs)}")
    if not options.names:
        page = (HEAD + "".join(rows)).encode()
        if not options.check:
            (HERE / "README.md").write_bytes(page)
        elif problem := same(HERE / "README.md", page):
            print(f"README.md: {problem}")
            bad += 1
        for path in sorted(HERE.iterdir()):
            if path.suffix in (".onnx", ".npz", ".data") and path.name not in known:
                print(f"{path.name}: belongs to no model")
                bad += 1
    print(f"{len(rows)} models, {total} bytes" + (f", {bad} problems" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
