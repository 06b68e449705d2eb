// The edges of what sizes and the machine allow: more elements than 31 bits count, sizes whose product 63 bits do not hold, and the
// floating-point mode, which is the caller's.
#include <sys/mman.h>

#include <cstring>

#include "base/error_for_test.h"
#include "base/machine/memory.h"
#include "driver/end_to_end/compiled_for_test.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace toroid {
namespace {

uint64_t available_gib() { return available_memory_bytes() >> 30; }

// Zeros but for what a test writes; only pages that are written take memory.
class SparseBytes {
 public:
  explicit SparseBytes(size_t size)
      : size_(size), data_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    (void)::madvise(data_, size, MADV_HUGEPAGE);  // half a million faults less
  }
  ~SparseBytes() { ::munmap(data_, size_); }
  SparseBytes(const SparseBytes&) = delete;
  int8_t& operator[](size_t i) { return static_cast<int8_t*>(data_)[i]; }
  HostTensor tensor(std::vector<int64_t> sizes) const {
    return HostTensor(DType::I8, std::move(sizes), {static_cast<const std::byte*>(data_), size_}, nullptr);
  }

 private:
  size_t size_;
  void* data_;
};

constexpr int64_t kRows = 65538;
constexpr int64_t kColumns = 32769;  // 2^31 + 131,074 elements in all
constexpr int64_t kCount = kRows * kColumns;

// One program, since reading two gibibytes takes a while: element-wise, sums, extrema, a gather and slices beyond 2^31.
constexpr std::string_view kBeyond31Bits = R"(
sym s0 in [2, 4294967296]
graph(x: i8[s0, 32769], i: i64[3]) {
  flat: i8[32769*s0] = aten::reshape(x, [-1])
  doubled: i8[32769*s0] = aten::mul.Scalar(flat, 2)
  total: i64[] = aten::sum(doubled)
  columns: i64[32769] = aten::sum.dim_IntList(x, [0])
  where: i64[] = aten::argmax(flat)
  most: i8[] = aten::amax(flat)
  picked: i8[3] = aten::index_select(doubled, 0, i)
  tail: i8[7] = aten::slice.Tensor(flat, 0, -7, 9223372036854775807)
  return total, columns, where, most, picked, tail
})";

TEST(Limits, TensorsOfMoreThan31BitsOfElements) {
  if (available_gib() < 5) GTEST_SKIP() << "needs 5 GiB of free memory";
  SparseBytes bytes(static_cast<size_t>(kCount));
  ASSERT_GT(kCount, int64_t{1} << 31);
  const int64_t beyond = (int64_t{1} << 31) + 5;
  bytes[0] = 1;
  bytes[static_cast<size_t>(beyond)] = 50;
  bytes[static_cast<size_t>(kCount - 3)] = -7;
  const CompiledModel model = compiled(kBeyond31Bits);
  Executable executable = model.load(2);
  const HostTensor indices = HostTensor::from_ints(DType::I64, {3}, std::vector<int64_t>{beyond, 0, kCount - 3});
  const std::vector<HostTensor> outputs = executable.run(std::vector{bytes.tensor({kRows, kColumns}), indices});
  EXPECT_EQ(outputs[0].int_at(0), 2 * (1 + 50 - 7));
  std::vector<int64_t> columns(kColumns);
  columns[0] = 1;
  columns[static_cast<size_t>(beyond % kColumns)] += 50;
  columns[static_cast<size_t>(kColumns - 3)] += -7;
  EXPECT_EQ(outputs[1].to_ints(), columns);
  EXPECT_EQ(outputs[2].int_at(0), beyond);
  EXPECT_EQ(outputs[3].int_at(0), 50);
  EXPECT_EQ(outputs[4].to_ints(), (std::vector<int64_t>{100, 2, -14}));
  EXPECT_EQ(outputs[5].to_ints(), (std::vector<int64_t>{0, 0, 0, 0, -7, 0, 0}));
}

TEST(Limits, AnOutputOfMoreThan31BitsOfElements) {
  if (available_gib() < 6) GTEST_SKIP() << "needs 6 GiB of free memory";
  SparseBytes bytes(static_cast<size_t>(kCount));
  bytes[static_cast<size_t>(kCount - 1)] = 3;
  Executable executable = compiled(R"(
    graph(x: i8[2147614722]) {
      y: i8[2147614722] = aten::add.Scalar(x, 1)
      z: i8[2147614722] = aten::flip(y, [0])
      return z
    })")
                              .load(2);
  const std::vector<HostTensor> outputs = executable.run(std::vector{bytes.tensor({kCount})});
  const auto* z = outputs[0].data<int8_t>();
  EXPECT_EQ(z[0], 4);
  EXPECT_EQ(std::memcmp(z + 1, z + 2, kCount - 2), 0);
  EXPECT_EQ(z[kCount - 1], 1);
}

TEST(Limits, ATensorThatNoAddressReachesIsAnError) {
  const CompiledModel model = compiled(R"(
    sym s0 in [1, 9223372036854775806]
    graph(x: f32[s0]) {
      a: f32[s0, 1] = aten::unsqueeze(x, 1)
      b: f32[s0, s0] = aten::add.Tensor(a, x)
      c: f32[s0, s0, 1] = aten::unsqueeze(b, 2)
      d: f32[s0, s0, s0] = aten::add.Tensor(c, x)
      e: f32[s0] = aten::sum.dim_IntList(d, [1, 2])
      return e
    })");
  Executable executable = model.load(1);
  EXPECT_EQ(executable.run(std::vector{HostTensor::from_doubles(DType::F32, {2}, std::vector<double>{1, 2})})[0].to_doubles(),
            (std::vector<double>{16, 20}));
  constexpr int64_t kSize = int64_t{1} << 21;
  try {
    executable.run(std::vector{HostTensor(DType::F32, {kSize})});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_EQ(error.message(), "a tensor of the program would have 4*s0*s0*s0 bytes, with s0 = 2097152: more than fit 63 bits");
  }
}

TEST(Limits, AConstantSizeThatOverflowsIsAnErrorOfTheCompiler) {
  try {
    compiled(R"(
      graph(x: f32[1]) {
        y: f32[4294967296, 4294967296] = aten::expand(x, [4294967296, 4294967296])
        z: f32[] = aten::sum(y)
        return z
      })");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "aten::expand would need a tensor f32[4294967296, 4294967296], more than 140737488355328 bytes");
  }
}

// More than any address space holds: 2^50 bytes and more.
TEST(Limits, MemoryThatThereIsNotIsAnErrorWithItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the program at such a request";
#else
  constexpr int64_t kSize = int64_t{1} << 25;
  const SparseBytes bytes(static_cast<size_t>(kSize));
  auto error_of_running = [&](std::string_view text, const std::vector<int64_t>& right) {
    Executable executable = compiled(text).load(2);
    const Error error = error_of([&] { executable.run(std::vector{bytes.tensor({kSize})}); });
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
    const HostTensor small = HostTensor::from_ints(DType::I8, {2}, std::vector<int64_t>{2, 1});
    EXPECT_EQ(executable.run(std::vector{small})[0].to_ints(), right) << "it goes on";
    return error.message();
  };
  EXPECT_EQ(error_of_running(R"(
    sym s0 in [1, 1073741824]
    graph(x: i8[s0]) {
      a: i8[s0, 1] = aten::unsqueeze(x, 1)
      b: i8[s0, s0] = aten::add.Tensor(a, x)
      return b
    })",
                             {4, 3, 3, 2}),
            "out of memory: 1125899906842624 bytes for a tensor of shape [33554432, 33554432]");
  const std::string of_temporaries = error_of_running(R"(
    sym s0 in [1, 1073741824]
    graph(x: i8[s0]) {
      a: i8[s0, 1] = aten::unsqueeze(x, 1)
      b: i8[s0, s0] = aten::add.Tensor(a, x)
      v: i8[s0, s0], k: i64[s0, s0] = aten::sort(b, 1)
      c: i8[s0] = aten::select.int(v, 1, 0)
      return c
    })",
                                                      {3, 2});
  EXPECT_TRUE(of_temporaries.starts_with("out of memory: ")) << of_temporaries;
  EXPECT_TRUE(of_temporaries.ends_with(" bytes for the temporaries of a call")) << of_temporaries;
#endif
}

// A kernel that reads no tensor of that size knows it.
TEST(Limits, AnIndexOfNumbersThatAreMadeIsCheckedAgainstTheirCount) {
  constexpr std::string_view kText = R"(
sym s0 in [2, 64]
graph(x: f32[32, 4], n: f32[s0], i: i64[7]) {
  rank: i64[s0] = aten::arange(s0)
  picked: i64[7] = aten::index_select(rank, 0, i)
  y: f32[7, 4] = aten::index_select(x, 0, picked)
  return y
})";
  expect_as_evaluated(kText, {{{"s0", 3}}, {{"s0", 40}}});
  Executable executable = compiled(kText).load(1);
  const std::vector<int64_t> three_is_none = {0, 1, 2, 3, 0, 0, 0};
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, {32, 4}), HostTensor(DType::F32, {3}),
                                          HostTensor::from_ints(DType::I64, {7}, three_is_none)};
  EXPECT_EQ(error_of([&] { executable.run(inputs); }).kind(), ErrorKind::InvalidInput);
}

TEST(Limits, TheFloatingPointModeStaysTheCallers) {
#ifndef __x86_64__
  GTEST_SKIP() << "reads the control word of x86";
#else
  constexpr unsigned kModeBits = 0xffc0;  // masks, rounding, flush to zero, denormals are zero: all but the sticky flags
  const unsigned before = _mm_getcsr();
  for (unsigned mode : {before, before | 0x8000u, before | 0x0040u, (before & ~0x6000u) | 0x4000u}) {
    _mm_setcsr(before);
    Executable executable = compiled(R"(
      graph(x: f32[3, 4000], w: f32[4000, 5]) {
        y: f32[3, 4000] = aten::softmax.int(x, 1)
        e: f32[3, 4000] = aten::exp(y)
        z: f32[3, 5] = aten::mm(e, w)
        s: f32[3, 5], k: i64[3, 5] = aten::sort(z, 1)
        return s
      })")
                                .load(2);
    const std::vector<HostTensor> inputs = {example_input("v", DType::F32, {3, 4000}), example_input("w", DType::F32, {4000, 5})};
    _mm_setcsr(mode);
    executable.run(inputs);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & kModeBits, mode & kModeBits);
  }
#endif
}

TEST(Limits, DenormalsAreNumbers) {
  expect_as_evaluated(R"(graph(x: f32[64]) {
  y: f32[64] = aten::mul.Scalar(x, 1.0e-40)
  z: f32[64] = aten::mul.Scalar(y, 1.0e30)
  return y, z
})");
}

}  // namespace
}  // namespace toroid
