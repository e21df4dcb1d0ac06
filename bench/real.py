#!/usr/bin/env python3
"""All float models below a folder, Einkorn against onnxruntime, in one process a model: many real models take microseconds, and what a call costs counts.

  bench/real.py --models DIR --peers DIR [--threads 1] [--seconds 0.2] [--slices 5] [--part 1/3] [NAMES...]

--peers is the folder that bench/peers made (or --python names a python with onnxruntime and numpy). Each NAME.onnx is run on the inputs of every NAME.ref*.npz or NAME.npz beside it (in_0, in_1, .. or in_NAME), in the sizes these
have; without one on random inputs, open sizes 1. Models that hold quantised tensors, f16 or text are left out. Both have their inputs bound once; a timed call of Einkorn is ek_run_execute through ctypes, one of onnxruntime
whichever is faster of session.run and io-binding. They take turns, a slice each; the ratio is the median over the turns. With --threads 2 Einkorn is also measured in one thread: `1/n` is the time in one by the time in n.
--results FILE appends a line of JSON for each model; then --tables FILE prints what all of it holds as tables."""
import argparse, ctypes as C, glob, json, math, os, statistics, subprocess, sys, time

here = os.path.dirname(os.path.abspath(__file__))
WRONG = 2e-3  # largest difference by the largest value
QUANTISED = (b"QuantizeLinear", b"QLinear", b"MatMulInteger", b"ConvInteger")


def cases(folder, names):
    out = []
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.onnx"), recursive=True)):
        stem = path[:-5]
        name = os.path.basename(stem)
        if names and name not in names:
            continue
        with open(path, "rb") as f:
            text = f.read()
        if any(q in text for q in QUANTISED):
            continue
        given = sorted(glob.glob(glob.escape(stem) + ".ref*.npz")) + sorted(glob.glob(glob.escape(stem) + ".npz"))
        out += [(os.path.basename(g)[:-4].replace(".ref", ""), path, g) for g in given] or [(name, path, None)]
    return out


class Info(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_int), ("rank", C.c_int32), ("dims", C.c_int64 * 16), ("dim_names", C.c_char_p * 16)]


class Einkorn:
    def __init__(self, lib, path):
        self.lib = C.CDLL(lib)
        for f in ("ek_session_create", "ek_run_output_data"):
            getattr(self.lib, f).restype = C.c_void_p
        for f in ("ek_message", "ek_run_message"):
            getattr(self.lib, f).restype = C.c_char_p
        self.session, model, self.module = C.c_void_p(self.lib.ek_session_create()), C.c_void_p(), C.c_void_p()
        self.check(self.lib.ek_load(self.session, os.fsencode(path), C.byref(model)))
        self.check(self.lib.ek_compile(model, None, C.byref(self.module)))

    def check(self, code):
        if code:
            raise RuntimeError(self.lib.ek_message(self.session).decode())

    def infos(self, kind):
        n = getattr(self.lib, "ek_module_%ss" % kind)(self.module)
        out = [Info() for _ in range(n)]
        for i, x in enumerate(out):
            self.check(getattr(self.lib, "ek_module_" + kind)(self.module, i, C.byref(x)))
        return out

    def open(self, inputs, threads):
        """A run with its inputs bound: a call without arguments, and the handle."""
        run = C.c_void_p()

        def check(code):
            if code:
                raise RuntimeError(self.lib.ek_run_message(run).decode())
        self.check(self.lib.ek_run_create(self.module, threads, C.byref(run)))
        for i, x in enumerate(self.infos("input")):
            a = inputs[x.name.decode()]
            check(self.lib.ek_run_shape(run, i, (C.c_int64 * max(a.ndim, 1))(*a.shape), a.ndim))
            check(self.lib.ek_run_bind_input(run, i, C.c_void_p(a.ctypes.data)))
        execute = self.lib.ek_run_execute
        return lambda: check(execute(run)), run

    def outputs(self, run):
        import numpy as np
        kinds = {1: np.float32, 2: np.uint8, 3: np.int8, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
        out = []
        for i, x in enumerate(self.infos("output")):
            dims, rank = (C.c_int64 * 16)(), C.c_int32()
            self.check(self.lib.ek_run_output_dims(run, i, dims, C.byref(rank)))
            shape, dt = tuple(dims[:rank.value]), np.dtype(kinds[x.type])
            out.append(np.frombuffer(C.string_at(self.lib.ek_run_output_data(run, i), int(np.prod(shape)) * dt.itemsize), dt).reshape(shape).copy())
        return out


def given_inputs(session, path):
    import numpy as np
    z, rng, out = np.load(path) if path else {}, np.random.default_rng(0), {}
    for i, x in enumerate(session.get_inputs()):
        key = next((k for k in ("in_%d" % i, "in_" + x.name) if k in z), None)
        if key:
            out[x.name] = np.array(z[key], order="C")
            continue
        shape, kind = [d if isinstance(d, int) else 1 for d in x.shape], x.type[7:-1]
        out[x.name] = rng.standard_normal(shape).astype({"float": "f4", "double": "f8"}[kind]) if kind in ("float", "double") else np.zeros(shape, {"bool": "?"}.get(kind, kind))
    return out


def difference(ours, theirs):
    import numpy as np
    worst = 0.0
    for x, y in zip(ours, theirs):
        y = np.asarray(y)
        if y.dtype == object or y.shape != x.shape:  # sequences of maps
            continue
        if x.dtype.kind == "f":
            worst = max(worst, float(np.abs(x.astype("f8") - y).max(initial=0) / max(np.abs(y).max(initial=0), 1e-30)))
        else:
            worst = max(worst, float((x != y).mean()) if x.size else 0.0)
    return worst


def pace(call, seconds):
    """Seconds of one call: the median over bundles of calls that take 0.2 ms or more."""
    clock = time.perf_counter
    call()
    t = clock()
    call()
    bundle = range(max(1, int(2e-4 / max(clock() - t, 1e-7))))
    for _ in bundle:
        call()
    times, t = [], clock()
    end = t + seconds
    while t < end or len(times) < 3:
        for _ in bundle:
            call()
        u = clock()
        times.append((u - t) / len(bundle))
        t = u
    return statistics.median(times)


def one(a, name, path, given):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = a.threads, 1, 3
    session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    if any("float16" in x.type or "string" in x.type for x in session.get_inputs()):
        return None
    inputs, names = given_inputs(session, given), [y.name for y in session.get_outputs()]
    theirs = session.run(names, inputs)
    calls = [lambda: session.run(names, inputs)]
    if not any(x.type.startswith("seq") for x in session.get_outputs()):
        bound = session.io_binding()
        for k, v in inputs.items():
            bound.bind_cpu_input(k, v)
        for y in names:
            bound.bind_output(y)
        calls.append(lambda: session.run_with_iobinding(bound))
    paces = [pace(c, a.seconds / 4) for c in calls]
    peer = calls[paces.index(min(paces))]
    engine = Einkorn(a.lib, path)
    call, run = engine.open(inputs, a.threads)
    call()
    r = {"name": name, "threads": a.threads, "error": difference(engine.outputs(run), theirs)}
    turns = [("einkorn", call), ("onnxruntime", peer)] + ([("single", engine.open(inputs, 1)[0])] if a.threads > 1 else [])
    if not a.against:
        turns = [t for t in turns if t[0] != "onnxruntime"]
    seen = {k: [] for k, _ in turns}
    for _ in range(a.slices):
        for k, c in turns:
            if a.threads > 1:
                time.sleep(0.01)  # the other's threads lie down
            seen[k].append(pace(c, a.seconds))
    for k in seen:
        r[k + "_us"] = 1e6 * statistics.median(seen[k])
    for k in seen:
        if k != "einkorn":
            r[{"onnxruntime": "ratio", "single": "gain"}[k]] = statistics.median(x / y for x, y in zip(seen[k], seen["einkorn"]))
    return r


def line(r):
    return "%-28s %10.1f us" % (r["name"], r["einkorn_us"]) + ("  onnxruntime %10.1f us  ratio %5.2f" % (r["onnxruntime_us"], r["ratio"]) if "ratio" in r else "") + \
        ("  1/%d %5.2f" % (r["threads"], r["gain"]) if "gain" in r else "") + ("  WRONG %.2g" % r["error"] if r["error"] > WRONG else "")


def summary(rows):
    for key, text in (("ratio", "onnxruntime / Einkorn"), ("gain", "one thread / several")):
        got = [(r[key], r["name"]) for r in rows if key in r]
        if got:
            print("%s: geometric mean %.2f over %d; lowest %s" % (text, math.exp(sum(math.log(x) for x, _ in got) / len(got)), len(got), ", ".join("%.2f %s" % x for x in sorted(got)[:4])))


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--models"), p.add_argument("--peers"), p.add_argument("--python"), p.add_argument("--lib", default=os.path.join(here, "..", "build", "libeinkorn.so"))
p.add_argument("--threads", type=int, default=1), p.add_argument("--seconds", type=float, default=0.2), p.add_argument("--slices", type=int, default=5)
p.add_argument("--part", default="1/1", help="of the models, such as 2/3"), p.add_argument("--alone", dest="against", action="store_false", help="without onnxruntime in the turns")
p.add_argument("--results"), p.add_argument("--tables"), p.add_argument("--case", nargs=3, help=argparse.SUPPRESS), p.add_argument("names", nargs="*")
a = p.parse_args()
if a.case:
    r = one(a, *a.case[:2], a.case[2] or None)
    print(json.dumps(r))
    sys.stdout.flush()
    os._exit(0)
if a.tables:
    last = {}
    for text in open(a.tables):
        r = json.loads(text)
        last[r["name"], r["threads"]] = r
    for threads in sorted({t for _, t in last}):
        rows = [r for (_, t), r in sorted(last.items()) if t == threads]
        print("\n| %d thread%s, µs | Einkorn | onnxruntime | ratio |%s\n|---|---|---|---|%s" % (threads, "s" * (threads > 1), " one / %d |" % threads * (threads > 1), "---|" * (threads > 1)))
        for r in rows:
            print("| %s%s | %.3g | %s |" % (r["name"], " wrong" * (r["error"] > WRONG), r["einkorn_us"], "%.3g | **%.2f**" % (r["onnxruntime_us"], r["ratio"]) if "ratio" in r else "– | –") + (" %.2f |" % r["gain"] if "gain" in r else ""))
        print()
        summary(rows)
    sys.exit(0)
if not a.models or not (a.peers or a.python):
    p.error("--models and --peers (or --python) are needed")
python = a.python or os.path.join(a.peers, "onnxruntime", "bin", "python")
part, parts = map(int, a.part.split("/"))
rows = []
for case in cases(a.models, a.names)[part - 1::parts]:
    command = [python, __file__, "--lib", a.lib, "--threads", str(a.threads), "--seconds", str(a.seconds), "--slices", str(a.slices)] + ([] if a.against else ["--alone"])
    done = subprocess.run(command + ["--case", case[0], case[1], case[2] or ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    r = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout.strip() else None
    if r:
        rows.append(r)
        print(line(r), flush=True)
        if a.results:
            with open(a.results, "a") as f:
                f.write(json.dumps(r) + "\n")
    elif done.returncode:
        print("%-28s %s" % (case[0], (done.stderr.strip().splitlines() or ["failed"])[-1]), flush=True)
summary(rows)
