"""toroid.compile, toroid.load and what they give."""

import os
import tempfile

from toroid import _core


class Model:
    """A compiled program, which is called like a function."""

    def __init__(self, core):
        self._core = core

    def __call__(self, *inputs):
        outputs = self._core.run(inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def load(path, *, weights=None, gpu=0, threads=0):
    """Opens a package that `toroid compile` or toroid.compile has written."""
    return Model(_core.open_model(os.fspath(path), "" if weights is None else os.fspath(weights), gpu, threads))


def compile(model, output=None, *, device="cpu", cpu=None, threads=0, cache=True):
    """Compiles a .pt2 and gives the program."""
    if output is not None:
        _core.compile_model(os.fspath(model), os.fspath(output), device=device, cpu=cpu or "", threads=threads, cache=cache)
        return load(output)
    with tempfile.TemporaryDirectory(prefix="toroid-") as folder:
        path = os.path.join(folder, "model.so")
        _core.compile_model(os.fspath(model), path, device=device, cpu=cpu or "", threads=threads, cache=cache)
        return load(path)
