// Dtypes, devices, symbolic sizes and tensor metadata of the `.pt2` schema.
//
// Symbols called zf3 and zuf0 are floats: as integers they hold the bits of a double.
//
// Size expressions repeat thousands of times in a model, so each distinct text is parsed once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontend/json_reader.h"
#include "frontend/pt2/sympy.h"
#include "graph/graph.h"

namespace toroid::pt2 {

DType read_dtype(const JsonValue& number);  // of the schema's ScalarType; unknown numbers throw
Device read_device(const JsonValue& device);
Layout read_layout(const JsonValue& number);
MemoryFormat read_memory_format(const JsonValue& number);
double read_float(const JsonValue& number);  // a number, or "Infinity", "-Infinity", "NaN"

// Whether each place from the first element to the last one holds exactly one element, for all sizes.
bool is_dense(const TensorType& type);

// The alternative that a union holds: the only key of {"as_int": 3}.
const JsonMember& read_union(const JsonValue& value);

// By the symbol's name.
using SymbolRanges = std::map<std::string, sym::Range, std::less<>>;

class SizeReader {
 public:
  // `range_constraints` is the program's object of {"s0": {"min_val": 2, "max_val": null}}; null for none. `further`: ranges of symbols
  // that hold besides.
  SizeReader(sym::Context& symbols, const JsonValue* range_constraints, SymbolRanges further = {});

  // {"as_int": 3} or {"as_expr": {"expr_str": "2*s0", "hint": {"as_int": 8}}}
  sym::Expr read_int(const JsonValue& value);
  // {"as_bool": true} or {"as_expr": …}: 0 or 1
  sym::Expr read_bool(const JsonValue& value);
  // {"as_float": 0.5} or {"as_expr": …}: a Real expression (symbolic/real.h), or the bits of a constant
  sym::Expr read_real(const JsonValue& value);
  // A TensorMeta. Strides of contiguous tensors are left out.
  TensorType read_type(const JsonValue& meta);

  sym::Expr parse(const JsonValue& text, const JsonValue* hint = nullptr);

 private:
  sym::Expr symbol(const SymbolText& text, std::optional<int64_t> hint);

  sym::Context& symbols_;
  std::unordered_map<std::string_view, sym::Range> ranges_;
  SymbolRanges further_;
  std::unordered_map<std::string_view, sym::Expr> parsed_;
  std::unordered_map<std::string_view, sym::Expr> parsed_reals_;
};

}  // namespace toroid::pt2
