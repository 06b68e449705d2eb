"""Where the time goes inside one program: the steps of ONNX Runtime, of OpenVINO and of toroid, the longest first.

The sides fuse differently, so steps correspond by their names and shapes only roughly; the sums by kind compare better. Timing the
steps costs each side something of its own.
"""

import collections
import json
import pathlib
import statistics
import tempfile
import time
from typing import NamedTuple

from .report import TITLES
from .sides import OnnxRuntime, OpenVino, Toroid


class Step(NamedTuple):
    name: str
    kind: str
    median_us: float


def call_for(side, seconds, after=lambda: None):
    """Calls for so many seconds, at least three times."""
    end = time.perf_counter() + seconds
    calls = 0
    while time.perf_counter() < end or calls < 3:
        side.call()
        after()
        calls += 1


def medians(times):
    """The steps of {(name, kind): [us]}."""
    return [Step(name, kind, statistics.median(values)) for (name, kind), values in times.items()]


def onnxruntime_steps(export, options):
    side = OnnxRuntime(export, options.threads, profile=True)
    call_for(side, options.seconds)
    file = pathlib.Path(side.session.end_profiling())
    times = collections.defaultdict(list)
    for event in json.loads(file.read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            arguments = event["args"]
            shapes = " ".join(str(shape) for operand in arguments["input_type_shape"] for shape in operand.values())
            times[f"{event['name'].removesuffix('_kernel_time')} {shapes}", arguments["op_name"]].append(event["dur"])
    file.unlink()
    return medians(times)


def openvino_steps(export, options):
    side = OpenVino(export, options.threads, profile=True)
    times = collections.defaultdict(list)

    def collect():
        for node in side.request.get_profiling_info():
            if node.status == node.EXECUTED:
                times[node.node_name, f"{node.node_type} ({node.exec_type})"].append(node.real_time.total_seconds() * 1e6)

    call_for(side, options.seconds, collect)
    return medians(times)


def toroid_steps(export, options):
    with tempfile.TemporaryDirectory() as scratch:
        side = Toroid(options.toroid, export.pt2, export.inputs, options.threads, scratch)
        steps = side.bench(options.seconds, "--kernels")["steps"]
    return [Step(f"{step['position']} {step['name']}", step["name"], step["median_us"]) for step in steps]


PROFILERS = {"onnxruntime": onnxruntime_steps, "openvino": openvino_steps, "toroid": toroid_steps}


def listing(title, steps, longest):
    total = sum(step.median_us for step in steps)
    kinds = collections.defaultdict(list)
    for step in steps:
        kinds[step.kind].append(step.median_us)
    lines = [f"{title}: {total / 1e3:.3f} ms in {len(steps)} steps", ""]
    for kind, times in sorted(kinds.items(), key=lambda item: -sum(item[1]))[:longest]:
        lines.append(f"{sum(times):12.1f} us {100 * sum(times) / total:5.1f} %  {len(times)} x {kind}")
    lines.append("")
    for step in sorted(steps, key=lambda step: -step.median_us)[:longest]:
        lines.append(f"{step.median_us:12.1f} us {100 * step.median_us / total:5.1f} %  {step.name}")
    return "\n".join(lines) + "\n"


def print_profile(export, options):
    for side in options.sides:
        if side in PROFILERS:
            try:
                print(listing(f"{export.name}, {TITLES[side]}", PROFILERS[side](export, options), options.steps))
            except Exception as error:
                print(f"{export.name}, {TITLES[side]} failed: {error}\n")
