// The small parts of the text form: numbers, integer expressions, types.
#pragma once

#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text_cursor.h"
#include "graph/builder.h"
#include "symbolic/real.h"

namespace toroid {

class TextReader {
 protected:
  explicit TextReader(std::string_view text) : cursor_(text) {}

  // ---- numbers and expressions

  int64_t integer(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      cursor_.fail(fmt::format("expected an integer, not '{}'", text));
    }
    return value;
  }

  static std::optional<double> floating(std::string_view text) {
    if (text.find_first_of(".en") == std::string_view::npos) return std::nullopt;  // the n of inf and nan
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  sym::Expr parse_expr(size_t place, std::string_view text) {
    try {
      return sym::parse(text, symbols(), [&](std::string_view name) -> sym::Expr {
        for (const auto& [axis_name, axis] : axes_) {
          if (axis_name == name) return axis;
        }
        if (const std::optional<sym::Expr> symbol = symbols().find_symbol(name); symbol && declared_.count(std::string(name))) {
          return *symbol;
        }
        if (const Argument* given = argument_called(name)) {
          if (const auto* number = std::get_if<sym::Expr>(given)) return *number;
          if (const auto* flag = std::get_if<bool>(given)) return *flag ? 1 : 0;
          throw Error(ErrorKind::InvalidModel, fmt::format("'{}' is no integer", name));
        }
        throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' is not declared", name));
      });
    } catch (const Error& error) {
      cursor_.fail_at(place, error.message());
    }
  }
  sym::Expr expr(std::string_view stops) {
    const size_t place = cursor_.place();
    return parse_expr(place, cursor_.raw(stops));
  }
  std::vector<sym::Expr> expr_list() {
    std::vector<sym::Expr> list;
    cursor_.expect("[");
    if (cursor_.accept("]")) return list;
    do list.push_back(expr(",]"));
    while (cursor_.accept(","));
    cursor_.expect("]");
    return list;
  }
  std::vector<int> int_list() {
    std::vector<int> list;
    const size_t place = cursor_.place();
    for (sym::Expr element : expr_list()) {
      if (!element.is_const()) cursor_.fail_at(place, "expected a list of integers");
      list.push_back(small(place, element.value()));
    }
    return list;
  }
  int small(size_t place, int64_t value) {
    if (value != static_cast<int>(value)) cursor_.fail_at(place, fmt::format("{} is too large", value));
    return static_cast<int>(value);
  }
  bool boolean() {
    if (cursor_.accept_word("true")) return true;
    cursor_.expect_word("false");
    return false;
  }
  Scalar scalar(std::string_view stops = ",)]") {
    const size_t place = cursor_.place();
    const std::string_view text = cursor_.raw(stops);
    if (text == "true" || text == "false") return text == "true";
    if (const Argument* given = argument_called(text)) {
      if (const auto* real = std::get_if<double>(given)) return *real;
      if (const auto* flag = std::get_if<bool>(given)) return *flag;
    }
    if (const std::optional<double> number = floating(text)) return *number;
    const sym::Expr expr = parse_expr(place, text);
    return expr.is_const() && is_double(text) ? Scalar(sym::real_value(expr)) : Scalar(expr);
  }

  // Real(div, 1, 3) is a number too, though its expression is the bits of one.
  static bool is_double(std::string_view text) {
    constexpr std::string_view kReal = "Real(";
    if (!text.starts_with(kReal)) return false;
    text.remove_prefix(kReal.size());
    const sym::RealRow* row = sym::find_real_function(text.substr(0, text.find(',')));
    return row != nullptr && row->gives_real;
  }

  // ---- types

  DType dtype() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("a dtype");
    if (const Argument* given = argument_called(name); given != nullptr && std::holds_alternative<DType>(*given))
      return std::get<DType>(*given);
    const std::optional<DType> dtype = parse_dtype(name);
    if (!dtype) cursor_.fail_at(place, fmt::format("'{}' is not a dtype", name));
    return *dtype;
  }

  Device device() {
    if (cursor_.accept_word("cpu")) return {};
    cursor_.expect("cuda:");
    return {Device::Type::Cuda, small(cursor_.place(), integer(cursor_.word("the device's number")))};
  }

  TensorType type() {
    TensorType type;
    type.dtype = dtype();
    const size_t place = cursor_.place();
    type.sizes = expr_list();
    for (sym::Expr size : type.sizes) {
      if (sym::known_lt(size, 0)) cursor_.fail_at(place, fmt::format("size {} is negative", sym::to_string(size)));
    }
    if (cursor_.accept_word("strides")) {
      const size_t strides_place = cursor_.place();
      type.strides = expr_list();
      if (type.strides.size() != type.sizes.size()) cursor_.fail_at(strides_place, "expected a stride for each dim");
    }
    if (cursor_.accept_word("offset")) {
      cursor_.expect("(");
      type.storage_offset = expr(")");
      cursor_.expect(")");
    }
    if (cursor_.accept_word("on")) type.device = device();
    return type;
  }

  // What a name stands for where the text is the body of an operator (graph/custom/formula.h); null elsewhere.
  const Argument* argument_called(std::string_view name) const {
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? nullptr : &found->second;
  }

  sym::Context& symbols() { return symbols_around_ != nullptr ? *symbols_around_ : *program_.symbols; }

  Cursor cursor_;
  Program program_;
  sym::Context* symbols_around_ = nullptr;  // of the program that an operator's body becomes a part of
  std::map<std::string, Argument, std::less<>> arguments_;
  std::set<std::string> declared_;                       // symbols
  std::vector<std::pair<std::string, sym::Expr>> axes_;  // that the node being read binds
};

}  // namespace toroid
