"""What onnxruntime checks of its own installation."""
from .._process import __version__ as version

has_ortmodule = False
package_name = "onnxruntime"
cuda_version = ""


def check_distro_info():
    """Nothing to check."""
