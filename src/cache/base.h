// The read-only base: results that an administrator ships for all users of a machine or an image, in a file as 'toroid cache export'
// writes it (transfer.h). Entries of every kind may be in it: compiled programs, and results of tuning that took long.
//
// It is asked after the user's own store and before the remote tier. It is mapped when it is first needed, never written, and nothing
// is copied from it. Code from it is run, so it is trusted only if root or the user owns it and nobody else can write it. A file that
// is missing, not trusted or damaged is warned of once, and is as if it were not there; so is a single entry whose checksum is wrong.
//
// Safe to use from several threads. Put another file in its place by renaming, never by writing over it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cache/key.h"
#include "cache/store.h"

namespace toroid {

struct BaseContents {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // of entries, without what names them
  std::map<std::string, KindStats> kinds;
};

class ReadOnlyBase {
 public:
  // `warn`: empty: the log.
  explicit ReadOnlyBase(std::filesystem::path file, std::function<void(const std::string&)> warn = {});
  ReadOnlyBase(ReadOnlyBase&&) noexcept;
  ~ReadOnlyBase();

  std::optional<std::string> get(const CacheKey& key);
  uint64_t hits() const;  // of this object

  // Throws Error{Environment} when the file cannot be opened or is not to be trusted, Error{InvalidInput} when it is damaged.
  BaseContents contents();
  // Reads every entry; returns how many are damaged. Throws as contents() does.
  uint64_t verify();
  const std::filesystem::path& file() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The file that TOROID_CACHE_BASE names; nullopt when it is unset or empty.
std::optional<std::filesystem::path> base_from_environment();

}  // namespace toroid
