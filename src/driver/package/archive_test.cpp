#include "driver/package/archive.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid {
namespace {

TEST(Archive, NamesBeginAsCNamesDo) {
  EXPECT_EQ(archive_prefix("lib/my-model.a"), "my_model");
  EXPECT_EQ(archive_prefix("7b.a"), "m7b");
}

TEST(Archive, IsRefusedBesideAnOlderCLibrary) {
  require_c_library_of_archives();
  require_c_library_of_archives("9.0");
  const Error error = error_of([] { require_c_library_of_archives("2.4"); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_TRUE(error.message().starts_with("an archive needs glibc 2.")) << error.message();
  EXPECT_TRUE(error.message().ends_with(", and this system has 2.4")) << error.message();
}

}  // namespace
}  // namespace toroid
