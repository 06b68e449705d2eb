# Exports the models of this folder, with inputs and what PyTorch makes of them:
#
#   python export.py
#
# Their operators are of a library of our own, `mylib`. Each has a file beside this one that tells toroid what it computes.
import torch
from safetensors.torch import save_file
from torch import nn


# A gated activation. mylib.swiglu.op has it as a formula.
@torch.library.custom_op("mylib::swiglu", mutates_args=())
def swiglu(x: torch.Tensor, gate: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    return x * (gate * torch.sigmoid(alpha * gate))


@swiglu.register_fake
def _(x, gate, alpha=1.0):
    return torch.empty_like(x)


# Attention whose scores stay between -cap and cap. mylib.softcap_attention.op has it in C++.
@torch.library.custom_op("mylib::softcap_attention", mutates_args=())
def softcap_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cap: float = 30.0) -> torch.Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return (cap * torch.tanh(scores / cap)).softmax(-1) @ v


@softcap_attention.register_fake
def _(q, k, v, cap=30.0):
    return q.new_empty(q.shape[:-1] + v.shape[-1:])


# Words to buckets. mylib.hash_bucket.op names a function of libhashing.so, which is made of hashing.c.
@torch.library.custom_op("mylib::hash_bucket", mutates_args=())
def hash_bucket(words: torch.Tensor, buckets: int, salts: list[int]) -> torch.Tensor:
    def hashed(word, salt):
        value = 0xCBF29CE484222325 ^ salt
        for byte in (word & (2**64 - 1)).to_bytes(8, "little"):
            value = (value ^ byte) * 0x100000001B3 % 2**64
        return value % buckets

    return torch.tensor([[hashed(word, salt) for salt in salts] for word in words.tolist()])


@hash_bucket.register_fake
def _(words, buckets, salts):
    return words.new_empty([words.shape[0], len(salts)])


# Writes to its argument. mylib.blend_.op has a formula for what this holds afterwards.
@torch.library.custom_op("mylib::blend_", mutates_args=("x",))
def blend_(x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
    x.lerp_(y, rate)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.ops.mylib.swiglu(self.up(x), self.gate(x), 1.5)) + x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        heads = self.qkv(x).view(x.shape[0], x.shape[1], 3, 4, 8)
        q, k, v = (heads[:, :, i].transpose(1, 2) for i in range(3))
        y = torch.ops.mylib.softcap_attention(q, k, v, 5.0)
        return self.out(y.transpose(1, 2).flatten(2)).relu()


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)

    def forward(self, words):
        return self.table(torch.ops.mylib.hash_bucket(words, 50, [1, 2, 3])).mean(1)


class Blend(nn.Module):
    def forward(self, x):
        y = x.relu()
        torch.ops.mylib.blend_(y[:, 1:], x[:, 1:], 0.25)
        z = y.exp()
        torch.ops.mylib.blend_(z, y, 0.5)
        return y + z


class BlendWhole(nn.Module):
    def forward(self, x):
        y = x.relu()
        torch.ops.mylib.blend_(y, x, 0.25)
        return y.exp()


def record(name, model, example, sizes, others, decompose=False):
    model = model.eval()
    exported = torch.export.export(model, (example,), dynamic_shapes=(sizes,))
    torch.export.save(exported.run_decompositions() if decompose else exported, f"{name}.pt2")
    for i, x in enumerate([example, *others]):
        number = "" if i == 0 else i + 1
        with torch.no_grad():
            save_file({"out0": model(x).contiguous()}, f"{name}.out{number}.safetensors")
        save_file({"in0": x}, f"{name}.in{number}.safetensors")


torch.manual_seed(0)
batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=512)
record("feed_forward", FeedForward(), torch.randn(4, 16), {0: batch}, [torch.randn(7, 16)])
record("attention", Attention(), torch.randn(2, 12, 32), {0: batch, 1: length}, [torch.randn(3, 33, 32)])
words = torch.tensor([17, -3, 2**40, 9])
record("embedding", Embedding(), words, {0: batch}, [torch.arange(20)])
record("blend", Blend(), torch.randn(3, 5), {0: batch}, [torch.randn(6, 5)])
record("blend_decomposed", BlendWhole(), torch.randn(3, 5), {0: batch}, [], decompose=True)
