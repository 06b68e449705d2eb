#include "cache/code_identity.h"

#include <gtest/gtest.h>

#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "support/hash.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

TEST(CodeIdentity, IsTheBuildIdOrTheHashOfThisProgram) {
  EXPECT_EQ(code_identity(), code_identity());
  EXPECT_GE(code_identity().size(), 16u);
  if (code_identity().size() == 64) {
    EXPECT_EQ(code_identity(), sha256(MappedFile("/proc/self/exe").bytes()).hex());
    return;
  }
  if (!find_program("readelf")) GTEST_SKIP() << "no readelf here";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string notes = run_process({.argv = {"readelf", "-n", program}}).output;
  EXPECT_NE(notes.find("Build ID: " + code_identity()), std::string::npos);
}

}  // namespace
}  // namespace toroid
