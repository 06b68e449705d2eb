// Chains of convolutions in bands against the same convolutions one after the other: not a bit differs.
#include "runtime/kernels/conv/chain.h"

#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/on_machines_for_test.h"

namespace toroid {
namespace {

struct Stage {
  int64_t filters, groups;
  int64_t kernel[2], stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool has_epilogue = true;
};

struct ChainCase {
  const char* name;
  int64_t batch, channels, height, width;
  std::vector<Stage> stages;
  bool in_planes = false;  // the first image
};

const ChainCase kChains[] = {
    {"expand, filter, project", 1, 16, 23, 19, {{96, 1, {1, 1}}, {96, 96, {3, 3}, {2, 2}, {1, 1}}, {24, 1, {1, 1}}}},
    {"of three images", 3, 24, 14, 13, {{72, 1, {1, 1}}, {72, 72, {3, 3}, {1, 1}, {1, 1}}, {24, 1, {1, 1}}}},
    {"a first one of planes", 1, 3, 31, 33, {{32, 1, {3, 3}, {2, 2}, {1, 1}}, {32, 32, {3, 3}, {1, 1}, {1, 1}}, {16, 1, {1, 1}}}, true},
    {"two", 1, 20, 17, 9, {{40, 1, {1, 1}}, {40, 40, {5, 5}, {2, 2}, {2, 2}}}},
    {"many, some without an epilogue",
     2,
     8,
     26,
     11,
     {{32, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {32, 32, {3, 3}, {1, 1}, {1, 1}},
      {24, 1, {1, 1}},
      {48, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {48, 48, {3, 3}, {2, 2}, {1, 1}},
      {20, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false}}},
    {"unequal padding, stride and dilation",
     1,
     16,
     29,
     27,
     {{32, 1, {1, 1}}, {32, 32, {3, 5}, {3, 1}, {4, 1}, {2, 3}}, {17, 1, {2, 1}, {1, 2}, {1, 0}}}},
    {"filters of several channels",
     1,
     6,
     21,
     18,
     {{8, 1, {3, 3}, {1, 1}, {1, 1}}, {12, 4, {3, 3}, {2, 1}, {0, 2}}, {10, 1, {5, 1}, {2, 2}, {1, 0}}}},
    {"rows that nobody sees", 1, 16, 25, 8, {{32, 1, {1, 1}}, {32, 32, {1, 1}, {4, 3}}, {16, 1, {1, 1}, {2, 1}}}},
    {"more threads than rows", 1, 16, 4, 30, {{32, 1, {1, 1}}, {32, 32, {3, 3}, {2, 2}, {1, 1}}, {16, 1, {1, 1}}}},
    {"filters beyond the image", 1, 16, 3, 5, {{32, 1, {1, 1}}, {32, 32, {7, 7}, {1, 1}, {5, 5}}, {16, 1, {1, 1}}}},
    {"enough channels for products in parts", 1, 64, 21, 20, {{256, 1, {1, 1}}, {256, 256, {3, 3}, {1, 1}, {1, 1}}, {64, 1, {1, 1}}}},
    {"an inverted bottleneck behind another",
     1,
     40,
     19,
     23,
     {{96, 1, {1, 1}}, {96, 96, {3, 3}, {1, 1}, {1, 1}}, {40, 1, {1, 1}}, {80, 1, {1, 1}}}},
    {"few channels", 1, 3, 20, 12, {{5, 1, {1, 1}}, {5, 5, {3, 3}, {1, 1}, {1, 1}}, {7, 1, {1, 1}}}},
};

// Floats, or the bits of bfloat16.
template <class Element>
constexpr DType kDTypeOf = sizeof(Element) == sizeof(float) ? DType::F32 : DType::BF16;
template <class Element>
Element element_of(float value) {
  if constexpr (kDTypeOf<Element> == DType::F32) {
    return value;
  } else {
    uint16_t bits;
    round_row(DType::BF16, &value, 1, &bits);
    return bits;
  }
}
constexpr uint16_t kNotANumberBits = 0x7fc0;
template <class Element>
constexpr Element kNotANumber = kDTypeOf<Element> == DType::F32 ? static_cast<Element>(NAN) : static_cast<Element>(kNotANumberBits);

// x * 0.75 + 0.25 where it is positive, as programs may have it.
constexpr float kScale = 0.75f, kBias = 0.25f;
template <class Element>
void scale(void* argument, void* out, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row, int64_t first_column,
           int64_t last_column) {
  const int64_t channels = *static_cast<const int64_t*>(argument);
  for (int64_t i = first_row; i < last_row; ++i) {
    for (int64_t j = first_column; j < last_column; ++j) {
      const float x = std::fma(block[(i - first_row) * row_stride + j - first_column], kScale, kBias);
      *reinterpret_cast<Element*>(reinterpret_cast<intptr_t>(out) + (i * channels + j) * int64_t{sizeof(Element)}) =
          element_of<Element>(x < 0 ? 0 : x);
    }
  }
}

// A case's operands.
template <class Element = float>
class Chain {
 public:
  // The epilogues are post-operations, or functions.
  Chain(const ChainCase& row, bool has_post_ops) : row_(row), has_post_ops_(has_post_ops) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    auto fill = [&](std::vector<Element>& to, int64_t count) {
      to.resize(static_cast<size_t>(count));
      for (Element& each : to) each = element_of<Element>(uniform(random));
    };
    parts_.resize(row.stages.size());
    int64_t sizes[4] = {row.batch, row.channels, row.height, row.width};
    fill(image_, row.batch * row.channels * row.height * row.width);
    for (size_t i = 0; i < row.stages.size(); ++i) {
      const Stage& stage = row.stages[i];
      Part& part = parts_[i];
      std::copy_n(sizes, 4, part.in_sizes);
      set_strides(part.in_sizes, i > 0 || !row.in_planes, part.in_strides);
      const int64_t weight[] = {stage.filters, sizes[1] / stage.groups, stage.kernel[0], stage.kernel[1]};
      std::copy_n(weight, 4, part.weight_sizes);
      set_strides(part.weight_sizes, false, part.weight_strides);
      fill(part.weight, weight[0] * weight[1] * weight[2] * weight[3]);
      sizes[1] = stage.filters;
      for (int d = 0; d < 2; ++d) {
        sizes[2 + d] = (sizes[2 + d] + 2 * stage.padding[d] - (stage.kernel[d] - 1) * stage.dilation[d] - 1) / stage.stride[d] + 1;
      }
      std::copy_n(sizes, 4, part.out_sizes);
      set_strides(part.out_sizes, true, part.out_strides);
      part.integers = {0, stage.groups};
      for (const auto* list : {&stage.stride, &stage.padding, &stage.dilation}) part.integers.insert(part.integers.end(), *list, *list + 2);
      part.integers.insert(part.integers.end(), 2, 0);
    }
  }

  static constexpr MakeRowConvolution kMake = kDTypeOf<Element> == DType::F32 ? row_convolution : bf16_row_convolution;

  // Each by itself.
  std::vector<Element> expected(int threads) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    std::vector<Element> image = image_;
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<Element> out(out_floats(i), kNotANumber<Element>);
      const std::vector<KernelCall> stage = stages(pool, prepared, i, i + 1, image.data(), out.data());
      run_library_kernel("convolution", stage[0]);
      image = std::move(out);
    }
    return image;
  }

  std::vector<Element> in_bands(int threads, int64_t rows) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    std::vector<Element> out(out_floats(parts_.size() - 1), kNotANumber<Element>);
    const std::vector<KernelCall> stages = this->stages(pool, prepared, 0, parts_.size(), image_.data(), out.data());
    const KernelCall chain = call_of_chain(pool, stages);
    plan_in_bands(chain, rows, kMake)->run(chain);
    return out;
  }

  std::vector<Element> in_turn(int threads) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    std::vector<Element> out(out_floats(parts_.size() - 1), kNotANumber<Element>);
    const std::vector<KernelCall> stages = this->stages(pool, prepared, 0, parts_.size(), image_.data(), out.data());
    const KernelCall chain = call_of_chain(pool, stages);
    plan_in_turn(chain)->run(chain);
    return out;
  }

  // Calls of a program with the same constants, whose images lie elsewhere each time and have other numbers. Are they all what `expected`
  // gives?
  bool is_right_again(int threads, std::unique_ptr<const KernelPlan> (*make_plan)(const KernelCall&)) {
    RuntimePool pool(threads);
    PreparedConstants prepared;
    std::vector<std::vector<Element>> images, outs;
    std::unique_ptr<const KernelPlan> plan;
    for (int call = 0; call < 3; ++call) {
      for (Element& each : image_) each = element_of<Element>(1 - float_of(each) * 0.5f);
      images.push_back(image_);
      outs.emplace_back(out_floats(parts_.size() - 1), kNotANumber<Element>);
      const std::vector<Element> expected = this->expected(threads);
      const std::vector<KernelCall> stages = this->stages(pool, prepared, 0, parts_.size(), images.back().data(), outs.back().data());
      const KernelCall chain = call_of_chain(pool, stages);
      if (plan == nullptr) plan = make_plan(chain);
      plan->run(chain);
      if (std::memcmp(outs.back().data(), expected.data(), expected.size() * sizeof(Element)) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr auto kDType = static_cast<int32_t>(kDTypeOf<Element>);
  static float float_of(Element element) {
    if constexpr (kDTypeOf<Element> == DType::F32) return element;
    float wide;
    widen_row(DType::BF16, reinterpret_cast<const uint16_t*>(&element), 1, &wide);
    return wide;
  }
  struct Part {
    int64_t in_sizes[4], in_strides[4], weight_sizes[4], weight_strides[4], out_sizes[4], out_strides[4];
    std::vector<Element> weight, out;
    std::vector<int64_t> integers;
    ToroidOperand inputs[2], output;
    std::vector<float> scale, bias;
    ToroidEpilogue epilogue;
  };

  static void set_strides(const int64_t* sizes, bool channels_innermost, int64_t* strides) {
    strides[1] = channels_innermost ? 1 : sizes[2] * sizes[3];
    strides[3] = channels_innermost ? sizes[1] : 1;
    strides[2] = sizes[3] * strides[3];
    strides[0] = sizes[1] * sizes[2] * sizes[3];
  }

  size_t out_floats(size_t stage) const {
    const int64_t* s = parts_[stage].out_sizes;
    return static_cast<size_t>(s[0] * s[1] * s[2] * s[3]);
  }

  std::vector<KernelCall> stages(RuntimePool& pool, PreparedConstants& prepared, size_t first, size_t last, Element* image, Element* out) {
    std::vector<KernelCall> result;
    for (size_t i = first; i < last; ++i) {
      Part& part = parts_[i];
      const bool has_epilogue = row_.stages[i].has_epilogue;
      part.out.assign(out_floats(i), kNotANumber<Element>);
      Element* const to = i + 1 < last ? part.out.data() : out;
      part.inputs[0] = {i == first ? image : parts_[i - 1].out.data(), part.in_sizes, part.in_strides, 4, kDType, 0};
      part.inputs[1] = {part.weight.data(), part.weight_sizes, part.weight_strides, 4, kDType, 1};
      part.output = {has_epilogue ? nullptr : to, part.out_sizes, part.out_strides, 4, kDType, 0};
      const int64_t channels = part.out_sizes[1];
      part.scale.assign(static_cast<size_t>(channels), kScale);
      part.bias.assign(static_cast<size_t>(channels), kBias);
      part.epilogue = store_as(kDTypeOf<Element>, to, channels);
      part.epilogue.post_ops.scale = part.scale.data();
      part.epilogue.post_ops.bias = part.bias.data();
      part.epilogue.post_ops.low = 0;
      if (!has_post_ops_) part.epilogue = {to, scale<Element>, &part.out_sizes[1], {}};
      result.push_back({pool, part.inputs, {&part.output, 1}, part.integers, {}, has_epilogue ? &part.epilogue : nullptr, &prepared});
    }
    return result;
  }

  const ChainCase& row_;
  const bool has_post_ops_;
  std::vector<Element> image_;
  std::vector<Part> parts_;
};

template <class Element>
bool same_bits(const std::vector<Element>& a, const std::vector<Element>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Element)) == 0;
}

TOROID_ON_MACHINES(ConvolutionChain);

TEST_P(ConvolutionChain, InBandsIsEachByItself) {
  for (const ChainCase& row : kChains) {
    for (int variant = 0; variant < 6; ++variant) {
      const int threads = 1 + variant / 2;
      const bool has_post_ops = variant % 2 != 0;
      SCOPED_TRACE(formatted("{}, {} threads, {}", row.name, threads, has_post_ops ? "post-operations" : "functions"));
      Chain<> chain(row, has_post_ops);
      const std::vector<float> expected = chain.expected(threads);
      EXPECT_TRUE(same_bits(chain.in_turn(threads), expected));
      for (const int64_t rows : {0, 1, 2, 3, 5}) EXPECT_TRUE(same_bits(chain.in_bands(threads, rows), expected)) << rows;
    }
  }
}

// Do convolutions of bfloat16 take it: has each but the first a position, or a channel of its own?
bool is_for_tiles(const ChainCase& row) {
  int64_t channels = row.channels;
  for (size_t i = 0; i < row.stages.size(); ++i) {
    const Stage& s = row.stages[i];
    const bool is_position =
        s.kernel[0] == 1 && s.kernel[1] == 1 && s.stride[0] == 1 && s.stride[1] == 1 && s.padding[0] + s.padding[1] == 0;
    if (s.groups > 1 ? s.groups != channels || s.filters != channels : i > 0 && !is_position) return false;
    channels = s.filters;
  }
  return true;
}

TOROID_ON_MACHINES_WITH_TILES(ConvolutionChainInTiles);

TEST_P(ConvolutionChainInTiles, OfBFloat16InBandsIsEachByItself) {
  int chains = 0;
  for (const ChainCase& row : kChains) {
    if (!is_for_tiles(row)) continue;
    ++chains;
    for (int variant = 0; variant < 6; ++variant) {
      const int threads = 1 + variant / 2;
      const bool has_post_ops = variant % 2 != 0;
      SCOPED_TRACE(formatted("{}, {} threads, {}", row.name, threads, has_post_ops ? "post-operations" : "functions"));
      Chain<uint16_t> chain(row, has_post_ops);
      const std::vector<uint16_t> expected = chain.expected(threads);
      EXPECT_TRUE(same_bits(chain.in_turn(threads), expected));
      for (const int64_t rows : {0, 1, 2, 3, 5}) EXPECT_TRUE(same_bits(chain.in_bands(threads, rows), expected)) << rows;
      EXPECT_TRUE(chain.is_right_again(threads, [](const KernelCall& call) { return plan_library_kernel("chain", call); }));
      EXPECT_TRUE(chain.is_right_again(threads, [](const KernelCall& call) { return plan_library_kernel("chain#bands", call); }));
    }
  }
  EXPECT_GE(chains, 7);
}

TEST_P(ConvolutionChain, PlansAreForAnyData) {
  for (const ChainCase& row : kChains) {
    for (int threads = 1; threads <= 2; ++threads) {
      Chain<> chain(row, threads == 2);
      EXPECT_TRUE(chain.is_right_again(threads, [](const KernelCall& call) { return plan_library_kernel("chain", call); })) << row.name;
      EXPECT_TRUE(chain.is_right_again(threads, plan_in_turn)) << row.name;
      EXPECT_TRUE(chain.is_right_again(threads, [](const KernelCall& call) { return plan_in_bands(call); })) << row.name;
    }
  }
}

}  // namespace
}  // namespace toroid
