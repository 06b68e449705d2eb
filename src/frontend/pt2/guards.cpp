#include "frontend/pt2/guards.h"

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

}  // namespace

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
