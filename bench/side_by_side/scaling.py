"""Parallel efficiency of each side, from what `bench/peers --threads N --json FILE` wrote for several N:

    python3 bench/side_by_side/scaling.py 1.json 4.json 16.json

The efficiency on N threads is the time on the least number of threads there is, over N (as a multiple of that number) times the one on N.
"""

import argparse
import json
import pathlib
import re
import statistics


def threads_of(report):
    return int(re.search(r"(\d+) threads", report["machine"])[1])


def medians(report):
    """{(program, side): ms}"""
    return {
        (program, side): statistics.median(entry["rounds_ms"])
        for program, sides in report["programs"].items()
        for side, entry in sides.items()
        if entry.get("rounds_ms")
    }


def table(reports):
    """Markdown: a row a program, a column a side, with the efficiencies on all but the least number of threads."""
    by_threads = dict(sorted((threads_of(report), medians(report)) for report in reports))
    least, *more = by_threads
    sides = list(dict.fromkeys(side for _, side in by_threads[least]))
    lines = [f"| program | {' | '.join(sides)} |", "|---|" + "---:|" * len(sides)]
    for program in dict.fromkeys(name for name, _ in by_threads[least]):
        cells = []
        for side in sides:
            first = by_threads[least].get((program, side))
            times = [by_threads[threads].get((program, side)) for threads in more]
            cells.append(", ".join(f"{first * least / (t * n):.2f}" if first and t else "–" for t, n in zip(times, more)))
        lines.append(f"| {program} | {' | '.join(cells)} |")
    return f"Efficiency on {', '.join(map(str, more))} threads beside {least}:\n\n" + "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=pathlib.Path, metavar="FILE.json")
    print(table([json.loads(path.read_text()) for path in parser.parse_args().reports]))


if __name__ == "__main__":
    main()
