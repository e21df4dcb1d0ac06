"""Arrays that the extension does not take as they are: lists, other strides, strings, types that numpy does not have.

Called by the extension, with a type by the name that the C library gives it."""
import numpy

# the C library's name of a type: numpy's name, or that of the package ml_dtypes
NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool", "i8": "int8", "i16": "int16",
         "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
ML_DTYPES = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
             "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn", "u4": "uint4",
             "i4": "int4", "u2": "uint2", "i2": "int2"}
TYPES = {dtype: name for table in (NUMPY, ML_DTYPES) for name, dtype in table.items()}  # by the name of the dtype
NARROW = {"i4": "int8", "i2": "int8", "u4": "uint8", "u2": "uint8"}  # ml_dtypes leaves the byte's upper bits open


def _ml_dtype(name):
    """The dtype that ml_dtypes has for a type's name; None without the package."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    found = getattr(ml_dtypes, ML_DTYPES.get(name, ""), None)
    return found and numpy.dtype(found)


def dtypes(name):
    """(dtype of the memory, dtype that arrays are viewed as or None) of a type."""
    if name in NUMPY:
        return numpy.dtype(NUMPY[name]), None
    return numpy.dtype("uint16" if name == "bf16" else "uint8"), _ml_dtype(name)


def dtype(name, text=False):
    """The dtype of the arrays that users see. Types that numpy lacks need the package ml_dtypes; without it, arrays
    hold their bits, as unsigned integers."""
    if text:
        return numpy.dtype(object)
    memory, viewed = dtypes(name)
    return viewed or memory


def typed(value):
    """A value as an array whose type says what it is."""
    if hasattr(value, "__dlpack__") and not isinstance(value, numpy.ndarray) and not hasattr(value, "__array__"):
        return numpy.from_dlpack(value)
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if not hasattr(value, "dtype") and array.dtype == numpy.float64 else array


def _describe(dims):
    return "any shape" if dims is None else "[%s]" % ", ".join(str(d) for d in dims)


def _refuse(name, expected, dims, found):
    from ._errors import ShapeError
    raise ShapeError("input '%s': %s %s is expected, found %s" % (name, expected, _describe(dims), found))


def prepare(value, name, type_name, text, dims):
    """An array with memory as the input needs it. Python's numbers and lists take the input's type where no value
    changes; arrays of another type are refused, because a conversion is the caller's decision."""
    if text:
        return bytes_of(value, name)
    memory, viewed = dtypes(type_name)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        array = numpy.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = numpy.from_dlpack(value)
    else:
        array = _from_python(value, name, type_name, viewed or memory, dims)
    bits = array.dtype == memory and not hasattr(value, "__array__")  # of a type that numpy does not have
    if array.dtype != (viewed or memory) and not bits:
        wanted = dtype(type_name).name
        _refuse(name, "type %s, shape" % wanted, dims,
                "type %s; convert it by .astype(%r)" % (array.dtype.name, wanted))
    if array.dtype != memory and type_name in NARROW:
        array = array.astype(NARROW[type_name]).view(memory)
    array = numpy.require(array, requirements=["C", "A"])
    return array if array.dtype == memory else array.view(memory)


def _from_python(value, name, type_name, wanted, dims):
    """Numbers and lists of them."""
    try:
        plain = numpy.asarray(value)
        if plain.dtype.kind not in "biuf":
            raise TypeError
        array = plain.astype(wanted)
        exact = wanted.kind not in "biu" or (plain.dtype.kind in "bi" and (array.astype(plain.dtype) == plain).all())
        if exact or plain.size == 0:
            return array
    except (TypeError, ValueError, OverflowError):
        pass
    return _refuse(name, "type %s, shape" % dtype(type_name).name, dims, "%s %.60r" % (type(value).__name__, value))


class DLPack:
    """An array as DLPack, also of the types of ml_dtypes, which numpy does not export:
    ``torch.from_dlpack(einkorn.DLPack(y))``."""

    def __init__(self, array):
        self.array = numpy.ascontiguousarray(array)
        self._type = TYPES.get(self.array.dtype.name, "?")

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None or dl_device not in (None, (1, 0)):
            raise BufferError("the array is in the CPU's memory")
        from ._core import dlpack_export
        array = self.array.view(dtypes(self._type)[0]) if self._type in ML_DTYPES else self.array
        return dlpack_export(array.copy() if copy else array, self._type, bool(max_version and max_version[0] >= 1),
                             bool(copy))

    def __dlpack_device__(self):
        return 1, 0


def bytes_of(value, name):
    """Strings as the compiled code has them: their bytes in UTF-8, on one axis more, zeros behind the end of each."""
    array = numpy.asarray(value)
    if array.dtype.kind not in "OUST":
        _refuse(name, "strings of shape", None, "type %s" % array.dtype.name)
    encoded = [_encode(v, name) for v in array.reshape(-1).tolist()]
    width = max([1] + [len(b) for b in encoded])
    rows = b"".join(b.ljust(width, b"\0") for b in encoded)
    return numpy.frombuffer(rows, numpy.uint8).reshape(array.shape + (width,))


def _encode(text, name):
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        _refuse(name, "strings of shape", None, "%s %.60r" % (type(text).__name__, text))
    return text.encode("utf-8", "surrogateescape")


def texts(array):
    """An array of objects (str) from their bytes."""
    out = numpy.empty(array.shape[:-1], object)
    width = array.shape[-1]
    raw = array.tobytes()
    for i in range(out.size):
        out.reshape(-1)[i] = raw[i * width:(i + 1) * width].rstrip(b"\0").decode("utf-8", "surrogateescape")
    return out


def cut(array, shape):
    """The part that a run wrote of an array that was made for more. The rest's memory is given back."""
    n = 1
    for d in shape:
        n *= d
    return array.reshape(-1)[:n].reshape(shape).copy()


def plain(text):
    """Messages of the library without the word that an exception's name says."""
    return "\n".join(row.removeprefix("error: ").replace(": error: ", ": ") for row in text.splitlines())
