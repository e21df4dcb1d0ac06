"""Training: a Trainer makes one program of a model's forward pass, loss, gradient and update.

    trainer = einkorn.train.Trainer("model.onnx", loss="cross_entropy", optimizer="adamw", metrics=["accuracy"])
    trainer.fit({"image": x, "target": y}, epochs=10, batch=32, lr=1e-3)
    trainer.save("trained.onnx")

What the losses, optimisers and metrics are: docs/training.md.
"""
import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy

from . import _core
from ._arrays import TYPES
from ._errors import UsageError
from ._module import Module, _bytes_number, _options

PARAMETER, STATISTIC, MOMENT = range(3)  # what a tensor is; as ek_trained_kind
STEP = "train.step"  # the number of updates in a state dict


class Epoch(NamedTuple):
    """What an epoch of fit() came to."""
    epoch: int  # its number, from 0
    step: int  # updates so far
    lr: float  # of its last step
    loss: float  # mean over its steps
    metrics: dict  # name -> value, over its steps
    validation: "Validation"  # None: there was nothing to validate with


class Validation(NamedTuple):
    """Loss and metrics of the data that fit() validates with."""
    loss: float
    metrics: dict


class Step(NamedTuple):
    """What a step of fit() came to."""
    epoch: int
    step: int  # updates so far
    lr: float
    loss: float


class Callback:
    """What fit() tells; a true answer ends it. Any object with one of these methods will do."""

    def on_step(self, trainer, step):
        """After each step: a Step."""

    def on_epoch(self, trainer, epoch):
        """After each epoch: an Epoch."""


class Tensors(Mapping):
    """Tensors of a trainer by name. Reading one gives a new array; ``tensors[name] = array`` sets it."""

    def __init__(self, core, kinds):
        self._core = core
        self._numbers = {name: i for i, (name, kind) in enumerate(core.tensors()) if kind in kinds}

    def __getitem__(self, name):
        return self._core.get(self._numbers[name])

    def __setitem__(self, name, array):
        self._core.set(self._numbers[name], array)

    def __iter__(self):
        return iter(self._numbers)

    def __len__(self):
        return len(self._numbers)


class Trainer:
    """A model, its loss and its optimiser, compiled to one program; see __init__."""

    def __init__(self, model, *, loss, optimizer="adamw", metrics=(), output=None, freeze=(), groups=(), clip_norm=0.0,
                 clip_value=0.0, accumulate=1, seed=0, ema=0.0, init=None, memory=0, loss_scale=65536.0,
                 loss_scale_interval=2000, standardize=None, metadata=None, batch=None, **options):
        """
        model       as for compile()
        loss        such as "cross_entropy", or "cross_entropy:ignore_index=0"
        optimizer   such as "adamw:weight_decay=0.1"
        metrics     such as ["accuracy"]; here, and in freeze and groups, one text alone will do
        output      the tensor that loss and metrics are of; None: the model's first output, or, where its last node
                    computes what the loss computes itself (Softmax before cross_entropy), the input of that node
        freeze      patterns (* and ?) of the names of parameters that stay as they are
        groups      "PATTERN:attribute=value,..": parameters that the optimiser treats in another way, such as
                    ["*bias:weight_decay=0"]; the first that fits counts
        clip_norm   gradients are scaled so that all together have at most this norm; 0: not
        clip_value  each element of a gradient is cut to at most this absolute value; 0: not
        accumulate  so many steps make one update, by the mean of their gradients
        seed        of random masks, of `init` and of the order of fit()
        ema         the decay of averages of the parameters, such as 0.999, which evaluate() and save() use; 0: none
        init        "he" or "xavier": parameters begin with values that follow from their use and the seed; None, or
                    "keep": those of the model
        memory      most bytes of a step, such as "2G": working memory, parameters, moments and constants. What the
                    forward pass computes is computed again for the gradient, as far as that is needed; values stay the
                    same. 0: no limit
        loss_scale  with precision="f16" the loss is multiplied by it before it is differentiated; it halves where a
                    gradient is not finite. It is the tensor "train.loss_scale" of state_dict()
        loss_scale_interval  after so many steps in a row with finite gradients the scale doubles
        standardize  {input: (mean, deviation)}: the model begins with (x - mean)/deviation; these are numbers, or
                    arrays with an element for each feature or channel; so does what save() writes
        metadata    {key: text} that save() writes beside the model
        batch       {name: array, or (shape, dtype)}: what a step is given, which are the model's inputs and those of
                    the loss and the metrics, such as "target". None: as the first step is
        options     as for compile(); those of cache, states and watch have no meaning here

        Raises an EinkornError, such as UsageError where nothing can be trained.
        """
        compiled = _options(**options)
        self._module = Module(model, dict(compiled, load=True, cache=None))
        self._options = dict(compiled, cache=None, states=[], watch=[], metrics=_texts(metrics), freeze=_texts(freeze),
                             groups=_texts(groups), metadata=["%s=%s" % row for row in (metadata or {}).items()])
        self._rest = (loss, optimizer, output, float(clip_norm), float(clip_value), int(accumulate), int(seed),
                      float(ema), init, _bytes_number("memory", memory), float(loss_scale), int(loss_scale_interval),
                      _standards(standardize or {}))
        self._metrics = tuple(_texts(metrics))
        self._seed = int(seed)
        self._core = None
        self._sums = None  # of the metrics, where they are of several batches
        if batch is not None:
            self._compile(batch)

    def _compile(self, batch):
        rows = [(name,) + _type_and_shape(name, array) for name, array in _dict(batch).items()]
        self._shapes = {name: shape for name, _, shape in rows}
        self._core = _core.Trainer(self._module, self._options, rows, *self._rest)
        return self._core

    def _compiled(self):
        if self._core is None:
            raise UsageError("the trainer is compiled for the first batch: give batch=, or make a step first")
        return self._core

    def step(self, arrays, lr, samples=None, epoch=0):
        """One step with this batch, a dict of arrays by name: the loss before the update. lr: the learning rate.
        samples: numbers of the batch's samples, of which with the epoch random masks are a function; None: samples are
        numbered from step to step.

        Raises FailedError where the loss is no finite number; parameters and moments then stay as they were."""
        core = self._core or self._compile(arrays)
        self._sums = None
        core.samples(epoch, None if samples is None else numpy.ascontiguousarray(samples, numpy.int64))
        return core.step(_dict(arrays), lr)

    def evaluate(self, arrays):
        """The loss of these arrays, by the model as it is for inference; changes nothing. Arrays with more rows than a
        step has are evaluated in batches of that many: the mean of their losses, weighted by the rows."""
        core, sums = self._core or self._compile(_dict(arrays)), None
        shapes = {name: numpy.shape(array) for name, array in arrays.items()}
        if shapes == self._shapes:
            self._sums = None
            return core.evaluate(arrays)
        arrays, rows = _rows(arrays)
        size = next(iter(self._shapes.values()))[0]
        total = 0.0
        for first in range(0, rows, size):
            last = min(first + size, rows)
            total += core.evaluate({name: array[first:last] for name, array in arrays.items()}) * (last - first)
            sums = self._added(sums)
        self._sums = sums
        return total / rows

    def fit(self, data, epochs, batch=None, lr=1e-3, *, schedule=None, validate=None, callbacks=(), shuffle=True,
            first_epoch=0):
        """Steps over all of `data`, `epochs` times: a list with an Epoch for each.

        data         a dict of arrays, whose first axis are the samples; or an iterable of batches, which are dicts
        batch        samples of a step, where data are arrays; None: what the trainer was compiled for. Samples that
                     fill no batch are left out, in each epoch others
        lr           the learning rate
        schedule     such as "cosine:warmup=100" (docs/training.md lists them); or called as schedule(step, steps), the
                     number of the step, from 0, and of all steps: a factor of lr
        validate     a dict of arrays that are evaluated after each epoch
        callbacks    Callbacks, or one of them
        shuffle      samples come in another order in each epoch: a function of the trainer's seed and the epoch
        first_epoch  to go on with a training: epochs before this one are left out

        Ctrl-C ends it between two steps.
        """
        callbacks = _callbacks(callbacks)
        batches = _Arrays(data, self._size(batch), self._seed if shuffle else None) if isinstance(data, Mapping) \
            else _Batches(data, epochs - first_epoch)
        if schedule and not len(batches):
            raise UsageError("fit: a schedule needs the number of batches, len(data)")
        history, losses, done = [], [], first_epoch * len(batches)
        for epoch in range(first_epoch, epochs):
            total, sums, count, rate = 0.0, None, 0, lr
            for arrays, samples in batches.of(epoch):
                rate = self._rate(schedule, lr, done, epochs * len(batches), losses, arrays)
                loss = self.step(arrays, rate, samples, epoch)
                total, count, done = total + loss, count + 1, done + 1
                sums = self._added(sums)
                if _tell(callbacks, "on_step", self, Step(epoch, self.steps, rate, loss)):
                    return history
            if not count:
                raise UsageError("fit: there is no batch of data")
            row = Epoch(epoch, self.steps, rate, total / count, self._values(sums), self._validate(validate))
            history.append(row)
            losses.append(row.validation.loss if row.validation else row.loss)
            if _tell(callbacks, "on_epoch", self, row):
                break
        return history

    def _rate(self, schedule, lr, step, steps, losses, arrays):
        if schedule is None:
            return lr
        if callable(schedule):
            return lr * schedule(step, steps)
        core = self._core or self._compile(arrays)
        every = self._rest[5]  # a schedule counts updates
        return core.rate(schedule, lr, step // every, max(steps // every, 1), losses)

    def _size(self, batch):
        if batch is None and self._core is None:
            raise UsageError("fit: batch, the number of samples of a step, is needed")
        return int(batch or next(iter(self._shapes.values()))[0])

    def _validate(self, arrays):
        if arrays is None:
            return None
        loss = self.evaluate(arrays)
        return Validation(loss, self.metrics())

    def _added(self, sums):
        """The sums of the metrics of the last step or evaluation, added to these."""
        new = [self._core.metric(i) for i in range(len(self._metrics))]
        return new if sums is None else [tuple(map(sum, zip(a, b))) for a, b in zip(sums, new)]

    def _values(self, sums):
        return {name: self._core.metric_value(i, sums[i]) for i, name in enumerate(self._metrics)}

    def metrics(self):
        """The metrics of the last step or evaluation: a dict of numbers by name."""
        self._compiled()
        return self._values(self._added(None) if self._sums is None else self._sums)

    @property
    def parameters(self):
        """What is trained, a mapping from names to arrays. Reading one gives a new array;
        ``trainer.parameters["w"] = array`` sets it."""
        return Tensors(self._compiled(), (PARAMETER,))

    @property
    def statistics(self):
        """Running statistics, as `parameters`: the mean and variance of BatchNormalization."""
        return Tensors(self._compiled(), (STATISTIC,))

    @property
    def steps(self):
        """Updates so far."""
        return self._compiled().steps()

    @property
    def output(self):
        """The name of the tensor that loss and metrics are of; None: the model's first output."""
        return self._compiled().output()

    @property
    def report(self):
        """What compiling the step came to, as Module.report."""
        return self._compiled().report()

    def state_dict(self):
        """All that a training goes on from, as arrays by name: parameters, statistics, the optimiser's states, and the
        number of updates, "train.step". Such as for ``numpy.savez(path, **trainer.state_dict())``."""
        return dict(Tensors(self._compiled(), (PARAMETER, STATISTIC, MOMENT)), **{STEP: numpy.int64(self.steps)})

    def load_state_dict(self, states):
        """Goes on from what state_dict() gave; the contents of an .npz file will do."""
        all_tensors = Tensors(self._compiled(), (PARAMETER, STATISTIC, MOMENT))
        wrong = set(all_tensors) ^ (set(states) - {STEP})
        if wrong or STEP not in states:
            name = min(wrong) if wrong else STEP
            raise UsageError("load_state_dict: %r is %s" % (name, "missing" if name not in states else
                                                            "no tensor of this trainer"))
        for name in all_tensors:
            all_tensors[name] = states[name]
        self._core.steps(int(states[STEP]))

    def save(self, path):
        """Writes the model with the parameters and statistics of now, as NAME.onnx."""
        self._compiled().save(os.fspath(path))

    def close(self):
        """Gives the memory back; the trainer cannot be used afterwards."""
        if self._core is not None:
            self._core.close()
        self._module.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _texts(given):
    return [given] if isinstance(given, str) else list(given)


def _dict(arrays):
    if not isinstance(arrays, Mapping):
        raise UsageError("a dict of arrays by name is expected, such as {\"x\": x, \"target\": y}, not a %s"
                         % type(arrays).__name__)
    return arrays


def _callbacks(given):
    callbacks = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in callbacks:
        if not any(hasattr(one, method) for method in ("on_step", "on_epoch")):
            raise UsageError("callbacks: %r has neither on_step nor on_epoch" % (one,))
    return callbacks


def _standards(standardize):
    """{input: (mean, deviation)} as the C library takes it."""
    rows = []
    for name, pair in standardize.items():
        try:
            mean, deviation = numpy.broadcast_arrays(*(numpy.asarray(x, numpy.float64) for x in pair))
            rows.append((name, mean.ravel().tolist(), deviation.ravel().tolist()))
        except (TypeError, ValueError) as error:
            raise UsageError("standardize: %r: (mean, deviation) is expected, as numbers or arrays of one shape: %s"
                             % (name, error)) from None
    return rows


def _type_and_shape(name, given):
    """(name of the type, shape) of an array, or of (shape, dtype)."""
    if isinstance(given, tuple) and len(given) == 2 and not hasattr(given, "dtype"):
        shape, dtype = tuple(int(n) for n in given[0]), numpy.dtype(given[1])
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        shape, dtype = tuple(given.shape), _dtype(given)
    else:
        raise UsageError("batch: %r: an array, or (shape, dtype), is expected" % (name,))
    if dtype.kind in "UST":
        raise UsageError("batch: %r: texts are expected as numbers of classes: "
                         "classes, numbers = numpy.unique(texts, return_inverse=True)" % (name,))
    if dtype.name not in TYPES:
        raise UsageError("batch: %r: arrays of type %s are not supported" % (name, dtype.name))
    return TYPES[dtype.name], shape


def _dtype(array):
    return array.dtype if isinstance(array.dtype, numpy.dtype) else numpy.from_dlpack(array).dtype


def _rows(arrays):
    """(arrays that can be cut along their first axis, its size)"""
    arrays = {name: array if isinstance(array, numpy.ndarray) else numpy.asarray(array)
              for name, array in arrays.items()}
    sizes = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise UsageError("the arrays need the same number of samples, at least one, along their first axis: %s"
                         % ", ".join("%s %s" % (name, list(a.shape)) for name, a in arrays.items()))
    return arrays, sizes.pop()


class _Arrays:
    """Batches of arrays. seed: they come in an order that follows from it and the number of the epoch; None: as they
    are."""

    def __init__(self, data, size, seed):
        self._data, self._rows = _rows(data)
        self._size, self._seed = size, seed
        if not 0 < size <= self._rows:
            raise UsageError("fit: batches of %d samples, of %d" % (size, self._rows))

    def __len__(self):
        return self._rows // self._size

    def of(self, epoch):
        order = None if self._seed is None else numpy.random.default_rng((self._seed, epoch)).permutation(self._rows)
        for first in range(0, len(self) * self._size, self._size):
            part = slice(first, first + self._size) if order is None else order[first:first + self._size]
            yield {name: array[part] for name, array in self._data.items()}, \
                numpy.arange(first, first + self._size) if order is None else part


class _Batches:
    """Batches that come from somewhere else."""

    def __init__(self, data, epochs):
        if epochs > 1 and iter(data) is data:
            raise UsageError("fit: an iterator gives its batches only once; a list, or another iterable, is needed")
        self._data = data

    def __len__(self):
        return len(self._data) if hasattr(self._data, "__len__") else 0

    def of(self, epoch):
        return ((arrays, None) for arrays in self._data)


def _tell(callbacks, method, trainer, row):
    """Does one of the callbacks want an end? All are told."""
    return any([getattr(c, method)(trainer, row) for c in callbacks if hasattr(c, method)])
