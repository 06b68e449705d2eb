#include "passes/decompose/custom/apply_custom.h"

#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/custom/custom_operators.h"
#include "graph/custom/formula.h"
#include "graph/type_rules.h"

namespace toroid {
namespace {

// Works for one use of an operator.
class CustomUse {
 public:
  CustomUse(Decomposer& d, const CustomOperator& op, const Args& a) : d_(d), b_(d.b), op_(op), a_(a) {}

  std::vector<Tensor> apply() {
    for (const Parameter& parameter : op_.schema.parameters) bind_number(parameter);
    for (const auto& [name, rule] : op_.arguments) bind_argument(name, rule);
    for (const PlacedText& fact : op_.requirements) {
      const sym::Expr holds = number(fact);
      if (holds.is_const(0) || !may_hold(holds, &d_.program.guards))
        fail(fact.place, fmt::format("{} needs {}, which does not hold here", op_.schema.name, fact.text));
    }
    const CustomKernel* kernel = d_.program.operators->kernel_of(op_);
    std::vector<Tensor> results = kernel == nullptr ? apply_formula() : apply_kernel(*kernel);
    check_results(results);
    return results;
  }

 private:
  [[noreturn]] void fail(size_t place, const std::string& message) const {
    throw Error(ErrorKind::InvalidModel, message).at(fmt::format("by the rule at {}", op_.where(place)));
  }

  // ---- what names stand for

  void set_length(const Parameter& list, size_t length) { arguments_[length_name(list)] = sym::Expr(static_cast<int64_t>(length)); }

  void bind_number(const Parameter& parameter) {
    if (parameter.type == ArgType::Tensor) {
      if (parameter.is_list) set_length(parameter, a_.optional_tensors(parameter.name).size());
      return;
    }
    const Argument& given = a_.raw(parameter.name);
    if (const auto* value = std::get_if<sym::Expr>(&given); value != nullptr && value->kind() == sym::Kind::Real)
      throw Error(ErrorKind::Unsupported,
                  fmt::format("argument '{}' of {} is a float that changes from call to call", parameter.name, op_.schema.name))
          .help("pass it as a tensor");
    if (const auto* list = std::get_if<ExprList>(&given)) set_length(parameter, list->size());
    if (const auto* list = std::get_if<std::vector<double>>(&given)) set_length(parameter, list->size());
    if (const auto* flag = std::get_if<bool>(&given); flag != nullptr && parameter.type != ArgType::Bool) {
      arguments_[parameter.name] = sym::Expr(*flag ? 1 : 0);
    } else if (const auto* value = std::get_if<sym::Expr>(&given);
               value != nullptr && parameter.type == ArgType::Float && value->is_const()) {
      arguments_[parameter.name] = static_cast<double>(value->value());
    } else {
      arguments_[parameter.name] = given;
    }
  }

  std::optional<sym::Expr> number_called(std::string_view name) const {
    if (const auto found = sizes_.find(name); found != sizes_.end()) return found->second;
    const auto found = arguments_.find(name);
    if (found == arguments_.end()) return std::nullopt;
    if (const auto* value = std::get_if<sym::Expr>(&found->second)) return *value;
    if (const auto* flag = std::get_if<bool>(&found->second)) return *flag ? 1 : 0;
    return std::nullopt;
  }
  sym::Expr number(const PlacedText& text) const {
    return op_.parse(text, b_.symbols(), [&](std::string_view name) { return number_called(name); });
  }

  void bind_argument(const std::string& name, const TypeRule& rule) {
    const auto parameter =
        std::find_if(op_.schema.parameters.begin(), op_.schema.parameters.end(), [&](const Parameter& each) { return each.name == name; });
    if (parameter->is_list) {
      for (const Tensor& each : a_.optional_tensors(name)) {
        if (each.defined()) bind_type(name, rule, each.type());
      }
    } else if (a_.has(name)) {
      bind_type(name, rule, a_.tensor(name).type());
    }
  }

  std::string text_of(const TypeRule& rule) const {
    std::string text = rule.dtype + "[";
    for (const TypeRule::Dim& dim : rule.dims)
      text += fmt::format("{}{}{}", &dim == &rule.dims[0] ? "" : ", ", dim.kind == TypeRule::Dim::Kind::Rest ? "*" : "", dim.text.text);
    return text + "]";
  }

  // What the names of the rule stand for already, for errors: "with b = 4, T = f32".
  std::string known_names() const {
    std::string text;
    const auto add = [&](std::string_view name, std::string_view value) {
      text += fmt::format("{}{} = {}", text.empty() ? ", with " : ", ", name, value);
    };
    for (const auto& [name, dtype] : dtypes_) add(name, to_string(dtype));
    for (const auto& [name, sizes] : rests_) {
      std::string list;
      for (sym::Expr size : sizes) list += fmt::format("{}{}", list.empty() ? "" : ", ", sym::to_string(size));
      add("*" + name, fmt::format("[{}]", list));
    }
    for (const auto& [name, size] : sizes_) {
      if (!rests_.contains(name)) add(name, sym::to_string(size));
    }
    return text;
  }

  void bind_type(const std::string& name, const TypeRule& rule, const TensorType& type) {
    const auto refuse = [&] {
      fail(rule.place, fmt::format("argument '{}' of {} is {}, and its rule says {}{}", name, op_.schema.name, to_string(type),
                                   text_of(rule), known_names()));
    };
    if (!bind_dtype(rule.dtype, type.dtype)) refuse();
    size_t rest_count = 0;
    const auto rest =
        std::find_if(rule.dims.begin(), rule.dims.end(), [](const TypeRule::Dim& dim) { return dim.kind == TypeRule::Dim::Kind::Rest; });
    const size_t fixed = rule.dims.size() - (rest == rule.dims.end() ? 0 : 1);
    if (type.sizes.size() < fixed || (rest == rule.dims.end() && type.sizes.size() != fixed)) refuse();
    rest_count = type.sizes.size() - fixed;
    size_t next = 0;
    for (const TypeRule::Dim& dim : rule.dims) {
      if (dim.kind == TypeRule::Dim::Kind::Any) {
        ++next;
      } else if (dim.kind == TypeRule::Dim::Kind::Size) {
        const sym::Expr size = type.sizes[next++];
        const std::optional<sym::Expr> known = is_new_size(dim.text.text) ? std::nullopt : std::optional(number(dim.text));
        if (!known) {
          sizes_.emplace(dim.text.text, size);
        } else if (!agree(size, *known, &d_.program.guards)) {
          refuse();
        }
      } else {
        Sizes sizes(type.sizes.begin() + static_cast<ptrdiff_t>(next), type.sizes.begin() + static_cast<ptrdiff_t>(next + rest_count));
        next += rest_count;
        const auto [known, is_new] = rests_.try_emplace(dim.text.text, sizes);
        if (is_new) sizes_.emplace(dim.text.text, sym::product(sizes));
        if (known->second.size() != sizes.size()) refuse();
        for (size_t d = 0; d < sizes.size(); ++d) {
          if (!agree(sizes[d], known->second[d], &d_.program.guards)) refuse();
        }
      }
    }
  }

  bool is_new_size(const std::string& text) const {
    return std::find(op_.size_names.begin(), op_.size_names.end(), text) != op_.size_names.end() && !sizes_.contains(text);
  }

  bool bind_dtype(const std::string& name, DType dtype) {
    if (const std::optional<DType> fixed = parse_dtype(name)) return *fixed == dtype;
    const auto declared = std::find_if(op_.dtypes.begin(), op_.dtypes.end(), [&](const auto& each) { return each.first == name; });
    if (std::find(declared->second.begin(), declared->second.end(), dtype) == declared->second.end()) return false;
    return dtypes_.try_emplace(name, dtype).first->second == dtype;
  }

  TensorType type_of(const TypeRule& rule) const {
    TensorType type;
    if (const std::optional<DType> fixed = parse_dtype(rule.dtype)) {
      type.dtype = *fixed;
    } else if (const auto known = dtypes_.find(rule.dtype); known != dtypes_.end()) {
      type.dtype = known->second;
    } else {
      fail(rule.place, fmt::format("no argument of {} tells what {} is", op_.schema.name, rule.dtype));
    }
    for (const TypeRule::Dim& dim : rule.dims) {
      if (dim.kind == TypeRule::Dim::Kind::Rest) {
        const auto known = rests_.find(dim.text.text);
        if (known == rests_.end()) fail(rule.place, fmt::format("no argument of {} tells what *{} is", op_.schema.name, dim.text.text));
        for (sym::Expr size : known->second) type.sizes.push_back(size);
      } else {
        const sym::Expr size = number(dim.text);
        if (!may_hold(sym::le(0, size), &d_.program.guards))
          fail(dim.text.place, fmt::format("the size {} is {}", dim.text.text, sym::to_string(size)));
        type.sizes.push_back(size);
      }
    }
    return type;
  }

  // ---- bodies

  std::vector<Tensor> apply_formula() {
    FormulaNames names;
    for (const auto& [name, value] : arguments_) names.arguments.emplace(name, value);
    for (const auto& [name, size] : sizes_) names.arguments.emplace(name, size);
    for (const auto& [name, dtype] : dtypes_) names.arguments.emplace(name, dtype);
    for (const Parameter& parameter : op_.schema.parameters) {
      if (parameter.type != ArgType::Tensor) continue;
      if (parameter.is_list) {
        for (const Tensor& each : a_.tensors(parameter.name)) names.lists[parameter.name].push_back(each.id());
        names.lists.try_emplace(parameter.name);
      } else if (a_.has(parameter.name)) {
        names.tensors.emplace(parameter.name, a_.tensor(parameter.name).id());
      } else {
        names.arguments.emplace(parameter.name, None{});
      }
    }
    std::vector<Tensor> results;
    const auto emit = [&](const FormulaNode& node) {
      std::vector<ValueId> ids;
      for (const Tensor& each : compute(node)) {
        if (!each.defined()) throw Error(ErrorKind::InvalidModel, "a result of the operation is undefined here");
        ids.push_back(each.id());
      }
      return ids;
    };
    for (ValueId id : read_formula(op_, b_.symbols(), std::move(names), emit)) results.push_back(b_.wrap(id));
    return results;
  }

  std::vector<Tensor> compute(const FormulaNode& node) {
    const auto* aten = std::get_if<Aten>(&node.op);
    if (aten == nullptr) return compute_core(node);
    std::vector<Decomposer::Value> values;
    for (const Argument& argument : aten->arguments) {
      if (const auto* one = std::get_if<InputRef>(&argument)) {
        values.emplace_back(b_.wrap(node.inputs[one->index]));
      } else if (const auto* many = std::get_if<InputList>(&argument)) {
        std::vector<Tensor> list;
        for (const std::optional<InputRef>& each : *many) list.push_back(each ? b_.wrap(node.inputs[each->index]) : Tensor());
        values.emplace_back(std::move(list));
      } else {
        values.emplace_back(argument);
      }
    }
    const Tensors computed = d_.call(aten->schema->name, std::move(values));
    std::vector<Tensor> results(computed.begin(), computed.end());
    for (size_t i = 0; i < node.declared.size() && i < results.size(); ++i) {
      if (!results[i].defined() || agrees(results[i].type(), node.declared[i])) continue;
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("{} gives {}, not {}", aten->schema->name, to_string(results[i].type()), to_string(node.declared[i])));
    }
    return results;
  }

  std::vector<Tensor> compute_core(const FormulaNode& node) {
    std::vector<Tensor> inputs;
    std::vector<const TensorType*> operands;
    for (ValueId id : node.inputs) inputs.push_back(b_.wrap(id));
    for (const Tensor& each : inputs) operands.push_back(&each.type());
    std::vector<TensorType> types = result_types(node.op, operands, node.declared, &d_.program.guards);
    for (size_t i = 0; i < types.size() && i < node.declared.size(); ++i) {
      if (!agrees(types[i], node.declared[i]))
        throw Error(ErrorKind::InvalidModel,
                    fmt::format("{} gives {}, not {}", to_string(node.op), to_string(types[i]), to_string(node.declared[i])));
    }
    return b_.emit(node.op, std::move(inputs), std::move(types));
  }

  bool agrees(const TensorType& got, const TensorType& wanted) const {
    if (got.dtype != wanted.dtype || got.sizes.size() != wanted.sizes.size()) return false;
    for (size_t i = 0; i < got.sizes.size(); ++i) {
      if (!agree(got.sizes[i], wanted.sizes[i], &d_.program.guards)) return false;
    }
    return true;
  }

  std::vector<Tensor> apply_kernel(const CustomKernel& kernel) {
    std::vector<Tensor> inputs, updated;
    std::vector<Scalar> numbers;
    for (const Parameter& parameter : op_.schema.parameters) {
      if (parameter.type != ArgType::Tensor) {
        add_number(parameter, numbers);
      } else if (parameter.is_list) {
        const Tensors list = a_.tensors(parameter.name);
        numbers.emplace_back(sym::Expr(static_cast<int64_t>(list.size())));
        inputs.insert(inputs.end(), list.begin(), list.end());
      } else {
        const bool is_there = a_.has(parameter.name);
        if (parameter.is_optional) numbers.emplace_back(sym::Expr(is_there ? 1 : 0));
        if (is_there) inputs.push_back(a_.tensor(parameter.name));
        if (parameter.mutated) updated.push_back(inputs.back());
      }
    }
    for (const std::string& name : op_.size_names) {
      const auto found = sizes_.find(name);  // none of an argument that is absent
      numbers.emplace_back(found == sizes_.end() ? sym::Expr(0) : found->second);
    }
    const auto add = [&](const std::optional<PlacedText>& text, sym::Expr otherwise) {
      const sym::Expr value = text ? number(*text) : otherwise;
      if (text && !may_hold(sym::le(0, value), &d_.program.guards))
        fail(text->place, fmt::format("{} is {}", text->text, sym::to_string(value)));
      numbers.emplace_back(value);
    };
    if (kernel.kind == CustomKernel::Kind::Triton) {
      add_grids(kernel, numbers);
    } else if (kernel.kind == CustomKernel::Kind::Cuda) {
      add(kernel.blocks, 1);
      add(kernel.threads, 1);
      add(kernel.shared, 0);
    } else {
      add(kernel.tasks, 1);
      add(kernel.work, 1);
    }
    std::vector<TensorType> types;
    for (const TypeRule& rule : op_.results) types.push_back(type_of(rule));
    for (const Tensor& each : updated) types.push_back({.dtype = each.dtype(), .sizes = each.sizes()});
    if (kernel.workspace) types.push_back({.dtype = DType::U8, .sizes = {number(*kernel.workspace)}});
    return in_order_of_results(b_.library(op_.library_name(kernel.kind), std::move(inputs), std::move(types), std::move(numbers)));
  }

  // Of each configuration three numbers of programs, then how many configurations there are.
  void add_grids(const CustomKernel& kernel, std::vector<Scalar>& numbers) const {
    constexpr size_t kDims = 3;
    for (const TritonConfiguration& configuration : kernel.configurations) {
      const auto called = [&](std::string_view name) -> std::optional<sym::Expr> {
        for (const auto& [constant, value] : configuration.constants) {
          if (constant == name) return sym::Expr(static_cast<int64_t>(std::stoll(value)));  // an integer: the file was checked
        }
        return number_called(name);
      };
      for (size_t d = 0; d < kDims; ++d) {
        const sym::Expr programs = d < kernel.grid.size() ? op_.parse(kernel.grid[d], b_.symbols(), called) : sym::Expr(1);
        if (!may_hold(sym::le(0, programs), &d_.program.guards))
          fail(kernel.grid[d].place, fmt::format("{} is {}", kernel.grid[d].text, sym::to_string(programs)));
        numbers.emplace_back(programs);
      }
    }
    numbers.emplace_back(sym::Expr(static_cast<int64_t>(kernel.configurations.size())));
  }

  void add_number(const Parameter& parameter, std::vector<Scalar>& numbers) const {
    const Argument& given = arguments_.at(parameter.name);
    if (const auto* list = std::get_if<ExprList>(&given)) {
      numbers.emplace_back(sym::Expr(static_cast<int64_t>(list->size())));
      numbers.insert(numbers.end(), list->begin(), list->end());
      return;
    }
    if (const auto* list = std::get_if<std::vector<double>>(&given)) {
      numbers.emplace_back(sym::Expr(static_cast<int64_t>(list->size())));
      numbers.insert(numbers.end(), list->begin(), list->end());
      return;
    }
    const bool is_there = !std::holds_alternative<None>(given);
    if (parameter.is_optional) numbers.emplace_back(sym::Expr(is_there ? 1 : 0));
    if (!is_there) {
      numbers.emplace_back(sym::Expr(0));
    } else if (parameter.type == ArgType::Float || parameter.type == ArgType::Scalar) {
      numbers.push_back(a_.scalar(parameter.name));
    } else {
      numbers.emplace_back(a_.integer(parameter.name));
    }
  }

  // From new results, then updated arguments, to the results of the schema, then the updated arguments that are none of them.
  std::vector<Tensor> in_order_of_results(std::vector<Tensor> computed) const {
    std::map<std::string, Tensor> updated;  // by alias
    size_t next = op_.results.size();
    for (const Parameter& parameter : op_.schema.parameters) {
      if (parameter.mutated) updated.emplace(parameter.alias, computed[next++]);
    }
    std::vector<Tensor> results;
    next = 0;
    for (const Parameter& result : op_.schema.results) {
      results.push_back(result.alias.empty() ? computed[next++] : updated.at(result.alias));
    }
    for (const Parameter& parameter : op_.schema.parameters) {
      const bool is_result = std::any_of(op_.schema.results.begin(), op_.schema.results.end(),
                                         [&](const Parameter& result) { return result.alias == parameter.alias; });
      if (parameter.mutated && !is_result) results.push_back(updated.at(parameter.alias));
    }
    return results;
  }

  // The rules', where the file has them, and what the model records.
  void check_results(const std::vector<Tensor>& results) const {
    size_t rule = 0;
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      const TypeRule* given = op_.schema.results[i].alias.empty() && rule < op_.results.size() ? &op_.results[rule++] : nullptr;
      const std::string where = given == nullptr ? op_.where(op_.formula.value_or(0)) : op_.where(given->place);
      const TensorType& type = results[i].type();
      if (given != nullptr && !agrees(type, type_of(*given))) {
        fail(given->place, fmt::format("the formula of {} gives {} as result {}, and its rule says {}, {}", op_.schema.name,
                                       to_string(type), i, text_of(*given), to_string(type_of(*given))));
      }
      if (i >= d_.recorded.size()) continue;
      const TensorType recorded{.dtype = d_.recorded[i].dtype, .sizes = d_.recorded[i].sizes};
      if (may_agree(type, recorded)) continue;
      throw Error(ErrorKind::InvalidModel, fmt::format("{} gives {} as result {} by {}, but the model records {}", op_.schema.name,
                                                       to_string(type), i, where, to_string(recorded)))
          .help("make the file say what the operator gives in PyTorch, or export the model again");
    }
  }

  Decomposer& d_;
  Builder& b_;
  const CustomOperator& op_;
  const Args& a_;
  std::map<std::string, Argument, std::less<>> arguments_;  // that are no tensors
  std::map<std::string, sym::Expr, std::less<>> sizes_;     // of a Rest: its product
  std::map<std::string, Sizes, std::less<>> rests_;
  std::map<std::string, DType, std::less<>> dtypes_;
};

}  // namespace

std::vector<bool> strided_inputs(const CustomOperator& op, const CustomKernel& kernel, const Library& node) {
  const bool is_contiguous =
      kernel.kind == CustomKernel::Kind::Cuda || kernel.kind == CustomKernel::Kind::Triton || kernel.kind == CustomKernel::Kind::Halide;
  if (is_contiguous) return {};
  std::vector<bool> strided;
  size_t next = 0;  // number
  const auto take = [&] {
    const auto* value = std::get_if<sym::Expr>(&node.attributes.at(next++));
    TOROID_CHECK(value != nullptr && value->is_const(), "{} has counts that are no numbers", node.name);
    return value->value();
  };
  for (const Parameter& parameter : op.schema.parameters) {
    int64_t count = 1;
    if (parameter.type != ArgType::Tensor) {
      if (parameter.is_list) {
        const int64_t length = take();
        next += static_cast<size_t>(length);
      } else {
        next += parameter.is_optional ? 2 : 1;
      }
      continue;
    }
    if (parameter.is_list || parameter.is_optional) count = take();
    const auto rule =
        std::find_if(op.arguments.begin(), op.arguments.end(), [&](const auto& each) { return each.first == parameter.name; });
    strided.insert(strided.end(), static_cast<size_t>(count), rule != op.arguments.end() && rule->second.is_strided);
  }
  return strided;
}

std::vector<Tensor> apply_custom(Decomposer& d, const CustomOperator& op, const Args& a) { return CustomUse(d, op, a).apply(); }

}  // namespace toroid
