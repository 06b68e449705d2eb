// Allocations that fail, one after the other, and clocks that are wrong by years. Both are made by functions of the C library that this
// program defines itself.
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <sys/syscall.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/machine/out_of_memory.h"
#include "driver/compile.h"
#include "driver/eager/eager_cache.h"
#include "graph/text/text.h"
#include "reliability.h"
#include "toolchain/fake_compiler_for_test.h"

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

enum class End { Right, OutOfMemory, Wrong };

// How `use`, which says whether its result is right, ends. A lack of memory is an Error that says so and nothing else; what else is
// thrown ends the test.
End end_of(const std::function<bool()>& use) {
  try {
    return use() ? End::Right : End::Wrong;
  } catch (const Error& error) {
    const bool says_so = error.kind() == ErrorKind::Environment && error.message().starts_with("out of memory");
    if (!says_so) std::fprintf(stderr, "%s\n", error.report().c_str());
    return says_so ? End::OutOfMemory : End::Wrong;
  }
}

struct Tried {
  int64_t allocations = 0;
  int64_t right = 0;  // in spite of the failure
};

// Each `step`-th allocation of `use` fails, once or from there on. `before` and `after` have all memory; `after` says what is wrong.
Tried fail_each(bool for_ever, int64_t step, const std::function<void()>& before, const std::function<bool()>& use,
                const std::function<std::string()>& after) {
  Tried tried;
  for (int64_t at = 1;; at += step) {
    before();
    End end;
    bool has_failed = false;
    {
      const FailingMemory failing(at, for_ever);
      end = end_of(use);
      has_failed = failing.has_failed();
    }
    EXPECT_NE(end, End::Wrong) << "allocation " << at << (for_ever ? " and all later ones" : "");
    EXPECT_EQ(after(), "") << "after allocation " << at << (for_ever ? " and all later ones" : "");
    if (!has_failed || testing::Test::HasFailure()) return tried;
    ++tried.allocations;
    tried.right += end == End::Right;
  }
}

// The scope of a test with a cache of its own.
class OwnCache {
 public:
  OwnCache() : before_(std::getenv("TOROID_CACHE_DIR") != nullptr ? std::getenv("TOROID_CACHE_DIR") : "") {
    ::setenv("TOROID_CACHE_DIR", (root_.path() / "cache").c_str(), 1);
  }
  ~OwnCache() { before_.empty() ? ::unsetenv("TOROID_CACHE_DIR") : ::setenv("TOROID_CACHE_DIR", before_.c_str(), 1); }
  OwnCache(const OwnCache&) = delete;

 private:
  const TempFolder root_ = quick_folder();
  const std::string before_;
};

TEST(Memory, AnyAllocationOfTheCacheMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  const CacheKey keys[] = {key_of(0), key_of(1), key_of(2)};
  const std::string entries[] = {entry_of(0, 5000), entry_of(1, 5000), entry_of(2, 5000)};
  int64_t tried = 0, right = 0;
  for (const bool for_ever : {false, true}) {
    for (const bool begins : {true, false}) {
      const TempFolder root = quick_folder();
      const fs::path folder = root.path() / "cache";
      { Store({.folder = root.path() / "warm"}).put(key_of(0), "what libraries allocate once"); }
      std::optional<CacheOptions> options;  // made before memory fails, and given away
      auto use = [&] {
        Cache cache(std::move(*options));
        for (size_t i = 0; i < std::size(keys); ++i) {
          std::optional<std::string> found = cache.get(keys[i]);
          if (!found) {
            const CacheLease lease = cache.acquire(keys[i], 5s);
            found = cache.get(keys[i]);
            if (!found) cache.put(keys[i], entries[i]);
          }
          if (found && *found != entries[i]) return false;
          cache.store().count("uses");
        }
        cache.store().verify();
        cache.store().shrink_to(1000);
        return true;
      };
      auto before = [&] {
        if (begins) fs::remove_all(folder);
        options = {.store = {.folder = folder, .size_limit_bytes = 100'000, .warn = [](const std::string&) {}}};
      };
      auto after = [&]() -> std::string {
        options = {.store = {.folder = folder, .size_limit_bytes = 100'000, .warn = [](const std::string&) {}}};
        return use() ? complaint_of_next_user(folder, 3) : "wrong bytes";
      };
      const Tried each = fail_each(for_ever, times(41, 1), before, use, after);
      tried += each.allocations;
      right += each.right;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(tried, 50);
  result.say(
      "{} allocations failed, once and for ever: {} results right in spite of it, the others 'out of memory'; the process goes on each "
      "time",
      tried, right);
#endif
}

#if TOROID_OWN_ALLOCATOR
// Lets every `step`-th allocation of a compilation fail, once and for ever.
void fail_compilations(std::string_view kind, const Result& result, int64_t step, const std::function<void()>& before,
                       const std::function<bool()>& compile, const std::function<std::string()>& again) {
  int64_t tried = 0, right = 0;
  for (const bool for_ever : {false, true}) {
    const Tried each = fail_each(for_ever, step, before, compile, again);
    tried += each.allocations;
    right += each.right;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(tried, 10);
  result.say(
      "{} allocations of a {} compilation failed, once and for ever: {} results right in spite of it, the others 'out of memory'; "
      "the process goes on each time",
      tried, kind, right);
}
#endif

// In a process of its own, in which nothing was thrown before: an exception that passes frames of the C library has it load libgcc_s.so.1.
TEST(Memory, MayEndWithTheFirstToolchain) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto first = [] {
    CompileSession session;
    const FailingMemory failing(1, true);
    return end_of([&] { return with_typed_memory("a toolchain", [&] { return session.toolchain(), true; }); });
  };
  EXPECT_EXIT(::_exit(first() == End::OutOfMemory ? 0 : 1), testing::ExitedWithCode(0), "");
#endif
}

// A whole compilation that the cache serves.
TEST(Memory, AnyAllocationOfAWarmCompilationMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  const OwnCache own;
  constexpr const char* kText = "graph(x: f32[4]) {\n  y: f32[4] = aten::mul.Scalar(x, 2.0)\n  return y\n}";
  // The program is made in place: even to move one needs memory.
  auto compile = [&] {
    return CompileSession().compile(with_typed_memory("making a program", [&] { return parse_text(kText); })).kernels == 1;
  };
  auto again = [&]() -> std::string { return compile() ? "" : "another number of kernels"; };
  ASSERT_EQ(again(), "");
  ASSERT_EQ(again(), "");
  fail_compilations(
      "warm", result, times(97, 1), [] {}, compile, again);
#endif
}

// A whole compilation, with a compiler that answers at once. All that it needed before the first failure, it finds again: probes of the
// compiler, but neither the graph nor the library.
TEST(Memory, AnyAllocationOfAColdCompilationMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  const TempFolder root = quick_folder();
  const ScopedVariable isa("TOROID_ISA", "baseline");
  const ScopedVariable cache("TOROID_CACHE_DIR", (root.path() / "cache").string());
  const fs::path probed = root.path() / "probed";
  // Two kernels that cannot be one, so that there are two files and a thread for each.
  std::string text = "graph(x: f32[40, 60]) {\n  v0: f32[40, 60], k0: i64[40, 60] = aten::sort(x, 1)\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("  v{}: f32[40, 60] = aten::{}(v{})\n", i + 1, i % 2 == 0 ? "erf" : "expm1", i);
  text += "  w0: f32[40, 60], j0: i64[40, 60] = aten::sort(v100, 0)\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("  w{}: f32[40, 60] = aten::{}(w{})\n", i + 1, i % 2 == 0 ? "tanh" : "sinh", i);
  text += "  return w100\n}";
  auto compiled = [&] {
    return CompileSession().compile(with_typed_memory("making a program", [&] { return parse_text(text); }), {.compile_threads = 2});
  };
  const FakeCompiler fake("cat " + (root.path() / "library").string() + " >\"$out\"");
  write_file_atomically(root.path() / "library", std::string_view("\177ELF, or what begins so"));
  const ScopedVariable compiler("TOROID_CXX", fake.path().string());
  { CompileSession().toolchain(); }
  fs::copy(root.path() / "cache", probed, fs::copy_options::recursive);
  const CompiledModel right = compiled();
  ASSERT_EQ(right.kernels, 2);
  ASSERT_EQ(fake.runs(), 3) << "two files and the linker";

  auto forget = [&] {
    fs::remove_all(root.path() / "cache");
    fs::copy(probed, root.path() / "cache", fs::copy_options::recursive);
  };
  auto compile = [&] {
    const CompiledModel model = compiled();
    return model.kernels == 2 && model.library == right.library && model.graph.library_key == right.graph.library_key;
  };
  auto again = [&]() -> std::string { return compile() ? "" : "another result"; };
  fail_compilations("cold", result, times(1999, 31), forget, compile, again);
#endif
}

// Library kernels, working memory of kernels, sizes that are known late, a buffer that is written.
constexpr const char* kCalled = R"(
sym u0 in [0, 1600] from data
buffer 0 "n": f32[] = [0]
graph(x: f32[40, 300], w: f32[300, 40]) {
  n: f32[] = constant(0)
  m: f32[] = aten::add_.Scalar(n, 1)
  y: f32[40, 40] = aten::mm(x, w)
  p: f32[40, 40] = aten::softmax.int(y, 1)
  v: f32[40, 40], k: i64[40, 40] = aten::sort(p, 1)
  b: bool[40, 40] = aten::gt.Scalar(v, 0.025)
  z: i64[u0, 2] = aten::nonzero(b)
  return v, k, z, m
})";

HostTensor numbers(std::vector<int64_t> sizes, double scale) {
  std::vector<double> values(static_cast<size_t>(numel(sizes)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<double>(i * 7919 % 101);
  return HostTensor::from_doubles(DType::F32, std::move(sizes), values);
}

TEST(Memory, MovingAProgramAsksForNone) {
  Program program = parse_text(kCalled);
  const FailingMemory failing(1, true);
  Program other = std::move(program);
  program = std::move(other);
  EXPECT_FALSE(failing.has_failed());
}

bool are_equal(const HostTensor& a, const HostTensor& b) {
  return a.sizes() == b.sizes() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST(Memory, AnyAllocationOfACallMayFail) {
#if !TOROID_OWN_ALLOCATOR
  GTEST_SKIP() << "the sanitizer's allocator cannot be made to fail: nothing of this was tested";
#else
  const Result result;
  const OwnCache own;
  CompileSession session;
  const CompiledModel model = session.compile(parse_text(kCalled));
  const std::vector<HostTensor> inputs = {numbers({40, 300}, 0.001), numbers({300, 40}, 0.001)};
  std::optional<Executable> program = model.load(2);
  const std::vector<HostTensor> right = program->run(inputs);
  double calls = 1;  // that ended well, by which the buffer has grown
  auto run = [&] {
    const std::vector<HostTensor> outputs = program->run(inputs);
    calls += 1;
    for (size_t i = 0; i < 3; ++i) {
      if (!are_equal(outputs[i], right[i])) return false;
    }
    return outputs[3].double_at(0) == calls;
  };
  auto load = [&] {
    program.reset();
    calls = 0;
    program.emplace(model.load(2));
    return run();
  };
  auto run_again = [&]() -> std::string { return run() ? "" : "another result"; };
  auto load_again = [&]() -> std::string { return load() ? "" : "another result"; };

  std::optional<EagerCache> eager;
  const HostTensor x = numbers({30, 50}, 0.5), y = numbers({50, 20}, 0.25);
  const std::vector<HostTensor> of_operators = {EagerCache(session).call("aten::mm", {x, y})[0],
                                                EagerCache(session).call("aten::softmax.int", {x, 1})[0]};
  auto forget = [&] { eager.emplace(session); };
  auto call = [&] {
    for (int i = 0; i < 2; ++i) {
      if (!are_equal(eager->call("aten::mm", {x, y})[0], of_operators[0])) return false;
      if (!are_equal(eager->call("aten::softmax.int", {x, 1})[0], of_operators[1])) return false;
    }
    return true;
  };
  auto call_again = [&]() -> std::string { return call() ? "" : "another result"; };

  int64_t tried = 0;
  for (const bool for_ever : {false, true}) {
    tried += fail_each(
                 for_ever, 1, [] {}, run, run_again)
                 .allocations;
    ASSERT_FALSE(HasFailure()) << "running";
    tried += fail_each(
                 for_ever, times(7, 1), [] {}, load, load_again)
                 .allocations;
    ASSERT_FALSE(HasFailure()) << "loading";
    tried += fail_each(for_ever, times(13, 1), forget, call, call_again).allocations;
    ASSERT_FALSE(HasFailure()) << "calling operators";
  }
  EXPECT_GT(tried, 30);
  result.say(
      "{} allocations failed, once and for ever, of programs loaded and run and of operators called: right, or 'out of memory', and "
      "the next call right; buffers are written by whole calls only",
      tried);
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
