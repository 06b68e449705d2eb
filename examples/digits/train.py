"""Trains the digit classifier of this example and exports it. Run by hand once; build, demo and tests use its files.

pip install torch==2.11.0 scikit-learn==1.9.1 safetensors numpy
examples/digits/train.py            # writes digits.pt2, heldout.safetensors and one.safetensors beside itself
"""

import pathlib
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).parent
HELD_OUT = 450  # of 1,797 images; never seen in training
EPOCHS = 40


def load_images():
    """Training and held-out images [N, 1, 8, 8] in 0..1, with their labels, in equal shares of each digit."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target, dtype=torch.int64)
    train, held_out = train_test_split(range(len(labels)), test_size=HELD_OUT, random_state=0, stratify=data.target)
    return images[train], labels[train], images[held_out], labels[held_out]


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)))


def build_network():
    """31 thousand parameters; 8x8 pixels in, the probability of each digit out."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        Residual(32),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(256, 10),
        nn.Softmax(dim=-1),
    )  # fmt: skip


def train(network, images, labels):
    logits = network[:-1]  # the loss has its own, more accurate softmax
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    network.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(labels)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(logits(images[batch]), labels[batch], label_smoothing=0.05).backward()
            optimizer.step()
        schedule.step()
    network.eval()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums in one order: the same weights on every run
    images, labels, held_out_images, held_out_labels = load_images()
    network = build_network()
    train(network, images, labels)
    with torch.no_grad():
        right = network(held_out_images).argmax(-1).eq(held_out_labels).sum().item()
        batch = torch.export.Dim("batch", min=1, max=4096)
        program = torch.export.export(network, (held_out_images[:8],), dynamic_shapes=({0: batch},), strict=False)
    print(f"{right} of {len(held_out_labels)} held-out images right: {right / len(held_out_labels):.2%}")
    for node in program.graph.nodes:  # keep the source lines, not where they lay on this machine
        trace = node.meta.get("stack_trace") or ""
        node.meta["stack_trace"] = re.sub(r'"[^"]*/(site-packages/|(?=train.py"))', '"', trace)
    # The tensors are stored once, in heldout.safetensors; an archive need not carry pickled examples.
    program.example_inputs = None
    torch.export.save(program, HERE / "digits.pt2")
    save_file({"in0": held_out_images, "labels": held_out_labels}, HERE / "heldout.safetensors")
    save_file({"in0": held_out_images[:1].clone()}, HERE / "one.safetensors")  # to time a single image


if __name__ == "__main__":
    main()
