#include "frontend/pt2/autocast.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::pt2 {
namespace {

// Names within aten, sorted. `Lower`: in the lower precision; `F32`: in F32; `Promote`: in F32 when any tensor is F32.
constexpr std::string_view kCpuLower[] = {"_addmm_activation",
                                          "_convolution.deprecated",
                                          "_native_multi_head_attention",
                                          "addbmm",
                                          "addmm",
                                          "baddbmm",
                                          "bmm",
                                          "conv1d",
                                          "conv1d.padding",
                                          "conv2d",
                                          "conv2d.padding",
                                          "conv3d",
                                          "conv3d.padding",
                                          "conv_tbc",
                                          "conv_transpose1d",
                                          "conv_transpose2d.input",
                                          "conv_transpose3d.input",
                                          "linalg_vecdot",
                                          "linear",
                                          "matmul",
                                          "mkldnn_rnn_layer",
                                          "mm",
                                          "prelu",
                                          "scaled_dot_product_attention"};
constexpr std::string_view kCpuF32[] = {"_grid_sampler_2d_cpu_fallback",
                                        "_lu_with_info",
                                        "adaptive_avg_pool3d",
                                        "adaptive_max_pool3d",
                                        "avg_pool3d",
                                        "binary_cross_entropy",
                                        "binary_cross_entropy_with_logits",
                                        "cdist",
                                        "cholesky_inverse",
                                        "cholesky_solve",
                                        "cosine_embedding_loss",
                                        "cross_entropy_loss",
                                        "ctc_loss.IntList",
                                        "ctc_loss.Tensor",
                                        "fake_quantize_per_tensor_affine",
                                        "fft_fft",
                                        "fft_fft2",
                                        "fft_fftn",
                                        "fft_hfft",
                                        "fft_ifft",
                                        "fft_ifft2",
                                        "fft_ifftn",
                                        "fft_ihfft",
                                        "fft_irfft",
                                        "fft_irfft2",
                                        "fft_irfftn",
                                        "fft_rfft",
                                        "fft_rfft2",
                                        "fft_rfftn",
                                        "fractional_max_pool2d",
                                        "fractional_max_pool3d",
                                        "geqrf",
                                        "grid_sampler",
                                        "grid_sampler_2d",
                                        "grid_sampler_3d",
                                        "hinge_embedding_loss",
                                        "huber_loss",
                                        "inverse",
                                        "kl_div",
                                        "l1_loss",
                                        "linalg_cholesky",
                                        "linalg_cholesky_ex",
                                        "linalg_cond",
                                        "linalg_cond.p_str",
                                        "linalg_eig",
                                        "linalg_eigh",
                                        "linalg_eigvals",
                                        "linalg_eigvalsh",
                                        "linalg_householder_product",
                                        "linalg_inv",
                                        "linalg_inv_ex",
                                        "linalg_lstsq",
                                        "linalg_matrix_rank",
                                        "linalg_matrix_rank.atol_rtol_float",
                                        "linalg_matrix_rank.atol_rtol_tensor",
                                        "linalg_matrix_rank.tol_tensor",
                                        "linalg_matrix_sqrth",
                                        "linalg_qr",
                                        "linalg_solve",
                                        "linalg_svd",
                                        "linalg_svdvals",
                                        "linalg_tensorinv",
                                        "linalg_tensorsolve",
                                        "lu_solve",
                                        "margin_ranking_loss",
                                        "max_pool3d",
                                        "max_unpool2d",
                                        "max_unpool3d",
                                        "mse_loss",
                                        "multi_margin_loss",
                                        "multilabel_margin_loss",
                                        "multilabel_margin_loss_forward",
                                        "nanquantile",
                                        "nanquantile.scalar",
                                        "nll_loss",
                                        "nll_loss2d",
                                        "orgqr",
                                        "ormqr",
                                        "pinverse",
                                        "poisson_nll_loss",
                                        "polar",
                                        "prod",
                                        "prod.dim_int",
                                        "quantile",
                                        "quantile.scalar",
                                        "reflection_pad1d",
                                        "reflection_pad2d",
                                        "replication_pad1d",
                                        "replication_pad2d",
                                        "replication_pad3d",
                                        "smooth_l1_loss",
                                        "soft_margin_loss",
                                        "stft",
                                        "stft.center",
                                        "svd",
                                        "trace",
                                        "triangular_solve",
                                        "triplet_margin_loss",
                                        "view_as_complex"};
constexpr std::string_view kCpuPromote[] = {"cat", "index_copy", "stack"};
constexpr std::string_view kCudaLower[] = {"_convolution",
                                           "_convolution.deprecated",
                                           "_cudnn_rnn",
                                           "_scaled_dot_product_flash_attention",
                                           "_thnn_fused_gru_cell",
                                           "_thnn_fused_lstm_cell",
                                           "addbmm",
                                           "addmm",
                                           "addmv",
                                           "addr",
                                           "baddbmm",
                                           "bmm",
                                           "chain_matmul",
                                           "conv1d",
                                           "conv2d",
                                           "conv3d",
                                           "conv_tbc",
                                           "conv_transpose1d",
                                           "conv_transpose2d.input",
                                           "conv_transpose3d.input",
                                           "convolution",
                                           "cudnn_convolution",
                                           "cudnn_convolution_transpose",
                                           "einsum",
                                           "gru_cell",
                                           "linalg_multi_dot",
                                           "linalg_vecdot",
                                           "linear",
                                           "lstm_cell",
                                           "matmul",
                                           "mm",
                                           "mv",
                                           "prelu",
                                           "rnn_relu_cell",
                                           "rnn_tanh_cell",
                                           "scaled_dot_product_attention"};
constexpr std::string_view kCudaF32[] = {"_upsample_bicubic2d_aa",
                                         "_upsample_bilinear2d_aa",
                                         "_upsample_nearest_exact1d",
                                         "_upsample_nearest_exact2d",
                                         "_upsample_nearest_exact3d",
                                         "acos",
                                         "asin",
                                         "binary_cross_entropy_with_logits",
                                         "cdist",
                                         "cosh",
                                         "cosine_embedding_loss",
                                         "cosine_similarity",
                                         "dist",
                                         "erfinv",
                                         "exp",
                                         "expm1",
                                         "frobenius_norm.dim",
                                         "group_norm",
                                         "hinge_embedding_loss",
                                         "huber_loss",
                                         "kl_div",
                                         "l1_loss",
                                         "layer_norm",
                                         "linalg_matrix_sqrth",
                                         "log",
                                         "log10",
                                         "log1p",
                                         "log2",
                                         "logsumexp",
                                         "margin_ranking_loss",
                                         "mse_loss",
                                         "multi_margin_loss",
                                         "multilabel_margin_loss",
                                         "native_layer_norm",
                                         "nll_loss",
                                         "nll_loss2d",
                                         "nuclear_norm",
                                         "nuclear_norm.dim",
                                         "pdist",
                                         "poisson_nll_loss",
                                         "pow.Scalar",
                                         "pow.Tensor_Scalar",
                                         "pow.Tensor_Tensor",
                                         "reciprocal",
                                         "renorm",
                                         "rms_norm",
                                         "rsqrt",
                                         "sinh",
                                         "smooth_l1_loss",
                                         "soft_margin_loss",
                                         "softplus",
                                         "tan",
                                         "triplet_margin_loss",
                                         "upsample_bicubic2d",
                                         "upsample_bilinear2d",
                                         "upsample_linear1d",
                                         "upsample_nearest1d",
                                         "upsample_nearest2d",
                                         "upsample_nearest3d",
                                         "upsample_trilinear3d"};
// In F32 unless their argument `dtype` says otherwise; only the first tensor counts.
constexpr std::string_view kCudaF32Sums[] = {"cumprod",
                                             "cumsum",
                                             "linalg_matrix_norm",
                                             "linalg_matrix_norm.str_ord",
                                             "linalg_vector_norm",
                                             "log_softmax.int",
                                             "norm.Scalar",
                                             "norm.ScalarOpt_dim",
                                             "prod",
                                             "prod.dim_int",
                                             "softmax.int",
                                             "sum",
                                             "sum.dim_IntList"};
constexpr std::string_view kCudaPromote[] = {"addcdiv",      "addcmul",   "atan2",       "bilinear",  "cross", "dot",
                                             "grid_sampler", "index_put", "scatter_add", "tensordot", "vdot"};
// Made of products alone, which the lists above have: converting the inputs does the same.
constexpr std::string_view kProducts[] = {"chain_matmul", "einsum", "inner", "linalg_matmul", "linalg_multi_dot", "tensordot"};

template <size_t N>
constexpr bool is_sorted(const std::string_view (&names)[N]) {
  return std::is_sorted(std::begin(names), std::end(names));
}
static_assert(is_sorted(kCpuLower) && is_sorted(kCpuF32) && is_sorted(kCpuPromote) && is_sorted(kCudaLower) && is_sorted(kCudaF32) &&
              is_sorted(kCudaF32Sums) && is_sorted(kCudaPromote) && is_sorted(kProducts));

template <size_t N>
bool has(const std::string_view (&names)[N], std::string_view name) {
  return std::binary_search(std::begin(names), std::end(names), name);
}

enum class Policy { None, Lower, F32, F32Sum, Promote };

Policy policy_of(Device::Type device, std::string_view op) {
  if (!op.starts_with("aten::")) return Policy::None;
  const std::string_view name = op.substr(6);
  if (device == Device::Type::Cpu) {
    if (has(kCpuLower, name)) return Policy::Lower;
    if (has(kCpuF32, name)) return Policy::F32;
    return has(kCpuPromote, name) ? Policy::Promote : Policy::None;
  }
  if (has(kCudaLower, name)) return Policy::Lower;
  if (has(kCudaF32, name)) return Policy::F32;
  if (has(kCudaF32Sums, name)) return Policy::F32Sum;
  return has(kCudaPromote, name) ? Policy::Promote : Policy::None;
}

bool is_dtype_given(const Schema& schema, std::span<const Argument> arguments) {
  for (size_t p = 0; p < arguments.size(); ++p) {
    if (schema.parameters[p].name == "dtype") return !std::holds_alternative<None>(arguments[p]);
  }
  return false;
}

bool is_conversion(const Schema& schema, std::span<const Argument> arguments) {
  constexpr std::string_view kConversions[] = {"aten::to", "aten::type_as", "aten::_to_copy", "aten::_autocast_to_reduced_precision"};
  const std::string_view base = std::string_view(schema.name).substr(0, schema.name.find('.'));
  return is_dtype_given(schema, arguments) || std::find(std::begin(kConversions), std::end(kConversions), base) != std::end(kConversions);
}

}  // namespace

std::vector<DType> autocast_inputs(const Autocast& autocast, const Schema& schema, std::span<const Argument> arguments,
                                   std::span<const TensorType> inputs, std::span<const TensorType> results) {
  std::vector<DType> dtypes;
  for (const TensorType& input : inputs) dtypes.push_back(input.dtype);
  for (const Device::Type device : {Device::Type::Cpu, Device::Type::Cuda}) {
    const Autocast::Region& region = autocast.of(device);
    if (!region.enabled) continue;
    auto is_eligible = [&](size_t i) {
      return inputs[i].device.type == device && is_floating(inputs[i].dtype) && inputs[i].dtype != DType::F64;
    };
    auto any = [&](DType dtype) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (is_eligible(i) && inputs[i].dtype == dtype) return true;
      }
      return false;
    };
    auto convert_all = [&](DType dtype) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (is_eligible(i)) dtypes[i] = dtype;
      }
    };
    switch (policy_of(device, schema.name)) {
      case Policy::Lower: convert_all(region.dtype); break;
      case Policy::F32: convert_all(DType::F32); break;
      case Policy::Promote: convert_all(any(DType::F32) ? DType::F32 : region.dtype); break;
      case Policy::F32Sum:
        if (!inputs.empty() && is_eligible(0) && !is_dtype_given(schema, arguments)) dtypes[0] = DType::F32;
        break;
      case Policy::None: {
        // What PyTorch computes by way of listed operators has a result that its inputs do not explain.
        if (results.empty() || results[0].dtype != region.dtype || !any(DType::F32)) break;
        if (schema.name.starts_with("aten::") && has(kProducts, std::string_view(schema.name).substr(6))) {
          convert_all(region.dtype);
          break;
        }
        if (any(region.dtype) || is_conversion(schema, arguments)) break;
        throw Error(ErrorKind::Unsupported, fmt::format("{} under autocast: PyTorch converts what it is made of", schema.name))
            .help("export the model with run_decompositions({}) after torch.export.export, or without autocast");
      }
    }
  }
  return dtypes;
}

}  // namespace toroid::pt2
