"""Every kind of model of transformers, small and with random weights, exported and compiled, beside eager PyTorch.

usage: PYTHONPATH=FOLDER small_transformers.py [--out RESULTS.jsonl] [--seconds 240] [KIND...]    FOLDER: develop.sh's

Each kind runs in a process of its own. Its configuration is the default one with small numbers in place of sizes; kinds that do not take
them, that are too large then, or whose inputs are not guessed are "not made", which says nothing of toroid. Prints a line for each kind
that is neither right nor not made, and the counts. Kinds that draw random numbers are "random".
"""

import argparse
import collections
import copy
import inspect
import json
import os
import subprocess
import sys
import warnings

SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "emb_dim", "embed_dim", "image_size"), 64),
    **dict.fromkeys(("projection_dim", "word_embed_proj_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "n_layer", "n_layers", "num_layers", "depth"), 2),
    **dict.fromkeys(("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "dim_ff"), 96),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 512),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts"), 8),
    **dict.fromkeys(("head_dim", "d_kv", "patch_size", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 16),
    "attention_head_dim": 16, "q_lora_rank": 24, "moe_intermediate_size": 48, "vocab_size": 500, "num_key_value_heads": 2,
    "num_experts_per_tok": 2, "num_hidden_groups": 1, "n_group": 2, "topk_group": 1, "pad_token_id": 0,
}  # fmt: skip
# What is left at its default, the first that gives a model.
KEPT = (
    (),
    ("num_layers", "depth", "num_heads"),
    ("patch_size", "image_size"),
    ("embed_dim", "head_dim", "attention_head_dim"),
    tuple(SMALL),
)
MOST_PARAMETERS = 150_000_000
TOLERANCE = 2e-3  # of an output's elements and their mean


def small_configuration(transformers, kind, kept):
    default = kind()
    values = {}
    for name, value in SMALL.items():
        found = getattr(default, name, None)
        if name not in kept and isinstance(found, int) and not isinstance(found, bool):
            values[name] = value
    for name in vars(default):
        part = getattr(default, name, None)
        if isinstance(part, transformers.PretrainedConfig):
            try:
                values[name] = small_configuration(transformers, type(part), kept).to_dict()
            except Exception:
                pass  # it keeps its own
    try:
        return kind(**values)
    except Exception:
        return default


def models(torch, transformers, kind):
    """Pairs of a model and its configuration, or a text of why there is none."""
    for kept in KEPT:
        try:
            configuration = small_configuration(transformers, kind, kept)
            for attention in ("sdpa", "eager"):
                configuration._attn_implementation = attention
                try:
                    with torch.device("meta"):
                        elements = sum(each.numel() for each in transformers.AutoModel.from_config(configuration).parameters())
                    break
                except ValueError:
                    if attention == "eager":
                        raise
            if elements > MOST_PARAMETERS:
                yield f"{elements} parameters"
                continue
            yield transformers.AutoModel.from_config(configuration).eval(), configuration
        except Exception as error:
            yield repr(error)[:200]


def guesses(torch, model, configuration):
    """Arguments that the model may take."""
    takes = inspect.signature(model.forward).parameters
    text = configuration.get_text_config()
    ids = torch.randint(1, max(2, min(getattr(text, "vocab_size", None) or 100, 400)), (2, 12))
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 9:] = 0
    decoded = {"decoder_input_ids": ids[:, :7]} if "decoder_input_ids" in takes else {}
    words = {"input_ids": ids, "attention_mask": mask, **decoded, "use_cache": False}
    words = {name: value for name, value in words.items() if name in takes}
    of_images = getattr(configuration, "vision_config", configuration)
    channels = getattr(of_images, "num_channels", None) or getattr(of_images, "in_channels", None) or 3
    side = getattr(of_images, "image_size", None) or 64
    if "pixel_values" in takes:
        for size in (side if isinstance(side, int) else 64, 224, 64, 128):
            yield {**(words if "input_ids" in takes else decoded), "pixel_values": torch.randn(2, channels, size, size)}
        yield {"pixel_values": torch.randn(1, 8, channels, 64, 64)}
    if "input_ids" in takes:
        yield words
    if "input_values" in takes:
        yield {"input_values": torch.randn(2, 4000)}
        yield {"input_values": torch.randn(2, 1, 4000)}
    if "input_features" in takes:
        bins = getattr(configuration, "num_mel_bins", None) or getattr(configuration, "feature_size", None) or 80
        yield {"input_features": torch.randn(2, bins, 2 * (getattr(configuration, "max_source_positions", None) or 100)), **decoded}
        yield {"input_features": torch.randn(2, 100, bins), **decoded}
    if "past_values" in takes:
        length, count = getattr(configuration, "context_length", 32), getattr(configuration, "num_input_channels", 1)
        yield {"past_values": torch.randn(2, length, count)}


def worst_difference(torch, got, wanted):
    worst = 0.0
    for mine, theirs in zip(got, wanted, strict=True):
        mine = torch.as_tensor(mine)
        kind, wanted_kind = (mine.dtype, tuple(mine.shape)), (theirs.dtype, tuple(theirs.shape))
        assert kind == wanted_kind, f"{kind}, not {wanted_kind}"
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())
        if same.all():
            continue
        if not theirs.is_floating_point():
            return float("inf")
        of_mean = theirs.abs().nan_to_num(0, 0, 0).mean() + 1e-5
        difference = torch.where(same, 0.0, (mine - theirs).abs() / (theirs.abs() + of_mean))
        worst = max(worst, difference.nan_to_num(float("inf")).max().item())
    return worst


def check(name):
    """A dict: what became of the kind, and why."""
    import torch
    import transformers
    from torch.utils._pytree import tree_leaves
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    import toroid

    class Tensors(torch.nn.Module):
        """What the model returns, without its classes."""

        def __init__(self, model, numbers):
            super().__init__()
            self.model, self.numbers = model, numbers

        def forward(self, **tensors):
            result = self.model(**tensors, **self.numbers)
            result = result.to_tuple() if hasattr(result, "to_tuple") else result
            return [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]

    torch.manual_seed(0)
    torch.set_num_threads(1)
    why = "no input is guessed"
    for made in models(torch, transformers, CONFIG_MAPPING[name]):
        if isinstance(made, str):
            why = made
            continue
        for given in guesses(torch, *made):
            tensors = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
            module = Tensors(made[0], {key: value for key, value in given.items() if key not in tensors}).eval()
            with torch.no_grad():
                try:
                    wanted = module(**copy.deepcopy(tensors))
                except Exception as error:
                    why = repr(error)[:200]
                    continue
                if worst_difference(torch, module(**copy.deepcopy(tensors)), wanted) > 0:
                    return {"result": "random"}
                try:
                    exported = torch.export.export(module, (), copy.deepcopy(tensors), strict=False)
                except Exception as error:
                    return {"result": "not exported", "why": repr(error)[:300]}
            try:
                got = tree_leaves(toroid.compile(exported, progress=False)(**tensors))
                worst = worst_difference(torch, got, wanted)
            except Exception as error:
                return {"result": "refused", "why": f"{type(error).__name__}: {error}"[:600]}
            return {"result": "right" if worst < TOLERANCE else "wrong", "worst": worst}
    return {"result": "not made", "why": why}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=240, help="for one kind")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        warnings.filterwarnings("ignore")
        print(json.dumps(check(options.kinds[0])), flush=True)
        os._exit(0)  # some libraries' threads never end
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    counts = collections.Counter()
    with open(options.out or os.devnull, "a") as out:
        for name in options.kinds or MODEL_MAPPING_NAMES:
            command = [sys.executable, __file__, "--one", name]
            try:
                said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=options.seconds)
                lines = said.stdout.splitlines()
                found = json.loads(lines[-1]) if said.returncode == 0 and lines else {"result": "died", "why": said.stderr[-300:]}
            except subprocess.TimeoutExpired:
                found = {"result": "too long"}
            counts[found["result"]] += 1
            out.write(json.dumps({"kind": name, **found}) + "\n")
            out.flush()
            if found["result"] not in ("right", "not made", "random"):
                print(name, found["result"], found.get("why", found.get("worst")), flush=True)
    print(dict(counts))
    return 1 if counts["wrong"] + counts["refused"] + counts["died"] else 0


if __name__ == "__main__":
    sys.exit(main())
