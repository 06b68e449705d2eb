#include "frontend/pt2/guards.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::pt2 {
namespace {

constexpr std::string_view kLocals = "L[";

bool accept(std::string_view& text, std::string_view token) {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

// ['x'] or ["x"] or [0], without the opening bracket; its text without quotes.
std::optional<std::string_view> subscript(std::string_view& text) {
  const size_t close = text.find(']');
  if (close == text.npos) return std::nullopt;
  std::string_view key = text.substr(0, close);
  text.remove_prefix(close + 1);
  if (key.size() >= 2 && (key.front() == '\'' || key.front() == '"') && key.back() == key.front()) {
    key = key.substr(1, key.size() - 2);
  }
  return key;
}

// The symbol of an input that is a number.
std::optional<sym::Expr> input_number(std::string_view name, const Program& program) {
  for (const SymbolBinding& binding : program.graph.bindings) {
    const Value& value = program.graph.value(binding.value);
    if (value.name == name && std::holds_alternative<Input>(program.graph.producer(binding.value).op)) return binding.expr;
  }
  return std::nullopt;
}

// L['a'][0].size()[1]: the input is called a_0 in the program. Consumes it from `text`.
std::optional<sym::Expr> input_size(std::string_view& text, const Program& program,
                                    const std::function<const TensorType*(const std::string& input)>& input_type) {
  if (!accept(text, kLocals)) return std::nullopt;
  std::optional<std::string_view> key = subscript(text);
  if (!key) return std::nullopt;
  std::string name(*key);
  while (accept(text, "[")) {
    key = subscript(text);
    if (!key) return std::nullopt;
    name += fmt::format("_{}", *key);
  }
  if (!accept(text, ".size()[") && !accept(text, ".shape[")) return input_number(name, program);
  key = subscript(text);
  const TensorType* type = input_type(name);
  if (!key || !type) return std::nullopt;
  size_t dim = 0;
  const auto [end, error] = std::from_chars(key->data(), key->data() + key->size(), dim);
  if (error != std::errc() || end != key->data() + key->size() || dim >= type->sizes.size()) return std::nullopt;
  return type->sizes[dim];
}

// Does the value never fall while the sizes in it grow? False: it may.
bool grows(sym::Expr e) {
  const std::span<const sym::Expr> operands = e.operands();
  const auto all_grow = [&] { return std::all_of(operands.begin(), operands.end(), grows); };
  switch (e.kind()) {
    case sym::Kind::Const:
    case sym::Kind::Symbol: return true;
    case sym::Kind::Add:
    case sym::Kind::Min:
    case sym::Kind::Max: return all_grow();
    case sym::Kind::Mul: return operands.size() == 2 && operands[0].is_const() && operands[0].value() >= 0 && grows(operands[1]);
    case sym::Kind::FloorDiv: return operands[1].is_const() && operands[1].value() > 0 && grows(operands[0]);
    default: return false;
  }
}

// The values of the symbol, the only one in `e`, for which `e`, which grows, is `value`; nullopt if there is none.
std::optional<sym::Range> where_equal(sym::Expr e, sym::Expr symbol, int64_t value) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const auto at = [&](int64_t number) -> int64_t {
    try {
      return sym::evaluate(e, [&](sym::Expr) { return std::optional(number); });
    } catch (const Error&) {
      return sym::kPosInf;  // more than 64 bits
    }
  };
  // The first number of the range from which on `e` is `least` or more.
  const sym::Range range = symbol.range();
  const int64_t begin = std::max<int64_t>(range.min, 0), end = std::min(range.max, kMost);
  const auto first = [&](int64_t least) {
    int64_t low = begin, high = end + 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (at(middle) >= least) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  if (value == sym::kPosInf || begin > end) return std::nullopt;
  const sym::Range found = {first(value), first(value + 1) - 1};
  if (found.min > found.max) return std::nullopt;
  return sym::Range{found.min, found.max == kMost ? range.max : found.max};
}

}  // namespace

SymbolRanges ranges_of_guards(const Program& program) {
  SymbolRanges ranges;
  for (sym::Expr guard : program.guards) {
    if (guard.kind() != sym::Kind::Eq) continue;
    const std::vector<sym::Expr> symbols = sym::free_symbols(guard);
    if (symbols.size() != 1 || symbols[0].node()->symbol_kind != sym::SymbolKind::Size) continue;
    const sym::Expr symbol = symbols[0], left = guard.operands()[0], right = guard.operands()[1];
    const sym::Expr e = left.is_const() ? right : left, value = left.is_const() ? left : right;
    if (!value.is_const() || !grows(e)) continue;
    const std::optional<sym::Range> found = where_equal(e, symbol, value.value());
    if (!found || *found == symbol.range()) continue;
    sym::Range& range = ranges.try_emplace(symbol.node()->name, symbol.range()).first->second;
    range = {std::max(range.min, found->min), std::min(range.max, found->max)};
  }
  return ranges;
}

void read_guard(std::string_view code, Program& program, const std::function<const TensorType*(const std::string& input)>& input_type) {
  const auto refuse = [&]() {
    throw Error(ErrorKind::Unsupported, fmt::format("the model's guard \"{}\" is not understood", code.substr(0, 300)))
        .help("export with fewer dynamic sizes, or state the relation between them with torch.export.Dim");
  };
  // Each input size becomes a name for the expression parser.
  std::string text;
  std::vector<sym::Expr> sizes;
  std::string_view rest = code;
  while (!rest.empty()) {
    if (!rest.starts_with(kLocals)) {
      text += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::optional<sym::Expr> size = input_size(rest, program, input_type);
    if (!size) refuse();
    text += fmt::format("size{}", sizes.size());
    sizes.push_back(*size);
  }
  sym::Expr guard;
  try {
    guard = sym::parse(text, *program.symbols, [&](std::string_view name) {
      size_t index = sizes.size();
      if (accept(name, "size")) std::from_chars(name.data(), name.data() + name.size(), index);
      if (index >= sizes.size()) refuse();
      return sizes[index];
    });
  } catch (const Error&) {
    refuse();
  }
  if (guard.is_const(0)) {
    throw Error(ErrorKind::InvalidModel, fmt::format("the model's guard \"{}\" never holds", code.substr(0, 300)));
  }
  if (!guard.is_const()) program.guards.push_back(guard);
}

}  // namespace toroid::pt2
