"""Training in Python: the digit classifier learns again, from random weights, by a step that is compiled as a whole.

    python train.py [OUT.onnx]

Needs the packages einkorn and numpy.
"""
import os
import sys

import einkorn
import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits")
EPOCHS, BATCH = 20, 32


def read_idx(name):
    """An IDX file of bytes: its rank is in the fourth byte; the sizes and the elements follow."""
    with open(os.path.join(HERE, name + ".idx"), "rb") as f:
        data = f.read()
    rank = data[3]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(np.frombuffer(data, ">u4", rank, 4))


def read_set(name):
    return {"image": read_idx(name + "-images")[:, None].astype(np.float32),
            "target": read_idx(name + "-labels").astype(np.int64)}


class Report(einkorn.train.Callback):
    def on_epoch(self, trainer, epoch):
        print("epoch %d: loss %.4f, accuracy %.3f; held out: %.3f" % (
            epoch.epoch + 1, epoch.loss, epoch.metrics["accuracy"], epoch.validation.metrics["accuracy"]))


def main(words):
    train, test = read_set("train"), read_set("test")
    trainer = einkorn.train.Trainer(os.path.join(HERE, "digits.onnx"), loss="cross_entropy",
                                    metrics=["accuracy"], init="he")
    trainer.fit(train, EPOCHS, BATCH, lr=4e-3, schedule="cosine", validate=test, callbacks=[Report()])
    if words:
        trainer.save(words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
