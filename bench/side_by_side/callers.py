"""Sides that several callers call at once, as servers do: each as its documentation has it for that.

ONNX Runtime gets a session a caller, with threads of its own; OpenVINO a stream and a request a caller; toroid a context a caller
(`toroid bench --streams`). Their `median_ms` is the machine's time for a call: 1000 over the calls a second of all callers.
"""

import concurrent.futures
import time

from .sides import OnnxRuntime, OpenVino, Toroid, time_calls


def calls_per_s(calls, seconds):
    """Of functions that are called side by side, each again as soon as it has returned."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        latencies = list(pool.map(lambda call: time_calls(call, seconds), calls))
    return sum(1e3 * len(times) / sum(times) for times in latencies)


class OnnxRuntimeCallers:
    def __init__(self, export, threads, callers):
        start = time.perf_counter()
        self.sessions = [OnnxRuntime(export, threads) for _ in range(callers)]
        self.setup_s = time.perf_counter() - start

    def outputs(self):
        return self.sessions[0].outputs()

    def median_ms(self, seconds):
        return 1e3 / calls_per_s([session.call for session in self.sessions], seconds)


class OpenVinoCallers:
    def __init__(self, export, threads, callers):
        self.requests = OpenVino(export, threads * callers, streams=callers).beside(callers)
        self.setup_s = self.requests[0].setup_s

    def outputs(self):
        return self.requests[0].outputs()

    def median_ms(self, seconds):
        return 1e3 / calls_per_s([request.call for request in self.requests], seconds)


class ToroidCallers(Toroid):
    def __init__(self, program, model, inputs, threads, callers, scratch):
        self.callers = callers
        super().__init__(program, model, inputs, threads * callers, scratch)

    def median_ms(self, seconds):
        return 1e3 / self.bench(seconds, "--streams", self.callers)["streams"][0]["calls_per_s"]


CALLED_AT_ONCE = {"onnxruntime": OnnxRuntimeCallers, "openvino": OpenVinoCallers}


def called_at_once(side, export, threads, callers):
    if side not in CALLED_AT_ONCE:
        raise RuntimeError("is not timed with several callers")
    return CALLED_AT_ONCE[side](export, threads, callers)
