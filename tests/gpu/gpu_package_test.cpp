// Packages for GPUs as a user has them: one file that opens the driver when it runs, and says what is missing. A library plays the driver
// (fake_gpu.c); tests/c_api/gpu.c looks at results, tests/gpu/packages_on_gpu.sh on a GPU.
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "base/file/file.h"
#include "support/pattern_for_test.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModel = R"(program "scaled"
constant 0 "w": f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]
graph(x: f32[4, 8]) {
  w: f32[8] = constant(0)
  y: f32[4, 8] = aten::mul.Tensor(x, w)
  z: f32[4, 8] = aten::cumsum(y, 0)
  return z
}
)";
constexpr std::string_view kProduct = R"(graph(x: f32[4, 8], y: f32[8, 8]) {
  z: f32[4, 8] = aten::mm(x, y)
  return z
}
)";

// With a weight of 2,048 bytes.
std::string wide() {
  std::string weights;
  for (int i = 0; i < 64 * 8; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", 0.125 * (i % 7));
  return fmt::format(
      "constant 0 \"w\": f32[64, 8] = [{}]\ngraph(x: f32[4, 8]) {{\n  w: f32[64, 8] = constant(0)\n"
      "  y: f32[4, 64] = aten::linear(x, w)\n  return y\n}}\n",
      weights);
}

class GpuPackages : public testing::Test {
 protected:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  static Environment fake(std::string how = "") {
    return {{"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUBLASLT", FAKE_GPU}, {"FAKE_GPU", std::move(how)}};
  }
  std::string path(std::string_view name) const { return (folder_.path() / name).string(); }
  ProcessResult ran(std::vector<std::string> argv, Environment environment = fake()) const {
    environment.push_back({"TOROID_CACHE_DIR", (folder_.path() / "cache").string()});
    return run_process(
        {.argv = std::move(argv), .folder = folder_.path(), .environment = std::move(environment), .timeout = std::chrono::minutes(2)});
  }
  std::string output_of(std::vector<std::string> argv, Environment environment = fake()) const {
    const ProcessResult result = ran(std::move(argv), std::move(environment));
    EXPECT_TRUE(result.ok()) << result.outcome() << result.errors;
    return result.output;
  }
  ProcessResult toroid(std::vector<std::string> argv, Environment environment = fake()) const {
    argv.insert(argv.begin(), TOROID_COMMAND);
    return ran(std::move(argv), std::move(environment));
  }
  void compile(std::string_view model, const std::string& output, const std::vector<std::string>& more = {}) {
    write_file_atomically(folder_.path() / "model.txt", model);
    std::vector<std::string> argv = {"compile", "model.txt", "-o", output, "--device", "cuda"};
    argv.insert(argv.end(), more.begin(), more.end());
    const ProcessResult result = toroid(argv);
    ASSERT_TRUE(result.ok()) << result.errors;
  }
  ProcessResult first_steps(const std::string& package, Environment environment) const {
    return ran({FIRST_STEPS, path(package)}, std::move(environment));
  }
  std::set<std::string> found_in(const std::string& text, const std::string& pattern) const {
    std::set<std::string> found;
    for (const std::vector<std::string>& match : matches_in(text, pattern)) found.insert(match[1]);
    return found;
  }

  TempFolder folder_{"toroid-gpu-package-test"};
};

TEST_F(GpuPackages, NeedTheCLibraryAlone) {
  compile(kProduct, "m.so");
  for (const std::string& name : found_in(output_of({"readelf", "-dW", path("m.so")}), R"(\(NEEDED\).*\[(.*)\])")) {
    EXPECT_TRUE(name == "libc.so.6" || name == "libm.so.6" || name == "libdl.so.2" || name.starts_with("ld-linux")) << name;
  }
  const std::set<std::string> versions = found_in(output_of({"readelf", "-VW", path("m.so")}), R"(Name: GLIBC_2\.([0-9]+))");
  EXPECT_FALSE(versions.empty());
  for (const std::string& version : versions) EXPECT_LE(std::stoi(version), 28) << version;
  EXPECT_EQ(found_in(output_of({"nm", "-D", "--defined-only", "--format=posix", path("m.so")}), R"((?:^|\n)([^ @\n]+))"),
            (std::set<std::string>{"toroid_api", "toroid_gpu_program", "toroid_levels", "toroid_provenance"}));
}

TEST_F(GpuPackages, RunByTheirOwnRunSideAndByTheCommand) {
  compile(kModel, "m.so");
  const ProcessResult own = first_steps("m.so", fake());
  EXPECT_TRUE(own.ok()) << own.errors;
  EXPECT_TRUE(own.output.starts_with("baseline ")) << own.output;  // what the processor must have
  const ProcessResult bench = toroid({"bench", "m.so", "--device", "cuda", "--seconds", "0.01"});
  EXPECT_TRUE(bench.ok()) << bench.errors;
}

TEST_F(GpuPackages, OpenCublasLtWhereTheyMultiply) {
  compile(kModel, "map.so");
  Environment without = fake();
  without[2].second = "/no/cublaslt.so";
  EXPECT_TRUE(first_steps("map.so", without).ok());
  std::string product(kProduct);
  product.replace(product.find(", y: f32[8, 8]"), 14, "");
  product.replace(product.find("  z:"), 0, "  y: f32[8, 8] = aten::ones([8, 8])\n");
  compile(product, "product.so");
  EXPECT_TRUE(first_steps("product.so", fake()).ok());
  const ProcessResult result = first_steps("product.so", without);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.errors.substr(0, result.errors.find('\n')), "no cuBLASLt: /no/cublaslt.so cannot be opened");
}

TEST_F(GpuPackages, HaveKernelsForTheArchitecturesThatAreAskedFor) {
  compile(kModel, "m.so", {"--arch", "sm_80,sm_90a,compute_80"});
  EXPECT_TRUE(first_steps("m.so", fake()).ok());
  write_file_atomically(folder_.path() / "model.txt", kModel);
  const ProcessResult told = toroid({"compile", "model.txt", "-o", "n.so", "--device", "cuda", "--arch", "sm_80,sm_100a"});
  EXPECT_TRUE(told.ok()) << told.errors;
  EXPECT_NE(told.errors.find(", for sm_100a, sm_80\n"), std::string::npos) << told.errors;
  const ProcessResult other = first_steps("n.so", fake());
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_EQ(other.errors.substr(0, other.errors.find('\n')), "the program's kernels are for sm_100a, sm_80, and the GPU is sm_90");
}

TEST_F(GpuPackages, SayWhatIsMissing) {
  compile(wide(), "m.so");
  const auto refused = [&](const Environment& environment, int exit_code, std::string_view words) {
    const ProcessResult result = first_steps("m.so", environment);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.errors.substr(0, result.errors.find('\n')), words);
  };
  refused({{"TOROID_CUDA_DRIVER", "/no/driver.so"}}, 4, "no NVIDIA driver: /no/driver.so cannot be opened");
  refused({{"TOROID_CUDA_DRIVER", "libm.so.6"}}, 4,
          "the NVIDIA driver is too old: libm.so.6 of NVIDIA driver has no function cuGetErrorName");
  refused(fake("absent"), 4, "no NVIDIA GPU: the driver is there, and sees none");
  refused(fake("full"), 5, "asking the GPU for 2048 bytes fails: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

TEST_F(GpuPackages, AreCheckedAndSigned) {
  compile(kModel, "m.so");
  EXPECT_TRUE(toroid({"verify", "m.so"}).output.starts_with("m.so: whole; for baseline; "));
  std::string bytes = read_file(folder_.path() / "m.so");
  const size_t kernels = bytes.find("fake binary");
  ASSERT_NE(kernels, bytes.npos);
  bytes[kernels + 14] ^= 1;
  write_file_atomically(folder_.path() / "bad.so", std::string_view(bytes));
  EXPECT_TRUE(toroid({"verify", "bad.so"}).errors.starts_with("error: bad.so is damaged: its library"));
  const ProcessResult opened = first_steps("bad.so", fake());
  EXPECT_EQ(opened.exit_code, 4);
  EXPECT_NE(opened.errors.find("its library"), std::string::npos) << opened.errors;

  output_of({"openssl", "genpkey", "-algorithm", "ed25519", "-out", "key.pem"});
  output_of({"openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "trusted.pem"});
  compile(kModel, "signed.so", {"--sign", "key.pem"});
  EXPECT_TRUE(toroid({"verify", "--trusted", "trusted.pem", "signed.so"}).output.starts_with("signed.so: whole and signed; for "));
  EXPECT_TRUE(first_steps("signed.so", fake()).ok());
}

TEST_F(GpuPackages, MayHaveTheirWeightsBesideThem) {
  for (const char* weights : {"m.weights", "m.safetensors"}) {
    compile(kModel, "m.so", {"--weights", weights});
    EXPECT_TRUE(first_steps("m.so", fake()).ok()) << weights;
    fs::remove(folder_.path() / weights);
    const ProcessResult result = first_steps("m.so", fake());
    EXPECT_NE(result.errors.find("the weight 'w' is missing"), std::string::npos) << result.errors;
  }
}

TEST_F(GpuPackages, MayBeArchives) {
  compile(kModel, "one.a");
  compile(kModel, "two.a");
  output_of({"cc", "-x", "c", TOROID_SOURCE_DIR "/tests/package/two_archives.c", "-x", "none", "-I.", path("one.a"), path("two.a"), "-lm",
             "-ldl", "-lpthread", "-o", path("both")});
  EXPECT_TRUE(ran({path("both")}).ok());
  const ProcessResult without = ran({path("both")}, {{"TOROID_CUDA_DRIVER", "/no/driver.so"}});
  EXPECT_FALSE(without.ok());
  EXPECT_TRUE(without.output.starts_with("no NVIDIA driver: /no/driver.so cannot be opened\n")) << without.output;
  EXPECT_EQ(found_in(output_of({"nm", "-g", "--defined-only", "--format=posix", path("one.a")}), R"((?:^|\n)([^ \n]+) [A-Z] )"),
            (std::set<std::string>{"one_toroid_api", "one_toroid_weights", "one_toroid_weights_end"}));
}

TEST_F(GpuPackages, MayBeSources) {
  write_file_atomically(folder_.path() / "model.txt", kModel);
  const ProcessResult written = toroid({"compile", "model.txt", "--device", "cuda", "--emit-source", "tree", "--arch", "sm_80,sm_90a"});
  ASSERT_TRUE(written.ok()) << written.errors;
  for (const char* file :
       {"program/kernels0.cu", "program/binary0.cpp", "program/binary1.cpp", "program/unit.cpp", "run_side/src/runtime/cuda/device.cpp"}) {
    EXPECT_TRUE(fs::exists(folder_.path() / "tree" / file)) << file;
  }
  EXPECT_NE(read_file(folder_.path() / "tree/program/program.cmake").find("set(GPU ON)\n"), std::string::npos);
  output_of({"g++", "-std=gnu++17", "-w", "-DTOROID_NAMESPACE=level0", "-c", "-o", "unit.o", "tree/program/unit.cpp"});
  output_of({"g++", "-std=gnu++17", "-w", "-c", "-o", "entry.o", "tree/program/entry.cpp"});
  output_of({"g++", "-std=gnu++17", "-w", "-c", "-o", "binary1.o", "tree/program/binary1.cpp"});
  EXPECT_NE(output_of({"nm", "-C", "unit.o"}).find(" D toroid_gpu_program\n"), std::string::npos);
  EXPECT_NE(output_of({"nm", "-C", "entry.o"}).find(" U toroid_gpu_program\n"), std::string::npos);
  EXPECT_NE(output_of({"nm", "-C", "binary1.o"}).find(" R toroid_binary_1\n"), std::string::npos);

  const ProcessResult emulated = toroid({"compile", "model.txt", "--device", "emulated-cuda", "--emit-source", "other"});
  EXPECT_NE(emulated.errors.find("--emit-source cannot be combined with --device emulated-cuda"), std::string::npos) << emulated.errors;
}

}  // namespace
}  // namespace toroid
