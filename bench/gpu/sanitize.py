#!/usr/bin/env python3
"""Runs programs of all kinds of kernels under compute-sanitizer, and with random delays before their barriers.

usage: sanitize.py TOROID OUT_DIR [--programs linear_gelu,…] [--tools memcheck,racecheck,synccheck,delays] [--jobs 8] [--seconds 60]

TOROID: the command. Needs PyTorch with CUDA, which exports the programs and has the results to compare with. compute-sanitizer is looked
for in PATH and in /usr/local/cuda/bin. A program is compiled once, without it; each tool runs the library. `delays` compiles it again with
TOROID_CUDA_DELAYS=1: what a missing barrier spoils is then wrong in most runs, so it runs three times and must give the same bits as
without. Each run may take --seconds. Writes OUT_DIR/PROGRAM.TOOL.txt; prints a table, with what was found below each program; exit 1 where
anything was.
"""
import argparse
import concurrent.futures
import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile

import attention_gradient
import narrow_rows


def CacheStep(torch, make):
    """A step of decoding: attention loads its cache while the row is written in which old values are."""

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", make(2, 2, 1024, 64))
            self.register_buffer("values", make(2, 2, 1024, 64))

        def forward(self, q, k, v, place):
            self.keys.index_copy_(2, place, k * 8)
            self.values.index_copy_(2, place, v * 8)
            return torch.nn.functional.scaled_dot_product_attention(q * 4, self.keys, self.values, enable_gqa=True)

    return Step()


def programs(torch):
    """Name, function, inputs; small, but of several tiles in each dim, and ragged where kernels have edges of their own."""
    f = torch.nn.functional
    make = lambda *sizes, dtype=torch.bfloat16: torch.rand(sizes, device="cuda", dtype=torch.float32).mul(2).sub(1).to(dtype)
    image = lambda *sizes, **how: make(*sizes, **how).to(memory_format=torch.channels_last)
    indices = lambda most, *sizes: torch.randint(0, most, sizes, device="cuda")
    single = torch.float32
    yield "linear_gelu", lambda x, w, b: f.gelu(f.linear(x, w, b)), (make(1000, 520), make(776, 520), make(776))
    yield "linear_residual", lambda x, w, r: f.linear(x, w) + r, (make(2048, 1024), make(768, 1024), make(2048, 768))
    yield "one_row", f.linear, (make(1, 2048), make(1536, 2048))
    gated = lambda x, w, v: f.silu(f.linear(x, w)) * f.linear(x, v)
    for rows, depth, columns in ((520, 1024, 1544), (304, 520, 776), (12, 1024, 776), (8, 2048, 1552), (1, 2048, 1536)):
        yield f"dual_{rows}", gated, (make(rows, depth), make(columns, depth), make(columns, depth))
    yield "dual_of_rows", lambda x, w, v: f.silu(x @ w) * (x @ v), (make(512, 1024), make(1024, 1536), make(1024, 1536))
    yield "tiles_64", torch.mm, (make(64, 1024), make(1024, 1024))
    yield "bmm", torch.bmm, (make(6, 256, 128), make(6, 128, 384))
    yield "few_rows", torch.mm, (make(8, 2048), make(2048, 1024))
    for rows, depth, columns in ((8, 2048, 1040), (12, 8320, 256)):  # the left side in registers; parts of the depth
        yield f"stationary_{rows}", f.linear, (make(rows, depth), make(columns, depth))
    # By registers, packed and not; copied ahead; packed through a ring, where blocks have several tiles, of parts of the depth.
    for rows, depth, columns in (*((rows, 1280, 776) for rows in (1, 8, 16)), (8, 1280, 784), (8, 1024, 12680), (7, 4352, 2128),
                                 (16, 8448, 2128), (24, 2304, 776), (32, 4352, 784)):  # these two in tiles of all rows
        yield f"int4_{rows}_{columns}", narrow_rows.Int4Weights(columns, depth), (make(rows, depth),)
    for rows, depth, columns in ((8, 1280, 776), (1, 2048, 2128), (8, 2048, 2128), (16, 8320, 2128), (30, 4160, 2128)):
        yield f"int8_{rows}_{columns}", narrow_rows.Int8Weights(columns, depth), (make(rows, depth),)
    ends = torch.tensor([0, 130, 131, 500], dtype=torch.int32, device="cuda")
    yield "grouped", lambda x, w, n: torch._grouped_mm(x, w, offs=n), (make(500, 136), make(4, 136, 264), ends)
    yield "grouped_depth", lambda x, g, n: torch._grouped_mm(x.t(), g, offs=n), (make(500, 136), make(500, 264), ends)
    bits = lambda *sizes: make(*sizes, dtype=torch.float8_e4m3fn)
    scaled = lambda a, w, s: torch._scaled_mm(a, w.t(), s, s, out_dtype=torch.bfloat16)
    yield "float8", scaled, (bits(200, 144), bits(272, 144), torch.tensor(0.5, device="cuda"))
    yield "float8_e5m2", scaled, (make(200, 144, dtype=torch.float8_e5m2), bits(272, 144), torch.tensor(0.5, device="cuda"))
    yield "convolution", lambda x, w, b: f.relu(f.conv2d(x, w, b, padding=1)), (image(4, 64, 28, 28), image(72, 64, 3, 3), make(72))
    yield "convolution_1x1", lambda x, w, r: f.relu(f.conv2d(x, w) + r), (image(4, 64, 28, 28), image(256, 64, 1, 1), image(4, 256, 28, 28))
    yield "convolution_f32", lambda x, w: f.conv2d(x, w, stride=2), (image(2, 16, 21, 21, dtype=single), image(24, 16, 3, 3, dtype=single))
    yield "convolution_stem", lambda x, w: f.conv2d(x, w, stride=2, padding=3), (image(2, 3, 64, 64), image(64, 3, 7, 7))
    yield "depthwise", lambda x, w: f.conv2d(x, w, padding=1, groups=64), (image(2, 64, 20, 20), make(64, 1, 3, 3))
    attention = lambda **how: lambda q, k, v, *mask: f.scaled_dot_product_attention(q, k, v, *mask, **how)
    heads = lambda count, length, width: tuple(make(2, count, length, width) for _ in range(3))
    yield "attention_64", attention(), heads(3, 300, 64)
    yield "attention_64_causal", attention(is_causal=True), heads(3, 600, 64)
    yield "attention_128_causal", attention(is_causal=True), heads(2, 520, 128)
    q, k, v = heads(1, 2100, 64)
    k[:, :, 700::701] *= 60  # beyond what weights relative to earlier maxima may be
    yield "attention_64_peaks", attention(), (q, k, v)
    yield "attention_mask", attention(), (*heads(2, 257, 64), make(2, 2, 257, 257))
    for width in (96, 192, 256):
        yield f"attention_{width}", attention(is_causal=True), heads(2, 200, width)
    yield "attention_decode", attention(), (make(2, 4, 1, 128), make(2, 4, 1000, 128), make(2, 4, 1000, 128))
    # blocks of a tile's keys are a cluster
    clustered = (make(2, 8, 1, 64), make(2, 2, 1024, 64), make(2, 2, 1024, 64), make(2, 1, 1, 1024))
    yield "attention_cluster", attention(enable_gqa=True), clustered
    yield "attention_cache", CacheStep(torch, make), (make(2, 8, 1, 64), make(2, 2, 1, 64), make(2, 2, 1, 64), indices(1024, 1))
    # Both passes: of narrow rows, of wide ones on wgmma, on mma.sync, and of widths between.
    for width, length in ((64, 300), (128, 330), (256, 200), (40, 150), (96, 170), (168, 150)):
        yield f"attention_gradient_{width}", attention_gradient.gradient(torch, True), (*heads(2, length, width), make(2, 2, length, width))
    for width in (64, 128, 256):  # the first two by TMA
        operands = (*heads(2, 200, width), make(2, 2, 200, width), make(1, 2, 200, 200))
        yield f"attention_gradient_{width}_bias", attention_gradient.gradient(torch, False, lambda mask: mask), operands
    yield "softmax", lambda x: torch.softmax(x, -1), (make(300, 4096),)
    yield "layer_norm", lambda x, w, b: f.layer_norm(x, (1000,), w, b), (make(77, 1000), make(1000), make(1000))
    yield "long_rows", lambda x: torch.log_softmax(x, -1), (make(5, 50257, dtype=single),)
    yield "columns", lambda x: (x.sum(0), x.amax(0)), (make(2000, 776),)
    yield "whole_sum", lambda x: (x * x).sum(), (make(1 << 20, dtype=single),)
    yield "transpose", lambda x, y: x.t() + y, (make(300, 520), make(520, 300))
    yield "scatter", lambda x, i, y: x.index_add(0, i, y), (make(50, 64, dtype=single), indices(50, 300), make(300, 64, dtype=single))
    yield "gather", lambda w, i: f.embedding(i, w) * 2, (make(100, 64), indices(100, 7, 33))
    yield "scan", lambda x: torch.cumsum(x, -1), (make(20, 3000, dtype=single),)
    yield "sort", lambda x: torch.sort(x, -1)[0], (make(20, 1500, dtype=single),)
    yield "topk", lambda x: torch.topk(x, 10)[0], (make(20, 1500, dtype=single),)


def run(command, log, seconds, **environment):
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds,
                                env={**os.environ, **environment})
        code, text = result.returncode, result.stdout
    except subprocess.TimeoutExpired as error:
        code, text = 124, (error.stdout or b"").decode(errors="replace") + f"\nno end within {seconds:.0f} s"
    with open(log, "w") as file:
        file.write(" ".join(command) + "\n" + text)
    return code, text


def difference(torch, path, expected):
    from safetensors.torch import load_file

    got = load_file(path)
    worst = 0.0
    for i, each in enumerate(expected):
        its = got[f"out{i}"].double().reshape(each.shape)
        worst = max(worst, ((its - each.double()).norm() / each.double().norm().clamp_min(1e-30)).item())
    return worst


def findings(text):
    """What a tool says that it found: the first lines of each kind."""
    lines = [line[10:].strip() for line in text.splitlines() if line.startswith("=========")]
    starts = re.compile(r"(Invalid|Error|Warning|Barrier|Race|Misaligned|Uninit|Program hit|Divergent|Missing|Potential)", re.I)
    return [line for line in lines if starts.match(line) and "SUMMARY" not in line]


def check(torch, options, sanitizer, scratch, name, inputs, expected):
    """Of each tool what was wrong; an empty text for nothing."""
    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    log = lambda tool: os.path.join(options.out, f"{name}.{tool}.txt")
    result = {}
    code, text = run([options.toroid, "compile", path("pt2"), "--device", "cuda", "-o", path("so")], log("compile"), options.seconds)
    if code != 0:
        return {"compile": text.strip().splitlines()[-1]}

    def call(library, outputs, tool, before=(), **environment):
        command = [*before, options.toroid, "run", library, "--inputs", inputs, "--outputs", outputs]
        return run(command, log(tool), options.seconds, **environment)

    code, text = call(path("so"), path("plain"), "run")
    if code != 0:
        return {"run": text.strip().splitlines()[0]}
    wrong = difference(torch, path("plain"), expected)
    result["run"] = "" if wrong < 2e-2 else f"differs by {wrong:.1e}"
    for tool in options.tools.split(","):
        if tool == "delays":
            code, text = run([options.toroid, "compile", path("pt2"), "--device", "cuda", "-o", path("delayed.so")], log("compile-delays"),
                             options.seconds, TOROID_CUDA_DELAYS="1")
            wrong = "" if code == 0 else text.strip().splitlines()[0]
            for time in range(3):
                if wrong:
                    break
                code, text = call(path("delayed.so"), path("late"), "delays")
                if code != 0:
                    wrong = text.strip().splitlines()[-1]
                elif open(path("late"), "rb").read() != open(path("plain"), "rb").read():
                    wrong = "other bits than without delays"
            result[tool] = wrong
            continue
        # A kernel is looked for in each of the program's modules: what the driver answers is no finding.
        extra = ["--report-api-errors", "no"] if tool == "memcheck" else []
        code, text = call(path("so"), path(tool), tool, [sanitizer, "--tool", tool, "--error-exitcode", "9", *extra])
        found = findings(text)
        result[tool] = "" if code == 0 else found[0] if found else f"exit {code}"
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--programs", default="all")
    parser.add_argument("--tools", default="memcheck,racecheck,synccheck,delays")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    import torch
    from safetensors.torch import save_file

    class Wrapped(torch.nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *inputs):
            return self.function(*inputs)

    scratch = tempfile.mkdtemp()
    os.makedirs(options.out, exist_ok=True)
    wanted = None if options.programs == "all" else options.programs.split(",")
    has_found = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, torch.no_grad():
        running = {}
        for name, function, inputs in programs(torch):
            if wanted and name not in wanted:
                continue
            torch.manual_seed(0)
            module = Wrapped(function)
            expected = copy.deepcopy(module).cuda()(*inputs)  # a module may write to its buffers
            module.cpu()
            expected = [each.cpu() for each in (expected if isinstance(expected, tuple) else (expected,))]
            on_host = tuple(each.cpu() for each in inputs)
            file = os.path.join(scratch, f"{name}.in")
            save_file({f"in{i}": each.contiguous() for i, each in enumerate(on_host)}, file)
            torch.export.save(torch.export.export(module, on_host), os.path.join(scratch, f"{name}.pt2"))
            running[pool.submit(check, torch, options, sanitizer, scratch, name, file, expected)] = name
        tools = ["run", *options.tools.split(",")]
        print(f"{'program':<24}" + "".join(f"{tool:>11}" for tool in tools), flush=True)
        for future in concurrent.futures.as_completed(running):
            name, result = running[future], future.result()
            print(f"{name:<24}" + "".join(f"{'-' if tool not in result else 'found' if result[tool] else 'nothing':>11}" for tool in tools))
            for tool, wrong in result.items():
                has_found = has_found or bool(wrong)
                print(f"  {tool}: {wrong}\n" if wrong else "", end="", flush=True)
    shutil.rmtree(scratch)
    return 1 if has_found else 0


if __name__ == "__main__":
    sys.exit(main())
