"""What onnxruntime checks of its own installation."""
has_ortmodule = False
package_name = "onnxruntime"
version = "1.23.0"
cuda_version = ""


def check_distro_info():
    """Nothing to check."""
