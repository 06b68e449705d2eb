"""Arrays: of dtypes that NumPy itself does not have, such as lie otherwise than programs read them, and writing to a caller's."""

import ctypes

from toroid.errors import InputError

# What errors say of inputs on a GPU that lie otherwise than the program reads them.
_LIES_OTHERWISE = ("and the program reads it with", "at an address that is no multiple of")


def is_of_layout(error: Exception) -> bool:
    """Whether a call fails by how an input lies in memory, so that with a copy it may succeed."""
    return any(words in str(error) for words in _LIES_OTHERWISE)


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


def in_rows(arrays):
    """The arrays, with PyTorch's GPU tensors copied that do not lie in row-major order or at a multiple of 16 bytes; None where none is
    such."""
    copied = None
    for i, array in enumerate(arrays):
        if type(array).__module__.partition(".")[0] != "torch" or not getattr(array, "is_cuda", False):
            continue
        if not array.is_contiguous() or array.data_ptr() % 16 != 0:
            copied = copied or list(arrays)
            copied[i] = array.new_empty(array.shape).copy_(array)
    return copied


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
