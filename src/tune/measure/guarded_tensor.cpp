#include "tune/measure/guarded_tensor.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include <fmt/format.h>

#include "base/error.h"
#include "tensor/host_tensor.h"
#include "tune/measure/random_elements.h"

namespace toroid::tune {
namespace {

constexpr std::byte kCanary{0xa5};
constexpr size_t kMostSlack = 2 * OperandMeta::kAlignment;  // between the tensor and the upper guard

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// The tensors alive, for the signal handler, which can be given no argument.
struct Region {
  std::atomic<uintptr_t> first{0}, last{0};  // of the mapping
  uintptr_t data = 0, end = 0;
  char name[32] = {};
};
Region regions[64];

void remember(const std::byte* mapping, size_t mapping_bytes, const std::byte* data, size_t bytes, const std::string& name) {
  for (Region& region : regions) {
    uintptr_t free = 0;
    if (!region.first.compare_exchange_strong(free, reinterpret_cast<uintptr_t>(mapping))) continue;
    region.data = reinterpret_cast<uintptr_t>(data);
    region.end = region.data + bytes;
    region.name[name.copy(region.name, sizeof region.name - 1)] = '\0';
    region.last = region.first + mapping_bytes;
    return;
  }
}

void forget(const std::byte* mapping) {
  for (Region& region : regions) {
    if (region.first != reinterpret_cast<uintptr_t>(mapping)) continue;
    region.last = 0;
    region.first = 0;
  }
}

// Text of parts, in a handler that may call neither malloc nor printf.
class HandlerText {
 public:
  HandlerText& add(const char* text) {
    for (; *text != '\0' && size_ < sizeof text_; ++text) text_[size_++] = *text;
    return *this;
  }
  HandlerText& add(uintptr_t number) {
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return add(digits + at);
  }
  void write() const { [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, size_); }

 private:
  char text_[160];
  size_t size_ = 0;
};

void name_bad_access(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Region& region : regions) {
    if (address < region.first || address >= region.last) continue;
    HandlerText text;
    if (address >= region.end) {
      text.add("accessed memory ").add(address - region.end).add(" bytes beyond the end of ");
    } else if (address < region.data) {
      text.add("accessed memory ").add(region.data - address).add(" bytes before ");
    } else {
      text.add("wrote to ");
    }
    text.add(region.name).add("\n").write();
  }
  // Back to the default, and to the access, which now ends the process.
  ::signal(signal, SIG_DFL);
}

bool is_canary(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == kCanary; });
}

}  // namespace

GuardedTensor::GuardedTensor(OperandMeta meta, std::string name)
    : meta_(std::move(meta)), name_(std::move(name)), bytes_(static_cast<size_t>(meta_.extent_bytes())) {
  const size_t page = page_bytes(), alignment = static_cast<size_t>(meta_.alignment_bytes);
  const size_t pages_bytes = rounded_up(bytes_ + kMostSlack, page);
  mapping_bytes_ = pages_bytes + 2 * page;
  void* const mapping = ::mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || ::mprotect(static_cast<std::byte*>(mapping) + page, pages_bytes, PROT_READ | PROT_WRITE) != 0) {
    if (mapping != MAP_FAILED) ::munmap(mapping, mapping_bytes_);
    throw Error(ErrorKind::Environment, fmt::format("cannot allocate {} bytes for {}", bytes_, name_))
        .help("close other programs, or tune on a larger machine");
  }
  mapping_ = static_cast<std::byte*>(mapping);
  std::byte* const end = mapping_ + page + pages_bytes;
  data_ = end - rounded_up(bytes_, alignment);
  const bool better_aligned = reinterpret_cast<uintptr_t>(data_) % (2 * alignment) == 0;
  if (better_aligned && alignment < static_cast<size_t>(OperandMeta::kAlignment)) data_ -= alignment;
  std::fill(mapping_ + page, end, kCanary);
  remember(mapping_, mapping_bytes_, data_, bytes_, name_);
}

GuardedTensor::~GuardedTensor() {
  forget(mapping_);
  ::munmap(mapping_, mapping_bytes_);
}

ToroidOperand GuardedTensor::operand() const {
  return {data_,
          meta_.sizes.data(),
          meta_.strides.data(),
          static_cast<int32_t>(meta_.sizes.size()),
          static_cast<int32_t>(meta_.dtype),
          meta_.is_constant};
}

void GuardedTensor::fill_random(uint64_t seed) { write_random_elements(meta_.dtype, bytes(), seed); }

void GuardedTensor::forbid_writing() {
  const size_t page = page_bytes();
  TOROID_CHECK(::mprotect(mapping_ + page, mapping_bytes_ - 2 * page, PROT_READ) == 0);
}

std::span<std::byte> GuardedTensor::canary_below() const { return {mapping_ + page_bytes(), data_}; }
std::span<std::byte> GuardedTensor::canary_above() const { return {data_ + bytes_, mapping_ + mapping_bytes_ - page_bytes()}; }

std::optional<std::string> GuardedTensor::trespass() const {
  if (!is_canary(canary_above())) return fmt::format("wrote beyond the end of {}", name_);
  if (!is_canary(canary_below())) return fmt::format("wrote before {}", name_);
  return std::nullopt;
}

void report_bad_accesses() {
  struct sigaction action = {};
  action.sa_sigaction = name_bad_access;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace toroid::tune
