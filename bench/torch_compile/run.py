"""Models compiled with torch.compile(backend="toroid"), beside eager PyTorch and Inductor.

    python bench/torch_compile/run.py [--models PATTERN...] [--jobs N] [--threads N] [--backends toroid,inductor] [--train] [--speed]
                                      [--json FILE] [--timeout S]

Each model runs in processes of its own, with a cache of its own for each backend: a first call cold, with --speed then a first call in a
new process (warm) and the steady state, as the median of calls for 2 s. Without --speed only results are compared: every output with
eager's in float32, and with --train gradients and parameters after three steps of SGD.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


# ---- one model, in a process of its own


def _tensors(value) -> list:
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(_plain(value)) if isinstance(leaf, torch.Tensor)]


def _plain(value):
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _difference(actual, expected) -> float:
    """The largest difference, as a part of the largest expected value; of another dtype, shape or stride order: infinity."""
    import torch

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return math.inf
    if not expected.is_floating_point() and not expected.is_complex():
        return 0.0 if torch.equal(actual, expected) else math.inf
    if expected.numel() == 0:
        return 0.0
    a, b = actual.detach().to(torch.float64), expected.detach().to(torch.float64)
    if not torch.equal(torch.isnan(a), torch.isnan(b)):
        return math.inf
    a, b = torch.nan_to_num(a), torch.nan_to_num(b)
    return float((a - b).abs().max() / max(float(b.abs().max()), 1e-6))


def _largest(actual: list, expected: list) -> float:
    if len(actual) != len(expected):
        return math.inf
    return max((_difference(a, b) for a, b in zip(actual, expected)), default=0.0)


def _median_s(call, seconds: float) -> float:
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def _loss(output):
    tensors = [t.float() for t in _tensors(output) if t.is_floating_point()]
    return sum(((t - 1) ** 2).mean() for t in tensors)  # not 0 where a model begins with a last layer of zeros


def _train(model, positional, named, call) -> list:
    """Gradients of the first step, then parameters and buffers after three."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = []
    for step in range(3):
        optimizer.zero_grad()
        _loss(call(*positional, **named)).backward()
        if step == 0:
            found += [p.grad.detach().clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
    return found + [p.detach() for p in model.parameters()] + [b.detach() for b in model.buffers()]


def _still(model) -> None:
    """Without dropout: backends draw other numbers than eager."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name in ("attention_dropout", "dropout", "attn_dropout", "drop_prob", "dropout_prob", "hidden_dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def run_one(name: str, backend: str, train: bool, speed: bool, threads: int) -> dict:
    import torch

    import models

    if threads:
        torch.set_num_threads(threads)
    if backend == "toroid":
        import toroid.torch  # noqa: F401: registers the backend
        from toroid.torch.fallback import FallbackWarning
    else:
        FallbackWarning = UserWarning
    result: dict = {"model": name, "backend": backend, "train": train}
    model, positional, named = models.make(name)
    import copy

    if train:
        _still(model)
        model.train()
        twin = copy.deepcopy(model)
        wide = copy.deepcopy(model).double()
        doubled = [x.double() if x.is_floating_point() else x for x in positional]
        expected = _train(model, positional, named, model)
        exact = _train(wide, doubled, named, wide)
        eager_error = _largest([e.to(x.dtype) for e, x in zip(expected, exact)], exact)
        compiled = torch.compile(twin, backend=backend)
    else:
        model.eval()
        twin = model
        with torch.no_grad():
            expected = _tensors(model(*positional, **named))
        compiled = torch.compile(model, backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.perf_counter()
        if train:
            actual = _train(twin, positional, named, compiled)
        else:
            with torch.no_grad():
                actual = _tensors(compiled(*positional, **named))
        result["first_s"] = time.perf_counter() - begin
    result["fallbacks"] = [str(w.message) for w in caught if issubclass(w.category, FallbackWarning) and "eager PyTorch" in str(w.message)]
    result["difference"] = _largest(actual, expected)
    if train:
        # Eager's own distance from the result in double precision is what single precision cannot decide.
        own = _largest([a.to(x.dtype) for a, x in zip(actual, exact)], exact)
        result["eager_error"], result["error"] = eager_error, own
        result["correct"] = result["difference"] < 1e-3 or own < max(2 * eager_error, 1e-3)
    else:
        result["correct"] = result["difference"] < 1e-3
    if speed and not train:
        with torch.no_grad():
            result["eager_s"] = _median_s(lambda: model(*positional, **named), 1.0)
            result["steady_s"] = _median_s(lambda: compiled(*positional, **named), 2.0)
    result["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def _one(arguments: argparse.Namespace) -> None:
    try:
        result = run_one(arguments.one, arguments.backends, arguments.train, arguments.speed, arguments.threads)
    except Exception as error:  # noqa: BLE001: the parent reports it
        lines = str(error).strip().splitlines()
        result = {"model": arguments.one, "backend": arguments.backends}
        result["error_text"] = f"{type(error).__name__}: " + " | ".join(lines[:6])[:900]
        result["place"] = traceback.format_exc().strip().splitlines()[-3:]
    print("RESULT " + json.dumps(result), flush=True)


# ---- all of them


def _start(name: str, backend: str, arguments: argparse.Namespace, folder: str) -> dict:
    environment = dict(
        os.environ,
        TOROID_CACHE_DIR=f"{folder}/toroid",
        TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
        TRITON_CACHE_DIR=f"{folder}/triton",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
    )
    if arguments.threads:
        environment |= {
            "OMP_NUM_THREADS": str(arguments.threads),
            "TOROID_NUM_THREADS": str(arguments.threads),
            "MKL_NUM_THREADS": str(arguments.threads),
        }
    command = [sys.executable, os.path.abspath(__file__), "--one", name, "--backends", backend, "--threads", str(arguments.threads)]
    command += ["--train"] if arguments.train else []
    command += ["--speed"] if arguments.speed else []
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        return {"model": name, "backend": backend, "error_text": f"no result after {arguments.timeout} s"}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    return {"model": name, "backend": backend, "error_text": f"ended with {done.returncode}: {done.stderr[-600:]}"}


def _all_of(name: str, arguments: argparse.Namespace) -> list[dict]:
    results = []
    for backend in arguments.backends.split(","):
        with tempfile.TemporaryDirectory() as folder:
            result = _start(name, backend, arguments, folder)
            if arguments.speed and "error_text" not in result:
                again = _start(name, backend, arguments, folder)
                result["warm_s"] = again.get("first_s")
            results.append(result)
    return results


def _line(result: dict) -> str:
    text = f"{result['model']:45} {result['backend']:9} "
    if "error_text" in result:
        return text + "FAILED " + result["error_text"]
    text += ("ok   " if result["correct"] else "WRONG") + f" difference {result['difference']:.1e} first {result['first_s']:6.2f} s"
    if "steady_s" in result:
        text += f" warm {result.get('warm_s') or math.nan:6.2f} s"
        text += f" eager {1e3 * result['eager_s']:7.2f} ms steady {1e3 * result['steady_s']:7.2f} ms"
    for fallback in result["fallbacks"]:
        text += "\n    " + fallback.replace("\n", "\n    ")
    return text


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _summary(results: list[dict], backends: list[str]) -> None:
    for backend in backends:
        its = [r for r in results if r["backend"] == backend]
        correct = [r for r in its if r.get("correct")]
        whole = [r for r in correct if not r["fallbacks"]]
        print(f"{backend}: {len(its)} models, {len(correct)} with eager's results, {len(whole)} of these without eager operators")
        timed = [r for r in correct if "steady_s" in r]
        if timed:
            print(
                f"  steady state: {_mean([r['eager_s'] / r['steady_s'] for r in timed]):.2f} times eager's speed, at least "
                f"{min(r['eager_s'] / r['steady_s'] for r in timed):.2f}"
            )
    found = {(r["model"], r["backend"]): r for r in results if r.get("correct")}
    for what in ("first_s", "warm_s", "steady_s"):
        pairs = [
            (found[m, "toroid"][what], found[m, "inductor"][what])
            for m, b in found
            if b == "toroid" and (m, "inductor") in found and what in found[m, "toroid"] and what in found[m, "inductor"]
        ]
        ratios = [other / own for own, other in pairs if own and other]
        if ratios:
            print(f"  {what}: inductor / toroid, geometric mean {_mean(ratios):.2f}, at least {min(ratios):.2f} ({len(ratios)} models)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["*"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--backends", default="toroid")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--timed", action="store_true", help="the models of the small list alone")
    parser.add_argument("--json")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        _one(arguments)
        return
    import models

    names = models.TRAINING if arguments.train else models.TIMED if arguments.timed else models.all_names()
    names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.models)]
    results: list[dict] = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(_all_of, name, arguments) for name in names]):
            for result in done.result():
                results.append(result)
                print(_line(result), flush=True)
            if arguments.json:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump(results, file, indent=1)
    _summary(results, arguments.backends.split(","))
    sys.exit(0 if all(r.get("correct") for r in results) else 1)


if __name__ == "__main__":
    main()
