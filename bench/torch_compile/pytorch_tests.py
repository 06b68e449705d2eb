"""PyTorch's own tests of Inductor and of AOTAutograd on the CPU, with toroid in the place of Inductor, and of the backend "aot_eager".

    python bench/torch_compile/pytorch_tests.py TEST_FOLDER [--files FILE...] [--match TEXT] [--part I/N] [--jobs N] [--threads N]
                                                [--limit S] [--until S] [--known FILE...] [--skip FILE...] [--json FILE]
                                                [--first TEXT] [--left-out FILE]

TEST_FOLDER is `test/` of PyTorch's sources, best of the version that is installed. FILES are in it, in inductor/ or with their folder;
without --files all that FILES below names run, their tests side by side in `--jobs` processes. Counted are tests that compare results with
eager's: those that look at Inductor itself say nothing here and are left out, by what their source mentions; `--left-out` writes their
names, each with its reason. A test runs with fallbacks allowed; those that needed one are counted too.

A test fails that takes longer than `--limit` seconds of processors' time (or IDLE times as long altogether) or ends its process. No test is
begun after `--until` seconds, and what runs GRACE_S later is given up, as not begun. `--known` are results of earlier runs: the longest
tests begin first, after those with `--first` in their names. `--skip` leaves out what these have.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import sys
import time

# The classes of a file, and whether whatever their tests' sources mention they compare results: these are one generic test.
FILES = {
    "dynamo/test_aot_autograd.py": ("AotAutogradFallbackTests", False),
    "test_torchinductor.py": ("CpuTests", False),
    "test_torchinductor_dynamic_shapes.py": ("DynamicShapesCpuTests", False),
    "test_torchinductor_opinfo.py": ("TestInductorOpInfoCPU", True),
}
GRACE_S = 15
IDLE = 10  # as many seconds altogether as of processors: it waits for something
TESTS_OF_A_PROCESS = 60  # then a new one takes over: what tests leave behind is dropped
fork = multiprocessing.get_context("fork")


def _work(tests: list, pipe) -> None:
    """Runs the tests whose numbers come."""
    import torch

    import pytorch_cases

    os.setpgid(0, 0)  # ended together with the compilers that it has started
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with contextlib.suppress(EOFError):
        while True:
            number = pipe.recv()
            pipe.send(pytorch_cases.run_one(tests[number]))
    os._exit(0)


class _Worker:
    """A process that runs tests, one at a time."""

    def __init__(self, tests: list) -> None:
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=_work, args=(tests, theirs))
        self.process.start()
        theirs.close()
        self.running: int | None = None
        self.begin = self.before = 0.0
        self.ran = 0

    def start(self, number: int) -> None:
        self.running, self.begin = number, time.monotonic()
        self.before = self._processor_seconds()
        self.ran += 1
        self.pipe.send(number)

    def _processor_seconds(self) -> float:
        """Of the process and of its children that it has waited for."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def outcome(self, limit: float) -> dict | None:
        """Of the running test; None: it still runs. Where it gives none, the process has ended."""
        why = None
        if self.pipe.poll():
            try:
                return self.pipe.recv()
            except (EOFError, ConnectionError):
                self.process.join()
                why = f"the process ended with {self.process.exitcode}"
        elif self._processor_seconds() - self.before > limit or time.monotonic() - self.begin > IDLE * limit:
            why = f"it took longer than {limit:g} s"
        if why is None:
            return None
        self.end()
        return {"what": "failed", "why": why, "seconds": round(time.monotonic() - self.begin, 2), "eager": [], "trace": ""}

    def end(self) -> None:
        for kill in (lambda: os.killpg(self.process.pid, signal.SIGKILL), self.process.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill()
        self.process.join()
        self.pipe.close()
        self.ran = TESTS_OF_A_PROCESS


def _run_file(file: str, slots, turn, next_turn, found, arguments: argparse.Namespace) -> None:
    """Puts (file, the test's name, its outcome) into found, and (file, None, those left out and how many there are) first. Begins tests
    from turn on, and sets next_turn with its last one."""
    import unittest

    import pytorch_cases

    sys.argv[1:] = []
    module = pytorch_cases.load(os.path.abspath(arguments.folder), file)
    kind, is_generic = FILES[file]
    tests = [test for test in unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, kind)) if arguments.match in test.id()]
    part, parts = map(int, arguments.part.split("/"))
    tests = tests[part::parts]
    left_out = {} if is_generic else {test.id(): why for test in tests if (why := pytorch_cases.why_left_out(test, module))}
    found.put((file, None, {"left out": left_out, "tests": len(tests)}))
    tests = [test for test in tests if test.id() not in left_out and test.id() not in arguments.done]
    tests.sort(key=lambda test: (arguments.first not in test.id(), -arguments.seconds.get(test.id(), 2.0)))
    waiting = collections.deque(range(len(tests)))
    workers: list[_Worker] = []
    turn.wait()
    while waiting or any(worker.running is not None for worker in workers):
        if time.monotonic() > arguments.end:
            waiting.clear()
        if time.monotonic() > arguments.end + GRACE_S:
            break
        while waiting and slots.acquire(block=False):
            worker = next((worker for worker in workers if worker.running is None), None)
            if worker is None:
                worker = _Worker(tests)
                workers.append(worker)
            worker.start(waiting.popleft())
        if not waiting:
            next_turn.set()
        multiprocessing.connection.wait([worker.pipe for worker in workers if worker.running is not None], timeout=0.05)
        for worker in [worker for worker in workers if worker.running is not None]:
            outcome = worker.outcome(arguments.limit)
            if outcome is None:
                continue
            slots.release()
            found.put((file, tests[worker.running].id(), outcome))
            worker.running = None
            if worker.ran >= TESTS_OF_A_PROCESS:
                worker.end()
                workers.remove(worker)
    next_turn.set()
    for worker in workers:
        worker.end()


def summary(outcomes: dict[str, dict], left_out: dict[str, str], tests: int) -> str:
    """Of one file."""
    counts = collections.Counter(outcome["what"] for outcome in outcomes.values())
    ran = counts["passed"] + counts["failed"]
    eager = sum(bool(outcome["eager"]) for outcome in outcomes.values())
    seconds = sum(outcome["seconds"] for outcome in outcomes.values())
    text = f"{tests} tests, {len(left_out)} left out, {tests - len(left_out) - len(outcomes)} not begun, {counts['skipped']} skipped, "
    text += f"{counts['passed']} of {ran} passed ({100 * counts['passed'] / max(ran, 1):.1f} %), {eager} with operators in eager PyTorch"
    return text + f", {seconds:.0f} s"


def _lines(outcomes: dict[str, dict]):
    for name, outcome in sorted(outcomes.items()):
        test = name.rpartition(".")[2]
        if outcome["what"] == "failed":
            yield f"{test}: {outcome['why']} ({outcome['seconds']} s)"
        if outcome["eager"]:
            yield f"{test}: in eager: {'; '.join(dict.fromkeys(outcome['eager']))[:300]}"


def _read(paths: list[str]) -> dict[str, dict]:
    """Outcomes of earlier runs by test."""
    known: dict[str, dict] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for outcomes in json.load(file).values():
                known |= outcomes
    return known


def _write(path: str | None, found: dict) -> None:
    if path:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
        os.replace(f"{path}.new", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--files", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--match", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--first", default="")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=100)
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--known", nargs="*", default=[])
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--json")
    parser.add_argument("--left-out")
    arguments = parser.parse_args()
    arguments.end = time.monotonic() + arguments.until
    arguments.seconds = {test: outcome["seconds"] for test, outcome in _read(arguments.known).items()}
    arguments.done = set(_read(arguments.skip))
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOROID_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ[variable] = str(arguments.threads)
    os.environ |= {"TORCH_WARM_POOL": "0", "CUDA_VISIBLE_DEVICES": ""}
    slots, queued = fork.Semaphore(arguments.jobs), fork.Queue()
    turns = {file: fork.Event() for file in [*arguments.files, ""]}
    running: dict = {}
    for file, following in zip(arguments.files, list(turns)[1:]):
        running[file] = fork.Process(target=_run_file, args=(file, slots, turns[file], turns[following], queued, arguments))
        running[file].start()
    turns[arguments.files[0]].set()
    found: dict[str, dict] = {file: {} for file in arguments.files}
    about = {file: {"left out": {}, "tests": 0} for file in arguments.files}
    saved = time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            file, test, outcome = queued.get(timeout=0.5)
            if test is None:
                about[file] = outcome
            else:
                found[file][test] = outcome
            if time.monotonic() < saved + 5:
                continue
        saved = time.monotonic()
        _write(arguments.json, found)
        for process, turn in zip(running.values(), list(turns.values())[1:]):
            if not process.is_alive():  # also where loading the file failed
                turn.set()
        if queued.empty() and not any(process.is_alive() for process in running.values()):
            break
        if time.monotonic() > arguments.end + 1.5 * GRACE_S:  # a file still loads
            for process in running.values():
                process.kill()
            break
    if arguments.left_out:
        with open(arguments.left_out, "w", encoding="utf-8") as out:
            for each in about.values():
                out.writelines(f"{test.rpartition('.')[2]}: {why}\n" for test, why in sorted(each["left out"].items()))
    for file in arguments.files:
        print(file, *_lines(found[file]), summary(found[file], about[file]["left out"], about[file]["tests"]), sep="\n", flush=True)
    ended = [file for file, process in running.items() if process.exitcode]
    if ended:
        sys.exit(f"error: no further tests of {', '.join(ended)}: its process ended")


if __name__ == "__main__":
    main()
