"""Where the time of a program's calls goes."""

import collections
import dataclasses
import json

from toroid._display import html_table, text_table


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the program: a kernel or a library call. `origin` is the operator of the model that it ends with."""

    name: str
    origin: str
    calls: int
    microseconds: float  # of all calls
    share: float  # of the time of all steps


class Profile:
    """The steps of `runs` calls of a model, in the program's order. `str()` is a table; notebooks show one."""

    def __init__(self, runs, times):
        self.runs = runs
        self._times = times  # (variant, step, name, origin, nanoseconds), as they came
        sums = collections.OrderedDict()
        for variant, step, name, origin, nanoseconds in times:
            known = sums.setdefault((variant, step), [name, origin, 0, 0])
            known[2] += 1
            known[3] += nanoseconds
        total = sum(known[3] for known in sums.values()) or 1
        self.steps = [Step(name, origin, calls, ns / 1e3, ns / total) for name, origin, calls, ns in sums.values()]

    @property
    def microseconds(self):
        """Of a call, all its steps together."""
        return sum(step.microseconds for step in self.steps) / self.runs

    def _rows(self):
        ranked = sorted(self.steps, key=lambda step: -step.microseconds)
        return [
            (step.name, f"{step.microseconds / self.runs:.1f}", f"{100 * step.share:.1f}", step.calls // self.runs, step.origin)
            for step in ranked
        ]

    _HEAD = ("step", "us a call", "%", "times", "operator")

    def __str__(self):
        return text_table(self._HEAD, self._rows()) + f"\n{self.microseconds:.1f} us a call, {self.runs} calls"

    __repr__ = __str__

    def _repr_html_(self):
        return html_table(f"{self.microseconds:.1f} us a call", self._HEAD, self._rows())

    def chrome_trace(self, path):
        """Writes the steps, one behind the other, for chrome://tracing and Perfetto."""
        events, at = [], 0.0
        for variant, step, name, origin, nanoseconds in self._times:
            events.append(
                {
                    "name": name,
                    "ph": "X",
                    "ts": at,
                    "dur": nanoseconds / 1e3,
                    "pid": 0,
                    "tid": 0,
                    "args": {"origin": origin, "step": step, "variant": variant},
                }
            )
            at += nanoseconds / 1e3
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
