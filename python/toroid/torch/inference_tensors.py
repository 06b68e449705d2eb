"""Writes to tensors that were made in inference mode, which are an error outside of it.

They count no versions, so nobody who keeps one for a gradient would notice. Dynamo compiles anew where an input becomes such a tensor, so
graphs without them check nothing.
"""

from __future__ import annotations

from typing import Callable

import torch
import torch.fx

from . import updates
from .runtime import CallError


def refuse_writes(gm: torch.fx.GraphModule, call: Callable[[list], list], of_inference: list) -> Callable[[list], list]:
    """The call of the graph; a CallError outside of inference mode if the graph writes to such an input. of_inference: by the positions of
    inputs, of others None."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    written = {node.args[0] for node in filter(updates.writes, gm.graph.nodes)}
    if len(placeholders) != len(of_inference) or not any(
        node in written for node, tensor in zip(placeholders, of_inference) if tensor is not None
    ):
        return call

    def checked(args: list) -> list:
        if not torch.is_inference_mode_enabled():
            raise CallError(
                "a tensor of inference mode is written to: Inplace update to inference tensor outside InferenceMode is not allowed\n"
                "  help: as in eager PyTorch, write to a clone of it, or call under torch.inference_mode()"
            )
        return call(args)

    checked._boxed_call = True
    return checked
