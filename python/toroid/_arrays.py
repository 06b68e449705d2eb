"""NumPy arrays of dtypes that NumPy itself does not have."""


def bfloat16_array(tensor):
    """The NumPy array of ml_dtypes.bfloat16 on the tensor's memory."""
    import numpy
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("NumPy has no bfloat16 without ml_dtypes: pip install ml_dtypes, or call with results='toroid' or "
                        "results='torch'") from None
    raise NotImplementedError(numpy, ml_dtypes, tensor)
