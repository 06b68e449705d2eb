"""toroid compiles and runs tensor programs: models that torch.export wrote, or that torch.compile(backend="toroid") hands over.

    import toroid
    model = toroid.compile("model.pt2")      # or toroid.load("model.so")
    y = model(x)                             # arrays of NumPy, PyTorch or JAX, without copies

Importing it needs neither PyTorch nor NumPy.
"""

from toroid import _core, _logging, errors
from toroid._compile import COMMAND as _COMMAND
from toroid._compile import Explanation, compile, explain, load
from toroid._core import Tensor
from toroid._model import Model, SymbolInfo, TensorInfo, WeightInfo
from toroid._profile import Profile
from toroid._tree import Results
from toroid.errors import (
    ArgumentError,
    CancelledError,
    DeadlineError,
    DeviceError,
    InputError,
    InputTypeError,
    InternalError,
    NotFoundError,
    OutOfMemoryError,
    PackageError,
    SetupError,
    ToroidError,
    UnsupportedError,
)

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "CancelledError",
    "DeadlineError",
    "DeviceError",
    "Explanation",
    "InputError",
    "InputTypeError",
    "InternalError",
    "Model",
    "NotFoundError",
    "OutOfMemoryError",
    "PackageError",
    "Profile",
    "Results",
    "SetupError",
    "SymbolInfo",
    "Tensor",
    "TensorInfo",
    "ToroidError",
    "UnsupportedError",
    "WeightInfo",
    "compile",
    "errors",
    "explain",
    "load",
]

_logging.start()
_core.set_command(_COMMAND)
