#include "frontend/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"

namespace toroid {
namespace {

std::string file_of(std::string_view header, size_t data_bytes = 0) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + std::string(header) + std::string(data_bytes, '\0');
}

SafeTensors parse(const std::string& file) { return parse_safetensors(std::as_bytes(std::span(file)), nullptr, "x.safetensors"); }

std::string report_of_file(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
    EXPECT_NE(error.report().find("  while reading x.safetensors"), std::string::npos) << error.report();
    EXPECT_NE(error.report().find("  at byte "), std::string::npos) << error.report();
    return error.report();
  }
  return "accepted";
}

#define EXPECT_REPORTS(file, words) \
  EXPECT_TRUE(report_of_file(file).starts_with(std::string("error: ") + words "\n")) << report_of_file(file)

TEST(SafeTensors, RoundTripsEveryDtypeInOrder) {
  const DType dtypes[] = {DType::Bool, DType::F64,  DType::U8,  DType::F32, DType::I8,
                          DType::F16,  DType::BF16, DType::I16, DType::I32, DType::I64};
  const std::string data(64, 'x');
  std::vector<SafeTensor> tensors;
  for (DType dtype : dtypes) {
    const size_t bytes = static_cast<size_t>(size_bytes(dtype)) * 3;
    tensors.push_back({"z" + std::to_string(tensors.size()), dtype, {3, 1}, std::as_bytes(std::span(data)).first(bytes)});
  }
  tensors.push_back({"empty", DType::F32, {0, 5}, {}});
  tensors.push_back({"scalar \"quoted\"", DType::F32, {}, std::as_bytes(std::span(data)).first(4)});
  const std::string file = format_safetensors(tensors, {{"format", "pt"}});
  const SafeTensors again = parse(file);
  EXPECT_EQ(again.metadata.at("format"), "pt");
  ASSERT_EQ(again.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].name, tensors[i].name);
    EXPECT_EQ(again.tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(again.tensors[i].sizes, tensors[i].sizes);
    EXPECT_TRUE(std::ranges::equal(again.tensors[i].bytes, tensors[i].bytes));
    const ptrdiff_t place = again.tensors[i].bytes.data() - std::as_bytes(std::span(file)).data();
    EXPECT_EQ(place % size_bytes(tensors[i].dtype), 0) << "tensors lie aligned";
  }
  EXPECT_EQ(again.find("empty")->bytes.size(), 0u);
  EXPECT_EQ(again.find("none"), nullptr);
}

TEST(SafeTensors, RefusesBadHeaders) {
  EXPECT_REPORTS("abc", "3 bytes are too few for a safetensors file");
  EXPECT_REPORTS(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10),
                 "a header of 9223372036854775807 bytes is over the limit of 100000000");
  EXPECT_REPORTS(std::string("\x20\0\0\0\0\0\0\0{}", 10), "the header of 32 bytes is longer than the file of 10");
  EXPECT_NE(report_of_file(file_of("{")).find("error: invalid JSON"), std::string::npos);
  EXPECT_REPORTS(file_of("[]"), "expected an object, found an array");
  EXPECT_REPORTS(file_of(std::string(200, '[')), "JSON is nested deeper than 100");
  const std::string tensor = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_REPORTS(file_of(R"({"a":)" + tensor + R"(,"a":)" + tensor + "}", 1), "duplicate key 'a'");
  EXPECT_EQ(report_of_file(file_of(R"({"a":)" + tensor + "}", 1)), "accepted");
  EXPECT_EQ(report_of_file(file_of("{}")), "accepted");
}

TEST(SafeTensors, RefusesBadTensors) {
  const auto one = [](std::string_view fields, size_t data_bytes) { return file_of("{\"a\":{" + std::string(fields) + "}}", data_bytes); };
  EXPECT_REPORTS(one(R"("dtype":"Q4","shape":[1],"data_offsets":[0,1])", 1), "tensor 'a' has the unknown dtype 'Q4'");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[1])", 1), "an object lacks the key 'data_offsets'");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", 1), "tensor 'a' has a negative size");
  EXPECT_REPORTS(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4), "tensor 'a' needs 8 bytes and has 4");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[8],"data_offsets":[0,8])", 4), "tensor 'a' lies at [0, 8), outside the 4 bytes of data");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[1],"data_offsets":[2,1])", 4), "tensor 'a' lies at [2, 1), outside the 4 bytes of data");
  EXPECT_REPORTS(one(R"("dtype":"F64","shape":[4611686018427387904,8],"data_offsets":[0,4])", 4),
                 "the size of tensor 'a' overflows 63 bits");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", 2), "tensor 'a' leaves a hole before it");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])", 3), "2 bytes after the last tensor belong to none");
  EXPECT_REPORTS(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)", 1), "tensor 'a' has an unknown field 'x'");
  EXPECT_REPORTS(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                         3),
                 "tensor 'b' overlaps another");
  std::string deep = R"("dtype":"U8","shape":[1)";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_REPORTS(one(deep + R"(],"data_offsets":[0,1])", 1), "tensor 'a' has 65 dimensions, and the limit is 64");
}

}  // namespace
}  // namespace toroid
