// Loop nests as CUDA: maps, and reductions of rows by some threads each (schedule::Kernel, of which GpuLoops says how threads share it).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/cuda/thread_printer.h"
#include "schedule/cuda/sliding_window.h"

namespace toroid::codegen::cuda {

inline bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }

class NestPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::Kernel& kernel);
  ThreadText run_thread(const schedule::Kernel& kernel);

 private:
  using BufferId = loop::BufferId;
  using ExprId = loop::ExprId;
  using Accumulate = schedule::Accumulate;
  using Keep = schedule::Keep;
  using Stage = schedule::Stage;
  using Statement = schedule::Statement;
  using Store = schedule::Store;

  void nest(const schedule::Kernel& kernel);

  // Of elements without rows (nest_maps.cpp).
  void map(const schedule::Kernel& kernel, sym::Expr elements);
  void map_by_tiles(const schedule::Kernel& kernel);
  void define_tiled(std::string_view column);
  void repeated_map(const schedule::Kernel& kernel, sym::Expr elements);
  void slide(const schedule::Kernel& kernel, const schedule::SlidingWindow& window);
  std::string decode_window(const schedule::Kernel& kernel, const schedule::SlidingWindow& window);
  void load_vector(ExprId id, const std::string& to);

  // Of rows, each with some threads.
  void once_stage(const Stage& stage);
  void row_of_thread(const Stage& stage);
  void open_stage(const Stage& stage);
  void row_stage(const Stage& stage, sym::Expr row);
  static std::vector<ExprId> values_of(const Stage& stage);
  // Rows beside each other that a thread has.
  int of_thread() const { return gpu_.columns ? gpu_.vector : 1; }
  bool changes(ExprId id, const std::vector<sym::Expr>& axes) const;

  // The elements of a thread.
  struct Packs {
    std::vector<std::pair<const Store*, std::string>> stores;
  };
  void elements_of(const Stage& stage, const std::vector<sym::Expr>& axes, const std::string& stash_place);
  bool fills_packs(BufferId buffer, sym::Expr position, sym::Expr axis) const;
  void print(const Statement& statement, const Packs& packs);
  std::string_view guard() const { return kernel_->inner.empty() ? "" : "if (is_row) "; }

  // Accumulators (nest_accumulators.cpp).
  DType own_dtype(const schedule::Accumulator& acc) const;
  static std::string combine_text(ReduceOp op, DType dtype, const OperandText& a, const OperandText& b);
  template <class F>
  void each_accumulator(const Stage& stage, F f) const;
  const schedule::Accumulator& accumulator_of(const Accumulate& s) const;
  void declare_accumulators(const Stage& stage);
  void combine_accumulators(const Stage& stage, bool is_inside = false);
  bool combines_inside_of(const Stage& stage) const;
  void declare_results(const Stage& stage);
  static DType combined_dtype(const schedule::Accumulator& acc);
  std::string place_of_next();
  void declare_accumulator(size_t i);
  void accumulate(const Accumulate& s);
  void combine_several(size_t i, const std::string& type, const std::string& total);
  void combine(size_t i, bool is_inside = false);

  schedule::GpuLoops gpu_;
  const schedule::Kernel* kernel_ = nullptr;  // of a nest
  std::string pack_element_, stash_type_;
  std::vector<std::pair<ExprId, std::string>> tiles_;  // of loads, in shared memory
  size_t combined_ = 0;                                // reductions of rows through shared memory, so far
  bool waits_ = false;
};

}  // namespace toroid::codegen::cuda
