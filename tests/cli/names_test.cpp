// What things are called: results by the model's own keys, sizes by input and dimension, and which variant ran.
#include "base/machine/processors.h"
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

class Names : public Cli {
 protected:
  // The digits model as if it returned this tree.
  void write_model_that_returns(const std::string& spec) const {
    write_edited_model([&](std::string_view name, std::string& data) {
      if (!name.ends_with("model.json")) return true;
      nlohmann::json model = nlohmann::json::parse(data);
      model["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec;
      data = model.dump();
      return true;
    });
  }
};

const std::string kDict =
    R"([1, {"type": "builtins.dict", "context": "[\"logits\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}])";
const std::string kOne = (kDigits / "one.safetensors").string();

TEST_F(Names, CompilingSaysInputsOutputsAndSizes) {
  write_model_that_returns(kDict);
  const Outcome outcome = toroid(kCompileBad);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find(
                "  input    input: f32[s31, 1, 8, 8]\n  output   out0 logits: f32[s31, 10]\n  size     s31 = input.0, from 1 to 4096\n"),
            std::string::npos)
      << outcome.errors;
  EXPECT_TRUE(has_match(outcome.errors, "out\\.so: [0-9]+ steps: [0-9]+ library calls, [0-9]+ of generated kernels")) << outcome.errors;
  // For scripts.
  ASSERT_EQ(toroid({"bench", "out.so", "--seconds", "0.01", "--json", "bench.json"}).exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(read_file(path("bench.json")));
  EXPECT_EQ(json["inputs"].dump(), R"([{"name":"input","type":"f32[s31, 1, 8, 8]"}])");
  EXPECT_EQ(json["outputs"].dump(), R"([{"file_name":"out0","name":"logits","type":"f32[s31, 10]"}])");
  EXPECT_EQ(json["updates"].dump(), "[]");
  EXPECT_EQ(json["sizes"].dump(), R"([{"dim":0,"input":"input","least":1,"most":4096,"symbol":"s31"}])");
  // The same of a program from the cache.
  EXPECT_NE(toroid(kCompileBad).errors.find("out0 logits: f32[s31, 10]"), std::string::npos);
}

TEST_F(Names, ResultsHaveTheModelsNamesOnRequest) {
  write_model_that_returns(kDict);
  ASSERT_EQ(toroid(kCompileBad).exit_code, 0);
  for (const std::string model : {"bad.pt2", "out.so"}) {
    const Outcome plain = toroid({"run", model, "--inputs", kOne, "--outputs", "plain"});
    ASSERT_EQ(plain.exit_code, 0) << plain.errors;
    EXPECT_EQ(plain.errors, "wrote plain: out0 logits f32[1, 10]\n");
    EXPECT_NE(read_safetensors(path("plain")).find("out0"), nullptr);
    ASSERT_EQ(toroid({"run", model, "--inputs", kOne, "--outputs", "named", "--output-names", "model"}).exit_code, 0);
    EXPECT_NE(read_safetensors(path("named")).find("logits"), nullptr);
    EXPECT_EQ(read_safetensors(path("named")).find("out0"), nullptr);
  }
}

// Numbers as run writes them by default, where the model itself calls its second output out0.
TEST_F(Names, AnOutputThatTheModelCallsOut0IsNotTakenForTheFirst) {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  write_edited_model([&](std::string_view name, std::string& data) {
    if (!name.ends_with("model.json")) return true;
    nlohmann::json model = nlohmann::json::parse(data);
    nlohmann::json& graph = model["graph_module"]["graph"];
    const std::string input = graph["inputs"].back()["as_tensor"]["name"];
    graph["outputs"].push_back({{"as_tensor", {{"name", input}}}});
    nlohmann::json& specs = model["graph_module"]["signature"]["output_specs"];
    specs.push_back({{"user_output", {{"arg", {{"as_tensor", {{"name", input}}}}}}}});
    model["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] =
        fmt::format(R"([1, {{"type": "builtins.dict", "context": "[\"digits\", \"out0\"]", "children_spec": [{}, {}]}}])", leaf, leaf);
    data = model.dump();
    return true;
  });
  const Outcome written = toroid({"run", "bad.pt2", "--inputs", kOne, "--outputs", "numbers"});
  ASSERT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_EQ(written.errors, "wrote numbers: out0 digits f32[1, 10], out1 out0 f32[1, 1, 8, 8]\n");
  const Outcome compared = toroid({"run", "bad.pt2", "--inputs", kOne, "--expect", "numbers"});
  EXPECT_EQ(compared.exit_code, 0) << compared.output << compared.errors;
}

TEST_F(Names, SizesOfVariantsAreCalledByInputAndDimension) {
  std::vector<std::string> command = kCompileDigits;
  command.insert(command.end(), {"--variant", "input.0=1", "--variant", "s31=16"});
  const Outcome outcome = toroid(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_TRUE(has_match(outcome.errors, "  variant  s31=1: [0-9]+ steps.*\n  variant  s31=16: .*\n  variant  all other sizes: .*\n"))
      << outcome.errors;
  const Outcome one = toroid({"run", "out.so", "--inputs", kOne, "--outputs", "answers"});
  EXPECT_NE(one.errors.find("; variant for s31=1\n"), std::string::npos) << one.errors;
  const Outcome many = toroid({"run", "out.so", "--inputs", (kDigits / "heldout.safetensors").string(), "--outputs", "answers"});
  EXPECT_NE(many.errors.find("; variant for all other sizes\n"), std::string::npos) << many.errors;
  const Outcome timed = toroid({"bench", "out.so", "--seconds", "0.01", "--inputs", kOne});
  EXPECT_NE(timed.output.find("  ran the variant for s31=1\n"), std::string::npos) << timed.output;
}

TEST_F(Names, AWrongSizeOfAVariantIsRefusedWithTheRightOnes) {
  const auto refuse = [&](const std::string& sizes, const std::string& message) {
    std::vector<std::string> command = kCompileDigits;
    command.insert(command.end(), {"--variant", sizes});
    const Outcome outcome = toroid(command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << outcome.errors;
  };
  refuse("batch=1", "error: the program has no size called 'batch'\n");
  refuse("batch=1", "  help: its sizes: s31 (input.0); a .pt2 file does not keep the names of torch.export.Dim\n");
  refuse("input.4=1", "error: the input 'input' has no dimension '4'\n");
  refuse("input.4=1", "  help: its dimensions are 0 to 3\n");
  refuse("input.2=8", "error: input.2 is 8 in every call\n");
  refuse("input.0=1,s31=2", "error: s31=2 gives s31 the value 2, and it has the value 1 already\n");
  refuse("input.0=5000", "error: s31 = 5000 is outside of the sizes that the program takes, 1 to 4096\n");
  refuse("input.0", "  help: write --variant INPUT.DIM=SIZE, as in --variant image.0=1,image.2=128\n");
}

TEST_F(Names, AModelInTrainingModeIsNoted) {
  write_edited_model([](std::string_view name, std::string& data) {
    if (!name.ends_with("model.json")) return true;
    nlohmann::json model = nlohmann::json::parse(data);
    for (nlohmann::json& node : model["graph_module"]["graph"]["nodes"]) {
      if (node["target"] != "torch.ops.aten.batch_norm.default") continue;
      for (nlohmann::json& input : node["inputs"]) {
        if (input["name"] == "training") input["arg"]["as_bool"] = true;
      }
    }
    data = model.dump();
    return true;
  });
  const std::string note = "note: the model was exported in training mode: batch_norm (";
  const Outcome outcome = toroid(kCompileBad);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find(note), std::string::npos) << outcome.errors;
  EXPECT_NE(toroid(kCompileBad).errors.find(note), std::string::npos) << "from the cache";
  EXPECT_EQ(toroid(kCompileDigits).errors.find("note:"), std::string::npos);
}

TEST_F(Names, ACompiledProgramCannotBeTimedByStep) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  expect_refusal({"bench", "out.so", "--kernels"},
                 "error: --kernels means nothing for a compiled program\n"
                 "  help: give the .pt2: the steps of a program are timed only where it is compiled for that\n");
  expect_refusal({"bench", "out.so", "--mode", "max"},
                 "error: --mode max means nothing for a compiled program\n"
                 "  help: give the .pt2, or compile it with --mode max\n");
  expect_refusal({"bench", "out.so", "--tune"},
                 "error: --tune means nothing for a compiled program\n"
                 "  help: give the .pt2, or compile it with --mode max\n");
}

TEST_F(Names, SeveralCallersShareTheThreads) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  const Outcome timed = toroid({"bench", "out.so", "--threads", "3", "--streams", "auto", "--seconds", "0.01", "--json", "bench.json"});
  EXPECT_EQ(timed.exit_code, 0) << timed.errors;
  EXPECT_TRUE(matches(timed.output,
                      "out\\.so: loaded in [0-9.]+ s\n"
                      " +callers +threads each +calls/s +median, ms +99 %, ms\n"
                      " +1 +3 +[0-9.]+ +[0-9.]+ +[0-9.]+\n"
                      " +2 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+\n"
                      " +3 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+\n"
                      "  most calls a second: [1-3] callers? with [13] threads? each\n"
                      "  the shortest calls:   [1-3] callers? with [13] threads? each\n"
                      "(  the former are [0-9.]+ times as many, and each takes [0-9.]+ times as long\n)?"))
      << timed.output;
  const nlohmann::json json = nlohmann::json::parse(read_file(path("bench.json")));
  ASSERT_EQ(json["streams"].size(), 3u);
  EXPECT_EQ(json["streams"][0]["threads"], 3);
  for (const nlohmann::json& row : json["streams"]) {
    EXPECT_GT(row["calls_per_s"], 0);
    EXPECT_LE(row["median_ms"], row["p99_ms"]);
  }
  expect_refusal({"bench", "out.so", "--threads", "2", "--streams", "3"},
                 "error: --streams 3 are more than the 2 threads\n"
                 "  help: each caller has a thread at least; --threads says how many there are for all\n");
  expect_refusal({"bench", "out.so", "--streams", "some"}, "error: --streams is 'some'\n  help: a number of callers, or auto\n");
  expect_refusal({"bench", "out.so", "--pin"}, "error: --pin means nothing for one caller\n  help: give --streams, 1 for one caller\n");
  expect_refusal(
      {"bench", "out.so", "--threads", "1000", "--streams", "1", "--pin", "--seconds", "0.01"},
      fmt::format("error: --pin takes 1000 processors; this process may use {0}\n  help: --threads {0}\n", allowed_processors().size()));
  EXPECT_EQ(toroid({"bench", "out.so", "--threads", "1", "--streams", "1", "--pin", "--seconds", "0.01"}).exit_code, 0);
  expect_refusal({"bench", "out.so", "--streams", "2", "--calls", "5"},
                 "error: --calls means nothing for several callers\n  help: say how long with --seconds\n");
}

TEST_F(Names, ACompiledProgramIsNoModel) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"explain", "out.so"}, {"compile", "out.so", "-o", "again.so"}, {"ops", "--missing", "out.so"}}) {
    expect_refusal(command,
                   "error: this is a compiled program, not a model\n"
                   "  at byte 0 of out.so\n"
                   "  while importing out.so\n"
                   "  help: give the .pt2 that it was compiled from; 'toroid run' and 'toroid bench' take the program too\n");
  }
}

TEST_F(Names, AnUnsupportedOperatorIsNamedBeforeWhatElseIsWrongWithIt) {
  write_edited_model([](std::string_view name, std::string& data) {
    if (!name.ends_with("model.json")) return true;
    replace_all(data, "aten.softmax.int", "aten.frobnicate.default");
    nlohmann::json model = nlohmann::json::parse(data);
    model["graph_module"]["graph"]["tensor_values"]["softmax"]["dtype"] = 35;
    data = model.dump();
    return true;
  });
  const Outcome outcome = toroid(kCompileBad);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.errors.starts_with("error: operator 'aten::frobnicate' is not supported\n")) << outcome.errors;
}

TEST_F(Names, AFlagWithoutItsValueIsNamed) {
  const Outcome outcome = toroid({"ops", "--missing"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.errors, "error: --missing needs a value\n  help: 'toroid ops --help' lists the flags\n");
}

TEST_F(Names, CacheStatisticsDoNotContradictThemselves) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  const std::string text = toroid({"cache", "stats"}).output;
  EXPECT_NE(text.find("  programs: 1 taken from the cache, 1 compiled\n"), std::string::npos) << text;
  EXPECT_TRUE(has_match(text, "  this store: [0-9]+ of [0-9]+ questions answered, several for each program;")) << text;
}

}  // namespace
}  // namespace toroid
