// Matrix products, convolutions and attention in F32, all on gemm_f32.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "graph/dtype.h"
#include "runtime/depthwise.h"
#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/softmax.h"
#include "support/error.h"

namespace toroid {
namespace {

float* data_of(const ToroidOperand& operand) { return static_cast<float*>(operand.data); }

// Start of the `batch`-th matrix (or vector) below the leading `dims` dims, in elements.
int64_t batch_offset(const ToroidOperand& operand, int32_t dims, int64_t batch) {
  int64_t offset = 0;
  for (int32_t d = dims; d-- > 0;) {
    offset += batch % operand.sizes[d] * operand.strides[d];
    batch /= operand.sizes[d];
  }
  return offset;
}

int64_t product(const int64_t* sizes, int32_t count) {
  int64_t result = 1;
  for (int32_t d = 0; d < count; ++d) result *= sizes[d];
  return result;
}

}  // namespace

void run_matmul_f32(const KernelCall& call) {
  const ToroidOperand& a = call.inputs[0];
  const ToroidOperand& b = call.inputs[1];
  const ToroidOperand& c = call.outputs[0];
  const int32_t dims = a.rank - 2;
  const int64_t m = c.sizes[dims], n = c.sizes[dims + 1], k = a.sizes[dims + 1];
  const int64_t batches = product(c.sizes, dims);
  auto one = [&](int64_t batch) {
    gemm_f32(call.pool, m, n, k, data_of(a) + batch_offset(a, dims, batch), a.strides[dims], a.strides[dims + 1],
             data_of(b) + batch_offset(b, dims, batch), b.strides[dims], b.strides[dims + 1], data_of(c) + batch * m * n, n);
  };
  // Whole products side by side, or, when they are few, each on all threads.
  if (batches >= call.pool.threads() && m * n * k < (int64_t{1} << 24)) {
    call.pool.parallel_for(batches, 1, [&](int64_t begin, int64_t end) {
      for (int64_t batch = begin; batch < end; ++batch) one(batch);
    });
  } else {
    for (int64_t batch = 0; batch < batches; ++batch) one(batch);
  }
}

namespace {

// Sizes of a convolution with its spatial dims filled up to three in front.
struct ConvolutionShape {
  int64_t batch, groups, in_channels, out_channels;   // channels per group
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  bool transposed;

  int64_t in_elements() const { return in[0] * in[1] * in[2]; }
  int64_t out_elements() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_elements() const { return kernel[0] * kernel[1] * kernel[2]; }
};

ConvolutionShape shape_of(const KernelCall& call) {
  const ToroidOperand& x = call.inputs[0];
  const ToroidOperand& w = call.inputs[1];
  const ToroidOperand& y = call.outputs[0];
  ConvolutionShape s{};
  s.transposed = call.integers[0] != 0;
  s.groups = call.integers[1];
  s.batch = x.sizes[0];
  s.in_channels = x.sizes[1] / s.groups;
  s.out_channels = y.sizes[1] / s.groups;
  const int32_t spatial = x.rank - 2;
  for (int32_t d = 0; d < 3; ++d) {
    s.in[d] = s.out[d] = s.kernel[d] = s.stride[d] = s.dilation[d] = 1;
    s.padding[d] = 0;
  }
  for (int32_t d = 0; d < spatial; ++d) {
    const int32_t to = 3 - spatial + d;
    s.in[to] = x.sizes[2 + d];
    s.out[to] = y.sizes[2 + d];
    s.kernel[to] = w.sizes[2 + d];
    s.stride[to] = call.integers[static_cast<size_t>(2 + d)];
    s.padding[to] = call.integers[static_cast<size_t>(2 + spatial + d)];
    s.dilation[to] = call.integers[static_cast<size_t>(2 + 2 * spatial + d)];
  }
  return s;
}

void fill_bias(const KernelCall& call, const ConvolutionShape& s) {
  float* y = data_of(call.outputs[0]);
  const float* bias = call.inputs.size() > 2 ? data_of(call.inputs[2]) : nullptr;
  const int64_t channels = s.groups * s.out_channels;
  for (int64_t i = 0; i < s.batch * channels; ++i) {
    std::fill_n(y + i * s.out_elements(), s.out_elements(), bias ? bias[i % channels] : 0.0f);
  }
}

// Each channel with its own filter: nothing to multiply as matrices.
void depthwise(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t channels = s.groups * s.out_channels;
  const PlaneConvolution slice = {.in = {s.in[1], s.in[2]}, .out = {s.out[1], s.out[2]}, .kernel = {s.kernel[1], s.kernel[2]},
                                  .stride = {s.stride[1], s.stride[2]}, .padding = {s.padding[1], s.padding[2]},
                                  .dilation = {s.dilation[1], s.dilation[2]}};
  call.pool.parallel_for(s.batch * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t channel = plane % channels;
      const float* in = x + (plane / channels * s.groups + channel / s.out_channels) * s.in_elements();
      const float* filter = w + channel * s.kernel_elements();
      float* out = y + plane * s.out_elements();
      // One filter slice after the other, each onto the planes that it meets.
      for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
        for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
          const int64_t i0 = o0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
          if (i0 < 0 || i0 >= s.in[0]) continue;
          convolve_plane_f32(slice, in + i0 * s.in[1] * s.in[2], filter + k0 * s.kernel[1] * s.kernel[2], out + o0 * s.out[1] * s.out[2]);
        }
      }
    }
  });
}

// The image as a matrix whose columns are output positions and whose rows are (channel, filter element): made where it is read, a panel
// at a time, for it is as many times larger than the image as the filter has elements.
class ImageColumns {
 public:
  ImageColumns(const ConvolutionShape& s, const float* x) : s_(s), x_(x) {}

  void pack(const PanelRequest& request) const {
    const int64_t taps = s_.kernel_elements();
    for (int64_t panel = request.first; panel < request.last; ++panel) {
      float* out = request.out + (panel - request.first) * request.depth * request.width;
      const Positions positions = positions_of(panel * request.width, request.width);
      for (int64_t tap = 0; tap < taps; ++tap) {
        // Rows p = channel * taps + tap.
        int64_t channel = (request.p0 - tap + taps - 1) / taps;
        if (channel * taps + tap >= request.p0 + request.depth) continue;
        const Window window = window_of(positions, tap, request.width);
        for (; channel * taps + tap < request.p0 + request.depth; ++channel) {
          copy(window, x_ + channel * s_.in_elements(), request.width, out + (channel * taps + tap - request.p0) * request.width);
        }
      }
    }
  }

 private:
  static constexpr int64_t kMostColumns = 32;  // of a panel
  // Of each column: the input position under the filter's first element.
  struct Positions {
    int64_t count;
    int64_t at[3][kMostColumns];
  };
  // Of each column: the element under one filter element, counted from the image's first; -1 outside.
  struct Window {
    bool is_run;                       // all inside and one after the other
    int64_t at[kMostColumns];
  };

  Positions positions_of(int64_t first, int64_t width) const {
    Positions result;
    result.count = std::min(width, s_.out_elements() - first);
    for (int64_t j = 0; j < result.count; ++j) {
      const int64_t o = first + j;
      const int64_t index[3] = {o / (s_.out[1] * s_.out[2]), o / s_.out[2] % s_.out[1], o % s_.out[2]};
      for (int d = 0; d < 3; ++d) result.at[d][j] = index[d] * s_.stride[d] - s_.padding[d];
    }
    return result;
  }

  Window window_of(const Positions& positions, int64_t tap, int64_t width) const {
    const int64_t k[3] = {tap / (s_.kernel[1] * s_.kernel[2]), tap / s_.kernel[2] % s_.kernel[1], tap % s_.kernel[2]};
    Window result;
    result.is_run = positions.count == width;
    for (int64_t j = 0; j < width; ++j) {
      bool inside = j < positions.count;
      int64_t at = 0;
      for (int d = 0; d < 3 && inside; ++d) {
        const int64_t i = positions.at[d][j] + k[d] * s_.dilation[d];
        inside = i >= 0 && i < s_.in[d];
        at = at * s_.in[d] + i;
      }
      result.at[j] = inside ? at : -1;
      result.is_run = result.is_run && inside && at == result.at[0] + j;
    }
    return result;
  }

  static void copy(const Window& window, const float* image, int64_t width, float* out) {
    if (window.is_run) {
      std::memcpy(out, image + window.at[0], static_cast<size_t>(width) * sizeof(float));
      return;
    }
    for (int64_t j = 0; j < width; ++j) out[j] = window.at[j] < 0 ? 0.0f : image[window.at[j]];
  }

  const ConvolutionShape& s_;
  const float* x_;
};

// Onto the bias, which is in y already.
void convolve(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t depth = s.in_channels * s.kernel_elements();
  for (int64_t image = 0; image < s.batch * s.groups; ++image) {
    const ImageColumns columns(s, x + image * s.in_channels * s.in_elements());
    gemm_onto_f32(call.pool, s.out_channels, s.out_elements(), depth, w + image % s.groups * s.out_channels * depth, depth, 1,
                  [&](const PanelRequest& request) { columns.pack(request); }, y + image * s.out_channels * s.out_elements(), s.out_elements());
  }
}

// The adjoint of a convolution: columns = weight^T x, then each column is added where it belongs.
void convolve_transposed(const KernelCall& call, const ConvolutionShape& s) {
  const float* x = data_of(call.inputs[0]);
  const float* w = data_of(call.inputs[1]);
  float* y = data_of(call.outputs[0]);
  const int64_t rows = s.out_channels * s.kernel_elements();
  std::unique_ptr<float[]> columns(new float[static_cast<size_t>(rows * s.in_elements())]);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const float* in = x + (n * s.groups + g) * s.in_channels * s.in_elements();
      gemm_f32(call.pool, rows, s.in_elements(), s.in_channels, w + g * s.in_channels * rows, 1, rows, in, s.in_elements(), 1,
               columns.get(), s.in_elements());
      float* out = y + (n * s.groups + g) * s.out_channels * s.out_elements();
      call.pool.parallel_for(s.out_channels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * s.kernel_elements(); row < end * s.kernel_elements(); ++row) {
          const int64_t c = row / s.kernel_elements(), k = row % s.kernel_elements();
          const int64_t k0 = k / (s.kernel[1] * s.kernel[2]), k1 = k / s.kernel[2] % s.kernel[1], k2 = k % s.kernel[2];
          const float* from = columns.get() + row * s.in_elements();
          for (int64_t i0 = 0; i0 < s.in[0]; ++i0) {
            for (int64_t i1 = 0; i1 < s.in[1]; ++i1, from += s.in[2]) {
              const int64_t o0 = i0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
              const int64_t o1 = i1 * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
              if (o0 < 0 || o0 >= s.out[0] || o1 < 0 || o1 >= s.out[1]) continue;
              float* to = out + c * s.out_elements() + (o0 * s.out[1] + o1) * s.out[2];
              for (int64_t i2 = 0; i2 < s.in[2]; ++i2) {
                const int64_t o2 = i2 * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
                if (o2 >= 0 && o2 < s.out[2]) to[o2] += from[i2];
              }
            }
          }
        }
      });
    }
  }
}

}  // namespace

void run_convolution_f32(const KernelCall& call) {
  const ConvolutionShape s = shape_of(call);
  fill_bias(call, s);
  if (s.batch == 0 || s.out_elements() == 0 || s.in_channels == 0) return;
  if (s.transposed) {
    convolve_transposed(call, s);
  } else if (s.in_channels == 1 && s.groups > 1) {
    depthwise(call, s);
  } else {
    convolve(call, s);
  }
}

void run_attention_f32(const KernelCall& call) {
  const ToroidOperand& q = call.inputs[0];
  const ToroidOperand& k = call.inputs[1];
  const ToroidOperand& v = call.inputs[2];
  const ToroidOperand* mask = call.inputs.size() > 3 ? &call.inputs[3] : nullptr;
  const ToroidOperand& out = call.outputs[0];
  const int32_t dims = q.rank - 2;
  const int64_t queries = q.sizes[dims], keys = k.sizes[dims], width = q.sizes[dims + 1], out_width = v.sizes[dims + 1];
  const int64_t batches = product(q.sizes, dims);
  const bool causal = call.integers[0] != 0;
  const float scale = static_cast<float>(call.numbers[0]);
  constexpr int64_t kRows = 48;  // of queries at a time: their scores stay in cache
  const int64_t blocks = (queries + kRows - 1) / kRows;

  // A position in the mask; its sizes of 1 repeat.
  auto mask_offset = [&](int64_t batch, int64_t row) {
    int64_t offset = 0;
    for (int32_t d = dims; d-- > 0;) {
      const int64_t index = batch % q.sizes[d];
      batch /= q.sizes[d];
      const int32_t mine = d - (q.rank - mask->rank);
      if (mine >= 0 && mask->sizes[mine] != 1) offset += index * mask->strides[mine];
    }
    const int32_t rows = mask->rank - 2;
    if (rows >= 0 && mask->sizes[rows] != 1) offset += row * mask->strides[rows];
    return offset;
  };

  call.pool.parallel_for(batches * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(kRows * std::max<int64_t>(keys, 1)));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / blocks;
      const int64_t first = task % blocks * kRows;
      const int64_t rows = std::min(kRows, queries - first);
      // Queries of this block see no key past the last one's position.
      const int64_t seen = causal ? std::min(keys, first + rows) : keys;
      gemm_f32(call.pool, rows, seen, width, data_of(q) + batch_offset(q, dims, batch) + first * q.strides[dims], q.strides[dims],
               q.strides[dims + 1], data_of(k) + batch_offset(k, dims, batch), k.strides[dims + 1], k.strides[dims], scores.data(), seen);
      for (int64_t r = 0; r < rows; ++r) {
        float* row = scores.data() + r * seen;
        const int64_t limit = causal ? std::min(seen, first + r + 1) : seen;
        for (int64_t j = 0; j < limit; ++j) row[j] *= scale;
        if (mask != nullptr) {
          const int64_t at = mask_offset(batch, first + r);
          const int64_t step = mask->sizes[mask->rank - 1] == 1 ? 0 : mask->strides[mask->rank - 1];
          if (static_cast<DType>(mask->dtype) == DType::Bool) {
            const auto* allowed = static_cast<const uint8_t*>(mask->data) + at;
            for (int64_t j = 0; j < limit; ++j) row[j] = allowed[j * step] ? row[j] : -HUGE_VALF;
          } else {
            const float* added = data_of(*mask) + at;
            for (int64_t j = 0; j < limit; ++j) row[j] += added[j * step];
          }
        }
        softmax_row_f32(row, limit);
        std::fill(row + limit, row + seen, 0.0f);
      }
      gemm_f32(call.pool, rows, out_width, seen, scores.data(), seen, 1, data_of(v) + batch_offset(v, dims, batch), v.strides[dims],
               v.strides[dims + 1], data_of(out) + (batch * queries + first) * out_width, out_width);
    }
  });
}

}  // namespace toroid
