"""toroid compiles and runs tensor programs: models that torch.export wrote, or that torch.compile hands over."""

from toroid import errors
from toroid._core import Tensor
from toroid._model import Model, compile, load
from toroid.errors import ToroidError

__version__ = "0.1.0"
__all__ = ["Model", "Tensor", "ToroidError", "compile", "errors", "load"]
