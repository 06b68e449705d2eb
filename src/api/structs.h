// Structs whose first field is their size, of callers that are older or newer than this library.
#pragma once

#include <algorithm>
#include <cstring>

#include "api/status.h"
#include "base/format.h"

namespace toroid::api {

// Each once, not for each type: packages have them.
inline void require_pointer(const void* pointer, size_t alignment, const char* what) {
  if (pointer == nullptr) fail(TOROID_ERROR_ARGUMENT, "'{}' is null", what);
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0)
    fail(TOROID_ERROR_ARGUMENT, "'{}' is not aligned as a pointer of its type is", what);
}
template <class T>
void require_pointer(const T* pointer, const char* what) {
  require_pointer(pointer, alignof(T), what);
}

inline void require_size(size_t size, const char* what) {
  if (size >= sizeof(size_t) && size < size_t{1} << 16) return;
  fail(TOROID_ERROR_ARGUMENT, Help{"set its field 'size' to its sizeof"}, "the struct '{}' has the size {}", what, size);
}

inline void take(const void* options, size_t size, void* result, size_t known, const char* what) {
  require_size(size, what);
  std::memcpy(result, options, std::min(size, known));
  const auto* const bytes = static_cast<const unsigned char*>(options);
  if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char b) { return b != 0; }))
    fail(TOROID_ERROR_UNSUPPORTED, Help{"leave it zero, or take a newer library"}, "'{}' has a field that this library does not know",
         what);
}
// Options as this library knows them. What an older caller does not have is the default; what a newer one sets is refused.
template <class Options>
Options taken(const Options* options, const char* what) {
  Options result{};
  if (options == nullptr) return result;
  require_pointer(options, what);
  take(options, options->size, &result, sizeof result, what);
  return result;
}

// Fills in as much as the caller's struct has room for.
template <class Info>
void fill(Info* info, Info made, const char* what) {
  require_pointer(info, what);
  require_size(info->size, what);
  made.size = info->size;
  std::memcpy(info, &made, std::min(info->size, sizeof(Info)));
}

}  // namespace toroid::api
