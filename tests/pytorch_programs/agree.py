"""When two results are the same: tolerances, and noise that shows what rounding decides."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

# Relative, of an element and of the tensor's largest one; what one operator's other order of sums may bring.
RELATIVE = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
ABSOLUTE = {torch.float64: 1e-10, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}

# Operators that move or choose numbers but round none.
EXACT = {
    "aten::" + name for name in """view _unsafe_view reshape transpose permute expand slice select unsqueeze squeeze t detach clone contiguous alias as_strided unbind split chunk
    split_with_sizes diagonal unfold flip roll rot90 repeat tile cat stack index index_select gather take narrow copy copy_ fill fill_ zero_ zeros ones full arange empty
    zeros_like ones_like full_like new_zeros relu neg abs where masked_fill masked_fill_ max min amax amin sort topk maximum minimum clamp clamp_min clamp_max eq ne lt le gt ge
    constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d max_pool2d_with_indices scatter index_fill index_copy tril triu
    slice_scatter select_scatter diagonal_scatter sign signbit isnan isinf floor ceil trunc round isfinite nonzero masked_select unique _unique2 lift_fresh_copy lift_fresh
    _reshape_alias unsqueeze_ squeeze_ transpose_ view_as_real view_as_complex cummax cummin kthvalue median nanmedian mode argmax argmin scalar_tensor diag_embed
    _local_scalar_dense embedding searchsorted bucketize""".split()}


def tensors_in(values):
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


class NoiseMode(TorchDispatchMode):
    """Moves every result of an inexact operator by up to two units in the last place.

    With `saturate`, also replaces 16-bit infinities that finite operands overflow to: a compiled kernel computes in float32 and may not overflow.
    """

    def __init__(self, seed, saturate):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.saturate = saturate

    def moved(self, value):
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()) or value.numel() == 0:
            return value
        if value.is_complex():
            torch.view_as_real(value).copy_(self.moved(torch.view_as_real(value).clone()))
            return value
        units = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 4 - 2
        # In place, so that views and in-place operators keep their storage. Expanded values are left alone.
        if all(stride != 0 or size == 1 for stride, size in zip(value.stride(), value.shape)):
            moved = (value.double() * (1 + units * torch.finfo(value.dtype).eps)).to(value.dtype)
            value.copy_(torch.where(torch.isfinite(moved), moved, value))
        return value

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        finite = self.saturate and all(value.isfinite().all() for value in tensors_in((args, kwargs)) if value.is_floating_point())
        result = function(*args, **(kwargs or {}))
        if finite:
            for value in tensors_in(result):
                if value.dtype in (torch.float16, torch.bfloat16) and value.isinf().any():
                    value.clamp_(torch.finfo(value.dtype).min, torch.finfo(value.dtype).max)
        if function._schema.name in EXACT:
            return result
        return tree_map(self.moved, result)


def differences(got, expected, noisy):
    """(why they differ or None, how many elements were compared)"""
    if got is None:
        return "missing", 0
    if tuple(got.shape) != tuple(expected.shape) or got.dtype != expected.dtype:
        return f"is {got.dtype} {tuple(got.shape)}, expected {expected.dtype} {tuple(expected.shape)}", 0
    if expected.numel() == 0:
        return None, 0
    if not expected.is_floating_point():
        stable = torch.ones_like(expected, dtype=torch.bool)
        for run in noisy:
            stable &= run == expected
        wrong = stable & (got != expected)
        allowed = None
    else:
        g, e = got.double(), expected.double()
        finite = e.isfinite()
        spread = torch.zeros_like(e)
        stable = torch.ones_like(e, dtype=torch.bool)
        for run in noisy:
            run = run.double()
            stable &= (run.isfinite() == finite) & (run.isnan() == e.isnan()) & (finite | e.isnan() | (run == e))
            spread = torch.maximum(spread, torch.where(finite & run.isfinite(), (run - e).abs(), 0.0))
        largest = e[finite].abs().max().item() if finite.any() else 0.0
        allowed = RELATIVE[expected.dtype] * e.abs() + ABSOLUTE[expected.dtype] * largest + 6 * spread
        same = torch.where(finite, (g - e).abs() <= allowed, (g == e) | (g.isnan() & e.isnan()))
        wrong = stable & ~same
    count = int(stable.sum())
    if not wrong.any():
        return None, count
    at = tuple(wrong.nonzero()[0].tolist())
    text = f"{int(wrong.sum())} of {expected.numel()} differ, at {list(at)}: {got[at].item()}, expected {expected[at].item()}"
    if allowed is not None:
        text += f" (allowed {allowed[at].item():.3g})"
    return text + f", {expected.dtype}", count
