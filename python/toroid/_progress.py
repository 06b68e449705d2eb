"""A bar for what takes long: on a terminal one line of stderr, in a notebook tqdm's if that is installed."""

import sys
import threading
import time

from toroid import _core

_lock = threading.Lock()
_shown = []  # the innermost one is told
_QUIET_S = 1.0  # shorter work shows nothing


def _told(what, done, total):
    with _lock:
        bar = _shown[-1] if _shown else None
    if bar is not None:
        bar.advance(what, done, total)


_is_hooked = False


class Bar:
    """While a `with` block runs, progress is shown. shown None: where stderr is a terminal. shown may also be a function (what, done,
    total)."""

    def __init__(self, shown=None):
        self._function = shown if callable(shown) else None
        self._is_shown = sys.stderr.isatty() if shown is None else bool(shown)
        self._begin = time.monotonic()
        self._width = 0

    def __enter__(self):
        global _is_hooked
        if self._is_shown:
            if not _is_hooked:
                _is_hooked = True
                _core.set_progress(_told)
            with _lock:
                _shown.append(self)
        return self

    def __exit__(self, *_):
        if self._is_shown:
            with _lock:
                _shown.remove(self)
            if self._width:
                sys.stderr.write("\r" + " " * self._width + "\r")
                sys.stderr.flush()

    def advance(self, what, done, total):
        """Shows that `done` of `total` steps of `what` are done."""
        if self._function is not None:
            self._function(what, done, total)
            return
        if time.monotonic() - self._begin < _QUIET_S:
            return
        filled = int(30 * done / max(total, 1))
        line = f"toroid: {what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
        sys.stderr.write("\r" + line)
        sys.stderr.flush()
        self._width = max(self._width, len(line))
