// Disks that are full, broken, read-only or forbidden, descriptors that have run out, and calls that move fewer bytes than asked for:
// at each call on a file of the cache's, once and from there on. The result is right all the same, and at most one warning comes.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/compile.h"
#include "graph/text/text.h"
#include "reliability.h"
#include "tensor/host_tensor.h"
#include "traced.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int64_t kFaultEntries = 6;

struct Fault {
  const char* name;
  Deed deed;
  int error_number;
};
const Fault kFaults[] = {
    {"no space, once", Deed::Fail, ENOSPC},       {"no space, for ever", Deed::FailFromThere, ENOSPC},
    {"a bad disk, once", Deed::Fail, EIO},        {"a bad disk, for ever", Deed::FailFromThere, EIO},
    {"no permission, once", Deed::Fail, EACCES},  {"no permission, for ever", Deed::FailFromThere, EACCES},
    {"read-only, once", Deed::Fail, EROFS},       {"read-only, for ever", Deed::FailFromThere, EROFS},
    {"no descriptors, once", Deed::Fail, EMFILE}, {"no descriptors, for ever", Deed::FailFromThere, EMFILE},
    {"no memory, once", Deed::Fail, ENOMEM},      {"no memory, for ever", Deed::FailFromThere, ENOMEM},
    {"no locks, once", Deed::Fail, ENOLCK},       {"no locks, for ever", Deed::FailFromThere, ENOLCK},
    {"half of the bytes", Deed::Shorten, 0},
};

// Where locks cease to work after the store was opened, SQLite itself tries for ten seconds, once; so not each call has its turn.
int64_t step_of(const Fault& fault, int64_t step) {
  const bool is_slow = fault.error_number == ENOLCK && fault.deed == Deed::FailFromThere;
  return is_slow ? times(1'000'000, 23) : times(step, 1);
}

// Ends of a user of the cache.
enum : int { kWell = 0, kWrongBytes = 1, kManyWarnings = 2 };

// Entries 0 and 1 are there, the others not.
int use_the_cache(const fs::path& folder) {
  std::vector<std::string> warnings;
  bool is_right = true;
  {
    Cache cache({.store = {.folder = folder,
                           .size_limit_bytes = 100'000,
                           .warn = [&](const std::string& text) { warnings.push_back(text); },
                           .patience = 300ms}});
    for (int64_t i = 0; i < kFaultEntries; ++i) {
      std::optional<std::string> found = cache.get(key_of(i));
      if (!found) {
        const CacheLease lease = cache.acquire(key_of(i), 5s);
        found = cache.get(key_of(i));
        if (!found) cache.put(key_of(i), entry_of(i, 20'000));
      }
      if (found && !is_entry_of(i, *found)) is_right = false;
      cache.store().count("uses");
    }
    cache.store().stats();
    cache.store().counters();
    cache.store().shrink_to(50'000);
    if (cache.store().verify() != 0) is_right = false;
    cache.store().clear();
  }
  if (warnings.size() > 1) {
    for (const std::string& each : warnings) std::fprintf(stderr, "%s\n", each.c_str());
    return kManyWarnings;
  }
  return is_right ? kWell : kWrongBytes;
}

// Runs `body` with the fault at each call that can have it, on a folder that `prepare` made; the next user must be content each time.
int64_t try_each_call(const Fault& fault, int64_t step, const fs::path& root, const std::function<void()>& prepare,
                      const std::function<int()>& body) {
  int64_t tried = 0;
  for (int64_t at = 1;; at += step) {
    prepare();
    const TracedEnd end = run_traced(root, {.deed = fault.deed, .at = at, .error_number = fault.error_number}, body);
    EXPECT_EQ(end.status, 0) << fault.name << " at call " << at
                             << (WIFEXITED(end.status) ? ": exit status " + std::to_string(WEXITSTATUS(end.status)) : ": killed");
    EXPECT_EQ(complaint_of_next_user(root / "cache", kFaultEntries), "") << fault.name << " at call " << at;
    if (end.calls < at) return tried;
    ++tried;
    if (testing::Test::HasFailure()) return tried;
  }
}

TEST(Faults, OfEachCallCostTheCacheAndNothingElse) {
  if (!can_trace()) GTEST_SKIP() << "ptrace does not work here: nothing of this was tested";
  const Result result;
  int64_t tried = 0;
  for (const bool begins : {false, true}) {
    const TempFolder root = quick_folder();
    const fs::path folder = root.path() / "cache", good = root.path() / "good";
    {
      Store store({.folder = good});
      for (int64_t i = 0; i < 2; ++i) store.put(key_of(i), entry_of(i, 20'000));
    }
    auto prepare = [&] {
      fs::remove_all(folder);
      if (!begins) fs::copy(good, folder, fs::copy_options::recursive);
      if (!begins) fs::permissions(folder, fs::perms::owner_all);
    };
    for (const Fault& fault : kFaults) {
      tried += try_each_call(fault, step_of(fault, fault.deed == Deed::Fail ? 31 : 67), root.path(), prepare,
                             [&] { return use_the_cache(folder); });
      ASSERT_FALSE(HasFailure()) << fault.name << (begins ? ", a new cache" : ", a cache that is there");
    }
  }
  EXPECT_GT(tried, 20);
  result.say("{} faults in {} forms, at each call on files: 0 wrong results, at most 1 warning each, the next process content", tried,
             std::size(kFaults));
}

// A whole session: a program is compiled, loaded and run, with a compiler that gives the library which was prepared.
class SessionsUnderFault {
 public:
  explicit SessionsUnderFault(const fs::path& root) : root_(root) {
    const std::string library = CompileSession(false).compile(parse_text(kText)).library;
    write_file_atomically(root / "library", library);
    write_file_atomically(root / "g++",
                          fmt::format("#!/bin/sh\ncase \"$1\" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac\n"
                                      "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\ncat {} > \"$out\"\n",
                                      (root / "library").string()),
                          0777);
  }
  int run(const fs::path& folder) const {
    ::setenv("TOROID_CACHE_DIR", folder.c_str(), 1);
    ::setenv("TOROID_CXX", (root_ / "g++").c_str(), 1);
    ::setenv("TOROID_ISA", "baseline", 1);
    const fs::path said = root_ / "said";
    const int to = ::open(said.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), before = ::dup(STDERR_FILENO);
    ::dup2(to, STDERR_FILENO);
    bool is_right = false;
    std::string failure;
    try {
      CompileSession session;
      Executable program = session.compile(parse_text(kText)).load(1);
      const HostTensor x = HostTensor::from_doubles(DType::F32, {4}, std::vector<double>{1, 2, 3, 4});
      is_right = program.run({&x, 1})[0].double_at(3) == 9;
    } catch (const Error& error) {
      failure = error.report();
    }
    ::dup2(before, STDERR_FILENO);
    int lines = 0;
    std::ifstream file(said);
    for (std::string line; std::getline(file, line); ++lines) failure += line + "\n";
    if (!is_right || lines > 1) std::fprintf(stderr, "%s\n", failure.c_str());
    return !is_right ? kWrongBytes : lines > 1 ? kManyWarnings : kWell;
  }

 private:
  static constexpr const char* kText = R"(
graph(x: f32[4]) {
  y: f32[4] = aten::mul.Scalar(x, 2.0)
  z: f32[4] = aten::add.Scalar(y, 1.0)
  return z
})";
  fs::path root_;
};

TEST(Faults, OfTheCacheNeverFailACompilation) {
  if (!can_trace()) GTEST_SKIP() << "ptrace does not work here: nothing of this was tested";
  const Result result;
  const TempFolder tools = quick_folder(), root = quick_folder();  // only calls below `root` are meddled with
  const SessionsUnderFault sessions(tools.path());
  const fs::path folder = root.path() / "cache", good = root.path() / "good";
  ASSERT_EQ(status_of_child([&] { return sessions.run(good); }), 0);
  int64_t tried = 0;
  for (const bool begins : {false, true}) {
    auto prepare = [&] {
      fs::remove_all(folder);
      if (!begins) fs::copy(good, folder, fs::copy_options::recursive);
      if (!begins) fs::permissions(folder, fs::perms::owner_all);
    };
    for (const Fault& fault : kFaults) {
      tried += try_each_call(fault, step_of(fault, begins ? 151 : 67), root.path(), prepare, [&] { return sessions.run(folder); });
      ASSERT_FALSE(HasFailure()) << fault.name << (begins ? ", cold" : ", warm");
    }
  }
  EXPECT_GT(tried, 10);
  result.say("{} faults in {} forms, cold and warm compilations: all results right, at most 1 line said each", tried, std::size(kFaults));
}

}  // namespace
}  // namespace toroid::reliability
