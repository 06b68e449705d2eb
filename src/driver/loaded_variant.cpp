#include "driver/loaded_variant.h"

#include <algorithm>

#include "support/error.h"

namespace toroid {

LoadedVariant::LoadedVariant(const LoadedLibrary& library, const ManifestVariant& manifest, std::string_view suffix)
    : manifest(manifest), plan_(plan_bindings(manifest.signature)) {
  run_ = library.function<int32_t(const ToroidRuntime*, const ToroidCall*)>(fmt::format("toroid_run{}", suffix).c_str());
  sizes_ = library.function<void(const int64_t*, int64_t*, int64_t*)>(fmt::format("toroid_sizes{}", suffix).c_str());
  for (const std::string& symbol : manifest.symbols) symbols_.push_back(*manifest.signature.symbols->find_symbol(symbol));
}

bool LoadedVariant::is_chosen(const LoadedVariant& general, const SymbolValues& values) const {
  return std::all_of(manifest.when.begin(), manifest.when.end(), [&](const auto& condition) {
    const std::optional<sym::Expr> symbol = general.manifest.signature.symbols->find_symbol(condition.first);
    return symbol && values.find(*symbol) == condition.second;
  });
}

void LoadedVariant::prepare(const SymbolValues& values) {
  std::vector<int64_t> symbol_values;
  for (sym::Expr symbol : symbols_) symbol_values.push_back(values.find(symbol).value_or(0));
  if (prepared_ == symbol_values) return;
  check_bytes(values, manifest.bytes);
  std::vector<int64_t> bytes(manifest.temporaries.size());
  size_t ranks = 0;
  for (const ManifestOutput& output : manifest.outputs) ranks += static_cast<size_t>(output.rank);
  std::vector<int64_t> flat(ranks);
  sizes_(symbol_values.data(), bytes.data(), flat.data());
  output_sizes_.clear();
  auto next = flat.begin();
  for (const ManifestOutput& output : manifest.outputs) {
    output_sizes_.emplace_back(next, next + output.rank);
    next += output.rank;
  }
  std::vector<ArenaRequest> requests;
  for (size_t i = 0; i < bytes.size(); ++i) requests.push_back({bytes[i], manifest.temporaries[i][0], manifest.temporaries[i][1]});
  arena_plan_ = plan_arena(requests);
  prepared_ = std::move(symbol_values);
}

int32_t LoadedVariant::run(Host& host, const std::vector<const void*>& inputs, const std::vector<const void*>& constants, char* arena,
                           const int64_t* random, SymbolValues& values, std::vector<HostTensor>& outputs) const {
  std::vector<void*> pointers;
  for (size_t i = 0; i < outputs.size(); ++i) {
    pointers.push_back(manifest.outputs[i].late ? nullptr : outputs[i].mutable_data<std::byte>());
  }
  std::vector<int64_t> symbol_values = *prepared_;
  Host::Call during{manifest, plan_.later_guards, symbols_, values, symbol_values, outputs};
  const ToroidCall call{inputs.data(), constants.data(), pointers.data(), arena, arena_plan_.offsets.data(), symbol_values.data(), random};
  return host.run(run_, call, during);
}

}  // namespace toroid
