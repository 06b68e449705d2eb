// toroid shard: how a model is cut, as a file of rules. What the parts compute: tests/collectives/shard_test.cpp.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kPerceptron = R"(constant 0 "up": f32[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]
constant 1 "down": f32[2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]
graph(x: f32[2, 2]) {
  up: f32[4, 2] = constant(0)
  down: f32[2, 4] = constant(1)
  a: f32[2, 4] = aten::linear(x, up)
  b: f32[2, 4] = aten::relu(a)
  y: f32[2, 2] = aten::linear(b, down)
  return y
})";

TEST_F(Cli, ShardSaysHowAModelIsCut) {
  write_file_atomically(path("model.txt"), kPerceptron);
  const std::vector<std::string> command = {"shard", "model.txt", "--tensor-parallel", "2"};
  EXPECT_EQ(toroid(command).output,
            "up    replicated  # f32[4, 2]\n"
            "down  replicated  # f32[2, 4]\n"
            "# 2 processes, each with 0.0 MB of 0.0 MB of weights; reductions in a call: 0, gathers: 0, of 0.0 MB\n");
  write_file_atomically(path("rules"), std::string_view("up columns\n"));
  std::vector<std::string> with_rules = command;
  with_rules.insert(with_rules.end(), {"--shard-rules", "rules"});
  const std::string cut =
      "up    columns     # f32[4, 2]\n"
      "down  rows        # f32[2, 4]\n"
      "# 2 processes, each with 0.0 MB of 0.0 MB of weights; reductions in a call: 1, gathers: 0, of 0.0 MB\n";
  EXPECT_EQ(toroid(with_rules).output, cut);
  write_file_atomically(path("rules"), cut);  // the plan is a file of rules
  EXPECT_EQ(toroid(with_rules).output, cut);
  write_file_atomically(path("rules"), std::string_view("up batch\n"));  // then what follows is of a part of the batch, too
  const std::string by_batch =
      "up    batch       # f32[4, 2]\n"
      "down  batch       # f32[2, 4]\n"
      "# batch: each process has the whole weight, and a part of the batch; that takes 0.0 MB more than parts of weights\n"
      "# 2 processes, each with 0.0 MB of 0.0 MB of weights; reductions in a call: 0, gathers: 1, of 0.0 MB\n";
  EXPECT_EQ(toroid(with_rules).output, by_batch);
  write_file_atomically(path("rules"), by_batch);
  EXPECT_EQ(toroid(with_rules).output, by_batch);
}

TEST_F(Cli, ShardNeedsProcesses) {
  write_file_atomically(path("model.txt"), kPerceptron);
  expect_refusal({"shard", path("model.txt").string()},
                 "error: a model is cut for two processes at least\n  help: add --tensor-parallel 2\n");
}

}  // namespace
}  // namespace toroid
