// Which of several forms of a step to run: the first call times them (docs/scheduling.md, "Two forms").
#pragma once

#include <cstdint>

namespace toroid {

inline constexpr int32_t kUnknownForm = -1;

// Runs a step whose forms all have the same result, and finds out which is quickest: run(argument, f) runs form f of `count`. They take
// turns, and the least time counts; where it is nearly the same, the earlier form is taken. `form`, which is atomic, becomes the one to run
// from now on; while one thread finds that out, others run form 0.
void choose_form(int32_t& form, int32_t count, void (*run)(void* argument, int32_t form), void* argument);

}  // namespace toroid
