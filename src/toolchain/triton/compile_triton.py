# Compiles Triton kernels for toroid (toolchain/triton/triton.h), which starts this file with Python and a request in JSON on standard
# input:
#
#   {"folder": "/tmp/…", "target": ["cuda", 90, 32], "product": "cubin", "jobs": 2, "kernels": [
#     {"entry": "toroid_add", "function": "add", "source": "import triton…", "file": "mylib.add.op", "line": 12,
#      "arguments": [{"name": "x", "type": "*fp32", "multiple": 16}, {"name": "BLOCK", "value": 1024}],
#      "num_warps": 4, "num_stages": 3}]}
#
# Arguments are those of the function, in order; one with a value is a constant. The answer is a list in JSON on standard output, for each
# kernel what a launch has to know, or {"error": words, "line": of the file}. Its binary is the file N of the folder. `product`: cubin, ptx
# or hsaco.
#
# Triton 3.5 and newer. No GPU is needed, and nothing of Triton's own cache is read or written.
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import traceback


def load_function(kernel, path):
    # Lines of the source are those of the file that it is from.
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n" * (kernel["line"] - 1) + kernel["source"])
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, kernel["function"], None)
    if function is None:
        raise LookupError(f"the source has no function '{kernel['function']}'")
    while not hasattr(function, "arg_names") or type(function).__name__ in ("Autotuner", "Heuristics"):
        if not hasattr(function, "fn"):
            raise LookupError(f"'{kernel['function']}' is not decorated with @triton.jit")
        function = function.fn  # configurations are the caller's
    return function


def check_arguments(function, arguments):
    takes, given = list(function.arg_names), [each["name"] for each in arguments]
    if len(takes) != len(given):
        raise LookupError(f"the function takes {len(takes)} arguments ({', '.join(takes)}), and is given {len(given)} ({', '.join(given)})")
    constants = {p.name for p in function.params if p.is_constexpr}
    for name, each in zip(takes, arguments):
        if (name in constants) and "value" not in each:
            raise LookupError(f"the argument '{name}' is a tl.constexpr, and what it is given, '{each['name']}', is no number of a configuration")


def source_of(kernel, function):
    from triton.compiler import ASTSource

    signature, constants, attributes = {}, {}, {}
    for i, (name, each) in enumerate(zip(function.arg_names, kernel["arguments"])):
        if "value" in each:
            signature[name] = "constexpr"
            constants[(i,)] = each["value"]
            continue
        signature[name] = each["type"]
        if each.get("multiple", 1) > 1:
            attributes[(i,)] = [["tt.divisibility", each["multiple"]]]
    return ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)


# How many arguments the binary's kernel takes.
def count_parameters(compiled, entry):
    if "ptx" in compiled.asm:
        found = re.search(r"\.entry\s+" + re.escape(entry) + r"\s*\((.*?)\)", compiled.asm["ptx"], re.S)
        return len(re.findall(r"\.param\b", found.group(1))) if found else -1
    kinds = re.findall(r"\.value_kind:\s+(\w+)", compiled.asm["amdgcn"])
    return sum(not kind.startswith("hidden_") for kind in kinds)


def compile_one(request, number):
    import triton
    from triton.backends.compiler import GPUTarget

    kernel = request["kernels"][number]
    folder = os.path.join(request["folder"], f"work{number}")
    os.makedirs(folder)
    os.environ["TRITON_CACHE_DIR"] = folder
    function = load_function(kernel, os.path.join(folder, f"kernel{number}.py"))
    check_arguments(function, kernel["arguments"])
    function._repr = lambda _: kernel["entry"]  # the name in the binary
    # Triton's keys hash all of its own files, which takes seconds. The folder is new: any name will do.
    if hasattr(triton.compiler.compiler, "get_cache_key"):
        triton.compiler.compiler.get_cache_key = lambda *_, **__: kernel["entry"]
    backend, capability, warp = request["target"]
    names = ("num_warps", "num_stages", "enable_fp_fusion", "enable_reflect_ftz")
    options = {name: kernel[name] for name in names if name in kernel}
    compiled = triton.compile(source_of(kernel, function), target=GPUTarget(backend, capability, warp), options=options)
    facts = compiled.metadata
    binary = compiled.asm[request["product"]]
    with open(os.path.join(request["folder"], str(number)), "wb") as out:
        out.write(binary.encode() if isinstance(binary, str) else binary)
    passed = sum("value" not in each for each in kernel["arguments"])
    parameters = count_parameters(compiled, facts.name)
    return {
        "name": facts.name,
        "threads": facts.num_warps * warp,
        "shared_bytes": facts.shared,
        "scratch_bytes": getattr(facts, "global_scratch_size", 0) or 0,
        "scratch_alignment": getattr(facts, "global_scratch_align", 1) or 1,
        "profile_bytes": getattr(facts, "profile_scratch_size", 0) or 0,
        "blocks_of_cluster": getattr(facts, "num_ctas", 1),
        "cooperative": int(bool(getattr(facts, "launch_cooperative_grid", False))),
        "tensor_maps": len(getattr(facts, "tensordesc_meta", None) or []),
        "more_pointers": parameters - passed,
    }


# The line of the file that is at fault, and the words.
def describe(error, kernel):
    line = None
    cause = error
    while cause is not None:
        node = getattr(cause, "node", None)
        if node is not None and hasattr(node, "lineno"):
            source = getattr(cause, "src", "") or ""
            first = next((i for i, text in enumerate(kernel["source"].split("\n")) if source and text.strip() == source.split("\n")[0].strip()), None)
            if first is not None:
                line = kernel["line"] + first + node.lineno - 1
        if isinstance(cause, SyntaxError) and cause.lineno:
            line = cause.lineno
        cause = cause.__cause__
    words = str(error).strip() or type(error).__name__
    if type(error).__name__ not in ("CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure", "LookupError"):
        words = f"{type(error).__name__}: {words}"
    if line is None:
        for frame in traceback.extract_tb(error.__traceback__):
            if os.path.basename(frame.filename).startswith("kernel"):
                line = frame.lineno
    return {"error": words, "line": line or kernel["line"]}


def attempt(work):
    request, number = work
    try:
        return compile_one(request, number)
    except Exception as error:
        return describe(error, request["kernels"][number])


def main():
    answer = os.dup(1)
    os.dup2(2, 1)  # what a source prints is no answer
    request = json.load(sys.stdin)
    work = [(request, number) for number in range(len(request["kernels"]))]
    import triton  # once, before others are forked

    if len(work) > 1 and request["jobs"] > 1:
        with multiprocessing.get_context("fork").Pool(min(request["jobs"], len(work))) as pool:
            results = pool.map(attempt, work, chunksize=1)
    else:
        results = [attempt(each) for each in work]
    with os.fdopen(answer, "w") as out:
        json.dump(results, out)


main()
