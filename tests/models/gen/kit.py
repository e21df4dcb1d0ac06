"""How is a test model described, and what is written for it?

A model is a function that takes an empty `Net`, adds inputs, operators and outputs to it and returns its variants:
a list of input lists, one per reference file.  `@model(...)` puts the function into the register `MODELS`.

Invariants
  - Same bytes on every run: weights come from RandomState (a frozen stream) drawn by `uniform` alone, names are
    counted, protobuf is serialised deterministically, and zip members carry a fixed date.
  - NAME.onnx always passes the full checker of onnx.
  - Reference outputs come from onnx.reference, with the operators of reference_ops.py where that has a gap; for models
    with operators of onnxruntime's own
    domain from onnxruntime, without its optimisations. Their outputs are listed in `open_outputs`, and get the types
    that it gives.
"""
import io
import zipfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import reference_ops

F16, F32, F64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE
I8, I16, I32, I64 = TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64
U8, BOOL, BF16 = TensorProto.UINT8, TensorProto.BOOL, TensorProto.BFLOAT16
STRING = TensorProto.STRING

MODELS = {}  # name -> (covers, opset, ir version, stream, function)


def model(covers, opset=17, ir=None, name=None, stream=None):
    """Registers a model; `stream` names the random stream when several models shall share their weights."""

    def register(function):
        key = name or function.__name__
        assert key not in MODELS, key
        MODELS[key] = (covers, opset, ir or ir_of(opset), stream or key, function)
        return function

    return register


def ir_of(opset):
    """The IR version that the onnx release which brought this opset wrote."""
    last = 3
    for first_opset, ir in ((9, 4), (10, 5), (11, 6), (12, 7), (15, 8), (19, 9), (21, 10), (23, 11)):
        if opset >= first_opset:
            last = ir
    return last


class Net:
    """A graph under construction.  Values are named by strings; arrays and lists as inputs become initialisers."""

    def __init__(self, name, opset, ir, stream, parent=None):
        self.name, self.opset, self.ir, self.parent = name, opset, ir, parent
        self.inputs, self.outputs, self.nodes, self.initialisers, self.sparse = [], [], [], [], []
        self.functions, self.domains, self.metadata = [], {}, {}
        self.open_outputs = []
        self.listed = ir < 4  # before IR 4 an initialiser must be listed as an input, too
        if parent is None:
            self.random = np.random.RandomState(zlib.crc32(stream.encode()) & 0x7FFFFFFF)
            self.counts = {}
        else:
            self.random, self.counts = parent.random, parent.counts

    # --- values -----------------------------------------------------------------------------------------------------
    def fresh(self, stem):
        number = self.counts.get(stem, 0)
        self.counts[stem] = number + 1
        return f"{stem}_{number}"

    def input(self, name, dtype, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def map_input(self, name, dtype):
        """From int64 to numbers; its variants are dicts. In the references: the values, then the keys."""
        info = onnx.ValueInfoProto(name=name)
        info.type.map_type.key_type = I64
        info.type.map_type.value_type.tensor_type.elem_type = dtype
        self.inputs.append(info)
        return name

    def output(self, name, dtype, *shape):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None if shape == (None,) else list(shape)))
        return name

    def init(self, value, name=None):
        """An initialiser: arrays as they are, lists and numbers as int64 or float32."""
        array = as_array(value)
        name = name or self.fresh("const" if array.size < 8 else "weight")
        self.initialisers.append(numpy_helper.from_array(array, name))
        return name

    def const(self, value):
        """A Constant node, as exporters write them."""
        array = as_array(value)
        return self.op("Constant", value=numpy_helper.from_array(array, self.fresh("value")))

    def uniform(self, low, high, *shape, dtype=np.float32):
        return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)

    def ints(self, low, high, *shape, dtype=np.int64):
        """Integers of low..high-1; by `uniform`, since that stream never changes."""
        return np.asarray(np.floor(self.random.uniform(low, high, shape))).astype(dtype)

    def weight(self, *shape, fan=None, name=None):
        """Uniform weights that keep the variance of a signal over `fan` summands."""
        fan = fan or int(np.prod(shape[1:])) or 1
        bound = np.sqrt(3.0 / fan)
        return self.init(self.uniform(-bound, bound, *shape), name)

    # --- operators --------------------------------------------------------------------------------------------------
    def op(self, kind, *inputs, n=1, out=None, domain="", node=None, **attributes):
        names = [i if isinstance(i, str) else self.init(i) for i in inputs]
        if out is None:
            outs = [self.fresh(kind.lower()) for _ in range(n)]
        else:
            outs = [out] if isinstance(out, str) else list(out)
        label = self.fresh(kind) if node is None else node
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(kind, names, outs, name=label, domain=domain, **attributes))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def conv(self, x, cin, cout, kernel, group=1, bias=True, out=None, **attributes):
        kernel = list(kernel)
        w = self.weight(cout, cin // group, *kernel)
        args = [x, w] + ([self.init(self.uniform(-0.2, 0.2, cout))] if bias else [])
        return self.op("Conv", *args, out=out, kernel_shape=kernel, group=group, **attributes)

    def same(self, x, cin, cout, k=3, **attributes):
        """A two-dimensional convolution with symmetric padding."""
        return self.conv(x, cin, cout, [k, k], pads=[k // 2] * 4, **attributes)

    def batch_norm(self, x, channels):
        scale, var = self.uniform(0.6, 1.4, channels), self.uniform(0.5, 1.5, channels)
        bias, mean = self.uniform(-0.3, 0.3, channels), self.uniform(-0.3, 0.3, channels)
        return self.op("BatchNormalization", x, scale, bias, mean, var, epsilon=1e-5)

    def linear(self, x, cin, cout, out=None):
        """MatMul + Add, for any rank."""
        y = self.op("MatMul", x, self.weight(cin, cout, fan=cin))
        return self.op("Add", y, self.uniform(-0.2, 0.2, cout), out=out)

    def gemm(self, x, cin, cout, out=None):
        w = self.weight(cout, cin)
        return self.op("Gemm", x, w, self.uniform(-0.2, 0.2, cout), out=out, transB=1)

    def reduce(self, kind, x, axes, keepdims=1, out=None):
        """Axes as attribute or as input, as the opset wants it."""
        since = 13 if kind == "ReduceSum" else 18
        if self.opset >= since:
            return self.op(kind, x, as_array(axes), out=out, keepdims=keepdims)
        return self.op(kind, x, out=out, axes=axes, keepdims=keepdims)

    def layer_norm(self, x, width):
        """Layer normalisation as exporters wrote it before it had an operator."""
        centred = self.op("Sub", x, self.reduce("ReduceMean", x, [-1]))
        variance = self.reduce("ReduceMean", self.op("Pow", centred, np.float32(2.0)), [-1])
        deviation = self.op("Sqrt", self.op("Add", variance, np.float32(1e-5)))
        scaled = self.op("Mul", self.op("Div", centred, deviation), self.uniform(0.7, 1.3, width))
        return self.op("Add", scaled, self.uniform(-0.2, 0.2, width))

    def gelu(self, x, out=None):
        """Gelu by Erf: x * (erf(x / sqrt 2) + 1) / 2."""
        erf = self.op("Erf", self.op("Div", x, np.float32(np.sqrt(2.0))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, np.float32(1.0))), np.float32(0.5), out=out)

    # --- assembly ---------------------------------------------------------------------------------------------------
    def sub(self, name):
        """A subgraph (branch or body) with names of its own that may read the names of this graph."""
        return Net(name, self.opset, self.ir, None, parent=self)

    def graph(self):
        inputs = list(self.inputs)
        if self.listed and self.parent is None:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in self.initialisers]
        return helper.make_graph(self.nodes, self.name, inputs, self.outputs, self.initialisers,
                                 sparse_initializer=self.sparse)

    def build(self):
        imports = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, v) for d, v in self.domains.items()]
        proto = helper.make_model(self.graph(), opset_imports=imports, ir_version=self.ir, functions=self.functions,
                                  producer_name="einkorn-tests", producer_version="1")
        if self.metadata:
            helper.set_model_props(proto, self.metadata)
        return proto


def as_array(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    array = np.asarray(value)
    if array.dtype == np.float64:
        return array.astype(np.float32)
    return array.astype(np.int64) if array.dtype.kind in "iu" or array.size == 0 else array


def make(name):
    """The model of this name and its variants: proto, [(inputs, outputs), ...], files that lie beside it."""
    covers, opset, ir, stream, function = MODELS[name]
    net = Net(name, opset, ir, stream)
    net.external = {}
    variants = function(net)
    proto = net.build()
    onnx.checker.check_model(proto, full_check=True)
    initial = {t.name for t in proto.graph.initializer}
    names = [v.name for v in proto.graph.input if v.name not in initial]
    if net.open_outputs:
        return by_peer(proto, names, variants, net.open_outputs)
    evaluator = ReferenceEvaluator(with_defaults(proto), new_ops=reference_ops.for_opset(opset))
    runs = []
    for arrays in variants:
        assert len(arrays) == len(names), f"{name}: {len(names)} inputs, {len(arrays)} arrays"
        with np.errstate(all="ignore"):
            results = evaluator.run(None, dict(zip(names, arrays)))
        results = [np.asarray(r) for r in results]
        for value, result in zip(proto.graph.output, results):
            agree(name, value, result)
        runs.append((arrays, results))
    return proto, runs, externalise(proto, net.external, name)


def tensors_of(value):
    """An array as it is; a map as its values and its keys."""
    if not isinstance(value, dict):
        return [value]
    return [np.array(list(value.values()), np.float32), np.array(list(value.keys()), np.int64)]


def by_peer(proto, names, variants, outputs):
    """The model with these outputs, and what onnxruntime computes for them; a dim that differs between the variants is
    left open."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    proto.graph.output.extend(helper.make_empty_tensor_value_info(o) for o in outputs)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    runs = [(sum(map(tensors_of, arrays), []), session.run(None, dict(zip(names, arrays)))) for arrays in variants]
    del proto.graph.output[:]
    for i, name in enumerate(outputs):
        found = [results[i] for _, results in runs]
        dims = [found[0].shape[d] if len({r.shape[d] for r in found}) == 1 else f"{name}_{d}"
                for d in range(found[0].ndim)]
        proto.graph.output.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(found[0].dtype),
                dims))
    return proto, runs, {}


def with_defaults(proto):
    """The model with the defaults of function attributes written out at every call, since onnx.reference skips them."""
    filled = onnx.ModelProto()
    filled.CopyFrom(proto)
    defaults = {}
    for function in filled.functions:
        defaults[function.domain, function.name] = list(function.attribute_proto)
        function.attribute.extend(a.name for a in function.attribute_proto)
        del function.attribute_proto[:]
    for node in filled.graph.node:
        given = {a.name for a in node.attribute}
        node.attribute.extend(a for a in defaults.get((node.domain, node.op_type), []) if a.name not in given)
    return filled


def agree(name, value, array):
    """The reference has the type and the shape that the model declares."""
    tensor = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    assert array.dtype == dtype or array.dtype.kind == "U", f"{name}: {value.name} is {array.dtype}, declared {dtype}"
    assert array.dtype.kind != "f" or np.isfinite(array).all() or name == "special_values", f"{name}: {value.name}"
    if tensor.HasField("shape"):
        declared = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        same = len(declared) == array.ndim and all(d in (-1, s) for d, s in zip(declared, array.shape))
        assert same, f"{name}: {value.name} is {array.shape}, declared {declared}"


def externalise(proto, external, name):
    """Moves the named initialisers (name -> file) into files beside the model, each at a multiple of 64 bytes."""
    files = {}
    for tensor in proto.graph.initializer:
        if tensor.name not in external:
            continue
        location = external[tensor.name]
        data = files.get(location, b"")
        data += bytes(-len(data) % 64)
        raw = tensor.raw_data
        for key, text in (("location", location), ("offset", str(len(data))), ("length", str(len(raw)))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, text
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        files[location] = data + raw
    return files


def npz_bytes(arrays):
    """An .npz whose bytes depend on nothing but the arrays: stored, in order, dated 1980-01-01."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(key + ".npy", (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()
