"""The Python package: einkorn.compile, Module, Bound, op. Run by tests/package.sh, with EINKORN_SOURCE the folder of
the sources. Needs numpy; tests of onnx, ml_dtypes and other packages are skipped without them."""
import contextlib
import ctypes
import gc
import importlib.util
import multiprocessing
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import einkorn

SOURCE = os.environ["EINKORN_SOURCE"]
DIGITS = os.path.join(SOURCE, "examples/digits/digits.onnx")
MODELS = os.path.join(SOURCE, "tests/models")
TWICE = "op Twice<T>(X: T[n...]) -> Y: T[n...] { Y[i...] = X[i...] + X[i...] }"
SHOUT = """op Shout(X: str[a...]) -> Y: str[a...] {
  B = bytes(X)
  let w = shape(B)[len(a)]
  U[a..., k < w] = B[a..., k] >= 97 and B[a..., k] <= 122 ? B[a..., k] - 32 : B[a..., k]
  Y = text(U)
}"""


def has(package):
    return importlib.util.find_spec(package) is not None


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def references(model):
    """(inputs, outputs) of a test model, by position: NAME.npz has in_0, ... and out_0, ..."""
    z = np.load(os.path.join(MODELS, model + ".npz"))
    return ([z["in_%d" % i] for i in range(len(z.files)) if "in_%d" % i in z],
            [z["out_%d" % i] for i in range(len(z.files)) if "out_%d" % i in z])


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        z = np.load(os.path.join(SOURCE, "examples/digits/all.npz"))
        cls.x, cls.y = z["in_0"], z["out_0"]
        cls.m = einkorn.compile(DIGITS)

    def close(self, y, n=None):
        np.testing.assert_allclose(y, self.y if n is None else self.y[:n], rtol=1e-4, atol=1e-5)

    # ---- sources and options ----
    def test_sources(self):
        data = contents(DIGITS)
        for source in (DIGITS, pathlib.Path(DIGITS), data, bytearray(data), memoryview(data)):
            with self.subTest(type(source).__name__), einkorn.compile(source) as m:
                self.close(m(self.x))

    @unittest.skipUnless(has("onnx"), "the package onnx is missing")
    def test_model_proto(self):
        import onnx
        self.close(einkorn.compile(onnx.load(DIGITS))(self.x))

    def test_dims(self):
        m = einkorn.compile(DIGITS, dims={"N": 2})
        self.assertEqual(m.outputs[0].shape, (2, 10))
        self.assertIsInstance(m.memory, int)
        self.close(m(self.x[:2]), 2)
        bounded = einkorn.compile(DIGITS, dims={"N": (1, None, 3)})
        with self.assertRaisesRegex(einkorn.ShapeError, r"1\.\.3"):
            bounded(self.x[:4])

    def test_options(self):
        for options in ({"threads": 1}, {"accuracy": "strict"}, {"optimize": 0}, {"memory_limit": "1G"},
                        {"unchecked": True}, {"reproducible": True}, {"evaluate": 1}, {"schedule": "schedules 1\n"}):
            with self.subTest(**options):
                self.close(einkorn.compile(DIGITS, **options)(self.x[:3]), 3)

    def test_schedule(self):
        text = einkorn.compile(DIGITS, threads=1).show("schedule")
        self.close(einkorn.compile(DIGITS, threads=1, schedule=text)(self.x[:3]), 3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.schedule")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("buffer none", "buffer never", 1))
            said = r"digits\.schedule:\d+:\d+: .*expected panel, rows, panel rows, or none"
            with self.assertRaisesRegex(einkorn.EinkornError, said):
                einkorn.compile(DIGITS, threads=1, schedule=path)(self.x[:3])

    def test_memory_limit(self):
        m = einkorn.compile(DIGITS, memory_limit=1000)
        with self.assertRaises(einkorn.OutOfMemoryError):
            m(self.x)
        with tempfile.TemporaryDirectory() as folder: # what is saved keeps within it, so open sizes need bounds
            path = os.path.join(folder, "m.so")
            self.assertRaises(einkorn.OutOfMemoryError, m.save, path)
            einkorn.compile(DIGITS, memory_limit="10M", dims={"N": (1, None, 16)}).save(path)
            self.close(einkorn.load(path)(self.x[:3]), 3)

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            self.assertFalse(einkorn.compile(DIGITS, cache=folder).report["cached"])
            self.assertTrue(einkorn.compile(DIGITS, cache=folder).report["cached"])

    def test_progress(self):
        seen = []
        einkorn.compile(DIGITS, progress=lambda phase, done: seen.append((phase, done)))
        self.assertGreater(len(seen), 3)
        self.assertTrue(all(0 <= done <= 1 for _, done in seen))
        with self.assertRaises(einkorn.CancelledError):
            einkorn.compile(DIGITS, progress=lambda phase, done: True)
        with self.assertRaises(ZeroDivisionError):
            einkorn.compile(DIGITS, progress=lambda phase, done: 1 / 0)

    def test_watch(self):
        m = einkorn.compile(DIGITS, watch=["logits"])
        self.assertEqual(sorted(m.run({"image": self.x[:1]})), ["logits", "scores"])

    # ---- calls ----
    def test_calls(self):
        self.close(self.m(self.x))
        self.close(self.m(image=self.x))
        self.close(self.m.run({"image": self.x})["scores"])
        self.assertEqual(self.m(self.x[:0]).shape, (0, 10))

    def test_out(self):
        out = np.full((5, 10), 7, np.float32)
        got = self.m.run({"image": self.x[:5]}, out={"scores": out})
        self.assertIs(got["scores"], out)
        self.close(out, 5)
        for wrong in (np.zeros((4, 10), np.float32), np.zeros((5, 10)), np.zeros((10, 5), np.float32).T, [1.0]):
            with self.assertRaisesRegex(ValueError, "scores"):
                self.m.run({"image": self.x[:5]}, out={"scores": wrong})
        frozen = np.zeros((5, 10), np.float32)
        frozen.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.m.run({"image": self.x[:5]}, out={"scores": frozen})

    def test_overlap(self):
        shared = np.zeros(5 * 64 + 50, np.float32)
        with self.assertRaisesRegex(ValueError, "shares memory"):
            self.m.run({"image": shared[:320].reshape(5, 1, 8, 8)}, out={"scores": shared[300:350].reshape(5, 10)})

    def test_bind(self):
        x = self.x[:4].copy()
        bound = self.m.bind({"image": x})
        self.close(bound(), 4)
        x[:] = self.x[4:8]
        np.testing.assert_allclose(bound(), self.y[4:8], rtol=1e-4, atol=1e-5)
        out = np.zeros((4, 10), np.float32)
        self.m.bind({"image": x}, out={"scores": out})()
        np.testing.assert_allclose(out, self.y[4:8], rtol=1e-4, atol=1e-5)

    def test_inputs_as_they_are(self):
        """No copy of what fits, a copy of other strides, conversion of what loses nothing."""
        wide = np.zeros((4, 1, 8, 16), np.float32)
        wide[..., ::2] = self.x[:4]
        self.close(self.m(wide[..., ::2]), 4)
        self.close(self.m(self.x[:4].tolist()), 4)
        raw = np.zeros(self.x[:1].nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(self.x[:1].tobytes(), np.uint8)
        self.close(self.m(raw[1:].view(np.float32).reshape(1, 1, 8, 8)), 1)
        self.close(self.m(self.x[:2].astype(">f4").astype("<f4")), 2)
        import array
        flat = array.array("f", self.x[:1].ravel().tolist())
        self.close(self.m(memoryview(flat).cast("B").cast("f", (1, 1, 8, 8))), 1)

    def test_errors(self):
        for call, error, text in (
                (lambda: self.m(self.x.astype(np.float64)), einkorn.ShapeError, "float64.*astype"),
                (lambda: self.m(self.x[0]), einkorn.ShapeError, "image"),
                (lambda: self.m(np.zeros((1, 1, 8, 9), np.float32)), einkorn.ShapeError, "image"),
                (lambda: self.m(["a"]), einkorn.ShapeError, "image"),
                (lambda: self.m(), TypeError, "image"),
                (lambda: self.m(self.x, self.x), TypeError, "2 arrays"),
                (lambda: self.m(self.x, image=self.x), TypeError, "twice"),
                (lambda: self.m(picture=self.x), ValueError, "picture.*image"),
                (lambda: self.m.run({"image": self.x, "b": 1}), ValueError, "'b'"),
                (lambda: self.m.run({"image": self.x}, out={"b": 1}), ValueError, "'b'.*scores"),
                (lambda: self.m.run([self.x]), TypeError, "dict"),
                (lambda: einkorn.compile("/nowhere.onnx"), einkorn.FileError, "nowhere"),
                (lambda: einkorn.compile("/nowhere.onnx"), OSError, "nowhere"),
                (lambda: einkorn.compile(b"\x08\x07"), einkorn.EinkornError, "."),
                (lambda: einkorn.compile(DIGITS, dims={"M": 1}), einkorn.UsageError, "M.*N"),
                (lambda: einkorn.compile(DIGITS, accuracy="best"), einkorn.UsageError, "best"),
                (lambda: einkorn.compile(DIGITS, memory_limit="many"), einkorn.UsageError, "many"),
                (lambda: einkorn.compile(DIGITS, threads=-1), ValueError, "threads"),
                (lambda: einkorn.compile(DIGITS, target="z80"), einkorn.EinkornError, "z80"),
                (lambda: einkorn.compile(DIGITS, colour=1), TypeError, "colour"),
                (lambda: einkorn.compile(7), TypeError, "int"),
                (lambda: self.m.show("picture"), einkorn.UsageError, "picture"),
                (lambda: self.m.save("/nowhere/x.so"), einkorn.FileError, "nowhere"),
                (lambda: einkorn.check(DIGITS, dims={"N": 1, "M": 1}), einkorn.UsageError, "M"),
                (lambda: einkorn.load(DIGITS), einkorn.EinkornError, ".")):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    # ---- what a module tells ----
    def test_about(self):
        self.assertEqual(self.m.inputs, (("image", np.dtype("float32"), ("N", 1, 8, 8)),))
        self.assertIn("N", self.m.memory)
        self.assertGreater(self.m.report["kernels"], 2)
        self.assertIn("conv1", self.m.show())
        self.assertIn("stage", self.m.show("expr", after="inline", node="conv1"))
        self.assertIn('output "gradient.', self.m.show(grad=""))
        self.assertIsNone(self.m.check())
        self.assertIsNone(einkorn.check(DIGITS))
        self.assertGreater(len(self.m.kernels({"image": self.x})), 2)
        self.assertIn("conv1", self.m.explain(seconds=0.05))
        self.assertIn("image", repr(self.m))

    def test_save(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.so")
            self.assertGreater(self.m.save(path)["file_bytes"], 1000)
            for source in (path, contents(path)):
                saved = einkorn.load(source)
                self.close(saved(self.x))
            with self.assertRaisesRegex(ValueError, "model"):
                saved.show()
            self.m.save(os.path.join(folder, "digits.c"))
            self.m.save(os.path.join(folder, "small.onnx"))
            self.close(einkorn.compile(os.path.join(folder, "small.onnx"))(self.x))

    def test_pickle(self):
        self.close(pickle.loads(pickle.dumps(self.m))(self.x))
        m = einkorn.compile(contents(DIGITS), dims={"N": 3}, ops=TWICE)
        self.assertEqual(pickle.loads(pickle.dumps(m)).inputs, m.inputs)

    def test_close(self):
        m = einkorn.compile(DIGITS)
        bound = m.bind({"image": self.x[:1]})
        m.close()
        m.close()
        self.close(bound(), 1)  # what is bound lives on
        for call in (lambda: m(self.x), lambda: m.show(), lambda: m.report):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()

    # ---- threads, processes, signals ----
    def test_threads(self):
        wrong, same = [], threading.Barrier(8)

        def work(i):
            same.wait()
            for k in range(50):
                n = 1 + (i + k) % 7
                y = self.m(self.x[i:i + n])
                if np.abs(y - self.y[i:i + n]).max() > 1e-5:
                    wrong.append((i, k))
        all_threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in all_threads]
        [t.join() for t in all_threads]
        self.assertEqual(wrong, [])

    def test_fork(self):
        self.m(self.x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                for y in pool.map(self.m, [self.x] * 4):
                    self.close(y)

    def interrupted(self, code):
        """Runs code in a process of its own, which prints "go" and gets SIGINT afterwards, also where tests that run in
        the background ignore it."""
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
        p = subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        self.assertEqual(p.stdout.readline(), "go\n")
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = p.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", err)
        self.assertNotIn("done", out)
        return time.monotonic() - start

    def test_interrupt_run(self):
        code = """
import einkorn, numpy as np
add = "".join("  y%d = MatMul(y%d, w)\\n" % (i + 1, i) for i in range(4000))
text = "graph \\"long\\" ir 8 opset 17 {\\n  input y0: f32[512, 512]\\n  input w: f32[512, 512]\\n" + add
m = einkorn.compile((text + "  output y4000\\n}\\n").encode(), threads=1, optimize=1)
print("go")
m(np.zeros((512, 512), np.float32), np.zeros((512, 512), np.float32))
print("done")
"""
        self.assertLess(self.interrupted(code), 2)

    def test_interrupt_compile(self):
        code = """
import einkorn, sys
add = "".join("  y%d = Add(y%d, y%d)\\n" % (i + 1, i, i // 2) for i in range(60000))
text = ("graph \\"long\\" ir 8 opset 17 {\\n  input y0: f32[3]\\n" + add + "  output y60000\\n}\\n").encode()
print("go")
einkorn.compile(text)
print("done")
"""
        self.assertLess(self.interrupted(code), 5)

    def test_memory(self):
        """Compile, run, close, again and again: memory stays."""
        def cycle(n):
            for _ in range(n):
                m = einkorn.compile(DIGITS, threads=1)
                m(self.x[:1])
                m.close()
            gc.collect()
            return int(contents("/proc/self/statm").split()[1]) * resource.getpagesize()
        cycle(10)
        before = cycle(20)
        self.assertLess(cycle(int(os.environ.get("EINKORN_CYCLES", "40"))), before + (4 << 20))

    def test_references(self):
        """Calls keep and give back references to their arrays."""
        x, out = self.x[:2].copy(), np.zeros((2, 10), np.float32)
        before = sys.getrefcount(x), sys.getrefcount(out)
        for _ in range(10):
            self.m(x)
            self.m.run({"image": x}, out={"scores": out})
            self.m.bind({"image": x}, out={"scores": out})()
            with contextlib.suppress(ValueError):
                self.m.run({"image": x}, out={"scores": x})
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(out)), before)


class Models(unittest.TestCase):
    """Models with several inputs and outputs, types, sizes that only a run finds."""

    def run_model(self, name):
        m = einkorn.compile(os.path.join(MODELS, name + ".onnx"))
        inputs, expected = references(name)
        results = m(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        self.assertEqual(len(results), len(expected))
        for got, want in zip(results, expected):
            self.assertEqual(got.shape, want.shape)
            np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=1e-2, atol=1e-3)
        again = m.run({t.name: x for t, x in zip(m.inputs, inputs)})
        for t, first in zip(m.outputs, results):
            np.testing.assert_array_equal(again[t.name], first)

    def test_models(self):
        for name in ("lstm_forward", "detector_nms", "if_nested", "float16_net", "float64_net", "cast_types",
                     "computed_rows", "loop_until", "embedding_gather"):
            if os.path.exists(os.path.join(MODELS, name + ".npz")):
                with self.subTest(name):
                    self.run_model(name)

    def test_sizes_from_data(self):
        """NonZero finds its size in the run; `out` of it is checked."""
        text = b"graph \"g\" ir 8 opset 17 {\n  input x: f32[N]\n  y = NonZero(x)\n  output y\n}\n"
        m = einkorn.compile(text)
        for _ in range(3):
            for x in ([0, 1, 0, 2], [0, 0], [1, 1, 1], []):
                x = np.asarray(x, np.float32)
                np.testing.assert_array_equal(m(x), np.stack(np.nonzero(x)))

    def test_unbounded_sizes(self):
        """What a run found needs room in the next one, too."""
        path = os.path.join(MODELS, "scalar_inputs")
        module, data = einkorn.compile(path + ".onnx"), np.load(path + ".npz")
        inputs = {t.name: data["in_%d" % i] for i, t in enumerate(module.inputs)}
        for _ in range(3):
            np.testing.assert_array_equal(module.run(inputs)["steps"], data["out_2"])
        bound = module.bind(inputs)
        for _ in range(3):
            np.testing.assert_array_equal(bound()[2], data["out_2"])
        small = np.empty(0, np.int64)
        with self.assertRaises(einkorn.EinkornError):
            module.run(inputs, out={"steps": small})

    def test_index_error(self):
        text = b"graph \"g\" ir 8 opset 17 {\n  input x: f32[3]\n  input i: i64[2]\n  y = Gather(x, i)\n  output y\n}\n"
        m = einkorn.compile(text)
        x = np.arange(3, dtype=np.float32)
        np.testing.assert_array_equal(m(x, [2, 0]), [2, 0])
        with self.assertRaisesRegex(einkorn.ShapeError, "7"):
            m(x, [7, 0])
        with self.assertRaisesRegex(einkorn.ShapeError, "int64"):
            m(x, [0.5, 0])

    @unittest.skipUnless(has("ml_dtypes"), "the package ml_dtypes is missing")
    def test_ml_dtypes(self):
        import ml_dtypes
        twice = einkorn.op(TWICE)
        x = np.arange(5).astype(ml_dtypes.bfloat16)
        y = twice(x)
        self.assertEqual(y.dtype, x.dtype)
        np.testing.assert_array_equal(y, x + x)
        text = b"graph \"g\" ir 10 opset 21 {\n  input x: f32[4]\n  y = Cast(x) {to = %d}\n  z = Cast(y) {to = 1}\n" \
               b"  output y\n  output z\n}\n"
        for code, kind in ((16, "bfloat16"), (17, "float8_e4m3fn"), (19, "float8_e5m2"), (22, "int4"), (21, "uint4")):
            with self.subTest(kind):
                y, z = einkorn.compile(text % code)(np.asarray([0, 1, 2, 3], np.float32))
                self.assertEqual(y.dtype, np.dtype(getattr(ml_dtypes, kind)))
                np.testing.assert_array_equal(y.astype(np.float32), [0, 1, 2, 3])
                np.testing.assert_array_equal(z, [0, 1, 2, 3])
        for code, kind in (("i4", "int4"), ("i2", "int2"), ("u4", "uint4"), ("u2", "uint2")):
            with self.subTest(kind):
                x4 = (np.arange(4) - 2 * (code[0] == "i")).astype(getattr(ml_dtypes, kind))
                wide = einkorn.compile(b"graph \"g\" ir 10 opset 25 {\n  input x: %s[4]\n  y = Cast(x) {to = 6}\n"
                                       b"  output y\n}\n" % code.encode())
                np.testing.assert_array_equal(wide(x4), x4.astype(np.int32))
        m = einkorn.compile(b"graph \"g\" ir 10 opset 21 {\n  input x: bf16[N]\n  y = Neg(x)\n  output y\n}\n")
        out = np.zeros(5, ml_dtypes.bfloat16)
        self.assertIs(m.run({"x": x}, out={"y": out})["y"], out)
        np.testing.assert_array_equal(out, -x)
        with self.assertRaises(einkorn.ShapeError):
            m(x.astype(np.float32))



class States(unittest.TestCase):
    ADDS = ("graph \"adds\" {\n input s: f32[4]\n input x: f32[4]\n const half: f32[] = [0.5]\n y = Add(x, s)\n"
            " s2 = Mul(y, half)\n output s2\n output y\n}\n").encode()

    def test_calls(self):
        x, s = np.arange(4, dtype="f"), np.zeros(4, "f")
        module = einkorn.compile(self.ADDS, states={"s2": "s"})
        self.assertEqual([t.name for t in module.inputs], ["x"])
        self.assertEqual([t.name for t in module.outputs], ["y"])
        self.assertEqual([(t.name, t.shape) for t in module.states], [("s", (4,))])
        for _ in range(5):
            np.testing.assert_allclose(module(x), x + s)
            s = (x + s) / 2
            np.testing.assert_allclose(module.snapshot()["s"], s)
        kept = module.snapshot()
        np.testing.assert_allclose(module(x), x + s)
        np.testing.assert_allclose(kept["s"], s)  # a copy
        module.restore(kept)
        np.testing.assert_allclose(module(x), x + s)
        module.reset("s")
        np.testing.assert_allclose(module(x), x)
        module.reset()
        np.testing.assert_allclose(module(x), x)

    def test_bound(self):
        """Each bound callable has states of its own, which end with it."""
        x = np.ones(4, "f")
        module = einkorn.compile(self.ADDS, states={"s2": "s"})
        one, two = module.bind({"x": x}), module.bind({"x": x})
        one(), one()
        np.testing.assert_allclose(one.snapshot()["s"], 0.75)
        np.testing.assert_allclose(two.snapshot()["s"], 0)
        two.restore({"s": np.full(4, 8, "f")})
        np.testing.assert_allclose(two(), 9)
        one.reset()
        np.testing.assert_allclose(one(), 1)
        del one, two
        gc.collect()
        np.testing.assert_allclose(module(x), 1)

    def test_errors(self):
        module = einkorn.compile(self.ADDS, states={"s2": "s"})
        with self.assertRaisesRegex(einkorn.UsageError, "it has s"):
            module.reset("t")
        with self.assertRaisesRegex(ValueError, "none of that name"):
            module.restore({"t": np.zeros(4, "f")})
        with self.assertRaises(einkorn.EinkornError):
            module.restore({"s": np.zeros(5, "f")})
        with self.assertRaisesRegex(einkorn.UsageError, "no output of the name z"):
            einkorn.compile(self.ADDS, states={"z": "s"})
        self.assertEqual(einkorn.compile(self.ADDS).states, ())

    def test_saved(self):
        x = np.ones(4, "f")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "adds.so")
            einkorn.compile(self.ADDS, states={"s2": "s"}).save(path)
            module = einkorn.load(path)
            module(x)
            np.testing.assert_allclose(module(x), 1.5)
            again = pickle.loads(pickle.dumps(einkorn.compile(self.ADDS, states={"s2": "s"})))
            again(x)
            np.testing.assert_allclose(again(x), 1.5)

    def test_threads(self):
        """Calls side by side would share states: one of them is refused."""
        n = 1 << 22
        text = ("graph \"g\" {\n input s: f32[%d]\n input x: f32[%d]\n a = Erf(s)\n b = Exp(a)\n s2 = Add(b, x)\n y = "
                "ReduceSum(s2)\n output y\n output s2\n}\n" % (n, n)).encode()
        module, refused = einkorn.compile(text, states={"s2": "s"}, threads=1), []

        def calls():
            for _ in range(10):
                try:
                    module(np.zeros(n, "f"))
                except RuntimeError as error:
                    refused.append(str(error))

        both = [threading.Thread(target=calls) for _ in range(2)]
        [t.start() for t in both]
        [t.join() for t in both]
        self.assertTrue(refused and all("bind()" in text for text in refused))


class Capsule:
    """An object that has only __dlpack__."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("no options")
        return self.array.__dlpack__(**options) if self.versioned and np.lib.NumpyVersion(np.__version__) >= "2.1.0" \
            else self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class DLPack(unittest.TestCase):
    def test_in(self):
        m = einkorn.compile(b"graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 3]\n  y = Neg(x)\n  output y\n}\n")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        before = sys.getrefcount(x)
        for versioned in (True, False):
            np.testing.assert_array_equal(m(Capsule(x, versioned)), -x)
            np.testing.assert_array_equal(m(Capsule(np.asfortranarray(x), versioned)), -x)
            with self.assertRaises(einkorn.ShapeError):
                m(Capsule(x.astype(np.float64), versioned))
        gc.collect()
        self.assertEqual(sys.getrefcount(x), before)

    def test_out(self):
        y = einkorn.op(TWICE)(np.arange(3, dtype=np.float32))
        np.testing.assert_array_equal(np.from_dlpack(y), [0, 2, 4])

    @unittest.skipUnless(has("ml_dtypes"), "the package ml_dtypes is missing")
    def test_other_types(self):
        import ml_dtypes
        x = np.arange(4).astype(ml_dtypes.bfloat16)
        m = einkorn.compile(b"graph \"g\" ir 10 opset 21 {\n  input x: bf16[N]\n  y = Neg(x)\n  output y\n}\n")
        exported = einkorn.DLPack(x)
        self.assertEqual(exported.__dlpack_device__(), (1, 0))
        np.testing.assert_array_equal(m(exported), -x)
        capsule = einkorn.DLPack(x).__dlpack__()
        del capsule  # never used: its memory is given back
        with self.assertRaises(BufferError):
            einkorn.DLPack(np.zeros(3, ml_dtypes.int4)).__dlpack__()


class Operators(unittest.TestCase):
    def test_text(self):
        twice = einkorn.op(TWICE)
        for x in (np.arange(3), np.ones((2, 2), np.float32), np.float64(1.5), [1, 2]):
            y = twice(x)
            np.testing.assert_array_equal(y, np.asarray(x) * 2)
        self.assertEqual(twice(np.arange(3, dtype=np.int16)).dtype, np.int16)
        self.assertIn("Twice", twice.signature)
        self.assertIn("x0[i0] + x0[i0]", twice.show("expr", np.ones(3)))
        self.assertEqual(twice.show(), TWICE)

    def test_decorator(self):
        @einkorn.op
        def scaled():
            """
            ## `k` times x.
            op Scaled<T>(X: T[n...]; k: int = 2) -> Y: T[n...] { Y[i...] = T(k) * X[i...] }
            """
        np.testing.assert_array_equal(scaled(np.ones(2, np.float32)), [2, 2])
        np.testing.assert_array_equal(scaled(X=np.ones(2, np.float32), k=5), [5, 5])

    def test_sizes(self):
        """Inputs whose contents decide sizes, where the code must know them, too."""
        total, shaped = einkorn.op(name="ReduceSum"), einkorn.op(name="Reshape")
        x = np.arange(6.0).reshape(2, 3)
        for axes in [0], [1], [1, 0], np.array([-1]):
            np.testing.assert_array_equal(total(x, axes, keepdims=0), x.sum(tuple(axes)))
        with self.assertRaises(einkorn.EinkornError):
            total(x, [5], keepdims=0)
        self.assertEqual([shaped(x, s).shape for s in ([3, 2], [-1], [6])], [(3, 2), (6,), (6,)])

    def test_attributes(self):
        plus = einkorn.op("op Plus<T: float>(X: T[n...]; k: float = 0) -> Y: T[n...] { Y[i...] = X[i...] + T(k) }")
        for k in (1, 0.5, 1e-6, 1e30, -2.5e-7, float("inf")):
            self.assertEqual(plus(np.zeros(1, np.float32), k=k)[0], np.float32(k))
        wide = einkorn.op(name="DepthToSpace")(np.zeros((1, 4, 1, 2), np.float32), blocksize=2, mode="CRD")
        self.assertEqual(wide.shape, (1, 1, 2, 4))
        with self.assertRaises(TypeError):
            einkorn.op(name="Softmax")(np.zeros(3, np.float32), axis=0.5)

    def test_built_in(self):
        gelu = einkorn.op(name="com.microsoft::QuickGelu") # of another domain
        np.testing.assert_allclose(gelu(np.ones(1, np.float32)), 1 / (1 + np.exp(-1.702)), rtol=1e-5)
        thrice = einkorn.op('op "my.own::Thrice"<T: num>(X: T[n...]) -> Y: T[n...] { Y[i...] = X[i...] * T(3) }')
        np.testing.assert_array_equal(thrice(np.arange(3)), [0, 3, 6])
        self.assertEqual(thrice.name, "my.own::Thrice")
        softmax = einkorn.op(name="Softmax")
        np.testing.assert_allclose(softmax(np.zeros((2, 4), np.float32), axis=0), np.full((2, 4), 0.5))
        values, places = einkorn.op(name="TopK")(np.asarray([3, 1, 2], np.float32), np.asarray([2]))
        np.testing.assert_array_equal(values, [3, 2])
        np.testing.assert_array_equal(places, [0, 2])
        clip = einkorn.op(name="Clip")
        np.testing.assert_array_equal(clip(np.arange(5, dtype=np.float32), hi=np.float32(2)), [0, 1, 2, 2, 2])

    def test_strings(self):
        shout = einkorn.op(SHOUT)
        self.assertEqual(shout(["abc", "dé", ""]).tolist(), ["ABC", "Dé", ""])
        self.assertEqual(shout(np.array([["a"], ["bc"]])).tolist(), [["A"], ["BC"]])
        if hasattr(np.dtypes, "StringDType"):
            self.assertEqual(shout(np.array(["a", "bcd"], np.dtypes.StringDType())).tolist(), ["A", "BCD"])
        with self.assertRaises((einkorn.EinkornError, TypeError)):
            shout(np.array([None, "a"], object))

    def test_errors(self):
        with self.assertRaisesRegex(einkorn.ModelError, r"op:2:15: .*j\n.*X\[j\.\.\.\]\n {18}\^"):
            einkorn.op("op Twice<T>(X: T[n...]) -> Y: T[n...] {\n  Y[i...] = X[j...]\n}")
        with self.assertRaisesRegex(einkorn.ModelError, "hello"):
            einkorn.op("hello")
        with self.assertRaisesRegex(einkorn.UsageError, "definition"):
            einkorn.op("fn f(x) = x")
        with self.assertRaisesRegex(einkorn.UsageError, "Softmaxx"):
            einkorn.op(name="Softmaxx")
        with self.assertRaisesRegex(TypeError, "'X' is missing"):
            einkorn.op(TWICE)()
        with self.assertRaisesRegex(TypeError, "'k'"):
            einkorn.op(TWICE)(np.ones(2), k=3)

    def test_in_models(self):
        text = b"graph \"g\" ir 8 opset 17 {\n  input x: f32[3]\n  y = Twice(x)\n  output y\n}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".ek") as f:
            f.write(TWICE)
            f.flush()
            for ops in (TWICE, einkorn.op(TWICE), f.name, [f.name]):
                np.testing.assert_array_equal(einkorn.compile(text, ops=ops)(np.ones(3, np.float32)), [2, 2, 2])

    def test_list(self):
        names = [o.name for o in einkorn.operators(TWICE)]
        self.assertIn("Twice", names)
        self.assertGreater(len(names), 300)

    def test_pickle(self):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(einkorn.op(TWICE)))(np.ones(2)), [2, 2])



class Quantizing(unittest.TestCase):
    """einkorn.quantize: what it writes, what it tells, and what it refuses."""

    def setUp(self):
        self.images = np.load(os.path.join(os.path.dirname(DIGITS), "all.npz"))["in_0"]
        self.samples = [{"image": image[None]} for image in self.images]
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "int8.onnx")

    def tearDown(self):
        self.folder.cleanup()

    def test_model(self):
        q = einkorn.quantize(DIGITS, self.samples, self.path, per_channel=True)
        self.assertEqual((q.quantized, q.observed, q.compared), (4, 26, 6))
        self.assertEqual([x.kept for x in q.layers], [None] * 4)
        self.assertGreater(q.outputs["scores"][0], 39)
        self.assertLess(q.bytes_after, q.bytes_before)
        self.assertTrue(q.ms_before > 0 and q.ms_after > 0)
        want, got = einkorn.compile(DIGITS)(self.images), einkorn.compile(self.path)(self.images)
        self.assertLess(abs(want - got).max(), 0.05)

    def test_budget(self):
        q = einkorn.quantize(DIGITS, iter(self.samples), self.path, method="mse", exclude=["conv1"], least_sqnr=25)
        self.assertEqual(q.layers[0].kept, "excluded")
        self.assertEqual((q.observed, q.compared), (16, 16))
        self.assertGreaterEqual(q.outputs["scores"][2], 25)

    def test_corrected(self):
        for on in (True, False):
            q = einkorn.quantize(DIGITS, self.samples, self.path, correct_bias=on)
            self.assertEqual([x.corrected > 0 for x in q.layers], [on] * 4)

    def test_smoothed(self):
        q = einkorn.quantize(DIGITS, self.samples, self.path, per_channel=True, smooth=0.5)
        self.assertEqual([x.alpha for x in q.smoothed], [0.5] * len(q.smoothed))
        self.assertIn(("flat", 0.5, True), q.smoothed)  # what computes it has nothing to divide
        self.assertEqual(einkorn.quantize(DIGITS, self.samples, self.path).smoothed, [])

    def test_weights(self):
        some = {}
        for method in "minmax", "gptq":
            some[method] = einkorn.quantize(DIGITS, self.samples, self.path, scheme="int4", method=method, bits=3,
                                            block_size=64, zero_points=True).layers[-1]
        self.assertEqual(some["gptq"].kept, None)
        self.assertGreater(some["gptq"].sqnr, some["minmax"].sqnr + 1)
        q = einkorn.quantize(DIGITS, [], self.path, scheme="int4")
        self.assertEqual((q.quantized, q.compared), (1, 0))

    def test_refused(self):
        for call, error, says in (
                (lambda: einkorn.quantize(DIGITS, [], self.path), einkorn.UsageError, "at least one sample"),
                (lambda: einkorn.quantize(DIGITS, [{}], self.path), TypeError, "image.*missing"),
                (lambda: einkorn.quantize(DIGITS, self.samples, self.path, method="kl"), einkorn.UsageError, "kl"),
                (lambda: einkorn.quantize(DIGITS, self.samples, self.path, exclude=["x"]), einkorn.UsageError, "x")):
            with self.assertRaisesRegex(error, says):
                call()


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.image = np.load(os.path.join(SOURCE, "examples/digits/all.npz"))["in_0"]
        names = ["b", "b_relu", "logits", "scores"]
        with einkorn.compile(DIGITS, watch=names) as m:
            cls.values = m.run({"image": cls.image})

    def test_right(self):
        seen = []
        d = einkorn.diff(DIGITS, {"image": self.image[:2].tolist()}, on_tensor=seen.append)
        self.assertFalse(d)
        self.assertEqual((d.verdict, d.checked, d.skipped, len(seen)), ("same", 11, 0, 11))
        self.assertEqual((seen[1].name, seen[1].node, seen[1].op, seen[1].wrong), ("a", "conv1", "Conv", False))
        self.assertLess(max(t.error for t in seen), 1e-5)
        self.assertIn("11 tensors", str(d))
        self.assertFalse(einkorn.diff(contents(DIGITS), {"image": self.image}, against=self.values))

    def test_reference(self):
        wrong = dict(self.values, b_relu=self.values["b_relu"].copy())
        wrong["b_relu"][3, 2, 1, 0] += 0.5
        asked = []

        def some(names):
            asked.extend(names)
            return {name: wrong[name] for name in names if name in wrong}
        with tempfile.TemporaryDirectory() as folder:
            path, part = os.path.join(folder, "wrong.npz"), os.path.join(folder, "part.onnx")
            np.savez(path, **wrong)
            for against in (wrong, some, path, pathlib.Path(path)):
                with self.subTest(against=type(against)):
                    d = einkorn.diff(DIGITS, {"image": self.image}, against=against, save=part)
                    self.assertTrue(d)
                    self.assertEqual((d.verdict, d.tensor, d.node, d.op), ("reference", "b_relu", "relu2", "Relu"))
                    self.assertEqual((d.wrong, d.count, d.place, d.part), (1, 32768, (3, 2, 1, 0), ("relu2",)))
                    self.assertAlmostEqual(d.got - d.want, 0.5, 5)
            case = np.load(os.path.join(folder, "part.npz"))
            self.assertEqual(sorted(case.files), ["b", "b_relu"])
            np.testing.assert_array_equal(einkorn.compile(part)(case["b"]), case["b_relu"])
        self.assertIn("b_relu", asked)

    def test_onnxruntime(self):
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            self.skipTest("onnxruntime is not installed")
        for model in (DIGITS, contents(DIGITS)):
            self.assertFalse(einkorn.diff(model, {"image": self.image}, against="onnxruntime"))

    def test_errors(self):
        image = {"image": self.image}
        for call, kind, text in (
                (lambda: einkorn.diff(DIGITS, {}), TypeError, "image.*missing"),
                (lambda: einkorn.diff(DIGITS, image, against="missing.npz"), FileNotFoundError, "missing"),
                (lambda: einkorn.diff(DIGITS, image, against=lambda names: 1 / 0), ZeroDivisionError, "."),
                (lambda: einkorn.diff(DIGITS, image, on_tensor=lambda t: 1 / 0), ZeroDivisionError, "."),
                (lambda: einkorn.diff(DIGITS, {"image": self.image.astype("f8")}), einkorn.ShapeError, "float32"),
                (lambda: einkorn.diff(DIGITS, image, progress=lambda phase, done: True), einkorn.CancelledError, "."),
                (lambda: einkorn.diff(DIGITS, image, colour=1), TypeError, "colour")):
            with self.assertRaisesRegex(kind, text):
                call()


class Package(unittest.TestCase):
    def test_program(self):
        for command in ([einkorn.get_program()], [sys.executable, "-m", "einkorn"]):
            done = subprocess.run(command + ["run", DIGITS, "--dim", "N=1", "--no-cache"], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("scores f32[1, 10]", done.stdout)
        self.assertIn("run", subprocess.run([sys.executable, "-m", "einkorn", "help"], capture_output=True,
                                            text=True).stdout)

    def test_parts(self):
        library = ctypes.CDLL(einkorn.get_library())
        library.ek_version.restype = ctypes.c_char_p
        self.assertEqual(library.ek_version().decode(), einkorn.__version__)
        self.assertTrue(os.path.exists(os.path.join(einkorn.get_include(), "einkorn", "einkorn.h")))
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(einkorn.__file__), "py.typed")))

    def test_names(self):
        """The stubs name what the package has."""
        stub = contents(os.path.join(os.path.dirname(einkorn.__file__), "__init__.pyi")).decode()
        for name in einkorn.__all__:
            self.assertRegex(stub, r"(class|def|as) %s\b" % name)

    def test_import_time(self):
        code = "import numpy, time; t = time.perf_counter(); import einkorn; print(time.perf_counter() - t)"
        # with bytecode, as an installation has: else its sources are compiled each time
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        best = min(float(subprocess.check_output([sys.executable, "-c", code], env=env)) for _ in range(5))
        self.assertLess(best, 0.030)  # 3 ms on an idle machine


if __name__ == "__main__":
    unittest.main()
