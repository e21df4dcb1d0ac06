"""Exceptions: one for each code of the C library, with the library's text. Each is also the exception of Python that
a caller would expect."""
from . import _core


class EinkornError(Exception):
    """What every error of Einkorn is."""


class FailedError(EinkornError, RuntimeError):
    """Anything without a better name."""


class UsageError(EinkornError, ValueError):
    """A wrong option or call."""


class UnsupportedError(EinkornError, NotImplementedError):
    """Legal, but not supported."""


class ModelError(EinkornError, ValueError):
    """The model, or an operator's definition, is malformed."""


class ShapeError(EinkornError, ValueError):
    """Shapes or types do not fit."""


class FileError(EinkornError, OSError):
    """A file is missing, cannot be read or written, or ends early."""


class OutOfMemoryError(EinkornError, MemoryError):
    """Out of memory, or over a stated limit."""


class TargetError(EinkornError, RuntimeError):
    """Code could not be generated or linked."""


class InternalError(EinkornError, RuntimeError):
    """A bug in Einkorn; please report it."""


class CancelledError(EinkornError, RuntimeError):
    """Ended by the progress function."""


_core.set_errors([RuntimeError, FailedError, UsageError, UnsupportedError, ModelError, ShapeError, FileError,
                  OutOfMemoryError, TargetError, InternalError, CancelledError])
