// A program's contract with its callers, as its tables have it (program_abi.h): finds the sizes of a call from the shapes of its inputs,
// and refuses a call that violates what the program relies on.
//
//   inputs       x: f32[s0, 128]   y: f32[2*s1 + 1]
//   definitions  s0 = size 0 of x      s1 = (size 0 of y - 1) / 2, exactly      checks: size 1 of x = 128      guards …
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

// A table of the program as a span: rows(contract.checks, contract.num_checks).
template <class Row>
Span<const Row> rows(const Row* table, int32_t count) {
  return {table, static_cast<size_t>(count)};
}

// The values of a contract's symbols in a call; some become known only while it runs. The contract outlives it.
class CallSizes {
 public:
  explicit CallSizes(const ToroidContract& contract);  // none has a value

  const ToroidContract& contract() const { return *contract_; }
  // As ToroidCall::symbols: 0 where there is no value.
  const std::vector<int64_t>& numbers() const { return numbers_; }
  bool knows(int32_t symbol) const { return is_known_[static_cast<size_t>(symbol)] != 0; }
  std::optional<int64_t> find(int32_t symbol) const { return knows(symbol) ? std::optional(number(symbol)) : std::nullopt; }
  void set(int32_t symbol, int64_t value);
  void forget(int32_t symbol);

  bool knows_all_of(const ToroidExpression& expression) const;
  // Throws Error{InvalidInput} for a symbol without a value, a value beyond 64 bits, and a division by zero.
  int64_t evaluate(int32_t expression) const;

 private:
  int64_t number(int32_t symbol) const { return numbers_[static_cast<size_t>(symbol)]; }

  const ToroidContract* contract_;
  std::vector<int64_t> numbers_;
  std::vector<char> is_known_;
};

struct InputShape {
  DType dtype;
  Span<const int64_t> sizes;
};
// Throws Error{InvalidInput} that names the violated fact: count, rank, dtype, size, range or guard.
CallSizes bind_sizes(const ToroidContract& contract, Span<const InputShape> inputs);

// Those in which the program reads an input of these sizes.
std::vector<int64_t> strides_wanted(const CallSizes& call, size_t input, Span<const int64_t> sizes);

// The position in ToroidContract::symbols.
std::optional<int32_t> find_symbol(const ToroidContract& contract, std::string_view name);

// A number that was read out of a tensor: gives the symbol that it defines its value, or checks the number; then checks the guards that
// were waiting for it. Throws Error{InvalidInput} that names the fact that does not hold.
void bind_number(CallSizes& values, const ToroidBinding& binding, int64_t value);
// The same of a symbol itself.
void bind_symbol(CallSizes& values, int32_t symbol, int64_t value);

// Throws Error{InvalidInput} when a tensor of the program would have more bytes than 63 bits count. Those with a symbol that has no value
// yet are left for later.
void check_bytes(const CallSizes& values);

}  // namespace toroid
