// Operators over lists of tensors, as optimizers use them: the operator of one tensor, for each element.
//
//   aten::_foreach_add.Scalar([a, b], 2)   =>   aten::add.Scalar(a, 2), aten::add.Scalar(b, 2)
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

constexpr std::string_view kPrefix = "aten::_foreach_";

// Where the names differ.
struct Renamed {
  std::string_view base, overload;
  const char* one;
};
constexpr Renamed kRenamed[] = {
    {"maximum", ".Scalar", "aten::clamp_min"},     {"maximum", ".ScalarList", "aten::clamp_min"},
    {"minimum", ".Scalar", "aten::clamp_max"},     {"minimum", ".ScalarList", "aten::clamp_max"},
    {"pow", ".Scalar", "aten::pow.Tensor_Scalar"}, {"pow", ".ScalarList", "aten::pow.Tensor_Scalar"},
    {"pow", ".List", "aten::pow.Tensor_Tensor"},   {"pow", ".ScalarAndTensor", "aten::pow.Scalar"},
};

// aten::sub.Tensor for aten::_foreach_sub_.List.
const Schema* operator_of_one(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size());
  std::string_view base = name.substr(kPrefix.size(), dot - kPrefix.size());
  if (base.ends_with('_')) base.remove_suffix(1);
  std::string_view overload = name.substr(dot);
  if (overload.ends_with("_out")) overload.remove_suffix(4);
  for (const Renamed& row : kRenamed) {
    if (row.base == base && row.overload == overload) return find_schema(row.one);
  }
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
    if (parameter.type == ArgType::Tensor && parameter.is_list) {
      const Tensors list = args.tensors(parameter.name);
      return list[position(list.size(), parameter)];
    }
    const Argument& argument = args.raw(parameter.name);
    if (parameter.type == ArgType::Tensor) return args.optional_tensor(parameter.name);
    if (parameter.type == ArgType::Scalar && parameter.is_list) {
      if (const auto* list = std::get_if<std::vector<double>>(&argument)) return (*list)[position(list->size(), parameter)];
      if (const auto* list = std::get_if<ExprList>(&argument)) return (*list)[position(list->size(), parameter)];
      if (const auto* list = std::get_if<std::vector<bool>>(&argument)) return bool((*list)[position(list->size(), parameter)]);
    }
    return argument;
  }

 private:
  // `i`, which a list of `size` has.
  size_t position(size_t size, const Parameter& parameter) const {
    if (i < size) return i;
    throw Error(ErrorKind::InvalidModel,
                fmt::format("argument '{}' of {} has {} entries, fewer than the list beside it", parameter.name, args.schema().name, size));
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
  const size_t count = a.tensors(list->name).size();
  for (size_t i = 0; i < count; ++i) {
    std::vector<Decomposer::Value> values;
    for (const Parameter& parameter : schema.parameters) {
      if (!parameter.mutated || !parameter.keyword_only) values.push_back(ElementOf{a, i}(parameter));
    }
    results.push_back(d.call1(one->name, std::move(values)));
  }
  return results;
}

// The factors are the elements of one tensor.
std::vector<Tensor> foreach_addc(const Args& a, ScalarOp op) {
  const Tensors self = a.tensors("self"), left = a.tensors_beside("tensor1", self), right = a.tensors_beside("tensor2", self);
  Tensor factors = a.tensor("scalars");
  Builder& b = factors.builder();
  std::vector<Tensor> results;
  for (size_t i = 0; i < self.size(); ++i) {
    const DType wide = compute_dtype(self[i].dtype());
    Tensor term = b.pointwise(op, {b.cast(left[i], wide), b.cast(right[i], wide)});
    Tensor factor = b.cast(b.select(factors, 0, static_cast<int64_t>(i)), wide);
    results.push_back(b.cast(b.cast(self[i], wide) + factor * term, self[i].dtype()));
  }
  return results;
}
std::vector<Tensor> foreach_addcmul(Decomposer&, const Args& a) { return foreach_addc(a, ScalarOp::Mul); }
std::vector<Tensor> foreach_addcdiv(Decomposer&, const Args& a) { return foreach_addc(a, ScalarOp::Div); }

// The operator of one tensor takes dims between the order and the dtype.
std::vector<Tensor> foreach_norm(Decomposer& d, const Args& a, const char* op) {
  std::vector<Tensor> results;
  for (Tensor x : a.tensors("self")) {
    const std::optional<DType> dtype = a.dtype("dtype");
    const Decomposer::Value as = dtype ? Decomposer::Value(*dtype) : Decomposer::Value(None{});
    results.push_back(d.call1(op, {x, a.scalar("ord"), None{}, false, as}));
  }
  return results;
}
std::vector<Tensor> foreach_vector_norm(Decomposer& d, const Args& a) { return foreach_norm(d, a, "aten::linalg_vector_norm"); }
std::vector<Tensor> foreach_powsum(Decomposer& d, const Args& a) { return foreach_norm(d, a, "aten::linalg__powsum"); }

constexpr DecompositionRow kForeachRows[] = {
    {"aten::_foreach_abs", foreach_tensor},
    {"aten::_foreach_acos", foreach_tensor},
    {"aten::_foreach_add.Scalar", foreach_tensor},
    {"aten::_foreach_add.List", foreach_tensor},
    {"aten::_foreach_add.ScalarList", foreach_tensor},
    {"aten::_foreach_add.Tensor", foreach_tensor},
    {"aten::_foreach_addcdiv.Scalar", foreach_tensor},
    {"aten::_foreach_addcdiv.ScalarList", foreach_tensor},
    {"aten::_foreach_addcdiv.Tensor", foreach_addcdiv},
    {"aten::_foreach_addcmul.Scalar", foreach_tensor},
    {"aten::_foreach_addcmul.ScalarList", foreach_tensor},
    {"aten::_foreach_addcmul.Tensor", foreach_addcmul},
    {"aten::_foreach_asin", foreach_tensor},
    {"aten::_foreach_atan", foreach_tensor},
    {"aten::_foreach_ceil", foreach_tensor},
    {"aten::_foreach_clamp_max.*", foreach_tensor},
    {"aten::_foreach_clamp_min.*", foreach_tensor},
    {"aten::_foreach_clone", foreach_tensor},
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
    {"aten::_foreach_lerp.ScalarList", foreach_tensor},
    {"aten::_foreach_lgamma", foreach_tensor},
    {"aten::_foreach_log", foreach_tensor},
    {"aten::_foreach_log10", foreach_tensor},
    {"aten::_foreach_log1p", foreach_tensor},
    {"aten::_foreach_log2", foreach_tensor},
    {"aten::_foreach_max", foreach_tensor},
    {"aten::_foreach_maximum.List", foreach_tensor},
    {"aten::_foreach_maximum.Scalar", foreach_tensor},
    {"aten::_foreach_maximum.ScalarList", foreach_tensor},
    {"aten::_foreach_minimum.List", foreach_tensor},
    {"aten::_foreach_minimum.Scalar", foreach_tensor},
    {"aten::_foreach_minimum.ScalarList", foreach_tensor},
    {"aten::_foreach_mm", foreach_tensor},
    {"aten::_foreach_mul.*", foreach_tensor},
    {"aten::_foreach_neg", foreach_tensor},
    {"aten::_foreach_norm.Scalar", foreach_vector_norm},
    {"aten::_foreach_pow.*", foreach_tensor},
    {"aten::_foreach_powsum.Scalar", foreach_powsum},
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

std::span<const DecompositionRow> foreach_rows() { return kForeachRows; }

}  // namespace toroid
