"""Rows of attention's gradient, and of attention with masks in memory: each with the forward pass, as a training step has both.

The program has the operators that PyTorch records on a CPU for scaled_dot_product_attention and its gradient; on the GPU eager PyTorch
takes whichever of its kernels it prefers (cuDNN's, FlashAttention-2's), by autograd.
"""


def by_autograd(torch, q, k, v, grad, **how):
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        y = torch.nn.functional.scaled_dot_product_attention(*leaves, **how)
        return (y.detach(), *torch.autograd.grad(y, leaves, grad))


def gradient(torch, causal, mask_of=None):
    """A function of q, k, v, the result's gradient and what the mask is made of: the result, and the gradients of the first three."""
    aten = torch.ops.aten

    def function(q, k, v, grad, *more):
        mask = None if mask_of is None else mask_of(*more)
        if q.device.type != "cpu":
            return by_autograd(torch, q, k, v, grad, attn_mask=mask, is_causal=causal)
        y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
        return (y, *aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, y, sums, 0.0, causal, attn_mask=mask))

    return function


def dropped(torch, p):
    """The same with dropout, which PyTorch records for GPUs alone, as one of its kernels' operators; the two sides draw other numbers."""
    aten = torch.ops.aten

    def function(q, k, v, grad):
        if q.device.type != "cpu":
            return by_autograd(torch, q, k, v, grad, dropout_p=p)
        y, sums, seed, offset = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, p, False)
        wanted = [True, True, True, False]
        gradients = aten._scaled_dot_product_efficient_attention_backward(grad, q, k, v, None, y, sums, seed, offset, p, wanted, False)
        return (y, *gradients[:3])

    return function


def masked(torch):
    return lambda q, k, v, mask: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def rows(torch, floor_ms, make):
    """As those of further_rows.py."""
    results = lambda arguments, found: found
    norms = lambda arguments, found: tuple(each.float().norm() for each in found)  # where other weights are dropped
    added = lambda mask: mask
    number = lambda seen, value: torch.full((), value, dtype=torch.bfloat16, device=seen.device)
    hidden = lambda seen: torch.where(seen, number(seen, 0.0), number(seen, float("-inf")))
    padded = lambda batch, length: (torch.arange(length, device="cuda") < torch.linspace(length // 2, length, batch, device="cuda")
                                    .to(torch.int64).view(-1, 1)).view(batch, 1, 1, length)

    def row(name, batch, heads, length, width, causal=False, mask_of=None, more=(), function=None, compared=results):
        operations = 14 * batch * heads * length**2 * width // (2 if causal else 1)
        return (name, function or gradient(torch, causal, mask_of),
                lambda: (*(make(batch, heads, length, width) for _ in range(4)), *(each() for each in more)),
                floor_ms(2 * 8 * batch * heads * length * width, operations), compared)

    for width in (64, 96, 128, 192, 256):
        yield row(f"attention_gradient_{width}_causal", 4, 16, 2048, width, causal=True)
    yield row("attention_gradient_256", 4, 16, 2048, 256)
    for width in (64, 128, 256):
        general = lambda: make(1, 16, 2048, 2048)
        yield row(f"attention_gradient_{width}_padded", 4, 16, 2048, width, mask_of=hidden, more=(lambda: padded(4, 2048),))
        yield row(f"attention_gradient_{width}_bias", 4, 16, 2048, width, mask_of=added, more=(general,))
    for width in (64, 128):
        yield row(f"attention_gradient_{width}_dropout", 4, 16, 2048, width, function=dropped(torch, 0.1), compared=norms)
    for width in (64, 128):
        floor = floor_ms(2 * 4 * 4 * 16 * 2048 * width + 2 * 16 * 2048**2, 4 * 4 * 16 * 2048**2 * width)
        operands = lambda width=width: tuple(make(4, 16, 2048, width) for _ in range(3))
        yield f"attention_bias_{width}", masked(torch), lambda operands=operands: (*operands(), make(1, 16, 2048, 2048)), floor, results
        yield (f"attention_seen_{width}", masked(torch),
               lambda operands=operands: (*operands(), torch.rand(4, 1, 2048, 2048, device="cuda") < 0.5), floor, results)
