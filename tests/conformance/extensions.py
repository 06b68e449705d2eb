"""Writes small models of what PyTorch programs use beside plain ATen operators, with PyTorch's results: torchvision's operators,
mixtures of experts, autocast, vmap, generic associative scans.

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


def model(*calls, dynamic=None, weights=()):
    """Registers a function of tensors; `weights` are made first and passed as parameters before them."""

    def register(function):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = torch.nn.ParameterList(torch.nn.Parameter(make()) for make in weights)

            def forward(self, *args):
                return function(*self.weights, *args)

        MODELS[function.__name__] = (Model, calls, dynamic)
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


def write(folder, name, make, calls, dynamic):
    torch.manual_seed(0)
    module = make()
    calls = [call() for call in calls]
    shapes = (tuple(dynamic),) if dynamic else None
    program = torch.export.export(module, calls[0], dynamic_shapes=shapes, strict=False)
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


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, calls, dynamic) in MODELS.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        write(folder, name, make, calls, dynamic)
        print(name)


if __name__ == "__main__":
    main()
