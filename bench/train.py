#!/usr/bin/env python3
"""A step of training (forward, loss, gradient, update) in Einkorn, PyTorch and JAX: how long, and the same losses?

    PYTHONPATH=build/python ~/peers/torch/bin/python bench/train.py time [NAME ..] [--threads 1] [--turns 7]
        [--seconds 1] [--against torch,torch.compile,jax] [--peers ~/peers] [--write docs/benchmarks.md]
    PYTHONPATH=build/python ~/peers/torch/bin/python bench/train.py memory [NAME ..] [--against torch,torch.compile,jax]
        [--peers ~/peers] [--write PAGE]
    PYTHONPATH=build/python ~/peers/torch/bin/python bench/train.py bound [NAME ..] [--threads 1] [--seconds 1]
        [--write docs/benchmarks.md]
    PYTHONPATH=build/python ~/peers/torch/bin/python bench/train.py curve [NAME[:SIZE=N,..] ..] [--steps 200]
        [--seeds 1] [--short 200] [--optimizer sgd:0.01] [--accuracy default] [--write docs/benchmarks.md]

The models are those of bench/train_models.py; curve takes sizes, too: transformer:layers=4,width=192. Needs the
packages einkorn, onnx, numpy and torch; with --peers JAX may be in an environment of its own, ~/peers/jax, which needs
onnx, too.

time: each engine is a process that trains on one batch, which lies in memory, on as many processors as it has threads;
they take turns of --seconds. Told are the median milliseconds of a step, the others' over Einkorn's in the same turn
(median), the milliseconds until the first step is done, and the working memory of Einkorn's step.

memory: what a step of Einkorn takes (working memory, parameters and other states, constants) and, in a process for each
other engine, the peak of resident memory in three steps, less what was resident after the import and with parameters.

bound: Einkorn's step, kernel by kernel (einkorn explain), beside what the machine can do, measured in the same minute.
Told are the multiply-adds per second as a share of the peak; how much of the least time that the machine allows is
reached, where each kernel takes the longer of its operations at the peak and its bytes at their bandwidth; and each
kind of kernel with its share of the time, and of what it takes how much is that least time.

curve: the same initial weights and batches, values of f32, in f64 and in f32. Told are the largest difference between
Einkorn's and PyTorch's losses of --steps in f64, that of the weights after 20 steps, and how far both f32 runs are from
PyTorch's f64 run (root of the mean square over the losses of --short steps), for --seeds seeds of weights and data:
rounding errors grow as the training goes on, so that one seed's ratio is a matter of chance. The standard error is that
of the geometric mean of the ratios, a factor. A page keeps the lines of other models."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import tables
import train_models

RATE = 0.01
BOUND = ("model", "threads", "step, ms", "of peak", "of the least time",
         "kernels: share of the time (of their least time)")
MEMORY_COLUMNS = ("model", "Einkorn, MB", "of these working memory, states, constants", "others, MB")
CURVE_COLUMNS = ("model", "f64: steps", "losses differ by", "weights after 20 by", "f32: seeds x steps",
                 "Einkorn's distance", "PyTorch's", "ratio", "standard error", "least to greatest")
COLUMNS = ("model", "threads", "Einkorn, ms", "others, ms", "ratio", "until the first step, ms", "memory, MB")


def einkorn_step(path, batch, threads, optimizer="sgd", rate=RATE, **options):
    from einkorn.train import Trainer
    trainer = Trainer(path, loss="cross_entropy", optimizer=optimizer, batch=batch, threads=threads, **options)
    return lambda b: trainer.step(b, lr=rate), trainer.parameters


def torch_step(name, weights, threads, compiled, optimizer="sgd", rate=RATE):
    import torch
    torch.set_num_threads(threads)
    function = train_models.torch_function(name)
    state = ("mean", "var")
    p = {n: torch.tensor(w, requires_grad=True) for n, w in weights.items() if n.split(".")[-1] not in state}
    make = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer]
    optimizer = make(list(p.values()), rate)

    def loss(x, target):
        return torch.nn.functional.cross_entropy(function(x, p), target)

    evaluate = torch.compile(loss) if compiled else loss

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        value = evaluate(torch.from_numpy(batch["x"]), torch.from_numpy(batch["target"]))
        value.backward()
        optimizer.step()
        return value.item()

    return step, {n: w.detach().numpy() for n, w in p.items()}


def jax_step(name, weights, rate=RATE):
    import jax
    gradient = train_models.jax_function(name)

    def update(p, x, target):
        loss, g = gradient(p, x, target)
        return {n: w - rate * g[n] for n, w in p.items()}, loss

    jitted = jax.jit(update, donate_argnums=0)
    p = {n: jax.device_put(w) for n, w in weights.items() if n.split(".")[-1] not in ("mean", "var")}

    def step(batch):
        nonlocal p
        p, loss = jitted(p, batch["x"], batch["target"])
        return float(jax.block_until_ready((loss, p))[0])

    return step


# ---- time ----
def serve(engine, name, threads):
    """One engine: a line `first MS`, then for each line SECONDS on stdin a line with the milliseconds of the steps.
    It may use as many processors as it has threads: XLA runs independent parts of a step in as many threads as it finds
    processors, whatever its options say."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    model, weights, batch = train_models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        begin = time.perf_counter()
        if engine == "einkorn":
            step, _ = einkorn_step(path, batch, threads)
        elif engine == "jax":
            step = jax_step(name, weights)
        else:
            step, _ = torch_step(name, weights, threads, engine == "torch.compile")
        step(batch)
        print("first", (time.perf_counter() - begin) * 1e3, flush=True)
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            step(batch)
            times.append((time.perf_counter() - begin) * 1e3)
        print(statistics.median(times), flush=True)


def python_of(engine, peers):
    own = os.path.join(peers or "", engine.split(".")[0], "bin", "python")
    return own if peers and os.path.exists(own) else sys.executable


class Process:
    def __init__(self, engine, name, threads, peers):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if engine == "jax":
            environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=" + ("false" if threads == 1 else "true")
        self.process = subprocess.Popen(
            [python_of(engine, peers), __file__, "serve", engine, name, str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment)
        word, value = (self.process.stdout.readline().split() + ["", ""])[:2]
        self.first = float(value) if word == "first" else None  # None: it cannot train this model

    def run(self, seconds):
        self.process.stdin.write("%g\n" % seconds)
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def memory_of(name):
    from einkorn.train import Trainer
    model, _, batch = train_models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        report = Trainer(path, loss="cross_entropy", optimizer="sgd", batch=batch, threads=1).report
        work = eval(report["memory"], {"__builtins__": {}}, {"threads": 1})  # a sum and product of numbers
        return work, report["state_bytes"], report["constant_bytes"]


# ---- memory ----
def resident(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def serve_memory(engine, name):
    """One engine: a line `bytes N`, what its steps took at most beside what was there once it was imported and had its
    parameters."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    _, weights, batch = train_models.build(name)
    step = jax_step(name, weights) if engine == "jax" else torch_step(name, weights, 1, engine == "torch.compile")[0]
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins here
    before = resident("VmRSS:")
    for _ in range(3):
        step(batch)
    print("bytes", resident("VmHWM:") - before, flush=True)


def memory_all(o):
    lines = []
    for name in o.names:
        texts = []
        for engine in o.against.split(","):
            done = subprocess.run([python_of(engine, o.peers), __file__, "serve-memory", engine, name], text=True,
                                  stdout=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"))
            word, value = (done.stdout.split() + ["", ""])[:2]
            if word == "bytes":  # else it cannot train this model
                texts.append("%s %.1f" % (engine, float(value) / 1e6))
        work, states, constants = memory_of(name)
        lines.append("| %s | %.1f | %.1f, %.1f, %.1f | %s |" % (
            name, (work + states + constants) / 1e6, work / 1e6, states / 1e6, constants / 1e6, ", ".join(texts)))
        print(lines[-1], flush=True)
    if o.write:
        tables.write(o.write, "bench/train.py memory", tables.head(MEMORY_COLUMNS) + lines)


def time_all(o):
    lines, ratios = [], []
    for name in o.names:
        for threads in (int(t) for t in o.threads.split(",")):
            started = {e: Process(e, name, threads, o.peers) for e in ["einkorn"] + o.against.split(",")}
            processes = {e: p for e, p in started.items() if p.first is not None}
            engines = [e for e in processes if e != "einkorn"]
            turns = [{e: p.run(o.seconds) for e, p in processes.items()} for _ in range(o.turns)]
            for p in processes.values():
                p.close()
            ours = statistics.median(t["einkorn"] for t in turns)
            over = {e: statistics.median(t[e] / t["einkorn"] for t in turns) for e in engines}
            ratios.append(min(over.values()))
            lines.append("| " + " | ".join((
                name, str(threads), "%.3g" % ours,
                ", ".join("%s %.3g" % (e, statistics.median(t[e] for t in turns)) for e in engines),
                ", ".join("%.2f" % over[e] for e in engines),
                ", ".join("%s %.0f" % (e, p.first) for e, p in processes.items()), "%.1f" % (memory_of(name)[0] / 1e6))) + " |")
            print(lines[-1], flush=True)
    mean = statistics.geometric_mean(ratios)
    print("the best other one over Einkorn, geometric mean: %.2f, least %.2f" % (mean, min(ratios)))
    if o.write:
        tables.write(o.write, "bench/train.py", tables.head(COLUMNS) + lines)


# ---- bound ----
def step_model(name):
    """A step as an ONNX model: parameters are inputs, new_NAME is the output that a state NAME becomes."""
    from onnx import TensorProto, helper, numpy_helper
    model, weights, batch = train_models.build(name)
    graph, gradient = model.graph, "ai.onnx.preview.training"
    parameters = {n: w.shape for n, w in weights.items() if n.split(".")[-1] not in ("mean", "var")}
    graph.node.append(helper.make_node("SoftmaxCrossEntropyLoss", [graph.output[0].name, "target"], ["loss"]))
    graph.node.append(helper.make_node("Gradient", list(parameters), ["d." + n for n in parameters], domain=gradient,
                                       xs=list(parameters), y="loss"))
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            node.attribute.append(helper.make_attribute("training_mode", 1))
    graph.initializer.append(numpy_helper.from_array(np.float32(RATE), "rate"))
    graph.input.append(helper.make_tensor_value_info("target", TensorProto.INT64, batch["target"].shape))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    for n, shape in parameters.items():
        graph.node.append(helper.make_node("Mul", ["d." + n, "rate"], ["step." + n]))
        graph.node.append(helper.make_node("Sub", [n, "step." + n], ["new_" + n]))
        graph.input.append(helper.make_tensor_value_info(n, TensorProto.FLOAT, shape))
        graph.output.append(helper.make_tensor_value_info("new_" + n, TensorProto.FLOAT, shape))
    model.opset_import.append(helper.make_opsetid(gradient, 1))
    return model


def explained(name, threads, seconds):
    """The report of einkorn explain, as it is in JSON."""
    import einkorn
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.onnx")
        with open(path, "wb") as file:
            file.write(step_model(name).SerializeToString())
        return json.loads(subprocess.run(
            [einkorn.get_program(), "explain", path, "--state", "new_*=*", "--threads", str(threads), "--seconds",
             str(seconds), "--json"], capture_output=True, text=True, check=True).stdout)


def bound_all(o):
    lines = []
    for name in o.names:
        for threads in (int(t) for t in o.threads.split(",")):
            r, kinds = explained(name, threads, o.seconds), {}
            for k in r["kernels"]:
                time_, floor = kinds.get(k["kind"], (0, 0))
                kinds[k["kind"]] = time_ + k["ms"], floor + k["floor_ms"]
            parts = ["%s %.0f %% (%.0f %%)" % (kind, 100 * t / r["kernels_ms"], 100 * floor / t)
                     for kind, (t, floor) in sorted(kinds.items(), key=lambda k: -k[1][0])
                     if t > r["kernels_ms"] / 100]
            lines.append("| %s | %d | %.3g | %.0f %% | %.0f %% | %s |" % (
                name, threads, r["median_ms"], r["model_ops"] / r["median_ms"] / r["machine"]["gflops"] / 1e4,
                100 * r["floor_ms"] / r["median_ms"], ", ".join(parts)))
            print(lines[-1], flush=True)
    if o.write:
        tables.write(o.write, "bench/train.py bound", tables.head(BOUND) + lines)


# ---- curve ----
def losses(engine, model, dtype, seed, steps, o):
    """The losses of the steps, and the weights after 20 of them."""
    name, _, sizes = model.partition(":")
    sizes = {k: int(v) for k, v in (pair.split("=") for pair in sizes.split(",") if pair)}
    onnx_model, weights, batch = train_models.build(name, dtype, seed, **sizes)
    random = np.random.default_rng(10 * seed + 3)
    optimizer, rate = o.optimizer.split(":")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(onnx_model.SerializeToString())
        if engine == "einkorn":
            step, parameters = einkorn_step(path, batch, 1, optimizer, float(rate), accuracy=o.accuracy)
        else:
            step, parameters = torch_step(name, weights, 1, False, optimizer, float(rate))
        out, early = [], None
        for k in range(steps):
            order = random.permutation(len(batch["target"]))
            labels = np.ascontiguousarray(batch["target"][order]) if o.shuffle else batch["target"]
            out.append(step({"x": batch["x"], "target": labels}))
            if k == min(20, steps) - 1:
                early = {n: np.array(parameters[n]) for n in parameters}
    return np.array(out), early


def distances(model, seed, truth, o):
    """How far Einkorn's and PyTorch's f32 runs are from the losses of PyTorch's f64 run."""
    return [float(np.sqrt(np.mean((losses(e, model, np.float32, seed, o.short, o)[0] - truth[:o.short]) ** 2)))
            for e in ("einkorn", "torch")]


def standard_error(ratios):
    """Of their geometric mean, as a factor."""
    return float(np.exp(statistics.stdev(np.log(ratios)) / len(ratios) ** 0.5))


def curve_of(model, o):
    """The line of the table."""
    (ours, w), (theirs, v) = [losses(e, model, np.float64, 0, o.steps, o) for e in ("einkorn", "torch")]
    apart = [distances(model, 0, theirs, o)]
    for seed in range(1, o.seeds):
        apart.append(distances(model, seed, losses("torch", model, np.float64, seed, o.short, o)[0], o))
    ratios = [einkorn / torch for einkorn, torch in apart]
    return "| %s | %d | %.1e | %.1e | %d x %d | %.1e | %.1e | %.2f | %s | %.2f to %.2f |" % (
        model.replace(":", ",").replace(",", ", ").replace("=", " "), o.steps, np.abs(ours - theirs).max(),
        max(np.abs(w[n] - v[n]).max() for n in v if n in w), o.seeds, o.short,
        *(statistics.geometric_mean(engine) for engine in zip(*apart)), statistics.geometric_mean(ratios),
        "x %.2f" % standard_error(ratios) if o.seeds > 1 else "", min(ratios), max(ratios))


def curve_all(o):
    for model in o.names:
        line = curve_of(model, o)
        print(line, flush=True)
        if o.write:  # other models keep their lines
            lines = tables.rows(o.write, "bench/train.py curve")
            lines[line.split(" | ")[0]] = line
            tables.write(o.write, "bench/train.py curve", tables.head(CURVE_COLUMNS) + list(lines.values()))


def main():
    if sys.argv[1:2] == ["serve-memory"]:
        return serve_memory(sys.argv[2], sys.argv[3])
    if sys.argv[1:2] == ["serve"]:
        return serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("time", "memory", "bound", "curve"))
    p.add_argument("names", nargs="*", metavar="NAME", help="models (default: all): " + ", ".join(train_models.NAMES))
    p.add_argument("--threads", default="1", help="numbers of threads, with commas between (default 1)")
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--seconds", type=float, default=1, help="of each turn")
    p.add_argument("--against", default="torch,torch.compile,jax")
    p.add_argument("--peers", metavar="DIR", help="has environments of Python, named torch and jax")
    p.add_argument("--write", metavar="PAGE", help="puts the table into that page")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--seeds", type=int, default=1, help="of weights and data, in f32 (default 1)")
    p.add_argument("--short", type=int, help="steps in f32 (default: as --steps)")
    p.add_argument("--accuracy", default="default", help="Einkorn's (default: default)")
    p.add_argument("--optimizer", default="sgd:0.01", help="NAME:RATE (default sgd:0.01)")
    p.add_argument("--shuffle", action="store_true", help="other labels in each step")
    o = p.parse_args()
    o.names = o.names or list(train_models.NAMES)
    o.short = min(o.short or o.steps, o.steps)
    return {"time": time_all, "memory": memory_all, "bound": bound_all, "curve": curve_all}[o.command](o)


if __name__ == "__main__":
    main()
