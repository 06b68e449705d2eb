// The operators of random programs: each row picks operands that fit.
#include "fuzz/grow.h"

#include <fmt/format.h>

namespace toroid::fuzz {
namespace {

using Names = std::vector<std::string>;

bool any(const Value&) { return true; }
bool is_float(const Value& v) { return v.is_float(); }
bool is_number(const Value& v) { return !v.is_bool(); }
bool is_int(const Value& v) { return v.is_int(); }
Grower::Predicate has_dims(Grower::Predicate also = any, int64_t least = 1) {
  return [=](const Value& v) { return v.rank() >= least && also(v); };
}

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
  const Value* other =
      g.pick([&](const Value& v) { return v.dtype != a.dtype && (v.sizes == a.sizes || v.rank() == 0); });
  if (other == nullptr) return std::nullopt;
  const std::string op = g.random.pick({"add.Tensor", "mul.Tensor", "maximum", "eq.Tensor", "lt.Tensor", "minimum"});
  return Call{fmt::format("aten::{}({}, {})", op, a.name, other->name)};
}

MaybeCall scaled_add(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  return Call{fmt::format("aten::{}({}, {}, alpha={})", g.random.pick({"add.Tensor", "sub.Tensor"}), a.name,
                          g.beside(a).name,
                          a.is_float() ? g.random.pick({"2", "0.5", "-1.5"}) : g.random.pick({"2", "3"}))};
}

MaybeCall with_number(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  // What a compiler may simplify, but for NaN, infinities and the sign of zero.
  if (x->is_float() && g.random.chance(0.25)) {
    return Call{g.random.pick(
        {fmt::format("aten::mul.Scalar({}, 0.0)", x->name), fmt::format("aten::add.Scalar({}, 0.0)", x->name),
         fmt::format("aten::sub.Tensor({0}, {0})", x->name), fmt::format("aten::mul.Scalar({}, -1)", x->name),
         fmt::format("aten::pow.Tensor_Scalar({}, 0)", x->name), fmt::format("aten::eq.Tensor({0}, {0})", x->name)})};
  }
  const std::string op =
      g.random.pick({"add.Scalar", "sub.Scalar", "mul.Scalar", "mul.Scalar", "rsub.Scalar", "eq.Scalar", "ne.Scalar",
                     "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar", "clamp_min", "clamp_max"});
  return Call{fmt::format("aten::{}({}, {})", op, x->name, g.number_for(*x))};
}

MaybeCall divide(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Value b = g.beside(a, {}, a.is_float() ? "positive" : "nonzero");
  if (g.random.chance(0.3)) return Call{fmt::format("aten::div.Tensor({}, {})", a.name, b.name)};
  if (g.random.chance(0.5)) {
    return Call{fmt::format("aten::div.Tensor_mode({}, {}, rounding_mode=\"{}\")", a.name, b.name,
                            g.random.pick({"floor", "trunc"}))};
  }
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"remainder.Tensor", "fmod.Tensor", "floor_divide"}),
                          a.name, b.name)};
}

MaybeCall power(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  return Call{
      fmt::format("aten::pow.Tensor_Scalar({}, {})", x->name, g.random.pick({"2", "3", "2.0", "-1", "1", "0"}))};
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
  return Call{
      fmt::format("aten::masked_fill.Scalar({}, {}, {})", a.name, g.beside(a, DType::Bool).name, g.number_for(a))};
}

MaybeCall clamp(Grower& g) {
  const Value* x = g.pick(is_number);
  if (x == nullptr) return std::nullopt;
  const bool is_unsigned = x->dtype == DType::U8;
  return Call{fmt::format("aten::clamp({}, {}, {})", x->name,
                          x->is_float() ? "-1.25"
                          : is_unsigned ? "2"
                                        : "-3",
                          x->is_float() ? "1.5" : "5")};
}

MaybeCall ternary(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::string b = g.beside(a).name;
  if (g.random.chance(0.5))
    return Call{fmt::format("aten::addcmul({}, {}, {}, value=0.5)", a.name, b, g.beside(a).name)};
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
  return Call{
      fmt::format("aten::arange({}{})", g.some_size(), g.random.pick({"", ", dtype=dtype.i32", ", dtype=dtype.f32"}))};
}

MaybeCall left_or_right_shift(Grower& g) {
  const Value* x = g.pick(is_int);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  return Call{fmt::format("aten::{}({}, {})",
                          g.random.pick({"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"}), a.name,
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
    return Call{g.random.chance(0.5)
                    ? fmt::format("aten::{}({}, {}{})", g.random.pick({"any.dim", "all.dim"}), x->name, dim, keep)
                    : fmt::format("aten::sum.dim_IntList({}, {}{})", x->name, dims, keep)};
  }
  Names names = {"sum.dim_IntList", "sum.dim_IntList", "sum.dim_IntList", "amax", "amin"};
  if (x->is_float()) {
    for (const char* name : {"mean.dim", "mean.dim", "logsumexp"}) names.emplace_back(name);
    if (g.random.chance(0.2)) {
      return Call{fmt::format("aten::{}({}, {}, correction={}{})", g.random.pick({"var.correction", "std.correction"}),
                              x->name, dims, g.random.pick({"0", "1"}), keep.empty() ? "" : ", keepdim=true")};
    }
    if (g.random.chance(0.1))
      return Call{
          fmt::format("aten::linalg_vector_norm({}, {}, {}{})", x->name, g.random.pick({"2", "1", "inf"}), dims, keep)};
  }
  if (g.random.chance(0.06)) return Call{fmt::format("aten::prod.dim_int({}, {}{})", x->name, dim, keep)};
  return Call{fmt::format("aten::{}({}, {}{})", g.random.pick(names), x->name, dims, keep)};
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
  if (g.random.chance(0.5))
    return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"argmax", "argmin"}), x->name, dim, g.flag())};
  return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"max.dim", "min.dim"}), x->name, dim, g.flag()), 2};
}

MaybeCall softmax(Grower& g) {
  const Value* x = g.pick(has_dims(is_float));
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::{}({}, {}, false)", g.random.pick({"_softmax", "_softmax", "_log_softmax"}), x->name,
                          g.dim_of(*x))};
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

MaybeCall scan(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  const int64_t dim = g.dim_of(*x);
  if (g.random.chance(0.3))
    return Call{fmt::format("aten::{}({}, {})", g.random.pick({"cummax", "cummin"}), x->name, dim), 2};
  return Call{fmt::format("aten::cumsum({}, {})", x->name, dim)};
}

MaybeCall sort(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::sort.stable({}, stable=true, dim={}, descending={})", x->name, g.dim_of(*x), g.flag()),
              2};
}

MaybeCall topk(Grower& g) {
  const Value* x = g.pick(has_dims(is_float));
  if (x == nullptr) return std::nullopt;
  // Which of several equal elements is taken is not said: only elements that differ.
  const Value a = g.fresh(DType::F32, x->sizes, "distinct");
  const int64_t dim = g.dim_of(a);
  if (a.concrete[static_cast<size_t>(dim)] == 0 || !g.is_constant(a, dim)) return std::nullopt;
  return Call{fmt::format("aten::topk({}, {}, {}, {})", a.name,
                          g.random.between(1, a.concrete[static_cast<size_t>(dim)]), dim, g.flag()),
              2};
}

// ---- views and movement --------------------------------------------------------------------------------------------------------

MaybeCall view(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  const std::string size_text = a.sizes[static_cast<size_t>(dim)];
  switch (g.random.below(12)) {
    case 0: {
      std::vector<int64_t> order;
      for (int64_t d = 0; d < a.rank(); ++d) order.insert(order.begin() + g.random.below(d + 1), d);
      return Call{fmt::format("aten::permute({}, [{}])", a.name, fmt::join(order, ", "))};
    }
    case 1:
    case 2: return Call{fmt::format("aten::transpose.int({}, {}, {})", a.name, dim, g.dim_of(a))};
    case 3:
    case 4: {
      const int64_t start = g.random.pick({int64_t{0}, int64_t{1}, int64_t{2}, size / 2});
      const std::string end = g.random.chance(0.5) ? "9223372036854775807"
                              : g.is_constant(a, dim)
                                  ? std::to_string(std::max<int64_t>(0, size - g.random.between(0, 2)))
                                  : size_text + " - 1";
      return Call{fmt::format("aten::slice.Tensor({}, {}, {}, {}, {})", a.name, dim, start, end,
                              g.random.pick({1, 1, 1, 2, 3}))};
    }
    case 5:
      return Call{fmt::format("aten::select.int({}, {}, {})", a.name, dim,
                              size == 0 ? 0 : g.random.pick({int64_t{0}, int64_t{-1}, size / 2}))};
    case 6: return Call{fmt::format("aten::unsqueeze({}, {})", a.name, g.random.below(a.rank() + 1))};
    case 7: return Call{fmt::format("aten::squeeze.dim({}, {})", a.name, dim)};
    case 8: {
      std::vector<std::string> sizes = a.sizes;
      for (std::string& each : sizes) {
        if (each == "1") each = g.some_size();
      }
      if (g.random.chance(0.4)) sizes.insert(sizes.begin(), g.some_size());
      return Call{fmt::format("aten::expand({}, [{}])", a.name, fmt::join(sizes, ", "))};
    }
    case 9: {
      if (a.rank() < 2) return std::nullopt;
      const int64_t d1 = g.dim_of(a);
      return d1 == dim ? std::nullopt
                       : MaybeCall(Call{fmt::format("aten::diagonal({}, {}, {}, {})", a.name, g.random.pick({0, 1, -1}),
                                                    dim, d1)});
    }
    case 10: {
      if (!g.is_constant(a, dim) || size < 2) return std::nullopt;
      return Call{fmt::format("aten::unfold({}, {}, {}, {})", a.name, dim,
                              g.random.between(1, std::min<int64_t>(size, 5)), g.random.between(1, 3))};
    }
    default: {
      const int64_t parts = size > 0 && size <= 40 && g.is_constant(a, dim) ? g.random.between(1, 3) : 1;
      const int64_t length = (size + parts - 1) / parts;
      if (!g.is_constant(a, dim) || size == 0) return std::nullopt;
      return Call{fmt::format("aten::split.Tensor({}, {}, {})", a.name, length, dim),
                  static_cast<int>((size + length - 1) / length)};
    }
  }
}

MaybeCall reshape(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  std::vector<std::string> sizes = x->sizes;
  const int64_t dim = g.dim_of(*x);
  const auto d = static_cast<size_t>(dim);
  if (g.random.chance(0.5) && sizes.size() > 1 && d + 1 < sizes.size()) {
    sizes[d] = g.is_constant(*x, dim) && g.is_constant(*x, dim + 1)
                   ? std::to_string(x->concrete[d] * x->concrete[d + 1])
                   : fmt::format("{}*{}", sizes[d], sizes[d + 1]);
    if (sizes[d].find_first_of("+-") != std::string::npos) return std::nullopt;
    sizes.erase(sizes.begin() + dim + 1);
  } else if (g.is_constant(*x, dim) && x->concrete[d] > 3) {
    for (int64_t factor : {2, 3, 5, 7}) {
      if (x->concrete[d] % factor != 0 || !g.random.chance(0.7)) continue;
      sizes[d] = std::to_string(x->concrete[d] / factor);
      sizes.insert(sizes.begin() + dim + (g.random.chance(0.5) ? 0 : 1), std::to_string(factor));
      break;
    }
  } else {
    sizes = {"-1"};
  }
  return Call{fmt::format("aten::reshape({}, [{}])", x->name, fmt::join(sizes, ", "))};
}

MaybeCall move(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  switch (g.random.below(6)) {
    case 0: return Call{fmt::format("aten::flip({}, {})", a.name, g.some_dims(a))};
    case 1: return Call{fmt::format("aten::roll({}, [{}], [{}])", a.name, g.random.pick({1, -1, 3, 7}), dim)};
    case 2: return Call{fmt::format("aten::clone({})", a.name)};
    case 3:
      if (a.rank() < 2) return std::nullopt;
      return Call{
          fmt::format("aten::{}({}, {})", g.random.pick({"tril", "triu"}), a.name, g.random.pick({0, 1, -1, 3}))};
    case 4: {
      std::vector<int64_t> times(static_cast<size_t>(a.rank()), 1);
      times[static_cast<size_t>(dim)] = 2;
      return Call{fmt::format("aten::repeat({}, [{}])", a.name, fmt::join(times, ", "))};
    }
    default: return Call{fmt::format("aten::movedim.int({}, {}, {})", a.name, dim, g.dim_of(a))};
  }
}

MaybeCall join(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  std::vector<std::string> parts = {a.name};
  const int64_t dim = g.dim_of(a);
  const bool stack = g.random.chance(0.3);
  for (int64_t i = g.random.between(1, 2); i > 0; --i) {
    const Value* other = g.pick([&](const Value& v) {
      if (v.dtype != a.dtype || v.rank() != a.rank()) return false;
      for (int64_t d = 0; d < a.rank(); ++d) {
        if ((stack || d != dim) && v.sizes[static_cast<size_t>(d)] != a.sizes[static_cast<size_t>(d)]) return false;
      }
      return true;
    });
    parts.insert(g.random.chance(0.5) ? parts.begin() : parts.end(), other->name);
  }
  return Call{fmt::format("aten::{}([{}], {})", stack ? "stack" : "cat", fmt::join(parts, ", "), dim)};
}

MaybeCall pad(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  std::vector<int64_t> amounts;
  for (int64_t i = 2 * g.random.between(1, x->rank()); i > 0; --i)
    amounts.push_back(g.random.pick({0, 0, 1, 2, 5, -1}));
  return Call{fmt::format("aten::constant_pad_nd({}, [{}], {})", x->name, fmt::join(amounts, ", "), g.number_for(*x))};
}

// ---- indexing -----------------------------------------------------------------------------------------------------------------

MaybeCall read_by_index(Grower& g) {
  const Value* x = g.pick([&g](const Value& v) { return v.rank() >= 1; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  if (size == 0 || !g.is_constant(a, dim)) return std::nullopt;
  const std::string index_kind = fmt::format("index {}", size);
  const std::string wrapped = fmt::format("wrap {}", size);
  switch (g.random.below(4)) {
    case 0:
      return Call{fmt::format("aten::index_select({}, {}, {})", a.name, dim,
                              g.fresh(DType::I64, {g.some_size()}, index_kind).name)};
    case 1: {
      std::vector<std::string> sizes = a.sizes;
      sizes[static_cast<size_t>(dim)] = g.some_size();
      return Call{fmt::format("aten::gather({}, {}, {})", a.name, dim, g.fresh(DType::I64, sizes, index_kind).name)};
    }
    case 2: {
      std::vector<std::string> indices(static_cast<size_t>(dim), "none");
      indices.push_back(g.fresh(DType::I64, {g.some_size()}, wrapped).name);
      return Call{fmt::format("aten::index.Tensor({}, [{}])", a.name, fmt::join(indices, ", "))};
    }
    default: {
      if (a.rank() != 2 || !a.is_float() || dim != 0) return std::nullopt;
      return Call{
          fmt::format("aten::embedding({}, {})", a.name, g.fresh(DType::I64, {g.some_size(), "3"}, index_kind).name)};
    }
  }
}

MaybeCall write_by_index(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  if (size == 0 || !g.is_constant(a, dim)) return std::nullopt;
  const std::string index_kind = fmt::format("index {}", size);
  std::vector<std::string> sizes = a.sizes;
  const std::string in_place = a.overlaps || !g.random.chance(0.3) ? "" : "_";
  switch (g.random.below(5)) {
    case 0: {
      sizes[static_cast<size_t>(dim)] = g.some_size();
      const std::string index = g.fresh(DType::I64, sizes, index_kind).name;
      return Call{fmt::format("aten::scatter_add{}({}, {}, {}, {})", in_place, a.name, dim, index,
                              g.fresh(a.dtype, sizes).name)};
    }
    case 1: {  // each row's indices differ
      const Value index = g.fresh(DType::I64, {a.sizes[static_cast<size_t>(dim)]}, "permute");
      std::vector<std::string> row(static_cast<size_t>(a.rank()), "1");
      return Call{fmt::format("aten::index_copy{}({}, {}, {}, {})", in_place, a.name, dim, index.name,
                              g.fresh(a.dtype, a.sizes).name)};
    }
    case 2: {
      sizes[static_cast<size_t>(dim)] = g.some_size();
      const std::string index = g.fresh(DType::I64, {sizes[static_cast<size_t>(dim)]}, index_kind).name;
      return Call{
          fmt::format("aten::index_add{}({}, {}, {}, {})", in_place, a.name, dim, index, g.fresh(a.dtype, sizes).name)};
    }
    case 3: {
      if (dim != 0) return std::nullopt;
      sizes[0] = g.some_size();
      const std::string index = g.fresh(DType::I64, {sizes[0]}, fmt::format("wrap {}", size)).name;
      return Call{
          fmt::format("aten::index_put{}({}, [{}], {}, true)", in_place, a.name, index, g.fresh(a.dtype, sizes).name)};
    }
    default: {
      const std::string index = g.fresh(DType::I64, sizes, index_kind).name;
      return Call{fmt::format("aten::scatter_reduce.two({}, {}, {}, {}, \"{}\")", a.name, dim, index,
                              g.fresh(a.dtype, sizes).name, g.random.pick({"amax", "amin", "sum"}))};
    }
  }
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
  const Value* found = g.pick(
      [&](const Value& v) { return v.dtype == a.dtype && v.rank() == a.rank() && v.sizes[v.sizes.size() - 2] == k; });
  const std::string b = found != nullptr && g.random.chance(0.7) ? found->name : g.fresh(a.dtype, other).name;
  if (a.rank() == 3) return Call{fmt::format("aten::{}({}, {})", g.random.pick({"bmm", "matmul"}), a.name, b)};
  if (g.random.chance(0.4))
    return Call{
        fmt::format("aten::addmm({}, {}, {})", g.fresh(a.dtype, {n}).name, a.name, g.fresh(a.dtype, {k, n}).name)};
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"mm", "matmul"}), a.name, b)};
}

MaybeCall convolve(Grower& g) {
  const Value* x = g.pick(has_dims(is_float, 3));
  if (x == nullptr || x->rank() > 4 || !g.is_constant(*x, 1) || x->numel() > 3000) return std::nullopt;
  const Value a = *x;
  const std::string window = g.random.pick({"1", "2", "3"});
  std::vector<std::string> weight = {g.random.pick({"1", "2", "4"}), a.sizes[1], window};
  if (a.rank() == 4) weight.push_back(window);
  return Call{fmt::format("aten::conv{}d({}, {}, none, [{}], [{}])", a.rank() - 2, a.name,
                          g.fresh(a.dtype, weight).name,
                          a.rank() == 4 ? g.random.pick({"1, 1", "2, 1"}) : g.random.pick({"1", "2"}),
                          a.rank() == 4 ? "1, 0" : g.random.pick({"0", "1"}))};
}

MaybeCall pool(Grower& g) {
  const Value* x = g.pick(has_dims(is_float, 3));
  if (x == nullptr || x->rank() > 4) return std::nullopt;
  if (x->rank() == 3)
    return Call{fmt::format("aten::{}({}, [2], [{}])", g.random.pick({"max_pool1d", "avg_pool1d"}), x->name,
                            g.random.pick({1, 2}))};
  if (g.random.chance(0.3))
    return Call{fmt::format("aten::max_pool2d_with_indices({}, [2, 3], [1, 2], [1, 1])", x->name), 2};
  return Call{fmt::format("aten::{}({}, [2, 2], [{}])", g.random.pick({"max_pool2d", "avg_pool2d"}), x->name,
                          g.random.pick({"1, 1", "2, 2"}))};
}

// ---- in place -------------------------------------------------------------------------------------------------------------------

MaybeCall write(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return !v.overlaps; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  switch (g.random.below(6)) {
    case 0: {
      const Value* from = g.pick([&](const Value& v) { return v.sizes == a.sizes && (a.is_float() || !v.is_float()); });
      return Call{fmt::format("aten::copy_({}, {})", a.name, from->name)};
    }
    case 1: return Call{fmt::format("aten::fill_.Scalar({}, {})", a.name, g.number_for(a))};
    case 2: return Call{fmt::format("aten::zero_({})", a.name)};
    case 3:
      if (a.is_bool()) return Call{fmt::format("aten::logical_not_({})", a.name)};
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"add_.Scalar", "mul_.Scalar"}), a.name,
                              a.is_float() ? "1.5" : g.random.pick({"2", "3"}))};
    default: {
      if (a.is_bool()) return std::nullopt;
      const Value b = g.beside(a);
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"add_.Tensor", "mul_.Tensor", "sub_.Tensor"}), a.name,
                              b.name)};
    }
  }
}

}  // namespace

const std::vector<OperatorRow>& operator_table() {
  static const std::vector<OperatorRow> table = {
      {8, unary(is_float, {"exp", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "relu", "erf", "expm1", "atan",
                           "softplus", "hardswish", "leaky_relu", "elu", "sinh", "mish"})},
      {4, unary(is_float, {"floor", "ceil", "trunc", "round", "isnan", "isfinite", "sign", "frac", "nan_to_num"})},
      {3, unary(is_float, {"sqrt", "rsqrt", "log", "log1p", "reciprocal", "log2"})},
      {4, unary(is_number, {"neg", "abs", "square", "relu", "sign"})},
      {1, unary(is_int, {"exp", "sqrt", "sigmoid", "reciprocal", "bitwise_not"})},
      {1, unary(any, {"logical_not"})},
      {12, binary(is_number, {"add.Tensor", "sub.Tensor", "mul.Tensor", "mul.Tensor"})},
      {5,
       binary(is_number, {"maximum", "minimum", "eq.Tensor", "lt.Tensor", "ge.Tensor", "ne.Tensor", "fmax", "fmin"})},
      {2, binary(is_float, {"atan2", "hypot", "copysign.Tensor", "nextafter"})},
      {2, binary([](const Value& v) { return !v.is_float(); },
                 {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"})},
      {2, binary(any, {"logical_and", "logical_or", "logical_xor"})},
      {3, mixed},
      {2, scaled_add},
      {5, with_number},
      {3, divide},
      {2, power},
      {4, where},
      {2, masked_fill},
      {2, clamp},
      {2, ternary},
      {6, cast},
      {1, fill_like},
      {1, arange},
      {1, left_or_right_shift},
      {12, reduce},
      {3, reduce_all},
      {4, arg_reduce},
      {4, softmax},
      {3, layer_norm},
      {4, scan},
      {2, sort},
      {1, topk},
      {12, view},
      {5, reshape},
      {4, move},
      {5, join},
      {3, pad},
      {5, read_by_index},
      {5, write_by_index},
      {4, product},
      {2, convolve},
      {2, pool},
      {8, write},
  };
  return table;
}

}  // namespace toroid::fuzz
