"""What calls of graphs on a GPU take of PyTorch: its libraries, its stream, its memory, its generator."""

from __future__ import annotations

import atexit
import functools
import glob
import logging
import os
import weakref
from typing import Any, Callable

import torch

from .. import _arrays, errors

log = logging.getLogger("toroid.torch")

# The compiled graphs for a GPU that somebody may call. Their kernels may find something wrong after the last call.
programs: weakref.WeakSet = weakref.WeakSet()


def raise_failures() -> None:
    """Throws what kernels have found wrong so far and no call has told, of one graph after the other, each once."""
    for program in list(programs):
        program.raise_failure()


@atexit.register
def _tell_failures() -> None:
    """What no call has told, before the process ends."""
    for program in list(programs):
        try:
            program.raise_failure()
        except errors.ToroidError as error:
            log.error("a call of a compiled graph on a GPU was wrong, and no later call told it: %s", error)

# Variables that name a library, and the file among those that PyTorch brings.
_LIBRARIES = {"TOROID_NVRTC": "libnvrtc.so.1[0-9]", "TOROID_CUBLASLT": "libcublasLt.so.1[0-9]", "TOROID_CUDNN": "libcudnn.so.9"}


@functools.cache
def find_libraries() -> None:
    """Sets the variables, where they are not set, to the files in PyTorch's own packages: nvidia/*/lib beside torch, or torch/lib."""
    torch_folder = os.path.dirname(torch.__file__)
    folders = [os.path.join(os.path.dirname(torch_folder), "nvidia", "*", "lib"), os.path.join(torch_folder, "lib")]
    for variable, name in _LIBRARIES.items():
        found = next((file for folder in folders for file in sorted(glob.glob(os.path.join(folder, name)))), None)
        if found is not None and not os.environ.get(variable):
            os.environ[variable] = found


def _empty(size: tuple, stride: tuple, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def allocator() -> Callable:
    """What makes outputs on the current GPU: (sizes, strides, dtype). PyTorch's own quick way where this version has it."""
    return getattr(torch._C._dynamo.guards, "_empty_strided_cuda", _empty)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def copy_late(tensor: Any, size: tuple, stride: tuple, dtype: torch.dtype) -> torch.Tensor:
    """A copy of a toroid.Tensor whose sizes became known while the program ran: the next call writes over its memory."""
    made = _empty(size, stride, dtype)
    if made.numel() > 0:
        given = torch.from_dlpack(tensor).reshape(-1).view(torch.uint8)
        _bytes_of(made)[: given.numel()].copy_(given)
        torch.cuda.current_stream().synchronize()
    return made


def draw_seed(number: int) -> int:
    """A seed for one call, of the GPU's generator, which stays on the host: torch.manual_seed decides it. Nobody waits for the GPU."""
    generator = torch.cuda.default_generators[number]
    offset = generator.get_offset()
    generator.set_offset(offset + 4)
    mixed = (generator.initial_seed() + (offset + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF  # SplitMix64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 31)) >> 1


def laid_out(args: list, layouts: dict[int, tuple]) -> list | None:
    """The arguments with those that lie otherwise than their graph's inputs did copied, as a parameter that was moved to another memory
    format behind Dynamo's guards; None where there are none."""
    changed = None
    for position, order in layouts.items():
        in_memory = args[position].permute(order)
        if not in_memory.is_contiguous():
            changed = changed or list(args)
            changed[position] = in_memory.contiguous().permute(tuple(order.index(d) for d in range(len(order))))
    return changed


def run_on(number: int, run: Callable, eager: Callable, layouts: dict[int, tuple]) -> Callable:
    """The program's calls as run(args, seed), on PyTorch's current stream of the GPU. While that is captured as a CUDA graph of
    PyTorch's, `eager` is called with the arguments instead, whose results it gives; else results are None."""
    stream_of = torch._C._cuda_getCurrentRawStream
    exchange, restore = torch._C._cuda_exchangeDevice, torch._C._cuda_maybeExchangeDevice
    is_capturing = torch._C._cuda_isCurrentStreamCapturing
    told: list[bool] = []

    def called(args: list, seed: int) -> tuple[list | None, Any]:
        before = exchange(number)
        try:
            if is_capturing():
                if not told:
                    told.append(True)
                    log.info("calls that are captured as a CUDA graph of PyTorch's run in eager PyTorch")
                return None, eager(list(args))
            try:
                return run(args, seed, stream_of(number)), None
            except errors.InputError as error:
                given = laid_out(args, layouts) if _arrays.is_of_layout(error) else None  # else it may be an earlier call's
                if given is None:
                    raise
                return run(given, seed, stream_of(number)), None
        finally:
            restore(before)

    return called
