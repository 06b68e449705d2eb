#include "frontend/pt2/import.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace toroid {
namespace {

const std::filesystem::path kModels = std::filesystem::path(TOROID_CONFORMANCE_DIR) / "models";

TEST(ImportPt2, TakesEveryRecordedModel) {
  for (const char* folder : {"models", "opinfo"}) {
    size_t models = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TOROID_CONFORMANCE_DIR) / folder)) {
      if (entry.path().extension() != ".pt2") continue;
      ++models;
      try {
        import_pt2(entry.path());
      } catch (const Error& error) {
        ADD_FAILURE() << error.report();
      }
    }
    EXPECT_GT(models, 10u) << folder;
  }
}

}  // namespace
}  // namespace toroid
