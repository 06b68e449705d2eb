#include "library/weights.h"

#include <cstring>

namespace toroid::weights {
namespace {

// The elements before, at and behind a dim.
struct Split {
  int64_t outer = 1, count = 1, inner = 1;
};
Split split_at(Span<const int64_t> sizes, size_t dim) {
  Split split;
  for (size_t d = 0; d < sizes.size(); ++d) (d < dim ? split.outer : d == dim ? split.count : split.inner) *= sizes[d];
  return split;
}

size_t dim_of(const LibraryCall& call) { return static_cast<size_t>(call.attributes[0]); }

template <class T>
void scale_elements(const LibraryCall& call) {
  const Split split = split_at(call.inputs[0].sizes, dim_of(call));
  const auto* from = reinterpret_cast<const T*>(call.inputs[0].data);
  const auto* scales = reinterpret_cast<const double*>(call.inputs[1].data);
  auto* to = reinterpret_cast<T*>(call.outputs[0].data);
  call.in_pieces(split.outer * split.count, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double scale = scales[row % split.count];
      for (int64_t i = row * split.inner; i < (row + 1) * split.inner; ++i) to[i] = static_cast<T>(from[i] * scale);
    }
  });
}

}  // namespace

void scale(const LibraryCall& call) { call.inputs[0].dtype == DType::F64 ? scale_elements<double>(call) : scale_elements<float>(call); }

void join(const LibraryCall& call) {
  const size_t dim = dim_of(call);
  const auto width = static_cast<size_t>(size_bytes(call.outputs[0].dtype));
  const Split all = split_at(call.outputs[0].sizes, dim);
  const size_t row = static_cast<size_t>(all.count * all.inner) * width;
  size_t before = 0;  // bytes of a row
  for (const LibraryInput& input : call.inputs) {
    const Split split = split_at(input.sizes, dim);
    const size_t part = static_cast<size_t>(split.count * split.inner) * width;
    std::byte* const to = call.outputs[0].data + before;
    call.in_pieces(split.outer, [=, &input](int64_t begin, int64_t end) {
      if (part == 0) return;
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) std::memcpy(to + i * row, input.data + i * part, part);
    });
    before += part;
  }
}

}  // namespace toroid::weights
