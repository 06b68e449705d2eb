// A compiled operator in memory, and what is worked out once for all calls with the same metadata.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "driver/eager/arguments.h"
#include "driver/eager/operator_program.h"
#include "runtime/program/loaded_variant.h"
#include "runtime/program/prepared_bytes.h"
#include "runtime/program/runtime_callbacks.h"

namespace toroid {

// What one call at a time needs while it runs; calls at the same time need one each.
class EagerContext {
 public:
  explicit EagerContext(RuntimePool& pool) : host(pool, packed) {}
  char* reserve(int64_t bytes);  // at least so many, 64-byte aligned; what was there is lost

  PreparedConstants packed;
  RuntimeCallbacks host;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<HostTensor> late_outputs;

 private:
  std::unique_ptr<AlignedBytes> block_;
  int64_t size_ = 0;
};

// A compiled operator. Nothing in it changes after it is made.
class LoadedOperator {
 public:
  // `made`: what `model` was compiled from; its program may be gone. Throws Error{Unsupported} when an operator that says that it writes to
  // its argument computes nothing that could be written: it changes how its tensor is seen, as aten::t_ does.
  LoadedOperator(const CompiledModel& model, const OperatorCall& call, OperatorProgram made);

  // For calls with the metadata of `call`.
  class Prepared;
  // Throws Error{InvalidInput} when the sizes are not those that the operator was compiled for, and when an argument that is written has
  // other sizes than what is written there.
  Prepared prepare(const OperatorCall& call) const;

  std::vector<HostTensor> run(EagerContext& context, const Prepared& prepared, std::span<const TensorView* const> tensors,
                              const int64_t* random) const;

 private:
  // Where an output of the program goes: to a result, or to the memory of one of the call's tensors.
  struct Destination {
    int result = -1;
    int tensor = -1;
  };

  std::string name_;
  ProgramLibrary library_;
  LoadedVariant variant_;
  mutable PreparedBytes prepared_;
  std::vector<const void*> constants_;
  std::shared_ptr<const void> owner_;
  std::vector<Destination> destinations_;  // by output of the program
  std::vector<bool> are_overwritten_;      // by tensor: an `out`, whose old elements nobody reads
  size_t num_results_;
  std::vector<OperatorProgram::Number> numbers_;  // come as inputs behind the tensors
};

class LoadedOperator::Prepared {
 private:
  friend class LoadedOperator;
  struct Input {
    int64_t copy_offset = -1;      // from where it is read, if it cannot be read in its place
    std::vector<int64_t> strides;  // … with these strides
    int64_t extent_bytes = 0;      // of the caller's memory
  };
  struct Output {
    int64_t copy_offset = -1;  // to where it is written first, if it goes to a tensor of the call
    bool may_go_there_directly = false;
  };
  CallLayout layout_;
  std::optional<CallSizes> sizes_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<int64_t> numbers_;  // values of the slots that are inputs
  int64_t bytes_ = 0;             // of the arena, with the copies behind
};

}  // namespace toroid
