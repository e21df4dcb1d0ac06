"""Einkorn as a runner of a benchmark harness: a subclass of its Runner, loaded by BENCH_PLUGIN=bench/einkorn_runner.py. Everything timed is one call of ek_run_execute through ctypes; inputs and outputs are bound once.
EINKORN_LIB names libeinkorn.so (default: build/libeinkorn.so beside this folder). Where EINKORN_CACHE_DIR is set, compiled code is kept there: the first start compiles, the next ones load; without it each start compiles."""
import ctypes as C, os


class EinkornInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_int), ("rank", C.c_int32), ("dims", C.c_int64 * 16), ("dim_names", C.c_char_p * 16)]


class EinkornOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("optimize", C.c_int), ("threads", C.c_int), ("compile_threads", C.c_int), ("target", C.c_char_p), ("dims", C.c_void_p), ("fuel", C.c_uint64), ("verify", C.c_int),
                ("evaluate", C.c_int), ("stop_after", C.c_char_p), ("on_pass", C.c_void_p), ("pass_user", C.c_void_p), ("memory_limit", C.c_uint64), ("cache", C.c_char_p), ("cache_bytes", C.c_uint64),
                ("accuracy", C.c_int), ("profile", C.c_int), ("precision", C.c_int)]


class Einkorn(Runner):  # noqa: F821 (Runner is the harness's)
    name = "einkorn"

    def env(self, threads, peers):
        return {"EINKORN_NUM_THREADS": str(threads)}

    def open(self, path, inputs, threads):
        import numpy as np
        here = os.path.dirname(os.path.abspath(os.environ["BENCH_PLUGIN"].split(":")[0]))
        lib = C.CDLL(os.environ.get("EINKORN_LIB", os.path.join(here, "..", "build", "libeinkorn.so")))
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
        options = EinkornOptions()
        lib.ek_options_init(C.byref(options))
        options.cache = b"" if os.environ.get("EINKORN_CACHE_DIR") else None
        check(lib.ek_compile(model, C.byref(options), C.byref(module)))
        check(lib.ek_run_create(module, threads, C.byref(run)))
        self.keep = []
        for i in range(lib.ek_module_inputs(module)):
            info = EinkornInfo()
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
                info, dims, rank = EinkornInfo(), (C.c_int64 * 16)(), C.c_int32()
                check(lib.ek_module_output(module, i, C.byref(info)))
                check(lib.ek_run_output_dims(run, i, dims, C.byref(rank)))
                shape = tuple(dims[: rank.value])
                dt = np.dtype(kinds[info.type])
                n = int(np.prod(shape)) * dt.itemsize
                out.append(np.frombuffer(C.string_at(lib.ek_run_output_data(run, i), n), dt).reshape(shape).copy())
            return out

        return call, fetch
