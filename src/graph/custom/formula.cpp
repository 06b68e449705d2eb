#include "graph/custom/formula.h"

#include "graph/text/operation_reader.h"

namespace toroid {
namespace {

class FormulaReader : private OperationReader {
 public:
  FormulaReader(const CustomOperator& op, sym::Context& context, FormulaNames names, const EmitNode& emit)
      : OperationReader(op.text), op_(op), emit_(emit) {
    symbols_around_ = &context;
    arguments_ = std::move(names.arguments);
    for (auto& [name, value] : names.tensors) values_.emplace(name, value);
    for (auto& [name, list] : names.lists) lists_.emplace(name, std::move(list));
    cursor_.move_to(*op.formula);
  }

  std::vector<ValueId> read() {
    cursor_.expect("{");
    while (!cursor_.accept_word("return")) read_node();
    std::vector<ValueId> results;
    if (cursor_.accept("}")) return results;
    do results.push_back(value());
    while (cursor_.accept(","));
    cursor_.expect("}");
    return results;
  }

 private:
  std::string new_name() {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word("a name");
    if (!is_plain_name(name)) cursor_.fail_at(place, fmt::format("'{}' is no name of a value", name));
    if (values_.contains(name) || lists_.contains(name) || argument_called(name) != nullptr)
      cursor_.fail_at(place, fmt::format("'{}' is defined already", name));
    return name;
  }

  void read_node() {
    const size_t start = cursor_.place();
    declared_types_.clear();
    inputs_.clear();
    axes_.clear();
    const std::vector<std::string> names = results([this] { return new_name(); });
    Op op = operation();
    check(op, start);
    std::vector<ValueId> values;
    try {
      values = emit_({std::move(op), inputs_, declared_types_, names.size()});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
      throw Error(error).at(fmt::format("at {}", op_.where(start)));
    }
    if (values.size() != names.size())
      cursor_.fail_at(start, fmt::format("the operation gives {} results, and {} are named", values.size(), names.size()));
    for (size_t i = 0; i < names.size(); ++i) values_[names[i]] = values[i];
  }

  void check(const Op& op, size_t start) const {
    const auto* aten = std::get_if<Aten>(&op);
    if (aten != nullptr && aten->schema->mutates())
      cursor_.fail_at(start, fmt::format("{} writes to its arguments; expected an operator that does not", aten->schema->name));
    if (std::holds_alternative<HigherOrder>(op) || std::holds_alternative<Constant>(op) || std::holds_alternative<RandomState>(op))
      cursor_.fail_at(start, fmt::format("expected an operator; {} cannot be a part of a formula", to_string(op)));
    const auto* library = std::get_if<Library>(&op);
    if (library != nullptr)
      cursor_.fail_at(start, fmt::format("expected an operator; 'library.{}' is a kernel of toroid's own", library->name));
  }

  const CustomOperator& op_;
  const EmitNode& emit_;
};

}  // namespace

std::vector<ValueId> read_formula(const CustomOperator& op, sym::Context& context, FormulaNames names, const EmitNode& emit) {
  return FormulaReader(op, context, std::move(names), emit).read();
}

}  // namespace toroid
