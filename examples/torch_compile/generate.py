"""Text generation with a key-value cache: a small GPT-2 of transformers, or where that is not installed one of the script's own.

The cache has a fixed length; each step writes to it in place. Random weights, greedy choice: the words are eager PyTorch's.

    python examples/torch_compile/generate.py [--inductor] [--own]
"""

import torch
from torch import nn
from torch.nn import functional as F

from beside import compare, has

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 4096, 256, 4, 4, 64


class Block(nn.Module):
    """A layer: attention to all tokens so far, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).view(1, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        keys.index_copy_(2, places, k)
        values.index_copy_(2, places, v)
        seen = torch.arange(LENGTH)[None] <= places[:, None]
        attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).reshape(1, n, WIDTH))
        return x + self.body(self.norm_after(x))


class Own(nn.Module):
    """A GPT-2 whose cache is a list of keys and values, [1, HEADS, LENGTH, WIDTH / HEADS] each."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def new_cache(self) -> list:
        return [[torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS) for _ in range(2)] for _ in range(LAYERS)]

    def forward(self, tokens: torch.Tensor, places: torch.Tensor, cache: list) -> torch.Tensor:
        x = self.words(tokens) + self.places(places)
        for block, (keys, values) in zip(self.blocks, cache):
            x = block(x, places, keys, values)
        return self.norm(x[:, -1]) @ self.words.weight.T


class Gpt2(nn.Module):
    """transformers' GPT2LMHeadModel with its StaticCache."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        self.config = transformers.GPT2Config(
            vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, bos_token_id=0, eos_token_id=0
        )
        self.model = transformers.GPT2LMHeadModel(self.config)

    def new_cache(self):
        from transformers import StaticCache

        cache = StaticCache(config=self.config, max_cache_len=LENGTH)
        cache.early_initialization(1, HEADS, WIDTH // HEADS, torch.float32, torch.device("cpu"))
        return cache

    def forward(self, tokens: torch.Tensor, places: torch.Tensor, cache) -> torch.Tensor:
        found = self.model(input_ids=tokens, position_ids=places[None], past_key_values=cache, use_cache=True)
        return found.logits[:, -1]


def generate(step, new_cache, prompt: list[int], count: int) -> torch.Tensor:
    """The prompt and `count` words that follow, each the likeliest. The prompt is one step, each further word another."""
    text, done, cache = list(prompt), 0, new_cache()
    while len(text) < len(prompt) + count:
        logits = step(torch.tensor([text[done:]]), torch.arange(done, len(text)), cache)
        done = len(text)
        text.append(int(logits.argmax()))
    return torch.tensor(text)


def main() -> None:
    torch.manual_seed(0)
    model = (Gpt2() if has("transformers") else Own()).eval()
    prompt = [7, 77, 777]
    compare("40 words after 3", lambda call: generate(call, model.new_cache, prompt, 40), model)


if __name__ == "__main__":
    main()
