#include "frontend/json_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace toroid {
namespace {

std::string report_of_json(std::string_view text) {
  try {
    parse_json(text, "test.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
    return error.report();
  }
  return "accepted";
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonReader, ReadsEveryKindInOrder) {
  const JsonDocument document = parse_json(R"({"z": [1, -2.5, true, null, "aé\n"], "a": {"b": {}}, "e": []})", "t");
  const auto members = document.root().members();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].key, "z");
  EXPECT_EQ(members[1].key, "a");
  const auto z = members[0].value.elements();
  EXPECT_EQ(z[0].as_integer(), 1);
  EXPECT_EQ(z[1].as_real(), -2.5);
  EXPECT_TRUE(z[2].as_bool());
  EXPECT_TRUE(z[3].is_null());
  EXPECT_EQ(z[4].as_string(), "a\xc3\xa9\n");
  EXPECT_TRUE(document.root().at("a").at("b").members().empty());
  EXPECT_TRUE(document.root().at("e").elements().empty());
  EXPECT_EQ(document.root().find("missing"), nullptr);
}

TEST(JsonReader, KeepsTheWholeRangeOfIntegers) {
  const JsonDocument document = parse_json("[9223372036854775807, -9223372036854775808]", "t");
  EXPECT_EQ(document.root().elements()[0].as_integer(), INT64_MAX);
  EXPECT_EQ(document.root().elements()[1].as_integer(), INT64_MIN);
  EXPECT_EQ(report_of_json("[9223372036854775808]"),
            "error: integer 9223372036854775808 does not fit in 64 bits\n"
            "  at byte 21 of the JSON text\n"
            "  while reading test.json\n"
            "  help: write the file again: it is damaged, or comes from a version that this toroid does not know");
  EXPECT_NE(report_of_json("[99999999999999999999999]").find("does not fit in 64 bits"), std::string::npos);
}

TEST(JsonReader, LimitsNesting) {
  EXPECT_EQ(report_of_json(nested(kMaxJsonDepth)), "accepted");
  EXPECT_NE(report_of_json(nested(kMaxJsonDepth + 1)).find("error: JSON is nested deeper than 100\n"), std::string::npos);
  EXPECT_NE(report_of_json(std::string(1000000, '[')).find("nested deeper than 100"), std::string::npos);
}

TEST(JsonReader, RefusesDuplicateKeys) {
  EXPECT_NE(report_of_json(R"({"a": 1, "a": 2})").find("error: duplicate key 'a'\n  at byte 14"), std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\": 1, ";
  EXPECT_NE(report_of_json(many + "\"k50\": 1}").find("duplicate key 'k50'"), std::string::npos);
  EXPECT_EQ(report_of_json(R"([{"a": 1}, {"a": 1}])"), "accepted");
}

TEST(JsonReader, RefusesMalformedText) {
  EXPECT_NE(report_of_json("[1e400]").find("invalid JSON: number overflow parsing '1e400'"), std::string::npos);
  EXPECT_NE(report_of_json("[\"\xff\"]").find("invalid JSON: "), std::string::npos);
  EXPECT_NE(report_of_json("[\"\xc3\"]").find("ill-formed UTF-8"), std::string::npos);
  EXPECT_NE(report_of_json("[1, ").find("unexpected end of input"), std::string::npos);
  EXPECT_NE(report_of_json("[1] 2").find("expected end of input"), std::string::npos);
  EXPECT_NE(report_of_json("").find("invalid JSON"), std::string::npos);
  EXPECT_NE(report_of_json("[NaN]").find("invalid JSON"), std::string::npos);
  EXPECT_NE(report_of_json("{\"a\": 1,}").find("invalid JSON"), std::string::npos);
}

TEST(JsonReader, AccessorsNameWhatWasExpectedAndWhere) {
  const JsonDocument document = parse_json(R"({"a": [1]})", "t");
  try {
    document.root().at("a").as_string();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.report(),
              "error: expected a string, found an array\n"
              "  at byte 6 of the JSON text\n"
              "  help: write the file again: it is damaged, or comes from a version that this toroid does not know");
  }
  EXPECT_THROW(document.root().at("b"), Error);
}

}  // namespace
}  // namespace toroid
