"""Makes a sound in which something like a voice speaks twice, between silence, a tone and noise.

    python make_sound.py SOUND.wav

A voice is a train of pulses, at a pitch that glides, through resonators at the formants of a vowel; a syllable of a
quarter of a second each. To a detector of speech that is speech; to people it is somebody who says a, i, o.
"""
import sys
import wave

import numpy as np

RATE = 16000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410))  # formants in Hz of a, i, o
SPOKEN = ((1.0, 2.5, 120), (6.0, 7.75, 210))  # from, to (seconds), pitch (Hz)


def resonate(x, frequency, width):
    """Through a resonator: y[t] = x[t] + a y[t-1] + b y[t-2]."""
    radius = np.exp(-np.pi * width / RATE)
    a, b = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -radius * radius
    out, before, earlier = np.empty(len(x)), 0.0, 0.0
    for t, value in enumerate(x):
        before, earlier = value + a * before + b * earlier, before
        out[t] = before
    return out


def voice(seconds, pitch):
    count, syllable = int(seconds * RATE), RATE // 4
    t = np.arange(count) / RATE
    glide = pitch * (1 + 0.15 * np.sin(2 * np.pi * 0.8 * t) + 0.02 * np.sin(2 * np.pi * 5 * t))
    sound = np.diff(np.floor(np.cumsum(glide) / RATE), prepend=0)
    for i, start in enumerate(range(0, count, syllable)):
        part = sound[start:start + syllable]
        for frequency, width in zip(VOWELS[i % len(VOWELS)], (80, 90, 120)):
            part = resonate(part, frequency, width)
        sound[start:start + syllable] = part * np.sqrt(np.sin(np.pi * np.arange(len(part)) / len(part)))
    return 0.3 * sound / abs(sound).max()


def make():
    """Nine seconds; from 3.5 to 4 s a tone, from 4.5 to 5 s noise."""
    random = np.random.default_rng(0)
    sound = 0.001 * random.standard_normal(9 * RATE)
    for start, end, pitch in SPOKEN:
        sound[int(start * RATE):int(end * RATE)] += voice(end - start, pitch)
    sound[int(3.5 * RATE):4 * RATE] += 0.3 * np.sin(2 * np.pi * 440 * np.arange(RATE // 2) / RATE)
    sound[int(4.5 * RATE):5 * RATE] += 0.1 * random.standard_normal(RATE // 2)
    return sound


def write(path, rate=RATE, channels=1):
    """As a WAV file; at a multiple of RATE each sample is repeated, and each channel is the same."""
    samples = np.repeat(np.round(np.clip(make(), -1, 1) * 32767).astype("<i2"), rate // RATE * channels)
    with wave.open(path, "wb") as f:
        f.setnchannels(channels)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(samples.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    write(sys.argv[1])
