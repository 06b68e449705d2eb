"""toroid as a backend of torch.compile: ``torch.compile(model, backend="toroid")``.

The package's entry point makes the name known to PyTorch; where toroid is not installed, importing this module does.
"""

from importlib.metadata import entry_points

from torch._dynamo.backends.registry import register_backend

from .dynamo import backend
from .fallback import FallbackWarning, UnsupportedGraph
from .runtime import CallError, synchronize

if not entry_points(group="torch_dynamo_backends", name="toroid"):
    register_backend(name="toroid")(backend)

__all__ = ["CallError", "FallbackWarning", "UnsupportedGraph", "backend", "synchronize"]
