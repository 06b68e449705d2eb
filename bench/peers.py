"""Times toroid beside PyTorch, eager and compiled, in one run. Needs PyTorch, so it is run by hand.

    bench/peers.py export                       writes each row below as bench/models/ROW.pt2
    bench/peers.py time [ROW ...] [--pt2 FILE ...] [--skip compile,toroid] [--json FILE]
                                                times rows, or exported programs, and prints a table in Markdown

The three are timed in turns, several rounds of each, and a cell is the median over all rounds: a disturbance of the
machine meets them all. Every side gets the same inputs and the same number of threads, and toroid's result is compared
with eager's. Results and set-up: docs/performance.md.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "bench" / "models"
TOROID = ROOT / "build" / "toroid"
TOLERANCE = 1e-4  # of the largest value: the rows sum up to four million numbers
HALF_TOLERANCE = 2e-2  # for results in float16 and bfloat16


# ---- the rows ------------------------------------------------------------------------------------------------------

ROWS = {}


def row(*make_inputs):
    """Registers a function as a benchmark; the inputs are made anew, from the same seed, for each use."""

    def register(function):
        ROWS[function.__name__] = (function, make_inputs)
        return function

    return register


def normal(*shape):
    return lambda: torch.randn(*shape)


def positive(*shape):
    return lambda: torch.rand(*shape) + 0.1


def classes(below, *shape):
    return lambda: torch.randint(0, below, shape)


LONG = 4 * 1024 * 1024


@row(normal(LONG), normal(LONG))
def pointwise_gelu_chain(x, y):
    return F.gelu(x * y + 1.0) * torch.sigmoid(y)


@row(normal(2048, 2048))
def softmax(x):
    return torch.softmax(x, -1)


@row(normal(2048, 1024), normal(2048, 1024), normal(1024), normal(1024))
def layernorm_residual_gelu(x, residual, weight, bias):
    return F.gelu(F.layer_norm(x + residual, (x.shape[-1],), weight, bias))


@row(normal(2048, 1024), normal(1024))
def rmsnorm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@row(normal(4096, 1024))
def sum_dim0(x):
    return x.sum(0)


@row(normal(LONG))
def full_sum_sq(x):
    return (x * x).sum()


@row(normal(256, 8000), classes(8000, 256))
def cross_entropy(x, target):
    return F.cross_entropy(x, target)


@row(normal(2048, 2048), normal(2048, 2048))
def transpose_add(x, y):
    return x.t() + y


@row(normal(512, 1024), normal(1024, 1024), normal(1024))
def linear_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


@row(normal(1024, 1024), normal(1024, 1024))
def mm_square(a, b):
    return a @ b


@row(normal(1, 1024), normal(1024, 4096))
def mm_skinny_decode(a, b):
    return a @ b


@row(normal(8, 256, 64), normal(8, 64, 256))
def bmm(a, b):
    return torch.bmm(a, b)


@row(normal(1, 8, 512, 64), normal(1, 8, 512, 64), normal(1, 8, 512, 64))
def sdpa_causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@row(normal(1, 64, 56, 56), normal(64, 64, 3, 3), normal(64), normal(64), normal(64), positive(64))
def conv_bn_relu(x, kernel, weight, bias, mean, variance):
    return F.relu(F.batch_norm(F.conv2d(x, kernel, padding=1), mean, variance, weight, bias))


class Row(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.function, self.make_inputs = ROWS[name]

    def forward(self, *args):
        return self.function(*args)

    def inputs(self):
        torch.manual_seed(0)
        return tuple(make() for make in self.make_inputs)


def export_rows():
    MODELS.mkdir(parents=True, exist_ok=True)
    for name in ROWS:
        module = Row(name)
        program = torch.export.export(module, module.inputs(), strict=False)
        program.example_inputs = None  # else the archive carries them, megabytes, as a pickle
        for node in program.graph.nodes:  # and nothing about where this machine keeps its files
            node.meta.pop("stack_trace", None)
        torch.export.save(program, MODELS / f"{name}.pt2")


# ---- timing --------------------------------------------------------------------------------------------------------


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def time_calls(function, args, seconds):
    """Latencies in ms, after two calls to warm up."""
    function(*args)
    function(*args)
    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(latencies) < 5:
        start = time.perf_counter()
        function(*args)
        latencies.append((time.perf_counter() - start) * 1e3)
    return latencies


class TorchSide:
    def __init__(self, function, args):
        self.function, self.args = function, args
        start = time.perf_counter()
        function(*args)
        self.first_call_s = time.perf_counter() - start

    def measure(self, seconds):
        return median(time_calls(self.function, self.args, seconds))


class ToroidSide:
    """`toroid bench` in a process of its own, with a cache of its own, so that the first round compiles cold. Its results must equal
    `expected`, unless that is None."""

    def __init__(self, model, args, expected, threads, scratch, seconds=1.0):
        self.model, self.threads, self.scratch, self.seconds = model, threads, scratch, seconds
        self.inputs = os.path.join(scratch, "in.safetensors")
        save_file({f"in{i}": t.contiguous() for i, t in enumerate(args)}, self.inputs)
        self.environment = {**os.environ, "TOROID_CACHE_DIR": os.path.join(scratch, "cache")}
        self.cold_compile_s, _ = self.bench()
        if expected is not None:
            self.check(expected)

    def call(self, *command):
        done = subprocess.run([TOROID, *command], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"toroid {command[0]}: {(done.stderr or done.stdout).strip()[:300]}")

    def bench(self):
        report = os.path.join(self.scratch, "report.json")
        self.call("bench", self.model, "--inputs", self.inputs, "--threads", str(self.threads), "--seconds", str(self.seconds), "--json", report)
        with open(report) as file:
            values = json.load(file)
        return values["compile_s"], values["median_ms"]

    def check(self, expected):
        outputs = os.path.join(self.scratch, "out.safetensors")
        self.call("run", self.model, "--inputs", self.inputs, "--outputs", outputs)
        found = load_file(outputs)
        for i, want in enumerate(expected):
            tolerance = HALF_TOLERANCE if want.dtype in (torch.float16, torch.bfloat16) else TOLERANCE
            got, want = found[f"out{i}"].double(), want.double()
            error = (got - want).abs().max().item() / max(want.abs().max().item(), 1e-30)
            if got.shape != want.shape or not error <= tolerance:
                raise RuntimeError(f"out{i} differs from eager: relative error {error:.1e}")

    def measure(self, _seconds):
        return self.bench()[1]


def time_row(name, function, args, model, options):
    """{side: {"ms", "first_s"}}, or {"error"} for a side that failed."""
    result, sides = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        expected = pytree.tree_leaves(function(*args))

        def compiled():
            torch._dynamo.reset()
            return TorchSide(torch.compile(function), args)

        makers = {
            "eager": lambda: TorchSide(function, args),
            "compile": compiled,
            "toroid": lambda: ToroidSide(model, args, expected, options.threads, scratch),
        }
        for side, make in makers.items():
            if side in options.skip:
                continue
            try:
                sides[side] = make()
                first = sides[side].cold_compile_s if side == "toroid" else sides[side].first_call_s
                result[side] = {"first_s": round(first, 3), "rounds_ms": []}
            except Exception as error:  # a row that one side cannot do is a fact of the table
                result[side] = {"error": str(error)[:300]}
        for _ in range(options.rounds):
            for side, timer in sides.items():
                time.sleep(0.05)  # the other side's threads stop spinning
                result[side]["rounds_ms"].append(timer.measure(options.seconds))
        for side in sides:
            result[side]["ms"] = median(result[side]["rounds_ms"])
    print(name, {k: v.get("ms", v.get("error")) for k, v in result.items()}, file=sys.stderr, flush=True)
    return result


# ---- the report ----------------------------------------------------------------------------------------------------


def cpu_name():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def cell(entry, key, digits):
    return f"{entry[key]:.{digits}f}" if key in entry else "failed" if "error" in entry else "–"


def print_table(results, options):
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    print(
        f"{cpu_name()}, {options.threads} threads, PyTorch {torch.__version__}, toroid {commit or 'unknown'};", end=" "
    )
    print(f"medians of {options.rounds} interleaved rounds, `bench/peers.py time`.\n")
    print(
        "| row | eager, ms | torch.compile, ms | toroid, ms | toroid / best peer | first call of torch.compile, s |",
        end="",
    )
    print(" toroid compiles cold, s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, sides in results.items():
        eager, compiled, toroid = (sides.get(side, {}) for side in ("eager", "compile", "toroid"))
        peers = [side["ms"] for side in (eager, compiled) if "ms" in side]
        ratio = f"{toroid['ms'] / min(peers):.2f}" if peers and "ms" in toroid else "–"
        times = " | ".join(cell(side, "ms", 3) for side in (eager, compiled, toroid))
        print(f"| {name} | {times} | {ratio} | {cell(compiled, 'first_s', 1)} | {cell(toroid, 'first_s', 2)} |")
    for name, sides in results.items():
        for side, entry in sides.items():
            if "error" in entry:
                print(f"\n{name}, {side}: {entry['error']}")


def time_all(options):
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    results = {}
    if options.rows or not options.pt2:
        for name in options.rows or ROWS:
            module = Row(name)
            results[name] = time_row(name, module.function, module.inputs(), MODELS / f"{name}.pt2", options)
    for path in map(pathlib.Path, options.pt2):
        stored = load_file(path.with_suffix(".in.safetensors"))
        args = tuple(stored[f"in{i}"] for i in range(len(stored)))
        module = torch.export.load(path).module()
        results[path.stem] = time_row(path.stem, module, args, path, options)
    print_table(results, options)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {"cpu": cpu_name(), "threads": options.threads, "torch": torch.__version__, "rows": results}, file
            )


def keep_freed_memory():
    """Starts again with an allocator that keeps what is freed: else glibc returns large outputs to the system after each
    call, and the next call of PyTorch spends its time on page faults."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        keep = {"MALLOC_MMAP_THRESHOLD_": str(2**31), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **keep})


def main():
    keep_freed_memory()
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("export")
    timing = commands.add_parser("time")
    timing.add_argument("rows", nargs="*", metavar="ROW", choices=[*ROWS, []])
    timing.add_argument("--pt2", nargs="*", default=[], help="exported programs with NAME.in.safetensors beside them")
    timing.add_argument("--skip", default="", help="sides to leave out: eager, compile, toroid")
    timing.add_argument("--threads", type=int, default=2)
    timing.add_argument("--rounds", type=int, default=5)
    timing.add_argument("--seconds", type=float, default=0.4, help="of PyTorch's calls in each round")
    timing.add_argument("--json")
    options = parser.parse_args()
    if options.command == "export":
        export_rows()
    else:
        options.skip = options.skip.split(",")
        time_all(options)


if __name__ == "__main__":
    main()
