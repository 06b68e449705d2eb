// One variant of a compiled program in memory. Nothing in it changes from call to call but which form of a kernel is the quickest, which is
// atomic, so threads may share it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "runtime/contract/contract.h"
#include "runtime/memory/arena.h"
#include "runtime/program/runtime_callbacks.h"
#include "toroid/gpu_abi.h"

namespace toroid {

// What the sizes of a call decide.
struct CallLayout {
  std::vector<int64_t> symbols;                    // as CallSizes::numbers
  std::vector<std::vector<int64_t>> output_sizes;  // empty for late outputs
  ArenaPlan arena;
  int64_t host_arena_bytes =
      0;  // of a program with tensors on a GPU and the host: of the host's arena, to which its temporaries' offsets are
};

class LoadedVariant {
 public:
  // `bad_index`: of ToroidProgram. `placement`: null where all tensors are in one memory. The tables must outlive this.
  LoadedVariant(const ToroidVariant& tables, int64_t* bad_index, const ToroidGpuPlacement* placement = nullptr);

  // Of a program for a GPU: is the tensor at this place of a list in the process's memory?
  bool is_on_host(const int32_t* ToroidGpuPlacement::*list, size_t position) const {
    return placement_ != nullptr && placement_->*list != nullptr && (placement_->*list)[position] != 0;
  }
  bool is_mixed() const { return placement_ != nullptr; }

  // Do the sizes of a call, by the contract of the general variant, choose this one?
  bool is_chosen(const CallSizes& sizes) const;
  // The symbols' values for these inputs. Throws Error{InvalidInput} that names the violated fact.
  CallSizes bind(Span<const InputShape> shapes) const { return bind_sizes(tables.contract, shapes); }
  // Gives a symbol that the program reads from an input its value before that; nothing happens when the program has no such symbol.
  // Throws Error{InvalidInput} that names the range or guard that the value violates.
  void bind(CallSizes& sizes, std::string_view symbol, int64_t value) const;
  // Throws Error{InvalidInput} when a tensor would be larger than memory can be.
  CallLayout lay_out(const CallSizes& sizes) const;

  // Computes what is computed of the constants for all calls, which run is given: ToroidVariant::prepared_bytes. Throws as run does.
  void prepare(RuntimeCallbacks& host, std::string_view name, const void* const* constants, char* prepared) const;
  // The same in memory of this process; null where that is nothing.
  std::unique_ptr<HostBytes> prepare_in_memory(RuntimeCallbacks& host, std::string_view name, const void* const* constants,
                                               const HostMemory* memory) const;
  // One call. `constants` in this variant's order; `outputs`: where each goes, null for late ones, which `late_outputs` gives memory to.
  // Throws what a callback had to say, and Error{InvalidInput}
  // that names the step, and the program as `name`, when an index is out of bounds or an integer divided by zero; Error{Environment}
  // when memory runs out.
  void run(RuntimeCallbacks& host, std::string_view name, const CallLayout& layout, const void* const* inputs, const void* const* constants,
           char* arena, char* prepared, const int64_t* random, const CallSizes& sizes, void* const* outputs,
           OutputAllocator& late_outputs) const;

  // Throws what an entry's result says, unless it is 0.
  void check(int32_t result, std::string_view name) const;

  // Of each of the variant's choices the form that calls run; none before the first one.
  std::vector<std::optional<size_t>> forms() const;

  const ToroidVariant& tables;

 private:
  mutable std::vector<int32_t> forms_;  // ToroidCall::forms
  int64_t* bad_index_;
  const ToroidGpuPlacement* placement_;
};

}  // namespace toroid
