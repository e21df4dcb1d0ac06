import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy
from numpy.typing import DTypeLike, NDArray

from . import Array, _Proto

Batch: TypeAlias = Mapping[str, Array]
PARAMETER: int
STATISTIC: int
MOMENT: int
STEP: str

class Validation(NamedTuple):
    loss: float
    metrics: dict[str, float]

class Epoch(NamedTuple):
    epoch: int
    step: int
    lr: float
    loss: float
    metrics: dict[str, float]
    validation: Validation | None

class Step(NamedTuple):
    epoch: int
    step: int
    lr: float
    loss: float

class Callback:
    def on_step(self, trainer: Trainer, step: Step) -> object: ...
    def on_epoch(self, trainer: Trainer, epoch: Epoch) -> object: ...

class _OnStep(Protocol):
    def on_step(self, trainer: Trainer, step: Step) -> object: ...

class _OnEpoch(Protocol):
    def on_epoch(self, trainer: Trainer, epoch: Epoch) -> object: ...

class Tensors(Mapping[str, NDArray[Any]]):
    def __getitem__(self, name: str) -> NDArray[Any]: ...
    def __setitem__(self, name: str, array: Array) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class Trainer:
    def __init__(self, model: str | os.PathLike[str] | bytes | _Proto, *, loss: str, optimizer: str = "adamw",
                 metrics: Iterable[str] = (), output: str | None = None, freeze: Iterable[str] = (),
                 groups: Iterable[str] = (), clip_norm: float = 0.0, clip_value: float = 0.0, accumulate: int = 1,
                 seed: int = 0, ema: float = 0.0, init: str | None = None, memory: int | str = 0,
                 batch: Mapping[str, Array | tuple[Iterable[int], DTypeLike]] | None = None,
                 **options: Any) -> None: ...
    def step(self, arrays: Batch, lr: float, samples: Sequence[int] | None = None, epoch: int = 0) -> float: ...
    def evaluate(self, arrays: Batch) -> float: ...
    def fit(self, data: Batch | Iterable[Batch], epochs: int, batch: int | None = None, lr: float = 1e-3, *,
            schedule: str | Callable[[int, int], float] | None = None, validate: Batch | None = None,
            callbacks: Iterable[_OnStep | _OnEpoch] = (), shuffle: bool = True,
            first_epoch: int = 0) -> list[Epoch]: ...
    def metrics(self) -> dict[str, float]: ...
    @property
    def parameters(self) -> Tensors: ...
    @property
    def statistics(self) -> Tensors: ...
    @property
    def steps(self) -> int: ...
    @property
    def output(self) -> str | None: ...
    @property
    def report(self) -> dict[str, Any]: ...
    def state_dict(self) -> dict[str, NDArray[Any] | numpy.int64]: ...
    def load_state_dict(self, states: Mapping[str, Array]) -> None: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...
