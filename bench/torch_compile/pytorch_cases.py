"""One of PyTorch's files of tests with toroid in the place of Inductor, and of the backend "aot_eager": what it has, and how one runs."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import time
import traceback
import unittest
import warnings

# What the source of a test mentions that looks at Inductor itself, and what that is.
INTERNALS = {
    "reads code or texts that PyTorch's compilers write": (
        r"FileCheck|run_and_get_|_run_and_assert|run_fw_bw|get_code\(|generated_kernel|GeneratedKernel|run_and_log|log_format"
    ),
    "counts Inductor's kernels, or reads its counters": r"metrics\.|counters\[",
    "calls parts of Inductor": (
        r"compile_fx_inner|CompiledFxGraph|GraphLowering|V\.|torch\._inductor\.compile\(|codecache|\.fx_passes|register_lowering|lowering\."
        r"|assertEqual\(torch\._inductor|should_pad_bench|_low_memory_max_pool|complex_memory_overlap"
    ),
    "looks for Inductor's marks in a profile": r"inductor_wrapper_call",
    "looks at Inductor's cache": r"fresh_inductor_cache|fresh_cache",
    "has Inductor's own random operators": r"inductor_random|prims\.inductor|inductor_prims",
    "compiles ahead of time by Inductor": r"torch\._inductor\.aot|aoti_",
}

# Operators that the running test had in eager PyTorch, with the reasons.
_in_eager: list[str] = []


def _skip_operators(case: str, test: str, names):
    """As PyTorch's decorator up to 2.11. Operators that are not there any more, and those of GPUs, need nothing."""
    import torch.testing._internal.common_methods_invocations as invocations
    from torch.testing._internal.opinfo.core import DecorateInfo

    for name, variant, device, dtypes, fails in names:
        decorator = unittest.expectedFailure if fails else unittest.skip("skipped by PyTorch")
        for op in invocations.op_db:
            if (op.name, op.variant_test_name) == (name, variant) and device in (None, "cpu"):
                op.decorators = (*op.decorators, DecorateInfo(decorator, case, test, device_type=device, dtypes=dtypes))
    return lambda function: function


def _for_older_files() -> None:
    """Names that files of older releases import and later ones have elsewhere, or not any more."""
    import torch.testing._internal.common_methods_invocations as invocations
    from torch._inductor import compile_fx
    from torch.testing._internal import common_utils, inductor_utils

    if importlib.util.find_spec("torch.utils._dtype_abbrs"):
        from torch.utils import _dtype_abbrs

        vars(common_utils).setdefault("dtype_abbrs", _dtype_abbrs.dtype_abbrs)
    vars(inductor_utils).setdefault("HAS_CUDA", False)
    vars(inductor_utils).setdefault("HAS_XPU", False)
    vars(compile_fx).setdefault("complex_memory_overlap", None)
    invocations.skipOps = _skip_operators


def _for_older_releases() -> None:
    """An argument that toroid gives: PyTorch older than those that it supports knows none."""
    import torch

    disable = torch._dynamo.disable
    if "reason" not in inspect.signature(disable).parameters:
        torch._dynamo.disable = lambda call=None, recursive=True, reason=None: disable(call, recursive)


def load(folder: str, file: str):
    """The module, with the backend of every torch.compile toroid's."""
    import torch
    import torch._inductor.compile_fx as inductor

    import toroid.torch.compile
    import toroid.torch.dynamo

    toroid.torch.dynamo._is_full_graph = lambda: False  # most tests ask for one graph of Dynamo's; a cut in it compares results as well

    def compile_fx(model, example_inputs, *_, **__):
        return toroid.torch.backend(model, example_inputs, options={"fallback_random": torch._inductor.config.fallback_random})

    inductor.compile_fx = compile_fx
    torch._dynamo.lookup_backend("aot_eager")  # so that the name is known
    torch._dynamo.backends.registry._COMPILER_FNS["aot_eager"] = compile_fx
    _for_older_files()
    _for_older_releases()
    path = os.path.join(folder, file if "/" in file else os.path.join("inductor", file))
    sys.path[:0] = [folder, os.path.dirname(path), os.path.dirname(folder)]
    spec = importlib.util.spec_from_file_location(os.path.basename(file).removesuffix(".py"), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if hasattr(module, "compile_fx"):
        module.compile_fx = compile_fx
    tell = toroid.torch.compile.tell

    def noted(refused, allowed):
        _in_eager.extend(sorted({f"{toroid.torch.fallback.target_name(node)}: {why}" for node, why in refused.items()}))
        tell(refused, allowed)

    toroid.torch.compile.tell = noted
    warnings.simplefilter("ignore")
    return module


def why_left_out(test: unittest.TestCase, module) -> str | None:
    """What the test looks at of Inductor's; None: it compares results."""
    # Classes of tests are made of templates, whose methods have names without the device.
    name = re.sub(r"(_dynamic_shapes)?(_cpu)?$", "", test._testMethodName)
    templates = [kind for kind in vars(module).values() if inspect.isclass(kind) and name in vars(kind)]
    method = getattr(templates[0], name) if templates else getattr(test, test._testMethodName)
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__
    try:
        source = inspect.getsource(method)
    except (OSError, TypeError):
        return None
    for reason, pattern in INTERNALS.items():
        found = re.search(pattern, source)
        if found:
            return f"{reason}: {' '.join(found.group().split())}"
    return None


class _Outcome(unittest.TestResult):
    """Of the one test that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.what, self.why, self.trace = "passed", "", ""

    def _note(self, error) -> None:
        kind, value, _ = error
        self.what = "failed"
        self.why = f"{kind.__name__}: " + " | ".join(str(value).strip().splitlines()[:5])[:500]
        self.trace = "".join(traceback.format_exception(*error))[-4000:]

    def addFailure(self, test, error):
        self._note(error)

    def addError(self, test, error):
        self._note(error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._note(error)

    def addSkip(self, test, reason):
        self.what, self.why = "skipped", str(reason)

    def addExpectedFailure(self, test, error):
        self.what, self.why = "skipped", "expected to fail"


def run_one(test: unittest.TestCase) -> dict:
    """What became of it ("passed", "failed", "skipped"), why, seconds, operators that ran in eager PyTorch."""
    import torch

    _in_eager.clear()
    outcome = _Outcome()
    begin = time.perf_counter()
    unittest.TestSuite([test]).run(outcome)
    seconds = round(time.perf_counter() - begin, 2)
    torch._dynamo.reset()
    return {"what": outcome.what, "why": outcome.why, "seconds": seconds, "eager": list(_in_eager), "trace": outcome.trace}
