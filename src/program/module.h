// The program IR: what a compiled program does in a call, step by step, before anybody spells it in a language.
//
//   schedule      which loops share a kernel, in which order, how long buffers live
//   program       where buffers are, what is launched with which grid, what is asked for late, which numbers are read      (this)
//   codegen       the same in C++
//
// A module has functions: the main one, one that runs once over the constants, and one for each subgraph of control flow that is called. A
// function's steps are the schedule's; each is a list of instructions. Sizes and positions are expressions over the size symbols that the
// function knows when the instruction runs. Printers spell instructions and decide nothing. text.h has the text form.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "schedule/cpu/post_ops.h"
#include "schedule/cuda/launches/overlap.h"
#include "schedule/scheduled_graph.h"
#include "schedule/work.h"

namespace toroid::program {

using loop::BufferId;

enum class Device : uint8_t { Cpu, Cuda };
std::string_view to_string(Device device);  // "cpu", "cuda"
std::optional<Device> parse_device(std::string_view text);

inline constexpr int64_t kPreparedAlignment = 64;  // bytes

// Of a program for a GPU: the host's buffers are at the same offsets in an arena of their own.
// Where a function finds a buffer.
struct InArgument {
  uint32_t position;
};  // an input of the function
struct InResult {
  uint32_t position;
};  // an output of the function, whose memory the caller gives
struct InConstant {
  size_t slot;
};  // Module::constants
struct InArena {
  size_t slot;
};  // Module::temporaries
struct InPrepared {
  int64_t offset;
};                        // bytes into what Module::prepare computed, a multiple of kPreparedAlignment
struct InRandomState {};  // the call's seed and number
struct Allocated {};      // by an instruction of the function, Allocate or AllocateOutput
using Place = std::variant<InArgument, InResult, InConstant, InArena, InPrepared, InRandomState, Allocated>;

struct PlacedBuffer {
  BufferId id;
  Place place;
  Device device = Device::Cpu;
};

// ---- instructions -----------------------------------------------------------------------------------------------------------------

// Memory for a temporary whose size the call's shapes do not tell, or of a subgraph, until its Release.
struct Allocate {
  BufferId buffer;
  sym::Expr elements;
};
struct Release {
  BufferId buffer;
};
// Memory for an output of the program whose sizes the call's shapes do not tell.
struct AllocateOutput {
  BufferId buffer;
  uint32_t position;
  std::vector<sym::Expr> sizes;
};

// Runs the tasks [0, tasks) of a kernel on all threads; a task of a GPU is a block of threads. On a processor in pieces of at least
// `least_work` elements where a task has `work_per_task`. One task runs on the caller's thread.
struct Launch {
  size_t kernel;  // Module::kernels: no epilogue; a product in tiles with its own
  sym::Expr tasks, work_per_task;
  int64_t least_work;
  schedule::Overlap overlap = {};  // on a GPU (overlaps.h); of launches together the first one has it
};
// Kernels that do not wait for each other: each by one thread, or of a GPU all as one launch, with the blocks of the first, then those of
// the second.
struct LaunchTogether {
  std::vector<Launch> kernels;
};
// One of several forms of a kernel, with the same results: the first call finds out which is the quickest.
struct LaunchQuickest {
  std::vector<Launch> forms;  // as Module::choices[slot] names them
  size_t slot;                // ToroidCall::forms
};

// A strided window on a buffer that a library kernel reads or writes. Sizes, strides and offset in elements.
struct Operand {
  BufferId buffer;
  std::vector<sym::Expr> sizes, strides;
  sym::Expr offset = 0;
  bool is_in_memory = true;  // else an epilogue takes it
  bool is_constant = false;  // the same values in every call
  bool operator==(const Operand&) const = default;
};
// What takes the result of a library kernel: post-operations, which the runtime does, or a function of the program, Module::kernels.
using Epilogue = std::variant<schedule::PostOps, size_t>;
struct LibraryCall {
  std::string kernel;           // "matmul", or "matmul#packed" for one of its implementations
  int32_t site;                 // of Module::num_call_sites
  bool has_fixed_sizes = true;  // all sizes, strides and numbers are the same in every call
  std::vector<Operand> inputs, outputs;
  std::vector<sym::Expr> integers;
  std::vector<std::variant<double, sym::Expr>> numbers;
  std::optional<Epilogue> epilogue = {};
  std::string label = {};          // the operation, for people
  schedule::Overlap overlap = {};  // of a kernel of the program's own on a GPU
};
// Convolutions each of which reads what the one before it makes; only the first call's site counts.
struct ChainCall {
  std::string kernel;  // "chain", or "chain#bands"
  int32_t site;
  bool has_fixed_sizes = true;
  std::vector<LibraryCall> calls;
};

// Reads the integer in a buffer of one element: the value of Module::bindings[binding]. `defines` is known from here on.
struct ReadNumber {
  BufferId buffer;
  size_t binding;
  std::optional<sym::Expr> defines;
};

// A pointer into a buffer, in elements.
struct Pointer {
  BufferId buffer;
  sym::Expr offset;
  bool operator==(const Pointer&) const = default;
};
// No variant of a Pointer and a sym::Expr: assigned to one, a number loses its value in the code of GCC 12. Both alternatives hold a
// sym::Expr, at two places, which its scalar replacement of aggregates mixes up.
struct Branch {                   // cond
  std::optional<Pointer> tensor;  // the predicate, a bool; without it
  sym::Expr number;               // is the predicate, true unless 0
  uint32_t yes, no;               // subgraphs
  bool operator==(const Branch&) const = default;
};
struct WhileLoop {
  uint32_t condition, body;
  size_t carried;  // the first inputs; as many outputs
  bool operator==(const WhileLoop&) const = default;
};
struct ScanOver {  // scan, map
  uint32_t body;
  size_t carried, sliced;  // of the inputs, in this order; outputs are the carried ones, then stacked slices
  sym::Expr slices;
  bool operator==(const ScanOver&) const = default;
};
struct AssociativeScan {
  uint32_t body;
  size_t sliced;
  sym::Expr slices;
  bool operator==(const AssociativeScan&) const = default;
};
struct ControlFlow {
  std::variant<Branch, WhileLoop, ScanOver, AssociativeScan> what;
  std::vector<Pointer> inputs;
  std::vector<BufferId> outputs;
  struct Bytes {
    sym::Expr elements;
    DType dtype;
    bool operator==(const Bytes&) const = default;
  };
  std::vector<Bytes> bytes;  // of each carried value, then of a slice of each sliced and of each stacked tensor
  std::string label;         // the operator: "cond", "while_loop", "scan", "map_impl", "associative_scan"
  bool operator==(const ControlFlow&) const = default;
};

// In a program that is profiled: the step begins here.
struct TimeStep {
  size_t step;  // Module::steps
};

using Instruction = std::variant<TimeStep, Allocate, Release, AllocateOutput, Launch, LaunchTogether, LaunchQuickest, LibraryCall,
                                 ChainCall, ReadNumber, ControlFlow>;

// ---- functions --------------------------------------------------------------------------------------------------------------------

struct Step {
  size_t number;  // in Module::steps; an error names it
  std::vector<Instruction> instructions;
  uint32_t branch = 0;  // of launches on a GPU beside others (branches.h); 0: behind all steps before it
  // A collective operation of a GPU beside what stands behind it; how many of these have ended when the step starts (beside.h).
  bool is_beside = false;
  bool is_marked = false;  // of a lane (lanes.h): counts as one, though it is none
  size_t awaits = 0;
  // Of a program for a GPU: the processor runs it, on tensors in its own memory. Before that it waits for all that was started, where a
  // copy from the GPU that it needs may be under way.
  bool on_host = false;
  bool waits = false;
};

struct Function {
  size_t graph;                  // of the scheduled graphs: 0 the main one, then each subgraph
  std::vector<sym::Expr> known;  // size symbols that have a value when the function starts
  std::vector<PlacedBuffer> buffers;
  std::vector<Step> steps;
  std::vector<Instruction> at_end;  // outputs that nobody writes, for they have no elements
};

struct StepInfo {
  std::string name;                             // for messages
  std::string origin;                           // its last operator with its place in the model: "relu (aten::relu) in 2 (ReLU), from …"
  std::optional<ProvenanceId> provenance = {};  // of its function's graph: the operator that uses all its others
};
// Where the schedules have a generated kernel.
struct KernelDefinition {
  size_t graph;
  bool runs_once;   // the step is of Schedule::prepare
  size_t step;      // in the graph's schedule
  size_t part = 0;  // of a kernel with several forms: which; of kernels that run together: which; of a chain: the call whose epilogue it is
  bool operator==(const KernelDefinition&) const = default;
};
// A number that becomes known while the program runs.
struct Binding {
  sym::Expr expr;                    // what it is the value of
  std::optional<sym::Expr> defines;  // the symbol that follows from it; without one the number is only checked
};
// A step with several forms, of which the first call chooses one.
struct Choice {
  size_t step;
  std::vector<std::string> forms;  // "persistent", "looped"; the one with the best estimate first
};
struct OutputInfo {
  std::vector<sym::Expr> sizes;
  bool is_late = false;      // its sizes become known while the program runs
  bool is_in_place = false;  // it may be where the constant is that it is the new value of (in_place.h)
};

struct Module {
  Function main;
  std::optional<Function> prepare;
  std::vector<std::pair<uint32_t, Function>> subgraphs;  // those that are called, by their index, in the order of their first calls
  std::vector<KernelDefinition> kernels;
  std::vector<sym::Expr> symbols;               // the order of ToroidCall::symbols
  std::vector<ConstantId> constants;            // the order of ToroidCall::constants
  std::vector<schedule::Lifetime> temporaries;  // of the main function, the order of ToroidCall::offsets
  std::vector<Binding> bindings;                // the order of ToroidRuntime::bind
  std::vector<OutputInfo> outputs;
  std::vector<StepInfo> steps;                // of all functions
  std::vector<schedule::StepWork> step_work;  // of the first steps, if the program is to be profiled
  std::vector<Choice> choices;                // the order of ToroidCall::forms
  int64_t prepared_bytes = 0;
  int32_t num_call_sites = 0;
  bool is_long = false;     // so many steps that optimising straight-line code costs more than the kernels do
  bool assertions = false;  // kernels check each access to a buffer (ToroidRuntime::out_of_bounds)
};

// The step that the definition speaks of; and its kernel, as a step of its own: a Kernel, ScanKernel or ScatterKernel. `graphs` are the
// module's.
const schedule::Step& step_of(const std::vector<schedule::ScheduledGraph>& graphs, const KernelDefinition& definition);
schedule::Step kernel_of(const std::vector<schedule::ScheduledGraph>& graphs, const KernelDefinition& definition);

// What the instructions of all functions come to.
struct Counts {
  int kernel_calls = 0;   // of generated kernels; a step may start several together
  int kernel_steps = 0;   // steps that run generated kernels
  int library_calls = 0;  // of library kernels; a chain is one
};
Counts counts(const Module& module);

struct ModuleOptions {
  Device device = Device::Cpu;  // where buffers are and kernels run
  bool profile = false;         // how long each step takes is wanted (Executable::step_times)
  bool assertions = false;      // kernels check each access: they are launched one after the other, and all epilogues are functions
};

// `graphs`: the main graph, then each subgraph of the program. The module refers to their kernels.
// Throws Error{Unsupported} for control flow that cannot be compiled, and Error{InvalidModel} for a size that nothing gives, with the place
// in the model.
Module make_module(const std::vector<schedule::ScheduledGraph>& graphs, const Program& program, const ModuleOptions& options = {});

}  // namespace toroid::program
