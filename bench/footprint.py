#!/usr/bin/env python3
"""What it takes to ship and start a model: toroid's packages beside ONNX Runtime, ExecuTorch (XNNPACK) and AOTInductor.

    python bench/footprint.py build/toroid FOLDER [--models tiny,torchvision:resnet18,hf:bert-base] [--sides toroid,onnxruntime,…]

needs torch, torchvision, transformers, onnxscript, numpy, onnxruntime and executorch (with torchao) in the Python that runs it, by hand in a
virtual environment of its own. The files are made in FOLDER once. Each side then runs each model in a new Python process with one thread, float32,
and prints a table in Markdown:

    file       of the model, weights included
    libraries  that the process maps beyond Python's and numpy's: their number and size on disk
    start      loading the libraries ("import"), the model, and the first result
    memory     the most that is resident, beyond the Python process with numpy and the inputs
    a call     median; of the model `tiny`, which negates four numbers, it is what a call from Python costs with the side's own binding
               (bench/call_overhead.c: toroid from C)
"""

import argparse
import ctypes
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


# ---- one side in a process of its own ----------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class ToroidApi(ctypes.Structure):
    """include/toroid/toroid.h, as far as it is called here."""

    _fields_ = [("size", ctypes.c_size_t), ("version", ctypes.c_uint32), ("description", ctypes.c_char_p), ("model_open", ctypes.c_void_p)]
    _fields_ += [(f"unused{i}", ctypes.c_void_p) for i in range(13)] + [("context_create", ctypes.c_void_p), ("context_destroy", ctypes.c_void_p)]
    _fields_ += [("context_run", ctypes.c_void_p)]


class Toroid:
    def __init__(self, path):
        library = ctypes.CDLL(path)
        library.toroid_api.restype = ctypes.POINTER(ToroidApi)
        api = library.toroid_api(1).contents
        # Struct sizes, then `threads`: of ToroidModelOptions and of ToroidContextOptions.
        self.options = (ctypes.c_int64 * 3)(24, 0, 1 << 32)
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        opened = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_size_t)(api.model_open)
        message = ctypes.create_string_buffer(1024)
        if opened(None, ctypes.addressof(self.options), ctypes.addressof(self.model), ctypes.addressof(message), 1024):
            sys.exit(message.value.decode())
        created = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_size_t)(api.context_create)
        if created(self.model, None, ctypes.addressof(self.context), ctypes.addressof(message), 1024):
            sys.exit(message.value.decode())
        self.context_run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32,
                                            ctypes.c_void_p)(api.context_run)  # fmt: skip

    def prepare(self, arrays, numpy):
        self.arrays = arrays
        self.shapes = [(ctypes.c_int64 * max(x.ndim, 1))(*x.shape) for x in arrays]
        self.tensors = [
            DLTensor(x.ctypes.data, 1, 0, x.ndim, 2 if x.dtype.kind == "f" else 0, 8 * x.itemsize, 1, shape, None, 0)
            for x, shape in zip(arrays, self.shapes)
        ]
        self.inputs = (ctypes.c_void_p * len(arrays))(*[ctypes.addressof(x) for x in self.tensors])
        self.outputs = (ctypes.c_void_p * 1)()
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.size = ctypes.sizeof(DLTensor)

    def run(self):
        if self.context_run(self.context, self.inputs, len(self.arrays), self.outputs, 1, None):
            sys.exit("the run failed")
        # The deleter lies behind the tensor and manager_ctx.
        self.deleter(ctypes.c_void_p.from_address(self.outputs[0] + self.size + 8).value)(self.outputs[0])

    def result(self, numpy):
        if self.context_run(self.context, self.inputs, len(self.arrays), self.outputs, 1, None):
            sys.exit("the run failed")
        tensor = DLTensor.from_address(self.outputs[0])
        shape = [tensor.shape[d] for d in range(tensor.ndim)]
        data = (ctypes.c_float * int(numpy.prod(shape))).from_address(tensor.data)
        return numpy.ctypeslib.as_array(data).reshape(shape).copy()


class OnnxRuntime:
    def __init__(self, path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def prepare(self, arrays, numpy):
        self.inputs = {each.name: x for each, x in zip(self.session.get_inputs(), arrays)}

    def run(self):
        return self.session.run(None, self.inputs)

    def result(self, numpy):
        return self.run()[0]


class ExecuTorch:
    def __init__(self, path):
        from executorch.runtime import Runtime

        self.method = Runtime.get().load_program(path).load_method("forward")

    def prepare(self, arrays, numpy):
        import torch

        torch.set_num_threads(1)
        self.inputs = [torch.from_numpy(x) for x in arrays]

    def run(self):
        return self.method.execute(self.inputs)

    def result(self, numpy):
        return self.run()[0].numpy()


class AotInductor:
    def __init__(self, path):
        import torch

        torch.set_num_threads(1)
        self.model = torch._inductor.aoti_load_package(path)

    def prepare(self, arrays, numpy):
        import torch

        self.inputs = [torch.from_numpy(x) for x in arrays]
        self.no_grad = torch.no_grad()
        self.no_grad.__enter__()

    def run(self):
        return self.model(*self.inputs)

    def result(self, numpy):
        return self.run().numpy()


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


def measure(side, base, seconds):
    import numpy

    stored = numpy.load(base.with_suffix(".npz"))
    arrays = [stored[f"in{i}"] for i in range(len(stored.files) - 1)]
    path = str(base.with_name(base.name + SUFFIXES[side]))
    before, memory = mapped_libraries(), status_kib("VmRSS")
    begin = time.perf_counter()
    if side == "onnxruntime":
        import onnxruntime  # noqa: F401
    elif side == "executorch":
        import executorch.runtime  # noqa: F401
    elif side == "aotinductor":
        import torch  # noqa: F401
        import torch._inductor  # noqa: F401
    imported = time.perf_counter()
    model = {"toroid": Toroid, "onnxruntime": OnnxRuntime, "executorch": ExecuTorch, "aotinductor": AotInductor}[side](path)
    loaded = time.perf_counter()
    model.prepare(arrays, numpy)
    prepared = time.perf_counter()
    model.run()
    first = time.perf_counter()
    result, expected = model.result(numpy), stored["expected"]
    error = float(numpy.abs(result - expected).max() / max(numpy.abs(expected).max(), 1e-9))
    if error > 1e-3:
        sys.exit(f"{side} gives other results: {error}")
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        model.run()
        times.append(time.perf_counter() - start)
    libraries = mapped_libraries() - before - {os.path.realpath(path)}
    print(json.dumps({
        "file_mb": os.path.getsize(path) / 1e6,
        "libraries": len(libraries),
        "libraries_mb": sum(os.path.getsize(each) for each in libraries) / 1e6,
        "import_ms": (imported - begin) * 1e3,
        "load_ms": (loaded - imported) * 1e3,
        "first_ms": (first - prepared) * 1e3,
        "memory_mb": (status_kib("VmHWM") - memory) / 1e3,
        "call_us": sorted(times)[len(times) // 2] * 1e6,
    }))  # fmt: skip


# ---- the table ---------------------------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toroid")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="tiny,torchvision:resnet18,hf:bert-base")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only-make", action="store_true", help="make the files, and measure nothing")
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    base = lambda name: options.folder.resolve() / name.replace(":", "_").replace("-", "_")
    if options.one:
        return measure(options.one[0], base(options.one[1]), options.seconds)
    options.folder.mkdir(parents=True, exist_ok=True)
    names, sides = options.models.split(","), options.sides.split(",")
    for name in names:
        make(name, options.toroid, base(name), sides)
    if options.only_make:
        return
    print("| model | side | file, MB | libraries | import, ms | load, ms | first result, ms | memory, MB | a call, µs |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        for side in sides:
            command = [sys.executable, __file__, options.toroid, options.folder, "--one", side, name, "--seconds", str(options.seconds)]
            rows = []
            for _ in range(3):  # the first one fills the system's cache of files; of the others the quicker
                done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
                if done.returncode != 0:
                    print(f"| {name} | {side} | {done.stderr.strip().splitlines()[-1]} |")
                    break
                rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
            else:
                row = min(rows[1:], key=lambda each: each["import_ms"] + each["load_ms"] + each["first_ms"])
                print(f"| {name} | {side} | {row['file_mb']:.1f} | {row['libraries']}, {row['libraries_mb']:.0f} MB | {row['import_ms']:.1f} "
                      f"| {row['load_ms']:.1f} | {row['first_ms']:.1f} | {row['memory_mb']:.0f} | {row['call_us']:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
