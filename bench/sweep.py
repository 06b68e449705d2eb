"""Times single operators of about a million elements beside eager PyTorch: where is toroid more than twice as slow?

    bench/sweep.py [PATTERN ...] [--rounds N] [--threads N] [--json FILE]

Both sides get the same inputs and threads and are timed in turns; toroid's result is compared with eager's. The table goes from
the worst ratio to the best. Needs PyTorch, so it is run by hand; results: docs/performance.md.
"""

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F
from peers import ToroidSide, TorchSide, cpu_name, keep_freed_memory, median

N = 1024
CASES = {}


def case(name, function, *inputs):
    CASES[name] = (function, inputs)


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


def below(n, *shape):
    return lambda: torch.randint(0, n, shape)


for name in """abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan sinh cosh tanh asinh atan erf erfc
        lgamma digamma sigmoid floor ceil round trunc frac sign sgn isnan isinf isfinite logical_not nan_to_num relu deg2rad sinc
        special_i0 special_i1 special_ndtr special_erfcx""".split():
    function = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"))
    case(name, function, p if name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma") else r)
for name in "asin acos atanh erfinv logit".split():
    case(name, getattr(torch, name), p)
for name in "gelu silu mish softplus elu selu leaky_relu hardswish hardsigmoid logsigmoid softsign tanhshrink relu6 celu".split():
    case(name, getattr(F, name), r)
for name in """add sub mul div maximum minimum atan2 hypot fmod remainder logaddexp eq lt ge logical_and copysign nextafter floor_divide
        true_divide xlogy heaviside""".split():
    case(name, getattr(torch, name), p if name in ("fmod", "remainder", "floor_divide", "xlogy") else r, p)
case("special_entr", torch.special.entr, p)
case("pow", torch.pow, p, r)
case("pow_3", lambda x: x.pow(3), r)
case("where", torch.where, b, r, r)
case("clamp", lambda x: x.clamp(-1, 1), r)
case("lerp", lambda x, y: torch.lerp(x, y, 0.3), r, r)
case("addcmul", torch.addcmul, r, r, r)
case("masked_fill", lambda x, m: x.masked_fill(m, 0.0), r, b)
for name in "add mul floor_divide remainder bitwise_and bitwise_xor gcd maximum".split():
    case(f"{name}_i64", getattr(torch, name), i, lambda: torch.randint(1, 100, (N, N)))
case("to_bf16", lambda x: x.bfloat16(), r)
case("to_i64", lambda x: x.long(), r)
case("add_bf16", torch.add, lambda: r().bfloat16(), lambda: r().bfloat16())
case("exp_bf16", torch.exp, lambda: r().bfloat16())
case("exp_f64", torch.exp, lambda: r().double())

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
case("sum_i64_full", torch.sum, i)
case("softmax_dim0", lambda x: x.softmax(0), r)
case("softmax_dim1", lambda x: x.softmax(1), r)
case("log_softmax_dim1", lambda x: x.log_softmax(1), r)
case("layer_norm", lambda x: F.layer_norm(x, (N,)), r)
case("batch_norm_train", lambda x: F.batch_norm(x, None, None, training=True), image)
case("group_norm", lambda x: F.group_norm(x, 4), image)
case("cdist", lambda x, y: torch.cdist(x, y), lambda: torch.randn(1000, 16), lambda: torch.randn(1000, 16))

for dim in (0, 1):
    for name in "cumsum cumprod cummax logcumsumexp".split():
        case(f"{name}_dim{dim}", lambda x, f=getattr(torch, name), dim=dim: f(x, dim), r)
    case(f"sort_dim{dim}", lambda x, dim=dim: torch.sort(x, dim).values, r)
    case(f"topk_dim{dim}", lambda x, dim=dim: torch.topk(x, 10, dim).values, r)
    case(f"gather_dim{dim}", lambda x, k, dim=dim: torch.gather(x, dim, k), r, below(N, N, N))
    case(f"scatter_dim{dim}", lambda x, k, s, dim=dim: torch.scatter(x, dim, k, s), r, lambda: torch.argsort(r(), 1), r)
    case(f"scatter_add_dim{dim}", lambda x, k, s, dim=dim: torch.scatter_add(x, dim, k, s), r, below(N, N, N), r)
    case(f"index_select_dim{dim}", lambda x, k, dim=dim: torch.index_select(x, dim, k), r, below(N, N))
    case(f"index_add_dim{dim}", lambda x, k, s, dim=dim: torch.index_add(x, dim, k, s), r, below(N, N), r)
    case(f"flip_dim{dim}", lambda x, dim=dim: x.flip(dim), r)
    case(f"roll_dim{dim}", lambda x, dim=dim: x.roll(7, dim), r)
    case(f"cat_dim{dim}", lambda x, y, dim=dim: torch.cat([x, y], dim), r, r)
case("sort_i64", lambda x: torch.sort(x, 1).values, i)
case("argsort", lambda x: torch.argsort(x, 1), lambda: torch.stack([torch.randperm(N) for _ in range(N)]).float())  # no ties
case("kthvalue", lambda x: torch.kthvalue(x, 100, 1).values, r)
case("searchsorted", torch.searchsorted, lambda: torch.randn(N).sort().values, r)
case("bucketize", torch.bucketize, r, lambda: torch.randn(64).sort().values)
case("histc", lambda x: torch.histc(x, 100, -3, 3), r)
case("bincount", lambda x: torch.bincount(x, minlength=1000), below(1000, N * N))
case("nonzero", torch.nonzero, b)
case("masked_select", torch.masked_select, r, b)
case("unique", lambda x: torch.unique(x), lambda: torch.randint(0, 1000, (N * N,)))
case("index_put", lambda x, k, s: x.index_put((k,), s), r, lambda: torch.randperm(N)[:512], lambda: torch.randn(512, N))
case("embedding", lambda w, k: F.embedding(k, w), lambda: torch.randn(30000, 64), below(30000, 16384))
case("embedding_bag", lambda w, k: F.embedding_bag(k, w), lambda: torch.randn(30000, 64), below(30000, 1024, 16))
case("transpose", lambda x: x.t().contiguous(), r)
case("permute_nchw_nhwc", lambda x: x.permute(0, 2, 3, 1).contiguous(), image)
case("pad_constant", lambda x: F.pad(x, (3, 3, 3, 3)), image)
case("pad_reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), image)
case("tril", torch.tril, r)
case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), r)

case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), image)
case("max_pool2d_indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), image)
case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), image)
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 7), image)
case("max_pool3d", lambda x: F.max_pool3d(x, 3, 2, 1), volume)
case("avg_pool3d", lambda x: F.avg_pool3d(x, 3, 2, 1), volume)
case("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), image)
case("upsample_bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), image)
case("upsample_bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), image)
case("grid_sample", lambda x, g: F.grid_sample(x, g), image, lambda: torch.rand(4, 128, 128, 2) * 2 - 1)
case("unfold", lambda x: F.unfold(x, 3, padding=1), image)
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 4), image)
case("cross_entropy", lambda x, k: F.cross_entropy(x, k), r, below(N, N))
case("mse_loss", F.mse_loss, r, r)


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
        expected = torch.utils._pytree.tree_leaves(function(*args))
        sides = {"eager": TorchSide(function, args), "toroid": ToroidSide(model, args, expected, options.threads, scratch)}
        rounds = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side, timer in sides.items():
                time.sleep(0.02)
                rounds[side].append(timer.measure(0.1))
    return {side: median(values) for side, values in rounds.items()}


def main():
    keep_freed_memory()
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
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
