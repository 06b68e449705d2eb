#include "base/machine/aligned_bytes.h"

#ifdef __linux__
#include <sys/mman.h>
#include <sys/sysinfo.h>
#endif

#include <algorithm>
#include <new>

namespace toroid {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLargePage = size_t{2} << 20;

std::align_val_t alignment_of(size_t size) { return std::align_val_t{size >= kLargePage ? kLargePage : kLine}; }

// A system that promises whatever it is asked for (vm.overcommit_memory = 1) ends the process once more is used than there is.
size_t at_most_all(size_t bytes) {
#ifdef __linux__
  constexpr size_t kLeastAsked = size_t{1} << 32;
  struct sysinfo system;
  if (bytes >= kLeastAsked && ::sysinfo(&system) == 0 && bytes / system.mem_unit > system.totalram + system.totalswap)
    throw std::bad_alloc();
#endif
  return bytes;
}

}  // namespace

AlignedBytes::AlignedBytes(size_t bytes)
    : size_(at_most_all(std::max<size_t>(bytes, 1))), data_(static_cast<char*>(::operator new(size_, alignment_of(size_)))) {
#ifdef __linux__
  // Where it is refused, pages are small. What is left at the end is no large page, which would take more memory than was asked for.
  if (size_ >= kLargePage) (void)::madvise(data_, size_ / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
}

AlignedBytes::~AlignedBytes() { ::operator delete(data_, alignment_of(size_)); }

}  // namespace toroid
