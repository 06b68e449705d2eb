// What exceptions of packages go through (package/unwind.c): a library that is linked as packages are. Each function is a frame of another
// kind. unwinds() gives the number of what went wrong.
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

#define TOROID_FRAME __attribute__((noinline))

std::atomic<int> alive = 0;
struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  ~Counted() { --alive; }
};

// Kept in registers that a function's caller expects back.
struct Kept {
  uint64_t a, b, c, d, e;
  bool operator==(const Kept&) const = default;
};
TOROID_FRAME Kept kept(uint64_t seed) { return {seed * 3, seed * 5, seed * 7, seed * 11, seed * 13}; }

// Always throws, which the compiler does not see.
TOROID_FRAME void fail(int depth) {
  if (depth < 0) throw std::runtime_error("deep " + std::to_string(depth));
  if (depth < INT_MAX) throw depth;
}
TOROID_FRAME void deep(int depth, int how) {
  const Counted counted;
  if (depth > 0)
    deep(depth - 1, how);
  else
    fail(how);
  asm volatile("");
}

// Aligned, with memory whose size is not known, and more arguments than there are registers for.
TOROID_FRAME void aligned(const uint64_t* sizes, int how) {
  alignas(128) char memory[256];
  auto* const more = static_cast<char*>(__builtin_alloca(sizes[0]));
  std::memset(more, 1, sizes[0]);
  std::memset(memory, more[0], sizeof memory);
  const Counted counted;
  asm volatile("" : : "r"(memory), "r"(more) : "memory");
  if (reinterpret_cast<uintptr_t>(memory) % 128 != 0) throw "misaligned";
  deep(3, how);
  asm volatile("" : : "r"(memory), "r"(more) : "memory");
}
TOROID_FRAME int many(int a, int b, int c, int d, int e, int f, int g, int h, const std::string& i, int how) {
  const Counted counted;
  const uint64_t sizes[] = {static_cast<uint64_t>(a + b + c + d + e + f + g + h) + i.size()};
  aligned(sizes, how);
  return how;
}
#ifdef __x86_64__
typedef float Vector __attribute__((vector_size(64)));
__attribute__((noinline, target("arch=x86-64-v4"))) float in_vectors(const float* from, int how) {
  Vector sum = {};
  std::memcpy(&sum, from, sizeof sum);
  const Counted counted;
  volatile Vector kept_in_memory = sum;
  many(1, 2, 3, 4, 5, 6, 7, 8, "words", how);
  return kept_in_memory[0];
}
#endif

template <class Thrown>
bool is_caught(int how, bool in_vectors_too) {
  const Kept before = kept(static_cast<uint64_t>(how + 100));
  bool found = false;
  try {
    const float numbers[16] = {};
#ifdef __x86_64__
    if (in_vectors_too) in_vectors(numbers, how);
#endif
    static_cast<void>(numbers), static_cast<void>(in_vectors_too);
    many(1, 2, 3, 4, 5, 6, 7, 8, std::string(100, 'x'), how);
  } catch (const Thrown&) {
    found = true;
  }
  return found && alive == 0 && before == kept(static_cast<uint64_t>(how + 100));
}

// An exception again, another in its place, one while another is on its way, and one for later.
bool is_thrown_again() {
  int steps = 0;
  try {
    try {
      try {
        deep(2, 5);
      } catch (int) {
        ++steps;
        throw;
      }
    } catch (int number) {
      steps += number;
      struct Swallows {
        ~Swallows() {
          try {
            deep(1, -1);
          } catch (const std::exception&) {
          }
        }
      } const swallows;
      throw std::logic_error("another");
    }
  } catch (const std::logic_error&) {
    ++steps;
  }
  std::exception_ptr later;
  try {
    deep(10, -1);
  } catch (...) {
    later = std::current_exception();
  }
  try {
    std::rethrow_exception(later);
  } catch (const std::runtime_error& error) {
    steps += std::strcmp(error.what(), "deep -1") == 0 ? 1 : 0;
  }
  return steps == 8 && alive == 0;
}

bool is_caught_in_threads() {
  int right[4] = {};
  std::vector<std::thread> threads;
  for (int& each : right) {
    threads.emplace_back([&each] {
      for (int i = 0; i < 1000; ++i) {
        try {
          fail(i % 2 == 0 ? i : -i);
        } catch (int) {
          ++each;
        } catch (const std::exception&) {
          ++each;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int each : right) {
    if (each != 1000) return false;
  }
  return true;
}

TOROID_FRAME void wait_within(void (*wait)(), int depth) {
  const Counted counted;
  if (depth == 0)
    wait();
  else
    wait_within(wait, depth - 1);
  asm volatile("");
}

}  // namespace

// Calls a function in which the thread ends, and what was alive then.
extern "C" __attribute__((visibility("default"))) void wait_in_frames(void (*wait)()) { wait_within(wait, 3); }
extern "C" __attribute__((visibility("default"))) int alive_in_frames() { return alive; }

extern "C" __attribute__((visibility("default"))) int unwinds(int has_avx512) {
  if (!is_caught<int>(7, has_avx512 != 0)) return 1;
  if (!is_caught<std::exception>(-7, has_avx512 != 0)) return 2;
  if (!is_thrown_again()) return 3;
  if (!is_caught_in_threads()) return 4;
  try {
    deep(20000, -1);
  } catch (const std::runtime_error&) {
    return alive == 0 ? 0 : 5;
  }
  return 6;
}
