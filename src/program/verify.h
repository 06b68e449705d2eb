// What printers take for granted of modules: for those that did not come from make_module, but from a text.
//
//   kernels      each is launched once, or is the epilogue of its call, and has the tasks of its grid; other epilogues are post-operations
//   calls        compute what the schedule's call does, with the same operands
//   steps        all that the schedule does is done, in an order in which each buffer is written once, and before it is read
//   memory       a buffer is where its kind says: within the arena while it lives there, within what is prepared, or between its allocation
//                and its release; an output is in the place of a constant only where nobody reads the old value too late
//   overlaps     a launch that starts early follows one that lets it, right behind it, and the other way round (overlaps.h)
//   sizes        have values when they are needed, in subgraphs wherever they are called
//
// Every failure is an Error{InvalidModel} that says which rule is broken. The module is checked while it grows, part by part, so that
// whoever reads it knows the place.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "program/module.h"

namespace toroid::program {

class ModuleRules {
 public:
  // All three outlive it.
  ModuleRules(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

  // The last constant, temporary, output or kernel of the module.
  void check_constant() const;
  void check_temporary() const;
  void check_output() const;
  void check_kernel() const;
  // What stands before the functions is complete.
  void check_head();

  // A function begins: the main one, the one that runs once, or a subgraph's. Then its parts in order.
  enum class Role { Main, Prepare, Subgraph };
  void begin(const Function& function, Role role);
  void check(const PlacedBuffer& placed);
  void begin_step(size_t number) { step_ = number; }
  void check(const Instruction& instruction);
  void check_at_end(const Instruction& instruction);
  void end();

  // The module is complete: of a subgraph that has a function, then of all.
  void check_known(uint32_t subgraph, const Function& function) const;
  void check_all() const;

  // The schedule's call that a call of this function is for, by its results.
  const schedule::CallStep& source_of(const LibraryCall& call) const;

 private:
  struct CallPlace {
    size_t step, part;
  };
  struct State {  // of a buffer of the function
    std::optional<Place> place = {};
    bool is_allocated = false, is_released = false, is_written = false;
  };

  const schedule::Schedule& schedule() const { return graphs_[graph_].schedule; }
  const loop::LoopProgram& loops() const { return *schedule().loops; }
  const std::vector<schedule::Step>& steps() const { return role_ == Role::Prepare ? schedule().prepare : schedule().steps; }
  const loop::Buffer& buffer(BufferId id) const { return loops().buffer(id); }
  State& state(BufferId id) { return states_[static_cast<size_t>(id)]; }

  void check_sizes(std::span<const sym::Expr> sizes) const;
  void check_size(sym::Expr size) const { check_sizes({&size, 1}); }
  bool is_known(std::span<const sym::Expr> sizes) const;
  const CallPlace& call_place(const LibraryCall& call) const;
  void check_prepared(BufferId id, InPrepared place) const;

  void use(BufferId id);
  void read(BufferId id, const std::vector<BufferId>& own);
  void write(BufferId id);
  void flow(const schedule::Step& step);
  void use_kernel(size_t kernel);
  const KernelDefinition& launched(const Launch& launch);
  void check_overlap(const Instruction& instruction);

  void check(const TimeStep& time);
  void check(const Allocate& each);
  void check(const Release& each);
  void check(const AllocateOutput& each);
  void check(const Launch& each);
  void check(const LaunchTogether& each);
  void check(const LaunchQuickest& each);
  void check(const LibraryCall& each);
  void check(const ChainCall& each);
  void check(const ReadNumber& each);
  void check(const ControlFlow& each);
  void check_call(const LibraryCall& call, const schedule::CallStep& step, const CallPlace& place);
  void check_epilogue(const Epilogue& epilogue, const schedule::CallStep& step, const CallPlace& place);

  const toroid::Program& program_;
  const std::vector<schedule::ScheduledGraph>& graphs_;
  const Module& module_;
  std::vector<bool> is_used_;                                              // of kernels
  std::vector<bool> is_placed_;                                            // of constants
  std::map<uint32_t, std::unordered_set<sym::Expr>> called_;               // subgraphs, with what all who call them know
  std::unordered_set<uint32_t> made_;                                      // subgraphs that have a function
  std::unordered_map<BufferId, std::pair<InPrepared, int64_t>> prepared_;  // of the main function, with their bytes

  // Of the function at hand.
  Role role_ = Role::Main;
  Device device_ = Device::Cpu;  // where its buffers are, but for those of the host
  size_t graph_ = 0;
  size_t step_ = 0;
  std::vector<State> states_;
  std::unordered_set<sym::Expr> known_;
  std::unordered_map<BufferId, CallPlace> calls_;  // the schedule's, by their first results
  std::vector<bool> is_bound_;                     // of the schedule's steps
  bool next_starts_early_ = false;
};

}  // namespace toroid::program
