"""Rows of check.py whose products have narrow operands or go by groups: 8-bit floats, weights of eight and four bits, experts' products.

Eager PyTorch widens narrow weights in a kernel of its own before the product, so beside them the row of the same product in bfloat16,
`mm_of_ROWS`, is what a weight's width is measured against.
"""
import torch


class Int8Weights(torch.nn.Module):
    """x W, W of int8 with a scale for each column."""

    def __init__(self, columns, depth):
        super().__init__()
        self.register_buffer("numbers", torch.randint(-127, 128, (columns, depth), dtype=torch.int8))
        self.register_buffer("scales", (torch.rand(columns, 1) / 1000).bfloat16())

    def forward(self, x):
        return x @ (self.numbers.to(x.dtype) * self.scales).t()


class Int4Weights(torch.nn.Module):
    """x W, W of four bits, two in a byte, with a scale and a zero point for each group of a column."""

    def __init__(self, columns, depth, group=128):
        super().__init__()
        self.sizes = (columns, depth // group, group)
        self.register_buffer("pairs", torch.randint(0, 256, (columns, depth // 2), dtype=torch.uint8))
        self.register_buffer("scales", (torch.rand(columns, depth // group, 1) / 100).float())
        self.register_buffer("zeros", torch.full((columns, depth // group, 1), 7.5))

    def forward(self, x):
        numbers = torch.stack([self.pairs & 15, self.pairs >> 4], -1).reshape(self.sizes).float()
        return x @ ((numbers - self.zeros) * self.scales).reshape(self.sizes[0], -1).to(x.dtype).t()


class E4M3Weights(torch.nn.Module):
    """x W, W of 8-bit floats."""

    def __init__(self, columns, depth):
        super().__init__()
        self.register_buffer("weights", (torch.randn(columns, depth) / depth ** 0.5).to(torch.float8_e4m3fn))

    def forward(self, x):
        return x @ self.weights.to(x.dtype).t()


class FloatWeights(torch.nn.Module):
    def __init__(self, columns, depth):
        super().__init__()
        self.register_buffer("weights", (torch.randn(columns, depth) / depth ** 0.5).to(torch.bfloat16))

    def forward(self, x):
        return x @ self.weights.t()


class Layers(torch.nn.Module):
    """Products one behind the other, as in a step of decoding: weights come from memory, whatever was in the L2 cache before."""

    def __init__(self, depth=4096, inner=14336, pairs=2):
        super().__init__()
        self.layers = torch.nn.ModuleList([self.Weights(*sizes) for _ in range(pairs) for sizes in ((inner, depth), (depth, inner))])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class FloatLayers(Layers):
    Weights = FloatWeights


class Int4Layers(Layers):
    Weights = Int4Weights


class Int8Layers(Layers):
    Weights = Int8Weights


class E4M3Layers(Layers):
    Weights = E4M3Weights


def rows(torch, floor_ms, make):
    """As further_rows.rows(); operations of 8-bit floats count half. Large modules are classes, of which those that are wanted are made."""
    results = lambda arguments, found: found
    float8 = lambda *sizes: make(*sizes, dtype=torch.float8_e4m3fn)
    scale = lambda: torch.tensor(0.5, device="cuda")
    scaled = lambda a, w, s, t: torch._scaled_mm(a, w.t(), s, t, out_dtype=torch.bfloat16)

    def scaled_by_rows(a, w, t):
        largest = a.abs().amax(-1, keepdim=True).float() / 448
        return torch._scaled_mm((a / largest).to(torch.float8_e4m3fn), w.t(), largest, t, out_dtype=torch.bfloat16)

    gradient = lambda *sizes: make(*sizes, dtype=torch.float8_e5m2)  # as those of a training step
    yield ("float8_e5m2", scaled, lambda: (gradient(8192, 4096), float8(4096, 4096), scale(), scale()),
           floor_ms(operations=8192 * 4096 * 4096), results)
    for rows_, columns, depth in ((8192, 4096, 4096), (4096, 4096, 4096), (64, 14336, 4096)):
        yield (f"float8_{rows_}_{columns}", scaled,
               lambda m=rows_, n=columns, k=depth: (float8(m, k), float8(n, k), scale(), scale()),
               floor_ms(depth * (rows_ + columns) + 2 * rows_ * columns, rows_ * columns * depth), results)
    yield ("float8_by_rows", scaled_by_rows, lambda: (make(8192, 4096), float8(4096, 4096), torch.rand(1, 4096, device="cuda")),
           floor_ms(operations=8192 * 4096 * 4096), results)

    columns, depth = 14336, 4096
    for m in (1, 8, 16, 32, 64):
        activations = lambda m=m: (make(m, depth),)
        yield (f"mm_of_{m}", lambda x, w: x @ w.t(), lambda m=m: (make(m, depth), make(columns, depth)),
               floor_ms(2 * columns * depth), results)
        yield f"int8_weights_{m}", Int8Weights(columns, depth), activations, floor_ms(columns * depth), results
        yield f"int4_weights_{m}", Int4Weights(columns, depth), activations, floor_ms(columns * depth // 2), results
        yield f"layers_{m}", FloatLayers, activations, floor_ms(4 * 2 * columns * depth), results
        yield f"int4_layers_{m}", Int4Layers, activations, floor_ms(4 * columns * depth // 2), results
        yield f"int8_layers_{m}", Int8Layers, activations, floor_ms(4 * columns * depth), results
        yield f"e4m3_layers_{m}", E4M3Layers, activations, floor_ms(4 * columns * depth), results

    def ends(total, experts=32):
        """Of uneven groups, the same in each run."""
        generator = torch.Generator().manual_seed(1)
        cuts = torch.randint(0, total + 1, (experts - 1,), generator=generator).sort()[0]
        return torch.cat([cuts, torch.tensor([total])]).to(torch.int32).cuda()

    grouped = lambda x, w, n: torch._grouped_mm(x, w, offs=n)
    work = lambda total: floor_ms(2 * 32 * 2048 * 1536, 2 * total * 2048 * 1536)
    yield "grouped_8192", grouped, lambda: (make(8192, 2048), make(32, 2048, 1536), ends(8192)), work(8192), results
    yield ("grouped_transposed", lambda x, w, n: grouped(x, w.transpose(1, 2), n),
           lambda: (make(8192, 2048), make(32, 1536, 2048), ends(8192)), work(8192), results)
    yield "grouped_64", grouped, lambda: (make(64, 2048), make(32, 2048, 1536), ends(64)), work(64), results
    yield ("grouped_gradients", lambda x, g, n: grouped(x.t(), g, n), lambda: (make(8192, 2048), make(8192, 1536), ends(8192)),
           work(8192), results)
