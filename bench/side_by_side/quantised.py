"""Quantised networks, in the operators that PyTorch's PT2E flow and torchao leave: pairs of quantize and dequantize before each convolution
and linear layer, and weights of int8. Converted to ONNX they are QuantizeLinear and DequantizeLinear (QDQ), which ONNX Runtime and OpenVINO
fuse.
"""

import torch
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401  registers the operators

OPS = torch.ops.quantized_decomposed
INT4_GROUP = 32
FROM_ONNX = ["dynamic", "int4"]  # what ONNX Runtime's own tools make of the float32 model's file


class Quantised(torch.nn.Module):
    """A convolution or linear layer: its input in uint8 by one scale and zero point, its weights in int8 by a scale an output channel."""

    def __init__(self, layer, dynamic):
        super().__init__()
        weight = layer.weight.detach()
        scales = weight.flatten(1).abs().amax(dim=1).clamp(min=1e-8) / 127
        by_channel = scales.view(-1, *[1] * (weight.dim() - 1))
        self.register_buffer("weight", torch.round(weight / by_channel).clamp(-127, 127).to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros_like(scales, dtype=torch.int64))
        self.bias, self.dynamic = layer.bias, dynamic
        self.low, self.high = 0.0, 0.0
        self.watching = True
        self.geometry = (layer.stride, layer.padding, layer.dilation, layer.groups) if isinstance(layer, torch.nn.Conv2d) else None

    def quantised_input(self, x):
        if self.dynamic:
            scale, zero = OPS.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
            codes = OPS.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
            return OPS.dequantize_per_tensor.tensor(codes, scale, zero, 0, 255, torch.uint8)
        scale = max(self.high - self.low, 1e-8) / 255
        zero = min(max(round(-self.low / scale), 0), 255)
        codes = OPS.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        return OPS.dequantize_per_tensor(codes, scale, zero, 0, 255, torch.uint8)

    def forward(self, x):
        if self.watching:
            self.low, self.high = min(self.low, x.min().item()), max(self.high, x.max().item())
        else:
            x = self.quantised_input(x)
        weight = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        if self.geometry is None:
            return torch.nn.functional.linear(x, weight, self.bias)
        return torch.nn.functional.conv2d(x, weight, self.bias, *self.geometry)


def fold_norms(module):
    """Batch norms into the convolutions before them, where a Sequential or torchvision's names tell which these are."""
    children = list(module.named_children())
    for (_, first), (name, second) in zip(children, children[1:]):
        if isinstance(first, torch.nn.Conv2d) and isinstance(second, torch.nn.BatchNorm2d):
            folded = torch.nn.utils.fuse_conv_bn_eval(first, second)
            first.weight, first.bias = folded.weight, folded.bias
            setattr(module, name, torch.nn.Identity())
    for _, child in module.named_children():
        fold_norms(child)


def replace_layers(module, dynamic):
    kinds = (torch.nn.Linear,) if dynamic else (torch.nn.Linear, torch.nn.Conv2d)
    for name, child in module.named_children():
        if isinstance(child, kinds):
            setattr(module, name, Quantised(child, dynamic))
        else:
            replace_layers(child, dynamic)


class SelfAttention(torch.nn.Module):
    """A MultiheadAttention of a tensor with itself, batch first, whose weights are linear layers' and not read by a function of its own."""

    def __init__(self, attention):
        super().__init__()
        width = attention.embed_dim
        self.heads = attention.num_heads
        self.projections = torch.nn.Linear(width, 3 * width)
        self.projections.weight, self.projections.bias = attention.in_proj_weight, attention.in_proj_bias
        self.out = torch.nn.Linear(width, width)
        self.out.weight, self.out.bias = attention.out_proj.weight, attention.out_proj.bias

    def forward(self, x, _key, _value, need_weights=False):
        query, key, value = self.projections(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heads = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(heads.transpose(1, 2).flatten(2)), None


def linear_of_conv1d(layer):
    """What GPT-2 has instead of a linear layer: the same with its weights transposed."""
    linear = torch.nn.Linear(*layer.weight.shape)
    linear.weight = torch.nn.Parameter(layer.weight.detach().t().contiguous())
    linear.bias = layer.bias
    return linear


def make_linear(module):
    """Products by weights become linear layers, which ONNX Runtime's tools and this file find alike."""
    for name, child in module.named_children():
        if isinstance(child, torch.nn.MultiheadAttention):
            setattr(module, name, SelfAttention(child))
        elif type(child).__name__ == "Conv1D":
            setattr(module, name, linear_of_conv1d(child))
        else:
            make_linear(child)


def quantise(module, args, how):
    """The module with its layers quantised, ranges of their inputs as these arguments show them. `how`: "static", "dynamic" or "int4"."""
    make_linear(module)
    if how == "int4":
        replace_linear_layers(module, Int4Linear)
        return module
    with torch.no_grad():
        fold_norms(module)
        replace_layers(module, how == "dynamic")
        module(*args)
    for part in module.modules():
        if isinstance(part, Quantised):
            part.watching = False
    return module


def quantise_onnx(how, full, to):
    """A file for ONNX Runtime and OpenVINO, by ONNX Runtime's tools: MatMulInteger of inputs quantised in each call, or MatMulNBits."""
    if how == "dynamic":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(full, to, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, weight_type=QuantType.QInt8)
        return
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(full), block_size=INT4_GROUP, is_symmetric=False)
    quantizer.process()
    quantizer.model.save_model_to_file(str(to))


class Int4Linear(torch.nn.Module):
    """A linear layer with weights of four bits, two in a byte, a scale and zero point for each group of columns."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().unflatten(1, (-1, INT4_GROUP))
        low, high = weight.amin(2, keepdim=True).clamp(max=0), weight.amax(2, keepdim=True).clamp(min=0)
        scales = ((high - low) / 15).clamp(min=1e-8)
        zeros = torch.round(-low / scales)
        codes = (torch.round(weight / scales) + zeros).clamp(0, 15).to(torch.uint8).flatten(1)
        self.register_buffer("codes", codes[:, 0::2] | codes[:, 1::2] << 4)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)
        self.bias = linear.bias

    def forward(self, x):
        codes = torch.stack([self.codes & 15, self.codes >> 4], dim=-1).flatten(1).unflatten(1, (-1, INT4_GROUP))
        weight = (codes.to(x.dtype) - self.zeros) * self.scales
        return torch.nn.functional.linear(x, weight.flatten(1), self.bias)


def replace_linear_layers(module, kind):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear) and child.in_features % INT4_GROUP == 0:
            setattr(module, name, kind(child))
        else:
            replace_linear_layers(child, kind)
