#include "runtime/cuda/cudnn/graphs.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/affixes.h"
#include "base/error.h"
#include "library/cudnn_calls.h"
#include "runtime/cuda/cudnn/descriptor.h"
#include "runtime/cuda/cudnn/operations.h"
#include "runtime/cuda/quickest.h"
#include "tensor/dtype.h"

namespace toroid::cuda::cudnn {
namespace {

constexpr size_t kMostSuggestions = 16, kMostTimed = 6;
constexpr std::chrono::milliseconds kToMake(250);  // what others than the first may take to be made, together

// Descriptors that an attribute of another one holds, up to so many.
std::vector<Descriptor> descriptors_of(const Descriptor& from, Attribute which, Kind kind, size_t most) {
  std::vector<Descriptor> result;
  std::vector<BackendDescriptor> handles;
  for (size_t i = 0; i < most; ++i) handles.push_back(result.emplace_back(kind).get());
  int64_t count = 0;
  check_status(functions().get_attribute(from.get(), which, kTypeDescriptor, static_cast<int64_t>(most), &count, handles.data()),
               "to tell what it has");
  result.erase(result.begin() + std::min(count, static_cast<int64_t>(most)), result.end());
  return result;
}

// Are results of this kernel as exact as sums in float32, and the same in each call?
bool is_exact(const Descriptor& config, bool is_float32) {
  const std::vector<Descriptor> engines = descriptors_of(config, kConfigEngine, kEngine, 1);
  if (engines.empty()) return false;
  constexpr int64_t kMostNotes = 32;
  int notes[kMostNotes] = {};
  int64_t count = 0;
  if (functions().get_attribute(engines[0].get(), kEngineNumericalNotes, kTypeNumericalNote, kMostNotes, &count, notes) != 0) return false;
  return std::none_of(notes, notes + std::min(count, kMostNotes), [&](int note) {
    return note == kNoteNondeterministic || note == kNoteReducedSums || note == kNoteFourier || note == kNoteDownConverts ||
           (note >= kNoteWinograd && note <= kNoteWinograd13) || (note == kNoteTensorCores && is_float32);
  });
}

}  // namespace

class Graphs::Graph {
 public:
  Graph(const ToroidLibraryCall& call, Handle handle, std::vector<int64_t> key) : key(std::move(key)), operations_(call), handle_(handle) {
    is_float32_ = static_cast<DType>(call.inputs[0].dtype) == DType::F32;
  }

  // Asks the library for suggestions. Throws Refused where it does not take the graph.
  void suggest() {
    graph_.handle(kGraphHandle, handle_).descriptors(kGraphOperations, operations_.list()).finish();
    for (const int mode : {kHeuristicA, kHeuristicFallback}) {
      if (!configs_.empty()) break;
      try {
        add_suggestions(mode);
      } catch (const Refused& refused) {
        reason = refused.reason;
      }
    }
  }

  // Makes the next suggestion that the library can make; false where there is none.
  bool make_next() {
    while (next_ < configs_.size()) {
      const size_t position = next_++;
      try {
        Descriptor described(kExecutionPlan);
        described.handle(kPlanHandle, handle_).descriptor(kPlanConfig, configs_[position]).finish();
        add_plan(std::move(described), position);
        return true;
      } catch (const Refused& refused) {
        reason = refused.reason;
      }
    }
    return false;
  }
  // Makes this suggestion alone; false where there is none such.
  bool make(size_t position) {
    if (position >= configs_.size()) return false;
    next_ = position;
    const bool is_made = make_next() && plans.back().position == position;
    if (!is_made) plans.clear(), next_ = 0;
    return is_made;
  }
  // Makes the plan that the library wrote so; false where it does not read it.
  bool read(std::string_view written, size_t position) {
    if (written.empty()) return false;
    try {
      Descriptor described(kExecutionPlan);
      described.handle(kPlanHandle, handle_).text(kPlanJson, written).finish();
      add_plan(std::move(described), position);
      return true;
    } catch (const Refused&) {
      return false;
    } catch (const Error&) {  // another version of the library may call it a bad parameter
      return false;
    }
  }
  // The chosen plan as the library writes it; "" where it does not.
  std::string written() const {
    const BackendDescriptor plan = plans[chosen].described.get();
    int64_t size = 0;
    if (functions().get_attribute(plan, kPlanJson, kTypeChar, 0, &size, nullptr) != 0 || size <= 0) return "";
    std::string text(static_cast<size_t>(size), '\0');
    if (functions().get_attribute(plan, kPlanJson, kTypeChar, size, &size, text.data()) != 0) return "";
    return text;
  }
  bool has_more() const { return next_ < configs_.size(); }

  Status run(size_t plan, const ToroidLibraryCall& call, void* workspace) const {
    const std::vector<const void*> places = operations_.places(call);
    Descriptor pack(kVariantPack);
    pack.integers(kPackIds, operations_.ids()).pointers(kPackPointers, places);
    const void* const memory[] = {workspace};
    pack.pointers(kPackWorkspace, memory).finish();
    return functions().execute(handle_, plans[plan].described.get(), pack.get());
  }

  struct Plan {
    Descriptor described;
    size_t position;  // among the library's suggestions
    size_t workspace_bytes;
  };
  const std::vector<int64_t> key;
  std::vector<Plan> plans;
  size_t chosen = 0;
  bool is_decided = true;
  std::string reason = "it suggests no kernel";  // why there is no plan

 private:
  void add_plan(Descriptor described, size_t position) {
    int64_t bytes = 0, count = 0;
    check_status(functions().get_attribute(described.get(), kPlanWorkspaceBytes, kTypeInt64, 1, &count, &bytes),
                 "to tell what memory it needs");
    plans.push_back({std::move(described), position, static_cast<size_t>(bytes)});
  }
  void add_suggestions(int mode) {
    Descriptor heuristic(kEngineHeuristic);
    heuristic.descriptor(kHeuristicGraph, graph_).number(kHeuristicMode, kTypeHeuristicMode, mode).finish();
    for (Descriptor& each : descriptors_of(heuristic, kHeuristicResults, kEngineConfig, kMostSuggestions)) {
      if (is_exact(each, is_float32_)) configs_.push_back(std::move(each));
    }
  }

  Operations operations_;
  Handle handle_;
  Descriptor graph_{kOperationGraph};
  std::vector<Descriptor> configs_;
  size_t next_ = 0;
  bool is_float32_ = false;
};

Graphs::Graphs(const Stream& stream) : stream_(stream) {}

Graphs::~Graphs() {
  graphs_.clear();
  if (handle_ != nullptr) functions().destroy(handle_);
}

// One that is there stays: a graph of calls may have its place.
void* Graphs::workspace(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (workspaces_.empty() || workspaces_.back().size() < bytes) workspaces_.emplace_back(stream_, bytes);
  return workspaces_.back().data();
}

Graphs::Graph& Graphs::graph_of(const ToroidLibraryCall& call) {
  std::vector<int64_t> key = key_of(call);
  if (const auto found = graphs_.find(key); found != graphs_.end()) return *found->second;
  if (const auto found = refused_.find(key); found != refused_.end()) throw Refused{found->second};
  if (handle_ == nullptr) {
    check_status(functions().create(&handle_), "to start");
    check_status(functions().set_stream(handle_, stream_.handle()), "to take a stream");
  }
  std::unique_ptr<Graph> made;
  try {
    made = std::make_unique<Graph>(call, handle_, key);
    if (!recall(*made)) {
      if (!made->make_next()) throw Refused{made->reason};
      made->is_decided = !made->has_more();
      undecided_ += made->is_decided ? 0 : 1;
    }
  } catch (const Refused& refused) {
    refused_[key] = refused.reason;
    throw;
  }
  return *graphs_.emplace(std::move(key), std::move(made)).first->second;
}

// Has the plan that was the quickest before; else suggestions, and false.
bool Graphs::recall(Graph& graph) const {
  const std::string known = memory_ ? memory_->find(remembered_as(graph)).value_or("") : "";
  const size_t end = std::min(known.find('\n'), known.size());
  size_t position = 0;
  const bool is_known = std::from_chars(known.data(), known.data() + end, position).ec == std::errc();
  if (is_known && graph.read(std::string_view(known).substr(std::min(end + 1, known.size())), position)) return true;
  graph.suggest();
  return is_known && graph.make(position);
}

// Of sums of parts, which are added afterwards, the library makes the first.
void Graphs::clear_other_parts(const ToroidLibraryCall& call) const {
  if (!starts_with(std::string_view(call.name), cudnn_calls::kFilterGradient)) return;
  const ToroidOperand& sums = call.outputs[0];
  const auto of_part = static_cast<size_t>(sums.strides[0] * size_bytes(static_cast<DType>(sums.dtype)));
  if (sums.sizes[0] > 1) clear(stream_, static_cast<char*>(sums.data) + of_part, of_part * static_cast<size_t>(sums.sizes[0] - 1));
}

bool Graphs::run(const ToroidLibraryCall& call) {
  const bool may_refuse = !ends_with(std::string_view(call.name), cudnn_calls::kOnly);
  if (absence()) {
    if (!may_refuse) functions();  // which throws
    return false;
  }
  try {
    Graph& graph = graph_of(call);
    if (is_deciding_ && !graph.is_decided) decide(graph, call);
    const Graph::Plan& plan = graph.plans[graph.chosen];
    clear_other_parts(call);
    check_status(graph.run(graph.chosen, call, workspace(plan.workspace_bytes)), "to start a graph");
    return true;
  } catch (const Refused& refused) {
    if (!may_refuse) throw Error(ErrorKind::Environment, formatted("cuDNN has no kernel for a step: {}", refused.reason));
    return false;
  }
}

// What the library's suggestions depend on: its version, and the GPU.
std::string Graphs::remembered_as(const Graph& graph) const {
  std::string text = formatted("cuDNN {} on {}:", functions().version(), gpu_);
  for (int64_t each : graph.key) text += formatted(" {}", each);
  return text;
}

void Graphs::decide(Graph& graph, const ToroidLibraryCall& call) {
  const auto begin = std::chrono::steady_clock::now();
  while (graph.plans.size() < kMostTimed && std::chrono::steady_clock::now() - begin < kToMake && graph.make_next()) {
  }
  const std::optional<size_t> found =
      quickest(stream_, graph.plans.size(), [&](size_t i) { return graph.run(i, call, workspace(graph.plans[i].workspace_bytes)) == 0; });
  graph.chosen = found.value_or(graph.chosen);
  graph.is_decided = true;
  --undecided_;
  if (memory_ && found) memory_->keep(remembered_as(graph), formatted("{}\n", graph.plans[graph.chosen].position) + graph.written());
}

}  // namespace toroid::cuda::cudnn
