#include "driver/eager/eager_cache.h"

#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error_for_test.h"
#include "cache/scratch_cache_for_test.h"
#include "driver/eager/operator_program.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

HostTensor eager_floats(std::vector<int64_t> sizes, const std::vector<double>& values) {
  return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
}
HostTensor counted(std::vector<int64_t> sizes) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return eager_floats(std::move(sizes), values);
}
std::vector<double> numbers(const HostTensor& tensor) { return tensor.to_doubles(); }
using Numbers = std::vector<double>;

// Memory of a caller's own, to be written.
struct Floats {
  Floats(std::vector<int64_t> sizes, std::vector<float> values) : sizes(std::move(sizes)), values(std::move(values)) {}
  TensorView view() { return {values.data(), DType::F32, sizes}; }
  std::vector<int64_t> sizes;
  std::vector<float> values;
};

EagerCache& eager() {
  static EagerCache cache(TestSession::get(), {.threads = 2});
  return cache;
}

// ---- what calls give

TEST(Eager, CallsOneOperator) {
  const HostTensor x = eager_floats({2, 2}, {1, 2, 3, 4}), y = eager_floats({2}, {10, 20});
  EXPECT_EQ(numbers(eager().call("aten::add.Tensor", {x, y})[0]), (Numbers{11, 22, 13, 24}));
  EXPECT_EQ(numbers(eager().call("aten::add.Tensor", {x, y, 0.5})[0]), (Numbers{6, 12, 8, 14}));
  EXPECT_EQ(numbers(eager().call("aten::add.Tensor", {x, 3})[0]), (Numbers{4, 5, 6, 7})) << "a number stands for a tensor";
  EXPECT_EQ(eager().call("aten::sum", {x})[0].double_at(0), 10);
  const std::vector<int64_t> dims = {0};
  const HostTensor sum = eager().call("aten::sum.dim_IntList", {x, dims, true})[0];
  EXPECT_EQ(sum.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(numbers(sum), (Numbers{4, 6}));
  EXPECT_EQ(eager().call("aten::relu.default", {eager_floats({1}, {-1})})[0].double_at(0), 0) << "the default overload has a name as well";
  EXPECT_EQ(eager().call("aten::to.dtype", {x, DType::I32})[0].dtype(), DType::I32);
}

TEST(Eager, MemoryThatThereIsNotIsAnErrorWithItsSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the program at such a request";
#else
  constexpr int64_t kSize = int64_t{1} << 23;
  int8_t zero = 0;
  const std::vector<int64_t> column = {kSize, 1}, row = {kSize}, still = {0, 0}, no_steps = {0};
  const TensorView x = {&zero, DType::I8, column, still}, y = {&zero, DType::I8, row, no_steps};  // one element in all places
  const Error error = error_of([&] { eager().call("aten::add.Tensor", {x, y}); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), "out of memory: 70368744177664 bytes for a tensor of shape [8388608, 8388608]");
  EXPECT_EQ(numbers(eager().call("aten::add.Tensor", {eager_floats({1}, {1}), 1})[0]), Numbers{2}) << "it goes on";
#endif
}

TEST(Eager, ReadsTensorsWhereTheyLie) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> sizes = {3, 2}, transposed = {1, 3}, parts = {2, 2}, gaps = {3, 1}, one_row = {0, 1};
  auto twice = [&](const std::vector<int64_t>& of, const std::vector<int64_t>& strides, size_t first = 0) {
    return numbers(eager().call("aten::add.Tensor", {TensorView(memory.data() + first, DType::F32, of, strides), 0})[0]);
  };
  EXPECT_EQ(twice(sizes, transposed), (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(twice(parts, gaps), (Numbers{1, 2, 4, 5}));
  EXPECT_EQ(twice(parts, gaps, 1), (Numbers{2, 3, 5, 6}));
  EXPECT_EQ(twice(sizes, one_row), (Numbers{1, 2, 1, 2, 1, 2}));
  // At an odd address.
  std::vector<char> bytes(1 + sizeof(float) * 2);
  const float pair[] = {7, 8};
  std::memcpy(bytes.data() + 1, pair, sizeof pair);
  const std::vector<int64_t> two = {2};
  EXPECT_EQ(numbers(eager().call("aten::neg", {TensorView(bytes.data() + 1, DType::F32, two)})[0]), (Numbers{-7, -8}));
}

TEST(Eager, WritesInPlaceWhateverTheLayout) {
  Floats x({2, 2}, {-1, 2, -3, 4});
  EXPECT_TRUE(eager().call("aten::relu_", {x.view()}).empty()) << "what is an argument is no result";
  EXPECT_EQ(x.values, (std::vector<float>{0, 2, 0, 4}));
  Floats whole({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<int64_t> column = {2}, stride = {3};
  eager().call("aten::mul_.Tensor", {TensorView(whole.values.data() + 1, DType::F32, column, stride), 10});
  EXPECT_EQ(whole.values, (std::vector<float>{1, 20, 3, 4, 50, 6}));
  // Each element is added to another that is written: all are read first.
  Floats shifted({4}, {1, 2, 3, 4});
  const std::vector<int64_t> three = {3};
  eager().call("aten::add_.Tensor",
               {TensorView(shifted.values.data() + 1, DType::F32, three), TensorView(shifted.values.data(), DType::F32, three)});
  EXPECT_EQ(shifted.values, (std::vector<float>{1, 3, 5, 7}));
}

TEST(Eager, WritesToOut) {
  const HostTensor x = eager_floats({2}, {1, 2});
  Floats out({2}, {0, 0});
  EXPECT_TRUE(eager().call("aten::add.out", {x, x, 1, out.view()}).empty());
  EXPECT_EQ(out.values, (std::vector<float>{2, 4}));
  // Over its own argument, and shifted over it.
  eager().call("aten::add.out", {out.view(), out.view(), 1, out.view()});
  EXPECT_EQ(out.values, (std::vector<float>{4, 8}));
  Floats memory({4}, {1, 2, 3, 4});
  const std::vector<int64_t> three = {3};
  const TensorView low(memory.values.data(), DType::F32, three), high(memory.values.data() + 1, DType::F32, three);
  eager().call("aten::add.out", {low, low, 1, high});
  EXPECT_EQ(memory.values, (std::vector<float>{1, 2, 4, 6}));
  Floats most({2}, {0, 0});
  std::vector<int64_t> positions(2);
  eager().call("aten::max.dim_max",
               {eager_floats({2, 2}, {1, 5, 9, 3}), 1, false, most.view(), TensorView(positions.data(), DType::I64, most.sizes)});
  EXPECT_EQ(most.values, (std::vector<float>{5, 9}));
  EXPECT_EQ(positions, (std::vector<int64_t>{1, 0}));
}

TEST(Eager, ListsOfTensorsGoInAndComeOut) {
  const HostTensor x = eager_floats({2}, {1, 2}), y = eager_floats({1}, {3});
  const std::vector<std::optional<TensorView>> list = {x, y};
  EXPECT_EQ(numbers(eager().call("aten::cat", {list})[0]), (Numbers{1, 2, 3}));
  const std::vector<HostTensor> parts = eager().call("aten::split.Tensor", {counted({5}), 2});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(numbers(parts[2]), (Numbers{4}));
  const HostTensor rows = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{1, 0});
  const std::vector<std::optional<TensorView>> index = {std::nullopt, rows};
  EXPECT_EQ(numbers(eager().call("aten::index.Tensor", {counted({2, 2}), index})[0]), (Numbers{1, 0, 3, 2}));
  Floats a({2}, {1, 2}), b({1}, {3});
  const std::vector<std::optional<TensorView>> both = {a.view(), b.view()};
  EXPECT_TRUE(eager().call("aten::_foreach_add_.Scalar", {both, 10}).empty());
  EXPECT_EQ(a.values, (std::vector<float>{11, 12}));
  EXPECT_EQ(b.values, (std::vector<float>{13}));
}

TEST(Eager, SizesThatOnlyTheValuesTell) {
  const HostTensor positions = eager().call("aten::nonzero", {eager_floats({2, 2}, {0, 5, 6, 0})})[0];
  EXPECT_EQ(positions.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(positions.to_ints(), (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(eager().call("aten::nonzero", {eager_floats({2, 2}, {0, 0, 0, 0})})[0].sizes(), (std::vector<int64_t>{0, 2}));
}

TEST(Eager, EachDrawIsAnother) {
  EagerCache cache(TestSession::get());
  const std::vector<int64_t> sizes = {8};
  const HostTensor first = cache.call("aten::rand", {sizes})[0], second = cache.call("aten::rand", {sizes})[0];
  EXPECT_NE(numbers(first), numbers(second));
  cache.set_seed(0);
  EXPECT_EQ(numbers(cache.call("aten::rand", {sizes})[0]), numbers(first));
  cache.set_seed(1);
  EXPECT_NE(numbers(cache.call("aten::rand", {sizes})[0]), numbers(first));
}

TEST(Eager, WhatIsUndefinedHasNoBytes) {
  const HostTensor grad = counted({1, 1, 2, 2}), x = counted({1, 1, 2, 2}), weight = counted({1, 1, 1, 1});
  const std::vector<int64_t> ones = {1, 1}, zeros = {0, 0};
  const bool mask[] = {false, true, false};
  const std::vector<HostTensor> gradients = eager().call(
      "aten::convolution_backward", {grad, x, weight, None{}, ones, zeros, ones, false, zeros, 1, std::span<const bool>(mask)});
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_EQ(gradients[0].bytes().data(), nullptr);
  EXPECT_EQ(numbers(gradients[1]), (Numbers{14}));
}

// ---- errors

TEST(EagerErrors, NameTheOperatorAndItsOverloads) {
  Error error = error_of([] { eager().call("aten::hardswsh", {}); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(error.message(), "there is no operator 'aten::hardswsh'");
  EXPECT_EQ(error.help_text(), "write it as PyTorch does, as in aten::add.Tensor; 'toroid ops' lists the operators");
  error = error_of([] { eager().call("aten::lerp", {}); });
  EXPECT_EQ(error.message(), "there is no operator 'aten::lerp'");
  EXPECT_EQ(error.help_text(),
            "the overloads of that name are aten::lerp.Scalar, aten::lerp.Scalar_out, aten::lerp.Tensor, aten::lerp.Tensor_out");
}

TEST(EagerErrors, NameTheArgument) {
  const HostTensor x = eager_floats({2}, {1, 2});
  auto message = [&](std::string_view op, std::initializer_list<EagerArgument> arguments) {
    const Error error = error_of([&] { eager().call(op, arguments); });
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput) << error.report();
    return error.message();
  };
  EXPECT_EQ(message("aten::add.Tensor", {x, x, "two"}), "argument 'alpha' of aten::add.Tensor is 'two', not a number");
  EXPECT_EQ(message("aten::softmax.int", {x, 0.5}), "argument 'dim' of aten::softmax.int is 0.5, not an integer");
  EXPECT_EQ(message("aten::cat", {x}), "argument 'tensors' of aten::cat is f32[2], not a list of tensors");
  EXPECT_EQ(message("aten::relu", {None{}}), "argument 'self' of aten::relu is none, not a tensor");
  EXPECT_EQ(message("aten::relu", {x, x}), "aten::relu takes 1 arguments, 2 were given");
  EXPECT_EQ(message("aten::mm", {x}), "aten::mm needs the argument 'mat2'");
  EXPECT_EQ(message("aten::relu_", {x}), "aten::relu_ writes to its argument 'self', which is to be read only");
  EXPECT_EQ(error_of([&] {
              eager().call("aten::sub.Scalar", {x, x});
            }).help_text(),
            "it is declared as aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor; other overloads are "
            "aten::sub.Scalar_out, "
            "aten::sub.Tensor, aten::sub.out");
  Floats out({3}, {0, 0, 0});
  EXPECT_EQ(message("aten::add.out", {x, x, 1, out.view()}), "aten::add.out gives f32[2], but its argument 'out' is f32[3]");
  Floats one({1}, {0});
  const std::vector<int64_t> sizes = {4}, strides = {0};
  EXPECT_EQ(message("aten::relu_", {TensorView(one.values.data(), DType::F32, sizes, strides)}),
            "aten::relu_ writes to its argument 'self', f32[4] strides [0], of which several elements are one place in memory");
}

TEST(EagerErrors, SayWhatDoesNotGoTogether) {
  const HostTensor x = counted({2, 3}), y = counted({4, 5});
  const Error error = error_of([&] { eager().call("aten::mm", {x, y}); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(error.locations().back(), "while calling aten::mm(f32[2, 3], f32[4, 5])") << error.report();
  const HostTensor far = HostTensor::from_ints(DType::I64, {1}, std::vector<int64_t>{9});
  const Error outside = error_of([&] { eager().call("aten::index_select", {x, 0, far}); });
  EXPECT_EQ(outside.kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(outside.message(), "an index read from a tensor is out of bounds: 9, where 0 to 1 are allowed");
  EXPECT_EQ(numbers(eager().call("aten::neg", {eager_floats({1}, {2})})[0]), (Numbers{-2})) << "the next call is unharmed";
}

TEST(EagerErrors, HostileArgumentsAreNamed) {
  const HostTensor number = eager_floats({}, {1}), x = counted({2, 3});
  auto error = [&](std::string_view op, std::initializer_list<EagerArgument> arguments) {
    return error_of([&] { eager().call(op, arguments); });
  };
  Error refused = error("aten::slice.Tensor", {number, 0, 0, 1});
  EXPECT_EQ(refused.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(refused.message(), "argument 'self' (f32[]) has no dim 0");
  EXPECT_EQ(refused.locations().front(), "while computing aten::slice.Tensor(self: f32[], dim: 0, start: 0, end: 1, step: 1)");
  const std::optional<TensorView> two[] = {TensorView(x), TensorView(x)};
  refused = error("aten::_foreach_addcmul.Scalar", {TensorViewList(two, 2), TensorViewList(two, 1), TensorViewList(two, 2)});
  EXPECT_EQ(refused.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(refused.message(), "argument 'tensor1' of aten::_foreach_addcmul.Scalar has 1 entries, fewer than the list beside it");
  refused = error("aten::vsplit.int", {x, int64_t{1} << 31});
  EXPECT_EQ(refused.kind(), ErrorKind::Unsupported);
  EXPECT_EQ(refused.message(), "2147483648 sections are more than one operator may take (131072)");
}

TEST(EagerErrors, RefuseWhatIsNotComputed) {
  Floats x({2, 2}, {1, 2, 3, 4});
  auto message = [&](std::string_view op, std::initializer_list<EagerArgument> arguments) {
    const Error error = error_of([&] { eager().call(op, arguments); });
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported) << error.report();
    return error.message();
  };
  EXPECT_EQ(message("aten::t_", {x.view()}), "aten::t_ changes how its tensor is seen, and computes nothing");
  EXPECT_EQ(x.values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(message("aten::item", {eager_floats({}, {1})}), "aten::item gives a number, which is no tensor");
  const std::vector<int64_t> one = {1};
  std::vector<float> pair(2);
  EXPECT_EQ(message("aten::neg", {TensorView(pair.data(), DType::C64, one)}),
            "aten::neg of c64 tensors is compiled as a part of a program only");
  EXPECT_EQ(message("aten::neg", {TensorView(pair.data(), DType::F32, one, {}, {Device::Type::Cuda, 1})}),
            "argument 'self' of aten::neg is on cuda:1: single operators run on the CPU");
}

// ---- what is kept

class EagerStore : public testing::Test {
 protected:
  // What a process that begins with the store as it is does for these calls of `x * 2`, one for each number of rows.
  EagerCounters rows(const std::vector<int64_t>& calls, EagerOptions options = {}) {
    CompileSession session;
    EagerCache cache(session, options);
    for (int64_t n : calls) {
      const HostTensor y = cache.call("aten::mul.Tensor", {counted({n, 3}), 2})[0];
      EXPECT_EQ(y.sizes(), (std::vector<int64_t>{n, 3}));
      EXPECT_TRUE(n == 0 || y.double_at(y.numel() - 1) == static_cast<double>(2 * (y.numel() - 1)));
    }
    return cache.counters();
  }
  ScratchCache scratch_;
};

TEST_F(EagerStore, TheSameCallIsCompiledOnce) {
  const EagerCounters cold = rows({4, 4, 4});
  EXPECT_EQ(cold.compilations, 1u);
  EXPECT_EQ(cold.hits, 2u);
  const EagerCounters warm = rows({4, 4});
  EXPECT_EQ(warm.compilations, 0u);
  EXPECT_EQ(warm.loads, 1u);
  EXPECT_EQ(warm.hits, 1u);
}

TEST_F(EagerStore, EverOtherSizesStopCompiling) {
  const EagerCounters cold = rows({4, 5, 6, 7, 8, 90, 1000});
  EXPECT_EQ(cold.compilations, 3u) << "two for their sizes, one for all";
  EXPECT_EQ(cold.forms, 4u);
  // Another process has the general form from the beginning.
  const EagerCounters warm = rows({2000, 9, 4});
  EXPECT_EQ(warm.compilations, 0u);
  EXPECT_EQ(warm.loads, 1u);
  EXPECT_EQ(warm.forms, 2u);
  // 0 and 1 are for themselves.
  EXPECT_EQ(rows({1}).compilations, 1u);
  EXPECT_EQ(rows({0}).compilations, 1u);
}

TEST_F(EagerStore, EqualSizesAreOneSymbol) {
  CompileSession session;
  EagerCache cache(session, {.exact_forms = 1});
  for (int64_t n : {3, 4, 5, 6}) {
    const HostTensor x = counted({n, 2});
    EXPECT_EQ(numbers(cache.call("aten::sub.Tensor", {x, x})[0]), Numbers(static_cast<size_t>(2 * n), 0.0));
  }
  EXPECT_EQ(cache.counters().compilations, 2u);
  // One of them is broadcast: others, for the first call's sizes and for any.
  for (int64_t n : {3, 4, 5}) cache.call("aten::sub.Tensor", {counted({n, 2}), counted({1, 2})});
  EXPECT_EQ(cache.counters().compilations, 4u);
  // A size that is given as a number is that of a tensor.
  for (int64_t n : {3, 4, 5, 6}) {
    const std::vector<int64_t> sizes = {2, n};
    EXPECT_EQ(cache.call("aten::expand", {counted({n}), sizes})[0].sizes(), sizes);
  }
  EXPECT_EQ(cache.counters().compilations, 6u);
}

// Sizes and positions that only an integer tells.
TEST_F(EagerStore, EverOtherIntegersStopCompiling) {
  CompileSession session;
  EagerCache cache(session);
  auto compilations_of = [&](auto call) {
    const uint64_t before = cache.counters().compilations;
    for (int64_t n : {3, 4, 5, 6, 70}) call(n);
    return cache.counters().compilations - before;
  };
  EXPECT_EQ(compilations_of([&](int64_t n) {
              const std::vector<int64_t> sizes = {n, 2};
              const HostTensor all = cache.call("aten::full", {sizes, 0.5})[0];
              EXPECT_EQ(all.sizes(), sizes);
              EXPECT_EQ(numbers(all), Numbers(static_cast<size_t>(2 * n), 0.5));
            }),
            3u);
  EXPECT_EQ(compilations_of([&](int64_t n) {
              const HostTensor all = cache.call("aten::arange", {n})[0];
              EXPECT_EQ(all.sizes(), (std::vector<int64_t>{n}));
              EXPECT_EQ(all.int_at(n - 1), n - 1);
            }),
            3u);
  const HostTensor x = counted({100, 2});
  EXPECT_EQ(compilations_of([&](int64_t n) {
              EXPECT_EQ(numbers(cache.call("aten::select.int", {x, 0, n})[0]), (Numbers{2.0 * n, 2.0 * n + 1}));
            }),
            3u);
  for (int64_t beyond : {100, 1000}) EXPECT_THROW(cache.call("aten::select.int", {x, 0, beyond}), Error);
  EXPECT_EQ(compilations_of([&](int64_t n) {
              const std::vector<int64_t> sizes = {2 * n};
              EXPECT_EQ(cache.call("aten::view", {counted({n, 2}), sizes})[0].sizes(), sizes);
            }),
            3u);
  EXPECT_EQ(compilations_of([&](int64_t n) {
              EXPECT_EQ(cache.call("aten::narrow", {x, 0, 2, n})[0].sizes(), (std::vector<int64_t>{n, 2}));
            }),
            3u);
  EXPECT_EQ(error_of([&] {
              cache.call("aten::narrow", {x, 0, 2, 99});
            }).message(),
            "slice(starts=[2, 0], steps=[1, 1]): elements 2 to 100 of dim 0, whose size is 100");
  // Positions that are computed from the integers.
  EXPECT_EQ(compilations_of([&](int64_t n) {
              const std::vector<int64_t> sizes = {2, 2}, strides = {n, 1};
              const HostTensor all =
                  cache.call("aten::as_strided_scatter", {counted({100}), eager_floats({2, 2}, {-1, -2, -3, -4}), sizes, strides, 0})[0];
              EXPECT_EQ(all.double_at(n + 1), -4);
            }),
            3u);
  // An operator with tensors is compiled for each of its numbers.
  EXPECT_EQ(compilations_of([&](int64_t n) { EXPECT_EQ(cache.call("aten::add.Scalar", {x, n})[0].double_at(0), n); }), 5u);
}

TEST_F(EagerStore, ManyLayoutsOfOneSizeStopCompiling) {
  CompileSession session;
  EagerCache cache(session);
  std::vector<float> memory(100);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const std::vector<int64_t> sizes = {2, 2};
  for (int64_t width : {3, 4, 5, 6, 7}) {
    const std::vector<int64_t> strides = {width, 1};
    EXPECT_EQ(numbers(cache.call("aten::neg", {TensorView(memory.data(), DType::F32, sizes, strides)})[0]),
              (Numbers{0, -1, -static_cast<double>(width), -static_cast<double>(width + 1)}));
  }
  EXPECT_EQ(cache.counters().compilations, 3u);
}

// What the evaluator gives for just these sizes.
std::vector<HostTensor> evaluated(std::string_view op, const std::vector<EagerArgument>& arguments) {
  const OperatorCall call = check_call(op, arguments);
  Program program = operator_program(call, exact_form(slots_of(call)), InputStrides::WithoutGaps).program;
  decompose(program);
  std::vector<HostTensor> inputs;
  for (const OperatorCall::Tensor& tensor : call.tensors) {
    HostTensor input(tensor.view->dtype, {tensor.view->sizes.begin(), tensor.view->sizes.end()});
    std::memcpy(input.mutable_data<std::byte>(), tensor.view->data, input.bytes().size());
    inputs.push_back(std::move(input));
  }
  return evaluate(program, inputs);
}

TEST_F(EagerStore, FormsInGeneralGiveWhatTheOperatorGives) {
  CompileSession session;
  EagerCache cache(session, {.threads = 2, .exact_forms = 1});
  size_t calls = 0;
  for (int64_t n : {5, 8, 3, 17}) {
    const HostTensor x = counted({n, 4}), y = counted({4, n}), row = counted({4}), image = counted({2, 3, n, n + 2}),
                     weight = counted({2, 3, 3, 3});
    const HostTensor rows = HostTensor::from_ints(DType::I64, {2}, std::vector<int64_t>{n - 1, 0});
    const std::vector<int64_t> ones = {1, 1}, zeros = {0, 0}, twos = {2, 2}, last = {1}, sizes = {n, 4};
    const std::vector<std::optional<TensorView>> both = {x, x};
    const std::vector<std::pair<std::string_view, std::vector<EagerArgument>>> all = {
        {"aten::add.Tensor", {x, row}},
        {"aten::mm", {x, y}},
        {"aten::_softmax", {x, 0, false}},
        {"aten::sum.dim_IntList", {y, last}},
        {"aten::cumsum", {x, 0}},
        {"aten::cat", {both, 0}},
        {"aten::t", {x}},
        {"aten::index_select", {x, 0, rows}},
        {"aten::sort", {y, -1, true}},
        {"aten::convolution", {image, weight, None{}, ones, ones, ones, false, zeros, 1}},
        {"aten::max_pool2d_with_indices", {image, twos}},
        {"aten::native_layer_norm", {y, std::span<const int64_t>(sizes).first(1), None{}, None{}, 1e-5}},
    };
    for (const auto& [op, arguments] : all) {
      const std::vector<HostTensor> expected = evaluated(op, arguments), results = cache.call(op, arguments);
      ASSERT_EQ(results.size(), expected.size());
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(difference(results[i], expected[i], {.sums_or_products = true}), std::nullopt) << op << " of " << n;
      }
    }
    calls += all.size();
  }
  const EagerCounters counters = cache.counters();
  EXPECT_EQ(counters.compilations + counters.forms, calls);
  EXPECT_EQ(counters.compilations, calls / 2) << "for the first sizes, and for any";
  EXPECT_EQ(counters.exact_only, 0u);
}

TEST_F(EagerStore, AnOperatorThatNeedsItsSizesIsCompiledForEach) {
  CompileSession session;
  EagerCache cache(session, {.exact_forms = 1});
  // How many tensors there are depends on the size.
  for (int64_t n : {2, 3, 4}) EXPECT_EQ(cache.call("aten::unbind.int", {counted({n})}).size(), static_cast<size_t>(n));
  const EagerCounters counters = cache.counters();
  EXPECT_EQ(counters.compilations, 3u);
  EXPECT_EQ(counters.exact_only, 1u);
  // Arguments that do not go together say nothing about the operator.
  for (int64_t n : {2, 3, 4}) EXPECT_THROW(cache.call("aten::mm", {counted({n, 2}), counted({3, n})}), Error);
  EXPECT_EQ(cache.counters().exact_only, 1u);
  EXPECT_EQ(cache.counters().failures, 3u);
}

TEST_F(EagerStore, WhatWasNotUsedForLongGoes) {
  CompileSession session;
  EagerCache cache(session, {.most_calls = 2, .exact_forms = 100});
  auto call = [&](const char* op) { cache.call(op, {counted({2})}); };
  call("aten::neg");
  call("aten::abs");
  call("aten::neg");
  call("aten::exp");  // abs goes
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.counters().evicted, 1u);
  call("aten::neg");
  EXPECT_EQ(cache.counters().loads, 0u);
  call("aten::abs");
  EXPECT_EQ(cache.counters().loads, 1u) << "the store has it";
  EXPECT_EQ(cache.counters().compilations, 3u);
}

TEST_F(EagerStore, ThreadsCompileOnceAndDoNotDisturbEachOther) {
  CompileSession session;
  EagerCache cache(session, {.threads = 2});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const double offset = t * 1000 + i;
        const HostTensor x = eager_floats({3}, {offset, offset + 1, offset + 2});
        const HostTensor y = cache.call("aten::cumsum", {x, 0})[0];
        if (numbers(y) != Numbers{offset, 2 * offset + 1, 3 * offset + 3}) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.counters().compilations, 1u);
  EXPECT_GE(cache.counters().hits, 1194u);
}

TEST_F(EagerStore, WithoutACacheItStillKeepsWhatItHasInMemory) {
  CompileSession session(false);
  EagerCache cache(session);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(numbers(cache.call("aten::neg", {eager_floats({1}, {2})})[0]), (Numbers{-2}));
  EXPECT_EQ(cache.counters().compilations, 1u);
  EXPECT_EQ(cache.counters().hits, 1u);
}

// What a call costs beside the kernel; of the numbers in docs/measured/performance.md.
//   build/driver_test --gtest_also_run_disabled_tests --gtest_filter='EagerStore.DISABLED_WhatACallCosts'
TEST_F(EagerStore, DISABLED_WhatACallCosts) {
  auto microseconds = [](auto action, int times) {
    const auto cpu = [] {
      timespec now;
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
    };
    double best = 1e30;
    for (int round = 0; round < 10; ++round) {
      const double start = cpu();
      for (int i = 0; i < times; ++i) action();
      best = std::min(best, (cpu() - start) / times);
    }
    return best;
  };
  Floats x({4}, {1, 2, 3, 4}), y({4}, {5, 6, 7, 8}), out({4}, {0, 0, 0, 0});
  double first = 0;
  for (const char* when : {"compiled", "from the store"}) {
    CompileSession session;
    EagerCache cache(session, {.threads = 1});
    const Stopwatch watch;
    cache.call("aten::add.Tensor", {x.view(), y.view()});
    first = watch.milliseconds();
    fmt::print("the first call, {}: {:.1f} ms\n", when, first);
    const Stopwatch second;
    cache.call("aten::sub.Tensor", {x.view(), y.view()});
    fmt::print("another operator, {}: {:.2f} ms\n", when, second.milliseconds());
    if (std::string_view(when) == "compiled") continue;
    fmt::print("in memory: {:.3f} us\n", microseconds([&] { cache.call("aten::add.Tensor", {x.view(), y.view()}); }, 20000));
    cache.call("aten::add.out", {x.view(), y.view(), 1, out.view()});
    fmt::print("in memory, to out: {:.3f} us\n", microseconds(
                                                     [&] {
                                                       cache.call("aten::add.out", {x.view(), y.view(), 1, out.view()});
                                                     },
                                                     20000));
    cache.call("aten::relu_", {x.view()});
    fmt::print("in memory, in place: {:.3f} us\n", microseconds([&] { cache.call("aten::relu_", {x.view()}); }, 20000));
    for (int64_t n = 10; n < 14; ++n) cache.call("aten::neg", {counted({n, 3})});
    int64_t n = 20;
    fmt::print("other sizes of a form: {:.1f} us\n", microseconds([&] { cache.call("aten::neg", {counted({++n, 3})}); }, 200));
    const auto resident_bytes = [] {
      int64_t all = 0, resident = 0;
      std::ifstream("/proc/self/statm") >> all >> resident;
      return resident * 4096;
    };
    constexpr int kLibraries = 50;
    const int64_t before = resident_bytes();
    for (int i = 0; i < kLibraries; ++i) cache.call("aten::add.Scalar", {x.view(), i});
    fmt::print("a call with a library of its own: {} kB\n", (resident_bytes() - before) / kLibraries / 1000);
  }
}

TEST(OperatorForms, AreTextAndBack) {
  const OperatorForm form = {{.value = 20}, {.value = 0, .symbol = 0}, {.value = -1}};
  EXPECT_EQ(to_string(form), "20 s0 -1");
  EXPECT_EQ(parse_form(to_string(form)), form);
  EXPECT_EQ(parse_form(""), OperatorForm{});
  for (const char* wrong : {"s", "s-1", "x", "3x", "1  2", "99999999999999999999"}) EXPECT_EQ(parse_form(wrong), std::nullopt) << wrong;
  const std::vector<int64_t> good = {20, 5, -1}, low = {20, 1, -1}, other = {21, 5, -1}, few = {20, 5};
  EXPECT_TRUE(fits(form, good));
  for (const auto& slots : {low, other, few}) EXPECT_FALSE(fits(form, slots));
}

}  // namespace
}  // namespace toroid
