"""onnxruntime.tools is not part of einkorn.onnxruntime."""
raise ImportError("onnxruntime.tools is not part of einkorn.onnxruntime; install the package onnxruntime for it")
