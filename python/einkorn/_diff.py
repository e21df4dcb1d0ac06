"""Which tensor of a model is wrong first? The function diff, and the references that it compares with."""
import os
from typing import NamedTuple

import numpy

from ._arrays import TYPES, dtypes
from ._header import fields, opened, text
from ._module import Module, _options


class Checked(NamedTuple):
    """A tensor that was compared with what its definition gives."""
    name: str
    node: str
    op: str
    error: float  # the largest difference, divided by the largest value
    skipped: str  # why it was not compared; None: it was
    wrong: bool  # the difference is more than rounding explains


class Difference(NamedTuple):
    """What diff() found. True where something differs."""
    verdict: str  # "same"; "code": the compiled code is wrong; "reference": the values compared with are
    tensor: str  # the first tensor that is wrong; None: none is. The rest is about it
    node: str  # the node that computes it
    op: str  # the node's operator
    why: str  # its type or shape is another one: which; None: values differ
    type: str  # its element type
    shape: tuple
    place: tuple  # index of the element that differs most
    count: int  # number of elements
    wrong: int  # how many differ by more than is allowed
    got: float  # the element at `place`
    want: float  # what the definition gives
    allowed: float  # the difference that rounding explains there
    checked: int  # tensors compared
    skipped: int  # tensors that could not be compared
    part: tuple  # nodes of the smallest part that shows it when it is compiled alone
    pass_name: str  # the pass of the compiler that changed the values, where `passes` asked for it
    rewrite: int  # the number of its rewrite; 0: the pass as a whole

    def __bool__(self):
        return self.verdict != "same"

    def __str__(self):
        if not self:
            return "%d tensors compared: none differs by more than rounding explains" % self.checked
        what = self.why or "%d of %d elements differ, most at %s: %.9g, right is %.9g" % (
            self.wrong, self.count, list(self.place), self.got, self.want)
        return "%s, which node %s (%s) computes: %s" % (self.tensor, self.node, self.op, what)


def diff(model, inputs, *, against=None, rtol=0.0, atol=0.0, save=None, passes=False, on_tensor=None, **options):
    """Finds the first tensor that a compiled model computes wrongly: a Difference.

    Each tensor is compared with what the definition of its operator gives in float64 for the inputs that its node
    really had, so an error counts only where it begins.

    model      as for compile()
    inputs     arrays by name
    against    also judges values of somebody else, which are given for tensors by name: "onnxruntime"; the path of a
               .npz; a dict of arrays; or a function that takes a list of names and returns such a dict
    rtol,atol  allowed difference, beside what rounding explains: atol + rtol * |right value|; both 0: a share of the
               tensor's largest value, by accuracy and type
    save       path of a .onnx: the smallest part of the model that shows the difference is written there, its inputs
               and right results beside it as .npz
    passes     also finds the pass of the compiler that changed the values
    on_tensor  is called with each Checked
    options    as for compile()
    """
    chosen = _options(**options)
    reference = _reference(against, model, inputs)
    tell = None if on_tensor is None else lambda *row: on_tensor(Checked(*row))
    # interpreted: only the types of the inputs are needed of this module
    with Module(model, dict(chosen, evaluate=1, cache=None, watch=[])) as module:
        return Difference(**module._diff(chosen, dict(inputs), rtol, atol, None if save is None else os.fspath(save),
                                         passes, reference, tell))


def _reference(against, model, inputs):
    """A function from names to (type's name, dense array), or None for a tensor that is not known."""
    if against is None or (isinstance(against, str) and against == "eval"):
        return None
    if isinstance(against, str) and against == "onnxruntime":
        ask = _OnnxRuntime(model, inputs)
    elif callable(against):
        ask = against
    else:
        known = numpy.load(os.fspath(against)) if isinstance(against, (str, os.PathLike)) else against
        ask = lambda names: {name: known[name] for name in names if name in known}
    return lambda names: _as_rows(names, ask(names))


def _as_rows(names, values):
    rows = []
    for name in names:
        array = values.get(name)
        array = None if array is None else numpy.require(array, requirements=["C", "A"])
        known = None if array is None else TYPES.get(array.dtype.name)
        rows.append(None if known is None else (known, array.view(dtypes(known)[0])))
    return rows


class _OnnxRuntime:
    """Values that onnxruntime computes: it is asked for some tensors at a time, as outputs of the model."""

    def __init__(self, model, inputs):
        import onnxruntime
        self.engine, self.inputs, self.path = onnxruntime, dict(inputs), None
        if hasattr(model, "SerializeToString"):
            model = model.SerializeToString()
        elif isinstance(model, (str, os.PathLike)):
            model = self.path = os.fspath(model)
        self.model = bytes(opened(model) or b"")
        self.known, self.outputs = set(), set()
        for _, graph in ((n, v) for n, v in fields(self.model) if n == 7):  # ModelProto.graph
            for number, value in fields(self.model, *graph):
                if number == 1:  # a node: its outputs
                    self.known |= {text(self.model, v) for n, v in fields(self.model, *value) if n == 2}
                elif number == 12:
                    self.outputs |= {text(self.model, v) for n, v in fields(self.model, *value) if n == 1}

    def __call__(self, names):
        names = [name for name in names if name in self.known]
        options = self.engine.SessionOptions()
        options.log_severity_level = 3
        if self.path:  # where constants outside of the file are
            options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                             os.path.dirname(os.path.abspath(self.path)))
        # Two messages of protobuf, one behind the other, are one with the fields of both.
        more = b"".join(_field(12, _field(1, name.encode())) for name in names if name not in self.outputs)
        session = self.engine.InferenceSession(self.model + (_field(7, more) if more else b""), options,
                                               providers=["CPUExecutionProvider"])
        return dict(zip(names, session.run(names, self.inputs))) if names else {}


def _field(number, data):
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + _number(n >> 7)
