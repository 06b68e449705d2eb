// Prints one graph of a program as a function that runs its steps in order.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/cpp/kernel.h"
#include "codegen/wrapper/generate.h"
#include "codegen/wrapper/kernel_set.h"
#include "support/text_buffer.h"

namespace toroid::codegen {

// What the functions of a program share.
struct SharedParts {
  const Program& program;
  GeneratedProgram& result;
  std::string_view suffix;  // of the names that other files see
  KernelSet kernels = {};
  std::unordered_map<sym::Expr, size_t> symbol_positions = {};   // in GeneratedProgram::symbols
  std::unordered_map<uint32_t, size_t> constant_positions = {};  // by ConstantId, in GeneratedProgram::constants
  std::map<uint32_t, std::vector<sym::Expr>> called = {};        // subgraphs, with the symbols known where they are called
  std::map<std::string, std::string> epilogues = {};             // by kernel, the function that the runtime calls for it
  bool uses_control_flow = false;
  bool profile = false;        // the runtime is told of each step
  bool assertions = false;     // kernels check their accesses
  int32_t num_call_sites = 0;  // library calls so far
  // Sizes and strides that are numbers, each list once for the whole program: `namespace dims { const int64_t d32_64[] = {32, 64}; }`.
  std::map<std::string, std::string> dims = {};  // by name, the numbers
};

// The parts with commas between them; where there are none, `otherwise`.
std::string joined(const std::vector<std::string>& parts, std::string_view otherwise);

class GraphFunction {
 public:
  // `known`: the size symbols that have values when the function starts.
  GraphFunction(const ScheduledGraph& graph, const Graph& source, SharedParts& shared, std::vector<sym::Expr> known);

  // The main graph: toroid_run, with the suffix. Temporaries of known size live in the call's arena, others are asked for when they are needed.
  std::string print_main();
  // toroid_prepare, after print_main; empty if there is nothing to prepare.
  std::string print_prepare();
  // A subgraph: `static int32_t graph_N(runtime, call, inputs, outputs)`.
  std::string print_subgraph(uint32_t index);
  // toroid_sizes, after print_main.
  std::string print_sizes();

 private:
  using BufferId = loop::BufferId;

  const loop::Buffer& buffer(BufferId id) const { return loops_.buffer(id); }
  std::string index(sym::Expr e) const;
  std::string list(const std::vector<sym::Expr>& values) const;
  std::string array(std::string_view name, const std::vector<sym::Expr>& values);
  std::string bytes_of(const loop::Buffer& buffer) const;
  std::string bytes_of(std::span<const sym::Expr> sizes, DType dtype) const;
  bool is_known(const std::vector<sym::Expr>& sizes) const;

  void make_names_unique();
  void read_symbols(TextBuffer& text) const;
  void declare(TextBuffer& text, BufferId id, std::string_view constness, std::string_view from) const;
  void declare_parameters(TextBuffer& text, std::string_view inputs, std::string_view outputs);
  void declare_prepared(TextBuffer& text) const;
  // Throws Error{InvalidModel} for a size that has no value.
  void check_symbols() const;
  void print_steps(bool is_main);
  void print_allocation(BufferId id, std::string_view request, size_t number);
  bool is_late(const schedule::Lifetime& lifetime, bool is_main) const;
  bool is_late_output(size_t position) const;
  void add_step(const schedule::Step& step);  // to the names and origins of steps
  // Its name, or that of an equal kernel which there is already. It is noted as one of the last step that was added.
  const std::string& add_kernel(const KernelSource& source);
  void write_origin(const schedule::Step& step);
  void print_step(const schedule::Step& step, size_t number);
  void print_kernel_step(const schedule::Step& step, size_t number);
  // All its tasks; may it report errors?
  bool print_launch(const schedule::Step& step);
  bool print_forms(const schedule::Kernel& kernel, size_t number);
  void print_group(const schedule::ParallelKernels& step, size_t number);
  // Of an assertion build: declares `checks`, with the suffix, what the kernel's messages name.
  void print_access_names(const KernelSource& source, std::string_view suffix);
  // What a kernel is called with before the range of its tasks.
  std::string arguments(const KernelSource& source) const;
  void print_bind(const schedule::BindStep& step, size_t number);
  // Declares `sum_form`, with the suffix.
  void print_clamped_sum(const schedule::PostOps& sum, std::string_view suffix);
  // What a library call takes.
  struct CallParts {
    std::string name;
    size_t num_integers = 0, num_numbers = 0;
    bool has_fixed_sizes = true;
    std::vector<BufferId> passed = {};  // to the epilogue: these buffers, and others
    size_t num_passed = 0;
    bool reports_errors = false;
  };
  // Declares it: inputs, outputs, integers, numbers, and epilogue if it has one, each with the suffix.
  CallParts print_call_parts(const schedule::CallStep& step, std::string_view suffix);
  void print_call(const schedule::CallStep& step, size_t number);
  void print_chain(const schedule::ChainStep& step, size_t number);
  void print_control_flow(const schedule::CallStep& step, const HigherOrder& op, size_t number);
  std::string operand(BufferId id, const std::vector<sym::Expr>& sizes, const std::vector<sym::Expr>& strides, sym::Expr offset,
                      bool is_in_memory = true);
  std::string subgraph(const Argument& argument);

  const ScheduledGraph& graph_;
  const Graph& source_;
  const loop::LoopProgram& loops_;
  SharedParts& shared_;
  std::vector<sym::Expr> known_at_start_;
  std::unordered_set<sym::Expr> known_;  // symbols with a value at the step being printed
  TextBuffer body_;
  int arrays_ = 0;
  std::unordered_map<loop::BufferId, int64_t> prepared_offsets_;
};

}  // namespace toroid::codegen
