// One form of a compiled program in memory, and what is kept of its last call's layout.
#pragma once

#include <optional>
#include <vector>

#include "driver/host.h"
#include "driver/manifest.h"
#include "interp/bind_symbols.h"
#include "runtime/arena.h"
#include "toolchain/loaded_library.h"
#include "toroid/program_abi.h"

namespace toroid {

class LoadedVariant {
 public:
  // `suffix`: of the library's entries. The manifest must outlive this.
  LoadedVariant(const LoadedLibrary& library, const ManifestVariant& manifest, std::string_view suffix);

  // Do the sizes of a call, by the symbols of `general`, choose this variant?
  bool is_chosen(const LoadedVariant& general, const SymbolValues& values) const;
  // The symbols' values for these inputs. Throws Error{InvalidInput} that names the violated fact.
  SymbolValues bind(std::span<const InputShape> shapes) const { return bind_symbols(manifest.signature, plan_, shapes); }
  // Sizes of outputs and the arena's layout follow from the symbols' values; the last ones are kept.
  void prepare(const SymbolValues& values);

  // Runs the program. `constants` in this variant's order; `outputs` as prepare() left the sizes, filled in where late.
  // Gives what the program's entry returned; throws what a callback had to say.
  int32_t run(Host& host, const std::vector<const void*>& inputs, const std::vector<const void*>& constants, char* arena, const int64_t* random,
              SymbolValues& values, std::vector<HostTensor>& outputs) const;

  const ManifestVariant& manifest;
  const std::vector<std::vector<int64_t>>& output_sizes() const { return output_sizes_; }   // empty for late outputs
  const ArenaPlan& arena_plan() const { return arena_plan_; }

 private:
  BindingPlan plan_;
  std::vector<sym::Expr> symbols_;                 // the order of ToroidCall::symbols
  int32_t (*run_)(const ToroidRuntime*, const ToroidCall*) = nullptr;
  void (*sizes_)(const int64_t*, int64_t*, int64_t*) = nullptr;
  std::optional<std::vector<int64_t>> prepared_;   // the symbols' values that the rest is laid out for
  std::vector<std::vector<int64_t>> output_sizes_;
  ArenaPlan arena_plan_;
};

}  // namespace toroid
