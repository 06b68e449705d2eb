"""Rows of check.py beyond the usual ones, each with its floor: products of other sizes, attention, norms, scans, orders, scatters, narrow operands.

A floor is what no program can be much quicker than: the bytes that must move at the bandwidth of a large copy, measured on the device, or the
operations at its rate of matrix products, whichever takes longer. Positions of sorts and selections are compared by the elements that they name,
as equal elements may come in any order.
"""
import attention_gradient
import narrow_rows
import written_attention

OPERATIONS_PER_S = 790e12  # of products of 16-bit floats, an H100's and an H200's at the power that they may take


def copy_bytes_per_s(torch):
    """Bytes read and written, of a copy of 1 GB."""
    from triton.testing import do_bench

    source, target = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    return 2 * 4 * source.numel() / (1e-3 * do_bench(lambda: target.copy_(source), warmup=25, rep=80, return_mode="median"))


def uniform(torch, *sizes, dtype=None):
    """Numbers in [-1, 1): what a product's operands are draws on the power that the device may take."""
    return (2 * torch.rand(*sizes, device="cuda", dtype=torch.float32) - 1).to(dtype or torch.bfloat16)


def rows(torch, bytes_per_s):
    """Name, a function of tensors, one that makes them on the device, the floor in ms, and what of arguments and results is compared."""
    floor_ms = lambda size=0, operations=0: 1e3 * max(size / bytes_per_s, operations / OPERATIONS_PER_S)
    functional = torch.nn.functional
    make = lambda *sizes, **how: uniform(torch, *sizes, **how)
    numbers = lambda most, count: torch.randint(0, most, (count,), device="cuda")
    results = lambda arguments, found: found
    elements = lambda arguments, found: (found[0], arguments[0].gather(-1, found[1]))

    for m in (1, 16, 64):
        yield (f"mm_{m}_4096_14336", lambda a, b: a @ b, lambda m=m: (make(m, 4096), make(4096, 14336)),
               floor_ms(2 * (4096 * 14336 + m * (4096 + 14336)), 2 * m * 4096 * 14336), results)
    yield ("mm_4096", lambda a, b: a @ b, lambda: (make(4096, 4096), make(4096, 4096)), floor_ms(operations=2 * 4096**3), results)
    yield ("swiglu", lambda x, w, v: functional.silu(x @ w) * (x @ v), lambda: (make(4096, 2048), make(2048, 5632), make(2048, 5632)),
           floor_ms(operations=4 * 4096 * 2048 * 5632), results)

    def attention(name, batch, heads, length, width, causal=False):
        products = 4 * batch * heads * length**2 * width // (2 if causal else 1)
        return (name, lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
                lambda: tuple(make(batch, heads, length, width) for _ in range(3)),
                floor_ms(2 * 4 * batch * heads * length * width, products), results)

    yield attention("attention_vit", 64, 12, 197, 64)
    yield attention("attention_bert", 32, 12, 256, 64)
    yield attention("attention_4096_64", 4, 32, 4096, 64)
    yield attention("attention_4096_64_causal", 4, 32, 4096, 64, causal=True)
    yield attention("attention_4096_128_causal", 4, 32, 4096, 128, causal=True)
    yield ("attention_decode", lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
           lambda: (make(8, 32, 1, 128), make(8, 8, 8192, 128), make(8, 8, 8192, 128)), floor_ms(2 * 2 * 8 * 8 * 8192 * 128), results)

    yield from written_attention.rows(torch, floor_ms, make)
    yield from attention_gradient.rows(torch, floor_ms, make)
    yield from narrow_rows.rows(torch, floor_ms, make)

    def norm(x, weight, bias, gradient):
        size = [x.shape[-1]]
        y, mean, scale = torch.ops.aten.native_layer_norm(x, size, weight, bias, 1e-5)
        return (y, *torch.ops.aten.native_layer_norm_backward(gradient, x, size, mean, scale, weight, bias, [True] * 3))

    yield ("layer_norm_backward", norm, lambda: (make(16384, 4096), make(4096), make(4096), make(16384, 4096)),
           floor_ms(2 * 4 * 16384 * 4096), results)
    yield ("cumsum", lambda x: x.cumsum(-1), lambda: (make(16384, 4096, dtype=torch.float32),), floor_ms(4 * 2 * 16384 * 4096), results)
    yield ("cumsum_few_rows", lambda x: x.cumsum(-1), lambda: (make(4, 16 << 20, dtype=torch.float32),), floor_ms(4 * 2 * 64 << 20), results)
    yield ("sort_rows", lambda x: tuple(x.sort(-1)), lambda: (make(4096, 16384, dtype=torch.float32),),
           floor_ms((4 + 4 + 8) * 4096 * 16384), elements)
    yield ("sort_64m", lambda x: tuple(x.sort()), lambda: (make(64 << 20, dtype=torch.float32),), floor_ms((4 + 4 + 8) * (64 << 20)), elements)
    yield ("topk", lambda x: tuple(x.topk(64, -1)), lambda: (make(4096, 32000),), floor_ms(2 * 4096 * 32000), elements)
    yield ("index_add", lambda to, where, what: to.index_add(0, where, what),
           lambda: (make(1000, 128, dtype=torch.float32), numbers(1000, 1 << 20), make(1 << 20, 128, dtype=torch.float32)),
           floor_ms((4 * 128 + 8) * (1 << 20)), results)
    yield ("embedding_backward", lambda gradient, where: torch.ops.aten.embedding_dense_backward(gradient, where, 50257, -1, False),
           lambda: (make(16384, 768), numbers(50257, 16384)), floor_ms(2 * 768 * (16384 + 50257) + 8 * 16384), results)
    def deep(x, first, second):
        y = functional.relu(functional.conv3d(x.permute(0, 4, 1, 2, 3), first, padding=1))
        return functional.conv3d(y, second, padding=1).permute(0, 2, 3, 4, 1)

    yield ("conv3d_64", deep, lambda: (make(2, 16, 56, 56, 64), make(64, 64, 3, 3, 3), make(64, 64, 3, 3, 3)),
           floor_ms(operations=2 * 2 * 2 * 16 * 56 * 56 * 64 * 64 * 27), results)
    for groups, width, side in ((32, 4, 56), (32, 8, 28), (32, 16, 14), (32, 32, 7), (8, 64, 28)):
        channels = groups * width
        yield (f"conv_{groups}_groups_of_{width}",
               lambda x, w, groups=groups: functional.relu(functional.conv2d(x.permute(0, 3, 1, 2), w, padding=1, groups=groups)).permute(0, 2, 3, 1),
               lambda channels=channels, width=width, side=side: (make(64, side, side, channels), make(channels, width, 3, 3)),
               floor_ms(2 * 2 * 64 * side * side * channels, 2 * 64 * side * side * channels * width * 9), results)
    # As it lies: channels beside each other.
    yield ("depthwise_7x7", lambda x, w: functional.conv2d(x.permute(0, 3, 1, 2), w, padding=3, groups=384).permute(0, 2, 3, 1),
           lambda: (make(64, 28, 28, 384), make(384, 1, 7, 7)), floor_ms(2 * 2 * 64 * 28 * 28 * 384), results)
