"""Text generation with a key-value cache: a step of a small GPT-2 as a program whose caches are its own state, beside eager PyTorch.

The caches are buffers of the module, of a fixed length, which each step writes to. Every stream of text has a context of its own.

usage: python generate.py      needs PyTorch
"""

import torch
from torch import nn

import toroid

LENGTH, WIDTH, HEADS, LAYERS, WORDS = 64, 64, 4, 2, 256


class Block(nn.Module):
    """A layer: attention to all tokens so far, and a perceptron."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm_after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS))

    def forward(self, x, position):
        q, k, v = self.qkv(self.norm(x)).view(1, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        seen = (torch.arange(LENGTH) <= position)[None, None, None]
        attended = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.body(self.norm_after(x))


class Step(nn.Module):
    """From a token and its position to the logits of the next one."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, token, position):
        x = self.words(token) + self.places(position)
        for block in self.blocks:
            x = block(x, position)
        return self.norm(x)[0, 0] @ self.words.weight.T


def generate(step, prompt, count):
    """The prompt and `count` words that follow, each the likeliest."""
    text = list(prompt)
    for position in range(len(prompt) + count - 1):
        with torch.no_grad():
            logits = step(torch.tensor([[text[position]]]), torch.tensor([position]))
        if position + 1 == len(text):
            text.append(int(logits.argmax()))
    return text


def main():
    """Two streams of text, taking turns in their own contexts."""
    torch.manual_seed(0)
    model = Step().eval()
    compiled = toroid.compile(torch.export.export(model, (torch.tensor([[0]]), torch.tensor([0]))))
    prompts = [1, 2, 3], [200, 100]
    expected = [generate(model, prompt, 40) for prompt in prompts]
    streams = [compiled.context() for _ in prompts]
    for stream, prompt, text in zip(streams, prompts, expected):
        assert generate(stream, prompt, 40) == text
        stream.reset()
        assert generate(stream, prompt, 10) == text[: len(prompt) + 10]
    print(f"{len(prompts)} texts of {len(expected[0])} words: as eager")


if __name__ == "__main__":
    main()
