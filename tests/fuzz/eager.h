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

#include "fuzz/one_operator.h"
#include "fuzz/program_text.h"
#include "fuzz/random.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "tensor/host_tensor.h"

namespace toroid::fuzz {

struct EagerOptions {
  uint64_t noise = 0;     // seed; 0: none
  bool mirrored = false;  // the noise with its sign changed
  bool widen = false;     // F16 and BF16 become F32, but where the program itself rounds to them
  uint64_t call = 0;      // how many calls went before: random operators draw by it
};

// What a random operator drew: "rand f32[3]", and the elements.
using Draw = std::pair<std::string, HostTensor>;

// Where each body starts among the draws of the program, and the main graph after them: bodies come first, inner ones before
// outer ones.
struct StreamStarts {
  std::map<const Body*, RandomStreams> bodies;
  RandomStreams main;
};
// By addresses of the program's bodies. Throws Error where an operator that draws does not fit.
StreamStarts stream_starts(const Program& program);

// What the runs of one program share.
struct SharedByRuns {
  OperatorCache* operators = nullptr;    // null: each operator is made anew
  const StreamStarts* starts = nullptr;  // null: every body draws as if it were alone
};

class Eager {
 public:
  Eager(const Program& program, Run run, EagerOptions options = {}, SharedByRuns shared = {})
      : symbols_(program.symbols), run_(std::move(run)), options_(options), shared_(shared), random_{0, options.call} {
    if (shared_.starts != nullptr) streams_ = shared_.starts->main;
  }

  // With memory of its own: what the copy writes, the original does not see.
  Eager(const Eager& other);
  Eager& operator=(Eager&&) = default;

  void add_input(const Input& input);
  // Before the node that defines the symbol.
  void add_symbol(const Symbol& symbol) { symbols_.push_back(symbol); }
  void set(const std::string& name, HostTensor value);
  // Throws Error when the operator's arguments do not fit, when its result would be the processor's choice, or when the program has had
  // more elements than a run can wait for: loops in loops over a size that is in the data.
  void execute(const Node& node);
  // What the body of a branch gives for these operands, or that of a loop when it runs for the `again`-th time.
  std::vector<HostTensor> call(const Body& body, const std::vector<HostTensor>& operands, std::optional<uint64_t> again = {});
  // The sizes of the run, those that depend on data included once they are known.
  const Run& run() const { return run_; }

  // Complex numbers as pairs in a last dim. Throws Error when there is no such value.
  HostTensor read(const std::string& name) const;
  bool knows(const std::string& name) const { return tensors_.contains(name); }
  bool is_complex(const std::string& name) const { return tensors_.at(name).complex.has_value(); }
  bool is_view(const std::string& name) const { return tensors_.at(name).positions.has_value(); }
  // Whether two values may share memory.
  bool shares_memory(const std::string& a, const std::string& b) const { return tensors_.at(a).memory == tensors_.at(b).memory; }
  // Strides in elements of the memory; empty where the tensor is contiguous.
  std::vector<int64_t> strides(const std::string& name) const;
  bool is_written(const std::string& name) const { return tensors_.at(name).memory->written; }
  // What operators drew so far of which no two may be equal: numbers of many values, four and more.
  const std::vector<Draw>& draws() const { return draws_; }

 private:
  struct Memory {
    HostTensor data;
    bool written = false;
  };
  struct Tensor {
    std::shared_ptr<Memory> memory;
    std::optional<HostTensor> positions;  // in the memory, of each element; none: all of it in order
    std::vector<int64_t> sizes;
    std::optional<DType> complex = {};  // it is complex: memory holds pairs of numbers, in a last dim
  };

  std::string concrete(std::string_view text) const;
  void execute_aten(const Node& node);
  std::vector<HostTensor> control_flow(const Node& node);
  std::vector<HostTensor> loop(const Node& node, const std::vector<std::string>& arguments);
  std::vector<HostTensor> slices(const Node& node, const std::vector<std::string>& arguments);
  std::vector<HostTensor> associative_scan(const Node& node, const std::vector<std::string>& arguments);
  std::vector<HostTensor> operands_in(std::string_view arguments) const;
  void bind(const std::string& symbol, int64_t value);
  std::vector<std::string> declared_types(const Node& node) const;
  std::string type_of(const HostTensor& tensor, std::optional<DType> complex = {}) const;
  std::shared_ptr<const OneOperator> operator_for(const OperatorContext& context, const Operands& operands, const Node& node,
                                                  const std::string& call) const;
  HostTensor read(const Tensor& tensor) const;
  void write(Tensor& tensor, const HostTensor& value, const std::string& call);
  HostTensor positions_of(const Tensor& tensor) const;
  HostTensor moved(const HostTensor& value, Random& random) const;
  void refuse_processors_choice(const Node& node, const std::vector<HostTensor>& operands) const;

  std::vector<Symbol> symbols_;
  Run run_;
  EagerOptions options_;
  SharedByRuns shared_;
  std::map<std::string, Tensor> tensors_;
  RandomStreams streams_;
  RandomSeed random_;
  std::vector<Draw> draws_;
  uint64_t executed_ = 0;
  int64_t elements_ = 0;  // of all results so far, those in bodies too
};

// What buffers hold, by name, once a call has changed it.
using Buffers = std::map<std::string, HostTensor>;

// 16-bit floats as F32, others as they are: what a run that widens holds.
HostTensor widened(const HostTensor& value);

// What the program gives in a run: its outputs, then what its inputs and buffers hold afterwards where it wrote to them.
struct EagerResult {
  std::vector<HostTensor> outputs;
  std::vector<std::pair<std::string, HostTensor>> written_inputs;  // by name
  std::vector<Draw> draws;
};
// Starts with what `buffers` hold and leaves there what they hold afterwards.
EagerResult run_eagerly(const Program& program, const Run& run, const EagerOptions& options, SharedByRuns shared, Buffers& buffers);

}  // namespace toroid::fuzz
