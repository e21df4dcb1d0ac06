"""Einkorn as a runner of a benchmark harness: a subclass of its Runner, loaded by BENCH_PLUGIN=bench/einkorn_runner.py. Everything timed is one call of ek_run_execute through ctypes; inputs and outputs are bound once.
EINKORN_LIB names libeinkorn.so (default: build/libeinkorn.so beside this folder); the structs are read from EINKORN_HEADER (default: include/einkorn/einkorn.h of this folder's project). Where EINKORN_CACHE_DIR is set, compiled code is kept there: the first start compiles, the next ones load; without it each start compiles."""
import ctypes as C, os, re

SIMPLE = {"int": C.c_int, "int32_t": C.c_int32, "int64_t": C.c_int64, "uint32_t": C.c_uint32, "uint64_t": C.c_uint64, "size_t": C.c_size_t, "double": C.c_double, "ek_type": C.c_int}


def structure(header, name):
    """The struct of that name in the text of einkorn.h, as ctypes lays it out."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    constants = {k: int(v) for k, v in re.findall(r"#define (EK_\w+) (\d+)", text)}
    enums = set(re.findall(r"\}\s*(ek_\w+);", re.sub(r"typedef struct .*?\}\s*ek_\w+;", "", text, flags=re.S)))
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), text, re.S).group(1)
    fields = []
    for line in filter(None, (f.strip() for f in body.split(";"))):
        function = re.match(r"[\w\s*]+?\(\*(\w+)\)\(", line)
        if function:
            fields.append((function.group(1), C.c_void_p))
            continue
        kind, names = re.match(r"((?:const\s+)?\w+)\s*(.*)", line, re.S).groups()
        kind = kind.replace("const", "").strip()
        for n in names.split(","):
            stars, field, count = re.match(r"\s*((?:\*\s*|const\s+)*)(\w+)\s*(?:\[(\w+)\])?$", n, re.S).groups()
            stars = stars.count("*")
            t = (C.c_char_p if kind == "char" and stars == 1 else C.c_void_p) if stars else C.c_int if kind in enums else SIMPLE[kind]
            fields.append((field, t * constants.get(count, int(count) if count.isdigit() else 0) if count else t))
    return type(name, (C.Structure,), {"_fields_": fields})


class Einkorn(Runner):  # noqa: F821 (Runner is the harness's)
    name = "einkorn"

    def env(self, threads, peers):
        return {"EINKORN_NUM_THREADS": str(threads)}

    def open(self, path, inputs, threads):
        import numpy as np
        here = os.path.dirname(os.path.abspath(os.environ["BENCH_PLUGIN"].split(":")[0]))
        lib = C.CDLL(os.environ.get("EINKORN_LIB", os.path.join(here, "..", "build", "libeinkorn.so")))
        with open(os.environ.get("EINKORN_HEADER", os.path.join(here, "..", "include", "einkorn", "einkorn.h"))) as f:
            header = f.read()
        Options, Info = structure(header, "ek_options"), structure(header, "ek_tensor_info")
        lib.ek_session_create.restype = C.c_void_p
        lib.ek_message.restype = C.c_char_p
        lib.ek_run_output_data.restype = C.c_void_p
        session = C.c_void_p(lib.ek_session_create())

        def check(code):
            if code:
                raise RuntimeError(lib.ek_message(session).decode())

        def handle():
            return C.c_void_p()

        model, module, run = handle(), handle(), handle()
        check(lib.ek_load(session, os.fsencode(path), C.byref(model)))
        options = Options()
        lib.ek_options_init_sized(C.byref(options), C.c_size_t(C.sizeof(options)))
        options.cache = b"" if os.environ.get("EINKORN_CACHE_DIR") else None
        check(lib.ek_compile(model, C.byref(options), C.byref(module)))
        check(lib.ek_run_create(module, threads, C.byref(run)))
        self.keep = []
        for i in range(lib.ek_module_inputs(module)):
            info = Info()
            check(lib.ek_module_input(module, i, C.byref(info)))
            a = np.ascontiguousarray(inputs[info.name.decode()])
            self.keep.append(a)
            check(lib.ek_run_shape(run, i, (C.c_int64 * max(a.ndim, 1))(*a.shape), a.ndim))
            check(lib.ek_run_bind_input(run, i, C.c_void_p(a.ctypes.data)))
        check(lib.ek_run_prepare(run))
        execute = lib.ek_run_execute
        kinds = {1: np.float32, 2: np.uint8, 3: np.int8, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}

        def call():
            if execute(run):
                raise RuntimeError("run failed")

        def fetch():
            out = []
            for i in range(lib.ek_module_outputs(module)):
                info, dims, rank = Info(), (C.c_int64 * 16)(), C.c_int32()
                check(lib.ek_module_output(module, i, C.byref(info)))
                check(lib.ek_run_output_dims(run, i, dims, C.byref(rank)))
                shape = tuple(dims[: rank.value])
                dt = np.dtype(kinds[info.type])
                n = int(np.prod(shape)) * dt.itemsize
                out.append(np.frombuffer(C.string_at(lib.ek_run_output_data(run, i), n), dt).reshape(shape).copy())
            return out

        return call, fetch
