// One call of one operator as a program of its own, for the call's sizes alone or for others as well.
//
// The numbers of a call that often change are its *slots*: the sizes of all tensors in order, then the integers that may stand for sizes
// or positions (SymInt in the schema; of operators that take no tensor all integers but dims). A *form* says of each slot whether it is a
// number or a symbol; equal symbols are equal sizes:
//
//   aten::add.Tensor(f32[8, 20], f32[20])    slots 8 20 20    form s0 20 20: any first size from 2 on
//   aten::full([8], 0.5)                     slots 8          form s0
//
// Symbols that no tensor has in its sizes come to the program as further inputs, from which it reads them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/eager/arguments.h"
#include "graph/graph.h"

namespace toroid {

struct Slot {
  int64_t value = 0;    // without a symbol
  int32_t symbol = -1;  // the number of a symbol, whose values are 2 and more
  bool operator==(const Slot&) const = default;
};
using OperatorForm = std::vector<Slot>;

std::vector<int64_t> slots_of(const OperatorCall& call);
// Numbers alone.
OperatorForm exact_form(std::span<const int64_t> slots);
// What serves `now` and is like `before` where it can be: slots that differ in some of them become symbols, the same one for those that
// are equal in each. Slots that are 0, 1 or negative now stay numbers.
OperatorForm general_form(const std::vector<std::vector<int64_t>>& before, std::span<const int64_t> now);
bool fits(const OperatorForm& form, std::span<const int64_t> slots);

// "s0 20 20", and back. Nothing for any other text.
std::string to_string(const OperatorForm& form);
std::optional<OperatorForm> parse_form(std::string_view text);

// All that two calls must share to be served by the same forms: the operator, dtypes, ranks, the order of the dims in memory, and the
// arguments that are no slots: "aten::add.Tensor | f32 rank 2 | f32 rank 1 | 1".
std::string family_of(const OperatorCall& call);

// Which strides inputs have in the program: those of the call, or, where these are not those of some order of the dims without gaps,
// contiguous ones.
enum class InputStrides { AsGiven, WithoutGaps };

struct OperatorProgram {
  Program program;
  // For each result, lists flattened, that is not an argument itself: its number among the program's outputs, or -1 when the operator
  // leaves it undefined.
  std::vector<int> results;
  // Of the further inputs, each I64 of rank 0: the slot that is its value, and the symbol that it defines.
  struct Number {
    size_t slot;
    std::string symbol;
  };
  std::vector<Number> numbers;
};

// At import level, with one input a tensor of the call, in order, and further ones for numbers. Throws as infer_result_types does.
OperatorProgram operator_program(const OperatorCall& call, const OperatorForm& form, InputStrides strides);

}  // namespace toroid
