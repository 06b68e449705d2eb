#include "runtime/kernels/conv/chain.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/machine/per_thread.h"
#include "runtime/kernels/conv/conv.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

// Nanoseconds of one thread, measured on a Xeon with AVX-512.
constexpr double kPerMultiplication = 0.015;
constexpr double kPerMultiplicationInParts = 0.008;
constexpr double kPerChannelMultiplication = 0.04;
constexpr double kPerElement = 0.3;  // of what is made of a result
constexpr double kPerMultiplicationInTiles = 0.0015, kPerChannelMultiplicationBf16 = 0.02, kPerElementBf16 = 0.18;  // of bfloat16
constexpr double kPerByte = 0.012;       // written, or read, where it does not stay in the cache
constexpr double kPerMovedByte = 0.006;  // of what several threads write, and read in other shares
constexpr double kStart = 2000;          // of work for several threads
constexpr double kWorthIt = 0.97;        // of the time in turn: for less, rows are not made twice

Scratch scratch_for_rings;

// That rings of so many bytes are apart.
int64_t padded_bytes(int64_t bytes) {
  constexpr int64_t kFloat = sizeof(float);
  return padded_stride((bytes + kFloat - 1) / kFloat) * kFloat;
}

// The rows of its image that rows of a convolution's result see.
Range rows_seen(const ConvolutionShape& s, Range rows) {
  const int64_t first = std::clamp<int64_t>(rows.first * s.stride[1] - s.padding[1], 0, s.in[1]);
  const int64_t last = (rows.last - 1) * s.stride[1] - s.padding[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
  return {first, std::clamp(last, first, s.in[1])};
}
// The most that so many rows see.
int64_t most_rows_seen(const ConvolutionShape& s, int64_t rows) {
  return std::min(s.in[1], (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1);
}

int64_t out_channels(const ConvolutionShape& s) { return s.groups * s.out_channels; }
int64_t out_row(const ConvolutionShape& s) { return s.out[2] * out_channels(s); }  // elements

// Images of one dtype, F32 or BF16.
DType dtype_of_images(Span<const KernelCall> stages) { return dtype_of(stages[0].inputs[0]); }

// How a chain goes in bands.
struct ChainPlan {
  std::vector<ConvolutionShape> shapes;
  std::vector<std::unique_ptr<const RowConvolution>> convolutions = {};
  int64_t bands = 0;               // of an image
  std::vector<int64_t> kept = {};  // rows of each stage's image that are there at a time
  int64_t bytes_kept = 0;
};

class ChainPlanner {
 public:
  explicit ChainPlanner(Span<const KernelCall> stages)
      : stages_(stages), pool_(stages[0].pool), is_bf16_(dtype_of_images(stages) == DType::BF16), element_bytes_(is_bf16_ ? 2 : 4) {
    for (const KernelCall& stage : stages) shapes_.push_back(convolution_shape(stage));
  }

  bool can_go_in_bands() const {
    if (is_empty()) return false;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const KernelCall& call = stages_[i];
      const ToroidOperand& y = call.outputs[0];
      if (shapes_[i].transposed || y.rank > 4 || y.strides[1] != 1 || call.inputs.size() > 2 || !call.keeps(call.inputs[1])) return false;
    }
    return true;
  }

  // Rows that two threads make, and tasks of unequal length, against what need not be written and read.
  ChainEstimate estimate(int64_t threads) const {
    const ConvolutionShape& last = shapes_.back();
    const int64_t parts = this->parts(threads);
    const double start = threads > 1 ? kStart : 0;
    double in_turn = start * static_cast<double>(stages_.size()), longest = 0;
    std::vector<double> row_time(stages_.size());
    for (size_t i = 0; i < stages_.size(); ++i) {
      const ConvolutionShape& s = shapes_[i];
      row_time[i] = this->row_time(i, threads);
      const auto bytes = static_cast<double>(i > 0 ? s.batch * s.in[1] * out_row(shapes_[i - 1]) * element_bytes_ / threads : 0);
      in_turn +=
          2 * (threads > 1 ? kPerMovedByte : 0) * bytes + 2 * kPerByte * std::max(0.0, bytes - static_cast<double>(l2_cache_bytes() / 4));
      in_turn += static_cast<double>(s.batch) / static_cast<double>(threads) * static_cast<double>(s.out[1]) * row_time[i];
    }
    for (int64_t part = 0; part < parts; ++part) {
      Range rows = part_of(last.out[1], part, parts);
      double time = 0;
      for (size_t i = stages_.size(); i-- > 0; rows = rows_seen(shapes_[i], rows)) {
        time += static_cast<double>(rows.size()) * row_time[i];
        if (i == 0) break;
      }
      longest = std::max(longest, time);
    }
    const int64_t rounds = (last.batch * parts + threads - 1) / threads;
    constexpr double kNanosecond = 1e-9;
    return {kNanosecond * in_turn, kNanosecond * (start + static_cast<double>(rounds) * longest) / kWorthIt};
  }

  ChainPlan in_bands(int64_t rows, MakeRowConvolution make) const {
    ChainPlan plan = {/*shapes=*/shapes_};
    const ConvolutionShape& last = shapes_.back();
    const int64_t parts = this->parts(pool_.threads()), part_rows = (last.out[1] + parts - 1) / parts;
    const int64_t most = rows > 0 ? rows : band_rows(part_rows);
    plan.bands = parts * ((part_rows + most - 1) / most);
    plan.kept = rows_kept((last.out[1] + plan.bands - 1) / plan.bands);
    plan.bytes_kept = bytes_kept(plan.kept);
    const int64_t times = (last.batch * plan.bands + pool_.threads() - 1) / pool_.threads();
    for (size_t i = 0; i < stages_.size(); ++i) {
      plan.convolutions.push_back(make(stages_[i], shapes_[i], {/*from_ring=*/i > 0, /*times=*/times}));
    }
    return plan;
  }

 private:
  bool is_empty() const {
    return std::any_of(shapes_.begin(), shapes_.end(), [](const ConvolutionShape& s) { return s.is_empty() || !s.has_filter(); });
  }

  // Of an image, one a task.
  int64_t parts(int64_t threads) const { return std::min(threads / std::gcd(threads, shapes_.back().batch), shapes_.back().out[1]); }

  // Of a row of the result on one thread of so many.
  double row_time(size_t stage, int64_t threads) const {
    const ConvolutionShape& s = shapes_[stage];
    const bool in_vectors = takes_channel_vectors(s);
    const auto elements = static_cast<double>(out_row(s)), sums = static_cast<double>(s.in_channels * s.kernel_elements());
    if (is_bf16_) return elements * (sums * (in_vectors ? kPerChannelMultiplicationBf16 : kPerMultiplicationInTiles) + kPerElementBf16);
    const bool in_parts = !in_vectors && convolves_as_bf16x3(s, image_strides(stages_[stage].inputs[0]).channel,
                                                             stages_[stage].keeps(stages_[stage].inputs[1]), threads);
    const double each = in_parts ? kPerMultiplicationInParts : in_vectors ? kPerChannelMultiplication : kPerMultiplication;
    return elements * (sums * each + kPerElement);
  }

  // Rows of each stage's image that are there at a time, but of the first's.
  std::vector<int64_t> rows_kept(int64_t band) const {
    std::vector<int64_t> result(stages_.size());
    for (size_t i = stages_.size(); i-- > 1;) result[i] = band = most_rows_seen(shapes_[i], band);
    return result;
  }

  int64_t bytes_kept(const std::vector<int64_t>& rows) const {
    int64_t result = 0;
    for (size_t i = 1; i < stages_.size(); ++i) result += padded_bytes(rows[i] * out_row(shapes_[i - 1]) * element_bytes_);
    return result;
  }

  // As many as leave what is kept in a part of the cache, which weights and the first stage's image pass through too; less where a thread
  // has several bands then, so that it is not waited for if it is late, but not so few that weights are read again for each handful of
  // positions.
  int64_t band_rows(int64_t part_rows) const {
    constexpr int64_t kBandsPerPart = 4, kLeastPositions = 112;
    const int64_t bytes = l2_cache_bytes() / 4;
    const int64_t columns = shapes_.back().out[2];
    const int64_t enough = std::max((part_rows + kBandsPerPart - 1) / kBandsPerPart, (kLeastPositions + columns - 1) / columns);
    int64_t rows = 1;
    while (rows < std::min(part_rows, enough) && bytes_kept(rows_kept(rows + 1)) <= bytes) ++rows;
    return rows;
  }

  Span<const KernelCall> stages_;
  RuntimePool& pool_;
  bool is_bf16_;
  int64_t element_bytes_;
  std::vector<ConvolutionShape> shapes_;
};

// A call of a chain in bands.
class BandRun {
 public:
  BandRun(Span<const KernelCall> stages, const ChainPlan& plan)
      : stages_(stages), plan_(plan), pool_(stages[0].pool), dtype_(dtype_of_images(stages)), element_bytes_(size_bytes(dtype_)) {
    static std::atomic<uint64_t> runs{0};
    run_ = ++runs;
  }

  void run() {
    const ConvolutionShape& last = plan_.shapes.back();
    const int64_t bands = plan_.bands;
    pool_.parallel_for(last.batch * bands, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) run_band(task / bands, part_of(last.out[1], task % bands, bands));
    });
  }

 private:
  // What a thread has made of an image so far.
  struct Progress {
    uint64_t run = 0;
    int64_t image = 0;
    int64_t next = 0;                // row of the last stage
    std::vector<int64_t> made = {};  // the first row of each stage that is not there yet
    std::vector<Range> wanted = {};  // of each stage for the band at hand
    std::vector<ImageRing> images = {};
  };

  // This thread's; from its own beginning where it was elsewhere before.
  Progress& progress(int64_t image, int64_t row) const {
    static PerThread<Progress> of_threads;
    Progress& progress = of_threads.get();
    const size_t count = stages_.size();
    if (progress.run != run_) {
      progress = {/*run=*/run_, /*image=*/-1};
      progress.images.resize(count);
      const int64_t thread = threads_++;
      auto* elsewhere = scratch_for_rings.get<std::byte>(plan_.bytes_kept);
      for (size_t i = 1; i < count; ++i) {
        // A part of the image's own memory, which what comes after the chain will find in the cache, if it is large enough.
        constexpr int64_t kLineBytes = 64;
        const int64_t row = out_row(plan_.shapes[i - 1]), needed = plan_.kept[i] * row * element_bytes_,
                      own =
                          plan_.shapes[i].batch * plan_.shapes[i].in[1] * row * element_bytes_ / pool_.threads() / kLineBytes * kLineBytes;
        const bool is_enough = own >= needed;
        progress.images[i] = ring(is_enough ? bytes_of(stages_[i].inputs[0]) + thread * own : elsewhere, row, plan_.kept[i]);
        elsewhere += is_enough ? 0 : padded_bytes(needed);
      }
    }
    if (progress.image != image || progress.next != row) {
      const ToroidOperand& first = stages_[0].inputs[0];
      const ImageStrides strides = image_strides(first);
      progress.image = image;
      progress.images[0] = ring(bytes_of(first) + image * strides.batch * element_bytes_, strides.row, plan_.shapes[0].in[1]);
      progress.made.assign(count, 0);
    }
    return progress;
  }

  void run_band(int64_t image, Range rows) const {
    const size_t count = stages_.size();
    Progress& progress = this->progress(image, rows.first);
    std::vector<Range>& wanted = progress.wanted;
    wanted.resize(count);
    wanted[count - 1] = rows;
    for (size_t i = count - 1; i-- > 0;) {
      const Range seen = rows_seen(plan_.shapes[i + 1], wanted[i + 1]);
      const int64_t begin = std::max(seen.first, progress.made[i]);
      wanted[i] = {begin, std::max(begin, seen.last)};
    }
    for (size_t i = 0; i + 1 < count; ++i) {
      make_rows(i, image, wanted[i], progress.images);
      progress.made[i] = wanted[i].last;
    }
    const KernelCall& last = stages_.back();
    const int64_t channels = out_channels(plan_.shapes.back());
    give_rows(count - 1, image, rows, progress.images.back(), last.epilogue != nullptr ? last.epilogue->out : last.outputs[0].data,
              channels);
    progress.next = rows.last;
  }

  // Of the stage's output image, whose first image begins at `out`.
  void give_rows(size_t stage, int64_t image, Range rows, const ImageRing& in, void* out, int64_t channels) const {
    const ToroidEpilogue* const given = stages_[stage].epilogue;
    if (given == nullptr && dtype_ == DType::F32)
      return plan_.convolutions[stage]->run_rows(image, rows, in, {static_cast<float*>(out), channels, nullptr});
    ToroidEpilogue epilogue = given != nullptr ? *given : store_as(dtype_, out, channels);
    epilogue.out = out;
    plan_.convolutions[stage]->run_rows(image, rows, in, {nullptr, channels, &epilogue});
  }

  // Of the stage's whole image, to the ring that the next one reads.
  void make_rows(size_t stage, int64_t image, Range rows, Span<const ImageRing> images) const {
    const ImageRing& ring = images[stage + 1];
    const ConvolutionShape& s = plan_.shapes[stage];
    for (Range some = rows; some.first < rows.last; some.first = some.last) {
      some.last = std::min(rows.last, (some.first / ring.kept + 1) * ring.kept);
      // Where the first row of the first image would be.
      const int64_t before = (image * s.out[1] + some.first - some.first % ring.kept) * ring.row * element_bytes_;
      void* const base = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(ring.data) - before);
      give_rows(stage, image, some, images[stage], base, out_channels(s));
    }
  }

  static std::byte* bytes_of(const ToroidOperand& operand) { return static_cast<std::byte*>(operand.data); }
  static ImageRing ring(const std::byte* data, int64_t row, int64_t kept) { return {reinterpret_cast<const float*>(data), row, kept}; }

  Span<const KernelCall> stages_;
  const ChainPlan& plan_;
  RuntimePool& pool_;
  DType dtype_;
  int64_t element_bytes_;
  uint64_t run_ = 0;                         // that no other has
  mutable std::atomic<int64_t> threads_{0};  // that take part
};

Span<const KernelCall> stages_of(const KernelCall& chain) { return {chain.stages, chain.num_stages}; }

class BandsPlan final : public KernelPlan {
 public:
  explicit BandsPlan(ChainPlan plan) : plan_(std::move(plan)) {}
  void run(const KernelCall& chain) const override { BandRun(stages_of(chain), plan_).run(); }

 private:
  ChainPlan plan_;
};

class InTurn final : public KernelPlan {
 public:
  explicit InTurn(Span<const KernelCall> stages) {
    for (const KernelCall& stage : stages) plans_.push_back(plan_library_kernel("convolution", stage));
  }
  void run(const KernelCall& chain) const override {
    for (size_t i = 0; i < plans_.size(); ++i) plans_[i]->run(chain.stages[i]);
  }

 private:
  std::vector<std::unique_ptr<const KernelPlan>> plans_;
};

}  // namespace

ChainEstimate estimate_chain(Span<const KernelCall> stages, int64_t threads) { return ChainPlanner(stages).estimate(threads); }

std::unique_ptr<const KernelPlan> plan_in_turn(const KernelCall& chain) { return std::make_unique<const InTurn>(stages_of(chain)); }

std::unique_ptr<const KernelPlan> plan_in_bands(const KernelCall& chain, int64_t rows, MakeRowConvolution make) {
  const ChainPlanner planner(stages_of(chain));
  TOROID_CHECK(planner.can_go_in_bands(), "the convolutions of a chain cannot be made some rows at a time");
  return std::make_unique<const BandsPlan>(planner.in_bands(rows, make));
}

}  // namespace toroid
