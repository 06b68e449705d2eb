// The tests and, as a child of them, the worker that tries planted kernels.
#include <string_view>

#include <gtest/gtest.h>

#include "planted_choices.h"
#include "tune/measure/kernel_trial.h"
#include "tune/measure/serve.h"

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "tuning-worker") return toroid::tune::serve_tuning(toroid::tune::trials_of_kernels(toroid::tune::planted_choices()));
  if (command == "runtime-tuning-worker") return toroid::tune::serve_tuning(toroid::tune::trials_of_kernels(toroid::runtime_choices()));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
