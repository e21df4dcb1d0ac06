"""einkorn.onnxruntime: sessions, values, errors, and einkorn.as_onnxruntime. Where the package onnxruntime is
installed, its own answers to the same calls are compared."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np

import einkorn.onnxruntime as ours

SOURCE = os.environ["EINKORN_SOURCE"]
DIGITS = os.path.join(SOURCE, "examples/digits/digits.onnx")
try:
    import onnxruntime as theirs
except ImportError:
    theirs = None


def outcome(call):
    """What a call comes to, without values: so that two engines can be compared."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = call()
    except Exception as e:
        return type(e).__name__
    return [(np.asarray(v).dtype.name, np.shape(v)) for v in r] if isinstance(r, list) else r


class Session(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        z = np.load(os.path.join(SOURCE, "examples/digits/all.npz"))
        cls.x, cls.y = z["in_0"], z["out_0"]
        cls.s = ours.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])

    def close(self, results, n=None):
        np.testing.assert_allclose(results[0], self.y[:n], rtol=1e-4, atol=1e-5)

    def test_run(self):
        self.close(self.s.run(None, {"image": self.x}))
        self.close(self.s.run(["scores"], {"image": self.x[:3]}), 3)
        self.close(self.s.run([], {"image": self.x[:1].tolist()}), 1)
        self.close(ours.InferenceSession(open_bytes(DIGITS)).run(None, {"image": self.x[:2]}), 2)

    def test_about(self):
        (i,), (o,) = self.s.get_inputs(), self.s.get_outputs()
        self.assertEqual((i.name, i.type, i.shape), ("image", "tensor(float)", ["N", 1, 8, 8]))
        self.assertEqual((o.name, o.type, o.shape), ("scores", "tensor(float)", ["N", 10]))
        meta = self.s.get_modelmeta()
        self.assertEqual((meta.producer_name, meta.graph_name, meta.custom_metadata_map),
                         ("einkorn-examples", "digits", {}))
        self.assertEqual(self.s.get_providers(), ["CPUExecutionProvider"])
        self.assertEqual(self.s.get_overridable_initializers(), [])
        self.assertEqual(ours.get_device(), "CPU")
        self.assertIn("einkorn", ours.get_build_info())

    def test_options(self):
        o = ours.SessionOptions()
        o.intra_op_num_threads = 1
        o.graph_optimization_level = ours.GraphOptimizationLevel.ORT_ENABLE_BASIC
        o.add_free_dimension_override_by_name("N", 2)
        o.add_session_config_entry("session.intra_op.allow_spinning", "0")
        o.add_session_config_entry("einkorn.accuracy", "strict")
        s = ours.InferenceSession(DIGITS, o)
        self.assertEqual(s.get_inputs()[0].shape, [2, 1, 8, 8])
        self.close(s.run(None, {"image": self.x[:2]}), 2)
        self.assertEqual(o.get_session_config_entry("einkorn.accuracy"), "strict")
        for call, error in ((lambda: setattr(o, "intra_op_num_threads", "x"), TypeError),
                            (lambda: setattr(o, "graph_optimization_level", 99), TypeError),
                            (lambda: setattr(o, "threads", 1), AttributeError),
                            (lambda: o.get_session_config_entry("nothing"), RuntimeError)):
            self.assertRaises(error, call)
        with self.assertRaisesRegex(Exception, "custom operators"):
            o.register_custom_ops_library("x.so")

    def test_bindings(self):
        b = self.s.io_binding()
        b.bind_cpu_input("image", self.x[:4])
        b.bind_output("scores")
        self.s.run_with_iobinding(b)
        self.close(b.copy_outputs_to_cpu(), 4)
        out = np.zeros((4, 10), np.float32)
        b.bind_output("scores", "cpu", 0, np.float32, [4, 10], out.ctypes.data)
        self.s.run_with_iobinding(b)
        self.close([out], 4)
        v = ours.OrtValue.ortvalue_from_numpy(self.x[:4])
        self.assertEqual((v.shape(), v.data_type(), v.element_type(), v.device_name(), v.is_tensor()),
                         ([4, 1, 8, 8], "tensor(float)", 1, "cpu", True))
        self.close([self.s.run_with_ort_values(None, {"image": v})[0].numpy()], 4)
        room = ours.OrtValue.ortvalue_from_shape_and_type([4, 10], np.float32)
        b.bind_ortvalue_input("image", v)
        b.bind_ortvalue_output("scores", room)
        self.s.run_with_iobinding(b)
        self.close([room.numpy()], 4)
        self.assertRaises(Exception, b.bind_output, "other")
        self.assertRaises(Exception, b.bind_output, "scores", "cuda")

    def test_async(self):
        done, seen = threading.Event(), []
        self.s.run_async(None, {"image": self.x[:2]}, lambda *a: (seen.append(a), done.set()), 7)
        self.assertTrue(done.wait(20))
        self.close(seen[0][0], 2)
        self.assertEqual(seen[0][1:], (7, ""))

    def test_profiling(self):
        with tempfile.TemporaryDirectory() as folder:
            o = ours.SessionOptions()
            o.enable_profiling, o.profile_file_prefix = True, os.path.join(folder, "p")
            s = ours.InferenceSession(DIGITS, o)
            self.close(s.run(None, {"image": self.x[:2]}), 2)
            path = s.end_profiling()
            with open(path) as f:
                events = json.load(f)
            self.assertIn("model_run", [e["name"] for e in events])
            self.assertTrue(any("conv1" in e["args"].get("nodes", "") for e in events))

    def test_errors(self):
        """The same exceptions, by name, as onnxruntime's."""
        x = self.x[:2]
        calls = {"missing file": (lambda o, s: o.InferenceSession("/nowhere.onnx"), "NoSuchFile"),
                 "no model": (lambda o, s: o.InferenceSession(b"abc"), "InvalidProtobuf"),
                 "a number": (lambda o, s: o.InferenceSession(7), "TypeError"),
                 "no inputs": (lambda o, s: s.run(None, {}), "ValueError"),
                 "an output": (lambda o, s: s.run(["x"], {"image": x}), "InvalidArgument"),
                 "an input": (lambda o, s: s.run(None, {"image": x, "y": x}), "InvalidArgument"),
                 "type": (lambda o, s: s.run(None, {"image": x.astype(np.float64)}), "InvalidArgument"),
                 "rank": (lambda o, s: s.run(None, {"image": x[0]}), "InvalidArgument"),
                 "sizes": (lambda o, s: s.run(None, {"image": x[:, :, :7]}), "InvalidArgument"),
                 "attribute": (lambda o, s: o.nothing, "AttributeError"),
                 "severity": (lambda o, s: o.set_default_logger_severity(9), "RuntimeError")}
        for name, (call, expected) in calls.items():
            with self.subTest(name):
                self.assertEqual(outcome(lambda: call(ours, self.s)), expected)
                if theirs:
                    session = theirs.InferenceSession(DIGITS)
                    self.assertEqual(outcome(lambda: call(theirs, session)), expected)
        with self.assertRaisesRegex(Exception, r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
            self.s.run(None, {"image": x.astype(np.float64)})
        self.assertRaises(ImportError, importlib.import_module, "einkorn.onnxruntime.quantization")
        self.assertRaises(Exception, ours.SparseTensor)

    def test_sizes_that_decide(self):
        """A Squeeze without axes: compiled for the sizes that a run brings."""
        onnx = self.squeeze_model()
        if onnx is None:
            self.skipTest("the package onnx is missing")
        s = ours.InferenceSession(onnx)
        for shape in ((2, 3), (1, 3), (3, 1), (2, 3)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            np.testing.assert_array_equal(s.run(None, {"x": x})[0], np.squeeze(x))

    @staticmethod
    def squeeze_model():
        try:
            from onnx import TensorProto, helper
        except ImportError:
            return None
        graph = helper.make_graph(
            [helper.make_node("Squeeze", ["x"], ["y"])], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


class Program(unittest.TestCase):
    """python -m einkorn.as_onnxruntime."""

    CODE = ("import sys, onnxruntime as o, importlib.metadata as m\n"
            "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, Fail\n"
            "from onnxruntime.capi import _pybind_state\n"
            "from onnxruntime import InferenceSession, SessionOptions\n"
            "assert o.__name__ == 'einkorn.onnxruntime' and m.version('onnxruntime') == o.__version__\n"
            "s = InferenceSession(sys.argv[1])\n"
            "try: s.run(['x'], {})\nexcept (InvalidArgument, ValueError): print('good', sys.argv[1:])\n")

    def run_program(self, *words, **options):
        return subprocess.run([sys.executable, "-m", "einkorn.as_onnxruntime", *words], capture_output=True, text=True,
                              **options)

    def test_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as f:
                f.write("if __name__ == '__main__':\n" + "".join("    %s\n" % r for r in self.CODE.splitlines()))
            for words in ((path,), ("-c", self.CODE), ("-m", "program")):
                with self.subTest(words[0]):
                    done = self.run_program(*words, DIGITS, "-v", cwd=folder)
                    self.assertEqual(done.stdout, "good ['%s', '-v']\n" % DIGITS, done.stderr)

    def test_children(self):
        code = ("import subprocess, sys\n"
                "print(subprocess.check_output([sys.executable, '-c', 'import onnxruntime; print(onnxruntime)']))\n")
        self.assertIn("einkorn", self.run_program("-c", code).stdout)

    def test_spawn(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as f:
                f.write("import multiprocessing\n\ndef name(_):\n    import onnxruntime\n"
                        "    return onnxruntime.__name__\n\nif __name__ == '__main__':\n"
                        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                        "        print(pool.map(name, [0]))\n")
            done = self.run_program(path)
            self.assertEqual(done.stdout, "['einkorn.onnxruntime']\n", done.stderr)

    def test_usage(self):
        self.assertEqual(self.run_program().returncode, 2)
        self.assertIn("PROGRAM", self.run_program("--help").stdout)
        self.assertNotEqual(self.run_program("-c", "import onnxruntime.nothing").returncode, 0)
        self.assertEqual(self.run_program("-c", "import sys; sys.exit(5)").returncode, 5)


def open_bytes(path):
    with open(path, "rb") as f:
        return f.read()


if __name__ == "__main__":
    unittest.main()
