"""Writes models as users export them, with PyTorch's results: vision, language, speech, graphs, recommendation, training.

    python tests/conformance/more_models.py FOLDER [NAME ...]
    build/toroid conform FOLDER --isolate

Each model is NAME.pt2 with recorded calls NAME.in.safetensors, NAME.in2.safetensors, ...; state that a call changes is there in
the next. Needs PyTorch; run by hand. Last results: docs/testing.md.
"""

import copy
import math
import pathlib
import sys
import traceback
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from regenerate import save_tensors, tensors_of
from torch.export import Dim
from torch.utils import _pytree as pytree

MODELS = {}
AUTO = Dim.AUTO


def model(*calls, dynamic=None, decomposed=False, train=False):
    """Registers a class of modules; each of `calls` makes the arguments of one."""

    def register(make):
        MODELS[make.__name__] = (make, calls, dynamic, decomposed, train)
        return make

    return register


def r(*sizes):
    return torch.randn(*sizes)


def ids(*sizes, below=64):
    return torch.randint(0, below, sizes)


def write(folder, name):
    make, calls, dynamic, decomposed, train = MODELS[name]
    torch.manual_seed(0)
    module = make()
    module = module.train() if train else module.eval()
    calls = [call() for call in calls]
    exported = copy.deepcopy(module)
    program = torch.export.export(exported, tuple(map(clone, calls[0])), dynamic_shapes=dynamic, strict=False)
    if decomposed:
        program = program.run_decompositions()
    torch.export.save(program, folder / f"{name}.pt2")
    for number, args in enumerate(calls, 1):
        suffix = "" if number == 1 else str(number)
        with torch.no_grad():
            results = tensors_of(module(*map(clone, args)))
        save_tensors(folder / f"{name}.in{suffix}.safetensors", "in", tensors_of(args))
        save_tensors(folder / f"{name}.out{suffix}.safetensors", "out", results)


def clone(tree):
    return pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, tree)


# ---- vision ----------------------------------------------------------------------------------------------------------------------


def images(batch, size, channels=3):
    return lambda: (r(batch, channels, size, size),)


BATCH = ({0: AUTO},)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, groups=4, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        out += self.down(x)
        return self.relu(out)


@model(images(2, 33), images(5, 33), dynamic=BATCH)
class ResNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Bottleneck(16, 8, 1), Bottleneck(32, 16, 2))
        self.pool, self.head = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class InvertedResidual(nn.Module):
    def __init__(self, width, expand, kernel, stride, squeeze, act):
        super().__init__()
        hidden = width * expand
        self.expand = nn.Sequential(nn.Conv2d(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden), act())
        self.depth = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride, kernel // 2, groups=hidden, bias=False), nn.BatchNorm2d(hidden), act()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, hidden // 4, 1), nn.ReLU(), nn.Conv2d(hidden // 4, hidden, 1), nn.Hardsigmoid()
        ) if squeeze else None
        self.project = nn.Sequential(nn.Conv2d(hidden, width, 1, bias=False), nn.BatchNorm2d(width))
        self.skips = stride == 1

    def forward(self, x):
        y = self.depth(self.expand(x))
        if self.squeeze is not None:
            y = y * self.squeeze(y)
        y = self.project(y)
        return x + y if self.skips else y


@model(images(2, 32), images(3, 48), dynamic=({0: AUTO, 2: AUTO, 3: AUTO},))
class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), InvertedResidual(8, 2, 3, 1, True, nn.ReLU),
            InvertedResidual(8, 4, 5, 2, True, nn.Hardswish), InvertedResidual(8, 4, 5, 1, False, nn.ReLU6),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(inplace=True), nn.Dropout(0.2), nn.Linear(16, 10))

    def forward(self, x):
        return self.head(self.layers(x).mean([2, 3]))


@model(images(2, 40), decomposed=True)
class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.SiLU(), InvertedResidual(8, 6, 5, 2, True, nn.SiLU), InvertedResidual(8, 6, 3, 1, True, nn.SiLU))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = F.pad(x, (0, 1, 0, 1))
        return self.head(F.adaptive_avg_pool2d(self.layers(x), 1).squeeze(-1).squeeze(-1))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


@model(images(2, 32), images(4, 32), dynamic=BATCH)
class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 16, 4, 4), ConvNextBlock(16)
        self.norm, self.down, self.last = nn.GroupNorm(1, 16), nn.Conv2d(16, 32, 2, 2), ConvNextBlock(32)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

    def forward(self, x):
        x = self.last(self.down(self.norm(self.block(self.stem(x)))))
        return self.head(x.mean((-2, -1)))


@model(images(2, 32), images(6, 32), dynamic=BATCH)
class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 8, 8)
        self.cls, self.pos = nn.Parameter(r(1, 1, 32)), nn.Parameter(r(1, 17, 32) * 0.02)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.head(self.encoder(x)[:, 0]).softmax(-1)


@model(images(2, 32, 16), images(3, 32, 16), dynamic=BATCH)
class SwinBlock(nn.Module):
    """Attention in windows, shifted by a roll and masked; then patches are merged."""

    def __init__(self, width=16, heads=2, window=8, shift=4, size=32):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(r((2 * window - 1) ** 2, heads) * 0.02)
        self.merge_norm, self.merge = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("position", relative[..., 0] * (2 * window - 1) + relative[..., 1])
        region = torch.zeros(1, size, size, 1)
        spans = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for i, (rows, columns) in enumerate((a, b) for a in spans for b in spans):
            region[:, rows, columns] = i
        region = self.windows(region).squeeze(-1)
        self.register_buffer("mask", (region[:, None, :] - region[:, :, None]).masked_fill_(region[:, None, :] != region[:, :, None], -100.0))

    def windows(self, x):
        batch, height, width, channels = x.shape
        w = self.window
        return x.view(batch, height // w, w, width // w, w, channels).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, channels)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        batch, height, width, channels = x.shape
        skip, w = x, self.window
        x = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        x = self.windows(x)
        q, k, v = self.qkv(x).reshape(x.shape[0], w * w, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attention = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        attention = attention + self.bias[self.position.view(-1)].view(w * w, w * w, -1).permute(2, 0, 1).unsqueeze(0)
        count = self.mask.shape[0]
        attention = attention.view(-1, count, self.heads, w * w, w * w) + self.mask.unsqueeze(1).unsqueeze(0)
        x = self.out((attention.view(-1, self.heads, w * w, w * w).softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, channels))
        x = x.view(-1, height // w, width // w, w, w, channels).permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        x = skip + torch.roll(x, (self.shift, self.shift), (1, 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.merge(self.merge_norm(x))


class Twice(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.1, inplace=True))


@model(images(2, 32), images(3, 48), dynamic=({0: AUTO, 2: AUTO, 3: AUTO},))
class UNetUpsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = Twice(3, 8), Twice(8, 16), Twice(16, 32)
        self.up2, self.up1, self.head = Twice(48, 16), Twice(24, 8), nn.Conv2d(8, 2, 1)
        self.pool, self.nearest, self.linear = nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.UpsamplingBilinear2d(scale_factor=2)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.bottom(self.pool(b))
        b = self.up2(torch.cat([self.nearest(c), b], 1))
        a = self.up1(torch.cat([self.linear(b), a], 1))
        return F.interpolate(self.head(a), size=x.shape[-2:], mode="bicubic", align_corners=False).argmax(1), self.head(a).sigmoid()


@model(lambda: (r(3, 12),), lambda: (r(8, 12),), dynamic=BATCH)
class GanGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 16 * 16), nn.Unflatten(1, (16, 4, 4)), nn.ConvTranspose2d(16, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8),
            nn.Conv2d(8, 12, 3, padding="same", padding_mode="reflect"), nn.PixelShuffle(2), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z):
        return self.layers(z)


@model(lambda: (r(40, 4).abs() * 20, torch.rand(40)), lambda: (r(40, 4).abs() * 30, torch.rand(40)))
class Detection(nn.Module):
    """Greedy suppression of overlapping boxes by a fixed number of steps, then the rows that stay."""

    def forward(self, boxes, scores):
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:] + 1], 1)
        scores, order = scores.sort(descending=True)
        corners = corners[order]
        low = torch.max(corners[:, None, :2], corners[None, :, :2])
        high = torch.min(corners[:, None, 2:], corners[None, :, 2:])
        inter = (high - low).clamp(min=0).prod(-1)
        area = (corners[:, 2:] - corners[:, :2]).prod(-1)
        iou = inter / (area[:, None] + area[None] - inter)
        keep = torch.ones_like(scores, dtype=torch.bool)
        for i in range(20):
            later = torch.arange(40) > i
            keep = keep & ~((iou[i] > 0.3) & later & keep[i])
        keep = keep & (scores > 0.2)
        rows = keep.nonzero().squeeze(1)
        return corners[rows], scores[keep], rows, keep.sum()


@model(lambda: (torch.rand(30, 4) * 50, torch.rand(30)), lambda: (torch.rand(17, 4) * 50, torch.rand(17)), dynamic=({0: AUTO}, {0: AUTO}))
class NmsLoop(nn.Module):
    """The same as a while_loop over a number of boxes that varies."""

    def forward(self, boxes, scores):
        from torch._higher_order_ops.while_loop import while_loop

        order = scores.argsort(descending=True)
        corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)[order]
        area = (corners[:, 2:] - corners[:, :2]).prod(-1)
        count = torch.full((), corners.shape[0])

        def body(i, keep):
            box = corners.index_select(0, i.view(1))
            inter = (torch.minimum(box[:, 2:], corners[:, 2:]) - torch.maximum(box[:, :2], corners[:, :2])).clamp_min(0).prod(-1)
            iou = inter / (area + area.index_select(0, i.view(1)) - inter)
            drop = (iou > 0.2) & (torch.arange(corners.shape[0]) > i) & keep.index_select(0, i.view(1))
            return i + 1, keep & ~drop

        _, keep = while_loop(lambda i, keep: i < count, body, (torch.zeros((), dtype=torch.int64), torch.ones_like(order, dtype=torch.bool)))
        return keep, corners[keep]


@model(images(2, 16), images(2, 16))
class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveMaxPool2d(3), nn.Flatten(), nn.Linear(36, 6))

    def forward(self, x):
        theta = self.locate(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


# ---- language --------------------------------------------------------------------------------------------------------------------


@model(lambda: (ids(2, 1), torch.tensor([3])), lambda: (ids(2, 1), torch.tensor([4])), lambda: (ids(2, 1), torch.tensor([5])))
class GptCached(nn.Module):
    """One step of decoding; keys and values are buffers that it updates in place."""

    def __init__(self, width=32, heads=4, length=16):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(64, width), nn.Embedding(length, width)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.register_buffer("keys", torch.zeros(2, heads, length, width // heads))
        self.register_buffer("values", torch.zeros(2, heads, length, width // heads))
        self.register_buffer("causal", torch.ones(length, length, dtype=torch.bool).tril())

    def forward(self, tokens, at):
        x = self.words(tokens) + self.places(at)
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.view(2, 1, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        self.keys.index_copy_(2, at, k)
        self.values[:, :, at] = v
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=self.causal[at])
        x = x + self.out(y.transpose(1, 2).reshape(2, 1, -1))
        x = x + self.mlp(self.norm2(x))
        return self.norm3(x) @ self.words.weight.T


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@model(lambda: (ids(2, 7), torch.ones(2, 7, dtype=torch.int64)), lambda: (ids(3, 12), torch.ones(3, 12, dtype=torch.int64).triu()[:3]), dynamic=({0: AUTO, 1: AUTO}, {0: AUTO, 1: AUTO}))
class Llama(nn.Module):
    """Rotary positions as complex numbers, grouped queries, a causal mask joined with that of the padding."""

    def __init__(self, width=32, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.words, self.norm1, self.norm2, self.norm3 = nn.Embedding(64, width), Rms(width), Rms(width), Rms(width)
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, groups * self.size, bias=False)
        self.v, self.o = nn.Linear(width, groups * self.size, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, 48, bias=False), nn.Linear(width, 48, bias=False), nn.Linear(48, width, bias=False)

    def forward(self, tokens, mask):
        x = self.words(tokens)
        batch, length, _ = x.shape
        frequency = 1.0 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size)
        turns = torch.polar(torch.ones(length, self.size // 2), torch.outer(torch.arange(length).float(), frequency))

        def rotated(t):
            pairs = torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns[None, :, None]).flatten(3).type_as(t)

        y = self.norm1(x)
        q = rotated(self.q(y).view(batch, length, self.heads, -1)).transpose(1, 2)
        k = rotated(self.k(y).view(batch, length, self.groups, -1)).transpose(1, 2)
        v = self.v(y).view(batch, length, self.groups, -1).transpose(1, 2)
        k = k[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(batch, self.heads, length, -1)
        v = v.repeat_interleave(self.heads // self.groups, 1)
        allowed = torch.full((length, length), float("-inf")).triu(1)[None, None] + (1.0 - mask[:, None, None, :]) * torch.finfo(torch.float32).min
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(self.size) + allowed.clamp(min=torch.finfo(torch.float32).min)
        y = (scores.softmax(-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.o(y)
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.norm3(x)[:, -1:] @ self.words.weight.T


@model(lambda: (ids(2, 9), ids(2, 9, below=2), (torch.arange(9) < torch.tensor([[9], [5]])).long()), lambda: (ids(4, 6), ids(4, 6, below=2), torch.ones(4, 6).long()), dynamic=({0: AUTO, 1: AUTO},) * 3)
class Bert(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(64, width, padding_idx=0), nn.Embedding(32, width), nn.Embedding(2, width)
        self.norm, self.attention = nn.LayerNorm(width, eps=1e-12), nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.up, self.down, self.norm2 = nn.LayerNorm(width), nn.Linear(width, 64), nn.Linear(64, width), nn.LayerNorm(width)
        self.pool = nn.Linear(width, width)

    def forward(self, tokens, kinds, mask):
        places = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0).expand_as(tokens)
        x = self.norm(self.words(tokens) + self.places(places) + self.kinds(kinds))
        y, weights = self.attention(x, x, x, key_padding_mask=mask == 0)
        x = self.norm1(x + y)
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
        return F.normalize(mean, p=2, dim=1), torch.tanh(self.pool(x[:, 0])), weights


@model(lambda: (r(2, 10, 32),), lambda: (r(3, 21, 32),), dynamic=({0: AUTO, 1: AUTO},))
class T5Attention(nn.Module):
    """Distances between words fall into buckets, near ones alone, far ones by logarithm."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias, self.norm = nn.Embedding(16, heads), Rms(width)

    def forward(self, x):
        batch, length, _ = x.shape
        relative = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        bucket = (relative > 0).long() * 8
        distance = relative.abs()
        far = 4 + (torch.log(distance.float() / 4) / math.log(16 / 4) * 4).long()
        bucket = bucket + torch.where(distance < 4, distance, torch.min(far, torch.full_like(far, 7)))
        bias = self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        y = self.norm(x)
        q, k, v = (f(y).view(batch, -1, self.heads, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = (torch.matmul(q, k.transpose(3, 2)) + bias).float().softmax(-1).type_as(q)
        return x + self.o(torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, -1, 32))


@model(lambda: (ids(5, 7),), lambda: (ids(3, 7),), dynamic=({0: AUTO},))
class LstmClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(64, 12), nn.LSTM(12, 10, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(20, 3), nn.LogSoftmax(-1))

    def forward(self, tokens):
        y, _ = self.lstm(self.words(tokens))
        return self.head(y[:, -1]), y.max(1)[0]


@model(lambda: (r(4, 6, 8),), lambda: (r(2, 6, 8),), dynamic=BATCH, decomposed=True)
class GruTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(8, 10, batch_first=True), nn.Linear(10, 4)

    def forward(self, x):
        y, h = self.gru(x)
        return self.head(y).argmax(-1), h


@model(lambda: (r(2, 10), torch.tensor(4)), lambda: (r(2, 10), torch.tensor(9)), lambda: (r(2, 10), torch.tensor(0)))
class GreedyDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(20, 6), nn.GRUCell(6, 10), nn.Linear(10, 20)

    def forward(self, state, steps):
        from torch._higher_order_ops.while_loop import while_loop

        def body(i, token, state, out):
            state = self.cell(self.words(token), state)
            token = self.head(state).argmax(-1)
            return i + 1, token, state, torch.where(torch.arange(10)[None] == i, token[:, None], out)

        start = torch.zeros((), dtype=torch.int64), torch.ones(2, dtype=torch.int64), state.clone(), torch.full((2, 10), -1)
        return while_loop(lambda i, token, state, out: i < steps, body, start)


@model(lambda: (r(6, 16),), lambda: (r(13, 16),), dynamic=BATCH)
class MixtureOfExperts(nn.Module):
    """Each expert gets the tokens that chose it: their number depends on the data."""

    def __init__(self, width=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 24), nn.SiLU(), nn.Linear(24, width)) for _ in range(experts))

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
        return out, F.one_hot(chosen, 4).sum((0, 1))


@model(lambda: (r(6, 16),), lambda: (r(11, 16),), dynamic=BATCH)
class DenseExperts(nn.Module):
    """All experts' weights as one tensor, tokens gathered by einsum."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 4), nn.Parameter(r(4, 16, 24) * 0.2), nn.Parameter(r(4, 24, 16) * 0.2)

    def forward(self, x):
        weights, chosen = self.gate(x).topk(2)
        hidden = torch.einsum("ti,taio->tao", x, self.up[chosen])
        out = torch.einsum("tao,taoi->tai", F.gelu(hidden), self.down[chosen])
        return torch.einsum("tai,ta->ti", out, weights.softmax(-1))


@model(lambda: (r(2, 24, 32), r(2, 5, 32)))
class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)

    def forward(self, source, target):
        mask = torch.triu(torch.full((target.shape[1], target.shape[1]), float("-inf")), 1)
        return self.model(source, target, tgt_mask=mask, tgt_is_causal=True)


# ---- sound -----------------------------------------------------------------------------------------------------------------------


@model(lambda: (r(2, 20, 64),), lambda: (r(3, 20, 90),), dynamic=({0: AUTO, 2: AUTO},))
class WhisperEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        scale = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        angle = torch.arange(64)[:, None] * scale[None]
        self.register_buffer("places", torch.cat([angle.sin(), angle.cos()], 1))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).permute(0, 2, 1)
        return self.norm(self.layer(x + self.places[: x.shape[1]]))


@model(lambda: (r(2, 400),), lambda: (r(3, 633),), dynamic=({0: AUTO, 1: AUTO},))
class Wav2Vec(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, 16, 10, 5, bias=False), nn.Conv1d(16, 16, 3, 2, bias=False), nn.Conv1d(16, 16, 2, 2, bias=False)])
        self.group = nn.GroupNorm(16, 16)
        self.norm, self.project = nn.LayerNorm(16), nn.Linear(16, 32)
        self.position = nn.utils.parametrizations.weight_norm(nn.Conv1d(32, 32, 8, padding=4, groups=4), dim=2)

    def forward(self, wave):
        x = (wave - wave.mean(-1, keepdim=True)) / torch.sqrt(wave.var(-1, keepdim=True) + 1e-5)
        x = x[:, None]
        for i, conv in enumerate(self.convs):
            x = conv(x)
            x = F.gelu(self.group(x) if i == 0 else x)
        x = self.project(self.norm(x.transpose(1, 2)))
        return x + F.gelu(self.position(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)


@model(lambda: (r(2, 512),), lambda: (r(5, 512),), dynamic=BATCH)
class MelSpectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", torch.rand(33, 12))

    def forward(self, wave):
        spectrum = torch.stft(wave, 64, 16, window=self.window, center=True, pad_mode="reflect", return_complex=True)
        power = spectrum.abs().pow(2)
        mel = torch.clamp(power.transpose(1, 2) @ self.mel, min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8.0)
        return (mel + 4) / 4, torch.fft.rfft(wave).angle().cos() * (torch.fft.rfft(wave).abs() > 1)


@model(lambda: (r(2, 8, 8, 4),), lambda: (r(3, 8, 8, 4),), dynamic=BATCH)
class FourierOperator(nn.Module):
    """The lowest frequencies of a field times complex weights, and back."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(r(4, 4, 3, 3, 2) * 0.2)
        self.skip = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        x = x.permute(0, 3, 1, 2)
        spectrum = torch.fft.rfft2(x, norm="ortho")
        weight = torch.view_as_complex(self.weight)
        low = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :3, :3], weight)
        out = torch.zeros_like(spectrum)
        out[:, :, :3, :3] = low
        return F.gelu(torch.fft.irfft2(out, s=(8, 8), norm="ortho") + self.skip(x))


# ---- graphs, tables --------------------------------------------------------------------------------------------------------------


@model(lambda: (r(9, 6), ids(2, 20, below=9), torch.rand(20)), lambda: (r(14, 6), ids(2, 31, below=14), torch.rand(31)), dynamic=({0: AUTO}, {1: AUTO}, {0: AUTO}))
class GraphAttention(nn.Module):
    """A graph convolution by degree, then attention over each node's neighbours, all by scatter."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.score = nn.Linear(6, 8, bias=False), nn.Linear(8, 8), nn.Linear(16, 1)

    def forward(self, x, edges, weight):
        source, target = edges
        count = x.shape[0]
        degree = torch.zeros(count).scatter_add_(0, target, weight).clamp(min=1e-6).pow(-0.5)
        messages = self.first(x)[source] * (degree[source] * weight * degree[target])[:, None]
        h = torch.zeros(count, 8).index_add(0, target, messages).relu()
        h = self.second(h)
        score = F.leaky_relu(self.score(torch.cat([h[source], h[target]], -1)).squeeze(-1), 0.2)
        highest = torch.full((count,), -torch.inf).scatter_reduce(0, target, score, "amax", include_self=False)
        score = (score - highest[target]).exp()
        total = torch.zeros(count).scatter_add(0, target, score)
        out = torch.zeros_like(h).scatter_reduce_(0, target[:, None].expand(-1, 8), h[source] * (score / total[target])[:, None], "sum")
        mean = torch.zeros(count, 8).scatter_reduce(0, target[:, None].expand(-1, 8), h[source], "mean", include_self=False)
        return out, mean, out.mean(0)


@model(lambda: (r(4, 13), ids(12, below=50), torch.tensor([0, 2, 5, 9]), ids(7, below=30), torch.tensor([0, 1, 1, 4]), torch.rand(7)))
class DlrmBags(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.EmbeddingBag(50, 8, mode="mean"), nn.EmbeddingBag(30, 8, mode="sum", include_last_offset=False)
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(11, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, dense, words, starts, tags, tag_starts, weights):
        x = self.bottom(dense)
        t = torch.stack([x, self.first(words, starts), self.second(tags, tag_starts, per_sample_weights=weights)], 1)
        z = torch.bmm(t, t.mT)
        i, j = torch.tril_indices(3, 3, -1).unbind(0)
        return torch.sigmoid(self.top(torch.cat([x, z[:, i, j]], 1)))


@model(lambda: (r(6, 10), ids(6, below=3)), lambda: (r(6, 10), ids(6, below=3)))
class TabularStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.int64))

    def forward(self, x, group):
        bins = torch.bucketize(x, self.edges)
        self.seen += torch.bincount(group, minlength=3)[:3]
        mean, std = x.mean(0), x.std(0, unbiased=True)
        z = ((x - mean) / std).nan_to_num()
        order = z.argsort(stable=True, dim=0)
        rank = torch.zeros_like(order).scatter(0, order, torch.arange(x.shape[0])[:, None].expand_as(order))
        return bins, z, rank, x.kthvalue(3, 0).values, x.cumsum(0), self.seen, x.median(0).values, x.T @ x


@model(lambda: (r(5, 6),), lambda: (r(8, 6),), dynamic=BATCH)
class KalmanStep(nn.Module):
    def __init__(self):
        super().__init__()
        a = r(6, 6)
        self.register_buffer("cov", a @ a.T + 6 * torch.eye(6))
        self.register_buffer("turn", torch.linalg.qr(r(6, 6))[0])

    def forward(self, x):
        root = torch.linalg.cholesky(self.cov)
        solved = torch.cholesky_solve(x.T, root).T
        gain = torch.linalg.solve(self.cov + torch.eye(6), self.turn)
        distance = torch.cdist(x, x @ self.turn)
        return solved, (x @ gain).diagonal(), distance, torch.linalg.slogdet(self.cov)[1], torch.linalg.inv(self.cov).trace(), torch.logdet(self.cov), torch.linalg.pinv(x[:, :3])


# ---- chance ----------------------------------------------------------------------------------------------------------------------


@model(images(2, 16), images(3, 16), dynamic=BATCH)
class Vae(nn.Module):
    """What depends on the random draw is left out of the results but for its shape and range."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 8))
        self.decode = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3 * 256), nn.Sigmoid())

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        image = self.decode(z).view(-1, 3, 16, 16)
        kl = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp(), 1)
        return kl, (image >= 0) & (image <= 1), mean


# ---- quantised -------------------------------------------------------------------------------------------------------------------


@model(lambda: (r(4, 16),), lambda: (r(9, 16),), dynamic=BATCH)
class QuantizedLinear(nn.Module):
    """What the PT2E flow writes for a static int8 linear layer, and a dynamic one after it."""

    def __init__(self):
        super().__init__()
        import torch.ao.quantization.fx._decomposed  # noqa: F401

        weight = r(12, 16)
        scale = weight.abs().amax(1) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("zero", torch.zeros(12, dtype=torch.int64))
        self.register_buffer("weight", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))
        self.bias = nn.Parameter(r(12))
        self.last = nn.Linear(12, 5)

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        x = q.quantize_per_tensor(x, 0.03, 2, -128, 127, torch.int8)
        x = q.dequantize_per_tensor(x, 0.03, 2, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(self.weight, self.scale, self.zero, 0, -127, 127, torch.int8)
        x = F.relu(F.linear(x, weight, self.bias))
        scale, zero = q.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
        y = q.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        y = q.dequantize_per_tensor.tensor(y, scale, zero, 0, 255, torch.uint8)
        return self.last(y), scale


@model(lambda: (r(2, 3, 9, 9),))
class QuantizedConv(nn.Module):
    def __init__(self):
        super().__init__()
        import torch.ao.quantization.fx._decomposed  # noqa: F401

        self.register_buffer("weight", torch.randint(-127, 128, (6, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(6) * 0.01 + 0.001)

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.02, 128, 0, 255, torch.uint8), 0.02, 128, 0, 255, torch.uint8)
        w = q.dequantize_per_channel(self.weight, self.scale, torch.zeros(6, dtype=torch.int64), 0, -127, 127, torch.int8)
        y = F.max_pool2d(F.conv2d(x, w, padding=1), 2)
        return q.dequantize_per_tensor(q.quantize_per_tensor(y, 0.05, 0, -128, 127, torch.int8), 0.05, 0, -128, 127, torch.int8)


@model(lambda: (r(4, 32).bfloat16(),), lambda: (r(4, 32).bfloat16(),))
class Int4Groups(nn.Module):
    """Weights of four bits, two in a byte, with a scale for each group of eight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (24, 16), dtype=torch.uint8))
        self.register_buffer("scales", (torch.rand(24, 4) * 0.1).bfloat16())

    def forward(self, x):
        low, high = self.packed & 15, self.packed >> 4
        weight = torch.stack([low, high], -1).view(24, 32).to(torch.int8) - 8
        weight = (weight.view(24, 4, 8) * self.scales[..., None]).view(24, 32)
        return F.linear(x, weight)


# ---- control flow ----------------------------------------------------------------------------------------------------------------


@model(lambda: (r(5, 8),), lambda: (-r(9, 8).abs(),), dynamic=BATCH)
class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head, self.second = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 8)

    def forward(self, x):
        h = self.first(x).relu()
        sure = self.head(h).softmax(-1).amax(-1).mean() > 0.6
        return torch.cond(sure, lambda h: self.head(h), lambda h: self.head(self.second(h).relu() + h), (h,))


@model(lambda: (r(6, 3, 5), r(3, 5)), lambda: (r(6, 3, 5), r(3, 5)), decomposed=True)
class StateSpace(nn.Module):
    """A linear recurrence by scan, the same by associative_scan, and a map over the steps."""

    def forward(self, x, start):
        from torch._higher_order_ops.associative_scan import associative_scan
        from torch._higher_order_ops.map import map as map_slices
        from torch._higher_order_ops.scan import scan

        last, steps = scan(lambda h, x: (torch.tanh(h * 0.9 + x), h.sum(-1)), start, x, dim=0)
        decay = torch.sigmoid(x)
        _, states = associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (decay, x), 0, combine_mode="generic")
        return last, steps, states, map_slices(lambda x, h: (x @ h.T).softmax(-1), x, start)


# ---- training --------------------------------------------------------------------------------------------------------------------


def trained(module, loss, optimizer, *data, steps=1):
    """Forward, backward and the optimizer's update as one graph over data, weights and the optimizer's state."""
    from torch.fx.experimental.proxy_tensor import make_fx

    names = [name for name, _ in module.named_parameters()]
    weights = [p.detach().clone() for _, p in module.named_parameters()]

    def step(*args):
        data, state = args[: len(args) - 3 * len(names)], args[len(args) - 3 * len(names) :]
        leaves = [w.detach().requires_grad_() for w in state[: len(names)]]
        first, second = state[len(names) : 2 * len(names)], state[2 * len(names) :]
        value = loss(torch.func.functional_call(module, dict(zip(names, leaves)), (data[0],)), *data[1:])
        gradients = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        return (value.detach(), *optimizer(leaves, gradients, first, second))

    state = [*weights, *map(torch.zeros_like, weights), *map(torch.zeros_like, weights)]
    graph = make_fx(step, tracing_mode="real")(*data, *state)
    return graph, (*data, *state)


def sgd(leaves, gradients, first, second):
    first = [0.9 * m + g + 1e-2 * w.detach() for m, g, w in zip(first, gradients, leaves)]
    return [*[w.detach() - 0.1 * (g + 0.9 * m) for w, g, m in zip(leaves, gradients, first)], *first]


def adamw(leaves, gradients, first, second):
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    gradients = [g * torch.clamp(1.0 / (norm + 1e-6), max=1.0) for g in gradients]
    first = torch._foreach_lerp(list(first), list(gradients), 0.1)
    second = torch._foreach_mul(list(second), 0.999)
    second = torch._foreach_addcmul(second, list(gradients), list(gradients), 0.001)
    root = torch._foreach_add(torch._foreach_sqrt(torch._foreach_div(second, 0.001)), 1e-8)
    decayed = torch._foreach_mul([w.detach() for w in leaves], 1 - 1e-2 * 1e-2)
    return [*torch._foreach_addcdiv(decayed, first, root, -1e-2 / 0.1), *first, *second]


TRAINING = {}


def training(make):
    TRAINING[make.__name__] = make
    return make


@training
def train_lstm():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.head = nn.Embedding(20, 6), nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 4)

        def forward(self, x):
            return self.head(self.lstm(self.words(x))[0]).flatten(0, 1)

    return trained(Tagger(), F.cross_entropy, adamw, ids(3, 5, below=20), ids(15, below=4))


@training
def train_vit():
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.cls = nn.Conv2d(3, 16, 4, 4), nn.Parameter(r(1, 1, 16))
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            x = self.patch(x).flatten(2).mT
            return self.head(self.layer(torch.cat([self.cls.expand(len(x), -1, -1), x], 1))[:, 0])

    return trained(Tiny(), lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1), sgd, r(2, 3, 16, 16), ids(2, below=5))


@training
def train_gan():
    layers = nn.Sequential(
        nn.Linear(6, 8 * 9), nn.Unflatten(1, (8, 3, 3)), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.GroupNorm(2, 4), nn.LeakyReLU(0.2),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 1, 3, padding=1, padding_mode="replicate"), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
    )  # fmt: skip
    return trained(layers, lambda y, t: F.binary_cross_entropy_with_logits(y, t) + F.smooth_l1_loss(y, t), sgd, r(3, 6), torch.rand(3, 36))


@training
def train_graph():
    class Gcn(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)
            self.source, self.target = ids(14, below=7), ids(14, below=7)

        def forward(self, x):
            h = torch.zeros(7, 8).index_add(0, self.target, self.first(x)[self.source]).relu()
            return self.second(torch.zeros(7, 8).scatter_reduce(0, self.target[:, None].expand(-1, 8), h[self.source], "amax"))

    return trained(Gcn(), lambda y, t: F.nll_loss(y.log_softmax(1), t), sgd, r(7, 5), ids(7, below=3))


@training
def train_llama():
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm, self.qkv = nn.Embedding(30, 16), Rms(16), nn.Linear(16, 48, bias=False)
            self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)

        def forward(self, tokens):
            x = self.words(tokens)
            q, k, v = self.qkv(self.norm(x)).view(*tokens.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
            x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + self.down(F.silu(self.gate(x)) * self.up(x))
            return (x @ self.words.weight.T).flatten(0, 1)

    return trained(Tiny(), F.cross_entropy, adamw, ids(2, 6, below=30), ids(12, below=30))


@training
def train_metric():
    layers = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12, track_running_stats=False), nn.ELU(), nn.Linear(12, 4))

    def loss(y, other, sign):
        return F.triplet_margin_loss(y, other, y.flip(0)) + F.cosine_embedding_loss(y, other, sign) + F.kl_div(y.log_softmax(1), other.softmax(1), reduction="batchmean") + torch.cdist(y, other).mean()

    return trained(layers, loss, sgd, r(5, 6), r(5, 4), torch.tensor([1.0, -1, 1, 1, -1]))


def write_training(folder, name):
    torch.manual_seed(0)
    graph, inputs = TRAINING[name]()
    program = torch.export.export(graph, tuple(map(clone, inputs)), strict=False)
    torch.export.save(program, folder / f"{name}.pt2")
    save_tensors(folder / f"{name}.in.safetensors", "in", inputs)
    save_tensors(folder / f"{name}.out.safetensors", "out", tensors_of(graph(*map(clone, inputs))))


@model(lambda: (r(6, 5), ids(6, below=3)), lambda: (r(6, 5), ids(6, below=3)), train=True)
class BatchNormTraining(nn.Module):
    """Forward in training mode: running statistics change from call to call."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3))

    def forward(self, x, target):
        return F.cross_entropy(self.layers(x), target), self.layers[1].running_mean * 1, self.layers[1].num_batches_tracked + 0


def main():
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*MODELS, *TRAINING]:
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        try:
            write(folder, name) if name in MODELS else write_training(folder, name)
        except Exception:
            print(f"{name}: {traceback.format_exc(limit=-1)}", file=sys.stderr)


main()
