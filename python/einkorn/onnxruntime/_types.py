"""Names of types as onnxruntime writes them, such as tensor(float)."""
import numpy

from .._arrays import TYPES, dtype

# TensorProto.DataType: (onnxruntime's word, dtype's name)
_ROWS = {1: ("float", "float32"), 2: ("uint8", "uint8"), 3: ("int8", "int8"), 4: ("uint16", "uint16"),
         5: ("int16", "int16"), 6: ("int32", "int32"), 7: ("int64", "int64"), 8: ("string", "object"),
         9: ("bool", "bool"), 10: ("float16", "float16"), 11: ("double", "float64"), 12: ("uint32", "uint32"),
         13: ("uint64", "uint64"), 16: ("bfloat16", "bfloat16"), 17: ("float8e4m3fn", "float8_e4m3fn"),
         18: ("float8e4m3fnuz", "float8_e4m3fnuz"), 19: ("float8e5m2", "float8_e5m2"),
         20: ("float8e5m2fnuz", "float8_e5m2fnuz"), 21: ("uint4", "uint4"), 22: ("int4", "int4"),
         23: ("float4e2m1", "float4_e2m1fn")}
_CODES = {name: code for code, (_, name) in _ROWS.items()}


def code_of(found):
    """The ONNX code of a dtype; strings of any kind are strings. 0: none."""
    return 8 if found.kind in "OUST" else _CODES.get(found.name, 0)


def word_of(code):
    return _ROWS.get(code, ("undefined",))[0]


def dtype_of(code):
    """The dtype of an ONNX code, a dtype or a numpy type."""
    if not isinstance(code, (int, numpy.integer)):
        return numpy.dtype(code)
    name = _ROWS[int(code)][1]
    return dtype(TYPES.get(name, ""), text=name == "object")


def type_text(kind):
    """A type of the model's header."""
    if kind.kind in ("tensor", "sparse_tensor"):
        return "%s(%s)" % (kind.kind, word_of(kind.element))
    inner = type_text(kind.inner) if kind.inner else "?"
    return "map(%s,%s)" % (word_of(kind.key), inner) if kind.kind == "map" else "%s(%s)" % (kind.kind, inner)


def value_text(value):
    """The type of a value."""
    if isinstance(value, list):
        return "seq(%s)" % (value_text(value[0]) if value else "tensor(float)")
    if isinstance(value, dict):
        key, inner = next(iter(value.items()))
        return "map(%s,tensor(%s))" % ("string" if isinstance(key, str) else "int64",
                                       "float" if isinstance(inner, float) else "string")
    return "tensor(%s)" % word_of(code_of(numpy.asarray(value).dtype))
