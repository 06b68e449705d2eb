// The command with --device cuda where there is no GPU: what is missing, full or broken is said. A library plays the driver and NVRTC
// (fake_gpu.c), so results are not looked at: emulated kernels have tests of their own (driver/end_to_end/cuda_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "runtime/cuda/device.h"
#include "support/process/subprocess.h"
#include "toolchain/triton/fake_triton_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kProgram = R"(graph(x: f32[64, 48]) {
  y: f32[64, 48] = aten::softmax.int(x, 1)
  return y
}
)";

class GpuCommand : public testing::Test {
 protected:
  GpuCommand() { write_file_atomically(folder_.path() / "program.txt", kProgram); }

  using Environment = std::vector<std::pair<std::string, std::string>>;
  ProcessResult bench(Environment environment, std::string_view program = "program.txt", std::string device = "cuda",
                      std::string mode = "default") const {
    environment.push_back({"TOROID_CACHE_DIR", (folder_.path() / "cache").string()});
    const bool has_architecture = std::ranges::any_of(environment, [](const auto& each) { return each.first == "TOROID_CUDA_ARCH"; });
    if (!has_architecture) environment.push_back({"TOROID_CUDA_ARCH", ""});  // not the caller's
    return run_process({.argv = {TOROID_COMMAND, "bench", std::string(program), "--device", device, "--mode", mode, "--seconds", "0.01"},
                        .folder = folder_.path(),
                        .environment = environment,
                        .timeout = std::chrono::minutes(2)});
  }
  static Environment fake(std::string how = "") {
    return {{"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUBLASLT", FAKE_GPU}, {"FAKE_GPU", std::move(how)}};
  }

  TempFolder folder_{"toroid-gpu-test"};
};

void expect_error(const ProcessResult& result, std::string_view first_line) {
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors.substr(0, result.errors.find('\n')), first_line);
}

TEST_F(GpuCommand, RunsAProgramAndTimesItOnTheDevice) {
  const ProcessResult result = bench(fake());
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("1.0000 ms a call"), std::string::npos) << result.output;  // as the fake's events say
  EXPECT_NE(result.output.find("\n  a CUDA graph of 1 nodes, "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("; kernel by kernel 1.0000 ms, "), std::string::npos) << result.output;
}

TEST_F(GpuCommand, TakesTheQuickestAlgorithmOfAProduct) {
  write_file_atomically(folder_.path() / "mm.txt", std::string_view(R"(graph(x: f32[8, 16], y: f32[16, 4]) {
  z: f32[8, 4] = aten::mm(x, y)
  return z
}
)"));
  const ProcessResult result = bench(fake(), "mm.txt");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("2.0000 ms a call"), std::string::npos) << result.output;  // suggested: 3, 2 and 5 ms
}

// --mode max asks for more suggestions, the last of which takes 1 ms. Other programs begin with what it found.
TEST_F(GpuCommand, TimesMoreAlgorithmsInModeMax) {
  write_file_atomically(folder_.path() / "mm.txt", std::string_view(R"(graph(x: f32[8, 16], y: f32[16, 4]) {
  z: f32[8, 4] = aten::mm(x, y)
  return z
}
)"));
  EXPECT_NE(bench(fake(), "mm.txt").output.find("2.0000 ms a call"), std::string::npos);
  const ProcessResult tuned = bench(fake(), "mm.txt", "cuda", "max");
  EXPECT_NE(tuned.output.find("1.0000 ms a call"), std::string::npos) << tuned.output << tuned.errors;
  EXPECT_NE(bench(fake(), "mm.txt").output.find("1.0000 ms a call"), std::string::npos);
}

// Only a second call measures, so a process that makes one alone has the quickest from what another one kept.
TEST_F(GpuCommand, BeginsWithTheAlgorithmThatAnotherProcessMeasured) {
  write_file_atomically(folder_.path() / "mm.txt", std::string_view(R"(graph(x: f32[8, 16], y: f32[16, 4]) {
  z: f32[8, 4] = aten::mm(x, y)
  return z
}
)"));
  Environment without_graphs = fake("suggests nothing");
  EXPECT_EQ(bench(without_graphs, "mm.txt").exit_code, 0);  // on the host, for there is no algorithm
  EXPECT_EQ(bench(fake(), "mm.txt").exit_code, 0);
  const ProcessResult result = bench(without_graphs, "mm.txt");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("2.0000 ms a call"), std::string::npos) << result.output;
}

// An algorithm for one kind of factors may be none for another.
TEST_F(GpuCommand, KeepsAlgorithmsOfEachKindOfFactors) {
  write_file_atomically(folder_.path() / "two.txt",
                        std::string_view(R"(graph(x: f32[8, 16], y: f32[16, 4], u: bf16[8, 16], v: bf16[16, 4]) {
  a: f32[8, 4] = aten::mm(x, y)
  p: f32[8, 16] = aten::_to_copy(u, dtype=dtype.f32)
  q: f32[16, 4] = aten::_to_copy(v, dtype=dtype.f32)
  b: f32[8, 4] = aten::mm(p, q)
  return a, b
}
)"));
  EXPECT_EQ(bench(fake(), "two.txt").exit_code, 0);
  const ProcessResult stats = run_process({.argv = {TOROID_COMMAND, "cache", "stats"},
                                           .folder = folder_.path(),
                                           .environment = {{"TOROID_CACHE_DIR", (folder_.path() / "cache").string()}},
                                           .timeout = std::chrono::minutes(1)});
  EXPECT_NE(stats.output.find("    product         2  "), std::string::npos) << stats.output;
}

TEST_F(GpuCommand, TimesEachStepOnTheDevice) {
  const ProcessResult result =
      run_process({.argv = {TOROID_COMMAND, "bench", "program.txt", "--device", "cuda", "--seconds", "0.01", "--kernels"},
                   .folder = folder_.path(),
                   .environment = fake(),
                   .timeout = std::chrono::minutes(2)});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "note: calls are no CUDA graphs: its steps are timed\n");
  EXPECT_NE(result.output.find("\n  all steps 1.0000 ms on the GPU\n"), std::string::npos) << result.output;
}

// Its launch is as its binary says: two pointers more, of which one is to scratch memory.
TEST_F(GpuCommand, StartsKernelsInTriton) {
  write_file_atomically(folder_.path() / "mylib.twice.op", std::string_view(R"(operator mylib::twice(Tensor x) -> Tensor
argument x: f32[n]
result: f32[n]
triton {
  grid (n + BLOCK - 1) // BLOCK
  configuration BLOCK=256
  arguments x, n, out, BLOCK
  source """
"""
}
)"));
  write_file_atomically(folder_.path() / "twice.txt", std::string_view(R"(graph(x: f32[1000]) {
  y: f32[1000] = mylib::twice(x)
  z: f32[1000] = mylib::twice(y)
  return z
}
)"));
  const auto run = [&](const FakeTriton& triton) {
    Environment environment = fake();
    environment.push_back({"TOROID_TRITON_PYTHON", triton.path().string()});
    environment.push_back({"TOROID_OPERATORS", folder_.path().string()});
    return bench(environment, "twice.txt");
  };
  const FakeTriton plain(FakeTriton::kFacts, "3.6.0", "r-w--");
  ProcessResult result = run(plain);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("2.0000 ms a call"), std::string::npos) << result.output;
  EXPECT_EQ(run(plain).exit_code, 0);
  EXPECT_EQ(plain.runs(), 1) << "the second time it is in the cache";
  const std::string request = plain.request();
  EXPECT_NE(request.find(R"("arguments":[{"name":"x","type":"*fp32","multiple":16},{"name":"n","type":"i32"},)"
                         R"({"name":"out","type":"*fp32","multiple":16},{"name":"BLOCK","value":256}])"),
            std::string::npos)
      << request;
  EXPECT_EQ(request.find("\"entry\"", request.find("\"entry\"") + 1), std::string::npos) << "both calls start one kernel";
  std::string facts = FakeTriton::kFacts;
  facts.replace(facts.find("scratch_bytes\": 0"), 16, "scratch_bytes\": 512");
  const FakeTriton scratch(facts, "3.6.1", "r-ww-");
  result = run(scratch);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("  started kernel by kernel, "), std::string::npos) << result.output;  // it asks for memory while it runs
}

TEST_F(GpuCommand, PrintsKernelsInTriton) {
  const FakeTriton triton(FakeTriton::kFacts, "3.6.0", "rw--");
  Environment environment = fake();
  environment.push_back({"TOROID_TRITON_PYTHON", triton.path().string()});
  const ProcessResult result = bench(environment, "program.txt", "triton");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("1.0000 ms a call"), std::string::npos) << result.output;
  EXPECT_NE(triton.request().find("tl.sum("), std::string::npos) << triton.request();
}

TEST_F(GpuCommand, TheDoctorNamesGpusAndWhatTheyNeed) {
  const Environment environment = {{"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUBLASLT", "/no/cublaslt.so"},
                                   {"TOROID_CUDNN", "/no/cudnn.so"}, {"FAKE_GPU", "two"},        {"TOROID_TRITON_PYTHON", "/no/python3"}};
  const ProcessResult result = run_process(
      {.argv = {TOROID_COMMAND, "doctor"}, .folder = folder_.path(), .environment = environment, .timeout = std::chrono::minutes(2)});
  EXPECT_NE(result.output.find(
                "ok       GPU 0             fake, sm_90\nok       GPU 1             fake, sm_90\n"
                "ok       CUDA compiler     NVRTC 13.0\n"
                "note     CUDA products     no cuBLASLt: /no/cublaslt.so cannot be opened: programs with products do not run on GPUs\n"),
            std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("note     cuDNN             no cuDNN: /no/cudnn.so cannot be opened: tuning for GPUs is without its "
                               "convolutions and attention\n"),
            std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find(
                "note     Triton            Triton kernels are compiled by a Python that has Triton, and there is no '/no/python3': "
                "kernels in Triton cannot be compiled\n"),
            std::string::npos)
      << result.output;
}

TEST_F(GpuCommand, ExplainsWhatKernelsTake) {
  const ProcessResult result = run_process({.argv = {TOROID_COMMAND, "explain", "program.txt", "--device", "cuda"},
                                            .folder = folder_.path(),
                                            .environment = fake(),
                                            .timeout = std::chrono::minutes(2)});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, R"(sm_90a, NVRTC 13.0
  registers shared bytes spilled bytes  kernel: its steps
         32           64            16  copy_kernel: 0 copy
  the kernel copy_kernel spills 16 bytes of registers
)");
}

TEST_F(GpuCommand, ExplainsWhatRunsOnTheHost) {
  write_file_atomically(folder_.path() / "mode.txt", std::string_view(R"(graph(x: f32[9]) {
  y: f32[], at: i64[] = aten::mode(x)
  z: f32[] = aten::neg(y)
  return z, at
}
)"));
  const ProcessResult result = run_process({.argv = {TOROID_COMMAND, "explain", "mode.txt", "--device", "cuda"},
                                            .folder = folder_.path(),
                                            .environment = fake(),
                                            .timeout = std::chrono::minutes(2)});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find(": on the host, to which [9] is copied, and [1], [1] back\n"), std::string::npos) << result.output;
}

// Of tensors on both: the host's steps, and the bytes of each copy; that of a weight is made once.
TEST_F(GpuCommand, ExplainsWhatIsCopiedBetweenTheHostAndTheGpu) {
  write_file_atomically(folder_.path() / "mixed.txt", std::string_view(R"(constant 0 "w": f32[4] = [1, 2, 3, 4]
graph(x: f32[8, 4], g: f32[8, 4] on cuda:0) {
  w: f32[4] = constant(0)
  u: f32[4] on cuda:0 = aten::to.device(w, device=device.cuda:0, dtype=dtype.f32)
  a: f32[8, 4] = aten::exp(x)
  b: f32[8, 4] on cuda:0 = aten::to.device(a, device=device.cuda:0, dtype=dtype.f32)
  c: f32[8, 4] on cuda:0 = aten::add.Tensor(b, g)
  d: f32[8, 4] on cuda:0 = aten::mul.Tensor(c, u)
  e: f32[8, 4] = aten::to.device(d, device=device.cpu, dtype=dtype.f32)
  f: f32[8, 4] = aten::neg(e)
  return f
}
)"));
  const ProcessResult result = run_process({.argv = {TOROID_COMMAND, "explain", "mixed.txt", "--device", "as-exported"},
                                            .folder = folder_.path(),
                                            .environment = fake(),
                                            .timeout = std::chrono::minutes(2)});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const size_t steps = result.output.find("  step ");
  EXPECT_EQ(result.output.substr(std::min(steps, result.output.size())), R"(  step 0 copy: on the host, kernels of the program
  step 1 copy_to_gpu: 128 bytes to the GPU
  step 3 copy_to_host: 128 bytes to the host
  step 4 copy: on the host, kernels of the program, once what was started on the GPU has ended
  once copy_to_gpu: 16 bytes to the GPU
)");
}

TEST_F(GpuCommand, ChoosesAGpuByItsNumber) {
  EXPECT_EQ(bench(fake("two"), "program.txt", "cuda:1").exit_code, 0);
  expect_error(bench(fake("two"), "program.txt", "cuda:2"), "error: there is no GPU 2: the driver sees 2");
  expect_error(bench(fake(), "program.txt", "cuda:x"), "error: there is no device 'cuda:x'");
}

TEST_F(GpuCommand, NamesLibraryKernelsThatRanOnTheHost) {
  write_file_atomically(folder_.path() / "mode.txt", std::string_view(R"(graph(x: f32[9]) {
  y: f32[], at: i64[] = aten::mode(x)
  return y, at
}
)"));
  const ProcessResult result = bench(fake(), "mode.txt");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors,
            "note: library.order.mode ran on the host, with copies\nnote: calls are no CUDA graphs: library.order.mode runs on the host\n");
  EXPECT_NE(result.output.find("\n  started kernel by kernel, "), std::string::npos) << result.output;
}

TEST_F(GpuCommand, WithoutADriverItIsNotKnownWhatToCompileFor) {
  expect_error(bench({{"TOROID_CUDA_DRIVER", "/no/driver.so"}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUDA_ARCH", ""}}),
               "error: it is not known what to compile for: no NVIDIA driver: /no/driver.so cannot be opened");
}

TEST_F(GpuCommand, WithoutADriverAProgramIsCompiledAndDoesNotRun) {
  expect_error(bench({{"TOROID_CUDA_DRIVER", "/no/driver.so"}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUDA_ARCH", "sm_90a"}}),
               "error: no NVIDIA driver: /no/driver.so cannot be opened");
}

TEST_F(GpuCommand, WithoutNvrtcNothingIsCompiled) {
  expect_error(bench({{"TOROID_CUDA_DRIVER", FAKE_GPU}, {"TOROID_NVRTC", "/no/nvrtc.so"}}),
               "error: no NVRTC: /no/nvrtc.so cannot be opened");
}

TEST_F(GpuCommand, WithoutAGpuTheDriverIsThereAndSeesNone) {
  expect_error(bench(fake("absent")), "error: it is not known what to compile for: no NVIDIA GPU: the driver is there, and sees none");
}

TEST_F(GpuCommand, ADriverWithoutAFunctionIsTooOld) {
  expect_error(bench({{"TOROID_CUDA_DRIVER", "libm.so.6"}, {"TOROID_NVRTC", FAKE_GPU}, {"TOROID_CUDA_ARCH", "sm_90a"}}),
               "error: the NVIDIA driver is too old: libm.so.6 of NVIDIA driver has no function cuGetErrorName");
}

TEST_F(GpuCommand, AFullGpuSaysHowMuchWasAskedFor) {
  expect_error(bench(fake("full")), "error: asking the GPU for 12288 bytes fails: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

TEST_F(GpuCommand, AFaultOfAKernelIsNamed) {
  const ProcessResult result = bench(fake("fault"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("fails: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"), std::string::npos);
  EXPECT_NE(result.errors.find("help: a kernel did what it must not; the CUDA context is lost"), std::string::npos);
}

// In this process, whose driver is the fake.
TEST(GpuFaults, AfterAFaultEveryCallSaysThatTheContextIsLost) {
  const ScopedVariable driver("TOROID_CUDA_DRIVER", FAKE_GPU), how("FAKE_GPU", "");
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const cuda::Memory memory(stream, 64);
  std::vector<char> bytes(4096);
  EXPECT_NE(
      error_of([&] { cuda::copy_in(stream, memory.data(), bytes.data(), bytes.size()); }).message().find("CUDA_ERROR_ILLEGAL_ADDRESS"),
      std::string::npos);
  const Error later = error_of([&] { stream.synchronize(); });
  EXPECT_EQ(later.kind(), ErrorKind::Environment);
  EXPECT_EQ(
      later.message(),
      "running on the GPU fails: the CUDA context is lost since CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
}

}  // namespace
}  // namespace toroid
