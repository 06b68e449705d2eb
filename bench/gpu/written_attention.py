"""Rows of attention whose masks and scores the model computes: windows, documents, a soft cap, ALiBi, a table of relative positions.

The program and eager PyTorch get the model as it is written here, with masks computed from positions and products in the open. The peer `flex`
is compiled FlexAttention with the same function of scores; the table of its mask's blocks is made before, and not timed.
"""
HEADS = 16


def positions(torch, q, k):
    """Batch, head, query and key as FlexAttention's functions take them, but of all scores at once."""
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return [torch.arange(size, device=q.device).view([-1 if d == i else 1 for i in range(4)]) for d, size in enumerate(sizes)]


def written(torch, score=None, mask=None):
    """Attention in the open: what flex_attention(q, k, v, score, create_block_mask(mask, ...)) computes, where each query sees a key."""
    def function(q, k, v, *more):
        at = positions(torch, q, k)
        scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        if score is not None:
            scores = score(*more)(scores, *at)
        if mask is not None:
            scores = torch.where(mask(*more)(*at), scores, float("-inf"))
        return scores.softmax(-1).to(q.dtype) @ v

    return function


def masked(torch, mask):
    """The same by PyTorch's own function, where there is only a mask."""
    def function(q, k, v, *more):
        seen = mask(*more)(*positions(torch, q, k))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    return function


def cases(torch, length=4096):
    """Name, function of scores, function of the mask (both of what follows q, k and v), makers of what follows, and the part that is seen."""
    slopes = lambda: 2.0 ** (-8.0 * torch.arange(1, HEADS + 1, device="cuda", dtype=torch.float32) / HEADS)
    causal = lambda *_: lambda b, h, i, j: j <= i
    window = lambda *_: lambda b, h, i, j: (j <= i) & (i - j < 1024)
    prefix = lambda *_: lambda b, h, i, j: (j <= i) | (j < 1024)
    document = lambda ids: lambda b, h, i, j: ids[b, i] == ids[b, j]
    cap = lambda *_: lambda s, b, h, i, j: 30 * torch.tanh(s / 30)
    alibi = lambda slopes: lambda s, b, h, i, j: s + slopes[h] * (j - i)
    relative = lambda table: lambda s, b, h, i, j: s + table[h, (i - j).clamp(-128, 128) + 128]
    ids = lambda: torch.repeat_interleave(torch.arange(8, device="cuda"), length // 8).repeat(8, 1)
    of_window = 1024 / length - 0.5 * (1024 / length) ** 2
    return {
        "attention_window": (None, window, (), of_window),
        "attention_prefix": (None, prefix, (), 0.5 + 0.5 * (1024 / length) ** 2),
        "attention_documents": (None, document, (ids,), 1 / 8),
        "attention_softcap": (cap, None, (), 1),
        "attention_softcap_causal": (cap, causal, (), 0.5),
        "attention_alibi_causal": (alibi, causal, (slopes,), 0.5),
        "attention_relative": (relative, None, (lambda: torch.randn(HEADS, 257, device="cuda").to(torch.bfloat16),), 1),
    }


def rows(torch, floor_ms, make, length=4096, width=128, batch=8):
    """As those of further_rows.py."""
    for name, (score, mask, more, part) in cases(torch, length).items():
        function = masked(torch, mask) if score is None else written(torch, score, mask)
        operations = 4 * batch * HEADS * length**2 * width * part
        yield (name, function, lambda more=more: (*(make(batch, HEADS, length, width) for _ in range(3)), *(each() for each in more)),
               floor_ms(2 * 4 * batch * HEADS * length * width, operations), lambda arguments, found: found)


def flex(torch, name, arguments):
    """Compiled FlexAttention of a row, as a function of its arguments; None of another row."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    found = cases(torch).get(name)
    if found is None:
        return None
    score, mask, _, _ = found
    q, k, _, *more = arguments
    block_mask = None
    if mask is not None:
        batch = q.shape[0] if more and score is None else None
        block_mask = create_block_mask(mask(*more), batch, None, q.shape[2], k.shape[2], device="cuda")
    own = None if score is None else score(*more)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v, *_: compiled(q, k, v, score_mod=own, block_mask=block_mask)
