"""onnxruntime's interface, served by Einkorn: ``import einkorn.onnxruntime as onnxruntime``. For programs that are not
to be changed: ``python -m einkorn.as_onnxruntime PROGRAM``.

Written after onnxruntime's public documentation (https://onnxruntime.ai/docs/api/python/). docs/onnxruntime.md says
what is there; what is not raises an error that says so.
"""
from ._errors import unavailable
from ._options import (AdapterFormat, ExecutionMode, ExecutionOrder, GraphOptimizationLevel, LoraAdapter,
                       OrtAllocatorType, OrtArenaCfg, OrtMemoryInfo, OrtMemType, RunOptions, SessionOptions)
from ._process import (__version__, disable_telemetry_events, enable_telemetry_events, get_all_providers,
                       get_available_providers, get_build_info, get_device, get_ep_devices, get_version_string,
                       has_collective_ops, preload_dlls, print_debug_info, set_default_logger_severity,
                       set_default_logger_verbosity, set_seed)
from ._session import InferenceSession, ModelMetadata, NodeArg
from ._values import IOBinding, OrtDevice, OrtValue, SparseTensor

SessionIOBinding = IOBinding


def __getattr__(name):
    raise unavailable("onnxruntime.%s" % name, AttributeError)
