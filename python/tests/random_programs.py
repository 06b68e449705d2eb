"""Random functions of PyTorch by torch.compile(backend="toroid"), beside eager PyTorch: views and writes to them, memory formats, dtypes,
reductions, convolutions, in training and in inference, with fixed and with symbolic sizes.

    python python/tests/random_programs.py [--first SEED] [--count N] [--seconds S] [--backend NAME] [--show]

Compared are values, dtypes, with fixed sizes strides, which tensors share memory, what is written to the inputs, and gradients. A function
that differs is printed with its seed, if PyTorch's own backend "aot_eager" has eager's results. Sums in another order may turn a comparison
of almost equal numbers: such a difference is no fault. A child process calls the functions; when it dies, another one goes on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import warnings

import torch
import torch.nn.functional as F  # noqa: F401: of the functions

import toroid.torch  # noqa: F401: registers the backend

UNARY = """sin cos tanh sigmoid exp().tanh relu abs neg square sqrt().nan_to_num erf floor sign reciprocal().clamp(-3,3) softmax(-1)
log_softmax(0) cumsum(0) cumsum(-1) flip(0) roll(1,0) tril triu clone contiguous detach double float bfloat16().float half().float
to(torch.int32).float gt(0).float nan_to_num clamp(-0.5,0.8) sort(-1).values flatten squeeze t mT sum mean amax(0) amin(-1) sum(0)
mean(-1,keepdim=True) std(0) var(-1,keepdim=True) norm logsumexp(0) prod(-1) cummax(0).values argmax(-1).float topk(1,-1).values
logical_not().float median isnan().float max(0).values round frac log1p().nan_to_num expm1 atan asinh""".split()
VIEWS = """{a}.transpose(0,-1) {a}.unsqueeze(0) {a}.unsqueeze(-1) {a}[1:] {a}[...,::2] {a}[...,:-1] {a}[0] {a}.reshape(-1) {a}.view(-1)
{a}.expand(2,*{a}.shape) {a}.chunk(2,-1)[0] {a}.chunk(2,0)[-1] {a}.diagonal(0,-2,-1) {a}.unfold(-1,2,1) {a}.narrow(0,0,1)
{a}.movedim(0,-1) {a}.permute(0,2,3,1) {a}.permute(0,3,1,2) {a}.swapaxes(-1,-2) {a}.select(-1,0) {a}.unbind(0)[0] {a}.split(1,0)[-1]
{a}.view_as({a}) {a}.contiguous(memory_format=torch.channels_last) {a}.to(memory_format=torch.channels_last)
{a}.reshape({a}.shape[0],-1)""".split()
BINARY = """{a}+{b} {a}*{b} {a}-{b} {a}/({b}.abs()+1) torch.maximum({a},{b}) torch.where({a}>{b},{a},{b}) {a}@{b} torch.cat([{a},{b}],0)
torch.cat([{a},{b}],-1) torch.stack([{a},{b}],1) torch.atan2({a},{b}+3) torch.outer({a},{b}) torch.bmm({a},{b}) F.linear({a},{b})
torch.addcmul({a},{b},{b}) torch.lerp({a},{b},0.3) F.mse_loss({a},{b}) torch.minimum({a},{b}) {a}.masked_fill({b}>0,0.5) ({a}<{b}).float()
torch.einsum('ij,kj->ik',{a},{b}) F.conv2d({a},{b}[:,:1].expand(-1,{a}.shape[1],-1,-1),padding=1) torch.cross({a},{b})
torch.hypot({a},{b}+3) {a}.gather(0,({b}.abs()*9).long()%{a}.shape[0]) {a}[({b}.flatten()[:3].abs()*9).long()%{a}.shape[0]]
{a}.index_add(0,({b}.flatten()[:{a}.shape[0]].abs()*9).long()%{a}.shape[0],{a}) F.scaled_dot_product_attention({a},{b},{b})""".split()
NETWORK = """F.max_pool2d({a},2) F.avg_pool2d({a},2,1,1) F.adaptive_avg_pool2d({a},2) F.layer_norm({a},{a}.shape[-1:]) F.gelu({a})
F.silu({a}) F.batch_norm({a},None,None,training=True) F.interpolate({a},scale_factor=2) F.interpolate({a},scale_factor=2,mode='bilinear')
F.pad({a},(1,1)) F.pad({a},(1,1),mode='reflect') F.group_norm({a},1) F.conv2d({a},torch.ones(4,{a}.shape[1],3,3)*.1,padding=1)
F.softplus({a}) F.normalize({a}) F.conv_transpose2d({a},torch.ones({a}.shape[1],3,2,2)*.1) F.instance_norm({a}) F.dropout({a},0.0)
F.pixel_shuffle({a},2) F.glu({a})""".split()
WRITES = """{a}.mul_(0.5) {a}.add_(1) {a}[0].mul_(2) {a}[...,0]=0.25 {a}.relu_() {a}.view(-1)[::2].add_(0.5) {a}.t().mul_(0.7)
{a}[1:].copy_({b}) {a}.zero_() {a}.masked_fill_({a}>0.5,0.1) {a}.diagonal(0,-2,-1).fill_(0.3) {a}.transpose(0,-1)[0].sin_() {a}.copy_({b})
{a}.add_({b}) {a}.clamp_(-1,1) {a}.index_fill_(0,torch.tensor([0]),0.2) {a}.unsqueeze_(0) {a}.sub_({b}) {a}.squeeze_()
{a}[{a}>0.3]=0.3""".split()
SHAPES = [(4,), (1,), (3, 4), (4, 3), (1, 4), (2, 3, 4), (2, 4, 6, 6), (2, 3, 5, 4), (), (2, 0), (3, 3), (2, 3, 3)]


def inputs_of(seed: int, train: bool) -> list[torch.Tensor]:
    """Leaves, some of them not in row-major order, some equal or overlapping views where nothing is trained."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    made = []
    for _ in range(dice.randint(2, 4)):
        x = torch.randn(dice.choice(SHAPES))
        how = dice.random()
        if how < 0.15 and x.dim() > 1:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        elif how < 0.25 and x.dim() > 0:
            x = torch.randn(*x.shape[:-1], 2 * x.shape[-1] + 1)[..., 1::2]
        elif how < 0.32:
            x = x[None].expand(2, *x.shape)
        elif how < 0.4 and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        elif how < 0.5 and made and not train:
            x = made[-1].view(-1) if made[-1].is_contiguous() else made[-1]
        x = x.detach() if train else x
        made.append(x.requires_grad_(train and dice.random() < 0.8))
    return made


def _is_usable(value) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() > 4000 or value.dim() > 5:
        return False
    return value.dtype in (torch.float32, torch.float64) and bool(torch.isfinite(value).all()) and bool((value.abs() < 1e3).all())


def text_of(seed: int, train: bool, attempt: int = 0) -> str:
    """The function f, made by trying lines in eager PyTorch."""
    dice = random.Random(f"{seed} {attempt}")
    given = inputs_of(seed, train)
    names = [f"x{i}" for i in range(len(given))]
    scope = {"torch": torch, "F": F, **dict(zip(names, given))}
    lines: list[str] = []
    for _ in range(dice.randint(5, 14)):
        for _ in range(30):  # until one works
            a, b = dice.choice(names[-5:]), dice.choice(names)
            kind = dice.random()
            if kind < 0.25:
                call = dice.choice(UNARY)
                text = f"{a}.{call}" + ("" if call.endswith(("values", ")")) else "()")
            else:
                text = dice.choice(VIEWS if kind < 0.5 else BINARY if kind < 0.75 else NETWORK if kind < 0.85 else WRITES).format(a=a, b=b)
            is_write = kind >= 0.85
            if is_write and train and a.startswith("x"):
                continue
            if is_write and scope[a].dim() > 0 and 0 in scope[a].stride():
                continue
            line = text if is_write else f"v{len(lines)} = {text}"
            try:
                exec(line, scope)  # noqa: S102: of the texts above
            except (RuntimeError, IndexError, ValueError, TypeError, AttributeError, NotImplementedError):
                if is_write:  # it may have failed in the midst of its work
                    return text_of(seed, train, attempt + 1)
                continue
            if not is_write and not _is_usable(scope[f"v{len(lines)}"]):
                continue
            lines.append(line)
            if not is_write:
                names.append(f"v{len(lines) - 1}")
            break
    made = [name for name in names if name.startswith("v")] or names
    results = dice.sample(made, min(len(made), dice.randint(1, 3)))
    if made[-1] not in results:
        results.append(made[-1])
    arguments = ", ".join(name for name in names if name.startswith("x"))
    return f"def f({arguments}):\n    " + "\n    ".join(lines) + f"\n    return {', '.join(results)},\n"


def _sharing(tensors: list[torch.Tensor]) -> list[int]:
    """For each the first one on the same memory; of tensors without elements nothing."""
    places = [each.untyped_storage().data_ptr() if each.numel() else -1 - i for i, each in enumerate(tensors)]
    return [places.index(place) for place in places]


def _strides(tensor: torch.Tensor) -> tuple:
    """Those that say where an element is."""
    return tuple(stride if size > 1 and tensor.numel() else 0 for size, stride in zip(tensor.shape, tensor.stride()))


def run(call, seed: int, train: bool, dynamic: bool) -> list:
    """What a call gives: (name, value) pairs. With symbolic sizes PyTorch's fake tensors have other strides than its real ones at times."""
    given = inputs_of(seed, train)
    results = call(*given)
    found: list = []
    for i, each in enumerate(results):
        found.append((f"result {i}", each.detach().clone()))
        found.append((f"type of result {i}", (each.dtype, each.shape, () if dynamic else _strides(each), each.requires_grad)))
    found.append(("memory", _sharing([*results, *given])))
    if train:
        trained = [each for each in results if each.requires_grad]
        loss = sum((each.double() * torch.linspace(0.5, 1.5, each.numel()).view(each.shape)).sum() for each in trained)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        found += [(f"gradient of x{i}", x.grad) for i, x in enumerate(given)]
    return found + [(f"x{i} afterwards", x.detach().clone()) for i, x in enumerate(given)]


def difference(actual: list, expected: list) -> str:
    for (name, a), (_, e) in zip(actual, expected):
        if isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor):
            if a.shape != e.shape or a.dtype != e.dtype:
                return f"{name}: {a.dtype} {tuple(a.shape)}, eager {e.dtype} {tuple(e.shape)}"
            scale = max(float(e.detach().nan_to_num().abs().max()) if e.numel() else 0.0, 1.0)
            if not torch.allclose(a, e, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
                return f"{name} differs by {float((a - e).abs().max()):.3g}"
        elif a is not e and a != e:
            return f"{name}: {a}, eager {e}"
    return ""


def how(seed: int) -> tuple[bool, bool]:
    """Whether it is trained, and whether its sizes are symbols."""
    dice = random.Random(seed + 2)
    return dice.random() < 0.6, dice.random() < 0.35


def try_one(seed: int, backend: str, shows: bool) -> str:
    """'' or what differs; 'skipped'."""
    train, dynamic = how(seed)
    text = text_of(seed, train)
    if shows:
        print(f"seed {seed}, train {train}, dynamic {dynamic}\n{text}", flush=True)
    scope = {"torch": torch, "F": F}
    exec(text, scope)  # noqa: S102
    try:
        expected = run(scope["f"], seed, train, dynamic)
    except RuntimeError:
        return "skipped"  # as a gradient of what was written to
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actual = run(torch.compile(scope["f"], backend=backend, dynamic=dynamic), seed, train, dynamic)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:1500]}"
    return difference(actual, expected)


def _work(seeds: range, backend: str, shows: bool, pipe) -> None:
    """Sends (seed, what, text): "begun" by the backend, then what differs; then what differs by aot_eager, if something did."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed in seeds:
        pipe.send((seed, "begun", text_of(seed, how(seed)[0])))
        found = try_one(seed, backend, shows)
        pipe.send((seed, found, ""))
        if found not in ("", "skipped"):
            pipe.send((seed, try_one(seed, "aot_eager", False), ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--backend", default="toroid")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    end = time.monotonic() + arguments.seconds
    counts = dict.fromkeys(("tried", "refused by eager PyTorch", "different by aot_eager, too", "different"), 0)
    seed, last = arguments.first - 1, arguments.first + arguments.count - 1
    while seed < last and time.monotonic() < end:
        pipe, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=_work, args=(range(seed + 1, last + 1), arguments.backend, arguments.show, theirs))
        child.start()
        theirs.close()

        def said():
            """What the child says next; of one that has died or hangs, that."""
            try:
                return pipe.recv() if pipe.poll(120) else (seed, "no result after 120 s", None)
            except EOFError:
                child.join()
                return seed, f"the process ended with {child.exitcode}", None

        alive = True
        while alive and seed < last and time.monotonic() < end:
            seed, what, text = said()
            if what != "begun":
                break  # it ended between two functions
            counts["tried"] += 1
            _, found, rest = said()
            alive = rest is not None
            if found == "skipped":
                counts["refused by eager PyTorch"] += 1
            elif found:
                by_aot_eager = try_in_child(seed) if not alive else said()[1]
                counts["different by aot_eager, too" if by_aot_eager else "different"] += 1
                if not by_aot_eager:
                    train, dynamic = how(seed)
                    print(f"seed {seed}, train {train}, dynamic {dynamic}: {found}\n{text}", flush=True)
        child.kill()
        child.join()
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    sys.exit(counts["different"] > 0)


def try_in_child(seed: int) -> str:
    """What differs by aot_eager, of a function whose process has died."""
    child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(try_one(seed, "aot_eager", False) != ""))
    child.start()
    child.join(120)
    return "" if child.exitcode == 0 else "it differs"


if __name__ == "__main__":
    main()
