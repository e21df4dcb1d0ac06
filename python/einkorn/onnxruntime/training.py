"""onnxruntime.training is not part of einkorn.onnxruntime."""
raise ImportError("onnxruntime.training is not part of einkorn.onnxruntime; install the package onnxruntime for it")
