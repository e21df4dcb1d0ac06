from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep

from ._values import Port

class EinkornRep(BackendRep):
    inputs: list[Port]
    @property
    def constants(self) -> list[str]: ...
    def run(self, inputs: Sequence[Any] | Mapping[str, Any] | Any, **kwargs: Any) -> tuple[Any, ...]: ...

class EinkornBackend(Backend):
    @classmethod
    def supports_device(cls, device: str) -> bool: ...
    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool: ...
    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> EinkornRep: ...
    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]: ...
    @classmethod
    def run_node(cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]: ...

supports_device = EinkornBackend.supports_device
is_compatible = EinkornBackend.is_compatible
prepare = EinkornBackend.prepare
run_model = EinkornBackend.run_model
run_node = EinkornBackend.run_node
