// Steps that cuDNN computes, as programs of their own, beside sums of products written out. A library plays the driver, NVRTC and cuDNN
// (fake_gpu.c, fake_cudnn.c), in this process: it computes graphs as they are described to it, while own kernels give nonsense.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "driver/build_library.h"
#include "driver/choices/choose_ways.h"
#include "driver/compile.h"
#include "runtime/cuda/cudnn/api.h"
#include "runtime/cuda/product_memory.h"
#include "runtime/program/executable.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "schedule/cuda/ways/ways.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid {
namespace {

using Numbers = std::vector<double>;

class CudnnSteps : public testing::Test {
 protected:
  // The first call of the graph that cuDNN may compute, as a program of its own, which takes and gives rows of elements.
  Executable load(std::string_view text, schedule::Cudnn how = schedule::Cudnn::Only) {
    schedule::Scheduled made = schedule::scheduled(text, schedule::cuda_planner(schedule::TensorCores::Hopper),
                                                   {.convolutions_as_loops = true, .convolutions_in_tiles = true});
    for (schedule::Step& step : made.schedule.steps) {
      for (const schedule::Way& way : schedule::ways_of(*made.schedule.loops, step, schedule::TensorCores::Hopper, true)) {
        if (way.name != "cudnn") continue;
        CompileModelOptions options;
        options.target = codegen::Target::Cuda;
        const schedule::Step chosen = how == schedule::Cudnn::Only ? schedule::only_by_cudnn(way.step) : way.step;
        const LibrarySources sources = sources_of_step(made.program, *made.schedule.loops, chosen, options);
        const std::string library = build_library(sources, session().toolchain(), 1, {.optimization = 0});
        return Executable(library, {}, nullptr, "step", 1);
      }
    }
    throw Error(ErrorKind::Internal, "no step has cuDNN's way");
  }
  static CompileSession& session() {
    static const TempFolder folder;
    static const ScopedVariable here("TOROID_CACHE_DIR", folder.path().string());
    static CompileSession made;
    return made;
  }
  // Small numbers, which 16-bit floats have.
  static HostTensor tensor(DType dtype, int64_t count, int64_t seed) {
    Numbers values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 7 + seed * 3 + i / 5) % 9 - 4) / 4);
    return HostTensor::from_doubles(dtype, {count}, values);
  }
  static void expect_near(const HostTensor& got, const Numbers& wanted, double tolerance) {
    const Numbers values = got.to_doubles();
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_same = std::isnan(wanted[i]) ? std::isnan(values[i]) : std::abs(values[i] - wanted[i]) <= tolerance;
      ASSERT_TRUE(is_same) << i << ": " << values[i] << ", not " << wanted[i];
    }
  }

  const ScopedVariable driver_{"TOROID_CUDA_DRIVER", FAKE_GPU}, nvrtc_{"TOROID_NVRTC", FAKE_GPU}, products_{"TOROID_CUBLASLT", FAKE_GPU},
      cudnn_{"TOROID_CUDNN", FAKE_GPU}, how_{"FAKE_GPU", "two"}, architecture_{"TOROID_CUDA_ARCH", "sm_90a"};
};

// Of images [n, side, side, c] and filters [k, taps, taps, c], as they lie in memory: results [n, pixels, pixels, k].
struct Sizes {
  int64_t n, side, c, k, taps, padding, stride;
  int64_t pixels() const { return (side + 2 * padding - taps) / stride + 1; }
};
void for_products(const Sizes& s, const std::function<void(int64_t image, int64_t filter, int64_t result)>& each) {
  const int64_t pixels = s.pixels();
  for (int64_t result = 0; result < s.n * pixels * pixels * s.k; ++result) {
    const int64_t k = result % s.k, q = result / s.k % pixels, p = result / s.k / pixels % pixels, n = result / s.k / pixels / pixels;
    for (int64_t tap = 0; tap < s.taps * s.taps; ++tap) {
      const int64_t row = p * s.stride + tap / s.taps - s.padding, column = q * s.stride + tap % s.taps - s.padding;
      if (row < 0 || row >= s.side || column < 0 || column >= s.side) continue;
      for (int64_t c = 0; c < s.c; ++c)
        each(((n * s.side + row) * s.side + column) * s.c + c, (k * s.taps * s.taps + tap) * s.c + c, result);
    }
  }
}
Numbers convolution(const Sizes& s, const Numbers& image, const Numbers& filters) {
  Numbers sums(static_cast<size_t>(s.n * s.pixels() * s.pixels() * s.k));
  for_products(s, [&](int64_t i, int64_t f, int64_t r) {
    sums[static_cast<size_t>(r)] += image[static_cast<size_t>(i)] * filters[static_cast<size_t>(f)];
  });
  return sums;
}

// In float32 and in 16 bits; a second convolution keeps the first one's channels next to each other.
constexpr std::string_view kBlock = R"(
graph(x: {0}[2, 16, 7, 7] strides [784, 1, 112, 16], w: {0}[8, 16, 3, 3] strides [144, 1, 48, 16], s: {0}[8, 1, 1], b: {0}[8], r: {0}[2, 8, 4, 4] strides [128, 1, 32, 8], v: {0}[8, 8, 1, 1]) {{
  y: {0}[2, 8, 4, 4] = aten::conv2d(x, w, b, [2, 2], [1, 1])
  m: {0}[2, 8, 4, 4] = aten::mul.Tensor(y, s)
  a: {0}[2, 8, 4, 4] = aten::add.Tensor(m, r)
  z: {0}[2, 8, 4, 4] = aten::relu(a)
  q: {0}[2, 8, 4, 4] = aten::conv2d(z, v)
  return q
}})";

TEST_F(CudnnSteps, AConvolutionIsOneGraphWithWhatFollows) {
  constexpr Sizes kSizes{2, 7, 16, 8, 3, 1, 2};
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    Executable program = load(fmt::format(fmt::runtime(kBlock), to_string(dtype)));
    std::vector<HostTensor> in = {tensor(dtype, 2 * 49 * 16, 1), tensor(dtype, 8 * 144, 2), tensor(dtype, 8, 3), tensor(dtype, 8, 4),
                                  tensor(dtype, 2 * 16 * 8, 5)};
    in[4] = HostTensor::from_doubles(dtype, {256}, [&] {
      Numbers values = in[4].to_doubles();
      values[77] = std::nan("");  // a relu keeps it
      return values;
    }());
    // Operands in the order in which the step reads them: the product's, then as the epilogue has them, bias, scale, residual.
    std::vector<HostTensor> ordered = {in[0], in[1], in[3], in[2], in[4]};
    const Numbers bias = in[3].to_doubles(), scale = in[2].to_doubles(), residual = in[4].to_doubles();
    Numbers wanted = convolution(kSizes, in[0].to_doubles(), in[1].to_doubles());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double value = (wanted[i] + bias[i % 8]) * scale[i % 8] + residual[i];
      wanted[i] = std::isnan(value) ? value : std::max(value, 0.0);
    }
    // One by one, then with each suggestion timed, then as a graph of calls.
    for (int call = 0; call < 4; ++call) expect_near(program.run(ordered)[0], wanted, dtype == DType::F32 ? 1e-4 : 0.13);
  }
}

TEST_F(CudnnSteps, AGradientOfFiltersIsTheFirstPartOfTheSums) {
  Executable program = load(R"(
graph(x: bf16[2, 8, 6, 6] strides [288, 1, 48, 8], g: bf16[2, 16, 6, 6] strides [576, 1, 96, 16], w: bf16[16, 8, 3, 3]) {
  i: bf16[2, 8, 6, 6], d: bf16[16, 8, 3, 3], b: bf16[16] = aten::convolution_backward(g, x, w, [16], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false])
  return d
})");
  constexpr Sizes kSizes{2, 6, 8, 16, 3, 1, 1};
  const std::vector<HostTensor> in = {tensor(DType::BF16, 2 * 36 * 8, 1), tensor(DType::BF16, 2 * 36 * 16, 2)};
  const Numbers image = in[0].to_doubles(), gradient = in[1].to_doubles();
  Numbers sums(16 * 72);
  for_products(kSizes, [&](int64_t i, int64_t f, int64_t r) {
    sums[static_cast<size_t>(f)] += image[static_cast<size_t>(i)] * gradient[static_cast<size_t>(r)];
  });
  const HostTensor parts = program.run(in)[0];
  ASSERT_EQ(parts.to_doubles().size() % sums.size(), 0u);
  sums.resize(parts.to_doubles().size(), 0);
  expect_near(parts, sums, 1e-4);
}

TEST_F(CudnnSteps, AttentionIsOneGraph) {
  constexpr int64_t kHeads = 4, kShared = 2, kQueries = 20, kKeys = 24, kWidth = 64;
  for (const bool causal : {false, true}) {
    Executable program = load(fmt::format(R"(
graph(q: bf16[1, 4, 20, 64], k: bf16[1, 2, 24, 64], v: bf16[1, 2, 24, 64]) {{
  y: bf16[1, 4, 20, 64] = aten::scaled_dot_product_attention(q, k, v, none, 0.0, {}, scale=0.25, enable_gqa=true)
  return y
}})",
                                          causal));
    const std::vector<HostTensor> in = {tensor(DType::BF16, kHeads * kQueries * kWidth, 1),
                                        tensor(DType::BF16, kShared * kKeys * kWidth, 2), tensor(DType::BF16, kShared * kKeys * kWidth, 3)};
    const Numbers q = in[0].to_doubles(), k = in[1].to_doubles(), v = in[2].to_doubles();
    Numbers wanted;
    for (int64_t row = 0; row < kHeads * kQueries; ++row) {
      const int64_t head = row / kQueries / (kHeads / kShared), keys = causal ? row % kQueries + 1 : kKeys;
      Numbers weights;
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < kWidth; ++d)
          score += q[static_cast<size_t>(row * kWidth + d)] * k[static_cast<size_t>((head * kKeys + j) * kWidth + d)];
        weights.push_back(std::exp(0.25 * score));
        sum += weights.back();
      }
      for (int64_t d = 0; d < kWidth; ++d) {
        double value = 0;
        for (int64_t j = 0; j < keys; ++j)
          value += weights[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((head * kKeys + j) * kWidth + d)];
        wanted.push_back(value);
      }
    }
    for (int call = 0; call < 3; ++call) expect_near(program.run(in)[0], wanted, 0.02);
  }
}

// A kernel whose sums are rounded more than the model says is never taken, nor one that takes longer.
TEST_F(CudnnSteps, TheQuickestExactKernelStays) {
  Executable program = load(fmt::format(fmt::runtime(kBlock), "bf16"));
  const std::vector<HostTensor> in = {tensor(DType::BF16, 2 * 49 * 16, 1), tensor(DType::BF16, 8 * 144, 2), tensor(DType::BF16, 8, 3),
                                      tensor(DType::BF16, 8, 4), tensor(DType::BF16, 2 * 16 * 8, 5)};
  const DeviceTimes times = program.time_on_device(in, {.seconds = 0.01});
  EXPECT_NEAR(times.seconds.at(0), 1e-3, 1e-5);
}

// What was the quickest is kept as the library writes it; where that is damaged, its suggestions are asked again.
TEST_F(CudnnSteps, APlanIsReadBackWithoutSuggestions) {
  struct Memory final : cuda::ProductMemory {
    std::map<std::string, std::string> kept;
    std::optional<std::string> find(const std::string& product) override {
      const auto found = kept.find(product);
      return found == kept.end() ? std::nullopt : std::optional(found->second);
    }
    void keep(const std::string& product, std::string_view bytes) override { kept[product] = bytes; }
  };
  const auto memory = std::make_shared<Memory>();
  const std::vector<HostTensor> in = {tensor(DType::BF16, 2 * 49 * 16, 1), tensor(DType::BF16, 8 * 144, 2), tensor(DType::BF16, 8, 3),
                                      tensor(DType::BF16, 8, 4), tensor(DType::BF16, 2 * 16 * 8, 5)};
  const std::string text = fmt::format(fmt::runtime(kBlock), "bf16");
  const auto loaded = [&] {
    Executable program = load(text);
    program.remember_products(memory);
    return program;
  };
  Executable first = loaded();
  const HostTensor wanted = first.run(in)[0];
  first.run(in);
  ASSERT_EQ(memory->kept.size(), 1u);
  EXPECT_TRUE(memory->kept.begin()->second.starts_with("1\n{\"plan\": ")) << memory->kept.begin()->second;
  const ScopedVariable none("FAKE_GPU", "no suggestions");
  EXPECT_EQ(loaded().run(in)[0].to_doubles(), wanted.to_doubles());
  memory->kept.begin()->second = "1\n{damaged}";
  EXPECT_EQ(error_of([&] { loaded().run(in); }).message(), "cuDNN has no kernel for a step: it suggests no kernel");
  const ScopedVariable again("FAKE_GPU", "two");
  EXPECT_EQ(loaded().run(in)[0].to_doubles(), wanted.to_doubles());
}

TEST_F(CudnnSteps, WhatCudnnRefusesIsTheOwnKernels) {
  const ScopedVariable refuses("FAKE_GPU", "no graphs");
  const std::vector<HostTensor> in = {tensor(DType::BF16, 2 * 49 * 16, 1), tensor(DType::BF16, 8 * 144, 2), tensor(DType::BF16, 8, 3),
                                      tensor(DType::BF16, 8, 4), tensor(DType::BF16, 2 * 16 * 8, 5)};
  const std::string text = fmt::format(fmt::runtime(kBlock), "bf16");
  for (int call = 0; call < 3; ++call) EXPECT_EQ(load(text, schedule::Cudnn::First).run(in).size(), 1u);
  const Error error = error_of([&] { load(text).run(in); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), "cuDNN has no kernel for a step: CUDNN_STATUS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace toroid
