#include "support/files/embedded_files.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "base/file/file.h"
#include "support/hash.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

// As package/portable/embed.sh makes them, of two files.
class Embedded : public testing::Test {
 protected:
  Embedded() {
    const fs::path from = folder_.path() / "from";
    fs::create_directories(from / "side/deep");
    write_file_atomically(from / "side/a", "first");
    write_file_atomically(from / "side/deep/b", std::string(100'000, 'b'));
    const ProcessResult result = run_process({.argv = {"sh", "-c",
                                                       "tar --create --format=ustar side/a side/deep/b | gzip -9n > ../archive && "
                                                       "sha256sum side/a side/deep/b > ../list"},
                                              .folder = from.string()});
    EXPECT_TRUE(result.ok()) << result.errors;
    archive_ = read_file(folder_.path() / "archive");
    list_ = read_file(folder_.path() / "list");
    fs::create_directory(cache());
  }
  EmbeddedFiles files() const { return {std::as_bytes(std::span(archive_)), list_}; }
  fs::path cache() const { return folder_.path() / "cache"; }
  size_t entries_of_cache() const { return static_cast<size_t>(std::distance(fs::directory_iterator(cache()), fs::directory_iterator())); }

  TempFolder folder_;
  std::string archive_, list_;
};

TEST_F(Embedded, AreUnpackedOnceIntoAFolderOfTheirDigests) {
  const fs::path unpacked = unpack(files(), cache());
  EXPECT_EQ(unpacked, cache() / ("embedded-" + sha256(list_).hex().substr(0, 32)));
  EXPECT_EQ(read_file(unpacked / "side/a"), "first");
  EXPECT_EQ(read_file(unpacked / "side/deep/b"), std::string(100'000, 'b'));
  const auto written = fs::last_write_time(unpacked / "side/a");
  EXPECT_EQ(unpack(files(), cache()), unpacked);
  EXPECT_EQ(fs::last_write_time(unpacked / "side/a"), written);
  EXPECT_EQ(entries_of_cache(), 1u);
  EXPECT_EQ(embedded_file(files(), "side/a"), "first");
  EXPECT_EQ(embedded_file(files(), "side/c"), std::nullopt);
  remove_unpacked(cache());
  EXPECT_EQ(entries_of_cache(), 0u);
}

TEST_F(Embedded, AreWholeForAllWhoUnpackAtOnce) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const fs::path unpacked = unpack(files(), cache());
        EXPECT_EQ(read_file(unpacked / "side/deep/b").size(), 100'000u);
      });
    }
    threads.clear();
    EXPECT_EQ(entries_of_cache(), 1u);
    remove_unpacked(cache());
  }
}

TEST_F(Embedded, AreWrittenAnewWhereOneIsDamagedOrMissing) {
  const fs::path unpacked = unpack(files(), cache());
  const auto damage_and_mend = [&](std::string_view below) {
    testing::internal::CaptureStderr();
    mend(files(), unpacked, below);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(damage_and_mend("side/"), "");
  write_file_atomically(unpacked / "side/a", "worst");
  EXPECT_EQ(damage_and_mend("other/"), "");
  EXPECT_EQ(damage_and_mend("side/"), "toroid: warning: files in " + unpacked.string() + " are damaged, and are written anew\n");
  EXPECT_EQ(read_file(unpacked / "side/a"), "first");
  fs::remove(unpacked / "side/deep/b");
  EXPECT_NE(damage_and_mend("side/"), "");
  EXPECT_EQ(read_file(unpacked / "side/deep/b").size(), 100'000u);
  EXPECT_EQ(entries_of_cache(), 1u);
}

TEST_F(Embedded, AreRefusedWhereTheyAreNotAsListedAndNothingStays) {
  const auto refusal = [&] {
    try {
      unpack(files(), cache());
      return std::string("none");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return error.report();
    }
  };
  const std::string words = "error: the files inside this program are damaged\n  help: install toroid anew";
  const std::string whole = archive_;
  for (size_t kept = 0; kept < whole.size() / 2; kept += 16) {
    archive_ = whole.substr(0, kept);
    EXPECT_EQ(refusal(), words) << kept;
  }
  archive_ = whole;
  list_[0] = list_[0] == 'a' ? 'b' : 'a';
  EXPECT_EQ(refusal(), words);
  EXPECT_EQ(entries_of_cache(), 0u);
}

TEST_F(Embedded, LeaveNoFolderOfAProcessThatWasKilled) {
  const fs::path killed = cache() / "embedded.aaaaaa", other = cache() / "embedded.bbbbbb";
  fs::create_directory(killed);
  fs::create_directory(other);
  fs::last_write_time(killed, fs::file_time_type::clock::now() - std::chrono::hours(2));
  unpack(files(), cache());
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(other));  // somebody may be at it
}

TEST_F(Embedded, GoWhereTheyCanBeWrittenForThisProcessAlone) {
  const ScopedVariable nowhere("TOROID_CACHE_DIR", "/proc/none");
  const fs::path unpacked = embedded_folder(files());
  EXPECT_EQ(read_file(unpacked / "side/a"), "first");
  EXPECT_EQ(embedded_folder(files()), unpacked);
  const ScopedVariable somewhere("TOROID_CACHE_DIR", (cache() / "new").string());
  EXPECT_EQ(embedded_folder(files()).parent_path(), cache() / "new");
  EXPECT_EQ(fs::status(cache() / "new").permissions(), fs::perms::owner_all);
}

}  // namespace
}  // namespace toroid
