// Memory for vectors, aligned to a cache line. From 2 MiB on it lies in large pages of as many, where the system has them: their first use
// costs a tenth of that of so many small ones, and what goes through them does not look into the page table every 64 lines.
#pragma once

#include <cstddef>

namespace toroid {

class AlignedBytes {
 public:
  // Not initialised. Throws std::bad_alloc.
  explicit AlignedBytes(size_t bytes);
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  char* data_;
};

}  // namespace toroid
