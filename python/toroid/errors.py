"""What toroid raises. Each class is also the built-in one that fits, so that existing handlers catch it."""


class ToroidError(Exception):
    """Base of all errors of toroid. Its text says what is wrong, where, and what to do."""


class ArgumentError(ToroidError, ValueError):
    """A call with the wrong number of inputs, an unknown name or option, or a value that an option cannot have."""


class InputError(ToroidError, ValueError):
    """An array's dtype, rank, sizes or layout, or a value in it, such as an index out of bounds."""


class InputTypeError(InputError, TypeError):
    """An input that is no array."""


class DeviceError(InputError):
    """An array on another device than the program's."""


class PackageError(ToroidError, ValueError):
    """A file that is no model or no package, is damaged, or of a version that this toroid does not read."""


class OutOfMemoryError(ToroidError, MemoryError):
    """There is not enough memory."""


class SetupError(ToroidError, RuntimeError):
    """A file that cannot be read or written, no C++ compiler, instructions or a GPU that the machine lacks."""


class NotFoundError(ToroidError, LookupError):
    """No weight or buffer has the name."""


class UnsupportedError(ToroidError, NotImplementedError):
    """An operator that toroid lacks, or something that this program cannot do."""


class CancelledError(ToroidError):
    """The call was cancelled."""


class DeadlineError(ToroidError, TimeoutError):
    """The call's time was up before it was done."""


class InternalError(ToroidError, RuntimeError):
    """toroid is at fault."""
