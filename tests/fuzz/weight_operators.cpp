// Products by weights, and arithmetic on weights behind them: what is folded into the weights (passes/fold_affine.h), and what becomes one
// product (passes/merge_products.h).
//
// Weights are finite, unlike other inputs, and scales are not 0: folded, an infinite scale gives NaN where a filter is 0, and a scale of 0
// gives zeros of either sign.
#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

std::string weight(Grower& g, DType dtype, std::vector<std::string> sizes) {
  return g.weight(dtype, std::move(sizes), g.random.pick({"grid", "unit", "unit", "signs"})).name;
}
std::string scale(Grower& g, DType dtype, std::vector<std::string> sizes) {
  return g.weight(dtype, std::move(sizes), g.random.pick({"unit", "unit", "positive", "negative"})).name;
}
std::string positive_weight(Grower& g, DType dtype, std::vector<std::string> sizes) {
  return g.weight(dtype, std::move(sizes), "positive").name;
}

std::string some_columns(Grower& g) { return g.random.pick({"1", "2", "3", "4", "8", "16", "17", "33"}); }

// A left side of products: the depth is a number.
std::optional<Value> some_rows(Grower& g, int64_t most_dims) {
  if (g.is_in_body()) return std::nullopt;
  const auto fits = [&](const Value& v) {
    return v.is_float() && v.rank() >= 2 && v.rank() <= most_dims && g.is_constant(v, v.rank() - 1) && v.concrete.back() > 0 &&
           v.numel() <= 4096;
  };
  if (const Value* found = g.pick(fits)) return *found;
  return g.fresh(DType::F32, {g.some_size(), some_columns(g)});
}

struct Channels {
  Value value;
  size_t dim;
};

// How the weights lie, and whether the operator adds a bias.
struct Form {
  bool by_columns, with_bias;
};
Form some_form(Grower& g) { return {g.random.chance(0.6), g.random.chance(0.5)}; }

Channels product_by_weights(Grower& g, const Value& x, const std::string& columns, Form form) {
  const std::string depth = x.sizes.back();
  const size_t last = x.sizes.size() - 1;
  if (form.by_columns) {
    const std::string filters = weight(g, x.dtype, {columns, depth});
    return {made(g, fmt::format("aten::linear({}, {}, {})", x.name, filters, form.with_bias ? weight(g, x.dtype, {columns}) : "none")),
            last};
  }
  const std::string right = weight(g, x.dtype, {depth, columns});
  if (!form.with_bias) return {made(g, fmt::format("aten::matmul({}, {})", x.name, right)), last};
  const std::string bias = weight(g, x.dtype, {columns});
  if (x.rank() == 2) return {made(g, fmt::format("aten::addmm({}, {}, {})", bias, x.name, right)), last};
  const Value y = made(g, fmt::format("aten::matmul({}, {})", x.name, right));
  return {made(g, fmt::format("aten::add.Tensor({}, {})", y.name, bias)), last};
}

std::optional<Channels> filtered(Grower& g) {
  const Value* x = g.pick([&](const Value& v) {
    return v.is_float() && (v.rank() == 3 || v.rank() == 4) && g.is_constant(v, 1) && v.numel() > 0 && v.numel() <= 3000;
  });
  if (g.is_in_body()) return std::nullopt;
  const Value a = x != nullptr ? *x : g.fresh(DType::F32, {g.some_size(), g.random.pick({"1", "2", "3", "6"}), "4", "5"});
  const int64_t inputs = a.concrete[1];
  const bool transposed = g.random.chance(0.3);
  const int64_t groups = g.random.chance(0.6) ? 1 : g.random.chance(0.5) ? inputs : inputs % 2 == 0 ? 2 : 1;
  const int64_t outputs_of_group = g.random.between(1, 3);
  const std::string outputs = std::to_string(outputs_of_group * groups);
  std::vector<std::string> sizes = {transposed ? a.sizes[1] : outputs, std::to_string(transposed ? outputs_of_group : inputs / groups)};
  const bool has_plane = a.rank() == 4;
  for (int64_t d = 2; d < a.rank(); ++d) sizes.push_back(g.random.pick({"1", "2", "3"}));
  const std::string bias = g.random.chance(0.5) ? weight(g, a.dtype, {outputs}) : "none";
  return Channels{made(g, fmt::format("aten::convolution({}, {}, {}, [{}], [{}], [{}], {}, [{}], {})", a.name, weight(g, a.dtype, sizes),
                                      bias, has_plane ? "1, 2" : "1", has_plane ? "0, 1" : "1", has_plane ? "1, 1" : "1", transposed,
                                      has_plane ? "0, 0" : "0", groups)),
                  1};
}

// One step of arithmetic on the channels, or a view that keeps them apart.
Channels step(Grower& g, const Channels& y) {
  const Value& x = y.value;
  const std::string channels = x.sizes[y.dim];
  std::vector<std::string> along(x.sizes.size() - y.dim, "1");
  along[0] = g.random.chance(0.85) ? channels : "1";
  if (g.random.chance(0.2)) along.insert(along.begin(), y.dim, "1");
  const auto with = [&](const char* op, const std::string& operand) {
    return Channels{made(g, fmt::format("aten::{}({}, {})", op, x.name, operand)), y.dim};
  };
  switch (g.random.below(9)) {
    case 0:
    case 1: return with("mul.Tensor", scale(g, x.dtype, along));
    case 2: return with("div.Tensor", positive_weight(g, x.dtype, along));
    case 3: return with("add.Tensor", weight(g, x.dtype, along));
    case 4: return with("sub.Tensor", weight(g, x.dtype, along));
    case 5: return {made(g, fmt::format("aten::sub.Tensor({}, {})", weight(g, x.dtype, along), x.name)), y.dim};
    case 6:
      return g.random.chance(0.5) ? with("mul.Scalar", g.random.pick({"0.5", "-1.5", "2"}))
                                  : Channels{made(g, fmt::format("aten::neg({})", x.name)), y.dim};
    case 7: {
      const int64_t other = g.dim_of(x), dim = static_cast<int64_t>(y.dim);
      const int64_t behind = g.dim_of(x);
      const int64_t now = dim == other ? behind : dim == behind ? other : dim;
      return {made(g, fmt::format("aten::transpose.int({}, {}, {})", x.name, other, behind)), static_cast<size_t>(now)};
    }
    default: {
      if (y.dim != 1) return with("mul.Tensor", scale(g, x.dtype, along));
      const auto of_channels = [&] { return weight(g, x.dtype, {channels}); };
      const std::string factor = scale(g, x.dtype, {channels}), shift = of_channels(), mean = of_channels();
      return {made(g, fmt::format("aten::batch_norm({}, {}, {}, {}, {}, false, 0.1, 0.01, false)", x.name, factor, shift, mean,
                                  positive_weight(g, x.dtype, {channels}))),
              1};
    }
  }
}

// A product or a convolution by weights, and what scales and shifts its channels.
MaybeCall scaled_product(Grower& g) {
  std::optional<Channels> y;
  if (g.random.chance(0.5)) y = filtered(g);
  if (!y) {
    const std::optional<Value> x = some_rows(g, 3);
    if (!x) return std::nullopt;
    y = product_by_weights(g, *x, some_columns(g), some_form(g));
  }
  for (int64_t i = g.random.between(1, 3); i > 0; --i) y = step(g, *y);
  if (g.random.chance(0.1)) g.make({fmt::format("aten::neg({})", y->value.name)});  // another reader
  return Call{fmt::format("aten::{}({})", g.random.pick({"relu", "neg", "clone"}), y->value.name)};
}

// What reads a product in another way than element by element.
MaybeCall reading_of_product(Grower& g, const Value& x) {
  switch (g.random.below(4)) {
    case 0: return Call{fmt::format("aten::softmax.int({}, {})", x.name, g.dim_of(x))};
    case 1: return Call{fmt::format("aten::{}({}, {}, true)", g.random.pick({"sum.dim_IntList", "amax", "amin"}), x.name, g.some_dims(x))};
    case 2: return Call{fmt::format("aten::matmul({0}, {1})", x.name, made(g, fmt::format("aten::mT({})", x.name)).name)};
    default: return Call{fmt::format("aten::relu({})", x.name)};
  }
}

// Two to four products of one left side, as queries, keys and values.
MaybeCall products_of_one_left_side(Grower& g) {
  const std::optional<Value> x = some_rows(g, 3);
  if (!x) return std::nullopt;
  const std::string columns = some_columns(g);
  const Form form = some_form(g);
  std::vector<Value> all;
  for (int64_t i = g.random.between(2, 4); i > 0; --i) {
    Channels y = product_by_weights(g, *x, g.random.chance(0.6) ? columns : some_columns(g), g.random.chance(0.9) ? form : some_form(g));
    if (g.random.chance(0.1)) y = step(g, y);
    all.push_back(y.value);
  }
  const Value &first = all[0], &last = all.back();
  const auto rows = static_cast<size_t>(first.rank() - 2);
  if (first.sizes == last.sizes && first.concrete[rows] <= 64 && g.random.chance(0.4)) {
    const std::string keys = all[all.size() / 2].sizes == first.sizes ? all[all.size() / 2].name : first.name;
    return Call{fmt::format("aten::scaled_dot_product_attention({}, {}, {})", first.name, keys, last.name)};
  }
  for (const Value& y : all) {
    if (g.random.chance(0.9)) g.make(*reading_of_product(g, y));
  }
  return std::nullopt;
}

}  // namespace

std::vector<OperatorRow> weight_operators() { return {{1, scaled_product}, {1, products_of_one_left_side}}; }

}  // namespace toroid::fuzz
