"""torch.compile(backend="toroid") with tensors on a GPU. All of it is skipped where PyTorch has none."""

import warnings

import pytest
import torch
from torch import nn

import toroid
import toroid.torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU here")

if torch.cuda.is_available():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", toroid.torch.FallbackWarning)
        yield


def compiled(function, **options):
    return torch.compile(function, backend="toroid", **options)


def check(function, *inputs, calls=3, tolerance=1e-4, **options):
    """Compares some calls with eager's: the first ones are started kernel by kernel, later ones as CUDA graphs."""
    mine = compiled(function, **options)
    for _ in range(calls):
        given = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        theirs = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        got, wanted = mine(*given), function(*theirs)
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
        for a, b in zip(given, theirs):
            if isinstance(a, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(wanted)):
            if isinstance(a, torch.Tensor):
                assert a.device == b.device and a.stride() == b.stride() and a.dtype == b.dtype
    return mine


def small_net():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 64, 10)
    ).cuda()


def test_inference():
    model = small_net().eval()
    with torch.no_grad():
        check(model, torch.randn(4, 3, 16, 16, device="cuda"))
        check(model, torch.randn(4, 3, 16, 16, device="cuda"), options={"freezing": True})
        check(model.to(memory_format=torch.channels_last), torch.randn(4, 3, 16, 16, device="cuda"))


def test_training_gives_gradients_and_buffers():
    torch.manual_seed(1)
    eager, mine = small_net(), small_net()
    mine.load_state_dict(eager.state_dict())
    step = compiled(mine)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (eager, mine)]
    for _ in range(5):
        x, y = torch.randn(8, 3, 16, 16, device="cuda"), torch.randint(10, (8,), device="cuda")
        for model, call, optimizer in ((eager, eager, optimizers[0]), (mine, step, optimizers[1])):
            optimizer.zero_grad()
            nn.functional.cross_entropy(call(x), y).backward()
            optimizer.step()
    for a, b in zip(mine.state_dict().values(), eager.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-3)


def test_updates_views_and_aliases():
    def function(x, y):
        x.mul_(2)
        return x[1:], y.t(), x, (x + y).transpose(0, 1)

    check(function, torch.randn(4, 4, device="cuda"), torch.randn(4, 4, device="cuda"))


def test_views_that_begin_anywhere():
    memory = torch.randn(64, device="cuda")
    mine = compiled(lambda x: x * 2 + 1)
    for begin in (0, 1, 3):
        torch.testing.assert_close(mine(memory[begin : begin + 32]), memory[begin : begin + 32] * 2 + 1)


def test_dynamic_sizes():
    mine = compiled(lambda x: (x @ x.t()).softmax(-1) * x.shape[0], dynamic=True)
    for n in (3, 5, 9, 5):
        x = torch.randn(n, 8, device="cuda")
        torch.testing.assert_close(mine(x), (x @ x.t()).softmax(-1) * n, rtol=1e-4, atol=1e-4)


def test_numbers_and_tensors_of_the_cpu():
    check(lambda x, scale: x * scale + torch.tensor(2.0), torch.randn(5, device="cuda"), torch.tensor(3.0))
    mine = compiled(lambda x, s: x * s, dynamic=True)
    x = torch.randn(5, device="cuda")
    for s in (1.5, 2.5, 3.5):
        torch.testing.assert_close(mine(x, s), x * s)
    check(lambda x: (x * 2).sum().cpu() + 1, torch.randn(5, device="cuda"))
    check(lambda x, table, i: table[i].cuda() + x, torch.randn(3, 4, device="cuda"), torch.randn(9, 4), torch.tensor([1, 5, 2]))


def test_graphs_without_inputs():
    check(lambda: torch.arange(10, device="cuda") * 2)


def test_sizes_that_data_tell():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        check(lambda x: x[x > 0] * 2, torch.randn(100, device="cuda"))
        check(lambda x: x.nonzero(), torch.randn(10, 3, device="cuda").relu())


def test_autocast_and_bfloat16():
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).cuda()

    def function(x):
        with torch.autocast("cuda", torch.bfloat16):
            return model(x)

    with torch.no_grad():
        check(function, torch.randn(16, 64, device="cuda"), tolerance=3e-2)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda", dtype=torch.bfloat16).eval()
    with torch.no_grad():
        check(layer, torch.randn(2, 16, 64, device="cuda", dtype=torch.bfloat16), tolerance=5e-2)


def test_random_operators_repeat():
    mine = compiled(lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(1000, device="cuda")
    torch.manual_seed(5)
    first = [mine(x) for _ in range(4)]
    torch.manual_seed(5)
    again = [mine(x) for _ in range(4)]
    assert all(torch.equal(a, b) for a, b in zip(first, again))
    assert not torch.equal(first[0], first[1])
    state = torch.cuda.get_rng_state()
    once = mine(x)
    torch.cuda.set_rng_state(state)
    assert torch.equal(once, mine(x))


def test_streams():
    mine = compiled(lambda x: (x @ x).relu())
    x = torch.randn(512, 512, device="cuda")
    wanted = (x @ x).relu()
    for _ in range(5):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = mine(x.clone())
        torch.cuda.current_stream().wait_stream(stream)
        torch.testing.assert_close(y, wanted, rtol=1e-3, atol=1e-3)


def test_calls_in_a_captured_stream():
    mine = compiled(lambda x: (x * 2 + 1).relu())
    x = torch.randn(64, device="cuda")
    mine(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = mine(x)
    x.copy_(torch.randn(64, device="cuda"))
    graph.replay()
    torch.testing.assert_close(y, (x * 2 + 1).relu())
    torch.testing.assert_close(mine(x), y)


def test_an_index_out_of_bounds_is_told_by_a_later_call():
    mine = compiled(lambda x, i: x[i])
    x = torch.randn(5, device="cuda")
    mine(x, torch.tensor([1, 4], device="cuda"))
    mine(x, torch.tensor([1, 7], device="cuda"))
    torch.cuda.synchronize()
    with pytest.raises(toroid.torch.CallError, match="7"):
        mine(x, torch.tensor([1, 2], device="cuda"))
    torch.testing.assert_close(mine(x, torch.tensor([1, 2], device="cuda")), x[1:3])
    mine(x, torch.tensor([1, 9], device="cuda"))
    with pytest.raises(toroid.torch.CallError, match="9"):  # of the last call
        toroid.torch.synchronize()
    toroid.torch.synchronize()


def test_max_autotune():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).cuda().bfloat16().eval()
    with torch.no_grad():
        check(model, torch.randn(128, 256, device="cuda", dtype=torch.bfloat16), tolerance=3e-2, mode="max-autotune")


def test_operators_that_fall_back():
    @torch.library.custom_op("toroid_cuda_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    mine = compiled(lambda x: twice(x + 1).relu())
    x = torch.randn(8, device="cuda")
    with pytest.warns(toroid.torch.FallbackWarning, match="toroid_cuda_tests::twice"):
        got = mine(x)
    torch.testing.assert_close(got, ((x + 1) * 2).relu())


def test_memory_is_given_back():
    mine = compiled(lambda x: (x @ x).relu())
    x = torch.randn(256, 256, device="cuda")
    for _ in range(5):
        mine(x)
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        mine(x)
    assert torch.cuda.memory_allocated() == before


def test_models_of_files_take_arrays_on_the_gpu(tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(2, 8),)), tmp_path / "m.pt2")
    program = toroid.compile(str(tmp_path / "m.pt2"), device="cuda")
    x = torch.randn(2, 8)
    with torch.no_grad():
        wanted = model(x)
        got = program(x.cuda())
        assert got.is_cuda
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(torch.as_tensor(program(x)), wanted, rtol=1e-4, atol=1e-4)
        toroid.compile(str(tmp_path / "m.pt2"), str(tmp_path / "m.so"), device="cuda")
        torch.testing.assert_close(toroid.load(str(tmp_path / "m.so"))(x.cuda()).cpu(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", ["CUDNN_ATTENTION", "FLASH_ATTENTION"])
def test_gradients_of_attention(kernel):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    inputs = [torch.randn(2, 3, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    weight = torch.randn(2, 3, 128, 64, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(getattr(SDPBackend, kernel)):
        wanted = torch.autograd.grad(attend(*inputs), inputs, weight)
        mine = compiled(attend, fullgraph=True)
        for _ in range(3):
            got = torch.autograd.grad(mine(*inputs), inputs, weight)
            torch.testing.assert_close(got, wanted, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("kernel", ["CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"])
def test_gradients_of_attention_with_dropout(kernel):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    p, size = 0.25, 64
    inputs = [torch.randn(2, 3, size, size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    q, k, v = inputs
    weight = torch.randn(2, 3, size, size, device="cuda", dtype=torch.bfloat16)
    identity = torch.eye(size, device="cuda", dtype=torch.bfloat16).expand(2, 3, size, size).clone().requires_grad_()
    with sdpa_kernel(getattr(SDPBackend, kernel)):
        mine = compiled(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=p), fullgraph=True)
        for seed in range(4):  # the later ones as CUDA graphs
            torch.manual_seed(seed)
            kept = mine(q, k, identity) != 0
            torch.manual_seed(seed)
            result = mine(q, k, v)
            got = torch.autograd.grad(result, inputs, weight)
            exact = [each.detach().float().requires_grad_() for each in inputs]
            weights = torch.where(kept, (exact[0] @ exact[1].mT / size**0.5).softmax(-1) / (1 - p), 0)
            wanted = torch.autograd.grad(weights @ exact[2], exact, weight.float())
            torch.testing.assert_close(result.float(), weights @ exact[2], rtol=3e-2, atol=3e-2)
            for a, b in zip(got, wanted):
                torch.testing.assert_close(a.float(), b, rtol=4e-2, atol=4e-2)
            assert abs(kept.float().mean().item() - (1 - p)) < 0.02


def test_a_layer_with_dropout_trains_as_one_graph():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True).cuda()
    mine = compiled(layer, fullgraph=True)
    optimizer = torch.optim.Adam(layer.parameters(), 3e-3)
    x, losses = torch.randn(16, 32, 64, device="cuda"), []
    for _ in range(30):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(mine(x).float(), x.flip(1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_unsigned_integers():
    x = torch.tensor([0, 1, 2**64 - 1, 2**63, 77], dtype=torch.uint64, device="cuda")

    def function(x):
        return x * x, x ^ 5, x == 1, x.double(), x.to(torch.int64), x.clone()

    got = compiled(function, fullgraph=True)(x)
    torch.testing.assert_close([each.cpu() for each in got], list(function(x.cpu())))  # eager PyTorch has no products of them on a GPU
