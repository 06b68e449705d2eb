#include "interp/compare.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "interp/movement.h"
#include "support/match.h"

namespace toroid {

std::string element_text(const HostTensor& tensor, int64_t index) {
  if (tensor.dtype() == DType::Bool) return tensor.bool_at(index) ? "true" : "false";
  if (!is_floating(tensor.dtype())) return std::to_string(tensor.int_at(index));
  return fmt::format("{:.8g}", tensor.double_at(index));
}

std::string position_text(int64_t index, std::span<const int64_t> sizes) {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; index /= sizes[d]) position[d] = index % sizes[d];
  return sizes.empty() ? "" : fmt::format(" {}", shape_text(position));
}

namespace {

// The largest finite magnitude of each row of the last dim.
std::vector<double> row_scales(const std::vector<double>& values, std::span<const int64_t> sizes) {
  const auto length = static_cast<size_t>(sizes.empty() ? 1 : sizes.back());
  std::vector<double> scales(length == 0 ? 0 : values.size() / length, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    double& scale = scales[i / length];
    if (std::isfinite(values[i])) scale = std::max(scale, std::fabs(values[i]));
  }
  return scales;
}

std::vector<double> as_doubles(const HostTensor& tensor) {
  if (is_floating(tensor.dtype())) return tensor.to_doubles();
  const std::vector<int64_t> integers = tensor.to_ints();
  return {integers.begin(), integers.end()};
}

bool sums_or_multiplies(const Op& op) {
  return match(
      op,  //
      [](const Reduce& reduce) { return reduce.op == ReduceOp::Sum || reduce.op == ReduceOp::Prod || reduce.op == ReduceOp::MeanM2; },
      [](const Scan& scan) { return scan.op != ScanOp::Max && scan.op != ScanOp::Min; },
      [](const Scatter& scatter) { return scatter.mode == ScatterMode::Add || scatter.mode == ScatterMode::Mul; },
      [](const Matmul&) { return true; }, [](const Convolution&) { return true; }, [](const Attention&) { return true; },
      [](const Library&) { return true; }, [](const HigherOrder&) { return true; },  // its subgraphs may
      [](const auto&) { return false; });
}

}  // namespace

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return {1e-7, 1e-7};
    case DType::F32: return {1e-4, 1e-5};
    case DType::F16:
    case DType::BF16: return {2e-2, 2e-2};
    default: return {};
  }
}

Differences compare_elements(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance, bool by_row) {
  if (actual.dtype() != expected.dtype() || actual.sizes() != expected.sizes()) {
    throw Error(ErrorKind::InvalidInput, fmt::format("is {}, expected {}", to_string(actual), to_string(expected)));
  }
  Differences found;
  found.elements = expected.numel();
  const auto count = static_cast<size_t>(found.elements);
  const bool is_exact = !is_floating(expected.dtype()) && tolerance.absolute == 0 && tolerance.relative == 0;
  const std::vector<int64_t> exact_a = is_exact ? actual.to_ints() : std::vector<int64_t>(),
                             exact_e = is_exact ? expected.to_ints() : std::vector<int64_t>();
  const std::vector<double> a = as_doubles(actual), e = as_doubles(expected);
  const std::vector<double> scales = row_scales(e, expected.sizes());
  const size_t row = scales.empty() ? 1 : count / scales.size();
  double worst = -1;
  for (size_t i = 0; i < count; ++i) {
    if (is_exact ? exact_a[i] == exact_e[i] : a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    const double scale = by_row ? std::max(std::fabs(e[i]), scales[i / row]) : std::fabs(e[i]);
    const double allowed = tolerance.absolute + tolerance.relative * scale;
    const double off = std::fabs(a[i] - e[i]);
    const bool is_finite = std::isfinite(a[i]) && std::isfinite(e[i]);
    if (is_finite) {
      found.most_absolute = std::max(found.most_absolute, off);
      if (e[i] != 0) found.most_relative = std::max(found.most_relative, off / std::fabs(e[i]));
      if (!is_exact && off <= allowed) continue;
    }
    ++found.differing;
    const double excess = !is_finite ? std::numeric_limits<double>::infinity() : allowed > 0 ? off / allowed : off;
    if (excess <= worst) continue;
    worst = excess;
    found.worst = static_cast<int64_t>(i);
    found.allowed = allowed;
  }
  return found;
}

std::optional<std::string> difference(const HostTensor& actual, const HostTensor& expected, const CompareOptions& options) {
  if (actual.dtype() != expected.dtype() || actual.sizes() != expected.sizes()) {
    return fmt::format("is {}, expected {}", to_string(actual), to_string(expected));
  }
  const auto count = static_cast<size_t>(expected.numel());
  size_t wrong = 0;
  size_t first = 0;
  std::string detail;
  if (!is_floating(expected.dtype())) {
    const std::vector<int64_t> a = actual.to_ints();
    const std::vector<int64_t> e = expected.to_ints();
    for (size_t i = 0; i < count; ++i) {
      if (a[i] != e[i] && wrong++ == 0) first = i;
    }
  } else {
    const Tolerance tolerance = tolerance_of(expected.dtype());
    const std::vector<double> a = actual.to_doubles();
    const std::vector<double> e = expected.to_doubles();
    const std::vector<double> scales = row_scales(e, expected.sizes());
    const size_t row = scales.empty() ? 1 : count / scales.size();
    for (size_t i = 0; i < count; ++i) {
      if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
      const double scale = options.sums_or_products ? std::max(std::fabs(e[i]), scales[i / row]) : std::fabs(e[i]);
      const double allowed = tolerance.absolute + tolerance.relative * scale;
      const double off = std::fabs(a[i] - e[i]);
      if (std::isfinite(e[i]) && off <= allowed) continue;  // false for a NaN
      if (wrong++ == 0) {
        first = i;
        if (std::isfinite(off)) detail = fmt::format(" (off by {:.3g}, allowed {:.3g})", off, allowed);
      }
    }
  }
  if (wrong == 0) return std::nullopt;
  const auto index = static_cast<int64_t>(first);
  return fmt::format("element{} is {}, expected {}{}; {} of {} elements differ", position_text(index, expected.sizes()),
                     element_text(actual, index), element_text(expected, index), detail, wrong, count);
}

std::vector<bool> made_of_sums_or_products(const Graph& graph) {
  std::vector<bool> tainted(graph.num_values(), false);
  for (const Node& node : graph.nodes()) {
    bool taint = sums_or_multiplies(node.op);
    for (ValueId input : node.inputs) taint = taint || tainted[static_cast<size_t>(input)];
    for (ValueId output : node.outputs) tainted[static_cast<size_t>(output)] = taint;
  }
  std::vector<bool> result;
  for (ValueId output : graph.outputs) result.push_back(tainted[static_cast<size_t>(output)]);
  return result;
}

}  // namespace toroid
