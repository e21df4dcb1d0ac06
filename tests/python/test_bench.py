"""The models of the benchmarks of training (bench/train_models.py, bench/train_data.py): the compiler takes each. Run
by tests/package.sh, with EINKORN_SOURCE the folder of the sources. Needs numpy and onnx."""
import os
import sys
import tempfile
import unittest

import einkorn

sys.path.insert(0, os.path.join(os.environ["EINKORN_SOURCE"], "bench"))
import train_data
import train_models


class Steps(unittest.TestCase):
    """Each has inputs as its batch."""


class Data(unittest.TestCase):
    """Each reads samples x."""


def takes_batch(name):
    def test(self):
        model, _, batch = train_models.build(name)
        inputs = einkorn.compile(model.SerializeToString(), optimize=0).inputs
        self.assertEqual({i.name for i in inputs}, set(batch) - {"target"})

    return test


def takes_samples(write):
    def test(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            write(path)
            self.assertEqual([i.name for i in einkorn.compile(path, optimize=0).inputs], ["x"])

    return test


DATA = {"digits": train_data.digits_model, "lenet": train_data.lenet_model,
        "mlp": lambda path: train_data.mlp_model(path, 4, (32,), 3),
        "text": lambda path: train_data.text_model(path, 1, 32, 8)}
for name in train_models.NAMES:
    setattr(Steps, "test_" + name, takes_batch(name))
for name, write in DATA.items():
    setattr(Data, "test_" + name, takes_samples(write))

if __name__ == "__main__":
    unittest.main()
