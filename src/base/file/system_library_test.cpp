#include "base/file/system_library.h"

#include <gtest/gtest.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"

namespace toroid {
namespace {

TEST(SystemLibrary, WhatIsAbsentIsNamedWithAllNamesThatWereTried) {
  const SystemLibrary library("NVIDIA driver", "TOROID_TEST_LIBRARY", {"libno-such.so.2", "libno-such.so.1"});
  EXPECT_EQ(library.absence(), "no NVIDIA driver: libno-such.so.2 and libno-such.so.1 cannot be opened");
  EXPECT_EQ(library.find("cuInit"), nullptr);
  const Error error = error_of([&] { library.function<int()>("cuInit"); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.message(), *library.absence());
}

TEST(SystemLibrary, TheFirstNameThatOpensIsTaken) {
  const SystemLibrary library("mathematics", "TOROID_TEST_LIBRARY", {"libno-such.so.2", "libm.so.6"});
  EXPECT_EQ(library.absence(), std::nullopt);
  EXPECT_EQ(library.function<double(double)>("floor")(1.5), 1);
  EXPECT_EQ(error_of([&] { library.function<int()>("cuInit"); }).message(), "libm.so.6 of mathematics has no function cuInit");
}

TEST(SystemLibrary, TheEnvironmentsNameIsTheOnlyOne) {
  const ScopedVariable variable("TOROID_TEST_LIBRARY", "/no/such.so");
  const SystemLibrary library("mathematics", "TOROID_TEST_LIBRARY", {"libm.so.6"});
  EXPECT_EQ(library.absence(), "no mathematics: /no/such.so cannot be opened");
}

}  // namespace
}  // namespace toroid
