// The command as a user runs it, in a folder and with a cache of its own: the fixture of the tests in this folder and of cli_test.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file/file.h"
#include "frontend/archive/zip_for_test.h"
#include "frontend/archive/zip_reader.h"
#include "frontend/safetensors.h"
#include "support/pattern_for_test.h"
#include "support/process/subprocess.h"

namespace toroid {

namespace fs = std::filesystem;

inline const fs::path kDigits = fs::path(TOROID_SOURCE_DIR) / "examples/digits";

inline void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// What many tests would have the compiler do again, once: what it makes of the digits model for `toroid compile` and `toroid run`, as a
// base (docs/cache.md) under each test's cache; and a cache that holds what was learnt about the compiler and nothing else, which each
// test has a copy of. Everything but the compiler's own work is done anew.
class CompiledOnce {
 public:
  static const CompiledOnce& get() {
    static const CompiledOnce instance;
    return instance;
  }
  fs::path base() const { return folder_.path() / "base"; }
  fs::path store_of_probes() const { return folder_.path() / "probes"; }

 private:
  CompiledOnce() {
    const std::string model = (kDigits / "digits.pt2").string();
    toroid(store_of_probes(), {"compile", model, "-o", "out.so", "--no-cache", "--cxxflag=-O0"});
    fs::copy(store_of_probes(), folder_.path() / "store");
    toroid(folder_.path() / "store", {"compile", model, "-o", "out.so"});
    toroid(folder_.path() / "store", {"run", model, "--inputs", (kDigits / "one.safetensors").string(), "--outputs", "out.safetensors"});
    toroid(folder_.path() / "store", {"cache", "export", base().string(), "--kind", "library"});
  }
  void toroid(const fs::path& store, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), TOROID_COMMAND);
    const ProcessResult result = run_process({.argv = arguments,
                                              .folder = folder_.path(),
                                              .environment = {{"TOROID_CACHE_DIR", store.string()}},
                                              .timeout = std::chrono::minutes(2)});
    EXPECT_TRUE(result.ok()) << result.errors;
  }
  TempFolder folder_{"toroid-cli-test-once"};
};

class Cli : public testing::Test {
 protected:
  struct Outcome {
    int exit_code;
    std::string errors;
    double seconds;
    std::string output;
  };

  explicit Cli(bool has_base = true) : has_base_(has_base) {}

  fs::path path(std::string_view name) const { return folder_.path() / name; }

  // Runs toroid in the test's folder, with a cache of its own. Progress is no part of the message.
  Outcome toroid(std::vector<std::string> arguments, std::vector<std::pair<std::string, std::string>> environment = {}) const {
    arguments.insert(arguments.begin(), TOROID_COMMAND);
    environment.push_back({"TOROID_CACHE_DIR", (cache_.path() / "store").string()});  // unless given: the first counts
    if (has_base_) environment.push_back({"TOROID_CACHE_BASE", CompiledOnce::get().base().string()});
    const ProcessResult result =
        run_process({.argv = arguments, .folder = folder_.path(), .environment = environment, .timeout = std::chrono::minutes(2)});
    std::string errors = replaced_matches(result.errors, "compiling kernels[^\n]*\n", "");
    replace_all(errors, kDigits.string(), "DIGITS");
    replace_all(errors, folder_.path().string(), "FOLDER");
    return {result.exit_code, errors, result.seconds, result.output};
  }

  // Fails with exactly this message and leaves no file behind but those that were there.
  void expect_refusal(const std::vector<std::string>& arguments, const std::string& message,
                      const std::vector<std::pair<std::string, std::string>>& environment = {}) const {
    const std::set<std::string> before = files();
    const Outcome outcome = toroid(arguments, environment);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.errors, message);
    EXPECT_EQ(files(), before);
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) names.insert(entry.path().string());
    return names;
  }

  // Writes the digits model with its entries changed; an entry for which `edit` returns false is left out.
  void write_edited_model(const std::function<bool(std::string_view name, std::string& data)>& edit) const {
    const ZipReader good = ZipReader::open(kDigits / "digits.pt2");
    ZipForTest zip;
    for (const ZipEntry& entry : good.entries()) {
      std::string data(good.read_text(entry));
      if (edit(entry.name, data)) zip.add(entry.name, data);
    }
    write_file_atomically(path("bad.pt2"), zip.build());
  }

  void write_input(std::vector<std::string> names, DType dtype, std::vector<int64_t> sizes) const {
    int64_t bytes = size_bytes(dtype);
    for (int64_t size : sizes) bytes *= size;
    const std::vector<std::byte> zeros(static_cast<size_t>(bytes));
    std::vector<SafeTensor> tensors;
    for (const std::string& name : names) tensors.push_back({name, dtype, sizes, zeros});
    write_safetensors(path("in.safetensors"), tensors);
  }

  std::vector<std::string> run_on_input_of(const std::string& file) const {
    return {"run", (kDigits / "digits.pt2").string(), "--inputs", (kDigits / file).string(), "--outputs", "out.safetensors"};
  }
  std::vector<std::string> run_on_input() const {
    return {"run", (kDigits / "digits.pt2").string(), "--inputs", "in.safetensors", "--outputs", "out.safetensors"};
  }

 protected:
  void SetUp() override {
    if (has_base_) fs::copy(CompiledOnce::get().store_of_probes(), cache_.path() / "store");
  }

 private:
  const bool has_base_;
  TempFolder folder_{"toroid-cli-test"};
  TempFolder cache_{"toroid-cli-test-cache"};
};

// Of what the cache holds and says: it begins with nothing.
class CliCache : public Cli {
 protected:
  CliCache() : Cli(false) {}
};

inline const std::vector<std::string> kCompileBad = {"compile", "bad.pt2", "-o", "out.so"};
inline const std::vector<std::string> kCompileDigits = {"compile", (kDigits / "digits.pt2").string(), "-o", "out.so"};
inline constexpr const char* kTheProgramTakes = "  help: the program takes input: f32[s31, 1, 8, 8]\n";

}  // namespace toroid
