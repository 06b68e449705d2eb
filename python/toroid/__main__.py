"""The command `toroid`: python -m toroid compile model.pt2 -o model.so"""

import sys


def main():
    """Runs the command with the arguments of the process; gives its exit status."""
    from toroid import _compiler, _core

    _core.clear_hooks()  # a command writes to stderr itself
    _compiler.choose()
    return _core.run_command(["toroid", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
