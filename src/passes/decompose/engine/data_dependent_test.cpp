#include "passes/decompose/engine/data_dependent.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/evaluate.h"

namespace toroid {
namespace {

// The results of a program given as text, on f32 inputs of rank 1 or the sizes given.
std::vector<HostTensor> results_of(std::string_view text, const std::vector<HostTensor>& inputs) {
  Program program = parse_text(text);
  decompose(program);
  verify(program, Level::Core);
  return evaluate(program, inputs);
}

HostTensor vector(const std::vector<double>& values) {
  return HostTensor::from_doubles(DType::F32, {static_cast<int64_t>(values.size())}, values);
}
using Ints = std::vector<int64_t>;

TEST(DataDependent, NonzeroDefinesItsOwnSize) {
  const std::string_view text = R"(sym u0 in [0, inf] from data
graph(x: f32[4]) {
  y: i64[u0, 1] = aten::nonzero(x)
  return y
}
)";
  EXPECT_EQ(results_of(text, {vector({0, 5, 0, -1})})[0].to_ints(), (Ints{1, 3}));
  EXPECT_EQ(results_of(text, {vector({0, 0, 0, 0})})[0].sizes(), (Ints{0, 1}));
}

TEST(DataDependent, LaterSizesFollow) {
  const auto results = results_of(R"(sym u0 in [0, inf] from data
graph(x: f32[3]) {
  mask: bool[3] = aten::gt.Scalar(x, 1)
  y: f32[u0] = aten::masked_select(x, mask)
  z: f32[2*u0] = aten::repeat(y, [2])
  return z
}
)",
                                  {vector({2, 0, 3})});
  EXPECT_EQ(results[0].to_doubles(), (std::vector<double>{2, 3, 2, 3}));
}

// The exporter names the length of a slice when it cannot tell where the slice begins.
TEST(DataDependent, ASliceDefinesItsOwnSize) {
  const std::string_view text = R"(sym u0 in [0, 4] from data
sym u1 in [0, 4] from data
graph(x: f32[4]) {
  y: i64[u0, 1] = aten::nonzero(x)
  z: i64[u1, 1] = aten::slice.Tensor(y, 0, -2)
  w: i64[2*u1, 1] = aten::cat([z, z])
  return w
}
)";
  EXPECT_EQ(results_of(text, {vector({1, 5, 0, -1})})[0].to_ints(), (Ints{1, 3, 1, 3}));
  EXPECT_EQ(results_of(text, {vector({0, 5, 0, 0})})[0].to_ints(), (Ints{1, 1}));
}

TEST(DataDependent, DiagonalsAreWrittenWhateverTheirLength) {
  const std::string_view text = R"(sym u0 in [0, 4] from data
graph(x: f32[2, 2]) {
  y: i64[u0, 2] = aten::nonzero(x)
  z: i64[Min(2, u0)] = aten::diagonal(y, 0, 0, 1)
  w: i64[Min(2, u0)] = aten::add.Scalar(z, 7)
  v: i64[u0, 2] = aten::diagonal_scatter(y, w)
  return v
}
)";
  const auto matrix = [](const std::vector<double>& values) { return HostTensor::from_doubles(DType::F32, {2, 2}, values); };
  EXPECT_EQ(results_of(text, {matrix({1, 5, 0, -1})})[0].to_ints(), (Ints{7, 0, 0, 8, 1, 1}));
  EXPECT_EQ(results_of(text, {matrix({0, 5, 0, 0})})[0].to_ints(), (Ints{7, 1}));
  EXPECT_EQ(results_of(text, {matrix({0, 0, 0, 0})})[0].sizes(), (Ints{0, 2}));
}

TEST(DataDependent, UniqueWithInverseAndCounts) {
  const auto results = results_of(R"(sym u0 in [0, inf] from data
graph(x: f32[5]) {
  y: f32[u0], inverse: i64[5], counts: i64[u0] = aten::_unique2(x, true, true, true)
  return y, inverse, counts
}
)",
                                  {vector({3, 1, 3, 2, 1})});
  EXPECT_EQ(results[0].to_doubles(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(results[1].to_ints(), (Ints{2, 0, 2, 1, 0}));
  EXPECT_EQ(results[2].to_ints(), (Ints{2, 1, 2}));
}

// Each position repeats 2^43 times: nobody has begun to count up to 2^44.
TEST(DataDependent, SizesThatTheMachineDoesNotHoldAreRefusedByNameBeforeTheWork) {
  const std::string_view text = R"(sym u0 in [0, inf] from data
graph(x: i64[2]) {
  y: i64[u0] = aten::repeat_interleave.Tensor(x)
  return y
}
)";
  const HostTensor repeats = HostTensor::from_ints(DType::I64, {2}, Ints{int64_t{1} << 43, int64_t{1} << 43});
  const Error error = error_of([&] { results_of(text, {repeats}); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), "out of memory: 281474976710656 bytes for 'y_t_2' of shape [17592186044416]");
}

}  // namespace
}  // namespace toroid
