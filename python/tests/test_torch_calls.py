"""What calls of compiled graphs do around their programs."""

import pytest

torch = pytest.importorskip("torch")

from toroid import errors  # noqa: E402
from toroid.torch import gpu, gradients, runtime  # noqa: E402
from toroid.torch.untraced import untraced  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_support import F, close, compiled, fresh  # noqa: E402, F401


def test_dynamo_traces_nothing_that_a_compiled_graph_calls(monkeypatch):
    frames = []
    convert = torch._dynamo.convert_frame.ConvertFrame.__call__

    def noted(self, frame, *arguments, **named):
        frames.append(frame.f_code.co_name)
        return convert(self, frame, *arguments, **named)

    def operator(x):
        return x.sin()

    def call(x):
        return operator(x) + 1

    def step(x):
        torch._dynamo.graph_break()
        return compiled_call(x * 2) * 3

    monkeypatch.setattr(torch._dynamo.convert_frame.ConvertFrame, "__call__", noted)
    compiled_call = untraced(call, "it is compiled")
    x = torch.ones(4)
    for _ in range(2):
        close(torch.compile(step, backend="toroid")(x), ((2 * x).sin() + 1) * 3)
    assert frames and all(name == "step" or name.startswith("torch_dynamo_resume_in_step") for name in frames), frames


def test_random_operators_of_checkpointed_regions_keep_eagers_order():
    def f(x, y):
        twice = F.dropout(F.dropout(x, 0.5), 0.5)
        return twice, checkpoint(lambda each: F.dropout(each.sin(), 0.5).cos(), y, use_reentrant=False), F.dropout(y, 0.5)

    def run(call):
        x, y = torch.ones(1000, requires_grad=True), torch.ones(1000, requires_grad=True)
        torch.manual_seed(4)
        results = call(x, y)
        sum(each.sum() for each in results).backward()
        return *results, x.grad, y.grad

    for actual, expected in zip(run(torch.compile(f, backend="toroid", options={"fallback_random": True})), run(f)):
        close(actual, expected)


def test_seeds_and_constants_are_on_the_cpu_whatever_the_default_device():
    x = torch.ones(8, dtype=torch.complex64)
    torch.set_default_device("meta")
    try:
        dropped, times = compiled(lambda x: (F.dropout(x.real + 1, 0.5), x * (1 + 2j)))(x)
        assert isinstance(runtime.draw_seed(), int)
        parts = torch.empty(2, 4, device="cpu")
        assert gradients.may_overlap(parts.t(), parts[:, 1:]) and not gradients.may_overlap(parts[:, ::2], parts[:, 1::2])
    finally:
        torch.set_default_device(None)
    assert set(dropped.unique().tolist()) <= {0.0, 4.0}
    close(times, x * (1 + 2j))


def test_a_repeated_call_on_a_gpu_tells_what_an_earlier_one_found(monkeypatch):
    for name in ("_cuda_getCurrentRawStream", "_cuda_exchangeDevice", "_cuda_maybeExchangeDevice", "_cuda_isCurrentStreamCapturing"):
        monkeypatch.setattr(torch._C, name, lambda *arguments: 0, raising=False)
    told = ["index 9 is out of bounds", "input 'x' has strides [1, 4], and the program reads it with [4, 1]"]

    def run(args, seed, stream):
        if told:
            raise errors.InputError(told.pop(0))
        return args

    call = gpu.run_on(0, run, None, {0: (0, 1)})
    turned = torch.rand(4, 4).t()
    with pytest.raises(errors.InputError, match="out of bounds"):
        call([turned], -1)
    made, _ = call([turned], -1)
    assert made[0].is_contiguous() and torch.equal(made[0], turned)
    assert not told


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_gradients_of_results_may_come_conjugated_or_negated(dtype):
    weights = [torch.randn(4, dtype=dtype, requires_grad=True) for _ in range(2)]
    x = torch.randn(4, dtype=dtype)

    def f(x):
        return (x * weights[0], x + weights[1])

    def run(call):
        for each in weights:
            each.grad = None
        made = call(x)
        plain = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
        lazy = plain.conj().imag if dtype == torch.float32 else plain.conj()
        torch.autograd.backward(made, [lazy, lazy.clone() if dtype == torch.float32 else plain])
        return [*made, *(each.grad.clone() for each in weights)]

    for actual, expected in zip(run(compiled(f)), run(f)):
        close(actual, expected)
