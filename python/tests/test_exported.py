"""Arrays of PyTorch, and ExportedPrograms. Skipped without PyTorch."""

import collections
import os
import tempfile
import unittest

import toroid
from support import PROGRAMS, numpy

try:
    import torch
except ImportError:
    torch = None

Pair = collections.namedtuple("Pair", "total rest")


def model_class():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, batch, *, scale, mode="fast"):
            self.calls += 1
            x = self.body(batch["x"]) * scale
            return Pair(x.sum(), [x, {"calls": self.calls.clone()}])

    return Model


@unittest.skipIf(torch is None, "needs PyTorch")
class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.utils._pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")
        cls.scaled = toroid.compile(PROGRAMS / "scaled.txt")

    def test_in_and_out(self):
        x = torch.arange(12.0).reshape(4, 3)
        y = self.scaled(x)
        self.assertIsInstance(y, torch.Tensor)
        torch.testing.assert_close(y, x * torch.tensor([1.0, 2, 3]))
        torch.testing.assert_close(self.scaled(x.t().contiguous().t()), y)
        self.assertIsInstance(self.scaled.with_options(results="numpy")(x), numpy.ndarray)
        shared = self.scaled.with_options(results="toroid")(x)
        self.assertEqual(torch.from_dlpack(shared).data_ptr(), shared.data_ptr)
        self.assertEqual(shared.torch().data_ptr(), shared.data_ptr)

    def test_gradients_conjugates_and_views(self):
        x = torch.ones(2, 3, requires_grad=True)
        with self.assertRaisesRegex(toroid.InputError, "requires a gradient"):
            self.scaled(x)
        with torch.no_grad():
            self.scaled(x)
        negated = torch.complex(torch.ones(2, 3), torch.ones(2, 3)).conj().imag
        self.assertTrue(negated.is_neg())
        torch.testing.assert_close(self.scaled(negated), torch.tensor([[-1.0, -2, -3]] * 2))
        with self.assertRaises((toroid.ToroidError, RuntimeError, BufferError)):
            self.scaled(torch.ones(2, 3).to_sparse())
        with self.assertRaises((toroid.ToroidError, RuntimeError, BufferError)):
            self.scaled(torch.ones(2, 3, device="meta"))

    def test_exported_program(self):
        model = model_class()()
        x, scale = torch.randn(3, 4), torch.tensor(2.0)
        exported = torch.export.export(model, ({"x": x},), {"scale": scale, "mode": "fast"})
        compiled = toroid.compile(exported)
        for calls in 1, 2:
            with torch.no_grad():
                expected = model({"x": x}, scale=scale)
            result = compiled({"x": x}, scale=scale)
            self.assertIsInstance(result, tuple)
            self.assertEqual(result._fields, ("total", "rest"))
            torch.testing.assert_close(result.total, expected.total)
            torch.testing.assert_close(result.rest[0], expected.rest[0])
            self.assertEqual(int(result.rest[1]["calls"]), calls)
        with self.assertRaisesRegex(toroid.InputError, "argument 'mode' is 'slow', and the program is for 'fast'"):
            compiled({"x": x}, scale=scale, mode="slow")

    def test_bfloat16(self):
        class Half(torch.nn.Module):
            def forward(self, x):
                return x * 2

        x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
        compiled = toroid.compile(torch.export.export(Half(), (x,)))
        torch.testing.assert_close(compiled(x), x * 2)
        try:
            import ml_dtypes
        except ImportError:
            with self.assertRaisesRegex(TypeError, "ml_dtypes"):
                compiled.with_options(results="numpy")(x)
            return
        given = x.float().numpy().astype(ml_dtypes.bfloat16)
        result = compiled(given)
        self.assertEqual(result.dtype, ml_dtypes.bfloat16)
        numpy.testing.assert_array_equal(result.astype(numpy.float32), 2 * given.astype(numpy.float32))

    def test_inputs_that_are_written_to(self):
        class Add(torch.nn.Module):
            def forward(self, cache, x):
                cache.add_(x)
                return cache.sum()

        compiled = toroid.compile(torch.export.export(Add(), (torch.zeros(3), torch.ones(3))))
        cache = torch.zeros(3)
        self.assertEqual(float(compiled(cache, torch.ones(3))), 3)
        self.assertEqual(cache.tolist(), [1, 1, 1])
        array = numpy.zeros(3, numpy.float32)
        compiled(array, numpy.ones(3, numpy.float32))
        self.assertEqual(array.tolist(), [1, 1, 1])
        array.flags.writeable = False
        with self.assertRaisesRegex(toroid.InputError, "writes to its input 'cache'"):
            compiled(array, numpy.ones(3, numpy.float32))

    def test_dynamic_sizes_and_numbers(self):
        class Pad(torch.nn.Module):
            def forward(self, x, n: int):
                return x.repeat(n, 1), x.shape[0] * n

        exported = torch.export.export(
            Pad(), (torch.randn(4, 2), 3), dynamic_shapes=({0: torch.export.Dim("rows", max=64)}, torch.export.Dim.DYNAMIC)
        )
        compiled = toroid.compile(exported)
        x = torch.randn(5, 2)
        result, rows = compiled(x, 2)
        torch.testing.assert_close(result, x.repeat(2, 1))
        self.assertEqual(rows, 10)

    def test_vmap(self):
        class PerRow(torch.nn.Module):
            def forward(self, x, y):
                return torch.vmap(lambda a, b: (a * b).sum() + a.max())(x, y)

        inputs = torch.randn(3, 5), torch.randn(3, 5)
        compiled = toroid.compile(torch.export.export(PerRow(), inputs, strict=False))
        torch.testing.assert_close(compiled(*inputs), PerRow()(*inputs))

    def test_torchscript_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            scripted = torch.jit.script(torch.nn.Linear(2, 2))
            torch.jit.save(scripted, os.path.join(folder, "m.pt"))
            for model in scripted, os.path.join(folder, "m.pt"):
                with self.assertRaisesRegex(toroid.UnsupportedError, "TorchScript.*torch.export.export"):
                    toroid.compile(model)
        with self.assertRaisesRegex(toroid.ArgumentError, "torch.compile"):
            toroid.compile(torch.nn.Linear(2, 2))

    @unittest.skipIf(torch is not None and not torch.cuda.is_available(), "needs a GPU")
    def test_cuda(self):
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval().cuda()
        x = torch.randn(8, 64, device="cuda")
        compiled = toroid.compile(torch.export.export(model, (x,)), device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(50):
                x = torch.randn(8, 64, device="cuda")
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)
        self.assertEqual(compiled(x).device, x.device)
        wide = torch.randn(8, 128, device="cuda")
        with torch.no_grad():
            for x in (torch.randn(64, 8, device="cuda").t(), wide[:, 3:67], wide.flatten()[1:513].view(8, 64)):  # copied
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-2, atol=1e-2)


if __name__ == "__main__":
    unittest.main()
