"""torch.compile(backend="toroid") of graphs with graphs inside, and with operators that write to their arguments."""

import itertools
import warnings

import pytest

torch = pytest.importorskip("torch")

import toroid.torch as backend  # noqa: E402
from torch_support import close, compiled, fresh  # noqa: E402, F401
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_slices  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from toroid import _core, errors  # noqa: E402
from toroid.torch import attention, fallback, gpu  # noqa: E402
from toroid.torch.graph_text import write_graph  # noqa: E402
from toroid.torch.nodes import Refused  # noqa: E402
from toroid.torch.runtime import allocator  # noqa: E402


@torch.library.custom_op("toroid_test::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, by: float) -> None:
    x.mul_(by)


@torch.library.custom_op("toroid_test::add_to", mutates_args=("sum",))
def add_to(x: torch.Tensor, sum: torch.Tensor) -> torch.Tensor:
    sum.add_(x)
    return sum * 2


@add_to.register_fake
def _(x, sum):
    return torch.empty_like(x)


@torch.library.custom_op("toroid_test::with_channels_last", mutates_args=())
def with_channels_last(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).contiguous(memory_format=torch.channels_last)


@with_channels_last.register_fake
def _(x):
    return torch.empty_like(x)  # which lies as x does


with_channels_last.register_autograd(lambda context, gradient: with_channels_last(gradient))


@torch.library.custom_op("toroid_test::without_gaps", mutates_args=())
def without_gaps(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).contiguous()


@without_gaps.register_fake
def _(x):
    return x.new_empty(*x.shape[:-1], 2 * x.shape[-1])[..., : x.shape[-1]]


@torch.library.custom_op("toroid_test::expanded", mutates_args=())
def expanded(x: torch.Tensor) -> torch.Tensor:
    return x.expand(3, *x.shape[1:]).contiguous()


@expanded.register_fake
def _(x):
    return x.new_empty(x.shape).expand(3, *x.shape[1:])


@torch.library.custom_op("toroid_test::halved", mutates_args=())
def halved(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (x / 2).to(dtype)


@halved.register_fake
def _(x, dtype):
    return torch.empty_like(x)


@torch.library.custom_op("toroid_test::negated", mutates_args=())
def negated(x: torch.Tensor) -> torch.Tensor:
    return -x


@negated.register_fake
def _(x):
    return torch.empty_like(x)


def test_both_branches_of_a_condition():
    weight = torch.randn(5, 5)

    def f(x):
        return torch.cond(x.sum() > 0, lambda y: (y @ weight).relu(), lambda y: y @ weight.t(), (x * 2,)) + 1

    step = compiled(f)
    x = torch.rand(4, 5, requires_grad=True)
    for given in (x.detach(), -x.detach()):
        close(step(given), f(given))
    for sign in (1, -1):
        expected = torch.autograd.grad(f(sign * x).square().sum(), x)
        close(torch.autograd.grad(step(sign * x).square().sum(), x), expected)


def test_a_condition_of_sizes():
    def f(x):
        return torch.cond(x.shape[0] > 3, lambda y: y.sin() + y.shape[0], lambda y: y.cos(), (x,)) + 1

    step = compiled(f, dynamic=True)
    for n in (2, 3, 4, 7):
        x = torch.randn(n, 3)
        close(step(x), f(x))


def test_loops():
    def f(x):
        count, powers = while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y @ y), (torch.tensor(0), x.sin()))
        last, sums = scan(lambda c, y: (c + y, (c * y).relu()), torch.zeros(3), x, dim=0)
        products = associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")
        return count, powers, last, sums, products, map_slices(lambda y, z: torch.softmax(y, 0) * z, x, x.sum(0))

    x = torch.randn(3, 3)
    close(compiled(f)(x), f(x))


def test_control_flow_beside_what_toroid_lacks():
    def f(x):
        y = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (negated(x) * 2,))
        return torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y * 3, (negated(y),)) + 1

    def inside(x):
        return torch.cond(x.sum() > 0, lambda y: negated(y.sin()), lambda y: y.cos(), (x.exp(),)) + 1

    x = torch.randn(4)
    with pytest.warns(backend.FallbackWarning, match=r"PyTorch:\n  toroid_test::negated \(2 times\): toroid has no such operator\n.*\Z"):
        close(torch.compile(f, backend="toroid")(x), f(x))
    torch._dynamo.reset()
    with pytest.warns(backend.FallbackWarning, match=r"  cond: its body calls toroid_test::negated: toroid has no such operator"):
        close(torch.compile(inside, backend="toroid")(x), inside(x))


def test_custom_operators_that_write_to_their_arguments():
    def f(x, given):
        y, sums = x * 2, torch.zeros(4, 5)
        scale_(y, 3.0)
        scale_(sums[1], 2.0)
        scale_(given, 0.5)
        first = add_to(x.sin(), sums)
        return y + 1, first + sums, add_to(x[1:3], sums[1:3]), sums.cos()

    x, given = torch.randn(4, 5), torch.randn(3)
    ours, eagers = given.clone(), given.clone()
    with pytest.warns(backend.FallbackWarning, match=r"  toroid_test::scale_ \(3 times\): (.|\n)*  toroid_test::add_to \(2 times\): "):
        close(torch.compile(f, backend="toroid")(x, ours), f(x, eagers))
    close(ours, eagers)


def test_views_of_what_lies_otherwise_than_its_fake_tensor():
    def f(x):
        y = with_channels_last(x)
        return y.transpose(2, 3), y[:, 1:], y + 1, with_channels_last(y.permute(0, 3, 1, 2)).flatten(2)

    x = torch.randn(2, 3, 4, 5)
    for dynamic in (False, True):
        torch._dynamo.reset()
        with pytest.warns(backend.FallbackWarning, match=r"  toroid_test::with_channels_last \(2 times\): "):
            close(torch.compile(f, backend="toroid", dynamic=dynamic)(x), f(x))


def test_aliases_and_gradients_of_what_lies_otherwise_than_its_fake_tensor():
    def f(x):
        y = with_channels_last(x)
        return y.transpose(2, 3), y.flatten(1), (y * y).sum()

    given = torch.randn(2, 3, 4, 5)
    for dynamic in (False, True):
        torch._dynamo.reset()
        found = []
        for call in (f, torch.compile(f, backend="toroid", dynamic=dynamic)):
            x = given.clone().requires_grad_()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", backend.FallbackWarning)
                outputs = call(x)
                sum((y * torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape)).sum() for y in outputs).backward()
            found.append((*(y.detach() for y in outputs), x.grad))
        close(found[1], found[0])


def test_fake_tensors_with_gaps_and_overlaps_of_what_has_none():
    def f(x):
        y = without_gaps(x)
        return y.transpose(1, 3), y[1], y[:, 1:]

    def g(x):
        return expanded(x[:1])[1:]

    x = torch.randn(2, 3, 4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", backend.FallbackWarning)
        close(torch.compile(f, backend="toroid")(x), f(x))
        torch._dynamo.reset()
        with pytest.raises(backend.CallError, match="and its fake implementation overlapping ones"):
            torch.compile(g, backend="toroid")(x)


def test_symbolic_strides_of_fake_tensors_with_gaps():
    def f(x):
        y = without_gaps(x)
        return y[1:], y.t().reshape(-1) + 1

    made = torch.compile(f, backend="toroid", dynamic=True)
    with pytest.warns(backend.FallbackWarning):
        for shape in ((5, 4), (7, 6), (3, 9)):
            x = torch.randn(shape)
            for actual, expected in zip(made(x), f(x)):
                assert torch.equal(actual, expected)


def test_places_in_memory_of_what_lies_otherwise_than_its_fake_tensor():
    with pytest.warns(backend.FallbackWarning), pytest.raises(backend.CallError, match="as_strided"):
        torch.compile(lambda x: without_gaps(x).as_strided((4,), (3,)) + 1, backend="toroid")(torch.randn(5, 4))


def test_dtypes_of_fake_tensors():
    def f(x, dtype):
        return halved(x, dtype).exp()

    x = torch.randn(3, 4)
    with pytest.warns(backend.FallbackWarning):
        close(torch.compile(f, backend="toroid")(x, torch.bfloat16), halved(x, torch.bfloat16).float().exp())
        with pytest.raises(backend.CallError, match="float64"):
            torch.compile(f, backend="toroid")(x, torch.float64)


def test_quotients_of_integers_with_symbolic_sizes():
    def f(a, b):
        return a / b, (a / b).sum() + 1, torch.div(a, b, rounding_mode="floor")

    made = compiled(f, dynamic=True)
    for size in (4, 9):
        a, b = torch.randint(-99, 99, (size, 3)), torch.randint(1, 99, (size, 3))
        close(made(a, b), f(a, b))


def test_regions_are_part_of_the_graph():
    @torch.compiler.nested_compile_region
    def layer(x, weight):
        return (x @ weight).sin()

    def f(x, weight):
        for _ in range(3):
            x = layer(x, weight)
        return x.sum()

    x, weight = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    expected = torch.autograd.grad(f(x, weight), (x, weight))
    close(torch.autograd.grad(compiled(f)(x, weight), (x, weight)), expected)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flexible_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    bias, mask = torch.randn(16, 16), create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 16, 16, device="cpu")

    def f(q, k):
        return flex_attention(q.sin(), k, k, score_mod=lambda s, b, h, i, j: s + bias[i, j], block_mask=mask)

    q, k = torch.randn(2, 2, 16, 8), torch.randn(2, 2, 16, 8)
    close(compiled(f)(q, k), f(q, k))


def text_of(function, *tensors):
    """The text that is made of the function for tensors (sizes, device), of which nothing is there."""
    with FakeTensorMode():
        given = [torch.empty(sizes, device=device) for sizes, device in tensors]
        return write_graph(make_fx(function)(*given))


def joint_attention(scores_of_others):
    """A graph of bfloat16 attention on a GPU and its gradient; the keys that the forward pass saw may be others."""

    def joint(q, k, v, grad, others):
        seen = others if scores_of_others else k
        given = torch.ops.aten._scaled_dot_product_cudnn_attention(q, seen, v, None, True, 0.0, True, False)
        return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            grad, q, k, v, given[0], given[1], given[6], given[7], None, None, None, given[4], given[5], 0.0, True
        )

    with FakeTensorMode():
        inputs = [torch.empty(2, 3, 7, 16, dtype=torch.bfloat16, device="cuda:0") for _ in range(5)]
        return make_fx(joint, tracing_mode="fake")(*inputs)


def joint_masked_attention(mask_of_others, wants_gradient_of_mask=False):
    """The same with a mask, of which the forward pass may have had another one. PyTorch's sums have more rows than there are queries."""

    def joint(q, k, v, grad, mask, others):
        out, sums, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, others if mask_of_others else mask, True)
        return torch.ops.aten._scaled_dot_product_efficient_attention_backward(
            grad, q, k, v, mask, out, sums, seed, offset, 0.0, [True, True, True, wants_gradient_of_mask]
        )

    with FakeTensorMode():
        inputs = [torch.empty(2, 3, 7, 16, dtype=torch.bfloat16, device="cuda:0") for _ in range(4)]
        masks = [torch.empty(2, 3, 7, 7, dtype=torch.bfloat16, device="cuda:0") for _ in range(2)]
        return make_fx(joint, tracing_mode="fake")(*inputs, *masks)


def test_gradients_of_attention_in_graphs_of_their_own():
    for joint, others in itertools.product((joint_attention, joint_masked_attention), (False, True)):
        gm = joint(others)
        attention.mark(gm)
        written = attention.with_own_sums(gm)
        text = write_graph(written, "joint", is_tangent=lambda node: False).text
        assert ("flash_attention_for_cpu" in text) == (not others)
        assert "flash_attention_for_cpu" not in gm.code  # which eager PyTorch may have to run
    of_mask = joint_masked_attention(False, wants_gradient_of_mask=True)
    attention.mark(of_mask)
    assert attention.with_own_sums(of_mask) is of_mask


def test_texts_say_where_tensors_are():
    one = text_of(lambda x, w: (x @ w.t()).relu(), ((4, 8), "cuda:0"), ((5, 8), "cuda:0"))
    assert "graph(x_1: f32[4, 8] on cuda:0, w_1: f32[5, 8] on cuda:0)" in one.text
    assert (one.gpu, one.is_mixed) == (0, False)
    second = text_of(lambda x: torch.rand_like(x) + torch.zeros(4, device="cuda:1"), ((4,), "cuda:1"))
    assert (second.gpu, second.is_mixed, second.draws_on_gpu) == (1, False, True)
    assert "device=device.cuda:0" in second.text and "cuda:1" not in second.text  # one program for whichever GPU
    for mixed in (
        text_of(lambda x, s: x * s, ((4,), "cuda:0"), ((), "cpu")),
        text_of(lambda x: (x.cpu(), x + 1), ((4,), "cuda:0")),
    ):
        assert (mixed.gpu, mixed.is_mixed) == (0, True)
    with pytest.raises(Refused, match="tensors on several GPUs are not supported"):
        text_of(lambda x, y: (x + 1, y + 1), ((4,), "cuda:0"), ((4,), "cuda:1"))
    with pytest.raises(Refused, match="tensors on the device xpu:0 are not supported"):
        text_of(lambda x: x + 1, ((4,), "xpu:0"))


def run(graph, device, *given):
    program = _core.compile_graph(graph.text, {}, {"device": device}, allocator())
    results = graph.results
    count = len(results)
    program.set_outputs([each.dtype for each in results], [list(each.place) for each in results], [False] * count, [None] * count)
    program.set_inputs(graph.inputs)
    return program.call([*given], -1)


def test_attention_that_pytorch_gives_to_cudnn():
    """Its results have numbers among them, and its logarithms of sums one dim more than others'."""

    def forward(q, k, v):
        out, sums, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
        return out, sums

    def backward(grad, q, k, v, out, sums):
        none = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
        return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            grad, q, k, v, out, sums, none[6], none[7], None, None, None, none[4], none[5], 0.0, True
        )

    sizes = (2, 3, 5, 8)
    q, k, v, grad = (torch.randn(sizes, requires_grad=i < 3) for i in range(4))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    gradients = torch.autograd.grad(expected, (q, k, v), grad)
    q, k, v = (each.detach() for each in (q, k, v))
    out, sums = run(text_of(forward, *[(sizes, "cuda:0")] * 3), "emulated-cuda", q, k, v)
    assert sums.shape == (2, 3, 5, 1)
    close(out, expected)
    graph = text_of(backward, *[(sizes, "cuda:0")] * 5, ((2, 3, 5, 1), "cuda:0"))
    close(run(graph, "emulated-cuda", grad, q, k, v, out, sums), gradients)


def test_programs_for_a_gpu_that_is_emulated():
    x, w = torch.randn(4, 8), torch.randn(5, 8)
    graph = text_of(lambda x, w: (x @ w.t()).softmax(-1).t(), ((4, 8), "cuda:0"), ((5, 8), "cuda:0"))
    close(run(graph, "emulated-cuda", x, w)[0], (x @ w.t()).softmax(-1).t())
    graph = text_of(lambda x, s: ((x * s).cpu() + 1, x + s), ((4, 8), "cuda:0"), ((), "cpu"))
    got = run(graph, "emulated-as-exported", x, torch.tensor(3.0))
    close(got[0], x * 3 + 1)
    close(got[1], x + 3)


def test_arguments_that_lie_otherwise_are_copied():
    graph = text_of(lambda x, w: (x + 1) @ w.t(), ((4, 8), "cuda:0"), ((5, 8), "cuda:0"))
    x, w = torch.randn(4, 8), torch.randn(8, 5).t()
    assert gpu.laid_out([x, w.contiguous()], graph.layouts) is None
    given = gpu.laid_out([x, w], graph.layouts)
    assert given[0] is x and given[1].is_contiguous() and torch.equal(given[1], w)


def test_a_machine_without_a_compiler(monkeypatch):
    def missing(*_):
        raise errors.SetupError("error: no C++ compiler is there\n  help: install one")

    monkeypatch.setattr(_core, "compile_graph", missing)
    x = torch.randn(3)
    with pytest.warns(backend.FallbackWarning, match="toroid runs graphs in eager PyTorch: no C.. compiler is there; `toroid doctor` says"):
        close(torch.compile(lambda x: x.relu() + 1, backend="toroid")(x), x.relu() + 1)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="toroid cannot compile this graph: no C.. compiler is there"):
        torch.compile(lambda x: x.relu() + 1, backend="toroid", fullgraph=True)(x)


def test_max_autotune():
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    x = torch.randn(16, 32)
    with torch.no_grad():
        close(compiled(model, mode="max-autotune")(x), model(x))


def test_new_elements_under_deterministic_algorithms():
    def grown(x):
        return torch.ops.aten.resize(x + 1, [2, 3])

    torch.use_deterministic_algorithms(True)
    try:
        with pytest.warns(backend.FallbackWarning, match="new elements are NaN"):
            y = torch.compile(grown, backend="toroid")(torch.ones(4))
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(y, torch.tensor([[2, 2, 2], [2, torch.nan, torch.nan]]), equal_nan=True)


def test_resize_takes_elements_in_the_order_of_memory():
    def resized(x, format):
        return torch.ops.aten.resize(x, [1, 3, 2, 3], memory_format=format), torch.ops.aten.resize_as(x, torch.ones(4, 4))

    x = torch.arange(18.0).reshape(1, 3, 2, 3)
    last = x.to(memory_format=torch.channels_last)
    for given, format in ((x, torch.channels_last), (last, torch.contiguous_format), (last, torch.channels_last)):
        for dynamic in (False, True):
            torch._dynamo.reset()
            with pytest.warns(backend.FallbackWarning, match="row-major order, or to another memory format"):
                actual = torch.compile(resized, backend="toroid", dynamic=dynamic)(given, format)
            close(actual, resized(given, format), 0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", backend.FallbackWarning)
        close(compiled(resized)(x, torch.contiguous_format), resized(x, torch.contiguous_format), 0)
