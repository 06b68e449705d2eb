# Compiles Halide pipelines for toroid (toolchain/halide/halide.h), which starts this file with Python and a request in JSON on standard
# input:
#
#   {"folder": "/tmp/…", "target": "x86-64-linux-avx2-…", "jobs": 2, "pipelines": [
#     {"entry": "toroid_halide_5f0c", "autoscheduler": "Mullapudi2016", "file": "mylib.blur.op", "line": 12, "source": "import halide…"}]}
#
# A source defines pipeline(): the list of arguments and that of output functions. The answer is a list in JSON on standard output, for
# each pipeline {"seconds": of its compilation}, or {"error": words, "line": of the file}. Its object is the file N of the folder.
import ctypes
import glob
import json
import os
import sys
import time
import traceback

# ---- what a stand-alone reproducer holds too

AUTOSCHEDULERS = ("Mullapudi2016", "Li2018", "Adams2019", "Anderson2021")


def load_autoscheduler(name):
    import halide as hl

    if name not in AUTOSCHEDULERS:
        raise LookupError(f"Halide has no autoscheduler '{name}'; it has {', '.join(AUTOSCHEDULERS)}")
    file = f"libautoschedule_{name.lower()}.so"
    beside = [path for each in ("lib64", "lib") for path in glob.glob(os.path.join(os.path.dirname(hl.__file__), each, file))]
    if beside:
        ctypes.CDLL(beside[0])  # it makes itself known
    else:
        hl.load_plugin(f"autoschedule_{name.lower()}")


def build(pipeline, entry, target, autoscheduler, path):
    import halide as hl

    arguments, outputs = pipeline()
    made, target = hl.Pipeline(outputs), hl.Target(target)
    if autoscheduler:
        load_autoscheduler(autoscheduler)
        made.apply_autoscheduler(target, hl.AutoschedulerParams(autoscheduler, {}))
    made.compile_to({hl.OutputFileType.object: path}, arguments, entry, target)


# ---- end of that


def load_pipeline(each, number):
    # Lines of the source are those of the file that it is from.
    space = {"__name__": "pipeline"}
    exec(compile("\n" * (each["line"] - 1) + each["source"], f"pipeline{number}", "exec"), space)
    if "pipeline" not in space:
        raise LookupError("the source has no function 'pipeline'")
    return space["pipeline"]


def attempt(request, number):
    each, start = request["pipelines"][number], time.time()
    try:
        path = os.path.join(request["folder"], f"{number}.o")
        build(load_pipeline(each, number), each["entry"], request["target"], each["autoscheduler"], path)
        os.rename(path, os.path.join(request["folder"], str(number)))
        return {"seconds": time.time() - start}
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.lineno else each["line"]
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == f"pipeline{number}":
                line = frame.lineno
        words = str(error).strip() or type(error).__name__
        return {"error": words if type(error).__name__ in ("HalideError", "LookupError") else f"{type(error).__name__}: {words}", "line": line}


# In a process of its own: autoschedulers may end it.
def begin(request, number):
    child = os.fork()
    if child != 0:
        return child
    errors = os.open(os.path.join(request["folder"], f"{number}.errors"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(errors, 2)
    result = attempt(request, number)
    with open(os.path.join(request["folder"], f"{number}.json"), "w", encoding="utf-8") as out:
        json.dump(result, out)
    os._exit(0)


def result_of(request, number, status):
    if status == 0:
        with open(os.path.join(request["folder"], f"{number}.json"), encoding="utf-8") as made:
            return json.load(made)
    with open(os.path.join(request["folder"], f"{number}.errors"), encoding="utf-8", errors="replace") as errors:
        words = errors.read()[-2000:].strip()
    return {"error": f"its process ended with status {os.waitstatus_to_exitcode(status)}; {words}", "line": request["pipelines"][number]["line"]}


def attempt_all(request):
    results, running = [None] * len(request["pipelines"]), {}
    waiting = list(range(len(results)))
    while waiting or running:
        while waiting and len(running) < request["jobs"]:
            number = waiting.pop(0)
            running[begin(request, number)] = number
        child, status = os.wait()
        number = running.pop(child)
        results[number] = result_of(request, number, status)
    return results


def main():
    answer = os.dup(1)
    os.dup2(2, 1)  # what a source prints is no answer
    request = json.load(sys.stdin)
    import halide  # once, before others are forked

    results = attempt_all(request)
    with os.fdopen(answer, "w") as out:
        json.dump(results, out)


main()
