// One variant of a compiled program in memory. Nothing in it changes from call to call but which form of a kernel is the quickest, which is
// atomic, so threads may share it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "driver/manifest.h"
#include "driver/runtime_callbacks.h"
#include "interp/bind_symbols.h"
#include "runtime/memory/arena.h"
#include "toolchain/loaded_library.h"
#include "toroid/program_abi.h"

namespace toroid {

// What the sizes of a call decide.
struct CallLayout {
  std::vector<int64_t> symbols;                    // the order of ToroidCall::symbols; 0 for those that become known during the call
  std::vector<std::vector<int64_t>> output_sizes;  // empty for late outputs
  ArenaPlan arena;
};

class LoadedVariant {
 public:
  // `suffix`: of the library's entries. The manifest must outlive this.
  LoadedVariant(const LoadedLibrary& library, const ManifestVariant& manifest, std::string_view suffix);

  // Do the sizes of a call, by the symbols of `general`, choose this variant?
  bool is_chosen(const LoadedVariant& general, const SymbolValues& values) const;
  // The symbols' values for these inputs. Throws Error{InvalidInput} that names the violated fact.
  SymbolValues bind(std::span<const InputShape> shapes) const { return bind_symbols(manifest.signature, plan_, shapes); }
  // Gives a symbol that the program reads from an input its value before that; nothing happens when the program has no such symbol.
  // Throws Error{InvalidInput} that names the range or guard that the value violates.
  void bind(SymbolValues& values, std::string_view symbol, int64_t value) const;
  // In the order of ToroidCall::symbols.
  std::vector<int64_t> symbol_values(const SymbolValues& values) const;
  // Throws Error{InvalidInput} when a tensor would be larger than memory can be.
  CallLayout lay_out(const SymbolValues& values) const;

  // What the variant computes of its constants for all calls, which run is given; null where that is nothing. Throws as run does.
  std::unique_ptr<AlignedBytes> prepare(RuntimeCallbacks& host, std::string_view name, const void* const* constants) const;
  // One call. `constants` in this variant's order; `outputs`: where each goes, null for late ones, which come to be in `late_outputs` (of the
  // same number); `values`: grow when the program reads sizes from tensors. Throws what a callback had to say, and Error{InvalidInput}
  // that names the step, and the program as `name`, when an index is out of bounds or an integer divided by zero; Error{Environment}
  // when memory runs out.
  void run(RuntimeCallbacks& host, std::string_view name, const CallLayout& layout, const void* const* inputs, const void* const* constants,
           char* arena, char* prepared, const int64_t* random, SymbolValues& values, void* const* outputs,
           std::vector<HostTensor>& late_outputs) const;

  // Of each step with several forms, by the manifest's list, the one that calls run; none before the first one.
  std::vector<std::optional<size_t>> forms() const;

  const ManifestVariant& manifest;

 private:
  BindingPlan plan_;
  void check(int32_t result, std::string_view name) const;

  mutable std::vector<int32_t> forms_;  // ToroidCall::forms
  std::vector<sym::Expr> symbols_;      // the order of ToroidCall::symbols
  int32_t (*run_)(const ToroidRuntime*, const ToroidCall*) = nullptr;
  int32_t (*prepare_)(const ToroidRuntime*, const ToroidCall*) = nullptr;
  void (*sizes_)(const int64_t*, int64_t*, int64_t*) = nullptr;
  int64_t* bad_index_ = nullptr;  // of the library: the last index out of bounds, and the size that it was meant for
};

}  // namespace toroid
