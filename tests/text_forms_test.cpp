// The text forms of loops and schedules: they read back as they were, what is made of them is the same code, and damaged ones are refused
// in words.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <regex>

#include "base/file.h"
#include "codegen/wrapper/generate.h"
#include "frontend/pt2/import.h"
#include "graph/text.h"
#include "lower/text.h"
#include "passes/pipeline.h"
#include "schedule/text.h"

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

std::string code_of(const Program& program, const std::vector<schedule::ScheduledGraph>& graphs) {
  std::string text;
  for (const std::string& unit : codegen::generate(graphs, program).units) text += unit;
  return text;
}

std::string loops_again(std::string_view text) {
  const LoweredProgram read = parse_loops(text);
  return loops_text(read.program, read.graphs);
}
std::string schedule_again(std::string_view text) {
  const schedule::ScheduledProgram read = schedule::parse_schedule(text);
  return schedule_text(read.program, read.graphs);
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
    std::string loops, steps, code;
    try {
      const Made made = lowered(path);
      loops = loops_text(made.program, made.loops);
      const Made planned = scheduled(path);
      steps = schedule_text(planned.program, planned.schedule);
      code = code_of(planned.program, planned.schedule);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported) << error.report();
      continue;
    }
    ++programs;
    EXPECT_EQ(loops_again(loops), loops);
    EXPECT_EQ(schedule_again(steps), steps);
    if (has_freed_names(path)) continue;
    LoweredProgram from_loops = parse_loops(loops);
    EXPECT_EQ(code_of(from_loops.program, schedule::schedule_graphs(std::move(from_loops.graphs))), code);
    const schedule::ScheduledProgram from_schedule = schedule::parse_schedule(steps);
    EXPECT_EQ(code_of(from_schedule.program, from_schedule.graphs), code);
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
})"};

// What follows the graph, cut into words, numbers, signs and spaces.
std::vector<std::string> tokens_of(const std::string& text) {
  static const std::regex kToken("[A-Za-z_][A-Za-z_0-9]*|[0-9]+|\\s+|.");
  std::vector<std::string> result;
  for (std::sregex_iterator i(text.begin(), text.end(), kToken), end; i != end; ++i) result.push_back(i->str());
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

struct Counts {
  int refused = 0, accepted = 0, stopped_later = 0;
};

// Reads `text`, which may be refused; what is accepted reads back as it was, and goes on as far as code.
template <class Read, class Again, class GoOn>
void feed(const std::string& text, Counts& counts, Read read, Again again, GoOn go_on) {
  static const std::regex kPlace("[0-9]+:[0-9]+: [^\\n]*");
  SCOPED_TRACE(text);
  std::string printed;
  try {
    printed = read(text);
    ++counts.accepted;
  } catch (const Error& error) {
    ++counts.refused;
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel) << error.report();
    EXPECT_TRUE(std::regex_match(error.message(), kPlace)) << error.report();
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
    }
  }
  EXPECT_GT(counts.refused, 3000);
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
      EXPECT_TRUE(std::regex_search(error.message(), std::regex("^[0-9]+:[0-9]+: ")));
    }
  }
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
  const auto with = [&](std::string_view axis) {
    return std::regex_replace(std::string(kTwoGraphs), std::regex("AXIS"), std::string(axis));
  };
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
