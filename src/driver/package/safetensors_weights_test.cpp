#include "runtime/program/safetensors_weights.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/file/fd.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "frontend/safetensors.h"
#include "runtime/program/executable.h"
#include "runtime/program/package.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

std::string file_of(std::string_view header, std::string_view data) {
  std::string bytes(sizeof(uint64_t), '\0');
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes.append(header).append(data);
}

std::string refusal(std::string_view header, std::string_view data = "") {
  const std::string file = file_of(header, data);
  const Error error = error_of([&] { parse_weights(file); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidInput);
  return error.message();
}

TEST(SafetensorsWeights, AreReadByName) {
  const std::string file = file_of(
      " {\"__metadata__\": {\"a\": \"b\"}, \"w\\u00e9\\n\\ud83d\\ude00\" : { \"shape\":[2,1], \"data_offsets\": [0, 8], \"dtype\":\"F32\"},"
      "\"none\":{\"dtype\":\"I8\",\"shape\":[0,9],\"data_offsets\":[8,8]},\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}"
      "}  ",
      "12345678x");
  const std::vector<WeightInFile> weights = parse_weights(file);
  ASSERT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights[0].name, "w\xc3\xa9\n\xf0\x9f\x98\x80");
  EXPECT_EQ(weights[0].dtype, DType::F32);
  EXPECT_EQ(weights[0].sizes, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(weights[0].bytes.size(), 8u);
  EXPECT_EQ(weights[1].bytes.size(), 0u);
  EXPECT_EQ(static_cast<char>(weights[2].bytes[0]), 'x');
  EXPECT_TRUE(parse_weights(file_of("{}", "")).empty());
}

// What its own writer makes, and what it reads, is what the other reader reads.
TEST(SafetensorsWeights, AreWhatTheCompilerWrites) {
  const float numbers[] = {1, 2, 3};
  const SafeTensor tensors[] = {{"\"b\" \\ \x01", DType::F32, {3}, std::as_bytes(std::span(numbers))},
                                {"a", DType::I8, {4}, std::as_bytes(std::span("abc"))}};
  const std::string file = format_safetensors(tensors, {{"made", "here"}});
  const std::vector<WeightInFile> weights = parse_weights(file);
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].name, tensors[0].name);
  EXPECT_EQ(std::memcmp(weights[0].bytes.data(), numbers, sizeof numbers), 0);
}

TEST(SafetensorsWeights, OfHostileFilesAreRefused) {
  const std::string_view tensor = R"("dtype":"U8","shape":[2],"data_offsets":[0,2])";
  const auto one = [&](std::string_view fields) { return fmt::format("{{\"t\":{{{}}}}}", fields); };
  EXPECT_EQ(error_of([] { parse_weights("short"); }).message(), "the file is no safetensors file, or is cut off");
  EXPECT_EQ(error_of([] { parse_weights(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)); }).kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(refusal(""), "the header has no '{' here");
  EXPECT_EQ(refusal("[]"), "the header has no '{' here");
  EXPECT_EQ(refusal("{} x"), "the header goes on behind its end");
  EXPECT_EQ(refusal("{\"t"), "the header ends within a text");
  EXPECT_EQ(refusal("{\"t\":1}"), "the header has no '{' here");
  EXPECT_EQ(refusal("{\"\\x\":{}}"), "a text has a wrong escape");
  EXPECT_EQ(refusal("{\"\\ud83d\":{}}"), "a text has half a surrogate pair");
  EXPECT_EQ(refusal("{\"\\udc00\":{}}"), "a text has half a surrogate pair");
  EXPECT_EQ(refusal("{\"a\nb\":{}}"), "a text has a control character");
  EXPECT_EQ(refusal(one("")), "tensor 't' lacks a field");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","dtype":"U8")")), "tensor 't' has the field 'dtype', which is unknown or there twice");
  EXPECT_EQ(refusal(one(R"("dtype":"Q4")")), "tensor 't' has the unknown dtype 'Q4'");
  EXPECT_EQ(refusal(one(R"("shape":[-1])")), "the header has no whole number here");
  EXPECT_EQ(refusal(one(R"("shape":[01])")), "the header has no whole number here");
  EXPECT_EQ(refusal(one(R"("shape":[1.5])")), "the header has no ']' here");
  EXPECT_EQ(refusal(one(R"("shape":[9223372036854775808])")), "a number has more than 63 bits");
  EXPECT_EQ(refusal(one(tensor)), "tensor 't' lies at [0, 2), outside the 0 bytes of data");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[2],"data_offsets":[2,0])"), "ab"),
            "tensor 't' lies at [2, 0), outside the 2 bytes of data");
  EXPECT_EQ(refusal(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,2])"), "ab"),
            "tensor 't' has 2 bytes, and another size by its shape");
  EXPECT_EQ(refusal(one(tensor), "abc"), "bytes at the file's end belong to no tensor");
  EXPECT_EQ(refusal(fmt::format("{{\"t\":{{{0}}},\"u\":{{{0}}}}}", tensor), "ab"), "tensors overlap, or leave bytes of the file to none");
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
            "tensor 't' is there twice");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":1}})"), "the header has no '\"' here");
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  EXPECT_EQ(refusal(one(fmt::format("\"shape\":[{}]", dims))), "tensor 't' has over 64 dimensions");
}

class WeightsByName : public testing::Test {
 protected:
  // y = (x + w) * v, and the package without weights.
  void SetUp() override {
    const CompiledModel model = compiled(
        "program \"toy\"\nconstant 0 \"w\": f32[2, 3] = [1, 2, 3, 4, 5, 6]\nconstant 1 \"v\": f32[2, 3] = [1, 10, 100, 1, 1, 1]\n"
        "graph(x: f32[2, 3]) {\n  w: f32[2, 3] = constant(0)\n  v: f32[2, 3] = constant(1)\n  s = add(x, w)\n  y = mul(s, v)\n  return "
        "y\n}\n");
    write_package(package_, model.library, {}, model.isa);
  }
  double result(size_t i) const {
    Executable program = Executable::load(package_, weights_, 1, 0);
    const std::vector<float> zeros(6);
    const HostTensor x(DType::F32, {2, 3}, std::as_bytes(std::span(zeros)), nullptr);
    return program.run({&x, 1})[0].double_at(i);
  }
  void write(std::vector<SafeTensor> tensors) const { write_safetensors(weights_, tensors); }
  std::string refusal() const {
    return error_of([&] { result(0); }).message();
  }

  TempFolder folder_;
  fs::path package_ = folder_.path() / "toy.so", weights_ = folder_.path() / "other.safetensors";
  const std::vector<float> w_ = {7, 8, 9, 10, 11, 12}, v_ = {1, 2, 3, 4, 5, 6};
  SafeTensor tensor_w_ = {"w", DType::F32, {2, 3}, std::as_bytes(std::span(w_))},
             tensor_v_ = {"v", DType::F32, {2, 3}, std::as_bytes(std::span(v_))};
};

TEST_F(WeightsByName, AreTakenInWhateverOrder) {
  write({tensor_v_, tensor_w_, {"more", DType::I8, {1}, std::as_bytes(std::span("x", 1))}});
  EXPECT_EQ(result(0), 7);
  EXPECT_EQ(result(2), 27);
  EXPECT_EQ(result(5), 72);
}

TEST_F(WeightsByName, MayLieAtAnyAddress) {
  const std::string data(reinterpret_cast<const char*>(w_.data()), 24);
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[1,25]},)"
      R"("v":{"dtype":"F32","shape":[2,3],"data_offsets":[25,49]}})";
  write_file_atomically(weights_, std::string_view(file_of(header, "x" + data + data)));
  EXPECT_EQ(result(5), 144);
}

TEST_F(WeightsByName, AreFoundBesideThePackage) {
  weights_ = fs::path(package_).replace_extension(".safetensors");
  write({tensor_w_, tensor_v_});
  weights_ = package_;
  EXPECT_EQ(result(5), 72);
}

TEST_F(WeightsByName, MustBeThoseOfTheProgram) {
  write({tensor_w_});
  EXPECT_EQ(refusal(), "the file has no weight 'v'");
  tensor_v_.sizes = {3, 2};
  write({tensor_w_, tensor_v_});
  EXPECT_EQ(refusal(), "the weight 'v' is f32[3, 2] in the file, and f32[2, 3] in the program");
  tensor_v_.sizes = {2, 3};
  tensor_v_.dtype = DType::I32;
  write({tensor_w_, tensor_v_});
  EXPECT_EQ(refusal(), "the weight 'v' is i32[2, 3] in the file, and f32[2, 3] in the program");
}

// A table of over 4 GiB, nearly all of it a hole of the file: its last rows, and a weight behind it, lie beyond 2^32 bytes. Of the file what
// the program reads is read, and the rest takes neither memory nor disk.
TEST(SparseWeights, AreReadWhereTheyLie) {
  constexpr int64_t kRows = (int64_t{1} << 28) + 1000, kBytes = kRows * 4 * int64_t{sizeof(float)};
  static_assert(kBytes > int64_t{1} << 32);
  void* const zeros = ::mmap(nullptr, static_cast<size_t>(kBytes), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  const std::string text = fmt::format(
      "program \"table\"\nconstant 0 \"table\": f32[{0}, 4] = external\nconstant 1 \"bias\": f32[4] = external\n"
      "graph(ids: i64[3]) {{\n  w: f32[{0}, 4] = constant(0)\n  b: f32[4] = constant(1)\n  e: f32[3, 4] = aten::embedding(w, ids)\n"
      "  y: f32[3, 4] = aten::add.Tensor(e, b)\n  return y\n}}\n",
      kRows);
  Program program = parse_text(text, [&](ConstantData& data) {
    const size_t bytes = data.name == "table" ? static_cast<size_t>(kBytes) : 16;
    data.bytes = {static_cast<const std::byte*>(zeros), bytes};
  });
  const CompiledModel model = TestSession::get().compile(std::move(program));
  const TempFolder folder;
  const fs::path package = folder.path() / "table.so", weights = folder.path() / "table.safetensors";
  write_package(package, model.library, {}, model.isa);

  const std::string header = fmt::format(
      "{{\"table\":{{\"dtype\":\"F32\",\"shape\":[{},4],\"data_offsets\":[0,{}]}},"
      "\"bias\":{{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[{},{}]}}}}",
      kRows, kBytes, kBytes, kBytes + 16);
  std::string begin = file_of(header, "");
  begin = file_of(header + std::string((64 - begin.size() % 64) % 64, ' '), "");
  {
    std::ofstream file(weights, std::ios::binary);
    file << begin;
    const float last[] = {1, 2, 3, 4, 100, 200, 300, 400};  // the table's last row, and the bias
    file.seekp(static_cast<std::streamoff>(begin.size()) + kBytes - 16);
    file.write(reinterpret_cast<const char*>(last), sizeof last);
  }
  struct stat info;
  ASSERT_EQ(::stat(weights.c_str(), &info), 0);
  EXPECT_GT(info.st_size, int64_t{1} << 32);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);

  const auto resident = [] {
    int64_t pages = 0, held = 0;
    std::ifstream("/proc/self/statm") >> pages >> held;
    return held * ::sysconf(_SC_PAGESIZE);
  };
  const int64_t before = resident();
  Executable executable = Executable::load(package, weights, 1, 0);
  const std::vector<int64_t> ids = {0, kRows - 1, kRows - 2};
  const HostTensor input(DType::I64, {3}, std::as_bytes(std::span(ids)), nullptr);
  const std::vector<HostTensor> results = executable.run({&input, 1});
  for (size_t i = 0; i < 12; ++i) {
    const double bias = 100.0 * static_cast<double>(i % 4 + 1);
    EXPECT_EQ(results[0].double_at(i), i / 4 == 1 ? bias + static_cast<double>(i % 4 + 1) : bias) << i;
  }
  EXPECT_LT(resident() - before, 64 << 20);
  ::munmap(zeros, static_cast<size_t>(kBytes));
}

}  // namespace
}  // namespace toroid
