"""A tabular model: a pipeline of scikit-learn, trained here, then compiled to native code.

    python tabular.py [SAVED.so]      SAVED.so: the compiled model as a library, with a C header beside it

The table is the breast cancer data that comes with scikit-learn: 30 numbers of a tumour, and whether it is malignant.
One number in twenty is taken away, as tables have gaps; the pipeline fills them in by medians. skl2onnx writes the
trained pipeline as an ONNX model. What Einkorn computes for the rows held out is compared with scikit-learn's own.

    pip install --no-deps -r requirements.txt      (and Einkorn)
"""
import sys
import time

import einkorn
import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline


def train():
    """A trained pipeline, and rows that it has not seen, with their right answers."""
    data = load_breast_cancer()
    table = data.data.astype(np.float32)
    table[np.random.default_rng(0).random(table.shape) < 0.05] = np.nan
    kind = data.target_names[data.target]  # "malignant" or "benign"
    rows, held, y, held_y = train_test_split(table, kind, test_size=0.25, random_state=0, stratify=kind)
    pipeline = make_pipeline(SimpleImputer(strategy="median"),
                             GradientBoostingClassifier(n_estimators=100, random_state=0))
    return pipeline.fit(rows, y), held, held_y


def compile_pipeline(pipeline, columns):
    """A function from rows, f32[N, columns], to (labels, probabilities)."""
    model = to_onnx(pipeline, initial_types=[("rows", FloatTensorType([None, columns]))],
                    options={"zipmap": False})  # probabilities as an array, not as a list of dicts
    return einkorn.compile(model)


def microseconds(function, *words):
    """A call's time, as the median of 200."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        function(*words)
        times.append(time.perf_counter() - start)
    return np.median(times) * 1e6


def main(words):
    pipeline, held, held_y = train()
    model = compile_pipeline(pipeline, held.shape[1])
    labels, probabilities = model(held)
    print("%d of %d rows held out are right" % ((labels == held_y).sum(), len(held)))
    print("labels as scikit-learn's: %d of %d; probabilities differ by %.0e at most"
          % ((labels == pipeline.predict(held)).sum(), len(held),
             abs(probabilities - pipeline.predict_proba(held)).max()))
    print("one row takes %.0f us, in scikit-learn %.0f us"
          % (microseconds(model, held[:1]), microseconds(pipeline.predict_proba, held[:1])))
    if words:
        model.save(words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
