"""Writes bench/problems.txt: library calls as networks make them, for `toroid tune --compare-default`.

    python3 bench/make_problems.py > bench/problems.txt
"""


def matmul(dtype, m, k, n, constant=True, turned=True, epilogue=False, batch=()):
    """Rows [m, k] by a matrix [k, n]; turned: its columns are contiguous, as the weight of nn.Linear."""
    b = ", ".join(map(str, (*batch, k, n)))
    strides = ""
    if turned:
        outer, step = [], k * n
        for size in reversed(batch):
            outer.insert(0, step)
            step *= size
        strides = "/[" + ", ".join(map(str, (*outer, 1, k))) + "]"
    kind = "constant " if constant else ""
    a, c = ", ".join(map(str, (*batch, m, k))), ", ".join(map(str, (*batch, m, n)))
    return f"matmul.{dtype}({dtype}[{a}], {kind}{dtype}[{b}]{strides}) -> {dtype}[{c}]" + ("; epilogue" if epilogue else "")


def int8(dtype, m, k, n):
    return f"matmul.int8({dtype}[{m}, {k}], constant i8[{k}, {n}]/[1, {k}]) -> {dtype}[{m}, {n}]"


def bytes_by_bytes(m, k, n):
    return f"matmul.i32(i8[{m}, {k}], constant i8[{k}, {n}]/[1, {k}]) -> i32[{m}, {n}]"


def int4(dtype, m, k, n, group=128):
    return f"matmul.int4({dtype}[{m}, {k}], constant u8[{n}, {k // 2}], constant f32[{k // group}, {n}], constant f32[{k // group}, {n}]) -> {dtype}[{m}, {n}]"


def image(dtype, batch, channels, side):
    return f"{dtype}[{batch}, {channels}, {side}, {side}]/[{channels * side * side}, 1, {channels * side}, {channels}]"


def conv(dtype, channels, filters, kernel, side, stride=1, groups=1, batch=1, epilogue=False):
    """An image and a result with their channels next to each other, and filters that are constants."""
    padding = kernel // 2
    out = (side + 2 * padding - kernel) // stride + 1
    text = f"convolution.{dtype}({image(dtype, batch, channels, side)}, constant {dtype}[{filters}, {channels // groups}, {kernel}, {kernel}])"
    text += f" -> {image(dtype, batch, filters, out)}; integers 0 {groups} {stride} {stride} {padding} {padding} 1 1 0 0"
    return text + ("; epilogue" if epilogue else "")


def attention(dtype, heads, queries, keys, width, causal=0):
    q, k = f"{dtype}[1, {heads}, {queries}, {width}]", f"{dtype}[1, {heads}, {keys}, {width}]"
    return f"attention.{dtype}({q}, {k}, {k}) -> {q}; integers {causal}; numbers {width ** -0.5}"


ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 512)
SIDES = ((768, 768), (768, 3072), (3072, 768), (2048, 512))
problems = []
for m in ROWS:
    problems += [matmul("f32", m, k, n) for k, n in SIDES]
problems += [matmul("f32", m, 64, 64) for m in (1, 8, 64, 1024, 4096)]
problems += [matmul("f32", 4096, 256, 256), matmul("f32", 2048, 512, 512), matmul("f32", 1, 2048, 1000), matmul("f32", 8, 2048, 1000)]
problems += [matmul("f32", m, 768, 3072, epilogue=True) for m in (1, 8, 128)]
problems += [matmul("f32", m, 768, 768, constant=False, turned=turned) for m in (1, 4, 8, 12, 16, 32, 128) for turned in (False, True)]
problems += [matmul("f32", m, 3072, 768, constant=False, turned=turned) for m in (1, 8, 16, 64) for turned in (False, True)]
problems += [matmul("f32", s, s, s, constant=False, turned=False) for s in (32, 64, 128, 256, 512, 1024)]
problems += [matmul("f32", m, 64, 128, constant=False, turned=turned, batch=(12,)) for m in (1, 8, 128) for turned in (False, True)]
problems += [matmul("bf16", m, k, n) for m in (1, 2, 4, 8, 16, 32, 128, 512) for k, n in ((768, 768), (3072, 768))]
problems += [matmul("bf16", m, 768, 768, constant=False, turned=False) for m in (1, 16, 128)]
problems += [int8("f32", m, k, n) for m in (1, 2, 4, 8, 12, 16, 32, 128, 512) for k, n in ((768, 768), (768, 3072))]
problems += [int8("bf16", m, 768, 3072) for m in (1, 2, 4, 8, 16, 32, 128)]
problems += [bytes_by_bytes(m, 768, 3072) for m in (1, 2, 4, 16, 128)]
problems += [int4(dtype, m, 2048, 2048) for dtype in ("f32", "bf16") for m in (1, 2, 4, 6, 8, 12, 16, 32, 128)]
for c, f, kernel, side, stride in ((3, 64, 7, 224, 2), (64, 64, 3, 56, 1), (64, 64, 1, 56, 1), (64, 256, 1, 56, 1), (128, 128, 3, 28, 1), (256, 256, 3, 14, 1), (512, 512, 3, 7, 1),
                                   (256, 512, 1, 28, 2), (64, 128, 3, 56, 2), (96, 96, 5, 28, 1), (16, 16, 3, 112, 1), (32, 32, 3, 32, 1)):
    problems += [conv("f32", c, f, kernel, side, stride)]
problems += [conv("f32", c, c, 3, side, stride, groups=c) for c, side, stride in ((32, 112, 1), (96, 112, 2), (144, 56, 1), (576, 14, 1), (960, 7, 1))]
problems += [conv("f32", 128, 128, 3, 28, groups=32), conv("f32", 64, 64, 3, 56, batch=8), conv("f32", 512, 512, 3, 7, batch=8), conv("f32", 64, 64, 3, 56, epilogue=True)]
problems += [conv("bf16", c, c, 3, side) for c, side in ((64, 56), (256, 14))] + [conv("bf16", 96, 96, 3, 56, groups=96)]
problems += [attention(dtype, 12, q, k, 64, causal) for dtype in ("f32", "bf16") for q, k, causal in ((128, 128, 0), (512, 512, 1), (1, 128, 0), (1, 1024, 0), (4, 512, 0), (16, 512, 0))]

print("# Library calls as networks make them: `toroid tune --compare-default --file bench/problems.txt`. Written by bench/make_problems.py.")
for problem in dict.fromkeys(problems):
    print(problem)
