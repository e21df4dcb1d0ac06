"""Speech activity: when does somebody speak in a sound file?

    python speech.py SOUND.wav       16 bits a sample, 16000 samples a second (or 32000, 48000), any number of channels
    python speech.py                 on a sound that make_sound.py makes

The model is silero VAD, as the PyPI package silero-vad ships it: 32 ms of sound and a state go in, the probability of
speech and the next state come out. The sound may come from a microphone as well: `Detector` takes piece after piece.

    pip install --no-deps -r requirements.txt      (and Einkorn)
"""
import importlib.util
import os
import sys
import tempfile
import time
import wave

import einkorn
import numpy as np

RATE, PIECE, BEFORE = 16000, 512, 64  # samples: a second, new ones in each step, old ones that the model sees again


def model_path():
    """Where the package keeps the model. It is looked up without importing the package, which would import PyTorch."""
    spec = importlib.util.find_spec("silero_vad")
    if spec is None:
        raise SystemExit("the package with the model is missing: pip install --no-deps silero-vad==6.2.3")
    return os.path.join(os.path.dirname(spec.origin), "data", "silero_vad.onnx")


class Detector:
    """Takes 512 samples of 16000 a second at a time, and gives the probability that they are speech.

    Two states take turns, so that none is copied: a step reads the one that the last step wrote, and writes the other.
    """

    def __init__(self):
        self.model = einkorn.compile(model_path())
        self.sound = np.zeros((1, BEFORE + PIECE), np.float32)
        self.probability = np.zeros((1, 1), np.float32)
        self.states = np.zeros((2, 2, 1, 128), np.float32)
        fixed = {"input": self.sound, "sr": np.array(RATE, np.int64)}
        self.steps = [self.model.bind({**fixed, "state": self.states[old]},
                                      out={"output": self.probability, "stateN": self.states[1 - old]})
                      for old in (0, 1)]
        self.turn = 0

    def __call__(self, piece):
        self.sound[0, :BEFORE] = self.sound[0, -BEFORE:]
        self.sound[0, BEFORE:] = piece
        self.steps[self.turn]()
        self.turn = 1 - self.turn
        return float(self.probability[0, 0])

    def reset(self):
        """Forgets what was heard: for another sound."""
        self.sound[:] = 0
        self.states[:] = 0


def read_wav(path):
    """The sound as one channel of floats from -1 to 1, 16000 a second."""
    with wave.open(path) as f:
        channels, width, rate, count = f.getparams()[:4]
        if width != 2 or rate % RATE:
            raise SystemExit("%s has %d bits a sample and %d samples a second; 16 bits and 16000, 32000 or 48000 are "
                             "expected. sox IN.wav -b 16 -r 16000 OUT.wav converts it" % (path, 8 * width, rate))
        data = np.frombuffer(f.readframes(count), "<i2").reshape(-1, channels)
    sound = data.mean(1, dtype=np.float32) / 32768
    every = rate // RATE
    return sound[:len(sound) // every * every].reshape(-1, every).mean(1)


def probabilities(detector, sound):
    """Of each piece of a sound; what is missing in the last one is silence."""
    detector.reset()
    pieces = np.pad(sound, (0, -len(sound) % PIECE)).reshape(-1, PIECE)
    return np.array([detector(piece) for piece in pieces])


def segments(found, begin=0.5, end=0.35, silence=0.1, shortest=0.25):
    """(from, to) in seconds of each stretch of speech. It begins where the probability reaches `begin`, and ends where
    it then stays below `end` for `silence` seconds; what is shorter than `shortest` is left out."""
    wait = int(silence * RATE / PIECE)
    stretches, start, last = [], None, 0
    for i, probability in enumerate([*found, *[0.0] * (wait + 1)]):
        if start is None and probability >= begin:
            start = i
        if start is not None and probability >= end:
            last = i
        if start is not None and i - last > wait:
            stretches.append((start * PIECE / RATE, (last + 1) * PIECE / RATE))
            start = None
    return [(a, b) for a, b in stretches if b - a >= shortest]


def main(words):
    if words:
        sound = read_wav(words[0])
    else:
        import make_sound
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sound.wav")
            make_sound.write(path)
            sound = read_wav(path)
    detector = Detector()
    start = time.perf_counter()
    found = probabilities(detector, sound)
    seconds = time.perf_counter() - start
    for a, b in segments(found):
        print("speech from %6.2f to %6.2f s" % (a, b))
    print("%.1f s of sound in %.0f ms: %.0f us for each %d ms" % (len(sound) / RATE, seconds * 1e3,
                                                                  seconds * 1e6 / max(len(found), 1),
                                                                  1000 * PIECE // RATE))


if __name__ == "__main__":
    main(sys.argv[1:])
