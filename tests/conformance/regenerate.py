"""Records what PyTorch computes, in the layout that `toroid conform` reads. Run by hand; never part of build or test.

    pip install torch==2.11.0 numpy scipy safetensors expecttest   # for opinfo and most models
    pip install timm transformers                                  # for the models timm_* and hf_*
    tests/conformance/regenerate.py opinfo opinfo.tar.xz [--like OLD.tar.xz]
    tests/conformance/regenerate.py models models/ [NAME ...]

opinfo: samples, spread over the list, of every operator in PyTorch's OpInfo database that its CPU supports: 4 in
float32, 2 in int64, 1 in bfloat16 and bool. A case is a module that takes the sample's tensors and calls the operator
with everything else fixed. Left out: samples that torch.export refuses, that give other results when called twice (random
numbers, uninitialised memory), or whose tensors are complex or large. --like keeps only the cases that an earlier
archive lists.

models: small architectures with random weights from a fixed seed. Nothing is downloaded.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import tarfile
import tempfile
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.utils import _pytree as pytree

SAMPLES = {torch.float32: 4, torch.int64: 2, torch.bfloat16: 1, torch.bool: 1}
MAX_ELEMENTS = 20_000


# ---- cases on disk -----------------------------------------------------------------------------------------------


def tensors_of(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def save_tensors(path, prefix, tensors):
    # clone: safetensors refuses tensors that share memory
    save_file({f"{prefix}{i}": t.detach().contiguous().clone() for i, t in enumerate(tensors)}, path)


def save_case(folder, name, program, inputs, outputs):
    torch.export.save(program, os.path.join(folder, name + ".pt2"))
    save_tensors(os.path.join(folder, name + ".in.safetensors"), "in", inputs)
    save_tensors(os.path.join(folder, name + ".out.safetensors"), "out", outputs)


def pack(archive, folder):
    """One .tar.xz whose bytes depend on the files only."""

    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                tar.add(path, arcname=str(path.relative_to(folder)), filter=plain)


# ---- operators ---------------------------------------------------------------------------------------------------


class Sample(nn.Module):
    """The operator as a function of its tensors: numbers, strings and lists of the sample become constants."""

    def __init__(self, operator, sample):
        super().__init__()
        self.operator = operator
        leaves, self.structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for position, tensor in zip(self.positions, tensors):
            leaves[position] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.operator(*args, **kwargs)


def same(first, second):
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(first, second)
    )


def storable(tensors):
    return all(
        not t.is_complex() and t.layout == torch.strided and not t.is_quantized and t.numel() <= MAX_ELEMENTS
        for t in tensors
    )


def record_sample(folder, name, operator, sample):
    """Writes the case; returns its entry for the index, or None when the sample cannot be recorded."""
    inputs = [t.detach() for t in tensors_of(((sample.input, *sample.args), sample.kwargs))]
    if not inputs or not storable(inputs):
        return None
    module = Sample(operator, sample)
    results = []
    for _ in range(2):  # each call gets its own copies: the operator may write to its inputs
        results.append(tensors_of(module(*[t.clone() for t in inputs])))
    if not results[0] or not storable(results[0]) or not same(*results):
        return None
    program = torch.export.export(module, tuple(t.clone() for t in inputs), strict=False)
    save_case(folder, name, program, inputs, results[0])
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    return {
        "case": name,
        "op": name.rsplit("-", 2)[0],
        "dtype": str(inputs[0].dtype),
        "inputs": [[list(t.shape), list(t.stride())] for t in inputs],
        "aten": sorted(target for target in targets if target.startswith("aten.")),
    }


def record_opinfo(archive, like):
    from torch.testing._internal.common_methods_invocations import op_db

    wanted = None
    if like:
        with tarfile.open(like) as tar:
            index = next(member for member in tar if os.path.basename(member.name) == "index.json")
            wanted = {case["case"] for case in json.load(tar.extractfile(index))["cases"]}
    cases, refused = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.join(scratch, "opinfo")
        os.mkdir(folder)
        for info in op_db:
            operator = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
            for dtype, count in SAMPLES.items():
                if not info.supports_dtype(dtype, "cpu"):
                    continue
                torch.manual_seed(0)
                try:
                    samples = list(info.sample_inputs("cpu", dtype))
                except Exception:  # some generators need a GPU or an optional package
                    continue
                count = min(count, len(samples))
                for i, sample in enumerate(samples[k * len(samples) // count] for k in range(count)):
                    name = f"{operator}-{str(dtype).removeprefix('torch.')}-{i}"
                    if wanted is not None and name not in wanted:
                        continue
                    try:
                        with contextlib.redirect_stderr(io.StringIO()):
                            case = record_sample(folder, name, info.op, sample)
                    except Exception:
                        case = None
                    if case:
                        cases.append(case)
                    else:
                        refused += 1
        cases.sort(key=lambda case: case["case"])
        with open(os.path.join(folder, "index.json"), "w") as file:
            json.dump({"source": f"PyTorch {torch.__version__} OpInfo samples, torch.export", "cases": cases}, file)
        pack(archive, scratch)
    print(f"{len(cases)} cases over {len({c['op'] for c in cases})} operators; {refused} samples could not be recorded")


# ---- models ------------------------------------------------------------------------------------------------------


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        layers = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = DoubleConv(3, 16), DoubleConv(16, 32), DoubleConv(32, 64)
        self.up = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.merge2, self.merge1 = DoubleConv(64, 32), DoubleConv(48, 16)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        high = self.down1(x)
        middle = self.down2(F.max_pool2d(high, 2))
        low = self.down3(F.avg_pool2d(middle, 2))
        middle = self.merge2(torch.cat([self.up(low), middle], 1))
        wide = F.interpolate(middle, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(self.head(self.merge1(torch.cat([wide, high], 1))))


class Dlrm(nn.Module):
    """Recommendation: dense features, pooled embeddings and their pairwise products."""

    def __init__(self, tables=4, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, dense, ids):
        bottom = self.bottom(dense)
        vectors = torch.stack([bottom] + [table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.top(torch.cat([bottom, products[:, rows, columns]], 1))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class DecoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)

        def rotate(t):
            first, second = t.chunk(2, -1)
            return t * cos + torch.cat([-second, first], -1) * sin

        attended = F.scaled_dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = self.norm2(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


class Decoder(nn.Module):
    def __init__(self, words=256, width=64, heads=4, layers=2):
        super().__init__()
        self.head_width = width // heads
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads) for _ in range(layers))
        self.norm = RmsNorm(width)

    def forward(self, ids):
        frequency = 10000 ** (-torch.arange(0, self.head_width, 2) / self.head_width)
        angle = torch.arange(ids.shape[1])[:, None] * frequency[None]
        angle = torch.cat([angle, angle], -1)
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, angle.cos(), angle.sin())
        return self.norm(x) @ self.words.weight.t()


class IndexMix(nn.Module):
    def forward(self, x, rows, mask):
        picked = x[rows]
        added = torch.zeros_like(x).index_put((rows,), picked, accumulate=True)
        weights = torch.where(mask, x, -torch.inf).softmax(-1)
        values, where = torch.topk(x, 3, dim=-1)
        gathered = torch.gather(weights, 1, where)
        scattered = torch.zeros_like(x).scatter_add(1, where, values)
        order = torch.sort(x, 1)[0]
        return picked, added, weights, values, where, gathered, scattered, torch.cumsum(x, 1), order, x.argmax(1)


class Mutation(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        self.steps.add_(1)
        self.cache[1:3].copy_(x[:2] * 2)
        return self.cache.sum() + self.steps, x.relu_()


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.relu(self.first(x)), lambda x: torch.sin(self.second(x)), (x,))


class Loop(nn.Module):
    def forward(self, step, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda step, x: step < 5, lambda step, x: (step + 1, x * 1.5 + 1.0), (step, x))


class DataDependent(nn.Module):
    def forward(self, x, count):
        n = count.item()
        torch._check(n >= 2)
        torch._check(n <= 64)
        table = torch.arange(n, dtype=torch.float32)[:, None] * x[None, :]
        return table.sum(0), table.softmax(0), (x > 0).nonzero()


class FirstOutput(nn.Module):
    """One tensor of a transformers model's output, the rest of its structure dropped."""

    def __init__(self, model, key):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, *args):
        return getattr(self.model(*args), self.key)


def ids(*shape, below=256):
    return torch.randint(0, below, shape)


def transformer(config_name, model_name, key, sizes):
    import transformers

    config = getattr(transformers, config_name)(**sizes)
    config.use_cache = False
    return FirstOutput(getattr(transformers, model_name)(config), key)


def clip():
    from transformers import CLIPConfig, CLIPModel

    shared = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    text = dict(shared, vocab_size=512, max_position_embeddings=32)
    vision = dict(shared, image_size=64, patch_size=16)
    return FirstOutput(
        CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)), "logits_per_image"
    )


def t5():
    class Translate(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(vocab_size=512, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
            self.inner = transformer("T5Config", "T5Model", "last_hidden_state", sizes).model

        def forward(self, source, target):
            return self.inner(input_ids=source, decoder_input_ids=target).last_hidden_state

    return Translate()


def timm_model(name):
    import timm

    return timm.create_model(name, pretrained=False)


BERT = dict(vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
GPT2 = dict(vocab_size=512, n_positions=64, n_embd=64, n_layer=2, n_head=4)
LLAMA = dict(
    vocab_size=512,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def image(size):
    return lambda: (torch.randn(1, 3, size, size),)


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10), nn.Softmax(-1))


def convnet():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, groups=4), nn.BatchNorm2d(64), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def encoder_block():
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).bfloat16()


def sized(name, lowest, highest):
    return torch.export.Dim(name, min=lowest, max=highest)


# name: (module, first call's inputs, second call's inputs or None, dynamic sizes or None)
MODELS = {
    "mlp": (mlp, lambda: (torch.randn(8, 784),), lambda: (torch.randn(33, 784),), lambda: ({0: sized("n", 2, 4096)},)),
    "convnet": (
        convnet,
        lambda: (torch.randn(4, 3, 32, 32),),
        lambda: (torch.randn(7, 3, 32, 32),),
        lambda: ({0: sized("n", 2, 512)},),
    ),
    "unet": (UNet, image(64), None, None),
    "dlrm": (Dlrm, lambda: (torch.randn(6, 13), ids(6, 4, 3, below=100)), None, None),
    "bf16_block": (encoder_block, lambda: (torch.randn(2, 12, 64).bfloat16(),), None, None),
    "llama_dynamic": (
        Decoder,
        lambda: (ids(2, 16),),
        lambda: (ids(3, 45),),
        lambda: ({0: sized("n", 2, 64), 1: sized("t", 2, 512)},),
    ),
    "index_mix": (IndexMix, lambda: (torch.randn(16, 10), ids(24, below=16), torch.rand(16, 10) > 0.3), None, None),
    "mutation": (Mutation, lambda: (torch.randn(4, 8),), None, None),
    "cond": (Branch, lambda: (torch.ones(4, 8),), lambda: (-torch.ones(4, 8),), None),
    "while_loop": (
        Loop,
        lambda: (torch.tensor(0), torch.randn(4, 4)),
        lambda: (torch.tensor(3), torch.randn(4, 4)),
        None,
    ),
    "unbacked": (
        DataDependent,
        lambda: (torch.randn(8), torch.tensor(5)),
        lambda: (torch.randn(8), torch.tensor(11)),
        None,
    ),
    "hf_bert": (
        lambda: transformer("BertConfig", "BertModel", "last_hidden_state", BERT),
        lambda: (ids(2, 16),),
        None,
        None,
    ),
    "hf_gpt2": (
        lambda: transformer("GPT2Config", "GPT2LMHeadModel", "logits", GPT2),
        lambda: (ids(2, 16),),
        None,
        None,
    ),
    "hf_llama": (
        lambda: transformer("LlamaConfig", "LlamaForCausalLM", "logits", LLAMA),
        lambda: (ids(2, 16),),
        None,
        None,
    ),
    "hf_t5": (t5, lambda: (ids(2, 8), ids(2, 8)), None, None),
    "hf_clip": (clip, lambda: (ids(2, 8), torch.randn(2, 3, 64, 64)), None, None),
    "timm_test_vit": (lambda: timm_model("test_vit"), image(160), None, None),
    "timm_test_resnet": (lambda: timm_model("test_resnet"), image(160), None, None),
    "timm_test_efficientnet": (lambda: timm_model("test_efficientnet"), image(160), None, None),
}


def training_step(module, *data):
    """Forward, cross-entropy, backward and an SGD update as one graph over the data and the weights, and its inputs."""
    from torch.fx.experimental.proxy_tensor import make_fx

    names = [name for name, _ in module.named_parameters()]

    def step(x, target, *weights):
        leaves = [weight.detach().requires_grad_() for weight in weights]
        loss = F.cross_entropy(torch.func.functional_call(module, dict(zip(names, leaves)), (x,)), target)
        gradients = torch.autograd.grad(loss, leaves)
        return loss.detach(), *[w.detach() - 0.1 * gradient for w, gradient in zip(leaves, gradients)]

    inputs = (*data, *[p.detach().clone() for p in module.parameters()])
    return make_fx(step)(*inputs), inputs


def train_mlp():
    module = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.LayerNorm(64), nn.Linear(64, 5))
    return training_step(module, torch.randn(16, 20), ids(16, below=5))


def train_transformer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    module = nn.Sequential(nn.Embedding(50, 32), layer, nn.Flatten(0, 1), nn.Linear(32, 50))
    return training_step(module, ids(2, 8, below=50), ids(16, below=50))


def train_cnn():
    """SGD with momentum; the running statistics of the batch norms are inputs, and what they become outputs."""
    from torch.fx.experimental.proxy_tensor import make_fx

    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(16), nn.Hardswish(), nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    names = [name for name, _ in module.named_parameters()]
    buffer_names = [name for name, _ in module.named_buffers()]
    count = len(names)

    def step(x, target, *state):
        leaves = [weight.detach().requires_grad_() for weight in state[:count]]
        buffers = [buffer.clone() for buffer in state[2 * count :]]
        named = {**dict(zip(names, leaves)), **dict(zip(buffer_names, buffers))}
        loss = F.cross_entropy(torch.func.functional_call(module, named, (x,)), target)
        gradients = torch.autograd.grad(loss, leaves)
        velocities = [0.9 * v + gradient for v, gradient in zip(state[count:], gradients)]
        weights = [w.detach() - 0.1 * v for w, v in zip(leaves, velocities)]
        return loss.detach(), *weights, *velocities, *buffers

    weights = [p.detach().clone() for p in module.parameters()]
    buffers = [b.detach().clone() for b in module.buffers()]
    inputs = (torch.randn(4, 3, 16, 16), ids(4, below=10), *weights, *map(torch.zeros_like, weights), *buffers)
    return make_fx(step)(*inputs), inputs


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(channels, out):
            conv = nn.Conv2d(channels, out, 3, padding=1, padding_mode="reflect")
            return nn.Sequential(conv, nn.GroupNorm(2, out), nn.SiLU())

        self.down, self.bottom, self.up = block(3, 4), block(4, 8), block(12, 4)
        self.transposed, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(4, 5, 1)

    def forward(self, x):
        down = self.down(x)
        bottom = self.bottom(F.avg_pool2d(down, 2))
        up = self.up(torch.cat([F.interpolate(bottom, scale_factor=2, mode="bilinear"), down], 1))
        return self.out(up + self.transposed(bottom) + F.interpolate(bottom, scale_factor=2)[:, :4])


def train_unet():
    return training_step(SmallUNet(), torch.randn(2, 3, 12, 10), ids(2, 12, 10, below=5))


TRAINING = {
    "train_mlp": train_mlp,
    "train_transformer": train_transformer,
    "train_cnn": train_cnn,
    "train_unet": train_unet,
}


def record_model(folder, name):
    torch.manual_seed(0)
    second = dynamic = None
    if name in TRAINING:
        model, inputs = TRAINING[name]()
    else:
        build, make_inputs, second, dynamic = MODELS[name]
        model, inputs = build().eval(), make_inputs()
    copies = lambda tensors: tuple(t.clone() for t in tensors)  # noqa: E731
    # Export first: a call may change the model's buffers, and the program must start from the untouched ones.
    with torch.no_grad():
        program = torch.export.export(model, copies(inputs), dynamic_shapes=dynamic and dynamic(), strict=False)
        outputs = tensors_of(model(*copies(inputs)))
    with tempfile.TemporaryDirectory() as scratch:
        save_case(scratch, name, program, inputs, outputs)
        if second:
            inputs = second()
            with torch.no_grad():
                outputs = tensors_of(model(*copies(inputs)))
            save_tensors(os.path.join(scratch, name + ".in2.safetensors"), "in", inputs)
            save_tensors(os.path.join(scratch, name + ".out2.safetensors"), "out", outputs)
        pack(os.path.join(folder, name + ".tar.xz"), scratch)
    print("recorded", name, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    opinfo = commands.add_parser("opinfo")
    opinfo.add_argument("archive")
    opinfo.add_argument("--like", help="an earlier archive: record only the cases that it lists")
    models = commands.add_parser("models")
    models.add_argument("folder")
    models.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.command == "opinfo":
        record_opinfo(options.archive, options.like)
    else:
        os.makedirs(options.folder, exist_ok=True)
        for name in options.names or [*MODELS, *TRAINING]:
            record_model(options.folder, name)


if __name__ == "__main__":
    main()
