// The operators of random programs that compute; each row picks operands that fit. moving_operators.cpp has the others.
#include "fuzz/grow.h"

#include <fmt/format.h>

namespace toroid::fuzz {
namespace {

using Names = std::vector<std::string>;

bool any(const Value&) { return true; }
bool is_int(const Value& v) { return v.is_int(); }

// aten::NAME(x) for one of the names.
std::function<MaybeCall(Grower&)> unary(Grower::Predicate takes, Names names) {
  return [=](Grower& g) -> MaybeCall {
    const Value* x = g.pick(takes);
    if (x == nullptr) return std::nullopt;
    return Call{fmt::format("aten::{}({})", g.random.pick(names), x->name)};
  };
}

std::function<MaybeCall(Grower&)> binary(Grower::Predicate takes, Names names) {
  return [=](Grower& g) -> MaybeCall {
    const Value* x = g.pick(takes);
    if (x == nullptr) return std::nullopt;
    const std::string name = x->name;
    const Value y = g.beside(*x);
    return Call{g.random.chance(0.8) ? fmt::format("aten::{}({}, {})", g.random.pick(names), name, y.name)
                                     : fmt::format("aten::{}({}, {})", g.random.pick(names), y.name, name)};
  };
}

// Operands of two dtypes, which are promoted.
MaybeCall mixed(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Value* other = g.pick([&](const Value& v) { return v.dtype != a.dtype && (v.sizes == a.sizes || v.rank() == 0); });
  if (other == nullptr) return std::nullopt;
  const std::string op = g.random.pick({"add.Tensor", "mul.Tensor", "maximum", "eq.Tensor", "lt.Tensor", "minimum"});
  return Call{fmt::format("aten::{}({}, {})", op, a.name, other->name)};
}

MaybeCall scaled_add(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  return Call{fmt::format("aten::{}({}, {}, alpha={})", g.random.pick({"add.Tensor", "sub.Tensor"}), a.name, g.beside(a).name,
                          a.is_float() ? g.random.pick({"2", "0.5", "-1.5"}) : g.random.pick({"2", "3"}))};
}

MaybeCall with_number(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const std::string op = g.random.pick({"add.Scalar", "sub.Scalar", "mul.Scalar", "mul.Scalar", "rsub.Scalar", "eq.Scalar", "ne.Scalar",
                                        "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar", "clamp_min", "clamp_max"});
  return Call{fmt::format("aten::{}({}, {})", op, x->name, g.number_for(*x))};
}

// What looks as if it could be simplified, but for NaN, infinities and the sign of zero.
MaybeCall identity(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  switch (g.random.below(6)) {
    case 0:
    case 1: return Call{fmt::format("aten::mul.Scalar({}, {})", x->name, g.random.pick({"0.0", "0", "-1", "1"}))};
    case 2: return Call{fmt::format("aten::add.Scalar({}, 0.0)", x->name)};
    case 3: return Call{fmt::format("aten::sub.Tensor({0}, {0})", x->name)};
    case 4: return Call{fmt::format("aten::pow.Tensor_Scalar({}, 0)", x->name)};
    default: return Call{fmt::format("aten::eq.Tensor({0}, {0})", x->name)};
  }
}

MaybeCall divide(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Value b = g.beside(a, {}, a.is_float() ? "positive" : "nonzero");
  if (g.random.chance(0.3)) return Call{fmt::format("aten::div.Tensor({}, {})", a.name, b.name)};
  if (g.random.chance(0.5)) {
    return Call{fmt::format("aten::div.Tensor_mode({}, {}, rounding_mode=\"{}\")", a.name, b.name, g.random.pick({"floor", "trunc"}))};
  }
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"remainder.Tensor", "fmod.Tensor", "floor_divide"}), a.name, b.name)};
}

MaybeCall power(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::pow.Tensor_Scalar({}, {})", x->name, g.random.pick({"2", "3", "2.0", "-1", "1", "0"}))};
}

MaybeCall power_of_integers(Grower& g) {
  const Value* x = g.pick(is_int);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  if (g.random.chance(0.5))
    return Call{fmt::format("aten::pow.Tensor_Scalar({}, {})", a.name, g.random.pick({"0", "1", "2", "3", "5", "40", "63"}))};
  return Call{fmt::format("aten::pow.Tensor_Tensor({}, {})", a.name, g.beside(a, {}, "extreme").name)};
}

MaybeCall where(Grower& g) {
  const Value* x = g.pick(any);
  const Value a = *x;
  const Value c = g.beside(a, DType::Bool);
  const Value b = g.beside(a);
  return Call{fmt::format("aten::where.self({}, {}, {})", c.name, a.name, b.name)};
}

MaybeCall masked_fill(Grower& g) {
  const Value a = *g.pick(any);
  return Call{fmt::format("aten::masked_fill.Scalar({}, {}, {})", a.name, g.beside(a, DType::Bool).name, g.number_for(a))};
}

MaybeCall clamp(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const bool is_unsigned = x->dtype == DType::U8;
  std::string low = x->is_float() ? "-1.25" : g.random.pick(is_unsigned ? Names{"2", "0", "200"} : Names{"-3", "-128", "127"});
  std::string high = x->is_float() ? "1.5" : g.random.pick({"5", "100"});
  if (g.random.chance(0.2)) std::swap(low, high);  // the upper bound decides
  return Call{fmt::format("aten::clamp({}, {}, {})", x->name, low, high)};
}

MaybeCall ternary(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::string b = g.beside(a).name;
  if (g.random.chance(0.5)) return Call{fmt::format("aten::addcmul({}, {}, {}, value=0.5)", a.name, b, g.beside(a).name)};
  return Call{fmt::format("aten::lerp.Scalar({}, {}, 0.25)", a.name, b)};
}

MaybeCall cast(Grower& g) {
  const Value a = *g.pick(any);
  const std::string to = g.random.pick({"f32", "f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"});
  if (to == to_string(a.dtype)) return std::nullopt;
  return Call{fmt::format("aten::to.dtype({}, dtype.{})", a.name, to)};
}

MaybeCall fill_like(Grower& g) {
  const Value a = *g.pick(any);
  if (g.random.chance(0.5)) return Call{fmt::format("aten::full_like({}, {})", a.name, g.number_for(a))};
  return Call{fmt::format("aten::{}({})", g.random.pick({"zeros_like", "ones_like"}), a.name)};
}

MaybeCall arange(Grower& g) {
  return Call{fmt::format("aten::arange({}{})", g.some_length(), g.random.pick({"", ", dtype=dtype.i32", ", dtype=dtype.f32"}))};
}

MaybeCall left_or_right_shift(Grower& g) {
  const Value* x = g.pick(is_int);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"}), a.name,
                          g.beside(a, {}, "shift").name)};
}

// ---- reductions and scans ------------------------------------------------------------------------------------------------------

MaybeCall reduce(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const std::string dims = g.some_dims(*x);
  const std::string keep = g.random.chance(0.4) ? ", true" : "";
  const int64_t dim = g.dim_of(*x);
  if (x->is_bool()) {
    return Call{g.random.chance(0.5) ? fmt::format("aten::{}({}, {}{})", g.random.pick({"any.dim", "all.dim"}), x->name, dim, keep)
                                     : fmt::format("aten::sum.dim_IntList({}, {}{})", x->name, dims, keep)};
  }
  Names names = {"sum.dim_IntList", "sum.dim_IntList", "sum.dim_IntList", "amax", "amin"};
  if (x->is_float()) {
    for (const char* name : {"mean.dim", "mean.dim", "logsumexp"}) names.emplace_back(name);
    if (g.random.chance(0.2)) {
      return Call{fmt::format("aten::{}({}, {}, correction={}{})", g.random.pick({"var.correction", "std.correction"}), x->name, dims,
                              g.random.pick({"0", "1"}), keep.empty() ? "" : ", keepdim=true")};
    }
    if (g.random.chance(0.1))
      return Call{fmt::format("aten::linalg_vector_norm({}, {}, {}{})", x->name, g.random.pick({"2", "1", "inf"}), dims, keep)};
  }
  if (g.random.chance(0.06)) return Call{fmt::format("aten::prod.dim_int({}, {}{})", x->name, dim, keep)};
  return Call{fmt::format("aten::{}({}, {}{})", g.random.pick(names), x->name, dims, keep)};
}

// Several stages over several axes, which do not always lie in a row.
MaybeCall logsumexp(Grower& g) {
  const Value* x = g.pick(has_dims(is_float, 2));
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::logsumexp({}, {}, {})", x->name, g.some_dims(*x), g.flag())};
}

MaybeCall reduce_all(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  Names names = {"sum", "max", "min", "argmax", "argmin", "any", "all"};
  if (x->is_float()) names.emplace_back("mean");
  return Call{fmt::format("aten::{}({})", g.random.pick(names), x->name)};
}

MaybeCall arg_reduce(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  const int64_t dim = g.dim_of(*x);
  if (g.random.chance(0.5)) return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"argmax", "argmin"}), x->name, dim, g.flag())};
  return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"max.dim", "min.dim"}), x->name, dim, g.flag()), 2};
}

MaybeCall softmax(Grower& g) {
  const Value* x = g.pick(has_dims(is_float));
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::{}({}, {}, false)", g.random.pick({"_softmax", "_softmax", "_log_softmax"}), x->name, g.dim_of(*x))};
}

MaybeCall layer_norm(Grower& g) {
  const Value* x = g.pick(has_dims(is_float));
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t from = a.rank() - 1 - (a.rank() > 1 && g.random.chance(0.2) ? 1 : 0);
  const std::vector<std::string> shape(a.sizes.begin() + from, a.sizes.end());
  const std::string weight = g.random.chance(0.6) ? g.fresh(a.dtype, shape, "grid").name : "none";
  const std::string bias = weight != "none" && g.random.chance(0.6) ? g.fresh(a.dtype, shape, "grid").name : "none";
  return Call{fmt::format("aten::layer_norm({}, [{}], {}, {}, 0.01)", a.name, fmt::join(shape, ", "), weight, bias)};
}

MaybeCall running(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  const int64_t dim = g.dim_of(*x);
  if (g.random.chance(0.3)) return Call{fmt::format("aten::{}({}, {})", g.random.pick({"cummax", "cummin"}), x->name, dim), 2};
  return Call{fmt::format("aten::cumsum({}, {})", x->name, dim)};
}

MaybeCall sort(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::sort.stable({}, stable=true, dim={}, descending={})", x->name, g.dim_of(*x), g.flag()), 2};
}

MaybeCall topk(Grower& g) {
  const Value* x = g.pick(has_dims(is_float));
  if (x == nullptr) return std::nullopt;
  // Which of several equal elements is taken is not said: only elements that differ.
  const Value a = g.fresh(DType::F32, x->sizes, "distinct");
  const int64_t dim = g.dim_of(a);
  if (a.concrete[static_cast<size_t>(dim)] == 0 || !g.is_constant(a, dim)) return std::nullopt;
  return Call{fmt::format("aten::topk({}, {}, {}, {})", a.name, g.random.between(1, a.concrete[static_cast<size_t>(dim)]), dim, g.flag()),
              2};
}

// ---- products, convolutions, pools --------------------------------------------------------------------------------------------

MaybeCall product(Grower& g) {
  const Value* x = g.pick(has_dims(is_number, 2));
  if (x == nullptr || x->rank() > 3) return std::nullopt;
  const Value a = *x;
  const std::string k = a.sizes.back();
  const std::string n = g.some_size();
  std::vector<std::string> other(a.sizes.begin(), a.sizes.end() - 2);
  other.push_back(k);
  other.push_back(n);
  const Value* found =
      g.pick([&](const Value& v) { return v.dtype == a.dtype && v.rank() == a.rank() && v.sizes[v.sizes.size() - 2] == k; });
  const std::string b = found != nullptr && g.random.chance(0.7) ? found->name : g.fresh(a.dtype, other).name;
  if (a.rank() == 3) return Call{fmt::format("aten::{}({}, {})", g.random.pick({"bmm", "matmul"}), a.name, b)};
  if (g.random.chance(0.4))
    return Call{fmt::format("aten::addmm({}, {}, {})", g.fresh(a.dtype, {n}).name, a.name, g.fresh(a.dtype, {k, n}).name)};
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"mm", "matmul"}), a.name, b)};
}

MaybeCall convolve(Grower& g) {
  const Value* x = g.pick(has_dims(is_float, 3));
  if (x == nullptr || x->rank() > 4 || !g.is_constant(*x, 1) || x->numel() > 3000) return std::nullopt;
  const Value a = *x;
  const std::string window = g.random.pick({"1", "2", "3"});
  std::vector<std::string> weight = {g.random.pick({"1", "2", "4"}), a.sizes[1], window};
  if (a.rank() == 4) weight.push_back(window);
  return Call{fmt::format("aten::conv{}d({}, {}, none, [{}], [{}])", a.rank() - 2, a.name, g.fresh(a.dtype, weight).name,
                          a.rank() == 4 ? g.random.pick({"1, 1", "2, 1"}) : g.random.pick({"1", "2"}),
                          a.rank() == 4 ? "1, 0" : g.random.pick({"0", "1"}))};
}

MaybeCall pool(Grower& g) {
  const Value* x = g.pick(has_dims(is_float, 3));
  if (x == nullptr || x->rank() > 4) return std::nullopt;
  if (x->rank() == 3)
    return Call{fmt::format("aten::{}({}, [2], [{}])", g.random.pick({"max_pool1d", "avg_pool1d"}), x->name, g.random.pick({1, 2}))};
  if (g.random.chance(0.3)) return Call{fmt::format("aten::max_pool2d_with_indices({}, [2, 3], [1, 2], [1, 1])", x->name), 2};
  return Call{
      fmt::format("aten::{}({}, [2, 2], [{}])", g.random.pick({"max_pool2d", "avg_pool2d"}), x->name, g.random.pick({"1, 1", "2, 2"}))};
}

std::vector<OperatorRow> computing_operators() {
  return {
      {8, unary(is_float, {"exp", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "relu", "erf", "expm1", "atan", "softplus", "hardswish",
                           "leaky_relu", "elu", "sinh", "mish"})},
      {4, unary(is_float, {"floor", "ceil", "trunc", "round", "isnan", "isfinite", "sign", "frac", "nan_to_num"})},
      {3, unary(is_float, {"sqrt", "rsqrt", "log", "log1p", "reciprocal", "log2"})},
      {4, unary(is_number, {"neg", "abs", "square", "relu", "sign"})},
      {1, unary(is_int, {"exp", "sqrt", "sigmoid", "reciprocal", "bitwise_not"})},
      {1, unary(any, {"logical_not"})},
      {12, binary(is_number, {"add.Tensor", "sub.Tensor", "mul.Tensor", "mul.Tensor"})},
      {5, binary(is_number, {"maximum", "minimum", "eq.Tensor", "lt.Tensor", "ge.Tensor", "ne.Tensor", "fmax", "fmin"})},
      {2, binary(is_float, {"atan2", "hypot", "copysign.Tensor", "nextafter"})},
      {2, binary([](const Value& v) { return !v.is_float(); }, {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"})},
      {2, binary(any, {"logical_and", "logical_or", "logical_xor"})},
      {3, mixed},
      {2, scaled_add},
      {5, with_number},
      {6, identity},
      {5, divide},
      {2, power},
      {4, where},
      {2, masked_fill},
      {2, clamp},
      {2, ternary},
      {6, cast},
      {1, fill_like},
      {1, arange},
      {1, left_or_right_shift},
      {0.5, power_of_integers},
      {12, reduce},
      {4, logsumexp},
      {3, reduce_all},
      {4, arg_reduce},
      {4, softmax},
      {3, layer_norm},
      {4, running},
      {2, sort},
      {1, topk},
      {4, product},
      {2, convolve},
      {2, pool},
  };
}

}  // namespace

const std::vector<OperatorRow>& operator_table() {
  static const std::vector<OperatorRow> table = [] {
    std::vector<OperatorRow> rows = computing_operators();
    for (const auto& part : {moving_operators(), network_operators(), control_flow_operators(), complex_operators()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return table;
}

}  // namespace toroid::fuzz
