"""Attention with dropout and its gradients, beside eager PyTorch with the same weights dropped."""

import pytest

torch = pytest.importorskip("torch")

from torch_support import F, backend, close, compiled, fresh, nn  # noqa: E402, F401

aten = torch.ops.aten


def flash(q, k, v, p, causal):
    return aten._scaled_dot_product_flash_attention(q, k, v, p, causal)[0]


def efficient(q, k, v, p, causal):
    return aten._scaled_dot_product_efficient_attention(q, k, v, None, True, p, causal)[0]


def cudnn(q, k, v, p, causal):
    return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, p, causal)[0]


def plain(q, k, v, p, causal):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=causal)


@pytest.mark.parametrize("kernel", [flash, efficient, cudnn, plain])
def test_gradients_drop_what_the_forward_pass_dropped(kernel):
    """The operators that PyTorch has for GPUs alone are traced here with tensors of the CPU, and run by toroid."""
    p, size = 0.3, 24
    mine = compiled(lambda q, k, v: kernel(q, k, v, p, True), fullgraph=True)
    q, k, v, grad = (torch.randn(2, 3, size, size, requires_grad=i < 3) for i in range(4))
    identity = torch.eye(size).expand(2, 3, size, size).clone().requires_grad_()
    shares = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        kept = mine(q, k, identity) != 0  # the weights themselves
        torch.manual_seed(seed)
        got = mine(q, k, v)
        got.backward(grad)
        gradients = [each.grad for each in (q, k, v)]
        for each in (q, k, v):
            each.grad = None
        scores = (q @ k.mT / size**0.5).masked_fill(torch.ones(size, size).triu(1).bool(), -torch.inf)
        wanted = torch.where(kept, scores.softmax(-1) / (1 - p), 0) @ v
        close(got, wanted)
        for mine_each, each in zip(gradients, torch.autograd.grad(wanted, (q, k, v), grad)):
            close(mine_each, each)
        shares.append(kept[..., torch.ones(size, size).tril().bool()].float().mean().item())
    assert all(abs(share - (1 - p)) < 0.04 for share in shares) and shares[0] != shares[1]


def test_a_layer_of_a_transformer_trains_with_dropout():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.2, batch_first=True)
    mine = compiled(layer, fullgraph=True)
    optimizer = torch.optim.Adam(layer.parameters(), 3e-3)
    x, losses = torch.randn(8, 12, 32), []
    for _ in range(30):
        loss = F.mse_loss(mine(x), x.flip(1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_gradients_run_where_their_forward_pass_does():
    """Of one graph, in which eager PyTorch draws: here it has no kernel, so the forward pass fails, but by itself."""
    mine = torch.compile(lambda q: efficient(q, q, q, 0.5, False), backend="toroid", options={"fallback_random": True})
    with pytest.raises(NotImplementedError, match="_scaled_dot_product_efficient_attention"):
        mine(torch.randn(1, 2, 8, 16, requires_grad=True))
    alone = torch.compile(
        lambda grad, q, out, sums, s: aten._scaled_dot_product_efficient_attention_backward(
            grad, q, q, q, None, out, sums, s, s, 0.5, [True, True, True, False]
        )[0],
        backend="toroid",
        fullgraph=True,
    )
    q = torch.randn(1, 2, 8, 16)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="the state of a forward pass that toroid"):
        alone(q, q, q, torch.randn(1, 2, 8), torch.tensor(3))


@pytest.mark.parametrize(("kernel", "dynamic"), [(flash, False), (cudnn, False), (plain, False), (plain, True)])
def test_heads_that_share_keys(kernel, dynamic):
    def eager(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).sin()

    def function(q, k, v):
        return eager(q, k, v) if kernel is plain else kernel(q, k, v, 0.0, True).sin()

    found = []
    for call in (eager, compiled(function, dynamic=dynamic)):
        given = [torch.randn(2, heads, 6, 8, generator=torch.Generator().manual_seed(heads), requires_grad=True) for heads in (4, 2, 2)]
        result = call(*given)
        result.sum().backward()
        found.append((result, [each.grad for each in given]))
    close(found[1], found[0])


def test_a_graph_with_both_passes_may_be_cut_between():
    """The gradient is in another part than the forward pass, and reads what toroid drew."""

    @torch.library.custom_op("toroid_attention_tests::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    same.register_fake(torch.empty_like)

    def function(q, v, grad):
        out, sums, seed, offset = aten._scaled_dot_product_efficient_attention(q, q, v, None, True, 0.5, False)
        wanted = [True, True, True, False]
        own = aten._scaled_dot_product_efficient_attention_backward(same(grad), q, q, v, None, out, sums, seed, offset, 0.5, wanted, False)
        return out, own[2]

    q, grad = torch.randn(1, 2, 16, 16), torch.randn(1, 2, 16, 16)
    identity = torch.eye(16).expand(1, 2, 16, 16).clone()
    with pytest.warns(backend.FallbackWarning, match="same"), torch.no_grad():
        weights, of_values = torch.compile(function, backend="toroid")(q, identity, grad)
    close(of_values, weights.mT @ grad)


def test_a_gradient_of_what_toroid_drew_never_falls_back(monkeypatch):
    from toroid.torch import compile as compiling

    given = compiling.why_not
    monkeypatch.setattr(compiling, "why_not", lambda node, keeps: "a test" if "backward" in node.name else given(node, keeps))
    mine = torch.compile(lambda q: efficient(q, q, q, 0.5, False), backend="toroid")
    with pytest.raises(Exception, match="whose forward pass has drawn toroid's numbers"):
        mine(torch.randn(1, 2, 8, 16, requires_grad=True)).sum().backward()
