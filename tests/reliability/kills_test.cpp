// kill -9 while the cache is written: before each call on a file that a writer makes, from its first to its last, and at random. The
// next process must find a store that works, with right entries only, and must not have to say anything about it.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "base/error.h"
#include "cache/sqlite.h"
#include "cache/transfer.h"
#include "reliability.h"
#include "traced.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int64_t kKillEntries = 12;

// What writers do; each returns 0 when all that it saw was right.
int use(const fs::path& folder, int64_t first, int64_t count, size_t bytes, uint64_t limit_bytes) {
  Cache cache({.store = {.folder = folder, .size_limit_bytes = limit_bytes}});
  for (int64_t i = first; i < first + count; ++i) {
    std::optional<std::string> found = cache.get(key_of(i));
    const CacheLease lease = cache.acquire(key_of(i), 10s);
    if (!found) cache.put(key_of(i), entry_of(i, bytes));
    if (found && !is_entry_of(i, *found)) return 1;
    cache.store().count("uses");
  }
  return 0;
}

// Makes the file look as if a disk had spoilt its start, with a log beside it.
void spoil(const fs::path& folder) {
  fs::remove_all(folder);
  use(folder, 0, 3, 3000, 0);
  std::string bytes = read_file(folder / "store-v2.db");
  std::fill_n(bytes.begin(), std::min<size_t>(bytes.size(), 4096), 'j');
  write_file_atomically(folder / "store-v2.db", bytes);
}

struct Writer {
  const char* name;
  void (*prepare)(const fs::path& folder);  // before each run
  int (*body)(const fs::path& folder);
  size_t most_warnings;  // of the next user
  int64_t quick_step;    // in the quick form only each so-manieth call
  int64_t full_step = 1;
};

const Writer kWriters[] = {
    {"begins a store", [](const fs::path& folder) { fs::remove_all(folder); },
     [](const fs::path& folder) { return use(folder, 0, 3, 9000, 0); }, 0, 9},
    // Goes on with what the last one left, as a machine's next session does.
    {"adds and evicts", [](const fs::path&) {}, [](const fs::path& folder) { return use(folder, 0, kKillEntries, 20'000, 150'000); }, 0,
     41},
    {"clears and shrinks", [](const fs::path& folder) { use(folder, 0, 6, 20'000, 0); },
     [](const fs::path& folder) {
       Store store({.folder = folder});
       store.shrink_to(60'000);
       store.clear();
       store.put(key_of(1), entry_of(1, 100));
       return 0;
     },
     0, 17},
    {"meets a damaged file", spoil, [](const fs::path& folder) { return use(folder, 0, 2, 3000, 0); }, 1, 13},
    {"fills the log until it is written back", [](const fs::path& folder) { fs::remove_all(folder); },
     [](const fs::path& folder) { return use(folder, 0, kKillEntries, 450'000, 0); }, 0, 700, 5},
    {"exports and imports", [](const fs::path& folder) { fs::remove(folder / "export"); },
     [](const fs::path& folder) {
       Store from({.folder = folder});
       for (int64_t i = 0; i < 4; ++i) from.put(key_of(i), entry_of(i, 2000));
       export_entries(from, folder / "export");
       import_entries(from, folder / "export");
       return 0;
     },
     0, 17},
};

// A killed export leaves no file under the name that was asked for, or a whole one.
std::string complaint_of_export(const fs::path& folder) {
  if (!fs::exists(folder / "export")) return "";
  try {
    Store nowhere({.enabled = false});
    return import_entries(nowhere, folder / "export") >= 4 ? "" : "the export lacks entries";
  } catch (const Error& error) {
    return error.report();
  }
}

TEST(Kills, BeforeEachCallOfAWriterDoNoHarm) {
  if (!can_trace()) GTEST_SKIP() << "ptrace does not work here: nothing of this was tested";
  const Result result;
  int64_t kills = 0;
  for (const Writer& writer : kWriters) {
    const TempFolder root = quick_folder();
    const fs::path folder = root.path() / "cache";
    int64_t at_this = 0;
    for (int64_t at = 1;; at += times(writer.quick_step, writer.full_step)) {
      writer.prepare(folder);
      const TracedEnd end = run_traced(root.path(), {.deed = Deed::Kill, .at = at}, [&] { return writer.body(folder); });
      if (end.status == 0) break;
      ASSERT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL)
          << writer.name << ", call " << at << ": status " << end.status;
      ++at_this;
      ASSERT_EQ(complaint_of_next_user(folder, kKillEntries, writer.most_warnings), "") << writer.name << ", killed before call " << at;
      ASSERT_EQ(complaint_of_export(folder), "") << writer.name << ", killed before call " << at;
    }
    EXPECT_GT(at_this, 5) << writer.name;
    kills += at_this;
  }
  result.say("{} writers killed {} times, before each call on files (of the longest, each fifth): 0 complaints of the next process",
             std::size(kWriters), kills);
}

// Several writers at once, none of which lives long; none may see anything wrong or anything to warn of.
int write_without_end(const fs::path& folder, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    int warnings = 0;
    Cache cache({.store = {.folder = folder, .size_limit_bytes = 400'000, .warn = [&](const std::string& text) {
                             std::fprintf(stderr, "%s\n", text.c_str());
                             ++warnings;
                           }}});
    for (int i = 0; i < 30; ++i) {
      const auto number = static_cast<int64_t>(random() % 40);
      const CacheLease lease = cache.acquire(key_of(number), 30s);
      if (const std::optional<std::string> found = cache.get(key_of(number))) {
        if (!is_entry_of(number, *found)) return 1;
      } else {
        cache.put(key_of(number), entry_of(number, 100 + random() % 40'000));
      }
      if (random() % 50 == 0) cache.store().clear();
      if (random() % 50 == 0 && cache.store().verify() != 0) return 2;
    }
    if (warnings != 0) return 3;
  }
}

TEST(Kills, AtRandomAmongSeveralWritersDoNoHarm) {
  const Result result;
  const TempFolder root = quick_folder();
  const fs::path folder = root.path() / "cache";
  const int64_t kills = times(40, 5000);
  std::mt19937_64 random(11);
  std::vector<pid_t> writers;
  auto begin = [&] {
    const uint64_t seed = random();
    const pid_t pid = ::fork();
    if (pid == 0) run_as_child([&] { return write_without_end(folder, seed); });
    writers.push_back(pid);
  };
  for (int i = 0; i < 4; ++i) begin();
  for (int64_t i = 0; i < kills; ++i) {
    ::usleep(static_cast<useconds_t>(random() % 20'000));
    const size_t which = random() % writers.size();
    ::kill(writers[which], SIGKILL);
    int status = 0;
    ::waitpid(writers[which], &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "a writer ended by itself: status " << status;
    writers.erase(writers.begin() + static_cast<std::ptrdiff_t>(which));
    if (i % 50 == 49) {  // with the others in the middle of their work
      ASSERT_EQ(status_of_child([&] {
                  const std::string complaint = complaint_of_next_user(folder, 40);
                  if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
                  return complaint.empty() ? 0 : 1;
                }),
                0);
    }
    begin();
  }
  for (const pid_t pid : writers) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  EXPECT_EQ(complaint_of_next_user(folder, 40), "");
  EXPECT_FALSE(fs::exists(folder / "store-v2.db.damaged"));
  result.say("{} kills at random, 4 writers at a time: 0 wrong entries, 0 warnings", kills);
}

}  // namespace
}  // namespace toroid::reliability
