"""A few random programs in one process: batch.py SEED FIRST COUNT TOROID FOLDER DEVICE prints a line of JSON for each."""
import json
import logging
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from agree import NoiseMode, differences
from draft import Draft, Unfit
from operators import EXPRESSIONS, write

warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)
torch.set_num_threads(1)

FLOATS = [torch.float32] * 6 + [torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16, torch.bool]
SHAPES = [(4, 6), (4, 6), (6,), (4, 1), (2, 4, 6), (2, 3, 4, 4), (1, 4, 8, 8), (4, 33), (17, 4), (4, 4), (), (2, 1, 6), (3, 65), (4, 130)]
NOISY_RUNS = 6


class Refused(Exception):
    pass


class Crashed(Exception):
    pass


def random_tensor(rng, shape, dtype, edges):
    if dtype == torch.bool:
        return torch.rand(shape) > 0.4
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        value = torch.randint(0 if info.min == 0 else -4, 6, shape, dtype=dtype)
        specials = [info.min, info.max, 0, 1]
    else:
        value = torch.randn(shape).to(dtype)
        specials = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0]
    if edges and value.numel():
        flat = value.view(-1)
        for _ in range(rng.randint(1, 3)):
            flat[rng.randrange(flat.numel())] = rng.choice(specials)
    return value


def random_program(rng):
    """Lines, inputs of two calls, and which dims are free."""
    dynamic = rng.random() < 0.4
    edges = rng.random() < 0.2
    inputs, second, free = {}, {}, {}
    for i in range(rng.randint(1, 3)):
        shape = rng.choice(SHAPES)
        dtype = rng.choice(FLOATS) if i == 0 or rng.random() < 0.6 else rng.choice(INTEGERS)
        inputs[f"x{i}"] = random_tensor(rng, shape, dtype, edges)
        dims = [d for d, size in enumerate(shape) if size in (4, 6)] if dynamic else []
        free[f"x{i}"] = {d: torch.export.Dim.AUTO for d in dims}
        other = tuple({4: 5, 6: 9}[size] if d in dims else size for d, size in enumerate(shape))
        second[f"x{i}"] = random_tensor(rng, other, dtype, edges)
        if len(shape) > 1 and rng.random() < 0.15:  # in both calls: the layout of inputs is part of an exported program
            for values in (inputs, second):
                values[f"x{i}"] = values[f"x{i}"].transpose(0, -1).contiguous().transpose(0, -1)
    draft = Draft(rng, inputs)
    draft.begin()
    wanted = rng.randint(5, 25)
    functions, weights = zip(*EXPRESSIONS)
    for attempt in range(wanted * 6):
        if len(draft.lines) >= wanted:
            break
        try:
            if rng.random() < 0.1:
                draft.try_line(write(draft))
            else:
                name = f"v{len(draft.lines)}"
                draft.try_line(f"{name} = {rng.choices(functions, weights)[0](draft)}", name)
        except Unfit:
            pass
    read = " ".join(draft.lines)
    made = [name for name in draft.values if name not in inputs]
    results = [name for name in made if read.count(name) < 2]
    results += rng.sample(made, min(2, len(made)))
    results += [f"{name}.clone()" for name in inputs]
    return draft.lines, list(dict.fromkeys(results)), inputs, second if dynamic else None, free


def as_function(lines, results, names):
    source = f"def forward({', '.join(['self', *names])}):\n  " + "\n  ".join(lines + [f"return ({', '.join(results)},)"])
    scope = {"torch": torch, "F": F}
    exec(source, scope)
    return type("Program", (torch.nn.Module,), {"forward": scope["forward"]})()


def copies(inputs):
    return tuple(value.clone(memory_format=torch.preserve_format) for value in inputs.values())


def real(value):
    value = value.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(value) if value.is_complex() else value


def reference(program, inputs, seed):
    """What eager computes, and what it computes with noise."""
    with torch.no_grad():
        exact = [real(value).clone() for value in program(*copies(inputs))]
        noisy = []
        for run in range(NOISY_RUNS):
            with NoiseMode(seed * 100 + run, saturate=run == 0) as noise:
                noisy.append([real(value).clone() for value in program(*(noise.moved(value) for value in copies(inputs)))])
    return exact, noisy


def recorded_dtypes(exported):
    values = [node.meta["val"] for node in exported.graph.output_node().args[0]]
    return [torch.view_as_real(value).dtype if value.is_complex() else value.dtype for value in values][-len(exported.graph_signature.user_outputs):]


def toroid_results(toroid, model, inputs, folder, call):
    given, got = folder / f"in{call}.safetensors", folder / f"out{call}.safetensors"
    save_file({f"in{i}": value.clone(memory_format=torch.contiguous_format) for i, value in enumerate(inputs.values())}, given)
    command = [*toroid, "--inputs", given, "--outputs", got, "--threads", "2"]
    command.insert(2, model)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, errors="replace")
    if done.returncode < 0 or done.returncode > 2 or "toroid is at fault" in done.stderr or "bug in toroid" in done.stderr:
        raise Crashed(f"exit {done.returncode}: {done.stderr.strip()[-500:]}")
    if done.returncode:
        raise Refused(done.stderr.strip()[-500:])
    return load_file(got)


def check(toroid, lines, results, inputs, second, free, seed, folder):
    """(outcome, why): agrees, wrong, refused, crash, or what PyTorch would not do."""
    program = as_function(lines, results, inputs)
    try:
        exported = torch.export.export(program, copies(inputs), dynamic_shapes=tuple(free[name] or None for name in inputs), strict=False)
        module = exported.module()  # with the example inputs, without which it leaves out the guards that it writes
        exported._example_inputs = None
        torch.export.save(exported, folder / "model.pt2")
    except Exception as error:
        return "not exported", f"{type(error).__name__}: {error}"[:200]
    compared = 0
    for call, values in enumerate([inputs] + ([second] if second else [])):
        try:
            exact, noisy = reference(module, values, seed)
        except Exception as error:
            if call == 0:
                return "not called", f"{type(error).__name__}: {error}"[:200]
            break
        if call == 0 and [value.dtype for value in exact] != recorded_dtypes(exported):
            return "not recorded", "torch.export records other dtypes than eager gives"
        if any(run[i].shape != value.shape for run in noisy for i, value in enumerate(exact)):
            return "unstable", "shapes depend on rounding"
        try:
            got = toroid_results(toroid, folder / "model.pt2", values, folder, call)
        except Refused as refused:
            return "refused", f"call {call}: {refused}"
        except Crashed as crash:
            return "crash", f"call {call}: {crash}"
        except subprocess.TimeoutExpired:
            return "crash", f"call {call}: time limit"
        for i, value in enumerate(exact):
            why, elements = differences(got.get(f"out{i}"), value, [run[i] for run in noisy])
            compared += elements
            if why:
                return "wrong", f"call {call}, {results[i]}: {why}"
    return ("agrees", f"{compared} elements") if compared else ("unstable", "no element is stable")


def leading_to(result, lines):
    """The lines whose names lead to a result; what is written through another name of its memory is missed."""
    names = re.compile(r"\b[vx]\d+\b")
    wanted, kept = set(names.findall(result)), []
    for line in reversed(lines):
        read = names.findall(line)  # the first is what the line makes or changes
        if read[0] in wanted:
            kept.append(line)
            wanted.update(read)
    return kept[::-1]


def smaller(toroid, lines, results, inputs, second, free, seed, folder, outcome, why):
    """Drops results and lines while the outcome stays."""
    def fails(some_lines, some_results):
        try:
            return check(toroid, some_lines, some_results, inputs, second, free, seed, folder)[0] == outcome
        except Exception:
            return False

    for result in sorted(results, key=lambda each: f", {each}: " not in why):  # the one that differs first
        if fails(lines, [result]):
            results, few = [result], leading_to(result, lines)
            if fails(few, results):
                lines = few
            break
    for line in reversed(list(lines)):
        fewer = [kept for kept in lines if kept is not line]
        if fails(fewer, results):
            lines = fewer
    return lines, results


def save(findings, name, why, inputs, free, lines, results):
    what = [f"# {key}: {tuple(value.shape)} {value.dtype} strides {value.stride()} free {sorted(free[key])}" for key, value in inputs.items()]
    (findings / f"{name}.py").write_text("\n".join([f"# {why}", *what, *lines, f"return {', '.join(results)}", ""]))


def main():
    seed, first, count = map(int, sys.argv[1:4])
    toroid, findings = [sys.argv[4], "run", "--device", sys.argv[6]], pathlib.Path(sys.argv[5])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["TOROID_CACHE_DIR"] = str(folder / "cache")
        for number in range(first, first + count):
            own = seed * 1_000_000 + number
            torch.manual_seed(own)
            lines, results, inputs, second, free = random_program(random.Random(own))
            outcome, why = check(toroid, lines, results, inputs, second, free, own, folder)
            failed = outcome in ("wrong", "refused", "crash")
            if failed:
                save(findings, f"{outcome}-{own}", why, inputs, free, lines, results)
            print(json.dumps({"program": number, "outcome": outcome, "why": why, "lines": len(lines)}), flush=True)
            if failed:
                small, few = smaller(toroid, lines, results, inputs, second, free, own, folder, outcome, why)
                save(findings, f"{outcome}-{own}", why, inputs, free, small, few)


if __name__ == "__main__":
    main()
