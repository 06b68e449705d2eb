"""Which C++ compiler toroid takes: g++ or clang++, or where there is none Zig's clang, which PyPI has as `ziglang`."""

import importlib.util
import logging
import os
import shutil
import stat
import tempfile

_log = logging.getLogger("toroid")


def zig():
    """The path of the zig of the package ziglang; None where that is not installed."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = os.path.join(spec.submodule_search_locations[0], "zig")
    return path if os.access(path, os.X_OK) else None


# Zig writes the names of processors with underscores.
_SCRIPT = """#!/bin/sh
for argument do
  shift
  case $argument in
    -march=*-* | -mtune=*-*)
      name=${{argument#*=}}
      while [ "$name" != "${{name#*-}}" ]; do name=${{name%%-*}}_${{name#*-}}; done
      argument=${{argument%%=*}}=$name
      ;;
  esac
  set -- "$@" "$argument"
done
exec {} c++ "$@"
"""


def _wrapper(path):
    """A program that is `zig c++`, which toroid starts by one name. It stays as long as the user's temporary files."""
    folder = os.path.join(tempfile.gettempdir(), f"toroid-zig-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    info = os.stat(folder)
    if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        folder = tempfile.mkdtemp(prefix="toroid-zig-")
    name = os.path.join(folder, "clang++")
    text = _SCRIPT.format("'" + path.replace("'", "'\\''") + "'")
    try:
        with open(name) as file:
            if file.read() == text:
                return name
    except OSError:
        pass
    handle, new = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(new, 0o700)
    os.replace(new, name)
    return name


def choose():
    """Sets TOROID_CXX where the machine has no compiler but ziglang; says so in the log. Is it that one?"""
    global _chosen
    if os.environ.get("TOROID_CXX"):
        return os.environ["TOROID_CXX"] == _chosen
    if shutil.which("g++") or shutil.which("clang++") or zig() is None:
        return False
    _chosen = os.environ["TOROID_CXX"] = _wrapper(zig())
    _log.info("there is no g++ or clang++: compiling with %s c++", zig())
    return True


_chosen = None
