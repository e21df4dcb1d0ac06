"""onnxruntime.quantization is not part of einkorn.onnxruntime."""
raise ImportError("onnxruntime.quantization is not part of einkorn.onnxruntime; install the package onnxruntime for it")
