// The local store: keys to bytes, in one SQLite file that belongs to the user alone.
//
// Entries are published whole or not at all, carry a checksum, and the least recently used go when the bound is
// passed. A damaged entry is a miss and is removed; a damaged file is moved aside and begun anew. A store that cannot
// be opened or written says so once and goes on as if it were empty: a cache is never a reason for a wrong result or
// a failed compile. Only an unsafe folder is an error, since others could plant code in it.
//
// Safe to use from several threads, and by several processes at once; not across fork().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/key.h"
#include "toolchain/probe_cache.h"

namespace toroid {

struct StoreOptions {
  bool enabled = true;                                // false: every get is a miss and every put is dropped
  std::filesystem::path folder = {};                  // empty: default_cache_folder()
  uint64_t size_limit_bytes = 0;                      // 0: $TOROID_CACHE_SIZE (as 500M or 8G), else 4 GiB
  std::function<void(const std::string&)> warn = {};  // empty: the log
  // How long to wait for other processes that use the file. It takes them milliseconds; who is stopped meanwhile is not waited for
  // again.
  std::chrono::milliseconds patience{10'000};
};

struct StoreCounters {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t corrupt = 0;       // entries whose checksum did not match; each is also a miss
  uint64_t evicted = 0;       // entries that went for the bound
  uint64_t write_errors = 0;  // entries that could not be written
};

struct KindStats {
  uint64_t entries = 0;
  uint64_t bytes = 0;
};

struct StoreStats {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // what the bound counts
  uint64_t limit_bytes = 0;
  StoreCounters session;   // of this object
  StoreCounters lifetime;  // of all that used the file
  std::map<std::string, KindStats> kinds;
};

struct StoreEntry {
  CacheKey key;
  std::string_view bytes;
};

class Store {
 public:
  // Throws Error{Environment} when the folder is a symbolic link, belongs to somebody else or can be written by others, or when there is
  // no memory. Later a lack of memory makes a miss, or an entry that is not written.
  explicit Store(StoreOptions options = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  std::optional<std::string> get(const CacheKey& key);
  void put(const CacheKey& key, std::string_view bytes);

  StoreStats stats();
  // Numbers under names of the caller's choice, summed over all that use the file. Written with the next put or at the end.
  void count(std::string_view name, int64_t number = 1);
  std::map<std::string, int64_t> counters();
  // Every whole entry, the least recently used first; `bytes` lasts until the call returns. `visit` must not use the store.
  void for_each(const std::function<void(const StoreEntry&)>& visit);
  // Removes every entry.
  void clear();
  // Checks every entry's checksum, removes the bad ones and returns their number; counts what the bound counts anew.
  uint64_t verify();
  // Removes the least recently used entries until the store holds at most so many bytes; returns the number removed.
  uint64_t shrink_to(uint64_t limit_bytes);
  // The parts of the entry of the same kind that differs from `key` in the fewest labels; nullopt when there is none.
  std::optional<std::string> nearest_parts(const CacheKey& key);

  // For Toolchain. Refers to this store.
  ProbeCache probe_cache();

  // False when it is disabled or could not be opened.
  bool is_open() const;
  // Where the file is or would be; empty when disabled.
  std::filesystem::path file() const;
  // The folder that it lies in, private to the user; empty unless it is open.
  std::filesystem::path folder() const;

 private:
  void open(const StoreOptions& options);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toroid
