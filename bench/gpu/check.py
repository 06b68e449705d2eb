#!/usr/bin/env python3
"""Checks and times toroid on a GPU in one go: conformance, then rows against PyTorch, eager and compiled, on the same device in the same run.

usage: check.py TOROID CONFORMANCE_DIR OUT_DIR [--suites models,control_flow,opinfo] [--rows softmax,…] [--jobs N] [--inductor-seconds 60]
                [--peers eager,inductor,max-autotune,flex,jax,libraries] [--mode default|max] [--device cuda|triton] [--every N]

--mode: of toroid; with max it tunes, which its compile time then has. --device: triton for fused kernels in Triton, beside those that
torch.compile makes. --every: of how many samples of a suite one is taken. --rows: names, `memory` for those of fused kernels alone, which
memory bounds, or `further` for those of further_rows.py, which are else left out; `none`. --peers: eager and inductor (torch.compile in its default mode) unless told otherwise; the others are those of
peers.py.

TOROID: the command. CONFORMANCE_DIR: with folders of recorded cases, as the build unpacks them; their calls are CUDA graphs where they can
be. Needs PyTorch with CUDA for the rows, whose programs it exports. A row is timed on all sides in turn, with the L2 cache emptied before
each call; its ratio is that of the best peer to toroid. Inputs are uniform in [-1, 1). torch.compile is left out of a row (and with 0 of
all) where it takes more than --inductor-seconds. The device's clocks and power are in a row's record. Writes OUT_DIR/SUITE.json,
OUT_DIR/SUITE.txt and OUT_DIR/rows.json; prints a table last.
"""
import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time

import further_rows
import models
import peers
import training
import written_attention


MEMORY_ROWS = ("pointwise_gelu_chain", "softmax", "layernorm_residual_gelu", "rmsnorm", "sum_dim0", "full_sum_sq", "cross_entropy",
               "transpose_add")


def run(command, log, timeout, **environment):
    begin = time.time()
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                                env={**os.environ, **environment})
        text, code = result.stdout, result.returncode
    except subprocess.TimeoutExpired as error:
        text, code = (error.stdout or b"").decode(errors="replace") + "\ntimed out", 124
    if log:
        with open(log, "w") as file:
            file.write(" ".join(command) + "\n" + text)
    return code, text, time.time() - begin


def rows(torch):
    """Name, a function that makes the module, one that makes its arguments on the device (as tools/bench_peers.py has them)."""
    functional = torch.nn.functional
    many = 64 << 20
    make = lambda *sizes, **how: further_rows.uniform(torch, *sizes, **how)
    plain = lambda function: lambda: as_module(torch, function)
    yield "pointwise_gelu_chain", plain(lambda x, y: functional.gelu(x * y + 1.0) * torch.sigmoid(y)), lambda: (make(many), make(many))
    yield "softmax", plain(lambda x: torch.softmax(x, -1)), lambda: (make(16384, 4096),)
    yield ("layernorm_residual_gelu", plain(lambda x, r, w, b: functional.gelu(functional.layer_norm(x + r, (x.shape[-1],), w, b))),
           lambda: (make(16384, 4096), make(16384, 4096), make(4096), make(4096)))
    yield ("rmsnorm", plain(lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w),
           lambda: (make(16384, 4096), make(4096)))
    yield "sum_dim0", plain(lambda x: x.sum(0)), lambda: (make(16384, 4096),)
    yield "full_sum_sq", plain(lambda x: (x * x).sum()), lambda: (make(many),)
    yield ("cross_entropy", plain(lambda x, t: functional.cross_entropy(x.float(), t)),
           lambda: (make(8192, 32000), torch.randint(0, 32000, (8192,), device="cuda")))
    yield "transpose_add", plain(lambda x, y: x.t() + y), lambda: (make(8192, 8192), make(8192, 8192))
    yield ("linear_gelu", plain(lambda x, w, b: functional.gelu(functional.linear(x, w, b))),
           lambda: (make(8192, 4096), make(4096, 4096), make(4096)))
    yield ("linear_residual", plain(lambda x, w, b, r: functional.linear(x, w, b) + r),
           lambda: (make(8192, 4096), make(1024, 4096), make(1024), make(8192, 1024)))
    yield ("linear_gelu_ragged", plain(lambda x, w, b: functional.gelu(functional.linear(x, w, b))),
           lambda: (make(1001, 1000), make(1003, 1000), make(1003)))
    yield "mm_square", plain(lambda a, b: a @ b), lambda: (make(8192, 8192), make(8192, 8192))
    yield "mm_skinny_decode", plain(lambda a, b: a @ b), lambda: (make(8, 4096), make(4096, 14336))
    yield "bmm", plain(lambda a, b: torch.bmm(a, b)), lambda: (make(64, 1024, 128), make(64, 128, 1024))
    heads = lambda: make(4, 32, 4096, 128)
    yield ("sdpa_causal", plain(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
           lambda: (heads(), heads(), heads()))
    normalised = lambda x, w, g, b, m, v: functional.batch_norm(functional.conv2d(x, w, padding=1), m, v, g, b)
    yield ("conv_bn_relu", plain(lambda *inputs: functional.relu(normalised(*inputs))),
           lambda: (make(64, 256, 56, 56), make(256, 256, 3, 3), make(256), make(256), make(256), make(256).abs()))
    layers = lambda: [torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024), torch.nn.LayerNorm(1024)]
    yield "mlp", lambda: torch.nn.Sequential(*layers()).to(torch.bfloat16).eval(), lambda: (make(8192, 1024),)
    yield from models.rows(torch)


def as_module(torch, function):
    """A module of the function, or of a class of modules; of a model's results, which come in a class of their own, only the first."""
    if isinstance(function, type):
        function = function()

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if isinstance(function, torch.nn.Module):
                self.inner = function

        def forward(self, *inputs):
            result = function(*inputs)
            return result if isinstance(result, torch.Tensor) or type(result) is tuple else result[0]

    return Wrapped().eval()


class TooLong(Exception):
    pass


def within(seconds, function):
    """function()'s result; TooLong where it takes more seconds."""
    def end(*_):
        raise TooLong()

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def compiled(torch, row, function, arguments, seconds, peer="inductor"):
    """The function, which torch.compile made, after its first call; None where that takes too long or fails, which the row then says."""
    begin = time.time()
    try:
        torch._dynamo.reset()
        within(seconds, lambda: (function(*arguments), torch.cuda.synchronize()))
        row[f"{peer}_compile_s"] = time.time() - begin
        return function
    except TooLong:
        row[peer] = f"more than {seconds:.0f} s"
    except Exception as error:
        row[peer] = str(error).splitlines()[0][:100]
    return None


def time_sides(options, row, sides, where, name, scratch):
    """All sides, twice in turn, the lesser median of each; `sides` are timed functions. False where toroid fails, which the row then says."""

    report = os.path.join(scratch, f"{name}.json")
    bench = [options.toroid, "bench", *where, "--mode", options.mode, "--seconds", "0.1", "--json", report]
    for turn in range(2):
        for key, time_ms in sides.items():
            took = time_ms()
            if took is not None:
                row[key] = min(took, row.get(key, took))
        code, text, wall = run(bench, os.path.join(options.out, name + ".txt"), 60 if options.mode == "default" else 180)
        if code != 0:
            row["error"] = text.strip().splitlines()[0][:200]
            return False
        with open(report) as file:
            measured = json.load(file)
        row["toroid_ms"] = min(measured["median_ms"], row.get("toroid_ms", measured["median_ms"]))
        row["cold_s" if turn == 0 else "warm_s"] = wall
        if turn == 0:
            row.update(compile_s=measured["compile_s"], kernels=measured["kernel_calls"], products=measured["library_calls"],
                       **{key: measured.get(key) for key in ("graph_nodes", "host_us", "one_by_one_ms", "one_by_one_host_us")})
    row["ratio"] = min(row[key] for key in sides if key in row) / row["toroid_ms"]
    row.update(peers.device_state())
    return True


def timed(function):
    """A function that times calls of this one, in ms, each from an emptied cache."""
    from triton.testing import do_bench

    return lambda: do_bench(function, warmup=25, rep=80, return_mode="median")


def further_sides(torch, options, row, name, arguments):
    """FlexAttention, JAX and the libraries. Where one of the first two fails, the row says so."""
    sides = {}
    function = written_attention.flex(torch, name, arguments) if "flex" in options.peers else None
    if function is not None:
        function = compiled(torch, row, function, arguments, options.inductor_seconds, "flex")
    if function is not None:
        sides["flex_ms"] = timed(lambda: function(*arguments))
    if "jax" in options.peers:
        def by_jax():
            try:
                return peers.jax_ms(name, arguments)
            except Exception as error:
                row["jax"] = str(error).splitlines()[0][:100]
                return None
        sides["jax_ms"] = by_jax
    if "libraries" in options.peers:
        sides["libraries_ms"] = lambda: options.libraries.ms(name)
    return sides


def results_of(options, row, where, out):
    """What `toroid run` writes, on the device; None where it fails, which the row then says."""
    from safetensors.torch import load_file

    begin = time.time()
    code, text, _ = run([options.toroid, "run", *where, "--mode", options.mode, "--outputs", out], None, 60)
    row["run_s"] = time.time() - begin
    if code == 0:
        return load_file(out, device="cuda")
    row["error"] = text.strip().splitlines()[0][:200]
    del row["ratio"]
    return None


def difference(got, expected):
    """The norm of the difference over that of what is expected."""
    return ((got.float().reshape(expected.shape) - expected.float()).norm() / expected.float().norm()).item()


def time_row(torch, options, name, make_module, make, scratch, floor_ms=None, compared=lambda arguments, found: found):
    """All sides' times, and how far toroid's results are from eager ones. `compared`: what of the results is, of a tuple."""
    from safetensors.torch import save_file

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    row = {"row": name} if floor_ms is None else {"row": name, "floor_ms": floor_ms}
    arguments = make()
    module = as_module(torch, make_module())
    save_file({f"in{i}": each.cpu().contiguous() for i, each in enumerate(arguments)}, path("in"))
    where = [path("pt2"), "--inputs", path("in"), "--device", options.device]
    with torch.no_grad():
        torch.export.save(torch.export.export(module, tuple(each.cpu() for each in arguments)), path("pt2"))
        module.cuda()
        expected = module(*arguments)
        sides = {}
        if "eager" in options.peers:
            sides["eager_ms"] = timed(lambda: module(*arguments))
        for peer, mode in (("inductor", "default"), ("max-autotune", "max-autotune-no-cudagraphs")):
            if peer in options.peers and options.inductor_seconds > 0:
                function = compiled(torch, row, torch.compile(module, mode=mode), arguments, options.inductor_seconds, peer)
                if function is not None:
                    sides[f"{peer}_ms"] = timed(lambda function=function: function(*arguments))
        sides.update(further_sides(torch, options, row, name, arguments))
        if not time_sides(options, row, sides, where, name, scratch):
            return row
    got = results_of(options, row, where, path("out"))
    if got is not None:
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = tuple(got[f"out{i}"].reshape(each.shape) for i, each in enumerate(expected))
        row["difference"] = max(map(difference, compared(arguments, found), compared(arguments, expected)))
    return row


def time_training(torch, options, name, make_module, make, scratch):
    """A training step's times, and how far toroid's change of the parameters is from the eager one."""
    from safetensors.torch import save_file

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    row = {"row": name}
    arguments = make()
    module = make_module()
    inputs = tuple(each.cpu() for each in arguments)
    save_file({f"in{i}": each.contiguous() for i, each in enumerate(inputs)}, path("in"))
    for kind in ("pt2", "state.pt2"):
        torch.export.save(training.export(torch, module, inputs, returns_state=kind != "pt2"), path(kind))
    module.cuda()
    given = ["--inputs", path("in"), "--device", options.device]
    old = [each.detach().clone() for each in module.parameters()]
    step = training.peer_step(torch, module, arguments, compile=False)
    step()
    changes = [new.detach().float() - before.float() for new, before in zip(module.parameters(), old)]
    sides = {"eager_ms": timed(step)}
    if options.inductor_seconds > 0:
        function = compiled(torch, row, training.peer_step(torch, module, arguments, compile=True), (), options.inductor_seconds)
        sides.update({"inductor_ms": timed(function)} if function is not None else {})
    if not time_sides(options, row, sides, [path("pt2"), *given], name, scratch):
        return row
    got = results_of(options, row, [path("state.pt2"), *given], path("out"))
    if got is not None:
        differences = [got[f"out{i + 1}"].float() - before.float() - change for i, (before, change) in enumerate(zip(old, changes))]
        norm = lambda list: sum(each.norm() ** 2 for each in list) ** 0.5
        row["difference"] = (norm(differences) / norm(changes)).item()
    return row


def table(results):
    number = lambda row, key, form: format(row[key], form) if isinstance(row.get(key), (int, float)) else "-"
    of_floor = lambda row: format(row["toroid_ms"] / row["floor_ms"], ".2f") if "floor_ms" in row else "-"
    lines = [f"{'row':<26}{'floor ms':>9}{'of it':>6}{'eager ms':>9}{'inductor':>9}{'autotune':>9}{'flex':>9}{'jax':>8}{'libs':>8}{'toroid':>9}{'ratio':>7}{'by one':>8}{'host us':>8}{'compile s':>10}"
             f"{'inductor s':>11}{'warm s':>7}{'difference':>11}"]
    for row in results:
        if "ratio" not in row:
            lines.append(f"{row['row']:<26} {row.get('error')}")
            continue
        lines.append(f"{row['row']:<26}{number(row, 'floor_ms', '.3f'):>9}{of_floor(row):>6}{number(row, 'eager_ms', '.3f'):>9}{number(row, 'inductor_ms', '.3f'):>9}"
                     f"{number(row, 'max-autotune_ms', '.3f'):>9}{number(row, 'flex_ms', '.3f'):>9}{number(row, 'jax_ms', '.3f'):>8}{number(row, 'libraries_ms', '.3f'):>8}{row['toroid_ms']:>9.3f}"
                     f"{row['ratio']:>7.2f}{number(row, 'one_by_one_ms', '.3f'):>8}{number(row, 'host_us', '.1f'):>8}"
                     f"{row['compile_s']:>10.1f}{number(row, 'inductor_compile_s', '.1f'):>11}{row['warm_s']:>7.1f}"
                     f"{row['difference']:>11.1e} {row.get('inductor', '')}")
    ratios = [row["ratio"] for row in results if "ratio" in row]
    if ratios:
        lines.append(f"ratio to the best peer, geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("conformance")
    parser.add_argument("out")
    parser.add_argument("--suites", default="models,control_flow,opinfo")
    parser.add_argument("--rows", default="all")
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    parser.add_argument("--inductor-seconds", type=float, default=60)
    parser.add_argument("--suite-seconds", type=float, default=200)
    parser.add_argument("--peers", default="eager,inductor")
    parser.add_argument("--mode", choices=("default", "max"), default="default")
    parser.add_argument("--device", choices=("cuda", "triton"), default="cuda")
    parser.add_argument("--every", default="1")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    for each in options.peers:
        if each not in peers.NAMES:
            parser.error(f"'{each}' is no peer; those are {', '.join(peers.NAMES)}")
    if "libraries" in options.peers:
        options.libraries = peers.Libraries()
        if options.libraries.missing:
            parser.error(f"libraries.cu could not be compiled: {options.libraries.missing}")
    summary = []
    for suite in filter(None, options.suites.split(",")):
        report = os.path.join(options.out, suite + ".json")
        command = [options.toroid, "conform", os.path.join(options.conformance, suite), "--device", options.device, "--jobs", options.jobs,
                   "--every", options.every, "--json", report]
        code, text, seconds = run(command, os.path.join(options.out, suite + ".txt"), options.suite_seconds, TOROID_CUDA_GRAPHS="first")
        summary.append(f"{suite:<12} {text.strip().splitlines()[-1] if text.strip() else code} in {seconds:.0f} s")
        print(summary[-1], flush=True)
    if options.rows != "none":
        import tempfile

        import torch

        scratch = tempfile.mkdtemp()
        wanted = None if options.rows == "all" else options.rows.replace("memory", ",".join(MEMORY_ROWS)).split(",")
        results = []
        cases = [(time_row, *each) for each in rows(torch)] + [(time_training, *each) for each in training.rows(torch)]
        if wanted:
            bandwidth = further_rows.copy_bytes_per_s(torch)
            summary.append(f"a large copy moves {bandwidth / 1e12:.2f} TB/s")
            further = [(time_row, name, lambda function=function: as_module(torch, function), *rest)
                       for name, function, *rest in further_rows.rows(torch, bandwidth)]
            cases = [each for each in cases + further if each[1] in wanted or ("further" in wanted and each in further)]
        for measure, name, make_module, make, *rest in cases:
            torch.manual_seed(0)
            try:
                results.append(measure(torch, options, name, make_module, make, scratch, *rest))
            except Exception as error:  # one row must not end the others
                results.append({"row": name, "error": str(error)[:200]})
            torch.cuda.empty_cache()
            for file in os.listdir(scratch):
                os.remove(os.path.join(scratch, file))
            print(json.dumps(results[-1]), flush=True)
        with open(os.path.join(options.out, "rows.json"), "w") as file:
            json.dump({"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": results}, file, indent=1)
        print("\n" + table(results))
    print("\n".join(summary))


if __name__ == "__main__":
    sys.exit(main())
