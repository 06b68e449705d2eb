"""The models of the comparison, with random weights: nothing is downloaded.

A model is named by a specification: `torchvision:NAME`, `timm:NAME`, or `hf:bert-base` and `hf:gpt2`; `@bf16` after it
makes its weights and floating inputs bfloat16, `@int8` keeps the weights of its linear layers in int8, a scale a row, and
`@int8-bf16` does both. `@static` quantises convolutions and linear layers whole: inputs to uint8 with a scale that a run has shown,
weights to int8 with a scale an output channel; `@dynamic` linear layers with a scale of their inputs in each call;
`@int4` keeps the weights of linear layers in four bits, in groups.
"""

import torch

from . import quantised

NUMBERS = ["bf16", "int8", "int8-bf16", "static", "dynamic", "int4"]
MODELS = [
    "torchvision:resnet18",
    "torchvision:resnet50",
    "torchvision:mobilenet_v2",
    "torchvision:efficientnet_b0",
    "torchvision:convnext_tiny",
    "torchvision:vit_b_16",
    "hf:bert-base",
    "hf:gpt2",
]
TOKENS = 128
SMALLEST_VOCABULARY = 30000  # of BERT-base and GPT-2


class LastHiddenState(torch.nn.Module):
    """A transformer of ids alone that returns its last hidden state, not a dictionary."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids).last_hidden_state


def is_model(name):
    return name.split(":")[0] in ("torchvision", "timm", "hf")


def file_stem(spec, batch):
    """What an export's files are called: torchvision_resnet18, torchvision_resnet18.b8, hf_bert-base.bf16."""
    return spec.replace(":", "_").replace("@", ".") + (f".b{batch}" if batch != 1 else "")


def build_model(spec, batch):
    """(module in eval mode, inputs), the same at each call."""
    torch.manual_seed(0)
    model, _, numbers = spec.partition("@")
    library, name = model.split(":")
    if library == "torchvision":
        import torchvision

        module = getattr(torchvision.models, name)()
        fill_zero_layers(module)
    elif library == "timm":
        import timm

        module = timm.create_model(name, pretrained=False)
    elif library == "hf":
        module = build_transformer(name)
    else:
        raise ValueError(f"'{spec}' names no known library; write torchvision:NAME, timm:NAME, hf:bert-base or hf:gpt2")
    if library == "hf":
        args = (torch.randint(0, SMALLEST_VOCABULARY, (batch, TOKENS)),)
    else:
        args = (torch.randn(batch, 3, 224, 224),)
    module = module.eval()
    if numbers not in ("", *NUMBERS):
        raise ValueError(f"'@{numbers}' is not known; {', '.join('@' + known for known in NUMBERS)} are")
    if numbers in ("static", "dynamic", "int4"):
        module = quantised.quantise(module, args, numbers)
    if "int8" in numbers:
        replace_linear_layers(module)
    if "bf16" in numbers:
        module = module.to(torch.bfloat16)
        args = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in args)
    return module, args


def fill_zero_layers(module):
    """torchvision's ViT begins with a last layer of zeros: its results would be zeros, whatever a side computed before."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear) and not layer.weight.any():
            torch.nn.init.trunc_normal_(layer.weight, std=0.02)


class Int8Linear(torch.nn.Module):
    """A linear layer with weights of int8 and a scale for each of its outputs, as weight-only quantisation leaves them."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        scales = weight.abs().amax(dim=1) / 127
        self.register_buffer("weight", torch.round(weight / scales[:, None]).to(torch.int8))
        self.register_buffer("scales", scales)
        self.bias = linear.bias

    def forward(self, x):
        y = torch.nn.functional.linear(x, self.weight.to(x.dtype)) * self.scales
        return y if self.bias is None else y + self.bias


def replace_linear_layers(module):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            replace_linear_layers(child)


def build_transformer(name):
    import transformers

    if name == "bert-base":
        model = transformers.BertModel(transformers.BertConfig())
    elif name == "gpt2":
        model = transformers.GPT2Model(transformers.GPT2Config())
    else:
        raise ValueError(f"'hf:{name}' is not known; hf:bert-base and hf:gpt2 are")
    model.config.use_cache = False  # else it returns keys and values too
    return LastHiddenState(model)
