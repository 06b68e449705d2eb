// The values of a program's size symbols while it is evaluated.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/contract/contract.h"
#include "signature/binding_plan.h"
#include "signature/contract_tables.h"

namespace toroid {

// The value of every symbol that is known so far; grows when nodes define data-dependent sizes. Copies do not see each other's.
class SymbolValues {
 public:
  SymbolValues() = default;  // of a program without symbols
  // The sizes are of a call of this contract.
  SymbolValues(std::shared_ptr<const HeldContract> contract, CallSizes sizes) : contract_(std::move(contract)), sizes_(std::move(sizes)) {}

  void set(sym::Expr symbol, int64_t value) { sizes_->set(contract_->tables().position_of_symbol(symbol), value); }
  std::optional<int64_t> find(sym::Expr symbol) const;
  int64_t evaluate(sym::Expr expr) const;  // throws Error{InvalidInput} naming a symbol without a value
  std::vector<int64_t> evaluate(std::span<const sym::Expr> exprs) const;

  // A number that was read out of a tensor is what `expr`, that of a binding of the program, stands for from now on: gives the one symbol
  // in it that has no value yet its value, or checks the number. Then checks the guards that were waiting for it. Throws
  // Error{InvalidInput} when a fact that the program relies on does not hold.
  void bind(sym::Expr expr, int64_t value);

 private:
  std::shared_ptr<const HeldContract> contract_;
  std::optional<CallSizes> sizes_;
};

// Runs the plan. Throws Error{InvalidInput} that names the violated fact: count, rank, dtype, size, range or guard.
SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs);

}  // namespace toroid
