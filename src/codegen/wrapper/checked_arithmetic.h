// Arithmetic on sizes in generated code that notices when a number does not fit 64 bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "symbolic/expr.h"

namespace toroid::codegen {

// A constant in C++; the smallest one has no literal.
std::string number_text(int64_t value);

// A function of that name as ToroidContract::evaluate is: the value of each of the expressions, by its position. Intermediate sums and
// products of two have 128 bits, so that no result that fits is lost to the order of terms.
std::string checked_evaluation(const std::string& name, std::span<const sym::Expr> expressions, std::span<const sym::Expr> symbols);

// What such functions need in front of them.
extern const std::string_view kCheckedArithmetic;

}  // namespace toroid::codegen
