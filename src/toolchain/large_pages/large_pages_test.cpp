#include "toolchain/large_pages/large_pages.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/loaded_library.h"
#include "toolchain/fake_compiler_for_test.h"
#include "toolchain/large_pages/library.h"

namespace toroid {
namespace {

constexpr const char* kEnabled = "/sys/kernel/mm/transparent_hugepage/enabled";

bool are_given_here() { return std::filesystem::exists(kEnabled) && gives_large_pages_on_request(read_file(kEnabled)); }

TEST(LargePages, AreAskedForWhereOnlyThatBringsThem) {
  EXPECT_TRUE(gives_large_pages_on_request("always [madvise] never\n"));
  EXPECT_FALSE(gives_large_pages_on_request("[always] madvise never\n"));
  EXPECT_FALSE(gives_large_pages_on_request("always madvise [never]\n"));
}

TEST(LargePages, AreAskedForBehindWhatAUserLoads) {
  const ScopedVariable variable("LD_PRELOAD", "/nowhere/first.so");
  const FakeCompiler fake("printf '\\177ELF' > \"$out\"; printf '%s' \"$LD_PRELOAD\" >> \"$out\"");
  const std::string seen = fake.toolchain().compile_object("int x;");
  EXPECT_TRUE(seen.starts_with("\177ELF/nowhere/first.so")) << seen;
  EXPECT_EQ(seen.ends_with("/large_pages.so"), are_given_here()) << seen;
}

TEST(LargePages, AreNotAskedForWithANameThatWouldBeTwo) {
  const TempFolder folder("two names");
  ProcessOptions compiler;
  ask_for_large_pages(compiler, folder.path());
  EXPECT_TRUE(compiler.environment.empty());
}

TEST(LargePages, AreNotSpokenOfWhereTheLibraryDoesNotLoad) {
  const FakeCompiler fake(
      "echo \"ERROR: ld.so: object '/tmp/a/large_pages.so' from LD_PRELOAD cannot be preloaded (failed to map segment from shared object): "
      "ignored.\" >&2; echo 'no licence' >&2; exit 1");
  try {
    fake.toolchain().compile_object("int x;");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.report().find("no licence"), std::string::npos);
    EXPECT_EQ(error.report().find("ld.so"), std::string::npos) << error.report();
    EXPECT_EQ(error.report().find("TOROID_COMPILE_MEMORY"), std::string::npos) << error.report();
  }
}

// Its own mmap, called as a compiler calls it.
TEST(LargePages, LieAtMultiplesOfTheirSizeAndHoldZeros) {
  ASSERT_FALSE(kLargePagesLibrary.empty()) << "the C compiler could not make the library";
  const TempFolder folder;
  const LoadedLibrary library(kLargePagesLibrary, "large_pages");
  auto* const map = library.function<void*(void*, size_t, int, int, int, off_t)>("mmap");
  constexpr size_t kLarge = size_t{2} << 20;
  for (const size_t size : {size_t{1} << 20, kLarge + 1, size_t{5} << 20}) {
    auto* const memory = static_cast<char*>(map(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(memory), MAP_FAILED);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kLarge, 0u);
    for (size_t i = 0; i < size; i += 4096) ASSERT_EQ(std::exchange(memory[i], 1), 0) << i;
    EXPECT_EQ(::munmap(memory, size), 0);
  }
  // Files, small pieces and what has an address stay as they are asked for.
  const std::string text(8192, 'x');
  write_file_atomically(folder.path() / "text", text);
  const int file = ::open((folder.path() / "text").c_str(), O_RDONLY);
  auto* const mapped = static_cast<char*>(map(nullptr, text.size(), PROT_READ, MAP_PRIVATE, file, 0));
  EXPECT_EQ(std::string_view(mapped, text.size()), text);
  EXPECT_EQ(map(mapped, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), static_cast<void*>(mapped));
  EXPECT_EQ(mapped[0], 0);
  EXPECT_EQ(mapped[4096], 'x');
  ::munmap(mapped, text.size());
  ::close(file);
}

}  // namespace
}  // namespace toroid
