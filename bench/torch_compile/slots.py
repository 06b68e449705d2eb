"""torch.compile(backend="toroid") on a machine of many cores, several models at once, each on processors of its own.

    python bench/torch_compile/slots.py [--models PATTERN...] [--skip FILE...] [--threads N] [--slots N] [--timed N] [--until S]
                                        [--rounds N] [--seconds S] [--warm toroid,inductor] [--rest] [--after PID] [--train]
                                        [--without-inductor PATTERN...] [--json FILE]

The processors are dealt out in slots of `--threads`, threads of one core to one slot. A slot measures one model after the other, in
processes of its own that are forked when all libraries are imported, so that cold first calls have none of that in them:

- by toroid and by Inductor a first call with an empty cache ("cold"), and the difference from eager's results (with --train its gradients),
- the steady states of both and of eager PyTorch in turns, `--rounds` times for `--seconds` each; a time is the least of its medians. Only
  `--timed` slots do so at once, for threads of one core share its tiles (AMX), which compilers do not use,
- a first call by the backends of `--warm` in an interpreter that is started for it, with what the backend imports ("warm"); and the most
  memory that such a process has had.

With --rest nothing is timed before all models are compiled, and before the process `--after` has ended, and then one after the other on
the same `--threads` processors; nothing is compiled anew. As many models are compiled at once as there are processors: first calls take
longer then. Compilers on other processors cost a program in tiles much more of its speed than one in vectors. At the end come the warm
first calls, on all slots at once.

No model is begun later than `--until` seconds after the libraries are loaded; those that are not are listed. What Inductor has not compiled
a minute later, or is not to compile (`--without-inductor`), is timed beside eager PyTorch alone. `--skip` leaves out the models of earlier
results.
A model may have options of torch.compile for both backends: `transformers/bert@freezing+max_autotune`.
Inductor's headers are compiled before, and the processes that it starts for Triton are not started.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import multiprocessing
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time

fork = multiprocessing.get_context("fork")
BACKENDS = ("toroid", "inductor")
WRONG_FROM = {False: 1e-3, True: 2e-2}  # of outputs, and of training's gradients: a ReLU near zero changes many of these
LONGEST_S = 150  # of a first call; a model that takes longer is given up
NOTHING = {"difference": {}, "seconds": {}, "cold_s": {}, "warm_s": {}, "process_s": {}, "peak_bytes": {}}  # of what a model's result has


def processors_of_slots(threads: int) -> list[list[int]]:
    """Disjoint groups of so many of this process's processors. Threads of one core are in one group."""
    cores: dict[str, list[int]] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") as file:
            cores.setdefault(file.read(), []).append(processor)
    dealt = [processor for core in cores.values() for processor in core]
    return [dealt[i : i + threads] for i in range(0, len(dealt) - threads + 1, threads)]


def move(process: int, processors: list[int]) -> None:
    """All its threads to these processors."""
    for thread in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), processors)


def _make(name: str, backend: str) -> tuple:
    """The model with its arguments, and the options of torch.compile that its name ends in. By toroid no operator runs in eager PyTorch."""
    import models

    name, _, given = name.partition("@")
    options = {option: True for option in given.split("+") if option} | ({"fallback": False} if backend == "toroid" else {})
    return models.make(name), options or None


def _calls(model, positional: tuple, named: dict, backend: str, options: dict | None):
    """Functions that call the model without gradients: eager, and compiled; and one that says how a call's outputs differ from eager's."""
    import torch

    import run

    model.eval()
    with torch.no_grad():
        expected = run._tensors(model(*positional, **named))
    compiled = torch.compile(model, backend=backend, options=options)
    return (
        lambda: model(*positional, **named),
        lambda: compiled(*positional, **named),
        lambda outputs: run._largest(run._tensors(outputs), expected),
    )


def _training_steps(model, positional: tuple, named: dict, backend: str, options: dict | None):
    """As _calls, of steps of SGD. The difference is that of the first step's gradients, by the norm of all."""
    import copy

    import torch

    import run

    run._still(model)
    model.train()
    twin = copy.deepcopy(model)

    def steps(module, call):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

        def step() -> list:
            optimizer.zero_grad()
            run._loss(call(*positional, **named)).backward()
            optimizer.step()
            return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]

        return step

    eager = steps(model, model)
    expected = torch.cat([gradient.flatten() for gradient in eager()])

    def difference(gradients: list) -> float:
        return float((torch.cat([gradient.flatten() for gradient in gradients]) - expected).norm() / expected.norm())

    return eager, steps(twin, torch.compile(twin, backend=backend, options=options)), difference


def _work(name: str, backend: str, folder: str, threads: int, train: bool, pipe, others) -> None:
    """Compiles the model and sends what its first call was like; then answers each (backend, seconds) by a median of seconds."""
    import torch

    import run

    others.close()  # so that the pipe ends when the slot does
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["TOROID_CACHE_DIR"], os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/toroid", f"{folder}/inductor"
    torch.set_num_threads(threads)
    try:
        made, options = _make(name, backend)
        eager, compiled, difference = (_training_steps if train else _calls)(*made, backend, options)
        with torch.set_grad_enabled(train):
            begin = time.perf_counter()
            difference_of_first = difference(compiled())
            pipe.send({"first_s": time.perf_counter() - begin, "difference": difference_of_first})
            while True:
                timed, seconds = pipe.recv()
                call = eager if timed == "eager" else compiled
                call()
                pipe.send(run._median_s(call, seconds))
    except EOFError:
        pass
    except BaseException as error:
        with contextlib.suppress(OSError):
            pipe.send({"error": f"{type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(0)


def _call_first(name: str, backend: str, threads: int, train: bool) -> None:
    """Prints what a first call of the model is like in this interpreter, which has imported nothing for it: seconds of the call, of the
    process, and the most bytes that this has had in memory."""
    import torch

    torch.set_num_threads(threads)
    (model, positional, named), options = _make(name, backend)
    model.train(train)
    with torch.set_grad_enabled(train):
        begin = time.perf_counter()
        if backend == "toroid":
            import toroid.torch  # noqa: F401: registers the backend
        result = torch.compile(model, backend=backend, options=options)(*positional, **named)
        if train:
            import run

            run._loss(result).backward()
        first_s = time.perf_counter() - begin
    with open("/proc/self/stat", encoding="ascii") as stat, open("/proc/uptime", encoding="ascii") as uptime:
        started_s = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        process_s = float(uptime.read().split()[0]) - started_s
    peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"first_s": first_s, "process_s": process_s, "peak_bytes": peak_bytes}), flush=True)
    os._exit(0)


def first_call_in_new_process(name: str, backend: str, folder: str, processors: list[int], train: bool) -> dict:
    """What _call_first prints, with the caches of the folder. Throws RuntimeError where there is none."""
    command = [sys.executable, os.path.abspath(__file__), "--first", name, backend, "--threads", str(len(processors))]
    try:
        done = subprocess.run(
            command + ["--train"] * train,
            env=os.environ | {"TOROID_CACHE_DIR": f"{folder}/toroid", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise RuntimeError(f"{backend}: no first call in a new process: {error}") from error


class Worker:
    """A process with a model that one backend compiles."""

    def __init__(self, name: str, backend: str, folder: str, threads: int, train: bool) -> None:
        self.backend = backend
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=_work, args=(name, backend, folder, threads, train, theirs, self.pipe))
        self.process.start()
        theirs.close()

    def answer(self, longest_s: float = LONGEST_S):
        """What it sends next. Throws RuntimeError where it died, failed or takes too long."""
        if not self.pipe.poll(longest_s):
            raise RuntimeError(f"{self.backend}: no answer in {longest_s:.0f} s")
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(f"{self.backend}: the process died") from error
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{self.backend}: {answer['error']}")
        return answer

    def measure(self, timed: str, seconds: float) -> float:
        self.pipe.send((timed, seconds))
        return self.answer()

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def measure(name: str, timing, arguments: argparse.Namespace):
    """A generator of three steps, which gives the model's result: it is compiled, timed, and called first in new processes, on the
    processors that are sent for the last one."""
    result: dict = {"model": name, "train": arguments.train} | {what: {} for what in NOTHING}
    workers: dict[str, Worker] = {}
    backends = [backend for backend in BACKENDS if backend == "toroid" or not _matches(name, arguments.without_inductor)]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def compile_all() -> None:
            for backend in backends:
                worker = Worker(name, backend, folder, arguments.threads, arguments.train)
                stack.callback(worker.end)
                first = worker.answer(max(arguments.end + 60 - time.monotonic(), 1) if arguments.rest else LONGEST_S)
                workers[backend] = worker
                result["cold_s"][backend], result["difference"][backend] = first["first_s"], first["difference"]

        def time_all() -> None:
            order = [(each, each) for each in workers] + [("eager", "toroid")] * ("toroid" in workers)
            with timing:
                for worker in workers.values() if arguments.rest else ():
                    move(worker.process.pid, processors_of_slots(arguments.threads)[0])
                for turn in range(arguments.rounds):
                    for timed, backend in order if turn % 2 == 0 else reversed(order):
                        median = workers[backend].measure(timed, arguments.seconds)
                        result["seconds"][timed] = min(median, result["seconds"].get(timed, median))
            for worker in workers.values():
                worker.end()

        def call_first(processors: list[int]) -> None:
            for backend in arguments.warm:
                if backend in result["seconds"]:
                    found = first_call_in_new_process(name, backend, folder, processors, arguments.train)
                    result["warm_s"][backend], result["process_s"][backend] = found["first_s"], found["process_s"]
                    result["peak_bytes"][backend] = found["peak_bytes"]

        sent = None
        for step in (compile_all, time_all, call_first):
            try:
                step(*[] if sent is None else [sent])
            except (RuntimeError, OSError) as error:
                result["error"] = f"{result['error']}; {error}" if "error" in result else str(error)
            sent = yield result


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _slot(processors: list[int], own, names, results, timing, barriers: list, arguments: argparse.Namespace) -> None:
    """Measures models of `names`. processors: those of its first calls in new processes, for which it takes the lock `own`."""
    everywhere = os.sched_getaffinity(0)

    def wait_for_others(barrier) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):  # not for ever for a slot that died
            barrier.wait(min(max(arguments.end - time.monotonic(), 0) + 150, 86400))

    def time_and_call(models: list) -> None:
        os.sched_setaffinity(0, everywhere if arguments.rest else processors)
        for model in models:
            results.put(next(model))
        if arguments.rest:
            wait_for_others(barriers[1])
        for model in models:
            with own:
                results.put(model.send(processors))
            model.close()

    if not arguments.rest:
        os.sched_setaffinity(0, processors)
    waiting = []
    for name in iter(names.get, None):
        if time.monotonic() > arguments.end:
            results.put({"model": name, "train": arguments.train, "error": f"not begun in {arguments.until:.0f} s"} | NOTHING)
            continue
        model = measure(name, timing, arguments)
        next(model)
        if arguments.rest:
            waiting.append(model)
        else:
            time_and_call([model])
    if arguments.rest:
        wait_for_others(barriers[0])
        while arguments.after and os.path.exists(f"/proc/{arguments.after}"):
            time.sleep(0.1)
        time_and_call(waiting)
    results.put(None)


def is_right(result: dict) -> bool:
    return result["difference"].get("toroid", 1) < WRONG_FROM[result["train"]]


def line_of(result: dict) -> str:
    text = f"{result['model']:45}"
    for what in ("cold_s", "warm_s", "process_s"):
        text += "".join(f" {what[:-2]} {backend} {seconds:.1f} s" for backend, seconds in result[what].items())
    text += "".join(f" peak {backend} {count / 2**20:.0f} MiB" for backend, count in result["peak_bytes"].items())
    times = result["seconds"]
    text += "".join(f" {backend} {1e3 * seconds:.3f} ms" for backend, seconds in times.items())
    text += "".join(f" {other}/toroid {times[other] / times['toroid']:.2f}" for other in times if other != "toroid")
    text += "".join(f" WRONG {backend} by {by:.1e}" for backend, by in result["difference"].items() if not by < WRONG_FROM[result["train"]])
    return text + (f" FAILED {result['error']}" if "error" in result else "")


def summary(results: list[dict]) -> str:
    import run

    lines = [f"{len(results)} models, {sum(map(is_right, results))} with eager's results"]
    pairs = [("seconds", "inductor"), ("seconds", "eager")]
    for what, other in pairs + [(what, "inductor") for what in ("cold_s", "warm_s", "process_s", "peak_bytes")]:
        ratios = [r[what][other] / r[what]["toroid"] for r in results if {other, "toroid"} <= r[what].keys()]
        if ratios:
            lines.append(
                f"{what} of {other} / toroid: geometric mean {run._mean(ratios):.2f}, at least {min(ratios):.2f}, "
                f"{sum(ratio < 0.95 for ratio in ratios)} of {len(ratios)} under 0.95"
            )
    for what in ("cold_s", "warm_s", "process_s"):
        for backend in BACKENDS:
            times = [r[what][backend] for r in results if backend in r[what]]
            if times:
                lines.append(f"{what} of {backend}: geometric mean {run._mean(times):.2f}, {min(times):.2f} to {max(times):.2f}")
    return "\n".join(lines)


def _import_libraries() -> None:
    import importlib

    for library in ("torch._dynamo", "torch._inductor.compile_fx", "torchvision", "timm", "transformers", "toroid.torch"):
        importlib.import_module(library)


def _compile_headers() -> None:
    """Those that Inductor compiles once on a machine."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        torch.compile(lambda x: x.sin() + 1)(torch.ones(8))
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["*"], help="in this order")
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--without-inductor", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slots", type=int, default=0, help="0: all that the machine has")
    parser.add_argument("--timed", type=int, default=2, help="slots that time steady states at once")
    parser.add_argument("--rest", action="store_true", help="time when all are compiled, one after the other")
    parser.add_argument("--after", type=int, default=0, help="a process that is to end before the times with --rest")
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--warm", type=lambda text: text.split(",") if text else [], default=[])
    parser.add_argument("--train", action="store_true", help="steps of training, with their optimizer")
    parser.add_argument("--json")
    parser.add_argument("--first", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        _call_first(*arguments.first, arguments.threads, arguments.train)
    if arguments.rest:
        arguments.timed = 1
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOROID_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ[variable] = str(arguments.threads)
    os.environ |= {"TORCH_WARM_POOL": "0", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    _import_libraries()
    import models

    skipped = set()
    for path in arguments.skip:
        with open(path, encoding="utf-8") as file:
            skipped |= {result["model"] for result in json.load(file)}
    known = models.EPOCHS + models.TRAINING if arguments.train else models.all_names()
    patterns = [pattern.partition("@") for pattern in arguments.models]
    chosen = dict.fromkeys(
        name + at + options for pattern, at, options in patterns for name in known if fnmatch.fnmatch(name, pattern)
    )
    names, results, timing = fork.SimpleQueue(), fork.Queue(), fork.Semaphore(arguments.timed)
    groups = processors_of_slots(arguments.threads)
    slots = [group for group in groups for _ in range(arguments.threads if arguments.rest else 1)][: arguments.slots or None]
    locks = {group[0]: fork.Lock() for group in groups}
    for name in [name for name in chosen if name not in skipped] + [None] * len(slots):
        names.put(name)
    headers = fork.Process(target=_compile_headers)
    headers.start()
    headers.join()
    arguments.end = time.monotonic() + arguments.until
    barriers = [fork.Barrier(len(slots)) for _ in range(2)]
    running = [
        fork.Process(target=_slot, args=(slot, locks[slot[0]], names, results, timing, barriers, arguments)) for slot in slots
    ]
    for slot in running:
        slot.start()
    found: dict[str, dict] = {}
    open_slots = len(running)
    while open_slots and (arguments.rest or time.monotonic() < arguments.end + 60):
        with contextlib.suppress(queue.Empty):
            result = results.get(timeout=1)
            if result is None:
                open_slots -= 1
                continue
            found[result["model"]] = result
            print(line_of(result), flush=True)
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump(list(found.values()), file, indent=1)
    print(summary(list(found.values())), flush=True)
    for slot in running:
        slot.kill()
    sys.stdout.flush()
    os._exit(0 if all(map(is_right, found.values())) else 1)


if __name__ == "__main__":
    main()
