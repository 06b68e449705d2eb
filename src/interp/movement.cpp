#include "interp/movement.h"

#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "library/special/scalar.h"

namespace toroid {
namespace {

// Copies one element; the widths are spelled out so that the compiler makes each a single move.
void copy_element(std::byte* to, const std::byte* from, int64_t width) {
  switch (width) {
    case 1: *to = *from; break;
    case 2: std::memcpy(to, from, 2); break;
    case 4: std::memcpy(to, from, 4); break;
    case 8: std::memcpy(to, from, 8); break;
    default: std::memcpy(to, from, static_cast<size_t>(width));
  }
}

// to[to_offset + i . to_strides] = from[from_offset + i . from_strides] for every index i of the shape.
struct StridedCopy {
  std::span<const int64_t> sizes;
  int64_t to_offset = 0;
  std::span<const int64_t> to_strides;
  int64_t from_offset = 0;
  std::span<const int64_t> from_strides;

  void run(std::byte* to, const std::byte* from, int64_t width) const {
    if (sizes.empty()) return copy_element(to + to_offset * width, from + from_offset * width, width);
    // The last dim is a loop of its own, the others an odometer.
    const size_t last = sizes.size() - 1;
    for_each_index(sizes.first(last), [&](std::span<const int64_t> index) {
      int64_t t = to_offset;
      int64_t f = from_offset;
      for (size_t d = 0; d < last; ++d) {
        t += index[d] * to_strides[d];
        f += index[d] * from_strides[d];
      }
      for (int64_t i = 0; i < sizes[last]; ++i) {
        copy_element(to + (t + i * to_strides[last]) * width, from + (f + i * from_strides[last]) * width, width);
      }
    });
  }
};

// The row-major position that the o-th elements of the index tensors point at.
class Positions {
 public:
  Positions(std::span<const HostTensor> indices, const HostTensor& target, std::string_view what)
      : target_(target), what_(what), strides_(strides_of(target.sizes())) {
    for (const HostTensor& index : indices) indices_.push_back(index.to_ints());
  }

  int64_t at(int64_t o) const {
    int64_t position = 0;
    for (size_t d = 0; d < indices_.size(); ++d) {
      const int64_t index = indices_[d][static_cast<size_t>(o)];
      const int64_t size = target_.sizes()[d];
      if (index < 0 || index >= size) {
        throw Error(ErrorKind::InvalidInput,
                    fmt::format("index {} is out of bounds for dimension {} with size {} in a {}", index, d, size, what_));
      }
      position += index * strides_[d];
    }
    return position;
  }

 private:
  const HostTensor& target_;
  std::string_view what_;
  std::vector<int64_t> strides_;
  std::vector<std::vector<int64_t>> indices_;
};

ScalarOp combine_op(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::Add: return ScalarOp::Add;
    case ScatterMode::Mul: return ScalarOp::Mul;
    case ScatterMode::Min: return ScalarOp::Min;
    case ScatterMode::Max: return ScalarOp::Max;
    case ScatterMode::Set: break;
  }
  TOROID_CHECK(false, "scatter.set combines nothing");
}

template <class Wide>
void combine(std::vector<Wide>& base, const std::vector<Wide>& source, const Positions& positions, ScatterMode mode, DType dtype) {
  const ScalarOp op = combine_op(mode);
  for (size_t o = 0; o < source.size(); ++o) {
    Wide& element = base[static_cast<size_t>(positions.at(static_cast<int64_t>(o)))];
    element = apply(op, dtype, element, source[o]);
  }
}

}  // namespace

HostTensor copy_strided(const HostTensor& in, int64_t offset, std::span<const int64_t> strides, std::vector<int64_t> sizes) {
  HostTensor out(in.dtype(), std::move(sizes));
  const std::vector<int64_t> out_strides = strides_of(out.sizes());
  if (out.numel() > 0) {
    StridedCopy{out.sizes(), 0, out_strides, offset, strides}.run(out.mutable_data<std::byte>(), in.data<std::byte>(),
                                                                  size_bytes(in.dtype()));
  }
  return out;
}

HostTensor expand(const HostTensor& in, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = strides_of(in.sizes());
  TOROID_CHECK(strides.size() == sizes.size(), "expand of {} to {}", to_string(in), shape_text(sizes));
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (in.sizes()[d] == sizes[d]) continue;
    TOROID_CHECK(in.sizes()[d] == 1, "expand of {} to {}", to_string(in), shape_text(sizes));
    strides[d] = 0;
  }
  return copy_strided(in, 0, strides, std::move(sizes));
}

HostTensor permute(const HostTensor& in, std::span<const int> dims) {
  const std::vector<int64_t> in_strides = strides_of(in.sizes());
  std::vector<int64_t> strides;
  std::vector<int64_t> sizes;
  for (int dim : dims) {
    strides.push_back(in_strides[static_cast<size_t>(dim)]);
    sizes.push_back(in.sizes()[static_cast<size_t>(dim)]);
  }
  return copy_strided(in, 0, strides, std::move(sizes));
}

HostTensor slice(const HostTensor& in, std::span<const int64_t> starts, std::span<const int64_t> steps, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = strides_of(in.sizes());
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t last = starts[d] + (sizes[d] - 1) * steps[d];
    TOROID_CHECK(sizes[d] == 0 || (std::min(starts[d], last) >= 0 && std::max(starts[d], last) < in.sizes()[d]),
                 "a slice from {} by {} to shape {} leaves {}", starts[d], steps[d], shape_text(sizes), to_string(in));
    offset += starts[d] * strides[d];
    strides[d] *= steps[d];
  }
  return copy_strided(in, offset, strides, std::move(sizes));
}

HostTensor remap(const HostTensor& in, std::span<const IndexFunction> position, std::vector<int64_t> sizes) {
  HostTensor out(in.dtype(), std::move(sizes));
  const std::vector<int64_t> strides = strides_of(in.sizes());
  const int64_t width = size_bytes(in.dtype());
  std::byte* to = out.mutable_data<std::byte>();
  for_each_index(out.sizes(), [&](std::span<const int64_t> axes) {
    int64_t from = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      const int64_t index = position[d](axes);
      TOROID_CHECK(index >= 0 && index < in.sizes()[d], "remap reads index {} of dimension {} of {}", index, d, to_string(in));
      from += index * strides[d];
    }
    copy_element(to, in.data<std::byte>() + from * width, width);
    to += width;
  });
  return out;
}

HostTensor pad(const HostTensor& in, std::span<const int64_t> low, const HostTensor& value, std::vector<int64_t> sizes) {
  HostTensor out = expand(value.reshaped(std::vector<int64_t>(sizes.size(), 1)), sizes);
  const std::vector<int64_t> out_strides = strides_of(out.sizes());
  const std::vector<int64_t> in_strides = strides_of(in.sizes());
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    TOROID_CHECK(low[d] >= 0 && low[d] + in.sizes()[d] <= sizes[d], "{} padded to {}", to_string(in), shape_text(sizes));
    offset += low[d] * out_strides[d];
  }
  if (in.numel() > 0) {
    StridedCopy{in.sizes(), offset, out_strides, 0, in_strides}.run(out.mutable_data<std::byte>(), in.data<std::byte>(),
                                                                    size_bytes(in.dtype()));
  }
  return out;
}

HostTensor cat(std::span<const HostTensor> parts, int dim, std::vector<int64_t> sizes) {
  HostTensor out(parts[0].dtype(), std::move(sizes));
  const std::vector<int64_t> out_strides = strides_of(out.sizes());
  int64_t offset = 0;
  for (const HostTensor& part : parts) {
    const std::vector<int64_t> in_strides = strides_of(part.sizes());
    if (part.numel() > 0) {
      StridedCopy{part.sizes(), offset, out_strides, 0, in_strides}.run(out.mutable_data<std::byte>(), part.data<std::byte>(),
                                                                        size_bytes(part.dtype()));
    }
    offset += part.sizes()[static_cast<size_t>(dim)] * out_strides[static_cast<size_t>(dim)];
  }
  return out;
}

HostTensor gather(const HostTensor& in, std::span<const HostTensor> indices) {
  HostTensor out(in.dtype(), indices[0].sizes());
  const Positions positions(indices, in, "gather");
  const int64_t width = size_bytes(in.dtype());
  std::byte* to = out.mutable_data<std::byte>();
  for (int64_t o = 0; o < out.numel(); ++o) {
    copy_element(to + o * width, in.data<std::byte>() + positions.at(o) * width, width);
  }
  return out;
}

HostTensor scatter(const HostTensor& base, const HostTensor& source, std::span<const HostTensor> indices, ScatterMode mode) {
  const Positions positions(indices, base, "scatter");
  const DType dtype = base.dtype();
  if (mode == ScatterMode::Set) {
    HostTensor out = copy_strided(base, 0, strides_of(base.sizes()), base.sizes());
    const int64_t width = size_bytes(dtype);
    std::byte* to = out.mutable_data<std::byte>();
    for (int64_t o = 0; o < source.numel(); ++o) {
      copy_element(to + positions.at(o) * width, source.data<std::byte>() + o * width, width);
    }
    return out;
  }
  if (is_floating(dtype)) {
    std::vector<double> values = base.to_doubles();
    combine(values, source.to_doubles(), positions, mode, dtype);
    return HostTensor::from_doubles(dtype, base.sizes(), values);
  }
  std::vector<int64_t> values = base.to_ints();
  combine(values, source.to_ints(), positions, mode, dtype);
  if (dtype == DType::Bool) {
    for (int64_t& value : values) value = value != 0;
  }
  return HostTensor::from_ints(dtype, base.sizes(), values);
}

}  // namespace toroid
