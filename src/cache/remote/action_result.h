// The one message of Bazel's remote-cache protocol that toroid writes. A cache server in that layout keeps bytes under their
// SHA-256 in /cas/ and, under any other name in /ac/, an ActionResult that says which bytes belong to it. Servers may check both:
// bytes against their hash, and that an ActionResult can be read and names only bytes that are there. So an entry goes to /cas/,
// and an ActionResult with one output file to /ac/. From build.bazel.remote.execution.v2:
//
//   ActionResult { repeated OutputFile output_files = 2; … }   OutputFile { string path = 1; Digest digest = 2; … }
//   Digest       { string hash = 1; int64 size_bytes = 2; }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toroid {

struct BlobName {
  std::string hash;   // 64 lower-case hex digits
  uint64_t size = 0;  // bytes
  bool operator==(const BlobName&) const = default;
};

std::string action_result(const BlobName& blob);

// What such a message names; nullopt when it is none of toroid's. Servers may have added fields.
std::optional<BlobName> parse_action_result(std::string_view message);

}  // namespace toroid
