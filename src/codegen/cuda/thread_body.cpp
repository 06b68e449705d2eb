#include "codegen/cuda/thread_body.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/divisions.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "schedule/cpu/form_estimate.h"
#include "support/match.h"

namespace toroid::codegen::cuda {

using loop::ExprId;

namespace {

// Of library/special/, whose names are the operators' but for these.
std::string_view special_function(ScalarOp op) {
  switch (op) {
    case ScalarOp::ModifiedBesselI0: return "i0";
    case ScalarOp::ModifiedBesselI1: return "i1";
    case ScalarOp::ModifiedBesselK0: return "k0";
    case ScalarOp::ModifiedBesselK1: return "k1";
    case ScalarOp::ScaledModifiedBesselK0: return "k0e";
    case ScalarOp::ScaledModifiedBesselK1: return "k1e";
    default: return to_string(op);
  }
}

}  // namespace

ThreadBody::ThreadBody(const loop::LoopProgram& program, SymbolNames& names) : program_(program), exprs_(program.exprs), names_(names) {}

void ThreadBody::open(std::string_view head) {
  line(head);
  ++depth_;
  scopes_.emplace_back();
}

void ThreadBody::lines(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines_ += std::string(2 * depth_, ' ') + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
}

void ThreadBody::close(std::string_view tail) {
  scopes_.pop_back();
  --depth_;
  line(tail);
}

std::string ThreadBody::fresh(std::string_view base) {
  // No name of a buffer, an axis or a symbol ends so.
  return fmt::format("{}_v{}", base, ++counts_[std::string(base)]);
}

std::string ThreadBody::memory(loop::BufferId buffer) const { return identifier(program_.buffer(buffer).name); }

std::string ThreadBody::index(sym::Expr e) {
  if (!e.is_const()) {
    for (sym::Expr symbol : sym::free_symbols(e)) {
      const loop::ValueSymbol* found = exprs_.value_symbol(symbol);
      const bool is_there = std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& s) { return s.symbols.contains(symbol); });
      if (found == nullptr || is_there) continue;
      const loop::ValueSymbol checked = *found;
      const std::string from = value(checked.index), size = index(checked.size);
      reports_errors = true;
      line(fmt::format("const Index {} = (Index)checked_index({}, {}, failure, step);", name_of(symbol), from, size));
      scopes_.back().symbols.insert(symbol);
    }
  }
  return print_index(exprs_, names_, e);
}

std::string ThreadBody::value(ExprId id) {
  for (const Scope& scope : scopes_) {
    if (const auto found = scope.values.find(id); found != scope.values.end()) return found->second;
  }
  const loop::ExprNode& node = exprs_.node(id);
  if (const auto* literal = std::get_if<loop::Literal>(&node.op)) {
    return match(
        literal->value, [&](bool v) { return literal_text(node.dtype, int64_t{v}); },
        [&](const sym::Expr& e) { return literal_text(node.dtype, e.value()); }, [&](double v) { return literal_text(node.dtype, v); });
  }
  std::string name;
  if (const auto* op = std::get_if<loop::Masked>(&node.op)) {
    name = masked(*op, node.dtype);
  } else {
    const std::string text = text_of(id);
    const auto* load = std::get_if<loop::Load>(&node.op);
    const auto* compute = std::get_if<loop::Compute>(&node.op);
    name = fresh(load != nullptr ? memory(load->buffer) : compute != nullptr ? std::string(to_string(compute->op)) : "t");
    line(fmt::format("const {} {} = {};", register_type(node.dtype), name, text));
  }
  scopes_.back().values[id] = name;
  return name;
}

std::string ThreadBody::text_of(ExprId id) {
  const loop::ExprNode& node = exprs_.node(id);
  const std::string_view type = register_type(node.dtype);
  return match(
      node.op, [](const loop::Literal&) { return std::string(); }, [](const loop::Masked&) { return std::string(); },
      [&](const loop::Index& e) { return fmt::format("{}({})", type, index(e.value)); },
      [&](const loop::Load& e) {
        const bool is_state = program_.buffer(e.buffer).kind == loop::BufferKind::RandomState;
        const std::string at = index(e.index[0]);
        return is_state ? fmt::format("{}.load({})", memory(e.buffer), at) : fmt::format("load({} + {})", memory(e.buffer), at);
      },
      [&](const loop::Compute& e) { return compute(id, e); },
      [&](const loop::Convert& e) {
        const auto* place = is_of_scores && is_floating(node.dtype) ? std::get_if<loop::Index>(&exprs_.node(e.operand).op) : nullptr;
        if (place != nullptr && node.dtype == DType::F32) {
          if (const auto real = real_place(place->value)) return *real;
        }
        if (place != nullptr) return fmt::format("{}((Index)({}))", type, index(place->value));
        const std::string operand = value(e.operand);
        return convert_text(exprs_.dtype(e.operand), node.dtype, {operand, false, true});
      },
      [&](const loop::BitcastTo& e) {
        if (e.from == DType::Bool || e.to == DType::Bool)
          throw Error(ErrorKind::Unsupported,
                      fmt::format("viewing {} as {} is not supported on a GPU", to_string(e.from), to_string(e.to)));
        const std::string operand = value(e.operand);
        const bool is_only_rounded = e.from == e.to && is_floating(e.to) && !is_reduced_float(e.to);
        return is_only_rounded ? fmt::format("rounded({})", operand) : bitcast_text(e.from, e.to, {operand, false, true});
      },
      [&](const loop::Accumulated& e) { return fmt::format("{}(acc{}{})", type, static_cast<uint32_t>(e.id), column); },
      [&](const loop::Stashed& e) { return fmt::format("stash{}[{}]", static_cast<uint32_t>(e.id), stash_index); });
}

std::pair<double, ExprId> scaled(const loop::ExprTable& exprs, ExprId id) {
  double factor = 1;
  while (const auto* by = std::get_if<loop::Compute>(&exprs.node(id).op)) {
    if ((by->op != ScalarOp::Mul && by->op != ScalarOp::Div) || exprs.dtype(id) != DType::F32) break;
    const auto* number = exprs.literal_as<double>(by->operands[1]);
    if (number == nullptr) break;
    const double more = by->op == ScalarOp::Mul ? *number : 1 / *number;
    if (!std::isnormal(static_cast<float>(more)) || !std::isnormal(static_cast<float>(factor * more))) break;
    factor *= more;
    id = by->operands[0];
  }
  return {factor, id};
}

std::optional<std::string> ThreadBody::real_place(sym::Expr place) const {
  constexpr int64_t kMostExact = int64_t{1} << 23;  // of each part and of the rest
  std::string text;
  for (const auto& [axis, real] : reals) {
    const auto linear = sym::linear_in(place, axis);
    const sym::Range range = axis.range();
    if (!linear || !(linear->coefficient.is_const(1) || linear->coefficient.is_const(-1) || linear->coefficient.is_const(0)) ||
        range.max > kMostExact)
      return std::nullopt;
    if (linear->coefficient.is_const(1)) text += (text.empty() ? "" : " + ") + real;
    if (linear->coefficient.is_const(-1)) text += (text.empty() ? "-" : " - ") + real;
    place = linear->rest;
  }
  if (text.empty() || !place.is_const() || std::abs(place.value()) > kMostExact) return std::nullopt;
  return place.is_const(0) ? text : fmt::format("{} + {}", text, literal_text(DType::F32, static_cast<double>(place.value())));
}

std::optional<ExprId> ThreadBody::one_plus_erf(const loop::Compute& op) const {
  if (!is_rounded_to_16_bits || op.op != ScalarOp::Add || register_type(exprs_.dtype(op.operands[0])) != "float") return std::nullopt;
  const auto is_one = [&](ExprId id) {
    const auto* number = exprs_.literal_as<double>(id);
    return number != nullptr && *number == 1;
  };
  for (const size_t i : {0, 1}) {
    const auto* erf = std::get_if<loop::Compute>(&exprs_.node(op.operands[i]).op);
    if (erf != nullptr && erf->op == ScalarOp::Erf && is_one(op.operands[1 - i])) return erf->operands[0];
  }
  return std::nullopt;
}

std::optional<ExprId> ThreadBody::gelu(const loop::Compute& op) const {
  constexpr double kHalf = 0.5, kRootOfHalf = 0.70710678118654752, kRounding = 1e-7;
  if (!is_rounded_to_16_bits || op.op != ScalarOp::Mul) return std::nullopt;
  const auto times = [&](ExprId id, double factor) -> std::optional<ExprId> {
    const auto* product = std::get_if<loop::Compute>(&exprs_.node(id).op);
    if (product == nullptr || product->op != ScalarOp::Mul) return std::nullopt;
    for (const size_t i : {0, 1}) {
      const auto* number = exprs_.literal_as<double>(product->operands[i]);
      if (number != nullptr && std::abs(*number - factor) < kRounding) return product->operands[1 - i];
    }
    return std::nullopt;
  };
  for (const size_t i : {0, 1}) {
    const auto* sum = std::get_if<loop::Compute>(&exprs_.node(op.operands[i]).op);
    const std::optional<ExprId> of_erf = sum == nullptr ? std::nullopt : one_plus_erf(*sum);
    const std::optional<ExprId> half = times(op.operands[1 - i], kHalf);
    if (of_erf && half && times(*of_erf, kRootOfHalf) == half) return half;
  }
  return std::nullopt;
}

// Of an index that is not negative and a number of 64 bits, which need not be compared in 64 bits where indices have 32.
std::optional<std::string> ThreadBody::equality_of_index(const loop::Compute& op) {
  if (op.op != ScalarOp::Eq) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const auto* place = std::get_if<loop::Index>(&exprs_.node(op.operands[i]).op);
    const ExprId number = op.operands[1 - i];
    if (place == nullptr || place->value.is_const() || exprs_.dtype(number) != DType::I64 || !sym::known_le(0, place->value)) continue;
    if (std::holds_alternative<loop::Index>(exprs_.node(number).op)) continue;
    const std::string at = index(place->value);
    return fmt::format("is_index((Index)({}), {})", at, value(number));
  }
  return std::nullopt;
}

std::string ThreadBody::compute(ExprId id, const loop::Compute& op) {
  if (const auto x = gelu(op)) return fmt::format("op_gelu16({})", value(*x));
  if (const auto x = one_plus_erf(op)) return fmt::format("op_one_plus_erf16({})", value(*x));
  if (const auto text = equality_of_index(op)) return *text;
  if (is_of_scores) {
    const auto [factor, rest] = scaled(exprs_, id);
    if (rest != id) {
      const std::string of = value(rest);
      return fmt::format("{} * {}", of, literal_text(DType::F32, factor));
    }
  }
  std::vector<OperandText> operands;
  for (ExprId operand : op.operands) operands.push_back({value(operand), false, true});
  const DType dtype = exprs_.dtype(op.operands[op.op == ScalarOp::Where ? 1 : 0]);
  if (divides_integers(exprs_, op)) {
    reports_errors = true;
    operands[1].text = fmt::format("nonzero<{}>({}, failure, step)", register_type(dtype), operands[1].text);
  }
  if (is_of_scores && op.op == ScalarOp::Tanh && dtype == DType::F32) return fmt::format("score_tanh({})", operands[0].text);
  if (is_special_function(op.op) && dtype != DType::Bool) {
    is_special = true;
    return fmt::format("{}(toroid::special::{}({}{}))", register_type(dtype), special_function(op.op), operands[0].text,
                       operands.size() == 2 ? ", " + operands[1].text : "");
  }
  const std::string text = scalar_text(op.op, dtype, operands);
  return unfused.contains(id) ? fmt::format("rounded({})", text) : text;
}

std::string ThreadBody::masked(const loop::Masked& op, DType dtype) {
  const std::string condition = value(op.condition), name = fresh("chosen");
  line(fmt::format("{} {};", register_type(dtype), name));
  open(fmt::format("if ({}) {{", condition));
  line(fmt::format("{} = {};", name, value(op.value)));
  close("} else {");
  ++depth_;
  scopes_.emplace_back();
  line(fmt::format("{} = {};", name, value(op.otherwise)));
  close();
  return name;
}

void ThreadBody::hoist(const std::vector<ExprId>& roots, const std::vector<sym::Expr>& axes) {
  const std::unordered_set<ExprId> varying = schedule::varying(exprs_, roots, axes);
  std::unordered_set<ExprId> seen;
  std::vector<ExprId> pending(roots.rbegin(), roots.rend());
  while (!pending.empty()) {
    const ExprId id = pending.back();
    pending.pop_back();
    const loop::ExprOp& op = exprs_.node(id).op;
    if (!seen.insert(id).second || std::holds_alternative<loop::Literal>(op)) continue;
    if (!varying.contains(id)) {
      value(id);
    } else if (const auto* masked = std::get_if<loop::Masked>(&op)) {
      pending.push_back(masked->condition);  // behind it there may be nothing to load
    } else {
      const std::vector<ExprId> operands = exprs_.operands(id);
      pending.insert(pending.end(), operands.rbegin(), operands.rend());
    }
  }
}

}  // namespace toroid::codegen::cuda
