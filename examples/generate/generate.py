"""Text generation: a decoder whose caches of keys and values stay inside, token after token.

    python generate.py                                          decoder.onnx, one likely token after the other
    python generate.py MODEL.onnx --prompt "Once" --tokens 64 --temperature 0.8 --top-k 40 --top-p 0.95 --seed 7
    python generate.py MODEL.onnx --random 128 --tokens 128     a prompt of 128 tokens that mean nothing: for measuring
    python generate.py MODEL.onnx --precision bf16              products in bf16

MODEL is a decoder as Optimum or onnxruntime's model builder write it: inputs input_ids, attention_mask, in some
position_ids, and past_key_values.N.key and .value; outputs logits, and present.N.key and .value. What is present in one
call is the past of the next one. Tied together they are states: nobody hands them over, and a step writes its own rows
of them and copies nothing. One compiled model reads the prompt, many tokens at once, and then makes one token at a
time. Tokens are bytes here, where there are no more of them than of these; else numbers are printed.

Needs the packages einkorn and numpy. generate.c is the same in C, and gives the same tokens.
"""
import argparse
import os
import time

import einkorn
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


class Decoder:
    """A decoder with its caches. One text at a time."""

    def __init__(self, path, room=1024, **options):
        """room: tokens that a text may have, the prompt included."""
        self.room = room
        self.model = einkorn.compile(path, states={"present.*": "past_key_values.*"},
                                     dims={"batch_size": 1, "past_sequence_length": (0, None, room)}, **options)
        self.takes = [x.name for x in self.model.inputs]
        self.vocabulary = self.model.outputs[0].shape[2]
        self.length = 0

    def reset(self):
        """Another text begins."""
        self.model.reset()
        self.length = 0

    def __call__(self, tokens):
        """The scores of what comes behind these tokens, which go on where the last ones ended."""
        start, self.length = self.length, self.length + len(tokens)
        if self.length > self.room:
            raise ValueError("the text has %d tokens, there is room for %d" % (self.length, self.room))
        given = {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, self.length), np.int64)}
        if "position_ids" in self.takes:
            given["position_ids"] = np.arange(start, self.length)[None]
        return self.model.run(given)["logits"][0, -1]


class Random:
    """Numbers by SplitMix64: the same in each language."""

    def __init__(self, seed):
        self.state = seed

    def integer(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    def fraction(self):
        return (self.integer() >> 11) / 2**53


def sample(scores, random, temperature=0.0, top_k=0, top_p=1.0):
    """One token. temperature 0: the likeliest. top_k: of so many likeliest, 0: of all. top_p: of the likeliest that
    have this probability together."""
    if temperature <= 0:
        return int(scores.argmax())
    order = np.argsort(-scores, kind="stable")[:top_k or None]
    weights = np.exp((scores[order].astype(np.float64) - scores[order[0]]) / temperature)
    sums = np.cumsum(weights)
    count = int(np.searchsorted(sums, top_p * sums[-1])) + 1 if top_p < 1 else len(sums)
    return int(order[min(np.searchsorted(sums[:count], random.fraction() * sums[count - 1], side="right"), count - 1)])


def generate(decoder, prompt, tokens, random, **how):
    """Yields the tokens that come behind the prompt."""
    for i in range(tokens):
        token = sample(decoder(prompt if i == 0 else [token]), random, **how)
        yield token


def main(words=None):
    p = argparse.ArgumentParser(description="Generates text with a decoder.")
    p.add_argument("model", nargs="?", default=os.path.join(HERE, "decoder.onnx"))
    p.add_argument("--prompt", default="Einkorn", help="text: its bytes are the tokens")
    p.add_argument("--random", type=int, default=0, metavar="N", help="a prompt of N tokens that mean nothing instead")
    p.add_argument("--tokens", type=int, default=32, help="tokens behind the prompt")
    p.add_argument("--temperature", type=float, default=0.0, help="0: always the likeliest token")
    p.add_argument("--top-k", type=int, default=0, help="one of so many likeliest tokens; 0: of all")
    p.add_argument("--top-p", type=float, default=1.0, help="one of the likeliest with this probability together")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--room", type=int, default=1024, help="tokens that the caches have room for")
    p.add_argument("--precision", default="model", choices=("model", "bf16"))
    p.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    o = p.parse_args(words)
    decoder = Decoder(o.model, o.room, precision=o.precision, threads=o.threads)
    random = Random(o.seed)
    prompt = list(o.prompt.encode())
    if o.random:
        prompt = [random.integer() % decoder.vocabulary for _ in range(o.random)]
    if not prompt or max(prompt) >= decoder.vocabulary:
        p.error("the prompt needs tokens from 0 to %d" % (decoder.vocabulary - 1))
    times, made = [time.perf_counter()], []
    for token in generate(decoder, prompt, o.tokens, random, temperature=o.temperature, top_k=o.top_k, top_p=o.top_p):
        times.append(time.perf_counter())
        made.append(token)
    print(repr(bytes(made).decode("latin-1")) if decoder.vocabulary <= 256 else " ".join(map(str, made)))
    print("prompt: %d tokens, %.0f a second" % (len(prompt), len(prompt) / (times[1] - times[0])))
    if o.tokens > 1:
        print("then: %d tokens, %.1f a second" % (o.tokens - 1, (o.tokens - 1) / (times[-1] - times[1])))


if __name__ == "__main__":
    main()
