#include "cache/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <thread>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "base/file/file.h"
#include "cache/key_for_test.h"
#include "cache/sqlite.h"
#include "support/files/cache_folder.h"
#include "toolchain/toolchain.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

// A store in a folder of its own that keeps its warnings.
class StoreTest : public testing::Test {
 protected:
  StoreOptions options(uint64_t limit_bytes = 0) {
    return {.folder = folder_, .size_limit_bytes = limit_bytes, .warn = [this](const std::string& text) { warnings_.push_back(text); }};
  }
  fs::path file() const { return folder_ / "store-v2.db"; }
  // The database's bytes, with what the log holds moved into it first.
  std::string file_contents() const {
    Database(file()).execute("PRAGMA wal_checkpoint(TRUNCATE)");
    return read_file(file());
  }

  TempFolder temporary_;
  fs::path folder_ = temporary_.path() / "cache";
  std::vector<std::string> warnings_;
};

std::string refusal_of(const fs::path& folder) {
  try {
    Store store({.folder = folder});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
    return error.report();
  }
  return "not refused";
}

// Runs `body` in a child process and returns how it ended.
template <class Body>
int status_of_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST_F(StoreTest, KeepsBytesAcrossProcesses) {
  const std::string bytes("\0bytes\xff", 7);
  {
    Store store(options());
    EXPECT_EQ(store.get(key_of("a")), std::nullopt);
    store.put(key_of("a"), bytes);
    store.put(key_of("empty"), "");
    EXPECT_EQ(store.get(key_of("a")), bytes);
  }
  Store again(options());
  EXPECT_EQ(again.get(key_of("a")), bytes);
  EXPECT_EQ(again.get(key_of("empty")), "");
  again.put(key_of("a"), "newer");
  EXPECT_EQ(again.get(key_of("a")), "newer");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoreTest, CountsForThisObjectAndForAll) {
  for (int i = 0; i < 2; ++i) {
    Store store(options());
    store.get(key_of("a"));
    store.put(key_of("a"), "12345");
    store.get(key_of("a"));
  }
  Store store(options());
  store.get(key_of("none"));
  const StoreStats stats = store.stats();
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_GE(stats.bytes, 5u);
  EXPECT_EQ(stats.session.hits, 0u);
  EXPECT_EQ(stats.session.misses, 1u);
  EXPECT_EQ(stats.lifetime.hits, 3u);
  EXPECT_EQ(stats.lifetime.misses, 2u);
}

TEST_F(StoreTest, TheLeastRecentlyUsedGoFirst) {
  const std::string blob(10'000, 'x');
  Store store(options(50'000));
  for (const char* name : {"a", "b", "c", "d"}) store.put(key_of(name), blob);
  EXPECT_TRUE(store.get(key_of("a")));
  store.put(key_of("e"), blob);
  EXPECT_TRUE(store.get(key_of("a"))) << "used lately";
  EXPECT_FALSE(store.get(key_of("b"))) << "the oldest";
  EXPECT_TRUE(store.get(key_of("e")));
  EXPECT_LE(store.stats().bytes, 50'000u);
  EXPECT_EQ(store.stats().session.evicted, 1u);
  store.put(key_of("too large"), std::string(60'000, 'x'));
  EXPECT_TRUE(store.get(key_of("a"))) << "what cannot fit must not push out the rest";
  EXPECT_EQ(store.shrink_to(25'000), 2u);
  EXPECT_EQ(store.stats().entries, 2u);
}

TEST_F(StoreTest, TheFileStaysWithinItsBoundAndShrinksWhenCleared) {
  Store store(options(1'000'000));
  for (int i = 0; i < 300; ++i) store.put(key_of(std::to_string(i)), std::string(20'000, 'x'));
  store.stats();
  EXPECT_LT(fs::file_size(file()), 2'000'000u);
  store.clear();
  EXPECT_EQ(store.stats().entries, 0u);
  EXPECT_EQ(store.stats().bytes, 0u);
}

TEST_F(StoreTest, ADamagedEntryIsAMissAndHeals) {
  const std::string blob = "the bytes of a library that somebody will damage";
  {
    Store store(options());
    store.put(key_of("a"), blob);
    store.put(key_of("b"), "other");
  }
  std::string contents = file_contents();
  const size_t where = contents.find(blob);
  ASSERT_NE(where, std::string::npos);
  contents[where + 5] ^= 1;
  write_file_atomically(file(), contents);
  Store store(options());
  EXPECT_EQ(store.get(key_of("a")), std::nullopt);
  EXPECT_EQ(store.get(key_of("b")), "other");
  EXPECT_EQ(store.stats().entries, 1u);
  EXPECT_EQ(store.stats().session.corrupt, 1u);
  store.put(key_of("a"), blob);
  EXPECT_EQ(store.get(key_of("a")), blob);
  EXPECT_EQ(store.verify(), 0u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoreTest, VerifyRemovesWhatIsDamaged) {
  {
    Store store(options());
    store.put(key_of("a"), "first library");
    store.put(key_of("b"), "second library");
  }
  std::string contents = file_contents();
  contents[contents.find("second library")] ^= 0x20;
  write_file_atomically(file(), contents);
  Store store(options());
  EXPECT_EQ(store.verify(), 1u);
  EXPECT_EQ(store.verify(), 0u);
  EXPECT_EQ(store.stats().entries, 1u);
}

TEST_F(StoreTest, ADamagedFileIsMovedAsideAndBegunAnew) {
  { Store(options()).put(key_of("a"), "bytes"); }
  file_contents();
  write_file_atomically(file(), std::string(10'000, 'j'));
  Store store(options());
  EXPECT_EQ(warnings_, std::vector<std::string>{"the cache was damaged (file is not a database) and is begun anew; the old file is " +
                                                file().string() + ".damaged"});
  EXPECT_EQ(store.get(key_of("a")), std::nullopt);
  store.put(key_of("a"), "bytes");
  EXPECT_EQ(Store(options()).get(key_of("a")), "bytes");
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(fs::exists(file().string() + ".damaged"));
}

TEST_F(StoreTest, DamagedTotalsAndTablesAreMended) {
  // What flipped bits make of the rows and texts beside the entries. Each was once a store that never kept anything again.
  for (const char* damage :
       {"DELETE FROM totals", "UPDATE totals SET bytes = 1 << 50", "UPDATE totals SET bytes = -5", "DROP TABLE counters",
        "ALTER TABLE entries RENAME COLUMN checksum TO chaksum", "ALTER TABLE totals RENAME TO tolals",
        "DROP TRIGGER entry_removed; UPDATE entries SET size = -1 << 40", "PRAGMA user_version = 7"}) {
    fs::remove_all(folder_);
    warnings_.clear();
    {
      Store store(options(100'000));
      store.put(key_of("a"), "bytes");
      store.put(key_of("b"), "bytes");
    }
    Database(file()).execute(damage);
    for (int i = 0; i < 2; ++i) {
      Store store(options(100'000));
      store.count("uses");
      for (const char* name : {"a", "b"}) {
        if (!store.get(key_of(name))) store.put(key_of(name), "bytes");
      }
    }
    EXPECT_LE(warnings_.size(), 1u) << damage;
    warnings_.clear();
    Store store(options(100'000));
    EXPECT_EQ(store.get(key_of("a")), "bytes") << damage;
    EXPECT_EQ(store.get(key_of("b")), "bytes") << damage;
    store.verify();
    EXPECT_LT(store.stats().bytes, 10'000u) << damage;
    EXPECT_TRUE(warnings_.empty()) << damage << ": " << warnings_[0];
  }
}

TEST_F(StoreTest, AStoreOfAnotherLayoutIsMovedAsideWithWords) {
  { Store(options()).put(key_of("a"), "bytes"); }
  Database(file()).execute("PRAGMA user_version = 99");
  Store store(options());
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"the cache was damaged (it says that its layout is 99, and this toroid knows 2) and is begun anew; "
                                     "the old file is " +
                                     file().string() + ".damaged"});
  EXPECT_EQ(store.get(key_of("a")), std::nullopt);
  store.put(key_of("a"), "bytes");
  EXPECT_EQ(Store(options()).get(key_of("a")), "bytes");
}

TEST_F(StoreTest, ATotalThatIsTooHighDoesNotEmptyTheStore) {
  {
    Store store(options(100'000));
    store.put(key_of("a"), "bytes");
  }
  Database(file()).execute("UPDATE totals SET bytes = 1 << 50");
  Store store(options(100'000));
  store.put(key_of("b"), "bytes");
  EXPECT_EQ(store.get(key_of("a")), "bytes");
  EXPECT_EQ(store.get(key_of("b")), "bytes");
  EXPECT_EQ(store.stats().session.evicted, 0u);
}

TEST_F(StoreTest, NoDamageEverGivesWrongBytes) {
  std::map<std::string, std::string> truth;
  {
    Store store(options());
    for (int i = 0; i < 20; ++i) {
      const std::string name = std::to_string(i);
      truth[name] = std::string(static_cast<size_t>(i * 400), static_cast<char>('a' + i));
      store.put(key_of(name), truth[name]);
    }
  }
  const std::string good = file_contents();
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    if (round % 4 == 0) bad.resize(random() % bad.size());
    for (int flips = 0; flips < 1 + round && !bad.empty(); ++flips) bad[random() % bad.size()] ^= 1 << random() % 8;
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    write_file_atomically(file(), bad);
    warnings_.clear();
    Store store(options());
    for (const auto& [name, bytes] : truth) {
      const std::optional<std::string> got = store.get(key_of(name));
      EXPECT_TRUE(!got || *got == bytes) << "round " << round << " entry " << name;
      store.put(key_of(name), bytes);
    }
    EXPECT_LE(warnings_.size(), 1u) << "round " << round;
  }
}

TEST_F(StoreTest, TheFolderIsPrivateToTheUser) {
  Store store(options());
  struct stat info;
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(StoreTest, AFolderThatOthersMayWriteToIsRefused) {
  fs::create_directory(folder_);
  const std::string path = folder_.string();
  for (const mode_t mode : {0770, 0777, 0702, 0720}) {
    chmod(path.c_str(), mode);
    EXPECT_EQ(refusal_of(folder_), "error: the cache folder " + path +
                                       " can be written by other users, who could plant code in it\n  help: run 'chmod "
                                       "700 " +
                                       path + "', or set TOROID_CACHE_DIR to a folder of your own");
  }
  chmod(path.c_str(), 0755);
  EXPECT_EQ(refusal_of(folder_), "not refused");
  EXPECT_EQ(refusal_of(path + "/"), "not refused");
}

TEST_F(StoreTest, AFolderThatIsALinkOrAFileOrForeignIsRefused) {
  const fs::path link = temporary_.path() / "link", plain = temporary_.path() / "plain";
  fs::create_directory(folder_);
  fs::create_symlink(folder_, link);
  EXPECT_EQ(refusal_of(link), "error: the cache folder " + link.string() +
                                  " is a symbolic link, which others may be able to redirect\n  help: set "
                                  "TOROID_CACHE_DIR to " +
                                  folder_.string() + ", or remove the link, or set TOROID_CACHE_DIR to a folder of your own");
  write_file_atomically(plain, "");
  EXPECT_TRUE(refusal_of(plain).starts_with("error: the cache folder " + plain.string() + " is not a folder"));
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder somebody else's";
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal_of(folder_), "error: the cache folder " + folder_.string() +
                                     " belongs to user 12345, not to you (user 0)\n  help: run 'chown -R 0 " + folder_.string() +
                                     "', or set TOROID_CACHE_DIR to a folder of your own");
}

TEST_F(StoreTest, AStoreThatCannotBeOpenedWarnsOnceAndIsEmpty) {
  folder_ = "/proc/toroid-cache";
  Store store(options());
  EXPECT_FALSE(store.is_open());
  store.put(key_of("a"), "bytes");
  EXPECT_EQ(store.get(key_of("a")), std::nullopt);
  EXPECT_EQ(store.stats().entries, 0u);
  store.clear();
  EXPECT_EQ(store.verify(), 0u);
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiling without a cache: cannot use /proc/toroid-cache/store-v2.db: "
                                                "No such file or directory (TOROID_CACHE_DIR moves it)"});
}

TEST_F(StoreTest, AFileThatCannotBeADatabaseWarnsOnce) {
  fs::create_directory(folder_);
  fs::create_directory(file());
  Store store(options());
  EXPECT_FALSE(store.is_open());
  store.put(key_of("a"), "bytes");
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(StoreTest, ADisabledStoreTouchesNothing) {
  StoreOptions off = options();
  off.enabled = false;
  Store store(off);
  store.put(key_of("a"), "bytes");
  EXPECT_EQ(store.get(key_of("a")), std::nullopt);
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoreTest, AFullDiskCostsTheEntryAndNothingElse) {
  { Store(options()).put(key_of("before"), "kept"); }
  const int status = status_of_child([&] {
    // A limit on file sizes fails writes as a full disk does.
    signal(SIGXFSZ, SIG_DFL);
    const rlimit limit = {200'000, 200'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Store store(options());
    for (int i = 0; i < 5; ++i) store.put(key_of(std::to_string(i)), std::string(300'000, 'x'));
    const bool right = store.get(key_of("before")) == "kept" && !store.get(key_of("0")) && warnings_.size() == 1 &&
                       store.stats().session.write_errors == 5;
    _exit(right ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  Store store(options());
  EXPECT_EQ(store.get(key_of("before")), "kept");
  EXPECT_EQ(store.stats().entries, 1u);
}

TEST_F(StoreTest, AKilledWriterLeavesAStoreThatWorks) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const pid_t pid = fork();
    if (pid == 0) {
      Store store(options(2'000'000));
      for (int i = 0;; ++i) store.put(key_of(std::to_string(i % 100)), std::string(30'000, static_cast<char>('a' + i % 7)));
    }
    usleep(random() % 30'000);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    Store store(options(2'000'000));
    ASSERT_TRUE(store.is_open());
    EXPECT_EQ(store.verify(), 0u) << "round " << round;
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoreTest, ManyThreadsShareOneStore) {
  Store store(options());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string((i + t) % 30);
        store.put(key_of(name), name);
        if (store.get(key_of(name)) != name) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.stats().entries, 30u);
}

TEST_F(StoreTest, ManyProcessesShareOneFile) {
  // All begin at once with no file there, evict, and one of them wipes the store meanwhile.
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      Store store(options(300'000));
      bool right = store.is_open();
      for (int i = 0; i < 40; ++i) {
        const std::string name = std::to_string((i * 7 + p) % 50), bytes(static_cast<size_t>(9000 + i % 3), name[0]);
        store.put(key_of(name), bytes);
        const std::optional<std::string> got = store.get(key_of(name));
        if (got && got->front() != name[0]) right = false;
        if (p == 0 && i % 10 == 5) store.clear();
      }
      right = right && warnings_.empty() && store.stats().session.write_errors == 0;
      _exit(right ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Store store(options(300'000));
  EXPECT_EQ(store.verify(), 0u);
  EXPECT_LE(store.stats().bytes, 300'000u);
}

TEST_F(StoreTest, ProcessesThatMeetADamagedFileAllGoOn) {
  { Store(options()).put(key_of("a"), "bytes"); }
  file_contents();
  write_file_atomically(file(), std::string(50'000, 'j'));
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      Store store(options());
      store.put(key_of(std::to_string(p)), "mine");
      _exit(store.get(key_of(std::to_string(p))) == "mine" ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Store(options()).stats().entries, 8u);
}

TEST_F(StoreTest, TheNearestEntryExplainsAMiss) {
  auto key = [](const char* flags, const char* isa) {
    return KeyBuilder("kernel", 1).add("source", "s").add("flags", flags).add("isa", isa).finish();
  };
  Store store(options());
  EXPECT_EQ(store.nearest_parts(key("-O3", "avx512")), std::nullopt);
  store.put(key("-O2", "avx2"), "far");
  store.put(key("-O3", "avx2"), "near");
  store.put(KeyBuilder("graph", 1).finish(), "another kind");
  const CacheKey missed = key("-O3", "avx512");
  const std::optional<std::string> nearest = store.nearest_parts(missed);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(differing_labels(missed.parts, *nearest), std::vector<std::string>{"isa"});
}

TEST_F(StoreTest, RemembersWhatTheToolchainProbed) {
  {
    Store store(options());
    Toolchain({.probe_cache = store.probe_cache()});
  }
  Store store(options());
  const Toolchain tools({.probe_cache = store.probe_cache()});
  EXPECT_EQ(store.stats().session.hits, 2u);
}

TEST(CacheFolder, ComesFromTheEnvironment) {
  const ScopedVariable own("TOROID_CACHE_DIR", std::nullopt), shared("XDG_CACHE_HOME", std::nullopt), home("HOME", "/home/ada");
  EXPECT_EQ(default_cache_folder(), "/home/ada/.cache/toroid");
  shared.set("relative");
  EXPECT_EQ(default_cache_folder(), "/home/ada/.cache/toroid");
  shared.set("/xdg");
  EXPECT_EQ(default_cache_folder(), "/xdg/toroid");
  own.set("/mine");
  EXPECT_EQ(default_cache_folder(), "/mine");
}

}  // namespace
}  // namespace toroid
