"""torch.compile(backend="toroid") on a machine of many cores, several models at once, each on processors of its own.

    python bench/torch_compile/slots.py [--models PATTERN...] [--skip FILE...] [--threads N] [--slots N] [--timed N] [--until S]
                                        [--rounds N] [--seconds S] [--warm toroid,inductor] [--rest] [--train] [--json FILE]

The processors are dealt out in slots of `--threads`, threads of one core to one slot. A slot measures one model after the other, in
processes of its own that are forked when all libraries are imported, so that first calls have none of that in them:

- by toroid and by Inductor a first call with an empty cache ("cold"), and the difference from eager's results (with --train its gradients),
- the steady states of both and of eager PyTorch in turns, `--rounds` times for `--seconds` each; a time is the least of its medians. Only
  `--timed` slots do so at once, for threads of one core share its tiles (AMX), which compilers do not use,
- a first call in a new process ("warm") by the backends of `--warm`.

With --rest nothing is timed before all models are compiled, and then one after the other on the same `--threads` processors; nothing is
compiled anew. Each model is compiled on one processor meanwhile, as many at once as there are: first calls take longer then. Compilers on
other processors cost a program in tiles much more of its speed than one in vectors.

No model is begun after `--until` seconds, and what is not compiled a minute later is given up. `--skip` leaves out the models of earlier
results.
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
import sys
import tempfile
import threading
import time

fork = multiprocessing.get_context("fork")
BACKENDS = ("toroid", "inductor")
WRONG_FROM = {False: 1e-3, True: 2e-2}  # of outputs, and of training's gradients: a ReLU near zero changes many of these
LONGEST_S = 150  # of a first call; a model that takes longer is given up


def processors_of_slots(threads: int) -> list[list[int]]:
    """Disjoint groups of so many of this process's processors. Threads of one core are in one group."""
    cores: dict[str, list[int]] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") as file:
            cores.setdefault(file.read(), []).append(processor)
    dealt = [processor for core in cores.values() for processor in core]
    return [dealt[i : i + threads] for i in range(0, len(dealt) - threads + 1, threads)]


def _calls(model, positional: tuple, named: dict, backend: str):
    """Functions that call the model without gradients: eager, and compiled; and one that says how a call's outputs differ from eager's."""
    import torch

    import run

    model.eval()
    with torch.no_grad():
        expected = run._tensors(model(*positional, **named))
    compiled = torch.compile(model, backend=backend)
    return (
        lambda: model(*positional, **named),
        lambda: compiled(*positional, **named),
        lambda outputs: run._largest(run._tensors(outputs), expected),
    )


def _training_steps(model, positional: tuple, named: dict, backend: str):
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

    return eager, steps(twin, torch.compile(twin, backend=backend)), difference


def _work(name: str, backend: str, folder: str, threads: int, train: bool, pipe, others) -> None:
    """Compiles the model and sends what its first call was like; then answers each (backend, seconds) by a median of seconds."""
    import torch

    import models
    import run

    others.close()  # so that the pipe ends when the slot does
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["TOROID_CACHE_DIR"], os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/toroid", f"{folder}/inductor"
    torch.set_num_threads(threads)
    try:
        made = models.make(name)
        eager, compiled, difference = (_training_steps if train else _calls)(*made, backend)
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

    def move(self, processors: list[int]) -> None:
        """All its threads to these processors."""
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread), processors)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def measure(name: str, timing, arguments: argparse.Namespace):
    """A generator of two steps, which gives the model's result: by the first one it has been compiled, by the second one timed."""
    result: dict = {"model": name, "train": arguments.train, "cold_s": {}, "warm_s": {}, "difference": {}, "seconds": {}}
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def start(backend: str) -> tuple[Worker, dict]:
            worker = Worker(name, backend, folder, arguments.threads, arguments.train)
            stack.callback(worker.end)
            return worker, worker.answer(max(arguments.end + 60 - time.monotonic(), 1) if arguments.rest else LONGEST_S)

        def compile_all() -> None:
            for backend in BACKENDS:
                workers[backend], first = start(backend)
                result["cold_s"][backend], result["difference"][backend] = first["first_s"], first["difference"]

        def time_all() -> None:
            with timing:
                for worker in workers.values() if arguments.rest else ():
                    worker.move(processors_of_slots(arguments.threads)[0])
                for turn in range(arguments.rounds):
                    order = [("toroid", "toroid"), ("inductor", "inductor"), ("eager", "toroid")]
                    for timed, backend in order if turn % 2 == 0 else reversed(order):
                        median = workers[backend].measure(timed, arguments.seconds)
                        result["seconds"][timed] = min(median, result["seconds"].get(timed, median))
            for backend in arguments.warm:
                workers[backend].end()
                result["warm_s"][backend] = start(backend)[1]["first_s"]

        for step in (compile_all, time_all):
            try:
                if "error" not in result:
                    step()
            except (RuntimeError, OSError) as error:
                result["error"] = str(error)
            yield result


def _slot(processors: list[int], names, results, timing, all_compiled, arguments: argparse.Namespace) -> None:
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    waiting = []
    for name in iter(names.get, None):
        if time.monotonic() > arguments.end:
            break
        model = measure(name, timing, arguments)
        next(model)
        if arguments.rest:
            waiting.append(model)
        else:
            results.put(next(model))
            model.close()
    os.sched_setaffinity(0, everywhere)
    if arguments.rest:
        with contextlib.suppress(threading.BrokenBarrierError):  # not for ever for a slot that died
            all_compiled.wait(min(max(arguments.end - time.monotonic(), 0) + 70, 86400))
    for model in waiting:
        results.put(next(model))
        model.close()
    results.put(None)


def is_right(result: dict) -> bool:
    return result["difference"].get("toroid", 1) < WRONG_FROM[result["train"]]


def line_of(result: dict) -> str:
    text = f"{result['model']:45}"
    for what in ("cold_s", "warm_s"):
        text += "".join(f" {what[:-2]} {backend} {seconds:.1f} s" for backend, seconds in result[what].items())
    times = result["seconds"]
    text += "".join(f" {backend} {1e3 * seconds:.3f} ms" for backend, seconds in times.items())
    text += "".join(f" {other}/toroid {times[other] / times['toroid']:.2f}" for other in times if other != "toroid")
    text += "".join(f" WRONG {backend} by {by:.1e}" for backend, by in result["difference"].items() if not by < WRONG_FROM[result["train"]])
    return text + (f" FAILED {result['error']}" if "error" in result else "")


def summary(results: list[dict]) -> str:
    import run

    lines = [f"{len(results)} models, {sum(map(is_right, results))} with eager's results"]
    for what, other in (("seconds", "inductor"), ("seconds", "eager"), ("cold_s", "inductor"), ("warm_s", "inductor")):
        ratios = [r[what][other] / r[what]["toroid"] for r in results if {other, "toroid"} <= r[what].keys()]
        if ratios:
            lines.append(
                f"{what} of {other} / toroid: geometric mean {run._mean(ratios):.2f}, at least {min(ratios):.2f}, "
                f"{sum(ratio < 0.95 for ratio in ratios)} of {len(ratios)} under 0.95"
            )
    for what in ("cold_s", "warm_s"):
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
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slots", type=int, default=0, help="0: all that the machine has")
    parser.add_argument("--timed", type=int, default=2, help="slots that time steady states at once")
    parser.add_argument("--rest", action="store_true", help="time when all are compiled, one after the other")
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--warm", type=lambda text: text.split(",") if text else [], default=["toroid"])
    parser.add_argument("--train", action="store_true", help="steps of training, with their optimizer")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    arguments.end = time.monotonic() + arguments.until
    if arguments.rest:
        arguments.timed, arguments.warm = 1, []
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
    chosen = dict.fromkeys(name for pattern in arguments.models for name in known if fnmatch.fnmatch(name, pattern))
    names, results, timing = fork.SimpleQueue(), fork.Queue(), fork.Semaphore(arguments.timed)
    slots = processors_of_slots(1 if arguments.rest else arguments.threads)[: arguments.slots or None]
    for name in [name for name in chosen if name not in skipped] + [None] * len(slots):
        names.put(name)
    headers = fork.Process(target=_compile_headers)
    headers.start()
    headers.join()
    all_compiled = fork.Barrier(len(slots))
    running = [fork.Process(target=_slot, args=(slot, names, results, timing, all_compiled, arguments)) for slot in slots]
    for slot in running:
        slot.start()
    found, open_slots = [], len(running)
    while open_slots and (arguments.rest or time.monotonic() < arguments.end + 60):
        with contextlib.suppress(queue.Empty):
            result = results.get(timeout=1)
            if result is None:
                open_slots -= 1
                continue
            found.append(result)
            print(line_of(result), flush=True)
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump(found, file, indent=1)
    print(summary(found), flush=True)
    for slot in running:
        slot.kill()
    sys.stdout.flush()
    os._exit(0 if all(map(is_right, found)) else 1)


if __name__ == "__main__":
    main()
