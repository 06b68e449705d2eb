"""The steady state of torch.compile(backend="toroid") beside Inductor, in turns, without gradients.

    python bench/torch_compile/steady.py [--models PATTERN...] [--threads N] [--rounds N] [--seconds S] [--cache FOLDER] [--freezing]
                                         [--mode max-autotune] [--backends toroid,inductor] [--together N] [--json FILE]

For each model, each backend has a process of its own, which compiles it and compares its results with eager's. Then the processes are
timed in turns, `--rounds` times for `--seconds` each, so that a change of the machine's speed meets both. A backend's time is the least
of its rounds' medians. --cache keeps the caches of both backends for later runs. --together starts the processes of so many models at
once, before the first of them is timed. With either, the times of first calls mean nothing. `--rounds 0` fills the caches alone.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time

import run


def _worker(name: str, backend: str, threads: int, freezing: bool, mode: str | None) -> None:
    """Compiles the model, says so, then answers each line with a number of seconds by the median of the calls in that time."""
    import torch

    import models

    if threads:
        torch.set_num_threads(threads)
    options: dict = {"mode": mode}
    if backend == "toroid":
        import toroid.torch  # noqa: F401: registers the backend

        if freezing:  # beside options torch.compile takes no mode
            options = {"options": {"freezing": True, "max_autotune": mode is not None}}
    elif freezing:
        import torch._inductor.config

        torch._inductor.config.freezing = True
    model, positional, named = models.make(name)
    model.eval()
    with torch.no_grad():
        expected = run._tensors(model(*positional, **named))
        compiled = model if backend == "eager" else torch.compile(model, backend=backend, **options)
        begin = time.perf_counter()
        actual = run._tensors(compiled(*positional, **named))
        first_s = time.perf_counter() - begin
        difference = run._largest(actual, expected)
        print("RESULT " + json.dumps({"first_s": first_s, "difference": difference, "correct": difference < 1e-3}), flush=True)
        for line in sys.stdin:
            compiled(*positional, **named)
            print(f"TIME {run._median_s(lambda: compiled(*positional, **named), float(line))}", flush=True)


class Worker:
    """A process with a compiled model."""

    def __init__(self, name: str, backend: str, arguments: argparse.Namespace) -> None:
        environment = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        for variable, folder in (("TOROID_CACHE_DIR", "toroid"), ("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton")):
            environment[variable] = f"{arguments.cache}/{folder}"
        if arguments.threads:
            for variable in ("OMP_NUM_THREADS", "TOROID_NUM_THREADS", "MKL_NUM_THREADS"):
                environment[variable] = str(arguments.threads)
        command = [sys.executable, os.path.abspath(__file__), "--worker", name, "--backends", backend, "--threads", str(arguments.threads)]
        command += ["--freezing"] if arguments.freezing else []
        command += ["--mode", arguments.mode] if arguments.mode else []
        self.backend = backend
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.medians: list[float] = []
        self.result: dict = {}

    def wait(self) -> None:
        """Until the model is compiled. Throws RuntimeError where it is not."""
        if not self.result:
            self.result = json.loads(self._answer("RESULT "))

    def _answer(self, word: str) -> str:
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word)
        self.errors.seek(0)
        raise RuntimeError(f"{self.backend} ended: {self.errors.read().strip()[-500:]}")

    def measure(self, seconds: float) -> None:
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.medians.append(float(self._answer("TIME ")))

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def start(names: list[str], backends: list[str], arguments: argparse.Namespace) -> dict[tuple[str, str], Worker]:
    """All at once if several models are to be started together, else one backend after the other, so that first calls are alone."""
    started = {}
    for name in names:
        for backend in backends:
            worker = started[name, backend] = Worker(name, backend, arguments)
            if arguments.together == 1:
                with contextlib.suppress(RuntimeError):  # whoever waits for it is told again
                    worker.wait()
    return started


def take_turns(workers: list[Worker], rounds: int, seconds: float) -> None:
    for turn in range(rounds):
        for worker in workers if turn % 2 == 0 else reversed(workers):
            worker.measure(seconds)


def found(name: str, workers: list[Worker]) -> dict:
    """Of one model: seconds of a call, by backend."""
    return {
        "model": name,
        "seconds": {worker.backend: min(worker.medians) for worker in workers},
        "first_s": {worker.backend: worker.result["first_s"] for worker in workers},
        "correct": {worker.backend: worker.result["correct"] for worker in workers},
    }


def line_of(result: dict) -> str:
    times = result["seconds"]
    text = f"{result['model']:40}" + "".join(f" {backend} {1e3 * seconds:8.3f} ms" for backend, seconds in times.items())
    if "toroid" in times:
        text += "".join(f" {other}/toroid {times[other] / times['toroid']:.2f}" for other in times if other != "toroid")
    wrong = [backend for backend, is_correct in result["correct"].items() if not is_correct]
    return text + (f" WRONG: {', '.join(wrong)}" if wrong else "")


def summary(results: list[dict], backends: list[str]) -> str:
    lines = []
    for other in backends:
        ratios = [r["seconds"][other] / r["seconds"]["toroid"] for r in results if {other, "toroid"} <= r["seconds"].keys()]
        if other != "toroid" and ratios:
            below = sum(ratio < 0.95 for ratio in ratios)
            lines.append(
                f"{other} / toroid: geometric mean {run._mean(ratios):.2f}, at least {min(ratios):.2f}, {below} of {len(ratios)} under 0.95"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["*"])
    parser.add_argument("--backends", default="toroid,inductor")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--cache", default="")
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--freezing", action="store_true")
    parser.add_argument("--mode", help="of torch.compile, for both backends")
    parser.add_argument("--json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        _worker(arguments.worker, arguments.backends, arguments.threads, arguments.freezing, arguments.mode)
        return
    import models

    backends = arguments.backends.split(",")
    names = [name for name in models.all_names() if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.models)]
    results, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        arguments.cache = arguments.cache or folder
        for first in range(0, len(names), arguments.together):
            some = names[first : first + arguments.together]
            started = start(some, backends, arguments)
            try:
                for name in some:
                    workers = [started[name, backend] for backend in backends]
                    try:
                        for worker in workers:
                            worker.wait()
                        if arguments.rounds == 0:
                            continue
                        take_turns(workers, arguments.rounds, arguments.seconds)
                        results.append(found(name, workers))
                        print(line_of(results[-1]), flush=True)
                    except RuntimeError as error:
                        failed += 1
                        print(f"{name:40} FAILED {error}", flush=True)
            finally:
                for worker in started.values():
                    worker.end()
    print(summary(results, backends))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    sys.exit(0 if failed == 0 and all(all(r["correct"].values()) for r in results) else 1)


if __name__ == "__main__":
    main()
