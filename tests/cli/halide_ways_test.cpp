// --mode max beside a Python with Halide: a program's own kernels and Halide's pipelines are measured, once, and a lock repeats what was
// chosen.
#include <cstdlib>

#include "cli/cli_for_test.h"

namespace toroid {
namespace {

// The Python that TOROID_HALIDE_PYTHON names, else python3, if it has Halide.
std::optional<std::string> python_with_halide() {
  const char* const named = std::getenv("TOROID_HALIDE_PYTHON");
  const std::optional<fs::path> python = find_program(named != nullptr && *named != '\0' ? named : "python3");
  if (!python || !run_process({.argv = {python->string(), "-c", "import halide"}}).ok()) return std::nullopt;
  return python->string();
}

TEST_F(CliCache, HalidesPipelinesAreMeasuredBesideOwnKernels) {
  const std::optional<std::string> python = python_with_halide();
  if (!python) GTEST_SKIP() << "no Python has Halide (pip install halide; TOROID_HALIDE_PYTHON): nothing of this was tested";
  write_file_atomically(path("program.txt"), std::string_view(R"(graph(x: f32[64, 1024]) {
  y: f32[64, 1024] = aten::softmax.int(x, 1)
  return y
}
)"));
  const auto compile = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"compile", "program.txt", "-o", "out.so"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return toroid(arguments, {{"TOROID_HALIDE_PYTHON", *python}});
  };
  const Outcome first = compile({"--mode", "max", "--write-lock", "choices.lock", "--choices-log", "choices.json"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const nlohmann::json log = nlohmann::json::parse(read_file(path("choices.json")));
  ASSERT_EQ(log["problems"].size(), 1u) << log.dump(1);
  const nlohmann::json& problem = log["problems"][0];
  EXPECT_TRUE(problem["problem"].get<std::string>().starts_with("cpu.rows.f32(f32[64, 1024]) -> f32[64, 1024]; step ")) << problem.dump(1);
  std::map<std::string, std::string> standings;
  for (const auto& choice : problem["choices"]) standings[choice["name"]] = choice["standing"];
  EXPECT_EQ(standings.size(), 4u) << problem.dump(1);
  EXPECT_EQ(standings["cpp"], "timed") << problem.dump(1);
  // An autoscheduler may refuse a pipeline, or be so slow that it is left out; not all three.
  int timed = 0;
  for (const char* way : {"halide-mullapudi2016", "halide-li2018", "halide-adams2019"}) timed += standings[way] == "timed" ? 1 : 0;
  EXPECT_GE(timed, 1) << problem.dump(1);

  // A pipeline, by hand, whatever was the quickest: the program computes the same with it.
  for (const auto& choice : problem["choices"]) {
    const std::string name = choice["name"];
    if (name == "cpp" || choice["standing"] != "timed") continue;
    write_file_atomically(path("halide.lock"), fmt::format("toroid choices 1\n{} = {} {}\n", problem["problem"].get<std::string>(), name,
                                                           choice["hash"].get<std::string>()));
    const Outcome taken = compile({"--lock", "halide.lock", "--dump-ir", "dump"});
    ASSERT_EQ(taken.exit_code, 0) << taken.errors;
    bool is_pipeline = false;
    for (const auto& entry : fs::directory_iterator(path("dump"))) {
      if (entry.path().string().find("schedule") == std::string::npos) continue;
      is_pipeline = has_match(read_file(entry.path()), "\n    halide [A-Z]");
    }
    EXPECT_TRUE(is_pipeline);
    break;
  }
  const Outcome second = compile({"--mode", "max", "--write-lock", "again.lock"});
  EXPECT_NE(second.errors.find("(remembered)"), std::string::npos) << second.errors;
  EXPECT_EQ(read_file(path("again.lock")), read_file(path("choices.lock")));
}

}  // namespace
}  // namespace toroid
