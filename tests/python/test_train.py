"""The Python package: einkorn.train. Run by tests/package.sh, with EINKORN_SOURCE the folder of the sources. Needs
numpy. tests/unit/test_train.c has more of what a step computes."""
import gc
import importlib.util
import io
import os
import resource
import sys
import tempfile
import unittest

import numpy as np

import einkorn
from einkorn.train import Callback, Trainer

DIGITS = os.path.join(os.environ["EINKORN_SOURCE"], "examples/digits/digits.onnx")
LINEAR = b"""graph "linear" ir 8 opset 17 {
  input x: f64[N, 3]
  const w: f64[3, 1] = [0.5, -1, 0.25]
  const b: f64[1] = [0.125]
  h: f64[N, 1] = MatMul(x, w) "product"
  y: f64[N, 1] = Add(h, b) "sum"
  output y
}
"""
NORMED = LINEAR.replace(b'  h: f64[N, 1] = MatMul(x, w)', b"""  const g: f64[3] = [1, 2, 3]
  const mean: f64[3] = [0, 0, 0]
  const var: f64[3] = [1, 1, 1]
  n: f64[N, 3] = BatchNormalization(x, g, g, mean, var) "norm"
  d: f64[N, 3] = Dropout(n) "drop"
  h: f64[N, 1] = MatMul(d, w)""")


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((rows, 3)), "target": rng.standard_normal((rows, 1))}


def digits():
    z = np.load(os.path.join(os.path.dirname(DIGITS), "all.npz"))
    return {"image": z["in_0"], "target": z["out_0"].argmax(1)}


class Plain:
    """The same steps in numpy: y = x w + b, mean of the squares of y - target, plain gradient descent."""

    def __init__(self):
        self.w, self.b = np.array([[0.5], [-1], [0.25]]), np.array([0.125])

    def loss(self, x, target):
        return ((x @ self.w + self.b - target) ** 2).mean()

    def step(self, x, target, lr):
        loss, d = self.loss(x, target), 2 * (x @ self.w + self.b - target) / len(x)
        self.w, self.b = self.w - lr * (x.T @ d), self.b - lr * d.sum(0)
        return loss


class Steps(unittest.TestCase):
    def same(self, trainer, plain):
        np.testing.assert_allclose(trainer.parameters["w"], plain.w, rtol=1e-12)
        np.testing.assert_allclose(trainer.parameters["b"], plain.b, rtol=1e-12)

    def test_step(self):
        plain, d = Plain(), data(4)
        with Trainer(LINEAR, loss="mse", optimizer="sgd", batch=d) as t:
            for i in range(5):
                self.assertAlmostEqual(t.step(d, 0.1 / (i + 1)), plain.step(**d, lr=0.1 / (i + 1)), places=12)
            self.same(t, plain)
            self.assertEqual(t.steps, 5)
            self.assertAlmostEqual(t.evaluate(d), plain.loss(**d), places=12)
            self.same(t, plain)

    def test_batch(self):
        """What a step is given can be told by shapes, or by the first step."""
        d, losses = data(4), []
        for batch in (d, {"x": ((4, 3), np.float64), "target": ([4, 1], "float64")}, None):
            with Trainer(LINEAR, loss="mse", batch=batch) as t:
                losses.append((t.step(d, 0.1), t.step(d, 0.1)))
        self.assertEqual(len(set(losses)), 1)

    def test_arrays(self):
        """Arrays of other strides and lists are taken, and those that are used where they lie are given back."""
        d = data(4)
        t = Trainer(LINEAR, loss="mse", batch=d)
        loss = t.evaluate(d)
        wide = np.zeros((4, 6))
        wide[:, ::2] = d["x"]
        self.assertEqual(t.evaluate({"x": wide[:, ::2], "target": d["target"].tolist()}), loss)
        before = [sys.getrefcount(a) for a in d.values()]
        for _ in range(10):
            t.step(d, 0.1)
            t.evaluate(d)
        self.assertEqual([sys.getrefcount(a) for a in d.values()], before)

    def test_parameters(self):
        d = data(4)
        t = Trainer(LINEAR, loss="mse", optimizer="momentum", batch=d, groups=["b:weight_decay=0.5"])
        self.assertEqual(list(t.parameters), ["w", "b"])
        self.assertEqual((len(t.statistics), "w" in t.parameters, "w.V" in t.parameters), (0, True, False))
        t.parameters["w"] = np.zeros((3, 1))
        t.parameters["b"] = [0]
        kept = t.parameters["w"]
        self.assertAlmostEqual(t.step(d, 0.1), (d["target"] ** 2).mean(), places=12)
        self.assertFalse(kept.any())  # a copy
        self.assertTrue(t.parameters["w"].any())
        for name, array, error in (("w", np.zeros((1, 3)), einkorn.ShapeError), ("v", 0, KeyError),
                                   ("w", np.zeros((3, 1), np.float32), einkorn.ShapeError)):
            with self.assertRaises(error):
                t.parameters[name] = array
        t = Trainer(LINEAR, loss="mse", freeze=["w"], batch=d)
        self.assertEqual(list(t.parameters), ["b"])

    def test_accumulate(self):
        d, plain = data(8), Plain()
        t = Trainer(LINEAR, loss="mse", optimizer="sgd", accumulate=2)
        for half in slice(0, 4), slice(4, 8):
            t.step({k: v[half] for k, v in d.items()}, 0.1)
        plain.step(**d, lr=0.1)
        self.same(t, plain)
        self.assertEqual(t.steps, 1)

    def test_evaluate_more(self):
        """More rows than a step has, the last of them fewer: the mean of the losses, and metrics of all."""
        d = data(11)
        t = Trainer(LINEAR, loss="mse", batch={k: v[:4] for k, v in d.items()})
        self.assertAlmostEqual(t.evaluate(d), Plain().loss(**d), places=12)
        t = Trainer(LINEAR, loss="mse", metrics=["r2"], batch={k: v[:4] for k, v in d.items()})
        loss, away = t.evaluate(d), d["target"] - d["target"].mean()
        self.assertAlmostEqual(t.metrics()["r2"], 1 - loss / (away**2).mean(), places=12)  # no quotient of two sums
        d = digits()
        t = Trainer(DIGITS, loss="cross_entropy", output="logits", metrics=["accuracy"],
                    batch={k: v[:5] for k, v in d.items()})
        t.evaluate(d)
        self.assertEqual(t.metrics(), {"accuracy": 1})
        wrong = dict(d, target=np.where(np.arange(32) < 8, (d["target"] + 1) % 10, d["target"]))
        t.evaluate(wrong)
        self.assertEqual(t.metrics(), {"accuracy": 0.75})
        t.step({k: v[:5] for k, v in wrong.items()}, 0.0)
        self.assertEqual(t.metrics(), {"accuracy": 0})  # of the step

    def test_no_number(self):
        d = data(4)
        t = Trainer(LINEAR, loss="mse", batch=d)
        d["x"][0, 0] = np.nan
        with self.assertRaisesRegex(einkorn.FailedError, "step 1: the loss is no number"):
            t.step(d, 0.1)
        self.same(t, Plain())


@unittest.skipUnless(importlib.util.find_spec("onnx"), "the package onnx is missing")
class Threads(unittest.TestCase):
    """With reproducible=True a training has the same bits with any number of threads."""
    SIZES = {"lstm": {"steps": 12, "batch": 16, "size": 64}, "transformer": {"layers": 2, "width": 96, "steps": 32},
             "unet": {"size": 16}, "resnet18": {"batch": 4}}

    def weights(self, path, batch, threads):
        t = Trainer(path, loss="cross_entropy", optimizer="adamw", batch=batch, threads=threads, reproducible=True)
        for _ in range(20):
            t.step(batch, lr=0.001)
        return {name: w.tobytes() for name, w in t.state_dict().items() if isinstance(w, np.ndarray)}

    def test_bits(self):
        sys.path.insert(0, os.path.join(os.environ["EINKORN_SOURCE"], "bench"))
        import train_models
        for name in train_models.NAMES:
            model, _, batch = train_models.build(name, **self.SIZES.get(name, {}))
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.onnx")
                with open(path, "wb") as file:
                    file.write(model.SerializeToString())
                one = self.weights(path, batch, 1)
                self.assertGreater(len(one), 4)
                self.assertEqual(one, self.weights(path, batch, 2))


class Fit(unittest.TestCase):
    def test_digits(self):
        """Learned again from random weights, and written. The loss is of the logits, not of their Softmax."""
        d = digits()
        t = Trainer(DIGITS, loss="cross_entropy", metrics=["accuracy"], init="he")
        t.step({k: v[:8] for k, v in d.items()}, 0.0)
        self.assertEqual(t.output, "logits")
        history = t.fit(d, 15, 8, lr=3e-3, validate={k: v[:13] for k, v in d.items()})
        self.assertEqual([e.step for e in history], list(range(5, 62, 4)))
        self.assertLess(history[-1].loss, history[0].loss / 4)
        self.assertGreater(history[-1].metrics["accuracy"], 0.9)
        self.assertEqual(history[-1].validation.metrics, {"accuracy": 1})
        with tempfile.TemporaryDirectory() as folder:
            t.save(os.path.join(folder, "out.onnx"))
            scores = einkorn.compile(os.path.join(folder, "out.onnx"))(d["image"])
        self.assertGreater((scores.argmax(1) == d["target"]).mean(), 0.9)

    def test_order(self):
        """Each epoch has each sample at most once, in an order that follows from seed and epoch."""
        def seen(seed, **more):
            rows, d = [], {"x": np.arange(30.0).reshape(10, 3), "target": np.zeros((10, 1))}
            t = Trainer(LINEAR, loss="mse", seed=seed, batch={k: v[:3] for k, v in d.items()})
            step = t.step
            t.step = lambda arrays, lr, *more: rows.append((arrays["x"][:, 0] / 3).tolist()) or step(arrays, lr)
            t.fit(d, 2, lr=0.0, **more)
            return sum(rows, [])
        once = seen(1)
        self.assertEqual(len(once), 18)
        self.assertTrue(len(set(once[:9])) == len(set(once[9:])) == 9)
        self.assertNotEqual(once[:9], once[9:])
        self.assertEqual(seen(1), once)
        self.assertNotEqual(seen(2), once)
        self.assertEqual(seen(1, first_epoch=1), once[9:])
        self.assertEqual(seen(1, shuffle=False), 2 * list(range(9)))

    def test_batches(self):
        d = data(12)
        parts = [{k: v[i:i + 4] for k, v in d.items()} for i in range(0, 12, 4)]
        a, b = Trainer(LINEAR, loss="mse"), Trainer(LINEAR, loss="mse")
        rates = []
        half = lambda step, steps: rates.append((step, steps)) or 0.5
        self.assertEqual([e.loss for e in a.fit(d, 2, 4, lr=0.1, schedule=half, shuffle=False)],
                         [e.loss for e in b.fit(parts, 2, lr=0.05)])
        self.assertEqual(rates, [(i, 6) for i in range(6)])
        self.assertEqual(b.fit(iter(parts), 1)[0].step, 9)
        for wrong, epochs, more, says in ((iter(parts), 2, {}, "only once"), ([], 1, {}, "no batch"),
                                          (iter(parts), 1, {"schedule": half}, "number of batches"),
                                          (d, 1, {"batch": 13}, "13 samples, of 12"),
                                          (dict(d, x=d["x"][1:]), 1, {}, "same number of samples")):
            with self.subTest(says), self.assertRaisesRegex(einkorn.UsageError, says):
                b.fit(wrong, epochs, **more)
        with self.assertRaisesRegex(einkorn.UsageError, "batch"):
            Trainer(LINEAR, loss="mse").fit(d, 1)

    def test_callbacks(self):
        told = []

        class Stop(Callback):
            def on_epoch(self, trainer, epoch):
                told.append(epoch)
                return epoch.epoch == 1

        class Count:
            def on_step(self, trainer, step):
                told.append((step.epoch, step.step, step.lr))
        t = Trainer(LINEAR, loss="mse")
        history = t.fit(data(8), 5, 4, lr=0.1, callbacks=[Stop(), Count()])
        self.assertEqual(told, [(0, 1, 0.1), (0, 2, 0.1), history[0], (1, 3, 0.1), (1, 4, 0.1), history[1]])

        class Now:
            def on_step(self, trainer, step):
                return True
        self.assertEqual(t.fit(data(8), 5, 4, callbacks=[Now()]), [])
        self.assertEqual(t.steps, 5)


    def test_schedules(self):
        """By name: the rates of each step, counted in updates; plateau sees the losses of validation."""
        class Rates:
            def __init__(self):
                self.all = []

            def on_step(self, trainer, step):
                self.all.append(step.lr)

        def rates(schedule, **more):
            r = Rates()
            Trainer(LINEAR, loss="mse", optimizer="sgd", **more).fit(data(8), 3, 2, lr=0.5, schedule=schedule,
                                                                     validate=data(3), callbacks=[r])
            return r.all
        np.testing.assert_allclose(rates("cosine"), [0.25 * (1 + np.cos(np.pi * i / 12)) for i in range(12)])
        np.testing.assert_allclose(rates("cosine", accumulate=2),
                                   [0.25 * (1 + np.cos(np.pi * (i // 2) / 6)) for i in range(12)])
        self.assertEqual(rates("plateau:patience=0,threshold=0.99"), 8 * [0.5] + 4 * [0.05])
        with self.assertRaisesRegex(einkorn.UsageError, "cosine"):
            rates("cosin")

    def test_average(self):
        """With ema, evaluate() uses the averages, and parameters are those of now."""
        d = data(4)
        t = Trainer(LINEAR, loss="mse", optimizer="sgd", ema=0.75, batch=d)
        t.step(d, 0.1)
        first = t.parameters["b"]
        t.step(d, 0.1)
        mean = 0.75 * first + 0.25 * t.parameters["b"]
        np.testing.assert_allclose(t.state_dict()["b.ema"], mean)
        p, loss = Plain(), t.evaluate(d)
        p.w, p.b = t.state_dict()["w.ema"], mean
        self.assertAlmostEqual(loss, p.loss(d["x"], d["target"]))

    def test_settled(self):
        """What no gradient reaches any more has moments of 0, not ever smaller ones."""
        for optimizer, places in (("momentum", "V"), ("adam", "M"), ("adamw", "M"), ("lion:beta2=0.9", "M")):
            batch = data(8)
            t = Trainer(LINEAR, loss="mse", optimizer=optimizer, batch=batch)
            t.step(batch, lr=1e-3)
            batch["x"][:, 0] = 0
            for _ in range(1000):
                t.step(batch, lr=1e-3)
            moments = t.state_dict()["w.%s" % places]
            self.assertEqual(moments[0], 0, optimizer)
            self.assertTrue((moments[1:] != 0).all(), optimizer)

    def test_standardize(self):
        """It is part of a step, of the evaluation and of what is saved."""
        d = data(8)
        mean, deviation = d["x"].mean(0), d["x"].std(0)
        inside = {"x": (d["x"] - mean) / deviation, "target": d["target"]}
        t = Trainer(LINEAR, loss="mse", batch=d, standardize={"x": (mean, deviation)}, metadata={"who": "a=b"})
        u = Trainer(LINEAR, loss="mse", batch=inside)
        for _ in range(3):
            self.assertAlmostEqual(t.step(d, 0.1), u.step(inside, 0.1), 12)
        self.assertEqual(set(t.state_dict()), set(u.state_dict()))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.onnx")
            t.save(path)
            v = Trainer(path, loss="mse", batch=d)
            self.assertAlmostEqual(v.evaluate(d), u.evaluate(inside), 12)
            self.assertEqual(set(v.parameters), {"w", "b"})
            with self.assertRaisesRegex(einkorn.UsageError, "standardizes its input x already"):
                Trainer(path, loss="mse", batch=d, standardize={"x": (0, 1)})
            with open(path, "rb") as f:
                self.assertRegex(f.read(), b"(?s)einkorn.standardized.*who\x12\x03a=b")
        for given, says in (({"y": (0, 1)}, "no input of that name"), ({"x": 3}, "is expected"),
                            ({"x": (mean[:2], 1)}, "2 numbers; one for each .* is expected: 1, 3"),
                            ({"x": (0, 0)}, "a deviation above 0")):
            with self.subTest(says), self.assertRaisesRegex(einkorn.EinkornError, says):
                Trainer(LINEAR, loss="mse", batch=d, standardize=given)

    def test_loss_scale(self):
        """f16: the first scale, and after how many steps it doubles."""
        d = {"x": data(4)["x"].astype("float32"), "target": data(4)["target"].astype("float32")}
        t = Trainer(LINEAR.replace(b"f64", b"f32"), loss="mse", batch=d, precision="f16", loss_scale=256,
                    loss_scale_interval=2)
        scales = []
        for _ in range(3):
            scales.append(float(t.state_dict()["train.loss_scale"]))
            t.step(d, 0.01)
        self.assertEqual(scales, [256, 256, 512])
        with self.assertRaisesRegex(einkorn.UsageError, "loss_scale is above 0"):
            Trainer(LINEAR, loss="mse", batch=data(4), loss_scale=0)

    def test_first_values(self):
        d = data(4)
        made = lambda **more: Trainer(LINEAR, loss="mse", batch=d, **more).parameters
        a, b = made(init="he", seed=1), made(init="he", seed=1)
        np.testing.assert_array_equal(a["w"], b["w"])
        self.assertTrue((a["w"] != made(init="he", seed=2)["w"]).all())
        self.assertEqual(a["b"][0], 0)
        self.assertEqual(made(init="keep")["b"][0], 0.125)
        with self.assertRaisesRegex(einkorn.UsageError, "init uniform: he, xavier or keep"):
            made(init="uniform")


class States(unittest.TestCase):
    def test_resume(self):
        """A training that goes on from a file gives the same bits, statistics and masks included."""
        d = data(16)
        made = lambda: Trainer(NORMED, loss="mse", seed=3, batch={k: v[:4] for k, v in d.items()})
        whole, first, second, file = made(), made(), made(), io.BytesIO()
        whole.fit(d, 4, lr=0.01)
        first.fit(d, 2, lr=0.01)
        np.savez(file, **first.state_dict())
        file.seek(0)
        second.load_state_dict(np.load(file))
        second.fit(d, 4, lr=0.01, first_epoch=2)
        self.assertEqual(list(second.statistics), ["mean", "var"])
        self.assertEqual(second.steps, whole.steps)
        for name, array in whole.state_dict().items():
            np.testing.assert_array_equal(second.state_dict()[name], array)
        self.assertFalse(np.array_equal(first.parameters["w"], whole.parameters["w"]))

    def test_wrong(self):
        t = Trainer(LINEAR, loss="mse", batch=data(4))
        good = t.state_dict()
        self.assertEqual(set(good), {"w", "b", "w.M", "w.V", "b.M", "b.V", "train.step"})
        for change, says in (({"w": None}, "'w' is missing"), ({"train.step": None}, "'train.step' is missing"),
                             ({"v": 1}, "'v' is no tensor")):
            states = {k: v for k, v in {**good, **change}.items() if v is not None}
            with self.assertRaisesRegex(einkorn.UsageError, says):
                t.load_state_dict(states)


class Use(unittest.TestCase):
    def test_narrow_labels(self):
        """Bytes and the like are labels as int64 are; one text is a list of one."""
        x = data(4)["x"]
        model = LINEAR.replace(b"[3, 1] = [0.5, -1, 0.25]", b"[3, 2] = [0.5, -1, 0.25, 1, 2, 0]").replace(
            b"[N, 1]", b"[N, 2]")
        losses = []
        for kind in ("int64", "uint8", "int16", "bool"):
            t = Trainer(model, loss="cross_entropy", metrics="accuracy", freeze="b")
            losses.append(t.step({"x": x, "target": np.array([0, 1, 1, 0], kind)}, 0.1))
            self.assertIn("accuracy", t.metrics())
        self.assertEqual(len(set(losses)), 1)
        with self.assertRaisesRegex(einkorn.ShapeError, "labels, integers .* or probabilities, floats"):
            Trainer(model, loss="cross_entropy").step({"x": x, "target": np.zeros(4)}, 0.1)
        with self.assertRaisesRegex(einkorn.UsageError, "numpy.unique"):
            Trainer(model, loss="cross_entropy").step({"x": x, "target": np.array(["a", "b"] * 2)}, 0.1)

    def test_mistakes(self):
        d = data(4)
        t = Trainer(LINEAR, loss="mse", batch=d)
        for call, error, says in (
                (lambda: Trainer(LINEAR, loss="mse", batch={"y": d["x"], "target": d["target"]}), einkorn.UsageError,
                 "no array 'x', which is an input of the model; the batch has y, target"),
                (lambda: Trainer(LINEAR, loss="mse", batch={**d, "x": d["x"].astype("f")}), einkorn.ShapeError,
                 "'x' is of f32, the model's input of f64"),
                (lambda: t.step(data(3), 0.1), einkorn.ShapeError, r"'x' is \[3, 3\]; the step was .* for \[4, 3\]"),
                (lambda: t.step(d, float("nan")), einkorn.UsageError, "learning rate is nan"),
                (lambda: t.step((d["x"], d["target"]), 0.1), einkorn.UsageError, "a dict of arrays .* not a tuple"),
                (lambda: t.fit([(d["x"], d["target"])], 1), einkorn.UsageError, "a dict of arrays .* not a tuple"),
                (lambda: t.fit(d, 1, callbacks=[print]), einkorn.UsageError, "neither on_step nor on_epoch")):
            with self.subTest(says), self.assertRaisesRegex(error, says):
                call()
        d["x"][2, 1] = np.nan
        with self.assertRaisesRegex(einkorn.FailedError, "the batch's x is not finite in its sample 2"):
            t.step(d, 0.1)

    def test_callback_raises(self):
        """What a callback raises comes through, and training can go on."""
        class Raises(Callback):
            def on_step(self, trainer, step):
                if step.step == 2:
                    raise KeyError("mine")
        t = Trainer(LINEAR, loss="mse")
        with self.assertRaisesRegex(KeyError, "mine"):
            t.fit(data(8), 2, 2, callbacks=Raises())
        self.assertEqual(t.steps, 2)
        t.fit(data(8), 1)
        self.assertEqual(t.steps, 6)

    def test_refused(self):
        d = data(4)
        for given, error, says in (
                ({"loss": "mes"}, einkorn.UsageError, "did you mean einkorn.loss::mse"),
                ({"loss": "mse", "optimizer": "sgd:momentum=1"}, einkorn.UsageError, "no attribute 'momentum'"),
                ({"loss": "mse", "freeze": ["*"]}, einkorn.UsageError, "nothing to train"),
                ({"loss": "mse", "batch": {"x": d["x"]}}, einkorn.UsageError, "'target'"),
                ({"loss": "mse", "batch": {"x": 3}}, einkorn.UsageError, r"\(shape, dtype\)"),
                ({"loss": "mse", "batch": {"x": ((4, 3), "complex64")}}, einkorn.UsageError, "complex64"),
                ({"loss": "mse", "accumulate": 0}, einkorn.UsageError, "accumulate"),
                ({"loss": "mse", "thread": 1}, TypeError, "thread")):
            with self.subTest(says), self.assertRaisesRegex(error, says):
                Trainer(LINEAR, **{"batch": d, **given})

    def test_calls(self):
        d = data(4)
        t = Trainer(LINEAR, loss="mse")
        with self.assertRaisesRegex(einkorn.UsageError, "first batch"):
            t.parameters
        t.step(d, 0.1)
        for arrays, error, says in (({"x": d["x"]}, TypeError, "'target' is missing"),
                                    (dict(d, z=0), ValueError, "'z'.*none of that name"),
                                    (dict(d, x=d["x"].astype(np.float32)), einkorn.ShapeError, "astype"),
                                    (data(3), einkorn.ShapeError, "x")):
            with self.subTest(says), self.assertRaisesRegex(error, says):
                t.step(arrays, 0.1)
        with self.assertRaisesRegex(einkorn.UsageError, "NAME.onnx"):
            t.save("weights.bin")
        self.assertGreater(t.report["kernels"], 0)
        t.close()
        t.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            t.step(d, 0.1)

    def test_memory(self):
        """Compile, step, close, again and again: memory stays."""
        d = data(4)

        def cycle(n):
            for i in range(n):
                t = Trainer(LINEAR, loss="mse", batch=d, threads=1)
                t.step(d, 0.1)
                t.state_dict()
                if i % 2:
                    t.close()
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * resource.getpagesize()
        cycle(10)
        before = cycle(20)
        self.assertLess(cycle(40), before + (4 << 20))


if __name__ == "__main__":
    unittest.main()
