"""Peers of check.py beside PyTorch's eager and default compiled modes: its max-autotune, FlexAttention (written_attention.py), JAX, and NVIDIA's libraries called directly.

Each gives the milliseconds of a row, from an emptied L2 cache, or None where it does not do the row. JAX and libraries.cu know rows by name.
"""
import json
import os
import subprocess
import tempfile
import time

NAMES = ("eager", "inductor", "max-autotune", "flex", "jax", "libraries")


class Libraries:
    """libraries.cu, compiled by nvcc when it is made; `missing` says why it could not be."""

    def __init__(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libraries.cu")
        self.binary = os.path.join(tempfile.mkdtemp(), "libraries")
        self.missing = None
        command = ["nvcc", "-O3", "-std=c++17", "--extended-lambda", "-arch=native", source, "-lcublasLt", "-o", self.binary]
        try:
            made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.missing = made.stdout.strip()[-200:] if made.returncode else None
        except FileNotFoundError:
            self.missing = "there is no nvcc"

    def ms(self, row):
        if self.missing:
            return None
        found = subprocess.run([self.binary, row], stdout=subprocess.PIPE, text=True, timeout=120).stdout.splitlines()
        return json.loads(found[0])["ms"] if found else None


def jax_function(name):
    """The row as a function of JAX; None where it is not written here."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    gelu = lambda x: jax.nn.gelu(x, approximate=False)
    single = jnp.float32

    def layer_norm(x, weight, bias):
        wide = x.astype(single)
        centred = wide - wide.mean(-1, keepdims=True)
        return (centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * weight + bias

    def cross_entropy(x, target):
        wide = x.astype(single)
        return (jax.nn.logsumexp(wide, -1) - jnp.take_along_axis(wide, target[:, None], -1)[:, 0]).mean()

    def attention(causal):
        turned = lambda x: x.swapaxes(1, 2)
        return lambda q, k, v: turned(jax.nn.dot_product_attention(turned(q), turned(k), turned(v), is_causal=causal, implementation="cudnn"))

    def depthwise(x, weight):
        return lax.conv_general_dilated(x, weight.transpose(2, 3, 1, 0), (1, 1), "SAME", feature_group_count=x.shape[-1],
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    product = lambda a, b: a @ b
    functions = {
        "pointwise_gelu_chain": lambda x, y: gelu(x * y + 1) * jax.nn.sigmoid(y),
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "layernorm_residual_gelu": lambda x, r, w, b: gelu(layer_norm(x + r, w, b)),
        "rmsnorm": lambda x, w: x * lax.rsqrt((x.astype(single) ** 2).mean(-1, keepdims=True) + 1e-6).astype(x.dtype) * w,
        "sum_dim0": lambda x: x.sum(0),
        "full_sum_sq": lambda x: (x * x).sum(),
        "cross_entropy": cross_entropy,
        "transpose_add": lambda x, y: x.T + y,
        "linear_gelu": lambda x, w, b: gelu(x @ w.T + b),
        "linear_gelu_ragged": lambda x, w, b: gelu(x @ w.T + b),
        "linear_residual": lambda x, w, b, r: x @ w.T + b + r,
        "mm_square": product,
        "mm_skinny_decode": product,
        "mm_4096": product,
        **{f"mm_{m}_4096_14336": product for m in (1, 16, 64)},
        "bmm": product,
        "swiglu": lambda x, w, v: jax.nn.silu(x @ w) * (x @ v),
        "sdpa_causal": attention(True),
        "attention_vit": attention(False),
        "attention_bert": attention(False),
        "attention_4096_64": attention(False),
        "attention_4096_64_causal": attention(True),
        "attention_4096_128_causal": attention(True),
        "cumsum": lambda x: jnp.cumsum(x, -1),
        "cumsum_few_rows": lambda x: jnp.cumsum(x, -1),
        "sort_rows": lambda x: lax.sort((x, lax.broadcasted_iota(jnp.int32, x.shape, 1)), dimension=1, num_keys=1),
        "sort_64m": lambda x: lax.sort((x, lax.iota(jnp.int32, x.shape[0])), num_keys=1),
        "topk": lambda x: lax.top_k(x, 64),
        "index_add": lambda to, where, what: to.at[where].add(what),
        "embedding_backward": lambda gradient, where: jnp.zeros((50257, gradient.shape[-1]), gradient.dtype).at[where].add(gradient),
        "depthwise_7x7": depthwise,
    }
    return functions.get(name)


def jax_ms(name, arguments, calls=30):
    """Of a row by XLA: the time of `calls` calls, each after one that empties the cache, without that of the latter."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    from jax import numpy as jnp

    function = jax_function(name)
    if function is None:
        return None
    function = jax.jit(function)
    given = [jax.dlpack.from_dlpack(each.detach().contiguous()) for each in arguments]
    other = jnp.zeros((64 << 20,), jnp.float32)
    empty = jax.jit(lambda x: x + 1, donate_argnums=0)

    def seconds(call):
        nonlocal other
        jax.block_until_ready((empty(jnp.zeros((64 << 20,), jnp.float32)), call()))
        begin = time.perf_counter()
        for _ in range(calls):
            other = empty(other)
            last = call()
        jax.block_until_ready((other, last))
        return time.perf_counter() - begin

    turns = [(seconds(lambda: function(*given)), seconds(lambda: None)) for _ in range(3)]
    return 1e3 * (min(both for both, _ in turns) - min(alone for _, alone in turns)) / calls


def device_state():
    """Clocks in MHz, watts and degrees, as a row's record."""
    fields = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"], stdout=subprocess.PIPE,
                              text=True, timeout=20).stdout
        return dict(zip(fields, map(float, text.splitlines()[0].split(","))))
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return {}
