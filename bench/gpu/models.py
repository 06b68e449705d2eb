"""Whole models as rows of check.py, in bfloat16 with random weights: name, a function that makes the module, one that makes its arguments.

BERT and GPT-2 are those of transformers, where it can be imported; ResNet-50, ViT-B/16 and Llama are written here, since a model's own code
is no part of what is measured: their shapes, and the operators between products, are the published ones.
"""


def rows(torch):
    half = lambda module: module.to(torch.bfloat16).eval()
    image = lambda *sizes: torch.randn(sizes, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    yield "conv3x3_relu", lambda: convolution(torch, 256, 256, 3), lambda: (image(64, 256, 28, 28),)
    yield "inverted_residual", lambda: inverted_residual(torch), lambda: (image(64, 64, 56, 56),)
    yield "resnet50_b64", lambda: resnet50(torch), lambda: (image(64, 3, 224, 224),)
    tokens = lambda most, *sizes: (torch.randint(0, most, sizes, device="cuda"),)
    try:
        import transformers
    except ImportError:
        transformers = None
    if transformers:
        yield "bert_base_b32_s256", lambda: half(transformers.BertModel(transformers.BertConfig())), lambda: tokens(30000, 32, 256)
        config = transformers.GPT2Config(use_cache=False)
        yield "gpt2_b8_s1024", lambda: half(transformers.GPT2Model(config)), lambda: tokens(50000, 8, 1024)
    else:
        yield "gpt2_b8_s1024", lambda: half(gpt2(torch)), lambda: tokens(50000, 8, 1024)
    yield "vit_b16_b64", lambda: half(vit(torch)), lambda: (torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.bfloat16),)
    yield "llama_8l_b4_s1024", lambda: half(llama(torch)), lambda: tokens(32000, 4, 1024)
    position = lambda: torch.tensor([1000], device="cuda")
    yield "llama_decode", lambda: half(llama_step(torch)), lambda: (*tokens(32000, 1, 1), position())


def attention(torch, q, k, v, causal):
    """Of heads beside each other: [batch, length, heads, width] each."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


def pre_norm_block(torch, width, heads, gelu, causal):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, heads, width // heads)).unbind(2)
            x = x + self.out(attention(torch, q, k, v, causal))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate=gelu))

    return Block()


def vit(torch, width=768, heads=12, layers=12, patch=16, size=224, classes=1000):
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
            self.blocks = nn.Sequential(*[pre_norm_block(torch, width, heads, "none", False) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

        def forward(self, image):
            x = self.patches(image).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()


def gpt2(torch, width=768, heads=12, layers=12, words=50257, length=1024):
    nn = torch.nn

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[pre_norm_block(torch, width, heads, "tanh", True) for _ in range(layers)])
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            return self.norm(self.blocks(x))

    return GPT2()


def llama(torch, width=2048, inner=5632, layers=8, heads=16, kv_heads=4, words=32000, length=1024):
    nn = torch.nn
    head = width // heads

    def rotated(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    class RmsNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            y = x.float()
            return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            linear = lambda columns, rows: nn.Linear(columns, rows, bias=False)
            self.norm1, self.norm2 = RmsNorm(), RmsNorm()
            self.q, self.k, self.v = linear(width, width), linear(width, kv_heads * head), linear(width, kv_heads * head)
            self.out, self.gate, self.up, self.down = linear(width, width), linear(width, inner), linear(width, inner), linear(inner, width)

        def forward(self, x, cos, sin):
            y = self.norm1(x)
            q, k, v = (each(y).unflatten(-1, (-1, head)) for each in (self.q, self.k, self.v))
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
            k, v = (each.repeat_interleave(heads // kv_heads, 2) for each in (k, v))
            x = x + self.out(attention(torch, q, k, v, True))
            y = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = RmsNorm()
            angles = torch.arange(length).float()[:, None] * 10000.0 ** (-torch.arange(0, head, 2).float() / head)
            angles = torch.cat([angles, angles], -1)[:, None]
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def forward(self, tokens):
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x, self.cos, self.sin)
            return self.norm(x)

    return Llama()


def llama_step(torch, width=2048, inner=8192, layers=16, heads=32, kv_heads=8, words=128256, length=1024):
    """One token of a Llama of 1.2 billion weights. Keys and values of earlier ones are buffers, which a step updates in place."""
    nn = torch.nn
    head = width // heads
    linear = lambda columns, rows: nn.Linear(columns, rows, bias=False)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
            self.q, self.k, self.v = linear(width, width), linear(width, kv_heads * head), linear(width, kv_heads * head)
            self.out, self.gate, self.up, self.down = linear(width, width), linear(width, inner), linear(width, inner), linear(inner, width)
            self.register_buffer("keys", torch.randn(1, kv_heads, length, head))
            self.register_buffer("values", torch.randn(1, kv_heads, length, head))

        def forward(self, x, position, cos, sin, seen):
            y = self.norm1(x)
            q, k, v = (each(y).unflatten(-1, (-1, head)).transpose(1, 2) for each in (self.q, self.k, self.v))
            rotated = lambda a: a * cos + torch.cat([-a[..., head // 2:], a[..., :head // 2]], -1) * sin
            self.keys.index_copy_(2, position, rotated(k))
            self.values.index_copy_(2, position, v)
            found = nn.functional.scaled_dot_product_attention(rotated(q), self.keys, self.values, attn_mask=seen, enable_gqa=True)
            x = x + self.out(found.transpose(1, 2).flatten(2))
            y = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.RMSNorm(width, eps=1e-5), linear(width, words)
            angles = torch.arange(length).float()[:, None] * 10000.0 ** (-torch.arange(0, head, 2).float() / head)
            self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
            self.register_buffer("sin", torch.cat([angles, angles], -1).sin())
            self.register_buffer("places", torch.arange(length))

        def forward(self, token, position):
            x = self.words(token)
            cos, sin, seen = self.cos[position], self.sin[position], (self.places <= position)[None, None, None]
            for block in self.blocks:
                x = block(x, position, cos, sin, seen)
            return self.head(self.norm(x))

    return Step()


def convolution(torch, channels, filters, size):
    return channels_last(torch, torch.nn.Sequential(torch.nn.Conv2d(channels, filters, size, padding=size // 2), torch.nn.ReLU()))


def inverted_residual(torch):
    """A block of MobileNetV2 with its depthwise convolution, and the mean over pixels."""
    nn = torch.nn
    body = nn.Sequential(nn.Conv2d(64, 384, 1), nn.ReLU6(), nn.Conv2d(384, 384, 3, padding=1, groups=384), nn.ReLU6(), nn.Conv2d(384, 64, 1))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, x):
            return (x + self.body(x)).mean((2, 3))

    return channels_last(torch, Block())


def channels_last(torch, module):
    return module.to(torch.bfloat16).to(memory_format=torch.channels_last).eval()


def resnet50(torch):
    """As torchvision's, with random weights."""
    nn = torch.nn

    def normalised(channels, filters, size, stride=1):
        return nn.Sequential(nn.Conv2d(channels, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters))

    class Bottleneck(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            self.body = nn.Sequential(normalised(channels, width, 1), nn.ReLU(), normalised(width, width, 3, stride), nn.ReLU(),
                                      normalised(width, 4 * width, 1))
            self.shortcut = nn.Identity() if channels == 4 * width else normalised(channels, 4 * width, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    layers = [normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return channels_last(torch, nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)))
