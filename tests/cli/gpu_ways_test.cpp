// --mode max and --lock for a GPU's program: its steps are measured apart, once, and a lock repeats what was chosen. Emulated kernels take
// the place of a GPU's.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

class GpuWays : public Cli {
 protected:
  GpuWays() {
    write_file_atomically(path("program.txt"), std::string_view(R"(graph(x: bf16[64, 128], w: bf16[128, 128], y: f32[32, 512]) {
  p: bf16[64, 128] = aten::mm(x, w)
  s: f32[32, 512] = aten::softmax.int(y, 1)
  return p, s
}
)"));
  }
  Outcome compile(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"compile", "program.txt", "-o", "out.so", "--device", "emulated-cuda"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return toroid(arguments);
  }
};

TEST_F(GpuWays, AreMeasuredOnceAndRepeatedFromALock) {
  // As the second of two processes, which measures the first one's share too.
  const Outcome first = compile({"--part", "2/2", "--mode", "max", "--write-lock", "choices.lock", "--choices-log", "choices.json"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(has_match(first.errors,
                        "gpu\\.matmul\\.bf16\\(bf16\\[64, 128\\], bf16\\[128, 128\\]\\) -> bf16\\[64, "
                        "128\\]; step [0-9a-f]{16}: [a-z0-9-]+ \\(measured\\)"))
      << first.errors;
  EXPECT_TRUE(has_match(first.errors, "[0-9] of [0-9] problems changed")) << first.errors;
  const nlohmann::json log = nlohmann::json::parse(read_file(path("choices.json")));
  size_t timed = 0;
  for (const auto& choice : log["problems"][0]["choices"]) timed += choice["standing"] == "timed" ? 1 : 0;
  EXPECT_GE(timed, 2u) << log.dump(1);

  const Outcome second = compile({"--mode", "max", "--write-lock", "again.lock"});
  EXPECT_EQ(second.errors.find("(measured)"), std::string::npos) << second.errors;
  EXPECT_NE(second.errors.find("(remembered)"), std::string::npos) << second.errors;
  EXPECT_EQ(read_file(path("again.lock")), read_file(path("choices.lock")));

  // Another way than the default one, by hand.
  const std::string lock = read_file(path("choices.lock"));
  for (const auto& choice : log["problems"][0]["choices"]) {
    if (choice["standing"] != "timed" || choice["name"] == log["problems"][0]["choice"]) continue;
    const std::string problem = log["problems"][0]["problem"];
    std::string other = lock;
    const std::string own =
        fmt::format("{} = {} {}", problem, log["problems"][0]["choice"].get<std::string>(), log["problems"][0]["hash"].get<std::string>());
    ASSERT_NE(other.find(own), std::string::npos) << lock;
    replace_all(other, own, fmt::format("{} = {} {}", problem, choice["name"].get<std::string>(), choice["hash"].get<std::string>()));
    write_file_atomically(path("other.lock"), std::string_view(other));
    const Outcome taken = compile({"--lock", "other.lock", "--dump-ir", "dump"});
    ASSERT_EQ(taken.exit_code, 0) << taken.errors;
    break;
  }
  write_file_atomically(path("empty.lock"), std::string_view("toroid choices 1\n"));
  const Outcome refused = compile({"--lock", "empty.lock"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("empty.lock has no choice for gpu."), std::string::npos) << refused.errors;
}

// What the host does, and what is copied, stays as it is.
TEST_F(GpuWays, OfAProgramWithTensorsOnTheHostAreThoseOfTheGpusSteps) {
  write_file_atomically(path("mixed.txt"), std::string_view(R"(graph(x: bf16[64, 128], w: bf16[128, 128] on cuda:0) {
  h: bf16[64, 128] = aten::softmax.int(x, 1)
  g: bf16[64, 128] on cuda:0 = aten::_to_copy(h, dtype=dtype.bf16, device=device.cuda:0)
  p: bf16[64, 128] on cuda:0 = aten::mm(g, w)
  return p
}
)"));
  const std::vector<std::string> command = {"compile", "mixed.txt", "-o", "out.so", "--device", "emulated-as-exported"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return toroid(more);
  };
  const Outcome measured = with({"--mode", "max", "--write-lock", "mixed.lock"});
  ASSERT_EQ(measured.exit_code, 0) << measured.errors;
  EXPECT_TRUE(has_match(measured.errors, "gpu\\.matmul\\.bf16.*: [a-z0-9-]+ \\(measured\\)")) << measured.errors;
  EXPECT_TRUE(has_match(measured.errors, "[01] of 1 problems changed")) << measured.errors;
  const Outcome repeated = with({"--lock", "mixed.lock"});
  EXPECT_EQ(repeated.exit_code, 0) << repeated.errors;
}

// Steps that the time did not suffice for go by their estimates, in the program that is kept too; with more time the others are measured.
TEST_F(GpuWays, AProgramThatRanOutOfTimeIsKept) {
  const Outcome first = compile({"--mode", "max", "--tune-limit", "0.000001"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(has_match(first.errors, "  [0-9] problems were not reached in time: a longer --tune-limit goes on with them\n"))
      << first.errors;
  const Outcome second = compile({"--mode", "max", "--tune-limit", "0.000001"});
  EXPECT_NE(second.errors.find("tuned before: the program comes from the cache\n"), std::string::npos) << second.errors;
  const Outcome longer = compile({"--mode", "max", "--tune-limit", "0.00001"});
  EXPECT_EQ(longer.errors.find("tuned before"), std::string::npos) << longer.errors;
}

}  // namespace
}  // namespace toroid
