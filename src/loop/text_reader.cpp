#include "loop/text_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/text/text.h"
#include "graph/type_rules.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "support/match.h"
#include "symbolic/named_symbols.h"

namespace toroid::loop {
namespace {

// Expressions inside each other; the writer names those that lie deeper than 12.
constexpr int kMaxNesting = 100;

// "acc12" with this prefix: 12.
std::optional<uint32_t> number_behind(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return std::nullopt;
  word.remove_prefix(prefix.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace

void LoopTextReader::read_head(std::string_view text) {
  size_t end = 0;
  program_ = parse_text_prefix(text, end);
  cursor_.move_to(end);
}

void LoopTextReader::expect_subgraph(std::string_view word, size_t index) {
  for (std::string_view each : {word, std::string_view("of"), std::string_view("subgraph")}) cursor_.expect_word(each);
  const size_t place = cursor_.place();
  if (static_cast<size_t>(number("the number of the subgraph")) != index)
    cursor_.fail_at(place, fmt::format("expected subgraph {}", index));
}

void LoopTextReader::begin(Graph& graph, LoopProgram& loops) {
  graph_ = &graph;
  loops_ = &loops;
  buffers_.clear();
  const LoopTextWriter names(loops);
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    const BufferId id{static_cast<uint32_t>(i)};
    buffers_.emplace(names.plain_name(id), id);
  }
  named_.clear();
  origin_now_ = {};
  declared_.clear();  // axes and values of another graph are not this one's
  for (sym::Expr symbol : program_.symbols->symbols()) {
    if (symbol.node()->has_sizes) declared_.insert(symbol.node()->name);
  }
}

int LoopTextReader::number(std::string_view wanted) {
  const size_t place = cursor_.place();
  const int64_t value = integer(cursor_.word(wanted));
  if (value < 0) cursor_.fail_at(place, fmt::format("expected {}", wanted));
  return small(place, value);
}

// ---- declarations

bool LoopTextReader::declaration() {
  const size_t place = cursor_.place();
  if (cursor_.accept_word("origin")) {
    origin();
  } else if (cursor_.accept_word("buffer")) {
    declare_buffer();
  } else if (cursor_.accept_word("axes")) {
    declare_axes();
  } else if (cursor_.accept_word("value")) {
    declare_value();
  } else if (number_behind(cursor_.next_word(), "e")) {
    const std::string name = cursor_.word("a name");
    if (!cursor_.accept("=")) return cursor_.move_to(place), false;
    if (name != fmt::format("e{}", named_.size()))
      cursor_.fail_at(place, fmt::format("{} stands in the place of e{}", name, named_.size()));
    named_.push_back(expression({}));
  } else {
    return cursor_.move_to(place), false;
  }
  return true;
}

ProvenanceId LoopTextReader::origin_number() {
  const size_t place = cursor_.place();
  const auto id = static_cast<size_t>(number("the number of an origin"));
  if (id >= graph_->provenances().size()) cursor_.fail_at(place, fmt::format("there is no origin {}", id));
  return ProvenanceId{static_cast<uint32_t>(id)};
}

void LoopTextReader::origin() {
  if (cursor_.accept_word("now")) {
    origin_now_ = origin_number();
    return;
  }
  const size_t place = cursor_.place();
  const int given = number("the number of the origin");
  if (static_cast<size_t>(given) != graph_->provenances().size()) {
    cursor_.fail_at(place, fmt::format("origin {} stands in place {}", given, graph_->provenances().size()));
  }
  Provenance provenance;
  for (std::string* text : {&provenance.op, &provenance.name, &provenance.module, &provenance.source}) *text = cursor_.string_literal();
  graph_->add_provenance(std::move(provenance));
}

void LoopTextReader::declare_buffer() {
  const size_t place = cursor_.place();
  Buffer made;
  made.name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a buffer's name");
  std::string text = made.name;
  if (cursor_.accept("@")) {
    if (static_cast<size_t>(number("the buffer's number")) != loops_->buffers.size())
      cursor_.fail_at(place, "expected the buffer's own number");
    text += fmt::format("@{}", loops_->buffers.size());
  }
  cursor_.expect(":");
  const TensorType declared = type();
  if (!declared.storage_offset.is_const(0) || declared.device.type != Device::Type::Cpu) {
    cursor_.fail_at(place, "a buffer has no offset and no device");
  }
  made.dtype = declared.dtype;
  made.sizes = {declared.sizes.begin(), declared.sizes.end()};
  made.strides = at(place, [&] { return declared.strides.empty() ? contiguous_strides(made.sizes) : declared.strides; });
  if (cursor_.accept("=")) {
    if (cursor_.accept_word("prepared")) {
      made.kind = BufferKind::Prepared;
    } else if (cursor_.accept_word("random")) {
      made.kind = BufferKind::RandomState;
    } else {
      made.kind = cursor_.accept_word("input")    ? BufferKind::Input
                  : cursor_.accept_word("output") ? BufferKind::Output
                                                  : BufferKind::Constant;
      if (made.kind == BufferKind::Constant) cursor_.expect_word("constant");
      made.position = static_cast<uint32_t>(number("its number"));
      if (made.kind == BufferKind::Constant && cursor_.accept_word("updated")) {
        cursor_.expect_word("by");
        made.updated_by = static_cast<uint32_t>(number("the number of an output"));
      }
    }
  }
  if (cursor_.accept_word("at")) {
    cursor_.expect_word("host");
    made.on_host = true;
  }
  at(place, [&] { verify(made); });
  made.has_padded_rows = (made.kind == BufferKind::Temporary || made.kind == BufferKind::Prepared) && lies_in_padded_rows(made);
  if (!buffers_.emplace(text, BufferId{static_cast<uint32_t>(loops_->buffers.size())}).second) {
    cursor_.fail_at(place, fmt::format("buffer '{}' is declared twice", text));
  }
  loops_->add_buffer(std::move(made));
}

void LoopTextReader::declare_axes() {
  do {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("an axis");
    cursor_.expect_word("in");
    const size_t extent_place = cursor_.place();
    const sym::Expr extent = expr(",");
    if (sym::known_lt(extent, 0)) cursor_.fail_at(extent_place, fmt::format("an extent of {}", sym::to_string(extent)));
    at(place, [&] { sym::named_axis(*program_.symbols, name, extent); });
    declared_.insert(name);
  } while (cursor_.accept(","));
}

void LoopTextReader::declare_value() {
  const size_t place = cursor_.place();
  const std::string name = cursor_.word("the value's name");
  cursor_.expect_word("below");
  const sym::Expr size = expr("=");
  cursor_.expect("=");
  const size_t index_place = cursor_.place();
  const ExprId index = expression({});
  const DType dtype = loops_->exprs.dtype(index);
  if (is_floating(dtype)) cursor_.fail_at(index_place, fmt::format("an index is an integer, not {}", to_string(dtype)));
  at(place, [&] { loops_->exprs.define_value(name, index, size); });
  declared_.insert(name);
}

// ---- names

std::string LoopTextReader::step_name() { return cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a name"); }

std::vector<ProvenanceId> LoopTextReader::origins() {
  std::vector<ProvenanceId> result;
  if (!cursor_.accept_word("from")) return result;
  do result.push_back(origin_number());
  while (cursor_.accept(","));
  return result;
}

BufferId LoopTextReader::buffer() {
  const size_t place = cursor_.place();
  std::string name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("a buffer");
  if (cursor_.accept("@")) name += fmt::format("@{}", number("the buffer's number"));
  const auto found = buffers_.find(name);
  if (found == buffers_.end()) cursor_.fail_at(place, fmt::format("no buffer is called '{}'", name));
  return found->second;
}

std::vector<BufferId> LoopTextReader::buffers() {
  std::vector<BufferId> result;
  do result.push_back(buffer());
  while (cursor_.accept(","));
  return result;
}

sym::Expr LoopTextReader::axis() {
  const size_t place = cursor_.place();
  const std::string name = cursor_.word("an axis");
  const std::optional<sym::Expr> symbol = program_.symbols->find_symbol(name);
  if (!symbol || symbol->node()->symbol_kind != sym::SymbolKind::Axis || !declared_.contains(name)) {
    cursor_.fail_at(place, fmt::format("no axis is called '{}'", name));
  }
  return *symbol;
}

std::vector<sym::Expr> LoopTextReader::axis_names() {
  std::vector<sym::Expr> result;
  do {
    const size_t place = cursor_.place();
    result.push_back(axis());
    if (std::count(result.begin(), result.end(), result.back()) > 1) cursor_.fail_at(place, "an axis is given twice");
  } while (cursor_.accept(","));
  return result;
}

std::vector<sym::Expr> LoopTextReader::index_list() { return expr_list(); }

SumCare LoopTextReader::care() {
  if (cursor_.accept_word("fine")) return SumCare::Fine;
  return cursor_.accept_word("finest") ? SumCare::Finest : SumCare::Usual;
}

// ---- expressions

ExprId LoopTextReader::add(ExprOp op, DType dtype, ProvenanceId origin) {
  loops_->exprs.set_origin(origin);
  return loops_->exprs.add(std::move(op), dtype);
}

ExprId LoopTextReader::named_expression() {
  const size_t place = cursor_.place();
  const std::optional<uint32_t> number = number_behind(cursor_.word("a named expression"), "e");
  if (!number || *number >= named_.size()) cursor_.fail_at(place, "no expression has this name");
  return named_[*number];
}

ExprId LoopTextReader::expression(ProvenanceId origin, int depth) {
  const size_t place = cursor_.place();
  if (depth > kMaxNesting) cursor_.fail(fmt::format("expressions inside each other beyond {}", kMaxNesting));
  const std::string_view next = cursor_.next_word();
  const bool is_number = (!next.empty() && next[0] >= '0' && next[0] <= '9') || cursor_.next_is("-") || next == "inf" || next == "nan" ||
                         next == "true" || next == "false";
  if (is_number) return literal(place, origin);
  std::string name = cursor_.accept("%") ? cursor_.string_literal() : cursor_.word("an expression");
  const bool has_number = cursor_.accept("@");
  const std::string buffer_name = has_number ? fmt::format("{}@{}", name, number("the buffer's number")) : name;
  std::optional<DType> given;
  if (cursor_.accept(":")) given = dtype();
  if (cursor_.accept("~")) origin = origin_number();
  if (cursor_.next_is("[")) {
    const auto found = buffers_.find(buffer_name);
    if (found == buffers_.end()) cursor_.fail_at(place, fmt::format("no buffer is called '{}'", buffer_name));
    Load load{found->second, index_list()};
    return add(std::move(load), register_dtype(loops_->buffer(found->second).dtype), origin);
  }
  if (cursor_.accept("(")) {
    const ExprId made = operation(place, name, origin, depth);
    cursor_.expect(")");
    return made;
  }
  const DType dtype = given.value_or(DType::F32);
  if (const auto id = number_behind(name, "acc")) return add(Accumulated{AccumulatorId{*id}}, dtype, origin);
  if (const auto id = number_behind(name, "stash")) return add(Stashed{StashId{*id}}, dtype, origin);
  cursor_.move_to(place);
  return named_expression();
}

ExprId LoopTextReader::literal(size_t place, ProvenanceId origin) {
  // Up to ":dtype" or "~origin".
  const std::string_view text = cursor_.raw(",):~ ");
  DType dtype = DType::I64;
  Scalar value;
  if (text == "true" || text == "false") {
    dtype = DType::Bool;
    value = text == "true";
  } else if (const std::optional<double> number = floating(text)) {
    dtype = DType::F32;
    value = *number;
  } else {
    value = sym::Expr(integer(text));
  }
  if (cursor_.accept(":")) dtype = this->dtype();
  if (cursor_.accept("~")) origin = origin_number();
  at(place, [&] { verify(Literal{value}, dtype); });
  return add(Literal{value}, dtype, origin);
}

std::vector<ExprId> LoopTextReader::operands(size_t place, size_t count, ProvenanceId origin, int depth) {
  std::vector<ExprId> result;
  do result.push_back(expression(origin, depth + 1));
  while (cursor_.accept(","));
  if (result.size() != count) cursor_.fail_at(place, fmt::format("{} operands, not {}", count, result.size()));
  return result;
}

ExprId LoopTextReader::operation(size_t place, const std::string& name, ProvenanceId origin, int depth) {
  ExprTable& exprs = loops_->exprs;
  if (name == "index") {
    const sym::Expr value = expr(")");
    return add(Index{value}, DType::I64, origin);
  }
  if (name == "masked") {
    const std::vector<ExprId> list = operands(place, 3, origin, depth);
    at(place, [&] { verify_masked(exprs.dtype(list[0]), exprs.dtype(list[1]), exprs.dtype(list[2])); });
    return add(Masked{list[0], list[1], list[2]}, exprs.dtype(list[1]), origin);
  }
  if (const auto types = after(name, "bitcast.")) {
    const size_t dot = types->find('.');
    const std::optional<DType> from = parse_dtype(types->substr(0, dot));
    const std::optional<DType> to = dot == std::string_view::npos ? std::nullopt : parse_dtype(types->substr(dot + 1));
    if (!from || !to) cursor_.fail_at(place, fmt::format("no operation is called '{}'", name));
    const ExprId operand = operands(place, 1, origin, depth)[0];
    at(place, [&] { verify_bitcast(exprs.dtype(operand), *from, *to); });
    return add(BitcastTo{operand, *from, *to}, register_dtype(*to), origin);
  }
  if (const std::optional<DType> to = parse_dtype(name)) {
    const ExprId operand = operands(place, 1, origin, depth)[0];
    at(place, [&] { verify_convert(exprs.dtype(operand), *to); });
    return add(Convert{operand}, *to, origin);
  }
  const std::optional<ScalarOp> op = parse_scalar_op(name);
  if (!op) cursor_.fail_at(place, fmt::format("no operation is called '{}'", name));
  std::vector<ExprId> list = operands(place, static_cast<size_t>(arity(*op)), origin, depth);
  const DType dtype = at(place, [&] { return verified_dtype(*op, exprs, list); });
  return add(Compute{*op, std::move(list)}, dtype, origin);
}

// ---- calls

sym::Expr LoopTextReader::bracketed() {
  cursor_.expect("[");
  const sym::Expr made = expr("]");
  cursor_.expect("]");
  return made;
}

sym::Expr LoopTextReader::offset() {
  if (!cursor_.accept_word("offset")) return 0;
  cursor_.expect("(");
  const sym::Expr made = expr(")");
  cursor_.expect(")");
  return made;
}

Operand LoopTextReader::operand() {
  const size_t place = cursor_.place();
  Operand made{buffer(), expr_list(), {}, 0};
  made.strides = at(place, [&] { return contiguous_strides(made.sizes); });
  if (cursor_.accept_word("strides")) made.strides = expr_list();
  if (made.strides.size() != made.sizes.size()) cursor_.fail_at(place, "expected a stride for each dim");
  made.offset = offset();
  return made;
}

Call LoopTextReader::call(ProvenanceId origin) {
  // The operands first: control flow speaks of them.
  const size_t op_place = cursor_.place();
  cursor_.raw(" ");
  std::vector<Operand> operands;
  if (cursor_.accept_word("on")) {
    do operands.push_back(operand());
    while (cursor_.accept(","));
  }
  std::optional<Scores> scores;
  if (cursor_.accept_word("scores")) {
    std::vector<sym::Expr> axes = expr_list();
    cursor_.expect("=");
    const ExprId value = expression(origin);
    std::optional<ExprId> visible;
    if (cursor_.accept_word("where")) visible = expression(origin);
    scores = Scores::of(loops().exprs, std::move(axes), value, visible);
  }
  const size_t end = cursor_.place();
  cursor_.move_to(op_place);
  values_.clear();
  inputs_.clear();
  for (size_t i = 0; i < operands.size(); ++i) values_[fmt::format("in{}", i)] = ValueId{static_cast<uint32_t>(i)};
  Op op = OperationReader::operation();
  // Which operand an argument is, in the place of its turn among the arguments.
  const auto resolve = [&](InputRef& ref) { ref.index = static_cast<uint32_t>(inputs_[ref.index]); };
  if (auto* control_flow = std::get_if<HigherOrder>(&op)) {
    for (Argument& argument : control_flow->arguments) {
      if (auto* one = std::get_if<InputRef>(&argument)) resolve(*one);
      if (auto* several = std::get_if<InputList>(&argument)) {
        for (auto& each : *several) {
          if (each) resolve(*each);
        }
      }
    }
  } else if (!inputs_.empty()) {
    cursor_.fail_at(op_place, "operands stand behind 'on'");
  }
  cursor_.move_to(end);
  return {std::move(op), std::move(operands), std::move(scores)};
}

}  // namespace toroid::loop
