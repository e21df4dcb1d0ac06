"""Exceptions of onnxruntime's names, and which of them an error of Einkorn is."""
import einkorn


class _Status(Exception):
    number, word = 1, "FAIL"


def _status(name, number, word):
    return type(name, (_Status,), {"number": number, "word": word,
                                   "__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})


Fail = _status("Fail", 1, "FAIL")
InvalidArgument = _status("InvalidArgument", 2, "INVALID_ARGUMENT")
NoSuchFile = _status("NoSuchFile", 3, "NO_SUCHFILE")
NoModel = _status("NoModel", 4, "NO_MODEL")
EngineError = _status("EngineError", 5, "ENGINE_ERROR")
RuntimeException = _status("RuntimeException", 6, "RUNTIME_EXCEPTION")
InvalidProtobuf = _status("InvalidProtobuf", 7, "INVALID_PROTOBUF")
ModelLoaded = _status("ModelLoaded", 8, "MODEL_LOADED")
NotImplemented = _status("NotImplemented", 9, "NOT_IMPLEMENTED")
InvalidGraph = _status("InvalidGraph", 10, "INVALID_GRAPH")
EPFail = _status("EPFail", 11, "EP_FAIL")
ModelLoadCanceled = _status("ModelLoadCanceled", 12, "MODEL_LOAD_CANCELED")
ModelRequiresCompilation = _status("ModelRequiresCompilation", 13, "MODEL_REQUIRES_COMPILATION")
NotFound = _status("NotFound", 14, "NOT_FOUND")


def error(kind, text):
    """An exception of a kind with the text as onnxruntime writes it."""
    return kind("[ONNXRuntimeError] : %d : %s : %s" % (kind.number, kind.word, text))


def unavailable(what, kind=None):
    """The exception for a part of onnxruntime that is not here."""
    text = "%s is not part of einkorn.onnxruntime (docs/onnxruntime.md lists what is)" % what
    return kind(text) if kind else error(NotImplemented, text)


def translate(e, loading):
    """An error of Einkorn as one of onnxruntime's."""
    if isinstance(e, einkorn.FileError):
        kind = NoSuchFile
    elif isinstance(e, einkorn.ModelError):
        kind = InvalidGraph
    elif isinstance(e, einkorn.UnsupportedError):
        kind = NotImplemented
    elif isinstance(e, (einkorn.ShapeError, einkorn.UsageError)):
        kind = Fail if loading else InvalidArgument
    elif isinstance(e, (einkorn.OutOfMemoryError, einkorn.CancelledError)):
        kind = RuntimeException
    else:
        kind = Fail
    return error(kind, str(e))
