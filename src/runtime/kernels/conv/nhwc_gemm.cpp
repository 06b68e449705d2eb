// Convolutions whose results have their channels next to each other: products of image rows, where they lie, with packed weights.
//
// The row of the left matrix that belongs to an output position is a list of runs in the image: with channels next to each other, one run
// of channels per filter element; with channels in planes (an image of three colours), one run of filter columns per channel and filter
// row. Where the image has to be padded, a band of its rows is copied first, with zeros around.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/conv/filter_layout.h"
#include "runtime/kernels/conv/implicit_gemm_bf16x3.h"
#include "runtime/kernels/gemm/bf16x3/gemm.h"
#include "runtime/kernels/gemm/gemm_f32.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/kernels/registry/packed_operand.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kPositionsAtOnce = 112;     // output positions that meet a panel together
constexpr int64_t kBandPositions = 512;       // that share a copied band, if their rows are so short
constexpr int64_t kFewPositions = 64;         // of an image, several of which are taken together
constexpr int64_t kFewChannels = 8;           // stay in planes
constexpr int64_t kLeastChannelsInPairs = 8;  // fewer are quicker as scattered elements
constexpr int64_t kChannelsAtOnce = 256;      // of a filter that is copied
constexpr double kCyclesToGather = 2;         // and split an element of a row whose runs are not the steps of a product in parts

Scratch scratch_for_band;
Scratch scratch_for_filters;  // of a panel

bool splits_bands(const ConvolutionShape& s, int64_t channel_stride);

class Convolver : public RowConvolution {
 public:
  Convolver(const KernelCall& call, const ConvolutionShape& s, const RowUse& use)
      : s_(s), strides_(image_strides(call.inputs[0])), channels_(s.groups * s.out_channels) {
    const bool is_padded = s.padding[1] > 0 || s.padding[2] > 0;
    in_planes_ = strides_.channel != 1 && s.in_channels <= kFewChannels;
    copies_ = is_padded || (in_planes_ ? strides_.column != 1 : strides_.channel != 1) || (use.from_ring && s.kernel[1] > 1);
    depth_ = s.in_channels * s.kernel_elements();
    in_parts_ = convolves_as_bf16x3(s, strides_.channel, call.keeps(call.inputs[1]), call.pool.threads());
    in_pairs_ = !in_parts_ && !in_planes_ && s.in_channels % 2 == 0 && s.in_channels >= kLeastChannelsInPairs &&
                call.keeps(call.inputs[1]) && PackedB::pays_in_pairs(s.out_channels);
    splits_bands_ = in_parts_ && splits_bands(s, strides_.channel);
    band_columns_ = (s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
    elements_ = image_elements(copies_ ? band_strides() : strides_);
    weights_.emplace(call, 1, layout_of_weights(call.inputs[1]), s_.groups * weights_size(),
                     [this](const KernelCall& each, int64_t, float* to) { pack_weights(each, to); });
    if (use.times > 0) {
      fetches_ = pays_to_fetch(weights_bytes(), use.times);
    } else {
      cut_whole(call.pool);
    }
  }

  void run(const KernelCall& call) const override {
    const ProductOutput out = output_of(call, channels_);
    const float* const x = data_of(call.inputs[0]);
    const float* const packed = weights_->of(call);
    if (const auto row = matrix_row_stride(s_, strides_)) {
      return with_weights(packed, 0, [&](const auto& weights) {
        multiply(call.pool, cut_, s_.batch * s_.out_elements(), {x, *row, 1}, weights, {0, weights.panels()}, out);
      });
    }
    if (takes_images_together_) {
      return call.pool.parallel_for(cut_.tasks(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          run_images(packed, x, part_of(s_.batch, cut_.block(task), cut_.blocks), part_of(all_panels(), cut_.group(task), cut_.groups),
                     out);
        }
      });
    }
    call.pool.parallel_for(s_.batch * cut_.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t task = i % cut_.tasks();
        const int64_t image = i / cut_.tasks();
        run_band(packed, image, part_of(s_.out[1], cut_.block(task), cut_.blocks), part_of(all_panels(), cut_.group(task), cut_.groups),
                 {x + image * strides_.batch, strides_.row, s_.in[1]}, out);
      }
    });
  }

  void run_rows(int64_t image, Range rows, const ImageRing& in, const ProductOutput& out) const override {
    const int64_t bands = (rows.size() + most_rows() - 1) / most_rows();
    for (int64_t i = 0; i < bands; ++i) {
      const Range band = part_of(rows.size(), i, bands);
      run_band(weights_->kept(), image, {rows.first + band.first, rows.first + band.last}, {0, all_panels()}, in, out);
    }
  }

 private:
  // Of all groups' channels; a task has some of them, and copies its band whole.
  int64_t all_panels() const { return s_.groups * panels_of_group(); }
  void cut_whole(const RuntimePool& pool) {
    if (matrix_row_stride(s_, strides_)) {
      return with_weights(nullptr, 0,
                          [&](const auto& weights) { cut_ = partition_of(pool.threads(), s_.batch * s_.out_elements(), weights); });
    }
    const int64_t strip_rows = in_parts_ ? kTileSide : GemmMicrokernels::kMostRows;
    takes_images_together_ = s_.batch > 1 && s_.groups == 1 && !in_planes_ && s_.out_elements() <= kFewPositions;
    if (takes_images_together_) {
      const double strips_per_image = static_cast<double>(s_.out_elements()) / static_cast<double>(strip_rows);
      const int64_t most_images = std::max<int64_t>(1, positions_at_once() / s_.out_elements());
      cut_ = partition_of(pool.threads(),
                          {s_.batch, all_panels(), depth_, most_images, strips_per_image, strip_rows, in_parts_ ? kCyclesToSplit : 0});
      fetches_ = pays_to_fetch(weights_bytes() / cut_.groups, divide_up(s_.batch, cut_.blocks * most_images));
      return;
    }
    const double strips_per_row = static_cast<double>(s_.out[2]) / static_cast<double>(strip_rows);
    const int64_t threads = std::max<int64_t>(1, pool.threads() / s_.batch);
    cut_ =
        partition_of(threads, {s_.out[1], all_panels(), depth_, most_rows(), strips_per_row, strip_rows, in_parts_ ? kCyclesToSplit : 0});
    fetches_ = pays_to_fetch(weights_bytes() / cut_.groups, s_.batch * cut_.blocks / pool.threads());
  }

  int64_t weights_bytes() const { return s_.groups * weights_size() * int64_t{sizeof(float)}; }
  // Of a group.
  int64_t weights_size() const { return in_parts_ ? PackedBf16x3::size(depth_, s_.out_channels) : PackedB::size(depth_, s_.out_channels); }
  int64_t panels_of_group() const { return in_parts_ ? PackedBf16x3::panels(s_.out_channels) : PackedB::panels(s_.out_channels); }
  // Calls f with a group's weights, PackedB or PackedBf16x3, of those that are packed.
  template <class F>
  void with_weights(const float* packed, int64_t group, const F& f) const {
    const float* data = packed == nullptr ? nullptr : packed + group * weights_size();
    in_parts_ ? f(PackedBf16x3{depth_, s_.out_channels, data}) : f(PackedB{depth_, s_.out_channels, data, in_pairs_});
  }

  struct FilterPanels {
    bool in_parts, in_pairs, in_planes;
    FilterLayout filters;
    TOROID_COMPARED_FIELDS(FilterPanels, in_parts, in_pairs, in_planes, filters)
  };
  FilterPanels layout_of_weights(const ToroidOperand& w) const { return {in_parts_, in_pairs_, in_planes_, filter_layout(w, s_)}; }

  // Per group, a product's right-hand side: its rows in the order in which the runs come. Filters that are no constants are packed in each
  // call, so panels are tasks.
  void pack_weights(const KernelCall& call, float* to) const {
    const FilterLayout layout = filter_layout(call.inputs[1], s_);
    std::vector<int64_t> elements;
    for (int64_t e = 0; e < s_.kernel_elements(); ++e) elements.push_back(layout.offset(0, 0, e));
    const int64_t width = in_parts_ ? PackedBf16x3::kPanelColumns : gemm_microkernels().panel_width(), of_group = panels_of_group();
    call.pool.parallel_for(all_panels(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / of_group, panel = i % of_group, first = panel * width;
        const Range filters = {group * s_.out_channels + first, group * s_.out_channels + std::min(first + width, s_.out_channels)};
        float* const packed = to + group * weights_size() +
                              (in_parts_ ? panel * PackedBf16x3::panel_size(depth_, PackedBf16x3::kPanelTiles) : first * depth_);
        if (packs_as_they_lie(layout)) {
          const FiltersAsTheyLie some = {data_of(call.inputs[1]) + filters.first * layout.out_stride, layout.out_stride, layout.in_stride,
                                         elements};
          if (pack_filters_bf16x3(some, s_.in_channels, filters.size(), packed)) continue;
        }
        const Matrix columns = filters_as_columns(data_of(call.inputs[1]), layout, filters);
        if (in_parts_) {
          pack_bf16x3(columns, depth_, filters.size(), 0, 1, packed);
        } else {
          pack_panels(columns, depth_, filters.size(), 0, 1, packed, in_pairs_ && panel + 1 == of_group);
        }
      }
    });
  }

  // Filters that a product in parts takes without a copy: neither channels nor filters follow each other.
  bool packs_as_they_lie(const FilterLayout& layout) const {
    return in_parts_ && !in_planes_ && layout.in_stride != 1 && (layout.out_stride != 1 || s_.kernel_elements() > 1);
  }

  // These filters, where they lie if their elements do so in the order of the runs, or a copy that is this thread's until its next one.
  Matrix filters_as_columns(const float* w, const FilterLayout& layout, Range filters) const {
    const float* const from = w + filters.first * layout.out_stride;
    const int64_t elements = s_.kernel_elements(), channel = in_planes_ ? elements : 1, element = in_planes_ ? 1 : s_.in_channels;
    if (elements == 1) return {from, layout.in_stride, layout.out_stride};
    const bool has_rows = layout.kernel[0] == 1 || layout.row_stride == layout.kernel[1] * layout.column_stride;
    if (has_rows && layout.column_stride == element && (layout.in_stride == channel || s_.in_channels == 1))
      return {from, 1, layout.out_stride};
    float* const rows = scratch_for_filters.get(filters.size() * depth_);
    for (int64_t o = 0; o < filters.size(); ++o) {
      for (int64_t first = 0; first < s_.in_channels; first += kChannelsAtOnce) {
        const Range channels = {first, std::min(first + kChannelsAtOnce, s_.in_channels)};
        copy_channels(from + o * layout.out_stride, layout, channels, channel, element, rows + o * depth_);
      }
    }
    return {rows, 1, depth_};
  }

  // Of one filter, an element after the other of all these channels, which the first-level cache holds meanwhile.
  static void copy_channels(const float* from, const FilterLayout& layout, Range channels, int64_t channel, int64_t element, float* row) {
    for (int64_t k1 = 0; k1 < layout.kernel[0]; ++k1) {
      for (int64_t k2 = 0; k2 < layout.kernel[1]; ++k2, row += element) {
        const float* const at = from + k1 * layout.row_stride + k2 * layout.column_stride;
        for (int64_t c = channels.first; c < channels.last; ++c) row[c * channel] = at[c * layout.in_stride];
      }
    }
  }

  // Of a copied band, in which planes are as far apart as the most rows need.
  ImageStrides band_strides() const {
    const int64_t channels = s_.groups * s_.in_channels;
    return in_planes_ ? ImageStrides{0, band_height({0, most_rows()}) * band_columns_, band_columns_, 1}
                      : ImageStrides{0, 1, band_columns_ * channels, channels};
  }

  // The rows of the image that these output rows see, in `to`.
  void copy_band(const ImageRing& in, Range rows, float* to) const {
    const int64_t height = band_height(rows);
    const int64_t channels = s_.groups * s_.in_channels;
    const ImageStrides strides = band_strides();
    const int64_t left = s_.padding[2];
    const Range inside = {std::min(left, band_columns_), std::clamp(left + s_.in[2], std::min(left, band_columns_), band_columns_)};
    for (int64_t r = 0; r < height; ++r) {
      const int64_t i = rows.first * s_.stride[1] - s_.padding[1] + r;
      const bool is_empty = i < 0 || i >= s_.in[1];
      const float* row = is_empty ? nullptr : in.at(i);
      if (in_planes_) {
        for (int64_t c = 0; c < channels; ++c) {
          float* out = to + c * strides.channel + r * strides.row;
          if (is_empty) {
            std::fill_n(out, band_columns_, 0.0f);
            continue;
          }
          std::fill(out, out + inside.first, 0.0f);
          const float* plane = row + c * strides_.channel - left * strides_.column;
          if (strides_.column == 1) {
            std::copy(plane + inside.first, plane + inside.last, out + inside.first);
          } else {
            for (int64_t j = inside.first; j < inside.last; ++j) out[j] = plane[j * strides_.column];
          }
          std::fill(out + inside.last, out + band_columns_, 0.0f);
        }
        continue;
      }
      float* out = to + r * strides.row;
      if (is_empty) {
        std::fill_n(out, band_columns_ * channels, 0.0f);
        continue;
      }
      std::fill_n(out, inside.first * channels, 0.0f);
      const float* at = row - left * strides_.column;
      if (strides_.channel == 1 && strides_.column == channels) {
        std::copy(at + inside.first * channels, at + inside.last * channels, out + inside.first * channels);
      } else {
        for (int64_t j = inside.first; j < inside.last; ++j) {
          for (int64_t c = 0; c < channels; ++c) out[j * channels + c] = at[j * strides_.column + c * strides_.channel];
        }
      }
      std::fill(out + inside.last * channels, out + band_columns_ * channels, 0.0f);
    }
  }

  int64_t positions_at_once() const { return in_parts_ ? most_row_tiles(depth_) * kTileSide : kPositionsAtOnce; }
  // That are worked on together.
  int64_t most_rows() const { return std::clamp<int64_t>((copies_ ? kBandPositions : positions_at_once()) / s_.out[2], 1, s_.out[1]); }
  int64_t band_height(Range rows) const { return (rows.size() - 1) * s_.stride[1] + (s_.kernel[1] - 1) * s_.dilation[1] + 1; }

  // Of an output position, from the pixel that its filter's first element meets.
  RowElements image_elements(const ImageStrides& strides) const {
    RowElements elements;
    for (int64_t c = 0; c < (in_planes_ ? s_.in_channels : 1); ++c) {
      for (int64_t k1 = 0; k1 < s_.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < s_.kernel[2]; ++k2) {
          elements.add(c * strides.channel + k1 * s_.dilation[1] * strides.row + k2 * s_.dilation[2] * strides.column,
                       in_planes_ ? 1 : s_.in_channels);
        }
      }
    }
    return elements;
  }

  // Panels are counted through all groups.
  void run_band(const float* weights, int64_t image, Range rows, Range panels, ImageRing in, const ProductOutput& out) const {
    ImageStrides strides = strides_;
    int64_t first = rows.first * s_.stride[1];
    if (copies_) {
      const int64_t height = band_height(rows);
      strides = band_strides();
      const int64_t floats = in_planes_ ? s_.groups * s_.in_channels * strides.channel : height * strides.row;
      float* band = scratch_for_band.get(floats);
      copy_band(in, rows, band);
      in = {band, strides.row, height};
      first = 0;
      if (splits_bands_) {
        const PartsBand parts = {
            band, height, band_columns_, s_.in_channels, {s_.kernel[1], s_.kernel[2]}, {s_.dilation[1], s_.dilation[2]}, s_.out[2]};
        const int64_t position = (image * s_.out[1] + rows.first) * s_.out[2];
        if (convolve_band({depth_, s_.out_channels, weights}, panels.first, panels.last, parts, position, out, {fetches_})) return;
      }
    }
    const int64_t of_group = panels_of_group();
    for (int64_t group = panels.first / of_group; group * of_group < panels.last; ++group) {
      const Range some = {std::max<int64_t>(0, panels.first - group * of_group), std::min(of_group, panels.last - group * of_group)};
      const ImageRing of_channels = {in.data + group * s_.in_channels * strides.channel, in.row, in.kept};
      run_group(weights, image, group, rows, some, of_channels, first, strides.column, out);
    }
  }

  // Whole images of few positions, which meet each panel together: one after the other each would read all panels anew.
  void run_images(const float* packed, const float* x, Range images, Range panels, const ProductOutput& out) const {
    const int64_t all = images.size() * s_.out_elements(), height = band_height({0, s_.out[1]});
    const ImageStrides strides = copies_ ? band_strides() : strides_;
    const int64_t batch = copies_ ? height * strides.row : strides.batch;
    const float* const from = x + images.first * strides_.batch;
    const float* seen = from;
    if (copies_) {
      float* const bands = scratch_for_band.get(images.size() * batch);
      for (int64_t i = 0; i < images.size(); ++i)
        copy_band({from + i * strides_.batch, strides_.row, s_.in[1]}, {0, s_.out[1]}, bands + i * batch);
      seen = bands;
    }
    std::vector<const float*> pointers;
    pointers.reserve(static_cast<size_t>(all));
    for (int64_t i = 0; i < images.size(); ++i) {
      for (int64_t row = 0; row < s_.out[1]; ++row) {
        const float* const pixel = seen + i * batch + row * s_.stride[1] * strides.row;
        for (int64_t j = 0; j < s_.out[2]; ++j) pointers.push_back(pixel + j * s_.stride[2] * strides.column);
      }
    }
    const int64_t chunks = divide_up(all, positions_at_once()), strips = divide_up(all, 2 * kTileSide);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const Range some = part_of(strips, chunk, chunks);
      const int64_t first = some.first * 2 * kTileSide, last = std::min(some.last * 2 * kTileSide, all);
      with_weights(packed, 0, [&](const auto& weights) {
        multiply_rows(weights, panels.first, panels.last, elements_,
                      Span(pointers).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)),
                      images.first * s_.out_elements() + first, out, {fetches_});
      });
    }
  }

  // `first`: the image's row that the output's rows see first; `column`: the stride of its columns.
  void run_group(const float* packed, int64_t image, int64_t group, Range rows, Range panels, const ImageRing& in, int64_t first,
                 int64_t column, const ProductOutput& whole) const {
    // The group's channels are some of the columns of the whole result.
    const ProductOutput out = whole.part(0, group * s_.out_channels);

    const int64_t count = rows.size() * s_.out[2];
    const int64_t at_once = positions_at_once(), chunks = (count + at_once - 1) / at_once;
    // Whole strips of the innermost loops, but at the end.
    const int64_t strip = in_parts_ ? 2 * kTileSide : 1, strips = (count + strip - 1) / strip;
    static PerThread<std::vector<const float*>> of_threads;
    std::vector<const float*>& pointers = of_threads.get();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const Range positions = {strips * chunk / chunks * strip, std::min(count, strips * (chunk + 1) / chunks * strip)};
      pointers.resize(static_cast<size_t>(positions.size()));
      const float** pointer = pointers.data();
      for (int64_t j = positions.first; j < positions.last;) {
        const int64_t row = j / s_.out[2], end = std::min((row + 1) * s_.out[2], positions.last);
        const int64_t step = s_.stride[2] * column, of_row = end - j;
        const float* const pixel = in.at(first + row * s_.stride[1]) + (j - row * s_.out[2]) * step;
        for (int64_t i = 0; i < of_row; ++i) pointer[i] = pixel + i * step;
        pointer += of_row;
        j = end;
      }
      with_weights(packed, group, [&](const auto& weights) {
        multiply_rows(weights, panels.first, panels.last, elements_, pointers,
                      (image * s_.out[1] + rows.first) * s_.out[2] + positions.first, out, {fetches_});
      });
    }
  }

  ConvolutionShape s_;
  ImageStrides strides_;
  int64_t channels_;
  bool in_planes_ = false;     // the image's channels, while they are multiplied
  bool copies_ = false;        // bands of the image, padded
  bool fetches_ = false;       // weights ahead
  bool in_parts_ = false;      // the product
  bool in_pairs_ = false;      // the last panel of weights
  bool splits_bands_ = false;  // as wholes, not row by row
  bool takes_images_together_ = false;
  int64_t band_columns_;  // of the image that all output columns see
  int64_t depth_ = 0;
  RowElements elements_;
  std::optional<PackedOperand> weights_;
  Cut cut_;  // of the whole
};

// Is each element of the padded image split once, for all filter elements?
bool splits_bands(const ConvolutionShape& s, int64_t channel_stride) {
  const bool is_padded = s.padding[1] > 0 || s.padding[2] > 0;
  return is_padded && s.groups == 1 && s.kernel_elements() > 1 && s.stride[1] == 1 && s.stride[2] == 1 &&
         s.in_channels % kStepElements == 0 && channel_stride == 1;
}

}  // namespace

bool convolves_as_bf16x3(const ConvolutionShape& s, int64_t channel_stride, bool keeps_weights, int64_t threads) {
  const int64_t depth = s.in_channels * s.kernel_elements();
  const double split = splits_bands(s, channel_stride) ? kCyclesToSplit * 2 / static_cast<double>(s.kernel_elements())
                       : s.in_channels % kStepElements == 0 || s.kernel_elements() == 1 ? kCyclesToSplit
                                                                                        : kCyclesToGather;
  return pays_as_bf16x3({s.batch * s.out_elements(), s.out_channels, depth, keeps_weights, threads}, split);
}

std::optional<int64_t> matrix_row_stride(const ConvolutionShape& s, const ImageStrides& image) {
  if (s.groups != 1 || s.kernel_elements() != 1 || s.padding[1] != 0 || s.padding[2] != 0 || s.stride[1] != 1 || s.stride[2] != 1)
    return std::nullopt;
  if (image.channel != 1 && s.in_channels > 1) return std::nullopt;
  std::optional<int64_t> stride;  // of dims of one element nobody asks
  int64_t count = 1;
  const std::pair<int64_t, int64_t> dims[] = {{s.out[2], image.column}, {s.out[1], image.row}, {s.batch, image.batch}};
  for (const auto& [size, step] : dims) {
    if (size == 1) continue;
    if (stride && step != *stride * count) return std::nullopt;
    if (!stride) stride = step;
    count *= size;
  }
  return stride.value_or(s.in_channels);
}

ProductOutput output_of(const KernelCall& call, int64_t channels) {
  return {call.epilogue != nullptr ? nullptr : data_of(call.outputs[0]), channels, call.epilogue};
}

ImageStrides image_strides(Span<const int64_t> s) {
  return s.size() == 4 ? ImageStrides{s[0], s[1], s[2], s[3]} : ImageStrides{s[0], s[1], 0, s[2]};
}

std::unique_ptr<const KernelPlan> plan_without_sums(const ConvolutionShape& shape) {
  if (shape.is_empty()) return plan_that_runs([](const KernelCall&) {});
  if (shape.has_filter()) return nullptr;
  return plan_that_runs([rows = shape.batch * shape.out_elements(), columns = shape.groups * shape.out_channels](const KernelCall& call) {
    const std::vector<float> zeros(static_cast<size_t>(columns + kReadBeyond));
    const ProductOutput out = output_of(call, columns);
    for (int64_t row = 0; row < rows; ++row) out.take(zeros.data(), columns, {row, row + 1}, {0, columns});
  });
}

std::unique_ptr<const KernelPlan> plan_image_rows(const KernelCall& call) {
  const ConvolutionShape shape = convolution_shape(call);
  if (auto plan = plan_without_sums(shape)) return plan;
  return std::make_unique<const Convolver>(call, shape, RowUse{});
}

GemmProblem matrix_product_of(const ConvolutionShape& shape, int64_t filter_stride, int64_t channel_stride) {
  return {/*batches=*/1,
          /*m=*/shape.batch * shape.out_elements(),
          /*n=*/shape.out_channels,
          /*k=*/shape.in_channels,
          /*b_is_packed=*/false,
          /*a_column=*/1,
          /*b_row=*/channel_stride,
          /*b_column=*/filter_stride};
}

std::unique_ptr<const KernelPlan> plan_matrix_product(const KernelCall& call) {
  const ConvolutionShape shape = convolution_shape(call);
  if (auto plan = plan_without_sums(shape)) return plan;
  const int64_t row = matrix_row_stride(shape, image_strides(call.inputs[0])).value();
  const GemmProblem gemm = matrix_product_of(shape, call.inputs[1].strides[0], call.inputs[1].strides[1]);
  return plan_that_runs([gemm, row, product = plan_gemm_f32(gemm, call.pool.threads())](const KernelCall& each) {
    product(each.pool, {data_of(each.inputs[0]), row, 1}, {data_of(each.inputs[1]), gemm.b_row, gemm.b_column}, output_of(each, gemm.n));
  });
}

std::unique_ptr<RowConvolution> row_convolution(const KernelCall& call, const ConvolutionShape& shape, const RowUse& use) {
  if (takes_channel_vectors(call, shape)) return channel_vectors(call, shape);
  return std::make_unique<Convolver>(call, shape, use);
}

}  // namespace toroid
