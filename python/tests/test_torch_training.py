"""Training with torch.compile(backend="toroid"): what loops around the model do, beside eager PyTorch."""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch_support import Block, F, backend, close, compiled, fresh, nn  # noqa: E402, F401


def both(train, model=None, tolerance=1e-3):
    """The parameters after train(model, call), with toroid and in eager, must be the same."""
    model = model or nn.Sequential(Block(), nn.Linear(16, 4))
    twin = copy.deepcopy(model)
    train(model, model)
    train(twin, compiled(twin))
    for expected, actual in zip(model.parameters(), twin.parameters()):
        close(actual, expected, tolerance)


def batches(count=4):
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)) for _ in range(count)]


def test_gradient_scaler_skips_steps_that_overflow():
    scales = []

    def train(model, call):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        for i, (x, y) in enumerate(batches(6)):
            x = x * 1e6 if i in (1, 2) else x  # more than float16 holds
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(call(x).float(), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        scales.append(scaler.get_scale())

    both(train, nn.Linear(16, 4), 1e-2)
    assert scales == [2.0**9, 2.0**9]


def test_autocast_around_and_inside():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Block(), nn.Linear(16, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                x = self.first(x)
                with torch.autocast("cpu", enabled=False):
                    return self.second(x.float())

    def train(model, call):
        for x, y in batches():
            F.cross_entropy(call(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad

    both(train, Mixed(), 2e-2)


def test_gradients_accumulate_over_batches():
    def train(model, call):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for i, (x, y) in enumerate(batches(6)):
            (F.cross_entropy(call(x), y) / 3).backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=i == 2)

    both(train)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    from torch.utils.checkpoint import checkpoint

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.last = nn.ModuleList(Block() for _ in range(2)), nn.Linear(16, 4)

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(lambda each, block=block: F.dropout(block(each), 0.0), x, use_reentrant=reentrant)
            return self.last(x)

    def train(model, call):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in batches():
            optimizer.zero_grad()
            F.cross_entropy(call(x.requires_grad_(reentrant)), y).backward()
            optimizer.step()

    both(train, Deep())


def test_checkpointed_dropout_draws_the_same_mask_again():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(64, 64, requires_grad=True)
    y = compiled(lambda x: checkpoint(lambda each: F.dropout(each.sin(), 0.5).cos(), x, use_reentrant=False))(x)
    y.sum().backward()
    assert torch.equal(y == 1, x.grad == 0)


def test_optimizer_in_the_graph():
    def train(model, call):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        step = optimizer.step if call is model else torch.compile(optimizer.step, backend="toroid")
        for x, y in batches():
            optimizer.zero_grad()
            F.cross_entropy(call(x), y).backward()
            step()

    both(train)


def test_hooks_and_double_backward_are_eagers():
    model, x = Block(), torch.randn(4, 16, requires_grad=True)
    twin = copy.deepcopy(model)
    step, found = compiled(twin), []
    for each, call in ((model, model), (twin, step)):
        seen = []
        each.up.weight.register_hook(lambda g, seen=seen: seen.append(g.clone()) or g * 2)
        call(x).square().sum().backward()
        found.append((seen, each.up.weight.grad))
    close(found[1], found[0], 1e-3)
    with pytest.raises(RuntimeError, match="create_graph"):
        (gradient,) = torch.autograd.grad(step(x).square().sum(), x, create_graph=True)
        gradient.sum().backward()


DISTRIBUTED = """
import copy, datetime, logging, sys, torch
from torch import nn
import torch.distributed as dist
import toroid.torch
sys.path.insert(0, sys.argv[1])
from torch_support import Block
rank = int(sys.argv[2])
dist._DEFAULT_FIRST_BUCKET_BYTES = 4000
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
torch.manual_seed(0)
model = nn.Sequential(Block(), Block(), nn.Linear(16, 4))
twin = copy.deepcopy(model)
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("toroid.torch").addHandler(handler)
logging.getLogger("toroid.torch").setLevel(logging.INFO)
for each in (model, twin):
    parallel = nn.parallel.DistributedDataParallel(each, bucket_cap_mb=0.004)
    call = torch.compile(parallel, backend="toroid") if each is twin else parallel
    optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
    torch.manual_seed(10 + rank)
    for _ in range(3):
        optimizer.zero_grad()
        call(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
forwards = sum("_forward: text" in text for text in said)
assert forwards > 1, said
for expected, actual in zip(model.parameters(), twin.parameters()):
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    others = [torch.empty_like(actual) for _ in range(2)]
    dist.all_gather(others, actual.detach())
    torch.testing.assert_close(others[0], others[1], rtol=0, atol=0)
print(forwards)
"""


@pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_data_parallel_training_is_cut_at_buckets():
    here = str(pathlib.Path(__file__).parent)
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "error::toroid.torch.FallbackWarning", "-c", DISTRIBUTED, here, str(rank), store],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(2)
        ]
        told = [each.communicate(timeout=120)[0] for each in started]
    assert [each.returncode for each in started] == [0, 0], "\n".join(told)


def test_equal_nodes_of_a_joint_graph_are_one():
    from torch.fx.experimental.proxy_tensor import make_fx

    from toroid.torch import common_subexpressions

    def f(x):
        a, b = x.sin() + 1, x.sin() + 1.0  # the sums have numbers of two types
        signs = torch.copysign(x, 0.0) * torch.copysign(x, -0.0)
        drawn = torch.rand_like(x) + torch.rand_like(x)
        parts = x.split(2)[0] + x.split(2)[0].cos() + x.split(2)[1]
        return a * b * signs * drawn, parts, x.exp(), x.exp(), x.exp().view(-1)  # outputs, and views of them, stay tensors of their own

    graph = make_fx(f, tracing_mode="fake")(torch.randn(4, 3)).graph
    assert not common_subexpressions.writes_to_memory(graph)
    common_subexpressions.merge(graph)
    graph.lint()
    names = [str(node.target).split(".")[1] for node in graph.nodes if str(node.target).startswith("aten.")]
    counts = {name: names.count(name) for name in ("sin", "add", "copysign", "rand_like", "split", "exp")}
    assert counts == {"sin": 1, "add": 5, "copysign": 2, "rand_like": 2, "split": 1, "exp": 3}
    written = make_fx(lambda x: x.clone().add_(1), tracing_mode="fake")(torch.randn(3)).graph
    assert common_subexpressions.writes_to_memory(written)


def test_a_step_does_not_load_what_inductor_lowers():
    step = """
import sys, torch, toroid.torch
before = set(sys.modules)
torch.compile(torch.nn.Linear(3, 3), backend="toroid")(torch.randn(2, 3)).sum().backward()
loaded = set(sys.modules) - before
assert not loaded & {"torch._inductor." + name for name in ("lowering", "scheduler", "ir", "pattern_matcher")}, loaded
"""
    subprocess.run([sys.executable, "-c", step], check=True)


class Pictures(nn.Module):
    """Its features are seen from outside, and a view of what the second convolution gives."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.third = nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.Conv2d(24, 16, 1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.first(x))), 3, stride=2, padding=1)
        features = self.second(x)
        last = torch.relu(self.third(features * torch.sigmoid(features)))
        return features, features.flatten(2), self.head(last.mean([2, 3]))


def test_what_is_kept_for_the_gradient_has_its_channels_last():
    model = Pictures()
    twin = copy.deepcopy(model)
    x = torch.randn(5, 3, 20, 22)
    kept = []

    def note(tensor):
        if tensor.ndim == 4 and tensor.shape[1] > 3 and tensor.shape[0] == len(x):
            kept.append(tensor)
        return tensor

    def step(call):
        features, flat, scores = call(x)
        (scores.square().mean() + features.mean() + flat.square().mean()).backward()
        return features, flat

    expected = step(model)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        actual = step(compiled(twin))
    for ours, eagers in zip(actual, expected):
        close(ours, eagers)
        assert ours.stride() == eagers.stride()
    for ours, eagers in zip(twin.parameters(), model.parameters()):
        close(ours.grad, eagers.grad, 1e-3)
    last = [tensor.is_contiguous(memory_format=torch.channels_last) for tensor in kept]
    assert sum(last) > len(last) / 2, [tensor.stride() for tensor in kept]


@torch.library.custom_op("toroid_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


class HalfSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 0.5

    @staticmethod
    def backward(ctx, gradient):
        return scaled(ctx.saved_tensors[0], gradient)  # which toroid has no operator for


class HalfSquares(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1), nn.Linear(800, 4)

    def forward(self, x):
        return self.head(torch.sigmoid(self.second(HalfSquare.apply(torch.relu(self.first(x))))).flatten(1))


def test_a_gradient_in_parts_takes_what_is_kept_as_it_was_traced():
    model = HalfSquares()
    twin = copy.deepcopy(model)
    x = torch.randn(5, 3, 10, 10)
    model(x).square().mean().backward()
    with pytest.warns(backend.FallbackWarning, match="toroid_tests::scaled"):
        torch.compile(twin, backend="toroid")(x).square().mean().backward()
    for ours, eagers in zip(twin.parameters(), model.parameters()):
        close(ours.grad, eagers.grad)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_batch_norms_of_16_bits(dtype):
    # PyTorch's fake running statistics are float32.
    eager = nn.BatchNorm2d(5).to(dtype)
    module = copy.deepcopy(eager)
    x, given = torch.randn(4, 5, 6, 6, dtype=dtype), torch.randn(4, 5, 6, 6, dtype=dtype)
    results = []
    for each, call in ((eager, eager), (module, compiled(module))):
        own = x.clone().requires_grad_()
        y = call(own)
        y.backward(given)
        results.append((y, own.grad, each.weight.grad, each.bias.grad, each.running_mean, each.running_var))
    close(results[1], results[0], 2e-3 if dtype == torch.float16 else 2e-2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_share_no_memory(dynamic):
    """PyTorch keeps them as they come, and adds to them in place."""

    def by_an_eager_operator(a, b):
        return HalfSquare.apply(a.view(12) + b)

    cases = (
        (lambda a, b: (a.view(12) + b).sin(), (3, 4), (12,)),
        (lambda a, b: (a.t() + b).sin(), (3, 4), (4, 3)),
        (lambda a, b, c: ((a.view(3, 4) + b).t() + c).sin(), (12,), (3, 4), (4, 3)),
        (lambda a, b, c: (a + torch.cat([b, c], 1)).sin(), (4, 6), (4, 3), (4, 3)),
        (lambda a, b, c: torch.stack([b, c], 1).sin() + a, (1,), (4, 3), (4, 3)),
        (by_an_eager_operator, (3, 4), (12,)),
    )
    for function, *shapes in cases:
        torch._dynamo.reset()
        found = []
        for call in (function, torch.compile(function, backend="toroid", dynamic=dynamic)):
            torch.manual_seed(0)
            given = [torch.randn(shape, requires_grad=True) for shape in shapes]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", backend.FallbackWarning)
                for _ in range(2):
                    call(*given).sum().backward()
            for each in given:
                each.grad.mul_(0.5)
            found.append([each.grad for each in given])
        close(found[1], found[0])


def test_gradients_that_are_still_to_be_conjugated_or_negated():
    # Neither a fake tensor nor a guard tells it of a tangent.
    weight = torch.randn(3, 4, dtype=torch.complex64)
    losses = {
        "conjugated": lambda y: (y.conj() * weight).real.sum(),
        "transposed": lambda y: (y.mH @ weight).abs().sum(),
        "negated": lambda y: (y.conj().imag * weight.real).sum(),
    }
    x = torch.randn(3, 4, dtype=torch.complex64, requires_grad=True)
    function = torch.compile(lambda x: x * 2, backend="toroid")
    for name, loss in losses.items():
        expected = torch.autograd.grad(loss(x * 2), x)
        close(torch.autograd.grad(loss(function(x)), x), expected)
    real = torch.randn(3, 4, requires_grad=True)
    thrice = torch.compile(lambda x: x * 3, backend="toroid")
    expected = torch.autograd.grad((torch._neg_view(real * 3) * weight.real).sum(), real)
    close(torch.autograd.grad((torch._neg_view(thrice(real)) * weight.real).sum(), real), expected)


@torch.library.custom_op("toroid_tests::conjugated", mutates_args=())
def conjugated(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).conj()


@conjugated.register_fake
def _(x):
    return torch.empty_like(x)  # which is not still to be conjugated


def test_a_result_of_an_eager_operator_that_is_still_to_be_conjugated():
    x = torch.randn(5, 6, dtype=torch.complex64)
    with pytest.warns(backend.FallbackWarning, match="toroid_tests::conjugated"):
        ours = torch.compile(lambda x: conjugated(x * 3) * 2 + x, backend="toroid")(x)
    close(ours, (x * 6).conj() * 2 + x)


@torch.library.custom_op("toroid_tests::more", mutates_args=())
def more(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5


more.register_fake(torch.empty_like)
more.register_autograd(lambda ctx, gradient: more(gradient), setup_context=lambda ctx, inputs, output: None)


def test_gradients_of_extrema_find_what_equals_them():
    # What is compared with its largest element is not computed anew, by a kernel that rounds otherwise.
    def function(x):
        y = x[..., ::2]
        z = y.sin() * y
        return more(z + z.amax(0))

    compiled_function = torch.compile(function, backend="toroid", dynamic=True)
    torch.manual_seed(0)
    for k in range(20):
        x = torch.randn(*((6, 8), (5, 7))[k % 2])[:, :-1].requires_grad_()
        twin = x.detach().clone().requires_grad_()
        expected, ours = function(x), compiled_function(twin)
        given = torch.randn_like(expected)
        expected.backward(given)
        ours.backward(given)
        close(twin.grad, x.grad)


def test_a_gradient_is_told_that_what_it_reads_was_written_to():
    def input_itself(x, w):
        return x * w, w

    def view_of_an_input(x, w):
        return (x @ w).sin() @ w.t(), w

    def view_of_a_result(x, w):
        y = x.exp()
        return y.t() @ w.sin(), y

    for function in (input_itself, view_of_an_input, view_of_a_result):
        for call in (function, compiled(function)):
            result, written = call(torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True))
            with torch.no_grad():
                written.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()


def test_a_gradient_reads_what_was_there_before_the_input_was_written_to():
    def copied(x, state):
        y = x * state.clone()
        with torch.no_grad():
            state.mul_(2)
        return y.sin()

    def computed(x, state):
        y = (x * state.exp()).sin() + x.t() @ (state * 1.5).t()
        state.add_(y.detach())
        return y

    for function in (copied, computed):
        given = torch.randn(4, 4), torch.rand(4, 4)
        found = []
        for call in (function, compiled(function)):
            x, state = given[0].clone().requires_grad_(), given[1].clone()
            call(x, state).sum().backward()
            found.append((x.grad, state))
        close(found[1], found[0])


def test_an_expanded_view_of_what_is_kept_lies_as_in_eager_pytorch():
    def function(x, w):
        y = (x * w).exp()
        return y[1:].unsqueeze(-1).expand(2, 3, 4, 5), y.cos().amax(0)

    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    found = []
    for call in (function, compiled(function)):
        results = call(x, w)
        found.append((*results, *torch.autograd.grad(sum(each.sum() for each in results), (x, w))))
        strides = results[0].stride()
        assert strides == (0, 4, 1, 0), strides
    close(found[1], found[0])


def test_a_write_to_a_view_of_what_is_kept_does_not_change_the_gradient():
    def a_row(x, w):
        y = (x * w).tanh()
        return y.sum(), y[0]

    def another_shape(x, w):
        y = (x * w).softmax(-1)
        return (y * w).sum(), y.view(-1)

    def with_gaps(x, w):
        y = (x * w).sigmoid()
        return y.square().sum(), y[:, 1:]

    def turned(x, w):
        y = (x * w).exp()
        return y.sin().sum(), y.t()

    for function in (a_row, another_shape, with_gaps, turned):
        given = torch.randn(4, 6), torch.randn(4, 6)
        found = []
        for call, is_written in ((function, False), (compiled(function), True)):
            x, w = (each.clone().requires_grad_() for each in given)
            result, view = call(x, w)
            found.append([view.detach().clone()])
            strides = view.stride()
            if is_written:
                assert strides == function(x, w)[1].stride()
                with torch.no_grad():
                    view.mul_(2)
            result.backward()
            found[-1] += [x.grad, w.grad]
        close(found[1], found[0])
