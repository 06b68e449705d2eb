#!/usr/bin/env python3
"""What it takes to ship and start a model: toroid's packages beside ONNX Runtime, ExecuTorch (XNNPACK) and AOTInductor.

    python bench/footprint.py build/toroid FOLDER [--models tiny,torchvision:resnet18,hf:bert-base] [--sides toroid,onnxruntime,…]

needs torch, torchvision, transformers, onnxscript, numpy, onnxruntime and executorch (with torchao) in the Python that runs it, by hand in a
virtual environment of its own, and g++. The files are made in FOLDER once, float32. Each side then runs each model in processes of their own,
with the threads that it takes by itself, and a table in Markdown is printed:

    file       of the model, weights included
    libraries  that the process maps for it beyond the C library's: their number and size on disk
    load       of the model
    process    one that starts, loads the model, runs it once and ends; the system has the files in memory
    memory     the most that is resident in a process
    a call     median; only of the model `tiny`, which negates four numbers, so that it is what a call costs (bench/peers times networks)

toroid is called from C, ExecuTorch and AOTInductor from C++ (bench/footprint.cpp), ONNX Runtime, whose package brings no headers, from Python:
its figures are those beyond a Python process with numpy, and a call has the binding's cost.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

SIDES = ["toroid", "onnxruntime", "executorch", "aotinductor"]
SUFFIXES = {"toroid": ".so", "onnxruntime": ".onnx", "executorch": ".pte", "aotinductor": ".aoti.pt2"}


# ---- making the files --------------------------------------------------------------------------------------------------------------------


def module_and_inputs(name):
    import torch

    if name == "tiny":

        class Tiny(torch.nn.Module):
            def forward(self, x):
                return -x

        return Tiny().eval(), (torch.randn(4),)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from side_by_side import models

    return models.build_model(name, 1)


def make(name, toroid, base, sides):
    import torch

    paths = {side: base.with_name(base.name + SUFFIXES[side]) for side in sides}
    if all(path.exists() for path in paths.values()) and base.with_suffix(".npz").exists():
        return
    import numpy

    module, inputs = module_and_inputs(name)
    with torch.no_grad():
        program = torch.export.export(module, inputs, strict=False)
        numpy.savez(base.with_suffix(".npz"), expected=module(*inputs).numpy(), **{f"in{i}": x.numpy() for i, x in enumerate(inputs)})
    program.example_inputs = None if "toroid" in sides else program.example_inputs
    torch.export.save(program, base.with_suffix(".pt2"))
    if "toroid" in sides:
        subprocess.run([toroid, "compile", base.with_suffix(".pt2"), "-o", paths["toroid"]], check=True, stderr=subprocess.DEVNULL)
    if "onnxruntime" in sides:
        torch.onnx.export(torch.export.load(base.with_suffix(".pt2")), inputs, paths["onnxruntime"], dynamo=True, external_data=False, verbose=False)
    if "executorch" in sides:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        exported = torch.export.export(module, inputs, strict=False)
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        paths["executorch"].write_bytes(lowered.buffer)
    if "aotinductor" in sides:
        with torch.no_grad():
            exported = torch.export.export(module, inputs, strict=False)
            torch._inductor.aoti_compile_and_package(exported, package_path=str(paths["aotinductor"]))


# ---- the sides ---------------------------------------------------------------------------------------------------------------------------


def build_runner(side, folder):
    """bench/footprint.cpp for this side, in the folder."""
    runner = folder / f"side_{side}"
    source = pathlib.Path(__file__).with_suffix(".cpp")
    if runner.exists() and runner.stat().st_mtime > source.stat().st_mtime:
        return runner
    if side == "toroid":
        flags, libraries = ["-I", source.parent.parent / "include"], ["-ldl", "-static-libstdc++", "-static-libgcc"]  # it needs neither
    elif side == "executorch":
        import executorch

        root = pathlib.Path(executorch.__path__[0])
        flags = ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-I", root / "include", "-I", root / "include/executorch/runtime/core/portable_type/c10"]
        libraries = ["-Wl,--no-as-needed", "-lexecutorch", "-lexecutorch_backend_xnnpack", "-lexecutorch_kernels_optimized", "-lexecutorch_threadpool"]
        libraries += [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib"]
    else:
        import torch

        root = pathlib.Path(torch.__path__[0])
        flags = ["-I", root / "include", "-I", root / "include/torch/csrc/api/include"]
        libraries = [f"-L{root}/lib", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root}/lib"]
    subprocess.run(["g++", "-std=c++20", "-O2", "-w", f"-D{side.upper()}", *flags, source, "-o", runner, *libraries], check=True)
    return runner


def run_in_cpp(side, base, seconds, folder):
    import numpy

    stored = numpy.load(base.with_suffix(".npz"))
    path = base.with_name(base.name + SUFFIXES[side])
    inputs = []
    for i in range(len(stored.files) - 1):
        data = stored[f"in{i}"]
        file = base.with_name(f"{base.name}.in{i}")
        data.tofile(file)
        inputs.append(f"{'f32' if data.dtype.kind == 'f' else 'i64'}:{'x'.join(map(str, data.shape))}={file}")
    runner = build_runner(side, folder)
    begin = time.perf_counter()
    subprocess.run([runner, path, "0", *inputs], check=True, capture_output=True)
    process = time.perf_counter() - begin
    lines = subprocess.run([runner, path, str(seconds), *inputs], check=True, capture_output=True, text=True).stdout.splitlines()
    check(side, numpy.fromfile(f"{path}.result", dtype=numpy.float32), stored["expected"], numpy)
    return {**json.loads(lines[0]), "process_ms": process * 1e3, "libraries": {os.path.realpath(each) for each in lines[1:]}}


def run_onnxruntime(base, seconds):
    """In this process, which is a new one."""
    import numpy

    stored = numpy.load(base.with_suffix(".npz"))
    arrays = [stored[f"in{i}"] for i in range(len(stored.files) - 1)]
    before, memory = mapped_libraries(), status_kib("VmRSS")
    begin = time.perf_counter()
    import onnxruntime

    imported = time.perf_counter()
    session = onnxruntime.InferenceSession(str(base.with_name(base.name + SUFFIXES["onnxruntime"])), providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    inputs = {each.name: x for each, x in zip(session.get_inputs(), arrays)}
    result = session.run(None, inputs)[0]
    first = time.perf_counter()
    check("onnxruntime", result.reshape(-1), stored["expected"], numpy)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - start)
    print(json.dumps({
        "load_ms": (loaded - imported) * 1e3,
        "first_ms": (first - loaded) * 1e3,
        "process_ms": (first - begin) * 1e3,
        "memory_mb": (status_kib("VmHWM") - memory) / 1e3,
        "call_us": sorted(times)[len(times) // 2] * 1e6,
        "libraries": sorted(mapped_libraries() - before),
    }))  # fmt: skip


def check(side, result, expected, numpy):
    error = float(numpy.abs(result - expected.reshape(-1)).max() / max(numpy.abs(expected).max(), 1e-9))
    if error > 1e-3:
        sys.exit(f"{side} gives other results: {error}")


def status_kib(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])


def mapped_libraries():
    found = set()
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and ".so" in fields[5] and os.path.exists(fields[5]):
            found.add(os.path.realpath(fields[5]))
    return found


# ---- the table ---------------------------------------------------------------------------------------------------------------------------


def measure(side, name, options):
    base = options.folder / stem(name)
    if side != "onnxruntime":
        return run_in_cpp(side, base, options.seconds, options.folder)
    command = [sys.executable, __file__, options.toroid, options.folder, "--onnxruntime", name, "--seconds", str(options.seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1])


def stem(name):
    return name.replace(":", "_").replace("-", "_")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toroid")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="tiny,torchvision:resnet18,hf:bert-base")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only-make", action="store_true", help="make the files, and measure nothing")
    parser.add_argument("--onnxruntime", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    if options.onnxruntime:
        return run_onnxruntime(options.folder / stem(options.onnxruntime), options.seconds)
    options.folder.mkdir(parents=True, exist_ok=True)
    names, sides = options.models.split(","), options.sides.split(",")
    for name in names:
        make(name, options.toroid, options.folder / stem(name), sides)
    for side in sides:
        if side != "onnxruntime":
            build_runner(side, options.folder)
    if options.only_make:
        return
    system = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    print("| model | side | file, MB | libraries | load, ms | first result, ms | process, ms | memory, MB | a call, µs |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        for side in sides:
            path = options.folder / (stem(name) + SUFFIXES[side])
            rows = [measure(side, name, options) for _ in range(3)][1:]  # the first one fills the system's cache of files
            row = {key: min(each[key] for each in rows) for key in rows[0] if key != "libraries"}
            libraries = [each for each in rows[0]["libraries"] if each != str(path) and os.path.exists(each) and os.path.basename(each) not in system]
            size = sum(os.path.getsize(each) for each in libraries) / 1e6
            print(f"| {name} | {side} | {path.stat().st_size / 1e6:.1f} | {len(libraries)}, {size:.0f} MB | {row['load_ms']:.1f} | {row['first_ms']:.1f} "
                  f"| {row['process_ms']:.0f} | {row['memory_mb']:.0f} | {row['call_us'] if name == 'tiny' else float('nan'):.1f} |".replace("nan", ""), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
