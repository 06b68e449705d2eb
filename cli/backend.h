// A model made ready to be called, by whichever backend computes it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/compile.h"
#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid::cli {

class Callable {
 public:
  virtual ~Callable() = default;
  // The program at core level: its signature, and what made its outputs.
  virtual const Program& program() const = 0;
  // All outputs of the graph, mutated inputs and buffers included.
  virtual std::vector<HostTensor> call(std::span<const HostTensor> inputs) = 0;
  // What the last call's user should know of it, in a line each.
  virtual std::vector<std::string> notes() const { return {}; }
  // The variant that the last call ran, as variant_text has it; "" where there is one alone.
  virtual std::string variant() const { return ""; }
};

// eager: each operator is compiled by itself, for the sizes that it is called with; eager-general: for any.
inline constexpr const char* kBackends[] = {"cpu", "interp", "eager", "eager-general"};
std::string backend_list();  // for help: "cpu, interp, …"

struct LoadOptions {
  std::string backend = "cpu";
  int threads = 0;  // of the compiled program; 0: the default
  bool use_cache = true;
  // For the backend cpu. explain_cache: what the cache was asked is written to standard error. keep_program: Callable::program() is the
  // whole program, not only the signature that a cached one has.
  CompileModelOptions compile = {};
  uint64_t seed = 0;           // of random operators
  bool compiles_only = false;  // of conform: a program's kernels for GPUs, and nothing is run
};

// A model (.pt2), compiled, interpreted or run with each operator compiled by itself, or a compiled program (.so). Throws
// Error{InvalidOption} for an unknown backend, and what importing, compiling and loading throw.
std::unique_ptr<Callable> load_model(const std::filesystem::path& path, const LoadOptions& options);

}  // namespace toroid::cli
