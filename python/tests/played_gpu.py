"""Which calls of a program on a GPU wait for its work, on a driver that is played (tests/gpu/fake_gpu.c): TOROID_CUDA_DRIVER names it.

test_models.py runs this in a process of its own, for the driver is chosen once.
"""

import ctypes
import os
import unittest

import support
import toroid

driver = ctypes.CDLL(os.environ["TOROID_CUDA_DRIVER"])
GPU = (2, 0)
TENSOR_NAME, TABLE_NAME = b"dltensor", b"dlpack_exchange_api"  # capsules keep their names' addresses


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


TENSOR_FROM_OBJECT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
OBJECT_FROM_TENSOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
CURRENT_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class ExchangeApi(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_tensor_from_object", ctypes.c_void_p),
        ("object_from_managed_tensor", OBJECT_FROM_TENSOR),
        ("tensor_from_object", TENSOR_FROM_OBJECT),
        ("current_work_stream", CURRENT_STREAM),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def allocated(size):
    """Memory of the GPU."""
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(size), None)
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    return address.value


class Array:
    """f32[4, 3] there, of a library that says no stream, as JAX's and that of PyTorch 2.9."""

    def __init__(self):
        self.shape = (ctypes.c_int64 * 2)(4, 3)
        self.strides = (ctypes.c_int64 * 2)(3, 1)
        device, dtype = (ctypes.c_int32 * 2)(*GPU), (ctypes.c_uint8 * 2)(2, 32)
        self.managed = Managed(DLTensor(allocated(48), device, 2, dtype, 1, self.shape, self.strides, 0), None, None)

    def __dlpack_device__(self):
        return GPU

    def __dlpack__(self, stream=None, max_version=None):
        assert stream == 1  # the default stream, on which the call works
        return new_capsule(ctypes.addressof(self.managed), TENSOR_NAME, None)


def tensor_from_object(array, out):
    out[0] = array.managed.tensor
    return 0


taken = []


def object_from_tensor(tensor, out):
    taken.append(object())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken[-1]))
    out[0] = id(taken[-1])
    return 0


def current_stream(device_type, device, out):
    out[0] = None
    return 0


TABLE = ExchangeApi(
    (1, 3),
    None,
    None,
    None,
    OBJECT_FROM_TENSOR(object_from_tensor),
    TENSOR_FROM_OBJECT(tensor_from_object),
    CURRENT_STREAM(current_stream),
)


class Ordered(Array):
    """The same of a library that says its stream, as PyTorch's since 2.10."""

    __module__ = "torch.played"
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(TABLE), TABLE_NAME, None)
    requires_grad = False

    def is_neg(self):
        return False

    is_conj = is_neg


class Waits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = toroid.compile(support.PROGRAMS / "scaled.txt", device="cuda")
        for _ in range(3):
            cls.model(Array()), cls.model(Ordered())

    def waits(self, call, *arrays):
        driver.fake_gpu_waits()
        result = call(*arrays)
        return driver.fake_gpu_waits(), result

    def test_a_library_that_says_no_stream_gets_results_that_are_there(self):
        waits, result = self.waits(self.model, Array())
        self.assertGreater(waits, 0)
        self.assertEqual(result.__dlpack_device__(), GPU)

    def test_results_for_whatever_library_are_there(self):
        waits, result = self.waits(self.model.with_options(results="toroid"), Ordered())
        self.assertGreater(waits, 0)
        self.assertIsInstance(result, toroid.Tensor)

    def test_one_that_works_on_the_stream_of_the_call_waits_for_nothing(self):
        waits, result = self.waits(self.model, Ordered())
        self.assertEqual(waits, 0)
        self.assertIs(result, taken[-1])


if __name__ == "__main__":
    unittest.main()
