// Integer expressions in C++, and what they call their symbols.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "loop/loop.h"

namespace toroid::codegen {

// What a kernel calls its symbols. Sizes keep the program's names. Axes and indices read from tensors are numbered in the order in which
// they are first asked for, "i0", "r0", "v0", so that a kernel reads the same whatever else the program has.
class SymbolNames {
 public:
  // No symbol is called so from now on.
  void reserve(std::string name) { taken_.insert(std::move(name)); }
  const std::string& of(sym::Expr symbol);

 private:
  std::unordered_map<sym::Expr, std::string> names_;
  std::set<std::string> taken_;
  std::map<std::string, int> counts_;  // by prefix
};

// An integer expression in C++ ("128 * i0 + i1").
std::string print_index(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr);
// … of sizes alone, outside of kernels.
std::string print_index(const loop::ExprTable& exprs, sym::Expr expr);
// … for one lane of a vector along `vector_axis`: `lane` is added to the axis and indexes the value symbols that vary.
std::string print_lane_index(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr, sym::Expr vector_axis, std::string_view lane,
                             const std::function<bool(loop::ExprId)>& varies);
// … to stand behind '*', '/' or '%': in parentheses unless it is a number or a name.
std::string print_factor(const loop::ExprTable& exprs, SymbolNames& names, sym::Expr expr);
// Does every step of computing it fit 32 bits?
bool fits_32_bits(sym::Expr e);

}  // namespace toroid::codegen
