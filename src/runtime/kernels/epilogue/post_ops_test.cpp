// Post-operations, in registers and in blocks, against the same as a function: not a bit differs, and nothing beside the result is written.
#include "runtime/kernels/epilogue/post_ops.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/conv/chain.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/isa/half_rows.h"
#include "runtime/kernels/isa/on_machines_for_test.h"
#include "runtime/kernels/isa/vector_sets.h"
#include "runtime/kernels/registry/library.h"

namespace toroid {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Which of the terms there are, and the bounds.
struct Form {
  bool has_scale, has_bias, has_residual;
  float low = -kInfinity, high = kInfinity;
};
std::string to_string(const Form& form) {
  return formatted("{}{}{}[{}, {}]", form.has_scale ? "scale " : "", form.has_bias ? "bias " : "", form.has_residual ? "residual " : "",
                   form.low, form.high);
}

const Form kPostOpForms[] = {
    {false, false, false},   {false, false, false, 0},    {true, false, false},
    {true, true, false},     {true, true, false, 0},      {true, true, false, 0, 6},
    {true, true, true},      {true, true, true, 0},       {true, true, true, -0.0f, 6},
    {false, true, false},    {false, true, false, -1, 1}, {false, true, true, -kInfinity, 0.25f},
    {false, false, true, 0}, {false, true, false, 3, 2},  {true, false, false, -kInfinity, -0.0f},
};

// Numbers from -2 to 2, with all their bits.
std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& each : result) {
    seed = seed * 1664525u + 1013904223u;
    each = static_cast<float>(seed >> 8) / (1 << 22) - 2;
  }
  return result;
}

// Has this machine fused multiply-adds?
bool fuses_multiply_add() { return vector_set() != VectorSet::Baseline; }

enum class As { PostOps, Function };

// The result's rows lie apart, with marks between them that stay.
class Epilogue {
 public:
  Epilogue(const Form& form, int64_t rows, int64_t columns, As as)
      : rows_(rows),
        columns_(columns),
        row_(columns + 3),
        scale_(numbers(columns, 1)),
        bias_(numbers(columns, 2)),
        residual_(numbers(rows * row_, 3)),
        out_(static_cast<size_t>(rows * row_), kMark) {
    for (int64_t i = 0; i < columns; i += 5) {  // results that are zeros of both signs
      scale_[static_cast<size_t>(i)] = -0.0f;
      bias_[static_cast<size_t>(i)] = i % 2 == 0 ? -0.0f : 0.0f;
    }
    abi_ = store_as(DType::F32, out_.data(), row_);
    ToroidPostOps& ops = abi_.post_ops;
    if (form.has_scale) ops.scale = scale_.data();
    if (form.has_bias) ops.bias = bias_.data();
    if (form.has_residual) ops.residual = residual_.data();
    ops.residual_row = row_;
    ops.low = form.low;
    ops.high = form.high;
    if (as == As::Function) {
      abi_.run = run;
      abi_.argument = this;
    }
  }

  const ToroidEpilogue* abi() const { return &abi_; }
  int64_t calls() const { return calls_; }
  const float* row(int64_t i) const { return &out_[static_cast<size_t>(i * row_)]; }

  bool has_same_bits_as(const Epilogue& other) const {
    return std::memcmp(out_.data(), other.out_.data(), out_.size() * sizeof(float)) == 0;
  }
  bool keeps_marks() const {
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = columns_; j < row_; ++j) {
        if (out_[static_cast<size_t>(i * row_ + j)] != kMark) return false;
      }
    }
    return true;
  }

 private:
  static constexpr float kMark = -12345;

  // As the interface says it (program_abi.h).
  static void run(void* argument, void* out, const float* block, int64_t row_stride, int64_t first_row, int64_t last_row,
                  int64_t first_column, int64_t last_column) {
    Epilogue& self = *static_cast<Epilogue*>(argument);
    ++self.calls_;
    const ToroidPostOps& s = self.abi_.post_ops;
    for (int64_t i = first_row; i < last_row; ++i) {
      for (int64_t j = first_column; j < last_column; ++j) {
        float x = block[(i - first_row) * row_stride + j - first_column];
        if (s.scale != nullptr && s.bias != nullptr) {
          x = fuses_multiply_add() ? std::fma(x, s.scale[j], s.bias[j])
                                   : static_cast<float>(static_cast<double>(x) * s.scale[j]) + s.bias[j];
        } else if (s.scale != nullptr) {
          x *= s.scale[j];
        } else if (s.bias != nullptr) {
          x += s.bias[j];
        }
        if (s.residual != nullptr) x += s.residual[i * s.residual_row + j];
        if (s.low > x) x = s.low;
        if (s.high < x) x = s.high;
        static_cast<float*>(out)[i * s.out_row + j] = x;
      }
    }
  }

  int64_t rows_, columns_, row_;
  std::vector<float> scale_, bias_, residual_, out_;
  ToroidEpilogue abi_;
  std::atomic<int64_t> calls_{0};
};

ToroidOperand float_operand(float* data, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, bool is_constant = false) {
  return {data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), static_cast<int32_t>(DType::F32), is_constant ? 1 : 0};
}

// Two rows of the sums are NaN or infinite.
struct PostOpProduct {
  PostOpProduct(int64_t rows, int64_t columns, int64_t terms)
      : m(rows), n(columns), k(terms), a(numbers(rows * terms, 4)), b(numbers(terms * columns, 5)) {
    if (k == 0) return;
    a[static_cast<size_t>(m / 2 * k)] = NAN;
    a[static_cast<size_t>((m - 1) * k)] = kInfinity;
  }
  int64_t m, n, k;
  std::vector<float> a, b;
};

void multiply(RuntimePool& pool, PostOpProduct& p, const char* implementation, Epilogue& epilogue) {
  const std::vector<int64_t> a_sizes = {p.m, p.k}, a_strides = {p.k, 1}, b_sizes = {p.k, p.n}, b_strides = {p.n, 1}, out_sizes = {p.m, p.n};
  const ToroidOperand inputs[] = {float_operand(p.a.data(), a_sizes, a_strides), float_operand(p.b.data(), b_sizes, b_strides)};
  const ToroidOperand output = float_operand(nullptr, out_sizes, b_strides);
  run_library_kernel(formatted("matmul#{}", implementation), {pool, inputs, {&output, 1}, {}, {}, epilogue.abi()});
}

TOROID_ON_MACHINES(PostOps);

TEST_P(PostOps, OfAProductIsItsFunction) {
  RuntimePool pool(2);
  for (const int64_t n : {1, 8, 15, 16, 17, 24, 47, 64, 72, 131}) {
    for (const int64_t m : {1, 5, 6, 31}) {
      for (const int64_t k : {1, 19, 1100}) {
        PostOpProduct operands(m, n, k);
        for (const Form& form : kPostOpForms) {
          for (const char* product : {"packed", "few-rows-by-rows"}) {
            SCOPED_TRACE(formatted("{} x {} x {}, {}, {}", m, n, k, to_string(form), product));
            Epilogue known(form, m, n, As::PostOps), function(form, m, n, As::Function);
            multiply(pool, operands, product, known);
            multiply(pool, operands, product, function);
            ASSERT_TRUE(known.has_same_bits_as(function));
            ASSERT_TRUE(known.keeps_marks());
            ASSERT_GT(function.calls(), 0);
          }
        }
      }
    }
  }
}

TEST_P(PostOps, OfNoTermsIsItsFunction) {
  RuntimePool pool(2);
  PostOpProduct operands(7, 20, 0);
  for (const Form& form : kPostOpForms) {
    Epilogue known(form, 7, 20, As::PostOps), function(form, 7, 20, As::Function);
    multiply(pool, operands, "packed", known);
    multiply(pool, operands, "packed", function);
    EXPECT_TRUE(known.has_same_bits_as(function)) << to_string(form);
  }
}

struct PostOpConvolution {
  const char* name;
  int64_t batch, channels, height, width, filters, groups, kernel[2], stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  std::string_view implementation = "image-rows";
  bool in_planes = false;
};

const PostOpConvolution kPostOpConvolutions[] = {
    {"one by one", 2, 19, 9, 7, 24, 1, {1, 1}},
    {"3x3, padded", 1, 16, 9, 11, 40, 1, {3, 3}, {1, 1}, {1, 1}},
    {"of planes", 1, 3, 17, 19, 32, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}, "image-rows", true},
    {"groups", 1, 12, 9, 11, 20, 2, {3, 1}, {2, 1}, {1, 0}},
    {"Winograd's method", 1, 32, 13, 15, 40, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "winograd-4"},
    {"a filter each", 2, 40, 11, 13, 40, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "channel-vectors"},
    {"a filter each, steps of two", 1, 23, 12, 13, 23, 23, {5, 5}, {2, 2}, {2, 2}, {1, 1}, "channel-vectors"},
    {"a filter each, dilated", 1, 16, 12, 13, 16, 16, {3, 3}, {3, 1}, {2, 4}, {2, 3}, "channel-vectors"},
    {"a filter each, mostly beyond the image", 1, 32, 2, 3, 32, 32, {7, 7}, {1, 1}, {6, 6}, {1, 1}, "channel-vectors"},
    {"a filter each, few channels", 1, 3, 12, 13, 3, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "channel-vectors"},
    {"a filter each, five channels", 1, 5, 12, 13, 5, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "channel-vectors"},
    {"a filter each, many channels of few rows", 1, 320, 3, 7, 320, 320, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "channel-vectors"},
    {"groups of four", 1, 64, 9, 10, 64, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, "channel-vectors"},
    {"groups with many filters", 1, 12, 9, 10, 72, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}, "channel-vectors"},
};

int64_t out_size(const PostOpConvolution& c, int d) {
  return ((d == 0 ? c.height : c.width) + 2 * c.padding[d] - (c.kernel[d] - 1) * c.dilation[d] - 1) / c.stride[d] + 1;
}

void convolve(const PostOpConvolution& c, int threads, Epilogue& epilogue) {
  RuntimePool pool(threads);
  PreparedConstants prepared;
  std::vector<float> x = numbers(c.batch * c.channels * c.height * c.width, 4);
  std::vector<float> w = numbers(c.filters * c.channels / c.groups * c.kernel[0] * c.kernel[1], 5);
  if (c.implementation != "winograd-4") {  // which spreads them
    x[x.size() / 3] = NAN;
    x[x.size() / 2] = -kInfinity;
  }
  auto channels_last = [](const std::vector<int64_t>& s) { return std::vector<int64_t>{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}; };
  auto planes = [](const std::vector<int64_t>& s) { return std::vector<int64_t>{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; };
  const std::vector<int64_t> x_sizes = {c.batch, c.channels, c.height, c.width};
  const std::vector<int64_t> w_sizes = {c.filters, c.channels / c.groups, c.kernel[0], c.kernel[1]};
  const std::vector<int64_t> out_sizes = {c.batch, c.filters, out_size(c, 0), out_size(c, 1)};
  const std::vector<int64_t> x_strides = c.in_planes ? planes(x_sizes) : channels_last(x_sizes), w_strides = planes(w_sizes),
                             out_strides = channels_last(out_sizes);
  const ToroidOperand inputs[] = {float_operand(x.data(), x_sizes, x_strides), float_operand(w.data(), w_sizes, w_strides, true)};
  const ToroidOperand output = float_operand(nullptr, out_sizes, out_strides);
  std::vector<int64_t> integers = {0, c.groups};
  for (const auto* list : {&c.stride, &c.padding, &c.dilation}) integers.insert(integers.end(), *list, *list + 2);
  integers.insert(integers.end(), 2, 0);
  run_library_kernel(formatted("convolution#{}", c.implementation), {pool, inputs, {&output, 1}, integers, {}, epilogue.abi(), &prepared});
}

TEST_P(PostOps, OfAConvolutionIsItsFunction) {
  for (const PostOpConvolution& c : kPostOpConvolutions) {
    const int64_t rows = c.batch * out_size(c, 0) * out_size(c, 1);
    for (const Form& form : kPostOpForms) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(formatted("{}, {}, {} threads", c.name, to_string(form), threads));
        Epilogue known(form, rows, c.filters, As::PostOps), function(form, rows, c.filters, As::Function);
        convolve(c, threads, known);
        convolve(c, threads, function);
        EXPECT_TRUE(known.has_same_bits_as(function));
        EXPECT_TRUE(known.keeps_marks());
        EXPECT_GT(function.calls(), 0);
      }
    }
  }
}

// A block in memory, and parts of products.
TEST_P(PostOps, OfABlockIsItsFunction) {
  const int64_t rows = 9, columns = 53, block_row = 64;
  std::vector<float> block = numbers(rows * block_row + kReadBeyond, 6);
  block[3] = NAN;
  block[70] = kInfinity;
  for (const Form& form : kPostOpForms) {
    SCOPED_TRACE(to_string(form));
    Epilogue known(form, rows + 2, columns + 5, As::PostOps), function(form, rows + 2, columns + 5, As::Function);
    for (Epilogue* each : {&known, &function}) {
      run_epilogue(*each->abi(), block.data(), block_row, {0, rows}, {0, columns});
      run_epilogue(*each->abi(), block.data(), block_row, {rows, rows + 1}, {5, columns});
      const ProductOutput part = ProductOutput{nullptr, 0, each->abi()}.part(4, 5);
      part.take(block.data(), block_row, {1, rows - 2}, {16, columns});
    }
    EXPECT_TRUE(known.has_same_bits_as(function));
    EXPECT_TRUE(known.keeps_marks());
    EXPECT_EQ(known.calls(), 0);
    EXPECT_EQ(function.calls(), 3);
  }
}

// Into 16 bits: as into float32, and then rounded.
TEST_P(PostOps, AreDoneBeforeTheResultIsRounded) {
  const int64_t rows = 3, columns = 533;
  const std::vector<float> block = numbers(rows * columns, 6);
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const Form& form : kPostOpForms) {
      Epilogue wide(form, rows, columns, As::PostOps);
      run_epilogue(*wide.abi(), block.data(), columns, {0, rows}, {0, columns});
      std::vector<uint16_t> rounded(static_cast<size_t>(rows * columns), 1), expected = rounded;
      ToroidEpilogue narrow = *wide.abi();
      narrow.out = rounded.data();
      narrow.post_ops.out_row = columns;
      narrow.post_ops.out_dtype = static_cast<int32_t>(dtype);
      run_epilogue(narrow, block.data(), columns, {0, rows}, {0, columns});
      for (int64_t i = 0; i < rows; ++i) round_row(dtype, wide.row(i), columns, &expected[static_cast<size_t>(i * columns)]);
      EXPECT_EQ(rounded, expected) << to_string(dtype) << " " << to_string(form);
    }
  }
}

// Where there is nothing to do the sums are stored: integers stay what they are.
TEST_P(PostOps, OfIntegersAreNone) {
  const std::vector<int32_t> block = {1, -1, 0x7f800001, 2147483647, -2147483647 - 1, 0};  // some of them no number as float32
  std::vector<int32_t> out(8, 7);
  const ToroidEpilogue epilogue = store_as(DType::I32, out.data(), 4);
  run_epilogue(epilogue, reinterpret_cast<const float*>(block.data()), 3, {0, 2}, {1, 4});
  EXPECT_EQ(out, (std::vector<int32_t>{7, 1, -1, 0x7f800001, 7, 2147483647, -2147483647 - 1, 0}));
}

}  // namespace
}  // namespace toroid
