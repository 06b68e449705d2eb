// For tests: a cache of their own.
#pragma once

#include "base/environment_for_test.h"
#include "base/file/file.h"
#include "cache/store.h"

namespace toroid {

// While alive, stores and sessions that are opened use a new, empty cache, and no remote one and no base; at the end all is gone.
//
//   const ScratchCache scratch;
//   CompileSession session;              // compiles anew, whatever the user's cache holds
class ScratchCache {
 public:
  std::filesystem::path folder() const { return files_.path() / "cache"; }
  // Another empty one, as if on another machine. The first is found again by its name.
  void switch_to(const std::string& name) const { variable_.set((files_.path() / name).string()); }
  // For files of the test, which go as well.
  const std::filesystem::path& files() const { return files_.path(); }

 private:
  TempFolder files_;
  ScopedVariable variable_{"TOROID_CACHE_DIR", folder().string()};
  ScopedVariable remote_{"TOROID_REMOTE_CACHE", std::nullopt}, base_{"TOROID_CACHE_BASE", std::nullopt};
};

}  // namespace toroid
