"""The backend tests of ONNX (onnx.backend.test: node, real, simple, PyTorch) on einkorn.backend, in several processes.

    backend_suite.py [-j JOBS] [-u] [-k WORD] PAGE        PAGE: docs/backend.md; -u writes it; -k: only cases with WORD

Every case for the CPU must pass, with two exceptions. Of random operators, whose random stream the standard leaves
open, types and shapes must be as expected, and on a larger input the share of ones; DFT_NOISE lists cases whose
expected values are rounding noise. Cases with ImageDecoder need the package Pillow. PAGE must be what -u writes.
The last line is `N passed, N failed, N skipped`."""
import argparse
import collections
import importlib.util
import json
import logging
import os
import re
import signal
import struct
import sys
import tempfile
import unittest
import warnings

warnings.simplefilter("ignore")
import numpy as np
import onnx
import onnx.backend.test
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

import einkorn.backend
from einkorn.backend import EinkornBackend

DFT_NOISE = {"test_dft_inverse", "test_dft_inverse_opset19"}
RANDOM = re.compile("test_bernoulli|test_training_dropout(?!_zero)")
VALUES = 1 << 18  # of the larger input
SECONDS = 60  # a case may take
FILES = [("Simple", "simple models"), ("PyTorchConverted", "models converted from PyTorch"),
         ("PyTorchOperator", "operators of PyTorch"), ("Real", "networks, with constant weights")]


class Recorder(EinkornBackend):
    """Keeps what it prepared last, on one thread."""
    last = None

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        cls.last = super().prepare(model, device, threads=1, **kwargs)
        return cls.last


class Suite(onnx.backend.test.BackendTest):
    """Tensors in sequences are compared by type and shape, too, as other tensors are. (Without this they are compared
    row by row, which no scalar in a sequence can pass.)"""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        assert len(outputs) == len(ref_outputs), "%d outputs, %d are expected" % (len(outputs), len(ref_outputs))
        for found, expected in zip(outputs, ref_outputs):
            if isinstance(found, list):
                assert isinstance(expected, (list, tuple)), "a sequence; a tensor is expected"
                cls.assert_similar_outputs(expected, found, rtol, atol, model_dir)
            elif found is None or expected is None:
                assert found is expected, "%r; %r is expected" % (found, expected)
            else:
                super().assert_similar_outputs([expected], [found], rtol, atol, model_dir)


def random_case(case):
    """A case of Bernoulli or Dropout: types and shapes as expected; on an input with all values VALUES times, the share
    of ones (of values kept) of each probability within 5 standard deviations, and what is kept is the input / (1 - r).
    """
    inputs, expected = case.data_sets[0]
    found = Recorder.prepare(case.model).run(inputs)
    for f, e in zip(found, expected, strict=True):
        assert (f.dtype, f.shape) == (e.dtype, e.shape), "%s%s; %s%s is expected" % (f.dtype, f.shape, e.dtype, e.shape)
    dropout = "dropout" in case.name
    x = np.array([-1.5, 0.25, 3] if dropout else np.linspace(0, 1, 9), inputs[0].dtype)
    x = np.repeat(x[:, None], VALUES, 1)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in [model.graph.input[0], *model.graph.output]:
        del value.type.tensor_type.shape.dim[:]
        for _ in range(x.ndim):
            value.type.tensor_type.shape.dim.add()
    del model.graph.value_info[:]
    outputs = Recorder.prepare(model).run([x, *inputs[1:]])
    y = outputs[0]
    assert y.shape == x.shape and y.dtype == expected[0].dtype
    if not dropout:
        assert np.isin(y, (0, 1)).all(), "values other than 0 and 1"
        # the function that the standard defines Bernoulli by gives 1 where the random number is greater than p
        p, kept = 1 - x[:, 0] if "_expanded" in case.name else x[:, 0], y != 0
    else:
        ratio = float(inputs[1]) if len(inputs) > 1 else 0.5
        p, kept = np.full(len(x), 1 - ratio), y != 0
        np.testing.assert_allclose(y, np.where(kept, x / (1 - ratio), 0), rtol=1e-5)
        for mask in outputs[1:]:
            np.testing.assert_array_equal(mask, kept)
    error = np.abs(kept.mean(1) - p)
    assert (error <= 5 * np.sqrt(p * (1 - p) / VALUES)).all(), "shares %s, %s are expected" % (kept.mean(1), p)
    again = kept.reshape(-1)[:-1] & kept.reshape(-1)[1:]  # neighbours do not depend on each other
    q = (p * p).mean()
    assert abs(again.mean() - q) <= 5 * np.sqrt(q / again.size) + 1 / again.size, "neighbours depend on each other"


def operators():
    """{name of a node case: operator}: an expanded case counts for the operator that it was made from."""
    names = {}
    for case in load_node_model_tests():
        nodes = [n for n in case.model.graph.node if n.op_type not in ("Constant",)] or case.model.graph.node
        if "_expanded" not in case.name:
            names[case.name] = "::".join(filter(None, (nodes[-1].domain, nodes[-1].op_type)))
    for case in load_node_model_tests():
        if case.name not in names:
            names[case.name] = names.get(re.sub(r"_expanded(_ver\d+)?$", "", case.name), "functions of operators")
    return names


def work(read, path, cases, random):
    """Runs the cases whose numbers come out of a pipe, and writes a line before and one behind each."""
    with open(path, "a", buffering=1) as out:
        while number := os.read(read, 4):
            index = struct.unpack("i", number)[0]
            kind, name, suite = cases[index]
            out.write(json.dumps([index, "began"]) + "\n")
            signal.alarm(SECONDS)
            Recorder.last, error = None, ""
            if name in random:
                try:
                    random_case(random[name])
                except Exception as e:
                    error = "%s: %s" % (type(e).__name__, e)
            else:
                result = unittest.TestResult()
                suite(name + "_cpu").run(result)
                for _, text in result.failures + result.errors:
                    error = text.strip()
                for _, text in result.skipped:
                    error = "skipped: " + text
            constants = Recorder.last.constants if Recorder.last else []
            out.write(json.dumps([index, "ended", error, len(constants)]) + "\n")


def run(cases, random, jobs):
    """{number: (error, number of inputs that became constants)} of all cases. A process that crashes or hangs costs
    its case only."""
    folder = tempfile.TemporaryDirectory()
    os.environ["ONNX_HOME"] = folder.name
    read, write = os.pipe()
    numbers = b"".join(struct.pack("i", i) for i in range(len(cases)))
    assert len(numbers) <= 1 << 16, "more than a pipe holds"
    os.write(write, numbers)
    os.close(write)
    running, results, missing = {}, {}, jobs
    while running or missing:
        for _ in range(missing):
            path = os.path.join(folder.name, "%d" % (len(os.listdir(folder.name))))
            open(path, "w").close()
            pid = os.fork()
            if not pid:
                try:
                    work(read, path, cases, random)
                finally:
                    os._exit(0)
            running[pid] = path
        pid, status = os.wait()
        with open(running.pop(pid)) as f:
            rows = [json.loads(row) for row in f]
        results.update({r[0]: (r[2], r[3]) for r in rows if r[1] == "ended"})
        missing = int(bool(rows) and rows[-1][1] == "began")
        if missing:
            results[rows[-1][0]] = ("the process ended with status %d" % status, 0)
    os.close(read)
    folder.cleanup()
    return results


def page(cases, results, names):
    """docs/backend.md."""
    rows = collections.OrderedDict()
    kinds = dict(FILES)
    for i, (kind, name, _) in sorted(enumerate(cases), key=lambda c: (c[1][0] != "Node", c[1][0], c[1][1])):
        row = rows.setdefault(names[name] if kind == "Node" else kinds[kind], collections.Counter())
        error, constants = results[i]
        row["cases"] += 1
        row["passed"] += not error
        row["constants"] += bool(constants and not error)
        row["random"] += bool(RANDOM.match(name) and not error)
        row["noise"] += bool(error and name in DFT_NOISE)
    total = sum(rows.values(), collections.Counter())
    version = onnx.__version__
    text = ["# ONNX's backend tests", "", "Made by `tests/backend.sh -u`; do not edit.", "",
            "Of the %s cases for the CPU of `onnx.backend.test` (onnx %s), %s pass on compiled code, through"
            % (format(total["cases"], ","), version, format(total["passed"], ",")),
            "`einkorn.backend`.", "",
            "A case of a node is a model of one operator, or of the function by which the standard defines it. Axes,",
            "sizes and conditions are inputs there. Where these decide ranks or lengths, the model is compiled for",
            "their values: the column *constants* counts such cases (%d). All others are compiled with every" %
            total["constants"],
            "input open.", "",
            "- *random*: the standard leaves the random stream open. Types and shapes are as expected; on %s values"
            % format(VALUES, ","),
            "  so is the share of ones, or of values kept.",
            "- *noise*: expected values are rounding noise where the result is 0 (1.9e-7; 1e-7 is allowed).",
            "- *by Pillow*: the package Pillow decodes the image; the rest of the model is compiled.", "",
            "The networks are those that the package onnx brings, with constants for weights.", "",
            "| operator | cases | pass | constants | |", "|---|---|---|---|---|"]
    order = sorted((r for r in rows if r not in kinds.values()), key=lambda r: (r.startswith("functions"),
                                                                                r.split("::")[-1].lower(), r))
    for name in order + [k for _, k in FILES]:
        row = rows[name]
        notes = ["%d %s" % (row[k], k) for k in ("random", "noise") if row[k]]
        notes += ["by Pillow"] * (name == "ImageDecoder")
        text.append("| %s | %d | %d | %s | %s |" % (name, row["cases"], row["passed"], row["constants"] or "",
                                                   ", ".join(notes)))
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("-u", action="store_true")
    parser.add_argument("-k", default="")
    parser.add_argument("page")
    options = parser.parse_args()
    np.seterr(all="ignore")
    logging.getLogger("einkorn").setLevel(logging.ERROR)
    suites = Suite(Recorder, __name__).test_cases
    cases = [(kind[len("OnnxBackend"):-len("ModelTest")], name[:-4], suite) for kind, suite in suites.items()
             for name in sorted(vars(suite)) if name.endswith("_cpu") and options.k in name]
    cases.sort(key=lambda c: c[0] != "Real")  # what takes longest first
    random = {c.name: c for c in load_node_model_tests() if RANDOM.match(c.name)}
    results = run(cases, random, options.j)
    pillow = importlib.util.find_spec("PIL") is not None
    failed = skipped = 0
    for i, (_, name, _) in enumerate(cases):
        error = results[i][0]
        if name in DFT_NOISE:
            expected = bool(error) and "Not equal to tolerance" in error
        elif "image_decoder" in name and not pillow:
            expected = "pip install pillow" in error
            skipped += expected
        else:
            expected = not error
        if not expected:
            failed += 1
            print("FAIL %s: %s" % (name, (error or "it passes; it is listed as one that does not")[-1500:]))
    passed = len(cases) - failed - skipped
    print("backend tests of onnx %s: %d cases, %d compiled for values of inputs"
          % (onnx.__version__, len(cases), sum(bool(r[1]) for r in results.values())))
    if skipped:
        print("no package pillow: ImageDecoder and %s were not tested" % options.page)
        skipped += 1
    elif not options.k:
        text = page(cases, results, operators())
        if options.u and not failed:
            with open(options.page, "w") as f:
                f.write(text)
        with open(options.page) as f:
            there = f.read()
        if "(onnx %s)" % onnx.__version__ not in there:
            print("%s is of another version of onnx: it was not compared" % options.page)
            skipped += 1
        elif there == text:
            passed += 1
        else:
            print("FAIL %s is not what tests/backend.sh -u writes" % options.page)
            failed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
