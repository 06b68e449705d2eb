// The example of custom operators, as a user runs it.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

const fs::path kExample = fs::path(TOROID_SOURCE_DIR) / "examples/custom_operators";
const std::string kOperators = CUSTOM_OPERATORS;

class CustomOperatorCommands : public Cli {
 protected:
  void copy(const std::string& name) const { fs::copy_file(kExample / name, path(name)); }
};

TEST_F(CustomOperatorCommands, ComputeWhatPyTorchRecorded) {
  const Outcome outcome = toroid({"conform", kExample.string(), "--operators", kOperators});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  EXPECT_NE(outcome.output.find("5 passed, 0 failed"), std::string::npos) << outcome.output;
}

// The example in Triton, on a processor: by formulas.
TEST_F(CustomOperatorCommands, ComputeKernelsInTritonByTheirFormulas) {
  const std::string example = (fs::path(TOROID_SOURCE_DIR) / "examples/triton").string();
  const Outcome outcome = toroid({"conform", example, "--operators", example});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  EXPECT_NE(outcome.output.find("3 passed, 0 failed"), std::string::npos) << outcome.output;
}

TEST_F(CustomOperatorCommands, FindFormulasBesideTheModel) {
  copy("feed_forward.pt2");
  Outcome outcome = toroid({"compile", "feed_forward.pt2", "-o", "out.so"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.errors.starts_with("error: operator 'mylib::swiglu' is not supported")) << outcome.errors;
  EXPECT_EQ(toroid({"ops", "--missing", "feed_forward.pt2"}).exit_code, 1);
  copy("mylib.swiglu.op");
  outcome = toroid({"compile", "feed_forward.pt2", "-o", "out.so"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(toroid({"ops", "--missing", "feed_forward.pt2"}).exit_code, 0);
  outcome = toroid({"run", "out.so", "--inputs", (kExample / "feed_forward.in2.safetensors").string(), "--expect",
                    (kExample / "feed_forward.out2.safetensors").string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  // The evaluator knows formulas too.
  outcome = toroid({"run", "feed_forward.pt2", "--backend", "interp", "--inputs", (kExample / "feed_forward.in.safetensors").string(),
                    "--expect", (kExample / "feed_forward.out.safetensors").string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(CustomOperatorCommands, TakeCodeFromTrustedFoldersAlone) {
  copy("attention.pt2");
  copy("mylib.softcap_attention.op");
  expect_refusal({"compile", "attention.pt2", "-o", "out.so"},
                 "error: ./mylib.softcap_attention.op holds code, which is not taken from beside a model\n"
                 "  while importing node 'softcap_attention' (mylib::softcap_attention)\n"
                 "  while reading models/model.json\n"
                 "  while importing attention.pt2\n"
                 "  help: if you trust it, give its folder: --operators .\n");
  const std::vector<std::string> run = {"run",      "out.so",
                                        "--inputs", (kExample / "attention.in2.safetensors").string(),
                                        "--expect", (kExample / "attention.out2.safetensors").string()};
  Outcome outcome = toroid({"compile", "attention.pt2", "-o", "out.so", "--operators", "."});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  outcome = toroid(run);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  outcome = toroid({"compile", "attention.pt2", "-o", "out.so"}, {{"TOROID_OPERATORS", "/nowhere:" + kOperators}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(CustomOperatorCommands, TakeTheKernelOfTheDevice) {
  const Outcome outcome =
      toroid({"run", (kExample / "attention.pt2").string(), "--device", "emulated-cuda", "--operators", kOperators, "--inputs",
              (kExample / "attention.in2.safetensors").string(), "--expect", (kExample / "attention.out2.safetensors").string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(CustomOperatorCommands, CompileAgainWhenAFileChanges) {
  copy("feed_forward.pt2");
  copy("mylib.swiglu.op");
  const std::vector<std::string> compile = {"compile", "feed_forward.pt2", "-o", "out.so", "--explain-cache"};
  ASSERT_EQ(toroid(compile).exit_code, 0);
  Outcome outcome = toroid(compile);
  EXPECT_NE(outcome.errors.find("model file  hit"), std::string::npos) << outcome.errors;
  std::string text = read_file(path("mylib.swiglu.op"));
  replace_all(text, "aten::sigmoid", "aten::tanh");
  write_file_atomically(path("mylib.swiglu.op"), std::string_view(text));
  outcome = toroid(compile);
  EXPECT_EQ(outcome.errors.find("model file  hit"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("custom operator"), std::string::npos) << outcome.errors;
}

TEST_F(CustomOperatorCommands, AreNamedByExplain) {
  const Outcome outcome = toroid({"explain", (kExample / "attention.pt2").string(), "--operators", kOperators});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("mylib::softcap_attention (C++, mylib.softcap_attention.op)"), std::string::npos) << outcome.output;
}

TEST_F(CustomOperatorCommands, OfLibrariesAreNoPartOfACompiledFile) {
  const Outcome outcome = toroid({"compile", (kExample / "embedding.pt2").string(), "-o", "out.so", "--operators", kOperators});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("which a compiled file would not contain"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace toroid
