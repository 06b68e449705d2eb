// Runs a random program as PyTorch would without a compiler: one operator after the other, on memory that views share.
//
// It is the reference of the generator. Each operator is decomposed and evaluated alone, so nothing is folded, shared or
// reordered; views and writes through them are done on real memory, so the functionaliser is checked too.
//
// How far a right compiler may differ follows from runs with noise: every inexact operator's operands and results are
// moved by a few units in the last place, up in one run and down in its twin. Where the runs spread, rounding was
// amplified, and where integers differ, a comparison was too close to call. A run in which 16-bit floats are kept as f32
// stands for kernels, which round only what they store.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/program_text.h"
#include "fuzz/random.h"
#include "interp/host_tensor.h"

namespace toroid::fuzz {

struct EagerOptions {
  uint64_t noise = 0;     // seed; 0: none
  bool mirrored = false;  // the noise with its sign changed
  bool widen = false;     // F16 and BF16 become F32
};

class Eager {
 public:
  Eager(const Program& program, Run run, EagerOptions options = {})
      : symbols_(program.symbols), run_(std::move(run)), options_(options) {}

  // With memory of its own: what the copy writes, the original does not see.
  Eager(const Eager& other);
  Eager& operator=(Eager&&) = default;

  void add_input(const Input& input);
  // Throws Error when the operator's arguments do not fit, or when its result would be the processor's choice.
  void execute(const Node& node);

  HostTensor read(const std::string& name) const;
  bool is_view(const std::string& name) const { return tensors_.at(name).positions.has_value(); }
  // Whether two values may share memory.
  bool shares_memory(const std::string& a, const std::string& b) const {
    return tensors_.at(a).memory == tensors_.at(b).memory;
  }
  // Strides in elements of the memory; empty where the tensor is contiguous.
  std::vector<int64_t> strides(const std::string& name) const;
  bool is_written(const std::string& name) const { return tensors_.at(name).memory->written; }

 private:
  struct Memory {
    HostTensor data;
    bool written = false;
  };
  struct Tensor {
    std::shared_ptr<Memory> memory;
    std::optional<HostTensor> positions;  // in the memory, of each element; none: all of it in order
    std::vector<int64_t> sizes;
  };

  std::string concrete(std::string_view text) const;
  std::string type_of(const HostTensor& tensor) const;
  HostTensor read(const Tensor& tensor) const;
  void write(Tensor& tensor, const HostTensor& value, const std::string& call);
  HostTensor positions_of(const Tensor& tensor) const;
  HostTensor moved(const HostTensor& value, Random& random) const;
  void refuse_processors_choice(const Node& node, const std::vector<HostTensor>& operands) const;

  std::vector<Symbol> symbols_;
  Run run_;
  EagerOptions options_;
  std::map<std::string, Tensor> tensors_;
  uint64_t executed_ = 0;
};

// What the program gives in a run: its outputs, then what its inputs hold afterwards where it wrote to them.
struct EagerResult {
  std::vector<HostTensor> outputs;
  std::vector<std::pair<std::string, HostTensor>> written_inputs;  // by name
};
EagerResult run_eagerly(const Program& program, const Run& run, EagerOptions options = {});

}  // namespace toroid::fuzz
