#include "formula/convolution/filter_elements.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "formula/basics/operators.h"

namespace toroid::formula {
namespace {

int64_t divide_up(int64_t x, int64_t y) { return x >= 0 ? (x + y - 1) / y : -(-x / y); }
int64_t divide_down(int64_t x, int64_t y) { return -divide_up(-x, y); }

// A spatial dim of a convolution.
struct Dim {
  int64_t size = 0, kernel = 0, stride = 0, padding = 0, dilation = 0;

  // How many results there are, 0 or less where the image is too small.
  int64_t results() const { return divide_down(size + 2 * padding - dilation * (kernel - 1) - 1, stride) + 1; }
  // The results that an element of the filter meets the image for: from the first one to before the last one.
  int64_t first(int64_t element) const { return std::clamp<int64_t>(divide_up(padding - element * dilation, stride), 0, results()); }
  int64_t last(int64_t element) const {
    return std::clamp(divide_down(size - 1 + padding - element * dilation, stride) + 1, first(element), results());
  }
};

// Nothing where a number is not known, or so large that sums and products of a few could overflow.
std::optional<Dim> known_dim(Tensor x, Tensor weight, const ConvolutionGeometry& g, size_t d) {
  const sym::Expr numbers[] = {x.size(static_cast<int>(d) + 2), weight.size(static_cast<int>(d) + 2), g.stride[d], g.padding[d],
                               g.dilation[d]};
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const sym::Expr number : numbers) {
    if (!number.is_const() || number.value() > kMost) return std::nullopt;
  }
  const Dim dim{numbers[0].value(), numbers[1].value(), numbers[2].value(), numbers[3].value(), numbers[4].value()};
  if (dim.size < 1 || dim.kernel < 1 || dim.results() < 1) return std::nullopt;
  return dim;
}

// How many elements at either end meet nothing but the margin. As many at both ends, so that what is left has one margin on both sides.
int64_t elements_outside(const Dim& dim) {
  const int64_t before_last = dim.padding - (dim.results() - 1) * dim.stride;  // how far before the image the last result begins to read
  const int64_t above = std::max<int64_t>(divide_up(before_last, dim.dilation), 0);    // of the last result, and so of all
  const int64_t below = dim.kernel - divide_up(dim.size + dim.padding, dim.dilation);  // of the first one
  return std::max<int64_t>(std::min({above, below, (dim.kernel - 1) / 2, dim.padding / dim.dilation}), 0);
}

// The share of a dim's multiplications that are with elements of the image.
double share_inside(const Dim& dim) {
  double inside = 0;
  for (int64_t element = 0; element < dim.kernel; ++element) inside += static_cast<double>(dim.last(element) - dim.first(element));
  return inside / static_cast<double>(dim.kernel * dim.results());
}

// The sum over the elements of the filters in the dims that `dims` has.
class ByElements {
 public:
  ByElements(Tensor x, Tensor weight, const ConvolutionGeometry& g, std::vector<std::optional<Dim>> dims)
      : b_(x.builder()), x_(x), weight_(weight), g_(g), dims_(std::move(dims)) {}

  Tensor sum() {
    add(0, x_, weight_, g_, Sizes(x_.sizes().size(), 0), Sizes(x_.sizes().size(), 0));
    return sum_;
  }

 private:
  // Of dims before the `d`-th, x and the filters are what one element meets, and low and high what lies before and after its results.
  void add(size_t d, Tensor x, Tensor weight, ConvolutionGeometry g, const Sizes& low, const Sizes& high) {
    if (d == dims_.size()) {
      const Tensor product = b_.convolution(x, weight, {}, g.stride, g.padding, g.dilation, false, g.output_padding, g.groups);
      const Tensor term = b_.pad(product, low, high, 0.0);
      sum_ = sum_.defined() ? sum_ + term : term;
      return;
    }
    if (!dims_[d]) return add(d + 1, x, weight, std::move(g), low, high);
    const Dim& dim = *dims_[d];
    const int axis = static_cast<int>(d) + 2;
    g.padding[d] = 0;
    g.dilation[d] = 1;
    for (int64_t element = 0; element < dim.kernel; ++element) {
      const int64_t first = dim.first(element), count = dim.last(element) - first;
      if (count == 0) continue;
      const int64_t begin = first * dim.stride - dim.padding + element * dim.dilation;
      Sizes before = low, after = high;
      before[d + 2] = first;
      after[d + 2] = dim.results() - first - count;
      add(d + 1, b_.slice(x, axis, begin, (count - 1) * dim.stride + 1), b_.slice(weight, axis, element, 1), g, before, after);
    }
  }

  Builder& b_;
  Tensor x_, weight_;
  const ConvolutionGeometry& g_;
  const std::vector<std::optional<Dim>> dims_;
  Tensor sum_;
};

}  // namespace

Tensor without_elements_outside(Tensor x, Tensor weight, ConvolutionGeometry& g) {
  if (g.transposed) return weight;
  for (size_t d = 0; d < g.padding.size(); ++d) {
    const std::optional<Dim> dim = known_dim(x, weight, g, d);
    const int64_t count = dim ? elements_outside(*dim) : 0;
    if (count == 0) continue;
    weight = weight.builder().slice(weight, static_cast<int>(d) + 2, count, dim->kernel - 2 * count);
    g.padding[d] = g.padding[d] - g.dilation[d] * count;
  }
  return weight;
}

Tensor convolution_by_elements(Tensor x, Tensor weight, const ConvolutionGeometry& g) {
  // Fewer multiplications are spared in less time than more steps take; so it is where each result is of few channels.
  constexpr double kLeastSpared = 16e6;
  constexpr int64_t kLeastChannels = 32;
  constexpr int64_t kMostElements = 32;
  constexpr double kMostTerms = 4;  // times the result, in elements: all are in memory at once
  if (g.transposed || (x.dtype() != DType::F32 && x.dtype() != DType::F64)) return {};
  const auto known = [](sym::Expr number) { return number.is_const() ? number.value() : 1; };
  if (known(weight.size(1)) < kLeastChannels) return {};
  double share = 1;
  double multiplications = static_cast<double>(known(x.size(0))) * static_cast<double>(known(weight.size(0)));
  multiplications *= static_cast<double>(known(weight.size(1)));
  int64_t elements = 1;
  std::vector<std::optional<Dim>> dims(g.padding.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::optional<Dim> dim = known_dim(x, weight, g, d);
    if (!dim || dim->kernel > kMostElements) continue;
    multiplications *= static_cast<double>(dim->kernel * dim->results());
    const double inside = share_inside(*dim);
    if (inside > 2.0 / 3) continue;
    dims[d] = dim;
    share *= inside;
    elements *= dim->kernel;
  }
  if (elements > kMostElements || share > 0.5 || share * static_cast<double>(elements) > kMostTerms) return {};
  if (multiplications * (1 - share) < kLeastSpared) return {};
  return ByElements(x, weight, g, std::move(dims)).sum();
}

}  // namespace toroid::formula
