// The operators of layers, losses, gradients, quantisation and random numbers, most as rows of patterns.
//
// A pattern is a call with words in braces for what fits the value x that was picked for it:
//
//   {x}  x itself                    {y}  a value that broadcasts with x      {same}   one of x's type
//   {positive} {chance}  likewise, with such elements                         {mask}   bools of x's sizes
//   {row} {channel}  an input of x's last, second size                        {columns} indices of x's dim 1, one a row
//   {dim} {dims} {sizes} {flag} {number} {n}  arguments                       {a|b|c}  one of these texts
#include <fmt/format.h>

#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

enum class Takes : uint8_t { Float, Number, Int, Any };

struct Pattern {
  double weight;
  Takes takes;
  int rank;  // the least; -n: exactly n
  int results;
  const char* text;
};

std::string of_type(Grower& g, const Value& x, const std::string& kind) {
  if (kind.empty() && g.random.chance(0.7)) {
    const Value* found = g.pick([&](const Value& v) { return v.dtype == x.dtype && v.sizes == x.sizes; });
    if (found != nullptr) return found->name;
  }
  return g.fresh(x.dtype, x.sizes, kind).name;
}

std::string filled(Grower& g, const Value& x, const std::string& word) {
  if (word == "x") return x.name;
  if (word == "y") return g.beside(x).name;
  if (word == "same") return of_type(g, x, "");
  if (word == "positive" || word == "chance" || word == "unit") return of_type(g, x, word);
  if (word == "mask") return g.beside(x, DType::Bool).name;
  if (word == "row") return g.fresh(x.dtype, {x.sizes.back()}).name;
  if (word == "channel") return g.fresh(x.dtype, {x.sizes.at(1)}).name;
  if (word == "variance") return g.fresh(x.dtype, {x.sizes.at(1)}, "positive").name;
  if (word == "ascending") return g.fresh(x.dtype, {"5"}, "sorted").name;
  if (word == "scales") return g.fresh(DType::F32, {x.sizes.at(1)}, "positive").name;
  if (word == "zeros") return g.fresh(DType::I64, {x.sizes.at(1)}, "small").name;
  if (word == "small_index") return g.fresh(DType::I64, x.sizes, "index 9").name;
  if (word == "columns") return g.fresh(DType::I64, {x.sizes[0]}, fmt::format("index {}", std::max<int64_t>(1, x.concrete.at(1)))).name;
  if (word == "dim") return std::to_string(g.dim_of(x));
  if (word == "dims") return g.some_dims(x);
  if (word == "sizes") return fmt::format("[{}]", fmt::join(x.sizes, ", "));
  if (word == "plane") return fmt::format("[{}, {}]", x.sizes.at(2), x.sizes.at(3));
  if (word == "last") return x.sizes.back();
  if (word == "flag") return g.flag();
  if (word == "number") return g.number_for(x);
  if (word == "n") return g.some_size();
  if (word == "dtype") return fmt::format("dtype.{}", to_string(x.dtype));
  std::vector<std::string> choices;
  for (size_t start = 0; start <= word.size();) {
    const size_t end = std::min(word.find('|', start), word.size());
    choices.push_back(word.substr(start, end - start));
    start = end + 1;
  }
  return g.random.pick(choices);
}

MaybeCall from_pattern(Grower& g, const Pattern& pattern) {
  const Value* picked = g.pick([&](const Value& v) {
    const bool fits = pattern.takes == Takes::Any || (pattern.takes == Takes::Float && v.is_float()) ||
                      (pattern.takes == Takes::Number && !v.is_bool()) || (pattern.takes == Takes::Int && v.is_int());
    return fits && (pattern.rank < 0 ? v.rank() == -pattern.rank : v.rank() >= pattern.rank);
  });
  if (picked == nullptr) return std::nullopt;
  const Value x = *picked;
  Call call;
  call.results = pattern.results;
  for (std::string_view rest = pattern.text; !rest.empty();) {
    const size_t open = std::min(rest.find('{'), rest.size());
    call.text += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const size_t close = rest.find('}');
    call.text += filled(g, x, std::string(rest.substr(1, close - 1)));
    rest.remove_prefix(close + 1);
  }
  return call;
}

constexpr Pattern kGradients[] = {
    {2, Takes::Float, 0, 1, "aten::{gelu_backward|silu_backward|mish_backward|hardswish_backward|hardsigmoid_backward}({same}, {x})"},
    {1, Takes::Float, 0, 1, "aten::{sigmoid_backward|tanh_backward}({same}, {x})"},
    {1, Takes::Float, 0, 1, "aten::threshold_backward({same}, {x}, 0)"},
    {0.5, Takes::Float, 0, 1, "aten::leaky_relu_backward({same}, {x}, 0.1, {flag})"},
    {0.5, Takes::Float, 0, 1, "aten::elu_backward({same}, 1.5, 1, 1, {flag}, {x})"},
    {0.5, Takes::Float, 0, 1, "aten::softplus_backward({same}, {x}, 1, 20)"},
    {0.5, Takes::Float, 0, 1, "aten::hardtanh_backward({same}, {x}, -1, 1)"},
    {2, Takes::Float, 1, 1, "aten::{_softmax_backward_data|_log_softmax_backward_data}({same}, {x}, {dim}, {dtype})"},
    {0.5, Takes::Float, 0, 1, "aten::mse_loss_backward({same}, {x}, {same}, 0)"},
    {0.5, Takes::Float, 0, 1, "aten::native_dropout_backward({x}, {mask}, 2.0)"},
    {0.5, Takes::Float, -2, 1, "aten::slice_backward({x}, [{n}, {last}], 0, {0|1|2}, {3|7|9223372036854775807}, {1|2})"},
    {0.5, Takes::Float, -1, 1, "aten::select_backward({x}, [3, {last}], 0, {0|1|2})"},
    {0.5, Takes::Float, -4, 1, "aten::avg_pool2d_backward({same}, {x}, [1, 1], [1, 1], [0, 0], false, true, none)"},
    {0.7, Takes::Float, -4, 1, "aten::_adaptive_avg_pool2d_backward({same}, {x})"},
    {0.5, Takes::Float, -4, 1, "aten::upsample_nearest2d_backward({x}, {plane}, {sizes})"},
    {0.5, Takes::Float, -3, 1, "aten::{reflection|replication}_pad1d_backward({same}, {x}, [0, 0])"},
};

constexpr Pattern kLayers[] = {
    {2, Takes::Float, 2, 1, "aten::batch_norm({x}, {channel}, {channel}, {channel}, {variance}, false, 0.1, 0.01, false)"},
    {1.5, Takes::Float, 2, 3, "aten::_native_batch_norm_legit.no_stats({x}, {channel}, {channel}, true, 0.1, 0.01)"},
    {1.5, Takes::Float, 3, 1, "aten::group_norm({x}, {1|2|3|4}, {channel}, {channel}, 0.01)"},
    {1, Takes::Float, 3, 1, "aten::instance_norm({x}, {channel}, none, none, none, true, 0.1, 0.01, false)"},
    {2, Takes::Float, 1, 1, "aten::rms_norm({x}, [{last}], {row}, 0.01)"},
    {1.5, Takes::Float, 1, 3, "aten::native_layer_norm({x}, [{last}], {row}, {row}, 0.01)"},
    {1, Takes::Float, 1, 1, "aten::{glu|logcumsumexp|cumprod|softmax.int|log_softmax.int}({x}, {dim})"},
    {1, Takes::Float, 0, 1,
     "aten::{selu|celu|hardsigmoid|log_sigmoid|relu6|hardtanh|softsign|tanhshrink|hardshrink|softshrink|logit|asinh|erfc|exp2|log10|sinc}({"
     "x})"},
    {1, Takes::Float, 0, 1, "aten::gelu({x}, approximate=\"tanh\")"},
    {1, Takes::Float, -4, 1, "aten::{adaptive_avg_pool2d|adaptive_max_pool2d|upsample_nearest2d}({x}, [{1|2|3|5}, {1|2|4|7}])"},
    {1, Takes::Float, -4, 1, "aten::avg_pool2d({x}, [{2|3}, 2], [{1|2}, 2], [{0|1}, 1], {flag}, {flag})"},
    {1, Takes::Float, -4, 1, "aten::{upsample_bilinear2d|upsample_bicubic2d}({x}, [{2|5|9}, {3|4|8}], {flag})"},
    {0.7, Takes::Float, -3, 1, "aten::upsample_linear1d({x}, [{2|5|9}], {flag})"},
    {1, Takes::Number, -3, 1, "aten::{reflection_pad1d|replication_pad1d}({x}, [{0|1|2}, {0|1|3}])"},
    {1, Takes::Number, -4, 1, "aten::{reflection_pad2d|replication_pad2d}({x}, [{0|1|2}, {0|1}, 1, {0|2}])"},
    {0.5, Takes::Any, -4, 1, "aten::{pixel_shuffle|pixel_unshuffle|channel_shuffle}({x}, {1|2|3})"},
    {0.5, Takes::Float, -4, 1, "aten::im2col({x}, [2, 2], [1, {1|2}], [{0|1}, 0], [1, {1|2}])"},
    {1, Takes::Float, 1, 1,
     "aten::{mse_loss|l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy_with_logits|soft_margin_loss}({x}, {same})"},
    {0.5, Takes::Float, 1, 1, "aten::mse_loss({x}, {same}, {0|1|2})"},
    {1, Takes::Float, -2, 1, "aten::cross_entropy_loss({x}, {columns}, none, {0|1|2}, {-100|0}, {0.0|0.1})"},
    {0.7, Takes::Float, -2, 2, "aten::nll_loss_forward({x}, {columns}, none, {0|1|2}, -100)"},
    {0.7, Takes::Float, -2, 1, "aten::cdist({x}, {x}, {1|2})"},
    {0.7, Takes::Float, -2, 1, "aten::linear({x}, {x})"},
    {0.7, Takes::Float, -2, 1, "aten::einsum(\"{ij,kj->ik|ij,ij->i|ij,ij->|ij,kj->ki|ij,ij->ji}\", [{x}, {x}])"},
    {0.5, Takes::Float, -3, 1, "aten::einsum(\"{bij,bkj->bik|bij,bij->jb|bij,cij->bc}\", [{x}, {x}])"},
};

constexpr Pattern kOthers[] = {
    {1, Takes::Float, 1, 2, "aten::{var_mean.correction|std_mean.correction}({x}, {dims}, correction={0|1}, keepdim={flag})"},
    {0.7, Takes::Number, 1, 2, "aten::median.dim({x}, {dim}, {flag})"},
    {0.7, Takes::Number, 1, 2, "aten::aminmax({x}, dim={dim}, keepdim={flag})"},
    {0.7, Takes::Number, 1, 1, "aten::{nansum|count_nonzero.dim_IntList}({x}, {dims})"},
    {0.5, Takes::Any, 1, 1, "aten::count_nonzero.dim_IntList({x}, {dims})"},
    {0.7, Takes::Number, 1, 1, "aten::diff({x}, {1|1|2}, {dim})"},
    {0.5, Takes::Any, 2, 1, "aten::{rot90|fliplr|flipud}({x})"},
    {0.5, Takes::Any, 1, 1, "aten::{tile|repeat}({x}, [2, {1|2}, 1])"},
    {0.7, Takes::Any, 1, 1, "aten::repeat_interleave.self_int({x}, {2|3}, {dim})"},
    {0.5, Takes::Any, 1, 1, "aten::diag_embed({x}, {0|1|-1})"},
    {0.7, Takes::Number, 1, 1, "aten::{select_scatter}({x}, {number}, {dim}, 0)"},
    {0.7, Takes::Float, 0, 1, "aten::addcdiv({x}, {y}, {positive}, value=0.5)"},
    {0.7, Takes::Float, 0, 1, "aten::lerp.Tensor({x}, {same}, {chance})"},
    {0.7, Takes::Float, 0, 1, "aten::{logaddexp|logaddexp2|fmod.Tensor|xlogy.Tensor|fdim}({x}, {positive})"},
    {0.7, Takes::Number, 0, 1, "aten::clamp.Tensor({x}, {y}, {same})"},
    {0.7, Takes::Number, 0, 1, "aten::{remainder.Scalar|fmod.Scalar|floor_divide.Scalar}({x}, {2|3|7|-1|-3|100|1.5})"},
    {0.5, Takes::Int, 0, 1, "aten::{gcd|bitwise_and.Tensor|bitwise_xor.Tensor}({x}, {same})"},
    {0.5, Takes::Int, 0, 1, "aten::bitwise_{left|right}_shift.Tensor_Scalar({x}, {0|1|3|7|8|31|40|64|-1})"},
    {0.5, Takes::Number, 0, 1, "aten::isin.Tensor_Tensor({x}, {y})"},
    {0.5, Takes::Float, 0, 1, "aten::bucketize.Tensor({x}, {ascending}, right={flag})"},
    {0.7, Takes::Any, 0, 1, "aten::masked_scatter({x}, {mask}, {same})"},
    {0.7, Takes::Any, 1, 1, "aten::where.ScalarOther({mask}, {x}, {number})"},
    {0.7, Takes::Number, 2, 2, "aten::_foreach_{add|mul|sub}.Scalar([{x}, {y}], {number})"},
    {0.7, Takes::Number, 1, 2, "aten::_foreach_{add|mul|maximum|minimum}.List([{x}, {same}], [{same}, {x}])"},
    {0.5, Takes::Number, -1, 1, "aten::outer({x}, {x})"},
    {0.5, Takes::Number, -1, 1, "aten::dot({x}, {same})"},
    {0.5, Takes::Int, 1, 1, "aten::one_hot({small_index}, 9)"},
};

constexpr Pattern kRandom[] = {
    {1, Takes::Float, 0, 1, "aten::{rand_like|randn_like}({x})"},
    {0.5, Takes::Float, 0, 1, "aten::{rand|randn}({sizes}, dtype={dtype})"},
    {0.5, Takes::Float, 0, 1, "aten::bernoulli.p({x}, {0.25|0.5|0|1})"},
    {0.4, Takes::Float, 0, 1, "aten::bernoulli({chance})"},
    {0.5, Takes::Any, 0, 1, "aten::randint({5|100|100000}, {sizes})"},
    {0.8, Takes::Float, 0, 2, "aten::native_dropout({x}, {0.25|0.5}, true)"},
    {0.5, Takes::Float, 0, 1, "aten::dropout({x}, 0.5, {flag})"},
    {0.3, Takes::Any, 1, 1, "aten::randperm({last})"},
    {0.3, Takes::Float, 0, 1, "aten::normal_functional({x}, 1, 2)"},
    {0.3, Takes::Float, 0, 1, "aten::{exponential|uniform|log_normal}({x})"},
};

constexpr Pattern kQuantised[] = {
    {1, Takes::Float, 0, 1, "quantized_decomposed::quantize_per_tensor({unit}, {0.1|0.03125|0.5}, {0|3|-7}, -128, 127, dtype.i8)"},
    {0.7, Takes::Float, 0, 1, "quantized_decomposed::quantize_per_tensor({unit}, {0.1|0.03125}, 128, 0, 255, dtype.u8)"},
    {0.7, Takes::Float, 0, 1, "aten::fake_quantize_per_tensor_affine({x}, {0.1|0.25}, {0|5}, -128, 127)"},
    {0.5, Takes::Float, 2, 1, "quantized_decomposed::quantize_per_channel({unit}, {scales}, {zeros}, 1, -128, 127, dtype.i8)"},
};

MaybeCall dequantize(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.dtype == DType::I8 || v.dtype == DType::U8; });
  if (x == nullptr) return std::nullopt;
  const bool is_signed = x->dtype == DType::I8;
  return Call{fmt::format("quantized_decomposed::dequantize_per_tensor({}, {}, {}, {}, dtype.{})", x->name,
                          g.random.pick({"0.1", "0.03125"}), is_signed ? "3" : "128", is_signed ? "-128, 127" : "0, 255",
                          to_string(x->dtype))};
}

// ---- what patterns cannot say ------------------------------------------------------------------------------------------

bool is_real(const Value& v) { return v.is_float(); }

MaybeCall attention(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return is_real(v) && v.rank() >= 2 && v.numel() <= 4096; });
  if (x == nullptr) return std::nullopt;
  const Value q = *x;
  const auto last = static_cast<size_t>(q.rank() - 1);
  std::vector<std::string> sizes = q.sizes;
  if (g.random.chance(0.5)) sizes[last - 1] = g.some_size();
  const std::string keys = g.random.chance(0.4) && sizes == q.sizes ? q.name : g.fresh(q.dtype, sizes).name;
  if (g.random.chance(0.3)) sizes[last] = g.some_size();
  const std::string values = g.fresh(q.dtype, sizes).name;
  std::string mask = "none";
  const bool causal = g.random.chance(0.3);
  if (!causal && g.random.chance(0.5)) {
    mask = g.fresh(g.random.chance(0.5) ? DType::Bool : q.dtype, {q.sizes[last - 1], sizes[last - 1]}).name;
  }
  return Call{fmt::format("aten::scaled_dot_product_attention({}, {}, {}, {}, 0.0, {}{})", q.name, keys, values, mask, causal,
                          g.random.chance(0.2) ? ", scale=0.5" : "")};
}

MaybeCall convolution(Grower& g) {
  const Value* x = g.pick([&](const Value& v) {
    return is_real(v) && (v.rank() == 3 || v.rank() == 4) && g.is_constant(v, 1) && v.numel() > 0 && v.numel() <= 3000;
  });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t channels = a.concrete[1];
  const bool two = a.rank() == 4;
  const bool transposed = g.random.chance(0.3);
  int64_t groups = 1;
  if (g.random.chance(0.4)) groups = g.random.chance(0.5) ? channels : channels % 2 == 0 ? 2 : 1;
  const int64_t per_group = g.random.between(1, 3);
  const int64_t out = per_group * groups;
  std::vector<std::string> weight = {std::to_string(transposed ? channels : out),
                                     std::to_string(transposed ? per_group : channels / groups)};
  for (int64_t d = 2; d < a.rank(); ++d) weight.push_back(g.random.pick({"1", "2", "3"}));
  auto each = [&](std::initializer_list<const char*> choices) {
    std::string list = g.random.pick(choices);
    if (two) list += fmt::format(", {}", g.random.pick(choices));
    return list;
  };
  const Value w = g.fresh(a.dtype, weight);
  const std::string bias = g.random.chance(0.5) ? g.fresh(a.dtype, {std::to_string(out)}).name : "none";
  const std::string arguments = fmt::format("[{}], [{}], [{}], {}, [{}], {}", each({"1", "2"}), each({"0", "1"}), each({"1", "1", "2"}),
                                            transposed, two ? "0, 0" : "0", groups);
  const Value* y = g.make({fmt::format("aten::convolution({}, {}, {}, {})", a.name, w.name, bias, arguments)});
  if (y == nullptr || g.random.chance(0.5)) return std::nullopt;
  // Its gradients.
  const std::string gradient = g.random.chance(0.5) ? y->name : g.fresh(a.dtype, std::vector<std::string>(y->sizes)).name;
  return Call{fmt::format("aten::convolution_backward({}, {}, {}, [{}], {}, [true, true, true])", gradient, a.name, w.name, out, arguments),
              3};
}

MaybeCall layer_norm_gradients(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return is_real(v) && v.rank() >= 1; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::string weight = g.fresh(a.dtype, {a.sizes.back()}).name;
  const Value* made = g.make({fmt::format("aten::native_layer_norm({}, [{}], {}, {}, 0.01)", a.name, a.sizes.back(), weight, weight), 3});
  if (made == nullptr) return std::nullopt;
  const std::string mean = (made - 1)->name;
  const std::string rstd = made->name;
  return Call{fmt::format("aten::native_layer_norm_backward({}, {}, [{}], {}, {}, {}, {}, [true, true, true])", of_type(g, a, ""), a.name,
                          a.sizes.back(), mean, rstd, weight, weight),
              3};
}

MaybeCall pool_gradients(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return is_real(v) && v.rank() == 4 && v.numel() <= 3000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::string arguments = g.random.pick({"[2, 2], [2, 2], [0, 0]", "[3, 2], [1, 1], [1, 1]", "[2, 3], [2, 1], [0, 1]"});
  if (g.random.chance(0.5)) {
    const Value* y = g.make({fmt::format("aten::avg_pool2d({}, {}, false, true)", a.name, arguments)});
    if (y == nullptr) return std::nullopt;
    return Call{fmt::format("aten::avg_pool2d_backward({}, {}, {}, false, true, none)", y->name, a.name, arguments)};
  }
  const Value* y = g.make({fmt::format("aten::max_pool2d_with_indices({}, {})", a.name, arguments), 2});
  if (y == nullptr) return std::nullopt;
  return Call{
      fmt::format("aten::max_pool2d_with_indices_backward({}, {}, {}, [1, 1], false, {})", (y - 1)->name, a.name, arguments, y->name)};
}

MaybeCall embedding_gradient(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return is_real(v) && v.rank() >= 2 && v.numel() <= 4096; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::vector<std::string> sizes(a.sizes.begin(), a.sizes.end() - 1);
  return Call{fmt::format("aten::embedding_dense_backward({}, {}, 7, {}, false)", a.name, g.fresh(DType::I64, sizes, "index 7").name,
                          g.random.pick({"-1", "2"}))};
}

// A recurrent cell of two or three units.
MaybeCall cell(Grower& g) {
  const Value* x = g.pick([&](const Value& v) { return is_real(v) && v.rank() == 2 && v.numel() <= 1000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t units = g.random.between(2, 3);
  auto input = [&](std::vector<std::string> sizes) { return g.fresh(a.dtype, std::move(sizes)).name; };
  const std::string hidden = input({a.sizes[0], std::to_string(units)});
  const bool lstm = g.random.chance(0.5);
  const std::string rows = std::to_string(units * (lstm ? 4 : 3));
  const std::string weights =
      fmt::format("{}, {}, {}, {}", input({rows, a.sizes[1]}), input({rows, std::to_string(units)}), input({rows}), input({rows}));
  if (!lstm) return Call{fmt::format("aten::gru_cell({}, {}, {})", a.name, hidden, weights)};
  return Call{fmt::format("aten::lstm_cell({}, [{}, {}], {})", a.name, hidden, input({a.sizes[0], std::to_string(units)}), weights), 2};
}

MaybeCall grid_sample(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return is_real(v) && v.rank() == 4 && v.numel() <= 3000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  return Call{fmt::format("aten::grid_sampler_2d({}, {}, {}, {}, {})", a.name, g.fresh(a.dtype, {a.sizes[0], "3", "2", "2"}, "unit").name,
                          g.random.below(3), g.random.below(3), g.flag())};
}

template <size_t N>
void add(std::vector<OperatorRow>& rows, const Pattern (&patterns)[N]) {
  for (const Pattern& pattern : patterns)
    rows.push_back({pattern.weight * 0.6, [&pattern](Grower& g) { return from_pattern(g, pattern); }});
}

}  // namespace

std::vector<OperatorRow> network_operators() {
  std::vector<OperatorRow> rows = {
      {2, attention}, {2, convolution},   {1, layer_norm_gradients}, {0.8, pool_gradients}, {0.6, embedding_gradient},
      {0.6, cell},    {0.3, grid_sample}, {1, dequantize},
  };
  add(rows, kGradients);
  add(rows, kLayers);
  add(rows, kOthers);
  add(rows, kRandom);
  add(rows, kQuantised);
  return rows;
}

}  // namespace toroid::fuzz
