"""What the tests of torch.compile share."""

import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

import toroid.torch as backend  # noqa: E402

nn = torch.nn
F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    gc.collect()


def compiled(function, **more):
    """Compiled with toroid; a warning of a fallback is an error."""
    made = torch.compile(function, backend="toroid", **more)

    def call(*arguments, **named):
        with warnings.catch_warnings():
            warnings.simplefilter("error", backend.FallbackWarning)
            return made(*arguments, **named)

    return call


def close(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))
