"""The table, in Markdown."""

import importlib.metadata
import math
import platform
import statistics
import subprocess

from .models import is_model
from .rows import ROWS

TITLES = {
    "eager": "eager",
    "compile": "torch.compile",
    "frozen": "torch.compile, frozen",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "toroid": "toroid",
}


def cpu_name():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def quartiles(values):
    """(first quartile, median, third quartile)"""
    if len(values) == 1:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def best_peer(entries, measure):
    """The name of the fastest side but toroid, or None."""
    peers = [side for side, entry in entries.items() if side != "toroid" and "rounds_ms" in entry]
    return min(peers, key=lambda side: measure(entries[side]["rounds_ms"]), default=None)


def ratio(entries, measure):
    """(best peer's time over toroid's, its quartiles over the rounds), or None."""
    peer = best_peer(entries, measure)
    if peer is None or "rounds_ms" not in entries.get("toroid", {}):
        return None
    theirs, ours = entries[peer]["rounds_ms"], entries["toroid"]["rounds_ms"]
    low, _, high = quartiles([a / b for a, b in zip(theirs, ours)])
    return measure(theirs) / measure(ours), low, high


def time_cell(entry, measure):
    if "error" in entry:
        return "failed"
    if "rounds_ms" not in entry:
        return "–"
    low, _, high = quartiles(entry["rounds_ms"])
    digits = 3 if measure(entry["rounds_ms"]) < 10 else 1
    return f"{measure(entry['rounds_ms']):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def setup_cell(entry):
    return f"{entry['setup_s']:.2f}" if "setup_s" in entry else "failed" if "error" in entry else "–"


def kind_of(name):
    return "models" if is_model(name) else "rows" if name in ROWS else "programs"


def markdown_row(cells):
    return f"| {' | '.join(cells)} |"


def markdown_head(titles):
    return [markdown_row(titles), "|---|" + "---:|" * (len(titles) - 1)]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def tables(results, options):
    """Everything that is worth keeping of {program: {side: entry}}, as text."""
    measure = min if options.best else statistics.median
    what = "best" if options.best else "medians"
    call = "a call" if options.callers == 1 else "of the machine a call"
    lines = [
        f"{description(options)}. Milliseconds {call}, {what} of {options.rounds} rounds in turns and their quartiles;",
        "ratio: the best peer's time over toroid's, and its quartiles over the rounds.",
        "",
        *markdown_head(["program", *(f"{TITLES[side]}, ms" for side in options.sides), "best peer", "ratio"]),
    ]
    for name, entries in results.items():
        peer, found = best_peer(entries, measure), ratio(entries, measure)
        times = [time_cell(entries.get(side, {}), measure) for side in options.sides]
        spread = f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})" if found else "–"
        lines.append(markdown_row([name, *times, TITLES[peer] if peer else "–", spread]))
    lines.append("")
    for kind in ("models", "rows", "programs"):
        ratios = [found[0] for name, entries in results.items() if kind_of(name) == kind and (found := ratio(entries, measure))]
        if ratios:
            lines.append(f"Geometric mean of the {kind}' ratios: {geometric_mean(ratios):.2f} ({len(ratios)} of them).")
    lines += error_table(results, options)
    lines += [
        "",
        "Seconds from the exported program to the first result (toroid: to the loaded program), nothing compiled before:",
        "",
    ]
    timed = [side for side in options.sides if side != "eager"]
    lines += markdown_head(["program", *(TITLES[side] for side in timed)])
    for name, entries in results.items():
        lines.append(markdown_row([name, *(setup_cell(entries.get(side, {})) for side in timed)]))
    for name, entries in results.items():
        for side, entry in entries.items():
            if "error" in entry:
                lines += ["", f"{name}, {TITLES[side]}: {first_lines(entry['error'])}"]
    return "\n".join(lines) + "\n"


def error_table(results, options):
    """Of the models in fewer bits than float32."""
    rows = {name: entries for name, entries in results.items() if any("error_of_float32" in entry for entry in entries.values())}
    if not rows:
        return []
    lines = ["", "Root mean square of the difference from the float32 model's result, relative to that result:", ""]
    lines += markdown_head(["program", *(TITLES[side] for side in options.sides)])
    for name, entries in rows.items():
        errors = [entries.get(side, {}).get("error_of_float32") for side in options.sides]
        lines.append(markdown_row([name, *("–" if error is None else f"{error:.4f}" for error in errors)]))
    return lines


def first_lines(text):
    return " ".join(text.split())[:400]


def description(options):
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=options.toroid.parent, capture_output=True, text=True
    ).stdout.strip()
    versions = ", ".join(
        f"{title} {importlib.metadata.version(package)}"
        for title, package in (("PyTorch", "torch"), ("ONNX Runtime", "onnxruntime"), ("OpenVINO", "openvino"))
    )
    callers = "" if options.callers == 1 else f" for each of {options.callers} callers at once"
    held = f" held to {options.isa}" if options.isa else ""
    return f"{cpu_name()}{held}, {options.threads} threads{callers}; {versions}, toroid {commit or 'unknown'}"
