#include "codegen/cpp/body.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/divisions.h"
#include "codegen/cpp/kernel.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/narrow_products.h"
#include "lower/cost.h"
#include "support/match.h"

namespace toroid::codegen {

using loop::ExprId;

void BodyPrinter::begin_nest(std::vector<sym::Expr> loops, bool last_runs) {
  loops_ = std::move(loops);
  doubtful_ = 0;
  for (size_t d = 0; d + (last_runs ? 1 : 0) < loops_.size(); ++d) {
    if (!sym::known_lt(0, *loops_[d].node()->extent)) doubtful_ = d + 1;
  }
  levels_.resize(loops_.size() + 1);
  std::erase_if(known_, [](const auto& entry) { return entry.second.first > 0; });
  std::erase_if(known_symbols_, [](const auto& entry) { return entry.second > 0; });
  level_memo_.clear();
}

bool BodyPrinter::varies(sym::Expr e) {
  if (!vector_axis_ || e.is_const()) return false;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    if (symbol == *vector_axis_) return true;
    if (const loop::ValueSymbol* value = exprs_.value_symbol(symbol); value && varies(value->index)) return true;
  }
  return false;
}

bool BodyPrinter::varies(ExprId id) {
  if (!vector_axis_) return false;
  if (const auto found = varies_memo_.find(id); found != varies_memo_.end()) return found->second;
  const loop::ExprOp& op = exprs_.node(id).op;
  bool result = false;
  if (const auto* load = std::get_if<loop::Load>(&op)) result = varies(load->index[0]);
  if (const auto* index = std::get_if<loop::Index>(&op)) result = varies(index->value);
  if (std::holds_alternative<loop::Accumulated>(op)) result = accumulators_vary;
  if (std::holds_alternative<loop::Stashed>(op)) result = stashes_vary;
  for (ExprId operand : exprs_.operands(id)) result = result || varies(operand);
  varies_memo_[id] = result;
  return result;
}

size_t BodyPrinter::level_of(sym::Expr e) {
  size_t level = 0;
  if (e.is_const()) return level;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    for (size_t d = 0; d < loops_.size(); ++d) {
      if (loops_[d] == symbol) level = std::max(level, d + 1);
    }
    if (const loop::ValueSymbol* value = exprs_.value_symbol(symbol)) level = std::max({level, level_of(value->index), doubtful_});
  }
  return level;
}

size_t BodyPrinter::level_of(ExprId id) {
  if (const auto found = level_memo_.find(id); found != level_memo_.end()) return found->second;
  const loop::ExprOp& op = exprs_.node(id).op;
  size_t level = 0;
  if (const auto* load = std::get_if<loop::Load>(&op)) level = std::max(level_of(load->index[0]), doubtful_);
  if (const auto* index = std::get_if<loop::Index>(&op)) level = level_of(index->value);
  if (const auto* compute = std::get_if<loop::Compute>(&op); compute != nullptr && divides_integers(exprs_, *compute)) level = doubtful_;
  if (std::holds_alternative<loop::Accumulated>(op)) level = accumulators_vary ? innermost() : 0;
  if (std::holds_alternative<loop::Stashed>(op)) level = innermost();
  for (ExprId operand : exprs_.operands(id)) level = std::max(level, level_of(operand));
  level_memo_[id] = level;
  return level;
}

void BodyPrinter::push(std::vector<std::string>& lines, std::string text) const {
  if (const std::string* comment = origins.comment(origin_)) lines.push_back(*comment);
  lines.push_back(std::move(text));
}

// The lines of a scope, which say themselves where they come from.
void BodyPrinter::insert(size_t level, const std::vector<std::string>& lines) {
  std::vector<std::string>& to = scopes_.empty() ? levels_[level] : scopes_.back().lines;
  for (const std::string& each : lines) to.push_back("  " + each);
}

void BodyPrinter::line(size_t level, std::string text) { push(levels_[level], std::move(text)); }

void BodyPrinter::emit(size_t level, std::string text) { push(scopes_.empty() ? levels_[level] : scopes_.back().lines, std::move(text)); }

OperandText BodyPrinter::define(size_t level, std::string_view base, DType dtype, OperandText text) {
  const std::string name = fresh(base);
  if (text.lanes) {
    emit(level, fmt::format("const auto {} = {};", name, text.text));
  } else {
    emit(level, fmt::format("const {} {} = {};", register_type(dtype), name, text.text));
  }
  return {name, text.lanes, true};
}

OperandText BodyPrinter::value(ExprId id) {
  for (const Scope& scope : scopes_) {
    if (const auto found = scope.known.find(id); found != scope.known.end()) return found->second;
  }
  if (const auto found = known_.find(id); found != known_.end()) return found->second.second;
  const ProvenanceId outer = origin_;
  if (const ProvenanceId own = exprs_.node(id).origin; origins.comment(own) != nullptr) origin_ = own;
  const OperandText result = compute(id);
  origin_ = outer;
  if (scopes_.empty()) {
    known_[id] = {level_of(id), result};
  } else {
    scopes_.back().known[id] = result;
  }
  return result;
}

OperandText BodyPrinter::compute(ExprId id) {
  const loop::ExprNode& node = exprs_.node(id);
  const size_t level = level_of(id);
  return match(
      node.op,
      [&](const loop::Literal& o) -> OperandText {
        const std::string text = match(
            o.value, [&](bool v) { return literal_text(node.dtype, int64_t{v}); },
            [&](const sym::Expr& e) { return literal_text(node.dtype, e.value()); }, [&](double v) { return literal_text(node.dtype, v); });
        return {text, false, true};
      },
      [&](const loop::Index& o) { return define(level, "index", node.dtype, number(o.value)); },
      [&](const loop::Load& o) {
        const std::string in_tile = tile ? tile(id) : std::string();
        if (!in_tile.empty() && scopes_.empty()) {
          const std::string name = tile_name.empty() ? identifier(program_.buffer(o.buffer).name) : std::string(tile_name);
          return define(level, name, node.dtype, {fmt::format("load(lanes, {})", in_tile), true});
        }
        return define(level, identifier(program_.buffer(o.buffer).name), node.dtype, load(o, node.dtype));
      },
      [&](const loop::Compute& o) {
        if (const auto sum = contraction.sum(o)) {
          const OperandText a = value(sum->product.a), b = value(sum->product.b), addend = value(sum->addend);
          return define(level, "fma", node.dtype, fused_text(node.dtype, a, b, addend, sum->is_product_negative, sum->is_addend_negative));
        }
        if (const auto product = in_narrow_vectors(o)) {
          return define(level, "mul", node.dtype, {fmt::format("op_mul_low_v({})", *product), true});
        }
        if (const auto sum = narrow_sum(exprs_, o); sum && varies(sum->addend)) {
          if (const auto product = in_narrow_vectors(sum->product))
            return define(level, "dot", node.dtype, {fmt::format("op_add_mul_low_v({}, {})", value(sum->addend).text, *product), true});
        }
        std::vector<OperandText> operands;
        bool lanes = false;
        for (ExprId operand : o.operands) {
          operands.push_back(value(operand));
          lanes = lanes || operands.back().lanes;
        }
        uses_runtime_ = uses_runtime_ || is_special_function(o.op);
        const DType dtype = exprs_.dtype(o.operands[o.op == ScalarOp::Where ? 1 : 0]);
        if (divides_integers(exprs_, o)) operands[1] = checked_divisor(operands[1], dtype);
        const std::string text = scalar_text(o.op, dtype, operands);
        return define(level, to_string(o.op), node.dtype, {contraction.is_rounded(id) ? fmt::format("rounded({})", text) : text, lanes});
      },
      [&](const loop::Convert& o) {
        if (const auto* index = std::get_if<loop::Index>(&exprs_.node(o.operand).op); index && node.dtype == DType::Bool) {
          return define(level, "inside", node.dtype, condition(index->value));
        }
        const std::string as = "as_" + std::string(to_string(node.dtype));
        // Rounded and made an integer in one step, where that goes by way of 32 bits (convert_text).
        const auto* rounding = std::get_if<loop::Compute>(&exprs_.node(o.operand).op);
        if (rounding != nullptr && rounding->op == ScalarOp::Round && exprs_.dtype(o.operand) == DType::F32 && is_integral(node.dtype) &&
            (node.dtype == DType::I32 || size_bytes(node.dtype) < 4) && varies(o.operand)) {
          const std::string nearest = fmt::format("op_nearest_v({})", value(rounding->operands[0]).text);
          return define(level, as, node.dtype, {convert_text(DType::I32, node.dtype, {nearest, true}), true});
        }
        const OperandText operand = value(o.operand);
        return define(level, as, node.dtype, {convert_text(exprs_.dtype(o.operand), node.dtype, operand), operand.lanes});
      },
      [&](const loop::BitcastTo& o) {
        if (o.from == DType::Bool || o.to == DType::Bool) {
          throw Error(ErrorKind::Unsupported,
                      fmt::format("viewing {} as {} is not supported by the CPU backend", to_string(o.from), to_string(o.to)));
        }
        const OperandText operand = value(o.operand);
        const bool is_only_rounded = o.from == o.to && is_floating(o.to) && !is_reduced_float(o.to);
        const std::string text = is_only_rounded ? fmt::format("rounded({})", operand.text) : bitcast_text(o.from, o.to, operand);
        return define(level, "bits", node.dtype, {text, operand.lanes});
      },
      [&](const loop::Masked& o) { return masked(o, node.dtype); }, [&](const loop::Accumulated& o) { return accumulator(o.id); },
      [&](const loop::Stashed& o) { return define(level, "kept", node.dtype, stash(o.id)); });
}

// The factors of such a product of vectors (narrow_products.h).
std::optional<std::string> BodyPrinter::in_narrow_vectors(const loop::Compute& op) {
  const auto narrow = narrow_product(exprs_, op);
  if (!narrow || !varies(narrow->a) || !varies(narrow->b)) return std::nullopt;
  const OperandText a = value(narrow->a), b = value(narrow->b);
  return fmt::format("{}, {}", a.text, b.text);
}

OperandText BodyPrinter::checked_divisor(const OperandText& divisor, DType dtype) {
  uses_error_ = true;
  const std::string mask = scopes_.empty() ? std::string() : scopes_.back().mask;
  if (!divisor.lanes) {
    // Where no lane divides, any divisor will do.
    const std::string used =
        mask.empty() ? divisor.text : fmt::format("any_lane({}) ? {} : {}", mask, divisor.text, literal_text(dtype, int64_t{1}));
    return {fmt::format("nonzero<{}>({}, error)", register_type(dtype), used), false, true};
  }
  const std::string used =
      mask.empty() ? divisor.text : fmt::format("select({0}, {1}, splat<{2}, W>(1))", mask, divisor.text, register_type(dtype));
  return {fmt::format("nonzero(lanes, {}, error)", used), true, true};
}

void BodyPrinter::prepare_index(sym::Expr e) {
  if (e.is_const()) return;
  for (sym::Expr symbol : sym::free_symbols(e)) {
    const loop::ValueSymbol* found = exprs_.value_symbol(symbol);
    if (found == nullptr || known_symbols_.count(symbol)) continue;
    const bool in_scope =
        std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) { return scope.known_symbols.count(symbol) > 0; });
    if (in_scope) continue;
    const loop::ValueSymbol checked = *found;
    prepare_index(checked.size);
    const size_t level = level_of(symbol);
    OperandText position = value(checked.index);
    if (exprs_.dtype(checked.index) != DType::I64) {
      position = {convert_text(exprs_.dtype(checked.index), DType::I64, position), position.lanes};
    }
    uses_error_ = true;
    const std::string name = names_.of(symbol);
    if (!position.lanes) {
      emit(level, fmt::format("const int64_t {} = checked_index({}, {}, error);", name, position.text, index(checked.size)));
    } else {
      // Lanes that are masked off hold no index.
      if (!scopes_.empty() && !scopes_.back().mask.empty()) {
        position.text = fmt::format("select({}, {}, vec<int64_t, W>{{}})", scopes_.back().mask, position.text);
      }
      emit(level, fmt::format("const auto {} = checked_index(lanes, {}, {}, error);", name, position.text, index(checked.size)));
    }
    // Inside a masked region the definition is local to it; it is printed again where it is needed again.
    (scopes_.empty() ? known_symbols_ : scopes_.back().known_symbols)[symbol] = level;
  }
}

std::string BodyPrinter::index(sym::Expr e) const { return print_index(exprs_, names_, e); }
std::string BodyPrinter::lane_index(sym::Expr e) {
  return print_lane_index(exprs_, names_, e, *vector_axis_, "l", [&](ExprId id) { return varies(id); });
}

std::string BodyPrinter::memory(loop::BufferId buffer) const {
  const std::string name = identifier(program_.buffer(buffer).name);
  if (access_origins == nullptr) return name;
  const std::string* const comment = origins.comment(origin_);
  const std::string origin = comment ? comment->substr(std::string_view("// of ").size()) : "";
  const auto found = std::find(access_origins->begin(), access_origins->end(), origin);
  const auto number = found - access_origins->begin();
  if (found == access_origins->end()) access_origins->push_back(origin);
  return fmt::format("{}.by({})", name, number);
}

std::string BodyPrinter::pointer(loop::BufferId buffer, sym::Expr position) const {
  const std::string name = memory(buffer);
  return position.is_const(0) ? name : fmt::format("{} + {}", name, index(position));
}

OperandText BodyPrinter::load(const loop::Load& op, DType dtype) {
  const sym::Expr position = op.index[0];
  prepare_index(position);
  const std::string mask = scopes_.empty() ? std::string() : scopes_.back().mask;
  if (!varies(position)) {
    const std::string text = fmt::format("load1({})", pointer(op.buffer, position));
    if (mask.empty()) return {text, false};
    // Without a lane to read for, the address may be out of bounds.
    return {fmt::format("any_lane({}) ? {} : {}(0)", mask, text, register_type(dtype)), false};
  }
  const auto linear = sym::linear_in(position, *vector_axis_);
  if (linear && linear->coefficient.is_const(1) && !varies(linear->rest)) {
    if (mask.empty()) return {fmt::format("load(lanes, {})", pointer(op.buffer, position)), true};
    return {fmt::format("load_where(lanes, {}, {})", mask, pointer(op.buffer, position)), true};
  }
  if (mask.empty() && linear && linear->coefficient.is_const(-1) && !varies(linear->rest)) {
    return {fmt::format("load_backward(lanes, {})", pointer(op.buffer, position)), true};
  }
  if (linear && linear->coefficient.is_const(2) && !varies(linear->rest)) {
    const std::string masked = mask.empty() ? "" : ", " + mask;
    return {fmt::format("load_every_second(lanes{}, {})", masked, pointer(op.buffer, position)), true};
  }
  if (const auto repeated = repeated_part(position); repeated && mask.empty()) {
    return {fmt::format("load_repeated<{}>(lanes, {}, {})", repeated->operands()[1].value(), pointer(op.buffer, position),
                        index(sym::mod(repeated->operands()[0], repeated->operands()[1]))),
            true};
  }
  const std::string at = fmt::format("[&](int l) {{ return {} + {}; }}", memory(op.buffer), lane_index(position));
  if (mask.empty()) return {fmt::format("{}(lanes, {})", in_runs(position) ? "gather_runs" : "gather", at), true};
  return {fmt::format("gather(lanes, {}, {})", mask, at), true};
}

OperandText BodyPrinter::number(sym::Expr e) {
  prepare_index(e);
  if (!varies(e)) return {fmt::format("int64_t({})", index(e)), false};
  const auto linear = sym::linear_in(e, *vector_axis_);
  if (linear && !varies(linear->rest) && !varies(linear->coefficient)) {
    return {fmt::format("ramp<int64_t, W>() * ({}) + ({})", index(linear->coefficient), index(e)), true};
  }
  return {fmt::format("index_of<W>([&](int l) {{ return {}; }})", lane_index(e)), true};
}

std::optional<std::string> BodyPrinter::lane_range(sym::Expr e) {
  if (!varies(e)) return fmt::format("splat_mask<W>({})", index(e));
  if (e.kind() == sym::Kind::And || e.kind() == sym::Kind::Or) {
    std::string text;
    for (sym::Expr part : e.operands()) {
      const auto range = lane_range(part);
      if (!range) return std::nullopt;
      text += (text.empty() ? "" : e.kind() == sym::Kind::And ? " & " : " | ") + *range;
    }
    return "(" + text + ")";
  }
  const bool is_equal = e.kind() == sym::Kind::Eq || e.kind() == sym::Kind::Ne;
  if (!is_equal && e.kind() != sym::Kind::Lt && e.kind() != sym::Kind::Le) return std::nullopt;
  // a <= b where b - a >= 0, which falls or rises steadily from lane to lane.
  const sym::Expr distance = e.operands()[1] - e.operands()[0] - (e.kind() == sym::Kind::Lt ? 1 : 0);
  const auto linear = sym::linear_in(distance, *vector_axis_);
  if (!linear || varies(linear->rest) || !linear->coefficient.is_const()) return std::nullopt;
  const int64_t step = linear->coefficient.value();
  if (is_equal) {
    if (step != 1 && step != -1) return std::nullopt;
    return fmt::format("{}lane_at<W>({})", e.kind() == sym::Kind::Ne ? "~" : "", index(distance * -step));
  }
  if (step < 0) return fmt::format("lanes_to<W>({})", index(sym::floor_div(distance, -step)));
  return fmt::format("~lanes_to<W>({})", index(-1 - sym::floor_div(distance, step)));
}

bool BodyPrinter::moves_by_at_most_one(sym::Expr e) {
  if (!varies(e)) return true;
  if (e.is_symbol()) return e == *vector_axis_;
  const auto parts = e.operands();
  if (e.kind() == sym::Kind::Mul) return parts.size() == 2 && parts[0].is_const(-1) && moves_by_at_most_one(parts[1]);
  if (e.kind() == sym::Kind::Add && std::count_if(parts.begin(), parts.end(), [&](sym::Expr part) { return varies(part); }) > 1)
    return false;
  if (e.kind() != sym::Kind::Add && e.kind() != sym::Kind::Min && e.kind() != sym::Kind::Max) return false;
  return std::all_of(parts.begin(), parts.end(), [&](sym::Expr part) { return moves_by_at_most_one(part); });
}

// The e // n of a position where nothing else varies, e grows by one from lane to lane, and n is a number.
std::optional<sym::Expr> BodyPrinter::repeated_part(sym::Expr position) {
  const sym::Expr alone[] = {position};
  std::optional<sym::Expr> part;
  for (sym::Expr term : position.kind() == sym::Kind::Add ? position.operands() : std::span<const sym::Expr>(alone)) {
    if (!varies(term)) continue;
    if (part || term.kind() != sym::Kind::FloorDiv || !term.operands()[1].is_const()) return std::nullopt;
    part = term;
  }
  if (!part || part->operands()[1].value() <= 1 || part->operands()[1].value() > INT32_MAX) return std::nullopt;
  const auto linear = sym::linear_in(part->operands()[0], *vector_axis_);
  if (!linear || !linear->coefficient.is_const(1) || varies(linear->rest)) return std::nullopt;
  return part;
}

// Clamped and mirrored positions, and a * (e // m) + e mod m, where e grows by one from lane to lane: all its jumps go one way.
bool BodyPrinter::in_runs(sym::Expr position) {
  if (moves_by_at_most_one(position)) return true;
  std::optional<sym::Expr> remainder;
  std::optional<sym::Expr> quotient;
  const bool is_sum = position.kind() == sym::Kind::Add;
  const sym::Expr alone[] = {position};
  for (sym::Expr term : is_sum ? position.operands() : std::span<const sym::Expr>(alone)) {
    if (!varies(term)) continue;
    if (term.kind() == sym::Kind::Mod && !remainder) {
      remainder = term;
      continue;
    }
    if (quotient) return false;
    for (sym::Expr factor : term.kind() == sym::Kind::Mul ? term.operands() : std::span<const sym::Expr>(&term, 1)) {
      if (!varies(factor)) continue;
      if (quotient || factor.kind() != sym::Kind::FloorDiv) return false;
      quotient = factor;
    }
  }
  if (!remainder) return false;
  const auto parts = remainder->operands();
  const auto linear = sym::linear_in(parts[0], *vector_axis_);
  if (!linear || !linear->coefficient.is_const(1) || varies(linear->rest) || varies(parts[1])) return false;
  return !quotient || (quotient->operands()[0] == parts[0] && quotient->operands()[1] == parts[1]);
}

OperandText BodyPrinter::condition(sym::Expr e) {
  prepare_index(e);
  if (!varies(e)) return {fmt::format("bool({})", index(e)), false};
  if (const auto range = lane_range(e)) return {*range, true};
  return {fmt::format("mask_of<W>([&](int l) {{ return {}; }})", lane_index(e)), true};
}

OperandText BodyPrinter::masked(const loop::Masked& op, DType dtype) {
  const OperandText condition = value(op.condition);
  const bool result_varies = varies(op.value) || varies(op.otherwise) || condition.lanes;
  // All lanes take one side together, or each its own.
  size_t level = 0;
  for (ExprId id : {op.condition, op.value, op.otherwise}) level = std::max(level, level_of(id));
  const std::string outer_mask = scopes_.empty() ? std::string() : scopes_.back().mask;
  const std::string name = fresh("chosen");
  auto as_lanes = [&](const OperandText& x) {
    if (x.lanes || !result_varies) return x.text;
    return dtype == DType::Bool ? fmt::format("splat_mask<W>({})", x.text) : fmt::format("splat<{}, W>({})", register_type(dtype), x.text);
  };
  auto in_scope = [&](ExprId id, std::string mask, std::string& text) {
    scopes_.push_back({{}, {}, {}, std::move(mask)});
    text = as_lanes(value(id));
    std::vector<std::string> lines = std::move(scopes_.back().lines);
    scopes_.pop_back();
    return lines;
  };
  if (condition.lanes) {
    std::string inner = condition.text;
    std::string other = fmt::format("~{}", condition.text);
    if (!outer_mask.empty()) {
      inner = fmt::format("({} & {})", outer_mask, condition.text);
      other = fmt::format("({} & ~{})", outer_mask, condition.text);
    }
    std::string then_text;
    std::string else_text;
    std::vector<std::string> then_lines = in_scope(op.value, inner, then_text);
    std::vector<std::string> else_lines = in_scope(op.otherwise, other, else_text);
    const std::string type = dtype == DType::Bool ? "mask<W>" : fmt::format("vec<{}, W>", register_type(dtype));
    emit(level, fmt::format("{} {} = {{}};", type, name));
    // A side with more in it than a load, as the half of the parts of a concatenation, is left out where no lane takes it.
    auto opening = [&](ExprId side, const std::string& mask) {
      return cost_of(exprs_, side).loads > 1 ? fmt::format("if (any_lane({})) {{", mask) : "{";
    };
    emit(level, opening(op.value, inner));
    insert(level, then_lines);
    emit(level, fmt::format("  {} = {};", name, then_text));
    emit(level, "}");
    emit(level, opening(op.otherwise, other));
    insert(level, else_lines);
    if (dtype == DType::Bool) {
      emit(level, fmt::format("  {0} = ({1} & {0}) | (~{1} & {2});", name, condition.text, else_text));
    } else {
      emit(level, fmt::format("  {0} = select({1}, {0}, {2});", name, condition.text, else_text));
    }
    emit(level, "}");
    return {name, true, true};
  }
  std::string then_text;
  std::string else_text;
  std::vector<std::string> then_lines = in_scope(op.value, outer_mask, then_text);
  std::vector<std::string> else_lines = in_scope(op.otherwise, outer_mask, else_text);
  std::string type(register_type(dtype));
  if (result_varies) type = dtype == DType::Bool ? "mask<W>" : fmt::format("vec<{}, W>", register_type(dtype));
  emit(level, fmt::format("{} {};", type, name));
  emit(level, fmt::format("if ({}) {{", condition.text));
  insert(level, then_lines);
  emit(level, fmt::format("  {} = {};", name, then_text));
  emit(level, "} else {");
  insert(level, else_lines);
  emit(level, fmt::format("  {} = {};", name, else_text));
  emit(level, "}");
  return {name, result_varies, true};
}

}  // namespace toroid::codegen
