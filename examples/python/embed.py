"""BERT embeddings: a BertModel of transformers (random weights, as nothing is downloaded), for texts of any length, beside eager PyTorch.

usage: python embed.py         needs PyTorch and transformers
"""

import torch
import transformers

import toroid


class Embedding(torch.nn.Module):
    """The mean of the last hidden states over the tokens that the mask has."""

    def __init__(self):
        super().__init__()
        config = transformers.BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, tokens, mask):
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(hidden.dtype)
        return {"embedding": (hidden * weights).sum(1) / weights.sum(1)}


def main():
    """Compiles it once, for batches and lengths that vary."""
    torch.manual_seed(0)
    model = Embedding().eval()
    tokens, mask = torch.randint(0, 30000, (2, 16)), torch.ones(2, 16, dtype=torch.int64)
    sizes = {0: torch.export.Dim("texts", max=64), 1: torch.export.Dim("length", max=128)}
    exported = torch.export.export(model, (tokens, mask), dynamic_shapes=(sizes, sizes))
    compiled = toroid.compile(exported)
    for texts, length in (2, 16), (5, 33), (8, 128):
        tokens, mask = torch.randint(0, 30000, (texts, length)), torch.ones(texts, length, dtype=torch.int64)
        mask[0, length // 2 :] = 0
        with torch.no_grad():
            expected = model(tokens, mask)["embedding"]
        embedding = compiled(tokens=tokens, mask=mask)["embedding"]
        torch.testing.assert_close(embedding, expected, rtol=1e-4, atol=1e-4)
        print(f"{texts} texts of {length} tokens: as eager")


if __name__ == "__main__":
    main()
