"""Times toroid beside PyTorch (eager, torch.compile), ONNX Runtime and OpenVINO: same programs, inputs and threads, in turns.

PROGRAM is `rows`, `large` (rows on more than caches hold), `models`, a row's name, a pattern as 'mm_*', or a model: torchvision:NAME, timm:NAME,
hf:bert-base, hf:gpt2, each also with @bf16, @int8, @int8-bf16, @static, @dynamic or @int4 behind it.
Without one, all rows and models are timed. Results are compared with eager's before their time counts; a side that fails is named
below the table. docs/measured/performance.md says more.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import sys
import traceback
import warnings

from . import exports, held, large_rows, models, profile, report, rows, timing
from .sides import KEEP_FREED_MEMORY, PEERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = ["eager", "compile", "onnxruntime", "openvino", "toroid"]


def chosen(patterns):
    """The names of rows and models that the patterns mean."""
    names = []
    for pattern in patterns or ["rows", "models"]:
        known = {"rows": list(rows.ROWS), "large": large_rows.LARGE_ROWS, "models": models.MODELS}.get(pattern)
        found = known or fnmatch.filter([*rows.ROWS, *large_rows.LARGE_ROWS, *models.MODELS], pattern)
        if not found and models.is_model(pattern):
            found = [pattern]
        if not found:
            known = f"models are torchvision:NAME, timm:NAME, hf:bert-base, hf:gpt2; rows are {', '.join(rows.ROWS)}"
            sys.exit(f"error: no program is called '{pattern}'\n  help: {known}")
        names += [name for name in found if name not in names]
    return names


def program_makers(options):
    """(name, function that gives the export), in the table's order."""
    patterns = options.programs or ([] if not options.pt2 else None)
    if patterns is not None:
        for name in chosen(patterns):
            if options.precision and models.is_model(name) and "@" not in name:
                name += "@" + options.precision
            label = f"{name}, batch {options.batch}" if models.is_model(name) and options.batch != 1 else name
            yield label, lambda name=name: exports.export(name, options.batch, options.exports)
    for path in options.pt2:
        yield path.stem, lambda path=path: exports.adopt(path, options.exports)


def time_all(options):
    results = {}
    for name, make in program_makers(options):
        try:
            export = make()
        except Exception as error:
            traceback.print_exc()
            results[name] = {side: {"error": f"export: {error}"} for side in options.sides}
            continue
        export.name = name
        results[name] = timing.time_program(export, options)
        write(results, options)  # what is measured is not lost when the rest is stopped
    return results


def write(results, options):
    if options.table:
        options.table.write_text(report.tables(results, options))
    if options.json:
        options.json.write_text(json.dumps({"machine": report.description(options), "programs": results}, indent=1))


def side_list(text):
    names = text.split(",")
    for name in names:
        if name != "toroid" and name not in PEERS:
            raise argparse.ArgumentTypeError(f"no side is called '{name}'; there are toroid, {', '.join(PEERS)}")
    return names


def parse():
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument(
        "--pt2", nargs="*", type=pathlib.Path, default=[], help="exported programs with NAME.in.safetensors beside them"
    )
    parser.add_argument("--batch", type=int, default=1, help="of the models (default: 1)")
    parser.add_argument("--precision", choices=models.NUMBERS, help="of the models without an @: how they are rounded (models.py)")
    parser.add_argument("--sides", type=side_list, default=SIDES, help=f"of toroid,{','.join(PEERS)} (default: {','.join(SIDES)})")
    parser.add_argument("--threads", type=int, default=2, help="of every side (default: 2)")
    parser.add_argument(
        "--callers", type=int, default=1, help="that call at once, with so many threads each (default: 1); of ONNX Runtime, OpenVINO, toroid"
    )
    parser.add_argument("--isa", choices=held.SETS, help="hold all sides to these instructions; needs CPUID faulting")
    parser.add_argument("--rounds", type=int, default=9, help="(default: 9)")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of each side's calls in a round, at least three calls (default: 0.5)"
    )
    parser.add_argument("--quick", action="store_true", help="three rounds of 0.2 seconds")
    parser.add_argument("--best", action="store_true", help="the best round instead of the median: for a machine with other work")
    parser.add_argument("--exports", type=pathlib.Path, default=ROOT / "build" / "peers" / "exports", help="where exports are kept")
    parser.add_argument("--toroid", type=pathlib.Path, default=ROOT / "build" / "toroid", help="(default: build/toroid)")
    parser.add_argument("--table", type=pathlib.Path, help="write the tables here too")
    parser.add_argument("--json", type=pathlib.Path, help="write every round's time")
    parser.add_argument(
        "--profile", action="store_true", help="print the longest steps of each side but PyTorch's instead of tables"
    )
    parser.add_argument("--steps", type=int, default=20, help="that --profile prints of each side (default: 20)")
    parser.add_argument("--export-only", action="store_true", help="fill the folder of exports and time nothing")
    parser.add_argument("--save-rows", action="store_true", help="write the rows as bench/models/*.pt2 and time nothing")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.2
    return options


def main():
    warnings.filterwarnings("ignore")
    options = parse()
    os.environ |= {**KEEP_FREED_MEMORY, "OMP_NUM_THREADS": str(options.threads)}
    if options.isa:
        held.hold_to(options.isa, options.exports.parent)
    if options.save_rows:
        return rows.save_rows()
    if options.export_only:
        for _, make in program_makers(options):
            make()
        return
    if "toroid" in options.sides and not options.toroid.exists():
        sys.exit(f"error: there is no {options.toroid}\n  help: build it with ./run build, or name it with --toroid")
    if options.profile:
        for name, make in program_makers(options):
            profile.print_profile(make(), options)
        return
    print(report.tables(time_all(options), options), end="")


if __name__ == "__main__":
    main()
