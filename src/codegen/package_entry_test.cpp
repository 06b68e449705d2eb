#include "codegen/wrapper/package_entry.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid::codegen {
namespace {

TEST(PackageEntry, LevelsHaveNamespacesInThePlaceOfNamesOfC) {
  EXPECT_EQ(unit_of_level("#define ENTRY extern \"C\"\n  extern \"C\" float of_libmvec(float);\nextern \"C\" void kernel(float* x) {\n}\n",
                          "level1"),
            "#define TOROID_LEVEL\nnamespace level1 {\n#define ENTRY extern \"C\"\n  extern \"C\" float of_libmvec(float);\n"
            "void kernel(float* x) {\n}\n\n}\n");
}

TEST(PackageEntry, ListsLevelsAndKernels) {
  const std::string text = package_entry({.isas = {"avx2", "baseline"}, .linked_kernels = {"matmul.f32", "library.linalg.qr"}});
  for (const char* part : {"{\"avx2\", &level0::toroid_program}, {\"baseline\", &level1::toroid_program}, ",
                           "toroid_linked_kernels[] = {toroid_kernel_linalg_qr, toroid_kernel_matmul_f32, nullptr};"}) {
    EXPECT_NE(text.find(part), text.npos) << text;
  }
}

TEST(PackageEntry, AKernelThatThereIsNotIsAnError) {
  EXPECT_EQ(error_of([] { package_entry({.isas = {"avx2"}, .linked_kernels = {"matmul.f128"}}); }).kind(), ErrorKind::Internal);
}

}  // namespace
}  // namespace toroid::codegen
