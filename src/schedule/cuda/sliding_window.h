// Sums over taps whose neighbours read mostly the same: depthwise convolutions.
//
//   y[n, h, w, c] = sum over i, j of x[n, h + i, w + j, c] * f[i, j, c]
//
// A thread that has several w beside each other goes through what all of them read, along w, once: each element is loaded and widened once
// instead of once a tap.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

struct SlidingWindow {
  size_t stage;                            // the kernel's only inner one
  sym::Expr pixels, taps;                  // an outer axis and an inner one
  int64_t step;                            // the next pixel reads what this one does so many taps later
  std::vector<ExprId> of_pixels, of_taps;  // loads: what slides, and what is the same for all pixels
  ExprId value;                            // what is added
  sym::Expr row_condition, condition;      // where it is: of no pixel and tap, and of both; 1 where it always is
  int64_t elements(int count) const { return step * (count - 1) + extent_of_taps; }  // of the window of so many pixels
  int64_t extent_of_taps;
};
// Of a kernel whose threads have neighbours along its last outer axis each.
std::optional<SlidingWindow> sliding_window(const loop::ExprTable& exprs, const Kernel& kernel);

// What a thread has of the results: so many pixels, a divisor of them all, and neighbours along the last outer axis, at most
// `vector`. Of a line that a thread has whole it is known at compile time what is outside of the image. `lanes`: neighbouring
// threads that have neighbouring vectors; then come pixels and the other axes, so that the threads of a block read mostly the same.
struct WindowShare {
  int pixels = 1, vector = 1, lanes = 1;  // one pixel: none of this
};
WindowShare share_of_window(const loop::LoopProgram& program, const Kernel& kernel, const SlidingWindow& window, int vector);

// Elements of the window, from the first to before the second, that are inside of the image whatever the first pixel of a thread.
std::pair<int64_t, int64_t> always_inside(const SlidingWindow& window, int pixels);

}  // namespace toroid::schedule
