#include "frontend/pt2/call_tree.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace toroid {
namespace {

std::string tree_of(std::string_view specs, std::string_view inputs, std::string_view call = R"({"in_spec": "I", "out_spec": "O"})") {
  const JsonDocument module = parse_json(fmt::format(R"({{"module_call_graph": [{{"fqn": "", "signature": {}}}],
                      "signature": {{"input_specs": {}, "output_specs": [{{"buffer_mutation": {{}}}}, {{"loss_output": {{}}}}, {{"user_output": {{}}}},
                                                                         {{"user_output": {{}}}}]}},
                      "graph": {{"inputs": {}, "outputs": [{{"as_tensor": {{}}}}, {{"as_tensor": {{}}}}, {{"as_none": true}}, {{"as_int": 3}}]}}}})",
                                                     call, specs, inputs),
                                         "a module");
  return pt2::call_tree(module.root(), module.root().at("graph"));
}

TEST(CallTree, SaysWhatEachLeafIs) {
  EXPECT_EQ(
      tree_of(R"([{"parameter": {}}, {"user_input": {}}, {"constant_input": {"name": "n", "value": {"as_int": 7}}}, {"user_input": {}},
                        {"user_input": {}}, {"user_input": {}}])",
              R"([{"as_tensor": {}}, {"as_tensor": {}}, {"as_int": 7}, {"as_bool": true}, {"as_sym_int": {"as_name": "s"}},
                        {"as_none": true}])"),
      R"({"in_spec":"I","inputs":[0,{"as_int":7},{"as_bool":true},1,{"as_none":true}],"out_spec":"O","outputs":[0,null,{"number":1}]})");
}

TEST(CallTree, HasTheNamesOfArguments) {
  EXPECT_EQ(tree_of(R"([{"user_input": {}}])", R"([{"as_tensor": {}}])",
                    R"({"in_spec": "I", "out_spec": "O", "forward_arg_names": ["image", "a \"b\""]})"),
            R"({"in_spec":"I","inputs":[0],"names":["image","a \"b\""],"out_spec":"O","outputs":[0,null,{"number":1}]})");
}

TEST(CallTree, IsEmptyWhereThereIsNothingToSay) {
  EXPECT_EQ(tree_of("[]", "[]", "{}"), "");
  EXPECT_EQ(tree_of("[]", "[]", R"({"in_spec": "I", "out_spec": null})"), "");
  EXPECT_EQ(tree_of(R"([{"user_input": {}}])", "[3]"), "") << "no argument";
  EXPECT_EQ(tree_of("[]", "[]", fmt::format(R"({{"in_spec": "{}", "out_spec": ""}})", std::string(1 << 20, 'x'))), "") << "endless";
}

}  // namespace
}  // namespace toroid
