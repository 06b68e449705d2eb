"""The models of bench/torch_compile, with random weights: nothing is downloaded. make(name) gives (model, positional, named)."""

from __future__ import annotations

import functools

import torch

TORCHVISION = """alexnet vgg11 vgg16_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_0 squeezenet1_1
mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 googlenet inception_v3
efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf convnext_tiny vit_b_16 swin_t swin_v2_t
fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large""".split()

TIMM = """resnet10t resnet26d resnetv2_50 res2net50_26w_4s resnest14d seresnet18 skresnet18 ecaresnet50t gernet_s hrnet_w18_small
efficientnet_lite0 tf_efficientnet_b0 mixnet_s mobilenetv3_small_100 mobilenetv4_conv_small mnasnet_small fbnetc_100 spnasnet_100
ghostnet_100 hardcorenas_a tinynet_e lcnet_050 rexnet_100 regnetx_002 regnety_002 dla34 darknet17 cspresnet50 dpn48b selecsls42b vovnet39a
repvgg_a0 nfnet_l0 convnext_atto convnextv2_atto convmixer_768_32 deit_tiny_patch16_224 vit_tiny_patch16_224 
beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny crossvit_9_240 levit_128s mixer_s32_224 gmlp_ti16_224 pit_ti_224 poolformer_s12 
swin_tiny_patch4_window7_224 edgenext_xx_small mobilevit_xxs""".split()

_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_SEQUENCES = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
_PICTURES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 64,
    "patch_size": 16,
}

# Class of the model, its configuration's, what differs from that one's defaults, and what it takes: tokens, both, or pixels.
TRANSFORMERS = {
    "bert": ("BertModel", "BertConfig", _SMALL, "tokens"),
    "bert_mlm": ("BertForMaskedLM", "BertConfig", _SMALL, "tokens"),
    "roberta": ("RobertaModel", "RobertaConfig", _SMALL, "tokens"),
    "xlm_roberta": ("XLMRobertaModel", "XLMRobertaConfig", _SMALL, "tokens"),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 1000},
        "tokens",
    ),
    "albert": ("AlbertModel", "AlbertConfig", {**_SMALL, "embedding_size": 32}, "tokens"),
    "electra": ("ElectraModel", "ElectraConfig", {**_SMALL, "embedding_size": 32}, "tokens"),
    "mpnet": ("MPNetModel", "MPNetConfig", _SMALL, "tokens"),
    "camembert": ("CamembertModel", "CamembertConfig", _SMALL, "tokens"),
    "deberta_v2": ("DebertaV2Model", "DebertaV2Config", {**_SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "tokens"),
    "squeezebert": (
        "SqueezeBertModel",
        "SqueezeBertConfig",
        {
            **_SMALL,
            "embedding_size": 64,
            "q_groups": 2,
            "k_groups": 2,
            "v_groups": 2,
            "post_attention_groups": 1,
            "intermediate_groups": 2,
            "output_groups": 2,
        },
        "tokens",
    ),
    "mobilebert": ("MobileBertModel", "MobileBertConfig", {"num_hidden_layers": 2, "vocab_size": 1000}, "tokens"),
    "modernbert": (
        "ModernBertModel",
        "ModernBertConfig",
        {**_SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        "tokens",
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "n_positions": 128}, "tokens"),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {
            "hidden_size": 64,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 1000,
            "attention_types": [[["global", "local"], 1]],
            "max_position_embeddings": 128,
        },
        "tokens",
    ),
    "gptj": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "rotary_dim": 8, "n_positions": 128},
        "tokens",
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _SMALL, "tokens"),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 128,
            "vocab_size": 1000,
            "word_embed_proj_dim": 64,
            "max_position_embeddings": 128,
        },
        "tokens",
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000}, "tokens"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _GROUPED, "tokens"),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_GROUPED, "sliding_window": 16}, "tokens"),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**_GROUPED, "num_local_experts": 4}, "tokens"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _GROUPED, "tokens"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_GROUPED, "head_dim": 16}, "tokens"),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**_GROUPED, "head_dim": 16}, "tokens"),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_GROUPED, "head_dim": 16, "sliding_window": 16}, "tokens"),
    "phi": ("PhiForCausalLM", "PhiConfig", _SMALL, "tokens"),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**_GROUPED, "pad_token_id": 0}, "tokens"),
    "falcon": ("FalconForCausalLM", "FalconConfig", _SMALL, "tokens"),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", _GROUPED, "tokens"),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", _GROUPED, "tokens"),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", {**_GROUPED, "pad_token_id": 0}, "tokens"),
    "t5": ("T5Model", "T5Config", {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 1000}, "both"),
    "bart": ("BartModel", "BartConfig", _SEQUENCES, "tokens"),
    "pegasus": ("PegasusModel", "PegasusConfig", _SEQUENCES, "both"),
    "vit": ("ViTModel", "ViTConfig", _PICTURES, "pixels"),
    "deit": ("DeiTModel", "DeiTConfig", _PICTURES, "pixels"),
    "dinov2": ("Dinov2Model", "Dinov2Config", _PICTURES, "pixels"),
    "clip_vision": ("CLIPVisionModel", "CLIPVisionConfig", _PICTURES, "pixels"),
    "segformer": (
        "SegformerModel",
        "SegformerConfig",
        {"num_encoder_blocks": 4, "depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]},
        "pixels",
    ),
}


def _seeded(make):
    @functools.wraps(make)
    def made(*arguments):
        torch.manual_seed(0)
        return make(*arguments)

    return made


@_seeded
def torchvision_model(name: str):
    from torchvision import models

    more = {}
    if name in ("googlenet", "inception_v3"):
        more = {"aux_logits": False, "init_weights": False}
    elif name.startswith(("fcn", "deeplab", "lraspp")):
        more = {"weights_backbone": None}
    model = models.get_model(name, weights=None, **more)
    side = 299 if name == "inception_v3" else 224
    return model, (torch.randn(2, 3, side, side),), {}


@_seeded
def timm_model(name: str):
    import timm

    model = timm.create_model(name, pretrained=False)
    size = model.default_cfg.get("input_size", (3, 224, 224))
    return model, (torch.randn(2, *size),), {}


@_seeded
def transformers_model(name: str):
    import transformers

    kind, config, more, takes = TRANSFORMERS[name]
    model = getattr(transformers, kind)(getattr(transformers, config)(**more))
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    if takes == "pixels":
        side = more.get("image_size", 64)
        return model, (torch.randn(2, 3, side, side),), {}
    named = {"input_ids": torch.randint(3, 1000, (2, 32))}
    if takes == "both":
        named["decoder_input_ids"] = torch.randint(3, 1000, (2, 16))
    return model, (), named


@_seeded
def epoch_model(name: str):
    """A model with a batch as in an epoch of training: 16 small pictures or 32 of the usual size, or 8 sequences of 128 tokens."""
    if name.startswith("resnet18"):
        from torchvision import models

        batch = torch.randn(16, 3, 112, 112) if name == "resnet18" else torch.randn(32, 3, 224, 224)
        return models.resnet18(weights=None, num_classes=10), (batch,), {}
    import transformers

    more = {"n_embd": 256, "n_layer": 2, "n_head": 4, "vocab_size": 2000, "n_positions": 128, "use_cache": False}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**more))
    return model, (), {"input_ids": torch.randint(0, 2000, (8, 128))}


SETS = {
    "torchvision": (TORCHVISION, torchvision_model),
    "timm": (TIMM, timm_model),
    "transformers": (list(TRANSFORMERS), transformers_model),
    "epoch": (["resnet18", "resnet18_224", "gpt"], epoch_model),
}

# Trained on the CPU, to be timed beside eager.
EPOCHS = ["epoch/resnet18", "epoch/resnet18_224", "epoch/gpt"]

# Trained for three steps, and compared with eager.
TRAINING = [
    "torchvision/resnet18",
    "torchvision/mobilenet_v2",
    "torchvision/squeezenet1_1",
    "torchvision/shufflenet_v2_x0_5",
    "torchvision/regnet_y_400mf",
    "timm/resnet10t",
    "timm/vit_tiny_patch16_224",
    "timm/convnext_atto",
    "timm/mixer_s32_224",
    "transformers/bert_mlm",
    "transformers/gpt2",
    "transformers/llama",
    "transformers/t5",
    "transformers/bart",
    "transformers/qwen2",
]


def all_names() -> list[str]:
    """The 120 models whose inference is compared."""
    return [f"{group}/{name}" for group in ("torchvision", "timm", "transformers") for name in SETS[group][0]]


def make(name: str):
    group, _, its = name.partition("/")
    return SETS[group][1](its)


# A small list for times, beside Inductor.
TIMED = [
    "torchvision/resnet18",
    "torchvision/mobilenet_v2",
    "torchvision/squeezenet1_1",
    "torchvision/efficientnet_b0",
    "torchvision/vit_b_16",
    "torchvision/swin_t",
    "torchvision/convnext_tiny",
    "timm/resnet26d",
    "timm/deit_tiny_patch16_224",
    "timm/convnextv2_atto",
    "timm/mobilevit_xxs",
    "timm/ghostnet_100",
    "transformers/bert",
    "transformers/gpt2",
    "transformers/llama",
    "transformers/distilbert",
    "transformers/t5",
    "transformers/segformer",
]
