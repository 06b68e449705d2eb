"""NumPy arrays of dtypes that NumPy itself does not have, and writing to a caller's arrays."""

import ctypes

from toroid.errors import InputError


def bfloat16_array(tensor):
    """The NumPy array of ml_dtypes.bfloat16 on the tensor's memory; without ml_dtypes a TypeError says what to do."""
    import numpy

    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("NumPy has no bfloat16 without ml_dtypes: pip install ml_dtypes, or take results='toroid' or " "'torch'") from None
    if tensor.size == 0:
        return numpy.empty(tensor.shape, ml_dtypes.bfloat16)
    # Results lie in row-major order.
    memory = (ctypes.c_uint16 * tensor.size).from_address(tensor.data_ptr)
    memory._toroid = tensor  # the array keeps `memory`, and this the tensor
    return numpy.ctypeslib.as_array(memory).view(ml_dtypes.bfloat16).reshape(tensor.shape)


def write(target, value, name):
    """Gives an input its new value, in its own memory: the model writes to it."""
    if type(target).__module__.partition(".")[0] == "torch":
        target.copy_(value)
    else:
        target[...] = value


def check_writable(target, name):
    """Raises InputError where `write` could not."""
    root = type(target).__module__.partition(".")[0]
    flags = getattr(target, "flags", None)
    if root == "torch" or (root == "numpy" and getattr(flags, "writeable", False)):
        return
    raise InputError(
        f"the model writes to its input '{name}', and an array of type '{type(target).__qualname__}' cannot be written to: "
        "pass a writable array of NumPy or PyTorch, or take the new value from model.run(...)"
    )
