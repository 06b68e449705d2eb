// The cache as compilations use it: the local store first, then the read-only base, then the remote tier, if there are any; what is
// found in the remote tier is kept here too.
//
// As the parts, it never fails a compilation: what cannot be reached or written is as if it were not there. Only a lack of memory may
// make any of its functions throw Error{Environment}.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/base.h"
#include "cache/key.h"
#include "cache/lease.h"
#include "cache/remote/remote.h"
#include "cache/store.h"

namespace toroid {

enum class Tier { Local, Base, Remote };

struct CacheOptions {
  StoreOptions store = {};
  std::optional<RemoteOptions> remote = {};
  std::optional<std::filesystem::path> base = {};  // a file that 'toroid cache export' wrote
};

// Single flight on this machine, and of all machines where the server knows leases.
//
// Whoever has it looks for the entry once more: it may have come since, also when nobody was waited for, from an owner that ended
// between the first look and the lease.
class CacheLease {
 private:
  friend class Cache;
  CacheLease(Lease local, std::optional<RemoteLease> remote) : local_(std::move(local)), remote_(std::move(remote)) {}
  bool is_overtaken() const { return local_.state() == LeaseState::Overtaken || (remote_ && remote_->state() == LeaseState::Overtaken); }
  Lease local_;
  std::optional<RemoteLease> remote_;  // given back first
};

class Cache {
 public:
  // Throws Error{Environment} as Store does.
  explicit Cache(CacheOptions options);
  // The local store with these options and, when it is enabled, the base and the remote tier that the environment names. Throws
  // Error{InvalidOption} when it cannot be understood.
  explicit Cache(StoreOptions options = {});
  Cache(const Cache&) = delete;
  // Waits for what is still to be sent, as Remote does.
  ~Cache();

  std::optional<std::string> get(const CacheKey& key);
  // One tier alone; nothing is kept.
  std::optional<std::string> get(const CacheKey& key, Tier tier);
  void put(const CacheKey& key, std::string_view bytes);
  // Keeps here what came from there.
  void keep(const CacheKey& key, std::string_view bytes) { store_.put(key, bytes); }

  // Waits while somebody else, here or elsewhere, holds the key, for `patience` at most each.
  CacheLease acquire(const CacheKey& key, std::chrono::milliseconds patience);
  // The same without waiting: none where somebody else holds the key.
  std::optional<CacheLease> try_acquire(const CacheKey& key);

  Store& store() { return store_; }
  ReadOnlyBase* base() { return base_ ? &*base_ : nullptr; }  // null: there is none
  Remote* remote() { return remote_ ? &*remote_ : nullptr; }  // null: there is none

 private:
  Store store_;
  Leases leases_;
  std::optional<ReadOnlyBase> base_;
  std::optional<Remote> remote_;
};

}  // namespace toroid
