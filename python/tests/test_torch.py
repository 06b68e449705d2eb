"""torch.compile(backend="toroid"): results are eager's, and what toroid refuses runs in eager with one warning."""

import copy
import logging
import math
import os
import pickle
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

import toroid.torch as backend  # noqa: E402
from torch_support import F, Block, close, compiled, fresh, nn  # noqa: E402, F401
from toroid.torch.options import read_options  # noqa: E402


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        return self.last(F.max_pool2d(F.relu(self.norm(self.first(x))), 2).mean((2, 3)))


def test_inference_is_eagers():
    for model, x in ((Block(), torch.randn(4, 16)), (Convolutions().eval(), torch.randn(2, 3, 8, 8))):
        with torch.no_grad():
            close(compiled(model)(x), model(x))


def test_training_has_eagers_gradients_and_parameters():
    for model, x in ((Block(), torch.randn(4, 16)), (Convolutions(), torch.randn(4, 3, 8, 8))):
        twin = copy.deepcopy(model)
        one, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin))
        step = compiled(twin)
        for _ in range(3):
            for m, call, optimizer in ((model, model, one), (twin, step, other)):
                optimizer.zero_grad()
                (call(x) ** 2).mean().backward()
                optimizer.step()
        for expected, actual in zip(model.state_dict().values(), twin.state_dict().values()):
            close(actual, expected, 1e-3)


def test_gradients_accumulate_and_reach_inputs():
    model, x = Block(), torch.randn(4, 16, requires_grad=True)
    step = compiled(model)
    for call in (step, model):
        for _ in range(2):
            call(x).sum().backward()
    close(x.grad / 2, torch.autograd.grad(2 * model(x).sum(), x)[0])


def test_sizes_that_change_need_one_program():
    calls = []

    def f(x, y):
        return torch.softmax(x @ y.T, -1).sum(0) * x.shape[0], x.reshape(-1)[: x.shape[0]]

    step = compiled(f, dynamic=True, options={"fallback": False})
    for n in (3, 5, 8, 13):
        x, y = torch.randn(n, 4), torch.randn(7, 4)
        close(step(x, y), f(x, y))
        calls.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert calls[0] == calls[-1]


def test_marked_dims_and_training():
    model = Block()
    step = compiled(model)
    for n in (3, 5, 9):
        x = torch.randn(n, 16)
        torch._dynamo.mark_dynamic(x, 0)
        model.zero_grad()
        step(x).square().sum().backward()
        actual = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).square().sum().backward()
        close(actual, [p.grad for p in model.parameters()], 1e-3)


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_graphs_that_compute_nothing():
    for x in (torch.tensor(2.0), torch.tensor(2.0, requires_grad=True)):
        torch._dynamo.reset()
        result = compiled(lambda x: x.T)(x)  # the input, of which AOTAutograd's graph gives nothing
        close(result, x)
        assert result.data_ptr() == x.data_ptr() and result.requires_grad == x.requires_grad


def test_views_and_aliases_are_eagers():
    def f(x):
        y = x * 2
        return x, x.t(), y, y[1:], y.view(-1), x.view(-1)[3:]

    x = torch.randn(4, 6)
    expected, actual = f(x), compiled(f)(x)
    for a, e in zip(actual, expected):
        close(a, e)
        assert a.stride() == e.stride()
    assert actual[0] is x and actual[1].data_ptr() == x.data_ptr() and actual[5].data_ptr() == x.data_ptr() + 12
    assert actual[3].untyped_storage().data_ptr() == actual[2].untyped_storage().data_ptr()


def test_memory_formats_are_eagers():
    conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
    with torch.no_grad():
        actual, expected = compiled(conv)(x), conv(x)
    close(actual, expected)
    assert actual.stride() == expected.stride()


def test_strides_that_leave_gaps_are_eagers():
    def f(x):
        result = torch.empty_strided(x.shape, x.stride())
        result[:] = x + x
        return result, result + 1

    for dynamic in (False, True):
        made = compiled(f, dynamic=dynamic)
        for x in (torch.randn(6, 9)[:, :4], torch.randn(5, 12)[:, :7]):
            for actual, expected in zip(made(x), f(x)):
                assert torch.equal(actual, expected) and actual.stride() == expected.stride()


def _views_of_gaps(x):
    result = torch.empty_strided(x.shape, x.stride())
    result[:] = x + x
    return result, result[1:], result.t()


def _views_of_a_layer_norm(x):
    y = F.conv2d(x, torch.ones(6, 3, 3, 3), padding=1, stride=2).permute(0, 2, 3, 1)
    y = F.layer_norm(y, y.shape[-1:])  # its strides have max(1, size) in the place of sizes
    return y.permute(0, 3, 1, 2), y.flatten(1)


@torch.library.custom_op("toroid_test::copied", mutates_args=())
def _copied(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@_copied.register_fake
def _(x):
    return torch.empty_like(x)


def _views_of_what_runs_in_eager(x):
    y = torch.ops.toroid_test.copied(x.repeat(1, 2))  # its sizes are 2 * s, and no size is s
    return y, y[:, 1:3]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function, shape", [(_views_of_gaps, (6, 9)), (_views_of_a_layer_norm, (2, 3, 8, 8)), (_views_of_what_runs_in_eager, (4, 5))]
)
@pytest.mark.filterwarnings("ignore::toroid.torch.FallbackWarning")
def test_outputs_that_are_views_of_one_tensor_share_its_memory(function, shape, dynamic):
    x = torch.randn(shape)
    x = x[:, :4] if len(shape) == 2 else x
    actual, expected = torch.compile(function, backend="toroid", dynamic=dynamic)(x), function(x)
    for a, e in zip(actual, expected):
        close(a, e)
        assert a.stride() == e.stride() and a.storage_offset() == e.storage_offset()
    assert len({a.untyped_storage().data_ptr() for a in actual}) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_inputs_that_are_written_to(dynamic):
    def f(x, y):
        view = x.reshape(x.shape[0], -1)
        view.transpose(0, -1)[0].sin_()
        return view, y * 2, x[1:].t()

    for offset in (0, 1):
        base = torch.randn(3, 14)
        found = []
        for call in (f, compiled(f, dynamic=dynamic)):
            own = base.clone()
            x = own[1:, offset::2].t()[offset:, 0]
            found.append((*call(x, torch.ones(2, 3)), own))
            assert found[-1][0].data_ptr() == x.data_ptr()
        close(found[1], found[0])


def test_fewer_reflectors_than_columns():
    for rows in (2, 0):
        a, tau = torch.geqrf(torch.randn(3, rows, 5))
        other = torch.randn(3, rows, 4)
        close(compiled(torch.ormqr)(a, tau, other), torch.ormqr(a, tau, other))


def test_paddings_that_become_crops():
    def gradient(low, high, x, given):
        return torch.ops.aten.reflection_pad2d_backward(given, x, [1, low, high, 2])

    made = compiled(gradient, dynamic=True)
    for low, high in ((2, 3), (0, 0), (-1, 2), (3, -2)):
        x = torch.randn(1, 2, 8, 8)
        given = torch.randn_like(torch.nn.functional.pad(x, (1, low, high, 2), mode="reflect"))
        close(made(low, high, x, given), gradient(low, high, x, given))


def test_views_of_complex_and_of_negated_numbers():
    def f(x):
        return x.t(), x[:, ::2], x.unsqueeze(0).expand(3, *x.shape), x.conj(), x.conj().t(), x.conj().imag, x.real[1:]

    x = torch.randn(4, 5, dtype=torch.complex64)
    for given in (x, x.conj(), x.t()):
        for dynamic in (False, True):
            torch._dynamo.reset()
            for actual, expected in zip(compiled(f, dynamic=dynamic)(given), f(given)):
                assert torch.equal(actual, expected) and actual.stride() == expected.stride()


def test_conditions_of_sizes_as_elements():
    def f(n, x):
        y = torch.full((2,), n >= 4)
        return y, y + 1, torch.full((1,), x.shape[0] / 2)

    made = compiled(f, dynamic=True)
    for n in (3, 5, 4):
        for actual, expected in zip(made(n, torch.ones(n)), f(n, torch.ones(n))):
            assert torch.equal(actual, expected) and actual.dtype == expected.dtype


def test_sizes_that_floats_tell_as_results():
    def f(x):
        y = torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")
        return y.flip(1), x.repeat(2, 1, 1, 1)[1:]

    made = compiled(f, dynamic=True)
    for size in (8, 5):
        x = torch.randn(2, 3, 4, size)
        for actual, expected in zip(made(x), f(x)):
            close(actual, expected)
            assert actual.stride() == expected.stride()


def test_masked_indices():
    def picked(x, mask, index):
        return torch.ops.aten._unsafe_masked_index(x, mask, [None, index], 7)

    def added(x, mask, index, values):
        return torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [None, index], values)

    x, index = torch.randn(3, 5), torch.tensor([0, 9, -1, 4, -30, 2])
    for mask in (torch.tensor([True, False, True, True, False, False]), torch.rand(3, 6) > 0.5, torch.rand(2, 1, 6) > 0.5):
        close(compiled(picked)(x, mask, index.abs()), picked(x, mask, index.abs()))
        if mask.dim() < 3:
            values = torch.randn(3, 6)
            close(compiled(added)(x, mask, index, values), added(x, mask, index, values))
    close(compiled(picked)(x[:, :0], torch.zeros(6, dtype=torch.bool), index), torch.full((3, 6), 7.0))


def test_in_place_updates_reach_the_callers_tensors():
    def f(x, y):
        x.add_(1)
        y[0].mul_(x.sum())
        return x * y

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    x1, y1 = x.clone(), y.clone()
    close(compiled(f)(x1, y1), f(x, y))
    close((x1, y1), (x, y))


def test_buffers_of_modules_are_updated():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x * self.count

    model = Counter()
    step = compiled(model)
    for n in (1, 2, 3):
        close(step(torch.ones(2)), torch.full((2,), float(n)))
    assert model.count == 3


def test_operators_that_toroid_lacks_run_in_eager_with_one_warning():
    @torch.library.custom_op("toroid_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x):
        return twice(x.sin()).cos() + twice(x)

    x = torch.randn(5)
    said = r"toroid_test::twice \(2 times\)(.|\n)*at .*test_torch.py:\d+, in f: return twice"
    with pytest.warns(backend.FallbackWarning, match=said) as caught:
        close(torch.compile(f, backend="toroid")(x), f(x))
    assert len([w for w in caught if issubclass(w.category, backend.FallbackWarning)]) == 1
    for more in ({"fullgraph": True}, {"options": {"fallback": False}}):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="toroid cannot compile this graph as a whole(.|\n)*toroid_test::twice"):
            torch.compile(f, backend="toroid", **more)(x)


def test_what_only_the_compiler_refuses_runs_in_eager_too():
    def f(x):
        return x.relu().view(torch.int16).float().cos()

    x = torch.randn(8)
    with pytest.warns(backend.FallbackWarning, match=r"aten::view.dtype: viewing f32 as i16, of another size(.|\n)*, in f: return x.relu"):
        close(torch.compile(f, backend="toroid")(x), f(x))


def test_random_operators_follow_the_seed():
    def f(x):
        return F.dropout(x, 0.5), torch.rand(1000)

    step = compiled(f)
    x = torch.ones(1000)
    torch.manual_seed(1)
    first, again = step(x), step(x)
    torch.manual_seed(1)
    close(step(x), first)
    assert not torch.equal(first[1], again[1])
    assert set(first[0].unique().tolist()) == {0.0, 2.0} and 400 < int((first[0] == 0).sum()) < 600
    assert 0.4 < float(first[1].mean()) < 0.6
    torch._dynamo.reset()
    eager = torch.compile(f, backend="toroid", options={"fallback_random": True})
    torch.manual_seed(2)
    actual = eager(x)
    torch.manual_seed(2)
    close(actual, f(x))

    def g(x):
        first = torch.rand(1000)
        return F.dropout(x.sin() * first, 0.5).cos() + torch.rand(1000), torch.randn(3), F.dropout(first, 0.1)

    step = torch.compile(g, backend="toroid", options={"fallback_random": True})
    torch.manual_seed(3)
    actual = step(x)
    torch.manual_seed(3)
    close(actual, g(x))


def test_dropout_in_training_uses_one_mask():
    x = torch.ones(1000, requires_grad=True)
    y = compiled(lambda x: F.dropout(x, 0.5).sin())(x)
    y.sum().backward()
    assert torch.equal(y == 0, x.grad == 0)


def test_autocast_and_checkpointing():
    from torch.utils.checkpoint import checkpoint

    model, x = Block(), torch.randn(4, 16)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    close(compiled(f)(x).float(), f(x).float(), 3e-2)

    def g(x):
        return checkpoint(model, x, use_reentrant=False)

    compiled(g)(x).sum().backward()
    actual = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    g(x).sum().backward()
    close(actual, [p.grad for p in model.parameters()], 1e-3)


def test_complex_numbers():
    def f(x, y):
        z = torch.complex(x, y)
        return torch.view_as_real(z * z.conj() + 1j), z.abs()

    x, y = torch.randn(6), torch.randn(6)
    close(compiled(f)(x, y), f(x, y))

    def g(z):
        return z * 2, z.t().exp(), z[1:]

    step = compiled(g)
    z = torch.randn(3, 5, dtype=torch.complex64)
    for given in (z, z.conj(), z[:, ::2], z.conj().imag, z.to(torch.complex128)):
        close(step(given), g(given))
    assert step(z.conj())[2].is_conj() and z.conj().imag.is_neg()

    def h(z):
        return torch.view_as_complex(torch.view_as_real(z) + 1)

    close(compiled(h)(z), h(z))


def test_eight_bit_floats():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        weight = torch.randn(16, 8).to(dtype)

        def f(x, w):
            return x @ w.to(x.dtype), w[1:], (x * 2).to(w.dtype)

        x = torch.randn(4, 16)
        for actual, expected in zip(compiled(f)(x, weight), f(x, weight)):
            assert actual.dtype == expected.dtype
            close(actual.float(), expected.float())


def test_unsigned_integers():
    for dtype, bits in ((torch.uint16, 16), (torch.uint32, 32), (torch.uint64, 64)):
        x = torch.tensor([0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 77], dtype=dtype)
        y = torch.tensor([3, 1, 2**bits - 2, 2, 5, 2**bits - 1], dtype=dtype)
        f = torch.tensor([0.0, 1.5, 2.0 ** (bits - 1), 1000.0, 65535.0, 3.0], dtype=torch.float64)

        def function(x, y, f):
            more = x * y, x & y, x | y, x ^ y, x == y, x != y, x / y, x.sort(), x.sum(), x[1:4] * y[1:4]
            moved = x.view(2, 3).t().contiguous(), torch.cat([x, y]), x.clone()
            return *more, x.double(), x.float(), x.to(torch.int64), f.to(x.dtype), *moved

        close(compiled(function, fullgraph=True)(x, y, f), function(x, y, f))


def test_numbers_as_arguments_and_results():
    def f(x, n, s):
        return x * n + s, x.shape[0] * n

    step = compiled(f, dynamic=True)
    for n, s in ((2, 0.5), (3, 1.5), (7, 2.5)):
        x = torch.randn(n + 2)
        assert step(x, n, s)[1] == f(x, n, s)[1]
        close(step(x, n, s)[0], f(x, n, s)[0])

    def scaled(x, s):
        y = x * s + math.sqrt(x.shape[0]) / 2
        return y / (x.shape[0] / 3), torch.full_like(x, s * 2), F.scaled_dot_product_attention(y, y, y, scale=1 / x.shape[0])

    step = compiled(scaled, dynamic=True)
    for n, s in ((4, 0.5), (5, 1.5), (7, 2.5)):
        x = torch.randn(n, 3, 8)
        close(step(x, s), scaled(x, s))


def test_sizes_that_are_rounded_in_python():
    def f(x):
        frames = math.ceil((x.shape[-1] - 3) / 2 + 1)
        y = F.pad(x, (0, (frames - 1) * 2 + 3 - x.shape[-1])).sin()
        return y, y.view(-1), y.shape[-1]

    step = compiled(f, dynamic=True)
    for n in (8, 9, 12):
        x = torch.randn(2, n, requires_grad=True)
        actual, expected = step(x), f(x)
        close(actual, expected)
        close(torch.autograd.grad(actual[1].sum(), x), torch.autograd.grad(expected[1].sum(), x))


def test_sizes_that_data_tell():
    def f(x):
        n = x.nonzero()
        k = x.sum().to(torch.int64).item()
        torch._check(k >= 0)
        torch._check(k < 20)
        return n * 2, torch.arange(k) + x.sum(), x.max().item() * x

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        step = compiled(f)
        for x in (torch.tensor([1.0, 0.0, 2.0]), torch.tensor([0.0, 5.0, 2.0])):
            close(step(x), f(x))
        with pytest.raises(RuntimeError, match="u\\d"):
            step(torch.tensor([30.0, 0.0, 1.0]))

        def two(x):
            n = x.nonzero()
            torch._check(n.shape[0] == 2)
            return n * 2

        step = compiled(two)
        close(step(torch.tensor([1.0, 0.0, 2.0])), two(torch.tensor([1.0, 0.0, 2.0])))
        with pytest.raises(backend.CallError, match="u\\d = 1 is outside of"):
            step(torch.tensor([30.0, 0.0, 0.0]))


def test_negative_numbers_as_arguments():
    step = compiled(lambda x, n: x[n:] * n, dynamic=True)
    for n in (-2, -3, 1):
        close(step(torch.arange(6.0), n), torch.arange(6.0)[n:] * n)


def test_tensors_without_elements():
    def f(x):
        return x * 2, x.sum(0), torch.cat([x, x])

    x = torch.randn(0, 3)
    close(compiled(f)(x), f(x))


def test_frozen_parameters_are_constants_as_long_as_nobody_writes_to_them():
    model, x = Block(), torch.randn(4, 16)
    step = compiled(model, options={"freezing": True})
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("toroid.torch")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with torch.no_grad():
        close(step(x), model(x))
        assert "_frozen: " in said[0] and len(said) == 1
        model.up.weight.mul_(2)
        close(step(x), model(x))
        assert "with them as arguments" in said[1]
        close(step(x + 1), model(x + 1))
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    close(step(x), model(x))  # with gradients: parameters are arguments
    step(x).sum().backward()
    assert model.up.weight.grad is not None


def test_a_hundred_threads_call_one_program():
    model = Block()
    step = compiled(model)
    xs = [torch.randn(4, 16) for _ in range(100)]
    with torch.no_grad():
        expected = [model(x) for x in xs]
        step(xs[0])
    found = [None] * len(xs)

    def work(i):
        with torch.no_grad():
            for _ in range(5):
                found[i] = step(xs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    close(found, expected)


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_calls_what_its_parent_compiled():
    step = compiled(lambda x: (x @ x).softmax(1))
    x = torch.randn(64, 64)
    expected = step(x).clone()
    child = os.fork()
    if child == 0:
        found, threads = [None] * 4, []
        for i in range(len(found)):
            threads.append(threading.Thread(target=lambda i=i: found.__setitem__(i, step(x))))
            threads[-1].start()
        for thread in threads:
            thread.join(30)
        os._exit(0 if all(each is not None and torch.equal(each, expected) for each in found) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_options_are_checked():
    with pytest.raises(ValueError, match="has no option 'fast'; it has fallback, "):
        read_options(None, {"fast": True}, {})
    with pytest.raises(ValueError, match="the option 'cache' is a bool, not 3"):
        read_options(None, {"cache": 3}, {})
    with pytest.raises(ValueError, match="has no mode 'quick'"):
        read_options("quick", None, {})
    assert read_options("max-autotune", None, {}).max_autotune
    assert pickle.loads(pickle.dumps(read_options(None, None, {}))) == read_options(None, {}, {})


@pytest.mark.parametrize(
    "size, kernel, stride, padding, dilation",
    [(14, 3, 1, 36, 36), (14, 3, 1, 24, 24), (7, 5, 1, 10, 5), (9, 5, 2, 12, 6), (13, 4, 1, 20, 14), (5, 3, 3, 9, 7), (6, 3, 1, 5, 6)],
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_filters_beyond_the_image(size, kernel, stride, padding, dilation, is_constant):
    x, w, b = torch.randn(2, 6, size, size + 3), torch.randn(8, 3, kernel, kernel), torch.randn(8)
    if is_constant:
        made = nn.Conv2d(6, 8, kernel, stride, padding, dilation, groups=2)
        with torch.no_grad():
            close(torch.compile(made, backend="toroid", options={"freezing": True})(x), made(x))
        return

    def f(x, w, b):
        return F.conv2d(x, w, b, stride, padding, dilation, groups=2).relu()

    close(compiled(f)(x, w, b), f(x, w, b))
    given = [each.clone().requires_grad_() for each in (x, w, b)]
    theirs = [each.clone().requires_grad_() for each in (x, w, b)]
    compiled(f)(*given).square().sum().backward()
    f(*theirs).square().sum().backward()
    for mine, wanted in zip(given, theirs):
        close(mine.grad, wanted.grad, 1e-3)
