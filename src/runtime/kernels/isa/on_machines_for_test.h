// For tests of kernels: a suite that runs once for each machine that this one can be taken for (machines_to_test), so that the kernels for
// all instruction sets are tested on the machine that has the most, and those for AMX on any.
//
//   TOROID_ON_MACHINES(Gemm);
//   TEST_P(Gemm, AllSmallShapes) { … }
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/machine/machine_for_test.h"

namespace toroid {

inline void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name(); }

class OnMachines : public testing::TestWithParam<Machine> {
 private:
  MachineScope scope_{GetParam()};
};

inline std::string name_of_machine(const testing::TestParamInfo<Machine>& info) {
  std::string name = info.param.name();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '+' || c == '-'; }, '_');
  return name;
}

#define TOROID_ON_MACHINES(SUITE) TOROID_ON(SUITE, machines_to_test())
#define TOROID_ON_MACHINES_WITH_TILES(SUITE) TOROID_ON(SUITE, machines_with_tiles_to_test())
#define TOROID_ON(SUITE, MACHINES)    \
  class SUITE : public OnMachines {}; \
  INSTANTIATE_TEST_SUITE_P(Each, SUITE, testing::ValuesIn(MACHINES), name_of_machine)

}  // namespace toroid
