"""Calls of compiled backward passes, which Dynamo does not trace.

torch._dynamo.disable does that by Python around each call, which sets Dynamo's callback twice, and asks for the stance and for an export:
0.6 us. Here Dynamo is told once, of the code of this one function: its frame is skipped, and so is what it calls. 0.1 us.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch


def _around(call: Callable) -> Callable:
    def untraced(*arguments: Any) -> Any:
        return call(*arguments)

    return untraced


def _skip_frames() -> bool:
    """Tells Dynamo of the function's code, which all calls share. False: this version of PyTorch cannot be told."""
    try:
        from torch._C._dynamo.eval_frame import set_code_exec_strategy
        from torch._dynamo.types import FrameAction, FrameExecStrategy
    except ImportError:
        return False
    set_code_exec_strategy(_around(_around).__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))
    return True


_are_skipped = _skip_frames()


def untraced(call: Callable, reason: str) -> Callable:
    """The call. reason: what Dynamo says where it meets it in something that it traces, and so leaves it out."""
    if not _are_skipped:
        return torch._dynamo.disable(call, reason=reason)
    made = functools.wraps(call)(_around(call))
    made._torchdynamo_disable = made._torchdynamo_disable_recursive = True
    made._torchdynamo_disable_msg = reason
    return made
