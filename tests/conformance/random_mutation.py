"""Writes random models that change tensors in place through views, with PyTorch's results.

    python tests/conformance/random_mutation.py --seed 1 --count 500 /tmp/mutation
    build/toroid conform /tmp/mutation

A model is a straight line of views (slices, transposes, splits, diagonals, ...), in-place operators on any of
them and copies; it returns some of the tensors and the buffer, and so shows every aliasing mistake. Needs PyTorch;
run by hand.
"""
import argparse
import os
import random

import torch
from safetensors.torch import save_file

INPUTS = {"x": (4, 6), "y": (3, 4)}
BUFFER = torch.arange(12.0).reshape(2, 6) / 10


def view(rng, a, shape):
    """A line that makes a view of `a`, or something that may be one."""
    d = rng.randrange(len(shape))
    n = shape[d]
    low = rng.randrange(n)
    high = rng.randint(low + 1, n)
    index = ",".join([":"] * d + [f"{low}:{high}:{rng.choice([1, 1, 2])}"])
    choices = [
        f"{a}.transpose({d},{rng.randrange(len(shape))})",
        f"{a}.movedim({d},0)",
        f"{a}.select({d},{low})",
        f"{a}.narrow({d},{low},{high - low})",
        f"{a}[{index}]",
        f"{a}.unbind({d})[{low}]",
        f"{a}.reshape(-1)",
        f"{a}.flatten()",
        f"{a}.unsqueeze({d})",
        f"{a}.expand(2,*{shape})[1]",
        f"{a}.detach()",
        f"{a}.contiguous()",
        f"{a}.to(torch.float32)",
        f"{a}.view(torch.int32).view(torch.float32)",
        f"torch.nn.functional.dropout({a},0.5,False)",
    ]
    if n > 1:
        choices.append(f"{a}.split([1,{n - 1}],{d})[{rng.randrange(2)}]")
    if len(shape) > 1:
        choices.append(f"{a}.diagonal(0,0,1)")
    if a == "x":
        choices.append("x.as_strided((2,2),(1,2),0)")
    return rng.choice(choices)


def write(rng, a, shape):
    """A line that changes `a`."""
    choices = [
        f"{a}.mul_({rng.randint(2, 3)})",
        f"{a}.add_({a}.clone().sin())",
        f"{a}.copy_(y.sum()+{rng.randint(0, 3)})",
        f"{a}.zero_()",
        f"{a}.fill_({rng.randint(1, 5)})",
        f"{a}.clamp_(-1,1)",
        f"{a}.copy_({a}.where({a}>0,{a}*0.5))",
    ]
    if shape:
        choices.append(f"{a}.index_fill_(0,torch.tensor([0]),2.0)")
    if shape and shape[0] > 1:
        choices.append(f"{a}[1:].copy_({a}[:-1].clone())")
    return rng.choice(choices)


def compute(rng, a, shape):
    """A line that makes a new tensor."""
    return rng.choice([f"{a}*1.5", f"{a}.clone()", f"torch.zeros_like({a})+{a}.sum()", f"{a}+x.sum()",
                       f"torch.add({a},{a},out=torch.zeros({tuple(shape)}))"])


class Holder:
    pass


def random_body(rng):
    """Lines of Python over x, y and self.buf; each is tried on real tensors, so that shapes are right."""
    lines = []
    shapes = dict(INPUTS, **{"self.buf": tuple(BUFFER.shape)})
    for number in range(rng.randint(6, 25)):
        a = rng.choice(list(shapes))
        shape = shapes[a]
        kind = rng.choice([view] * 9 + [write] * 6 + [compute] * 3) if shape else rng.choice([write, compute])
        name = f"v{number}"
        scope = {"torch": torch, "self": Holder(), **{k: torch.zeros(s) for k, s in INPUTS.items()}}
        scope["self"].buf = BUFFER.clone()
        line = f"{name}={kind(rng, a, shape)}"
        try:
            exec("\n".join(lines + [line]), scope)
        except RuntimeError:
            continue
        lines.append(line)
        shapes[name] = tuple(scope[name].shape)
    names = [name for name in shapes if name != "self.buf"]
    results = rng.sample(names, min(len(names), 5)) + ["self.buf.clone()", "x.clone()"]
    return lines + ["return " + ", ".join(results)]


def random_model(rng):
    scope = {"torch": torch}
    exec("def forward(self, x, y):\n  " + "\n  ".join(random_body(rng)), scope)

    class Model(torch.nn.Module):
        forward = scope["forward"]

        def __init__(self):
            super().__init__()
            self.register_buffer("buf", BUFFER.clone())

    return Model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("folder")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    for i in range(options.count):
        seed = options.seed * 1_000_000 + i
        model = random_model(random.Random(seed))
        torch.manual_seed(seed)
        inputs = [torch.randn(shape) for shape in INPUTS.values()]
        exported = torch.export.export(model(), tuple(x.clone() for x in inputs))
        with torch.no_grad():
            outputs = model()(*(x.clone() for x in inputs))
        base = os.path.join(options.folder, f"mutation-{seed}")
        torch.export.save(exported, base + ".pt2")
        save_file({f"in{k}": x for k, x in enumerate(inputs)}, base + ".in.safetensors")
        save_file({f"out{k}": x.detach().clone().contiguous() for k, x in enumerate(outputs)}, base + ".out.safetensors")


if __name__ == "__main__":
    main()
