#include "support/text/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace toroid {
namespace {

TEST(JsonWriter, WritesWhatIsNested) {
  JsonWriter json;
  json.begin_object();
  json.add("name", "a \"b\"");
  json.begin_array("empty");
  json.end();
  json.begin_object("inner");
  json.add("yes", true);
  json.add("n", int64_t{-9223372036854775807} - 1);
  json.add("large", uint64_t{18446744073709551615u});
  json.add("x", 0.1);
  json.add("far", 1e300);
  json.add("none", std::numeric_limits<double>::infinity());
  json.end();
  json.add_all("list", std::vector<std::string>{"a:", "[", "{"});
  json.begin_array("pairs");
  for (int i = 0; i < 2; ++i) {
    json.begin_array();
    json.add(i);
    json.add(std::string("x"));
    json.end();
  }
  json.end();
  json.end();
  EXPECT_EQ(
      json.take(),
      "{\"name\":\"a \\\"b\\\"\",\"empty\":[],\"inner\":{\"yes\":true,\"n\":-9223372036854775808,\"large\":18446744073709551615,\"x\":0.1,"
      "\"far\":1e+300,\"none\":null},\"list\":[\"a:\",\"[\",\"{\"],\"pairs\":[[0,\"x\"],[1,\"x\"]]}");
}

TEST(JsonWriter, TextsAreEscapedAndAlwaysUtf8) {
  EXPECT_EQ(json_string(std::string_view("\\ \n \t \0 \x7f", 9)), "\"\\\\ \\n \\u0009 \\u0000 \x7f\"");
  EXPECT_EQ(json_string("\u00e9\u20ac\U0001f600\U0010ffff"), "\"\u00e9\u20ac\U0001f600\U0010ffff\"");
  // Cut short, overlong, a surrogate, beyond Unicode, a byte that never occurs: each wrong byte becomes one U+FFFD.
  EXPECT_EQ(json_string("\xc3"), "\"\ufffd\"");
  EXPECT_EQ(json_string("\xe2\x82"), "\"\ufffd\ufffd\"");
  EXPECT_EQ(json_string("\xc0\x80"), "\"\ufffd\ufffd\"");
  EXPECT_EQ(json_string("\xe0\x80\x80"), "\"\ufffd\ufffd\ufffd\"");
  EXPECT_EQ(json_string("\xed\xa0\x80"), "\"\ufffd\ufffd\ufffd\"");
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), "\"\ufffd\ufffd\ufffd\ufffd\"");
  EXPECT_EQ(json_string("\xff"
                        "a"),
            "\"\ufffda\"");
}

}  // namespace
}  // namespace toroid
