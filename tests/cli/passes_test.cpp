// Graph passes from the command line: their times and dumps, and leaving one out.
#include "cli/cli_for_test.h"

#include <fmt/format.h>

#include "base/machine/machine.h"

namespace toroid {
namespace {

std::vector<std::string> compile_digits(std::vector<std::string> more) {
  std::vector<std::string> command = {"compile", (kDigits / "digits.pt2").string(), "-o", "out.so", "--cxxflag=-O0"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST_F(Cli, CompileTimesEachPassAndDumpsItsChanges) {
  const Outcome outcome = toroid(compile_digits({"--dump-ir", "ir"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* phase : {"import", "decompose", "fold-constants", "dead-code", "lower", "schedule", "compile"}) {
    EXPECT_NE(outcome.errors.find(fmt::format("\n  {:<14} ", phase)), std::string::npos) << phase << "\n" << outcome.errors;
  }
  EXPECT_TRUE(fs::exists(path("ir/01-import.txt")));
  EXPECT_TRUE(fs::exists(path("ir/02-decompose.txt")));
  // Each dump of a graph is an input of opt: from there on nothing changes.
  const Outcome again = toroid({"opt", path("ir/02-decompose.txt").string(), "--passes=all"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  // And so is each of loops, schedules and programs, from which the same code follows.
  std::map<std::string, std::string> dumps;
  for (const auto& entry : fs::directory_iterator(path("ir"))) dumps[entry.path().stem().string().substr(3)] = entry.path().string();
  const std::string code = toroid({"opt", (kDigits / "digits.pt2").string(), "--passes=all,code"}).output;
  for (const char* level : {"loops", "schedule", "program"}) {
    EXPECT_EQ(toroid({"opt", dumps.at(level)}).output, read_file(dumps.at(level))) << level;
    EXPECT_EQ(toroid({"opt", dumps.at(level), "--passes=code"}).output, code) << level;
  }
  expect_refusal({"opt", dumps.at("schedule"), "--passes=dead-code"},
                 "error: 'dead-code' is a pass over graphs, and FOLDER/ir/07-schedule.txt holds the schedule\n"
                 "  help: give it the text of a graph, or leave the pass out\n");
  expect_refusal({"opt", dumps.at("schedule"), "--passes=loops"},
                 "error: 'loops' is made of loops, and FOLDER/ir/07-schedule.txt holds the schedule\n"
                 "  help: give it the text of an earlier level\n");
  expect_refusal({"opt", dumps.at("program"), "--passes=schedule"},
                 "error: 'schedule' is made of schedule, and FOLDER/ir/08-program.txt holds the program\n"
                 "  help: give it the text of an earlier level\n");
}

TEST_F(Cli, AFileInTheWayOfAFolderIsToldOf) {
  write_file_atomically(path("taken"), "");
  for (const char* flag : {"--dump-ir", "--save-source"}) {
    expect_refusal(compile_digits({flag, path("taken").string()}),
                   "error: FOLDER/taken cannot be used: Not a directory\n  help: check the path\n");
  }
}

// As compile does for such a machine.
TEST_F(Cli, OptMultipliesBytesWhereTheMachineIsQuickerWithThem) {
  write_file_atomically(path("bytes.txt"), R"(graph(x: u8[1, 8, 5, 5], q: i8[8, 8, 1, 1]) {
  f: f32[1, 8, 5, 5] = quantized_decomposed::dequantize_per_tensor(x, 0.1, 3, 0, 255, dtype.u8)
  w: f32[8, 8, 1, 1] = quantized_decomposed::dequantize_per_tensor(q, 0.1, 0, -128, 127, dtype.i8)
  y: f32[1, 8, 5, 5] = aten::conv2d(f, w)
  return y
}
)");
  for (const std::string& name : {machine().isa.name(), std::string("baseline")}) {
    const std::string text = toroid({"opt", path("bytes.txt").string(), "--passes=all"}, {{"TOROID_MACHINE", name}}).output;
    const Isa isa = parse_isa(name);
    const bool is_quicker = isa.vnni || isa.amx;
    EXPECT_EQ(text.find("matmul(") != std::string::npos, is_quicker) << name << "\n" << text;
    EXPECT_EQ(text.find("convolution(") != std::string::npos, !is_quicker) << name << "\n" << text;
  }
}

// What a call does may be changed in its text, where it stays what the schedule says.
TEST_F(Cli, OptGoesOnFromAProgramThatWasChanged) {
  write_file_atomically(path("sine.txt"), "graph(x: f32[100000]) {\n  y: f32[100000] = aten::sin(x)\n  return y\n}\n");
  const std::string text = toroid({"opt", path("sine.txt").string(), "--passes=all,program"}).output;
  const std::string line = "    launch 0: tasks 196, work 512, least 16384\n";
  const auto change = [&](std::string_view to) {
    std::string changed = text;
    changed.replace(text.find(line), line.size(), to);
    write_file_atomically(path("changed.txt"), changed);
    return changed;
  };
  ASSERT_NE(text.find(line), std::string::npos) << text;
  const std::string changed = change("    launch 0: tasks 196, work 512, least 1\n");
  EXPECT_EQ(toroid({"opt", path("changed.txt").string()}).output, changed);
  EXPECT_EQ(toroid({"opt", path("changed.txt").string(), "--passes=code"}).exit_code, 0);
  change("    launch 0: tasks 197, work 512, least 16384\n");
  const Outcome refused = toroid({"opt", path("changed.txt").string(), "--passes=code"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("kernel 0 has 196 tasks, not 197"), std::string::npos) << refused.errors;
}

TEST_F(CliCache, AProgramWithoutAPassIsAnotherOneInTheCache) {
  EXPECT_NE(toroid(compile_digits({})).errors.find("cache: miss"), std::string::npos);
  EXPECT_NE(toroid(compile_digits({})).errors.find("cache: hit"), std::string::npos);
  const Outcome without = toroid(compile_digits({"--without-pass", "fold-constants"}));
  EXPECT_EQ(without.errors.find("cache: hit: model"), std::string::npos) << without.errors;
  EXPECT_EQ(without.errors.find("  fold-constants "), std::string::npos) << without.errors;
}

TEST_F(Cli, RefusesToLeaveOutWhatIsNoPassOrIsNeeded) {
  expect_refusal(
      compile_digits({"--without-pass", "fold"}),
      "error: there is no pass 'fold'\n"
      "  help: passes that can be left out: fold-constants, fold-affine, merge-products, fold-masks, swap-rows, split-batch, swap-sums\n");
  const std::vector<std::string> opt = {"opt", (kDigits / "digits.pt2").string(), "--passes=all", "--without-pass=decompose"};
  expect_refusal(
      opt,
      "error: every program needs the pass 'decompose'\n"
      "  help: passes that can be left out: fold-constants, fold-affine, merge-products, fold-masks, swap-rows, split-batch, swap-sums\n");
  expect_refusal(
      {"explain", (kDigits / "digits.pt2").string(), "--without-pass=decompose"},
      "error: every program needs the pass 'decompose'\n"
      "  help: passes that can be left out: fold-constants, fold-affine, merge-products, fold-masks, swap-rows, split-batch, swap-sums\n");
}

TEST_F(Cli, OptRunsTheWholeListOrSomeOfIt) {
  const std::string model = (kDigits / "digits.pt2").string();
  const std::string all = toroid({"opt", model, "--passes=all"}).output;
  EXPECT_NE(all.find("convolution"), std::string::npos);
  EXPECT_EQ(toroid({"opt", model, "--passes=all", "--without-pass=fold-constants"}).output,
            toroid({"opt", model, "--passes=decompose,fold-affine,merge-products,fold-masks,dead-code"}).output);
  EXPECT_NE(toroid({"opt", model, "--passes=all,schedule"}).output.find("kernel"), std::string::npos);
}

}  // namespace
}  // namespace toroid
