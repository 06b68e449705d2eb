// Running sums, products and extrema along a dim.
#include "formula/basics/over_dims.h"
#include "formula/basics/precision.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"

namespace toroid {
namespace {

template <ScanOp op>
std::vector<Tensor> running(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  const bool keeps_integers = op == ScanOp::Sum || op == ScanOp::Prod;
  DType dtype = is_floating(along.x.dtype()) ? along.x.dtype() : keeps_integers ? DType::I64 : DType::F32;
  if (has_parameter(a, "dtype")) dtype = a.dtype("dtype").value_or(dtype);
  Tensor result = d.b.scan(op, d.b.cast(along.x, compute_dtype(dtype)), along.dim)[0];
  return along.results({d.b.cast(result, dtype)});
}

template <ScanOp op>
std::vector<Tensor> running_extremum(Decomposer& d, const Args& a) {
  const AlongDim along = along_dim(require_real(a.tensor("self")), a.constant("dim"));
  return along.results(d.b.scan(op, along.x, along.dim));
}

constexpr DecompositionRow kScanRows[] = {
    {"aten::cumsum", running<ScanOp::Sum>},
    {"aten::cumprod", running<ScanOp::Prod>},
    {"aten::logcumsumexp", running<ScanOp::LogAddExp>},
    {"aten::_logcumsumexp", running<ScanOp::LogAddExp>},
    {"aten::cummax", running_extremum<ScanOp::Max>},
    {"aten::cummin", running_extremum<ScanOp::Min>},
};

}  // namespace

std::span<const DecompositionRow> scan_rows() { return kScanRows; }

}  // namespace toroid
