// Models in text form, as opt and --dump-ir print graphs: what commands make of them, and of texts whose weights are elsewhere or that are
// no graph.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

class TextModel : public Cli {
 protected:
  // The texts that compiling the digits model leaves, by what they hold: "import", "loops", …; their weights are in the model.
  std::map<std::string, std::string> dumps() const {
    std::vector<std::string> command = kCompileDigits;
    command.insert(command.end(), {"--dump-ir", "ir", "--cxxflag=-O0"});
    EXPECT_EQ(toroid(command).exit_code, 0);
    std::map<std::string, std::string> texts;
    for (const auto& entry : fs::directory_iterator(path("ir"))) texts[entry.path().stem().string().substr(3)] = entry.path().string();
    return texts;
  }

  // Each command that needs the elements of constants.
  static std::vector<std::vector<std::string>> commands(const std::string& model) {
    const std::string input = (kDigits / "one.safetensors").string();
    std::vector<std::vector<std::string>> list = {{"compile", model, "-o", "text.so"}, {"bench", model}};
    for (const char* backend : {"cpu", "interp", "eager", "eager-general"})
      list.push_back({"run", model, "--inputs", input, "--outputs", "answers", "--backend", backend});
    return list;
  }
};

TEST_F(TextModel, RunsAsAnyModel) {
  write_file_atomically(path("scale.txt"), R"(constant 0 "w": f32[3] = [1.0, 2.0, 3.0]
graph(x: f32[2, 3]) {
  w: f32[3] = constant(0)
  y: f32[2, 3] = aten::add.Tensor(x, w)
  return y named "sum"
})");
  write_input({"x"}, DType::F32, {2, 3});
  const std::vector<float> sums = {1, 2, 3, 1, 2, 3};
  write_safetensors(path("expected"), std::vector<SafeTensor>{{"sum", DType::F32, {2, 3}, std::as_bytes(std::span(sums))}});
  const Outcome compiled = toroid({"compile", "scale.txt", "-o", "scale.so"});
  EXPECT_EQ(compiled.exit_code, 0) << compiled.errors;
  for (const std::string model : {"scale.txt", "scale.so"}) {
    for (const std::string backend : {"cpu", "interp", "eager"}) {
      if (model == "scale.so" && backend != "cpu") continue;
      const Outcome outcome =
          toroid({"run", model, "--inputs", "in.safetensors", "--expect", "expected", "--atol", "0", "--backend", backend});
      EXPECT_EQ(outcome.exit_code, 0) << model << " " << backend << "\n" << outcome.output << outcome.errors;
    }
  }
  EXPECT_EQ(toroid({"bench", "scale.txt", "--seconds", "0.01"}).exit_code, 0);
  EXPECT_EQ(toroid({"explain", "scale.txt"}).exit_code, 0);
}

TEST_F(TextModel, WithoutItsWeightsIsReadAndExplainedButNotRun) {
  const std::map<std::string, std::string> texts = dumps();
  for (const char* level : {"import", "decompose"}) {
    const std::string text = texts.at(level);
    for (const std::vector<std::string>& command : commands(text)) {
      if (level == std::string("decompose") && command.back().starts_with("eager")) continue;
      const Outcome outcome = toroid(command);
      EXPECT_EQ(outcome.exit_code, 1) << command.front();
      EXPECT_TRUE(outcome.errors.starts_with("error: the constant '0.weight' is external: its elements are not in the text form\n"))
          << command.front() << " " << command.back() << "\n"
          << outcome.errors;
      EXPECT_TRUE(outcome.errors.ends_with(
          "  help: use the model that the text was printed from, or write the constant's elements into the text\n"))
          << outcome.errors;
    }
    EXPECT_EQ(toroid({"explain", text}).exit_code, 0);
    EXPECT_EQ(toroid({"opt", text, "--passes=all,code"}).exit_code, 0);
    EXPECT_EQ(toroid({"opt", text, "--passes=all,c"}).exit_code, 0);
  }
}

TEST_F(TextModel, AfterDecomposeHasNeitherVariantsNorOperatorsToCall) {
  const std::string text = "sym n in [1, 64] hint 8\ngraph(x: f32[n]) {\n  y: f32[n] = aten::relu(x)\n  return y\n}\n";
  write_file_atomically(path("import.txt"), text);
  write_file_atomically(path("core.txt"), toroid({"opt", "import.txt", "--passes=decompose"}).output);
  write_input({"x"}, DType::F32, {8});
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compile", "core.txt", "-o", "out.so", "--variant", "x.0=8"},
        {"run", "core.txt", "--inputs", "in.safetensors", "--outputs", "out", "--backend", "eager"}}) {
    const Outcome outcome = toroid(command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(has_match(outcome.errors,
                          "^error: '[a-z.]+' is a core operation: the program was decomposed before\n(  while .*\n)*"
                          "  help: variants, and operators called one by one, need the model itself or its text from "
                          "before decompose\n$"))
        << outcome.errors;
  }
  EXPECT_EQ(toroid({"compile", "import.txt", "-o", "out.so", "--variant", "x.0=8"}).exit_code, 0);
  EXPECT_EQ(toroid({"run", "import.txt", "--inputs", "in.safetensors", "--outputs", "out", "--backend", "eager"}).exit_code, 0);
}

TEST_F(TextModel, IsAGraphAlone) {
  const std::map<std::string, std::string> texts = dumps();
  const std::vector<std::pair<std::string, std::string>> levels = {{"loops", "loops"}, {"schedule", "schedule"}, {"program", "schedule"}};
  for (const auto& [level, word] : levels) {
    std::vector<std::vector<std::string>> all = commands(texts.at(level));
    all.push_back({"explain", texts.at(level)});
    for (const std::vector<std::string>& command : all) {
      const Outcome outcome = toroid(command);
      EXPECT_EQ(outcome.exit_code, 1) << command.front();
      EXPECT_TRUE(outcome.errors.starts_with("error: the text goes on behind its graph, with '" + word + "'\n")) << outcome.errors;
      EXPECT_NE(outcome.errors.find("  help: a model is a graph alone; 'toroid opt' takes texts of loops, schedules and programs\n"),
                std::string::npos)
          << outcome.errors;
    }
  }
}

TEST_F(TextModel, IsNoArchiveWhoseOperatorsAreMissing) {
  write_file_atomically(path("neg.txt"), "graph(x: f32[2]) {\n  y: f32[2] = aten::neg(x)\n  return y\n}\n");
  expect_refusal({"ops", "--missing", "neg.txt"},
                 "error: neg.txt is a program in text form\n"
                 "  help: give the .pt2: a text holds only operators that are known\n");
}

TEST_F(TextModel, LoopsAreNotMadeOfOperatorsThatWereNotDecomposed) {
  write_file_atomically(path("neg.txt"), "graph(x: f32[2]) {\n  y: f32[2] = aten::neg(x)\n  return y\n}\n");
  for (const char* last : {"loops", "schedule", "program", "code", "c"}) {
    expect_refusal({"opt", "neg.txt", std::string("--passes=") + last},
                   "error: loops are made of core operations, and 'aten::neg' is none\n"
                   "  help: put decompose before it, as in --passes=decompose,loops, or all, as in --passes=all,code\n");
  }
}

TEST_F(TextModel, AndAllElseThatIsMadeOfAModelIsTheSameFromAnyFolder) {
  fs::create_directories(path("one"));
  fs::create_directories(path("two/with space"));
  const std::vector<std::string> folders = {"one", "two/with space"};
  for (const std::string& folder : folders) {
    fs::copy_file(kDigits / "digits.pt2", path(folder + "/digits.pt2"));
    const Outcome outcome = toroid({"compile", folder + "/digits.pt2", "-o", folder + "/digits.so", "--no-cache", "--save-source",
                                    folder + "/sources", "--dump-ir", folder + "/ir", "--cxxflag=-O0"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  }
  size_t compared = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path(folders[0]))) {
    if (!entry.is_regular_file()) continue;
    const fs::path twin = path(folders[1]) / fs::relative(entry.path(), path(folders[0]));
    EXPECT_TRUE(read_file(entry.path()) == read_file(twin)) << twin;
    ++compared;
  }
  EXPECT_GT(compared, 15u);
  // And from the cache, whichever folder filled it.
  for (const std::string& folder : folders)
    ASSERT_EQ(toroid({"compile", folder + "/digits.pt2", "-o", folder + "/cached.so"}).exit_code, 0);
  EXPECT_TRUE(read_file(path(folders[0] + "/cached.so")) == read_file(path(folders[1] + "/cached.so")));
}

}  // namespace
}  // namespace toroid
