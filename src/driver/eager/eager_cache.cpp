// The entry of kind "eager" under an operator's family holds its forms, one a line, as operator_program.h writes them.
#include "driver/eager/eager_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/machine/out_of_memory.h"
#include "base/machine/per_thread.h"
#include "cache/code_identity.h"
#include "driver/eager/loaded_operator.h"
#include "driver/eager/operator_program.h"
#include "runtime/pool/pool.h"
#include "support/hash.h"
#include "support/lru_map.h"

namespace toroid {
namespace {

constexpr int kFamilyKeyVersion = 1;
constexpr size_t kMostForms = 8;  // of a family; further sizes are compiled each for itself

CacheKey family_key(std::string_view family) {
  return KeyBuilder("eager", kFamilyKeyVersion).add("operator", family).add("toroid", code_identity()).finish();
}

// A call that was worked out.
struct KnownCall {
  std::shared_ptr<const LoadedOperator> op;
  LoadedOperator::Prepared prepared;
};

// Calls that differ in sizes alone.
struct Family {
  struct Form {
    OperatorForm slots;
    std::weak_ptr<const LoadedOperator> loaded;  // as long as calls that it serves are known
  };
  std::mutex mutex;  // held while one of them is compiled; guards all below
  std::vector<Form> forms;
  std::vector<std::vector<int64_t>> exact;  // sizes that were compiled for themselves
  bool is_exact_only = false;
};

}  // namespace

struct EagerCache::State {
  State(CompileSession& session, EagerOptions options)
      : session(session), options(options), pool(options.threads), calls(options.most_calls), families(options.most_calls) {}

  std::vector<HostTensor> call(std::string_view op, std::span<const EagerArgument> arguments);

  std::shared_ptr<const KnownCall> find(std::string_view key) {
    const std::lock_guard lock(mutex);
    const auto* const known = calls.find(key);
    return known ? *known : nullptr;
  }

  std::shared_ptr<Family> family_of(const std::string& name) {
    {
      const std::lock_guard lock(mutex);
      if (const auto* const known = families.find(name)) return *known;
    }
    auto family = std::make_shared<Family>();
    const std::optional<std::string> forms = session.cache().get(family_key(name));
    std::string_view rest = forms ? std::string_view(*forms) : std::string_view();
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (auto slots = parse_form(line)) family->forms.push_back({*std::move(slots), {}});
    }
    const std::lock_guard lock(mutex);
    if (const auto* const known = families.find(name)) return *known;  // another thread was quicker
    families.put(name, family);
    return family;
  }

  std::shared_ptr<const LoadedOperator> build(const OperatorCall& call, const OperatorForm& form, InputStrides strides) {
    OperatorProgram made = operator_program(call, form, strides);
    const CompiledModel model = session.compile(std::move(made.program), {.forms = schedule::Forms::Estimated});
    refuse_missing_instructions(model.isa, fmt::format("the operator {}", call.schema->name));
    ++(model.from_cache ? loads : compilations);
    return std::make_shared<const LoadedOperator>(model, call, std::move(made));
  }

  // By this form, which is compiled or loaded if it is not in memory; null when it does not go with the call, as a guard or the operator
  // itself may say.
  std::shared_ptr<const KnownCall> try_form(Family::Form& form, const OperatorCall& call) {
    try {
      std::shared_ptr<const LoadedOperator> op = form.loaded.lock();
      if (!op) form.loaded = op = build(call, form.slots, InputStrides::WithoutGaps);
      return std::make_shared<const KnownCall>(KnownCall{op, op->prepare(call)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::InvalidInput && error.kind() != ErrorKind::InvalidModel && error.kind() != ErrorKind::Unsupported)
        throw;
      return nullptr;
    }
  }

  // By a form that the family has. Its guards may still refuse these sizes.
  std::shared_ptr<const KnownCall> by_form(Family& family, const OperatorCall& call, std::span<const int64_t> slots) {
    for (Family::Form& form : family.forms) {
      if (!fits(form.slots, slots)) continue;
      const bool is_loaded = !form.loaded.expired();
      if (std::shared_ptr<const KnownCall> known = try_form(form, call)) {
        if (is_loaded) ++forms;
        return known;
      }
    }
    return nullptr;
  }

  // For sizes in general; null when the operator needs to know them.
  std::shared_ptr<const KnownCall> in_general(const std::string& name, Family& family, const OperatorCall& call,
                                              std::span<const int64_t> slots) {
    std::vector<std::vector<int64_t>> before = family.exact;
    if (before.empty()) {  // nothing is known yet: any may vary, and those that are equal now may be
      before.emplace_back(slots.begin(), slots.end());
      for (int64_t& slot : before.back()) ++slot;
    }
    Family::Form form{general_form(before, slots), {}};
    std::shared_ptr<const KnownCall> known = try_form(form, call);
    if (!known) return nullptr;
    family.forms.push_back(std::move(form));
    std::string text;
    for (const Family::Form& each : family.forms) text += to_string(each.slots) + "\n";
    session.cache().put(family_key(name), text);
    return known;
  }

  std::shared_ptr<const KnownCall> work_out(std::string_view key, std::string_view op, std::span<const EagerArgument> arguments) {
    const OperatorCall call = check_call(op, arguments);
    const ErrorContext context("calling {}", call.text());
    const std::string name = toroid::family_of(call);
    const std::shared_ptr<Family> family = family_of(name);
    const std::lock_guard compiling(family->mutex);
    if (std::shared_ptr<const KnownCall> known = find(key)) return known;  // came while this thread waited
    const std::vector<int64_t> slots = slots_of(call);

    std::shared_ptr<const KnownCall> known = by_form(*family, call, slots);
    bool is_exact_only = false;
    if (!known && !family->is_exact_only && family->exact.size() >= options.exact_forms && family->forms.size() < kMostForms) {
      known = in_general(name, *family, call, slots);
      is_exact_only = known == nullptr;
    }
    if (!known) {
      const std::shared_ptr<const LoadedOperator> built = build(call, exact_form(slots), InputStrides::AsGiven);
      known = std::make_shared<const KnownCall>(KnownCall{built, built->prepare(call)});
      if (family->exact.size() < kMostForms) family->exact.push_back(slots);
      if (is_exact_only) {  // an error for these sizes as well would be the arguments' fault
        family->is_exact_only = true;
        ++exact_only;
      }
    }
    const std::lock_guard lock(mutex);
    evicted += calls.put(std::string(key), known);
    return known;
  }

  // A context for one call, given back at its end.
  struct Borrowed {
    explicit Borrowed(State& state) : state(state) {
      {
        const std::lock_guard lock(state.mutex);
        if (!state.contexts.empty()) {
          context = std::move(state.contexts.back());
          state.contexts.pop_back();
        }
      }
      if (!context) context = std::make_unique<EagerContext>(state.pool);
    }
    ~Borrowed() {
      const std::lock_guard lock(state.mutex);
      try {
        state.contexts.push_back(std::move(context));
      } catch (const std::bad_alloc&) {  // then the next call makes its own
      }
    }
    State& state;
    std::unique_ptr<EagerContext> context;
  };

  CompileSession& session;
  const EagerOptions options;
  RuntimePool pool;

  std::mutex mutex;  // guards calls, families and contexts; never held while anything is compiled or run
  LruMap<std::shared_ptr<const KnownCall>> calls;
  LruMap<std::shared_ptr<Family>> families;
  std::vector<std::unique_ptr<EagerContext>> contexts;

  std::atomic<uint64_t> hits = 0, forms = 0, loads = 0, compilations = 0, failures = 0, evicted = 0, exact_only = 0;
  std::atomic<uint64_t> seed = 0, next_call = 0;
};

EagerCache::EagerCache(CompileSession& session, EagerOptions options)
    : state_(with_typed_memory("making a cache of operators", [&] { return std::make_unique<State>(session, options); })) {}
EagerCache::~EagerCache() = default;

std::vector<HostTensor> EagerCache::call(std::string_view op, std::span<const EagerArgument> arguments) {
  try {
    return with_typed_memory("calling an operator", [&] { return state_->call(op, arguments); });
  } catch (const Error&) {
    ++state_->failures;
    throw;
  }
}

std::vector<HostTensor> EagerCache::State::call(std::string_view op, std::span<const EagerArgument> arguments) {
  // Kept from call to call, so that a hit allocates its results alone.
  struct Kept {
    std::string key;
    std::vector<const TensorView*> tensors;
  };
  static PerThread<Kept> of_threads;
  auto& [key, tensors] = of_threads.get();
  key.clear();
  append_call_key(key, op, arguments);
  std::shared_ptr<const KnownCall> known = find(key);
  if (known) {
    hits.fetch_add(1, std::memory_order_relaxed);
  } else {
    known = work_out(key, op, arguments);
  }
  tensors.clear();
  append_tensors(tensors, arguments);
  const int64_t random[] = {static_cast<int64_t>(seed.load(std::memory_order_relaxed)),
                            static_cast<int64_t>(next_call.fetch_add(1, std::memory_order_relaxed))};
  const Borrowed borrowed(*this);
  return known->op->run(*borrowed.context, known->prepared, tensors, random);
}

void EagerCache::set_seed(uint64_t seed) {
  state_->seed = seed;
  state_->next_call = 0;
}

EagerCounters EagerCache::counters() const {
  const State& state = *state_;
  return {.hits = state.hits,
          .forms = state.forms,
          .loads = state.loads,
          .compilations = state.compilations,
          .failures = state.failures,
          .evicted = state.evicted,
          .exact_only = state.exact_only};
}

size_t EagerCache::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls.size();
}

}  // namespace toroid
