"""Values that are not arrays: how a sequence, an optional or a map, as Python has it (list, None, dict), becomes
arrays that compiled code takes, and back.

Compiled code has tensors only. A sequence or optional `x` is its tensors, `x.0`, `x.1`, ..; how many there are is
fixed when the model is compiled, as ``dims={"x": n}``. A map is two tensors: its values, `x`, and its keys,
`x.keys`."""
from typing import NamedTuple

import numpy

from ._arrays import texts
from ._errors import ShapeError
from ._header import STRING


LISTS = ("sequence", "optional", "optional sequence")  # kinds whose number of tensors is fixed by compiling


class Port(NamedTuple):
    """An input or output of a model.

    kind   "tensor", "sequence", "optional", "optional sequence", "map", "maps" (a sequence of them)
    text   its tensors are strings
    keys   of "maps": the keys that all of them have, in the order of their values
    """
    name: str
    kind: str = "tensor"
    text: bool = False
    keys: tuple = ()


def port(name, kind, keys=()):
    """A Port from its type, a _header.Type. keys: those of a ZipMap that gives it."""
    inner = kind.inner.kind if kind.inner else ""
    tensor = kind
    while tensor.inner and tensor.kind in ("seq", "optional"):
        tensor = tensor.inner
    kinds = {"seq": "maps" if inner == "map" else "sequence", "map": "map",
             "optional": "optional sequence" if inner == "seq" else "optional"}
    return Port(name, "maps" if keys else kinds.get(kind.kind, "tensor"), tensor.element == STRING, tuple(keys))


def _refuse(port, expected, value):
    raise ShapeError("input '%s': %s is expected, found %s" % (port.name, expected, type(value).__name__))


def tensors(port, value):
    """The arrays of an input: a list of (name, array)."""
    if port.kind == "tensor":
        return [(port.name, value)]
    if port.kind == "map":
        if not isinstance(value, dict):
            _refuse(port, "a dict", value)
        keys = list(value)
        return [(port.name, numpy.array([value[k] for k in keys])), (port.name + ".keys", numpy.array(keys))]
    if port.kind == "optional":
        return [] if value is None else [(port.name + ".0", value)]
    if port.kind == "optional sequence" and value is None:
        return []
    if not isinstance(value, (list, tuple)):
        _refuse(port, "a list of arrays", value)
    return [("%s.%d" % (port.name, i), v) for i, v in enumerate(value)]


def value(port, results):
    """An output's value from the arrays that a run gave, by name."""
    if port.kind == "tensor":
        return results[port.name]
    if port.kind == "maps":
        return [dict(zip(port.keys, row)) for row in results[port.name].tolist()]
    if port.name in results:
        return _own(port, results[port.name])
    found = []
    while "%s.%d" % (port.name, len(found)) in results:
        found.append(_own(port, results["%s.%d" % (port.name, len(found))]))
    if port.kind == "optional":
        return found[0] if found else None
    return found


def _own(port, array):
    """Strings of a sequence: as the run gave them, they are bytes, with one axis more."""
    return texts(array) if port.text and array.dtype == numpy.uint8 else array
