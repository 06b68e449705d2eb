#include "planted_choices.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/kernels/epilogue/post_ops.h"

namespace toroid::tune {
namespace {

int64_t count_of(const KernelCall& call) { return call.inputs[0].sizes[0]; }
float* in(const KernelCall& call) { return static_cast<float*>(call.inputs[0].data); }
float* out(const KernelCall& call) { return static_cast<float*>(call.outputs[0].data); }

void compute(const KernelCall& call, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out(call)[i] = 2 * in(call)[i];
}
void compute(const KernelCall& call) { compute(call, count_of(call)); }

// Volatile, or the compiler would leave out what nobody uses.
void touch(const float* place) { [[maybe_unused]] const float value = *static_cast<const volatile float*>(place); }
void write(float* place) {
  volatile float& written = *place;
  written = 1;
}

[[noreturn]] void hang() {
  for (;;) ::usleep(10'000);
}

// As if the input of the call before were still in a cache.
void compute_if_warm(const KernelCall& call) {
  static const float* warm = nullptr;
  if (in(call) != warm) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  warm = in(call);
  compute(call);
}

void tell(pid_t pid) {
  const char* file = std::getenv(kPidFileVariable);
  if (FILE* to = file != nullptr ? std::fopen(file, "w") : nullptr) {
    std::fprintf(to, "%d\n", pid);
    std::fclose(to);
  }
}

using Run = void (*)(const KernelCall& call);
struct Planted {
  std::string_view name;
  Run run;
};

// The first is the reference. It, "quick", "slow", "last" and "quick-if-warm" are what should be timed.
constexpr Planted kPlanted[] = {
    {"plain",
     [](const KernelCall& call) {
       std::this_thread::sleep_for(std::chrono::milliseconds(1));
       compute(call);
     }},
    {"quick", [](const KernelCall& call) { compute(call); }},
    {"slow",
     [](const KernelCall& call) {
       std::this_thread::sleep_for(std::chrono::milliseconds(4));
       compute(call);
     }},
    {"crashes", [](const KernelCall&) { touch(reinterpret_cast<const float*>(64)); }},
    {"aborts",
     [](const KernelCall&) {
       std::fprintf(stderr, "something\nterrible happened\n");
       std::abort();
     }},
    {"hangs", [](const KernelCall&) { hang(); }},
    {"ignores-sigterm",
     [](const KernelCall&) {
       ::signal(SIGTERM, SIG_IGN);
       volatile bool for_ever = true;
       while (for_ever) {
       }
     }},
    {"stops",
     [](const KernelCall&) {
       ::raise(SIGSTOP);
       hang();
     }},
    {"reads-beyond", [](const KernelCall& call) { touch(in(call) + count_of(call) + 32); }},
    {"reads-before", [](const KernelCall& call) { touch(in(call)-1250); }},
    {"writes-beyond",
     [](const KernelCall& call) {
       compute(call);
       write(out(call) + count_of(call));
     }},
    {"writes-far-beyond", [](const KernelCall& call) { write(out(call) + count_of(call) + 32); }},
    {"writes-before",
     [](const KernelCall& call) {
       compute(call);
       write(out(call) - 1);
     }},
    {"writes-input", [](const KernelCall& call) { write(in(call)); }},
    {"wrong",
     [](const KernelCall& call) {
       compute(call);
       out(call)[7] += 0.25f;
     }},
    {"leaves-out", [](const KernelCall& call) { compute(call, count_of(call) - 1); }},
    {"right-only-once",
     [](const KernelCall& call) {
       static int calls = 0;
       compute(call);
       if (++calls > 1) out(call)[0] = 0;
     }},
    {"exits", [](const KernelCall&) { ::_exit(0); }},
    {"exits-with-status", [](const KernelCall&) { ::_exit(3); }},
    {"prints-without-end",
     [](const KernelCall&) {
       for (;;) std::puts("and another line of much that nobody wants to read");
     }},
    {"closes-everything",
     [](const KernelCall&) {
       for (int file = 0; file < 100; ++file) ::close(file);
       hang();
     }},
    {"throws", [](const KernelCall&) { throw Error(ErrorKind::Environment, "no workspace is left"); }},
    {"throws-something-else", [](const KernelCall&) { throw std::runtime_error("vector of nothing"); }},
    {"leaves-a-child",
     [](const KernelCall&) {
       const pid_t child = ::fork();
       if (child == 0) hang();
       tell(child);
       ::_exit(1);
     }},
    {"is-killed", [](const KernelCall&) { ::kill(::getpid(), SIGKILL); }},
    {"last",
     [](const KernelCall& call) {
       std::this_thread::sleep_for(std::chrono::milliseconds(1));
       compute(call);
     }},
    {"quick-if-warm", compute_if_warm},
};
constexpr size_t kCount = std::size(kPlanted);

// One function for each row: gates are plain functions of the problem.
template <size_t kPlace>
std::optional<std::string> gate(const Problem& problem) {
  const std::vector<int64_t>& open = problem.integers;
  if (open.empty() || std::find(open.begin(), open.end(), int64_t{kPlace}) != open.end()) return std::nullopt;
  return "this test does not want it";
}
// Estimates in the order of the table: 1 ms, 1.1 ms, …
template <size_t kPlace>
double cost_s(const Problem&, const MachineModel&) {
  return 1e-3 * (1 + 0.1 * static_cast<double>(kPlace));
}

template <size_t... kPlaces>
std::span<const Implementation> implementations(std::index_sequence<kPlaces...>) {
  static const Implementation rows[] = {{.name = kPlanted[kPlaces].name,
                                         .description = "planted",
                                         .gate = gate<kPlaces>,
                                         .cost_s = cost_s<kPlaces>,
                                         .plan = plan_running<kPlanted[kPlaces].run>}...};
  return rows;
}

// Gives the input to the epilogue, or writes it, after so long.
void copy(const KernelCall& call, std::chrono::microseconds time_with_epilogue, std::chrono::microseconds time_alone) {
  const int64_t rows = call.inputs[0].sizes[0], columns = call.inputs[0].sizes[1];
  std::this_thread::sleep_for(call.epilogue != nullptr ? time_with_epilogue : time_alone);
  if (call.epilogue != nullptr) return run_epilogue(*call.epilogue, in(call), columns, {0, rows}, {0, columns});
  std::memcpy(out(call), in(call), static_cast<size_t>(rows * columns) * sizeof(float));
}

constexpr std::chrono::microseconds kQuick{0}, kSlow{2000};
constexpr Planted kCopies[] = {
    {"slow-with", [](const KernelCall& call) { copy(call, kSlow, kQuick); }},
    {"slow-alone", [](const KernelCall& call) { copy(call, kQuick, kSlow); }},
    {"only-alone", [](const KernelCall& call) { copy(call, kQuick, kQuick); }},
    {"wrong-alone",
     [](const KernelCall& call) {
       copy(call, kSlow, kQuick);
       if (call.epilogue == nullptr) out(call)[3] += 1;
     }},
};

template <size_t kPlace>
Implementation copy_row() {
  return {.name = kCopies[kPlace].name,
          .description = "planted",
          .gate = [](const Problem& problem) -> std::optional<std::string> {
            if (problem.has_epilogue && kCopies[kPlace].name == "only-alone") return "it gives its result to no epilogue";
            return gate<kPlace>(problem);
          },
          .cost_s = cost_s<kPlace>,
          .plan = plan_running<kCopies[kPlace].run>};
}
const Implementation kCopyRows[] = {copy_row<0>(), copy_row<1>(), copy_row<2>(), copy_row<3>()};

}  // namespace

const ChoiceRegistry& planted_choices() {
  static const KernelFamily families[] = {{"double.f32", [](const Problem&) -> std::optional<std::string> { return std::nullopt; },
                                           [](const Problem&) { return int64_t{1}; }, implementations(std::make_index_sequence<kCount>())},
                                          {"copy.f32", [](const Problem&) -> std::optional<std::string> { return std::nullopt; },
                                           [](const Problem&) { return int64_t{1}; }, kCopyRows, -1}};
  static const ChoiceRegistry registry(families);
  return registry;
}

int64_t place_of(std::string_view choice) {
  for (const std::span<const Planted> table : {std::span<const Planted>(kPlanted), std::span<const Planted>(kCopies)}) {
    for (size_t i = 0; i < table.size(); ++i) {
      if (table[i].name == choice) return static_cast<int64_t>(i);
    }
  }
  TOROID_CHECK(false, "no planted choice is called '{}'", choice);
  return -1;
}

}  // namespace toroid::tune
