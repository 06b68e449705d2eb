#!/usr/bin/env python3
"""Is a build of toroid slower than another? Times programs with both, in turns, in one run.

    bench/builds.py OLD NEW [--threads 2] [--rounds 7] [--seconds 0.3] [--least 0.98] [--cache FOLDER] FILE.pt2...

OLD and NEW are the commands `toroid`. FILE.in.safetensors beside a program has its inputs; `bench/peers --export-only models
rows` writes such files. Each build compiles with a cache of its own, kept where --cache says. A round times both, the one that
begins changing from round to round; the ratio of a program is the median over rounds of OLD's time over NEW's, above 1 where NEW
is quicker. Exits with 1 where a ratio is below --least.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


def bench(command, file, threads, seconds, cache):
    """The median time of a call in ms."""
    report = cache.with_suffix(".json")
    call = [command, "bench", file, "--threads", threads, "--seconds", seconds, "--json", report]
    inputs = file.with_suffix(".in.safetensors")
    call += ["--inputs", inputs] if inputs.exists() else []
    done = subprocess.run(list(map(str, call)), env={**os.environ, "TOROID_CACHE_DIR": str(cache)}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, call))}: {done.stderr}")
    return json.loads(report.read_text())["median_ms"]


def compare(builds, file, options, caches):
    """The median times, and the median of the rounds' ratios with its quartiles."""
    times = ([], [])
    for side in (0, 1):
        bench(builds[side], file, options.threads, 0.01, caches[side])  # compiles
    for turn in range(options.rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            times[side].append(bench(builds[side], file, options.threads, options.seconds, caches[side]))
    ratios = [old / new for old, new in zip(*times)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return statistics.median(times[0]), statistics.median(times[1]), low, middle, high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each build's calls in a round")
    parser.add_argument("--least", type=float, default=0.98)
    parser.add_argument("--cache", type=pathlib.Path, help="a folder for what the builds compile (default: removed afterwards)")
    options = parser.parse_args()
    ratios = {}
    print("| program | old, ms | new, ms | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        caches = [(options.cache or pathlib.Path(folder)).resolve() / name for name in ("old", "new")]
        caches[0].parent.mkdir(parents=True, exist_ok=True)
        for file in options.files:
            old, new, low, ratio, high = compare((options.old, options.new), file, options, caches)
            ratios[file.stem] = ratio
            print(f"| {file.stem} | {old:.3f} | {new:.3f} | {ratio:.3f} ({low:.3f} to {high:.3f}) |", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    slower = [name for name, ratio in ratios.items() if ratio < options.least]
    print(f"\ngeometric mean {mean:.3f}; below {options.least}: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
