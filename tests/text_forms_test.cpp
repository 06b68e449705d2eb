// The text forms of loops, schedules and programs: they read back as they were, what is made of them is the same code, and damaged ones are
// refused in words.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file/file.h"
#include "codegen/wrapper/generate.h"
#include "frontend/pt2/import.h"
#include "graph/text/text.h"
#include "lower/text.h"
#include "passes/pipeline.h"
#include "program/text.h"
#include "schedule/planner.h"
#include "schedule/text/text.h"
#include "support/pattern_for_test.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

Program core_program(const fs::path& path) {
  Program program = path.extension() == ".pt2" ? import_pt2(path, {}) : parse_text(read_file(path));
  run_passes(program, {.check = false});
  return program;
}

struct Made {
  Program program;
  std::vector<LoweredGraph> loops;
  std::vector<schedule::ScheduledGraph> schedule;
};
Made lowered(const fs::path& path) {
  Made made{core_program(path), {}, {}};
  made.loops = lower(made.program);
  return made;
}
Made scheduled(const fs::path& path) {
  Made made = lowered(path);
  made.schedule = schedule::schedule_graphs(std::move(made.loops));
  return made;
}

std::string code_of(const Program& program, const std::vector<schedule::ScheduledGraph>& graphs, program::Module module) {
  std::string text;
  for (const std::string& unit : codegen::generate(std::move(module), graphs, program).units) text += unit;
  return text;
}
std::string code_of(const Program& program, const std::vector<schedule::ScheduledGraph>& graphs) {
  return code_of(program, graphs, program::make_module(graphs, program));
}
std::string code_of_module(std::string_view text) {
  program::ParsedModule read = program::parse_module(text);
  return code_of(read.program, read.graphs, std::move(read.module));
}

std::string loops_again(std::string_view text) {
  const LoweredProgram read = parse_loops(text);
  return loops_text(read.program, read.graphs);
}
std::string schedule_again(std::string_view text) {
  const schedule::ScheduledProgram read = schedule::parse_schedule(text);
  return schedule_text(read.program, read.graphs);
}
std::string module_again(std::string_view text) {
  const program::ParsedModule read = program::parse_module(text);
  return module_text(read.program, read.graphs, read.module);
}

// ---- round trips ------------------------------------------------------------------------------------------------------------------

// Every so many recorded operators, the recorded control flow and models, and the programs of tests/programs.
std::vector<fs::path> sample() {
  std::vector<fs::path> result;
  const auto add = [&](const fs::path& folder, size_t stride) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".pt2" || entry.path().extension() == ".txt") found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    for (size_t i = 0; i < found.size(); i += stride) result.push_back(found[i]);
  };
  add(fs::path(TOROID_CONFORMANCE_DIR) / "opinfo", 16);
  add(fs::path(TOROID_CONFORMANCE_DIR) / "control_flow", 1);
  add(fs::path(TOROID_CONFORMANCE_DIR) / "extensions", 4);
  add(fs::path(TOROID_CONFORMANCE_DIR) / "models", 3);
  add(fs::path(TOROID_SOURCE_DIR) / "tests/programs", 1);
  return result;
}

// In these a buffer of the model is called as an index that lowering made and nothing uses, v1: the name is free in what is read.
bool has_freed_names(const fs::path& path) {
  return path.stem() == "weights_of_resizing_from_a_symbolic_size" || path.stem() == "counts_of_nothing";
}

TEST(TextForms, ReadBackAsTheyWereAndGiveTheSameCode) {
  int programs = 0;
  for (const fs::path& path : sample()) {
    SCOPED_TRACE(path.string());
    std::string loops, steps, module, code;
    try {
      const Made made = lowered(path);
      loops = loops_text(made.program, made.loops);
      const Made planned = scheduled(path);
      steps = schedule_text(planned.program, planned.schedule);
      program::Module made_module = program::make_module(planned.schedule, planned.program);
      module = module_text(planned.program, planned.schedule, made_module);
      code = code_of(planned.program, planned.schedule, std::move(made_module));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported) << error.report();
      continue;
    }
    ++programs;
    EXPECT_EQ(loops_again(loops), loops);
    EXPECT_EQ(schedule_again(steps), steps);
    EXPECT_EQ(module_again(module), module);
    if (has_freed_names(path)) continue;
    LoweredProgram from_loops = parse_loops(loops);
    EXPECT_EQ(code_of(from_loops.program, schedule::schedule_graphs(std::move(from_loops.graphs))), code);
    const schedule::ScheduledProgram from_schedule = schedule::parse_schedule(steps);
    EXPECT_EQ(code_of(from_schedule.program, from_schedule.graphs), code);
    EXPECT_EQ(code_of_module(module), code);
  }
  EXPECT_GE(programs, 150);
}

// ---- damaged texts ----------------------------------------------------------------------------------------------------------------

const char* const kPrograms[] = {
    R"(
graph(x: f32[8, 64], w: f32[128, 64], b: f32[128]) {
  y: f32[8, 128] = aten::linear(x, w, b)
  z: f32[8, 128] = aten::gelu(y)
  s: f32[8, 128] = aten::softmax.int(z, 1)
  return s
})",
    R"(
sym s0 in [2, 64]
graph(x: f32[s0, 64], rows: i64[5], base: f32[s0, 64]) {
  g: f32[5, 64] = aten::index_select(x, 0, rows)
  a: f32[s0, 64] = aten::index_add(base, 0, rows, g)
  c: f32[s0, 64] = aten::cumsum(a, 1)
  n: f32[s0, 64] = aten::layer_norm(c, [64])
  t: f32[64, s0] = aten::permute(n, [1, 0])
  return t, g
})",
    R"(
sym u0 in [0, 8] from data
graph(x: f32[8]) {
  i: i64[u0, 1] = aten::nonzero(x)
  d: i64[u0, 1] = aten::add.Tensor(i, i)
  return d
})",
    R"(
subgraph 0(x: f32[4]) {
  y: f32[4] = aten::sin(x)
  return y
}
subgraph 1(x: f32[4]) {
  y: f32[4] = aten::cos(x)
  return y
}
graph(p: bool[], x: f32[4], big: f32[1000, 1000]) {
  y: f32[4] = higher_order::cond(p, @0, @1, [x])
  s: f32[] = aten::sum(big)
  return y, s
})",
    // A chain of convolutions, tiles, sums in blocks and in turns, kernels that start together.
    R"(
constant 0 "w": f32[96, 16, 1, 1] = external
constant 1 "v": f32[96, 1, 3, 3] = external
graph(x: f32[1, 16, 32, 32], a: f32[64, 4096], b: f32[4096, 64], p: f32[150, 150], q: f32[200, 100], r: f32[77]) {
  w: f32[96, 16, 1, 1] = constant(0)
  v: f32[96, 1, 3, 3] = constant(1)
  c: f32[1, 96, 32, 32] = aten::conv2d(x, w)
  d: f32[1, 96, 32, 32] = aten::hardtanh(c, 0.0, 6.0)
  e: f32[1, 96, 32, 32] = aten::conv2d(d, v, padding=[1, 1], groups=96)
  t: f32[4096, 64] = aten::permute(a, [1, 0])
  s: f32[4096, 64] = aten::add.Tensor(t, b)
  m: f32[64] = aten::sum.dim_IntList(b, [0])
  n: f32[64] = aten::sum.dim_IntList(a, [1])
  f: f32[150, 150] = aten::exp(p)
  g: f32[200, 100] = aten::sin(q)
  h: f32[77] = aten::cos(r)
  return e, s, m, n, f, g, h
})",
    // What is computed once, over constants.
    R"(
constant 0 "w": f32[100] = external
constant 1 "v": f32[200] = external
subgraph 0(x: f32[100]) {
  y: f32[100] = aten::sin(x)
  return y
}
subgraph 1(x: f32[100]) {
  y: f32[100] = aten::cos(x)
  return y
}
graph(p: bool[], x: f32[100], y: f32[200]) {
  w: f32[100] = constant(0)
  v: f32[200] = constant(1)
  a: f32[100] = aten::exp(w)
  b: f32[200] = aten::exp(v)
  c: f32[100] = aten::mul.Tensor(x, a)
  d: f32[200] = aten::mul.Tensor(y, b)
  e: f32[100] = higher_order::cond(p, @0, @1, [c])
  return e, d
})"};

// What follows the graph, cut into words, numbers, signs and spaces.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> result;
  for (std::vector<std::string>& token : matches_in(text, "[A-Za-z_][A-Za-z_0-9]*|[0-9]+|\\s+|.")) result.push_back(std::move(token[0]));
  return result;
}

std::string damaged(const std::string& text, size_t begin, std::mt19937& random) {
  std::vector<std::string> tokens = tokens_of(text.substr(begin));
  const auto any = [&] { return random() % tokens.size(); };
  const auto any_word = [&] {
    size_t at = any();
    while (std::isspace(static_cast<unsigned char>(tokens[at][0]))) at = any();
    return at;
  };
  constexpr std::string_view kNumbers[] = {"0", "1", "2", "-1", "63", "9223372036854775807", "99999999999999999999", "1e400", "nan"};
  const size_t at = any_word();
  switch (random() % 6) {
    case 0: tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: tokens[at] = tokens[any_word()]; break;
    case 2: std::swap(tokens[at], tokens[any_word()]); break;
    case 3: tokens[at] = kNumbers[random() % std::size(kNumbers)]; break;
    case 4: tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens[any_word()]); break;
    case 5: {  // a line twice, or not at all
      std::vector<size_t> ends;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].find('\n') != std::string::npos) ends.push_back(i);
      }
      const size_t line = random() % (ends.size() - 1);
      const std::vector<std::string> copy(tokens.begin() + static_cast<std::ptrdiff_t>(ends[line]),
                                          tokens.begin() + static_cast<std::ptrdiff_t>(ends[line + 1]));
      if (random() % 2 == 0) {
        tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(ends[random() % ends.size()]), copy.begin(), copy.end());
      } else {
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(ends[line]),
                     tokens.begin() + static_cast<std::ptrdiff_t>(ends[line + 1]));
      }
      break;
    }
  }
  std::string result = text.substr(0, begin);
  for (const std::string& token : tokens) result += token;
  return result;
}

std::string module_of(const char* text, const program::ModuleOptions& options = {}) {
  Program program = parse_text(text);
  run_passes(program, {.check = false});
  const std::vector<schedule::ScheduledGraph> graphs = schedule::schedule_graphs(lower(program));
  return module_text(program, graphs, program::make_module(graphs, program, options));
}

TEST(TextForms, TimedAndCheckedProgramsReadBackToo) {
  for (const char* text : kPrograms) {
    SCOPED_TRACE(text);
    for (const program::ModuleOptions& options : {program::ModuleOptions{.profile = true}, program::ModuleOptions{.assertions = true}}) {
      Program program = parse_text(text);
      run_passes(program, {.check = false});
      const std::vector<schedule::ScheduledGraph> graphs = schedule::schedule_graphs(lower(program));
      program::Module module = program::make_module(graphs, program, options);
      const std::string printed = module_text(program, graphs, module);
      EXPECT_NE(printed.find(options.profile ? "time step 0" : "assertions"), std::string::npos);
      EXPECT_EQ(module_again(printed), printed);
      EXPECT_EQ(code_of_module(printed), code_of(program, graphs, std::move(module)));
    }
  }
}

std::string gpu_module_of(const Program& program) {
  const std::vector<schedule::ScheduledGraph> graphs =
      schedule::schedule_graphs(lower(program, {.convolutions_as_loops = true, .convolutions_in_tiles = true}), true, nullptr,
                                schedule::Forms::Measured, schedule::cuda_planner(schedule::TensorCores::Hopper));
  return module_text(program, graphs, program::make_module(graphs, program, {.device = program::Device::Cuda}));
}
std::string gpu_module_of(const char* text) {
  Program program = parse_text(text);
  run_passes(program, {.check = false});
  return gpu_module_of(program);
}
const char* const kConvolutions = R"(
graph(x: bf16[2, 24, 16, 16], w: bf16[32, 24, 3, 3], v: bf16[32, 32, 3, 3]) {
  y: bf16[2, 32, 16, 16] = aten::conv2d(x, w, none, [1, 1], [1, 1])
  r: bf16[2, 32, 16, 16] = aten::relu(y)
  z: bf16[2, 32, 16, 16] = aten::conv2d(r, v, none, [1, 1], [1, 1])
  return z
})";

const char* const kTogether = R"(
graph(x: f32[100, 64], rows: i64[20], y: f32[20, 64], p: f32[100, 64]) {
  z: f32[100, 64] = aten::index_copy(x, 0, rows, y)
  a: f32[100, 64] = aten::exp(p)
  return z, a
})";

// Threads of kernels, tiles of products, and buffers that are on a GPU.
TEST(TextForms, ProgramsForAGpuReadBack) {
  std::string all;
  const auto read_back = [&](const std::string& printed) {
    EXPECT_EQ(module_again(printed), printed);
    all += printed;
  };
  const std::vector<fs::path> paths = sample();
  for (size_t i = 0; i < paths.size(); i += 4) {
    SCOPED_TRACE(paths[i].string());
    if (!has_freed_names(paths[i])) read_back(gpu_module_of(core_program(paths[i])));
  }
  read_back(gpu_module_of(R"(
graph(x: bf16[512, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[512, 768] = aten::linear(x, w, b)
  z: bf16[512, 768] = aten::gelu(y)
  return z
})"));
  read_back(gpu_module_of(R"(
graph(x: bf16[2048, 2048], y: bf16[2048, 2048]) {
  t: bf16[2048, 2048] = aten::t(x)
  z: bf16[2048, 2048] = aten::add.Tensor(t, y)
  return z
})"));
  read_back(gpu_module_of(kConvolutions));
  read_back(gpu_module_of(kTogether));
  for (const char* each : {"    scatter copy ", "      together {\n        launch 0: tasks ", "threads 1 of 256 vector 1 items 0",
                           " columns vector ", ": cuda input 0", " cluster 1 pingpong", "threads 1 of 256 vector 8 items 0\n    tile ",
                           "tiles 128 by 64 stages 3 cluster 1\n    epilogue "}) {
    EXPECT_NE(all.find(each), std::string::npos) << each;
  }
}

TEST(TextForms, KernelsThatWaitForEachOtherAreNotStartedTogether) {
  std::string changed = gpu_module_of(kTogether);
  const std::string reads = "reads p\n", loads = "exp(p[";
  for (const auto& [from, to] : {std::pair(reads, std::string("reads z\n")), std::pair(loads, std::string("exp(z["))}) {
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in\n" << changed;
    changed.replace(at, from.size(), to);
  }
  try {
    program::parse_module(changed);
    ADD_FAILURE() << "was taken:\n" << changed;
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("a kernel reads 'z', which one that is started with it writes"), std::string::npos) << error.report();
  }
}

TEST(TextForms, AGpusConvolutionWhoseEpilogueTakesNoProductIsRefused) {
  std::string changed = gpu_module_of(kConvolutions);
  const size_t at = changed.find("      product e");
  ASSERT_NE(at, std::string::npos) << changed;
  changed.erase(at, changed.find('\n', at) + 1 - at);
  try {
    program::parse_module(changed);
    ADD_FAILURE() << "was taken:\n" << changed;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
    EXPECT_NE(error.message().find("only an epilogue takes products, one or two as there are"), std::string::npos) << error.report();
  }
}

// A choice of implementation, as tuning writes it into the schedule.
TEST(TextForms, ChoicesReadBack) {
  Program program = parse_text(kPrograms[0]);
  run_passes(program, {.check = false});
  std::vector<schedule::ScheduledGraph> graphs = schedule::schedule_graphs(lower(program));
  for (schedule::Step& step : graphs[0].schedule.steps) {
    if (auto* call = std::get_if<schedule::CallStep>(&step)) call->choice = "few-rows";
  }
  program::Module module = program::make_module(graphs, program);
  const std::string printed = module_text(program, graphs, module);
  EXPECT_NE(printed.find("call matmul choice \"few-rows\" at 0"), std::string::npos) << printed;
  EXPECT_EQ(module_again(printed), printed);
  const std::string code = code_of(program, graphs, std::move(module));
  EXPECT_NE(code.find("\"matmul#few-rows\""), std::string::npos);
  EXPECT_EQ(code_of_module(printed), code);
}

struct Counts {
  int refused = 0, accepted = 0, stopped_later = 0;
};

// Reads `text`, which may be refused; what is accepted reads back as it was, and goes on as far as code.
template <class Read, class Again, class GoOn>
void feed(const std::string& text, Counts& counts, Read read, Again again, GoOn go_on) {
  SCOPED_TRACE(text);
  std::string printed;
  try {
    printed = read(text);
    ++counts.accepted;
  } catch (const Error& error) {
    ++counts.refused;
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel) << error.report();
    EXPECT_TRUE(matches(error.message(), "[0-9]+:[0-9]+: [^\\n]*")) << error.report();
    return;
  }
  EXPECT_NO_THROW(EXPECT_EQ(again(printed), printed));
  try {
    go_on(text);
  } catch (const Error& error) {
    ++counts.stopped_later;
    EXPECT_NE(error.kind(), ErrorKind::Internal) << error.report();
  }
}

TEST(TextForms, DamagedOnesAreRefusedInWords) {
  constexpr int kEach = 400;
  std::mt19937 random(7);
  Counts counts;
  for (const char* text : kPrograms) {
    const auto core = [&] {
      Program program = parse_text(text);
      run_passes(program, {.check = false});
      return program;
    };
    Program program = core();
    const std::string loops = loops_text(program, lower(program));
    Program again = core();
    const std::string steps = schedule_text(again, schedule::schedule_graphs(lower(again)));
    const std::string module = module_of(text);
    const size_t begin = to_text(program).size();
    for (int i = 0; i < kEach; ++i) {
      feed(damaged(loops, begin, random), counts, loops_again, loops_again, [](const std::string& each) {
        LoweredProgram read = parse_loops(each);
        code_of(read.program, schedule::schedule_graphs(std::move(read.graphs)));
      });
      feed(damaged(steps, begin, random), counts, schedule_again, schedule_again, [](const std::string& each) {
        const schedule::ScheduledProgram read = schedule::parse_schedule(each);
        code_of(read.program, read.graphs);
      });
      feed(damaged(module, steps.size(), random), counts, module_again, module_again, code_of_module);
    }
  }
  EXPECT_GT(counts.refused, 4500);
  EXPECT_GT(counts.accepted, 100);
}

struct Refusal {
  std::string_view from, to, message;
};
// One change of the first program's loops each, and what is said of it.
TEST(TextForms, SayWhatIsWrongAndWhere) {
  Program program = parse_text(kPrograms[0]);
  run_passes(program);
  const std::string text = loops_text(program, lower(program));
  const Refusal kRefusals[] = {
      {"b[i15]", "b[i14, i15]", "2 indices for 1 of b"},
      {"b[i15]", "b[i30]", "axis i30 is of another loop"},
      {"b[i15]", "c[i15]", "no buffer is called 'c'"},
      {"], 0.5)", "], 3)", "mul: dtypes f32 and i64 differ"},
      {"max over", "finest max over", "only sums of floats are added with care"},
      {"buffer b: f32[128]", "buffer b: f32[127]", "buffer 'b' is f32[127], and its input is f32[128]"},
      {"map z[", "map y[", "'y' is written twice"},
      {"strides [1, 64]", "strides [1]", "expected a stride for each dim"},
  };
  for (const Refusal& each : kRefusals) {
    std::string changed = text;
    changed.replace(text.find(each.from), each.from.size(), each.to);
    try {
      parse_loops(changed);
      ADD_FAILURE() << each.to << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(each.message), std::string::npos) << error.report();
      EXPECT_TRUE(has_match(error.message(), "^[0-9]+:[0-9]+: "));
    }
  }
}

const char* const kLinearAndSoftmax = R"(
sym s0 in [2, 512]
graph(x: f32[s0, 128], w: f32[64, 128], b: f32[64]) {
  y: f32[s0, 64] = aten::linear(x, w, b)
  z: f32[s0, 64] = aten::softmax.int(y, 1)
  v: f32[s0, 64] = aten::cumsum(z, 1)
  return v
})";
constexpr std::string_view kPostOps = " post-operations bias b[0, 0] low -inf high inf to y[0, 64]";  // of the linear layer
const char* const kRowsThatAreNotZero = kPrograms[2];
const char* const kBranch = kPrograms[3];
const char* const kComputedOnce = kPrograms[5];

struct ModuleRefusal {
  const char* program;
  std::string_view from, to, message;
};
// One change of a program's last part each, and what is said of it.
const ModuleRefusal kModuleRefusals[] = {
    {kLinearAndSoftmax, "symbols s0", "symbols s0, s0", "the sizes of the program are s0"},
    {kLinearAndSoftmax, "kernel 1: step 2", "kernel 1: step 3", "the schedule has 3 steps that run in each call"},
    {kLinearAndSoftmax, "kernel 1: step 2", "kernel 1: step 2 part 1", "step 2, 'copy', has 1 kernels"},
    {kLinearAndSoftmax, "output 0: [s0, 64]", "output 0: [s0, 65]", "the sizes of output 0 are s0, 64"},
    {kLinearAndSoftmax, "main(s0)", "main()", "the sizes that the inputs tell are s0"},
    {kLinearAndSoftmax, "place x: cpu", "place x: gpu", "there is no device 'gpu'"},
    {kLinearAndSoftmax, "x: cpu input 0", "x: cpu input 1", "'x' is input 0, and cannot be there"},
    {kLinearAndSoftmax, "cpu arena 2", "cpu arena 3", "the arena has 3 temporaries"},
    {kLinearAndSoftmax, "y, steps 0 to 1", "y, steps 0 to 0", "'y' is used in step 1, and lives from step 0 to 0"},
    {kLinearAndSoftmax, "y, steps 0 to 1", "y, steps 0 to 3", "'y' lives from step 0 to 3 of 3"},
    {kLinearAndSoftmax, "step 2 copy {", "step 5 copy {", "step 5 stands in place 2"},
    {kLinearAndSoftmax, "launch 0: tasks s0,", "launch 0: tasks 64,", "kernel 0 has s0 tasks, not 64"},
    {kLinearAndSoftmax, "least 16384", "least 0", "a least work of 0"},
    {kLinearAndSoftmax, "launch 1:", "launch 0:", "kernel 0 is launched twice"},
    {kLinearAndSoftmax, "launch 0:", "launch 1:", "is read before it is written"},
    {kLinearAndSoftmax, "at 0 of free sizes", "at 0", "the sizes of matmul are free"},
    {kLinearAndSoftmax, "at 0 of", "at 1 of", "call site 1 stands in place 0"},
    {kLinearAndSoftmax, "call matmul at", "call attention at", "the schedule calls matmul here"},
    {kLinearAndSoftmax, "call matmul at", "call matmul choice \"\\\\\" at", "the name of a choice is letters, digits and dashes"},
    {kLinearAndSoftmax, "w[128, 64]", "w[128, 63]", "the schedule gives matmul other operands"},
    {kLinearAndSoftmax, "-> y_t_1", "-> z_t_4", "no call of the schedule gives 'z_t_4'"},
    {kLinearAndSoftmax, kPostOps, "", "the schedule has an epilogue here"},
    {kLinearAndSoftmax, kPostOps, " epilogue 1", "kernel 1 is not the epilogue of this call"},
    {kLinearAndSoftmax, "low -inf", "low 0", "the schedule has other post-operations here"},
    {kLinearAndSoftmax, "bias b[0, 0]", "bias b[0]", "expected an offset and a step"},
    {kLinearAndSoftmax, "high inf", "high more", "expected a number, not 'more'"},
    {kPrograms[0], " epilogue 0", kPostOps, "this epilogue does more than post-operations can"},
    {kRowsThatAreNotZero, "[u0, 1] late", "[u0, 1]", "the inputs do not tell the sizes of output 0"},
    {kRowsThatAreNotZero, "allocate i_t_3[u0]", "allocate i_t_3[8]", "'i_t_3' has u0 elements, not 8"},
    {kRowsThatAreNotZero, "release i_t_3", "", "'i_t_3' is never released"},
    {kRowsThatAreNotZero, "allocate i_t_3[u0]", "", "'i_t_3' has no memory here"},
    {kRowsThatAreNotZero, " gives u0", "", "the sizes that 'u0' leaves open are u0"},
    {kRowsThatAreNotZero, "read i_t_2 as binding 0 of [u0] gives u0", "", "the size 'u0' is not known here"},
    {kBranch, "then subgraph 0", "then subgraph 1", "the schedule runs other subgraphs, or runs them otherwise"},
    {kBranch, "function subgraph 1", "function subgraph 0", "subgraph 0 has two functions"},
    {kComputedOnce, "cpu prepared 448", "cpu prepared 384", "are prepared in the same place"},
    {kComputedOnce, "cpu prepared 448", "cpu prepared 512", "ends beyond the 1280 bytes that are prepared"},
    {kComputedOnce, "cpu prepared 448", "cpu prepared 450", "is prepared at 450, which is no multiple of 64"},
    {kComputedOnce, "constants 0, 1", "constants 0, 2", "there is no constant 2"},
};
TEST(TextForms, SayWhatIsWrongWithAProgramAndWhere) {
  for (const ModuleRefusal& each : kModuleRefusals) {
    SCOPED_TRACE(each.to);
    std::string changed = module_of(each.program);
    const size_t at = changed.find(each.from, changed.find("\nprogram {"));
    ASSERT_NE(at, std::string::npos) << each.from << " is not in\n" << changed;
    changed.replace(at, each.from.size(), each.to);
    try {
      program::parse_module(changed);
      ADD_FAILURE() << "was taken:\n" << changed;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
      EXPECT_NE(error.message().find(each.message), std::string::npos) << error.report() << "\n" << changed;
      EXPECT_TRUE(has_match(error.message(), "^[0-9]+:[0-9]+: "));
    }
  }
}

// What is the program's own to decide: these changes are taken, and printed as they are.
TEST(TextForms, WhatAProgramDecidesMayBeChanged) {
  using Change = std::pair<std::string_view, std::string_view>;
  const std::pair<const char*, std::vector<Change>> kChanges[] = {
      {kLinearAndSoftmax, {{"least 16384", "least 1"}}},
      {kLinearAndSoftmax, {{"  kernel 1: step 2\n", "  kernel 1: step 2\n  kernel 2: step 0\n"}, {kPostOps, " epilogue 2"}}},
      {kLinearAndSoftmax, {{"call matmul at", "call matmul choice \"packed\" at"}}},
      // A temporary that is asked for where it is needed.
      {kLinearAndSoftmax,
       {{"  temporary 2: z_t_5, steps 1 to 2\n", ""},
        {"z_t_5: cpu arena 2", "z_t_5: cpu allocated"},
        {"      launch 0:", "      allocate z_t_5[s0]\n      launch 0:"},
        {"      launch 1: tasks s0, work 64, least 16384\n", "      launch 1: tasks s0, work 64, least 16384\n      release z_t_5\n"}}},
      // Steps in another order, and kernels one after the other.
      {kPrograms[4],
       {{"launch 1: tasks 1, work 262144", "launch 2: tasks 64, work 4096"},
        {"      launch 2: tasks 64, work 4096, least 16384\n    }\n    step 4",
         "      launch 1: tasks 1, work 262144, least 16384\n    }\n    step 4"}}},
      {kPrograms[4],
       {{"      together {\n        launch 5: tasks 44, work 512, least 16384\n        launch 6: tasks 40, work 512, least 16384\n        "
         "launch 7: tasks 1, work 77, least 16384\n      }\n",
         "      launch 5: tasks 44, work 512, least 16384\n      launch 6: tasks 40, work 512, least 16384\n      "
         "launch 7: tasks 1, work 77, least 16384\n"}}},
  };
  for (const auto& [program, changes] : kChanges) {
    const std::string text = module_of(program);
    std::string changed = text;
    for (const auto& [from, to] : changes) {
      const size_t at = changed.find(from, changed.find("\nprogram {"));
      ASSERT_NE(at, std::string::npos) << from << " is not in\n" << changed;
      changed.replace(at, from.size(), to);
    }
    SCOPED_TRACE(changed);
    EXPECT_NO_THROW({
      EXPECT_EQ(module_again(changed), changed);
      EXPECT_NE(code_of_module(changed), code_of_module(text));
    });
  }
}

TEST(TextForms, StepsOfAProgramAreThoseOfItsSchedule) {
  const std::string text = module_of(kLinearAndSoftmax);
  const auto refusal = [](const std::string& changed) {
    try {
      program::parse_module(changed);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  const std::string last = "    step 2 copy {\n      launch 1: tasks s0, work 64, least 16384\n    }\n";
  ASSERT_NE(text.find(last), std::string::npos) << text;
  std::string changed = text;
  changed.replace(text.find(last), last.size(), "");
  EXPECT_NE(refusal(changed).find("nothing does step 2 of the schedule, 'copy'"), std::string::npos) << refusal(changed);
}

TEST(TextForms, AnAxisIsOfOneGraph) {
  constexpr std::string_view kTwoGraphs = R"(subgraph 0(x: f32[4]) {
  y: f32[4] = sin(x)
  return y
}
graph(p: bool[], x: f32[4]) {
  y: f32[4] = neg(x)
  return y
}
loops {
  buffer x: f32[4] = input 1
  buffer y: f32[4] = output 0
  axes i0 in 4
  neg: map y[i0] = neg(x[i0])
}
loops of subgraph 0 {
  buffer x: f32[4] = input 0
  buffer y: f32[4] = output 0
  axes i1 in 4
  sin: map y[AXIS] = sin(x[AXIS])
}
)";
  const auto with = [&](std::string_view axis) { return replaced_matches(std::string(kTwoGraphs), "AXIS", std::string(axis)); };
  EXPECT_EQ(loops_again(with("i1")), with("i1"));
  try {
    parse_loops(with("i0"));
    ADD_FAILURE() << "an axis of another graph was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "19:14: symbol 'i0' is not declared");
  }
}

}  // namespace
}  // namespace toroid
