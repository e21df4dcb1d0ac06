"""Of Python processes that a program under einkorn.as_onnxruntime starts: the same there. Python imports the first
module of this name, so another one is executed here."""
import importlib.machinery
import importlib.util
import os
import sys

from einkorn.as_onnxruntime import install

install()
_here = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.machinery.PathFinder.find_spec(
    "sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != _here])
if _spec is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
