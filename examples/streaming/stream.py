"""Streaming: a network that keeps a state from call to call, without copying it.

    python stream.py

The network of rows.onnx, which train.py trains, reads a picture of a digit row by row, as a line camera would send it,
and says after each row which digit it may be. Its inputs are a row and the state, its outputs scores and the next
state. The pictures are those of examples/digits. Needs the packages einkorn and numpy.
"""
import glob
import os
import time

import einkorn
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


class Stream:
    """One stream of rows. A model may serve any number of them: each has arrays of its own.

    An output may not lie in the memory of an input. So there are two states, and two bound calls that take turns: each
    reads the state that the other one wrote. Nothing is copied or allocated in a step.
    """

    def __init__(self, model):
        self.row = np.zeros((1, 8), np.float32)
        self.scores = np.zeros((1, 10), np.float32)
        self.states = np.zeros((2, 1, 32), np.float32)
        self.steps = [model.bind({"row": self.row, "state": self.states[old]},
                                 out={"scores": self.scores, "next_state": self.states[1 - old]}) for old in (0, 1)]
        self.turn = 0

    def __call__(self, row):
        """The scores after one more row: an array that the next call overwrites."""
        self.row[0] = row
        self.steps[self.turn]()
        self.turn = 1 - self.turn
        return self.scores[0]

    @property
    def state(self):
        """What the stream knows so far. Assigning it goes on from there: saved earlier, or of another stream."""
        return self.states[self.turn].copy()

    @state.setter
    def state(self, value):
        self.states[self.turn] = value


def read_picture(path):
    """Ink from 0 to 16, of a plain PGM file as these are: a header of three lines, then the rows."""
    return np.loadtxt(path, np.float32, skiprows=3)


def main():
    paths = sorted(glob.glob(os.path.join(HERE, os.pardir, "digits", "digit_*.pgm")))
    model = einkorn.compile(os.path.join(HERE, "rows.onnx"), dims={"N": 1})
    stream = Stream(model)
    for path in paths:
        stream.state = 0
        guesses = []
        for row in read_picture(path):
            scores = stream(row)
            guesses.append("%d %3.0f %%" % (scores.argmax(), 100 * scores.max()))
        print("%s:  %s" % (os.path.basename(path), "   ".join(guesses)))
    row, start = np.zeros(8, np.float32), time.perf_counter()
    for _ in range(10000):
        stream(row)
    print("%.1f us a row" % ((time.perf_counter() - start) / 10000 * 1e6))


if __name__ == "__main__":
    main()
