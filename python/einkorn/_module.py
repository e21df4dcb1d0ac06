"""Compiled models: compile, load and the class Module."""
import os
import re
from typing import NamedTuple

import numpy

from . import _core
from ._arrays import dtype as _dtype
from ._errors import UsageError
from ._header import Header, text_outputs
from ._library import get_program

Bound = _core.Bound
_ACCURACY = {"default": 0, "strict": 1, "fast": 2}
_PRECISION = {"model": 0, "bf16": 1, "f16": 2}
_CODEGEN = {"auto": 0, "llvm": 1}


class Tensor(NamedTuple):
    """An input or output of a module."""
    name: str
    dtype: numpy.dtype
    shape: tuple  # an int for each fixed dimension, a str for each open one; None: only a run knows the rank

    def __str__(self):
        return "%s: %s[%s]" % (self.name, self.dtype.name, ", ".join(map(str, self.shape or ("?",))))


def _choice(key, value, words):
    if value in words:
        return words[value]
    raise UsageError("%s=%r: %s is expected" % (key, value, " or ".join(map(repr, words))))


def _bytes_number(key, value):
    """A number of bytes: an int, or a text such as '500M'."""
    if not isinstance(value, str):
        return value
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    number, unit = value[:-1], value[-1:].upper()
    if unit in units and number.isdigit():
        return int(number) << units[unit]
    if value.isdigit():
        return int(value)
    raise UsageError("%s=%r: a number of bytes is expected, such as 500000000, '500M' or '2G'" % (key, value))


def _dims(dims):
    """{"N": 8, "T": (1, 8, 64), "L": (1, None, 64)} as the C library takes it."""
    rows = []
    for name, size in (dims or {}).items():
        if isinstance(size, (tuple, list)) and len(size) == 3:
            rows.append("%s=%d:%s:%d" % (name, size[0], "" if size[1] is None else "%d" % size[1], size[2]))
        elif isinstance(size, (int, numpy.integer)):
            rows.append("%s=%d" % (name, size))
        else:
            raise UsageError("dims: %r=%r: a number, or (least, likely or None, most), is expected" % (name, size))
    return rows


def _definitions(ops):
    """Operators: a path, a text with a definition, an Operator, or a list of these."""
    if ops is None:
        return []
    if isinstance(ops, (str, os.PathLike)) or hasattr(ops, "definitions"):
        ops = [ops]
    rows = []
    for o in ops:
        if hasattr(o, "definitions"):
            rows += o.definitions
        elif isinstance(o, str) and ("{" in o or "\n" in o):
            rows.append(("ops", o))
        else:
            rows.append((os.fspath(o), None))
    return rows


def _source(model):
    """(path or bytes-like, name) of a model."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        return os.fsdecode(path), None
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(), getattr(getattr(model, "graph", None), "name", None) or "model"
    return model, "model"


def _log(level, text):
    """Warnings and notes of the library go to the logger "einkorn"; errors are raised."""
    import logging
    levels = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    if level:
        logging.getLogger("einkorn").log(levels[level], "%s", text)


def _schedule(schedule):
    """Schedules of kernels: a text, which has several lines, or the path of a file."""
    if schedule is None or (isinstance(schedule, str) and "\n" in schedule):
        return {"schedule": schedule}
    with open(schedule, encoding="utf-8") as file:
        return {"schedule": file.read(), "schedule_name": os.fspath(schedule)}


def _options(dims=None, threads=0, target=None, precision="model", accuracy="default", ops=None, cache=None,
             memory_limit=0, progress=None, optimize=3, codegen="auto", watch=None, unchecked=False, evaluate=0,
             compile_threads=0, compile_memory=0, states=None, schedule=None, reproducible=False):
    """A dict as the extension reads it."""
    return {"dims": _dims(dims), "threads": threads, "target": None if target is None else os.fspath(target),
            "precision": _choice("precision", precision, _PRECISION),
            "accuracy": _choice("accuracy", accuracy, _ACCURACY), "ops": _definitions(ops),
            "cache": "" if cache is True else None if cache in (None, False) else os.fspath(cache),
            "memory_limit": _bytes_number("memory_limit", memory_limit), "progress": progress, "optimize": optimize,
            "codegen": _choice("codegen", codegen, _CODEGEN), "watch": list(watch or []), "unchecked": int(unchecked),
            "reproducible": int(reproducible),
            "evaluate": evaluate, "compile_threads": compile_threads,
            "states": ["%s=%s" % both for both in (states or {}).items()],
            "compile_memory": _bytes_number("compile_memory", compile_memory), "log": _log,
            **_schedule(schedule)}


def compile(model, *, dims=None, threads=0, target=None, precision="model", accuracy="default", ops=None, cache=None,
            memory_limit=0, progress=None, states=None, **more):
    """Compiles a model to a Module.

    model         path of a file (.onnx, or a graph as text), its bytes, or an onnx.ModelProto
    dims          sizes of open dimensions: {"N": 8}, or bounds {"N": (least, likely or None, most)}
    threads       threads of a run; 0: what the process may use
    target        a target's name or file; None: this machine
    precision     "model", or "bf16" or "f16" for factors of products
    accuracy      "default", "strict" (sums in another order only) or "fast" (shorter exp, tanh, erf)
    ops           operator definitions: files, texts, or what op() gave
    cache         True: keep compiled code in the user's cache folder; a path: in that folder
    memory_limit  most bytes of working memory of a run, such as "1G"; 0: no limit
    progress      called as progress(phase, part done); a true answer cancels
    states        {output: input}: each output is tied to that input. Neither is an output or input any more: the tensor
                  stays inside, and what the output is in one call, the input is in the next; at first zeros, or the
                  contents of the initialiser of that name. A * in both names stands for the same text in all that
                  fit. See Module.reset, snapshot and restore
    more          optimize (0 to 3), codegen ("auto", "llvm"), watch (names of tensors that become outputs),
                  unchecked (no check of indices), reproducible (the same bits with any number of threads),
                  compile_threads, compile_memory, schedule (schedules of kernels as module.show("schedule") gives
                  them: a text, or a file's path)

    Raises an EinkornError, such as ModelError, UnsupportedError or ShapeError. Ctrl-C ends it.
    """
    return Module(model, _options(dims, threads, target, precision, accuracy, ops, cache, memory_limit, progress,
                                  states=states, **more))


def load(library):
    """Loads a library that Module.save wrote (.so): a path, or its bytes. It runs code, so load only what you trust."""
    return Module(library, dict(_options(), library=True))


def check(model, **options):
    """Raises an error that tells all problems of a model at once; does everything short of making code. Options as
    compile."""
    Module(model, dict(_options(**options), check=True)).close()


def _made(model, options):
    return Module(model, dict(options))


class Module(_core.Module):
    """A compiled model: ``module(x, y)`` or ``module(name=x)`` gives its output, or a tuple of its outputs.

    Arrays are used where they lie (numpy, DLPack, anything with the buffer protocol). Threads may call one module at
    the same time. Made by compile() and load().
    """

    def __new__(cls, model, options):
        source, name = _source(model)
        if not options.get("library"):
            options = dict(options, name=name)
            if "texts" not in options:
                options["texts"] = text_outputs(Header(source))
        self = super().__new__(cls, source, options)
        self._model = source
        return self

    @property
    def inputs(self):
        """The inputs, as Tensor."""
        return tuple(_tensor(*row) for row in self._inputs)

    @property
    def outputs(self):
        """The outputs, as Tensor."""
        return tuple(_tensor(*row) for row in self._outputs)

    @property
    def states(self):
        """What stays from call to call, as Tensor, under the names of the inputs. All calls of the module share one set
        of states; what bind() gives has its own."""
        return tuple(_tensor(*row) for row in self._states)

    @property
    def report(self):
        """What compiling came to: a dict of times in milliseconds, sizes in bytes, numbers of kernels."""
        return self._report

    @property
    def memory(self):
        """Working memory of a run in bytes: an int, or a formula in the open dimensions and `threads`."""
        text = self._report["memory"] or ""
        names = set(re.findall(r"[^\W\d][\w.]*", text))
        if names - {"threads"} or not re.fullmatch(r"[\w\s()+*/-]+", text):
            return text
        return eval(text, {"__builtins__": {}}, {"threads": self._options["threads"] or _core.threads()})

    def save(self, path):
        """Writes the compiled code as a library (.so), object (.o) or C source (.c), with a header beside it; or the
        model itself (.onnx). Returns a report as `report`. With a memory_limit every run of what is saved keeps within
        it, at the largest sizes that it permits; else this raises OutOfMemoryError."""
        return self._save(path, self._options)

    def show(self, stage="graph", *, after=None, node=None, weights=False, grad=None):
        """The text of a level of the compiler: graph, expr, schedule, candidates, loop, cost, program, llvm, asm.

        grad       the name of a tensor ("": the first output): with the derivatives of its sum by all inputs of floats
                   and all parameters, as outputs gradient.NAME"""
        return self._show(self._options, stage, after, node, weights, grad)

    def check(self):
        """Raises an error with all problems of the model; None where there are none."""
        return self._check(self._options)

    def kernels(self, inputs):
        """Runs the model on `inputs` (a dict by name) with a clock around each kernel: a list of dicts."""
        with _made(self._model, dict(self._options, profile=1, cache=None)) as timed:
            timed.run(inputs)
            return timed._profile(inputs)[1]

    def explain(self, *, seconds=1.0):
        """Where the time of a run goes, kernel by kernel, as text (einkorn explain). Open sizes are the least."""
        return _program(self, ["explain", "--seconds", str(seconds)])

    def close(self):
        """Gives the memory back as soon as no call uses it; the module cannot be called afterwards."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        options = {k: v for k, v in self._options.items() if k not in ("progress", "log", "texts")}
        model = self._model if isinstance(self._model, str) else bytes(self._model)
        return _made, (model, dict(options, log=_log))

    def __repr__(self):
        return "<einkorn.Module (%s) -> (%s)>" % (", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs)))


def _tensor(name, type_name, shape, text):
    return Tensor(name, _dtype(type_name, text), shape[:-1] if text else shape)


def _program(module, command):
    """What the program `einkorn` prints about a module's model."""
    import subprocess
    import tempfile
    options = module._options
    words = ["--threads", str(options["threads"])] if options["threads"] else []
    for d in options["dims"]:
        words += ["--dim", d]
    with tempfile.TemporaryDirectory() as folder:
        path = module._model
        if not isinstance(path, str):
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as f:
                f.write(module._model)
        for i, (name, text) in enumerate(options["ops"]):
            if text is not None:
                name = os.path.join(folder, "%d.ek" % i)
                with open(name, "w", encoding="utf-8") as f:
                    f.write(text)
            words += ["--ops", name]
        done = subprocess.run([get_program(), command[0], path] + command[1:] + words, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(done.stderr.strip() or "einkorn %s failed" % command[0])
    return done.stdout
