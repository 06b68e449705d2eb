// Memory for vectors, aligned to a cache line. From 2 MiB on it lies in large pages of as many, where the system has them: their first use
// costs a tenth of that of so many small ones, and what goes through them does not look into the page table every 64 lines.
#pragma once

#include <cstddef>
#include <list>

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

// Moves the smallest block that has at least `size` bytes and at most `most` from the one list to the front of the other. False where there
// is none.
bool take_smallest(std::list<AlignedBytes>& from, size_t size, size_t most, std::list<AlignedBytes>& to);

}  // namespace toroid
