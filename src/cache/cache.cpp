#include "cache/cache.h"

#include "base/machine/out_of_memory.h"

namespace toroid {

Cache::Cache(CacheOptions options) try : store_(options.store), leases_(store_.folder()) {
  if (options.base) base_.emplace(std::move(*options.base), std::move(options.store.warn));
  if (options.remote) remote_.emplace(std::move(*options.remote));
} catch (const std::bad_alloc&) {
  out_of_memory("opening the cache");
}

Cache::Cache(StoreOptions options) try
    : Cache(CacheOptions{.store = options,
                         .remote = options.enabled ? usable_remote_options(options.warn) : std::nullopt,
                         .base = options.enabled ? base_from_environment() : std::nullopt}) {
} catch (const std::bad_alloc&) {
  out_of_memory("opening the cache");
}

Cache::~Cache() {
  if (remote_) remote_->finish();
  try {
    if (base_ && base_->hits() != 0) store_.count("base hits", static_cast<int64_t>(base_->hits()));
    if (!remote_) return;
    for (const auto& [name, number] : remote_->counters().by_name()) store_.count(name, number);
  } catch (const std::bad_alloc&) {  // then they are not counted
  }
}

std::optional<std::string> Cache::get(const CacheKey& key) {
  std::optional<std::string> found = get(key, Tier::Local);
  if (!found) found = get(key, Tier::Base);
  if (found || !remote_) return found;
  found = get(key, Tier::Remote);
  if (found) keep(key, *found);
  return found;
}

std::optional<std::string> Cache::get(const CacheKey& key, Tier tier) {
  return with_typed_memory("reading the cache", [&]() -> std::optional<std::string> {
    if (tier == Tier::Local) return store_.get(key);
    if (tier == Tier::Base) return base_ ? base_->get(key) : std::nullopt;
    return remote_ ? remote_->get(key) : std::nullopt;
  });
}

void Cache::put(const CacheKey& key, std::string_view bytes) {
  store_.put(key, bytes);
  if (!remote_) return;
  with_typed_memory("writing to the remote cache", [&] { remote_->put(key, std::string(bytes)); });
}

CacheLease Cache::acquire(const CacheKey& key, std::chrono::milliseconds patience) {
  return with_typed_memory("waiting for a lease", [&]() -> CacheLease {
    Lease local = leases_.acquire(key, patience);
    std::optional<RemoteLease> remote;
    // Who overtakes a stopped process here builds at once, and so does who has waited long enough already.
    if (remote_ && local.state() != LeaseState::Overtaken) remote = remote_->acquire(key, patience);
    return {std::move(local), std::move(remote)};
  });
}

std::optional<CacheLease> Cache::try_acquire(const CacheKey& key) {
  CacheLease lease = acquire(key, std::chrono::milliseconds(0));
  return lease.is_overtaken() ? std::nullopt : std::optional(std::move(lease));
}

}  // namespace toroid
