"""What an ONNX file says about itself, read without the package onnx: the few fields that the C interface does not
give. The format is protobuf's (https://protobuf.dev/programming-guides/encoding/), the fields those of onnx.proto."""
import os

STRING = 8  # TensorProto.DataType


def fields(data, start=0, end=None):
    """(number, value) of each field of a message: an int, or (start, end) of its bytes. Ends where it is malformed."""
    at, end = start, len(data) if end is None else end
    while at < end:
        key, at = _varint(data, at, end)
        if key is None:
            return
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at, end)
        elif kind == 2:
            size, at = _varint(data, at, end)
            value = None if size is None or at + size > end else (at, at + size)
            at += size or 0
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = (at, at + size), at + size
        else:
            return
        if value is None:
            return
        yield key >> 3, value


def _varint(data, at, end):
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    return None, end


def opened(source):
    """The bytes of a model: a path is mapped. None: it cannot be read."""
    if not isinstance(source, str):
        return memoryview(source).cast("B")
    import mmap
    try:
        with open(source, "rb") as f:
            return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(f.fileno()).st_size else b""
    except (OSError, ValueError):
        return None


class Type:
    """A TypeProto: kind is "tensor", "seq", "map", "optional" or "sparse_tensor", "" where it is malformed."""

    def __init__(self, data, span, depth=0):
        self.kind, self.element, self.shape, self.inner, self.key = "", 0, None, None, 0
        if not isinstance(span, tuple) or depth > 8:
            return
        for number, value in fields(data, *span):
            if number in (1, 8) and isinstance(value, tuple):
                self.kind = "tensor" if number == 1 else "sparse_tensor"
                for n, v in fields(data, *value):
                    if n == 1:
                        self.element = v
                    elif n == 2 and isinstance(v, tuple):
                        self.shape = [_dim(data, d) for k, d in fields(data, *v) if k == 1 and isinstance(d, tuple)]
            elif number in (4, 9) and isinstance(value, tuple):
                self.kind = "seq" if number == 4 else "optional"
                self.inner = next((Type(data, v, depth + 1) for n, v in fields(data, *value) if n == 1), None)
            elif number == 5 and isinstance(value, tuple):
                self.kind = "map"
                for n, v in fields(data, *value):
                    if n == 1:
                        self.key = v
                    elif n == 2:
                        self.inner = Type(data, v, depth + 1)


def _dim(data, span):
    """A size, its name, or None."""
    found = None
    for number, value in fields(data, *span):
        if number == 1 and isinstance(value, int):
            found = value - (1 << 64) if value >> 63 else value
        elif number == 2:
            found = text(data, value) or None
    return None if isinstance(found, int) and found < 0 else found


def text(data, span):
    """A string; "" where the file has something else there."""
    return "" if isinstance(span, int) else bytes(data[span[0]:span[1]]).decode("utf-8", "replace")


class Header:
    """What a model's file says about it. Where it is no ONNX file, everything is empty.

    inputs, outputs   {name: Type}, in order
    initializers      names of the constants
    zipmaps           {output of a ZipMap: its keys}, where they are asked for: each node is looked at
    """

    def __init__(self, source, zipmaps=False):
        self.ir_version = self.model_version = 0
        self.producer_name = self.producer_version = self.domain = self.doc_string = ""
        self.graph_name = self.graph_doc_string = ""
        self.inputs, self.outputs, self.zipmaps, self.metadata = {}, {}, {}, {}
        self.initializers = set()
        data = opened(source)
        if data is None or bytes(data[:5]) == b"graph":
            return
        words = {2: "producer_name", 3: "producer_version", 4: "domain", 6: "doc_string"}
        for number, value in fields(data):
            if number in words and isinstance(value, tuple):
                setattr(self, words[number], text(data, value))
            elif number == 1 and isinstance(value, int):
                self.ir_version = value
            elif number == 5 and isinstance(value, int):
                self.model_version = value
            elif number == 14 and isinstance(value, tuple):
                pair = {n: text(data, v) for n, v in fields(data, *value) if isinstance(v, tuple)}
                self.metadata[pair.get(1, "")] = pair.get(2, "")
            elif number == 7 and isinstance(value, tuple):
                self._graph(data, value, zipmaps)

    def _graph(self, data, span, zipmaps):
        for number, value in fields(data, *span):
            if not isinstance(value, tuple):
                continue
            if number == 1:
                if zipmaps:
                    self._node(data, value)
            elif number == 2:
                self.graph_name = text(data, value)
            elif number == 10:
                self.graph_doc_string = text(data, value)
            elif number == 5:
                self.initializers.add(_name(data, value, 8))
            elif number in (11, 12):
                kind = next((v for n, v in fields(data, *value) if n == 2 and isinstance(v, tuple)), (0, 0))
                (self.inputs if number == 11 else self.outputs)[_name(data, value, 1)] = Type(data, kind)

    def _node(self, data, span):
        """Notes the keys of a ZipMap."""
        if span[1] - span[0] < 65536 and b"ZipMap" not in bytes(data[span[0]:span[1]]):
            return
        output, op, keys = "", "", []
        for number, value in fields(data, *span):
            if number == 2:
                output = text(data, value)
            elif number == 4:
                op = text(data, value)
            elif number == 5 and isinstance(value, tuple):
                keys = keys or _keys(data, value)
        if op == "ZipMap":
            self.zipmaps[output] = keys


def _name(data, span, field):
    return next((text(data, v) for n, v in fields(data, *span) if n == field and isinstance(v, tuple)), "")


def _keys(data, span):
    """The integers (field 8, packed or not) or strings (9) of an AttributeProto."""
    keys = []
    for number, value in fields(data, *span):
        if number == 9:
            keys.append(text(data, value))
        elif number == 8 and isinstance(value, int):
            keys.append(value)
        elif number == 8:
            at = value[0]
            while at < value[1]:
                one, at = _varint(data, at, value[1])
                if one is None:
                    break
                keys.append(one)
    return [k - (1 << 64) if isinstance(k, int) and k >> 63 else k for k in keys]


def text_outputs(header):
    """Names of the outputs that are strings."""
    return [name for name, kind in header.outputs.items() if kind.kind == "tensor" and kind.element == STRING]
