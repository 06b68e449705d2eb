// include/toroid/toroid.h from C: each file beside this is a program in C99 over libtoroid.so, run with a folder of packages.
#include <gtest/gtest.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/file/file.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

const std::vector<std::pair<std::string, std::string>> kGpu = {
    {"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUBLASLT", FAKE_GPU}, {"FAKE_GPU", "two"}};

// Packages of programs/*.txt, made once, and of a product with packed weights.
class CApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace("toroid-c-api-test");
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TOROID_SOURCE_DIR) / "tests/c_api/programs"))
      compile(entry.path());
    std::string weights;
    for (int i = 0; i < 64 * 32; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", (i * 37 % 101 - 50) / 64.0);
    write_file_atomically(folder_->path() / "product.txt", std::string_view(fmt::format(R"(program "product"
sym s0 in [1, 64] hint 4
constant 0 "w": f32[64, 32] = [{}]
graph(x: f32[s0, 32]) {{
  w: f32[64, 32] = constant(0)
  y: f32[s0, 64] = aten::linear(x, w)
  return y
}}
)",
                                                                                        weights)));
    compile(folder_->path() / "product.txt");
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TOROID_SOURCE_DIR) / "tests/c_api/on_gpu"))
      compile(entry.path(), {"--device", "cuda"});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void compile(const fs::path& text, const std::vector<std::string>& flags = {}) {
    const fs::path package = folder_->path() / text.stem().replace_extension(".so");
    std::vector<std::string> argv = {TOROID_COMMAND, "compile", text.string(), "-o", package.string()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    std::vector<std::pair<std::string, std::string>> environment = kGpu;
    environment.push_back({"TOROID_CACHE_DIR", (folder_->path() / "cache").string()});
    const ProcessResult result = run_process({.argv = argv, .environment = environment});
    ASSERT_TRUE(result.ok()) << result.outcome() << "\n" << result.errors;
  }

  static void run(std::string_view program, std::vector<std::pair<std::string, std::string>> environment = {}) {
    const ProcessResult result = run_process({.argv = {fmt::format("{}/c_api_{}", TOROID_C_API_FOLDER, program), folder_->path().string()},
                                              .environment = std::move(environment),
                                              .timeout = std::chrono::minutes(2)});
    EXPECT_TRUE(result.ok()) << result.outcome() << "\n" << result.output << result.errors;
  }

  static std::optional<TempFolder> folder_;
};

std::optional<TempFolder> CApi::folder_;

TEST_F(CApi, DescribesModels) { run("describe"); }
TEST_F(CApi, RunsModels) { run("run"); }
TEST_F(CApi, GivesAStatusForEachMistake) { run("errors"); }
TEST_F(CApi, GivesAStatusForEachAttack) { run("attack"); }
TEST_F(CApi, NeedsNoMoreMemoryForEachModelThatIsClosed) { run("memory"); }
TEST_F(CApi, RunsContextsInParallel) { run("contexts"); }
TEST_F(CApi, SwapsWeightsUnderLoad) { run("swap"); }
TEST_F(CApi, RunsOnGpus) { run("gpu", kGpu); }
TEST_F(CApi, CompilesModels) {
  const TempFolder written;
  const ProcessResult result = run_process({.argv = {fmt::format("{}/c_compiler", TOROID_C_API_FOLDER),
                                                     std::string(TOROID_SOURCE_DIR) + "/tests/c_api/programs", written.path()},
                                            .environment = {{"TOROID_CACHE_DIR", (folder_->path() / "cache").string()}},
                                            .timeout = std::chrono::minutes(2)});
  EXPECT_TRUE(result.ok()) << result.outcome() << "\n" << result.output;
  EXPECT_EQ(result.errors, "");  // a host's streams are its own
}
TEST_F(CApi, EndsAndTimesRunsBetweenSteps) { run("steps"); }

}  // namespace
}  // namespace toroid
