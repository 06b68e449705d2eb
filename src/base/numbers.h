// C++20's <numbers>, as far as the run side uses them, for source packages are C++17.
#pragma once

namespace toroid::numbers {

constexpr double kPi = 3.141592653589793238463;
constexpr double kSqrt3 = 1.732050807568877293527;

}  // namespace toroid::numbers
