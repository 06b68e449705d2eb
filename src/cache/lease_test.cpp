#include "cache/lease.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file/file.h"
#include "cache/key_for_test.h"

namespace toroid {
namespace {
using namespace std::chrono_literals;

TEST(Lease, OneThreadBuildsAtATime) {
  const TempFolder folder;
  Leases leases(folder.path());
  std::atomic<int> inside = 0, built = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const Lease lease = leases.acquire(key_of("same"), 60s);
        ASSERT_EQ(lease.state(), LeaseState::Owner);
        most = std::max(most.load(), ++inside);
        ++built;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(built, 160);
}

TEST(Lease, OtherKeysDoNotWait) {
  const TempFolder folder;
  Leases leases(folder.path());
  const Lease one = leases.acquire(key_of("one"), 1s);
  const Lease two = leases.acquire(key_of("two"), 1s);
  EXPECT_EQ(two.state(), LeaseState::Owner);
  EXPECT_LT(two.waited(), 500ms);
}

// A child that takes the lease, says so and then waits for ever.
class Owner {
 public:
  explicit Owner(const std::filesystem::path& folder) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      Leases leases(folder);
      const Lease lease = leases.acquire(key_of("same"), 60s);
      const char state = lease.state() == LeaseState::Owner ? 'o' : 'x';
      if (::write(ends[1], &state, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    owns_ = ::read(ends[0], &said_, 1) == 1 && said_ == 'o';
    ::close(ends[0]);
  }
  ~Owner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool owns() const { return owns_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  char said_ = 0;
  bool owns_ = false;
};

TEST(Lease, ADeadOwnerIsNoOwner) {
  const TempFolder folder;
  auto owner = std::make_unique<Owner>(folder.path());
  ASSERT_TRUE(owner->owns());
  Leases leases(folder.path());
  std::thread killer([&] {
    std::this_thread::sleep_for(300ms);
    owner.reset();
  });
  Stopwatch watch;
  const Lease lease = leases.acquire(key_of("same"), 60s);
  killer.join();
  EXPECT_EQ(lease.state(), LeaseState::Owner);
  EXPECT_GT(watch.seconds(), 0.25);
}

TEST(Lease, AStoppedOwnerIsOvertaken) {
  const TempFolder folder;
  const Owner owner(folder.path());
  ASSERT_TRUE(owner.owns());
  ASSERT_EQ(::kill(owner.pid(), SIGSTOP), 0);
  Leases leases(folder.path());
  Stopwatch watch;
  const Lease lease = leases.acquire(key_of("same"), 60s);
  EXPECT_EQ(lease.state(), LeaseState::Overtaken);
  EXPECT_LT(watch.seconds(), 60);
}

TEST(Lease, ALivingOwnerIsWaitedForUntilPatienceEnds) {
  const TempFolder folder;
  const Owner owner(folder.path());
  ASSERT_TRUE(owner.owns());
  Leases leases(folder.path());
  const Lease lease = leases.acquire(key_of("same"), 3500ms);  // longer than a standstill lasts
  EXPECT_EQ(lease.state(), LeaseState::Overtaken);
  EXPECT_GE(lease.waited(), 3500ms);
}

TEST(Lease, WaitingEndsWhenTheResultIsThere) {
  const TempFolder folder;
  const Owner owner(folder.path());
  ASSERT_TRUE(owner.owns());
  Leases leases(folder.path());
  int looks = 0;
  const Lease lease = leases.acquire(key_of("same"), 60s, [&] { return ++looks == 3; });
  EXPECT_EQ(lease.state(), LeaseState::Overtaken);
  EXPECT_EQ(looks, 3);
}

TEST(Lease, AChildOfForkKeepsNoLease) {
  const TempFolder folder;
  Leases leases(folder.path());
  auto lease = std::make_unique<Lease>(leases.acquire(key_of("same"), 60s));
  ASSERT_EQ(lease->state(), LeaseState::Owner);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  lease.reset();
  const Lease next = leases.acquire(key_of("same"), 60s);
  EXPECT_EQ(next.state(), LeaseState::Owner);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Lease, AChildOfForkEndsNoLeaseOfItsParent) {
  const TempFolder folder;
  Leases leases(folder.path());
  auto lease = std::make_unique<Lease>(leases.acquire(key_of("same"), 60s));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // where a lock was held at the fork
    lease.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(Leases(folder.path()).acquire(key_of("same"), 500ms).state(), LeaseState::Overtaken);
}

TEST(Lease, WithoutAThreadForItsSignsOfLifeNothingIsGuarded) {
  const TempFolder folder;
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Room for this and that, but for no thread's stack of this size.
    pthread_attr_t large;
    ::pthread_attr_init(&large);
    ::pthread_attr_setstacksize(&large, size_t{1} << 40);
    ::pthread_setattr_default_np(&large);
    const rlimit memory = {rlim_t{1} << 39, rlim_t{1} << 39};
    ::setrlimit(RLIMIT_AS, &memory);
    Leases leases(folder.path());
    const LeaseState first = leases.acquire(key_of("same"), 1s).state(), second = leases.acquire(key_of("same"), 1s).state();
    ::_exit(first == LeaseState::Unguarded && second == LeaseState::Unguarded ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more room than that themselves
  EXPECT_EQ(status, 0);
#endif
}

TEST(Lease, WithoutAFolderNothingIsGuarded) {
  Leases none("");
  EXPECT_EQ(none.acquire(key_of("same"), 1s).state(), LeaseState::Unguarded);
  Leases missing("/nonexistent/folder");
  EXPECT_EQ(missing.acquire(key_of("same"), 1s).state(), LeaseState::Unguarded);
}

}  // namespace
}  // namespace toroid
