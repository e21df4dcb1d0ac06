"""Derivatives of functions: grad and value_and_grad.

A function is called once with values that stand for its arrays (Traced). What einkorn's operators and models do with
them is written down as a graph (Trace), to which the standard's operator Gradient is added; the graph is compiled, and
run on the arrays. A derivative inside of a function adds to the same graph, so that derivatives of derivatives need
nothing more."""
import contextvars
import os
import weakref

import numpy

from . import _core, _proto
from ._arrays import typed
from ._errors import UsageError
from ._module import Module, _options

TRAINING, MODELS = "ai.onnx.preview.training", "einkorn.models"
_current = contextvars.ContextVar("trace", default=None)
_functions = weakref.WeakKeyDictionary()  # of the modules that were traced


class Traced:
    """A value of a function that is differentiated. It goes to einkorn's operators and models, and has Python's
    arithmetic."""
    __slots__ = ("trace", "name")
    __array_ufunc__ = None  # an array of numpy leaves its operators to those below

    def __init__(self, trace, name):
        self.trace, self.name = trace, name

    def __add__(self, other):
        return self.trace.binary("Add", self, other, self)

    def __radd__(self, other):
        return self.trace.binary("Add", other, self, self)

    def __sub__(self, other):
        return self.trace.binary("Sub", self, other, self)

    def __rsub__(self, other):
        return self.trace.binary("Sub", other, self, self)

    def __mul__(self, other):
        return self.trace.binary("Mul", self, other, self)

    def __rmul__(self, other):
        return self.trace.binary("Mul", other, self, self)

    def __truediv__(self, other):
        return self.trace.binary("Div", self, other, self)

    def __rtruediv__(self, other):
        return self.trace.binary("Div", other, self, self)

    def __pow__(self, other):
        return self.trace.binary("Pow", self, other, self)

    def __rpow__(self, other):
        return self.trace.binary("Pow", other, self, self)

    def __matmul__(self, other):
        return self.trace.binary("MatMul", self, other, self)

    def __rmatmul__(self, other):
        return self.trace.binary("MatMul", other, self, self)

    def __neg__(self):
        return self.trace.call("Neg", "", [self], 1)[0]

    def _no_array(self, *_, **__):
        raise TypeError("a value of a function that is differentiated has no contents yet: only arithmetic, and "
                        "einkorn's operators and models, can use it")

    __array__ = __bool__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __getitem__ = _no_array


class Trace:
    """A graph that grows as a function is called."""

    def __init__(self):
        self.nodes, self.inputs, self.constants = [], [], []  # messages
        self.arrays = []  # of the inputs
        self.models, self.definitions = [], []
        self._count = 0
        self._known = {}  # id of an array -> it, and the input that it is

    def _new(self):
        self._count += 1
        return "v%d" % self._count

    def input(self, value):
        """An array as an input, so that other contents need no other code."""
        if id(value) not in self._known:
            array, name = typed(value), self._new()
            self.inputs.append(_proto.value(name, array))
            self.arrays.append(array)
            self._known[id(value)] = value, Traced(self, name)
        return self._known[id(value)][1]

    def constant(self, value):
        name = self._new()
        self.constants.append(_proto.tensor(name, typed(value)))
        return Traced(self, name)

    def traced(self, value):
        """A value as one of this graph. Numbers of Python and lists are constants."""
        if not isinstance(value, Traced):
            return self.input(value) if hasattr(value, "dtype") else self.constant(value)
        if value.trace is not self:
            raise UsageError("a value is used outside of the function that was differentiated")
        return value

    def call(self, op, domain, values, outputs, attributes=()):
        inputs = ["" if v is None else self.traced(v).name for v in values]
        names = [self._new() for _ in range(outputs)]
        self.nodes.append(_proto.node(op, domain, inputs, names, attributes))
        return tuple(Traced(self, n) for n in names)

    def binary(self, op, a, b, like):
        """Numbers of Python take the type of the other side."""
        values = [v if isinstance(v, Traced) or hasattr(v, "dtype") else
                  self.call("CastLike", "", [self.constant(numpy.float64(v)), like], 1)[0] for v in (a, b)]
        return self.call(op, "", values, 1)[0]

    def _define(self, definitions):
        self.definitions += [d for d in definitions if d not in self.definitions]

    def operator(self, operator, values, attributes):
        self._define(operator.definitions)
        values = [self.constant(v) if v is not None and p.sizes and not isinstance(v, Traced) else v
                  for p, v in zip(operator._given_ports(len(values)), values)]
        domain, _, op = operator.name.rpartition("::")
        return _one(self.call(op, domain, values, operator._results(), operator._kinds(attributes)))

    def module(self, module, arrays, named):
        inputs = [t.name for t in module.inputs]
        given = dict(zip(inputs, arrays))
        if len(arrays) > len(inputs) or set(given) & set(named) or set(given) | set(named) != set(inputs):
            raise TypeError("the inputs of the model are %s" % ", ".join(inputs))
        if module not in self.models:
            self.models.append(module)
            self._define(module._options["ops"])
        number, function = self.models.index(module), _function(module)
        given.update(named)
        values = [given[name] for name in function.inputs] + [Traced(self, n) for n in _constants(number, function)]
        return _one(self.call("m%d" % number, MODELS, values, len(function.outputs)))

    def gradient(self, y, xs):
        return self.call("Gradient", TRAINING, xs, len(xs), [("xs", [x.name for x in xs], "str"), ("y", y.name, "str")])

    def same(self, value):
        """Another name for a value: only what is made of this one depends on it."""
        return self.call("Identity", "", [value], 1)[0]

    def compiled(self, outputs, options):
        constants, functions = list(self.constants), []
        for number, module in enumerate(self.models):
            function = _function(module)
            constants += function.tensors(_constants(number, function))
            functions.append(function.message("m%d" % number, MODELS))
        source = _proto.model(self.nodes, self.inputs, outputs, constants, functions, ("", TRAINING, MODELS))
        given = _options(**options)
        return Module(source, dict(given, ops=given["ops"] + self.definitions))


def _one(values):
    return values[0] if len(values) == 1 else values


def _constants(number, function):
    """Names of a model's constants in the graph."""
    return ["m%d.%s" % (number, name) for name, _ in function.constants]


def _function(module):
    if module not in _functions:
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            module.save(path)
            with open(path, "rb") as f:
                _functions[module] = _proto.Function(f.read())
    return _functions[module]


def traced_call(operator, values, attributes):
    """What an operator gives for values of which some are Traced; None: none is."""
    trace = next((v.trace for v in values if isinstance(v, Traced)), None)
    return trace and trace.operator(operator, values, attributes)


def _module_call(module, arrays, named):
    named = named or {}
    trace = next(v.trace for v in (*arrays, *named.values()) if isinstance(v, Traced))
    return trace.module(module, arrays, named)


_core.set_tracing(Traced, _module_call)


def _differentiate(trace, f, which, args, named):
    """(value of f, gradient by each of the arguments `which`)"""
    args = [trace.traced(a if hasattr(a, "dtype") or isinstance(a, Traced) else typed(a)) for a in args]
    if not all(0 <= i < len(args) for i in which):
        raise TypeError("argnums %s of %d arguments" % (", ".join(map(str, which)), len(args)))
    args = [trace.same(a) if i in which else a for i, a in enumerate(args)]
    y = f(*args, **named)
    if not isinstance(y, Traced):
        raise TypeError("a function that is differentiated gives one value, made of its arguments by einkorn's "
                        "operators and models; this one gave %s" % type(y).__name__)
    y = trace.same(y)
    return y, trace.gradient(y, [args[i] for i in which])


def value_and_grad(f, argnums=0, **options):
    """A function that gives (f's value, its gradient by the argument `argnums`), as grad does."""
    which = argnums if isinstance(argnums, tuple) else (argnums,)
    made = {}

    def derivative(*args, **named):
        outer = _current.get()
        if outer:
            value, found = _differentiate(outer, f, which, args, named)
        else:
            value, found = run(args, named)
        return value, found if isinstance(argnums, tuple) else found[0]

    def run(args, named):
        trace = Trace()
        token = _current.set(trace)
        try:
            value, found = _differentiate(trace, f, which, args, named)
        finally:
            _current.reset(token)
        outputs = [value.name] + [x.name for x in found]
        key = tuple(map(tuple, (trace.nodes, trace.inputs, trace.constants, trace.models,
                                 trace.definitions, outputs)))
        if key not in made:
            made[key] = trace.compiled(outputs, options)
        results = made[key](*trace.arrays)
        return results[0], results[1:]
    return derivative


def grad(f, argnums=0, **options):
    """A function that gives the derivative of f by its argument number `argnums`, or a tuple of derivatives by several:

        scale = einkorn.op(name="Softplus")
        slope = einkorn.grad(lambda x, y: scale(x) * y)     # slope(x, y) has the shape of x

    f       an einkorn.Module, an operator of einkorn.op(), or a function that is made of these, of + - * / ** @ and of
            other derivatives: grad(grad(f)) is the second one. It is called with values without contents; it must not
            branch on them. Where its result has several elements, the derivative is that of their sum
    argnums the number of an argument by position, or a tuple of numbers
    options as for compile()

    Arrays that f uses beside its arguments are read anew in each call; numbers and lists of Python are constants of the
    code. It is compiled for the types and sizes that it meets.
    """
    both = value_and_grad(f, argnums, **options)
    return lambda *args, **named: both(*args, **named)[1]
