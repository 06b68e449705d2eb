#include "driver/build_library.h"

#include <gtest/gtest.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "toolchain/fake_compiler_for_test.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

TEST(BuildLibrary, KeepsTheSourcesOfAllUnitsThatFailInOneFolder) {
  const TempFolder temporary;
  const ScopedVariable variable("TMPDIR", temporary.path().string());
  const FakeCompiler fake("exit 1");
  const LibrarySources sources{.units = {"int a;", "int b;", "int c;"}};
  const Error error = error_of([&] { build_library(sources, fake.toolchain(), 3, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::ToolFailed);
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(temporary.path())) {
    if (entry.path().filename().string().starts_with("toroid-failed")) left.push_back(entry.path());
  }
  ASSERT_EQ(left.size(), 1u);
  EXPECT_NE(error.help_text().find(left[0].string()), std::string::npos);
  EXPECT_EQ(read_file(left[0] / "unit0.cpp"), "int a;");
  EXPECT_EQ(read_file(left[0] / "unit1.cpp"), "int b;");
  EXPECT_EQ(read_file(left[0] / "unit2.cpp"), "int c;");
}

}  // namespace
}  // namespace toroid
