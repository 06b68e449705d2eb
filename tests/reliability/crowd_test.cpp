// Many processes that want the same at the same time, while the store evicts and is wiped: each gets what it asked for, and only one
// builds it. And owners that die, stop, or whose process id comes again: the others go on.
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cache/remote/remote_for_test.h"
#include "cache/remote/remote_health.h"
#include "cache/sqlite.h"
#include "reliability.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kKeys = 3;         // of each round
constexpr size_t kBytes = 6000;  // of each entry
// Uses are written down late, so an entry of this round may look older than hundreds that are not; the bound must leave it there.
constexpr uint64_t kLimit = 4'000'000;

// What the processes of a crowd share.
struct Board {
  pthread_barrier_t barrier;
  std::atomic<int64_t> builds[kKeys];  // of this round
  std::atomic<int64_t> wipes;          // of this round
  std::atomic<int64_t> wrong, warnings, write_errors, twice, built, wiped, evicted;
};

// Every process asks for the keys of a round at once, as compilations do: look, wait for the lease, look again, build.
int take_part(Board& board, const fs::path& folder, int process, int processes, int64_t rounds) {
  ::alarm(3600);
  Cache cache({.store = {.folder = folder, .size_limit_bytes = kLimit, .warn = [&](const std::string& text) {
                           std::fprintf(stderr, "%s\n", text.c_str());
                           ++board.warnings;
                         }}});
  for (int64_t round = 0; round < rounds; ++round) {
    ::pthread_barrier_wait(&board.barrier);
    if (process == 0) {
      for (auto& builds : board.builds) builds = 0;
      board.wipes = 0;
    }
    ::pthread_barrier_wait(&board.barrier);
    const bool wipes = round % 5 == 2 && process == static_cast<int>(round % processes);
    for (int k = 0; k < kKeys; ++k) {
      const int64_t number = round * kKeys + (k + process) % kKeys;
      std::optional<std::string> found = cache.get(key_of(number));
      if (!found) {
        const CacheLease lease = cache.acquire(key_of(number), 10min);
        found = cache.get(key_of(number));
        if (!found) {
          ++board.builds[number % kKeys];
          std::this_thread::sleep_for(1ms);
          found = entry_of(number, kBytes);
          cache.put(key_of(number), *found);
        }
      }
      if (!is_entry_of(number, *found)) ++board.wrong;
      if (wipes && k == 1) {
        ++board.wipes;
        cache.store().clear();
      }
    }
    if (round % 7 == 3 && process == static_cast<int>((round + 1) % processes)) cache.store().verify();
    ::pthread_barrier_wait(&board.barrier);
    if (process == 0) {
      for (const auto& builds : board.builds) {
        board.built += builds;
        if (builds > 1 + board.wipes) ++board.twice;
      }
      board.wiped += board.wipes;
      if (round % 4 == 3) board.evicted += static_cast<int64_t>(cache.store().shrink_to(30'000));
    }
  }
  board.evicted += static_cast<int64_t>(process == 0 ? 0 : cache.store().stats().session.evicted);
  board.write_errors += static_cast<int64_t>(cache.store().stats().session.write_errors);
  return 0;
}

TEST(Crowd, OfAllThatWantTheSameOneBuilds) {
  const Result result;
  const TempFolder root = quick_folder();
  const fs::path folder = root.path() / "cache";
  const int processes = 64;
  const int64_t rounds = times(12, 1000);
  auto& board = *new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board{};
  pthread_barrierattr_t shared;
  ::pthread_barrierattr_init(&shared);
  ::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&board.barrier, &shared, processes);
  std::vector<pid_t> crowd;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) run_as_child([&] { return take_part(board, folder, i, processes, rounds); });
    crowd.push_back(pid);
  }
  for (const pid_t pid : crowd) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(board.wrong, 0);
  EXPECT_EQ(board.warnings, 0);
  EXPECT_EQ(board.write_errors, 0);
  EXPECT_EQ(board.twice, 0) << "keys that two processes built in one round";
  EXPECT_GE(board.built, rounds * kKeys);
  EXPECT_GT(board.wiped, 0);
  EXPECT_GT(board.evicted, 0);
  EXPECT_EQ(complaint_of_next_user(folder, rounds * kKeys), "");
  result.say("{} processes, {} rounds of {} keys, {} builds, {} wipes and {} evictions meanwhile: 0 wrong, 0 warnings, 0 built twice",
             processes, rounds, kKeys, board.built.load(), board.wiped.load(), board.evicted.load());
  ::munmap(&board, sizeof(Board));
}

// A child that does `hold` and then lives on until the object goes.
class Holder {
 public:
  explicit Holder(const std::function<void(const std::function<void()>& wait)>& hold, pid_t wanted_id = 0) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    clone_args how{};
    how.exit_signal = SIGCHLD;
    how.set_tid = reinterpret_cast<uint64_t>(&wanted_id);
    how.set_tid_size = 1;
    pid_ = wanted_id == 0 ? ::fork() : static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (pid_ == 0) {
      run_as_child([&] {
        hold([&] {
          if (::write(ends[1], "x", 1) != 1) ::_exit(1);
          for (;;) ::pause();
        });
        return 0;
      });
    }
    ::close(ends[1]);
    char said = 0;
    holds_ = pid_ > 0 && ::read(ends[0], &said, 1) == 1;
    ::close(ends[0]);
  }
  Holder(const Holder&) = delete;
  ~Holder() { end(); }
  bool holds() const { return holds_; }
  pid_t pid() const { return pid_; }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  bool holds_ = false;
};

auto holding_lease(const fs::path& folder) {
  return [folder](const std::function<void()>& wait) {
    Leases leases(folder);
    const Lease lease = leases.acquire(key_of(1), 1min);
    if (lease.state() == LeaseState::Owner) wait();
  };
}

TEST(Leases, OfDeadOwnersAreFreeWithinTwoSeconds) {
  const Result result;
  const TempFolder folder;
  double longest = 0;
  const int64_t rounds = times(5, 300);
  for (int64_t i = 0; i < rounds; ++i) {
    Holder owner(holding_lease(folder.path()));
    ASSERT_TRUE(owner.holds());
    double died = 0;
    Stopwatch watch;
    std::thread killer([&] {
      std::this_thread::sleep_for(20ms);
      owner.end();
      died = watch.seconds();
    });
    Leases leases(folder.path());
    const Lease lease = leases.acquire(key_of(1), 1min);
    const double taken = watch.seconds();
    killer.join();
    ASSERT_EQ(lease.state(), LeaseState::Owner);
    longest = std::max(longest, taken - died);
  }
  EXPECT_LT(longest, 2.0);
  result.say("{} owners killed: the lease was taken at most {:.3f} s after", rounds, longest);
}

TEST(Leases, AProcessWithTheIdOfADeadOwnerIsNotTakenForIt) {
  const TempFolder folder;
  Holder owner(holding_lease(folder.path()));
  ASSERT_TRUE(owner.holds());
  const pid_t id = owner.pid();
  owner.end();
  const Holder other([](const std::function<void()>& wait) { wait(); }, id);
  if (!other.holds()) GTEST_SKIP() << "only root can choose a process id";
  ASSERT_EQ(other.pid(), id);
  Leases leases(folder.path());
  const Lease lease = leases.acquire(key_of(1), 1min);
  EXPECT_EQ(lease.state(), LeaseState::Owner);
  EXPECT_LT(lease.waited(), 1s);
}

TEST(Leases, OfStoppedOwnersAreOvertaken) {
  const Result result;
  const TempFolder folder;
  std::chrono::milliseconds longest{};
  const int64_t rounds = times(1, 20);
  for (int64_t i = 0; i < rounds; ++i) {
    const Holder owner(holding_lease(folder.path()));
    ASSERT_TRUE(owner.holds());
    owner.stop();
    Leases leases(folder.path());
    const Lease lease = leases.acquire(key_of(1), 1min);
    ASSERT_EQ(lease.state(), LeaseState::Overtaken);
    longest = std::max(longest, lease.waited());
  }
  EXPECT_LT(longest, 4s);
  result.say("{} owners stopped: overtaken after at most {} ms", rounds, longest.count());
}

// A process that is stopped within a call of the store's holds its locks; the others lose patience, say so once and go on without.
TEST(Stores, OfStoppedProcessesHoldNobodyUpForLong) {
  const Result result;
  const TempFolder root;
  const fs::path folder = root.path() / "cache";
  const std::chrono::milliseconds patience = is_full() ? StoreOptions{}.patience : 300ms;
  { Store({.folder = folder}).put(key_of(1), entry_of(1, 1000)); }
  struct Case {
    const char* name;
    std::function<void(const std::function<void()>&)> hold;
    bool can_read;
  };
  const Case cases[] = {{"while it opens the store",
                         [&](const std::function<void()>& wait) {
                           const Fd lock(::open((folder / "open.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
                           if (lock && ::flock(lock.get(), LOCK_EX) == 0) wait();
                         },
                         false},
                        {"while it writes an entry",
                         [&](const std::function<void()>& wait) {
                           Database database(folder / "store-v2.db");
                           database.execute("BEGIN IMMEDIATE; UPDATE totals SET misses = misses + 1");
                           wait();
                         },
                         true}};
  for (const Case& each : cases) {
    const Holder holder(each.hold);
    ASSERT_TRUE(holder.holds());
    holder.stop();
    std::vector<std::string> warnings;
    const Stopwatch watch;
    {
      Store store({.folder = folder, .warn = [&](const std::string& text) { warnings.push_back(text); }, .patience = patience});
      EXPECT_EQ(store.get(key_of(1)).has_value(), each.can_read) << each.name;
      for (int i = 0; i < 5; ++i) store.put(key_of(2 + i), entry_of(2 + i, 100));
    }
    EXPECT_EQ(warnings.size(), 1u) << each.name;
    for (const std::string& each_warning : warnings) result.say("stopped {}: after {:.1f} s: {}", each.name, watch.seconds(), each_warning);
  }
  EXPECT_EQ(complaint_of_next_user(folder, 3), "");
}

// The same with a lease that machines share.
TEST(RemoteLeases, OfDeadAndStoppedOwnersEndByThemselves) {
  if (!RedisProcess::is_installed()) GTEST_SKIP() << "redis-server is not installed: nothing of this was tested";
  const Result result;
  const RedisProcess redis;
  auto options = [&] {
    return RemoteOptions{.address = parse_remote_address(redis.address()),
                         .secret = std::string(32, 's'),
                         .warn = [](const std::string& text) { ADD_FAILURE() << text; },
                         .health = std::make_shared<RemoteHealth>(30s, 20s),
                         .request_time = 20s};
  };
  std::chrono::milliseconds longest{};
  const int64_t rounds = times(1, 20);
  for (int64_t i = 0; i < 2 * rounds; ++i) {
    Holder owner([&](const std::function<void()>& wait) {
      Remote remote(options());
      const RemoteLease lease = remote.acquire(key_of(1), 10s);
      if (lease.state() == LeaseState::Owner) wait();
    });
    ASSERT_TRUE(owner.holds());
    if (i % 2 == 0) {
      owner.end();
    } else {
      owner.stop();
    }
    Remote remote(options());
    const RemoteLease lease = remote.acquire(key_of(1), 30s);
    ASSERT_EQ(lease.state(), LeaseState::Owner);
    longest = std::max(longest, lease.waited());
  }
  result.say("{} owners killed and {} stopped: the lease at Redis was taken at most {} ms after", rounds, rounds, longest.count());
}

}  // namespace
}  // namespace toroid::reliability
