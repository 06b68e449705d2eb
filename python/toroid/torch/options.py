"""Options of the backend."""

from __future__ import annotations

import dataclasses
from typing import Any

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Options:
    """What ``torch.compile(..., backend="toroid", options={...})`` takes."""

    fallback: bool = True
    """Operators that toroid refuses run in eager PyTorch, with one warning. False: they are an error."""
    freezing: bool = False
    """In inference, parameters become constants of the program: their products are packed once. Later changes of them are not seen."""
    max_autotune: bool = False
    """Implementations of products, convolutions and attention are measured, not estimated. What ``mode="max-autotune"`` sets."""
    fallback_random: bool = False
    """Random operators run in eager PyTorch, and draw what it draws."""
    cache: bool = True
    """What is compiled is kept on disk, and found there by later processes."""
    compile_threads: int = 0
    """C++ compilers that run at a time; 0: one for each core."""
    save_source: str = ""
    """A folder for the generated C++ of each graph; empty: none."""
    dump_ir: str = ""
    """A folder for each graph after each pass; empty: none."""
    assertions: bool = False
    """Kernels check each access to memory."""

    def of_compiler(self, name: str) -> dict[str, Any]:
        """What ``_core.compile_graph`` is given, for the graph called so."""
        given: dict[str, Any] = {}
        if not self.cache:
            given["no_cache"] = True
        if self.max_autotune:
            given["measure"] = True
        if self.compile_threads:
            given["threads"] = self.compile_threads
        for folder in ("save_source", "dump_ir"):
            if getattr(self, folder):
                given[folder] = f"{getattr(self, folder)}/{name}"
        if self.assertions:
            given["assertions"] = True
        return given


def read_options(mode: str | None, options: dict | None, others: dict) -> Options:
    """Throws ValueError for a mode or an option that does not exist."""
    if mode not in MODES:
        raise ValueError(f"the toroid backend has no mode {mode!r}; it has {', '.join(map(repr, MODES[1:]))}")
    given = {**others, **(options or {})}
    names = {field.name: field for field in dataclasses.fields(Options)}
    for name, value in given.items():
        if name not in names:
            raise ValueError(f"the toroid backend has no option {name!r}; it has {', '.join(names)}")
        wanted = type(names[name].default)
        if not isinstance(value, wanted):
            raise ValueError(f"the option {name!r} is a {wanted.__name__}, not {value!r}")
    if mode in ("max-autotune", "max-autotune-no-cudagraphs"):
        given.setdefault("max_autotune", True)
    return Options(**given)
