"""toroid.compile, toroid.load and toroid.explain."""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from typing import TYPE_CHECKING, Callable, Union

from toroid import _compiler, _core
from toroid._display import html_table
from toroid._model import Model
from toroid._progress import Bar
from toroid.errors import ArgumentError, PackageError, SetupError, ToroidError, UnsupportedError

if TYPE_CHECKING:
    import torch

_Path = Union[str, "os.PathLike[str]"]


def load(path: _Path, *, weights: "_Path | None" = None, gpu: int = 0, threads: int = 0) -> Model:
    """Opens a package: what toroid.compile or `toroid compile -o` has written. All of it is checked before any of its code runs.

    path: the file. weights: a file with the weights, where they are not in the package. gpu: the number of the GPU that a program for
    GPUs runs on.
    threads: of a call, the caller's included; 0 is TOROID_NUM_THREADS in the environment, else one for each of the machine.
    Raises PackageError for a file that is no package or is damaged, SetupError where it cannot be read or this machine lacks its
    instructions.
    """
    path = os.path.abspath(os.fspath(path))
    weights = "" if weights is None else os.path.abspath(os.fspath(weights))
    how = {"weights": weights or None, "gpu": gpu, "threads": threads}
    return Model(_core.open_model(path, weights, gpu, threads), path, how)


def compile(
    model: "_Path | torch.export.ExportedProgram",
    output: "_Path | None" = None,
    *,
    device: str = "cpu",
    cpu: "str | None" = None,
    arch: "str | None" = None,
    weights: "_Path | None" = None,
    operators: "_Path | None" = None,
    threads: int = 0,
    cache: bool = True,
    progress: "bool | Callable[[str, int, int], object] | None" = None,
) -> Model:
    """Compiles a model and gives the program, ready to be called.

    model: the path of a .pt2 that torch.export.save wrote, or of a text in toroid's form; or a torch.export.ExportedProgram.
    output: the package to write ("m.so"), for toroid.load and for C and C++; None: it is kept for this process alone.
    device: "cpu", or "cuda" ("cuda:1", by its number).
    With output also cpu: the processors that the package is for, "native", "portable", or levels as in "avx2,avx512"; arch: with "cuda",
    the
    GPUs that it is for, as in "sm_80,sm_90a"; weights: a file for the weights, "m.weights" or "m.safetensors" beside "m.so".
    operators: a folder with files of custom operators.
    threads: how many C++ compilers run at a time; 0 is one for each core. cache: whether toroid's cache is used.
    progress: True or False; None is where stderr is a terminal; or a function (what, done, total).

    Needs g++ or clang++, or without output the package ziglang, unless the model comes from the cache. Raises UnsupportedError for
    operators that toroid lacks,
    PackageError for a file that is no model, SetupError where there is no compiler or it fails.
    """
    for name, value in ("weights", weights), ("cpu", cpu), ("arch", arch):
        if output is None and value is not None:
            raise ArgumentError(f"{name} is for packages, and without output the program is for this process: give output too")
    if _compiler.choose() and output is not None:
        raise SetupError(
            "a package takes g++ or clang++: the linker of the package ziglang has not all that it needs\n"
            "  help: install one of them; or leave output out, for a program of this process"
        )
    with tempfile.TemporaryDirectory(prefix="toroid-") as folder, Bar(progress):
        source = _model_file(model, folder)
        path = None if output is None else os.path.abspath(os.fspath(output))
        try:
            core = _core.compile_model(
                source,
                path or "",
                device=device,
                cpu=cpu or "",
                arch=arch or "",
                weights="" if weights is None else os.fspath(weights),
                operators="" if operators is None else os.fspath(operators),
                threads=threads,
                cache=cache,
            )
        except SetupError as error:
            if "no C++ compiler found" not in str(error):
                raise
            words = str(error).splitlines()[0]
            raise SetupError(f"{words}, nor has Python the package ziglang\n  help: install g++ or clang++, or: pip install ziglang") from None
        return load(path) if core is None else Model(core)


def _model_file(model, folder):
    """The path of the model; of an ExportedProgram, of a file that it is saved to in the folder."""
    if hasattr(model, "graph_module") and hasattr(model, "graph_signature"):
        import torch

        path = os.path.join(folder, "model.pt2")
        torch.export.save(_for_file(model), path)
        return path
    if not isinstance(model, (str, bytes, os.PathLike)):
        kind = type(model).__qualname__
        module = type(model).__module__
        if module.startswith("torch.jit"):
            raise UnsupportedError(f"a {kind} of TorchScript is not compiled: {_TORCHSCRIPT_HELP}")
        raise ArgumentError(
            f"a model is the path of a .pt2 or a torch.export.ExportedProgram, not of type '{kind}': "
            'torch.export.export(module, arguments) makes one; torch.compile(module, backend="toroid") takes modules'
        )
    path = os.fsdecode(os.fspath(model))
    _refuse_torchscript(path)
    return path


def _for_file(exported):
    """The program itself; of one that a file cannot hold, or toroid read, one that PyTorch has taken apart: with tensor subclasses,
    torchao's operators, or torch.vmap's steps, which exports before dispatch have."""
    calls = [node.target for node in exported.graph_module.graph.nodes if node.op == "call_function"]
    named = any(str(call).startswith(("export.access_subclass_inner_tensor", "torchao.")) for call in calls)
    of_vmap = any(getattr(call, "__module__", None) == "torch._functorch.predispatch" for call in calls)
    return exported.run_decompositions() if named or of_vmap else exported


_TORCHSCRIPT_HELP = (
    "export the Python module that it was made of by torch.export.export(module.eval(), arguments); of a file alone, "
    "torch.export.export(torch._export.converter.TS2EPConverter(torch.jit.load(path), arguments).convert().module(), arguments) "
    "may do"
)


def _refuse_torchscript(path):
    """Archives of TorchScript and of torch.save are ZIP files too; what is in them tells."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return  # the compiler says what is wrong
    ends = {name.split("/", 1)[-1] for name in names}
    if "constants.pkl" in ends and "data.pkl" in ends:
        raise UnsupportedError(f"'{path}' is an archive of TorchScript (torch.jit.save), which toroid does not read: {_TORCHSCRIPT_HELP}")
    if "data.pkl" in ends:
        raise PackageError(
            f"'{path}' is a file of torch.save, with weights or a pickled module: toroid reads what torch.export.save writes"
        )


class Explanation:
    """What each step of a program is made of, and why operators are one step or two. `str()` is the text of `toroid explain`, `data` the
    same as
    dicts and lists."""

    def __init__(self, text, data):
        self.text = text
        self.data = data

    def __str__(self):
        return self.text

    __repr__ = __str__

    def _repr_html_(self):
        rows = [(line.strip(),) for line in self.text.splitlines() if line.strip()]
        return html_table("toroid explain", ("",), rows)


def explain(model: "_Path | torch.export.ExportedProgram", *, all: bool = False) -> Explanation:
    """Says what the steps of a compiled model are and why: the model as of toroid.compile. all: each pair of operators.

    Nothing is compiled. It runs `toroid explain` in a process of its own.
    """
    with tempfile.TemporaryDirectory(prefix="toroid-") as folder:
        report = os.path.join(folder, "explain.json")
        source = _model_file(model, folder)
        done = run_command(["explain", source, "--json", report, *(["--all"] if all else [])])
        with open(report, encoding="utf-8") as file:
            return Explanation(done, json.load(file))


def run_command(arguments):
    """The output of `toroid ARGUMENTS`, in a process of its own. Raises ToroidError with its words where it fails."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise ToroidError(done.stderr.strip().removeprefix("error: ") or f"toroid {arguments[0]} ended with {done.returncode}")
    return done.stdout


COMMAND = [sys.executable or "python3", "-m", "toroid"]
