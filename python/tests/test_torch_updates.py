"""Inputs that a graph of torch.compile(backend="toroid") writes to: values, gradients, aliases and versions beside eager PyTorch's."""

import contextlib
import copy
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch_support import F, backend, close, compiled, fresh, nn  # noqa: E402, F401


@torch.library.custom_op("toroid_test::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cube.register_fake
def _(x):
    return torch.empty_like(x)


def observed(call, make, trains=False):
    """What a call does: its results, what it has written to, gradients; how results lie, and which tensors they are views of."""
    torch.manual_seed(1)
    arguments, owners = make()
    results = call(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    if trains:
        sum(each.sum() for each in results if each.requires_grad).backward()
    lie = [(each.stride(), each.storage_offset(), each.dtype, each.requires_grad) for each in results]
    pointers = [owner.untyped_storage().data_ptr() for owner in owners]
    aliases = [pointers.index(p) if (p := each.untyped_storage().data_ptr()) in pointers else None for each in results]
    gradients = [each.grad for each in arguments if each.is_leaf and each.grad is not None]
    values = [each.detach().resolve_conj() for each in (*results, *owners)]
    return [each.clone() for each in values], gradients, lie, aliases, [owner._version > 0 for owner in owners]


def same(function, make, dynamic=False, trains=False, **more):
    expected = observed(function, make, trains)
    made = compiled(function, dynamic=dynamic, **more)
    for _ in range(2):  # the second call is not that of the compilation
        actual = observed(made, make, trains)
        close(actual[:2], expected[:2])
        assert actual[2:] == expected[2:]


def tensors(*shapes, **more):
    def make():
        made = [torch.randn(shape, **more) for shape in shapes]
        return made, made

    return make


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_and_their_aliases(dynamic):
    def itself(state, x):
        state.mul_(0.9).add_(x)
        return state, state.sum()

    def views(state, x):
        state.add_(x)
        return state.view(-1), state[1:], state.t(), state.unbind(0)[2], state * 2

    def a_row(state, x):
        row = state[1]
        row.mul_(2)
        return row, x + 1

    def last_rows(state, x):
        rows = state[x.shape[0] - 3 :]
        rows.mul_(2)
        return rows

    def exchanged(a, b):
        before = a.clone()
        a.copy_(b)
        b.copy_(before)
        return a + b

    def one_value_twice(a, b):
        a.add_(1)
        b.copy_(a)
        return a * b

    def not_read(a, b):
        a.copy_(b[0])
        b.fill_(3)
        return b.sum()

    for function in (itself, views, a_row, last_rows, exchanged, one_value_twice, not_read):
        same(function, tensors((4, 6), (4, 6)), dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_places_in_memory(dynamic):
    def update(state, x):
        state.mul_(x)
        return state[1:], state.sum()

    def with_gaps():
        base = torch.randn(9, 14)
        return (base[1:5, 2::2], torch.randn(4, 6)), [base]

    def transposed():
        base = torch.randn(6, 4)
        return (base.t(), torch.randn(4, 6)), [base]

    def permuted():
        base = torch.randn(6, 5, 4, 2)
        return (base.permute(2, 0, 3, 1)[:, :, 1:], torch.randn(4, 6, 1, 5)), [base]

    def large():
        base = torch.randn(300, 400)
        return (base[:, 100:].t(), torch.randn(300, 300)), [base]

    def one_element():
        base = torch.randn(3, 1)
        return (base[1:2], torch.randn(1, 1)), [base]

    def without_elements():
        return (torch.randn(4, 0), torch.randn(4, 1)), []

    for make in (with_gaps, transposed, permuted, large, one_element, without_elements):
        torch._dynamo.reset()
        same(update, make, dynamic)


def test_dtypes_and_elements_that_are_still_to_be_conjugated():
    def update(a, b):
        a.mul_(b)
        return a + b

    for dtype in (torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.uint8):
        def make(dtype=dtype):
            made = [torch.randint(0, 5, (3, 4)).to(dtype)]
            made.append(made[0].flip(0))
            return made, made

        torch._dynamo.reset()
        same(update, make)

    def conjugated():
        base = torch.randn(3, 4, dtype=torch.complex64)
        return (base.conj(), torch.randn(3, 4, dtype=torch.complex64)), [base]

    def negated():
        base = torch.randn(3, 4, dtype=torch.complex64)
        return (base.conj().imag, torch.randn(3, 4)), [base]

    def flags(mask, count):
        mask.logical_not_()
        count += 1
        return mask.sum() + count

    for make in (conjugated, negated):
        torch._dynamo.reset()
        same(update, make)
    same(flags, lambda: ((both := [torch.rand(5) > 0.5, torch.tensor(3)]), both))


def test_what_lies_in_one_memory():
    def two_parts(a, b):
        a.mul_(2)
        b.add_(a.sum())
        return a * 2

    def make():
        base = torch.randn(8, 6)
        return (base[:4], base[5:]), [base]

    def twice():
        made = torch.randn(4, 6)
        return (made, made), [made]

    for each in (make, twice):
        torch._dynamo.reset()
        same(two_parts, each)


def test_parameters_and_gradients():
    def without_gradient(parameter, x):
        with torch.no_grad():
            parameter.sub_(x * 0.1)
        return (parameter * x).sin()

    def detached(parameter, x):
        parameter.detach().mul_(2)
        return (parameter * x).sin()

    def statistics(x, mean, count):
        y = (x * x.detach().mean(0)).tanh()
        mean.mul_(0.9).add_(y.detach().mean(0))
        count += 1
        return y * mean.clone(), mean.view(-1)[1:]

    def old_value(x, state):
        y = x * state.clone()
        with torch.no_grad():
            state.mul_(2)
        return y.sin() * state.clone()

    def leaf():
        return ((made := torch.randn(4, 6, requires_grad=True)), torch.randn(4, 6)), [made]

    def with_statistics():
        mean, count = torch.randn(6), torch.tensor(2)
        return (torch.randn(4, 6, requires_grad=True), mean, count), [mean, count]

    def with_state():
        state = torch.randn(4, 6)
        return (torch.randn(4, 6, requires_grad=True), state), [state]

    for function, make in ((without_gradient, leaf), (detached, leaf), (statistics, with_statistics), (old_value, with_state)):
        for dynamic in (False, True):
            torch._dynamo.reset()
            same(function, make, dynamic, trains=True)


def test_equal_nodes_before_and_behind_a_write_are_not_one():
    def function(x, state):
        before = (state * 2).sin() * x
        state.add_(1)
        behind = (state * 2).sin() * x
        state.add_(1)
        return before, behind, (state * 2).sin() * x

    same(function, lambda: ((torch.randn(4, requires_grad=True), (state := torch.randn(4))), [state]), trains=True)


def test_a_gradient_is_told_of_writes_by_the_graph():
    def writes(state):
        state.mul_(2)
        return state.sum()

    for call in (writes, compiled(writes)):
        x, state = torch.randn(4, requires_grad=True), torch.randn(4)
        result = (x * state).sum()
        call(state)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


class Counted(torch.autograd.Function):
    """x * 2, whose gradient writes to count, and lies by strides that its sizes are in."""

    @staticmethod
    def forward(context, x, count):
        context.count = count
        return x * 2

    @staticmethod
    def backward(context, gradient):
        context.count.add_(1)
        rows, columns = gradient.shape
        return torch.empty_strided((rows, columns), (columns * 2, 2)).copy_(gradient * 3), None


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_backward_pass_that_writes(dynamic):
    def function(x, count):
        return Counted.apply(x, count).sin()

    same(function, lambda: ((torch.randn(4, 6, requires_grad=True), (count := torch.zeros(3))), [count]), dynamic, trains=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_another_gradient_notices_what_a_backward_pass_writes(dynamic):
    def function(x, count):
        return Counted.apply(x, count)

    x, count = torch.randn(4, 6, requires_grad=True), torch.randn(6)
    z = (x * count).sum()
    compiled(function, dynamic=dynamic)(x, count).sum().backward()
    assert count._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_what_both_passes_write_to():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(context, x, state):
            context.state = state
            context.save_for_backward(x)
            with torch.no_grad():
                state.add_(1)
            return x * state

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            with torch.no_grad():
                context.state.mul_(2)
            return gradient * context.state * x, None

    def function(x, state):
        y = (x * state.clone()).sin()
        return Both.apply(y, state), state.exp()

    same(function, lambda: ((torch.randn(4, requires_grad=True), (state := torch.randn(4))), [state]), trains=True)


def test_what_is_written_around_operators_in_eager_pytorch():
    def function(a, b):
        a.add_(1)
        y = torch.ops.toroid_test.cube(a * b)
        b.mul_(y)
        return a[1:], (y + b).sin()

    made = torch.compile(function, backend="toroid")
    expected = observed(function, tensors((4, 6), (4, 6)))
    with pytest.warns(backend.FallbackWarning, match="cube"):
        actual = observed(made, tensors((4, 6), (4, 6)))
    close(actual[0], expected[0])
    assert actual[2:] == expected[2:]


def test_frozen_parameters_beside_a_buffer_that_is_written_to(caplog):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return self.inner(x) * self.count

    model = Counter()
    twin = copy.deepcopy(model)
    call = compiled(twin, options={"freezing": True})
    with torch.no_grad(), caplog.at_level("WARNING", "toroid.torch"):
        for _ in range(3):
            x = torch.randn(2, 4)
            close(call(x), model(x))
    assert float(twin.count) == 3 and not caplog.records


@pytest.mark.parametrize("needs_gradient", (True, False))
def test_what_a_batch_norm_keeps(needs_gradient):
    x = (3 + torch.randn(5, 4)).requires_grad_(needs_gradient)
    given, found = torch.randn(5, 4), []
    for is_compiled in (False, True):
        module, x.grad = nn.BatchNorm1d(4), None
        result = (compiled(module) if is_compiled else module)(x)
        if is_compiled:
            sizes = [tuple(each.shape) for each in result.grad_fn.saved_tensors]
            # The weight, the batch's mean and deviation, the batch.
            assert sorted(sizes) == [(4,)] * (3 if needs_gradient else 2) + [(5, 4)]
        result.backward(given)
        found.append([x.grad, *(each.grad for each in module.parameters())])
    close(found[1], found[0])


def test_batch_norm_in_training():
    for momentum in (0.1, None):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=momentum), nn.ReLU())
        twin = copy.deepcopy(model)
        call = compiled(twin)
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            model(x).square().sum().backward()
            call(x).square().sum().backward()
        close([each.grad for each in twin.parameters()], [each.grad for each in model.parameters()], 1e-3)
        close(list(twin.buffers()), list(model.buffers()))


def test_checkpointed_regions_that_write_to_buffers():
    class Region(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 6)
            self.register_buffer("seen", torch.zeros(6))

        def forward(self, x):
            with torch.no_grad():
                self.seen.mul_(0.5).add_(x.mean(0))
            return torch.tanh(self.inner(x))

    model = Region()
    twin = copy.deepcopy(model)
    x = torch.randn(4, 6)
    for module, call in ((model, model), (twin, compiled(lambda x: torch.utils.checkpoint.checkpoint(twin, x, use_reentrant=False)))):
        call(x).sum().backward()
    close([each.grad for each in twin.parameters()], [each.grad for each in model.parameters()])
    close(twin.seen, model.seen)


@pytest.mark.parametrize("foreach", [False, True])
def test_steps_of_optimizers(foreach):
    for make in (torch.optim.Adam, torch.optim.AdamW, lambda p, **more: torch.optim.SGD(p, lr=0.1, momentum=0.9, **more)):
        models = [nn.Sequential(nn.Linear(4, 300), nn.Tanh(), nn.Linear(300, 3))]
        models.append(copy.deepcopy(models[0]))
        for i, model in enumerate(models):
            optimizer = make(model.parameters(), foreach=foreach)
            step = compiled(optimizer.step) if i else optimizer.step
            for seed in range(3):
                torch.manual_seed(seed)
                optimizer.zero_grad()
                model(torch.randn(5, 4)).square().sum().backward()
                step()
        close(list(models[1].parameters()), list(models[0].parameters()))


def test_functional_calls_with_other_buffers():
    norm = nn.BatchNorm1d(4)

    def function(x, buffers):
        return torch.func.functional_call(norm, buffers, (x,))

    found = []
    for call in (function, compiled(function)):
        torch.manual_seed(0)
        x = torch.randn(5, 4, requires_grad=True)
        buffers = {name: each.clone() for name, each in norm.named_buffers()}
        call(x, buffers).square().sum().backward()
        found.append((x.grad, buffers))
    close(found[1], found[0])
    assert int(norm.num_batches_tracked) == 0


def test_tensors_of_inference_mode():
    def function(state, x):
        state.add_(x)
        return state * 2

    call = compiled(function)
    for mode in (torch.inference_mode, contextlib.nullcontext):
        with mode():
            state, x = torch.zeros(4), torch.ones(4)
            close(call(state, x), torch.full((4,), 2.0))
            close(state, torch.ones(4))
    with torch.inference_mode():
        state = torch.zeros(4)
        close(call(state, x), torch.full((4,), 2.0))
    for x in (torch.ones(4), torch.ones(4, requires_grad=True)):  # a graph of inference, and one of training
        for each in (function, call):
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
                each(state, x)
    with torch.inference_mode():  # the graph of before serves again
        close(call(torch.ones(4), torch.ones(4)), torch.full((4,), 4.0))


def test_memory_that_an_input_is_given():
    def function(a, b):
        with torch.no_grad():
            a.set_(b * 2)
        return b + 1

    results = []
    for call in (function, torch.compile(function, backend="toroid")):
        torch.manual_seed(0)
        a, b = torch.zeros(3), torch.randn(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", backend.FallbackWarning)
            results.append((call(a, b), a, b))
    close(results[1], results[0])


def test_places_in_a_storage_that_an_input_does_not_begin():
    def part():
        base = torch.randn(9, 6)
        return (base[2:6],), [base]

    def written(a):
        a.as_strided((2, 3), (6, 2), 13).mul_(2)
        return a * 1

    functions = [
        lambda a: a.as_strided((2, 3), (6, 2), 13) * 2,
        lambda a: a.as_strided((2, 3), (6, 2), a.storage_offset()) * 2,
        lambda a: a.as_strided((2, 3), (6, 2)) * 2,
        lambda a: a.as_strided((2, 3), (6, 2), 13),
        lambda a: a[1:].as_strided((2, 3), (6, 2), 14).sin(),
        lambda a: a.as_strided((2, 3), (6, 2), 0) * 2,  # before the input
        lambda a: a.as_strided((2, 3), (6, 2), 33) * 2,  # behind it
        written,
    ]
    for function in functions:
        for dynamic in (False, True):
            torch._dynamo.reset()
            expected, made = observed(function, part), torch.compile(function, backend="toroid", dynamic=dynamic)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", backend.FallbackWarning)  # of what a program cannot reach
                for _ in range(2):
                    actual = observed(made, part)
                    close(actual[:2], expected[:2])
                    assert actual[2:] == expected[2:]
    torch._dynamo.reset()
    call = compiled(functions[0])
    base = torch.randn(9, 6)
    close(call(base[2:6]), functions[0](base[2:6]))
    with pytest.raises(RuntimeError, match="begins at another place in its storage"):
        call(base[1:5])
