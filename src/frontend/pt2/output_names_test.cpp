#include "frontend/pt2/output_names.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "frontend/pt2/pt2_for_test.h"
#include "graph/text/text.h"

namespace toroid {
namespace {

constexpr std::string_view kLeaf = R"({"type": null, "context": null, "children_spec": []})";

// A node with so many children, all leaves unless given.
std::string tree(std::string_view type, std::string_view context, const std::vector<std::string>& children) {
  return fmt::format(R"({{"type": "{}", "context": {}, "children_spec": [{}]}})", type, context, fmt::join(children, ", "));
}
const std::string kNoContext = R"("null")";

std::vector<std::string> names_of(const std::string& tree, size_t leaves, std::string_view fields = "{}") {
  std::string quoted;
  for (char c : "[1, " + tree + "]") quoted += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  const JsonDocument module = parse_json(
      fmt::format(R"({{"module_call_graph": [{{"fqn": "", "signature": {{"out_spec": "{}"}}}}], "treespec_namedtuple_fields": {}}})",
                  quoted, fields),
      "a module");
  return pt2::output_names(module.root(), leaves);
}

using Names = std::vector<std::string>;
const std::string kOne(kLeaf);

TEST(OutputNames, AreThePathsThroughDictsAndLists) {
  const std::string past = tree("builtins.list", kNoContext, {tree("builtins.dict", R"("[\"key\", 7]")", {kOne, kOne}), kOne});
  EXPECT_EQ(names_of(tree("builtins.dict", R"("[\"logits\", \"past\"]")", {kOne, past}), 4),
            (Names{"logits", "past.0.key", "past.0.7", "past.1"}));
  EXPECT_EQ(names_of(tree("builtins.tuple", kNoContext, {kOne, tree("builtins.tuple", kNoContext, {kOne, kOne})}), 3),
            (Names{"0", "1.0", "1.1"}));
}

TEST(OutputNames, AreTheFieldsOfDataclassesNamedTuplesAndLibrariesTypes) {
  EXPECT_EQ(names_of(tree("app.Out", R"("[[\"loss\", \"pair\"], [\"extra\"]]")", {kOne, kOne}), 2), (Names{"loss", "pair"}));
  EXPECT_EQ(names_of(tree("transformers.modeling_outputs.BaseModelOutput", R"("[\"last_hidden_state\"]")", {kOne}), 1),
            (Names{"last_hidden_state"}));
  EXPECT_EQ(names_of(tree("collections.namedtuple", R"("NT")", {kOne, kOne}), 2, R"({"NT": {"field_names": ["mean", "var"]}})"),
            (Names{"mean", "var"}));
  EXPECT_EQ(names_of(tree("collections.defaultdict", R"({"default_factory_name": "list", "dict_context": ["q"]})", {kOne}), 1),
            (Names{"q"}));
}

TEST(OutputNames, AreEmptyWhereThereIsNothingToSay) {
  EXPECT_EQ(names_of(kOne, 1), (Names{""}));
  EXPECT_EQ(names_of(tree("builtins.tuple", kNoContext, {kOne, kOne}), 2), (Names{"", ""}));
  EXPECT_EQ(names_of(tree("torch.return_types.max", kNoContext, {kOne, kOne}), 2), (Names{"", ""}));
  EXPECT_EQ(names_of(tree("builtins.dict", R"("[\"a\"]")", {kOne}), 2), (Names{"", ""})) << "another number of leaves";
  EXPECT_EQ(names_of(R"({"type": 3})", 1), (Names{""})) << "no tree";
}

TEST(OutputNames, DifferAndCanBeShown) {
  EXPECT_EQ(names_of(tree("builtins.dict", R"("[\"a.b\", \"a\"]")", {kOne, tree("builtins.dict", R"("[\"b\"]")", {kOne})}), 2),
            (Names{"a.b", "a.b_2"}));
  EXPECT_EQ(names_of(tree("builtins.dict", R"("[\"x\\ny\"]")", {kOne}), 1), (Names{"x_y"}));
  // A long key is whole; keys that are alike as far as they are kept differ.
  const std::string key(300, 'k'), endless(1000, 'k');
  EXPECT_EQ(names_of(tree("builtins.dict", fmt::format(R"("[\"{0}_a\", \"{0}_b\"]")", key), {kOne, kOne}), 2),
            (Names{key + "_a", key + "_b"}));
  EXPECT_EQ(names_of(tree("builtins.dict", fmt::format(R"("[\"{0}_a\", \"{0}_b\"]")", endless), {kOne, kOne}), 2),
            (Names{endless.substr(0, 500), endless.substr(0, 500) + "_2"}));
}

TEST(OutputNames, ReachTheProgramAndItsText) {
  Pt2ForTest model;
  replace(
      model.model_json, R"("module_call_graph": [])",
      R"("module_call_graph": [{"fqn": "", "signature": {"out_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"sum\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]"}}])");
  const Program program = model.import();
  EXPECT_EQ(output_names(program), (Names{"sum"}));
  const std::string text = to_text(program);
  EXPECT_NE(text.find("return add named \"sum\""), std::string::npos) << text;
  EXPECT_EQ(parse_text(text, [](ConstantData&) {}).outputs[0].name, "sum");
}

TEST(OutputNames, OfATrainingStepAreTheParameters) {
  Program program = parse_text(R"(graph(x: f32[2]) {
  y: f32[2] = aten::neg(x)
  return y -> loss, x -> gradient "fc.weight", y, x -> buffer "n", y named "out2", x
})");
  EXPECT_EQ(output_names(program), (Names{"loss", "fc.weight.grad", "out2", "n", "out2_2", "out4"}));
}

}  // namespace
}  // namespace toroid
