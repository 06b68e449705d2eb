#include "codegen/triton/triton_body.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/divisions.h"
#include "codegen/triton/triton_scalar.h"
#include "schedule/axes.h"
#include "support/match.h"

namespace toroid::codegen {

using loop::ExprId;
using schedule::extent;

TritonBody::TritonBody(const loop::LoopProgram& program, const schedule::Kernel& kernel, const TritonTile& tile, SymbolNames& names,
                       const TritonPointers& pointers)
    : program_(program),
      exprs_(program.exprs),
      kernel_(kernel),
      tile_(tile),
      names_(names),
      pointers_(pointers),
      index_(exprs_, names_, tile.index_type, [this](sym::Expr e) { return index_read(e); }) {}

void TritonBody::line(const std::string& text) { lines_ += std::string(4 * depth_, ' ') + text + "\n"; }

std::string TritonBody::named(std::string_view base, const std::string& text) {
  std::string name = fmt::format("{}_v{}", base, ++counter_);
  line(fmt::format("{} = {}", name, text));
  return name;
}

void TritonBody::open_block(const std::string& text) {
  scopes_.emplace_back(), read_.emplace_back();
  line(text);
  ++depth_;
}

void TritonBody::close_block() {
  --depth_;
  scopes_.pop_back(), read_.pop_back();
}

// Rows and elements that are there have masks, but where tiles are whole.
void TritonBody::open_rows() {
  const std::string own = tile_.index_type == "tl.int32" ? "tl.program_id(0)" : "tl.program_id(0).to(tl.int64)";
  const std::string pieces = tile_.in_squares ? index_.print(sym::ceil_div(tile_.length, tile_.width)) : "";
  const std::string rows = tile_.in_squares ? fmt::format("({} // {})", own, pieces) : own;
  line(fmt::format("row = {1} * {0} + tl.arange(0, {0})[:, None]", tile_.row_count, rows));
  if (!tile_.fills_rows) line(fmt::format("is_row = row < {}", index_.print(tile_.rows)));
  decode(kernel_.outer, "row");
  if (tile_.in_squares) return open_elements(fmt::format("({} % {}) * {}", own, pieces, tile_.width));
  if (!kernel_.inner.empty() && !tile_.is_looped) open_elements("");
}

void TritonBody::open_elements(const std::string& first) {
  const std::string lanes = fmt::format("tl.arange(0, {})[None, :]", tile_.width);
  line(fmt::format("element = ({}{}).to({})", first.empty() ? "" : first + " + ", lanes, tile_.index_type));
  if (!tile_.fills_elements)
    line(fmt::format("is_element = {}(element < {})", tile_.fills_rows ? "" : "is_row & ", index_.print(tile_.length)));
  decode(kernel_.inner, "element");
}

void TritonBody::decode(const std::vector<sym::Expr>& axes, const std::string& place) {
  std::string rest = place;
  for (size_t d = axes.size(); d-- > 0;) {
    if (axes[d].is_const()) continue;
    const std::string& name = names_.of(axes[d]);
    if (d == 0) {
      line(fmt::format("{} = {}", name, rest));
      break;
    }
    const std::string size = index_.print(extent(axes[d]));
    line(fmt::format("{} = {} % {}", name, rest, size));
    rest = named("rest", fmt::format("{} // {}", rest, size));
  }
}

std::string TritonBody::mask(bool of_elements) const {
  std::vector<std::string> parts = conditions_;
  if (of_elements && !tile_.fills_elements) {
    parts.insert(parts.begin(), "is_element");
  } else if (!tile_.fills_rows) {
    parts.insert(parts.begin(), "is_row");
  }
  return fmt::format("{}", fmt::join(parts, " & "));
}

std::string TritonBody::element_or(const std::string& element, const std::string& otherwise) const {
  return tile_.fills_elements ? element : fmt::format("tl.where(is_element, {}, {})", element, otherwise);
}

std::string TritonBody::whole(const std::string& element, DType dtype) const {
  return fmt::format("tl.broadcast_to({}, [{}, {}]).to({})", element, tile_.row_count, tile_.width, triton_type(dtype));
}

std::string TritonBody::value(ExprId id) {
  for (const auto& scope : scopes_) {
    if (const auto found = scope.find(id); found != scope.end()) return found->second;
  }
  const loop::ExprNode& node = exprs_.node(id);
  if (const auto* accumulated = std::get_if<loop::Accumulated>(&node.op)) {
    const auto& [sum, dtype] = accumulated_.at(accumulated->id);
    return triton_convert(dtype, node.dtype, sum);
  }
  if (const auto* stashed = std::get_if<loop::Stashed>(&node.op)) return stashed_.at(stashed->id);
  std::string name;
  if (const auto* masked = std::get_if<loop::Masked>(&node.op)) {
    name = value_where(*masked);
  } else {
    const std::string text = text_of(node);
    name = named(base_of(node), text);
  }
  scopes_.back()[id] = name;
  return name;
}

std::string TritonBody::base_of(const loop::ExprNode& node) const {
  if (const auto* compute = std::get_if<loop::Compute>(&node.op)) return std::string(to_string(compute->op));
  return std::holds_alternative<loop::Load>(node.op) ? "loaded" : "t";
}

// Loads of the value happen where the condition holds.
std::string TritonBody::value_where(const loop::Masked& op) {
  const std::string condition = value(op.condition);
  conditions_.push_back(condition);
  scopes_.emplace_back(), read_.emplace_back();
  const std::string inside = value(op.value);
  scopes_.pop_back(), read_.pop_back();
  conditions_.pop_back();
  const std::string otherwise = value(op.otherwise);
  return named("chosen", fmt::format("tl.where({}, {}, {})", condition, inside, otherwise));
}

std::string TritonBody::text_of(const loop::ExprNode& node) {
  return match(
      node.op, [&](const loop::Literal& e) { return triton_literal(e.value, node.dtype); },
      [&](const loop::Index& e) {
        if (e.value.is_const()) return triton_literal(Scalar(e.value), node.dtype);
        return fmt::format("({} + row * 0).to({})", index_.print(e.value), triton_type(node.dtype));
      },
      [&](const loop::Load& e) { return load(e); },
      [&](const loop::Compute& e) {
        std::vector<std::string> operands;
        for (const ExprId operand : e.operands) operands.push_back(value(operand));
        if (divides_integers(exprs_, e)) operands[1] = nonzero(e.operands[1], operands[1]);
        return triton_scalar(e.op, exprs_.dtype(e.operands[e.op == ScalarOp::Where ? 1 : 0]), operands);
      },
      [&](const loop::Convert& e) { return triton_convert(exprs_.dtype(e.operand), node.dtype, value(e.operand)); },
      [&](const loop::BitcastTo& e) {
        if (e.from != e.to || !is_floating(e.to)) throw NotInTriton("bits of a number as another one");
        rounds_ = true;
        return is_reduced_float(e.to) ? fmt::format("{}.to({}).to(tl.float32)", value(e.operand), triton_type(e.to)) : value(e.operand);
      },
      [&](const auto&) -> std::string { TOROID_CHECK(false, "an expression that is printed elsewhere"); });
}

// Its places are as many as what is stored.
void TritonBody::store(loop::BufferId buffer, sym::Expr position, const std::string& value, bool of_elements) {
  std::string at = index_.print(position);
  if (!depends_on(position, kernel_.outer)) at = fmt::format("({} + row * 0)", at);
  if (of_elements && !depends_on(position, kernel_.inner)) at = fmt::format("({} + element * 0)", at);
  const std::string where = mask(of_elements);
  line(fmt::format("tl.store({} + {}, ({}).to({}){}{})", pointers_.at(buffer), at, value, triton_type(program_.buffer(buffer).dtype),
                   where.empty() ? "" : ", ", where));
}

std::string TritonBody::place(sym::Expr position) {
  const std::string text = index_.print(position);
  return depends_on(position, kernel_.outer) || depends_on(position, kernel_.inner) ? text : fmt::format("({} + row * 0)", text);
}

bool TritonBody::depends_on(sym::Expr position, const std::vector<sym::Expr>& axes) const {
  if (std::ranges::any_of(axes, [&](sym::Expr axis) { return !axis.is_const() && sym::depends_on(position, axis); })) return true;
  if (position.is_const()) return false;
  return std::ranges::any_of(sym::free_symbols(position), [&](sym::Expr symbol) {
    const loop::ValueSymbol* read = exprs_.value_symbol(symbol);
    if (read == nullptr) return false;
    for (const ExprId id : loop::reachable(exprs_, {read->index})) {
      const loop::ExprOp& op = exprs_.node(id).op;
      if (const auto* load = std::get_if<loop::Load>(&op); load != nullptr && depends_on(load->index[0], axes)) return true;
      if (const auto* index = std::get_if<loop::Index>(&op); index != nullptr && depends_on(index->value, axes)) return true;
    }
    return false;
  });
}

std::string TritonBody::load(const loop::Load& e) {
  const loop::Buffer& buffer = program_.buffer(e.buffer);
  const std::string at = place(e.index[0]), where = mask(depends_on(e.index[0], kernel_.inner));
  const DType dtype = loop::register_dtype(buffer.dtype);
  const std::string as = dtype == buffer.dtype && dtype != DType::Bool ? "" : fmt::format(".to({})", triton_type(dtype));
  if (where.empty()) return fmt::format("tl.load({} + {}){}", pointers_.at(e.buffer), at, as);
  // A place where a condition does not hold may be none.
  const std::string guarded = conditions_.empty() ? at : fmt::format("tl.where({}, {}, 0)", where, at);
  return fmt::format("tl.load({} + {}, {}, 0){}", pointers_.at(e.buffer), guarded, where, as);
}

std::string TritonBody::index_read(sym::Expr symbol) {
  for (const auto& scope : read_) {
    if (const auto found = scope.find(symbol); found != scope.end()) return found->second;
  }
  const loop::ValueSymbol checked = *exprs_.value_symbol(symbol);
  const std::string from = value(checked.index), size = index_.print(checked.size);
  const std::string bad = named("bad", there_and(fmt::format("(({0} < 0) | ({0} >= {1}))", from, size), depends_on(symbol, kernel_.inner)));
  report(bad, 1, from,
         fmt::format("({}).to(tl.int64)", checked.size.is_const() ? fmt::format("tl.full([1, 1], {}, tl.int64)", size) : size));
  const std::string name = named("v", fmt::format("tl.where({}, 0, {}).to({})", bad, from, tile_.index_type));
  read_.back()[symbol] = name;
  return name;
}

std::string TritonBody::nonzero(ExprId id, const std::string& divisor) {
  const bool of_elements = !kernel_.inner.empty() && varies_inside(id);
  const std::string bad = named("bad", there_and(fmt::format("({} == 0)", divisor), of_elements));
  report(bad, 2, "tl.full([1, 1], 0, tl.int64)", "tl.full([1, 1], 0, tl.int64)");
  return named("divisor", fmt::format("tl.where({}, 1, {})", fmt::format("{} == 0", divisor), divisor));
}

bool TritonBody::varies_inside(ExprId id) const {
  for (const ExprId each : loop::reachable(exprs_, {id})) {
    const loop::ExprOp& op = exprs_.node(each).op;
    if (std::holds_alternative<loop::Stashed>(op)) return true;
    if (const auto* load = std::get_if<loop::Load>(&op); load != nullptr && depends_on(load->index[0], kernel_.inner)) return true;
    if (const auto* index = std::get_if<loop::Index>(&op); index != nullptr && depends_on(index->value, kernel_.inner)) return true;
  }
  return false;
}

std::string TritonBody::there_and(const std::string& what, bool of_elements) const {
  const std::string where = mask(of_elements);
  return where.empty() ? what : fmt::format("{} & {}", where, what);
}

void TritonBody::report(const std::string& bad, int code, const std::string& index, const std::string& size) {
  reports_errors_ = true;
  const std::string place = named("place", fmt::format("{}.to(tl.int32) * 0", bad));
  const std::string is_first = named("first_bad", fmt::format("{0} & (tl.load(failure + {1}, {0}, 1) == 0)", bad, place));
  line(fmt::format("tl.store(failure + 1 + {}, {} + {}, {})", place, index, place, is_first));
  line(fmt::format("tl.store(failure + 2 + {}, {} + {}, {})", place, size, place, is_first));
  line(fmt::format("tl.store(failure + {0}, {1} + (step.to(tl.int64) << 32) + {0}, {2})", place, code, is_first));
}

}  // namespace toroid::codegen
