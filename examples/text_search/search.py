"""Search by meaning: which lines of a text file are nearest to a question, even where no word is the same?

    python search.py                              the project's own lines and questions
    python search.py --file NOTES.txt QUESTION..  yours: every line that is not empty is one entry

Each line and each question becomes a vector of 384 numbers, by the encoder that minilm.py writes down. Lines are
ranked by the cosine of the angle between their vector and the question's.

    pip install --no-deps -r requirements.txt      (and Einkorn)
"""
import argparse
import os
import time

import einkorn
import minilm
import numpy as np
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


class Encoder:
    """Texts to vectors of length 1. A text of more than 256 tokens is cut there, as the model's authors do."""

    def __init__(self):
        self.tokenizer = Tokenizer.from_file(os.path.join(minilm.folder(), "tokenizer.json"))  # WordPiece
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)
        self.model = einkorn.compile(minilm.make_model(minilm.weights()))

    def __call__(self, texts, batch=16):
        """One row for each text. Texts of similar length go through the model together, padded to the longest."""
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        vectors = np.empty((len(tokens), minilm.WIDTH), np.float32)
        for start in range(0, len(order), batch):
            rows = order[start:start + batch]
            ids = np.zeros((len(rows), len(tokens[rows[-1]])), np.int64)
            mask = np.zeros_like(ids)
            for row, i in enumerate(rows):
                ids[row, :len(tokens[i])] = tokens[i]
                mask[row, :len(tokens[i])] = 1
            vectors[rows] = self.model(input_ids=ids, attention_mask=mask)
        return vectors


def read_lines(path):
    with open(path, encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip()]


def compare(questions, lines, cosines):
    """How far are the cosines from those of reference.tsv at most, and is the order of the lines the same?"""
    with open(os.path.join(HERE, "reference.tsv"), encoding="utf-8") as f:
        reference = {(question, line): float(cosine) for question, line, cosine in (row.split("\t") for row in f)}
    try:
        expected = np.array([[reference[question, line] for line in lines] for question in questions])
    except KeyError as e:
        raise SystemExit("reference.tsv has no cosine of %r and %r: python reference.py makes it anew" % e.args[0])
    return abs(cosines - expected).max(), (np.argsort(-cosines) == np.argsort(-expected)).all()


def main(words=None):
    parser = argparse.ArgumentParser(description="Ranks the lines of a text file by how near they are to a question.")
    parser.add_argument("question", nargs="*")
    parser.add_argument("--file", default=os.path.join(HERE, "lines.txt"), help="one text a line")
    parser.add_argument("-n", type=int, default=3, help="how many lines to print for a question (3)")
    parser.add_argument("--compare", action="store_true", help="with the cosines of reference.tsv")
    words = parser.parse_args(words)
    lines = read_lines(words.file)
    questions = words.question or read_lines(os.path.join(HERE, "questions.txt"))
    start = time.perf_counter()
    encoder = Encoder()
    compiled = time.perf_counter()
    stored = encoder(lines)
    done = time.perf_counter()
    print("model written and compiled in %.1f s; %d lines encoded in %.0f ms"
          % (compiled - start, len(lines), (done - compiled) * 1e3))
    cosines = encoder(questions) @ stored.T
    for question, row in zip(questions, cosines):
        print("\n" + question)
        for i in np.argsort(-row)[:words.n]:
            print("  %.3f  %s" % (row[i], lines[i]))
    if words.compare:
        far, same = compare(questions, lines, cosines)
        print("\nThe model's own implementation, in PyTorch: the order is %s, the cosines differ by %.0e at most."
              % ("the same" if same else "another one", far))
        if not same or far > 1e-4:
            raise SystemExit("FAILED: the same order is expected, and a difference of at most 1e-4")


if __name__ == "__main__":
    main()
