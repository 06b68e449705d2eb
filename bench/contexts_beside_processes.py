"""Calls a second by contexts in N threads of one process, beside as many processes of one thread each, in turns.

    python bench/contexts_beside_processes.py build/tests/hammer_contexts FOLDER/m.so …  [--threads 8 16] [--turns 3] [--seconds 1]

What the processes do is what the machine's cores give, whatever else it has to do: nothing is shared between them but the file. So the
ratio is what contexts lose by being in one process. Medians, and the range of the ratios.
"""
import argparse
import os
import re
import statistics
import subprocess


def start(options, package, threads):
    given = {"--threads": threads, "--seconds": options.seconds, "--opens": 0, "--swaps": 0}
    command = [options.hammer, *(str(each) for pair in given.items() for each in pair), os.path.abspath(package)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rate(process):
    text = process.communicate()[0]
    rows = re.findall(r"^ +\d+ +\d+ +([\d.]+) ", text, re.MULTILINE)
    if process.returncode or not rows:
        raise SystemExit(text)
    return float(rows[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hammer")
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    for package in options.packages:
        for threads in options.threads:
            in_one, in_many = [], []
            for _ in range(options.turns):
                in_one.append(rate(start(options, package, threads)))
                processes = [start(options, package, 1) for _ in range(threads)]
                in_many.append(sum(rate(process) for process in processes))
            ratios = [one / many for one, many in zip(in_one, in_many)]
            print(
                f"{os.path.basename(package)}, {threads}: one process {statistics.median(in_one):.0f}, {threads} processes "
                f"{statistics.median(in_many):.0f}, ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
