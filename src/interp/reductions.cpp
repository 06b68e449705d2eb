#include "interp/reductions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "interp/movement.h"
#include "library/special/scalar.h"

namespace toroid {
namespace {

// The input with the reduced dims moved last, as rows: each row becomes one element of the result.
template <class Wide>
struct Rows {
  std::vector<Wide> elements;
  int64_t length = 1;
  std::vector<int64_t> sizes;  // of the result

  std::span<const Wide> row(size_t index) const {
    return std::span(elements).subspan(index * static_cast<size_t>(length), static_cast<size_t>(length));
  }
  size_t count() const { return static_cast<size_t>(numel(sizes)); }
};

template <class Wide>
std::vector<Wide> widened(const HostTensor& tensor) {
  if constexpr (std::is_same_v<Wide, double>) {
    return tensor.to_doubles();
  } else {
    const std::vector<int64_t> values = tensor.to_ints();
    return {values.begin(), values.end()};  // of U64 the same bits
  }
}
HostTensor narrowed(DType dtype, std::vector<int64_t> sizes, const std::vector<double>& values) {
  return HostTensor::from_doubles(dtype, std::move(sizes), values);
}
HostTensor narrowed(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> values) {
  if (dtype == DType::Bool) {
    for (int64_t& value : values) value = value != 0;
  }
  return HostTensor::from_ints(dtype, std::move(sizes), values);
}

HostTensor narrowed(DType dtype, std::vector<int64_t> sizes, const std::vector<uint64_t>& values) {
  return HostTensor::from_ints(dtype, std::move(sizes), std::vector<int64_t>(values.begin(), values.end()));
}

template <class Wide>
Rows<Wide> rows_of(const HostTensor& in, std::span<const int> dims) {
  Rows<Wide> rows;
  std::vector<int> order;
  for (int d = 0; d < in.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    order.push_back(d);
    rows.sizes.push_back(in.sizes()[static_cast<size_t>(d)]);
  }
  for (int d : dims) {
    order.push_back(d);
    rows.length *= in.sizes()[static_cast<size_t>(d)];
  }
  rows.elements = widened<Wide>(permute(in, order));
  return rows;
}

bool is_nan(double x) { return std::isnan(x); }
bool is_nan(int64_t) { return false; }
bool is_nan(uint64_t) { return false; }

template <class Wide>
Wide fold(ScalarOp op, DType dtype, Wide start, std::span<const Wide> row) {
  for (Wide x : row) start = apply(op, dtype, start, x);
  return start;
}

// The first NaN, else the first of the extreme elements.
template <class Wide>
int64_t arg_extreme(bool greatest, std::span<const Wide> row) {
  size_t best = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (is_nan(row[i])) return static_cast<int64_t>(i);
    if (greatest ? row[i] > row[best] : row[i] < row[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

[[noreturn]] void nothing_to_choose_from(ReduceOp op) {
  throw Error(ErrorKind::InvalidInput, fmt::format("{} of no elements: the reduced dimension has size 0", to_string(op)));
}

template <class Wide>
std::vector<HostTensor> reduce_wide(ReduceOp op, const HostTensor& in, std::span<const int> dims) {
  const Rows<Wide> rows = rows_of<Wide>(in, dims);
  const DType dtype = in.dtype();
  const bool needs_elements = op == ReduceOp::Min || op == ReduceOp::Max || op == ReduceOp::ArgMin || op == ReduceOp::ArgMax;
  if (needs_elements && rows.length == 0 && rows.count() > 0) nothing_to_choose_from(op);

  std::vector<Wide> results(rows.count());
  std::vector<int64_t> indices;
  std::vector<double> means;
  for (size_t r = 0; r < rows.count(); ++r) {
    const std::span<const Wide> row = rows.row(r);
    switch (op) {
      case ReduceOp::Sum: results[r] = fold(ScalarOp::Add, dtype, Wide{0}, row); break;
      case ReduceOp::Prod: results[r] = fold(ScalarOp::Mul, dtype, Wide{1}, row); break;
      case ReduceOp::Min: results[r] = fold(ScalarOp::Min, dtype, row[0], row); break;
      case ReduceOp::Max: results[r] = fold(ScalarOp::Max, dtype, row[0], row); break;
      case ReduceOp::Any: results[r] = std::any_of(row.begin(), row.end(), [](Wide x) { return x != 0; }); break;
      case ReduceOp::All: results[r] = std::all_of(row.begin(), row.end(), [](Wide x) { return x != 0; }); break;
      case ReduceOp::ArgMin: indices.push_back(arg_extreme(false, row)); break;
      case ReduceOp::ArgMax: indices.push_back(arg_extreme(true, row)); break;
      case ReduceOp::MeanM2: {
        // Two passes: the definition itself. Nothing has no mean: 0 / 0 is NaN.
        double sum = 0;
        for (Wide x : row) sum += static_cast<double>(x);
        const double mean = sum / static_cast<double>(row.size());
        double squares = 0;
        for (Wide x : row) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
        means.push_back(mean);
        results[r] = static_cast<Wide>(squares);
        break;
      }
    }
  }
  switch (op) {
    case ReduceOp::ArgMin:
    case ReduceOp::ArgMax: return {HostTensor::from_ints(DType::I64, rows.sizes, indices)};
    case ReduceOp::Any:
    case ReduceOp::All: return {HostTensor::from_ints(DType::Bool, rows.sizes, std::vector<int64_t>(results.begin(), results.end()))};
    case ReduceOp::MeanM2: return {HostTensor::from_doubles(dtype, rows.sizes, means), narrowed(dtype, rows.sizes, results)};
    default: return {narrowed(dtype, rows.sizes, results)};
  }
}

double log_add_exp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double high = std::max(a, b);
  if (std::isinf(high)) return high;  // both infinite, or one of them +inf: the difference would be NaN
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// A view of dim `dim` as [outer, length, inner].
struct Lines {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;

  Lines(std::span<const int64_t> sizes, int dim) {
    if (sizes.empty()) return;  // one line of one element
    length = sizes[static_cast<size_t>(dim)];
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d < static_cast<size_t>(dim)) outer *= sizes[d];
      if (d > static_cast<size_t>(dim)) inner *= sizes[d];
    }
  }
  // Calls f with a function from a place in the line to the element's row-major position.
  template <class F>
  void for_each(F f) const {
    for (int64_t o = 0; length > 0 && inner > 0 && o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        f([base = o * length * inner + i, step = inner](int64_t k) { return static_cast<size_t>(base + k * step); });
      }
    }
  }
};

template <class Wide>
Wide scan_step(ScanOp op, DType dtype, Wide total, Wide x) {
  switch (op) {
    case ScanOp::Sum: return apply(ScalarOp::Add, dtype, total, x);
    case ScanOp::Prod: return apply(ScalarOp::Mul, dtype, total, x);
    case ScanOp::LogAddExp: return static_cast<Wide>(log_add_exp(static_cast<double>(total), static_cast<double>(x)));
    case ScanOp::Max:
    case ScanOp::Min: break;
  }
  TOROID_CHECK(false, "scan {}", to_string(op));
}

template <class Wide>
std::vector<HostTensor> scan_wide(ScanOp op, const HostTensor& in, int dim) {
  std::vector<Wide> values = widened<Wide>(in);
  const bool extremes = op == ScanOp::Max || op == ScanOp::Min;
  std::vector<int64_t> indices(extremes ? values.size() : 0);
  const Lines lines(in.sizes(), dim);
  lines.for_each([&](auto position) {
    int64_t best = 0;
    for (int64_t k = 1; k < lines.length; ++k) {
      const Wide before = values[position(k - 1)];
      Wide& x = values[position(k)];
      if (!extremes) {
        x = scan_step(op, in.dtype(), before, x);
        continue;
      }
      // The latest of equal extremes, and the latest NaN once there is one.
      const bool better = is_nan(x) || (!is_nan(before) && (op == ScanOp::Max ? x >= before : x <= before));
      if (better)
        best = k;
      else
        x = before;
      indices[position(k)] = best;
    }
  });
  std::vector<HostTensor> results = {narrowed(in.dtype(), in.sizes(), values)};
  if (extremes) results.push_back(HostTensor::from_ints(DType::I64, in.sizes(), indices));
  return results;
}

template <class Wide>
std::vector<HostTensor> sort_wide(const HostTensor& in, int dim, bool descending) {
  const std::vector<Wide> values = widened<Wide>(in);
  std::vector<Wide> sorted(values.size());
  std::vector<int64_t> indices(values.size());
  const Lines lines(in.sizes(), dim);
  std::vector<int64_t> order(static_cast<size_t>(lines.length));
  lines.for_each([&](auto position) {
    std::iota(order.begin(), order.end(), 0);
    auto less = [&](Wide a, Wide b) { return is_nan(b) ? !is_nan(a) : a < b; };  // NaN is the largest
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const Wide x = values[position(a)];
      const Wide y = values[position(b)];
      return descending ? less(y, x) : less(x, y);
    });
    for (int64_t k = 0; k < lines.length; ++k) {
      indices[position(k)] = order[static_cast<size_t>(k)];
      sorted[position(k)] = values[position(order[static_cast<size_t>(k)])];
    }
  });
  return {narrowed(in.dtype(), in.sizes(), sorted), HostTensor::from_ints(DType::I64, in.sizes(), indices)};
}

}  // namespace

std::vector<HostTensor> reduce(ReduceOp op, const HostTensor& in, std::span<const int> dims) {
  if (in.dtype() == DType::U64) return reduce_wide<uint64_t>(op, in, dims);
  return is_floating(in.dtype()) ? reduce_wide<double>(op, in, dims) : reduce_wide<int64_t>(op, in, dims);
}
std::vector<HostTensor> scan(ScanOp op, const HostTensor& in, int dim) {
  if (in.dtype() == DType::U64) return scan_wide<uint64_t>(op, in, dim);
  return is_floating(in.dtype()) ? scan_wide<double>(op, in, dim) : scan_wide<int64_t>(op, in, dim);
}
std::vector<HostTensor> sort(const HostTensor& in, int dim, bool descending) {
  if (in.dtype() == DType::U64) return sort_wide<uint64_t>(in, dim, descending);
  return is_floating(in.dtype()) ? sort_wide<double>(in, dim, descending) : sort_wide<int64_t>(in, dim, descending);
}

}  // namespace toroid
