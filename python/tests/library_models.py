"""Small models with random weights of libraries beside those that sweep_models.py walks through: MODELS names functions that give a model
and its positional arguments. A library is imported when one of its models is made."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch
from torch import randint, randn

Made = tuple[torch.nn.Module, tuple]


def _of(module: str, kind: str, *args: object, given: Callable[[], tuple], **named: object) -> Callable[[], Made]:
    return lambda: (getattr(import_module(module), kind)(*args, **named), given())


def _picture(channels: int = 1, side: int = 32, dimensions: int = 2, batch: int = 2) -> Callable[[], tuple]:
    return lambda: (randn(batch, channels, *[side] * dimensions),)


class _Graph(torch.nn.Module):
    """Layers on the nodes of a graph, whose edges are given."""

    def __init__(self, layers: list[torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x, edges))
        return x


def _graph(kind: str, *sizes: int, **named: object) -> Callable[[], Made]:
    def make() -> Made:
        nn = import_module("torch_geometric.nn")
        convolution = getattr(nn, kind)
        if kind in ("GINConv", "EdgeConv"):
            wide = 1 if kind == "GINConv" else 2
            layers = [
                convolution(torch.nn.Sequential(torch.nn.Linear(wide * a, b), torch.nn.ReLU()), **named) for a, b in ((16, 24), (24, 8))
            ]
        else:
            layers = [convolution(a, b, *sizes, **named) for a, b in ((16, 24), (24, 8))]
        return _Graph(layers), (randn(30, 16), randint(0, 30, (2, 90)))

    return make


class _Calling(torch.nn.Module):
    """A model that is called otherwise than by its forward()."""

    def __init__(self, model: torch.nn.Module, call: Callable) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *args: object) -> object:
        return self.call(self.model, *args)


def _taking(make: Callable[[], Made], take: Callable) -> Callable[[], Made]:
    """One part of a model's output."""

    def made() -> Made:
        model, args = make()
        return _Calling(model, lambda its, *given: take(its(*given))), args

    return made


_unet = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
_MONAI = "monai.networks.nets"
_AUDIO = "torchaudio.models"
_DIFFUSERS = "diffusers"


def _sentence() -> Made:
    import transformers
    from sentence_transformers.base.modules.normalize import Normalize
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling

    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=200)

    class Sentence(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = transformers.BertModel(config)
            self.pooling = Pooling(32, "mean")
            self.normalize = Normalize()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            features = {"token_embeddings": self.bert(ids, attention_mask=mask).last_hidden_state, "attention_mask": mask}
            return self.normalize(self.pooling(features))["sentence_embedding"]

    return Sentence(), (randint(0, 200, (2, 12)), (torch.arange(12) < torch.tensor([[12], [7]])).long())


def _encodec(method: str) -> Callable[[], Made]:
    def make() -> Made:
        seanet = import_module("encodec.modules")
        more = {"channels": 1, "dimension": 16, "n_filters": 4, "ratios": [4, 2], "lstm": 1}
        if method == "encode":
            return seanet.SEANetEncoder(**more), (randn(2, 1, 320),)
        return seanet.SEANetDecoder(**more), (randn(2, 16, 40),)

    return make


def _quantizer() -> Made:
    quantizer = import_module("encodec.quantization").ResidualVectorQuantizer(dimension=16, n_q=3, bins=32)
    for layer in quantizer.vq.layers:
        layer._codebook.inited.fill_(1)
        layer._codebook.embed.normal_()
    return _Calling(quantizer.vq, lambda vq, x: vq.encode(x)), (randn(2, 16, 20),)


MODELS: dict[str, Callable[[], Made]] = {
    # Medical pictures and volumes.
    "monai/UNet": _of(
        _MONAI,
        "UNet",
        spatial_dims=3,
        in_channels=1,
        out_channels=2,
        channels=(8, 16, 32),
        strides=(2, 2),
        num_res_units=1,
        given=_picture(1, 16, 3),
    ),
    "monai/BasicUNet": _of(_MONAI, "BasicUNet", spatial_dims=2, features=(8, 8, 16, 16, 32, 8), given=_picture()),
    "monai/BasicUNetPlusPlus": _of(_MONAI, "BasicUNetPlusPlus", spatial_dims=2, features=(8, 8, 16, 16, 32, 8), given=_picture()),
    "monai/SegResNet": _of(_MONAI, "SegResNet", spatial_dims=3, init_filters=8, given=_picture(1, 16, 3, 1)),
    "monai/SegResNetVAE": _of(
        _MONAI, "SegResNetVAE", input_image_size=(32, 32), spatial_dims=2, init_filters=8, vae_estimate_std=False, given=_picture()
    ),
    "monai/VNet": _of(_MONAI, "VNet", given=_picture(1, 32, 3, 1)),
    "monai/DynUNet": _of(_MONAI, "DynUNet", 2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[8, 16, 32], given=_picture()),
    "monai/AttentionUnet": _of(_MONAI, "AttentionUnet", 2, 1, 2, (8, 16, 32), (2, 2), given=_picture()),
    "monai/UNETR": _of(
        _MONAI, "UNETR", 1, 2, (32, 32), feature_size=8, hidden_size=48, mlp_dim=64, num_heads=4, spatial_dims=2, given=_picture()
    ),
    "monai/SwinUNETR": _of(_MONAI, "SwinUNETR", in_channels=1, out_channels=2, feature_size=12, spatial_dims=2, given=_picture(1, 64)),
    "monai/FlexibleUNet": _of(_MONAI, "FlexibleUNet", 1, 2, "efficientnet-b0", given=_picture(1, 64)),
    "monai/HighResNet": _of(_MONAI, "HighResNet", spatial_dims=2, given=_picture()),
    "monai/DenseNet": _of(_MONAI, "DenseNet", 3, 1, 4, init_features=8, growth_rate=4, block_config=(2, 2), given=_picture(1, 16, 3)),
    "monai/SEResNet50": _of(_MONAI, "SEResNet50", spatial_dims=2, in_channels=1, num_classes=4, layers=(1, 1, 1, 1), given=_picture()),
    "monai/EfficientNetBN": _of(
        _MONAI, "EfficientNetBN", "efficientnet-b0", pretrained=False, spatial_dims=2, in_channels=1, num_classes=4, given=_picture(1, 64)
    ),
    "monai/ViT": _of(
        _MONAI,
        "ViT",
        1,
        (16, 16, 16),
        8,
        hidden_size=48,
        mlp_dim=64,
        num_layers=2,
        num_heads=4,
        classification=True,
        given=_picture(1, 16, 3),
    ),
    "monai/ViTAutoEnc": _of(
        _MONAI, "ViTAutoEnc", 1, (32, 32), 16, hidden_size=48, mlp_dim=64, num_layers=2, num_heads=4, spatial_dims=2, given=_picture()
    ),
    "monai/AHNet": _of(_MONAI, "AHNet", layers=(1, 1, 1, 1), spatial_dims=2, psp_block_num=2, given=_picture(1, 64)),
    "monai/AutoEncoder": _of(_MONAI, "AutoEncoder", 2, 1, 1, (8, 16), (2, 2), given=_picture()),
    "monai/VarAutoEncoder": _taking(
        _of(_MONAI, "VarAutoEncoder", 2, (1, 32, 32), 1, 8, (8, 16), (2, 2), given=_picture()), lambda made: made[1:3]
    ),
    "monai/SegResNetDS": _of(_MONAI, "SegResNetDS", spatial_dims=2, init_filters=8, blocks_down=(1, 1, 1), given=_picture()),
    "monai/MedNeXt": _of(_MONAI, "MedNeXtS", spatial_dims=2, in_channels=1, out_channels=2, given=_picture(1, 64)),
    "monai/AutoencoderKL": _of(
        _MONAI,
        "AutoencoderKL",
        2,
        num_res_blocks=(1, 1),
        channels=(8, 16),
        attention_levels=(False, True),
        norm_num_groups=8,
        given=_picture(),
    ),
    "monai/DiffusionModelUNet": _of(
        _MONAI,
        "DiffusionModelUNet",
        2,
        1,
        1,
        num_res_blocks=1,
        channels=(8, 16),
        attention_levels=(False, True),
        norm_num_groups=8,
        num_head_channels=8,
        given=lambda: (randn(2, 1, 16, 16), randint(0, 100, (2,))),
    ),
    "monai/MultiScalePatchDiscriminator": _of(
        _MONAI,
        "MultiScalePatchDiscriminator",
        num_d=2,
        num_layers_d=2,
        spatial_dims=2,
        channels=8,
        in_channels=1,
        out_channels=1,
        given=_picture(1, 64),
    ),
    # Sound.
    "torchaudio/Wav2Vec2": _of(
        _AUDIO,
        "wav2vec2_model",
        "group_norm",
        [(16, 10, 5), (16, 3, 2)],
        False,
        32,
        0.0,
        8,
        4,
        2,
        4,
        0.0,
        64,
        0.0,
        0.0,
        False,
        0.0,
        10,
        given=lambda: (randn(2, 800),),
    ),
    "torchaudio/Conformer": _taking(
        _of(_AUDIO, "Conformer", 16, 4, 32, 2, 7, given=lambda: (randn(2, 20, 16), torch.tensor([20, 13]))), lambda made: made[0]
    ),
    "torchaudio/Emformer": _taking(
        _of(_AUDIO, "Emformer", 16, 4, 32, 2, 4, right_context_length=1, given=lambda: (randn(2, 13, 16), torch.tensor([12, 9]))),
        lambda made: made[0],
    ),
    "torchaudio/ConvTasNet": _of(_AUDIO, "ConvTasNet", 2, 16, 16, 3, 16, 16, 4, 2, given=lambda: (randn(2, 1, 400),)),
    "torchaudio/DeepSpeech": _of(_AUDIO, "DeepSpeech", 20, 32, 10, given=lambda: (randn(2, 1, 15, 20),)),
    "torchaudio/HDemucs": _of(_AUDIO, "HDemucs", ["a", "b"], channels=8, depth=5, nfft=1024, given=lambda: (randn(1, 2, 8192),)),
    "torchaudio/WaveRNN": _of(
        _AUDIO,
        "WaveRNN",
        upsample_scales=[2, 2, 3],
        n_classes=16,
        hop_length=12,
        n_res_block=2,
        n_rnn=16,
        n_fc=16,
        n_freq=8,
        n_hidden=8,
        n_output=8,
        kernel_size=5,
        given=lambda: (randn(2, 1, 36), randn(2, 1, 7, 8)[:, :, :, :].transpose(2, 3)),
    ),
    "torchaudio/Tacotron2": _of(
        _AUDIO,
        "Tacotron2",
        n_symbol=20,
        n_mels=8,
        symbol_embedding_dim=16,
        encoder_embedding_dim=16,
        encoder_n_convolution=1,
        decoder_rnn_dim=16,
        attention_rnn_dim=16,
        attention_hidden_dim=16,
        prenet_dim=8,
        postnet_embedding_dim=16,
        attention_dropout=0.0,
        decoder_dropout=0.0,
        given=lambda: (randint(0, 20, (2, 7)), torch.tensor([7, 5]), randn(2, 8, 6), torch.tensor([6, 4])),
    ),
    "torchaudio/Wav2Letter": _of(_AUDIO, "Wav2Letter", 10, "mfcc", 20, given=lambda: (randn(2, 20, 60),)),
    "torchaudio/MelSpectrogram": _of("torchaudio.transforms", "MelSpectrogram", n_fft=128, n_mels=16, given=lambda: (randn(2, 2000),)),
    "torchaudio/MFCC": _of(
        "torchaudio.transforms", "MFCC", n_mfcc=8, melkwargs={"n_fft": 128, "n_mels": 16}, given=lambda: (randn(2, 2000),)
    ),
    "torchaudio/Resample": _of("torchaudio.transforms", "Resample", 16000, 11025, given=lambda: (randn(2, 2000),)),
    "torchaudio/GriffinLim": _of("torchaudio.transforms", "GriffinLim", 64, 4, rand_init=False, given=lambda: (torch.rand(33, 20),)),
    "torchaudio/TimeStretch": _of(
        "torchaudio.transforms",
        "TimeStretch",
        32,
        33,
        1.2,
        given=lambda: (torch.stft(randn(2, 800), 64, 32, window=torch.ones(64), return_complex=True),),
    ),
    "torchaudio/SpectralCentroid": _of("torchaudio.transforms", "SpectralCentroid", 16000, 128, given=lambda: (randn(2, 2000),)),
    "torchaudio/PitchShift": _of("torchaudio.transforms", "PitchShift", 16000, 4, n_fft=128, given=lambda: (randn(1, 2000),)),
    "torchaudio/Loudness": _of("torchaudio.transforms", "Loudness", 16000, given=lambda: (randn(2, 16000),)),
    "encodec/encoder": _encodec("encode"),
    "encodec/decoder": _encodec("decode"),
    "encodec/quantizer": _quantizer,
    # Diffusion.
    "diffusers/UNet2D": _of(
        _DIFFUSERS,
        "UNet2DModel",
        sample_size=16,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
        **_unet,
        given=lambda: (randn(2, 3, 16, 16), torch.tensor([3, 40])),
    ),
    "diffusers/UNet2DCondition": _of(
        _DIFFUSERS,
        "UNet2DConditionModel",
        sample_size=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=24,
        attention_head_dim=4,
        **_unet,
        given=lambda: (randn(2, 4, 16, 16), torch.tensor([3, 40]), randn(2, 5, 24)),
    ),
    "diffusers/UNet3DCondition": _of(
        _DIFFUSERS,
        "UNet3DConditionModel",
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        cross_attention_dim=24,
        attention_head_dim=4,
        **_unet,
        given=lambda: (randn(1, 4, 3, 16, 16), torch.tensor([3]), randn(1, 5, 24)),
    ),
    "diffusers/UNet1D": _of(
        _DIFFUSERS,
        "UNet1DModel",
        sample_size=32,
        block_out_channels=(32, 32, 64),
        in_channels=2,
        out_channels=2,
        extra_in_channels=64,
        given=lambda: (randn(2, 2, 32), torch.tensor([3, 40])),
    ),
    "diffusers/AutoencoderKL": _of(
        _DIFFUSERS,
        "AutoencoderKL",
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        **_unet,
        given=_picture(3),
    ),
    "diffusers/AutoencoderTiny": _of(
        _DIFFUSERS,
        "AutoencoderTiny",
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
        given=_picture(3),
    ),
    "diffusers/VQModel": _of(
        _DIFFUSERS,
        "VQModel",
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        num_vq_embeddings=32,
        **_unet,
        given=_picture(3),
    ),
    "diffusers/Transformer2D": _of(
        _DIFFUSERS,
        "Transformer2DModel",
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=16,
        num_layers=1,
        norm_num_groups=8,
        cross_attention_dim=24,
        given=lambda: (randn(2, 16, 8, 8), randn(2, 5, 24)),
    ),
    "diffusers/DiT": _of(
        _DIFFUSERS,
        "DiTTransformer2DModel",
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        sample_size=8,
        norm_num_groups=8,
        num_embeds_ada_norm=10,
        given=lambda: (randn(2, 4, 8, 8), torch.tensor([1, 5]), torch.tensor([1, 2])),
    ),
    "diffusers/PixArt": _of(
        _DIFFUSERS,
        "PixArtTransformer2DModel",
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        sample_size=8,
        cross_attention_dim=16,
        caption_channels=12,
        norm_num_groups=8,
        use_additional_conditions=False,
        given=lambda: (randn(2, 4, 8, 8), randn(2, 5, 12), torch.tensor([1, 5])),
    ),
    "diffusers/SD3": _of(
        _DIFFUSERS,
        "SD3Transformer2DModel",
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=24,
        caption_projection_dim=32,
        pooled_projection_dim=20,
        out_channels=4,
        given=lambda: (randn(2, 4, 8, 8), randn(2, 5, 24), randn(2, 20), torch.tensor([1, 5])),
    ),
    "diffusers/Controlnet": _of(
        _DIFFUSERS,
        "ControlNetModel",
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=24,
        attention_head_dim=4,
        conditioning_embedding_out_channels=(8, 16),
        **_unet,
        given=lambda: (randn(2, 4, 16, 16), torch.tensor([3, 40]), randn(2, 5, 24), randn(2, 3, 32, 32)),
    ),
    "diffusers/Prior": _of(
        _DIFFUSERS,
        "PriorTransformer",
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=2,
        embedding_dim=16,
        num_embeddings=5,
        additional_embeddings=4,
        given=lambda: (randn(2, 16), torch.tensor([1, 5]), randn(2, 16), randn(2, 5, 16)),
    ),
    "diffusers/AutoencoderOobleck": _of(
        _DIFFUSERS,
        "AutoencoderOobleck",
        encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        channel_multiples=[1, 2],
        decoder_channels=8,
        decoder_input_channels=4,
        audio_channels=1,
        given=lambda: (randn(2, 1, 64),),
    ),
    # Graphs.
    **{
        f"torch_geometric/{kind}": _graph(kind)
        for kind in (
            "GCNConv",
            "SAGEConv",
            "GraphConv",
            "GATConv",
            "GATv2Conv",
            "TransformerConv",
            "TAGConv",
            "ResGatedGraphConv",
            "LEConv",
            "ClusterGCNConv",
            "GENConv",
            "GINConv",
            "EdgeConv",
            "FeaStConv",
            "SGConv",
            "MFConv",
            "GeneralConv",
            "SuperGATConv",
            "ARMAConv",
        )
    },
    "torch_geometric/ChebConv": _graph("ChebConv", 3),
    "torch_geometric/sage_max": _graph("SAGEConv", aggr="max"),
    "torch_geometric/sage_std": _graph("SAGEConv", aggr="std"),
    "torch_geometric/sage_softmax": _graph("SAGEConv", aggr="softmax"),
    "torch_geometric/sage_median": _graph("SAGEConv", aggr="median"),
    "torch_geometric/sage_lstm": lambda: (
        _Graph([import_module("torch_geometric.nn").SAGEConv(16, 24, aggr="lstm")]),
        (randn(30, 16), torch.stack([randint(0, 30, (90,)), randint(0, 30, (90,)).sort().values])),
    ),
    "torch_geometric/GPS": lambda: (
        _Graph([import_module("torch_geometric.nn").GPSConv(16, import_module("torch_geometric.nn").GCNConv(16, 16), heads=2)]),
        (randn(30, 16), randint(0, 30, (2, 90))),
    ),
    "sentence_transformers/bert": _sentence,
}
