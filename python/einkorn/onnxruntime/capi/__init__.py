"""The names that programs import from onnxruntime.capi."""
from . import onnxruntime_inference_collection, onnxruntime_pybind11_state
