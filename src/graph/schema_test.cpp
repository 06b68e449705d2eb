#include "graph/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/error.h"

namespace toroid {
namespace {

std::string error_of_schema(std::string_view text) {
  try {
    parse_schema(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Schema, AllEmbeddedSchemasParse) {
  const std::vector<std::string_view> names = schema_names();
  EXPECT_GT(names.size(), 3500u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (std::string_view name : names) {
    const Schema* schema = nullptr;
    ASSERT_NO_THROW(schema = find_schema(name)) << name;
    ASSERT_NE(schema, nullptr) << name;
    EXPECT_EQ(schema->name, name);
  }
}

TEST(Schema, ReadsArgumentsAndDefaults) {
  const Schema& schema = *find_schema("aten::add.Tensor");
  ASSERT_EQ(schema.parameters.size(), 3u);
  EXPECT_EQ(schema.parameters[0].name, "self");
  EXPECT_EQ(schema.parameters[0].type, ArgType::Tensor);
  EXPECT_FALSE(schema.parameters[1].keyword_only);
  EXPECT_TRUE(schema.parameters[2].keyword_only);
  EXPECT_EQ(schema.parameters[2].type, ArgType::Scalar);
  EXPECT_EQ(schema.parameters[2].default_value, Argument(sym::Expr(1)));
  ASSERT_EQ(schema.results.size(), 1u);
  EXPECT_EQ(schema.results[0].type, ArgType::Tensor);
  EXPECT_NE(std::find(schema.tags.begin(), schema.tags.end(), "pointwise"), schema.tags.end());
  EXPECT_FALSE(schema.mutates());
  EXPECT_FALSE(schema.is_view());
}

TEST(Schema, DefaultsHaveTheTypeOfTheirArgument) {
  auto default_of = [](std::string_view op, std::string_view argument) {
    for (const Parameter& p : find_schema(op)->parameters) {
      if (p.name == argument) return p.default_value.value();
    }
    return Argument(std::string("no such argument"));
  };
  EXPECT_EQ(default_of("aten::max_pool2d", "padding"), Argument(ExprList{0, 0}));
  EXPECT_EQ(default_of("aten::max_pool2d", "stride"), Argument(ExprList{}));
  EXPECT_EQ(default_of("aten::conv2d", "stride"), Argument(ExprList{1, 1}));
  EXPECT_EQ(default_of("aten::randperm", "dtype"), Argument(DType::I64));
  EXPECT_EQ(default_of("aten::layer_norm", "eps"), Argument(1.0000000000000001e-05));
  EXPECT_EQ(default_of("aten::linalg_norm", "dim"), Argument(None{}));
  EXPECT_EQ(default_of("aten::conv2d.padding", "padding"), Argument(std::string("valid")));
  EXPECT_EQ(default_of("aten::contiguous", "memory_format"), Argument(MemoryFormat::Contiguous));
  EXPECT_EQ(default_of("aten::mean.dim", "keepdim"), Argument(false));
}

TEST(Schema, KnowsListsOptionalsAndFixedLengths) {
  const Schema& index = *find_schema("aten::index.Tensor");
  EXPECT_TRUE(index.parameters[1].is_list);
  EXPECT_TRUE(index.parameters[1].elements_optional);
  EXPECT_FALSE(index.parameters[1].is_optional);
  const Schema& conv = *find_schema("aten::conv2d");
  EXPECT_TRUE(conv.parameters[2].is_optional);
  EXPECT_EQ(conv.parameters[3].fixed_length, 2);
  EXPECT_EQ(find_schema("aten::linalg_norm")->parameters[2].fixed_length, 1);
  EXPECT_TRUE(find_schema("aten::linalg_norm")->parameters[2].is_optional);
}

TEST(Schema, KnowsViewsAndMutation) {
  for (const char* op : {"aten::view", "aten::split.Tensor", "aten::unbind.int", "aten::slice.Tensor", "aten::t"}) {
    EXPECT_TRUE(find_schema(op)->is_view()) << op;
    EXPECT_FALSE(find_schema(op)->mutates()) << op;
  }
  for (const char* op : {"aten::add_.Tensor", "aten::relu_", "aten::add.out", "aten::_foreach_add_.Scalar"}) {
    EXPECT_FALSE(find_schema(op)->is_view()) << op;
    EXPECT_TRUE(find_schema(op)->mutates()) << op;
  }
  EXPECT_TRUE(find_schema("aten::split.Tensor")->results[0].is_list);
  EXPECT_EQ(find_schema("aten::max.dim")->results[1].name, "indices");
}

TEST(Schema, FindsTheDefaultOverloadInBothSpellings) {
  EXPECT_EQ(find_schema("aten::relu"), find_schema("aten::relu.default"));
  EXPECT_NE(find_schema("aten::relu"), nullptr);
  EXPECT_EQ(find_schema("aten::no_such_operator"), nullptr);
  EXPECT_EQ(find_schema(""), nullptr);
}

TEST(Schema, ThreadsSeeOneSchema) {
  std::vector<const Schema*> seen(8);
  std::vector<std::thread> threads;
  for (const Schema*& slot : seen) threads.emplace_back([&slot] { slot = find_schema("aten::_softmax_backward_data"); });
  for (std::thread& thread : threads) thread.join();
  for (const Schema* schema : seen) EXPECT_EQ(schema, seen[0]);
}

TEST(Schema, BadTextIsRefusedWithItsOffset) {
  EXPECT_EQ(error_of_schema("aten::f(Tensor x"), "bad operator schema 'aten::f(Tensor x': expected ')' at offset 16");
  EXPECT_EQ(error_of_schema("aten::f(Tenser x) -> Tensor"),
            "bad operator schema 'aten::f(Tenser x) -> Tensor': expected a known type at offset 8");
  EXPECT_EQ(error_of_schema("aten::f(int[2] x=[1, ) -> ()"),
            "bad operator schema 'aten::f(int[2] x=[1, ) -> ()': expected a number at offset 21");
  EXPECT_EQ(error_of_schema(""), "bad operator schema '': expected an operator name at offset 0");
}

}  // namespace
}  // namespace toroid
