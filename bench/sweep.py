"""Times single operators of about a million elements beside eager PyTorch: where is toroid more than twice as slow?

    bench/sweep.py [PATTERN ...] [--rounds N] [--threads N] [--json FILE]

Both sides get the same inputs and threads and are timed in turns; toroid's result is compared with eager's. The table goes from
the worst ratio to the best. Needs PyTorch, so it is run by hand; results: docs/measured/performance.md.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F
from side_by_side.exports import save_numbered
from side_by_side.report import cpu_name
from side_by_side.sides import KEEP_FREED_MEMORY, Called, Toroid, check_results

TOROID = pathlib.Path(__file__).resolve().parent.parent / "build" / "toroid"

N = 1024
CASES = {}


RANDOM = set()  # draws differ from PyTorch's: timed, not compared


def case(name, function, *inputs):
    CASES[name] = (function, inputs)


def random_case(name, function, *inputs):
    case(name, function, *inputs)
    RANDOM.add(name)


def r():
    return torch.randn(N, N)


def p():
    return torch.rand(N, N) * 0.98 + 0.01


def i():
    return torch.randint(-100, 100, (N, N))


def b():
    return torch.rand(N, N) > 0.5


def image():
    return torch.randn(4, 16, 128, 128)


def volume():
    return torch.randn(2, 8, 40, 40, 40)


def as_type(make, dtype):
    return lambda: make().to(dtype)


def below(n, *shape):
    return lambda: torch.randint(0, n, shape)


for name in """abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan sinh cosh tanh asinh atan erf erfc
        lgamma digamma sigmoid floor ceil round trunc frac sign sgn isnan isinf isfinite logical_not nan_to_num relu deg2rad sinc
        signbit isposinf special_i0 special_i0e special_i1 special_i1e special_ndtr special_log_ndtr special_erfcx special_bessel_j0
        special_bessel_y1 special_modified_bessel_k0""".split():
    function = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))
    positive = "log log2 log10 log1p sqrt rsqrt lgamma digamma special_bessel_y1 special_modified_bessel_k0".split()
    case(name, function, p if name in positive else r)
for name in "asin acos atanh erfinv logit".split():
    case(name, getattr(torch, name), p)
case("acosh", torch.acosh, lambda: p() + 1)
case("special_ndtri", torch.special.ndtri, p)
for name in """gelu silu mish softplus elu selu leaky_relu hardswish hardsigmoid logsigmoid softsign tanhshrink relu6 celu hardtanh
        hardshrink softshrink glu""".split():
    case(name, getattr(F, name), r)
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), r)
case("prelu", F.prelu, image, lambda: torch.rand(16))
for name in """add sub mul div maximum minimum fmax atan2 hypot fmod remainder logaddexp logaddexp2 eq lt ge logical_and logical_xor
        copysign nextafter floor_divide true_divide xlogy heaviside ldexp isclose""".split():
    case(name, getattr(torch, name), p if name in ("fmod", "remainder", "floor_divide", "xlogy") else r, p)
case("special_entr", torch.special.entr, p)
case("special_xlog1py", torch.special.xlog1py, r, p)
case("special_zeta", torch.special.zeta, lambda: p() + 2, p)
case("polygamma", lambda x: torch.polygamma(1, x), p)
case("igamma", torch.igamma, lambda: p() + 0.5, p)
case("pow", torch.pow, p, r)
case("pow_3", lambda x: x.pow(3), r)
case("where", torch.where, b, r, r)
case("clamp", lambda x: x.clamp(-1, 1), r)
case("lerp", lambda x, y: torch.lerp(x, y, 0.3), r, r)
case("addcmul", torch.addcmul, r, r, r)
case("addcdiv", torch.addcdiv, r, r, p)
case("add_row", torch.add, r, lambda: torch.randn(N))
case("add_column", torch.add, r, lambda: torch.randn(N, 1))
case("add_transposed", lambda x, y: x + y.t(), r, r)
case("gt_scalar", lambda x: x > 0.5, r)
case("gelu_backward", torch.ops.aten.gelu_backward, r, r)
case("tanh_backward", torch.ops.aten.tanh_backward, r, p)
case("masked_fill", lambda x, m: x.masked_fill(m, 0.0), r, b)
for name in "add mul floor_divide remainder fmod bitwise_and bitwise_xor bitwise_left_shift gcd maximum eq lt".split():
    case(f"{name}_i64", getattr(torch, name), i, lambda: torch.randint(1, 60, (N, N)))
case("abs_i64", torch.abs, i)
case("floor_divide_i64_scalar", lambda x: x // 7, i)
case("remainder_i64_scalar", lambda x: x % 7, i)
case("pow_2_i64", lambda x: x.pow(2), i)
case("div_i64", torch.div, i, lambda: torch.randint(1, 60, (N, N)))
case("remainder_i32", torch.remainder, as_type(i, torch.int32), lambda: torch.randint(1, 60, (N, N), dtype=torch.int32))
case("add_u8", torch.add, as_type(below(100, N, N), torch.uint8), as_type(below(100, N, N), torch.uint8))
case("logical_and_bool", torch.logical_and, b, b)
case("where_i64", torch.where, b, i, i)
for name, make, dtype in [
    ("f32_to_bf16", r, torch.bfloat16), ("f32_to_f16", r, torch.float16), ("f32_to_i64", r, torch.int64), ("f32_to_bool", r, torch.bool),
    ("bf16_to_f32", as_type(r, torch.bfloat16), torch.float32), ("f16_to_f32", as_type(r, torch.float16), torch.float32),
    ("i64_to_f32", i, torch.float32), ("bool_to_f32", b, torch.float32),
]:  # fmt: skip
    case(f"cast_{name}", lambda x, dtype=dtype: x.to(dtype), make)
for name, dtype in [("bf16", torch.bfloat16), ("f16", torch.float16)]:
    half = as_type(r, dtype)
    for op in (torch.add, torch.mul, torch.maximum):
        case(f"{op.__name__}_{name}", op, half, half)
    for op in (torch.exp, torch.tanh, F.gelu, F.silu, torch.relu):
        case(f"{op.__name__}_{name}", op, half)
    case(f"sum_dim1_{name}", lambda x: x.sum(1), half)
    case(f"amax_dim1_{name}", lambda x: x.amax(1), half)
    case(f"softmax_dim1_{name}", lambda x: x.softmax(1), half)
    case(f"layer_norm_{name}", lambda x: F.layer_norm(x, (N,)), half)
case("exp_f64", torch.exp, as_type(r, torch.float64))
case("sum_dim1_f64", lambda x: x.sum(1), as_type(r, torch.float64))

for name in "sum mean prod amax amin var std norm logsumexp any all argmax argmin median nansum count_nonzero".split():
    for dim in (0, 1):
        function = getattr(torch, name)
        if name == "logsumexp":
            case(f"{name}_dim{dim}", lambda x, dim=dim: torch.logsumexp(x, dim), r)
        elif name == "median":
            case(f"{name}_dim{dim}", lambda x, dim=dim: torch.median(x, dim).values, r)
        else:
            case(f"{name}_dim{dim}", lambda x, f=function, dim=dim: f(x, dim=dim), b if name in ("any", "all") else r)
    if name not in ("logsumexp", "median"):
        case(f"{name}_full", lambda x, f=function: f(x), b if name in ("any", "all") else r)
for dim in (0, 1):
    case(f"sum_i64_dim{dim}", lambda x, dim=dim: x.sum(dim), i)
    case(f"amax_i64_dim{dim}", lambda x, dim=dim: x.amax(dim), i)
    case(f"max_indices_dim{dim}", lambda x, dim=dim: torch.max(x, dim), r)
    case(f"var_mean_dim{dim}", lambda x, dim=dim: torch.var_mean(x, dim), r)
    case(f"norm_1_dim{dim}", lambda x, dim=dim: torch.linalg.vector_norm(x, 1, dim), r)
    case(f"norm_inf_dim{dim}", lambda x, dim=dim: torch.linalg.vector_norm(x, float("inf"), dim), r)
    case(f"norm_3_dim{dim}", lambda x, dim=dim: torch.linalg.vector_norm(x, 3, dim), r)
    case(f"mode_dim{dim}", lambda x, dim=dim: torch.mode(x, dim).values, i)
    case(f"kthvalue_dim{dim}", lambda x, dim=dim: torch.kthvalue(x, 100, dim).values, r)
case("sum_i64_full", torch.sum, i)
case("amax_i64_full", torch.amax, i)
case("logsumexp_full", lambda x: torch.logsumexp(x, (0, 1)), r)
case("median_full", torch.median, r)
case("aminmax_full", torch.aminmax, r)
case("nanmedian_dim1", lambda x: torch.nanmedian(x, 1).values, r)
case("sum_middle", lambda x: x.sum(1), lambda: torch.randn(64, 128, 128))
case("mean_image", lambda x: x.mean((2, 3)), image)
case("var_channels", lambda x: x.var((0, 2, 3)), image)
case("dist", torch.dist, r, r)
case("trace", torch.trace, r)
case("diff", torch.diff, r)
case("softmax_dim0", lambda x: x.softmax(0), r)
case("softmax_dim1", lambda x: x.softmax(1), r)
case("log_softmax_dim1", lambda x: x.log_softmax(1), r)
case("layer_norm", lambda x: F.layer_norm(x, (N,)), r)
case("batch_norm_train", lambda x: F.batch_norm(x, None, None, training=True), image)
case("group_norm", lambda x: F.group_norm(x, 4), image)
case("instance_norm", F.instance_norm, image)
case("softmax_backward", lambda g, y: torch.ops.aten._softmax_backward_data(g, y.softmax(1), 1, torch.float32), r, r)
case("layer_norm_backward", lambda g, x, w: torch.ops.aten.native_layer_norm_backward(
    g, x, [N], x.mean(1, keepdim=True), x.var(1, keepdim=True).rsqrt(), w, w, [True, True, True]), r, r, lambda: torch.randn(N))
case("batch_norm_backward", lambda g, x, w: torch.ops.aten.native_batch_norm_backward(
    g, x, w, None, None, x.mean((0, 2, 3)), x.var((0, 2, 3)).rsqrt(), True, 1e-5, [True, True, True]), image, image, lambda: torch.rand(16))
case("cdist", lambda x, y: torch.cdist(x, y), lambda: torch.randn(1000, 16), lambda: torch.randn(1000, 16))

case("logcumsumexp_flat", lambda x: torch.logcumsumexp(x, 0), lambda: torch.randn(N * N))
for dim in (0, 1):
    for name in "cumsum cumprod cummax cummin logcumsumexp".split():
        case(f"{name}_dim{dim}", lambda x, f=getattr(torch, name), dim=dim: f(x, dim), r)
    case(f"sort_dim{dim}", lambda x, dim=dim: torch.sort(x, dim).values, r)
    case(f"topk_dim{dim}", lambda x, dim=dim: torch.topk(x, 10, dim).values, r)
    case(f"gather_dim{dim}", lambda x, k, dim=dim: torch.gather(x, dim, k), r, below(N, N, N))
    case(f"scatter_dim{dim}", lambda x, k, s, dim=dim: torch.scatter(x, dim, k, s), r, lambda dim=dim: torch.argsort(r(), dim), r)
    for name in "prod mean amax amin".split():
        case(f"scatter_{name}_dim{dim}", lambda x, k, s, dim=dim, name=name: torch.scatter_reduce(x, dim, k, s, name), r, below(N, N, N), r)
    case(f"scatter_add_dim{dim}", lambda x, k, s, dim=dim: torch.scatter_add(x, dim, k, s), r, below(N, N, N), r)
    case(f"index_select_dim{dim}", lambda x, k, dim=dim: torch.index_select(x, dim, k), r, below(N, N))
    case(f"index_add_dim{dim}", lambda x, k, s, dim=dim: torch.index_add(x, dim, k, s), r, below(N, N), r)
    case(f"index_copy_dim{dim}", lambda x, k, s, dim=dim: torch.index_copy(x, dim, k, s), r, lambda: torch.randperm(N), r)
    case(f"index_fill_dim{dim}", lambda x, k, dim=dim: torch.index_fill(x, dim, k, 2.0), r, lambda: torch.randperm(N)[:512])
    case(f"index_reduce_amax_dim{dim}", lambda x, k, s, dim=dim: torch.index_reduce(x, dim, k, s, "amax"), r, below(N, N), r)
    case(f"flip_dim{dim}", lambda x, dim=dim: x.flip(dim), r)
    case(f"roll_dim{dim}", lambda x, dim=dim: x.roll(7, dim), r)
    case(f"cat_dim{dim}", lambda x, y, dim=dim: torch.cat([x, y], dim), r, r)
flat = lambda: torch.randn(N * N)  # noqa: E731
case("cumsum_flat", lambda x: x.cumsum(0), flat)
case("cummax_flat", lambda x: x.cummax(0), flat)
case("cumsum_i64_dim1", lambda x: x.cumsum(1), i)
case("cumsum_bool_dim1", lambda x: x.cumsum(1), b)
case("cumsum_middle", lambda x: x.cumsum(1), lambda: torch.randn(64, 128, 128))
case("sort_flat", lambda x: x.sort().values, flat)
case("topk_flat", lambda x: x.topk(100).values, flat)
case("topk_50_of_32000", lambda x: x.topk(50).values, lambda: torch.randn(32, 32000))
case("scatter_add_flat", lambda x, k, s: x.scatter_add(0, k, s), lambda: torch.zeros(1000), below(1000, N * N), flat)
case("scatter_add_flat_large", lambda x, k, s: x.scatter_add(0, k, s), flat, below(N * N, N * N), flat)
case("sort_i64", lambda x: torch.sort(x, 1).values, i)
case("argsort", lambda x: torch.argsort(x, 1), lambda: torch.stack([torch.randperm(N) for _ in range(N)]).float())  # no ties
case("searchsorted", torch.searchsorted, lambda: torch.randn(N).sort().values, r)
case("bucketize", torch.bucketize, r, lambda: torch.randn(64).sort().values)
case("histc", lambda x: torch.histc(x, 100, -3, 3), r)
case("bincount", lambda x: torch.bincount(x, minlength=1000), below(1000, N * N))
case("bincount_weights", lambda x, w: torch.bincount(x, w, minlength=1000), below(1000, N * N), flat)
case("histogram", lambda x: torch.histogram(x, 100, range=(-3.0, 3.0)).hist, r)
case("isin", torch.isin, i, lambda: torch.arange(50))
case("nonzero", torch.nonzero, b)
case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), r, b, r)
case("masked_select", torch.masked_select, r, b)
case("unique", lambda x: torch.unique(x), lambda: torch.randint(0, 1000, (N * N,)))
case("index_put", lambda x, k, s: x.index_put((k,), s), r, lambda: torch.randperm(N)[:512], lambda: torch.randn(512, N))
case("index_put_mask", lambda x, m: x.index_put((m,), torch.tensor(2.0)), r, b)
case("index_put_accumulate", lambda x, k, s: x.index_put((k,), s, accumulate=True), r, below(N, 512), lambda: torch.randn(512, N))
case("index_put_pairs", lambda x, k, m, s: x.index_put((k, m), s), r, below(N, 4096), below(N, 4096), lambda: torch.zeros(4096))
case("index_put_pairs_accumulate", lambda x, k, m, s: x.index_put((k, m), s, accumulate=True), r, below(N, N * N), below(N, N * N), flat)
case("index_rows", lambda x, k: x[k], r, below(N, N))
case("index_columns", lambda x, k: x[:, k], r, below(N, N))
case("index_pairs", lambda x, k, m: x[k, m], r, below(N, N * N), below(N, N * N))
case("take", torch.take, r, below(N * N, N * N))
case("put", lambda x, k, s: x.put(k, s), r, lambda: torch.randperm(N * N), flat)
case("slice_scatter", lambda x, s: torch.slice_scatter(x, s, 0, 0, 512), r, lambda: torch.randn(512, N))
case("unique_consecutive", lambda x: torch.unique_consecutive(x), lambda: torch.randint(0, 3, (N * N,)))
case("embedding_backward", lambda g, k: torch.ops.aten.embedding_dense_backward(g, k, 30000, -1, False),
     lambda: torch.randn(16384, 64), below(30000, 16384))
case("embedding", lambda w, k: F.embedding(k, w), lambda: torch.randn(30000, 64), below(30000, 16384))
case("embedding_bag", lambda w, k: F.embedding_bag(k, w), lambda: torch.randn(30000, 64), below(30000, 1024, 16))
case("transpose", lambda x: x.t().contiguous(), r)
case("permute_nchw_nhwc", lambda x: x.permute(0, 2, 3, 1).contiguous(), image)
case("pad_constant", lambda x: F.pad(x, (3, 3, 3, 3)), image)
case("pad_reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), image)
case("pad_replicate", lambda x: F.pad(x, (3, 3, 3, 3), mode="replicate"), image)
case("pad_circular", lambda x: F.pad(x, (3, 3, 3, 3), mode="circular"), image)
case("pad_reflect_1d", lambda x: F.pad(x, (3, 3), mode="reflect"), lambda: torch.randn(16, 64, N))
case("pad_replicate_3d", lambda x: F.pad(x, (2, 2, 2, 2, 2, 2), mode="replicate"), volume)
case("tril", torch.tril, r)
case("diag_embed", torch.diag_embed, lambda: torch.randn(16, 256))
case("rot90", lambda x: torch.rot90(x).contiguous(), r)  # eager flips, and turns only the strides
case("stack", lambda x, y: torch.stack([x, y], 1), r, r)
case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), r)

for rank, make in ((1, lambda: torch.randn(16, 64, N)), (2, image), (3, volume)):
    pool = lambda name, rank=rank: getattr(F, f"{name}{rank}d")  # noqa: E731
    case(f"max_pool{rank}d", lambda x, f=pool("max_pool"): f(x, 3, 2, 1), make)
    case(f"max_pool{rank}d_indices", lambda x, f=pool("max_pool"): f(x, 3, 2, 1, return_indices=True), make)
    case(f"avg_pool{rank}d", lambda x, f=pool("avg_pool"): f(x, 3, 2, 1), make)
    case(f"adaptive_avg_pool{rank}d", lambda x, f=pool("adaptive_avg_pool"): f(x, 7), make)
    case(f"adaptive_max_pool{rank}d", lambda x, f=pool("adaptive_max_pool"): f(x, 7), make)
    case(f"lp_pool{rank}d", lambda x, f=pool("lp_pool"): f(x.abs() + 0.1, 2, 3), make)
def pooled_indices():
    return F.max_pool2d(image(), 2, return_indices=True)[1]


case("max_unpool2d", lambda x, k: F.max_unpool2d(x, k, 2), lambda: torch.randn(4, 16, 64, 64), pooled_indices)
case("max_pool2d_backward", lambda g, x, k: torch.ops.aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, k),
     lambda: torch.randn(4, 16, 64, 64), image, pooled_indices)
case("avg_pool2d_backward", lambda g, x: torch.ops.aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, True, None),
     lambda: torch.randn(4, 16, 64, 64), image)
case("adaptive_avg_pool2d_backward", torch.ops.aten._adaptive_avg_pool2d_backward, lambda: torch.randn(4, 16, 7, 7), image)
case("avg_pool3d_backward", lambda g, x: torch.ops.aten.avg_pool3d_backward(g, x, [2] * 3, [2] * 3, [0] * 3, False, True, None),
     lambda: torch.randn(2, 8, 20, 20, 20), volume)
random_case("fractional_max_pool2d", lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.6)), image)
for mode in "nearest nearest-exact bilinear bicubic".split():
    case(f"upsample_{mode}", lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), image)
case("upsample_linear", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), lambda: torch.randn(16, 64, N))
case("upsample_trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), lambda: torch.randn(2, 8, 24, 24, 24))
case("upsample_bilinear_corners", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), image)
case("upsample_bilinear_aa", lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True), image)
case("upsample_nearest_backward", lambda g: torch.ops.aten.upsample_nearest2d_backward(g, [128, 128], [4, 16, 64, 64]), image)
case("upsample_bilinear_backward", lambda g: torch.ops.aten.upsample_bilinear2d_backward(g, [128, 128], [4, 16, 64, 64], False), image)
case("grid_sample", lambda x, g: F.grid_sample(x, g), image, lambda: torch.rand(4, 128, 128, 2) * 2 - 1)
case("unfold", lambda x: F.unfold(x, 3, padding=1), image)
case("fold", lambda x: F.fold(x, (128, 128), 3, padding=1), lambda: torch.randn(1, 16 * 9, 128 * 128))
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 4), image)
case("cross_entropy", lambda x, k: F.cross_entropy(x, k), r, below(N, N))
case("mse_loss", F.mse_loss, r, r)
case("smooth_l1_loss", F.smooth_l1_loss, r, r)
case("bce_with_logits", F.binary_cross_entropy_with_logits, r, p)
case("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), r, p)

random_case("rand", lambda: torch.rand(N, N))
random_case("randn", lambda: torch.randn(N, N))
random_case("randint", lambda: torch.randint(0, 100, (N, N)))
random_case("randperm", lambda: torch.randperm(N * N))
random_case("bernoulli", torch.bernoulli, p)
random_case("dropout", lambda x: F.dropout(x, 0.5, training=True), r)
random_case("normal", lambda m, s: torch.normal(m, s), r, p)
random_case("exponential", lambda x: x.clone().exponential_(2.0), r)
random_case("cauchy", lambda x: x.clone().cauchy_(), r)
random_case("geometric", lambda x: x.clone().geometric_(0.3), r)
random_case("poisson_small", torch.poisson, lambda: p() * 4)
random_case("poisson_large", torch.poisson, lambda: p() * 40 + 10)
random_case("binomial", torch.binomial, lambda: torch.full((N, N), 30.0), p)
random_case("gamma", torch._standard_gamma, lambda: p() * 3 + 0.1)
random_case("dirichlet", torch._sample_dirichlet, lambda: p() * 3 + 0.1)
random_case("multinomial", lambda w: torch.multinomial(w, 100), p)
random_case("multinomial_replacement", lambda w: torch.multinomial(w, 100, replacement=True), p)


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return tuple(torch.utils._pytree.tree_leaves(self.function(*args)))  # named tuples do not export


def time_case(name, options):
    function, makers = CASES[name]
    torch.manual_seed(0)
    args = tuple(make() for make in makers)
    with tempfile.TemporaryDirectory() as scratch:
        module = Module(function)
        model = os.path.join(scratch, "case.pt2")
        torch.export.save(torch.export.export(module, args, strict=False), model)
        inputs = os.path.join(scratch, "in.safetensors")
        save_numbered(args, "in", inputs)
        toroid = Toroid(TOROID, model, inputs, options.threads, scratch)
        eager = Called(function, args)
        if name not in RANDOM:
            check_results(toroid.outputs(), eager.outputs())
        rounds = {"eager": [], "toroid": []}
        for _ in range(options.rounds):
            time.sleep(0.02)
            rounds["eager"].append(eager.median_ms(options.seconds / 2))
            time.sleep(0.02)
            rounds["toroid"].append(toroid.median_ms(options.seconds))
    return {side: statistics.median(times) for side, times in rounds.items()}


def keep_freed_memory():
    """Starts again with an allocator that keeps what is freed."""
    if not KEEP_FREED_MEMORY.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_FREED_MEMORY})


def main():
    keep_freed_memory()
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.2, help="of toroid's calls in each round; eager gets half")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    results, failures = {}, {}
    for name in CASES:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.patterns):
            continue
        try:
            results[name] = time_case(name, options)
            print(name, results[name], file=sys.stderr, flush=True)
        except Exception as error:
            failures[name] = str(error).splitlines()[0][:200]
            print(name, failures[name], file=sys.stderr, flush=True)
    slow = [name for name, t in results.items() if t["toroid"] > 2 * t["eager"]]
    print(f"{cpu_name()}, {options.threads} threads, PyTorch {torch.__version__}: {len(results)} operators, {len(slow)} slower than twice")
    print("eager's time.\n\n| operator | eager, ms | toroid, ms | toroid / eager |\n|---|---:|---:|---:|")
    for name, t in sorted(results.items(), key=lambda each: -each[1]["toroid"] / each[1]["eager"]):
        print(f"| {name} | {t['eager']:.3f} | {t['toroid']:.3f} | {t['toroid'] / t['eager']:.2f} |")
    for name, error in failures.items():
        print(f"\n{name}: {error}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"results": results, "failures": failures}, file)


if __name__ == "__main__":
    main()
