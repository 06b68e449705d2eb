// The sources that compile --save-source leaves: each kernel compiles alone and says which steps it serves.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

TEST_F(Cli, EachSavedKernelCompilesAloneAndNamesItsSteps) {
  std::vector<std::string> command = kCompileDigits;
  command.insert(command.end(), {"--save-source", "sources"});
  ASSERT_EQ(toroid(command).exit_code, 0);
  const std::string steps = read_file(path("sources/steps.txt"));
  size_t kernels = 0;
  for (const auto& entry : fs::directory_iterator(path("sources"))) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".cpp" || name.starts_with("wrapper_unit")) continue;
    ++kernels;
    EXPECT_NE(steps.find(" " + name), std::string::npos) << name << "\n" << steps;
    const std::string text = read_file(entry.path());
    EXPECT_TRUE(text.starts_with("// toroid: ")) << text.substr(0, 200);
    EXPECT_TRUE(has_match(text, "\n// of steps? [0-9]+ \\(")) << text.substr(0, 400);
    EXPECT_NE(text.find(".py:"), std::string::npos) << name << " says no line of the model";
    const ProcessResult result =
        run_process({.argv = {"g++", "-std=c++20", "-O0", "-fsyntax-only", "-march=x86-64-v3", entry.path().string()}, .folder = path("")});
    EXPECT_EQ(result.exit_code, 0) << name << ": " << result.errors.substr(0, 2000);
  }
  EXPECT_GT(kernels, 2u);
}

}  // namespace
}  // namespace toroid
