// toroid explain: where producer and consumer are, what is computed more than once, and the questions that can be asked of it.
#include "cli/cli_for_test.h"
#include "frontend/pt2/pt2_for_test.h"

namespace toroid {
namespace {

// The square of x is read by a product, whose epilogue it cannot be, and by the sum at the end.
constexpr std::string_view kSquareReadTwice = R"(graph(x: f32[64, 32], w: f32[48, 32], v: f32[64, 48]) {
  g: f32[64, 32] = aten::mul.Tensor(x, x)
  h: f32[64, 48] = aten::linear(g, w)
  y: f32[64, 48] = aten::relu(h)
  s: f32[64, 48] = aten::softmax.int(y, 1)
  r: f32[64] = aten::sum.dim_IntList(g, [1])
  return s, r
}
)";

TEST_F(Cli, ExplainPlacesProducersAndConsumersInSteps) {
  write_file_atomically(path("program.txt"), kSquareReadTwice);
  const Outcome outcome = toroid({"explain", "program.txt", "--json", "pairs.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_TRUE(has_match(outcome.output, "\nproducer  step [0-9]+: .*\nconsumer  step [0-9]+: .*\n  two steps, [0-9.]+ ?[kMG]?i?B?.*: .*\n"))
      << outcome.output;
  for (const char* pronoun : {"the one ", "the other "}) EXPECT_EQ(outcome.output.find(pronoun), std::string::npos) << outcome.output;
  for (const nlohmann::json& pair : nlohmann::json::parse(read_file(path("pairs.json")))) {
    EXPECT_TRUE(pair["producer_place"].contains("step")) << pair;
    EXPECT_TRUE(pair["consumer_place"].contains("step")) << pair;
    EXPECT_EQ(pair["fused"], pair["producer_place"]["step"] == pair["consumer_place"]["step"]) << pair;
  }
}

TEST_F(Cli, ExplainPlacesOperatorsOfAModelInItsSource) {
  const Outcome outcome = toroid({"explain", (kDigits / "digits.pt2").string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_TRUE(has_match(outcome.output, "\nproducer  step [0-9]+: \\S+ \\(aten::\\S+\\) in .* \\(\\w+\\), from \\S+\\.py:[0-9]+"))
      << outcome.output;
}

// mul is cheap, so that softmax and the sum of columns each compute it instead of reading it.
TEST_F(Cli, ExplainNamesWhatIsComputedTwice) {
  Pt2ForTest model;
  nlohmann::json json = nlohmann::json::parse(model.model_json);
  nlohmann::json& graph = json["graph_module"]["graph"];
  const auto tensor = [](const char* name) { return nlohmann::json{{"as_tensor", {{"name", name}}}}; };
  const auto node = [&](const char* op, const char* name, const std::vector<std::pair<const char*, nlohmann::json>>& arguments) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const auto& [parameter, value] : arguments) inputs.push_back({{"name", parameter}, {"arg", value}, {"kind", 1}});
    return nlohmann::json{{"target", std::string("torch.ops.aten.") + op},
                          {"inputs", inputs},
                          {"outputs", {tensor(name)}},
                          {"metadata", nlohmann::json::object()},
                          {"name", name}};
  };
  graph["nodes"] = {node("mul.Tensor", "mul", {{"self", tensor("x")}, {"other", {{"as_int", 2}}}}),
                    node("softmax.int", "soft", {{"self", tensor("mul")}, {"dim", {{"as_int", 1}}}}),
                    node("sum.dim_IntList", "columns", {{"self", tensor("mul")}, {"dim", {{"as_ints", {0}}}}})};
  const auto sizes = [](std::vector<int> list) {
    nlohmann::json result = nlohmann::json::array();
    for (int size : list) result.push_back({{"as_int", size}});
    return result;
  };
  nlohmann::json type = graph["tensor_values"]["x"];
  type["sizes"] = sizes({256, 512}), type["strides"] = sizes({512, 1});
  for (const char* name : {"x", "mul", "soft"}) graph["tensor_values"][name] = type;
  type["sizes"] = sizes({512}), type["strides"] = sizes({1});
  graph["tensor_values"]["columns"] = type;
  graph["outputs"] = {tensor("soft"), tensor("columns")};
  nlohmann::json& outputs = json["graph_module"]["signature"]["output_specs"];
  outputs = {{{"user_output", {{"arg", tensor("soft")}}}}, {{"user_output", {{"arg", tensor("columns")}}}}};
  model.model_json = json.dump();
  write_file_atomically(path("twice.pt2"), model.zip().build());
  const Outcome outcome = toroid({"explain", "twice.pt2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("  mul (aten::mul.Tensor) is computed twice: in steps 0 and 1\n"), std::string::npos) << outcome.output;
  const std::string between = toroid({"explain", "twice.pt2", "--between", "mul", "soft"}).output;
  EXPECT_NE(between.find("\nboth are computed within step 0, where one is part of the other's expression or loop"), std::string::npos)
      << between;
}

TEST_F(Cli, ExplainAnswersForTwoOperators) {
  const std::string model = (kDigits / "digits.pt2").string();
  const std::string output = toroid({"explain", model, "--between", "conv2d_2", "adaptive_avg_pool2d"}).output;
  EXPECT_TRUE(has_match(output, "\n0 of [0-9]+ pairs of producer and consumer are one step, [0-9]+ (is|are) not:\n")) << output;
  EXPECT_TRUE(has_match(output, "\nproducer  step [0-9]+: conv2d_2 \\(aten::conv2d\\).*\nconsumer  step [0-9]+: adaptive_avg_pool2d "))
      << output;
  EXPECT_EQ(output.find("softmax"), std::string::npos) << output;
  const std::string none = toroid({"explain", model, "--between", "relu", "aten::softmax"}).output;
  EXPECT_NE(none.find("neither reads the other's result directly"), std::string::npos) << none;
  const std::string by_op = toroid({"explain", model, "--op", "max_pool2d"}).output;
  EXPECT_NE(by_op.find("max_pool2d (aten::max_pool2d)"), std::string::npos) << by_op;
  EXPECT_EQ(by_op.find("softmax"), std::string::npos) << by_op;
  const Outcome unknown = toroid({"explain", model, "--op", "gelu"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_TRUE(unknown.errors.starts_with(
      "error: the model has no operator or node called 'gelu'\n  help: its operators: aten::conv2d, aten::batch_norm, "))
      << unknown.errors;
  expect_refusal({"explain", model, "--between", "relu"},
                 "error: --between takes two operators, and 1 are given\n"
                 "  help: write the model first: toroid explain MODEL --between linear layer_norm\n");
}

}  // namespace
}  // namespace toroid
