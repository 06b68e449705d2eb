// Programs of single steps, tried as a tuning worker tries them: those that are right, and those that are not.
#include "driver/choices/choose_ways.h"

#include "driver/end_to_end/compiled_for_test.h"
#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"
#include "tune/measure/program_trial.h"

namespace toroid {
namespace {

// Libraries of one step in a folder. Emulated kernels take the place of a GPU's.
class StepPrograms : public testing::Test {
 protected:
  // `before`: C++ that is done before the step. `rows`: by how many the input's are moved.
  void add(const std::string& name, std::string_view operation, const std::string& before = "", int rows = 0) {
    const std::string moved = rows == 0 ? "" : fmt::format("  u: f32[8, 100] = aten::roll(x, [{}], [0])\n", rows);
    const schedule::Scheduled made = schedule::scheduled(fmt::format(R"(graph(x: f32[8, 100]) {{
{}  y: f32[8, 100] = aten::{}({}, 1)
  return y
}}
)",
                                                                     moved, operation, rows == 0 ? "x" : "u"),
                                                         schedule::cuda_planner(schedule::TensorCores::None));
    CompileModelOptions options;
    options.target = codegen::Target::EmulatedCuda;
    LibrarySources sources = sources_of_step(made.program, *made.schedule.loops, made.schedule.steps.at(0), options);
    std::string& wrapper = sources.units.back();
    const size_t entry = wrapper.find("int32_t toroid_run("), body = wrapper.find("{\n", entry);
    ASSERT_NE(body, std::string::npos);
    wrapper.insert(body + 1, before);
    const std::string library = build_library(sources, TestSession::get().toolchain(), 1, {.optimization = 1});
    write_file_atomically(folder_.path() / (name + ".so"), std::string_view(library));
  }
  std::unique_ptr<tune::Trial> trial_of(const std::string& reference, int64_t parts = 1) {
    const OperandMeta elements = contiguous_operand(DType::F32, {800});
    const tune::ProgramsToTry programs{
        {.family = "gpu.rows.f32", .inputs = {elements}, .outputs = {elements}, .integers = {100, parts}, .numbers = {}}, folder_.path()};
    const std::optional<tune::ProgramsToTry> told = tune::parse_programs(to_string(programs));
    return tune::make_program_trial(*told, {.choice = reference, .seed = 1}, 0);
  }

  TempFolder folder_;
};

TEST_F(StepPrograms, AreComparedAndTimed) {
  add("plain", "softmax.int");
  add("other", "softmax.int", "asm volatile(\"\" ::: \"memory\");");
  add("wrong", "log_softmax.int");
  add("slow", "softmax.int", "for (volatile int i = 0; i < 30000000;) i = i + 1;");
  const std::unique_ptr<tune::Trial> trial = trial_of("plain");
  EXPECT_EQ(trial->check("other").fault, std::nullopt);
  const std::optional<std::string> fault = trial->check("wrong").fault;
  ASSERT_TRUE(fault.has_value());
  EXPECT_TRUE(fault->starts_with("output 0: element 0 is -")) << *fault;
  EXPECT_EQ(trial->check("slow").fault, std::nullopt);
  EXPECT_GT(trial->time_s("slow", 3, false), 2 * trial->time_s("other", 3, false));
}

// The second half of one is the first of the other.
TEST_F(StepPrograms, AreComparedByTheSumsOfTheirParts) {
  add("plain", "softmax.int");
  add("moved", "softmax.int", "", 4);
  add("wrong", "softmax.int", "", 1);
  EXPECT_NE(trial_of("plain")->check("moved").fault, std::nullopt);
  EXPECT_EQ(trial_of("plain", 2)->check("moved").fault, std::nullopt);
  EXPECT_NE(trial_of("plain", 2)->check("wrong").fault, std::nullopt);
}

TEST_F(StepPrograms, TakeTheirProcessWithThemWhereTheyCrash) {
  add("plain", "softmax.int");
  add("crashes", "softmax.int", "__builtin_trap();");
  EXPECT_DEATH(trial_of("plain")->check("crashes"), "");
  EXPECT_EQ(trial_of("plain")->check("plain").fault, std::nullopt);
}

}  // namespace
}  // namespace toroid
