// Allocations that fail, one after the other, and clocks that are wrong by years. Both are made by functions of the C library that this
// program defines itself.
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <sys/syscall.h>

#include "driver/compile.h"
#include "graph/text.h"
#include "reliability.h"
#include "support/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOROID_OWN_ALLOCATOR 0  // sanitizers bring theirs
#else
#define TOROID_OWN_ALLOCATOR 1
#endif

namespace {

std::atomic<int64_t> allocations_left{INT64_MAX};  // until one fails
std::atomic<bool> all_fail_then{false};
std::atomic<int64_t> failed{0};

[[maybe_unused]] bool must_fail() {
  if (allocations_left.load(std::memory_order_relaxed) == INT64_MAX) return false;
  const int64_t left = --allocations_left;
  if (left > 0 || (left < 0 && !all_fail_then)) return false;
  ++failed;
  errno = ENOMEM;
  return true;
}

std::atomic<time_t> clock_is_off_by{0};

}  // namespace

#if TOROID_OWN_ALLOCATOR
// glibc exports the functions behind its own names for this use.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return must_fail() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return must_fail() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return must_fail() ? nullptr : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) { return must_fail() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return must_fail() ? nullptr : __libc_memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = must_fail() ? nullptr : __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}
}
#endif

// Clocks that count since boot stay right, as they do on a machine whose date was set wrongly.
extern "C" {
int clock_gettime(clockid_t clock, timespec* result) noexcept {
  const int status = static_cast<int>(::syscall(SYS_clock_gettime, clock, result));
  if (clock == CLOCK_REALTIME) result->tv_sec += clock_is_off_by;
  return status;
}
time_t time(time_t* result) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(timeval* __restrict result, void* __restrict) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *result = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
}

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// In its scope the `at`-th allocation fails, and all later ones, if so wished.
class FailingMemory {
 public:
  FailingMemory(int64_t at, bool for_ever) {
    failed = 0;
    all_fail_then = for_ever;
    allocations_left = at;
  }
  ~FailingMemory() { allocations_left = INT64_MAX; }
  bool has_failed() const { return failed > 0; }
};

enum class End { Right, Error, OutOfMemory, Wrong };

End use_the_cache(const fs::path& folder) {
  try {
    Cache cache({.store = {.folder = folder, .size_limit_bytes = 100'000, .warn = [](const std::string&) {}}});
    for (int64_t i = 0; i < 3; ++i) {
      std::optional<std::string> found = cache.get(key_of(i));
      if (!found) {
        const CacheLease lease = cache.acquire(key_of(i), 5s);
        found = cache.get(key_of(i));
        if (!found) cache.put(key_of(i), entry_of(i, 5000));
      }
      if (found && !is_entry_of(i, *found)) return End::Wrong;
      cache.store().count("uses");
    }
    cache.store().verify();
    cache.store().shrink_to(1000);
    return End::Right;
  } catch (const Error&) {
    return End::Error;
  } catch (const std::bad_alloc&) {
    return End::OutOfMemory;
  }
}

TEST(Memory, AnyAllocationOfTheCacheMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  int64_t tried = 0, right = 0;
  for (const bool for_ever : {false, true}) {
    for (const bool begins : {true, false}) {
      const TempFolder root = quick_folder();
      const fs::path folder = root.path() / "cache";
      { Store({.folder = root.path() / "warm"}).put(key_of(0), "what libraries allocate once"); }
      for (int64_t at = 1;; at += times(41, 1)) {
        if (begins) fs::remove_all(folder);
        End end;
        bool has_failed = false;
        {
          const FailingMemory failing(at, for_ever);
          end = use_the_cache(folder);
          has_failed = failing.has_failed();
        }
        ASSERT_NE(end, End::Wrong) << "allocation " << at;
        ASSERT_EQ(use_the_cache(folder), End::Right) << "after allocation " << at;
        ASSERT_EQ(complaint_of_next_user(folder, 3), "") << "allocation " << at;
        if (!has_failed) break;
        ++tried;
        right += end == End::Right;
      }
    }
  }
  EXPECT_GT(tried, 50);
  result.say("{} allocations failed, once and for ever: {} results right in spite of it, the others 'out of memory'; the process goes on each time",
             tried, right);
#endif
}

// A whole compilation that the cache serves.
TEST(Memory, AnyAllocationOfAWarmCompilationMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  const TempFolder root = quick_folder();
  const char* const before = std::getenv("TOROID_CACHE_DIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TOROID_CACHE_DIR", (root.path() / "cache").c_str(), 1);
  constexpr const char* kText = "graph(x: f32[4]) {\n  y: f32[4] = aten::mul.Scalar(x, 2.0)\n  return y\n}";
  auto compile = [&] {
    try {
      return CompileSession().compile(parse_text(kText)).kernels == 1 ? End::Right : End::Wrong;
    } catch (const Error&) {
      return End::Error;
    } catch (const std::bad_alloc&) {
      return End::OutOfMemory;
    }
  };
  ASSERT_EQ(compile(), End::Right);
  ASSERT_EQ(compile(), End::Right);
  int64_t tried = 0;
  for (int64_t at = 1;; at += times(53, 1)) {
    bool has_failed = false;
    End end;
    {
      const FailingMemory failing(at, false);
      end = compile();
      has_failed = failing.has_failed();
    }
    ASSERT_NE(end, End::Wrong) << "allocation " << at;
    if (!has_failed) break;
    ++tried;
  }
  EXPECT_EQ(compile(), End::Right);
  if (before != nullptr) {
    ::setenv("TOROID_CACHE_DIR", kept.c_str(), 1);
  } else {
    ::unsetenv("TOROID_CACHE_DIR");
  }
  EXPECT_GT(tried, 10);
  result.say("{} allocations of a warm compilation failed: right, or an error; the process goes on each time", tried);
#endif
}

class Clock : public testing::Test {
 protected:
  ~Clock() override { clock_is_off_by = 0; }
};

TEST_F(Clock, OffByYearsGivesTheSameHits) {
  const Result result;
  constexpr time_t kYear = 365 * 24 * 3600;
  const TempFolder root = quick_folder();
  const fs::path folder = root.path() / "cache";
  const StoreOptions options = {.folder = folder, .size_limit_bytes = 50'000};
  const time_t real = std::time(nullptr);
  for (const int years : {0, -40, 60, -10, 10, 0}) {
    clock_is_off_by = years * kYear;
    ASSERT_LE(std::abs(std::time(nullptr) - real - years * kYear), 5) << "the clock is the faked one";
    Cache cache({.store = options});
    for (int64_t i = 0; i < 4; ++i) {
      const CacheLease lease = cache.acquire(key_of(i), 10s);
      const std::optional<std::string> found = cache.get(key_of(i));
      if (years == 0 && !found) cache.put(key_of(i), entry_of(i, 8000));
      if (years != 0) {
        EXPECT_EQ(found, entry_of(i, 8000)) << years;
      }
    }
  }
  // The order of uses does not follow the clock either: what was used last stays.
  clock_is_off_by = 50 * kYear;
  { Store(options).put(key_of(10), entry_of(10, 8000)); }
  clock_is_off_by = -50 * kYear;
  Store store(options);
  EXPECT_TRUE(store.get(key_of(0)));
  for (int64_t i = 20; i < 23; ++i) store.put(key_of(i), entry_of(i, 8000));
  EXPECT_TRUE(store.get(key_of(0)));
  EXPECT_FALSE(store.get(key_of(1)));
  EXPECT_TRUE(store.get(key_of(22)));
  result.say("clocks off by -40 to 60 years: the same hits, the same order of uses");
}

}  // namespace
}  // namespace toroid::reliability
