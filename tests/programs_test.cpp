// Random programs that the compiler got wrong once (tests/programs/, found by fuzz_programs), and a few new ones.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file/file.h"
#include "fuzz/check.h"
#include "fuzz/grow.h"
#include "support/process/subprocess.h"

namespace toroid::fuzz {
namespace {

CompileSession& session() {
  static CompileSession instance(false);
  return instance;
}

void expect_right(const Program& program, const CheckOptions& options) {
  try {
    const CheckResult result = check(session(), program, options);
    EXPECT_FALSE(result.failure) << result.failure->kind << ": " << result.failure->message << "\n" << to_text(program);
    EXPECT_GT(result.compared, result.skipped) << "nothing was compared" << (result.refusal.empty() ? "" : ": ") << result.refusal;
  } catch (const Error& error) {
    ADD_FAILURE() << error.report();
  }
}

std::vector<std::string> names_of_programs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TOROID_SOURCE_DIR "/tests/programs")) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Programs : public testing::TestWithParam<std::string> {};
TEST_P(Programs, ComputeWhatTheReferenceDoes) {
  expect_right(parse_program(read_file(TOROID_SOURCE_DIR "/tests/programs/" + GetParam() + ".txt")), {});
}
INSTANTIATE_TEST_SUITE_P(Found, Programs, testing::ValuesIn(names_of_programs()), [](const auto& row) { return row.param; });

TEST(RandomPrograms, AreRight) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    expect_right(Grower(seed).grow(), {.plain = false, .optimization = 1});
  }
}

TEST(RandomPrograms, AreTheSameForTheSameSeed) {
  EXPECT_EQ(to_text(Grower(5).grow()), to_text(Grower(5).grow()));
  EXPECT_NE(to_text(Grower(5).grow()), to_text(Grower(6).grow()));
}

// What item gives is a number of the host's.
TEST(RandomPrograms, DoNotWriteToNumbers) {
  int numbers = 0;
  for (const auto& [seed, number] : {std::pair<uint64_t, uint64_t>{101, 323}, {501, 196}}) {  // programs of fuzz_programs that did
    std::vector<std::string> bound;
    for (const Node& node : Grower(Random(seed * 0x10001 + number).bits()).grow().nodes) {
      if (is_in_place(node.call)) {
        EXPECT_EQ(std::count(bound.begin(), bound.end(), values_in(node.call).at(0)), 0) << node.call;
      }
      if (!node.bound.empty()) bound.push_back(node.results[0]);
    }
    numbers += static_cast<int>(bound.size());
  }
  EXPECT_GT(numbers, 0);
}

TEST(RandomPrograms, AreReadBackAsTheyWereWritten) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const std::string text = to_text(Grower(seed).grow());
    EXPECT_EQ(to_text(parse_program(text)), text);
  }
}

// A float has no bits to shift, which the reference refuses as PyTorch does.
TEST(Replay, OfAProgramWithoutAComparisonFails) {
  const TempFolder folder;
  const auto path = folder.path() / "program.txt";
  write_file_atomically(path, std::string_view("# values v0: grid 1\n# run\ngraph(v0: f32[3]) {\n"
                                               "  v1: f32[3] = aten::index_select(v0, 0, v0)\n  return v1\n}\n"));
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fuzz_programs";
  const ProcessResult result = run_process({.argv = {tool.string(), "--replay", path.string()}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("nothing was compared"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace toroid::fuzz
