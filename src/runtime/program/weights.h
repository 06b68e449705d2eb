// The constants of a loaded program, and what is made of them once for all contexts: packed weights, and what ToroidVariant::prepare
// computes. New weights are another object: a call that runs keeps the one that it began with.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "runtime/kernels/registry/prepared_constants.h"
#include "runtime/memory/host_bytes.h"
#include "runtime/program/prepared_bytes.h"

namespace toroid {

class LoadedVariant;
class RuntimeCallbacks;

class Weights {
 public:
  // By ToroidProgram::constants, each kept alive by its owner. memory: of the host's, for what is made of them; or null.
  Weights(std::vector<const void*> constants, std::vector<std::shared_ptr<const void>> owners, size_t num_variants,
          const HostMemory* memory)
      : constants_(std::move(constants)), owners_(std::move(owners)), memory_(copy_of(memory)), packed_(memory), prepared_(num_variants) {}

  Span<const void* const> constants() const { return constants_; }
  Span<const std::shared_ptr<const void>> owners() const { return owners_; }
  PreparedConstants& packed() const { return packed_; }
  // What calls of the variant, the one at `position`, are given as prepared; null where that is nothing. The first call computes it, with
  // `host`, and others wait. Throws as LoadedVariant::run.
  char* prepared(const LoadedVariant& variant, size_t position, RuntimeCallbacks& host, std::string_view name) const;

 private:
  std::vector<const void*> constants_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::optional<HostMemory> memory_;
  mutable PreparedConstants packed_;
  mutable std::vector<PreparedBytes> prepared_;  // by variant
};

}  // namespace toroid
