// What Pythons compile, Triton's kernels and Halide's pipelines, with the cache before them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cache/cache.h"

namespace toroid {

// The products of `sources`, in their order: those that the cache lacks are made by one call of `make(missing sources)`, and kept.
// key_of(source); read(bytes): the product, or none where they are damaged; write(product): its bytes.
template <class Product, class KeyOf, class Read, class Write, class Make>
std::vector<Product> kept_or_made(Cache& cache, std::span<const std::string> sources, const KeyOf& key_of, const Read& read,
                                  const Write& write, const Make& make) {
  std::vector<CacheKey> keys;
  std::vector<std::optional<Product>> found;
  std::vector<std::string> missing;
  for (const std::string& source : sources) {
    keys.push_back(key_of(source));
    const std::optional<std::string> bytes = cache.get(keys.back());
    found.push_back(bytes ? read(*bytes) : std::nullopt);
    if (!found.back()) missing.push_back(source);
  }
  std::vector<Product> made;
  if (!missing.empty()) made = make(missing);
  std::vector<Product> all;
  for (size_t i = 0, next = 0; i < found.size(); ++i) {
    if (!found[i]) {
      found[i] = std::move(made[next++]);
      cache.put(keys[i], write(*found[i]));
    }
    all.push_back(std::move(*found[i]));
  }
  return all;
}

// What keys of programs have of the compiler: its version; "" for `may_take` false, "none" where it is missing.
inline std::string version_for_key(bool may_take, std::string (*version)()) {
  if (!may_take) return "";
  try {
    return version();
  } catch (const Error&) {  // it matters only where something is compiled, and then it is an error
    return "none";
  }
}

}  // namespace toroid
