// Turns scheduled graphs into a module: what the builders of its parts share.
#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "program/module.h"

namespace toroid::program {

// The program's size symbols, in their order.
std::vector<sym::Expr> sizes_of(const toroid::Program& program);

struct ModuleBuilder {
  const std::vector<schedule::ScheduledGraph>& graphs;
  const toroid::Program& program;
  const ModuleOptions& options;
  Module module = {};
  std::unordered_map<uint32_t, size_t> constant_slots = {};  // by ConstantId
  std::map<uint32_t, std::vector<sym::Expr>> called = {};    // subgraphs, with the symbols known where they are called

  size_t constant_slot(uint32_t id);
  size_t add_kernel(const KernelDefinition& kernel);
};

class FunctionBuilder {
 public:
  FunctionBuilder(ModuleBuilder& shared, size_t graph, std::vector<sym::Expr> known);

  // The main graph. Temporaries whose size its arguments tell live in the call's arena, others are asked for when they are needed.
  Function main();
  // What runs once over the constants; after main.
  std::optional<Function> prepare(const Function& main);
  Function subgraph();

 private:
  using Steps = std::vector<schedule::Step>;

  const loop::Buffer& buffer(BufferId id) const { return loops_.buffer(id); }
  const Graph& source() const { return graph_ == 0 ? shared_.program.graph : shared_.program.subgraphs[graph_ - 1]; }
  bool is_known(std::span<const sym::Expr> sizes) const;
  bool is_late(const schedule::Lifetime& lifetime) const;
  bool is_late_output(size_t position) const;

  void place_parameters();
  void place_prepared();
  Device device_of(BufferId id) const { return buffer(id).on_host ? Device::Cpu : shared_.options.device; }
  void place(BufferId id, Place where) { function_.buffers.push_back({id, where, device_of(id)}); }
  void check_symbols() const;
  void add_steps();
  Step& begin_step(const schedule::Step& step, bool runs_once, size_t position);
  template <class T>
  void add(T instruction) {
    target_->push_back(std::move(instruction));
  }
  void add_allocation(BufferId id);
  void add_output(BufferId id, std::unordered_set<BufferId>& made);
  void add_instructions(const schedule::Step& step);
  void add_kernel(const schedule::Step& kernel);
  Launch launch(size_t part);
  bool copies_no_base(const schedule::ScatterKernel& scatter) const;
  LibraryCall call(const schedule::CallStep& step, size_t part);
  void add_bind(const schedule::BindStep& step);
  void add_control_flow(const schedule::CallStep& step);

  ModuleBuilder& shared_;
  const size_t graph_;
  const schedule::ScheduledGraph& scheduled_;
  const loop::LoopProgram& loops_;
  Function function_;
  std::unordered_set<sym::Expr> known_;         // symbols with a value at the step at hand
  bool on_host_ = false;                        // is the step at hand the host's?
  std::vector<Instruction>* target_ = nullptr;  // of the step at hand
  KernelDefinition place_{};                    // of the step at hand
};

}  // namespace toroid::program
