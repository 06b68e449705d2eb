#include "driver/loaded_variant.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/kernels/registry/form_choice.h"
#include "support/error.h"
#include "support/out_of_memory.h"

namespace toroid {

LoadedVariant::LoadedVariant(const LoadedLibrary& library, const ManifestVariant& manifest, std::string_view suffix)
    : manifest(manifest), plan_(plan_bindings(manifest.signature)), forms_(manifest.choices.size(), kUnknownForm) {
  if (manifest.prepared_bytes > 0) {
    prepare_ = library.function<int32_t(const ToroidRuntime*, const ToroidCall*)>(fmt::format("toroid_prepare{}", suffix).c_str());
  }
  run_ = library.function<int32_t(const ToroidRuntime*, const ToroidCall*)>(fmt::format("toroid_run{}", suffix).c_str());
  sizes_ = library.function<void(const int64_t*, int64_t*, int64_t*)>(fmt::format("toroid_sizes{}", suffix).c_str());
  bad_index_ = static_cast<int64_t*>(library.symbol("toroid_bad_index"));
  for (const std::string& symbol : manifest.symbols) symbols_.push_back(*manifest.signature.symbols->find_symbol(symbol));
}

bool LoadedVariant::is_chosen(const LoadedVariant& general, const SymbolValues& values) const {
  return std::all_of(manifest.when.begin(), manifest.when.end(), [&](const auto& condition) {
    const std::optional<sym::Expr> symbol = general.manifest.signature.symbols->find_symbol(condition.first);
    return symbol && values.find(*symbol) == condition.second;
  });
}

void LoadedVariant::bind(SymbolValues& values, std::string_view symbol, int64_t value) const {
  if (const std::optional<sym::Expr> known = manifest.signature.symbols->find_symbol(symbol))
    bind_number(values, plan_.later_guards, *known, value);
}

std::vector<int64_t> LoadedVariant::symbol_values(const SymbolValues& values) const {
  std::vector<int64_t> numbers;
  for (sym::Expr symbol : symbols_) numbers.push_back(values.find(symbol).value_or(0));
  return numbers;
}

CallLayout LoadedVariant::lay_out(const SymbolValues& values) const {
  CallLayout layout;
  layout.symbols = symbol_values(values);
  check_bytes(values, manifest.bytes);
  std::vector<int64_t> bytes(manifest.temporaries.size());
  size_t ranks = 0;
  for (const ManifestOutput& output : manifest.outputs) ranks += static_cast<size_t>(output.rank);
  std::vector<int64_t> flat(ranks);
  sizes_(layout.symbols.data(), bytes.data(), flat.data());
  auto next = flat.begin();
  for (const ManifestOutput& output : manifest.outputs) {
    layout.output_sizes.emplace_back(next, next + output.rank);
    next += output.rank;
  }
  std::vector<ArenaRequest> requests;
  for (size_t i = 0; i < bytes.size(); ++i) requests.push_back({bytes[i], manifest.temporaries[i][0], manifest.temporaries[i][1]});
  layout.arena = plan_arena(requests);
  return layout;
}

std::unique_ptr<AlignedBytes> LoadedVariant::prepare(RuntimeCallbacks& host, std::string_view name, const void* const* constants) const {
  if (manifest.prepared_bytes == 0) return nullptr;
  const auto size = static_cast<size_t>(manifest.prepared_bytes);
  auto prepared = asking_for(size, "what a program computes of its constants", [&] { return std::make_unique<AlignedBytes>(size); });
  SymbolValues values;
  std::vector<int64_t> symbol_values(symbols_.size());
  std::vector<HostTensor> outputs;
  RuntimeCallbacks::Call during{manifest, plan_.later_guards, symbols_, values, symbol_values, outputs};
  const ToroidCall call{nullptr, constants, nullptr, nullptr, nullptr, symbol_values.data(), prepared->data(), nullptr, nullptr};
  check(host.run(prepare_, call, during), name);
  return prepared;
}

void LoadedVariant::run(RuntimeCallbacks& host, std::string_view name, const CallLayout& layout, const void* const* inputs,
                        const void* const* constants, char* arena, char* prepared, const int64_t* random, SymbolValues& values,
                        void* const* outputs, std::vector<HostTensor>& late_outputs) const {
  std::vector<int64_t> symbol_values = layout.symbols;
  RuntimeCallbacks::Call during{manifest, plan_.later_guards, symbols_, values, symbol_values, late_outputs};
  const ToroidCall call{inputs,   constants, outputs,      arena, layout.arena.offsets.data(), symbol_values.data(),
                        prepared, random,    forms_.data()};
  check(host.run(run_, call, during), name);
}

std::vector<std::optional<size_t>> LoadedVariant::forms() const {
  std::vector<std::optional<size_t>> forms;
  for (int32_t& form : forms_) {
    const int32_t known = std::atomic_ref(form).load(std::memory_order_relaxed);
    forms.push_back(known < 0 ? std::nullopt : std::optional(static_cast<size_t>(known)));
  }
  return forms;
}

void LoadedVariant::check(int32_t result, std::string_view name) const {
  if (result == 0) return;
  const auto step = static_cast<size_t>(result & 0xfffffff) - 1;
  const std::string_view kernel = step < manifest.steps.size() ? std::string_view(manifest.steps[step]) : "?";
  if (result >> 28 == 3) out_of_memory(fmt::format("computing '{}' of {}", kernel, name));
  const bool divided = result >> 28 == 2;
  std::string message = divided ? "an integer is divided by zero" : "an index read from a tensor is out of bounds";
  const int64_t index = std::exchange(bad_index_[0], 0), size = std::exchange(bad_index_[1], 0);
  // Library kernels have indices of their own, and two threads may have written one of the numbers each.
  const bool is_told = !divided && size >= 0 && (index < 0 || index >= size) && (index != 0 || size != 0);
  if (is_told)
    message += size == 0 ? fmt::format(": {}, of a dimension without elements", index)
                         : fmt::format(": {}, where 0 to {} are allowed", index, size - 1);
  Error error(ErrorKind::InvalidInput, std::move(message));
  error.at(fmt::format("in kernel '{}' of {}", kernel, name));
  if (step < manifest.origins.size() && !manifest.origins[step].empty()) error.at("computing " + manifest.origins[step]);
  throw error.help(fmt::format("check the values of integer inputs that the model {}", divided ? "divides by" : "uses as indices"));
}

}  // namespace toroid
