#!/usr/bin/env python3
"""One engine that `einkorn bench --against` compares with: a process that loads a model once and then times slices of runs on demand.

  peer.py ENGINE has                                          exit code 0: this python has the engine
  peer.py ENGINE serve MODEL INPUTS.npz OUTPUTS.npz THREADS START
  peer.py ENGINE values MODEL INPUTS.npz NAMES OUTPUTS.npz    those of the tensors named in the file NAMES, a line each, that the engine knows

START is the process' start in ns of the monotonic clock. On stdout, one line each: `ready VERSION MS` (from START to the first result, without reading the inputs; the outputs are in OUTPUTS.npz, in_0.. in the model's
order), or `error TEXT`; then for each line `run SECONDS` on stdin `times MS MS ..`, a sample of the runs in their order. The end of stdin ends the process. Inputs are bound once; a timed call is one call of the engine,
finished when it returns. Everything computes in f32, unless the engine's name says otherwise.

An engine is a class: `needs` (modules), `env` (set before anything is imported), `open(path, inputs, threads)`, which returns run() and fetch(), the latter giving arrays."""
import importlib.util, os, subprocess, sys, tempfile, time

ENGINES = {}


class Engine:
    needs = []

    def __init_subclass__(cls):
        ENGINES[cls.name] = cls

    def env(self, threads):
        return {"OMP_NUM_THREADS": str(threads)}

    def version(self):
        from importlib.metadata import version
        return version(self.needs[0])


class OnnxRuntime(Engine):
    name, needs = "onnxruntime", ["onnxruntime"]

    def open(self, path, inputs, threads):
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = threads, 1, 3
        session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        bound = session.io_binding()
        for name, value in inputs.items():
            bound.bind_cpu_input(name, value)
        for y in session.get_outputs():
            bound.bind_output(y.name)
        return lambda: session.run_with_iobinding(bound), bound.copy_outputs_to_cpu

    def values(self, path, inputs, names):
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.log_severity_level = 3
        o.add_session_config_entry("session.model_external_initializers_file_folder_path", os.path.dirname(os.path.abspath(path)))
        with open(path, "rb") as f:
            model = f.read()
        # ModelProto: graph (7) { node (1) { output (2) }, output (12) { name (1) } }
        graph = b"".join(bytes(g) for g in fields(model, 7))
        known = {bytes(y).decode() for n in fields(graph, 1) for y in fields(n, 2)}
        names = [name for name in names if name in known]
        have = {bytes(x).decode() for y in fields(graph, 12) for x in fields(y, 1)}
        # Two messages of protobuf, one behind the other, are one with the fields of both
        field = lambda number, data: varint(number << 3 | 2) + varint(len(data)) + data
        more = b"".join(field(12, field(1, name.encode())) for name in names if name not in have)
        session = ort.InferenceSession(model + (field(7, more) if more else b""), o, providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(names, inputs)))


class OpenVino(Engine):
    name, needs, precision = "openvino", ["openvino"], "f32"

    def open(self, path, inputs, threads):
        import numpy as np, openvino as ov
        model = ov.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                      "INFERENCE_PRECISION_HINT": self.precision, "ENABLE_CPU_PINNING": False})
        request = model.create_infer_request()
        for name, value in inputs.items():
            request.set_tensor(name, ov.Tensor(value, shared_memory=True))
        return request.infer, lambda: [np.array(t.data) for t in request.output_tensors]


class OpenVinoBf16(OpenVino):
    name, precision = "openvino-bf16", "bf16"


class Torch(Engine):
    name, needs, compiled = "torch", ["torch", "onnx2torch", "onnx"], False

    def env(self, threads):
        return {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": os.path.join(tempfile.gettempdir(), "inductor-%d" % os.getpid())}

    def open(self, path, inputs, threads):
        import onnx, onnx2torch, torch
        torch.set_num_threads(threads)
        module = onnx2torch.convert(onnx.load(path)).eval()
        if self.compiled:
            import torch._inductor.config as config
            config.freezing = True
            module = torch.compile(module)
        x, box = [torch.from_numpy(v) for v in inputs.values()], []

        def run():
            with torch.no_grad() if self.compiled else torch.inference_mode():
                y = module(*x)
            box[:] = y if isinstance(y, (list, tuple)) else [y]
        return run, lambda: [y.numpy() for y in box]


class TorchCompile(Torch):
    name, compiled = "torch.compile", True


class Jax(Engine):
    """The graph by bench/onnx_jax.py, for as many operators as that knows. XLA's threads follow the affinity mask, nothing else."""
    name, needs = "jax", ["jax", "onnx"]

    def env(self, threads):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        return {"JAX_PLATFORMS": "cpu"}

    def open(self, path, inputs, threads):
        import jax, onnx, onnx_jax
        f, params = onnx_jax.function(onnx.load(path))
        params, x, g, box = jax.device_put(params), jax.device_put(inputs), jax.jit(f), []

        def run():
            box[:] = jax.block_until_ready(g(params, x))
        return run, lambda: box


class Iree(Engine):
    name, needs, flags = "iree", ["iree.runtime", "iree.compiler"], []

    def version(self):
        from importlib.metadata import version
        return version("iree-base-runtime")

    def open(self, path, inputs, threads):
        import iree.runtime as rt
        work = tempfile.mkdtemp()
        mlir, code, tools = os.path.join(work, "m.mlir"), os.path.join(work, "m.vmfb"), os.path.dirname(sys.executable)
        subprocess.run([os.path.join(tools, "iree-import-onnx"), path, "-o", mlir], check=True)
        subprocess.run([os.path.join(tools, "iree-compile"), mlir, "-o", code, "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host",
                        "--iree-opt-level=O3", "--iree-llvmcpu-stack-allocation-limit=262144"] + self.flags, check=True)
        if threads > 1:
            rt.flags.parse_flags("--task_topology_group_count=%d" % threads)
        config = rt.Config("local-task" if threads > 1 else "local-sync")
        module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, code), config)
        f = module[[n for n in module.vm_module.function_names if not n.startswith("__") and not n.endswith("$async")][0]]
        x, box = [rt.asdevicearray(config.device, v) for v in inputs.values()], []

        def run():
            y = f(*x)
            box[:] = y if isinstance(y, (list, tuple)) else [y]
        return run, lambda: [y.to_host() for y in box]


class IreeNhwc(Iree):
    name = "iree-nhwc"
    flags = ["--iree-preprocessing-pass-pipeline=builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))"]


class Ncnn(Engine):
    """Converted by pnnx, which knows CNNs."""
    name, needs = "ncnn", ["ncnn", "pnnx"]

    def open(self, path, inputs, threads):
        import re, ncnn, numpy as np
        work = tempfile.mkdtemp()
        os.symlink(os.path.abspath(path), os.path.join(work, "m.onnx"))
        root = os.path.dirname(importlib.util.find_spec("pnnx").origin)
        tool = [os.path.join(r, f) for r, _, files in os.walk(root) for f in files if f == "pnnx"][0]
        code = {"float32": "f32", "int64": "i64", "int32": "i32"}
        shapes = ",".join("[%s]%s" % (",".join(map(str, v.shape)), code[str(v.dtype)]) for v in inputs.values())
        subprocess.run([tool, "m.onnx", "inputshape=" + shapes, "fp16=0"], cwd=work, check=True, stdout=sys.stderr)
        net = ncnn.Net()
        o = net.opt
        o.num_threads = threads
        o.use_fp16_packed = o.use_fp16_storage = o.use_fp16_arithmetic = False
        param = os.path.join(work, "m.ncnn.param")
        if net.load_param(param) or net.load_model(param.replace(".param", ".bin")):
            raise RuntimeError("ncnn could not load what pnnx made")
        ins, outs = re.findall(r"^Input\s+\S+\s+0 1 (\S+)", open(param).read(), re.M), net.output_names()
        values = [np.ascontiguousarray(v[0] if v.ndim > 1 and v.shape[0] == 1 else v) for v in inputs.values()]
        x, box = [ncnn.Mat(v.astype(np.int32) if v.dtype == np.int64 else v).clone() for v in values], []

        def run():
            e = net.create_extractor()
            for n, v in zip(ins, x):
                e.input(n, v)
            box[:] = [e] + [e.extract(n)[1] for n in outs]  # outputs live in the extractor's memory
        return run, lambda: [np.array(y) for y in box[1:]]


MOST = 2000  # times told of a slice


def varint(n):
    """A number as protobuf writes it."""
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def fields(message, number):
    """The contents of a protobuf message's fields of that number, which have a length."""
    view, at, found = memoryview(message), 0, []

    def number_here():
        nonlocal at
        value = shift = 0
        while True:
            byte = view[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value
    while at < len(view):
        tag = number_here()
        if tag & 7 == 2:
            size = number_here()
            if tag >> 3 == number:
                found.append(view[at:at + size])
            at += size
        elif tag & 7 == 0:
            number_here()
        else:
            at += 8 if tag & 7 == 1 else 4
    return found


def values(engine, path, given, names, results):
    """Writes the values of some tensors; on failure the reason, as text, into the file RESULTS.txt."""
    os.environ.update(engine.env(os.cpu_count()))
    try:
        import numpy as np
        z = np.load(given)
        with open(names) as f:
            wanted = f.read().splitlines()
        np.savez(results, **engine.values(path, {name: z[name] for name in z.files}, wanted))
    except BaseException as e:
        with open(results + ".txt", "w") as f:
            f.write((type(e).__name__ + ": " + str(e)).replace("\n", " ")[:300])
        sys.exit(1)


def serve(engine, path, given, results, threads, start):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print

    def say(line):
        out.write(line + "\n")
        out.flush()
    os.environ.update(engine.env(threads))
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        import numpy as np
        t = time.monotonic_ns()
        z = np.load(given)
        inputs = {name: z[name] for name in z.files}
        reading = time.monotonic_ns() - t
        run, fetch = engine.open(path, inputs, threads)
        run()
        first = time.monotonic_ns() - start - reading
        np.savez(results, **{"out_%d" % i: np.asarray(y) for i, y in enumerate(fetch())})
        say("ready %s %.3f" % (engine.version().split()[0], first * 1e-6))
        clock = time.perf_counter
        for line in sys.stdin:
            seconds = float(line.split()[1])
            end = clock() + min(0.05, seconds / 4)
            run()
            while clock() < end:
                run()
            times, t = [], clock()
            end = t + seconds
            while t < end or len(times) < 3:
                run()
                u = clock()
                times.append(u - t)
                t = u
            step = (len(times) + MOST - 1) // MOST
            say("times " + " ".join("%.6g" % (1e3 * v) for v in times[::step]))
    except BaseException as e:
        say("error " + (type(e).__name__ + ": " + str(e)).replace("\n", " ")[:300])
    os._exit(0)


def present(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ENGINES:
        sys.exit(__doc__ + "\nEngines: " + " ".join(ENGINES))
    chosen = ENGINES[sys.argv[1]]()
    if sys.argv[2] == "has":
        sys.exit(0 if all(present(n) for n in chosen.needs + ["numpy"]) else 1)
    if sys.argv[2] == "values":
        sys.exit(values(chosen, *sys.argv[3:7]))
    serve(chosen, sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6]), int(sys.argv[7]))
