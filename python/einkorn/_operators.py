"""Operators: the list of those there are, and op(), which makes a function of arrays from a definition."""
import operator
import re
from typing import NamedTuple

import numpy

from . import _core
from ._arrays import TYPES, typed
from ._errors import EinkornError, ModelError, ShapeError, UsageError
from ._grad import grad, traced_call
from ._module import _options, Module


class Operators(NamedTuple):
    """What operators() tells of an operator."""
    name: str
    signature: str
    doc: str
    file: str
    line: int


def operators(ops=None):
    """All operators that are defined, by name; `ops` as compile takes them."""
    return [Operators(*row) for row in _core.ops(_options(ops=ops)["ops"])]


class _Port(NamedTuple):
    name: str
    optional: bool
    many: bool
    text: bool
    sizes: bool  # its contents decide sizes


def _split(text, mark):
    """Splits at a mark outside of brackets and quotes."""
    parts, depth, quoted, last = [], 0, False, 0
    for i, ch in enumerate(text):
        if ch == '"':
            quoted = not quoted
        elif not quoted and ch in "([{":
            depth += 1
        elif not quoted and ch in ")]}":
            depth -= 1
        elif not quoted and depth == 0 and ch == mark:
            parts.append(text[last:i])
            last = i + 1
    return [p.strip() for p in parts + [text[last:]] if p.strip()]


def _ports(text):
    rows = []
    for p in _split(text, ","):
        name, _, kind = p.partition(":")
        kind = kind.strip()
        rows.append(_Port(name.strip().rstrip("."), kind.endswith("?") or "=" in kind, name.strip().endswith("..."),
                          kind.startswith("str"), kind.startswith("dims ")))
    return rows


def _signature(text):
    """(inputs, outputs, kind of each attribute) of a signature as the C library prints it."""
    opened = text.index("(", text.rindex('"') if text.startswith('"') and "<" not in text else 0)
    depth, at = 0, opened
    while True:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            break
        at += 1
    inside = _split(text[opened + 1:at], ";")
    has_inputs = not text[opened + 1:].lstrip().startswith(";")
    inputs = _ports(inside[0]) if inside and has_inputs else []
    attributes = inside[1 if has_inputs else 0:]
    rows = [a.partition(":") for a in _split(attributes[0], ",")] if attributes else []
    kinds = {name.strip(): kind.split()[0] for name, _, kind in rows}
    return inputs, _ports(text[at:].partition("->")[2]), kinds


def _literal(value, kind):
    """An attribute of a kind (int, float, str) as graph text."""
    many = not isinstance(value, (str, bytes)) and numpy.ndim(value) == 1
    if many:
        word = {"float": "floats ", "str": "strings "}.get(kind, "")
        return "%s[%s]" % (word, ", ".join(_element(v, kind) for v in value))
    return ("float " if kind == "float" else "") + _element(value, kind)


def _element(value, kind):
    if kind == "str":
        return '"%s"' % str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return repr(float(value)) if kind == "float" else str(operator.index(value))


def _with_caret(text, function):
    """Calls it; an error in the definition gets the line and a caret under the place."""
    try:
        return function()
    except ModelError as e:
        rows = []
        for row in str(e).splitlines():
            rows.append(row)
            place = re.match(r"op:(\d+):(\d+):", row)
            lines = text.splitlines()
            if place and 0 < int(place[1]) <= len(lines):
                line = lines[int(place[1]) - 1]
                before = re.sub(r"[^\t]", " ", line[:int(place[2]) - 1])
                rows += ["    " + line, "    " + before + "^"]
        raise ModelError("\n".join(rows)) from None


class Operator:
    """An operator that is called with arrays: ``f(x, y, axis=1)``. Inputs go by position or name, attributes by name.

    It is compiled for the types and sizes of its arrays when they are first seen.
    """

    def __init__(self, text, name=None, doc=None, **options):
        self.text = text
        self.definitions = [("op", text)] if text else []
        found = {o.name: o for o in _with_caret(text, lambda: operators(self))}
        if name is None:
            names = re.findall(r'^\s*op\s+(?:"([^"]+)"|([\w.]+))', text, re.M)
            if not names:
                raise UsageError("op: a definition is expected, such as op Twice<T>(X: T[n...]) -> Y: T[n...] { "
                                 "Y[i...] = X[i...] + X[i...] }")
            name = names[-1][0] or names[-1][1]
        if name not in found:
            raise UsageError("there is no operator %r" % name)
        self.name = self.__name__ = name
        self.signature = found[name].signature
        self.__doc__ = doc or found[name].doc or self.signature
        self._inputs, self._outputs, self._attributes = _signature(self.signature)
        self._given = options
        self._made = {}
        self._derivatives = {}

    def __call__(self, *arrays, **named):
        attributes = {k: named.pop(k) for k in list(named) if k in self._attributes}
        values = self._arguments(arrays, named)
        traced = traced_call(self, values, attributes)
        if traced is not None:
            return traced
        values = [v if v is None else typed(v) for v in values]
        key = (tuple(v if v is None else (v.dtype.str, v.dtype.name, v.shape) for v in values), repr(attributes))
        if key not in self._made:
            self._made[key] = self._compile_open(values, attributes)
        if self._made[key]:
            try:
                return self._made[key](*[v for v in values if v is not None])
            except ShapeError:  # such as a size of -1, which code for any contents does not know
                if not any(self._decide_sizes(values)):
                    raise
        return self._call_fixed(key, values, attributes)

    def _compile_open(self, values, attributes):
        """A module for any contents of these arrays; None: those that decide sizes must be known."""
        try:
            return self._compile(values, attributes)
        except EinkornError:
            if not any(self._decide_sizes(values)):
                raise
            return None

    def _call_fixed(self, key, values, attributes):
        sizes = self._decide_sizes(values)
        key += tuple(v.tobytes() for s, v in zip(sizes, values) if s)
        if key not in self._made:
            self._made[key] = self._compile(values, attributes, fixed=True)
        return self._made[key](*[v for s, v in zip(sizes, values) if v is not None and not s])

    def _decide_sizes(self, values):
        return [v is not None and p.sizes for p, v in zip(self._given_ports(len(values)), values)]

    def grad(self, *arrays, argnums=0, **named):
        """The derivative by the input `argnums` at these arrays; see einkorn.grad."""
        if argnums not in self._derivatives:
            self._derivatives[argnums] = grad(self, argnums, **self._given)
        return self._derivatives[argnums](*arrays, **named)

    def _given_ports(self, n):
        """The inputs that n values are, of which the last may be many."""
        return self._inputs[:n] + self._inputs[-1:] * (n - len(self._inputs))

    def _results(self):
        """How many outputs a call gives."""
        return sum(i == 0 or not p.optional for i, p in enumerate(self._outputs))

    def _kinds(self, attributes):
        """(name, value, kind) of attributes."""
        return [(k, v, self._attributes[k]) for k, v in attributes.items() if v is not None]

    def _arguments(self, arrays, named):
        values, ports = list(arrays), self._inputs
        many = bool(ports) and ports[-1].many
        if len(values) > len(ports) and not many:
            raise TypeError("%s: %d arrays for %d inputs" % (self.name, len(values), len(ports)))
        for p in ports[len(values):]:
            value = named.pop(p.name, None)
            if value is None and not p.optional and not p.many:
                raise TypeError("%s: input '%s' is missing" % (self.name, p.name))
            values.append(value)
        if named:
            raise TypeError("%s has no input or attribute %s; its signature is %s"
                            % (self.name, ", ".join(map(repr, named)), self.signature))
        while values and values[-1] is None:
            values.pop()
        return values

    def graph(self, values, attributes, fixed=False):
        """The model with this operator alone, as text, for arrays like these. fixed: those whose contents decide sizes
        are constants."""
        names = ["" if v is None else "x%d" % i for i, v in enumerate(values)]
        rows = []
        for n, v, sizes in zip(names, values, self._decide_sizes(values)):
            if v is not None:
                told = "%s: %s[%s]" % (n, _type_name(v), ", ".join(map(str, v.shape)))
                rows.append("  const %s = %s" % (told, _contents(v)) if fixed and sizes else "  input " + told)
        outputs = ["y%d" % i for i, p in enumerate(self._outputs) if i == 0 or not p.optional]
        rows_of = ["%s = %s" % (k, _literal(v, kind)) for k, v, kind in self._kinds(attributes)]
        extra = " {%s}" % ", ".join(rows_of) if rows_of else ""
        domain, _, plain = self.name.rpartition("::")
        called = '"%s"::%s' % (domain, plain) if domain else plain
        call = "%s(%s)%s" % (called, ", ".join(n or "_" for n in names), extra)
        rows.append("  %s = %s" % (", ".join(outputs), call))
        rows += ["  output " + n for n in outputs]
        return 'graph "%s" ir 10 opset 23 {\n%s\n}\n' % (plain, "\n".join(rows))

    def _compile(self, values, attributes, fixed=False):
        options = dict(_options(ops=self, **self._given))
        text = self.graph(values, attributes, fixed).encode()
        options["texts"] = ["y%d" % i for i, p in enumerate(self._outputs) if p.text]
        return Module(text, options)

    def show(self, stage="expr", *arrays, after="inline", **attributes):
        """The text of a level of the compiler for arrays like these; without arrays: the definition."""
        if not arrays:
            return self.text or _core.op_source(self.definitions, self.name)
        values = [typed(a) for a in arrays]
        return self._compile(values, attributes).show(stage, after=after if stage == "expr" else None)

    def __reduce__(self):
        return _made, (self.text, self.name, self.__doc__, self._given)

    def __repr__(self):
        return "<einkorn.Operator %s>" % self.signature


def _made(text, name, doc, options):
    return Operator(text, name, doc, **options)


def _contents(array):
    return (array.astype(int) if array.dtype == bool else array).reshape(-1).tolist()


def _type_name(array):
    if array.dtype.kind in "OUST":
        return "str"
    if array.dtype.name not in TYPES:
        raise UsageError("arrays of type %s are not supported" % array.dtype.name)
    return TYPES[array.dtype.name]


def op(definition=None, *, name=None, **options):
    """An Operator from a definition in the notation, from a text or as a decorator; or an operator that is there.

        twice = einkorn.op("op Twice<T>(X: T[n...]) -> Y: T[n...] { Y[i...] = X[i...] + X[i...] }")
        twice(numpy.arange(3.0))

        @einkorn.op
        def twice():
            '''op Twice<T>(X: T[n...]) -> Y: T[n...] { Y[i...] = X[i...] + X[i...] }'''

        softmax = einkorn.op(name="Softmax")

    name: which of several definitions. options: as compile. Raises ModelError with line, column and a caret.
    """
    if definition is None:
        return Operator("", name, **options) if name else lambda f: op(f, **options)
    if callable(definition):
        import inspect
        return Operator(inspect.cleandoc(definition.__doc__ or ""), name, **options)
    return Operator(definition, name, **options)
