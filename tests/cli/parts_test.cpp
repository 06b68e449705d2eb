// Several processes that compile one model together: they have a common cache, and share the work.
#include <thread>

#include "cache/remote/remote_for_test.h"
#include "cli_for_test.h"

namespace toroid {
namespace {

class Parts : public CliCache {
 protected:
  Parts() {
    // Problems with several implementations, and kernels enough for several files.
    std::string model = "graph(x0: f32[8, 40]) {\n";
    for (int i = 0; i < 6; ++i) {
      const int from = 40 + i, to = from + 1;
      model += fmt::format("  w{0}: f32[{1}, {2}] = aten::full([{1}, {2}], 0.{0}1)\n", i, from, to);
      model += fmt::format("  y{0}: f32[8, {2}] = aten::mm(x{0}, w{0})\n", i, from, to);
      model += fmt::format("  x{1}: f32[8, {2}] = aten::softmax.int(y{0}, {3})\n", i, i + 1, to, i % 2);
    }
    write_file_atomically(path("model.txt"), model + "  return x6\n}\n");
  }
  // By a compiler that kills who starts it, once, where there is a file `die`.
  fs::path deadly_compiler() const {
    const fs::path script = path("g++");
    write_file_atomically(
        script,
        fmt::format("#!/bin/sh\n"
                    "case \" $* \" in *' -c '*) mv '{0}/die' '{0}/dead' 2>/dev/null && sleep 0.3 && kill -9 $PPID;; esac\n"
                    "exec /usr/bin/env g++ \"$@\"\n",
                    path(".").string()),
        0777);
    return script;
  }
  // Without Halide, which would have ways of its own.
  Outcome toroid(std::vector<std::string> arguments, std::vector<std::pair<std::string, std::string>> environment = {}) const {
    environment.emplace_back("TOROID_HALIDE_PYTHON", "");
    return CliCache::toroid(std::move(arguments), std::move(environment));
  }
  std::vector<std::string> compile(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"compile", "model.txt", "--mode", "max", "--tune-threads", "1", "--cxxflag=-O0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(Parts, MakeWhatOneProcessMakesAlthoughOneOfThemIsKilled) {
  write_file_atomically(path("die"), std::string_view(""));
  const fs::path compiler = deadly_compiler();
  const auto store = [&](const char* name) { return std::pair<std::string, std::string>("TOROID_CACHE_DIR", path(name).string()); };
  const std::vector<std::pair<std::string, std::string>> environment = {store("common"), {"TOROID_CXX", compiler.string()}};
  std::vector<Outcome> outcomes(3);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        outcomes[i] = toroid(compile({"--part", fmt::format("{}/3", i + 1), "-o", fmt::format("part{}.so", i + 1)}), environment);
      });
    }
  }
  EXPECT_TRUE(fs::exists(path("dead")));
  std::vector<size_t> ended;
  for (size_t i = 0; i < 3; ++i) {
    if (outcomes[i].exit_code == 0) ended.push_back(i + 1);
  }
  ASSERT_EQ(ended.size(), 2u) << outcomes[0].errors << outcomes[1].errors << outcomes[2].errors;
  for (size_t i : ended)
    EXPECT_NE(outcomes[i - 1].errors.find(fmt::format("part {}/3: 6 problems: ", i)), std::string::npos) << outcomes[i - 1].errors;

  // One process alone with nothing but their measurements.
  ASSERT_EQ(toroid({"cache", "export", "records", "--kind", "tuning"}, environment).exit_code, 0);
  const Outcome alone = toroid(compile({"--part", "1/1", "-o", "alone.so"}),
                               {store("own"), {"TOROID_CXX", compiler.string()}, {"TOROID_CACHE_BASE", path("records").string()}});
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_NE(alone.errors.find("part 1/1: 6 problems: 6 remembered; "), std::string::npos) << alone.errors;
  const std::string expected = read_file(path("alone.so"));
  for (size_t i : ended) EXPECT_TRUE(read_file(path(fmt::format("part{}.so", i))) == expected) << i;

  // Whoever compiles it later finds it.
  const Outcome later = toroid(compile({"-o", "later.so"}), environment);
  EXPECT_NE(later.errors.find("cache: hit: graph\n"), std::string::npos) << later.errors;
  EXPECT_TRUE(read_file(path("later.so")) == expected);
}

TEST_F(Parts, ShareTheirWorkByAServer) {
  if (!RedisProcess::is_installed()) GTEST_SKIP() << "redis-server is not installed: nothing of this was tested";
  const RedisProcess redis;
  write_file_atomically(path("key"), std::string_view("a secret of more than 32 bytes, as it must be"), 0600);
  const auto on_machine = [&](const char* name) {
    return std::vector<std::pair<std::string, std::string>>{{"TOROID_CACHE_DIR", path(name).string()},
                                                            {"TOROID_REMOTE_CACHE", redis.address()},
                                                            {"TOROID_REMOTE_CACHE_KEY", path("key").string()}};
  };
  const Outcome second = toroid(compile({"--part", "2/2"}), on_machine("second"));
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_TRUE(second.errors.starts_with("part 2/2: 6 problems: 6 measured in ")) << second.errors;
  const Outcome first = toroid(compile({"--part", "1/2", "-o", "out.so", "--write-lock", "choices"}), on_machine("first"));
  EXPECT_TRUE(first.errors.starts_with("part 1/2: 6 problems: 6 remembered; the library was in the cache\nout.so: ")) << first.errors;
}

TEST_F(Parts, AreNumberedByTheLauncher) {
  const std::vector<std::pair<std::string, std::string>> second = {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "2"}};
  const Outcome outcome = toroid({"compile", "model.txt", "--spread", "-o", "out.so", "--cxxflag=-O0"}, second);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.errors.starts_with("part 2/2: ")) << outcome.errors;
  EXPECT_FALSE(fs::exists(path("out.so"))) << "the first writes it";
  const std::vector<std::pair<std::string, std::string>> first = {{"SLURM_ARRAY_TASK_ID", "0"}, {"SLURM_ARRAY_TASK_COUNT", "2"}};
  EXPECT_TRUE(toroid({"compile", "model.txt", "--spread", "-o", "out.so", "--cxxflag=-O0"}, first)
                  .errors.starts_with("part 1/2: all was in the cache\nout.so: "));
  EXPECT_TRUE(fs::exists(path("out.so")));
}

TEST_F(Parts, AreWhatTheDoctorNames) {
  const std::string said = toroid({"doctor"}, {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}).output;
  EXPECT_NE(
      said.find("note     parts             2 of 4, by a Slurm array; without a remote cache, those of one machine alone share their work\n"
                "                           mend: set TOROID_REMOTE_CACHE to a Redis or HTTP server that all machines reach\n"),
      std::string::npos)
      << said;
}

TEST_F(Parts, AreRefusedWhereTheyMeanNothing) {
  expect_refusal({"compile", "model.txt", "--part", "3/2"},
                 "error: '3/2' is no part of the work\n  help: give the number of this process and of all, as in 1/4, 2/4, 3/4, 4/4\n");
  expect_refusal(
      {"compile", "model.txt", "--part", "1/2", "--no-cache"},
      "error: --part cannot be combined with --no-cache: processes share their work by the cache\n  help: leave out --no-cache\n");
  expect_refusal({"compile", "model.txt", "--part", "1/2", "--spread"},
                 "error: --part and --spread say the same\n  help: leave one of them out\n");
  expect_refusal({"compile", "model.txt", "--part", "1/2", "--emit-source", "sources"},
                 "error: several processes make a library, and no folder of sources\n  help: leave out --part or --spread\n");
  expect_refusal({"compile", "model.txt", "--spread"},
                 "error: no launcher says which of several processes this is\n"
                 "  help: start it by mpirun or srun or as a Slurm array, or give --part 1/4\n");
}

}  // namespace
}  // namespace toroid
