"""Times the sides of one program in turns, so that a disturbance of the machine meets them all."""

import contextlib
import statistics
import sys
import tempfile
import time

from .callers import ToroidCallers
from .remote import Remote
from .sides import Toroid, check_export

PAUSE_S = 0.05  # the threads of the side before stop spinning


def set_up(side, export, options, scope):
    """The side, its results checked. What it holds goes with the scope."""
    if side == "toroid":
        scratch = scope.enter_context(tempfile.TemporaryDirectory())
        program = (options.toroid, export.pt2, export.inputs, options.threads)
        toroid = Toroid(*program, scratch) if options.callers == 1 else ToroidCallers(*program, options.callers, scratch)
        toroid.error = check_export(toroid.outputs(), export)
        return toroid
    return scope.enter_context(contextlib.closing(Remote(side, export, options.threads, options.callers)))


class Comparison:
    """The sides of one program, as far as they work."""

    def __init__(self, export):
        self.export, self.sides, self.result = export, {}, {}

    def add(self, name, options, scope):
        with self.noting_failure(name):
            side = set_up(name, self.export, options, scope)
            self.sides[name] = side
            self.result[name] = {"setup_s": side.setup_s, "rounds_ms": []}
            if side.error is not None:
                self.result[name]["error_of_float32"] = side.error

    def measure(self, name, seconds):
        with self.noting_failure(name):
            self.result[name]["rounds_ms"].append(self.sides[name].median_ms(seconds))

    @contextlib.contextmanager
    def noting_failure(self, name):
        """What a side cannot do is a fact of the table; it takes no further part."""
        try:
            yield
        except Exception as error:
            self.sides.pop(name, None)
            self.result[name] = {"error": str(error)}
            print(f"{self.export.name}: {name} failed: {str(error)[:300]}", file=sys.stderr, flush=True)


def time_program(export, options):
    """{side: {"setup_s", "rounds_ms"}}, or {side: {"error"}} for a side that failed; says so as it goes."""
    comparison = Comparison(export)
    with contextlib.ExitStack() as scope:
        for name in options.sides:
            comparison.add(name, options, scope)
        for round_number in range(options.rounds):
            names = list(comparison.sides)
            first = round_number % max(len(names), 1)
            for name in names[first:] + names[:first]:
                time.sleep(PAUSE_S)
                comparison.measure(name, options.seconds)
    times = {name: round(statistics.median(comparison.result[name]["rounds_ms"]), 3) for name in comparison.sides}
    print(export.name, times, file=sys.stderr, flush=True)
    return comparison.result
