// What the command says when something is wrong: a message, where, a next step; an exit status; and nothing written.
//
// Each test breaks one thing about the digits example and runs build/toroid as a user would. The words are pinned
// whole, paths of this run replaced by capitals, so a change of words is a change of this file.
#include "cli/cli_for_test.h"

#include <fmt/format.h>

namespace toroid {
namespace {

// ---- the model ------------------------------------------------------------------------------------------------------

TEST_F(Cli, RefusesATruncatedArchive) {
  write_file_atomically(path("bad.pt2"), read_file(kDigits / "digits.pt2").substr(0, 60000));
  expect_refusal(kCompileBad,
                 "error: archive rejected: no end record: this is not a ZIP file, or it was cut short\n"
                 "  at byte 60000 of bad.pt2\n"
                 "  while importing bad.pt2\n"
                 "  help: export the model again with torch.export.save, or copy the file again if it was cut short\n");
}

TEST_F(Cli, RefusesAFlippedBitOfTheProgram) {
  std::string bytes = read_file(kDigits / "digits.pt2");
  bytes[bytes.find("\"nodes\"") + 2] ^= 1;
  write_file_atomically(path("bad.pt2"), bytes);
  const Outcome outcome = toroid(kCompileBad);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.errors.starts_with("error: archive rejected: entry 'digits/models/model.json' is damaged: its CRC"))
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("  help: export the model again with torch.export.save, or copy"), std::string::npos);
}

TEST_F(Cli, RefusesAFlippedBitOfAWeight) {
  std::string bytes = read_file(kDigits / "digits.pt2");
  const ZipReader good = ZipReader::open(kDigits / "digits.pt2");
  bytes[good.find("digits/data/weights/weight_6")->offset + 100] ^= 1;
  write_file_atomically(path("bad.pt2"), bytes);
  const Outcome outcome = toroid(kCompileBad);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.errors.starts_with("error: archive rejected: entry 'digits/data/weights/weight_6' is damaged")) << outcome.errors;
  EXPECT_NE(outcome.errors.find("  while loading weight '5.weight'"), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(path("out.so")));
}

TEST_F(Cli, RefusesAnUnknownDtype) {
  write_edited_model([](std::string_view name, std::string& data) {
    if (name.ends_with("model.json")) replace_all(data, "\"dtype\": 7", "\"dtype\": 99");
    return true;
  });
  const Outcome outcome = toroid(kCompileBad);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(replaced_matches(outcome.errors, "byte [0-9]+", "byte N"),
            "error: unknown dtype number 99\n"
            "  at byte N of the JSON text\n"
            "  while reading models/model.json\n"
            "  while importing bad.pt2\n"
            "  help: write the file again: it is damaged, or comes from a version that this toroid does not know\n");
  EXPECT_FALSE(fs::exists(path("out.so")));
}

TEST_F(Cli, RefusesAMissingWeight) {
  write_edited_model([](std::string_view name, std::string&) { return !name.ends_with("weight_3"); });
  expect_refusal(kCompileBad,
                 "error: weight '3.conv.weight' is missing from the archive: no entry 'data/weights/weight_3'\n"
                 "  while loading weight '3.conv.weight' by data/weights/model_weights_config.json\n"
                 "  while reading models/model.json\n"
                 "  while importing bad.pt2\n"
                 "  help: export the model again with torch.export.save\n");
}

TEST_F(Cli, ReportsAllUnknownOperatorsTogether) {
  write_edited_model([](std::string_view name, std::string& data) {
    if (!name.ends_with("model.json")) return true;
    replace_all(data, "aten.relu.default", "aten.frobnicate.default");
    replace_all(data, "aten.softmax.int", "mylib.magic.default");
    return true;
  });
  expect_refusal(kCompileBad,
                 "error: 2 operators are not supported\n"
                 "  at aten::frobnicate (3 uses), first at node 'relu' in 2 (ReLU), activation.py:143, in forward: "
                 "return F.relu(input, inplace=self.inplace)\n"
                 "  at mylib::magic (1 use), first at node 'softmax' in 12 (Softmax), activation.py:1815, in forward: "
                 "return F.softmax(input, self.dim, _stacklevel=5)\n"
                 "  while reading models/model.json\n"
                 "  while importing bad.pt2\n"
                 "  help: 'toroid ops --missing bad.pt2' lists every unsupported operator and where it is used; "
                 "docs/unsupported-operators.md says what can be done\n");
}

TEST_F(Cli, ListsEveryMissingOperatorWithTheModelsOwnLines) {
  write_edited_model([](std::string_view name, std::string& data) {
    if (!name.ends_with("model.json")) return true;
    replace_all(data, "aten.relu.default", "aten.frobnicate.default");
    replace_all(data, "aten.softmax.int", "mylib.magic.default");
    return true;
  });
  const Outcome outcome = toroid({"ops", "--missing", "bad.pt2"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.errors, "what can be done: docs/unsupported-operators.md\n");
  EXPECT_EQ(outcome.output,
            "aten::frobnicate\t3 uses\tfirst at 'relu' in 2 (ReLU), activation.py:143, in forward: "
            "return F.relu(input, inplace=self.inplace)\n"
            "\t\talso at 'relu_1' in 3 (Residual), train.py:38, in forward: return F.relu(x + self.norm(self.conv(x)))\n"
            "mylib::magic\t1 use\tfirst at 'softmax' in 12 (Softmax), activation.py:1815, in forward: "
            "return F.softmax(input, self.dim, _stacklevel=5)\n");
}

TEST_F(Cli, CountsTheSupportedOverloads) {
  const Outcome outcome = toroid({"ops"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("\naten::add.Tensor\n"), std::string::npos);
  const std::string last = outcome.output.substr(outcome.output.rfind('\n', outcome.output.size() - 2) + 1);
  int supported = 0, known = 0, length = 0;
  ASSERT_EQ(std::sscanf(last.c_str(), "%d of the %d overloads of ATen that an exported program can hold are supported\n%n", &supported,
                        &known, &length),
            2)
      << last;
  EXPECT_EQ(length, static_cast<int>(last.size()));
  const auto lines_of_aten = [&] {
    int count = 0;
    for (size_t at = outcome.output.find("aten::"); at != std::string::npos; at = outcome.output.find("\naten::", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(supported, lines_of_aten());
  EXPECT_GT(known, supported);
}

// ---- the inputs -----------------------------------------------------------------------------------------------------

TEST_F(Cli, RefusesAnInputOfTheWrongSize) {
  write_input({"in0"}, DType::F32, {1, 1, 9, 8});
  expect_refusal(run_on_input(), std::string("error: input 'input' has size 9 in dimension 2, the program needs 8\n") + kTheProgramTakes);
}

TEST_F(Cli, RefusesAnInputOfTheWrongRank) {
  write_input({"in0"}, DType::F32, {1, 64});
  expect_refusal(run_on_input(), std::string("error: input 'input' has 2 dimensions, the program needs 4\n") + kTheProgramTakes);
}

TEST_F(Cli, RefusesASizeOutOfItsRange) {
  write_input({"in0"}, DType::F32, {4097, 1, 8, 8});
  expect_refusal(run_on_input(),
                 std::string("error: input 'input' has size 4097 in dimension 0, the program needs at most 4096\n") + kTheProgramTakes);
}

TEST_F(Cli, RefusesAnInputOfTheWrongDtype) {
  write_input({"in0"}, DType::F64, {1, 1, 8, 8});
  expect_refusal(run_on_input(), std::string("error: input 'input' has dtype f64, the program needs f32\n") + kTheProgramTakes);
}

TEST_F(Cli, RefusesAMissingInput) {
  write_input({"images"}, DType::F32, {1, 1, 8, 8});
  expect_refusal(run_on_input(),
                 "error: in.safetensors has no tensor 'input' and no 'in0' for input 1 of 1\n"
                 "  help: it has: images; name them as the program does (input), or in0, in1, …\n");
}

TEST_F(Cli, RefusesAnInputTooMany) {
  write_input({"in0", "in1"}, DType::F32, {1, 1, 8, 8});
  expect_refusal(run_on_input(),
                 "error: in.safetensors holds 'in1', but the program takes 1 input\n"
                 "  help: give one tensor an input: in0, in1, …\n");
}

// ---- the environment ------------------------------------------------------------------------------------------------

TEST_F(CliCache, RefusesAnOutputWithoutAFolderBeforeItCompiles) {
  expect_refusal({"compile", (kDigits / "digits.pt2").string(), "-o", "missing/out.so"},
                 "error: cannot write missing/out.so: No such file or directory\n"
                 "  help: create the folder first: missing\n",
                 {{"TOROID_CXX", "/nonexistent"}});
}

TEST_F(Cli, RefusesAFolderAsOutput) {
  fs::create_directory(path("folder"));
  expect_refusal({"run", (kDigits / "digits.pt2").string(), "--inputs", (kDigits / "one.safetensors").string(), "--outputs", "folder"},
                 "error: cannot write folder: Is a directory\n"
                 "  help: give the path of a file, not of a folder\n");
}

TEST_F(CliCache, SaysWhatIsWrongWithTheCompilerAskedFor) {
  expect_refusal(kCompileDigits,
                 "error: no C++ compiler found: TOROID_CXX is '/nonexistent', which is not a program\n"
                 "  help: install g++ or set TOROID_CXX to the path of a g++ or clang++\n",
                 {{"TOROID_CXX", "/nonexistent"}});
}

TEST_F(CliCache, SaysThatThereIsNoCompiler) {
  expect_refusal(kCompileDigits,
                 "error: no C++ compiler found: tried g++ and clang++ in PATH\n"
                 "  help: install g++ or set TOROID_CXX to the path of a g++ or clang++\n",
                 {{"TOROID_CXX", ""}, {"PATH", "/nonexistent"}});
}

TEST_F(CliCache, EndsACompilerThatHangs) {
  write_file_atomically(path("hanging"),
                        "#!/bin/sh\n"
                        "case \"$1\" in --version) echo 'g++ (Hanging) 1.0'; exit;; -print-prog-name=*) exit;; esac\n"
                        "sleep 600\n",
                        0777);
  const Outcome outcome =
      toroid(kCompileDigits,
             {{"TOROID_CXX", path("hanging")}, {"TOROID_ISA", "baseline"}, {"TOROID_COMPILE_TIMEOUT_S", "0.3"}, {"TMPDIR", path("")}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has_match(outcome.errors,
                        "^error: hanging did not end within .* while it made the "
                        "(object|library) '[a-z0-9]+'"))
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("allow more with TOROID_COMPILE_TIMEOUT_S"), std::string::npos) << outcome.errors;
  EXPECT_LT(outcome.seconds, 600);
  EXPECT_FALSE(fs::exists(path("out.so")));
}

TEST_F(Cli, RefusesHalfAProgram) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  const std::string whole = read_file(path("out.so"));
  fs::remove(path("out.so"));
  write_file_atomically(path("half.so"), whole.substr(0, whole.size() / 2));
  expect_refusal({"run", "half.so", "--inputs", (kDigits / "one.safetensors").string(), "--outputs", "answers"},
                 "error: half.so is not a program compiled by toroid, or is incomplete\n"
                 "  while loading half.so\n"
                 "  help: make it with 'toroid compile MODEL -o FILE.so'\n");
}

TEST_F(Cli, BuildsWithAssertionsAndFlagsOnlyWhatItCompiles) {
  std::vector<std::string> command = kCompileDigits;
  for (const char* flag : {"--assertions", "--cxxflag=-O1", "--cxxflag=-fno-inline"}) command.push_back(flag);
  ASSERT_EQ(toroid(command).exit_code, 0);
  const std::vector<std::string> run = {"run", "out.so", "--inputs", (kDigits / "one.safetensors").string(), "--outputs", "answers"};
  EXPECT_EQ(toroid(run).exit_code, 0);
  fs::remove(path("answers"));
  command = run;
  command.push_back("--assertions");
  const std::string help = "  help: it is for models that this command compiles, with the backend cpu\n";
  expect_refusal(command, "error: --assertions means nothing for a compiled program\n" + help);
  command[1] = (kDigits / "digits.pt2").string();
  command.back() = "--debug";
  command.insert(command.end(), {"--backend", "interp"});
  expect_refusal(command, "error: --debug means nothing for the backend interp\n" + help);
}

TEST_F(CliCache, RefusesFlagsThatSayLessThanTheyDo) {
  std::vector<std::string> command = kCompileDigits;
  command.push_back("--cxxflag=-march=native");
  const std::string message = "error: the compiler flag '-march=native' is not allowed: what it does depends on more than its words\n";
  const std::string help =
      "  help: pass flags that only say how code is made, as -O2, -fno-inline or -DNAME; TOROID_ISA chooses the instructions\n";
  expect_refusal(command, message + help);
  expect_refusal(kCompileDigits, message + "  while reading TOROID_CXXFLAGS\n" + help, {{"TOROID_CXXFLAGS", "-O2 -march=native"}});
  const Outcome doctor = toroid({"doctor"}, {{"TOROID_CXXFLAGS", "-O2 -fno-inline"}});
  EXPECT_NE(doctor.output.find("-O2 -fno-inline, from TOROID_CXXFLAGS"), std::string::npos) << doctor.output;
}

// ---- the command line -----------------------------------------------------------------------------------------------

// ---- the cache --------------------------------------------------------------------------------------------------------

TEST_F(CliCache, ASecondCompilationIsAHitThatTheCacheCounts) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  const std::string library = read_file(path("out.so"));
  // No compiler is needed, nor the model's name.
  fs::copy_file(kDigits / "digits.pt2", path("copy.pt2"));
  const Outcome warm = toroid({"compile", "copy.pt2", "-o", "out.so"});
  EXPECT_EQ(warm.exit_code, 0) << warm.errors;
  EXPECT_NE(warm.errors.find("hit: model file"), std::string::npos) << warm.errors;
  EXPECT_NE(toroid({"verify", "out.so"}).output.find("model copy.pt2"), std::string::npos) << "its provenance is its own file's";
  // With that name it has the same bytes, wherever it lies.
  fs::create_directory(path("elsewhere"));
  fs::copy_file(kDigits / "digits.pt2", path("elsewhere/digits.pt2"));
  EXPECT_EQ(toroid({"compile", "elsewhere/digits.pt2", "-o", "out.so"}).exit_code, 0);
  EXPECT_TRUE(read_file(path("out.so")) == library);
  const nlohmann::json stats = nlohmann::json::parse(toroid({"cache", "stats", "--json"}).output);
  EXPECT_EQ(stats["counters"]["graph hits"], 2);
  EXPECT_EQ(stats["counters"]["graph misses"], 1);
  EXPECT_EQ(stats["kinds"]["library"]["entries"], 1);
}

TEST_F(CliCache, ExplainsAMissByThePartThatDiffers) {
  EXPECT_NE(toroid({"cache", "explain", (kDigits / "digits.pt2").string()}).output.find("there is no entry of this kind"),
            std::string::npos);
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  nlohmann::json json = nlohmann::json::parse(toroid({"cache", "explain", (kDigits / "digits.pt2").string(), "--json"}).output);
  EXPECT_EQ(json["model file"]["result"], "hit");
  EXPECT_EQ(json["graph"]["result"], "hit");
  json =
      nlohmann::json::parse(toroid({"cache", "explain", (kDigits / "digits.pt2").string(), "--json"}, {{"TOROID_ISA", "baseline"}}).output);
  EXPECT_EQ(json["graph"]["result"], "miss");
  std::set<std::string> parts;
  for (const auto& each : json["graph"]["differs"]) parts.insert(each["part"]);
  EXPECT_EQ(parts, (std::set<std::string>{"flags", "isa"}));
}

TEST_F(CliCache, SaysWhatTheCacheWasAskedOnRequest) {
  std::vector<std::string> command = kCompileDigits;
  command.push_back("--explain-cache");
  const std::string cold = toroid(command).errors;
  EXPECT_TRUE(has_match(cold,
                        "model file +miss  [0-9a-f]{64}\n  there is no entry of this kind\n"
                        "graph +miss  [0-9a-f]{64}\n  there is no entry of this kind\n"
                        "library +miss  [0-9a-f]{64}\n  there is no entry of this kind\n"))
      << cold;
  EXPECT_TRUE(has_match(toroid(command).errors, "model file +hit  [0-9a-f]{64}\n"));
  const std::string other = toroid(command, {{"TOROID_ISA", "baseline"}}).errors;
  EXPECT_TRUE(has_match(other, "  the nearest entry differs in\n    flags\n      here     .*-march=x86-64 ")) << other;
}

TEST_F(Cli, TimesEachStepOnRequest) {
  const std::vector<std::string> command = {"bench", (kDigits / "digits.pt2").string(), "--seconds", "0.01", "--json", "times.json"};
  ASSERT_EQ(toroid(command).exit_code, 0);
  EXPECT_FALSE(nlohmann::json::parse(read_file(path("times.json"))).contains("steps"));

  std::vector<std::string> by_step = command;
  by_step.push_back("--kernels");
  const std::string printed = toroid(by_step).output;
  const nlohmann::json json = nlohmann::json::parse(read_file(path("times.json")));
  for (size_t i = 0; i < json["steps"].size(); ++i) {
    const nlohmann::json& step = json["steps"][i];
    if (i > 0) {
      EXPECT_GT(step["position"], json["steps"][i - 1]["position"]);
    }
    EXPECT_GT(step["median_us"], 0);
    EXPECT_NE(printed.find(fmt::format("  {} {}\n", step["position"].get<int>(), step["name"].get<std::string>())), std::string::npos)
        << printed;
  }
  // The model, its steps, an input, an output, a size, what is beside the steps, the machine's limits, what they mean, the columns; and
  // what is above the limits.
  const bool is_above = std::any_of(json["steps"].begin(), json["steps"].end(), [](const auto& step) { return step["of_limit"] > 1.05; });
  const size_t other_lines = is_above ? 10 : 9;
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), json["steps"].size() + other_lines) << printed;
  EXPECT_EQ(printed.find("\n  above 100 %: ") != std::string::npos, is_above) << printed;
  EXPECT_GT(json["copy_bytes_per_s"], 1e8);
  EXPECT_GT(json["multiply_flops_per_s"], 1e8);
  EXPECT_GE(json["memory_bytes_per_s"], json["copy_bytes_per_s"]);
  EXPECT_GE(json["second_level_bytes_per_s"], json["memory_bytes_per_s"]);
  EXPECT_GE(json["first_level_bytes_per_s"], json["second_level_bytes_per_s"]);
  EXPECT_GE(json["int8_flops_per_s"], json["multiply_flops_per_s"]);
  // The digits' first layer: 16 images, 16 filters of 3x3 over 8x8 positions.
  EXPECT_EQ(json["steps"][0]["flops"], 2 * 16 * 16 * 9 * 64) << json;
}

TEST_F(Cli, MeasuresTheChoicesOnceAndRepeatsThemFromALock) {
  const std::string model = (kDigits / "digits.pt2").string();
  // Of fixed sizes: others decide when they are called.
  const std::vector<std::string> compile = {"compile", model, "-o", "out.so", "--variant", "s31=16"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = compile;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return toroid(arguments);
  };
  const Outcome first = with({"--mode", "max", "--write-lock", "choices.lock", "--choices-log", "choices.json"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_NE(first.errors.find("(measured)"), std::string::npos) << first.errors;
  const nlohmann::json log = nlohmann::json::parse(read_file(path("choices.json")));
  EXPECT_GE(log["problems"].size(), 3u);
  const Outcome second = with({"--mode", "max", "--write-lock", "again.lock"});
  EXPECT_EQ(second.errors.find("(measured)"), std::string::npos) << second.errors;
  EXPECT_NE(second.errors.find("(remembered)"), std::string::npos) << second.errors;
  EXPECT_EQ(read_file(path("again.lock")), read_file(path("choices.lock")));

  ASSERT_EQ(with({"--lock", "choices.lock"}).exit_code, 0);
  const std::string inputs = (kDigits / "heldout.safetensors").string();
  const Outcome run = toroid({"run", "out.so", "--inputs", inputs, "--outputs", "chosen.safetensors"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;

  write_file_atomically(path("empty.lock"), std::string_view("toroid choices 1\n"));
  const Outcome refused = with({"--lock", "empty.lock"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("convolution.f32("), std::string::npos) << refused.errors;
  EXPECT_EQ(with({"--write-lock", "choices.lock"}).errors,
            "error: without measuring there are no choices to write\n  help: add --mode max\n");
}

TEST_F(Cli, ExplainsHowInt8WeightsAreRead) {
  auto steps_of = [this](std::string_view rows, std::string machine) {
    write_file_atomically(path("int8.txt"), fmt::format(R"(graph(x: f32[{0}, 64], w: i8[48, 64]) {{
  f: f32[48, 64] = cast(w)
  t: f32[64, 48] = permute(f, dims=[1, 0])
  y: f32[{0}, 48] = matmul(x, t)
  return y
}}
)",
                                                        rows));
    return toroid({"explain", "int8.txt"}, {{"TOROID_MACHINE", std::move(machine)}}).output;
  };
  auto says = [](const std::string& text, std::string_view reading) {
    return text.find(fmt::format("int8 weights: {}", reading)) != std::string::npos;
  };
  // The weights are an input here, which may be others in each call: no floats are kept.
  const std::string few = steps_of("3", "baseline"), many = steps_of("128", "baseline"), tiles = steps_of("32", "baseline+emulated-amx");
  EXPECT_TRUE(says(few, "read as bytes")) << few;
  EXPECT_TRUE(says(many, "widened to float32 in the cache")) << many;
  EXPECT_TRUE(says(tiles, "widened to bfloat16 a few tiles")) << tiles;
}

TEST_F(Cli, ExplainsWhyOperatorsAreOneStepOrTwo) {
  write_file_atomically(path("program.txt"), R"(graph(x: f32[64, 32], w: f32[48, 32], b: f32[48]) {
  h: f32[64, 48] = aten::linear(x, w, b)
  y: f32[64, 48] = aten::relu(h)
  z: f32[48] = aten::sum.dim_IntList(y, [0])
  m: f32[64, 64] = aten::mm(h, h2)
  return y, z
}
)");
  const std::string with_a_mistake = read_file(path("program.txt"));
  EXPECT_EQ(toroid({"explain", "program.txt"}).exit_code, 1);
  write_file_atomically(path("program.txt"), with_a_mistake.substr(0, with_a_mistake.find("  m:")) + "  return y, z\n}\n");
  const Outcome outcome = toroid({"explain", "program.txt", "--all", "--json", "pairs.json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("2 steps"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("library call with an epilogue"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("computed by"), std::string::npos) << outcome.output;
  const std::string chosen = toroid({"explain", "program.txt", "--mode", "max"}).output;
  EXPECT_TRUE(has_match(chosen, "library call with an epilogue\n    computed by [a-z-]+\n")) << chosen;
  EXPECT_TRUE(has_match(chosen, "\n1 problems of library kernels\nmatmul\\.f32\\(.*\\) -> .*; epilogue: [a-z-]+ \\(measured\\)\n"))
      << chosen;
  EXPECT_TRUE(has_match(chosen, "\n[01] of 1 problems changed")) << chosen;
  const nlohmann::json pairs = nlohmann::json::parse(read_file(path("pairs.json")));
  ASSERT_EQ(pairs.size(), 2u) << pairs;
  EXPECT_EQ(pairs[0].at("reason"), "the consumer is fused into the product, block by block");
  EXPECT_EQ(pairs[0].at("bytes"), 64 * 48 * 4);
  EXPECT_EQ(pairs[1].at("reason"), "the producer is fused into the product that it reads, and the consumer reduces its result");
  EXPECT_FALSE(pairs[1].at("fused"));
}

TEST_F(CliCache, ACompilersComplaintNamesTheOperatorAndItsSourceLine) {
  // It dislikes the line of a certain call.
  write_file_atomically(path("g++"),
                        "#!/bin/sh\n"
                        "case \"$1\" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac\n"
                        "echo \"<stdin>:$(grep -n 'op_max_v(\\(add\\|fma\\)' | tail -1 | cut -d: -f1):5: error: boom\" >&2; exit 1\n",
                        0777);
  std::vector<std::string> command = kCompileDigits;
  command.insert(command.end(), {"--threads", "1"});  // all kernels in one unit
  const Outcome failed = toroid(command, {{"TOROID_CXX", path("g++").string()}, {"TOROID_MACHINE", "baseline"}});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_TRUE(has_match(failed.errors,
                        "\n  generated for relu\\S* \\(aten::relu\\) in 3 \\(Residual\\), from train.py:38, in forward: return F.relu"))
      << failed.errors;
}

TEST_F(CliCache, TendsTheCache) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  EXPECT_NE(toroid({"cache", "verify"}).output.find(" entries checked, 0 damaged and removed"), std::string::npos);
  EXPECT_EQ(toroid({"cache", "export", "entries"}).output, "3 entries written to entries\n");
  EXPECT_NE(toroid({"cache", "clear"}).output.find(" entries removed"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(toroid({"cache", "stats", "--json"}).output)["entries"], 0);
  EXPECT_EQ(toroid({"cache", "import", "entries"}).output, "3 entries added\n");
  EXPECT_NE(toroid(kCompileDigits).errors.find("hit: model file"), std::string::npos);
  EXPECT_EQ(toroid({"cache", "gc", "--to", "0", "--json"}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(toroid({"cache", "stats", "--json"}).output)["entries"], 0);
  write_file_atomically(path("bad"), std::string_view("no export"));
  const Outcome refused = toroid({"cache", "import", "bad"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.errors,
            "error: not a whole export of a cache: it does not start as one\n"
            "  before byte 0\n"
            "  while importing bad\n"
            "  help: write it again with 'toroid cache export'\n");
}

TEST_F(CliCache, ABaseServesWhoHasNothing) {
  ASSERT_EQ(toroid(kCompileDigits).exit_code, 0);
  ASSERT_EQ(toroid({"cache", "export", "base"}).exit_code, 0);
  EXPECT_EQ(toroid({"cache", "export", "libraries", "--kind", "library"}).output, "1 entries written to libraries\n");
  const std::pair<std::string, std::string> base = {"TOROID_CACHE_BASE", path("base").string()};
  const std::pair<std::string, std::string> empty = {"TOROID_CACHE_DIR", path("another").string()};
  EXPECT_NE(toroid(kCompileDigits, {empty, base}).errors.find("hit: model file"), std::string::npos);
  const nlohmann::json stats = nlohmann::json::parse(toroid({"cache", "stats", "--json"}, {empty, base}).output);
  EXPECT_EQ(stats["base"]["entries"], 3);
  EXPECT_EQ(stats["base"]["kinds"]["library"]["entries"], 1);
  EXPECT_EQ(stats["counters"]["base hits"], 2);
  EXPECT_EQ(stats["kinds"].contains("library"), false) << "nothing was copied";
  EXPECT_EQ(nlohmann::json::parse(toroid({"cache", "stats", "--json"}, {empty}).output)["base"], nullptr);
  EXPECT_NE(toroid({"cache", "stats"}, {empty, base}).output.find("  read-only base: " + path("base").string() + ", 3 entries, "),
            std::string::npos);
  EXPECT_NE(toroid({"doctor"}, {empty, base}).output.find("ok       read-only base    " + path("base").string() + ", 3 entries"),
            std::string::npos);

  std::string bytes = read_file(path("base"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(path("base"), std::string_view(bytes));
  const Outcome ill = toroid({"doctor"}, {empty, base});
  EXPECT_EQ(ill.exit_code, 1);
  EXPECT_NE(ill.output.find(", 3 entries, 1 damaged"), std::string::npos) << ill.output;
  EXPECT_EQ(nlohmann::json::parse(toroid({"cache", "verify", "--json"}, {empty, base}).output)["damaged in the base"], 1);
  const Outcome gone = toroid(kCompileDigits, {{"TOROID_CACHE_DIR", path("third").string()}, {"TOROID_CACHE_BASE", "/nonexistent"}});
  EXPECT_EQ(gone.exit_code, 0);
  EXPECT_NE(gone.errors.find("compiling without the read-only base: cannot read /nonexistent: No such file or directory; check the path"),
            std::string::npos)
      << gone.errors;
}

constexpr const char* kWithoutOneDnn = "onednn                   gate closed: built without oneDNN\n";

TEST_F(CliCache, TuneSaysWhichLibraryOfOneDnnIsNotFound) {
  const Outcome tuned =
      toroid({"tune", "matmul.f32(f32[3, 40], f32[40, 20]) -> f32[3, 20]", "--no-cache"}, {{"TOROID_ONEDNN", "libnone.so.2"}});
  EXPECT_EQ(tuned.exit_code, 0);
  if (tuned.output.find(kWithoutOneDnn) != std::string::npos) GTEST_SKIP() << "toroid was built without oneDNN's headers";
  EXPECT_NE(tuned.output.find("onednn                   gate closed: libnone.so.2: not found\n"), std::string::npos) << tuned.output;
}

TEST_F(CliCache, TunesAProblemOnceAndReplaysItsLock) {
  const std::string problem = "matmul.f32(f32[3, 40], f32[40, 20]) -> f32[3, 20]";
  const Outcome first = toroid({"tune", problem, "--threads", "1", "--write-lock", "lock", "--choices-log", "log"},
                               {{"TOROID_ONEDNN", "0"}, {"TOROID_MACHINE", "baseline"}});
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_TRUE(matches(first.errors, "1 problems: 1 measured in [0-9.]+ s \\(2 candidates\\)\n")) << first.errors;
  EXPECT_NE(first.output.find("few-rows-by-columns      gate closed: the right side's columns are not contiguous\n"), std::string::npos);
  EXPECT_TRUE(first.output.find("onednn                   gate closed: TOROID_ONEDNN=0 leaves it closed\n") != std::string::npos ||
              first.output.find(kWithoutOneDnn) != std::string::npos)
      << first.output;
  EXPECT_NE(first.output.find("parts                    gate closed: the machine has no AMX, or does not let this process use it\n"),
            std::string::npos)
      << first.output;
  const nlohmann::json log = nlohmann::json::parse(read_file(path("log")));
  EXPECT_EQ(log["problems"][0]["problem"], problem);
  EXPECT_EQ(log["problems"][0]["choices"].size(), 5u);
  EXPECT_EQ(log["isa"], "baseline");  // measured as such, and remembered as such
  const std::string choice = log["problems"][0]["choice"];

  EXPECT_EQ(toroid({"tune", problem, "--threads", "1"}, {{"TOROID_ONEDNN", "0"}, {"TOROID_MACHINE", "baseline"}}).errors,
            "1 problems: 1 remembered\n");
  const Outcome locked = toroid({"tune", problem, "--lock", "lock", "--no-cache"});
  EXPECT_EQ(locked.errors, "1 problems: 1 locked\n");
  EXPECT_TRUE(locked.output.starts_with(problem + ": " + choice + " (lock)\n")) << locked.output;
  const std::string other = "matmul.f32(f32[4, 40], f32[40, 20]) -> f32[4, 20]";
  expect_refusal({"tune", other, "--lock", "lock"}, "error: lock has no choice for " + other +
                                                        "\n  while choosing an implementation of matmul.f32\n"
                                                        "  help: write the lock anew for this model, or compile without it\n");
  expect_refusal({"tune", "matmul.f32(f32[4, 40])"}, "error: 1:23: expected '->'\n  while reading the problem 'matmul.f32(f32[4, 40])'\n");
}

TEST_F(CliCache, TheDoctorNamesAMendForEachProblem) {
  const Outcome well = toroid({"doctor", "--json"});
  EXPECT_EQ(well.exit_code, 0) << well.output;
  const Outcome ill =
      toroid({"doctor"}, {{"TOROID_CXX", "/nonexistent"}, {"TOROID_CACHE_DIR", "/proc/toroid"}, {"TMPDIR", "/nonexistent"}});
  EXPECT_EQ(ill.exit_code, 1);
  for (const char* text : {"problem  compiler          no C++ compiler found: TOROID_CXX is '/nonexistent', which is not a program",
                           "mend: install g++ or set TOROID_CXX to the path of a g++ or clang++",
                           "problem  cache             compiling without a cache: cannot use /proc/toroid", "problem  temporary files"}) {
    EXPECT_NE(ill.output.find(text), std::string::npos) << text << "\n" << ill.output;
  }
}

TEST_F(CliCache, TheDoctorTriesTheRemoteCache) {
  write_file_atomically(path("key"), std::string_view("a secret of more than 32 bytes, as it must be"), 0600);
  const std::pair<std::string, std::string> address = {"TOROID_REMOTE_CACHE", "redis://:password@127.0.0.1:1"},
                                            key = {"TOROID_REMOTE_CACHE_KEY", path("key").string()};
  const Outcome down = toroid({"doctor"}, {address, key});
  EXPECT_EQ(down.exit_code, 1);
  EXPECT_NE(down.output.find("problem  remote cache      redis://127.0.0.1:1 cannot be used: cannot connect: Connection refused"),
            std::string::npos)
      << down.output;
  EXPECT_NE(down.output.find("mend: check its address and that it runs, or unset TOROID_REMOTE_CACHE"), std::string::npos) << down.output;
  EXPECT_EQ(down.output.find("password"), std::string::npos);
  const Outcome keyless = toroid({"doctor"}, {address});
  EXPECT_NE(keyless.output.find("mend: set TOROID_REMOTE_CACHE_KEY to a file"), std::string::npos) << keyless.output;
  EXPECT_EQ(nlohmann::json::parse(toroid({"cache", "stats", "--json"}, {address, key}).output)["remote"], "redis://127.0.0.1:1");
}

TEST_F(CliCache, AnUnreachableRemoteCacheIsWarnedOfOnce) {
  write_file_atomically(path("key"), std::string_view("a secret of more than 32 bytes, as it must be"), 0600);
  const Outcome outcome =
      toroid(kCompileDigits, {{"TOROID_REMOTE_CACHE", "http://127.0.0.1:1/"}, {"TOROID_REMOTE_CACHE_KEY", path("key").string()}});
  EXPECT_EQ(outcome.exit_code, 0);
  const size_t first = outcome.errors.find("the remote cache http://127.0.0.1:1 is left alone for 30 s: ");
  EXPECT_NE(first, std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("the remote cache", first + 1), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("cache: miss"), std::string::npos) << outcome.errors;
}

TEST_F(Cli, EmitsAProgramThatTimesItself) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "libtoroid.so then needs the sanitizer's runtime, which the emitted main does not link";
#endif
  const Outcome emitted = toroid({"compile", (kDigits / "digits.pt2").string(), "--emit-benchmark", "timed"});
  ASSERT_EQ(emitted.exit_code, 0) << emitted.errors;
  const auto in_folder = [&](const std::string& command) {
    return run_process({.argv = {"/bin/sh", "-c", command}, .folder = path("timed")});
  };
  const ProcessResult built = in_folder("sh build.sh");
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  const ProcessResult timed = in_folder("./benchmark 0.01 1");
  ASSERT_EQ(timed.exit_code, 0) << timed.errors;
  EXPECT_NE(timed.output.find(" ms a call (median of "), std::string::npos) << timed.output;
  EXPECT_TRUE(has_match(timed.output, "limits measured here: [0-9.]+ GB/s copied, [0-9.]+ GFLOP/s of products\n")) << timed.output;
  // A library call and a kernel, each with its rates.
  EXPECT_TRUE(has_match(timed.output, " us +[0-9.]+ % +[0-9.]+ +[0-9.]+ +[0-9]+ %  [a-z0-9_]*linear")) << timed.output;
  // Weights of another program are refused.
  write_file_atomically(path("timed/weights.bin"), std::string_view("no weights"));
  const ProcessResult refused = in_folder("./benchmark 0.01 1");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.errors,
            "error: weights.bin is not a program compiled by toroid, or is incomplete\n  while loading ./program.so\n"
            "  help: make it with 'toroid compile MODEL -o FILE.so'\n");
}

TEST_F(Cli, CompilesToALibraryOrToABenchmark) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"-o", "out.so", "--emit-benchmark", "timed"}}) {
    std::vector<std::string> arguments = {"compile", (kDigits / "digits.pt2").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(
        arguments,
        "error: one of --output, --emit-source and --emit-benchmark is needed, and one alone\n"
        "  help: add -o FILE.so for a library, --emit-source DIR for its sources, --emit-benchmark DIR for sources that time themselves\n");
  }
}

TEST_F(Cli, EndsWithStatusTwoWhenTheCommandLineIsWrong) {
  const Outcome outcome = toroid({"run", "out.so"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.errors, "error: --inputs is required\n  help: 'toroid run --help' lists the flags\n");
  EXPECT_EQ(toroid({"frobnicate"}).exit_code, 2);
}

}  // namespace
}  // namespace toroid
