// Calls of operators whose tensors must fit each other in ways that names do not tell. hostile_call() begins with them.
#include "hostile/plausible_calls.h"

#include <map>

#include <fmt/format.h>

#include "graph/text/text.h"

namespace toroid::hostile {
namespace {

struct Row {
  const char* inputs;
  const char* call;  // one an operator: its overloads take the arguments that they have in common
};

constexpr Row kRows[] = {
    // convolutions
    {"x: f32[2, 4, 8], w: f32[6, 2, 3], b: f32[6]", "aten::conv1d(x, w, b, [1], [0], [1], 2)"},
    {"x: f32[2, 4, 6, 5], w: f32[6, 2, 3, 3], b: f32[6]", "aten::conv2d(x, w, b, [1, 2], [0, 1], [1, 1], 2)"},
    {"x: f32[1, 2, 4, 4, 4], w: f32[3, 2, 2, 2, 2], b: f32[3]", "aten::conv3d(x, w, b)"},
    {"x: f32[2, 4, 6], w: f32[4, 3, 3], b: f32[3]", "aten::conv_transpose1d(x, w, b, [2], [1], [1])"},
    {"x: f32[2, 4, 3, 5], w: f32[4, 3, 2, 3], b: f32[3]", "aten::conv_transpose2d.input(x, w, b, [2, 1])"},
    {"x: f32[1, 2, 3, 3, 3], w: f32[2, 3, 2, 2, 2], b: f32[3]", "aten::conv_transpose3d.input(x, w, b)"},
    {"x: f32[2, 4, 8], w: f32[6, 4, 3], b: f32[6]", "aten::convolution(x, w, b, [2], [1], [1], false, [0], 1)"},
    {"x: f32[2, 4, 8], w: f32[6, 4, 3], b: f32[6]", "aten::convolution_overrideable(x, w, b, [2], [1], [1], false, [0], 1)"},
    {"x: f32[2, 4, 8], w: f32[6, 4, 3], b: f32[6]", "aten::_convolution(x, w, b, [2], [1], [1], false, [0], 1, false, false, true, true)"},
    {"x: f32[2, 4, 8], w: f32[6, 4, 3], b: f32[6]", "aten::_convolution_mode(x, w, b, [1], \"same\", [1], 1)"},
    {"g: f32[2, 6, 4], x: f32[2, 4, 8], w: f32[6, 4, 3]",
     "aten::convolution_backward(g, x, w, [6], [2], [1], [1], false, [0], 1, [true, true, true])"},
    {"x: f32[2, 4, 8], w: f32[6, 4, 3], b: f32[6]", "aten::mkldnn_convolution(x, w, b, [1], [2], [1], 1)"},
    {"x: f32[5, 2, 4], w: f32[3, 4, 6], b: f32[6]", "aten::conv_tbc(x, w, b, 1)"},
    {"x: f32[1, 4, 5, 5], w: f32[4, 1, 3, 3], b: f32[4]", "aten::_conv_depthwise2d(x, w, [3, 3], b, [1, 1], [1, 1], [1, 1])"},
    {"x: f32[1, 4, 3, 3, 3], w: f32[4, 1, 2, 2, 2], b: f32[4]",
     "aten::conv_depthwise3d(x, w, [2, 2, 2], b, [1, 1, 1], [0, 0, 0], [1, 1, 1])"},
    {"x: f32[1, 4, 5, 5], w: f32[3, 4, 3, 3], b: f32[3]", "aten::_slow_conv2d_forward(x, w, [3, 3], b, [1, 1], [1, 1])"},
    {"x: f32[1, 2, 3, 3, 3], w: f32[3, 2, 2, 2, 2], b: f32[3]", "aten::slow_conv3d(x, w, [2, 2, 2], b)"},
    {"x: f32[1, 2, 3, 3, 3], w: f32[3, 2, 2, 2, 2], b: f32[3]", "aten::slow_conv3d_forward(x, w, [2, 2, 2], b, [1, 1, 1], [0, 0, 0])"},
    {"x: f32[1, 4, 5, 5], w: f32[3, 4, 3, 3], b: f32[3]", "aten::slow_conv_dilated2d(x, w, [3, 3], b, [1, 1], [2, 2], [2, 2])"},
    {"x: f32[1, 2, 3, 3, 3], w: f32[3, 2, 2, 2, 2], b: f32[3]", "aten::slow_conv_dilated3d(x, w, [2, 2, 2], b)"},
    {"x: f32[1, 4, 3, 3], w: f32[4, 3, 2, 2], b: f32[3]", "aten::slow_conv_transpose2d(x, w, [2, 2], b)"},
    {"x: f32[1, 2, 3, 3, 3], w: f32[2, 3, 2, 2, 2], b: f32[3]", "aten::slow_conv_transpose3d(x, w, [2, 2, 2], b)"},
    {"x: f32[1, 4, 5, 5], w: f32[3, 4, 2, 2], o: f32[1, 8, 4, 4], m: f32[1, 4, 4, 4], b: f32[3]",
     "torchvision::deform_conv2d(x, w, o, m, b, 1, 1, 0, 0, 1, 1, 1, 1, true)"},
    {"g: f32[1, 3, 4, 4], x: f32[1, 4, 5, 5], w: f32[3, 4, 2, 2], o: f32[1, 8, 4, 4], m: f32[1, 4, 4, 4], b: f32[3]",
     "torchvision::_deform_conv2d_backward(g, x, w, o, m, b, 1, 1, 0, 0, 1, 1, 1, 1, true)"},
    {"x: f32[2, 3, 5, 5]", "aten::im2col(x, [2, 2], [1, 1], [1, 1], [1, 1])"},
    {"x: f32[2, 12, 16]", "aten::col2im(x, [5, 5], [2, 2], [1, 1], [0, 0], [1, 1])"},
    // cells
    {"x: f32[2, 3], h: f32[2, 4], i: f32[12, 3], w: f32[12, 4], b: f32[12], c: f32[12]", "aten::gru_cell(x, h, i, w, b, c)"},
    {"x: f32[2, 3], h: f32[2, 4], d: f32[2, 4], i: f32[16, 3], w: f32[16, 4], b: f32[16], c: f32[16]",
     "aten::lstm_cell(x, [h, d], i, w, b, c)"},
    {"x: f32[2, 3], h: f32[2, 4], i: f32[4, 3], w: f32[4, 4], b: f32[4], c: f32[4]", "aten::rnn_tanh_cell(x, h, i, w, b, c)"},
    {"x: f32[2, 3], h: f32[2, 4], i: f32[4, 3], w: f32[4, 4], b: f32[4], c: f32[4]", "aten::rnn_relu_cell(x, h, i, w, b, c)"},
    {"x: f32[5, 2, 3], h: f32[1, 2, 4], i: f32[12, 3], w: f32[12, 4], b: f32[12], c: f32[12]",
     "aten::gru.input(x, h, [i, w, b, c], true, 1, 0.0, false, false, false)"},
    {"x: f32[5, 2, 3], h: f32[1, 2, 4], d: f32[1, 2, 4], i: f32[16, 3], w: f32[16, 4], b: f32[16], c: f32[16]",
     "aten::lstm.input(x, [h, d], [i, w, b, c], true, 1, 0.0, false, false, false)"},
    {"x: f32[5, 2, 3], h: f32[1, 2, 4], i: f32[4, 3], w: f32[4, 4], b: f32[4], c: f32[4]",
     "aten::rnn_tanh.input(x, h, [i, w, b, c], true, 1, 0.0, false, false, false)"},
    {"x: f32[5, 2, 3], h: f32[1, 2, 4], i: f32[4, 3], w: f32[4, 4], b: f32[4], c: f32[4]",
     "aten::rnn_relu.input(x, h, [i, w, b, c], true, 1, 0.0, false, false, false)"},
    // matrices
    {"a: f32[4, 4]", "aten::linalg_eig(a)"},
    {"a: f32[4, 4]", "aten::linalg_eigvals(a)"},
    {"a: f32[4, 4]", "aten::_linalg_eigvals(a)"},
    {"a: f32[4, 4]", "aten::linalg_cholesky_ex(a)"},
    {"a: f32[4, 4]", "aten::linalg_cond.p_str(a, \"fro\")"},
    {"a: f32[4, 4], b: f32[4, 2]", "aten::linalg_solve_triangular(a, b, upper=true)"},
    {"a: f32[4, 4], p: i32[4], b: f32[4, 2]", "aten::linalg_ldl_solve(a, p, b)"},
    {"a: f32[4, 4], p: i32[4], b: f32[4, 2]", "aten::linalg_lu_solve(a, p, b)"},
    {"b: f32[4, 2], a: f32[4, 4], p: i32[4]", "aten::lu_solve(b, a, p)"},
    {"a: f32[4, 4], p: i32[4]", "aten::lu_unpack(a, p)"},
    {"a: f32[4, 3], t: f32[3]", "aten::linalg_householder_product(a, t)"},
    {"a: f32[4, 3], t: f32[3]", "aten::orgqr(a, t)"},
    {"a: f32[4, 3], t: f32[3], b: f32[4, 2]", "aten::ormqr(a, t, b)"},
    {"a: f32[2, 3, 6]", "aten::linalg_tensorinv(a, 2)"},
    {"a: f32[2, 3, 6], b: f32[2, 3]", "aten::linalg_tensorsolve(a, b)"},
    {"a: f32[4, 3, 2], b: f32[3, 4, 5]", "aten::tensordot(a, b, [1, 0], [0, 1])"},
    {"a: f32[2, 3], b: f32[2, 4], w: f32[5, 3, 4], c: f32[5]", "aten::bilinear(a, b, w, c)"},
    {"a: f32[4, 3], b: f32[4], c: f32[3]", "aten::addr_(a, b, c)"},
    {"a: f32[4, 3], b: f32[2, 4, 5], c: f32[2, 5, 3]", "aten::addbmm(a, b, c)"},
    {"a: f32[6, 4], w: f32[2, 4, 3], o: i32[2]", "transformers::grouped_mm_fallback(a, w, o)"},
    // pools and resampling, and their gradients
    {"x: f32[1, 2, 4, 4, 4]", "aten::avg_pool3d(x, [2, 2, 2])"},
    {"g: f32[1, 2, 2, 2, 2], x: f32[1, 2, 4, 4, 4]", "aten::avg_pool3d_backward(g, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], false, true, none)"},
    {"x: f32[1, 2, 4, 4, 4]", "aten::max_pool3d_with_indices(x, [2, 2, 2])"},
    {"g: f32[1, 2, 2, 2, 2], x: f32[1, 2, 4, 4, 4], i: i64[1, 2, 2, 2, 2]",
     "aten::max_pool3d_with_indices_backward(g, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], false, i)"},
    {"g: f32[1, 2, 2, 2], x: f32[1, 2, 4, 4]", "aten::max_pool2d_backward(g, x, [2, 2], [2, 2])"},
    {"x: f32[1, 2, 4, 4, 4], r: f32[1, 2, 3]", "aten::fractional_max_pool3d(x, [2, 2, 2], [2, 2, 2], r)"},
    {"g: f32[1, 2, 6, 6]", "aten::upsample_nearest2d_backward(g, [6, 6], [1, 2, 3, 3])"},
    {"g: f32[1, 2, 4, 6, 6]", "aten::upsample_nearest3d_backward(g, [4, 6, 6], [1, 2, 2, 3, 3])"},
    {"g: f32[1, 2, 6, 6]", "aten::upsample_bicubic2d_backward(g, [6, 6], [1, 2, 3, 3], false)"},
    {"g: f32[1, 2, 4, 6, 6]", "aten::upsample_trilinear3d_backward(g, [4, 6, 6], [1, 2, 2, 3, 3], false)"},
    {"g: f32[1, 2, 6]", "aten::_upsample_nearest_exact1d_backward(g, [6], [1, 2, 3])"},
    {"g: f32[1, 2, 4, 6, 6]", "aten::_upsample_nearest_exact3d_backward(g, [4, 6, 6], [1, 2, 2, 3, 3])"},
    {"t: f32[2, 2, 3]", "aten::affine_grid_generator(t, [2, 1, 4, 4], false)"},
    {"x: f32[1, 2, 6, 6], r: f32[3, 5]", "torchvision::roi_align(x, r, 1.0, 2, 2, 2, false)"},
    {"x: f32[1, 2, 6, 6], r: f32[3, 5]", "torchvision::roi_pool(x, r, 1.0, 2, 2)"},
    {"x: f32[1, 8, 6, 6], r: f32[3, 5]", "torchvision::ps_roi_align(x, r, 1.0, 2, 2, 2)"},
    {"x: f32[1, 8, 6, 6], r: f32[3, 5]", "torchvision::ps_roi_pool(x, r, 1.0, 2, 2)"},
    {"g: f32[3, 2, 2, 2], r: f32[3, 5]", "torchvision::_roi_align_backward(g, r, 1.0, 2, 2, 1, 2, 6, 6, 2, false)"},
    {"g: f32[3, 2, 2, 2], r: f32[3, 5], a: i32[3, 2, 2, 2]", "torchvision::_roi_pool_backward(g, r, a, 1.0, 2, 2, 1, 2, 6, 6)"},
    {"d: f32[5, 4], s: f32[5]", "torchvision::nms(d, s, 0.5)"},
    // losses and norms
    {"x: f32[4, 3], t: i64[4], w: f32[3]", "aten::nll_loss(x, t, w)"},
    {"x: f32[4, 3], t: i64[4], w: f32[3]", "aten::nll_loss_forward(x, t, w, 1, -100)"},
    {"g: f32[], x: f32[4, 3], t: i64[4], w: f32[3], s: f32[]", "aten::nll_loss_backward(g, x, t, w, 1, -100, s)"},
    {"g: f32[], x: f32[2, 3, 4, 4], t: i64[2, 4, 4], w: f32[3], s: f32[]", "aten::nll_loss2d_backward(g, x, t, w, 1, -100, s)"},
    {"g: f32[], x: f32[4, 3], t: i64[4], w: f32[3]", "aten::multi_margin_loss_backward(g, x, t, 1, 1.0, w)"},
    {"l: f32[5, 2, 4], t: i64[2, 3]", "aten::_ctc_loss(l, t, [5, 5], [3, 2])"},
    {"g: f32[2], l: f32[5, 2, 4], t: i64[2, 3], n: f32[2], a: f32[2, 5, 7]", "aten::_ctc_loss_backward(g, l, t, [5, 5], [3, 2], n, a, 0)"},
    {"g: f32[2, 3, 4], x: f32[2, 3, 4], w: f32[3], m: f32[3], v: f32[3], s: f32[3], i: f32[3]",
     "aten::native_batch_norm_backward(g, x, w, m, v, s, i, true, 1e-05, [true, true, true])"},
    {"g: f32[2, 3, 4], x: f32[2, 3, 4], w: f32[3], m: f32[3], v: f32[3], s: f32[3], i: f32[3], r: u8[0]",
     "aten::batch_norm_backward(g, x, w, m, v, s, i, true, 1e-05, [true, true, true], r)"},
    {"g: f32[2, 3, 4], x: f32[2, 3, 4], w: f32[3], m: f32[3], v: f32[3], s: f32[3], i: f32[3], r: u8[0]",
     "aten::cudnn_batch_norm_backward(x, g, w, m, v, s, i, 1e-05, r)"},
    {"g: f32[2, 3, 4], x: f32[2, 3, 4], w: f32[3], m: f32[3], v: f32[3], s: f32[3], i: f32[3]",
     "aten::miopen_batch_norm_backward(x, g, w, m, v, s, i, 1e-05)"},
    {"g: f32[2, 4, 3], x: f32[2, 4, 3], m: f32[2, 2], r: f32[2, 2], w: f32[4]",
     "aten::native_group_norm_backward(g, x, m, r, w, 2, 4, 3, 2, [true, true, true])"},
    // attention
    {"g: f32[1, 2, 4, 8], q: f32[1, 2, 4, 8], k: f32[1, 2, 4, 8], v: f32[1, 2, 4, 8], o: f32[1, 2, 4, 8], l: f32[1, 2, 4]",
     "aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, o, l, 0.0, false)"},
    {"q: f32[2, 3, 8], w: f32[24, 8], b: f32[24], p: f32[8, 8], c: f32[8]",
     "aten::_native_multi_head_attention(q, q, q, 8, 2, w, b, p, c)"},
    {"x: f32[2, 3, 8], w: f32[24, 8], b: f32[24], p: f32[8, 8], c: f32[8], f: f32[16, 8], d: f32[16], h: f32[8, 16]",
     "aten::_transformer_encoder_layer_fwd(x, 8, 2, w, b, p, c, false, false, 1e-05, c, c, c, c, f, d, h, c)"},
    // moves, spectra, numbers of samples
    {"x: f32[4, 5], i: i64[2, 3], s: f32[2, 3]", "aten::scatter.reduce(x, 0, i, s, reduce=\"add\")"},
    {"x: f32[4, 5], i: i64[2, 3], s: f32[2, 3]", "aten::scatter_.reduce(x, 0, i, s, reduce=\"multiply\")"},
    {"x: f32[4, 5], i: i64[2, 3], s: f32[2, 3]", "aten::scatter_reduce.two(x, 0, i, s, \"amax\")"},
    {"x: f32[4, 5], i: i64[2], s: f32[2, 5]", "aten::index_reduce(x, 0, i, s, \"prod\")"},
    {"x: f32[3, 4]", "aten::permute_copy(x, [1, 0])"},
    {"x: f32[3, 4]", "prims::broadcast_in_dim(x, [3, 2, 4], [0, 2])"},
    {"x: f32[4]", "aten::split_with_sizes_copy(x, [1, 3])"},
    {"x: f32[4]", "aten::unsafe_split_with_sizes(x, [1, 3])"},
    {"g: f32[4]", "aten::select_backward(g, [3, 4], 0, 1)"},
    {"g: f32[]", "aten::trace_backward(g, [3, 4])"},
    {"g: f32[2, 3]", "aten::unfold_backward(g, [5], 0, 3, 2)"},
    {"x: f32[4, 6]", "aten::_fft_r2c(x, [1], 0, true)"},
    {"x: f32[4, 6]", "aten::fft_hfft2(x)"},
    {"x: f32[4, 6]", "aten::fft_irfft2(x)"},
    {"x: f32[2, 16], w: f32[8]", "aten::stft.center(x, 8, 4, 8, w, return_complex=true)"},
    {"a: f32[3, 4], b: f32[3, 4]", "aten::complex(a, b)"},
    {"x: f32[6, 2], q: f32[3]", "aten::quantile(x, q, 0)"},
    {"x: f32[6, 2]", "aten::_histogramdd_bin_edges(x, [3, 4])"},
    {"x: f32[4, 8], s: f32[4, 2], z: i32[4, 2]", "quantized_decomposed::quantize_per_channel_group(x, s, z, -8, 7, dtype.i8, 4)"},
    {"x: f32[4], s: f32[], z: i64[], l: i64[], m: i64[]", "quantized_decomposed::quantize_per_tensor.tensor2(x, s, z, l, m, dtype.i8)"},
};

std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

std::optional<PlausibleCall> plausible_call(const Schema& schema) {
  static const auto rows = [] {
    std::map<std::string_view, const Row*> by_name;
    for (const Row& row : kRows) {
      const std::string_view call = row.call;
      const std::string_view name = call.substr(0, call.find('('));
      by_name.emplace(name, &row);
      by_name.emplace(without_overload(name), &row);
    }
    return by_name;
  }();
  auto found = rows.find(schema.name);
  if (found == rows.end()) found = rows.find(without_overload(schema.name));
  if (found == rows.end()) return std::nullopt;
  const Program program =
      parse_text(fmt::format("graph({}) {{\n  out: f32[] = {}\n  return out\n}}\n", found->second->inputs, found->second->call));
  PlausibleCall call;
  for (const Node& node : program.graph.nodes()) {
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr) continue;
    call.schema = aten->schema;
    call.arguments = aten->arguments;
    for (ValueId input : node.inputs) call.inputs.push_back(program.graph.type(input));
  }
  return call;
}

}  // namespace toroid::hostile
