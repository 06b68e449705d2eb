// A model made ready to be called, by whichever backend computes it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "interp/host_tensor.h"

namespace toroid::cli {

class Callable {
 public:
  virtual ~Callable() = default;
  // The program at core level: its signature, and what made its outputs.
  virtual const Program& program() const = 0;
  // All outputs of the graph, mutated inputs and buffers included.
  virtual std::vector<HostTensor> call(std::span<const HostTensor> inputs) const = 0;
};

inline constexpr const char* kBackends = "interp";

// Throws Error{InvalidOption} for an unknown backend, and what importing throws.
std::unique_ptr<Callable> load_model(const std::filesystem::path& path, std::string_view backend);

}  // namespace toroid::cli
