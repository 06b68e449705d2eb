// Operators over lists of tensors, as optimizers use them: the operator of one tensor, for each element.
//
//   aten::_foreach_add.Scalar([a, b], 2)   =>   aten::add.Scalar(a, 2), aten::add.Scalar(b, 2)
#include <algorithm>

#include "passes/decompose/decompose.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr std::string_view kPrefix = "aten::_foreach_";

// aten::sub.Tensor for aten::_foreach_sub_.List.
const Schema* operator_of_one(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size());
  std::string_view base = name.substr(kPrefix.size(), dot - kPrefix.size());
  if (base.ends_with('_')) base.remove_suffix(1);
  std::string_view overload = name.substr(dot);
  if (overload == ".List") overload = ".Tensor";
  if (overload == ".ScalarList") overload = ".Scalar";
  // An operator for tensors may have no suffix, and so may one that takes the number by a default.
  for (std::string_view suffix : {overload, std::string_view()}) {
    if (const Schema* schema = find_schema(fmt::format("aten::{}{}", base, suffix))) return schema;
  }
  return nullptr;
}

// The arguments that the call for element `i` gets, where every list gives its element.
struct ElementOf {
  const Args& args;
  size_t i;

  Decomposer::Value operator()(const Parameter& parameter) const {
    if (parameter.type == ArgType::Tensor && parameter.is_list) return args.tensors(parameter.name)[i];
    const Argument& argument = args.raw(parameter.name);
    if (parameter.type == ArgType::Tensor) return args.optional_tensor(parameter.name);
    if (parameter.type == ArgType::Scalar && parameter.is_list) {
      if (const auto* list = std::get_if<std::vector<double>>(&argument)) return list->at(i);
      if (const auto* list = std::get_if<ExprList>(&argument)) return list->at(i);
      if (const auto* list = std::get_if<std::vector<bool>>(&argument)) return bool(list->at(i));
    }
    return argument;
  }
};

std::vector<Tensor> foreach_tensor(Decomposer& d, const Args& a) {
  const Schema& schema = a.schema();
  const Schema* one = operator_of_one(schema.name);
  if (one == nullptr) throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' is not supported", schema.name));
  const auto list = std::find_if(schema.parameters.begin(), schema.parameters.end(),
                                 [](const Parameter& p) { return p.type == ArgType::Tensor && p.is_list; });
  TOROID_CHECK(list != schema.parameters.end(), "{} has no list", schema.name);
  std::vector<Tensor> results;
  for (size_t i = 0; i < a.tensors(list->name).size(); ++i) {
    std::vector<Decomposer::Value> values;
    for (const Parameter& parameter : schema.parameters) values.push_back(ElementOf{a, i}(parameter));
    results.push_back(d.call1(one->name, std::move(values)));
  }
  return results;
}

constexpr DecompositionRow kRows[] = {
    {"aten::_foreach_abs", foreach_tensor},
    {"aten::_foreach_acos", foreach_tensor},
    {"aten::_foreach_add.Scalar", foreach_tensor},
    {"aten::_foreach_add.List", foreach_tensor},
    {"aten::_foreach_add.ScalarList", foreach_tensor},
    {"aten::_foreach_add.Tensor", foreach_tensor},
    {"aten::_foreach_addcdiv.Scalar", foreach_tensor},
    {"aten::_foreach_addcdiv.ScalarList", foreach_tensor},
    {"aten::_foreach_addcmul.Scalar", foreach_tensor},
    {"aten::_foreach_addcmul.ScalarList", foreach_tensor},
    {"aten::_foreach_asin", foreach_tensor},
    {"aten::_foreach_atan", foreach_tensor},
    {"aten::_foreach_ceil", foreach_tensor},
    {"aten::_foreach_clamp_max.*", foreach_tensor},
    {"aten::_foreach_clamp_min.*", foreach_tensor},
    {"aten::_foreach_copy", foreach_tensor},
    {"aten::_foreach_cos", foreach_tensor},
    {"aten::_foreach_cosh", foreach_tensor},
    {"aten::_foreach_div.*", foreach_tensor},
    {"aten::_foreach_erf", foreach_tensor},
    {"aten::_foreach_erfc", foreach_tensor},
    {"aten::_foreach_exp", foreach_tensor},
    {"aten::_foreach_expm1", foreach_tensor},
    {"aten::_foreach_floor", foreach_tensor},
    {"aten::_foreach_frac", foreach_tensor},
    {"aten::_foreach_lerp.Scalar", foreach_tensor},
    {"aten::_foreach_lerp.List", foreach_tensor},
    {"aten::_foreach_lgamma", foreach_tensor},
    {"aten::_foreach_log", foreach_tensor},
    {"aten::_foreach_log10", foreach_tensor},
    {"aten::_foreach_log1p", foreach_tensor},
    {"aten::_foreach_log2", foreach_tensor},
    {"aten::_foreach_max", foreach_tensor},
    {"aten::_foreach_maximum.List", foreach_tensor},
    {"aten::_foreach_minimum.List", foreach_tensor},
    {"aten::_foreach_mul.*", foreach_tensor},
    {"aten::_foreach_neg", foreach_tensor},
    {"aten::_foreach_reciprocal", foreach_tensor},
    {"aten::_foreach_round", foreach_tensor},
    {"aten::_foreach_rsqrt", foreach_tensor},
    {"aten::_foreach_sigmoid", foreach_tensor},
    {"aten::_foreach_sign", foreach_tensor},
    {"aten::_foreach_sin", foreach_tensor},
    {"aten::_foreach_sinh", foreach_tensor},
    {"aten::_foreach_sqrt", foreach_tensor},
    {"aten::_foreach_sub.*", foreach_tensor},
    {"aten::_foreach_tan", foreach_tensor},
    {"aten::_foreach_tanh", foreach_tensor},
    {"aten::_foreach_trunc", foreach_tensor},
    {"aten::_foreach_zero", foreach_tensor},
};

}  // namespace

std::span<const DecompositionRow> foreach_rows() { return kRows; }

}  // namespace toroid
