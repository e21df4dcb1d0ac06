"""Values of inputs and outputs: OrtValue, bindings of memory, devices. All of them are in the memory of the CPU."""
import ctypes

import numpy

from ._errors import InvalidArgument, error, unavailable
from ._types import code_of, dtype_of, value_text


def _cpu(device_type):
    if str(getattr(device_type, "device_type", lambda: device_type)()).lower() not in ("cpu", "0"):
        raise error(InvalidArgument, "the device %s is not available: Einkorn runs on the CPU" % (device_type,))


class OrtDevice:
    """A device; there is the CPU alone."""

    def __init__(self, device=None):
        self._device = device

    @staticmethod
    def make(device_type, device_id, vendor_id=-1):
        _cpu(device_type)
        return OrtDevice()

    def device_type(self):
        return "cpu"

    def device_id(self):
        return 0

    def device_mem_type(self):
        return 0

    def device_vendor_id(self):
        return 0


class OrtValue:
    """A tensor, a list of them, or a dict, with the questions that onnxruntime answers about one."""

    def __init__(self, value, numpy_obj=None):
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj, device_type="cpu", device_id=0, vendor_id=-1):
        _cpu(device_type)
        return cls(numpy.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data, onnx_element_type):
        return cls(numpy.asarray(data).view(dtype_of(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type="cpu", device_id=0, vendor_id=-1):
        _cpu(device_type)
        return cls(numpy.zeros(tuple(shape), dtype_of(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor):
        raise unavailable("sparse tensors")

    @classmethod
    def from_dlpack(cls, data, is_bool_tensor=False):
        array = numpy.from_dlpack(data)
        return cls(array.view(bool) if is_bool_tensor else array)

    def as_sparse_tensor(self):
        raise unavailable("sparse tensors")

    def numpy(self):
        if not self.is_tensor():
            raise error(InvalidArgument, "only tensors are arrays; this is %s" % self.data_type())
        return self._value

    def to_dlpack(self):
        return self.numpy().__dlpack__()

    def __dlpack__(self, **options):
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self):
        return 1, 0

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def update_inplace(self, np_arr):
        array = self.numpy()
        if array.shape != np_arr.shape or array.dtype != np_arr.dtype:
            raise error(InvalidArgument, "the new array is %s %s, the value is %s %s"
                        % (np_arr.dtype.name, list(np_arr.shape), array.dtype.name, list(array.shape)))
        array[...] = np_arr

    def data_ptr(self):
        return self.numpy().ctypes.data

    def tensor_size_in_bytes(self):
        return self.numpy().nbytes

    def data_type(self):
        return value_text(self._value)

    def element_type(self):
        return code_of(self.numpy().dtype)

    def shape(self):
        return list(self.numpy().shape)

    def device_name(self):
        return "cpu"

    def is_tensor(self):
        return isinstance(self._value, numpy.ndarray)

    def is_tensor_sequence(self):
        return isinstance(self._value, list)

    def is_sparse_tensor(self):
        return False

    def has_value(self):
        return self._value is not None


class SparseTensor:
    """Sparse tensors are not supported."""

    def __init__(self, *_):
        raise unavailable("SparseTensor")

    sparse_coo_from_numpy = sparse_csr_from_numpy = classmethod(lambda cls, *_: cls())


def unwrap(value):
    """What an OrtValue holds; other values as they are."""
    return value._value if isinstance(value, OrtValue) else value


def _memory(shape, element_type, address):
    """An array over memory of the caller."""
    dtype = dtype_of(element_type)
    n = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    return numpy.frombuffer((ctypes.c_char * n).from_address(address), dtype).reshape(tuple(shape)) if n else \
        numpy.zeros(tuple(shape), dtype)


class IOBinding:
    """Inputs and outputs that stay bound between the runs of a session."""

    def __init__(self, session):
        self._session = session
        self._inputs, self._outputs = {}, {}
        self._results = None

    def bind_cpu_input(self, name, arr_on_cpu):
        self._session._input_name(name)
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name, ortvalue):
        self.bind_cpu_input(name, unwrap(ortvalue))

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        _cpu(device_type)
        self.bind_cpu_input(name, _memory(shape, element_type, buffer_ptr))

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        _cpu(device_type)
        self._session._output_name(name)
        self._outputs[name] = None if buffer_ptr is None else _memory(shape, element_type, buffer_ptr)

    def bind_ortvalue_output(self, name, ortvalue):
        self._session._output_name(name)
        self._outputs[name] = ortvalue.numpy()

    def clear_binding_inputs(self):
        self._inputs.clear()

    def clear_binding_outputs(self):
        self._outputs.clear()

    def synchronize_inputs(self):
        """Nothing to wait for."""

    def synchronize_outputs(self):
        """Nothing to wait for."""

    def _run(self):
        self._results = self._session._run_bound(self._inputs, self._outputs)

    def get_outputs(self):
        return [OrtValue(v) for v in self._results or ()]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self):
        return [v.copy() if isinstance(v, numpy.ndarray) else v for v in self._results or ()]
