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


def _element_type(data, span):
    """elem_type of a ValueInfoProto with a tensor type, and its name."""
    name, found = "", 0
    for number, value in fields(data, *span):
        if number == 1:
            name = bytes(data[value[0]:value[1]]).decode("utf-8", "replace")
        elif number == 2:
            for n, v in fields(data, *value):
                if n == 1:
                    found = next((e for k, e in fields(data, *v) if k == 1), 0)
    return name, found


def text_outputs(source):
    """Names of the outputs that are strings."""
    data = opened(source)
    names = []
    if data is None or bytes(data[:5]) == b"graph":
        return names
    for number, value in fields(data):
        if number == 7 and isinstance(value, tuple):
            for n, v in fields(data, *value):
                if n == 12 and isinstance(v, tuple):
                    name, kind = _element_type(data, v)
                    if kind == STRING:
                        names.append(name)
    return names
