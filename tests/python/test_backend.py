"""einkorn.backend, beyond what the backend tests of onnx ask of it (tests/backend.sh). Run by tests/package.sh. Needs
the package onnx."""
import contextlib
import importlib.util
import io
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import einkorn
from einkorn import backend, onnxruntime


def onnx_model(inputs, outputs, nodes, opset=21, **domains):
    """A ModelProto; inputs, outputs: {name: TypeProto}; nodes: (operator, inputs, outputs, attributes)."""
    return helper.make_model(
        helper.make_graph([helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], "g",
                          [helper.make_value_info(n, t) for n, t in inputs.items()],
                          [helper.make_value_info(n, t) for n, t in outputs.items()]),
        opset_imports=[helper.make_opsetid("", opset)] + [helper.make_opsetid(k.replace("_", "."), v)
                                                          for k, v in domains.items()], ir_version=10)


def f32(*dims):
    return helper.make_tensor_type_proto(TensorProto.FLOAT, dims)


def i64(*dims):
    return helper.make_tensor_type_proto(TensorProto.INT64, dims)


def u8(*dims):
    return helper.make_tensor_type_proto(TensorProto.UINT8, dims)


def text(*dims):
    return helper.make_tensor_type_proto(TensorProto.STRING, dims)


class Backend(unittest.TestCase):

    def test_nodes(self):
        x = np.arange(-3, 3, dtype=np.float32)
        y, = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        split = helper.make_node("Split", ["x"], ["a", "b"], axis=0)
        for inputs in ([x], {"x": x}):
            out = backend.run_node(split, inputs, opset_version=11)
            np.testing.assert_array_equal(out["b"], x[3:])
        rows, = backend.run_node(helper.make_node("SplitToSequence", ["x"], ["rows"], keepdims=0), [x])
        self.assertEqual([r.shape for r in rows], [()] * 6)
        y, = backend.run_node(helper.make_node("ConcatFromSequence", ["rows"], ["y"], axis=0, new_axis=1), [rows])
        np.testing.assert_array_equal(y, x)
        with self.assertRaises(einkorn.UsageError):
            backend.run_node(helper.make_node("SequenceLength", ["s"], ["n"]), [[]])

    def test_devices(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("CUDA:1"))
        model = onnx_model({"x": f32("N", 2)}, {"y": f32("N", 2)}, [("Relu", ["x"], ["y"])])
        self.assertTrue(backend.is_compatible(model))
        with self.assertRaisesRegex(einkorn.UnsupportedError, "CUDA"):
            backend.prepare(model, "CUDA")
        unknown = onnx_model({"x": f32("N", 2)}, {"y": f32("N", 2)},
                             [("Unknown", ["x"], ["y"], {"domain": "mine"})], mine=1)
        self.assertFalse(backend.is_compatible(unknown))
        rep = backend.prepare(model, threads=1)
        np.testing.assert_array_equal(rep.run(np.ones((3, 2), np.float32)).y, np.ones((3, 2)))
        for wrong in ([], [1, 2], {"z": 1}):
            with self.assertRaises(einkorn.UsageError):
                rep.run(wrong)
        with self.assertRaisesRegex(einkorn.ShapeError, "x"):
            rep.run([np.ones((3, 3), np.float32)])

    def test_values_that_decide(self):
        """Axes that are an input: another rank comes out for others."""
        model = onnx_model({"x": f32(2, 3, 4), "axes": i64("n")}, {"y": f32(None)},
                           [("ReduceSum", ["x", "axes"], ["y"], {"keepdims": 0})])
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model.graph.output[0].type.tensor_type.shape.dim.add()
        rep = backend.prepare(model)
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for axes in ([0, 2], [1, 2], [0, 1], [0, 2]):
            np.testing.assert_array_equal(rep.run([x, np.array(axes)])[0], x.sum(tuple(axes)))
            self.assertEqual(rep.constants, ["axes"])
        with self.assertRaises(einkorn.EinkornError):
            rep.run([x, np.array([7, 1])])

    def test_sequences(self):
        words_of = helper.make_sequence_type_proto(text(None))
        model = onnx_model({"s": words_of, "i": i64()},
                           {"t": text(None), "s2": words_of},
                           [("SequenceAt", ["s", "i"], ["t"]), ("SequenceInsert", ["s", "t"], ["s2"])])
        rep = backend.prepare(model)
        words = [np.array(["a", "b\u00e4"], object), np.array(["xyz", ""], object)]
        t, s2 = rep.run([words, np.array(1)])
        self.assertEqual(t.tolist(), words[1].tolist())
        self.assertEqual([x.tolist() for x in s2], [x.tolist() for x in words + words[1:]])
        self.assertEqual([x.tolist() for x in rep.run([words[:1], np.array(0)])[1]], [words[0].tolist()] * 2)
        with self.assertRaisesRegex(einkorn.ShapeError, "a list of arrays"):
            rep.run([3, np.array(0)])
        with self.assertRaisesRegex(einkorn.UnsupportedError, "a sequence of strings needs a length and positions"):
            einkorn.compile(model, dims={"s": 2})
        model = onnx_model({"s": words_of, "t": text(None)}, {"s2": words_of}, [("SequenceInsert", ["s", "t"], ["s2"])])
        session = onnxruntime.InferenceSession(model.SerializeToString())
        s2, = session.run(None, {"s": words, "t": words[0]})
        self.assertEqual([x.tolist() for x in s2], [x.tolist() for x in words + words[:1]])

    def test_optionals(self):
        x = np.arange(3, dtype=np.float32)
        for kind, values in ((f32(None), (x, None)),
                             (helper.make_sequence_type_proto(f32(None)), ([x, x], [], None))):
            model = onnx_model({"o": helper.make_optional_type_proto(kind)},
                               {"y": helper.make_tensor_type_proto(TensorProto.BOOL, [])},
                               [("OptionalHasElement", ["o"], ["y"])])
            rep = backend.prepare(model)
            for value in values:
                self.assertEqual(bool(rep.run([value])[0]), value is not None)
        self.assertEqual(bool(rep.run({})[0]), False)

    def test_maps(self):
        kind = helper.make_map_type_proto(TensorProto.STRING, f32())
        model = onnx_model({"m": kind}, {"y": f32(1, 3)},
                           [("DictVectorizer", ["m"], ["y"], {"domain": "ai.onnx.ml", "string_vocabulary":
                                                             ["a", "b", "c"]})], ai_onnx_ml=1)
        model.graph.input[0].type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
        y, = backend.run_model(model, [{"c": np.float32(2), "a": np.float32(1)}])
        np.testing.assert_array_equal(np.ravel(y), [1, 0, 2])
        kind = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, f32()))
        model = onnx_model({"x": f32("N", 2)}, {"y": kind},
                           [("ZipMap", ["x"], ["y"], {"domain": "ai.onnx.ml", "classlabels_int64s": [5, 7]})],
                           ai_onnx_ml=1)
        y, = backend.run_model(model, [np.array([[0.5, 0.25], [1, 2]], np.float32)])
        self.assertEqual(y, [{5: 0.5, 7: 0.25}, {5: 1.0, 7: 2.0}])

    def test_images(self):
        model = onnx_model({"head": u8("n"), "tail": u8("m")}, {"y": i64("h", "w", "c")},
                           [("Concat", ["head", "tail"], ["all"], {"axis": 0}),
                            ("ImageDecoder", ["all"], ["pixels"], {"pixel_format": "BGR"}),
                            ("Cast", ["pixels"], ["y"], {"to": 7})])
        rep = backend.prepare(model)
        if importlib.util.find_spec("PIL") is None:
            with self.assertRaisesRegex(einkorn.UnsupportedError, "pip install pillow"):
                rep.run([np.zeros(3, np.uint8)] * 2)
            return
        import PIL.Image
        pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        file = io.BytesIO()
        PIL.Image.fromarray(pixels).save(file, "png")
        data = np.frombuffer(file.getvalue(), np.uint8)
        np.testing.assert_array_equal(rep.run([data[:20], data[20:]])[0], pixels[:, :, ::-1])
        model.graph.initializer.extend(numpy_helper.from_array(x, n) for n, x in (("head", data[:9]),
                                                                                  ("tail", data[9:])))
        np.testing.assert_array_equal(backend.run_model(model, [])[0], pixels[:, :, ::-1])
        with self.assertRaisesRegex(einkorn.ModelError, "ImageDecoder"):
            rep.run([data[:20], data[:20]])

    def test_gradient(self):
        rng = np.random.default_rng(0)
        a, b, w = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (4, 5), (5,)))
        types = {"a": f32(3, 4), "b": f32(4, 5), "w": f32(5)}
        nodes = [("MatMul", ["a", "b"], ["p"]), ("Exp", ["p"], ["e"]), ("Mul", ["e", "w"], ["y"])]

        def model(inputs, **attributes):
            return onnx_model(types, {"da": f32(3, 4), "db": f32(4, 5)},
                              nodes + [("Gradient", inputs, ["da", "db"],
                                        {"domain": "ai.onnx.preview.training", **attributes})],
                              ai_onnx_preview_training=1)
        dp = np.exp(a @ b) * w
        da, db = backend.run_model(model(["a", "b", "w"], xs=["a", "b"], zs=["w"], y="y"), [a, b, w])
        np.testing.assert_allclose(da, dp @ b.T, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, a.T @ dp, rtol=1e-4, atol=1e-5)
        # of a gradient; by a constant; by itself; by what it does not depend on
        named = {"domain": "ai.onnx.preview.training"}
        more = onnx_model({"x": f32("N", 4), "z": f32(2)}, {n: f32(None) for n in ("dx", "dk", "ddx", "one", "zero")},
                          [("Mul", ["x", "x"], ["q"]), ("Mul", ["q", "k"], ["y"]),
                           ("Gradient", ["x", "k"], ["dx", "dk"], {"xs": ["x", "k"], "y": "y", **named}),
                           ("Gradient", ["x"], ["ddx"], {"xs": ["x"], "y": "dx", **named}),
                           ("Gradient", ["q"], ["one"], {"xs": ["q"], "y": "q", **named}),
                           ("Gradient", ["z"], ["zero"], {"xs": ["z"], "y": "y", **named})],
                          ai_onnx_preview_training=1)
        for output in more.graph.output:
            output.type.tensor_type.ClearField("shape")
        k = np.array([1, 2, 3, 4], np.float32)
        more.graph.initializer.append(numpy_helper.from_array(k, "k"))
        module = einkorn.compile(more)
        found = module.run({"x": a, "z": np.ones(2, np.float32)})
        for name, value in (("dx", 2 * a * k), ("dk", (a * a).sum(0)), ("ddx", np.tile(2 * k, (3, 1))),
                            ("one", np.ones((3, 4))), ("zero", np.zeros(2))):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
        # in a function whose names are those of other values of the model; y is no output
        call = model(["a", "b", "w"], xs=["a", "b"], zs=["w"], y="y")
        call.functions.append(helper.make_function("mine", "Slope", ["b", "a", "w"], ["db", "da"], call.graph.node,
                                                   call.opset_import))
        del call.graph.node[:]
        call.graph.node.extend([helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Neg", ["y"], ["e"]),
                                helper.make_node("Slope", ["b", "e", "w"], ["db", "da"], domain="mine")])
        call.opset_import.append(helper.make_opsetid("mine", 1))
        found = backend.run_model(call, [a, b, w])
        np.testing.assert_allclose(found.da, da, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.db, db, rtol=1e-5, atol=1e-5)
        for wrong, words in ((model(["a", "b"], xs=["a", "b"], y="q"), "'q'"),
                             (model(["a", "p"], xs=["a", "b"], y="y"), "'p'"),
                             (model(["a"], xs=["a"], y="y"), "2 outputs")):
            with self.assertRaisesRegex(einkorn.EinkornError, words):
                backend.run_model(wrong, [a, b, w])

    def test_damaged(self):
        """What is no model, or has names that are no UTF-8, gives an error of ours, or a module."""
        kind = helper.make_sequence_type_proto(f32("N"))
        good = onnx_model({"in_": f32("N_", 2)}, {"out": f32("N_", 2), "all": kind},
                          [("Relu", ["in_"], ["out"]), ("SequenceConstruct", ["out", "in_"], ["all"])])
        good = good.SerializeToString()
        module = einkorn.compile(good.replace(b"in_", b"\xffn_").replace(b"N_", b"\xc3_"))
        self.assertEqual(module.inputs[0].name, "\ufffdn_")
        np.testing.assert_array_equal(module(-np.ones((3, 2), np.float32))[0], np.zeros((3, 2)))
        self.assertTrue(module.kernels({"\ufffdn_": np.ones((3, 2), np.float32)}))
        compiled, rng = 0, np.random.default_rng(0)
        for _ in range(400):
            bad = bytearray(good)
            for _ in range(rng.integers(1, 4)):
                bad[rng.integers(len(bad))] = rng.integers(256)
            with contextlib.suppress(einkorn.EinkornError):
                einkorn.compile(bytes(bad), optimize=0, compile_memory="256M")
                compiled += 1
        self.assertLess(compiled, 300)


if __name__ == "__main__":
    unittest.main()
