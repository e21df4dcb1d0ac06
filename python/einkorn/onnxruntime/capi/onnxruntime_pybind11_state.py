"""Exceptions, options and functions under the name that programs import them by."""
from .._errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled,
                       ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented,
                       RuntimeException, unavailable)
from .._options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType, OrtArenaCfg,
                        OrtMemoryInfo, OrtMemType, RunOptions, SessionOptions)
from .._process import (disable_telemetry_events, enable_telemetry_events, get_all_providers, get_available_providers,
                        get_build_info, get_device, get_version_string, has_collective_ops,
                        set_default_logger_severity, set_default_logger_verbosity, set_seed)
from .._session import InferenceSession, ModelMetadata, NodeArg
from .._values import OrtDevice, OrtValue, SparseTensor
from .._values import IOBinding as SessionIOBinding

OrtValueVector = list


def __getattr__(name):
    raise unavailable("onnxruntime.capi.onnxruntime_pybind11_state.%s" % name, AttributeError)
