#!/usr/bin/env python3
"""Times steps of a GPU's programs by kernels of the program's own beside the same by cuDNN's graphs, and checks the latter.

usage: cudnn.py TOROID OUT_DIR [--rows conv_3x3_56,…] [--models resnet50_b64,…] [--seconds 100]

Each row is a convolution with batch norm, and a residual where it says so, and relu; a gradient of filters; or attention: as PyTorch
exports it. `toroid compile --mode max` measures the ways of its steps, each from a cache that has nothing of its operands, and writes
what it measured. The row's program is then run with cuDNN's way forced by a lock, and its results are compared with PyTorch's. With a NaN
among its inputs a relu must give a NaN. No row is begun after --seconds. --models: those of models.py, by default and by --mode max.
TOROID_CUDNN names the library, as PyTorch's package nvidia-cudnn has it, where it is not found by its name. Writes OUT_DIR/cudnn.json;
prints a table.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import models
from check import difference, run


def convolutions(torch):
    """Name, dtype, images, channels, filters, side, taps, stride, with a residual?"""
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    for name, dtype, c, k, side, taps, stride, residual in (
            ("1x1_64_256_56_residual", bf16, 64, 256, 56, 1, 1, True), ("3x3_64_56", bf16, 64, 64, 56, 3, 1, False),
            ("3x3_128_56_stride2", bf16, 128, 128, 56, 3, 2, False), ("1x1_128_512_28_residual", bf16, 128, 512, 28, 1, 1, True),
            ("3x3_128_28", bf16, 128, 128, 28, 3, 1, False), ("3x3_256_14", bf16, 256, 256, 14, 3, 1, False),
            ("1x1_1024_256_14", bf16, 1024, 256, 14, 1, 1, False), ("3x3_512_7", bf16, 512, 512, 7, 3, 1, False),
            ("1x1_512_2048_7_residual", bf16, 512, 2048, 7, 1, 1, True), ("3x3_256_56", bf16, 256, 256, 56, 3, 1, False),
            ("3x3_128_28_f16", f16, 128, 128, 28, 3, 1, False), ("3x3_64_56_f32", f32, 64, 64, 56, 3, 1, False)):
        yield f"conv_{name}", convolution(torch, dtype, c, k, side, taps, stride, residual)


def convolution(torch, dtype, c, k, side, taps, stride, residual):
    """The module and its arguments. A small convolution reads the result, so that has its channels next to each other."""
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Conv2d(c, k, taps, stride, taps // 2, bias=False), torch.nn.BatchNorm2d(k))
            self.next = torch.nn.Conv2d(k, 32, 1, bias=False)

        def forward(self, x, *more):
            y = self.body(x)
            return self.next(torch.relu(y + more[0] if more else y))

    def make():
        block = Block().to(dtype).to(memory_format=torch.channels_last).eval()
        image = lambda channels, size: (torch.rand(64, channels, size, size, device="cuda") * 2 - 1).to(dtype).to(
            memory_format=torch.channels_last)
        out = (side - 1) // stride + 1
        return block, (image(c, side),) + ((image(k, out),) if residual else ())
    return make


def gradients(torch):
    class Gradient(torch.nn.Module):
        def forward(self, gradient, x, w):
            return torch.ops.aten.convolution_backward(gradient, x, w, None, [1, 1], [w.shape[2] // 2] * 2, [1, 1], False, [0, 0], 1,
                                                       [False, True, False])[1]

    for c, k, side, taps in ((64, 64, 56, 3), (256, 256, 14, 3), (256, 64, 56, 1)):
        def make(c=c, k=k, side=side, taps=taps):
            image = lambda *sizes: (torch.rand(*sizes, device="cuda") * 2 - 1).bfloat16().to(memory_format=torch.channels_last)
            return Gradient(), (image(64, k, side, side), image(64, c, side, side), image(k, c, taps, taps))
        yield f"filters_{taps}x{taps}_{c}_{k}_{side}", make


def attentions(torch):
    class Attention(torch.nn.Module):
        def __init__(self, causal):
            super().__init__()
            self.causal = causal

        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1])

    for batch, heads, shared, length, width, causal, dtype in (
            (8, 12, 12, 1024, 64, True, torch.bfloat16), (32, 12, 12, 256, 64, False, torch.bfloat16),
            (64, 12, 12, 197, 64, False, torch.bfloat16), (4, 32, 8, 1024, 128, True, torch.bfloat16),
            (4, 16, 16, 4096, 128, False, torch.bfloat16), (4, 16, 16, 4096, 128, True, torch.bfloat16),
            (4, 16, 16, 4096, 64, False, torch.float16)):
        def make(batch=batch, heads=heads, shared=shared, length=length, width=width, causal=causal, dtype=dtype):
            some = lambda count: (torch.rand(batch, count, length, width, device="cuda") * 2 - 1).to(dtype)
            return Attention(causal), (some(heads), some(shared), some(shared))
        name = f"attention_{batch}x{heads}_{length}x{width}" + ("_causal" if causal else "") + ("_f16" if dtype == torch.float16 else "")
        yield name, make


def measured(log):
    """Of the steps that cuDNN may do: their name, ms of the step as it is, of the best other way and of cuDNN's, and what was chosen."""
    with open(log) as file:
        problems = json.load(file)["problems"]
    for problem in problems:
        ways = problem["choices"]
        if not any(way["name"] == "cudnn" for way in ways):
            continue
        ms = {way["name"]: 1e3 * way["median_s"] for way in ways if "median_s" in way}
        own = [name for name in (way["name"] for way in ways) if name != "cudnn" and name in ms]
        found = {"step": problem["problem"].split(";")[0], "chosen": problem["choice"],
                 "own_ms": min((ms[name] for name in own), default=None), "cudnn_ms": ms.get("cudnn")}
        if "cudnn" not in ms:
            found["cudnn"] = next(way for way in ways if way["name"] == "cudnn")
        yield found


def forced(lock, log, path):
    """A lock with cuDNN's way wherever there is one; how many."""
    with open(log) as file:
        hashes = {problem["problem"]: way["hash"] for problem in json.load(file)["problems"] for way in problem["choices"]
                  if way["name"] == "cudnn"}
    lines, count = [], 0
    with open(lock) as file:
        for line in file:
            problem = line.rsplit(" = ", 1)[0]
            if problem in hashes:
                line, count = f"{problem} = cudnn {hashes[problem]}\n", count + 1
            lines.append(line)
    with open(path, "w") as file:
        file.writelines(lines)
    return count


def results(options, where, lock, out):
    from safetensors.torch import load_file

    code, text, _ = run([options.toroid, "run", *where, "--lock", lock, "--outputs", out], None, 60)
    return load_file(out, device="cuda") if code == 0 else text.strip().splitlines()[0][:200]


def row(torch, options, name, make, scratch):
    from safetensors.torch import save_file

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    found = {"row": name}
    module, arguments = make()
    def save(inputs):
        save_file({f"in{i}": each.cpu().contiguous() for i, each in enumerate(inputs)}, path("in"))
    save(arguments)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, tuple(each.cpu() for each in arguments)), path("pt2"))
        module.cuda()
        expected = module(*arguments)
    begin = time.time()
    code, text, _ = run([options.toroid, "compile", path("pt2"), "-o", path("so"), "--device", "cuda", "--mode", "max", "--write-lock",
                         path("lock"), "--choices-log", path("log")], None, 90)
    found["compile_s"] = time.time() - begin
    if code != 0:
        return {**found, "error": text.strip()[:300]}
    found["steps"] = list(measured(path("log")))
    if forced(path("lock"), path("log"), path("forced")) == 0:
        return {**found, "error": "no step has cuDNN's way"}
    where = [path("pt2"), "--inputs", path("in"), "--device", "cuda"]
    got = results(options, where, path("forced"), path("out"))
    if isinstance(got, str):
        return {**found, "error": got}
    found["difference"] = difference(got["out0"], expected)
    if name.startswith("conv"):
        arguments[0][0, 0, 0, 0] = float("nan")
        save(arguments)
        got = results(options, where, path("forced"), path("out"))
        with torch.no_grad():
            expected = module(*arguments)
        found["keeps_nan"] = not isinstance(got, str) and bool((got["out0"].isnan() == expected.isnan()).all() and expected.isnan().any())
    return found


def model(torch, options, name, make_module, make, scratch):
    from safetensors.torch import save_file

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    arguments = make()
    module = make_module()
    save_file({f"in{i}": each.cpu().contiguous() for i, each in enumerate(arguments)}, path("in"))
    with torch.no_grad():
        torch.export.save(torch.export.export(module, tuple(each.cpu() for each in arguments)), path("pt2"))
    found = {"model": name}
    for mode in ("default", "max"):
        command = [options.toroid, "bench", path("pt2"), "--inputs", path("in"), "--device", "cuda", "--mode", mode, "--seconds", "1"]
        code, text, seconds = run(command, None, 120)
        found[mode] = [line.strip() for line in text.splitlines() if "ms a call" in line][:1] if code == 0 else text.strip()[:300]
        found[f"{mode}_s"] = seconds
    return found


def text_of(found):
    ms = lambda value: "-" if value is None else f"{value:.4f}"
    lines = []
    for step in found.get("steps", [{}]):
        ratio = step["own_ms"] / step["cudnn_ms"] if step.get("own_ms") and step.get("cudnn_ms") else None
        lines.append(f"{found['row']:36} own {ms(step.get('own_ms'))} cuDNN {ms(step.get('cudnn_ms'))} ratio {ms(ratio)} chosen "
                     f"{step.get('chosen')} difference {ms(found.get('difference'))} NaN {found.get('keeps_nan', '')} "
                     f"{json.dumps(step['cudnn'])[:200] if 'cudnn' in step else ''}{found.get('error', '')}")
    return "\n".join(lines)


def find_libraries():
    """Sets TOROID_CUDNN, unless it is set, to the library of Python's packages; what they have, as NVRTC, is then found by name."""
    folders = [folder for path in sys.path for folder in glob.glob(os.path.join(path, "nvidia", "*", "lib"))]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), *folders]))
    files = [file for folder in folders for file in glob.glob(os.path.join(folder, "libcudnn.so.9"))]
    if files:
        os.environ.setdefault("TOROID_CUDNN", files[0])


def main():
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--rows", default="")
    parser.add_argument("--models", default="resnet50_b64")
    parser.add_argument("--seconds", type=float, default=100)
    options = parser.parse_args()
    find_libraries()
    os.makedirs(options.out, exist_ok=True)
    scratch = tempfile.mkdtemp()
    print(subprocess.run([options.toroid, "doctor"], capture_output=True, text=True).stdout, flush=True)
    begin, found = time.time(), []
    cases = [*convolutions(torch), *attentions(torch), *gradients(torch)]
    for name, make in cases:
        if options.rows and name not in options.rows.split(","):
            continue
        if time.time() - begin > options.seconds:
            print(f"{name}: no time")
            continue
        torch.manual_seed(0)
        try:
            found.append(row(torch, options, name, make, scratch))
        except Exception as error:  # one row must not end the others
            found.append({"row": name, "error": repr(error)[:300]})
        print(text_of(found[-1]), flush=True)
        torch.cuda.empty_cache()
    for name, make_module, make in models.rows(torch):
        if name in options.models.split(","):
            found.append(model(torch, options, name, make_module, make, scratch))
            print(json.dumps(found[-1]), flush=True)
    with open(os.path.join(options.out, "cudnn.json"), "w") as file:
        json.dump({"device": torch.cuda.get_device_name(0), "rows": found}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
