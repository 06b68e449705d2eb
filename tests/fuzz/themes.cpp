// What random programs are about. Each theme makes situations frequent that a fused kernel, a pass or the runtime may get wrong,
// but that operators picked one by one seldom come to: two writes to one view, pads that differ in their value, a read after a write.
#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

bool may_be_written(const Value& v) { return !v.overlaps && v.numel() > 0; }
bool has_a_dim(const Value& v) { return v.rank() >= 1; }
bool is_row_of_numbers(const Value& v) { return has_a_dim(v) && is_number(v); }

// A value that fits, or a new input.
Value some(Grower& g, const Grower::Predicate& wanted, DType dtype, std::vector<std::string> sizes) {
  if (const Value* found = g.pick(wanted)) return *found;
  return g.fresh(dtype, std::move(sizes));
}

// ---- signs of zeros ------------------------------------------------------------------------------------------------------------

MaybeCall bound_at_zero(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  const std::string zero = g.random.pick({"0", "0.0", "-0.0"});
  switch (g.random.below(7)) {
    case 0: return Call{fmt::format("aten::clamp({}, {})", x->name, zero)};
    case 1: return Call{fmt::format("aten::clamp({}, none, {})", x->name, zero)};
    case 2: return Call{fmt::format("aten::clamp({}, {}, 1.0)", x->name, zero)};
    case 3: return Call{fmt::format("aten::{}({}, {})", g.random.pick({"clamp_min", "clamp_max"}), x->name, zero)};
    case 4: return Call{fmt::format("aten::hardtanh({}, {}, 0.5)", x->name, zero)};
    case 5: return Call{fmt::format("aten::threshold({}, {}, {})", x->name, zero, g.random.pick({"0", "-0.0", "1.0"}))};
    default: return Call{fmt::format("aten::{}({})", g.random.pick({"relu", "relu6"}), x->name)};
  }
}

MaybeCall sign_of_zero(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  switch (g.random.below(5)) {
    case 0: return Call{fmt::format("aten::mul.Scalar({}, {})", a.name, g.random.pick({"0.0", "-0.0", "-1", "1"}))};
    case 1: return Call{fmt::format("aten::add.Scalar({}, {})", a.name, g.random.pick({"0.0", "-0.0"}))};
    case 2:
      return Call{
          fmt::format("aten::{}({})", g.random.pick({"neg", "abs", "reciprocal", "sign", "trunc", "ceil", "round", "signbit"}), a.name)};
    case 3:
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"mul.Tensor", "sub.Tensor", "copysign.Tensor", "atan2"}), a.name,
                              g.beside(a).name)};
    default: return Call{fmt::format("aten::where.self({}, {}, {})", g.beside(a, DType::Bool).name, a.name, g.beside(a).name)};
  }
}

// ---- 16 bits -------------------------------------------------------------------------------------------------------------------

// To 16 bits and back, with something before and after.
MaybeCall to_16_bits_and_back(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.dtype == DType::F32 || v.dtype == DType::F64; });
  if (x == nullptr) return std::nullopt;
  Value a = *x;
  if (g.random.chance(0.5)) a = made(g, fmt::format("aten::{}({})", g.random.pick({"sin", "tanh", "sigmoid", "neg"}), a.name));
  const Value narrow = made(g, fmt::format("aten::to.dtype({}, dtype.{})", a.name, g.random.pick({"bf16", "f16"})));
  if (g.random.chance(0.3)) return Call{fmt::format("aten::mul.Tensor({}, {})", narrow.name, a.name)};
  const Value back = made(g, fmt::format("aten::to.dtype({}, dtype.{})", narrow.name, g.random.pick({"f32", "f32", "f64"})));
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"add.Tensor", "sub.Tensor", "mul.Tensor"}), back.name,
                          g.random.chance(0.5) ? back.name : a.name)};
}

// ---- reductions ----------------------------------------------------------------------------------------------------------------

MaybeCall reduce_long_row(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return has_a_dim(v); });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  if (a.is_bool()) return Call{fmt::format("aten::{}({})", g.random.pick({"any", "all", "sum"}), a.name)};
  if (g.random.chance(0.3)) return Call{fmt::format("aten::{}({})", g.random.pick({"sum", "max", "min", "any", "all"}), a.name)};
  int64_t longest = 0;
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (!g.is_constant(a, d) || a.concrete[static_cast<size_t>(d)] > 60000) longest = d;
  }
  const std::string dims = g.random.chance(0.7) ? fmt::format("[{}]", longest) : g.some_dims(a);
  std::vector<std::string> names = {"sum.dim_IntList", "sum.dim_IntList", "amax", "amin"};
  if (a.is_float()) names.insert(names.end(), {"mean.dim", "mean.dim", "logsumexp"});
  return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick(names), a.name, dims, g.flag())};
}

// The mean of what each row gives: a small kernel behind a large one.
MaybeCall loss_over_rows(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.rank() == 2 && is_number(v); });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Value one = made(g, fmt::format("aten::{}({})", g.random.pick({"abs", "neg", "square"}), a.name));
  const std::string of = g.random.chance(0.5) ? one.name : a.name;
  const Value rows = made(g, fmt::format("aten::{}({}, [{}], {})", g.random.pick({"sum.dim_IntList", "amax", "amin"}), of,
                                         g.random.chance(0.7) ? 1 : 0, g.flag()));
  return Call{fmt::format(
      "aten::{}({})",
      g.random.pick(rows.is_float() ? std::vector<std::string>{"sum", "mean", "max"} : std::vector<std::string>{"sum", "min", "max"}),
      rows.name)};
}

// ---- equal elements ------------------------------------------------------------------------------------------------------------

MaybeCall scan_ties(Grower& g) {
  const Value* x = g.pick(is_row_of_numbers);
  if (x == nullptr) return std::nullopt;
  const int64_t dim = g.dim_of(*x);
  switch (g.random.below(7)) {
    case 0:
    case 1:
    case 2: return Call{fmt::format("aten::{}({}, {})", g.random.pick({"cummax", "cummin"}), x->name, dim), 2};
    case 3: return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"argmax", "argmin"}), x->name, dim, g.flag())};
    case 4: return Call{fmt::format("aten::{}({}, {}, {})", g.random.pick({"max.dim", "min.dim"}), x->name, dim, g.flag()), 2};
    case 5: return Call{fmt::format("aten::sort.stable({}, stable=true, dim={}, descending={})", x->name, dim, g.flag()), 2};
    default: return Call{fmt::format("aten::{}({})", g.random.pick({"argmax", "argmin"}), x->name)};
  }
}

// ---- scatters ------------------------------------------------------------------------------------------------------------------

// More indices than places, so that most places are written several times.
MaybeCall scatter_again(Grower& g) {
  const Value* x = g.pick([&g](const Value& v) { return is_row_of_numbers(v) && v.numel() > 0 && v.numel() <= 2000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  if (!g.is_constant(a, dim)) return std::nullopt;
  const std::string indices = fmt::format("index {}", std::min<int64_t>(a.concrete[static_cast<size_t>(dim)], g.random.between(1, 4)));
  std::vector<std::string> sizes = a.sizes;
  sizes[static_cast<size_t>(dim)] = g.random.pick({"2", "5", "9", "17"});
  const std::string in_place = a.overlaps || !g.random.chance(0.3) ? "" : "_";
  const std::string length = sizes[static_cast<size_t>(dim)];
  switch (g.random.below(6)) {
    case 0:
      return Call{fmt::format("aten::scatter_add{}({}, {}, {}, {})", in_place, a.name, dim, g.fresh(DType::I64, sizes, indices).name,
                              g.fresh(a.dtype, sizes).name)};
    case 1:
      return Call{fmt::format("aten::index_add{}({}, {}, {}, {})", in_place, a.name, dim, g.fresh(DType::I64, {length}, indices).name,
                              g.fresh(a.dtype, sizes).name)};
    case 2:
      if (dim != 0) return std::nullopt;
      return Call{fmt::format("aten::index_put{}({}, [{}], {}, true)", in_place, a.name, g.fresh(DType::I64, {length}, indices).name,
                              g.fresh(a.dtype, sizes).name)};
    default:
      return Call{fmt::format("aten::scatter_reduce{}.two({}, {}, {}, {}, \"{}\", include_self={})", in_place, a.name, dim,
                              g.fresh(DType::I64, sizes, indices).name, g.fresh(a.dtype, sizes).name,
                              g.random.pick({"amax", "amin", "amax", "amin", "sum", "prod", "mean"}), g.flag())};
  }
}

// ---- writes --------------------------------------------------------------------------------------------------------------------

Value view_of(Grower& g, const Value& x) {
  const int64_t dim = g.dim_of(x);
  switch (g.random.below(5)) {
    case 0: return made(g, fmt::format("aten::select.int({}, {}, {})", x.name, dim, g.random.pick({0, -1})));
    case 1:
      return made(g, fmt::format("aten::slice.Tensor({}, {}, {}, 9223372036854775807, {})", x.name, dim, g.random.pick({0, 1}),
                                 g.random.pick({1, 2})));
    case 2: return made(g, fmt::format("aten::transpose.int({}, {}, {})", x.name, dim, g.dim_of(x)));
    case 3: return made(g, fmt::format("aten::unsqueeze({}, {})", x.name, dim));
    default: {
      if (x.rank() < 2) return made(g, fmt::format("aten::slice.Tensor({}, 0, 0, 2)", x.name));
      return made(g, fmt::format("aten::diagonal({}, {}, 0, 1)", x.name, g.random.pick({0, 1, -1})));
    }
  }
}

void write_to(Grower& g, const Value& x) {
  if (x.is_bool()) {
    made(g, fmt::format("aten::logical_not_({})", x.name));
    return;
  }
  switch (g.random.below(5)) {
    case 0: made(g, fmt::format("aten::add_.Tensor({}, {})", x.name, g.beside(x).name)); break;
    case 1: made(g, fmt::format("aten::copy_({}, {})", x.name, g.beside(x).name)); break;
    case 2: made(g, fmt::format("aten::mul_.Scalar({}, {})", x.name, x.is_float() ? "1.5" : "3")); break;
    case 3: made(g, fmt::format("aten::fill_.Scalar({}, {})", x.name, g.number_for(x))); break;
    default: made(g, fmt::format("aten::add_.Scalar({}, {})", x.name, x.is_float() ? "0.5" : "2"));
  }
}

MaybeCall reading_of_view(Grower& g, const Value& x) {
  if (x.is_bool()) return Call{fmt::format("aten::logical_not({})", x.name)};
  if (g.random.chance(0.3)) return Call{fmt::format("aten::add.Tensor({0}, {0})", x.name)};
  return Call{fmt::format("aten::{}({})", g.random.pick({"neg", "abs", "clone", "square"}), x.name)};
}

// Views of one memory, writes through some of them, and reads through others.
MaybeCall write_and_read(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return may_be_written(v) && has_a_dim(v); });
  if (x == nullptr) return std::nullopt;
  std::vector<Value> views = {*x};
  for (int64_t i = g.random.between(1, 3); i > 0; --i) {
    const Value from = g.random.pick(views);
    if (from.rank() > 0) views.push_back(view_of(g, from));
  }
  for (int64_t i = g.random.between(1, 3); i > 0; --i) {
    write_to(g, g.random.pick(views));
    if (g.random.chance(0.3)) g.make(*reading_of_view(g, g.random.pick(views)));
  }
  return reading_of_view(g, g.random.pick(views));
}

// Tensors that share no memory: in which order a list is written is then no matter.
MaybeCall write_to_list(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return may_be_written(v) && is_float(v); });
  if (x == nullptr) return std::nullopt;
  std::vector<Value> targets = {*x};
  const Value* second =
      g.pick([&](const Value& v) { return may_be_written(v) && v.dtype == targets[0].dtype && !g.share_memory(v, targets[0]); });
  if (second != nullptr && g.random.chance(0.7)) targets.push_back(*second);
  std::vector<std::string> names;
  std::vector<std::string> operands;
  for (const Value& target : targets) {
    names.push_back(target.name);
    const Value* found = g.pick([&](const Value& v) {
      return v.dtype == target.dtype && v.sizes == target.sizes && !g.share_memory(v, targets[0]) && !g.share_memory(v, targets.back());
    });
    operands.push_back(found != nullptr ? found->name : g.fresh(target.dtype, target.sizes).name);
  }
  const std::string list = fmt::format("[{}]", fmt::join(names, ", "));
  const std::string others = fmt::format("[{}]", fmt::join(operands, ", "));
  switch (g.random.below(4)) {
    case 0: return Call{fmt::format("aten::_foreach_{}({})", g.random.pick({"neg_", "abs_", "zero_"}), list), 0};
    case 1:
      return Call{fmt::format("aten::_foreach_{}_.Scalar({}, {})", g.random.pick({"add", "mul", "sub"}), list, g.number_for(targets[0])),
                  0};
    case 2: return Call{fmt::format("aten::_foreach_lerp_.Scalar({}, {}, 0.25)", list, others), 0};
    default: return Call{fmt::format("aten::_foreach_{}_.List({}, {})", g.random.pick({"add", "mul", "sub"}), list, others), 0};
  }
}

// What is not folded, because it is computed from an input too.
MaybeCall use_weight(Grower& g) {
  const Value* x = g.pick([&g](const Value& v) {
    bool fixed = is_number(v) && !g.is_in_body();
    for (int64_t d = 0; d < v.rank(); ++d) fixed = fixed && g.is_constant(v, d);
    return fixed && v.rank() >= 1;
  });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::string weight = g.weight(a.dtype, a.sizes).name;
  const std::string op = g.random.pick({"add.Tensor", "mul.Tensor", "sub.Tensor", "maximum"});
  return Call{fmt::format("aten::{}({}, {})", op, a.name, weight)};
}

// A buffer that this call changes, and that it or the next one reads.
MaybeCall update_buffer(Grower& g) {
  const Value buffer = some(g, [](const Value& v) { return v.is_buffer && !v.overlaps; }, DType::F32, {g.some_size()});
  if (!buffer.is_buffer) return std::nullopt;
  if (g.random.chance(0.3)) g.make(*reading_of_view(g, buffer));
  write_to(g, buffer.rank() > 0 && g.random.chance(0.4) ? view_of(g, buffer) : buffer);
  return g.random.chance(0.6) ? reading_of_view(g, buffer) : std::nullopt;
}

// ---- operators that are nearly equal -------------------------------------------------------------------------------------------

MaybeCall pad_twice(Grower& g) {
  const Value* x = g.pick(is_row_of_numbers);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const std::vector<std::string> amounts = {std::to_string(g.random.between(0, 3)), std::to_string(g.random.between(1, 3))};
  made(g, fmt::format("aten::constant_pad_nd({}, [{}], {})", a.name, fmt::join(amounts, ", "), g.number_for(a)));
  return Call{fmt::format("aten::constant_pad_nd({}, [{}], {})", a.name, fmt::join(amounts, ", "), g.number_for(a))};
}

MaybeCall cut_and_join(Grower& g) {
  const Value* x = g.pick(has_a_dim);
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  if (!g.is_constant(a, dim) || a.concrete[static_cast<size_t>(dim)] < 2) return std::nullopt;
  const int64_t cut = g.random.between(1, a.concrete[static_cast<size_t>(dim)] - 1);
  const Value low = made(g, fmt::format("aten::slice.Tensor({}, {}, 0, {})", a.name, dim, cut));
  const Value high = made(g, fmt::format("aten::slice.Tensor({}, {}, {}, 9223372036854775807)", a.name, dim, cut));
  const std::vector<std::string> parts = {low.name, high.name, a.name};
  return Call{fmt::format("aten::cat([{}, {}, {}], {})", g.random.pick(parts), g.random.pick(parts), g.random.pick(parts), dim)};
}

// ---- random numbers ------------------------------------------------------------------------------------------------------------

MaybeCall draw_twice(Grower& g) {
  const Value* x = g.pick(is_float);
  if (x == nullptr) return std::nullopt;
  const std::string call = g.random.chance(0.2)
                               ? fmt::format("aten::dropout({}, 0.5, true)", x->name)
                               : fmt::format("aten::{}({})", g.random.pick({"rand_like", "randn_like", "exponential"}), x->name);
  const std::string first = made(g, call).name;
  const std::string second = made(g, call).name;
  return Call{fmt::format("aten::{}({}, {})", g.random.pick({"sub.Tensor", "eq.Tensor", "mul.Tensor"}), first, second)};
}

// ---- index arithmetic ----------------------------------------------------------------------------------------------------------

// One dim cut in two, or two made one, with something between that mixes their order.
MaybeCall regroup(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.rank() >= 2 && v.rank() <= 3; });
  if (x == nullptr) return std::nullopt;
  Value a = *x;
  std::vector<std::string> sizes = a.sizes;
  if (g.random.chance(0.6)) a = made(g, fmt::format("aten::transpose.int({}, {}, {})", a.name, g.dim_of(a), g.dim_of(a)));
  if (g.random.chance(0.3)) a = made(g, fmt::format("aten::flip({}, [{}])", a.name, g.dim_of(a)));
  const Value flat = made(g, fmt::format("aten::reshape({}, [-1])", a.name));
  if (g.random.chance(0.3)) return Call{fmt::format("aten::roll({}, [{}], [0])", flat.name, g.random.pick({1, 3, -2}))};
  if (g.random.chance(0.5)) std::swap(sizes.front(), sizes.back());
  if (g.random.chance(0.4))
    return Call{
        fmt::format("aten::slice.Tensor({}, 0, {}, 9223372036854775807, {})", flat.name, g.random.pick({0, 1}), g.random.pick({2, 3}))};
  return Call{fmt::format("aten::reshape({}, [{}])", flat.name, fmt::join(sizes, ", "))};
}

std::vector<OperatorRow> with(std::vector<OperatorRow> rows, const std::vector<OperatorRow>& more, double share) {
  double all = 0;
  for (const OperatorRow& row : more) all += row.weight;
  for (const OperatorRow& row : more) rows.push_back({row.weight * share / all, row.make});
  return rows;
}

}  // namespace

const std::vector<Theme>& themes() {
  using enum DType;
  static const std::vector<Theme> list = {
      {.weight = 28, .name = "anything", .twins = 0.12},
      {.weight = 5,
       .name = "signs of zeros",
       .shapes = Shapes::Fixed,
       .dtypes = {F32, F32, F64, BF16},
       .elements = {"signs"},
       .rows = {{3, bound_at_zero}, {3, sign_of_zero}}},
      {.weight = 6, .name = "16 bits", .dtypes = {F32, F32, BF16, F16}, .elements = {"unit"}, .rows = {{1, to_16_bits_and_back}}},
      {.weight = 6,
       .name = "long rows",
       .shapes = Shapes::LongRows,
       .dtypes = {F32, F32, F64, BF16, I64, I32, Bool},
       .elements = {"unit", "negative"},
       .rows = {{1, reduce_long_row}}},
      {.weight = 4,
       .name = "many rows",
       .shapes = Shapes::ManyRows,
       .dtypes = {F32, F32, I64},
       .elements = {"unit", "negative"},
       .rows = {{1, loss_over_rows}}},
      {.weight = 5, .name = "equal elements", .elements = {"ties"}, .rows = {{1, scan_ties}}},
      {.weight = 6, .name = "scatters", .elements = {"ties", "negative"}, .rows = {{1, scatter_again}}},
      {.weight = 8, .name = "writes", .rows = {{3, write_and_read}, {1, write_to_list}}},
      {.weight = 8,
       .name = "state",
       .shapes = Shapes::Fixed,
       .state = 1,
       .rows = {{3, update_buffer}, {1, write_to_list}, {2, use_weight}}},
      {.weight = 6, .name = "twins", .twins = 0.4, .rows = {{1, pad_twice}, {1, cut_and_join}}},
      {.weight = 6, .name = "index arithmetic", .shapes = Shapes::Symbolic, .rows = with({{1, regroup}}, moving_operators(), 1)},
      {.weight = 4, .name = "random numbers", .rows = with({{2, draw_twice}}, control_flow_operators(), 1)},
      {.weight = 4, .name = "complex numbers", .dtypes = {F32, F32, F64}, .rows = complex_operators()},
      {.weight = 6, .name = "control flow", .rows = control_flow_operators()},
      {.weight = 10, .name = "weights", .dtypes = {F32, F32, F32, F64, BF16}, .elements = {"unit"}, .rows = weight_operators()},
      {.weight = 6, .name = "layers", .dtypes = {F32, F32, F32, F64, BF16}, .rows = network_operators()},
  };
  return list;
}

}  // namespace toroid::fuzz
