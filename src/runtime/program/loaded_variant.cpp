#include "runtime/program/loaded_variant.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/program/form_choice.h"

namespace toroid {

LoadedVariant::LoadedVariant(const ToroidVariant& tables, int64_t* bad_index, const ToroidGpuPlacement* placement)
    : tables(tables), forms_(static_cast<size_t>(tables.num_choices), kUnknownForm), bad_index_(bad_index), placement_(placement) {}

bool LoadedVariant::is_chosen(const CallSizes& sizes) const {
  const Span<const ToroidCondition> conditions = rows(tables.conditions, tables.num_conditions);
  return std::all_of(conditions.begin(), conditions.end(), [&](const ToroidCondition& condition) {
    const std::optional<int32_t> symbol = find_symbol(sizes.contract(), condition.symbol);
    return symbol && sizes.find(*symbol) == condition.value;
  });
}

void LoadedVariant::bind(CallSizes& sizes, std::string_view symbol, int64_t value) const {
  if (const std::optional<int32_t> known = find_symbol(tables.contract, symbol)) bind_symbol(sizes, *known, value);
}

CallLayout LoadedVariant::lay_out(const CallSizes& sizes) const {
  CallLayout layout;
  layout.symbols = sizes.numbers();
  check_bytes(sizes);
  std::vector<int64_t> bytes(static_cast<size_t>(tables.num_temporaries));
  size_t ranks = 0;
  const Span<const ToroidOutputInfo> outputs = rows(tables.outputs, tables.num_outputs);
  for (const ToroidOutputInfo& output : outputs) ranks += static_cast<size_t>(output.rank);
  std::vector<int64_t> flat(ranks);
  tables.sizes(layout.symbols.data(), bytes.data(), flat.data());
  auto next = flat.begin();
  for (const ToroidOutputInfo& output : outputs) {
    layout.output_sizes.emplace_back(next, next + output.rank);
    next += output.rank;
  }
  const auto planned = [&](bool on_host) {
    std::vector<ArenaRequest> requests;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (is_on_host(&ToroidGpuPlacement::temporaries, i) != on_host) continue;
      requests.push_back({bytes[i], tables.temporaries[i].first_step, tables.temporaries[i].last_step});
    }
    return plan_arena(requests);
  };
  layout.arena = planned(false);
  if (!is_mixed()) return layout;
  const ArenaPlan host = planned(true);
  layout.host_arena_bytes = host.bytes;
  std::vector<int64_t> offsets;  // in the order of temporaries, of both
  size_t taken[2] = {0, 0};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool on_host = is_on_host(&ToroidGpuPlacement::temporaries, i);
    offsets.push_back((on_host ? host : layout.arena).offsets[taken[on_host ? 1 : 0]++]);
  }
  layout.arena.offsets = std::move(offsets);
  return layout;
}

std::unique_ptr<HostBytes> LoadedVariant::prepare_in_memory(RuntimeCallbacks& host, std::string_view name, const void* const* constants,
                                                            const HostMemory* memory) const {
  if (tables.prepared_bytes == 0) return nullptr;
  const auto size = static_cast<size_t>(tables.prepared_bytes);
  auto prepared = asking_for(size, "what a program computes of its constants", [&] { return std::make_unique<HostBytes>(size, memory); });
  prepare(host, name, constants, prepared->data());
  return prepared;
}

void LoadedVariant::prepare(RuntimeCallbacks& host, std::string_view name, const void* const* constants, char* prepared) const {
  CallSizes sizes(tables.contract);
  RuntimeCallbacks::Call during{tables, nullptr, nullptr};
  const ToroidCall call{nullptr, constants, nullptr, nullptr, nullptr, sizes.numbers().data(), prepared, nullptr, nullptr};
  check(host.run(tables.prepare, call, during), name);
}

void LoadedVariant::run(RuntimeCallbacks& host, std::string_view name, const CallLayout& layout, const void* const* inputs,
                        const void* const* constants, char* arena, char* prepared, const int64_t* random, const CallSizes& sizes,
                        void* const* outputs, OutputAllocator& late_outputs) const {
  std::optional<CallSizes> growing;
  if (tables.num_bindings > 0) growing = sizes;
  RuntimeCallbacks::Call during{tables, growing ? &*growing : nullptr, &late_outputs};
  const int64_t* const symbols = (growing ? *growing : sizes).numbers().data();
  const ToroidCall call{inputs, constants, outputs, arena, layout.arena.offsets.data(), symbols, prepared, random, forms_.data()};
  check(host.run(tables.run, call, during), name);
}

std::vector<std::optional<size_t>> LoadedVariant::forms() const {
  std::vector<std::optional<size_t>> forms;
  for (const int32_t& form : forms_) {
    const int32_t known = __atomic_load_n(&form, __ATOMIC_RELAXED);
    forms.push_back(known < 0 ? std::nullopt : std::optional(static_cast<size_t>(known)));
  }
  return forms;
}

void LoadedVariant::check(int32_t result, std::string_view name) const {
  if (result == 0) return;
  const auto step = static_cast<size_t>(result & 0xfffffff) - 1;
  const bool is_known = step < static_cast<size_t>(tables.num_steps);
  const std::string_view kernel = is_known ? tables.steps[step].name : "?", origin = is_known ? tables.steps[step].origin : "";
  if (result >> 28 == 3) out_of_memory(formatted("computing '{}' of {}", kernel, name));
  if (result >> 28 == 5)
    fail(ErrorKind::Internal, Help{"compile for the device cpu, which does without Halide"},
         "a Halide pipeline of kernel '{}' of {} refuses its buffers", kernel, name);
  const bool divided = result >> 28 == 2;
  std::string message = divided ? "an integer is divided by zero" : "an index read from a tensor is out of bounds";
  const int64_t index = std::exchange(bad_index_[0], 0), size = std::exchange(bad_index_[1], 0);
  // Library kernels have indices of their own, and two threads may have written one of the numbers each.
  const bool is_told = !divided && size >= 0 && (index < 0 || index >= size) && (index != 0 || size != 0);
  if (is_told)
    message += size == 0 ? formatted(": {}, of a dimension without elements", index)
                         : formatted(": {}, where 0 to {} are allowed", index, size - 1);
  Error error(ErrorKind::InvalidInput, std::move(message));
  error.at(formatted("in kernel '{}' of {}", kernel, name));
  if (!origin.empty()) error.at(formatted("computing {}", origin));
  throw error.help(formatted("check the values of integer inputs that the model {}", divided ? "divides by" : "uses as indices"));
}

}  // namespace toroid
