#include "loop/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/builder.h"
#include "graph/text/text_names.h"
#include "support/match.h"

namespace toroid::loop {
namespace {

// Expressions that lie deeper than this have a name: lines stay short, and nobody who reads them recurses far.
constexpr size_t kMaxDepth = 12;

// Operands that are written inside the expression.
std::vector<ExprId> written_inside(const ExprOp& op) {
  return match(
      op, [](const Literal&) { return std::vector<ExprId>{}; }, [](const Index&) { return std::vector<ExprId>{}; },
      [](const Load&) { return std::vector<ExprId>{}; }, [](const Compute& o) { return o.operands; },
      [](const Convert& o) { return std::vector<ExprId>{o.operand}; }, [](const BitcastTo& o) { return std::vector<ExprId>{o.operand}; },
      [](const Masked& o) {
        return std::vector<ExprId>{o.condition, o.value, o.otherwise};
      },
      [](const Accumulated&) { return std::vector<ExprId>{}; }, [](const Stashed&) { return std::vector<ExprId>{}; });
}

std::string literal_text(const Literal& literal, DType dtype) {
  const DType usual = match(
      literal.value, [](bool) { return DType::Bool; }, [](const sym::Expr&) { return DType::I64; }, [](double) { return DType::F32; });
  return toroid::to_string(literal.value) + (dtype == usual ? "" : fmt::format(":{}", toroid::to_string(dtype)));
}

std::string kind_text(const Buffer& buffer) {
  switch (buffer.kind) {
    case BufferKind::Input: return fmt::format(" = input {}", buffer.position);
    case BufferKind::Constant:
      return fmt::format(" = constant {}{}", buffer.position, buffer.updated_by ? fmt::format(" updated by {}", *buffer.updated_by) : "");
    case BufferKind::Output: return fmt::format(" = output {}", buffer.position);
    case BufferKind::Temporary: return "";
    case BufferKind::RandomState: return " = random";
    case BufferKind::Prepared: return " = prepared";
  }
  return "";
}

}  // namespace

void BlockText::line(std::string_view text) { text_ += fmt::format("{}{}\n", std::string(indent_, ' '), text); }
void BlockText::open(std::string_view text) {
  line(fmt::format("{} {{", text));
  indent_ += 2;
}
void BlockText::close() {
  indent_ -= 2;
  line("}");
}

std::string text_of(std::span<const sym::Expr> exprs) {
  std::string text;
  for (size_t i = 0; i < exprs.size(); ++i) text += (i > 0 ? ", " : "") + sym::to_string(exprs[i]);
  return text;
}

std::string_view care_text(SumCare care) {
  constexpr std::string_view kTexts[] = {"", "fine ", "finest "};
  return kTexts[static_cast<size_t>(care)];
}

std::string step_name(std::string_view name) {
  constexpr std::string_view kWords[] = {"origin",  "buffer", "axes",  "value",    "once",     "kernel", "scan",
                                         "scatter", "call",   "chain", "together", "lifetime", "bind"};
  return std::find(std::begin(kWords), std::end(kWords), name) == std::end(kWords) ? value_name(name) : "%" + quote(name);
}

std::string text_of_origins(std::span<const ProvenanceId> provenance) {
  std::string text;
  for (ProvenanceId id : provenance) text += fmt::format("{}{}", text.empty() ? " from " : ", ", static_cast<uint32_t>(id));
  return text;
}

std::string text_of_origins(const Graph& graph, std::string_view indent) {
  std::string text;
  for (size_t i = 1; i < graph.provenances().size(); ++i) {
    const Provenance& each = graph.provenances()[i];
    text += fmt::format("{}origin {} {} {} {} {}\n", indent, i, quote(each.op), quote(each.name), quote(each.module), quote(each.source));
  }
  return text;
}

std::string text_of_call(const Op& op) {
  const auto* control_flow = std::get_if<HigherOrder>(&op);
  if (control_flow == nullptr) {
    const std::string text = toroid::to_string(op);
    return text.find('(') == std::string::npos ? text + "()" : text;
  }
  const auto input = [](const std::optional<InputRef>& ref) { return ref ? fmt::format("in{}", ref->index) : std::string("none"); };
  std::string arguments;
  for (const Argument& argument : control_flow->arguments) {
    if (&argument != control_flow->arguments.data()) arguments += ", ";
    const auto* expr = std::get_if<sym::Expr>(&argument);
    if (const auto* one = std::get_if<InputRef>(&argument)) {
      arguments += input(*one);
    } else if (const auto* several = std::get_if<InputList>(&argument)) {
      std::string list;
      for (const auto& each : *several) list += (list.empty() ? "" : ", ") + input(each);
      arguments += fmt::format("[{}]", list);
    } else if (expr != nullptr && !expr->is_const()) {
      arguments += fmt::format("({})", sym::to_string(*expr));  // a symbol would be taken for a tensor
    } else {
      arguments += toroid::to_string(argument);
    }
  }
  return fmt::format("higher_order::{}({})", control_flow->name, arguments);
}

LoopTextWriter::LoopTextWriter(const LoopProgram& program) : program_(program) {
  for (const Buffer& each : program.buffers) ++times_named_[each.name];
  for (const Buffer& each : program.buffers) {
    add(each.sizes);
    add(each.strides);
  }
}

void LoopTextWriter::add(ExprId root) { roots_.push_back(root); }
void LoopTextWriter::name(ExprId id) {
  referred_.insert(id);
  roots_.push_back(id);
}
void LoopTextWriter::add(std::span<const sym::Expr> exprs) {
  for (sym::Expr each : exprs) add(each);
}
void LoopTextWriter::add(sym::Expr expr) {
  if (expr.is_const()) return;
  for (sym::Expr symbol : sym::free_symbols(expr)) {
    if (!symbols_.insert(symbol).second) continue;
    if (symbol.node()->extent) add(*symbol.node()->extent);
    if (const ValueSymbol* value = program_.exprs.value_symbol(symbol)) {
      add(value->size);
      roots_.push_back(value->index);
    }
  }
}

void LoopTextWriter::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  // What a line holds was found on the way: value symbols may be in any index, and each has a line of its own.
  std::vector<ExprId> live;
  for (size_t known = 0; known != roots_.size();) {
    known = roots_.size();
    live = reachable(program_.exprs, roots_);
    for (ExprId id : live) {
      const ExprOp& op = program_.exprs.node(id).op;
      if (const auto* load = std::get_if<Load>(&op)) add(load->index);
      if (const auto* index = std::get_if<Index>(&op)) add(index->value);
    }
  }
  std::unordered_map<ExprId, int> uses;
  std::unordered_map<ExprId, size_t> depth;
  for (ExprId id : roots_) ++uses[id];
  for (ExprId id : live) {
    for (ExprId operand : written_inside(program_.exprs.node(id).op)) ++uses[operand];
  }
  for (ExprId id : live) {  // operands before users
    const std::vector<ExprId> operands = written_inside(program_.exprs.node(id).op);
    size_t inside = 0;
    for (ExprId operand : operands) inside = std::max(inside, is_named_.contains(operand) ? 0 : depth[operand]);
    depth[id] = inside + 1;
    if (referred_.contains(id) || (!operands.empty() && (uses[id] > 1 || inside + 1 >= kMaxDepth))) is_named_.insert(id);
  }
}

std::string LoopTextWriter::buffer(BufferId id) const {
  const std::string& name = program_.buffer(id).name;
  return value_name(name) + number_of(id);
}

std::string LoopTextWriter::plain_name(BufferId id) const { return program_.buffer(id).name + number_of(id); }

// "@3" where several buffers have one name.
std::string LoopTextWriter::number_of(BufferId id) const {
  return times_named_.at(program_.buffer(id).name) > 1 ? fmt::format("@{}", static_cast<uint32_t>(id)) : "";
}

std::string LoopTextWriter::buffers(std::span<const BufferId> list) const {
  std::string text;
  for (BufferId id : list) text += (text.empty() ? "" : ", ") + buffer(id);
  return text;
}

std::string LoopTextWriter::buffers(std::string_view indent) const {
  std::string text;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& each = program_.buffers[i];
    const TensorType type = {.dtype = each.dtype, .sizes = each.sizes, .strides = each.strides};
    text += fmt::format("{}buffer {}: {}{}{}\n", indent, buffer(BufferId{static_cast<uint32_t>(i)}), toroid::to_string(type),
                        kind_text(each), each.on_host ? " at host" : "");
  }
  return text;
}

std::string LoopTextWriter::symbols(std::string_view indent) {
  finish();
  std::string text;
  bool is_in_line = false;
  for (sym::Expr symbol : program_.exprs.symbols().symbols()) {
    if (!symbols_.contains(symbol)) continue;
    const std::string& name = symbol.node()->name;
    if (symbol.node()->symbol_kind == sym::SymbolKind::Axis) {
      text += is_in_line ? ", " : fmt::format("{}axes ", indent);
      text += fmt::format("{} in {}", name, sym::to_string(*symbol.node()->extent));
      is_in_line = true;
    } else if (const ValueSymbol* value = program_.exprs.value_symbol(symbol)) {
      if (std::exchange(is_in_line, false)) text += "\n";
      text += named({&value->index, 1}, indent);
      text += fmt::format("{}value {} below {} = {}\n", indent, name, sym::to_string(value->size), expr(value->index));
    }
  }
  return text + (is_in_line ? "\n" : "");
}

std::string LoopTextWriter::named(std::span<const ExprId> roots, std::string_view indent) {
  finish();
  std::string text;
  for (ExprId id : reachable(program_.exprs, {roots.begin(), roots.end()})) {
    if (!is_named_.contains(id) || names_.contains(id)) continue;
    text += fmt::format("{}e{} = {}\n", indent, names_.size(), expr_inside(id, {}));
    names_.emplace(id, names_.size());
  }
  return text;
}

std::string LoopTextWriter::expr(ExprId id, ProvenanceId origin) const {
  const auto named = names_.find(id);
  return named != names_.end() ? fmt::format("e{}", named->second) : expr_inside(id, origin);
}

std::string LoopTextWriter::expr_inside(ExprId id, ProvenanceId around) const {
  const ExprNode& node = program_.exprs.node(id);
  const std::string origin = node.origin == around ? "" : fmt::format("~{}", static_cast<uint32_t>(node.origin));
  const auto operands = [&] {
    std::string text;
    for (ExprId each : written_inside(node.op)) text += (text.empty() ? "" : ", ") + expr(each, node.origin);
    return fmt::format("{}({})", origin, text);
  };
  const auto typed = [&](std::string_view name, auto number) {
    return fmt::format("{}{}{}{}", name, static_cast<uint32_t>(number),
                       node.dtype == DType::F32 ? "" : fmt::format(":{}", toroid::to_string(node.dtype)), origin);
  };
  return match(
      node.op, [&](const Literal& o) { return literal_text(o, node.dtype) + origin; },
      [&](const Index& o) { return fmt::format("index{}({})", origin, sym::to_string(o.value)); },
      [&](const Load& o) { return fmt::format("{}{}[{}]", buffer(o.buffer), origin, text_of(o.index)); },
      [&](const Compute& o) { return std::string(toroid::to_string(o.op)) + operands(); },
      [&](const Convert&) { return std::string(toroid::to_string(node.dtype)) + operands(); },
      [&](const BitcastTo& o) { return fmt::format("bitcast.{}.{}{}", toroid::to_string(o.from), toroid::to_string(o.to), operands()); },
      [&](const Masked&) { return "masked" + operands(); }, [&](const Accumulated& o) { return typed("acc", o.id); },
      [&](const Stashed& o) { return typed("stash", o.id); });
}

std::string LoopTextWriter::operand(const Operand& operand) const {
  std::string text = fmt::format("{}[{}]", buffer(operand.buffer), text_of(operand.sizes));
  if (operand.strides != contiguous_strides(operand.sizes)) text += fmt::format(" strides [{}]", text_of(operand.strides));
  if (!operand.offset.is_const(0)) text += fmt::format(" offset({})", sym::to_string(operand.offset));
  return text;
}

std::string LoopTextWriter::scores(const Call& call, ProvenanceId origin) const {
  if (!call.scores) return "";
  const std::string condition = call.scores->visible ? " where " + expr(*call.scores->visible, origin) : "";
  return fmt::format(" scores [{}] = {}{}", text_of(call.scores->axes), expr(call.scores->value, origin), condition);
}

std::string to_string(const LoopProgram& program, ExprId id) { return LoopTextWriter(program).expr(id, program.exprs.node(id).origin); }

}  // namespace toroid::loop
