// What the printers of all kinds of kernels share: names, parameters, the signature and the comment above it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/body.h"
#include "codegen/cpp/kernel.h"
#include "loop/loop.h"
#include "schedule/axes.h"
#include "schedule/schedule.h"
#include "support/text/text_buffer.h"

namespace toroid::codegen {

// Each prints one kind of step: nest/, scan_kernel.cpp, scatter_kernel.cpp.
KernelSource print_nest(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions,
                        const schedule::Kernel& kernel);
KernelSource print_scan(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions,
                        const schedule::ScanKernel& kernel);
KernelSource print_scatter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions,
                           const schedule::ScatterKernel& kernel);

using schedule::extent;

class KernelPrinter {
 public:
  KernelPrinter(const loop::LoopProgram& program, const Graph& graph, std::string name, bool assertions);

 protected:
  // Every expression of a step, for the sizes that it needs.
  struct Contents {
    std::vector<loop::ExprId> values;
    std::vector<sym::Expr> positions;
  };
  void take_sizes(const Contents& contents);
  void take_sizes(sym::Expr e);
  // The buffers of the signature: what is only read, then what is written.
  void take_parameters(const std::vector<loop::BufferId>& reads, const std::vector<loop::BufferId>& writes);
  // Is the buffer the new value of another parameter, or has it one, so that both may be the same memory?
  bool may_be_shared(loop::BufferId buffer) const;
  // The comment above the function: its operators and its buffers' types.
  void print_header(const std::vector<ProvenanceId>& provenance);
  std::string signature(std::string_view linkage = "extern \"C\"") const;
  // Of an assertion build: the buffers as pointers that check what is accessed through them. The function's first lines.
  void print_checked_buffers();
  // The accesses of `body` say of which of these operators they are.
  void set_origins(BodyPrinter& body, const std::vector<ProvenanceId>& provenance);
  // Declares the outer axes of the task called `task`.
  void decode_task(const std::vector<sym::Expr>& axes, std::string_view task, std::vector<std::string>& lines);

  std::string index(sym::Expr e) { return print_index(exprs_, names_, e); }
  std::string factor(sym::Expr e) { return print_factor(exprs_, names_, e); }
  std::string name_of(sym::Expr axis) { return names_.of(axis); }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const Graph& graph_;
  const bool assertions_;
  KernelSource source_;
  TextBuffer text_;
  SymbolNames names_;
  std::optional<sym::Expr> leftover_axis_ = {};  // what is left of a task's number: the kernel does not ask how long it is
  size_t first_buffer_ = 0;                      // of the parameters, in AccessNames::buffers
};

}  // namespace toroid::codegen
