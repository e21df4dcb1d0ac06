"""Options of sessions and runs. Those that change only how onnxruntime works inside are kept and have no effect."""
import enum

from ._errors import Fail, error, unavailable


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class _Options:
    """Attributes with a default each; a value must have the default's type."""

    _defaults = {}

    def __init__(self):
        self.__dict__.update(self._defaults, _entries={})

    def __setattr__(self, name, value):
        if name not in self._defaults:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        kind = type(self._defaults[name])
        good = isinstance(value, kind) or (kind is int and hasattr(value, "__index__"))
        if not good or (kind is not bool and isinstance(value, bool) and kind is not int):
            raise TypeError("%s.%s: %s is expected, found %r" % (type(self).__name__, name, kind.__name__, value))
        self.__dict__[name] = value

    def _add(self, key, value):
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("a configuration entry is a text with a text as its key")
        self._entries[key] = value

    def _get(self, key):
        if key not in self._entries:
            raise RuntimeError("%s does not have configuration with key: %s" % (type(self).__name__, key))
        return self._entries[key]


class SessionOptions(_Options):
    """Effect: intra_op_num_threads, enable_profiling, profile_file_prefix, the overrides of free dimensions, and the
    configuration entries einkorn.NAME for options of einkorn.compile (accuracy, precision, cache, memory_limit)."""

    _defaults = {"enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True,
                 "enable_profiling": False, "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
                 "execution_order": ExecutionOrder.DEFAULT,
                 "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "inter_op_num_threads": 0,
                 "intra_op_num_threads": 0, "log_severity_level": -1, "log_verbosity_level": 0, "logid": "",
                 "optimized_model_filepath": "", "profile_file_prefix": "onnxruntime_profile_",
                 "use_deterministic_compute": False, "use_per_session_threads": True}

    def __init__(self):
        super().__init__()
        self.__dict__.update(_dims={}, _initializers={})

    def add_session_config_entry(self, key, value):
        self._add(key, value)

    def get_session_config_entry(self, key):
        return self._get(key)

    def add_free_dimension_override_by_name(self, name, size):
        self._dims[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation, size):
        raise unavailable("add_free_dimension_override_by_denotation")

    def add_initializer(self, name, value):
        raise unavailable("add_initializer")

    def add_external_initializers(self, names, values):
        raise unavailable("add_external_initializers")

    def add_external_initializers_from_files_in_memory(self, names, contents, sizes):
        raise unavailable("add_external_initializers_from_files_in_memory")

    def add_provider(self, name, options=None):
        if name != "CPUExecutionProvider":
            raise error(Fail, "the execution provider %s is not available: Einkorn runs on the CPU" % name)

    def add_provider_for_devices(self, devices, options=None):
        raise unavailable("add_provider_for_devices")

    def has_providers(self):
        return False

    def register_custom_ops_library(self, path):
        raise error(Fail, "%s: libraries of custom operators for onnxruntime cannot be used here; define the operators "
                          "in a .ek file (docs/notation.md) and set the session's configuration entry einkorn.ops to "
                          "its path" % path)


class RunOptions(_Options):
    """Of a run. terminate: a run that begins while it is set fails."""

    _defaults = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "",
                 "only_execute_path_to_fetches": False, "terminate": False}

    def add_run_config_entry(self, key, value):
        self._add(key, value)

    def get_run_config_entry(self, key):
        return self._get(key)

    def add_active_adapter(self, adapter):
        raise unavailable("add_active_adapter")


class OrtArenaCfg:
    """Kept for programs that make one; Einkorn's working memory is planned while it compiles."""

    def __init__(self, *values, **named):
        self.values, self.named = values, named


class OrtMemoryInfo:
    def __init__(self, name, allocator_type, device_id, mem_type):
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type


class LoraAdapter:
    def __init__(self, *_):
        raise unavailable("LoraAdapter")


class AdapterFormat:
    def __init__(self, *_):
        raise unavailable("AdapterFormat")
