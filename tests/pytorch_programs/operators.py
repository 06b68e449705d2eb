"""What a random program may do next: each function returns a line's right side over the values that exist, as Python source.

A function takes a Draft (draft.py), asks it for values and numbers, and raises Unfit when no value fits. Arguments need not be valid:
a line that PyTorch refuses is dropped.
"""

FLOAT_UNARY = """abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv
sigmoid ceil floor round trunc frac sign sgn reciprocal square lgamma digamma logit relu positive deg2rad rad2deg sinc i0 nan_to_num isnan isfinite isinf
isposinf isneginf signbit special.i0e special.i1 special.i1e special.ndtr special.log_ndtr special.entr special.erfcx special.ndtri""".split()
INT_UNARY = "abs neg sign square bitwise_not relu positive".split()
ACTIVATIONS = """relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardsigmoid hardswish leaky_relu logsigmoid softshrink hardshrink
sigmoid tanh""".split()
BINARY = "add sub mul div atan2 maximum minimum fmax fmin hypot copysign nextafter logaddexp logaddexp2 remainder fmod xlogy true_divide ldexp".split()
INT_BINARY = """add sub mul bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift maximum minimum gcd lcm floor_divide remainder
fmod""".split()
COMPARISONS = "eq ne lt le gt ge".split()
LOGICAL = "logical_and logical_or logical_xor".split()
REDUCTIONS = "sum mean amax amin prod std var logsumexp nansum nanmean argmax argmin all any count_nonzero norm".split()
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()


def float_unary(d):
    return f"torch.{d.pick(FLOAT_UNARY)}({d.real()})"


def int_unary(d):
    return f"torch.{d.pick(INT_UNARY)}({d.integer()})"


def activation(d):
    a = d.real()
    choices = [f"F.{name}({a})" for name in ACTIVATIONS] + [
        f"F.gelu({a}, approximate='tanh')", f"F.threshold({a}, 0.1, -1.5)", f"F.hardtanh({a}, -0.3, 0.7)", f"F.leaky_relu({a}, 0.3)",
        f"F.softplus({a}, 2.0, 1.5)", f"F.glu({a}, {d.dim(a)})", f"F.prelu({a}, torch.tensor([0.2], dtype={a}.dtype))", f"F.rrelu({a}, 0.2, 0.4)",
        f"F.softmin({a}, {d.dim(a)})", f"torch.logit({a}, 0.1)", f"F.celu({a}, 0.7)", f"F.elu({a}, 1.3)", f"torch.polygamma(1, {a}.abs() + 0.5)"]
    return d.pick(choices)


def binary(d):
    a, b = d.pair(d.real())
    return d.pick([f"torch.{d.pick(BINARY)}({a}, {b})", f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"torch.add({a}, {b}, alpha=0.5)",
                   f"torch.lerp({a}, {b}, 0.3)", f"torch.rsub({a}, {b}, alpha=2)", f"torch.addcmul({a}, {b}, {a}, value=0.5)",
                   f"torch.addcdiv({a}, {b}, {b}.abs() + 1, value=0.5)", f"torch.div({a}, {b}, rounding_mode='floor')",
                   f"torch.div({a}, {b}, rounding_mode='trunc')", f"torch.floor_divide({a}, {b})", f"torch.heaviside({a}, {b})"])


def scalar_binary(d):
    a = d.any()
    number = d.pick(["2", "-1", "0.5", "3", "1.5", "-0.25", "True", "7", "0"])
    return d.pick([f"{a} + {number}", f"{a} - {number}", f"{number} - {a}", f"{a} * {number}", f"{a} / {number}", f"{number} / {a}", f"{a} ** 2",
                   f"{a} ** 3", f"torch.pow({a}, 0.5)", f"torch.pow({a}, -1.0)", f"2 ** {a}", f"{a} % 3", f"{a} // 2", f"torch.remainder({a}, -2)",
                   f"torch.fmod({a}, 2)", f"torch.clamp({a}, -1, 1)", f"torch.clamp({a}, min={number})", f"torch.clamp_max({a}, {number})",
                   f"torch.eq({a}, {number})", f"{a} > {number}", f"{a} <= {number}", f"torch.copysign({a}, {number})", f"{a} - {a}",
                   f"torch.float_power({a}, 2)"])


def int_binary(d):
    a, b = d.pair(d.integer())
    return f"torch.{d.pick(INT_BINARY)}({a}, {b})"


def shift(d):
    a = d.integer()
    return f"torch.bitwise_{d.pick(['left', 'right'])}_shift({a}, {d.pick([0, 1, 3, 7, 8, 31, 40, 63])})"


def comparison(d):
    a, b = d.pair(d.any())
    return f"torch.{d.pick(COMPARISONS)}({a}, {b})"


def logical(d):
    a, b = d.pair(d.any())
    return d.pick([f"torch.{d.pick(LOGICAL)}({a}, {b})", f"torch.logical_not({a})", f"torch.isclose({a}, {b})"])


def where(d):
    a, b = d.pair(d.any())
    return d.pick([f"torch.where({a} > {b}, {a}, {b})", f"torch.where({a} > 0, {a}, 0.5)", f"torch.where({a} == {b}, 1, {b})",
                   f"{a}.masked_fill({b} > 0, {d.pick(['-1', '2.5', '0', 'True'])})", f"torch.where({d.mask(a)}, {a}, torch.zeros_like({a}))"])


def cast(d):
    a = d.any()
    return d.pick([f"{a}.to(torch.{d.pick(DTYPES)})", f"{a}.to(torch.{d.pick(DTYPES[:4])})", f"{a}.float()", f"{a}.type_as({d.any()})"])


def reduction(d):
    a = d.any()
    name = d.pick(REDUCTIONS)
    dim = d.dim(a)
    if name in ("argmax", "argmin", "prod", "count_nonzero"):
        return d.pick([f"torch.{name}({a})", f"torch.{name}({a}, {dim})"])
    dims = d.pick([f"{dim}", f"({dim},)", f"({dim}, {d.dim(a)})"])
    if name == "norm":
        return d.pick([f"torch.linalg.vector_norm({a}, {d.pick([1, 2, 3, 'float(chr(105)+chr(110)+chr(102))', 0])}, {dims})", f"{a}.norm(dim={dim})"])
    keep = d.pick(["", ", keepdim=True"])
    correction = d.pick(["", ", correction=0", ", correction=2"]) if name in ("std", "var") else ""
    return d.pick([f"torch.{name}({a}, {dims}{correction}{keep})", f"torch.{name}({a}, {dims}{keep})", f"{a}.{name}()"])


def extremum(d):
    a = d.any()
    dim = d.dim(a)
    return d.pick([f"torch.max({a}, {dim})[0]", f"torch.min({a}, {dim}, True)[0]", f"torch.aminmax({a}, dim={dim})[1]", f"torch.sort({a}, {dim})[0]",
                   f"torch.sort({a}, {dim}, descending=True)[0]", f"torch.topk({a}, 2, {dim})[0]", f"torch.kthvalue({a}, 2, {dim})[0]",
                   f"torch.median({a}, {dim})[0]", f"torch.median({a})", f"torch.nanmedian({a}, {dim})[0]", f"torch.argsort({a}, dim={dim}, stable=True)",
                   f"torch.msort({a})", f"torch.mode({a}, {dim})[0]", f"torch.quantile({a}, 0.3, dim={dim})", f"torch.cummax({a}, {dim})[0]",
                   f"torch.cummin({a}, {dim})[0]", f"torch.max({a})", f"torch.logcumsumexp({a}, {dim})", f"torch.cumsum({a}, {dim})",
                   f"torch.cumprod({a}, {dim})", f"torch.diff({a}, dim={dim})", f"torch.trapezoid({a}, dim={dim})", f"torch.renorm({a}, 2, {dim}, 1.0)",
                   f"torch.cumulative_trapezoid({a}, dim={dim})", f"torch.std_mean({a}, {dim})[0]", f"torch.var_mean({a}, {dim})[1]"])


def softmax(d):
    a = d.real()
    return d.pick([f"torch.softmax({a}, {d.dim(a)})", f"torch.log_softmax({a}, {d.dim(a)})", f"F.normalize({a}, dim={d.dim(a)})",
                   f"F.layer_norm({a}, {a}.shape[-1:])", f"F.rms_norm({a}, {a}.shape[-1:])", f"F.layer_norm({a}, {a}.shape[-2:])",
                   f"F.cosine_similarity({a}, {a}.roll(1, 0), dim={d.dim(a)})", f"torch.logsumexp({a}, {d.dim(a)})"])


def view(d):
    a = d.any()
    dim, other, n = d.dim(a), d.dim(a), d.extent(a)
    low = d.number(0, 2)
    return d.pick([f"{a}.transpose({dim}, {other})", f"{a}.movedim({dim}, {other})", f"{a}.flatten()", f"{a}.reshape(-1)", f"{a}.unsqueeze({dim})",
                   f"{a}.squeeze()", f"{a}.select({dim}, {low})", f"{a}.select({dim}, -1)", f"{a}.narrow({dim}, {low}, 2)", f"{a}[..., {low}:]",
                   f"{a}[::2]", f"{a}[..., 1::2]", f"{a}[{low}]", f"{a}[None]", f"{a}.flip({dim})", f"{a}.roll({low + 1}, {dim})", f"{a}.rot90()",
                   f"{a}.chunk(2, {dim})[0]", f"{a}.chunk(2, {dim})[-1]", f"{a}.split(2, {dim})[0]", f"{a}.unbind({dim})[0]", f"{a}.diagonal()",
                   f"{a}.unfold({dim}, 2, 1)", f"{a}.mT", f"{a}.expand(2, *{a}.shape)", f"{a}.repeat(2, *[1] * {a}.dim())", f"{a}.tile(2)",
                   f"{a}.repeat_interleave(2, {dim})", f"{a}.contiguous()", f"{a}.clone()", f"{a}.reshape({a}.shape[0], -1)", f"{a}.flatten(0, 1)",
                   f"{a}.flatten(-2)", f"{a}.permute(*range({a}.dim() - 1, -1, -1))", f"torch.atleast_2d({a})", f"torch.diag_embed({a})",
                   f"{a}[:-1]", f"{a}[-2:]", f"torch.tril({a})", f"torch.triu({a}, 1)", f"{a}.unflatten({dim}, (-1, 1))", f"{a}.swapaxes(0, -1)",
                   f"{a}.view_as({a})", f"{a}.expand_as({a})", f"torch.narrow_copy({a}, {dim}, 0, 1)", f"{a}.unsqueeze(-1).expand(*{a}.shape, {n})"])


def pad(d):
    a = d.any()
    mode = d.pick(["'constant', 1.5", "'constant', -1", "'reflect'", "'replicate'", "'circular'"])
    amount = d.pick(["(1, 2)", "(2, 0)", "(0, -1)", "(1, 1, 2, 0)", "(0, 1, 0, 1)", "(-1, 2)"])
    return d.pick([f"F.pad({a}, {amount}, {mode})", f"F.pad({a}, {amount})"])


def join(d):
    a, b = d.pair(d.any())
    dim = d.dim(a)
    return d.pick([f"torch.cat([{a}, {b}], {dim})", f"torch.stack([{a}, {b}], {dim})", f"torch.cat([{a}, {a}.flip({dim})], {dim})",
                   f"torch.hstack([{a}, {b}])", f"torch.vstack([{a}, {b}])", f"torch.dstack([{a}, {a}])", f"torch.block_diag({a}, {b})",
                   f"torch.cartesian_prod({a}.flatten()[:3], {b}.flatten()[:2])", f"torch.meshgrid({a}.flatten()[:3], {b}.flatten()[:2], indexing='ij')[0]",
                   f"torch.column_stack([{a}, {a}])", f"torch.cat([{a}, {b}, {a}], {dim})"])


def indexing(d):
    a = d.any()
    dim = d.dim(a)
    index = d.indices(a, dim)
    flat = f"({d.any()}.flatten()[:3].to(torch.int64).abs() % {a}.shape[{dim}])"
    return d.pick([f"{a}.index_select({dim}, {index})", f"{a}[{d.indices(a, 0)}]", f"{a}[..., {d.indices(a, -1)}]", f"{a}.index_select({dim}, {flat})",
                   f"torch.gather({a}, {dim}, ({a} * 0).to(torch.int64))", f"torch.take({a}, {d.indices(a, 0)})", f"{a}[{flat}]" if dim == 0 else f"{a}[-1]",
                   f"torch.take_along_dim({a}, torch.argsort({a}, dim={dim}, stable=True), {dim})", f"torch.nonzero({a})", f"torch.masked_select({a}, {a} > 0)",
                   f"{a}[{a} > 0.3]", f"F.embedding({d.indices(a, 0)}, {a})", f"F.one_hot({flat}, 9)", f"torch.bincount({flat})",
                   f"torch.searchsorted(torch.sort({a})[0], {a})", f"torch.bucketize({a}, torch.tensor([-1.0, 0.0, 0.5]))",
                   f"torch.histc({a}, 5, -1.0, 1.0)", f"torch.unique({a})"])


def scatter(d):
    a, b = d.pair(d.any())
    dim = d.dim(a)
    index = d.indices(a, dim)
    zeros = f"({a} * 0).to(torch.int64)"
    return d.pick([f"{a}.index_add({dim}, {index}, {a}.index_select({dim}, {index}))", f"{a}.index_fill({dim}, {index}, {d.pick(['1.5', '-2', '0'])})",
                   f"{a}.index_copy({dim}, torch.arange(2), {a}.narrow({dim}, 0, 2) * 2)", f"torch.scatter({a}, {dim}, {zeros}, 2)",
                   f"torch.scatter_add({a}, {dim}, {zeros}, {a})", f"torch.scatter_reduce({a}, {dim}, {zeros}, {a}, '{d.pick(['sum', 'prod', 'amax', 'amin', 'mean'])}')",
                   f"torch.index_put({a}, ({d.indices(a, 0)},), torch.ones((), dtype={a}.dtype))",
                   f"torch.index_put({a}, ({d.indices(a, 0)},), torch.ones((), dtype={a}.dtype), accumulate=True)", f"torch.select_scatter({a}, {a}.select({dim}, 0) * 2, {dim}, -1)",
                   f"torch.slice_scatter({a}, {a}.narrow({dim}, 0, 1), {dim}, 1, 2)", f"torch.diagonal_scatter({a}, torch.zeros_like({a}.diagonal()))",
                   f"torch.index_reduce({a}, {dim}, {index}, {a}.index_select({dim}, {index}), 'amax')", f"{a}.masked_scatter({a} > 0, {b}.flatten())"])


def product(d):
    a, b = d.real(), d.real()
    return d.pick([f"{a} @ {a}.mT", f"{a} @ {b}", f"torch.matmul({a}.mT, {a})", f"torch.einsum('...i,...i->...', {a}, {a})", f"torch.einsum('i...,i...->...', {a}, {a})",
                   f"torch.outer({a}.flatten(), {b}.flatten()[:4])", f"torch.kron({a}, torch.eye(2, dtype={a}.dtype))", f"torch.tensordot({a}, {a}, 1)", f"torch.trace({a})",
                   f"F.linear({a}, {a}.flatten(0, -2)[:3])", f"torch.dot({a}.flatten(), {a}.flatten())", f"torch.mv({a}, {a}[0])",
                   f"torch.baddbmm({a}, {a}, {a}, beta=0.5)", f"torch.addmm({a}, {a}, {a}.mT)", f"torch.linalg.multi_dot([{a}, {a}.mT, {a}])", f"torch.cdist({a}, {a})",
                   f"F.scaled_dot_product_attention({a}, {a}, {a})", f"F.scaled_dot_product_attention({a}, {a}, {a}, is_causal=True)", f"torch.bmm({a}, {a}.mT)",
                   f"F.linear({a}, torch.ones(3, {a}.shape[-1], dtype={a}.dtype), torch.zeros(3, dtype={a}.dtype))", f"torch.cov({a})", f"torch.linalg.cross({a}, {b})",
                   f"torch.chain_matmul({a}, {a}.mT)", f"torch.bilinear({a}, {a}, torch.ones(2, {a}.shape[-1], {a}.shape[-1]), None)", f"torch.inner({a}, {a})"])


def network(d):
    a = d.image()
    channels = f"{a}.shape[1]"
    kernel = f"torch.linspace(-1, 1, 4 * 9, dtype={a}.dtype).reshape(4, 1, 3, 3).expand(4, {channels}, 3, 3)"
    return d.pick([f"F.conv2d({a}, {kernel}, padding=1)", f"F.conv2d({a}, {kernel}, stride=2, padding=1)", f"F.conv2d({a}, {kernel}, padding=2, dilation=2)",
                   f"F.conv_transpose2d({a}, ({kernel}).transpose(0, 1), stride=2)", f"F.max_pool2d({a}, 2)", f"F.max_pool2d({a}, 3, 2, 1)", f"F.avg_pool2d({a}, 2, ceil_mode=True)",
                   f"F.avg_pool2d({a}, 3, 1, 1, count_include_pad=False)", f"F.adaptive_avg_pool2d({a}, 2)", f"F.adaptive_max_pool2d({a}, (1, 2))",
                   f"F.interpolate({a}, scale_factor=2)", f"F.interpolate({a}, scale_factor=2, mode='bilinear')", f"F.interpolate({a}, size=(5, 3), mode='bicubic', align_corners=True)",
                   f"F.interpolate({a}, size=(3, 5), mode='bilinear', antialias=True)", f"F.pixel_shuffle({a}.repeat(1, 4, 1, 1), 2)", f"F.pixel_unshuffle({a}, 2)",
                   f"F.unfold({a}, 2)", f"F.group_norm({a}, 1)", f"F.instance_norm({a})", f"F.batch_norm({a}, None, None, training=True)", f"F.lp_pool2d({a}, 2, 2)",
                   f"F.conv2d({a}, torch.ones({channels}, 1, 3, 3, dtype={a}.dtype), groups={channels}, padding=1)", f"F.local_response_norm({a}, 2)", f"F.pad({a}, (1, 1, 1, 1), 'reflect')",
                   f"F.grid_sample({a}, torch.zeros({a}.shape[0], 3, 3, 2, dtype={a}.dtype) + 0.3)", f"F.channel_shuffle({a}, 1)", f"F.conv1d({a}.flatten(2), ({kernel}).flatten(2), padding=4)",
                   f"F.max_unpool2d(*F.max_pool2d({a}, 2, return_indices=True), 2)", f"F.fold(F.unfold({a}, 2), {a}.shape[2:], 2)", f"torch.channel_shuffle({a}, 1)"])


def loss(d):
    a, b = d.pair(d.real())
    labels = f"({a}.flatten(1).argmax(1) % {a}.shape[1])"
    how = d.pick(["'mean'", "'sum'", "'none'"])
    return d.pick([f"F.mse_loss({a}, {b}, reduction={how})", f"F.l1_loss({a}, {b}, reduction={how})", f"F.smooth_l1_loss({a}, {b}, reduction={how})", f"F.huber_loss({a}, {b}, reduction={how})",
                   f"F.cross_entropy({a}.flatten(1), {labels})", f"F.nll_loss({a}.flatten(1).log_softmax(1), {labels}, reduction={how})", f"F.kl_div({a}, {b}, reduction={how})",
                   f"F.binary_cross_entropy_with_logits({a}, {b}, reduction={how})", f"F.binary_cross_entropy({a}.sigmoid(), {b}.sigmoid(), reduction={how})", f"F.poisson_nll_loss({a}, {b}, reduction={how})",
                   f"F.soft_margin_loss({a}, {b}.sign(), reduction={how})", f"F.cosine_embedding_loss({a}, {b}, torch.ones({a}.shape[0]))", f"F.triplet_margin_loss({a}, {b}, {a}.flip(0))",
                   f"F.gaussian_nll_loss({a}, {b}, {b}.abs() + 0.1)", f"F.hinge_embedding_loss({a}, {b}.sign(), reduction={how})", f"F.cross_entropy({a}.flatten(1), {a}.flatten(1).softmax(1), label_smoothing=0.1)",
                   f"F.margin_ranking_loss({a}, {b}, {b}.sign(), reduction={how})", f"F.multi_margin_loss({a}.flatten(1), {labels})"])


def linalg(d):
    a = d.matrix()
    safe = f"({a} @ {a}.mT + 3 * torch.eye({a}.shape[-2], dtype={a}.dtype))"
    return d.pick([f"torch.linalg.inv({safe})", f"torch.linalg.det({safe})", f"torch.linalg.cholesky({safe})", f"torch.linalg.solve({safe}, {a})", f"torch.linalg.slogdet({safe})[1]",
                   f"torch.linalg.eigvalsh({safe})", f"torch.linalg.svdvals({a})", f"torch.linalg.matrix_norm({a})", f"torch.linalg.matrix_power({safe}, 2)", f"torch.linalg.matrix_exp({a} * 0.1)",
                   f"torch.linalg.pinv({safe})", f"torch.linalg.qr({safe})[1].abs()", f"torch.linalg.solve_triangular({safe}.tril(), {a}, upper=False)", f"torch.logdet({safe})"])


def complex_numbers(d):
    a = d.real()
    return d.pick([f"torch.view_as_real(torch.fft.rfft({a}.float()))", f"torch.fft.irfft(torch.fft.rfft({a}.float()))", f"torch.view_as_real(torch.fft.fft2({a}.float()))",
                   f"torch.complex({a}.float(), {a}.float().flip(0)).abs()", f"torch.complex({a}.float(), {a}.float()).angle()", f"torch.polar({a}.float().abs(), {a}.float()).real",
                   f"torch.view_as_real(torch.complex({a}.float(), {a}.float()) * (1 + 2j))", f"torch.fft.fftshift({a})", f"(torch.exp(1j * {a}.float())).imag"])


def write(d):
    """A statement that changes a value in place."""
    a, b = d.pair(d.owned())
    dim = d.dim(a)
    return d.pick([f"{a}.add_({b})", f"{a}.mul_({d.pick(['2', '0.5', '-1'])})", f"{a}.copy_({b})", f"{a}.zero_()", f"{a}.fill_({d.pick(['1', '2.5', '-3'])})", f"{a}.clamp_(-1, 1)",
                   f"{a}[0] = {d.pick(['1', '0.5', '-2'])}", f"{a}[..., -1] += 1", f"{a}[::2] = {b}[::2]", f"{a}.narrow({dim}, 0, 1).mul_(3)", f"{a}.transpose(0, -1).add_(1)",
                   f"{a}[{a} > 0] = -1", f"{a}.masked_fill_({a} > 1, 0)", f"{a}.index_fill_({dim}, {d.indices(a, dim)}, 2)", f"{a}.select({dim}, 0).copy_({a}.select({dim}, -1))",
                   f"{a}.diagonal().fill_(4)", f"{a}.view(-1)[:2].sub_(1)", f"{a}.relu_()", f"{a}.unsqueeze(0).add_({b})", f"{a}.index_add_({dim}, {d.indices(a, dim)}, {a}.index_select({dim}, {d.indices(a, dim)}))",
                   f"{a}.chunk(2, {dim})[0].neg_()", f"{a}[{d.indices(a, 0)}] = {d.pick(['1', '-1'])}", f"{a}.index_put_(({d.indices(a, 0)},), torch.ones((), dtype={a}.dtype), accumulate=True)",
                   f"{a}.cumsum_({dim})", f"{a}.tril_()", f"{a}.scatter_({dim}, ({a} * 0).to(torch.int64), 3)", f"{a}.addcmul_({b}, {b})", f"{a}.lerp_({b}, 0.25)", f"{a}.sigmoid_()", f"{a}.round_()"])


# How often each is tried.
EXPRESSIONS = [(float_unary, 8), (int_unary, 2), (activation, 5), (binary, 9), (scalar_binary, 8), (int_binary, 3), (shift, 1), (comparison, 2), (logical, 2), (where, 4), (cast, 5),
               (reduction, 8), (extremum, 6), (softmax, 4), (view, 12), (pad, 2), (join, 4), (indexing, 5), (scatter, 4), (product, 5), (network, 4), (loss, 2), (linalg, 2),
               (complex_numbers, 1)]
