"""Checks in processes of their own, several at a time: one that dies, or loses its GPU, costs none of the others."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator


def each_in_a_process(names: Iterable[str], jobs: int, check: Callable[[str], object]) -> Iterator[tuple[str, object, int]]:
    """Of each name, in the order in which they end: the name, what `check` returned, through JSON, and the signal that ended the process,
    with None, or 0. Processes are forked, so nobody may have used CUDA before. One without a result in another way is as if by signal 6."""
    running: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder:

        def start(name: str) -> None:
            pid = os.fork()
            if pid:
                running[pid] = name
                return
            status = 1
            try:
                found = check(name)
                with open(os.path.join(folder, str(os.getpid())), "w") as file:
                    json.dump(found, file)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

        def ended() -> tuple[str, object, int]:
            pid, status = os.wait()
            name, path = running.pop(pid), os.path.join(folder, str(pid))
            if status:
                return name, None, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 6
            with open(path) as file:
                found = json.load(file)
            os.unlink(path)
            return name, found, 0

        for name in names:
            while len(running) >= jobs:
                yield ended()
            start(name)
        while running:
            yield ended()
