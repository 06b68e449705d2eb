#include "runtime/program/form_choice.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace toroid {
namespace {

// Forms that take so many microseconds.
struct Forms {
  std::vector<int> microseconds;
  std::atomic<int> runs[3] = {};

  static void run(void* argument, int32_t form) {
    auto& self = *static_cast<Forms*>(argument);
    ++self.runs[form];
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(self.microseconds[static_cast<size_t>(form)]);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
};

TEST(FormChoice, TakesTheQuickest) {
  for (const std::vector<int>& times : {std::vector{1000, 100}, {100, 1000}, {1000, 800, 100}}) {
    Forms forms{times};
    int32_t form = kUnknownForm;
    choose_form(form, static_cast<int32_t>(times.size()), Forms::run, &forms);
    EXPECT_EQ(times[static_cast<size_t>(form)], 100);
    for (size_t i = 0; i < times.size(); ++i) EXPECT_GE(forms.runs[i], 3);
  }
}

TEST(FormChoice, EndsSoon) {
  Forms forms{{5000, 5000}};
  int32_t form = kUnknownForm;
  choose_form(form, 2, Forms::run, &forms);
  EXPECT_EQ(forms.runs[0], 3);
  EXPECT_EQ(forms.runs[1], 3);
}

TEST(FormChoice, AThrowingFormLeavesItOpen) {
  int32_t form = kUnknownForm;
  auto fail = [](void*, int32_t) { throw 1; };
  EXPECT_THROW(choose_form(form, 2, fail, nullptr), int);
  EXPECT_EQ(form, kUnknownForm);
}

// Each call runs at least one form, and none waits for another; what is settled stays.
TEST(FormChoice, FirstCallsOfSeveralThreads) {
  constexpr int kThreads = 4, kCalls = 50;
  Forms forms{{20, 5}};
  int32_t form = kUnknownForm;
  std::atomic<int> without_a_run = 0, changes = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      int32_t seen = kUnknownForm;
      for (int call = 0; call < kCalls; ++call) {
        const int32_t best = std::atomic_ref(form).load(std::memory_order_relaxed);
        if (seen >= 0 && best != seen) ++changes;
        seen = best;
        const int before = forms.runs[0] + forms.runs[1];
        if (best >= 0) {
          Forms::run(&forms, best);
        } else {
          choose_form(form, 2, Forms::run, &forms);
        }
        if (forms.runs[0] + forms.runs[1] == before) ++without_a_run;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(form, 0);
  EXPECT_EQ(without_a_run, 0);
  EXPECT_EQ(changes, 0);
}

}  // namespace
}  // namespace toroid
