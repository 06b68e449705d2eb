// Complex numbers in random programs: made of two real tensors, computed with, and taken apart again. Inputs and outputs are real.
#include <fmt/format.h>

#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

bool has_parts(const Value& v) { return v.dtype == DType::F32 || v.dtype == DType::F64; }

Call typed(const Value& x, std::string text) { return {.text = std::move(text), .types = {type_text(x.dtype, x.sizes)}}; }

MaybeCall from_parts(Grower& g) {
  const Value* x = g.is_in_body() ? nullptr : g.pick(has_parts);
  if (x == nullptr) return std::nullopt;
  Value result = *x;
  const Value* found = g.pick([&](const Value& v) { return v.dtype == result.dtype && v.sizes == result.sizes; });
  result.dtype = result.dtype == DType::F32 ? DType::C64 : DType::C128;
  return typed(result, fmt::format("aten::{}({}, {})", g.random.pick({"complex", "complex", "polar"}), x->name, found->name));
}

MaybeCall of_one(Grower& g) {
  const Value* x = g.pick_complex();
  if (x == nullptr) return std::nullopt;
  const std::string op = g.random.pick({"conj_physical", "neg", "exp", "sin", "cosh", "square", "reciprocal", "sigmoid", "sgn", "clone"});
  return typed(*x, fmt::format("aten::{}({})", op, x->name));
}

MaybeCall of_two(Grower& g) {
  const Value* x = g.pick_complex();
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  if (g.random.chance(0.3)) {
    const std::string op = g.random.pick({"add.Scalar", "mul.Scalar", "div.Scalar", "rsub.Scalar"});
    return typed(a, fmt::format("aten::{}({}, {})", op, a.name, g.random.pick({"2", "-0.5", "1.5"})));
  }
  const Value* y = g.pick_complex();
  if (y->dtype != a.dtype || y->sizes != a.sizes) return std::nullopt;
  const std::string op = g.random.pick({"add.Tensor", "sub.Tensor", "mul.Tensor", "mul.Tensor", "div.Tensor"});
  return typed(a, fmt::format("aten::{}({}, {})", op, a.name, y->name));
}

MaybeCall moved(Grower& g) {
  const Value* x = g.pick_complex();
  if (x == nullptr || x->rank() == 0) return std::nullopt;
  Value result = *x;
  const int64_t dim = g.dim_of(result);
  const auto d = static_cast<size_t>(dim);
  switch (g.random.below(5)) {
    case 0: {
      const int64_t other = g.dim_of(result);
      std::swap(result.sizes[d], result.sizes[static_cast<size_t>(other)]);
      return typed(result, fmt::format("aten::transpose.int({}, {}, {})", x->name, dim, other));
    }
    case 1: return typed(result, fmt::format("aten::flip({}, [{}])", x->name, dim));
    case 2: return typed(result, fmt::format("aten::roll({}, [{}], [{}])", x->name, g.random.pick({1, -2}), dim));
    case 3:
      result.sizes.erase(result.sizes.begin() + dim);
      return typed(result, fmt::format("aten::{}({}, [{}])", g.random.pick({"sum.dim_IntList", "mean.dim"}), x->name, dim));
    default:
      result.sizes.insert(result.sizes.begin() + dim, "1");
      return typed(result, fmt::format("aten::unsqueeze({}, {})", x->name, dim));
  }
}

MaybeCall to_real(Grower& g) {
  const Value* x = g.pick_complex();
  if (x == nullptr) return std::nullopt;
  return Call{fmt::format("aten::{}({})", g.random.pick({"abs", "real", "imag", "view_as_real", "view_as_real"}), x->name)};
}

// Into complex numbers, a few operators, and back.
MaybeCall there_and_back(Grower& g) {
  const MaybeCall start = from_parts(g);
  if (!start || g.make(*start) == nullptr) return std::nullopt;
  for (int64_t i = g.random.between(1, 4); i > 0; --i) {
    const double which = g.random.unit();
    const MaybeCall call = which < 0.3 ? of_one(g) : which < 0.7 ? of_two(g) : moved(g);
    if (call) g.make(*call);
  }
  return to_real(g);
}

}  // namespace

std::vector<OperatorRow> complex_operators() { return {{3, there_and_back}, {1, to_real}}; }

}  // namespace toroid::fuzz
