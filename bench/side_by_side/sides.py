"""The sides of the comparison. A side is set up with a program and its inputs, tells how long that took in seconds (`setup_s`),
gives its results (`outputs`) and the median time of its calls for so many seconds (`median_ms`).

All get the same number of threads, and compute in float32 where the program does: none may round to bfloat16 or int8 behind its back.
"""

import copy
import json
import os
import pathlib
import statistics
import subprocess
import time

import torch
from torch.utils import _pytree as pytree

from .exports import load_numbered
from .held import without_library

# The environment of every process that is timed. Else glibc returns large outputs to the system after each call, and the next call
# of PyTorch spends its time on page faults.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**31), "MALLOC_TRIM_THRESHOLD_": str(2**31)}


def time_calls(call, seconds):
    """Latencies in ms of calls for so many seconds, at least three, after two to warm up."""
    call()
    call()
    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(latencies) < 3:
        start = time.perf_counter()
        call()
        latencies.append((time.perf_counter() - start) * 1e3)
    return latencies


class InProcess:
    """A side whose calls are made in this process; `call` gives what the side's library gives."""

    def median_ms(self, seconds):
        return statistics.median(time_calls(self.call, seconds))

    def outputs(self):
        return [torch.as_tensor(value) for value in pytree.tree_leaves(self.call())]


class Called(InProcess):
    """A function of the inputs."""

    def __init__(self, function, args):
        start = time.perf_counter()
        self.call = lambda: function(*args)
        self.call()
        self.setup_s = time.perf_counter() - start


def module_of(export, threads):
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return torch.export.load(export.pt2).module(check_guards=False)


class Eager(Called):
    """PyTorch as it comes."""

    def __init__(self, export, threads):
        super().__init__(module_of(export, threads), export.load_inputs())


class Compiled(Called):
    """torch.compile. Its first call is cold once: then what it compiled, and how long that took, are kept beside the export."""

    freezing = False

    def __init__(self, export, threads):
        held = f".{os.environ['HELD_TO']}" if "HELD_TO" in os.environ else ""
        kept = export.made.with_suffix("").with_suffix("." + type(self).__name__.lower() + held)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(kept)
        import torch._inductor.config as inductor

        inductor.freezing = self.freezing
        super().__init__(torch.compile(module_of(export, threads)), export.load_inputs())
        first_call = kept / f"first_call_s.{threads}"
        if not first_call.exists():
            first_call.write_text(str(self.setup_s))
        self.setup_s = float(first_call.read_text())


class Frozen(Compiled):
    """torch.compile with the weights as constants (freezing): folds normalisations, packs weights."""

    freezing = True


def onnx_for(export, computes_bf16):
    """The file that ONNX Runtime and OpenVINO read; of a model in bfloat16 the one in float32, where a side rounds by itself."""
    if export.numbers() == "bf16":
        if not computes_bf16:
            raise RuntimeError("has no kernels in bfloat16")
        export = export.full
    require_onnx(export)
    return export


def require_onnx(export):
    if not export.onnx.exists():
        raise RuntimeError(export.onnx_error.read_text() if export.onnx_error.exists() else f"there is no {export.onnx}")


class OnnxRuntime(InProcess):
    def __init__(self, export, threads, profile=False):
        import onnxruntime

        export = onnx_for(export, computes_bf16=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.enable_profiling = profile
        options.log_severity_level = 3  # errors alone
        if profile:
            options.profile_file_prefix = str(export.made.with_suffix(""))
        start = time.perf_counter()
        self.session = onnxruntime.InferenceSession(str(export.onnx), options, providers=["CPUExecutionProvider"])
        binding = self.session.io_binding()
        for declared, value in zip(self.session.get_inputs(), export.load_inputs(), strict=True):
            binding.bind_ortvalue_input(declared.name, onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy()))
        for declared in self.session.get_outputs():
            binding.bind_output(declared.name)
        self.binding = binding
        self.call()
        self.setup_s = time.perf_counter() - start

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        self.call()
        return [torch.from_numpy(value.copy()) for value in self.binding.copy_outputs_to_cpu()]


class OpenVino(InProcess):
    def __init__(self, export, threads, profile=False, streams=1):
        import openvino

        numbers, export = export.numbers(), onnx_for(export, computes_bf16=True)
        if numbers == "bf16" and "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise RuntimeError("rounds to bfloat16 only on a machine with its instructions")
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": streams,
            "PERFORMANCE_HINT": "LATENCY" if streams == 1 else "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": "bf16" if numbers == "bf16" else "f32",
            "PERF_COUNT": profile,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,  # else inputs of layers with weights of few bits are rounded to int8, 32 at a time
        }
        start = time.perf_counter()
        self.model = openvino.Core().compile_model(str(export.onnx), "CPU", options)
        self.arrays = [value.numpy() for value in export.load_inputs()]
        self.count = len(self.model.outputs)
        self.request = self.new_request()
        self.call()
        self.setup_s = time.perf_counter() - start

    def new_request(self):
        import openvino

        request = self.model.create_infer_request()
        for i, array in enumerate(self.arrays):
            request.set_input_tensor(i, openvino.Tensor(array, shared_memory=True))
        return request

    def beside(self, count):
        """So many requests of this model, this one first."""
        others = [copy.copy(self) for _ in range(count - 1)]
        for other in others:
            other.request = self.new_request()
        return [self, *others]

    def call(self):
        self.request.infer()

    def outputs(self):
        self.call()
        return [torch.from_numpy(self.request.get_output_tensor(i).data.copy()) for i in range(self.count)]


class Toroid:
    """`toroid bench`, a process for each measurement, with a cache of its own: compiles cold once, then loads what it compiled."""

    def __init__(self, program, model, inputs, threads, scratch):
        self.program, self.model, self.inputs, self.threads = program, model, inputs, threads
        self.scratch = pathlib.Path(scratch)
        self.environment = {**without_library(), "TOROID_CACHE_DIR": str(self.scratch / "cache")}
        self.setup_s = self.bench(0.01)["compile_s"]

    def run(self, *command):
        done = subprocess.run([self.program, *map(str, command)], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"toroid {command[0]}: {(done.stderr or done.stdout).strip()}")

    def bench(self, seconds, *flags):
        """What `toroid bench --json` writes."""
        report = self.scratch / "report.json"
        same = ("--inputs", self.inputs, "--threads", self.threads)
        self.run("bench", self.model, *same, "--seconds", seconds, "--json", report, *flags)
        return json.loads(report.read_text())

    def median_ms(self, seconds):
        return self.bench(seconds)["median_ms"]

    def outputs(self):
        file = self.scratch / "out.safetensors"
        self.run("run", self.model, "--inputs", self.inputs, "--outputs", file)
        return load_numbered(file, "out")


PEERS = {"eager": Eager, "compile": Compiled, "frozen": Frozen, "onnxruntime": OnnxRuntime, "openvino": OpenVino}

TOLERANCE = 1e-4  # of the largest value: the rows sum up to four million numbers
HALF_TOLERANCE = 2e-2  # for results in float16 and bfloat16
QUANTISED_TOLERANCE = 1e-1  # sides quantise each in their own way; how well, the report tells


def error_of(found, full):
    """Root mean square of the difference from the float32 model's results, relative to theirs."""
    difference = sum((got.double() - want.double()).square().sum() for got, want in zip(found, full))
    return (difference / sum(want.double().square().sum() for want in full)).sqrt().item()


def check_export(found, export):
    """Raises unless the results are eager's, as well as the numbers allow. Gives error_of them, None for a model in float32."""
    check_results(found, export.load_outputs(), QUANTISED_TOLERANCE if export.full else 0)
    return error_of(found, export.full.load_outputs()) if export.full else None


def check_results(found, expected, least_tolerance=0):
    """Raises unless the results are eager's."""
    if len(found) != len(expected):
        raise RuntimeError(f"gives {len(found)} results, eager {len(expected)}")
    for i, (got, want) in enumerate(zip(found, expected)):
        if got.shape != want.shape:
            raise RuntimeError(f"out{i} has shape {list(got.shape)}, eager's has {list(want.shape)}")
        tolerance = max(least_tolerance, HALF_TOLERANCE if want.dtype in (torch.float16, torch.bfloat16) else TOLERANCE)
        got, want = got.double(), want.double()
        error = (got - want).abs().max().item() / max(want.abs().max().item(), 1e-30)
        if not error <= tolerance:
            raise RuntimeError(f"out{i} differs from eager's: relative error {error:.1e}")
