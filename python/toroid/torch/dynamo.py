"""The backend of torch.compile: ``torch.compile(model, backend="toroid")``."""

from __future__ import annotations

import dataclasses
import operator
import os
from typing import Any, Callable

import torch
import torch.fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

from . import attention, attention_dropout, common_subexpressions, updates
from .compile import compile_fx_graph
from .inference_tensors import refuse_writes
from .nodes import WRITTEN_LATER, base_of, is_update
from .options import read_options
from .untraced import untraced

if torch.__version__ < (2, 11):
    from torch._subclasses.fake_impls import get_fast_op_impls

    # PyTorch 2.9's quick way gives quotients of integers with symbolic sizes as integers; without it, the slow one is taken.
    get_fast_op_impls().pop(torch.ops.aten.div.Tensor, None)


def _is_full_graph() -> bool:
    """Whether torch.compile was asked for fullgraph=True: Dynamo is at work, and knows."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        return bool(getattr(InstructionTranslator.current_tx(), "one_graph", False))
    except AttributeError:
        return False


def _given(gm: torch.fx.GraphModule, example_inputs: list) -> tuple[list, list]:
    """Of the inputs that AOTAutograd's graph will have, the parameters and buffers of modules, and the tensors of inference mode. None in
    the places of others."""
    parameters: list = [*gm.parameters(), *gm.buffers()]
    given = [*parameters, *example_inputs]
    for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs):
        is_static = "_dynamo_static_input_type" in node.meta.get("tensor_dict", {}) or isinstance(example, torch.nn.Parameter)
        parameters.append(example if is_static and isinstance(example, torch.Tensor) else None)
    return parameters, [each if isinstance(each, torch.Tensor) and each.is_inference() else None for each in given]


def _partition(keeps_random: bool) -> Callable:
    """PyTorch's min-cut partitioner. Of checkpointed regions it computes all anew but what random operators gave, which is kept: they
    would have to draw the same numbers again. keeps_random: they run in eager PyTorch, which does draw them again."""

    def partition(joint: torch.fx.GraphModule, *arguments: Any, **named: Any) -> Any:
        attention.mark(joint)
        attention_dropout.mark(joint)
        _keep_what_is_compared(joint)
        _keep_what_both_write_to(joint)
        _drop_what_batch_norm_ignores(joint)
        if not keeps_random:
            for node in joint.graph.nodes:
                if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
                    _keep(node)
        return _cut(joint, *arguments, **named)

    return partition


def _cut(joint: torch.fx.GraphModule, *arguments: Any, **named: Any) -> Any:
    """PyTorch's own merging of equal nodes, before the cut, loads all that Inductor lowers: a second of the first step. It is left to
    graphs whose operators write to memory."""
    joint.graph.eliminate_dead_code()
    is_merged = not common_subexpressions.writes_to_memory(joint.graph)
    if is_merged and functorch_config.cse:
        common_subexpressions.merge(joint.graph)
    with functorch_config.patch(cse=functorch_config.cse and not is_merged):
        return min_cut_rematerialization_partition(joint, *arguments, **named)


def _keep_what_is_compared(joint: torch.fx.GraphModule) -> None:
    """A gradient of an extremum goes to what equals it: x == x.amax(). If x were computed anew, by another kernel, it might differ in its
    last bit, and nothing would."""
    for node in joint.graph.nodes:
        if node.target in (torch.ops.aten.eq.Tensor, torch.ops.aten.ne.Tensor):
            for each in node.all_input_nodes:
                value = each.meta.get("val")
                if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
                    kept = base_of(each)
                    if kept.op == "call_function":
                        _keep(kept)


def _keep_what_both_write_to(joint: torch.fx.GraphModule) -> None:
    """The backward pass needs an input that it writes to, and not its value, where the forward pass has written to it too. What reads that
    reads a copy."""
    written = [node.args[0] for node in filter(is_update, joint.graph.nodes)]
    first = next(node for node in joint.graph.nodes if node.op != "placeholder")
    for given in {each for each in written if written.count(each) > 1}:
        given.meta[WRITTEN_LATER] = True
        copy = updates.copied(joint.graph, given, first)
        given.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy and user.op != "output" and not is_update(user))
        for update in filter(is_update, list(given.users)):
            update.args = (given, copy if update.args[1] is given else update.args[1], *update.args[2:])
        _keep(copy)


def _drop_what_batch_norm_ignores(joint: torch.fx.GraphModule) -> None:
    """In training its gradient takes the running statistics and does not read them, nor the weight where the batch needs no gradient:
    nobody keeps them for it."""
    for node in joint.graph.nodes:
        if node.target is torch.ops.aten.native_batch_norm_backward.default and node.args[7] is True:
            gradient, batch, weight, _, _, mean, deviation, *others, wanted = node.args
            if isinstance(weight, torch.fx.Node) and not wanted[0] and weight.meta["val"].dtype == batch.meta["val"].dtype:
                weight = None  # of another dtype it tells that of its gradient
            node.args = (gradient, batch, weight, None, None, mean, deviation, *others, wanted)


def _keep(node: torch.fx.Node) -> None:
    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for user in node.users:
        if user.target is operator.getitem:
            _keep(user)


def _through_autograd(gm: torch.fx.GraphModule, example_inputs: list, **how: Any) -> Callable:
    """As torch._dynamo's aot_autograd does, which loads Inductor's scheduler for a log that TORCH_COMPILE_DEBUG asks for: 0.2 s of the
    first call."""
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1" or any(isinstance(each, (list, tuple, dict)) for each in example_inputs):
        return aot_autograd(**how)(gm, example_inputs)
    compile_backward = how["bw_compiler"]

    def compile_untraced(*arguments: Any) -> Callable:
        compiled = torch._dynamo.disable(compile_backward, reason="it compiles the backward pass")(*arguments)
        return untraced(compiled, "it is compiled")

    counters["aot_autograd"]["total"] += 1
    try:
        call = aot_module_simplified(gm, example_inputs, **how | {"bw_compiler": compile_untraced})
    except TensorifyScalarRestartAnalysis:
        raise
    except Exception:
        counters["aot_autograd"]["not_ok"] += 1
        raise
    counters["aot_autograd"]["ok"] += 1
    return torch._dynamo.disable(call, reason="it is compiled")  # Dynamo takes it off, and puts one of its own around the call


def backend(
    gm: torch.fx.GraphModule, example_inputs: list, *, mode: str | None = None, options: dict | None = None, **kwargs: Any
) -> Callable:
    """Compiles what Dynamo found, with AOTAutograd between: inference, or the forward and the backward pass of training.

    ``mode`` and ``options`` are those of ``torch.compile``; docs/torch-compile.md lists them.
    """
    chosen = read_options(mode, options, kwargs)
    if _is_full_graph():
        chosen = dataclasses.replace(chosen, fallback=False)

    parameters, of_inference = _given(gm, example_inputs)

    def compiler(kind: str) -> Callable:
        def compile(graph: torch.fx.GraphModule, inputs: list) -> Callable:
            call = compile_fx_graph(graph, inputs, kind, chosen, parameters if chosen.freezing else None)
            return call if kind == "backward" else refuse_writes(graph, call, of_inference)

        return compile

    return _through_autograd(
        gm,
        example_inputs,
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=_partition(chosen.fallback_random),
        keep_inference_input_mutations=True,
    )
