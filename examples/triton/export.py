# Exports the models of this folder, with inputs and what PyTorch makes of them, on a machine with Triton and without a GPU:
#
#   python export.py
#
# The operators of `mylib` have a kernel in Triton, and gated_add is called by the model itself. Each has a file beside this one.
import torch
import triton
import triton.language as tl
from safetensors.torch import save_file
from torch import nn
from torch.library import wrap_triton


@torch.library.custom_op("mylib::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@rms_norm.register_fake
def _(x, weight, eps=1e-6):
    return torch.empty_like(x)


@torch.library.custom_op("mylib::add_into_", mutates_args=("sums",))
def add_into_(sums: torch.Tensor, x: torch.Tensor, rate: float) -> None:
    sums.add_(x, alpha=rate)


@triton.jit
def gated_add(x, y, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.sigmoid(tl.load(y + i, i < n))
    tl.store(out + i, tl.load(x + i, i < n) + alpha * gate, i < n)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.weight = nn.Linear(8, 1500), nn.Parameter(torch.rand(1500) + 0.5)

    def forward(self, x):
        return torch.ops.mylib.rms_norm(self.up(x), self.weight, 1e-5).relu()


class Accumulate(nn.Module):
    def forward(self, x):
        sums = x.exp()
        torch.ops.mylib.add_into_(sums, x, 0.5)
        torch.ops.mylib.add_into_(sums, sums.sin(), 2.0)
        return sums


# Triton's kernels are recorded where they were compiled: here for a GPU that is not there.
class Gated(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        wrap_triton(gated_add)[(triton.cdiv(n, 256),)](x * 2, y, out, n, 0.75, BLOCK=256)
        return out.relu()


def compile_gated_add():
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "alpha": "fp32", "BLOCK": "constexpr"}
    compiled = triton.compile(ASTSource(gated_add, types, {"BLOCK": 256}), GPUTarget("cuda", 90, 32))
    gated_add.device_caches.clear()
    gated_add.device_caches[0] = ({"compiled": compiled},)
    torch._export.serde.serialize.has_triton = lambda: True


def record(name, model, inputs, sizes, expected=None):
    model = model.eval()
    exported = torch.export.export(model, inputs, dynamic_shapes=sizes)
    if expected is not None:
        exported = exported.run_decompositions()
        compile_gated_add()
    torch.export.save(exported, f"{name}.pt2")
    with torch.no_grad():
        save_file({"out0": (expected or model)(*inputs).contiguous()}, f"{name}.out.safetensors")
    save_file({f"in{i}": x for i, x in enumerate(inputs)}, f"{name}.in.safetensors")


torch.manual_seed(0)
batch = torch.export.Dim("batch", max=64)
record("norm", Norm(), (torch.randn(3, 8),), ({0: batch},))
record("accumulate", Accumulate(), (torch.randn(5, 333),), ({0: batch},))
record("gated", Gated(), (torch.randn(7, 100), torch.randn(7, 100)), None, lambda x, y: (x * 2 + 0.75 * y.sigmoid()).relu())
