"""Models of torchvision, timm and transformers through torch.compile(backend="toroid"): results and gradients beside eager PyTorch.

usage: PYTHONPATH=FOLDER sweep_models.py [--device cpu|cuda] [--seconds 300] [--jobs 4] [--each 100] [--seed 1] [--out RESULTS.jsonl]
                                         [--libraries] [--dynamic] [NAME...]
       FOLDER: develop.sh's; a NAME is as timm/vit_tiny_patch16_224. --libraries: the models of library_models.py instead, of libraries
       that are installed. --dynamic: sizes are symbols, and models are called with a larger batch after that, too.

Models have random weights; those of transformers are small (small_transformers.py). They are tried in a random order until the time is
over, each in a process of its own, which is ended after --each seconds ("too long"). Prints a line for each that is wrong, raises an error
or warns that it falls back, and the counts. "not made": this script does not know its inputs.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib.util
import itertools
import json
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import library_models
import small_transformers
import torch
from processes import each_in_a_process
from torch.utils._pytree import tree_leaves

import toroid.torch  # noqa: F401

TOLERANCE = 4e-3  # of an output's elements and their mean, or 20 times what two runs of eager PyTorch differ by
BAD = ("wrong", "raised", "died", "gradients wrong", "gradients raised", "dynamic wrong", "dynamic raised")
OF_GRADIENTS = 2e-2  # of the norm of all, or 10 times that
TOO_LARGE = ("vit_h", "vit_l", "regnet_y_128", "101_64", "efficientnet_b7", "convnext_large", "swin_b", "swin3d_b", "vgg19", "raft_large")
SMALL_SIGNS = ("tiny", "atto", "nano", "pico", "femto", "small", "_s", "b0", "18", "050", "xxs", "xs")


def names(of_libraries: bool) -> Iterator[str]:
    if of_libraries:
        yield from (name for name in library_models.MODELS if importlib.util.find_spec(name.split("/")[0]))
        return
    import timm
    import torchvision
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in torchvision.models.list_models():
        if not any(sign in name for sign in TOO_LARGE):
            yield f"torchvision/{name}"
    for module in timm.list_modules():
        found = sorted(timm.list_models(module=module), key=lambda name: (not any(sign in name for sign in SMALL_SIGNS), name))
        yield from (f"timm/{name}" for name in found[:2])
    yield from (f"transformers/{kind}" for kind in MODEL_MAPPING_NAMES)


def of_torchvision(name: str) -> tuple[torch.nn.Module, tuple]:
    import torchvision

    model = torchvision.models.get_model(name, weights=None)
    if "raft" in name:
        return model, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128))
    if any(part in name for part in ("r3d", "mc3", "r2plus1d")):
        return model, (torch.randn(1, 3, 16, 112, 112),)
    if any(part in name for part in ("s3d", "mvit", "swin3d")):
        return model, (torch.randn(1, 3, 16, 224, 224),)
    if any(part in name for part in ("rcnn", "retinanet", "ssd", "fcos")):
        return model, ([torch.rand(3, 224, 224)],)
    side = 299 if "inception" in name else 224
    return model, (torch.randn(2, 3, side, side),)


def of_transformers(kind: str) -> tuple[torch.nn.Module, dict] | None:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for made in small_transformers.models(torch, transformers, CONFIG_MAPPING[kind]):
        if isinstance(made, str):
            continue
        for given in small_transformers.guesses(torch, *made):
            try:
                with torch.no_grad():
                    made[0](**copy.deepcopy(given))
            except Exception:
                continue
            return made[0], given
    return None


def make(name: str) -> tuple[torch.nn.Module, tuple, dict] | None:
    if name in library_models.MODELS:
        return *library_models.MODELS[name](), {}
    library, name = name.split("/", 1)
    if library == "torchvision":
        return *of_torchvision(name), {}
    if library == "timm":
        import timm

        model = timm.create_model(name, pretrained=False)
        return model, (torch.randn(2, *model.default_cfg.get("input_size", (3, 224, 224))),), {}
    made = of_transformers(name)
    return None if made is None else (made[0], (), made[1])


def tensors(value: object) -> list[torch.Tensor]:
    found = []
    for each in tree_leaves(value.to_tuple() if hasattr(value, "to_tuple") else value):
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif hasattr(each, "to_tuple"):
            found += tensors(each)
    return found


def larger_batch(value: object) -> object:
    """Tensors with one sequence or picture more, where they have at least two."""
    sizes = {each.shape[0] for each in tensors(value) if each.ndim}
    if len(sizes) != 1 or sizes < {2}:
        return None
    return torch.utils._pytree.tree_map(lambda each: torch.cat([each, each[:1]]) if isinstance(each, torch.Tensor) else each, value)


def moved(value: object, device: str) -> object:
    return torch.utils._pytree.tree_map(lambda each: each.to(device) if isinstance(each, torch.Tensor) else each, value)


def difference(got: list, wanted: list, again: list) -> str | None:
    """Why `got` is not `wanted`, of which `again` is a second run."""
    if len(got) != len(wanted):
        return f"{len(got)} tensors for {len(wanted)}"
    for i, (mine, theirs, repeated) in enumerate(zip(got, wanted, again)):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return f"{i}: {mine.dtype}{list(mine.shape)} for {theirs.dtype}{list(theirs.shape)}"
        if not theirs.is_floating_point() and not theirs.is_complex():
            if not torch.equal(mine, theirs) and torch.equal(repeated, theirs):
                return f"{i}: {(mine != theirs).sum().item()} of {theirs.numel()} differ"
            continue
        if (mine.isnan() != theirs.isnan()).any():
            return f"{i}: {mine.isnan().sum().item()} NaN for {theirs.isnan().sum().item()} of {theirs.numel()}"
        finite = theirs.isfinite() & repeated.isfinite()
        if not finite.any():
            continue
        scale = theirs[finite].abs().mean() + theirs[finite].abs() + 1e-5
        worst, noise = (((each[finite] - theirs[finite]).abs() / scale).max().item() for each in (mine, repeated))
        if not worst <= max(TOLERANCE, 20 * noise):
            return f"{i} of {len(wanted)}: {worst:.3g} where eager differs by {noise:.2g}, sizes {list(theirs.shape)}"
    return None


def gradients(model: torch.nn.Module, call: Callable[[], object]) -> list[torch.Tensor]:
    """Of the parameters, for the sum of all outputs' mean squared distances from 1: mean squares of what is normalised never change."""
    model.zero_grad(set_to_none=True)
    losses = [((each.float() - 1) ** 2).mean() for each in tensors(call()) if each.requires_grad and each.is_floating_point()]
    if not losses:
        return []
    sum(losses).backward()
    return [each.grad.clone() for each in model.parameters() if each.grad is not None]


def difference_of_gradients(got: list, wanted: list, again: list) -> str | None:
    if len(got) != len(wanted):
        return f"{len(got)} gradients for {len(wanted)}"
    mine, theirs, repeated = (torch.cat([each.flatten().float()[:100000] for each in all_]) for all_ in (got, wanted, again))
    worst, noise = (((each - theirs).norm() / (theirs.norm() + 1e-12)).item() for each in (mine, repeated))
    return None if worst <= max(OF_GRADIENTS, 10 * noise) else f"{worst:.3g} where eager differs by {noise:.2g}"


def check_dynamic(model: torch.nn.Module, args: tuple, named: dict) -> str | None:
    """What is wrong with a program for any sizes, called with two."""
    compiled = torch.compile(model, backend="toroid", dynamic=True)
    for given in ((args, named), larger_batch((args, named))):
        if given is None:
            continue
        with torch.no_grad():

            def call(function: Callable) -> list:
                torch.manual_seed(1)
                their_args, their_named = copy.deepcopy(given)
                return tensors(function(*their_args, **their_named))

            try:
                wanted, again = call(model), call(model)
            except Exception:
                continue  # the batch is fixed
            said = difference(call(compiled), wanted, again)
        if said is not None:
            return said
    return None


def check(name: str, device: str, dynamic: bool) -> dict:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        made = make(name)
        if made is None:
            return {"result": "not made"}
        model, args, named = made[0].to(device).eval(), moved(made[1], device), moved(made[2], device)

        def call(function: Callable) -> object:
            torch.manual_seed(1)
            return function(*copy.deepcopy(args), **copy.deepcopy(named))

        with torch.no_grad():
            wanted, again = tensors(call(model)), tensors(call(model))
    except Exception as error:
        return {"result": "not made", "why": repr(error)[:200]}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = {}
        try:
            with torch.no_grad():
                said = difference(tensors(call(torch.compile(model, backend="toroid"))), wanted, again)
            found |= {"result": "right"} if said is None else {"result": "wrong", "why": said}
        except Exception as error:
            found |= {"result": "raised", "why": f"{type(error).__name__}: {error}"[:700]}
        if dynamic and found["result"] == "right":
            torch._dynamo.reset()
            try:
                said = check_dynamic(model, args, named)
                found |= {"dynamic": "right"} if said is None else {"dynamic": "wrong", "why": said}
            except Exception as error:
                found |= {"dynamic": "raised", "why": f"{type(error).__name__}: {error}"[:700]}
        try:
            wanted, again = (gradients(model, lambda: call(model)) for _ in range(2))
        except Exception:
            wanted = []  # eager has none
        if wanted and found["result"] == "right":
            try:
                torch._dynamo.reset()
                compiled = torch.compile(model, backend="toroid")
                said = difference_of_gradients(gradients(model, lambda: call(compiled)), wanted, again)
                found |= {"gradients": "right"} if said is None else {"gradients": "wrong", "why": said}
            except Exception as error:
                found |= {"gradients": "raised", "why": f"{type(error).__name__}: {error}"[:700]}
        falls_back = {str(each.message).replace("\n", " | ")[:300] for each in warned if "toroid" in str(each.message)}
        if falls_back:
            found["fallback"] = sorted(falls_back)[:3]
    return found


def quietly(name: str, options: argparse.Namespace) -> dict:
    """Of a process of its own, which the alarm ends after --each seconds."""
    signal.alarm(options.each)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    return check(name, options.device, options.dynamic)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    chosen = options.names or list(names(options.libraries))
    random.Random(options.seed).shuffle(chosen)
    end = time.monotonic() + options.seconds
    in_time = itertools.takewhile(lambda _: time.monotonic() <= end, chosen)
    counts: collections.Counter = collections.Counter()
    for name, found, ended_by in each_in_a_process(in_time, options.jobs, lambda name: quietly(name, options)):
        if found is None:
            found = {"result": "too long"} if ended_by == signal.SIGALRM else {"result": "died", "why": str(ended_by)}
        counts[found["result"]] += 1
        counts.update(f"{what} {found[what]}" for what in ("gradients", "dynamic") if what in found)
        counts.update({"falls back": 1} if "fallback" in found else {})
        if options.out:
            with open(options.out, "a") as file:
                file.write(json.dumps({"name": name, **found}) + "\n")
        if "why" in found and found["result"] != "not made" or "fallback" in found:
            print(name, json.dumps(found)[:600], flush=True)
    print(dict(counts))
    return 1 if any(counts[each] for each in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
