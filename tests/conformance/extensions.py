"""Writes small models of what PyTorch programs use beside plain ATen operators, with PyTorch's results: torchvision's operators,
mixtures of experts, autocast, vmap, generic associative scans, forward-mode derivatives, effects in order.

    python tests/conformance/extensions.py FOLDER [NAME ...]
    build/toroid conform FOLDER

Each model is NAME.pt2 with recorded calls NAME.in.safetensors, NAME.in2.safetensors, ... Needs PyTorch 2.15, torchvision and, for
the operators that it registers, transformers; run by hand: the archive extensions.tar.xz holds the result.
"""
import pathlib
import sys

import torch
import torchvision.ops as vision
from safetensors.torch import save_file
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim

MODELS = {}


def model(*calls, dynamic=None, weights=(), strict=False, module=None, decomposed=False):
    """Registers a function of tensors; `weights` are made first and passed as parameters before them. `module` makes it instead.
    `decomposed`: into PyTorch's core operators."""

    def register(function):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = torch.nn.ParameterList(torch.nn.Parameter(make()) for make in weights)

            def forward(self, *args):
                return function(*self.weights, *args)

        MODELS[function.__name__] = (module or Model, calls, dynamic, strict, decomposed)
        return function

    return register


def r(*sizes):
    return torch.randn(*sizes)


def without_source(program):
    """No folder of this machine: where the nodes came from is left out."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            node.meta.pop("stack_trace", None)
            node.meta.pop("from_node", None)
    return program


def write(folder, name, make, calls, dynamic, strict, decomposed):
    torch.manual_seed(0)
    module = make()
    calls = [call() for call in calls]
    shapes = (tuple(dynamic),) if dynamic else None
    program = torch.export.export(module, calls[0], dynamic_shapes=shapes, strict=strict)
    if decomposed:
        program = program.run_decompositions()
    program._example_inputs = None
    torch.export.save(without_source(program), folder / f"{name}.pt2")
    for number, args in enumerate(calls, 1):
        suffix = "" if number == 1 else str(number)
        results = torch.utils._pytree.tree_leaves(module(*[a.clone() for a in args]))
        for kind, values in (("in", args), ("out", results)):
            tensors = {f"{kind}{i}": v.detach().contiguous().clone() for i, v in enumerate(values)}
            save_file(tensors, folder / f"{name}.{kind}{suffix}.safetensors")


# ---- object detection ------------------------------------------------------------------------------------------------------------


def boxes(n, size=1.0, dtype=torch.float32):
    corners = torch.rand(n, 2) * size
    return torch.cat([corners, corners + torch.rand(n, 2) * size / 2 + 0.05 * size], 1).to(dtype)


def regions(n, images, size, dtype=torch.float32):
    return torch.cat([torch.randint(0, images, (n, 1)).to(dtype), boxes(n, size, dtype)], 1)


# Beside ordinary ones: outside the image, without extent, turned round.
ODD_REGIONS = torch.tensor([[0, -30.0, -30, -20, -20], [1, 3, 3, 3, 3], [0, 8, 7, 2, 1], [1, -4, -4, 40, 30], [0, 5.5, 5.5, 5.5, 9]])
COUNT = Dim("count", min=1, max=1000)


@model(lambda: (boxes(30), torch.rand(30)), lambda: (boxes(2), torch.rand(2)), dynamic=({0: COUNT}, {0: COUNT}))
def nms(b, scores):
    return vision.nms(b, scores, 0.4)


@model(lambda: (r(2, 6, 5, 5), torch.zeros(0, 5)))
def no_regions(x, rois):
    ops = torch.ops.torchvision
    return (
        vision.roi_align(x, rois, 2, 1.0),
        *ops.roi_pool(x, rois, 1.0, 2, 2),
        *ops.ps_roi_align(x, rois, 1.0, 1, 2, 2),
        *ops.ps_roi_pool(x, rois, 1.0, 1, 2),
        ops._roi_align_backward(torch.zeros(0, 6, 2, 2), rois, 1.0, 2, 2, 2, 6, 5, 5, 2, True),
    )


@model(lambda: (boxes(20, dtype=torch.float64), torch.rand(20).double()))
def nms_f64(b, scores):
    kept = vision.nms(b, scores, 0.3)
    return b[kept], scores[kept]


@model(lambda: (boxes(25, 20), torch.rand(25), torch.randint(0, 3, (25,))))
def nms_of_classes(b, scores, labels):
    return vision.batched_nms(b, scores, labels, 0.3)


@model(lambda: (boxes(40, 30) - 3, r(40, 4)))
def detections(b, logits):
    """What detectors do after their heads."""
    b = vision.clip_boxes_to_image(b, (28, 32))
    scores, labels = logits.softmax(-1).max(-1)
    sized = vision.remove_small_boxes(b, 1.0)
    b, scores, labels = b[sized], scores[sized], labels[sized]
    kept = vision.nms(b + labels[:, None] * 100.0, scores, 0.5)
    return b[kept], scores[kept], labels[kept]


@model(lambda: (r(2, 3, 9, 11), regions(6, 2, 14)), lambda: (r(2, 3, 9, 11), ODD_REGIONS), dynamic=(None, {0: COUNT}))
def roi_align(x, rois):
    return vision.roi_align(x, rois, (3, 2), 0.6, 2, True), vision.roi_align(x, rois, (2, 2), 1.0, -1, False)


@model(lambda: (r(2, 3, 9, 11), ODD_REGIONS))
def roi_align_adaptive(x, rois):
    return vision.roi_align(x, rois, 3, 0.7, 0, True), vision.roi_align(x, rois, (1, 4), 0.7, 3, False)


@model(lambda: (r(1, 2, 7, 7).double(), regions(3, 1, 7, torch.float64), r(1, 2, 7, 7).half(), regions(3, 1, 7, torch.float16)))
def roi_align_dtypes(x, rois, half, half_rois):
    return vision.roi_align(x, rois, 2, 1.0, 2, True), vision.roi_align(half, half_rois, 2, 0.5, 2, True)


@model(lambda: (r(2, 3, 9, 11), regions(6, 2, 14)), lambda: (r(2, 3, 9, 11), ODD_REGIONS), dynamic=(None, {0: COUNT}))
def roi_pool(x, rois):
    return torch.ops.torchvision.roi_pool(x, rois, 0.6, 3, 2)


@model(lambda: (r(2, 12, 9, 11), regions(6, 2, 14)), lambda: (r(2, 12, 9, 11), ODD_REGIONS), dynamic=(None, {0: COUNT}))
def ps_roi_align(x, rois):
    return torch.ops.torchvision.ps_roi_align(x, rois, 0.6, 3, 2, 2), vision.ps_roi_align(x, rois, 2, 0.6, -1)


@model(lambda: (r(2, 12, 9, 11), regions(6, 2, 14)), lambda: (r(2, 12, 9, 11), ODD_REGIONS), dynamic=(None, {0: COUNT}))
def ps_roi_pool(x, rois):
    return torch.ops.torchvision.ps_roi_pool(x, rois, 0.6, 3, 2)


@model(lambda: (r(2, 12, 9, 11), regions(6, 2, 14), r(6, 12, 3, 2), r(6, 2, 3, 2)))
def region_gradients(x, rois, grad, grad_by_position):
    ops = torch.ops.torchvision
    sizes = (2, 12, 9, 11)
    places = ops.roi_pool(x, rois, 0.6, 3, 2)[1]
    mapping = ops.ps_roi_align(x, rois, 0.6, 3, 2, 2)[1]
    return (
        ops._roi_align_backward(grad, rois, 0.6, 3, 2, *sizes, 2, True),
        ops._roi_align_backward(grad, rois, 0.6, 3, 2, *sizes, -1, False),
        ops._roi_pool_backward(grad, rois, places, 0.6, 3, 2, *sizes),
        ops._ps_roi_align_backward(grad_by_position, rois, mapping, 0.6, 3, 2, 2, *sizes),
        ops._ps_roi_pool_backward(grad_by_position, rois, mapping, 0.6, 3, 2, *sizes),
    )


@model(lambda: (r(2, 4, 8, 7), r(2, 18, 8, 7) * 2), lambda: (r(2, 4, 8, 7), r(2, 18, 8, 7) * 20), weights=[lambda: r(5, 4, 3, 3)])
def deform_conv2d(weight, x, offset):
    return vision.deform_conv2d(x, offset, weight, padding=1)


@model(lambda: (r(1, 8, 9, 8), r(1, 24, 4, 9), r(1, 12, 4, 9)), weights=[lambda: r(6, 4, 3, 2), lambda: r(6)])
def deform_conv2d_masked(weight, bias, x, offset, mask):
    return vision.deform_conv2d(x, offset, weight, bias, stride=(2, 1), padding=(1, 2), dilation=(2, 3), mask=mask)


@model(lambda: (r(2, 4, 6, 6).half(), r(2, 8, 5, 5).half(), r(2, 4, 6, 6).double(), r(2, 8, 5, 5).double()))
def deform_conv2d_dtypes(half, half_offset, x, offset):
    w = torch.linspace(-1, 1, 32).reshape(2, 4, 2, 2)
    return vision.deform_conv2d(half, half_offset, w.half()), vision.deform_conv2d(x, offset, w.double())


@model(lambda: (r(2, 6, 8, 9), r(2, 24, 5, 5), r(2, 12, 5, 5), r(2, 8, 5, 5)), weights=[lambda: r(8, 3, 2, 3), lambda: r(8)])
def deform_conv2d_gradients(weight, bias, x, offset, mask, grad):
    ops = torch.ops.torchvision
    numbers = (2, 2, 1, 1, 1, 1, 2, 2)
    return (
        ops.deform_conv2d(x, weight, offset, mask, bias, *numbers, True),
        *ops._deform_conv2d_backward(grad, x, weight, offset, mask, bias, *numbers, True),
        *ops._deform_conv2d_backward(grad, x, weight, offset, mask, bias, *numbers, False),
    )


# ---- mixtures of experts ---------------------------------------------------------------------------------------------------------


def ends(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def narrow(*sizes):
    return (r(*sizes) / 2).bfloat16()


@model(lambda: (r(11, 8), ends(3, 3, 9, 11)), lambda: (r(7, 8), ends(0, 7, 7, 7)), dynamic=({0: COUNT}, None), weights=[lambda: r(4, 4, 8)])
def grouped_rows(weight, x, offs):
    return torch._grouped_mm(x, weight.transpose(1, 2), offs=offs)


@model(lambda: (r(3, 4, 8), r(8, 12), ends(2, 7, 12)), lambda: (r(3, 4, 8), r(8, 12), ends(0, 12, 12)))
def grouped_columns(x, y, offs):
    return torch._grouped_mm(x, y, offs=offs)


@model(lambda: (r(8, 12), r(12, 8), ends(4, 4, 12), r(2, 4, 8), r(2, 8, 4)), lambda: (r(8, 12), r(12, 8), ends(1, 11, 12), r(2, 4, 8), r(2, 8, 4)))
def grouped_depth(x, y, offs, a, b):
    return torch._grouped_mm(x, y, offs=offs), torch._grouped_mm(a, b)


@model(lambda: (narrow(24, 32), ends(5, 20, 24), narrow(16, 24), narrow(24, 8)), weights=[lambda: narrow(3, 16, 32)])
def grouped_bfloat16(weight, x, offs, a, b):
    return torch._grouped_mm(x, weight.transpose(1, 2), offs=offs), torch._grouped_mm(a, b, offs=offs)


@model(lambda: (r(9, 4), ends(2, 2, 9), r(9, 5)), weights=[lambda: r(3, 4, 5)])
def grouped_fallback(weight, x, offs, grad):
    """What the library transformers registers."""
    import transformers.integrations.moe  # noqa: F401

    ops = torch.ops.transformers
    return ops.grouped_mm_fallback(x, weight, offs), *ops.grouped_mm_fallback_backward(x, weight, offs, grad)


@model(lambda: (torch.randint(3, 40, (2, 9)),), module=lambda: mixtral())
def mixtral():
    import transformers

    config = transformers.MixtralConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        num_local_experts=4, use_cache=False)
    return transformers.MixtralModel(config).eval()


# ---- autocast --------------------------------------------------------------------------------------------------------------------


@model(lambda: (r(4, 8),), weights=[lambda: r(8, 8), lambda: r(8)])
def autocast_lower(weight, bias, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.linear(x, weight, bias)
        z = torch.einsum("ij,kj->ik", y.relu(), weight)
        with torch.autocast("cpu", enabled=False):
            exact = x @ weight
        return y, z.float().softmax(-1), exact + 1, (x.double() @ weight.double())


@model(lambda: (r(4, 8),), weights=[lambda: r(12, 8), lambda: r(12), lambda: r(4, 12)])
def autocast_block(weight, bias, out, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))
        with torch.autocast("cpu", enabled=False):
            y = y.float().softmax(-1)
    return torch.nn.functional.linear(y, out)


@model(lambda: (r(4, 8), r(4, 8).bfloat16()))
def autocast_wider(x, narrow):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.cat([x, narrow]), torch.stack([narrow, narrow]), torch.nn.functional.mse_loss(narrow, x), narrow.prod(-1), narrow.sum(-1)


@model(lambda: (r(2, 3, 8, 8), r(2, 4, 6, 8)), weights=[lambda: r(4, 3, 3, 3)])
def autocast_float16(weight, x, q):
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        y = torch.nn.functional.conv2d(x, weight).relu()
        return y.float().mean((2, 3)), torch.nn.functional.scaled_dot_product_attention(q, q, q)


@model(lambda: (r(4, 8), r(8, 8)))
def autocast_elsewhere(x, w):
    """For tensors on another kind of device."""
    with torch.autocast("cuda", dtype=torch.float16):
        return x @ w


# ---- vmap ------------------------------------------------------------------------------------------------------------------------


@model(lambda: (r(5, 4), r(5, 4, 3)))
def vmap_products(x, w):
    return torch.vmap(lambda a, b: (a @ b).softmax(0))(x, w)


# With out_dims, torch.export of PyTorch 2.15 writes the results into the program as constants without data.
@model(lambda: (r(4, 5, 3), r(3, 2), r(2)))
def vmap_dims(x, w, bias):
    products = torch.vmap(lambda a, w, c: torch.nn.functional.linear(a, w.t(), c).softmax(-1), in_dims=(1, None, None))(x, w, bias)
    return products, torch.vmap(lambda a: bias * 2)(x), torch.vmap(lambda a: (a, a.sum()), in_dims=-1)(x)


@model(lambda: (r(5, 4), r(6, 4)))
def vmap_nested(x, y):
    distance = torch.vmap(torch.vmap(lambda a, b: ((a - b) ** 2).sum().sqrt(), in_dims=(0, None)), in_dims=(None, 0))
    return distance(x, y), torch.vmap(lambda a: torch.vmap(lambda b: b.cumsum(0))(a.view(2, 2)))(x)


@model(lambda: (r(3, 4, 6), torch.randint(0, 4, (3, 5))))
def vmap_views(x, index):
    def one(a, i):
        b = a.t().reshape(4, 6).flip(0)[1:, ::2]
        return torch.cat([b, b * 2], 0).unsqueeze(0).expand(2, 6, 3), a[i], torch.nn.functional.pad(a, (1, 2), value=3.0), torch.arange(4) + a[:, 0]

    return torch.vmap(one)(x, index)


@model(lambda: (r(3, 4, 6), torch.randint(0, 4, (3, 5))))
def vmap_reductions(x, index):
    def one(a, i):
        values, places = a.max(0)
        return (values, places, a.var(1), a.logsumexp(0), a.argmin(), a.sort(1)[0], a.topk(2, 0)[0], a.cumsum(1), a.median(1)[0],
                torch.zeros(4).scatter_add(0, i, a[0, :5]), torch.nn.functional.layer_norm(a, (6,)), torch.linalg.inv(a[:, :4]))

    return torch.vmap(one)(x, index)


@model(lambda: (r(3, 2, 3, 6, 6), r(3, 4, 3, 3, 3), r(3, 2, 1, 4, 5)))
def vmap_layers(images, weights, q):
    conv = torch.vmap(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1).relu().mean((2, 3)))
    attend = torch.vmap(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    return conv(images, weights), attend(q), torch.vmap(lambda x: torch.nn.functional.max_pool2d(x, 2))(images)


@model(lambda: (r(3, 2, 3, 6, 6),), weights=[lambda: r(4, 3, 3, 3), lambda: r(4)])
def vmap_filters(weight, bias, images):
    return torch.vmap(lambda x: torch.nn.functional.conv2d(x, weight, bias, stride=2))(images)


@model(lambda: (r(5, 4), r(5, 4)), lambda: (r(9, 4), r(9, 4)), dynamic=({0: COUNT}, {0: COUNT}))
def vmap_dynamic(x, y):
    return torch.vmap(lambda a, b: (a * b).sum() * a)(x, y), torch.vmap(lambda a: torch.outer(a, y[0]))(x)


@model(lambda: (torch.rand(3, 5, 2), r(3, 5, 2)))
def scan_recurrence(a, b):
    return associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), 1, combine_mode="generic")


@model(lambda: (r(6, 3, 3) / 2,))
def scan_products(x):
    return associative_scan(lambda x, y: x @ y, x, 0, combine_mode="generic", reverse=True)


# ---- forward-mode derivatives ----------------------------------------------------------------------------------------------------


def jvp(function, *primals_and_tangents):
    half = len(primals_and_tangents) // 2
    return torch.func.jvp(function, primals_and_tangents[:half], primals_and_tangents[half:])


@model(lambda: (r(4, 5), torch.rand(4, 5) + 0.5, r(4, 5), r(4, 5)))
def jvp_elements(x, y, dx, dy):
    def one(x, y):
        z = torch.where(x > 0, x.sin() * y, torch.maximum(x, y.log()))
        return z, (x**3 / y).tanh(), torch.hypot(x, y), y.sqrt().erf(), torch.lgamma(y), x.detach() * x, torch.relu(x)

    return jvp(one, x, y, dx, dy)


@model(lambda: (r(3, 6), r(3, 6)))
def jvp_reductions(x, dx):
    def one(x):
        values, _ = x.max(0)
        return (values, x.var(1), x.logsumexp(0), x.sort(1)[0], x.topk(2, 0)[0], x.cumsum(1), x.cumprod(0), x.median(1)[0], x.prod(1),
                x.amin(1), x.norm(dim=0), torch.linalg.inv(x[:, :3]), torch.fft.rfft(x).abs())

    return jvp(one, x, dx)


# Behind a layer norm, and with parameters, torch.export of PyTorch 2.15 fails within a jvp.
@model(lambda: (r(2, 4, 6), r(2, 3, 8, 8), r(2, 4, 6), r(2, 3, 8, 8), r(6, 6), r(6), r(4, 3, 3, 3), r(4)))
def jvp_layers(x, images, dx, dimages, weight, bias, filters, channels):
    import torch.nn.functional as F

    def block(x, images):
        y = F.gelu(F.linear(x, weight, bias))
        q = y.view(2, 4, 2, 3).transpose(1, 2)
        z = F.max_pool2d(F.silu(F.conv2d(images, filters, channels, padding=1)), 2)
        return (q @ q.mT).softmax(-1) @ q, F.layer_norm(y, (6,), bias, bias), F.group_norm(z, 2).mean((2, 3))

    return jvp(block, x, images, dx, dimages)


@model(lambda: (r(5), r(5), r(5)))
def jvp_of_jvp(x, dx, ddx):
    return jvp(lambda y: jvp(lambda z: z.sin().exp(), y, dx)[1], x, ddx)


@model(lambda: (r(5), r(5), r(5)))
def jvp_of_dual_tensors(x, dx, factor):
    import torch.autograd.forward_ad as forward_ad

    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, dx).exp() * factor
        parts = forward_ad.unpack_dual(y)
        return parts.primal, parts.tangent


# ---- effects in order ------------------------------------------------------------------------------------------------------------


@model(lambda: (r(4, 4), r(4, 2)), decomposed=True)
def effects_of_checks(x, y):
    return torch.linalg.inv(x), torch.linalg.solve(x, y), torch.linalg.cholesky(x @ x.T + torch.eye(4))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, model_parts in MODELS.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        write(folder, name, *model_parts)
        print(name)


if __name__ == "__main__":
    main()
