// Each job runs its calls in a child that begins anew behind a call that ends it. A call that fails there is tried again in a child of its
// own, so that memory in pieces is not its fault.
#include "hostile/check.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/operator_scope.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "hostile/arguments.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"
#include "passes/decompose/engine/infer_types.h"
#include "passes/fold_constants.h"

namespace toroid::hostile {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // shadow memory is most of it
constexpr int kSeconds = 10;
#else
constexpr bool kLimitsMemory = true;
constexpr int kSeconds = 1;
#endif
constexpr uint64_t kMemory = uint64_t{256} << 20;
constexpr int64_t kMostEvaluated = 1 << 14;  // elements of all values together

struct Outcome {
  bool refused = false, evaluated = false;
  std::string fault;  // empty: as it must be
};

std::string fault_of(const Error& error, const Schema& schema) {
  const std::string report = error.report();
  // Calls that write to an argument of another shape record what the operator gives.
  if (error.kind() == ErrorKind::Internal || report.find("toroid is at fault") != std::string::npos) return report;
  if (report.find(schema.name) == std::string::npos) return "the operator is not named: " + report;
  if (error.message().find("std::") != std::string::npos || error.message().find("vector::") != std::string::npos)
    return "no words for users: " + report;
  return "";
}

// What is written to an argument has the argument's dtype.
void adopt_arguments(const Call& call, std::vector<std::optional<TensorType>>& types) {
  const std::vector<Parameter>& results = call.schema->results;
  for (size_t r = 0; r < results.size() && results.size() == types.size(); ++r) {
    for (size_t p = 0; p < call.arguments.size() && !results[r].alias.empty(); ++p) {
      const Parameter& parameter = call.schema->parameters[p];
      const auto* ref = std::get_if<InputRef>(&call.arguments[p]);
      if (!parameter.mutated || parameter.alias != results[r].alias || ref == nullptr || !types[r]) continue;
      types[r]->dtype = call.inputs[ref->index].dtype;
    }
  }
}

// What the operator gives; nothing for what only a whole program may hold.
std::optional<std::vector<std::optional<TensorType>>> results_of(const Call& call, Program& program) {
  try {
    std::vector<std::optional<TensorType>> types = infer_result_types(program, *call.schema, call.arguments, call.inputs);
    adopt_arguments(call, types);
    return types;
  } catch (const Error& error) {
    const bool is_for_programs = error.message().find("as a part of a program only") != std::string::npos ||
                                 error.message().find("which is no tensor") != std::string::npos ||
                                 error.message().find("gives complex numbers") != std::string::npos ||
                                 error.message().find("several lists") != std::string::npos;
    if (!is_for_programs) throw;
    return std::nullopt;
  }
}

bool is_small(const Program& program) {
  int64_t elements = 0;
  for (size_t i = 0; i < program.graph.num_values(); ++i) {
    const sym::Expr count = program.graph.value(ValueId{static_cast<uint32_t>(i)}).type.numel();
    const Sizes& sizes = program.graph.value(ValueId{static_cast<uint32_t>(i)}).type.sizes;
    if (!std::all_of(sizes.begin(), sizes.end(), [](sym::Expr size) { return size.is_const(); })) return false;
    if (count.value() > kMostEvaluated) return false;
    elements += count.value();
  }
  return elements <= kMostEvaluated;
}

std::vector<HostTensor> inputs_for(const Program& program, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (ValueId input : program.graph.inputs) {
    const TensorType& type = program.graph.type(input);
    std::vector<int64_t> sizes;
    for (sym::Expr size : type.sizes) sizes.push_back(size.value());
    HostTensor tensor(type.dtype, sizes);
    std::vector<int64_t> values(static_cast<size_t>(tensor.numel()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int64_t>((i + seed) % 3) - (is_signed(type.dtype) && seed % 5 == 0 ? 1 : 0);
    inputs.push_back(HostTensor::from_ints(type.dtype, sizes, values));
  }
  return inputs;
}

Outcome outcome_of(const Schema& schema, uint64_t seed, bool evaluates) {
  Outcome outcome;
  try {
    auto symbols = std::make_unique<sym::Context>();
    const Call call = hostile_call(schema, seed, *symbols);
    Program program;
    std::swap(program.symbols, symbols);
    const auto results = results_of(call, program);
    std::swap(program.symbols, symbols);
    // Of results whose types are not known none is kept, and their number is that of the schema.
    Program whole = program_of(call, std::move(symbols), results.value_or(std::vector<std::optional<TensorType>>(schema.results.size())));
    decompose(whole);
    verify(whole, Level::Core);
    const LazyErrorContext context([&] { return "checking " + schema.name; });
    fold_constants(whole);
    verify(whole, Level::Core);
    if (evaluates && results && whole.guards.empty() && is_small(whole)) {
      outcome.evaluated = true;
      evaluate(whole, inputs_for(whole, seed));
    }
  } catch (const Error& error) {
    outcome.refused = !outcome.evaluated;
    outcome.fault = fault_of(error, schema);
  } catch (const std::bad_alloc&) {
    outcome.fault = "out of memory";
  } catch (const std::exception& error) {
    outcome.fault = fmt::format("an exception that is no Error: {}", error.what());
  }
  return outcome;
}

// ---- children -----------------------------------------------------------------------------------------------------------

struct Shared {
  uint64_t next = 0;  // position of the call at hand
  uint64_t refused = 0, evaluated = 0;
  bool answered[4096] = {};  // by the operator's position
  char fault[4000] = {};
};

uint64_t address_space_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_time() {
  const itimerval limit{.it_interval = {}, .it_value = {kSeconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

struct Position {
  const Schema* schema;
  size_t number;  // of the schema
  uint64_t seed;
};

constexpr int kFaultStatus = 42;  // of a child that tells its fault; a sanitizer's own is 1

// Runs calls from `shared.next` to `end`; says what ended it, or "".
template <class PositionAt>
std::string run_child(Shared& shared, uint64_t end, bool evaluates, PositionAt position_at) {
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorKind::Environment, "cannot fork");
  if (child == 0) {
    if (kLimitsMemory) {
      const rlim_t bytes = address_space_bytes() + kMemory;
      const rlimit memory{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &memory);
    }
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (; shared.next < end; ++shared.next) {
      limit_time();
      const Position position = position_at(shared.next);
      const Outcome outcome = outcome_of(*position.schema, position.seed, evaluates);
      shared.refused += outcome.refused;
      shared.evaluated += outcome.evaluated;
      shared.answered[position.number % std::size(shared.answered)] |= !outcome.refused && outcome.fault.empty();
      if (outcome.fault.empty()) continue;
      std::strncpy(shared.fault, outcome.fault.c_str(), sizeof shared.fault - 1);
      ::_exit(kFaultStatus);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kFaultStatus) return shared.fault;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) return fmt::format("more than {} s of processor time", kSeconds);
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("exit {}", WEXITSTATUS(status));
}

class SharedMemory {
 public:
  SharedMemory() : shared_(new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared) {}
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  Shared* operator->() { return shared_; }
  Shared& operator*() { return *shared_; }

 private:
  Shared* shared_;
};

std::vector<const Schema*> supported(const std::string& only) {
  std::vector<const Schema*> schemas;
  for (std::string_view name : schema_names()) {
    const Schema* schema = find_schema(name);
    if (is_supported(*schema) && schema->name.find(only) != std::string::npos) schemas.push_back(schema);
  }
  return schemas;
}

std::string text_of(const Schema& schema, uint64_t seed) {
  try {
    auto symbols = std::make_unique<sym::Context>();
    const Call call = hostile_call(schema, seed, *symbols);
    return to_text(program_of(call, std::move(symbols), std::vector<std::optional<TensorType>>(schema.results.size())));
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The calls of one job: every jobs-th.
void run_job(const std::vector<const Schema*>& schemas, const Options& options, uint64_t job, Summary& summary) {
  const uint64_t all = schemas.size() * options.calls, step = static_cast<uint64_t>(options.jobs);
  const uint64_t count = all > job ? (all - job + step - 1) / step : 0;
  auto position_at = [&](uint64_t i) {
    const uint64_t call = job + i * step;
    return Position{schemas[call % schemas.size()], call % schemas.size(), options.seed * 1000003 + call / schemas.size()};
  };
  SharedMemory shared;
  while (shared->next < count) {
    if (run_child(*shared, count, options.evaluate, position_at).empty()) break;
    const Position position = position_at(shared->next);
    SharedMemory alone;
    const std::string fault = run_child(*alone, 1, options.evaluate, [&](uint64_t) { return position; });
    if (!fault.empty()) summary.failures.push_back({position.schema->name, position.seed, fault, text_of(*position.schema, position.seed)});
    ++shared->next;
  }
  summary.calls += count;
  summary.refused += shared->refused;
  summary.evaluated += shared->evaluated;
  for (size_t i = 0; i < schemas.size(); ++i) {
    if (shared->answered[i % std::size(shared->answered)]) summary.answered.insert(schemas[i]->name);
  }
}

}  // namespace

Summary check(const Options& options) {
  const std::vector<const Schema*> schemas = supported(options.only);
  Summary summary;
  summary.operators = schemas.size();
  std::vector<Summary> parts(static_cast<size_t>(options.jobs));
  std::vector<std::thread> jobs;
  for (size_t job = 0; job < parts.size(); ++job) jobs.emplace_back([&, job] { run_job(schemas, options, job, parts[job]); });
  for (std::thread& job : jobs) job.join();
  for (const Summary& part : parts) {
    summary.calls += part.calls;
    summary.refused += part.refused;
    summary.evaluated += part.evaluated;
    summary.answered.insert(part.answered.begin(), part.answered.end());
    summary.failures.insert(summary.failures.end(), part.failures.begin(), part.failures.end());
  }
  return summary;
}

std::string check_call(const std::string& op, uint64_t seed, bool evaluates) {
  const Schema* schema = find_schema(op);
  if (schema == nullptr) throw Error(ErrorKind::InvalidOption, fmt::format("no operator is called {}", op));
  return outcome_of(*schema, seed, evaluates).fault;
}

}  // namespace toroid::hostile
