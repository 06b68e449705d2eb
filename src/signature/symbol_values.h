// The values of a program's size symbols while it is evaluated.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "runtime/contract/contract.h"
#include "signature/binding_plan.h"

namespace toroid {

// The value of every symbol bound so far; grows when nodes define data-dependent sizes.
class SymbolValues {
 public:
  void set(sym::Expr symbol, int64_t value) { values_[symbol] = value; }
  void forget(sym::Expr symbol) { values_.erase(symbol); }
  std::optional<int64_t> find(sym::Expr symbol) const;
  int64_t evaluate(sym::Expr expr) const;  // throws Error{InvalidInput} naming a symbol without a value
  std::vector<int64_t> evaluate(std::span<const sym::Expr> exprs) const;

 private:
  std::unordered_map<sym::Expr, int64_t> values_;
};

// Runs the plan. Throws Error{InvalidInput} that names the violated fact: count, rank, dtype, size, range or guard.
SymbolValues bind_symbols(const Program& program, const BindingPlan& plan, std::span<const InputShape> inputs);

// A number that was read out of a tensor is what `expr` stands for from now on: gives the one symbol in it that has no value yet
// its value, or checks the number. Then checks the guards that were waiting for it. Throws Error{InvalidInput} when a fact that
// the program relies on does not hold.
void bind_number(SymbolValues& symbols, std::span<const sym::Expr> later_guards, sym::Expr expr, int64_t value);

}  // namespace toroid
