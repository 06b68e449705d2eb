"""A diffusion model: steps of a small U-Net that predicts noise, with deterministic (DDIM) steps between. Random weights.

    python examples/torch_compile/denoise.py [--inductor]
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from beside import compare

CHANNELS, LEVELS, STEPS = 32, 3, 4


class Residual(nn.Module):
    """Two convolutions, with the embedding of the time added between them."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.norm, self.norm_after = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(4 * CHANNELS, after)
        self.around = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.norm(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.around(x) + self.second(F.silu(self.norm_after(y)))


class Attention(nn.Module):
    """Attention among the places of an image, with four heads."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, channels), nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, 4, c // 4, h * w).transpose(3, 4).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, c, h, w))


class UNet(nn.Module):
    """The noise in images, [n, 3, h, w], at a time, [n]."""

    def __init__(self) -> None:
        super().__init__()
        widths = [CHANNELS << level for level in range(LEVELS)]
        self.time = nn.Sequential(nn.Linear(CHANNELS, 4 * CHANNELS), nn.SiLU(), nn.Linear(4 * CHANNELS, 4 * CHANNELS))
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down = nn.ModuleList(Residual(a, b) for a, b in zip([CHANNELS, *widths], widths))
        self.middle, self.attention = Residual(widths[-1], widths[-1]), Attention(widths[-1])
        self.up = nn.ModuleList(Residual(a + b, b) for a, b in zip([widths[-1], *widths[:0:-1]], widths[::-1]))
        self.norm, self.last = nn.GroupNorm(8, CHANNELS), nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        angles = time[:, None] * torch.exp(torch.arange(CHANNELS // 2) * (-math.log(10000) / (CHANNELS // 2)))
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        x = self.first(x)
        kept = []
        for level, block in enumerate(self.down):
            x = block(F.avg_pool2d(x, 2) if level else x, time)
            kept.append(x)
        x = self.attention(self.middle(x, time))
        for level, block in enumerate(self.up):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0) if level else x, kept.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))


class Step(nn.Module):
    """From an image at a time to one with less noise. signal: how much of the image is there, before the step and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = UNet()

    def forward(self, x: torch.Tensor, time: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
        noise = self.unet(x, time.expand(x.shape[0]))
        image = (x - (1 - signal[0]).sqrt() * noise) / signal[0].sqrt()
        return signal[1].sqrt() * image.clamp(-3, 3) + (1 - signal[1]).sqrt() * noise


def denoise(step, x: torch.Tensor) -> torch.Tensor:
    """All steps, from noise on."""
    signal = torch.cos(torch.linspace(0.98, 0.0, STEPS + 1) * math.pi / 2) ** 2
    for i in range(STEPS):
        x = step(x, torch.tensor(1000.0 * (1 - i / STEPS)), signal[i : i + 2])
    return x


def main() -> None:
    torch.manual_seed(0)
    noise = torch.randn(2, 3, 64, 64)
    compare(f"{STEPS} steps of 2 images of 64 x 64", lambda call: denoise(call, noise), Step().eval(), tolerance=1e-3)


if __name__ == "__main__":
    main()
