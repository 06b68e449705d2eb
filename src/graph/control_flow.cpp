#include "graph/control_flow.h"

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/type_rules.h"

namespace toroid {
namespace {

// The operands of a list argument, by their positions.
using Positions = std::vector<uint32_t>;

class ControlFlow {
 public:
  ControlFlow(const HigherOrder& op, std::span<const TensorType* const> operands, std::span<const Graph> subgraphs,
              std::vector<sym::Expr>* guards)
      : op_(op), operands_(operands), subgraphs_(subgraphs), guards_(guards) {}

  std::vector<TensorType> types() const {
    if (op_.name == "cond") return cond();
    if (op_.name == "while_loop") return while_loop();
    if (op_.name == "scan") return takes(4), scan(true);
    if (op_.name == "map_impl") return takes(3), scan(false);
    if (op_.name == "vmap") return takes(op_.arguments.size() == 3 ? 3 : 4), scan(false);  // the randomness may be left out
    if (op_.name == "associative_scan") return associative_scan();
    throw Error(ErrorKind::Unsupported, fmt::format("the higher-order operator '{}' is not supported", op_.name.substr(0, 80)));
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::InvalidModel, fmt::format("{}: {}", op_.name, fmt::format(format, std::forward<Args>(args)...)));
  }

  // ---- arguments

  void takes(size_t count) const {
    if (op_.arguments.size() != count) refuse("it takes {} arguments, not {}", count, op_.arguments.size());
  }

  const Graph& subgraph(size_t argument) const {
    const auto* ref = std::get_if<SubgraphRef>(&op_.arguments[argument]);
    if (ref == nullptr) refuse("argument {} is {}, not a subgraph", argument, to_string(op_.arguments[argument]));
    if (ref->index >= subgraphs_.size()) refuse("there is no subgraph {}", ref->index);
    return subgraphs_[ref->index];
  }

  // Numbers have no place of their own: subgraphs know them by their expressions, which the importer compares.
  Positions tensors(size_t argument) const {
    const Argument& list = op_.arguments[argument];
    if (std::holds_alternative<ExprList>(list)) return {};
    const auto* tensors = std::get_if<InputList>(&list);
    if (tensors == nullptr) refuse("argument {} is {}, not a list of tensors", argument, to_string(list));
    Positions positions;
    for (const std::optional<InputRef>& tensor : *tensors) {
      if (!tensor) refuse("argument {} holds none in the place of a tensor", argument);
      if (tensor->index >= operands_.size()) refuse("there is no operand {}", tensor->index);
      positions.push_back(tensor->index);
    }
    return positions;
  }

  std::vector<TensorType> types_of(const Positions& positions) const {
    std::vector<TensorType> types;
    for (uint32_t position : positions) types.push_back({.dtype = operands_[position]->dtype, .sizes = operands_[position]->sizes});
    return types;
  }

  // ---- what must fit

  void same_type(const TensorType& a, const TensorType& b, std::string_view what, size_t position) const {
    bool agrees = a.dtype == b.dtype && a.rank() == b.rank();
    for (size_t d = 0; agrees && d < a.sizes.size(); ++d) agrees = agree(a.sizes[d], b.sizes[d], guards_);
    if (!agrees) refuse("{} {} is {}, not {}", what, position, to_string(plain(b)), to_string(plain(a)));
  }
  static TensorType plain(const TensorType& type) { return {.dtype = type.dtype, .sizes = type.sizes}; }

  // The subgraph takes tensors of these types.
  void is_given(const Graph& graph, std::span<const TensorType> types, std::string_view role) const {
    if (graph.inputs.size() != types.size()) refuse("its {} takes {} tensors, and is given {}", role, graph.inputs.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i)
      same_type(types[i], graph.type(graph.inputs[i]), fmt::format("what its {} takes as tensor", role), i);
  }

  static std::vector<TensorType> results_of(const Graph& graph) {
    std::vector<TensorType> types;
    for (ValueId output : graph.outputs) types.push_back(plain(graph.type(output)));
    return types;
  }

  // The subgraph's first results have these types.
  void gives(const Graph& graph, std::span<const TensorType> types, std::string_view role) const {
    if (graph.outputs.size() < types.size()) refuse("its {} gives {} tensors, and must give {}", role, graph.outputs.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i)
      same_type(types[i], graph.type(graph.outputs[i]), fmt::format("what its {} gives as tensor", role), i);
  }
  void gives_only(const Graph& graph, std::span<const TensorType> types, std::string_view role) const {
    if (graph.outputs.size() != types.size()) refuse("its {} gives {} tensors, and must give {}", role, graph.outputs.size(), types.size());
    gives(graph, types, role);
  }

  // One number or truth value, which decides what is done next.
  void decides(const TensorType& type, std::string_view what) const {
    bool is_one = !is_complex(type.dtype) && size_bytes(type.dtype) > 0;
    for (sym::Expr size : type.sizes) is_one = is_one && agree(size, 1, guards_);
    if (!is_one) refuse("{} is {}, not one truth value", what, to_string(plain(type)));
  }

  // How many slices the tensors have, all of them as many.
  sym::Expr steps(const std::vector<TensorType>& sliced) const {
    if (sliced.empty()) throw Error(ErrorKind::Unsupported, fmt::format("{} over no tensors is not supported", op_.name));
    for (size_t i = 0; i < sliced.size(); ++i) {
      if (sliced[i].sizes.empty()) refuse("tensor {} of those that it slices has no dims", i);
      if (!agree(sliced[0].sizes[0], sliced[i].sizes[0], guards_)) {
        refuse("it slices {} and {}, which have different numbers of slices", to_string(sliced[0]), to_string(sliced[i]));
      }
    }
    return sliced[0].sizes[0];
  }
  static TensorType slice(TensorType type) {
    type.sizes.erase(type.sizes.begin());
    return type;
  }
  static void append(std::vector<TensorType>& to, const std::vector<TensorType>& types) { to.insert(to.end(), types.begin(), types.end()); }

  // ---- the operators

  std::vector<TensorType> cond() const {
    takes(4);
    const Argument& predicate = op_.arguments[0];
    if (const auto* tensor = std::get_if<InputRef>(&predicate)) {
      if (tensor->index >= operands_.size()) refuse("there is no operand {}", tensor->index);
      decides(*operands_[tensor->index], "its predicate");
    } else if (!std::holds_alternative<sym::Expr>(predicate) && !std::holds_alternative<bool>(predicate)) {
      refuse("its predicate is {}, neither a tensor nor a truth value", to_string(predicate));
    }
    const std::vector<TensorType> operands = types_of(tensors(3));
    const Graph& yes = subgraph(1);
    const Graph& no = subgraph(2);
    is_given(yes, operands, "true branch");
    is_given(no, operands, "false branch");
    std::vector<TensorType> results = results_of(yes);
    gives_only(no, results, "false branch");
    return results;
  }

  std::vector<TensorType> while_loop() const {
    takes(4);
    const std::vector<TensorType> carried = types_of(tensors(2));
    std::vector<TensorType> all = carried;
    append(all, types_of(tensors(3)));
    const Graph& condition = subgraph(0);
    is_given(condition, all, "condition");
    if (condition.outputs.size() != 1) refuse("its condition gives {} tensors, and must give 1", condition.outputs.size());
    decides(condition.type(condition.outputs[0]), "what its condition gives");
    const Graph& body = subgraph(1);
    is_given(body, all, "body");
    gives_only(body, carried, "body");
    return carried;
  }

  std::vector<TensorType> scan(bool carries) const {
    std::vector<TensorType> results = carries ? types_of(tensors(1)) : std::vector<TensorType>();
    const size_t carried = results.size();
    const std::vector<TensorType> sliced = types_of(tensors(carries ? 2 : 1));
    const sym::Expr count = steps(sliced);
    std::vector<TensorType> given = results;
    for (const TensorType& type : sliced) given.push_back(slice(type));
    append(given, types_of(tensors(carries ? 3 : 2)));
    const Graph& body = subgraph(0);
    is_given(body, given, "body");
    gives(body, results, "body");
    for (size_t i = carried; i < body.outputs.size(); ++i) {
      results.push_back(plain(body.type(body.outputs[i])));
      results.back().sizes.insert(results.back().sizes.begin(), count);
    }
    return results;
  }

  std::vector<TensorType> associative_scan() const {
    takes(3);
    const std::vector<TensorType> results = types_of(tensors(1));
    steps(results);
    std::vector<TensorType> slices;
    for (const TensorType& type : results) slices.push_back(slice(type));
    std::vector<TensorType> given = slices;
    append(given, slices);
    append(given, types_of(tensors(2)));
    const Graph& body = subgraph(0);
    is_given(body, given, "body");
    gives_only(body, slices, "body");
    return results;
  }

  const HigherOrder& op_;
  std::span<const TensorType* const> operands_;
  std::span<const Graph> subgraphs_;
  std::vector<sym::Expr>* guards_;
};

}  // namespace

std::vector<TensorType> control_flow_types(const HigherOrder& op, std::span<const TensorType* const> operands,
                                           std::span<const Graph> subgraphs, std::vector<sym::Expr>* guards) {
  return ControlFlow(op, operands, subgraphs, guards).types();
}

}  // namespace toroid
