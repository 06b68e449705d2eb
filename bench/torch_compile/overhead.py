"""What a call of torch.compile(backend="toroid") costs beside its work: tiny models, beside Inductor and eager PyTorch.

    python bench/torch_compile/overhead.py [--cases PATTERN...] [--backends toroid,inductor,eager] [--processes N] [--own]
                                           [--at-once N] [--after PID] [--rounds N] [--seconds S] [--threads N] [--cache FOLDER]
                                           [--json FILE]

Of each case each backend has `--processes` processes, which compile it. Then all are timed in turns, `--rounds` times for `--seconds` each:
the time of a call by a process, with Dynamo's guards and AOTAutograd's part, is the least of its rounds' medians. A process is a tenth
faster or slower than another one by how its memory happens to lie, so the median of a backend's processes counts. `--at-once` cases are
compiled at once, on a machine of many processors, and timed one after the other when the process `--after` has ended. --cache keeps what is
compiled for later runs. With `--own` only the time is counted in which what the backend compiled runs, in training of both passes: all else
is PyTorch's own and the same for each backend.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from typing import Callable

fork = multiprocessing.get_context("fork")


def _module(parameters: int):
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factors = torch.nn.ParameterList(torch.nn.Parameter(torch.rand(8)) for _ in range(parameters))

        def forward(self, x):
            for factor in self.factors:
                x = x * factor
            return x

    return Scaled()


def _inference(model, *given) -> Callable:
    """What makes the timed function of a compiled twin of the model."""

    def made(compile):
        import torch

        call = compile(model)

        def step():
            with torch.no_grad():
                return call(*given)

        return step

    return made


def _training(model, *given) -> Callable:
    def made(compile):
        call = compile(model)

        def step():
            for parameter in model.parameters():
                parameter.grad = None
            call(*given).sum().backward()

        return step

    return made


def cases() -> dict[str, Callable]:
    """By name: what makes, of a function that compiles, the function to time."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    def views(x):
        y = x * 2
        return y, y[2:], y.view(2, 4).t(), x[1:]

    def update(state, x):
        state.mul_(0.9).add_(x)
        return state.sum()

    marked = torch.rand(9)
    torch._dynamo.mark_dynamic(marked, 0)
    perceptron = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return {
        "pointwise, 1 parameter": _inference(_module(1), torch.rand(8)),
        "pointwise, 50 parameters": _inference(_module(50), torch.rand(8)),
        "pointwise, dynamic size": _inference(lambda x: x.sin() + x.shape[0], marked),
        "four views": _inference(views, torch.rand(8)),
        "an update in place": _inference(update, torch.rand(8), torch.rand(8)),
        "dropout": _inference(lambda x: torch.nn.functional.dropout(x, 0.5), torch.rand(8)),
        "perceptron, 4 x 8": _inference(perceptron, torch.rand(4, 8)),
        "perceptron, 4 x 8, training": _training(perceptron, torch.rand(4, 8)),
        "batch norm, training": _training(nn.BatchNorm1d(8), torch.rand(4, 8)),
        "50 parameters, training": _training(_module(50), torch.rand(8)),
    }


def _own_calls(backend: str, spent: list[float]) -> None:
    """From now on, calls of what the backend compiles add their seconds to spent[0]."""

    def timed(call: Callable) -> Callable:
        def added(*arguments):
            begin = time.perf_counter()
            result = call(*arguments)
            spent[0] += time.perf_counter() - begin
            return result

        added._boxed_call = True
        return added

    if backend == "toroid":
        import toroid.torch.compile as compile

        make_call = compile.make_call
        compile.make_call = lambda *arguments, **named: timed(make_call(*arguments, **named))
    else:
        from torch._inductor.output_code import CompiledFxGraph

        CompiledFxGraph.__call__ = timed(CompiledFxGraph.__call__)


def _median_of_own_s(step: Callable, spent: list[float], seconds: float) -> float:
    """The median of a call's seconds in what the backend has compiled."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        spent[0] = 0.0
        step()
        found.append(spent[0])
    return statistics.median(found)


def _work(name: str, backend: str, threads: int, folder: str, own: bool, pipe) -> None:
    """Compiles the case, says so, then answers each number of seconds by the median of the calls in that time."""
    import torch

    import run

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["TOROID_CACHE_DIR"], os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/toroid", f"{folder}/inductor"
    torch.set_num_threads(threads)
    spent = [0.0]
    try:
        if own:
            _own_calls(backend, spent)
        step = cases()[name]((lambda f: f) if backend == "eager" else (lambda f: torch.compile(f, backend=backend)))
        for _ in range(3):
            step()
        pipe.send("ready")
        while True:
            seconds = pipe.recv()
            pipe.send(_median_of_own_s(step, spent, seconds) if own else run._median_s(step, seconds))
    except EOFError:
        pass
    except BaseException as error:
        with contextlib.suppress(OSError):
            pipe.send(f"failed: {type(error).__name__}: {error}"[:500])
    finally:
        os._exit(0)


class _Worker:
    def __init__(self, name: str, backend: str, threads: int, folder: str, own: bool) -> None:
        self.name, self.backend = name, backend
        self.medians: list[float] = []
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=_work, args=(name, backend, threads, folder, own, theirs))
        self.process.start()
        theirs.close()

    def answer(self):
        """Throws RuntimeError where the process failed."""
        answer = self.pipe.recv()
        if isinstance(answer, str) and answer != "ready":
            raise RuntimeError(f"{self.name} by {self.backend}: {answer}")
        return answer

    def measure(self, seconds: float) -> None:
        self.pipe.send(seconds)
        self.medians.append(self.answer())


def _prepared(names: list[str], backends: list[str], folder: str, arguments: argparse.Namespace) -> dict[str, list[_Worker]]:
    """Of each case its processes, ready to be timed. Throws RuntimeError where one fails."""
    workers: dict[str, list[_Worker]] = {name: [] for name in names}
    for count in (1, arguments.processes - 1):  # the others find in the caches what the first ones compile
        each = [(name, backend) for name in names for _ in range(count) for backend in backends]
        new = [_Worker(name, backend, arguments.threads, folder, arguments.own) for name, backend in each]
        for worker in new:
            workers[worker.name].append(worker)
        for worker in new:
            worker.answer()
    return workers


def _timed(workers: list[_Worker], backends: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds of a call of one case by backend. All processes take their turns on the same processors, those of one core: what works beside
    it, on a thread of its core, costs a process half of its speed for as long as it stays there."""
    import slots
    import steady

    for worker in workers:
        slots.move(worker.process.pid, slots.processors_of_slots(arguments.threads)[0])
    steady.take_turns(workers, arguments.rounds, arguments.seconds)
    for worker in workers:
        worker.process.kill()
        worker.process.join()
    return {backend: statistics.median(min(w.medians) for w in workers if w.backend == backend) for backend in backends}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=["*"])
    parser.add_argument("--backends", default="toroid,inductor,eager")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", default="")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    os.environ |= {"TORCH_WARM_POOL": "0", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(arguments.threads)}
    import steady
    import toroid.torch  # noqa: F401: registers the backend

    backends = [backend for backend in arguments.backends.split(",") if not (arguments.own and backend == "eager")]
    if "inductor" in backends:  # once, for all processes
        import torch._inductor.compile_fx  # noqa: F401
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        pick_vec_isa()
    names = [name for name in cases() if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.cases)]
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(lambda: [child.kill() for child in fork.active_children()])  # where one of them failed
        ready: dict[str, list[_Worker]] = {}
        for i, name in enumerate(names):
            if name not in ready:
                ready = _prepared(names[i : i + arguments.at_once], backends, arguments.cache or folder, arguments)
                while arguments.after and os.path.exists(f"/proc/{arguments.after}"):
                    time.sleep(0.1)
            times = found[name] = _timed(ready[name], backends, arguments)
            print(f"{name:30}" + "".join(f" {backend} {1e6 * times[backend]:7.1f} us" for backend in backends), end="")
            others = [backend for backend in backends if "toroid" in times and backend != "toroid"]
            print("".join(f" {other}/toroid {times[other] / times['toroid']:.2f}" for other in others), flush=True)
    print(steady.summary([{"seconds": times} for times in found.values()], backends))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
