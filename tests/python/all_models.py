"""Runs every test model on its reference inputs and saves it as .so and .c, by the installed package alone. What it
needs LLVM, a compiler or a linker for is an error.    all_models.py FOLDER"""
import glob
import os
import sys
import tempfile

import numpy as np

import einkorn

failed = []
models = sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx")))
with tempfile.TemporaryDirectory() as folder:
    for path in models:
        try:
            module = einkorn.compile(path)
            z = np.load(path[:-5] + ".npz")
            inputs = [z["in_%d" % i] for i in range(len(module.inputs))]
            module(*inputs)
            for suffix in (".so", ".c"):
                module.save(os.path.join(folder, "m" + suffix))
            einkorn.load(os.path.join(folder, "m.so"))(*inputs)
        except Exception as e:
            failed.append("%s: %s: %s" % (os.path.basename(path), type(e).__name__, e))
with open("/proc/self/maps") as f:
    if "LLVM" in f.read():
        failed.append("LLVM was loaded")
print("\n".join(failed))
print("%d models, %d failed" % (len(models), len(failed)))
sys.exit(bool(failed) or len(models) < 100)
