// Indices out of bounds are errors, also where no address depends on them.
#include "driver/end_to_end/compiled_for_test.h"

#include <fmt/format.h>

namespace toroid {
namespace {

// A program whose input `i` holds indices: some that are in bounds, and some that are not.
struct IndexCase {
  std::string name, text;
  std::vector<int64_t> good, bad;
  std::string message;
};

std::vector<HostTensor> inputs_with(const Program& program, const std::vector<int64_t>& indices) {
  std::vector<HostTensor> inputs = example_inputs(program);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = program.graph.value(program.graph.inputs[i]);
    if (value.name == "i") inputs[i] = HostTensor::from_ints(value.type.dtype, sizes_of(program, value.type, {}), indices);
  }
  return inputs;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "none";
}

std::string bad_index(int64_t index, int64_t most) {
  return fmt::format("an index read from a tensor is out of bounds: {}, where 0 to {} are allowed", index, most);
}

const IndexCase kIndexCases[] = {
    {"an embedding of one row",
     "graph(w: f32[1, 40], i: i64[3]) {\n  y: f32[3, 40] = aten::embedding(w, i)\n  return y\n}",
     {0, 0, 0},
     {0, 7, 0},
     bad_index(7, 0)},
    {"rows of an expanded tensor",
     "graph(w: f32[1, 4], i: i64[3]) {\n"
     "  e: f32[5, 4] = aten::expand(w, [5, 4])\n"
     "  y: f32[3, 4] = aten::index_select(e, 0, i)\n"
     "  return y\n}",
     {4, 0, 3},
     {4, 5, 3},
     bad_index(5, 4)},
    {"elements of equal numbers",
     "graph(w: f32[2], i: i64[19]) {\n"
     "  z: f32[5] = aten::zeros([5])\n"
     "  y: f32[19] = aten::index_select(z, 0, i)\n"
     "  return y\n}",
     {0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4},
     {0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1},
     bad_index(-1, 4)},
    {"rows of which one half is expanded",
     "graph(a: f32[1, 3], b: f32[5, 4], i: i64[2]) {\n"
     "  e: f32[5, 3] = aten::expand(a, [5, 3])\n"
     "  c: f32[5, 7] = aten::cat([e, b], 1)\n"
     "  s: f32[2, 7] = aten::index_select(c, 0, i)\n"
     "  y: f32[2, 3] = aten::slice.Tensor(s, 1, 0, 3)\n"
     "  return y\n}",
     {4, 1},
     {4, 6},
     bad_index(6, 4)},
    {"a row that is written to",
     "graph(w: f32[1, 4], i: i64[3], v: f32[3, 4]) {\n  y: f32[1, 4] = aten::index_put(w, [i], v, true)\n  return y\n}",
     {0, -1, 0},
     {0, 5, 0},
     bad_index(5, 0)},
    {"sums of one row",
     "graph(w: f32[1, 4], i: i64[1, 4], v: f32[1, 4]) {\n  y: f32[1, 4] = aten::scatter_add(w, 0, i, v)\n  return y\n}",
     {0, 0, 0, 0},
     {0, 0, 0, 1},
     bad_index(1, 0)},
    {"a class that one_hot has no column for",
     "graph(i: i64[3]) {\n  y: i64[3, 4] = aten::one_hot(i, 4)\n  return y\n}",
     {0, 3, 1},
     {0, 4, 1},
     bad_index(4, 3)},
    {"more repetitions than output_size says",
     "graph(i: i64[3]) {\n  y: i64[4] = aten::repeat_interleave.Tensor(i, output_size=4)\n  return y\n}",
     {1, 0, 3},
     {1, 0, 5},
     bad_index(2, 0)},
    {"fewer repetitions than output_size says",
     "graph(i: i64[3]) {\n  y: i64[4] = aten::repeat_interleave.Tensor(i, output_size=4)\n  return y\n}",
     {2, 2, 0},
     {1, 2, 0},
     bad_index(-1, 0)},
    {"masked_scatter from fewer elements than there are places",
     "graph(x: f32[4], i: i64[4], s: f32[1]) {\n"
     "  m: bool[4] = aten::gt.Scalar(i, 0)\n"
     "  y: f32[4] = aten::masked_scatter(x, m, s)\n"
     "  return y\n}",
     {0, 0, 1, 0},
     {0, 1, 1, 0},
     bad_index(1, 0)},
};

void expect_errors_of_bad_indices(codegen::Target target) {
  for (const IndexCase& each : kIndexCases) {
    const CompiledModel model = compiled(each.text, target);
    Executable executable = model.load(1);
    const std::vector<HostTensor> good = inputs_with(*model.program, each.good), bad = inputs_with(*model.program, each.bad);
    EXPECT_EQ(message_of([&] { executable.run(bad); }), each.message) << each.name;
    EXPECT_NE(message_of([&] { evaluate(*model.program, bad); }), "none") << each.name;
    EXPECT_EQ(difference(executable.run(good)[0], evaluate(*model.program, good)[0], {.sums_or_products = true}), std::nullopt)
        << each.name;
  }
}

TEST(Indices, OutOfBoundsAreErrorsWhereNoAddressDependsOnThem) { expect_errors_of_bad_indices(codegen::Target::Cpu); }
TEST(EmulatedCudaIndices, OutOfBoundsAreErrorsWhereNoAddressDependsOnThem) { expect_errors_of_bad_indices(codegen::Target::EmulatedCuda); }

// Whatever the index, there is nothing to read or to write.
TEST(Indices, IntoTensorsWithoutElementsAreErrors) {
  const std::string of_bad = "an index read from a tensor is out of bounds";
  for (const char* text : {"graph(w: f32[0, 3], i: i64[2]) {\n  y: f32[2, 3] = aten::index_select(w, 0, i)\n  return y\n}",
                           "graph(w: f32[0], i: i64[2], v: f32[2]) {\n  y: f32[0] = aten::index_put(w, [i], v)\n  return y\n}"}) {
    const CompiledModel model = compiled(text);
    Executable executable = model.load(1);
    EXPECT_EQ(message_of([&] { executable.run(inputs_with(*model.program, {0, 0})); }), of_bad) << text;
  }
}

}  // namespace
}  // namespace toroid
