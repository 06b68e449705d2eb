// Convolutions in which each channel has its own filter, or groups of channels mix, for an image with its channels next to each other:
// vectors of channels.
//
// With one channel a group no padding is copied: positions near the edges leave out the filter elements that lie outside. In other groups
// an element meets so many multiplications that rows are copied first, padded, and each position sees a whole filter; so are rows of 16
// bits, widened, unless the kernels read them as they lie. Each once for all rows of the result that a thread makes one after the other.
// Filters that are wide, dilated or far apart are taken an element at a time, as filters of one column with more rows.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/conv/depthwise_microkernel.h"
#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/registry/packed_operand.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPositions = DepthwiseKernels::kMostPositions;  // of a strip, at most
constexpr int64_t kFloatsPerBlock = 4096;                         // that an epilogue gets at a time: a part of the first-level cache

Scratch scratch_for_block, scratch_for_rows;

// The channels of an image with groups in the way of depthwise_microkernel.h, if it takes them.
std::optional<ChannelGroups> groups_in_vectors(int64_t groups, int64_t in_channels, int64_t out_channels) {
  const DepthwiseKernels& kernels = depthwise_kernels(groups * out_channels);
  if (groups == 1) return std::nullopt;
  if (in_channels == 1 && out_channels == 1) return ChannelGroups::Own;
  constexpr int64_t kMost = 48;  // more make a product of matrices
  if (out_channels >= kernels.lanes) return out_channels <= kMost ? std::optional(ChannelGroups::Many) : std::nullopt;
  return kernels.can_permute && in_channels == out_channels && kernels.lanes % out_channels == 0 ? std::optional(ChannelGroups::Few)
                                                                                                 : std::nullopt;
}

// Is one column of the filter after the other taken, in registers?
bool goes_by_columns(ChannelGroups groups, const ConvolutionShape& s) {
  const int most_columns = groups == ChannelGroups::Own ? DepthwiseKernels::kMostColumns : DepthwiseKernels::kMostGroupedColumns;
  return s.kernel[2] <= most_columns && s.dilation[2] == 1 && s.stride[2] <= DepthwiseKernels::kMostStride;
}

// Those that read bfloat16 as it lies, where they take the call.
const DepthwiseKernels& kernels_for(DType image, ChannelGroups groups, const ConvolutionShape& s) {
  const int64_t channels = s.groups * s.out_channels;
  const DepthwiseKernels* const of_bf16 = image == DType::BF16 ? bf16_depthwise_kernels() : nullptr;
  const bool takes = of_bf16 != nullptr && groups == ChannelGroups::Own && channels >= of_bf16->lanes && goes_by_columns(groups, s);
  return takes ? *of_bf16 : depthwise_kernels(channels);
}

class DepthwiseConvolver : public RowConvolution {
 public:
  DepthwiseConvolver(const KernelCall& call, const ConvolutionShape& s)
      : s_(s),
        image_dtype_(dtype_of(call.inputs[0])),
        strides_(image_strides(call.inputs[0])),
        channels_(s.groups * s.out_channels),
        groups_(groups_of(call, s)),
        kernels_(kernels_for(image_dtype_, groups_, s)),
        reads_bf16_(&kernels_ == bf16_depthwise_kernels()) {
    copies_ = groups_ != ChannelGroups::Own || (is_reduced_float(image_dtype_) && !reads_bf16_);
    column_ = copies_ ? s.groups * s.in_channels : strides_.column;
    columns_ = copies_ ? (s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1 : s.in[2];
    left_ = copies_ ? 0 : s.padding[2];
    by_columns_ = goes_by_columns(groups_, s);
    inside_ = inside_columns();
    if (groups_ == ChannelGroups::Own && by_columns_ && fills_vectors()) choose_own_kernels();
    lanes_ = std::min<int64_t>(kernels_.lanes, channels_);
    vector_weights_ = s_.kernel_elements() * s_.in_channels * lanes_;
    weights_.emplace(call, 1, FilterVectors{reads_bf16_, filter_layout(call.inputs[1], s_)}, vectors() * vector_weights_,
                     [this](const KernelCall& each, int64_t, float* to) { pack_weights(each, to); });
  }

  void run(const KernelCall& call) const override {
    const ProductOutput out = output_of(call, channels_);
    const float* const weights = weights_->of(call);
    const auto* const x = static_cast<const std::byte*>(call.inputs[0].data);
    // Rows that are copied are so once for each part.
    constexpr int64_t kPartsOfThread = 4;
    const int64_t parts = copies_ ? std::min(s_.out[1], kPartsOfThread * call.pool.threads()) : s_.out[1];
    const int64_t shares = shares_of_row(call);
    call.pool.parallel_for(s_.batch * parts * shares, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / shares / parts, part = i / shares % parts;
        const std::byte* const first = x + image * strides_.batch * size_bytes(image_dtype_);
        const ImageRing in = {reinterpret_cast<const float*>(first), strides_.row, s_.in[1]};
        if (shares == 1) {
          run_rows(weights, image, part_of(s_.out[1], part, parts), in, out);
        } else {
          const Range some = part_of(channels_ / lanes_, i % shares, shares);
          run_row(weights, image, part, in, out, {some.first * lanes_, i % shares + 1 < shares ? some.last * lanes_ : channels_});
        }
      }
    });
  }

  void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const override {
    run_rows(weights_->kept(), image, rows, in, out);
  }

 private:
  static ChannelGroups groups_of(const KernelCall& call, const ConvolutionShape& s) {
    TOROID_CHECK(takes_channel_vectors(call, s));
    return *groups_in_vectors(s.groups, s.in_channels, s.out_channels);
  }

  void run_rows(const float* weights, int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const {
    if (copies_) return run_copied_rows(weights, image, rows, in, out);
    for (int64_t o = rows.first; o < rows.last; ++o) run_row(weights, image, o, in, out, {0, channels_});
  }

  // Into which a row's channels are cut where few rows do not come out even for the threads.
  int64_t shares_of_row(const KernelCall& call) const {
    constexpr int64_t kRowsOfThread = 4, kLeastVectors = 4;
    const int64_t threads = call.pool.threads(), rows = s_.batch * s_.out[1];
    const bool can_be =
        groups_ == ChannelGroups::Own && !copies_ && call.epilogue != nullptr && channels_ >= threads * kLeastVectors * lanes_;
    return can_be && rows % threads != 0 && rows < kRowsOfThread * threads ? threads : 1;
  }

  // Offsets of the filter rows that positions meet.
  struct FilterRows {
    std::vector<int64_t> image, weights;
  };

  void run_copied_rows(const float* weights, int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const {
    const int64_t kept = (s_.kernel[1] - 1) * s_.dilation[1] + 1, row = columns_ * column_;
    const ImageRing ring = {scratch_for_rows.get(kept * row), row, kept};
    int64_t copied = 0;
    for (int64_t o = rows.first; o < rows.last; ++o) {
      const int64_t first = o * s_.stride[1] - s_.padding[1], last = std::min(first + kept, s_.in[1]);
      for (copied = std::max({copied, first, int64_t{0}}); copied < last; ++copied)
        copy_row(copied, in, const_cast<float*>(ring.at(copied)));
      run_row(weights, image, o, ring, out, {0, channels_});
    }
  }

  // Padded, and widened if it is of 16 bits (then `in` is the call's image, whatever its pointer's type says).
  void copy_row(int64_t row, const ImageRing& in, float* to) const {
    const int64_t left = std::min(s_.padding[2], columns_), inside = std::clamp<int64_t>(columns_ - left, 0, s_.in[2]);
    std::fill_n(to, left * column_, 0.0f);
    copy_columns(row, in, inside, to + left * column_);
    std::fill(to + (left + inside) * column_, to + columns_ * column_, 0.0f);
  }

  // The first `count` of a row.
  void copy_columns(int64_t row, const ImageRing& in, int64_t count, float* to) const {
    const int64_t run = strides_.column == column_ ? count : 1;  // columns that follow each other
    for (int64_t j = 0; j < count; j += run) {
      if (is_reduced_float(image_dtype_)) {
        const auto* const bits = reinterpret_cast<const uint16_t*>(in.data);
        widen_row(image_dtype_, bits + in.offset(row) + j * strides_.column, run * column_, to + j * column_);
      } else {
        std::copy_n(in.at(row) + j * strides_.column, run * column_, to + j * column_);
      }
    }
  }

  // Channels whose vectors follow each other without a gap.
  int64_t together() const { return groups_ == ChannelGroups::Many ? s_.out_channels : channels_; }
  int64_t vectors() const { return channels_ / together() * ((together() + lanes_ - 1) / lanes_); }

  struct FilterVectors {
    bool for_bf16;
    FilterLayout filters;
    TOROID_COMPARED_FIELDS(FilterVectors, for_bf16, filters)
  };
  // As DepthwiseStrip has them.
  void pack_weights(const KernelCall& call, float* to) const {
    const ToroidOperand& w = call.inputs[1];
    const FilterLayout layout = filter_layout(w, s_);
    const bool is_reduced = is_reduced_float(dtype_of(w));
    for_each_vector(channels_, together(), lanes_, [&](int64_t vector, int64_t channel) {
      float* weight = to + vector * vector_weights_;
      for (int64_t element = 0; element < s_.kernel_elements(); ++element) {
        for (int64_t c = 0; c < s_.in_channels; ++c, weight += lanes_) {
          const int64_t at = layout.offset(channel, c, element);
          if (reads_bf16_) {
            const auto* const from = static_cast<const uint16_t*>(w.data) + at;
            for (int64_t i = 0; i < lanes_; ++i)
              widen_elements(DType::BF16, from + i * layout.out_stride, 1, 1, weight + bf16_depthwise_lane(i));
          } else if (is_reduced) {
            widen_elements(dtype_of(w), static_cast<const uint16_t*>(w.data) + at, layout.out_stride, lanes_, weight);
          } else {
            for (int64_t i = 0; i < lanes_; ++i) weight[i] = data_of(w)[at + i * layout.out_stride];
          }
        }
      }
    });
  }

  // The filter elements of a dim that lie inside the image (its rows as the strips read them) for the output position o.
  Range taps(int d, int64_t o) const {
    const int64_t size = d == 2 ? columns_ : s_.in[d], padding = d == 2 ? left_ : s_.padding[d];
    return indices_inside(o * s_.stride[d] - padding, s_.dilation[d], s_.kernel[d], size);
  }

  // The output columns whose filters lie inside the image as a whole.
  Range inside_columns() const {
    Range result = {0, s_.out[2]};
    while (result.first < s_.out[2] && taps(2, result.first).size() < s_.kernel[2]) ++result.first;
    result.last = result.first;
    while (result.last < s_.out[2] && taps(2, result.last).size() == s_.kernel[2]) ++result.last;
    return result;
  }

  // Some channels, whole vectors but at the end; all of them unless there is an epilogue and channels are their own groups.
  void run_row(const float* weights, int64_t image, int64_t o, const ImageRing& in, const ProductOutput& out, Range channels) const {
    weights += channels.first / lanes_ * vector_weights_;
    const int64_t first_row = (image * s_.out[1] + o) * s_.out[2];
    static PerThread<FilterRows> of_threads;
    FilterRows& rows = of_threads.get();
    set_rows(in, o, {0, by_columns_ ? 1 : s_.kernel[2]}, rows);
    if (out.epilogue == nullptr)
      return run_positions(weights, in, o, rows, {0, s_.out[2]}, channels, {out.data + first_row * out.row, out.row});
    const bool is_finished = out.epilogue->run == nullptr && out.epilogue->post_ops.residual == nullptr && fills_vectors() &&
                             kernels_.can_finish;  // in registers
    if (!is_finished) {
      return for_blocks(channels, [&](Range positions, float* block) {
        run_positions(weights, in, o, rows, positions, channels, {block, channels.size()});
        out.take(block, channels.size(), {first_row + positions.first, first_row + positions.last}, channels);
      });
    }
    const ToroidEpilogue part = part_of(*out.epilogue, out.first_row + first_row, out.first_column + channels.first);
    const ToroidPostOps& ops = part.post_ops;
    if (is_for_registers(out.epilogue))
      return run_positions(weights, in, o, rows, {0, s_.out[2]}, channels, {static_cast<float*>(part.out), ops.out_row, &ops});
    for_blocks(channels, [&](Range positions, float* block) {
      run_positions(weights, in, o, rows, positions, channels, {block, channels.size(), &ops});
      round_rows(static_cast<DType>(ops.out_dtype), block, channels.size(), positions.size(), channels.size(),
                 static_cast<uint16_t*>(part.out) + positions.first * ops.out_row, ops.out_row);
    });
  }

  // Calls f(positions, block) for positions of a row whose channels fit the block: whole strips between the edges, and no few positions
  // alone.
  template <class F>
  void for_blocks(Range channels, const F& f) const {
    const int64_t most = std::max<int64_t>(1, kFloatsPerBlock / channels.size() / kPositions) * kPositions;
    for (int64_t first = 0; first < s_.out[2];) {
      const int64_t end = (in_strips(channels) ? first : std::max(first, inside_.first)) + most;
      const int64_t last = end + kPositions > s_.out[2] ? s_.out[2] : end;
      f(Range{first, last}, scratch_for_block.get((last - first) * channels.size() + kReadBeyond));
      first = last;
    }
  }

  // What the output's row o sees of the image's rows, in these filter columns, each of which is a filter row.
  void set_rows(const ImageRing& in, int64_t o, Range columns, FilterRows& rows) const {
    rows.image.clear();
    rows.weights.clear();
    const Range vertical = taps(1, o);
    for (int64_t k1 = vertical.first; k1 < vertical.last; ++k1) {
      const int64_t row = in.offset(o * s_.stride[1] - s_.padding[1] + k1 * s_.dilation[1]);
      for (int64_t k2 = columns.first; k2 < columns.last; ++k2) {
        rows.image.push_back(row + k2 * s_.dilation[2] * column_);
        rows.weights.push_back((k1 * s_.kernel[2] + k2) * s_.in_channels * lanes_);
      }
    }
  }

  // Where positions that follow each other go, some channels of them.
  struct Target {
    float* data;
    int64_t position;                       // stride
    const ToroidPostOps* finish = nullptr;  // DepthwiseStrip::finish

    Target from(int64_t first) const { return {data + first * position, position, finish}; }
  };

  // Do the result's channels fill vectors?
  bool fills_vectors() const { return channels_ >= kernels_.lanes; }

  // `rows`: of all filter columns; `weights`: of these channels.
  void run_positions(const float* weights, const ImageRing& in, int64_t o, const FilterRows& rows, Range positions, Range channels,
                     const Target& out) const {
    if (in_strips(channels)) return run_strips(in, rows, weights, positions, channels, out);
    for (int64_t p = positions.first; p < positions.last;) {
      const float* image = in.data + (p * s_.stride[2] - left_) * column_ + channels.first;
      const Target to = out.from(p - positions.first);
      if (p >= inside_.first && p < inside_.last) {
        const int64_t most = by_columns_ ? kPositions : 1;
        const int64_t count = std::min({most, inside_.last - p, positions.last - p});
        run_strip(image, weights, rows, by_columns_ ? s_.kernel[2] : 1, count, channels.size(), to);
        p += count;
        continue;
      }
      const Range horizontal = taps(2, p);
      if (by_columns_) {
        run_strip(image + horizontal.first * column_, weights + horizontal.first * s_.in_channels * lanes_, rows, horizontal.size(), 1,
                  channels.size(), to);
      } else {
        static PerThread<FilterRows> of_threads;
        FilterRows& some = of_threads.get();
        set_rows(in, o, horizontal, some);
        run_strip(image, weights, some, 1, 1, channels.size(), to);
      }
      ++p;
    }
  }

  // Do strips reach beyond the image's edges?
  bool in_strips(Range channels) const { return groups_ == ChannelGroups::Own && by_columns_ && channels.size() >= kernels_.lanes; }

  // Of nearly equal length.
  void run_strips(const ImageRing& in, const FilterRows& rows, const float* weights, Range positions, Range channels,
                  const Target& out) const {
    const int64_t strips = (positions.size() + kPositions - 1) / kPositions;
    for (int64_t i = 0; i < strips; ++i) {
      const Range some = part_of(positions.size(), i, strips);
      const int64_t first = (positions.first + some.first) * s_.stride[2] - left_, seen = (some.size() - 1) * s_.stride[2] + s_.kernel[2];
      const DepthwiseStrip strip =
          strip_of(image_at(in, first * column_ + channels.first), weights, rows, channels.size(), out.from(some.first),
                   {s_.kernel[2], s_.stride[2], some.size()}, columns_below(columns_ - first) & ~columns_below(-first));
      const int64_t missing = std::max(-first, first + seen - columns_);
      if (missing >= s_.kernel[2]) {
        own_kernel(some.size(), false, true, true)(strip);
      } else {
        own_kernels_[strip.filter_rows == s_.kernel[2]][missing > 0][some.size() - 1](strip);
      }
    }
  }

  // An element of the image; of 16 bits as they lie, whatever the pointer's type says.
  const float* image_at(const ImageRing& in, int64_t element) const {
    return reads_bf16_ ? reinterpret_cast<const float*>(reinterpret_cast<const uint16_t*>(in.data) + element) : in.data + element;
  }

  // The bits of so many columns, if they are as many.
  static uint64_t columns_below(int64_t count) { return (uint64_t{1} << std::clamp<int64_t>(count, 0, 63)) - 1; }

  struct StripSize {
    int64_t columns, stride, positions;
  };
  DepthwiseStrip strip_of(const float* image, const float* weights, const FilterRows& rows, int64_t channels, const Target& out,
                          const StripSize& size, uint64_t columns_there = ~uint64_t{0}) const {
    return {/*image=*/image,
            /*image_rows=*/rows.image.data(),
            /*image_column=*/column_,
            /*weights=*/weights,
            /*vector_weights=*/vector_weights_,
            /*weights_rows=*/rows.weights.data(),
            /*filter_rows=*/size.columns == 0 ? 0 : static_cast<int64_t>(rows.image.size()),
            /*columns=*/size.columns,
            /*stride=*/size.stride,
            /*positions=*/size.positions,
            /*out=*/out.data,
            /*out_position=*/out.position,
            /*channels=*/channels,
            /*seen=*/s_.in_channels,
            /*made=*/s_.out_channels,
            /*columns_there=*/columns_there,
            /*finish=*/out.finish};
  }

  // Of whole filter columns.
  DepthwiseKernel own_kernel(int64_t positions, bool is_square, bool at_edges, bool misses_inner_columns = false) const {
    return kernels_.kernel({ChannelGroups::Own, s_.kernel[2], s_.stride[2], positions, is_square, at_edges, misses_inner_columns});
  }
  void choose_own_kernels() {
    for (const bool is_square : {false, true}) {
      for (const bool at_edges : {false, true}) {
        for (int64_t positions = 1; positions <= kPositions; ++positions) {
          own_kernels_[is_square][at_edges][positions - 1] = own_kernel(positions, is_square, at_edges);
        }
      }
    }
  }

  // `count` positions, of which the first has its filter at `image`, and so many neighbouring columns of a filter row.
  void run_strip(const float* image, const float* weights, const FilterRows& rows, int64_t columns, int64_t count, int64_t channels,
                 const Target& out) const {
    if (!fills_vectors()) {
      run_few_channels(image, weights, rows, columns, count, out);
    } else {
      const DepthwiseStrip strip = strip_of(image, weights, rows, channels, out, {columns, by_columns_ ? s_.stride[2] : 1, count});
      kernels_.kernel({groups_, strip.columns, strip.stride, strip.positions})(strip);
    }
  }

  // The same for channels of their own that fill no vector.
  void run_few_channels(const float* image, const float* weights, const FilterRows& rows, int64_t columns, int64_t count,
                        const Target& out) const {
    for (int64_t p = 0; p < count; ++p, image += s_.stride[2] * column_) {
      for (int64_t c = 0; c < channels_; ++c) {
        float sum = 0;
        for (size_t row = 0; row < rows.image.size(); ++row) {
          for (int64_t j = 0; j < columns; ++j) {
            sum += image[rows.image[row] + j * column_ + c] * weights[rows.weights[row] + j * channels_ + c];
          }
        }
        out.data[p * out.position + c] = sum;
      }
    }
  }

  ConvolutionShape s_;
  DType image_dtype_;
  ImageStrides strides_;
  int64_t channels_;  // of the result
  ChannelGroups groups_;
  const DepthwiseKernels& kernels_;
  bool reads_bf16_;                                // rows as they lie
  DepthwiseKernel own_kernels_[2][2][kPositions];  // [as many filter rows as columns][at edges][positions - 1]
  bool copies_;                                    // rows of the image, padded
  int64_t column_, columns_, left_;  // of the rows that strips read: stride and number of columns, and what is missing at the left
  bool by_columns_;                  // filter columns in registers
  Range inside_;                     // inside_columns
  int64_t lanes_, vector_weights_;
  std::optional<PackedOperand> weights_;
};

}  // namespace

bool takes_channel_vectors(int64_t groups, int64_t in_channels, int64_t out_channels) {
  return groups_in_vectors(groups, in_channels, out_channels).has_value();
}

bool takes_channel_vectors(const KernelCall& call, const ConvolutionShape& shape) {
  return takes_channel_vectors(shape) && image_strides(call.inputs[0]).channel == 1;
}

std::unique_ptr<const KernelPlan> plan_channel_vectors(const KernelCall& call) {
  const ConvolutionShape shape = convolution_shape(call);
  if (auto plan = plan_without_sums(shape)) return plan;
  return channel_vectors(call, shape);
}

std::unique_ptr<RowConvolution> channel_vectors(const KernelCall& call, const ConvolutionShape& shape) {
  return std::make_unique<DepthwiseConvolver>(call, shape);
}

}  // namespace toroid
