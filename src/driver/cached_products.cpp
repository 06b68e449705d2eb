#include "driver/cached_products.h"

#include <optional>

#include "cache/cache.h"

namespace toroid {
namespace {

constexpr int kProductKeyVersion = 2;

class CachedProducts final : public cuda::ProductMemory {
 public:
  explicit CachedProducts(bool is_thorough) : is_thorough_(is_thorough) {}
  std::optional<std::string> find(const std::string& product) override {
    std::optional<std::string> found = cache().get(key_of(product, true));
    return found || is_thorough_ ? found : cache().get(key_of(product, false));
  }
  void keep(const std::string& product, std::string_view algorithm) override { cache().put(key_of(product, is_thorough_), algorithm); }
  bool is_thorough() const override { return is_thorough_; }

 private:
  static CacheKey key_of(const std::string& product, bool of_many) {
    return KeyBuilder("product", kProductKeyVersion).add("product", product).add("suggestions", of_many ? "many" : "few").finish();
  }
  Cache& cache() {
    if (!cache_) cache_.emplace();
    return *cache_;
  }
  std::optional<Cache> cache_;
  bool is_thorough_;
};

}  // namespace

std::shared_ptr<cuda::ProductMemory> cached_products(bool is_thorough) { return std::make_shared<CachedProducts>(is_thorough); }

}  // namespace toroid
