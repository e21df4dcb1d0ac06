"""InferenceSession: a model, compiled by Einkorn when the session is made."""
import json
import os
import re
import threading
import time
import warnings

import numpy

import einkorn

from .. import _values
from .._header import Header, text_outputs
from .._module import _options
from ._errors import Fail, InvalidArgument, InvalidProtobuf, NotImplemented, error, translate, unavailable
from ._options import SessionOptions
from ._process import get_available_providers
from ._types import code_of, dtype_of, type_text, word_of
from ._values import IOBinding, OrtValue, unwrap

_NO_VERSION = (1 << 63) - 1


class NodeArg:
    """An input or output: name, type as onnxruntime writes it, shape with names or None where it is open."""

    def __init__(self, name, kind, shape):
        self.name, self.type, self.shape = name, kind, shape

    def __repr__(self):
        return "NodeArg(name=%r, type=%r, shape=%r)" % (self.name, self.type, self.shape)


class ModelMetadata:
    """What the model's file says about itself."""

    def __init__(self, header):
        self.producer_name, self.graph_name, self.domain = header.producer_name, header.graph_name, header.domain
        self.description, self.graph_description = header.doc_string, header.graph_doc_string
        self.version = header.model_version or _NO_VERSION
        self.custom_metadata_map = dict(header.metadata)


class _Profile:
    """Chrome trace events of a session, written when profiling ends."""

    def __init__(self, prefix):
        self.start_ns, self.events = time.perf_counter_ns(), []
        self.path = "%s_%s.json" % (prefix.rstrip("_"), time.strftime("%Y-%m-%d_%H-%M-%S"))

    def add(self, category, name, start_ns, ns, **args):
        self.events.append({"cat": category, "pid": os.getpid(), "tid": threading.get_ident(), "dur": ns // 1000,
                            "ts": (start_ns - self.start_ns) // 1000, "ph": "X", "name": name, "args": args})

    def end(self):
        with open(self.path, "w") as f:
            json.dump(self.events, f)
        return self.path


class InferenceSession:
    """A compiled model. Sizes that the model leaves open stay open. Two kinds of models are compiled for what a run
    brings, once for each such combination: those whose inputs are sequences or optional, for their numbers of tensors,
    and those that do not hold for any size, such as one with a Squeeze that names no axes, for their sizes."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._source = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._source = bytes(path_or_bytes)
        else:
            raise TypeError("Unable to load from type '%s'" % type(path_or_bytes))
        self._options = sess_options or SessionOptions()
        self._check_providers(providers)
        if self._options.optimized_model_filepath:
            raise unavailable("optimized_model_filepath")
        self._profile = _Profile(self._options.profile_file_prefix) if self._options.enable_profiling else None
        self._header = self._read_header()
        self._flexible = {n: t for n, t in self._required().items() if t.kind in ("seq", "optional")}
        self._modules, self._by_size = {}, False
        if not self._flexible:
            self._first_module()
        self._inputs = [self._node_arg(n, t, "inputs") for n, t in self._required().items()]
        self._outputs = [self._node_arg(n, t, "outputs") for n, t in self._header.outputs.items()]
        self._input_names = {a.name: a for a in self._inputs}
        self._output_names = [a.name for a in self._outputs]
        self._ports = {n: _values.port(n, t, self._header.zipmaps.get(n, ())) for n, t in self._header.outputs.items()}

    # ---- made ----
    def _read_header(self):
        header = Header(self._source, zipmaps=True)
        if not isinstance(self._source, str) and not header.outputs:
            raise error(InvalidProtobuf, "Failed to load model because protobuf parsing failed.")
        return header

    def _required(self):
        return {n: t for n, t in self._header.inputs.items() if n not in self._header.initializers}

    @staticmethod
    def _check_providers(providers):
        for p in providers or ():
            name = p[0] if isinstance(p, (tuple, list)) else p
            if name not in get_available_providers():
                warnings.warn("Specified provider '%s' is not in available provider names. Available providers: '%s'"
                              % (name, ", ".join(get_available_providers())), stacklevel=3)

    def _first_module(self):
        try:
            self._module_for(())
        except (Fail, NotImplemented):
            open_sizes = any(not isinstance(d, int) for t in self._required().values() for d in t.shape or ("?",))
            if not open_sizes:
                raise
            self._by_size = True

    def _module_for(self, fixed):
        """The module for these numbers of tensors and sizes, ((name, number), ..)."""
        if fixed in self._modules:
            return self._modules[fixed]
        o, start = self._options, time.perf_counter_ns()
        more = {k[8:]: v for k, v in o._entries.items() if k.startswith("einkorn.")}
        unknown = set(more) - {"accuracy", "precision", "cache", "memory_limit", "ops"}
        if unknown:
            raise error(InvalidArgument, "the configuration entry einkorn.%s is not known" % unknown.pop())
        try:
            options = _options(dims={**o._dims, **dict(fixed)}, threads=o.intra_op_num_threads, **more)
            options["texts"] = text_outputs(self._header)
            if self._profile:
                options.update(profile=1, cache=None)
            module = einkorn.Module(self._source, options)
        except einkorn.EinkornError as e:
            raise translate(e, True) from e
        if self._profile:
            self._profile.add("Session", "session_initialization", start, time.perf_counter_ns() - start)
        self._modules[fixed] = module
        return module

    def _node_arg(self, name, kind, where):
        shape = kind.shape
        if kind.kind == "tensor" and self._modules and (shape is None or self._options._dims):
            module = next(iter(self._modules.values()))
            tensor = next((t for t in getattr(module, where) if t.name == name), None)
            if tensor is not None and tensor.shape is not None:
                declared = shape or [None] * len(tensor.shape)
                shape = [s if isinstance(s, int) else d for s, d in zip(tensor.shape, declared)]
        return NodeArg(name, type_text(kind), list(shape or []))

    # ---- asked about ----
    def get_inputs(self):
        return list(self._inputs)

    def get_outputs(self):
        return list(self._outputs)

    def get_overridable_initializers(self):
        """Constants that the model names as inputs too. Einkorn compiles their values in: they cannot be replaced."""
        return [self._node_arg(n, t, "inputs") for n, t in self._header.inputs.items()
                if n in self._header.initializers]

    def get_modelmeta(self):
        return ModelMetadata(self._header)

    def get_session_options(self):
        return self._options

    def get_providers(self):
        return get_available_providers()

    def get_provider_options(self):
        return {p: {} for p in get_available_providers()}

    def set_providers(self, providers=None, provider_options=None):
        self._check_providers(providers)

    def enable_fallback(self):
        """There is one provider."""

    def disable_fallback(self):
        """There is one provider."""

    def get_profiling_start_time_ns(self):
        return self._profile.start_ns if self._profile else 0

    def end_profiling(self):
        """Writes the trace; its path, or '' where the options do not ask for one."""
        return self._profile.end() if self._profile else ""

    def get_tuning_results(self):
        return []

    def set_tuning_results(self, results, error_on_invalid=False):
        raise unavailable("set_tuning_results")

    def set_ep_dynamic_options(self, options):
        raise unavailable("set_ep_dynamic_options")

    def io_binding(self):
        return IOBinding(self)

    # ---- values ----
    def _input_name(self, name):
        if name in self._input_names:
            return self._input_names[name]
        if name in self._header.initializers:
            raise error(InvalidArgument, "%s is a constant of the model: its value is compiled in and cannot be "
                                         "replaced" % name)
        raise error(InvalidArgument, "Invalid input name: %s" % name)

    def _output_name(self, name):
        if name not in self._output_names:
            raise error(InvalidArgument, "Invalid output name:%s" % name)

    def _tensor(self, arg, kind, value):
        """A value for a tensor, checked as onnxruntime does it."""
        if value is None:
            raise error(InvalidArgument, "input %s: a tensor is expected, found None" % arg)
        array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        if not hasattr(value, "dtype") and code_of(array.dtype) != kind.element:
            array = self._listed(array, kind.element)
        if code_of(array.dtype) != kind.element:
            raise error(InvalidArgument, "Unexpected input data type. Actual: (tensor(%s)) , expected: (tensor(%s))"
                        % (word_of(code_of(array.dtype)), word_of(kind.element)))
        if kind.shape is not None and array.ndim != len(kind.shape):
            raise error(InvalidArgument, "Invalid rank for input: %s Got: %d Expected: %d Please fix either the "
                                         "inputs/outputs or the model." % (arg, array.ndim, len(kind.shape)))
        wrong = [" index: %d Got: %d Expected: %d\n" % (i, a, d) for i, (a, d) in
                 enumerate(zip(array.shape, kind.shape or ())) if isinstance(d, int) and a != d]
        if wrong:
            raise error(InvalidArgument, "Got invalid dimensions for input: %s for the following indices\n%s Please "
                                         "fix either the inputs/outputs or the model." % (arg, "".join(wrong)))
        return array

    @staticmethod
    def _listed(array, code):
        """A list of Python's numbers takes the type that is asked for."""
        return array.astype(dtype_of(code)) if array.dtype.kind in "biuf" and code != 8 else array

    def _feed(self, feed):
        """(module, its inputs) for a feed."""
        missing = [n for n in self._input_names if n not in feed and n not in self._flexible]
        missing += [n for n, t in self._flexible.items() if n not in feed and t.kind == "seq"]
        if missing:
            raise ValueError("Required inputs (%s) are missing from input feed (%s)." % (missing, list(feed)))
        counts, values = [], {}
        for name, value in feed.items():
            self._input_name(name)
            if name not in self._flexible:
                values[name] = self._tensor(name, self._header.inputs[name], unwrap(value))
        for name, kind in self._flexible.items():
            items = self._items(name, kind, unwrap(feed.get(name)))
            counts.append((name, len(items)))
            values.update(items)
        return None if self._by_size else self._module_for(tuple(counts)), values

    def _items(self, name, kind, value):
        """The tensors of a sequence or an optional value: a list of (name, array)."""
        try:
            items = _values.tensors(_values.port(name, kind), value)
        except einkorn.ShapeError as e:
            raise translate(e, False) from e
        while kind.inner is not None:
            kind = kind.inner
        return [(n, self._tensor(name, kind, unwrap(v))) for n, v in items]

    def _results(self, results, names):
        """What was computed, by the model's outputs: sequences as lists, maps as dicts."""
        return [_values.value(self._ports[n], results) for n in names]

    # ---- run ----
    def run(self, output_names, input_feed, run_options=None):
        """Computes outputs: a list of arrays, lists (sequences) and dicts (maps)."""
        names = output_names or self._output_names
        for n in names:
            self._output_name(n)
        if run_options is not None and run_options.terminate:
            raise error(Fail, "Exiting due to terminate flag being set to true.")
        module, values = self._feed(input_feed)
        return self._results(self._execute(module, values), names)

    def _execute(self, module, values, out=None):
        try:
            if self._by_size:
                return self._run_module(self._module_of_sizes(values), values, out)
            return self._run_module(module, values, out)
        except einkorn.ShapeError as e:
            try:
                if self._by_size or self._flexible or not self._sizes(values):
                    raise translate(e, False) from e
                results = self._run_module(self._module_of_sizes(values), values, out)
            except (einkorn.EinkornError, Fail, NotImplemented):
                raise translate(e, False) from e
            self._by_size = True
            return results
        except einkorn.EinkornError as e:
            raise translate(e, False) from e

    def _run_module(self, module, values, out):
        return self._profiled(module, values) if self._profile else module.run(values, out)

    def _sizes(self, values):
        """What a run says of the sizes that the model leaves open, ((name, size), ..)."""
        found = {}
        for name, value in values.items():
            for axis, d in enumerate(self._header.inputs[name].shape or ()):
                if not isinstance(d, int):
                    found[self._size_name(name, axis, d)] = numpy.shape(value)[axis]
        return tuple(sorted(found.items()))

    @staticmethod
    def _size_name(name, axis, size):
        return size if size and re.fullmatch(r"[A-Za-z_][\w.]*", size) else "%s.%d" % (name, axis)

    def _module_of_sizes(self, values):
        return self._module_for(self._sizes(values))

    def _profiled(self, module, values):
        start = time.perf_counter_ns()
        results, kernels = module._profile(values)
        self._profile.add("Session", "model_run", start, time.perf_counter_ns() - start)
        for k in kernels:
            ns = int(k["ms"] * 1e6)
            self._profile.add("Node", k["name"] + "_kernel_time", start, ns, op_name=k["kind"], nodes=k["nodes"],
                              provider=get_available_providers()[0])
            start += ns
        return results

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        return [OrtValue(v) for v in self.run(output_names, input_dict_ort_values, run_options)]

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices):
        fetches[:] = self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options)

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Runs in a thread; then calls callback(results, user_data, error), where error is '' if all went well."""
        def work():
            try:
                results, text = self.run(output_names, input_feed, run_options), ""
            except Exception as e:
                results, text = [], str(e)
            callback(results, user_data, text)
        threading.Thread(target=work, daemon=True).start()

    def run_with_iobinding(self, iobinding, run_options=None):
        iobinding._run()

    def _run_bound(self, inputs, outputs):
        module, values = self._feed(inputs)
        given = {n: a for n, a in outputs.items() if a is not None}
        results = self._execute(module, values, given or None)
        return self._results(results, list(outputs) or self._output_names)

    def create_ortvalue_from_shape_and_type(self, shape, element_type, *_, **__):
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type)
