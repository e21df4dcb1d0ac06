"""Functions about the whole process: version, devices, providers, logging."""
import warnings

import einkorn

__version__ = "1.23.0"  # the version of onnxruntime whose interface this is

_CPU = "CPUExecutionProvider"


def get_version_string():
    return __version__


def get_build_info():
    return "einkorn %s, with the interface of onnxruntime %s" % (einkorn.__version__, __version__)


def get_device():
    return "CPU"


def get_available_providers():
    return [_CPU]


def get_all_providers():
    return [_CPU]


def get_ep_devices():
    return []


def has_collective_ops():
    return False


def set_default_logger_severity(level):
    """0 verbose, 1 information, 2 warnings, 3 errors, 4 fatal: what of the logger "einkorn" is shown."""
    import logging
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
    if not 0 <= level < len(levels):
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")
    logging.getLogger("einkorn").setLevel(levels[level])


def set_default_logger_verbosity(level):
    int(level)


def set_seed(seed):
    """Operators that draw numbers say their seed in the model, or draw the same numbers each time; this warns."""
    if int(seed):
        warnings.warn("set_seed has no effect: random operators without a seed attribute draw the same numbers always")


def disable_telemetry_events():
    """There are none."""


def enable_telemetry_events():
    """There are none: Einkorn sends nothing anywhere."""


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """Nothing needs to be loaded."""


def print_debug_info():
    import platform
    print("einkorn", einkorn.__version__, "as onnxruntime", __version__)
    print("Python", platform.python_version(), platform.platform())
    print("threads", einkorn.threads())
