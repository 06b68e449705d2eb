#include "runtime/kernels/fourier/fourier.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/format.h"
#include "interp/compare.h"
#include "interp/fourier.h"
#include "runtime/kernels/registry/operands_for_test.h"

namespace toroid {
namespace {

struct FourierCase {
  const char* name;
  int64_t inputs, outputs;
  // Lengths of a row of the inputs and of the outputs.
  int64_t (*in)(int64_t n);
  int64_t (*out)(int64_t n);
  LibraryKernel evaluated;
};

int64_t all(int64_t n) { return n; }
int64_t half(int64_t n) { return n / 2 + 1; }

const FourierCase kFourierForms[] = {
    {"fourier.transform", 2, 2, all, all, fourier::transform},
    {"fourier.half", 1, 2, all, half, fourier::half},
    {"fourier.real", 2, 1, half, all, fourier::real},
};

std::vector<HostTensor> results_of(const FourierCase& form, DType dtype, const std::vector<int64_t>& sizes) {
  std::vector<HostTensor> results;
  for (int64_t i = 0; i < form.outputs; ++i) results.emplace_back(dtype, sizes);
  return results;
}

std::vector<HostTensor> evaluated(const FourierCase& form, const std::vector<HostTensor>& x, const std::vector<int64_t>& out,
                                  bool forward) {
  std::vector<HostTensor> results = results_of(form, x[0].dtype(), out);
  std::vector<LibraryInput> inputs;
  std::vector<LibraryOutput> outputs;
  for (const HostTensor& input : x) inputs.push_back({input.dtype(), input.sizes(), input.bytes().data()});
  for (HostTensor& result : results) outputs.push_back({result.dtype(), result.sizes(), result.mutable_data<std::byte>()});
  const double attributes[] = {forward ? 1.0 : 0.0};
  form.evaluated({inputs, outputs, attributes});
  return results;
}

std::vector<HostTensor> computed(RuntimePool& pool, const FourierCase& form, Operands& operands, const std::vector<ToroidOperand>& inputs,
                                 DType dtype, const std::vector<int64_t>& out, bool forward) {
  std::vector<HostTensor> results = results_of(form, dtype, out);
  std::vector<ToroidOperand> outputs;
  for (const HostTensor& result : results) outputs.push_back(operands.of(result));
  const double numbers[] = {forward ? 1.0 : 0.0};
  const KernelCall call = {.pool = pool, .inputs = inputs, .outputs = outputs, .integers = {}, .numbers = numbers};
  run_library_kernel(formatted("library.{}", form.name), call);
  return results;
}

void expect_same(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected, const FourierCase& form) {
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(difference(got[i], expected[i], {.sums_or_products = true}), std::nullopt) << form.name << ", result " << i;
  }
}

class RuntimeFourier : public testing::TestWithParam<FourierCase> {};

TEST_P(RuntimeFourier, IsTheEvaluatorsForEveryLength) {
  RuntimePool pool(2);
  const FourierCase& form = GetParam();
  for (DType dtype : {DType::F32, DType::F64}) {
    for (int64_t rows : {1, 3, 41}) {
      for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 30, 33, 64, 67, 98, 100, 121, 240, 1009, 1031, 2062}) {
        if (rows == 41 && n > 200) continue;
        for (bool forward : {true, false}) {
          SCOPED_TRACE(formatted("{} rows of {} {}, {}", rows, n, to_string(dtype), forward));
          std::vector<HostTensor> x;
          for (int64_t i = 0; i < form.inputs; ++i) x.push_back(random_tensor(dtype, {rows, form.in(n)}, static_cast<uint32_t>(n + i)));
          Operands operands;
          std::vector<ToroidOperand> inputs;
          for (const HostTensor& input : x) inputs.push_back(operands.of(input));
          const std::vector<int64_t> out = {rows, form.out(n)};
          expect_same(computed(pool, form, operands, inputs, dtype, out, forward), evaluated(form, x, out, forward), form);
        }
      }
    }
  }
}

// A NaN in one row and an infinity in another, each at every place: no other row has them, nor the parts whose factor is 0.
TEST_P(RuntimeFourier, NonFiniteElementsReachWhatTheirFactorsSay) {
  RuntimePool pool(1);
  const FourierCase& form = GetParam();
  constexpr int64_t kRows = 19;
  for (int64_t n : {1, 2, 4, 5, 6, 8, 9, 16}) {
    for (int64_t part = 0; part < form.inputs; ++part) {
      for (int64_t place = 0; place < form.in(n); ++place) {
        SCOPED_TRACE(formatted("{}, part {}, place {}", n, part, place));
        std::vector<HostTensor> x;
        for (int64_t i = 0; i < form.inputs; ++i) x.push_back(random_tensor(DType::F32, {kRows, form.in(n)}, static_cast<uint32_t>(n + i)));
        float* const data = x[static_cast<size_t>(part)].mutable_data<float>();
        data[place] = std::numeric_limits<float>::quiet_NaN();
        data[form.in(n)*17 + place] = std::numeric_limits<float>::infinity();
        Operands operands;
        std::vector<ToroidOperand> inputs;
        for (const HostTensor& input : x) inputs.push_back(operands.of(input));
        const std::vector<int64_t> out = {kRows, form.out(n)};
        expect_same(computed(pool, form, operands, inputs, DType::F32, out, true), evaluated(form, x, out, true), form);
      }
    }
  }
}

// Rows along the first of three dims, and rows whose elements are apart.
TEST_P(RuntimeFourier, TakesAnyStrides) {
  RuntimePool pool(1);
  const FourierCase& form = GetParam();
  const int64_t in = form.in(12);
  for (bool is_first : {true, false}) {
    std::vector<HostTensor> stored, x;
    Operands operands;
    std::vector<ToroidOperand> inputs;
    for (int64_t i = 0; i < form.inputs; ++i) {
      stored.push_back(random_tensor(DType::F32, {in, 5, 21}, static_cast<uint32_t>(i)));
      std::vector<double> values;
      for (int64_t a = 0; a < 5; ++a) {
        for (int64_t b = 0; b < 21; ++b) {
          for (int64_t j = 0; j < in; ++j)
            values.push_back(stored.back().double_at(is_first ? (j * 5 + a) * 21 + b : (a * 21 + b) * in + j));
        }
      }
      x.push_back(HostTensor::from_doubles(DType::F32, {5, 21, in}, values));
    }
    std::vector<HostTensor> shown;
    for (const HostTensor& tensor : stored) shown.push_back(HostTensor(DType::F32, {5, 21, in}, tensor.bytes(), nullptr));
    const std::vector<int64_t> strides = is_first ? std::vector<int64_t>{21, 1, 5 * 21} : std::vector<int64_t>{21 * in, in, 1};
    for (const HostTensor& tensor : shown) inputs.push_back(operands.of(tensor, strides));
    const std::vector<int64_t> out = {5, 21, form.out(12)};
    expect_same(computed(pool, form, operands, inputs, DType::F32, out, true), evaluated(form, x, out, true), form);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, RuntimeFourier, testing::ValuesIn(kFourierForms), [](const auto& info) {
  const std::string name = info.param.name;
  return name.substr(name.find('.') + 1);
});

TEST(RuntimeFourier, LeavesLargePrimeFactorsToTheEvaluator) {
  RuntimePool pool(1);
  Operands operands;
  const HostTensor x = random_tensor(DType::F32, {1, 2 * 1031}, 1), y(DType::F32, {1, 1032});
  const ToroidOperand inputs[] = {operands.of(x)}, outputs[] = {operands.of(y), operands.of(y)};
  const double numbers[] = {1};
  EXPECT_FALSE(can_run_fourier("fourier.half", {.pool = pool, .inputs = inputs, .outputs = outputs, .integers = {}, .numbers = numbers}));
}

}  // namespace
}  // namespace toroid
