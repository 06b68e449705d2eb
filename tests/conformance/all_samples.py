"""Runs toroid on all samples of PyTorch's OpInfo database, many a program, and says which samples fail and why.

    python tests/conformance/all_samples.py FOLDER [--only NAME ...] [--part K/N] [--forms plain core inplace dynamic]
                                            [--dtypes float32 ...] [--samples 12] [--backends cpu interp]

The corpus holds a few samples of each operator; this takes up to --samples of every operator and dtype, spread over the list.
A program calls its operator on several samples and returns all results, which is ten times faster than one each. When it fails,
each of its samples is exported and run alone: the failing ones are left in FOLDER with what `toroid conform` said in
FOLDER/failures.txt. Everything else is deleted. Forms of a program:

    plain     as torch.export gives it
    core      after run_decompositions(): PyTorch's own core operators
    inplace   the operator's in-place variant on a copy of its first tensor
    dynamic   each size free (Dim.AUTO), a second call with other sizes where PyTorch's program takes them

Complex tensors cross the program's boundary as pairs of real numbers. Of random results only dtype and shape count. Needs PyTorch
like regenerate.py; run by hand. Last results: docs/testing.md.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import warnings

import torch
import torch.nn as nn
from regenerate import save_tensors, tensors_of
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

MAX_ELEMENTS = 20_000
PROGRAM_SAMPLES = 16  # of one program
DTYPES = ["float32", "int64", "bool", "bfloat16", "float16", "float64", "uint8", "int32", "complex64"]
TOROID = pathlib.Path(__file__).parents[2] / "build" / "toroid"


class TooSlow(Exception):
    pass


@contextlib.contextmanager
def at_most(seconds):
    def stop(*_):
        raise TooSlow(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- samples as functions of tensors ---------------------------------------------------------------------------------------------


def to_boundary(tensor):
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class Call:
    """One sample: the operator as a function of the sample's tensors, which cross as real ones."""

    def __init__(self, operator, sample, inplace=False):
        self.operator, self.inplace, self.random = operator, inplace, False
        leaves, self.structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[i].detach() for i in self.positions]
        self.complex = [t.is_complex() for t in tensors]
        self.inputs = [to_boundary(t) for t in tensors]

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for position, is_complex, tensor in zip(self.positions, self.complex, tensors):
            leaves[position] = torch.view_as_complex(tensor) if is_complex else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        if self.inplace:
            args = (args[0].clone(), *args[1:])
        results = self.operator(*args, **kwargs)
        if self.inplace:
            results = (results, args[0])
        results = [to_boundary(t) for t in tensors_of(results)]
        return [torch.zeros_like(t) + (t.double() * 0).nan_to_num().to(t.dtype) for t in results] if self.random else results

    def run(self):
        # Each call gets its own copies: the operator may write to its inputs.
        return [t.detach() for t in self(*[clone(t) for t in self.inputs])]


def clone(tensor):
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return tensor.clone() if 0 in tensor.stride() else copy.copy_(tensor)


def storable(tensors):
    return all(
        t.layout == torch.strided and not t.is_quantized and not t.is_complex() and t.numel() <= MAX_ELEMENTS for t in tensors
    )


def same(first, second):
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second)
    )


class SeesRandom(TorchDispatchMode):
    """Whether anything draws random numbers: a sample may seed the generator, so equal results do not tell."""

    found = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.found = self.found or torch.Tag.nondeterministic_seeded in function.tags
        return function(*args, **(kwargs or {}))


def usable(call):
    """Whether PyTorch itself gives storable results, and marks calls whose results are random."""
    if not call.inputs or not storable(call.inputs):
        return False
    with SeesRandom() as random:
        first = call.run()
    second = call.run()
    if not first or not storable(first) or [t.shape for t in first] != [t.shape for t in second]:
        return False
    call.random = random.found or not same(first, second)
    call.results = call.run()
    return True


class Calls(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *tensors):
        results, begin = [], 0
        for call in self.calls:
            results += call(*tensors[begin : begin + len(call.inputs)])
            begin += len(call.inputs)
        return results


# ---- programs --------------------------------------------------------------------------------------------------------------------


def grown(tensors):
    """The tensors with each size above 1 one larger: the last slice twice."""
    return [t.repeat_interleave(1, 0) if t.dim() == 0 else grown_tensor(t) for t in tensors]


def grown_tensor(tensor):
    for dim, size in enumerate(tensor.shape):
        if size > 1:
            tensor = torch.cat([tensor, tensor.narrow(dim, size - 1, 1)], dim)
    return tensor.contiguous()


def write_program(folder, name, calls, form):
    """False where PyTorch cannot export it."""
    module = Calls(calls)
    inputs = [t for call in calls for t in call.inputs]
    results = [t for call in calls for t in call.results]
    shapes = None
    if form == "dynamic":
        shapes = (tuple({d: torch.export.Dim.AUTO for d in range(t.dim())} for t in inputs),)
    with at_most(120), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        program = torch.export.export(module, tuple(clone(t) for t in inputs), dynamic_shapes=shapes, strict=False)
        if form == "core":
            program = program.run_decompositions()
        path = os.path.join(folder, name)
        torch.export.save(program, path + ".pt2")
    save_tensors(path + ".in.safetensors", "in", inputs)
    save_tensors(path + ".out.safetensors", "out", results)
    if form != "dynamic":
        return
    others = [t.clone() if t.dim() == 0 else grown_tensor(t) for t in inputs]
    try:  # sizes that the operator needs as they are keep the program from taking others
        with at_most(60):
            results = program.module()(*[t.clone() for t in others])
            eager = module(*[t.clone() for t in others])
    except Exception:
        return
    if same(results, eager):
        save_tensors(path + ".in2.safetensors", "in", others)
        save_tensors(path + ".out2.safetensors", "out", eager)


def remove_program(folder, name):
    for path in pathlib.Path(folder).glob("*"):
        if path.name.startswith(name + "."):
            path.unlink()


def conform(toroid, folder, backend, timeout_s):
    """The reason of each failing case by name."""
    report = os.path.join(folder, "report.json")
    command = [toroid, "conform", folder, "--isolate", "--jobs", "1", "--timeout", str(timeout_s), "--backend", backend]
    subprocess.run([*command, "--json", report], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(report) as file:
        cases = json.load(file)["cases"]
    return {case["name"]: case["reason"] for case in cases if not case["passed"]}


class Sweep:
    def __init__(self, options):
        self.folder = pathlib.Path(options.folder)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.toroid, self.backends, self.timeout_s = options.toroid, options.backends, options.timeout
        self.waiting = {}  # program -> (calls with their names, form)
        self.operators, self.samples, self.random, self.programs, self.failed, self.unexported = set(), 0, 0, 0, 0, 0
        self.log = open(self.folder / "failures.txt", "a", buffering=1)

    def add(self, name, named_calls, form):
        for i in range(0, len(named_calls), PROGRAM_SAMPLES):
            self.add_program(f"{name}-{i}" if i else name, named_calls[i : i + PROGRAM_SAMPLES], form)

    def add_program(self, name, named_calls, form):
        try:
            write_program(self.scratch, name, [call for _, call in named_calls], form)
        except Exception as error:
            remove_program(self.scratch, name)
            if len(named_calls) > 1:  # one of them may be what torch.export refuses
                middle = len(named_calls) // 2
                self.add_program(name + "a", named_calls[:middle], form)
                self.add_program(name + "b", named_calls[middle:], form)
            else:
                self.unexported += 1
                self.log.write(f"UNEXPORTED {named_calls[0][0]}: {str(error).splitlines()[:1]}\n")
            return
        self.waiting[name] = (named_calls, form)
        self.samples += len(named_calls)
        self.random += sum(call.random for _, call in named_calls)
        self.programs += 1
        if len(self.waiting) >= 24:
            self.flush()

    def flush(self):
        if not self.waiting:
            return
        for backend in self.backends:
            failed = conform(self.toroid, self.scratch, backend, self.timeout_s)
            if failed:
                self.run_alone(failed, backend)
        for name in self.waiting:
            remove_program(self.scratch, name)
        self.waiting = {}

    def run_alone(self, failed, backend):
        single = self.folder / "single"
        shutil.rmtree(single, ignore_errors=True)
        single.mkdir()
        for name in failed:
            for sample_name, call in self.waiting[name][0]:
                with contextlib.suppress(Exception):
                    write_program(single, sample_name, [call], self.waiting[name][1])
        reasons = conform(self.toroid, single, backend, self.timeout_s)
        for name, reason in reasons.items():
            self.failed += 1
            self.log.write(f"FAIL {backend} {name}: {reason}\n")
            for path in single.glob("*"):
                if path.name.startswith(name + "."):
                    shutil.copy(path, self.folder / path.name)
        for name, reason in failed.items():
            if not any(sample_name in reasons for sample_name, _ in self.waiting[name][0]):
                self.failed += 1
                self.log.write(f"FAIL {backend} {name} only together: {reason}\n")
                for path in self.scratch.glob("*"):
                    if path.name.startswith(name + "."):
                        shutil.copy(path, self.folder / path.name)

    def summary(self):
        return (
            f"{len(self.operators)} operators, {self.samples} samples ({self.random} random) in {self.programs} programs, "
            f"{self.failed} failures, {self.unexported} samples that torch.export refuses"
        )


def calls_of(info, operator_name, dtype_name, form, count, reference):
    dtype = getattr(torch, dtype_name)
    if not info.supports_dtype(dtype, "cpu"):
        return []
    operator = info.inplace_variant if form == "inplace" else info.op
    if operator is None:
        return []
    torch.manual_seed(1)
    try:
        make = info.reference_inputs if reference else info.sample_inputs
        samples = list(make("cpu", dtype, requires_grad=False))
    except Exception:  # some generators need a GPU or an optional package
        return []
    count = min(count, len(samples))
    calls = []
    for i in (k * len(samples) // count for k in range(count)):
        if form == "inplace" and (not isinstance(samples[i].input, torch.Tensor) or samples[i].broadcasts_input):
            continue
        try:
            with at_most(20), contextlib.redirect_stderr(io.StringIO()):
                call = Call(operator, samples[i], form == "inplace")
                if usable(call):
                    calls.append((f"{operator_name}-{dtype_name}-{form}-{i}", call))
        except Exception:  # what PyTorch refuses
            pass
    return calls


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--first", type=int, default=0, help="number of the first operator: to go on with a part")
    parser.add_argument("--forms", nargs="+", default=["plain", "core", "inplace", "dynamic"])
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--reference", action="store_true", help="OpInfo's larger list of reference samples")
    parser.add_argument("--backends", nargs="+", default=["cpu", "interp"])
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--toroid", default=TOROID)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)  # which sizes torch.export specialised
    torch.set_num_threads(1)
    sweep = Sweep(options)
    for number, info in enumerate(op_db):
        operator = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if number < options.first or number * parts // len(op_db) != part or (options.only and operator not in options.only):
            continue
        began = time.time()
        for form in options.forms:
            calls = []
            for dtype in options.dtypes:
                calls += calls_of(info, operator, dtype, form, options.samples, options.reference)
            if calls:
                sweep.operators.add(operator)
                sweep.add(f"{operator}-{form}", calls, form)
        print(f"{number} {operator} {time.time() - began:.1f} s; {sweep.summary()}", file=sys.stderr, flush=True)
    sweep.flush()
    shutil.rmtree(sweep.scratch)
    print(sweep.summary())


if __name__ == "__main__":
    main()
