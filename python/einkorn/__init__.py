"""Einkorn compiles deep-learning models to native code and runs them.

    import einkorn, numpy
    model = einkorn.compile("model.onnx")
    y = model(numpy.zeros((1, 3, 224, 224), numpy.float32))

``compile`` takes a path, bytes or an ``onnx.ModelProto``; what it returns is called with arrays. ``op`` makes a
function of arrays from a definition in the notation. The manual is docs/python.md.
"""
from ._library import get_include, get_library, get_program, version as __version__
from ._errors import (CancelledError, EinkornError, FailedError, FileError, InternalError, ModelError,
                      OutOfMemoryError, ShapeError, TargetError, UnsupportedError, UsageError)
from ._diff import Checked, Difference, diff
from ._grad import grad, value_and_grad
from ._module import Bound, Module, Tensor, check, compile, load
from ._operators import Operator, Operators, op, operators
from ._quantize import Quantized, QuantizedLayer, Smoothed, quantize
from ._arrays import DLPack
from ._core import llvm_path, targets, threads

__all__ = ["Bound", "CancelledError", "Checked", "DLPack", "Difference", "EinkornError", "FailedError", "FileError",
           "InternalError", "ModelError", "Module", "Operator", "Operators", "OutOfMemoryError", "Quantized",
           "QuantizedLayer", "ShapeError", "TargetError", "Tensor", "UnsupportedError", "UsageError", "check",
           "compile", "diff", "get_include", "get_library", "get_program", "grad", "llvm_path", "load", "op",
           "operators", "quantize", "targets", "threads", "train", "value_and_grad"]


def __getattr__(name):
    """einkorn.train is imported when it is first used."""
    if name == "train":
        import importlib
        return importlib.import_module(".train", __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
