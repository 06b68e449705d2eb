"""PyTorch's own tests of Inductor and of AOTAutograd on the CPU, with toroid in the place of Inductor, and of the backend "aot_eager".

    python bench/torch_compile/pytorch_tests.py TEST_FOLDER [--class CpuTests] [--file FILE] [--part I/N] [--json FILE]
                                                [--match TEXT] [--all]

TEST_FOLDER is `test/` of PyTorch's sources, best of the version that is installed. FILE is there in inductor/, or with a folder
(dynamo/test_aot_autograd.py). Counted are tests that compare results with eager's:
those that look at Inductor's own code, counters or caches say nothing here and are left out, by what their source mentions. A test runs
with fallbacks allowed; those that needed one are counted too.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import inspect
import json
import os
import re
import sys
import time
import unittest
import warnings

# What tests look at that is Inductor's own.
_INDUCTORS_OWN = re.compile(
    r"FileCheck|run_and_get_|_run_and_assert|run_fw_bw|metrics\.|counters\[|compile_fx_inner|fresh_inductor_cache|fresh_cache|run_and_log"
    r"|CompiledFxGraph|assertEqual\(torch\._inductor|V\.|GraphLowering|assertIn\(\"|get_code\(|codecache|generated_kernel|\.fx_passes"
    r"|register_lowering|config\.patch\(.*(cpp|triton|debug)|log_format"
    r"|expectedInline|inductor_random|prims\.inductor|inductor_prims|lowering\."
    r"|torch\._inductor\.compile\(|torch\._inductor\.aot|aoti_"
)


class _Watch(unittest.TextTestResult):
    running = ""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.found: dict[str, list] = {}

    def startTest(self, test):
        super().startTest(test)
        _Watch.running = test.id()
        self.begin = time.perf_counter()
        self.found[test.id()] = ["passed", ""]

    def stopTest(self, test):
        super().stopTest(test)
        self.found[test.id()].append(round(time.perf_counter() - self.begin, 2))
        import torch

        torch._dynamo.reset()

    def _note(self, test, what, error):
        kind, value, _ = error
        self.found[test.id()][:2] = [what, f"{kind.__name__}: " + " | ".join(str(value).strip().splitlines()[:5])[:500]]

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "failed", err)

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, "failed", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.found[test.id()][:2] = ["skipped", reason]

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.found[test.id()][:2] = ["skipped", "expected to fail"]


def _load(folder: str, file: str):
    """The module, with the backend of every torch.compile toroid's."""
    import torch
    import torch._inductor.compile_fx as inductor

    import toroid.torch.dynamo

    toroid.torch.dynamo._is_full_graph = lambda: False  # most tests ask for one graph of Dynamo's; a cut in it compares results as well

    def compile_fx(model, example_inputs, *_, **__):
        return toroid.torch.backend(model, example_inputs, options={"fallback_random": torch._inductor.config.fallback_random})

    inductor.compile_fx = compile_fx
    torch._dynamo.lookup_backend("aot_eager")  # so that the name is known
    torch._dynamo.backends.registry._COMPILER_FNS["aot_eager"] = compile_fx
    path = os.path.join(folder, file if "/" in file else os.path.join("inductor", file))
    sys.path[:0] = [folder, os.path.dirname(path), os.path.dirname(folder)]
    spec = importlib.util.spec_from_file_location(os.path.basename(file).removesuffix(".py"), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if hasattr(module, "compile_fx"):
        module.compile_fx = compile_fx
    return module


def _checks_results(test, module) -> bool:
    # Classes of tests are made of templates, whose methods have names without the device.
    name = test._testMethodName.removesuffix("_cpu")
    templates = [kind for kind in vars(module).values() if inspect.isclass(kind) and name in vars(kind)]
    method = getattr(templates[0], name) if templates else getattr(test, test._testMethodName)
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__
    try:
        return not _INDUCTORS_OWN.search(inspect.getsource(method))
    except (OSError, TypeError):
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--class", dest="case", default="CpuTests")
    parser.add_argument("--file", default="test_torchinductor.py")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--match", default="")
    parser.add_argument("--all", action="store_true", help="whatever the source of a test mentions, as in test_torchinductor_opinfo.py")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    import toroid.torch
    import toroid.torch.compile
    import toroid.torch.fallback

    module = _load(os.path.abspath(arguments.folder), arguments.file)
    tests = list(unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, arguments.case)))
    part, parts = map(int, arguments.part.split("/"))
    chosen = [test for test in tests[part::parts] if (arguments.all or _checks_results(test, module)) and arguments.match in test.id()]
    warnings.simplefilter("ignore")
    cuts: dict[str, list] = {}
    tell = toroid.torch.compile.tell

    def noted(refused, allowed):
        if refused:
            texts = {f"{toroid.torch.fallback.target_name(node)}: {why}" for node, why in refused.items()}
            cuts.setdefault(_Watch.running, []).extend(sorted(texts))
        tell(refused, allowed)

    toroid.torch.compile.tell = noted
    runner = unittest.TextTestRunner(stream=open(os.devnull, "w"), resultclass=_Watch)
    result = runner.run(unittest.TestSuite(chosen))
    counts = collections.Counter(what for what, *_ in result.found.values())
    for name, (what, text, *seconds) in sorted(result.found.items()):
        if what == "failed":
            print(f"{name.rpartition('.')[2]}: {text} ({seconds[0] if seconds else 0} s)")
    ran = counts["passed"] + counts["failed"]
    for name, which in sorted(cuts.items()):
        print(f"{name.rpartition('.')[2]}: in eager: {'; '.join(which)[:300]}")
    print(f"{len(cuts)} tests ran operators in eager PyTorch")
    print(
        f"{len(tests[part::parts])} tests, {len(chosen)} check results, {counts['skipped']} skipped, {counts['passed']} of {ran} passed"
        f" ({100 * counts['passed'] / max(ran, 1):.1f} %)"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result.found, file, indent=1)


if __name__ == "__main__":
    main()
