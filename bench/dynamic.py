#!/usr/bin/env python3
"""How much slower is a model compiled once for open sizes than the same model compiled for the size it runs with?

  bench/dynamic.py MODEL --dim batch=1,2,4,8 --dim seq=1,7,16,32,64,128
  bench/dynamic.py MODEL --dim input.0,state.1=1,2,4 --dim input.1=512 --input sr=16000     (two names that go together)

Each point of the grid is a line: milliseconds compiled for that size, and over that the same compiled with the sizes open, and with their bounds said (--dim N=LEAST::MOST). All are in this process and take turns; a number
is the median of the turns' ratios. Inputs are random floats, integers are 1 or what --input says. numpy is not needed."""
import argparse, array, ctypes as C, itertools, math, os, random, statistics, sys, time

here = os.path.dirname(os.path.abspath(__file__))


class Info(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_int), ("rank", C.c_int32), ("dims", C.c_int64 * 16), ("dim_names", C.c_char_p * 16)]


class Options(C.Structure):  # ek_options
    _fields_ = [("size", C.c_size_t), ("optimize", C.c_int), ("threads", C.c_int), ("compile_threads", C.c_int), ("target", C.c_char_p), ("dims", C.POINTER(C.c_char_p)), ("fuel", C.c_uint64), ("verify", C.c_int),
                ("evaluate", C.c_int), ("stop_after", C.c_char_p), ("on_pass", C.c_void_p), ("pass_user", C.c_void_p), ("memory_limit", C.c_uint64), ("cache", C.c_char_p), ("cache_bytes", C.c_uint64), ("accuracy", C.c_int),
                ("profile", C.c_int), ("precision", C.c_int)]


CODES = {1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "b", 11: "d"}

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("model"), p.add_argument("--dim", action="append", default=[], help="NAME[,NAME..]=SIZE,SIZE,.."), p.add_argument("--input", action="append", default=[], help="NAME=VALUE: all elements of an input")
p.add_argument("--threads", type=int, default=1), p.add_argument("--turns", type=int, default=9), p.add_argument("--turn-ms", type=float, default=10)
p.add_argument("--likely", action="store_true", help="also a variant for the middle of the sizes, --dim N=LEAST:LIKELY:MOST"), p.add_argument("--cache", help="a folder that keeps compiled code")
p.add_argument("--compile", action="store_true", help="only compiles (to the cache)"), p.add_argument("--lib", default=os.environ.get("EINKORN_LIB", os.path.join(here, "..", "build", "libeinkorn.so")))
a = p.parse_args()

lib = C.CDLL(a.lib)
lib.ek_session_create.restype = C.c_void_p
lib.ek_message.restype = lib.ek_run_message.restype = C.c_char_p
session = C.c_void_p(lib.ek_session_create())
model = C.c_void_p()
fill = {k: float(v) for k, v in (i.split("=") for i in a.input)}


def check(code):
    if code:
        sys.exit(lib.ek_message(session).decode())


def compiled(dims):
    o, module = Options(), C.c_void_p()
    lib.ek_options_init(C.byref(o))
    o.threads = a.threads
    if a.cache:
        o.cache = os.fsencode(a.cache)
    if dims:
        o.dims = (C.c_char_p * (len(dims) + 1))(*[d.encode() for d in dims], None)
    start = time.process_time()
    check(lib.ek_compile(model, C.byref(o), C.byref(module)))
    return module, time.process_time() - start


def sizes(info, at):
    return [at.get((info.dim_names[d] or b"").decode(), 1) if info.dims[d] < 0 else info.dims[d] for d in range(info.rank)]


def runner(module, inputs):
    run = C.c_void_p()
    check(lib.ek_run_create(module, a.threads, C.byref(run)))
    for i, (shape, data) in enumerate(inputs):
        check(lib.ek_run_shape(run, i, (C.c_int64 * max(len(shape), 1))(*shape), len(shape)))
        check(lib.ek_run_bind_input(run, i, C.c_void_p(data.buffer_info()[0])))
    if lib.ek_run_execute(run):
        sys.exit(lib.ek_run_message(run).decode())
    return run


def once(run, n):
    execute, start = lib.ek_run_execute, time.perf_counter()
    for _ in range(n):
        execute(run)
    return (time.perf_counter() - start) / n * 1e3


check(lib.ek_load(session, os.fsencode(a.model), C.byref(model)))
grid = [(d.split("=")[0].split(","), [int(v) for v in d.split("=")[1].split(",")]) for d in a.dim]
ways = {"open": [], "bounds": ["%s=%d::%d" % (n, min(v), max(v)) for names, v in grid for n in names]}
if a.likely:
    ways["likely"] = ["%s=%d:%d:%d" % (n, min(v), sorted(v)[len(v) // 2], max(v)) for names, v in grid for n in names]
modules, seconds = {}, {}
for w in ways:
    modules[w], seconds[w] = compiled(ways[w])
print("%-28s %10s  %s" % ("", "fixed ms", "  ".join("%8s" % w for w in ways)))
worst, logs, fixed_seconds = 0, {w: [] for w in ways}, []
for point in itertools.product(*[v for _, v in grid]):
    at = {n: v for (names, _), v in zip(grid, point) for n in names}
    fixed, spent = compiled(["%s=%d" % x for x in at.items()])
    fixed_seconds.append(spent)
    if a.compile:
        continue
    inputs, rng = [], random.Random(0)
    for i in range(lib.ek_module_inputs(modules["open"])):
        info = Info()
        check(lib.ek_module_input(modules["open"], i, C.byref(info)))
        shape, name, code = sizes(info, at), info.name.decode(), CODES[info.type]
        n = math.prod(shape)
        inputs.append((shape, array.array(code, [fill[name] if code in "fd" else int(fill[name])] * n if name in fill else [rng.uniform(-1, 1) for _ in range(n)] if code in "fd" else [1] * n)))
    runs = [runner(m, inputs) for m in [fixed, *modules.values()]]
    counts = [max(1, int(a.turn_ms / max(once(r, 1), 1e-4))) for r in runs]
    turns = [[once(r, n) for r, n in zip(runs, counts)] for _ in range(a.turns)]
    ratios = [statistics.median(t[k + 1] / t[0] for t in turns) for k in range(len(ways))]
    for w, r in zip(ways, ratios):
        logs[w].append(math.log(r))
    print("%-28s %10.4f  %s" % (" ".join("%s=%d" % (names[0], v) for (names, _), v in zip(grid, point)), statistics.median(t[0] for t in turns), "  ".join("%8.3f" % r for r in ratios)), flush=True)
    for r in runs:
        lib.ek_run_destroy(r)
    lib.ek_module_close(fixed)
if not a.compile:
    print("%-28s %10s  %s" % ("geometric mean", "", "  ".join("%8.3f" % math.exp(statistics.mean(logs[w])) for w in ways)))
    print("%-28s %10s  %s" % ("worst", "", "  ".join("%8.3f" % math.exp(max(logs[w])) for w in ways)))
if not a.cache:
    print("%-28s %10.2f  %s" % ("compiling, s of processor", statistics.median(fixed_seconds), "  ".join("%8.2f" % seconds[w] for w in ways)))
