// include/toroid/toroid.h from C: each file beside this is a program in C99 over libtoroid.so, run with a folder of packages.
//
// For sanitized.sh, in the environment: C_API_PROGRAMS, a folder with other builds of the programs; C_API_RUNNER, words before each, as
// "valgrind --quiet".
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/file/file.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

const std::vector<std::pair<std::string, std::string>> kGpu = {
    {"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUBLASLT", FAKE_GPU}, {"FAKE_GPU", "two"}};

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

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
    std::string zeros;  // 325 words of which the first is another number
    for (int i = 1; i < 325; ++i) zeros += ", 0";
    write_file_atomically(folder_->path() / "weights_on_gpu.txt", std::string_view(fmt::format(R"(program "weights"
constant 0 "a": i32[325] = [1{0}]
buffer 1 "b": i32[325] = [999{0}]
graph(x: i32[1]) {{
  a: i32[325] = constant(0)
  b: i32[325] = constant(1)
  y: i32[325] = aten::add.Tensor(x, a)
  z: i32[325] = aten::add.Tensor(y, b)
  s: i32[] = aten::sum(z, dtype=dtype.i32)
  return s
}}
)",
                                                                                               zeros)));
    compile(folder_->path() / "weights_on_gpu.txt", {"--device", "cuda"});
    write_file_atomically(folder_->path() / "mixed.txt", std::string_view(R"(program "mixed"
graph(x: i32[4], g: i32[4] on cuda:0) {
  a: i32[4] = aten::add.Tensor(x, x)
  b: i32[4] on cuda:0 = aten::to.device(a, device=device.cuda:0, dtype=dtype.i32)
  c: i32[4] on cuda:0 = aten::add.Tensor(b, g)
  d: i32[4] = aten::to.device(c, device=device.cpu, dtype=dtype.i32)
  e: i32[4] = aten::mul.Tensor(d, x)
  return c, e
}
)"));
    compile(folder_->path() / "mixed.txt", {"--device", "as-exported"});
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

  static void run(std::string_view program, std::vector<std::pair<std::string, std::string>> environment = {},
                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv;
    std::istringstream runner(variable("C_API_RUNNER", ""));
    for (std::string word; runner >> word;) argv.push_back(word);
    argv.push_back(fmt::format("{}/c_api_{}", variable("C_API_PROGRAMS", TOROID_C_API_FOLDER), program));
    argv.push_back(folder_->path().string());
    argv.insert(argv.end(), more.begin(), more.end());
    const ProcessResult result =
        run_process({.argv = std::move(argv), .environment = std::move(environment), .timeout = std::chrono::minutes(10)});
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
TEST_F(CApi, RunsAmongProcessesOfTheHosts) { run("communicator", {{"TOROID_MPI", SHARED_MPI}}); }
TEST_F(CApi, RunsOnGpus) { run("gpu", kGpu); }
TEST_F(CApi, OpensProgramsForGpusWithoutADriver) { run("gpu", {{"TOROID_CUDA_DRIVER", "/no/driver.so"}}); }
TEST_F(CApi, SharesWeightsOnGpus) { run("gpu_weights", kGpu); }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their packages hold none
TEST_F(CApi, RunsOnGpusByThePackagesOwnRunSides) {
  run("gpu", kGpu, {"own"});
  run("gpu", {{"TOROID_CUDA_DRIVER", "/no/driver.so"}}, {"own"});
  run("gpu_weights", kGpu, {"own"});
}
#endif
TEST_F(CApi, CompilesModels) {
  const TempFolder written;
  std::vector<std::pair<std::string, std::string>> environment = kGpu;
  environment.push_back({"TOROID_CACHE_DIR", (folder_->path() / "cache").string()});
  const ProcessResult result = run_process({.argv = {fmt::format("{}/c_compiler", TOROID_C_API_FOLDER),
                                                     std::string(TOROID_SOURCE_DIR) + "/tests/c_api/programs", written.path()},
                                            .environment = std::move(environment),
                                            .timeout = std::chrono::minutes(2)});
  EXPECT_TRUE(result.ok()) << result.outcome() << "\n" << result.output;
  EXPECT_EQ(result.errors, "");  // a host's streams are its own
}
TEST_F(CApi, EndsAndTimesRunsBetweenSteps) { run("steps"); }

}  // namespace
}  // namespace toroid
