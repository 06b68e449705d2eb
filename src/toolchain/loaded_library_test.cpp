#include "toolchain/loaded_library.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/error.h"
#include "toolchain/toolchain.h"

namespace toroid {
namespace {

std::string library_returning(const Toolchain& tools, int value) {
  return tools.compile_shared(fmt::format("extern \"C\" int f() {{ return {}; }}", value));
}

const Toolchain& tools() {
  static const Toolchain instance({.isa = "baseline"});
  return instance;
}

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(LoadedLibrary, TwoLibrariesAtOnceAreTwo) {
  // The second gets the descriptor number that the first one used; the loader must not take them for the same.
  const LoadedLibrary one(library_returning(tools(), 1), "one"), two(library_returning(tools(), 2), "two");
  EXPECT_EQ(one.function<int()>("f")(), 1);
  EXPECT_EQ(two.function<int()>("f")(), 2);
}

TEST(LoadedLibrary, ManyLoadsKeepNoDescriptor) {
  const std::string bytes = library_returning(tools(), 3);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<LoadedLibrary> libraries;
  for (int i = 0; i < 100; ++i) libraries.emplace_back(bytes, "copy");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(libraries.back().function<int()>("f")(), 3);
}

TEST(LoadedLibrary, MissingSymbolIsNamed) {
  const LoadedLibrary library(library_returning(tools(), 1), "one");
  EXPECT_EQ(message_of([&] { library.symbol("g"); }), "cannot load the compiled library 'one': it has no symbol 'g'");
}

TEST(LoadedLibrary, UsingAClosedLibraryIsAnError) {
  LoadedLibrary library(library_returning(tools(), 1), "one");
  LoadedLibrary moved = std::move(library);
  EXPECT_FALSE(library.is_open());
  moved.close();
  EXPECT_NE(message_of([&] { moved.symbol("f"); }).find("symbol 'f' asked of the closed library 'one'"),
            std::string::npos);
}

TEST(LoadedLibrary, WhatCannotBeLoadedSaysWhy) {
  const std::string good = library_returning(tools(), 1);
  for (size_t length = 0; length < good.size(); length += 97) {
    EXPECT_EQ(message_of([&] { LoadedLibrary(good.substr(0, length), "cut"); }),
              "cannot load the compiled library 'cut': it is cut short or no shared library")
        << length;
  }
  const std::string needs =
      tools().compile_shared("extern \"C\" int elsewhere(); extern \"C\" int f() { return elsewhere(); }");
  EXPECT_NE(message_of([&] { LoadedLibrary(needs, "needs"); }).find("undefined symbol: elsewhere"), std::string::npos);
}

}  // namespace
}  // namespace toroid
