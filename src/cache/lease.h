// Single flight: of all threads and processes that want to build the same thing, one does, and the others wait for it.
//
//   Leases leases(folder);
//   Lease lease = leases.acquire(key, 10min);      // waits while somebody else builds it
//   if (auto found = store.get(key)) return *found;
//   … build, store.put …                           // the lease ends with its scope
//
// A lease is a lock on one byte of the file `leases`, at the place that the key's hash tells. The kernel gives the lock back the
// moment its owner dies, however it dies, and knows nothing of process ids that are used again or of clocks that are wrong. An owner
// that is stopped keeps its lock, so it also shows signs of life: a thread of it counts up a cell of the file `heartbeats` every 200 ms,
// and who waits goes ahead on its own when the cell has stood still for two seconds. Two keys that share a byte or a cell only wait
// for each other.
//
// Waiting and owning are hints for saving work, never needed to be right: whatever fails here, the caller builds by itself.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "cache/key.h"

namespace toroid {

class Leases;

enum class LeaseState {
  Owner,      // build it, and tell the store
  Overtaken,  // the owner stands still or took too long: build it privately
  Unguarded,  // there are no leases here: build it
};

class Lease {
 public:
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();
  LeaseState state() const { return state_; }
  // How long the caller waited for others.
  std::chrono::milliseconds waited() const { return waited_; }

 private:
  friend class Leases;
  struct Held;
  Lease(LeaseState state, std::chrono::milliseconds waited);
  std::unique_ptr<Held> held_;
  LeaseState state_;
  std::chrono::milliseconds waited_;
};

class Leases {
 public:
  // `folder` is the store's, already checked to be private; empty: every lease is Unguarded. Never throws.
  explicit Leases(std::filesystem::path folder);
  ~Leases();
  Leases(const Leases&) = delete;

  // Waits until nobody else holds the key, for `patience` at most, or until its owner shows no life. Between two looks it asks
  // `is_done`, if given, whether waiting has become needless; then the lease is Overtaken too.
  Lease acquire(const CacheKey& key, std::chrono::milliseconds patience, const std::function<bool()>& is_done = {});

 private:
  friend class Lease;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace toroid
