#include "interp/evaluate.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "interp/program_for_test.h"

namespace toroid {
namespace {

using Tensors = std::vector<Tensor>;

// One operation on given inputs; `expected` holds the elements of every result, one after the other.
// A + before a lambda makes it a plain function, of which std::function is compiled once and not once a lambda.
struct OpCase {
  const char* name;
  std::vector<HostTensor> inputs;
  std::function<Tensors(Builder&, Tensors)> op;
  std::vector<std::vector<int64_t>> sizes;
  std::vector<double> expected;
};

void expect(const OpCase& row) {
  SCOPED_TRACE(row.name);
  const std::vector<HostTensor> results = run(row.inputs, row.op);
  ASSERT_EQ(results.size(), row.sizes.size());
  std::vector<double> elements;
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].sizes(), row.sizes[i]);
    for (int64_t e = 0; e < results[i].numel(); ++e) elements.push_back(results[i].double_at(e));
  }
  ASSERT_EQ(elements.size(), row.expected.size());
  for (size_t e = 0; e < elements.size(); ++e) {
    if (std::isnan(row.expected[e]))
      EXPECT_TRUE(std::isnan(elements[e])) << "element " << e << " is " << elements[e];
    else
      EXPECT_FLOAT_EQ(static_cast<float>(elements[e]), static_cast<float>(row.expected[e])) << "element " << e;
  }
}

const HostTensor kMatrix = f32({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Evaluate, MovesElements) {
  expect({"expand",
          {f32({2, 1}, {1, 2})},
          +[](Builder& b, Tensors x) {
            return Tensors{b.expand(x[0], {2, 3})};
          },
          {{2, 3}},
          {1, 1, 1, 2, 2, 2}});
  expect({"expand rank 0", {f32({}, {7})}, +[](Builder& b, Tensors x) { return Tensors{b.expand(x[0], {2})}; }, {{2}}, {7, 7}});
  expect({"permute", {kMatrix}, +[](Builder& b, Tensors x) { return Tensors{b.permute(x[0], {1, 0})}; }, {{3, 2}}, {1, 4, 2, 5, 3, 6}});
  expect({"reshape", {kMatrix}, +[](Builder& b, Tensors x) { return Tensors{b.reshape(x[0], {3, -1})}; }, {{3, 2}}, {1, 2, 3, 4, 5, 6}});
  expect({"slice", {kMatrix}, +[](Builder& b, Tensors x) { return Tensors{b.slice(x[0], 1, 0, 2, 2)}; }, {{2, 2}}, {1, 3, 4, 6}});
  expect({"flip", {kMatrix}, +[](Builder& b, Tensors x) { return Tensors{b.flip(x[0], {0, 1})}; }, {{2, 3}}, {6, 5, 4, 3, 2, 1}});
  expect({"empty slice", {kMatrix}, +[](Builder& b, Tensors x) { return Tensors{b.slice(x[0], 0, 2, 0)}; }, {{0, 3}}, {}});
  expect({"diagonal by remap",
          {kMatrix},
          +[](Builder& b, Tensors x) {
            const sym::Expr i = b.axis(2);
            return Tensors{b.remap(x[0], {i}, {i, i + 1})};
          },
          {{2}},
          {2, 6}});
  expect({"windows by remap",
          {f32({4}, {1, 2, 3, 4})},
          +[](Builder& b, Tensors x) {
            const sym::Expr i = b.axis(3);
            const sym::Expr j = b.axis(2);
            return Tensors{b.remap(x[0], {i, j}, {i + j})};
          },
          {{3, 2}},
          {1, 2, 2, 3, 3, 4}});
  expect({"pad", {f32({2}, {1, 2})}, +[](Builder& b, Tensors x) { return Tensors{b.pad(x[0], {1}, {2}, 9.0)}; }, {{5}}, {9, 1, 2, 9, 9}});
  expect({"pad an empty tensor",
          {f32({0, 2}, {})},
          +[](Builder& b, Tensors x) {
            return Tensors{b.pad(x[0], {1, 0}, {0, 0}, 3.0)};
          },
          {{1, 2}},
          {3, 3}});
  expect({"cat",
          {kMatrix, f32({2, 1}, {8, 9}), f32({2, 0}, {})},
          +[](Builder& b, Tensors x) { return Tensors{b.cat(x, 1)}; },
          {{2, 4}},
          {1, 2, 3, 8, 4, 5, 6, 9}});
  expect({"gather",
          {kMatrix, i64({2}, {1, 0}), i64({2}, {2, 0})},
          +[](Builder& b, Tensors x) {
            return Tensors{b.gather(x[0], {x[1], x[2]})};
          },
          {{2}},
          {6, 1}});
  expect({"scatter add",
          {f32({3}, {1, 1, 1}), f32({4}, {1, 2, 3, 4}), i64({4}, {0, 2, 0, 0})},
          +[](Builder& b, Tensors x) { return Tensors{b.scatter(x[0], x[1], {x[2]}, ScatterMode::Add)}; },
          {{3}},
          {9, 1, 3}});
  expect({"scatter set takes the last",
          {f32({2}, {1, 1}), f32({3}, {5, 6, 7}), i64({3}, {1, 0, 1})},
          +[](Builder& b, Tensors x) { return Tensors{b.scatter(x[0], x[1], {x[2]}, ScatterMode::Set)}; },
          {{2}},
          {6, 7}});
  expect({"iota", {}, +[](Builder& b, Tensors) { return Tensors{b.iota({2, 3}, 1)}; }, {{2, 3}}, {0, 1, 2, 0, 1, 2}});
}

TEST(Evaluate, ComputesElementByElement) {
  expect({"cast to int truncates",
          {f32({3}, {-1.9, 2.9, 0})},
          +[](Builder& b, Tensors x) { return Tensors{b.cast(x[0], DType::I32)}; },
          {{3}},
          {-1, 2, 0}});
  expect({"cast to bool",
          {f32({3}, {-0.5, 0, kNan})},
          +[](Builder& b, Tensors x) { return Tensors{b.cast(x[0], DType::Bool)}; },
          {{3}},
          {1, 0, 1}});
  expect({"cast to u8 wraps",
          {i64({2}, {-1, 257})},
          +[](Builder& b, Tensors x) { return Tensors{b.cast(x[0], DType::U8)}; },
          {{2}},
          {255, 1}});
  expect({"bitcast", {f32({1}, {1})}, +[](Builder& b, Tensors x) { return Tensors{b.bitcast(x[0], DType::I32)}; }, {{1}}, {0x3f800000}});
  expect({"bf16 rounds every node",
          {f32({1}, {1.00390625})},
          +[](Builder& b, Tensors x) {
            Tensor half = b.cast(x[0], DType::BF16);  // to 1
            return Tensors{b.cast(half + half, DType::F32)};
          },
          {{1}},
          {2}});
  expect({"f32 overflows to infinity", {f32({1}, {3e38})}, +[](Builder&, Tensors x) { return Tensors{x[0] + x[0]}; }, {{1}}, {kInf}});
  expect({"where",
          {f32({2}, {1, -1}), f32({2}, {kNan, 5})},
          +[](Builder& b, Tensors x) { return Tensors{b.where(b.binary(ScalarOp::Lt, x[0], Scalar(0.0)), x[0], x[1])}; },
          {{2}},
          {kNan, -1}});
  expect({"empty", {f32({0}, {})}, +[](Builder& b, Tensors x) { return Tensors{b.unary(ScalarOp::Exp, x[0])}; }, {{0}}, {}});
}

TEST(Evaluate, Reduces) {
  auto reduce = [](ReduceOp op, Dims dims) { return [op, dims](Builder& b, Tensors x) { return b.reduce(op, x[0], dims); }; };
  const HostTensor with_nan = f32({4}, {1, kNan, 3, kNan});
  expect({"sum of rows", {kMatrix}, reduce(ReduceOp::Sum, {1}), {{2}}, {6, 15}});
  expect({"sum of columns", {kMatrix}, reduce(ReduceOp::Sum, {0}), {{3}}, {5, 7, 9}});
  expect({"sum of all", {kMatrix}, reduce(ReduceOp::Sum, {}), {{}}, {21}});
  expect({"sum of nothing", {f32({2, 0}, {})}, reduce(ReduceOp::Sum, {1}), {{2}}, {0, 0}});
  expect({"product of nothing", {f32({0}, {})}, reduce(ReduceOp::Prod, {}), {{}}, {1}});
  expect({"max of a scalar", {f32({}, {3})}, reduce(ReduceOp::Max, {}), {{}}, {3}});
  expect({"max keeps NaN", {with_nan}, reduce(ReduceOp::Max, {}), {{}}, {kNan}});
  expect({"argmax takes the first NaN", {with_nan}, reduce(ReduceOp::ArgMax, {}), {{}}, {1}});
  expect({"argmin takes the first", {i64({4}, {2, 1, 3, 1})}, reduce(ReduceOp::ArgMin, {}), {{}}, {1}});
  expect({"any", {f32({2, 2}, {0, 0, 0, kNan})}, reduce(ReduceOp::Any, {1}), {{2}}, {0, 1}});
  expect({"all of nothing", {f32({1, 0}, {})}, reduce(ReduceOp::All, {1}), {{1}}, {1}});
  expect({"welford of nothing", {f32({2, 0}, {})}, reduce(ReduceOp::MeanM2, {1}), {{2}, {2}}, {kNan, kNan, 0, 0}});
  expect({"welford", {kMatrix}, reduce(ReduceOp::MeanM2, {1}), {{2}, {2}}, {2, 5, 2, 2}});
  expect({"integers wrap", {i64({2}, {std::numeric_limits<int64_t>::max(), 1})}, reduce(ReduceOp::Sum, {}), {{}}, {-0x1p63}});
  EXPECT_THROW(run({f32({2, 0}, {})}, reduce(ReduceOp::Max, {1})), Error);
}

TEST(Evaluate, ScansAndSorts) {
  auto scan = [](ScanOp op) { return [op](Builder& b, Tensors x) { return b.scan(op, x[0], 0); }; };
  auto sort = [](bool descending) {
    return [descending](Builder& b, Tensors x) {
      auto [values, indices] = b.sort(x[0], -1, descending, true);
      return Tensors{values, indices};
    };
  };
  expect({"cumsum", {kMatrix}, scan(ScanOp::Sum), {{2, 3}}, {1, 2, 3, 5, 7, 9}});
  expect({"cumsum of a scalar", {f32({}, {2})}, scan(ScanOp::Sum), {{}}, {2}});
  expect({"cummax takes the latest", {f32({4}, {1, 3, 3, 2})}, scan(ScanOp::Max), {{4}, {4}}, {1, 3, 3, 3, 0, 1, 2, 2}});
  expect({"cummin keeps NaN", {f32({3}, {1, kNan, 0})}, scan(ScanOp::Min), {{3}, {3}}, {1, kNan, kNan, 0, 1, 1}});
  expect({"logcumsumexp", {f32({3}, {-kInf, 0, 0})}, scan(ScanOp::LogAddExp), {{3}}, {-kInf, 0, std::log(2.0)}});
  expect({"sort", {f32({4}, {3, kNan, 1, 3})}, sort(false), {{4}, {4}}, {1, 3, 3, kNan, 2, 0, 3, 1}});
  expect({"sort descending is stable", {f32({4}, {3, kNan, 1, 3})}, sort(true), {{4}, {4}}, {kNan, 3, 3, 1, 1, 0, 3, 2}});
}

TEST(Evaluate, SumsProducts) {
  auto convolve = [](int64_t stride, int64_t padding, int64_t dilation, bool transposed, int64_t groups) {
    return [=](Builder& b, Tensors x) {
      return Tensors{b.convolution(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), {stride}, {padding}, {dilation}, transposed, {0}, groups)};
    };
  };
  const HostTensor line = f32({1, 1, 5}, {1, 2, 3, 4, 5});
  const HostTensor edge = f32({1, 1, 3}, {1, 0, -1});
  expect({"matmul",
          {kMatrix, f32({3, 1}, {1, 0, -1})},
          +[](Builder& b, Tensors x) { return Tensors{b.matmul(x[0], x[1])}; },
          {{2, 1}},
          {-2, -2}});
  expect({"batched matmul",
          {f32({2, 1, 2}, {1, 2, 3, 4}), f32({2, 1}, {10, 1})},
          +[](Builder& b, Tensors x) { return Tensors{b.matmul(x[0], x[1])}; },
          {{2, 1, 1}},
          {12, 34}});
  expect({"matmul over nothing",
          {f32({2, 0}, {}), f32({0, 2}, {})},
          +[](Builder& b, Tensors x) { return Tensors{b.matmul(x[0], x[1])}; },
          {{2, 2}},
          {0, 0, 0, 0}});
  expect({"convolution", {line, edge}, convolve(1, 1, 1, false, 1), {{1, 1, 5}}, {-2, -2, -2, -2, 4}});
  expect({"strided, with bias", {line, edge, f32({1}, {10})}, convolve(2, 0, 1, false, 1), {{1, 1, 2}}, {8, 8}});
  expect({"dilated", {line, edge}, convolve(1, 0, 2, false, 1), {{1, 1, 1}}, {-4}});
  expect(
      {"grouped", {f32({1, 2, 2}, {1, 2, 3, 4}), f32({2, 1, 1}, {10, 100})}, convolve(1, 0, 1, false, 2), {{1, 2, 2}}, {10, 20, 300, 400}});
  expect({"transposed",
          {f32({1, 1, 2}, {1, 2}), f32({1, 1, 3}, {1, 10, 100})},
          convolve(2, 0, 1, true, 1),
          {{1, 1, 5}},
          {1, 10, 102, 20, 200}});
  expect({"transposed, padded, grouped",
          {f32({1, 2, 2}, {1, 2, 3, 4}), f32({2, 1, 3}, {1, 10, 100, 1, 10, 100})},
          convolve(1, 1, 1, true, 2),
          {{1, 2, 2}},
          {12, 120, 34, 340}});
  expect({"causal attention",
          {f32({1, 2, 1}, {0, 0}), f32({1, 2, 1}, {0, 0}), f32({1, 2, 1}, {2, 4})},
          +[](Builder& b, Tensors x) { return Tensors{b.attention(x[0], x[1], x[2], Tensor(), true, 1.0)}; },
          {{1, 2, 1}},
          {2, 3}});
  expect({"attention of heads that share keys",
          {f32({2, 1, 1}, {0, 0}), f32({1, 2, 1}, {0, 0}), f32({1, 2, 1}, {2, 4})},
          +[](Builder& b, Tensors x) { return Tensors{b.attention(x[0], x[1], x[2], Tensor(), false, 1.0)}; },
          {{2, 1, 1}},
          {3, 3}});
  expect({"attention that may look nowhere",
          {f32({1, 1}, {1}), f32({2, 1}, {1, 1}), f32({2, 1}, {2, 4}), f32({1, 2}, {-kInf, -kInf})},
          +[](Builder& b, Tensors x) { return Tensors{b.attention(x[0], x[1], x[2], x[3], false, 1.0)}; },
          {{1, 1}},
          {0}});
}

TEST(Evaluate, IndicesOutOfBoundsAreNamed) {
  try {
    run(
        {kMatrix, i64({1}, {2}), i64({1}, {0})}, +[](Builder& b, Tensors x) {
          return Tensors{b.gather(x[0], {x[1], x[2]})};
        });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "index 2 is out of bounds for dimension 0 with size 2 in a gather");
  }
}

TEST(Evaluate, SizesComeFromTheInputs) {
  Program program;
  const sym::Expr n = program.symbols->symbol("n", sym::SymbolKind::Size, {1, sym::kPosInf});
  Builder b(program.graph, *program.symbols, &program.guards);
  const NodeId node = program.graph.add_node(Input{0}, {}, {{.dtype = DType::F32, .sizes = {n, 2}}});
  program.graph.inputs = program.graph.node(node).outputs;
  Tensor x = b.wrap(program.graph.inputs[0]);
  Tensor y = b.reshape(x, {n * 2}) + b.cast(b.arange(n * 2), DType::F32);
  program.graph.outputs = {y.id()};
  for (int64_t size : {1, 3}) {
    const std::vector<HostTensor> inputs = {f32({size, 2}, std::vector<double>(static_cast<size_t>(size * 2), 0.5))};
    const std::vector<HostTensor> outputs = evaluate(program, inputs);
    EXPECT_EQ(outputs[0].sizes(), std::vector<int64_t>{size * 2});
    EXPECT_EQ(outputs[0].double_at(size * 2 - 1), static_cast<double>(size * 2) - 0.5);
  }
}

TEST(Evaluate, StridedConstantsAreLaidOut) {
  const std::vector<float> storage = {1, 2, 3, 4, 5, 6};
  ConstantData data;
  data.type = {.dtype = DType::F32, .sizes = {3, 2}, .strides = {1, 3}};
  data.bytes = std::as_bytes(std::span(storage));
  const HostTensor tensor = constant_tensor(data);
  EXPECT_EQ(tensor.to_doubles(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

// cond and while_loop: x0 doubles while its sum is below 10.
TEST(Evaluate, LoopsOverSubgraphs) {
  Program program;
  const TensorType vector{.dtype = DType::F32, .sizes = {2}};
  auto subgraph = [&](auto body) {
    Graph& graph = program.subgraphs.emplace_back();
    graph.inputs = graph.node(graph.add_node(Input{0}, {}, {vector})).outputs;
    Builder b(graph, *program.symbols);
    graph.outputs = {body(b, b.wrap(graph.inputs[0])).id()};
  };
  subgraph(+[](Builder& b, Tensor x) { return b.binary(ScalarOp::Lt, b.sum(x, {}), Scalar(10.0)); });
  subgraph(+[](Builder&, Tensor x) { return x * 2.0; });
  Graph& graph = program.graph;
  graph.inputs = graph.node(graph.add_node(Input{0}, {}, {vector})).outputs;
  const HigherOrder loop{"while_loop", {SubgraphRef{0}, SubgraphRef{1}, InputList{InputRef{0}}, InputList{}}};
  graph.outputs = graph.node(graph.add_node(loop, graph.inputs, {vector})).outputs;
  EXPECT_EQ(evaluate(program, std::vector{f32({2}, {1, 2})})[0].to_doubles(), (std::vector<double>{4, 8}));
}

}  // namespace
}  // namespace toroid
