"""What the examples share: a model compiled with torch.compile, beside eager PyTorch; its results and its times."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
import time
from typing import Any, Callable

import torch

import toroid.torch  # noqa: F401: tells PyTorch the backend where toroid is not installed


@functools.cache
def asked() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inductor", action="store_true", help="Inductor, too")
    parser.add_argument("--own", action="store_true", help="the script's own small module, even where the library is installed")
    return parser.parse_args()


def backends() -> list[str]:
    """The backends to try beside eager PyTorch."""
    return ["toroid", "inductor"] if asked().inductor else ["toroid"]


def has(module: str) -> bool:
    """Whether to take a library's model: it is installed, and --own is not given."""
    return not asked().own and importlib.util.find_spec(module) is not None


def median_ms(call: Callable[[], Any], seconds: float = 1.0) -> float:
    """The median time of calls that take `seconds` together, at least three."""
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * sorted(times)[len(times) // 2]


def compare(title: str, run: Callable[[Callable], Any], model: Callable, tolerance: float = 1e-4) -> None:
    """Calls run(model) in eager, and run(compiled model) for each backend. Prints their times; ends the script where results differ."""
    with torch.no_grad():
        expected = run(model)
        print(f"{title}\n  eager:    {median_ms(lambda: run(model)):8.2f} ms")
        for name in backends():
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=name)
            begin = time.perf_counter()
            actual = run(compiled)
            first = time.perf_counter() - begin
            try:
                torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
            except AssertionError as error:
                sys.exit(f"{name} differs from eager: {error}")
            print(f"  {name + ':':<9} {median_ms(lambda: run(compiled)):8.2f} ms, the first call {first:.2f} s; as eager")
