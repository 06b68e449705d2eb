// A program's contract as tables (program_abi.h), from its plan: the evaluator asks them as they are, and a compiled program has them in
// its library, printed.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "signature/binding_plan.h"
#include "toroid/program_abi.h"

namespace toroid {

// Rows refer to symbols and expressions by their positions.
struct ContractTables {
  // Without `bytes`.
  ContractTables(const Program& program, const BindingPlan& plan);

  // The position of an expression over the program's sizes, added if need be.
  int32_t position(sym::Expr expression);
  int32_t position_of(sym::Expr expression) const { return positions_.at(expression); }  // of one that was added
  int32_t position_of_symbol(sym::Expr symbol) const { return symbol_positions_.at(symbol); }
  std::optional<int32_t> find_symbol(sym::Expr symbol) const;
  // The number of a binding, and what is left of it beside any symbol that it may define.
  void add(const SymbolBinding& binding);
  // The positions of the symbols in an expression.
  std::vector<int32_t> symbols_of(sym::Expr expression) const;

  struct Input {
    std::string name, type;
    DType dtype;
    std::vector<int32_t> strides;  // none: contiguous
    int32_t rank;
  };
  struct Definition {
    ToroidDefinition row;  // but for its form
    std::string form;
  };
  std::vector<Input> inputs;
  std::vector<sym::Expr> symbols;  // the program's sizes and data-dependent numbers, in the order of their making
  std::vector<sym::Expr> expressions;
  std::vector<Definition> definitions;
  std::vector<ToroidSizeCheck> checks;
  std::vector<int32_t> guards, later_guards, bytes;

 private:
  std::unordered_map<sym::Expr, int32_t> symbol_positions_, positions_;
};

// The tables in memory, evaluated by the compiler's own arithmetic.
class HeldContract : public ToroidContract {
 public:
  explicit HeldContract(ContractTables tables);
  HeldContract(const HeldContract&) = delete;
  HeldContract& operator=(const HeldContract&) = delete;

  const ContractTables& tables() const { return tables_; }

 private:
  ContractTables tables_;
  std::vector<ToroidInputInfo> inputs_;
  std::vector<ToroidSymbol> symbols_;
  std::vector<ToroidExpression> expressions_;
  std::vector<std::string> texts_;
  std::vector<std::vector<int32_t>> symbols_of_expressions_;
  std::vector<ToroidDefinition> definitions_;
};

// "f32[s0, 128]", strides left out.
std::string shape_text(const TensorType& type);

}  // namespace toroid
