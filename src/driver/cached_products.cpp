#include "driver/cached_products.h"

#include <optional>

#include "cache/cache.h"

namespace toroid {
namespace {

constexpr int kProductKeyVersion = 1;

class CachedProducts final : public cuda::ProductMemory {
 public:
  std::optional<std::string> find(const std::string& product) override { return cache().get(key_of(product)); }
  void keep(const std::string& product, std::string_view algorithm) override { cache().put(key_of(product), algorithm); }

 private:
  static CacheKey key_of(const std::string& product) { return KeyBuilder("product", kProductKeyVersion).add("product", product).finish(); }
  Cache& cache() {
    if (!cache_) cache_.emplace();
    return *cache_;
  }
  std::optional<Cache> cache_;
};

}  // namespace

std::shared_ptr<cuda::ProductMemory> cached_products() { return std::make_shared<CachedProducts>(); }

}  // namespace toroid
