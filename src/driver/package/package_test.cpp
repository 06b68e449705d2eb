#include "runtime/program/package.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/file/framing.h"
#include "base/machine/machine_for_test.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "runtime/program/executable.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

constexpr size_t kFooterBytes = 32;
constexpr const char* kCopyAgain = "\n  help: copy it again, or make it again with 'toroid compile MODEL -o FILE.so'";

// Adds a weight of so many elements, 1, 2, 3, …, to its input.
CompiledModel adding(int64_t elements) {
  std::string values;
  for (int64_t i = 1; i <= elements; ++i) values += fmt::format("{}{}", i == 1 ? "" : ", ", i);
  return compiled(
      fmt::format("program \"toy\"\nconstant 0 \"w\": f32[{0}] = [{1}]\ngraph(x: f32[{0}]) {{\n  w: f32[{0}] = constant(0)\n"
                  "  y = add(x, w)\n  return y\n}}\n",
                  elements, values));
}

// Of zeros.
double last_result(Executable& program, int64_t elements) {
  const HostTensor x(DType::F32, {elements});
  std::fill_n(const_cast<std::byte*>(x.bytes().data()), x.bytes().size(), std::byte{0});
  return program.run({&x, 1})[0].double_at(static_cast<size_t>(elements - 1));
}

class Packages : public testing::Test {
 protected:
  std::string refusal() const {
    const Error error = error_of([&] { Executable::load(path_, 1); });
    return fmt::format("{}{}", error.message(), error.help_text().empty() ? "" : "\n  help: " + error.help_text());
  }
  std::string refusal_of(const std::string& bytes) const {
    write_file_atomically(path_, std::string_view(bytes));
    return refusal();
  }

  TempFolder folder_;
  fs::path path_ = folder_.path() / "toy.so";
};

TEST_F(Packages, RunLikeTheModelItWasMadeFrom) {
  CompiledModel model = compiled(R"(
program "toy"
constant 0 "w": f32[3] = [1.5, -2, 0.25]
graph(x: f32[2, 3]) {
  w: f32[3] = constant(0)
  v: f32[1, 3] = reshape(w)
  u: f32[2, 3] = expand(v)
  y = mul(x, u)
  return y
})");
  write_package(path_, model.library, model.constants, model.isa);
  Executable executable = Executable::load(path_, 1);
  const HostTensor x = example_input("y", DType::F32, {2, 3});
  EXPECT_EQ(executable.run({&x, 1})[0].to_doubles(), evaluate(*model.program, {&x, 1})[0].to_doubles());
}

// `compile --emit-benchmark` writes the two as files.
TEST_F(Packages, MayHaveNeitherLibraryNorWeights) {
  const CompiledModel model = compiled("graph(x: f32[3]) {\n  y = exp(x)\n  return y\n}\n");
  write_file_atomically(folder_.path() / "exp.so", std::string_view(model.library));
  write_package(folder_.path() / "weights.bin", "", model.constants, model.isa);
  Executable executable = Executable::load(folder_.path() / "exp.so", folder_.path() / "weights.bin", 1, 0);
  HostTensor x(DType::F32, {3});
  std::fill_n(x.mutable_data<float>(), 3, 0.0f);
  EXPECT_EQ(executable.run({&x, 1})[0].to_doubles(), std::vector<double>(3, 1.0));
}

TEST_F(Packages, DamageOfEachPartIsRefusedByName) {
  const CompiledModel model = adding(3);
  write_package(path_, model.library, model.constants, model.isa);
  const std::string good = read_file(path_), name = path_.string();
  std::string_view footer = std::string_view(good).substr(good.size() - kFooterBytes);
  const size_t description = good.size() - kFooterBytes - *take_number(footer);
  const size_t weights = description - 64;
  auto flipped = [&](size_t at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    return bad;
  };
  const std::string library_words =
      fmt::format("{} is damaged: its library, the first {} bytes, is not as it was written{}", name, weights, kCopyAgain);
  for (const size_t at : {size_t{0}, size_t{100}, model.library.size() / 2, weights - 1})
    EXPECT_EQ(refusal_of(flipped(at)), library_words) << at;
  const std::string weights_words = fmt::format("{} is damaged: its weights, between the bytes {} and {}, are not as they were written{}",
                                                name, weights, description, kCopyAgain);
  for (const size_t at : {weights, weights + 11, weights + 12, description - 1}) EXPECT_EQ(refusal_of(flipped(at)), weights_words) << at;
  const std::string description_words =
      fmt::format("{} is damaged: its description, which lies at its end, is not as it was written{}", name, kCopyAgain);
  for (size_t at = description; at < good.size() - 8; ++at) EXPECT_EQ(refusal_of(flipped(at)), description_words) << at;
  const std::string none_words =
      fmt::format("{} is not a program compiled by toroid, or is incomplete\n  help: make it with 'toroid compile MODEL -o FILE.so'", name);
  for (size_t at = good.size() - 8; at < good.size(); ++at) EXPECT_EQ(refusal_of(flipped(at)), none_words) << at;
  for (const std::string& bad : {good + "x", good + good.substr(0, 64), good.substr(0, good.size() - 1), good.substr(0, description),
                                 good.substr(0, weights), good.substr(0, 1), std::string()}) {
    EXPECT_EQ(refusal_of(bad), none_words) << bad.size();
  }
  // Bytes added before the footer, or parts of it said twice.
  EXPECT_NE(refusal_of(good.substr(0, description) + "x" + good.substr(description)), "no error");
  EXPECT_NE(refusal_of(good + good.substr(description)), "no error");
  EXPECT_EQ(refusal_of(good), "no error");
}

TEST_F(Packages, OfLargeWeightsTheDamagedPartIsNamed) {
  const std::string library = "no library";  // it is checked, and not opened
  const std::vector<std::byte> large(5'500'000, std::byte{7});
  const Span<const std::byte> constants[] = {large, large};
  write_package(path_, library, constants, Isa{});
  RuntimePool pool(2);
  const std::string good = read_file(path_);
  uint64_t offset = 0;
  EXPECT_EQ(open_package(path_, pool).take_weight(offset, "w", 5'500'000).size(), 5'500'000u);
  EXPECT_EQ(offset, 5'500'032u);
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t at : {size_t{64}, 64 + kMiB - 1, 64 + kMiB, 64 + 7 * kMiB + 5, size_t{64 + 2 * 5'500'032 - 1}}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 64);
    write_file_atomically(path_, std::string_view(bad));
    const size_t begin = 64 + (at - 64) / kMiB * kMiB, end = std::min(begin + kMiB, 64 + size_t{2 * 5'500'032});
    EXPECT_NE(error_of([&] { open_package(path_, pool); })
                  .message()
                  .find(fmt::format("its weights, between the bytes {} and {}, are not", begin, end)),
              std::string::npos)
        << at;
  }
}

TEST_F(Packages, OfTheFormatBeforeChecksumsAreRefused) {
  const CompiledModel model = adding(3);
  std::string old(model.library);
  old.resize((old.size() + 63) / 64 * 64);
  const size_t offset = old.size();
  old.append(reinterpret_cast<const char*>(model.constants[0].data()), model.constants[0].size());
  old.resize((old.size() + 63) / 64 * 64);
  const size_t size = old.size() - offset;
  old += "TOROIDW1";
  append_number(old, offset);
  append_number(old, size);
  EXPECT_EQ(refusal_of(old), path_.string() +
                                 " was compiled by an older toroid, which did not write checksums\n"
                                 "  help: make it again with 'toroid compile MODEL -o FILE.so'");
}

// Nothing of it runs, its constructors neither, which are the first code of a library.
TEST_F(Packages, ForOtherInstructionsAreRefusedBeforeAnyCodeRuns) {
  const CompiledModel model = adding(3);
  const std::string deadly =
      TestSession::get().toolchain().compile_shared("__attribute__((constructor)) static void die() { __builtin_trap(); }");
  const MachineScope machine("baseline");
  const Isa other = parse_isa("avx512+fp16+amx");
  write_package(path_, deadly, model.constants, other);
  const Error error = error_of([&] { Executable::load(path_, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(),
            path_.string() + " needs the instruction set avx512+fp16+amx; this machine has baseline, and lacks avx512, fp16, amx");
  EXPECT_EQ(error.help_text(), "for this machine compile with TOROID_ISA=baseline, or without TOROID_ISA on it");
  write_package(path_, deadly, model.constants, Isa{});
  std::string damaged = read_file(path_);
  damaged[200] = static_cast<char>(damaged[200] ^ 1);
  EXPECT_NE(refusal_of(damaged).find("is damaged: its library"), std::string::npos);
}

TEST_F(Packages, ACompiledModelForOtherInstructionsIsNotLoaded) {
  const MachineScope machine("baseline");
  const ScopedVariable isa("TOROID_ISA", "avx512+amx");
  CompileSession session(false);
  const CompiledModel model = session.compile(parse_text("graph(x: f32[3]) {\n  y = exp(x)\n  return y\n}\n"));
  EXPECT_EQ(model.isa.name(), "avx512+amx");
  EXPECT_NE(error_of([&] { model.load(1); })
                .message()
                .find(" needs the instruction set avx512+amx; this machine has baseline, and lacks avx512, amx"),
            std::string::npos);
}

TEST_F(Packages, CutShortWhileInUseAreAnErrorOfTheNextCall) {
  constexpr int64_t kElements = 300'000;  // more than what is copied
  const CompiledModel model = adding(kElements);
  write_package(path_, model.library, model.constants, model.isa);
  const pid_t child = ::fork();
  if (child == 0) {
    answer_bus_errors();
    Executable program = Executable::load(path_, 1);
    if (last_result(program, kElements) != kElements) ::_exit(1);
    if (::truncate(path_.c_str(), 0) != 0) ::_exit(2);
    for (int i = 0; i < 2; ++i) {
      const Error error = error_of([&] { last_result(program, kElements); });
      if (error.message() != path_.string() + " was changed while it was in use") ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace toroid
