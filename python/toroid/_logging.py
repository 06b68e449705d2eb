"""toroid's diagnostics as records of logging.getLogger("toroid")."""

import atexit
import logging
import os

from toroid import _core

logger = logging.getLogger("toroid")
_LEVELS = {1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR}


def _write(level, line):
    logger.log(_LEVELS.get(level, logging.INFO), "%s", line)


def start():
    """TOROID_LOG sets the logger's level where the program has set none: off, error, warn, info, debug."""
    wanted = os.environ.get("TOROID_LOG", "")
    level = {
        "off": logging.CRITICAL + 1,
        "error": logging.ERROR,
        "warn": logging.WARNING,
        "info": logging.INFO,
        "debug": logging.DEBUG,
    }.get(wanted)
    if level is not None and logger.level == logging.NOTSET:
        logger.setLevel(level)
    _core.set_log(_write, 1)
    atexit.register(_core.clear_hooks)
