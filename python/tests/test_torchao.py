"""Models that torchao quantised. Skipped without PyTorch and torchao."""

import unittest
import warnings

import toroid

try:
    import torch
    import torchao.quantization as quantization
    from torch import nn
except ImportError:
    quantization = None


def linear():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


def convolutions():
    body = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)]
    return nn.Sequential(*body).eval()


@unittest.skipIf(quantization is None, "needs PyTorch and torchao: pip install torchao")
class TorchAO(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)

    def check(self, model, x, tolerance=1e-4):
        """As exported, with sizes that vary, and where PyTorch is asked to compile it."""
        import toroid.torch  # noqa: F401

        with torch.no_grad():
            expected = model(x)
            exported = torch.export.export(model, (x,))
            for name, call in (
                ("exported", toroid.compile(exported)),
                ("decomposed", toroid.compile(exported.run_decompositions())),
                ("torch.compile", torch.compile(model, backend="toroid", options={"fallback": False})),
            ):
                with self.subTest(name):
                    torch.testing.assert_close(call(x), expected, rtol=tolerance, atol=tolerance)
        torch._dynamo.reset()

    def test_weights_and_activations(self):
        x = torch.randn(8, 64)
        by_32 = quantization.PerGroup(32)
        for config in (
            quantization.Int8WeightOnlyConfig(),
            quantization.Int8DynamicActivationInt8WeightConfig(),
            quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=by_32),
            quantization.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=by_32),
            quantization.Float8WeightOnlyConfig(),
            quantization.Int8StaticActivationInt8WeightConfig(act_quant_scale=torch.tensor([[0.03]]), granularity=quantization.PerTensor()),
        ):
            model = linear()
            quantization.quantize_(model, config)
            with self.subTest(type(config).__name__):
                self.check(model, x, 5e-3)  # a value between two codes may be rounded to either

    def test_pt2e(self):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        for made, x, is_dynamic in (
            (convolutions, torch.randn(2, 3, 8, 8), False),
            (linear, torch.randn(8, 64), False),
            (linear, torch.randn(8, 64), True),
        ):
            quantizer = x86.X86InductorQuantizer()
            quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic))
            prepared = prepare_pt2e(torch.export.export(made(), (x,)).module(), quantizer)
            prepared(x)
            with self.subTest(f"{made.__name__}, dynamic: {is_dynamic}"):
                self.check(convert_pt2e(prepared), x, 5e-2)

    def test_a_file_with_subclasses_is_refused_with_the_way_out(self):
        import os
        import tempfile

        model = linear()
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.pt2")
            torch.export.save(torch.export.export(model, (torch.randn(8, 64),)), path)
            with self.assertRaisesRegex(toroid.UnsupportedError, r"run_decompositions\(\), which takes tensor subclasses"):
                toroid.compile(path)


if __name__ == "__main__":
    unittest.main()
