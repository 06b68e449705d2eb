// Which rows lie further apart than they are long, for tensor cores to read and write them 16 bytes at a time.
#include "schedule/cuda/products/padded_rows.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct PaddingCase {
  const char* name;
  const char* padded;  // the buffers that are, with the strides of their rows
  const char* steps;   // "own": a product in tiles of the program's; "library": another; "once": what is done before all calls
  const char* graph;
};
void PrintTo(const PaddingCase& row, std::ostream* out) { *out << row.name; }

const PaddingCase kPaddings[] = {
    {"a_result_that_a_reduction_reads", "y 1024", "own kernel", R"(
graph(x: bf16[512, 768], w: bf16[1003, 768]) {
  y: bf16[512, 1003] = aten::linear(x, w)
  z: bf16[512, 1003] = aten::softmax.int(y, -1)
  return z
})"},
    {"an_epilogue_is_still_done_with_the_product", "", "own+kernel", R"(
graph(x: bf16[512, 768], w: bf16[1003, 768], b: bf16[1003]) {
  y: bf16[512, 1003] = aten::linear(x, w, b)
  return y
})"},
    {"outputs_keep_their_layout", "", "own", R"(
graph(x: bf16[512, 768], w: bf16[1003, 768]) {
  y: bf16[512, 1003] = aten::linear(x, w)
  return y
})"},
    {"a_gradient_that_two_products_read_from_two_sides", "d 1024", "kernel own own", R"(
graph(e: f32[512, 1003], w: bf16[1003, 768], x: bf16[512, 768]) {
  f: f32[512, 1003] = aten::softmax.int(e, -1)
  d: bf16[512, 1003] = aten::to.dtype(f, dtype.bf16)
  g: bf16[512, 768] = aten::mm(d, w)
  t: bf16[1003, 512] = aten::t(d)
  h: bf16[1003, 768] = aten::mm(t, x)
  return g, h
})"},
    {"weights_are_copied_once", "w_padded 1024, d 1024", "once kernel own", R"(
constant 0 "w": bf16[512, 1003] = external
graph(e: f32[512, 1003]) {
  w: bf16[512, 1003] = constant(0)
  f: f32[512, 1003] = aten::softmax.int(e, -1)
  d: bf16[512, 1003] = aten::to.dtype(f, dtype.bf16)
  y: bf16[512, 512] = aten::linear(d, w)
  return y
})"},
    {"inputs_of_much_work_are_copied", "x_padded 1024, w_padded 1024", "kernel kernel own", R"(
graph(x: bf16[2048, 1003], w: bf16[2048, 1003]) {
  y: bf16[2048, 2048] = aten::linear(x, w)
  return y
})"},
    {"those_of_little_work_are_not", "", "library", R"(
graph(x: bf16[512, 1003], w: bf16[768, 1003]) {
  y: bf16[512, 768] = aten::linear(x, w)
  return y
})"},
    {"what_is_read_across_rows_stays", "", "own kernel", R"(
graph(x: bf16[512, 768], w: bf16[1003, 768]) {
  y: bf16[512, 1003] = aten::linear(x, w)
  v: bf16[1003, 512] = aten::view(y, [1003, 512])
  z: bf16[1003, 512] = aten::softmax.int(v, -1)
  return z
})"},
    {"rows_that_would_be_much_longer_stay", "", "library kernel", R"(
graph(x: bf16[512, 768], w: bf16[9, 768]) {
  y: bf16[512, 9] = aten::linear(x, w)
  z: bf16[512, 9] = aten::softmax.int(y, -1)
  return z
})"},
};

class PaddedRows : public testing::TestWithParam<PaddingCase> {};
TEST_P(PaddedRows, AreThoseThatTensorCoresReadOrWrite) {
  const Scheduled made = scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper));
  const loop::LoopProgram& program = *made.schedule.loops;
  std::string steps, padded;
  const auto add = [](std::string& list, const char* between, const std::string& text) { list += (list.empty() ? "" : between) + text; };
  for (size_t i = 0; i < made.schedule.prepare.size(); ++i) add(steps, " ", "once");
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    add(steps, " ", call == nullptr ? "kernel" : call->gpu ? "own" : "library");
    if (call != nullptr && call->epilogue) steps += "+kernel";
  }
  for (const Lifetime& life : made.schedule.lifetimes) {
    const loop::Buffer& buffer = program.buffer(life.buffer);
    EXPECT_EQ(buffer.has_padded_rows, loop::lies_in_padded_rows(buffer));
  }
  std::vector<BufferId> written;
  for (const auto* list : {&made.schedule.prepare, &made.schedule.steps}) {
    for (const Step& step : *list) {
      for (BufferId id : writes_of(step)) written.push_back(id);
    }
  }
  for (BufferId id : written) {
    const loop::Buffer& buffer = program.buffer(id);
    if (buffer.has_padded_rows) add(padded, ", ", fmt::format("{} {}", buffer.name, buffer.strides.end()[-2].value()));
  }
  EXPECT_EQ(padded, GetParam().padded);
  EXPECT_EQ(steps, GetParam().steps);
}
INSTANTIATE_TEST_SUITE_P(Rows, PaddedRows, testing::ValuesIn(kPaddings), [](const auto& row) { return row.param.name; });

TEST(PaddedRowsInMemory, TakeTheirMemory) {
  const Scheduled made = scheduled(kPaddings[0].graph, cuda_planner(TensorCores::Hopper));
  ASSERT_EQ(made.schedule.lifetimes.size(), 1U);
  const loop::Buffer& buffer = made.schedule.loops->buffer(made.schedule.lifetimes[0].buffer);
  EXPECT_TRUE(loop::elements_in_memory(buffer).is_const(512 * 1024));
}

TEST(PaddedRowsInMemory, AreOfProductsOnTensorCoresAlone) {
  const Scheduled made = scheduled(kPaddings[0].graph, cuda_planner());
  for (const loop::Buffer& buffer : made.schedule.loops->buffers) EXPECT_FALSE(buffer.has_padded_rows);
}

}  // namespace
}  // namespace toroid::schedule
