"""Random programs over PyTorch's own API, exported, compiled by toroid and compared with eager PyTorch.

    python tests/pytorch_programs --seed 1 --count 2500 --jobs 2 --save found

Programs have 5 to 25 operators on tensors of float32, float16, bfloat16, float64 and integers, write in place, have sizes that are free (then a second call
has other sizes) and inputs that are transposed or hold NaN, infinities and the ends of integers. What may differ is measured, not guessed: eager runs
again with every inexact result moved by a few units in the last place, and what moves is compared no closer than it moves. Programs that PyTorch itself
cannot export, or refuses to call, count apart. Needs PyTorch and safetensors; run by hand. Last results: docs/testing.md.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).parents[2]


def run_batch(options, deadline, first, count):
    """A child process for each few programs: PyTorch's exporter grows with every program."""
    command = [sys.executable, str(pathlib.Path(__file__).parent / "batch.py"), str(options.seed), str(first), str(count), str(options.toroid),
               str(options.save), options.device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(0, min(120 * count, deadline - time.monotonic())))
        lines, tail = done.stdout.splitlines(), done.stderr[-300:]
    except subprocess.TimeoutExpired as stopped:
        lines, tail = (stopped.stdout or b"").decode().splitlines(), "time limit"
    results = [json.loads(line) for line in lines if line.startswith("{")]
    for number in range(first + len(results), first + count):
        results.append({"program": number, "outcome": "not run", "why": tail})
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="seconds; the programs that remain count as not run")
    parser.add_argument("--save", type=pathlib.Path, default=REPOSITORY / "build" / "found", help="a folder for programs that fail")
    parser.add_argument("--device", default="cpu", help="as of `toroid run`; eager PyTorch computes on the CPU")
    parser.add_argument("--toroid", type=pathlib.Path, default=REPOSITORY / "build" / "toroid")
    options = parser.parse_args()
    options.toroid = options.toroid.resolve()
    options.save.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.time_limit
    outcomes = collections.Counter()
    batch = 10
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, open(options.save / "results.jsonl", "a") as log:
        starts = range(options.first, options.first + options.count, batch)
        tasks = [pool.submit(run_batch, options, deadline, start, min(batch, options.first + options.count - start)) for start in starts]
        for task in concurrent.futures.as_completed(tasks):
            for result in task.result():
                outcomes[result["outcome"]] += 1
                log.write(json.dumps(result) + "\n")
                log.flush()
                if result["outcome"] in ("wrong", "refused", "crash"):
                    print(f"{result['outcome']} {result['program']}: {result['why'][:400]}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    return any(outcomes[outcome] for outcome in ("wrong", "refused", "crash"))


if __name__ == "__main__":
    sys.exit(main())
