// Prints one function of a program's module as C++. Everything is decided in program/; here it is only spelt.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "codegen/cpp/kernel.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/prelude.h"
#include "codegen/custom/custom_kernel.h"
#include "codegen/triton/triton_kernel.h"
#include "codegen/wrapper/generate.h"
#include "codegen/wrapper/kernel_set.h"
#include "program/module.h"
#include "schedule/cuda/attention/attention_kernel.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/product_tiles.h"
#include "support/text/text_buffer.h"

namespace toroid::codegen {

// What the functions of a program share.
struct SharedParts {
  const Program& program;
  const program::Module& module;
  const std::vector<schedule::ScheduledGraph>& graphs;
  std::string_view suffix;  // of the names that other files see
  Target target = Target::Cpu;
  KernelSet kernels = {};
  KernelSet host_kernels = {};                                  // of a program for a GPU: those that the processor runs
  std::unordered_map<sym::Expr, size_t> symbol_positions = {};  // in Module::symbols
  std::map<std::string, std::string> epilogues = {};            // by kernel, the function that the runtime calls for it
  std::vector<std::vector<std::string>> step_kernels = {};      // of each step, the names of its kernels
  bool uses_control_flow = false;
  std::set<std::string> linked_kernels = {};  // GeneratedProgram::linked_kernels
  std::vector<ProductShape> products = {};    // GeneratedProgram::products
  bool calls_special_functions = false, calls_onednn = false;
  CustomEntries custom_entries = {};
  // Of a target with CUDA's kernels: what they need besides, and of emulated ones the functions that take their arguments apart.
  std::map<std::string, cuda::Preludes> kernel_preludes = {};
  std::map<std::string, std::string> thunks = {};
  std::map<std::string, TritonKernel> triton_kernels = {};  // by their text without a name
  std::map<std::string, HalidePipeline> halide = {};        // by entry
  std::set<std::string> halide_declarations = {};           // of those that the wrapper calls itself
  // Sizes and strides that are numbers, each list once for the whole program: `namespace dims { const int64_t d32_64[] = {32, 64}; }`.
  std::map<std::string, std::string> dims = {};  // by name, the numbers
};

// The parts with commas between them; where there are none, `otherwise`.
std::string joined(const std::vector<std::string>& parts, std::string_view otherwise);

// What a call of attention, or of its gradient, drops: its operands begin with so many that are not of the dropout, or a mask.
std::optional<schedule::AttentionDropout> dropout_of(const program::LibraryCall& call, size_t operands);

class FunctionPrinter {
 public:
  FunctionPrinter(const program::Function& function, SharedParts& shared);

  // The main function: toroid_run, with the suffix.
  std::string print_main();
  std::string print_prepare();
  // `static int32_t graph_N(runtime, call, inputs, outputs)`.
  std::string print_subgraph(uint32_t index);
  // toroid_sizes, of the main function.
  std::string print_sizes();

 private:
  using BufferId = loop::BufferId;

  const loop::Buffer& buffer(BufferId id) const { return loops_.buffer(id); }
  const Graph& source() const { return graph_of(function_.graph); }
  const Graph& graph_of(size_t graph) const { return graph == 0 ? shared_.program.graph : shared_.program.subgraphs[graph - 1]; }
  std::string index(sym::Expr e) const;
  std::string list(const std::vector<sym::Expr>& values) const;
  std::string array(std::string_view name, const std::vector<sym::Expr>& values);
  std::string bytes_of(sym::Expr elements, DType dtype) const;
  std::string pointer(const program::Pointer& pointer) const;
  // The number at a pointer.
  std::string number_at(const std::string& pointer) const;
  // What the instruction at hand is printed for: the processor, where it is the host's.
  Target target() const { return on_host_ ? Target::Cpu : shared_.target; }
  KernelSet& kernels() const { return on_host_ ? shared_.host_kernels : shared_.kernels; }
  // What is asked for a buffer's memory.
  std::string_view memory_of(BufferId id) const { return buffer(id).on_host ? "on_host" : "runtime"; }
  bool has_host_buffers() const;
  void print_on_host(const program::Instruction& instruction);
  void print_device_copy(const program::LibraryCall& call);

  void make_names_unique();
  void read_symbols(TextBuffer& text) const;
  void declare(TextBuffer& text, BufferId id, std::string_view constness, std::string_view from) const;
  void declare_buffers(TextBuffer& text, std::string_view inputs, std::string_view outputs) const;
  // A function with this head: its buffers, then its steps.
  std::string print_function(const std::string& head, std::string_view inputs, std::string_view outputs, std::string_view first);
  void print_steps();
  void print(const program::Instruction& instruction);
  // An instruction that fails ends the function.
  void return_if(std::string_view condition) { body_.write(fmt::format("if ({}) return {};", condition, number_ + 1)); }
  // What follows is started on this branch of the call (program/streams/branches.h).
  void print_branch(uint32_t branch);
  std::optional<BufferId> taken_by(const program::Step& step) const;
  void print_take(BufferId id);
  // A call that orders launches (library/branch_calls.h).
  void print_order(std::string_view call, size_t number);
  void print_step_call() { return_if(fmt::format("runtime->step && runtime->step(runtime, {})", number_)); }
  void return_errors() { body_.write(fmt::format("if (error) return {} | error << 28;", number_ + 1)); }

  KernelSource print_definition(size_t number, std::string_view kind, bool assertions);
  // Its name, or that of an equal kernel which there is already. It is noted as one of the step at hand.
  const std::string& add_kernel(KernelSource source);
  // What a package has to link for it.
  void note_linked(const program::LibraryCall& call);
  // All its tasks; may it report errors?
  bool print_launch(const program::Launch& launch);
  void print_gpu_launch(const schedule::Step& kernel, size_t graph, sym::Expr blocks, const schedule::Overlap& overlap);
  void print_written_attention(const schedule::CallStep& planned, size_t graph, sym::Expr blocks);
  void print_gpu_launch(const cuda::CudaKernel& printed, const schedule::CudaGrid& grid, sym::Expr blocks,
                        const schedule::Overlap& overlap);
  void print_triton_launch(const schedule::Step& kernel);
  void print_base(const schedule::ScatterKernel& scatter, size_t graph);
  // Of the kernel of this name, whose arguments are in `passed`; before them come those for `maps`, which the host makes. `types`: of all
  // its arguments. `waits`: its threads wait for each other.
  struct GpuLaunch {
    const std::string& name;
    const std::vector<std::string>& types;
    std::vector<std::string> passed;
    const std::vector<schedule::TensorMap>& maps;
    sym::Expr blocks;
    int threads, shared_bytes, resident;
    bool waits;
    bool starts_early = false;  // schedule::Overlap
  };
  void write_gpu_launch(GpuLaunch launch);
  std::string tensor_maps(const std::vector<schedule::TensorMap>& maps);
  void print_gpu_attention(const program::LibraryCall& call, std::string_view choice);
  // Sorts, selections and searches. `choice`: of schedule/cuda/order_kernels.h.
  bool print_gpu_order(const program::LibraryCall& call, std::string_view choice);
  // One kernel, whose body is `statement` on its parameters.
  struct OrderLaunch {
    std::string name, statement;
    sym::Expr blocks;
    int threads;
    int64_t shared_bytes = 0;
    bool waits = true;
    int blocks_at_once = 1;  // of a multiprocessor, at least: no more registers than that
    cuda::Preludes preludes = {.order = true};
  };
  struct OrderParameter {
    std::string type, name, value;
  };
  void print_order_launch(const OrderLaunch& launch, const std::vector<OrderParameter>& parameters);
  struct OrderCall;  // a call with what all of these want to know of it
  void print_search(const OrderCall& order);
  void print_compaction(const OrderCall& order);
  void print_selection(const OrderCall& order);
  void print_sort_in_blocks(const OrderCall& order, bool of_rows);
  void print_radix_sort(const OrderCall& order);
  void print_gpu_grouped(const program::LibraryCall& call);
  // A graph of cuDNN (schedule/cuda/cudnn/cudnn_step.h). After it the integer `refused` says whether the host did it; where it failed, or
  // refused what it must do, the function ends.
  struct CudnnParts {
    std::string name;
    std::vector<program::Operand> inputs;
    program::Operand output;
    std::vector<sym::Expr> integers;
    std::vector<double> numbers;
  };
  void print_cudnn(CudnnParts parts, bool may_refuse);
  void print_cudnn_step(const schedule::CallStep& step, size_t graph, sym::Expr blocks, const schedule::Overlap& overlap);
  void print_cudnn_attention(const program::LibraryCall& call);
  void print_custom(const program::LibraryCall& call, const CustomOperator& op);
  void print_custom_halide(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const program::LibraryCall& call);
  void print_gpu_custom(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made);
  void print_gpu_triton(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const program::LibraryCall& call);
  // Of a kernel in Triton; `passed` are the addresses of its arguments.
  void write_grid_launch(const std::string& kernel, const std::vector<std::string>& passed, const std::array<sym::Expr, 3>& grid);
  // The name in the program of a kernel in Triton, which equal ones share.
  const std::string& add_triton(TritonKernel kernel, std::string_view base);
  void print_gpu_attention_gradient(const program::LibraryCall& call, std::string_view choice);
  void print_together(const program::LaunchTogether& together);
  void print_quickest(const program::LaunchQuickest& quickest);
  // Of an assertion build: declares `checks`, with the suffix, what the kernel's messages name.
  void print_access_names(const KernelSource& source, std::string_view suffix);
  // What a kernel is called with before the range of its tasks.
  std::string arguments(const KernelSource& source) const;
  void print_read(const program::ReadNumber& read);
  // Declares what a library call takes: inputs, outputs, integers, numbers, and epilogue if it has one, each with the suffix. May the call
  // report errors?
  bool print_call_parts(const program::LibraryCall& call, std::string_view suffix);
  void print_post_ops(const schedule::PostOps& ops, std::string_view suffix);
  bool print_epilogue_function(size_t kernel, std::string_view suffix);
  void print_call(const program::LibraryCall& call);
  // Is it a product of floats for which a program for AMD's GPUs has a kernel, for where the library of products is absent?
  bool has_plain_product(const program::LibraryCall& call) const;
  void print_plain_product(const program::LibraryCall& call);
  void print_chain(const program::ChainCall& chain);
  void print_control_flow(const program::ControlFlow& flow);
  std::string operand(const program::Operand& operand);

  const program::Function& function_;
  const loop::LoopProgram& loops_;
  SharedParts& shared_;
  size_t number_ = 0;  // of the step at hand
  bool prepares_ = false;
  bool on_host_ = false;  // is the instruction at hand the host's?
  uint32_t branch_ = 0;
  std::set<BufferId> taken_;  // of what is swapped and stays where it comes
  TextBuffer body_;
  int arrays_ = 0;
};

}  // namespace toroid::codegen
