#include "base/file/loaded_library.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/file/file.h"
#include "toolchain/toolchain.h"

namespace toroid {
namespace {

std::string library_returning(const Toolchain& tools, int value) {
  return tools.compile_shared(fmt::format("extern \"C\" int f() {{ return {}; }}", value));
}

const Toolchain& baseline_tools() {
  static const Toolchain instance({.isa = "baseline"});
  return instance;
}

std::string message_of(const std::function<void()>& action) { return error_of(action).message(); }

TEST(LoadedLibrary, TwoLibrariesAtOnceAreTwo) {
  // The second gets the descriptor number that the first one used; the loader must not take them for the same.
  const LoadedLibrary one(library_returning(baseline_tools(), 1), "one"), two(library_returning(baseline_tools(), 2), "two");
  EXPECT_EQ(one.function<int()>("f")(), 1);
  EXPECT_EQ(two.function<int()>("f")(), 2);
}

TEST(LoadedLibrary, ManyLoadsKeepNoDescriptor) {
  const std::string bytes = library_returning(baseline_tools(), 3);
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
  const LoadedLibrary library(library_returning(baseline_tools(), 1), "one");
  EXPECT_EQ(message_of([&] { library.symbol("g"); }), "cannot load the compiled library 'one': it has no symbol 'g'");
}

TEST(LoadedLibrary, UsingAClosedLibraryIsAnError) {
  LoadedLibrary library(library_returning(baseline_tools(), 1), "one");
  LoadedLibrary moved = std::move(library);
  EXPECT_FALSE(library.is_open());
  moved.close();
  EXPECT_NE(message_of([&] { moved.symbol("f"); }).find("symbol 'f' asked of the closed library 'one'"), std::string::npos);
}

TEST(LoadedLibrary, AFunctionKnowsWhetherItsLibraryIsOpen) {
  const std::string bytes = baseline_tools().compile_shared("extern \"C\" int add(int a, int b) { return a + b; }");
  std::optional<LibraryFunction<int(int, int)>> add;
  {
    LoadedLibrary library(bytes, "sums");
    add = library.checked<int(int, int)>("add");
    EXPECT_EQ((*add)(2, 3), 5);
    LoadedLibrary moved = std::move(library);
    EXPECT_EQ((*add)(2, 3), 5) << "it is open under another name";
    EXPECT_THROW(moved.checked<int()>("subtract"), Error);
  }
  EXPECT_FALSE(add->is_open());
  EXPECT_NE(message_of([&] { (*add)(2, 3); }).find("symbol 'add' asked of the closed library 'sums'"), std::string::npos);
}

TEST(LoadedLibrary, OneThatIsClosedDuringACallIsUnloadedAfterIt) {
  const std::string bytes = baseline_tools().compile_shared("extern \"C\" int twice(int (*f)()) { return 2 * f(); }");
  static LoadedLibrary* library = nullptr;
  LoadedLibrary loaded(bytes, "twice");
  library = &loaded;
  const auto twice = loaded.checked<int(int (*)())>("twice");
  EXPECT_EQ(twice([] {
              library->close();
              return 4;
            }),
            8);
  EXPECT_FALSE(twice.is_open());
}

TEST(LoadedLibrary, WhatItNeedsAndTheSystemLacksIsNamed) {
  const TempFolder folder;
  const std::filesystem::path gone = folder.path() / "libgone.so";
  write_file_atomically(gone, std::string_view(baseline_tools().compile_shared("extern \"C\" int elsewhere() { return 1; }")));
  const std::string source = "extern \"C\" int elsewhere(); extern \"C\" int f() { return elsewhere(); }";
  const std::string needs = baseline_tools().compile_shared(source, {.extra_flags = {"-Wl,--no-as-needed", gone.string()}});
  EXPECT_EQ(LoadedLibrary(needs, "needs").function<int()>("f")(), 1);
  std::filesystem::remove(gone);
  const Error error = error_of([&] { LoadedLibrary(needs, "needs"); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_NE(error.message().find("libgone.so: cannot open shared object file"), std::string::npos) << error.message();
  EXPECT_EQ(error.help_text(), "install the library named above, or compile it again without it");
}

// From now on this process may not call `number`, or not with `bits` set in its third argument: it fails with EPERM.
void forbid(int number, uint32_t bits) {
  const uint8_t otherwise = bits == 0 ? 1 : 3;  // how far the last line is from the first jump
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, otherwise)};
  if (bits != 0) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) std::_Exit(77);
}

TEST(LoadedLibrary, ASystemThatForbidsItSaysHowToMendThat) {
  const std::string bytes = library_returning(baseline_tools(), 1);
  auto report = [&] {
    const Error error = error_of([&] { LoadedLibrary(bytes, "one"); });
    std::fprintf(stderr, "%s\n", error.report().c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(
      (forbid(SYS_mmap, PROT_EXEC), report()), testing::ExitedWithCode(0),
      "cannot load the compiled library 'one': .*failed to map segment.*\n.*help: this system forbids executable memory files: allow "
      "them .*, or set TOROID_KEEP_FILES to a folder from which programs may be run");
  EXPECT_EXIT(
      (forbid(SYS_memfd_create, 0), report()), testing::ExitedWithCode(0),
      "cannot load the compiled library 'one': memfd_create: Operation not permitted\n.*help: this system forbids executable memory files");
  const TempFolder folder;
  EXPECT_EXIT((setenv("TOROID_KEEP_FILES", folder.path().c_str(), 1), forbid(SYS_mmap, PROT_EXEC), report()), testing::ExitedWithCode(0),
              "help: programs may not be run from the folder that TOROID_KEEP_FILES names");
}

TEST(LoadedLibrary, WhatCannotBeLoadedSaysWhy) {
  const std::string good = library_returning(baseline_tools(), 1);
  for (size_t length = 0; length < good.size(); length += 97) {
    EXPECT_EQ(message_of([&] { LoadedLibrary(good.substr(0, length), "cut"); }),
              "cannot load the compiled library 'cut': it is cut short or no shared library for this processor")
        << length;
  }
  const std::string needs = baseline_tools().compile_shared("extern \"C\" int elsewhere(); extern \"C\" int f() { return elsewhere(); }");
  EXPECT_NE(message_of([&] { LoadedLibrary(needs, "needs"); }).find("undefined symbol: elsewhere"), std::string::npos);
}

}  // namespace
}  // namespace toroid
