"""Where the parts of the package are, and whether this machine can use them."""
import os
import platform
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _refuse():
    """Raises ImportError where the package cannot work, with the reason."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise ImportError("einkorn runs on Linux on x86-64; this is %s on %s" % (platform.system(), platform.machine()))
    if sys.version_info < (3, 11):
        raise ImportError("einkorn needs Python 3.11 or later; this is %s" % platform.python_version())
    if platform.libc_ver()[0] != "glibc":
        raise ImportError("einkorn needs glibc 2.34 or later; this system has another C library (musl is one)")


try:
    from . import _core
except ImportError:
    _refuse()
    raise

version = _core.version()


def get_include():
    """Folder to compile C programs with: it holds einkorn/einkorn.h."""
    return os.path.join(_HERE, "include")


def get_library():
    """Path of the C library, libeinkorn.so."""
    folder = os.path.join(_HERE, "lib")
    return os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith("libeinkorn.so")))


def get_program():
    """Path of the program ``einkorn``."""
    return os.path.join(_HERE, "bin", "einkorn")
