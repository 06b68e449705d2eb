"""Embeddings of texts: a small BERT of transformers, or where that is not installed PyTorch's encoder. Lengths vary; random weights.

    python examples/torch_compile/embed.py [--inductor] [--own]
"""

import torch
from torch import nn

from beside import compare, has

WORDS, WIDTH, HEADS, LAYERS = 30522, 256, 4, 4


class Encoder(nn.Module):
    """Layers of PyTorch's own in BERT's place."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(512, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True) for _ in range(LAYERS)
        )

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask == 0)
        return x


class Bert(nn.Module):
    """The last hidden states of transformers' BertModel."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        config = transformers.BertConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=4 * WIDTH
        )
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state


class Embedding(nn.Module):
    """The mean of the hidden states over the tokens that the mask has, [texts, WIDTH]."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Bert() if has("transformers") else Encoder()

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = mask[:, :, None].float()
        return (self.encoder(tokens, mask) * weights).sum(1) / weights.sum(1)


def texts(count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, the first text half as long as the others, and their mask."""
    tokens, mask = torch.randint(0, WORDS, (count, length)), torch.ones(count, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    for each in (tokens, mask):
        torch._dynamo.mark_dynamic(each, 0)
        torch._dynamo.mark_dynamic(each, 1)
    return tokens, mask


def main() -> None:
    torch.manual_seed(0)
    batches = [texts(2, 16), texts(5, 33), texts(8, 128)]
    compare("2, 5 and 8 texts of 16, 33 and 128 tokens", lambda call: [call(*each) for each in batches], Embedding().eval())


if __name__ == "__main__":
    main()
