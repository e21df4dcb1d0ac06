"""Sessions and values under the name that programs import them by."""
from .._session import InferenceSession
from .._values import IOBinding, OrtDevice, OrtValue, SparseTensor

Session = InferenceSession


def get_ort_device_type(device_type, device_index=None):
    """The number of a device's type; there is the CPU alone."""
    OrtDevice.make(device_type, 0)
    return 0
