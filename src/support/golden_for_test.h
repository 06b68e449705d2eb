// For tests: compares text with a golden file in the source tree.
//
//   expect_golden("schedule/testdata/softmax.schedule", to_string(schedule));
//
// TOROID_UPDATE_GOLDENS=1 in the environment rewrites the files instead: review their diff like code.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/file/file.h"

namespace toroid {

// `name` is relative to src/.
inline void expect_golden(const std::string& name, std::string_view text) {
  const std::filesystem::path path = std::filesystem::path(TOROID_SOURCE_DIR) / "src" / name;
  if (std::getenv("TOROID_UPDATE_GOLDENS") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, text);
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: make it with TOROID_UPDATE_GOLDENS=1";
  EXPECT_EQ(read_file(path), text) << path << " differs: if that is intended, run with TOROID_UPDATE_GOLDENS=1";
}

}  // namespace toroid
