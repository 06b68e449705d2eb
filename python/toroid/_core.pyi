"""The extension module: what toroid's Python is written on. Made by nanobind's stubgen, and committed."""

from collections.abc import Callable, Sequence

description: str = "toroid 0.1.0"

class Tensor:
    """
    A result in memory of toroid's. NumPy, PyTorch, JAX and others take it without a copy: by DLPack, or on a CPU by the buffer protocol.
    """

    def __dlpack__(
        self,
        *,
        stream: object | None = None,
        max_version: object | None = None,
        dl_device: object | None = None,
        copy: object | None = None
    ) -> object:
        """The tensor as a capsule of DLPack."""

    def __dlpack_device__(self) -> tuple:
        """Where the tensor is, as DLPack says: (1, 0) a CPU, (2, i) the GPU i."""

    @property
    def shape(self) -> tuple:
        """The sizes."""

    @property
    def strides(self) -> tuple:
        """Steps from element to element of each dimension, in elements."""

    @property
    def ndim(self) -> int:
        """How many dimensions."""

    @property
    def size(self) -> int:
        """How many elements."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def dtype(self) -> str:
        """As in "float32"."""

    @property
    def device(self) -> str:
        """ "cpu" or "cuda:0"."""

    @property
    def data_ptr(self) -> int:
        """The address of the first element."""

    def numpy(self) -> object:
        """The tensor as a NumPy array on the same memory."""

    def torch(self) -> object:
        """The tensor as a torch.Tensor on the same memory."""

    def jax(self) -> object:
        """
        The tensor as a jax.Array, on the same memory where JAX's alignment allows it.
        """

    def __len__(self) -> int: ...
    def __reduce__(self) -> object: ...

class Model:
    """
    A loaded program, and the contexts of its calls; toroid.Model is what users have.
    """

    def run(self, inputs: object, results: str = "", timeout_s: float = 0.0) -> list:
        """Runs the program on arrays in the model's order."""

    def profile(self, inputs: object, results: str = "", timeout_s: float = 0.0) -> tuple:
        """
        The outputs, and (variant, step, name, origin, nanoseconds) of each step.
        """

    def with_contexts(self, is_single: bool, threads: int = 0, processors: Sequence[int] = ()) -> Model:
        """The same program with contexts of its own."""

    def seed(self, seed: int) -> None: ...
    def read_weight(self, name: str) -> Tensor: ...
    def read_buffer(self, name: str) -> Tensor: ...
    def reset_buffer(self, name: str = "") -> None: ...
    def swap_weights(self, values: dict) -> None: ...
    def memory(self, inputs: object) -> dict: ...
    @property
    def info(self) -> dict: ...
    @property
    def inputs(self) -> list: ...
    @property
    def outputs(self) -> list: ...
    @property
    def weights(self) -> list: ...
    @property
    def symbols(self) -> list: ...
    @property
    def guards(self) -> list: ...
    @property
    def steps(self) -> list: ...
    @property
    def num_contexts(self) -> int: ...

def open_model(path: str, weights: str = "", gpu: int = 0, threads: int = 0) -> Model: ...
def compile_model(
    model: str,
    output: str = "",
    cpu: str = "",
    device: str = "",
    weights: str = "",
    operators: str = "",
    threads: int = 0,
    cache: bool = True,
    arch: str = "",
) -> Model: ...
def set_log(function: Callable, least: int) -> None:
    """function(level, line) is told of the log, for good."""

def set_progress(function: Callable) -> None:
    """function(what, done, total) is told of work that may last, for good."""

def clear_hooks() -> None: ...
def set_command(arguments: Sequence[str]) -> None: ...
def run_command(arguments: Sequence[str]) -> int:
    """The command `toroid`: the exit status. A process calls it once."""
