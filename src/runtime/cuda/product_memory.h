// What was measured of products by cuBLASLt, kept beyond the process by whoever loads programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toroid::cuda {

class ProductMemory {
 public:
  virtual ~ProductMemory() = default;
  // `product`: its sizes and strides, on which GPU, by which version of the library. The bytes that keep() was given for it.
  virtual std::optional<std::string> find(const std::string& product) = 0;
  virtual void keep(const std::string& product, std::string_view algorithm) = 0;
  // May measuring take longer, so that more of a library's suggestions are timed?
  virtual bool is_thorough() const { return false; }
};

}  // namespace toroid::cuda
