// The table of scalar expressions: interning, folding, substitution.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "loop/loop.h"
#include "support/match.h"
#include "symbolic/named_symbols.h"

namespace toroid::loop {
namespace {

// Of 31 bits: twice as many are left for what it is multiplied by.
bool has_large_number(sym::Expr e) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  if (e.is_const()) return e.value() >= kLarge || e.value() <= -kLarge;
  const bool is_linear = e.kind() == sym::Kind::Add || e.kind() == sym::Kind::Mul;
  return is_linear && std::ranges::any_of(e.operands(), has_large_number);
}
std::optional<sym::Expr> unless_large(sym::Expr e) { return has_large_number(e) ? std::nullopt : std::optional(e); }

std::string key_of(sym::Expr e) {
  return e.is_const() ? fmt::format(" {}", e.value()) : fmt::format(" {}", static_cast<const void*>(e.node()));
}

std::string key_of(const Scalar& value) {
  return match(
      value, [](bool v) -> std::string { return v ? "t" : "f"; }, [](const sym::Expr& e) { return key_of(e); },
      [](double v) { return fmt::format("d{:x}", std::bit_cast<uint64_t>(v)); });
}

std::string key_of(const ExprOp& op, DType dtype) {
  std::string key = fmt::format("{}:{}:", op.index(), static_cast<int>(dtype));
  auto ids = [&](std::initializer_list<ExprId> list) {
    for (ExprId id : list) key += fmt::format(" {}", static_cast<uint32_t>(id));
  };
  match(
      op, [&](const Literal& o) { key += key_of(o.value); }, [&](const Index& o) { key += key_of(o.value); },
      [&](const Load& o) {
        key += fmt::format("{}", static_cast<uint32_t>(o.buffer));
        for (sym::Expr e : o.index) key += key_of(e);
      },
      [&](const Compute& o) {
        key += fmt::format("{}", static_cast<int>(o.op));
        for (ExprId id : o.operands) ids({id});
      },
      [&](const Convert& o) { ids({o.operand}); },
      [&](const BitcastTo& o) {
        ids({o.operand});
        key += fmt::format(" {} {}", static_cast<int>(o.from), static_cast<int>(o.to));
      },
      [&](const Masked& o) {
        ids({o.condition, o.value, o.otherwise});
      },
      [&](const Accumulated& o) { key += fmt::format("{}", static_cast<uint32_t>(o.id)); },
      [&](const Stashed& o) { key += fmt::format("{}", static_cast<uint32_t>(o.id)); });
  return key;
}

std::string key_of(ExprId id, sym::Expr size) { return fmt::format("{}/{}", static_cast<uint32_t>(id), key_of(size)); }

sym::Range range_below(sym::Expr size) { return {0, size.is_const() ? std::max<int64_t>(size.value() - 1, 0) : sym::kPosInf}; }

// The symbolic integers a node mentions.
std::vector<sym::Expr> indices_of(const ExprOp& op) {
  if (const auto* load = std::get_if<Load>(&op)) return load->index;
  if (const auto* index = std::get_if<Index>(&op)) return {index->value};
  return {};
}

}  // namespace

ExprId ExprTable::add(ExprOp op, DType dtype) {
  auto [slot, is_new] = interned_.try_emplace(key_of(op, dtype), ExprId{static_cast<uint32_t>(nodes_.size())});
  if (is_new) nodes_.push_back({std::move(op), dtype, origin_});
  return slot->second;
}

ExprId ExprTable::literal(Scalar value, DType dtype) {
  dtype = register_dtype(dtype);
  if (const auto* e = std::get_if<sym::Expr>(&value)) {
    if (!e->is_const()) return index(*e, dtype);
    if (is_floating(dtype)) value = static_cast<double>(e->value());
    if (dtype == DType::Bool) value = e->value() != 0;
  } else if (const auto* b = std::get_if<bool>(&value); b && dtype != DType::Bool) {
    value = is_floating(dtype) ? Scalar(*b ? 1.0 : 0.0) : Scalar(sym::Expr(*b ? 1 : 0));
  }
  return add(Literal{value}, dtype);
}

ExprId ExprTable::index(sym::Expr value, DType dtype) {
  dtype = register_dtype(dtype);
  if (value.is_const()) return literal(Scalar(value), dtype);
  return convert(add(Index{value}, DType::I64), dtype);
}

ExprId ExprTable::load(BufferId buffer, std::vector<sym::Expr> index, DType storage) {
  return add(Load{buffer, std::move(index)}, register_dtype(storage));
}

ExprId ExprTable::compute(ScalarOp op, std::vector<ExprId> operands) {
  if (op == ScalarOp::Where && operands[1] == operands[2]) return operands[1];
  if (const auto known = comparison(op, operands)) return *known;
  if (const auto known = condition(op, operands)) return *known;
  const DType dtype = result_dtype(op, this->dtype(operands[op == ScalarOp::Where ? 1 : 0]));
  return add(Compute{op, std::move(operands)}, dtype);
}

// Of conditions, where one is known.
std::optional<ExprId> ExprTable::condition(ScalarOp op, const std::vector<ExprId>& operands) {
  if (dtype(operands[0]) != DType::Bool) return std::nullopt;
  auto known = [&](ExprId id) {
    const auto* literal_op = std::get_if<Literal>(&node(id).op);
    const auto* value = literal_op != nullptr ? std::get_if<bool>(&literal_op->value) : nullptr;
    return value != nullptr ? std::optional(*value) : std::nullopt;
  };
  const std::optional<bool> first = known(operands[0]);
  if (op == ScalarOp::Where) return first ? std::optional(operands[*first ? 1 : 2]) : std::nullopt;
  if (op == ScalarOp::BitNot) return first ? std::optional(literal(!*first, DType::Bool)) : std::nullopt;
  const bool combines = op == ScalarOp::BitAnd || op == ScalarOp::BitOr || op == ScalarOp::BitXor;
  if (!combines) return std::nullopt;
  const std::optional<bool> second = known(operands[1]);
  if (!first && !second) return std::nullopt;
  const ExprId other = operands[first ? 1 : 0];
  const bool value = first ? *first : *second;
  if (op == ScalarOp::BitAnd) return value ? other : literal(false, DType::Bool);
  if (op == ScalarOp::BitOr) return value ? literal(true, DType::Bool) : other;
  return value ? compute(ScalarOp::BitNot, {other}) : other;
}

ExprId ExprTable::convert(ExprId operand, DType dtype) {
  dtype = register_dtype(dtype);
  const DType from = this->dtype(operand);
  if (from == dtype) return operand;
  if (const auto* constant = std::get_if<Literal>(&node(operand).op)) {
    Scalar value = constant->value;
    if (const auto* d = std::get_if<double>(&value)) {
      if (dtype == DType::F32) return literal(static_cast<double>(static_cast<float>(*d)), dtype);
      if (is_floating(dtype)) return literal(value, dtype);
      if (dtype == DType::Bool) return literal(*d != 0, dtype);
    } else if (dtype == DType::Bool || dtype == DType::I64 || (is_floating(dtype) && from != DType::U64)) {
      return literal(value, dtype);
    }
  }
  return add(Convert{operand}, dtype);
}

ExprId ExprTable::masked(ExprId condition, ExprId value, ExprId otherwise) {
  if (value == otherwise) return value;
  if (const auto* c = std::get_if<Literal>(&node(condition).op)) return std::get<bool>(c->value) ? value : otherwise;
  return add(Masked{condition, value, otherwise}, dtype(value));
}

// Integer arithmetic on axes and sizes as a symbolic expression; nullopt when a tensor's element takes part, or a number so large that
// tensors' arithmetic may wrap, as that of expressions does not.
std::optional<sym::Expr> ExprTable::symbolic(ExprId id) const {
  const ExprNode& n = node(id);
  if (const auto* index = std::get_if<Index>(&n.op)) return index->value;
  if (const auto* literal_op = std::get_if<Literal>(&n.op)) {
    const auto* e = std::get_if<sym::Expr>(&literal_op->value);
    return e && !has_large_number(*e) ? std::optional(*e) : std::nullopt;
  }
  const auto* c = std::get_if<Compute>(&n.op);
  if (c == nullptr || n.dtype != DType::I64 || c->operands.size() != 2) return std::nullopt;
  const auto a = symbolic(c->operands[0]);
  const auto b = a ? symbolic(c->operands[1]) : std::nullopt;
  if (!b) return std::nullopt;
  switch (c->op) {
    case ScalarOp::Add: return unless_large(*a + *b);
    case ScalarOp::Sub: return unless_large(*a - *b);
    case ScalarOp::Mul: return unless_large(*a * *b);
    case ScalarOp::FloorDiv:
      if (b->is_const(0)) return std::nullopt;
      return sym::floor_div(*a, *b);
    case ScalarOp::Mod:
      if (b->is_const(0)) return std::nullopt;
      return sym::mod(*a, *b);
    default: return std::nullopt;
  }
}

// Of axes and sizes: a condition on indices, as the bounds of a pad are.
std::optional<ExprId> ExprTable::comparison(ScalarOp op, const std::vector<ExprId>& operands) {
  const auto a = operands.size() == 2 && dtype(operands[0]) == DType::I64 ? symbolic(operands[0]) : std::nullopt;
  const auto b = a ? symbolic(operands[1]) : std::nullopt;
  if (!b) return std::nullopt;
  switch (op) {
    case ScalarOp::Eq: return convert(index(sym::eq(*a, *b)), DType::Bool);
    case ScalarOp::Ne: return convert(index(sym::ne(*a, *b)), DType::Bool);
    case ScalarOp::Lt: return convert(index(sym::lt(*a, *b)), DType::Bool);
    case ScalarOp::Le: return convert(index(sym::le(*a, *b)), DType::Bool);
    case ScalarOp::Gt: return convert(index(sym::lt(*b, *a)), DType::Bool);
    case ScalarOp::Ge: return convert(index(sym::le(*b, *a)), DType::Bool);
    default: return std::nullopt;
  }
}

sym::Expr ExprTable::as_index(ExprId id, sym::Expr size) {
  // A symbolic index was in bounds by construction only where its range says so; else it is checked like any value.
  if (const auto e = symbolic(id); e && sym::known_le(0, *e) && sym::known_lt(*e, size)) return *e;
  const std::string key = key_of(id, size);
  if (const auto found = value_of_expr_.find(key); found != value_of_expr_.end()) return found->second;
  const sym::Expr symbol = symbols_.value(range_below(size), "v");
  value_of_expr_.emplace(key, symbol);
  values_.emplace(symbol, ValueSymbol{id, size});
  return symbol;
}

sym::Expr ExprTable::define_value(std::string_view name, ExprId id, sym::Expr size) {
  const sym::Expr symbol = sym::named_value(symbols_, name, range_below(size));
  value_of_expr_.emplace(key_of(id, size), symbol);
  values_.emplace(symbol, ValueSymbol{id, size});
  return symbol;
}

const ValueSymbol* ExprTable::value_symbol(sym::Expr symbol) const {
  const auto found = values_.find(symbol);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<ExprId> ExprTable::operands(ExprId id) const {
  const ExprOp& op = node(id).op;
  std::vector<ExprId> result;
  match(
      op, [](const Literal&) {}, [](const Index&) {}, [](const Load&) {}, [&](const Compute& o) { result = o.operands; },
      [&](const Convert& o) { result = {o.operand}; }, [&](const BitcastTo& o) { result = {o.operand}; },
      [&](const Masked& o) {
        result = {o.condition, o.value, o.otherwise};
      },
      [](const Accumulated&) {}, [](const Stashed&) {});
  for (sym::Expr index : indices_of(op)) {
    if (index.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(index)) {
      if (const ValueSymbol* value = value_symbol(symbol)) result.push_back(value->index);
    }
  }
  return result;
}

sym::Expr ExprTable::rewrite_index(sym::Expr index, const sym::Substitution& axes, const Leaf& leaf, Memo& memo) {
  if (index.is_const()) return index;
  sym::Substitution all;
  for (sym::Expr symbol : sym::free_symbols(index)) {
    if (const ValueSymbol* value = value_symbol(symbol)) {
      const ValueSymbol old = *value;
      const ExprId inner = rewrite(old.index, axes, leaf, memo);
      if (inner != old.index) all.emplace_back(symbol, as_index(inner, old.size));
    } else {
      for (const auto& [from, to] : axes) {
        if (from == symbol) all.emplace_back(from, to);
      }
    }
  }
  return all.empty() ? index : sym::substitute(index, all);
}

ExprId ExprTable::rewrite(ExprId id, const sym::Substitution& axes, const Leaf& leaf, Memo& memo) {
  if (const auto found = memo.find(id); found != memo.end()) return found->second;
  if (leaf) {
    if (const auto replaced = leaf(id)) {
      memo[id] = *replaced;
      return *replaced;
    }
  }
  const ExprNode n = node(id);  // a copy: the table grows below
  const ProvenanceId outer_origin = std::exchange(origin_, n.origin);
  auto sub = [&](ExprId operand) { return rewrite(operand, axes, leaf, memo); };
  const ExprId result = match(
      n.op, [&](const Literal&) { return id; }, [&](const Index& o) { return index(rewrite_index(o.value, axes, leaf, memo), n.dtype); },
      [&](const Load& o) {
        std::vector<sym::Expr> new_index;
        for (sym::Expr e : o.index) new_index.push_back(rewrite_index(e, axes, leaf, memo));
        return add(Load{o.buffer, std::move(new_index)}, n.dtype);
      },
      [&](const Compute& o) {
        std::vector<ExprId> new_operands;
        for (ExprId operand : o.operands) new_operands.push_back(sub(operand));
        return compute(o.op, std::move(new_operands));
      },
      [&](const Convert& o) { return convert(sub(o.operand), n.dtype); },
      [&](const BitcastTo& o) {
        return add(BitcastTo{sub(o.operand), o.from, o.to}, n.dtype);
      },
      [&](const Masked& o) {
        const ExprId condition = sub(o.condition);
        const ExprId value = sub(o.value);
        return masked(condition, value, sub(o.otherwise));
      },
      [&](const Accumulated&) { return id; }, [&](const Stashed&) { return id; });
  origin_ = outer_origin;
  memo[id] = result;
  return result;
}

ExprId ExprTable::substitute(ExprId id, const sym::Substitution& axes) {
  if (axes.empty()) return id;
  Memo memo;
  return rewrite(id, axes, nullptr, memo);
}

BufferId LoopProgram::add_buffer(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return BufferId{static_cast<uint32_t>(buffers.size() - 1)};
}

sym::Expr elements_in_memory(const Buffer& buffer) {
  if (!buffer.has_padded_rows) return sym::product(buffer.sizes);
  return buffer.sizes[0] * buffer.strides[0];
}

bool lies_in_padded_rows(const Buffer& buffer) {
  const size_t rank = buffer.sizes.size();
  if (rank < 2 || !buffer.strides[rank - 1].is_const(1)) return false;
  const sym::Expr row = buffer.strides[rank - 2];
  if (!row.is_const() || !buffer.sizes[rank - 1].is_const() || row.value() <= buffer.sizes[rank - 1].value()) return false;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (!sym::known_eq(buffer.strides[d], buffer.strides[d + 1] * buffer.sizes[d + 1])) return false;
  }
  return true;
}

std::vector<ExprId> reachable(const ExprTable& exprs, const std::vector<ExprId>& roots) {
  std::vector<ExprId> order;
  std::unordered_map<ExprId, bool> seen;
  struct Frame {
    ExprId id;
    std::vector<ExprId> operands;
    size_t next = 0;
  };
  for (ExprId root : roots) {
    if (std::exchange(seen[root], true)) continue;
    std::vector<Frame> stack;
    stack.push_back({root, exprs.operands(root)});
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.operands.size()) {
        order.push_back(top.id);
        stack.pop_back();
        continue;
      }
      const ExprId operand = top.operands[top.next++];
      if (!std::exchange(seen[operand], true)) stack.push_back({operand, exprs.operands(operand)});
    }
  }
  return order;
}

Scores Scores::of(const ExprTable& exprs, std::vector<sym::Expr> axes, ExprId value, std::optional<ExprId> visible) {
  Scores scores{std::move(axes), value, visible, {}};
  for (ExprId id : reachable(exprs, toroid::loop::roots(scores))) {
    const auto* load = std::get_if<Load>(&exprs.node(id).op);
    if (load == nullptr || std::find(scores.reads.begin(), scores.reads.end(), load->buffer) != scores.reads.end()) continue;
    scores.reads.push_back(load->buffer);
  }
  return scores;
}

std::vector<ExprId> roots(const Scores& scores) {
  std::vector<ExprId> result = {scores.value};
  if (scores.visible) result.push_back(*scores.visible);
  return result;
}

std::vector<ExprId> roots(const LoopProgram& program, const Computation& computation) {
  return match(
      computation.work, [](const Map& w) { return std::vector<ExprId>{w.value}; },
      [](const Reduction& w) { return std::vector<ExprId>{w.value}; }, [](const ScanLoop& w) { return std::vector<ExprId>{w.value}; },
      [&](const ScatterLoop& w) {
        std::vector<ExprId> result = {w.value};
        for (sym::Expr index : w.index) {
          if (index.is_const()) continue;
          for (sym::Expr symbol : sym::free_symbols(index)) {
            if (const ValueSymbol* value = program.exprs.value_symbol(symbol)) result.push_back(value->index);
          }
        }
        return result;
      },
      [](const Call& w) { return w.scores ? roots(*w.scores) : std::vector<ExprId>{}; }, [](const Bind&) { return std::vector<ExprId>{}; });
}

bool is_on_host(const LoopProgram& program, const Computation& computation) {
  if (const auto* bind = std::get_if<Bind>(&computation.work)) return program.buffer(bind->value).on_host;
  return !computation.outputs.empty() && program.buffer(computation.outputs[0]).on_host;
}

std::vector<BufferId> reads(const LoopProgram& program, const Computation& computation) {
  std::vector<BufferId> result;
  auto add = [&](BufferId buffer) {
    if (std::find(result.begin(), result.end(), buffer) == result.end()) result.push_back(buffer);
  };
  for (ExprId id : reachable(program.exprs, roots(program, computation))) {
    if (const auto* load = std::get_if<Load>(&program.exprs.node(id).op)) add(load->buffer);
  }
  if (const auto* scatter = std::get_if<ScatterLoop>(&computation.work)) add(scatter->base);
  if (const auto* call = std::get_if<Call>(&computation.work)) {
    for (const Operand& operand : call->operands) add(operand.buffer);
  }
  if (const auto* bind = std::get_if<Bind>(&computation.work)) add(bind->value);
  return result;
}

namespace {

// The integers among the attributes of an operation that stays whole.
std::vector<sym::Expr> integers_of(const Op& op) {
  std::vector<sym::Expr> result;
  auto add = [&](const std::vector<sym::Expr>& list) { result.insert(result.end(), list.begin(), list.end()); };
  if (const auto* convolution = std::get_if<Convolution>(&op)) {
    for (const auto* list : {&convolution->stride, &convolution->padding, &convolution->dilation, &convolution->output_padding}) add(*list);
    result.push_back(convolution->groups);
  } else if (const auto* library = std::get_if<Library>(&op)) {
    for (const Scalar& attribute : library->attributes) {
      if (const auto* integer = std::get_if<sym::Expr>(&attribute)) result.push_back(*integer);
    }
  } else if (const auto* control_flow = std::get_if<HigherOrder>(&op)) {
    for (const Argument& argument : control_flow->arguments) {
      if (const auto* integer = std::get_if<sym::Expr>(&argument)) result.push_back(*integer);
      if (const auto* list = std::get_if<ExprList>(&argument)) add(*list);
    }
  }
  return result;
}

}  // namespace

std::vector<sym::Expr> size_symbols(const LoopProgram& program, const Computation& computation) {
  std::vector<sym::Expr> result;
  std::unordered_map<sym::Expr, bool> seen;
  std::function<void(sym::Expr)> add = [&](sym::Expr e) {
    if (e.is_const()) return;
    for (sym::Expr symbol : sym::free_symbols(e)) {
      if (std::exchange(seen[symbol], true)) continue;
      const sym::Node& node = *symbol.node();
      if (node.symbol_kind == sym::SymbolKind::Axis) add(*node.extent);
      if (const ValueSymbol* value = program.exprs.value_symbol(symbol)) add(value->size);
      if (node.symbol_kind == sym::SymbolKind::Size || node.symbol_kind == sym::SymbolKind::DataDependent) result.push_back(symbol);
    }
  };
  auto add_all = [&](const std::vector<sym::Expr>& list) {
    for (sym::Expr e : list) add(e);
  };
  auto add_buffer = [&](BufferId id) {
    add_all(program.buffer(id).sizes);
    add_all(program.buffer(id).strides);
  };
  for (BufferId out : computation.outputs) add_buffer(out);
  for (BufferId in : reads(program, computation)) add_buffer(in);
  for (ExprId id : reachable(program.exprs, roots(program, computation))) {
    const ExprOp& op = program.exprs.node(id).op;
    if (const auto* load = std::get_if<Load>(&op)) add_all(load->index);
    if (const auto* index = std::get_if<Index>(&op)) add(index->value);
    if (const auto* literal = std::get_if<Literal>(&op)) {
      if (const auto* number = std::get_if<sym::Expr>(&literal->value)) add(*number);
    }
  }
  match(
      computation.work, [&](const Map& w) { add_all(w.axes); },
      [&](const Reduction& w) {
        add_all(w.axes);
        add_all(w.reduce_axes);
      },
      [&](const ScanLoop& w) { add_all(w.axes); },
      [&](const ScatterLoop& w) {
        add_all(w.axes);
        add_all(w.index);
      },
      [&](const Call& w) {
        for (const Operand& operand : w.operands) {
          add_all(operand.sizes);
          add_all(operand.strides);
          add(operand.offset);
        }
        add_all(integers_of(w.op));
        if (w.scores) add_all(w.scores->axes);
      },
      [](const Bind&) {});
  return result;
}

}  // namespace toroid::loop
