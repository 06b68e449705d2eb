#include "toolchain/triton/triton.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "codegen/triton/triton_kernel.h"
#include "toolchain/triton/fake_triton_for_test.h"

namespace toroid {
namespace {

constexpr std::string_view kSource = R"(import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + alpha * tl.load(y + i, i < n), i < n)


@triton.jit
def wrong(x, y, out, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, nothing, i < n)
)";

std::string kernel(const std::string& entry, const std::string& function, const std::string& block = "1024") {
  return to_text(codegen::TritonKernel{.entry = entry,
                                       .function = function,
                                       .source = std::string(kSource),
                                       .file = "mylib.add.op",
                                       .line = 10,
                                       .arguments = {{.name = "x", .type = "*fp32", .multiple = 16},
                                                     {.name = "y", .type = "*fp32", .multiple = 16},
                                                     {.name = "out", .type = "*fp32", .multiple = 16},
                                                     {.name = "n", .type = "i32"},
                                                     {.name = "alpha", .type = "fp32"},
                                                     {.name = "BLOCK", .constant = block}}});
}

std::string report_of(const FakeTriton& fake, std::string_view architecture = "sm_80") {
  const ScopedVariable python("TOROID_TRITON_PYTHON", fake.path().string());
  return error_of([&] { compile_triton(std::vector{kernel("first", "add")}, architecture, 1); }).report();
}

TEST(TritonTest, OneProcessCompilesAllKernels) {
  const FakeTriton fake;
  const ScopedVariable python("TOROID_TRITON_PYTHON", fake.path().string());
  EXPECT_EQ(triton_version(), "Triton 3.6.0");
  const std::vector<TritonBinary> binaries =
      compile_triton(std::vector{kernel("first", "add"), kernel("second", "add", "256")}, "sm_90a", 2);
  EXPECT_EQ(fake.runs(), 1);
  EXPECT_TRUE(fake.request().find("\"target\": [\"cuda\", 90, 32], \"product\": \"cubin\", \"jobs\": 2") != std::string::npos)
      << fake.request();
  ASSERT_EQ(binaries.size(), 2u);
  EXPECT_EQ(binaries[1].kernel, "second");
  EXPECT_TRUE(binaries[1].bytes.starts_with("fake binary")) << binaries[1].bytes;
  EXPECT_EQ(binaries[1].threads, 128);
  EXPECT_EQ(binaries[1].more_pointers, 2);
  const TritonBinary again = triton_binary_of(to_bytes(binaries[1]));
  EXPECT_EQ(to_bytes(again), to_bytes(binaries[1]));
  EXPECT_EQ(again.shared_bytes, 64);
}

TEST(TritonTest, SaysWhatIsMissing) {
  {
    const ScopedVariable python("TOROID_TRITON_PYTHON", "/no/python3");
    EXPECT_EQ(error_of(triton_version).report(),
              "error: Triton kernels are compiled by a Python that has Triton, and there is no '/no/python3'\n"
              "  help: install Python and 'pip install triton', or name a Python that has it in TOROID_TRITON_PYTHON");
  }
  const FakeTriton none("", ""), old("", "3.1.0");
  EXPECT_EQ(report_of(none), "error: '" + none.path().string() + "' has no Triton\n  help: '" + none.path().string() +
                                 " -m pip install triton' installs it; TOROID_TRITON_PYTHON names another Python");
  EXPECT_TRUE(report_of(old).starts_with("error: '" + old.path().string() + "' has Triton 3.1.0, and 3.5 or newer is needed\n"));
}

TEST(TritonTest, RefusesLaunchesThatItDoesNotMake) {
  std::string facts = FakeTriton::kFacts;
  facts.replace(facts.find("cluster\": 1"), 11, "cluster\": 2");
  EXPECT_EQ(report_of(FakeTriton(facts)),
            "error: the Triton kernel add of mylib.add.op:10 runs in clusters of 2 blocks, which toroid does not start\n"
            "  help: choose another configuration");
  const FakeTriton fails(R"("error": "at 3:22: nothing is not defined", "line": 23)");
  EXPECT_EQ(report_of(fails), "error: Triton does not compile add of mylib.add.op:23\n  at 3:22: nothing is not defined");
  EXPECT_EQ(report_of(FakeTriton(), "sm_90"),
            "error: Triton has no code for sm_90: from compute capability 9.0 on it is for one GPU alone\n  help: compile for sm_90a");
}

// With Triton itself, where the machine has it.
TEST(TritonTest, CompilesForGpusThatAreNotThere) {
  try {
    triton_version();
  } catch (const Error& error) {
    std::fputs(("NOT TESTED with Triton itself: " + error.message() + "\n").c_str(), stderr);
    GTEST_SKIP() << error.message();
  }
  const std::vector<TritonBinary> binaries =
      compile_triton(std::vector{kernel("first", "add"), kernel("second", "add", "256")}, "sm_80", 2);
  EXPECT_TRUE(
      binaries[0].bytes.starts_with("\x7f"
                                    "ELF"));
  EXPECT_EQ(binaries[0].kernel, "first");
  EXPECT_NE(binaries[1].bytes.find("second"), std::string::npos);
  EXPECT_EQ(binaries[0].threads, 128);
  EXPECT_TRUE(compile_triton(std::vector{kernel("first", "add")}, "gfx942", 1)[0].threads == 256);
  const std::string report = error_of([] { compile_triton(std::vector{kernel("first", "wrong")}, "sm_90a", 1); }).report();
  EXPECT_TRUE(report.starts_with("error: Triton does not compile wrong of mylib.add.op:23\n")) << report;
  EXPECT_NE(report.find("nothing is not defined"), std::string::npos) << report;
}

}  // namespace
}  // namespace toroid
