"""ONNX files, written without the package onnx: the messages that a traced function needs, as bytes of protobuf."""
import struct

import numpy

from ._errors import UnsupportedError, UsageError
from ._header import fields, text

# TensorProto.DataType of the dtypes that a function's arrays may have
CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
         "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}


def _varint(n):
    rows = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        rows.append(n & 127 | 128)
        n >>= 7
    return bytes(rows) + bytes([n])


def number(field, n):
    return _varint(field << 3) + _varint(n)


def part(field, content):
    """A text, bytes, or a message."""
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _attribute(name, value, kind):
    """kind: int, float or str, as in a signature of an operator; a list where the value is one."""
    many = not isinstance(value, (str, bytes)) and numpy.ndim(value) == 1
    values = value if many else [value]
    if kind == "float":
        code, body = 1, b"".join(_varint((7 if many else 2) << 3 | 5) + struct.pack("<f", v) for v in values)
    elif kind == "str":
        code, body = 3, b"".join(part(9 if many else 4, str(v)) for v in values)
    else:
        code, body = 2, b"".join(number(8 if many else 3, int(v)) for v in values)
    return part(1, name) + body + number(20, code + 5 if many else code)


def node(op, domain, inputs, outputs, attributes=()):
    """attributes: (name, value, kind) of each."""
    rows = [part(1, name) for name in inputs] + [part(2, name) for name in outputs]
    rows += [part(3, "%s.%s" % (op, outputs[0])), part(4, op), part(7, domain)]
    return b"".join(rows + [part(5, _attribute(*a)) for a in attributes])


def code_of(array):
    if array.dtype.name not in CODES:
        raise UsageError("arrays of type %s are not supported" % array.dtype.name)
    return CODES[array.dtype.name]


def tensor(name, array):
    rows = [number(1, n) for n in array.shape]
    return b"".join(rows + [number(2, code_of(array)), part(8, name), part(9, array.tobytes())])


def value(name, array):
    """An input with the type and the sizes of an array."""
    shape = b"".join(part(1, number(1, n)) for n in array.shape)
    return part(1, name) + part(2, part(1, number(1, code_of(array)) + part(2, shape)))


def model(nodes, inputs, outputs, constants, functions, domains):
    """All but `outputs` and `domains`, which are names, are messages."""
    graph = [part(1, n) for n in nodes] + [part(2, "function")] + [part(5, c) for c in constants]
    graph += [part(11, i) for i in inputs] + [part(12, part(1, o)) for o in outputs]
    rows = [number(1, 10), part(7, b"".join(graph))] + [part(25, f) for f in functions]
    return b"".join(rows + [part(8, part(1, d) + number(2, 1 if d else 23)) for d in domains])


class Function:
    """A model as a function of ONNX. Its constants are inputs of it, behind those of the model."""

    def __init__(self, source):
        """source: the bytes of a file that Module.save wrote: nothing in it is sparse, and no function is left."""
        self.inputs, self.outputs, self.constants, rows = [], [], [], []
        rows += [part(9, source[v[0]:v[1]]) for n, v in fields(source) if n == 8]
        for field, span in fields(source, *next(v for n, v in fields(source) if n == 7)):
            content = source[span[0]:span[1]]
            if field == 1:
                rows.append(part(7, content))
            elif field == 5:
                self.constants.append((_name(content, 8), content))
            elif field in (11, 12):
                (self.inputs if field == 11 else self.outputs).append(_name(content, 1))
        if any(n == 13 for _, content in self.constants for n, _ in fields(content)):
            raise UnsupportedError("grad: the model's constants are too large for one file")
        rows += [part(4, name) for name in self.inputs + [name for name, _ in self.constants]]
        self._body = b"".join(rows + [part(5, name) for name in self.outputs])

    def message(self, name, domain):
        return part(1, name) + part(10, domain) + self._body

    def tensors(self, names):
        """The constants under these names: of a field that occurs twice the last one counts."""
        return [content + part(8, name) for name, (_, content) in zip(names, self.constants)]


def _name(content, field):
    return next(text(content, v) for n, v in fields(content) if n == field)
