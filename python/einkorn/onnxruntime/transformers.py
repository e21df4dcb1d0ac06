"""onnxruntime.transformers is not part of einkorn.onnxruntime."""
raise ImportError("onnxruntime.transformers is not part of einkorn.onnxruntime; install the package onnxruntime for it")
