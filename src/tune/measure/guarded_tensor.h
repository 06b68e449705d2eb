// A tensor whose neighbours in memory are pages that nobody may touch: a kernel that reads or writes beyond its operand dies at
// once, instead of computing with what happens to lie there.
//
//   | no access | canary | the tensor | canary, less than 128 bytes | no access |
//
// The tensor ends as close to the upper guard as its alignment allows, since kernels err upwards: a tail that is too long, a
// panel that is not full. What is written in between changes a canary; what is read there does no harm.
//
// A process that called report_bad_accesses() says on stderr which tensor was missed, before the signal ends it:
//
//   accessed memory 64 bytes beyond the end of input 1
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "runtime/kernels/registry/problem.h"

namespace toroid::tune {

class GuardedTensor {
 public:
  // As large as the operand's extent, aligned as it says and no better. `name` is for messages: "input 1". Throws
  // Error{Environment} when there is no memory.
  GuardedTensor(OperandMeta meta, std::string name);
  GuardedTensor(const GuardedTensor&) = delete;
  ~GuardedTensor();

  const OperandMeta& meta() const { return meta_; }
  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  ToroidOperand operand() const;

  // Random elements, the same for the same seed: floats in [-1, 1), integers of 4 bits, every byte of the extent written.
  void fill_random(uint64_t seed);
  // From now on writing to it is a bad access too.
  void forbid_writing();
  // What was written beside the tensor: "wrote beyond the end of output 0"; nullopt when all is as it was.
  std::optional<std::string> trespass() const;

 private:
  std::span<std::byte> canary_below() const;
  std::span<std::byte> canary_above() const;

  OperandMeta meta_;
  std::string name_;
  std::byte* mapping_ = nullptr;  // with both guards
  size_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Installs the handler that names the tensor. For processes that live to try kernels.
void report_bad_accesses();

}  // namespace toroid::tune
