"""einkorn as a backend of ONNX, as ``onnx.backend.base`` describes one (needs the package onnx).

    import einkorn.backend
    model = einkorn.backend.prepare(onnx.load("model.onnx"))
    y, = model.run([x])

Sequences are lists, an optional without contents is None, maps are dicts, strings are arrays of objects. The
functions of the module are the class methods of ``EinkornBackend``; options of ``einkorn.compile`` may be given to
those that compile."""
import numpy
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from . import _images, _values
from ._errors import ModelError, ShapeError, UnsupportedError, UsageError
from ._header import Type
from ._module import compile

# Axes, sizes and conditions that are inputs: where a model cannot be compiled, or run, with them open, they become
# constants of the code, as few as possible. Step by step: the most rank of such an input of integers or booleans, and
# of one of floats (scales, which are lists); -1: none.
_STEPS = ((-1, -1), (0, -1), (1, -1), (16, -1), (16, 1))
_SMALL = 64  # most elements of an input that becomes a constant
_KEPT = 16   # most variants of a model that are kept compiled


def _port(model, info):
    data = info.type.SerializeToString()
    zipped = [n for n in model.graph.node if n.op_type == "ZipMap" and info.name in n.output]
    keys = [k.decode("utf-8") if isinstance(k, bytes) else k
            for n in zipped for a in n.attribute for k in helper.get_attribute_value(a)]
    return _values.port(info.name, Type(data, (0, len(data))), keys)


def _tensor_type(kind):
    """The type of a port's tensors, inside of a TypeProto."""
    which = kind.WhichOneof("value")
    return _tensor_type(getattr(kind, which).elem_type) if which in ("sequence_type", "optional_type") \
        else kind.tensor_type if which == "tensor_type" else None


def _unranked(info):
    """Does an input's type say no rank?"""
    tensor = _tensor_type(info.type)
    return tensor is not None and not tensor.HasField("shape")


def _decides(info):
    """Can an input's value become a constant, by its type?"""
    tensor = _tensor_type(info.type)
    if tensor is None or not tensor.HasField("shape"):
        return True
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
    return tensor.elem_type not in floats or len(tensor.shape.dim) < 2


class _Variants:
    """A model, and what it was compiled to: one variant for each number of tensors in its sequences, for each rank of
    the inputs that have no declared one, and for each value of the inputs that became constants.

    constants  names of the inputs that were constants in the last run
    """

    def __init__(self, model, options):
        self._model, self._options, self._compiled = model, options, {}
        given = {t.name for t in model.graph.initializer} | {t.values.name for t in model.graph.sparse_initializer}
        self._infos = [i for i in model.graph.input if i.name not in given]
        self.inputs = [_port(model, i) for i in self._infos]
        self.outputs = [_port(model, o) for o in model.graph.output]
        self.constants = []
        if all(p.kind == "tensor" for p in self.inputs) and not any(map(_unranked, self._infos)):
            try:
                self._module([], {})
            except (ModelError, ShapeError, UnsupportedError):
                if not any(map(_decides, self._infos)):
                    raise

    def run(self, feed):
        """The values of the outputs, from those of the inputs by name."""
        given = [(p, i, feed[p.name], _values.tensors(p, feed[p.name])) for p, i in zip(self.inputs, self._infos)]
        tried, opened, failed = None, False, None
        for step in _STEPS:
            constants = {n: v for p, _, _, rows in given if p.kind == "tensor" for n, v in rows if _constant(v, step)}
            if constants.keys() == tried:
                continue
            tried = constants.keys()
            try:
                module = self._module(given, constants)
                opened = opened or not constants
                results = module.run({n: v for _, _, _, rows in given for n, v in rows if n not in constants})
            except (ModelError, ShapeError, UnsupportedError) as error:
                if failed is None or not opened:
                    failed = error  # of code for all values, or that of the code that knows most
                continue
            self.constants = sorted(constants)
            return [_values.value(p, results) for p in self.outputs]
        raise failed

    def _module(self, given, constants):
        unranked = {p.name: numpy.ndim(rows[0][1]) for p, i, _, rows in given if rows and _unranked(i)}
        absent = [p.name for p, _, v, _ in given if p.kind == "optional sequence" and v is None]
        counts = {p.name: len(rows) for p, _, _, rows in given if p.kind in _values.LISTS and p.name not in absent}
        key = (tuple(absent), tuple(counts.items()), tuple(unranked.items()),
               tuple((n, v.dtype.str, v.shape, v.tobytes()) for n, v in constants.items()))
        found = self._compiled.get(key)
        if found is None:
            if len(self._compiled) >= _KEPT:
                self._compiled.pop(next(iter(self._compiled)), None)
            model = self._model
            if unranked or absent or constants:
                model = _with(model, unranked, absent, constants)
            options = dict(self._options, dims={**counts, **(self._options.get("dims") or {})})
            try:
                found = compile(model, **options)
            except (ModelError, ShapeError, UnsupportedError) as error:
                found = error
            self._compiled[key] = found
        if isinstance(found, Exception):
            raise type(found)(*found.args)
        return found


def _constant(value, step):
    """Does an input become a constant in this step?"""
    if not isinstance(value, (numpy.ndarray, numpy.generic)) or value.size > _SMALL:
        return False
    return value.ndim <= (step[1] if value.dtype.kind == "f" else step[0] if value.dtype.kind in "biu" else -1)


def _with(model, unranked, absent, constants):
    """The model with ranks for inputs that have none, with optionals that are not there, with constants for inputs."""
    changed = type(model)()
    changed.CopyFrom(model)
    graph = changed.graph
    for info in list(graph.input):
        if info.name in unranked:
            shape = _tensor_type(info.type).shape
            shape.SetInParent()
            for _ in range(unranked[info.name]):
                shape.dim.add()
        if info.name in absent:
            graph.node.insert(0, helper.make_node("Optional", [], [info.name], type=info.type.optional_type.elem_type))
            graph.input.remove(info)
    graph.initializer.extend(numpy_helper.from_array(numpy.asarray(v), n) for n, v in constants.items())
    return changed


class EinkornRep(BackendRep):
    """A prepared model."""

    def __init__(self, model, options):
        self._decoded = []  # images to decode before the model runs: (what gives their bytes or None: an input, node)
        for node in _images.decoders(model):
            before, model = _images.without(model, node)
            self._decoded.append((before and _Variants(before, options), node))
        pixels = {node.output[0] for _, node in self._decoded}
        self._model = _Variants(model, options)
        self.inputs = [p for p in self._model.inputs if p.name not in pixels]

    @property
    def constants(self):
        """Names of the inputs whose values the code of the last run was compiled for."""
        return self._model.constants

    def run(self, inputs, **kwargs):
        """Computes the outputs: a tuple that can also be indexed by name.

        inputs: values by position (initializers do not count), a dict by name, or one array. Raises an EinkornError."""
        if kwargs:
            raise UsageError("run has no option %s; prepare takes those of einkorn.compile"
                             % ", ".join(map(repr, kwargs)))
        feed = self._named(inputs)
        for before, node in self._decoded:
            encoded = feed[node.input[0]] if before is None else before.run(feed)[0]
            feed[node.output[0]] = _images.decode(encoded, _images.pixel_format(node))
        return namedtupledict("Outputs", [p.name for p in self._model.outputs])(*self._model.run(feed))

    def _named(self, inputs):
        names = [p.name for p in self.inputs]
        if isinstance(inputs, dict):
            feed = dict(inputs)
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) > len(names):
                raise UsageError("%d inputs are given; the model has %d: %s" % (len(values), len(names), names))
            feed = dict(zip(names, values))
        for p in self.inputs:
            if p.kind.startswith("optional"):
                feed.setdefault(p.name)
        if feed.keys() != set(names):
            raise UsageError("inputs %s are expected, found %s" % (names, list(feed)))
        return feed


class EinkornBackend(Backend):
    """Compiles models and runs them in this process, on the CPU."""

    @classmethod
    def supports_device(cls, device):
        """Only "CPU"."""
        return Device(device).type == DeviceType.CPU

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Can the model be compiled? False where something in it is not supported. What is decided by values of inputs,
        only a run can tell."""
        try:
            cls.prepare(model, device, **kwargs)
        except UnsupportedError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Compiles a ModelProto: an object whose ``run`` computes its outputs. kwargs: options of einkorn.compile.

        Sequences and optionals, and axes, sizes or conditions that must be known, are compiled when a run says them.
        Raises onnx.checker.ValidationError for what is no model, and an EinkornError."""
        if not cls.supports_device(device):
            raise UnsupportedError("device %r: only CPU is there" % (device,))
        super().prepare(model, device)
        return EinkornRep(model, kwargs)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        """prepare and run in one."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one NodeProto on values of its inputs, by position or by name, in the newest opset or `opset_version`.
        """
        version = kwargs.pop("opset_version", None)
        super().run_node(node, inputs, device, outputs_info, **({"opset_version": version} if version else {}))
        names = [n for n in node.input if n]
        values = inputs if isinstance(inputs, dict) else dict(zip(names, inputs))
        domain = node.domain or ""
        opset = helper.make_opsetid(domain, version or onnx.defs.get_schema(node.op_type, domain).since_version)
        graph = helper.make_graph(
            [node], node.op_type, [helper.make_value_info(n, _type_of(values[n])) for n in dict.fromkeys(names)],
            [onnx.ValueInfoProto(name=n) for n in node.output if n])
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[opset]))
        return EinkornRep(model, kwargs).run(values)


def _type_of(value):
    """The TypeProto of an input's value."""
    if value is None or isinstance(value, (list, tuple)) and not value:
        raise UsageError("run_node: the type of %r is not known; make a model that declares it" % (value,))
    if isinstance(value, (list, tuple)):
        return helper.make_sequence_type_proto(_type_of(value[0]))
    array = numpy.asarray(value)
    text = array.dtype.kind in "OUST"
    element = onnx.TensorProto.STRING if text else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(element, array.shape)


is_compatible = EinkornBackend.is_compatible
prepare = EinkornBackend.prepare
run_model = EinkornBackend.run_model
run_node = EinkornBackend.run_node
supports_device = EinkornBackend.supports_device
