"""Rows on more than caches hold, as large_NAME: what memory bounds, beside the bandwidth of a copy."""

from .rows import LONG, Row, classes, normal

LARGE = {
    "pointwise_gelu_chain": (normal(8 * LONG), normal(8 * LONG)),
    "softmax": (normal(8192, 4096),),
    "layernorm_residual_gelu": (normal(16384, 2048), normal(16384, 2048), normal(2048), normal(2048)),
    "rmsnorm": (normal(16384, 2048), normal(2048)),
    "sum_dim0": (normal(32768, 1024),),
    "full_sum_sq": (normal(8 * LONG),),
    "cross_entropy": (normal(1024, 32000), classes(32000, 1024)),
    "transpose_add": (normal(8192, 4096), normal(4096, 8192)),
}

LARGE_ROWS = ["large_" + name for name in LARGE]


def build_row(name):
    """(module, inputs), the same at each call."""
    small = name.removeprefix("large_")
    module = Row(small)
    module.make_inputs = LARGE[small]
    return module, module.inputs()
