"""toroid.Model: a compiled program that is called like a function."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from toroid import _arrays, _core
from toroid._display import byte_size, html_table, text_table
from toroid._logging import logger
from toroid._profile import Profile
from toroid._tree import CallTree
from toroid.errors import ArgumentError, InputError, NotFoundError

_KINDS = {0: "result", 2: "input update", 3: "parameter update", 4: "gradient", 5: "loss", 6: "token"}


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input or output: `type` has dtype and sizes ("f32[s0, 128]").

    `kind`, of an output, is "result", "loss", "gradient", "input update" or "parameter update", the last three of `target`. `is_late`: its
    sizes become known while the program runs.
    """

    name: str
    type: str
    dtype: str
    rank: int
    kind: str
    target: str
    is_late: bool


@dataclasses.dataclass(frozen=True)
class WeightInfo:
    """A weight, constant or buffer. `is_mutable`: calls may change it."""

    name: str
    type: str
    dtype: str
    shape: tuple
    nbytes: int
    is_mutable: bool


@dataclasses.dataclass(frozen=True)
class SymbolInfo:
    """A size that may differ from call to call, between `least` and `most` (None: it has no bound)."""

    name: str
    least: int
    most: "int | None"


def _tensor_info(row):
    name, type_, dtype, rank, kind, target, is_late = row
    return TensorInfo(name, type_, dtype, rank, _KINDS.get(kind, "result"), target, is_late)


_executor_lock = threading.Lock()
_executor = None


def _submit(function, *args, **kwargs):
    """Runs the function on one of a few threads that all models share. They call, and wait: a program has threads of its own."""
    global _executor
    with _executor_lock:
        if _executor is None:
            _executor = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="toroid")
        executor = _executor
    return executor.submit(function, *args, **kwargs)


def _forget_executor():
    global _executor, _executor_lock
    _executor, _executor_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_executor)


class Model:
    """A compiled program. `toroid.compile` and `toroid.load` make it.

    It is called as the module was that it was exported from: with positional arguments and by name, with trees of dicts, tuples and
    lists, and it
    gives what the module's forward() gave. Arrays are NumPy's, PyTorch's, JAX's, or of anything else that has `__dlpack__` or a buffer;
    they are
    not copied. Results are arrays of the library that the first array comes from.

    Any number of threads may call it at once: each call has a context of its own, and the GIL is released. A model with mutable buffers, a
    key-value cache for example, has one context, so that all calls see one state, and calls take turns; `context()` gives further ones.
    """

    def __init__(self, core, path=None, how=None, results="", timeout=None):
        self._core = core
        self._path = path  # of its package; None for a program of this process
        self._how = how or {}  # toroid.load opened it
        self._results = results
        self._timeout_s = float(timeout or 0)
        info = core.info
        self._info = info
        self.inputs = tuple(map(_tensor_info, core.inputs))
        self.outputs = tuple(map(_tensor_info, core.outputs))
        names = [each.name for each in self.inputs]
        try:
            self._tree = CallTree(info["call_tree"], names)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:  # a file from anywhere
            logger.warning(
                "%s: the trees of arguments and results cannot be read (%s): it is called with its inputs one by one", self.name, error
            )
            self._tree = CallTree("", names)
        self._is_flat = self._tree.is_flat
        self._returned = [i for i, each in enumerate(self.outputs) if each.kind in ("result", "loss")]
        self._updates = [
            (i, names.index(each.target)) for i, each in enumerate(self.outputs) if each.kind == "input update" and each.target in names
        ]

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program on the arguments of forward(), and gives what that gave. Inputs that the model writes to are written to."""
        if self._is_flat and not kwargs and len(args) == len(self.inputs):
            arrays = args
        else:
            arrays = self._tree.arrays(args, kwargs)
        for _, i in self._updates:
            _arrays.check_writable(arrays[i], self.inputs[i].name)
        outputs = self._outputs_of(arrays)
        for output, i in self._updates:
            _arrays.write(arrays[i], outputs[output], self.inputs[i].name)
        return self._tree.result([outputs[i] for i in self._returned])

    def run(self, *args: Any, **kwargs: Any) -> "dict[str, Any]":
        """As a call, but gives a dict of all outputs by name, gradients and new values of inputs and parameters included, and writes to
        nothing."""
        outputs = self._outputs_of(self._tree.arrays(args, kwargs))
        return {info.name: value for info, value in zip(self.outputs, outputs)}

    def _outputs_of(self, arrays):
        try:
            return self._core.run(arrays, self._results, self._timeout_s)
        except InputError as error:
            # A program for a GPU reads its inputs where they are; PyTorch can copy them there.
            if self.device != "cuda" or not _arrays.is_of_layout(error):
                raise
            copied = _arrays.in_rows(arrays)
            if copied is None:
                raise
            return self._core.run(copied, self._results, self._timeout_s)

    def submit(self, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        """The call on another thread: a concurrent.futures.Future."""
        return _submit(self, *args, **kwargs)

    async def run_async(self, *args: Any, **kwargs: Any) -> Any:
        """The call as a coroutine: `await model.run_async(x)`. Other tasks of the event loop go on meanwhile."""
        return await asyncio.wrap_future(self.submit(*args, **kwargs))

    def with_options(
        self,
        *,
        results: "str | None" = None,
        timeout: "float | None" = None,
        threads: "int | None" = None,
        processors: "Sequence[int]" = (),
    ) -> "Model":
        """The same program, with other options of its calls.

        results: "numpy", "torch", "jax" or "toroid" (toroid.Tensor); "" is as the first input.
        timeout: seconds after which a call ends with DeadlineError, before its next step; 0 is none.
        threads: of a call, the caller's included, which each context of the new model has for itself; 0 is as the model was opened.
        processors: with `threads`, the numbers of those that these threads stay on: thread i on the i-th, from the first again where there
        are fewer. The first is for the caller's thread, which stays where it is. All contexts have the same ones; `context()` gives each
        its own.
        """
        if results is not None and results not in ("", "numpy", "torch", "jax", "toroid"):
            raise ArgumentError(f"results are 'numpy', 'torch', 'jax' or 'toroid', not {results!r}")
        if len(processors) > 0 and threads is None:
            raise ArgumentError("'processors' are of a model's own threads: give `threads` too")
        core = self._core if threads is None else self._core.with_contexts(False, threads, list(processors))
        return Model(
            core, self._path, self._how, self._results if results is None else results, self._timeout_s if timeout is None else timeout
        )

    def context(self, *, threads: int = 0, processors: "Sequence[int]" = ()) -> "Model":
        """The same program with a state of its own: values of mutable buffers, random numbers. Its calls take turns. threads, processors:
        as in with_options; a wrong processor is an ArgumentError of its first call."""
        return Model(self._core.with_contexts(True, threads, list(processors)), self._path, self._how, self._results, self._timeout_s)

    # ---- state

    def seed(self, seed: int) -> None:
        """From the next call on random operators draw as in a new model with this seed."""
        self._core.seed(seed)

    def buffer(self, name: str) -> _core.Tensor:
        """The value of a mutable buffer, as the last call left it: a copy, of toroid.Tensor."""
        return self._core.read_buffer(name)

    def reset(self, name: str = "") -> None:
        """The next call finds the model's own value in the buffer; without a name in all of them."""
        self._core.reset_buffer(name)

    # ---- weights

    @property
    def weights(self) -> "tuple[WeightInfo, ...]":
        """All weights, constants and buffers, as WeightInfo."""
        return tuple(WeightInfo(*row) for row in self._core.weights)

    def weight(self, name: str) -> _core.Tensor:
        """The value of a weight: a copy, of toroid.Tensor."""
        return self._core.read_weight(name)

    def swap_weights(self, values: "Mapping[str, Any]") -> None:
        """Gives weights new values, a mapping of arrays by name, all at once: calls that begin from now on have all of them, calls that
        run have none."""
        self._core.swap_weights(dict(values))

    # ---- descriptions

    @property
    def name(self) -> str:
        """The package's file name."""
        return self._info["name"]

    @property
    def device(self) -> str:
        """ "cpu" or "cuda"."""
        return self._info["device"]

    @property
    def isa(self) -> str:
        """The instruction set that the program was compiled for."""
        return self._info["isa"]

    @property
    def threads(self) -> int:
        """Threads of a call."""
        return self._info["threads"]

    @property
    def symbols(self) -> "tuple[SymbolInfo, ...]":
        """The sizes that may differ from call to call, as SymbolInfo."""
        return tuple(SymbolInfo(name, least, None if most == 2**63 - 1 else most) for name, least, most in self._core.symbols)

    @property
    def guards(self) -> "tuple[str, ...]":
        """Conditions that the sizes must fulfil, as text."""
        return tuple(self._core.guards)

    @property
    def steps(self) -> "tuple[tuple[str, str], ...]":
        """What a call does, in order: (kernel, the operator of the model that it ends with)."""
        return tuple(self._core.steps)

    @property
    def num_contexts(self) -> int:
        """How many contexts calls have needed at once so far."""
        return self._core.num_contexts

    def memory(self, *args: Any, **kwargs: Any) -> "dict[str, int]":
        """Bytes that a call with these arguments needs: temporaries, outputs, weights, packed."""
        return self._core.memory(self._tree.arrays(args, kwargs))

    def profile(self, *args: Any, runs: int = 10, **kwargs: Any) -> Profile:
        """Calls the model `runs` times, once more before, and says where the time goes: toroid.Profile."""
        arrays = self._tree.arrays(args, kwargs)
        if runs < 1:
            raise ArgumentError(f"runs is {runs!r}")
        self._core.run(arrays, "toroid", self._timeout_s)
        times = []
        for _ in range(runs):
            times += self._core.profile(arrays, "toroid", self._timeout_s)[1]
        return Profile(runs, times)

    # ---- files

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the package to a file, for toroid.load, `toroid run`, C and C++."""
        if self._path is None:
            raise NotFoundError('the program is this process\'s and has no package: toroid.compile(model, "m.so") writes one')
        new = f"{os.fspath(path)}.{os.getpid()}.new"
        try:
            shutil.copyfile(self._path, new)
            os.replace(new, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(new)

    def __reduce__(self):
        if self._path is None:
            raise TypeError('a Model without a package is not pickled: toroid.compile(model, "m.so") gives one that is')
        return _reopened, (self._path, self._how, self._results, self._timeout_s)

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, _):
        if self._info["has_state"]:
            raise TypeError(
                "a Model with mutable buffers is not copied, for a call may be changing them: model.context() has a state of its own, "
                "which begins with the model's values"
            )
        return Model(self._core.with_contexts(False, 0), self._path, self._how, self._results, self._timeout_s)

    # ---- display

    def _rows(self):
        rows = [(each.name, each.type, "input") for each in self.inputs]
        return rows + [(each.name, each.type, each.kind) for each in self.outputs]

    def _title(self):
        weights = byte_size(self._info["weight_bytes"])
        text = f"toroid.Model {self.name}: {self.isa or self.device}, {len(self.steps)} steps, {weights} of weights"
        return text + (", with mutable buffers" if self._info["has_state"] else "")

    def __repr__(self):
        symbols = "".join(f"\n{each.name}: {each.least} to {'any' if each.most is None else each.most}" for each in self.symbols)
        return self._title() + "\n" + text_table(("name", "type", "what"), self._rows()) + symbols

    def _repr_html_(self):
        return html_table(self._title(), ("name", "type", "what"), self._rows())


def _reopened(path, how, results, timeout):
    from toroid._compile import load

    return load(path, **how).with_options(results=results, timeout=timeout)


__all__ = ["InputError", "Model", "SymbolInfo", "TensorInfo", "WeightInfo"]
