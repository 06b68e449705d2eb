// Names for cached work. A key lists everything that the result depends on, each part with a label:
//
//   kernel 1
//   source: sha256 2c26b46b68ffc68f…, 812 bytes
//   flags: -O3 -std=gnu++17 …
//   compiler: g++ (Debian 12.2.0-14) 12.2.0
//
// The hash covers the parts in full and unambiguously; the text shortens long ones and is what two keys are compared
// by when a miss is to be explained. Forgetting a part makes a wrong hit, so when in doubt, add it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/hash.h"

namespace toroid {

struct CacheKey {
  std::string kind;   // "kernel", "graph", "probe": also the first word of `parts`
  std::string hex;    // SHA-256, 64 digits
  std::string parts;  // one line for the kind and version, then one a part
  bool operator==(const CacheKey&) const = default;
};

class KeyBuilder {
 public:
  // Raise the version when the meaning of a part or of the cached bytes changes.
  KeyBuilder(std::string_view kind, int version);

  // Labels must differ. A list keeps its order; a map's order is that of its names.
  KeyBuilder& add(std::string_view label, std::string_view value);
  KeyBuilder& add(std::string_view label, const char* value) { return add(label, std::string_view(value)); }
  KeyBuilder& add(std::string_view label, const std::string& value) { return add(label, std::string_view(value)); }
  KeyBuilder& add(std::string_view label, int64_t value) { return add(label, std::to_string(value)); }
  KeyBuilder& add(std::string_view label, std::span<const std::string> values);
  KeyBuilder& add(std::string_view label, const std::vector<std::string>& values) {
    return add(label, std::span<const std::string>(values));
  }
  KeyBuilder& add(std::string_view label, const std::map<std::string, std::string>& values);
  // Source text: space before and after it does not change the key.
  KeyBuilder& add_source(std::string_view label, std::string_view source);

  // Uses the builder up.
  CacheKey finish();

 private:
  KeyBuilder& add_part(std::string_view label, std::string_view hashed, std::string_view shown);

  std::string kind_;
  std::string parts_;
  std::vector<std::string> labels_;
  Sha256 hash_;
};

// What a key's parts show for a label; nullopt when it has none.
std::optional<std::string> part_text(std::string_view parts, std::string_view label);

// The labels whose values differ between two keys' parts, or that only one of them has.
std::vector<std::string> differing_labels(std::string_view parts, std::string_view other_parts);

}  // namespace toroid
