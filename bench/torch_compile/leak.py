"""Memory of a process that compiles a small graph with toroid and drops it, many times.

    python bench/torch_compile/leak.py [--count N] [--new N]

Prints the resident memory as it goes. First as torch.compile's backend is called, with what a cache has (--count graphs) and with graphs
that are new each time (--new); then with all of torch.compile, and with PyTorch's own backend aot_eager for comparison. Exit 1 where
toroid's part grows by more than 100 bytes a graph after the first tenth.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import toroid.torch
from toroid.torch.compile import compile_fx_graph
from toroid.torch.options import Options


def resident_kb() -> int:
    """Of this process, in KiB."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("Rss:")).split()[1])


def watch(title: str, count: int, once) -> float:
    """Bytes by which the process grows for each call of once(i), after the first tenth."""
    begin = time.perf_counter()
    for i in range(count):
        once(i)
        if i + 1 == count // 10:
            gc.collect()
            before = resident_kb()
        if (i + 1) % max(count // 5, 1) == 0:
            gc.collect()
            print(f"{title}: {i + 1} in {time.perf_counter() - begin:.0f} s, {resident_kb() / 1024:.1f} MiB", flush=True)
    gc.collect()
    grown = 1024 * (resident_kb() - before) / (count - count // 10)
    print(f"{title}: {grown:.0f} bytes a graph", flush=True)
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--new", type=int, default=200)
    parser.add_argument("--whole", type=int, default=300, help="calls of torch.compile")
    arguments = parser.parse_args()
    x = torch.randn(8, 16)

    def graph(number: int) -> torch.fx.GraphModule:
        return make_fx(lambda x: [torch.softmax(x * (2 + number), 1), x.sum(0)], tracing_mode="fake")(x)

    same = graph(0)

    def cached(_: int) -> None:
        compile_fx_graph(same, [x], "inference", Options())([x])

    new = [graph(i) for i in range(1, arguments.new + 1)]

    def made(i: int) -> None:
        compile_fx_graph(new[i], [x], "inference", Options(cache=False))([x])

    def whole(backend: str):
        def once(_: int) -> None:
            torch._dynamo.reset()
            torch.compile(lambda x: torch.softmax(x * 2, 1), backend=backend)(x)

        return once

    cached(0)
    grown = [watch("from the cache", arguments.count, cached)]
    if arguments.new:
        grown.append(watch("new", arguments.new, made))
    for backend in ("aot_eager", "toroid") if arguments.whole else ():
        watch(f"torch.compile, {backend}", arguments.whole, whole(backend))
    sys.exit(1 if grown[0] > 100 else 0)


if __name__ == "__main__":
    main()
