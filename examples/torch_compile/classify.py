"""Image classification: a ResNet-18 of torchvision, or where that is not installed a small residual network. Random weights.

    python examples/torch_compile/classify.py [--inductor] [--own]
"""

import torch
from torch import nn

from beside import compare, has


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.norm_after = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_after(self.second(self.norm(self.first(x)).relu()))
        return (x + y).relu()


def network() -> nn.Module:
    """From images, [n, 3, 224, 224], to logits, [n, 1000]."""
    if has("torchvision"):
        import torchvision

        return torchvision.models.resnet18()
    body = [nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU(), Residual(64), nn.MaxPool2d(2), Residual(64), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(64, 1000))


def main() -> None:
    torch.manual_seed(0)
    model, images = network().eval(), torch.randn(4, 3, 224, 224)
    compare("4 images of 224 x 224", lambda call: call(images), model)
    compare("the same in channels_last", lambda call: call(images.to(memory_format=torch.channels_last)), model)


if __name__ == "__main__":
    main()
