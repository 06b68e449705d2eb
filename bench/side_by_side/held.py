"""Holds all sides to a set of instructions: toroid by TOROID_MACHINE, its peers by CPUID (held_to.c), whether they have a switch or not."""

import os
import pathlib
import subprocess
import sys

SETS = ["avx2", "avx512", "avx512+vnni"]


def hold_to(isa, folder):
    """Starts this program anew under a library that hides the rest, compiled into the folder; once there, returns."""
    if os.environ.get("HELD_TO") == isa:
        return
    if not any("cpuid_fault" in line.split() for line in open("/proc/cpuinfo") if line.startswith("flags")):
        sys.exit(
            "error: no side can be held to fewer instructions: this machine has no CPUID faulting (cpuid_fault in /proc/cpuinfo)\n"
            "  help: time them without --isa, on a machine that has only these instructions"
        )
    source, library = pathlib.Path(__file__).with_name("held_to.c"), pathlib.Path(folder).resolve() / "held_to.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    held = {"LD_PRELOAD": str(library), "HELD_TO": isa, "TOROID_MACHINE": isa}
    os.execve(sys.executable, sys.orig_argv, {**os.environ, **held})


def without_library():
    """This process's environment for one that needs no library to be held."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
