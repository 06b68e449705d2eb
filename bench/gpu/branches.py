#!/usr/bin/env python3
"""Times models whose kernels are small with branches of a call on streams of their own, and in one order (docs/gpu.md, "Branches"), and
checks that results have the same bits.

usage: branches.py TOROID OUT_DIR [--rows resnet50_b1,…] [--seconds 60]
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time

import models
from check import difference, run


def inception(torch, channels=256, side=14):
    """Four branches of an image, as those of GoogLeNet, three blocks deep."""
    nn = torch.nn

    def convolution(c, k, taps):
        return nn.Sequential(nn.Conv2d(c, k, taps, padding=taps // 2), nn.ReLU())

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.branches = nn.ModuleList([
                convolution(channels, 64, 1),
                nn.Sequential(convolution(channels, 96, 1), convolution(96, 128, 3)),
                nn.Sequential(convolution(channels, 16, 1), convolution(16, 32, 3), convolution(32, 32, 3)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), convolution(channels, 32, 1))])

        def forward(self, x):
            return torch.cat([branch(x) for branch in self.branches], 1)

    return models.channels_last(torch, nn.Sequential(Block(), Block(), Block()))


def rows(torch):
    image = lambda *sizes: ((torch.rand(*sizes, device="cuda") * 2 - 1).bfloat16().to(memory_format=torch.channels_last),)
    for batch in (1, 4, 16):
        yield f"resnet50_b{batch}", models.resnet50, lambda batch=batch: image(batch, 3, 224, 224)
    for batch in (1, 8):
        yield f"inception_b{batch}", inception, lambda batch=batch: image(batch, 256, 14, 14)


def row(torch, options, name, make_module, make, scratch):
    from safetensors.torch import load_file, save_file

    path = lambda kind: os.path.join(scratch, f"{name}.{kind}")
    arguments, module = make(), make_module(torch)
    save_file({f"in{i}": each.cpu().contiguous() for i, each in enumerate(arguments)}, path("in"))
    with torch.no_grad():
        torch.export.save(torch.export.export(module, tuple(each.cpu() for each in arguments)), path("pt2"))
        expected = module.cuda()(*arguments)
    where = [path("pt2"), "--inputs", path("in"), "--device", "cuda"]
    found, results = {"row": name}, {}
    for kind, environment in (("branches", {}), ("never", {"TOROID_CUDA_BRANCHES": "never"}), ("branches_again", {})):
        code, text, _ = run([options.toroid, "bench", *where, "--seconds", "1"], None, 90, **environment)
        ms = re.search(r"([0-9.]+) ms a call", text)
        nodes = re.search(r"a CUDA graph of \d+ nodes", text)
        found[f"{kind}_ms"] = float(ms.group(1)) if code == 0 and ms else text.strip()[:200]
        found["graph"] = nodes.group(0) if nodes else ""
        code, text, _ = run([options.toroid, "run", *where, "--outputs", path("out")], None, 60,
                            **{**environment, "TOROID_CUDA_GRAPHS": "first"})
        if code != 0:
            return {**found, "error": text.strip()[:200]}
        results[kind] = load_file(path("out"), device="cuda")["out0"]
    found["same_bits"] = all(torch.equal(results["branches"], other) for other in results.values())
    found["difference"] = difference(results["branches"], expected)
    return found


def main():
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("toroid")
    parser.add_argument("out")
    parser.add_argument("--rows", default="")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    scratch, begin, found = tempfile.mkdtemp(), time.time(), []
    for name, *rest in rows(torch):
        if (options.rows and name not in options.rows.split(",")) or time.time() - begin > options.seconds:
            continue
        torch.manual_seed(0)
        try:
            found.append(row(torch, options, name, *rest, scratch))
        except Exception as error:  # one row must not end the others
            found.append({"row": name, "error": repr(error)[:300]})
        print(json.dumps(found[-1]), flush=True)
    with open(os.path.join(options.out, "branches.json"), "w") as file:
        json.dump({"device": torch.cuda.get_device_name(0), "rows": found}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
